"""What the matrix products count, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally, total

N = 5


@pytest.mark.parametrize("name", ["matmul", "gemm_naive", "gemm_tuned"])
def test_matrix_product_counts_as_declared(name: str) -> None:
    call = prepare(case(name, n=N))
    tally = Tally(call)
    for i in range(N):
        for j in range(N):
            tally.c[i, j] = total(tally, (tally.a[i, k] * tally.b[k, j] for k in range(N)))
    call()
    assert tally.c.values == pytest.approx(call.arrays["c"], rel=1e-6)
    assert tally.flops == call.case.declared_flops == executed_flops(name, call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


def test_both_sizes_of_the_tuned_product_are_whole_tiles() -> None:
    small = case("gemm_tuned")
    (default,) = small.spec.cases()
    assert small.params["n"] % 24 == default.params["n"] % 24 == 0
