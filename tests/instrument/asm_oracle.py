"""What an instruction accesses, worked out from the registers it starts with: the truth for records.

Shares no code with the engine: addresses are added up from the registers' values, active elements come from
the values of masks.
"""

from __future__ import annotations

from dataclasses import dataclass

from iced_x86 import (
    CodeSize,
    Instruction,
    InstructionInfoFactory,
    MemorySizeExt,
    OpAccess,
    OpCodeInfo,
    OpKind,
    Register,
    RegisterExt,
    UsedMemory,
)

from tests.instrument.asm_codes import MNEMONICS
from tests.instrument.asm_image import GPRS
from tests.instrument.asm_steps import Registers, Step

LOAD, STORE, NON_TEMPORAL, PREFETCH, FLUSH, UPDATE = range(6)

Access = tuple[int, int, int]
"""Address, bytes, kind."""

_INFO = InstructionInfoFactory()
_WRITES = (OpAccess.WRITE, OpAccess.COND_WRITE)
_UPDATES = (OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)


@dataclass(frozen=True)
class Surroundings:
    """What is not in the registers: bases of segments, and bytes of the state that xsave saves."""

    fs_base: int
    gs_base: int
    state_bytes: int


def accesses(step: Step, around: Surroundings) -> list[Access]:
    """Return the accesses of one step, in order: what is read comes before what is written."""
    instruction, registers = step.instruction, step.registers
    name = MNEMONICS[instruction.mnemonic]
    if name.startswith(("PREFETCH", "CLFLUSH", "CLWB", "CLDEMOTE")):
        kind = PREFETCH if name.startswith("PREFETCH") else FLUSH
        return [(_address(instruction, registers, around), 1, kind)]
    if name == "CLZERO":
        return [(registers.gpr[0] & ~63, 64, NON_TEMPORAL)]
    if instruction.has_rep_prefix or instruction.has_repne_prefix:
        width = instruction.is_string_instruction and _counter_bits(instruction)
        if width and not registers.gpr[1] & (1 << width) - 1:
            return []
    found: list[Access] = []
    for memory in _INFO.info(instruction).used_memory():
        if memory.access not in (OpAccess.NONE, OpAccess.NO_MEM_ACCESS):
            found += _operand(instruction, name, memory, registers, around)
    return sorted(found, key=lambda access: access[2] in (STORE, NON_TEMPORAL))


def _counter_bits(instruction: Instruction) -> int:
    kinds = {instruction.op_kind(i) for i in range(instruction.op_count)}
    return 32 if kinds & {OpKind.MEMORY_SEG_ESI, OpKind.MEMORY_ESEDI} else 64


def _kind(name: str, access: int) -> int:
    if access in _UPDATES:
        return UPDATE
    if access not in _WRITES:
        return LOAD
    non_temporal = name.startswith(("MOVNT", "VMOVNT", "MASKMOV", "VMASKMOVDQU"))
    return NON_TEMPORAL if non_temporal else STORE


def _operand(
    instruction: Instruction, name: str, memory: UsedMemory, registers: Registers, around: Surroundings
) -> list[Access]:
    kind = _kind(name, memory.access)
    size = MemorySizeExt.size(memory.memory_size)
    if instruction.is_string_instruction:
        size = MemorySizeExt.size(instruction.memory_size)  # of one element, repeated or not
    if size == 0:
        size = around.state_bytes if name.startswith(("XSAVE", "XRSTOR")) else 1

    start = _sum(memory, 0, registers, around)
    if memory.vsib_size:
        lanes = RegisterExt.size(memory.index) // memory.vsib_size
        active = _gather_mask(instruction, size, registers)
        data = instruction.op0_register or instruction.op1_register
        lanes = min(lanes, RegisterExt.size(data) // size)
        active &= (1 << lanes) - 1
        return [(_sum(memory, i, registers, around), size, kind) for i in range(lanes) if active >> i & 1]
    if name.startswith(("VMASKMOVP", "VPMASKMOV")):
        element = 8 if name.endswith(("PD", "Q")) else 4
        vector = bytes(registers.vectors[instruction.op1_register - _first(instruction.op1_register)])
        active = _sign_bits(vector, element, size // element)
        return _runs(start, active, element, kind)
    if name in ("MASKMOVQ", "MASKMOVDQU", "VMASKMOVDQU"):
        mask = instruction.op_register(2)
        if name == "MASKMOVQ":
            vector = bytes(registers.mmx[mask - Register.MM0])
        else:
            vector = bytes(registers.vectors[mask - Register.XMM0])
        return _runs(start, _sign_bits(vector, 1, size), 1, kind)
    if name in ("BT", "BTS", "BTR", "BTC") and instruction.op1_kind == OpKind.REGISTER:
        bit = _value(instruction.op1_register, 0, size, registers, around)
        bit -= (bit >> 8 * size - 1) << 8 * size
        return [(start + (bit >> (8 * size).bit_length() - 1) * size & 2**64 - 1, size, kind)]
    if instruction.op_mask != Register.NONE and _by_element(instruction, name):
        mask = registers.masks[instruction.op_mask - Register.K0]
        element = MemorySizeExt.element_size(memory.memory_size) or size
        if name in ("VPMULDQ", "VPMULUDQ"):
            element = 8
        elif name in ("VPDPBUSD", "VPDPBUSDS", "VPDPWSSD", "VPDPWSSDS"):
            element = 4
        if instruction.is_broadcast or "BROADCAST" in name:
            whole = RegisterExt.size(instruction.op0_register)
            if instruction.is_broadcast:
                element = size
                whole = MemorySizeExt.size(OpCodeInfo(instruction.code).memory_size)  # as if it were not one
            lanes = whole // element
            mask = sum(1 << i for i in range(size // element) if _any_lane(mask, i, size // element, lanes))
        mask &= (1 << size // element) - 1
        if name.startswith(("VPCOMPRESS", "VCOMPRESS", "VPEXPAND", "VEXPAND")):
            mask = (1 << mask.bit_count()) - 1
        return _runs(start, mask, element, kind)
    return [(start, size, kind)]


def _sum(memory: UsedMemory, lane: int, registers: Registers, around: Surroundings) -> int:
    """Return the address of a memory operand, or of one lane's element of it."""
    total = memory.displacement
    if memory.base != Register.NONE:
        total += _value(memory.base, 0, 8, registers, around)
    if memory.index != Register.NONE:
        total += _value(memory.index, lane, memory.vsib_size, registers, around) * memory.scale
    total &= 2**32 - 1 if memory.address_size == CodeSize.CODE32 else 2**64 - 1
    return total + _value(memory.segment, 0, 8, registers, around) & 2**64 - 1


_WHOLE = (
    "VALIGN VPALIGNR VPERM VPSHUFB VPSHUFD VPSHUFHW VPSHUFLW VSHUF VPUNPCK VUNPCK VPACK VINSERT VMOVDDUP "
    "VMOVSHDUP VMOVSLDUP VDBPSADBW VPMULTISHIFT VGF2P8AFFINE VPMADDUBSW VPMADDWD VPCONFLICT VCVTNE2PS2BF16"
)


def _by_element(instruction: Instruction, name: str) -> bool:
    """Return whether the mask selects elements of the memory operand, so that the others are not accessed.

    What a processor does is looked up by its page faults, see ``test_accesses.py``.
    """
    if name in ("VPSLLD", "VPSLLQ", "VPSLLW", "VPSRAD", "VPSRAQ", "VPSRAW", "VPSRLD", "VPSRLQ", "VPSRLW"):
        return instruction.op_kind(2) != OpKind.MEMORY  # else it is the count
    return name == "VPSHUFBITQMB" or not name.startswith(tuple(_WHOLE.split()))


def _any_lane(mask: int, element: int, elements: int, lanes: int) -> bool:
    """Return whether any of the lanes that repeat an element is active."""
    return any(mask >> lane & 1 for lane in range(element, lanes, elements))


def _runs(start: int, mask: int, element: int, kind: int) -> list[Access]:
    """Return active elements that lie side by side as one access."""
    found = []
    lane = 0
    while mask >> lane:
        length = 0
        while mask >> lane + length & 1:
            length += 1
        if length:
            found.append((start + lane * element, length * element, kind))
        lane += length + 1
    return found


def _sign_bits(vector: bytes, element: int, lanes: int) -> int:
    return sum((vector[(i + 1) * element - 1] >> 7) << i for i in range(lanes))


def _gather_mask(instruction: Instruction, size: int, registers: Registers) -> int:
    if instruction.op_mask != Register.NONE:
        return int(registers.masks[instruction.op_mask - Register.K0])
    mask = instruction.op_register(2)
    vector = bytes(registers.vectors[mask - _first(mask)])
    return _sign_bits(vector, size, RegisterExt.size(mask) // size)


def _first(register: int) -> int:
    return {16: Register.XMM0, 32: Register.YMM0, 64: Register.ZMM0}[RegisterExt.size(register)]


def _value(
    register: int, element: int, element_bytes: int, registers: Registers, around: Surroundings
) -> int:
    """Return a register's value for iced-x86; of a vector register one element, sign-extended."""
    if RegisterExt.is_segment_register(register):
        return {Register.FS: around.fs_base, Register.GS: around.gs_base}.get(register, 0)
    full = RegisterExt.full_register(register)
    if full in GPRS:
        value = registers.gpr[GPRS.index(full)]
        if register in (Register.AH, Register.CH, Register.DH, Register.BH):
            return value >> 8 & 0xFF
        return value & (1 << 8 * RegisterExt.size(register)) - 1
    vector = bytes(registers.vectors[register - _first(register)])
    raw = vector[element * element_bytes : (element + 1) * element_bytes]
    return int.from_bytes(raw, "little", signed=True) & 2**64 - 1


def _address(instruction: Instruction, registers: Registers, around: Surroundings) -> int:
    """Return the address of the operand in memory that an instruction names, from its encoding alone."""
    total = instruction.memory_displacement  # of a RIP-relative operand this is the target
    base, index = instruction.memory_base, instruction.memory_index
    if base not in (Register.NONE, Register.RIP, Register.EIP):
        total += _value(base, 0, 8, registers, around)
    if index != Register.NONE:
        total += _value(index, 0, 8, registers, around) * instruction.memory_index_scale
    narrow = any(RegisterExt.size(r) == 4 for r in (base, index)) or instruction.memory_displ_size == 4
    total &= 2**32 - 1 if narrow else 2**64 - 1
    return total + _value(instruction.memory_segment, 0, 8, registers, around) & 2**64 - 1
