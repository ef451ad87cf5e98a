"""Before a run: whether the kept ceilings hold, or were measured while something else held the machine back.

What a core does alone does not move, so a short measurement that beats a kept ceiling shows that the kept
one was disturbed. Roofs that others share do move; ``beside.py`` measures those next to the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import ceilings, units
from .ceiling_jobs import WALK, shared_levels
from .ceilings import DISTURBED, Progress
from .machine.model import Ceiling, Machine

BEATEN = 1.03
"""A kept ceiling that is exceeded by this factor was disturbed."""

_CLOCK = 0.97
"""Below this part of the best clock seen by the same kind of work, a ceiling is doubtful."""

_CLOSE = 0.98
_CONFIRMED = 3
_PROBE_SECONDS = 0.1


def doubts(machine: Machine, threads: int) -> dict[str, str]:
    """Return the ceilings with this number of threads that look disturbed, and why, by name."""
    kept = _private(machine, threads)
    found: dict[str, str] = {}
    for one in kept:
        clocks = [other.clock_hz for other in kept if one.clocked_as(other) and other.clock_hz is not None]
        best = max(clocks, default=None)
        close = sum(sample >= _CLOSE * one.value for sample in one.samples)
        if DISTURBED in one.note:
            found[one.name] = DISTURBED
        elif best is not None and one.clock_hz is not None and one.clock_hz < _CLOCK * best:
            found[one.name] = f"at {units.hertz(one.clock_hz)}, others at {units.hertz(best)}"
        elif close < min(_CONFIRMED, len(one.samples)):
            found[one.name] = f"{close} of {len(one.samples)} samples came close to it"
    return found


def refreshed(
    machine: Machine, threads: Sequence[int], progress: Progress | None = None
) -> tuple[Machine, tuple[str, ...]]:
    """Return ``machine`` with ceilings that hold, and what showed that the kept ones did not.

    For each number of threads, the highest compute roof and every doubtful ceiling are measured for a tenth
    of a second; if one is exceeded, all of the core's own ceilings are measured again.
    """
    reasons = []
    beaten = []
    for count in threads:
        said = _beaten(machine, count)
        if said is not None:
            beaten.append(count)
            reasons.append(said)
    if not beaten:
        return machine, ()
    return ceilings.measure_again(machine, threads=beaten, progress=progress), tuple(reasons)


def _beaten(machine: Machine, threads: int) -> str | None:
    """Return in words by what a kept ceiling is exceeded now, the one that is exceeded most."""
    kept = {one.name: one for one in _private(machine, threads)}
    suspects = doubts(machine, threads)
    peak = max(
        (one for one in kept.values() if one.kind == "compute"), key=lambda one: one.value, default=None
    )
    names = {*suspects, *([peak.name] if peak is not None else [])}
    if not names:
        return None
    probed = ceilings.remeasure(machine, names=names, level=None, threads=(threads,), seconds=_PROBE_SECONDS)
    pairs = [(one, kept[one.name]) for one in _private(probed, threads) if one.name in names]
    now, then = max(pairs, key=lambda pair: pair[0].value / pair[1].value)
    if now.value < BEATEN * then.value:
        return None
    why = f" ({suspects[now.name]})" if now.name in suspects else ""
    rate = units.flop_rate if now.kind == "compute" else units.bandwidth
    return f"{now.name} reaches {rate(now.value)}, kept was {rate(then.value)}{why}"


def _private(machine: Machine, threads: int) -> list[Ceiling]:
    shared = shared_levels(machine)
    return [
        one
        for one in machine.ceilings
        # a walk is as fast as its page frames have luck
        if one.threads == threads and one.level not in shared and one.mix != WALK
    ]
