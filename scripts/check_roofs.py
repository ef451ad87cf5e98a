#!/usr/bin/env python3
"""Holds what the built-in kernels move, over the time they take, against the roofs measured on this machine.

Usage: python scripts/check_roofs.py [RESULTS]..., results files or folders of runs; without any the machine
is measured at length and the built-in kernels are run, at their default size and with as much of shared
caches as was measured (--capacity measured), and then each of the streaming ones a few times more in
runs of its own, with its roof measured right before and after. Those of the same name in several files are
judged together. Misses come first. Exit status 1 if there are any:

- bytes over time above the DRAM roof by more than 5 %, for any kernel: bytes are counted that did not move,
  or the roof is too low;
- a kernel of those below that is not where it should be by 15 %: bytes are missing, or something else holds
  it back.

Where they should be is told by what their lines wait for, each part at the pace that ``counteroof machine``
has measured. Streams have one part: all bytes, at the roof of their own mix of loads and stores, on pages
like theirs, measured around the kernel. A column of lines that lie two apart comes at the pace of strided
loads, which are measured four apart: on small pages it may be faster than that. A table that an index leads
into, and a column whose lines L2 cannot keep apart, come at that of scattered loads, from memory and from
L3; other bytes are streams. A column in many pages has each of its addresses translated, at the pace of a
walk over as many, and where rows are of a power of two, its lines come into one set of L1. Parts may
overlap: the time must not be less than the longest of them, nor more than all one after the other.

A streaming kernel's median call is held against the median of its roof's samples. The highest is no measure
of what a call should reach: a sample goes over a few tens of MiB and a call over all of its arrays, some of
whose page frames are slower than others. Frames change with each process, so of several runs the median of
the ratios counts, and a single run may miss by chance.

For kernels that wait the best is held against the best: the shortest call against the highest sample. Others
on the machine make both lower at times, and the longer one, which is the kernel's, more often; run it again
then. Between the longest part and all together there is much room where several are alike: a walk that comes
from memory, from L3 and through translations at once may take twice its time before it misses.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof import results as results_file
from counteroof.commands import DONE, FAILED
from counteroof.errors import CounteroofError
from counteroof.results import KernelResult, Results
from counteroof.roofline import dram_ceilings

ABOVE = 0.05
"""Share by which bytes over time may be above the DRAM roof."""
NEAR = 0.15
"""Share by which kernels may be off where they should be."""
TURNS = 3
"""More runs of each streaming kernel."""
STREAMING = {
    "triad": "DRAM triad",
    "copy": "DRAM copy",
    "copy_nontemporal": "DRAM copy NT",
    "dot": "DRAM read",
}
"""The roof that is of their mix."""
WAITING = {
    "column_sum": ("a", "DRAM strided"),
    "column_walk_power_of_two": ("a", "DRAM scattered"),
    "column_walk_padded": ("a", "DRAM read"),
    "gather": ("table", "DRAM scattered"),
}
"""The array that is waited for, and how its lines come from memory. Those of the padded walk follow each
other, from one column to the next, so that prefetchers see them."""
WALKS = ("column_walk_power_of_two", "column_walk_padded")
"""Whose loads are in a page each, of so many that the first TLB has not room for them."""
FROM_L3 = "L2-L3 scattered"
WALK = "L1-L2 walk 1024"
IN_ONE_SET = ("column_walk_power_of_two",)
SAME_SET = "L1-L2 same set"
OTHERS = "DRAM copy"
SMALL_PAGES = "4 KiB pages"


@dataclass(frozen=True)
class Line:
    """One kernel; rates in byte/s, ``None`` where something could not be had."""

    kernel: str
    rate: float | None
    roof: float | None
    """The highest DRAM bandwidth measured with this number of threads."""
    bound: str | None
    fraction: float | None
    """Share that was reached: of what the roof with its mix usually is, or else of the one it is bound by."""
    parts: str = ""
    """Shares of the time that the parts of a waiting kernel need."""
    miss: str = ""


def dram_roof(results: Results, kernel: KernelResult) -> float | None:
    """Return the highest DRAM bandwidth known, the one measured next to the kernel included."""
    values = [one.value for one in dram_ceilings(results.machine.ceilings) if one.threads == kernel.threads]
    place = kernel.placement
    if place is not None and place.bound == "dram" and place.roof is not None:
        values.append(place.roof)
    return max(values, default=None)


@dataclass(frozen=True)
class MixRoof:
    """The roof of a streaming kernel's mix around it: the highest sample, and the median."""

    name: str
    highest: float
    usual: float


def mix_roof(results: Results, kernel: KernelResult) -> MixRoof | None:
    """Return the roof of the streaming kernel's mix on its pages, as it was before and after it."""
    name = STREAMING[kernel.name]
    if {one.huge_pages for one in kernel.arrays if one.huge_pages is not None} == {False}:
        name = f"{name}, {SMALL_PAGES}"
    number = results.kernels.index(kernel)
    same = [one for one in results.roof_samples if (one.ceiling, one.threads) == (name, kernel.threads)]
    around = [one for one in same if one.kernels <= number][-1:] + [
        one for one in same if one.kernels > number
    ][:1]
    medians = [one.median for one in around if one.median is not None]
    measured = (*results.machine.ceilings, *results.machine.access)
    kept = next((one for one in measured if (one.name, one.threads) == (name, kernel.threads)), None)
    if around and len(medians) == len(around):
        return MixRoof(name, max(one.value for one in around), statistics.mean(medians))
    return None if kept is None else MixRoof(name, kept.value, kept.median)


def known(results: Results, kernel: KernelResult) -> dict[str, float]:
    """Return what was measured of the machine with the kernel's number of threads, by name."""
    measured = (*results.machine.access, *results.machine.ceilings)
    return {one.name: one.value for one in measured if one.threads == kernel.threads}


def seconds_of_parts(results: Results, kernel: KernelResult) -> dict[str, float] | str:
    """Return the least time of each part of a waiting kernel, by the pace it has; or what is not known."""
    name, pace = WAITING[kernel.name]
    paces = known(results, kernel)
    array = next((one for one in kernel.arrays if one.name == name), None)
    modelled, total = kernel.counters.get("instrument"), kernel.dram_bytes.value
    if modelled is None or array is None or total is None:
        return "no bytes of arrays"
    if not array.huge_pages and f"{pace}, {SMALL_PAGES}" in paces:
        pace = f"{pace}, {SMALL_PAGES}"
    loads = modelled.access_mix.accesses if modelled.access_mix and kernel.name in WALKS else 0
    ways = 2 if results.machine.caches[-1].fill == "victim" else 1  # a line up sends one down
    from_l3 = (modelled.l2_l3_bytes.value or 0) - ways * (total - array.dram_write_bytes)
    parts = {
        pace: array.dram_read_bytes,
        OTHERS: total - array.dram_read_bytes,
        FROM_L3: max(from_l3, 0),
        WALK: loads * results.machine.caches[0].line_bytes,
        SAME_SET: (modelled.l1_l2_bytes.value or 0) if kernel.name in IN_ONE_SET else 0,
    }
    missing = [one for one, size in parts.items() if size and one not in paces]
    if missing:
        return f"'counteroof machine' has not measured {missing[0]}"
    return {one: size / paces[one] for one, size in parts.items() if size}


def streamed(runs: Sequence[tuple[Results, KernelResult]]) -> Line:
    """Return the line of a streaming kernel in one or several runs, each with its roof around it."""
    lines = [judged(*run) for run in runs]
    best = max(lines, key=lambda line: line.rate or 0)
    if missed := [line for line in lines if line.miss]:
        return missed[0]
    usual, highest, names = [], [], {}
    for results, kernel in runs:
        roof, seconds, moved = mix_roof(results, kernel), kernel.seconds, kernel.dram_bytes.value
        if roof is None or seconds is None or moved is None:
            return replace(best, miss=f"there is no roof {STREAMING[kernel.name]} on its pages")
        rate = moved / statistics.median(seconds.samples)
        usual.append(rate / roof.usual)
        highest.append(rate / roof.highest)
        names[roof.name] = None
    share, of_highest = statistics.median(usual), statistics.median(highest)
    miss = ""
    if abs(share - 1) > NEAR:
        miss = f"more than {NEAR:.0%} off what its roof usually is"
    several = f"{min(usual):.2f} to {max(usual):.2f} in {len(runs)} runs, " if len(runs) > 1 else ""
    told = f"{several}{of_highest:.2f} of the highest of {' and '.join(names)}"
    return replace(best, fraction=share, parts=told, miss=miss)


def judged(results: Results, kernel: KernelResult) -> Line:
    """Return the line of one kernel, with what speaks against it; of streams, but for their roof."""
    moved, seconds, place = kernel.dram_bytes.value, kernel.seconds, kernel.placement
    best = None if seconds is None else min(seconds.samples)
    rate = None if moved is None or best is None else moved / best
    roof = dram_roof(results, kernel)
    bound = place.bound if place else None
    fraction = place.fraction if place else None
    told, miss = "", ""
    if kernel.error is not None:
        miss = f"failed: {kernel.error.message}"
    elif rate is None or roof is None or best is None:
        miss = "no bytes, time or roof to judge it by"
    elif rate > (1 + ABOVE) * roof:
        miss = f"{rate / roof - 1:.0%} above the DRAM roof"
    elif kernel.name in WAITING:
        parts = seconds_of_parts(results, kernel)
        if isinstance(parts, str):
            miss = parts
        else:
            longest, together = max(parts.values()), sum(parts.values())
            told = " + ".join(f"{took / best:.2f} {name}" for name, took in parts.items())
            told += f" = {together / best:.2f}"
            if best < (1 - NEAR) * longest:
                miss = "faster than its longest part"
            elif best > (1 + NEAR) * together:
                miss = "slower than its parts one after the other"
    return Line(kernel.label or kernel.name, rate, roof, bound, fraction, told, miss)


def all_judged(found: Sequence[Results]) -> list[Line]:
    """Return the lines of all kernels, of a streaming one a single line for each size."""
    streams: dict[tuple[str, int], list[tuple[Results, KernelResult]]] = {}
    lines = []
    for results in found:
        for kernel in results.kernels:
            if kernel.name in STREAMING:
                streams.setdefault((kernel.label or kernel.name, kernel.threads), []).append(
                    (results, kernel)
                )
            else:
                lines.append(judged(results, kernel))
    return lines + [streamed(runs) for runs in streams.values()]


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Give the table's lines: misses first, then by share of the DRAM roof."""
    yield f"{'kernel':34}{'DRAM GB/s':>10}{'roof':>8}{'share':>8}  {'bound':8}{'of it':>7}  miss; parts"

    def order(line: Line) -> tuple[bool, float]:
        return not line.miss, -(line.rate or 0) / (line.roof or 1)

    for line in sorted(lines, key=order):
        share = line.rate / line.roof if line.rate is not None and line.roof else None
        said = "; ".join(filter(None, (line.miss, line.parts)))
        yield (
            f"{line.kernel:34}{cell(line.rate, 1e-9, 10)}{cell(line.roof, 1e-9, 8)}{cell(share, 1, 8)}"
            f"  {line.bound or '-':8}{cell(line.fraction, 1, 7)}  {said}".rstrip()
        )


def cell(value: float | None, scale: float, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value * scale:{width}.2f}"


def run_all(folder: Path) -> list[Results]:
    """Measure the machine, run the built-in kernels and the streaming ones again; return what was found."""
    counteroof = [sys.executable, "-m", "counteroof"]
    subprocess.run([*counteroof, "machine"], check=True, stdout=subprocess.DEVNULL)
    found = []
    for number, kernel in enumerate(("*", *TURNS * tuple(STREAMING))):
        out = folder / str(number)
        command = [*counteroof, "run", "--kernel", kernel, "--capacity", "measured", "--out", str(out)]
        if (status := subprocess.run(command, check=False).returncode) not in (DONE, FAILED):
            raise SystemExit(status)  # it has said why
        found.append(results_file.load(out / "results.json"))
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="*", type=Path, help="results files or folders of runs")
    paths = parser.parse_args(arguments).results
    if paths:
        try:
            found = [results_file.load(path / "results.json" if path.is_dir() else path) for path in paths]
        except CounteroofError as error:
            parser.error(str(error))
    else:
        with tempfile.TemporaryDirectory(prefix="roofs-") as folder:
            found = run_all(Path(folder))
    lines = all_judged(found)
    print("\n".join(table(lines)))
    missed = sum(bool(line.miss) for line in lines)
    print(f"{len(lines)} kernels, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
