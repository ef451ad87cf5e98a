"""The built-in kernels as a set: names, claims, sizes, and one text for each signature."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from counteroof.catalog import EXECUTED, FAMILIES, executed_flops, kernels
from counteroof.catalog.variant import available_levels, library_path
from counteroof.library import open_library, resolve_signature
from counteroof.spec import KernelSpec

SOURCES = Path(__file__).parents[2] / "csrc" / "kernels"
KERNELS = {kernel.name: kernel for kernel in kernels()}
MIB = 1 << 20


def intensity(kernel: KernelSpec, **params: int) -> float:
    (case,) = kernel.cases("default", params)
    assert case.declared_flops is not None
    assert case.declared_bytes is not None
    return case.declared_flops / case.declared_bytes


def test_all_families_have_a_source_a_header_and_a_module_of_one_name() -> None:
    modules = sorted(family.__name__.rpartition(".")[2] for family in FAMILIES)
    assert modules == [path.stem for path in sorted(SOURCES.glob("*.c"))]
    assert modules == [path.stem for path in sorted(SOURCES.glob("*.h"))]
    assert modules == sorted(family.FAMILY for family in FAMILIES)


def test_names_and_titles_are_unique() -> None:
    assert len(KERNELS) == len(kernels()) == len({kernel.title for kernel in kernels()})


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("vector_add", {}, 1 / 12),
        ("matmul", {"n": 600}, 100),
        ("triad", {}, 0.083),
        ("csr_spmv", {}, 0.22),
        ("stencil7", {}, 0.5),
        ("fft", {}, 2.08),
        ("gemm_naive", {"n": 144}, 12),
        ("gemm_tuned", {"n": 504}, 42),
        ("thomas_naive", {}, 0.65),
        ("thomas_interleaved", {}, 0.65),
        ("sobel_motion", {}, 1.5),
        ("biquad_naive", {}, 1.0),
        ("biquad_interleaved", {}, 1.0),
        ("depthwise3x3", {}, 2.25),
        ("squared_norm", {}, 0.5),
        ("dot", {}, 0.25),
    ],
)
def test_declared_intensity(name: str, params: dict[str, int], expected: float) -> None:
    assert intensity(KERNELS[name], **params) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_claim_says_where_it_comes_from(kernel: KernelSpec) -> None:
    assert kernel.declared.source
    assert kernel.precision in ("f32", "f64")
    assert kernel.reference


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_small_size_fits_in_a_small_second_level_cache(kernel: KernelSpec) -> None:
    (case,) = kernel.cases("small")
    work = sum(array.bytes_at(case.params) for array in kernel.arrays if array.name == "work")
    assert case.array_bytes - work < MIB / 4
    assert case.array_bytes < MIB / 2


# About arithmetic, reuse in cache or conflicts in the second level, or too slow beyond it.
IN_CACHE = {
    "matmul",
    "gemm_naive",
    "nbody",
    "crank_nicolson",
    "column_walk_power_of_two",
    "column_walk_padded",
}


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_default_size_is_beyond_a_cache_of_32_mib_or_meant_to_be_inside(kernel: KernelSpec) -> None:
    (case,) = kernel.cases()
    assert (case.array_bytes < 16 * MIB) == (kernel.name in IN_CACHE)
    if kernel.name not in IN_CACHE:
        assert 1.5 * 32 * MIB < case.array_bytes < 500 * MIB


def test_every_kernel_has_its_executed_flops() -> None:
    assert set(KERNELS) <= set(EXECUTED)
    assert executed_flops("dot", {"n": 100}) == 263
    for kernel in kernels():
        (case,) = kernel.cases("small")
        assert isinstance(executed_flops(kernel.name, case.params), int)


@pytest.mark.parametrize("header", sorted(SOURCES.glob("*.h")), ids=lambda path: path.name)
def test_header_is_prototypes_alone(header: Path) -> None:
    for prototype in header.read_text().split(";")[:-1]:
        assert re.fullmatch(r"\s*(void|float) \w+\([\w\s*,]+\)", prototype)


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_signature_is_not_typed_again(kernel: KernelSpec) -> None:
    assert kernel.signature is None
    assert all(call.signature is None for call in kernel.setup)
    prototypes = (SOURCES / f"{kernel.family}.h").read_text()
    found = re.search(rf"\b{kernel.symbol}\(([^)]*)\)", prototypes)
    assert found
    names = [re.split(r"[\s*]+", parameter)[-1] for parameter in found[1].split(",")]
    assert names == [arg.name for arg in kernel.args]


@pytest.mark.parametrize("level", available_levels())
def test_signature_comes_from_debug_information(level: str) -> None:
    library = open_library(library_path(level))
    for kernel in kernels(level):
        signature = resolve_signature(kernel, library)
        assert [param.name for param in signature.params] == [arg.name for arg in kernel.args]
        assert all(library.signature(call.symbol) for call in kernel.setup)


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_access_of_every_array_is_declared_as_the_prototype_has_it(kernel: KernelSpec) -> None:
    prototypes = (SOURCES / f"{kernel.family}.h").read_text()
    found = re.search(rf"\b{kernel.symbol}\(([^)]*)\)", prototypes)
    assert found
    constant = {re.split(r"[\s*]+", p)[-1] for p in found[1].split(",") if "const" in p}
    assert {array.name for array in kernel.arrays if array.access == "read"} == constant
    assert all(array.access for array in kernel.arrays)


def test_references_do_not_change_their_arrays() -> None:
    from tests.kernels.calling import case, prepare

    for name in KERNELS:
        call = prepare(case(name))
        before = {key: array.copy() for key, array in call.initial.items()}
        call.expected()
        assert all(np.array_equal(before[key], array) for key, array in call.initial.items()), name
