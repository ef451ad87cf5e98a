"""The other end of LIKWID's process: starts it, gives it orders, and turns its death into a reason."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CounteroofError

ANSWER_SECONDS = 20.0
"""Seconds after which LIKWID is taken for hung."""


class LikwidFailed(CounteroofError):
    """LIKWID did not do what it was asked; the text is its own."""


@dataclass(frozen=True)
class Known:
    """What LIKWID calls this processor, in full and in short, and the groups it has for it."""

    cpu: str
    short: str
    groups: tuple[str, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Known:
        """Return it from LIKWID's answer."""
        return cls(told["cpu"] or "an unknown processor", told["short"] or "", tuple(told["groups"]))


@dataclass(frozen=True)
class Group:
    """A group as LIKWID knows it: its events, and what it computes from them."""

    id: int
    name: str
    events: tuple[str, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Ran:
    """What a group counted: for each event and metric a value a processor, ``None`` where it has none."""

    seconds: float
    events: tuple[tuple[float | None, ...], ...]
    metrics: tuple[tuple[float | None, ...], ...]


class Process:
    """LIKWID's process, which takes one order after the other."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "counteroof.count.likwid_process"]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=_environment()
            )
        except OSError:
            self._said.close()
            raise

    def order(self, what: str, **arguments: Any) -> None:
        """Give an order; its answer is to be waited for."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, seconds: float) -> Mapping[str, Any]:
        """Wait for the answer to the order given before.

        Raises
        ------
        LikwidFailed
            If LIKWID refuses or ends.
        TimeoutError
            If it does not answer in time; then it is ended.
        """
        assert self._process.stdout is not None
        try:
            line = _line(self._process.stdout.fileno(), seconds)
        except TimeoutError:
            self._process.kill()
            raise
        found: Mapping[str, Any] = json.loads(line) if line else {"error": self._end()}
        if "error" in found:
            raise LikwidFailed(self._with_its_message(found["error"]))
        return found

    def ask(self, what: str, **arguments: Any) -> Mapping[str, Any]:
        """Give an order and wait for its answer.

        Raises
        ------
        LikwidFailed
            If LIKWID refuses, ends or hangs.
        """
        self.order(what, **arguments)
        try:
            return self.answer(ANSWER_SECONDS)
        except TimeoutError:
            hung = f"LIKWID gave no answer for {ANSWER_SECONDS:g} s"
            raise LikwidFailed(self._with_its_message(hung)) from None

    def _end(self) -> str:
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "LIKWID's process stopped answering"
        return f"LIKWID ended its process with status {status}"

    def _with_its_message(self, error: str) -> str:
        self._said.seek(0)
        text = self._said.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        said = "; ".join(dict.fromkeys(line.removeprefix("ERROR - ") for line in lines[-4:]))
        return f"{error}: {said}" if said else error

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._said.close()


class Likwid(Process):
    """LIKWID's process, started on some processors.

    Raises
    ------
    LikwidFailed
        If LIKWID cannot be started here, or ends.
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        super().__init__()
        try:
            opened = self.ask("open", cpus=list(cpus))
        except LikwidFailed:
            self.close()
            raise
        self.known = Known.of(opened)

    def add(self, name: str) -> Group:
        """Add a group by its name, or a list of events with their counters."""
        added = self.ask("add", group=name)
        return Group(added["id"], name, tuple(added["events"]), tuple(added["metrics"]))

    def run(self, group: Group, work: Callable[[], float]) -> tuple[float, Ran]:
        """Do something with a group around it; return the seconds of that, and what was counted."""
        self.ask("start", group=group.id)
        seconds = work()
        ran = self.ask("stop", group=group.id)
        events, metrics = (tuple(map(tuple, ran[name])) for name in ("events", "metrics"))
        return seconds, Ran(ran["seconds"], events, metrics)

    def __enter__(self) -> Likwid:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """Return the environment of LIKWID's process, in which this package can be found."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": package if not path else f"{package}{os.pathsep}{path}"}


def _line(descriptor: int, seconds: float) -> bytes:
    """Return a line, or nothing when the other end is closed.

    Raises
    ------
    TimeoutError
        If it does not come in time.
    """
    import select

    data, end = b"", time.monotonic() + seconds
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(end - time.monotonic(), 0))
        if not ready:
            raise TimeoutError
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return b""
        data += piece
    return data
