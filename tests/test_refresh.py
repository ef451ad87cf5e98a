"""Whether kept ceilings hold: which look disturbed, and when they are measured again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counteroof import ceilings
from counteroof.ceilings import DISTURBED
from counteroof.machine.model import Ceiling, Machine
from counteroof.refresh import doubts, refreshed
from tests import factories
from tests.factories import bandwidth, compute

FMA = compute("f64 AVX-512 FMA", 135, "f64")
ADD = compute("f64 AVX-512 ADD", 68, "f64", fma=False)
SCALAR = compute("f64 scalar ADD", 8.4, "f64", "scalar", fma=False)
L2 = bandwidth("L1-L2 update", 450, level="l2")
L3 = bandwidth("L2-L3 copy", 250, level="l3")
DRAM = bandwidth("DRAM copy", 60)
KEPT = (FMA, ADD, SCALAR, L2, L3, DRAM)


def steady(one: Ceiling, **fields: Any) -> Ceiling:
    return replace(one, samples=(one.value,) * 8, **fields)


def doubted(*found: Ceiling, threads: int = 1) -> dict[str, str]:
    return doubts(
        factories.machine(tuple(steady(one) if len(one.samples) == 3 else one for one in found)), threads
    )


# ---- what looks disturbed ----


def test_undisturbed_ceilings_raise_no_doubt() -> None:
    assert doubted(*KEPT) == {}


def test_a_lower_clock_than_others_of_the_same_isa_is_doubtful() -> None:
    assert doubted(FMA, steady(ADD, clock_hz=2.1e9)) == {ADD.name: "at 2.10 GHz, others at 4.18 GHz"}
    assert doubted(FMA, steady(ADD, clock_hz=4.1e9)) == {}
    assert doubted(FMA, steady(ADD, clock_hz=None)) == {}


def test_walks_are_not_doubted_for_their_page_frames_may_have_had_luck() -> None:
    walk = bandwidth("L1-L2 walk 2560", 70, level="l2", mix="walk")
    assert doubted(*KEPT, replace(walk, samples=(walk.value, *[0.8 * walk.value] * 7))) == {}
    other = replace(L2, samples=(L2.value, *[0.8 * L2.value] * 7))
    assert doubted(FMA, other) == {L2.name: "1 of 8 samples came close to it"}


def test_an_isa_may_have_a_clock_of_its_own() -> None:
    assert doubted(FMA, steady(SCALAR, clock_hz=5e9)) == {}


def test_full_units_of_an_isa_may_have_a_clock_of_their_own() -> None:
    divisions = compute("f64 AVX-512 DIV", 1.7, "f64", mix="DIV", fma=False, clock_hz=5e9)
    assert doubted(FMA, steady(divisions)) == {}
    roots = replace(divisions, name="f64 AVX-512 SQRT", mix="SQRT", clock_hz=4e9)
    assert doubted(FMA, steady(divisions), steady(roots)) == {roots.name: "at 4.00 GHz, others at 5.00 GHz"}
    slow = steady(divisions, clock_hz=2.1e9)
    assert doubted(FMA, slow) == {slow.name: "at 2.10 GHz, others at 4.18 GHz"}


def test_a_value_that_hardly_any_sample_came_close_to_is_doubtful() -> None:
    lonely = replace(FMA, samples=(FMA.value, 0.99 * FMA.value, *[0.9 * FMA.value] * 6))
    assert doubted(lonely) == {FMA.name: "2 of 8 samples came close to it"}
    assert doubted(replace(FMA, samples=(FMA.value,))) == {}


def test_a_ceiling_that_says_it_was_disturbed_is_doubtful() -> None:
    assert doubted(steady(L2, note=f"512 KiB a thread; {DISTURBED}")) == {L2.name: DISTURBED}


def test_roofs_that_others_move_are_left_to_the_run() -> None:
    assert doubted(FMA, steady(DRAM, note=DISTURBED), steady(L3, clock_hz=2e9)) == {}


def test_ceilings_of_other_numbers_of_threads_do_not_matter() -> None:
    slow = steady(ADD, clock_hz=2e9, threads=2)
    assert doubted(FMA, slow) == {}
    assert doubted(FMA, slow, threads=2) == {}  # nothing to compare it with


# ---- measuring ----


class Probe:
    """A machine that is faster than the kept ceilings by a factor for each name."""

    def __init__(self) -> None:
        self.factors: dict[str, float] = {}
        self.probed: list[set[str]] = []
        self.again: list[tuple[int, ...]] = []

    def remeasure(self, machine: Machine, *, names: set[str], **options: Any) -> Machine:
        assert options == {"level": None, "threads": (1,), "seconds": 0.1}
        self.probed.append(names)
        found = [
            replace(one, value=one.value * self.factors.get(one.name, 1.0)) if one.name in names else one
            for one in machine.ceilings
        ]
        return replace(machine, ceilings=tuple(found))

    def measure_again(self, machine: Machine, *, threads: list[int], progress: Any) -> Machine:
        self.again.append(tuple(threads))
        return replace(machine, measured="now")


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    it = Probe()
    monkeypatch.setattr(ceilings, "remeasure", it.remeasure)
    monkeypatch.setattr(ceilings, "measure_again", it.measure_again)
    return it


def kept(*found: Ceiling) -> Machine:
    return factories.machine(tuple(steady(one) if len(one.samples) == 3 else one for one in found))


def test_the_highest_peak_is_probed_and_kept_where_it_holds(probe: Probe) -> None:
    probe.factors = {FMA.name: 1.02}
    machine = kept(*KEPT)
    assert refreshed(machine, (1,)) == (machine, ())
    assert (probe.probed, probe.again) == ([{FMA.name}], [])


def test_a_peak_that_is_exceeded_has_all_of_the_cores_ceilings_measured_again(probe: Probe) -> None:
    probe.factors = {FMA.name: 1.2}
    machine, reasons = refreshed(kept(*KEPT), (1,))
    assert machine.measured == "now"
    assert probe.again == [(1,)]
    assert reasons == ("f64 AVX-512 FMA reaches 162 GFLOP/s, kept was 135 GFLOP/s",)


def test_doubtful_ceilings_are_probed_too(probe: Probe) -> None:
    probe.factors = {L2.name: 2.0}
    slow = steady(L2, clock_hz=2.1e9)
    _, reasons = refreshed(kept(FMA, ADD, slow), (1,))
    assert probe.probed == [{FMA.name, L2.name}]
    assert reasons == ("L1-L2 update reaches 900 GB/s, kept was 450 GB/s (at 2.10 GHz, others at 4.18 GHz)",)


def test_a_doubt_that_measuring_does_not_confirm_changes_nothing(probe: Probe) -> None:
    machine = kept(FMA, steady(ADD, clock_hz=2.1e9))
    assert refreshed(machine, (1,)) == (machine, ())


def test_without_ceilings_of_the_core_there_is_nothing_to_probe(probe: Probe) -> None:
    machine = kept(DRAM, L3)
    assert refreshed(machine, (1,)) == (machine, ())
    assert probe.probed == []
