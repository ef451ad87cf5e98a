#!/usr/bin/env python3
"""Compares the ceilings with what likwid-bench and carm-roofline reach, for each level, mix and ISA.

Needs Debian's ``likwid`` and PyPI's ``carm-roofline``; what is missing is said and left out. Bytes are those
that instructions load and store, as both tools count them: write-allocates are in nobody's. Each repeat
measures one after the other, with one thread and with two, on the same processors with the same working set;
of a repeat, ours is the best short sample, as a ceiling is, of those before and after the peers, since a core
that it shares with another machine has good moments and bad ones. The medians of all repeats are compared,
misses are printed first, and the exit code is 1 if there is one. While other programs run, the two tools
suffer more than ours, which picks short undisturbed samples: the ratios are then too good, unless with
``--realtime``.

Where a machine is quiet for a minute at a time, ``--file`` keeps what each repeat found; runs with other
levels, instruction sets or threads, and further repeats, add to it, and ``--repeats 0`` shows all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof import units
from counteroof.ceiling_jobs import SKEW_BYTES, Job, stream_bytes
from counteroof.ceilings import QUICK, measure_jobs
from counteroof.machine import topology
from counteroof.machine.boundary import Boundary
from counteroof.machine.loops import Loop, Team, loops
from counteroof.machine.model import Machine

ENOUGH = {"bandwidth": 0.97, "compute": 0.98}
INSTRUCTIONS = Boundary("l1", "core-L1", "core")
DRAM_BYTES = 512 << 20
PLACES_BYTES = 8 << 20
SHORTEST = 0.005
"""Seconds: a peer's measurement that took less did not run what it says."""

LEVELS = ("L1", "L2", "L3", "DRAM")

LIKWID_ISA = {"scalar": "", "SSE": "_sse", "AVX2": "_avx", "AVX-512": "_avx512"}
LIKWID_MIXES = {
    "1:0": ("load", "read"),
    "0:1": ("store", "store"),
    "1:1": ("copy update", "copy,update"),
    "2:1": ("stream daxpy", "triad,2:1,2:1 in place"),
    "3:1": ("triad", "3:1"),
    "0:1 NT": ("store_mem", "store NT"),
    "1:1 NT": ("copy_mem", "copy NT"),
    "2:1 NT": ("stream_mem", "triad NT"),
}
"""For loads to stores, the kernels of likwid-bench separated by spaces, and our mixes separated by commas."""

CARM_ISA = {"scalar": "x86", "SSE": "x86_sse", "AVX2": "x86_avx2", "AVX-512": "x86_avx512"}
CARM_MIX = {"add": "ADD", "mul": "MUL", "fma": "FMA"}
CARM_TYPES = {"f64": "f64", "f32": "f32", "bf16": "bf16"}


@dataclass
class Row:
    """One ceiling and what reaches for it."""

    kind: str
    level: str
    mix: str
    isa: str
    precision: str = "f64"
    jobs: tuple[Job, ...] = ()
    likwid: tuple[str, ...] = ()
    threads: int = 1
    rates: dict[str, list[float]] = field(default_factory=dict)
    """By who reached it, a rate for each repeat."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.level, self.mix, self.isa, self.precision

    def add(self, who: str, rate: float) -> None:
        self.rates.setdefault(who, []).append(rate)

    def of(self, statistic: str) -> tuple[float, str, float] | None:
        """Return our rate, the best peer and its rate; ``None`` if either has none."""
        pick = statistics.median if statistic == "median" else max
        peers = {who: pick(rates) for who, rates in self.rates.items() if who != "counteroof"}
        if not peers or "counteroof" not in self.rates:
            return None
        best = max(peers, key=lambda who: peers[who])
        return pick(self.rates["counteroof"]), best, peers[best]

    def ratio(self, statistic: str = "median") -> float:
        found = self.of(statistic)
        return found[0] / found[2] if found else float("nan")


def rows(machine: Machine, levels: Sequence[str], isas: Sequence[str], threads: int) -> Iterator[Row]:
    """Yield all comparisons; memory is that of one thread for each stream."""
    there: dict[tuple[str, str, str], list[Loop]] = {}
    for loop in loops():
        there.setdefault((loop.mix, loop.isa, loop.precision), []).append(loop)
    caches = {cache.name: cache for cache in machine.caches}
    for isa in isas:
        for level in levels:
            for mix, (kernels, ours) in LIKWID_MIXES.items() if level != "compute" else ():
                if mix.endswith("NT") and level != "DRAM":
                    continue
                found = [loop for name in ours.split(",") for loop in there.get((name, isa, "f64"), ())]
                jobs = []
                for loop in found:
                    size: int | None = DRAM_BYTES // threads // len(loop.streams) // (1 << 20) * (1 << 20)
                    if level != "DRAM":
                        size = stream_bytes(machine, caches[level], threads, len(loop.streams))
                    if size is not None:
                        jobs.append(_memory_job(loop, level, size, threads))
                names = tuple(
                    f"{kernel}{LIKWID_ISA[isa]}{suffix}"
                    for kernel in kernels.split()
                    for suffix in ("", "_fma")
                )
                yield Row("bandwidth", level, mix, isa, jobs=tuple(jobs), likwid=names, threads=threads)
        for precision in ("f64", "f32", "bf16", "int8") if "compute" in levels else ():
            loops_here = {m: alike[0] for (m, i, p), alike in there.items() if (i, p) == (isa, precision)}
            sp = "_sp" if precision == "f32" else ""
            for mix in ("ADD", "MUL", "FMA", "ADD+MUL 1:1", "DOT"):
                kernels_of = {"FMA": f"peakflops{sp}{LIKWID_ISA[isa]}_fma"}
                kernels_of["ADD+MUL 1:1"] = f"peakflops{sp}{LIKWID_ISA[isa]}"
                names = (kernels_of[mix],) if mix in kernels_of and precision in ("f64", "f32") else ()
                jobs = [Job(mix, loops_here[mix])] if mix in loops_here else []
                yield Row("compute", "", mix, isa, precision, tuple(jobs), names, threads)


def _memory_job(loop: Loop, level: str, size: int, threads: int) -> Job:
    if level != "DRAM":
        return Job(f"{level} {loop.mix}", loop, INSTRUCTIONS, size, wrapped=True)
    window = (32 << 20) // threads // len(loop.streams) // loop.chunk_bytes
    size = size // (window * loop.chunk_bytes) * (window * loop.chunk_bytes)
    return Job(f"{level} {loop.mix}", loop, INSTRUCTIONS, size, iterations=window)


def measure_ours(team: Team, row: Row, *, again: bool = False) -> None:
    """Add the best short sample of the best of our loops, or raise the last one; of L2, at several places."""
    places = range(0, PLACES_BYTES, 2 << 20) if row.level == "L2" else (0,)
    found = measure_jobs(team, [replace(job, place=place) for job in row.jobs for place in places], QUICK)
    if not found:
        return
    best = max(one.value for one in found)
    if again:
        row.rates["counteroof"][-1] = max(best, row.rates["counteroof"][-1])
    else:
        row.add("counteroof", best)


def measure_likwid(row: Row, known: set[str], cpus: Sequence[int], seconds: float) -> None:
    """Add what each kernel of likwid-bench reaches with the working set of ours."""
    threads = len(cpus)
    for kernel in row.likwid:
        if kernel not in known or not row.jobs or "counteroof" not in row.rates:
            continue
        job = row.jobs[0]
        total = len(job.loop.streams) * job.stream_bytes * threads or 24_000 * threads
        rate = row.rates["counteroof"][-1]
        unit = total if row.kind == "bandwidth" else total * 2  # peakflops: 16 FLOPs for 8 bytes
        iterations = max(2, round(seconds * rate / unit))
        domain = f"N:{total // 1000}kB:{threads}"
        command = ["likwid-bench", "-t", kernel, "-w", domain, "-i", str(iterations)]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        label = "MByte/s" if row.kind == "bandwidth" else "MFlops/s"
        match = re.search(rf"^{label}:\s*([\d.]+)", out.stdout, re.MULTILINE)
        if out.returncode or match is None:
            print(
                f"likwid-bench -t {kernel} -w {domain} failed: {out.stderr.strip()[-200:]}", file=sys.stderr
            )
            continue
        row.add(f"likwid {kernel}", float(match[1]) * 1e6)


def measure_carm(
    table: dict[tuple[str, str, str, str], Row],
    levels: Sequence[str],
    isas: Sequence[str],
    threads: int,
    seconds: float,
) -> None:
    """Add what carm-roofline reaches; one run for memory, and one for each kind of arithmetic."""
    program = shutil.which("carm", path=str(Path(sys.executable).parent)) or shutil.which("carm")
    if program is None:
        return
    base = [
        program,
        "benchmark",
        "--threads",
        str(threads),
        "--test-time",
        str(max(0.1, seconds)),  # with less it reports nanoseconds
        "--output-fmt",
        "jsonl",
    ]
    names = [CARM_ISA[isa] for isa in isas]
    inner = [level for level in levels if level != "compute"]
    memory = ["-t", "memory", "-m", *inner, "-d", "f64", "--ld-st-ratio", "1:0", "0:1", "1:1", "2:1", "3:1"]
    if inner:
        sizes = []
        for level in LEVELS:
            job = next(
                (
                    one
                    for (at, mix, *_), row in table.items()
                    if (at, mix) == (level, "2:1")
                    for one in row.jobs
                ),
                None,
            )
            sizes.append(f"{3 * job.stream_bytes // 1024}KiB" if job is not None else "auto")
        memory += ["--mem-test-sizes", *sizes]
    runs = [[*memory, "-i", *names]] if inner else []
    if "compute" not in levels:
        names = []
    arithmetic = ["-t", "arithmetic", "-d"]
    for isa in names:
        # it has code for SSE that cannot be assembled (mulpd with three operands), which stops the rest
        which = [one for one in CARM_MIX if (one, isa) != ("mul", "x86_sse")]
        runs.append([*arithmetic, "f64", "f32", "--instruction", *which, "-i", isa])
    if ("", "DOT", "AVX-512", "bf16") in table and table["", "DOT", "AVX-512", "bf16"].jobs and names:
        # where the processor has none, it dies of an illegal instruction
        runs.append([*arithmetic, "bf16", "--instruction", "fma", "-i", "x86_avx512"])
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            out = subprocess.run(
                [*base, *run, "--output-dir", folder], capture_output=True, text=True, check=False
            )
            lines = [
                line
                for path in Path(folder).rglob("benchmarks.jsonl")
                for line in path.read_text().splitlines()
            ]
        if out.returncode or not lines:
            print(f"carm {' '.join(run)} failed: {(out.stdout + out.stderr).strip()[-200:]}", file=sys.stderr)
        for line in lines:
            _carm_line(table, json.loads(line))


def _carm_line(table: dict[tuple[str, str, str, str], Row], found: dict[str, object]) -> None:
    isa = next(ours for ours, theirs in CARM_ISA.items() if theirs == found["isa"])
    precision = CARM_TYPES[str(found["data_type"])]
    if float(str(found["time_seconds"])) < SHORTEST:
        print(f"carm: {found['name']} took {found['time_seconds']} s, left out", file=sys.stderr)
        return
    if found["type"] == "memory":
        key = str(found["cache_level"]), str(found["load_store_ratio"]), isa, precision
        rate = found["bandwidth_gbps"]
    else:
        mix = CARM_MIX[str(found["operation"])]
        key = "", "DOT" if precision == "bf16" else mix, isa, precision
        rate = found["performance_gops"]
    if key in table:
        table[key].add("carm", float(str(rate)) * 1e9)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    most = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, nargs="+", default=(1, 2) if most > 1 else (1,))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.2,
        help="of one measurement of a peer; with 0.004, likwid-bench is at times done before another "
        "program gets the processor (carm-roofline needs at least 0.1)",
    )
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="run everything before all other processes, as root: then those disturb nobody, and wait",
    )
    parser.add_argument("--levels", nargs="*", choices=(*LEVELS, "compute"), default=(*LEVELS, "compute"))
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=("likwid", "carm"),
        default=("likwid", "carm"),
        help="carm-roofline takes a minute for DRAM",
    )
    parser.add_argument("--file", type=Path, help="keep what is found here, and add to what is there")
    parser.add_argument("--isas", nargs="+", choices=tuple(CARM_ISA), default=tuple(CARM_ISA))
    arguments = parser.parse_args()
    machine = topology.detect()
    present = {loop.isa for loop in loops()}
    isas = [isa for isa in arguments.isas if isa in present]
    there = {"compute", "DRAM", *(cache.name for cache in machine.caches)}
    levels = [one for one in arguments.levels if one in there]
    tables = {
        threads: {row.key: row for row in rows(machine, levels, isas, threads)}
        for threads in arguments.threads
    }
    kept = load(arguments.file)
    known: set[str] = set()
    if "likwid" in arguments.peers and shutil.which("likwid-bench"):
        listing = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True).stdout
        known = {line.partition(" ")[0] for line in listing.splitlines()}
    try:
        for repeat in range(arguments.repeats):
            for threads, table in tables.items():
                if arguments.realtime:
                    go_first(threads)
                cpus = topology.placement(threads)
                jobs = [job for row in table.values() for job in row.jobs]
                room = max((job.memory_bytes for job in jobs), default=0) + SKEW_BYTES + PLACES_BYTES
                with Team(cpus, room) as team:
                    for row in table.values():
                        measure_ours(team, row)
                        if known:
                            measure_likwid(row, known, cpus, arguments.seconds)
                            measure_ours(team, row, again=True)
                    if "carm" in arguments.peers:
                        measure_carm(table, levels, isas, threads, arguments.seconds)
                        for row in table.values():
                            measure_ours(team, row, again=True)
            print(f"repeat {repeat + 1} of {arguments.repeats} done", file=sys.stderr)
            if arguments.file is not None:
                kept = add(kept, tables.values())
                save(arguments.file, kept)
                for row in (row for table in tables.values() for row in table.values()):
                    row.rates.clear()
    except KeyboardInterrupt:
        print("interrupted: of the last repeat not everything is there", file=sys.stderr)
    return report(kept or [row for table in tables.values() for row in table.values()])


def load(path: Path | None) -> list[Row]:
    """Return the rows of a file, none if there is none yet."""
    if path is None or not path.exists():
        return []
    return [Row(**one) for one in json.loads(path.read_text())]


def save(path: Path, found: Sequence[Row]) -> None:
    """Write rows into a file, without the loops that only this machine has."""
    names = ("kind", "level", "mix", "isa", "precision", "threads", "rates")
    path.write_text(json.dumps([{name: getattr(row, name) for name in names} for row in found]))


def add(kept: Sequence[Row], tables: Iterable[Mapping[tuple[str, str, str, str], Row]]) -> list[Row]:
    """Return the rows kept, with what others of the same ceiling and threads found besides."""
    found = {(*row.key, row.threads): row for row in kept}
    for row in (row for table in tables for row in table.values() if row.rates):
        same = found.setdefault((*row.key, row.threads), replace(row, jobs=(), likwid=(), rates={}))
        for who, rates in row.rates.items():
            same.rates.setdefault(who, []).extend(rates)
    return list(found.values())


def go_first(threads: int) -> None:
    """Run before all other processes, as root, and so does what is started from here."""
    alone = threads == 1
    # threads of the tools wait for each other in loops, and in real time that is for ever
    os.sched_setscheduler(0, os.SCHED_FIFO if alone else os.SCHED_OTHER, os.sched_param(int(alone)))
    os.setpriority(os.PRIO_PROCESS, 0, 0 if alone else -20)


def report(found: Sequence[Row]) -> int:
    """Print all comparisons, the misses and the lowest ratios first; return the exit code."""
    compared = sorted(
        (row for row in found if row.of("median")), key=lambda row: row.ratio() / ENOUGH[row.kind]
    )
    misses = [row for row in compared if row.ratio() < ENOUGH[row.kind]]
    line = "{:6}{:>6} {:>6}  {:5}{:13}{:9}{:6}{:>3}{:>14}{:>14}  {}"
    print(line.format("", "median", "best", "", "mix", "ISA", "", "thr", "ours", "best peer", ""))
    for row in compared:
        ours, peer, theirs = row.of("median") or (0.0, "", 0.0)
        rate = units.bandwidth if row.kind == "bandwidth" else units.flop_rate
        ratios = (f"{row.ratio(one):.3f}" for one in ("median", "best"))
        where = *row.key, row.threads
        print(line.format("MISS" if row in misses else "", *ratios, *where, rate(ours), rate(theirs), peer))
    alone = [row for row in found if "counteroof" not in row.rates and row.rates]
    for row in alone:
        print(f"no loop of ours: {' '.join(part for part in row.key if part)}")
    bandwidth, compute = ENOUGH.values()
    print(f"{len(misses)} of {len(compared)} below {bandwidth} (bandwidth) or {compute} (compute)")
    return 1 if misses or not compared else 0


if __name__ == "__main__":
    raise SystemExit(main())
