"""What the Fourier transform counts, against the same in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Number, Tally

Complex = tuple[Number, Number]


def add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def multiply(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def transform(x: list[Complex], tally: Tally, stride: int = 1) -> list[Complex]:
    """Radix 4, decimated in frequency, as a recursion; radix 2 for the last two points."""
    if len(x) == 1:
        return x
    if len(x) == 2:
        return [add(x[0], x[1]), subtract(x[0], x[1])]
    quarter = len(x) // 4
    parts: list[list[Complex]] = [[], [], [], []]
    for p in range(quarter):
        a, b, c, d = (x[p + k * quarter] for k in range(4))
        even, odd = add(a, c), add(b, d)
        difference, other = subtract(a, c), subtract(b, d)
        turned = other[1], tally.number(-float(other[0]))  # times -i: no FLOP
        w = [(tally.twiddle[0, k * p * stride], tally.twiddle[1, k * p * stride]) for k in range(4)]
        parts[0].append(add(even, odd))
        parts[1].append(multiply(w[1], add(difference, turned)))
        parts[2].append(multiply(w[2], subtract(even, odd)))
        parts[3].append(multiply(w[3], subtract(difference, turned)))
    transformed = [transform(part, tally, 4 * stride) for part in parts]
    return [value for group in zip(*transformed, strict=True) for value in group]


@pytest.mark.parametrize("n", [16, 32])
def test_transform_executes_less_than_the_customary_claim(n: int) -> None:
    call = prepare(case("fft", n=n))
    tally = Tally(call)
    y = transform([(tally.x[0, j], tally.x[1, j]) for j in range(n)], tally)
    call()
    real, imaginary = np.array([[float(part) for part in pair] for pair in y]).T
    assert real == pytest.approx(call.arrays["y"][0])
    assert imaginary == pytest.approx(call.arrays["y"][1])
    assert tally.flops == executed_flops("fft", call.case.params) < call.case.declared_flops


def test_powers_of_four_execute_17_twentieths_of_the_claim() -> None:
    one_million = case("fft", n=1 << 20)
    assert executed_flops("fft", one_million.params) * 20 == one_million.declared_flops * 17


def test_declared_bytes_are_three_numbers_a_point() -> None:
    n = 16
    assert case("fft", n=n).declared_bytes == 3 * 16 * n
