"""Draws what a picture is headed by: its title, how its numbers were got, and what its markers mean."""

from __future__ import annotations

from collections.abc import Sequence
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
    if handles := _handles(shown, (panel,)):
        legend = axes.legend(
            handles=handles, loc="best", fontsize=style.FONT - 1, handletextpad=0.3, framealpha=0.9
        )
        found = legend.get_window_extent(paper.renderer)
        paper.obstacles.append(Box(found.x0, found.y0, found.x1, found.y1))


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
