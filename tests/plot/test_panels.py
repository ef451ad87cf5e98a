"""What a picture shows: panels, dots, and where kernels go that have no place on logarithmic axes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.plot import views
from counteroof.plot.panels import Picture, ceiling_label, picture, shortened
from counteroof.results import KernelResult

from ..compiled import needs
from ..factories import CEILINGS, N, bandwidth, compute, failed, measurement, result, results, traffic, triad


def shown(*kernels: KernelResult) -> Picture:
    return picture(results(*kernels))


def kernel(name: str, precision: str = "f64", **fields: object) -> KernelResult:
    counted = (
        triad(precision=precision)
        if precision == "f64"
        else measurement(2 * N, triad().arrays, precision=precision)
    )
    return result(name, counted=counted, precision=precision, **fields)  # type: ignore[arg-type]


RESIDENT = result(
    "resident", seconds=1e-6, counted=measurement(2000, (traffic("a"),)), declared=(2000, 24_000)
)
COPY = result("copy", counted=measurement(0, (traffic("a", read=8 * N, write=8 * N),)), declared=(0, 16 * N))


def test_kernels_of_one_precision_share_a_panel_with_its_ceilings() -> None:
    whole = shown(kernel("a", "f32"), kernel("b", "f64"), kernel("c", "f32"))
    assert [panel.title for panel in whole.panels] == ["f32, 1 thread", "f64, 1 thread"]
    assert [dot.name for dot in whole.panels[0].dots] == ["a", "c"]
    assert {one.precision for one in whole.panels[0].computes} == {"f32"}
    assert {one.precision for one in whole.panels[1].computes} == {"f64"}


def test_ceilings_are_stacked_highest_first() -> None:
    panel = shown(kernel("a")).panels[0]
    assert [one.name for one in panel.computes] == [
        "f64 AVX-512 FMA",
        "f64 AVX-512 without FMA",
        "f64 scalar",
    ]
    assert [one.name for one in panel.bandwidths] == ["DRAM copy", "DRAM triad", "DRAM read"]
    assert panel.ridges[0] == (pytest.approx(135.8 / 61.9), pytest.approx(135.8e9))


def test_what_only_some_code_is_held_by_is_no_line_of_the_picture() -> None:
    special = compute("f64 AVX-512 FMA 1 chain", 17, "f64", mix="FMA 1 chain")
    found = results(kernel("a"), ceilings=(*CEILINGS, special))
    (panel,) = picture(found).panels
    assert panel.computes == picture(results(kernel("a"))).panels[0].computes


def test_threads_have_panels_of_their_own_with_their_own_roofs() -> None:
    two = (bandwidth("DRAM 2T", 90, threads=2), compute("f64 2T", 270, "f64", threads=2))
    ceilings = (*CEILINGS, *two)
    whole = picture(
        results(
            kernel("one", ceilings=ceilings), kernel("two", threads=2, ceilings=ceilings), ceilings=ceilings
        )
    )
    assert [panel.title for panel in whole.panels] == ["f64, 1 thread", "f64, 2 threads"]
    assert [one.name for one in whole.panels[1].bandwidths] == ["DRAM 2T"]
    assert [one.name for one in whole.panels[1].computes] == ["f64 2T"]


def test_a_roof_of_other_threads_is_said_in_the_title() -> None:
    (panel,) = shown(kernel("four", threads=4)).panels
    assert panel.title == (
        "f64, 4 threads (ran with 4 threads, held against the DRAM bandwidth ceiling of 1; "
        "ran with 4 threads, held against the f64 compute ceiling of 1)"
    )


def test_declared_and_true_positions() -> None:
    (dot,) = shown(kernel("a", seconds=0.0125)).panels[0].dots
    assert dot.intensity == pytest.approx(2 / 32)
    assert dot.flops_per_second == pytest.approx(3.2e9)
    assert dot.origin == (pytest.approx(2 / 24), pytest.approx(3.2e9))
    assert dot.moved
    assert dot.text == "a  83 %"


def test_the_declared_position_has_the_declared_flops() -> None:
    (dot,) = shown(kernel("a", seconds=0.0125, declared=(4 * N, 24 * N))).panels[0].dots
    assert dot.origin == (pytest.approx(4 / 24), pytest.approx(6.4e9))


def test_without_a_claim_there_is_no_hollow_marker() -> None:
    (dot,) = shown(kernel("a", declared=None)).panels[0].dots
    assert dot.origin is None
    assert not dot.moved


def test_a_right_claim_needs_no_arrow() -> None:
    (dot,) = shown(kernel("a", declared=(2 * N, 32 * N))).panels[0].dots
    assert dot.origin is not None
    assert not dot.moved


def test_a_kernel_without_dram_traffic_stands_apart_and_is_not_dropped() -> None:
    (panel,) = shown(RESIDENT, kernel("a")).panels
    assert [dot.name for dot in panel.resident] == ["resident"]
    assert [dot.name for dot in panel.placed] == ["a"]
    assert panel.resident[0].bound == "compute"


def test_a_dot_above_its_roof_says_so() -> None:
    (dot,) = shown(kernel("a", seconds=0.0095)).panels[0].dots
    assert dot.text == "a  109 % (above its roof)"


def test_every_kernel_is_a_dot_or_a_remark() -> None:
    uncounted = result("uncounted", counted=measurement(None))
    untimed = result("untimed", seconds=None)
    whole = shown(kernel("a"), RESIDENT, COPY, uncounted, untimed, failed("spoiled", "crash"))
    assert [dot.name for panel in whole.panels for dot in panel.dots] == ["a", "resident"]
    assert whole.remarks == (
        "No FLOPs, so no place on a roofline: copy (41 % of DRAM).",
        "Not placed: uncounted (FLOPs: the engine was not run), untimed (not timed).",
        "Failed: spoiled (crash).",
    )


def test_the_share_of_a_kernel_without_flops_is_that_of_what_holds_it_back() -> None:
    still = replace(COPY, placement=replace(COPY.placement, no_dram_traffic=True, bound="l2", fraction=0.16))
    unheld = replace(COPY, placement=replace(COPY.placement, bound=None, fraction=None))
    assert shown(COPY, still, unheld).remarks == (
        "No FLOPs, so no place on a roofline: copy (41 % of DRAM), copy (no DRAM traffic, 16 % of L2), "
        "copy (no roof).",
    )


def test_roofs_alone_can_be_looked_at() -> None:
    assert [panel.title for panel in shown().panels] == ["f32, 1 thread", "f64, 1 thread"]
    assert len(picture(results(ceilings=())).panels) == 1


def test_the_subtitle_says_how_the_numbers_were_got() -> None:
    assert shown(kernel("a")).subtitle == (
        "FLOPs instrumented; DRAM bytes modelled; roofs measured 2026-01-02T03:04:05+00:00; "
        "percentages: share of the roof that binds"
    )


def test_without_roofs_none_is_said_to_be_measured() -> None:
    assert "roofs" not in picture(results(kernel("a"), ceilings=())).subtitle


def test_a_ceilings_label_says_precision_isa_fma_threads_and_clock() -> None:
    plain = compute("peak", 135.8, "f64", "AVX2", fma=False, threads=2)
    assert ceiling_label(plain) == "peak: 136 GFLOP/s (f64, AVX2, without FMA, 2 threads, 4.18 GHz)"
    assert ceiling_label(CEILINGS[3]) == "f64 AVX-512 FMA: 136 GFLOP/s (1 thread, 4.18 GHz)"
    assert ceiling_label(bandwidth("DRAM", 42.4, clock_hz=None)) == (
        "DRAM: 42.4 GB/s (AVX-512, 1 thread, clock unknown)"
    )


def test_several_ceilings_share_a_label_that_repeats_nothing() -> None:
    slopes = (bandwidth("DRAM copy", 60.9), bandwidth("DRAM copy NT", 53.5, clock_hz=4.02e9))
    assert ceiling_label(*slopes) == (
        "DRAM copy 60.9, copy NT 53.5 GB/s (AVX-512, 1 thread, 4.0 GHz to 4.2 GHz)"
    )
    flat = (
        compute("f64 AVX-512 FMA", 130.2, "f64"),
        compute("f64 AVX-512 ADD+MUL 1:1", 129, "f64", fma=False),
        compute("f64 scalar", 0.9, "f64", "scalar", clock_hz=None),
    )
    assert ceiling_label(*flat[:2]) == ("f64 AVX-512 FMA 130, ADD+MUL 1:1 129 GFLOP/s (1 thread, 4.18 GHz)")
    assert ceiling_label(*flat) == (
        "f64 AVX-512 FMA: 130 GFLOP/s, AVX-512 ADD+MUL 1:1: 129 GFLOP/s, scalar: 900 MFLOP/s "
        "(1 thread, 4.18 GHz or unknown)"
    )


def test_ceilings_of_several_isas_keep_theirs_in_a_shared_label() -> None:
    slopes = [bandwidth("L1-L2 update", 236), bandwidth("L2-L3 read", 206, isa="AVX2")]
    assert ceiling_label(*slopes) == (
        "L1-L2 update AVX-512 236, L2-L3 read AVX2 206 GB/s (1 thread, 4.18 GHz)"
    )
    many = [bandwidth(f"DRAM loop {i}", 60 - i, isa="AVX2" if i == 2 else "AVX-512") for i in range(6)]
    assert ceiling_label(*many) == (
        "DRAM loop 0 60.0 to 5 55.0 GB/s (6 of them, AVX-512 or AVX2, 1 thread, 4.18 GHz)"
    )


def test_of_many_ceilings_the_highest_and_the_lowest_are_named() -> None:
    many = [bandwidth(f"DRAM loop {i}", 60 - i) for i in range(6)]
    assert ceiling_label(*many) == "DRAM loop 0 60.0 to 5 55.0 GB/s (6 of them, AVX-512, 1 thread, 4.18 GHz)"


def test_long_names_lose_their_middle() -> None:
    assert shortened("short") == "short"
    assert shortened("two\nlines") == "two lines"
    name = shortened("std::vector<double>::operator_something_very_long(int)")
    assert len(name) == 30
    assert name.startswith("std::vector")
    assert name.endswith("long(int)")


@needs("c++filt")
def test_mangled_names_are_readable_in_every_picture() -> None:
    mangled = replace(kernel("_Z4axpydPdS_"), params={"n": 1})
    twice = replace(mangled, label="_Z4axpydPdS_[n=2]", params={"n": 2})
    whole = results(mangled, twice)
    made = (picture(whole), views.paths(whole), views.overlaid(whole, whole))
    for one in made:
        for dot in one.panels[0].dots:
            assert dot.name.startswith("axpy(double, double*, double*)")
            assert "_Z" not in dot.text


def test_peaks_by_another_tool_are_not_called_measured() -> None:
    roofs = tuple(replace(one, note="a peak by the profiler, not measured") for one in CEILINGS)
    subtitle = picture(results(kernel("a"), ceilings=roofs)).subtitle
    assert "roofs are peaks by another tool, not measured" in subtitle
    assert "roofs measured" not in subtitle
