"""Ceilings: what is measured, how samples become a roof, and relations that hold at any speed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof import ceilings
from counteroof.ceilings import Effort, Job, ceiling, roofs
from counteroof.errors import BadInput, MachineError
from counteroof.machine import clock, store, topology
from counteroof.machine.loops import Loop, Samples, Team, loops
from counteroof.machine.model import CacheLevel, Ceiling, Machine
from tests import factories

MIB = 1 << 20
BRIEF = Effort(rounds=2, budget=60, samples=2, seconds=5e-5, last_cache_times=4, patience=0.1)
TRIAD = Loop(0, "triad", "AVX2", "f64", "wrr", 256, 64, 64)
FMA = Loop(1, "FMA", "AVX2", "f64", "", 0, 96, 96)


def small_machine() -> Machine:
    """Return this machine as if its last cache were small, so that little memory gets out of it."""
    here = topology.detect()
    *above, last = here.caches
    return replace(
        here, caches=(*above, replace(last, bytes=max(8 * MIB, 2 * above[-1].bytes if above else 0)))
    )


@pytest.fixture(scope="module")
def measured() -> Machine:
    return ceilings.measure(small_machine(), effort=BRIEF)


# ---- from samples to a ceiling ----


def probes(count: int, hz: float) -> dict[str, Any]:
    step = clock.PROBE_OPERATIONS / hz
    return {"add_seconds": (step,) * count, "multiply_seconds": (3 * step,) * count}


def test_a_bandwidth_is_iterations_times_moved_bytes_over_seconds() -> None:
    samples = Samples((0.5, 0.25, 1.0), (1000, 1000, 1000), **probes(3, 4e9))
    roof = ceiling(Job("DRAM triad", TRIAD, "dram"), samples, threads=2)
    moved = 1000 * 256 // 8 * 32
    assert roof.samples == (moved / 0.5, moved / 0.25, moved / 1.0)
    assert roof.value == moved / 0.25
    assert roof.median == moved / 0.5
    assert (roof.kind, roof.level, roof.threads, roof.isa, roof.mix) == (
        "bandwidth",
        "dram",
        2,
        "AVX2",
        "triad",
    )
    assert (roof.precision, roof.fma) == (None, None)
    assert roof.clock_hz == pytest.approx(4e9)
    assert roof.convention == "write-allocate counted: 32 B an element"


def test_a_peak_is_iterations_times_flops_over_seconds() -> None:
    roof = ceiling(Job("f64 AVX2 FMA", FMA), Samples((0.5, 0.5), (10, 20), busy=(1.0, 1.0)), threads=1)
    assert roof.samples == (10 * 96 / 0.5, 20 * 96 / 0.5)
    assert (roof.kind, roof.level, roof.precision, roof.fma) == ("compute", None, "f64", True)
    assert roof.clock_hz is None
    assert roof.clock_source == "no probe of the clock ran"


@pytest.mark.parametrize(
    ("busy", "note"),
    [
        ((1.0, 0.99, 0.96), ""),
        ((1.0, 0.99, 0.4), ""),
        ((1.0, 0.5, 0.4), "other processes disturbed 2 of 3 samples"),
        ((0.9, 0.5, 0.4), "other processes disturbed every sample, so the roof may be too low"),
    ],
)
def test_a_disturbed_measurement_says_so(busy: tuple[float, ...], note: str) -> None:
    samples = Samples((1.0,) * 3, (1,) * 3, busy=busy)
    assert ceiling(Job("f64 AVX2 FMA", FMA), samples, threads=1).note == note


def test_what_was_always_disturbed_is_tried_again_while_patience_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = iter([0.1, 0.2, 0.3, 1.0])

    def run(team: Team, loop: Loop, iterations: int, samples: int, **options: object) -> Samples:
        return Samples((1e-3,), (iterations,), busy=(next(shares),))

    monkeypatch.setattr(Team, "run", run)
    job = Job("f64 AVX2 FMA", FMA, iterations=1)
    with Team(topology.placement(1)) as team:
        (roof,) = ceilings.measure_jobs(team, [job], Effort(rounds=1, samples=1, patience=60))
        assert len(roof.samples) == 4
        shares = iter([0.1, 0.2])
        (roof,) = ceilings.measure_jobs(team, [job], Effort(rounds=1, samples=1, patience=-1))
    assert len(roof.samples) == 1
    assert "may be too low" in roof.note


# ---- which peaks are ceilings ----


def peak(isa: str, mix: str, value: float, precision: str = "f64") -> Ceiling:
    fma = "FMA" in mix
    return factories.compute(f"{precision} {isa} {mix}", value, precision, isa, mix=mix, fma=fma)


def names(found: tuple[Ceiling, ...]) -> list[str]:
    return [one.name for one in found]


def test_the_best_mix_is_the_roof_and_fma_alone_stays_a_ceiling() -> None:
    zen5 = [
        peak("AVX-512", "FMA", 135),
        peak("AVX-512", "FMA+ADD 1:1", 203),
        peak("AVX-512", "FMA+ADD 2:1", 169),
        peak("AVX-512", "ADD", 68),
        peak("AVX-512", "MUL", 67),
        peak("AVX-512", "ADD+MUL 1:1", 134),
        peak("AVX2", "FMA", 68),
        peak("AVX2", "FMA+ADD 1:1", 101),
        peak("SSE", "ADD+MUL 1:1", 34),
        peak("SSE", "ADD", 17),
        peak("scalar", "FMA+ADD 1:1", 25),
        peak("scalar", "ADD", 8),
    ]
    assert names(roofs(zen5)) == [
        "f64 AVX-512 FMA+ADD 1:1",
        "f64 AVX-512 FMA",
        "f64 AVX-512 ADD+MUL 1:1",
        "f64 AVX2 FMA+ADD 1:1",
        "f64 SSE ADD+MUL 1:1",
        "f64 scalar FMA+ADD 1:1",
    ]


def test_where_fma_alone_is_best_it_is_one_ceiling() -> None:
    skylake = [peak("AVX2", "FMA", 60), peak("AVX2", "FMA+ADD 1:1", 45), peak("AVX2", "ADD", 30)]
    assert names(roofs(skylake)) == ["f64 AVX2 FMA", "f64 AVX2 ADD"]


def test_precisions_and_thread_counts_have_roofs_of_their_own() -> None:
    both = [
        peak("SSE", "ADD", 10),
        peak("SSE", "ADD", 20, "f32"),
        replace(peak("SSE", "ADD", 19), threads=2),
    ]
    assert [(one.precision, one.threads) for one in roofs(both)] == [("f64", 1), ("f32", 1), ("f64", 2)]


# ---- where data lie ----


def machine_of(*caches: tuple[int, int], cpus: int = 8) -> Machine:
    levels = tuple(
        CacheLevel(f"L{index + 1}", size, 8, 64, shared, "non-inclusive", False, "test")
        for index, (size, shared) in enumerate(caches)
    )
    return replace(factories.machine(()), caches=levels, logical_cpus=cpus)


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (1, [32 << 10, 512 << 10, 8 * MIB]),
        (2, [32 << 10, 512 << 10, 4 * MIB]),
        (8, [32 << 10, 512 << 10, 2 * MIB]),
    ],
)
def test_working_sets_fit_the_cache_and_exceed_the_one_above(threads: int, expected: list[int]) -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    assert [ceilings.cache_working_set(machine, c, threads) for c in machine.caches] == expected


def test_threads_on_one_core_halve_its_caches() -> None:
    machine = machine_of((32 << 10, 2), (256 << 10, 2), (16 * MIB, 8))
    assert [ceilings.cache_working_set(machine, c, 4) for c in machine.caches[:2]] == [16 << 10, 128 << 10]
    assert [ceilings.cache_working_set(machine, c, 8) for c in machine.caches[:2]] == [8 << 10, 64 << 10]


def test_a_cache_hardly_larger_than_the_one_above_has_no_working_set() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (11 * MIB, 8))
    assert ceilings.cache_working_set(machine, machine.caches[2], 8) is None
    assert ceilings.cache_working_set(machine, machine.caches[2], 1) == 2 * MIB


def test_dram_needs_many_times_the_last_caches_in_use() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 4), cpus=16)
    assert ceilings.dram_bytes(machine, 1, 16, None) == 512 * MIB
    assert ceilings.dram_bytes(machine, 8, 16, None) == 1024 * MIB
    assert ceilings.dram_bytes(machine, 16, 32, None) == 2048 * MIB
    assert ceilings.dram_bytes(machine, 1, 16, 600 * MIB) == 200 * MIB


def test_a_huge_last_cache_is_exceeded_by_four_times_only() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (1024 * MIB, 8))
    assert ceilings.dram_bytes(machine, 1, 16, None) == 4096 * MIB


def test_too_little_memory_is_an_error_with_the_sizes() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    with pytest.raises(MachineError, match=r"at least 384 MiB of free memory.*32 MiB.*300 MiB are free"):
        ceilings.dram_bytes(machine, 1, 16, 300 * MIB)


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_samples_of_dram_fit_their_streams_a_whole_number_of_times(threads: int) -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 64), cpus=64)
    each = ceilings.dram_bytes(machine, threads, 16, None) // threads
    jobs = [job for job in ceilings.memory_jobs(machine, threads, each, loops()) if job.level == "dram"]
    assert len(jobs) >= 4
    for job in jobs:
        sample = job.iterations * job.loop.chunk_bytes
        assert job.stream_bytes % sample == 0
        assert job.stream_bytes >= 3 * sample
        assert job.stream_bytes * len(job.loop.streams) <= each


# ---- real measurements, as short as they can be ----


def test_a_measurement_has_a_roof_for_memory_and_for_each_precision(measured: Machine) -> None:
    kinds = {(one.kind, one.level, one.precision) for one in measured.ceilings}
    assert {("bandwidth", "dram", None), ("compute", None, "f64"), ("compute", None, "f32")} <= kinds
    assert {"DRAM read", "DRAM copy", "DRAM triad", "DRAM update"} <= {one.name for one in measured.ceilings}
    assert {one.isa for one in measured.ceilings} >= {"scalar"}


def test_a_ceiling_is_its_best_sample_and_keeps_them_all(measured: Machine) -> None:
    for one in measured.ceilings:
        assert len(one.samples) >= BRIEF.rounds * BRIEF.samples
        assert one.value == max(one.samples)
        assert min(one.samples) <= one.median <= one.value
        assert one.threads == 1
        assert one.clock_source
        assert one.convention
        assert one.measured is not None


def test_the_best_mix_is_at_least_as_high_as_every_other_of_its_isa(measured: Machine) -> None:
    compute = [one for one in measured.ceilings if one.kind == "compute"]
    for precision in ("f64", "f32"):
        same = [one for one in compute if one.precision == precision]
        widest = same[0].isa
        assert same[0].value == max(one.value for one in same if one.isa == widest)
        assert [one for one in same if one.isa == widest and not one.fma]


def test_a_measured_machine_survives_the_machine_file(measured: Machine, tmp_path: Path) -> None:
    store.save(measured, tmp_path / "machine.json")
    assert store.load(tmp_path / "machine.json") == measured


def test_progress_ends_where_it_said() -> None:
    seen: list[tuple[int, int, str]] = []
    quick = replace(BRIEF, rounds=3, budget=0)
    ceilings.measure(small_machine(), effort=quick, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[0][1] == 3 * len(seen)
    assert seen[0][2] == "DRAM read, 1 thread"


def test_remeasuring_replaces_what_was_asked_for_and_keeps_the_rest(measured: Machine) -> None:
    again = ceilings.remeasure(measured, names=["DRAM triad"], seconds=0.01)
    assert [one.name for one in again.ceilings] == [one.name for one in measured.ceilings]
    for old, new in zip(measured.ceilings, again.ceilings, strict=True):
        assert (old is new) == (old.name != "DRAM triad")


def test_remeasuring_takes_any_level(measured: Machine) -> None:
    again = ceilings.remeasure(measured, level="l1", seconds=0.01)
    changed = [n.name for o, n in zip(measured.ceilings, again.ceilings, strict=True) if o is not n]
    assert changed == ["L1 read"]


def test_remeasuring_nothing_is_an_error_that_lists_what_there_is(measured: Machine) -> None:
    with pytest.raises(MachineError, match=r"names \['L9 read'\].*DRAM read \(1 thread\)"):
        ceilings.remeasure(measured, names=["L9 read"])
    with pytest.raises(MachineError, match="there are none"):
        ceilings.remeasure(replace(measured, ceilings=()))


def test_a_roof_of_another_architecture_cannot_be_measured_here(measured: Machine) -> None:
    foreign = replace(measured.ceilings[0], name="DRAM scatter")
    with pytest.raises(MachineError, match="cannot be measured on this machine: DRAM scatter"):
        ceilings.remeasure(replace(measured, ceilings=(foreign,)))


def test_measuring_one_thread_count_keeps_the_others(measured: Machine) -> None:
    other = replace(measured.ceilings[0], threads=7)
    mixed = ceilings.measure(replace(measured, ceilings=(other, *measured.ceilings)), effort=BRIEF)
    assert [one for one in mixed.ceilings if one.threads == 7] == [other]
    assert len(mixed.ceilings) == len(measured.ceilings) + 1


def test_too_many_threads_are_refused_before_anything_runs() -> None:
    with pytest.raises(BadInput, match="threads were asked for"):
        ceilings.measure(small_machine(), threads=(1, 100_000))


# ---- kept between runs ----


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, measured: Machine) -> list[tuple[int, ...]]:
    """Replace measuring by a copy of a measurement; return the thread counts asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[tuple[int, ...]] = []

    def measure(machine: Machine, *, threads: tuple[int, ...], progress: object = None) -> Machine:
        asked.append(tuple(threads))
        new = tuple(replace(one, threads=count) for count in threads for one in measured.ceilings)
        return replace(machine, ceilings=machine.ceilings + new, measured=measured.measured)

    monkeypatch.setattr(ceilings, "measure", measure)
    return asked


def test_ceilings_are_measured_once(brief: list[tuple[int, ...]]) -> None:
    machine = small_machine()
    first = ceilings.of_this_machine(machine)
    assert ceilings.of_this_machine(machine) == first
    assert brief == [(1,)]


def test_only_missing_thread_counts_are_measured(brief: list[tuple[int, ...]]) -> None:
    machine = small_machine()
    ceilings.of_this_machine(machine)
    both = ceilings.of_this_machine(machine, threads=(1, 2))
    assert brief == [(1,), (2,)]
    assert {one.threads for one in both.ceilings} == {1, 2}


def test_fresh_measures_all_again(brief: list[tuple[int, ...]]) -> None:
    machine = small_machine()
    ceilings.of_this_machine(machine)
    ceilings.of_this_machine(machine, fresh=True)
    assert brief == [(1,), (1,)]


def test_stale_ceilings_are_measured_again_and_it_is_said(
    brief: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = small_machine()
    ceilings.of_this_machine(machine)
    monkeypatch.setattr("platform.release", lambda: "99.0")
    again = ceilings.of_this_machine(machine)
    assert brief == [(1,), (1,)]
    assert any("measured again, kernel:" in note for note in again.notes)


def test_ceilings_that_cannot_be_kept_are_used_all_the_same(
    brief: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    machine = ceilings.of_this_machine(small_machine())
    assert machine.ceilings
    assert any("could not be kept" in note for note in machine.notes)
