"""Boxes, points and lines in pixels, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlaps(self, other: Box) -> bool:
        """Return whether the two have a point in common."""
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def contains(self, other: Box) -> bool:
        """Return whether ``other`` lies within."""
        return self.x0 <= other.x0 and other.x1 <= self.x1 and self.y0 <= other.y0 and other.y1 <= self.y1


def as_array(boxes: Sequence[Box]) -> Array:
    """Return boxes as rows of x0, y0, x1, y1."""
    return np.array([(box.x0, box.y0, box.x1, box.y1) for box in boxes]).reshape(-1, 4)


def overlaps(one: Array, other: Array) -> Mask:
    """Return whether box i of ``one`` overlaps box j of ``other``, shape (len(one), len(other))."""
    left, right = one[:, None, :], other[None, :, :]
    result: Mask = (
        (left[..., 0] < right[..., 2])
        & (right[..., 0] < left[..., 2])
        & (left[..., 1] < right[..., 3])
        & (right[..., 1] < left[..., 3])
    )
    return result


def inside(points: Array, boxes: Array) -> Mask:
    """Return whether point j lies in box i, shape (len(boxes), len(points))."""
    x, y = points[None, :, 0], points[None, :, 1]
    result: Mask = (
        (boxes[:, None, 0] < x) & (x < boxes[:, None, 2]) & (boxes[:, None, 1] < y) & (y < boxes[:, None, 3])
    )
    return result


def nearest(boxes: Array, points: Array) -> Array:
    """Return the point of box i nearest to point j, shape (len(boxes), len(points), 2)."""
    result: Array = np.clip(points[None], boxes[:, None, :2], boxes[:, None, 2:])
    return result


def segment_distances(start: Array, ends: Array, points: Array) -> Array:
    """Return how far point j is from the line ``start`` to ``ends[i]``, shape (len(ends), len(points))."""
    along = ends - start
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    towards = points - start
    share = np.clip((along @ towards.T) / length[:, None], 0, 1)
    gap = towards[None] - share[:, :, None] * along[:, None, :]
    result: Array = np.hypot(gap[..., 0], gap[..., 1])
    return result


def segments_meet_boxes(starts: Array, ends: Array, boxes: Array) -> Mask:
    """Return whether the line ``starts[i]`` to ``ends[i]`` passes through box j, shape (lines, boxes)."""
    along = (ends - starts)[:, None, :]
    along = np.where(np.abs(along) < 1e-9, 1e-9, along)
    low = (boxes[None, :, :2] - starts[:, None, :]) / along
    high = (boxes[None, :, 2:] - starts[:, None, :]) / along
    enter = np.minimum(low, high).max(axis=2)
    leave = np.maximum(low, high).min(axis=2)
    result: Mask = (enter < leave) & (enter < 1) & (leave > 0)
    return result


def crossings(start: Array, ends: Array, starts: Array, finishes: Array) -> Array:
    """Return how many lines (``starts`` to ``finishes``) each line from ``start`` to ``ends[i]`` crosses."""

    def side(a: Array, b: Array, c: Array) -> Array:
        result: Array = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
            c[..., 0] - a[..., 0]
        )
        return result

    a, b = start[None, None, :], ends[:, None, :]
    c, d = starts[None, :, :], finishes[None, :, :]
    crossed = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    counts: Array = crossed.sum(axis=1).astype(np.float64)
    return counts
