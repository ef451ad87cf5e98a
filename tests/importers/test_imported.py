"""What importers share: numbers with their rounding, agreement, labels, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof import results as results_file
from counteroof.count.base import Count, FlopClass
from counteroof.importers import imported
from counteroof.importers.imported import Contradiction, Kernel, Said, agreed, number

from ..factories import bandwidth, compute


@pytest.mark.parametrize(
    ("text", "value", "error"),
    [
        ("17", 17, 0),
        ("0.0908", 0.0908, 5e-5),
        ("1,234,567", 1_234_567, 0),
        ("1,234.5", 1234.5, 0.05),
        ("1.457989e+01", 14.57989, 5e-6),
        ("3.341458e+09", 3_341_458_000, 500),
        ("18685492.000000", 18_685_492, 5e-7),
        (".5", 0.5, 0.05),
        ("10e+00", 10, 0.5),
    ],
)
def test_a_number_knows_how_far_it_may_have_been_rounded(text: str, value: float, error: float) -> None:
    said = number(text, "here")
    assert said is not None
    assert said.value == pytest.approx(value)
    assert said.error == pytest.approx(error)
    assert isinstance(said.value, int) == (value == int(value))


@pytest.mark.parametrize(
    "text", ["", "nan", "inf", "1,23", "12,34,567", "1.234.567", "97,32", "1e999", "9" * 400, "x", "1 2"]
)
def test_what_is_no_number_or_could_be_two_is_none(text: str) -> None:
    assert number(text, "here") is None


def test_statements_that_agree_give_the_most_precise() -> None:
    printed, exact = Said(0.0908, 5e-5, "metric"), Said(0.090796, 5e-7, "table")
    assert agreed("time", [None, printed, exact]) is exact
    assert agreed("time", [None]) is None


def test_statements_that_disagree_are_refused_with_both() -> None:
    with pytest.raises(Contradiction) as refused:
        agreed("FLOPs of f", [Said(200_000_111, 0, "events"), Said(3e8, 1e4, "rate")])
    assert str(refused.value) == (
        "FLOPs of f is said in two ways that disagree: 200_000_111 (events) and 300_000_000 (rate); export "
        "it again from one run"
    )


def test_a_product_has_the_errors_of_both() -> None:
    made = imported.product(Said(100, 1, "a"), Said(2, 0.1, "b"), "c")
    assert (made.value, made.where) == (200, "c")
    assert made.error == pytest.approx(12.1)


def test_what_is_not_said_is_unavailable_with_its_reason() -> None:
    kernel = imported.result(Kernel(name="f", counter="tool", library="file"), ())
    assert kernel.flops.value is None
    assert kernel.flops.reason == "the file does not say it"
    assert kernel.dram_bytes.value is None
    assert (kernel.seconds, kernel.cache) == (None, "unknown")


def test_a_kernel_is_placed_under_the_ceilings_of_its_precision() -> None:
    counts = {
        "flops": imported.count(Said(1000, 0, "x"), "tool", None),
        "dram_read_bytes": imported.count(Said(6000, 0, "x"), "tool", None),
        "dram_write_bytes": imported.count(Said(2000, 0, "x"), "tool", None),
    }
    one = Kernel(name="f", counter="tool", library="file", seconds=(2e-7,), precision="f32", counts=counts)
    kernel = imported.result(one, (bandwidth("DRAM", 80), compute("f32 FMA", 100, "f32")))
    assert kernel.placement is not None
    assert kernel.placement.intensity == pytest.approx(0.125)
    assert kernel.placement.fraction == pytest.approx(0.5)
    assert kernel.flops.status == "imported"
    assert kernel.flops.source == "tool: x"


def test_kernels_of_the_same_label_are_numbered(tmp_path: Path) -> None:
    kernels = [imported.result(Kernel(name=name, counter="t", library="f"), ()) for name in "aba"]
    run = imported.results(imported.machine("m", "c"), kernels, tmp_path / "file.csv")
    assert [kernel.label for kernel in run.kernels] == ["a[1]", "b", "a[2]"]
    assert run.machine.notes == ("imported from file.csv",)


def test_imported_results_are_a_results_file(tmp_path: Path) -> None:
    kernel = imported.result(Kernel(name="f", counter="tool", library="file", seconds=(1.0,)), ())
    run = imported.results(imported.machine("m", "c"), [kernel], tmp_path / "x")
    results_file.save(run, tmp_path / "results.json")
    assert results_file.load(tmp_path / "results.json") == run
    assert run.machine.logical_cpus is None


def test_findings_hold_as_far_as_the_file_says_enough() -> None:
    roofs = (
        bandwidth("DRAM", 50),
        compute("f64 AVX2 FMA", 60, "f64", "AVX2", mix="FMA"),
        compute("f64 scalar FMA", 15, "f64", "scalar", mix="FMA"),
    )
    counts = {
        "flops": Count(10**9, "imported", "tool"),
        "dram_bytes": Count(10**6, "imported", "tool"),
    }
    scalar = (FlopClass("f64", 0, "any", 10**9),)
    said = Kernel(name="f", counter="t", library="f", seconds=(0.1,), counts=counts, flops_by=scalar)
    finding, note = imported.result(said, roofs).findings
    assert finding.rule == "not vectorised"
    assert finding.gain == pytest.approx(4)
    assert (note.rule, note.severity) == ("between ceilings", "note")
    # a GPU's counters tell no width
    unknown = (FlopClass("f64", None, "any", 10**9),)
    silent = Kernel(name="f", counter="t", library="f", seconds=(0.1,), counts=counts, flops_by=unknown)
    assert imported.result(silent, roofs).findings == (note,)
