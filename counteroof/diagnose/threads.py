"""Findings about threads: lines they take from each other, and work that they do not share evenly."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from .base import Facts, Finding

UNEVEN = 1.1
"""From so many times the mean on, the busiest thread has too much."""

MOVES = 100
"""Fewer moves of falsely shared lines than this in a call are the seams between threads."""

FALSE_SHARING = "false sharing"
IMBALANCE = "threads not even"


def false_sharing(facts: Facts) -> Iterator[Finding]:
    """Lines that go from core to core although no byte of them is used by two."""
    if facts.traffic is None:
        return
    arrays = facts.traffic.false_sharing
    lines = sum(one.lines for one in arrays)
    moves = sum(one.moves for one in arrays)
    if moves < MOVES:
        return
    names = ", ".join(one.array for one in arrays)
    cores = max(one.cores for one in arrays)
    often = ""
    if facts.seconds is not None:
        often = f", one every {units.seconds(facts.seconds / moves)}"
    yield Finding(
        FALSE_SHARING,
        "cost",
        f"{lines} lines of {names} go from core to core at least {units.count(moves)} times{often}, "
        f"though no byte of them is used by two threads; up to {cores} cores share a line",
        f"give each thread lines of its own: pad what a thread writes in {names} to {facts.line_bytes} B, or "
        "gather it in local variables and store it once",
        evidence={"lines": lines, "moves": moves, "cores at most": cores},
    )


def imbalance(facts: Facts) -> Iterator[Finding]:
    """FLOPs that some threads have more of than others."""
    if facts.counted is None or facts.threads < 2:
        return
    shares = facts.counted.flops_by_thread
    total = sum(shares)
    if not total:
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
