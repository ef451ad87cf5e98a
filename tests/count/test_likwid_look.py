"""LIKWID asked what it could do without being started: what it says, what keeps it, how long it may take."""

from __future__ import annotations

import errno
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counteroof.count import likwid_access, likwid_look
from counteroof.count.likwid_access import AS_ROOT, DAEMON, DIRECT, LOAD, PERF_EVENT, described, refused
from counteroof.count.likwid_look import ASK, INSTALL, NOT_INSTALLED, Look
from counteroof.count.likwid_process import _Likwid
from counteroof.count.perf_open import Event

STUB = str(Path(__file__).with_name("likwid_stub"))


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", STUB)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


def opens(event: Event, pid: int, leader: int, enabled: bool) -> int:
    return os.open(os.devnull, os.O_RDONLY)


def test_groups_and_the_way_to_the_counters_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:CLX")
    found = Look(20, opens).result()
    assert found.access == PERF_EVENT
    assert found.availability.task == "counteroof.count.likwid:count"
    assert found.availability.quantities == {"FLOPs", "bytes"}
    assert found.availability.reason == "A CLX processor: groups FLOPS_DP, FLOPS_SP, MEM"


def test_a_group_known_to_be_wrong_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:zen2")
    found = Look(20, opens).result().availability
    assert found.quantities == {"FLOPs"}
    assert "wrong factor" in found.reason


def test_through_perf_event_a_whole_processor_must_be_open_to_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:CLX")
    asked: list[tuple[Event, int]] = []

    def opener(event: Event, pid: int, leader: int, enabled: bool) -> int:
        asked.append((event, pid))
        return -errno.ENOENT

    found = Look(20, opener).result()
    assert not found.availability.usable
    assert found.availability.reason.startswith("LIKWID counts processors through perf_event; instructions")
    assert "no PMU of this kernel counts it" in found.availability.reason
    ((event, pid),) = asked
    assert (event.cpu, pid) == (min(os.sched_getaffinity(0)), -1)


@pytest.mark.parametrize("mode", ["stuck", "works:CLX"])
def test_likwid_is_not_waited_for_longer_than_said(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("LIKWID_STUB", mode)
    look = Look(0 if mode != "stuck" else 0.1, opens)
    found = look.result()
    assert not found.availability.usable
    assert found.remedy == ASK
    assert "had not said after 0" in found.availability.reason
    assert look._process is not None
    assert look._process._process.returncode is not None  # ended, and not left behind


def test_a_process_that_cannot_be_started_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*arguments: object, **more: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("subprocess.Popen", none_left)
    found = Look().result().availability
    assert not found.usable
    assert found.reason == "LIKWID's process could not be started: Resource temporarily unavailable"
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_pylikwid_there_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(likwid_look, "Process", None)
    found = Look().result()
    assert (found.availability.reason, found.remedy) == (NOT_INSTALLED, INSTALL)


# -- MSRs


def msr(root: Path, cpu: int = 3, mode: int = 0o600) -> Path:
    device = root / f"dev/cpu/{cpu}/msr"
    device.parent.mkdir(parents=True)
    device.touch(mode)
    device.chmod(mode)
    return root


def daemon(root: Path, mode: int) -> Path:
    path = root / "likwid-accessD"
    path.touch()
    path.chmod(mode)
    return path


def test_without_the_msrs_nobody_counts(tmp_path: Path) -> None:
    for superuser in (True, False):
        found = refused(3, None, tmp_path, superuser)
        assert found is not None
        assert "/dev/cpu/3/msr, which is not there" in found[0]
        assert found[1] == LOAD


def test_root_reads_msrs_itself_and_by_the_daemon(tmp_path: Path) -> None:
    root = msr(tmp_path)
    assert refused(3, None, root, True) is None
    assert refused(3, daemon(tmp_path, 0o755), root, True) is None
    assert refused(2, None, root, True) is not None  # of another processor


def test_a_user_needs_the_daemon_to_have_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, path = msr(tmp_path), daemon(tmp_path, 0o755)
    found = refused(3, path, root, False)
    assert found is not None
    assert "is not set-uid root" in found[0]
    assert found[1] == f"sudo chown root {path} && sudo chmod u+s $_"
    real = os.stat(path)
    owner = SimpleNamespace(st_uid=0, st_mode=real.st_mode | likwid_access.SET_UID)
    monkeypatch.setattr(Path, "stat", lambda self, **_: owner)
    assert refused(3, path, root, False) is None
    monkeypatch.setattr(Path, "stat", lambda self, **_: SimpleNamespace(st_uid=0, st_mode=real.st_mode))
    assert refused(3, path, root, False) is not None
    monkeypatch.setattr(os, "getxattr", lambda file, name: b"cap_sys_rawio")
    assert refused(3, path, root, False) is None


def test_a_daemon_that_is_gone_is_named(tmp_path: Path) -> None:
    found = refused(3, tmp_path / "gone", msr(tmp_path), False)
    assert found is not None
    assert f"{tmp_path / 'gone'} is not there" in found[0]


def test_a_user_may_read_msrs_that_are_open_to_him(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = msr(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert refused(3, None, root, False) == (
        "LIKWID opens /dev/cpu/3/msr itself, which only root may",
        AS_ROOT,
    )
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert refused(3, None, root, False) is None


class Library:
    """A liblikwid that reads MSRs."""

    def __init__(self, mode: int, *, starts: bool = True, added: int = 0) -> None:
        self.mode, self.starts, self.added = mode, starts, added
        self.asked: list[str] = []

    def getconfiguration(self) -> dict[str, object]:
        return {"daemonMode": self.mode, "daemonPath": "/usr/sbin/likwid-accessD"}

    def inittopology(self) -> None:
        self.asked.append("topology")

    def getcpuinfo(self) -> dict[str, str]:
        return {"name": "a Zen", "short_name": "zen3"}

    def hpminit(self) -> bool:
        return self.starts

    def hpmaddthread(self, cpu: int) -> int:
        self.asked.append(f"processor {cpu}")
        return self.added

    def getgroups(self) -> list[dict[str, str]]:
        return [{"Name": "MEM1"}]


@pytest.fixture
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likwid_access, "has_msrs", lambda: True)


@pytest.mark.usefixtures("on_x86")
def test_msrs_are_opened_by_liblikwid_where_nothing_speaks_against_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(likwid_access, "refused", lambda *which: given.append(which))
    for mode, access, path in ((0, DIRECT, None), (1, DAEMON, Path("/usr/sbin/likwid-accessD"))):
        library = Library(mode)
        told = _Likwid(library).look(5)
        assert told["access"] == access
        assert told["groups"] == ["MEM1"]
        assert library.asked == ["topology", "processor 5"]
        assert given.pop() == (5, path)
    assert "error" in _Likwid(Library(0, added=-1)).look(5)
    assert "error" in _Likwid(Library(0, starts=False)).look(5)


@pytest.mark.usefixtures("on_x86")
def test_liblikwid_is_left_alone_where_it_cannot_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likwid_access, "refused", lambda *which: ("no MSRs", "load them"))
    library = Library(1)
    told = _Likwid(library).look(5)
    assert (told["refused"], told["remedy"]) == ("no MSRs", "load them")
    assert library.asked == []


def test_what_is_installed_is_told_where_likwid_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = daemon(tmp_path, 0o755)
    assert described(DIRECT, None) == "direct"
    assert described(DAEMON, str(path)) == f"access daemon {path}, not set-uid: for root only"
    monkeypatch.setattr(likwid_access.shutil, "which", lambda name, path=None: None)
    assert described(None, None) == "LIKWID is not installed"
    monkeypatch.setattr(
        likwid_access.shutil, "which", lambda name, path=None: "/x" if name == "likwid-perfctr" else None
    )
    assert described(None, None) == "no access daemon"
