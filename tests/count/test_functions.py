"""FLOPs by function of built-in kernels and of small compiled ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.catalog import kernels
from counteroof.count.base import FunctionFlops, Measurement
from counteroof.formula import Formula
from counteroof.machine.topology import detect
from counteroof.run.execute import execute
from counteroof.spec import KernelCase, KernelSpec, LibrarySpec, ScalarArg, array
from tests.compiled import needs, shared

pytestmark = pytest.mark.x86_64


def counted(case: KernelCase) -> Measurement:
    options = {"machine": detect(), "detail": "flops"}
    run = execute(case, tasks=["counteroof.count.instrument:count"], options=options, timing=False)
    assert run.failure is None, run.failure
    return run.measurements[0]


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_functions_of_every_kernel_add_up_to_the_total(kernel) -> None:  # type: ignore[no-untyped-def]
    measurement = counted(kernel.cases(size="small")[0])
    assert sum(one.flops for one in measurement.flops_by_function) == measurement.flops.value


@needs("gcc")
def test_calls_into_other_libraries_and_remainders_are_told(tmp_path: Path) -> None:
    code = """
        #include <math.h>
        void f(double *restrict y, const double *restrict x, long n)
        {
            for (long i = 0; i < n; i++) y[i] = x[i] * x[i] + x[i];
            y[0] = cbrt(y[0]);
        }
    """
    flags = ("-O3", "-g", "-mavx2", "-mfma", "-ffp-contract=off", "-fno-builtin", "-lm")
    library = shared(tmp_path, code, *flags)
    spec = KernelSpec(
        name="f",
        library=LibrarySpec(path=str(library)),
        symbol="f",
        signature="void f(double *y, const double *x, long n)",
        args=(array("y", "f64", "n"), array("x", "f64", "n", "random"), ScalarArg("n", Formula("n"))),
        params={"n": (1003,)},
    )
    (case,) = spec.cases()
    first, *others = counted(case).flops_by_function
    assert (Path(first.library), first.symbol, first.flops) == (library, "f", 2 * 1003)
    assert first.narrower_flops in (2 * 3, 2 * 1 + 2 * 2)  # the last three elements
    assert [Path(one.library).name.startswith("libm") for one in others] == [True] * len(others)
    assert others
    assert all(isinstance(one, FunctionFlops) and one.flops > 0 for one in others)
