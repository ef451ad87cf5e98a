#!/usr/bin/env python3
"""Confirms the gains of findings by repaired twins: predicted and measured speed-up of built-in kernels.

Of each pair the first has a fault and the second is the same without it. They run in turns, so that both meet
the same machine, and the roofs are measured between them as in any run. Predicted is the gain of the finding
that names the fault, measured the time of the first over the time of the second, in which they had a
processor; both are medians over the turns. The exit code is 1 if one is off by more than a quarter.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof import catalog, here
from counteroof.count.select import choose
from counteroof.diagnose import memory
from counteroof.results import KernelResult
from counteroof.session import Settings, measure

ENOUGH = 0.25
"""Share of the measured speed-up by which the predicted one may be off."""


@dataclass
class Pair:
    """A kernel with a fault, its twin without, the rule that finds the fault, and what the turns gave."""

    faulty: str
    repaired: str
    rule: str
    predicted: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    unnamed: int = 0
    """Turns in which the rule did not speak."""

    @property
    def off(self) -> float | None:
        """By what share of the measured speed-up the prediction is off; ``None`` if there is none."""
        if not self.predicted or not self.measured:
            return None
        return statistics.median(self.predicted) / statistics.median(self.measured) - 1

    @property
    def holds(self) -> bool:
        """Whether the prediction came true."""
        return self.off is not None and abs(self.off) <= ENOUGH and not self.unnamed

    def turn(self, faulty: KernelResult, repaired: KernelResult) -> None:
        """Add what one turn gave."""
        for one in (faulty, repaired):
            if one.error is not None:
                raise SystemExit(f"{one.label}: {one.error.message}")
        gains = [one.gain for one in faulty.findings if one.rule == self.rule and one.gain is not None]
        self.predicted += gains
        self.unnamed += not gains
        self.measured.append(on_a_processor(faulty) / on_a_processor(repaired))


def on_a_processor(kernel: KernelResult) -> float:
    """Return the median seconds of a call, less what other programs had the processor for."""
    if kernel.seconds is None:
        raise SystemExit(f"{kernel.label}: not timed")
    share = kernel.processor_share
    return kernel.seconds.median * (1.0 if share is None else min(share, 1.0))


def pairs() -> tuple[Pair, ...]:
    """Return the pairs of built-in kernels."""
    return (
        Pair("transpose_naive", "transpose_blocked", memory.STRIDED),
        Pair("column_walk_power_of_two", "column_walk_padded", memory.CONFLICT),
        Pair("copy", "copy_nontemporal", memory.WRITE_ALLOCATE_RULE),
    )


def run(found: Sequence[Pair], turns: int) -> None:
    """Run all pairs in turns."""
    specs = {spec.name: spec for spec in catalog.kernels()}
    missing = [name for one in found for name in (one.faulty, one.repaired) if name not in specs]
    if missing:
        raise SystemExit(f"this processor has no {', '.join(missing)}")
    machine, own = here.for_run(None, (1,))
    order = [one for one in found for _ in range(2)] * turns
    cases = [specs[name].cases()[0] for one in found for name in (one.faulty, one.repaired)] * turns
    kernels: tuple[KernelResult, ...] = ()
    for done, (results, _) in enumerate(measure(cases, machine, Settings(choose("instrument"), here=own)), 1):
        kernels = results.kernels
        print(f"\r{done} of {len(cases)} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for index in range(0, len(order), 2):
        order[index].turn(kernels[index], kernels[index + 1])


def report(found: Sequence[Pair]) -> int:
    """Print the table, misses first, and return the exit code."""
    print("        predicted  measured    off  turns  kernel, twin: finding")
    for one in sorted(found, key=lambda pair: pair.holds):
        predicted, measured = (
            f"{statistics.median(values):9.2f}" if values else "        -"
            for values in (one.predicted, one.measured)
        )
        off = "     -" if one.off is None else f"{one.off:+6.0%}"
        what = f"{one.faulty}, {one.repaired}: {one.rule}"
        if one.unnamed:
            what += f" (not found in {one.unnamed} turns)"
        mark = "      " if one.holds else "MISS  "
        print(f"{mark} {predicted} {measured} {off} {len(one.measured):6}  {what}")
    held = sum(one.holds for one in found)
    print(f"{held} of {len(found)} within {ENOUGH:.0%}")
    return int(held < len(found) or not found)


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="how often each pair runs (default 7)")
    found = pairs()
    run(found, parser.parse_args().turns)
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
