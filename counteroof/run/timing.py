"""Seconds of a call, measured by pyperf in processes of their own.

pyperf's manager starts the measuring processes one after the other (``bench.py``), each with arrays of its
own, so that the samples see different memory layouts. The loop between the two clock readings is in C.
"""

from __future__ import annotations

import pickle
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import KernelFailed
from .outcome import failure_of, read_json
from .plan import Plan
from .record import make_record
from .supervise import python_command, supervise

JOB = "bench.pickle"
RESULT = "pyperf.json"
MANAGER = "manager.txt"
CONDITIONS = "conditions-"
"""What each measuring process leaves about its calls, in a file of this name and its own number."""
MIN_TIME = 0.02
"""Seconds a sample lasts at least: a million times the clock's resolution, with a C loop around the calls."""
LONG_PREPARATION = 1.0
"""Seconds of making arrays and set-up calls from which on fewer processes measure."""
TIMED_SECONDS = 1.0
"""What all samples together take, roughly, as long as that leaves enough of them."""


@dataclass(frozen=True)
class PageFaults:
    """Page faults of one call: those served from memory, and those that had to read a file or swap space.

    ``seconds_each`` is what a fault for a fresh page of 4 KiB takes, measured in the same process.
    """

    minor: float
    major: float
    seconds_each: float | None = None


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, as sampled.

    Attributes
    ----------
    samples
        Seconds per call of every sample, all processes together.
    loops
        Calls per sample.
    warmups
        Samples thrown away at the start of each process.
    processes
        Number of processes that contributed samples.
    pyperf_json
        pyperf's own result, with its metadata.
    clock_hz
        Core clock right after the samples, median of the processes; ``None`` if it could not be had.
    page_faults
        Of a call in the last sample of each process, medians; ``None`` if no process told.
    processor_share
        Seconds on a processor over seconds of the clock, all threads together, likewise: if that is fewer
        than compute, others ran on their processors, or they waited. ``None`` where caches are flushed
        between calls.
    """

    samples: tuple[float, ...]
    loops: int
    warmups: int
    processes: int
    pyperf_json: Mapping[str, Any]
    clock_hz: float | None = None
    page_faults: PageFaults | None = None
    processor_share: float | None = None

    @property
    def median(self) -> float:
        """Median of the samples, in seconds per call."""
        return statistics.median(self.samples)


class Settings(NamedTuple):
    """How much to measure; ``loops`` 0 leaves the number to pyperf's calibration."""

    processes: int
    values: int
    warmups: int
    loops: int
    min_time: float = MIN_TIME


class BenchJob(NamedTuple):
    """What the measuring processes need."""

    plan: Plan
    settings: Settings


def settings_for(seconds: float, cold: bool, preparation: float = 0.0) -> Settings:
    """Return how much to measure of a kernel whose call takes about so many seconds.

    A call that lasts a sample needs no calibration, and neither does one that finds the caches flushed each
    time.
    """
    loops = 1 if cold or seconds >= MIN_TIME else 0
    if preparation > LONG_PREPARATION:  # each process spends it; a calibration would be one more
        loops = loops or max(1, round(MIN_TIME / max(seconds, 1e-9)))
    if seconds >= 5:
        return Settings(2, 1, 0, loops)
    if seconds >= 0.5:
        return Settings(2, 2, 0, loops)
    processes = 3 if seconds < 0.1 and preparation <= LONG_PREPARATION else 2
    values = int(TIMED_SECONDS / (processes * max(seconds, MIN_TIME)))
    return Settings(processes, min(max(values, 2), 5), 1, loops)


def measure(
    plan: Plan, folder: Path, env: Mapping[str, str], settings: Settings, time_limit: float
) -> Timing:
    """Time a kernel.

    Raises
    ------
    KernelFailed
        If a call fails or the time limit is over.
    """
    job = BenchJob(plan, settings)
    (folder / JOB).write_bytes(pickle.dumps(job))
    make_record(folder)
    ended = supervise(python_command("counteroof.run.bench", str(folder)), env, time_limit)
    result = read_json(folder / RESULT)
    if ended.status > 0 and not ended.timed_out:
        ended = replace(ended, status=_worker_status(folder))
    failure = failure_of(folder, ended, "failure.json", time_limit, isinstance(result, dict))
    if failure:
        raise KernelFailed(failure.kind, failure.message)
    return with_conditions(
        read_timing(result), [read_json(path) for path in folder.glob(f"{CONDITIONS}*.json")]
    )


def with_conditions(timing: Timing, told: Iterable[Any]) -> Timing:
    """Return the timing with what the measuring processes told about their calls."""
    told = [one for one in told if isinstance(one, dict)]
    clocks = [one["clock_hz"] for one in told if one["clock_hz"] is not None]
    faults = [one for one in told if one["minor"] is not None]
    shares = [one["processor_share"] for one in told if one["processor_share"] is not None]
    return replace(
        timing,
        clock_hz=statistics.median(clocks) if clocks else None,
        processor_share=statistics.median(shares) if shares else None,
        page_faults=PageFaults(
            *(statistics.median(one[name] for one in faults) for name in ("minor", "major", "fault_seconds"))
        )
        if faults
        else None,
    )


def _worker_status(folder: Path) -> int:
    """Return the status of the worker that made pyperf give up; 0 if it ended well, but without a result."""
    try:
        told = (folder / MANAGER).read_text()
    except OSError:
        return 0
    match = re.search(r"exit code (-?\d+)", told)
    return int(match[1]) if match else 0


def read_timing(result: Mapping[str, Any]) -> Timing:
    """Return what a pyperf result says.

    Raises
    ------
    KernelFailed
        With kind ``internal`` if it holds no samples.
    """
    benchmark = result["benchmarks"][0]
    runs = [run for run in benchmark["runs"] if run.get("values")]
    if not runs:
        raise KernelFailed("internal", "pyperf's result has no samples")
    common = {**result.get("metadata", {}), **benchmark.get("metadata", {})}
    loops = {**common, **runs[0].get("metadata", {})}.get("loops", 1)
    samples = tuple(float(value) for run in runs for value in run["values"])
    warmups = len(runs[0].get("warmups") or ())
    return Timing(samples, int(loops), warmups, len(runs), dict(result))
