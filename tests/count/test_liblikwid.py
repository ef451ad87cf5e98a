"""The real pylikwid and liblikwid: what they refuse here, and a run with their counting replaced."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from counteroof.count.likwid import available
from counteroof.count.likwid_access import DAEMON, DIRECT, LOAD, MODES
from counteroof.count.likwid_client import Likwid, LikwidFailed
from counteroof.count.likwid_groups import Counting
from counteroof.count.likwid_look import Look

pytestmark = [
    pytest.mark.likwid,
    pytest.mark.skipif(
        importlib.util.find_spec("pylikwid") is None,
        reason="needs pylikwid (docs/counters.md has the commands)",
    ),
]


def test_liblikwid_counts_here_or_says_why_not_and_we_live() -> None:
    answer = available()
    if not answer.usable and "groups" not in answer.reason:
        assert answer.reason.startswith(("LIKWID could not be started: ", "LIKWID ended its process"))
        assert len(answer.reason) > 40  # its own message is there
        with pytest.raises(LikwidFailed):
            Likwid([0])


def test_liblikwid_tells_how_it_reaches_the_counters_without_being_started() -> None:
    found = Look(seconds=20).result()
    assert found.access in (*MODES.values(), None)
    if found.access == DAEMON:
        assert Path(found.daemon or "").is_file()
    if found.access in (DIRECT, DAEMON) and not Path("/dev/cpu/0/msr").exists():
        assert "/msr, which is not there" in found.availability.reason
        assert found.remedy == LOAD


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_pylikwid_delivers_what_liblikwid_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = tmp_path / "libstub.so"
    source = Path(__file__).with_name("likwid_stub") / "perfmon.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(stub), str(source)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(stub))
    with Likwid([0]) as likwid:
        assert likwid.known.groups == ("FLOPS_DP",)
        found = Counting(likwid, [0], 10, lambda calls: 1.0).measurement()
    assert found.flops.value == 21e6 * 2 / 10
    assert found.instructions.value == 500
    assert found.dram_read_bytes.value is None
