"""One kernel in a sentence: its intensity, where it stands to the ridge and its roof, and what that means."""

from __future__ import annotations

from .. import units
from ..machine.model import Ceiling
from ..results import KernelResult, Results
from ..roofline import choose_roof, named
from .columns import BOUNDS

_AT_RIDGE = 1.1
"""Within this factor a kernel stands at the ridge."""


def sentence(kernel: KernelResult, results: Results) -> str:
    """Return what there is to say of a kernel's place on the roofline, in one sentence."""
    placed = kernel.placement
    if kernel.error is not None and placed is None:
        return f"Failed: {kernel.error.kind}: {kernel.error.message}."
    if placed is None:
        return "Not placed: it was neither counted nor timed."
    ceilings = results.machine.ceilings
    parts = [_intensity(kernel)]
    if placed.intensity:
        parts.append(_to_the_ridge(placed.intensity, kernel, ceilings))
    parts.append(_to_the_roof(kernel, ceilings))
    if (gain := _halved(kernel, ceilings)) is not None:
        parts.append(f"halving its bytes would raise that roof {units.ratio(gain, 2)} times")
    text = "; ".join(part for part in parts if part)
    return text[:1].upper() + text[1:] + "."


def _intensity(kernel: KernelResult) -> str:
    placed = kernel.placement
    assert placed is not None
    if kernel.flops.value == 0:
        return "no FLOPs"
    declared = placed.declared_intensity
    claimed = f"intensity {units.intensity(declared)} declared, " if declared is not None else "intensity "
    if placed.no_dram_traffic:
        return "no DRAM traffic: the data stay in the caches"
    if placed.intensity is None:
        missing = next(
            one for one in (kernel.flops, kernel.dram_bytes, None) if one is None or one.value is None
        )
        return f"intensity unknown: {missing.reason}" if missing is not None else "intensity unknown"
    return f"{claimed}{units.intensity(placed.intensity)} true"


def _to_the_ridge(intensity: float, kernel: KernelResult, ceilings: tuple[Ceiling, ...]) -> str:
    placed = kernel.placement
    precision = placed.precision if placed is not None else None
    ridge = choose_roof(ceilings, precision or kernel.precision, kernel.threads).ridge
    if ridge is None:
        return ""
    if ridge / _AT_RIDGE <= intensity <= ridge * _AT_RIDGE:
        return f"at the ridge ({units.intensity(ridge)} FLOP/B)"
    side = "left" if intensity < ridge else "right"
    times = units.ratio(max(ridge / intensity, intensity / ridge), 2)
    return f"{times} times {side} of the ridge"


def _to_the_roof(kernel: KernelResult, ceilings: tuple[Ceiling, ...]) -> str:
    placed = kernel.placement
    assert placed is not None
    if placed.bound is None or placed.ceiling is None:
        return "no roof to hold it against"
    ceiling = named(ceilings, placed.ceiling, kernel.threads)
    value = placed.roof if placed.roof is not None else ceiling.value if ceiling is not None else None
    rate = units.flop_rate if placed.bound == "compute" else units.bandwidth
    what = f"the {BOUNDS[placed.bound]} roof ({placed.ceiling}, {rate(value)})"
    if placed.fraction is None:
        return f"held back by {what}, but not timed"
    return f"at {units.percent(placed.fraction)} of {what}"


def _halved(kernel: KernelResult, ceilings: tuple[Ceiling, ...]) -> float | None:
    """Return how much higher the roof of a DRAM-bound kernel were with half its bytes."""
    placed = kernel.placement
    if placed is None or placed.bound != "dram" or not placed.intensity or not placed.attainable:
        return None
    compute = choose_roof(ceilings, placed.precision, kernel.threads).compute
    return min(2.0, compute.value / placed.attainable) if compute is not None else 2.0
