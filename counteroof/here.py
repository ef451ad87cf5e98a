"""The machine of a run: this one or a file's, its ceilings kept from before or measured now.

Says nothing itself: what a person should see goes to the functions it is given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from .errors import BadInput, MachineError
from .machine.model import Machine

Progress = Callable[[int, int, str], None]
"""Called with the number done, the total and what is next."""

_ACCESS = "access: "

Steps = Callable[[str], AbstractContextManager[Progress | None]]
"""Shows the progress of something with a title while its context lasts."""


def silent(title: str) -> AbstractContextManager[None]:
    """Show nothing."""
    return contextlib.nullcontext()


def warn(message: str) -> None:
    """Warn as Python does."""
    warnings.warn(message, stacklevel=4)


def for_run(
    file: Path | None, threads: Sequence[int], steps: Steps = silent, say: Callable[[str], None] = warn
) -> tuple[Machine, Machine | None]:
    """Return the machine of a run with ceilings for these threads, and this one if they are its own.

    A file with ceilings is taken as it is; one with caches alone gets the ceilings of this machine. Those are
    measured if they are missing or were disturbed when they were measured.
    """
    from .cachesim import options
    from .machine import file as machine_file
    from .machine import topology

    try:
        here = topology.detect()
        machine = here if file is None else machine_file.load(file, here)
    except MachineError:  # the sizes of the caches are hidden: a file may have them
        if file is None:
            raise
        machine = here = machine_file.load(file)
    if machine.ceilings:
        return machine, None
    if file is not None:
        try:
            options.check(machine.caches)
        except BadInput as error:
            raise BadInput(f"{file}: {error}") from error
    here = with_ceilings(here, threads, steps=steps, say=say)
    if file is None:
        return here, here
    # other caches than this machine's: what was found of those does not hold
    notes = tuple(dict.fromkeys((*machine.notes, *here.notes)))
    machine = dataclasses.replace(machine, ceilings=here.ceilings, access=here.access, notes=notes)
    return dataclasses.replace(machine, measured=here.measured), here


def with_ceilings(
    here: Machine,
    threads: Sequence[int],
    *,
    again: bool = False,
    ratios: Sequence[str] = (),
    quick: bool = False,
    access: bool = False,
    steps: Steps = silent,
    say: Callable[[str], None] = warn,
) -> Machine:
    """Return this machine with ceilings for these numbers of threads; measures and keeps what is missing."""
    from . import refresh
    from .machine import store

    kept, reasons = store.cached(here)
    base = kept or here
    have = {ceiling.threads for ceiling in base.ceilings}
    counts = [count for count in threads if again or count not in have]
    if counts:
        why = "; ".join(reasons) or ("asked for" if again else "another number of threads")
        measured = measure(base, counts, why, steps, ratios, quick=quick, access=access)
        keep(measured, say)
        return measured
    with steps("measuring ceilings again") as progress:
        measured, reasons = refresh.refreshed(base, threads, progress)
    if reasons:
        keep(measured, say)
        notes = [f"ceilings: measured again: {reason}" for reason in reasons]
        measured = dataclasses.replace(measured, notes=(*measured.notes, *notes))
    return measured


def measure(
    machine: Machine,
    threads: Sequence[int],
    why: str,
    steps: Steps = silent,
    ratios: Sequence[str] = (),
    *,
    quick: bool = False,
    access: bool = False,
) -> Machine:
    """Measure ceilings with these numbers of threads and keep the others.

    ``ratios`` are loads to stores that are measured too; ``quick`` is with few samples of each ceiling;
    ``access`` is with the sweep over sizes and the other ways to memory.
    """
    from . import ceiling_access, ceilings

    effort = ceilings.in_seconds(len(set(threads))) if quick else None
    if access:
        with steps("measuring what the caches hold") as progress:
            machine = ceiling_access.swept(machine, progress)
    with steps(f"measuring ceilings ({why})") as progress:
        machine = ceilings.measure(
            machine, threads=tuple(threads), progress=progress, ratios=ratios, effort=effort
        )
    if access:
        with steps("measuring other ways to memory") as progress:
            found, told = ceiling_access.measured(machine, threads, progress)
        notes = [note for note in machine.notes if not note.startswith(_ACCESS)]
        notes += [f"{_ACCESS}{one}" for one in told]
        machine = dataclasses.replace(
            machine, access=(*ceilings.kept_beside(machine.access), *found), notes=tuple(notes)
        )
    return machine


def keep(machine: Machine, say: Callable[[str], None] = warn) -> None:
    """Keep the ceilings for the next run; say so if that is not possible, for a run can go on without."""
    from .machine import store

    try:
        path = store.cache_file(machine)
    except BadInput as error:
        say(f"the ceilings cannot be kept: {error}")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store.save(machine, path)
    except OSError as error:
        say(f"the ceilings cannot be kept in {path}: {error.strerror}")
