"""The picture itself: labels never touch one another, a marker or the edge, whatever is on it."""

from __future__ import annotations

import io
import itertools
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path as MarkerShape
from matplotlib.text import Text
from numpy.typing import NDArray

from counteroof.machine import peaks
from counteroof.machine.model import Ceiling
from counteroof.plot import panels, roofline, views
from counteroof.plot.ceilings import _put_beside_slope
from counteroof.plot.geometry import Box
from counteroof.plot.legend import legend_inside
from counteroof.plot.panels import picture
from counteroof.plot.paper import Paper
from counteroof.results import KernelResult, Results, Seconds
from counteroof.roofline import Placement

from ..factories import (
    CEILINGS,
    N,
    bandwidth,
    compute,
    failed,
    instrumented,
    measurement,
    modelled,
    result,
    results,
    traffic,
)
from .test_views import LEVEL_CEILINGS

# fmt: off
NAMES = [
    "vector_add", "softmax_rows", "matmul", "triad", "csr_spmv", "stencil7", "fft_1m", "gemm_naive",
    "gemm_tuned", "nbody", "thomas_naive", "thomas_interleaved", "sobel3x3", "temporal_difference",
    "biquad_naive", "biquad_interleaved", "depthwise3x3", "crank_nicolson", "squared_norm", "dot",
    "column_sum", "transpose_naive", "gather", "array_of_structs", "struct_of_arrays",
]
# fmt: on


def crowd(count: int, *, resident: float = 0.15, seed: int = 7) -> list[KernelResult]:
    """Return kernels that crowd the DRAM roof and the compute roof, as real ones do."""
    chance = random.Random(seed)
    kernels = []
    for index in range(count):
        precision = chance.choice(["f32", "f64"])
        peak = 135.8e9 if precision == "f64" else 271.8e9
        intensity = 10 ** chance.choice([chance.uniform(-1.5, 0.3), chance.uniform(-1.2, 2.5)])
        share = chance.choice([chance.uniform(0.7, 1.0), chance.uniform(0.05, 1)])
        speed = min(intensity * 61.9e9, peak) * share
        read = int(1e9 / intensity)
        if chance.random() < resident:
            read, speed = 0, peak * chance.uniform(0.05, 0.9)
        claim = intensity * chance.choice([1, 4 / 3, 2, 8, 0.8, 3])
        kernels.append(
            result(
                f"{NAMES[index % len(NAMES)]}{'' if index < len(NAMES) else index}",
                seconds=1e9 / speed,
                declared=(1e9 * chance.choice([1, 1, 1, 1.25]), 1e9 / claim),
                counted=measurement(1e9, (traffic("a", read=read),), precision=precision),
                precision=precision,
            )
        )
    return kernels


Corners = NDArray[np.float64]
"""The four corners of a rectangle, in order, which may be rotated."""


def rectangle(x0: float, y0: float, x1: float, y1: float) -> Corners:
    return np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])


def overlap(one: Corners, other: Corners) -> bool:
    """Return whether two rectangles overlap: no edge's normal separates them."""
    for corners in (one, other):
        for edge in np.diff(corners, axis=0)[:2]:
            normal = np.array([-edge[1], edge[0]])
            a, b = one @ normal, other @ normal
            if a.max() <= b.min() or b.max() <= a.min():
                return False
    return True


def all_texts(figure: Figure) -> list[Text]:
    return [artist for artist in figure.findobj(Text) if isinstance(artist, Text)]


def texts(figure: Figure, renderer: RendererBase) -> dict[str, Corners]:
    """Return the corners of the labels of kernels, ceilings and ridges, as the renderer measures them."""
    found: dict[str, Corners] = {}
    for text in all_texts(figure):
        gid = text.get_gid() or ""
        if gid.partition(":")[0] in ("label", "ceiling", "ridge"):
            extent = text.get_window_extent(renderer)
            centre = np.array([(extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2])
            rotation = text.get_rotation()
            text.set_rotation(0)
            upright = text.get_window_extent(renderer)
            text.set_rotation(rotation)
            half = np.array([upright.width, upright.height]) / 2
            angle = np.radians(rotation)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            found[f"{gid}@{len(found)}"] = centre + rectangle(*-half, *half) @ turn.T
    return found


def markers(figure: Figure) -> dict[str, Corners]:
    """Return the corners of all kernels' markers."""
    found = {}
    for axes in figure.axes:
        for line in axes.lines:
            gid = line.get_gid() or ""
            if gid.startswith(("hollow:", "filled:")):
                x, y = axes.transData.transform(line.get_xydata()[0])
                radius = line.get_markersize() * figure.dpi / 72 / 2
                corners = rectangle(x - radius, y - radius, x + radius, y + radius)
                found[f"{gid}@{len(found)}"] = corners
    return found


def faults(figure: Figure) -> list[str]:
    """Return every overlap of a label with a label or a marker, and every label outside the axes.

    Looked at twice: with the pixels of the PNG, and with the outlines of the SVG.
    """
    found = _faults(figure, figure.canvas.get_renderer())  # type: ignore[attr-defined]
    dpi = figure.dpi
    figure.set_dpi(72)
    found += [f"svg: {fault}" for fault in _faults(figure, RendererSVG(1, 1, io.StringIO()))]
    figure.set_dpi(dpi)
    return found


def _faults(figure: Figure, renderer: RendererBase) -> list[str]:
    labels, dots = texts(figure, renderer), markers(figure)
    found = []
    for (name, one), (other_name, other) in itertools.combinations(labels.items(), 2):
        if overlap(one, other):
            found.append(f"{name} overlaps {other_name}")
    for name, corners in labels.items():
        found += [f"{name} overlaps {marker}" for marker, dot in dots.items() if overlap(corners, dot)]
        if not any(_within(corners, axes) for axes in figure.axes):
            found.append(f"{name} leaves the axes")
    return found


def _within(corners: Corners, axes: Axes) -> bool:
    area = axes.get_window_extent()
    return bool(
        (corners >= (area.x0 - 0.5, area.y0 - 0.5)).all()
        and (corners <= (area.x1 + 0.5, area.y1 + 0.5)).all()
    )


def test_the_overlap_check_sees_overlaps() -> None:
    figure = roofline.draw(results(result("a"), result("b", seconds=0.02)))
    first, second = (text for text in all_texts(figure) if (text.get_gid() or "").startswith("label:"))
    assert faults(figure) == []
    kept = second.get_position()
    second.set_position(first.get_position())
    assert any("overlaps label:" in fault for fault in faults(figure))
    second.set_position((0.999, kept[1]))
    assert any("label:b" in fault and "leaves the axes" in fault for fault in faults(figure))


def names(figure: Figure) -> list[str]:
    return sorted(
        (text.get_gid() or "").removeprefix("label:")
        for text in all_texts(figure)
        if (text.get_gid() or "").startswith("label:")
    )


@pytest.mark.parametrize(("count", "seed"), [(1, 1), (5, 2), (35, 3), (35, 4), (60, 5)])
def test_labels_overlap_nothing_and_stay_inside(count: int, seed: int) -> None:
    kernels = crowd(count, seed=seed)
    figure = roofline.draw(results(*kernels))
    assert names(figure) == sorted(kernel.name for kernel in kernels)
    assert faults(figure) == []


def test_labels_of_slopes_keep_off_arrows_where_another_place_is_free() -> None:
    axes = Figure(figsize=(8, 5)).add_subplot()
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 10)
    sheet = Paper(axes)
    start, end = sheet.pixels(axes, 0, 1), sheet.pixels(axes, 9, 10)

    def put(*, clear: bool) -> tuple[float, float]:
        text = sheet.text("DRAM read", 9, "black", "ceiling:DRAM read", 30.0)
        assert _put_beside_slope(sheet, axes, text, start, end, above=False, clear=clear)
        sheet.obstacles.clear()
        sheet.texts.clear()
        x, y = sheet.axes.transAxes.transform(text.get_position())
        return float(x), float(y)

    x, y = put(clear=True)
    sheet.arrow((x + 60, y), (x - 60, y), "black", faint=False)
    assert abs(put(clear=True)[0] - x) > 10
    # where there is no other place, letters may be crossed
    assert put(clear=False) == pytest.approx((x, y))


def test_remarks_stay_on_the_page() -> None:
    kernels = [result(f"k{n}", counted=measurement(0, (traffic("a", read=8 * N),))) for n in range(60)]
    figure = roofline.draw(results(*kernels, result("a")))
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    remarks = [text for text in all_texts(figure) if text.get_gid() == "remark"]
    assert len(remarks) > 2
    assert all(text.get_window_extent(renderer).x1 <= figure.bbox.x1 for text in remarks)


def test_kernels_without_dram_traffic_are_all_shown() -> None:
    kernels = crowd(35, resident=1.0)
    figure = roofline.draw(results(*kernels))
    assert names(figure) == sorted(kernel.name for kernel in kernels)
    assert faults(figure) == []
    assert any(axes.get_xlabel() == "no DRAM traffic" for axes in figure.axes)


def test_kernels_in_one_spot_all_keep_their_names() -> None:
    figure = roofline.draw(results(*(result(f"kernel_{i}") for i in range(30))))
    assert len(names(figure)) == 30
    assert faults(figure) == []


def test_kernels_of_the_same_name_both_have_one() -> None:
    figure = roofline.draw(results(result("twin"), result("twin", seconds=0.1), result("twin", seconds=1)))
    assert names(figure) == ["twin"] * 3
    assert faults(figure) == []


def test_of_very_many_kernels_none_is_named_and_the_picture_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "MOST_NAMED", 20)
    placements = spread(50)
    kernels = [replace(result(f"k{i}"), placement=p) for i, p in enumerate(placements)]
    figure = roofline.draw(results(*kernels))
    drawn = np.vstack([line.get_xydata() for _, line in gids(figure, "filled:")])
    expected = np.array([(p.intensity or 0, (p.flops_per_second or 0) / 1e9) for p in placements])
    np.testing.assert_allclose(drawn[drawn[:, 0].argsort()], expected)
    assert names(figure) == []
    assert figure.axes[0].get_title(loc="right") == "50 of 50 kernels not named for lack of room"
    assert faults(figure) == []
    (arrows,) = [one for one in figure.findobj(LineCollection) if one.get_alpha() == 0.45]
    assert len(arrows.get_segments()) == 50


def spread(count: int) -> list[Placement]:
    placement = result().placement
    assert placement is not None
    return [
        replace(placement, intensity=0.05 * 1.05**i, flops_per_second=1e9 * (1 + i % 7)) for i in range(count)
    ]


def test_close_ceilings_have_labels_that_do_not_overlap() -> None:
    close = [compute(f"f64 mix{i}", 100 * 1.1**i, "f64") for i in range(8)]
    slopes = [bandwidth(f"DRAM mix{i}", 50 * 1.02**i, isa=f"ISA {i}") for i in range(4)]
    figure = roofline.draw(results(result(), ceilings=(*close, *slopes)))
    assert faults(figure) == []
    written = " ".join(text.get_text().replace("\n", " ") for text in all_texts(figure))
    for ceiling in (*close, *slopes):
        assert ceiling.name.partition(" ")[2] in written


def test_a_flat_ceilings_label_stands_nearest_to_its_own_line() -> None:
    flat = [compute(f"f64 mix{i}", value, "f64") for i, value in enumerate((195, 130, 97, 32, 25))]
    slopes = [bandwidth(f"DRAM mix{i}", value) for i, value in enumerate((68, 61, 55, 42))]
    figure = roofline.draw(results(result(), ceilings=(*flat, *slopes)))
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    checked = 0
    for text in all_texts(figure):
        name = (text.get_gid() or "").removeprefix("ceiling:")
        if name in [one.name for one in flat]:
            extent = text.get_window_extent(renderer)
            middle = (extent.y0 + extent.y1) / 2

            def away(one: Ceiling, middle: float = middle) -> float:
                return abs(figure.axes[0].transData.transform((1, one.value / 1e9))[1] - middle)

            assert min(flat, key=away).name == name
            checked += 1
    assert checked == 5


def test_every_ceiling_has_a_label_with_its_conditions() -> None:
    written = " ".join(text.get_text() for text in all_texts(roofline.draw(results(*crowd(35)))))
    for ceiling in CEILINGS:
        assert ceiling.name in written or ceiling.name.removeprefix("DRAM ") in written
    assert "f64 AVX-512 FMA: 136 GFLOP/s (1 thread, 4.18 GHz)" in written
    assert "ridge 2.19 FLOP/B" in written


def gids(figure: Figure, start: str) -> list[tuple[Axes, Line2D]]:
    return [
        (axes, line)
        for axes in figure.axes
        for line in axes.lines
        if (line.get_gid() or "").startswith(start)
    ]


def test_markers_stand_where_the_numbers_say() -> None:
    figure = roofline.draw(results(result(seconds=0.0125, declared=(4 * N, 24 * N))))
    ((_, filled),) = gids(figure, "filled:")
    ((_, hollow),) = gids(figure, "hollow:")
    assert filled.get_xydata()[0] == pytest.approx((2 / 32, 3.2))
    assert hollow.get_xydata()[0] == pytest.approx((4 / 24, 6.4))
    assert hollow.get_markerfacecolor() == "none"
    assert filled.get_markerfacecolor() != "none"


def test_roofs_are_drawn_at_their_values() -> None:
    figure = roofline.draw(results(result()))
    ((_, slope),) = gids(figure, "roof:DRAM copy")
    for x, y in slope.get_xydata():
        assert y == pytest.approx(61.9 * x)
    ((_, flat),) = gids(figure, "roof:f64 AVX-512 FMA")
    assert {y for _, y in flat.get_xydata()} == {135.8}
    assert flat.get_xydata()[0][0] == pytest.approx(135.8 / 61.9)
    ((_, point),) = gids(figure, "ridge:f64 scalar")
    assert point.get_xydata()[0] == pytest.approx((8.4 / 61.9, 8.4))


def test_there_is_an_arrow_for_every_claim_that_missed() -> None:
    missed = result("missed")
    right = result("right", declared=(2 * N, 32 * N))
    silent = result("silent", declared=None)
    resident = result(
        "resident", seconds=1e-6, counted=measurement(2000, (traffic("a"),)), declared=(2000, 24_000)
    )
    figure = roofline.draw(results(missed, right, silent, resident))
    arrows = [artist for artist in figure.findobj(FancyArrowPatch) if isinstance(artist, FancyArrowPatch)]
    assert len(arrows) == 2
    assert len(gids(figure, "hollow:")) == 3
    assert len(gids(figure, "filled:")) == 4


def test_what_has_no_place_is_written_below() -> None:
    copy = result("copy", counted=measurement(0, (traffic("a", read=8 * N, write=8 * N),)))
    figure = roofline.draw(results(result(), copy, failed("spoiled", "crash")))
    remarks = [text.get_text() for text in all_texts(figure) if text.get_gid() == "remark"]
    assert remarks == [
        "No FLOPs, so no place on a roofline: copy (41 % of DRAM).",
        "Failed: spoiled (crash).",
    ]


def test_a_long_title_is_broken_and_stays_on_the_picture() -> None:
    far = [result(f"t{threads}", threads=threads) for threads in (2, 4)]
    figure = roofline.draw(results(*far))
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    figure.draw_without_rendering()
    boxes = []
    for axes in figure.axes:
        title = next(
            one for one in axes.get_children() if isinstance(one, Text) and "threads" in one.get_text()
        )
        assert "\n" in title.get_text()
        boxes.append(title.get_window_extent(renderer))
    (legend,) = figure.legends
    for box in boxes:
        assert box.x1 <= figure.bbox.x1
        assert not box.overlaps(legend.get_window_extent(renderer))
    assert not boxes[0].overlaps(boxes[1])


def test_what_is_written_below_stays_on_the_picture_however_much_it_is() -> None:
    wide = measurement(0, (traffic("a", read=8 * N, write=8 * N),))
    figure = roofline.draw(results(*(result(f"MEMORY_MOVE_{i:03}", counted=wide) for i in range(200))))
    below = [text for text in all_texts(figure) if text.get_gid() == "remark"]
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    assert len(below) > 1
    assert "and 176 others" in below[-1].get_text()
    for text in below:
        box = text.get_window_extent(renderer)
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0


@pytest.mark.parametrize(
    "whole",
    [
        results(),
        results(ceilings=()),
        results(failed()),
        results(result(ceilings=()), ceilings=()),
        results(result(precision="f16", counted=measurement(10, (traffic("a", read=64),), precision="f16"))),
        results(result("$x_1$ \\frac{a} 100%")),
        results(result("n" * 200), result("\u6838\u5fc3 kernel\n<b>")),
        results(*(result(f"t{threads}", threads=threads) for threads in (1, 2, 4, 8, 16))),
    ],
    ids=["nothing", "no roofs", "all failed", "dot alone", "f16", "maths", "long names", "many panels"],
)
@pytest.mark.filterwarnings("ignore:Glyph")  # matplotlib's own font lacks the letters of some names
def test_anything_can_be_drawn(whole: Results, tmp_path: Path) -> None:
    files = roofline.save(whole, tmp_path)
    assert [file.name for file in files] == ["roofline.png", "roofline.svg"]
    assert faults(roofline.draw(whole)) == []


def test_files_are_what_they_say_and_do_not_change_between_runs(tmp_path: Path) -> None:
    whole = results(*crowd(8))
    png, svg = roofline.save(whole, tmp_path / "a")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in svg.read_bytes()[:1000]
    again = roofline.save(replace(whole), tmp_path / "b")
    assert [file.read_bytes() for file in again] == [png.read_bytes(), svg.read_bytes()]


def test_drawing_changes_nothing_global_and_needs_no_display(tmp_path: Path) -> None:
    program = (
        "import sys, matplotlib\n"
        "before = dict(matplotlib.rcParams)\n"
        "from pathlib import Path\n"
        "from counteroof.plot import roofline\n"
        "from tests.factories import result, results\n"
        "roofline.save(results(result()), Path(sys.argv[1]))\n"
        "changed = {k for k, v in before.items() if matplotlib.rcParams[k] != v and k != 'backend'}\n"
        "assert not changed, changed\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ".", "PATH": "/usr/bin", "HOME": str(tmp_path)},
    )
    assert finished.returncode == 0, finished.stderr


def test_error_bars_span_the_middle_of_the_timing_samples() -> None:
    samples = (0.010, *(0.0125 for _ in range(19)), 0.020)
    steady = result("steady", seconds=None)
    uneven = replace(result("uneven"), seconds=Seconds.of(tuple(0.010 + 0.001 * i for i in range(11))))
    outliers = replace(result("outliers"), seconds=Seconds.of(samples))
    figure = roofline.draw(results(steady, uneven, outliers))
    bars = {line.get_gid(): line.get_ydata() for _, line in gids(figure, "bar:")}
    assert bars.keys() == {"bar:uneven", "bar:outliers"}
    assert list(bars["bar:uneven"]) == pytest.approx([2 * N / 0.019 / 1e9, 2 * N / 0.011 / 1e9])
    assert list(bars["bar:outliers"]) == pytest.approx([3.2, 3.2])
    legend = " ".join(text.get_text() for text in all_texts(figure))
    assert "bars: the middle 80 % of the timing samples" in legend


def test_a_single_sample_has_no_error_bar() -> None:
    once = replace(result(), seconds=Seconds.of((0.0125,)))
    assert gids(roofline.draw(results(once)), "bar:") == []


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("count", [1, 12])
def test_a_panel_can_be_drawn_on_axes_that_are_there(
    count: int, layout: Literal["constrained"] | None
) -> None:
    figure = Figure(figsize=(16, 7), layout=layout)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    whole = results(*crowd(count, resident=0.3), result("single", precision="f32"))
    right.plot([1, 2], [3, 4])
    roofline.draw_on(left, whole, 0)
    kept = left.get_position().bounds
    names_there = names(figure)
    assert set(names_there) == {dot.name for dot in picture(whole).panels[0].dots}
    assert faults(figure) == []
    assert right.lines[0].get_xydata().tolist() == [[1, 3], [2, 4]]
    assert not right.texts
    figure.draw_without_rendering()
    # a layout that is solved again may end a pixel beside the last
    assert left.get_position().bounds == pytest.approx(kept, abs=0.002)
    assert faults(figure) == []
    legend = left.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    area = rectangle(box.x0, box.y0, box.x1, box.y1)
    labels = texts(figure, figure.canvas.get_renderer())  # type: ignore[attr-defined]
    assert not [name for name, corners in labels.items() if overlap(corners, area)]


def test_a_legend_keeps_off_what_is_drawn_beside_the_roofs_too() -> None:
    shown = picture(results(result()))
    for corner in ((0.9, 0.9), (0.9, 0.1), (0.1, 0.9), (0.1, 0.1)):
        figure = Figure(figsize=(6, 4.5))
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        sheet = Paper(axes)
        x, y = axes.transAxes.transform(corner)
        sheet.obstacles.append(Box(x - 4, y - 4, x + 4, y + 4))
        legend_inside(sheet, axes, shown, shown.panels[0])
        box = axes.get_legend().get_window_extent()
        assert not overlap(rectangle(box.x0, box.y0, box.x1, box.y1), rectangle(x - 4, y - 4, x + 4, y + 4))
        area = axes.get_window_extent()
        assert area.x0 <= box.x0
        assert box.x1 <= area.x1


def test_kernels_without_dram_traffic_stand_in_a_strip_on_axes_that_are_there() -> None:
    figure = Figure(figsize=(9, 6))
    axes = figure.subplots()
    roofline.draw_on(axes, results(*crowd(6, resident=1.0)))
    (strip,) = axes.child_axes
    assert len([line for line in strip.lines if (line.get_gid() or "").startswith("filled:")]) == len(
        picture(results(*crowd(6, resident=1.0))).panels[0].dots
    )
    assert "no DRAM traffic" in [text.get_text() for text in all_texts(figure)]
    (roof,) = [line for line in axes.lines if line.get_gid() == "roof:DRAM copy"]
    assert max(axes.transData.transform(roof.get_xydata())[:, 0]) <= strip.get_window_extent().x0


def test_pictures_come_as_pdf_too_and_the_same_each_time(tmp_path: Path) -> None:
    (one,) = roofline.save(results(result()), tmp_path / "a", formats=("pdf",))
    (other,) = roofline.save(results(result()), tmp_path / "b", formats=("pdf",))
    assert one.read_bytes().startswith(b"%PDF")
    assert one.read_bytes() == other.read_bytes()


def with_levels(kernels: list[KernelResult], seed: int = 5) -> list[KernelResult]:
    """Give crowded kernels bytes at every boundary."""
    chance = random.Random(seed)
    found = []
    for kernel in kernels:
        flops = kernel.flops.value or 0
        counts = {
            "core_l1_bytes": instrumented(int(flops / chance.uniform(0.03, 2))),
            "l1_l2_bytes": modelled(int(flops / chance.uniform(0.05, 10))),
            "l2_l3_bytes": modelled(int(flops / 10 ** chance.uniform(-1, 3))),
        }
        counters = {name: replace(one, **counts) for name, one in kernel.counters.items()}
        found.append(replace(kernel, counters=counters))
    return found


def sweep(count: int) -> list[KernelResult]:
    """Return kernels at several sizes each, ``count`` results in all."""
    kernels = crowd(count, resident=0.2)
    return [
        replace(
            kernel,
            name=NAMES[index // 6],
            params={"n": 10 ** (index % 6)},
            placement=replace(kernel.placement, precision="f64") if kernel.placement else None,
        )
        for index, kernel in enumerate(kernels)
    ]


def elsewhere(kernels: list[KernelResult], seed: int = 9) -> list[KernelResult]:
    """Return the kernels as another run may have found them."""
    chance = random.Random(seed)
    found = []
    for kernel in kernels:
        placed = kernel.placement
        assert placed is not None
        assert placed.flops_per_second is not None
        intensity = placed.intensity and placed.intensity * chance.uniform(0.4, 1.5)
        speed = placed.flops_per_second * chance.uniform(0.3, 1.1)
        found.append(replace(kernel, placement=replace(placed, intensity=intensity, flops_per_second=speed)))
    return found


VIEWS = {
    "hierarchical": lambda count: views.hierarchical(leveled(count)),
    "cache-aware": lambda count: views.cache_aware(leveled(count)),
    "two runs": lambda count: views.overlaid(results(*elsewhere(crowd(count))), results(*crowd(count))),
    "path": lambda count: views.paths(results(*sweep(max(count, 2)))),
}


def leveled(count: int) -> Results:
    return results(*with_levels(crowd(count)), ceilings=LEVEL_CEILINGS)


@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("view", VIEWS)
def test_labels_of_every_view_overlap_nothing_and_stay_inside(view: str, count: int) -> None:
    shown = VIEWS[view](count)
    figure = roofline.draw(shown)
    assert faults(figure) == []
    dots = [dot for panel in shown.panels for dot in panel.dots]
    assert len(names(figure)) == len(dots) > 0


def test_a_kernels_levels_are_joined_and_stand_at_their_intensities() -> None:
    (kernel,) = with_levels([result()])
    figure = roofline.draw(views.hierarchical(results(kernel, ceilings=LEVEL_CEILINGS)))
    xs = [line.get_xdata()[0] for _, line in gids(figure, "filled:")]
    ((_, joint),) = gids(figure, "levels")
    assert sorted(joint.get_xdata()) == [min(xs), max(xs)]
    assert len(set(xs)) == 4
    shapes = {line.get_marker() for _, line in gids(figure, "filled:")}
    assert len(shapes) == 4


def test_an_arrow_joins_the_two_runs_and_the_steps_of_a_path() -> None:
    fast = replace(result("a"), placement=replace(result().placement, flops_per_second=9e9))
    arrows = roofline.draw(views.overlaid(results(result("a")), results(fast))).findobj(FancyArrowPatch)
    assert len(arrows) == 1
    path = roofline.draw(views.paths(results(*sweep(6)))).findobj(FancyArrowPatch)
    assert len(path) == sum(
        len(one) - 1 for panel in views.paths(results(*sweep(6))).panels for one in panel.paths
    )


def test_what_a_datasheet_states_is_dashed_and_moves_no_dot_and_no_roof() -> None:
    stated = peaks.from_data(
        {
            "name": "sheet",
            "ceiling": [
                {"gb_per_s": 100, "threads": 1},
                {"gflop_per_s": 1000, "precision": "f64", "threads": 1},
                {"gflop_per_s": 2000, "precision": "f32", "threads": 1},
                {"gflop_per_s": 9000, "precision": "f64", "threads": 8},
            ],
        },
        "sheet.toml",
    )
    shown = panels.picture(results(result("a")))
    marked = panels.with_peaks(shown, stated, "sheet.toml")
    assert [replace(one, peaks=()) for one in marked.panels] == list(shown.panels)
    figure = roofline.draw(marked)
    lines = {line.get_gid(): line for _, line in gids(figure, "peak:")}
    assert set(lines) == {"peak:sheet DRAM", "peak:sheet f64"}
    assert all(line.is_dashed() for line in lines.values())
    assert [y / x for x, y in lines["peak:sheet DRAM"].get_xydata()] == pytest.approx([100] * 2)
    (start, end) = lines["peak:sheet f64"].get_xydata()
    assert start == pytest.approx([10, 1000])  # where the two meet
    assert end[1] == pytest.approx(1000)
    ((axes, _),) = gids(figure, "peak:sheet f64")
    assert axes.get_ylim()[1] > 1000
    said = [text.get_text() for text in all_texts(figure)]
    assert {"long dashes: not measured", "sheet DRAM: 100 GB/s", "sheet f64: 1.00 TFLOP/s"} <= set(said)


def test_the_label_of_the_roof_stays_at_it_below_what_a_datasheet_states_just_above() -> None:
    stated = peaks.from_data(
        {
            "name": "sheet",
            "ceiling": [
                {"gb_per_s": 450, "threads": 1},
                {"gflop_per_s": 156, "precision": "f64", "threads": 1},
            ],
        },
        "sheet.toml",
    )
    shown = panels.with_peaks(panels.picture(results(result("a"))), stated, "sheet.toml")
    figure = roofline.draw(shown)
    ((axes, roof),) = gids(figure, "roof:f64 AVX-512 FMA")
    start, end = axes.transData.transform(roof.get_xydata())
    (label,) = (text for text in all_texts(figure) if text.get_gid() == "ceiling:f64 AVX-512 FMA")
    box = label.get_window_extent()
    assert start[0] < (box.x0 + box.x1) / 2 < end[0]
    _, sheet = axes.transData.transform((1, 156))
    middle = (box.y0 + box.y1) / 2
    assert abs(middle - start[1]) < abs(middle - sheet)


def test_roofs_of_the_run_before_are_dotted_and_explained() -> None:
    old = tuple(replace(one, value=0.7 * one.value) for one in CEILINGS)
    figure = roofline.draw(views.overlaid(results(result("a"), ceilings=old), results(result("a"))))
    assert {line.get_gid() for _, line in gids(figure, "before:")} == {
        "before:DRAM copy",
        "before:f64 AVX-512 FMA",
    }
    ((_, slope),) = gids(figure, "before:DRAM copy")
    assert [y / x for x, y in slope.get_xydata()] == pytest.approx([0.7 * 61.9] * 2)
    assert "dotted: roofs before" in [text.get_text() for text in all_texts(figure)]


def test_the_legend_shows_an_error_bar_as_one() -> None:
    figure = roofline.draw(results(result()))
    (shown,) = [one for one in figure.legends[0].get_lines() if str(one.get_label()).startswith("bars")]
    shape = shown.get_marker()
    assert isinstance(shape, MarkerShape)
    heights = np.asarray(shape.vertices)[:, 1]
    assert heights.max() - heights.min() > 2 * np.ptp(np.asarray(shape.vertices)[:, 0])
