"""Claim and reference of the convolution (``csrc/kernels/convolution.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "convolution"

EXECUTED = {"depthwise3x3": Formula("18*channels*height*width")}


def depthwise3x3(arrays: Arrays, params: Params) -> Expected:
    x, weight, bias = arrays["x"], arrays["weight"], arrays["bias"]
    y = np.empty_like(arrays["y"])
    height, width = y.shape[1:]
    for c, result in enumerate(y):
        result[:] = bias[c]
        for p in range(3):
            for q in range(3):
                result += weight[c, p, q] * x[c, p : p + height, q : q + width]
    return {"y": y}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel."""
    return (
        entry(
            library,
            FAMILY,
            "depthwise3x3",
            (
                array("x", "f32", ("channels", "height + 2", "width + 2"), "random", access="read", seed=1),
                array("weight", "f32", ("channels", 3, 3), "random", access="read", seed=2),
                array("bias", "f32", "channels", "random", access="read", seed=3),
                array("y", "f32", ("channels", "height", "width"), access="write"),
                *sizes("channels", "height", "width"),
            ),
            title="depthwise 3x3 convolution",
            precision="f32",
            params={"channels": 128, "height": 400, "width": 400},
            small={"channels": 16, "height": 36, "width": 36},
            flops="18*channels*height*width",
            bytes="8*channels*height*width",
            source="author's estimate: nine multiply-adds, one read and one write of 4 bytes an output",
            rtol=1e-5,
        ),
    )
