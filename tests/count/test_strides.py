"""From what was seen of accesses to the strides of arrays, on numbers written by hand."""

from __future__ import annotations

import pytest

from counteroof.count.base import StrideShare
from counteroof.count.strides import MOST, AccessStrides, histogram

BASE = 4096


def access(
    strides: dict[int, int],
    *,
    at: int = 0,
    size: int = 8,
    times: int = 100,
    other: int = 0,
    store: bool = False,
) -> AccessStrides:
    """Return an access of array 0 whose last address is so far behind a page's start."""
    seen = {(stride, 0): weight for stride, weight in strides.items()}
    return AccessStrides(size, times, store, BASE + at, 0, seen, other)


def shares(*accesses: AccessStrides) -> list[tuple[int | None, bool, float]]:
    return [(one.stride, one.contiguous, one.share) for one in histogram([accesses], ["a"])]


def test_one_element_after_the_other() -> None:
    assert histogram([[access({8: 50})]], ["a"]) == (StrideShare("a", 8, 8, True, 1.0, 100),)
    assert shares(access({-8: 50})) == [(-8, True, 1.0)]
    assert shares(access({32: 50}, size=32)) == [(32, True, 1.0)]


def test_one_member_of_structs_of_four_doubles() -> None:
    assert shares(access({32: 50})) == [(32, False, 1.0)]


def test_three_members_of_structs_of_eight() -> None:
    members = (access({64: 50}, at=8 * member) for member in (3, 4, 5))
    assert shares(*members) == [(64, False, 1.0)]


def test_an_unrolled_loop_over_structs_is_as_the_loop_it_was_made_of() -> None:
    turns = [access({256: 50}, at=64 * turn + 8 * member) for turn in range(4) for member in (0, 3)]
    assert shares(*turns) == [(64, False, 1.0)]


def test_an_unrolled_loop_leaves_nothing_out() -> None:
    turns = [access({128: 50}, at=32 * turn, size=32) for turn in range(4)]
    assert shares(*turns) == [(32, True, 1.0)]
    assert shares(*turns[:3]) == [(128, False, 1.0)]


def test_all_members_of_a_struct_leave_nothing_out() -> None:
    members = [access({24: 50}, at=8 * member) for member in range(3)]
    assert shares(*members) == [(8, True, 1.0)]
    pair = [access({12: 50}, at=0), access({12: 50}, at=8, size=4)]
    assert {(stride, whole) for stride, whole, _ in shares(*pair)} == {(12, True)}


def test_loads_do_not_fill_what_stores_leave_out() -> None:
    assert shares(access({16: 50}), access({16: 50}, at=8, store=True)) == [(16, False, 1.0)]


def test_a_place_that_stays_leaves_nothing_out() -> None:
    assert shares(access({0: 50})) == [(0, True, 1.0)]


def test_shares_are_by_how_often_instructions_ran_and_not_by_how_often_they_were_looked_at() -> None:
    assert shares(access({8: 1}, times=900), access({4096: 99}, times=100)) == [
        (8, True, pytest.approx(0.9)),
        (4096, False, pytest.approx(0.1)),
    ]


def test_strides_that_do_not_come_again_are_together() -> None:
    assert shares(access({}, other=70)) == [(None, False, 1.0)]
    assert shares(access({8: 30}, other=70)) == [
        (8, True, pytest.approx(0.3)),
        (None, False, pytest.approx(0.7)),
    ]


def test_rare_strides_join_the_rest() -> None:
    found = shares(access({8 * n + 8: 100 - n for n in range(MOST + 2)}))
    assert [stride for stride, _, _ in found] == [8, 16, 24, 32, None]
    assert sum(share for _, _, share in found) == pytest.approx(1)


def test_an_access_that_was_made_once_has_no_stride() -> None:
    assert shares(access({}, times=1)) == [(None, False, 1.0)]


def test_arrays_are_apart_and_what_is_in_none_is_left_out() -> None:
    one = AccessStrides(8, 10, False, BASE, 1, {(8, 1): 5, (8, -1): 5}, 0)
    assert histogram([[one]], ["a", "b"]) == (StrideShare("b", 8, 8, True, 1.0, 5),)
    assert histogram([], ["a"]) == ()
