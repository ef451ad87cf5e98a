"""What the source lines of a kernel did, as rows of texts: the table of ``--detail lines``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from .. import units
from ..names import demangle
from ..results import KernelResult, SourceLine

HEADINGS = ("DRAM read", "DRAM written", "of bytes", "FLOPs", "of FLOPs", "instructions", "where", "source")
NUMERIC = 6
"""The first columns are numbers."""
TOP = 10
"""Lines of a kernel that a table shows; the rest are put together in its last row."""


def rows(kernel: KernelResult, top: int = TOP) -> list[tuple[str, ...]]:
    """Return one row for each of the lines with most DRAM bytes, and one for all others together.

    The columns are :data:`HEADINGS`. Among lines of equal bytes those with more FLOPs come first, then those
    with more instructions.
    """
    if not kernel.lines:
        return []
    ordered = sorted(kernel.lines, key=lambda one: (-(one.dram_bytes or 0), -(one.flops or 0)))
    shown, left = ordered[:top], ordered[top:]
    readable = demangle(one.symbol for one in shown if one.symbol)
    found = [
        (*_numbers([one], kernel.lines), _where(one, readable), source_text(one.file, one.line) or "")
        for one in shown
    ]
    if left:
        found.append((*_numbers(left, kernel.lines), f"{len(left)} more line{'s' * (len(left) > 1)}", ""))
    return found


def _numbers(some: Sequence[SourceLine], every: Sequence[SourceLine]) -> tuple[str, ...]:
    moved, flops = (_sum(some, name) for name in ("dram_bytes", "flops"))
    return (
        units.byte_count(_sum(some, "dram_read_bytes")),
        units.byte_count(_sum(some, "dram_write_bytes")),
        _share(moved, _sum(every, "dram_bytes")),
        units.count(flops),
        _share(flops, _sum(every, "flops")),
        units.count(_sum(some, "instructions")),
    )


def _sum(lines: Sequence[SourceLine], name: str) -> int | None:
    values = [getattr(one, name) for one in lines]
    return None if None in values else sum(values)


def _share(part: int | None, whole: int | None) -> str:
    return units.percent(part / whole) if part is not None and whole else units.MISSING


def _where(one: SourceLine, readable: dict[str, str]) -> str:
    """Return file and line; without a line the function and its library."""
    name = Path(one.file).name
    if one.line is not None:
        return f"{name}:{one.line}"
    return f"{readable[one.symbol]} ({name})" if one.symbol else name


def source_text(file: str, line: int | None) -> str | None:
    """Return a line of a source file, as far as the file can be read now."""
    lines = _source(file) if line is not None else ()
    return lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else None


@lru_cache(maxsize=64)
def _source(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text(errors="replace").splitlines())
    except (OSError, ValueError):  # a name that no file can have is a ValueError
        return ()
