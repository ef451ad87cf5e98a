"""The roofline of a page: everything stands where its numbers say, and no text on another."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from counteroof.plot import chart
from counteroof.plot.geometry import Box
from counteroof.plot.panels import picture
from counteroof.plot.paper import beads

from ..factories import N, measurement, result, results, traffic
from .test_roofline import crowd


def boxes_of(one: chart.Chart) -> dict[str, list[Box]]:
    """Return the boxes that cover each text, with letters of usual width."""
    found = {}
    for name in one.names:
        width = 6.0 * len(name.text)
        found[f"name {name.text}"] = [Box(name.x, name.y - 9, name.x + width, name.y + 2)]
    for label in one.labels:
        width = 5.3 * len(label.text)
        if label.degrees:
            angle = math.radians(label.degrees)
            x = label.x + width / 2 * math.cos(angle) + 4 * math.sin(angle)
            y = label.y + width / 2 * math.sin(angle) - 4 * math.cos(angle)
            found[f"label {label.text}"] = beads((x, y), width, 9, label.degrees)
        else:
            found[f"label {label.text}"] = [Box(label.x - width, label.y - 8, label.x, label.y + 2)]
    return found


@pytest.mark.parametrize(("count", "resident"), [(1, 0.0), (10, 0.3), (60, 0.2), (40, 1.0)])
def test_texts_overlap_neither_each_other_nor_a_dot_and_stay_inside(count: int, resident: float) -> None:
    for one in chart.charts(picture(results(*crowd(count, resident=resident)))):
        texts = boxes_of(one)
        for (name, here), (other, there) in itertools.combinations(texts.items(), 2):
            assert not any(a.overlaps(b) for a in here for b in there), (name, other)
        dots = [Box(mark.x - 4, mark.y - 4, mark.x + 4, mark.y + 4) for mark in one.marks]
        page = Box(0, 0, one.width, one.height)
        for name, here in texts.items():
            assert not any(box.overlaps(dot) for box in here for dot in dots), name
            assert all(page.contains(box) for box in here), name
        assert len(one.names) + one.unnamed == len(one.marks)


def test_dots_ticks_and_roofs_share_one_scale() -> None:
    (one,) = chart.charts(picture(results(result(declared=(4 * N, 24 * N)))))
    (mark,) = one.marks
    x = {tick.text: tick.at for tick in one.x_ticks}
    y = {tick.text: tick.at for tick in one.y_ticks}
    decade_x, decade_y = x["1"] - x["0.1"], y["100"] - y["10"]
    assert mark.x == pytest.approx(x["0.1"] + math.log10((2 / 32) / 0.1) * decade_x)
    assert mark.y == pytest.approx(y["10"] + math.log10(0.32) * decade_y)
    assert mark.claim == (
        pytest.approx(x["0.1"] + math.log10((4 / 24) / 0.1) * decade_x),
        pytest.approx(y["10"] + math.log10(0.64) * decade_y),
    )
    (roof,) = [line for line in one.lines if line.strong and line.y0 == line.y1]
    assert roof.y0 == pytest.approx(y["100"] + math.log10(1.358) * decade_y)
    assert roof.title == "f64 AVX-512 FMA: 136 GFLOP/s (1 thread, 4.18 GHz)"
    assert mark.title == "triad\n0.0625 FLOP/B\n3.20 GFLOP/s\ndeclared 0.167 FLOP/B"


def test_a_kernel_without_dram_traffic_stands_in_the_strip() -> None:
    resident = result("resident", seconds=1e-6, counted=measurement(2000, (traffic("a"),)))
    (one,) = chart.charts(picture(results(resident, result())))
    assert one.strip is not None
    places = {mark.title.split("\n")[0]: mark.x for mark in one.marks}
    assert one.strip.x0 < places["resident"] < one.strip.x1
    assert one.plot.x0 < places["triad"] < one.plot.x1 < one.strip.x0


def test_a_long_name_in_the_strip_is_cut_not_left_out() -> None:
    resident = result(
        "column_walk_power_of_two_wide", seconds=1e-6, counted=measurement(2000, (traffic("a"),))
    )
    first, second = replace(resident, label="first"), result()
    (one,) = chart.charts(picture(results(first, second, resident)))
    assert one.unnamed == 0
    assert one.strip is not None
    (name,) = [name for name in one.names if "…" in name.text]
    assert name.text.startswith("column_walk")
    assert name.text.endswith("%")
    assert one.strip.x0 < name.x < one.strip.x1


def test_of_very_many_dots_none_is_named_but_all_say_what_they_are() -> None:
    (one,) = chart.charts(picture(results(*(result(f"k{i}") for i in range(chart.MOST_NAMED + 1)))))
    assert one.names == ()
    assert one.unnamed == chart.MOST_NAMED + 1
    assert {mark.title.split("\n")[0] for mark in one.marks} == {f"k{i}" for i in range(chart.MOST_NAMED + 1)}


def test_bounds_differ_in_shape() -> None:
    assert len({chart.SHAPES[bound] for bound in ("dram", "compute", "l2", None)}) == 4
