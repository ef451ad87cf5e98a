"""Claims and references of layouts and walks (``csrc/kernels/layout.c``)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..formula import Formula
from ..spec import ArrayArg, KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "layout"

EXECUTED = {
    "column_sum": Formula("rows*cols"),
    "column_walk_power_of_two": Formula("(rows + 3)*cols"),
    "column_walk_padded": Formula("(rows + 3)*cols"),
    "transpose_naive": Formula("0"),
    "transpose_blocked": Formula("0"),
    "speed2_aos": Formula("5*n"),
    "speed2_soa": Formula("5*n"),
}


def column_sum(arrays: Arrays, params: Params) -> Expected:
    return {"sums": arrays["a"][:, : params["cols"]].sum(axis=0)}


column_walk = column_sum


def transpose_naive(arrays: Arrays, params: Params) -> Expected:
    return {"b": np.ascontiguousarray(arrays["a"].T)}


transpose_blocked = transpose_naive


def speed2_aos(arrays: Arrays, params: Params) -> Expected:
    velocity = arrays["bodies"][:, 3:6]
    return {"speed2": np.einsum("ij,ij->i", velocity, velocity)}


def speed2_soa(arrays: Arrays, params: Params) -> Expected:
    return {"speed2": arrays["vx"] ** 2 + arrays["vy"] ** 2 + arrays["vz"] ** 2}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernels; every claim is the traffic of the shape, each element used moved once."""

    def walk(
        name: str, title: str, symbol: str, params: Mapping[str, int], small: Mapping[str, int]
    ) -> KernelSpec:
        return entry(
            library,
            FAMILY,
            name,
            (
                array("a", "f64", ("rows", "ld"), "random", access="read", seed=1),
                array("sums", "f64", "cols", access="write"),
                *sizes("rows", "cols", "ld"),
            ),
            symbol=symbol,
            title=title,
            precision="f64",
            params=params,
            small=small,
            flops="rows*cols" if symbol == "column_sum" else "(rows + 3)*cols",
            bytes="8*rows*cols + 8*cols",
            source="shape: each element once, one sum a column",
        )

    def transpose(name: str, title: str) -> KernelSpec:
        return entry(
            library,
            FAMILY,
            name,
            (
                array("a", "f64", ("rows", "cols"), "random", access="read", seed=1),
                array("b", "f64", ("cols", "rows"), access="write"),
                *sizes("rows", "cols"),
            ),
            title=title,
            precision="f64",
            params={"rows": 16, "cols": 1_000_000},
            small={"rows": 100, "cols": 110},
            flops="0",
            bytes="16*rows*cols",
            source="shape: each element read once and written once",
        )

    def speed2(name: str, title: str, *bodies: ArrayArg) -> KernelSpec:
        return entry(
            library,
            FAMILY,
            name,
            (*bodies, array("speed2", "f64", "n", access="write"), *sizes("n")),
            title=title,
            precision="f64",
            params={"n": 3_000_000},
            small={"n": 2_048},
            flops="5*n",
            bytes="32*n",
            source="shape: three members read and one number written a body",
        )

    return (
        # One column is 64 MB of lines, more than most L3 caches hold.
        walk(
            "column_sum",
            "column sum, row-major",
            "column_sum",
            {"rows": 1_000_000, "cols": 16, "ld": 16},
            {"rows": 2_048, "cols": 8, "ld": 8},
        ),
        # One column is 512 lines in as many pages: they fit L2 but for their sets, and a core keeps the
        # translations of their addresses. Of thousands of rows those set the pace, padded or not.
        walk(
            "column_walk_power_of_two",
            "column walk, power-of-two rows",
            "column_walk",
            {"rows": 512, "cols": 2_048, "ld": 2_048},
            {"rows": 128, "cols": 128, "ld": 128},
        ),
        walk(
            "column_walk_padded",
            "column walk, padded rows",
            "column_walk",
            {"rows": 512, "cols": 2_048, "ld": 2_056},
            {"rows": 128, "cols": 128, "ld": 136},
        ),
        transpose("transpose_naive", "transpose, naive"),
        transpose("transpose_blocked", "transpose, blocked"),
        speed2(
            "speed2_aos",
            "array of structs",
            array("bodies", "f64", ("n", 8), "random", access="read", seed=1),
        ),
        speed2(
            "speed2_soa",
            "struct of arrays",
            array("vx", "f64", "n", "random", access="read", seed=1),
            array("vy", "f64", "n", "random", access="read", seed=2),
            array("vz", "f64", "n", "random", access="read", seed=3),
        ),
    )
