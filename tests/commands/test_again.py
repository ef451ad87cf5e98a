"""``table``, ``plot`` and ``report`` make the same again from a results file."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counteroof import results as results_file
from counteroof.commands import BAD_INPUT, DONE, FAILED, main
from counteroof.report import table
from tests import factories

RESULTS = factories.results(factories.result("triad"), factories.failed("spoiled"))
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    results_file.save(RESULTS, tmp_path / "results.json")
    return tmp_path


def test_a_folder_means_the_results_in_it(folder: Path, capsys: Captured) -> None:
    texts = []
    for argument in (folder, folder / "results.json"):
        assert main(["table", str(argument)]) == DONE
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "triad" in texts[0]


def test_the_default_is_the_folder_a_run_writes(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "counteroof-out").mkdir()
    results_file.save(RESULTS, folder / "counteroof-out" / "results.json")
    monkeypatch.chdir(folder)
    assert main(["table"]) == DONE
    assert "triad" in capsys.readouterr().out


def test_a_table_comes_as_markdown_csv_and_json(folder: Path, capsys: Captured) -> None:
    assert main(["table", str(folder), "--format", "markdown"]) == DONE
    assert capsys.readouterr().out == table.markdown(RESULTS)
    assert main(["table", str(folder), "--format", "csv"]) == DONE
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["kernel"] for row in rows] == ["triad", "spoiled"]
    assert main(["table", str(folder), "--format", "json"]) == DONE
    assert [row["error"] for row in json.loads(capsys.readouterr().out)] == [None, "crash: SIGSEGV"]
    assert main(["table", str(folder), "--format", "latex"]) == DONE
    assert capsys.readouterr().out == table.latex(RESULTS)
    assert main(["table", str(folder), "--format", "html"]) == DONE
    assert capsys.readouterr().out == table.html(RESULTS)


def test_the_columns_of_a_table_are_chosen_by_name(folder: Path, capsys: Captured) -> None:
    assert main(["table", str(folder), "--columns", "seconds, kernel", "--format", "csv"]) == DONE
    assert capsys.readouterr().out == "seconds,kernel\n0.0125,triad\n,spoiled\n"
    assert main(["table", str(folder), "--columns", "performance-report"]) == DONE
    assert "0.0625 (40.0 M / 640 MB)" in capsys.readouterr().out
    assert main(["table", "--columns", "help"]) == DONE
    listing = capsys.readouterr().out
    assert "fraction: of roof\n" in listing
    assert "performance-report = kernel, declared_parts" in listing


def test_an_unknown_column_is_bad_input_that_names_the_nearest(folder: Path, capsys: Captured) -> None:
    assert main(["table", str(folder), "--columns", "kernel,intensiti"]) == BAD_INPUT
    streams = capsys.readouterr()
    assert "no column 'intensiti' (did you mean 'intensity'?)" in streams.err
    assert streams.out == ""
    assert main(["table", str(folder), "--columns", ","]) == BAD_INPUT


def test_several_runs_stand_in_one_table(folder: Path, capsys: Captured) -> None:
    assert main(["table", str(folder), str(folder), "--format", "csv", "--columns", "kernel"]) == DONE
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["kernel"], row["created"]) for row in rows] == [
        (name, RESULTS.created) for name in ("triad", "spoiled", "triad", "spoiled")
    ]


def test_plot_writes_both_pictures_beside_the_results_or_elsewhere(folder: Path, capsys: Captured) -> None:
    assert main(["plot", str(folder)]) == DONE
    assert (folder / "roofline.png").stat().st_size > 0
    assert main(["plot", str(folder), "--out", str(folder / "pictures")]) == DONE
    assert sorted(path.name for path in (folder / "pictures").iterdir()) == ["roofline.png", "roofline.svg"]
    assert str(folder / "pictures" / "roofline.svg") in capsys.readouterr().out


def test_report_writes_all_but_the_results(folder: Path) -> None:
    assert main(["report", str(folder), "--out", str(folder / "again")]) == DONE
    names = ["report.html", "roofline.png", "roofline.svg", "table.md"]
    assert sorted(path.name for path in (folder / "again").iterdir()) == names


@pytest.mark.parametrize("command", ["table", "plot", "report"])
def test_a_damaged_results_file_is_bad_input_with_its_place(
    command: str, folder: Path, capsys: Captured
) -> None:
    path = folder / "results.json"
    path.write_text(path.read_text()[:-100])
    assert main([command, str(path)]) == BAD_INPUT
    assert str(path) in capsys.readouterr().err
    path.write_text('{"schema": "something/1"}')
    assert main([command, str(path)]) == BAD_INPUT
    assert "something/1" in capsys.readouterr().err


def test_one_kernel_is_explained_in_full(folder: Path, capsys: Captured) -> None:
    assert main(["table", str(folder), "--explain", "triad"]) == DONE
    assert "35 times left of the ridge" in capsys.readouterr().out
    assert main(["table", str(folder), "--explain", "triat"]) == BAD_INPUT
    assert capsys.readouterr().err == (
        "counteroof: no kernel 'triat' (did you mean 'triad'?); the kernels are: triad, spoiled\n"
    )


def places(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Give the path of every value in JSON data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize(
    "command",
    [
        ["table", "{}"],
        ["table", "{}", "--columns", "all", "--format", "latex"],
        ["table", "{}", "--explain", "triad"],
        ["compare", "good.json", "{}", "--allow", "precision,size,threads,convention,machine"],
        ["check", "{}", "--against", "good.json", "--time", "5%"],
        ["check", "good.json", "--against", "{}"],
    ],
)
def test_results_with_anything_anywhere_are_used_or_refused(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    results_file.save(RESULTS, tmp_path / "good.json")
    text = (tmp_path / "good.json").read_text()
    everywhere = list(places(json.loads(text)))
    chance = random.Random(" ".join(command))
    codes = set()
    for _ in range(60):
        data = json.loads(text)
        *path, last = chance.choice(everywhere)
        at = data
        for key in path:
            at = at[key]
        at[last] = chance.choice([None, 0, -1, 1.5, 1e308, 10**400, "", "x\0\x1b", [], {}, True])
        (tmp_path / "odd.json").write_text(json.dumps(data))
        codes.add(main([part.format("odd.json") for part in command]))
        assert "Traceback" not in capsys.readouterr().err
    assert BAD_INPUT in codes
    assert codes <= {DONE, FAILED, BAD_INPUT}
