"""The C model does exactly what the slow Python reference does, on any trace, policy and way of filling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel
from counteroof.machine.model import CacheLevel, Policy, Prefetch, Stores
from counteroof.native import lib

from .simulated import cache, reference_for, reference_snapshot, snapshot, use_vectors

FILLS = ("non-inclusive", "inclusive", "victim")
BASE = 0x7F00_0000_0000


SHARES = (0.0, 0.25, 0.5, 1.0)
AGINGS = ("when needed", "at once", "of others", "by one")


@st.composite
def policies(draw: Any, ways: int, sets: int) -> Policy:
    """LRU more often than not."""
    kinds = ["lru", "lru", "lru", "random", "rrip", "adaptive", *(["plru"] if ways & (ways - 1) == 0 else [])]
    kind = draw(st.sampled_from(kinds))
    ages = st.integers(0, 3)
    shares = {"near": draw(st.sampled_from(SHARES)), "rival": draw(st.sampled_from(SHARES))}
    leaders = draw(st.sampled_from([0, *range(1, sets // 2 + 1)][:4]))
    if kind == "rrip":
        aging = draw(st.sampled_from(AGINGS))
        return Policy(
            kind,
            **shares,
            leaders=leaders,
            near_age=draw(ages),
            far_age=draw(ages),
            hit_age=draw(ages),
            aging=aging,
        )
    return Policy(kind, **shares, leaders=leaders) if kind == "adaptive" else Policy(kind)


@st.composite
def odd_hierarchies(draw: Any) -> list[CacheLevel]:
    """Few and small sets, so that evictions happen all the time."""
    line_bytes = draw(st.sampled_from([64, 64, 128, 256]))
    count = draw(st.integers(1, 4))
    sets, ways = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 4))
    policy = draw(policies(ways, sets))
    levels = [cache("L1", sets, ways, line_bytes=line_bytes, policy=policy)]
    for number in range(1, count):
        sets = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 12]))
        ways = draw(st.sampled_from([1, 2, 3, 4, 16, 17, 20]))
        fill = draw(st.sampled_from(FILLS))
        hashed = draw(st.booleans())
        policy = draw(policies(ways, sets))
        levels.append(
            cache(f"L{number + 1}", sets, ways, fill, line_bytes=line_bytes, hashed=hashed, policy=policy)
        )
    return levels


@st.composite
def common_hierarchies(draw: Any) -> list[CacheLevel]:
    """The shape the walk is compiled for with constants (see cs_shape), as small as it gets."""
    fills = st.sampled_from(FILLS)
    sets, ways = draw(st.sampled_from([64, 192])), draw(st.sampled_from([1, 2, 18]))
    return [
        cache("L1", draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 4))),
        cache(
            "L2", draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 3, 5, 9, 18])), draw(fills)
        ),
        cache(
            "L3",
            sets,
            ways,
            draw(fills),
            hashed=draw(st.booleans()),
            policy=draw(policies(ways, sets)),
        ),
    ]


def hierarchies() -> st.SearchStrategy[list[CacheLevel]]:
    return odd_hierarchies() | common_hierarchies()


stores = st.sampled_from(
    [
        Stores(),
        Stores("always", 1.0),
        Stores("under load", 0.5),
        Stores("always", 1.0, "masked"),
        Stores(partial="masked"),
    ]
)
"""What stores cost: as on most processors, or with lines spared the read that are written whole."""

prefetchers = st.sampled_from(
    [
        Prefetch(),
        Prefetch(adjacent=True),
        Prefetch(stream=True, distance=4, degree=2, streams=2),
        Prefetch(adjacent=True, stream=True, distance=20, degree=3, streams=1),
    ]
)

plain = st.tuples(
    common_hierarchies(), st.sampled_from([Stores(), Stores(partial="masked")]), st.just(Prefetch())
)
"""The commonest set-ups, for which the walk is shortest: nobody has to be told what it does."""

setups = st.tuples(hierarchies(), stores, prefetchers) | plain

accesses = st.lists(
    st.tuples(
        st.integers(0, 3),  # page
        st.integers(0, 4095) | st.sampled_from([0, 64, 128, 256, 4032]),
        st.sampled_from([0, 1, 4, 8, 16, 32, 64, 64, 200]),
        st.sampled_from([0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6]),
    ),
    min_size=1,
    max_size=150,
)


@pytest.mark.parametrize("width", [0, 1, 2])
@given(
    setup=setups,
    first=accesses,
    second=accesses,
    flush=st.sampled_from([None, True, False]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_model_equals_the_reference_on_random_traces(
    width: int,
    setup: tuple[list[CacheLevel], Stores, Prefetch],
    first: list[Any],
    second: list[Any],
    flush: bool | None,
) -> None:
    levels, stores, prefetch = setup
    prefetch = prefetch if len(levels) > 1 else Prefetch()
    model = CacheModel(levels, stores=stores, prefetch=prefetch)
    if not use_vectors(model, width):
        pytest.skip("this processor does not have these vectors")
    sets = [lib.cachesim_sets(model.pointer, number) for number in range(len(levels))]
    for page in range(6):
        model.access(BASE + 4096 * page, 1)  # so that the reference can ask for any line
    model.flush(count_writebacks=False)
    model.reset()
    reference = reference_for(model, stores, prefetch)

    for trace in (first, second):
        columns = np.array(
            [(BASE + 4096 * page + offset, n, kind) for page, offset, n, kind in trace], np.uint64
        )
        model.accesses(columns[:, 0], columns[:, 1], columns[:, 2])
        for address, nbytes, kind in columns.tolist():
            reference.access(address, nbytes, kind)
        assert snapshot(model) == reference_snapshot(reference, sets)
        if trace is first:
            if flush is not None:
                model.flush(count_writebacks=flush)
                reference.flush_all(flush)
                assert snapshot(model) == reference_snapshot(reference, sets)
            model.reset()
            reference.reset()
