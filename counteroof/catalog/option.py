"""Claim and reference of option pricing (``csrc/kernels/option.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import KernelSpec, LibrarySpec, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "option"

EXECUTED = {
    "crank_nicolson": Formula(
        "contracts*(steps*(14*(points - 2) + 2) + 9*(points - 2) + 10 + points)"
        " + 2*points*ceil(contracts/32) + 1"
    )
}

CHUNK = 1024


def _prices(
    rate: np.ndarray, volatility: np.ndarray, maturity: np.ndarray, points: int, steps: int
) -> np.ndarray:
    """Return prices of contracts with a strike of 1, points by contracts.

    The matrix is the same in every step, so unlike the kernel this eliminates once.
    """
    dt = maturity / steps
    j = np.arange(1, points - 1)[:, None].astype(rate.dtype)
    diffusion, drift = volatility**2 * j**2, rate * j
    lower, upper = dt / 4 * (diffusion - drift), dt / 4 * (diffusion + drift)
    m = dt / 2 * (diffusion + rate)
    w, inverse = np.empty_like(m), np.empty_like(m)
    above: np.ndarray | float = 0.0
    for i in range(points - 2):
        inverse[i] = 1 / (1 + m[i] - lower[i] * above)
        above = w[i] = upper[i] * inverse[i]
    factor, discount = 1 / (1 + rate * dt), np.ones_like(rate)
    gain = np.abs(np.linspace(0, 4, points, dtype=rate.dtype) - 1)
    v = np.repeat(gain[:, None], rate.size, axis=1)
    carry = lower * inverse
    for _ in range(steps):
        rhs = lower * v[:-2]
        rhs += (1 - m) * v[1:-1]
        rhs += upper * v[2:]
        rhs *= inverse
        discount = discount * factor
        rhs[0] += carry[0] * discount
        for i in range(1, points - 2):
            rhs[i] += carry[i] * rhs[i - 1]
        v[0], v[-1] = discount, 4 - discount
        for i in range(points - 3, -1, -1):
            v[i + 1] = rhs[i] + w[i] * v[i + 2]
    return v


def crank_nicolson(arrays: Arrays, params: Params) -> Expected:
    value = np.empty_like(arrays["value"])
    for start in range(0, value.shape[1], CHUNK):
        part = slice(start, start + CHUNK)
        rate, volatility, maturity, strike = (
            arrays[name][part].astype(np.float64) for name in ("rate", "volatility", "maturity", "strike")
        )
        value[:, part] = strike * _prices(rate, volatility, maturity, params["points"], params["steps"])
    return {"value": value}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel."""
    return (
        entry(
            library,
            FAMILY,
            "crank_nicolson",
            (
                array("strike", "f32", "contracts", "random", access="read", seed=1, low=50, high=150),
                array("rate", "f32", "contracts", "random", access="read", seed=2, low=0.01, high=0.06),
                array("volatility", "f32", "contracts", "random", access="read", seed=3, low=0.1, high=0.5),
                array("maturity", "f32", "contracts", "random", access="read", seed=4, low=0.25, high=2),
                array("value", "f32", ("points", "contracts"), access="write"),
                array("work", "f32", ("6*points", 32), access="write"),
                *sizes("contracts", "points", "steps"),
            ),
            title="Crank-Nicolson option pricing",
            precision="f32",
            params={"contracts": 16_384, "points": 128, "steps": 50},
            small={"contracts": 256, "points": 128, "steps": 50},
            flops="18*steps*points*contracts",
            bytes="4*points*contracts",
            source="author's estimate: 18 FLOPs a point and step, 13 for Thomas' algorithm and 5 for the "
            "right-hand side, 900 a point in 50 steps; 512 bytes a contract, its 128 prices of 4 bytes once",
            rtol=1e-3,
        ),
    )
