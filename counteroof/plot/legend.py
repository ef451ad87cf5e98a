"""Draws what a picture is headed by: its title, how its numbers were got, and what its markers mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import units
from . import style
from .geometry import Box
from .panels import SPREAD, Panel, Picture
from .paper import Paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.path import Path as MarkerShape


def draw_head(figure: Figure, shown: Picture, total_height: float) -> None:
    """Write title and subtitle at the top of a figure of this height in inches, with the legend below."""
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
    if handles := _handles(shown, shown.panels):
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


def legend_inside(paper: Paper, axes: Axes, shown: Picture, panel: Panel) -> None:
    """Draw the legend on the axes, where it covers least, and keep labels off it."""
    handles = _handles(shown, (panel,))
    if not handles:
        return
    look: dict[str, Any] = {
        "fontsize": style.FONT - 1,
        "handletextpad": 0.3,
        "framealpha": 0.9,
        "borderaxespad": 0.0,
    }
    legend = axes.legend(handles=handles, loc="lower right", **look)
    size = legend.get_window_extent(paper.renderer)
    area = paper.box(axes)
    margin = paper.points(3)
    # matplotlib's "best" knows nothing of the strip beside the roofs
    # larger by the margin, for what renderers disagree about
    sides = size.width + margin, size.height + margin
    box = min(_places(area, *sides, margin), key=lambda box: _covers(paper, box))
    place = ((box.x0 - area.x0) / (area.x1 - area.x0), (box.y0 - area.y0) / (area.y1 - area.y0))
    axes.legend(handles=handles, loc=place, **look)
    paper.obstacles.append(box)


def _places(area: Box, width: float, height: float, margin: float) -> Iterator[Box]:
    """Yield places for a box of this size, those in the corners first."""
    left, right = area.x0 + margin, max(area.x1 - margin - width, area.x0)
    low, high = area.y0 + margin, max(area.y1 - margin - height, area.y0)
    shares = [share / _PLACES for share in range(_PLACES + 1)]
    for sideways in (1.0, 0.0, 0.5):
        for share in sorted(shares, key=lambda share: min(share, 1 - share)):
            x, y = left + sideways * (right - left), low + share * (high - low)
            yield Box(x, y, x + width, y + height)


_PLACES = 16
"""Steps from the bottom to the top."""


def _covers(paper: Paper, box: Box) -> float:
    """Return how much that is drawn lies under a box: above all markers."""
    points = paper.line_points()
    x, y = points[:, 0], points[:, 1]
    lines = ((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).sum()
    return 100.0 * sum(box.overlaps(one) for one in paper.obstacles) + float(lines)


def _handles(shown: Picture, panels: Sequence[Panel]) -> list[Line2D]:
    """Return what the legend shows."""
    from matplotlib.lines import Line2D

    def handle(marker: str | MarkerShape, colour: str, words: str, **look: Any) -> Line2D:
        return Line2D([], [], **{"marker": marker, "color": colour, "linestyle": "", "label": words, **look})

    dots = [dot for panel in panels for dot in panel.dots]
    levels = {level for dot in dots for level in (dot.level, *(one for one, _ in dot.others)) if level}
    if levels:
        looks = [look for level, look in style.LEVELS.items() if level in levels]
    else:
        looks = sorted({style.BOUNDS[dot.bound] for dot in dots}, key=lambda look: look.words)
    handles = [handle(look.marker, look.colour, look.words, markersize=style.MARKER) for look in looks]
    if any(dot.origin for dot in dots):
        hollow = {"markersize": style.HOLLOW, "markerfacecolor": "none"}
        handles.append(handle("o", style.LOWER, shown.hollow, **hollow))
    if any(dot.spread for dot in dots):
        words = f"bars: the middle {units.percent(SPREAD)} of the timing samples"
        handles.append(handle(_beam(), style.LOWER, words, markersize=9, markerfacecolor="none"))
    if any(panel.before for panel in panels):
        handles.append(handle("", style.LOWER, "dotted: roofs before", linestyle=":"))
    if any(panel.peaks for panel in panels):
        look = {"linestyle": (0, (6, 3)), "linewidth": 1.1}
        handles.append(handle("", style.LOWER, "long dashes: not measured", **look))
    return handles


def _beam() -> MarkerShape:
    """Return an error bar as a marker."""
    from matplotlib.path import Path as MarkerShape

    ends = [(-0.22, 0.5), (0.22, 0.5), (0, 0.5), (0, -0.5), (-0.22, -0.5), (0.22, -0.5)]
    return MarkerShape(ends, [MarkerShape.MOVETO, MarkerShape.LINETO] * 3)
