"""Label placement as pure geometry."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counteroof.plot.geometry import Box
from counteroof.plot.labels import Request, place, stack
from counteroof.plot.paper import beads

PAGE = Box(0, 0, 600, 400)


def request(x: float, y: float, width: float = 60, bounds: Box = PAGE) -> Request:
    return Request(width, 12, x, y, 5, bounds)


def marker(x: float, y: float) -> Box:
    return Box(x - 4, y - 4, x + 4, y + 4)


def test_a_lonely_label_stands_right_of_its_marker_without_a_leader() -> None:
    (spot,) = place([request(300, 200)], [marker(300, 200)])
    assert spot is not None
    assert spot.box.x0 >= 304
    assert spot.box.y0 < 200 < spot.box.y1
    assert spot.leader is None


def test_at_the_right_edge_it_stands_on_the_left() -> None:
    (spot,) = place([request(590, 200)], [marker(590, 200)])
    assert spot is not None
    assert spot.box.x1 <= 586


def test_a_label_keeps_away_from_lines_if_it_can() -> None:
    line = np.array([(x, 200.0, 1.0) for x in range(0, 600, 5)])
    (spot,) = place([request(300, 200)], [marker(300, 200)], line)
    assert spot is not None
    assert not spot.box.y0 < 200 < spot.box.y1


def test_labels_of_one_crowded_spot_spread_out_with_leaders() -> None:
    requests = [request(300, 200) for _ in range(25)]
    spots = place(requests, [marker(300, 200)])
    boxes = [spot.box for spot in spots if spot is not None]
    assert len(boxes) == 25
    assert sum(spot is not None and spot.leader is not None for spot in spots) > 10
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_without_room_there_is_no_spot_rather_than_an_overlap() -> None:
    small = Box(0, 0, 70, 30)
    spots = place([request(35, 15, bounds=small) for _ in range(10)], [])
    boxes = [spot.box for spot in spots if spot is not None]
    assert 0 < len(boxes) < 10
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert place([request(35, 15, width=80, bounds=small)], []) == [None]


def test_nothing_to_place_is_no_error() -> None:
    assert place([], [marker(1, 1)]) == []


def test_a_column_leaves_labels_where_they_want_to_be() -> None:
    assert stack([10, 10, 10], [20, 50, 80], 0, 100) == [20, 50, 80]


def test_a_column_spreads_neighbours_evenly_and_in_order() -> None:
    assert stack([10, 10], [50, 50], 0, 100) == [45, 55]
    assert stack([10, 10, 10], [48, 50, 52], 0, 100) == [40, 50, 60]
    assert stack([10, 10], [2, 3], 0, 100) == [5, 15]
    assert stack([10, 10], [97, 98], 0, 100) == [85, 95]


def test_a_column_without_room_is_refused() -> None:
    assert stack([30, 30, 50], [1, 2, 3], 0, 100) is None
    assert stack([30, 30, 40], [1, 2, 3], 0, 100) == [15, 45, 80]


@given(st.lists(st.tuples(st.floats(1, 20), st.floats(-50, 450)), max_size=20))
def test_a_column_never_overlaps_or_leaves_its_bounds(items: list[tuple[float, float]]) -> None:
    items.sort(key=lambda item: item[1])
    heights = [height for height, _ in items]
    placed = stack(heights, [centre for _, centre in items], 0, 400)
    assert placed is not None
    edges = [
        0.0,
        *(edge for h, c in zip(heights, placed, strict=True) for edge in (c - h / 2, c + h / 2)),
        400.0,
    ]
    assert all(b - a > -1e-6 for a, b in itertools.pairwise(edges))


coordinates = st.tuples(st.floats(5, 595), st.floats(5, 395))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(coordinates, min_size=1, max_size=15), st.lists(st.integers(10, 150), min_size=15, max_size=15)
)
def test_no_label_overlaps_anything_or_leaves_the_page(
    points: list[tuple[float, float]], widths: list[int]
) -> None:
    requests = [request(x, y, width) for (x, y), width in zip(points, widths, strict=False)]
    obstacles = [marker(x, y) for x, y in points]
    spots = place(requests, obstacles)
    assert spots == place(requests, obstacles)
    boxes = [spot.box for spot in spots if spot is not None]
    for index, box in enumerate(boxes):
        assert PAGE.contains(box)
        assert not any(box.overlaps(obstacle) for obstacle in obstacles)
        assert not any(box.overlaps(other) for other in boxes[:index])


@pytest.mark.parametrize("degrees", [0, 30, 45, 60, 90])
def test_beads_cover_a_rotated_text(degrees: float) -> None:
    covered = beads((100, 100), 200, 12, degrees)
    angle = np.radians(degrees)
    for along in np.linspace(-100, 100, 50):
        for across in (-6, 0, 6):
            x = 100 + along * np.cos(angle) - across * np.sin(angle)
            y = 100 + along * np.sin(angle) + across * np.cos(angle)
            assert any(b.x0 - 1e-6 <= x <= b.x1 + 1e-6 and b.y0 - 1e-6 <= y <= b.y1 + 1e-6 for b in covered)
