"""Original code to basic blocks: what each instruction touches, and how it moves the registers addresses are
made of.

A block ends with the first instruction that may leave the straight line. Nothing here emits code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import iced_x86 as ix
from iced_x86 import FlowControl, Mnemonic, OpAccess, OpKind, Register

if TYPE_CHECKING:
    from iced_x86 import MemorySize_, Register_

LOAD, STORE, NON_TEMPORAL, PREFETCH, FLUSH, UPDATE = range(6)
"""Access kinds, as the cache model numbers them."""

PLAIN, MASKED, COMPRESSED, GATHERED, STRING, BIT_STRING, LINE, TABLE = range(8)
"""Access forms, as ``csrc/instrument/instrument.h`` numbers them."""

FS, GS = 1, 2
RSP = 4
NO_REGISTER = -1
STATUS_FLAGS = 0x3F  # OF SF ZF AF CF PF in iced-x86's RflagsBits
MAX_INSTRUCTIONS = 400
CODE_WINDOW = 512

_FULL = [-1] * (1 + max(value for value in vars(Register).values() if isinstance(value, int)))
for _name, _value in vars(Register).items():
    if isinstance(_value, int) and _name.isupper():
        _whole = ix.RegisterExt.full_register(cast("Register_", _value))
        if Register.RAX <= _whole <= Register.R15:
            _FULL[_value] = _whole - Register.RAX
GPR_NUMBER: tuple[int, ...] = tuple(_FULL)
"""From an iced-x86 register to the number of its 64-bit register, or -1."""


def _mnemonics(*prefixes: str) -> frozenset[int]:
    return frozenset(
        value
        for name, value in vars(Mnemonic).items()
        if isinstance(value, int) and name.isupper() and name.startswith(prefixes)
    )


NON_TEMPORAL_STORES = _mnemonics("MOVNT", "VMOVNT", "MASKMOV", "VMASKMOVDQU") - _mnemonics(
    "MOVNTDQA", "VMOVNTDQA"
)
PREFETCHES = _mnemonics("PREFETCH")
FLUSHES = _mnemonics("CLFLUSH", "CLWB", "CLDEMOTE")
COMPRESS = _mnemonics("VPCOMPRESS", "VCOMPRESS", "VPEXPAND", "VEXPAND")
WHOLE_OPERAND = _mnemonics(
    "VPERM",
    "VSHUF",
    "VPSHUFB",
    "VPSHUFD",
    "VPSHUFHW",
    "VPSHUFLW",
    "VALIGN",
    "VPALIGN",
    "VPUNPCK",
    "VUNPCK",
    "VPACK",
    "VINSERT",
    "VMOVDDUP",
    "VMOVSHDUP",
    "VMOVSLDUP",
    "VDBPSADBW",
    "VPMULTISHIFT",
    "VGF2P8AFFINE",
    "VPMADDUBSW",
    "VPMADDWD",
    "VPCONFLICT",
    "VCVTNE2PS2BF16",
    "V4F",
    "VP4DPWSSD",
) - {Mnemonic.VPSHUFBITQMB}
"""The mask of these selects elements of the result, which are not those of the memory operand: all of it is
read. (Intel SDM volume 2, exception classes E4NF and E6NF; a processor shows it by its page faults.)"""
SHIFTS = _mnemonics("VPSLL", "VPSRA", "VPSRL") - _mnemonics("VPSLLV", "VPSRAV", "VPSRLV")
"""The same, where the memory operand is the count."""
REPEATED = _mnemonics("VBROADCAST", "VPBROADCAST")
VECTOR_MASKED = _mnemonics("VMASKMOVP", "VPMASKMOV")
BYTE_MASKED = _mnemonics("MASKMOV", "VMASKMOVDQU")
BIT_STRINGS = frozenset((Mnemonic.BT, Mnemonic.BTS, Mnemonic.BTR, Mnemonic.BTC))
STATE_SAVES = _mnemonics("XSAVE", "XRSTOR")
NEITHER = (OpAccess.NONE, OpAccess.NO_MEM_ACCESS)
READS_AND_WRITES = (OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
WRITES = (OpAccess.WRITE, OpAccess.COND_WRITE, *READS_AND_WRITES)
_SIZES = [
    ix.MemorySizeExt.size(cast("MemorySize_", value))
    for value in range(1 + max(value for value in vars(ix.MemorySize).values() if isinstance(value, int)))
]
_SCALES = {1: 0, 2: 1, 4: 2, 8: 3}
_SEGMENTS = {Register.FS: FS, Register.GS: GS}


@dataclass(slots=True)  # frozen ones take ten times as long to make, and libraries have tens of thousands
class Access:
    """One memory access, its address as a sum over registers (numbers, -1 for none) at this instruction."""

    base: int
    index: int
    scale: int
    displacement: int
    bytes: int
    kind: int
    form: int = PLAIN
    lanes: int = 0
    mask: int = 0
    """Masked and gathered: an iced-x86 opmask or vector register; 0 for none."""
    mask_bytes: int = 0
    vector: int = 0
    """Gathered: the iced-x86 register with the indices. Bit strings: the number of the register that tells
    the bit, counted from the operand's first one to either side."""
    index_bytes: int = 0
    address32: bool = False
    broadcast: int = 0
    """Masked: the elements in memory, if the lanes repeat them."""
    segment: int = 0
    """FS or GS, as numbered below; 0 for a segment whose base is zero."""


@dataclass(slots=True)
class Step:
    """What one instruction does to one 64-bit register: ``constant + sum(coefficient * register)``, or
    unknown."""

    register: int
    known: bool
    constant: int = 0
    terms: tuple[tuple[int, int], ...] = ()
    narrow: int | None = None
    """A 32-bit addition of this constant to itself: good for counting, not for addresses."""


@dataclass(slots=True)
class Encoding:
    """What translation needs to know of an instruction, wherever it stands."""

    code: bytes
    """Its bytes; of a direct branch those of one of its form."""
    used: int
    """Bit mask of the 64-bit registers it names, read or written."""
    accesses: tuple[Access, ...]
    steps: tuple[Step, ...]
    op_mask: int
    """The opmask register that governs it; 0 if none does."""
    masks_written: frozenset[int]
    """The opmask registers it changes."""
    words: int
    """As many words of a record it may need."""
    movable: bool
    """Whether its bytes do the same elsewhere and under another GS base."""
    ends: bool
    """Whether it ends a block."""


@dataclass(slots=True)
class Block:
    """A straight line of code; ``closed`` if its last instruction leaves it."""

    address: int
    code: bytes = b""
    instructions: list[ix.Instruction] = field(default_factory=list)
    body: list[Encoding] = field(default_factory=list)
    """What is known of each instruction."""
    offsets: list[int] = field(default_factory=list)
    """Of each instruction, from the start of the block."""
    closed: bool = False
    bad: str | None = None
    """Why decoding stopped, where it did."""
    readable: bool = True
    """Whether there was a whole instruction where decoding stopped."""

    @property
    def next_address(self) -> int:
        """Return the address after the last instruction."""
        return self.address + len(self.code)


class Reader:
    """Decodes blocks; keeps what it learnt of each distinct instruction encoding."""

    def __init__(self, read: object, xsave_bytes: int) -> None:
        self._read = read
        self._xsave_bytes = xsave_bytes
        self._info = ix.InstructionInfoFactory()
        self._known: dict[bytes, Encoding] = {}
        self._branches: dict[int, Encoding] = {}
        self._rest = Block(0)

    def cut(self, block: Block, count: int) -> Block:
        """Return a block of a block's first ``count`` instructions; the others are kept for the one they
        begin."""
        size = block.offsets[count]
        instructions, body, offsets = block.instructions, block.body, block.offsets
        self._rest = replace(
            block,
            address=block.address + size,
            code=block.code[size:],
            instructions=instructions[count:],
            body=body[count:],
            offsets=[offset - size for offset in offsets[count:]],
        )
        return Block(block.address, block.code[:size], instructions[:count], body[:count], offsets[:count])

    def block(self, address: int) -> Block:
        """Return the block that starts at ``address``."""
        rest = self._rest
        if rest.body and rest.address == address:
            self._rest = Block(0)
            if self._read(address, len(rest.code)) == rest.code:  # type: ignore[operator]
                return rest
        block = Block(address)
        instructions, body, offsets = block.instructions, block.body, block.offsets
        known_by_code = self._known
        code, at, read_at = self._code(address), 0, 0
        decoder = ix.Decoder(64, code, ip=address)
        while True:
            instruction = decoder.decode()
            end = at + instruction.len
            known = known_by_code.get(code[at:end])
            if known is None:
                if instruction.is_invalid:
                    ip = address + at
                    if at == read_at:
                        block.code = code[:at]
                        block.bad = self._why(ip, code[at:])
                        block.readable = decoder.last_error != ix.DecoderError.NO_MORE_BYTES
                        return block
                    more = self._code(ip)  # perhaps only the window ended
                    code, read_at = code[:at] + more, at
                    decoder = ix.Decoder(64, more, ip=ip)
                    continue
                refused = _refused(instruction)
                if refused:
                    block.code = code[:at]
                    block.bad = f"{instruction:g} at {block.next_address:#x}, which {refused}"
                    return block
                known = self._learn(instruction, code[at:end])
            instructions.append(instruction)
            body.append(known)
            offsets.append(at)
            at = end
            if known.ends or len(body) >= MAX_INSTRUCTIONS:
                block.code = code[:at]
                block.closed = known.ends
                return block

    def _code(self, address: int) -> bytes:
        code: bytes = self._read(address, CODE_WINDOW)  # type: ignore[operator]
        return code

    def _why(self, ip: int, code: bytes) -> str:
        if not code:
            return f"no readable code at {ip:#x}"
        return f"unknown instruction {code[:15].hex(' ')} at {ip:#x}"

    def _learn(self, instruction: ix.Instruction, code: bytes) -> Encoding:
        """Return what is known of an instruction seen for the first time.

        What holds wherever the instruction stands is kept by its code, or where only the target of a branch
        differs, by its form.
        """
        flow = instruction.flow_control
        if flow != FlowControl.NEXT and (
            instruction.is_jcc_short_or_near or instruction.is_jmp_short_or_near or instruction.is_call_near
        ):
            form = instruction.code
            known = self._branches.get(form)
            if known is None:
                known = self._branches[form] = self._analyse(instruction, code, movable=False, ends=True)
            return known
        rip_relative = instruction.is_ip_rel_memory_operand
        movable = not (
            rip_relative or instruction.mnemonic == Mnemonic.RDGSBASE or is_relative_to_gs(instruction)
        )
        known = self._analyse(instruction, code, movable=movable, ends=_ends_block(instruction, flow))
        if not rip_relative:
            self._known[code] = known
        return known

    def _analyse(self, instruction: ix.Instruction, code: bytes, *, movable: bool, ends: bool) -> Encoding:
        info = self._info.info(instruction)
        used = written = 0
        masks: frozenset[int] = frozenset()
        for register in info.used_registers():
            name = register.register
            number = GPR_NUMBER[name]
            if number >= 0:
                used |= 1 << number
                if register.access in WRITES:
                    written |= 1 << number
            elif Register.K0 <= name <= Register.K7 and register.access in WRITES:
                masks |= {name}
        accesses = tuple(self._accesses(instruction, info))
        words = 1
        for access in accesses:
            words += 3 + _extra_words(access)
        steps = tuple(_steps(instruction, written)) if written else ()
        return Encoding(code, used, accesses, steps, instruction.op_mask, masks, words, movable, ends)

    def accesses(self, instruction: ix.Instruction) -> tuple[Access, ...]:
        """Return the memory accesses of one instruction, wherever it stands."""
        return tuple(self._accesses(instruction, self._info.info(instruction)))

    def flow(self, instruction: ix.Instruction) -> tuple[tuple[Access, ...], tuple[Step, ...]]:
        """Return its accesses, and what it does to the registers addresses are made of."""
        known = self._analyse(instruction, b"", movable=False, ends=False)
        return known.accesses, known.steps

    def _accesses(self, instruction: ix.Instruction, info: ix.InstructionInfo) -> list[Access]:
        mnemonic = instruction.mnemonic
        if mnemonic in PREFETCHES or mnemonic in FLUSHES:
            kind = PREFETCH if mnemonic in PREFETCHES else FLUSH
            return [_operand_access(instruction, 1, kind)]
        if mnemonic == Mnemonic.CLZERO:
            return [Access(0, -1, 0, 0, 64, NON_TEMPORAL, LINE)]
        if instruction.is_string_instruction and (instruction.has_rep_prefix or instruction.has_repne_prefix):
            return _string_accesses(instruction, info)
        found = []
        for memory in info.used_memory():
            how = memory.access
            if how not in NEITHER:
                found.append(self._access(instruction, mnemonic, memory, how))
        if len(found) > 1:
            found.sort(key=lambda access: access.kind in (STORE, NON_TEMPORAL))  # what is read comes first
        return found

    def _access(self, instruction: ix.Instruction, mnemonic: int, memory: ix.UsedMemory, how: int) -> Access:
        size = _SIZES[memory.memory_size]
        if size == 0:
            size = self._xsave_bytes if mnemonic in STATE_SAVES else 1
        kind = LOAD
        if how in WRITES:
            kind = UPDATE if how in READS_AND_WRITES else STORE
            if mnemonic in NON_TEMPORAL_STORES:
                kind = NON_TEMPORAL
        base, index = memory.base, memory.index
        form, lanes, mask, mask_bytes, broadcast, vector, index_bytes = PLAIN, 0, 0, 0, 0, 0, 0
        if memory.vsib_size:
            form, vector, index_bytes = GATHERED, index, memory.vsib_size
            mask, mask_bytes, lanes = _gather_lanes(instruction, memory, size)
        elif mnemonic in VECTOR_MASKED:
            element = 8 if mnemonic in (Mnemonic.VMASKMOVPD, Mnemonic.VPMASKMOVQ) else 4
            form, lanes, size, mask_bytes = MASKED, size // element, element, element
            mask = instruction.op1_register
        elif mnemonic in BYTE_MASKED:
            form, lanes, size, mask, mask_bytes = MASKED, size, 1, instruction.op_register(2), 1
        elif mnemonic in BIT_STRINGS and instruction.op1_kind == OpKind.REGISTER:
            form, vector, index_bytes = BIT_STRING, GPR_NUMBER[instruction.op1_register], size
        elif mnemonic == Mnemonic.XLATB:
            form = TABLE
        elif instruction.op_mask != Register.NONE and not _reads_whole(instruction, kind):
            mask = instruction.op_mask
            form = COMPRESSED if mnemonic in COMPRESS else MASKED
            lanes, size, broadcast = _lanes(instruction, memory, size)
        return Access(
            GPR_NUMBER[base],
            GPR_NUMBER[index],
            _SCALES[memory.scale],
            _signed(memory.displacement),
            size,
            kind,
            form,
            lanes,
            mask,
            mask_bytes,
            vector,
            index_bytes,
            memory.address_size == ix.CodeSize.CODE32,
            broadcast,
            _SEGMENTS.get(memory.segment, 0),
        )


def _extra_words(access: Access) -> int:
    """Return the words of a record an access may need beside those of its registers."""
    if access.form == GATHERED:
        return 18
    return 8 if access.mask_bytes else 0


def _signed(displacement: int) -> int:
    return displacement - (1 << 64) if displacement >= 1 << 63 else displacement


def _reads_whole(instruction: ix.Instruction, kind: int) -> bool:
    """Tell whether an instruction accesses all of its memory operand, whatever its mask."""
    mnemonic = instruction.mnemonic
    return kind == LOAD and (
        mnemonic in WHOLE_OPERAND
        or (mnemonic in SHIFTS and instruction.op_count == 3 and instruction.op2_kind == OpKind.MEMORY)
    )


def _lanes(instruction: ix.Instruction, memory: ix.UsedMemory, size: int) -> tuple[int, int, int]:
    """Return lanes, bytes of an element, and how many elements the lanes repeat (0: every lane has its
    own)."""
    operand = ix.OpCodeInfo(instruction.code)
    element = ix.MemorySizeExt.element_size(memory.memory_size) or size
    if operand.can_broadcast:  # tells the lanes of a dot product from the smaller numbers they are made of
        element = ix.MemorySizeExt.size(operand.broadcast_memory_size)
    if instruction.is_broadcast:
        return ix.MemorySizeExt.size(operand.memory_size) // element, element, 1
    if instruction.mnemonic in REPEATED:
        return ix.RegisterExt.size(instruction.op0_register) // element, element, max(1, size // element)
    return max(1, size // element), min(element, size), 0


def is_relative_to_gs(instruction: ix.Instruction) -> bool:
    """Tell whether an instruction accesses memory by the program's GS base, which is not in GS."""
    return bool(
        instruction.segment_prefix == Register.GS
        and instruction.mnemonic not in (Mnemonic.LEA, Mnemonic.NOP)
        and any(instruction.op_kind(i) == OpKind.MEMORY for i in range(instruction.op_count))
    )


def _refused(instruction: ix.Instruction) -> str | None:
    """Return why the engine cannot run an instruction, or ``None``."""
    mnemonic = instruction.mnemonic
    if mnemonic in _TO_SEGMENTS:
        if instruction.op0_register in (Register.FS, Register.GS):
            return "loads a segment register that the engine needs"
    elif mnemonic == Mnemonic.WRFSBASE:
        return "sets the FS base, which the engine needs"
    if instruction.segment_prefix == Register.GS:
        if any(instruction.op_kind(i) in _IMPLICIT_OPERANDS for i in range(instruction.op_count)):
            return "is a string instruction relative to GS"
        narrow = any(
            register != Register.NONE and ix.RegisterExt.size(register) == 4
            for register in (instruction.memory_base, instruction.memory_index)
        )
        if is_relative_to_gs(instruction) and (narrow or mnemonic == Mnemonic.XLATB):
            return "is relative to GS in a way the engine does not know"
    return None


_TO_SEGMENTS = frozenset((Mnemonic.MOV, Mnemonic.POP, Mnemonic.LFS, Mnemonic.LGS))
_IMPLICIT_OPERANDS = frozenset(
    getattr(OpKind, name) for name in dir(OpKind) if name.startswith("MEMORY_") and name != "MEMORY"
)


def _ends_block(instruction: ix.Instruction, flow: int) -> bool:
    """Tell whether control may go elsewhere, or the engine has to look at what happens."""
    if flow == FlowControl.NEXT:
        return bool(instruction.mnemonic == Mnemonic.WRGSBASE)
    if flow == FlowControl.CALL:
        return bool(
            instruction.is_call_near or instruction.is_call_far or instruction.mnemonic == Mnemonic.SYSCALL
        )
    if flow == FlowControl.XBEGIN_XABORT_XEND:
        return bool(instruction.mnemonic == Mnemonic.XBEGIN)
    return True


def _operand_access(instruction: ix.Instruction, size: int, kind: int) -> Access:
    """Return the access of an operand that iced-x86 does not count as one: of a prefetch or flush."""
    base, index = instruction.memory_base, instruction.memory_index
    segment = _SEGMENTS.get(instruction.memory_segment, 0)
    if base in (Register.RIP, Register.EIP):
        return Access(-1, -1, 0, instruction.ip_rel_memory_address, size, kind, segment=segment)
    narrow = any(ix.RegisterExt.size(register) == 4 for register in (base, index))
    return Access(
        GPR_NUMBER[base] if base != Register.NONE else -1,
        GPR_NUMBER[index] if index != Register.NONE else -1,
        _SCALES[instruction.memory_index_scale],
        _signed(instruction.memory_displacement),
        size,
        kind,
        address32=narrow or instruction.memory_displ_size == 4,
        segment=segment,
    )


def _gather_lanes(instruction: ix.Instruction, memory: ix.UsedMemory, size: int) -> tuple[int, int, int]:
    """Return mask, bytes of a lane of the mask (0: it is an opmask) and lanes."""
    if instruction.op_mask != Register.NONE:
        mask, mask_bytes = instruction.op_mask, 0
        data = (
            instruction.op0_register if instruction.op0_kind == OpKind.REGISTER else instruction.op1_register
        )
    else:
        mask, mask_bytes, data = instruction.op_register(2), size, instruction.op0_register
    lanes = ix.RegisterExt.size(memory.index) // memory.vsib_size
    if Register.XMM0 <= data <= Register.ZMM31:
        lanes = min(lanes, ix.RegisterExt.size(data) // size)
    return mask, mask_bytes, lanes


def _string_accesses(instruction: ix.Instruction, info: ix.InstructionInfo) -> list[Access]:
    """Return the streams of a repeated string instruction; the pointers afterwards give length and
    direction."""
    found = []
    for memory in info.used_memory():
        kind = STORE if memory.access in WRITES else LOAD
        size = ix.MemorySizeExt.size(
            instruction.memory_size
        )  # of one element; that of the whole is not known
        narrow = memory.address_size == ix.CodeSize.CODE32
        segment = _SEGMENTS.get(memory.segment, 0)
        base = GPR_NUMBER[memory.base]
        found.append(Access(base, -1, 0, 0, size, kind, STRING, address32=narrow, segment=segment))
    found.sort(key=lambda access: access.kind)  # what is copied is read before it is written
    return found


def _steps(instruction: ix.Instruction, written: int) -> list[Step]:
    known = _known_step(instruction)
    steps = [known] if known else []
    unknown = written & ~(1 << known.register) if known else written
    if unknown & 1 << RSP and instruction.mnemonic in _STACK and instruction.op0_register != Register.RSP:
        steps.append(Step(RSP, True, instruction.stack_pointer_increment, ((RSP, 1),)))
        unknown &= ~(1 << RSP)
    while unknown:
        steps.append(_UNKNOWN[(unknown & -unknown).bit_length() - 1])
        unknown &= unknown - 1
    return steps


_UNKNOWN = [Step(number, False) for number in range(16)]


_STACK = frozenset(
    (Mnemonic.PUSH, Mnemonic.POP, Mnemonic.PUSHFQ, Mnemonic.POPFQ, Mnemonic.CALL, Mnemonic.RET)
)


def _known_step(instruction: ix.Instruction) -> Step | None:
    """Return the effect of additions, copies and ``lea`` on 64-bit registers, and of 32-bit additions of
    constants."""
    mnemonic = instruction.mnemonic
    if mnemonic not in _ADDITIVE or instruction.op0_kind != OpKind.REGISTER:
        return None
    target = instruction.op0_register
    number = GPR_NUMBER[target]
    wide = Register.RAX <= target <= Register.R15
    if number < 0 or not (wide or Register.EAX <= target <= Register.R15D):
        return None
    if mnemonic in (Mnemonic.INC, Mnemonic.DEC):
        constant = 1 if mnemonic == Mnemonic.INC else -1
    elif mnemonic in (Mnemonic.ADD, Mnemonic.SUB):
        sign = 1 if mnemonic == Mnemonic.ADD else -1
        if instruction.op1_kind == OpKind.REGISTER:
            other = GPR_NUMBER[instruction.op1_register]
            if not wide or other == number:
                return None
            return Step(number, True, 0, ((number, 1), (other, sign)))
        if instruction.op1_kind == OpKind.MEMORY:
            return None
        constant = instruction.immediate(1)
        if constant >= 1 << 63:
            constant -= 1 << 64
        if not wide:
            constant = (constant + (1 << 31)) % (1 << 32) - (1 << 31)
        constant *= sign
    elif mnemonic == Mnemonic.MOV:
        if not wide or instruction.op1_kind != OpKind.REGISTER:
            return None
        source = GPR_NUMBER[instruction.op1_register]
        return Step(number, True, 0, ((source, 1),)) if source >= 0 else None
    else:  # lea
        base, index = instruction.memory_base, instruction.memory_index
        if (
            not wide
            or base == Register.RIP
            or ix.RegisterExt.size(base if base != Register.NONE else index) != 8
        ):
            return None
        terms: dict[int, int] = {}
        if base != Register.NONE:
            terms[GPR_NUMBER[base]] = 1
        if index != Register.NONE:
            terms[GPR_NUMBER[index]] = terms.get(GPR_NUMBER[index], 0) + instruction.memory_index_scale
        displacement = instruction.memory_displacement
        if displacement >= 1 << 63:
            displacement -= 1 << 64
        return Step(number, True, displacement, tuple(terms.items()))
    if not wide:
        return Step(number, False, narrow=constant)
    return Step(number, True, constant, ((number, 1),))


_ADDITIVE = frozenset((Mnemonic.ADD, Mnemonic.SUB, Mnemonic.INC, Mnemonic.DEC, Mnemonic.MOV, Mnemonic.LEA))


def flags_dead_at_entry(instructions: Sequence[ix.Instruction]) -> bool:
    """Tell whether instructions overwrite all status flags before anything can read them."""
    written = 0
    for instruction in instructions:
        if instruction.rflags_read & ~written & STATUS_FLAGS:
            return False
        if instruction.flow_control not in (FlowControl.NEXT, FlowControl.CONDITIONAL_BRANCH):
            return False
        # What the manual leaves undefined a processor may keep as it was, and a shift by a count of zero
        # keeps all.
        if instruction.mnemonic not in _MAY_KEEP_FLAGS:
            written |= instruction.rflags_written | instruction.rflags_cleared | instruction.rflags_set
        if written == STATUS_FLAGS:
            return True
    return False


_MAY_KEEP_FLAGS = frozenset(
    (
        Mnemonic.SHL,
        Mnemonic.SAL,
        Mnemonic.SHR,
        Mnemonic.SAR,
        Mnemonic.ROL,
        Mnemonic.ROR,
        Mnemonic.RCL,
        Mnemonic.RCR,
        Mnemonic.SHLD,
        Mnemonic.SHRD,
    )
) | _mnemonics("CMPS", "SCAS", "BSF", "BSR")
