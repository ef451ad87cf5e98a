"""Blocks of original code to instrumented code in the code cache.

In detail ``bytes`` every execution of a block writes one record: the block's number and the values of the
registers its addresses are made of, each once. Sizes, kinds, displacements and FLOPs are the block's and
known
beforehand. Detail ``lines`` is the same here; only the consumer then tells the model whose each access is. In
detail ``flops`` a block adds one to a counter. See ``csrc/instrument/`` for what happens to
records.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import iced_x86 as ix
from iced_x86 import FlowControl, Mnemonic, OpAccess, OpKind, Register

from ..errors import CounteroofError
from . import emit
from .code_cache import NEAR, CodeCache, Output, Region
from .decode import (
    MASKED,
    NON_TEMPORAL,
    RSP,
    STORE,
    UPDATE,
    Block,
    Decoded,
    Reader,
    flags_dead_at_entry,
    is_relative_to_gs,
)
from .loops import CountedLoop, counted_loop, is_self_loop
from .native_code import NativeCode, NativeFunction
from .record import MAX_SLOTS, MaskedFlops, Record, Recorder, extra_words, iced_register

if TYPE_CHECKING:
    pass

Detail = Literal["flops", "bytes", "lines"]

LONGEST = 15
"""Bytes of an instruction (Intel SDM volume 2, section 2.3.11)."""
Version = tuple[int, bytes, bool]
"""What a block was translated from: address, code, and whether the block checks that this is the same."""

WILD = 1
"""In place of a translated address: there is no code at the original one."""

STALE = 1024
"""As many stale blocks are taken note of at once."""

_F3, _GS_PREFIX = 0xF3, 0x65

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

_CONDITION = {
    getattr(ix.ConditionCode, name.upper()): number
    for number, name in enumerate(
        ["o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"]
    )
}
"""From iced-x86's condition codes to the processor's numbers."""


@dataclass(slots=True)
class TranslatedBlock:
    """What is remembered of a block: enough to count with, and to tell original from translated addresses."""

    guest: int
    host: int
    size: int
    instructions: tuple[ix.Instruction, ...]
    places: tuple[int, ...]
    """Host address of each instruction."""
    masked: tuple[MaskedFlops, ...]
    unsupported: str | None = None
    native: str | None = None
    """The function that this is a native call of: there are no instructions, but calls are counted."""
    first_access: int = 0
    accesses: tuple[int, ...] = ()
    """Per recorded access the position of its instruction; the model knows the first as ``first_access``."""
    version: Version | None = None
    """What it was translated from: address, code, and whether it checks that."""


class Translator:
    """Translates on demand and links what it has translated.

    Parameters
    ----------
    ffi, lib
        The compiled part.
    detail
        ``flops`` counts blocks; ``bytes`` and ``lines`` record addresses.
    xsave_bytes
        Size of the processor's XSAVE area.
    wide_masks
        Whether opmasks have 64 bits (AVX512BW).
    lanes_of
        For an instruction that depends on an opmask, the number of lanes to count; 0 if its FLOPs do not
        depend on it.
    native
        Tells which functions run natively.
    """

    def __init__(
        self,
        ffi: Any,
        lib: Any,
        detail: Detail,
        *,
        xsave_bytes: int,
        wide_masks: bool,
        lanes_of: Callable[[ix.Instruction], int],
        native: NativeCode,
    ) -> None:
        self._ffi, self._lib, self._detail = ffi, lib, detail
        self._wide_masks = wide_masks
        self._lanes_of = lanes_of
        self._native = native
        self._cache = CodeCache(ffi, lib)
        self._reader = Reader(self._cache.read, xsave_bytes)
        layout = ffi.new("struct instrument_layout *")
        lib.instrument_offsets(layout)
        self._at = layout
        self._pending: dict[int, list[int]] = {}
        self._hosts: dict[int, int] = {}
        self._versions: dict[Version, int] = {}
        self._unloads = lib.instrument_unloads()
        self._stale = ffi.new("uint32_t[]", STALE)
        self._encoder = ix.Encoder(64)
        self._lock = threading.Lock()
        self.blocks: list[TranslatedBlock] = []
        self.failure: BaseException | None = None
        self._accesses = 0

    # ---- public ----

    def translate(self, guest: int) -> int:
        """Return the translated address for an original one; 0 if that failed (see ``failure``), ``WILD`` if
        nothing executable is there."""
        try:
            with self._lock:
                return self._translate(guest)
        except BaseException as error:
            self.failure = error
            return 0

    def runs_natively(self, guest: int) -> bool:
        """Tell whether the function at an original address is never translated."""
        return self._native.of(guest) is not None

    def forget(self) -> None:
        """Translate everything anew from now on: the original code has changed. Counts so far are kept."""
        with self._lock:
            self._lib.instrument_forget()

    def original(self, host: int) -> tuple[TranslatedBlock, int] | None:
        """Return the block and the original address of the instruction that a translated address belongs
        to."""
        for block in self.blocks:
            if block.host <= host < block.host + block.size:
                position = max((i for i, place in enumerate(block.places) if place <= host), default=0)
                return block, block.instructions[position].ip if block.instructions else block.guest
        return None

    # ---- blocks ----

    def _link(self, guest: int, host: int, number: int) -> None:
        self._hosts[guest] = host
        self._lib.instrument_publish(number)
        for place in self._pending.pop(guest, ()):
            distance = host - place - 4
            if abs(distance) < NEAR:
                self._lib.instrument_patch(place, distance)

    def _drop_stale(self) -> None:
        """Take note of the blocks whose original code has changed; it may come back."""
        count = STALE
        while count == STALE:
            count = self._lib.instrument_take_stale(self._stale, STALE)
            for number in self._stale[0:count]:
                block = self.blocks[number]
                if self._hosts.get(block.guest) == block.host:
                    del self._hosts[block.guest]
                if block.version is not None:
                    self._versions[block.version] = number
        unloads = self._lib.instrument_unloads()
        if unloads != self._unloads:
            self._unloads = unloads
            self._native.look_again()

    def _translate(self, guest: int) -> int:
        self._drop_stale()
        host = self._hosts.get(guest)
        if host is not None:
            return host
        native = self._native.of(guest)
        if native is not None:
            return self._native_call(guest, native)
        block, code, checked = self._read(guest)
        if not code:
            return WILD
        version = guest, code, checked
        number = self._versions.pop(version, None)
        if number is not None and self._lib.instrument_revive(number):
            self._link(guest, self.blocks[number].host, number)
            return self.blocks[number].host
        region = self._cache.region(guest)
        out = Output(region.position)
        if not block.body:
            return self._unsupported(block, version, region, out)
        if is_self_loop(block) and not checked:
            loop = counted_loop(block, self._masks_written(block), self._detail)
            if loop is not None:
                return self._emit_loop(block, loop, region, out, version)
        return self._emit_block(block, region, out, version)

    def _read(self, guest: int) -> tuple[Block, bytes, bool]:
        """Return a block, its code, and whether it has to check that this is still the same.

        From then on the runtime notices when somebody writes there.
        """
        while True:
            block = self._reader.block(guest)
            code = b"".join(decoded.code for decoded in block.body)
            if not code and block.readable:
                code = self._cache.read(guest, LONGEST)
            if not code:
                return block, code, False
            found = self._lib.instrument_watch(guest, len(code))
            if found < 0:
                raise MemoryError("no memory to watch original code")
            if not found & 2:
                return block, code, bool(found & 1)

    def _unsupported(self, block: Block, version: Version, region: Region, out: Output) -> int:
        """Emit a trap for code that cannot be run; it matters only if it is reached."""
        number = len(self.blocks)
        if version[2]:
            self._check(block.address, version[1], out)
        size = len(out.code) + 2
        out.add(b"\x0f\x0b" + bytes(6))
        self._end_check(block.address, number, out)
        host = self._cache.place(region, out.code)
        self._register(block, out, size, Record(0), (), [], None, unsupported=block.bad, version=version)
        self._link(block.address, host, number)
        return host

    # ---- code that changes ----

    def _check(self, guest: int, code: bytes, out: Output) -> None:
        """Compare the original code with what it was, in pieces, without a change of flags."""
        at = self._at.spill
        rcx, rdx = 1, 2
        starts = [(register, out.borrow(register, at + 8 * register)) for register in (rcx, rdx)]
        done = 0
        while done < len(code):
            count = next(size for size in (8, 4, 2, 1) if done + size <= len(code))
            value = int.from_bytes(code[done : done + count], "little")
            out.add(emit.load_immediate(rdx, guest + done) + emit.load_low(rdx, count))
            out.add(emit.load_immediate(rcx, -value) + emit.add(rcx, rdx) + emit.jump_if_rcx_zero(5))
            out.add(emit.jump(0))
            out.mismatches.append(out.here - 4)
            done += count
        for register, start in starts:
            out.give_back(start, register, at + 8 * register)

    def _end_check(self, guest: int, number: int, out: Output) -> None:
        """Emit where the comparison leads if it fails."""
        at = self._at
        if not out.mismatches:
            return
        for place in out.mismatches:
            out.set_displacement(place, out.here)
        for register in (1, 2):
            out.add(emit.load_gs(register, at.spill + 8 * register))
        out.add(emit.store_gs_address(at.target, guest) + emit.store_gs_half(at.source, number))
        out.add(emit.jump_gs(at.changed))

    def _register(
        self,
        block: Block,
        out: Output,
        size: int,
        record: Record,
        body: Sequence[Decoded],
        places: list[int],
        loop: tuple[CountedLoop, dict[int, int]] | None,
        unsupported: str | None = None,
        masked: tuple[MaskedFlops, ...] = (),
        native: str | None = None,
        version: Version | None = None,
    ) -> None:
        ffi = self._ffi
        host = out.address
        info = ffi.new("struct instrument_block *")
        info.guest, info.host, info.host_bytes = block.address, host, size
        info.slots = record.slots if record.written else 0
        info.accesses, info.lane_groups = len(record.accesses), len(record.lanes)
        info.unsupported = unsupported is not None
        code = b"" if version is None else _code(block, body, version)
        info.guest_bytes, info.checked = len(code), bool(version and version[2])
        info.first_access = self._accesses + 1
        self._accesses += len(record.accesses)
        changes, registers = [], []
        if loop:
            counted, slots = loop
            counter = slots[counted.counter]
            info.loop, info.counter_start, info.counter_end = 1, counter, counter + 1
            info.counter_step, info.counter_bits = counted.counter_step, counted.counter_bits
            registers = list(slots.items())
            for change in counted.changes:
                terms, coefficients = zip(*change.terms, strict=True) if change.terms else ((), ())
                changes.append(
                    (change.constant, coefficients, terms, change.register, change.narrow, change.place)
                )
        # The tuples have the order of the structs' members; cffi copies them much faster than one by one.
        accesses = ffi.new("struct instrument_access[]", record.accesses)
        lanes = ffi.new("struct instrument_lanes[]", record.lanes)
        guest = block.address
        pairs = [
            (place - host, decoded.instruction.ip - guest & 0xFFFFFFFF)
            for place, decoded in zip(places, body, strict=True)
        ]
        if out.resume:
            pairs.append((out.resume - host, block.next_address - guest & 0xFFFFFFFF))
        stops = ffi.new("struct instrument_place[]", pairs)
        borrowed = ffi.new(
            "struct instrument_borrowed[]",
            [(start - host, end - host, register, offset) for start, end, register, offset in out.borrowed],
        )
        info.instructions, info.closed = len(places), out.closed
        info.places, info.borrowed = len(pairs), len(out.borrowed)
        info.changes, info.loop_registers = len(changes), len(registers)
        number = self._lib.instrument_add_block(
            info,
            accesses,
            lanes,
            stops,
            borrowed,
            ffi.new("struct instrument_change[]", changes),
            ffi.new("struct instrument_loop_register[]", registers),
            code,
        )
        if number != len(self.blocks):
            raise CounteroofError(f"the engine's table of blocks is full ({number})")
        self.blocks.append(
            TranslatedBlock(
                block.address,
                host,
                size,
                tuple(decoded.instruction for decoded in body),
                tuple(places),
                masked,
                unsupported,
                native,
                info.first_access,
                tuple(at for at, decoded in enumerate(body) for _ in decoded.accesses if record.accesses),
                version,
            )
        )

    def _masks_written(self, block: Block) -> dict[int, bool]:
        """Return the opmask registers that the block changes."""
        written: dict[int, bool] = {}
        info = self._reader._info
        for decoded in block.body:
            for register in info.info(decoded.instruction).used_registers():
                if Register.K0 <= register.register <= Register.K7 and register.access not in (
                    OpAccess.READ,
                    OpAccess.COND_READ,
                ):
                    written[register.register] = True
        return written

    # ---- straight code ----

    def _emit_block(self, block: Block, region: Region, out: Output, version: Version) -> int:
        checked = version[2]
        body, used = self._fitting(block, checked)
        scratch = next(
            number for number in (15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 2, 1, 0) if not used >> number & 1
        )
        record = Record(written=self._wants_record(body))
        number = len(self.blocks)
        recording = (
            Recorder(
                record,
                scratch,
                addresses=self._detail != "flops",
                lanes_of=self._lanes_of,
                wide_masks=self._wide_masks,
            )
            if record.written
            else None
        )
        at = self._at
        places: list[int] = []
        masked: list[MaskedFlops] = []
        spill = at.spill + 8 * scratch
        start = 0
        if checked:
            self._check(block.address, _code(block, body, version), out)
        if recording:
            start = out.borrow(scratch, spill)
            out.add(emit.load_gs(scratch, at.buffer) + emit.store_immediate(scratch, 0, number))
        else:
            self._count(block, number, scratch, out)
        closed = block.closed and len(body) == len(block.body)
        for position, decoded in enumerate(body):
            if recording:
                after = recording.before(decoded, position, out, masked)
            if closed and position == len(body) - 1:
                break
            places.append(out.here)
            self._copy(decoded, out)
            if recording:
                recording.after(after, decoded, out)
        if recording:
            out.add(emit.add_constant(scratch, 8 * record.slots) + emit.store_gs(at.buffer, scratch))
        out.closed = closed
        if closed:
            places.append(out.here)
            self._emit_end(body[-1], number, scratch, start, out)
        else:
            if recording:
                out.give_back(start, scratch, spill)
            self._exit(body[-1].instruction.next_ip, out)
        return self._finish(block, body, region, out, record, places, None, tuple(masked), version)

    def _wants_record(self, body: list[Decoded]) -> bool:
        if self._detail != "flops" and any(decoded.accesses for decoded in body):
            return True
        return any(
            self._lanes_of(decoded.instruction)
            for decoded in body
            if decoded.instruction.op_mask != Register.NONE
        )

    def _fitting(self, block: Block, checked: bool) -> tuple[list[Decoded], int]:
        """Return as many instructions as leave two registers free, and as a record has room for.

        A block that is checked ends with a store: it may be one into the code that follows.
        """
        used, words, count = 1 << RSP, 1, 0
        for decoded in block.body:
            wider = used | decoded.used
            words += 1
            for access in decoded.accesses:
                words += 3 + extra_words(access)
            if count and (wider.bit_count() > 14 or words > MAX_SLOTS):
                break
            used = wider
            count += 1
            if checked and any(access.kind in (STORE, NON_TEMPORAL, UPDATE) for access in decoded.accesses):
                break
        return block.body[:count], used

    def _count(self, block: Block, number: int, scratch: int, out: Output) -> None:
        offset = self._at.counters + 8 * number
        if flags_dead_at_entry(block):
            out.add(emit.add_gs_one(offset))
            return
        spill = self._at.spill + 8 * scratch
        start = out.borrow(scratch, spill)
        out.add(
            emit.load_gs(scratch, offset) + emit.add_constant(scratch, 1) + emit.store_gs(offset, scratch)
        )
        out.give_back(start, scratch, spill)

    def _copy(self, decoded: Decoded, out: Output) -> None:
        """Emit the instruction itself, its RIP-relative operand made to point where it did."""
        instruction = decoded.instruction
        if decoded.code[0] == _F3 and instruction.mnemonic == Mnemonic.RDGSBASE:
            wide = instruction.code == ix.Code.RDGSBASE_R64
            register = instruction.op0_register - (Register.RAX if wide else Register.EAX)
            out.add((emit.load_gs if wide else emit.load_gs_half)(register, self._at.program_gs))
            return
        if _GS_PREFIX in decoded.code and is_relative_to_gs(instruction):
            self._copy_relative_to_gs(decoded, out)
            return
        if not decoded.rip_relative:
            out.add(decoded.code)
            return
        target = decoded.instruction.ip_rel_memory_address
        if abs(target - out.here) < NEAR:
            self._encoder.encode(decoded.instruction, out.here)
            out.add(self._encoder.take_buffer())
            return
        free = next(_unused(decoded))
        spill = self._at.scratch + 8
        moved = decoded.instruction.copy()
        moved.memory_base = iced_register(Register.RAX + free)
        moved.memory_displacement = 0
        moved.memory_displ_size = 0
        self._encoder.encode(moved, 0)
        start = out.borrow(free, spill)
        out.add(emit.load_immediate(free, target) + self._encoder.take_buffer())
        out.give_back(start, free, spill)

    def _copy_relative_to_gs(self, decoded: Decoded, out: Output) -> None:
        """Emit an instruction with the program's GS base, and what it has for a base, in a free register."""
        unused = _unused(decoded)
        free, other = next(unused), next(unused)
        spills = self._at.scratch + 8, self._at.scratch + 16
        starts = [out.borrow(register, at) for register, at in zip((free, other), spills, strict=True)]
        moved = self._absolute(decoded.instruction, free, other, out)
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

    # ---- ends of blocks ----

    def _exit(self, target: int, out: Output, opcode: bytes = b"\xe9") -> None:
        out.stubs.append((out.jump_place(opcode), target))

    def _emit_end(self, decoded: Decoded, number: int, scratch: int, borrowed: int, out: Output) -> None:
        """Emit the last instruction; the scratch register is ours since ``borrowed`` (0: it is not)."""
        instruction = decoded.instruction
        flow = instruction.flow_control
        at = self._at
        spill = at.spill + 8 * scratch
        if (
            flow in (FlowControl.INDIRECT_CALL, FlowControl.INDIRECT_BRANCH)
            and not instruction.is_jmp_far_indirect
        ):
            if instruction.op0_kind == OpKind.REGISTER:
                out.add(emit.store_gs(at.target, instruction.op0_register - Register.RAX))
            else:
                borrowed = borrowed or out.borrow(scratch, spill)
                if is_relative_to_gs(instruction):
                    other = next(number for number in _unused(decoded) if number != scratch)
                    begin = out.borrow(other, at.scratch + 8)
                    instruction = self._absolute(instruction, scratch, other, out)
                    out.give_back(begin, other, at.scratch + 8)
                load = ix.Instruction.create_reg_mem(
                    ix.Code.MOV_R64_RM64, iced_register(Register.RAX + scratch), _memory_operand(instruction)
                )
                if (
                    instruction.is_ip_rel_memory_operand
                    and abs(instruction.ip_rel_memory_address - out.here) >= NEAR
                ):
                    out.add(
                        emit.load_immediate(scratch, instruction.ip_rel_memory_address)
                        + emit.load(scratch, scratch, 0)
                    )
                else:
                    self._encoder.encode(load, out.here)
                    out.add(self._encoder.take_buffer())
                out.add(emit.store_gs(at.target, scratch))
            if borrowed:
                out.give_back(borrowed, scratch, spill)
            if flow == FlowControl.INDIRECT_CALL:
                out.add(emit.push_address(instruction.next_ip))
            self._dispatch(number, out)
            return
        if borrowed:
            out.give_back(borrowed, scratch, spill)
        if flow == FlowControl.CONDITIONAL_BRANCH:
            if instruction.is_jcc_short_or_near:
                self._exit(
                    instruction.near_branch_target,
                    out,
                    bytes((0x0F, 0x80 | _CONDITION[instruction.condition_code])),
                )
            else:  # loop, jrcxz: only a short form exists, so it jumps over the jump for "not taken"
                short = decoded.code[:-1] + b"\x08"  # room for up to 3 bytes of padding and 5 of jump
                out.add(short)
                start = len(out.code)
                self._exit(instruction.next_ip, out)
                out.add(b"\x90" * (start + 8 - len(out.code)))
                self._exit(instruction.near_branch_target, out)
                return
            self._exit(instruction.next_ip, out)
        elif flow == FlowControl.UNCONDITIONAL_BRANCH:
            self._exit(instruction.near_branch_target, out)
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
            self._exit(instruction.near_branch_target, out)
        elif flow == FlowControl.RETURN and instruction.mnemonic == Mnemonic.RET:
            out.add(emit.pop_gs(at.target))
            if instruction.op_count:
                out.add(emit.add_constant(RSP, instruction.immediate(0)))
            self._dispatch(number, out)
        elif flow == FlowControl.XBEGIN_XABORT_XEND:
            # A transaction that always aborts, with the status "no reason given": allowed by the
            # architecture.
            out.add(b"\xb8\0\0\0\0")
            self._exit(instruction.near_branch_target, out)
        elif flow in (FlowControl.EXCEPTION, FlowControl.INTERRUPT):
            out.add(decoded.code)
            out.resume = out.here
            self._exit(instruction.next_ip, out)
        else:
            out.add(b"\x0f\x0b")

    def _dispatch(self, number: int, out: Output) -> None:
        """Emit the jump to whatever ``target`` is; the block's number tells where it came from if that is
        nowhere."""
        out.add(emit.store_gs_half(self._at.source, number) + emit.jump_gs(self._at.dispatch))

    # ---- loops ----

    def _emit_loop(
        self, block: Block, loop: CountedLoop, region: Region, out: Output, version: Version
    ) -> int:
        at = self._at
        record = Record(written=True)
        slots = {register: record.reserve(2) for register in loop.registers}
        scratch = next(
            number for number in (15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 2, 1, 0) if number not in slots
        )
        number = len(self.blocks)
        spill = at.spill + 8 * scratch
        masked: list[MaskedFlops] = []
        opmasks: dict[int, int] = {}
        for position, decoded in enumerate(block.body):
            lanes = self._lanes_of(decoded.instruction) if decoded.instruction.op_mask != Register.NONE else 0
            if lanes:
                governing: int = decoded.instruction.op_mask
                opmasks.setdefault(governing, 0)
                masked.append(MaskedFlops(position, len(record.lanes)))
                record.lanes.append((governing, lanes, position))
        for entry in loop.accesses:
            if entry.access.form == MASKED:
                opmasks.setdefault(entry.access.mask, 0)
        written = self._masks_written(block)
        if any(written.get(mask) for mask in opmasks):
            return self._emit_block(block, region, out, version)
        for mask in tuple(opmasks):
            opmasks[mask] = record.reserve(1)
        record.lanes = [(opmasks[mask], lanes, position) for mask, lanes, position in record.lanes]
        start = out.borrow(scratch, spill)
        out.add(emit.load_gs(scratch, at.buffer) + emit.store_immediate(scratch, 0, number))
        if opmasks:  # stores of masks must not meet the end of the chunk: a plain store goes there first
            out.add(emit.store_immediate(scratch, 8 * (record.slots - 1), 0))
            for mask, slot in opmasks.items():
                out.add(emit.store_opmask(scratch, 8 * slot, mask - Register.K0, self._wide_masks))
        for register, slot in slots.items():
            out.add(emit.store(scratch, 8 * slot, register))
        out.give_back(start, scratch, spill)
        head = out.here
        places = []
        for decoded in block.body[:-1]:
            places.append(out.here)
            self._copy(decoded, out)
        last = block.body[-1].instruction
        places.append(out.here)
        out.add(emit.conditional_jump(_CONDITION[last.condition_code], head - out.here - 6))
        start = out.borrow(scratch, spill)
        out.add(emit.load_gs(scratch, at.buffer))
        for register, slot in slots.items():
            out.add(emit.store(scratch, 8 * slot + 8, register))
        out.add(emit.add_constant(scratch, 8 * record.slots) + emit.store_gs(at.buffer, scratch))
        out.give_back(start, scratch, spill)
        self._exit(last.next_ip, out)
        for entry in loop.accesses:
            access = entry.access
            record.accesses.append(
                (
                    entry.displacement,
                    access.bytes,
                    access.kind,
                    access.form,
                    slots.get(entry.base, 0),
                    slots.get(entry.index, 0),
                    entry.scale,
                    access.lanes,
                    opmasks.get(access.mask, 0) if access.form == MASKED else 0,
                    0,
                    0,
                    0,
                    0,
                    access.broadcast,
                    access.segment,
                    entry.position,
                )
            )
        return self._finish(
            block, block.body, region, out, record, places, (loop, slots), tuple(masked), version
        )

    # ---- finishing ----

    def _finish(
        self,
        block: Block,
        body: list[Decoded],
        region: Region,
        out: Output,
        record: Record,
        places: list[int],
        loop: tuple[CountedLoop, dict[int, int]] | None,
        masked: tuple[MaskedFlops, ...],
        version: Version,
    ) -> int:
        at, host = self._at, out.address
        self._hosts[block.address] = host
        for place, target in out.stubs:
            known = self._hosts.get(target)
            if known is not None and abs(known - place) < NEAR:
                out.set_displacement(place, known)
                continue
            out.set_displacement(place, out.here)
            out.add(emit.store_gs_address(at.target, target) + emit.jump_gs(at.dispatch))
            if known is None:
                self._pending.setdefault(target, []).append(place)
        number = len(self.blocks)
        self._end_check(block.address, number, out)
        self._cache.place(region, out.code)
        self._register(block, out, len(out.code), record, body, places, loop, masked=masked, version=version)
        self._link(block.address, host, number)
        return host

    def _native_call(self, guest: int, native: NativeFunction) -> int:
        """Emit a call of a function that runs natively, and count it; functions it is passed become entries.

        Its return address must lead back into translated code, so the original one waits on a stack of its
        own.
        """
        at = self._at
        rax = 0
        save, restore = emit.store_gs(at.scratch, rax), emit.load_gs(rax, at.scratch)
        # a function's entry needs no flags (psABI, section 3.2.1)
        code = emit.add_gs_one(at.counters + 8 * len(self.blocks))
        code += emit.call_gs(at.hook) if native.calls_back else b""
        code += save + emit.load_gs(rax, at.native_call)
        code += b"\x8f\x40\x08" + b"\x48\x89\x20"  # pop [rax + 8]; mov [rax], rsp
        code += emit.add_constant(rax, 16) + emit.store_gs(at.native_call, rax) + restore
        code += b"\xff\x15\x02\x00\x00\x00\xeb\x08" + struct.pack(
            "<Q", guest
        )  # call [rip + 2]; jmp over the address
        code += (
            save
            + emit.load_gs(rax, at.native_call)
            + emit.add_constant(rax, -16)
            + emit.store_gs(at.native_call, rax)
        )
        # push [rax + 8]
        code += b"\xff\x70\x08" + emit.pop_gs(at.target) + restore
        code += emit.jump_gs(at.after_native if native.changes_process else at.dispatch)
        host = self._cache.place(self._cache.region(guest), code)
        number = len(self.blocks)
        self._register(Block(guest), Output(host), len(code), Record(0), (), [], None, native=native.name)
        self._link(guest, host, number)
        return host


def _code(block: Block, body: Sequence[Decoded], version: Version) -> bytes:
    """Return the code of as many instructions as became part of a translation."""
    return version[1] if len(body) == len(block.body) else b"".join(decoded.code for decoded in body)


def _unused(decoded: Decoded) -> Iterator[int]:
    """Yield the registers that an instruction does not use."""
    return (
        number
        for number in (15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 2, 1, 0)
        if not decoded.used >> number & 1
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
