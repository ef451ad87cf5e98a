"""The processes of a timing: pyperf's manager, and the workers it starts, which run this module again.

They import as little as possible, because there are several of them for every kernel.
"""

from __future__ import annotations

import mmap
import os
import pickle
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .live import LiveCall
from .supervise import python_command
from .timing import CONDITIONS, JOB, MANAGER, RESULT, BenchJob

if TYPE_CHECKING:
    from .record import Recorder


FAULTS, BATCH = 512, 32
"""Page faults that are timed to see what one takes, and how many of them together."""


def main() -> None:
    """Measure what the job in the folder (the first argument) asks for; pyperf adds its own arguments."""
    folder = Path(sys.argv[1])
    job: BenchJob = pickle.loads((folder / JOB).read_bytes())
    if "--worker" in sys.argv:
        from .worker import run_guarded

        run_guarded(folder, lambda recorder: _measure(folder, job, recorder))
    else:
        _manage(folder, job)


def _runner(folder: Path, job: BenchJob) -> Any:
    import pyperf

    settings = job.settings
    runner = pyperf.Runner(
        values=settings.values,
        processes=settings.processes,
        warmups=settings.warmups,
        loops=settings.loops,
        min_time=settings.min_time,
        program_args=python_command("counteroof.run.bench", str(folder))[1:],
    )
    runner.argparser.add_argument("folder")
    return runner


def _manage(folder: Path, job: BenchJob) -> None:
    runner = _runner(folder, job)
    runner.parse_args([str(folder), "--quiet", "--copy-env"])
    try:
        result = runner.bench_time_func(job.plan.label, _never)
    except RuntimeError as error:  # a worker failed; what it left in the folder says why
        (folder / MANAGER).write_text(str(error))
        sys.exit(1)
    result.dump(str(folder / RESULT))


def _never(loops: int) -> float:
    raise AssertionError("the manager measures nothing itself")


def _fault_seconds() -> float:
    """Return what the fault for a fresh page of 4 KiB takes: first touches, less touches of what is there.

    The quickest of some batches counts: others may have been interrupted.
    """
    pages = mmap.mmap(-1, FAULTS * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)

    def touched(batch: range) -> float:
        start = time.perf_counter()
        for page in batch:
            pages[4096 * page] = 1
        return time.perf_counter() - start

    batches = [range(first, first + BATCH) for first in range(0, FAULTS, BATCH)]
    first, again = (min(touched(batch) for batch in batches) for _ in range(2))
    pages.close()
    return max(first - again, 0.0) / BATCH


def _measure(folder: Path, job: BenchJob, recorder: Recorder) -> None:
    live = LiveCall(job.plan, recorder)
    faults: list[tuple[float, float]] = []
    shares: list[float] = []

    def seconds(loops: int) -> float:
        recorder.note("timing", job.plan.kernel.symbol)
        before = resource.getrusage(resource.RUSAGE_SELF)
        result = live.seconds(loops)
        after = resource.getrusage(resource.RUSAGE_SELF)
        recorder.note("after the call")
        minor, major = after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt
        faults.append((minor / loops, major / loops))
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        shares.append(used / result if result > 0 else 0.0)
        return result

    runner = _runner(folder, job)
    runner.parse_args(sys.argv[1:])
    runner.bench_time_func(job.plan.label, seconds)
    live.check_guards()
    from ..machine.clock import sustained
    from .worker import write_result

    # the last sample is the farthest from what first calls have to do
    minor, major = faults[-1] if faults else (None, None)
    conditions = {
        "clock_hz": sustained().hz,
        "minor": minor,
        "major": major,
        "fault_seconds": _fault_seconds(),
        "processor_share": shares[-1] if shares and not live.plan.cold else None,
    }
    write_result(folder / f"{CONDITIONS}{os.getpid()}.json", conditions)
