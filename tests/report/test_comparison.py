"""A comparison as a table: before and after stay apart in every form, and what was allowed is printed."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from counteroof import names
from counteroof.compare import RunComparison, compare
from counteroof.diagnose.base import Finding
from counteroof.report import comparison, forms
from counteroof.results import Results, Seconds

from ..factories import bandwidth, failed, measurement, result, results, traffic

N = 20_000_000


def samples(base: float) -> Seconds:
    return Seconds.of(tuple(base * (1 + 0.001 * i) for i in range(6)))


def run(*kernels: Any, created: str = "2026-01-02T03:04:05+00:00") -> Results:
    return replace(results(*kernels), created=created)


FINDING = Finding("write-allocate", "advice", "lines of a are read", "non-temporal stores", 1.33)
BEFORE = run(replace(result(seconds=0.0125, findings=(FINDING,)), seconds=samples(0.0125)), result("old"))
REPAIRED = measurement(
    2 * N, (traffic("a", write=8 * N, size=8 * N), traffic("b", read=8 * N), traffic("c", read=8 * N))
)
AFTER = run(
    replace(result(seconds=0.0094, counted=REPAIRED), seconds=samples(0.0094)),
    result("new"),
    failed(),
    created="2026-02-03T04:05:06+00:00",
)


@pytest.fixture
def found() -> RunComparison:
    return compare(BEFORE, AFTER)


def drawn(width: int, *comparisons: RunComparison) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False).print(comparison.terminal(comparisons, width))
    return stream.getvalue()


def test_every_number_stands_on_its_side(found: RunComparison) -> None:
    record = forms.records(comparison.grid([found]))[0]
    assert record["kernel"] == "triad"
    assert (record["seconds_before"], record["seconds_after"]) == (
        pytest.approx(0.0125 * 1.0025),
        pytest.approx(0.0094 * 1.0025),
    )
    assert record["seconds_ratio"] == pytest.approx(0.752, rel=1e-3)
    assert 0.74 < record["seconds_low"] < record["seconds_ratio"] < record["seconds_high"] < 0.76
    assert record["p"] < 0.01
    assert record["verdict"] == "faster"
    assert (record["executed_flops_before"], record["executed_flops_after"]) == (2 * N, 2 * N)
    assert (record["actual_bytes_before"], record["actual_bytes_after"]) == (32 * N, 24 * N)
    assert record["intensity_before"] == pytest.approx(1 / 16)
    assert record["intensity_after"] == pytest.approx(1 / 12)
    assert (record["bound_before"], record["bound_after"]) == ("dram", "dram")
    assert record["ledger"] == "write-allocate (a): 160 MB to 0 B"
    assert (record["findings_gone"], record["findings_new"]) == ("write-allocate", None)


def test_kernels_of_one_side_stand_at_the_end_without_a_guess(found: RunComparison) -> None:
    rows = forms.records(comparison.grid([found]))[1:]
    assert [(row["kernel"], row["verdict"]) for row in rows] == [
        ("old", "only before"),
        ("new", "only after"),
        ("spoiled", "only after"),
    ]
    assert rows[0]["seconds_after"] is None
    assert rows[1]["seconds_before"] is None
    assert rows[1]["executed_flops_after"] == 2 * N


def test_the_terminal_has_before_above_after(found: RunComparison) -> None:
    lines = drawn(110, found).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("triad"))
    assert " ".join(lines[at].split()) == (
        "triad 12.5 ms 0.752 (0.750 to 0.754) 40.0 M 640 MB 0.0625 3.20 83 % DRAM"
    )
    assert " ".join(lines[at + 1].split()) == "9.42 ms faster 40.0 M 480 MB 0.0833 4.26 82 % DRAM"


@pytest.mark.parametrize("width", [80, 110, 200])
def test_what_changed_stands_below(width: int, found: RunComparison) -> None:
    text = " ".join(drawn(width, found).split())
    for words in (
        "- triad: write-allocate (a): 160 MB to 0 B",
        "- triad: gone: lines of a are read",
        "- only before: old",
        "- only after: new",
        "before: 2-core Zen 5 VM. counteroof 0.1.0, 2026-01-02T03:04:05+00:00",
        "after: 2-core Zen 5 VM. counteroof 0.1.0, 2026-02-03T04:05:06+00:00",
        "Mann and Whitney's test at p < 0.05",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("width", "there", "gone"), [(100, "GFLOP/s", "~"), (80, "FLOP/B", "GFLOP/s"), (72, "of roof", "bound")]
)
def test_a_narrow_terminal_does_without_the_least_telling_columns(
    width: int, there: str, gone: str, found: RunComparison
) -> None:
    text = drawn(width, found)
    head = text.partition("───")[0]
    assert there in head
    assert gone not in head
    assert max(len(line) for line in text.partition("\n\n")[0].splitlines()) <= width
    for word in ("12.5 ms", "9.42 ms", "faster", "640 MB", "480 MB"):
        assert word in text


def test_changes_of_no_weight_are_not_printed_but_are_in_the_data() -> None:
    other = measurement(
        2 * N,
        (
            traffic("a", read=8 * N + 64, write=8 * N, allocate=8 * N + 64),
            traffic("b", read=8 * N),
            traffic("c", read=8 * N),
        ),
    )
    found = compare(results(result()), results(result(counted=other)))
    assert "ledger lines that changed" not in drawn(110, found)
    assert forms.records(comparison.grid([found]))[0]["ledger"] == (
        "write-allocate (a): 160 MB to 160 MB, +64 B"
    )


def test_what_was_allowed_is_printed() -> None:
    found = compare(results(result()), results(result(threads=2)), allow=["threads"])
    assert "compared in spite of\n - triad: threads 1 against 2" in drawn(110, found)
    assert "## Compared in spite of" in comparison.markdown([found])


def test_a_roof_that_moved_between_the_runs_is_told() -> None:
    slow, fast = (bandwidth("DRAM", value) for value in (50, 60))
    before = results(result("a", ceilings=(slow,)), result("b", ceilings=(slow,)), ceilings=(slow,))
    after = results(result("a", ceilings=(fast,)), result("b", ceilings=(fast,)), ceilings=(fast,))
    line = "the roof DRAM was 50.0 GB/s before and 60.0 GB/s after: shares of it moved with it"
    assert comparison.reading(compare(before, after)).count(line) == 1
    assert not any("the roof" in line for line in comparison.reading(compare(before, before)))


def test_a_failure_is_told_with_its_side() -> None:
    found = compare(results(result("spoiled", precision="f32", params={})), results(failed()))
    assert "- spoiled after: crash: SIGSEGV" in drawn(110, found)


def test_several_runs_against_one_are_told_apart(found: RunComparison) -> None:
    records = forms.records(comparison.grid([found, found]))
    assert {record["run"] for record in records} == {
        "1: 2026-02-03T04:05:06+00:00",
        "2: 2026-02-03T04:05:06+00:00",
    }
    assert len(records) == 8
    assert "2 of 2" in drawn(110, found, found)
    assert "## Findings (2)" in comparison.markdown([found, found])


def test_documents_have_the_table_and_what_stands_below(found: RunComparison) -> None:
    text = comparison.markdown([found])
    assert "| **0.752** |" in text
    assert "- triad: write-allocate (a): 160 MB to 0 B" in text
    assert "<strong>faster</strong>" in comparison.document(forms.html, [found])
    assert r"\textbf{faster}" in comparison.document(forms.latex, [found])
    assert json.loads(forms.json(comparison.grid([found])))[0]["verdict"] == "faster"


def test_many_names_are_made_readable_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = names.demangle
    monkeypatch.setattr(names, "demangle", lambda all_: calls.append(1) or real(all_))
    run = results(*(result(f"_Z{len(f'k{i}')}k{i}i") for i in range(20)))
    found = compare(run, run)
    assert [row["kernel"] for row in forms.records(comparison.grid([found]))][7] == "k7(int)"
    drawn(120, found)
    assert len(calls) <= 3
