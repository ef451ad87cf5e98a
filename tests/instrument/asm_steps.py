"""Runs a block one instruction at a time: which instructions run, and the registers before each."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iced_x86 import Decoder, Instruction

from tests.instrument.asm_image import FLAGS
from tests.instrument.asm_native import Block, compiled

TRAP_FLAG = 0x100
ROOM = 6000


class Registers(ctypes.Structure):
    """The registers before an instruction; vectors and masks as far as the processor has them."""

    _fields_ = (
        ("rip", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("gpr", ctypes.c_uint64 * 16),
        ("masks", ctypes.c_uint64 * 8),
        ("vectors", (ctypes.c_uint8 * 64) * 32),
        ("mmx", (ctypes.c_uint8 * 16) * 8),
    )


@dataclass(frozen=True)
class Step:
    """An instruction about to run; one iteration of a repeated string instruction."""

    instruction: Instruction
    registers: Registers


@dataclass(frozen=True)
class Steps:
    """A run in steps, from the block's start to where it leaves; ``fault`` is the signal that ended it, or 0.

    A run that faults ends with the instruction that does.
    """

    steps: tuple[Step, ...]
    fault: int
    image: bytes


def run_in_steps(block: Block, image: bytes) -> Steps:
    """Run a block from an image."""
    arena = block.arena
    arena.place(block)
    flags = struct.unpack_from("<Q", image, FLAGS)[0] | TRAP_FLAG
    arena.load(image[:FLAGS] + struct.pack("<Q", flags) + image[FLAGS + 8 :])
    room = _room()
    fault = ctypes.c_int()
    count = _native().asm_steps(block.entry, arena.state, block.address, room, ROOM, ctypes.byref(fault))
    known: dict[int, Instruction] = {}
    steps = []
    for i in range(count):
        rip = room[i].rip
        if block.start <= rip:
            if rip not in known:
                known[rip] = Decoder(64, block.code[rip - block.address :], ip=rip).decode()
            steps.append(Step(known[rip], room[i]))
    return Steps(tuple(steps), fault.value, arena.image())


@cache
def _room() -> ctypes.Array[Registers]:
    return (Registers * ROOM)()


@cache
def _native() -> ctypes.CDLL:
    native = compiled(Path(__file__).with_suffix(".c"))
    u64 = ctypes.c_uint64
    native.asm_steps.argtypes = [u64, u64, u64, ctypes.c_void_p, u64, ctypes.POINTER(ctypes.c_int)]
    native.asm_steps.restype = u64
    return native
