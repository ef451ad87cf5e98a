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
    return tuple(one for one in (_flops(kernel), _strides(kernel), _chains(kernel)) if one.rows)


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
