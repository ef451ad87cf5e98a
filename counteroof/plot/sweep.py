"""What the caches hold: the time of a load, and the bandwidth, over the size of the working set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .. import units
from ..errors import BadInput
from ..machine.model import Machine
from . import style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 7.0, 5.6


def save(machine: Machine, folder: Path, name: str, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write the picture into ``folder`` in each format and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.themed():
        return style.write(draw(machine), folder, name, formats)


def draw(machine: Machine) -> Figure:
    """Return the picture of a machine's sweep.

    Raises
    ------
    BadInput
        If it was not made.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not machine.sweep:
        raise BadInput("no sweep over sizes was made on this machine; counteroof machine --full makes one")
    with style.themed():
        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        FigureCanvasAgg(figure)
        title = f"What the caches hold: {machine.name}"
        figure.suptitle(
            title, x=0.02, ha="left", fontsize=style.FONT + 4, fontweight="bold", parse_math=False
        )
        upper, lower = figure.subplots(2, 1, sharex=True)
        _draw(upper, [(one.bytes, 1e9 * one.seconds) for one in machine.sweep], "ns a random load")
        rates = [
            (one.bytes, one.bytes_per_second / 1e9)
            for one in machine.sweep
            if one.bytes_per_second is not None
        ]
        _draw(lower, rates, "GB/s, loads in a row")
        for axes in (upper, lower):
            _mark(axes, machine, named=axes is upper)
        places = [size for size, _ in _octaves(machine)]
        lower.set_xticks(places, [text for _, text in _octaves(machine)], fontsize=style.FONT)
        lower.set_xlabel("working set of one thread")
        figure.subplots_adjust(left=0.1, right=0.97, top=0.86, bottom=0.09, hspace=0.12)
    return figure


def _draw(axes: Axes, points: list[tuple[int, float]], label: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(
        [size for size, _ in points],
        [value for _, value in points],
        color=style.BOUNDS["dram"].colour,
        marker="o",
        markersize=3.5,
        linewidth=1.2,
        gid=label,
    )
    axes.set_ylabel(label)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.significant(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(True, color=style.STRIP)


def _mark(axes: Axes, machine: Machine, *, named: bool) -> None:
    """Draw the nominal size of each cache dashed and, where it was seen, what it holds solid."""
    held = {one.level: one.bytes for one in machine.capacities}
    for cache in machine.caches:
        axes.axvline(
            cache.bytes, color=style.LOWER, linestyle="--", linewidth=0.9, gid=f"nominal:{cache.name}"
        )
        found = held.get(cache.name)
        if found is not None:
            axes.axvline(found, color=style.BOUNDS["compute"].colour, linewidth=1.1, gid=f"held:{cache.name}")
        if named:
            words = f"{cache.name}: {'unknown' if found is None else units.binary_bytes(found)}"
            words += f"\nof {units.binary_bytes(cache.bytes)}"
            axes.text(
                cache.bytes,
                1.02,
                words,
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="bottom",
                fontsize=style.FONT,
                gid=f"name:{cache.name}",
            )


def _octaves(machine: Machine) -> list[tuple[int, str]]:
    """Return every fourth power of two that was measured, with its text."""
    sizes = [one.bytes for one in machine.sweep if one.bytes & (one.bytes - 1) == 0]
    return [(size, units.binary_bytes(size)) for size in sizes[::2]]
