"""Control flow: branches, loops, computed jumps, calls and returns, as compilers and people write them.

Each pattern is a function that takes the generator and appends its code. It leaves the stack balanced and
every pinned register as it was; one that finds no registers for itself appends a plain instruction instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Code, Instruction, MemoryOperand, Register

from tests.instrument.asm_codes import GPR32, plans, words
from tests.instrument.asm_image import GPRS, SCRATCH_BYTES

if TYPE_CHECKING:
    from tests.instrument.asm_generator import Generator

RAX, RCX, RDX, RBX, RBP, RSI, RDI = 0, 1, 2, 3, 5, 6, 7

_CONDITIONS = words("O NO B AE E NE BE A S NS P NP L GE LE G")
_JCC_SHORT = tuple(getattr(Code, f"J{name}_REL8_64") for name in _CONDITIONS)
_JCC_NEAR = tuple(getattr(Code, f"J{name}_REL32_64") for name in _CONDITIONS)


def jcc(g: Generator) -> int:
    """Return a random conditional jump; a short one grows if it does not reach."""
    return g.rng.choice(_JCC_SHORT if g.rng.random() < 0.5 else _JCC_NEAR)


def jmp(g: Generator) -> int:
    """Return a jump, short or near."""
    return Code.JMP_REL8_64 if g.rng.random() < 0.5 else Code.JMP_REL32_64


def at(base: int, displacement: int = 0, size: int = 1) -> MemoryOperand:
    """Return the memory operand of a base register and a displacement (``size`` 8: not a short one)."""
    return MemoryOperand(base, displ=displacement, displ_size=size)


# ---- branches and loops --------------------------------------------------------------------------


def forward_branch(g: Generator) -> None:
    """if (condition) { ... }"""
    end = g.label()
    g.assembly.branch(jcc(g), end)
    with g.scope():
        g.sequence(g.rng.randint(1, 5))
    g.assembly.place(end)


def diamond(g: Generator) -> None:
    """if (condition) { ... } else { ... }"""
    other, end = g.label(), g.label()
    g.assembly.branch(jcc(g), other)
    with g.scope():
        g.sequence(g.rng.randint(1, 4))
    g.assembly.branch(jmp(g), end)
    if g.rng.random() < 0.3:
        g.assembly.data(g.rng.randbytes(g.rng.randint(1, 16)))  # no code: nothing may decode it
    g.assembly.place(other)
    with g.scope():
        g.sequence(g.rng.randint(1, 4))
    g.assembly.place(end)


def count_zero_branch(g: Generator) -> None:
    """jrcxz and jecxz"""
    end = g.label()
    if RCX in g.free() and g.rng.random() < 0.5:
        g.ri(Code.MOV_R32_IMM32, GPR32[RCX], g.rng.randrange(2))
    g.assembly.branch(g.rng.choice((Code.JRCXZ_REL8_64, Code.JECXZ_REL8_64)), end)
    with g.scope():
        g.straight(g.rng.randint(1, 6))
    g.assembly.place(end)


def counted_loop(g: Generator) -> None:
    """do { ... } while (--count)"""
    counter = g.free_register()
    top = g.label()
    g.ri(Code.MOV_R32_IMM32, GPR32[counter], g.rng.randint(1, 6))
    g.assembly.place(top)
    with g.scope(count=counter):
        g.sequence(g.rng.randint(1, 5))
        way = g.rng.randrange(3)
        if way == 0:
            g.rr(Code.DEC_RM32, GPR32[counter])
        elif way == 1:
            g.ri(Code.SUB_RM64_IMM8, GPRS[counter], 1)
        else:
            g.ri(Code.ADD_RM32_IMM8, GPR32[counter], -1)
        g.assembly.branch(g.rng.choice((Code.JNE_REL8_64, Code.JNE_REL32_64)), top)


def loop_instruction(g: Generator) -> None:
    """loop, loope and loopne"""
    if RCX in g.pins:
        return counted_loop(g)
    top = g.label()
    g.ri(Code.MOV_R32_IMM32, GPR32[RCX], g.rng.randint(1, 6))
    g.assembly.place(top)
    with g.scope(count=RCX):
        g.straight(g.rng.randint(1, 5))
    names = ("LOOP_REL8_64_RCX", "LOOPE_REL8_64_RCX", "LOOPNE_REL8_64_RCX", "LOOP_REL8_64_ECX")
    g.assembly.branch(getattr(Code, g.rng.choice(names)), top)
    return None


def walk(g: Generator) -> None:
    """A loop over an array: the address moves by a fixed stride."""
    pointer, counter = g.rng.sample(g.free(), 2)
    top = g.label()
    rounds = g.rng.randint(1, 12)
    stride = g.rng.choice((1, 4, 8, 16, 32, 64, -4, -8, -64))
    g.lea(pointer, g.arena.scratch + SCRATCH_BYTES // 2)
    g.ri(Code.MOV_R32_IMM32, GPR32[counter], rounds)
    g.assembly.place(top)
    with g.scope(saved=pointer, count=counter):
        for _ in range(g.rng.randint(1, 3)):
            group = g.rng.choice([name for name in ("integer", "avx512", "avx", "sse") if name in plans()])
            plan = g.rng.choice(g.rng.choice(tuple(plans()[group].values())))
            if not plan.has_memory or plan.alignment > 1 or not plan.accesses or plan.operands[0].value:
                g.random_instruction()
                continue
            instruction = g.make(plan, g.arena.scratch)
            if instruction is None or instruction.memory_base != Register.RIP or instruction.has_lock_prefix:
                continue
            g.set_memory(instruction, GPRS[pointer], displacement=g.rng.randrange(-64, 64), size=1)
            try:
                g.emit(instruction)
            except ValueError:
                continue
        g.straight(g.rng.randint(0, 2))
        code = Code.ADD_RM64_IMM32 if g.rng.random() < 0.5 else Code.ADD_RM64_IMM8
        if stride == 64 or g.rng.random() < 0.3:
            g.emit(Instruction.create_reg_mem(Code.LEA_R64_M, GPRS[pointer], at(GPRS[pointer], stride)))
        else:
            g.ri(code, GPRS[pointer], stride)
        g.rr(Code.DEC_RM32, GPR32[counter])
        g.assembly.branch(Code.JNE_REL32_64, top)


def switch(g: Generator) -> None:
    """A computed jump through a table, as compilers write it."""
    table, end = g.label(), g.label()
    arms = [g.label() for _ in range(g.rng.choice((2, 4)))]
    selector, base = g.rng.sample(g.free(), 2)
    g.rr(Code.MOV_R32_RM32, GPR32[selector], GPR32[g.any_register()])
    g.ri(Code.AND_RM32_IMM8, GPR32[selector], len(arms) - 1)
    g.lea_label(base, table)
    way = g.rng.randrange(3)
    if way == 0:
        g.emit(Instruction.create_mem(Code.JMP_RM64, MemoryOperand(GPRS[base], GPRS[selector], 8)))
    elif way == 1:
        entry = MemoryOperand(GPRS[base], GPRS[selector], 8)
        g.emit(Instruction.create_reg_mem(Code.MOV_R64_RM64, GPRS[selector], entry))
        g.rr(Code.JMP_RM64, GPRS[selector])
    else:
        entry = MemoryOperand(GPRS[base], GPRS[selector], 4)
        g.emit(Instruction.create_reg_mem(Code.MOVSXD_R64_RM32, GPRS[selector], entry))
        g.rr(Code.ADD_R64_RM64, GPRS[selector], GPRS[base])
        g.rr(Code.JMP_RM64, GPRS[selector])
    relative = table if way == 2 else -1
    inline = g.rng.random() < 0.3
    if inline:
        g.assembly.place(table)
        g.assembly.table(tuple(arms), relative)
    for arm in arms:
        g.assembly.place(arm)
        with g.scope():
            g.sequence(g.rng.randint(1, 3))
        if arm != arms[-1]:
            g.assembly.branch(jmp(g), end)
    g.assembly.place(end)
    if not inline:
        with g.behind():
            g.assembly.place(table)
            g.assembly.table(tuple(arms), relative)


def jump_over_junk(g: Generator) -> None:
    """Bytes between instructions that are no code."""
    end = g.label()
    g.assembly.branch(jmp(g), end)
    g.assembly.data(g.rng.randbytes(g.rng.randint(1, 24)))
    g.assembly.place(end)


def overlapping(g: Generator) -> None:
    """jmp into its own second byte, which together with the next is `dec eax`."""
    if RAX in g.pins:
        return g.random_instruction()
    g.assembly.data(b"\xeb\xff\xc8")
    return None


# ---- calls ---------------------------------------------------------------------------------------


def call(g: Generator) -> None:
    """call, directly or through a register or memory, of a subroutine that returns; sometimes twice."""
    sub, table = g.label(), g.label()
    arguments = 8 * g.rng.choice((0, 0, 1, 3))
    for _ in range(g.rng.choice((1, 1, 2))):
        for _ in range(arguments // 8):
            g.rr(Code.PUSH_R64, GPRS[g.any_register()])
        way = g.rng.randrange(4)
        if way < 2:
            g.assembly.branch(Code.CALL_REL32_64, sub)
        elif way == 2:
            number = g.free_register()
            g.lea_label(number, sub)
            g.rr(Code.CALL_RM64, GPRS[number])
        else:
            operand = MemoryOperand(Register.RIP, displ=g.assembly.near, displ_size=8)
            g.assembly.reference(Instruction.create_mem(Code.CALL_RM64, operand), table)
    tail = g.rng.random() < 0.2
    other = g.label()
    with g.behind(), g.scope(frame=0):
        g.assembly.place(table)
        g.assembly.table((sub,))
        g.assembly.place(sub)
        g.sequence(g.rng.randint(1, 5))
        if tail:
            g.assembly.branch(jmp(g), other)
            g.assembly.data(g.rng.randbytes(3))
            g.assembly.place(other)
            g.straight(g.rng.randint(0, 2))
        if arguments:
            g.emit(Instruction.create_u32(Code.RETNQ_IMM16, arguments))
        else:
            g.emit(Instruction.create(Code.RETNQ))


def recursion(g: Generator) -> None:
    """A subroutine that calls itself a few times."""
    counter = g.free_register()
    sub, out = g.label(), g.label()
    g.ri(Code.MOV_R32_IMM32, GPR32[counter], g.rng.randint(1, 5))
    with g.scope(count=counter):
        g.assembly.branch(Code.CALL_REL32_64, sub)
        with g.behind(), g.scope(frame=0):
            g.assembly.place(sub)
            g.straight(g.rng.randint(0, 2))
            g.rr(Code.DEC_RM32, GPR32[counter])
            g.assembly.branch(Code.JE_REL8_64, out)
            g.assembly.branch(Code.CALL_REL32_64, sub)
            g.straight(g.rng.randint(0, 2))
            g.assembly.place(out)
            g.emit(Instruction.create(Code.RETNQ))


def call_and_pop(g: Generator) -> None:
    """call the next instruction and pop the return address: position-independent code of old."""
    after = g.label()
    g.assembly.branch(Code.CALL_REL32_64, after)
    if g.rng.random() < 0.3:
        g.assembly.data(g.rng.randbytes(5))
    g.assembly.place(after)
    g.rr(Code.POP_R64, GPRS[g.free_register()])


def push_and_return(g: Generator) -> None:
    """A jump made of push and ret: a return to no call."""
    end = g.label()
    number = g.free_register()
    g.lea_label(number, end)
    g.rr(Code.PUSH_R64, GPRS[number])
    g.emit(Instruction.create(Code.RETNQ))
    g.assembly.data(g.rng.randbytes(2))
    g.assembly.place(end)


def leave_for_good(g: Generator) -> None:
    """A subroutine that restores an older stack pointer and jumps: what longjmp does."""
    saved = g.free_register()
    sub, end = g.label(), g.label()
    g.rr(Code.MOV_R64_RM64, GPRS[saved], Register.RSP)
    with g.scope(saved=saved):
        g.assembly.branch(Code.CALL_REL32_64, sub)
        g.emit(Instruction.create(Code.UD2))  # never returned to
        with g.behind(), g.scope(frame=0):
            g.assembly.place(sub)
            g.sequence(g.rng.randint(0, 3))
            g.rr(Code.MOV_R64_RM64, Register.RSP, GPRS[saved])
            g.assembly.branch(Code.JMP_REL32_64, end)
    g.assembly.place(end)
