#!/usr/bin/env python3
"""Times the engine against native runs and against valgrind's callgrind, and prints two tables of ratios.

Run from a checkout with the compiled parts in place: ``python scripts/bench_engine.py [NAME]...``.

The first table has four kernels as they are built for this processor; the second has kernels of the x86-64-v3
library, which valgrind can run too. Each kernel has a process of its own, where native and instrumented calls
take turns; a ratio is that of neighbours, and what is printed is the median. A first call, which translates,
comes before. An instrumented call ends when the cache model has seen its last access. Memory is the peak of
the process beyond what it had taken for the native call.

With ``--clock busy`` seconds are processor time: what the busiest thread took, kernel or a part of the cache
model, or that of all threads over the processors there are, whichever is more. On a machine with other work
to do that comes nearer to what the wall clock would show on an idle one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof.catalog import kernels
from counteroof.machine.topology import detect
from counteroof.spec import (
    ArrayRef,
    KernelCase,
    KernelSpec,
    LibrarySpec,
    ResultArg,
    ScalarArg,
    SetupCall,
    array,
)

DETAILS = ("flops", "bytes")
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
MEMORY_LIMIT = 200e6
CALLGRIND = ("--tool=callgrind", "--cache-sim=yes", "--simulate-wb=yes", "--collect-atstart=no")


class Target(NamedTuple):
    """A kernel, and the ratios that its engine runs must keep."""

    name: str
    case: Callable[[], KernelCase]
    limits: tuple[float, ...]


# ---- kernels ----


def built_in(name: str, level: str | None = None, **params: int) -> Callable[[], KernelCase]:
    def case() -> KernelCase:
        (spec,) = (kernel for kernel in kernels(level) if kernel.name == name)
        return spec.cases(overrides=params)[0]

    return case


def dgemm() -> KernelCase:
    import scipy_openblas64

    (path,) = Path(scipy_openblas64.get_lib_dir()).glob("libscipy_openblas64_*.so")
    matrix = "const double *{0}, int64_t ld{0}"
    spec = KernelSpec(
        name="dgemm",
        library=LibrarySpec(path=str(path)),
        symbol="scipy_cblas_dgemm64_",
        signature="void scipy_cblas_dgemm64_(int order, int transa, int transb, int64_t m, int64_t n, "
        f"int64_t k, double alpha, {matrix.format('a')}, {matrix.format('b')}, double beta, "
        "double *c, int64_t ldc)",
        args=(
            *scalars(order=101, transa=111, transb=111, m=1000, n=1000, k=1000, alpha=1.0),
            array("a", "f64", (1000, 1000), "random", seed=1),
            *scalars(lda=1000),
            array("b", "f64", (1000, 1000), "random", seed=2),
            *scalars(ldb=1000, beta=0.0),
            array("c", "f64", (1000, 1000)),
            *scalars(ldc=1000),
        ),
    )
    return spec.cases()[0]


def fftw() -> KernelCase:
    plan = SetupCall(
        "fftw_plan_dft_1d",
        (
            *scalars(n=1 << 20),
            ArrayRef("in", "x"),
            ArrayRef("out", "y"),
            *scalars(sign=-1, flags=64),  # FFTW_ESTIMATE: the planner leaves the arrays alone
        ),
        signature="void *fftw_plan_dft_1d(int n, double *in, double *out, int sign, unsigned flags)",
        result="plan",
    )
    spec = KernelSpec(
        name="fftw",
        library=LibrarySpec(path="libfftw3.so.3"),
        symbol="fftw_execute",
        signature="void fftw_execute(const void *plan)",
        args=(ResultArg("plan", "plan"),),
        buffers=(array("x", "c128", 1 << 20, "random", seed=1), array("y", "c128", 1 << 20)),
        setup=(plan,),
    )
    return spec.cases()[0]


def gather() -> KernelCase:
    """The built-in kernel on a table larger than the index."""
    (spec,) = (kernel for kernel in kernels("v3") if kernel.name == "gather")
    wide = KernelSpec(
        name="gather",
        library=spec.library,
        symbol=spec.symbol,
        args=(
            array("table", "f64", 40_000_000, "random", seed=1),
            array("index", "i32", 10_000_000, "random", seed=2, low=0, high=39_999_999),
            array("out", "f64", 10_000_000),
            *scalars(n=10_000_000),
        ),
    )
    return wide.cases()[0]


def scalars(**values: float) -> tuple[ScalarArg, ...]:
    return tuple(ScalarArg(name, value) for name, value in values.items())


COLUMNS = {"rows": 4096, "cols": 4096, "ld": 4096}
NATIVE = (
    Target("OpenBLAS dgemm n=1000", dgemm, (1.5, 10)),
    Target("triad 20 M f64", built_in("triad", n=20_000_000), (1.3, 8)),
    Target("FFTW 1 M points", fftw, (2.5, 12)),
    Target("column sum 4096 x 4096", built_in("column_sum", **COLUMNS), (1.3, 4)),
)
AGAINST_CALLGRIND = (
    Target("v3 triad 20 M f64", built_in("triad", "v3", n=20_000_000), (7,)),
    Target("v3 naive dgemm n=400", built_in("gemm_naive", "v3", n=400), (7,)),
    Target("v3 7-point stencil 200^3", built_in("stencil7", "v3", n=200), (7,)),
    Target("v3 gather 10 M of 40 M", gather, (7,)),
    Target("v3 column sum 4096 x 4096", built_in("column_sum", "v3", **COLUMNS), (1.75,)),
)


# ---- one kernel, in a process of its own ----


class Clock:
    """Seconds of one call: by the wall clock, or what the threads would take on an idle machine."""

    def __init__(self, kind: str) -> None:
        self._busy = kind == "busy"

    def seconds(self, call: Callable[[], object]) -> float:
        if not self._busy:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        before = {task: processor_time(task) for task in os.listdir("/proc/self/task")}
        call()
        taken = [processor_time(task) - before.get(task, 0.0) for task in os.listdir("/proc/self/task")]
        return max(*taken, 0.0, sum(taken) / len(os.sched_getaffinity(0)))


def processor_time(task: str) -> float:
    """Return the seconds that a thread of this process has run (clock_gettime, thread clocks by number)."""
    return time.clock_gettime(~int(task) << 3 | 6)


def measure(case: KernelCase, repeats: int, clock: Clock) -> dict[str, Any]:
    """Return seconds, ratios and memory of one kernel."""
    from counteroof.run.prepare import prepare

    prepared = prepare(case)
    prepared.call()
    before = peak_bytes()
    result: dict[str, Any] = {"native": []}
    for detail in DETAILS:
        result[detail] = instrumented(prepared, detail, repeats, clock, result["native"])
    result["memory"] = peak_bytes() - before
    return result


def instrumented(
    prepared: Any, detail: str, repeats: int, clock: Clock, native_seconds: list[float]
) -> dict[str, Any]:
    from counteroof.cachesim.model import CacheModel, parts_of
    from counteroof.instrument.engine import Engine

    model = None
    if detail == "bytes":
        model = CacheModel(detect().caches, parts=parts_of(detect().caches))
        for span in prepared.spans:
            model.add_array(span.name, span.start, span.bytes, huge_pages=span.huge_pages)
    ratios, seconds = [], []
    with Engine(detail, model.pointer if model else None) as engine:
        if model:
            engine.watch_strides((span.start, span.bytes) for span in prepared.spans)

        def call() -> None:
            engine.call(prepared.function, prepared.frame)
            engine.drain()

        first = clock.seconds(call)
        for _ in range(repeats):
            native_seconds.append(clock.seconds(prepared.call))
            seconds.append(clock.seconds(call))
            ratios.append(seconds[-1] / native_seconds[-1])
        blocks = len(engine.blocks)
    return {"ratios": ratios, "seconds": seconds, "first": first, "blocks": blocks}


def peak_bytes() -> int:
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    if not found:
        raise RuntimeError("/proc/self/status names no VmHWM")
    return 1024 * int(found[1])


def in_process(target: Target, repeats: int, clock: str) -> dict[str, Any]:
    """Run :func:`measure` in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key not in UNSET}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        __file__,
        "--measure",
        target.name,
        "--repeats",
        str(repeats),
        "--clock",
        clock,
    ]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- callgrind ----


def callgrind_seconds(case: KernelCase, folder: Path, calls: int, clock: str) -> list[float]:
    """Return the seconds of each call under callgrind with its cache simulation."""
    from tests.instrument.callgrind import CSRC, HERE, kernel_job

    program, job = folder / "driver", folder / "job"
    sources = [str(HERE / "callgrind_driver.c"), str(CSRC / "run" / "call.c")]
    flags = ["-O2", "-DCALLGRIND", f"-DCALLS={calls}", f"-I{CSRC}"]
    if clock == "busy":
        flags.append("-DCLOCK=CLOCK_PROCESS_CPUTIME_ID")
    subprocess.run(["cc", *flags, *sources, "-o", str(program), "-ldl"], check=True)
    kernel_job(case).write(job)
    command = ["valgrind", "-q", *CALLGRIND, *geometry(), f"--callgrind-out-file={folder / 'counts'}"]
    command += [str(program), str(folder / "maps"), str(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    job.unlink()
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return [float(line) for line in done.stdout.split()]


def geometry() -> list[str]:
    """Return valgrind's options for this machine's caches; it knows only powers of two of sets."""
    first, *_, last = detect().caches
    options = ["--I1=32768,8,64"]
    for name, cache in (("D1", first), ("LL", last)):
        sets = 1 << ((cache.bytes // cache.ways // cache.line_bytes).bit_length() - 1)
        size = sets * cache.ways * cache.line_bytes
        options.append(f"--{name}={size},{cache.ways},{cache.line_bytes}")
    return options


# ---- tables ----


def native_table(targets: list[Target], repeats: int, clock: str) -> None:
    print(
        f"{'kernel':26} {'native':>9} {'flops':>18} {'bytes':>18} {'first call':>15} "
        f"{'blocks':>6} {'memory':>8}"
    )
    for target in targets:
        found = in_process(target, repeats, clock)
        cells = []
        for detail, limit in zip(DETAILS, target.limits, strict=True):
            ratio = statistics.median(found[detail]["ratios"])
            cells.append(f"{ratio:6.2f} x {against(ratio, limit, '<='):>9}")
        first = " ".join(f"{found[detail]['first']:.2f} s" for detail in DETAILS)
        print(
            f"{target.name:26} {milliseconds(found['native']):>9} {cells[0]:>18} {cells[1]:>18} {first:>15} "
            f"{found['bytes']['blocks']:6} {memory(found)}",
            flush=True,
        )


def callgrind_table(targets: list[Target], repeats: int, clock: str) -> None:
    print(
        f"{'kernel':26} {'native':>9} {'flops':>9} {'bytes':>9} {'callgrind':>11} "
        f"{'callgrind/bytes':>19} {'memory':>8}"
    )
    for target in targets:
        found = in_process(target, repeats, clock)
        with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
            theirs = statistics.median(callgrind_seconds(target.case(), Path(folder), repeats, clock))
        native, ours = statistics.median(found["native"]), statistics.median(found["bytes"]["seconds"])
        flops, traffic = (statistics.median(found[detail]["ratios"]) for detail in DETAILS)
        gain = theirs / ours
        print(
            f"{target.name:26} {milliseconds(found['native']):>9} {flops:7.2f} x {traffic:7.2f} x "
            f"{theirs / native:9.1f} x {f'{gain:.2f}':>8} {against(gain, target.limits[0], '>='):>10} "
            f"{memory(found)}",
            flush=True,
        )


def against(value: float, limit: float, sign: str) -> str:
    """Return the limit, with a mark where it is not kept."""
    kept = value <= limit if sign == "<=" else value >= limit
    return f"({sign} {limit:g}{'' if kept else ' !'})"


def memory(found: dict[str, Any]) -> str:
    return f"{found['memory'] / 1e6:5.0f} MB{'' if found['memory'] < MEMORY_LIMIT else ' !'}"


def milliseconds(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="*", help="only kernels whose name contains this")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=["wall", "busy"], default="wall")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        (target,) = (one for one in (*NATIVE, *AGAINST_CALLGRIND) if one.name == arguments.measure)
        print(json.dumps(measure(target.case(), arguments.repeats, Clock(arguments.clock))))
        return

    def chosen(targets: tuple[Target, ...]) -> list[Target]:
        return [
            one for one in targets if not arguments.name or any(part in one.name for part in arguments.name)
        ]

    machine = detect()
    print(
        f"{machine.cpu}; medians of {arguments.repeats}, {arguments.clock} clock; "
        "! marks a limit that is not kept\n"
    )
    if targets := chosen(NATIVE):
        native_table(targets, arguments.repeats, arguments.clock)
        print()
    if targets := chosen(AGAINST_CALLGRIND):
        print(f"callgrind with {' '.join((*CALLGRIND[1:3], *geometry()))}")
        callgrind_table(targets, arguments.repeats, arguments.clock)


if __name__ == "__main__":
    main()
