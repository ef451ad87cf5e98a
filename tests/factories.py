"""Builders of hand-written measurements, machines and results, so that tests say only what they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counteroof.count.base import (
    AccessMix,
    ArrayTraffic,
    ChainLink,
    Count,
    Denormals,
    FlopClass,
    Frames,
    LoopChain,
    Measurement,
    StrideShare,
)
from counteroof.flop_ledger import FlopLine
from counteroof.machine.model import CacheLevel, Ceiling, Machine
from counteroof.reconcile import dram_bytes, ledger
from counteroof.results import ArrayResult, Chosen, Claim, KernelResult, Results, Seconds
from counteroof.roofline import Observation, place
from counteroof.run.outcome import Failure
from counteroof.run.timing import PageFaults

MODEL = "cache model, LRU, 32 MiB L3"


def instrumented(value: float | None) -> Count:
    """Return an instrumented count, or an unavailable one."""
    if value is None:
        return Count(None, "unavailable", "engine", "the engine was not run")
    return Count(value, "instrumented", "engine")


def modelled(value: float | None) -> Count:
    """Return a modelled count, or an unavailable one."""
    if value is None:
        return Count(None, "unavailable", MODEL, "the cache model was not run")
    return Count(value, "modelled", MODEL)


def traffic(
    name: str, read: int = 0, write: int = 0, allocate: int = 0, size: int | None = None, **fields: int | None
) -> ArrayTraffic:
    """Return the traffic of an array each of whose lines moved once, unless ``fields`` says otherwise."""
    values: dict[str, Any] = {
        "bytes": size,
        "dram_read_bytes": read,
        "dram_write_bytes": write,
        "write_allocate_bytes": allocate,
        "unique_read_bytes": read,
        "unique_write_bytes": write,
        **fields,
    }
    return ArrayTraffic(name, **values)


def measurement(
    flops: float | Count | None = 40_000_000,
    arrays: tuple[ArrayTraffic, ...] = (),
    *,
    read: float | None = None,
    write: float | None = None,
    precision: str = "f64",
    counter: str = "instrument",
    **fields: Any,
) -> Measurement:
    """Return an instrumented measurement whose DRAM bytes are the sums over ``arrays`` unless given."""
    total_read = sum(array.dram_read_bytes for array in arrays) if arrays else None
    total_write = sum(array.dram_write_bytes for array in arrays) if arrays else None
    executed = flops if isinstance(flops, Count) else instrumented(flops)
    values: dict[str, Any] = {
        "counter": counter,
        "flops": executed,
        "issued_flops": executed,
        "instructions": instrumented(123_456),
        "l1_l2_bytes": modelled(None),
        "l2_l3_bytes": modelled(None),
        "dram_read_bytes": modelled(total_read if read is None else read),
        "dram_write_bytes": modelled(total_write if write is None else write),
        "write_allocate_bytes": modelled(sum(array.write_allocate_bytes for array in arrays)),
        "flops_by": (FlopClass(precision, 512, "fma", int(executed.value)),) if executed.value else (),
        "arrays": arrays,
        **fields,
    }
    return Measurement(**values)


N = 20_000_000
"""Elements of the triad's arrays, 160 MB each."""


def triad(**fields: Any) -> Measurement:
    """Return what a triad of 20 M f64 with ordinary stores moves: 32 bytes an element."""
    arrays = (
        traffic("a", read=8 * N, write=8 * N, allocate=8 * N, size=8 * N),
        traffic("b", read=8 * N, size=8 * N),
        traffic("c", read=8 * N, size=8 * N),
    )
    return measurement(2 * N, arrays, **fields)


def counted_by_hardware(**fields: Any) -> Measurement:
    """Return the triad's numbers as a hardware counter would have them."""
    source = "core events"
    values = {
        "flops": Count(2 * N, "counted", source),
        "issued_flops": Count(2 * N, "counted", source),
        "dram_read_bytes": Count(24 * N, "counted", "memory controllers"),
        "dram_write_bytes": Count(8 * N, "counted", "memory controllers"),
        "arrays": (),
        "counter": "perf",
        **fields,
    }
    return replace(triad(), **values)


def bandwidth(
    name: str, gigabytes: float, *, level: str = "dram", threads: int = 1, **fields: Any
) -> Ceiling:
    """Return a bandwidth ceiling."""
    values: dict[str, Any] = {
        "isa": "AVX-512",
        "clock_hz": 4.18e9,
        "clock_source": "dependent-add chain",
        "convention": "write-allocate counted",
        **fields,
    }
    value = gigabytes * 1e9
    samples = (value, 0.98 * value, 0.99 * value)
    return Ceiling(name, "bandwidth", value, 0.99 * value, samples, threads, level=level, **values)


def compute(
    name: str, gigaflops: float, precision: str, isa: str = "AVX-512", *, threads: int = 1, **fields: Any
) -> Ceiling:
    """Return a compute ceiling."""
    values: dict[str, Any] = {
        "fma": True,
        "clock_hz": 4.18e9,
        "clock_source": "dependent-add chain",
        "convention": "arith",
        **fields,
    }
    value = gigaflops * 1e9
    samples = (value, 0.98 * value, 0.99 * value)
    return Ceiling(name, "compute", value, 0.99 * value, samples, threads, isa, precision=precision, **values)


CEILINGS = (
    bandwidth("DRAM read", 42.4),
    bandwidth("DRAM copy", 61.9),
    bandwidth("DRAM triad", 56.3),
    compute("f64 AVX-512 FMA", 135.8, "f64"),
    compute("f64 AVX-512 without FMA", 68.1, "f64", fma=False),
    compute("f64 scalar", 8.4, "f64", "scalar", fma=False),
    compute("f32 AVX-512 FMA", 271.8, "f32"),
    compute("f32 AVX-512 without FMA", 136.9, "f32", fma=False),
    compute("f32 scalar", 8.5, "f32", "scalar", fma=False),
)


def machine(ceilings: tuple[Ceiling, ...] = CEILINGS) -> Machine:
    """Return a machine with three caches and these ceilings."""
    return Machine(
        name="2-core Zen 5 VM",
        architecture="x86_64",
        cpu="AMD EPYC",
        logical_cpus=2,
        isa=("SSE", "AVX2", "AVX-512"),
        caches=(
            CacheLevel("L1", 48 * 1024, 12, 64, 1, "non-inclusive", False, "sysfs"),
            CacheLevel("L2", 1024 * 1024, 16, 64, 1, "non-inclusive", False, "sysfs"),
            CacheLevel("L3", 32 * 1024 * 1024, 16, 64, 2, "victim", True, "sysfs; fill assumed"),
        ),
        memory_bytes=24 * 1024**3,
        hypervisor="KVM",
        ceilings=ceilings,
        measured="2026-01-02T03:04:05+00:00",
    )


def result(
    name: str = "triad",
    *,
    seconds: float | None = 0.0125,
    declared: tuple[float | None, float | None] | None = (2 * N, 24 * N),
    counted: Measurement | None = None,
    precision: str = "f64",
    threads: int = 1,
    ceilings: tuple[Ceiling, ...] = CEILINGS,
    **fields: Any,
) -> KernelResult:
    """Return a kernel result with the ledger and placement that follow from the numbers."""
    counted = triad() if counted is None else counted
    moved = dram_bytes(counted)
    claim = None if declared is None else Claim(*declared, "a paper")
    claimed_flops, claimed_bytes = declared or (None, None)
    observation = Observation(
        seconds, counted.flops.value, moved.value, precision, threads, claimed_flops, claimed_bytes
    )
    values: dict[str, Any] = {
        "name": name,
        "label": name,
        "library": "libkernels.so",
        "symbol": name,
        "params": {"n": N},
        "threads": threads,
        "precision": precision,
        "checked": True,
        "seconds": None if seconds is None else Seconds.of((seconds, 1.01 * seconds, 0.99 * seconds)),
        "declared": claim,
        "counters": {counted.counter: replace(counted, arrays=())},
        "chosen": Chosen(counted.counter, counted.counter),
        "placement": place(observation, ceilings),
        "ledger": ledger(claimed_bytes, counted),
        "arrays": tuple(ArrayResult.of(array, 64) for array in counted.arrays),
        **fields,
    }
    return KernelResult(**values)


def failed(name: str = "spoiled", kind: str = "crash", message: str = "SIGSEGV") -> KernelResult:
    """Return the result of a kernel that ended early."""
    return KernelResult(
        name=name,
        label=name,
        library="libkernels.so",
        symbol=name,
        precision="f32",
        declared=Claim(10, 20, "a paper"),
        error=Failure(kind, message),
    )


def results(*kernels: KernelResult, ceilings: tuple[Ceiling, ...] = CEILINGS) -> Results:
    """Return a run with these kernels."""
    return Results("2026-01-02T03:04:05+00:00", "0.1.0", machine(ceilings), kernels)


def measured_in_full() -> KernelResult:
    """Return a kernel with all that a counter can see beside its counts."""
    links = (ChainLink("vmulsd xmm0, xmm0, xmm1", 3), ChainLink("mov rax, rbx", 0), ChainLink("vaddsd", 4))
    chain = LoopChain(
        library="lib.so", address=0x10, symbol="f", line=27, passes=2_000_000, flops=2, cycles=7,
        demanded_cycles=14_000_000, links=links, through_memory=True,
    )  # fmt: skip
    counted = triad(
        chains=(chain,),
        latencies="Zen 3, published: a manual",
        strides=(
            StrideShare("a", 32, 8, False, 0.75),
            StrideShare("a", 8, 8, True, 0.125),
            StrideShare("a", None, None, False, 0.125),
        ),
        access_mix=AccessMix(1000, 8000, 150, 1200, 100, 800),
        denormals=Denormals(True, True, False, True),
        pages_touched=1234,
        frames=Frames("pagemap", 1200, 1199),
    )
    ledger = (
        FlopLine("declared", 2 * N),
        FlopLine("executed beyond the formula", 5_000_000),
        FlopLine("library call", 3_000_000, "expf of libm.so.6"),
        FlopLine("executed", 2 * N + 8_000_000),
        FlopLine("in remainders of vectorised loops", 777, part=True),
    )
    return result(
        counted=counted,
        clock_hz=3.5e9,
        page_faults=PageFaults(64, 1),
        processor_share=0.5,
        flop_ledger=ledger,
    )
