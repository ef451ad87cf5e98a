"""The core clock that is sustained: core cycles counted, or chains of instructions of known length in cycles.

Where there are hardware counters, core cycles over the time that a thread ran are its clock. Else a dependent
integer addition takes one cycle on every processor in use, so a chain of them is a stopwatch for the core
clock; it needs no counters and works in a virtual machine. The time-stamp counter is of no use here: it ticks
at a rate of its own. A chain of multiplications is timed beside it: its step takes a whole number of cycles,
so a ratio that is not whole means that the processor is emulated or the probes were disturbed, and then there
is no clock.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

METHOD = "dependent additions, one a cycle"
COUNTED = "core cycles counted, over task-clock"
PROBE_OPERATIONS = 32_000
"""Length of a chain: some 10 microseconds, so that reading the time costs little and few are interrupted."""

_WARM_UP_SECONDS = 0.005
_WHOLE = 0.02
_SAME_RATIO = 0.03
_OUTLIER = 0.03
_DEVIATIONS = 4.0


@dataclass(frozen=True)
class Clock:
    """A core clock.

    Attributes
    ----------
    hz
        Median of the samples counted or the probes kept, or ``None``.
    source
        How it was got, of how many; or why there is none.
    spread
        Distance between the ninth and the first decile of these, over ``hz``.
    """

    hz: float | None
    source: str
    spread: float | None = None


def sustained(probes: int = 25) -> Clock:
    """Return the clock of the core that runs this, after a few milliseconds of work to wake it up."""
    from ..native import lib

    warm_until = lib.machine_seconds() + _WARM_UP_SECONDS
    while lib.machine_seconds() < warm_until:
        lib.machine_multiply_chain(PROBE_OPERATIONS)
    add, multiply = [], []
    for _ in range(probes):
        add.append(lib.machine_add_chain(PROBE_OPERATIONS))
        multiply.append(lib.machine_multiply_chain(PROBE_OPERATIONS))
    return from_probes(PROBE_OPERATIONS, add, multiply)


def from_counters(hertz: Sequence[float]) -> Clock:
    """Return the clock of samples in which hardware counted the cycles; there is one at least."""
    return Clock(
        statistics.median(hertz),
        f"{COUNTED}; {len(hertz)} sample{'s' if len(hertz) > 1 else ''}",
        _spread(sorted(hertz)),
    )


def _spread(ordered: Sequence[float]) -> float:
    """Return the distance between the ninth and the first decile, over the median."""
    last = len(ordered) - 1
    return (ordered[round(0.9 * last)] - ordered[round(0.1 * last)]) / statistics.median(ordered)


def from_probes(operations: int, add_seconds: Sequence[float], multiply_seconds: Sequence[float]) -> Clock:
    """Return the clock that pairs of chains, each of ``operations`` steps, ran at.

    A probe is dropped if its own two chains do not agree, or if it is far from the median: an interruption
    makes a chain look slow.
    """
    pairs = [
        (operations / add, multiply / add)
        for add, multiply in zip(add_seconds, multiply_seconds, strict=True)
        if add > 0 and multiply > 0
    ]
    if not pairs:
        return Clock(None, "no probe of the clock ran")
    ratio = statistics.median(ratio for _, ratio in pairs)
    cycles = round(ratio)
    agreeing = [rate for rate, one in pairs if abs(one - cycles) <= _SAME_RATIO * cycles]
    if cycles < 2 or abs(ratio - cycles) > _WHOLE * ratio or not agreeing:
        return Clock(
            None,
            f"a multiplication took {ratio:.2f} times an addition, which is no whole number of cycles: "
            "the processor is emulated or was disturbed",
        )
    middle = statistics.median(agreeing)
    deviation = statistics.median(abs(rate - middle) for rate in agreeing)
    # 1.48 median deviations are one standard deviation of a normal spread
    limit = max(_OUTLIER * middle, _DEVIATIONS * 1.48 * deviation)
    kept = sorted(rate for rate in agreeing if abs(rate - middle) <= limit)
    hz = statistics.median(kept)
    spread = _spread(kept)
    source = f"{METHOD}; {len(kept)} of {len(pairs)} probes"
    if 2 * len(kept) < len(pairs):
        source += ", unsteady"
    return Clock(hz, source, spread)
