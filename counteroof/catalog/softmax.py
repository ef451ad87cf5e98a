"""Claim and reference of the softmax (``csrc/kernels/softmax.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "softmax"

EXECUTED = {"softmax": Formula("rows*(21*cols + 64)")}

CHUNK = 64


def softmax(arrays: Arrays, params: Params) -> Expected:
    x = arrays["x"]
    y = np.empty_like(x)
    for start in range(0, x.shape[0], CHUNK):
        rows = x[start : start + CHUNK].astype(np.float64)
        e = np.exp(rows - rows.max(axis=1, keepdims=True))
        y[start : start + CHUNK] = e / e.sum(axis=1, keepdims=True)
    return {"y": y}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel."""
    return (
        entry(
            library,
            FAMILY,
            "softmax",
            (
                array("x", "f32", ("rows", "cols"), "random", access="read", seed=1, low=-8, high=8),
                array("y", "f32", ("rows", "cols"), access="write"),
                *sizes("rows", "cols"),
            ),
            title="row-wise softmax",
            precision="f32",
            params={"rows": 4_096, "cols": 4_096},
            small={"rows": 16, "cols": 1_024},
            flops="21*rows*cols",
            bytes="8*rows*cols",
            source="FLOPs: operations in the source, 18 for the exponential; "
            "bytes: one read and one write of 4 bytes an element (as in Triton's softmax tutorial)",
            rtol=1e-5,
        ),
    )
