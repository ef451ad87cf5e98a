"""Denormal numbers: seen by the processor's flags, and what flushing them saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.count.base import Denormals
from counteroof.count.denormals import OPERAND, OPERANDS_FLUSHED, RESULTS_FLUSHED, UNDERFLOW
from counteroof.formula import Formula
from counteroof.machine.topology import detect
from counteroof.run.execute import execute
from counteroof.spec import KernelSpec, LibrarySpec, ScalarArg, array
from tests.compiled import needs, shared

pytestmark = [pytest.mark.x86_64, needs("gcc")]

CODE = """
    #include <immintrin.h>
    void scale(double *x, double by, long n) { for (long i = 0; i < n; i++) x[i] *= by; }
    void add(double *x, double by, long n) { for (long i = 0; i < n; i++) x[i] += by; }
    void flushing(double *x, double by, long n)
    {
        unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040);
        scale(x, by, n);
    }
    void asking(double *x, double by, long n) { x[0] = _mm_getcsr() & 0x3f; }
"""


def seen(folder: Path, symbol: str, start: float, by: float) -> Denormals:
    spec = KernelSpec(
        name=symbol,
        library=LibrarySpec(path=str(shared(folder, CODE, "-fno-builtin"))),
        symbol=symbol,
        signature=f"void {symbol}(double *x, double by, long n)",
        args=(
            array("x", "f64", "n", "arange", start=start, step=0.0),
            ScalarArg("by", by),
            ScalarArg("n", Formula("n")),
        ),
        params={"n": (1001,)},
    )
    (case,) = spec.cases()
    task = "counteroof.count.instrument:count"
    run = execute(case, tasks=[task], options={"machine": detect(), "detail": "flops"}, timing=False)
    assert run.failure is None, run.failure
    found = run.measurements[0].denormals
    assert found is not None
    return found


def test_ordinary_numbers_leave_no_trace(tmp_path: Path) -> None:
    assert seen(tmp_path, "scale", 1.5, 1.25) == Denormals(False, False, False, False)


def test_flags_of_before_are_none_of_the_call(tmp_path: Path) -> None:
    assert seen(tmp_path, "asking", 1.0, 0.0) == Denormals(False, False, False, False)


def test_a_denormal_operand(tmp_path: Path) -> None:
    found = seen(tmp_path, "add", 5e-324, 1.0)
    assert (found.operand, found.underflow) == (True, False)
    assert found.seconds is not None
    assert found.flushed_seconds is not None
    assert 0 < found.flushed_seconds < 1


def test_a_result_that_is_denormal_and_rounded(tmp_path: Path) -> None:
    found = seen(tmp_path, "scale", 1.1e-300, 1.3e-20)
    assert (found.operand, found.underflow) == (False, True)


def test_a_kernel_that_flushes_itself_has_nothing_to_gain(tmp_path: Path) -> None:
    found = seen(tmp_path, "flushing", 1.1e-300, 1.3e-20)
    assert (found.operands_flushed, found.results_flushed) == (True, True)
    assert found.underflow
    assert found.seconds is None


def test_bits_are_those_of_the_manual() -> None:
    assert (OPERAND, UNDERFLOW, OPERANDS_FLUSHED, RESULTS_FLUSHED) == (1 << 1, 1 << 4, 1 << 6, 1 << 15)
