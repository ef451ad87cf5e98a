"""A model in parts counts what one model counts: lines of different parts never meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import ArrayTraffic, CacheModel, Kind, parts_of
from counteroof.errors import CounteroofError
from counteroof.machine.model import CacheLevel

from .simulated import cache, snapshot
from .test_reference import BASE, FILLS

START, MIDDLE, PAGES = BASE - 64 * 4096, BASE + 8 * 4096, 128


@st.composite
def hierarchies(draw: Any) -> list[CacheLevel]:
    """An even number of sets in each level; the last of three may be hashed, and of any number of ways."""
    levels = [cache("L1", draw(st.sampled_from([2, 4, 64])), draw(st.integers(1, 4)))]
    for number in range(1, draw(st.integers(1, 3))):
        sets, ways = draw(st.sampled_from([2, 4, 8, 12, 64])), draw(st.sampled_from([1, 2, 4, 17]))
        fill = draw(st.sampled_from(FILLS))
        levels.append(cache(f"L{number + 1}", sets, ways, fill, hashed=draw(st.booleans())))
    return levels


accesses = st.lists(
    st.tuples(
        st.just("access"),
        st.integers(0, 5 * 4096),
        st.sampled_from([0, 1, 4, 8, 16, 32, 64, 64, 200]),
        st.sampled_from([0, 0, 0, 1, 1, 1, 3, 4, 5, 6]),
    ),
    min_size=1,
    max_size=100,
)
streams = st.tuples(
    st.integers(0, 3 * 4096) | st.sampled_from([0, 8, 60, 64, 4096, 4088]),
    st.integers(-260, 260) | st.sampled_from([0, 8, 8, 32, 64, 128, 192, -8, -64, 520, -520]),
    st.sampled_from([1, 8, 8, 32, 64, 100, 300, 0]),
    st.sampled_from([0, 0, 0, 1, 1, 5, 5, 3, 4]),
)
loops = st.tuples(st.just("loop"), st.lists(streams, min_size=1, max_size=6), st.integers(0, 150))
steps = st.lists(
    accesses.map(lambda made: ("accesses", made)) | loops | st.just(("reset",)) | st.just(("flush",)),
    min_size=1,
    max_size=5,
)


def make(levels: list[CacheLevel], parts: int, *, origins: bool = False) -> CacheModel:
    model = CacheModel(levels, parts=parts)
    model.add_array("a", START, (PAGES // 2 - 1) * 4096 + 500)
    model.add_array("b", START + PAGES // 2 * 4096 + 40, PAGES // 2 * 4096)
    if origins:
        model.start_origins()
    return model


def follow(model: CacheModel, made: list[Any]) -> None:
    for number, (kind, *rest) in enumerate(made):
        if kind == "accesses":
            at = [np.array(column, dtype=np.uint64) for column in list(zip(*rest[0], strict=True))[1:]]
            model.accesses(at[0] + np.uint64(MIDDLE), at[1], at[2])
        elif kind == "loop":
            model.loop([(MIDDLE + start, *others) for start, *others in rest[0]], rest[1])
        elif kind == "reset":
            model.reset()
        elif kind == "flush":
            model.flush(count_writebacks=number % 2 == 0)


def regardless_of_cause(traffic: ArrayTraffic) -> ArrayTraffic:
    """Whether a line that is read again would have been kept is told from half as much of half as many."""
    assert traffic.again_capacity_bytes is not None
    assert traffic.again_conflict_bytes is not None
    both = traffic.again_capacity_bytes + traffic.again_conflict_bytes
    return replace(traffic, again_capacity_bytes=both, again_conflict_bytes=0)


@given(levels=hierarchies(), made=steps, parts=st.sampled_from([2, 2, 2, 4]), origins=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_parts_count_what_one_model_counts(
    levels: list[CacheLevel], made: list[Any], parts: int, origins: bool
) -> None:
    if any(level.bytes // level.ways // 64 % parts for level in levels):
        parts = 2
    one, many = make(levels, 1, origins=origins), make(levels, parts, origins=origins)
    for model in (one, many):
        follow(model, made)
    assert snapshot(many) == snapshot(one)
    assert many.totals() == one.totals()
    assert [regardless_of_cause(of) for of in many.arrays()] == [
        regardless_of_cause(of) for of in one.arrays()
    ]
    if origins:
        assert many.origins() == one.origins()


@given(
    levels=hierarchies(),
    made=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3 * 4096 - 8), st.sampled_from([0, 1, 5])), max_size=120
    ),
)
@settings(max_examples=200, deadline=None)
def test_cores_take_lines_from_each_other_in_each_part(levels: list[CacheLevel], made: list[Any]) -> None:
    levels[-1] = replace(levels[-1], shared_by=4) if len(levels) > 1 else levels[-1]
    one, many = make(levels, 1), make(levels, 2)
    for model in (one, many):
        for core, offset, kind in made:
            model.core(core)
            model.access(MIDDLE + offset, 8, Kind(kind))
    assert many.totals() == one.totals()
    assert many.shared_lines() == one.shared_lines()


def test_non_temporal_stores_fill_whole_lines_in_each_part() -> None:
    levels = [cache("L1", 4, 2), cache("L2", 8, 4)]
    one, many = make(levels, 1), make(levels, 2)
    for model in (one, many):
        model.loop([(BASE + 4096 * n, 32, 32, Kind.NON_TEMPORAL) for n in range(6)], 1000)
        model.access(BASE + 200_000, 8, Kind.NON_TEMPORAL)
    assert many.totals() == one.totals()
    assert one.totals().partial_bytes == 64


def test_what_is_read_again_is_a_conflict_if_the_share_of_the_part_would_have_kept_it() -> None:
    """Four sets of one way: of lines 0, 4 and 8, in set 0, none stays; two even lines would be kept."""
    model = make([cache("L1", 4, 1)], 2)
    for _ in range(3):
        for line in (0, 4):
            model.access(BASE + 64 * line, 8)
    (a,) = [array for array in model.arrays() if array.name == "b"]
    assert (a.again_capacity_bytes, a.again_conflict_bytes) == (0, 4 * 64)
    model.reset()
    for _ in range(3):
        for line in (0, 4, 8):
            model.access(BASE + 64 * line, 8)
    (a,) = [array for array in model.arrays() if array.name == "b"]
    assert a.again_conflict_bytes == 0
    assert a.again_capacity_bytes == 6 * 64


def test_pages_outside_of_arrays_are_counted_once() -> None:
    one, many = CacheModel([cache("L1", 4, 2)]), CacheModel([cache("L1", 4, 2)], parts=2)
    for model in (one, many):
        for line in (0, 1, 64, 129, 193, 194):
            model.access(BASE + 64 * line, 8)
        model.access(BASE + 10 * 4096 - 4, 8)
    assert many.totals().pages == one.totals().pages == 6


@pytest.mark.parametrize(
    ("levels", "parts"),
    [
        ([cache("L1", 64, 8), cache("L2", 1024, 8), cache("L3", 3 * 8192, 16, "victim", hashed=True)], 2),
        ([cache("L1", 64, 8), cache("L2", 5, 8)], 1),
        ([cache("L1", 64, 8, line_bytes=128)], 1),
    ],
)
def test_a_hierarchy_is_divided_where_its_sets_are(levels: list[CacheLevel], parts: int) -> None:
    assert parts_of(levels) == parts
    CacheModel(levels, parts=parts)
    if parts == 1:
        with pytest.raises(CounteroofError, match="could not be divided"):
            CacheModel(levels, parts=2)
