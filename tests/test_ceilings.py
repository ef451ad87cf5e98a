"""Ceilings: what is measured, how samples become a roof, and relations that hold at any speed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof import ceiling_jobs, ceilings
from counteroof.beside import Beside
from counteroof.ceiling_jobs import SMALL, Job, shared_levels, small_twins
from counteroof.ceilings import Effort, ceiling
from counteroof.errors import BadInput, MachineError
from counteroof.machine import clock, store, topology
from counteroof.machine.boundary import Boundary
from counteroof.machine.loops import Loop, Samples, Team
from counteroof.machine.model import Machine
from counteroof.refresh import refreshed

MIB = 1 << 20
BRIEF = Effort(rounds=2, budget=60, samples=2, seconds=5e-5, last_cache_times=4, patience=0.1)
TRIAD = Loop(0, "triad", "AVX2", "f64", "wrr", 256, 64, 64)
MEMORY = Boundary("dram", "DRAM", "memory")
FMA = Loop(1, "FMA", "AVX2", "f64", "", 0, 96, 96)


def small_machine() -> Machine:
    """Return this machine as if its last cache were small, so that little memory gets out of it."""
    here = topology.detect()
    *above, last = here.caches
    size = max(8 * MIB, 2 * above[-1].bytes if above else 0)
    return replace(here, caches=(*above, replace(last, bytes=size, ways=16)))


@pytest.fixture(scope="module")
def measured() -> Machine:
    return ceilings.measure(small_machine(), effort=BRIEF)


# ---- from samples to a ceiling ----


def probes(count: int, hz: float) -> dict[str, Any]:
    step = clock.PROBE_OPERATIONS / hz
    return {"add_seconds": (step,) * count, "multiply_seconds": (3 * step,) * count}


def test_a_bandwidth_is_iterations_times_moved_bytes_over_seconds() -> None:
    samples = Samples((0.5, 0.25, 1.0), (1000, 1000, 1000), **probes(3, 4e9))
    roof = ceiling(Job("DRAM triad", TRIAD, MEMORY), samples, threads=2)
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
    assert roof.convention == "both ways, write-allocate counted: 32 B an element"


def test_a_peak_is_iterations_times_flops_over_seconds() -> None:
    roof = ceiling(Job("f64 AVX2 FMA", FMA), Samples((0.5, 0.5), (10, 20), busy=(1.0, 1.0)), threads=1)
    assert roof.samples == (10 * 96 / 0.5, 20 * 96 / 0.5)
    assert (roof.kind, roof.level, roof.precision, roof.fma) == ("compute", None, "f64", True)
    assert roof.clock_hz is None
    assert roof.clock_source == "no probe of the clock ran; no counter of cycles: nobody asked for one"


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


def moving(hertz: list[float]) -> Samples:
    """Return as many samples as there are clocks."""
    steps = [clock.PROBE_OPERATIONS / hz for hz in hertz]
    count = len(hertz)
    chains = tuple(steps), tuple(3 * step for step in steps)
    return Samples((1e-3,) * count, (1,) * count, *chains, busy=(1.0,) * count)


STEADY = [3.2e9, 3.21e9] * 5
DRIFTING = [3.2e9 + 0.02e9 * number for number in range(10)]


def test_a_ceiling_whose_clock_moved_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([moving(DRIFTING), moving(STEADY)])
    monkeypatch.setattr(ceilings, "_ROUNDS_AGAIN", 1)
    monkeypatch.setattr(Team, "run", lambda *arguments, **options: next(runs))
    with Team(topology.placement(1)) as team:
        (roof,) = ceilings.measure_jobs(team, [Job("f64 AVX2 FMA", FMA, iterations=1)], Effort(rounds=1))
    assert next(runs, None) is None
    assert roof.note == ""
    assert len(roof.samples) == 10  # those of the drifting clock are dropped
    assert roof.clock_hz == pytest.approx(3.2e9, rel=0.01)


def test_what_is_lower_at_a_steady_clock_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = replace(moving(STEADY), seconds=(1.05e-3,) * 10)
    runs = iter([moving(DRIFTING), lower, lower, lower])
    monkeypatch.setattr(ceilings, "_ROUNDS_AGAIN", 1)
    monkeypatch.setattr(Team, "run", lambda *arguments, **options: next(runs))
    with Team(topology.placement(1)) as team:
        (roof,) = ceilings.measure_jobs(team, [Job("f64 AVX2 FMA", FMA, iterations=1)], Effort(rounds=1))
    assert len(roof.samples) == 40
    assert roof.value == 96 / 1e-3
    assert roof.note.startswith("unsteady")


def test_a_clock_that_never_stays_is_said_after_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    monkeypatch.setattr(ceilings, "_ROUNDS_AGAIN", 1)

    def run(*arguments: object, **options: object) -> Samples:
        runs.append(1)
        return moving(DRIFTING)

    monkeypatch.setattr(Team, "run", run)
    with Team(topology.placement(1)) as team:
        (roof,) = ceilings.measure_jobs(team, [Job("f64 AVX2 FMA", FMA, iterations=1)], Effort(rounds=1))
    assert len(runs) == 1 + 3
    assert roof.note.startswith("unsteady: the clock moved by 4.")


def test_the_clock_of_slow_samples_is_none_of_the_ceilings() -> None:
    samples = replace(moving(DRIFTING), seconds=(1e-3,) * 2 + (1.1e-3,) * 8)
    assert not ceilings.clock_moved(samples)
    assert ceilings.clock_moved(replace(samples, seconds=(1e-3,) * 10))


def test_a_clock_that_is_counted_goes_before_the_probes() -> None:
    samples = replace(moving(STEADY), counted_hz=(2.5e9,) * 9 + (None,), uncounted="No data available")
    roof = ceiling(Job("f64 AVX2 FMA", FMA), samples, threads=1)
    assert roof.clock_hz == 2.5e9
    assert roof.clock_source == "core cycles counted, over task-clock; 9 samples"


def test_a_counted_clock_that_moves_is_seen() -> None:
    moved = replace(moving(STEADY), counted_hz=tuple(DRIFTING), uncounted="")
    assert ceilings.clock_moved(moved)
    assert not ceilings.clock_moved(replace(moved, counted_hz=(2.5e9,) * 10))


def test_without_counters_the_probes_tell_and_the_reason_is_said() -> None:
    samples = replace(moving(STEADY), counted_hz=(None,) * 10, uncounted="No such file or directory")
    roof = ceiling(Job("f64 AVX2 FMA", FMA), samples, threads=1)
    assert roof.clock_hz == pytest.approx(3.2e9, rel=0.01)
    assert roof.clock_source == (
        "dependent additions, one a cycle; 10 of 10 probes; no counter of cycles: No such file or directory"
    )


def test_where_the_probes_of_the_best_sample_were_disturbed_all_of_them_are_asked() -> None:
    samples = moving([3.2e9] * 10)
    longer = (2.4 * samples.add_seconds[0], *samples.multiply_seconds[1:])
    samples = replace(samples, seconds=(1e-3,) + (2e-3,) * 9, multiply_seconds=longer)
    assert ceiling(Job("f64 AVX2 FMA", FMA), samples, threads=1).clock_hz == pytest.approx(3.2e9)


def timed(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> list[str]:
    """Let loops of these orders take so long; return the orders of those that run, as they run."""
    measured: list[str] = []

    def run(team: Team, loop: Loop, iterations: int, samples: int, **options: Any) -> Samples:
        measured.append(loop.order)
        return Samples((seconds[loop.order],) * samples, (iterations,) * samples, busy=(1.0,) * samples)

    monkeypatch.setattr(Team, "run", run)
    return measured


def test_of_loops_that_differ_in_order_the_best_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"loads first": 1.02e-3, "in turn": 1e-3, "by fours": 2e-3}
    measured = timed(monkeypatch, seconds)
    jobs = [
        Job("L1-L2 triad", replace(TRIAD, order=order), MEMORY, iterations=8, note=order) for order in seconds
    ]
    with Team(topology.placement(1)) as team:
        (roof,) = ceilings.measure_jobs(team, jobs, Effort(rounds=11))
    assert roof.value == 8 * 256 // 8 * 32 / 1e-3
    assert roof.note == "in turn"
    assert len(roof.samples) == 11 * Effort().samples  # of the best alone
    # what is close is measured to the end; what is far behind, until that has shown
    assert [measured.count(order) for order in seconds] == [11, 11, 8]


def test_what_is_behind_may_yet_win_until_half_of_the_rounds_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"loads first": 1.1e-3, "in turn": 1e-3}
    measured = timed(monkeypatch, seconds)
    jobs = [
        Job("L1-L2 triad", replace(TRIAD, order=order), MEMORY, iterations=8, note=order) for order in seconds
    ]
    with Team(topology.placement(1)) as team:
        ceilings.measure_jobs(team, jobs, Effort(budget=1000, rounds=40))
    assert [measured.count(order) for order in seconds] == [20, 40]


def test_what_follows_upon_wide_vectors_goes_before_them_in_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = timed(monkeypatch, dict.fromkeys(("narrow", "wide", "wider"), 1e-3))
    jobs = [
        Job(order, replace(FMA, isa=isa, order=order), iterations=8)
        for order, isa in (("narrow", "SSE"), ("wide", "AVX2"), ("wider", "AVX-512"))
    ]
    with Team(topology.placement(1)) as team:
        found = ceilings.measure_jobs(team, jobs, Effort(rounds=3))
    assert measured == ["wider", "wide", "narrow", "narrow", "wide", "wider", "wider", "wide", "narrow"]
    assert [one.name for one in found] == ["narrow", "wide", "wider"]


def test_jobs_of_other_names_are_no_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = timed(monkeypatch, {"loads first": 1e-3, "in turn": 2e-3})
    jobs = [
        Job(order, replace(TRIAD, order=order), MEMORY, iterations=8) for order in ("loads first", "in turn")
    ]
    with Team(topology.placement(1)) as team:
        found = ceilings.measure_jobs(team, jobs, Effort(rounds=10))
    assert [one.name for one in found] == ["loads first", "in turn"]
    assert measured.count("in turn") == 10


def test_no_round_is_begun_once_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = timed(monkeypatch, {"": 1e-3})
    with Team(topology.placement(1)) as team:
        ceilings.measure_jobs(team, [Job("f64 AVX2 FMA", FMA, iterations=1)], Effort(budget=0))
        assert len(measured) == 1
        ceilings.measure_jobs(team, [Job("f64 AVX2 FMA", FMA, iterations=1)], Effort(budget=60, rounds=7))
    assert len(measured) == 1 + 7


@pytest.mark.parametrize(("size", "iterations"), [(1 << 20, 4096), (1 << 14, 100)])
def test_a_sample_goes_all_the_way_round_its_memory(
    size: int, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_: list[int] = []

    def run(team: Team, loop: Loop, iterations: int, samples: int, **options: Any) -> Samples:
        timed_.append(iterations)
        return Samples((iterations * 5e-7,) * samples, (iterations,) * samples, busy=(1.0,) * samples)

    monkeypatch.setattr(Team, "run", run)
    with Team(topology.placement(1)) as team:
        ceilings.measure_jobs(
            team, [Job("L1-L2 triad", TRIAD, MEMORY, size, wrapped=True)], Effort(rounds=1, seconds=5e-5)
        )
    assert timed_[-1] == iterations


def test_samples_of_several_threads_are_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    timed_: list[int] = []

    def run(team: Team, loop: Loop, iterations: int, samples: int, **options: Any) -> Samples:
        timed_.append(iterations)
        return Samples((iterations * 5e-7,) * samples, (iterations,) * samples, busy=(1.0,) * samples)

    monkeypatch.setattr(Team, "run", run)
    for cpus in ((0,), (0, 1)):
        with Team(cpus) as team:
            ceilings.measure_jobs(team, [Job("f64 AVX2 FMA", FMA)], Effort(rounds=1, seconds=5e-5))
    one, *_, several = (count for count in timed_ if count != 2048)
    assert (one, several) == (100, 400)


def test_a_working_set_is_gone_through_twice_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    warmups: list[int] = []

    def run(team: Team, loop: Loop, iterations: int, samples: int, **options: Any) -> Samples:
        warmups.append(options["warmups"])
        return Samples((1e-3,) * samples, (iterations,) * samples, busy=(1.0,) * samples)

    monkeypatch.setattr(Team, "run", run)
    jobs = [
        Job("short", TRIAD, MEMORY, 1 << 20, wrapped=True, iterations=1000),
        Job("long", TRIAD, MEMORY, 1 << 10, wrapped=True, iterations=1000),
        Job("on", TRIAD, MEMORY, 1 << 30, iterations=1000),
    ]
    with Team(topology.placement(1)) as team:
        ceilings.measure_jobs(team, jobs, Effort(rounds=1))
    assert warmups == [9, 1, 1]  # 2 MiB are 8192 chunks


def test_what_else_ran_is_said_of_the_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counteroof.machine.load.Watch.told", lambda watch: "other processes took 66 %")
    machine = ceilings.measure(small_machine(), effort=replace(BRIEF, budget=0))
    assert "ceilings: while they were measured, other processes took 66 %" in machine.notes


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
        assert same[0].value >= 0.99 * max(one.value for one in same if one.isa == widest)
        assert [one for one in same if one.isa == widest and not one.fma]


def test_a_measured_machine_survives_the_machine_file(measured: Machine, tmp_path: Path) -> None:
    store.save(measured, tmp_path / "machine.json")
    assert store.load(tmp_path / "machine.json") == measured


def test_a_mix_that_is_asked_for_is_measured_at_every_level_and_again_with_the_rest() -> None:
    machine = ceilings.measure(small_machine(), effort=BRIEF, ratios=("3:1", "1:1"))
    asked = [one for one in machine.ceilings if one.mix == "3:1"]
    assert {one.level for one in asked} >= {"dram", "l1"}
    # three lines read, one fetched to be written, and one written
    assert "40 B an element" in next(one.convention for one in asked if one.level == "dram")
    again = ceilings.remeasure(machine, names=["DRAM 3:1"], seconds=0.01)
    assert [one.name for one in again.ceilings] == [one.name for one in machine.ceilings]


def test_any_mix_of_loads_and_stores_is_measured_at_every_level_and_again() -> None:
    machine = ceilings.measure(small_machine(), effort=BRIEF, ratios=("10:4",))
    asked = [one for one in machine.ceilings if one.mix == "5:2"]
    assert {one.level for one in asked} >= {"dram", "l1", "l2"}
    # five lines read, two fetched to be written, and two written
    assert "72 B an element" in next(one.convention for one in asked if one.level == "dram")
    again = ceilings.remeasure(machine, names=["DRAM 5:2"], seconds=0.01)
    assert [one.name for one in again.ceilings] == [one.name for one in machine.ceilings]
    assert again.ceilings != machine.ceilings


@pytest.mark.parametrize("ratio", ["0:0", "32:1", "1:2:3", "-1:2", "1.5:1", "2", "fast"])
def test_what_is_no_mix_is_refused(ratio: str) -> None:
    with pytest.raises(BadInput, match=re.escape(f"'{ratio}' was asked for; it is loads to stores")):
        ceilings.measure(small_machine(), ratios=(ratio,))


def test_progress_goes_up_and_ends_where_it_said() -> None:
    seen: list[tuple[int, int, str]] = []
    quick = replace(BRIEF, budget=0)
    ceilings.measure(small_machine(), effort=quick, progress=lambda *step: seen.append(step))
    done = [number for number, _, _ in seen]
    assert done == sorted(done)
    assert {total for _, total, _ in seen} == {100}
    assert done[-1] == 100
    assert seen[0][2] == "DRAM read, 1 thread"


def test_remeasuring_replaces_what_was_asked_for_and_keeps_the_rest(measured: Machine) -> None:
    again = ceilings.remeasure(measured, names=["DRAM triad"], seconds=0.01)
    assert [one.name for one in again.ceilings] == [one.name for one in measured.ceilings]
    for old, new in zip(measured.ceilings, again.ceilings, strict=True):
        assert (old is new) == (old.name != "DRAM triad")


def test_remeasuring_runs_the_loop_that_was_fastest_and_tries_no_others(
    measured: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[Job]] = []
    real = ceilings.measure_jobs

    def measure_jobs(team: Team, jobs: list[Job], *rest: Any) -> Any:
        tried.append(jobs)
        return real(team, jobs, *rest)

    monkeypatch.setattr(ceilings, "measure_jobs", measure_jobs)
    ceilings.remeasure(measured, names=["core-L1 copy"], level=None, seconds=0.01)
    kept = next(one for one in measured.ceilings if one.name == "core-L1 copy")
    ((job,),) = tried
    assert kept.note.startswith(job.note)
    assert job.loop.order in kept.note
    assert job.loop.isa == kept.isa


def test_remeasuring_takes_any_level(measured: Machine) -> None:
    again = ceilings.remeasure(measured, level="l1", seconds=0.01)
    changed = [n.name for o, n in zip(measured.ceilings, again.ceilings, strict=True) if o is not n]
    assert changed == [f"core-L1 {mix}" for mix in ceiling_jobs.CACHE_MIXES]


def test_the_roofs_that_others_move_can_be_measured_beside_kernels(measured: Machine) -> None:
    beside = Beside(measured, measured, (1,))
    beside.look(0)
    assert beside.measures
    shared = {one.name for one in measured.ceilings if one.level in shared_levels(measured)}
    small = {one.name for one in small_twins(measured.access)}
    assert {f"{name}, {SMALL}" for name in shared} == small
    assert {one.ceiling for one in beside.samples()} == shared | small
    near = beside.near(0)
    assert [one.name for one in near.ceilings] == [one.name for one in measured.ceilings]
    changed = {new.name for old, new in zip(measured.ceilings, near.ceilings, strict=True) if new is not old}
    assert changed == shared
    again = {new.name for old, new in zip(measured.access, near.access, strict=True) if new is not old}
    assert again == small


def test_kept_ceilings_are_probed_before_a_run(measured: Machine) -> None:
    high = tuple(replace(one, value=1e30, samples=(1e30,) * 3) for one in measured.ceilings)
    assert refreshed(replace(measured, ceilings=high), (1,)) == (replace(measured, ceilings=high), ())
    low = tuple(replace(one, value=1.0, samples=(1.0,) * 3) for one in measured.ceilings)
    machine, (reason,) = refreshed(replace(measured, ceilings=low), (1,))
    assert "kept was 1.00 " in reason
    assert all(one.value > 1 for one in machine.ceilings if one.kind == "compute")


def test_remeasuring_nothing_is_an_error_that_lists_what_there_is(measured: Machine) -> None:
    with pytest.raises(MachineError, match=r"names \['L9 read'\].*DRAM read \(1 thread\)"):
        ceilings.remeasure(measured, names=["L9 read"])
    with pytest.raises(MachineError, match="there are none"):
        ceilings.remeasure(replace(measured, ceilings=(), access=()))


def test_a_roof_of_another_architecture_cannot_be_measured_here(measured: Machine) -> None:
    foreign = replace(measured.ceilings[0], name="DRAM scatter")
    with pytest.raises(MachineError, match="cannot be measured on this machine: DRAM scatter"):
        ceilings.remeasure(replace(measured, ceilings=(foreign,)))


def test_measuring_again_keeps_the_higher_and_leaves_memory_alone(measured: Machine) -> None:
    low = tuple(replace(one, value=1.0) for one in measured.ceilings)
    raised = {
        one.name: one
        for one in ceilings.measure_again(replace(measured, ceilings=low), effort=BRIEF).ceilings
    }
    assert {one.name for one in measured.ceilings if one.kind == "bandwidth"} <= set(raised)
    assert all((one.value == 1.0) == (one.level == "dram") for one in raised.values())
    high = replace(measured, ceilings=tuple(replace(one, value=1e30) for one in measured.ceilings))
    kept = ceilings.measure_again(high, effort=BRIEF).ceilings
    assert {one.value for one in kept if one.name in {old.name for old in high.ceilings}} == {1e30}


def test_measuring_one_thread_count_keeps_the_others(measured: Machine) -> None:
    other = replace(measured.ceilings[0], threads=7)
    mixed = ceilings.measure(replace(measured, ceilings=(other, *measured.ceilings)), effort=BRIEF)
    assert [one for one in mixed.ceilings if one.threads == 7] == [other]
    again = [one.name for one in mixed.ceilings if one.kind == "bandwidth" and one.threads == 1]
    assert again == [one.name for one in measured.ceilings if one.kind == "bandwidth"]


def test_too_many_threads_are_refused_before_anything_runs() -> None:
    with pytest.raises(BadInput, match="threads were asked for"):
        ceilings.measure(small_machine(), threads=(1, 100_000))
