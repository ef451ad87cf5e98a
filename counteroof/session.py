"""A whole run: the stages in order, one kernel after the other, each finished one kept."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import __version__
from .assemble import assemble
from .count.select import Choice, nothing_counted
from .machine.model import Machine
from .results import Results
from .run.execute import KernelRun, execute
from .spec import KernelCase

Progress = Callable[[int, str, str], None]
"""Called with the number of kernels done, the label of the one at work, and its stage."""


@dataclass(frozen=True)
class Settings:
    """How a run measures: the counters, how much they record, and the seconds one kernel may take.

    ``guesses`` are what was assumed about kernels that have no spec, by name; they go into the results.
    """

    counters: Choice
    detail: str = "bytes"
    time_limit: float | None = None
    guesses: Mapping[str, str] = field(default_factory=dict)


def measure(
    cases: Sequence[KernelCase], machine: Machine, settings: Settings, progress: Progress | None = None
) -> Iterator[tuple[Results, KernelRun]]:
    """Run the cases in order; after each, give the results so far and what this case's came from."""
    found = Results(_now(), __version__, machine, ())
    for number, case in enumerate(cases):

        def stage(name: str, number: int = number, label: str = case.label) -> None:
            if progress is not None:
                progress(number, label, name)

        run = execute(
            case,
            tasks=settings.counters.tasks(case.spec.threads),
            options={"detail": settings.detail, "machine": machine},
            time_limit=settings.time_limit,
            progress=stage,
        )
        kernel = assemble(_explained(run, settings), machine)
        found = replace(found, kernels=(*found.kernels, kernel))
        yield found, run


def _explained(run: KernelRun, settings: Settings) -> KernelRun:
    """Add to the measurements what was guessed, why counters were passed over or nothing counted."""
    choice, measurements = settings.counters, run.measurements
    if run.failure is None:
        measurements += choice.refused(run.case.spec.threads)
        if not choice.counters:
            measurements = tuple(nothing_counted(name, reason) for name, reason in choice.passed_over.items())
    notes = list(choice.notes) if choice.counters else []
    if (guess := settings.guesses.get(run.case.spec.name)) is not None:
        notes.append(guess)
    if (built := run.build) is not None:
        notes.append(f"built by {built.compiler} ({built.version}) with {' '.join(built.flags)}")
    return replace(run, measurements=tuple(replace(one, notes=(*one.notes, *notes)) for one in measurements))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
