"""What the convolution counts, against the same in plain Python."""

from __future__ import annotations

from itertools import product

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

CHANNELS, HEIGHT, WIDTH = 2, 3, 4


def test_convolution_counts_as_declared_but_for_borders_and_weights() -> None:
    call = prepare(case("depthwise3x3", channels=CHANNELS, height=HEIGHT, width=WIDTH))
    tally = Tally(call)
    for c, i, j in product(range(CHANNELS), range(HEIGHT), range(WIDTH)):
        sum_ = tally.bias[c]
        for p, q in product(range(3), repeat=2):
            sum_ = sum_ + tally.weight[c, p, q] * tally.x[c, i + p, j + q]
        tally.y[c, i, j] = sum_
    call()
    assert tally.y.values == pytest.approx(call.arrays["y"], rel=1e-5)
    assert tally.flops == call.case.declared_flops == executed_flops("depthwise3x3", call.case.params)
    borders = (HEIGHT + 2) * (WIDTH + 2) - HEIGHT * WIDTH
    weights = 9 + 1
    assert tally.touched_bytes() == call.case.declared_bytes + 4 * CHANNELS * (borders + weights)
