"""The core clock from timed chains, some of them disturbed."""

from __future__ import annotations

import pytest

from counteroof.machine import clock

OPERATIONS = 32_000
HZ = 4.2e9


def chains(count: int, hz: float = HZ, multiply_cycles: float = 3) -> tuple[list[float], list[float]]:
    """Return ``count`` undisturbed pairs of chains, within a thousandth of each other."""
    wobble = [1 + 0.0005 * (index % 3 - 1) for index in range(count)]
    return [OPERATIONS / hz * w for w in wobble], [multiply_cycles * OPERATIONS / hz * w for w in wobble]


def test_one_cycle_an_addition() -> None:
    add, multiply = chains(30)
    reading = clock.from_probes(OPERATIONS, add, multiply)
    assert reading.hz == pytest.approx(HZ, rel=1e-3)
    assert "30 of 30 probes" in reading.source
    assert reading.spread is not None
    assert reading.spread < 0.002


def test_interrupted_probes_are_rejected() -> None:
    add, multiply = chains(30)
    add[3] *= 1.4  # the addition chain alone was interrupted
    multiply[7] *= 9
    add[11] *= 1.5  # both were
    multiply[11] *= 1.5
    add[12] *= 0.7
    multiply[12] *= 0.7
    reading = clock.from_probes(OPERATIONS, add, multiply)
    assert reading.hz == pytest.approx(HZ, rel=1e-3)
    assert "26 of 30 probes" in reading.source


def test_one_outlier_among_three_does_not_move_the_clock() -> None:
    add, multiply = chains(3)
    add[1] *= HZ / 3.05e9
    multiply[1] *= HZ / 3.05e9
    assert clock.from_probes(OPERATIONS, add, multiply).hz == pytest.approx(HZ, rel=2e-3)


def test_a_ratio_that_is_no_whole_number_is_no_clock() -> None:
    reading = clock.from_probes(OPERATIONS, *chains(20, multiply_cycles=2.4))
    assert reading.hz is None
    assert "2.40 times" in reading.source


@pytest.mark.parametrize("cycles", [2, 3, 4, 5, 6])
def test_any_whole_number_of_cycles_is_a_multiplication(cycles: int) -> None:
    assert clock.from_probes(OPERATIONS, *chains(20, multiply_cycles=cycles)).hz == pytest.approx(
        HZ, rel=1e-3
    )


def test_two_disturbed_probes_whose_mean_is_whole_are_no_clock() -> None:
    reading = clock.from_probes(OPERATIONS, [1e-5, 1e-5], [2.8e-5, 3.2e-5])
    assert reading.hz is None


def test_no_probe_is_no_clock() -> None:
    reading = clock.from_probes(OPERATIONS, [], [])
    assert (reading.hz, reading.source) == (None, "no probe of the clock ran")
    assert clock.from_probes(OPERATIONS, [0.0], [0.0]).hz is None


def test_a_clock_of_two_minds_is_unsteady() -> None:
    slow_add, slow_multiply = chains(4, hz=2.0e9)
    fast_add, fast_multiply = chains(3, hz=4.0e9)
    lone_add, lone_multiply = chains(4, hz=3.0e9)
    reading = clock.from_probes(
        OPERATIONS, slow_add + fast_add + lone_add, slow_multiply + fast_multiply + lone_multiply
    )
    assert reading.hz is not None
    assert reading.spread is not None
    assert "unsteady" in reading.source or reading.spread > 0.1


def test_counted_clocks_are_taken_as_they_are() -> None:
    reading = clock.from_counters([3.0e9, 3.1e9, 3.05e9, 3.02e9])
    assert (reading.hz, reading.source) == (3.035e9, "core cycles counted, over task-clock; 4 samples")
    assert reading.spread == pytest.approx(0.1 / 3.035)
    assert clock.from_counters([2e9]) == clock.Clock(
        2e9, "core cycles counted, over task-clock; 1 sample", 0.0
    )


def test_this_core_has_a_clock_or_says_why_not() -> None:
    reading = clock.sustained(probes=5)
    assert reading.source
    assert reading.hz is None or 1e8 < reading.hz < 2e10
