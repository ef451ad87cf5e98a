"""Colours, markers and sizes of the pictures: safe for colour-blind eyes, and told apart in grey by shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = 8.0
"""Points, of kernel and ceiling labels."""

MARKER = 6.5
"""Points, the diameter of a filled marker; a hollow one is larger, so that it rings a filled one."""

HOLLOW = 8.5

INK = "#222222"
ROOF = "#333333"
LOWER = "#777777"
LEADER = "#999999"
STRIP = "#f3f3f3"


class Look(NamedTuple):
    """How a dot is drawn, and what the legend says of it."""

    colour: str
    marker: str
    words: str


# Okabe and Ito's palette, as seaborn's "colorblind" has it
_BLUE, _ORANGE, _GREEN, _PINK, _GREY = "#0173b2", "#d55e00", "#029e73", "#cc78bc", "#949494"

_CACHE = Look(_GREEN, "D", "bound by a cache")

BOUNDS: dict[str | None, Look] = {
    "dram": Look(_BLUE, "o", "bound by DRAM"),
    "compute": Look(_ORANGE, "s", "bound by compute"),
    "l3": _CACHE,
    "l2": _CACHE,
    "l1": _CACHE,
    None: Look(_GREY, "^", "no roof to hold it against"),
}
"""By what binds a kernel."""

LEVELS: dict[str, Look] = {
    "l1": Look(_ORANGE, "v", "bytes of loads and stores (L1)"),
    "l2": Look(_PINK, "s", "bytes between L1 and L2"),
    "l3": Look(_GREEN, "D", "bytes between L2 and L3"),
    "dram": Look(_BLUE, "o", "bytes of DRAM"),
}
"""By the boundary whose bytes are meant."""

LEVEL_SIZES = {"l1": 10.5, "l2": 9.0, "l3": 7.5, "dram": 6.0}
"""Points of a level's marker; the outer ones ring the inner ones where they coincide."""


def slope(level: str | None) -> str:
    """Return the colour of the bandwidth of a level, where a picture has those of several."""
    return LEVELS[level].colour if level in LEVELS else ROOF


def path(number: int) -> tuple[str, str]:
    """Return colour and line style of a path; the first 20 differ, and the first four in grey."""
    colours = (INK, _BLUE, _ORANGE, _GREEN, _PINK)
    return colours[number % len(colours)], ("-", "--", "-.", ":")[number % 4]


@contextmanager
def themed() -> Iterator[None]:
    """Draw in counteroof's style, and leave everybody else's as it was."""
    import matplotlib
    from matplotlib import style

    # seaborn's looks as matplotlib carries them: importing seaborn itself takes longer than the picture
    settings: Any = {
        **style.library["seaborn-v0_8-ticks"],
        **style.library["seaborn-v0_8-paper"],
        "lines.markeredgewidth": 1.0,
        "legend.frameon": True,
        # the font that comes with matplotlib, so that a picture is the same everywhere
        "font.family": "DejaVu Sans",
        "font.size": FONT,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "pdf.fonttype": 42,  # so that the texts can be edited, and journals take it
        "svg.hashsalt": "counteroof",
        "figure.dpi": 150,
    }
    with matplotlib.rc_context(settings):
        yield


def write(figure: Figure, folder: Path, name: str, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure in each format, with no date inside: the same results give the same file."""
    files = []
    for kind in formats:
        path = folder / f"{name}.{kind}"
        options: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if kind == "png" else {}
        figure.savefig(path, format=kind, metadata=_UNDATED.get(kind), **options)
        files.append(path)
    return tuple(files)


_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
