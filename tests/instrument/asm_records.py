"""A block's accesses twice: as the engine derives them from its records, and as single steps show them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from iced_x86 import Instruction, InstructionInfoFactory

from counteroof.instrument.engine import Engine
from counteroof.native import ffi, lib
from tests.instrument.asm_native import Block, epilogue, native_run, prologue
from tests.instrument.asm_oracle import Access, Surroundings, accesses
from tests.instrument.asm_steps import Steps

ROOM = 200_000
ARCH_GET_FS, ARCH_GET_GS, SYS_ARCH_PRCTL = 0x1003, 0x1004, 158


def surroundings() -> Surroundings:
    """Return those of this thread; to be called before an engine runs."""
    bases = []
    for which in (ARCH_GET_FS, ARCH_GET_GS):
        base = ctypes.c_uint64()
        ctypes.CDLL(None).syscall(SYS_ARCH_PRCTL, which, ctypes.byref(base))
        bases.append(base.value)
    return Surroundings(bases[0], bases[1], lib.instrument_xsave_size())


def recorded(engine: Engine, block: Block, image: bytes) -> list[Access]:
    """Return the accesses of a block's random code as the engine's consumer derives them from records."""
    engine.forget()
    room = ffi.new("struct instrument_touch[]", ROOM)
    engine.drain()
    lib.instrument_trace(room, ROOM)
    native_run(block, image, entry=engine.entry(block.entry), signals=False)
    engine.drain()
    count = lib.instrument_traced()
    assert count <= ROOM
    before, after = (_count(code) for code in (prologue(), epilogue(block.arena.state)))
    found = [(touch.address, touch.bytes, touch.kind) for touch in room[0:count]]
    lib.instrument_trace(ffi.NULL, 0)
    return found[before : len(found) - after]


def _count(code: Sequence[Instruction]) -> int:
    info = InstructionInfoFactory()
    return sum(len(info.info(instruction).used_memory()) for instruction in code)


def expected(steps: Steps, around: Surroundings) -> list[Access]:
    return [access for step in steps.steps for access in accesses(step, around)]


def blame(steps: Steps, around: Surroundings, got: list[Access]) -> str:
    """Return the first instruction whose accesses differ."""
    at = 0
    for step in steps.steps:
        wanted = accesses(step, around)
        if got[at : at + len(wanted)] != wanted:
            return f"{step.instruction}: expected {wanted}, got {got[at : at + max(1, len(wanted))]}"
        at += len(wanted)
    return f"{len(got) - at} accesses too many"
