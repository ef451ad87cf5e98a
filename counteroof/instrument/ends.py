"""The last instruction of a block: where control goes on, in translated code."""

from __future__ import annotations

from typing import Any

import iced_x86 as ix
from iced_x86 import FlowControl, Mnemonic, OpKind, Register

from . import emit
from .code_cache import Output
from .decode import RSP, Block
from .operands import Operands

CONDITION = {
    getattr(ix.ConditionCode, name.upper()): number
    for number, name in enumerate(
        ["o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"]
    )
}
"""From iced-x86's condition codes to the processor's numbers."""


def leave_to(target: int, out: Output, opcode: bytes = b"\xe9") -> None:
    """Emit a jump to the translation of an original address; it is linked when there is one."""
    out.stubs.append((out.jump_place(opcode), target))


def dispatch(layout: Any, number: int, out: Output) -> None:
    """Emit the jump to whatever ``target`` is; the block's number tells where it came from if that is
    nowhere."""
    out.add(emit.store_gs_half(layout.source, number) + emit.jump_gs(layout.dispatch))


def end_block(
    layout: Any, operands: Operands, block: Block, number: int, scratch: int, borrowed: int, out: Output
) -> None:
    """Emit the last instruction; the scratch register is ours since ``borrowed`` (0: it is not)."""
    instruction, encoding = block.instructions[-1], block.body[-1]
    flow = instruction.flow_control
    at = layout
    spill = at.spill + 8 * scratch
    if (
        flow in (FlowControl.INDIRECT_CALL, FlowControl.INDIRECT_BRANCH)
        and not instruction.is_jmp_far_indirect
    ):
        if instruction.op0_kind == OpKind.REGISTER:
            out.add(emit.store_gs(at.target, instruction.op0_register - Register.RAX))
        else:
            borrowed = borrowed or out.borrow(scratch, spill)
            operands.load(instruction, encoding.used, scratch, out)
            out.add(emit.store_gs(at.target, scratch))
        if borrowed:
            out.give_back(borrowed, scratch, spill)
        if flow == FlowControl.INDIRECT_CALL:
            out.add(emit.push_address(instruction.next_ip))
        dispatch(at, number, out)
        return
    if borrowed:
        out.give_back(borrowed, scratch, spill)
    if flow == FlowControl.CONDITIONAL_BRANCH:
        if instruction.is_jcc_short_or_near:
            leave_to(
                instruction.near_branch_target,
                out,
                bytes((0x0F, 0x80 | CONDITION[instruction.condition_code])),
            )
        else:  # loop, jrcxz: only a short form exists, so it jumps over the jump for "not taken"
            short = encoding.code[:-1] + b"\x08"  # room for up to 3 bytes of padding and 5 of jump
            out.add(short)
            start = len(out.code)
            leave_to(instruction.next_ip, out)
            out.add(b"\x90" * (start + 8 - len(out.code)))
            leave_to(instruction.near_branch_target, out)
            return
        leave_to(instruction.next_ip, out)
    elif flow == FlowControl.UNCONDITIONAL_BRANCH:
        leave_to(instruction.near_branch_target, out)
    elif instruction.mnemonic == Mnemonic.WRGSBASE:
        if instruction.code == ix.Code.WRGSBASE_R64:
            out.add(emit.store_gs(at.scratch, instruction.op0_register - Register.RAX))
        else:
            out.add(emit.store_gs_low(at.scratch, instruction.op0_register - Register.EAX))
            out.add(emit.store_gs_half(at.scratch + 4, 0))
        out.add(emit.store_gs_address(at.target, instruction.next_ip) + emit.jump_gs(at.set_gs))
    elif instruction.mnemonic == Mnemonic.SYSCALL:
        out.add(emit.store_gs_address(at.target, instruction.next_ip) + emit.jump_gs(at.system_call))
    elif flow == FlowControl.CALL and instruction.is_call_near:
        out.add(emit.push_address(instruction.next_ip))
        leave_to(instruction.near_branch_target, out)
    elif flow == FlowControl.RETURN and instruction.mnemonic == Mnemonic.RET:
        out.add(emit.pop_gs(at.target))
        if instruction.op_count:
            out.add(emit.add_constant(RSP, instruction.immediate(0)))
        dispatch(at, number, out)
    elif flow == FlowControl.XBEGIN_XABORT_XEND:
        # A transaction that always aborts, with the status "no reason given": allowed by the
        # architecture.
        out.add(b"\xb8\0\0\0\0")
        leave_to(instruction.near_branch_target, out)
    elif flow in (FlowControl.EXCEPTION, FlowControl.INTERRUPT):
        out.add(encoding.code)
        out.resume = out.here
        leave_to(instruction.next_ip, out)
    else:
        out.add(b"\x0f\x0b")
