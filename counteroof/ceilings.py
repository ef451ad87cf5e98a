"""Measures the ceilings of this machine: bandwidths of its memory levels and peak FLOP/s.

The loops are data (``csrc/ceilings``): each says what one iteration reads, writes and computes, and reports
how many iterations it has done; a ceiling is that number times these constants over the seconds. All samples
are kept. The best one is the ceiling, since whatever disturbs a loop only makes it slower.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from . import units
from .ceiling_jobs import (
    DRAM_MIXES,
    WALK,
    Job,
    best_of,
    compute_jobs,
    dram_bytes,
    memory_jobs,
    mixes_of,
    roofs,
)
from .errors import MachineError
from .machine import clock, sysfs, topology
from .machine.load import Watch
from .machine.loops import NO_SAMPLES, UNDISTURBED, Samples, Team, loops
from .machine.model import Ceiling, Machine

Progress = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what was just measured."""

DISTURBED = "other processes disturbed every sample, so the roof may be too low"
"""In the note of a ceiling none of whose samples had the processors to itself."""

UNSTEADY = "unsteady: the clock moved"
"""In the note of a ceiling whose clock did not stay the same, however often it was measured."""

STEADY = 0.02
"""By so much the clock may move between the first and the last decile of its probes."""

_AGAIN = 3
_ROUNDS_AGAIN = 4
_NOTE = "ceilings: "
_TRIALS = 6
"""Times that loops which differ in the order of their accesses are tried against each other."""


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


def in_seconds(counts: int) -> Effort:
    """Return what measures all ceilings with so many numbers of threads in less than ten seconds."""
    # the rest is setting up; rounds are spread over the time, because what disturbs comes and goes
    return replace(QUICK, budget=3.0 / counts, patience=1.0 / counts)


def measure(
    machine: Machine,
    *,
    threads: Sequence[int] = (1,),
    progress: Progress | None = None,
    effort: Effort | None = None,
    ratios: Sequence[str] = (),
) -> Machine:
    """Return ``machine`` with ceilings for these numbers of threads; those for other numbers are kept.

    Bandwidths of these ``ratios`` of loads to stores, such as ``2:1``, are measured besides the usual ones.

    Raises
    ------
    BadInput
        If this process may not use so many processors, or there is no loop for a ratio.
    MachineError
        If memory or processors are refused.
    """
    effort = effort or Effort()
    counts = tuple(dict.fromkeys(threads))
    mixes = mixes_of(ratios)
    placements = {count: topology.placement(count) for count in counts}
    available = loops()
    notes = [note for note in machine.notes if not note.startswith(_NOTE)]
    free = sysfs.available_memory(sysfs.Tree(Path("/")))
    ceilings = [one for one in machine.ceilings if one.threads not in counts]
    watch = Watch()
    steps = _Steps(progress, watch)
    plans = []
    for count in counts:
        total = dram_bytes(machine, count, effort.last_cache_times, free)
        memory = memory_jobs(machine, count, total // count, available, mixes)
        compute = compute_jobs(available)
        plans.append((count, memory, compute))
        steps.total += effort.rounds * len({job.name for job in memory + compute})
        for mix in DRAM_MIXES:
            if all(job.loop.mix != mix for job in memory):
                notes.append(f"{_NOTE}there is no {mix} loop for {machine.architecture}")
        for cache in machine.caches:
            if all(job.boundary is None or job.boundary.level != cache.name.lower() for job in memory):
                room = f"{cache.name} has no room of its own for {_threads(count)}"
                notes.append(f"{_NOTE}{room}: its roof is not measured")
    for count, memory, compute in plans:
        found = _measured(placements[count], memory + compute, effort, steps)
        ceilings += [one for one in found if one.kind == "bandwidth"]
        ceilings += roofs([one for one in found if one.kind == "compute"])
    ceilings.sort(key=lambda one: one.threads)
    if (said := watch.told()) is not None:
        notes.append(f"{_NOTE}while they were measured, {said}")
    return replace(machine, ceilings=tuple(ceilings), measured=_now(), notes=tuple(dict.fromkeys(notes)))


def remeasure(
    machine: Machine,
    *,
    names: Collection[str] | None = None,
    level: str | None = "dram",
    threads: Collection[int] | None = None,
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
        Thread counts, all if left out.

    Raises
    ------
    MachineError
        If there is no such ceiling, it cannot be measured here, or memory is refused.
    """
    again = [
        one
        for one in machine.ceilings
        if (names is None or one.name in names)
        and (level is None or one.level == level)
        and (threads is None or one.threads in threads)
    ]
    if not again:
        there = ", ".join(f"{one.name} ({_threads(one.threads)})" for one in machine.ceilings)
        raise MachineError(
            f"no ceiling to measure again with names {sorted(names) if names is not None else 'any'}, "
            f"level {level}, threads {sorted(threads) if threads is not None else 'any'}; "
            f"there are {there or 'none'}"
        )
    fresh: dict[tuple[str, int], Ceiling] = {}
    for count in sorted({one.threads for one in again}):
        wanted = {one.name: one for one in again if one.threads == count}
        jobs = [job for job in _jobs(machine, count, wanted.values(), QUICK) if job.name in wanted]
        # the loop that was the fastest then; the trial would take longer than the measurement
        known = [job for job in jobs if wanted[job.name].note.startswith(job.note)]
        jobs = known if {job.name for job in known} == set(wanted) else jobs
        effort = replace(QUICK, budget=seconds * len(wanted) / len(again))
        for ceiling in _measured(topology.placement(count), jobs, effort):
            fresh[ceiling.name, count] = ceiling
    missing = sorted(one.name for one in again if (one.name, one.threads) not in fresh)
    if missing:
        raise MachineError(f"these ceilings cannot be measured on this machine: {', '.join(missing)}")
    ceilings = tuple(fresh.get((one.name, one.threads), one) for one in machine.ceilings)
    return replace(machine, ceilings=ceilings)


def measure_again(
    machine: Machine,
    *,
    threads: Sequence[int] = (1,),
    progress: Progress | None = None,
    effort: Effort | None = None,
) -> Machine:
    """Return ``machine`` with its compute and cache ceilings measured again, each the higher of old and new.

    For ceilings that something disturbed; nothing makes a loop faster than the machine is.
    """
    effort = effort or Effort()
    steps = _Steps(progress)
    plans = [(count, _jobs(machine, count, (), effort)) for count in dict.fromkeys(threads)]
    steps.total = sum(effort.rounds * len({job.name for job in jobs}) for _, jobs in plans)
    found: list[Ceiling] = []
    for count, jobs in plans:
        found += _measured(topology.placement(count), jobs, effort, steps)
    best = best_of(machine.ceilings, found)
    memory = [one for one in best if one.kind == "bandwidth"]
    compute = roofs([one for one in best if one.kind == "compute"])
    ceilings = sorted((*memory, *compute), key=lambda one: one.threads)
    return replace(machine, ceilings=tuple(ceilings), measured=_now())


def _jobs(machine: Machine, threads: int, wanted: Iterable[Ceiling], effort: Effort) -> list[Job]:
    """Return the jobs of a number of threads, those of DRAM only if a ceiling of it is wanted."""
    available = loops()
    each = None
    if any(one.level == "dram" for one in wanted):
        free = sysfs.available_memory(sysfs.Tree(Path("/")))
        each = dram_bytes(machine, threads, effort.last_cache_times, free) // threads
    mixes = [one.mix for one in machine.ceilings if one.kind == "bandwidth" and one.threads == threads]
    return [*memory_jobs(machine, threads, each, available, mixes), *compute_jobs(available)]


def _measured(
    cpus: Sequence[int], jobs: Sequence[Job], effort: Effort, steps: _Steps | None = None
) -> list[Ceiling]:
    """Return the ceilings of these jobs; walks are about small pages, the others have huge ones."""
    found: list[Ceiling] = []
    for walks in (False, True):
        some = [job for job in jobs if (job.loop.mix == WALK) == walks]
        if some:
            with Team(cpus, _memory(some), small_pages=walks) as team:
                found += measure_jobs(team, some, effort, steps)
    return found


def _memory(jobs: Sequence[Job]) -> int:
    return max((job.memory_bytes for job in jobs), default=0)


class _Steps:
    """Counts what has been done, for whoever shows it."""

    def __init__(self, progress: Progress | None = None, watch: Watch | None = None) -> None:
        self.progress, self.done, self.total, self.watch = progress, 0, 0, watch

    def skip(self, steps: int) -> None:
        self.total -= steps

    def step(self, what: str) -> None:
        self.done += 1
        if self.watch is not None:
            self.watch.look()
        if self.progress is not None:
            self.progress(self.done, self.total, what)


def measure_jobs(
    team: Team, jobs: Sequence[Job], effort: Effort, steps: _Steps | None = None
) -> list[Ceiling]:
    """Return a ceiling for each name, its samples spread over all rounds.

    Of jobs with the same name, the fastest in a short trial is measured.
    """
    steps = steps or _Steps()
    jobs = _fastest(team, [job if job.iterations else _calibrated(team, job, effort.seconds) for job in jobs])
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
    for index, job in enumerate(jobs):
        for _ in range(_AGAIN):
            if not clock_moved(samples[index]):
                break
            again = _sampled(team, job, effort.samples * min(effort.rounds, _ROUNDS_AGAIN))
            samples[index] = again if not clock_moved(again) else samples[index] + again
    while disturbed := [index for index, one in enumerate(samples) if not one.undisturbed]:
        for index in disturbed:
            if time.monotonic() - begun > effort.patience:
                break
            samples[index] += _sampled(team, jobs[index], effort.samples)
        else:
            continue
        break
    return [ceiling(job, one, len(team.cpus)) for job, one in zip(jobs, samples, strict=True)]


def _fastest(team: Team, jobs: Sequence[Job]) -> list[Job]:
    """Return the best job of each name, by a short trial."""
    alike: dict[str, list[Job]] = {}
    for job in jobs:
        alike.setdefault(job.name, []).append(job)
    several = ((job.name, job.loop.order) for job in jobs if len(alike[job.name]) > 1)
    rates = dict.fromkeys(several, 0.0)
    for _ in range(_TRIALS):  # in turn, so that a disturbance does not hit one of them alone
        for job in jobs:
            key = job.name, job.loop.order
            if key in rates:
                samples = _sampled(team, job, 2, probe=False)
                pairs = zip(samples.iterations, samples.seconds, strict=True)
                rates[key] = max(rates[key], *(done * job.loop.chunk_bytes / took for done, took in pairs))
    return [max(some, key=lambda job: rates.get((job.name, job.loop.order), 0.0)) for some in alike.values()]


def _sampled(team: Team, job: Job, samples: int, *, probe: bool = True) -> Samples:
    return team.run(
        job.loop,
        job.iterations,
        samples,
        stream_bytes=job.stream_bytes,
        wrapped=job.wrapped,
        warmups=3,  # what the loop before left in the caches goes first
        probe_operations=clock.PROBE_OPERATIONS if probe else 0,
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


def clock_moved(samples: Samples) -> bool:
    """Whether the core clock was not the same in all samples that nothing disturbed."""
    found = _clock_of(samples)
    return found.spread is not None and found.spread > STEADY


def _clock_of(samples: Samples) -> clock.Clock:
    """Return the clock by the probes right after those samples that nothing disturbed, of all if all were."""
    threads = len(samples.add_seconds) // max(1, len(samples.seconds))
    kept = [index for index, share in enumerate(samples.busy) if share >= UNDISTURBED]
    if not threads or not kept:
        return clock.from_probes(clock.PROBE_OPERATIONS, samples.add_seconds, samples.multiply_seconds)
    places = [index * threads + thread for index in kept for thread in range(threads)]
    return clock.from_probes(
        clock.PROBE_OPERATIONS,
        [samples.add_seconds[place] for place in places],
        [samples.multiply_seconds[place] for place in places],
    )


def ceiling(job: Job, samples: Samples, threads: int) -> Ceiling:
    """Return the ceiling that samples of a job show."""
    loop = job.loop
    amount = loop.flops if job.boundary is None else loop.moved_bytes(job.boundary)
    rates = tuple(
        done * amount / took for done, took in zip(samples.iterations, samples.seconds, strict=True)
    )
    core = _clock_of(samples)
    notes = [job.note] if job.note else []
    if core.spread is not None and core.spread > STEADY:
        notes.append(f"{UNSTEADY} by {units.percent(core.spread)} while it was measured")
    if not samples.undisturbed:
        notes.append(DISTURBED)
    elif 2 * samples.undisturbed < len(rates):
        disturbed = len(rates) - samples.undisturbed
        notes.append(f"other processes disturbed {disturbed} of {len(rates)} samples")
    return Ceiling(
        name=job.name,
        kind="compute" if job.boundary is None else "bandwidth",
        value=max(rates),
        median=statistics.median(rates),
        samples=rates,
        threads=threads,
        isa=loop.isa,
        level=None if job.boundary is None else job.boundary.level,
        precision=None if loop.streams else loop.precision,
        fma=None if loop.streams or loop.mix in ("DOT", "DIV", "SQRT") else loop.fused > 0,
        clock_hz=core.hz,
        clock_source=core.source,
        convention=loop.convention(job.boundary),
        mix=loop.mix,
        note="; ".join(notes),
        measured=_now(),
    )


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count != 1 else ''}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
