"""What an interactive roofline shows, as rows of plain values: dots with every number, ends of ceilings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import names, units
from ..machine.model import Ceiling
from ..report.columns import BOUNDS
from ..report.explain import whole_sentence
from ..report.provenance import origins
from ..results import KernelResult, Results
from ..roofline import comparable
from . import style, views
from .panels import Level, Panel, ceiling_label

WIDTH, HEIGHT = 720, 460
"""Pixels of the picture."""

_APART = 14
"""Pixels between the lines of two labels."""

LEVELS: dict[Level, str] = {"l1": "L1", "l2": "L2", "l3": "L3", "dram": "DRAM"}

NO_TRAFFIC = "no DRAM traffic"
"""The level of a dot at the edge of the picture."""

FAR = 1e9
"""An intensity beyond every picture."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Dots, ceilings, and the limits of the axes in FLOP per byte and GFLOP/s.

    A dot is one kernel at one boundary; a ceiling has two rows, its ends. ``tips`` has one row a kernel, with
    its ``key``: what is shown where one points, with its sentence, all as texts.
    """

    dots: tuple[Row, ...]
    tips: tuple[Row, ...]
    roofs: tuple[Row, ...]
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]


def rows(shown: Sequence[Panel], results: Results) -> Rows:
    """Return the rows of these panels."""
    dots = [row for panel in shown for row in _dots(panel, results)]
    roofs = [row for panel in shown for row in _roofs(panel, results)]
    x_limits, y_limits = _limits(dots, roofs)
    for row in dots:
        if row["level"] == NO_TRAFFIC:
            row["intensity"] = x_limits[1] / 1.15
    for row in roofs:
        _clip(row, x_limits)
    _choose_labels(roofs, x_limits, y_limits)
    tips = tuple(_tips(results.kernels[dot.key], dot.key, results) for panel in shown for dot in panel.dots)
    return Rows(tuple(dots), tips, tuple(roofs), x_limits, y_limits)


def _dots(panel: Panel, results: Results) -> Iterator[Row]:
    """Return a row for each boundary of each kernel; intensities of kernels without traffic come later."""
    for dot in panel.dots:
        kernel = results.kernels[dot.key]
        row: Row = {
            "panel": panel.title,
            "key": dot.key,
            "kernel": names.printable(names.shortened([dot.name], 80)[dot.name]),
            "gflops": units.giga(dot.flops_per_second),
            "bound": style.BOUNDS[dot.bound].words,
            "declared_intensity": None,
            "declared_gflops": None,
            "gflops_low": None,
            "gflops_high": None,
        }
        if dot.origin is not None and dot.origin[0] is not None:
            row["declared_intensity"], row["declared_gflops"] = dot.origin[0], units.giga(dot.origin[1])
        if dot.spread is not None:
            row["gflops_low"], row["gflops_high"] = map(units.giga, dot.spread)
        flops = kernel.flops.value or 0
        found = []
        for level in views.LEVELS:
            moved = views.level_bytes(kernel, level).value
            if level == "dram" and dot.intensity is None:
                found.append(row | {"level": NO_TRAFFIC, "intensity": None, "FLOP per byte": NO_TRAFFIC})
            elif moved:
                intensity = flops / moved
                text = units.intensity(intensity)
                found.append(
                    row
                    | {
                        "level": LEVELS[level],
                        "intensity": intensity,
                        "FLOP per byte": text,
                    }
                )
        for number, one in enumerate(found):
            yield one | {"outermost": number + 1 == len(found)}


def _tips(kernel: KernelResult, key: int, results: Results) -> Row:
    """Return every number of a kernel with its source, as a tooltip shows it."""
    placed = kernel.placement
    speed = None if placed is None else placed.flops_per_second
    bound = None if placed is None else placed.bound
    found: Row = {
        "in a sentence": whole_sentence(kernel, results.machine),
        "FLOP/s": units.flop_rate(speed),
        "held back by": BOUNDS[bound] if bound else units.MISSING,
        "of that roof": units.percent(placed.fraction if placed is not None else None),
    }
    for one in origins(kernel, results):
        text = f"{one.value} ({one.how}: {one.source}{'; ' + one.note if one.note else ''})"
        # the numbers of a second counter stand behind those of the first
        found[one.what] = f"{found[one.what]}; {text}" if one.what in found else text
    return {"key": key, **{name: names.printable(text) for name, text in found.items()}}


def _roofs(panel: Panel, results: Results) -> Iterator[Row]:
    """Return two rows for each ceiling, its ends; ``roof`` is true of those that form a roof.

    A bandwidth is shown with its level, a compute ceiling with any.
    """
    threads = {one.threads for one in (*panel.bandwidths, *panel.computes)}
    caches, _ = comparable(results.machine.ceilings, results.machine.caches)
    slopes = list(panel.bandwidths)
    for level in ("l1", "l2", "l3"):
        of_level = [one for one in caches if one.level == level and one.threads in threads]
        slopes += sorted(of_level, key=lambda one: -one.value)
    highest: dict[str | None, Ceiling] = {}
    for one in slopes:
        highest.setdefault(one.level, one)
    top = panel.computes[0].value if panel.computes else None
    for one in slopes:
        end = top / one.value if top is not None else None
        yield from _ends(
            panel, one, roof=highest[one.level] is one, slope=units.giga(one.value), left=None, right=end
        )
    for number, one in enumerate(panel.computes):
        ridges = {
            f"ridge_{level}": one.value / highest[level].value if level in highest else FAR
            for level in views.LEVELS
        }
        for row in _ends(panel, one, roof=number == 0, slope=None, left=None, right=None):
            yield row | ridges


def _ends(
    panel: Panel, one: Ceiling, *, roof: bool, slope: float | None, left: float | None, right: float | None
) -> Iterator[Row]:
    level = next((text for key, text in LEVELS.items() if key == one.level), "")
    for step, at in enumerate((left, right)):
        yield {
            "panel": panel.title,
            "name": f"{one.name}, {one.threads}",
            "level": level,
            "roof": roof,
            "step": step,
            "intensity": at,
            "slope": slope,
            "gflops": None if slope is not None else units.giga(one.value),
            "text": ceiling_label(one),
            "source": f"{one.measured or 'at an unknown time'}, {len(one.samples)} samples; {one.convention}",
        }


def _clip(row: Row, x_limits: tuple[float, float]) -> None:
    """Give a ceiling's end its place: at the edge, far enough out that there is something to pan to."""
    if row["intensity"] is None:
        row["intensity"] = x_limits[0] / 1e3 if row["step"] == 0 else x_limits[1] * 1e3
    slope = row.pop("slope")
    if slope is not None:
        row["gflops"] = row["intensity"] * slope


def _choose_labels(
    roofs: Sequence[Row], x_limits: tuple[float, float], y_limits: tuple[float, float]
) -> None:
    """Mark the ceilings that are labelled: those that have room above their line.

    Of bandwidths these are roofs; a label of theirs begins at ``at`` and lies along its line.
    """
    x_pixels, y_pixels = (
        size / math.log(high / low) for size, (low, high) in ((WIDTH, x_limits), (HEIGHT, y_limits))
    )
    angle = math.atan2(y_pixels, x_pixels)
    taken: dict[tuple[str, bool], list[float]] = {}
    # the highest first, those of bandwidths by how far the lines lie apart
    for row in sorted(roofs, key=lambda row: -row["gflops"] / (row["intensity"] if row["level"] else 1)):
        row["labelled"] = False
        if row["step"] or (row["level"] and not row["roof"]):
            continue
        if row["level"]:
            bandwidth = row["gflops"] / row["intensity"]
            line = math.log(bandwidth) * y_pixels * math.cos(angle)
            start = max(x_limits[0], y_limits[0] / bandwidth) * math.exp(12 / x_pixels)
            row |= {"at": start, "at_gflops": start * bandwidth, "angle": -math.degrees(angle)}
        else:
            line = math.log(row["gflops"]) * y_pixels
        lines = taken.setdefault((row["panel"], bool(row["level"])), [])
        row["labelled"] = all(other - line > _APART for other in lines)
        if row["labelled"] or row["level"]:
            lines.append(line)


def _limits(dots: Sequence[Row], roofs: Sequence[Row]) -> tuple[tuple[float, float], tuple[float, float]]:
    xs = [row["intensity"] for row in (*dots, *roofs) if row["intensity"]]
    xs += [row["declared_intensity"] for row in dots if row["declared_intensity"]]
    ys = [row["gflops"] for row in (*dots, *roofs) if row["gflops"]]
    ys += [row["declared_gflops"] for row in dots if row["declared_gflops"]]
    low_x, high_x = min(xs, default=0.01), max(xs, default=100.0)
    low_y, high_y = min(ys, default=0.1), max(ys, default=1000.0)
    return (low_x / 2.5, high_x * 4), (low_y / 2.5, high_y * 2)
