"""A loop over streams leaves exactly the counts and contents of its accesses made one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.machine.model import CacheLevel, Prefetch, Stores

from .simulated import cache, snapshot, use_vectors
from .test_reference import BASE, setups

MIDDLE = BASE + 8 * 4096

streams = st.tuples(
    st.integers(0, 3 * 4096) | st.sampled_from([0, 8, 56, 60, 64, 4096, 4088, 8192]),
    st.integers(-260, 260) | st.sampled_from([0, 0, 1, 4, 8, 8, 8, 16, 32, 64, 128, -8, -64, 256, 520, -520]),
    st.sampled_from([1, 4, 8, 8, 8, 16, 32, 64, 100, 256, 300, 0]),
    st.sampled_from([0, 0, 0, 0, 1, 1, 1, 5, 5, 3, 2, 4]),
)


def one_by_one(model: CacheModel, made: list[Any], count: int) -> None:
    for k in range(count):
        for start, stride, nbytes, kind in made:
            model.access(start + k * stride, nbytes, kind)


def compare(
    levels: list[CacheLevel],
    width: int | None,
    loops: list[tuple[list[Any], int]],
    stores: Stores = Stores(),  # noqa: B008
    prefetch: Prefetch = Prefetch(),  # noqa: B008
) -> None:
    fast, slow = (CacheModel(levels, stores=stores, prefetch=prefetch) for _ in range(2))
    if width is not None and not use_vectors(fast, width):
        pytest.skip("this processor does not have these vectors")
    for streams_of_loop, count in loops:
        made = [(MIDDLE + start, *rest) for start, *rest in streams_of_loop]
        fast.loop(made, count)
        one_by_one(slow, made, count)
        assert snapshot(fast) == snapshot(slow)
        assert fast.arrays() == slow.arrays()


loops = st.lists(
    st.tuples(st.lists(streams, min_size=1, max_size=6), st.integers(0, 150)), min_size=1, max_size=3
)


@pytest.mark.parametrize("width", [0, 1, 2])
@given(setup=setups, loops=loops)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_loop_equals_one_by_one(
    width: int, setup: tuple[list[CacheLevel], Stores, Prefetch], loops: Any
) -> None:
    levels, stores, prefetch = setup
    compare(levels, width, loops, stores, prefetch if len(levels) > 1 else Prefetch())


COMMON = [cache("L1", 8, 4), cache("L2", 16, 8, "inclusive"), cache("L3", 24, 16, "victim", hashed=True)]


@given(
    offsets=st.lists(
        st.sampled_from([0, 8, 16, 24, 32, 40, 48, 56, 4096, 8192, 12288, 520]), min_size=1, max_size=6
    ),
    kinds=st.lists(st.sampled_from([0, 1, 5]), min_size=6, max_size=6),
    stride=st.sampled_from([4, 8, 8, 16, -8]),
    count=st.integers(1, 600),
    ways=st.integers(1, 6),
)
@settings(max_examples=150, deadline=None)
def test_streams_of_one_stride_that_share_lines_and_sets(
    offsets: list[int], kinds: list[int], stride: int, count: int, ways: int
) -> None:
    """Stencils and page-aligned arrays: streams on the same line, and streams on lines of the same set."""
    levels = [cache("L1", 2, ways), *COMMON[1:]]
    compare(levels, None, [([(o, stride, 8, k) for o, k in zip(offsets, kinds, strict=False)], count)])


@given(
    streams=st.lists(
        st.tuples(
            st.sampled_from([0, 8, 32, 56, 64, 72, 128, 4096, 4104]),
            st.sampled_from([64, 64, 64, 128, -64]),
            st.sampled_from([1, 8]),
            st.sampled_from([0, 0, 0, 1, 1, 3, 5]),
        ),
        min_size=2,
        max_size=12,
    ),
    count=st.integers(3, 100),
    ways=st.integers(1, 6),
)
@settings(max_examples=300, deadline=None)
def test_streams_that_come_back_to_a_line_in_every_iteration(streams: Any, count: int, ways: int) -> None:
    """As in unrolled kernels: what lies between may have taken the place in front, or the line itself."""
    levels = [cache("L1", 2, ways), *COMMON[1:]]
    compare(levels, None, [(streams, count)])


@given(seed=st.integers(0, 10**9), sets=st.sampled_from([8, 16, 64]), ways=st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_steady_streams_that_come_into_each_others_sets_on_their_way(seed: int, sets: int, ways: int) -> None:
    """Streams at different paces and in both directions, most of them alone in their sets at first."""
    random = np.random.default_rng(seed)
    made = [
        (
            int(random.integers(0, 6 * 64)) * 64 + 8 * int(random.integers(0, 8)),
            int(random.choice([4, 8, 16, 32, 64, -8, -16, -32, -64, 0])),
            int(random.choice([4, 8, 16])),
            int(random.choice([0, 0, 0, 1, 3, 5])),
        )
        for _ in range(random.integers(2, 9))
    ]
    levels = [cache("L1", sets, ways), cache("L2", 64, 2, "inclusive"), COMMON[2]]
    compare(levels, None, [(made, int(random.integers(8, 400)))])


@pytest.mark.parametrize("width", [0, 1, 2])
def test_room_made_by_an_inclusive_level_is_used_first(width: int) -> None:
    # The third level takes a line out of the level-1 set that is about to choose its oldest line.
    levels = [cache("L1", 1, 2), cache("L2", 1, 1), cache("L3", 64, 1, "inclusive")]
    compare(levels, width, [([(0, -64, 1, Kind.LOAD), (0, 120, 1, Kind.LOAD)], 68)])


def test_more_streams_than_ways_in_one_set() -> None:
    compare(COMMON, None, [([(4096 * page, 8, 8, Kind.LOAD) for page in range(6)], 300)])


def test_many_streams() -> None:
    made = [(4096 * (page % 7) + 8 * page, 8 * (page % 3), 8, page % 2) for page in range(80)]
    compare(COMMON, None, [(made[:64], 50), (made, 50)])


def test_stride_is_a_loop_of_one_stream() -> None:
    from counteroof.native import lib

    by_stride, by_loop = CacheModel(COMMON), CacheModel(COMMON)
    lib.cachesim_stride(by_stride.pointer, BASE, 24, 1000, 8, Kind.STORE)
    by_loop.loop([(BASE, 24, 8, Kind.STORE)], 1000)
    assert snapshot(by_stride) == snapshot(by_loop)


def test_batch_of_accesses_equals_one_by_one() -> None:
    random = np.random.default_rng(3)
    addresses = BASE + random.integers(0, 40 * 4096, 20_000)
    nbytes = random.choice([0, 1, 8, 64, 100], 20_000)
    kinds = random.integers(0, 7, 20_000)
    batch, single = CacheModel(COMMON), CacheModel(COMMON)
    batch.accesses(addresses, nbytes, kinds)
    for address, size, kind in zip(addresses.tolist(), nbytes.tolist(), kinds.tolist(), strict=True):
        single.access(address, size, kind)
    assert snapshot(batch) == snapshot(single)
