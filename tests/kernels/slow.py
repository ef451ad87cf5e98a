"""Kernels written out in plain Python on numbers that count: the yardstick for claims about FLOPs and bytes.

An addition, subtraction, multiplication, division or square root of a :class:`Number` is one FLOP; comparing
and taking the magnitude are none. An :class:`Array` remembers which elements were touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .calling import Call


class Tally:
    """The arrays of one kernel as counting arrays, as they were before its first call."""

    def __init__(self, call: Call) -> None:
        self.flops = 0
        self.arrays = {name: Array(array.copy(), self) for name, array in call.initial.items()}

    def __getattr__(self, name: str) -> Array:
        return self.arrays[name]

    def number(self, value: float) -> Number:
        return Number(float(value), self)

    def touched_bytes(self, *but: str) -> int:
        """Bytes of all distinct elements touched, leaving out some arrays."""
        arrays = (array for name, array in self.arrays.items() if name not in but)
        return sum(len(array.touched) * array.values.itemsize for array in arrays)


class Number:
    """A double that counts what is done with it."""

    def __init__(self, value: float, tally: Tally) -> None:
        self.value, self.tally = value, tally

    def _after(self, value: float) -> Number:
        self.tally.flops += 1
        return Number(value, self.tally)

    def __add__(self, other: Any) -> Number:
        return self._after(self.value + float(other))

    def __sub__(self, other: Any) -> Number:
        return self._after(self.value - float(other))

    def __mul__(self, other: Any) -> Number:
        return self._after(self.value * float(other))

    def __truediv__(self, other: Any) -> Number:
        return self._after(self.value / float(other))

    def __rsub__(self, other: float) -> Number:
        return self._after(other - self.value)

    def __rtruediv__(self, other: float) -> Number:
        return self._after(other / self.value)

    __radd__, __rmul__ = __add__, __mul__

    def sqrt(self) -> Number:
        return self._after(math.sqrt(self.value))

    def __abs__(self) -> Number:
        return Number(abs(self.value), self.tally)

    def __lt__(self, other: Any) -> bool:
        return self.value < float(other)

    def __float__(self) -> float:
        return self.value


class Array:
    """A NumPy array whose elements are read as numbers that count (integers as they are)."""

    def __init__(self, values: np.ndarray, tally: Tally) -> None:
        self.values, self.tally = values, tally
        self.touched: set[tuple[int, ...]] = set()

    def __getitem__(self, index: int | tuple[int, ...]) -> Any:
        key = index if isinstance(index, tuple) else (index,)
        assert min(key) >= 0
        self.touched.add(key)
        value = self.values[key]
        return int(value) if self.values.dtype.kind == "i" else Number(float(value), self.tally)

    def __setitem__(self, index: int | tuple[int, ...], value: Number | float) -> None:
        key = index if isinstance(index, tuple) else (index,)
        assert min(key) >= 0
        self.touched.add(key)
        self.values[key] = float(value)


def total(tally: Tally, numbers: Iterable[Number]) -> Number:
    """The sum of numbers, started from zero as C code does."""
    sum_ = tally.number(0)
    for number in numbers:
        sum_ = sum_ + number
    return sum_
