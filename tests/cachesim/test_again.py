"""Lines read again: for conflict if a fully associative cache of the same size would have kept them."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel
from counteroof.count.base import ArrayTraffic

from .simulated import cache

BASE = 0x7F00_0000_0000
PAGE = 4096


def traffic(model: CacheModel) -> ArrayTraffic:
    return model.arrays()[-1]


def load(model: CacheModel, *addresses: int) -> None:
    for address in addresses:
        model.access(address, 8)


def test_lines_that_fit_but_share_a_set_are_read_again_for_conflict() -> None:
    model = CacheModel([cache("L1", 1, 1), cache("L2", 4, 1)])  # four lines, one a set
    a, b = BASE, BASE + 4 * 64  # the same set
    load(model, a, b, a, b)
    assert (traffic(model).again_conflict_bytes, traffic(model).again_capacity_bytes) == (2 * 64, 0)


def test_lines_that_do_not_fit_are_read_again_for_capacity() -> None:
    model = CacheModel([cache("L1", 1, 1), cache("L2", 1, 4)])
    five = [BASE + 64 * line for line in range(5)]
    load(model, *five, *five)
    assert (traffic(model).again_conflict_bytes, traffic(model).again_capacity_bytes) == (0, 5 * 64)


def test_victims_make_the_two_last_levels_one_room() -> None:
    model = CacheModel([cache("L1", 1, 1), cache("L2", 1, 2, "inclusive"), cache("L3", 1, 3, "victim")])
    five = [BASE + 64 * line for line in range(5)]
    load(model, *five, *five)
    assert traffic(model).dram_read_bytes == 5 * 64


@given(
    trace=st.lists(st.integers(0, 15), max_size=400),
    sets=st.sampled_from([1, 2, 4]),
    ways=st.integers(1, 4),
    reset=st.integers(0, 400),
)
@settings(max_examples=200, deadline=None)
def test_both_add_up_and_are_what_an_ordered_dictionary_says(
    trace: list[int], sets: int, ways: int, reset: int
) -> None:
    """A level of one line above, so that the last level is asked for all but immediate repetitions."""
    model = CacheModel([cache("L1", 1, 1), cache("L2", sets, ways)])
    recent: OrderedDict[int, None] = OrderedDict()
    conflict = capacity = 0
    read: set[int] = set()
    before = None
    for step, number in enumerate(trace):
        if step == reset:
            model.reset()
            conflict = capacity = 0
            read.clear()
        reads = traffic(model).dram_read_bytes
        load(model, BASE + 64 * number)
        if number == before:
            continue
        before = number
        kept = number in recent
        recent[number] = None
        recent.move_to_end(number)
        if len(recent) > sets * ways:
            recent.popitem(last=False)
        if traffic(model).dram_read_bytes > reads:
            conflict += number in read and kept
            capacity += number in read and not kept
            read.add(number)
    seen = traffic(model)
    assert (seen.again_conflict_bytes, seen.again_capacity_bytes) == (64 * conflict, 64 * capacity)
    assert seen.dram_read_bytes - seen.unique_read_bytes == 64 * (conflict + capacity)


@pytest.mark.parametrize("stride", [8, 16, 24, 64, 72, 128, -8, -40])
def test_touched_bytes_are_distinct(stride: int) -> None:
    model = CacheModel([cache("L1", 2, 2), cache("L2", 4, 4)])
    middle = BASE + 10 * PAGE
    streams = [(middle, stride, 8), (middle + 4, stride, 16)]
    expected = {
        byte
        for start, step, nbytes in streams
        for k in range(100)
        for byte in range(start + k * step, start + k * step + nbytes)
    }
    from counteroof.cachesim.model import Kind

    model.loop([(start, step, nbytes, Kind.LOAD) for start, step, nbytes in streams], 100)
    assert traffic(model).touched_bytes == len(expected)
    model.reset()
    assert traffic(model).touched_bytes == 0
    model.access(middle + 60, 8)
    assert traffic(model).touched_bytes == 8
