"""Which blocks make up the loops that ran most.

Blocks are counted exactly, jumps between them are not. A path follows, from the block that ran most, the
successor that ran most, until it comes back; where a loop has several ways through it, the others are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iced_x86 import FlowControl

if TYPE_CHECKING:
    import iced_x86 as ix

LONGEST = 64
"""Blocks of a path at most."""


@dataclass(frozen=True)
class LoopPath:
    """One way through a loop.

    Attributes
    ----------
    instructions
        Those of one pass, in order.
    passes
        How often the least frequent of its blocks ran: so often at most it was gone through.
    entries
        How often it was come to from elsewhere: so often at most.
    addresses
        Where its blocks begin, in order.
    """

    instructions: tuple[ix.Instruction, ...]
    passes: int
    entries: int
    addresses: tuple[int, ...]


@dataclass(slots=True)
class _Node:
    """All translations of the code at one address."""

    instructions: tuple[ix.Instruction, ...]
    times: int
    most: int
    next: tuple[int, ...]
    calls: int | None


def hot_paths(
    blocks: Sequence[tuple[tuple[ix.Instruction, ...], int]], share: float = 0.01
) -> list[LoopPath]:
    """Return the loops that ran most, none of whose blocks is part of two.

    Parameters
    ----------
    blocks
        Instructions of each block and how often it ran.
    share
        Paths with a smaller share of all executed instructions are left out.
    """
    nodes = _nodes(blocks)
    executed = sum(len(node.instructions) * node.times for node in nodes.values())
    before: dict[int, list[int]] = {}
    for address, node in nodes.items():
        for other in (*node.next, *((node.calls,) if node.calls is not None else ())):
            before.setdefault(other, []).append(address)
    taken: set[int] = set()
    found = []
    for head in sorted(nodes, key=lambda address: -nodes[address].times):
        if head in taken:
            continue
        path = _path(nodes, head)
        if path is None or taken.intersection(path):
            continue
        one = _measured(nodes, path, before)
        if len(one.instructions) * one.passes >= share * executed:
            taken.update(path)
            found.append(one)
    return found


def _nodes(blocks: Sequence[tuple[tuple[ix.Instruction, ...], int]]) -> Mapping[int, _Node]:
    nodes: dict[int, _Node] = {}
    for instructions, times in blocks:
        if not instructions or not times:
            continue
        address = instructions[0].ip
        successors, calls = _leads_to(instructions[-1])
        node = nodes.get(address)
        if node is None:
            nodes[address] = _Node(instructions, times, times, successors, calls)
            continue
        node.times += times
        if times > node.most:  # of code that was translated more than once, the version that ran most
            node.instructions, node.most, node.next, node.calls = instructions, times, successors, calls
    return nodes


def _leads_to(last: ix.Instruction) -> tuple[tuple[int, ...], int | None]:
    """Return where a block may go on, as far as its code tells, and the function it calls.

    A call goes on behind itself.
    """
    flow = last.flow_control
    if flow == FlowControl.CONDITIONAL_BRANCH:
        return (last.next_ip, last.near_branch_target), None
    if flow == FlowControl.UNCONDITIONAL_BRANCH:
        return (last.near_branch_target,), None
    if flow in (FlowControl.NEXT, FlowControl.INDIRECT_CALL):
        return (last.next_ip,), None
    if flow == FlowControl.CALL:
        return (last.next_ip,), last.near_branch_target
    return (), None


def _path(nodes: Mapping[int, _Node], head: int) -> list[int] | None:
    """Return the most frequent way from a block back to it, ``None`` if there is none."""
    path, at = [head], head
    while len(path) <= LONGEST:
        ways = [other for other in nodes[at].next if other in nodes]
        if head in ways and all(nodes[other].times <= nodes[head].times for other in ways):
            return path
        ways = [other for other in ways if other not in path]
        if not ways:
            return None
        at = max(ways, key=lambda address: nodes[address].times)
        path.append(at)
    return None


def _measured(nodes: Mapping[int, _Node], path: Sequence[int], before: Mapping[int, list[int]]) -> LoopPath:
    passes = min(nodes[address].times for address in path)
    inside = set(path)
    come_from = [other for other in before.get(path[0], ()) if other not in inside]
    leave_to = {
        other for address in path for other in nodes[address].next if other in nodes and other not in inside
    }
    ways_in, ways_out = (sum(nodes[address].times for address in some) for some in (come_from, leave_to))
    entries = min(passes, *(ways for ways in (ways_in, ways_out) if ways), passes)
    instructions = tuple(_instructions(nodes, path))
    return LoopPath(instructions, passes, max(entries, 1), tuple(path))


def _instructions(nodes: Mapping[int, _Node], path: Sequence[int]) -> Iterator[ix.Instruction]:
    for address in path:
        yield from nodes[address].instructions
