"""Loops of one block whose addresses advance by a constant: one record stands for all their iterations.

The registers that addresses are made of are followed symbolically through one iteration, as sums over the
values they had at its start. Where every such register either stays the same or grows by something that does
not change
in the loop, first and last values tell all addresses, and a register with a constant step tells the number of
iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from .decode import MASKED, PLAIN, Access, Block

Sum = tuple[int, tuple[tuple[int, int], ...]]
"""A constant, and (register, coefficient) pairs sorted by register; values at the start of the iteration."""

MAX_STREAMS = 250


@dataclass(frozen=True, slots=True)
class LoopAccess:
    """An access of the loop with its address in terms of registers at the start of an iteration."""

    access: Access
    base: int
    index: int
    scale: int
    displacement: int
    position: int
    """Of its instruction in the block."""


@dataclass(frozen=True, slots=True)
class Change:
    """What the instruction at a place adds to a recorded register: a constant, and multiples of registers
    that do not change in the loop."""

    place: int
    register: int
    constant: int
    terms: tuple[tuple[int, int], ...]
    narrow: bool


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """A loop that can be recorded at its ends."""

    accesses: tuple[LoopAccess, ...]
    registers: tuple[int, ...]
    """All registers whose first and last values are needed; the counting register is among them."""
    counter: int
    counter_step: int
    counter_bits: int
    changes: tuple[Change, ...]
    """By these the registers at the start of an iteration follow from those in the middle of it."""


def is_self_loop(block: Block) -> bool:
    """Tell whether the block ends in a conditional jump to its own start."""
    if not block.closed:
        return False
    last = block.instructions[-1]
    return last.near_branch_target == block.address and bool(last.is_jcc_short_or_near)


def _scaled(value: Sum, factor: int) -> Sum:
    if factor == 1:
        return value
    return value[0] * factor, tuple((register, coefficient * factor) for register, coefficient in value[1])


def _added(a: Sum, b: Sum) -> Sum:
    if not a[1] or not b[1]:
        return a[0] + b[0], a[1] or b[1]
    terms = dict(a[1])
    for register, coefficient in b[1]:
        terms[register] = terms.get(register, 0) + coefficient
    return a[0] + b[0], tuple(sorted((r, c) for r, c in terms.items() if c))


def counted_loop(block: Block, masks_written: Set[int], detail: str) -> CountedLoop | None:
    """Return how to record the loop at its ends, or ``None`` if its addresses do not advance evenly.

    Parameters
    ----------
    block
        A block for which :func:`is_self_loop` holds.
    masks_written
        The iced-x86 opmask registers that the loop changes.
    detail
        ``flops`` needs the number of iterations alone.
    """
    values: dict[int, Sum | None] = {number: (0, ((number, 1),)) for number in range(16)}
    narrow: dict[int, int] = {}
    spoilt: set[int] = set()
    found: list[tuple[Access, Sum, int]] = []
    for position, encoding in enumerate(block.body):
        for access in encoding.accesses if detail != "flops" else ():
            if access.form not in (PLAIN, MASKED) or access.mask_bytes or access.address32:
                return None
            if access.form == MASKED and access.mask in masks_written:
                return None
            address: Sum | None = (access.displacement, ())
            for register, factor in ((access.base, 1), (access.index, 1 << access.scale)):
                if register >= 0 and address is not None:
                    value = values[register]
                    address = _added(address, _scaled(value, factor)) if value is not None else None
            if address is None:
                return None
            found.append((access, address, position))
        updates: dict[int, Sum | None] = {}
        for step in encoding.steps:
            total: Sum | None = None
            if step.known:
                total = (step.constant, ())
                for register, factor in step.terms:
                    value = values[register]
                    total = (
                        _added(total, _scaled(value, factor))
                        if total is not None and value is not None
                        else None
                    )
            updates[step.register] = total
            if step.narrow is not None:
                narrow[step.register] = narrow.get(step.register, 0) + step.narrow
            else:
                spoilt.add(step.register)
        values.update(updates)
    steady = {number for number in range(16) if values[number] == (0, ((number, 1),))}

    def advances(register: int) -> bool:
        value = values[register]
        if value is None:
            return False
        terms = dict(value[1])
        return terms.pop(register, 0) == 1 and all(other in steady for other in terms)

    accesses = []
    registers: set[int] = set()
    for access, (constant, terms), position in found:
        shape = _base_and_index(terms)
        if (
            shape is None
            or not all(advances(register) for register, _ in terms)
            or not -(1 << 62) < constant < 1 << 62
        ):
            return None
        base, index, scale = shape
        accesses.append(LoopAccess(access, base, index, scale, constant, position))
        registers |= {register for register, _ in terms}
    if len(accesses) > MAX_STREAMS:
        return None
    counters = []
    for register in sorted(set(range(16)) - steady, key=lambda number: (number not in registers, number)):
        value = values[register]
        if value is not None and value[1] == ((register, 1),) and value[0] and abs(value[0]) < 1 << 31:
            counters.append((register, value[0], 64))
    counters += [
        (register, constant, 32)
        for register, constant in sorted(narrow.items())
        if register not in spoilt and constant
    ]
    for counter, advance, bits in counters:
        recorded = tuple(sorted(registers | {counter}))
        changes = _changes(block, recorded, steady)
        if changes is not None:
            return CountedLoop(tuple(accesses), recorded, counter, advance, bits, changes)
    return None


def _changes(block: Block, registers: Iterable[int], steady: Set[int]) -> tuple[Change, ...] | None:
    """Return all changes of some registers, ``None`` if one is not a sum that can be undone."""
    found = []
    for place, encoding in enumerate(block.body):
        for step in encoding.steps:
            if step.register not in registers:
                continue
            if step.narrow is not None:
                found.append(Change(place, step.register, step.narrow, (), True))
                continue
            terms = dict(step.terms)
            if (
                not step.known
                or terms.pop(step.register, 0) != 1
                or len(terms) > 2
                or not steady >= terms.keys()
            ):
                return None
            found.append(Change(place, step.register, step.constant, tuple(terms.items()), False))
    return tuple(found)


def _base_and_index(terms: tuple[tuple[int, int], ...]) -> tuple[int, int, int] | None:
    """Return (base, index, log2 scale) for a sum that an address can have, else ``None``."""
    if not terms:
        return -1, -1, 0
    if len(terms) > 2 or any(coefficient not in (1, 2, 4, 8) for _, coefficient in terms):
        return None
    ordered = sorted(terms, key=lambda term: term[1])
    if len(ordered) == 1:
        register, coefficient = ordered[0]
        return (register, -1, 0) if coefficient == 1 else (-1, register, coefficient.bit_length() - 1)
    (base, one), (index, coefficient) = ordered
    return (base, index, coefficient.bit_length() - 1) if one == 1 else None
