"""What the N-body problem counts, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

N = 5
SOFTENING = 0.01


def test_nbody_counts_as_declared() -> None:
    call = prepare(case("nbody", n=N))
    tally = Tally(call)
    x, y, z = tally.x, tally.y, tally.z
    for i in range(N):
        ax, ay, az = (tally.number(0) for _ in range(3))
        for j in range(N):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            inverse = 1.0 / (dx * dx + dy * dy + dz * dz + SOFTENING).sqrt()
            weight = tally.mass[j] * (inverse * inverse * inverse)
            ax, ay, az = ax + dx * weight, ay + dy * weight, az + dz * weight
        tally.ax[i], tally.ay[i], tally.az[i] = ax, ay, az
    call()
    for axis in ("ax", "ay", "az"):
        assert tally.arrays[axis].values == pytest.approx(call.arrays[axis], rel=1e-4, abs=1e-4)
    assert tally.flops == call.case.declared_flops == executed_flops("nbody", call.case.params)
    assert tally.touched_bytes() == call.case.declared_bytes
