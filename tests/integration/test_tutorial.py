"""The tutorial runs as it stands and finds what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import counteroof
from counteroof.machine import store
from tests import factories
from tests.compiled import needs

ROOT = Path(__file__).parents[2]


@pytest.mark.x86_64
@needs("cc")
def test_the_tutorial_finds_the_wrong_way_through_the_matrix(tmp_path: Path) -> None:
    store.save(factories.machine(), tmp_path / "machine.json")
    command = [
        sys.executable,
        "scripts/tutorial.py",
        str(tmp_path),
        "--machine",
        str(tmp_path / "machine.json"),
    ]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(\d)\. ", done.stdout, re.MULTILINE) == list("1234567")
    assert "the repaired kernel holds: True" in done.stdout
    assert re.search("the old one does not: .*DRAM read", done.stdout)
    assert "fetched again" in done.stdout
    kept = counteroof.read_results(tmp_path / "baseline.json")["scale"]
    assert kept.flops.value == 16_000_000
    assert kept.dram_bytes.value == pytest.approx(16 * 16_000_000, rel=0.05)
    assert {"before.png", "after.png"} <= {path.name for path in tmp_path.iterdir()}
