"""The roofline of a page as shapes: axes, roofs, dots and labels, in the units of an SVG image.

There is no drawing library in it, so that a thousand kernels take milliseconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import names, units
from .geometry import Box
from .labels import Request, place
from .panels import Dot, Panel, Picture, ceiling_label
from .paper import beads

WIDTH, HEIGHT = 760.0, 460.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 14.0, 14.0, 44.0
_STRIP_DOTS = 46.0
"""Width of the dots in the strip for kernels without DRAM traffic; their names come beside them."""

_COLUMNS = (12.0, 24.0, 36.0)
"""Where the dots stand in it."""

_WIDEST_NAMES = 200.0
"""Names in the strip that are wider are cut in the middle."""

_FONT, _SMALL_FONT = 11.0, 10.0
"""Of names and of ceilings' labels, as in the page's style."""

_LINE, _SMALL_LINE = 14.0, 12.0

_NARROW, _BROAD = frozenset("ijltfrI.,:;'|!()[]/ "), frozenset("mwMW@%_")

MOST_NAMED = 60
"""With more dots than this a panel has no names; they show when a dot is pointed at."""

SHAPES = {
    "dram": "circle",
    "compute": "square",
    "l3": "diamond",
    "l2": "diamond",
    "l1": "diamond",
    None: "up",
}
"""By what binds a kernel; told apart without colour."""


@dataclass(frozen=True)
class Tick:
    """A line of the grid and its number."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """A roof; ``strong`` if it is one of the two that form the roof."""

    x0: float
    y0: float
    x1: float
    y1: float
    title: str
    strong: bool


@dataclass(frozen=True)
class Label:
    """What a roof is, from its right end or, turned along its line, from its left end."""

    x: float
    y: float
    degrees: float
    text: str
    strong: bool


@dataclass(frozen=True)
class Mark:
    """A dot; ``claim`` is where an arrow to it comes from."""

    key: int
    x: float
    y: float
    shape: str
    bound: str
    title: str
    claim: tuple[float, float] | None
    bar: tuple[float, float] | None

    @property
    def place(self) -> tuple[float, float]:
        """Where it stands."""
        return self.x, self.y


@dataclass(frozen=True)
class Name:
    """The label of a dot, from its left end, and the line to the dot if it is not beside it."""

    key: int
    x: float
    y: float
    text: str
    leader: tuple[float, float, float, float] | None


@dataclass(frozen=True)
class Chart:
    """One panel."""

    title: str
    width: float
    height: float
    plot: Box
    strip: Box | None
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]
    marks: tuple[Mark, ...]
    names: tuple[Name, ...]
    unnamed: int


def charts(shown: Picture) -> tuple[Chart, ...]:
    """Return the panels of a picture, all with the same axes."""
    x, y = _limits(shown.panels)
    return tuple(_chart(panel, x, y) for panel in shown.panels)


def _width(text: str, size: float = _FONT) -> float:
    """Return how wide a text is in the widest of the usual sans-serif fonts, about."""
    ems = sum(0.42 if one in _NARROW else 0.96 if one in _BROAD else 0.66 for one in text)
    return size * ems


def _fitted(text: str, width: float) -> str:
    """Return a text, cut in the middle if it is wider than this."""
    room = len(text)
    while _width(text) > width and room > 8:
        room -= 1
        text = names.shortened([text], room)[text]
    return text


class _Axis:
    """Turns numbers into places, on a logarithmic scale."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, scale: float = 1.0) -> Iterator[Tick]:
        first = math.ceil(math.log10(self.low / scale) - 1e-9)
        last = math.floor(math.log10(self.high / scale) + 1e-9)
        for power in range(first, last + 1):
            yield Tick(self(10.0**power * scale), f"{10.0**power:g}")


def _limits(panels: Sequence[Panel]) -> tuple[tuple[float, float], tuple[float, float]]:
    xs: list[float] = []
    ys: list[float] = []
    for panel in panels:
        for x, y in panel.ridges:
            xs += [x / 4, x * 8]
            ys += [y * 1.6, y / 8]
        for dot in panel.dots:
            for intensity, performance in ((dot.intensity, dot.flops_per_second), dot.origin or (None, None)):
                if intensity is not None:
                    xs += [intensity / 2, intensity * 2]
                if performance is not None:
                    ys += [performance / 2, performance * 1.6]
    return (min(xs, default=0.01), max(xs, default=100.0)), (min(ys, default=1e8), max(ys, default=1e12))


def _chart(panel: Panel, x_limits: tuple[float, float], y_limits: tuple[float, float]) -> Chart:
    strip = None
    right = WIDTH - _RIGHT
    if panel.resident:
        width = _STRIP_DOTS
        if len(panel.dots) <= MOST_NAMED:
            width += min(_WIDEST_NAMES, max(_width(dot.text) for dot in panel.resident))
        strip = Box(right - width, _TOP, right, HEIGHT - _BOTTOM)
        right -= width + 6
    plot = Box(_LEFT, _TOP, right, HEIGHT - _BOTTOM)
    x_axis = _Axis(*x_limits, plot.x0, plot.x1)
    y_axis = _Axis(*y_limits, plot.y1, plot.y0)
    marks = tuple(_marks(panel, x_axis, y_axis, strip))
    lines = tuple(_lines(panel, x_axis, y_axis))
    labels, taken = _labels(panel, lines, plot, _places(marks))
    named, unnamed = _names(panel, marks, lines, taken, plot, strip)
    return Chart(
        panel.title,
        WIDTH,
        HEIGHT,
        plot,
        strip,
        tuple(x_axis.ticks()),
        tuple(y_axis.ticks(1e9)),
        lines,
        labels,
        marks,
        named,
        unnamed,
    )


def _lines(panel: Panel, x_axis: _Axis, y_axis: _Axis) -> Iterator[Line]:
    top = panel.computes[0].value if panel.computes else y_axis.high
    for number, ceiling in enumerate(panel.bandwidths):
        left = max(x_axis.low, y_axis.low / ceiling.value)
        right = min(x_axis.high, top / ceiling.value)
        if left < right:
            ends = (x_axis(left), y_axis(left * ceiling.value), x_axis(right), y_axis(right * ceiling.value))
            yield Line(*ends, ceiling_label(ceiling), number == 0)
    for number, ceiling in enumerate(panel.computes):
        left = x_axis.low
        if panel.bandwidths:
            left = max(left, ceiling.value / panel.bandwidths[0].value)
        y = y_axis(ceiling.value)
        yield Line(x_axis(left), y, x_axis(x_axis.high), y, ceiling_label(ceiling), number == 0)


def _marks(panel: Panel, x_axis: _Axis, y_axis: _Axis, strip: Box | None) -> Iterator[Mark]:
    beside = itertools.cycle(_COLUMNS)
    for dot in panel.dots:
        y = y_axis(dot.flops_per_second)
        if dot.intensity is not None:
            x = x_axis(dot.intensity)
        elif strip is not None:
            x = strip.x0 + next(beside)
        else:
            continue
        claim = None
        if dot.origin is not None and dot.origin[0] is not None:
            claim = (x_axis(dot.origin[0]), y_axis(dot.origin[1]))
        bar = None
        if dot.spread is not None:
            low, high = (min(max(end, y_axis.low), y_axis.high) for end in dot.spread)
            bar = (y_axis(low), y_axis(high))
        yield Mark(dot.key, x, y, SHAPES[dot.bound], dot.bound or "none", _title(dot), claim, bar)


def _title(dot: Dot) -> str:
    parts = [dot.name]
    if dot.intensity is not None:
        parts.append(f"{units.intensity(dot.intensity)} FLOP/B")
    else:
        parts.append("no DRAM traffic")
    parts.append(units.flop_rate(dot.flops_per_second))
    if dot.origin is not None and dot.origin[0] is not None:
        parts.append(f"declared {units.intensity(dot.origin[0])} FLOP/B")
    return "\n".join(parts)


def _labels(
    panel: Panel, lines: Sequence[Line], plot: Box, dots: Sequence[tuple[float, float]]
) -> tuple[tuple[Label, ...], list[Box]]:
    """Return the labels of the DRAM roof and of the compute ceilings, and the boxes they take."""
    found: list[Label] = []
    taken: list[Box] = []
    if panel.bandwidths and lines and lines[0].strong:
        found, taken = _beside_slope(lines[0], plot, dots)
    flat = [line for line in lines if line.y0 == line.y1]
    for line in flat:
        size = _width(line.title, _SMALL_FONT)
        right = plot.x1 - 4
        for bottom in (line.y0 - 2, line.y0 + _SMALL_LINE + 1):
            box = Box(right - size, bottom - _SMALL_LINE, right, bottom)
            others = any(box.y0 < other.y0 < box.y1 for other in flat if other is not line)
            covered = any(box.x0 - 6 < x < box.x1 + 6 and box.y0 - 6 < y < box.y1 + 6 for x, y in dots)
            clash = any(box.overlaps(one) for one in taken)
            if plot.y0 <= box.y0 and plot.x0 <= box.x0 and not (others or covered or clash):
                found.append(Label(right, bottom - 3, 0.0, line.title, line.strong))
                taken.append(box)
                break
    return tuple(found), taken


def _beside_slope(
    roof: Line, plot: Box, dots: Sequence[tuple[float, float]]
) -> tuple[list[Label], list[Box]]:
    """Return the label of a sloping roof where it covers no dot, as near to its lower end as that goes."""
    angle = math.atan2(roof.y1 - roof.y0, roof.x1 - roof.x0)
    size = _width(roof.title, _SMALL_FONT)
    length = math.dist((roof.x0, roof.y0), (roof.x1, roof.y1))
    cosine, sine = math.cos(angle), math.sin(angle)
    for away in (5.0, 16.0, 28.0):
        along = 6.0
        while along + size < length:
            x = roof.x0 + along * cosine + away * sine
            y = roof.y0 + along * sine - away * cosine
            middle = (x + size / 2 * cosine + 4 * sine, y + size / 2 * sine - 4 * cosine)
            covered = beads(middle, size, _SMALL_LINE, math.degrees(angle))
            free = not any(
                box.x0 - 6 < px < box.x1 + 6 and box.y0 - 6 < py < box.y1 + 6
                for box in covered
                for px, py in dots
            )
            if free and all(plot.contains(box) for box in covered):
                return [Label(x, y, math.degrees(angle), roof.title, True)], covered
            along += 8.0
    return [], []


def _names(
    panel: Panel,
    marks: Sequence[Mark],
    lines: Sequence[Line],
    taken: Sequence[Box],
    plot: Box,
    strip: Box | None,
) -> tuple[tuple[Name, ...], int]:
    """Return the names that find a place, and the number of those that have none."""
    if len(marks) > MOST_NAMED:
        return (), len(marks)
    texts = {dot.key: dot.text for dot in panel.dots}
    obstacles = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in _places(marks)] + list(taken)
    requests = []
    for mark in marks:
        bounds = plot if strip is None or mark.x < plot.x1 else strip
        if bounds is strip:
            texts[mark.key] = _fitted(texts[mark.key], _WIDEST_NAMES)
        requests.append(Request(_width(texts[mark.key]), _LINE, mark.x, mark.y, 7.0, bounds))
    drawn = [((line.x0, line.y0), (line.x1, line.y1)) for line in lines]
    drawn += [(mark.claim, mark.place) for mark in marks if mark.claim is not None]
    found = []
    spots = place(requests, obstacles, _points(drawn), taken)
    for mark, spot in zip(marks, spots, strict=True):
        if spot is not None:
            leader = (mark.x, mark.y, *spot.leader) if spot.leader is not None else None
            found.append(Name(mark.key, spot.box.x0 + 1, spot.box.y1 - 4, texts[mark.key], leader))
    return tuple(found), len(marks) - len(found)


def _places(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Return where there is a dot, filled or hollow."""
    return [mark.place for mark in marks] + [mark.claim for mark in marks if mark.claim is not None]


def _points(drawn: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> NDArray[np.float64]:
    """Return points along lines, with their weight, for names to avoid."""
    found = [np.empty((0, 3))]
    for start, end in drawn:
        steps = np.linspace(0, 1, max(2, round(math.dist(start, end) / 6)))[:, None]
        along = np.array(start) + steps * (np.array(end) - np.array(start))
        found.append(np.column_stack([along, np.full(len(along), 0.7)]))
    return np.concatenate(found)
