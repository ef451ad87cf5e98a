"""Colours, markers and sizes of the pictures: safe for colour-blind eyes, and told apart in grey by shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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

# Okabe and Ito's palette, as seaborn's "colorblind" has it
BOUND_STYLES: dict[str | None, tuple[str, str, str]] = {
    "dram": ("#0173b2", "o", "bound by DRAM"),
    "compute": ("#d55e00", "s", "bound by compute"),
    "l3": ("#029e73", "D", "bound by a cache"),
    "l2": ("#029e73", "D", "bound by a cache"),
    "l1": ("#029e73", "D", "bound by a cache"),
    None: ("#949494", "^", "no roof to hold it against"),
}
"""What binds a kernel: colour, marker, words."""


@contextmanager
def themed() -> Iterator[None]:
    """Draw in counteroof's style, and leave everybody else's as it was."""
    import matplotlib
    import seaborn

    settings: Any = {
        **seaborn.axes_style("ticks"),
        **seaborn.plotting_context("paper"),
        # the font that comes with matplotlib, so that a picture is the same everywhere
        "font.family": "DejaVu Sans",
        "font.size": FONT,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "svg.hashsalt": "counteroof",
        "figure.dpi": 150,
    }
    with matplotlib.rc_context(settings):
        yield
