"""Reuse distances against the list they are defined by, and misses of fully associative caches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.count.base import OTHER, ReuseDistances
from counteroof.machine.model import Tlb

from .simulated import cache

BASE = 0x7F00_0000_0000
LINE = 64
CACHES = [cache("L1", 4, 2), cache("L2", 8, 4)]


def model(parts: int = 1, caches: Any = CACHES, **options: Any) -> CacheModel:
    made = CacheModel(caches, parts=parts, **options)
    made.add_array("a", BASE + 32, 10 * LINE)
    made.add_array("b", BASE + 4096, 4096 * 8)
    made.start_reuse()
    return made


def found(made: CacheModel) -> dict[str, ReuseDistances | None]:
    return {one.name: one.reuse for one in made.arrays()}


def test_a_line_is_as_far_as_there_are_other_lines_since() -> None:
    made = model()
    for line in (0, 0, 1, 2, 2, 1, 0, 9, 0):
        # 0  0: at once  1  2  2: at once  1: past 2  0: past 1 and 2  9  0: past 9
        made.access(BASE + LINE * line, 8)
    assert found(made)["a"] == ReuseDistances(cold=4, counts=(2, 2, 1))
    assert found(made)["b"] == ReuseDistances(0, ())


def test_what_covers_several_lines_asks_for_each_and_an_update_twice() -> None:
    made = model()
    made.access(BASE + 4096 + 60, 8, Kind.LOAD)
    made.access(BASE + 4096, 8, Kind.UPDATE)
    assert found(made)["b"] == ReuseDistances(2, (1, 1))


def test_what_goes_around_the_caches_is_left_out() -> None:
    made = model()
    for kind in (Kind.NON_TEMPORAL, Kind.FLUSH, Kind.FENCE):
        made.access(BASE + 4096, 64, kind)
    assert found(made) == dict.fromkeys(("a", "b", OTHER), ReuseDistances(0, ()))


def test_a_reset_keeps_what_was_asked_for_and_a_flush_forgets_it() -> None:
    made = model()
    made.access(BASE + 4096, 8)
    made.reset()
    made.access(BASE + 8192, 8)
    made.access(BASE + 4096, 8)
    assert found(made)["b"] == ReuseDistances(1, (0, 1))
    made.flush(count_writebacks=False)
    made.access(BASE + 4096, 8)
    assert found(made)["b"] == ReuseDistances(2, (0, 1))


def test_a_flush_forgets_every_line_of_every_page() -> None:
    made = model()
    for _ in range(2):
        made.loop([(BASE + 4096, LINE, 8, Kind.LOAD)], 8 * 64)
        made.flush(count_writebacks=False)
    assert found(made)["b"] == ReuseDistances(2 * 8 * 64, ())


def test_without_asking_nothing_is_known() -> None:
    made = CacheModel(CACHES)
    made.access(BASE, 8)
    assert made.arrays()[0].reuse is None


def test_page_walks_are_not_the_programs() -> None:
    made = model(tlbs=[Tlb(1, 2, 1, ("4 KiB",))])
    for page in range(4):
        made.access(BASE + 4096 * (1 + page), 8)
    assert found(made)["b"] == ReuseDistances(4, ())
    assert found(made)["(page walks)"] is None


def array_of(line: int) -> str:
    start = line * LINE
    for name, first, nbytes in (("a", BASE + 32, 10 * LINE), ("b", BASE + 4096, 4096 * 8)):
        if first < start + LINE and start < first + nbytes:
            return name
    return OTHER


class Naive:
    """The lines in order of last use."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.counts: dict[str, Counter[int]] = {name: Counter() for name in ("a", "b", OTHER)}

    def access(self, address: int, nbytes: int, kind: int) -> None:
        if not nbytes or kind not in (Kind.LOAD, Kind.STORE, Kind.PREFETCH, Kind.UPDATE):
            return
        for line in range(address // LINE, (address + nbytes - 1) // LINE + 1):
            for _ in range(2 if kind == Kind.UPDATE else 1):
                distance = self.lines.index(line) if line in self.lines else -1
                if distance >= 0:
                    self.lines.remove(line)
                self.lines.insert(0, line)
                self.counts[array_of(line)][distance.bit_length() if distance >= 0 else -1] += 1

    def of(self, name: str) -> ReuseDistances:
        seen = self.counts[name]
        return ReuseDistances(seen[-1], tuple(seen[k] for k in range(max(seen, default=-1) + 1)))


ADDRESS = st.one_of(
    st.integers(BASE, BASE + 30 * LINE), st.integers(BASE, BASE + 12 * 4096), st.integers(1 << 20, 1 << 44)
)
ACCESS = st.tuples(ADDRESS, st.integers(0, 200), st.sampled_from(list(Kind)))
STREAM = st.tuples(
    ADDRESS, st.integers(-300, 300), st.one_of(st.just(8), st.integers(0, 100)), st.sampled_from(list(Kind))
)


@pytest.mark.parametrize("parts", [1, 2])
@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            ACCESS,
            st.lists(ACCESS, max_size=60),
            st.tuples(st.lists(STREAM, min_size=1, max_size=3), st.integers(0, 50)),
        ),
        max_size=8,
    )
)
def test_distances_are_those_of_the_list(parts: int, steps: list[Any]) -> None:
    made, naive = model(parts), Naive()
    for step in steps:
        if isinstance(step, list):
            columns = [np.array([one[n] for one in step], np.uint64) for n in range(3)]
            made.accesses(*columns)
            for access in step:
                naive.access(*access)
        elif len(step) == 3:
            made.access(*step)
            naive.access(*step)
        else:
            streams, count = step
            made.loop(streams, count)
            for k in range(count):
                for start, stride, nbytes, kind in streams:
                    naive.access(start + k * stride, nbytes, kind)
    for name, reuse in found(made).items():
        assert reuse == naive.of(name)


def test_times_and_tables_that_run_out_are_made_anew() -> None:
    """Far more accesses than there are times, and lines than there is room for, at first."""
    made = CacheModel([cache("L1", 1, 1)])
    made.add_array("x", BASE, 1 << 30)
    made.start_reuse()
    lines = 50_000
    for _ in range(4):
        made.loop([(BASE, LINE, 8, Kind.LOAD)], lines)
    made.loop([(BASE, 4096, 8, Kind.LOAD)], 20_000)  # of these pages 19,218 are new
    pages = -(-lines * LINE // 4096)
    reuse = found(made)["x"]
    assert reuse is not None
    assert reuse.cold == lines + 20_000 - pages
    assert sum(reuse.counts) == 3 * lines + pages
    # each walk is past all other lines; of the last one, the k-th page past those of 63 fewer a page
    expected = Counter((lines - 1 - 64 * k + k).bit_length() for k in range(pages))
    expected[(lines - 1).bit_length()] += 3 * lines
    assert reuse.counts == tuple(expected[k] for k in range(max(expected) + 1))
    assert reuse.misses(1 << 16) == reuse.cold


@pytest.mark.parametrize("bits", range(7))
def test_misses_of_a_fully_associative_cache_follow_from_the_distances(bits: int) -> None:
    random = np.random.default_rng(bits)
    made = model(caches=[cache("L1", 1, 1 << bits)])
    addresses = BASE + random.geometric(0.02, 5000) * 40 + random.integers(0, 2, 5000) * 6000
    kinds = random.choice([Kind.LOAD, Kind.STORE, Kind.UPDATE, Kind.PREFETCH], 5000)
    made.accesses(addresses.astype(np.uint64), np.full(5000, 8), kinds.astype(np.uint64))
    totals = made.totals()
    distances = [one for one in found(made).values() if one is not None]
    assert sum(one.misses(1 << bits) for one in distances) == totals.levels[0].misses
    assert sum(one.cold + sum(one.counts) for one in distances) == (
        totals.levels[0].misses + totals.levels[0].hits
    )


def test_misses_are_told_for_powers_of_two_alone() -> None:
    with pytest.raises(ValueError, match="a power of two of lines, not 3"):
        ReuseDistances(1, ()).misses(3)
