"""What a rule gets and what it gives: the facts of one kernel, and a finding with its evidence and its gain.

A gain is the least time that the roofs allow now over the least time they would allow if the advice were
followed, each under the roof of the kernel's own mix of loads and stores and of its own instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from ..ceiling_jobs import shared_levels, small_twins
from ..count.base import OTHER, WALKS, ArrayTraffic, Count, Measurement
from ..machine.model import CacheLevel, Ceiling, Machine
from ..reconcile import LedgerLine, dram_bytes
from ..roofline import Placement, dram_ceilings
from ..run.timing import PageFaults
from .peaks import arithmetic_seconds

Severity = Literal["cost", "doubt", "note", "claim"]
"""Time that is lost; a number that may not be what it seems; that nothing is; a claim that is wrong."""

WORTH = 1.03
"""A change that gains less than this is no finding."""

PACED = 0.5
"""From this share of its roof on, a kernel is taken to be paced by it: its time goes with the roof."""

WALKED = 0.5
"""From this share of an array's accesses on, a stride is how it is walked."""

LINES_OFF = 4096
"""Bytes by which a claim may be off whatever its size: the ends of arrays share lines and pages."""

_SHARES = {
    "read": (1.0, 0.0, 0.0),
    "3:1": (3 / 5, 1 / 5, 1 / 5),
    "2:1": (1 / 2, 1 / 4, 1 / 4),
    "triad": (1 / 2, 1 / 4, 1 / 4),
    "copy": (1 / 3, 1 / 3, 1 / 3),
    "1:2": (1 / 5, 2 / 5, 2 / 5),
    "2:1 in place": (2 / 3, 0.0, 1 / 3),
    "update": (1 / 2, 0.0, 1 / 2),
    "store": (0.0, 1 / 2, 1 / 2),
    "triad NT": (2 / 3, 0.0, 0.0),
    "copy NT": (1 / 2, 0.0, 0.0),
    "store NT": (0.0, 0.0, 0.0),
}
"""Of the bytes that each loop of the ceilings moves: lines read for loads, lines read for stores, and lines
written from the caches; the rest goes around them."""


@dataclass(frozen=True)
class Finding:
    """An explanation, what to try, and what it would gain.

    Attributes
    ----------
    rule
        Its name, in words.
    severity
        ``cost`` (time), ``doubt`` (a number that may be wrong), ``note`` (no fault) or ``claim``.
    message, try_
        What is so, with the numbers; what to do about it.
    gain
        How many times as fast the kernel could be at most, or ``None`` if it is not about time.
    attainable
        FLOP/s that the roofs would then allow.
    evidence
        The numbers it rests on, in base units, by name.
    """

    rule: str
    severity: str
    message: str
    try_: str
    gain: float | None = None
    attainable: float | None = None
    evidence: Mapping[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shape:
    """An array as the spec has it: extents for this size, and their formulas."""

    name: str
    dtype: str
    element_bytes: int
    extents: tuple[int, ...]
    formulas: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Size of the array."""
        size = self.element_bytes
        for extent in self.extents:
            size *= extent
        return size

    @property
    def integer(self) -> bool:
        """Whether its elements are integers."""
        return self.dtype[0] in "iu"

    @property
    def index(self) -> bool:
        """Whether its elements may be indices of others: integers large enough for it."""
        return self.integer and self.element_bytes >= 4


@dataclass(frozen=True)
class Size:
    """What was counted at one size."""

    params: Mapping[str, float | int]
    flops: float


@dataclass(frozen=True)
class Demand:
    """What one call asks of the machine; bytes that are not known are ``None``.

    ``allocated`` is the part of ``read`` that stores cause, ``non_temporal`` the part of ``write`` that goes
    around the caches; ``compute`` are the least seconds of the arithmetic, as compiled, and ``chains`` those
    in which passes of loops wait for each other.
    """

    read: float | None = None
    write: float | None = None
    allocated: float = 0.0
    non_temporal: float = 0.0
    l2_l3: float | None = None
    l1_l2: float | None = None
    compute: float | None = None
    chains: float | None = None


@dataclass(frozen=True)
class Gain:
    """How many times as fast, and the FLOP/s that the roofs would allow then (``None``: no FLOPs)."""

    factor: float
    attainable: float | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of one kernel at one size when its findings are looked for.

    ``counted`` is the measurement that has FLOPs by class, ``traffic`` that whose arrays explain the bytes.
    """

    machine: Machine
    threads: int = 1
    cache: str = "warm"
    params: Mapping[str, float | int] = field(default_factory=dict)
    seconds: float | None = None
    clock_hz: float | None = None
    page_faults: PageFaults | None = None
    processor_share: float | None = None
    declared_flops: float | None = None
    declared_bytes: float | None = None
    flops_formula: str | None = None
    bytes_formula: str | None = None
    shapes: tuple[Shape, ...] = ()
    counted: Measurement | None = None
    traffic: Measurement | None = None
    placement: Placement | None = None
    ledger: tuple[LedgerLine, ...] = ()
    other_sizes: tuple[Size, ...] = ()
    """The same kernel at other sizes, where a sweep has counted them."""

    @property
    def own_seconds(self) -> float | None:
        """Seconds of a call in which it had a processor.

        Threads that wait for each other have none either, so of several threads it is the whole call.
        """
        if self.seconds is None or self.processor_share is None or self.threads > 1:
            return self.seconds
        return self.seconds * min(self.processor_share, 1.0)

    @property
    def flops(self) -> float | None:
        """Executed FLOPs."""
        return None if self.counted is None else self.counted.flops.value

    @property
    def instructions_per_cycle(self) -> float | None:
        """Instructions that one thread executed in a cycle of its clock; ``None`` if that is not known."""
        if self.counted is None or self.threads > 1 or not self.clock_hz or not self.own_seconds:
            return None
        number = self.counted.instructions.value
        return None if number is None else number / self.clock_hz / self.own_seconds

    @property
    def untimed_locked(self) -> int:
        """Locked instructions whose latency is not known, 0 also where they were not counted."""
        return 0 if self.counted is None else self.counted.untimed_locked or 0

    @property
    def arrays(self) -> tuple[ArrayTraffic, ...]:
        """Traffic of the arguments."""
        if self.traffic is None:
            return ()
        return tuple(array for array in self.traffic.arrays if array.name not in (OTHER, WALKS))

    @property
    def bytes(self) -> Count | None:
        """DRAM bytes of the measurement that explains them."""
        return None if self.traffic is None else dram_bytes(self.traffic)

    @property
    def caches(self) -> tuple[CacheLevel, ...]:
        """The caches, first to last."""
        return self.machine.caches

    @property
    def line_bytes(self) -> int:
        """Bytes of a cache line."""
        return self.caches[0].line_bytes if self.caches else 64

    @property
    def last_bytes(self) -> int:
        """What the last cache holds together with the one above it, if that one's victims fill it."""
        if not self.caches:
            return 0
        last = self.caches[-1]
        return last.bytes + (self.caches[-2].bytes if last.fill == "victim" and len(self.caches) > 1 else 0)

    def shape(self, name: str) -> Shape | None:
        """Return the shape of an array."""
        return next((one for one in self.shapes if one.name == name), None)

    def walk(self, name: str) -> int | None:
        """Return the stride of most accesses to an array in bytes.

        ``None`` if none prevails, it is not known, or the accesses leave nothing out.
        """
        strides = () if self.traffic is None else self.traffic.strides
        found = [one for one in strides if one.array == name and one.share >= WALKED and not one.contiguous]
        return found[0].stride if found else None

    def in_order(self, name: str) -> bool:
        """Return whether most accesses to an array are known to leave nothing out, as in passes over it."""
        strides = () if self.traffic is None else self.traffic.strides
        return sum(one.share for one in strides if one.array == name and one.contiguous) >= WALKED

    def causes(self, *causes: str) -> dict[str | None, int]:
        """Return the bytes of these lines of the ledger, by array."""
        found: dict[str | None, int] = {}
        for line in self.ledger:
            if line.cause in causes:
                found[line.array] = found.get(line.array, 0) + (line.bytes or 0)
        return found

    @property
    def in_cache(self) -> bool:
        """Whether no or hardly any bytes reach memory."""
        return self.placement is not None and self.placement.no_dram_traffic

    @property
    def chain_seconds(self) -> float | None:
        """Seconds that the loops demand whose passes wait for each other; ``None`` if that is not known."""
        if self.counted is None or self.counted.latencies is None or not self.clock_hz:
            return None
        return sum(one.demanded_cycles for one in self.counted.chains) / self.clock_hz

    @cached_property
    def demand(self) -> Demand:
        """What a call asks of the machine now."""
        traffic, counted = self.traffic, self.counted
        compute = None
        if counted is not None:
            compute = arithmetic_seconds(counted.flops_by, self.machine.ceilings, self.threads)
        if traffic is None:
            return Demand(compute=compute, chains=self.chain_seconds)
        streamed = sum(one.dram_write_bytes for one in self.arrays if not one.dram_read_bytes)
        return Demand(
            read=traffic.dram_read_bytes.value,
            write=traffic.dram_write_bytes.value,
            non_temporal=streamed,
            l2_l3=traffic.l2_l3_bytes.value,
            l1_l2=traffic.l1_l2_bytes.value,
            allocated=traffic.write_allocate_bytes.value or 0.0,
            compute=compute,
            chains=self.chain_seconds,
        )

    @property
    def miss_seconds(self) -> float | None:
        """The most that misses can take: if each line that passes below a cache waited for the one before.

        ``None`` if the lines, or how long a load takes from one of the caches or from memory, are not known.
        """
        demand = self.demand
        if demand.read is None:
            return None
        moved = {"L2": demand.l1_l2, "L3": demand.l2_l3}
        latencies = {one.level: one.seconds for one in self.machine.capacities}
        total = 0.0
        for cache in self.caches[1:]:
            lines, seconds = moved.get(cache.name), latencies.get(cache.name)
            if lines == 0:
                continue
            if lines is None or seconds is None:
                return None
            total += lines / self.line_bytes * seconds
        random = [one.value for one in self.machine.access if one.level == "dram" and one.mix == "random"]
        if demand.read and not random:
            return None
        return total + (demand.read / max(random) if demand.read else 0.0)

    @cached_property
    def on_small_pages(self) -> bool:
        """Whether most of what moves is of arrays that are known to lie on the smallest pages."""
        moved = {one.name: _moved(one) for one in self.arrays}
        small = sum(moved[one.name] for one in self.arrays if one.huge_pages is False)
        return 2 * small > sum(moved.values())

    @cached_property
    def roofs(self) -> tuple[Ceiling, ...]:
        """The ceilings for this number of threads, of memory and shared caches on the pages of the arrays.

        Prefetchers stop at the end of a page. Where none was measured on such pages, it is that on huge ones.
        """
        ceilings = nearest(self.machine.ceilings, self.threads)
        if not self.on_small_pages:
            return ceilings
        small = nearest(small_twins(self.machine.access), self.threads)
        there = {(one.level, one.mix) for one in small}
        return (*(one for one in ceilings if (one.level, one.mix) not in there), *small)

    @cached_property
    def usual_roofs(self) -> tuple[Ceiling, ...]:
        """The same, of memory and shared caches at their median: what a call usually gets.

        The best sample of a roof that others move is the luck of a moment.
        """
        shared = shared_levels(self.machine)
        return tuple(
            replace(one, value=one.median) if one.kind == "bandwidth" and one.level in shared else one
            for one in self.roofs
        )

    def parts(self, demand: Demand, *, usual: bool = False) -> dict[str, float]:
        """Return the least, or usual, seconds that each part of the machine needs, if its roof is known."""
        ceilings = self.usual_roofs if usual else self.roofs
        times = {"compute": demand.compute, "chains": demand.chains}
        if demand.read is not None and demand.write is not None:
            times["dram"] = _memory_seconds(demand, ceilings)
        for level, moved in (("l3", demand.l2_l3), ("l2", demand.l1_l2)):
            roofs = [one.value for one in ceilings if one.kind == "bandwidth" and one.level == level]
            if moved is not None and roofs:
                times[level] = moved / max(roofs)
        return {name: time for name, time in times.items() if time}

    def least_seconds(self, demand: Demand, *, usual: bool = False) -> float | None:
        """Return the least seconds in which the roofs allow a demand, or ``None`` without roofs."""
        return max(self.parts(demand, usual=usual).values(), default=None)

    def gain(self, then: Demand, *, paces: bool = False) -> Gain | None:
        """Return what a changed demand would gain, or ``None`` if nothing that counts.

        A kernel near its roof keeps its share of it. One that is far from it is held back by something else,
        and gains no more than the time at their roof of the bytes and FLOPs that go away.

        Parameters
        ----------
        then
            The demand if the advice were followed.
        paces
            Whether what goes away sets the pace although no roof shows it, as misses that nothing hides do:
            then the time goes with the roof whatever the share.
        """
        before, after = (self.least_seconds(one, usual=True) for one in (self.demand, then))
        least = self.least_seconds(then)
        if before is None or after is None or least is None:
            return None
        factor = before / after
        seconds = self.own_seconds
        if seconds is not None and before < PACED * seconds and not paces and not self.memory_paces:
            now, later = (self.parts(one, usual=True) for one in (self.demand, then))
            saved = max(now[name] - later.get(name, 0.0) for name in now)
            factor = seconds / max(after, seconds - saved)
        return self.worth(factor, least)

    @property
    def memory_paces(self) -> bool:
        """Whether nothing but memory is known to take a large part of the time.

        Then a kernel far from that roof is one that memory serves badly, and its time goes with its bytes.
        """
        parts = self.parts(self.demand)
        others = [time for name, time in parts.items() if name != "dram"]
        known = self.demand.chains is not None or not self.flops
        return known and "dram" in parts and max(others, default=0.0) < PACED * parts["dram"]

    def worth(self, factor: float, least_seconds: float) -> Gain | None:
        """Return a gain with the FLOP/s that the roofs allow in so many seconds, if it counts."""
        if factor < WORTH:
            return None
        return Gain(factor, self.flops / least_seconds if self.flops else None)


def _moved(array: ArrayTraffic) -> int:
    """Return the bytes of an array that move, from memory or, if none do, from a cache."""
    touched = (array.touched_read_bytes or 0) + (array.touched_write_bytes or 0)
    return array.dram_read_bytes + array.dram_write_bytes or touched


def nearest(ceilings: Sequence[Ceiling], threads: int) -> tuple[Ceiling, ...]:
    """Return the ceilings of this number of threads, or of the nearest below it that was measured."""
    counts = {one.threads for one in ceilings}
    if not counts:
        return ()
    best = max((count for count in counts if count <= threads), default=min(counts))
    return tuple(one for one in ceilings if one.threads == best)


def _memory_seconds(demand: Demand, ceilings: Sequence[Ceiling]) -> float | None:
    """Return the least seconds of the DRAM bytes, under the roof of the loop that moves them most alike."""
    roofs = dram_ceilings(ceilings)
    moved = (demand.read or 0.0) + (demand.write or 0.0)
    if not roofs or not moved:
        return None
    mixes = [one for one in roofs if one.mix in _SHARES]
    if not mixes:
        return moved / max(one.value for one in roofs)
    allocated = min(demand.allocated, demand.read or 0.0)
    shares = (
        ((demand.read or 0.0) - allocated) / moved,
        allocated / moved,
        ((demand.write or 0.0) - demand.non_temporal) / moved,
    )
    off = {one: sum(abs(a - b) for a, b in zip(shares, _SHARES[one.mix], strict=True)) for one in mixes}
    least = min(off.values())
    return moved / max(one.value for one in mixes if off[one] <= least + 1e-9)
