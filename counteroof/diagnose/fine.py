"""What is said of a kernel in which no rule found time that is lost, or less than is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import units
from . import tiles
from .base import PACED, Facts, Finding

FINE = 0.7
"""From this share on of what its roofs allow, a kernel is fine."""

BUSY, IDLE = 2.0, 1.0
"""From so many instructions a cycle on they are likely what takes the time; below so many they wait."""

FINE_RULE = "fine"
OPEN = "no cause found"

_NAMES = {
    "dram": "memory needs at least for its mix of loads and stores",
    "l3": "L3 needs at least for its mix of loads and stores",
    "l2": "L2 needs at least for its mix of loads and stores",
    "compute": "its arithmetic needs at least for its mix of operations",
    "chains": "operations need at least that wait for each other",
    "walk": "L2 needs at least for a walk down columns",
}
_SHORT = {
    "dram": "memory",
    "l3": "L3",
    "l2": "L2",
    "compute": "arithmetic",
    "chains": "waiting for operations before",
    "walk": "walks down columns",
}


def nothing_found(facts: Facts, costs: Iterable[Finding] = ()) -> Finding | None:
    """Return that a kernel is fine, or that no rule says why it is not; ``None`` if that cannot be told.

    It is held against the roof of its own mix of loads and stores, and of the instructions it has, which is
    lower than the highest roof that the dot stands under. Where ``costs`` were found that explain how far it
    is from there to a half, there is nothing to add.
    """
    parts = facts.parts(facts.demand) | _walk(facts)
    seconds = facts.own_seconds
    if seconds is None or not parts or not facts.arrays:
        return None  # without traffic by array most rules had nothing to look at
    slowest = max(parts, key=lambda name: parts[name])
    share = min(parts[slowest] / seconds, 1.0)
    usual = max(facts.parts(facts.demand, usual=True).values(), default=0.0) / seconds
    evidence: dict[str, float | int | str] = {f"least seconds of {slowest}": parts[slowest]}
    said = f"{units.percent(share)} of its time is what {_NAMES[slowest]}"
    gains = [one.gain for one in costs]
    if gains:
        known = [gain for gain in gains if gain is not None]
        if len(known) < len(gains) or share * max(known) >= PACED:
            return None
        found = f"what was found gains up to {units.ratio(max(known))} times, which is not all"
    elif max(share, usual) >= FINE:
        return Finding(
            FINE_RULE, "note", f"fine: nothing that costs time was found, and {said}", "", evidence=evidence
        )
    else:
        found = "nothing that costs time was found"
    known_parts = ", ".join(
        f"{_SHORT[name]} {units.percent(min(time / seconds, 1.0))}"
        for name, time in sorted(parts.items(), key=lambda part: -part[1])
    )
    rate, misses = facts.instructions_per_cycle, facts.miss_seconds
    if rate is not None:
        evidence["instructions a cycle"] = round(rate, 3)
    if misses is not None:
        evidence["seconds of misses at most"] = misses
    return Finding(
        OPEN,
        "note",
        f"{found}: only {said}. Least shares, which overlap: {known_parts}{_beside(facts, rate, misses)}",
        "; ".join((*_pages(facts), *_suspects(seconds, rate, misses))),
        evidence=evidence,
    )


def _beside(facts: Facts, rate: float | None, misses: float | None) -> str:
    """Return what else is known of where the time may be, to be added to a sentence."""
    text = ""
    if misses is not None and facts.own_seconds:
        most = min(misses / facts.own_seconds, 1.0)
        text += f"; misses, if each line waited for the one before, at most {units.percent(most)}"
    if rate is not None:
        text += f"; {units.ratio(rate)} instructions a cycle"
    if facts.untimed_locked:
        text += (
            f"; {units.count(facts.untimed_locked)} locked instructions (atomics), whose latency is not known"
        )
        text += " of this processor, are in none of these"
    return text


def _pages(facts: Facts) -> Iterator[str]:
    """Return what to do about accesses each of which is in another page than the one before."""
    paged = (one.name for one in facts.arrays if not one.huge_pages)
    walked = [(name, stride) for name in paged if (stride := facts.walk(name)) is not None]
    names = ", ".join(name for name, stride in walked if abs(stride) >= tiles.PAGE)
    if names:
        yield (
            f"most accesses to {names} are in another page than the one before, whose address has to be "
            "translated first: walk along the rows, or put it on huge pages"
        )


def _suspects(seconds: float, rate: float | None, misses: float | None) -> Iterator[str]:
    """Return what to look at and to try, what the numbers point at first."""
    if rate is not None and rate >= BUSY:
        yield (
            "the instructions themselves likely take the time: fewer of them (wider vectors, unrolled loops, "
            "addresses and conversions computed once)"
        )
    if rate is not None and rate < IDLE:
        if misses is None or misses >= PACED * seconds:
            unless = ""
            if misses is None:
                unless = ", unless for locked instructions (atomics) or branches that are guessed wrong"
            yield (
                f"it waits, likely for lines{unless}: longer runs in order, which prefetchers follow, more "
                "loads that do not depend on each other, prefetch instructions, huge pages"
            )
        else:
            yield (
                "it waits, and not for lines: branches that are guessed wrong, locked instructions (atomics) "
                "and loads right after a store to the same place are not counted here (perf stat -d, where "
                "there are counters)"
            )
    yield "look at single lines (--detail lines)"
    yield "see what else ran on the machine"


def _walk(facts: Facts) -> dict[str, float]:
    """Return the least seconds of lines that come from L2 down the columns of an array, if any do."""
    columns = [shape for shape in facts.shapes if len(shape.extents) > 1]
    walked = [shape for shape in columns if tiles.by_columns(facts, 0, shape)]
    moved = facts.demand.l1_l2
    if not walked or moved is None:
        return {}
    longest = max(walked, key=tiles.column)
    measured = tiles.walks(facts, tiles.row_bytes(longest))
    return {"walk": moved / tiles.walk(measured, tiles.column(longest))} if measured else {}
