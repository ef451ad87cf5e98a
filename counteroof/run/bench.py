"""The processes of a timing: pyperf's manager, and the workers it starts, which run this module again.

They import as little as possible, because there are several of them for every kernel.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .live import LiveCall
from .supervise import python_command
from .timing import JOB, MANAGER, RESULT, BenchJob

if TYPE_CHECKING:
    from .record import Recorder


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


def _measure(folder: Path, job: BenchJob, recorder: Recorder) -> None:
    live = LiveCall(job.plan, recorder)

    def seconds(loops: int) -> float:
        recorder.note("timing", job.plan.kernel.symbol)
        result = live.seconds(loops)
        recorder.note("after the call")
        return result

    runner = _runner(folder, job)
    runner.parse_args(sys.argv[1:])
    runner.bench_time_func(job.plan.label, seconds)
    live.check_guards()
