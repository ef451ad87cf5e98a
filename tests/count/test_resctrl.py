"""Monitoring groups in a folder that stands for resctrl: made, filled, read and always removed."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from counteroof.count import resctrl
from counteroof.count.resctrl import Group, Moved, ResctrlFailed, support, sweep
from counteroof.machine.sysfs import Tree
from tests.machine import trees


def mounted(root: Path, vendor: str = "AuthenticAMD", config: str | None = "0=0x7f;1=0x7f") -> Path:
    """Write a mounted resctrl and a processor with bandwidth monitoring."""
    fields = trees.x86(vendor, 25, 17, "a processor", "fpu cqm_mbm_total cqm_mbm_local")
    trees.write_proc(root, 2, fields)
    where = root / "sys/fs/resctrl"
    trees.write(where, "info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes")
    if config is not None:
        trees.write(where, "info/L3_MON/mbm_total_bytes_config", config)
    (where / "mon_groups").mkdir()
    return where


def filled(*texts: str) -> object:
    """Return what makes a group with the files that the kernel would put there."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "tasks").write_text("")
        for number, text in enumerate(texts):
            trees.write(folder, f"mon_data/mon_L3_{number:02}/mbm_total_bytes", text)

    return make


def group(root: Path, *texts: str, threads: tuple[int, ...] = (7,)) -> Group:
    return Group(threads, root, make=filled(*texts), remove=shutil.rmtree)  # type: ignore[arg-type]


def test_bytes_are_the_sum_over_domains_and_the_group_is_removed(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    with group(root, "1000", "234") as own:
        assert own.moved() == Moved(1234, None)
        assert (own.folder / "tasks").read_text() == "7\n"
        assert own.folder.name == f"counteroof-{os.getpid()}"
    assert list((root / "mon_groups").iterdir()) == []


def test_local_bytes_are_told_where_every_domain_tells_them(tmp_path: Path) -> None:
    with group(mounted(tmp_path), "1000", "234") as own:
        near = [own.folder / f"mon_data/mon_L3_0{number}/mbm_local_bytes" for number in (0, 1)]
        near[0].write_text("900")
        assert own.moved().local is None
        near[1].write_text("34")
        before = own.moved()
        assert before == Moved(1234, 934)
        near[1].write_text("44")
        assert own.moved().since(before) == Moved(0, 10)
        near[1].write_text("Unavailable")
        assert own.moved().since(before) == Moved(0, None)


def test_a_group_is_removed_when_what_it_monitored_fails(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    with pytest.raises(ZeroDivisionError), group(root, "0"):
        raise ZeroDivisionError
    assert list((root / "mon_groups").iterdir()) == []


@pytest.mark.parametrize("text", ["Unavailable", "Error", "Unassigned", ""])
def test_a_domain_without_a_number_is_no_zero(tmp_path: Path, text: str) -> None:
    with (
        group(mounted(tmp_path), "5", text) as own,
        pytest.raises(ResctrlFailed, match="mon_L3_01 has no count"),
    ):
        own.moved()


def test_a_group_without_domains_has_no_bytes(tmp_path: Path) -> None:
    with group(mounted(tmp_path)) as own, pytest.raises(ResctrlFailed, match="no domain"):
        own.moved()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errno.ENOSPC, "no monitoring group left"),
        (errno.EACCES, "made no monitoring group: Permission denied"),
    ],
)
def test_a_group_that_cannot_be_made_says_why(tmp_path: Path, error: int, text: str) -> None:
    def make(folder: Path) -> None:
        raise OSError(error, os.strerror(error))

    with pytest.raises(ResctrlFailed, match=text), Group((1,), mounted(tmp_path), make=make):
        pass


def test_threads_that_are_refused_leave_no_group(tmp_path: Path) -> None:
    root = mounted(tmp_path)

    def make(folder: Path) -> None:
        (folder / "tasks").mkdir(parents=True)  # cannot be written

    with (
        pytest.raises(ResctrlFailed, match="took no threads"),
        Group((1,), root, make=make, remove=shutil.rmtree),
    ):
        pass
    assert list((root / "mon_groups").iterdir()) == []


def test_what_a_process_that_died_left_behind_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    for name in (f"counteroof-{dead.pid}", f"counteroof-{os.getpid()}", "counteroof-x", "somebody-1"):
        (root / "mon_groups" / name).mkdir()
    assert sweep(root) == (f"counteroof-{dead.pid}",)
    assert len(list((root / "mon_groups").iterdir())) == 3


def test_a_worker_that_is_killed_leaves_a_group_and_the_sweep_takes_it(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    worker = """
import os, signal, sys
from pathlib import Path
from counteroof.count.resctrl import Group
def make(folder):
    folder.mkdir()
    (folder / "tasks").touch()
with Group([os.getpid()], Path(sys.argv[1]), make=make):
    assert (Path(sys.argv[1]) / "mon_groups" / f"counteroof-{os.getpid()}" / "tasks").read_text()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-c", worker, str(root)], env=environment) as killed:
        pass
    assert killed.returncode == -signal.SIGKILL
    left = f"counteroof-{killed.pid}"
    assert [one.name for one in (root / "mon_groups").iterdir()] == [left]
    assert sweep(root, remove=shutil.rmtree) == (left,)  # the kernel lets rmdir take what is in a group
    assert list((root / "mon_groups").iterdir()) == []


def test_where_resctrl_is_not_there_is_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == ()


# -- what is there


def test_amd_counts_reads_and_writes_unless_configured_otherwise(tmp_path: Path) -> None:
    root = mounted(tmp_path / "all")
    assert support(root, Tree(tmp_path / "all")).complete
    root = mounted(tmp_path / "reads", config="0=0x03;1=0x7f")
    found = support(root, Tree(tmp_path / "reads"))
    assert found.usable
    assert not found.complete
    assert "which is not all traffic" in found.reason


def test_on_intel_write_backs_are_not_promised(tmp_path: Path) -> None:
    found = support(mounted(tmp_path, "GenuineIntel", None), Tree(tmp_path))
    assert found.usable
    assert not found.complete
    assert "write-backs" in found.reason


def test_a_processor_without_monitoring_is_told_so(tmp_path: Path) -> None:
    trees.write_proc(tmp_path, 2, trees.ZEN5)
    found = support(tmp_path / "none", Tree(tmp_path))
    assert (found.usable, found.remedy) == (False, None)
    assert "cqm_mbm_total" in found.reason


def test_a_processor_nobody_tells_of_is_not_said_to_lack_it(tmp_path: Path) -> None:
    found = support(tmp_path / "none", Tree(tmp_path))
    assert not found.usable
    assert found.reason == "nothing tells whether there is any (/proc/cpuinfo is not there)"


def test_a_processor_with_monitoring_that_is_not_mounted_gets_the_command(tmp_path: Path) -> None:
    mounted(tmp_path)
    found = support(tmp_path / "none", Tree(tmp_path))
    assert found.remedy == "sudo mount -t resctrl resctrl /sys/fs/resctrl"


def test_a_kernel_that_monitors_something_else_is_told_so(tmp_path: Path) -> None:
    root = mounted(tmp_path)
    (root / "info/L3_MON/mon_features").write_text("llc_occupancy\n")
    assert "does not monitor memory bandwidth" in support(root, Tree(tmp_path)).reason


def test_groups_of_root_are_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = mounted(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    found = support(root, Tree(tmp_path))
    assert (found.usable, found.remedy) == (False, "run as root (sudo)")


def test_this_machine_can_be_asked() -> None:
    assert support().reason
    assert isinstance(sweep(), tuple)
    assert Path("/sys/fs/resctrl") == resctrl.ROOT
