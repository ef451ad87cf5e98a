"""From what ran and what was counted to one kernel's result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counteroof.count.base import Count, FlopClass, Measurement
from counteroof.formula import Formula
from counteroof.results import assemble, from_json, to_json
from counteroof.run.execute import KernelRun
from counteroof.run.outcome import Failure
from counteroof.run.timing import Timing
from counteroof.spec import Declared, KernelCase, KernelSpec, LibrarySpec, ScalarArg, array

from .factories import N, bandwidth, machine, measurement, modelled, results, triad

MACHINE = machine()


def case(declared: Declared | None = None, **fields: Any) -> KernelCase:
    values: dict[str, Any] = {
        "name": "triad",
        "library": LibrarySpec(sources=("triad.c", "more.c")),
        "symbol": "triad_plain",
        "args": (array("a", "f64", "n"), ScalarArg("n", Formula("n"))),
        "params": {"n": (N, 2 * N)},
        "declared": declared or Declared(Formula("2*n"), Formula("24*n"), "STREAM"),
        "precision": "f64",
        **fields,
    }
    return KernelSpec(**values).cases()[0]


def ran(*measurements: Measurement, **fields: Any) -> KernelRun:
    values: dict[str, Any] = {
        "case": case(),
        "timing": Timing((0.013, 0.0125, 0.012), loops=8, warmups=1, processes=3, pyperf_json={}),
        "measurements": measurements,
        "checked": True,
        "failure": None,
        **fields,
    }
    return KernelRun(**values)


def hardware(read: float | None, write: float | None, flops: float | None = 41_000_000) -> Measurement:
    def counted(value: float | None, source: str) -> Count:
        if value is None:
            return Count(None, "unavailable", source, "not permitted")
        return Count(value, "counted", source)

    return measurement(
        counted(flops, "core"),
        counter="perf",
        flops_by=(),
        dram_read_bytes=counted(read, "umc"),
        dram_write_bytes=counted(write, "umc"),
    )


def test_everything_of_a_run_is_in_its_result() -> None:
    result = assemble(ran(triad(), library="/lib/libtriad.so"), MACHINE)
    assert (result.name, result.label, result.symbol) == ("triad", f"triad[n={N}]", "triad_plain")
    assert result.library == "/lib/libtriad.so"
    assert result.params == {"n": N}
    assert (result.threads, result.precision, result.cache, result.checked) == (1, "f64", "warm", True)
    assert result.seconds is not None
    assert (result.seconds.median, result.seconds.samples) == (0.0125, (0.013, 0.0125, 0.012))
    assert result.declared is not None
    assert (result.declared.flops, result.declared.bytes, result.declared.source) == (2 * N, 24 * N, "STREAM")
    assert (result.chosen.flops, result.chosen.bytes) == ("instrument", "instrument")
    assert [array.name for array in result.arrays] == ["a", "b", "c"]
    assert result.counters["instrument"].arrays == ()
    assert result.error is None


def test_the_dot_is_executed_flops_over_modelled_bytes() -> None:
    placed = assemble(ran(triad()), MACHINE).placement
    assert placed is not None
    assert placed.intensity == pytest.approx(2 / 32)
    assert placed.declared_intensity == pytest.approx(2 / 24)
    assert placed.flops_per_second == pytest.approx(3.2e9)
    assert placed.fraction == pytest.approx(32 * N / 61.9e9 / 0.0125)
    assert (placed.bound, placed.ceiling, placed.precision) == ("dram", "DRAM copy", "f64")


def test_the_ledger_goes_from_declared_to_actual() -> None:
    lines = assemble(ran(triad()), MACHINE).ledger
    assert [(line.cause, line.bytes) for line in lines] == [
        ("declared", 24 * N),
        ("write-allocate", 8 * N),
        ("modelled", 32 * N),
        ("actual", 32 * N),
    ]


def test_the_result_can_be_written() -> None:
    whole = results(assemble(ran(triad(), hardware(500e6, 150e6)), MACHINE))
    assert from_json(to_json(whole)) == whole


def test_hardware_places_the_dot_and_the_model_explains_it() -> None:
    result = assemble(ran(triad(), hardware(500_000_000, 155_000_000)), MACHINE)
    assert (result.chosen.flops, result.chosen.bytes) == ("perf", "perf")
    assert result.dram_bytes == Count(655_000_000, "counted", "umc")
    assert [(line.cause, line.bytes) for line in result.ledger][-3:] == [
        ("modelled", 640_000_000),
        ("unexplained", 15_000_000),
        ("actual", 655_000_000),
    ]
    assert [array.name for array in result.arrays] == ["a", "b", "c"]
    assert result.placement is not None
    assert result.placement.precision == "f64"


def test_flops_and_bytes_are_chosen_apart() -> None:
    result = assemble(ran(triad(), hardware(500_000_000, None)), MACHINE)
    assert (result.chosen.flops, result.chosen.bytes) == ("perf", "instrument")
    assert result.ledger[-1].bytes == 640_000_000
    assert all(line.cause != "unexplained" for line in result.ledger)


def test_the_roof_is_that_of_the_executed_precision() -> None:
    single = triad(flops_by=(FlopClass("f32", 512, "fma", 2 * N),))
    placed = assemble(ran(single), MACHINE).placement
    assert placed is not None
    assert placed.precision == "f32"
    assert placed.notes == ("declared f64, but 100 % of the executed FLOPs are f32: f32 roof",)


def test_threads_reach_the_roof() -> None:
    two = machine((bandwidth("DRAM", 50), bandwidth("DRAM", 90, threads=2)))
    placed = assemble(ran(triad(), case=case(threads=2)), two).placement
    assert placed is not None
    assert placed.fraction == pytest.approx(32 * N / 90e9 / 0.0125)


def test_cache_levels_bind_a_resident_kernel() -> None:
    resident = measurement(2 * N, triad().arrays, read=0, write=0, l2_l3_bytes=modelled(1e9))
    roofs = machine((bandwidth("DRAM", 50), bandwidth("L3 triad", 100, level="l3")))
    placed = assemble(ran(resident), roofs).placement
    assert placed is not None
    assert (placed.bound, placed.ceiling) == ("l3", "L3 triad")


def test_a_failed_kernel_keeps_what_it_had() -> None:
    failure = Failure("crash", "SIGSEGV while timing")
    result = assemble(ran(triad(), timing=None, failure=failure), MACHINE)
    assert result.error == failure
    assert result.seconds is None
    assert result.flops.value == 2 * N
    assert result.placement is not None
    assert result.placement.flops_per_second is None


def test_a_kernel_that_failed_at_once_has_a_claim_and_an_error() -> None:
    result = assemble(ran(timing=None, checked=False, failure=Failure("wrong-result", "a differs")), MACHINE)
    assert result.placement is None
    assert result.library == "triad.c, more.c"
    assert result.checked is False
    assert [(line.cause, line.bytes) for line in result.ledger] == [("declared", 24 * N), ("actual", None)]
    assert result.flops.reason == "a differs"


def test_without_a_counter_there_is_time_and_no_place() -> None:
    result = assemble(ran(), MACHINE)
    assert result.seconds is not None
    assert result.placement is not None
    assert result.placement.notes == ("not placed: FLOPs and DRAM bytes not available",)
    assert result.placement.declared_intensity == pytest.approx(2 / 24)
    assert result.flops.reason == "no counter was run"


def test_a_kernel_without_a_claim() -> None:
    silent = case(Declared())
    result = assemble(ran(triad(), case=silent), MACHINE)
    assert result.declared is None
    assert result.ledger[0].bytes is None
    flops_only = assemble(ran(triad(), case=case(Declared(Formula("2*n")))), MACHINE)
    assert flops_only.declared is not None
    assert (flops_only.declared.flops, flops_only.declared.bytes) == (2 * N, None)


def test_a_machine_without_caches_has_no_refetches() -> None:
    bare = replace(MACHINE, caches=())
    assert all(one.refetches is None for one in assemble(ran(triad()), bare).arrays)
