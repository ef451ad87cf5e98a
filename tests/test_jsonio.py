"""Dataclasses to JSON and back, with every mistake of a file on one list."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from counteroof import jsonio
from counteroof.errors import BadInput, Problem


@dataclass(frozen=True)
class Inner:
    size: int
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    value: float | int | None
    level: Literal["dram", "l3"]
    inner: tuple[Inner, ...]
    table: Mapping[str, int]
    flag: bool = False


SAMPLE = Outer("a", 2**70, "l3", (Inner(1, 0.1), Inner(2)), {"n": 3}, True)


def read(data: object) -> tuple[Outer | None, list[Problem]]:
    problems: list[Problem] = []
    return jsonio.from_json(Outer, data, "outer", problems), problems


def test_round_trip_is_exact() -> None:
    data = json.loads(json.dumps(jsonio.to_json(SAMPLE)))
    value, problems = read(data)
    assert problems == []
    assert value == SAMPLE
    assert isinstance(value, Outer)
    assert isinstance(value.value, int)


def test_all_mistakes_are_reported_with_their_paths() -> None:
    data = jsonio.to_json(SAMPLE)
    data["level"] = "l4"
    data["inner"] = [{"size": True}, {"size": 1, "colour": 2}, 7]
    data["table"] = {"n": 1.5}
    data["flag"] = None
    del data["name"]
    value, problems = read(data)
    assert value is None
    assert [str(problem) for problem in problems] == [
        "outer.name: found nothing; expected a string",
        "outer.level: found \"l4\"; expected one of 'dram', 'l3'",
        "outer.inner[0].size: found true; expected an integer",
        "outer.inner[1].colour: found a key nobody knows; expected one of size, share",
        "outer.inner[2]: found 7; expected an object",
        "outer.table.n: found 1.5; expected an integer",
        "outer.flag: found null; expected true or false",
    ]


def test_a_key_with_a_default_may_be_missing() -> None:
    data = jsonio.to_json(SAMPLE)
    del data["flag"]
    value, problems = read(data)
    assert problems == []
    assert value is not None
    assert value.flag is False


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_with_their_path(number: float) -> None:
    with pytest.raises(ValueError, match=r"inner\[1\]\.share is -?(nan|inf)"):
        jsonio.to_json(Outer("a", 1, "l3", (Inner(1), Inner(2, number)), {}))


@pytest.mark.parametrize(
    "text",
    ['{"a": NaN}', '{"a": Infinity}', '{"a": 1e999}', f'{{"a": 1{"0" * 400}}}', "{", "\xff", "[" * 100_000],
)
def test_a_file_that_is_not_json_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=r"results .*x\.json (is not JSON|cannot be read)"):
        jsonio.read_file(path, "results")


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        jsonio.read_file(tmp_path / "x.json", "results")


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    jsonio.write_file(path, {"old": 1})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        jsonio.write_file(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.json"
    jsonio.write_file(path, [1])
    other = tmp_path / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "No such file"),
        (b"\x7fELF\xff", "a byte that is not UTF-8 at offset 4"),
        (b"[1", "is not JSON"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused_with_what_was_expected(
    tmp_path: Path, content: bytes | None, found: str
) -> None:
    path = tmp_path / "given"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        jsonio.read_file(path, "results file")
    assert found in str(caught.value)
    assert "expected a file of JSON that counteroof wrote" in str(caught.value)
    assert "\n" not in str(caught.value)
