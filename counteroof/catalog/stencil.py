"""Claim and reference of the stencil (``csrc/kernels/stencil.c``)."""

from __future__ import annotations

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, ScalarArg, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "stencil"

EXECUTED = {"stencil7": Formula("8*(n - 2)**3")}

CENTRE, SIDE = 0.4, 0.1


def stencil7(arrays: Arrays, params: Params) -> Expected:
    x, y = arrays["x"], arrays["y"].copy()
    for i in range(1, x.shape[0] - 1):
        around = x[i, 1:-1, :-2] + x[i, 1:-1, 2:]
        around += x[i, :-2, 1:-1]
        around += x[i, 2:, 1:-1]
        around += x[i - 1, 1:-1, 1:-1]
        around += x[i + 1, 1:-1, 1:-1]
        y[i, 1:-1, 1:-1] = CENTRE * x[i, 1:-1, 1:-1] + SIDE * around
    return {"y": y}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel."""
    return (
        entry(
            library,
            FAMILY,
            "stencil7",
            (
                array("x", "f64", ("n", "n", "n"), "random", access="read", seed=1),
                array("y", "f64", ("n", "n", "n"), access="write"),
                ScalarArg("centre", CENTRE),
                ScalarArg("side", SIDE),
                *sizes("n"),
            ),
            title="7-point stencil",
            precision="f64",
            params={"n": 200},
            small={"n": 22},
            flops="8*(n - 2)**3",
            bytes="16*(n - 2)**3",
            source="Williams, Waterman, Patterson (2009): 8 FLOPs, one read and one write of 8 bytes an "
            "inner point, write-allocate not counted",
        ),
    )
