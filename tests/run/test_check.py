"""The comparison with the reference: rounding passes, a wrong term does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counteroof.errors import KernelFailed
from counteroof.run.check import compare, load_reference, tolerance


def differ(wanted: Any, found: Any, rtol: float | None = None, precision: str | None = None) -> str | None:
    return compare({"a": np.asarray(wanted)}, {"a": np.asarray(found)}, None, rtol, precision)


def test_equal_results_agree() -> None:
    assert differ([1.0, 2.0], [1.0, 2.0]) is None
    assert differ([1, 2], [1, 2]) is None


def test_rounding_is_allowed_and_a_wrong_term_is_not() -> None:
    values = np.linspace(1, 2, 1000)
    assert differ(values, values * (1 + 1e-12)) is None
    assert differ(values, values * (1 + 1e-6)) is not None
    single = values.astype("f4")
    assert differ(values, single * np.float32(1 + 1e-6)) is None
    assert differ(values, single * np.float32(1 + 1e-3)) is not None


def test_message_says_how_many_where_and_what() -> None:
    found = np.ones((3, 4))
    found[1, 2] = found[2, 0] = 5
    message = differ(np.ones((3, 4)), found)
    assert message == "a: 2 of 12 elements differ, the first at [1, 2]: expected 1.0, found 5.0 (rtol 1e-09)"


def test_first_difference_is_found_beyond_the_first_chunk() -> None:
    wanted = np.ones(200_000, "f4")
    found = wanted.copy()
    found[150_000] = 2
    assert "the first at [150000]" in str(differ(wanted, found))


def test_all_zero_result_never_passes() -> None:
    rng = np.random.default_rng(1)
    for dtype in ("f2", "f4", "f8", "c8", "c16"):
        wanted = rng.random(1000).astype(dtype)
        assert differ(wanted, np.zeros_like(wanted)) is not None, dtype
        assert differ(wanted, np.zeros_like(wanted), rtol=0.9) is not None, dtype


def test_what_is_left_of_a_cancellation_may_carry_the_rounding_of_its_terms() -> None:
    wanted = np.ones(1000)
    wanted[7] = 1e-15
    found = wanted.copy()
    found[7] = 3e-15
    assert differ(wanted, found) is None
    found[7] = 1e-6
    assert differ(wanted, found) is not None


def test_one_huge_element_hides_nothing() -> None:
    wanted = np.ones(1000)
    wanted[0] = 1e300
    found = wanted.copy()
    found[1] = 2
    assert "the first at [1]" in str(differ(wanted, found))


def test_nan_equals_nan_only() -> None:
    assert differ([np.nan, 1.0], [np.nan, 1.0]) is None
    assert differ([np.nan, 1.0], [1.0, 1.0]) is not None
    assert differ([1.0, 1.0], [np.nan, 1.0]) is not None
    assert differ([np.nan, 1.0], [0.0, 2.0]) is not None


def test_infinities_must_be_met() -> None:
    assert differ([np.inf, -np.inf], [np.inf, -np.inf]) is None
    assert differ([np.inf, 1.0], [-np.inf, 1.0]) is not None
    assert differ([np.inf, 1.0], [1e308, 1.0]) is not None
    assert differ([1.0, 1.0], [np.inf, 1.0]) is not None


def test_zeros_are_met_by_zeros() -> None:
    assert differ([0.0, 0.0], [0.0, -0.0]) is None
    assert differ([0.0, 0.0], [0.0, 1e-300]) is not None


def test_integers_must_be_equal() -> None:
    assert differ([1, 2], [1, 3]) is not None
    assert differ([2**62, 2], [2**62 + 1, 2], rtol=0.5) is not None


def test_tolerance_is_the_specs_if_it_gives_one() -> None:
    assert differ([1.0], [1.05], rtol=0.1) is None
    assert differ([1.0], [1.0 + 1e-12], rtol=0.0) is not None


def test_tolerance_follows_the_wider_of_type_and_precision() -> None:
    assert tolerance(np.dtype("f8")) < tolerance(np.dtype("f4")) < tolerance(np.dtype("f2"))
    assert tolerance(np.dtype("f8"), "f32") == tolerance(np.dtype("f4"))
    assert tolerance(np.dtype("f4"), "f64") == tolerance(np.dtype("f4"))
    assert tolerance(np.dtype("i8"), "f32") == 0


def test_returned_value() -> None:
    assert compare({"return": 2.0}, {}, np.float64(2)) is None
    assert compare({"return": 2.0}, {}, np.float32(2.000001)) is None
    message = compare({"return": 2.0}, {}, np.float64(3))
    assert message == "the returned value: expected 2.0, found 3.0 (rtol 1e-09)"
    with pytest.raises(KernelFailed, match="the function returns nothing"):
        compare({"return": 2.0}, {}, None)
    with pytest.raises(KernelFailed, match="2 returned values"):
        compare({"return": [1.0, 2.0]}, {}, np.float64(1))


def test_all_differences_are_told() -> None:
    message = compare({"a": np.ones(2), "b": np.ones(2)}, {"a": np.zeros(2), "b": np.zeros(2)}, None)
    assert message is not None
    assert message.startswith("a: 2 of 2")
    assert "; b: 2 of 2" in message


def test_reference_is_found_by_module_and_function() -> None:
    assert load_reference("math:hypot")(3, 4) == 5  # type: ignore[arg-type]
    for name, told in (
        ("no.such.module:f", "ModuleNotFoundError"),
        ("math:none", "none"),
        ("math:pi", "a float"),
    ):
        with pytest.raises(KernelFailed, match=told) as caught:
            load_reference(name)
        assert caught.value.kind == "input"
