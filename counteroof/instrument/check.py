"""Blocks that compare their original code with what they were made from, whenever they run."""

from __future__ import annotations

from typing import Any

from . import emit
from .code_cache import Output

RCX, RDX = 1, 2


def begin_check(layout: Any, guest: int, code: bytes, out: Output) -> None:
    """Compare the original code with what it was, in pieces, without a change of flags."""
    spill = layout.spill
    starts = [(register, out.borrow(register, spill + 8 * register)) for register in (RCX, RDX)]
    done = 0
    while done < len(code):
        count = next(size for size in (8, 4, 2, 1) if done + size <= len(code))
        value = int.from_bytes(code[done : done + count], "little")
        out.add(emit.load_immediate(RDX, guest + done) + emit.load_low(RDX, count))
        out.add(emit.load_immediate(RCX, -value) + emit.add(RCX, RDX) + emit.jump_if_rcx_zero(5))
        out.add(emit.jump(0))
        out.mismatches.append(out.here - 4)
        done += count
    for register, start in starts:
        out.give_back(start, register, spill + 8 * register)


def end_check(layout: Any, guest: int, number: int, out: Output) -> None:
    """Emit where the comparison leads if it fails."""
    if not out.mismatches:
        return
    for place in out.mismatches:
        out.set_displacement(place, out.here)
    for register in (RCX, RDX):
        out.add(emit.load_gs(register, layout.spill + 8 * register))
    out.add(emit.store_gs_address(layout.target, guest) + emit.store_gs_half(layout.source, number))
    out.add(emit.jump_gs(layout.changed))
