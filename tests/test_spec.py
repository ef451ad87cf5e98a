"""The claims themselves: sizes, sweeps, labels, declared values."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import counteroof
from counteroof.errors import BadInput, FormulaError, SpecError
from counteroof.formula import Formula
from counteroof.spec import (
    ArrayArg,
    Declared,
    Init,
    KernelSpec,
    LibrarySpec,
    ScalarArg,
    array,
)

TRIAD = KernelSpec(
    name="triad",
    library=LibrarySpec(sources=("triad.c",)),
    symbol="triad",
    params={"n": (20_000_000,)},
    small={"n": 1000},
    args=(
        array("a", "f64", "n"),
        array("b", "f64", "n", "random"),
        array("c", "f64", "n", "random", seed=1),
        ScalarArg("s", 3.0),
        ScalarArg("n", Formula("n")),
    ),
    declared=Declared(Formula("2*n"), Formula("24*n"), "McCalpin"),
)


def test_a_kernel_with_one_size_has_one_case_named_after_it() -> None:
    (case,) = TRIAD.cases()
    assert case.label == "triad"
    assert case.params == {"n": 20_000_000}
    assert (case.declared_flops, case.declared_bytes) == (40_000_000, 480_000_000)
    assert case.array_bytes == 480_000_000


def test_the_small_size_replaces_only_what_it_names() -> None:
    kernel = replace(TRIAD, params={"n": (20_000_000,), "m": (3,)})
    (case,) = kernel.cases("small")
    assert case.params == {"n": 1000, "m": 3}


def test_a_kernel_without_a_small_size_says_so() -> None:
    with pytest.raises(BadInput, match="kernel triad has no small size"):
        replace(TRIAD, small={}).cases("small")


def test_a_kernel_without_parameters_is_the_same_at_every_size() -> None:
    kernel = KernelSpec(name="f", library=LibrarySpec(path="libf.so"), symbol="f", args=())
    assert kernel.cases("small") == kernel.cases()
    assert kernel.cases()[0].declared_flops is None


def test_several_values_make_a_sweep_with_labels_that_differ() -> None:
    kernel = replace(TRIAD, params={"n": (10, 20), "m": (1,), "k": (3, 4)})
    assert [case.label for case in kernel.cases()] == [
        "triad[n=10,k=3]",
        "triad[n=10,k=4]",
        "triad[n=20,k=3]",
        "triad[n=20,k=4]",
    ]


def test_overrides_replace_values_and_may_sweep() -> None:
    assert [case.params["n"] for case in TRIAD.cases(overrides={"n": 5})] == [5]
    assert [case.label for case in TRIAD.cases(overrides={"n": (5, 6)})] == ["triad[n=5]", "triad[n=6]"]


def test_an_override_of_an_unknown_parameter_names_those_there_are() -> None:
    with pytest.raises(BadInput, match="no parameter 'm'; its parameters are: n"):
        TRIAD.cases(overrides={"m": 5})


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_an_override_that_makes_an_impossible_shape_is_refused(n: float) -> None:
    with pytest.raises(SpecError, match=r"kernel triad.args.a.shape.*positive"):
        TRIAD.cases(overrides={"n": n})


def test_a_shape_beyond_memory_is_refused_with_both_sizes() -> None:
    with pytest.raises(SpecError, match=r"arrays of 24000000000000000 bytes for n = 10{15};.*memory"):
        TRIAD.cases(overrides={"n": 10**15})


def test_a_sweep_of_too_many_cases_is_refused() -> None:
    with pytest.raises(BadInput, match="2000 combinations"):
        TRIAD.cases(overrides={"n": range(1, 2001)})


def test_shapes_and_bytes_follow_the_formulas() -> None:
    matrix = array("a", "c64", ["n", "n//2", 3])
    assert matrix.shape_at({"n": 10}) == (10, 5, 3)
    assert matrix.bytes_at({"n": 10}) == 10 * 5 * 3 * 8
    with pytest.raises(FormulaError, match="is 0, not a positive extent"):
        matrix.shape_at({"n": 1})


def test_init_values_fill_in_defaults_and_evaluate_formulas() -> None:
    init = Init("csr_indices", {"rows": Formula("2*n"), "cols": 7, "nnz_per_row": Formula("n//2")})
    assert init.values({"n": 10}) == {"rows": 20, "cols": 7, "nnz_per_row": 5, "seed": 0}
    assert Init("random").values({}) == {"low": None, "high": None, "seed": 0}


def test_buffers_count_among_the_arrays() -> None:
    kernel = replace(TRIAD, buffers=(ArrayArg("work", "f32", (Formula("n"),)),))
    assert [array.name for array in kernel.arrays] == ["a", "b", "c", "work"]


def test_specs_travel_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(TRIAD)) == TRIAD
    case = TRIAD.cases()[0]
    assert pickle.loads(pickle.dumps(case)) == case


def test_the_package_gives_the_public_names_on_first_use() -> None:
    from counteroof import spec

    assert counteroof.load is spec.load
    assert counteroof.kernel is spec.kernel
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        counteroof.nothing  # noqa: B018
