"""``counteroof import``: files of other tools in, a folder of results out."""

from __future__ import annotations

from pathlib import Path

import pytest

import counteroof
from counteroof import results as results_file
from counteroof.commands import BAD_INPUT, DONE, main
from counteroof.machine import store
from tests import factories
from tests.importers import test_likwid, test_likwid_marker, test_ncu, test_perf_stat

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gpu.csv").write_text(test_ncu.raw(test_ncu.RAW_VALUES))
    (tmp_path / "likwid.txt").write_text(test_likwid.CASCADE_LAKE)
    (tmp_path / "marker.txt").write_text(test_likwid_marker.TWO_THREADS)
    (tmp_path / "stat.txt").write_text(test_perf_stat.ZEN4)
    store.save(factories.machine(), tmp_path / "machine.json")
    results_file.save(factories.results(factories.result("triad")), tmp_path / "cpu" / "results.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_gpu_kernel_and_a_cpu_kernel_stand_in_one_table(folder: Path, capsys: Captured) -> None:
    assert main(["import", "gpu.csv"]) == DONE
    text = capsys.readouterr().out
    assert "saxpy" in text
    assert "counteroof-import/results.json" in text.replace("\n", "")
    names = sorted(path.name for path in (folder / "counteroof-import").iterdir())
    assert {"results.json", "table.md", "roofline.png", "roofline.svg"} <= set(names)
    command = ["table", "cpu", "counteroof-import", "--format", "csv", "--columns", "kernel,machine,fraction"]
    assert main(command) == DONE
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(",")[0] for row in rows] == ["kernel", "triad", "saxpy"]
    assert '"A100, compute capability 8.0"' in rows[2]


def test_several_machines_in_a_file_have_a_folder_each(folder: Path, capsys: Captured) -> None:
    assert main(["import", "likwid.txt", "--out", "both"]) == DONE
    runs = {path.parent.name: results_file.load(path) for path in folder.glob("both/*/results.json")}
    assert sorted(run.kernels[0].name for run in runs.values()) == ["saxpy_cpu", "saxpy_gpu"]
    assert all(name.isascii() and "/" not in name for name in runs)


def test_what_the_file_does_not_say_may_be_given(folder: Path) -> None:
    events = "RETIRED_INSTRUCTIONS,RETIRED_SSE_AVX_FLOPS_ALL"
    assert main(["import", "marker.txt", "--events", events, "--out", "m"]) == DONE
    assert results_file.load(folder / "m" / "results.json").kernels[0].flops.value == 12
    options = ["--name", "gauss", "--threads", "2", "--machine", "machine.json", "--out", "s"]
    assert main(["import", "stat.txt", *options]) == DONE
    run = results_file.load(folder / "s" / "results.json")
    assert (run.kernels[0].name, run.kernels[0].threads) == ("gauss", 2)
    assert run.machine.ceilings == factories.machine().ceilings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.txt"], "nothing.txt cannot be read"),
        (["machine.json"], "machine.json is of no kind that can be imported"),
        (["gpu.csv", "--kind", "nvprof"], "unknown kind 'nvprof'"),
        (["gpu.csv", "--machine", "nothing.json"], "nothing.json"),
        (["marker.txt", "--events", "A"], "1 events are named, but marker.txt has 2 counters"),
        (["stat.txt", "--out", "stat.txt/out"], "choose another folder with --out"),
    ],
)
def test_bad_input_ends_with_2_and_nothing_is_overwritten(
    folder: Path, arguments: list[str], message: str, capsys: Captured
) -> None:
    old = folder / "counteroof-import" / "results.json"
    old.parent.mkdir()
    old.write_text("old")
    assert main(["import", *arguments]) == BAD_INPUT
    streams = capsys.readouterr()
    assert message in streams.err
    assert streams.out == ""
    assert old.read_text() == "old"


def test_the_same_from_python(folder: Path) -> None:
    cpu, gpu = counteroof.import_results("likwid.txt")
    assert cpu["saxpy_cpu"].flops.value == 200_000_111
    assert gpu.results.machine.name.startswith("GPU 0")
    (run,) = counteroof.import_results("stat.txt", name="gauss", machine="machine.json")
    assert list(run.to_frame()["kernel"]) == ["gauss"]
