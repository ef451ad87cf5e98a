"""FFTW counted through its spec: a plan made before the kernel, by a set-up call."""

from __future__ import annotations

import math

import pytest

from .counting import counted, different_bytes, kernel

pytestmark = [pytest.mark.x86_64, pytest.mark.fftw]


def test_a_transform_of_a_million_points_executes_about_5_n_log_n_flops() -> None:
    (case,) = kernel("fftw.toml", "fft").cases()
    n = case.params["n"]
    measurement = counted(case)
    # Split-radix and higher radices need 4 n log2 n to 5 n log2 n; the loops' twiddle factors are loaded.
    assert 4 * n * math.log2(n) < (measurement.flops.value or 0) < 5 * n * math.log2(n)
    read, written = measurement.dram_read_bytes.value, measurement.dram_write_bytes.value
    assert read is not None
    assert written is not None
    # Each of the two arrays is half of the last level: some of both stays in it, and nothing moves twice.
    assert 0 < read <= 32 * n
    assert 0 < written <= 16 * n


def test_results_are_bit_equal_to_the_native_call() -> None:
    (case,) = kernel("fftw.toml", "fft").cases(overrides={"n": 30_030})
    assert different_bytes(case) == {"x": 0, "y": 0}
