"""OpenBLAS counted through its spec, with the kernels it chooses for this processor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.machine.topology import detect

from .counting import CLIENT, ZEN5, counted, different_bytes, kernel

pytestmark = pytest.mark.x86_64

MATRIX = 8 * 1000**2
"""Bytes of one of the three matrices."""


def test_dgemm_executes_2_n_cubed_flops_and_moves_its_matrices() -> None:
    (case,) = kernel("openblas.toml", "dgemm").cases()
    assert case.params == {"n": 1000}
    measurement = counted(case, ZEN5)
    assert measurement.flops.value == pytest.approx(2 * 1000**3, rel=0.005)
    assert measurement.unruled == ()
    read, written = measurement.dram_read_bytes.value, measurement.dram_write_bytes.value
    assert read is not None
    assert written is not None
    assert 24e6 <= read + written <= 40e6
    by_name = {array.name: array for array in measurement.arrays}
    # once; but for a few lines that the sets, or the kernel for another processor, fetch again
    for name in "ab":
        assert 0 <= by_name[name].dram_read_bytes - MATRIX < 0.01 * MATRIX
    assert by_name["c"].dram_write_bytes == pytest.approx(MATRIX, rel=0.05)


def test_small_caches_make_dgemm_read_and_write_its_result_again() -> None:
    """Of the third dimension it takes a few hundred at a time, and comes back to the result for each."""
    measurement = counted(kernel("openblas.toml", "dgemm").cases()[0], CLIENT)
    by_name = {array.name: array for array in measurement.arrays}
    for name in "ab":
        assert 0 <= by_name[name].dram_read_bytes - MATRIX < 0.01 * MATRIX
    assert by_name["c"].dram_read_bytes > 1.9 * MATRIX
    assert by_name["c"].dram_write_bytes > 1.9 * MATRIX


def test_dgemm_runs_the_widest_instructions_of_the_processor() -> None:
    (case,) = kernel("openblas.toml", "dgemm").cases(size="small")
    by_width: dict[int, int] = {}
    for entry in counted(case, detail="flops").flops_by:
        if entry.counted:
            by_width[entry.width] = by_width.get(entry.width, 0) + entry.flops
    isa = detect().isa
    widest = 512 if "AVX-512" in isa else 256 if "AVX2" in isa else 128
    assert max(by_width, key=lambda width: by_width[width]) == widest


@pytest.mark.parametrize("name", ["dgemm", "dgetrf", "dsyev"])
def test_results_are_bit_equal_to_the_native_call(name: str) -> None:
    (case,) = kernel("openblas.toml", name).cases(overrides={"n": {"dgemm": 500}.get(name, 200)})
    assert set(different_bytes(case).values()) == {0}


def test_dgetrf_executes_two_thirds_of_n_cubed() -> None:
    (case,) = kernel("openblas.toml", "dgetrf").cases(overrides={"n": 600})
    assert counted(case, detail="flops").flops.value == pytest.approx(2 * 600**3 / 3, rel=0.02)


def test_the_threads_that_openblas_made_when_it_was_loaded_are_counted() -> None:
    (case,) = replace(kernel("openblas.toml", "dgemm"), threads=2).cases(overrides={"n": 400})
    measurement = counted(case, detail="flops")
    assert measurement.flops.value == pytest.approx(2 * 400**3, rel=0.02)
