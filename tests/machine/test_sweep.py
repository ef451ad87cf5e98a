"""What caches hold, from the time of a load over the size of its working set: from numbers written here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counteroof.machine import sweep
from counteroof.machine.model import CacheLevel, SweepPoint

KIB, MIB = 1 << 10, 1 << 20


def cache(level: int, size: int) -> CacheLevel:
    return CacheLevel(f"L{level}", size, 8, 64, 1, "inclusive", False, "test")


CACHES = (cache(1, 32 * KIB), cache(2, 512 * KIB), cache(3, 32 * MIB))


def points(seconds: Callable[[int], float]) -> list[SweepPoint]:
    return [SweepPoint(size, seconds(size)) for size in sweep.sizes(CACHES)]


def stairs(l1: int, l2: int, l3: int) -> Callable[[int], float]:
    """Return the time of a load where each level holds so much."""

    def seconds(size: int) -> float:
        return 1e-9 if size <= l1 else 4e-9 if size <= l2 else 15e-9 if size <= l3 else 100e-9

    return seconds


def held(found: tuple[sweep.Capacity, ...]) -> dict[str, int | None]:
    return {one.level: one.bytes for one in found}


def test_sizes_are_powers_of_two_and_what_is_half_way_up_to_twice_the_last_cache() -> None:
    sizes = sweep.sizes(CACHES)
    assert sizes[:4] == (4096, 6144, 8192, 12288)
    assert sizes[-1] == 64 * MIB
    assert list(sizes) == sorted(set(sizes))
    assert sweep.sizes(CACHES, 10_000) == (4096, 6144, 8192)


def test_a_step_between_two_plateaus_is_the_capacity() -> None:
    found = sweep.capacities(points(stairs(32 * KIB, 512 * KIB, 32 * MIB)), CACHES)
    for level, size in (("L1", 32 * KIB), ("L2", 512 * KIB), ("L3", 32 * MIB)):
        assert size <= (held(found)[level] or 0) <= 1.5 * size
    assert [one.seconds for one in found] == [1e-9, 4e-9, 15e-9]


def test_a_shared_cache_holds_what_others_leave_of_it() -> None:
    found = held(sweep.capacities(points(stairs(32 * KIB, 320 * KIB, 3 * MIB)), CACHES))
    assert 256 * KIB <= (found["L2"] or 0) <= 384 * KIB
    assert 3 * MIB <= (found["L3"] or 0) <= 4 * MIB


def test_a_single_slow_point_is_a_disturbance_and_no_step() -> None:
    quiet = stairs(32 * KIB, 512 * KIB, 32 * MIB)
    found = sweep.capacities(points(lambda size: 50e-9 if size == 8 * KIB else quiet(size)), CACHES)
    assert found == sweep.capacities(points(quiet), CACHES)


def test_a_cache_that_loads_do_not_show_is_unknown_with_the_reason() -> None:
    l1, _, l3 = sweep.capacities(points(lambda size: 1e-9 if size <= 32 * KIB else 90e-9), CACHES)
    assert l1.bytes is not None
    assert (l3.bytes, l3.seconds) == (None, 90e-9)
    assert l3.reason == "a load takes 90.0 ns there and as long in the next level"


def test_a_last_cache_that_others_fill_is_unknown_though_loads_get_slower_with_the_size() -> None:
    """As measured on an Ice Lake server of which others left less than three times L2."""
    quiet = stairs(32 * KIB, 512 * KIB, 1 * MIB)
    found = sweep.capacities(points(lambda size: quiet(size) * (1 + size / (200 * MIB))), CACHES)
    assert found[2].bytes is None
    assert "as long in the next level" in found[2].reason


def test_working_sets_that_do_not_leave_a_cache_say_nothing_of_it() -> None:
    few = [one for one in points(stairs(32 * KIB, 512 * KIB, 32 * MIB)) if one.bytes <= 8 * MIB]
    found = sweep.capacities(few, CACHES)
    assert found[1].bytes is not None
    assert (found[2].bytes, found[2].reason) == (None, "the working sets measured were too small for it")


@pytest.mark.parametrize("caches", [CACHES[:1], CACHES[:2]])
def test_machines_with_fewer_levels_have_fewer_capacities(caches: tuple[CacheLevel, ...]) -> None:
    some = [SweepPoint(size, 1e-9 if size <= 32 * KIB else 9e-9) for size in sweep.sizes(caches)]
    assert [one.level for one in sweep.capacities(some, caches)] == [one.name for one in caches]


def test_nothing_measured_is_nothing_known() -> None:
    assert {one.bytes for one in sweep.capacities((), CACHES)} == {None}
