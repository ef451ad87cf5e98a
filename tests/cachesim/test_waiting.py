"""What waits for the last level changes nothing: contents and counts are those of asking at once."""

from __future__ import annotations

import numpy as np
import pytest

from counteroof.cachesim.model import CacheModel
from counteroof.machine.model import CacheLevel, Fill

from .simulated import all_contents, cache, contents, snapshot, use_vectors

BASE = 0x7F00_0000_0000


def small(fill: Fill, ways: int = 4) -> list[CacheLevel]:
    """Return a hierarchy of the common shape, in which lines soon go round."""
    return [cache("L1", 8, 2), cache("L2", 8, ways, fill), cache("L3", 64, 4, "victim", hashed=True)]


def accesses(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return addresses, sizes and kinds (loads, stores, now and then a flush or non-temporal store)."""
    random = np.random.default_rng(seed)
    lines = random.integers(0, 12, count) * 64 + random.integers(0, 3, count)
    kinds = random.choice([0, 1, 2, 4], count, p=[0.55, 0.43, 0.01, 0.01])
    return (BASE + 64 * lines).astype(np.uint64), np.full(count, 8, np.uint32), kinds.astype(np.uint32)


@pytest.mark.parametrize("fill", ["inclusive", "non-inclusive"])
@pytest.mark.parametrize("width", [0, 1, 2])
def test_waiting_changes_nothing(width: int, fill: Fill) -> None:
    waiting, at_once = CacheModel(small(fill)), CacheModel(small(fill))
    if not use_vectors(waiting, width):
        pytest.skip("this processor does not have these vectors")
    for seed in range(12):
        addresses, sizes, kinds = accesses(seed, 400)
        waiting.accesses(addresses, sizes, kinds)
        for address, size, kind in zip(addresses, sizes, kinds, strict=True):
            at_once.access(int(address), int(size), int(kind))
            contents(at_once, 2, 0)  # nothing waits when somebody looks
        assert snapshot(waiting) == snapshot(at_once)


@pytest.mark.parametrize("sets", [4, 8, 16])
@pytest.mark.parametrize("ways", [4, 6, 8])
def test_a_line_on_its_way_down_is_told_that_it_is_dirty(sets: int, ways: int) -> None:
    """Level 2 holds about as many lines as wait, so some leave it just when they are served."""
    levels = [cache("L1", 8, 8), cache("L2", sets, ways), cache("L3", 64, 4, "victim", hashed=True)]
    waiting, at_once = CacheModel(levels), CacheModel(levels)
    for seed in range(8):
        random = np.random.default_rng(seed)
        addresses = (BASE + 64 * random.integers(0, 200, 800)).astype(np.uint64)
        kinds = random.integers(0, 2, 800).astype(np.uint32)
        waiting.accesses(addresses, np.full(800, 8, np.uint32), kinds)
        for address, kind in zip(addresses, kinds, strict=True):
            at_once.access(int(address), 8, int(kind))
            contents(at_once, 2, 0)  # nothing waits when somebody looks
        assert snapshot(waiting) == snapshot(at_once)


def test_a_dirty_line_of_the_last_level_stays_dirty_above() -> None:
    model = CacheModel(small("inclusive"))
    model.access(BASE, 8, 1)
    for page in range(1, 5):  # the store's line goes down to the last level
        model.access(BASE + 4096 * page, 8, 0)
    assert not any(dirty for lines in all_contents(model)[1] for _, dirty in lines)
    model.access(BASE, 8, 0)
    assert any(dirty for lines in all_contents(model)[1] for _, dirty in lines)


@pytest.mark.parametrize("ways", [4, 8, 12])
def test_contents_stay_when_vectors_change(ways: int) -> None:
    """Sets are laid out more closely for some."""
    model = CacheModel(small("inclusive", ways))
    model.accesses(*accesses(1, 400))
    before = all_contents(model)
    for width in (0, 1, 2, 0, 1):
        use_vectors(model, width)
        assert all_contents(model) == before
