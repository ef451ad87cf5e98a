"""The other pictures: levels of the hierarchy, the core's view, two runs, paths through sizes and threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from counteroof.errors import BadInput
from counteroof.plot import roofline, views
from counteroof.plot.panels import Dot, Picture, picture
from counteroof.results import KernelResult, Results, Seconds

from ..factories import (
    CEILINGS,
    N,
    bandwidth,
    compute,
    instrumented,
    machine,
    measurement,
    modelled,
    result,
    results,
    traffic,
    triad,
)

BOTH_WAYS = "both ways, write-allocate counted"
VICTIMS = "both ways, one line down for each line up"
CORE = "loads and stores of instructions"
LEVEL_CEILINGS = (
    bandwidth("DRAM copy", 60, mix="copy", convention=f"{BOTH_WAYS}: 24 B an element copy"),
    bandwidth("DRAM read", 45, mix="read", convention=f"{BOTH_WAYS}: 8 B an element read"),
    bandwidth("L2-L3 read", 200, level="l3", mix="read", convention=f"{VICTIMS}: 16 B an element read"),
    bandwidth("L1-L2 copy", 170, level="l2", mix="copy", convention=f"{BOTH_WAYS}: 24 B an element copy"),
    bandwidth(
        "core-L1 triad", 280, level="l1", mix="triad", convention="loads and stores of instructions: x"
    ),
    compute("f64 AVX-512 FMA", 135.8, "f64"),
    compute("f64 scalar", 8.4, "f64", "scalar", fma=False),
)


def everywhere(name: str = "triad", **fields: object) -> KernelResult:
    """A triad with bytes at every boundary."""
    counted = triad(
        core_l1_bytes=instrumented(24 * N), l1_l2_bytes=modelled(32 * N), l2_l3_bytes=modelled(48 * N)
    )
    return result(name, counted=counted, ceilings=LEVEL_CEILINGS, **fields)  # type: ignore[arg-type]


def whole(*kernels: KernelResult) -> Results:
    return results(*kernels, ceilings=LEVEL_CEILINGS)


def only_dot(shown: Picture) -> Dot:
    ((dot,),) = [panel.dots for panel in shown.panels]
    return dot


def test_a_kernel_has_a_dot_for_every_boundary_at_one_height() -> None:
    dot = only_dot(views.hierarchical(whole(everywhere())))
    assert dict(dot.others) == {
        "l1": pytest.approx(2 / 24),
        "l2": pytest.approx(2 / 32),
        "l3": pytest.approx(2 / 48),
    }
    assert (dot.level, dot.intensity) == ("dram", pytest.approx(2 / 32))
    assert dot.flops_per_second == pytest.approx(2 * N / 0.0125)


@pytest.mark.parametrize("view", [views.hierarchical, views.cache_aware])
def test_no_bandwidth_passes_under_the_label_of_a_compute_ceiling(
    view: Callable[[Results], Picture],
) -> None:
    kernel = everywhere()
    wide = (
        compute("f64 AVX2 FMA", 70, "f64", "AVX2"),
        compute("f64 AVX-512 ADD+MUL 1:1", 60, "f64", mix="ADD+MUL 1:1", fma=False),
    )
    figure = roofline.draw(view(results(kernel, ceilings=(*LEVEL_CEILINGS, *wide))))
    (axes,) = (one for one in figure.axes if one.get_xscale() == "log")
    texts = [text for text in figure.findobj(Text) if (text.get_gid() or "").startswith("ceiling:f64")]
    assert len(texts) == 4
    # there is room for each in one row
    assert not any("\n" in text.get_text() for text in texts)
    labels = [text.get_window_extent() for text in texts]
    for line in axes.lines:
        points = axes.transData.transform(line.get_xydata())
        start, end = points[0], points[-1]
        if str(line.get_gid()).startswith("roof:") and start[1] != pytest.approx(end[1]):
            for share in np.linspace(0, 1, 500):
                point = start + share * (end - start)
                assert not any(box.contains(*point) for box in labels), line.get_gid()


def test_each_level_has_one_slope_the_highest_of_its_loops() -> None:
    (panel,) = views.hierarchical(whole(everywhere())).panels
    assert [one.name for one in panel.bandwidths] == [
        "core-L1 triad",
        "L2-L3 read",
        "L1-L2 copy",
        "DRAM copy",
    ]
    assert [one.name for one in panel.computes] == ["f64 AVX-512 FMA", "f64 scalar"]


def test_bytes_that_are_not_known_or_nil_have_no_dot() -> None:
    counted = measurement(
        2 * N,
        (traffic("a"),),
        core_l1_bytes=instrumented(None),
        l1_l2_bytes=modelled(0),
        l2_l3_bytes=modelled(4),
    )
    resident = result("resident", seconds=1.0, counted=counted, ceilings=LEVEL_CEILINGS)
    assert resident.placement is not None
    assert resident.placement.no_dram_traffic
    dot = only_dot(views.hierarchical(whole(resident)))
    assert (dot.level, dot.intensity, dot.others) == ("l3", pytest.approx(2 * N / 4), ())


def test_roofs_of_caches_that_count_other_bytes_than_the_model_are_left_out_and_it_is_said() -> None:
    odd = bandwidth("L2-L3 odd", 900, level="l3", convention="something else: 1 B")
    shown = views.hierarchical(results(everywhere(), ceilings=(*LEVEL_CEILINGS, odd)))
    assert "L2-L3 odd" not in [one.name for one in shown.panels[0].bandwidths]
    assert any("something else" in line for line in shown.remarks)


def test_the_bandwidth_the_core_sees_is_that_of_its_loads_and_stores() -> None:
    here = machine()
    by_name = {one.name: views.at_core(one, here) for one in LEVEL_CEILINGS}
    values = {name: None if one is None else one.value / 1e9 for name, one in by_name.items()}
    assert values == {
        "DRAM copy": pytest.approx(40),  # 16 of 24 bytes
        "DRAM read": pytest.approx(45),
        "L2-L3 read": pytest.approx(100),  # a line goes down for each that comes up
        "L1-L2 copy": pytest.approx(170 * 16 / 24),
        "core-L1 triad": pytest.approx(280),
        "f64 AVX-512 FMA": None,
        "f64 scalar": None,
    }
    non_temporal = bandwidth("DRAM copy NT", 50, mix="copy NT", convention=f"{BOTH_WAYS}: 16 B an element")
    other_model = bandwidth("L2-L3 read", 50, level="l3", mix="read", convention=f"{BOTH_WAYS}: 8 B")
    assert views.at_core(non_temporal, here) is None
    assert views.at_core(other_model, here) is None


def test_the_cache_aware_picture_has_the_intensity_of_loads_and_stores() -> None:
    shown = views.cache_aware(whole(everywhere()))
    dot = only_dot(shown)
    assert dot.intensity == pytest.approx(2 / 24)
    assert shown.x_label == "FLOP per byte loaded or stored by instructions"
    assert [one.level for one in shown.panels[0].bandwidths] == ["l1", "l2", "l3", "dram"]


def test_a_kernel_without_a_count_of_loads_and_stores_is_named_with_the_reason() -> None:
    bare = result("bare", ceilings=LEVEL_CEILINGS)
    shown = views.cache_aware(whole(everywhere(), bare))
    assert only_dot(shown).name == "triad"
    assert "Not placed: bare (this counter does not count loads and stores)." in shown.remarks
    with pytest.raises(BadInput, match="no kernel has what this picture needs"):
        views.cache_aware(whole(bare))


def slower(kernel: KernelResult, factor: float) -> KernelResult:
    assert kernel.placement is not None
    assert kernel.placement.flops_per_second is not None
    assert kernel.seconds is not None
    return replace(
        kernel,
        placement=replace(kernel.placement, flops_per_second=kernel.placement.flops_per_second / factor),
        seconds=Seconds.of(tuple(sample * factor for sample in kernel.seconds.samples)),
    )


def test_two_runs_meet_by_kernel_and_the_arrow_leads_from_the_first_to_the_second() -> None:
    before = results(slower(result("a"), 2), result("b"), result("gone"))
    after = results(result("b"), result("a"), result("new"))
    shown = views.overlaid(before, after, ("old", "new run"))
    dots = {dot.name: dot for dot in shown.panels[0].dots}
    assert dots["a"].origin == (pytest.approx(2 / 32), pytest.approx(1.6e9))
    assert dots["a"].flops_per_second == pytest.approx(3.2e9)
    assert dots["a"].text == "a  2.00x"
    assert dots["a"].moved
    assert not dots["b"].moved
    assert dots["new"].origin is None
    assert shown.hollow == "hollow: old; arrow: to new run"
    assert "Only in new run: new." in shown.remarks
    assert "Only in old: gone." in shown.remarks
    assert shown.panels[0].before == ()


def test_roofs_that_differ_between_the_runs_are_kept() -> None:
    old = tuple(replace(one, value=0.8 * one.value) if one.level == "dram" else one for one in CEILINGS)
    shown = views.overlaid(results(result("a"), ceilings=old), results(result("a")))
    assert [(one.name, one.value) for one in shown.panels[0].before] == [
        ("DRAM copy", pytest.approx(0.8 * 61.9e9))
    ]


def test_another_size_is_another_kernel() -> None:
    small = replace(result("a"), params={"n": 10})
    with pytest.raises(BadInput, match="at the same sizes"):
        views.overlaid(results(small), results(result("a")))


def test_another_machine_is_named() -> None:
    before = results(result("a"))
    before = replace(before, machine=replace(before.machine, name="an older machine"))
    remarks = views.overlaid(before, results(result("a")), ("old", "new")).remarks
    assert "old was on another machine: an older machine (AMD EPYC)." in remarks


def test_runs_with_nothing_in_common_are_refused() -> None:
    with pytest.raises(BadInput, match=r"one and two have no kernel in common .*\(a; b\)"):
        views.overlaid(results(result("a")), results(result("b")), ("one", "two"))


def sized(name: str, n: int, threads: int = 1) -> KernelResult:
    return result(name, label=f"{name}[n={n}]", params={"n": n, "m": 7}, threads=threads)


def test_sizes_of_a_kernel_are_joined_in_their_order() -> None:
    shown = views.paths(results(sized("a", 4096), sized("b", 5), sized("a", 200), sized("a", N)))
    (panel,) = shown.panels
    assert panel.paths == ((2, 0, 3),)
    texts = {dot.key: dot.text for dot in panel.dots}
    assert texts == {2: "a n=200", 0: "n=4096", 3: "n=20.0 M", 1: "b"}
    assert all(dot.origin is None for dot in panel.dots)


def test_threads_share_a_panel_with_the_roofs_of_each_number() -> None:
    ceilings = (
        *CEILINGS,
        bandwidth("DRAM copy", 90, threads=2),
        compute("f64 AVX-512 FMA", 270, "f64", threads=2),
    )
    shown = views.paths(results(sized("a", 5, threads=2), sized("a", 5), ceilings=ceilings))
    (panel,) = shown.panels
    assert panel.title == "f64, 1 to 2 threads"
    assert [(one.threads, one.value) for one in panel.bandwidths] == [(2, 90e9), (1, 61.9e9)]
    assert [(one.threads, one.value) for one in panel.computes] == [(2, 270e9), (1, CEILINGS[3].value)]
    assert panel.paths == ((1, 0),)
    assert [dot.text for dot in panel.dots] == ["a 1 thread", "2 threads"]
    assert shown.slopes_apart


def test_with_one_number_of_threads_the_lower_ceilings_stay() -> None:
    shown = views.paths(results(sized("a", 5), sized("a", 6)))
    assert len(shown.panels[0].bandwidths) == 3
    assert len(shown.panels[0].computes) == 3
    assert not shown.slopes_apart


def test_without_a_sweep_there_is_no_path() -> None:
    with pytest.raises(BadInput, match="no kernel has more than one size"):
        views.paths(results(result("a"), result("b")))


def test_panels_of_several_runs_begin_with_their_machine_or_their_time() -> None:
    here, gpu = results(result("a")), results(result("b"))
    gpu = replace(gpu, machine=replace(gpu.machine, name="a GPU"))
    both = views.beside([picture(here), picture(gpu)], [here, gpu])
    assert [panel.title for panel in both.panels] == [
        "2-core Zen 5 VM: f64, 1 thread",
        "a GPU: f64, 1 thread",
    ]
    assert both.title == "Rooflines: 2-core Zen 5 VM; a GPU"
    later = replace(here, created="2026-02-03")
    twice = views.beside([picture(here), picture(later)], [here, later])
    assert twice.panels[1].title == "2-core Zen 5 VM, 2026-02-03: f64, 1 thread"
    assert views.beside([picture(here)], [here]) == picture(here)
