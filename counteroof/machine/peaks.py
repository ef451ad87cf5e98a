"""What ``--peak-file FILE`` takes: ceilings that somebody else states, such as those of a datasheet.

They are drawn beside the measured ones and nothing is held against them. The file is TOML, or JSON with the
same keys::

    name = "datasheet"            # who says so, in front of each ceiling's name

    [[ceiling]]
    gb_per_s = 460.8              # bandwidth of memory, decimal gigabytes
    threads = 96                  # the pictures of kernels with so many threads show it

    [[ceiling]]
    gflop_per_s = 5376
    precision = "f64"
    threads = 96
    isa = "AVX-512"               # may be left out
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .. import jsonio
from ..errors import MachineFileError, Problem
from ..spec import PRECISIONS
from .file import read_table
from .model import NOT_MEASURED, Ceiling

EXPECTED = "a TOML file with a name and [[ceiling]] entries of gb_per_s or gflop_per_s"
_TOP_KEYS = ("name", "ceiling")
_KEYS = ("gb_per_s", "gflop_per_s", "precision", "threads", "isa")


def load(path: Path) -> tuple[Ceiling, ...]:
    """Return the ceilings that a file states, each a :attr:`~.Ceiling.peak`.

    Raises
    ------
    BadInput
        If the file cannot be read, as :class:`MachineFileError` with all mistakes if it has some.
    """
    return from_data(read_table(path, "peak file", EXPECTED), str(path))


def from_data(data: object, where: str) -> tuple[Ceiling, ...]:
    """Return the ceilings in ``data``; raises as :func:`load` does."""
    if not isinstance(data, dict):
        raise MachineFileError([Problem(where, jsonio.shown(data), "an object")])
    problems = _unknown(data, _TOP_KEYS, where)
    name = data.get("name")
    if not isinstance(name, str) or not name.strip():
        found = jsonio.shown(name) if "name" in data else "nothing"
        problems.append(Problem(f"{where}: name", found, "who states the ceilings, such as 'datasheet'"))
    entries = data.get("ceiling")
    if not isinstance(entries, list) or not entries:
        found = jsonio.shown(entries) if "ceiling" in data else "nothing"
        problems.append(Problem(f"{where}: ceiling", found, "a list of ceilings ([[ceiling]] in TOML)"))
        entries = []
    ceilings: list[Ceiling] = []
    for index, entry in enumerate(entries):
        at = f"{where}: ceiling[{index}]"
        mistakes, one = _ceiling(entry, str(name), at)
        problems += mistakes
        if one is None:
            continue
        if any((one.name, one.threads) == (other.name, other.threads) for other in ceilings):
            again = f"{one.name} with {one.threads} threads again"
            problems.append(Problem(at, again, "each ceiling once"))
        ceilings.append(one)
    if problems:
        raise MachineFileError(problems)
    return tuple(ceilings)


def _ceiling(entry: object, source: str, where: str) -> tuple[list[Problem], Ceiling | None]:
    """Return the mistakes of one entry, and without any the ceiling."""
    if not isinstance(entry, dict):
        return [Problem(where, jsonio.shown(entry), "a table")], None
    problems = _unknown(entry, _KEYS, where)
    keys = [key for key in ("gb_per_s", "gflop_per_s") if key in entry]
    if len(keys) != 1:
        problems.append(Problem(where, " and ".join(keys) or "no value", "one of gb_per_s, gflop_per_s"))
        return problems, None
    (key,) = keys
    value, precision = entry[key], entry.get("precision")
    threads: Any = entry.get("threads")
    isa = entry.get("isa", "")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        problems.append(Problem(f"{where}.{key}", jsonio.shown(value), "a number above 0"))
    if type(threads) is not int or threads < 1:
        found = jsonio.shown(threads) if "threads" in entry else "nothing"
        problems.append(Problem(f"{where}.threads", found, "how many threads reach it, at least 1"))
    if not isinstance(isa, str):
        problems.append(Problem(f"{where}.isa", jsonio.shown(isa), "a string"))
    compute = key == "gflop_per_s"
    if compute and precision not in PRECISIONS:
        found = jsonio.shown(precision) if "precision" in entry else "nothing"
        problems.append(Problem(f"{where}.precision", found, "one of " + ", ".join(PRECISIONS)))
    if not compute and "precision" in entry:
        problems.append(Problem(f"{where}.precision", jsonio.shown(precision), "none for a bandwidth"))
    if problems:
        return problems, None
    what = " ".join(part for part in (precision, isa) if part) if compute else "DRAM"
    rate = float(value) * 1e9
    return [], Ceiling(
        name=f"{source} {what}",
        kind="compute" if compute else "bandwidth",
        value=rate,
        median=rate,
        samples=(rate,),
        threads=threads,
        isa=isa,
        level=None if compute else "dram",
        precision=precision,
        clock_source=NOT_MEASURED,
        note=f"stated by {source}, {NOT_MEASURED}",
    )


def _unknown(entry: dict[str, Any], known: tuple[str, ...], where: str) -> list[Problem]:
    expected = "one of " + ", ".join(known)
    return [Problem(f"{where}.{key}", "a key nobody knows", expected) for key in entry if key not in known]
