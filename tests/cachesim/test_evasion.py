"""Lines that are written whole before anything of them is read cost no read, where the machine has it so."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.machine.model import Stores
from counteroof.native import ffi, lib

from .simulated import cache
from .test_reference import BASE

LINE = 64
ALWAYS = Stores("always", 1.0)
LEVELS = [cache("L1", 1, 4), cache("L2", 1, 8)]


def whole(model: CacheModel, line: int, kind: Kind = Kind.STORE) -> None:
    """Write a line in two halves."""
    for half in (0, 32):
        model.access(BASE + LINE * line + half, 32, kind)


def moved(model: CacheModel) -> tuple[int, int, int, int]:
    """Lines read, those of them for a store, lines written, and lines spared the read."""
    totals = model.totals()
    found = (
        totals.dram_read_bytes,
        totals.write_allocate_bytes,
        totals.dram_write_bytes,
        totals.evaded_bytes,
    )
    assert not any(size % LINE for size in found)
    return tuple(size // LINE for size in found)  # type: ignore[return-value]


def test_a_line_written_whole_is_not_read() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    whole(model, 0)
    assert moved(model) == (0, 0, 0, 1)
    model.access(BASE, 8)  # it is in level 1
    model.flush(count_writebacks=True)
    assert moved(model) == (0, 0, 1, 1)
    one = model.totals().levels[0]
    assert (one.misses, one.hits) == (1, 2)  # the first half missed
    assert one.up_bytes == 0  # and yet nothing came up


def test_a_processor_without_evasion_reads_it() -> None:
    model = CacheModel(LEVELS)
    whole(model, 0)
    assert moved(model) == (1, 1, 0, 0)
    assert model.totals().levels[0].up_bytes == LINE


def test_a_line_that_stays_in_part_is_read_once_totals_are_asked_for() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    model.access(BASE, 63, Kind.STORE)
    assert moved(model) == (1, 1, 0, 0)
    model.access(BASE + 63, 1, Kind.STORE)  # a hit
    assert moved(model) == (1, 1, 0, 0)


def test_a_line_read_again_after_all_was_lost_for_the_reason_it_had_when_it_was_stored_to() -> None:
    """Level 2 has one place for 0, 4 and 8; four places anywhere keep 0 beside 4, but not past 1 2 3 8."""
    model = CacheModel([cache("L1", 1, 1), cache("L2", 4, 1)], stores=ALWAYS)
    zero = model.add_array("0", BASE, LINE)

    def again() -> tuple[int | None, int | None]:
        for _ in range(2):
            model.access(BASE, 8, Kind.STORE)
            model.totals()  # it stays in part
        traffic = model.arrays()[zero]
        return traffic.again_conflict_bytes, traffic.again_capacity_bytes

    for line in (0, 4):
        model.access(BASE + LINE * line, 8)
    assert again() == (LINE, 0)
    for line in (1, 2, 3, 8):
        model.access(BASE + LINE * line, 8)
    assert again() == (LINE, LINE)


@pytest.mark.parametrize("kind", [Kind.LOAD, Kind.PREFETCH, Kind.UPDATE])
@pytest.mark.parametrize("offset", [0, 40])
def test_a_line_loaded_before_it_is_whole_is_read(kind: Kind, offset: int) -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    model.access(BASE, 32, Kind.STORE)
    model.access(BASE + offset, 8, kind)
    model.access(BASE + 32, 32, Kind.STORE)
    assert moved(model) == (1, 1, 0, 0)


def test_a_line_loaded_when_it_is_whole_is_not() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    whole(model, 0)
    model.access(BASE, 8)
    assert moved(model) == (0, 0, 0, 1)


def test_a_line_that_a_cache_has_needs_no_read_and_spares_none() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    model.access(BASE, 8)
    whole(model, 0)
    assert moved(model) == (1, 0, 0, 0)


def test_a_line_in_the_second_level_alone_is_found_there() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    for line in range(5):  # 4 3 2 1 in level 1, and 0 below
        model.access(BASE + LINE * line, 8)
    whole(model, 0)
    assert moved(model) == (5, 0, 0, 0)


@pytest.mark.parametrize(("lines", "read"), [(10, 0), (11, 1), (15, 5)])
def test_ten_lines_can_be_written_side_by_side(lines: int, read: int) -> None:
    """Each further one closes the oldest, whose second half is then a hit in level 1."""
    model = CacheModel([cache("L1", 1, 16), cache("L2", 1, 32)], stores=ALWAYS)
    for half in (0, 32):
        for line in range(lines):
            model.access(BASE + LINE * line + half, 32, Kind.STORE)
    assert moved(model) == (read, read, 0, 10)


def test_the_line_not_stored_to_for_longest_closes() -> None:
    model = CacheModel([cache("L1", 1, 16), cache("L2", 1, 32)], stores=ALWAYS)
    for line in [*range(10), 0, 10]:  # the eleventh line closes line 1
        model.access(BASE + LINE * line, 32, Kind.STORE)
    for line in (0, 1):
        model.access(BASE + LINE * line + 32, 32, Kind.STORE)
    assert model.totals().evaded_bytes == LINE


def test_another_core_closes_the_line_of_the_first() -> None:
    model = CacheModel([LEVELS[0], replace(LEVELS[1], shared_by=2)], stores=ALWAYS)
    model.access(BASE, 32, Kind.STORE)
    model.core(1)
    model.access(BASE + 32, 32, Kind.STORE)
    assert moved(model)[:2] == (1, 1)
    assert model.shared_lines()[0].moves == 1


def test_cores_have_trackers_of_their_own() -> None:
    model = CacheModel([cache("L1", 1, 32), cache("L2", 1, 64)], stores=ALWAYS)
    for half in (0, 32):
        for core in (0, 1):
            model.core(core)
            for line in range(10):
                model.access(BASE + LINE * (10 * core + line) + half, 32, Kind.STORE)
    assert moved(model) == (0, 0, 0, 20)


def test_a_flush_reads_the_rest_and_writes_the_line() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    model.access(BASE, 32, Kind.STORE)
    model.access(BASE, 1, Kind.FLUSH)
    assert moved(model) == (1, 1, 1, 0)


def test_non_temporal_stores_go_on_with_a_line_that_was_read() -> None:
    """The buffer knows the rest of the line, as it was dirty in level 1."""
    model = CacheModel(LEVELS, stores=ALWAYS)
    model.access(BASE, 32, Kind.STORE)
    model.access(BASE, 8, Kind.NON_TEMPORAL)
    assert moved(model) == (1, 1, 1, 0)
    assert model.totals().partial_bytes == 0


def test_a_share_of_the_lines_is_spared_the_same_one_in_every_run() -> None:
    found = []
    for _ in range(2):
        model = CacheModel([cache("L1", 64, 8), cache("L2", 64, 16)], stores=Stores("under load", 0.25))
        model.loop([(BASE, 16, 16, Kind.STORE)], 4 * 4000)
        reads, allocates, _, spared = moved(model)
        assert reads == allocates == 4000 - spared
        found.append(spared)
    assert found[0] == found[1]
    assert 900 < found[0] < 1100


def test_spared_lines_have_the_array_they_are_of() -> None:
    model = CacheModel(LEVELS, stores=ALWAYS)
    model.add_array("a", BASE, 10 * LINE)
    model.add_array("b", BASE + 10 * LINE, 10 * LINE)
    model.loop([(BASE, 8, 8, Kind.STORE), (BASE + 10 * LINE, 8, 4, Kind.STORE)], 80)
    a, b, other = model.arrays()
    assert (a.dram_read_bytes, a.evaded_bytes) == (0, 10 * LINE)
    assert (b.dram_read_bytes, b.evaded_bytes) == (10 * LINE, 0)  # half of each line is never written
    assert other.evaded_bytes == 0


def test_parts_spare_what_one_model_spares() -> None:
    levels = [cache("L1", 4, 2), cache("L2", 8, 4)]
    one, many = CacheModel(levels, stores=ALWAYS), CacheModel(levels, stores=ALWAYS, parts=2)
    for model in (one, many):
        model.loop([(BASE + 4096 * n, 8, 8, Kind.STORE) for n in range(3)], 512)
        model.loop([(BASE + 4096 * 5, 8, 8, Kind.LOAD), (BASE + 4096 * 5, 8, 8, Kind.STORE)], 512)
    assert many.totals() == one.totals()
    assert one.totals().evaded_bytes == 3 * 4096


@pytest.mark.parametrize("partial", ["read", "masked"])
def test_a_partly_filled_buffer_costs_a_read_or_a_masked_write(partial: str) -> None:
    model = CacheModel(LEVELS, stores=Stores(partial=partial))  # type: ignore[arg-type]
    model.access(BASE, 32, Kind.NON_TEMPORAL)
    assert moved(model) == (int(partial == "read"), int(partial == "read"), 1, 0)
    assert model.totals().partial_bytes == LINE


@pytest.mark.parametrize("sets", [1, 4])
def test_accesses_told_together_leave_what_they_leave_one_by_one(sets: int) -> None:
    choose = random.Random(sets)
    kinds = [Kind.LOAD, *[Kind.STORE] * 8, Kind.PREFETCH, Kind.UPDATE]
    accesses = [(BASE + 8 * at, Kind.STORE) for at in range(24)]  # three lines that become whole
    accesses += [(BASE + 8 * choose.randrange(100), choose.choice(kinds)) for _ in range(2_000)]
    levels = [cache("L1", sets, 2), cache("L2", sets, 4), cache("L3", 64, 4, "victim")]
    one_by_one, together = (CacheModel(levels, stores=ALWAYS) for _ in range(2))
    for address, kind in accesses:
        one_by_one.access(address, 8, kind)
    requests = ffi.new("struct cachesim_request[]", [(address, 0, 8, kind) for address, kind in accesses])
    lib.cachesim_requests(together.pointer, requests, len(accesses))
    assert moved(one_by_one)[3] >= 3
    assert together.totals() == one_by_one.totals()
