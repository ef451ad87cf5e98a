"""OpenBLAS from the wheel scipy-openblas64: level 3 BLAS and LAPACK in 64-bit integers."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import numpy as np

from .work import ADDRESS, DOUBLE, INT, LONG, Hook, Missing, work


def openblas() -> ctypes.CDLL:
    found = importlib.util.find_spec("scipy_openblas64")
    if found is None or found.origin is None:
        raise Missing("OpenBLAS (PyPI: scipy-openblas64)")
    return ctypes.CDLL(str(Path(found.origin).with_name("lib") / "libscipy_openblas64_.so"))


def matrix(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, n))


def whole(value: int) -> ctypes.c_long:
    return ctypes.c_long(value)


@work("OpenBLAS", "dgemm")
def dgemm(hook: Hook) -> bytes:
    n = 300
    a, b, c = matrix(n), matrix(n, 1), np.zeros((n, n))
    multiply = hook(
        openblas(), "scipy_cblas_dgemm64_", None,
        *(INT, INT, INT, LONG, LONG, LONG, DOUBLE, ADDRESS, LONG, ADDRESS, LONG, DOUBLE, ADDRESS, LONG),
    )  # fmt: skip
    for transposed in (111, 112):
        multiply(
            101, transposed, 111, n, n, n, 1.5, a.ctypes.data, n, b.ctypes.data, n, 0.5, c.ctypes.data, n
        )
    return c.tobytes()


@work("OpenBLAS", "dgetrf, dgetrs")
def lu(hook: Hook) -> bytes:
    n = 200
    a, b, pivots, info = matrix(n), matrix(n, 1), np.zeros(n, np.int64), whole(-1)
    size = ctypes.byref(whole(n))
    hook(openblas(), "scipy_dgetrf_64_", None, *[ADDRESS] * 6)(
        size, size, a.ctypes.data, size, pivots.ctypes.data, ctypes.byref(info)
    )
    assert info.value == 0
    hook(openblas(), "scipy_dgetrs_64_", None, *[ADDRESS] * 9, LONG)(
        b"N", size, size, a.ctypes.data, size, pivots.ctypes.data, b.ctypes.data, size, ctypes.byref(info), 1
    )
    assert np.allclose(matrix(n).T @ b.T, matrix(n, 1).T)
    return a.tobytes() + pivots.tobytes() + b.tobytes()


@work("OpenBLAS", "dsyev")
def dsyev(hook: Hook) -> bytes:
    n = 80
    a, values, scratch, info = matrix(n), np.zeros(n), np.zeros(34 * n), whole(-1)
    size = ctypes.byref(whole(n))
    hook(openblas(), "scipy_dsyev_64_", None, *[ADDRESS] * 9, LONG, LONG)(
        b"V", b"L", size, a.ctypes.data, size, values.ctypes.data, scratch.ctypes.data,
        ctypes.byref(whole(34 * n)), ctypes.byref(info), 1, 1,
    )  # fmt: skip
    assert info.value == 0
    return a.tobytes() + values.tobytes()


@work("OpenBLAS", "zgesdd")
def singular_values(hook: Hook) -> bytes:
    m, n = 60, 40
    a = np.random.default_rng(2).random((n, m)) + 1j * np.random.default_rng(3).random((n, m))
    s, u, vt = np.zeros(n), np.zeros((m, m), complex), np.zeros((n, n), complex)
    scratch, reals, wholes, info = (
        np.zeros(20000, complex),
        np.zeros(20000),
        np.zeros(8 * n, np.int64),
        whole(-1),
    )
    hook(openblas(), "scipy_zgesdd_64_", None, *[ADDRESS] * 15, LONG)(
        b"A", ctypes.byref(whole(m)), ctypes.byref(whole(n)), a.ctypes.data, ctypes.byref(whole(m)),
        s.ctypes.data, u.ctypes.data, ctypes.byref(whole(m)), vt.ctypes.data, ctypes.byref(whole(n)),
        scratch.ctypes.data, ctypes.byref(whole(20000)), reals.ctypes.data, wholes.ctypes.data,
        ctypes.byref(info), 1,
    )  # fmt: skip
    assert info.value == 0
    return s.tobytes() + u.tobytes() + vt.tobytes()
