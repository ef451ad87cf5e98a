"""Roofs measured between kernels: which hold for a kernel, when it is time to look, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counteroof import ceilings
from counteroof.beside import Beside
from counteroof.errors import MachineError
from counteroof.machine.model import Ceiling, Machine
from counteroof.roofline import Placement
from tests import factories
from tests.factories import bandwidth, compute

VICTIMS = "both ways, one line down for each line up: 32 B an element"
DRAM, L3 = bandwidth("DRAM copy", 50), bandwidth("L2-L3 copy", 250, level="l3", convention=VICTIMS)
OWN = (bandwidth("L1-L2 copy", 400, level="l2"), compute("f64 AVX-512 FMA", 135, "f64"))
HERE = factories.machine((DRAM, L3, *OWN, bandwidth("DRAM copy", 90, threads=2)))


class World:
    """A host whose DRAM gives what it is told to give, and the time of day."""

    def __init__(self) -> None:
        self.now = 100.0
        self.dram = 50.0
        self.asked: list[dict[str, Any]] = []

    def clock(self) -> float:
        return self.now

    def remeasure(self, machine: Machine, **options: Any) -> Machine:
        self.asked.append(options)
        if self.dram <= 0:
            raise MachineError("no memory is free")
        fresh = {"DRAM copy": self.dram * 1e9, "L2-L3 copy": 240e9}
        found = [
            replace(one, value=fresh[one.name])
            if one.name in options["names"] and one.threads in options["threads"]
            else one
            for one in machine.ceilings
        ]
        return replace(machine, ceilings=tuple(found))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    it = World()
    monkeypatch.setattr(ceilings, "remeasure", it.remeasure)
    return it


def watched(world: World, machine: Machine = HERE, **options: Any) -> Beside:
    return Beside(machine, HERE, (1,), interval=30, clock=world.clock, **options)


def value(machine: Machine, name: str = "DRAM copy", threads: int = 1) -> float:
    (one,) = [one for one in machine.ceilings if (one.name, one.threads) == (name, threads)]
    return one.value / 1e9


def looks(world: World, *found: tuple[int, float]) -> Beside:
    """Return the roofs of a run that looked after so many kernels, and found so much."""
    beside = watched(world)
    for kernels, world.dram in found:
        beside.look(kernels)
    return beside


def test_the_median_of_a_roof_is_that_of_all_looks_around_a_kernel(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sampled(machine: Machine, **options: Any) -> Machine:
        rate = world.dram * 1e9
        fresh = world.remeasure(machine, **options)
        found = (replace(one, samples=(rate, 0.9 * rate, 0.8 * rate)) for one in fresh.ceilings)
        return replace(fresh, ceilings=tuple(found))

    monkeypatch.setattr(ceilings, "remeasure", sampled)
    beside = looks(world, (0, 60), (1, 40))
    (roof,) = [one for one in beside.near(0).ceilings if (one.name, one.threads) == ("DRAM copy", 1)]
    assert roof.value == 60e9
    assert roof.median == pytest.approx((48e9 + 40e9) / 2)


def test_only_what_others_move_is_measured_with_the_threads_of_the_kernels(world: World) -> None:
    beside = looks(world, (0, 60))
    assert world.asked == [
        {"names": {"DRAM copy", "L2-L3 copy"}, "level": None, "threads": {1}, "seconds": 0.4}
    ]
    assert [(one.ceiling, one.threads, one.kernels, one.median) for one in beside.samples()] == [
        ("DRAM copy", 1, 0, DRAM.median),
        ("L2-L3 copy", 1, 0, L3.median),
    ]
    assert value(beside.whole(), threads=2) == 90


def test_a_kernel_is_held_against_the_higher_of_the_two_looks_around_it(world: World) -> None:
    beside = looks(world, (0, 60), (2, 45), (3, 80))
    assert [value(beside.near(kernel)) for kernel in (0, 1, 2)] == [60, 60, 80]
    falling = looks(world, (0, 80), (2, 60), (3, 45))
    assert [value(falling.near(kernel)) for kernel in (0, 1, 2)] == [80, 80, 60]


def test_what_was_kept_does_not_hold_for_a_roof_that_was_measured_beside(world: World) -> None:
    beside = looks(world, (0, 30), (1, 40))
    near = beside.near(0)
    assert value(near) == 40
    assert [one for one in near.ceilings if one in OWN] == list(OWN)
    assert [one.name for one in near.ceilings] == [one.name for one in HERE.ceilings]


def test_the_whole_run_has_the_highest_of_all_looks(world: World) -> None:
    assert value(looks(world, (0, 60), (2, 85), (3, 70)).whole()) == 85


def test_a_kernel_is_settled_by_the_first_look_after_it(world: World) -> None:
    beside = looks(world, (0, 60))
    assert not beside.settled(0)
    beside.look(2)
    assert [beside.settled(kernel) for kernel in (0, 1, 2)] == [True, True, False]


def test_a_look_is_due_at_first_and_then_after_the_interval(world: World) -> None:
    beside = watched(world)
    assert beside.due
    beside.look(0)
    assert not beside.due
    world.now += 29
    assert not beside.due
    world.now += 1
    assert beside.due


def test_where_memory_is_refused_kept_roofs_hold_and_it_is_said(world: World) -> None:
    beside = looks(world, (0, 0))
    assert value(beside.near(0)) == 50
    assert beside.whole().notes == ("ceilings: not measured beside the kernels: no memory is free",)
    assert (beside.due, beside.measures, beside.settled(0)) == (False, False, True)
    later = looks(world, (0, 60), (1, 0))
    assert value(later.near(0)) == 60
    assert later.whole().notes


def test_nothing_is_measured_for_ceilings_of_another_machine(world: World) -> None:
    beside = Beside(HERE, None, (1,), clock=world.clock)
    beside.look(0)
    assert world.asked == []
    assert (beside.due, beside.settled(0), beside.near(0)) == (False, True, HERE)


def test_modelled_caches_of_another_machine_stay(world: World) -> None:
    other = replace(HERE, caches=HERE.caches[:1])
    beside = watched(world, other)
    beside.look(0)
    assert beside.near(0).caches == other.caches
    assert value(beside.near(0)) == world.dram


@pytest.mark.parametrize(
    ("changes", "measured"),
    [
        ({}, {"DRAM copy", "L2-L3 copy"}),
        ({"caches": HERE.caches[:2]}, {"DRAM copy"}),
        ({"caches": (*HERE.caches[:2], replace(HERE.caches[2], fill="inclusive"))}, {"DRAM copy"}),
        ({"ceilings": (L3, *OWN)}, {"L2-L3 copy"}),
        ({"ceilings": OWN}, None),
    ],
    ids=["alike", "no L3", "an L3 filled in another way", "no roof of DRAM", "no shared roof"],
)
def test_roofs_that_the_kernels_machine_does_not_have_are_not_measured(
    world: World, changes: dict[str, Any], measured: set[str] | None
) -> None:
    beside = watched(world, replace(HERE, **changes))
    beside.look(0)
    assert [asked["names"] for asked in world.asked] == ([] if measured is None else [measured])
    assert {one.ceiling for one in beside.samples()} == (measured or set())
    assert beside.measures == (measured is not None)


# ---- what is said of a kernel ----


def placed(ceiling: Ceiling) -> Any:
    placement = Placement(0.1, None, 1e9, 2e9, 0.5, "dram", ceiling.name)
    return replace(factories.result(), placement=placement)


def test_a_roof_that_moved_around_a_kernel_is_said(world: World) -> None:
    beside = looks(world, (0, 50), (1, 60), (2, 63))
    (note,) = beside.noted(0, placed(DRAM)).placement.notes
    assert note == "its roof (DRAM copy) moved between 50.0 GB/s and 60.0 GB/s around it, the higher counts"
    assert beside.noted(1, placed(DRAM)).placement.notes == ()


def test_a_steady_roof_and_a_kernel_without_a_place_need_no_note(world: World) -> None:
    beside = looks(world, (0, 50), (1, 60))
    assert beside.noted(0, placed(L3)).placement.notes == ()
    assert beside.noted(0, placed(OWN[1])).placement.notes == ()
    assert beside.noted(0, factories.failed()) == factories.failed()
