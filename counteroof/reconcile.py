"""Declared against counted: the ledger that leads from declared bytes to actual bytes, cause by cause.

Every line is an integer number of bytes of one call, and the lines between the first and the last add up to
their difference exactly. A cause is named only where the measurement supports it; what it cannot tell apart
stands in one line whose name says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .count.base import OTHER, WALKS, ArrayTraffic, Count, Measurement, Status

DECLARED = "declared"
TOUCHED = "touched but not in the formula"
UNTOUCHED = "in the formula but not touched"
MOVED = "moved but not in the formula"
NOT_MOVED = "in the formula but not moved"
WRITE_ALLOCATE = "write-allocate"
READ_OR_ALLOCATE = "first fetch: read or write-allocate, not told apart"
UNUSED = "unused part of fetched lines"
AGAIN_CAPACITY = "fetched again: capacity"
AGAIN_CONFLICT = "fetched again: conflict"
AGAIN = "fetched again"
WRITTEN_AGAIN = "written back more than once"
PREFETCHED = "prefetched, never used"
OTHER_DATA = "stack, tables and other data"
STAYED = "stayed in cache"
NO_ARRAY = "not attributed to any array"
NOT_TOLD = "not told apart"
MODELLED = "modelled"
UNEXPLAINED = "unexplained"
ACTUAL = "actual"

MEANINGS = {
    DECLARED: "what the author's formula says",
    TOUCHED: "loaded or stored beyond the formula's bytes, once for each way",
    UNTOUCHED: "the formula counts more than was loaded and stored, once for each way",
    MOVED: "distinct lines moved beyond the formula's bytes; unused parts of lines are in it",
    NOT_MOVED: "bytes of the formula that stayed in cache, or were never touched",
    WRITE_ALLOCATE: "lines read because they were about to be written",
    READ_OR_ALLOCATE: "this counter does not say whether a line's first fetch was for a load or for a store",
    UNUSED: "bytes of lines loaded or stored that the program did not touch itself",
    AGAIN_CAPACITY: "lines read once more that a fully associative cache of this size would have lost too",
    AGAIN_CONFLICT: "lines read once more that a fully associative cache of this size would have kept",
    AGAIN: "lines read from memory that had been in cache before, in this call or when it began",
    WRITTEN_AGAIN: "lines written to memory once more in the same call",
    PREFETCHED: "lines that a hardware prefetcher read and the program did not touch before they left",
    OTHER_DATA: "traffic of no argument",
    STAYED: "lines loaded or stored that did not need memory",
    NO_ARRAY: "total minus the sum of the arrays",
    NOT_TOLD: "the counter gives no traffic by array, so the causes cannot be told apart",
    MODELLED: "DRAM bytes of the cache model",
    UNEXPLAINED: "hardware count minus what is explained above",
    ACTUAL: "bytes that placed the dot",
}
"""What each cause means, for legends."""

_TRUST: tuple[Status, ...] = ("counted", "scaled", "instrumented", "imported", "modelled", "unavailable")
"""A sum is worth what its weakest part is worth; the weakest come last."""

_TOTALS = (DECLARED, MODELLED, ACTUAL)


@dataclass(frozen=True)
class LedgerLine:
    """One step from declared to actual bytes.

    ``bytes`` is signed; it is ``None`` only in a total (declared, modelled, actual) that could not be had.
    ``array`` is the argument it belongs to, ``(page walks)``, or ``None`` for the kernel as a whole.
    """

    cause: str
    bytes: int | None
    array: str | None = None

    @property
    def total(self) -> bool:
        """Whether the line is a sum rather than a step."""
        return self.cause in _TOTALS


def ledger(
    declared_bytes: float | None, explained: Measurement | None, counted: Count | None = None
) -> tuple[LedgerLine, ...]:
    """Return the lines from declared to actual bytes.

    Parameters
    ----------
    declared_bytes
        The claim, or ``None`` if there is none; then the lines lead from nothing to actual.
    explained
        The measurement whose arrays explain the bytes, usually the instrumented one, or ``None``.
    counted
        The DRAM bytes of a hardware counter, if one placed the dot.
    """
    declared = None if declared_bytes is None else _whole(declared_bytes)
    modelled = None if explained is None else _whole_count(dram_bytes(explained))
    hardware = None if counted is None else _whole_count(counted)
    actual = modelled if hardware is None else hardware
    head = LedgerLine(DECLARED, declared)
    tail = LedgerLine(ACTUAL, actual)
    start = declared or 0
    if modelled is None or explained is None:
        if actual is None:
            return head, tail
        return head, LedgerLine(UNEXPLAINED, actual - start), tail
    causes = tuple(line for line in _causes(start, modelled, explained.arrays) if line.bytes)
    middle = (*causes, LedgerLine(MODELLED, modelled))
    if hardware is None:
        return head, *middle, tail
    return head, *middle, LedgerLine(UNEXPLAINED, hardware - modelled), tail


def dram_bytes(measurement: Measurement) -> Count:
    """Return the bytes read from and written to memory, together; unavailable if either is.

    Some counters have only the sum.
    """
    if measurement.dram_bytes is not None:
        return measurement.dram_bytes
    read, write = measurement.dram_read_bytes, measurement.dram_write_bytes
    if read.value is None:
        return read
    if write.value is None:
        return write
    reasons = dict.fromkeys(count.reason for count in (read, write) if count.reason)
    return Count(
        read.value + write.value,
        max(read.status, write.status, key=_TRUST.index),
        read.source if read.source == write.source else f"{read.source} + {write.source}",
        "; ".join(reasons) or None,
    )


def disagreements(measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Say how far hardware counters are from the engine: FLOPs as such counters have them, and DRAM bytes."""
    measurements = tuple(measurements)
    engine = next((one for one in measurements if one.hardware_flops is not None), None)
    if engine is None:
        return ()
    said = []
    for one in measurements:
        if one is engine or one.flops.status not in ("counted", "scaled", "unavailable"):
            continue
        pairs = (
            ("FLOPs, as this processor's counters have them", one.flops.value, engine.hardware_flops),
            ("DRAM bytes", dram_bytes(one).value, dram_bytes(engine).value),
        )
        for what, hardware, ours in pairs:
            if hardware is None or ours is None:
                continue
            apart = f"{hardware / ours - 1:+.1%}" if ours else "none by the engine"
            said.append(
                f"{what}: {one.counter} {hardware:.6g}, {engine.counter} {ours:.6g}: "
                + ("equal" if hardware == ours else apart)
            )
    return tuple(said)


def check(lines: Iterable[LedgerLine]) -> str | None:
    """Return what is wrong with a ledger, or ``None`` if it begins, ends and adds up as it must."""
    lines = tuple(lines)
    if len(lines) < 2 or lines[0].cause != DECLARED or lines[-1].cause != ACTUAL:
        return f"a ledger begins with {DECLARED!r} and ends with {ACTUAL!r}"
    running = lines[0].bytes or 0
    for line in lines[1:]:
        if line.bytes is None:
            if line.total and len(lines) == 2:
                continue
            return f"{line.cause!r} has no bytes"
        if line.total:
            if line.bytes != running:
                return f"the lines before {line.cause!r} add up to {running}, but it says {line.bytes}"
        else:
            running += line.bytes
    return None


def _causes(declared: int, modelled: int, arrays: tuple[ArrayTraffic, ...]) -> list[LedgerLine]:
    """Return the steps from ``declared`` to ``modelled`` in the ledger's order, zeros included."""
    arguments = [array for array in arrays if array.name not in (OTHER, WALKS)]
    steps = [step for array in arguments for step in _repeats(array)]
    steps += [LedgerLine(OTHER_DATA, _moved(array)) for array in arrays if array.name == OTHER]
    steps += [LedgerLine(OTHER_DATA, _moved(array), WALKS) for array in arrays if array.name == WALKS]
    if not arguments:
        steps.append(LedgerLine(NOT_TOLD, modelled - declared - sum(step.bytes or 0 for step in steps)))
        return steps
    if all(_reach_known(array) for array in arguments):
        steps += [_stayed(array) for array in arguments]
        steps += [LedgerLine(UNUSED, array.unused_bytes or 0, array.name) for array in arguments]
        more, less = TOUCHED, UNTOUCHED
    else:
        more, less = MOVED, NOT_MOVED
    attributed = sum(_moved(array) for array in arrays)
    needed = attributed - sum(step.bytes or 0 for step in steps) - declared
    steps.append(LedgerLine(more if needed > 0 else less, needed))
    steps.append(LedgerLine(NO_ARRAY, modelled - attributed))
    order = list(MEANINGS)
    return sorted(_merged(steps), key=lambda step: order.index(step.cause))


def _merged(steps: Iterable[LedgerLine]) -> list[LedgerLine]:
    """Return the steps with those of the same cause and array added up."""
    sums: dict[tuple[str, str | None], int] = {}
    for step in steps:
        key = (step.cause, step.array)
        sums[key] = sums.get(key, 0) + (step.bytes or 0)
    return [LedgerLine(cause, size, array) for (cause, array), size in sums.items()]


def _repeats(array: ArrayTraffic) -> list[LedgerLine]:
    """Return what one array moved beyond one read of each line loaded and one write of each line stored."""
    again = array.read_again_bytes
    # Of the first fetches, those for a store are write-allocates. A counter that has only the write-allocates
    # of first and repeated fetches together leaves a range; where its ends meet, the number is exact.
    if array.first_write_allocate_bytes is not None:
        lowest = highest = array.first_write_allocate_bytes
    else:
        highest = min(array.write_allocate_bytes, array.unique_read_bytes)
        lowest = min(max(0, array.write_allocate_bytes - again), highest)
    return [
        LedgerLine(WRITE_ALLOCATE, lowest, array.name),
        LedgerLine(READ_OR_ALLOCATE, highest - lowest, array.name),
        *_again(array, again),
        LedgerLine(WRITTEN_AGAIN, array.dram_write_bytes - array.unique_write_bytes, array.name),
        LedgerLine(PREFETCHED, array.prefetched_unused_bytes or 0, array.name),
    ]


def _again(array: ArrayTraffic, again: int) -> list[LedgerLine]:
    """Return the lines fetched again by cause, where the counter tells the causes of all of them."""
    capacity, conflict = array.again_capacity_bytes, array.again_conflict_bytes
    if capacity is None or conflict is None or capacity + conflict != again:
        return [LedgerLine(AGAIN, again, array.name)]
    return [
        LedgerLine(AGAIN_CAPACITY, capacity, array.name),
        LedgerLine(AGAIN_CONFLICT, conflict, array.name),
    ]


def _reach_known(array: ArrayTraffic) -> bool:
    known = (array.first_write_allocate_bytes, array.touched_read_bytes, array.touched_write_bytes)
    return None not in known


def _stayed(array: ArrayTraffic) -> LedgerLine:
    """Return the lines one array touched that memory never saw, as a negative number.

    If more lines moved than needed to, some were in cache when the call began, were stored to without a
    fetch, left, and were then read: fetched again.
    """
    touched = (array.touched_read_bytes or 0) + (array.touched_write_bytes or 0)
    moved = array.unique_read_bytes - (array.first_write_allocate_bytes or 0) + array.unique_write_bytes
    return LedgerLine(STAYED if moved <= touched else AGAIN, moved - touched, array.name)


def _moved(array: ArrayTraffic) -> int:
    return array.dram_read_bytes + array.dram_write_bytes


def _whole(value: float) -> int:
    if not math.isfinite(value):
        raise ValueError(f"a number of bytes must be finite, not {value}")
    return round(value)


def _whole_count(count: Count) -> int | None:
    return None if count.value is None else _whole(count.value)
