"""What NumPy makes of the kernels in ``openblas.toml``."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any]"]


def dgemm(arrays: Arrays, params: dict[str, Any]) -> Arrays:
    return {"c": arrays["a"] @ arrays["b"]}


def dgetrf(arrays: Arrays, params: dict[str, Any]) -> Arrays:
    """Gaussian elimination with the largest pivot of each column; Fortran's matrix is the transpose."""
    a = arrays["a"].T.copy()
    pivots = np.empty_like(arrays["ipiv"])
    for k in range(len(a)):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        pivots[k] = pivot + 1
        a[[k, pivot]] = a[[pivot, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return {"a": a.T, "ipiv": pivots, "info": np.zeros(1, np.int64)}


def dsyev(arrays: Arrays, params: dict[str, Any]) -> Arrays:
    """The eigenvalues; the vectors are known up to their signs only."""
    return {"w": np.linalg.eigvalsh(arrays["a"].T, UPLO="L"), "info": np.zeros(1, np.int64)}
