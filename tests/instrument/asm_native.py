"""Runs random blocks natively on a complete machine state: the truth an engine is compared with.

A block is one function ``void entry(void *state)``. It loads every register from the state, runs the random
code, stores every register back and returns. So the same entry point, called with the same argument, can be
run by an instrumentation engine, and what it leaves must be equal bit by bit (see :func:`differences`).

All addresses are fixed, so a block and what it computes are the same in every process::

    code    slots of 16 KiB, executable
    state   what entry() is passed: STATE, then constants no block writes
    scratch 8 KiB that blocks read and write, an unmapped page on either side
    stack   8 KiB, an unmapped page below; blocks start 1 KiB from its top
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iced_x86 import Code, Instruction, MemoryOperand, Register

from tests.instrument.asm_assembler import Item
from tests.instrument.asm_codes import cpu_flags
from tests.instrument.asm_image import (
    CONSTANTS,
    FLAGS,
    FXSAVE,
    GPR,
    GPRS,
    HOST_FCW,
    HOST_MXCSR,
    HOST_RSP,
    IMAGE_BYTES,
    MASKS,
    SCRATCH_BYTES,
    STACK_BYTES,
    STACK_ROOM,
    STATE_BYTES,
    ZMM,
    Fault,
    Outcome,
    index_vectors,
)

PAGE = 4096
SLOT_BYTES = 16384

SAVED = (Register.RBX, Register.RBP, Register.R12, Register.R13, Register.R14, Register.R15)
"""What a function must not change, besides the stack pointer."""

LOW = 0x4000_0000
"""Below 2 GiB, so that absolute and 32-bit addresses reach the scratch area."""
HIGH = 0x6000_0000_0000


@dataclass(frozen=True)
class Block:
    """Machine code at an address, ready to be run."""

    seed: int
    arena: Arena
    code: bytes
    address: int
    """Where the code lies. The recording code comes first: there a block goes on that faults."""
    entry: int
    """The function: the loading code, then the random code."""
    start: int
    """Where the random code begins."""
    registers: tuple[tuple[int, int], ...]
    """What the code expects of registers at the start: (number, value); pointers and indices."""
    items: tuple[Item, ...]
    """What the random code was assembled from."""
    end: int
    """The label by which the items are left."""


class Arena:
    """The mapped memory blocks live in; one per address and process."""

    def __init__(self, base: int = LOW, slots: int = 1) -> None:
        code = slots * SLOT_BYTES
        self.base = base
        self.slots = slots
        self.state = base + code
        self.constants = self.state + CONSTANTS
        self.scratch = self.state + 2 * PAGE
        self.stack = self.scratch + SCRATCH_BYTES + PAGE
        self.rsp = self.stack + STACK_BYTES - STACK_ROOM
        self.guards = (self.scratch - PAGE, self.scratch + SCRATCH_BYTES)
        """Pages nothing is mapped at."""
        self._spans = (
            (base, code, True),
            (self.state, PAGE, False),
            (self.scratch, SCRATCH_BYTES, False),
            (self.stack, STACK_BYTES, False),
        )
        for start, size, executable in self._spans:
            if _native().asm_map(start, size, executable):
                raise OSError(f"{size} bytes at {start:#x} cannot be mapped: something is there already")
        ctypes.memmove(self.constants, *index_vectors())
        self._starts = (ctypes.c_uint64 * 3)(self.state, self.scratch, self.stack)
        self._sizes = (ctypes.c_uint64 * 3)(STATE_BYTES, SCRATCH_BYTES, STACK_BYTES)
        self._image = ctypes.create_string_buffer(IMAGE_BYTES)
        self._fault = (ctypes.c_uint64 * 4)()

    def close(self) -> None:
        """Unmap everything."""
        for start, size, _ in self._spans:
            _native().asm_unmap(start, size)

    def slot(self, number: int) -> int:
        """Return the address of a slot for code; numbers wrap around."""
        return self.base + number % self.slots * SLOT_BYTES

    def place(self, block: Block) -> None:
        """Copy a block's code to its address."""
        ctypes.memmove(block.address, block.code, len(block.code))

    def load(self, image: bytes) -> None:
        """Set state, scratch area and stack, for a run by other means than :func:`native_run`."""
        at = 0
        for start, size in zip(self._starts, self._sizes, strict=True):
            ctypes.memmove(start, image[at : at + size], size)
            at += size

    def image(self) -> bytes:
        """Return state, scratch area and stack as they are now."""
        spans = zip(self._starts, self._sizes, strict=True)
        return b"".join(ctypes.string_at(start, size) for start, size in spans)


def native_run(block: Block, image: bytes, *, entry: int | None = None, signals: bool = True) -> Outcome:
    """Run a block on this processor, from ``image`` (see :func:`random_image`).

    Parameters
    ----------
    entry
        Address of the function to call; that of the block itself if not given. An engine that has translated
        the block passes its translation, which has to be callable like the original.
    signals
        Whether to catch signals here. Without, an engine's own handlers stay in place; the outcome tells of a
        fault only inside :func:`recorded_signals`, and if the engine hands it on.
    """
    arena = block.arena
    arena.place(block)
    _native().asm_run(
        entry or block.entry,
        block.address,
        signals,
        arena._starts,
        arena._sizes,
        3,
        image,
        arena._image,
        arena._fault,
    )
    fault = Fault(*arena._fault) if arena._fault[0] else None
    return Outcome(arena._image.raw, fault)


@contextmanager
def recorded_signals() -> Iterator[None]:
    """Record faults of blocks as the program's own handler would; start an engine inside.

    Runs inside must not catch signals themselves.
    """
    _native().asm_catch(True)
    try:
        yield
    finally:
        _native().asm_catch(False)


# ---- the code around a block ---------------------------------------------------------------------


def _vector_moves(base: int, displacement: int, *, load: bool) -> list[Instruction]:
    """Return the moves of all vector and mask registers from or to a state."""
    if "avx512bw" in cpu_flags():
        codes = (Code.EVEX_VMOVDQU64_ZMM_K1Z_ZMMM512, Code.EVEX_VMOVDQU64_ZMMM512_K1Z_ZMM)
        first, count = Register.ZMM0, 32
    elif "avx" in cpu_flags():
        codes, first, count = (Code.VEX_VMOVDQU_YMM_YMMM256, Code.VEX_VMOVDQU_YMMM256_YMM), Register.YMM0, 16
    else:
        return []  # FXSAVE has all there is
    moves = []
    for i in range(count):
        memory = MemoryOperand(base, displ=displacement + ZMM + 64 * i, displ_size=8)
        moves.append(_move(codes, first + i, memory, load=load))
    if first == Register.ZMM0:
        masks = (Code.VEX_KMOVQ_KR_KM64, Code.VEX_KMOVQ_M64_KR)
        for i in range(8):
            memory = MemoryOperand(base, displ=displacement + MASKS + 8 * i, displ_size=8)
            moves.append(_move(masks, Register.K0 + i, memory, load=load))
    return moves


def _move(codes: tuple[int, int], register: int, memory: MemoryOperand, *, load: bool) -> Instruction:
    if load:
        return Instruction.create_reg_mem(codes[0], register, memory)
    return Instruction.create_mem_reg(codes[1], memory, register)


@cache
def prologue() -> tuple[Instruction, ...]:
    """Return the code that saves the caller's registers and loads all from the state RDI points to."""

    def at(offset: int) -> MemoryOperand:
        return MemoryOperand(Register.RDI, displ=offset, displ_size=8)

    code = [Instruction.create_reg(Code.PUSH_R64, register) for register in SAVED]
    code.append(Instruction.create_mem_reg(Code.MOV_RM64_R64, at(HOST_RSP), Register.RSP))
    code.append(Instruction.create_mem(Code.STMXCSR_M32, at(HOST_MXCSR)))
    code.append(Instruction.create_mem(Code.FNSTCW_M2BYTE, at(HOST_FCW)))
    code.append(Instruction.create_mem(Code.FXRSTOR64_M512BYTE, at(FXSAVE)))
    code += _vector_moves(Register.RDI, 0, load=True)
    code.append(Instruction.create_mem(Code.PUSH_RM64, at(FLAGS)))
    code.append(Instruction.create(Code.POPFQ))
    order = [number for number in range(16) if GPRS[number] != Register.RDI]
    order.append(GPRS.index(Register.RDI))
    code += [Instruction.create_reg_mem(Code.MOV_R64_RM64, GPRS[i], at(GPR + 8 * i)) for i in order]
    return tuple(code)


@cache
def epilogue(state: int) -> tuple[Instruction, ...]:
    """Return the code that stores all registers in the state, which it knows by address, and returns."""

    def at(offset: int) -> MemoryOperand:
        return MemoryOperand(Register.RIP, displ=state + offset, displ_size=8)

    code = [Instruction.create_mem_reg(Code.MOV_RM64_R64, at(GPR + 8 * i), GPRS[i]) for i in range(16)]
    code.append(Instruction.create_reg_mem(Code.MOV_R64_RM64, Register.RSP, at(HOST_RSP)))
    code.append(Instruction.create(Code.PUSHFQ))
    code.append(Instruction.create_mem(Code.POP_RM64, at(FLAGS)))
    code.append(Instruction.create(Code.CLD))
    code.append(Instruction.create_mem(Code.FXSAVE64_M512BYTE, at(FXSAVE)))
    code += _vector_moves(Register.RIP, state, load=False)
    code.append(Instruction.create(Code.FNINIT))
    code.append(Instruction.create_mem(Code.FLDCW_M2BYTE, at(HOST_FCW)))
    code.append(Instruction.create_mem(Code.LDMXCSR_M32, at(HOST_MXCSR)))
    if "avx" in cpu_flags():
        code.append(Instruction.create(Code.VEX_VZEROUPPER))
    code += [Instruction.create_reg(Code.POP_R64, register) for register in reversed(SAVED)]
    code.append(Instruction.create(Code.RETNQ))
    return tuple(code)


def compiled(source: Path) -> ctypes.CDLL:
    """Compile and load a C file; kept in the temporary folder by content."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"counteroof-{source.stem}-{os.getuid()}-{digest}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder) / library.name
            command = ["cc", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-o", str(built), str(source)]
            subprocess.run(command, check=True)
            staged = library.with_suffix(f".{os.getpid()}")
            staged.write_bytes(built.read_bytes())
            staged.rename(library)
    return ctypes.CDLL(str(library))


@cache
def _native() -> ctypes.CDLL:
    native = compiled(Path(__file__).with_suffix(".c"))
    u64 = ctypes.c_uint64
    pointer = ctypes.POINTER(u64)
    native.asm_map.argtypes = [u64, u64, ctypes.c_int]
    native.asm_unmap.argtypes = [u64, u64]
    native.asm_catch.argtypes = [ctypes.c_int]
    native.asm_catch.restype = None
    text = ctypes.c_char_p
    native.asm_run.argtypes = [u64, u64, ctypes.c_int, pointer, pointer, u64, text, text, pointer]
    native.asm_run.restype = None
    return native
