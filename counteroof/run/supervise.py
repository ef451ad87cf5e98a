"""A child process that may do anything: it is watched, limited in time, and never waited for blindly."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import KernelFailed

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
KEPT_OUTPUT = 1 << 16
"""Bytes of the child's output that are kept: the first half of them and the last."""
WATCH_STEP = 0.1
"""Seconds between two looks of whoever watches."""
LAST_WORDS = 0.2
"""Seconds a child has to record where it is before it is killed."""


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Attributes
    ----------
    status
        Exit status, or minus the number of the signal that ended it.
    timed_out
        True if it was killed because its time was up.
    output
        What it wrote to standard output and standard error, shortened in the middle.
    seconds
        How long it ran.
    """

    status: int
    timed_out: bool
    output: str
    seconds: float


def environment(env: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the environment of a process that runs a kernel with ``threads`` threads.

    ``env`` goes last: it is the author's word, and an empty value there unsets the variable.
    """
    result = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(threads))
    root = str(Path(__file__).resolve().parents[2])
    result["PYTHONPATH"] = os.pathsep.join(filter(None, (root, result.get("PYTHONPATH"))))
    for name, value in env.items():
        if value:
            result[name] = value
        else:
            result.pop(name, None)
    return result


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``main()`` of a module; the current folder is not searched for modules."""
    return [sys.executable, "-P", "-c", f"from {module} import main; main()", *arguments]


def supervise(
    command: Sequence[str],
    env: Mapping[str, str],
    time_limit: float,
    watch: Callable[[], None] | None = None,
) -> Ended:
    """Run a command to its end, or to the end of its time, in a process group of its own.

    The whole group is killed when the command ends, its time is up, or an exception (Ctrl-C) passes through.
    When its time is up it first gets SIGXCPU, upon which a worker records where it is. ``watch`` is called
    several times a second while it runs.
    """
    try:
        process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise KernelFailed("setup", f"a worker process cannot be started: {error}") from None
    start = time.monotonic()
    output = _Output(process, watch)
    timed_out = False
    try:
        if not output.follow(start + time_limit):
            timed_out = True
            _signal_group(process.pid, signal.SIGXCPU)
            output.follow(time.monotonic() + LAST_WORDS)
    finally:
        # The process is not reaped yet, so its number still means this group and no other.
        _signal_group(process.pid, signal.SIGKILL)
        status = process.wait()
        output.close()
    return Ended(status, timed_out, output.text(), time.monotonic() - start)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class _Output:
    """Reads the child's output as it comes, so that the child never waits, and keeps a bounded part of it."""

    def __init__(self, process: subprocess.Popen[bytes], watch: Callable[[], None] | None) -> None:
        assert process.stdout is not None
        self._watch = watch
        self._process, self._stream = process, process.stdout
        self._head, self._tail, self._dropped = b"", b"", 0
        os.set_blocking(self._stream.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._stream.fileno(), select.POLLIN)
        try:
            self._end: int | None = os.pidfd_open(process.pid)
            self._poll.register(self._end, select.POLLIN)
        except OSError:  # before Linux 5.3, or refused by a sandbox: look from time to time
            self._end = None
        self._reading = True

    def follow(self, deadline: float) -> bool:
        """Read until the child has ended, and return True; or until the deadline, and return False.

        The end of the output is no sign of the child's end, nor the other way round: a child may close its
        output and go on, or leave it to a grandchild.
        """
        while not self._ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not self._reading and self._end is None:
                time.sleep(min(left, 0.005))
                continue
            step = min(left, 0.005 if self._end is None else WATCH_STEP if self._watch else left)
            self._poll.poll(max(1, int(step * 1000)))
            if self._reading and not self._read():
                self._reading = False
                self._poll.unregister(self._stream.fileno())
            if self._watch is not None:
                self._watch()
        return True

    def _ended(self) -> bool:
        # WNOWAIT leaves the process unreaped: its group can still be signalled safely.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self) -> bool:
        """Take what is there; False at the end of the output."""
        try:
            data = os.read(self._stream.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        room = KEPT_OUTPUT // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > KEPT_OUTPUT:
            self._dropped += len(self._tail) - KEPT_OUTPUT // 2
            self._tail = self._tail[-(KEPT_OUTPUT // 2) :]
        return bool(data)

    def close(self) -> None:
        for _ in range(16):  # what is left in the pipe; a surviving grandchild may go on writing
            if not self._reading or not self._poll_now() or not self._read():
                break
        self._stream.close()
        if self._end is not None:
            os.close(self._end)

    def _poll_now(self) -> bool:
        return any(fd == self._stream.fileno() for fd, _ in self._poll.poll(0))

    def text(self) -> str:
        dropped = f"\n[... {self._dropped} bytes ...]\n".encode() if self._dropped else b""
        return (self._head + dropped + self._tail).decode(errors="replace")
