"""The interactive roofline: what its specification holds, that it compiles, what is said without altair."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput
from counteroof.plot import interactive, rows
from counteroof.plot.panels import picture
from counteroof.results import KernelResult, Results

from ..factories import failed, measurement, result, results, traffic
from ..report.test_html import EVIL
from .test_views import LEVEL_CEILINGS, everywhere

RESIDENT = result(
    "resident", seconds=1e-6, counted=measurement(2000, (traffic("a"),)), ceilings=LEVEL_CEILINGS
)


def whole(*kernels: KernelResult) -> Results:
    return results(*(kernels or (everywhere(), RESIDENT, failed())), ceilings=LEVEL_CEILINGS)


def found(results: Results) -> rows.Rows:
    return rows.rows(picture(results).panels, results)


def test_a_kernel_has_a_dot_at_every_boundary_with_every_number_and_its_source() -> None:
    dots = found(whole(everywhere())).dots
    assert {row["level"]: row["intensity"] for row in dots} == {
        "L1": pytest.approx(2 / 24),
        "L2": pytest.approx(2 / 32),
        "L3": pytest.approx(2 / 48),
        "DRAM": pytest.approx(2 / 32),
    }
    assert [row["level"] for row in dots if row["outermost"]] == ["DRAM"]
    (dram,) = [row for row in dots if row["level"] == "DRAM"]
    assert dram["declared_intensity"] == pytest.approx(2 / 24)
    assert dram["FLOP per byte"] == "0.0625"
    (tips,) = found(whole(everywhere())).tips
    assert tips["key"] == dram["key"]
    assert tips["bytes read from DRAM"] == "480 MB (modelled: instrument: cache model, LRU, 32 MiB L3)"
    assert tips["time of one call"] == "12.5 ms (measured: median of 3 samples; 12.4 ms to 12.6 ms)"
    assert tips["FLOP/s"] == "3.20 GFLOP/s"
    assert tips["in a sentence"].startswith("Intensity 0.0833 declared, 0.0625 true")


def test_data_stand_in_a_specification_once() -> None:
    spec = json.dumps(interactive.spec(whole(everywhere())))
    assert spec.count("median of 3 samples") == 1
    assert spec.count('"level": "L1"') == 1 + len([1 for one in LEVEL_CEILINGS if one.level == "l1"]) * 2


def test_a_kernel_without_dram_traffic_stands_at_the_edge() -> None:
    data = found(whole(everywhere(), RESIDENT))
    (row,) = [row for row in data.dots if row["level"] == rows.NO_TRAFFIC]
    assert row["kernel"] == "resident"
    assert data.x_limits[1] / 1.5 < row["intensity"] < data.x_limits[1]


def test_a_ceiling_has_its_ends_and_says_what_it_is() -> None:
    data = found(whole(everywhere()))
    slopes = [row for row in data.roofs if row["name"] == "DRAM copy, 1"]
    assert [row["gflops"] / row["intensity"] for row in slopes] == [pytest.approx(60), pytest.approx(60)]
    assert slopes[1]["gflops"] == pytest.approx(135.8)
    assert all(row["roof"] for row in slopes)
    assert not any(row["roof"] for row in data.roofs if row["name"] == "DRAM read, 1")
    (flat, _) = [row for row in data.roofs if row["name"] == "f64 AVX-512 FMA, 1"]
    assert flat["ridge_dram"] == pytest.approx(135.8 / 60)
    assert flat["ridge_l1"] == pytest.approx(135.8 / 280)
    assert flat["text"] == "f64 AVX-512 FMA: 136 GFLOP/s (1 thread, 4.18 GHz)"


def test_a_bandwidth_has_a_label_along_its_line_where_no_other_roof_passes() -> None:
    data = found(whole(everywhere()))
    labelled = [row for row in data.roofs if row["labelled"] and row["level"]]
    # that of 170 GB/s is close below that of 200
    names = {row["name"].partition(",")[0] for row in labelled}
    assert names == {"core-L1 triad", "DRAM copy", "L2-L3 read"}
    for row in labelled:
        assert row["at_gflops"] / row["at"] == pytest.approx(row["gflops"] / row["intensity"])
        assert data.x_limits[0] < row["at"] < data.x_limits[1]
        assert -90 < row["angle"] < 0


def test_only_what_occurs_is_in_the_legend() -> None:
    (legend,) = {
        tuple(layer["encoding"]["shape"]["scale"]["domain"])
        for layer in interactive.spec(whole(everywhere()))["layer"]
        if "shape" in layer["encoding"]
    }
    assert legend == ("bound by DRAM",)


def test_the_specification_can_be_zoomed_picked_searched_and_switched() -> None:
    spec = interactive.spec(whole())
    names = {one["name"]: one for one in spec["params"]}
    assert names.keys() >= {
        *("panel", "search", "show_l1", "show_l2", "show_l3", "show_dram", "show_lower", "show_declared"),
        *("zoom", "pick"),
    }
    assert names["zoom"]["bind"] == "scales"
    assert names["pick"]["select"]["type"] == "point"
    tips = [tip["title"] for layer in spec["layer"] for tip in layer["encoding"].get("tooltip", ())]
    assert {"bytes read from DRAM", "time of one call", "in a sentence", "ceiling"} <= set(tips)


def test_each_precision_and_thread_count_is_chosen_by_name() -> None:
    counted = measurement(10, (traffic("a", read=64),), precision="f32")
    single = result("single", precision="f32", counted=counted)
    spec = interactive.spec(whole(everywhere(), single))
    (menu,) = [one for one in spec["params"] if one["name"] == "panel"]
    assert menu["bind"]["options"][1] == "f64, 1 thread"
    assert menu["value"] == menu["bind"]["options"][0]


ANYTHING = {"none": (), "failed": (failed(),), "evil": (result("n\n" + EVIL),)}


@pytest.mark.parametrize("kernels", ANYTHING.values(), ids=ANYTHING.keys())
def test_anything_can_be_specified(kernels: tuple[KernelResult, ...]) -> None:
    spec = interactive.spec(results(*kernels))
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec
    assert interactive.spec(results(*kernels, ceilings=()))


def test_it_compiles_to_vega_and_draws(tmp_path: Path) -> None:
    import vl_convert

    files = interactive.save(whole(), tmp_path, "roofline", interactive.FORMATS)
    assert [file.name for file in files] == ["roofline.vl.json", "roofline.vg.json", "roofline.html"]
    vega_lite, vega = (json.loads(file.read_text()) for file in files[:2])
    assert "/vega-lite/v" in vega_lite["$schema"]
    assert "/vega/v" in vega["$schema"]
    assert {signal["name"] for signal in vega["signals"]} >= {"panel", "show_l1", "search"}
    png = vl_convert.vega_to_png(vega)
    assert png.startswith(b"\x89PNG")
    svg = vl_convert.vega_to_svg(vega)
    assert "f64 AVX-512 FMA: 136 GFLOP/s" in svg


def test_the_page_needs_nothing_from_elsewhere_and_names_stay_text(tmp_path: Path) -> None:
    text = interactive.page(interactive.spec(whole(result(EVIL, ceilings=LEVEL_CEILINGS))))
    tags = re.findall(r"<(?:script|link|img)\b[^>]*>", re.sub(r"(?s)<script>.*?</script>", "<script>", text))
    assert tags == ["<script>", "<script>"]
    assert "default-src 'none'" in text
    assert "alert(1)" in text
    assert "<script>alert(1)" not in text


@pytest.mark.parametrize(
    ("missing", "form", "said"),
    [
        ("altair", "vega-lite", "need altair"),
        ("vl_convert", "vega", "need vl-convert-python"),
        ("vl_convert", "html", "need vl-convert-python"),
    ],
)
def test_without_the_extra_the_error_says_what_to_install(
    missing: str, form: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(BadInput, match=said) as error:
        interactive.save(whole(), tmp_path, "roofline", (form,))
    assert "pip install 'counteroof[interactive]'" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_importing_the_module_imports_neither() -> None:
    import subprocess

    code = (
        "import sys, counteroof.plot.interactive, counteroof.commands.plot\n"
        "assert not {'altair', 'vl_convert'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_versions_that_do_not_meet_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import vl_convert

    def versions() -> Any:
        return ["4.17"]

    monkeypatch.setattr(vl_convert, "get_vegalite_versions", versions)
    with pytest.raises(BadInput, match=r"altair speaks Vega-Lite .*, vl-convert-python 4\.17"):
        interactive.vega({})
