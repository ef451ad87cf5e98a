"""``counteroof run`` with the measuring replaced: what is written, printed and returned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counteroof import results as results_file
from counteroof import session
from counteroof.cachesim.options import ModelOptions
from counteroof.commands import BAD_INPUT, DONE, FAILED, INTERRUPTED, _machine, main
from counteroof.machine.model import Capacity
from counteroof.results import KernelResult, Results
from tests import factories

SPEC = """
[library]
path = "libm.so.6"
[[kernel]]
name = "sqrt"
params = { n = 4 }
small = { n = 2 }
args = { x = "n" }
[[kernel]]
name = "exp"
args = { x = 1.0 }
"""

TIMING = SimpleNamespace(pyperf_json={"version": "1.0", "benchmarks": []})
Captured = pytest.CaptureFixture[str]
Install = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "kernels.toml"
    path.write_text(SPEC)
    return str(path)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put results by hand in the place of measuring; returns what was asked to be measured."""

    def install(*kernels: KernelResult, interrupt: bool = False) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def measure(
            cases: Any, machine: Any, settings: Any, progress: Any = None
        ) -> Iterator[tuple[Results, Any]]:
            asked.append({"cases": cases, "machine": machine, "settings": settings, "progress": progress})
            for number in range(len(kernels)):
                run = SimpleNamespace(case=SimpleNamespace(label=kernels[number].label), timing=TIMING)
                yield factories.results(*kernels[: number + 1]), run
            if interrupt:
                raise KeyboardInterrupt

        def draw(results: Results, folder: Path) -> tuple[Path, ...]:
            files = (folder / "roofline.png", folder / "roofline.svg")
            for file in files:
                file.touch()
            return files

        monkeypatch.setattr(session, "measure", measure)
        monkeypatch.setattr("counteroof.plot.roofline.save", draw)  # takes seconds
        monkeypatch.setattr(_machine, "for_run", lambda file, threads: (factories.machine(), None))
        return asked

    return install


def test_a_run_writes_four_files_prints_the_table_and_names_the_files(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured
) -> None:
    measured(factories.result("triad"), factories.result("exp"))
    out = tmp_path / "deep" / "out"
    assert main(["run", spec, "--out", str(out)]) == DONE
    names = ["report.html", "results.json", "roofline.png", "roofline.svg", "table.md"]
    assert sorted(path.name for path in out.iterdir()) == ["pyperf", *names]
    assert sorted(path.name for path in (out / "pyperf").iterdir()) == ["exp.json", "triad.json"]
    text = capsys.readouterr().out
    assert "triad" in text
    assert all(str(out / name) in text.replace("\n", "") for name in names)
    assert len(results_file.load(out / "results.json").kernels) == 2


def test_with_json_standard_output_holds_the_results_and_nothing_else(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured
) -> None:
    measured(factories.result("triad"))
    assert main(["run", spec, "--out", str(tmp_path), "--json"]) == DONE
    streams = capsys.readouterr()
    assert json.loads(streams.out) == json.loads((tmp_path / "results.json").read_text())
    assert streams.err == ""


def test_a_failed_kernel_makes_the_exit_code_1_and_the_others_are_kept(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured
) -> None:
    measured(factories.failed("sqrt", message="SIGSEGV in sqrt"), factories.result("exp"))
    assert main(["run", spec, "--out", str(tmp_path)]) == FAILED
    assert "SIGSEGV in sqrt" in capsys.readouterr().out
    assert len(results_file.load(tmp_path / "results.json").kernels) == 2


def test_ctrl_c_keeps_what_is_done(spec: str, measured: Install, tmp_path: Path, capsys: Captured) -> None:
    measured(factories.result("sqrt"), interrupt=True)
    out = tmp_path / "out"
    assert main(["run", spec, "--out", str(out)]) == INTERRUPTED
    assert len(results_file.load(out / "results.json").kernels) == 1
    assert (out / "table.md").exists()
    assert "interrupted; 1 of 2 kernels were not measured" in capsys.readouterr().err


def test_ctrl_c_before_the_first_kernel_says_so_and_writes_nothing(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured
) -> None:
    measured(interrupt=True)
    out = tmp_path / "out"
    assert main(["run", spec, "--out", str(out)]) == INTERRUPTED
    assert list(out.iterdir()) == []
    streams = capsys.readouterr()
    assert streams.err == "counteroof: interrupted; none of 2 kernels was measured\n"
    assert streams.out == ""


def test_results_are_on_disk_after_every_kernel(
    spec: str, measured: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(factories.result("sqrt"), factories.result("exp"))
    counts = []
    save = results_file.save

    def watch(results: Results, path: Path) -> None:
        save(results, path)
        counts.append(len(results_file.load(path).kernels))

    monkeypatch.setattr(results_file, "save", watch)
    assert main(["run", spec, "--out", str(tmp_path)]) == DONE
    assert counts[:2] == [1, 2]


def test_options_reach_what_is_measured(spec: str, measured: Install, tmp_path: Path) -> None:
    calls = measured(factories.result("sqrt"))
    options = [
        "--kernel",
        "sq*",
        "--set",
        "n=3,5",
        "--threads",
        "2",
        "--detail",
        "flops",
        "--time-limit",
        "7",
    ]
    assert main(["run", spec, "--out", str(tmp_path), *options]) == DONE
    (asked,) = calls
    assert [(case.label, case.spec.threads) for case in asked["cases"]] == [
        ("sqrt[n=3]", 2),
        ("sqrt[n=5]", 2),
    ]
    assert (asked["settings"].detail, asked["settings"].time_limit) == ("flops", 7.0)
    assert asked["settings"].model == ModelOptions()
    assert asked["progress"] is None
    model = ["--frames", "pagemap", "--tlb", "--reuse-distances"]
    for count in range(2, 5):
        assert main(["run", spec, "--out", str(tmp_path), *model[:count]]) == DONE
    assert [call["settings"].model for call in calls[1:]] == [
        ModelOptions("pagemap"),
        ModelOptions("pagemap", tlb=True),
        ModelOptions("pagemap", tlb=True, reuse_distances=True),
    ]


def test_prefetchers_are_switched_on_for_the_machine(spec: str, measured: Install, tmp_path: Path) -> None:
    asked = measured(factories.result())
    for text, pairs, streams in (
        ("adjacent", True, False),
        ("stream,adjacent", True, True),
        ("none", False, False),
    ):
        assert main(["run", spec, "--out", str(tmp_path), "--prefetch", text]) == DONE
        prefetch = asked[-1]["machine"].prefetch
        assert (prefetch.adjacent, prefetch.stream) == (pairs, streams)


def test_shared_caches_have_what_was_measured_if_that_is_asked_for(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = measured(factories.result())
    assert main(["run", spec, "--out", str(tmp_path), "--capacity", "measured"]) == BAD_INPUT
    assert "what the caches hold has not been measured here" in capsys.readouterr().err
    assert asked == []
    found = replace(factories.machine(), capacities=(Capacity("L3", 10 << 20, 16e-9),))
    monkeypatch.setattr(_machine, "for_run", lambda file, threads: (found, None))
    for text, size in (("nominal", 32 << 20), ("measured", 10 << 20)):
        assert main(["run", spec, "--out", str(tmp_path), "--capacity", text]) == DONE
        assert asked[-1]["machine"].caches[-1].bytes == size


def test_a_prefetcher_nobody_knows_is_bad_input(spec: str, measured: Install, capsys: Captured) -> None:
    asked = measured(factories.result())
    assert main(["run", spec, "--prefetch", "stride"]) == BAD_INPUT
    assert "unknown prefetcher 'stride'; expected none, or of adjacent, stream" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kernel", "nothing"], "no kernel matches 'nothing'; the kernels are: sqrt, exp"),
        (["--set", "m=3"], "no kernel has a parameter 'm'; there are: n"),
        (["--size", "small", "--set", "n=x"], "found 'x' in 'n=x'"),
    ],
)
def test_options_that_fit_no_kernel_are_bad_input(
    spec: str, options: list[str], message: str, capsys: Captured
) -> None:
    assert main(["run", spec, *options]) == BAD_INPUT
    assert message in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured
) -> None:
    asked = measured(factories.result("sqrt"))
    (tmp_path / "file").write_text("")
    assert main(["run", spec, "--out", str(tmp_path / "file" / "out")]) == BAD_INPUT
    assert "choose another folder with --out" in capsys.readouterr().err
    assert asked == []


def test_one_kernel_is_explained_after_the_table(
    spec: str, measured: Install, tmp_path: Path, capsys: Captured
) -> None:
    asked = measured(factories.result("sqrt"), factories.result("exp"))
    assert main(["run", spec, "--out", str(tmp_path), "--explain", "exp"]) == DONE
    text = capsys.readouterr().out
    assert text.index("sources") < text.index("35 times left of the ridge") < text.index("written:")
    assert main(["run", spec, "--out", str(tmp_path), "--explain", "expp"]) == BAD_INPUT
    assert "no kernel 'expp' to explain (did you mean 'exp'?) in this run" in capsys.readouterr().err
    assert len(asked) == 1
