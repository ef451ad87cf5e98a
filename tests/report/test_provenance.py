"""How every number was got: none is left out, and none without its source."""

from __future__ import annotations

from dataclasses import replace

from counteroof.count.base import Count
from counteroof.report.provenance import origins
from counteroof.results import Chosen, KernelResult

from ..factories import instrumented, modelled, result, results, triad


def table(kernel: KernelResult) -> dict[str, tuple[str, str, str, str]]:
    return {one.what: (one.value, one.how, one.source, one.note) for one in origins(kernel, results(kernel))}


def test_every_number_has_its_value_kind_and_source() -> None:
    counted = triad(core_l1_bytes=instrumented(480_000_000), l1_l2_bytes=modelled(643_000_000), slowdown=12.5)
    found = table(result("triad", counted=counted))
    assert found == {
        "time of one call": ("12.5 ms", "measured", "median of 3 samples", "12.4 ms to 12.6 ms"),
        "FLOPs declared": ("40.0 M", "declared", "a paper", ""),
        "bytes declared": ("480 MB", "declared", "a paper", ""),
        "FLOPs executed": ("40.0 M", "instrumented", "instrument: engine", ""),
        "FLOPs issued, masked lanes included": ("40.0 M", "instrumented", "instrument: engine", ""),
        "instructions": ("123 k", "instrumented", "instrument: engine", ""),
        "bytes between L1 and L2": ("643 MB", "modelled", "instrument: cache model, LRU, 32 MiB L3", ""),
        "bytes between L2 and L3": (
            *("-", "-", "instrument: cache model, LRU, 32 MiB L3", "the cache model was not run"),
        ),
        "bytes read from DRAM": ("480 MB", "modelled", "instrument: cache model, LRU, 32 MiB L3", ""),
        "bytes written to DRAM": ("160 MB", "modelled", "instrument: cache model, LRU, 32 MiB L3", ""),
        "write-allocate, part of those read": (
            *("160 MB", "modelled", "instrument: cache model, LRU, 32 MiB L3", ""),
        ),
        "bytes loaded and stored": ("480 MB", "instrumented", "instrument: engine", ""),
        "time of the counted call": ("12.5 times", "measured", "instrument", "beside a native call"),
        "the roof that binds": (
            "61.9 GB/s",
            "measured",
            "DRAM copy: 61.9 GB/s (write-allocate counted, AVX-512, 1 thread, 4.18 GHz)",
            "",
        ),
        "attainable there": ("3.87 GFLOP/s", "computed", "FLOPs over the time this roof asks for", ""),
    }


def test_of_two_counters_both_are_there_and_the_one_that_placed_the_dot_is_named() -> None:
    kernel = result("triad")
    mine = kernel.counters["instrument"]
    other = replace(mine, counter="perf", flops=Count(41_000_000, "counted", "fp_arith"))
    both = replace(kernel, counters={"perf": other, "instrument": mine}, chosen=Chosen("perf", "instrument"))
    rows = origins(both, results(both))
    found = [(one.value, one.how, one.note) for one in rows if one.what == "FLOPs executed"]
    assert found == [("41.0 M", "counted", "placed the dot"), ("40.0 M", "instrumented", "")]
    reads = [one.note for one in rows if one.what == "bytes read from DRAM"]
    assert reads == ["", "placed the dot"]
