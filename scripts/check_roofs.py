#!/usr/bin/env python3
"""Holds what the built-in kernels move, over the time they take, against the roofs measured on this machine.

Usage: python scripts/check_roofs.py [RESULTS], a results file or the folder of a run; without one the
built-in kernels are run first, at their default size. Misses come first. Exit status 1 if there are any:

- bytes over time above the DRAM roof by more than 5 %, for any kernel: bytes are counted that did not move,
  or the roof is too low;
- a streaming kernel that reaches less than 85 % or more than 115 % of the roof with its own mix of loads and
  stores, as measured around it: bytes are missing, or something else holds it back;
- a kernel that waits rather than streams (columns, random lines), with no finding that says for what.

Best is held against best: the shortest call against the highest sample. Others on the machine make both lower
at times, and the longer one, which is the kernel's, more often; run it again then.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof import results as results_file
from counteroof.results import KernelResult, Results
from counteroof.roofline import dram_ceilings

ABOVE = 0.05
"""Share by which bytes over time may be above the DRAM roof."""
NEAR = 0.15
"""Share by which kernels that a bandwidth binds may be off their roof."""
STREAMING = {
    "triad": "DRAM triad",
    "copy": "DRAM copy",
    "copy_nontemporal": "DRAM copy NT",
    "dot": "DRAM read",
}
"""The roof that is of their mix."""
WAITING = ("column_sum", "column_walk_power_of_two", "gather")


@dataclass(frozen=True)
class Line:
    """One kernel; rates in byte/s, ``None`` where something could not be had."""

    kernel: str
    rate: float | None
    roof: float | None
    """The highest DRAM bandwidth measured with this number of threads."""
    bound: str | None
    fraction: float | None
    """Share that was reached: of the roof with its mix, or else of the one it is bound by."""
    miss: str = ""


def dram_roof(results: Results, kernel: KernelResult) -> float | None:
    """Return the highest DRAM bandwidth known, the one measured next to the kernel included."""
    values = [one.value for one in dram_ceilings(results.machine.ceilings) if one.threads == kernel.threads]
    place = kernel.placement
    if place is not None and place.bound == "dram" and place.roof is not None:
        values.append(place.roof)
    return max(values, default=None)


def mix_roof(results: Results, kernel: KernelResult) -> float | None:
    """Return the bandwidth of the streaming kernel's own mix, the higher of those around it."""
    name = STREAMING.get(kernel.name)
    number = results.kernels.index(kernel)
    same = [one for one in results.roof_samples if (one.ceiling, one.threads) == (name, kernel.threads)]
    around = [one for one in same if one.kernels <= number][-1:] + [
        one for one in same if one.kernels > number
    ][:1]
    kept = [c for c in results.machine.ceilings if (c.name, c.threads) == (name, kernel.threads)]
    return max((one.value for one in around or kept), default=None)


def judged(results: Results, kernel: KernelResult) -> Line:
    """Return the line of one kernel, with what speaks against it."""
    moved, seconds, place = kernel.dram_bytes.value, kernel.seconds, kernel.placement
    rate = None if moved is None or seconds is None else moved / min(seconds.samples)
    roof = dram_roof(results, kernel)
    bound = place.bound if place else None
    own = mix_roof(results, kernel)
    fraction = rate / own if rate is not None and own else place.fraction if place else None
    miss = ""
    if kernel.error is not None:
        miss = f"failed: {kernel.error.message}"
    elif rate is None or roof is None:
        miss = "no bytes, time or roof to judge it by"
    elif rate > (1 + ABOVE) * roof:
        miss = f"{rate / roof - 1:.0%} above the DRAM roof"
    elif kernel.name in STREAMING and own is None:
        miss = f"there is no roof {STREAMING[kernel.name]}"
    elif kernel.name in STREAMING and own is not None and abs(rate / own - 1) > NEAR:
        miss = f"more than {NEAR:.0%} off the roof of its mix"
    elif kernel.name in WAITING and all(one.severity != "cost" for one in kernel.findings):
        miss = "no finding says what it waits for"
    return Line(kernel.label or kernel.name, rate, roof, bound, fraction, miss)


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Give the table's lines: misses first, then by share of the DRAM roof."""
    yield f"{'kernel':34}{'DRAM GB/s':>10}{'roof':>8}{'share':>8}  {'bound':8}{'of its roof':>12}  miss"

    def order(line: Line) -> tuple[bool, float]:
        return not line.miss, -(line.rate or 0) / (line.roof or 1)

    for line in sorted(lines, key=order):
        share = line.rate / line.roof if line.rate is not None and line.roof else None
        yield (
            f"{line.kernel:34}{cell(line.rate, 1e-9, 10)}{cell(line.roof, 1e-9, 8)}{cell(share, 1, 8)}"
            f"  {line.bound or '-':8}{cell(line.fraction, 1, 12)}  {line.miss}".rstrip()
        )


def cell(value: float | None, scale: float, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value * scale:{width}.2f}"


def run_all(folder: Path) -> Results:
    """Run the built-in kernels and return what was found."""
    subprocess.run([sys.executable, "-m", "counteroof", "run", "--out", str(folder)], check=False)
    return results_file.load(folder / "results.json")


def main(arguments: Sequence[str]) -> int:
    if arguments:
        path = Path(arguments[0])
        found = results_file.load(path / "results.json" if path.is_dir() else path)
    else:
        with tempfile.TemporaryDirectory(prefix="roofs-") as folder:
            found = run_all(Path(folder))
    lines = [judged(found, kernel) for kernel in found.kernels]
    print("\n".join(table(lines)))
    missed = sum(bool(line.miss) for line in lines)
    print(f"{len(lines)} kernels, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
