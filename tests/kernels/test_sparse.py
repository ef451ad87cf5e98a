"""What indexed accesses count, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally, total


def test_spmv_counts_as_declared_but_for_the_end_of_the_last_row() -> None:
    rows = per_row = 11  # every row has every column
    call = prepare(case("csr_spmv", rows=rows, per_row=per_row))
    tally = Tally(call)
    for i in range(rows):
        entries = range(tally.start[i], tally.start[i + 1])
        tally.y[i] = total(tally, (tally.value[k] * tally.x[tally.column[k]] for k in entries))
    call()
    assert tally.y.values == pytest.approx(call.arrays["y"], rel=1e-6)
    assert tally.flops == call.case.declared_flops == executed_flops("csr_spmv", call.case.params)
    assert len(tally.x.touched) == rows  # the claim charges every element of x, once
    assert tally.touched_bytes() == call.case.declared_bytes + 4


def test_gather_counts_as_declared() -> None:
    n = 7
    call = prepare(case("gather", n=n))
    tally = Tally(call)
    for i in range(n):
        tally.out[i] = tally.table[tally.index[i]]
    call()
    assert tally.out.values == pytest.approx(call.arrays["out"])
    assert tally.flops == call.case.declared_flops == executed_flops("gather", call.case.params) == 0
    assert tally.touched_bytes() == call.case.declared_bytes
