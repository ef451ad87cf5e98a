"""What the ceilings around a dot say: the one it has not reached names what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..machine.model import Ceiling
from .base import PACED, Facts, Finding, nearest
from .peaks import ISA_BITS

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
    missing = _missing(facts, above)
    if missing is None:
        return
    below = [
        one for one in ceilings if one.value < above.value and one.value * NEAR <= placed.flops_per_second
    ]
    rate = units.flop_rate
    where = ""
    if below:
        reached = "above" if placed.flops_per_second > below[-1].value else "about at"
        where = f"{reached} {below[-1].name} ({rate(below[-1].value)}), "
    yield Finding(
        BETWEEN,
        "note",
        f"at {rate(placed.flops_per_second)} it is {where}below {above.name} ({rate(above.value)})",
        missing,
        evidence={"FLOP/s": placed.flops_per_second, "ceiling above": above.name},
    )


def _missing(facts: Facts, above: Ceiling) -> str | None:
    """Return what the ceiling above has that most FLOPs of the kernel are without.

    ``None`` if that is another mix of operations alone: at the roof of its own a kernel misses nothing.
    """
    classes = [] if facts.counted is None else [one for one in facts.counted.flops_by if one.counted]
    total = sum(one.flops for one in classes)
    width = ISA_BITS.get(above.isa, 0)
    fusible = 2 * min(
        sum(one.flops for one in classes if one.op == "mul"),
        sum(one.flops for one in classes if one.op in ("add", "sub")),
    )
    chains = facts.chain_seconds
    waits = (
        "chain" in above.mix
        if chains is None or not facts.own_seconds
        # what the arithmetic takes at its roof anyway hides shorter chains
        else chains > max(PACED * facts.own_seconds, facts.demand.compute or 0.0)
    )
    if waits:
        return "operations that do not wait for each other: several sums, an unrolled loop"
    if 2 * sum(one.flops for one in classes if one.width is not None and one.width < width) > total:
        return f"{above.isa} instructions"
    if above.fma and 2 * fusible > total:
        return "fused multiply-adds"
    arithmetic = facts.demand.compute
    if arithmetic and facts.own_seconds and arithmetic >= NEAR * facts.own_seconds:
        return None
    return "fewer other instructions in the loop (loads, stores, shuffles), and less waiting for caches"


RULES = (between,)
