"""Where a kernel stands under the measured roofs: arithmetic only, from counts and ceilings to a placement.

Each roof allows a kernel no less than some time: its FLOPs over the compute roof, its bytes across each
boundary over the roof of that boundary. The roof that asks for the most time binds; its time over the time
measured is the share of the attainable performance that the kernel reaches, with or without FLOPs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from . import units
from .count.base import FlopClass
from .machine.boundary import boundaries
from .machine.model import CacheLevel, Ceiling

Bound = Literal["dram", "l3", "l2", "l1", "compute"]

NEGLIGIBLE_SHARE = 0.001
"""DRAM bytes that the DRAM roof moves in less than this share of a call are no DRAM traffic."""

MIXED_SHARE = 0.01
"""From this share on, FLOPs of another precision than the roof's are mentioned."""

FLAGGED_EXCESS = 0.005
"""A dot is flagged when it is above its roof by more than this; below, it prints as 100 %."""

OTHER_CONVENTION = "not counted"
"""In a ceiling's convention: its bytes lack the write-allocates, so it is no roof for actual bytes."""

_CACHES: tuple[tuple[Bound, str], ...] = (("l3", "l2_l3_bytes"), ("l2", "l1_l2_bytes"))
"""Cache levels that may hold back a kernel, and the bytes that cross the boundary above each of them.

Nothing is held against the roof of L1: what instructions load and store is an upper bound where lanes are
masked.
"""


@dataclass(frozen=True)
class Observation:
    """What one call of one kernel took and moved; ``None`` is what could not be had."""

    seconds: float | None
    flops: float | None
    dram_bytes: float | None
    precision: str | None
    threads: int = 1
    declared_flops: float | None = None
    declared_bytes: float | None = None
    l1_l2_bytes: float | None = None
    l2_l3_bytes: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roof:
    """The two ceilings that hold for a precision and a number of threads, and what does not match."""

    bandwidth: Ceiling | None
    compute: Ceiling | None
    notes: tuple[str, ...] = ()

    @property
    def ridge(self) -> float | None:
        """Intensity at which the two meet, in FLOP per byte."""
        if self.bandwidth is None or self.compute is None:
            return None
        return ridge(self.bandwidth, self.compute)

    def attainable(self, intensity: float) -> float | None:
        """Return the FLOP/s that the roof allows at ``intensity``, or ``None`` if there is no ceiling."""
        limits = []
        if self.bandwidth is not None:
            limits.append(intensity * self.bandwidth.value)
        if self.compute is not None:
            limits.append(self.compute.value)
        return min(limits, default=None)


class _Time(NamedTuple):
    """The least seconds that a ceiling allows, and what must be known if it is the one that binds."""

    seconds: float
    bound: Bound
    ceiling: Ceiling
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Where a kernel's dot is, and what is above it.

    Attributes
    ----------
    intensity
        Executed FLOPs over actual DRAM bytes; ``None`` if there is no DRAM traffic or a count is missing.
    declared_intensity
        The author's FLOPs over the author's bytes.
    flops_per_second
        Executed FLOPs over measured seconds.
    attainable
        FLOP/s that the binding ceiling allows.
    fraction
        Share of it that was reached.
    bound, ceiling
        What holds the kernel back, and the name of that ceiling.
    roof
        The value of that ceiling, in byte/s or FLOP/s; the one measured next to the kernel.
    precision
        The precision whose roof this is: that of most executed FLOPs.
    no_dram_traffic
        True if the DRAM bytes are known and nil or negligible.
    notes
        Everything a reader must know: mismatches, missing ceilings, a dot above its roof.
    """

    intensity: float | None
    declared_intensity: float | None
    flops_per_second: float | None
    attainable: float | None
    fraction: float | None
    bound: Bound | None
    ceiling: str | None
    roof: float | None = None
    precision: str | None = None
    no_dram_traffic: bool = False
    notes: tuple[str, ...] = ()

    @property
    def excess(self) -> float | None:
        """By what share the dot is above its roof, or ``None`` if it is not."""
        if self.fraction is None or self.fraction <= 1 + FLAGGED_EXCESS:
            return None
        return self.fraction - 1


def ridge(bandwidth: Ceiling, compute: Ceiling) -> float:
    """Return the intensity at which a bandwidth ceiling meets a compute ceiling, in FLOP per byte."""
    return compute.value / bandwidth.value


def precision_of(flops_by: Iterable[FlopClass], declared: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the precision of most executed FLOPs, and notes on what differs from it.

    Without counted FLOPs it is the declared one.
    """
    totals: dict[str, int] = {}
    for entry in flops_by:
        if entry.counted and entry.flops:
            totals[entry.precision] = totals.get(entry.precision, 0) + entry.flops
    if not totals:
        return declared, ()
    everything = sum(totals.values())
    most = max(totals, key=lambda precision: (totals[precision], precision))
    notes = []
    if declared is not None and declared != most:
        share = units.percent(totals[most] / everything)
        notes.append(f"declared {declared}, but {share} of the executed FLOPs are {most}: {most} roof")
    for precision, flops in sorted(totals.items()):
        if precision not in (most, declared) and flops / everything >= MIXED_SHARE:
            share = units.percent(flops / everything)
            notes.append(f"{share} of the executed FLOPs are {precision}, held against the {most} roof")
    return most, tuple(notes)


def choose_roof(ceilings: Sequence[Ceiling], precision: str | None, threads: int) -> Roof:
    """Return the highest DRAM and compute ceilings of this precision and number of threads.

    A DRAM ceiling whose bytes lack the write-allocates is no roof for actual bytes. Where there is no ceiling
    of this number of threads the nearest is taken, and the notes say so; another precision is never taken.
    """
    bandwidth, notes = _highest(dram_ceilings(ceilings), threads, "DRAM bandwidth")
    if precision is None:
        return Roof(bandwidth, None, notes)
    matching = [
        ceiling for ceiling in ceilings if ceiling.kind == "compute" and ceiling.precision == precision
    ]
    compute, more = _highest(matching, threads, f"{precision} compute")
    return Roof(bandwidth, compute, notes + more)


def dram_ceilings(ceilings: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the DRAM bandwidths whose bytes are all those moved, write-allocates included."""
    return tuple(
        ceiling
        for ceiling in ceilings
        if ceiling.kind == "bandwidth"
        and ceiling.level == "dram"
        and OTHER_CONVENTION not in ceiling.convention
    )


def comparable(
    ceilings: Sequence[Ceiling], caches: Sequence[CacheLevel]
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """Return the ceilings whose bytes are those of a model of these caches, and notes on what was left out.

    Whether a line sent down counts depends on how the level below is filled, so roofs of one machine do not
    go with the modelled bytes of another.
    """
    conventions = {one.level: one.convention for one in boundaries(caches)}
    kept, left_out = [], {}
    for one in ceilings:
        # the convention of a ceiling ends in the bytes that its own loop moves
        if one.level in (None, "dram") or one.convention.rpartition(":")[0] == conventions.get(one.level):
            kept.append(one)
        else:
            left_out[one.level] = one.convention
    notes = [
        f"the {level.upper()} roofs count other bytes ({convention}) than the model of the caches: left out"
        for level, convention in left_out.items()
    ]
    return tuple(kept), tuple(notes)


def named(ceilings: Sequence[Ceiling], name: str, threads: int) -> Ceiling | None:
    """Return the ceiling of this name that holds for a kernel with ``threads`` threads."""
    return _highest([ceiling for ceiling in ceilings if ceiling.name == name], threads, name)[0]


def place(observation: Observation, ceilings: Sequence[Ceiling]) -> Placement:
    """Return the placement of one kernel under ``ceilings``."""
    seconds, flops, moved = observation.seconds, observation.flops, observation.dram_bytes
    base = Placement(
        intensity=None,
        declared_intensity=_quotient(observation.declared_flops, observation.declared_bytes),
        flops_per_second=_quotient(flops, seconds),
        attainable=None,
        fraction=None,
        bound=None,
        ceiling=None,
        precision=observation.precision,
        notes=observation.notes,
    )
    if moved is None or flops is None:
        missing = [name for name, value in (("FLOPs", flops), ("DRAM bytes", moved)) if value is None]
        return _noted(base, f"not placed: {' and '.join(missing)} not available")
    roof = choose_roof(ceilings, observation.precision if flops else None, observation.threads)
    base = _noted(base, *roof.notes)
    times = _cache_times(observation, ceilings)
    if not _negligible(moved, seconds, roof.bandwidth):
        base = replace(base, intensity=flops / moved)
        return _bound(base, flops, seconds, [*_times(roof, flops, moved), *times])
    base = _noted(replace(base, no_dram_traffic=True), "no DRAM traffic")
    if not times:
        base = _noted(base, "no cache bandwidth to hold it against: compute is the only roof known")
    return _bound(base, flops, seconds, [*_times(Roof(None, roof.compute), flops, 0), *times])


def _cache_times(observation: Observation, ceilings: Sequence[Ceiling]) -> list[_Time]:
    """Return the least seconds the caches allow."""
    times = []
    for level, attribute in _CACHES:
        moved = getattr(observation, attribute)
        of_level = [one for one in ceilings if one.kind == "bandwidth" and one.level == level]
        if moved is not None and of_level:
            ceiling, notes = _highest(of_level, observation.threads, f"{level.upper()} bandwidth")
            if ceiling is not None:
                times.append(_Time(moved / ceiling.value, level, ceiling, notes))
    return times


def _times(roof: Roof, flops: float, moved: float) -> list[_Time]:
    """Return the least seconds memory and the arithmetic allow."""
    times = []
    if roof.bandwidth is not None:
        times.append(_Time(moved / roof.bandwidth.value, "dram", roof.bandwidth))
    if roof.compute is not None and flops:
        times.append(_Time(flops / roof.compute.value, "compute", roof.compute))
    return times


def _bound(base: Placement, flops: float, seconds: float | None, times: list[_Time]) -> Placement:
    """Return ``base`` under the ceiling that asks for the most time."""
    times = [entry for entry in times if entry.seconds > 0]
    if not times:
        return _noted(base, "no ceiling to hold it against")
    least = max(times, key=lambda entry: entry.seconds)
    placed = replace(
        _noted(base, *least.notes),
        attainable=flops / least.seconds,
        fraction=least.seconds / seconds if seconds else None,
        bound=least.bound,
        ceiling=least.ceiling.name,
        roof=least.ceiling.value,
    )
    if placed.excess is not None:
        placed = _noted(placed, f"{units.percent(placed.excess)} above its roof ({least.ceiling.name})")
    return placed


def _negligible(moved: float, seconds: float | None, bandwidth: Ceiling | None) -> bool:
    if moved <= 0:
        return True
    if not seconds or bandwidth is None:
        return False
    return moved / bandwidth.value < NEGLIGIBLE_SHARE * seconds


def _highest(ceilings: Sequence[Ceiling], threads: int, what: str) -> tuple[Ceiling | None, tuple[str, ...]]:
    """Return the highest of ``ceilings`` with this number of threads, or the nearest number, and a note."""
    if not ceilings:
        return None, (f"no {what} ceiling was measured",)
    counts = {ceiling.threads for ceiling in ceilings}
    # fewer threads rather than more: a roof of more threads would hide how close the kernel is to its own
    nearest = max((count for count in counts if count <= threads), default=min(counts))
    best = max((one for one in ceilings if one.threads == nearest), key=lambda one: one.value)
    if nearest == threads:
        return best, ()
    return best, (f"ran with {threads} threads, held against the {what} ceiling of {nearest}",)


def _quotient(numerator: float | None, denominator: float | None) -> float | None:
    if numerator is None or not denominator:
        return None
    return numerator / denominator


def _noted(placement: Placement, *notes: str) -> Placement:
    return replace(placement, notes=(*placement.notes, *notes))
