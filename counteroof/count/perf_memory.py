"""Bytes that memory controllers counted: others' traffic taken off, and refused where they cannot be true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .. import units
from . import believable
from .base import Count, unavailable
from .perf_collect import Collected
from .perf_open import never_ran
from .perf_plan import Source, Term
from .perf_sums import summed, whole

BUSY_SHARE = 0.1
"""Share of others' traffic in what was counted from which on it is a warning."""


@dataclass(frozen=True)
class _Moved:
    """Bytes of one call: as counted, and how many of them were others'."""

    raw: float
    idle: float
    scaled: bool


def from_controllers(source: Source, found: Collected, notes: list[str]) -> tuple[Count, Count, Count | None]:
    for term in source.terms:
        reason = found.refused.get(term.event)
        if reason is None and term.event in found.counted:
            counted = found.counted[term.event]
            reason = None if counted.running else never_ran(term.event)
        elif reason is None:
            reason = f"{term.event} was not counted"
        if reason is not None:
            none = unavailable(source.name, reason)
            return none, none, None
    terms, ghosts = _without_ghosts(source, found)
    notes += ghosts
    if not source.terms[0].event.system:  # the core's own events: nobody else's traffic is in them
        read, write = (
            summed(way, [term for term in terms if term.fact.direction == way], found)
            for way in ("read", "write")
        )
        return read, write, None
    unknown = [term.event for term in terms if term.event not in found.idle]
    if unknown:
        found = replace(found, idle={})
        notes.append(
            "warning: the traffic of others could not be measured, and is in these bytes: "
            f"{unknown[0]} did not count while nobody of ours was at work"
        )
    directions = ("read", "write") if source.split else ("both",)
    moved = {
        way: _moved([t for t in terms if t.fact.direction == way or not source.split], found)
        for way in directions
    }
    refusal = _unbelievable(source, moved, terms, found)
    raw, idle = sum(one.raw for one in moved.values()), sum(one.idle for one in moved.values())
    if not unknown:
        _say_idle(raw, idle, terms, found, notes)
    if refusal is not None:
        none = unavailable(source.name, refusal)
        return none, none, None
    remarks = "; ".join(source.notes) or None
    counts = {
        way: Count(
            whole(round(one.raw - one.idle)), "scaled" if one.scaled else "counted", source.name, remarks
        )
        for way, one in moved.items()
    }
    _say_sockets(terms, found, notes)
    if source.split:
        return counts["read"], counts["write"], None
    apart = unavailable(source.name, "reads and writes are counted together only")
    return apart, apart, counts["both"]


def _moved(terms: Sequence[Term], found: Collected) -> _Moved:
    raw = idle = 0.0
    scaled = False
    for term in terms:
        counted = found.counted[term.event]
        scaled |= counted.running < counted.enabled
        raw += counted.scaled * term.factor
        idle += _idle_rate(term, found) * found.seconds[term.event] * term.factor
    return _Moved(raw / found.calls, idle / found.calls, scaled)


def _idle_rate(term: Term, found: Collected) -> float:
    """Return counts a second with nobody of ours at work: the mean of before and after."""
    looks = found.idle.get(term.event)
    return sum(look.rate for look in looks) / 2 if looks else 0.0


def _without_ghosts(source: Source, found: Collected) -> tuple[tuple[Term, ...], list[str]]:
    """Return the terms without those of controllers that carry more than any channel can.

    Registers of channels that are not there may hold anything (seen on Broadwell-EP).
    """
    if source.limit is None or not source.terms[0].event.system:
        return source.terms, []
    places = list(dict.fromkeys(term.event.place for term in source.terms))
    limit = source.limit / len(places)
    ghosts = []
    for place in places:
        rate = sum(
            found.counted[t.event].scaled * t.factor / max(found.seconds[t.event], 1e-9)
            for t in source.terms
            if t.event.place == place
        )
        if rate > limit:
            ghosts.append((place, rate))
    if not ghosts or len(ghosts) == len(places):
        return source.terms, []  # all of them: then it is the sum that is refused
    names = {place for place, _ in ghosts}
    said = ", ".join(f"{place[0]} ({units.bandwidth(rate)})" for place, rate in ghosts)
    kept = tuple(term for term in source.terms if term.event.place not in names)
    return kept, [f"left out, because no channel carries so much: {said}"]


def _unbelievable(
    source: Source, moved: Mapping[str, _Moved], terms: Sequence[Term], found: Collected
) -> str | None:
    """Return why the bytes cannot be true, or ``None``."""
    seconds = max((found.seconds[term.event] for term in terms), default=0.0)
    total = sum(one.raw for one in moved.values()) * found.calls
    if (refusal := believable.traffic(total, seconds, source.limit)) is not None:
        return refusal
    for way, one in moved.items():
        if one.raw < one.idle:
            what = "traffic" if way == "both" else f"{way} traffic"
            return (
                f"the {what} counted ({one.raw:g} bytes a call) drowns in that of others ({one.idle:g} bytes "
                "in the same time); stop what else runs, or count a larger case"
            )
    return None


def _say_idle(raw: float, idle: float, terms: Sequence[Term], found: Collected, notes: list[str]) -> None:
    if not raw:
        return
    share = idle / raw
    notes.append(
        f"traffic of others, measured just before and after and taken off: {idle:.4g} of {raw:.4g} bytes a "
        f"call ({share:.1%})"
    )
    looks = [found.idle[term.event] for term in terms if term.event in found.idle]
    before, after = (sum(look[number].rate for look in looks) for number in (0, 1))
    if share > BUSY_SHARE:
        notes.append(
            f"warning: something else is busy with the memory: {share:.0%} of what was counted was its"
        )
    elif max(before, after) > 2 * min(before, after) and max(before, after) * idle > BUSY_SHARE * raw * (
        before + after
    ):
        notes.append("warning: the traffic of others changed by more than a factor of two while counting")


def _say_sockets(terms: Sequence[Term], found: Collected, notes: list[str]) -> None:
    sockets: dict[int, float] = {}
    for term in terms:
        net = found.counted[term.event].scaled - _idle_rate(term, found) * found.seconds[term.event]
        sockets[term.socket or 0] = sockets.get(term.socket or 0, 0.0) + net * term.factor / found.calls
    if len(sockets) > 1:
        each = ", ".join(f"socket {number}: {round(value)}" for number, value in sorted(sockets.items()))
        notes.append(f"DRAM bytes by socket: {each}")
