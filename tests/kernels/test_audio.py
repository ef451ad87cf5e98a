"""What the audio filter counts, against the same in plain Python."""

from __future__ import annotations

import pytest

from counteroof.catalog import executed_flops

from .calling import case, prepare
from .slow import Tally

CHANNELS, SAMPLES = 3, 20
B0, B1, B2, A1, A2 = 0.125, 0.25, 0.125, -1.0, 0.5


@pytest.mark.parametrize("name", ["biquad_naive", "biquad_interleaved"])
def test_biquad_executes_9_flops_a_sample_where_8_are_declared(name: str) -> None:
    call = prepare(case(name, channels=CHANNELS, samples=SAMPLES))
    tally = Tally(call)
    for c in range(CHANNELS):
        w1, w2 = tally.number(0), tally.number(0)
        for t in range(SAMPLES):
            at = (c, t) if name == "biquad_naive" else (t, c)
            w = (tally.x[at] - A2 * w2) - A1 * w1
            tally.y[at] = B0 * w + B1 * w1 + B2 * w2
            w1, w2 = w, w1
    call()
    assert tally.y.values == pytest.approx(call.arrays["y"], rel=1e-4, abs=1e-5)
    assert tally.flops == executed_flops(name, call.case.params) == 9 * CHANNELS * SAMPLES
    assert call.case.declared_flops == 8 * CHANNELS * SAMPLES
    assert tally.touched_bytes() == call.case.declared_bytes


def test_both_layouts_filter_alike() -> None:
    naive = prepare(case("biquad_naive", channels=67, samples=300))
    interleaved = prepare(case("biquad_interleaved", channels=67, samples=300))
    interleaved.arrays["x"][...] = naive.arrays["x"].T
    naive()
    interleaved()
    transposed = interleaved.arrays["y"].T
    assert transposed == pytest.approx(naive.arrays["y"], rel=1e-4, abs=1e-5)
