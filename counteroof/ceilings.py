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
    FAR_WALK,
    ISA_ORDER,
    Job,
    best_of,
    compute_jobs,
    dram_bytes,
    far_walks,
    loops_of,
    memory_jobs,
    mixes_of,
    on_small_pages,
    placed,
    roofs,
    small_twins,
)
from .errors import MachineError
from .machine import clock, sysfs, topology
from .machine.load import Watch
from .machine.loops import NO_SAMPLES, Samples, Team
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
_ROUNDS_AGAIN = 8
_NOTE = "ceilings: "
_SETTLED = 8
"""Rounds after which loops that are far behind others of the same name cannot win any more; they differ in
the width or order of their accesses or in where they lie."""

_FAR_BEHIND = 0.75
_LATE = 0.5
"""From this part of the time on, those that are behind cannot win. Before, the others may just have had the
better moments: a core that it shares with another machine can be a third slower for seconds."""

_BEHIND = 0.97
_AS_HIGH = 0.99
_APART = 4
"""Samples of several threads are so many times as long: the threads begin tenths of a microsecond apart."""

_LOOK_SECONDS = 0.05
_NEAR = 0.98
"""From this part of the best rate on, a sample is one of the ceiling."""


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    A core of which another machine, or another thread, uses the second half has moments of its own: they come
    and go within seconds, and most last less than a millisecond. So samples are short, and those of one
    ceiling are spread over the whole time.

    Attributes
    ----------
    budget
        Seconds after which no further round is begun, for each number of threads.
    patience
        Seconds beyond the rounds in which ceilings that were disturbed in all samples are tried again.
    rounds
        Times the list of ceilings is gone through at most.
    samples
        Of each ceiling in each round.
    seconds
        Of a sample of one thread, if that is enough to go round its memory once; DRAM's are longer.
    last_cache_times
        Working set for DRAM, in last-level caches.
    """

    budget: float = 12.0
    patience: float = 2.0
    rounds: int = 1000
    samples: int = 4
    seconds: float = 5e-5
    last_cache_times: int = 16


QUICK = Effort(budget=0.1, patience=0.1, last_cache_times=8)


def in_seconds(counts: int) -> Effort:
    """Return what measures all ceilings with so many numbers of threads in less than ten seconds."""
    return replace(QUICK, budget=6.5 / counts, patience=1.0 / counts)  # the rest is setting up


def measure(
    machine: Machine,
    *,
    threads: Sequence[int] = (1,),
    progress: Progress | None = None,
    effort: Effort | None = None,
    ratios: Sequence[str] = (),
) -> Machine:
    """Return ``machine`` with ceilings for these numbers of threads; those for other numbers are kept.

    Those of memory and shared caches are measured on the smallest pages as well, as ways to memory.

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
    available = loops_of(mixes)
    notes = [note for note in machine.notes if not note.startswith(_NOTE)]
    free = sysfs.available_memory(sysfs.Tree(Path("/")))
    ceilings = [one for one in machine.ceilings if one.threads not in counts]
    small = [one for one in kept_beside(machine.access) if one.threads not in counts]
    watch = Watch()
    steps = _Steps(len(counts), progress, watch)
    plans = []
    for count in counts:
        total = dram_bytes(machine, count, effort.last_cache_times, free)
        memory = memory_jobs(machine, count, total // count, available, mixes)
        compute = compute_jobs(available)
        plans.append((count, memory, compute))
        for mix in DRAM_MIXES:
            if all(job.loop.mix != mix for job in memory):
                notes.append(f"{_NOTE}there is no {mix} loop for {machine.architecture}")
        for cache in machine.caches:
            if all(job.boundary is None or job.boundary.level != cache.name.lower() for job in memory):
                room = f"{cache.name} has no room of its own for {_threads(count)}"
                notes.append(f"{_NOTE}{room}: its roof is not measured")
    for count, memory, compute in plans:
        jobs = memory + on_small_pages(machine, memory) + far_walks(machine, available) + compute
        found = _measured(placements[count], jobs, effort, steps)
        twins = kept_beside(found)
        small += twins
        ceilings += [one for one in found if one.kind == "bandwidth" and one not in twins]
        ceilings += roofs([one for one in found if one.kind == "compute"])
    ceilings.sort(key=lambda one: one.threads)
    small.sort(key=lambda one: one.threads)
    if (said := watch.told()) is not None:
        notes.append(f"{_NOTE}while they were measured, {said}")
    others = [one for one in machine.access if one not in kept_beside(machine.access)]
    return replace(
        machine,
        ceilings=tuple(ceilings),
        access=(*small, *others),
        measured=_now(),
        notes=tuple(dict.fromkeys(notes)),
    )


def kept_beside(ceilings: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """Return those that are measured with the ceilings and are none."""
    return (*small_twins(ceilings), *(one for one in ceilings if one.mix == FAR_WALK))


def remeasure(
    machine: Machine,
    *,
    names: Collection[str] | None = None,
    level: str | None = "dram",
    threads: Collection[int] | None = None,
    seconds: float = 0.3,
) -> Machine:
    """Return ``machine`` with some of its ceilings measured again, in about ``seconds``.

    Among them are those of :func:`~.ceiling_jobs.small_twins`.

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
        for one in (*machine.ceilings, *small_twins(machine.access))
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
        known = [job for job in jobs if _made(job, wanted[job.name])]
        jobs = known if {job.name for job in known} == set(wanted) else jobs
        effort = replace(QUICK, budget=seconds * len(wanted) / len(again))
        for ceiling in _measured(topology.placement(count), jobs, effort):
            fresh[ceiling.name, count] = ceiling
    missing = sorted(one.name for one in again if (one.name, one.threads) not in fresh)
    if missing:
        raise MachineError(f"these ceilings cannot be measured on this machine: {', '.join(missing)}")
    ceilings, access = (
        tuple(fresh.get((one.name, one.threads), one) for one in kept)
        for kept in (machine.ceilings, machine.access)
    )
    return replace(machine, ceilings=ceilings, access=access)


def _made(job: Job, ceiling: Ceiling) -> bool:
    """Return whether a ceiling is of this very loop, which was the fastest of its name then."""
    return job.loop.isa == ceiling.isa and ceiling.note.startswith(job.note)


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
    plans = [(count, _jobs(machine, count, (), effort)) for count in dict.fromkeys(threads)]
    steps = _Steps(len(plans), progress)
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
    mixes = [one.mix for one in machine.ceilings if one.kind == "bandwidth" and one.threads == threads]
    available = loops_of(mixes)
    each = None
    wanted = tuple(wanted)
    if any(one.level == "dram" for one in wanted):
        free = sysfs.available_memory(sysfs.Tree(Path("/")))
        each = dram_bytes(machine, threads, effort.last_cache_times, free) // threads
    memory = memory_jobs(machine, threads, each, available, mixes)
    small = on_small_pages(machine, memory) if small_twins(wanted) else ()
    return [*memory, *small, *compute_jobs(available)]


def _measured(
    cpus: Sequence[int], jobs: Sequence[Job], effort: Effort, steps: _Steps | None = None
) -> list[Ceiling]:
    """Return the ceilings of these jobs, each the best of several places where that matters."""
    steps = steps or _Steps(1)
    jobs = [one for job in jobs for one in placed(job, len(cpus))]
    small = [job for job in jobs if job.small_pages]
    huge = [job for job in jobs if not job.small_pages]
    with Team(cpus, _memory(huge), small_bytes=_memory(small)) as team:
        found = measure_jobs(team, jobs, effort, steps)
    steps.end()
    return found


def _memory(jobs: Sequence[Job]) -> int:
    return max((job.memory_bytes for job in jobs if job.loop.streams), default=0)


class _Steps:
    """Tells how far a measurement is to whoever shows it, in hundredths of each number of threads."""

    def __init__(self, counts: int, progress: Progress | None = None, watch: Watch | None = None) -> None:
        self._progress, self._watch = progress, watch
        self._total = 100 * counts
        self._count = 0
        self._next = 0.0

    def step(self, done: float, what: str) -> None:
        """Say that this share of a number of threads is done, and what was just measured."""
        if self._watch is not None and time.monotonic() > self._next:
            self._watch.look()
            self._next = time.monotonic() + _LOOK_SECONDS
        self._say(self._count + 100 * min(1.0, done), what)

    def end(self) -> None:
        """End this number of threads."""
        self._count += 100
        self._say(self._count, "done")

    def _say(self, done: float, what: str) -> None:
        if self._progress is not None:
            self._progress(round(done), self._total, what)


def measure_jobs(
    team: Team, jobs: Sequence[Job], effort: Effort, steps: _Steps | None = None
) -> list[Ceiling]:
    """Return a ceiling for each name, its samples spread over all rounds.

    Of jobs with the same name, the best counts; one that falls behind is not measured any more.
    """
    jobs = [job if job.iterations else _calibrated(team, job, effort.seconds) for job in jobs]
    samples = [NO_SAMPLES] * len(jobs)
    going = _by_width(jobs)
    begun = time.monotonic()
    for round_ in range(effort.rounds):
        spent = (time.monotonic() - begun) / effort.budget if effort.budget > 0 else 1.0
        if round_ and spent >= 1:
            break
        for place, index in enumerate(_back_and_forth(going, round_)):
            samples[index] += _sampled(team, jobs[index], effort.samples)
            if steps is not None:
                done = max(spent, (round_ + (place + 1) / len(going)) / effort.rounds)
                steps.step(done, f"{jobs[index].name}, {_threads(len(team.cpus))}")
        if round_ + 1 >= _SETTLED:
            late = max(spent, (round_ + 1) / effort.rounds) >= _LATE
            going = _near(jobs, samples, going, _BEHIND if late else _FAR_BEHIND)
    found = _winners(jobs, samples)
    begun = time.monotonic()
    for _ in range(_AGAIN):
        moved = [index for index in found if clock_moved(samples[index])]
        for index, again in zip(moved, _in_turn(team, [jobs[index] for index in moved], effort), strict=True):
            # as high at a steady clock, or else something disturbed it
            steady = not clock_moved(again) and _best(again) >= _AS_HIGH * _best(samples[index])
            samples[index] = again if steady else samples[index] + again
    while disturbed := [index for index in found if not samples[index].undisturbed]:
        for index in disturbed:
            if time.monotonic() - begun > effort.patience:
                break
            samples[index] += _sampled(team, jobs[index], effort.samples)
        else:
            continue
        break
    return [ceiling(jobs[index], samples[index], len(team.cpus)) for index in found]


def _in_turn(team: Team, jobs: Sequence[Job], effort: Effort) -> list[Samples]:
    """Return samples of some jobs, in rounds, so that a disturbance does not hit all of one."""
    samples = [NO_SAMPLES] * len(jobs)
    for round_ in range(_ROUNDS_AGAIN):
        for index in _back_and_forth(_by_width(jobs), round_):
            samples[index] += _sampled(team, jobs[index], effort.samples)
    return samples


def _by_width(jobs: Sequence[Job]) -> list[int]:
    """Return the places of jobs, those with the widest instructions first."""
    return sorted(range(len(jobs)), key=lambda index: -ISA_ORDER.index(jobs[index].loop.isa))


def _back_and_forth(places: Sequence[int], round_: int) -> Sequence[int]:
    """Return the places, every other round from behind.

    A core that wide vectors slowed down stays slow for up to a millisecond: what follows upon them in one
    round goes before them in the next.
    """
    return places[::-1] if round_ % 2 else places


def _best(samples: Samples) -> float:
    """Return the most iterations a second of a sample."""
    return max(done / took for done, took in zip(samples.iterations, samples.seconds, strict=True))


def _best_rates(jobs: Sequence[Job], samples: Sequence[Samples]) -> list[float]:
    """Return how fast each job was at best, in bytes or FLOPs of an iteration that jobs of a name share."""
    pairs = zip(jobs, samples, strict=True)
    return [_best(one) * max(job.loop.chunk_bytes, job.loop.flops) for job, one in pairs]


def _winners(jobs: Sequence[Job], samples: Sequence[Samples]) -> list[int]:
    """Return the place of the fastest job of each name."""
    rates = _best_rates(jobs, samples)
    best: dict[str, int] = {}
    for index, job in enumerate(jobs):
        if job.name not in best or rates[index] > rates[best[job.name]]:
            best[job.name] = index
    return list(best.values())


def _near(jobs: Sequence[Job], samples: Sequence[Samples], going: Sequence[int], near: float) -> list[int]:
    """Return those that reach this part of the fastest of their name."""
    rates = _best_rates(jobs, samples)
    best = {jobs[index].name: rates[index] for index in _winners(jobs, samples)}
    return [index for index in going if rates[index] >= near * best[jobs[index].name]]


def _sampled(team: Team, job: Job, samples: int) -> Samples:
    # what the loop before left in the caches goes first
    round_ = -(-2 * job.stream_bytes // (job.iterations * job.loop.chunk_bytes)) if job.wrapped else 1
    return _run(team, job, samples, warmups=max(1, round_), probe_operations=clock.PROBE_OPERATIONS)


def _run(team: Team, job: Job, samples: int, *, warmups: int = 1, probe_operations: int = 0) -> Samples:
    return team.run(
        job.loop,
        job.iterations,
        samples,
        stream_bytes=job.stream_bytes,
        place=job.place,
        small_pages=job.small_pages,
        wrapped=job.wrapped,
        warmups=warmups,
        probe_operations=probe_operations,
    )


def _calibrated(team: Team, job: Job, seconds: float) -> Job:
    """Return the job with iterations for about ``seconds``, or to go round its memory if that is more."""
    seconds *= _APART if len(team.cpus) > 1 else 1
    round_ = job.stream_bytes // job.loop.chunk_bytes if job.wrapped else 1
    trial = 2048
    while True:
        took = min(_run(team, replace(job, iterations=trial), 3).seconds)
        if took > seconds / 8 or trial > 1 << 40:
            return replace(job, iterations=max(round_, 1, round(trial * seconds / took)))
        trial *= 8


def clock_moved(samples: Samples) -> bool:
    """Whether the core clock was not the same in all samples that come near the best."""
    found = _clock_of(samples)
    return found.spread is not None and found.spread > STEADY


def _clock_of(samples: Samples) -> clock.Clock:
    """Return the clock in those samples that come near the best, or else by the probes right after them.

    What slows a sample also slows the probe after it, and is no other clock.
    """
    threads = len(samples.counted_hz or samples.add_seconds) // max(1, len(samples.seconds))
    near = _NEAR * _best(samples)
    rates = (done / took for done, took in zip(samples.iterations, samples.seconds, strict=True))
    chosen = [index for index, rate in enumerate(rates) if rate >= near]
    places = [index * threads + thread for index in chosen for thread in range(threads)]
    if samples.counted_hz:
        counted = [hz for place in places if (hz := samples.counted_hz[place]) is not None]
        if counted:
            return clock.from_counters(counted)
    found = _probed(samples, places)
    if found.hz is None:  # the few right after the best were disturbed themselves
        found = _probed(samples, range(len(samples.add_seconds)))
    return replace(found, source=f"{found.source}; no counter of cycles: {samples.uncounted}")


def _probed(samples: Samples, places: Sequence[int]) -> clock.Clock:
    add = [samples.add_seconds[place] for place in places]
    multiply = [samples.multiply_seconds[place] for place in places]
    return clock.from_probes(clock.PROBE_OPERATIONS, add, multiply)


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
        small_pages=job.small_pages,
    )


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count != 1 else ''}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
