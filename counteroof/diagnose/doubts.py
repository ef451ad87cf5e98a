"""Findings about the dot itself: where it cannot be, and why it may seem to be there."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..machine.model import CacheLevel, Machine
from ..roofline import named
from .base import Facts, Finding

NEAR = 2
"""A working set of less than this many times the last cache is partly kept by a real one."""

SLOWER = 0.97
"""A ceiling at less than this part of the best clock of the others was disturbed."""

FAR = 4
"""Of data so many times as large as a cache hardly any stay, whatever is replaced."""

LEFT = 0.1
"""The least part of its label that was found of a shared cache on a virtual machine (docs/cache-model.md)."""

KEPT = 0.05
"""From this share on, what the modelled cache kept of the data is worth a doubt."""

ABOVE = "above its roof"
TAKEN = "less cache than modelled"


def above_the_roof(facts: Facts) -> Iterator[Finding]:
    """A dot above its roof, with what is likely wrong: the bytes, the roof, the clock, the count."""
    placed = facts.placement
    if placed is None or placed.excess is None or placed.ceiling is None:
        return
    reasons = list(_reasons(facts))
    if not reasons:
        reasons = ["the time or the roof was measured while the other was not what it is now"]
    yield Finding(
        ABOVE,
        "doubt",
        f"{units.percent(placed.excess)} above its roof ({placed.ceiling}), which cannot be; likely "
        + ", or ".join(reasons),
        "measure the ceilings again (counteroof machine), run again, and compare with another counter",
        evidence={"share above the roof": round(placed.excess, 4)},
    )


def _reasons(facts: Facts) -> Iterator[str]:
    placed = facts.placement
    if placed is None or placed.ceiling is None:
        return
    moved = facts.bytes
    if placed.bound == "dram" and moved is not None and moved.status == "modelled":
        touched = sum(one.touched_bytes or 0 for one in facts.arrays)
        if touched and touched < NEAR * facts.last_bytes:
            yield (
                f"part of its {units.byte_count(touched)} stays in cache, where the machine keeps more "
                "than the model"
            )
    if moved is not None and moved.status == "imported":
        yield "the imported count is of another run, or has other bytes than the roof"
    if any("FLOPs are" in note for note in placed.notes):
        yield "FLOPs of another precision than the roof's are among those executed"
    if any("threads, held against" in note for note in placed.notes):
        yield "the roof is of fewer threads"
    roof = named(facts.machine.ceilings, placed.ceiling, facts.threads)
    if roof is not None and roof.peak:
        yield "the roof is what a data sheet says, at another clock"
    elif roof is not None and roof.clock_hz:
        clocks = [
            one.clock_hz
            for one in facts.machine.ceilings
            if one.clock_hz and roof.clocked_as(one) and one.threads == roof.threads
        ]
        if roof.clock_hz < SLOWER * max(clocks):
            yield (
                f"the roof was measured at {units.hertz(roof.clock_hz)}, when others had "
                f"{units.hertz(max(clocks))}"
            )


def less_cache(facts: Facts) -> Iterator[Finding]:
    """Bytes that the model keeps in a cache of which less was there when the machine was measured."""
    touched = _touched(facts)
    above = 0
    for cache in facts.machine.caches:
        held = _held(facts.machine, cache) if cache.shared_by > 1 else None
        if held is not None and touched is not None and max(held, above) < touched < FAR * cache.bytes:
            found = units.binary_bytes(held) if held else "nothing"
            yield Finding(
                TAKEN,
                "doubt",
                f"{cache.name} is modelled with the {units.binary_bytes(cache.bytes)} of its label, of which "
                f"loads of random lines found {found} when this machine was measured: of the "
                f"{units.byte_count(touched)} touched, more may come from memory than is modelled",
                "count again with what was measured (--capacity measured; what is walked through in order "
                "lies between the two), or with hardware counters",
                evidence={"label bytes": cache.bytes, "measured bytes": held, "touched bytes": touched},
            )
        above = cache.bytes


def unmeasured(facts: Facts) -> str | None:
    """Return that nobody measured what a shared cache holds, if the modelled bytes may depend on it.

    A virtual machine has what its neighbours leave. The text is the same for all kernels of a run.
    """
    touched, machine = _touched(facts), facts.machine
    if touched is None or machine.capacities or machine.hypervisor is None:
        return None
    above = 0
    for cache in machine.caches:
        if cache.shared_by > 1 and max(LEFT * cache.bytes, above) < touched < FAR * cache.bytes:
            return (
                f"{cache.name} is modelled with the {units.binary_bytes(cache.bytes)} of its label; what "
                "this virtual machine has of it, on which the DRAM bytes depend, was not measured "
                "('counteroof machine' does)"
            )
        above = cache.bytes
    return None


def _touched(facts: Facts) -> int | None:
    """Return the bytes touched, ``None`` if the model kept none of them that a smaller cache could lose."""
    if facts.bytes is None or facts.bytes.status != "modelled":
        return None
    touched = sum(one.touched_bytes or 0 for one in facts.arrays)
    again = sum(one.read_again_bytes for one in facts.arrays)
    moved_once = sum(
        min(one.touched_bytes or 0, max(one.dram_read_bytes, one.dram_write_bytes)) for one in facts.arrays
    )
    return touched if again or touched - moved_once > KEPT * touched else None


def _held(machine: Machine, cache: CacheLevel) -> int | None:
    """Return what was found of a cache if it is less than its label; 0 if it was as slow as the next."""
    gone = any(
        one.bytes is None and one.seconds is not None for one in machine.capacities if one.level == cache.name
    )
    return 0 if gone else machine.measured_bytes(cache)


RULES = (above_the_roof, less_cache)
