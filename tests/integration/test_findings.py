"""The built-in kernels: each shows what it is in the set to show, and those that are well written do not.

Counts alone, on caches and roofs that are the same everywhere: small caches, so that small arrays do not fit,
and nothing is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from counteroof import catalog
from counteroof.assemble import assemble
from counteroof.catalog.variant import available_levels
from counteroof.diagnose import Finding, arithmetic, claims, fits, inner, memory, waiting
from counteroof.diagnose.base import Size
from counteroof.formula import Formula
from counteroof.machine.boundary import boundaries
from counteroof.machine.model import Machine
from counteroof.results import KernelResult
from counteroof.run.execute import execute
from tests import factories
from tests.factories import bandwidth, compute
from tests.integration.counting import CLIENT, Caches, caches

pytestmark = pytest.mark.skipif("v3" not in available_levels(), reason="the kernels counted need AVX2")

SMALL = caches(
    "small",
    (8 << 10, 8, "non-inclusive", False),
    (16 << 10, 8, "non-inclusive", False),
    (32 << 10, 16, "victim", True),
)

COMPUTE = tuple(
    compute(f"{precision} {isa} {mix}", value, precision, isa, mix=mix, fma=fma)
    for isa, mix, fma, values in (
        ("AVX2", "FMA", True, {"f64": 72.4, "f32": 145}),
        ("AVX2", "ADD+MUL 1:1", False, {"f64": 39.3, "f32": 85.8}),
        ("AVX2", "DIV", None, {"f64": 2.88, "f32": 7.45}),
        ("AVX2", "SQRT", None, {"f64": 1.53, "f32": 5.19}),
        ("SSE", "ADD+MUL 1:1", False, {"f64": 21.3, "f32": 47.0}),
        ("scalar", "FMA", True, {"f64": 16.9, "f32": 18.2}),
        ("scalar", "DIV", None, {"f64": 0.721, "f32": 0.939}),
        ("scalar", "SQRT", None, {"f64": 0.382, "f32": 0.649}),
    )
    for precision, value in values.items()
)
"""As measured on Zen 3 at 3.3 GHz."""


def machine(on: Caches) -> Machine:
    """Return a machine with these caches and roofs in their bytes."""
    conventions = {one.level: f"{one.convention}: made up" for one in boundaries(on)}
    values = {
        "dram": {
            "read": 20,
            "triad": 20,
            "copy": 20,
            "update": 20,
            "copy NT": 20,
            "triad NT": 20,
            "store NT": 20,
        },
        "l3": {"copy": 152},
        "l2": {"copy": 168},
    }
    roofs = tuple(
        bandwidth(f"{level} {mix}", value, level=level, mix=mix, convention=conventions[level])
        for level, mixes in values.items()
        for mix, value in mixes.items()
    )
    return replace(factories.machine((*roofs, *COMPUTE)), caches=on)


@cache
def diagnosed(name: str) -> KernelResult:
    """Return a built-in kernel, counted once."""
    return counted(name, SIZES.get(name, {}), machine(CLIENT if name in BUSY else SMALL))


def counted(name: str, sizes: Mapping[str, int], on: Machine) -> KernelResult:
    """Return a built-in kernel as it is on a machine."""
    (spec,) = (one for one in catalog.kernels("v3") if one.name == name)
    (case,) = spec.cases("small", sizes)
    options = {"detail": "bytes", "machine": on}
    run = execute(case, tasks=["counteroof.count.instrument:count"], options=options, timing=False)
    assert run.failure is None, run.failure
    return assemble(run, on)


SIZES: Mapping[str, Mapping[str, int]] = {
    "transpose_naive": {"rows": 16, "cols": 4_000},
    "transpose_blocked": {"rows": 16, "cols": 4_000},
    "csr_spmv": {"rows": 12_000},
    "thomas_interleaved": {"systems": 64, "length": 512},
    "gather": {"n": 16_384},
    "stencil7": {"n": 130},
    "gemm_naive": {"n": 56},
    "matmul": {"n": 72},
}
"""Where the small size shows nothing even on small caches."""

BUSY = ("gemm_tuned", "gemm_naive", "stencil7", "nbody", "crank_nicolson", "thomas_naive", "biquad_naive")
"""What other things than memory hold back is put on caches of an ordinary size."""

WRITE = memory.WRITE_ALLOCATE_RULE

SHOWN: Mapping[str, str | None] = {
    "vector_add": WRITE,
    "triad": WRITE,
    "copy": WRITE,
    "copy_nontemporal": None,
    "dot": None,
    "squared_norm": None,
    "softmax": WRITE,
    "matmul": inner.CACHE_TRAFFIC,
    "gemm_naive": waiting.RECURRENCE,
    "gemm_tuned": None,
    "csr_spmv": memory.SCATTERED,
    "gather": memory.SCATTERED,
    "stencil7": WRITE,
    "fft": memory.CAPACITY,
    "nbody": arithmetic.DIVISION,
    "thomas_naive": waiting.RECURRENCE,
    "thomas_interleaved": memory.CAPACITY,
    "sobel_motion": WRITE,
    "biquad_naive": waiting.RECURRENCE,
    "biquad_interleaved": WRITE,
    "depthwise3x3": WRITE,
    "crank_nicolson": inner.CACHE_TRAFFIC,
    "column_sum": memory.STRIDED,
    "column_walk_power_of_two": memory.CONFLICT,
    "column_walk_padded": None,
    "transpose_naive": memory.STRIDED,
    "transpose_blocked": WRITE,
    "speed2_aos": memory.STRUCTS,
    "speed2_soa": WRITE,
}
"""What costs each kernel the most time."""


def costs(name: str) -> list[Finding]:
    return [one for one in diagnosed(name).findings if one.severity == "cost"]


def test_every_built_in_kernel_is_in_the_table() -> None:
    assert set(SHOWN) == {spec.name for spec in catalog.kernels("v3")}


@pytest.mark.parametrize("name", SHOWN)
def test_the_first_finding_is_what_the_kernel_shows(name: str) -> None:
    expected = SHOWN[name]
    found = costs(name)
    assert [one.rule for one in found[:1]] == ([] if expected is None else [expected]), found
    assert all(one.gain is not None and one.try_ and one.evidence for one in found)


WELL_WRITTEN = ("copy_nontemporal", "dot", "squared_norm", "gemm_tuned", "column_walk_padded")
REPAIRED = {
    "copy_nontemporal": "copy",
    "gemm_tuned": "gemm_naive",
    "column_walk_padded": "column_walk_power_of_two",
    "transpose_blocked": "transpose_naive",
    "speed2_soa": "speed2_aos",
    "thomas_interleaved": "thomas_naive",
    "biquad_interleaved": "biquad_naive",
}
"""Twins without the fault of the other."""


@pytest.mark.parametrize("name", WELL_WRITTEN)
def test_well_written_kernels_cost_nothing(name: str) -> None:
    assert costs(name) == []


@pytest.mark.parametrize(("repaired", "faulty"), REPAIRED.items())
def test_the_repaired_twin_does_not_have_the_fault(repaired: str, faulty: str) -> None:
    assert SHOWN[faulty] not in [one.rule for one in costs(repaired)]


@pytest.mark.parametrize("rows", [2_000, 1_500, 250])
def test_walks_down_columns_too_long_for_the_first_cache_are_to_exchange_their_loops(rows: int) -> None:
    """Though memory delivers each line once: the second cache holds the lines of a column."""
    plain = machine(CLIENT)
    (l2,) = (one for one in plain.ceilings if one.level == "l2")
    walks = tuple(
        replace(l2, name=f"L1-L2 walk {lines}", mix="walk", value=64 / seconds)
        for lines, seconds in ((1024, 2e-9), (2560, 5e-9))
    )
    on = replace(plain, ceilings=(*plain.ceilings, *walks))
    result = counted("column_walk_padded", {"rows": rows, "cols": 1_000, "ld": 1_000}, on)
    found = [one for one in result.findings if one.rule == memory.STRIDED]
    assert len(found) == (rows > 512)
    for one in found:
        assert one == result.findings[0]
        assert "exchange the loops" in one.try_
        assert one.evidence["stride"] == 8_000


WRONG_FLOPS = {
    "thomas_naive": "9*systems*length - 6*systems",
    "thomas_interleaved": "9*systems*length - 6*systems",
    "sobel_motion": "18*(count - 1)*(height - 2)*(width - 2)",
    "biquad_naive": "9*channels*samples",
    "biquad_interleaved": "9*channels*samples",
    "crank_nicolson": "14*steps*points*contracts",
    # of odd log2(n), where one pass is of another radix
    "fft": "4.05*n*log2(n)",
}
"""Claims of FLOPs that are wrong by more than one percent, and what fits."""


@pytest.mark.parametrize("name", SHOWN)
def test_wrong_claims_of_flops_are_found_with_the_formula_that_fits(name: str) -> None:
    result = diagnosed(name)
    found = [one for one in result.findings if one.rule == claims.FLOPS]
    executed = catalog.executed_flops(name, result.params)
    assert result.flops.value == executed
    assert result.declared is not None
    assert result.declared.flops is not None
    assert bool(found) == (abs(executed - result.declared.flops) > 0.01 * result.declared.flops)
    fitting = [WRONG_FLOPS[name]] if name in WRONG_FLOPS else []
    assert [one.evidence.get("formula that fits") for one in found] == fitting


@pytest.mark.parametrize("name", [name for name in WRONG_FLOPS if name != "fft"])
def test_the_formula_found_at_a_small_size_holds_at_a_large_one(name: str) -> None:
    (spec,) = (one for one in catalog.kernels("v3") if one.name == name)
    (case,) = spec.cases("default")
    value = Formula(WRONG_FLOPS[name]).evaluate(case.params)
    assert value == pytest.approx(catalog.executed_flops(name, case.params), rel=3e-4)
    if name != "crank_nicolson":
        assert value == catalog.executed_flops(name, case.params)


def test_the_claim_of_the_fft_has_one_coefficient_where_log2_is_even() -> None:
    (spec,) = (one for one in catalog.kernels("v3") if one.name == "fft")
    (case,) = spec.cases("default")
    executed = catalog.executed_flops("fft", case.params)
    assert fits.flops_fit("5*n*log2(n)", [Size(case.params, executed)]) == fits.Fit("4.25*n*log2(n)", 0.0)


WRONG_BYTES = {
    "vector_add": "16*n",
    "triad": "32*n",
    "copy": "24*n",
    "softmax": "12*rows*cols",
    "stencil7": "24*n**3",
    "biquad_interleaved": "12*samples*channels",
    "depthwise3x3": "4*channels*(height + 2)*(width + 2) + 8*channels*height*width",
    "column_sum": "64*rows*ld",
    "transpose_naive": "136*rows*cols",
    "transpose_blocked": "24*rows*cols",
    "speed2_aos": "80*n",
    "speed2_soa": "40*n",
}


@pytest.mark.parametrize("name", WRONG_BYTES)
def test_wrong_claims_of_bytes_are_found_with_the_formula_that_fits(name: str) -> None:
    (found,) = (one for one in diagnosed(name).findings if one.rule == claims.BYTES)
    assert found.evidence["formula that fits"] == WRONG_BYTES[name]


@pytest.mark.parametrize("name", ["copy_nontemporal", "dot", "squared_norm", "column_walk_padded"])
def test_right_claims_of_bytes_are_not_doubted(name: str) -> None:
    assert [one for one in diagnosed(name).findings if one.severity == "claim"] == []
