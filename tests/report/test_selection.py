"""Which columns a table has."""

from __future__ import annotations

import pytest

from counteroof.errors import BadInput
from counteroof.report import selection

from ..factories import CEILINGS, compute, machine, measurement, result, results, triad


def test_names_and_presets_may_be_mixed_and_each_column_comes_once() -> None:
    keys = selection.columns_named(["gain", "performance-report", "kernel"])
    assert keys == ("gain", *selection.PERFORMANCE_REPORT)


def test_an_unknown_name_is_refused_with_the_nearest_and_all_others() -> None:
    with pytest.raises(BadInput, match=r"no column 'kernle' .did you mean 'kernel'\?.*presets are usual"):
        selection.columns_named(["kernle"])


def test_every_name_of_a_preset_and_of_the_listing_is_a_column() -> None:
    known = selection.available(results(result()))
    for keys in selection.PRESETS.values():
        assert set(keys) <= set(known)
    listed = [line.partition(":")[0] for line in selection.listing() if ":" in line.partition("=")[0]]
    assert listed == list(known)


def test_every_column_has_a_value_and_a_text_for_every_kernel() -> None:
    for kernel in (result(), result(seconds=None, counted=measurement(None), declared=None)):
        for column in selection.available(results(kernel)).values():
            value, text = column.value(kernel), column.text(kernel)
            assert text or column.key in ("error", "notes"), column.key
            if column.numeric and value is None:
                assert text in ("-", "- (- / -)"), column.key


def test_the_share_of_peak_is_that_of_the_highest_compute_roof_of_the_precision() -> None:
    kernel = result(seconds=0.01)  # 40 MFLOP in 10 ms
    assert selection.share_of_peak(kernel, machine()) == pytest.approx(4.0 / 135.8)


def test_a_peak_of_another_number_of_threads_is_none() -> None:
    kernel = result(threads=2, counted=triad())
    assert selection.share_of_peak(kernel, machine()) is None
    both = machine((*CEILINGS, compute("f64 AVX-512 FMA", 270, "f64", threads=2)))
    assert selection.share_of_peak(kernel, both) == pytest.approx(40e6 / 0.0125 / 270e9)
