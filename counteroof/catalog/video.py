"""Claim and reference of the video filter (``csrc/kernels/video.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "video"

EXECUTED = {"sobel_motion": Formula("18*(count - 1)*(height - 2)*(width - 2)")}


def sobel_motion(arrays: Arrays, params: Params) -> Expected:
    frames, edges = arrays["frames"], arrays["edges"].copy()
    for before, frame, to in zip(frames, frames[1:], edges[1:], strict=False):
        up, down = frame[:-2], frame[2:]
        across = frame[1:-1, 2:] - frame[1:-1, :-2]
        along = down[:, 1:-1] - up[:, 1:-1]
        sides = (down[:, :-2] + down[:, 2:]) - (up[:, :-2] + up[:, 2:])
        gx = (up[:, 2:] - up[:, :-2]) + 2 * across + (down[:, 2:] - down[:, :-2])
        gy = sides + 2 * along
        to[1:-1, 1:-1] = np.sqrt(gx * gx + gy * gy) + np.abs(frame - before)[1:-1, 1:-1]
    return {"edges": edges}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel."""
    shape = ("count", "height", "width")
    return (
        entry(
            library,
            FAMILY,
            "sobel_motion",
            (
                array("frames", "f32", shape, "random", access="read", seed=1),
                array("edges", "f32", shape, access="write"),
                *sizes("count", "height", "width"),
            ),
            title="video: Sobel + motion",
            precision="f32",
            params={"count": 32, "height": 720, "width": 1_280},
            small={"count": 4, "height": 60, "width": 100},
            flops="18*count*height*width",
            bytes="12*count*height*width",
            source="author's estimate: 18 FLOPs a pixel of any frame; it, its predecessor and the result, "
            "4 bytes each",
            rtol=1e-4,
        ),
    )
