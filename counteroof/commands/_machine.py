"""The machine a command works with: detected or from a file, its ceilings kept or measured now."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click

from .. import units
from ..machine.model import Machine
from . import _progress


def known() -> Machine:
    """Return this machine, with the ceilings kept for it if they hold; nothing is measured."""
    from ..machine import store, topology

    here = topology.detect()
    return store.cached(here)[0] or here


def for_run(file: Path | None, threads: Sequence[int]) -> tuple[Machine, Machine | None]:
    """Return the machine of a run with ceilings for these threads, and this one if they are its own.

    A file with ceilings is taken as it is; one with caches alone gets the ceilings of this machine. Those are
    measured if they are missing or were disturbed when they were measured.
    """
    from ..machine import file as machine_file
    from ..machine import topology

    here = topology.detect()
    machine = here if file is None else machine_file.load(file, here)
    if machine.ceilings:
        return machine, None
    here = with_ceilings(here, threads)
    notes = tuple(dict.fromkeys((*machine.notes, *here.notes)))
    return dataclasses.replace(machine, ceilings=here.ceilings, measured=here.measured, notes=notes), here


def with_ceilings(here: Machine, threads: Sequence[int], *, again: bool = False) -> Machine:
    """Return this machine with ceilings for these numbers of threads; measures and keeps what is missing."""
    from .. import refresh
    from ..machine import store

    kept, reasons = store.cached(here)
    base = kept or here
    have = {ceiling.threads for ceiling in base.ceilings}
    counts = [count for count in threads if again or count not in have]
    if counts:
        why = "; ".join(reasons) or ("asked for" if again else "another number of threads")
        measured = measure(base, counts, why)
        keep(measured)
        return measured
    with _progress.steps("measuring ceilings again") as progress:
        measured, reasons = refresh.refreshed(base, threads, progress)
    if reasons:
        keep(measured)
        notes = [f"ceilings: measured again: {reason}" for reason in reasons]
        measured = dataclasses.replace(measured, notes=(*measured.notes, *notes))
    return measured


def measure(machine: Machine, threads: Sequence[int], why: str) -> Machine:
    """Measure ceilings with these numbers of threads and keep the others; with a bar on a terminal."""
    from .. import ceilings

    with _progress.steps(f"measuring ceilings ({why})") as progress:
        return ceilings.measure(machine, threads=tuple(threads), progress=progress)


def keep(machine: Machine) -> None:
    """Keep the ceilings for the next run; say so if that is not possible, for a run can go on without."""
    from ..machine import store

    path = store.cache_file(machine)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store.save(machine, path)
    except OSError as error:
        click.echo(f"the ceilings cannot be kept in {path}: {error.strerror}", err=True)


def description(machine: Machine, *, ceilings: bool = True) -> list[str]:
    """Return the facts about a machine, a line each; of the ceilings only their number if so wished."""
    from ..report.legend import ceiling_text

    memory = units.binary_bytes(machine.memory_bytes) if machine.memory_bytes else "memory unknown"
    isa = ", ".join(machine.isa) or "no vector instructions known"
    lines = [
        f"{machine.cpu}: {machine.logical_cpus} logical processors, {machine.architecture}, {isa}; {memory}",
        f"hypervisor: {machine.hypervisor or 'none found'}",
    ]
    for cache in machine.caches:
        hashed = ", hashed" if cache.hashed else ""
        shared = f"shared by {cache.shared_by}" if cache.shared_by > 1 else "private"
        size = units.binary_bytes(cache.bytes)
        lines.append(
            f"{cache.name}: {size}, {cache.ways} ways, {cache.fill}{hashed}, {shared} ({cache.source})"
        )
    if machine.ceilings:
        count = len(machine.ceilings)
        lines.append(f"{count} ceiling{'s' if count > 1 else ''}, measured {machine.measured}")
        lines += [f"  {ceiling_text(ceiling)}" for ceiling in machine.ceilings] if ceilings else []
    else:
        lines.append("ceilings: not measured yet; 'counteroof machine' measures them")
    return [*lines, *(f"note: {note}" for note in machine.notes)]
