"""The counter that asks the processor: FLOPs, bytes and instructions through perf_event_open.

Runs in the worker. What is counted at all is found out by opening it; the calls are then counted in as many
passes as the counters need, and only what stands up to a second look becomes a number (:func:`evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import believable
from .base import Count, FlopClass, Measurement, unavailable
from .perf_collect import Collected, Sources, choose_sources, collect
from .perf_memory import from_controllers
from .perf_open import (
    Opener,
    as_count,
    count_pass,
    never_ran,
    open_event,
    open_pass,
    per_call,
    plan_passes,
)
from .perf_plan import PerfPlan, Source, plan
from .perf_probe import confirmed
from .perf_sums import NAME, summed
from .resctrl import Moved, Support
from .select import Availability, nothing_counted

if TYPE_CHECKING:
    from pathlib import Path

    from ..run.prepare import PreparedCall

BLIND_SHARE = 0.01
"""Share of the time on cores that cannot count from which on a hybrid processor's count is no count."""
_ZERO = "instructions can be opened but stay at 0 (the hypervisor passes no counters on)"


def this_machine(events_file: Path | None = None) -> PerfPlan:
    """Return what may be counted on this machine.

    Raises
    ------
    BadInput
        If the file of the user's own events has mistakes.
    """
    from .events import this_processor, with_file
    from .pmus import discover

    return plan(with_file(events_file), this_processor(), discover())


def works(one: PerfPlan, opener: Opener = open_event, monitor: Support | None = None) -> Availability:
    """Return what can be counted, found out by opening, and the reason for the rest."""
    sources = choose_sources(one, opener, monitor)
    if opener is open_event and (reason := stays_at_zero(sources)) is not None:
        return Availability(NAME, None, reason)
    refused = [sources.refused[term.event] for term in one.flops if term.event in sources.refused]
    quantities = set()
    if one.flops and not refused:
        quantities.add("FLOPs")
        said = f"FLOPs by {len(one.flops)} event{'s' * (len(one.flops) > 1)} of {one.title}"
    else:
        said = f"no FLOPs: {refused[0] if refused else one.reasons.get('flops', 'nothing counts them')}"
    if sources.dram is not None:
        quantities.add("bytes")
        said += f"; DRAM bytes by {sources.dram.name}"
    elif sources.monitor is not None and sources.monitor.complete:
        quantities.add("bytes")
        said += "; DRAM bytes by resctrl"
    else:
        tried = dict.fromkeys(sources.tried)
        said += f"; no DRAM bytes: {'; '.join(tried) or 'nothing counts them'}"
        if sources.reads is not None:
            said += f" (reads alone, a lower bound, by {sources.reads.name})"
    opens = bool(quantities) or any(term.event not in sources.refused for term in one.instructions)
    return Availability(NAME, f"{__name__}:count" if opens else None, said, quantities=frozenset(quantities))


def stays_at_zero(sources: Sources) -> str | None:
    """Return why what opens is worth nothing, or ``None``: some hypervisors let counters stay at 0."""
    terms = [term for term in sources.plan.instructions if term.event not in sources.refused]
    passes, _ = plan_passes(term.event for term in terms)
    if not terms or not passes:
        return None
    opened, refused = open_pass(passes[0])
    if refused:
        return refused[0].reason
    try:
        _, counted, failed = count_pass(opened, _some_work)
    finally:
        opened.close()
    if failed:
        return failed[0].reason
    if sum(one.value for one in counted) == 0:
        return _ZERO if any(one.running for one in counted) else never_ran(terms[0].event)
    return None


def _some_work(groups: Any, count: int) -> float:
    from ..native import lib

    lib.perf_begin(groups, count)
    sum(range(10_000))
    lib.perf_end(groups, count)
    return 0.0


def evaluate(sources: Sources, found: Collected, needed_flops: float | None = None) -> Measurement:
    """Return the measurement of one call.

    Parameters
    ----------
    sources
        What was chosen.
    found
        The raw counts.
    needed_flops
        FLOPs that the kernel was declared to need for a result that was found right; ``None`` if there is
        no such claim.
    """
    one = sources.plan
    notes: list[str] = []
    instructions = _believable_instructions(summed("instructions", one.instructions, found))
    flops = summed("FLOPs", one.flops, found, one.reasons.get("flops"))
    flops = _believable_flops(flops, instructions, needed_flops)
    blind = _blind_share(one, found)
    if flops.value is not None and blind > BLIND_SHARE:
        cores = ", ".join(one.no_flops_on)
        reason = (
            f"{blind:.0%} of the time went by on {cores}, whose FLOPs cannot be counted; keep the kernel on "
            f"the other cores (taskset -c with the CPUs in /sys/devices/{one.cores[0]}/cpus)"
        )
        flops = unavailable(NAME, reason)
    if flops.value is not None and one.no_flops_on:
        share = min(found.counted[term.event].share for term in one.flops)
        if share < 1 - blind - BLIND_SHARE:
            flops = unavailable(
                NAME, f"on a counter for {share:.1%} of the time only; something else holds it"
            )
    if flops.value is not None and one.flops_notes:
        flops = replace(flops, reason="; ".join(filter(None, (flops.reason, *one.flops_notes))))
    read, write, total = _dram(sources, found, notes)
    cycles = summed("cycles", one.cycles, found)
    if found.passes > 1:
        notes.append(
            f"counted in {found.passes} passes of {found.calls} calls, so that nothing was multiplexed"
        )
    notes += _refusals(sources, found)
    return Measurement(
        counter=NAME,
        flops=flops,
        issued_flops=unavailable(NAME, "the processor's counters do not tell masked lanes from others"),
        instructions=instructions,
        l1_l2_bytes=_boundary("l1_l2", one, one.l1_l2, found),
        l2_l3_bytes=_boundary("l2_l3", one, one.l2_l3, found),
        dram_read_bytes=read,
        dram_write_bytes=write,
        write_allocate_bytes=unavailable(NAME, "no event tells write-allocates from other reads"),
        flops_by=_classes(one, found) if flops.value is not None else (),
        notes=tuple(notes),
        cycles=cycles,
        dram_bytes=total,
    )


def _blind_share(one: PerfPlan, found: Collected) -> float:
    """Return the share of the time on kinds of core whose FLOPs cannot be counted."""
    shares = [
        found.counted[term.event].share
        for term in one.instructions
        if term.event.pmu in one.no_flops_on and term.event in found.counted
    ]
    return sum(shares)


def _believable_instructions(count: Count) -> Count:
    if count.value == 0:
        return unavailable(count.source, _ZERO)
    return count


def _believable_flops(count: Count, instructions: Count, needed: float | None) -> Count:
    """Return the FLOPs unless they cannot be true."""
    if count.value is None:
        return count
    if instructions.value is None:
        return unavailable(count.source, f"not believed: {instructions.reason}")
    return believable.flops(count, needed)


def _boundary(name: str, one: PerfPlan, source: Source | None, found: Collected) -> Count:
    if source is None:
        return unavailable(NAME, one.reasons.get(name, "no event counts that traffic"))
    count = summed(name, source.terms, found)
    if count.value is None or not source.notes:
        return count
    return replace(count, reason="; ".join(filter(None, (count.reason, *source.notes))))


def _classes(one: PerfPlan, found: Collected) -> tuple[FlopClass, ...]:
    """Return the FLOPs by precision and width, as far as the events tell them apart."""
    from .flop_count import BITS

    sums: dict[tuple[str, int | None], float] = {}
    for term in one.flops:
        precision = term.fact.precision
        count = as_count(found.counted[term.event], found.calls, hybrid=len(one.cores) > 1)
        if precision not in BITS or not count.value:
            continue
        lanes = term.fact.lanes
        width = None if lanes is None else 0 if lanes == 1 else lanes * BITS[precision]
        key = precision, width
        sums[key] = sums.get(key, 0.0) + count.value * term.factor
    return tuple(
        FlopClass(precision, width, "any", round(flops))
        for (precision, width), flops in sorted(sums.items(), key=lambda item: (item[0][0], item[0][1] or 0))
        if round(flops)
    )


def _refusals(sources: Sources, found: Collected) -> list[str]:
    """Return one line with what was passed over on the way to the bytes, and one with refused events."""
    said = []
    if sources.tried:
        said.append(f"sources of DRAM bytes passed over: {'; '.join(dict.fromkeys(sources.tried))}")
    others = {
        term.event for source in (sources.plan.l1_l2, sources.plan.l2_l3) if source for term in source.terms
    }
    refused = dict.fromkeys(reason for event, reason in found.refused.items() if event not in others)
    return said + [f"refused: {reason}" for reason in refused]


def _dram(sources: Sources, found: Collected, notes: list[str]) -> tuple[Count, Count, Count | None]:
    """Return bytes read, bytes written and, where they are not told apart, their sum."""
    why = "; ".join(dict.fromkeys(sources.tried)) or "nothing counts the memory's traffic here"
    if sources.dram is not None:
        return from_controllers(sources.dram, found, notes)
    none = unavailable(NAME, why)
    if sources.monitor is not None:
        return _from_resctrl(sources.monitor, found, notes)
    if sources.reads is None:
        return none, none, None
    read = summed("reads", sources.reads.terms, found)
    if read.value is not None:
        blind = "; ".join(filter(None, (read.reason, "reads only, a lower bound", *sources.reads.notes)))
        read = replace(read, reason=blind)
    return read, unavailable(NAME, f"no event of a core sees writes to memory; {why}"), None


def _from_resctrl(monitor: Support, found: Collected, notes: list[str]) -> tuple[Count, Count, Count | None]:
    source = "resctrl mbm_total_bytes"
    moved = found.monitored
    if not isinstance(moved, Moved) or moved.total < 0:
        reason = moved if isinstance(moved, str) else "its counter went backwards"
        none = unavailable(source, reason)
        return none, none, None
    value = per_call(moved.total, found.calls)
    if moved.local is not None and 0 <= moved.local <= moved.total:
        near = per_call(moved.local, found.calls)
        notes.append(
            f"resctrl mbm_local_bytes: {near:.4g} of {value:.4g} bytes a call were of the memory next to the "
            "cores, the others of other sockets'"
        )
    if monitor.complete:
        apart = unavailable(source, "reads and writes are counted together only")
        return apart, apart, Count(value, "counted", source, monitor.reason)
    read = Count(value, "counted", source, f"a lower bound: {monitor.reason}")
    return read, unavailable(source, f"resctrl does not promise writes here: {monitor.reason}"), None


@dataclass(frozen=True)
class KernelCalls:
    """A prepared kernel as what is counted."""

    prepared: PreparedCall

    def seconds(self, calls: int) -> float:
        """Make calls and return their seconds."""
        return self.prepared.seconds(calls)

    def counted(self, calls: int, groups: Any, count: int) -> float:
        """Make calls with groups around them, and return their seconds."""
        return self.prepared.counted_seconds(calls, groups, count)


def count(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Count one call of the kernel in the steady state.

    Parameters
    ----------
    prepared
        The kernel, its arrays filled.
    options
        ``events_file``: the path of a file of the user's own events, or ``None``.
    """
    sources = choose_sources(this_machine(options.get("events_file")))
    if not sources.events and sources.monitor is None:
        return nothing_counted(
            NAME, "; ".join(dict.fromkeys(sources.refused.values())) or _nothing(sources.plan)
        )
    caller = KernelCalls(prepared)
    found = collect(sources, caller)
    return confirmed(sources, evaluate(sources, found, believable.needed_flops(prepared)))


def _nothing(one: PerfPlan) -> str:
    return one.reasons.get("flops", "this kernel has no PMU")
