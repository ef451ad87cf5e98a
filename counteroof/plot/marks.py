"""Draws the dots of a panel: markers, where they come from, error bars, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import units
from . import style
from .geometry import Box
from .labels import Request, place, stack
from .panels import Dot
from .paper import Paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP_COLUMNS = 4
"""Dots that may stand side by side in the strip of those without traffic."""

STRIP_STEP = 1.5
"""Diameters from one dot in the strip to the next."""


def draw_markers(paper: Paper, axes: Axes, aside: Axes | None, dots: Sequence[Dot]) -> None:
    """Draw filled markers, hollow ones, the arrows between them, error bars, and dots at other boundaries."""
    entries = [(("dot", dot.key), dot.flops_per_second, dot.name) for dot in dots if dot.intensity is None]
    entries += [
        (("origin", dot.key), dot.origin[1], dot.name)
        for dot in dots
        if dot.origin is not None and dot.origin[0] is None
    ]
    spots = _aside_positions(paper, aside, entries)
    for dot in dots:
        look = style.LEVELS[dot.level] if dot.level else style.BOUNDS[dot.bound]
        where, x = (axes, dot.intensity) if dot.intensity is not None else (aside, spots["dot", dot.key])
        if where is None or x is None:
            continue
        y = units.giga(dot.flops_per_second)
        target = paper.pixels(where, x, y)
        if dot.origin is not None:
            _draw_origin(paper, axes, aside, dot, look, target, spots.get(("origin", dot.key)))
        if dot.spread is not None:
            low, high = map(units.giga, dot.spread)
            paper.bar(where, x, low, high, look, dot.name)
        if dot.others:
            ends = [x, *(intensity for _, intensity in dot.others)]
            axes.plot(
                [min(ends), max(ends)], [y, y], color=style.LEADER, linewidth=0.8, zorder=3, gid="levels"
            )
            paper.line(paper.pixels(axes, min(ends), y), paper.pixels(axes, max(ends), y), 1.0)
        for level, intensity in dot.others:
            size = style.LEVEL_SIZES[level]
            paper.marker(axes, intensity, y, style.LEVELS[level], name=dot.name, key=None, size=size)
        size = style.LEVEL_SIZES[dot.level] if dot.level else style.MARKER
        paper.marker(where, x, y, look, name=dot.name, key=dot.key, size=size)


def _draw_origin(
    paper: Paper,
    axes: Axes,
    aside: Axes | None,
    dot: Dot,
    look: style.Look,
    target: tuple[float, float],
    spot: float | None,
) -> None:
    """Draw the hollow marker of where a dot comes from, and the arrow if it has moved."""
    assert dot.origin is not None
    intensity, performance = dot.origin
    where, x = (axes, intensity) if intensity is not None else (aside, spot)
    if where is None or x is None:
        return
    y = units.giga(performance)
    paper.marker(where, x, y, look, hollow=True, name=dot.name, key=None)
    if dot.moved:
        faint = (dot.intensity is None) != (intensity is None)
        paper.arrow(paper.pixels(where, x, y), target, look.colour, faint=faint)


_Entry = tuple[tuple[str, int], float, str]
"""A marker in the strip: what it is, its FLOP/s, and the kernel's name."""


def _aside_positions(
    paper: Paper, aside: Axes | None, entries: Sequence[_Entry]
) -> dict[tuple[str, int], float]:
    """Return an x in the strip for each marker, so that those of equal performance stand side by side."""
    if aside is None:
        return {}
    size = paper.points(style.MARKER) * STRIP_STEP
    width = paper.box(aside).x1 - paper.box(aside).x0
    columns: list[float] = []
    positions: dict[tuple[str, int], float] = {}
    for token, performance, _ in sorted(entries, key=lambda one: (one[1], one[2], one[0])):
        y = paper.pixels(aside, 0, units.giga(performance))[1]
        column = next((i for i, last in enumerate(columns) if y - last > size), len(columns))
        # in a heap of equal dots the last column holds those that are left
        column = min(column, STRIP_COLUMNS - 1)
        columns[column : column + 1] = [y]
        positions[token] = (0.9 + column) * size / width
    return positions


def draw_names(paper: Paper, aside: Axes | None, dots: Sequence[Dot]) -> int:
    """Write each kernel's name beside its filled marker, or at the end of a thin line.

    Returns the number of those for which there was no room.
    """
    if aside is not None:
        dots = _draw_column(paper, aside, dots)
    unnamed = 0
    spots = paper.filled
    texts = [paper.text(dot.text, style.FONT, style.INK, f"label:{dot.name}") for dot in dots]
    requests = []
    for dot, text in zip(dots, texts, strict=True):
        width, height = paper.size(text)
        bounds = paper.area if dot.intensity is not None or aside is None else paper.box(aside)
        x, y = spots[dot.key]
        requests.append(Request(width, height, x, y, paper.points(style.MARKER) * 0.75, bounds))
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
    left = paper.strip_end + paper.points(style.MARKER)
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
