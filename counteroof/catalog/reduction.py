"""Claims and references of the reductions (``csrc/kernels/reduction.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "reduction"

EXECUTED = {"dot": Formula("2*n + 63"), "squared_norm": Formula("2*n + 63")}

CHUNK = 1 << 20


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Return the scalar product in double precision, a piece at a time."""
    return sum(
        float(np.dot(a[i : i + CHUNK].astype(np.float64), b[i : i + CHUNK].astype(np.float64)))
        for i in range(0, a.size, CHUNK)
    )


def dot(arrays: Arrays, params: Params) -> Expected:
    return {"return": _dot(arrays["a"], arrays["b"])}


def squared_norm(arrays: Arrays, params: Params) -> Expected:
    return {"return": _dot(arrays["a"], arrays["a"])}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernels.

    Sums of tens of millions of f32 numbers in f32 carry a relative error of some 1e-5: hence the tolerance.
    """
    return (
        entry(
            library,
            FAMILY,
            "dot",
            (
                array("a", "f32", "n", "random", access="read", seed=1),
                array("b", "f32", "n", "random", access="read", seed=2),
                *sizes("n"),
            ),
            title="dot product",
            precision="f32",
            params={"n": 24_000_000},
            small={"n": 24_576},
            flops="2*n",
            bytes="8*n",
            source="textbook: a multiplication and an addition, two numbers of 4 bytes an element",
            rtol=1e-3,
        ),
        entry(
            library,
            FAMILY,
            "squared_norm",
            (array("a", "f32", "n", "random", access="read", seed=1), *sizes("n")),
            title="squared norm",
            precision="f32",
            params={"n": 48_000_000},
            small={"n": 49_152},
            flops="2*n",
            bytes="4*n",
            source="textbook: a multiplication and an addition, one number of 4 bytes an element",
            rtol=1e-3,
        ),
    )
