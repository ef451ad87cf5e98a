"""What the reductions count, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally, total

N = 69
ADDING_UP_THE_64_SUMS = 63


def test_dot_counts_as_declared_and_adds_up_its_sums() -> None:
    call = prepare(case("dot", n=N))
    tally = Tally(call)
    result = total(tally, (tally.a[i] * tally.b[i] for i in range(N)))
    assert float(result) == pytest.approx(call(), rel=1e-6)
    assert tally.flops == call.case.declared_flops
    assert executed_flops("dot", call.case.params) == tally.flops + ADDING_UP_THE_64_SUMS
    assert tally.touched_bytes() == call.case.declared_bytes


def test_squared_norm_counts_as_declared_and_adds_up_its_sums() -> None:
    call = prepare(case("squared_norm", n=N))
    tally = Tally(call)
    result = total(tally, (x * x for x in map(tally.a.__getitem__, range(N))))
    assert float(result) == pytest.approx(call(), rel=1e-6)
    assert tally.flops == call.case.declared_flops
    assert executed_flops("squared_norm", call.case.params) == tally.flops + ADDING_UP_THE_64_SUMS
    assert tally.touched_bytes() == call.case.declared_bytes
