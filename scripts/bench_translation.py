#!/usr/bin/env python3
"""Times the translation of a library of many basic blocks: how long its first call takes to start up.

Usage: scripts/bench_translation.py [FUNCTIONS] [TIMES]. A generated library of so many small functions (about
eight blocks each, with branches, a loop and calls) is called once under a fresh engine each time; printed is
the median of the processor time of that call, less that of the second call, for 5 000 blocks.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

FUNCTION = """
__attribute__((noinline)) static double f{i}(double *a, long n) {{
    double s = a[{a}];
    if (s > {b}.5) s = s * a[{c}] + {i}.25; else a[{d}] = s - 1;
    if (n & {bit}) {{ a[{e}] += s * 0.5; s -= a[{c}]; }}
    for (long j = 0; j < (n & 3); j++) s += a[j] * a[j + {b}];
    return s;
}}
"""


def source(functions: int) -> str:
    """Return the library in C: functions that differ in what they read, and ``all`` that calls each."""
    each = [
        FUNCTION.format(i=i, a=i % 64, b=i % 7, c=i * 3 % 64, d=i * 7 % 64, e=i * 5 % 64, bit=1 << i % 5)
        for i in range(functions)
    ]
    calls = "".join(f"    s += f{i}(a, n);\n" for i in range(functions))
    return "".join(each) + f"double all(double *a, long n) {{\n    double s = 0;\n{calls}    return s;\n}}\n"


def compiled(functions: int, folder: Path) -> int:
    """Return the address of ``all`` in a library of so many functions."""
    (folder / "many.c").write_text(source(functions))
    subprocess.run(
        ["gcc", "-O2", "-fno-ipa-icf", "-shared", "-fPIC", "-o", "libmany.so", "many.c"],
        cwd=folder,
        check=True,
    )
    library = ctypes.CDLL(str(folder / "libmany.so"))
    return ctypes.cast(library.all, ctypes.c_void_p).value or 0


def translated(address: int, detail: str) -> tuple[float, int]:
    """Return the seconds that translating took, and the number of blocks."""
    from counteroof.instrument.engine import Engine

    data = np.linspace(-2, 9, 128)
    with Engine(detail) as engine:  # type: ignore[arg-type]
        call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_long)(engine.entry(address))
        times = []
        for _ in range(2):
            start = time.process_time()
            call(data.ctypes.data, 7)
            times.append(time.process_time() - start)
        return times[0] - times[1], len(engine.blocks)


def main() -> None:
    """Print the seconds for 5 000 blocks, counting and with addresses."""
    functions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        address = compiled(functions, Path(folder))
        for detail in ("flops", "bytes"):
            taken = [translated(address, detail) for _ in range(times)]
            blocks = taken[0][1]
            seconds = statistics.median(seconds for seconds, _ in taken) / blocks * 5000
            print(f"{detail:6} {blocks} blocks, 5000 take {seconds:.2f} s of processor time")


if __name__ == "__main__":
    main()
