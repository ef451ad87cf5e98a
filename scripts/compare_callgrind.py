#!/usr/bin/env python3
"""Compares the engine's count of every executed instruction with valgrind's callgrind, and prints a table.

Run from a checkout with the compiled parts in place: ``python scripts/compare_callgrind.py triad fftw``.
Arguments choose jobs whose name contains one of them. Exit code 1 if any count differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof.catalog import kernels
from tests.instrument.callgrind import (
    CODE,
    FFTW,
    ZLIB,
    Counts,
    Job,
    Oracle,
    code_jobs,
    compared,
    differences,
    instructions,
    kernel_job,
)
from tests.kernels.test_every_kernel import REMAINDERS

FLAGS = {CODE: (), ZLIB: ("-DZLIB", "-l:libz.so.1"), FFTW: ("-DFFTW", "-l:libfftw3.so.3")}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="*", help="only jobs whose name contains this")
    parser.add_argument("--size", choices=["small", "default"], default="small")
    arguments = parser.parse_args()

    def chosen(name: str) -> bool:
        return not arguments.name or any(part in name for part in arguments.name)

    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        oracle = Oracle(Path(folder))
        jobs: list[Job] = []
        for spec in kernels("v3"):
            for sizes in ({}, *REMAINDERS[spec.name]) if chosen(spec.name) else ():
                jobs.append(kernel_job(spec.cases(arguments.size, sizes)[0]))
        for names, flags in FLAGS.items():
            if any(map(chosen, names)):
                jobs += [job for job in code_jobs(Path(folder), names, *flags) if chosen(job.label)]
        expected = oracle.callgrind(jobs)
        print(f"{'job':46} {'detail':6} {'instructions':>13} {'addresses':>9}  result")
        different = [compare(oracle, job, counts) for job, counts in zip(jobs, expected, strict=True)]
        return 1 if sum(different) or not jobs else 0


def compare(oracle: Oracle, job: Job, expected: Counts) -> int:
    """Print the lines of one job and return how many counts differ."""
    wrong = 0
    for detail in ("flops", "bytes"):
        first, again = oracle.engine(job, detail)
        found = [*differences(expected, first), *differences(expected, again)]
        wrong += len(found)
        result = f"{len(found)} differ, the first: {found[0]}" if found else "equal"
        addresses = sum(len(counts) for file, counts in first.items() if compared(file))
        print(f"{job.label:46} {detail:6} {instructions(first):13,} {addresses:9,}  {result}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
