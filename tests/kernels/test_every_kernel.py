"""What holds for every built-in kernel, at every level that this processor runs."""

from __future__ import annotations

import numpy as np
import pytest

from counteroof.catalog import kernels
from counteroof.catalog.variant import available_levels

from .calling import Call, case, mistakes, prepare

KERNELS = [kernel.name for kernel in kernels()]
LEVELS = available_levels()

# No extent is a multiple of a vector, a block or a group of lanes; some are smaller than one.
REMAINDERS = {
    "vector_add": [{"n": 1}, {"n": 1003}],
    "triad": [{"n": 1}, {"n": 1003}],
    "copy": [{"n": 1}, {"n": 1003}],
    "copy_nontemporal": [{"n": 1}, {"n": 1003}],
    "dot": [{"n": 5}, {"n": 1003}],
    "squared_norm": [{"n": 5}, {"n": 1003}],
    "softmax": [{"rows": 3, "cols": 5}, {"rows": 5, "cols": 203}],
    "matmul": [{"n": 3}, {"n": 53}],
    "gemm_naive": [{"n": 3}, {"n": 53}],
    "gemm_tuned": [{"n": 3}, {"n": 53}, {"n": 205}],
    "csr_spmv": [{"rows": 1, "per_row": 1}, {"rows": 107, "per_row": 13}],
    "gather": [{"n": 1}, {"n": 1003}],
    "stencil7": [{"n": 3}, {"n": 15}],
    "fft": [{"n": 4}, {"n": 8}, {"n": 256}, {"n": 512}],
    "nbody": [{"n": 3}, {"n": 77}],
    "thomas_naive": [{"systems": 3, "length": 2}, {"systems": 37, "length": 19}],
    "thomas_interleaved": [{"systems": 3, "length": 2}, {"systems": 37, "length": 19}],
    "sobel_motion": [{"count": 2, "height": 3, "width": 3}, {"count": 3, "height": 11, "width": 39}],
    "biquad_naive": [{"channels": 3, "samples": 5}, {"channels": 71, "samples": 777}],
    "biquad_interleaved": [{"channels": 3, "samples": 5}, {"channels": 71, "samples": 777}],
    "depthwise3x3": [{"channels": 1, "height": 1, "width": 1}, {"channels": 3, "height": 7, "width": 37}],
    "crank_nicolson": [
        {"contracts": 3, "points": 4, "steps": 2},
        {"contracts": 71, "points": 61, "steps": 20},
    ],
    "column_sum": [{"rows": 7, "cols": 3, "ld": 5}],
    "column_walk_power_of_two": [{"rows": 67, "cols": 37, "ld": 64}],
    "column_walk_padded": [{"rows": 67, "cols": 37, "ld": 41}],
    "transpose_naive": [{"rows": 1, "cols": 7}, {"rows": 67, "cols": 37}],
    "transpose_blocked": [{"rows": 1, "cols": 7}, {"rows": 67, "cols": 37}],
    "speed2_aos": [{"n": 1}, {"n": 1003}],
    "speed2_soa": [{"n": 1}, {"n": 1003}],
}


def calls(name: str, level: str) -> list[Call]:
    """The kernel at its small size and at sizes that leave a remainder."""
    return [prepare(case(name, **params), level) for params in [{}, *REMAINDERS[name]]]


def test_every_kernel_has_sizes_that_leave_a_remainder() -> None:
    assert set(KERNELS) <= set(REMAINDERS)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_equals_its_reference(name: str, level: str) -> None:
    for call in calls(name, level):
        assert mistakes(call, call(), call.expected()) == [], call.case.params


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KERNELS)
def test_second_call_leaves_what_the_first_left(name: str, level: str) -> None:
    for call in calls(name, level):
        returned = call()
        after = {key: array.copy() for key, array in call.arrays.items()}
        assert call() == returned
        for key, array in call.arrays.items():
            assert np.array_equal(array, after[key]), key


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_leaves_arrays_that_it_only_reads(name: str) -> None:
    call = prepare(case(name))
    call()
    read = [array.name for array in call.case.spec.arrays if array.access == "read"]
    assert read
    for key in read:
        assert np.array_equal(call.arrays[key], call.initial[key]), key


@pytest.mark.parametrize("name", KERNELS)
def test_result_of_zeros_fails_the_check(name: str) -> None:
    call = prepare(case(name))
    expected = call.expected()
    for array in call.arrays.values():
        array[...] = 0
    returned = 0.0 if "return" in expected else None
    assert mistakes(call, returned, expected) == list(expected)


@pytest.mark.parametrize("name", KERNELS)
def test_one_wrong_element_fails_the_check(name: str) -> None:
    call = prepare(case(name))
    returned = call()
    expected = call.expected()
    for key, wanted in expected.items():
        if key == "return":
            assert mistakes(call, returned * 1.01, expected) == [key]
        else:
            place = np.unravel_index(np.argmax(np.abs(wanted)), np.shape(wanted))
            call.arrays[key][place] *= 1.01
            assert mistakes(call, returned, expected) == [key]
            call.arrays[key][place] /= np.float64(1.01)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KERNELS)
def test_results_are_ordinary_numbers(name: str, level: str) -> None:
    call = prepare(case(name), level)
    call()
    for key, array in call.arrays.items():
        if array.dtype.kind == "f":
            tiny = np.finfo(array.dtype).tiny
            assert np.isfinite(array).all(), key
            assert not ((array != 0) & (np.abs(array) < tiny)).any(), f"{key} holds denormal numbers"
