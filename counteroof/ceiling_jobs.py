"""What to measure for the ceilings: which loops, how much memory, and which results become roofs.

A memory roof counts the bytes that cross a boundary as the cache model counts them (``machine/boundary.py``),
so that it can be held against the bytes of a kernel.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from . import units
from .errors import BadInput, MachineError
from .machine.boundary import Boundary, boundaries
from .machine.loops import Loop, loops, mixed
from .machine.model import CacheLevel, Ceiling, Machine, special

ISA_ORDER = ("scalar", "SSE", "NEON", "AVX", "AVX2", "AVX-512")
PRECISIONS = ("f64", "f32", "f16", "bf16", "int8")
DRAM_MIXES = ("read", "store", "copy", "triad", "update", "store NT", "copy NT", "triad NT")
CACHE_MIXES = ("read", "store", "update", "copy", "triad", "2:1 in place")
WALK = "walk"
"""Lines in a small page each, which no prefetcher brings, as of a column of a matrix with long rows."""

FAR_WALK = "far walk"
"""The same with four pages from line to line, of which buffers of translations hold fewer."""

FAR_LINES = (896, 1280, 1792, 3584)

SAME_SET = "same set"
"""Lines that are all in one set of the first cache, as of a column where rows are of a power of two."""

PATTERNS = ("random", "scattered", "strided")
"""Loads that are not one after the other."""

WALK_LINES = (1024, 2560, 3584, 5120)
"""How many of them: each page needs an entry of the buffers that translate addresses. Processors have 1536,
2048, 3072 or 4096 of these, and with just as many pages it would be a matter of luck."""

WIDE = ("AVX2", "AVX-512")
"""Vectors of which the wider are not always the faster: on an Ice Lake server, two loads and a store in turn
reached 75 bytes a cycle in L1 with 512-bit instructions, and 96 with 256-bit ones."""

RATIOS = {
    "1:0": ("read",),
    "0:1": ("store",),
    "1:1": ("copy", "update"),
    "2:1": ("2:1", "2:1 in place"),
    "3:1": ("3:1",),
    "1:2": ("1:2",),
}
"""Loads to stores, and the mixes of loops made for them; others have a loop over so many streams."""

MOST_STREAMS = 32
"""Of which each has several lines in the first cache yet."""

SMALL = f"{units.binary_bytes(os.sysconf('SC_PAGESIZE'))} pages"
"""In the name of what was measured on the smallest pages."""

SKEW_BYTES = 64 * 1024  # more than the runner puts between streams
_MIB = 1 << 20
_AS_HIGH = 0.99
_PLACES = 4
_WALK_PLACES = 12
_WALK_BYTES = 256 * _MIB
_PLACE_BYTES = 2 * _MIB

_ROOM: tuple[tuple[tuple[Fraction, int], ...], ...] = (
    ((Fraction(3, 4), 0),),
    ((Fraction(5, 8), 3), (Fraction(3, 4), 2)),
    # a last cache is shared with others, and gives a virtual machine a third of its label at times
    ((Fraction(3, 16), 3), (Fraction(1, 4), 3), (Fraction(1, 2), 2)),
)
"""Working sets of L1, L2 and further caches, the best first: at most this part of a thread's share, and at
least so many times the cache above, which else would keep a part of it."""


@dataclass(frozen=True)
class Job:
    """One ceiling to measure: a loop, where its data lie, and how many iterations a sample has."""

    name: str
    loop: Loop
    boundary: Boundary | None = None
    """Where a memory loop's bytes are counted."""
    stream_bytes: int = 0
    wrapped: bool = False
    iterations: int = 0
    note: str = ""
    place: int = 0
    """Where in a thread's memory its streams begin."""
    small_pages: bool = False
    """Whether that is memory without huge pages."""

    @property
    def memory_bytes(self) -> int:
        """What each thread needs for it."""
        return self.place + len(self.loop.streams) * (self.loop.apart * self.stream_bytes + SKEW_BYTES)


def mixes_of(ratios: Iterable[str]) -> tuple[str, ...]:
    """Return the mixes of these loads to stores, such as ``2:1``; of ``4:2`` those of ``2:1``.

    Raises
    ------
    BadInput
        If one is no ratio, or has too many streams.
    """
    found: list[str] = []
    for ratio in ratios:
        loads, stores = _ratio(ratio) or (0, 0)
        if not 0 < loads + stores <= MOST_STREAMS:
            raise BadInput(
                f"a mix of {ratio!r} was asked for; it is loads to stores, such as 2:1 or 5:2, "
                f"{MOST_STREAMS} streams at most"
            )
        found += RATIOS.get(f"{loads}:{stores}", (f"{loads}:{stores}",))
    return tuple(dict.fromkeys(found))


def loops_of(mixes: Iterable[str]) -> tuple[Loop, ...]:
    """Return all loops for the usual mixes, and those for others of loads to stores among these."""
    usual = loops()
    there = {loop.mix for loop in usual}
    ratios = (_ratio(mix) for mix in dict.fromkeys(mixes) if mix not in there)
    return (*usual, *(loop for ratio in ratios if ratio is not None for loop in mixed(*ratio)))


def _ratio(text: str) -> tuple[int, int] | None:
    """Return loads and stores in lowest terms, ``None`` if the text is no such ratio."""
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    if found is None:
        return None
    loads, stores = int(found[1]), int(found[2])
    common = max(1, math.gcd(loads, stores))
    return loads // common, stores // common


def memory_jobs(
    machine: Machine,
    threads: int,
    bytes_each: int | None,
    available: Iterable[Loop],
    mixes: Iterable[str] = (),
) -> tuple[Job, ...]:
    """Return the bandwidths to measure: DRAM with ``bytes_each`` bytes for each thread, then the caches.

    With ``None``, the caches alone. ``mixes`` are measured besides those that always are. Jobs of the same
    name differ in the order of loads and stores or in the width of vectors; the best of them counts.
    """
    mixes = tuple(mixes)
    by_mix = _wide(loop for loop in available if loop.streams)
    *inner, memory = boundaries(machine.caches)
    jobs = []
    for mix in dict.fromkeys((*DRAM_MIXES, *mixes)):
        alike = [loop for loop in by_mix.get(mix, ()) if not loop.of_lines]
        if bytes_each is not None:
            # memory knows no order, but the wider vectors are not always the faster there either
            for isa in dict.fromkeys(loop.isa for loop in alike):
                first = next(loop for loop in alike if loop.isa == isa)
                jobs.append(_dram_job(first, memory, threads, bytes_each))
    for cache, boundary in reversed(list(zip(machine.caches, inner, strict=True))):
        for mix in dict.fromkeys((*CACHE_MIXES, *mixes)):
            alike = [loop for loop in by_mix.get(mix, ()) if "n" not in loop.streams and not loop.of_lines]
            for loop in alike:
                size = stream_bytes(machine, cache, threads, len(loop.streams))
                if size is not None:
                    note = f"{units.binary_bytes(size * len(loop.streams))} a thread"
                    note += f", {loop.order}" if len({one.order for one in alike}) > 1 else ""
                    jobs.append(Job(f"{boundary.name} {mix}", loop, boundary, size, wrapped=True, note=note))
    if WALK in by_mix and len(inner) > 1:
        jobs += _walks(machine, by_mix[WALK][0], inner[1])
    return tuple(jobs)


def on_small_pages(machine: Machine, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return those of the levels that others use too, once more on the smallest pages.

    Prefetchers end at the end of a page, and next to it in memory is what chance put there. Arrays lie on
    such pages unless someone asks for others.
    """
    levels = shared_levels(machine)
    return tuple(
        replace(job, name=f"{job.name}, {SMALL}", small_pages=True)
        for job in jobs
        if job.boundary is not None and job.boundary.level in levels and not job.small_pages
    )


def small_twins(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Return those that :func:`on_small_pages` are of."""
    others = (WALK, FAR_WALK, SAME_SET, *PATTERNS)
    return tuple(one for one in ceilings if one.small_pages and one.mix not in others)


def far_walks(machine: Machine, available: Iterable[Loop]) -> tuple[Job, ...]:
    """Return walks over lines that are several pages apart, as of a column of a matrix with longer rows."""
    inner = boundaries(machine.caches)[:-1]
    if len(inner) < 2:
        return ()
    found = [loop for loop in available if loop.mix == FAR_WALK]
    return tuple(job for loop in found for job in _walks(machine, loop, inner[1], FAR_LINES))


def _walks(
    machine: Machine, loop: Loop, boundary: Boundary, numbers: Sequence[int] = WALK_LINES
) -> Iterator[Job]:
    """Return walks over lines that the first cache cannot hold and the second can."""
    first, second = machine.caches[:2]
    for lines in numbers:
        size = lines * loop.chunk_bytes
        if first.bytes < size <= second.bytes * 3 // 4:
            name, note = f"{boundary.name} {loop.mix} {lines}", f"{lines} lines in as many pages"
            yield Job(name, loop, boundary, size, wrapped=True, note=note, small_pages=True)


def placed(job: Job, threads: int) -> tuple[Job, ...]:
    """Return a job at several places in memory, the best of which counts.

    Which sets of a second cache its lines fall into, and which entries for translating addresses are used,
    is the luck of page frames: also on huge pages, which a hypervisor may put together of small ones. Walks
    over many small pages differ most.
    """
    if job.boundary is None or job.boundary.level != "l2":
        return (job,)
    apart = -(-job.memory_bytes // _PLACE_BYTES) * _PLACE_BYTES
    walks = max(_PLACES, min(_WALK_PLACES, _WALK_BYTES // apart // threads))
    places = walks if job.small_pages else _PLACES
    return tuple(replace(job, place=number * apart) for number in range(places))


def _wide(available: Iterable[Loop]) -> dict[str, list[Loop]]:
    """Return the loops that may be the fastest for each mix, those of the widest vectors first."""
    found: dict[str, list[Loop]] = {}
    for loop in sorted(available, key=_width, reverse=True):
        alike = found.setdefault(loop.mix, [])
        if not alike or loop.isa == alike[0].isa or loop.isa in WIDE:
            alike.append(loop)
    return found


def _dram_job(loop: Loop, memory: Boundary, threads: int, bytes_each: int) -> Job:
    """Return a job whose samples go on where the last one ended, so each meets data out of the caches."""
    streams = len(loop.streams)
    window = max(32 * _MIB // threads, 4 * _MIB)  # of a thread, all streams together
    iterations = min(window, bytes_each // 4) // streams // loop.chunk_bytes
    windows = (bytes_each - SKEW_BYTES) // streams // (iterations * loop.chunk_bytes)
    size = windows * iterations * loop.chunk_bytes
    note = f"{units.binary_bytes(bytes_each * threads)} of memory"
    return Job(f"{memory.name} {loop.mix}", loop, memory, size, iterations=iterations, note=note)


def stream_bytes(
    machine: Machine, cache: CacheLevel, threads: int, streams: int, *, any_size: bool = False
) -> int | None:
    """Return the bytes of each stream that a thread goes round in to measure a cache; ``None`` if none do.

    A power of two, unless ``any_size`` will do, such that all streams together fit well into this cache and
    well exceed the one above.
    """
    index = machine.caches.index(cache)
    instances = max(1, (machine.logical_cpus or 1) // cache.shared_by)
    # threads are spread over cores; how they fall on large caches is unknown, so the worst is taken
    sharing = math.ceil(threads / instances) if index < 2 else min(threads, cache.shared_by)
    above = machine.caches[index - 1].bytes if index else 0
    rooms = [(cache.bytes, _ROOM[min(index, len(_ROOM) - 1)])]
    measured = machine.measured_bytes(cache)
    if measured is not None:
        # what others left of a shared cache; it may be less by now, so the label has its say, too
        rooms.append((measured, _ROOM[min(index, 1)]))
    found = []
    for held, parts in rooms:
        sizes = (
            (size // 64 * 64 if any_size else _power_of_two(size), times)
            for part, times in parts
            for size in [math.floor(held // sharing * part) // streams]
        )
        found.append(next((size for size, times in sizes if size and size * streams >= times * above), 0))
    return min(found) or None


def _power_of_two(most: int) -> int:
    return 1 << (most.bit_length() - 1) if most > 0 else 0


def dram_bytes(machine: Machine, threads: int, times: int, available: int | None) -> int:
    """Return the memory to measure DRAM with, all threads together.

    Raises
    ------
    MachineError
        If there is too little memory to get out of the last cache.
    """
    last = machine.caches[-1]
    caches = last.bytes * math.ceil(threads / last.shared_by)
    # filling gigabytes takes seconds, and four times a large cache do as well as sixteen times a small one
    wanted = max(256 * _MIB, min(times * caches, max(4 * caches, 2048 * _MIB)))
    if available is not None:
        wanted = min(wanted, available // 3)
    if wanted < 4 * caches:
        raise MachineError(
            f"DRAM bandwidth needs at least {units.binary_bytes(12 * caches)} of free memory (the last "
            f"caches in use have {units.binary_bytes(caches)}), {units.binary_bytes(available)} are free"
        )
    return wanted // threads // _MIB * _MIB * threads


def compute_jobs(available: Iterable[Loop]) -> tuple[Job, ...]:
    """Return every peak to try; :func:`roofs` picks those that become ceilings."""
    found = [loop for loop in available if not loop.streams]
    widest = {
        precision: max((loop for loop in found if loop.precision == precision), key=_width).isa
        for precision in {loop.precision for loop in found}
    }
    found = [
        loop for loop in found if loop.isa in ("scalar", widest[loop.precision]) or not special(loop.mix)
    ]
    found.sort(key=lambda loop: (PRECISIONS.index(loop.precision), -_width(loop)))
    return tuple(Job(f"{loop.precision} {loop.isa} {loop.mix}", loop) for loop in found)


def roofs(peaks: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the peaks that are ceilings, for each precision and thread count.

    Of the widest ISA, the best mix, fused multiply-adds alone and the best without; of each other ISA, the
    best mix. Of the widest ISA and of scalar code also what :attr:`~.Ceiling.special` code reaches.
    """
    chosen: list[Ceiling] = []
    groups = dict.fromkeys((peak.threads, peak.precision, peak.isa) for peak in peaks)
    for threads, precision, isa in groups:
        same = [p for p in peaks if (p.threads, p.precision, p.isa) == (threads, precision, isa)]
        picks = [[p for p in same if not p.special]]
        widest = max(
            (p.isa for p in peaks if (p.threads, p.precision) == (threads, precision)), key=ISA_ORDER.index
        )
        if isa == widest:
            picks += [
                [p for p in same if p.mix == "FMA"],
                [p for p in same if p.fma is False and not p.special],
            ]
        if isa in (widest, "scalar"):
            picks += [[p] for p in same if p.special]
        for pick in picks:
            if pick and (best := _best(pick)) not in chosen:
                chosen.append(best)
    return tuple(chosen)


def _best(peaks: Sequence[Ceiling]) -> Ceiling:
    """Return the highest peak; of several as high the one of the simplest mix, always the same."""
    most = max(peak.value for peak in peaks)
    alike = (peak for peak in peaks if peak.value >= _AS_HIGH * most)
    return min(alike, key=lambda peak: (len(peak.mix), peak.mix))


def shared_levels(machine: Machine) -> frozenset[str]:
    """Return the levels that others use too, so that their roofs move: memory and shared caches."""
    return frozenset({"dram", *(cache.name.lower() for cache in machine.caches if cache.shared_by > 1)})


def best_of(*measurements: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the ceilings of several measurements, of each name and thread count the highest."""
    best: dict[tuple[str, int], Ceiling] = {}
    for one in itertools.chain(*measurements):
        kept = best.get((one.name, one.threads))
        if kept is None or one.value > kept.value:
            best[one.name, one.threads] = one
    return tuple(best.values())


def _width(loop: Loop) -> int:
    return ISA_ORDER.index(loop.isa)
