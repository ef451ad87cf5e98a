"""How long one pass of a loop has to wait for the pass before: the longest chain of operations between them.

Values are followed through registers, flags and opmasks, and through memory where a load's address is, as an
expression over registers, that of a store in the same pass or up to ``FARTHEST`` passes before. What is not
seen shortens the chain and never lengthens it: stores through another expression that happens to lead to the
same place, scatters, gathers, the x87 stack, locked instructions whose latency is not known, and what called
functions pass on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, cast

import iced_x86 as ix
from iced_x86 import FlowControl, OpAccess, OpKind, Register

from .decode import (
    LOAD,
    NON_TEMPORAL,
    PLAIN,
    STORE,
    UPDATE,
    WRITES,
    Access,
    Reader,
    Step,
)
from .latencies import Latencies
from .loops import Sum, _added, _scaled

FARTHEST = 8
"""A chain through memory is followed over at most so many passes; beyond, each has that share of it only."""

Resource = tuple[str, int, int]
"""``("register", number, 0)``, ``("carry", 0, 0)``, ``("flags", 0, 0)``, ``("store", place, passes ago)``."""

_READS = (
    OpAccess.READ,
    OpAccess.COND_READ,
    OpAccess.READ_WRITE,
    OpAccess.READ_COND_WRITE,
    OpAccess.COND_WRITE,  # what is not written stays
)
_CARRY_BIT = 0x10
_OTHER_FLAGS = 0x2F
_VOLATILE = (0, 1, 2, 6, 7, 8, 9, 10, 11)  # general registers that a called function may change


class Use(NamedTuple):
    """A value an operation waits for, and the cycles from that to its result."""

    resource: Resource
    cycles: int


@dataclass(slots=True)
class Operation:
    """One instruction as a step in the flow of data."""

    place: int
    uses: list[Use] = field(default_factory=list)
    makes: list[Resource] = field(default_factory=list)


@dataclass(frozen=True)
class Chain:
    """The longest chain from pass to pass.

    Attributes
    ----------
    cycles
        Of one pass: those of the whole chain over the passes it spans.
    links
        Places of the instructions in the order of the pass, each with its cycles.
    passes
        Passes after which the chain comes back to where it began.
    through_memory
        Whether part of it is a value that is stored and loaded again.
    """

    cycles: Fraction
    links: tuple[tuple[int, int], ...]
    passes: int
    through_memory: bool


def chain(instructions: Sequence[ix.Instruction], latencies: Latencies) -> Chain | None:
    """Return the longest chain that each pass through the instructions adds to, ``None`` if there is none.

    Parameters
    ----------
    instructions
        One pass of a loop, in the order of execution.
    latencies
        Of the processor.
    """
    operations = list(_operations(instructions, latencies))
    carried = _carried(operations)
    weights = {source: _reach(operations, source, carried) for source in carried}
    cycle = _longest_cycle(weights)
    if cycle is None:
        return None
    links = [link for source, target in cycle for link in weights[source][target].links()]
    total = sum(weights[source][target].cycles for source, target in cycle)
    memory = any(resource[0] == "store" for edge in cycle for resource in edge) or any(
        weights[source][target].memory for source, target in cycle
    )
    return Chain(Fraction(total, len(cycle)), tuple(links), len(cycle), memory)


# ---- instructions to operations ----


def _operations(instructions: Sequence[ix.Instruction], latencies: Latencies) -> Iterable[Operation]:
    """Yield the operations, and at the end those that let stored values grow older by one pass."""
    factory = ix.InstructionInfoFactory()
    memory = _Memory(instructions)
    for place, instruction in enumerate(instructions):
        yield _operation(place, instruction, factory, memory, latencies)
    for place, farthest in sorted(memory.kept.items()):
        for ago in range(farthest, 0, -1):
            yield Operation(-1, [Use(("store", place, ago - 1), 0)], [("store", place, ago)])


def _operation(
    place: int,
    instruction: ix.Instruction,
    factory: ix.InstructionInfoFactory,
    memory: _Memory,
    latencies: Latencies,
) -> Operation:
    info = factory.info(instruction)
    made = Operation(place)
    called = instruction.flow_control in (FlowControl.CALL, FlowControl.INDIRECT_CALL)
    cycles = latencies.of(instruction)
    addresses = _address_registers(info)
    operands = _operand_registers(instruction, info)
    loads = memory.loads(place)
    for used in info.used_registers():
        resource = _resource(used.register)
        if resource is None:
            continue
        if used.access in _READS:
            if resource not in addresses or resource in operands:
                made.uses.append(Use(resource, cycles))
            if resource in addresses and loads:
                made.uses.append(Use(resource, latencies.load(instruction) + cycles))
        if used.access in WRITES:
            made.makes.append(resource)
    for store, ago in memory.sources(place):
        made.uses.append(Use(("store", store, ago), latencies.forward(instruction) + cycles))
    for bits, kind in ((_CARRY_BIT, "carry"), (_OTHER_FLAGS, "flags")):
        flag: Resource = (kind, 0, 0)
        if instruction.rflags_read & bits:
            made.uses.append(Use(flag, cycles))
        if instruction.rflags_modified & bits:
            made.makes.append(flag)
    if memory.stores(place):
        made.makes.append(("store", place, 0))
    alone = latencies.locked(instruction)
    if alone is None:  # nothing is known of what comes through it
        made.uses.clear()
    elif alone > 0:
        made.uses.append(Use(("locked", 0, 0), alone))
        made.makes.append(("locked", 0, 0))
    if called:
        changed = [("register", number + Register.RAX, 0) for number in _VOLATILE]
        changed += [("register", Register.ZMM0 + number, 0) for number in range(32)]
        changed += [("carry", 0, 0), ("flags", 0, 0)]
        return Operation(place, [], changed)
    return made


def _resource(register: int) -> Resource | None:
    whole = ix.RegisterExt.full_register(cast(ix.Register_, register))
    general = Register.RAX <= whole <= Register.R15
    if general or Register.ZMM0 <= whole <= Register.ZMM31 or Register.K0 <= whole <= Register.K7:
        return "register", whole, 0
    return None


def _address_registers(info: ix.InstructionInfo) -> set[Resource]:
    """Return the registers of which addresses of memory that is accessed are made."""
    found = set()
    for memory in info.used_memory():
        if memory.access in (OpAccess.NONE, OpAccess.NO_MEM_ACCESS):
            continue
        for register in (memory.base, memory.index):
            resource = _resource(register)
            if resource is not None:
                found.add(resource)
    return found


def _operand_registers(instruction: ix.Instruction, info: ix.InstructionInfo) -> set[Resource]:
    """Return the registers that are operands themselves and are read."""
    found = set()
    for number in range(instruction.op_count):
        if instruction.op_kind(number) == OpKind.REGISTER and info.op_access(number) in _READS:
            resource = _resource(instruction.op_register(number))
            if resource is not None:
                found.add(resource)
    return found


class _Memory:
    """Which loads of a pass get what a store of it, or of one of the passes before, has left."""

    def __init__(self, instructions: Sequence[ix.Instruction]) -> None:
        self.kept: dict[int, int] = {}
        """By place of a store: how many passes later its value is loaded at the latest."""
        self._loads: dict[int, list[tuple[Access, Sum]]] = {}
        self._stores: dict[int, list[tuple[Access, Sum]]] = {}
        self._any_load: set[int] = set()
        self._sources: dict[int, list[tuple[int, int]]] = {}
        self._final = self._follow(instructions)
        for place, loads in self._loads.items():
            for access, address in loads:
                found = self._source(place, access, address)
                if found is not None:
                    self._sources.setdefault(place, []).append(found)
                    self.kept[found[0]] = max(self.kept.get(found[0], 0), found[1])

    def loads(self, place: int) -> bool:
        """Tell whether the instruction loads anything."""
        return place in self._any_load

    def stores(self, place: int) -> bool:
        """Tell whether the value the instruction stores is loaded again."""
        return place in self.kept

    def sources(self, place: int) -> list[tuple[int, int]]:
        """Return the stores whose values the instruction loads, each with the passes since."""
        return self._sources.get(place, [])

    def _follow(self, instructions: Sequence[ix.Instruction]) -> list[Sum]:
        """Note all addresses as sums over the registers at the start of the pass; return those at its end."""
        reader = Reader(None, 0)
        values: list[Sum] = [(0, ((number, 1),)) for number in range(16)]
        fresh = 16
        for place, instruction in enumerate(instructions):
            if instruction.flow_control in (FlowControl.CALL, FlowControl.INDIRECT_CALL):
                for number in _VOLATILE:
                    values[number] = (0, ((fresh, 1),))
                    fresh += 1
                continue
            accesses, steps = reader.flow(instruction)
            for access in accesses:
                if access.kind in (LOAD, UPDATE):
                    self._any_load.add(place)
                if access.form != PLAIN or access.segment or access.address32:
                    continue
                address: Sum = (access.displacement, ())
                for register, factor in ((access.base, 1), (access.index, 1 << access.scale)):
                    if register >= 0:
                        address = _added(address, _scaled(values[register], factor))
                if access.kind in (LOAD, UPDATE):
                    self._loads.setdefault(place, []).append((access, address))
                if access.kind in (STORE, UPDATE, NON_TEMPORAL):
                    self._stores.setdefault(place, []).append((access, address))
            updates = []
            for step in steps:
                if step.known:
                    updates.append((step.register, _stepped(step, values)))
                else:
                    updates.append((step.register, (0, ((fresh, 1),))))
                    fresh += 1
            for register, value in updates:
                values[register] = value
        return values

    def _source(self, place: int, access: Access, address: Sum) -> tuple[int, int] | None:
        """Return the last store before that leaves what is loaded, and the passes since."""
        later = address
        for ago in range(FARTHEST + 1):
            if ago:
                moved = self._after_a_pass(later, first=ago == 1)
                if moved is None:
                    return None
                later = moved
            for store in sorted(self._stores, reverse=True):
                if ago == 0 and store >= place:
                    continue
                for stored, at in self._stores[store]:
                    if at[1] == later[1] and 0 <= later[0] - at[0] <= stored.bytes - access.bytes:
                        return store, ago
        return None

    def _after_a_pass(self, address: Sum, first: bool) -> Sum | None:
        """Return an address of the next pass in terms of registers at the start of this one."""
        total: Sum = (address[0], ())
        for register, factor in address[1]:
            if register >= 16:
                return None
            total = _added(total, _scaled(self._final[register], factor))
        # What a register was given by this pass is the same in the store's own address, but only there.
        if not first and any(register >= 16 for register, _ in total[1]):
            return None
        return total


def _stepped(step: Step, values: Sequence[Sum]) -> Sum:
    total: Sum = (step.constant, ())
    for register, factor in step.terms:
        total = _added(total, _scaled(values[register], factor))
    return total


# ---- operations to the longest cycle ----


class Reached(NamedTuple):
    """How a value comes to depend on another one: over how many cycles, and through which operations."""

    cycles: int
    memory: bool
    place: int
    last: int
    """Cycles of the last operation."""
    before: Reached | None

    def links(self) -> list[tuple[int, int]]:
        """Return the operations in order, each with its cycles; those that are none of the program's not."""
        found: list[tuple[int, int]] = []
        at: Reached | None = self
        while at is not None:
            if at.place >= 0:
                found.append((at.place, at.last))
            at = at.before
        return found[::-1]


def _carried(operations: Sequence[Operation]) -> set[Resource]:
    """Return what a pass reads before it writes it, and writes later on."""
    early: set[Resource] = set()
    written: set[Resource] = set()
    for operation in operations:
        early |= {use.resource for use in operation.uses} - written
        written |= set(operation.makes)
    return early & written


def _reach(
    operations: Sequence[Operation], source: Resource, carried: Iterable[Resource]
) -> Mapping[Resource, Reached]:
    """Return what at the end of a pass depends on the value that a resource has at its start."""
    start = Reached(0, False, -1, 0, None)
    reached: dict[Resource, Reached] = {source: start}
    for operation in operations:
        best: Reached | None = None
        for resource, cycles in operation.uses:
            before = reached.get(resource)
            if before is not None and (best is None or before.cycles + cycles > best.cycles):
                memory = before.memory or (resource[0] == "store" and operation.place >= 0)
                best = Reached(before.cycles + cycles, memory, operation.place, cycles, before)
        for resource in operation.makes:
            if best is None:
                reached.pop(resource, None)
            else:
                reached[resource] = best
    return {
        resource: at for resource in carried if (at := reached.get(resource)) is not None and at is not start
    }


def _longest_cycle(
    weights: Mapping[Resource, Mapping[Resource, Reached]],
) -> list[tuple[Resource, Resource]] | None:
    """Return the edges of the cycle with most cycles (of the clock) an edge.

    As long as there is a cycle of a better mean than the best so far, it shows as one whose edges, less that
    mean, add up to more than nothing.
    """
    best: list[tuple[Resource, Resource]] | None = None
    mean = Fraction(-1)
    while True:
        found = _positive_cycle(weights, mean)
        if found is None:
            alone = [one for one, edges in weights.items() if one in edges and edges[one].cycles == mean]
            return [(alone[0], alone[0])] if alone else best  # the shorter of two that take equally long
        best = found
        mean = Fraction(sum(weights[source][target].cycles for source, target in found), len(found))


def _positive_cycle(
    weights: Mapping[Resource, Mapping[Resource, Reached]], mean: Fraction
) -> list[tuple[Resource, Resource]] | None:
    """Return the edges of a cycle whose mean is above ``mean``, ``None`` if there is none (Bellman, Ford)."""
    far: dict[Resource, Fraction] = dict.fromkeys(weights, Fraction(0))
    parent: dict[Resource, Resource] = {}
    last: Resource | None = None
    for _ in range(len(weights) + 1):
        last = None
        for source, edges in weights.items():
            for target, edge in edges.items():
                length = far[source] + edge.cycles - mean
                if length > far[target]:
                    far[target], parent[target], last = length, source, target
        if last is None:
            return None
    for _ in weights:  # back into the cycle itself
        last = parent[cast(Resource, last)]
    edges_found = []
    at = cast(Resource, last)
    while True:
        edges_found.append((parent[at], at))
        at = parent[at]
        if at == last:
            return edges_found[::-1]
