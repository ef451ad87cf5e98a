"""Real libraries do their work under the engine, and the bytes they leave are those of a native run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .libraries.work import works

pytestmark = pytest.mark.x86_64

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", list(works()))
def test_results_are_those_of_a_native_run(name: str) -> None:
    modes = run(name)
    if "missing" in modes:
        pytest.skip(f"needs {modes['missing']}")
    for detail in ("flops", "bytes"):
        assert modes[detail]["equal"], f"another result in detail {detail}"
        assert modes[detail]["instructions"] > 1000
        assert modes[detail]["blocks"] > 10


def run(name: str) -> dict[str, dict[str, float]]:
    """Run a work in a process of its own, on one thread and for this very processor."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.integration.libraries.measure", name],
        cwd=ROOT,
        env=environment | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    modes: dict[str, dict[str, float]] = json.loads(ended.stdout)
    return modes
