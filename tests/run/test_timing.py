"""Timing: how much is measured, and what is read from pyperf's result."""

from __future__ import annotations

from typing import Any

import pytest

from counteroof.errors import KernelFailed
from counteroof.run.timing import MIN_TIME, PageFaults, read_timing, settings_for, with_conditions


def spent(seconds: float) -> float:
    """Return the seconds that timing a kernel takes, warm-ups included, for calls of that length."""
    settings = settings_for(seconds, cold=False)
    sample = max(seconds, MIN_TIME)
    return settings.processes * (settings.warmups + settings.values) * sample


@pytest.mark.parametrize("seconds", [1e-7, 1e-4, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_quick_kernels_are_sampled_several_times_in_a_bearable_time(seconds: float) -> None:
    settings = settings_for(seconds, cold=False)
    assert settings.processes * settings.values >= 4
    assert settings.warmups >= 1
    assert spent(seconds) < 2.5


@pytest.mark.parametrize("seconds", [0.6, 2, 5, 60])
def test_slow_kernels_are_sampled_as_little_as_makes_sense(seconds: float) -> None:
    settings = settings_for(seconds, cold=False)
    assert settings.processes >= 2
    assert settings.loops == 1
    assert spent(seconds) <= 4 * seconds


def test_only_calls_shorter_than_a_sample_are_calibrated() -> None:
    assert settings_for(MIN_TIME / 2, cold=False).loops == 0
    assert settings_for(MIN_TIME, cold=False).loops == 1
    assert settings_for(1e-6, cold=True).loops == 1


def test_long_preparations_are_made_in_few_processes() -> None:
    settings = settings_for(1e-4, cold=False, preparation=5.0)
    assert settings.processes == 2
    assert settings.loops == 200  # from the estimate: a calibration would be one more preparation


RUNS: list[dict[str, Any]] = [
    {"metadata": {"calibrate_loops": 8, "loops": 8}, "warmups": [[1, 0.5], [8, 0.25]]},
    {"warmups": [[8, 0.3]], "values": [0.1, 0.2]},
    {"warmups": [[8, 0.3]], "values": [0.4]},
]


def test_samples_of_all_processes_are_kept_and_calibrations_are_not_among_them() -> None:
    result = {"metadata": {"loops": 8}, "benchmarks": [{"runs": RUNS}], "version": "1.0"}
    timing = read_timing(result)
    assert timing.samples == (0.1, 0.2, 0.4)
    assert timing.median == 0.2
    assert (timing.loops, timing.warmups, timing.processes) == (8, 1, 2)
    assert timing.pyperf_json == result


def test_loops_may_stand_with_the_benchmark_or_the_run() -> None:
    assert read_timing({"benchmarks": [{"metadata": {"loops": 4}, "runs": [{"values": [1.0]}]}]}).loops == 4
    assert read_timing({"benchmarks": [{"runs": [{"metadata": {"loops": 2}, "values": [1.0]}]}]}).loops == 2


def test_result_without_samples_is_no_timing() -> None:
    with pytest.raises(KernelFailed, match="no samples"):
        read_timing({"benchmarks": [{"runs": RUNS[:1]}]})


def test_conditions_are_those_of_most_processes_and_unknown_ones_are_left_out() -> None:
    timing = read_timing({"benchmarks": [{"runs": RUNS, "metadata": {"loops": 8}}]})
    told = [
        {"clock_hz": 3e9, "minor": 2.0, "major": 0.0, "fault_seconds": 1e-7, "processor_share": 0.5},
        {"clock_hz": None, "minor": 4.0, "major": 0.5, "fault_seconds": 3e-7, "processor_share": 1.0},
        {"clock_hz": 4e9, "minor": None, "major": None, "processor_share": None},
        None,
    ]
    with_all = with_conditions(timing, told)
    assert with_all.clock_hz == 3.5e9
    assert with_all.page_faults == PageFaults(3.0, 0.25, pytest.approx(2e-7))
    assert with_all.processor_share == 0.75
    assert with_conditions(timing, []).processor_share is None
    assert with_conditions(timing, []).clock_hz is None
    assert with_conditions(timing, []).page_faults is None
