"""Every line read or written is some access's: the one that missed, the store that made the line dirty."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.machine.model import CacheLevel, Prefetch, Stores

from .simulated import cache, reference_for
from .test_loop import MIDDLE, loops
from .test_reference import BASE, accesses, hierarchies, setups

LINE = 64
A, B = 7, 5000
"""Two numbers, far apart."""


def tracing(
    levels: list[CacheLevel],
    stores: Stores = Stores(),  # noqa: B008
    prefetch: Prefetch = Prefetch(),  # noqa: B008
) -> CacheModel:
    model = CacheModel(levels, stores=stores, prefetch=prefetch)
    model.start_origins()
    return model


def by_number(model: CacheModel) -> dict[int, tuple[int, int]]:
    """Bytes read and written, of the numbers that have any."""
    reads, writes = model.origins()
    return {number: both for number, both in enumerate(zip(reads, writes, strict=True)) if both != (0, 0)}


def tiny() -> CacheModel:
    """One level of four lines."""
    return tracing([cache("L1", 1, 4)])


def store(model: CacheModel, number: int, line: int, kind: Kind = Kind.STORE, nbytes: int = 8) -> None:
    model.set_origin(number)
    model.access(BASE + LINE * line, nbytes, kind)


def evict_all(model: CacheModel) -> None:
    """Load four other lines under a third number."""
    model.set_origin(9)
    for line in range(100, 104):
        model.access(BASE + LINE * line, 8, Kind.LOAD)


def test_a_line_read_is_of_the_access_that_missed() -> None:
    model = tiny()
    store(model, A, 0, Kind.LOAD)
    store(model, B, 0, Kind.LOAD)  # a hit
    assert by_number(model) == {A: (LINE, 0)}


def test_a_line_written_is_of_the_store_that_made_it_dirty() -> None:
    model = tiny()
    store(model, 1, 0, Kind.LOAD)
    store(model, A, 0)
    store(model, B, 0)  # it is dirty already
    evict_all(model)
    assert by_number(model) == {1: (LINE, 0), A: (0, LINE), 9: (4 * LINE, 0)}


def test_after_it_was_written_the_next_store_makes_it_dirty() -> None:
    model = tiny()
    store(model, A, 0)
    evict_all(model)
    store(model, B, 0)
    evict_all(model)
    assert by_number(model) == {A: (LINE, LINE), B: (LINE, LINE), 9: (8 * LINE, 0)}


def test_a_reset_keeps_who_made_lines_dirty() -> None:
    model = tiny()
    store(model, A, 0)
    model.reset()
    evict_all(model)
    assert by_number(model) == {A: (0, LINE), 9: (4 * LINE, 0)}


def test_what_a_flush_forgets_is_nobodys() -> None:
    model = tiny()
    store(model, A, 0)
    model.flush(count_writebacks=False)
    store(model, B, 0)
    model.flush(count_writebacks=True)
    assert by_number(model) == {A: (LINE, 0), B: (LINE, LINE)}


def test_a_partly_filled_buffer_counts_for_the_store_that_opened_it() -> None:
    model = tiny()
    store(model, A, 0, Kind.NON_TEMPORAL)
    store(model, B, 0, Kind.NON_TEMPORAL)
    store(model, 9, 0, Kind.FENCE)
    assert by_number(model) == {A: (LINE, LINE)}


def test_lines_dirty_before_the_start_are_number_0() -> None:
    model = CacheModel([cache("L1", 1, 4)])
    model.access(BASE, 8, Kind.STORE)
    model.reset()
    model.start_origins()
    evict_all(model)
    assert by_number(model) == {0: (0, LINE), 9: (4 * LINE, 0)}


@given(
    setup=setups,
    trace=accesses,
    rest=accesses,
    flush=st.sampled_from([None, True, False]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_numbers_are_the_references_and_add_up(
    setup: tuple[list[CacheLevel], Stores, Prefetch],
    trace: list[Any],
    rest: list[Any],
    flush: bool | None,
) -> None:
    levels, stores, prefetch = setup
    prefetch = prefetch if len(levels) > 1 else Prefetch()
    model = tracing(levels, stores, prefetch)
    for page in range(6):
        model.access(BASE + 4096 * page, 1)  # so that the reference can ask for any line
    model.flush(count_writebacks=False)
    model.reset()
    reference = reference_for(model, stores, prefetch)
    for part in (trace, rest):
        for number, (page, offset, nbytes, kind) in enumerate(part, 1):
            model.set_origin(number)
            model.access(BASE + 4096 * page + offset, nbytes, kind)
            reference.origin = number
            reference.access(BASE + 4096 * page + offset, nbytes, kind)
        totals = model.totals()
        reads, writes = model.origins()
        assert (sum(reads), sum(writes)) == (totals.dram_read_bytes, totals.dram_write_bytes)
        reference.drain()
        lines = range(len(reads))
        assert reads == [model.line_bytes * reference.reads_by[number] for number in lines]
        assert writes == [model.line_bytes * reference.writes_by[number] for number in lines]
        if part is trace:
            if flush is not None:
                model.flush(count_writebacks=flush)
                reference.flush_all(flush)
            model.reset()
            reference.reset()
    model.flush(count_writebacks=True)
    reference.flush_all(True)
    _, writes = model.origins()
    assert writes == [model.line_bytes * reference.writes_by[number] for number in range(len(writes))]


@pytest.mark.parametrize("first", [1, 3000])
@given(levels=hierarchies(), made=loops)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_stream_i_of_a_loop_has_the_first_number_plus_i(
    first: int, levels: list[CacheLevel], made: list[tuple[list[Any], int]]
) -> None:
    fast, slow = tracing(levels), tracing(levels)
    for streams, count in made:
        fast.set_origin(first)
        fast.loop([(MIDDLE + start, *rest) for start, *rest in streams], count)
        for k in range(count):
            for i, (start, stride, nbytes, kind) in enumerate(streams):
                slow.set_origin(first + i)
                slow.access(MIDDLE + start + k * stride, nbytes, kind)
        assert by_number(fast) == by_number(slow)
