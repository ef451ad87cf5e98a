"""Claims and references of the streams (``csrc/kernels/stream.c``)."""

from __future__ import annotations

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, ScalarArg, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "stream"

EXECUTED = {
    "vector_add": Formula("n"),
    "triad": Formula("2*n"),
    "copy": Formula("0"),
    "copy_nontemporal": Formula("0"),
}


def vector_add(arrays: Arrays, params: Params) -> Expected:
    return {"c": arrays["a"] + arrays["b"]}


def triad(arrays: Arrays, params: Params) -> Expected:
    return {"a": arrays["b"] + SCALE * arrays["c"]}


def copy(arrays: Arrays, params: Params) -> Expected:
    return {"b": arrays["a"]}


copy_nontemporal = copy

SCALE = 3.0


def kernels(library: LibrarySpec, *, x86: bool) -> tuple[KernelSpec, ...]:
    """Return the family's kernels; the one with non-temporal stores exists on x86 only."""
    ordinary = (
        entry(
            library,
            FAMILY,
            "vector_add",
            (
                array("a", "f32", "n", "random", access="read", seed=1),
                array("b", "f32", "n", "random", access="read", seed=2),
                array("c", "f32", "n", access="write"),
                *sizes("n"),
            ),
            title="vector add",
            precision="f32",
            params={"n": 20_000_000},
            small={"n": 16_384},
            flops="n",
            bytes="12*n",
            source="textbook: one addition, three numbers of 4 bytes (as in Triton's first tutorial)",
        ),
        entry(
            library,
            FAMILY,
            "triad",
            (
                array("a", "f64", "n", access="write"),
                array("b", "f64", "n", "random", access="read", seed=1),
                array("c", "f64", "n", "random", access="read", seed=2),
                ScalarArg("s", SCALE),
                *sizes("n"),
            ),
            title="stream triad",
            precision="f64",
            params={"n": 20_000_000},
            small={"n": 8_192},
            flops="2*n",
            bytes="24*n",
            source="STREAM (McCalpin): 2 FLOPs and 24 bytes an iteration, write-allocate not counted",
        ),
        entry(
            library,
            FAMILY,
            "copy",
            (
                array("a", "f64", "n", "random", access="read", seed=1),
                array("b", "f64", "n", access="write"),
                *sizes("n"),
            ),
            title="copy",
            precision="f64",
            params={"n": 12_000_000},
            small={"n": 12_288},
            flops="0",
            bytes="16*n",
            source="STREAM (McCalpin): 16 bytes an iteration, write-allocate not counted",
        ),
    )
    nontemporal = entry(
        library,
        FAMILY,
        "copy_nontemporal",
        (
            array("a", "f64", "n", "random", access="read", seed=1),
            array("b", "f64", "n", access="write"),
            *sizes("n"),
        ),
        title="copy, non-temporal stores",
        precision="f64",
        params={"n": 12_000_000},
        small={"n": 12_288},
        flops="0",
        bytes="16*n",
        source="STREAM (McCalpin): 16 bytes an iteration; non-temporal stores have no write-allocate",
    )
    return (*ordinary, nontemporal) if x86 else ordinary
