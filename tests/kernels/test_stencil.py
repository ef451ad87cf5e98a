"""What the stencil counts, against the same in plain Python."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

N = 5


def test_stencil_counts_as_declared_but_for_the_faces_it_reads() -> None:
    call = prepare(case("stencil7", n=N))
    tally = Tally(call)
    x = tally.x
    for i, j, k in product(range(1, N - 1), repeat=3):
        around = x[i, j, k - 1] + x[i, j, k + 1] + x[i, j - 1, k] + x[i, j + 1, k]
        tally.y[i, j, k] = 0.4 * x[i, j, k] + 0.1 * (around + x[i - 1, j, k] + x[i + 1, j, k])
    call()
    assert tally.y.values == pytest.approx(call.arrays["y"])
    assert tally.flops == call.case.declared_flops == executed_flops("stencil7", call.case.params)
    faces = 6 * (N - 2) ** 2
    assert tally.touched_bytes() == call.case.declared_bytes + 8 * faces


def test_outer_points_are_not_touched() -> None:
    call = prepare(case("stencil7", n=N))
    call.arrays["y"][...] = 7
    call()
    inner = np.zeros((N, N, N), bool)
    inner[1:-1, 1:-1, 1:-1] = True
    assert (call.arrays["y"][~inner] == 7).all()
    assert (call.arrays["y"][inner] != 7).all()
