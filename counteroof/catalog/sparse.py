"""Claims and references of indexed accesses (``csrc/kernels/sparse.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "sparse"

EXECUTED = {"csr_spmv": Formula("2*per_row*rows"), "gather": Formula("0")}


def csr_spmv(arrays: Arrays, params: Params) -> Expected:
    start, column, value = arrays["start"], arrays["column"], arrays["value"]
    sums = np.concatenate(([0.0], np.cumsum(value * arrays["x"][column], dtype=np.float64)))
    return {"y": (sums[start[1:]] - sums[start[:-1]]).astype(np.float32)}


def gather(arrays: Arrays, params: Params) -> Expected:
    return {"out": arrays["table"][arrays["index"]]}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernels; eleven entries a row give the matrix its usual intensity of 0.22."""
    return (
        entry(
            library,
            FAMILY,
            "csr_spmv",
            (
                array(
                    "start",
                    "i32",
                    "rows + 1",
                    "csr_indptr",
                    access="read",
                    rows="rows",
                    nnz_per_row="per_row",
                ),
                array(
                    "column",
                    "i32",
                    "rows*per_row",
                    "csr_indices",
                    access="read",
                    rows="rows",
                    cols="rows",
                    nnz_per_row="per_row",
                ),
                array("value", "f32", "rows*per_row", "random", access="read", seed=1),
                array("x", "f32", "rows", "random", access="read", seed=2),
                array("y", "f32", "rows", access="write"),
                *sizes("rows"),
            ),
            title="CSR SpMV",
            precision="f32",
            params={"rows": 1_000_000, "per_row": 11},
            small={"rows": 1_600, "per_row": 11},
            flops="2*per_row*rows",
            bytes="8*per_row*rows + 12*rows",
            source="compulsory traffic: value and column of an entry; x, y and row pointer once a row",
            rtol=1e-5,
        ),
        entry(
            library,
            FAMILY,
            "gather",
            (
                array("table", "f64", "n", "random", access="read", seed=1),
                array("index", "i32", "n", "permutation", access="read", seed=2),
                array("out", "f64", "n", access="write"),
                *sizes("n"),
            ),
            title="gather",
            precision="f64",
            params={"n": 8_000_000},
            small={"n": 8_192},
            flops="0",
            bytes="20*n",
            source="shape: each element of table, index and out once",
        ),
    )
