"""A whole run: the stages in order, one kernel after the other, each finished one kept."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import __version__
from .assemble import assemble
from .beside import Beside
from .cachesim.options import ModelOptions
from .count.resctrl import sweep
from .count.select import Choice, nothing_counted
from .machine.model import Machine
from .reconcile import disagreements
from .results import KernelResult, Results
from .run.execute import KernelRun, execute
from .spec import KernelCase

Progress = Callable[[int, str, str], None]
"""Called with the number of kernels done, the label of the one at work, and its stage."""


@dataclass(frozen=True)
class Settings:
    """How a run measures: the counters, how much they record, and the seconds one kernel may take.

    ``here`` is this machine, if the ceilings are its own: those that others move are then measured again
    between the kernels.
    ``guesses`` are what was assumed about kernels that have no spec, by name; they go into the results.
    ``events_file`` has the user's own counter events. ``model`` is what is asked of the cache model.
    """

    counters: Choice
    detail: str = "bytes"
    time_limit: float | None = None
    here: Machine | None = None
    guesses: Mapping[str, str] = field(default_factory=dict)
    events_file: Path | None = None
    model: ModelOptions = field(default_factory=ModelOptions)


def measure(
    cases: Sequence[KernelCase], machine: Machine, settings: Settings, progress: Progress | None = None
) -> Iterator[tuple[Results, KernelRun]]:
    """Run the cases in order; after each, give the results so far and what this case's came from.

    A kernel's place is final once the roofs were measured after it too, at the latest with the last kernel.
    """
    beside = Beside(machine, settings.here, {case.spec.threads for case in cases})
    own_caches = settings.here is not None and settings.here.caches == machine.caches
    found = Results(_now(), __version__, machine, ())
    kernels: dict[int, KernelResult] = {}
    waiting: dict[int, KernelRun] = {}
    swept: dict[int, KernelRun] = {}  # of kernels with several sizes: what is said of one may follow from all
    for number, case in enumerate(cases):
        stage = _stage(progress, number, case.label)
        if number == 0 and beside.measures:
            stage("roofs")
            beside.look(0)
        try:
            run = execute(
                case,
                tasks=settings.counters.tasks(case.spec.threads),
                options={
                    "detail": settings.detail,
                    "machine": machine,
                    "events_file": settings.events_file,
                    "model": settings.model,
                },
                time_limit=settings.time_limit,
                progress=stage,
            )
        finally:
            sweep()  # a worker that died, or was stopped, may have left a monitoring group
        explained = waiting[number] = _explained(run, settings)
        if sum(one.spec.name == case.spec.name for one in cases) > 1:
            swept[number] = explained
        again = {index: one for index, one in swept.items() if one.case.spec.name == case.spec.name}
        if beside.due or (beside.measures and number + 1 == len(cases)):
            stage("roofs")
            beside.look(number + 1)
        for index, one in {**waiting, **again}.items():
            name = one.case.spec.name
            others = [other for at, other in swept.items() if at != index and other.case.spec.name == name]
            found_so_far = assemble(one, beside.near(index), others, own_caches=own_caches)
            kernels[index] = beside.noted(index, found_so_far)
        waiting = {index: one for index, one in waiting.items() if not beside.settled(index)}
        found = replace(
            found,
            machine=beside.whole(),
            kernels=tuple(kernels.values()),
            roof_samples=beside.samples(),
        )
        yield found, run


def _stage(progress: Progress | None, number: int, label: str) -> Callable[[str], None]:
    """Return what tells the progress of one kernel, a stage at a time."""
    return lambda name: progress(number, label, name) if progress is not None else None


def _explained(run: KernelRun, settings: Settings) -> KernelRun:
    """Add to the measurements what was guessed, why counters were passed over or nothing counted."""
    choice, measurements = settings.counters, run.measurements
    if run.failure is None:
        measurements += choice.refused(run.case.spec.threads)
        if not choice.counters:
            measurements = tuple(nothing_counted(name, reason) for name, reason in choice.passed_over.items())
    notes = list(choice.notes) if choice.counters else []
    notes += disagreements(measurements)
    if (guess := settings.guesses.get(run.case.spec.name)) is not None:
        notes.append(guess)
    if (built := run.build) is not None:
        notes.append(f"built by {built.compiler} ({built.version}) with {' '.join(built.flags)}")
    return replace(run, measurements=tuple(replace(one, notes=(*one.notes, *notes)) for one in measurements))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
