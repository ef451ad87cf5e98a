"""Claim and reference of the N-body problem (``csrc/kernels/nbody.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, ScalarArg, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "nbody"

EXECUTED = {"nbody": Formula("20*n**2")}

SOFTENING = 0.01
CHUNK = 32


def nbody(arrays: Arrays, params: Params) -> Expected:
    x, y, z, mass = (arrays[name] for name in ("x", "y", "z", "mass"))
    a = np.empty((3, x.size), np.float32)
    for start in range(0, x.size, CHUNK):
        part = slice(start, start + CHUNK)
        dx, dy, dz = x - x[part, None], y - y[part, None], z - z[part, None]
        squared = dx * dx
        squared += dy * dy
        squared += dz * dz
        squared += np.float32(SOFTENING)
        weight = mass / (squared * np.sqrt(squared))
        for axis, d in enumerate((dx, dy, dz)):
            a[axis, part] = np.einsum("ij,ij->i", d, weight, dtype=np.float64)
    return {"ax": a[0], "ay": a[1], "az": a[2]}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel.

    Bodies fit in L2 and nothing reaches memory, so the number of bodies is chosen for the time alone.
    """
    return (
        entry(
            library,
            FAMILY,
            "nbody",
            (
                array("x", "f32", "n", "random", access="read", seed=1),
                array("y", "f32", "n", "random", access="read", seed=2),
                array("z", "f32", "n", "random", access="read", seed=3),
                array("mass", "f32", "n", "random", access="read", seed=4, low=0.5, high=1.5),
                array("ax", "f32", "n", access="write"),
                array("ay", "f32", "n", access="write"),
                array("az", "f32", "n", access="write"),
                ScalarArg("softening", SOFTENING),
                *sizes("n"),
            ),
            title="N-body, all pairs",
            precision="f32",
            params={"n": 8_192},
            small={"n": 1_024},
            flops="20*n**2",
            bytes="28*n",
            source="FLOPs: Nyland, Harris, Prins (GPU Gems 3, chapter 31), 20 a pair; "
            "bytes: four numbers read and three written once a body",
            rtol=1e-3,
        ),
    )
