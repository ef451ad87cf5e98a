"""What the record of a death means: the signal, how far from which array, in which function."""

from __future__ import annotations

import platform
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import BadInput
from .arrays import GUARD
from .plan import ELEMENT_TYPES
from .record import Death, Mapped

NEAR = 1 << 30
"""Bytes up to which a stray address is told as a distance from an array."""
STACK_REACH = 1 << 24
"""Bytes below the stack's end that its overflow may touch."""

_FPE = {
    1: "integer division by zero, or a quotient that does not fit",
    2: "integer overflow",
    3: "floating-point division by zero",
    4: "floating-point overflow",
    5: "floating-point underflow",
    6: "inexact floating-point result",
    7: "invalid floating-point operation",
}
"""What si_code says of SIGFPE."""
_SI_KERNEL = 0x80
_DID = {"read": "read", "write": "wrote", "execute": "executed"}


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
        return "crash", f"{signal_name(number)}{hint}"
    kind, what = "crash", ""
    if number == signal.SIGSEGV or (number == signal.SIGBUS and death.address):
        kind, what = _explain_address(death)
    elif number == signal.SIGFPE and death.code > 0:
        what = _FPE.get(death.code, "arithmetic error")
    elif number == signal.SIGILL:
        what = "an instruction this processor does not have, or a trap the compiler put in"
    elif number == signal.SIGABRT:
        what = "abort(), or a check of the C library that failed"
    place = location(death)
    return kind, signal_name(number) + (f": {what}" if what else "") + (f", {place}" if place else "")


def _explain_address(death: Death) -> tuple[str, str]:
    address, did = death.address, _DID.get(death.access, "accessed")
    if death.code == _SI_KERNEL:  # the processor reports no address for these
        return "crash", "an address no process can have, or an operand not aligned as its instruction needs"
    if death.code <= 0:
        return "crash", "sent by a process"
    for region in death.regions:
        if region["start"] <= address < region["start"] + region["bytes"]:
            return _inside(region, address, did)
    neighbours = [_beside(region, address) for region in death.regions]
    guarded = [where for _, where, in_guard in neighbours if in_guard]
    if guarded:
        return "out-of-bounds", f"{did} {guarded[0]}"
    if address < 1 << 16:
        return "crash", f"{did} address {address:#x}: a null pointer"
    stack = next((mapped for mapped in death.maps if mapped.path == "[stack]"), None)
    below_stack = stack is not None and stack.start - STACK_REACH <= address < stack.start
    if below_stack and abs(death.stack_pointer - address) < STACK_REACH:
        return "crash", "the stack overflowed (endless recursion, or large local arrays)"
    file = _find(death.maps, address)
    if file is not None:
        may = {"read": "read", "write": "written", "execute": "executed"}.get(death.access, "used so")
        return "crash", f"{did} address {address:#x}, in {Path(file.path).name}, which may not be {may} there"
    near = min(neighbours, default=None)
    if near is not None and near[0] < NEAR:
        return "out-of-bounds", f"{did} {near[1]}"
    return "crash", f"{did} address {address:#x}, which is in none of the arrays"


def _inside(region: dict[str, Any], address: int, did: str) -> tuple[str, str]:
    size = ELEMENT_TYPES[region["dtype"]][2] if region["dtype"] else 1
    what = f"{did} element {(address - region['start']) // size} of {region['name']}"
    if region["access"] == "read" and did != "read":
        return "out-of-bounds", (
            f'{what}, which is declared access = "read"; '
            'declare it "update" if the kernel is meant to change it'
        )
    return "crash", what


def _beside(region: dict[str, Any], address: int) -> tuple[int, str, bool]:
    """Return how far an address is from an array, that in words, and whether it is in one of its guards."""
    end = region["start"] + region["bytes"]
    size = f"{region['bytes']} bytes" + (f" of {region['dtype']}" if region["dtype"] else "")
    low, high = region["first_page"] - GUARD, region["first_page"] + region["page_bytes"] + GUARD
    if address < end:
        distance, side, word = region["start"] - address, "before the start", "before it"
    else:
        distance, side, word = address - end, "past the end", "beyond it"
    just = "just " if distance <= 64 else ""
    where = f"{just}{side} of {region['name']} ({size}), {distance} bytes {word}"
    return distance, where, low <= address < high


def location(death: Death) -> str:
    """Say in which function it happened and, if that is not the library's, which of the library called it."""
    here = _find(death.maps, death.instruction)
    text = f"in {_function(death, here, death.instruction)}" if here else ""
    if here and here.path == death.library:
        return text
    callers = [
        (mapped, word)
        for word in death.stack
        if (mapped := _find(death.maps, word))
        and mapped.path == death.library
        and _follows_call(mapped, word)
    ]
    if not callers:
        ours = here is not None and Path(here.path).name.startswith(("python", "libpython", "_native"))
        if ours and death.signal == signal.SIGXCPU:  # asked where it was: what counts was at work
            return ""
        return f"{text} (not in the kernel: did it overwrite memory that is not its own?)" if ours else text
    # The start of a function may be where a call before it that never returns would have returned to, or an
    # address that an earlier call left on the stack; that of the kernel itself is what it was called by.
    plain = [caller for caller in callers if not _starts_function(death, *caller)]
    ends = [
        (mapped, word)
        for mapped, word in callers
        if _symbol(mapped.path, _offset(death, mapped, word)) != death.detail
    ]
    mapped, word = (plain or ends or callers)[0]
    called = f"called from {_function(death, mapped, word - 1)}"
    return f"{text}, {called}" if text else called


def _find(maps: Sequence[Mapped], address: int) -> Mapped | None:
    return next((one for one in maps if one.start <= address < one.end and one.path[:1] == "/"), None)


def _follows_call(mapped: Mapped, address: int) -> bool:
    """Whether a call instruction ends at an address, so that a word on the stack is where a function returns
    to.

    The stack also holds what earlier calls left there, such as the addresses of functions.
    """
    try:
        with open(mapped.path, "rb") as file:
            file.seek(address - mapped.start + mapped.offset - 8)
            before = file.read(8)
    except (OSError, ValueError):
        return False
    if len(before) < 8:
        return False
    if platform.machine() == "aarch64":  # bl, blr
        word = int.from_bytes(before[4:], "little")
        return word >> 26 == 0x25 or word & 0xFFFFFC1F == 0xD63F0000
    # call rel32, or call r/m64: FF /2 with a register, an 8-bit or a 32-bit displacement, with and without
    # SIB
    indirect = (before[-size] == 0xFF and before[1 - size] >> 3 & 7 == 2 for size in (2, 3, 4, 6, 7))
    return before[-5] == 0xE8 or any(indirect)


def _starts_function(death: Death, mapped: Mapped, address: int) -> bool:
    offset = _offset(death, mapped, address)
    return _symbol(mapped.path, offset) != _symbol(mapped.path, offset - 1)


def _symbol(path: str, offset: int) -> str | None:
    from ..library import address_to_symbol

    try:
        return address_to_symbol(path, offset)
    except (BadInput, OSError):  # the file is gone, or nothing that can be read
        return None


def _offset(death: Death, mapped: Mapped, address: int) -> int:
    """Return an address as an offset from where its library was loaded."""
    of_file = [one for one in death.maps if one.path == mapped.path]
    first = min((one.start for one in of_file if one.offset == 0), default=None)
    return address - (min(one.start - one.offset for one in of_file) if first is None else first)


def _function(death: Death, mapped: Mapped, address: int) -> str:
    """Return function, library and source line of an address, as far as they are known."""
    from ..library import source_line

    offset = _offset(death, mapped, address)
    symbol = _symbol(mapped.path, offset)
    try:
        line = source_line(mapped.path, offset)
    except (BadInput, OSError):
        line = None
    told = f"{symbol or f'{offset:#x}'} of {Path(mapped.path).name}"
    return f"{told} at {Path(line[0]).name}:{line[1]}" if line else told
