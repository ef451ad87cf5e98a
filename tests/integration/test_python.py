"""Whole runs from Python: a kernel measured, explained, compared, and held against its baseline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import counteroof
from counteroof.api import Run
from counteroof.check import Rules, check
from counteroof.machine import store
from tests import factories
from tests.compiled import needs

CODE = """
#include <stddef.h>
double scaled(const double *a, double s, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += FACTOR a[i];
    return sum;
}
"""
SPEC = """
[library]
sources = ["scaled.c"]
cflags = ["-O1"]
[[kernel]]
name = "scaled"
signature = "double scaled(const double *a, double s, size_t n)"
params = { n = 3000 }
args = { a = { dtype = "f64", shape = "n", init = "random" }, s = 3.0, n = "n" }
declared = { flops = "n", bytes = "8*n" }
precision = "f64"
"""

pytestmark = [pytest.mark.x86_64, needs("cc")]


def measured(folder: Path, factor: str) -> Run:
    """Return a run of the kernel with a factor in its loop, on a machine whose ceilings are given."""
    (folder / "scaled.c").write_text(CODE.replace("FACTOR", factor))
    (folder / "kernels.toml").write_text(SPEC)
    store.save(factories.machine(), folder / "machine.json")
    run: Run = counteroof.run(folder / "kernels.toml", machine=folder / "machine.json")
    return run


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return measured(tmp_path_factory.mktemp("plain"), "")


def test_a_kernel_is_counted_timed_and_explained(plain: Run) -> None:
    assert not plain.failed
    frame = plain.to_frame()
    assert list(frame["executed_flops"]) == [3000]
    assert frame.loc[0, "seconds"] > 0
    assert re.search(r"^FLOPs declared +3.00 k", plain.explain("scaled"), re.MULTILINE)
    assert "scaled" in repr(plain)


def test_the_same_kernel_holds_and_one_with_more_flops_does_not(plain: Run, tmp_path: Path) -> None:
    assert check(measured(tmp_path, "").results, plain.results).ok
    found = check(measured(tmp_path, "s *").results, plain.results, Rules(bytes=0.5))
    flops = next(item for item in found.bad if item.quantity == "FLOPs")
    assert (flops.before, flops.after) == ("3_000", "6_000")
    assert "f64 scalar mul: 0 to 3_000" in next(i for i in found.bad if i.quantity == "FLOPs by kind").message


def test_a_suite_measures_kernels_and_fails_when_they_change(plain: Run, tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(
        "def test_scaled(counteroof):\n"
        "    run = counteroof.run('kernels.toml', machine='machine.json')\n"
        "    counteroof.check(run, against='baseline.json')\n"
    )
    measured(tmp_path, "").save(tmp_path / "baseline.json")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "counteroof.pytest_plugin",
        f"{tmp_path}/test_kernels.py",
    ]
    env = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(command, cwd=tmp_path.parent, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (tmp_path / "scaled.c").write_text(CODE.replace("FACTOR", "s *"))
    done = subprocess.run(command, cwd=tmp_path.parent, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "scaled  FLOPs" in done.stdout
    assert "6_000" in done.stdout
