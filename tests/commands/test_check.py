"""``counteroof check``: exit codes, the table, the JUnit file."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from counteroof import results as results_file
from counteroof.commands import BAD_INPUT, DONE, FAILED, main
from counteroof.count.base import Count
from counteroof.results import Seconds
from tests import factories

Captured = pytest.CaptureFixture[str]

SLOW = replace(factories.result(), seconds=Seconds.of(tuple(1 + 0.001 * i for i in range(6))))
FAST = replace(factories.result(), seconds=Seconds.of(tuple(0.5 + 0.001 * i for i in range(6))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    one_more = replace(factories.triad(), flops=Count(2 * factories.N + 1, "instrumented", "engine"))
    copy = factories.result("copy")
    runs = {
        "baseline": (FAST, copy),
        "same": (FAST, copy),
        "slow": (SLOW, copy),
        "moved": (factories.result(counted=one_more), copy),
        "threads": (factories.result(threads=2), copy),
    }
    for name, kernels in runs.items():
        results_file.save(factories.results(*kernels), tmp_path / f"{name}.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_holds_ends_with_0(folder: Path, capsys: Captured) -> None:
    assert main(["check", "same.json", "--against", "baseline.json"]) == DONE
    assert "all of 16 numbers of 2 kernels hold" in capsys.readouterr().out


def test_what_moved_ends_with_1_and_a_table(folder: Path, capsys: Captured) -> None:
    assert main(["check", "moved.json", "--against", "baseline.json"]) == FAILED
    text = capsys.readouterr().out
    (row,) = (line for line in text.splitlines() if line.startswith("triad"))
    assert row.split() == ["triad", "FLOPs", "moved", "40_000_000", "40_000_001", "exactly"]
    assert main(["check", "moved.json", "--against", "baseline.json", "--kernel", "copy"]) == DONE


def test_time_counts_only_if_asked_for(folder: Path) -> None:
    assert main(["check", "slow.json", "--against", "baseline.json"]) == DONE
    assert main(["check", "slow.json", "--against", "baseline.json", "--time", "10%"]) == FAILED
    assert (
        main(["check", "slow.json", "--against", "baseline.json", "--time", "1.5", "--kernel", "triad"])
        == DONE
    )


@pytest.mark.parametrize(("run", "code", "failures"), [("same", DONE, "0"), ("moved", FAILED, "1")])
def test_junit_is_written_whatever_the_outcome(folder: Path, run: str, code: int, failures: str) -> None:
    command = ["check", f"{run}.json", "--against", "baseline.json", "--junit", "out/junit.xml"]
    assert main(command) == code
    (suite,) = ElementTree.parse(folder / "out" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("16", failures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["same.json"], "--against"),
        (["same.json", "--against", "nothing.json"], "nothing.json"),
        (["threads.json", "--against", "baseline.json"], "triad: threads 1 against 2; allow it with --allow"),
        (["same.json", "--against", "baseline.json", "--bytes", "much"], "'much' is not a share such as 1%"),
        (["same.json", "--against", "baseline.json", "--time", "-1"], "'-1' is not a share"),
        (["same.json", "--against", "baseline.json", "--allow", "x"], "cannot allow 'x'"),
        (["same.json", "--against", "baseline.json", "--kernel", "x*"], "matches 'x*'"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(
    folder: Path, arguments: list[str], message: str, capsys: Captured
) -> None:
    junit = folder / "junit.xml"
    junit.write_text("old")
    assert main(["check", *arguments, "--junit", str(junit)]) == BAD_INPUT
    streams = capsys.readouterr()
    assert message in streams.err
    assert streams.out == ""
    assert junit.read_text() == "old"


def test_a_junit_file_that_cannot_be_written_is_bad_input(folder: Path, capsys: Captured) -> None:
    (folder / "file").write_text("")
    command = ["check", "same.json", "--against", "baseline.json", "--junit", "file/junit.xml"]
    assert main(command) == BAD_INPUT
    assert "cannot write file/junit.xml" in capsys.readouterr().err
