"""``plot`` draws every kind of picture in every format, and says in one line why it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counteroof import results as results_file
from counteroof.commands import BAD_INPUT, DONE, main
from counteroof.results import KernelResult, Results

from ..factories import N, instrumented, modelled, result, results, triad

Captured = pytest.CaptureFixture[str]

COUNTED = triad(
    core_l1_bytes=instrumented(24 * N), l1_l2_bytes=modelled(32 * N), l2_l3_bytes=modelled(48 * N)
)


def kernel(name: str, n: int) -> KernelResult:
    return result(name, label=f"{name}[n={n}]", params={"n": n}, counted=COUNTED)


RESULTS = results(kernel("triad", N), kernel("triad", 2 * N), kernel("copy", N))


def saved(folder: Path, found: Results = RESULTS) -> Path:
    results_file.save(found, folder / "results.json")
    return folder


MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", ["roofline", "hierarchical", "cache-aware", "path", "waterfall"])
def test_every_kind_comes_in_every_format(kind: str, tmp_path: Path, capsys: Captured) -> None:
    formats = [argument for name in MAGIC for argument in ("--format", name)]
    assert main(["plot", str(saved(tmp_path)), "--kind", kind, *formats]) == DONE
    for name, magic in MAGIC.items():
        assert (tmp_path / f"{kind}.{name}").read_bytes().startswith(magic)
    assert str(tmp_path / f"{kind}.pdf") in capsys.readouterr().out


def test_interactive_formats_come_beside_the_others(tmp_path: Path) -> None:
    formats = [argument for name in ("svg", "vega-lite", "vega", "html") for argument in ("--format", name)]
    assert main(["plot", str(saved(tmp_path)), *formats]) == DONE
    names = ["results.json", "roofline.html", "roofline.svg", "roofline.vg.json", "roofline.vl.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_only_the_chosen_kernels_are_drawn(tmp_path: Path) -> None:
    arguments = ["plot", str(saved(tmp_path)), "--kernel", "copy*", "--format", "svg"]
    assert main(arguments) == DONE
    drawn = (tmp_path / "roofline.svg").read_text()
    assert "label:copy" in drawn
    assert "label:triad" not in drawn


def test_two_runs_are_laid_over_one_another(tmp_path: Path) -> None:
    old = saved(tmp_path / "old", replace(RESULTS, kernels=RESULTS.kernels[:1]))
    new = saved(tmp_path / "new")
    assert main(["plot", str(new), "--against", str(old), "--format", "svg"]) == DONE
    assert "hollow:triad" in (new / "against.svg").read_text()


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    gpu = replace(RESULTS, machine=replace(RESULTS.machine, name="a GPU", measured=None))
    folders = [str(saved(tmp_path / "cpu")), str(saved(tmp_path / "gpu", gpu))]
    out = tmp_path / "both"
    assert main(["plot", *folders, "--format", "svg", "--out", str(out)]) == DONE
    drawn = (out / "roofline.svg").read_text()
    assert "<!-- a GPU: f64, 1 thread -->" in drawn
    assert "<!-- 2-core Zen 5 VM: f64, 1 thread -->" in drawn
    assert "<!-- Rooflines: 2-core Zen 5 VM; a GPU -->" in drawn
    assert main(["plot", *folders, "--kind", "waterfall", "--format", "svg", "--out", str(out)]) == DONE
    assert main(["plot", *folders, "--format", "html"]) == BAD_INPUT
    assert main(["plot", *folders, "--against", folders[0]]) == BAD_INPUT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernel", "nothing"], "no kernel of"),
        (["--kind", "path", "--kernel", "copy*"], "no kernel has more than one size"),
        (["--kind", "path", "--against", "old"], "leave one of the two out"),
        (["--against", "old"], "old"),
        (["--kind", "waterfall", "--format", "html"], "--kind roofline only"),
        (["--against", "old", "--format", "vega"], "--kind roofline only"),
        (["--kind", "pie"], "pie"),
        (["--format", "gif"], "gif"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_overwritten(
    arguments: list[str], said: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path)
    (tmp_path / "roofline.png").write_bytes(b"kept")
    assert main(["plot", str(tmp_path), *arguments]) == BAD_INPUT
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert (tmp_path / "roofline.png").read_bytes() == b"kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "roofline.png"]


def test_stated_peaks_are_drawn_where_their_precision_and_threads_are(
    tmp_path: Path, capsys: Captured
) -> None:
    sheet = tmp_path / "sheet.toml"
    sheet.write_text('name = "sheet"\n[[ceiling]]\ngb_per_s = 90\nthreads = 1\n')
    arguments = ["plot", str(saved(tmp_path)), "--format", "svg", "--peak-file", str(sheet)]
    assert main(arguments) == DONE
    assert "peak:sheet DRAM" in (tmp_path / "roofline.svg").read_text()
    sheet.write_text('name = "sheet"\n[[ceiling]]\ngb_per_s = 90\nthreads = 64\n')
    assert main(arguments) == BAD_INPUT
    assert "sheet DRAM with 64 threads" in capsys.readouterr().err
    assert main([*arguments, "--kind", "path"]) == BAD_INPUT
    assert "--peak-file draws into a roofline as png, svg, pdf, not --kind path" in capsys.readouterr().err
