"""Why a kernel's process ended without a result, in words a user can act on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import KernelFailed
from .explain import explain, location
from .record import Death, read_record
from .supervise import Ended

SHOWN_OUTPUT = 300
"""Characters of the kernel's last output that a message quotes."""


@dataclass(frozen=True)
class Failure:
    """Why a kernel has no full result; ``kind`` is one of those of :class:`~counteroof.errors.KernelFailed`,
    or ``internal`` for a mistake of counteroof itself."""

    kind: str
    message: str


def read_json(path: Path) -> Any:
    """Return the content of a result file, or ``None`` if it was never finished."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def failure_of(
    folder: Path, ended: Ended, failure_file: str, time_limit: float, finished: bool
) -> Failure | None:
    """Return why the process that worked in this folder failed, or ``None`` if it did all it had to."""
    told = read_json(folder / failure_file)
    if isinstance(told, dict):
        return Failure(str(told.get("kind")), str(told.get("message")))
    if finished:
        return None
    death = read_record(folder)
    during = _during(death)
    if ended.timed_out:
        place = location(death) if death.signal else ""
        return Failure(
            "timeout",
            f"{during} was still running when its {time_limit:g} s were over"
            + (f", {place}" if place else "")
            + "; raise the limit with --time-limit or time_limit in the spec, or make the parameters smaller",
        )
    if ended.status < 0:
        kind, what = explain(death, -ended.status)
        return Failure(kind, f"{during} was ended by {what}{_quoted(ended)}")
    if death.phase in ("", "done"):
        return Failure(
            "internal", f"the worker ended with status {ended.status} and no result{_quoted(ended)}"
        )
    return Failure("exit", f"{during} ended the process with status {ended.status} (exit){_quoted(ended)}")


def _during(death: Death) -> str:
    names = {
        "call": f"the call of {death.detail}",
        "second call": f"the second call of {death.detail} (the first was fine)",
        "timing": f"the timing of {death.detail} (single calls were fine)",
        "counting": f"the counted call ({death.detail}; the plain calls were fine)",
        "set-up call": f"the set-up call {death.detail}",
        "loading the library": f"loading {death.detail} (a constructor of it)",
        "reference": f"the reference {death.detail}",
        "after the call": "the worker, after a call that came back (did it overwrite memory not its own?)",
    }
    return names.get(death.phase, f"the worker ({death.phase or 'starting'})")


def _quoted(ended: Ended) -> str:
    text = ended.output.strip()
    if not text:
        return ""
    return f"; its last output: {text[-SHOWN_OUTPUT:]!r}"


def raised(error: Exception) -> Failure:
    """Return the failure that an exception stands for."""
    if isinstance(error, KernelFailed):
        return Failure(error.kind, str(error))
    return Failure("input", str(error))
