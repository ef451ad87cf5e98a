"""Patterns of the stack, of implicit operands, and of pinned registers; and the list of all patterns.

For what a pattern is see ``asm_control.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING

from iced_x86 import Code, Instruction, MemoryOperand, OpKind, Register, RepPrefixKind

from tests.instrument import asm_control as control
from tests.instrument.asm_codes import GPR8, GPR16, GPR32, cpu_flags, indexed_plans, plans
from tests.instrument.asm_control import RAX, RBP, RBX, RCX, RDI, RDX, RSI, at
from tests.instrument.asm_image import CONSTANTS, GPRS, INDEX_VECTORS, SCRATCH_BYTES

if TYPE_CHECKING:
    from tests.instrument.asm_generator import Generator

Pattern = Callable[["Generator"], None]


def pick(rng: random.Random) -> Pattern:
    """Return a random pattern."""
    return rng.choices(_PATTERNS, cum_weights=_WEIGHTS)[0]


def scratch_address(g: Generator) -> int:
    """Return a random address in the scratch area, 1 KiB or more from its ends."""
    return g.arena.scratch + g.rng.randrange(1024, SCRATCH_BYTES - 1024)


def all_free(g: Generator, *numbers: int) -> bool:
    """Return whether none of some registers is pinned."""
    return all(number not in g.pins for number in numbers)


# ---- the stack -----------------------------------------------------------------------------------


def push_pop(g: Generator) -> None:
    """push of any kind, code, and the pop that belongs to it."""
    rng = g.rng
    way = rng.randrange(6)
    if way == 0:
        g.emit(Instruction.create_i32(Code.PUSHQ_IMM8, rng.randrange(-128, 128)))
    elif way == 1:
        g.emit(Instruction.create_i32(Code.PUSHQ_IMM32, rng.randrange(-(2**31), 2**31)))
    elif way == 2:
        instruction = Instruction()
        instruction.code = Code.PUSH_RM64
        instruction.op0_kind = OpKind.MEMORY
        g.choose_address(instruction, 8, 1, written=False)
        g.emit(instruction)
    else:
        g.rr(Code.PUSH_R64, GPRS[g.any_register()])
    with g.scope(frame=g.frame + 8):
        g.sequence(rng.randint(0, 3))
    way = rng.randrange(5)
    if way == 0:
        g.emit(Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, at(Register.RSP, 8)))
    elif way == 1:
        g.ri(Code.ADD_RM64_IMM8, Register.RSP, 8)
    elif way == 2:
        g.emit(
            Instruction.create_mem(
                Code.POP_RM64, at(GPRS[rng.choice(g.pinned("ptr"))], 8 * rng.randrange(16))
            )
        )
    else:
        g.rr(Code.POP_R64, GPRS[g.free_register()])


def push_pop_word(g: Generator) -> None:
    """16-bit pushes and pops."""
    g.rr(Code.PUSH_R16, GPR16[g.any_register()])
    g.straight(g.rng.randint(0, 1))
    g.rr(Code.POP_R16, GPR16[g.free_register()])


def flags_through_memory(g: Generator) -> None:
    """pushfq, then popfq or a pop into a register."""
    g.emit(Instruction.create(Code.PUSHFQ))
    if g.rng.random() < 0.5:
        g.rr(Code.POP_R64, GPRS[g.free_register()])
        return
    with g.scope(frame=0):
        g.sequence(g.rng.randint(0, 2))
    g.emit(Instruction.create(Code.POPFQ))


def frame(g: Generator) -> None:
    """A function's frame: rbp saved and set, room made, sometimes of a size only known then, all undone."""
    rng = g.rng
    if g.pinned("ptr") == [RBP]:
        return g.random_instruction()
    room = 8 * rng.randint(0, 32)
    if rng.random() < 0.4:
        g.emit(Instruction.create_u32_u32(Code.ENTERQ_IMM16_IMM8, room, rng.choice((0, 0, 0, 1))))
    else:
        g.rr(Code.PUSH_R64, Register.RBP)
        g.rr(Code.MOV_R64_RM64, Register.RBP, Register.RSP)
        g.ri(Code.SUB_RM64_IMM32, Register.RSP, room)
    with g.scope(frame=room, saved=RBP):
        way = rng.randrange(4)
        if way == 0:
            g.ri(Code.AND_RM64_IMM8, Register.RSP, -64)
        elif way == 1 and g.pinned("small"):
            g.rr(Code.SUB_R64_RM64, Register.RSP, GPRS[g.pinned("small")[0]])
        g.sequence(rng.randint(1, 5))
    way = rng.randrange(3)
    if way == 0:
        g.emit(Instruction.create(Code.LEAVEQ))
    else:
        if way == 1:
            g.rr(Code.MOV_R64_RM64, Register.RSP, Register.RBP)
        else:
            g.emit(Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, at(Register.RBP, 0)))
        g.rr(Code.POP_R64, Register.RBP)
    return None


def room_on_the_stack(g: Generator) -> None:
    """sub rsp, ..., add rsp."""
    room = 8 * g.rng.randint(1, 64)
    g.ri(Code.SUB_RM64_IMM32, Register.RSP, room)
    with g.scope(frame=room):
        g.sequence(g.rng.randint(1, 4))
    g.ri(Code.ADD_RM64_IMM32, Register.RSP, room)


def red_zone(g: Generator) -> None:
    """Stores below the stack pointer, and their loads."""
    place = at(Register.RSP, -g.rng.randint(8, 128))
    g.emit(Instruction.create_mem_reg(Code.MOV_RM64_R64, place, GPRS[g.any_register()]))
    g.straight(g.rng.randint(0, 3))
    g.emit(Instruction.create_reg_mem(Code.MOV_R64_RM64, GPRS[g.free_register()], place))


# ---- implicit operands ---------------------------------------------------------------------------

STRINGS = {
    "movs": (
        Instruction.create_movsb,
        Instruction.create_movsw,
        Instruction.create_movsd,
        Instruction.create_movsq,
    ),
    "cmps": (
        Instruction.create_cmpsb,
        Instruction.create_cmpsw,
        Instruction.create_cmpsd,
        Instruction.create_cmpsq,
    ),
    "lods": (
        Instruction.create_lodsb,
        Instruction.create_lodsw,
        Instruction.create_lodsd,
        Instruction.create_lodsq,
    ),
    "stos": (
        Instruction.create_stosb,
        Instruction.create_stosw,
        Instruction.create_stosd,
        Instruction.create_stosq,
    ),
    "scas": (
        Instruction.create_scasb,
        Instruction.create_scasw,
        Instruction.create_scasd,
        Instruction.create_scasq,
    ),
}


def string(g: Generator) -> None:
    """A string instruction, once or repeated, in either direction."""
    if not all_free(g, RAX, RCX, RSI, RDI):
        return g.random_instruction()
    rng = g.rng
    name = rng.choice(tuple(STRINGS))
    make = rng.choice(STRINGS[name])
    address_size = 32 if g.low and rng.random() < 0.1 else 64
    source = scratch_address(g)
    target = source + rng.randrange(-64, 64) if rng.random() < 0.5 else scratch_address(g)
    g.lea(RSI, source)
    g.lea(RDI, target)
    backwards = rng.random() < 0.25
    if backwards:
        g.emit(Instruction.create(Code.STD))
    repeat = RepPrefixKind.NONE
    if rng.random() < 0.7:
        repeat = (
            RepPrefixKind.REPE if name not in ("cmps", "scas") or rng.random() < 0.5 else RepPrefixKind.REPNE
        )
        g.ri(Code.MOV_R32_IMM32, GPR32[RCX], rng.choice((0, 1, 2, rng.randrange(64), rng.randrange(100))))
    if name in ("stos", "scas"):
        g.emit(make(address_size, repeat))
    else:
        g.emit(make(address_size, Register.NONE, repeat))
    if backwards:
        g.emit(Instruction.create(Code.CLD))
    return None


def divide(g: Generator) -> None:
    """div and idiv whose quotient fits."""
    if not all_free(g, RAX, RDX):
        return g.random_instruction()
    divisor = g.free_register(RAX, RDX)
    signed = g.rng.random() < 0.5
    bits = g.rng.choice((8, 16, 32, 64))
    names = {8: GPR8, 16: GPR16, 32: GPR32, 64: GPRS}[bits]
    # 2 or more, so that the quotient of the most negative number fits too
    if signed:
        g.ri(
            Code.MOV_R32_IMM32,
            GPR32[divisor],
            g.rng.randint(2, 127) if bits == 8 else g.rng.randint(2, 32767),
        )
    else:
        g.ri(Code.OR_RM64_IMM8, GPRS[divisor], 1)
    if bits == 8:
        if signed:
            g.emit(Instruction.create(Code.CBW))
        else:
            g.rr(Code.MOVZX_R32_RM8, Register.EAX, Register.AL)
    elif signed:
        g.emit(Instruction.create({16: Code.CWD, 32: Code.CDQ, 64: Code.CQO}[bits]))
    else:
        g.rr(Code.XOR_R32_RM32, Register.EDX, Register.EDX)
    code = getattr(Code, f"{'IDIV' if signed else 'DIV'}_RM{bits}")
    if g.rng.random() < 0.3:
        place = at(GPRS[g.rng.choice(g.pinned("ptr"))], 8)
        g.emit(Instruction.create_mem_reg(Code.MOV_RM64_R64, place, GPRS[divisor]))
        g.emit(Instruction.create_mem(code, place))
    else:
        g.rr(code, names[divisor])
    return None


def table_lookup(g: Generator) -> None:
    """xlatb"""
    if not all_free(g, RAX, RBX):
        return g.random_instruction()
    g.lea(RBX, scratch_address(g))
    instruction = Instruction()
    instruction.code = Code.XLAT_M8
    instruction.op0_kind = OpKind.MEMORY
    instruction.memory_base = Register.RBX
    instruction.memory_index = Register.AL
    g.emit(instruction)
    return None


def masked_store(g: Generator) -> None:
    """maskmovq and maskmovdqu: the address is in rdi."""
    if RDI in g.pins:
        return g.random_instruction()
    g.lea(RDI, scratch_address(g))
    registers = g.rng.sample(range(8), 2)
    ways = [(Instruction.create_maskmovq, Register.MM0), (Instruction.create_maskmovdqu, Register.XMM0)]
    if "avx" in cpu_flags():
        ways.append((Instruction.create_vmaskmovdqu, Register.XMM0))
    make, first = g.rng.choice(ways)
    g.emit(make(64, first + registers[0], first + registers[1]))
    return None


def gather_or_scatter(g: Generator) -> None:
    """Gathers and scatters; the indices are loaded from the constants."""
    if not indexed_plans():
        return g.random_instruction()
    rng = g.rng
    plan = rng.choice(indexed_plans())
    first = getattr(Register, f"{plan.index}0")
    vectors = rng.sample(range(plan.vectors), 3)
    vector = g.arena.state + CONSTANTS + 64 * rng.randrange(INDEX_VECTORS)
    if plan.index_bits == 64:
        vector += 64 * INDEX_VECTORS
    load = {
        ("XMM", 16): Code.VEX_VMOVDQU_XMM_XMMM128,
        ("YMM", 16): Code.VEX_VMOVDQU_YMM_YMMM256,
        ("XMM", 32): Code.EVEX_VMOVDQU64_XMM_K1Z_XMMM128,
        ("YMM", 32): Code.EVEX_VMOVDQU64_YMM_K1Z_YMMM256,
        ("ZMM", 32): Code.EVEX_VMOVDQU64_ZMM_K1Z_ZMMM512,
    }[plan.index, plan.vectors]
    memory = MemoryOperand(Register.RIP, displ=vector, displ_size=8)
    g.emit(Instruction.create_reg_mem(load, first + vectors[0], memory))
    instruction = Instruction()
    instruction.code = plan.code
    others = iter(vectors[1:])
    for i, operand in enumerate(plan.operands):
        if operand.kind == "memory":
            instruction.set_op_kind(i, OpKind.MEMORY)
        else:
            instruction.set_op_register(i, getattr(Register, f"{operand.kind}0") + next(others))
    if plan.needs_mask:
        instruction.op_mask = Register.K1 + rng.randrange(7)
    pointer = GPRS[rng.choice(g.pinned("ptr"))]
    displacement = rng.randrange(-512, 512)
    g.set_memory(instruction, pointer, first + vectors[0], rng.choice((1, 2, 4, 8)), displacement, 8)
    if -128 <= displacement < 128:
        instruction.memory_displ_size = 1
    g.emit(instruction)
    return None


def bit_string(g: Generator) -> None:
    """bt, bts, btr and btc whose bit lies outside the word the address names."""
    indices = g.pinned("idx") + g.pinned("small")
    if not indices:
        return g.random_instruction()
    bits = g.rng.choice((16, 32, 64))
    name = g.rng.choice(("BT", "BTS", "BTR", "BTC"))
    instruction = Instruction()
    instruction.code = getattr(Code, f"{name}_RM{bits}_R{bits}")
    instruction.op0_kind = OpKind.MEMORY
    names = {16: GPR16, 32: GPR32, 64: GPRS}[bits]
    instruction.op1_register = names[g.rng.choice(indices)]
    displacement = 8 * g.rng.randrange(-15, 15)
    g.set_memory(instruction, GPRS[g.rng.choice(g.pinned("ptr"))], displacement=displacement, size=1)
    instruction.has_lock_prefix = name != "BT" and g.rng.random() < 0.3
    g.emit(instruction)
    return None


def thread_local(g: Generator) -> None:
    """Loads relative to FS: the head of the C library's thread block."""
    instruction = Instruction()
    instruction.code = g.rng.choice((Code.MOV_R64_RM64, Code.ADD_R64_RM64, Code.XOR_R64_RM64))
    instruction.op0_register = GPRS[g.free_register()]
    instruction.op1_kind = OpKind.MEMORY
    instruction.segment_prefix = Register.FS
    if g.pinned("small") and g.rng.random() < 0.4:
        # from the stack guard on: before it is what changes with the first thread
        g.set_memory(instruction, GPRS[g.pinned("small")[0]], displacement=40, size=1)
    else:
        g.set_memory(instruction, Register.NONE, displacement=g.rng.choice((0, 16, 40)), size=8)
    g.emit(instruction)


def zero_line(g: Generator) -> None:
    """clzero: a whole cache line, by the address in rax."""
    if RAX in g.pins or "clzero" not in cpu_flags():
        return g.random_instruction()
    g.lea(RAX, scratch_address(g))
    g.emit(Instruction.create(Code.CLZEROQ))
    return None


def control_words(g: Generator) -> None:
    """New rounding modes for SSE and x87; exceptions stay masked."""
    mode = g.rng.randrange(4)
    if g.rng.random() < 0.5:
        g.emit(
            Instruction.create_i32(Code.PUSHQ_IMM32, 0x1F80 | mode << 13 | g.rng.choice((0, 0x40, 0x8000)))
        )
        g.emit(Instruction.create_mem(Code.LDMXCSR_M32, at(Register.RSP, 0)))
    else:
        g.emit(Instruction.create_i32(Code.PUSHQ_IMM32, 0x7F | mode << 10 | g.rng.choice((0, 0x200, 0x300))))
        g.emit(Instruction.create_mem(Code.FLDCW_M2BYTE, at(Register.RSP, 0)))
    g.emit(Instruction.create_reg_mem(Code.LEA_R64_M, Register.RSP, at(Register.RSP, 8)))


def extended_state(g: Generator) -> None:
    """fxsave or xsave into the scratch area, and back.

    The address of the last x87 instruction is wiped out, since it is where that instruction really ran. So is
    the note of which components were in use, which the processor may set as it likes. It is the reason why
    there is no xsavec: that writes only what is in use.
    """
    rng = g.rng
    if not all_free(g, RAX, RDX):
        return g.random_instruction()
    pointer = g.free_register(RAX, RDX)
    way = rng.choice(("fxsave", "xsave") if "xsave" in cpu_flags() else ("fxsave",))
    saves = {"fxsave": Code.FXSAVE64_M512BYTE, "xsave": Code.XSAVE64_MEM}
    area = at(GPRS[pointer], 0)
    header = at(GPRS[pointer], 512, 8)
    restore = rng.random() < 0.6
    with g.scope(saved=pointer):
        g.lea(pointer, g.arena.scratch + 64 * rng.randrange(1, 64))
        if way != "fxsave":
            # a restore refuses a header with other than known bits
            for i in range(8):
                g.emit(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, at(GPRS[pointer], 512 + 8 * i, 8), 0))
            g.ri(Code.MOV_R32_IMM32, Register.EAX, rng.choice((3, 7, 0xE7)) & _enabled_state())
            g.rr(Code.XOR_R32_RM32, Register.EDX, Register.EDX)
        g.emit(Instruction.create_mem(saves[way], area))
        g.emit(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, at(GPRS[pointer], 8), 0))
        if restore:
            with g.scope():
                g.pins.update({RAX: "saved", RDX: "saved"})
                g.frozen = frozenset(g.pins)
                for _ in range(rng.randint(0, 3)):
                    register_instruction(g)
            code = Code.FXRSTOR64_M512BYTE if way == "fxsave" else Code.XRSTOR64_MEM
            g.emit(Instruction.create_mem(code, area))
        if way != "fxsave":
            g.emit(Instruction.create_mem_i32(Code.MOV_RM64_IMM32, header, 0))
    return None


def register_instruction(g: Generator) -> None:
    """A vector or x87 instruction that leaves memory alone."""
    group = g.rng.choice([name for name in ("avx512", "avx", "sse", "x87") if name in plans()])
    plan = g.rng.choice(g.rng.choice(tuple(plans()[group].values())))
    instruction = None if plan.has_memory else g.make(plan)
    if instruction is not None:
        with suppress(ValueError):  # AH with a REX prefix, and the like
            g.emit(instruction)


def _enabled_state() -> int:
    """Return the state components that can be saved: x87, SSE, AVX, AVX-512."""
    flags = cpu_flags()
    return 3 | (4 if "avx" in flags else 0) | (0xE0 if "avx512f" in flags else 0)


def system(g: Generator) -> None:
    """cpuid, xgetbv, rdtsc and a system call; what differs from run to run is wiped out."""
    ways = {
        "cpuid": (RAX, RCX, RDX, RBX),
        "xgetbv": (RAX, RCX, RDX),
        "rdtsc": (RAX, RDX),
        "syscall": (RAX, RCX, 11),
    }
    way = g.rng.choice([way for way, numbers in ways.items() if all_free(g, *numbers)] or [""])
    if way == "cpuid":
        g.ri(Code.MOV_R32_IMM32, Register.EAX, g.rng.choice((0, 7)))
        g.ri(Code.MOV_R32_IMM32, Register.ECX, 0)
        g.emit(Instruction.create(Code.CPUID))
    elif way == "xgetbv":
        g.ri(Code.MOV_R32_IMM32, Register.ECX, 0)
        g.emit(Instruction.create(Code.XGETBV))
    elif way == "rdtsc":
        g.emit(Instruction.create(Code.RDTSC))
        g.rr(Code.MOV_R32_RM32, Register.EAX, Register.EBX)
        g.rr(Code.MOV_R32_RM32, Register.EDX, Register.EBX)
    elif way == "syscall":
        g.ri(Code.MOV_R32_IMM32, Register.EAX, 39)  # getpid
        g.emit(Instruction.create(Code.SYSCALL))  # leaves its own return address in rcx, the flags in r11
    else:
        g.random_instruction()


def new_pointer(g: Generator) -> None:
    """A free register becomes a pointer, an index or a small number."""
    if len(g.free()) < 6:
        return give_up_pointer(g)
    number = g.free_register()
    kind = g.rng.choice(("ptr", "idx", "small"))
    if kind == "ptr":
        others = g.pinned("ptr")
        if g.rng.random() < 0.5:
            g.rr(Code.MOV_R64_RM64, GPRS[number], GPRS[g.rng.choice(others)])
        else:
            g.lea(number, g.arena.scratch + SCRATCH_BYTES // 2 + 64 * g.rng.randint(-8, 8))
    elif kind == "idx":
        g.ri(Code.AND_RM32_IMM32, GPR32[number], 0xC0)
    else:
        g.ri(Code.AND_RM32_IMM8, GPR32[number], 31)
    g.pins[number] = kind
    return None


def give_up_pointer(g: Generator) -> None:
    """A pinned register becomes free, unless code to come relies on it."""
    choices = [
        number for number in g.pins if number not in g.frozen and g.pins[number] in ("ptr", "idx", "small")
    ]
    choices = [number for number in choices if g.pins[number] != "ptr" or len(g.pinned("ptr")) > 1]
    if choices:
        del g.pins[g.rng.choice(choices)]
    g.random_instruction()


_WEIGHTED: tuple[tuple[Pattern, int], ...] = (
    (control.forward_branch, 8),
    (control.diamond, 5),
    (control.count_zero_branch, 3),
    (control.counted_loop, 4),
    (control.loop_instruction, 3),
    (control.walk, 4),
    (control.switch, 4),
    (control.jump_over_junk, 2),
    (control.overlapping, 1),
    (control.call, 8),
    (control.recursion, 2),
    (control.call_and_pop, 2),
    (control.push_and_return, 2),
    (control.leave_for_good, 2),
    (push_pop, 8),
    (push_pop_word, 2),
    (flags_through_memory, 4),
    (frame, 5),
    (room_on_the_stack, 3),
    (red_zone, 5),
    (string, 8),
    (divide, 4),
    (table_lookup, 2),
    (masked_store, 2),
    (gather_or_scatter, 8),
    (bit_string, 4),
    (thread_local, 3),
    (zero_line, 1),
    (control_words, 2),
    (extended_state, 2),
    (system, 1),
    (new_pointer, 8),
    (give_up_pointer, 6),
)
_PATTERNS = tuple(pattern for pattern, _ in _WEIGHTED)
_WEIGHTS = tuple(accumulate(weight for _, weight in _WEIGHTED))
