"""From the time of a load over the size of its working set: where plateaus end, which is what caches hold.

A load that waits for the one before and goes to a random line takes as long as the level that all lines fit
into; no prefetcher helps. Nothing is measured here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from .. import units
from .model import CacheLevel, Capacity, SweepPoint

SMALLEST = 4096
TIMES_LAST = 2
"""The largest working set, in last-level caches."""
_APART = 3
"""A working set so many times the cache above is on the plateau of the next: hardly a line of it is above."""
_STEP = 1.5
"""Plateaus closer than this factor are one: translating addresses alone makes loads so much slower."""


def sizes(caches: Sequence[CacheLevel], most: int | None = None) -> tuple[int, ...]:
    """Return the working sets to measure: powers of two and what is half-way between, in bytes."""
    largest = TIMES_LAST * caches[-1].bytes if most is None else min(most, TIMES_LAST * caches[-1].bytes)
    found = []
    size = SMALLEST
    while size <= largest:
        found += [size, size * 3 // 2] if size * 3 // 2 <= largest else [size]
        size *= 2
    return tuple(found)


def capacities(points: Sequence[SweepPoint], caches: Sequence[CacheLevel]) -> tuple[Capacity, ...]:
    """Return how much of each cache the points show."""
    points = _undisturbed(points)
    plateaus = [_plateau(points, caches[index - 1].bytes if index else 0) for index in range(len(caches))]
    plateaus.append(points[-1] if points and points[-1].bytes >= TIMES_LAST * caches[-1].bytes else None)
    pairs = itertools.pairwise(plateaus)
    return tuple(
        _capacity(cache, points, here, below) for cache, (here, below) in zip(caches, pairs, strict=True)
    )


def _undisturbed(points: Sequence[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Return the points without what only a disturbance can be: a smaller working set that is slower."""
    found: list[SweepPoint] = []
    for point in sorted(points, key=lambda one: one.bytes, reverse=True):
        seconds = min(point.seconds, found[-1].seconds) if found else point.seconds
        found.append(SweepPoint(point.bytes, seconds))
    return tuple(reversed(found))


def _plateau(points: Sequence[SweepPoint], above: int) -> SweepPoint | None:
    """Return the smallest point that is out of the cache above."""
    return next((point for point in points if point.bytes >= _APART * above), None)


def _capacity(
    cache: CacheLevel, points: Sequence[SweepPoint], here: SweepPoint | None, below: SweepPoint | None
) -> Capacity:
    if here is None or below is None:
        return Capacity(cache.name, None, None, "the working sets measured were too small for it")
    if below.seconds < _STEP * here.seconds:
        reason = f"a load takes {units.seconds(here.seconds)} there and as long in the next level"
        return Capacity(cache.name, None, here.seconds, reason)
    middle = math.sqrt(here.seconds * below.seconds)
    inside = [point for point in points if point.seconds <= middle]
    outside = [point for point in points if point.seconds > middle]
    low, high = inside[-1], outside[0]
    # where the line between the two points, both axes logarithmic, crosses the middle
    part = math.log(middle / low.seconds) / math.log(high.seconds / low.seconds)
    return Capacity(cache.name, round(low.bytes * (high.bytes / low.bytes) ** part), here.seconds)
