"""What the softmax counts, against the same in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Number, Tally, total

ROWS, COLS = 2, 5


def exponential(x: Number) -> Number:
    """The kernel's, step by step."""
    k = round(float(x * 1.44269504))
    r = x - x.tally.number(k) * 0.693359375
    r = r + x.tally.number(k) * 2.12194440e-4
    p = x.tally.number(1.38888889e-3)
    for coefficient in (8.33333333e-3, 4.16666667e-2, 1.66666667e-1, 0.5, 1.0, 1.0):
        p = p * r + coefficient
    return p * 2.0**k


def test_softmax_counts_as_declared_and_adds_up_its_sums() -> None:
    call = prepare(case("softmax", rows=ROWS, cols=COLS))
    tally = Tally(call)
    for i in range(ROWS):
        top = max((tally.x[i, j] for j in range(COLS)), key=float)
        for j in range(COLS):
            tally.y[i, j] = exponential(tally.x[i, j] - top)
        scale = total(tally, (tally.y[i, j] for j in range(COLS)))
        inverse = tally.number(1 / float(scale))
        for j in range(COLS):
            tally.y[i, j] = tally.y[i, j] * inverse
    call()
    assert tally.y.values == pytest.approx(call.arrays["y"], rel=1e-5)
    assert tally.flops == call.case.declared_flops
    # A row's total is 63 additions of its 64 sums, and is inverted once.
    assert executed_flops("softmax", call.case.params) == tally.flops + ROWS * 64
    assert tally.touched_bytes() == call.case.declared_bytes


def test_exponential_is_exact_to_single_precision_over_its_whole_range() -> None:
    call = prepare(case("softmax", rows=1, cols=871))
    x = call.arrays["x"]
    x[0] = np.arange(0, -87.1, -0.1)
    call()
    y = call.arrays["y"][0].astype(np.float64)
    expected = np.exp(x[0].astype(np.float64))
    assert y / y[0] == pytest.approx(expected, rel=3e-6)


def test_element_far_below_the_top_of_its_row_is_almost_nothing() -> None:
    call = prepare(case("softmax", rows=1, cols=3))
    call.arrays["x"][0] = 0, -1e30, -math.inf
    call()
    assert call.arrays["y"][0] == pytest.approx([1, 0, 0], abs=1e-30)
