"""One kernel case from claim to results: build, check, count and time, each failure kept to this case.

The order is that of trust: nothing is counted or timed before its result was right, and timings run alone.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadInput, KernelFailed, Problem
from .outcome import Failure, failure_of, raised, read_json
from .prepare import Bound, bind
from .record import make_record, read_phase
from .supervise import environment, python_command, supervise
from .timing import Settings, Timing, measure, settings_for
from .worker import CHECKED, FAILURE, JOB, Job, task_file

if TYPE_CHECKING:
    from ..build import KernelBuild
    from ..count.base import Measurement
    from ..library import Signature
    from ..spec import KernelCase

DEFAULT_TIME_LIMIT = 120.0
"""Seconds for everything done with one kernel, where neither the spec nor the caller says otherwise."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class KernelRun:
    """What running one case gave; with a :attr:`failure`, what was finished before it is kept.

    Attributes
    ----------
    case
        The kernel and its parameters.
    timing
        Seconds per call, or ``None`` if it was not timed.
    measurements
        One for each finished task, in the order of the tasks.
    checked
        True if the result was that of the reference, False if not, ``None`` if there is none or it did not
        come to that.
    failure
        Why something is missing.
    library, build, signature
        The shared library that ran, how it was built (if counteroof did) and the function's C signature.
    stages
        Seconds spent on each stage.
    """

    case: KernelCase
    timing: Timing | None
    measurements: tuple[Measurement, ...]
    checked: bool | None
    failure: Failure | None
    library: str | None = None
    build: KernelBuild | None = None
    signature: Signature | None = None
    stages: Mapping[str, float] = field(default_factory=dict)


def execute(
    case: KernelCase,
    *,
    tasks: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    timing: bool = True,
    progress: Progress | None = None,
) -> KernelRun:
    """Run one case and return what came of it; a failure of the kernel is part of the result.

    Parameters
    ----------
    case
        What to run.
    tasks
        Counters, as ``module:function``; each is called in the worker with the prepared call and
        ``options``, and returns a Measurement.
    options
        Given to the tasks; must be picklable.
    time_limit
        Seconds for everything done with this kernel; the spec's own limit goes first.
    timing
        Whether to time the kernel too.
    progress
        Called with the name of each stage as it begins: ``build``, ``check``, ``count``, ``time``.
    """
    return _Run(case, tuple(tasks), options or {}, time_limit, timing, progress).run()


class _Run:
    """The state of one :func:`execute`."""

    def __init__(
        self,
        case: KernelCase,
        tasks: tuple[str, ...],
        options: Mapping[str, Any],
        time_limit: float | None,
        timing: bool,
        progress: Progress | None,
    ) -> None:
        self.case, self.tasks, self.options, self.time = case, tasks, options, timing
        self.limit = case.spec.time_limit or time_limit or DEFAULT_TIME_LIMIT
        self.deadline = time.monotonic() + self.limit
        self.progress = progress
        self.stages: dict[str, float] = {}
        self.current: str | None = None
        self.begun = 0.0
        self.bound: Bound | None = None
        self.timing: Timing | None = None
        self.measurements: tuple[Measurement, ...] = ()
        self.checked: bool | None = None
        self.failures: list[Failure] = []

    def run(self) -> KernelRun:
        try:
            self.stage("build", self.build)
            with tempfile.TemporaryDirectory(prefix="counteroof-") as folder:
                settings = self.stage("check", lambda: self.work(Path(folder)))
                # A counter that failed takes nothing away from the plain calls, so those are timed all the
                # same.
                if self.time and settings is not None and time.monotonic() < self.deadline:
                    self.stage("time", lambda: self.measure(settings))
        except (KernelFailed, BadInput) as error:
            self.failures.append(raised(error))
        except OSError as error:
            self.failures.append(Failure("setup", f"the worker's files cannot be made: {error}"))
        return self.result()

    def stage(self, name: str, work: Callable[[], Any]) -> Any:
        self.enter(name)
        try:
            return work()
        finally:
            self.enter(None)

    def enter(self, name: str | None) -> None:
        """End the stage that is going on, and begin another one."""
        now = time.monotonic()
        if self.current is not None:
            self.stages[self.current] = now - self.begun
        self.current, self.begun = name, now
        if name is not None and self.progress is not None:
            self.progress(name)

    def left(self) -> float:
        return max(self.deadline - time.monotonic(), 0.1)

    def build(self) -> None:
        self.bound = bind(self.case)
        self.deadline = time.monotonic() + self.limit  # compiling is not the kernel's fault

    def work(self, folder: Path) -> Settings | None:
        """Check and count in one process, which fills the arrays once; return how to time the kernel."""
        assert self.bound is not None
        job = Job(self.case, self.bound.plan, self.tasks, self.options)
        (folder / JOB).write_bytes(pickle.dumps(job))
        make_record(folder)
        command = python_command("counteroof.run.worker", str(folder))
        ended = supervise(command, self.environment(), self.left(), lambda: self.watch(folder))
        checked = _checked(read_json(folder / CHECKED))
        results = [read_json(folder / task_file(number)) for number in range(len(self.tasks))]
        done = checked is not None and None not in results
        failure = failure_of(folder, ended, FAILURE, self.limit, done)
        if failure is not None:
            self.failures.append(failure)
        self.measurements = tuple(_measurement(result) for result in results if result is not None)
        if checked is None:
            self.checked = False if failure is not None and failure.kind == "wrong-result" else None
            return None
        self.checked, seconds, preparation = checked
        return settings_for(seconds, self.bound.plan.cold, preparation)

    def watch(self, folder: Path) -> None:
        """Notice when the worker goes on to counting."""
        if self.current == "check" and self.tasks and read_phase(folder) == "counting":
            self.enter("count")

    def measure(self, settings: Settings) -> None:
        assert self.bound is not None
        with tempfile.TemporaryDirectory(prefix="counteroof-") as own:
            self.timing = measure(self.bound.plan, Path(own), self.environment(), settings, self.left())

    def environment(self) -> dict[str, str]:
        return environment(self.case.spec.env, self.case.spec.threads)

    def result(self) -> KernelRun:
        bound = self.bound
        return KernelRun(
            self.case,
            self.timing,
            self.measurements,
            self.checked,
            self.failures[0] if self.failures else None,
            bound.library if bound else None,
            bound.build if bound else None,
            bound.signature if bound else None,
            self.stages,
        )


def _checked(data: Any) -> tuple[bool | None, float, float] | None:
    """Return what the worker says of the first calls, if it says it in full."""
    match data:
        case {"checked": True | None as checked, "seconds": float(one), "preparation": float(other)}:
            return checked, one, other
    return None


def _measurement(data: Any) -> Measurement:
    from ..count.base import Measurement
    from ..jsonio import from_json

    problems: list[Problem] = []
    measurement = from_json(Measurement, data, "", problems)
    if measurement is None:
        raise KernelFailed(
            "internal", f"the counter's result cannot be read: {'; '.join(map(str, problems))}"
        )
    return measurement
