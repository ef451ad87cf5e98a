"""What the model counts of any accesses makes a ledger that adds up, with each line of the right sign."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof import reconcile
from counteroof.cachesim.model import CacheModel
from counteroof.count.base import unavailable
from counteroof.machine.model import CacheLevel, Prefetch, Stores
from tests.factories import measurement

from .test_reference import BASE, accesses, hierarchies, prefetchers, stores

NEGATIVE = {reconcile.STAYED, reconcile.UNTOUCHED, reconcile.NOT_MOVED}


def lines_of(model: CacheModel, declared: int) -> tuple[reconcile.LedgerLine, ...]:
    totals = model.totals()
    nothing = unavailable("test", "not counted")
    counted = measurement(nothing, model.arrays(), **totals.counts())
    return reconcile.ledger(declared, counted)


@given(
    levels=hierarchies(),
    stores=stores,
    prefetch=prefetchers,
    first=accesses,
    second=accesses,
    arrays=st.lists(st.tuples(st.integers(0, 4 * 4096), st.integers(1, 2 * 4096)), min_size=1, max_size=3),
    declared=st.integers(0, 100_000),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_accesses_make_a_ledger_that_adds_up(
    levels: list[CacheLevel],
    stores: Stores,
    prefetch: Prefetch,
    first: list[Any],
    second: list[Any],
    arrays: list[tuple[int, int]],
    declared: int,
) -> None:
    model = CacheModel(levels, stores=stores, prefetch=prefetch if len(levels) > 1 else Prefetch())
    for number, (start, size) in enumerate(arrays):
        model.add_array(f"array {number}", BASE + start, size)
    for trace in (first, second):
        model.reset()
        columns = np.array([(BASE + 4096 * page + at, n, kind) for page, at, n, kind in trace], np.uint64)
        model.accesses(columns[:, 0], columns[:, 1], columns[:, 2])
    lines = lines_of(model, declared)
    assert reconcile.check(lines) is None
    totals = model.totals()
    assert lines[-1].bytes == totals.dram_read_bytes + totals.dram_write_bytes
    for line in lines:
        assert line.bytes is not None
        assert line.total or line.cause != reconcile.NO_ARRAY
        assert line.total or (line.bytes < 0) == (line.cause in NEGATIVE)


def test_the_write_allocates_of_the_ledger_are_those_that_were_read() -> None:
    """Half of the lines that are written whole are spared the read; an array written in part is not."""
    levels = [CacheLevel("L1", 4096, 8, 64, 1, "non-inclusive", False, "test")]
    model = CacheModel(levels, stores=Stores("under load", 0.5))
    model.add_array("a", BASE, 64 * 1000)
    model.add_array("b", BASE + 64 * 1000, 64 * 1000)
    model.loop([(BASE, 8, 8, 1), (BASE + 64 * 1000, 8, 4, 1)], 8 * 1000)
    a, b, _ = model.arrays()
    assert a.evaded_bytes is not None
    assert 0.4 < a.evaded_bytes / 64_000 < 0.6
    assert a.evaded_bytes + a.write_allocate_bytes == b.write_allocate_bytes == 64_000
    lines = {(line.cause, line.array): line.bytes for line in lines_of(model, 0)}
    assert lines[reconcile.WRITE_ALLOCATE, "a"] == 64_000 - a.evaded_bytes
    assert lines[reconcile.WRITE_ALLOCATE, "b"] == 64_000
