"""Places labels in a picture: none overlaps another, a marker or the edge; same input, same spots.

Pure geometry in pixels, with no drawing library: boxes and points in, boxes out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_DIRECTIONS = 24
_DISTANCES = (0.0, 6.0, 14.0, 26.0, 40.0, 58.0, 80.0, 108.0, 140.0)
"""How far from its marker a label is tried, in sixteenths of its height."""

_PASSES = 4
_STEPS = 16
"""Points along a leader at which it is checked."""

LINE_COST = 5.0
"""A sample point of a drawn line under a label costs as much as this many pixels of distance."""

_CROSSING_COST = 60.0
_BLOCKING_COST = 80.0
"""For each other marker on a leader's way."""

_RIVAL_COST = 50.0
_STRIKE_COST = 15.0
"""For each point of a leader that lies on a text."""

_COVERING_COST = 300.0
"""For a label on another's leader: bad, but better than a kernel without its name."""

_BLOCKED = 1e9


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


@dataclass(frozen=True)
class Request:
    """A label to place: its size, the point it belongs to, the radius kept free there, and its bounds."""

    width: float
    height: float
    x: float
    y: float
    clearance: float
    bounds: Box


@dataclass(frozen=True)
class Spot:
    """Where a label goes, and the end of its leader at the box, if it needs one."""

    box: Box
    leader: tuple[float, float] | None


def place(
    requests: Sequence[Request],
    obstacles: Sequence[Box],
    lines: Array | None = None,
    texts: Sequence[Box] = (),
) -> list[Spot | None]:
    """Return a spot for every request, or ``None`` where there is no free one.

    Parameters
    ----------
    requests
        The labels.
    obstacles
        Boxes that no label may touch: markers, other texts.
    lines
        Points along drawn lines, shape (n, 3): x, y and a weight; labels avoid them if they can.
    texts
        Those of the obstacles that are texts; leaders avoid them if they can.
    """
    if not requests:
        return []
    return _Placer(requests, obstacles, lines, texts).run()


def stack(heights: Sequence[float], centres: Sequence[float], low: float, high: float) -> list[float] | None:
    """Return centres of labels in one column, as near to the wanted ones as they go without overlapping.

    ``centres`` are in ascending order and keep it. ``None`` if the labels do not fit between ``low`` and
    ``high``.
    """
    if sum(heights) > high - low:
        return None
    # Neighbours that overlap form a block; the block stands where its members want to be on average.
    blocks: list[tuple[float, float, int]] = []  # middle, height, members
    for height, centre in zip(heights, centres, strict=True):
        middle, size, members = centre, height, 1
        while blocks and blocks[-1][0] + blocks[-1][1] / 2 > middle - size / 2:
            other_middle, other_size, other_members = blocks.pop()
            total = members + other_members
            # each block would have its middle where its members' offsets from it cancel
            middle = ((other_middle + size / 2) * other_members + (middle - other_size / 2) * members) / total
            size, members = size + other_size, total
        middle = min(max(middle, low + size / 2), high - size / 2)
        blocks.append((middle, size, members))
    placed = []
    edge = low
    sizes = iter(heights)
    for middle, size, members in blocks:
        edge = max(edge, middle - size / 2)
        for _ in range(members):
            height = next(sizes)
            placed.append(edge + height / 2)
            edge += height
    # a block that was pushed up may have pushed those above it over the edge
    for index in range(len(placed) - 1, -1, -1):
        limit = high if index == len(placed) - 1 else placed[index + 1] - heights[index + 1] / 2
        placed[index] = min(placed[index], limit - heights[index] / 2)
    return placed


class _Placer:
    """The state of one placement: which candidate each label has taken."""

    def __init__(
        self,
        requests: Sequence[Request],
        obstacles: Sequence[Box],
        lines: Array | None,
        texts: Sequence[Box],
    ) -> None:
        self.requests = requests
        fixed = _as_array(obstacles)
        written = _as_array(texts)
        points = np.empty((0, 3)) if lines is None else lines
        anchors = np.array([(request.x, request.y) for request in requests])
        self.candidates: list[Array] = []
        self.ends: list[Array] = []
        self.costs: list[Array] = []
        for request in requests:
            boxes = _candidates(request)
            boxes = boxes[~_overlap(boxes, fixed).any(axis=1)]
            ends = _nearest(boxes, request.x, request.y)
            self.candidates.append(boxes)
            self.ends.append(ends)
            others = anchors[(anchors != (request.x, request.y)).any(axis=1)]
            self.costs.append(_own_cost(request, boxes, ends, others, points, written))
        crowd = [int((np.hypot(*(anchors - anchor).T) < 60).sum()) for anchor in anchors]
        # the label with the fewest choices goes first; ties keep the order of the requests
        self.order = sorted(range(len(requests)), key=lambda i: (-crowd[i], len(self.candidates[i]), i))
        self.taken: dict[int, int] = {}

    def run(self) -> list[Spot | None]:
        for index in self.order:
            self._choose(index)
        for _ in range(_PASSES):
            changed = [index for index in self.order if self._choose(index)]
            if not changed:
                break
        return [self._spot(index) for index in range(len(self.requests))]

    def _choose(self, index: int) -> bool:
        """Take the cheapest free candidate; return whether that changed anything."""
        cost = self.costs[index].copy()
        request, boxes, ends = self.requests[index], self.candidates[index], self.ends[index]
        others = [(other, self.taken[other]) for other in self.taken if other != index]
        if others and len(boxes):
            taken = np.array([self.candidates[other][spot] for other, spot in others])
            cost[_overlap(boxes, taken).any(axis=1)] += _BLOCKED
            along = _along(request, ends)
            for step in range(_STEPS):
                cost[_inside(along[:, step], taken).any(axis=0)] += _COVERING_COST
            starts = np.array([(self.requests[other].x, self.requests[other].y) for other, _ in others])
            finishes = np.array([self.ends[other][spot] for other, spot in others])
            for start, finish in zip(starts, finishes, strict=True):
                leader = start + np.linspace(0, 1, _STEPS)[:, None] * (finish - start)
                cost[_inside(leader, boxes).any(axis=1)] += _COVERING_COST
            anchor = np.array([request.x, request.y])
            cost += _CROSSING_COST * _crossings(anchor, ends, starts, finishes)
        before = self.taken.get(index)
        if not len(cost) or cost.min() >= _BLOCKED:
            self.taken.pop(index, None)
        else:
            self.taken[index] = int(cost.argmin())
        return self.taken.get(index) != before

    def _spot(self, index: int) -> Spot | None:
        if index not in self.taken:
            return None
        spot, request = self.taken[index], self.requests[index]
        box = Box(*(float(value) for value in self.candidates[index][spot]))
        x, y = (float(value) for value in self.ends[index][spot])
        near = math.hypot(x - request.x, y - request.y) <= 2 * request.clearance
        return Spot(box, None if near else (x, y))


def _own_cost(
    request: Request, boxes: Array, ends: Array, others: Array, points: Array, written: Array
) -> Array:
    """Return what each candidate costs whatever the other labels do; ``others`` are the other anchors."""
    distance = np.hypot(ends[:, 0] - request.x, ends[:, 1] - request.y)
    cost = distance.copy()
    middle = (boxes[:, 1] + boxes[:, 3]) / 2
    right = boxes[:, 0] >= request.x
    # right of the marker reads best, then left, then above and below
    cost += np.where(np.abs(middle - request.y) < request.height / 2, np.where(right, 0.0, 2.0), 4.0)
    if len(points):
        cost += LINE_COST * (_inside(points[:, :2], boxes) * points[:, 2]).sum(axis=1)
    along = _along(request, ends)
    if len(written):
        steps = [_inside(along[:, step], written).any(axis=0) for step in range(_STEPS)]
        cost += _STRIKE_COST * np.sum(steps, axis=0)
    if len(others) and len(boxes):
        closest = np.hypot(*np.moveaxis(along[:, None, 2:, :] - others[None, :, None, :], -1, 0)).min(axis=2)
        cost += _BLOCKING_COST * (closest < request.clearance).sum(axis=1)
        # a label nearer to another marker than to its own is read as the other's
        nearest = np.clip(others[None], boxes[:, None, :2], boxes[:, None, 2:])
        rival = np.hypot(*np.moveaxis(nearest - others[None], -1, 0)).min(axis=1)
        cost += _RIVAL_COST * (rival < np.minimum(distance, 3 * request.height))
    return cost


def _candidates(request: Request) -> Array:
    """Return the boxes tried for one label, shape (n, 4): rings around the marker, then a grid."""
    width, height = request.width, request.height
    angles = np.arange(_DIRECTIONS) * (2 * math.pi / _DIRECTIONS)
    distances = np.array(_DISTANCES) * height / 16 + request.clearance
    radius, angle = (grid.ravel() for grid in np.meshgrid(distances, angles, indexing="ij"))
    cosine, sine = np.cos(angle), np.sin(angle)
    ring_x = (
        request.x
        + cosine * radius
        + np.sign(np.round(cosine, 6)) * np.minimum(1, 2 * np.abs(cosine)) * width / 2
    )
    ring_y = (
        request.y + sine * radius + np.sign(np.round(sine, 6)) * np.minimum(1, 2 * np.abs(sine)) * height / 2
    )
    bounds = request.bounds
    columns = np.arange(bounds.x0 + width / 2, bounds.x1 - width / 2, max(height, width / 4))
    rows = np.arange(bounds.y0 + height / 2, bounds.y1 - height / 2, height * 0.75)
    grid_x, grid_y = (grid.ravel() for grid in np.meshgrid(columns, rows))
    x, y = np.concatenate([ring_x, grid_x]), np.concatenate([ring_y, grid_y])
    boxes = np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=1)
    within = (
        (boxes[:, 0] >= bounds.x0)
        & (boxes[:, 1] >= bounds.y0)
        & (boxes[:, 2] <= bounds.x1)
        & (boxes[:, 3] <= bounds.y1)
    )
    found: Array = boxes[within]
    return found


def _as_array(boxes: Sequence[Box]) -> Array:
    return np.array([(box.x0, box.y0, box.x1, box.y1) for box in boxes]).reshape(-1, 4)


def _overlap(one: Array, other: Array) -> NDArray[np.bool_]:
    """Return whether box i of ``one`` overlaps box j of ``other``, shape (len(one), len(other))."""
    left, right = one[:, None, :], other[None, :, :]
    result: NDArray[np.bool_] = (
        (left[..., 0] < right[..., 2])
        & (right[..., 0] < left[..., 2])
        & (left[..., 1] < right[..., 3])
        & (right[..., 1] < left[..., 3])
    )
    return result


def _inside(points: Array, boxes: Array) -> NDArray[np.bool_]:
    """Return whether point j lies in box i, shape (len(boxes), len(points))."""
    x, y = points[None, :, 0], points[None, :, 1]
    result: NDArray[np.bool_] = (
        (boxes[:, None, 0] < x) & (x < boxes[:, None, 2]) & (boxes[:, None, 1] < y) & (y < boxes[:, None, 3])
    )
    return result


def _nearest(boxes: Array, x: float, y: float) -> Array:
    """Return the point of each box nearest to (x, y), shape (n, 2)."""
    return np.stack([np.clip(x, boxes[:, 0], boxes[:, 2]), np.clip(y, boxes[:, 1], boxes[:, 3])], axis=1)


def _along(request: Request, ends: Array) -> Array:
    """Return points along the leader of every candidate, shape (n, _STEPS, 2)."""
    start = np.array([request.x, request.y])
    steps = np.linspace(0, 1, _STEPS)[None, :, None]
    result: Array = start + steps * (ends[:, None, :] - start)
    return result


def _crossings(anchor: Array, ends: Array, starts: Array, finishes: Array) -> Array:
    """Return how many of the leaders (starts to finishes) each leader from ``anchor`` crosses."""

    def side(a: Array, b: Array, c: Array) -> Array:
        result: Array = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
            c[..., 0] - a[..., 0]
        )
        return result

    a, b = anchor[None, None, :], ends[:, None, :]
    c, d = starts[None, :, :], finishes[None, :, :]
    crossed = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    counts: Array = crossed.sum(axis=1).astype(np.float64)
    return counts
