"""Claims and references of the tridiagonal ensembles (``csrc/kernels/tridiagonal.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "tridiagonal"

EXECUTED = {
    "thomas_naive": Formula("systems*(9*length - 6)"),
    "thomas_interleaved": Formula("systems*(9*length - 6)"),
}

CHUNK = 1024


def _solve(lower: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve systems side by side: row i of each at [i, :]."""
    x, w = np.empty_like(rhs), np.empty_like(rhs)
    w[0], x[0] = upper[0] / diagonal[0], rhs[0] / diagonal[0]
    for i in range(1, len(rhs)):
        pivot = diagonal[i] - lower[i] * w[i - 1]
        w[i] = upper[i] / pivot
        x[i] = (rhs[i] - lower[i] * x[i - 1]) / pivot
    for i in range(len(rhs) - 2, -1, -1):
        x[i] -= w[i] * x[i + 1]
    return x


def thomas_interleaved(arrays: Arrays, params: Params) -> Expected:
    return {"x": _solve(*(arrays[name] for name in ("lower", "diagonal", "upper", "rhs")))}


def thomas_naive(arrays: Arrays, params: Params) -> Expected:
    x = np.empty_like(arrays["rhs"])
    for start in range(0, len(x), CHUNK):
        part = slice(start, start + CHUNK)
        coefficients = (arrays[name][part].T.copy() for name in ("lower", "diagonal", "upper", "rhs"))
        x[part] = _solve(*coefficients).T
    return {"x": x}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernels; the diagonal exceeds the sum of its neighbours: no pivoting is needed."""

    def variant(name: str, shape: tuple[str, str], work: str, title: str) -> KernelSpec:
        return entry(
            library,
            FAMILY,
            name,
            (
                array("lower", "f32", shape, "random", access="read", seed=1),
                array("diagonal", "f32", shape, "random", access="read", seed=2, low=3, high=4),
                array("upper", "f32", shape, "random", access="read", seed=3),
                array("rhs", "f32", shape, "random", access="read", seed=4, low=1, high=2),
                array("x", "f32", shape, access="write"),
                array("work", "f32", work, access="write"),
                *sizes("systems", "length"),
            ),
            title=title,
            precision="f32",
            params={"systems": 8_192, "length": 512},
            small={"systems": 16, "length": 512},
            flops="13*systems*length",
            bytes="20*systems*length",
            source="author's estimate: 13 FLOPs an unknown; four numbers of 4 bytes read and one written",
            rtol=1e-4,
        )

    return (
        variant("thomas_naive", ("systems", "length"), "length", "MultiThomas, naive"),
        variant("thomas_interleaved", ("length", "systems"), "length*systems", "MultiThomas, interleaved"),
    )
