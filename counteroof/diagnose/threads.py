"""Findings about threads: lines they take from each other, and work that they do not share evenly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import units
from ..count.base import FalseSharing
from .base import Facts, Finding

UNEVEN = 1.1
"""From so many times the mean on, the busiest thread has too much."""

FLOP_SHARE = 0.01
"""With fewer FLOPs an instruction than this they are not the work that the threads share."""

BY_TURNS = re.compile(r"GOMP_(parallel_)?loop\w*(dynamic|guided)|GOMP_task|__kmpc_(dispatch_next|omp_task)")
"""Of the runtimes of OpenMP: threads take the next piece when they are done with one. Who takes how much
under the engine, which slows each down in its own way, is not who takes it natively."""

MOVES = 100
"""Fewer accesses to falsely shared lines than this in a call are the seams between threads."""

UNTIMED_PART = 0.01
"""Of the moves of lines; each takes as long as several locked instructions that find their line at hand."""

FALSE_SHARING = "false sharing"
IMBALANCE = "threads not even"


def false_sharing(facts: Facts) -> Iterator[Finding]:
    """Lines that go from core to core although no byte of them is used by two."""
    if facts.traffic is None:
        return
    arrays = facts.traffic.false_sharing
    lines = sum(one.lines for one in arrays)
    moves = sum(one.moves for one in arrays)
    accesses = sum(_accesses(facts, one) for one in arrays)
    if max(moves, accesses) < MOVES:
        return
    each = _transfer_seconds(facts)
    spent, gain = None, None
    if each is not None and facts.seconds is not None:
        # a line has one owner at a time, so its moves follow each other
        spent = max(moves, accesses) / min(lines, facts.threads) * each
        after = max(facts.seconds - spent, facts.least_seconds(facts.demand) or 0.0)
        gain = facts.worth(facts.seconds / after, after) if after else None
        if gain is None:
            return
    names = ", ".join(one.array for one in arrays)
    cores = max(one.cores for one in arrays)
    often = f"at least {units.count(moves)} times"
    if accesses > moves:
        often += f", and at most at each of {units.count(accesses)} accesses"
    if spent is not None and each is not None:
        often += f", which then take {units.seconds(spent)} (as long each as a load from the last cache, "
        often += f"{units.seconds(each)}; from another socket it is longer)"
    evidence: dict[str, float | int | str] = {"lines": lines, "moves": moves, "cores at most": cores}
    untimed = facts.untimed_locked
    if untimed < UNTIMED_PART * max(moves, accesses):
        untimed = 0
    if untimed:
        evidence["locked instructions of unknown latency"] = untimed
        often += f"; {units.count(untimed)} locked instructions (atomics) take their time on lines of their "
        often += "own, too, and how long is not known of this processor, so no gain is given"
        gain = None
    if accesses:
        evidence["accesses"] = accesses
    if spent is not None:
        evidence["seconds at most"] = spent
    yield Finding(
        FALSE_SHARING,
        "cost",
        f"no byte of {lines} line{'s' * (lines > 1)} of {names} is used by two threads, and yet up to "
        f"{cores} cores share one: it goes from core to core {often}",
        f"give each thread lines of its own: pad what a thread writes in {names} to {facts.line_bytes} B, or "
        "gather it in local variables and store it once",
        None if gain is None else gain.factor,
        None if gain is None else gain.attainable,
        evidence,
    )


def _accesses(facts: Facts, shared: FalseSharing) -> int:
    """Return how many accesses of an array are to its falsely shared lines, 0 if that is not known.

    They are taken to be spread evenly over the lines that the kernel touches.
    """
    array = next((one for one in facts.arrays if one.name == shared.array), None)
    strides = () if facts.traffic is None else facts.traffic.strides
    found = [one.accesses or 0 for one in strides if one.array == shared.array]
    if array is None or not sum(found):
        return 0
    touched = max(array.touched_read_bytes or 0, array.touched_write_bytes or 0) / facts.line_bytes
    return round(sum(found) * min(shared.lines / touched, 1.0)) if touched else 0


def _transfer_seconds(facts: Facts) -> float | None:
    """Return the least seconds of a line from another core: those of a load from the last cache.

    Cores of one last cache find each other's lines through it. ``None`` if its loads were not measured.
    """
    found = {one.level: one.seconds for one in facts.machine.capacities}
    return found.get(facts.caches[-1].name) if facts.caches else None


def imbalance(facts: Facts) -> Iterator[Finding]:
    """FLOPs that some threads have more of than others."""
    if facts.counted is None or facts.threads < 2:
        return
    shares = facts.counted.flops_by_thread
    if any(BY_TURNS.match(name) for name, _ in facts.counted.native_calls):
        return
    total = sum(shares)
    if not total or total < FLOP_SHARE * (facts.counted.instructions.value or 0):
        return
    mean = total / facts.threads
    factor = max(shares) / mean
    if factor < UNEVEN:
        return
    idle = facts.threads - sum(share > 0.01 * mean for share in shares)
    without = f"; {idle} of {facts.threads} threads have none" if idle > 0 else ""
    rate = facts.placement.flops_per_second if facts.placement is not None else None
    yield Finding(
        IMBALANCE,
        "cost",
        f"the busiest thread executes {units.ratio(factor)} times the mean of {units.count(mean)} "
        f"FLOPs{without}",
        "share the work out in smaller pieces (schedule(dynamic), smaller blocks), or by work, not by rows",
        factor,
        None if rate is None else rate * factor,
        {"FLOPs of the busiest thread": max(shares), "FLOPs of all": total, "threads": facts.threads},
    )


RULES = (false_sharing, imbalance)
