"""Arrays walked across their lines, down columns that are too long for the first cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import tiles
from .base import Demand, Facts, Shape

COMES = 3.0
"""From so many times on that each line is asked for, walking along the lines instead saves most of that."""

MISSED = 0.5
"""From this share of such accesses on that the first cache does not serve, columns are too long for it."""


@dataclass(frozen=True)
class Across:
    """What is walked across its lines, how far apart, and how often in all."""

    shapes: tuple[Shape, ...]
    stride: int
    accesses: int
    """Each of which asks the next cache for a line."""
    times: float
    """How often each line is asked for."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(shape.name for shape in self.shapes)


def across(facts: Facts) -> Across | None:
    """Return what is walked across its lines so that each comes from the next cache for every element.

    A distance that prevails is needed, of a line at least, and as many lines below the first cache as there
    are such accesses: if the lines of a column stay in it, nothing is lost.
    """
    if facts.traffic is None or facts.demand.l1_l2 is None:
        return None
    found: list[tuple[Shape, int, int]] = []
    lines = 0.0
    for array in facts.arrays:
        shape, stride = facts.shape(array.name), facts.walk(array.name)
        if shape is None or stride is None or abs(stride) < facts.line_bytes:
            continue
        accesses = sum(
            one.accesses or 0
            for one in facts.traffic.strides
            if one.array == array.name and one.stride is not None and abs(one.stride) >= facts.line_bytes
        )
        touched = max(array.touched_read_bytes or 0, array.touched_write_bytes or 0) / facts.line_bytes
        if touched and accesses >= COMES * touched:
            found.append((shape, abs(stride), accesses))
            lines += touched
    asked = sum(accesses for _, _, accesses in found)
    came = facts.demand.l1_l2 / tiles.ways_across(facts, 0) / facts.line_bytes
    if not found or came < MISSED * asked:
        return None
    stride = max(found, key=lambda one: one[2])[1]
    return Across(tuple(shape for shape, _, _ in found), stride, asked, asked / lines)


def along(facts: Facts) -> Demand:
    """Return what a kernel would ask for if its walks went along the lines: each once, without waiting."""
    touched = sum((one.touched_read_bytes or 0) + (one.touched_write_bytes or 0) for one in facts.arrays)
    demand = facts.demand
    return replace(
        demand,
        l1_l2=_at_most(demand.l1_l2, tiles.ways_across(facts, 0) * touched),
        l2_l3=_at_most(demand.l2_l3, tiles.ways_across(facts, 1) * touched),
        chains=None,
    )


def least_seconds(facts: Facts, found: Across) -> float | None:
    """Return the least seconds in which the roofs allow what was counted, walks across lines included.

    How long lines down a column take was measured with few and with many of them; ``None`` without roofs.
    """
    parts = list(facts.parts(facts.demand).values())
    walks = tiles.walks(facts, found.stride)
    if walks:
        lines = max(_lines(shape, found.stride) for shape in found.shapes)
        parts.append(found.accesses * facts.line_bytes / tiles.walk(walks, lines))
    return max(parts, default=None)


def _lines(shape: Shape, stride: int) -> int:
    """Return how many lines a walk at this distance meets before it begins anew beside them."""
    distance = shape.element_bytes
    for extent in reversed(shape.extents):
        if distance == stride:
            return extent
        distance *= extent
    return shape.bytes // stride


def _at_most(value: float | None, most: float) -> float | None:
    return None if value is None else min(value, most)
