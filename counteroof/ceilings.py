"""Measures the ceilings of this machine: bandwidths of its memory levels and peak FLOP/s.

The loops are data (``csrc/ceilings``): each says what one iteration reads, writes and computes, and reports
how many iterations it has done; a ceiling is that number times these constants over the seconds. All samples
are kept. The best one is the ceiling, since whatever disturbs a loop only makes it slower.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from . import units
from .errors import MachineError
from .machine import clock, store, sysfs, topology
from .machine.loops import NO_SAMPLES, Loop, Samples, Team, loops
from .machine.model import CacheLevel, Ceiling, Machine

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what was just measured."""

ISA_ORDER = ("scalar", "SSE", "NEON", "AVX", "AVX2", "AVX-512")
PRECISIONS = ("f64", "f32")
_DRAM_MIXES = ("read", "copy", "triad", "update", "copy NT", "triad NT")
_CACHE_MIXES = ("read",)
_NOTE = "ceilings: "
_MIB = 1 << 20
_SKEW_BYTES = 64 * 1024  # more than the runner puts between streams


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes
    ----------
    rounds
        Times the list of ceilings is gone through, so that a disturbance does not hit all samples of one.
    budget
        Seconds after which no further round is begun, for each number of threads.
    patience
        Seconds beyond the rounds in which ceilings that were disturbed in all samples are tried again.
    samples
        Of each ceiling in each round.
    seconds
        Of a sample, but for DRAM's.
    last_cache_times
        Working set for DRAM, in last-level caches.
    """

    rounds: int = 4
    budget: float = 4.0
    patience: float = 2.0
    samples: int = 12
    seconds: float = 5e-4
    last_cache_times: int = 16


QUICK = Effort(rounds=10, budget=0.1, patience=0.1, samples=4, last_cache_times=8)


@dataclass(frozen=True)
class Job:
    """One ceiling to measure: a loop, where its data lie, and how many iterations a sample has."""

    name: str
    loop: Loop
    level: str | None = None
    stream_bytes: int = 0
    wrapped: bool = False
    iterations: int = 0
    note: str = ""


# ---- what to measure ----


def memory_jobs(
    machine: Machine, threads: int, bytes_each: int, available: Iterable[Loop]
) -> tuple[Job, ...]:
    """Return the bandwidths to measure with ``bytes_each`` bytes for each thread: DRAM, then the caches."""
    # the widest of each mix comes last
    by_mix = {loop.mix: loop for loop in sorted(available, key=_width) if loop.streams}
    jobs = []
    for mix in _DRAM_MIXES:
        if loop := by_mix.get(mix):
            jobs.append(_dram_job(loop, threads, bytes_each))
    for cache in reversed(machine.caches):
        stream_bytes = cache_working_set(machine, cache, threads)
        for mix in _CACHE_MIXES:
            if stream_bytes is not None and (loop := by_mix.get(mix)):
                note = f"{units.binary_bytes(stream_bytes)} a thread"
                level = cache.name.lower()
                jobs.append(Job(f"{cache.name} {mix}", loop, level, stream_bytes, wrapped=True, note=note))
    return tuple(jobs)


def _dram_job(loop: Loop, threads: int, bytes_each: int) -> Job:
    """Return a job whose samples go on where the last one ended, so each meets data out of the caches."""
    streams = len(loop.streams)
    window = max(32 * _MIB // threads, 4 * _MIB)  # of a thread, all streams together
    iterations = min(window, bytes_each // 4) // streams // loop.chunk_bytes
    windows = (bytes_each - _SKEW_BYTES) // streams // (iterations * loop.chunk_bytes)
    stream_bytes = windows * iterations * loop.chunk_bytes
    note = f"{units.binary_bytes(bytes_each * threads)} of memory"
    return Job(f"DRAM {loop.mix}", loop, "dram", stream_bytes, iterations=iterations, note=note)


def cache_working_set(machine: Machine, cache: CacheLevel, threads: int) -> int | None:
    """Return the bytes a thread goes round in to measure a cache, a power of two; ``None`` if none will do.

    It fits well into this cache and well exceeds the one above.
    """
    index = machine.caches.index(cache)
    instances = max(1, machine.logical_cpus // cache.shared_by)
    # threads are spread over cores; how they fall on large caches is unknown, so the worst is taken
    sharing = math.ceil(threads / instances) if index < 2 else min(threads, cache.shared_by)
    share = cache.bytes // sharing
    least = 2 * machine.caches[index - 1].bytes if index else 1
    wishes = (share // 4, share // 2) if index >= 2 else (share * 3 // 4,)
    return next((size for wish in wishes if (size := _power_of_two(wish)) >= least), None)


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
    found.sort(key=lambda loop: (PRECISIONS.index(loop.precision), -_width(loop)))
    return tuple(Job(f"{loop.precision} {loop.isa} {loop.mix}", loop) for loop in found)


def roofs(peaks: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Return the peaks that are ceilings, for each precision and thread count.

    Of the widest ISA, the best mix, fused multiply-adds alone and the best without; of each other ISA, the
    best mix.
    """
    chosen: list[Ceiling] = []
    groups = dict.fromkeys((peak.threads, peak.precision, peak.isa) for peak in peaks)
    for threads, precision, isa in groups:
        same = [p for p in peaks if (p.threads, p.precision, p.isa) == (threads, precision, isa)]
        picks = [same]
        widest = max(
            (p.isa for p in peaks if (p.threads, p.precision) == (threads, precision)), key=ISA_ORDER.index
        )
        if isa == widest:
            picks += [[p for p in same if p.mix == "FMA"], [p for p in same if not p.fma]]
        for pick in picks:
            best = max(pick, key=lambda peak: peak.value, default=None)
            if best is not None and best not in chosen:
                chosen.append(best)
    return tuple(chosen)


def _width(loop: Loop) -> int:
    return ISA_ORDER.index(loop.isa)


# ---- measuring ----


def measure(
    machine: Machine,
    *,
    threads: Sequence[int] = (1,),
    progress: Progress | None = None,
    effort: Effort | None = None,
) -> Machine:
    """Return ``machine`` with ceilings for these numbers of threads; those for other numbers are kept.

    Raises
    ------
    BadInput
        If this process may not use so many processors.
    MachineError
        If memory or processors are refused.
    """
    effort = effort or Effort()
    counts = tuple(dict.fromkeys(threads))
    placements = {count: topology.placement(count) for count in counts}
    available = loops()
    notes = [note for note in machine.notes if not note.startswith(_NOTE)]
    free = sysfs.available_memory(sysfs.Tree(Path("/")))
    ceilings = [one for one in machine.ceilings if one.threads not in counts]
    steps = _Steps(progress)
    plans = []
    for count in counts:
        total = dram_bytes(machine, count, effort.last_cache_times, free)
        memory = memory_jobs(machine, count, total // count, available)
        plans.append((count, total, memory, compute_jobs(available)))
        steps.total += effort.rounds * (len(plans[-1][2]) + len(plans[-1][3]))
        for mix in _DRAM_MIXES:
            if all(job.loop.mix != mix for job in memory):
                notes.append(f"{_NOTE}there is no {mix} loop for {machine.architecture}")
        for cache in machine.caches:
            if cache_working_set(machine, cache, count) is None:
                room = f"{cache.name} has no room of its own for {_threads(count)}"
                notes.append(f"{_NOTE}{room}: its roof is not measured")
    for count, total, memory, compute in plans:
        with Team(placements[count], total // count + 3 * _SKEW_BYTES) as team:
            found = measure_jobs(team, memory + compute, effort, steps)
        ceilings += found[: len(memory)]
        ceilings += roofs(found[len(memory) :])
    ceilings.sort(key=lambda one: one.threads)
    return replace(machine, ceilings=tuple(ceilings), measured=_now(), notes=tuple(dict.fromkeys(notes)))


def remeasure(
    machine: Machine,
    *,
    names: Collection[str] | None = None,
    level: str | None = "dram",
    threads: int | None = None,
    seconds: float = 0.3,
) -> Machine:
    """Return ``machine`` with some of its ceilings measured again, in about ``seconds``.

    The DRAM roof of a shared host moves by a factor of two within minutes, so it is measured beside the
    kernel.

    Parameters
    ----------
    names
        Of the ceilings; all if left out.
    level
        ``dram`` and so on, ``None`` for all.
    threads
        Thread count, all if left out.
    """
    again = [
        one
        for one in machine.ceilings
        if (names is None or one.name in names)
        and (level is None or one.level == level)
        and (threads is None or one.threads == threads)
    ]
    if not again:
        there = ", ".join(f"{one.name} ({_threads(one.threads)})" for one in machine.ceilings)
        raise MachineError(
            f"no ceiling to measure again with names {sorted(names) if names is not None else 'any'}, "
            f"level {level}, threads {threads}; there are {there or 'none'}"
        )
    available = loops()
    free = sysfs.available_memory(sysfs.Tree(Path("/")))
    fresh: dict[tuple[str, int], Ceiling] = {}
    for count in sorted({one.threads for one in again}):
        wanted = {one.name: one for one in again if one.threads == count}
        total = dram_bytes(machine, count, QUICK.last_cache_times, free)
        jobs = memory_jobs(machine, count, total // count, available) + compute_jobs(available)
        jobs = tuple(job for job in jobs if job.name in wanted)
        effort = replace(QUICK, budget=seconds * len(wanted) / len(again))
        with Team(topology.placement(count), total // count + 3 * _SKEW_BYTES) as team:
            for ceiling in measure_jobs(team, jobs, effort):
                fresh[ceiling.name, count] = ceiling
    missing = sorted(one.name for one in again if (one.name, one.threads) not in fresh)
    if missing:
        raise MachineError(f"these ceilings cannot be measured on this machine: {', '.join(missing)}")
    ceilings = tuple(fresh.get((one.name, one.threads), one) for one in machine.ceilings)
    return replace(machine, ceilings=ceilings)


def of_this_machine(
    machine: Machine, *, threads: Sequence[int] = (1,), fresh: bool = False, progress: Progress | None = None
) -> Machine:
    """Return ``machine`` with ceilings for these numbers of threads, those kept as far as they hold.

    New ones are kept for the next time. With ``fresh``, all are measured.
    """
    kept, reasons = (None, ()) if fresh else store.cached(machine)
    base = kept or machine
    missing = [count for count in threads if count not in {one.threads for one in base.ceilings}]
    if kept is not None and not missing:
        return kept
    measured = measure(base, threads=missing, progress=progress)
    try:
        store.save(measured, store.cache_file(machine))
    except OSError as error:
        path, why = store.cache_file(machine), error.strerror or str(error)
        note = f"{_NOTE}could not be kept in {path} ({why}), so the next run measures them again"
        measured = replace(measured, notes=(*measured.notes, note))
    # facts that did not hold any more are worth a word; a first measurement is not
    again = [f"{_NOTE}measured again, {reason}" for reason in reasons if reason != store.NEVER]
    return replace(measured, notes=(*measured.notes, *again))


class _Steps:
    """Counts what has been done, for whoever shows it."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress, self.done, self.total = progress, 0, 0

    def skip(self, steps: int) -> None:
        self.total -= steps

    def step(self, what: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total, what)


def measure_jobs(
    team: Team, jobs: Sequence[Job], effort: Effort, steps: _Steps | None = None
) -> list[Ceiling]:
    """Return a ceiling for each job, its samples spread over all rounds."""
    steps = steps or _Steps()
    jobs = [job if job.iterations else _calibrated(team, job, effort.seconds) for job in jobs]
    samples = [NO_SAMPLES] * len(jobs)
    begun = time.monotonic()
    for round_ in range(effort.rounds):
        if round_ and time.monotonic() - begun > effort.budget:
            steps.skip((effort.rounds - round_) * len(jobs))
            break
        for index, job in enumerate(jobs):
            samples[index] += _sampled(team, job, effort.samples)
            steps.step(f"{job.name}, {_threads(len(team.cpus))}")
    begun = time.monotonic()
    while disturbed := [index for index, one in enumerate(samples) if not one.undisturbed]:
        for index in disturbed:
            if time.monotonic() - begun > effort.patience:
                break
            samples[index] += _sampled(team, jobs[index], effort.samples)
        else:
            continue
        break
    return [ceiling(job, one, len(team.cpus)) for job, one in zip(jobs, samples, strict=True)]


def _sampled(team: Team, job: Job, samples: int) -> Samples:
    return team.run(
        job.loop,
        job.iterations,
        samples,
        stream_bytes=job.stream_bytes,
        wrapped=job.wrapped,
        warmups=3,  # what the loop before left in the caches goes first
        probe_operations=clock.PROBE_OPERATIONS,
    )


def _calibrated(team: Team, job: Job, seconds: float) -> Job:
    """Return the job with so many iterations that a sample takes about ``seconds``."""
    trial = 2048
    while True:
        took = min(
            team.run(
                job.loop, trial, 3, stream_bytes=job.stream_bytes, wrapped=job.wrapped, warmups=1
            ).seconds
        )
        if took > seconds / 8 or trial > 1 << 40:
            return replace(job, iterations=max(1, round(trial * seconds / took)))
        trial *= 8


def ceiling(job: Job, samples: Samples, threads: int) -> Ceiling:
    """Return the ceiling that samples of a job show."""
    loop = job.loop
    amount = loop.moved_bytes if loop.streams else loop.flops
    rates = tuple(
        done * amount / took for done, took in zip(samples.iterations, samples.seconds, strict=True)
    )
    core = clock.from_probes(clock.PROBE_OPERATIONS, samples.add_seconds, samples.multiply_seconds)
    notes = [job.note] if job.note else []
    if not samples.undisturbed:
        notes.append("other processes disturbed every sample, so the roof may be too low")
    elif 2 * samples.undisturbed < len(rates):
        disturbed = len(rates) - samples.undisturbed
        notes.append(f"other processes disturbed {disturbed} of {len(rates)} samples")
    return Ceiling(
        name=job.name,
        kind="bandwidth" if loop.streams else "compute",
        value=max(rates),
        median=statistics.median(rates),
        samples=rates,
        threads=threads,
        isa=loop.isa,
        level=job.level,
        precision=None if loop.streams else loop.precision,
        fma=None if loop.streams else loop.fused > 0,
        clock_hz=core.hz,
        clock_source=core.source,
        convention=loop.convention,
        mix=loop.mix,
        note="; ".join(notes),
        measured=_now(),
    )


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count != 1 else ''}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
