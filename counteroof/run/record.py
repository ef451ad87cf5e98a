"""The record a worker leaves when it dies.

The record is a file that the worker maps and its signal handler fills (``csrc/run/faults.c``). Reading it is
the parent's work: the worker's memory cannot be trusted any more.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..native import ffi, lib

RECORD = "record"
LAYOUT = "layout.json"


class Recorder:
    """The worker's side: notes what is going on, and has its death recorded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with open(folder / RECORD, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), ffi.sizeof("struct run_record"))
        self._record = ffi.cast("struct run_record *", ffi.from_buffer(self._map))

    def install(self) -> None:
        """Put the recorder in front of all other handlers of deadly signals."""
        if lib.run_faults_install(self._record):
            raise OSError("the signal handlers of the worker cannot be installed")

    def note(self, phase: str, detail: str = "") -> None:
        """Write down what comes next."""
        _put(self._record.phase, phase)
        _put(self._record.detail, detail)

    def layout(self, library: str, regions: Sequence[dict[str, Any]]) -> None:
        """Write down which library it is, and where the arrays lie."""
        (self._folder / LAYOUT).write_text(json.dumps({"library": library, "regions": regions}))


def _put(field: Any, text: str) -> None:
    data = text.encode()[: ffi.sizeof(field) - 1] + b"\0"
    ffi.memmove(field, data, len(data))


def make_record(folder: Path) -> None:
    """Make the file that :class:`Recorder` maps."""
    with open(folder / RECORD, "wb") as file:
        file.truncate(ffi.sizeof("struct run_record"))


@dataclass(frozen=True)
class Mapped:
    """One line of ``/proc/self/maps``."""

    start: int
    end: int
    executable: bool
    offset: int
    path: str


@dataclass(frozen=True)
class Death:
    """What the record says. ``signal`` is 0 if no signal was seen."""

    phase: str
    detail: str
    signal: int
    code: int
    address: int
    instruction: int
    stack_pointer: int
    access: str
    stack: tuple[int, ...]
    maps: tuple[Mapped, ...]
    library: str
    regions: tuple[dict[str, Any], ...]


def read_phase(folder: Path) -> str:
    """Return what the worker of this folder is doing now."""
    with open(folder / RECORD, "rb") as file:
        return file.read(ffi.sizeof("char[64]")).partition(b"\0")[0].decode(errors="replace")


def read_record(folder: Path) -> Death:
    """Return what the worker of this folder left behind."""
    data = (folder / RECORD).read_bytes()
    record = ffi.new("struct run_record *")
    ffi.memmove(record, data, min(len(data), ffi.sizeof("struct run_record")))
    words = min(record.stack_words, len(record.stack))
    text = ffi.buffer(record.maps)[: min(record.maps_bytes, ffi.sizeof(record.maps))].decode(errors="replace")
    try:
        layout = json.loads((folder / LAYOUT).read_text())
    except (OSError, ValueError):  # it died before there were arrays
        layout = {"library": "", "regions": []}
    return Death(
        ffi.string(record.phase).decode(errors="replace"),
        ffi.string(record.detail).decode(errors="replace"),
        record.signal,
        record.code,
        record.address,
        record.instruction,
        record.stack_pointer,
        ("", "read", "write", "execute")[record.access & 3],
        tuple(record.stack[i] for i in range(words)),
        tuple(filter(None, map(_mapped, text.splitlines()))),
        layout["library"],
        tuple(layout["regions"]),
    )


def _mapped(line: str) -> Mapped | None:
    match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+\s*(.*)", line)
    if not match:
        return None
    low, high, mode, offset, path = match.groups()
    return Mapped(int(low, 16), int(high, 16), mode[2] == "x", int(offset, 16), path)
