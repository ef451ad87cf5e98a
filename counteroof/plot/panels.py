"""What a roofline picture shows, before anything is drawn: panels, dots, roofs, and what has no place on it.

Kernels of one precision and thread count share a panel with the ceilings of that precision and thread count,
so that no dot stands under a roof that is not its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .. import names, units
from ..errors import BadInput
from ..machine.model import Ceiling
from ..report.columns import BOUNDS
from ..report.legend import conditions
from ..results import KernelResult, Results
from ..roofline import Bound, choose_roof, dram_ceilings, ridge

LONGEST_NAME = 30
"""Characters of a kernel's name on the picture; the middle of longer ones is cut out."""

_MOST_LISTED = 24
"""Kernels without a place that are named."""

_MOST_TOGETHER = 4
"""Ceilings that are named one by one in a joint label."""

_SAME = 1.02
"""Declared and true positions closer than this factor need no arrow."""


SPREAD = 0.8
"""Share of the timing samples that an error bar spans, those in the middle."""

DRAM_X = "FLOP per byte of DRAM traffic"
NO_DRAM = "no DRAM traffic"
SHARES = "percentages: share of the roof that binds"
DECLARED = "hollow: as declared; arrow: to executed FLOPs and actual bytes"

Level = Literal["l1", "l2", "l3", "dram"]


@dataclass(frozen=True)
class Dot:
    """One kernel on the picture, in FLOP per byte and FLOP/s.

    Attributes
    ----------
    key
        Tells kernels of the same name apart.
    name, text
        In full, and as it stands in the picture; without a text the dot is not labelled.
    intensity
        ``None`` without traffic across the boundary of the x axis.
    origin
        Where an arrow to the dot comes from: where the author's formulas put it, or where it was in another
        run; without traffic its intensity is ``None``.
    bound
        What holds the kernel back.
    spread
        FLOP/s of the slowest and the fastest of the middle of the timing samples.
    level
        The boundary whose bytes are on the x axis, where one picture has several.
    others
        Intensities at other boundaries, at the same FLOP/s.
    """

    key: int
    name: str
    text: str
    intensity: float | None
    flops_per_second: float
    origin: tuple[float | None, float] | None
    bound: Bound | None
    spread: tuple[float, float] | None = None
    level: Level | None = None
    others: tuple[tuple[Level, float], ...] = ()

    @property
    def moved(self) -> bool:
        """Whether the origin differs visibly from the dot."""
        if self.origin is None:
            return False
        intensity, performance = self.origin
        if (self.intensity is None) != (intensity is None):
            return True
        pairs = [(performance, self.flops_per_second)]
        if intensity is not None and self.intensity is not None:
            pairs.append((intensity, self.intensity))
        return any(max(a / b, b / a) > _SAME for a, b in pairs)


@dataclass(frozen=True)
class Panel:
    """The dots of one precision and thread count, and the ceilings that hold for them."""

    title: str
    dots: tuple[Dot, ...]
    bandwidths: tuple[Ceiling, ...]
    """Bandwidths, highest first; the first is the roof."""
    computes: tuple[Ceiling, ...]
    """Compute ceilings, highest first; the first is the roof."""
    before: tuple[Ceiling, ...] = ()
    """Roofs of another run, where they differ."""
    peaks: tuple[Ceiling, ...] = ()
    """What others state of the hardware; drawn, and no dot is held against it."""
    paths: tuple[tuple[int, ...], ...] = ()
    """Keys of dots that a line joins, in its order."""

    @property
    def placed(self) -> tuple[Dot, ...]:
        """Dots with traffic."""
        return tuple(dot for dot in self.dots if dot.intensity is not None)

    @property
    def resident(self) -> tuple[Dot, ...]:
        """Dots without traffic."""
        return tuple(dot for dot in self.dots if dot.intensity is None)

    @property
    def ridges(self) -> tuple[tuple[float, float], ...]:
        """Where each compute ceiling leaves the highest bandwidth: FLOP per byte, FLOP/s."""
        if not self.bandwidths:
            return ()
        return tuple((ridge(self.bandwidths[0], one), one.value) for one in self.computes)


@dataclass(frozen=True)
class Picture:
    """Everything on one picture."""

    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    remarks: tuple[str, ...]
    """Kernels that have no place on a roofline, and why."""
    x_label: str = DRAM_X
    aside_label: str = NO_DRAM
    """What is true of the dots without an intensity."""
    hollow: str = DECLARED
    """What the origins are."""
    slopes_apart: bool = False
    """Whether each bandwidth is a roof of its own, rather than a lower ceiling of the first."""


def readable(results: Results) -> Results:
    """Return results whose kernels have readable names, where they are mangled C++ ones."""
    texts = names.all_readable([text for one in results.kernels for text in (one.label, one.name)])
    kernels = [
        one
        if (texts[one.label], texts[one.name]) == (one.label, one.name)
        else dataclasses.replace(one, label=texts[one.label], name=texts[one.name])
        for one in results.kernels
    ]
    return dataclasses.replace(results, kernels=tuple(kernels))


def picture(results: Results) -> Picture:
    """Return what a roofline picture of these results shows."""
    results = readable(results)
    groups: dict[tuple[str, int], list[Dot]] = {}
    for key, kernel in enumerate(results.kernels):
        if (dot := dot_of(kernel, key)) is not None:
            groups.setdefault(group_of(kernel), []).append(dot)
    panels = tuple(
        _panel(results.machine.ceilings, precision, threads, tuple(dots))
        for (precision, threads), dots in sorted(groups.items(), key=lambda item: usual_first(item[0]))
    )
    if not panels:
        panels = tuple(_bare(results.machine.ceilings))
    return Picture(title(results), subtitle(results), panels, tuple(remarks(results)))


def group_of(kernel: KernelResult) -> tuple[str, int]:
    """Return the precision and thread count whose roofs hold for a kernel."""
    placed = None if kernel.placement is None else kernel.placement.precision
    return placed or kernel.precision or "unknown precision", kernel.threads


def usual_first(group: tuple[str, int]) -> tuple[bool, str, int]:
    """Return what panels are sorted by."""
    precision, threads = group
    return precision not in ("f32", "f64"), precision, threads


def _bare(ceilings: Sequence[Ceiling]) -> list[Panel]:
    """Return a panel without dots for each precision that has a roof, so that the roofs can be looked at."""
    precisions = sorted({one.precision for one in ceilings if one.precision in ("f32", "f64")})
    return [_panel(ceilings, precision or "", 1, ()) for precision in precisions or ["f64"]]


def _panel(ceilings: Sequence[Ceiling], precision: str, threads: int, dots: tuple[Dot, ...]) -> Panel:
    roof = choose_roof(ceilings, precision, threads)
    bandwidths: list[Ceiling] = []
    if roof.bandwidth is not None:
        bandwidths = [one for one in dram_ceilings(ceilings) if one.threads == roof.bandwidth.threads]
    computes: list[Ceiling] = []
    if roof.compute is not None:
        computes = [
            one
            for one in ceilings
            if (one.kind, one.precision, one.threads) == ("compute", precision, roof.compute.threads)
            and not one.special
        ]
    heading = panel_title(precision, threads, roof.notes)
    return Panel(heading, dots, highest_first(bandwidths), highest_first(computes))


def with_peaks(shown: Picture, peaks: Sequence[Ceiling], where: str) -> Picture:
    """Return a picture whose panels show the peaks of their precision and number of threads.

    Raises
    ------
    BadInput
        If there is no such panel.
    """
    found = []
    for panel in shown.panels:
        measured = (*panel.bandwidths, *panel.computes)
        threads = {one.threads for one in measured}
        precisions = {None, *(one.precision for one in panel.computes)}
        fitting = [one for one in peaks if one.threads in threads and one.precision in precisions]
        found.append(dataclasses.replace(panel, peaks=highest_first(fitting)))
    if not any(panel.peaks for panel in found):
        stated = ", ".join(f"{one.name} with {one.threads} threads" for one in peaks)
        drawn = "; ".join(panel.title for panel in shown.panels)
        raise BadInput(f"{where}: nothing in it goes with the picture ({drawn}); it states {stated}")
    return dataclasses.replace(shown, panels=tuple(found))


def panel_title(precision: str, threads: int, notes: Sequence[str] = ()) -> str:
    """Return the heading of the panel of a precision and thread count."""
    text = f"{precision}, {threads} thread{'s' if threads > 1 else ''}"
    return f"{text} ({'; '.join(notes)})" if notes else text


def highest_first(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Return ceilings in the order of a panel's."""
    return tuple(sorted(ceilings, key=lambda one: (-one.value, one.name)))


def dot_of(kernel: KernelResult, key: int) -> Dot | None:
    """Return the kernel's dot, or ``None`` if it has no place on logarithmic axes."""
    placed = kernel.placement
    if placed is None or not placed.flops_per_second:
        return None
    if placed.intensity is None and not placed.no_dram_traffic:
        return None
    declared = None
    if placed.declared_intensity and kernel.declared is not None and kernel.seconds is not None:
        claimed = (kernel.declared.flops or 0) / kernel.seconds.median
        declared = (placed.declared_intensity, claimed) if claimed > 0 else None
    return Dot(
        key,
        kernel.label,
        label(kernel),
        placed.intensity,
        placed.flops_per_second,
        declared,
        placed.bound,
        spread(kernel),
    )


def label(kernel: KernelResult) -> str:
    """Return the text beside a kernel's dot: its name, and the share of its roof."""
    text = shortened(kernel.label)
    placed = kernel.placement
    if placed is not None and placed.fraction is not None:
        text += f"  {units.percent(placed.fraction)}"
    if placed is not None and placed.excess is not None:
        text += " (above its roof)"
    return text


def spread(kernel: KernelResult) -> tuple[float, float] | None:
    """Return the FLOP/s between which the middle of the timing samples lies; ``None`` of a single sample."""
    flops = kernel.flops.value
    if kernel.seconds is None or not flops or len(kernel.seconds.samples) < 2:
        return None
    ordered = sorted(kernel.seconds.samples)
    slow, fast = (_quantile(ordered, share) for share in ((1 + SPREAD) / 2, (1 - SPREAD) / 2))
    return (flops / slow, flops / fast) if fast > 0 else None


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them in proportion."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def shortened(name: str) -> str:
    """Return ``name`` in one line, cut in the middle if it is too long for a picture."""
    name = " ".join(name.split())
    return names.shortened([name], LONGEST_NAME)[name]


def ceiling_label(*ceilings: Ceiling) -> str:
    """Return the label of a ceiling, or of several in one: names, values, and what they were measured with.

    Words that all names begin with are said once, and where their ISAs differ each has its own. Of more than
    four (highest first) only the highest and the lowest are named.
    """
    if len({ceiling.threads for ceiling in ceilings}) > 1:
        return ", ".join(map(ceiling_label, ceilings))
    many = len(ceilings) > _MOST_TOGETHER
    named = (ceilings[0], ceilings[-1]) if many else _with_isa(ceilings)
    told = f"{len(ceilings)} of them, {conditions(*ceilings)}" if many else conditions(*named)
    common = 0
    words = [ceiling.name.split() for ceiling in named]
    while len(words) > 1 and all(len(one) > common + 1 and one[common] == words[0][common] for one in words):
        common += 1
    names = [" ".join(one[common if index else 0 :]) for index, one in enumerate(words)]
    values = [_value(ceiling).split(" ") for ceiling in named]
    if len({unit for _, unit in values}) == 1 and len(named) > 1:
        texts = [f"{name} {number}" for name, (number, _) in zip(names, values, strict=True)]
        texts[-1] += f" {values[-1][1]}"
    else:
        texts = [f"{name}: {' '.join(value)}" for name, value in zip(names, values, strict=True)]
    return f"{(' to ' if many else ', ').join(texts)} ({told})"


def _with_isa(ceilings: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the ceilings, each with its ISA in its name if they have different ones."""
    if len({one.isa for one in ceilings}) == 1:
        return tuple(ceilings)
    return tuple(
        one
        if one.isa.casefold() in one.name.casefold()
        else dataclasses.replace(one, name=f"{one.name} {one.isa}")
        for one in ceilings
    )


def _value(ceiling: Ceiling) -> str:
    rate = units.bandwidth if ceiling.kind == "bandwidth" else units.flop_rate
    return rate(ceiling.value)


def title(results: Results) -> str:
    """Return the title of a picture."""
    return f"Roofline: {results.machine.name}"


def subtitle(results: Results) -> str:
    """Return how the numbers of a picture were got."""
    statuses = {
        what: sorted({count.status for count in counts if count.value is not None})
        for what, counts in (
            ("FLOPs", [kernel.flops for kernel in results.kernels]),
            ("DRAM bytes", [kernel.dram_bytes for kernel in results.kernels]),
        )
    }
    parts = [f"{what} {' or '.join(found)}" for what, found in statuses.items() if found]
    peaks = any(one.peak for one in results.machine.ceilings)
    when = f" {results.machine.measured}" if results.machine.measured else ""
    if results.machine.ceilings:
        parts.append("roofs are peaks by another tool, not measured" if peaks else f"roofs measured{when}")
    parts.append(SHARES)
    return "; ".join(parts)


def remarks(results: Results) -> list[str]:
    """Return one line for each reason why kernels are not on the picture, with their names."""
    no_flops, unplaced, failed = [], [], []
    for key, kernel in enumerate(results.kernels):
        placed = kernel.placement
        if kernel.error is not None:
            failed.append(f"{shortened(kernel.label)} ({kernel.error.kind})")
        if dot_of(kernel, key) is not None or placed is None:
            continue
        if placed.flops_per_second == 0 and (placed.intensity is not None or placed.no_dram_traffic):
            no_flops.append(f"{shortened(kernel.label)} {_share(kernel)}")
        elif kernel.error is None:
            unplaced.append(f"{shortened(kernel.label)} ({_why(kernel)})")
    lines = (
        ("No FLOPs, so no place on a roofline", no_flops),
        ("Not placed", unplaced),
        ("Failed", failed),
    )
    return [f"{what}: {listed(found)}." for what, found in lines if found]


def listed(texts: Sequence[str]) -> str:
    """Return texts in a row; of many, how many are left out."""
    if len(texts) <= _MOST_LISTED:
        return ", ".join(texts)
    return f"{', '.join(texts[:_MOST_LISTED])} and {len(texts) - _MOST_LISTED} others"


def _share(kernel: KernelResult) -> str:
    placed = kernel.placement
    parts = ["no DRAM traffic"] if placed is not None and placed.no_dram_traffic else []
    if placed is not None and placed.fraction is not None and placed.bound is not None:
        parts.append(f"{units.percent(placed.fraction)} of {BOUNDS[placed.bound]}")
    return f"({', '.join(parts) or 'no roof'})"


def _why(kernel: KernelResult) -> str:
    if kernel.seconds is None:
        return "not timed"
    for what, count in (("FLOPs", kernel.flops), ("DRAM bytes", kernel.dram_bytes)):
        if count.value is None:
            return f"{what}: {count.reason}"
    return "no FLOPs per second"
