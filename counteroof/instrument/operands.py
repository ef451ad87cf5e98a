"""Instructions copied into translated code, with operands that lead where they led."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import iced_x86 as ix
from iced_x86 import Mnemonic, Register

from . import emit
from .code_cache import NEAR, Output
from .decode import is_relative_to_gs
from .record import iced_register

_WITH_BASE = {
    getattr(ix.Code, short): getattr(ix.Code, long)
    for short, long in (
        ("MOV_AL_MOFFS8", "MOV_R8_RM8"),
        ("MOV_AX_MOFFS16", "MOV_R16_RM16"),
        ("MOV_EAX_MOFFS32", "MOV_R32_RM32"),
        ("MOV_RAX_MOFFS64", "MOV_R64_RM64"),
        ("MOV_MOFFS8_AL", "MOV_RM8_R8"),
        ("MOV_MOFFS16_AX", "MOV_RM16_R16"),
        ("MOV_MOFFS32_EAX", "MOV_RM32_R32"),
        ("MOV_MOFFS64_RAX", "MOV_RM64_R64"),
    )
}
"""Of instructions with nothing but a 64-bit address, the form that takes a base."""


class Operands:
    """Writes instructions with memory operands.

    Parameters
    ----------
    layout
        Offsets from the GS base (``struct instrument_layout *``).
    """

    def __init__(self, layout: Any) -> None:
        self._at = layout
        self._encoder = ix.Encoder(64)

    def copy(self, instruction: ix.Instruction, used: int, out: Output) -> None:
        """Emit an instruction that is not movable, its operand made to point where it did; ``used`` are its
        registers."""
        if instruction.mnemonic == Mnemonic.RDGSBASE:
            wide = instruction.code == ix.Code.RDGSBASE_R64
            register = instruction.op0_register - (Register.RAX if wide else Register.EAX)
            out.add((emit.load_gs if wide else emit.load_gs_half)(register, self._at.program_gs))
            return
        if is_relative_to_gs(instruction):
            self._copy_relative_to_gs(instruction, used, out)
            return
        target = instruction.ip_rel_memory_address
        if abs(target - out.here) < NEAR:
            self._encoder.encode(instruction, out.here)
            out.add(self._encoder.take_buffer())
            return
        free = next(_unused(used))
        spill = self._at.scratch + 8
        moved = instruction.copy()
        moved.memory_base = iced_register(Register.RAX + free)
        moved.memory_displacement = 0
        moved.memory_displ_size = 0
        self._encoder.encode(moved, 0)
        start = out.borrow(free, spill)
        out.add(emit.load_immediate(free, target) + self._encoder.take_buffer())
        out.give_back(start, free, spill)

    def _copy_relative_to_gs(self, instruction: ix.Instruction, used: int, out: Output) -> None:
        """Emit an instruction with the program's GS base, and what it has for a base, in a free register."""
        unused = _unused(used)
        free, other = next(unused), next(unused)
        spills = self._at.scratch + 8, self._at.scratch + 16
        starts = [out.borrow(register, at) for register, at in zip((free, other), spills, strict=True)]
        moved = self._absolute(instruction, free, other, out)
        self._encoder.encode(moved, 0)
        out.add(self._encoder.take_buffer())
        for register, start, at in ((other, starts[1], spills[1]), (free, starts[0], spills[0])):
            out.give_back(start, register, at)

    def _absolute(self, instruction: ix.Instruction, free: int, other: int, out: Output) -> ix.Instruction:
        """Emit the sum of the program's GS base and an operand's base into a free register, for the
        instruction that is returned; ``other`` may be ``free``'s helper."""
        out.add(emit.load_gs(free, self._at.program_gs))
        moved = instruction.copy()
        moved.segment_prefix = Register.NONE
        if instruction.is_ip_rel_memory_operand:
            out.add(emit.load_immediate(other, instruction.ip_rel_memory_address) + emit.add(free, other))
            moved.memory_displacement = moved.memory_displ_size = 0
        elif instruction.memory_base != Register.NONE:
            out.add(emit.add(free, instruction.memory_base - Register.RAX))
        elif instruction.code in _WITH_BASE:
            moved.code = _WITH_BASE[instruction.code]
            out.add(emit.load_immediate(other, instruction.memory_displacement) + emit.add(free, other))
            moved.memory_displacement = moved.memory_displ_size = 0
        moved.memory_base = iced_register(Register.RAX + free)
        return moved

    def load(self, instruction: ix.Instruction, used: int, register: int, out: Output) -> None:
        """Emit a load of the operand of an indirect jump or call into a free register."""
        if is_relative_to_gs(instruction):
            other = next(number for number in _unused(used) if number != register)
            start = out.borrow(other, self._at.scratch + 8)
            instruction = self._absolute(instruction, register, other, out)
            out.give_back(start, other, self._at.scratch + 8)
        if instruction.is_ip_rel_memory_operand and abs(instruction.ip_rel_memory_address - out.here) >= NEAR:
            address = instruction.ip_rel_memory_address
            out.add(emit.load_immediate(register, address) + emit.load(register, register, 0))
            return
        load = ix.Instruction.create_reg_mem(
            ix.Code.MOV_R64_RM64, iced_register(Register.RAX + register), _memory_operand(instruction)
        )
        self._encoder.encode(load, out.here)
        out.add(self._encoder.take_buffer())


def _unused(used: int) -> Iterator[int]:
    """Yield the registers that are not among those used."""
    return (
        number for number in (15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 2, 1, 0) if not used >> number & 1
    )


def _memory_operand(instruction: ix.Instruction) -> ix.MemoryOperand:
    if instruction.is_ip_rel_memory_operand:
        return ix.MemoryOperand(Register.RIP, displ=instruction.ip_rel_memory_address, displ_size=8)
    displacement = instruction.memory_displacement
    if displacement >= 1 << 63:
        displacement -= 1 << 64
    return ix.MemoryOperand(
        instruction.memory_base,
        instruction.memory_index,
        instruction.memory_index_scale,
        displacement,
        8 if displacement else 0,
        False,
        instruction.segment_prefix,
    )
