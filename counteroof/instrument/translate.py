"""Blocks of original code to instrumented code in the code cache.

In detail ``bytes`` every execution of a block writes one record: the block's number and the values of the
registers its addresses are made of, each once. Sizes, kinds, displacements and FLOPs are the block's and
known beforehand. Detail ``lines`` is the same here; only the consumer then tells the model whose each access
is. In detail ``flops`` a block adds one to a counter. See ``csrc/instrument/`` for what happens to records.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import iced_x86 as ix
from iced_x86 import Register

from ..errors import CounteroofError
from . import emit
from .check import begin_check, end_check
from .code_cache import NEAR, CodeCache, Output, Region
from .decode import (
    MASKED,
    NON_TEMPORAL,
    RSP,
    STORE,
    UPDATE,
    Block,
    Encoding,
    Reader,
    flags_dead_at_entry,
)
from .ends import CONDITION, end_block, leave_to
from .loops import CountedLoop, counted_loop, is_self_loop
from .native_code import NativeCode, NativeFunction
from .operands import Operands
from .record import MAX_SLOTS, MaskedFlops, Record, Recorder

Detail = Literal["flops", "bytes", "lines"]

LONGEST = 15
"""Bytes of an instruction (Intel SDM volume 2, section 2.3.11)."""
Version = tuple[int, bytes, bool, bool]
"""What a block was translated from: address, code, whether the block checks that this is the same, and
whether the program may write it."""

WILD = 1
"""In place of a translated address: there is no code at the original one."""

STALE = 1024
"""As many stale blocks are taken note of at once."""


@dataclass(slots=True)
class TranslatedBlock:
    """What is remembered of a block: enough to count with, and to tell original from translated addresses."""

    guest: int
    host: int
    size: int
    instructions: tuple[ix.Instruction, ...]
    places: tuple[int, ...]
    """Offsets from ``host`` and ``guest`` where each instruction begins, in turns."""
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
        self._operands = Operands(layout)
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
                offset = host - block.host
                position = max((i for i, place in enumerate(block.places[::2]) if place <= offset), default=0)
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
        while count := self._lib.instrument_take_stale(self._stale, STALE):
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
        block, code, checked, writable = self._read(guest)
        if not code:
            return WILD
        version = guest, code, checked, writable
        number = self._versions.pop(version, None)
        if number is not None and self._lib.instrument_revive(number):
            self._link(guest, self.blocks[number].host, number)
            return self.blocks[number].host
        region = self._cache.region(guest)
        out = Output(region.position)
        if not block.body:
            return self._unsupported(block, version, region, out)
        if is_self_loop(block) and not checked:
            loop = counted_loop(block, _masks_written(block), self._detail)
            if loop is not None:
                return self._emit_loop(block, loop, region, out, version)
        return self._emit_block(block, region, out, version)

    def _read(self, guest: int) -> tuple[Block, bytes, bool, bool]:
        """Return a block, its code, whether it has to check that this is still the same, and whether the
        program may write it.

        From then on the runtime notices when somebody writes there.
        """
        while True:
            block = self._reader.block(guest)
            code = block.code
            if not code and block.readable:
                code = self._cache.read(guest, LONGEST)
            if not code:
                return block, code, False, False
            found = self._lib.instrument_watch(guest, len(code))
            if found < 0:
                raise MemoryError("no memory to watch original code")
            if not found & 2:
                return block, code, bool(found & 1), bool(found & 4)

    def _unsupported(self, block: Block, version: Version, region: Region, out: Output) -> int:
        """Emit a trap for code that cannot be run; it matters only if it is reached."""
        number = len(self.blocks)
        if version[2]:
            begin_check(self._at, block.address, version[1], out)
        size = len(out.code) + 2
        out.add(b"\x0f\x0b" + bytes(6))
        end_check(self._at, block.address, number, out)
        host = self._cache.place(region, out.code)
        self._register(
            block, out, size, Record(0), [], None, unsupported=block.bad, code=version[1], version=version
        )
        self._link(block.address, host, number)
        return host

    def _register(
        self,
        block: Block,
        out: Output,
        size: int,
        record: Record,
        places: list[int],
        loop: tuple[CountedLoop, dict[int, int]] | None,
        unsupported: str | None = None,
        masked: tuple[MaskedFlops, ...] = (),
        native: str | None = None,
        code: bytes = b"",
        version: Version | None = None,
    ) -> None:
        host, guest = out.address, block.address
        changes: list[tuple[Any, ...]] = []
        registers: list[tuple[int, int]] = []
        described = {
            "guest": guest,
            "host": host,
            "host_bytes": size,
            "slots": record.slots if record.written else 0,
            "accesses": len(record.accesses),
            "lane_groups": len(record.lanes),
            "unsupported": unsupported is not None,
            "guest_bytes": len(code),
            "checked": bool(version and version[2]),
            "first_access": self._accesses + 1,
            "instructions": len(block.instructions),
            "closed": out.closed,
            "borrowed": len(out.borrowed),
        }
        if loop:
            counted, slots = loop
            counter = slots[counted.counter]
            registers = list(slots.items())
            for change in counted.changes:
                terms, coefficients = zip(*change.terms, strict=True) if change.terms else ((), ())
                changes.append(
                    (change.constant, coefficients, terms, change.register, change.narrow, change.place)
                )
            described |= {
                "loop": 1,
                "counter_start": counter,
                "counter_end": counter + 1,
                "counter_step": counted.counter_step,
                "counter_bits": counted.counter_bits,
                "changes": len(changes),
                "loop_registers": len(registers),
            }
        resume = [out.resume - host, len(block.code)] if out.resume else []
        described["places"] = (len(places) + len(resume)) // 2
        borrowed = [
            (start - host, end - host, register, offset) for start, end, register, offset in out.borrowed
        ]
        first_access = self._accesses + 1
        self._accesses += len(record.accesses)
        # The tuples have the order of the structs' members; cffi copies them much faster than one by one.
        number = self._lib.instrument_add_block(
            [described], record.accesses, record.lanes, places + resume, borrowed, changes, registers, code
        )
        if number != len(self.blocks):
            raise CounteroofError(f"the engine's table of blocks is full ({number})")
        self.blocks.append(
            TranslatedBlock(
                block.address,
                host,
                size,
                tuple(block.instructions),
                tuple(places),
                masked,
                unsupported,
                native,
                first_access,
                tuple([access[-1] for access in record.accesses]),
                version,
            )
        )

    # ---- straight code ----

    def _emit_block(self, block: Block, region: Region, out: Output, version: Version) -> int:
        checked, writable = version[2:]
        block, used = self._fitting(block, checked)
        scratch = next(
            number for number in (15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 2, 1, 0) if not used >> number & 1
        )
        record = Record(written=self._wants_record(block))
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
            begin_check(self._at, block.address, block.code, out)
        if recording:
            start = out.borrow(scratch, spill)
            out.add(emit.load_gs(scratch, at.buffer) + emit.store_immediate(scratch, 0, number))
        else:
            self._count(_up_to_store(block) if writable else block.instructions, number, scratch, out)
        code, copy = out.code, self._operands.copy
        last = len(block.body) - 1 if block.closed else -1
        parts = zip(block.instructions, block.body, block.offsets, strict=True)
        for position, (instruction, encoding, offset) in enumerate(parts):
            late: list[tuple[int, int]] = []
            if recording:
                if encoding.accesses or encoding.op_mask:
                    late = recording.before(instruction, encoding, position, out, masked)
                if encoding.steps:
                    recording.step(encoding.steps)
            if position == last:
                break
            places += (len(code), offset)
            if encoding.movable:
                code += encoding.code
            else:
                copy(instruction, encoding.used, out)
            if recording and late:
                recording.after(late, out)
        if recording:
            out.add(emit.add_constant(scratch, 8 * record.slots) + emit.store_gs(at.buffer, scratch))
        out.closed = block.closed
        if block.closed:
            places += (len(code), block.offsets[-1])
            end_block(at, self._operands, block, number, scratch, start, out)
        else:
            if recording:
                out.give_back(start, scratch, spill)
            leave_to(block.next_address, out)
        return self._finish(block, region, out, record, places, None, tuple(masked), version)

    def _wants_record(self, block: Block) -> bool:
        addresses = self._detail != "flops"
        for instruction, encoding in zip(block.instructions, block.body, strict=True):
            if (addresses and encoding.accesses) or (encoding.op_mask and self._lanes_of(instruction)):
                return True
        return False

    def _fitting(self, block: Block, checked: bool) -> tuple[Block, int]:
        """Return as many instructions as leave two registers free, and as a record has room for.

        A block that is checked ends with a store: it may be one into the code that follows.
        """
        used, words, count = 1 << RSP, 1, 0
        for encoding in block.body:
            wider = used | encoding.used
            words += encoding.words
            if count and (wider.bit_count() > 14 or words > MAX_SLOTS):
                break
            used = wider
            count += 1
            if checked and _stores(encoding):
                break
        return (block if count == len(block.body) else self._reader.cut(block, count)), used

    def _count(self, unchanging: Sequence[ix.Instruction], number: int, scratch: int, out: Output) -> None:
        """Add one to the block's counter; the block runs these instructions, but then perhaps others."""
        offset = self._at.counters + 8 * number
        if flags_dead_at_entry(unchanging):
            out.add(emit.add_gs_one(offset))
            return
        spill = self._at.spill + 8 * scratch
        start = out.borrow(scratch, spill)
        out.add(
            emit.load_gs(scratch, offset) + emit.add_constant(scratch, 1) + emit.store_gs(offset, scratch)
        )
        out.give_back(start, scratch, spill)

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
        for position, encoding in enumerate(block.body):
            governing = encoding.op_mask
            lanes = self._lanes_of(block.instructions[position]) if governing else 0
            if lanes:
                opmasks.setdefault(governing, 0)
                masked.append(MaskedFlops(position, len(record.lanes)))
                record.lanes.append((governing, lanes, position))
        for entry in loop.accesses:
            if entry.access.form == MASKED:
                opmasks.setdefault(entry.access.mask, 0)
        if not _masks_written(block).isdisjoint(opmasks):
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
        places: list[int] = []
        for instruction, encoding, offset in zip(
            block.instructions[:-1], block.body, block.offsets, strict=False
        ):
            places += (len(out.code), offset)
            if encoding.movable:
                out.add(encoding.code)
            else:
                self._operands.copy(instruction, encoding.used, out)
        last = block.instructions[-1]
        places += (len(out.code), block.offsets[-1])
        out.add(emit.conditional_jump(CONDITION[last.condition_code], head - out.here - 6))
        start = out.borrow(scratch, spill)
        out.add(emit.load_gs(scratch, at.buffer))
        for register, slot in slots.items():
            out.add(emit.store(scratch, 8 * slot + 8, register))
        out.add(emit.add_constant(scratch, 8 * record.slots) + emit.store_gs(at.buffer, scratch))
        out.give_back(start, scratch, spill)
        leave_to(last.next_ip, out)
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
        return self._finish(block, region, out, record, places, (loop, slots), tuple(masked), version)

    # ---- finishing ----

    def _finish(
        self,
        block: Block,
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
        end_check(self._at, block.address, number, out)
        self._cache.place(region, out.code)
        self._register(
            block,
            out,
            len(out.code),
            record,
            places,
            loop,
            masked=masked,
            code=block.code,
            version=version,
        )
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
        self._register(Block(guest), Output(host), len(code), Record(0), [], None, native=native.name)
        self._link(guest, host, number)
        return host


def _masks_written(block: Block) -> frozenset[int]:
    """Return the opmask registers that a block changes."""
    return frozenset().union(*[encoding.masks_written for encoding in block.body])


def _stores(encoding: Encoding) -> bool:
    return any(access.kind in (STORE, NON_TEMPORAL, UPDATE) for access in encoding.accesses)


def _up_to_store(block: Block) -> Sequence[ix.Instruction]:
    """Return what runs in any case: a store may change the instructions after it."""
    stores = (number for number, encoding in enumerate(block.body, 1) if _stores(encoding))
    return block.instructions[: next(stores, len(block.body))]
