"""What layouts and walks count, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally, total


def test_column_sum_counts_as_declared() -> None:
    rows, cols = 3, 5
    call = prepare(case("column_sum", rows=rows, cols=cols, ld=8))
    tally = Tally(call)
    for j in range(cols):
        tally.sums[j] = total(tally, (tally.a[i, j] for i in range(rows)))
    call()
    assert tally.sums.values == pytest.approx(call.arrays["sums"])
    assert tally.flops == call.case.declared_flops == executed_flops("column_sum", call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


@pytest.mark.parametrize("name", ["column_walk_power_of_two", "column_walk_padded"])
def test_column_walk_adds_up_four_sums(name: str) -> None:
    rows, cols = 11, 5
    call = prepare(case(name, rows=rows, cols=cols, ld=8))
    tally = Tally(call)
    for j in range(cols):
        sums = [tally.number(0.0) for _ in range(4)]
        for i in range(rows):
            lane = i % 4 if i < rows // 4 * 4 else 0
            sums[lane] = sums[lane] + tally.a[i, j]
        tally.sums[j] = sums[0] + sums[1] + sums[2] + sums[3]
    call()
    assert tally.sums.values == pytest.approx(call.arrays["sums"], rel=1e-15)
    assert tally.flops == call.case.declared_flops == executed_flops(name, call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


def test_walks_differ_in_the_padding_of_their_rows_only() -> None:
    (plain,), (padded,) = (case(f"column_walk_{name}").spec.cases() for name in ("power_of_two", "padded"))
    assert plain.spec.symbol == padded.spec.symbol
    assert {**plain.params, "ld": None} == {**padded.params, "ld": None}
    assert plain.params["ld"].bit_count() == 1
    assert 0 < padded.params["ld"] - plain.params["ld"] == 8  # one line


@pytest.mark.parametrize("name", ["transpose_naive", "transpose_blocked"])
def test_transpose_counts_as_declared(name: str) -> None:
    rows, cols = 3, 5
    call = prepare(case(name, rows=rows, cols=cols))
    tally = Tally(call)
    for i in range(rows):
        for j in range(cols):
            tally.b[j, i] = tally.a[i, j]
    call()
    assert tally.b.values == pytest.approx(call.arrays["b"])
    assert tally.flops == call.case.declared_flops == executed_flops(name, call.case.params) == 0
    assert tally.touched_bytes() == call.case.declared_bytes


def test_array_of_structs_counts_as_declared() -> None:
    n = 5
    call = prepare(case("speed2_aos", n=n))
    tally = Tally(call)
    for i in range(n):
        vx, vy, vz = (tally.bodies[i, member] for member in (3, 4, 5))
        tally.speed2[i] = vx * vx + vy * vy + vz * vz
    call()
    assert tally.speed2.values == pytest.approx(call.arrays["speed2"])
    assert tally.flops == call.case.declared_flops == executed_flops("speed2_aos", call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


def test_struct_of_arrays_counts_as_declared() -> None:
    n = 5
    call = prepare(case("speed2_soa", n=n))
    tally = Tally(call)
    for i in range(n):
        vx, vy, vz = tally.vx[i], tally.vy[i], tally.vz[i]
        tally.speed2[i] = vx * vx + vy * vy + vz * vz
    call()
    assert tally.speed2.values == pytest.approx(call.arrays["speed2"])
    assert tally.flops == call.case.declared_flops == executed_flops("speed2_soa", call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes


def test_both_layouts_of_bodies_claim_the_same() -> None:
    structs, arrays = case("speed2_aos"), case("speed2_soa")
    assert structs.declared_flops == arrays.declared_flops
    assert structs.declared_bytes == arrays.declared_bytes
