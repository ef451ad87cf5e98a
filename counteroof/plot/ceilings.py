"""Draws the roofs of a panel: DRAM ceilings, compute ceilings, their ridge points and their labels."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import units
from ..machine.model import Ceiling
from . import style
from .geometry import Box
from .labels import Request, place
from .panels import Panel, ceiling_label
from .paper import Paper, Point, beads

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_STEP = 8.0
"""Pixels between the places tried along a line."""

_CLOSE = 2.5
"""Points between two lines below which they share a label."""

_AWAY = (2.0, 8.0, 15.0, 23.0, 32.0, 42.0, 54.0, 68.0, 84.0)
"""How far from its line a label may stand, in pixels."""


def draw_ceilings(paper: Paper, axes: Axes, aside: Axes | None, panel: Panel) -> None:
    """Draw all ceilings of ``panel``; the two that form the roof are heavier."""
    _draw_bandwidths(paper, axes, panel)
    _draw_computes(paper, axes, aside, panel)
    # the labels with the fewest places first
    _label_computes(paper, axes, panel)
    _label_bandwidths(paper, axes, panel)
    _mark_ridges(paper, axes, panel)


def _top(axes: Axes, panel: Panel) -> float:
    """Return the FLOP/s at which DRAM lines end: the compute roof, or the top of the axes."""
    return panel.computes[0].value if panel.computes else axes.get_ylim()[1] * 1e9


def _draw_bandwidths(paper: Paper, axes: Axes, panel: Panel) -> None:
    for index, ceiling in enumerate(panel.bandwidths):
        start, end = _bandwidth_ends(axes, panel, ceiling)
        xs, ys = zip(start, end, strict=True)
        axes.plot(
            xs,
            ys,
            color=style.LOWER if index else style.ROOF,
            linewidth=0.7 if index else 1.8,
            linestyle="--" if index else "-",
            zorder=2,
            gid=f"roof:{ceiling.name}",
        )
        paper.line(paper.pixels(axes, *start), paper.pixels(axes, *end), 0.7)


def _bandwidth_ends(axes: Axes, panel: Panel, ceiling: Ceiling) -> tuple[Point, Point]:
    """Return the visible part of a DRAM line, in data coordinates."""
    low_x, high_x = axes.get_xlim()
    low_y, _ = axes.get_ylim()
    gigabytes = units.giga(ceiling.value)
    left = max(low_x, low_y / gigabytes)
    right = min(high_x, units.giga(_top(axes, panel)) / gigabytes)
    return (left, left * gigabytes), (right, right * gigabytes)


def _draw_computes(paper: Paper, axes: Axes, aside: Axes | None, panel: Panel) -> None:
    low, high = axes.get_xlim()
    for index, ceiling in enumerate(panel.computes):
        start = _ridge_x(panel, ceiling, low)
        y = units.giga(ceiling.value)
        look: dict[str, Any] = {
            "color": style.LOWER if index else style.ROOF,
            "linewidth": 0.9 if index else 1.8,
        }
        axes.plot([start, high], [y, y], zorder=2, gid=f"roof:{ceiling.name}", **look)
        paper.line(paper.pixels(axes, start, y), paper.pixels(axes, high, y), 0.7)
        if aside is not None:
            end = _dots_end(paper, aside)
            aside.plot([0, end], [y, y], zorder=2, **look)
            paper.line(paper.pixels(aside, 0, y), paper.pixels(aside, end, y), 0.7)


def _dots_end(paper: Paper, aside: Axes) -> float:
    """Return the x where the dots of the strip end and their names begin: roofs pass above dots only."""
    strip = paper.box(aside)
    dots = [x for x, _ in paper.filled.values() if x > strip.x0]
    if not dots:
        return 1.0
    return (max(dots) + paper.points(style.MARKER) * 1.2 - strip.x0) / (strip.x1 - strip.x0)


def _ridge_x(panel: Panel, ceiling: Ceiling, lowest: float) -> float:
    if not panel.bandwidths:
        return lowest
    return max(lowest, ceiling.value / panel.bandwidths[0].value)


def _label_bandwidths(paper: Paper, axes: Axes, panel: Panel) -> None:
    """Write the roof's label above its line, those of lower DRAM ceilings together below the lowest."""
    if not panel.bandwidths:
        return
    roof, *lower = panel.bandwidths
    _label_slope(paper, axes, panel, (roof,), above=True)
    if lower:
        _label_slope(paper, axes, panel, lower, above=False)


def _label_slope(paper: Paper, axes: Axes, panel: Panel, ceilings: Sequence[Ceiling], *, above: bool) -> None:
    """Write one label beside the lowest of these lines: in one row, else in more, else anywhere."""
    start, end = _bandwidth_ends(axes, panel, ceilings[-1])
    start_px, end_px = paper.pixels(axes, *start), paper.pixels(axes, *end)
    angle = math.degrees(math.atan2(end_px[1] - start_px[1], end_px[0] - start_px[0]))
    colour = style.ROOF if above else style.LOWER
    name = f"ceiling:{ceilings[0].name}"
    words = ceiling_label(*ceilings)
    text = paper.text(words, style.FONT - 1, colour, name, angle)
    for rows in (1, 2) if len(ceilings) > 1 else (1,):
        text.set_text(_broken(words, rows))
        if _put_beside_slope(paper, axes, text, start_px, end_px, above=above):
            return
    _put_anywhere(paper, axes, text, ((start_px[0] + end_px[0]) / 2, (start_px[1] + end_px[1]) / 2))


def _broken(words: str, rows: int) -> str:
    """Return a joint label in rows of about the same length, broken between ceilings only."""
    kept = words.replace(" ", "\xa0").replace(",\xa0", ", ").replace("\xa0(", " (")
    return textwrap.fill(kept, math.ceil(len(words) / rows) + 12 * (rows > 1)).replace("\xa0", " ")


def _put_beside_slope(
    paper: Paper, axes: Axes, text: Text, start_px: Point, end_px: Point, *, above: bool
) -> bool:
    """Put a rotated text beside a line where it is free; return whether there was such a place."""
    width, height = paper.size(text)
    angle = text.get_rotation()
    bounds = paper.box(axes)
    for side in (1, -1) if above else (-1, 1):
        for away in _AWAY:
            for centre in _along_slope(start_px, end_px, width, side * (away + height / 2)):
                covered = beads(centre, width, height, angle)
                if all(bounds.contains(bead) for bead in covered) and not any(
                    bead.overlaps(taken) for bead in covered for taken in paper.obstacles
                ):
                    paper.put_rotated(text, centre, covered)
                    return True
    return False


def _along_slope(start: Point, end: Point, width: float, away: float) -> Iterator[Point]:
    """Yield centres beside a sloping line (``away`` is positive above it), from its lower end up."""
    length = math.dist(start, end)
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    along = width / 2 + 4
    while along <= length - width / 2:
        yield start[0] + ux * along - uy * away, start[1] + uy * along + ux * away
        along += _STEP


def _label_computes(paper: Paper, axes: Axes, panel: Panel) -> None:
    bounds = paper.box(axes)
    lowest = axes.get_xlim()[0]
    heights = [paper.pixels(axes, lowest, units.giga(one.value))[1] for one in panel.computes]
    for index, group in enumerate(_close_together(paper, axes, panel.computes)):
        ceiling = group[0]
        colour = style.LOWER if index else style.ROOF
        text = paper.text(ceiling_label(*group), style.FONT - 1, colour, f"ceiling:{ceiling.name}")
        width, height = paper.size(text)
        start_x, y = paper.pixels(axes, _ridge_x(panel, ceiling, lowest), units.giga(ceiling.value))
        # above the roof there is room to the left of its ridge, below it there is not
        furthest = bounds.x0 if index == 0 else start_x
        group_heights = [one for one in heights if y - paper.points(_CLOSE) * len(group) < one <= y]
        others = [one for one in heights if one not in group_heights]
        places = [
            box
            for box in _beside_line(bounds, furthest, y, min(group_heights), width, height)
            # a label nearer to another line would be read as that line's
            if all(abs(_middle(box) - y) < abs(_middle(box) - other) - 2 for other in others)
            and not any(box.overlaps(taken) for taken in paper.obstacles)
        ]
        # a sloping line under the letters is better than a label far from its line
        box = next((box for box in places if not paper.crosses(box)), next(iter(places), None))
        if box is None:
            _put_anywhere(paper, axes, text, ((start_x + bounds.x1) / 2, y))
        else:
            paper.put(text, box)


def _middle(box: Box) -> float:
    return (box.y0 + box.y1) / 2


def _close_together(paper: Paper, axes: Axes, ceilings: Sequence[Ceiling]) -> list[list[Ceiling]]:
    """Return the ceilings, highest first, in groups whose lines lie too close for a label each."""
    groups: list[list[Ceiling]] = []
    last = math.inf
    for ceiling in ceilings:
        y = paper.pixels(axes, axes.get_xlim()[0], units.giga(ceiling.value))[1]
        if last - y < paper.points(_CLOSE):
            groups[-1].append(ceiling)
        else:
            groups.append([ceiling])
        last = y
    return groups


def _beside_line(
    bounds: Box, furthest: float, top: float, bottom: float, width: float, height: float
) -> Iterator[Box]:
    """Yield boxes above and below the lines from ``top`` to ``bottom``: nearest first, from the right."""
    lows = [top + away for away in _AWAY[:6]] + [bottom - height - away for away in _AWAY[:6]]
    for low in sorted(lows, key=lambda low: (abs(low + height / 2 - top), -low)):
        right = bounds.x1
        while right - width >= furthest:
            box = Box(right - width, low, right, low + height)
            if bounds.contains(box):
                yield box
            right -= _STEP


def _put_anywhere(paper: Paper, axes: Axes, text: Text, anchor: Point) -> None:
    """Put a label whose own line is crowded into the nearest free place, with a thin line to its ceiling."""
    text.set_rotation(0)
    width, height = paper.size(text)
    request = Request(width, height, *anchor, 2.0, paper.box(axes))
    spot = place([request], paper.obstacles, paper.line_points(), paper.texts)[0]
    if spot is None:
        text.remove()
        return
    paper.put(text, spot.box)
    if spot.leader is not None:
        paper.leader(anchor, spot.leader)


def _mark_ridges(paper: Paper, axes: Axes, panel: Panel) -> None:
    """Mark where the DRAM roof meets each compute ceiling, with the intensity where there is room."""
    low, high = axes.get_xlim()
    bounds = paper.box(axes)
    requests, texts = [], []
    last = math.inf
    for index, (x, y) in enumerate(panel.ridges):
        if not low < x < high:
            continue
        height = units.giga(y)
        axes.plot(
            [x],
            [height],
            marker="o",
            markersize=4 if index == 0 else 2.5,
            color=style.LOWER if index else style.ROOF,
            zorder=4,
            gid=f"ridge:{panel.computes[index].name}",
        )
        px, py = paper.pixels(axes, x, height)
        paper.obstacles.append(Box(px - 4, py - 4, px + 4, py + 4))
        if index and abs(py - last) < paper.points(_CLOSE):
            continue  # its mark is that of the line above, to the eye
        last = py
        words = f"ridge {units.intensity(x)} FLOP/B" if index == 0 else f"ridge {units.intensity(x)}"
        text = paper.text(words, style.FONT - 1, style.LOWER if index else style.ROOF, f"ridge:{index}")
        requests.append(Request(*paper.size(text), px, py, 5.0, bounds))
        texts.append(text)
    spots = place(requests, paper.obstacles, paper.line_points(), paper.texts)
    for request, text, spot in zip(requests, texts, spots, strict=True):
        # the ridge of the roof is named at any rate, a lower one only beside its mark
        if spot is None or (spot.leader is not None and text is not texts[0]):
            text.remove()
            continue
        paper.put(text, spot.box)
        if spot.leader is not None:
            paper.leader((request.x, request.y), spot.leader)
