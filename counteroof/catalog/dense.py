"""Claims and references of the matrix products (``csrc/kernels/dense.c``)."""

from __future__ import annotations

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "dense"

EXECUTED = {
    "matmul": Formula("2*n**3"),
    "gemm_naive": Formula("2*n**3"),
    # For n that is a multiple of 24, as both sizes are; else the padding of the edge tiles comes on top.
    "gemm_tuned": Formula("2*n**3"),
}


def matmul(arrays: Arrays, params: Params) -> Expected:
    return {"c": arrays["a"] @ arrays["b"]}


gemm_naive = matmul
gemm_tuned = matmul

IDEAL = "each matrix moved once, which would need a cache for all of them; n/12 FLOPs a byte"


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernels.

    The naive product is kept small enough for its scalar chain of additions; its matrices fit in most L3
    caches. The tuned one has 55 MB of matrices.
    """
    f32 = (
        array("a", "f32", ("n", "n"), "random", access="read", seed=1),
        array("b", "f32", ("n", "n"), "random", access="read", seed=2),
        array("c", "f32", ("n", "n"), access="write"),
    )
    f64 = (
        array("a", "f64", ("n", "n"), "random", access="read", seed=1),
        array("b", "f64", ("n", "n"), "random", access="read", seed=2),
        array("c", "f64", ("n", "n"), access="write"),
    )
    return (
        entry(
            library,
            FAMILY,
            "matmul",
            (*f32, *sizes("n")),
            title="square matmul",
            precision="f32",
            params={"n": 800},
            small={"n": 120},
            flops="2*n**3",
            bytes="12*n**2",
            source="textbook: 2n^3 FLOPs, each matrix moved once; n/6 FLOPs a byte",
            rtol=1e-4,
        ),
        entry(
            library,
            FAMILY,
            "gemm_naive",
            (*f64, *sizes("n")),
            title="GEMM, naive",
            precision="f64",
            params={"n": 400},
            small={"n": 80},
            flops="2*n**3",
            bytes="24*n**2",
            source=f"textbook: 2n^3 FLOPs; {IDEAL}",
            rtol=1e-11,
        ),
        entry(
            library,
            FAMILY,
            "gemm_tuned",
            (*f64, array("work", "f64", "192*(n + 24) + 96*192", access="write"), *sizes("n")),
            title="GEMM, tuned",
            precision="f64",
            params={"n": 1_512},
            small={"n": 72},
            flops="2*n**3",
            bytes="24*n**2",
            source=f"textbook: 2n^3 FLOPs; {IDEAL}",
            rtol=1e-11,
        ),
    )
