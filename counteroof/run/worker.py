"""The process in which a kernel is checked and counted.

It is given a folder with a job and leaves there what it found out, file by file, so that what was finished
before a crash is kept. Results come back as JSON: nothing that a kernel may have corrupted is unpickled. A
folder serves better than a pipe, because a kernel can close every file descriptor it finds.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import BadInput, CounteroofError, KernelFailed
from ..native import lib
from .record import Recorder

if TYPE_CHECKING:
    from ..count.base import Measurement
    from ..spec import KernelCase
    from .plan import Plan
    from .prepare import PreparedCall

    Task = Callable[[PreparedCall, Mapping[str, Any]], Measurement]

JOB = "job.pickle"
CHECKED = "checked.json"
FAILURE = "failure.json"
SECOND_CALL_LIMIT = 1.0
"""Seconds of the first call up to which a second, warm one is made to estimate the kernel's time."""


class Job(NamedTuple):
    """What a worker is to do: check one case, then run the tasks (dotted names) with the options."""

    case: KernelCase
    plan: Plan
    tasks: tuple[str, ...]
    options: Mapping[str, Any]


def task_file(number: int) -> str:
    """Return the name of the file that holds the result of one task."""
    return f"task-{number}.json"


def write_result(path: Path, data: Any) -> None:
    """Write a result so that it is either there in full or not at all."""
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(data))
    scratch.rename(path)


def main() -> None:
    """Do the job in the folder (the only argument), and end without running any more of the user's code."""
    folder = Path(sys.argv[1])
    run_guarded(folder, lambda recorder: _work(folder, recorder))


def run_guarded(folder: Path, work: Callable[[Recorder], None]) -> None:
    """Run ``work`` in this process with its death recorded, turn exceptions into a failure file, and exit."""
    lib.run_worker_limits()
    recorder = Recorder(folder)
    recorder.install()
    try:
        work(recorder)
    except KernelFailed as error:
        write_result(folder / FAILURE, {"kind": error.kind, "message": str(error)})
    except BadInput as error:
        write_result(folder / FAILURE, {"kind": "input", "message": str(error)})
    except MemoryError:
        write_result(folder / FAILURE, {"kind": "setup", "message": "out of memory"})
    except CounteroofError as error:
        kind = "internal" if error.__cause__ else "unsupported"  # a mistake of ours, or of this system's
        write_result(folder / FAILURE, {"kind": kind, "message": str(error)})
    except Exception as error:
        where = traceback.format_exc()
        print(where, file=sys.stderr)
        message = f"counteroof failed: {type(error).__name__}: {error}"
        write_result(folder / FAILURE, {"kind": "internal", "message": message})
    recorder.note("done")
    with contextlib.suppress(OSError, ValueError):  # the kernel may have closed them
        sys.stdout.flush()
        sys.stderr.flush()
    lib.run_flush_stdio()
    os._exit(0)


def _work(folder: Path, recorder: Recorder) -> None:
    job: Job = pickle.loads((folder / JOB).read_bytes())
    from .prepare import PreparedCall

    start = time.perf_counter()
    prepared = PreparedCall(job.case, job.plan, recorder)
    preparation = time.perf_counter() - start
    checked, seconds = _check(prepared, job.case, recorder)
    write_result(folder / CHECKED, {"checked": checked, "seconds": seconds, "preparation": preparation})
    for number, name in enumerate(job.tasks):
        prepared.refill()
        recorder.install()  # once more: the task before may have put something in front
        recorder.note("counting", name)
        measurement = _task(name)(prepared, job.options)
        prepared.check_guards()
        from ..jsonio import to_json

        write_result(folder / task_file(number), to_json(measurement))


def _check(prepared: PreparedCall, case: KernelCase, recorder: Recorder) -> tuple[bool | None, float]:
    """Make the kernel's first calls; return whether the result was right, and the seconds of a warm one."""
    expected = None
    if case.spec.reference is not None:
        recorder.note("reference", case.spec.reference)
        from .check import compare, expect

        expected = expect(prepared)
    prepared.protect_inputs(True)
    recorder.note("call", case.spec.symbol)
    start = time.perf_counter()
    returned = prepared.call()
    seconds = time.perf_counter() - start
    recorder.note("after the call")
    prepared.protect_inputs(False)
    prepared.check_guards()
    if expected is not None:
        difference = compare(
            expected, prepared.arrays, prepared.typed(returned), case.spec.rtol, case.spec.precision
        )
        if difference:
            raise KernelFailed("wrong-result", f"the result is not the reference's: {difference}")
    if seconds < SECOND_CALL_LIMIT:
        recorder.note("second call", case.spec.symbol)
        seconds = prepared.seconds(1)
        recorder.note("after the call")
        prepared.check_guards()
    return None if expected is None else True, seconds


def _task(name: str) -> Task:
    module, _, function = name.partition(":")
    found: Task = getattr(importlib.import_module(module), function)
    return found
