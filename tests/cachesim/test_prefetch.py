"""Hardware prefetchers, a few lines at a time: what they bring from memory, and what of that for nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.cachesim.model import CacheModel, Kind, parts_of
from counteroof.errors import BadInput
from counteroof.machine.model import CacheLevel, Prefetch, Stores
from counteroof.native import ffi, lib

from .simulated import cache
from .test_reference import BASE

LINE = 64
PAGE = 4096
LINES = PAGE // LINE
PAIRS = Prefetch(adjacent=True)
STREAM = Prefetch(stream=True, distance=4, degree=2)


def large(prefetch: Prefetch, stores: Stores = Stores()) -> CacheModel:  # noqa: B008
    """Caches that lose nothing."""
    return CacheModel([cache("L1", 1, 8), cache("L2", 64, 16)], prefetch=prefetch, stores=stores)


def tiny(prefetch: Prefetch) -> CacheModel:
    """One line in level 1, two in level 2."""
    return CacheModel([cache("L1", 1, 1), cache("L2", 1, 2)], prefetch=prefetch)


def load(model: CacheModel, *lines: int, kind: Kind = Kind.LOAD) -> None:
    for line in lines:
        model.access(BASE + LINE * line, 8, kind)


def read(model: CacheModel) -> tuple[int, int, int]:
    """Lines read from memory, those of them that were prefetched, and those of these for nobody."""
    totals = model.totals()
    return (
        totals.dram_read_bytes // LINE,
        totals.prefetched_bytes // LINE,
        totals.prefetched_unused_bytes // LINE,
    )


def test_there_are_none_unless_asked_for() -> None:
    model = large(Prefetch())
    load(model, *range(20))
    assert read(model) == (20, 0, 0)


def test_a_line_brings_along_the_other_of_its_pair() -> None:
    model = large(PAIRS)
    load(model, 0)  # 0, and 1 into level 2
    assert read(model) == (2, 1, 1)
    load(model, 1)  # found in level 2: it was read for that
    assert read(model) == (2, 1, 0)
    load(model, 7)  # and 6
    assert read(model) == (4, 2, 1)


def test_a_pair_is_brought_by_misses_of_level_2_alone() -> None:
    model = tiny(PAIRS)
    load(model, 0)  # level 1: 0; level 2: 1 0
    load(model, 1)  # level 1: 1; level 2: 1 0, which has both
    load(model, 0)
    assert read(model) == (2, 1, 0)


def test_a_line_that_left_unused_counts_once_for_each_time() -> None:
    model = tiny(PAIRS)
    load(model, 0)  # level 2: 1 0
    load(model, 2)  # level 2: 3 2: 1 has left
    load(model, 0)  # level 2: 1 0: 1 is read again, and so is 0
    # 0 0 2 for use, of which 0 was read again; 1 1 3 for nobody
    assert read(model) == (6, 3, 3)
    traffic = model.arrays()[-1]
    assert traffic.unique_read_bytes == 2 * LINE
    assert traffic.read_again_bytes == LINE


def test_a_line_prefetched_again_was_lost_for_the_reason_of_the_last_time() -> None:
    """Level 2 has a place for each of four lines in a row; the pairs 0 1, 4 5 and 8 9 share two of them."""
    model = CacheModel([cache("L1", 1, 1), cache("L2", 4, 1)], prefetch=PAIRS)
    one = model.add_array("1", BASE + LINE, LINE)
    load(model, 0, 1)
    load(model, 4)  # level 2: 4 5, while four lines anywhere would be 0 1 4 5
    load(model, 0, 1)
    traffic = model.arrays()[one]
    assert (traffic.again_conflict_bytes, traffic.again_capacity_bytes) == (LINE, 0)
    load(model, 4, 8)  # four anywhere: 4 5 8 9
    load(model, 0, 1)
    traffic = model.arrays()[one]
    assert (traffic.again_conflict_bytes, traffic.again_capacity_bytes) == (LINE, LINE)
    assert traffic.prefetched_bytes == 3 * LINE


def test_a_line_asked_for_after_it_left_was_prefetched_for_nobody() -> None:
    model = tiny(PAIRS)
    load(model, 0)  # level 2: 1 0
    load(model, 2)  # level 2: 3 2
    load(model, 1)  # level 2: 0 1, both read again; 0 is the pair's other line now
    assert read(model) == (6, 3, 3)  # for use 0 2 1; for nobody 1 3 0
    assert model.arrays()[-1].unique_read_bytes == 3 * LINE
    assert model.arrays()[-1].read_again_bytes == 0


def test_the_third_line_at_the_same_step_starts_a_stream() -> None:
    model = large(STREAM)
    load(model, 0, 1)
    assert read(model) == (2, 0, 0)
    load(model, 2)  # 3 4: two at a time
    assert read(model) == (5, 2, 2)
    load(model, 3)  # one of two is ahead still; 5 6
    assert read(model) == (7, 4, 3)
    load(model, 4)  # 7 8: as far as it goes, four ahead
    assert read(model) == (9, 6, 4)
    load(model, 5)  # 9
    assert read(model) == (10, 7, 4)


@pytest.mark.parametrize("step", [-1, 3, -5])
def test_streams_go_down_and_in_steps(step: int) -> None:
    model = large(STREAM)
    first = 40
    load(model, *(first + step * n for n in range(3)))
    for n in (3, 4):
        found = lib.cachesim_physical_line(model.pointer, BASE + LINE * (first + step * n))
        held = ffi.new("uint32_t[64]")
        number = lib.cachesim_set_of(model.pointer, 1, found)
        count = lib.cachesim_contents(model.pointer, 1, number, held)
        assert found in held[0:count]
    assert read(model) == (5, 2, 2)


@pytest.mark.parametrize("step", [1, -1])
def test_a_stream_ends_with_its_page(step: int) -> None:
    model = large(STREAM)
    load(model, *range(LINES)[::step])
    assert read(model) == (LINES, LINES - 3, 0)


def test_a_short_row_is_overshot() -> None:
    """Five lines of each page: the third brings 3 4, the fourth 5 6, the fifth 7 8."""
    model = large(STREAM)
    rows = 10
    for row in range(rows):
        load(model, *range(LINES * row, LINES * row + 5))
    assert read(model) == (9 * rows, 6 * rows, 4 * rows)


def test_another_step_begins_anew() -> None:
    model = large(STREAM)
    load(model, 0, 1, 3, 4, 6, 7)
    assert read(model) == (6, 0, 0)


def test_the_page_not_asked_for_for_longest_is_forgotten() -> None:
    model = large(replace(STREAM, streams=2))
    load(model, 0, 1)
    load(model, LINES, 2 * LINES)  # the first page is forgotten
    load(model, 2)
    assert read(model)[1] == 0
    load(model, 3, 4)  # 2 3 4
    assert read(model)[1] == 2


def test_each_core_watches_pages_of_its_own() -> None:
    caches = [cache("L1", 1, 8), cache("L2", 64, 16), replace(cache("L3", 64, 16), shared_by=2)]
    model = CacheModel(caches, prefetch=STREAM)
    for line in range(2):
        for core in (0, 1):
            model.core(core)
            load(model, LINES * core + line)
    model.core(0)
    load(model, LINES + 2)  # of the other core's page: the first time here
    assert read(model)[1] == 0
    model.core(1)
    load(model, LINES + 3)  # 2 was not asked for here: another step
    assert read(model)[1] == 0
    model.core(0)
    load(model, 2)
    assert read(model)[1] == 2


def test_what_another_core_holds_is_left_alone() -> None:
    caches = [cache("L1", 1, 8), cache("L2", 64, 16), replace(cache("L3", 64, 16), shared_by=2)]
    model = CacheModel(caches, prefetch=PAIRS)
    model.core(1)
    load(model, 1, kind=Kind.STORE)  # brings 0
    model.core(0)
    load(model, 0)
    assert read(model) == (2, 1, 0)
    assert model.shared_lines() == ()


def test_a_line_prefetched_for_a_store_is_a_write_allocate() -> None:
    model = large(PAIRS)
    load(model, 0)
    load(model, 1, kind=Kind.STORE)
    totals = model.totals()
    assert totals.write_allocate_bytes == LINE
    assert read(model) == (2, 1, 0)


def test_a_line_that_is_written_whole_without_a_read_brings_none() -> None:
    model = large(replace(STREAM, adjacent=True), Stores("always", 1.0))
    model.loop([(BASE, 8, 8, Kind.STORE)], 8 * 10)
    assert read(model) == (0, 0, 0)


def test_lines_come_from_the_last_level_if_it_has_them() -> None:
    caches = [cache("L1", 1, 1), cache("L2", 1, 2), cache("L3", 1, 16)]
    model = CacheModel(caches, prefetch=PAIRS)
    load(model, 0, 2, 4)
    model.reset()
    load(model, 0)
    totals = model.totals()
    assert read(model) == (0, 0, 0)
    assert [(level.hits, level.misses, level.up_bytes // LINE) for level in totals.levels] == [
        (0, 1, 1),
        (0, 1, 2),  # 0, and 1 beforehand
        (2, 0, 0),
    ]


def test_prefetched_lines_have_the_array_they_are_of() -> None:
    model = large(PAIRS)
    model.add_array("a", BASE, 3 * LINE)
    model.add_array("b", BASE + 3 * LINE, LINE)
    load(model, 0, 1, 2)
    a, b, _ = model.arrays()
    assert (a.prefetched_bytes, a.prefetched_unused_bytes) == (LINE, 0)
    assert (b.prefetched_bytes, b.prefetched_unused_bytes) == (LINE, LINE)


def test_what_waits_for_its_use_does_not_wait_beyond_a_reset() -> None:
    model = large(PAIRS)
    load(model, 0)
    model.reset()
    assert read(model) == (0, 0, 0)
    load(model, 1)
    assert read(model) == (0, 0, 0)


def test_the_model_has_one_part_and_two_levels() -> None:
    caches = [cache("L1", 64, 8), cache("L2", 64, 16)]
    assert (parts_of(caches), parts_of(caches, PAIRS)) == (2, 1)
    with pytest.raises(BadInput, match="cannot be divided into 2"):
        CacheModel(caches, prefetch=PAIRS, parts=2)
    one = [CacheLevel("L1", 4096, 8, 64, 1, "non-inclusive", False, "test")]
    with pytest.raises(BadInput, match="one level alone"):
        CacheModel(one, prefetch=PAIRS)
