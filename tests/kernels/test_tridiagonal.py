"""What the tridiagonal ensembles count, against the same in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

SYSTEMS, LENGTH = 3, 6


@pytest.mark.parametrize("name", ["thomas_naive", "thomas_interleaved"])
def test_thomas_executes_9_flops_an_unknown_where_13_are_declared(name: str) -> None:
    call = prepare(case(name, systems=SYSTEMS, length=LENGTH))
    tally = Tally(call)
    for s in range(SYSTEMS):

        def at(i: int, s: int = s) -> tuple[int, int]:
            return (s, i) if name == "thomas_naive" else (i, s)

        w = {}
        inverse = 1.0 / tally.diagonal[at(0)]
        w[0] = tally.upper[at(0)] * inverse
        tally.x[at(0)] = tally.rhs[at(0)] * inverse
        for i in range(1, LENGTH):
            inverse = 1.0 / (tally.diagonal[at(i)] - tally.lower[at(i)] * w[i - 1])
            w[i] = tally.upper[at(i)] * inverse
            tally.x[at(i)] = (tally.rhs[at(i)] - tally.lower[at(i)] * tally.x[at(i - 1)]) * inverse
        for i in reversed(range(LENGTH - 1)):
            tally.x[at(i)] = tally.x[at(i)] - w[i] * tally.x[at(i + 1)]
    call()
    assert tally.x.values == pytest.approx(call.arrays["x"], rel=1e-4)
    assert tally.flops == executed_flops(name, call.case.params) == SYSTEMS * (9 * LENGTH - 6)
    assert call.case.declared_flops == 13 * SYSTEMS * LENGTH
    # The first row has no lower neighbour: that element is never read.
    assert tally.touched_bytes() == call.case.declared_bytes - 4 * SYSTEMS


def test_both_layouts_solve_the_same_systems() -> None:
    naive = prepare(case("thomas_naive", systems=19, length=37))
    interleaved = prepare(case("thomas_interleaved", systems=19, length=37))
    for name in ("lower", "diagonal", "upper", "rhs"):
        interleaved.arrays[name][...] = naive.arrays[name].T
    naive()
    interleaved()
    transposed = interleaved.arrays["x"].T
    assert transposed == pytest.approx(naive.arrays["x"], rel=1e-5)


def test_solution_satisfies_the_equations() -> None:
    call = prepare(case("thomas_interleaved", systems=5, length=40))
    call()
    lower, diagonal, upper, rhs, x = (
        call.arrays[name].astype(np.float64) for name in ("lower", "diagonal", "upper", "rhs", "x")
    )
    left = diagonal * x
    left[1:] += lower[1:] * x[:-1]
    left[:-1] += upper[:-1] * x[1:]
    assert left == pytest.approx(rhs, rel=1e-5)
