"""The sheet a panel is drawn on: keeps what is taken, in pixels, so that texts find free places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import style
from .geometry import Array, Box, as_array, inside, overlaps

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.text import Text

Point = tuple[float, float]

PAD = 1.5
"""Pixels kept free around a text, for what renderers disagree about."""

_SAMPLE = 5.0
"""Pixels between the points that stand for a drawn line."""


class Paper:
    """Draws on one axes (and a strip beside it), and remembers what is taken and what texts had better avoid.

    What it draws has its place in fractions of the axes, so that it goes where the axes go.
    """

    def __init__(self, axes: Axes, highest_x: float | None = None, *, crowded: bool = False) -> None:
        from matplotlib.backends.backend_agg import RendererAgg

        self.axes = axes
        self.crowded = crowded
        """Whether there are so many markers that those alike are drawn as one, by :meth:`draw_crowd`."""
        self.dpi = float(axes.figure.dpi)
        # measures texts; nothing is drawn on it
        self.renderer = RendererAgg(1, 1, self.dpi)  # type: ignore[no-untyped-call]
        self.x_limits = axes.get_xlim()
        """What the x axis spans; where a strip lies on the axes, what is left of it."""
        self.area = self.box(axes)
        """The pixels of that."""
        if highest_x is not None:
            self.x_limits = (self.x_limits[0], highest_x)
            right = self.pixels(axes, highest_x, axes.get_ylim()[0])[0]
            self.area = replace(self.area, x1=right)
        self.obstacles: list[Box] = []
        self.texts: list[Box] = []
        self.filled: dict[int, Point] = {}
        """Pixel position of each kernel's filled marker, by the key of its dot."""
        self.strip_end = 0.0
        """Right end of the markers that are in the strip, in pixels."""
        self._lines: list[NDArray[np.float64]] = []
        self._struck: list[NDArray[np.float64]] = []
        self._taken = as_array(())
        self._marks: dict[tuple[Axes, style.Look, bool, float], list[Point]] = {}
        self._segments: dict[tuple[str, float, float], list[tuple[Point, Point]]] = {}

    def points(self, size: float) -> float:
        """Return ``size`` points in pixels."""
        return float(size * self.dpi / 72)

    def pixels(self, axes: Axes, x: float, y: float) -> Point:
        """Return the pixel position of data coordinates."""
        px, py = axes.transData.transform((x, y))
        return float(px), float(py)

    def box(self, axes: Axes) -> Box:
        """Return the pixel box of the axes' area."""
        bounds = axes.get_window_extent(self.renderer)
        return Box(bounds.x0, bounds.y0, bounds.x1, bounds.y1)

    def _fraction(self, x: float, y: float) -> Point:
        fx, fy = self.axes.transAxes.inverted().transform((x, y))
        return float(fx), float(fy)

    def marker(
        self,
        axes: Axes,
        x: float,
        y: float,
        look: style.Look,
        *,
        name: str,
        key: int | None,
        hollow: bool = False,
        size: float = style.MARKER,
    ) -> None:
        """Draw a marker and reserve its box; with a key it is the one a dot's label and arrow go to."""
        size = style.HOLLOW if hollow else size
        if self.crowded:
            self._marks.setdefault((axes, look, hollow, size), []).append((x, y))
        else:
            _plot(axes, [(x, y)], look, size, hollow=hollow, name=name)
        px, py = self.pixels(axes, x, y)
        radius = self.points(size) / 2 + PAD
        self.obstacles.append(Box(px - radius, py - radius, px + radius, py + radius))
        if axes is not self.axes:
            self.strip_end = max(self.strip_end, px + radius)
        if key is not None:
            self.filled[key] = (px, py)

    def bar(self, axes: Axes, x: float, low: float, high: float, look: style.Look, name: str) -> None:
        """Draw the error bar of a dot."""
        ends = self.pixels(axes, x, low), self.pixels(axes, x, high)
        if self.crowded:
            self._segments.setdefault((look.colour, 1.1, 1.0), []).append(ends)
            return
        axes.plot(
            [x, x],
            [low, high],
            color=look.colour,
            linewidth=1.1,
            marker="_",
            markersize=4,
            zorder=5.5,
            gid=f"bar:{name}",
        )
        self.line(*ends, 1.0)

    def draw_crowd(self) -> None:
        """Draw all markers, bars and arrows kept so far, those alike together."""
        from matplotlib.collections import LineCollection

        for (axes, look, hollow, size), places in self._marks.items():
            _plot(axes, places, look, size, hollow=hollow, name="many")
        for (colour, width, alpha), pairs in self._segments.items():
            lines = [[self._fraction(*start), self._fraction(*end)] for start, end in pairs]
            drawn = LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, zorder=4)
            drawn.set_transform(self.axes.transAxes)
            self._add(drawn)

    def line(self, start: Point, end: Point, weight: float, *, arrow: bool = False) -> None:
        """Remember a line drawn from ``start`` to ``end`` (pixels); of an arrow, to keep labels off it."""
        count = max(2, round(math.dist(start, end) / _SAMPLE))
        steps = np.linspace(0, 1, count)[:, None]
        points = np.array(start) + steps * (np.array(end) - np.array(start))
        self._lines.append(np.column_stack([points, np.full(count, weight)]))
        if arrow:
            self._struck.append(points)

    def line_points(self) -> NDArray[np.float64]:
        """Return points along everything drawn with :meth:`line`: x, y, weight."""
        return np.concatenate(self._lines) if self._lines else np.empty((0, 3))

    def crosses(self, box: Box) -> bool:
        """Return whether a line drawn so far passes under ``box``."""
        points = self.line_points()
        x, y = points[:, 0], points[:, 1]
        return bool(((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).any())

    def strikes(self, boxes: Sequence[Box]) -> bool:
        """Return whether an arrow drawn so far passes through one of ``boxes``."""
        if not self._struck:
            return False
        return bool(inside(np.concatenate(self._struck), as_array(boxes)).any())

    def arrow(
        self,
        start: Point,
        end: Point,
        colour: str,
        *,
        faint: bool,
        size: float = style.HOLLOW,
        line: str = "-",
    ) -> None:
        """Draw an arrow from the rim of a marker of this size to that of a filled one, between two pixels."""
        from matplotlib.patches import FancyArrowPatch

        if self.crowded:
            self._segments.setdefault((colour, 0.5, 0.45), []).append((start, end))
            return
        self._add(
            FancyArrowPatch(
                self._fraction(*start),
                self._fraction(*end),
                transform=self.axes.transAxes,
                arrowstyle="-|>",
                mutation_scale=6,
                shrinkA=size / 2,
                shrinkB=style.MARKER / 2,
                linewidth=0.5 if faint else 0.8,
                linestyle=(0, (1, 2)) if faint else line,
                color=colour,
                alpha=0.45 if faint else 0.6,
                zorder=4,
            )
        )
        self.line(start, end, 0.5 if faint else 1.0, arrow=True)

    def text(self, words: str, size: float, colour: str, name: str, rotation: float = 0.0) -> Text:
        """Return a text that has no place yet."""
        from matplotlib.patheffects import withStroke

        text: Text = self.axes.text(
            0,
            0,
            words,
            transform=self.axes.transAxes,
            fontsize=size,
            color=colour,
            ha="center",
            va="center",
            multialignment="left",
            rotation=rotation,
            rotation_mode="anchor",
            parse_math=False,
            gid=name,
            zorder=8,
        )
        text.set_in_layout(False)
        # a thin halo keeps a text readable where a line must pass beneath it
        text.set_path_effects([withStroke(linewidth=1.6, foreground="white", alpha=0.85)])
        return text

    def size(self, text: Text) -> Point:
        """Return width and height of a text before it is rotated, in pixels, with the room to keep free."""
        rotation = text.get_rotation()
        text.set_rotation(0)
        pixels = text.get_window_extent(self.renderer)
        text.set_rotation(rotation)
        # a vector file has the unhinted letters, whose words may be wider
        size = float(text.get_fontsize())
        vector = max(inches_of(line, size) for line in text.get_text().split("\n"))
        return max(pixels.width, vector * self.dpi) + 2 * PAD, pixels.height + 2 * PAD

    def is_free(self, boxes: Sequence[Box]) -> bool:
        """Return whether none of these boxes touches what is taken."""
        return not bool(overlaps(as_array(boxes), self._all_taken()).any())

    def _all_taken(self) -> Array:
        if len(self._taken) != len(self.obstacles):
            self._taken = as_array(self.obstacles)
        return self._taken

    def free_shifts(self, boxes: Sequence[Box], shifts: Sequence[Point]) -> list[int]:
        """Return which shifts take all of these boxes to where nothing is, within the area."""
        if not shifts:
            return []
        x, y = np.array(shifts).T
        moved = as_array(boxes)[None] + np.stack([x, y, x, y], axis=1)[:, None]
        area = self.area
        within = (
            (moved[..., 0] >= area.x0)
            & (moved[..., 1] >= area.y0)
            & (moved[..., 2] <= area.x1)
            & (moved[..., 3] <= area.y1)
        ).all(axis=1)
        taken = overlaps(moved.reshape(-1, 4), self._all_taken()).any(axis=1).reshape(len(shifts), -1)
        return [int(index) for index in np.flatnonzero(within & ~taken.any(axis=1))]

    def put(self, text: Text, box: Box) -> None:
        """Put a text into ``box`` and reserve it."""
        text.set_position(self._fraction((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2))
        self.obstacles.append(box)
        self.texts.append(box)

    def put_rotated(self, text: Text, centre: Point, beads: list[Box]) -> None:
        """Put a rotated text at ``centre`` and reserve the boxes that cover it."""
        text.set_position(self._fraction(*centre))
        self.obstacles += beads
        self.texts += beads

    def leader(self, start: Point, end: Point) -> None:
        """Draw the thin line from a marker to its label."""
        from matplotlib.lines import Line2D

        (x0, y0), (x1, y1) = self._fraction(*start), self._fraction(*end)
        self._add(
            Line2D(
                [x0, x1],
                [y0, y1],
                transform=self.axes.transAxes,
                color=style.LEADER,
                linewidth=0.5,
                zorder=3,
                gid="leader",
            )
        )

    def _add(self, artist: Artist) -> None:
        """Add an artist that may reach from the axes into the strip beside them."""
        self.axes.add_artist(artist)
        artist.set_clip_on(False)
        artist.set_in_layout(False)


def inches_of(words: str, size: float = style.FONT) -> float:
    """Return the width of a line of text in inches, wherever it is drawn."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    properties = FontProperties(family="DejaVu Sans", size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(words, properties, ismath=False)
    return float(width) / 72


def _plot(
    axes: Axes, places: Sequence[Point], look: style.Look, size: float, *, hollow: bool, name: str
) -> None:
    """Draw markers that look alike."""
    axes.plot(
        [x for x, _ in places],
        [y for _, y in places],
        marker=look.marker,
        markersize=size,
        color=look.colour,
        markerfacecolor="none" if hollow else look.colour,
        markeredgecolor=look.colour if hollow else "white",
        markeredgewidth=0.9 if hollow else 0.6,
        linestyle="",
        alpha=0.75 if hollow else 1.0,
        zorder=5 if hollow else 6,
        gid=f"{'hollow' if hollow else 'filled'}:{name}",
    )


def beads(centre: Point, width: float, height: float, degrees: float) -> list[Box]:
    """Return upright boxes that together cover a rotated rectangle."""
    angle = math.radians(degrees)
    cosine, sine = math.cos(angle), math.sin(angle)
    count = max(1, math.ceil(width / height))
    step = width / count
    half_x = (step * abs(cosine) + height * abs(sine)) / 2
    half_y = (step * abs(sine) + height * abs(cosine)) / 2
    boxes = []
    for index in range(count):
        along = (index + 0.5) * step - width / 2
        x, y = centre[0] + along * cosine, centre[1] + along * sine
        boxes.append(Box(x - half_x, y - half_y, x + half_x, y + half_y))
    return boxes
