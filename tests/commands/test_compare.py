"""``counteroof compare``: from files to a table, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from counteroof import results as results_file
from counteroof.commands import BAD_INPUT, DONE, main
from counteroof.results import Results, Seconds
from tests import factories

Captured = pytest.CaptureFixture[str]


def timed(base: float, name: str = "triad", **fields: int) -> Results:
    kernel = factories.result(name, **fields)
    samples = tuple(base * (1 + 0.001 * i) for i in range(6))
    return factories.results(replace(kernel, seconds=Seconds.of(samples)), factories.result("copy"))


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str, str]:
    paths = []
    for name, run in (("a", timed(1.0)), ("b", timed(0.5)), ("threads", timed(0.5, threads=2))):
        results_file.save(run, tmp_path / name / "results.json")
        paths.append(str(tmp_path / name))
    return paths[0], paths[1], paths[2]


def test_folders_are_compared_kernel_by_kernel(runs: tuple[str, str, str], capsys: Captured) -> None:
    assert main(["compare", runs[0], runs[1]]) == DONE
    text = capsys.readouterr().out
    assert "faster" in text
    assert "copy" in text


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "latex", "html"])
def test_every_form_has_the_verdict(form: str, runs: tuple[str, str, str], capsys: Captured) -> None:
    assert main(["compare", runs[0], runs[1], "--format", form]) == DONE
    text = capsys.readouterr().out
    assert "faster" in text
    if form == "csv":
        assert next(csv.DictReader(io.StringIO(text)))["verdict"] == "faster"
    if form == "json":
        assert json.loads(text)[0]["verdict"] == "faster"


def test_several_runs_are_each_compared_with_the_first(runs: tuple[str, str, str], capsys: Captured) -> None:
    assert main(["compare", *runs, "--allow", "threads", "--format", "csv"]) == DONE
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["run"][0] for row in rows] == ["1", "1", "2", "2"]


def test_unlike_runs_are_bad_input_that_says_which_and_what_to_do(
    runs: tuple[str, str, str], capsys: Captured
) -> None:
    assert main(["compare", runs[0], runs[2]]) == BAD_INPUT
    streams = capsys.readouterr()
    assert streams.err == (
        "counteroof: not comparable: triad: threads 1 against 2; allow it with --allow threads, or choose "
        "kernels with --kernel\n"
    )
    assert streams.out == ""
    assert main(["compare", runs[0], runs[2], "--kernel", "copy"]) == DONE
    assert main(["compare", runs[0], runs[2], "--allow", "size,threads"]) == DONE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--allow", "treads"], "cannot allow 'treads' (did you mean 'threads'?)"),
        (["--kernel", "nothing*"], "matches 'nothing*'; the kernels are: triad, copy"),
        (["--alpha", "0"], "--alpha"),
    ],
)
def test_bad_options_end_with_one_message(
    arguments: list[str], message: str, runs: tuple[str, str, str], capsys: Captured
) -> None:
    assert main(["compare", runs[0], runs[1], *arguments]) == BAD_INPUT
    assert message in capsys.readouterr().err


def test_one_run_alone_is_bad_input(runs: tuple[str, str, str], capsys: Captured) -> None:
    assert main(["compare", runs[0]]) == BAD_INPUT
    assert main(["compare", runs[0], "no/such/folder"]) == BAD_INPUT
    assert "no/such/folder" in capsys.readouterr().err
