"""Other tools' output as results: one module a tool, and here which of them a file is for.

Every number keeps the status ``imported`` and names what said it. What a file does not say is unavailable
with the reason; what it says in two ways that disagree is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ..errors import BadInput
from ..machine.model import Machine
from ..results import Results
from ..wording import one_of, suggest
from .imported import Options

KINDS = {
    "perf-stat": "perf stat, as text, with -x (CSV) or -j (JSON)",
    "likwid": "likwid-perfctr, as text or with -O (CSV)",
    "likwid-marker": "the raw file of LIKWID's marker API",
    "ncu": "Nsight Compute, --csv, with --page raw or without",
    "carm": "CARM's benchmarks.jsonl or applications.jsonl",
}
"""Kinds of file and what makes them; the modules have the same names, with underscores."""

LARGEST = 512 * 2**20
"""Bytes of a file beyond which it is no output of these tools."""


def read(path: Path, kind: str | None = None, options: Options | None = None) -> tuple[Results, ...]:
    """Return what another tool's file says: one run for each machine or device in it.

    Parameters
    ----------
    path
        The file.
    kind
        One of :data:`KINDS`; by default it is recognised.
    options
        What the user knows of it beside.

    Raises
    ------
    BadInput
        If the file cannot be read, is of no known kind, says nothing that could be used, or says something in
        two ways that disagree.
    """
    options = options or Options()
    text = _text(path)
    module = _module(kind) if kind is not None else _recognised(path, text)
    found: Sequence[Results] = module.read(text, path, options)
    return tuple(_on(results, options.machine) for results in found)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput(f"{path} has {path.stat().st_size} bytes; expected the output of a tool")
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    for encoding in ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise BadInput(f"{path} is not text; expected {one_of(KINDS.values())}")


def _module(kind: str) -> ModuleType:
    if kind not in KINDS:
        raise BadInput(f"unknown kind {kind!r}{suggest(kind, KINDS)}; expected {one_of(KINDS)}")
    return importlib.import_module(f"{__name__}.{kind.replace('-', '_')}")


def _recognised(path: Path, text: str) -> ModuleType:
    if not text.strip():
        raise BadInput(f"{path} is empty; expected {one_of(KINDS.values())}")
    for kind in KINDS:
        module = _module(kind)
        if module.recognises(text):
            return module
    raise BadInput(
        f"{path} is of no kind that can be imported; expected {one_of(KINDS.values())}; if it is one of "
        f"them, name it with --kind ({', '.join(KINDS)})"
    )


def _on(results: Results, machine: Machine | None) -> Results:
    """Return the results held against the ceilings of a machine that the user named."""
    from .imported import placed

    if machine is None:
        return results
    note = f"imported, and held against the ceilings of {machine.name}, which the file does not name"
    kernels = tuple(placed(kernel, machine.ceilings) for kernel in results.kernels)
    described = replace(machine, notes=(*results.machine.notes, *machine.notes, note))
    return replace(results, machine=described, kernels=kernels)
