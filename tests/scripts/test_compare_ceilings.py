"""The comparison of ceilings with other tools: what is a miss, and what is held against what."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from counteroof.machine import topology

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare_ceilings.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_ceilings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_ceilings"] = module
    spec.loader.exec_module(module)
    return module


def row(script: ModuleType, level: str, ours: list[float], **peers: list[float]) -> object:
    kind = "bandwidth" if level else "compute"
    return script.Row(kind, level, "1:0", "AVX2", rates={"counteroof": ours, **peers})


def test_medians_are_compared_with_the_best_peer_and_misses_come_first(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        row(script, "L1", [100e9, 90e9, 110e9], likwid=[50e9, 80e9, 99e9], carm=[10e9, 20e9, 100e9]),
        row(script, "L2", [96e9] * 3, likwid=[90e9] * 3, carm=[100e9] * 3),
        row(script, "DRAM", [98e9] * 3, likwid=[100e9] * 3),
    ]
    assert script.report(found) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in out[1:4]] == [
        ["MISS", "0.960", "0.960", "L2"],
        ["0.980", "0.980", "DRAM", "1:0"],
        ["1.250", "1.100", "L1", "1:0"],
    ]
    assert out[1].endswith("carm")
    assert out[-1].startswith("1 of 3 below 0.97")


def test_a_compute_roof_has_to_be_closer(script: ModuleType) -> None:
    assert script.report([row(script, "", [97.5e9], carm=[100e9])]) == 1
    assert script.report([row(script, "", [98.5e9], carm=[100e9])]) == 0


def test_nothing_compared_is_no_success(script: ModuleType) -> None:
    assert script.report([row(script, "L1", [100e9])]) == 1


def test_bytes_of_our_loops_are_those_the_peers_count(script: ModuleType) -> None:
    machine = topology.detect()
    elements = {"1:0": 8, "0:1": 8, "1:1": 16, "2:1": 24, "3:1": 32}
    compared = [
        one
        for one in script.rows(machine, ["L1", "DRAM", "compute"], ["scalar"], 1)
        if one.jobs and one.level
    ]
    assert {one.mix for one in compared} >= set(elements)
    for one in compared:
        for job in one.jobs:
            moved = job.loop.moved_bytes(job.boundary) * 8 // job.loop.chunk_bytes
            assert moved == elements[one.mix.split()[0]]


def test_slices_add_up_in_a_file(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    kept = script.load(path)
    assert kept == []
    for level, ours, theirs in (
        ("L1", 90e9, 100e9),
        ("L2", 70e9, 50e9),
        ("L1", 99e9, 100e9),
        ("L1", 98e9, 90e9),
    ):
        one = row(script, level, [ours], carm=[theirs])
        silent = script.Row("bandwidth", "L3", "1:0", "AVX2")
        kept = script.add(kept, [{one.key: one, silent.key: silent}])
        script.save(path, kept)
        kept = script.load(path)
    assert [(one.level, one.rates) for one in kept] == [
        ("L1", {"counteroof": [90e9, 99e9, 98e9], "carm": [100e9, 100e9, 90e9]}),
        ("L2", {"counteroof": [70e9], "carm": [50e9]}),
    ]
    assert kept[0].ratio() == 0.98


def test_other_threads_are_another_row(script: ModuleType) -> None:
    one, two = row(script, "L1", [1e9]), row(script, "L1", [2e9])
    two.threads = 2
    kept = script.add([one], [{two.key: two}])
    assert [found.threads for found in kept] == [1, 2]


@pytest.mark.parametrize(
    ("levels", "kinds"),
    [(["compute"], {"compute"}), (["L1"], {"bandwidth"}), (["L1", "compute"], {"bandwidth", "compute"})],
)
def test_a_slice_is_of_some_levels_alone(script: ModuleType, levels: list[str], kinds: set[str]) -> None:
    machine = topology.detect()
    assert {one.kind for one in script.rows(machine, levels, ["scalar"], 1) if one.jobs} == kinds


def test_a_line_of_carm_goes_to_its_row_unless_it_took_no_time(script: ModuleType) -> None:
    found = script.Row("compute", "", "FMA", "AVX2", "f32")
    line = {"isa": "x86_avx2", "data_type": "f32", "type": "arithmetic", "operation": "fma", "name": "x"}
    script._carm_line({found.key: found}, {**line, "performance_gops": 68.0, "time_seconds": 0.1})
    script._carm_line({found.key: found}, {**line, "performance_gops": 9e7, "time_seconds": 1.6e-8})
    assert found.rates == {"carm": [68e9]}
