"""What option pricing counts, against the same in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

CONTRACTS, POINTS, STEPS = 3, 7, 2


def price(tally: Tally, c: int) -> None:
    """The kernel's prices of one contract."""
    rate, volatility = tally.rate[c], tally.volatility[c]
    dt = tally.maturity[c] / float(STEPS)
    quarter = 0.25 * dt
    diffusion = quarter * (volatility * volatility)
    drift, interest = quarter * rate, 0.5 * dt * rate
    factor = 1.0 / (1.0 + rate * dt)
    inner = range(1, POINTS - 1)
    upper = {j: diffusion * float(j * j) + drift * float(j) for j in inner}
    lower = {j: upper[j] - interest * float(j) for j in inner}
    m = {j: upper[j] + lower[j] + interest for j in inner}
    plus, minus = {j: 1.0 + m[j] for j in inner}, {j: 1.0 - m[j] for j in inner}
    v = [tally.number(abs(j * 4 / (POINTS - 1) - 1)) for j in range(POINTS)]
    discount = tally.number(1)
    for _ in range(STEPS):
        before, w = v[0], {0: tally.number(0)}
        v[0] = discount = discount * factor
        for j in inner:
            rhs = lower[j] * before + minus[j] * v[j] + upper[j] * v[j + 1]
            inverse = 1.0 / (plus[j] - lower[j] * w[j - 1])
            before, w[j] = v[j], upper[j] * inverse
            v[j] = (rhs + lower[j] * v[j - 1]) * inverse
        v[-1] = 4.0 - discount
        for j in reversed(inner):
            v[j] = v[j] + w[j] * v[j + 1]
    for j in range(POINTS):
        tally.value[j, c] = tally.strike[c] * v[j]


def test_pricing_executes_14_flops_a_point_and_step_where_18_are_declared() -> None:
    call = prepare(case("crank_nicolson", contracts=CONTRACTS, points=POINTS, steps=STEPS))
    tally = Tally(call)
    for c in range(CONTRACTS):
        price(tally, c)
    call()
    assert tally.value.values == pytest.approx(call.arrays["value"], rel=1e-5)
    grid = 2 * POINTS + 1  # made once for the contracts in the lanes of one block, not a contract
    assert executed_flops("crank_nicolson", call.case.params) == tally.flops + grid
    assert call.case.declared_flops == 18 * STEPS * POINTS * CONTRACTS
    market = 4 * 4 * CONTRACTS
    assert tally.touched_bytes("work") == call.case.declared_bytes + market


def test_declared_intensity_is_900_a_point_over_4_bytes_of_it() -> None:
    (default,) = case("crank_nicolson").spec.cases()
    points = default.params["points"] * default.params["contracts"]
    assert default.declared_flops == 900 * points
    assert default.declared_bytes == 512 * default.params["contracts"]


def test_prices_are_those_of_black_and_scholes() -> None:
    call = prepare(case("crank_nicolson", contracts=8, points=128, steps=50))
    call()
    strike, rate, volatility, maturity = (
        call.arrays[name].astype(np.float64) for name in ("strike", "rate", "volatility", "maturity")
    )
    at = 32  # near the strike
    price_of_share = strike * at * 4 / 127
    spread = volatility * np.sqrt(maturity)
    d1 = (np.log(price_of_share / strike) + (rate + volatility**2 / 2) * maturity) / spread
    normal = np.vectorize(lambda x: math.erf(x / math.sqrt(2)))  # N(x) - N(-x)
    straddle = price_of_share * normal(d1) - strike * np.exp(-rate * maturity) * normal(d1 - spread)
    assert call.arrays["value"][at] == pytest.approx(straddle, rel=0.02)
