"""The machine a command works with: detected or from a file, its ceilings kept or measured now."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import click

from .. import here, units
from ..machine import replacement, tlb
from ..machine.model import Ceiling, Machine, Stores
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
    access: bool = False,
) -> Machine:
    """Return this machine with ceilings for these numbers of threads; bars on a terminal."""
    return here.with_ceilings(
        machine,
        threads,
        again=again,
        ratios=ratios,
        quick=quick,
        access=access,
        steps=_progress.steps,
        say=_say,
    )


def _say(message: str) -> None:
    click.echo(message, err=True)


def description(machine: Machine, *, ceilings: bool = True) -> list[str]:
    """Return the facts about a machine, a line each; of the ceilings only their number if so wished."""
    memory = units.binary_bytes(machine.memory_bytes) if machine.memory_bytes else "memory unknown"
    isa = ", ".join(machine.isa) or "no vector instructions known"
    lines = [
        f"{machine.cpu}: {machine.logical_cpus} logical processors, {machine.architecture}, {isa}; {memory}",
        f"hypervisor: {machine.hypervisor or 'none found'}",
    ]
    named = (("nominal", machine.nominal_hz), ("maximum", machine.maximum_hz))
    clocks = ", ".join(f"{what} {units.hertz(hz)}" for what, hz in named if hz is not None)
    lines.append(f"clock as stated: {clocks or 'neither nominal nor maximum (usual in virtual machines)'}")
    for cache in machine.caches:
        hashed = ", hashed" if cache.hashed else ""
        replaced = replacement.text(cache.policy)
        shared = f"shared by {cache.shared_by}" if cache.shared_by > 1 else "private"
        size = units.binary_bytes(cache.bytes)
        how = f"{cache.fill}{hashed}, {replaced}, {shared}"
        lines.append(f"{cache.name}: {size}, {cache.ways} ways, {how} ({cache.source})")
    lines.append(f"stores: {stores_text(machine.stores)} ({machine.stores.source})")
    sources = dict.fromkeys(one.source for one in machine.tlbs if one.source)
    known = f"{tlb.text(machine.tlbs)} ({', '.join(sources)})" if machine.tlbs else "nothing tells"
    lines.append(f"TLBs for data: {known}")
    if machine.ceilings:
        count = len(machine.ceilings)
        lines.append(f"{count} ceiling{'s' if count > 1 else ''}, measured {machine.measured}")
        if ceilings:
            from ..report.legend import ceiling_text  # what it needs takes longer to import than doctor may

            lines += [f"  {ceiling_text(one)}{_doubt(one)}" for one in machine.ceilings]
    else:
        lines.append("ceilings: not measured yet; 'counteroof machine' measures them")
    if ceilings:
        lines += [*_clocks(machine), *_access(machine)]
    return [*lines, *(f"note: {note}" for note in machine.notes)]


def stores_text(stores: Stores) -> str:
    """Return what stores cost, as the cache model has it."""
    spared = {
        "none": "a line is read before it is written",
        "under load": "a line written whole is spared the read only under load",
        "always": "a line written whole is spared the read",
    }[stores.evasion]
    if stores.evasion != "none":
        spared += f" (modelled: of {stores.evaded:.0%})"
    partial = "a read" if stores.partial == "read" else "a masked write"
    return f"{spared}; a non-temporal one in part costs {partial}"


def _doubt(ceiling: Ceiling) -> str:
    """Return what its note says against a ceiling."""
    from ..ceilings import DISTURBED, UNSTEADY

    said = [part for part in ceiling.note.split("; ") if part.startswith((DISTURBED, UNSTEADY))]
    return "".join(f"; {part}" for part in said)


_SAME_CLOCK = 1.02


def _clocks(machine: Machine) -> list[str]:
    """Return the clock sustained with each instruction set, by number of threads; one for all that agree.

    Of one that does not always have the same, the range: full units of 512 bits slow some processors down.
    """
    lines = []
    for count in sorted({one.threads for one in machine.ceilings}):
        of_isa: dict[str, list[float]] = {}
        for one in machine.ceilings:
            if one.kind == "compute" and one.threads == count and one.clock_hz is not None:
                of_isa.setdefault(one.isa, []).append(one.clock_hz)
        every = [hz for found in of_isa.values() for hz in found]
        threads = f"{count} thread{'s' if count > 1 else ''}"
        if every and max(every) < _SAME_CLOCK * min(every):
            clock = units.hertz(statistics.median(every))
            lines.append(f"clock while computing, {threads}: {clock} with every instruction set")
        elif every:
            each = ", ".join(f"{isa} {_range(found)}" for isa, found in of_isa.items())
            lines.append(f"clock while computing, {threads}: {each}")
    return lines


def _range(clocks: Sequence[float]) -> str:
    """Return one clock for those that agree, or the lowest and the highest."""
    low, high = min(clocks), max(clocks)
    if high < _SAME_CLOCK * low:
        return units.hertz(statistics.median(clocks))
    return f"{units.hertz(low)} to {units.hertz(high)}"


def _access(machine: Machine) -> list[str]:
    """Return what the sweep and the other ways to memory showed."""
    from ..ceiling_access import saturation
    from ..report.legend import ceiling_text

    lines = []
    for found in machine.capacities:
        nominal = next((cache.bytes for cache in machine.caches if cache.name == found.level), None)
        if found.bytes is None:
            lines.append(f"{found.level} holds: unknown, {found.reason}")
            continue
        of = "" if nominal is None else f" of {units.binary_bytes(nominal)}"
        latency = units.seconds(found.seconds)
        lines.append(f"{found.level} holds {units.binary_bytes(found.bytes)}{of}, {latency} a load")
    if machine.access:
        lines.append("other ways to memory, which are no ceilings:")
        lines += [f"  {ceiling_text(one)}" + (f"; {one.note}" if one.note else "") for one in machine.access]
    for name in dict.fromkeys(one.name for one in machine.ceilings if one.level == "dram"):
        reached = saturation(machine, name)
        if reached is not None:
            enough, most = reached
            grows = f"grows up to {most} threads, all that were tried"
            lines.append(
                f"{name} {grows if enough == most else f'is saturated by {enough} of {most} threads'}"
            )
    return lines
