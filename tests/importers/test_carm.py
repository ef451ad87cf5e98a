"""CARM's JSONL: roofs and mixed points of a benchmark, points of a profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput
from counteroof.importers import carm
from counteroof.importers.imported import Contradiction, Options
from counteroof.results import Results
from counteroof.roofline import dram_ceilings

# In the form of carm-roofline 1.5.1.
ARITHMETIC: dict[str, Any] = {
    "type": "arithmetic",
    "name": "fma_avx512",
    "isa": "avx512",
    "data_type": "f64",
    "num_threads": 1,
    "timestamp": "2026-11-29T10:00:00",
    "machine": "zen5_abc",
    "operation": "fma",
    "performance_gops": 135.0,
    "frequency_hz": 2.11e9,
    "time_seconds": 0.5,
    "cycles": 1_055_000_000,
}
MEMORY: dict[str, Any] = {
    "type": "memory",
    "name": "dram_2_1",
    "isa": "avx512",
    "data_type": "f64",
    "num_threads": 1,
    "machine": "zen5_abc",
    "load_store_ratio": "2:1",
    "num_loads": 2,
    "num_stores": 1,
    "memory_level_name": "DRAM",
    "bandwidth_gbps": 40.3,
}
MIXED: dict[str, Any] = {
    "type": "mixed",
    "isa": "avx2",
    "data_type": "f32",
    "num_threads": 2,
    "machine": "zen5_abc",
    "operation": "add",
    "points": [
        {"name": "mixed_0", "arithmetic_intensity": 0.25, "performance_gops": 10.0, "time_seconds": 0.2},
    ],
}
PROFILE: dict[str, Any] = {
    "format_version": "3.0",
    "metadata": {"name": "app", "method": "PAPI_HL", "precision": "dp", "command": "./app 7"},
    "points": [
        {
            "label": "daxpy",
            "total_flops": 2e9,
            "total_bytes": 24e9,
            "runtime_s": 0.5,
            "num_threads": 4,
            "arithmetic_intensity": 2 / 24,
            "flops_per_second": 4e9,
            "bandwidth": 48e9,
        }
    ],
}


def lines(*entries: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, entries)) + "\n"


def read(*entries: dict[str, Any]) -> Results:
    text = lines(*entries)
    assert carm.recognises(text)
    (run,) = carm.read(text, Path("benchmarks.jsonl"), Options())
    return run


def changed(entry: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**entry, **fields}


def test_benchmarks_are_roofs() -> None:
    run = read(ARITHMETIC, MEMORY, changed(ARITHMETIC, performance_gops=130.0))
    assert (run.machine.name, run.kernels) == ("zen5_abc", ())
    compute, memory = run.machine.ceilings
    assert (compute.name, compute.kind, compute.value) == ("f64 AVX-512 fma", "compute", 135e9)
    assert compute.samples == (135e9, 130e9)
    assert (compute.fma, compute.clock_hz) == (True, 2.11e9)
    assert (memory.name, memory.level, memory.value) == ("DRAM AVX-512 2:1", "dram", 40.3e9)


def test_a_roof_without_write_allocates_is_none_for_actual_bytes() -> None:
    assert dram_ceilings(read(MEMORY).machine.ceilings) == ()


def test_integers_and_what_was_not_measured_are_no_roofs() -> None:
    run = read(ARITHMETIC, changed(ARITHMETIC, data_type="i32"), changed(ARITHMETIC, performance_gops=None))
    assert len(run.machine.ceilings) == 1


def test_a_profile_has_the_bytes_of_instructions_and_none_of_memory() -> None:
    (kernel,) = read(PROFILE).kernels
    assert (kernel.name, kernel.library, kernel.threads, kernel.precision) == ("daxpy", "./app 7", 4, "f64")
    assert kernel.flops.value == 2_000_000_000
    assert kernel.counters["carm"].core_l1_bytes.value == 24_000_000_000
    assert kernel.dram_bytes.value is None
    assert kernel.dram_bytes.reason == "CARM counts the bytes that instructions ask for, not those of memory"
    assert kernel.seconds is not None
    assert kernel.seconds.median == 0.5


def test_mixed_points_are_kernels() -> None:
    (kernel,) = read(MIXED).kernels
    assert (kernel.name, kernel.threads, kernel.precision) == ("mixed_0", 2, "f32")
    assert kernel.flops.value == 2_000_000_000
    assert kernel.counters["carm"].core_l1_bytes.value == 8_000_000_000


def test_two_machines_are_two_runs() -> None:
    text = lines(ARITHMETIC, changed(ARITHMETIC, machine="other"))
    assert [run.machine.name for run in carm.read(text, Path("f"), Options())] == ["zen5_abc", "other"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (changed(MEMORY, num_loads=1), "loads to stores are said in two ways that disagree: 2:1 and 1:1"),
        (changed(ARITHMETIC, cycles=2_000_000_000), "line 1: cycles is said in two ways"),
        (
            changed(PROFILE, points=[changed(PROFILE["points"][0], arithmetic_intensity=0.5)]),
            "arithmetic_intensity is said in two ways",
        ),
        (changed(PROFILE, points=[changed(PROFILE["points"][0], bandwidth=1e9)]), "bandwidth is said in two"),
    ],
)
def test_what_is_said_in_two_ways_that_disagree_is_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(Contradiction, match=message):
        read(entry)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lines(ARITHMETIC) + '{"type": "arith', "line 2: not JSON"),
        (lines(ARITHMETIC, {"type": "x"}), "line 2: expected an object with a type or points"),
        (lines(changed(ARITHMETIC, performance_gops="many")), "performance_gops is 'many'"),
        (lines(changed(ARITHMETIC, performance_gops=-1)), "performance_gops is -1"),
        (lines(changed(MIXED, points=3)), "points is 3; expected a list"),
        (lines(changed(MIXED, points=[3])), "point 0 is 3; expected an object"),
    ],
)
def test_damaged_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        carm.read(text, Path("f.jsonl"), Options())
