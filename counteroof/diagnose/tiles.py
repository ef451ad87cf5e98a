"""Advice from geometry: the padding that spreads a column over the sets, the tile that a cache can hold."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from .. import units
from ..ceiling_jobs import FAR_WALK, WALK
from ..machine.model import Ceiling
from .base import Facts, Shape, nearest

PAGE = 4096
"""Bytes within which addresses choose sets; beyond, pages lie anywhere in memory."""

FAR_PAGES = 4
"""From line to line of the walks that were measured with more than one."""

FILLED = 0.5
"""Part of a cache that a tile may fill: the rest is for what else is used meanwhile."""


def pitch(facts: Facts, shape: Shape) -> int | None:
    """Return the power of two that divides the distance of rows, if it is large enough to crowd sets."""
    if len(shape.extents) < 2 or shape.extents[-2] < 2:
        return None
    distance = shape.extents[-1] * shape.element_bytes
    power = distance & -distance
    return power if power >= 4 * facts.line_bytes else None


def meets(facts: Facts, shape: Shape) -> bool:
    """Return whether the lines of a column can crowd the sets of the last cache: more rows than ways.

    Where a hash spreads rows over the sets and not the least recent line has to leave, what an LRU cache
    would have kept was lost to the choice of victims.
    """
    if not facts.caches or pitch(facts, shape) is None:
        return False
    last = facts.caches[-1]
    by_recency = last.policy.kind in ("lru", "plru")
    return column(shape) > last.ways and (by_recency or not last.hashed)


def pitch_text(shape: Shape) -> str:
    """Return the distance of rows in words."""
    return units.binary_bytes(shape.extents[-1] * shape.element_bytes)


def column(shape: Shape) -> int:
    """Return how many lines a walk down one column touches."""
    return shape.extents[-2]


def room(facts: Facts, number: int, shape: Shape) -> int | None:
    """Return for how many lines of a column a cache has room, as far as the distance of rows decides."""
    power = pitch(facts, shape)
    if power is None:
        return None
    cache = facts.caches[number]
    way = cache.bytes // cache.ways
    # bits of the set number above the page are those of the frame, which is anywhere
    step = min(power, PAGE if way > PAGE else way)
    return max(way // step, 1) * cache.ways


def crowded(facts: Facts, number: int, shape: Shape) -> bool:
    """Return whether a column of an array would fit a cache but for the few sets its lines are in.

    Only an array whose lines come once for each of their elements, as in one walk down all columns.
    """
    places = room(facts, number, shape)
    if places is None or facts.caches[number].hashed:
        return False
    return places < column(shape) and fits(facts, number, shape) and by_columns(facts, number, shape)


def fits(facts: Facts, number: int, shape: Shape) -> bool:
    """Return whether the lines of a column would fit a cache if they were spread over its sets.

    The sets of the first cache are chosen within pages, so that rows one line longer fill them evenly;
    beyond, page frames fall as they may.
    """
    cache = facts.caches[number]
    even = cache.bytes // cache.ways <= PAGE
    return column(shape) <= (1 if even else 3 / 4) * cache.bytes / facts.line_bytes


def by_columns(facts: Facts, number: int, shape: Shape) -> bool:
    """Return whether lines pass below a cache once for each of their elements, as in a walk down columns."""
    moved = facts.demand.l1_l2 if number == 0 else facts.demand.l2_l3
    touched = sum((one.touched_read_bytes or 0) + (one.touched_write_bytes or 0) for one in facts.arrays)
    if moved is None or not touched:
        return False
    elements = facts.line_bytes / shape.element_bytes
    return 0.5 * elements <= moved / touched / ways_across(facts, number) <= 1.2 * elements


def walks(facts: Facts, distance: int) -> dict[int, float]:
    """Return the bytes a second of walks over lines in a page each, by their number.

    Of lines some four pages apart, or a multiple of that, those of walks with that distance, if they were
    measured: numbers of their pages have the low bits in common, which choose sets of translation buffers.
    """
    near = _by_number(nearest(facts.machine.ceilings, facts.threads), WALK)
    far = _by_number(nearest(facts.machine.access, facts.threads), FAR_WALK)
    beyond = distance % (FAR_PAGES * PAGE)
    alike = min(beyond, FAR_PAGES * PAGE - beyond) <= PAGE // 32
    return far if far and alike and distance >= PAGE else near


def _by_number(ceilings: Iterable[Ceiling], mix: str) -> dict[int, float]:
    numbers = {one.name.rpartition(" ")[2]: one.value for one in ceilings if one.mix == mix}
    return {int(text): value for text, value in numbers.items() if text.isdecimal()}


def row_bytes(shape: Shape) -> int:
    """Return how far the lines of a column are apart."""
    return shape.extents[-1] * shape.element_bytes


def walk(found: Mapping[int, float], lines: int) -> float:
    """Return the bytes a second of a walk over so many lines, or the next more that were measured."""
    return found[min((count for count in found if count >= lines), default=max(found))]


def ways_across(facts: Facts, number: int) -> int:
    """Return how often a line that is only read crosses below a cache: twice if victims fill the next one."""
    below = number + 1
    return 2 if below < len(facts.caches) and facts.caches[below].fill == "victim" else 1


def padding(facts: Facts, shape: Shape) -> str:
    """Return how to lengthen the rows of an array."""
    more = max(facts.line_bytes // shape.element_bytes, 1)
    row, longer = shape.extents[-1], shape.extents[-1] + more
    return (
        f"lengthen each row of {shape.name} by one line, from {row} to {longer} elements "
        f"({units.binary_bytes(longer * shape.element_bytes)})"
    )


def advice(facts: Facts, rule: str, names: list[str], times: float, held: int = 1) -> str:
    """Return what stops lines from being fetched again, with sizes from the caches.

    ``held`` is the number of the cache in which the lines of a walk could stay.
    """
    shapes = [shape for name in names if (shape := facts.shape(name)) is not None]
    text = ", ".join(names)
    if not facts.caches:
        return f"use each part of {text} for all that needs it before the next one"
    if rule == "scattered access":
        return (
            f"sort or bucket the indices, or renumber, so that what is used of {text} together lies "
            f"together; work through {text} in parts of at most "
            f"{units.binary_bytes(int(FILLED * facts.last_bytes))}; "
            "a smaller element type puts more of them into a line"
        )
    if rule == "fetched again: conflict" and shapes:
        return f"{padding(facts, shapes[0])}, or walk along the rows"
    if rule == "strided access" and shapes:
        return _interchange(facts, shapes, text, held)
    return _layers(facts, shapes, text, times)


def _interchange(facts: Facts, shapes: list[Shape], text: str, number: int) -> str:
    """Return the order of loops, or the tile where another array needs the other order."""
    element = shapes[0].element_bytes
    first = facts.caches[0]
    others = _other_matrices(facts, [shape.name for shape in shapes])
    side = _power_below(math.sqrt(FILLED * first.bytes / (2 * element)))
    if others:
        return (
            f"work in tiles of {side} x {side} elements, so that the lines of {text} and of "
            f"{', '.join(one.name for one in others)} stay in {first.name} until all of each is used"
        )
    # of a cache that others share a kernel may get little
    held = facts.caches[min(number, len(facts.caches) - 1)]
    lines = int(FILLED * held.bytes / facts.line_bytes)
    return (
        f"exchange the loops, so that the innermost one runs along the rows of {text}; or, if that cannot "
        f"be, take at most {lines:_} rows at a time, whose lines stay in {held.name}"
    )


def exchangeable(facts: Facts, names: Collection[str]) -> bool:
    """Return whether loops over these arrays can be exchanged without harm to another matrix."""
    return not _other_matrices(facts, names)


def _other_matrices(facts: Facts, names: Collection[str]) -> list[Shape]:
    return [one for one in facts.shapes if one.name not in names and _matrix(one)]


def _matrix(shape: Shape) -> bool:
    return sum(extent > 1 for extent in shape.extents) > 1


def _layers(facts: Facts, shapes: list[Shape], text: str, times: float) -> str:
    """Return the layer condition of arrays that are swept more than once, and the tile that meets it."""
    last = facts.caches[-1]
    matrices = [one.extents for one in facts.shapes if _matrix(one)]
    passes = bool(shapes) and times > facts.line_bytes / shapes[0].element_bytes
    if passes and matrices.count(shapes[0].extents) > 1:  # over the whole, as of a matrix product
        return blocks(facts, len(facts.caches) - 1)
    budget = FILLED * facts.last_bytes
    planes = [shape for shape in shapes if _matrix(shape)]
    layers = math.ceil(times - 0.05) + 1
    if planes and (shape := max(planes, key=lambda one: one.bytes)):
        layer = shape.bytes // shape.extents[0]
        if len(shape.extents) > 2 and layers * layer > budget:
            return (
                f"tile the inner loops: {layers} layers of {text} ({units.binary_bytes(layer)} each) would "
                f"have to stay in {last.name}; {layers} x {len(shapes)} x tile bytes <= "
                f"{units.binary_bytes(int(budget))} holds for layers of at most "
                f"{units.binary_bytes(int(budget / layers / len(shapes)))}"
            )
        column = sum(one.bytes // one.extents[-1] for one in facts.shapes if _matrix(one))
        whole = max(facts.line_bytes // shape.element_bytes, 1)
        if len(shape.extents) == 2 and shape.extents[0] > 2 and column:
            width = int(budget / column) // whole * whole
            if width:
                return (
                    "do all passes over a strip of columns before the next strip: strips of at most "
                    f"{width} columns of all {sum(map(_matrix, facts.shapes))} arrays fill half of the "
                    f"{units.binary_bytes(facts.last_bytes)} of cache"
                )
    return (
        f"do more with each part of {text} before the next one: parts of at most "
        f"{units.binary_bytes(int(budget))} of all that is used meanwhile stay in cache; fewer passes (fused "
        "loops, a higher radix) fetch less often"
    )


def blocks(facts: Facts, number: int) -> str:
    """Return the block that a cache can hold of every matrix of a kernel."""
    cache = facts.caches[number]
    matrices = [shape for shape in facts.shapes if _matrix(shape)]
    if len({shape.extents for shape in matrices}) != 1 or len(matrices) < 2:
        below = facts.caches[min(number + 1, len(facts.caches) - 1)]
        stored = {one.name for one in facts.arrays if one.touched_write_bytes}
        between = [one for one in facts.shapes if FILLED * cache.bytes < one.bytes <= below.bytes]
        # what is stored and comes again was put there to be used again
        between = [one for one in between if one.name in stored] or between
        what = ", ".join(f"{one.name} ({units.binary_bytes(one.bytes)})" for one in between)
        room = units.binary_bytes(int(FILLED * cache.bytes))
        return (
            "take less at a time (shorter loops inside, blocks), so that no more than "
            f"{room} are in use until they are used again"
            + (f": {what} fit {below.name}, but not {cache.name}" if between else "")
        )
    element = max(shape.element_bytes for shape in matrices)
    side = _power_below(math.sqrt(FILLED * cache.bytes / (len(matrices) * element)))
    return (
        f"block the loops so that what is used again stays in {cache.name}: blocks of {side} x {side} "
        f"of {', '.join(shape.name for shape in matrices)} take "
        f"{units.binary_bytes(len(matrices) * side * side * element)} of its "
        f"{units.binary_bytes(cache.bytes)}"
    )


def _power_below(value: float) -> int:
    """Return the largest power of two that is not above a value."""
    return 1 << max(int(math.log2(max(value, 1.0))), 0)
