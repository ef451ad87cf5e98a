"""Writes the random code of one block: instructions, their operands and addresses.

How it stays valid: some registers are *pinned*, which means that their values are known well enough to be
part of an address, and nothing writes them. ``ptr`` points near the middle of the scratch area, 64-byte
aligned; ``idx`` is a multiple of 64 from -256 to 256; ``small`` is 0 to 31; ``count`` and ``saved`` belong to
a pattern. Inside loops, branches and calls what is pinned stays pinned: the code after them relies on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

from iced_x86 import Code, Instruction, MemoryOperand, OpKind, Register, RoundingControl

from tests.instrument import asm_patterns
from tests.instrument.asm_assembler import Assembly, Item
from tests.instrument.asm_codes import BY_BITS, GPR8_HIGH, GPR32, REGISTER_CLASSES, Operand, Plan, plans
from tests.instrument.asm_image import GPRS, RSP, SCRATCH_BYTES
from tests.instrument.asm_native import Arena

FRAME_BYTES = 512
"""How far above its first stack pointer a block may write."""

_ROUNDINGS = (
    RoundingControl.ROUND_TO_NEAREST,
    RoundingControl.ROUND_DOWN,
    RoundingControl.ROUND_UP,
    RoundingControl.ROUND_TOWARD_ZERO,
)


@dataclass(frozen=True)
class Options:
    """What blocks are made of.

    Attributes
    ----------
    length
        Fewest and most items of a block's main sequence.
    groups
        Weight of each group of instructions; those this processor lacks are left out.
    patterns
        Share of items that are patterns.
    faults
        Share of blocks that fault on purpose: wild loads and stores, division by zero, ``ud2`` ...
    """

    length: tuple[int, int] = (4, 40)
    groups: Mapping[str, int] = field(
        default_factory=lambda: {"integer": 40, "avx512": 20, "avx": 12, "sse": 12, "x87": 8, "mmx": 4}
    )
    patterns: float = 0.2
    faults: float = 0.05


DEFAULT = Options()


class Generator:
    """Writes one block: random decisions, the code so far, and what is known of the registers."""

    def __init__(self, seed: int, arena: Arena, options: Options, address: int) -> None:
        self.rng = random.Random(seed)
        self.arena = arena
        self.options = options
        self.assembly = Assembly(address)
        self.tail: list[Item] = []
        """Subroutines and tables, behind the main code."""
        self.labels = 0
        self.depth = 0
        self.pins: dict[int, str] = {}
        self.frozen: frozenset[int] = frozenset()
        self.frame = FRAME_BYTES
        """Bytes above the stack pointer that may be written."""
        self.low = arena.base < 2**31
        names = [name for name in options.groups if name in plans()]
        self.groups = [tuple(plans()[name].values()) for name in names]
        self.weights = tuple(accumulate(options.groups[name] for name in names))
        self.registers = self._pin_at_start()

    def _pin_at_start(self) -> tuple[tuple[int, int], ...]:
        order = [number for number in range(16) if number != RSP]
        self.rng.shuffle(order)
        if self.rng.random() < 0.7:  # leave free what strings, division and shifts need
            order.sort(key=lambda number: number in (0, 1, 2, 6, 7))
        middle = self.arena.scratch + SCRATCH_BYTES // 2
        values: list[tuple[int, int]] = []
        for number in order[:3]:
            self.pins[number] = "ptr"
            values.append((number, middle + 64 * self.rng.randint(-8, 8)))
        for number in order[3:5]:
            self.pins[number] = "idx"
            values.append((number, 64 * self.rng.randint(-4, 4)))
        self.pins[order[5]] = "small"
        values.append((order[5], self.rng.randrange(32)))
        return tuple(values)

    # ---- registers -------------------------------------------------------------------------------

    def free(self) -> list[int]:
        """Return the numbers of the general registers that may be written."""
        return [number for number in range(16) if number not in self.pins and number != RSP]

    def free_register(self, *avoid: int) -> int:
        """Return one of them, as a number."""
        return self.rng.choice([number for number in self.free() if number not in avoid])

    def any_register(self) -> int:
        """Return the number of any general register; the stack pointer seldom."""
        number = self.rng.randrange(16)
        return number if number != RSP or self.rng.random() < 0.2 else 0

    def pinned(self, kind: str) -> list[int]:
        """Return the numbers of the registers pinned as a kind."""
        return [number for number, pin in self.pins.items() if pin == kind]

    @contextmanager
    def scope(self, *, frame: int | None = None, **pins: int) -> Iterator[None]:
        """Return to what is pinned now at the end, whatever the code inside pins; nothing may unpin it."""
        before = dict(self.pins), self.frozen, self.frame
        self.pins.update({number: kind for kind, number in pins.items()})
        self.frozen = frozenset(self.pins)
        if frame is not None:
            self.frame = frame
        self.depth += 1
        yield
        self.depth -= 1
        self.pins, self.frozen, self.frame = before

    # ---- code ------------------------------------------------------------------------------------

    def label(self) -> int:
        """Return a new label."""
        self.labels += 1
        return self.labels

    def emit(self, instruction: Instruction) -> None:
        """Append an instruction that others rely on."""
        self.assembly.add(instruction)

    def rr(self, code: int, *registers: int) -> None:
        """Append an instruction of one to three registers."""
        make = (Instruction.create_reg, Instruction.create_reg_reg, Instruction.create_reg_reg_reg)
        self.emit(make[len(registers) - 1](code, *registers))

    def ri(self, code: int, register: int, value: int) -> None:
        """Append an instruction of a register and an immediate."""
        self.emit(Instruction.create_reg_i32(code, register, value))

    def ri64(self, number: int, value: int) -> None:
        """Load a register with a 64-bit number."""
        self.emit(Instruction.create_reg_u64(Code.MOV_R64_IMM64, GPRS[number], value))

    def lea(self, number: int, address: int) -> None:
        """Load a register with an address of the arena."""
        memory = MemoryOperand(Register.RIP, displ=address, displ_size=8)
        self.emit(Instruction.create_reg_mem(Code.LEA_R64_M, GPRS[number], memory))

    def lea_label(self, number: int, label: int) -> None:
        """Load a register with the address of a label."""
        memory = MemoryOperand(Register.RIP, displ=self.assembly.near, displ_size=8)
        self.assembly.reference(Instruction.create_reg_mem(Code.LEA_R64_M, GPRS[number], memory), label)

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Write to the place behind the main code: subroutines and tables."""
        main, self.assembly = self.assembly, Assembly(self.assembly.near)
        yield
        self.tail += self.assembly.items
        self.assembly = main

    def sequence(self, count: int) -> None:
        """Append random items."""
        for _ in range(count):
            if self.rng.random() < self.options.patterns and self.depth < 5 and len(self.free()) > 4:
                asm_patterns.pick(self.rng)(self)
            else:
                self.random_instruction()

    def straight(self, count: int) -> None:
        """Append random instructions, no patterns: short enough for 8-bit branches."""
        for _ in range(count):
            self.random_instruction()

    # ---- random instructions ---------------------------------------------------------------------

    def random_instruction(self) -> None:
        """Append one random instruction of this processor."""
        rng = self.rng
        while True:
            group = rng.choices(self.groups, cum_weights=self.weights)[0]
            plan = rng.choice(rng.choice(group))
            instruction = self.make(plan)
            if instruction is None:
                continue
            try:
                self.assembly.add(instruction, removable=True)
            except ValueError:  # AH to DH with a REX prefix, and the like
                continue
            return

    def make(self, plan: Plan, address: int | None = None) -> Instruction | None:
        """Return a random instruction of a plan, or None if a register it needs is pinned.

        ``address``: where its memory operand has to be; else somewhere in the arena, if it has one.
        """
        if any(number in self.pins for number in plan.implicit):
            return None
        rng = self.rng
        instruction = Instruction()
        instruction.code = plan.code
        memory = -1
        used: list[int] = []
        for i, operand in enumerate(plan.operands):
            may_be_memory = operand.memory and not (
                plan.name.startswith("BT") and plan.operands[1].kind[:3] == "gpr"
            )
            if operand.kind == "memory" or (may_be_memory and (address is not None or rng.random() < 0.45)):
                memory = i
                instruction.set_op_kind(i, OpKind.MEMORY)
            elif operand.kind == "immediate":
                self._set_immediate(instruction, i, operand)
            else:
                self._set_register(instruction, i, operand, plan, used)
        if plan.maskable and (plan.needs_mask or rng.random() < 0.6):
            instruction.op_mask = Register.K1 + rng.randrange(7)
            instruction.zeroing_masking = plan.zeroing and memory != 0 and rng.random() < 0.4
        if memory < 0:
            if plan.rounding and rng.random() < 0.3:
                instruction.rounding_control = rng.choice(_ROUNDINGS)
            elif plan.sae and rng.random() < 0.3:
                instruction.suppress_all_exceptions = True
            return instruction
        size, alignment = plan.size, plan.alignment
        written = plan.operands[memory].written
        if plan.broadcast_size and rng.random() < 0.4:
            instruction.is_broadcast = True
            size = plan.broadcast_size
            alignment = 1
        if plan.name == "XCHG" or (plan.lock and memory == 0 and rng.random() < 0.5):
            instruction.has_lock_prefix = plan.lock
            alignment = max(alignment, size)
        if plan.operands[memory].value:  # a 64-bit absolute address
            self._set_absolute(instruction, size)
        elif address is not None:
            self.set_memory(instruction, Register.RIP, displacement=address)
        elif not plan.accesses:
            self._set_any_address(instruction)
        else:
            self.choose_address(instruction, size or 64, alignment, written=written)
        return instruction

    def _set_register(
        self, instruction: Instruction, i: int, operand: Operand, plan: Plan, used: list[int]
    ) -> None:
        rng = self.rng
        kind = operand.kind
        if kind == "fixed":
            register = operand.value
        elif kind.startswith("gpr"):
            number = rng.choice(self.free()) if operand.written else self.any_register()
            bits = int(kind[3:])
            register = BY_BITS[bits][number]
            if bits == 8 and number < 4 and rng.random() < 0.2:
                register = GPR8_HIGH[number]
        elif kind == "pair":
            register = Register.K0 + 2 * rng.randrange(4)
        else:
            first, count = REGISTER_CLASSES[kind]
            register = first + rng.randrange(plan.vectors if count == 16 else count)
            if plan.unique:
                while register in used:
                    register = first + rng.randrange(plan.vectors if count == 16 else count)
                used.append(register)
        instruction.set_op_register(i, register)

    def _set_immediate(self, instruction: Instruction, i: int, operand: Operand) -> None:
        instruction.set_op_kind(i, operand.value)
        bits = operand.bits
        if bits == 0:
            instruction.set_immediate_i32(i, 1)
        elif bits < 0:
            instruction.set_immediate_i64(i, self.rng.randrange(-(1 << -bits - 1), 1 << -bits - 1))
        elif bits == 64:
            instruction.set_immediate_u64(i, self.rng.getrandbits(64))
        else:
            instruction.set_immediate_u32(i, self.rng.getrandbits(bits))

    # ---- addresses -------------------------------------------------------------------------------

    def set_memory(
        self,
        instruction: Instruction,
        base: int,
        index: int = Register.NONE,
        scale: int = 1,
        displacement: int = 0,
        size: int = 8,
    ) -> None:
        """Set the memory operand; ``size`` 1 takes the shortest displacement that holds it, 0 none."""
        instruction.memory_base = base
        instruction.memory_index = index
        instruction.memory_index_scale = scale
        instruction.memory_displ_size = size
        instruction.memory_displacement = displacement & (2**64 - 1)

    def choose_address(self, instruction: Instruction, size: int, alignment: int, *, written: bool) -> None:
        """Set the memory operand to a random place in the arena, addressed in a random way."""
        rng = self.rng
        if alignment == 1 and rng.random() < 0.3:
            alignment = 8
        displacement = rng.randrange(-1024, 1024) // alignment * alignment
        form = rng.randrange(16)
        if form < 2:
            target = self.arena.scratch + SCRATCH_BYTES // 2 + displacement
            register = Register.EIP if self.low and rng.random() < 0.1 else Register.RIP
            self.set_memory(
                instruction, register, displacement=target, size=4 if register == Register.EIP else 8
            )
            return
        if form < 4 and alignment <= 8 and self._stack_address(instruction, size, written=written):
            return
        pointer = rng.choice(self.pinned("ptr"))
        indices = self.pinned("idx") + (self.pinned("small") if alignment == 1 else [])
        index = rng.choice(indices) if indices and form < 12 else None
        absolute = self.low and form in (4, 5)
        registers = GPR32 if self.low and rng.random() < 0.15 else GPRS
        wide = 4 if registers is GPR32 else 8
        scale = rng.choice((1, 2, 4, 8))
        if absolute:
            displacement += self.arena.scratch + SCRATCH_BYTES // 2
            base = Register.NONE
            displacement_size = wide
        else:
            base = registers[pointer]
            short = -128 <= displacement < 128
            displacement_size = 1 if short and rng.random() < 0.9 else wide
        if rng.random() < 0.15 and not absolute:
            displacement = 0
            displacement_size = 0 if pointer & 7 != 5 else 1
        named = registers[index] if index is not None else Register.NONE
        if index is not None and scale == 1 and not absolute and rng.random() < 0.3:
            base, named = named, base
            if displacement_size == 0:
                displacement_size = 1
        if registers is GPR32:
            displacement &= 2**32 - 1
            if displacement_size == 1 and displacement >= 128:
                displacement_size = 4
        self.set_memory(instruction, base, named, scale, displacement, displacement_size)
        if rng.random() < 0.05:  # overrides that 64-bit mode ignores
            instruction.segment_prefix = rng.choice((Register.CS, Register.DS, Register.ES, Register.SS))

    def _stack_address(self, instruction: Instruction, size: int, *, written: bool) -> bool:
        """Address the stack, the red zone too; False if there is no place for the access."""
        top = min(self.frame, FRAME_BYTES) if written else FRAME_BYTES
        choices = []
        if size <= 128:
            choices.append(self.rng.randrange(-128, -size + 1))
        if size <= top:
            choices.append(self.rng.randrange(0, top - size + 1))
        if not choices:
            return False
        displacement = self.rng.choice(choices)
        short = -128 <= displacement < 128
        self.set_memory(instruction, Register.RSP, displacement=displacement, size=1 if short else 8)
        return True

    def _set_absolute(self, instruction: Instruction, size: int) -> None:
        target = self.arena.scratch + self.rng.randrange(SCRATCH_BYTES - size)
        self.set_memory(instruction, Register.NONE, displacement=target, size=8)

    def _set_any_address(self, instruction: Instruction) -> None:
        """Set an address nothing is read from."""
        rng = self.rng
        registers = GPRS if rng.random() < 0.8 else GPR32
        base = registers[rng.randrange(16)] if rng.random() < 0.9 else Register.NONE
        number = rng.randrange(16)
        index = registers[number] if number != RSP and rng.random() < 0.7 else Register.NONE
        wide = 8 if registers is GPRS else 4
        value = rng.randrange(-128, 128) if rng.random() < 0.5 else rng.randrange(-(2**31), 2**31)
        short = -128 <= value < 128 and base != Register.NONE
        if wide == 4:
            value &= 2**32 - 1
            short = short and value < 128
        self.set_memory(instruction, base, index, rng.choice((1, 2, 4, 8)), value, 1 if short else wide)
