"""What the streams count, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

N = 7


def test_vector_add_counts_as_declared() -> None:
    call = prepare(case("vector_add", n=N))
    tally = Tally(call)
    for i in range(N):
        tally.c[i] = tally.a[i] + tally.b[i]
    call()
    assert tally.c.values == pytest.approx(call.arrays["c"])
    assert tally.flops == call.case.declared_flops == executed_flops("vector_add", call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


def test_triad_counts_as_declared() -> None:
    call = prepare(case("triad", n=N))
    tally = Tally(call)
    for i in range(N):
        tally.a[i] = tally.b[i] + 3.0 * tally.c[i]
    call()
    assert tally.a.values == pytest.approx(call.arrays["a"])
    assert tally.flops == call.case.declared_flops == executed_flops("triad", call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


@pytest.mark.parametrize("name", ["copy", "copy_nontemporal"])
def test_copy_counts_as_declared(name: str) -> None:
    call = prepare(case(name, n=N))
    tally = Tally(call)
    for i in range(N):
        tally.b[i] = tally.a[i]
    call()
    assert tally.b.values == pytest.approx(call.arrays["b"])
    assert tally.flops == call.case.declared_flops == executed_flops(name, call.case.params) == 0
    assert tally.touched_bytes() == call.case.declared_bytes
