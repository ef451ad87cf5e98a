"""Draws roofline pictures: stacked ceilings, dots at their true positions, arrows from where they came."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import units
from ..results import Results
from . import style
from .ceilings import draw_ceilings, label_ceilings
from .geometry import Box
from .legend import draw_head, legend_inside
from .marks import STRIP_COLUMNS, STRIP_STEP, draw_markers, draw_names
from .panels import Dot, Panel, Picture, ceiling_label, picture
from .paper import Paper, inches_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
USUAL = ("png", "svg")
"""What a run writes."""

MOST_NAMED = 100
"""With more kernels than this a panel has no names: one more would make the picture worse."""

_TALLEST = 14.0
"""Inches of a panel, however many kernels there are."""

_LEFT, _RIGHT, _GAP = 0.75, 0.2, 0.75
_STRIP_GAP = 0.07
_HEAD, _FOOT, _BETWEEN = 1.0, 0.62, 0.95
_TITLE = (style.FONT + 2.5, 1.15)
"""Points of a panel's title, and how much wider its bold letters are."""

_TITLE_LINE = 0.18
_REMARK_LINE = 0.145
_LABEL_MARGIN = 0.15
"""Inches."""

_MOST_LABEL = 0.5
"""A ceiling's label that takes more of the width than this stands where it can."""


@dataclass(frozen=True)
class _Limits:
    """The same for all panels, so that they can be compared."""

    x0: float
    x1: float
    y0: float
    y1: float


def save(
    shown: Results | Picture, folder: Path, name: str = "roofline", formats: Sequence[str] = USUAL
) -> tuple[Path, ...]:
    """Write the picture into ``folder``, in each of some :data:`FORMATS`, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.themed():
        return style.write(draw(shown), folder, name, formats)


def draw(shown: Results | Picture) -> Figure:
    """Return the picture; nothing global is changed and no display is needed."""
    with style.themed():
        return _draw(picture(shown) if isinstance(shown, Results) else shown)


def draw_on(axes: Axes, shown: Results | Picture, panel: int = 0) -> None:
    """Draw one panel of a picture on axes that are there already.

    Axes keep their size and place, so lay the figure out first: labels are placed for the size they have now.
    Kernels without an intensity stand in a strip at the right of the axes.

    Parameters
    ----------
    axes
        Of any figure; what is on them stays.
    shown
        A picture, or results for the classic one.
    panel
        Which of its panels.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    if isinstance(shown, Results):
        shown = picture(shown)
    one = shown.panels[panel]
    with style.themed():
        limits = _limits((one,))
        aside, highest = None, None
        if strip := _strip_width((one,)):
            share = min(0.45, strip * axes.figure.dpi / axes.get_window_extent().width)
            highest = limits.x1
            limits = replace(limits, x1=limits.x0 * (highest / limits.x0) ** (1 / (1 - share)))
            aside = axes.inset_axes((1 - share, 0, share, 1), zorder=0)
        _prepare(axes, shown, one, limits, first=True)
        if aside is not None and highest is not None:
            _prepare_aside(aside, shown, limits)
            aside.set_xlabel("")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(
                [x for x in LogLocator().tick_values(limits.x0, highest) if limits.x0 <= x <= highest]
            )
        figure = axes.get_figure(root=True)
        if figure is not None and figure.get_layout_engine() is not None:
            figure.draw_without_rendering()
        paper = Paper(axes, highest, crowded=len(one.dots) > MOST_NAMED)
        if aside is not None:
            _head_aside(paper, aside, shown)
        _draw_panel(paper, axes, aside, shown, one, legend=True)


def _draw(shown: Picture) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(2, len(shown.panels))
    rows = math.ceil(len(shown.panels) / columns)
    named = [panel for panel in shown.panels if len(panel.dots) <= MOST_NAMED]
    most = max((max(len(panel.placed), len(panel.resident)) for panel in named), default=MOST_NAMED // 2)
    height = min(_TALLEST, max(5.4, 0.12 * most + 2.4))
    width = 9.6 if columns == 1 else 7.0
    strip = _strip_width(shown.panels)
    total_width = _LEFT + columns * (width + strip) + (columns - 1) * _GAP + _RIGHT
    remarks = [line for remark in shown.remarks for line in _wrapped(remark, total_width - 0.3)]
    titles = {panel.title: _wrapped(panel.title, width + strip - 0.1, *_TITLE) for panel in shown.panels}
    extra = _TITLE_LINE * (max(map(len, titles.values())) - 1)
    head, between = _HEAD + extra, _BETWEEN + extra
    foot = _FOOT + _REMARK_LINE * len(remarks) + (0.12 if remarks else 0)
    total_height = head + rows * height + (rows - 1) * between + foot
    figure = Figure(figsize=(total_width, total_height))
    FigureCanvasAgg(figure)
    limits = _limits(shown.panels)
    if shown.slopes_apart:
        limits = _room_for_labels(shown.panels, limits, width)

    def inches(x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
        return x / total_width, y / total_height, w / total_width, h / total_height

    for index, panel in enumerate(shown.panels):
        row, column = divmod(index, columns)
        left = _LEFT + column * (width + strip + _GAP)
        bottom = foot + (rows - 1 - row) * (height + between)
        axes = figure.add_axes(inches(left, bottom, width, height))
        aside = None
        if strip:
            rectangle = inches(left + width + _STRIP_GAP, bottom, strip - _STRIP_GAP, height)
            aside = figure.add_axes(rectangle)
            aside.set_zorder(-1)  # below what reaches into it from the axes
        _prepare(axes, shown, replace(panel, title="\n".join(titles[panel.title])), limits, first=column == 0)
        _draw_minor_ticks(axes)
        if aside is not None:
            _prepare_aside(aside, shown, limits)
        paper = Paper(axes, crowded=len(panel.dots) > MOST_NAMED)
        _draw_panel(paper, axes, aside, shown, panel, legend=False)
    draw_head(figure, shown, total_height)
    for number, line in enumerate(remarks):
        y = (foot - _FOOT - _REMARK_LINE * (number + 0.5)) / total_height
        figure.text(0.1 / total_width, y, line, fontsize=style.FONT, va="center", gid="remark")
    return figure


def _wrapped(text: str, inches: float, size: float = style.FONT, stretch: float = 1.0) -> list[str]:
    """Return a text in lines of at most this width; letters are ``stretch`` times as wide as plain ones."""
    inches /= stretch
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        # of the whole line: what single words are wide adds up to less
        if lines[-1] and inches_of(longer, size) > inches:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _strip_width(panels: Sequence[Panel]) -> float:
    """Return the inches that kernels without traffic need."""
    residents = [dot for panel in panels for dot in panel.resident]
    if not residents and not any(_from_aside(dot) for panel in panels for dot in panel.dots):
        return 0.0
    most = max(len(panel.resident) for panel in panels)
    marker = style.MARKER / 72 * STRIP_STEP
    return max(
        1.1,
        _STRIP_GAP
        + (min(most, STRIP_COLUMNS) + 1.5) * marker
        + max((inches_of(dot.text) for dot in residents if len(residents) <= MOST_NAMED), default=0),
    )


def _from_aside(dot: Dot) -> bool:
    return dot.origin is not None and dot.origin[0] is None


def _limits(panels: Sequence[Panel]) -> _Limits:
    xs: list[float] = []
    ys: list[float] = []
    for panel in panels:
        for x, y in panel.ridges:
            xs += [x / 4, x * 12]
            ys += [y * 1.5, y / 8]
        for dot in panel.dots:
            places = [(dot.intensity, dot.flops_per_second)] + ([dot.origin] if dot.origin else [])
            places += [(other, dot.flops_per_second) for _, other in dot.others]
            places += [(None, end) for end in dot.spread or ()]
            for intensity, performance in places:
                ys += [performance * 1.6, performance / 2.5]
                if intensity is not None:
                    xs += [intensity * 2.5, intensity / 2.5]
        if len(panel.bandwidths) > 1 and panel.computes:
            xs += [panel.computes[0].value / one.value * 2 for one in panel.bandwidths]
        ys += [one.value * 1.5 for one in panel.peaks if one.kind == "compute"]
    if not xs:
        xs = [0.01, 100]
    if not ys:
        ys = [1e8, 1e12]
    return _Limits(min(xs), max(xs), min(ys), max(ys))


def _room_for_labels(panels: Sequence[Panel], limits: _Limits, width: float) -> _Limits:
    """Return limits wide enough for the labels of compute ceilings to stand right of every bandwidth.

    ``width`` are the inches of the axes.
    """
    left = math.log10(limits.x0)
    ends = [math.log10(limits.x1)]
    for panel in panels:
        slowest = min((one.value for one in panel.bandwidths), default=math.inf)
        for ceiling in panel.computes[1:]:
            share = (inches_of(ceiling_label(ceiling), style.FONT - 1) + _LABEL_MARGIN) / width
            crossing = math.log10(max(ceiling.value / slowest, limits.x0))
            if share < _MOST_LABEL:
                ends.append((crossing - share * left) / (1 - share))
    return replace(limits, x1=10 ** max(ends))


def _draw_panel(
    paper: Paper, axes: Axes, aside: Axes | None, shown: Picture, panel: Panel, *, legend: bool
) -> None:
    draw_markers(paper, axes, aside, panel.dots)
    draw_ceilings(paper, axes, aside, panel, apart=shown.slopes_apart)
    for number, path in enumerate(panel.paths):
        colour, line = style.path(number)
        for one, other in itertools.pairwise(path):
            ends = paper.filled[one], paper.filled[other]
            paper.arrow(*ends, colour, faint=False, size=style.MARKER, line=line)
    if legend:
        legend_inside(paper, axes, shown, panel)
    label_ceilings(paper, axes, panel, apart=shown.slopes_apart)
    if paper.crowded:
        paper.draw_crowd()
        unnamed = len(panel.dots)
    else:
        unnamed = draw_names(paper, aside, [dot for dot in panel.dots if dot.text])
    if unnamed:
        axes.set_title(
            f"{unnamed} of {len(panel.dots)} kernels not named for lack of room",
            loc="right",
            y=1.0,
            fontsize=style.FONT,
            color=style.LOWER,
        )


def _prepare(axes: Axes, shown: Picture, panel: Panel, limits: _Limits, *, first: bool) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(limits.x0, limits.x1)
    axes.set_ylim(units.giga(limits.y0), units.giga(limits.y1))
    axes.set_xlabel(shown.x_label, fontsize=style.FONT + 1.5)
    if first:
        axes.set_ylabel("GFLOP/s", fontsize=style.FONT + 1.5)
    axes.set_title(
        panel.title, loc="left", fontsize=_TITLE[0], fontweight="bold", pad=5, y=1.0, parse_math=False
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(labelsize=style.FONT + 0.5)
    axes.grid(True, which="major", color="#ebebeb", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_minor_ticks(axes: Axes) -> None:
    """Draw the ticks between powers of ten as one line an axis; hundreds of ticks take half a second."""
    from matplotlib.ticker import NullLocator

    box = axes.get_window_extent()
    length = 2.5 * axes.figure.dpi / 72
    for axis, limits, reach in (
        (axes.xaxis, axes.get_xlim(), length / box.height),
        (axes.yaxis, axes.get_ylim(), length / box.width),
    ):
        axis.set_minor_locator(NullLocator())
        powers = range(math.floor(math.log10(limits[0])), math.ceil(math.log10(limits[1])))
        places = [factor * 10.0**power for power in powers for factor in range(2, 10)]
        along, across = [], []
        for place in places:
            if limits[0] <= place <= limits[1]:
                along += [place, place, math.nan]
                across += [0.0, -reach, math.nan]
        x, y, transform = (
            (along, across, axes.get_xaxis_transform())
            if axis is axes.xaxis
            else (across, along, axes.get_yaxis_transform())
        )
        axes.plot(x, y, transform=transform, color=style.INK, linewidth=0.6, clip_on=False, gid="ticks")


def _prepare_aside(aside: Axes, shown: Picture, limits: _Limits) -> None:
    """Set up the strip at the right of a panel for kernels without traffic."""
    from matplotlib.ticker import NullLocator

    aside.set_yscale("log")
    aside.set_ylim(units.giga(limits.y0), units.giga(limits.y1))
    aside.set_xlim(0, 1)
    aside.set_facecolor(style.STRIP)
    for axis in (aside.xaxis, aside.yaxis):
        axis.set_major_locator(NullLocator())  # a tick that is made and hidden takes its time, too
        axis.set_minor_locator(NullLocator())
    aside.set_xlabel(shown.aside_label, fontsize=style.FONT + 1.5)
    for spine in aside.spines.values():
        spine.set_visible(False)


def _head_aside(paper: Paper, aside: Axes, shown: Picture) -> None:
    """Write what the strip is at its top, where it lies on the axes."""
    strip = paper.box(aside)
    text = paper.text(shown.aside_label, style.FONT - 1, style.LOWER, "aside")
    width, height = paper.size(text)
    centre = (strip.x0 + strip.x1) / 2
    paper.put(text, Box(centre - width / 2, strip.y1 - height, centre + width / 2, strip.y1))
