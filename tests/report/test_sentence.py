"""The sentence of a kernel: what it says of each kind of place on the roofline."""

from __future__ import annotations

from dataclasses import replace

from counteroof.count.base import Count
from counteroof.report.sentence import sentence
from counteroof.results import KernelResult

from ..factories import N, failed, measurement, result, results, traffic, triad


def said(kernel: KernelResult) -> str:
    return sentence(kernel, results(kernel))


def test_a_memory_bound_kernel() -> None:
    assert said(result("triad")) == (
        "Intensity 0.0833 declared, 0.0625 true; 35 times left of the ridge; "
        "at 83 % of the DRAM roof (DRAM copy, 61.9 GB/s); halving its bytes would raise that roof 2.0 times."
    )


def test_near_the_ridge_half_the_bytes_help_only_up_to_the_compute_roof() -> None:
    near = result("near", counted=measurement(3 * N, (traffic("a", read=2 * N),)), declared=None)
    assert "Intensity 1.50 true; 1.5 times left of the ridge" in said(near)
    assert "halving its bytes would raise that roof 1.5 times" in said(near)
    at = result("at", counted=measurement(int(4.4 * N), (traffic("a", read=2 * N),)))
    assert "at the ridge (2.19 FLOP/B)" in said(at)
    assert "halving" not in said(at)


def test_a_compute_bound_kernel() -> None:
    kernel = result("gemm", seconds=1.0, counted=measurement(10**11, (traffic("a", read=10**9),)))
    assert "46 times right of the ridge" in said(kernel)
    assert said(kernel).endswith("at 74 % of the compute roof (f64 AVX-512 FMA, 136 GFLOP/s).")


def test_without_dram_traffic_flops_or_roof() -> None:
    resident = result("resident", seconds=1e-6, counted=measurement(2000, (traffic("a"),)))
    assert said(resident).startswith("No DRAM traffic: the data stay in the caches; at ")
    copy = result("copy", counted=measurement(0, (traffic("a", read=8 * N, write=8 * N),)))
    assert said(copy) == "No FLOPs; at 41 % of the DRAM roof (DRAM copy, 61.9 GB/s)."
    bare = result("bare", ceilings=())
    assert sentence(bare, results(bare, ceilings=())).endswith("; no roof to hold it against.")


def test_what_is_not_known_is_said_with_its_reason() -> None:
    unknown = Count(None, "unavailable", "model", "the model lost count")
    counted = replace(triad(), dram_read_bytes=unknown)
    assert said(result("lost", counted=counted)).startswith("Intensity unknown: the model lost count")
    assert said(failed("spoiled", "crash", "SIGSEGV")) == "Failed: crash: SIGSEGV."
    assert "but not timed" in said(result("untimed", seconds=None))
