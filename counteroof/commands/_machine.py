"""The machine a command works with: detected or from a file, its ceilings kept or measured now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .. import here, units
from ..machine.model import Machine
from . import _progress


def known() -> Machine:
    """Return this machine, with the ceilings kept for it if they hold; nothing is measured."""
    from ..machine import store, topology

    machine = topology.detect()
    return store.cached(machine)[0] or machine


def for_run(file: Path | None, threads: Sequence[int]) -> tuple[Machine, Machine | None]:
    """Return the machine of a run, and this one if the ceilings are its own; bars on a terminal."""
    return here.for_run(file, threads, _progress.steps, _say)


def with_ceilings(
    machine: Machine,
    threads: Sequence[int],
    *,
    again: bool = False,
    ratios: Sequence[str] = (),
    quick: bool = False,
) -> Machine:
    """Return this machine with ceilings for these numbers of threads; bars on a terminal."""
    return here.with_ceilings(
        machine, threads, again=again, ratios=ratios, quick=quick, steps=_progress.steps, say=_say
    )


def _say(message: str) -> None:
    click.echo(message, err=True)


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
