"""Claims and references of the audio filter (``csrc/kernels/audio.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, ScalarArg, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "audio"

EXECUTED = {
    "biquad_naive": Formula("9*channels*samples"),
    "biquad_interleaved": Formula("9*channels*samples"),
}

# A low-pass; both poles at radius 0.7, so the filter forgets its past within a hundred samples.
B0, B1, B2, A1, A2 = 0.125, 0.25, 0.125, -1.0, 0.5
COEFFICIENTS = {"b0": B0, "b1": B1, "b2": B2, "a1": A1, "a2": A2}

BLOCK = 512
GROUP = 8


def _filter(x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Filter all columns at once from states w1 and w2; return the output and the last states."""
    y = np.empty_like(x)
    for t in range(len(x)):
        w = x[t] - A1 * w1 - A2 * w2
        y[t] = B0 * w + B1 * w1 + B2 * w2
        w1, w2 = w, w1
    return y, w1, w2


def _channels(x: np.ndarray) -> np.ndarray:
    """Filter x, channels by samples.

    Time is cut in blocks that are filtered side by side, each from a state of zero; as the filter is linear
    the true states then follow from block to block by a matrix of 2 x 2, and a second turn starts from them.
    """
    channels, samples = x.shape
    blocks = -(-samples // BLOCK)
    padded = np.zeros((channels, blocks * BLOCK))
    padded[:, :samples] = x
    side_by_side = padded.reshape(channels * blocks, BLOCK).T.copy()
    zero = np.zeros(channels * blocks)
    _, *ends = _filter(side_by_side, zero, zero)
    own = np.stack(ends).reshape(2, channels, blocks)
    _, *unit = _filter(np.zeros((BLOCK, 2)), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    step = np.stack(unit)
    states = np.zeros((2, channels, blocks))
    for b in range(1, blocks):
        states[:, :, b] = own[:, :, b - 1] + step @ states[:, :, b - 1]
    y, *_ = _filter(side_by_side, *states.reshape(2, -1))
    return np.asarray(y.T.reshape(channels, blocks * BLOCK)[:, :samples])


def biquad_naive(arrays: Arrays, params: Params) -> Expected:
    x = arrays["x"]
    y = np.empty_like(x)
    for c in range(0, len(x), GROUP):
        y[c : c + GROUP] = _channels(x[c : c + GROUP])
    return {"y": y}


def biquad_interleaved(arrays: Arrays, params: Params) -> Expected:
    x = arrays["x"]
    y = np.empty_like(x)
    for c in range(0, x.shape[1], GROUP):
        y[:, c : c + GROUP] = _channels(x[:, c : c + GROUP].T).T
    return {"y": y}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernels."""

    def variant(name: str, shape: tuple[str, str], title: str) -> KernelSpec:
        return entry(
            library,
            FAMILY,
            name,
            (
                array("x", "f32", shape, "random", access="read", seed=1),
                array("y", "f32", shape, access="write"),
                *(ScalarArg(key, value) for key, value in COEFFICIENTS.items()),
                *sizes("channels", "samples"),
            ),
            title=title,
            precision="f32",
            params={"channels": 64, "samples": 262_144},
            small={"channels": 64, "samples": 384},
            flops="8*channels*samples",
            bytes="8*channels*samples",
            source="author's estimate: four multiply-adds, one read and one write of 4 bytes a sample",
            rtol=1e-4,
        )

    return (
        variant("biquad_naive", ("channels", "samples"), "audio biquad, naive"),
        variant("biquad_interleaved", ("samples", "channels"), "audio biquad, interleaved"),
    )
