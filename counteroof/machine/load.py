"""What else the machine does while something is measured: other processes, a hypervisor that takes time away.

Read from ``/proc``; where that is silent, nothing is said of a quiet machine either.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import units
from .sysfs import Tree

_OTHERS = 0.05
_STOLEN = 0.01
_QUEUE = 0.5


@dataclass(frozen=True)
class Look:
    """Seconds since some moment, all processors together.

    Attributes
    ----------
    busy, idle, stolen
        Spent on processes, spent waiting, and taken by the hypervisor for other machines.
    own
        Spent by this process.
    runnable
        Tasks that run or could, now.
    """

    busy: float
    idle: float
    stolen: float
    own: float
    runnable: int


def look(tree: Tree) -> Look | None:
    """Return what ``/proc/stat`` says now, or ``None`` if it says nothing."""
    text = tree.text("proc/stat") or ""
    row = re.match(r"cpu +((?:\d+ ?)+)", text)
    running = re.search(r"^procs_running (\d+)", text, re.MULTILINE)
    if row is None or running is None:
        return None
    # user nice system idle iowait irq softirq steal; guests are in user and nice (proc_stat(5))
    ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in row[1].split()]
    ticks += [0.0] * (8 - len(ticks))
    user, nice, system, idle, waiting, irq, softirq, stolen = ticks[:8]
    times = os.times()
    own = times.user + times.system
    return Look(user + nice + system + irq + softirq, idle + waiting, stolen, own, int(running[1]))


class Watch:
    """Looks now and again, and tells what it saw."""

    def __init__(self, tree: Tree | None = None, looker: Callable[[Tree], Look | None] = look) -> None:
        self._tree = tree or Tree(Path("/"))
        self._looker = looker
        self._queue: list[int] = []
        self._first = self._last = looker(self._tree)

    def look(self) -> None:
        """Look once more; to be called while nothing of this process runs but the caller."""
        self._last = self._looker(self._tree) or self._last
        if self._last is not None:
            self._queue.append(self._last.runnable - 1)

    def told(self) -> str | None:
        """Return what disturbed, in words, or ``None`` if nothing did."""
        if self._first is None or self._last is None:
            return "whether other processes ran is unknown: /proc/stat cannot be read"
        first, last = self._first, self._last
        everything = sum(getattr(last, name) - getattr(first, name) for name in ("busy", "idle", "stolen"))
        if everything <= 0:
            return None
        others = max(0.0, (last.busy - first.busy) - (last.own - first.own)) / everything
        stolen = (last.stolen - first.stolen) / everything
        queue = statistics.mean(self._queue) if self._queue else 0.0
        said = []
        if others >= _OTHERS:
            said.append(f"other processes took {units.percent(others)} of the processors' time")
        if stolen >= _STOLEN:
            said.append(f"the hypervisor took {units.percent(stolen)} of it for other machines")
        if queue >= _QUEUE:
            said.append(f"{units.significant(queue)} other tasks could run on average")
        return ", ".join(said) or None
