"""The record a worker leaves when it dies, and what it means in words.

The record is a file that the worker maps and its signal handler fills (``csrc/run/faults.c``). Reading it is the
parent's work: the worker's memory cannot be trusted any more.
"""

from __future__ import annotations

import json
import mmap
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..native import ffi, lib
from .arrays import GUARD
from .plan import ELEMENT_TYPES

RECORD = "record"
LAYOUT = "layout.json"
NEAR = 1 << 30
"""Bytes up to which a stray address is told as a distance from an array."""

_FPE = {1: "integer division by zero or its result does not fit", 2: "integer overflow"}
_FPE |= {3: "floating-point division by zero", 4: "floating-point overflow", 5: "floating-point underflow"}
_FPE |= {6: "inexact floating-point result", 7: "invalid floating-point operation"}


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


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def explain(death: Death, number: int) -> tuple[str, str]:
    """Return the kind of failure and its description, for a process ended by signal ``number``."""
    if death.signal != number:  # a library put its own handler in front, or the signal cannot be caught
        hint = " (out of memory?)" if number == signal.SIGKILL else ""
        return "crash", f"killed by {signal_name(number)}{hint}"
    kind, what = "crash", ""
    if number == signal.SIGSEGV or (number == signal.SIGBUS and death.address):
        kind, what = _explain_address(death)
    elif number == signal.SIGFPE and death.code > 0:
        what = _FPE.get(death.code, "arithmetic error")
    elif number == signal.SIGILL:
        what = "an instruction this processor does not have, or a trap the compiler put in"
    elif number == signal.SIGABRT:
        what = "abort() or a failed check of the C library"
    place = location(death)
    return kind, f"{signal_name(number)}" + (f": {what}" if what else "") + (f", {place}" if place else "")


def _explain_address(death: Death) -> tuple[str, str]:
    address, did = death.address, {"read": "read", "write": "wrote", "execute": "executed"}.get(death.access, "accessed")
    if death.code == 0x80:  # SI_KERNEL: the processor reports no address for these
        return "crash", "an address no process can have, or an operand that is not aligned as its instruction needs"
    if death.code <= 0:
        return "crash", "sent by a process"
    for region in death.regions:
        start, end = region["start"], region["start"] + region["bytes"]
        if start <= address < end:
            size = ELEMENT_TYPES[region["dtype"]][2] if region["dtype"] else 1
            if region["access"] == "read" and death.access != "read":
                return "out-of-bounds", (
                    f"{did} element {(address - start) // size} of {region['name']}, which is declared access = "
                    '"read"; declare it "update" if the kernel is meant to change it'
                )
            return "crash", f"{did} element {(address - start) // size} of {region['name']}"
    best: tuple[int, str] | None = None
    for region in death.regions:
        start, end = region["start"], region["start"] + region["bytes"]
        distance, side = (start - address, "before the start") if address < start else (address - end, "past the end")
        inside = region["first_page"] - GUARD <= address < region["first_page"] + region["page_bytes"] + GUARD
        size = f"{region['bytes']} bytes" + (f" of {region['dtype']}" if region["dtype"] else "")
        where = f"{'just ' if distance <= 64 else ''}{side} of {region['name']} ({size}), {_beyond(distance, side)}"
        if inside:
            return "out-of-bounds", f"{did} {where}"
        if distance < NEAR and (best is None or distance < best[0]):
            best = distance, where
    if address < 1 << 16:
        return "crash", f"{did} address {address:#x}: a null pointer"
    stack = next((mapped for mapped in death.maps if mapped.path == "[stack]"), None)
    if stack and stack.start - (1 << 24) <= address < stack.start and abs(death.stack_pointer - address) < 1 << 20:
        return "crash", "the stack overflowed (endless recursion, or large local arrays)"
    if best:
        return "out-of-bounds", f"{did} {best[1]}"
    return "crash", f"{did} address {address:#x}, which is in none of the arrays"


def _beyond(distance: int, side: str) -> str:
    return f"{distance} bytes beyond" if side == "past the end" else f"{distance} bytes before"


def location(death: Death) -> str:
    """Say in which function it happened and, if that is not the kernel's library, which function of it called."""
    here = _find(death.maps, death.instruction)
    text = f"in {_function(death, here, death.instruction)}" if here else ""
    if here and here.path == death.library:
        return text
    for word in death.stack:
        caller = _find(death.maps, word)
        if caller and caller.executable and caller.path == death.library:
            called = f"called from {_function(death, caller, word - 1)}"
            return f"{text}, {called}" if text else called
    return text


def _find(maps: Sequence[Mapped], address: int) -> Mapped | None:
    return next((one for one in maps if one.start <= address < one.end and one.path[:1] == "/"), None)


def _function(death: Death, mapped: Mapped, address: int) -> str:
    """Return function, library and source line of an address, as far as they are known."""
    from ..library import address_to_symbol, source_line

    of_file = [one for one in death.maps if one.path == mapped.path]
    base = min((one.start for one in of_file if one.offset == 0), default=min(one.start - one.offset for one in of_file))
    symbol = address_to_symbol(mapped.path, address - base)
    line = source_line(mapped.path, address - base)
    told = [symbol or f"{address - base:#x}", "of", Path(mapped.path).name]
    if line:
        told += ["at", f"{Path(line[0]).name}:{line[1]}"]
    return " ".join(told)
