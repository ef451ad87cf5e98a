"""Records: which register values a block stores before its accesses, and how addresses follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import iced_x86 as ix
from iced_x86 import Register

from . import emit
from .code_cache import Output
from .decode import BIT_STRING, GATHERED, STRING, TABLE, Encoding, Step

if TYPE_CHECKING:
    from iced_x86 import Code_, Register_

MAX_SLOTS = 200


@dataclass(slots=True)
class MaskedFlops:
    """An instruction of a block whose FLOPs depend on an opmask; ``group`` is its number in the record's
    description."""

    position: int
    group: int


@dataclass(slots=True)
class Record:
    """The record of one block under construction."""

    slots: int = 1
    written: bool = False
    accesses: list[tuple[Any, ...]] = field(default_factory=list)
    lanes: list[tuple[int, int, int]] = field(default_factory=list)
    opmasks: dict[int, int] = field(default_factory=dict)

    def reserve(self, words: int) -> int:
        slot = self.slots
        self.slots += words
        return slot


def iced_register(number: int) -> Register_:
    """Return iced-x86's register for its number; at run time the two are the same."""
    return cast("Register_", number)


_AT_ENTRY: list[tuple[int, int]] = [(number, 0) for number in range(16)]
"""(symbol, offset) of each register: what a block finds in it has its number."""


class Recorder:
    """Emits the stores of one block's record: each register value an address needs is stored once."""

    def __init__(
        self,
        record: Record,
        scratch: int,
        *,
        addresses: bool,
        lanes_of: Callable[[ix.Instruction], int],
        wide_masks: bool,
    ) -> None:
        self._record, self._scratch = record, scratch
        self._addresses, self._lanes_of, self._wide_masks = addresses, lanes_of, wide_masks
        self._symbols = _AT_ENTRY.copy()
        self._next_symbol = 16
        self._slots: dict[int, tuple[int, int]] = {}
        self._opmasks: dict[int, int] = {}

    def before(
        self,
        instruction: ix.Instruction,
        encoding: Encoding,
        position: int,
        out: Output,
        masked: list[MaskedFlops],
    ) -> list[tuple[int, int]]:
        """Emit what must be stored before the instruction; return (slot, register) pairs to store after
        it."""
        late: list[tuple[int, int]] = []
        record = self._record
        if encoding.op_mask:
            lanes = self._lanes_of(instruction)
            if lanes:
                masked.append(MaskedFlops(position, len(record.lanes)))
                record.lanes.append((self._opmask(encoding.op_mask, out), lanes, position))
        if not self._addresses:
            return late
        for access in encoding.accesses:
            base = index = mask = vector = 0
            delta = access.displacement
            if access.form == STRING:
                base = self._exactly(access.base, out)
                vector = record.reserve(1)
                late.append((vector, access.base))
                string_streams = len(encoding.accesses)
                description = (
                    0,
                    access.bytes,
                    access.kind,
                    STRING,
                    base,
                    0,
                    access.base,
                    string_streams,
                    0,
                    vector,
                )
                record.accesses.append((*description, 0, 0, access.address32, 0, access.segment, position))
                continue
            if access.base >= 0:
                base, moved = self._value(access.base, out)
                delta += moved
            if access.form == TABLE:
                index = self._exactly(access.index, out)
            elif access.index >= 0:
                index, moved = self._value(access.index, out)
                delta += moved << access.scale
            if access.form == GATHERED:
                vector = self._vector(access.vector, out)
            elif access.form == BIT_STRING:
                vector = self._exactly(access.vector, out)
            if access.mask:
                mask = (self._vector if access.mask_bytes else self._opmask)(access.mask, out)
            if delta >= 1 << 63 or delta < -(1 << 63):
                delta = (delta + (1 << 63)) % (1 << 64) - (1 << 63)
            record.accesses.append(
                (
                    delta,
                    access.bytes,
                    access.kind,
                    access.form,
                    base,
                    index,
                    access.scale,
                    access.lanes,
                    mask,
                    vector,
                    access.index_bytes,
                    access.mask_bytes,
                    access.address32,
                    access.broadcast,
                    access.segment,
                    position,
                )
            )
        return late

    def after(self, late: list[tuple[int, int]], out: Output) -> None:
        """Emit what must be stored after the instruction."""
        for slot, register in late:
            out.add(emit.store(self._scratch, 8 * slot, register))

    def _exactly(self, register: int, out: Output) -> int:
        """Return a slot that holds the register's value as it is."""
        slot = self._record.reserve(1)
        out.add(emit.store(self._scratch, 8 * slot, register))
        return slot

    def _value(self, register: int, out: Output) -> tuple[int, int]:
        """Return the slot that holds the register's value, and what to add to it."""
        symbol, offset = self._symbols[register]
        if symbol not in self._slots:
            slot = self._record.reserve(1)
            out.add(emit.store(self._scratch, 8 * slot, register))
            self._slots[symbol] = (slot, offset)
        slot, recorded = self._slots[symbol]
        return slot, offset - recorded

    def _opmask(self, mask: int, out: Output) -> int:
        slot = self._record.reserve(1)
        out.add(
            emit.store_immediate(self._scratch, 8 * slot, 0)
        )  # meets the end of the chunk in the mask's stead
        out.add(emit.store_opmask(self._scratch, 8 * slot, mask - Register.K0, self._wide_masks))
        return slot

    def _vector(self, register: int, out: Output) -> int:
        words = ix.RegisterExt.size(iced_register(register)) // 8
        slot = self._record.reserve(words)
        out.add(emit.store_immediate(self._scratch, 8 * (slot + words - 1), 0))
        high = Register.XMM0 <= register <= Register.ZMM31 and (register - Register.XMM0) % 32 >= 16
        codes: dict[int, Code_] = {
            1: ix.Code.MOVQ_MMM64_MM,
            2: ix.Code.EVEX_VMOVDQU64_XMMM128_K1Z_XMM if high else ix.Code.VEX_VMOVDQU_XMMM128_XMM,
            4: ix.Code.EVEX_VMOVDQU64_YMMM256_K1Z_YMM if high else ix.Code.VEX_VMOVDQU_YMMM256_YMM,
            8: ix.Code.EVEX_VMOVDQU64_ZMMM512_K1Z_ZMM,
        }
        memory = ix.MemoryOperand(iced_register(Register.RAX + self._scratch), displ=8 * slot, displ_size=8)
        encoder = ix.Encoder(64)
        encoder.encode(ix.Instruction.create_mem_reg(codes[words], memory, iced_register(register)), 0)
        out.add(encoder.take_buffer())
        return slot

    def step(self, steps: tuple[Step, ...]) -> None:
        """Take note of what an instruction does to registers."""
        after = self._symbols
        before = after if len(steps) == 1 else after.copy()
        for step in steps:
            if step.known and len(step.terms) == 1 and step.terms[0][1] == 1:
                symbol, offset = before[step.terms[0][0]]
                after[step.register] = (symbol, offset + step.constant)
            else:
                after[step.register] = (self._next_symbol, 0)
                self._next_symbol += 1
