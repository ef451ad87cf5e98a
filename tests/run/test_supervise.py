"""Watching a child: its end, its output, its time; whatever it does, nothing hangs and nothing survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from counteroof.errors import KernelFailed
from counteroof.run.supervise import KEPT_OUTPUT, THREAD_VARIABLES, Ended, environment, supervise


def run(code: str, time_limit: float = 20) -> Ended:
    return supervise([sys.executable, "-c", code], os.environ, time_limit)


def gone(pid: int) -> bool:
    """Whether a process has ended (or waits as a zombie for its new parent)."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


def test_status_and_output() -> None:
    ended = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)")
    assert (ended.status, ended.timed_out) == (4, False)
    assert sorted(ended.output.split()) == ["err", "out"]
    assert ended.seconds < 20


def test_signal_is_told_as_a_negative_status() -> None:
    assert run("import os; os.kill(os.getpid(), 11)").status == -signal.SIGSEGV


def test_time_limit_kills() -> None:
    ended = run("import time; print('begun', flush=True); time.sleep(60)", 0.5)
    assert ended.timed_out
    assert ended.status < 0
    assert "begun" in ended.output
    assert ended.seconds < 5


def test_child_that_ignores_signals_is_killed() -> None:
    ended = run(
        "import signal, time\nfor s in range(1, 32):\n"
        "    if s not in (9, 19): signal.signal(s, signal.SIG_IGN)\ntime.sleep(60)",
        0.5,
    )
    assert ended.timed_out
    assert ended.status == -signal.SIGKILL


def test_flood_is_read_and_shortened() -> None:
    ended = run("import os\nfor i in range(1000): os.write(1, b'%6d' % i * 1000)")
    assert ended.status == 0
    assert len(ended.output) < 3 * KEPT_OUTPUT
    assert ended.output.startswith("     0")
    assert ended.output.endswith("   999")
    assert "bytes ...]" in ended.output


def test_output_closed_by_the_child_is_not_its_end() -> None:
    ended = run("import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(5)")
    assert ended.status == 5
    assert ended.seconds > 0.3


def test_grandchild_that_holds_the_output_does_not_hold_us(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    ended = run(
        "import os, time\npid = os.fork()\n"
        f"if pid == 0: time.sleep(60)\nopen({str(note)!r}, 'w').write(str(pid))"
    )
    assert ended.status == 0
    assert ended.seconds < 10
    assert gone(int(note.read_text()))


def test_exception_in_the_parent_kills_the_child(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import os, signal, sys\nfrom counteroof.run.supervise import supervise\n"
        "signal.alarm(20)\n"
        "child = \"import os, time; open('NOTE', 'w').write(str(os.getpid())); time.sleep(60)\"\n"
        "supervise([sys.executable, '-c', child.replace('NOTE', sys.argv[1])], os.environ, 60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(note)], env={**os.environ, "PYTHONPATH": "."}, stderr=subprocess.PIPE
    )
    for _ in range(500):
        if note.exists() and note.read_text():
            break
        time.sleep(0.02)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=10)
    assert b"KeyboardInterrupt" in errors
    assert gone(int(note.read_text()))


def test_without_a_process_descriptor_the_end_is_seen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError("not here")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert run("print('x')").output == "x\n"
    assert run("import os, time; os.close(1); os.close(2); time.sleep(0.1)").status == 0
    assert run("import time; time.sleep(60)", 0.3).timed_out


def test_no_descriptors_are_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    run("pass")
    run("import time; time.sleep(60)", 0.1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_command_that_is_not_there() -> None:
    with pytest.raises(KernelFailed, match="cannot be started") as caught:
        supervise(["/no/such/program"], os.environ, 1)
    assert caught.value.kind == "setup"


def test_environment_has_threads_first_and_the_authors_word_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    made = environment({"OMP_NUM_THREADS": "5", "GONE": "", "NEW": "x"}, 2)
    assert made["OMP_NUM_THREADS"] == "5"
    assert all(made[name] == "2" for name in THREAD_VARIABLES if name != "OMP_NUM_THREADS")
    assert "GONE" not in made
    assert made["NEW"] == "x"
    assert os.environ["GONE"] == "1"
