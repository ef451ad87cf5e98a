"""Loops that wait for themselves: how many cycles the chains from pass to pass demand of one call.

A lower bound. Within a loop no pass can finish before the chain has come through it, but when the loop is
come to once more a new chain begins, which an out-of-order processor starts on as soon as it has room: of
chains that are short beside its window several run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..library import address_to_symbol
from .base import ChainLink, LoopChain
from .lines import Places, disassembler, line_of

if TYPE_CHECKING:
    import iced_x86 as ix

    from ..instrument.dataflow import Chain
    from ..instrument.engine import Engine, Executed
    from ..instrument.latencies import Latencies
    from ..instrument.paths import LoopPath

MOST = 12
"""Loops told of at most."""
LINKS = 24
"""Operations of a chain told of at most; those that take most cycles."""


def loop_chains(paths: Iterable[LoopPath], latencies: Latencies) -> tuple[LoopChain, ...]:
    """Return the chains of loops, those that demand most first."""
    from ..instrument.dataflow import chain

    places = Places()
    found = []
    for path in paths:
        longest = chain(path.instructions, latencies)
        if longest is None or not longest.cycles:
            continue
        found.append((path, longest, demanded(path, float(longest.cycles), latencies.window)))
    found.sort(key=lambda one: -one[2])
    return tuple(_described(*one, places) for one in found[:MOST])


def demanded(path: LoopPath, cycles: float, window: int) -> float:
    """Return the cycles that all passes together demand.

    Parameters
    ----------
    path
        The loop.
    cycles
        Of one pass.
    window
        Instructions that can be in flight: so many of chains that begin anew run side by side.
    """
    run = path.passes / path.entries * len(path.instructions)
    return path.passes * cycles / (1 + window / run)


def untimed_locked(executed: Iterable[Executed], latencies: Latencies) -> int:
    """Return how many locked instructions were executed whose latency is not known."""
    return sum(item.times for item in executed if latencies.locked(item.instruction) is None)


def loops(engine: Engine) -> list[LoopPath]:
    """Return the loops that ran most since the last reset, on the thread that executed most instructions."""
    from ..instrument.paths import hot_paths

    blocks = [block.instructions for block in engine.blocks]
    counts = [engine.block_counts(thread) for thread in range(engine.threads)]
    most = max(counts, key=lambda times: sum(len(block) * n for block, n in zip(blocks, times, strict=False)))
    return hot_paths(list(zip(blocks, most, strict=False)))  # threads of a pool may still be translating


def _described(path: LoopPath, longest: Chain, cycles: float, places: Places) -> LoopChain:
    from ..instrument.flops import rule_for

    first = path.instructions[0]
    library, address = places.find(first.ip)
    first_link = path.instructions[longest.links[0][0]]
    line = line_of(*places.find(first_link.ip))
    text = disassembler()
    costly = sorted(range(len(longest.links)), key=lambda number: -longest.links[number][1])[:LINKS]
    links = [longest.links[number] for number in sorted(costly)]
    rules = (rule_for(instruction) for instruction in path.instructions)
    return LoopChain(
        library=library,
        address=address,
        symbol=address_to_symbol(library, address),
        file=line[0] if line else None,
        line=line[1] if line else None,
        passes=path.passes,
        entries=path.entries,
        blocks=len(path.addresses),
        instructions=len(path.instructions),
        flops=sum(rule.flops() for rule in rules if rule is not None and rule.in_total),
        cycles=float(longest.cycles),
        demanded_cycles=cycles,
        through_memory=longest.through_memory,
        links=tuple(ChainLink(_text(text, path, place), cost) for place, cost in links),
    )


def _text(text: Callable[[ix.Instruction, int], str], path: LoopPath, place: int) -> str:
    instruction = path.instructions[place]
    return text(instruction, instruction.ip)
