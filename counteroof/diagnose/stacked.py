"""What the ceilings around a dot say: the one it has not reached names what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..machine.model import Ceiling
from .base import Facts, Finding, nearest

BETWEEN = "between ceilings"

NEAR = 0.9
"""From this share of a ceiling on, it is reached."""


def between(facts: Facts) -> Iterator[Finding]:
    """The ceilings between which a kernel is that arithmetic holds back, and what the upper one needs."""
    placed = facts.placement
    if placed is None or placed.bound != "compute" or placed.flops_per_second is None:
        return
    ceilings = sorted(
        (
            one
            for one in nearest(facts.machine.ceilings, facts.threads)
            if one.kind == "compute" and one.precision == placed.precision and one.mix not in ("DIV", "SQRT")
        ),
        key=lambda one: one.value,
    )
    above = next((one for one in ceilings if one.value * NEAR > placed.flops_per_second), None)
    if above is None:
        return
    below = [
        one for one in ceilings if one.value < above.value and one.value * NEAR <= placed.flops_per_second
    ]
    rate = units.flop_rate
    where = f"above {below[-1].name} ({rate(below[-1].value)}), " if below else ""
    yield Finding(
        BETWEEN,
        "note",
        f"at {rate(placed.flops_per_second)} it is {where}below {above.name} ({rate(above.value)})",
        _missing(above, below[-1] if below else None),
        evidence={"FLOP/s": placed.flops_per_second, "ceiling above": above.name},
    )


def _missing(above: Ceiling, below: Ceiling | None) -> str:
    """Return what the ceiling above has that the one below does without."""
    if "1 chain" in above.mix:
        return "not even operations that wait for each other are so slow: look at what else the loop does"
    if "chains" in above.mix:
        return (
            "operations wait for each other: several sums, or an unrolled loop, make more of them independent"
        )
    if below is not None and "chain" in below.mix:
        return (
            "more independent operations: several sums, or an unrolled loop, so that none waits for another"
        )
    if below is not None and below.isa != above.isa:
        return f"{above.isa} instructions" + (" that fuse products and sums" if above.fma else "")
    if below is not None and above.fma and not below.fma:
        return "fused multiply-adds"
    return "fewer other instructions in the loop (loads, stores, shuffles, counters)"


RULES = (between,)
