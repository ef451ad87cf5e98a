"""The roofline picture: stacked ceilings, dots at their true positions, arrows from the declared ones."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import units
from ..results import Results
from . import style
from .ceilings import draw_ceilings
from .geometry import Box
from .labels import Request, place, stack
from .panels import Dot, Panel, Picture, picture
from .paper import Paper, inches_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")

MOST_NAMED = 100
"""Kernels of a panel whose names are written; beyond, a name more makes the picture worse."""

_TALLEST = 14.0
"""Inches of a panel, however many kernels there are."""

_LEFT, _RIGHT, _GAP = 0.75, 0.2, 0.75
_STRIP_GAP = 0.07
_STRIP_COLUMNS = 4
"""Dots that may stand side by side in the strip."""

_SPREAD = 1.5
"""Diameters from one dot in the strip to the next."""

_HEAD, _FOOT, _BETWEEN = 1.0, 0.62, 0.95
_REMARK_LINE = 0.145
"""Inches."""


@dataclass(frozen=True)
class _Limits:
    """The same for all panels, so that they can be compared."""

    x0: float
    x1: float
    y0: float
    y1: float


def save(results: Results, folder: Path, name: str = "roofline") -> tuple[Path, ...]:
    """Write the picture as PNG and SVG into ``folder`` and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with style.themed():
        figure = draw(results)
        for kind in FORMATS:
            path = folder / f"{name}.{kind}"
            # no date inside, so that the same results give the same file
            figure.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else None)
            files.append(path)
    return tuple(files)


def draw(results: Results) -> Figure:
    """Return the picture of these results; nothing global is changed and no display is needed."""
    with style.themed():
        return _draw(picture(results))


def _draw(shown: Picture) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(2, len(shown.panels))
    rows = math.ceil(len(shown.panels) / columns)
    most = max(max(len(panel.placed), len(panel.resident)) for panel in shown.panels)
    height = min(_TALLEST, max(5.4, 0.12 * most + 2.4))
    width = 9.6 if columns == 1 else 7.0
    strip = _strip_width(shown.panels)
    total_width = _LEFT + columns * (width + strip) + (columns - 1) * _GAP + _RIGHT
    remarks = [line for remark in shown.remarks for line in textwrap.wrap(remark, int(total_width * 16.5))]
    foot = _FOOT + _REMARK_LINE * len(remarks) + (0.12 if remarks else 0)
    total_height = _HEAD + rows * height + (rows - 1) * _BETWEEN + foot
    figure = Figure(figsize=(total_width, total_height))
    FigureCanvasAgg(figure)
    limits = _limits(shown.panels)

    def inches(x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
        return x / total_width, y / total_height, w / total_width, h / total_height

    for index, panel in enumerate(shown.panels):
        row, column = divmod(index, columns)
        left = _LEFT + column * (width + strip + _GAP)
        bottom = foot + (rows - 1 - row) * (height + _BETWEEN)
        axes = figure.add_axes(inches(left, bottom, width, height))
        aside = None
        if strip:
            rectangle = inches(left + width + _STRIP_GAP, bottom, strip - _STRIP_GAP, height)
            aside = figure.add_axes(rectangle)
        _draw_panel(figure, axes, aside, panel, limits, first=column == 0)
    _head(figure, shown, total_height)
    for number, line in enumerate(remarks):
        y = (foot - _FOOT - _REMARK_LINE * (number + 0.5)) / total_height
        figure.text(0.1 / total_width, y, line, fontsize=style.FONT, va="center", gid="remark")
    return figure


def _strip_width(panels: Sequence[Panel]) -> float:
    """Return the inches that kernels without DRAM traffic need."""
    residents = [dot for panel in panels for dot in panel.resident]
    if not residents:
        return 0.0
    most = max(len(panel.resident) for panel in panels)
    marker = style.MARKER / 72 * _SPREAD
    return max(
        1.1,
        _STRIP_GAP
        + (min(most, _STRIP_COLUMNS) + 1.5) * marker
        + max(inches_of(dot.text) for dot in residents),
    )


def _limits(panels: Sequence[Panel]) -> _Limits:
    xs: list[float] = []
    ys: list[float] = []
    for panel in panels:
        for x, y in panel.ridges:
            xs += [x / 4, x * 12]
            ys += [y * 1.5, y / 8]
        for dot in panel.dots:
            places = [(dot.intensity, dot.flops_per_second)] + ([dot.declared] if dot.declared else [])
            for intensity, performance in places:
                ys += [performance * 1.6, performance / 2.5]
                if intensity is not None:
                    xs += [intensity * 2.5, intensity / 2.5]
    if not xs:
        xs = [0.01, 100]
    if not ys:
        ys = [1e8, 1e12]
    return _Limits(min(xs), max(xs), min(ys), max(ys))


def _draw_panel(
    figure: Figure, axes: Axes, aside: Axes | None, panel: Panel, limits: _Limits, first: bool
) -> None:
    _prepare(axes, panel, limits, first)
    if aside is not None:
        _prepare_aside(aside, limits)
    paper = Paper(figure)
    _draw_markers(paper, axes, aside, panel.dots)
    draw_ceilings(paper, axes, aside, panel)
    unnamed = _draw_names(paper, axes, aside, panel.dots)
    if unnamed:
        axes.set_title(
            f"{unnamed} of {len(panel.dots)} kernels not named for lack of room",
            loc="right",
            fontsize=style.FONT,
            color=style.LOWER,
        )


def _prepare(axes: Axes, panel: Panel, limits: _Limits, first: bool) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(limits.x0, limits.x1)
    axes.set_ylim(units.giga(limits.y0), units.giga(limits.y1))
    axes.set_xlabel("FLOP per byte of DRAM traffic", fontsize=style.FONT + 1.5)
    if first:
        axes.set_ylabel("GFLOP/s", fontsize=style.FONT + 1.5)
    axes.set_title(panel.title, loc="left", fontsize=style.FONT + 2.5, fontweight="bold", pad=5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(labelsize=style.FONT + 0.5)
    axes.grid(True, which="major", color="#ebebeb", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _prepare_aside(aside: Axes, limits: _Limits) -> None:
    """Set up the strip at the right of a panel for kernels without DRAM traffic."""
    aside.set_yscale("log")
    aside.set_ylim(units.giga(limits.y0), units.giga(limits.y1))
    aside.set_xlim(0, 1)
    aside.set_facecolor(style.STRIP)
    aside.set_xticks([])
    aside.tick_params(axis="y", which="both", left=False, labelleft=False)
    aside.set_xlabel("no DRAM traffic", fontsize=style.FONT + 1.5)
    for spine in aside.spines.values():
        spine.set_visible(False)


def _draw_markers(paper: Paper, axes: Axes, aside: Axes | None, dots: Sequence[Dot]) -> None:
    """Draw filled markers, hollow ones, and the arrows between them."""
    spots = _aside_positions(paper, aside, [dot for dot in dots if dot.intensity is None])
    for dot in dots:
        colour, marker, _ = style.BOUND_STYLES[dot.bound]
        where, x = (axes, dot.intensity) if dot.intensity is not None else (aside, spots[dot.key])
        if where is None or x is None:
            continue
        y = units.giga(dot.flops_per_second)
        target = paper.pixels(where, x, y)
        if dot.declared is not None:
            claimed = (dot.declared[0], units.giga(dot.declared[1]))
            source = paper.pixels(axes, *claimed)
            paper.marker(axes, *claimed, marker, style.HOLLOW, colour, hollow=True, dot=dot)
            if dot.moved:
                paper.arrow(source, target, colour, faint=dot.intensity is None)
        paper.marker(where, x, y, marker, style.MARKER, colour, hollow=False, dot=dot)


def _aside_positions(paper: Paper, aside: Axes | None, dots: Sequence[Dot]) -> dict[int, float]:
    """Return an x in the strip for each dot, so that dots of equal performance stand side by side."""
    if aside is None:
        return {}
    size = paper.points(style.MARKER) * _SPREAD
    width = paper.box(aside).x1 - paper.box(aside).x0
    columns: list[float] = []
    positions: dict[int, float] = {}
    for dot in sorted(dots, key=lambda dot: (dot.flops_per_second, dot.name)):
        y = paper.pixels(aside, 0, units.giga(dot.flops_per_second))[1]
        column = next((i for i, last in enumerate(columns) if y - last > size), len(columns))
        # in a heap of equal dots the last column holds those that are left
        column = min(column, _STRIP_COLUMNS - 1)
        columns[column : column + 1] = [y]
        positions[dot.key] = (0.9 + column) * size / width
    return positions


def _draw_names(paper: Paper, axes: Axes, aside: Axes | None, dots: Sequence[Dot]) -> int:
    """Write each kernel's name beside its filled marker, or at the end of a thin line.

    Returns the number of those for which there was no room.
    """
    if aside is not None:
        dots = _draw_column(paper, aside, dots)
    unnamed = max(0, len(dots) - MOST_NAMED)
    dots = dots[:MOST_NAMED]
    spots = paper.filled
    texts = [paper.text(dot.text, style.FONT, style.INK, f"label:{dot.name}") for dot in dots]
    requests = []
    for dot, text in zip(dots, texts, strict=True):
        width, height = paper.size(text)
        where = axes if dot.intensity is not None or aside is None else aside
        x, y = spots[dot.key]
        requests.append(Request(width, height, x, y, paper.points(style.MARKER) * 0.75, paper.box(where)))
    placed = place(requests, paper.obstacles, paper.line_points(), paper.texts)
    for request, text, spot in zip(requests, texts, placed, strict=True):
        if spot is None:
            unnamed += 1
            text.remove()
            continue
        paper.put(text, spot.box)
        if spot.leader is not None:
            paper.leader((request.x, request.y), spot.leader)
    return unnamed


def _draw_column(paper: Paper, aside: Axes, dots: Sequence[Dot]) -> Sequence[Dot]:
    """Write the names in the strip as one column, in the order of the dots; return those not written."""
    residents = [dot for dot in dots if dot.intensity is None]
    if not residents:
        return dots
    residents.sort(key=lambda dot: (paper.filled[dot.key][1], dot.name))
    texts = [paper.text(dot.text, style.FONT, style.INK, f"label:{dot.name}") for dot in residents]
    sizes = [paper.size(text) for text in texts]
    strip = paper.box(aside)
    wanted = [paper.filled[dot.key][1] for dot in residents]
    centres = stack([height for _, height in sizes], wanted, strip.y0, strip.y1)
    left = max(paper.filled[dot.key][0] for dot in residents) + paper.points(style.MARKER) * 1.6
    if centres is None or left + max(width for width, _ in sizes) > strip.x1:
        for text in texts:
            text.remove()
        return dots
    for dot, text, (width, height), y in zip(residents, texts, sizes, centres, strict=True):
        paper.put(text, Box(left, y - height / 2, left + width, y + height / 2))
        x, own = paper.filled[dot.key]
        if left - x > paper.points(style.MARKER) * 2 or abs(y - own) > height / 2:
            paper.leader((x, own), (left, y))
    return [dot for dot in dots if dot.intensity is not None]


def _head(figure: Figure, shown: Picture, total_height: float) -> None:
    from matplotlib.lines import Line2D

    left = 0.1 / figure.get_figwidth()
    figure.text(
        left,
        1 - 0.2 / total_height,
        shown.title,
        fontsize=style.FONT + 5,
        fontweight="bold",
        va="center",
        gid="title",
    )
    figure.text(
        left,
        1 - 0.44 / total_height,
        shown.subtitle,
        fontsize=style.FONT,
        va="center",
        color=style.LOWER,
        gid="subtitle",
    )
    bounds = dict.fromkeys(style.BOUND_STYLES[dot.bound] for panel in shown.panels for dot in panel.dots)
    handles = [
        Line2D([], [], marker=marker, color=colour, linestyle="", markersize=style.MARKER, label=words)
        for colour, marker, words in sorted(bounds, key=lambda one: one[2])
    ]
    if any(dot.declared for panel in shown.panels for dot in panel.dots):
        handles.append(
            Line2D(
                [],
                [],
                marker="o",
                color=style.LOWER,
                markerfacecolor="none",
                linestyle="",
                markersize=style.HOLLOW,
                label="hollow: as declared; arrow: to executed FLOPs and actual bytes",
            )
        )
    if handles:
        figure.legend(
            handles=handles,
            loc="center left",
            bbox_to_anchor=(left * 0.4, 1 - 0.65 / total_height),
            ncols=len(handles),
            frameon=False,
            fontsize=style.FONT,
            handletextpad=0.2,
            columnspacing=1.2,
        )
