"""What the video filter counts, against the same in plain Python."""

from __future__ import annotations

from itertools import product

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

COUNT, HEIGHT, WIDTH = 3, 4, 5


def test_filter_counts_as_declared_where_a_pixel_has_all_neighbours() -> None:
    call = prepare(case("sobel_motion", count=COUNT, height=HEIGHT, width=WIDTH))
    tally = Tally(call)
    inner = list(product(range(1, COUNT), range(1, HEIGHT - 1), range(1, WIDTH - 1)))
    for t, i, j in inner:
        now = {(p, q): tally.frames[t, i + p, j + q] for p in (-1, 0, 1) for q in (-1, 0, 1)}
        across = (now[-1, 1] - now[-1, -1]) + 2.0 * (now[0, 1] - now[0, -1]) + (now[1, 1] - now[1, -1])
        down = (now[1, -1] + now[1, 1]) - (now[-1, -1] + now[-1, 1]) + 2.0 * (now[1, 0] - now[-1, 0])
        length = (across * across + down * down).sqrt()
        tally.edges[t, i, j] = length + abs(now[0, 0] - tally.frames[t - 1, i, j])
    call()
    assert tally.edges.values == pytest.approx(call.arrays["edges"], rel=1e-5)
    assert tally.flops == executed_flops("sobel_motion", call.case.params) == 18 * len(inner)
    # The claim charges the first frame and the borders too.
    assert call.case.declared_flops == 18 * COUNT * HEIGHT * WIDTH
    assert call.case.declared_bytes == 12 * COUNT * HEIGHT * WIDTH


def test_first_frame_and_borders_are_not_touched() -> None:
    call = prepare(case("sobel_motion", count=COUNT, height=HEIGHT, width=WIDTH))
    call.arrays["edges"][...] = -1
    call()
    edges = call.arrays["edges"]
    assert (edges[1:, 1:-1, 1:-1] >= 0).all()
    assert (edges >= 0).sum() == (COUNT - 1) * (HEIGHT - 2) * (WIDTH - 2)
