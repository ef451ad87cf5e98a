"""The pyperf hook, found by its entry point and run by pyperf itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from counteroof.count.base import Count, unavailable
from counteroof.marking import RegionCounts
from counteroof.pyperf_hook import Hook

ROOT = Path(__file__).parents[1]
BENCHMARK = """
import mmap, pyperf
def touch():
    with mmap.mmap(-1, 50 * 4096) as memory:
        for page in range(50): memory[page * 4096] = 1
runner = pyperf.Runner(processes=1, values=3, warmups=1, loops=4)
runner.bench_func("touch", touch)
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package's entry points are those of pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (tmp_path / "benchmark.py").write_text(BENCHMARK)
    folder = tmp_path / "counteroof_hook_test-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: counteroof-hook-test\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in names.items())
        for group, names in declared.items()
        if group == "pyperf.hook"
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}


def test_a_benchmark_with_the_hook_carries_its_counts(tmp_path: Path, installed: dict[str, str]) -> None:
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        str(tmp_path / "benchmark.py"),
        "--hook",
        "counteroof",
        "--copy-env",
        "-o",
        str(out),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, env=installed, check=False)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(out.read_text())
    (benchmark,) = result["benchmarks"]
    (run,) = [run for run in benchmark["runs"] if run.get("values")]
    known = {**result["metadata"], **benchmark.get("metadata", {}), **run.get("metadata", {})}
    assert "counteroof" in known["hooks"]
    if "counteroof_page_faults" in known:
        assert 4 * 50 <= known["counteroof_page_faults"] < 4 * 50 + 100  # of one sample: four loops
        assert known["counteroof_cpu_seconds"] > 0
    else:
        assert known["counteroof_instructions"] > 4 * 50 or known["counteroof_reasons"]
    for name in ("flops", "dram_bytes"):
        assert f"counteroof_{name}" in known or f"{name}: " in known["counteroof_reasons"]


class Region:
    """A region that counted this."""

    def __init__(self, counts: RegionCounts | None) -> None:
        self.name, self.counts = "pyperf 1", counts


def told(monkeypatch: pytest.MonkeyPatch, counts: RegionCounts | None) -> dict[str, object]:
    hook = Hook()
    hook._region = Region(counts)
    monkeypatch.setattr("counteroof.marking.regions", lambda: {"pyperf 1": counts} if counts else {})
    metadata: dict[str, object] = {"counteroof_flops": 1}
    hook.teardown(metadata)
    return metadata


def test_counts_are_the_mean_of_a_sample_and_what_is_missing_has_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    none = unavailable("perf", "no PMU")
    flops, instructions = Count(40, "counted", "f"), Count(1000, "counted", "i")
    one = RegionCounts("pyperf 1", 4, 1.0, instructions, none, flops, none, none, none)
    assert told(monkeypatch, one) == {
        "counteroof_instructions": 250,
        "counteroof_flops": 10,
        "counteroof_reasons": "cycles: no PMU; dram_bytes: no PMU",
    }


def test_counts_of_the_warm_ups_do_not_stay_for_want_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, None) == {"counteroof_reasons": "no sample could be counted"}
