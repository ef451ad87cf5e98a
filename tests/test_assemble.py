"""From a run to its entry in the results; runs are made by hand, nothing is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.assemble import assemble
from counteroof.count.base import Count, FlopClass, InstructionTraffic, LineTraffic, Measurement, unavailable
from counteroof.count.select import nothing_counted
from counteroof.formula import Formula
from counteroof.results import SourceLine, from_json, to_json
from counteroof.run.execute import KernelRun
from counteroof.run.outcome import Failure
from counteroof.run.timing import Timing
from counteroof.spec import Declared, KernelSpec, LibrarySpec
from tests import factories
from tests.factories import N

SPEC = KernelSpec(
    name="triad",
    library=LibrarySpec(sources=("triad.c",)),
    symbol="triad",
    args=(),
    params={"n": (N,)},
    declared=Declared(Formula("2*n"), Formula("24*n"), "a paper"),
    precision="f64",
)
TIMING = Timing((0.013, 0.0125, 0.012), loops=1, warmups=1, processes=3, pyperf_json={})
MACHINE = factories.machine()


def made(*measurements: Measurement, **fields: object) -> KernelRun:
    run = KernelRun(SPEC.cases()[0], TIMING, measurements, True, None, library="/cache/libtriad.so")
    return replace(run, **fields)  # type: ignore[arg-type]


def test_an_instrumented_run_gets_dot_ledger_and_arrays() -> None:
    result = assemble(made(factories.triad()), MACHINE)
    assert (result.name, result.label, result.library, result.params) == (
        "triad",
        "triad",
        "/cache/libtriad.so",
        {"n": N},
    )
    assert result.seconds is not None
    assert result.seconds.median == 0.0125
    assert (result.chosen.flops, result.chosen.bytes) == ("instrument", "instrument")
    assert result.placement is not None
    assert result.placement.intensity == pytest.approx(2 / 32)
    assert result.placement.declared_intensity == pytest.approx(2 / 24)
    assert [line.bytes for line in result.ledger][:1] == [24 * N]
    assert result.ledger[-1].bytes == 32 * N
    assert [array.name for array in result.arrays] == ["a", "b", "c"]
    assert result.counters["instrument"].arrays == ()


def test_lines_and_instructions_move_from_the_measurement_to_the_kernel() -> None:
    line = LineTraffic(
        file="triad.c",
        line=3,
        symbol="triad",
        instructions=7,
        flops=40,
        dram_read_bytes=480,
        dram_write_bytes=160,
    )
    instruction = InstructionTraffic(library="libtriad.so", address=16, times=7, flops=40)
    traced = replace(factories.triad(), lines=(line,), instruction_table=(instruction,))
    result = assemble(made(traced), MACHINE)
    assert result.lines == (SourceLine("triad.c", 3, 7, 40, 640, 480, 160, "triad"),)
    assert result.instruction_table == (instruction,)
    assert result.counters["instrument"].lines == ()
    whole = factories.results(result)
    assert from_json(to_json(whole)) == whole


def test_a_hardware_counter_places_the_dot_and_the_instrumented_bytes_explain_it() -> None:
    hardware = replace(
        factories.triad(), counter="perf", arrays=(), dram_read_bytes=factories.modelled(24 * N + 640)
    )
    result = assemble(made(hardware, factories.triad()), MACHINE)
    assert (result.chosen.flops, result.chosen.bytes) == ("perf", "perf")
    assert [(line.cause, line.bytes) for line in result.ledger][-2:] == [
        ("unexplained", 640),
        ("actual", 32 * N + 640),
    ]
    assert len(result.arrays) == 3


def test_each_quantity_comes_from_the_first_counter_that_has_it() -> None:
    half = replace(
        factories.triad(), counter="perf", arrays=(), dram_read_bytes=unavailable("perf", "no uncore PMU")
    )
    result = assemble(made(half, factories.triad()), MACHINE)
    assert (result.chosen.flops, result.chosen.bytes) == ("perf", "instrument")


def test_a_count_without_bytes_has_nothing_to_explain_and_says_why_the_dot_is_missing() -> None:
    flops_only = replace(factories.triad(), arrays=(), dram_read_bytes=unavailable("cache model", "not run"))
    result = assemble(made(flops_only), MACHINE)
    assert [(line.cause, line.bytes) for line in result.ledger] == [("declared", 24 * N), ("actual", None)]
    assert result.chosen.bytes is None
    assert result.placement is not None
    assert result.placement.intensity is None
    assert "DRAM bytes not available" in " ".join(result.placement.notes)


def test_a_counter_that_could_not_count_is_kept_with_its_reason() -> None:
    result = assemble(made(nothing_counted("perf", "no PMU")), MACHINE)
    assert result.flops.reason == "no PMU"
    assert result.chosen.flops is None


def test_a_failed_run_keeps_its_reason_and_what_was_finished() -> None:
    failure = Failure("crash", "SIGSEGV")
    result = assemble(made(failure=failure, timing=None, checked=None, library=None), MACHINE)
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("crash", "SIGSEGV")
    assert (result.placement, result.seconds, result.counters) == (None, None, {})
    assert result.library == "triad.c"


def test_a_kernel_that_declares_nothing_has_no_claim() -> None:
    case = replace(SPEC, declared=Declared()).cases()[0]
    result = assemble(made(factories.triad(), case=case), MACHINE)
    assert result.declared is None
    assert result.ledger[0].bytes is None


def test_the_dot_is_executed_flops_over_modelled_bytes() -> None:
    placed = assemble(made(factories.triad()), MACHINE).placement
    assert placed is not None
    assert placed.intensity == pytest.approx(2 / 32)
    assert placed.declared_intensity == pytest.approx(2 / 24)
    assert placed.flops_per_second == pytest.approx(3.2e9)
    assert placed.fraction == pytest.approx(32 * N / 61.9e9 / 0.0125)
    assert (placed.bound, placed.ceiling, placed.precision) == ("dram", "DRAM copy", "f64")


def test_the_ledger_goes_from_declared_to_actual() -> None:
    lines = assemble(made(factories.triad()), MACHINE).ledger
    assert [(line.cause, line.bytes) for line in lines] == [
        ("declared", 24 * N),
        ("write-allocate", 8 * N),
        ("modelled", 32 * N),
        ("actual", 32 * N),
    ]


def test_the_result_can_be_written() -> None:
    whole = factories.results(
        assemble(made(factories.triad(), replace(factories.triad(), counter="perf")), MACHINE)
    )
    assert from_json(to_json(whole)) == whole


def test_the_roof_is_that_of_the_executed_precision() -> None:
    single = factories.triad(flops_by=(FlopClass("f32", 512, "fma", 2 * N),))
    placed = assemble(made(single), MACHINE).placement
    assert placed is not None
    assert placed.precision == "f32"
    assert placed.notes == ("declared f64, but 100 % of the executed FLOPs are f32: f32 roof",)


def test_threads_reach_the_roof() -> None:
    two = factories.machine((factories.bandwidth("DRAM", 50), factories.bandwidth("DRAM", 90, threads=2)))
    placed = assemble(made(factories.triad(), case=replace(SPEC, threads=2).cases()[0]), two).placement
    assert placed is not None
    assert placed.fraction == pytest.approx(32 * N / 90e9 / 0.0125)


VICTIMS = "both ways, one line down for each line up: 48 B an element"


def test_a_cache_roof_is_held_against_the_bytes_of_the_model() -> None:
    # whichever counter placed the dot: hardware counts what crosses between caches in other ways
    counted = factories.measurement(
        2 * N, factories.triad().arrays, read=0, write=0, l2_l3_bytes=factories.modelled(1e9)
    )
    perf = replace(counted, counter="perf", arrays=(), l2_l3_bytes=Count(3e9, "counted", "PMU"))
    third = factories.bandwidth("L2-L3 triad", 100, level="l3", convention=VICTIMS)
    roofs = factories.machine((factories.bandwidth("DRAM", 50), third))
    placed = assemble(made(perf, counted), roofs).placement
    assert placed is not None
    assert (placed.bound, placed.ceiling, placed.roof) == ("l3", "L2-L3 triad", 100e9)
    assert placed.fraction == pytest.approx(1e9 / 100e9 / 0.0125)


def test_roofs_of_caches_that_are_filled_otherwise_are_left_out() -> None:
    resident = factories.measurement(
        2 * N, factories.triad().arrays, read=0, write=0, l2_l3_bytes=factories.modelled(1e9)
    )
    third = factories.bandwidth("L2-L3 triad", 100, level="l3", convention=VICTIMS)
    roofs = factories.machine((factories.bandwidth("DRAM", 50), third))
    roofs = replace(roofs, caches=tuple(replace(one, fill="inclusive") for one in roofs.caches))
    placed = assemble(made(resident), roofs).placement
    assert placed is not None
    assert placed.bound is None
    assert any("the L3 roofs count other bytes" in note for note in placed.notes)


def test_a_failed_kernel_keeps_what_it_had() -> None:
    failure = Failure("crash", "SIGSEGV while timing")
    result = assemble(made(factories.triad(), timing=None, failure=failure), MACHINE)
    assert result.error == failure
    assert result.seconds is None
    assert result.flops.value == 2 * N
    assert result.placement is not None
    assert result.placement.flops_per_second is None


def test_without_a_counter_there_is_time_and_no_place() -> None:
    result = assemble(made(), MACHINE)
    assert result.seconds is not None
    assert result.placement is not None
    assert result.placement.notes == ("not placed: FLOPs and DRAM bytes not available",)
    assert result.placement.declared_intensity == pytest.approx(2 / 24)
    assert result.flops.reason == "no counter was run"


def test_a_machine_without_caches_has_no_refetches() -> None:
    bare = replace(MACHINE, caches=())
    assert all(one.refetches is None for one in assemble(made(factories.triad()), bare).arrays)
