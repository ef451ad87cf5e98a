"""The cache model on random input, built with sanitizers: told of accesses together and one by one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "sanitize_cachesim.sh"


def has_sanitizers(folder: Path) -> bool:
    """Whether the compiler comes with their libraries, which are often packages of their own."""
    if shutil.which("cc") is None:
        return False
    command = ["cc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", str(folder / "probe")]
    return subprocess.run(command, input=b"int main(void) { return 0; }", capture_output=True).returncode == 0


def test_the_cache_model_is_the_same_both_ways_and_sanitizers_have_no_complaint(tmp_path: Path) -> None:
    if not has_sanitizers(tmp_path):
        pytest.skip("needs a C compiler with the address and undefined-behaviour sanitizers")
    done = subprocess.run(["bash", str(SCRIPT), "200"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "200 rounds: no complaint" in done.stdout
