"""Findings about bytes: those a kernel need not move, and those that move more often than once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .. import units
from ..count.base import OTHER, WALKS, ArrayTraffic
from ..machine.model import Ceiling
from ..reconcile import TOUCHED
from . import tiles
from .base import PACED, WALKED, Demand, Facts, Finding, Gain, Shape, nearest

PART = 0.05
"""From this share of the DRAM bytes on, a cause is worth a finding."""

WASTE = 0.2
"""From this share of the lines that an array touches on, unused bytes are."""

WRITE_ALLOCATE_RULE = "write-allocate"
STRUCTS = "array of structs"
STRIDED = "strided access"
SCATTERED = "scattered access"
CAPACITY = "fetched again: capacity"
CONFLICT = "fetched again: conflict"
OVERFETCH = "prefetch overfetch"


def write_allocate(facts: Facts) -> Iterator[Finding]:
    """Lines read from memory although all of each is then overwritten."""
    arrays = [array for array in facts.arrays if _wholly_overwritten(array)]
    allocated = sum(array.first_write_allocate_bytes or 0 for array in arrays)
    demand = facts.demand
    if demand.read is None or demand.write is None or allocated < PART * (demand.read + demand.write):
        return
    gain = facts.gain(
        replace(
            demand,
            read=demand.read - allocated,
            allocated=demand.allocated - allocated,
            non_temporal=demand.non_temporal + sum(array.dram_write_bytes for array in arrays),
            l2_l3=_less(demand.l2_l3, 2 * allocated),
            l1_l2=_less(demand.l1_l2, 2 * allocated),
        )
    )
    if gain is None:
        return
    names = _names(arrays)
    moved = demand.read + demand.write
    yield cost(
        WRITE_ALLOCATE_RULE,
        f"{_part(allocated, moved)} are lines of {names} that are read only to be overwritten",
        f"write {names} with non-temporal stores (or zero its lines first, where the processor can), if no "
        "cache is to hold it for a reader soon after",
        gain,
        {"write-allocate bytes": allocated, "DRAM bytes": moved},
    )


def _wholly_overwritten(array: ArrayTraffic) -> bool:
    """Return whether non-temporal stores would do: each line is stored to once, whole, and not read again."""
    allocated, stored = array.first_write_allocate_bytes, array.touched_write_bytes
    if not allocated or not stored:
        return False
    once = array.read_again_bytes <= PART * array.dram_read_bytes
    # lines at the ends of rows may be written in part
    whole = (array.unused_bytes or 0) <= 0.05 * stored + 128
    # first touched by a load: not only overwritten
    loaded = array.touched_read_bytes or 0
    return once and whole and loaded <= 0.02 * stored and array.dram_write_bytes >= 0.5 * stored


def partly_used_lines(facts: Facts) -> Iterator[Finding]:
    """Lines of which the program never touches a large part: arrays of structs, strides."""
    demand = facts.demand
    if demand.read is None or demand.write is None:
        return
    for array in facts.arrays:
        shape = facts.shape(array.name)
        if shape is not None and indexed(facts, shape):
            continue  # what an index asks for has rules of its own
        unused = _unused(facts, array)
        wasted = unused * (array.dram_read_bytes + array.dram_write_bytes)
        if unused < WASTE or wasted < PART * (demand.read + demand.write):
            continue
        gain = facts.gain(
            replace(
                demand,
                read=demand.read - unused * array.dram_read_bytes,
                write=demand.write - unused * array.dram_write_bytes,
                l2_l3=_less(demand.l2_l3, 2 * unused * array.dram_read_bytes),
                l1_l2=_less(demand.l1_l2, wasted),
            ),
            paces=True,
        )
        if gain is None:
            continue
        yield _partly_used(facts, array, 1 - unused, wasted, gain)


def _unused(facts: Facts, array: ArrayTraffic) -> float:
    """Return the share of the lines of an array that is not used, 0 if that is not known.

    Wide loads touch what lies between the members of a struct; then the claim tells what was not needed.
    """
    lines = (array.touched_read_bytes or 0) + (array.touched_write_bytes or 0)
    if not lines or array.unused_bytes is None:
        return 0.0
    if array.unused_bytes < WASTE * lines and array.bytes and array.touched_read_bytes == lines:
        beyond = facts.causes(TOUCHED).get(None, 0) / array.bytes
        if _members(facts, facts.shape(array.name), 1 - beyond) is not None:
            return beyond
    return array.unused_bytes / lines


def _partly_used(facts: Facts, array: ArrayTraffic, used: float, wasted: float, gain: Gain) -> Finding:
    evidence: dict[str, float | int | str] = {
        "share of the lines used": round(used, 4),
        "unused bytes moved": round(wasted),
    }
    lost = f"{units.byte_count(wasted)} of it cross for nothing"
    stride = facts.walk(array.name)
    if stride is not None:
        evidence["stride"] = stride
        lost += f"; most accesses to it are {abs(stride)} B apart"
    shape = facts.shape(array.name)
    members = _members(facts, shape, used)
    if shape is not None and members is not None:
        size = shape.extents[-1] * shape.element_bytes
        touched = (array.unused_bytes or 0) < WASTE * (array.touched_read_bytes or 0)
        whose = "the claim needs" if touched else "used are"
        return cost(
            STRUCTS,
            f"{array.name} is an array of structs of {shape.extents[-1]} members ({size} B), of which "
            f"{whose} {members}: {units.percent(used)} of each line; {lost}",
            f"store the members that are used together in arrays of their own (struct of arrays), or in a "
            f"struct of {members}",
            gain,
            {**evidence, "members": shape.extents[-1], "members used": members},
        )
    return cost(
        STRIDED,
        f"of the lines of {array.name} that move, {units.percent(used)} is used; {lost}",
        f"put what is used of {array.name} side by side, or let the innermost loop take neighbours",
        gain,
        evidence,
    )


def _members(facts: Facts, shape: Shape | None, used: float) -> int | None:
    """Return how many members of each struct are used, if rows of the array may be structs."""
    # the number of a struct's members is the same at every size
    if shape is None or len(shape.extents) != 2 or not shape.formulas[-1].isdigit():
        return None
    members = shape.extents[-1]
    if members < 2 or members * shape.element_bytes > 4 * facts.line_bytes:
        return None
    count = used * members
    whole = round(count)
    return whole if 0 < whole < members and abs(count - whole) < 0.02 else None


def fetched_again(facts: Facts) -> Iterator[Finding]:
    """Lines that memory delivers more than once in a call, by why: stride, indices, capacity, sets."""
    demand = facts.demand
    if demand.read is None or demand.write is None:
        return
    for rule, arrays in again_by_rule(facts).items():
        again = sum(_again(facts, array) for array in arrays)
        read = sum(array.read_again_bytes for array in arrays)
        written = sum(array.dram_write_bytes - array.unique_write_bytes for array in arrays)
        if again < PART * (demand.read + demand.write):
            continue
        stores = sum(array.write_allocate_bytes - (array.first_write_allocate_bytes or 0) for array in arrays)
        then = replace(
            demand,
            read=demand.read - read,
            allocated=max(demand.allocated - min(stores, read), 0.0),
            write=demand.write - written,
            l2_l3=_less(demand.l2_l3, 2 * read),
            l1_l2=_less(demand.l1_l2, read + written),
        )
        names = [array.name for array in arrays]
        if rule == SCATTERED or (rule == STRIDED and tiles.exchangeable(facts, names)):
            gain = _in_order(facts, then)
        elif rule == STRIDED:
            gain = _in_tiles(facts, then, names)
        else:
            gain = facts.gain(then, paces=rule != CAPACITY)
        if gain is None:
            continue
        moved = demand.read + demand.write
        times = max(_fetches(array) for array in arrays)
        yield cost(
            rule,
            f"{_part(again, moved)} move again: {_said(facts, rule, arrays, times)}",
            tiles.advice(facts, rule, names, times),
            gain,
            {"bytes moved again": again, "DRAM bytes": round(moved), "fetches of a line": round(times, 3)},
        )


def again_by_rule(facts: Facts) -> dict[str, list[ArrayTraffic]]:
    """Return the arrays whose lines memory delivers more than once, by the rule that explains why."""
    found: dict[str, list[ArrayTraffic]] = {}
    moved = (facts.demand.read or 0.0) + (facts.demand.write or 0.0)
    for array in facts.arrays:
        again = _again(facts, array)
        # Lines that are written again and hardly read again were left in the caches by the call before.
        if array.read_again_bytes >= again / 4 and again and again >= PART * moved / 2:
            found.setdefault(_reason(facts, array), []).append(array)
    return found


def _in_order(facts: Facts, then: Demand) -> Gain | None:
    """Return the gain of lines that come once and in order, as prefetchers fetch them.

    Where memory sets the pace nothing keeps the kernel from its roof then, however far from it it is now.
    """
    parts, then = facts.parts(facts.demand), replace(then, chains=None)
    after, least = facts.least_seconds(then, usual=True), facts.least_seconds(then)
    seconds = facts.own_seconds
    if seconds is None or after is None or parts.get("compute", 0.0) >= PACED * parts.get("dram", 0.0):
        return facts.gain(then, paces=True)
    return facts.worth(seconds / after, least or after)


def _in_tiles(facts: Facts, then: Demand, names: list[str]) -> Gain | None:
    """Return the gain of tiles, in which the lines of a walk come once and some of them in order.

    Lines that are not neighbours come more slowly: a prefetcher that brings pairs of lines brings half for
    nobody. By how much was measured, or else the roof is the bound.
    """
    ordered, walks = _in_order(facts, then), [facts.walk(name) for name in names]
    apart = all(walk is not None and abs(walk) >= 2 * facts.line_bytes for walk in walks)
    alike = [one for one in facts.machine.access if one.small_pages == facts.on_small_pages]
    strided = _dram_roof(alike, "strided", facts.threads)
    read = _dram_roof(facts.usual_roofs, "read", facts.threads)
    if not apart or facts.own_seconds is None:
        return facts.gain(then, paces=True)
    if strided is None or read is None or ordered is None:
        return ordered
    gain = facts.gain(then, paces=True)
    if gain is None:
        return None
    return replace(gain, factor=min(gain.factor * max(read / strided, 1.0), ordered.factor))


def _dram_roof(ceilings: Sequence[Ceiling], mix: str, threads: int) -> float | None:
    """Return the bytes a second of a measured way to memory, ``None`` if it was not."""
    found = [one for one in ceilings if one.level == "dram" and one.mix == mix]
    return max((one.median for one in nearest(found, threads)), default=None)


def _said(facts: Facts, rule: str, arrays: list[ArrayTraffic], times: float) -> str:
    names, fetched = _names(arrays), f"{times:.1f} times"
    line = facts.line_bytes
    if rule == STRIDED:
        stride = facts.walk(arrays[0].name) if len(arrays) == 1 else None
        apart = "" if stride is None else f", most accesses {abs(stride)} B from the one before"
        return (
            f"{names} is walked across its lines{apart}, and each of them comes {fetched}, "
            f"for {asked_bytes(facts, names, times)} of its {line} B"
        )
    if rule == SCATTERED:
        size = max((shape.element_bytes for shape in facts.shapes if shape.name == arrays[0].name), default=1)
        part = f"some {line / times:.0f} B" if times * size <= line else "single elements"
        return f"each line of {names} comes {fetched}, for {part} of {line} that an index asks for"
    if rule == CONFLICT:
        return (
            f"the cache would keep the lines of {names} if any could stand anywhere, but they share few sets "
            f"and push each other out; each comes {fetched}"
        )
    return (
        f"between two uses of a line of {names} more than the {units.binary_bytes(facts.last_bytes)} of "
        f"cache pass; each comes {fetched}"
    )


def asked_bytes(facts: Facts, names: str, times: float) -> str:
    """Return the bytes of a line that a walk asks for each time that it comes: an element at least."""
    smallest = min((one.element_bytes for one in facts.shapes if one.name in names.split(", ")), default=1)
    return f"{max(facts.line_bytes / times, smallest):.0f}"


def _again(facts: Facts, array: ArrayTraffic) -> int:
    """Return the bytes of an array that moved more than once."""
    read = array.read_again_bytes
    return read + array.dram_write_bytes - array.unique_write_bytes


def _fetches(array: ArrayTraffic) -> float:
    """Return how often each line of an array was read, of those that were."""
    return array.used_read_bytes / array.unique_read_bytes if array.unique_read_bytes else 1.0


def _reason(facts: Facts, array: ArrayTraffic) -> str:
    """Return the rule that explains why the lines of an array come again."""
    shape = facts.shape(array.name)
    if shape is not None and indexed(facts, shape):
        return SCATTERED
    conflict = array.again_conflict_bytes or 0
    again = array.read_again_bytes
    if shape is not None and conflict > again / 2 and tiles.meets(facts, shape):
        return CONFLICT
    if shape is not None and shape.element_bytes < facts.line_bytes / 2 and not facts.in_order(array.name):
        elements = facts.line_bytes / shape.element_bytes
        stride = facts.walk(array.name)
        # at a distance that is known, a cache may keep some lines until their next element
        least = 2.0 if stride is not None and abs(stride) >= facts.line_bytes else 0.6 * elements
        # once for each element of it; more are passes over the array
        if least <= _fetches(array) <= 1.5 * elements:
            return STRIDED
    return CAPACITY


def indexed(facts: Facts, shape: Shape) -> bool:
    """Return whether an array of numbers is read at places that an array of integers says.

    Where distances from access to access are known, most of them have to be ones that do not come again.
    """
    strides = () if facts.traffic is None else facts.traffic.strides
    known = [one for one in strides if one.array == shape.name]
    if shape.integer or (known and sum(one.share for one in known if one.stride is None) < WALKED):
        return False
    return any(
        one.index and other.dram_read_bytes and not other.dram_write_bytes
        for one in facts.shapes
        for other in facts.arrays
        if other.name == one.name
    )


def overfetch(facts: Facts) -> Iterator[Finding]:
    """Lines that hardware prefetchers brought from memory for nobody."""
    demand = facts.demand
    everyone = () if facts.traffic is None else facts.traffic.arrays
    unused = sum(one.prefetched_unused_bytes or 0 for one in everyone)
    if demand.read is None or demand.write is None or unused < PART * (demand.read + demand.write):
        return
    gain = facts.gain(replace(demand, read=demand.read - unused, l2_l3=_less(demand.l2_l3, unused)))
    if gain is None:
        return
    worst = sorted(everyone, key=lambda one: -(one.prefetched_unused_bytes or 0))
    named = [one for one in worst if (one.prefetched_unused_bytes or 0) >= PART * unused]
    prefetched = sum(one.prefetched_bytes or 0 for one in everyone)
    names = ", ".join("other data" if one.name in (OTHER, WALKS) else one.name for one in named)
    moved = demand.read + demand.write
    at_random = [
        one for one in named if (shape := facts.shape(one.name)) is not None and indexed(facts, shape)
    ]
    runs = (
        "let each row fill whole pages, or lay rows without a gap behind each other, so that a run of lines "
        "goes on where the prefetcher expects it"
    )
    pairs = (
        f"put elements of {', '.join(one.name for one in at_random)} that are used together into aligned "
        "pairs of lines, or sort the indices"
    )
    yield cost(
        OVERFETCH,
        f"{_part(unused, moved)} are lines of {names} that hardware prefetchers brought and nobody "
        f"used, {units.percent(unused / max(prefetched, unused))} of what they brought",
        pairs if at_random else runs,
        gain,
        {"bytes prefetched, never used": unused, "bytes prefetched": prefetched, "DRAM bytes": round(moved)},
    )


def _less(value: float | None, bytes_: float) -> float | None:
    return None if value is None else max(value - bytes_, 0.0)


def _part(part: float, whole: float) -> str:
    return f"{units.byte_count(part)} of {units.byte_count(whole)} ({units.percent(part / whole)})"


def _names(arrays: list[ArrayTraffic]) -> str:
    return ", ".join(array.name for array in arrays)


def cost(
    rule: str, message: str, try_: str, gain: Gain, evidence: Mapping[str, float | int | str]
) -> Finding:
    return Finding(rule, "cost", message, try_, gain.factor, gain.attainable, evidence)


RULES = (write_allocate, partly_used_lines, fetched_again, overfetch)
