"""Whether LIKWID can count here, asked without starting its counters.

Their start sleeps twice half a second to measure the processor's clock (``getCpuSpeed`` in LIKWID's
``src/timer.c``), whether it succeeds or not. What access there is, and which groups, it tells before that.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CounteroofError
from .likwid_access import PERF_EVENT
from .likwid_client import Known, Process
from .likwid_groups import DISTRUSTED, NAME, flop_groups, memory_groups
from .perf_open import KERNEL, Event, Opener, open_event, refusal
from .select import Availability

NOT_INSTALLED = "pylikwid is not installed (docs/counters.md has the commands)"
INSTALL = "sudo apt install likwid, then pip install pylikwid as docs/counters.md has it"
ASK = "counteroof run --counter likwid --kernel triad"
SECONDS = 0.6
"""Seconds after which LIKWID is waited for no longer."""


@dataclass(frozen=True)
class Looked:
    """What LIKWID would count, how it reaches the counters, and what would let it if it cannot."""

    availability: Availability
    access: str | None = None
    """As :mod:`likwid_access` has it; ``None`` if LIKWID did not tell."""
    daemon: str | None = None
    remedy: str | None = None


def offered(known: Known) -> Availability:
    """Return what LIKWID counts by the groups that it has."""
    flops, memory = flop_groups(known), memory_groups(known)
    quantities = frozenset({"FLOPs"} if flops else ()) | frozenset({"bytes"} if memory else ())
    said = f"{known.cpu}: groups {', '.join((*flops, *memory)) or 'for neither FLOPs nor memory'}"
    if known.short in DISTRUSTED:
        said += f"; {DISTRUSTED[known.short]}"
    task = "counteroof.count.likwid:count" if quantities else None
    return Availability(NAME, task, said, quantities=quantities)


def installed() -> bool:
    """Whether there is a pylikwid to ask."""
    return importlib.util.find_spec("pylikwid") is not None


class Look:
    """LIKWID's process, asked what it could do; it answers while others go on.

    Parameters
    ----------
    seconds
        How long it may take from now on.
    opener
        What opens an event, where LIKWID counts through perf_event.
    """

    def __init__(self, seconds: float = SECONDS, opener: Opener = open_event) -> None:
        self._opener = opener
        self._cpu = min(os.sched_getaffinity(0))
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._process: Process | None = None
        self._failed: str | None = None
        if not installed():
            return
        try:
            self._process = Process()
        except OSError as error:  # no process more, no file more, no folder for what it says
            self._failed = f"LIKWID's process could not be started: {error.strerror or error}"
        else:
            self._process.order("look", cpu=self._cpu)

    def result(self) -> Looked:
        """Wait for the answer and return it; the process is ended."""
        if self._failed is not None:
            return Looked(Availability(NAME, None, self._failed))
        if self._process is None:
            return Looked(Availability(NAME, None, NOT_INSTALLED), remedy=INSTALL)
        try:
            return self._looked(self._process.answer(max(self._end - time.monotonic(), 0)))
        except TimeoutError:
            reason = f"LIKWID had not said after {self._seconds:g} s whether it can count"
            return Looked(Availability(NAME, None, reason), remedy=ASK)
        except CounteroofError as error:
            return Looked(Availability(NAME, None, str(error)))
        finally:
            self._process.close()

    def _looked(self, told: Mapping[str, Any]) -> Looked:
        access, daemon = told["access"], told["daemon"]
        if "refused" in told:
            return Looked(Availability(NAME, None, told["refused"]), access, daemon, told["remedy"])
        if access == PERF_EVENT and (reason := self._perf_event_refuses()) is not None:
            return Looked(Availability(NAME, None, reason), access, daemon)
        return Looked(offered(Known.of(told)), access, daemon)

    def _perf_event_refuses(self) -> str | None:
        """Return why what LIKWID would open, a counter of a whole processor, cannot be; or ``None``."""
        event = Event("instructions", "cpu", 0, 1, cpu=self._cpu, exclude=KERNEL)
        got = self._opener(event, -1, -1, True)
        if got < 0:
            return f"LIKWID counts processors through perf_event; {refusal(event, -got)}"
        os.close(got)
        return None
