"""Findings about bytes between caches: lines that come again although memory delivers them once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import units
from . import tiles
from .across import COMES, Across, across, along, least_seconds
from .base import PACED, Demand, Facts, Finding, Gain, Shape
from .memory import CONFLICT, SCATTERED, STRIDED, again_by_rule, asked_bytes, cost, indexed

CACHE_TRAFFIC = "fetched again from the next cache"

USED_AGAIN = 2.0
"""From so many uses of each element on there are more loops than an array has extents."""

BUSY = 1.0
"""From so many instructions a cycle on, a kernel is not taken to wait: every core runs more than that."""


NEAR_LESS = 0.5
"""From this part of the last caches on, what a kernel touches may not stay in them."""


def cache_traffic(facts: Facts) -> Iterator[Finding]:
    """Lines that come again from the next cache: few sets, walks across lines, or what sets the pace."""
    touched = sum((one.touched_read_bytes or 0) + (one.touched_write_bytes or 0) for one in facts.arrays)
    if not touched:
        return
    walked = _walked(facts)
    found = _between(facts, touched, walked)
    if found is not None:
        yield found
    elif walked is not None:
        yield _walked_across(facts, *walked)


def _between(facts: Facts, touched: int, walked: tuple[Across, Gain] | None) -> Finding | None:
    demand, parts = facts.demand, facts.parts(facts.demand)
    slowest = max(parts, key=lambda name: parts[name], default=None)
    for number, level, moved, ways in (
        (1, "l3", demand.l2_l3, tiles.ways_across(facts, 1)),
        (0, "l2", demand.l1_l2, tiles.ways_across(facts, 0)),
    ):
        if moved is None or moved < COMES * ways * touched or len(facts.caches) <= number + 1:
            continue
        crowded = [one for one in facts.shapes if tiles.crowded(facts, number, one)]
        if not crowded and (level != slowest or walked is not None):
            continue
        then = replace(demand, **{"l2_l3" if level == "l3" else "l1_l2": float(ways * touched)})
        gain = facts.gain(then)
        if crowded:
            held = 0 if tiles.fits(facts, 0, crowded[0]) else number
            if held < number:
                then = replace(then, l1_l2=float(tiles.ways_across(facts, 0) * touched))
            gain = _spread(facts, then, crowded[0], held, moved / ways, touched)
        if gain is not None:
            return _inner(facts, number, moved, touched, crowded, gain, walked)
    return None


def _walked(facts: Facts) -> tuple[Across, Gain] | None:
    """Return what is walked across its lines, and what walking along them would gain.

    Not what memory is found to deliver again for it: that finding says the same, and more.
    """
    found = across(facts)
    if found is None or any(one.name in found.names for one in again_by_rule(facts).get(STRIDED, ())):
        return None
    before, after = least_seconds(facts, found), facts.least_seconds(along(facts))
    if before is None or after is None:
        return None
    seconds = facts.own_seconds
    if seconds is None:
        gain = facts.worth(before / after, after)
    else:
        saved = seconds if _waits(facts, before) else max(before - after, 0.0)
        misses = facts.miss_seconds
        # what misses cannot have taken stays
        rest = 0.0 if misses is None else seconds - misses
        least = max(after, seconds - saved, rest)
        gain = facts.worth(seconds / least, least)
    return None if gain is None else (found, gain)


def _waits(facts: Facts, before: float) -> bool:
    """Return whether a kernel waits for walks most of the time: by their roof, or as it does little else."""
    rate = facts.instructions_per_cycle
    return before >= PACED * (facts.own_seconds or 0.0) or (rate is not None and rate < BUSY)


def _uncertain(facts: Facts, gain: Gain) -> str:
    """Return what a walk gains if memory delivers what the last cache is modelled to keep, if that is unsure.

    A real cache keeps less of what about fills it than its model, least of all one that others share.
    """
    reads = sum(one.touched_read_bytes or 0 for one in facts.arrays)
    writes = sum(one.touched_write_bytes or 0 for one in facts.arrays)
    then = along(facts)
    if then.read is None or then.write is None or not NEAR_LESS * facts.last_bytes < reads + writes:
        return ""
    then = replace(then, read=max(then.read, float(reads)), write=max(then.write, float(writes)))
    after, seconds = facts.least_seconds(then, usual=True), facts.own_seconds
    if after is None or seconds is None or seconds / after > 0.9 * gain.factor:
        return ""
    last = facts.caches[-1].name
    return (
        f"; the {units.byte_count(reads + writes)} touched about fill {last}: if it keeps none of them, "
        f"walking along the lines gains {units.ratio(max(seconds / after, 1.0))} times"
    )


def _order(facts: Facts, found: Across) -> str:
    """Return what comes before tiles where each element is used often: another loop can be innermost then."""
    elements = sum(shape.bytes // shape.element_bytes for shape in found.shapes)
    if tiles.exchangeable(facts, found.names) or found.accesses < USED_AGAIN * elements:
        return ""
    return (
        f"exchange the loops, so that the innermost one runs along the rows of {', '.join(found.names)}, as "
        "i-k-j does in a matrix product; or "
    )


def _sums(facts: Facts, found: Across) -> str:
    """Return what the gain of exchanged loops leaves out if they add up in registers now."""
    if not facts.demand.chains or not tiles.exchangeable(facts, found.names):
        return ""
    return (
        "; the gain is a bound: what each column adds up in a register becomes an array then, which is "
        "loaded and stored for each element"
    )


def _walked_across(facts: Facts, found: Across, gain: Gain) -> Finding:
    names, line = ", ".join(found.names), facts.line_bytes
    asked = asked_bytes(facts, names, found.times)
    return cost(
        STRIDED,
        f"{names} is walked across its lines, most accesses {found.stride} B from the one before: "
        f"{units.count(found.accesses)} of them ask {facts.caches[1].name} or what is below it for a line, "
        f"{found.times:.1f} times for each line, for {asked} of its {line} B{_uncertain(facts, gain)}",
        _order(facts, found)
        + tiles.advice(facts, STRIDED, list(found.names), found.times, held=0)
        + _sums(facts, found),
        gain,
        {
            "stride": found.stride,
            "accesses across lines": found.accesses,
            "asked for a line": round(found.times, 3),
        },
    )


def _spread(facts: Facts, then: Demand, shape: Shape, number: int, moved: float, touched: int) -> Gain | None:
    """Return the gain of lines that stay in a cache but for their first fetch.

    The first fetches cost what each costs now: they are columns of their own, and those that find all their
    lines come after them, in L1 at the pace of the arithmetic, in L2 at that of a walk over as many pages, if
    that was measured.
    """
    least = facts.least_seconds(then)
    walks = tiles.walks(facts, tiles.row_bytes(shape))
    if facts.own_seconds is None or least is None:
        return facts.gain(then, paces=True)
    first, others = facts.own_seconds * touched / moved, 1 - touched / moved
    parts = facts.parts(then)
    rest = others * max(parts.get("compute", 0.0), parts.get("chains", 0.0))
    if number:
        rest = max(rest, others * least)
        if walks:
            rest = max(rest, others * moved / tiles.walk(walks, tiles.column(shape)))
    after = max(least, first + rest)
    return facts.worth(facts.own_seconds / after, after)


def _inner(
    facts: Facts,
    number: int,
    moved: float,
    touched: int,
    crowded: list[Shape],
    gain: Gain,
    walked: tuple[Across, Gain] | None,
) -> Finding:
    cache, below = facts.caches[number], facts.caches[number + 1]
    said = (
        f"{units.byte_count(moved)} pass between {cache.name} and {below.name}, {moved / touched:.0f} times "
        f"the {units.byte_count(touched)} of lines that the kernel touches"
    )
    evidence = {f"bytes {cache.name} - {below.name}": round(moved), "bytes of lines touched": touched}
    if crowded:
        shape = crowded[0]
        lines, room = tiles.column(shape), tiles.room(facts, number, shape) or 0
        said += (
            f": rows of {shape.name} are {tiles.pitch_text(shape)} apart, a power of two, so the {lines} "
            f"lines of a column meet in {room} places of {cache.name}, which is large enough for them"
        )
        evidence |= {"lines of a column": lines, "lines that find room": room}
        rows = "or walk along the rows"
        if walked is not None and walked[1].factor > gain.factor:
            rows += f", which gains more (up to {units.ratio(walked[1].factor)} times as fast)"
        return cost(CONFLICT, said, f"{tiles.padding(facts, shape)}, {rows}", gain, evidence)
    at_random = [shape for shape in facts.shapes if indexed(facts, shape)]
    if at_random:
        # arrays as long as an index are likely read beside it
        lengths = {shape.bytes // shape.element_bytes for shape in facts.shapes if shape.index}
        stored = {one.name for one in facts.arrays if one.touched_write_bytes}
        read = [shape for shape in at_random if shape.name not in stored]
        others = [shape for shape in read if shape.bytes // shape.element_bytes not in lengths]
        names = ", ".join(shape.name for shape in others or read)
        said += f", for parts of lines of {names} that an index asks for"
        return cost(SCATTERED, said, tiles.advice(facts, SCATTERED, [names], 1), gain, evidence)
    return cost(CACHE_TRAFFIC, said, tiles.blocks(facts, number), gain, evidence)


RULES = (cache_traffic,)
