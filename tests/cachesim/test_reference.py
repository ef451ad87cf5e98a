"""The C model does exactly what the slow Python reference does, on any trace and for any way of filling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel
from counteroof.machine.model import CacheLevel
from counteroof.native import lib

from .simulated import cache, reference_for, reference_snapshot, snapshot, use_vectors

FILLS = ("non-inclusive", "inclusive", "victim")
BASE = 0x7F00_0000_0000


@st.composite
def odd_hierarchies(draw: Any) -> list[CacheLevel]:
    """Few and small sets, so that evictions happen all the time."""
    line_bytes = draw(st.sampled_from([64, 64, 128, 256]))
    count = draw(st.integers(1, 4))
    levels = [cache("L1", draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 4)), line_bytes=line_bytes)]
    for number in range(1, count):
        sets = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 12]))
        ways = draw(st.sampled_from([1, 2, 3, 4, 16, 17, 20]))
        fill = draw(st.sampled_from(FILLS))
        hashed = draw(st.booleans())
        levels.append(cache(f"L{number + 1}", sets, ways, fill, line_bytes=line_bytes, hashed=hashed))
    return levels


@st.composite
def common_hierarchies(draw: Any) -> list[CacheLevel]:
    """The shape the walk is compiled for with constants (see cs_shape), as small as it gets."""
    fills = st.sampled_from(FILLS)
    return [
        cache("L1", draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 4))),
        cache("L2", draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 3, 5, 9])), draw(fills)),
        cache(
            "L3",
            draw(st.sampled_from([64, 192])),
            draw(st.sampled_from([1, 2, 18])),
            draw(fills),
            hashed=draw(st.booleans()),
        ),
    ]


def hierarchies() -> st.SearchStrategy[list[CacheLevel]]:
    return odd_hierarchies() | common_hierarchies()


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
@given(levels=hierarchies(), first=accesses, second=accesses, flush=st.sampled_from([None, True, False]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_model_equals_the_reference_on_random_traces(
    width: int, levels: list[CacheLevel], first: list[Any], second: list[Any], flush: bool | None
) -> None:
    model = CacheModel(levels)
    if not use_vectors(model, width):
        pytest.skip("this processor does not have these vectors")
    sets = [lib.cachesim_sets(model.pointer, number) for number in range(len(levels))]
    for page in range(6):
        model.access(BASE + 4096 * page, 1)  # so that the reference can ask for any line
    model.flush(count_writebacks=False)
    model.reset()
    reference = reference_for(model)

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
