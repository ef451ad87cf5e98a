"""Code that a signal ends, at an address and with registers that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iced_x86 import Code, Instruction, Register, RepPrefixKind

from tests.instrument.asm_codes import GPR32
from tests.instrument.asm_control import RAX, RCX, RDI, RSI, at
from tests.instrument.asm_image import GPRS, SCRATCH_BYTES
from tests.instrument.asm_native import PAGE
from tests.instrument.asm_patterns import STRINGS, all_free, scratch_address

if TYPE_CHECKING:
    from tests.instrument.asm_generator import Generator


def fault(g: Generator) -> None:
    """Append code of one of all kinds of faults."""
    g.rng.choice(
        (_wild_access, _wild_access, _wild_string, _misaligned, _divide_by_zero, _illegal, _wild_jump)
    )(g)


def _guard(g: Generator) -> int:
    return g.rng.choice(g.arena.guards) + g.rng.randrange(64, PAGE - 128)


def _wild_access(g: Generator) -> None:
    while True:
        group = g.rng.choice(g.groups)
        plan = g.rng.choice(g.rng.choice(group))
        if plan.has_memory and plan.accesses and not plan.operands[0].value and plan.alignment == 1:
            instruction = g.make(plan, _guard(g))
            if instruction is None or instruction.memory_base != Register.RIP or instruction.has_lock_prefix:
                continue
            if g.rng.random() < 0.5:
                number = g.free_register()
                target = instruction.memory_displacement
                used = [instruction.op_register(i) for i in range(instruction.op_count)]
                if GPRS[number] in used:
                    continue
                g.ri64(number, target)
                g.set_memory(instruction, GPRS[number], displacement=0, size=1)
            try:
                g.emit(instruction)
            except ValueError:
                continue
            return


def _wild_string(g: Generator) -> None:
    """A repeated string instruction that runs into the unmapped page."""
    if not all_free(g, RAX, RCX, RSI, RDI):
        return _wild_access(g)
    end = g.arena.scratch + SCRATCH_BYTES
    g.lea(RDI, end - g.rng.randrange(1, 200))
    g.lea(RSI, scratch_address(g))
    g.ri(Code.MOV_R32_IMM32, GPR32[RCX], 200)
    make = g.rng.choice((*STRINGS["movs"], *STRINGS["stos"]))
    if make in STRINGS["movs"]:
        g.emit(make(64, Register.NONE, RepPrefixKind.REPE))
    else:
        g.emit(make(64, RepPrefixKind.REPE))
    return None


def _misaligned(g: Generator) -> None:
    code = g.rng.choice((Code.MOVAPS_XMM_XMMM128, Code.ADDPS_XMM_XMMM128, Code.MOVDQA_XMM_XMMM128))
    pointer = GPRS[g.rng.choice(g.pinned("ptr"))]
    g.emit(
        Instruction.create_reg_mem(
            code, Register.XMM0 + g.rng.randrange(16), at(pointer, g.rng.randint(1, 15))
        )
    )


def _divide_by_zero(g: Generator) -> None:
    number = g.free_register()
    g.rr(Code.XOR_R32_RM32, GPR32[number], GPR32[number])
    if g.rng.random() < 0.5:
        g.rr(Code.DIV_RM64, GPRS[number])
    else:
        g.rr(Code.IDIV_RM32, GPR32[number])


def _illegal(g: Generator) -> None:
    g.emit(Instruction.create(g.rng.choice((Code.UD2, Code.HLT, Code.INT3))))


def _wild_jump(g: Generator) -> None:
    """A jump, call or return to a page that is not executable, or not there."""
    number = g.free_register()
    target = g.rng.choice((_guard(g), scratch_address(g), 1 << 63))
    g.ri64(number, target)
    way = g.rng.randrange(3)
    if way == 0:
        g.rr(Code.PUSH_R64, GPRS[number])
        g.emit(Instruction.create(Code.RETNQ))
    # A call to no canonical address pushes nothing; an engine finds that out when it has pushed.
    elif way == 1 and target >> 47 == 0:
        g.rr(Code.CALL_RM64, GPRS[number])
    else:
        g.rr(Code.JMP_RM64, GPRS[number])
