"""The kernel's arrays, each between unreadable guards so that a write past either end is noticed.

An array ends as close to the guard behind it as its alignment allows. The bytes that remain between array
and guard hold a canary. Every page is written when the array is filled: a page that never was written reads
from one shared zero page, at cache speed.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ..errors import KernelFailed
from ..native import ffi, lib
from .plan import ELEMENT_TYPES, ArrayPlan

PAGE = os.sysconf("SC_PAGE_SIZE")
GUARD = 1 << 28
"""Bytes of each guard: addresses only, and wide enough to be hit by most indices that are wrong."""
CANARY = 0xCB
MAX_FILL_THREADS = 4


class Span(NamedTuple):
    """Where an array lies."""

    name: str
    start: int
    bytes: int
    huge_pages: bool = False


class GuardedMemory:
    """``bytes`` of memory at :attr:`start`, with guards and canaries around."""

    def __init__(self, name: str, size: int, align: int = 16) -> None:
        self.name, self.bytes = name, size
        align = max(align, 1)
        spare = align if align > PAGE else 0
        self._mapped = _round_up(max(size, 1), PAGE) + spare
        self._map: int = lib.run_map(self._mapped, GUARD)
        if not self._map:
            raise KernelFailed(
                "setup", f"no memory for {name} ({size} bytes); make the kernel's parameters smaller"
            )
        self.start = (self._map + self._mapped - size) // align * align
        self.first_page = self.start // PAGE * PAGE
        self.page_bytes = _round_up(self.start + max(size, 1), PAGE) - self.first_page
        # What an alignment beyond the page leaves over belongs to the guards.
        lib.run_protect(self._map, self.first_page - self._map, 0)
        last = self.first_page + self.page_bytes
        lib.run_protect(last, self._map + self._mapped - last, 0)
        self._before = self.start - self.first_page
        self._behind = last - (self.start + size)
        ffi.memmove(self.pointer(self.first_page), bytes([CANARY]) * self._before, self._before)
        ffi.memmove(self.pointer(self.start + size), bytes([CANARY]) * self._behind, self._behind)

    @staticmethod
    def pointer(address: int) -> Any:
        return ffi.cast("char *", address)

    def view(self) -> Any:
        """Return the memory as a writable buffer; it must not be used after :meth:`free`."""
        return ffi.buffer(self.pointer(self.start), self.bytes)

    def protect(self, read_only: bool) -> None:
        """Make the array read-only, or writable again."""
        error = lib.run_protect(self.first_page, self.page_bytes, 1 if read_only else 2)
        if error:
            raise KernelFailed("setup", f"cannot protect {self.name}: {os.strerror(error)}")

    def damage(self) -> str | None:
        """Say where the canaries around the array were overwritten, or return ``None``."""
        end = self.start + self.bytes
        if lib.run_find_other(end, self._behind, CANARY) < self._behind:
            changed = self._changed(end, self._behind)
            told = f"bytes {changed[0]} to {changed[-1]} beyond it"
            return f"wrote just past the end of {self.name} ({self.bytes} bytes), {told}"
        if lib.run_find_other(self.first_page, self._before, CANARY) < self._before:
            changed = [self._before - place for place in self._changed(self.first_page, self._before)]
            told = f"{changed[0]} to {changed[-1]} bytes before it"
            return f"wrote just before the start of {self.name} ({self.bytes} bytes), {told}"
        return None

    def _changed(self, start: int, size: int) -> list[int]:
        content = ffi.buffer(self.pointer(start), size)[:]
        return [place for place, byte in enumerate(content) if byte != CANARY]

    def free(self) -> None:
        if self._map:
            lib.run_unmap(self._map, self._mapped, GUARD)
            self._map = 0


class GuardedArray(GuardedMemory):
    """One array of the plan."""

    def __init__(self, plan: ArrayPlan) -> None:
        super().__init__(plan.name, plan.bytes, plan.align)
        self.plan = plan

    def fill(self) -> None:
        """Write the array's initial contents."""
        fill = self.plan.fill
        if fill.kind == "file":
            self._load(fill.path)
            return
        kind, numbers, size = ELEMENT_TYPES[self.plan.dtype]
        how = ffi.new("struct run_fill *")
        how.kind, how.type = getattr(lib, fill.kind), getattr(lib, kind)
        how.seed, how.every, how.threads = fill.seed, 1, _fill_threads()
        count = self.bytes // size * numbers
        if fill.real_only:  # the imaginary parts stay zero
            how.kind = lib.RUN_FILL_CONSTANT
            self._run(count, how)
            how.kind, how.every, count = getattr(lib, fill.kind), 2, count // 2
        how.first_float, how.last_float, how.step_float = fill.first, fill.last, fill.step
        if self.plan.dtype[0] in "iu":
            how.first, how.last, how.step = (
                _signed(int(value)) for value in (fill.first, fill.last, fill.step)
            )
        how.per_row, how.columns = fill.per_row, fill.columns
        self._run(count, how)

    def _run(self, count: int, how: Any) -> None:
        if lib.run_fill(self.start, count, how):
            kind = self.plan.fill.kind.removeprefix("RUN_FILL_").lower()
            raise KernelFailed(
                "input", f"array {self.name} of {self.plan.dtype} cannot be filled with {kind}"
            )

    def _load(self, path: str) -> None:
        import numpy as np

        from ..spec import DTYPES

        try:
            content = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise KernelFailed("input", f"array {self.name}: {path} cannot be read: {error}") from None
        wanted = np.dtype(DTYPES[self.plan.dtype][0])
        if content.dtype != wanted or content.shape != self.plan.shape:
            raise KernelFailed(
                "input",
                f"array {self.name}: {path} holds {content.dtype} {content.shape}; "
                f"expected {wanted} {self.plan.shape}",
            )
        np.frombuffer(self.view(), wanted).reshape(self.plan.shape)[...] = content


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _signed(value: int) -> int:
    """Return the i64 with the same bits."""
    value %= 1 << 64
    return value - (1 << 64) if value >= 1 << 63 else value


def _fill_threads() -> int:
    """Return how many threads may fill: on one memory node it does not matter who touches a page first."""
    try:
        with open("/sys/devices/system/node/online") as file:
            one_node = file.read().strip() == "0"
    except OSError:
        one_node = True
    return min(len(os.sched_getaffinity(0)), MAX_FILL_THREADS) if one_node else 1
