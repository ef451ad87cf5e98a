"""The machine file, ``counteroof.machine/2``: ceilings measured once, kept until the machine changes.

History of the format:

1. First version.
2. Bandwidths of caches count the bytes that cross the boundary above the cache, both ways. A sweep
   over sizes, the capacities it found, and other ways of access may be there or not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__, jsonio
from ..errors import BadInput, MachineFileError, Problem
from ..files import cache_directory
from . import tlb
from .model import CacheLevel, Ceiling, Machine

SCHEMA = "counteroof.machine/2"
NEVER = "not measured yet"
MEASUREMENT = 3
"""Number of what is measured and how, beside the loops; kept ceilings of another number are measured again.

1. With trials of the orders of loads and stores, and walks of 2048 and 4096 lines.
2. All orders throughout, short samples over the whole time, walks of 2560 and more lines.
3. Memory and shared caches on the smallest pages as well.
"""
_LEVELS = ("dram", "l3", "l2", "l1")


@dataclass(frozen=True)
class Record:
    """A machine file: the machine, and what measured it."""

    counteroof: str
    kernel: str
    """Release of the kernel that ran while the ceilings were measured."""
    machine: Machine
    measurement: str = "1"
    """What :func:`measurement` said then."""


def record(machine: Machine) -> Record:
    """Return ``machine`` as measured by this version under this kernel."""
    return Record(__version__, platform.release(), machine, measurement())


def measurement() -> str:
    """Return what tells measurements of this program from those of another, whatever its version says."""
    from .loops import table

    loops = hashlib.sha256(repr([dataclasses.astuple(one)[1:] for one in table()]).encode()).hexdigest()
    return f"{MEASUREMENT}-{loops[:8]}"


def to_json(one: Record) -> dict[str, Any]:
    """Return a record as it stands in the file."""
    return {"schema": SCHEMA, **jsonio.to_json(one)}


def from_json(data: object, where: str) -> Record:
    """Return the record in ``data``.

    Raises
    ------
    MachineFileError
        With all mistakes and their paths.
    """
    if not isinstance(data, dict):
        raise MachineFileError([Problem(where, jsonio.shown(data), "an object")])
    if data.get("schema") != SCHEMA:
        found = jsonio.shown(data["schema"]) if "schema" in data else "nothing"
        expected = f'"{SCHEMA}", as counteroof machine --out FILE writes it'
        raise MachineFileError([Problem(f"{where}: schema", found, expected)])
    problems: list[Problem] = []
    body = {key: value for key, value in data.items() if key != "schema"}
    one = jsonio.from_json(Record, body, "", problems)
    if one is not None:
        problems = machine_problems(one.machine, "machine")
    if one is None or problems:
        raise MachineFileError([dataclasses.replace(p, where=f"{where}: {p.where}") for p in problems])
    return one


def machine_problems(machine: Machine, where: str) -> list[Problem]:
    """Return what is of the right type and yet cannot be."""
    problems = []
    if machine.logical_cpus is not None and machine.logical_cpus < 1:
        problems.append(Problem(f"{where}.logical_cpus", str(machine.logical_cpus), "at least 1"))
    if not machine.caches:
        problems.append(Problem(f"{where}.caches", "an empty list", "at least one cache"))
    problems += cache_problems(machine.caches, f"{where}.caches")
    problems += tlb.problems(machine.tlbs, f"{where}.tlbs")
    seen: set[tuple[str, int]] = set()
    for index, point in enumerate(machine.sweep):
        rates = (point.bytes, point.seconds, 1 if point.bytes_per_second is None else point.bytes_per_second)
        if min(rates) <= 0:
            problems.append(Problem(f"{where}.sweep[{index}]", jsonio.shown(min(rates)), "more than 0"))
    for index, one in enumerate(machine.access):
        problems += _ceiling_problems(one, f"{where}.access[{index}]")
    for index, ceiling in enumerate(machine.ceilings):
        at = f"{where}.ceilings[{index}]"
        problems += _ceiling_problems(ceiling, at)
        if (ceiling.name, ceiling.threads) in seen:
            again = f"{ceiling.name!r} with {ceiling.threads} threads again"
            problems.append(Problem(f"{at}.name", again, "one ceiling of this name and thread count"))
        seen.add((ceiling.name, ceiling.threads))
    return problems


def cache_problems(caches: tuple[CacheLevel, ...], where: str) -> list[Problem]:
    """Return what cannot be in a list of cache levels, the nearest first."""
    problems = []
    for index, cache in enumerate(caches):
        at = f"{where}[{index}]"
        if cache.name != f"L{index + 1}":
            problems.append(Problem(f"{at}.name", repr(cache.name), f"'L{index + 1}', levels in order"))
        for name in ("bytes", "ways", "line_bytes", "shared_by"):
            value = getattr(cache, name)
            if value < 1:
                problems.append(Problem(f"{at}.{name}", str(value), "at least 1"))
        if cache.line_bytes >= 1 and cache.line_bytes & (cache.line_bytes - 1):
            problems.append(Problem(f"{at}.line_bytes", str(cache.line_bytes), "a power of two"))
        elif cache.ways >= 1 and cache.line_bytes >= 1 and cache.bytes % (cache.ways * cache.line_bytes):
            expected = f"a multiple of ways x line size ({cache.ways} x {cache.line_bytes} bytes)"
            problems.append(Problem(f"{at}.bytes", str(cache.bytes), expected))
        if cache.policy.kind == "plru" and cache.ways & (cache.ways - 1):
            problems.append(Problem(f"{at}.ways", str(cache.ways), "a power of two, as tree PLRU needs"))
        sets = cache.bytes // max(cache.ways * cache.line_bytes, 1)
        if cache.policy.leaders > sets // 2:
            found = str(cache.policy.leaders)
            problems.append(Problem(f"{at}.policy.leaders", found, f"at most half of the {sets} sets"))
        if cache.slices < 1 or sets % cache.slices:
            problems.append(Problem(f"{at}.slices", str(cache.slices), f"a divisor of the {sets} sets"))
        if index and cache.line_bytes != caches[0].line_bytes:
            expected = f"{caches[0].line_bytes}, the line size of L1"
            problems.append(Problem(f"{at}.line_bytes", str(cache.line_bytes), expected))
    return problems


def _ceiling_problems(ceiling: Ceiling, where: str) -> list[Problem]:
    problems = []
    for name in ("value", "median", "threads"):
        value = getattr(ceiling, name)
        if not value > 0:
            problems.append(Problem(f"{where}.{name}", str(value), "more than 0"))
    if any(not sample > 0 for sample in ceiling.samples):
        problems.append(Problem(f"{where}.samples", str(min(ceiling.samples)), "samples of more than 0"))
    if ceiling.clock_hz is not None and not ceiling.clock_hz > 0:
        problems.append(Problem(f"{where}.clock_hz", str(ceiling.clock_hz), "more than 0, or null"))
    if ceiling.kind == "bandwidth" and ceiling.level not in _LEVELS:
        found = jsonio.shown(ceiling.level)
        problems.append(Problem(f"{where}.level", found, "one of " + ", ".join(map(repr, _LEVELS))))
    if ceiling.kind == "compute" and not ceiling.precision:
        problems.append(Problem(f"{where}.precision", jsonio.shown(ceiling.precision), "such as 'f64'"))
    return problems


def load_record(path: Path) -> Record:
    """Return the record in a machine file.

    Raises
    ------
    BadInput
        If the file cannot be read or is not JSON; as :class:`MachineFileError` with all mistakes if it is not
        what the schema asks for.
    """
    return from_json(jsonio.read_file(path, "machine file"), str(path))


def load(path: Path) -> Machine:
    """Return the machine in a machine file; raises as :func:`load_record` does."""
    return load_record(path).machine


def save(machine: Machine, path: Path) -> None:
    """Write a machine file, which holds either its old content or all of the new."""
    jsonio.write_file(path, to_json(record(machine)))


# ---- the user's cache ----


def cache_file(machine: Machine) -> Path:
    """Return where the ceilings of this machine are kept; machines that share a home do not share a file."""
    caches = [(one.name, one.bytes, one.ways) for one in machine.caches]
    key = repr((machine.cpu, machine.logical_cpus, caches, machine.hypervisor))
    return cache_directory() / f"machine-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def staleness(kept: Record, machine: Machine) -> tuple[str, ...]:
    """Return why ceilings kept in a file do not hold for ``machine`` as it is now; nothing if they do."""
    then, now = kept.machine, machine

    def geometry(one: Machine) -> str:
        return ", ".join(f"{c.name} {c.bytes} B {c.ways} ways shared by {c.shared_by}" for c in one.caches)

    facts = (
        ("processor", then.cpu, now.cpu),
        ("caches", geometry(then), geometry(now)),
        ("number of processors", str(then.logical_cpus), str(now.logical_cpus)),
        ("hypervisor", str(then.hypervisor), str(now.hypervisor)),
        ("kernel", kept.kernel, platform.release()),
        ("counteroof", kept.counteroof, __version__),
        ("way of measuring", kept.measurement, measurement()),
    )
    return tuple(f"{what}: {old} then, {new} now" for what, old, new in facts if old != new)


def cached(machine: Machine) -> tuple[Machine | None, tuple[str, ...]]:
    """Return ``machine`` with the ceilings kept for it, or ``None`` and why there are none that hold."""
    try:
        path = cache_file(machine)
        if not path.exists():
            return None, (NEVER,)
        kept = load_record(path)
    except BadInput as error:
        return None, (f"the kept ceilings cannot be used: {error}",)
    except OSError as error:  # the folder is somebody else's
        return None, (f"the kept ceilings cannot be used: {error.filename}: {error.strerror}",)
    reasons = staleness(kept, machine)
    if reasons or not kept.machine.ceilings:
        return None, reasons or ("the kept file has no ceilings",)
    then = kept.machine
    kept_fields = ("ceilings", "measured", "sweep", "capacities", "access")
    return dataclasses.replace(machine, **{name: getattr(then, name) for name in kept_fields}), ()
