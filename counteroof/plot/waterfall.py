"""The ledger as a waterfall: from declared bytes to actual ones, a bar for every cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import units
from ..errors import BadInput
from ..report.steps import Step, steps
from ..results import KernelResult, Results
from . import style
from .panels import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 24
"""Kernels on one picture."""

_ROW = 0.21
"""Inches of a bar and the gap below it."""

_NAME, _BARS, _RIGHT, _HEAD, _FOOT, _TOP = 2.7, 3.6, 0.15, 0.3, 0.55, 0.45

_VALUES = 0.24
"""Share of the axes at the right that is kept for the numbers."""

_LONGEST = 44
"""Characters of a cause with its array."""

_LOOKS = {"total": ("#8c8c8c", ""), "more": ("#d55e00", ""), "less": ("#0173b2", "////")}
"""Colour and hatch of a bar; the hatch tells more from less in grey."""


def save(
    kernels: Sequence[KernelResult], folder: Path, name: str, formats: Sequence[str]
) -> tuple[Path, ...]:
    """Write the waterfalls of these kernels into ``folder`` in each format and return the files.

    Of more than :data:`MOST` there are several pictures, ``name-1`` and so on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = [kernel for kernel in kernels if kernel.ledger]
    count = max(1, math.ceil(len(shown) / MOST))
    each = math.ceil(len(shown) / count)
    files: list[Path] = []
    with style.themed():
        for number in range(count):
            part = shown[number * each : (number + 1) * each]
            files += style.write(draw(part), folder, name if count == 1 else f"{name}-{number + 1}", formats)
    return tuple(files)


def explained(results: Results) -> tuple[KernelResult, ...]:
    """Return the kernels whose ledger has a step."""
    return tuple(kernel for kernel in results.kernels if any(not line.total for line in kernel.ledger))


def draw(kernels: Sequence[KernelResult]) -> Figure:
    """Return the waterfalls of kernels as one picture, in up to two columns.

    Raises
    ------
    BadInput
        If there is no kernel with a ledger, or more than a picture can show.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kernels = [kernel for kernel in kernels if kernel.ledger]
    if not kernels:
        raise BadInput("no kernel has a ledger; bytes are explained by the counter 'instrument'")
    if len(kernels) > MOST:
        raise BadInput(f"{len(kernels)} ledgers are too many for one picture (at most {MOST}); choose some")
    columns = 1 if len(kernels) == 1 else 2
    rows = [kernels[at : at + columns] for at in range(0, len(kernels), columns)]
    heights = [_ROW * max(len(steps(kernel.ledger)) for kernel in row) for row in rows]
    width = columns * (_NAME + _BARS + _RIGHT)
    height = _TOP + sum(heights) + len(rows) * (_HEAD + _FOOT)
    with style.themed():
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        figure.text(0.1 / width, 1 - 0.2 / height, "From declared to actual bytes", fontsize=style.FONT + 4)
        top = height - _TOP
        for row, tall in zip(rows, heights, strict=True):
            for column, kernel in enumerate(row):
                own = _ROW * len(steps(kernel.ledger))
                left = column * (_NAME + _BARS + _RIGHT) + _NAME
                bottom = top - _HEAD - own
                place = (left / width, bottom / height, _BARS / width, own / height)
                draw_on(figure.add_axes(place), kernel)
            top -= tall + _HEAD + _FOOT
    return figure


def draw_on(axes: Axes, kernel: KernelResult) -> None:
    """Draw the waterfall of one kernel on axes that are there already."""
    import seaborn  # not at the top: it takes longer to import than the roofline to draw

    found = steps(kernel.ledger)
    ends = [end for step in found for end in (step.start, step.end)]
    low, high = min(0, *ends), max(*ends, 1)
    prefix, scale = _prefix(max(high, -low))
    with style.themed():
        axes.set_title(
            shortened(kernel.label), loc="left", fontsize=style.FONT + 1, fontweight="bold", parse_math=False
        )
        right = low + (high - low) / (1 - _VALUES)
        axes.set_xlim(low / scale, right / scale)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_yticks(range(len(found)), [_cut(step.name) for step in found], parse_math=False)
        axes.tick_params(axis="y", length=0, labelsize=style.FONT)
        axes.tick_params(axis="x", labelsize=style.FONT)
        axes.set_xlabel(f"{prefix}B a call", fontsize=style.FONT)
        axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick * scale <= high])
        axes.axvline(0, color=style.INK, linewidth=0.8, zorder=3)
        seaborn.despine(ax=axes, left=True)
        for number, step in enumerate(found):
            _draw_step(axes, number, step, scale)
            words = units.byte_count(step.bytes) if step.kind == "total" else units.signed_bytes(step.bytes)
            axes.text(
                right / scale,
                number,
                words,
                ha="right",
                va="center",
                fontsize=style.FONT,
                fontweight="bold" if step.kind == "total" else "normal",
                gid=f"value:{number}",
            )
            if number + 1 < len(found):
                at = step.end / scale
                axes.plot(
                    [at, at], [number - 0.36, number + 1.36], color=style.LEADER, linewidth=0.6, zorder=1
                )


def _draw_step(axes: Axes, number: int, step: Step, scale: float) -> None:
    if step.kind == "unknown":
        return
    colour, hatch = _LOOKS[step.kind]
    axes.barh(
        number,
        (step.end - step.start) / scale,
        left=step.start / scale,
        height=0.72,
        color=colour,
        hatch=hatch,
        edgecolor="white",
        linewidth=0.5,
        zorder=2,
        gid=f"{step.kind}:{step.name}",
    )


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\u2026"


def _prefix(largest: float) -> tuple[str, float]:
    """Return the decimal prefix for an axis up to ``largest`` bytes, and what it stands for."""
    power = max(0, min(4, math.floor(math.log10(largest) / 3))) if largest > 0 else 0
    return ("", "k", "M", "G", "T")[power], 10.0 ** (3 * power)
