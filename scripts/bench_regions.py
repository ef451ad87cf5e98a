#!/usr/bin/env python3
"""Times beginning and ending a region: medians of many, in nanoseconds, beside what the kernel takes.

Usage: scripts/bench_regions.py [TIMES]. Reading the counters twice is what no region can do without; where
the processor has none, they are the software events of the kernel in one group.
"""

from __future__ import annotations

import statistics
import sys
from time import perf_counter_ns

import counteroof
from counteroof import marking
from counteroof.native import ffi, lib


def main() -> None:
    """Print the times for each way of counting threads."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    for threads in ("own", "all"):
        marking.setup(threads=threads, memory=False)
        counteroof.region("made")
        groups = marking._STATE.counting.groups if marking._STATE.counting else []
        print(
            f"threads={threads!r}, {len(groups)} group of {', '.join(event.name for event in groups[0][0])}"
        )
        cost = ffi.new("struct regions_cost *")
        in_c = lib.regions_cost(times, cost)
        print(f"{cost.readings:8.0f} ns  the counters read twice")
        print(f"{in_c:8.0f} ns  a region in C ({cost.begin:.0f} to begin it, {cost.end:.0f} to end it)")
        print(f"{held(times):8.0f} ns  a region in Python, made before ({begun(times):.0f} to begin it)")
        print(f"{made(times):8.0f} ns  a region in Python, with counteroof.region(...)")


def held(times: int) -> float:
    """Return the median nanoseconds of passing a region; one of the clock's readings is among them."""
    region = counteroof.region("held")
    taken = []
    for _ in range(times):
        start = perf_counter_ns()
        with region:
            pass
        taken.append(perf_counter_ns() - start)
    return statistics.median(taken)


def begun(times: int) -> float:
    """Return the median nanoseconds of beginning a region alone."""
    region = counteroof.region("held")
    taken = []
    for _ in range(times):
        start = perf_counter_ns()
        with region:
            taken.append(perf_counter_ns() - start)
    return statistics.median(taken)


def made(times: int) -> float:
    """Return the same for a region that is made each time."""
    taken = []
    for _ in range(times):
        start = perf_counter_ns()
        with counteroof.region("made"):
            pass
        taken.append(perf_counter_ns() - start)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
