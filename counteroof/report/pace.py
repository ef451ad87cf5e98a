"""Tables beside those of bytes: from declared to executed FLOPs, how arrays were walked, loops that wait."""

from __future__ import annotations

from dataclasses import dataclass

from .. import flop_ledger, units
from ..results import KernelResult


@dataclass(frozen=True)
class Table:
    """A titled table; of each heading whether the column under it holds numbers. ``notes`` stand below."""

    title: str
    headings: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tables(kernel: KernelResult) -> tuple[Table, ...]:
    """Return the tables of a kernel, without those that would be empty."""
    made = (_flops(kernel), _strides(kernel), _translated(kernel), _reuse(kernel), _chains(kernel))
    return tuple(one for one in made if one.rows)


def _flops(kernel: KernelResult) -> Table:
    rows = []
    for line in kernel.flop_ledger:
        total = line.part or line.cause in (flop_ledger.DECLARED, flop_ledger.EXECUTED)
        sign = "" if total or line.flops is None or line.flops < 0 else "+"
        meaning = flop_ledger.MEANINGS.get(line.cause, "")
        rows.append((f"{sign}{units.count(line.flops)}", line.cause, line.where or "", meaning))
    headings = (("FLOPs", True), ("cause", False), ("function", False), ("meaning", False))
    return Table("from declared to executed FLOPs", headings, tuple(rows))


def _strides(kernel: KernelResult) -> Table:
    rows = []
    for one in (one for measurement in kernel.counters.values() for one in measurement.strides):
        stride = "no stride that came again" if one.stride is None else f"{one.stride} bytes"
        said = "nothing left out" if one.contiguous else ""
        rows.append((one.array, units.percent(one.share), stride, said))
    headings = (("array", False), ("of accesses", True), ("from one to the next", True), ("", False))
    return Table("how arrays were walked", headings, tuple(rows))


def _translated(kernel: KernelResult) -> Table:
    rows = tuple(
        (one.name, units.count(one.tlb_misses), units.count(one.page_walks))
        for one in kernel.arrays
        if one.tlb_misses is not None
    )
    headings = (("array", False), ("not in the first TLB", True), ("in none: page walks", True))
    return Table("addresses to be translated", headings, rows)


def _reuse(kernel: KernelResult) -> Table:
    """Return the share of each array's accesses by reuse distance, by powers of two."""
    arrays = [(one.name, one.reuse) for one in kernel.arrays if one.reuse is not None]
    arrays = [(name, reuse) for name, reuse in arrays if reuse.cold or reuse.counts]

    def row(text: str, numbers: list[int]) -> tuple[str, ...]:
        totals = (reuse.cold + sum(reuse.counts) for _, reuse in arrays)
        shares = zip(numbers, totals, strict=True)
        return (text, *(units.percent(number / total) if number else "" for number, total in shares))

    rows = []
    for k in range(max((len(reuse.counts) for _, reuse in arrays), default=0)):
        numbers = [reuse.counts[k] if k < len(reuse.counts) else 0 for _, reuse in arrays]
        if any(numbers):
            rows.append(row(_distance(k), numbers))
    if any(reuse.cold for _, reuse in arrays):
        rows.append(row("never before", [reuse.cold for _, reuse in arrays]))
    headings = (("lines in between", False), *((name, True) for name, _ in arrays))
    notes = ("a fully associative LRU cache misses what has as many lines in between as it has room for",)
    return Table("accesses by reuse distance", headings, tuple(rows), notes)


def _distance(k: int) -> str:
    if k < 2:
        return f"{k}"
    return f"{1 << (k - 1)} to {(1 << k) - 1}"


def _chains(kernel: KernelResult) -> Table:
    """Return the loops with what their chains demand; the clock is that of the timed calls."""
    rows = []
    for one in (one for measurement in kernel.counters.values() for one in measurement.chains):
        seconds = one.demanded_cycles / kernel.clock_hz if kernel.clock_hz else None
        links = " -> ".join(f"{link.text} {link.cycles}" for link in one.links if link.cycles)
        rows.append(
            (
                f"{one.symbol or one.library}{f', line {one.line}' if one.line else ''}",
                units.count(one.passes),
                f"{one.cycles:.3g}",
                units.count(one.flops),
                units.seconds(seconds),
                links + " (through memory)" * one.through_memory,
            )
        )
    headings = (
        ("loop", False),
        ("passes", True),
        ("cycles each", True),
        ("FLOPs each", True),
        ("at least", True),
        ("chain: instruction and cycles", False),
    )
    known = (one.latencies for one in kernel.counters.values() if one.chains and one.latencies)
    notes = tuple(f"latencies of {one}" for one in known)
    return Table("loops whose passes wait for each other", headings, tuple(rows), notes)
