"""Draws the roofs of a panel: DRAM ceilings, compute ceilings, their ridge points and their labels."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
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


def draw_ceilings(paper: Paper, axes: Axes, aside: Axes | None, panel: Panel, *, apart: bool) -> None:
    """Draw all ceilings of ``panel``; the two that form the roof are heavier.

    With ``apart`` each bandwidth is a roof of its own, with its own label and ridge.
    """
    _draw_before(paper, axes, panel)
    _draw_peaks(paper, axes, panel)
    _draw_bandwidths(paper, axes, panel, apart)
    _draw_computes(paper, axes, aside, panel)


def label_ceilings(paper: Paper, axes: Axes, panel: Panel, *, apart: bool) -> None:
    """Write what each ceiling is, and mark the ridges; those with the fewest places first."""
    _label_computes(paper, axes, panel)
    _label_peaks(paper, axes, panel)
    if apart:
        for number, group in enumerate(_slopes_together(paper, axes, panel)):
            _label_slope(paper, axes, panel, group, above=number == 0, colour=style.ROOF)
    else:
        _label_bandwidths(paper, axes, panel)
    _mark_ridges(paper, axes, panel, apart)


def _top(axes: Axes, panel: Panel) -> float:
    """Return the FLOP/s at which DRAM lines end: the compute roof, or the top of the axes."""
    return panel.computes[0].value if panel.computes else axes.get_ylim()[1] * 1e9


def _draw_before(paper: Paper, axes: Axes, panel: Panel) -> None:
    """Draw the roofs of the run that this one is set against, dotted; the legend says what they are."""
    bandwidth = next((one for one in panel.before if one.kind == "bandwidth"), None)
    compute = next((one for one in panel.before if one.kind == "compute"), None)
    roof = panel
    if bandwidth is not None or compute is not None:
        roof = replace(
            panel,
            bandwidths=panel.bandwidths[:1] if bandwidth is None else (bandwidth,),
            computes=panel.computes[:1] if compute is None else (compute,),
        )
    ends = []
    if bandwidth is not None:
        ends.append((bandwidth, _bandwidth_ends(paper, axes, roof, bandwidth)))
    if compute is not None:
        left, right = paper.x_limits
        y = units.giga(compute.value)
        ends.append((compute, ((_ridge_x(roof, compute, left), y), (right, y))))
    for ceiling, (start, end) in ends:
        xs, ys = zip(start, end, strict=True)
        look: dict[str, Any] = {"color": style.LOWER, "linewidth": 1.4, "linestyle": ":"}
        axes.plot(xs, ys, zorder=1.9, gid=f"before:{ceiling.name}", **look)
        paper.line(paper.pixels(axes, *start), paper.pixels(axes, *end), 0.5)


def _draw_peaks(paper: Paper, axes: Axes, panel: Panel) -> None:
    """Draw what others state, in long dashes."""
    for peak in panel.peaks:
        xs, heights = _peak_ends(paper, axes, panel, peak)
        look: dict[str, Any] = {"color": style.LOWER, "linewidth": 1.1, "linestyle": (0, (9, 4))}
        axes.plot(xs, heights, zorder=1.8, gid=f"peak:{peak.name}", **look)
        ends = [paper.pixels(axes, x, y) for x, y in zip(xs, heights, strict=True)]
        paper.line(ends[0], ends[1], 0.5)


def _peak_ends(paper: Paper, axes: Axes, panel: Panel, peak: Ceiling) -> tuple[Point, Point]:
    """Return the two x, and the two heights in GFLOP/s, between which a peak's line is drawn."""
    left, right = paper.x_limits
    low, high = (one * 1e9 for one in axes.get_ylim())
    slopes = [one.value for one in panel.peaks if one.kind == "bandwidth"]
    tops = [one.value for one in panel.peaks if one.kind == "compute"]
    if peak.kind == "bandwidth":
        xs = max(left, low / peak.value), min(right, max(tops, default=high) / peak.value)
        return xs, (units.giga(xs[0] * peak.value), units.giga(xs[1] * peak.value))
    # from where a stated bandwidth meets it, else all across
    xs = max(left, peak.value / max(slopes)) if slopes else left, right
    return xs, (units.giga(peak.value), units.giga(peak.value))


def _label_peaks(paper: Paper, axes: Axes, panel: Panel) -> None:
    """Write who states a peak, and its value, beside its line."""
    for peak in panel.peaks:
        xs, heights = _peak_ends(paper, axes, panel, peak)
        start, end = (paper.pixels(axes, x, y) for x, y in zip(xs, heights, strict=True))
        rate = units.bandwidth if peak.kind == "bandwidth" else units.flop_rate
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        words, name = f"{peak.name}: {rate(peak.value)}", f"ceiling:{peak.name}"
        text = paper.text(words, style.FONT - 1, style.LOWER, name, angle)
        if peak.kind == "bandwidth":
            placed = _put_beside_slope(paper, axes, text, start, end, above=True)
        else:
            boxes = _beside_line(paper.area, start[0], start[1], start[1], *paper.size(text))
            box = next((box for box in boxes if paper.is_free([box]) and not paper.crosses(box)), None)
            placed = box is not None
            if box is not None:
                paper.put(text, box)
        if not placed:
            _put_anywhere(paper, axes, text, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2))


def _draw_bandwidths(paper: Paper, axes: Axes, panel: Panel, apart: bool) -> None:
    coloured = len({one.level for one in panel.bandwidths}) > 1
    lower = style.ROOF if apart else style.LOWER
    for index, ceiling in enumerate(panel.bandwidths):
        start, end = _bandwidth_ends(paper, axes, panel, ceiling)
        xs, ys = zip(start, end, strict=True)
        axes.plot(
            xs,
            ys,
            color=style.slope(ceiling.level) if coloured else lower if index else style.ROOF,
            linewidth=(1.2 if apart else 0.7) if index else 1.8,
            linestyle="-" if apart or not index else "--",
            zorder=2,
            gid=f"roof:{ceiling.name}",
        )
        paper.line(paper.pixels(axes, *start), paper.pixels(axes, *end), 0.7)


def _bandwidth_ends(paper: Paper, axes: Axes, panel: Panel, ceiling: Ceiling) -> tuple[Point, Point]:
    """Return the visible part of a DRAM line, in data coordinates."""
    low_x, high_x = paper.x_limits
    low_y, _ = axes.get_ylim()
    gigabytes = units.giga(ceiling.value)
    left = max(low_x, low_y / gigabytes)
    right = min(high_x, units.giga(_top(axes, panel)) / gigabytes)
    return (left, left * gigabytes), (right, right * gigabytes)


def _draw_computes(paper: Paper, axes: Axes, aside: Axes | None, panel: Panel) -> None:
    low, high = paper.x_limits
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
    _label_slope(paper, axes, panel, (roof,), above=True, colour=style.ROOF)
    if lower:
        _label_slope(paper, axes, panel, lower, above=False, colour=style.LOWER)


def _label_slope(
    paper: Paper, axes: Axes, panel: Panel, ceilings: Sequence[Ceiling], *, above: bool, colour: str
) -> None:
    """Write one label beside these lines (highest first): in one row, else in more, else anywhere."""
    start, end = _bandwidth_ends(paper, axes, panel, ceilings[0 if above else -1])
    start_px, end_px = paper.pixels(axes, *start), paper.pixels(axes, *end)
    angle = math.degrees(math.atan2(end_px[1] - start_px[1], end_px[0] - start_px[0]))
    if len(ceilings) == 1 and len({one.level for one in panel.bandwidths}) > 1:
        colour = style.slope(ceilings[0].level)
    name = f"ceiling:{ceilings[0].name}"
    words = ceiling_label(*ceilings)
    text = paper.text(words, style.FONT - 1, colour, name, angle)
    # an arrow through the letters is better than a label far from its line
    for clear in (True, False):
        for rows in (1, 2, 3) if len(ceilings) > 1 else (1,):
            text.set_text(_broken(words, rows))
            if _put_beside_slope(paper, axes, text, start_px, end_px, above=above, clear=clear):
                return
    _put_anywhere(paper, axes, text, ((start_px[0] + end_px[0]) / 2, (start_px[1] + end_px[1]) / 2))


def _broken(words: str, rows: int) -> str:
    """Return a joint label in rows of about the same length, broken between ceilings only."""
    kept = words.replace(" ", "\xa0").replace(",\xa0", ", ").replace("\xa0(", " (")
    width = math.ceil(len(words) / rows) + 12 * (rows > 1)
    return textwrap.fill(kept, width, break_long_words=False, break_on_hyphens=False).replace("\xa0", " ")


def _put_beside_slope(
    paper: Paper, axes: Axes, text: Text, start_px: Point, end_px: Point, *, above: bool, clear: bool = False
) -> bool:
    """Put a rotated text beside a line where it is free; return whether there was such a place.

    With ``clear`` on the wanted side of the line alone, and where no arrow passes through the letters.
    """
    width, height = paper.size(text)
    angle = text.get_rotation()
    at_origin = beads((0.0, 0.0), width, height, angle)
    sides = (1, -1) if above else (-1, 1)
    for side in sides[:1] if clear else sides:
        for away in _AWAY:
            centres = list(_along_slope(start_px, end_px, width, side * (away + height / 2)))
            for index in paper.free_shifts(at_origin, centres):
                covered = beads(centres[index], width, height, angle)
                if not (clear and paper.strikes(covered)):
                    paper.put_rotated(text, centres[index], covered)
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
    bounds = paper.area
    lowest = paper.x_limits[0]
    heights = [paper.pixels(axes, lowest, units.giga(one.value))[1] for one in panel.computes]
    stated = [
        paper.pixels(axes, lowest, units.giga(one.value))[1] for one in panel.peaks if one.kind == "compute"
    ]
    for index, group in enumerate(_close_together(paper, axes, panel.computes)):
        ceiling = group[0]
        colour = style.LOWER if index else style.ROOF
        words = ceiling_label(*group)
        text = paper.text(words, style.FONT - 1, colour, f"ceiling:{ceiling.name}")
        start_x, y = paper.pixels(axes, _ridge_x(panel, ceiling, lowest), units.giga(ceiling.value))
        # above the roof there is room left of its ridge, but half of the label has to be at its line
        hanging = 0.5 if index == 0 else 0.0
        group_heights = [one for one in heights if y - paper.points(_CLOSE) * len(group) < one <= y]
        others = [one for one in heights if one not in group_heights] + stated

        def places(
            size: Point,
            furthest: float = start_x,
            hanging: float = hanging,
            y: float = y,
            bottom: float = min(group_heights),
            others: Sequence[float] = others,
        ) -> list[Box]:
            return [
                box
                for box in _beside_line(
                    bounds, max(furthest - hanging * size[0], bounds.x0), y, bottom, *size
                )
                # a label nearer to another line would be read as that line's
                if all(abs(_middle(box) - y) < abs(_middle(box) - other) - 2 for other in others)
                and paper.is_free([box])
            ]

        box = None
        # a sloping line under the letters is better than a label far from its line
        for clear, rows in itertools.product((True, False), (1, 2, 3)):
            text.set_text(_broken(words, rows) if rows > 1 else words)
            found = places(paper.size(text))
            box = next((box for box in found if not (clear and paper.crosses(box))), None)
            if box is not None:
                break
        if box is None:
            _put_anywhere(paper, axes, text, ((start_x + bounds.x1) / 2, y))
        else:
            paper.put(text, box)


def _slopes_together(paper: Paper, axes: Axes, panel: Panel) -> list[list[Ceiling]]:
    """Return the bandwidths, highest first, in groups between whose lines there is no room for a label."""
    groups: list[list[Ceiling]] = []
    last = (math.inf, math.inf)
    for ceiling in panel.bandwidths:
        start, end = (paper.pixels(axes, *one) for one in _bandwidth_ends(paper, axes, panel, ceiling))
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        # how far the line is from that above it, at a right angle
        gap = abs((last[1] - start[1]) * math.cos(angle) - (last[0] - start[0]) * math.sin(angle))
        if groups and gap < paper.points(style.FONT) * 1.4:
            groups[-1].append(ceiling)
        else:
            groups.append([ceiling])
        last = start
    return groups


def _middle(box: Box) -> float:
    return (box.y0 + box.y1) / 2


def _close_together(paper: Paper, axes: Axes, ceilings: Sequence[Ceiling]) -> list[list[Ceiling]]:
    """Return the ceilings, highest first, in groups whose lines lie too close for a label each."""
    groups: list[list[Ceiling]] = []
    last = math.inf
    for ceiling in ceilings:
        y = paper.pixels(axes, paper.x_limits[0], units.giga(ceiling.value))[1]
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
    request = Request(width, height, *anchor, 2.0, paper.area)
    spot = place([request], paper.obstacles, paper.line_points(), paper.texts)[0]
    if spot is None:
        text.remove()
        return
    paper.put(text, spot.box)
    if spot.leader is not None:
        paper.leader(anchor, spot.leader)


def _mark_ridges(paper: Paper, axes: Axes, panel: Panel, apart: bool) -> None:
    """Mark where the roof meets each compute ceiling, with the intensity where there is room.

    With ``apart``, where each bandwidth meets the highest compute ceiling.
    """
    low, high = paper.x_limits
    bounds = paper.area
    requests, texts = [], []
    last = math.inf
    ridges = [(one, *ridge) for one, ridge in zip(panel.computes, panel.ridges, strict=False)]
    if apart and panel.computes:
        top = panel.computes[0]
        ridges = [(one, top.value / one.value, top.value) for one in panel.bandwidths]
    for index, (ceiling, x, y) in enumerate(ridges):
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
            gid=f"ridge:{ceiling.name}",
        )
        px, py = paper.pixels(axes, x, height)
        paper.obstacles.append(Box(px - 4, py - 4, px + 4, py + 4))
        if index and not apart and abs(py - last) < paper.points(_CLOSE):
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
