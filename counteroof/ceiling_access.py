"""What else is measured of the way to memory: load time over size, random lines, strides, pages, nodes.

These bind no kernel by themselves, so they are no ceilings: they say what a cache really holds, what a way of
access costs, and how many threads the memory needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from . import units
from .ceiling_jobs import (
    ISA_ORDER,
    PATTERNS,
    SAME_SET,
    SKEW_BYTES,
    SMALL,
    Job,
    dram_bytes,
    memory_jobs,
    placed,
    stream_bytes,
)
from .ceilings import QUICK, Effort, Progress, ceiling, measure_jobs
from .errors import MachineError
from .machine import clock, sweep, sysfs, topology
from .machine.boundary import Boundary, boundaries
from .machine.loops import Loop, Team, loops
from .machine.model import Ceiling, Machine, SweepPoint

SATURATED = 0.95
"""From this part of the most that any number of threads reaches, more threads do not help."""
BRIEF = Effort(rounds=4, budget=0.2, patience=0.1, samples=4, last_cache_times=4)

_NARROW_MIXES = ("read", "2:1 in place")
_TIMES_LAST = 8
"""Last caches of memory for random lines: what these keep of it counts as if memory had sent it."""
_SETS = 64
_SAME_SET_LINES = 128
"""Several times as many as a first cache has ways, and hardly too many for the second in frames at random."""
_HOPS = 8192
_WARM = 1 << 20
"""Loads after which a chain is in caches as far as it will be; making it has filled them already."""
_WALKS = 5
_CHAIN_SAMPLES = 16
_MANY_NODES = 4


def swept(machine: Machine, progress: Progress | None = None) -> Machine:
    """Return ``machine`` with the time of a load over the size of the working set, and what follows of it."""
    chase = _loop("random")
    read = max((one for one in loops() if one.mix == "read"), key=lambda one: one.chunk_bytes)
    sizes = sweep.sizes(machine.caches, _room())
    cpus = topology.placement(1)
    seconds: dict[int, float] = {}
    with Team(cpus, sizes[-1], chain_bytes=sizes[-1]) as team:
        for number, size in enumerate(sizes):
            team.chain(size)
            seconds[size] = _hop_seconds(team, chase, size)
            if progress is not None:
                progress(number + 1, len(sizes), f"loads of {units.binary_bytes(size)}")
    rates: dict[int, float] = {}
    with Team(cpus, sizes[-1] + SKEW_BYTES) as team:
        for size in sizes:
            if size & (size - 1) == 0 and size >= 2 * read.chunk_bytes:
                # all the way round: less of it would be a smaller working set
                rounds = max(size // read.chunk_bytes, _HOPS)
                job = Job("read", read, boundaries(machine.caches)[0], size, wrapped=True, iterations=rounds)
                (found,) = measure_jobs(team, [job], QUICK)
                rates[size] = found.value
    points = tuple(SweepPoint(size, seconds[size], rates.get(size)) for size in sizes)
    return replace(machine, sweep=points, capacities=sweep.capacities(points, machine.caches))


def _hop_seconds(team: Team, chase: Loop, size: int) -> float:
    """Return the seconds of a load of a chain that was walked once through before."""
    lines = size // chase.chunk_bytes
    samples = team.run(
        chase, _HOPS, _WALKS, stream_bytes=size, wrapped=True, warmups=1 + min(lines, _WARM) // _HOPS
    )
    return min(took / done for took, done in zip(samples.seconds, samples.iterations, strict=True))


def _loop(mix: str) -> Loop:
    return next(one for one in loops() if one.mix == mix)


def _room() -> int | None:
    """Return the bytes that may be taken, or ``None`` if nothing tells."""
    free = sysfs.available_memory(sysfs.Tree(Path("/")))
    return None if free is None else free // 3


# ---- patterns and pages ----


def pattern_jobs(machine: Machine, threads: int, bytes_each: int) -> tuple[Job, ...]:
    """Return random, scattered and strided loads at each level that whole lines come from, DRAM first."""
    *inner, memory = boundaries(machine.caches)
    jobs = []
    for mix in PATTERNS:
        loop = _loop(mix)
        size = bytes_each // 64 * 64 if _of_chains(loop) else 1 << (bytes_each.bit_length() - 1)
        note = f"{units.binary_bytes(size * threads)} of memory"
        jobs.append(_pattern_job(f"{memory.name} {mix}", loop, memory, size, note))
        for cache, boundary in reversed(list(zip(machine.caches[1:], inner[1:], strict=True))):
            room = stream_bytes(machine, cache, threads, 1)
            if room is None and _of_chains(loop):  # which need no power of two
                room = stream_bytes(machine, cache, threads, 1, any_size=True)
            if room is not None:
                note = f"{units.binary_bytes(room)} a thread"
                jobs.append(_pattern_job(f"{boundary.name} {mix}", loop, boundary, room, note))
    return tuple(jobs)


def _all_patterns(machine: Machine, threads: int) -> tuple[Job, ...]:
    free = sysfs.available_memory(sysfs.Tree(Path("/")))
    return pattern_jobs(machine, threads, dram_bytes(machine, threads, _TIMES_LAST, free) // threads)


def _of_chains(loop: Loop) -> bool:
    return loop.order in ("chain", "chains")


def _pattern_job(name: str, loop: Loop, boundary: Boundary, size: int, note: str) -> Job:
    # a sample goes all the way round: less of it would be less of a working set
    iterations = max(size // loop.chunk_bytes, _HOPS)
    return Job(name, loop, boundary, size, wrapped=True, iterations=iterations, note=note)


def patterns(machine: Machine, threads: int) -> list[Ceiling]:
    """Return what loads of random lines reach, and of every fourth line.

    Of random lines each load waits for the one before, or, scattered, there are many such walks at a time, as
    where an index says what to load.
    """
    cpus = topology.placement(threads)
    jobs = _all_patterns(machine, threads)
    found = [_random(cpus, job) for job in jobs if _of_chains(job.loop)]
    strided = [job for job in jobs if not _of_chains(job.loop)]
    with Team(cpus, max(job.memory_bytes for job in strided)) as team:
        found += measure_jobs(team, strided, BRIEF)
    return found


def _random(cpus: Sequence[int], job: Job) -> Ceiling:
    size = job.stream_bytes
    huge, small = (0, size) if job.small_pages else (size, 0)
    with Team(cpus, huge, small_bytes=small, chain_bytes=size) as team:
        samples = team.run(
            job.loop,
            _HOPS,  # the chain goes on where the last sample ended
            _CHAIN_SAMPLES,
            stream_bytes=size,
            wrapped=True,
            warmups=1 + min(size // job.loop.chunk_bytes, _WARM) // _HOPS,
            probe_operations=clock.PROBE_OPERATIONS,
        )
    hop = len(cpus) * min(took / done for took, done in zip(samples.seconds, samples.iterations, strict=True))
    note = f"{job.note}, {units.seconds(hop)} a load"
    return ceiling(replace(job, note=note), samples, len(cpus))


def small_pages(machine: Machine, threads: int) -> list[Ceiling]:
    """Return what scattered and strided loads reach of memory on the smallest pages."""
    patterns = {job.name: job for job in _all_patterns(machine, threads)}
    scattered, strided = (
        replace(patterns[name], name=f"{name}, {SMALL}", small_pages=True)
        for name in ("DRAM scattered", "DRAM strided")
    )
    cpus = topology.placement(threads)
    found = [_random(cpus, scattered)]
    with Team(cpus, small_bytes=strided.memory_bytes) as team:
        found += measure_jobs(team, [strided], BRIEF)
    one_set = [place for job in _same_set(machine) for place in placed(job, threads)]
    if one_set:
        with Team(cpus, small_bytes=max(job.memory_bytes for job in one_set)) as team:
            found += measure_jobs(team, one_set, BRIEF)
    return found


def _same_set(machine: Machine) -> list[Job]:
    """Return a walk over lines a small page apart, if those are in one set of the first cache here.

    A core brings such lines one by one: on a Zen 4 server one in ten cycles, from L2 and from L3 alike.
    """
    first = machine.caches[0]
    if len(machine.caches) < 2 or first.bytes != _SETS * first.ways * first.line_bytes:
        return []
    loop, boundary = _loop(SAME_SET), boundaries(machine.caches)[1]
    size = _SAME_SET_LINES * loop.chunk_bytes
    note = f"{_SAME_SET_LINES} lines in one set of {first.name}"
    return [
        Job(f"{boundary.name} {SAME_SET}", loop, boundary, size, wrapped=True, note=note, small_pages=True)
    ]


def _dram_jobs(machine: Machine, threads: int, mixes: Iterable[str]) -> list[Job]:
    each = dram_bytes(machine, threads, BRIEF.last_cache_times, sysfs.available_memory(sysfs.Tree(Path("/"))))
    wanted = set(mixes)
    jobs = memory_jobs(machine, threads, each // threads, loops())
    return [job for job in jobs if job.loop.mix in wanted and job.boundary == boundaries(machine.caches)[-1]]


# ---- narrower instructions ----


def narrow_jobs(machine: Machine, threads: int) -> tuple[Job, ...]:
    """Return bandwidths of the core's own caches with each instruction set but the widest."""
    available = [one for one in loops() if one.mix in _NARROW_MIXES]
    isas = sorted({one.isa for one in available}, key=ISA_ORDER.index, reverse=True)
    levels = {cache.name.lower() for cache in machine.caches[:2]}
    jobs = []
    for isa in isas[1:]:
        for job in memory_jobs(machine, threads, None, [one for one in available if one.isa == isa]):
            if job.boundary is not None and job.boundary.level in levels:
                jobs.append(replace(job, name=f"{job.name}, {isa}"))
    return tuple(jobs)


def narrow(machine: Machine, threads: int) -> list[Ceiling]:
    """Return what code reaches that is not compiled for the widest instructions."""
    jobs = narrow_jobs(machine, threads)
    if not jobs:
        return []
    with Team(topology.placement(threads), max(job.memory_bytes for job in jobs)) as team:
        return measure_jobs(team, jobs, BRIEF)


# ---- threads ----


def thread_counts(most: int) -> tuple[int, ...]:
    """Return the numbers of threads to try: powers of two, what is half-way between, and all."""
    counts = {1, most}
    step = 1
    while step <= most:
        counts |= {step, step * 3 // 2}
        step *= 2
    return tuple(sorted(count for count in counts if count <= most))


def scaling(machine: Machine, most: int) -> list[Ceiling]:
    """Return DRAM bandwidths with 1 to ``most`` threads, without those that are ceilings already."""
    found: list[Ceiling] = []
    there = {(one.name, one.threads) for one in machine.ceilings}
    for count in thread_counts(most):
        jobs = _dram_jobs(machine, count, ("read", "triad"))
        jobs = [job for job in jobs if (job.name, count) not in there]
        if jobs:
            with Team(topology.placement(count), max(job.memory_bytes for job in jobs)) as team:
                found += measure_jobs(team, jobs, BRIEF)
    return found


def saturation(machine: Machine, name: str) -> tuple[int, int] | None:
    """Return from how many threads on the memory gives no more, and the most that were tried.

    ``None`` if only one number of threads was measured.
    """
    rates = {one.threads: one.value for one in (*machine.access, *machine.ceilings) if one.name == name}
    if len(rates) < 2:
        return None
    enough = SATURATED * max(rates.values())
    return min(count for count, rate in rates.items() if rate >= enough), max(rates)


# ---- nodes ----


def node_pairs(nodes: Mapping[int, Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Return from which node which memory is read: all pairs of few nodes, of many the own and one other."""
    numbers = list(nodes)
    if len(numbers) < 2:
        return ()
    if len(numbers) <= _MANY_NODES:
        return tuple((one, other) for one in numbers for other in numbers)
    nexts = [*numbers[1:], numbers[0]]
    return tuple(
        pair for one, other in zip(numbers, nexts, strict=True) for pair in ((one, one), (one, other))
    )


def node_bandwidths(
    machine: Machine, nodes: Mapping[int, Sequence[int]], allowed: Iterable[int]
) -> list[Ceiling]:
    """Return what one thread a core of a node reads from each node's memory.

    Raises
    ------
    MachineError
        If memory is refused.
    """
    usable = set(allowed)
    mine = {node: sorted(usable & set(cpus)) for node, cpus in nodes.items()}
    mine = {node: cpus for node, cpus in mine.items() if cpus}
    found: list[Ceiling] = []
    for node, home in node_pairs(mine):
        cpus = topology.placement(min(len(mine[node]), len(mine[home])), allowed=mine[node])
        homes = topology.placement(len(cpus), allowed=mine[home])
        jobs = _dram_jobs(machine, len(cpus), ("read",))
        where = "its own memory" if node == home else f"memory of node {home}"
        jobs = [replace(job, name=f"{job.name}, node {node} from {where}") for job in jobs]
        with Team(cpus, max(job.memory_bytes for job in jobs), home=homes) as team:
            found += measure_jobs(team, jobs, BRIEF)
    return found


def measured(
    machine: Machine, threads: Sequence[int], progress: Progress | None = None
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """Return everything of this module but the sweep, and what is to be said of it."""
    tree = sysfs.Tree(Path("/"))
    allowed = os.sched_getaffinity(0)
    nodes = sysfs.nodes(tree)
    steps: list[tuple[str, Callable[[], list[Ceiling]]]] = []
    for count in threads:
        steps.append(("random and strided loads", partial(patterns, machine, count)))
        steps.append(("small pages", partial(small_pages, machine, count)))
        steps.append(("narrower instructions", partial(narrow, machine, count)))
    steps.append(("numbers of threads", partial(scaling, machine, len(allowed))))
    steps.append(("memory nodes", partial(node_bandwidths, machine, nodes, allowed)))
    found: list[Ceiling] = []
    notes: list[str] = []
    for number, (what, measure) in enumerate(steps):
        if progress is not None:
            progress(number, len(steps), what)
        try:
            found += measure()
        except MachineError as error:
            notes.append(f"{what}: {error}")
    if len(nodes) == 1:
        notes.append("one memory node: no memory is remote")
    elif not nodes:
        notes.append("memory nodes are unknown (/sys does not show them): remote memory was not measured")
    return tuple(found), tuple(notes)
