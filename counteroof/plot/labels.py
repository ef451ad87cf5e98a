"""Places labels in a picture: none overlaps another, a marker or the edge; same input, same spots.

Pure geometry in pixels, with no drawing library: boxes and points in, boxes out. Each label has a few
thousand candidate places, and each place a cost: how far it is from its marker, what its leader and its
letters would cover. Labels choose one after the other, the most crowded first, then all choose again until
nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .geometry import (
    Array,
    Box,
    as_array,
    crossings,
    inside,
    nearest,
    overlaps,
    segment_distances,
    segments_meet_boxes,
)

_DIRECTIONS = 24
_DISTANCES = (0.0, 6.0, 14.0, 26.0, 40.0, 58.0, 80.0, 108.0, 140.0)
"""How far from its marker a label is tried, in sixteenths of its height."""

_GRID = 2000
"""Places of the whole page that are tried as well, about."""

_PASSES = 4
_CHUNK = 200
"""Candidates looked at together; more only if a later one could still be cheaper."""

# Costs are in pixels of distance from the marker.
LINE_COST = 5.0
"""For each sample point of a drawn line under a label."""

_CROSSING_COST = 60.0
"""For each leader crossed."""

_BLOCKING_COST = 80.0
"""For each other marker on a leader's way."""

_RIVAL_COST = 50.0
"""For standing nearer to another marker than to its own: it would be read as the other's."""

_STRIKE_COST = 40.0
"""For each text under a leader."""

_COVERING_COST = 300.0
"""For a label on another's leader: bad, but better than a kernel without its name."""


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
    anchors = np.array([(request.x, request.y) for request in requests])
    page = _Page(as_array(obstacles), as_array(texts), np.empty((0, 3)) if lines is None else lines, anchors)
    labels = [_Label(request, page) for request in requests]
    crowd = [int((np.hypot(*(anchors - anchor).T) < 60).sum()) for anchor in anchors]
    order = sorted(range(len(labels)), key=lambda index: (-crowd[index], index))
    for _ in range(1 + _PASSES):
        changed = [index for index in order if labels[index].choose(labels)]
        if not changed:
            break
    return [label.spot() for label in labels]


@dataclass(frozen=True)
class _Page:
    """What is on the page before any label is."""

    fixed: Array
    written: Array
    points: Array
    anchors: Array


class _Label:
    """One label: its candidates, cheapest first as far as their own place goes, and the one it has taken."""

    def __init__(self, request: Request, page: _Page) -> None:
        self.request = request
        self.anchor = np.array([request.x, request.y])
        self.taken: int | None = None
        self._page = page
        self._rivals = page.anchors[(page.anchors != self.anchor).any(axis=1)]
        boxes = _candidates(request)
        ends = nearest(boxes, self.anchor[None])[:, 0]
        distance = np.hypot(*(ends - self.anchor).T)
        middle = (boxes[:, 1] + boxes[:, 3]) / 2
        right = boxes[:, 0] >= request.x
        # right of the marker reads best, then left, then above and below
        beside = np.abs(middle - request.y) < request.height / 2
        cost = distance + np.where(beside, np.where(right, 0.0, 2.0), 4.0)
        order = np.argsort(cost, kind="stable")
        self.boxes, self.ends = boxes[order], ends[order]
        self._distance, self._base = distance[order], cost[order]
        self._own = np.empty(0)

    def choose(self, labels: Sequence[_Label]) -> bool:
        """Take the cheapest free candidate; return whether that changed anything."""
        others = [label for label in labels if label is not self and label.taken is not None]
        best, found = math.inf, None
        for start in range(0, len(self.boxes), _CHUNK):
            if self._base[start] >= best:  # all costs only add to this
                break
            chunk = slice(start, min(start + _CHUNK, len(self.boxes)))
            cost = self._own_cost(chunk) + self._cost_beside(others, chunk)
            index = int(cost.argmin())
            if cost[index] < best:
                best, found = float(cost[index]), start + index
        changed = found != self.taken
        self.taken = found
        return changed

    def spot(self) -> Spot | None:
        """Return where the label stands."""
        if self.taken is None:
            return None
        x0, y0, x1, y1 = (float(value) for value in self.boxes[self.taken])
        x, y = (float(value) for value in self.ends[self.taken])
        near = self._distance[self.taken] <= 2 * self.request.clearance
        return Spot(Box(x0, y0, x1, y1), None if near else (x, y))

    def _own_cost(self, chunk: slice) -> Array:
        """Return what candidates cost whatever the other labels do; computed once, infinite if blocked."""
        if len(self._own) >= chunk.stop:
            return self._own[chunk]
        page, boxes, ends = self._page, self.boxes[chunk], self.ends[chunk]
        cost = self._base[chunk].copy()
        if len(page.points):
            cost += LINE_COST * (inside(page.points[:, :2], boxes) * page.points[:, 2]).sum(axis=1)
        if len(page.written):
            starts = np.broadcast_to(self.anchor, ends.shape)
            cost += _STRIKE_COST * segments_meet_boxes(starts, ends, page.written).sum(axis=1)
        if len(self._rivals):
            passed = segment_distances(self.anchor, ends, self._rivals)
            passed += 1e9 * (np.hypot(*(self._rivals - self.anchor).T) < self.request.clearance)
            cost += _BLOCKING_COST * (passed < self.request.clearance).sum(axis=1)
            gap = nearest(boxes, self._rivals) - self._rivals[None]
            rival = np.hypot(gap[..., 0], gap[..., 1]).min(axis=1)
            cost += _RIVAL_COST * (rival < np.minimum(self._distance[chunk], 3 * self.request.height))
        cost[overlaps(boxes, page.fixed).any(axis=1)] = math.inf
        self._own = np.concatenate([self._own, cost])
        own: Array = cost
        return own

    def _cost_beside(self, others: Sequence[_Label], chunk: slice) -> Array:
        """Return what candidates cost because of where the other labels stand; infinite on top of one."""
        boxes, ends = self.boxes[chunk], self.ends[chunk]
        if not others:
            return np.zeros(len(boxes))
        taken = np.array([other.boxes[other.taken] for other in others])
        starts = np.array([other.anchor for other in others])
        finishes = np.array([other.ends[other.taken] for other in others])
        own_starts = np.broadcast_to(self.anchor, ends.shape)
        cost: Array = _CROSSING_COST * crossings(self.anchor, ends, starts, finishes)
        cost += _COVERING_COST * segments_meet_boxes(own_starts, ends, taken).any(axis=1)
        cost += _COVERING_COST * segments_meet_boxes(starts, finishes, boxes).any(axis=0)
        cost[overlaps(boxes, taken).any(axis=1)] = math.inf
        return cost


def _candidates(request: Request) -> Array:
    """Return the boxes tried for one label, shape (n, 4): rings around the marker, then a grid."""
    width, height, bounds = request.width, request.height, request.bounds
    angles = np.arange(_DIRECTIONS) * (2 * math.pi / _DIRECTIONS)
    distances = np.array(_DISTANCES) * height / 16 + request.clearance
    radius, angle = (grid.ravel() for grid in np.meshgrid(distances, angles, indexing="ij"))
    cosine, sine = np.cos(angle), np.sin(angle)
    # half a box away sideways or upwards, so that the box's edge and not its middle has the distance
    ring_x = request.x + cosine * radius + np.clip(2 * cosine, -1, 1) * width / 2
    ring_y = request.y + sine * radius + np.clip(2 * sine, -1, 1) * height / 2
    room_x, room_y = bounds.x1 - bounds.x0, bounds.y1 - bounds.y0
    coarser = max(1.0, math.sqrt(room_x * room_y / (_GRID * (width / 4) * (height * 0.75))))
    columns = np.arange(bounds.x0 + width / 2, bounds.x1 - width / 2, max(height, width / 4) * coarser)
    rows = np.arange(bounds.y0 + height / 2, bounds.y1 - height / 2, height * 0.75 * coarser)
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


def stack(heights: Sequence[float], centres: Sequence[float], low: float, high: float) -> list[float] | None:
    """Return centres of labels in one column, as near to the wanted ones as they go without overlapping.

    ``centres`` are in ascending order and keep it. ``None`` if the labels do not fit between ``low`` and
    ``high``.
    """
    if sum(heights) > high - low:
        return None
    # Neighbours that overlap form a block, which stands where its members want to be on average.
    blocks: list[tuple[float, float, int]] = []  # middle, height, members
    for height, centre in zip(heights, centres, strict=True):
        middle, size, members = centre, height, 1
        while blocks and blocks[-1][0] + blocks[-1][1] / 2 > middle - size / 2:
            other_middle, other_size, other_members = blocks.pop()
            total = members + other_members
            wanted = (other_middle + size / 2) * other_members + (middle - other_size / 2) * members
            middle, size, members = wanted / total, size + other_size, total
        middle = min(max(middle, low + size / 2), high - size / 2)
        blocks.append((middle, size, members))
    placed: list[float] = []
    edge = low
    sizes = iter(heights)
    for middle, size, members in blocks:
        edge = max(edge, middle - size / 2)
        for _ in range(members):
            height = next(sizes)
            placed.append(edge + height / 2)
            edge += height
    # a block that was pushed up may have pushed those above it over the edge
    limit = high
    for index in range(len(placed) - 1, -1, -1):
        placed[index] = min(placed[index], limit - heights[index] / 2)
        limit = placed[index] - heights[index] / 2
    return placed
