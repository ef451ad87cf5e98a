"""Several cores: private levels of their own, one last level, and lines that go from one to another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.cachesim.model import CacheModel, Kind, private_levels
from counteroof.count.base import FalseSharing
from counteroof.machine.model import CacheLevel, Fill

from .simulated import cache

A, B = 0x7F00_0000_0000, 0x7F00_0001_0000


def hierarchy(fill: Fill = "victim") -> list[CacheLevel]:
    second: Fill = "inclusive" if fill == "victim" else "non-inclusive"
    return [
        cache("L1", 2, 2),
        cache("L2", 4, 2, second),
        replace(cache("L3", 64, 2, fill, hashed=True), shared_by=4),
    ]


def on(model: CacheModel, core: int, address: int, kind: Kind = Kind.LOAD, nbytes: int = 8) -> None:
    model.core(core)
    model.access(address, nbytes, kind)


@pytest.mark.parametrize("fill", ["victim", "inclusive", "non-inclusive"])
class TestSharing:
    def test_a_line_another_core_has_is_not_read_from_memory_again(self, fill: Fill) -> None:
        model = CacheModel(hierarchy(fill))
        on(model, 0, A)
        on(model, 1, A)
        on(model, 2, A)
        assert model.totals().dram_read_bytes == 64
        assert model.shared_lines() == ()

    def test_a_modified_line_comes_from_the_core_that_has_it(self, fill: Fill) -> None:
        model = CacheModel(hierarchy(fill))
        on(model, 0, A, Kind.STORE)
        on(model, 1, A)
        totals = model.totals()
        assert (totals.dram_read_bytes, totals.dram_write_bytes) == (64, 0)
        model.flush(count_writebacks=True)
        assert model.totals().dram_write_bytes == 64

    def test_a_store_takes_the_line_away_from_the_others(self, fill: Fill) -> None:
        model = CacheModel(hierarchy(fill))
        on(model, 0, A)
        on(model, 1, A)
        on(model, 1, A, Kind.STORE)
        misses = model.totals().levels[0].misses
        on(model, 0, A)
        assert model.totals().levels[0].misses == misses + 1
        assert model.totals().dram_read_bytes == 64

    @pytest.mark.parametrize(("distance", "falsely"), [(8, True), (0, False), (4, False)])
    def test_stores_to_one_line_from_two_cores_move_it_each_time(
        self, fill: Fill, distance: int, falsely: bool
    ) -> None:
        model = CacheModel(hierarchy(fill))
        model.add_array("a", A, 4096)
        for _ in range(5):
            on(model, 0, A + 128, Kind.STORE)
            on(model, 1, A + 128 + distance, Kind.STORE)
        (line,) = model.shared_lines()
        assert (line.array, line.offset, line.cores, line.moves, line.false_sharing) == (
            "a",
            128,
            2,
            9,
            falsely,
        )
        assert model.totals().dram_read_bytes == 64

    def test_a_core_that_was_alone_has_its_bytes_remembered(self, fill: Fill) -> None:
        model = CacheModel(hierarchy(fill))
        model.loop([(A, 0, 8, Kind.UPDATE)], 100)
        on(model, 1, A + 8, Kind.UPDATE)
        (line,) = model.shared_lines()
        assert line.false_sharing

    def test_lines_of_their_own_are_not_shared(self, fill: Fill) -> None:
        model = CacheModel(hierarchy(fill))
        for _ in range(5):
            on(model, 0, A, Kind.STORE)
            on(model, 1, A + 64, Kind.STORE)
        assert model.shared_lines() == ()
        assert model.totals().levels[0].misses == 2


def test_private_levels_add_up_and_the_shared_one_is_one() -> None:
    """Each core keeps a line of its own in level 1, whatever the others do."""
    model = CacheModel(hierarchy())
    for core in range(4):
        on(model, core, A + 4096 * core)
    for core in range(4):
        on(model, core, A + 4096 * core)
    totals = model.totals()
    assert (totals.levels[0].hits, totals.levels[0].misses) == (4, 4)


def test_without_a_shared_level_modified_lines_go_through_memory() -> None:
    model = CacheModel([cache("L1", 2, 2)])
    on(model, 0, A, Kind.STORE)
    on(model, 1, A)
    totals = model.totals()
    assert (totals.dram_read_bytes, totals.dram_write_bytes) == (64, 64)


def test_false_sharing_is_summed_over_all_lines_by_array() -> None:
    model = CacheModel(hierarchy())
    model.add_array("a", A, 64 * 64)
    model.add_array("b", A + 64 * 64, 4096)
    for line in range(5):
        for core in range(2):
            on(model, core, A + 64 * line + 8 * core, Kind.STORE)
    for core in (0, 1, 2, 0):
        on(model, core, A + 64 * 64 + 8 * core, Kind.STORE)
    on(model, 0, A + 64 * 65, Kind.STORE)
    on(model, 1, A + 64 * 65, Kind.STORE)  # the same bytes: shared, but not falsely
    assert model.false_sharing() == (FalseSharing("a", 5, 5, 2), FalseSharing("b", 1, 3, 3))
    assert len(model.shared_lines()) == 7
    assert [(line.array, line.moves) for line in model.shared_lines(most=2)] == [("b", 3), ("a", 1)]


def test_a_reset_forgets_shared_lines() -> None:
    model = CacheModel(hierarchy())
    on(model, 0, A, Kind.STORE)
    on(model, 1, A, Kind.STORE)
    model.reset()
    assert model.shared_lines() == ()
    assert model.false_sharing() == ()


@pytest.mark.parametrize(
    ("shared_by", "private"),
    [((1, 1, 8), 2), ((2, 2, 16), 2), ((1, 1, 1), 2), ((1, 4), 1), ((1,), 1), ((1, 1), 2)],
)
def test_levels_shared_by_more_processors_than_the_first_are_shared(
    shared_by: tuple[int, ...], private: int
) -> None:
    caches = [replace(cache(f"L{n}", 4, 2), shared_by=count) for n, count in enumerate(shared_by)]
    assert private_levels(caches) == private
