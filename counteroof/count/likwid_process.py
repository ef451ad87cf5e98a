"""LIKWID in a process of its own, which takes orders as lines of JSON and answers likewise.

liblikwid ends the process it is in (``exit(1)``) when it cannot start its daemon, prints to standard output,
and pylikwid 0.4.2 releases objects it does not own, so that the interpreter aborts at its end. None of that
may happen to whoever wants counts; and this process leaves without letting the interpreter tidy up.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer orders from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what liblikwid prints is its message, and no answer
    likwid: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if likwid is None:
                import pylikwid

                likwid = _Likwid(pylikwid)
            answer = getattr(likwid, order.pop("do"))(**order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    sys.stderr.flush()
    os._exit(0)


class _Likwid:
    """pylikwid's functions in the form of orders."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.seconds: dict[int, float] = {}

    def open(self, cpus: list[int]) -> Mapping[str, Any]:
        """Start counting on these processors; say what processor it is and which groups there are."""
        module = self.module
        module.inittopology()
        info = module.getcpuinfo()
        if module.init(cpus) != 0:
            return {"error": "LIKWID could not be started"}
        return {
            "cpu": info.get("name"),
            "short": info.get("short_name"),
            "groups": [group["Name"] for group in module.getgroups()],
        }

    def look(self, cpu: int) -> Mapping[str, Any]:
        """Say how LIKWID reaches the counters of a processor, what keeps it from them, and its groups."""
        from . import likwid_access

        module = self.module
        configuration = module.getconfiguration()
        mode, daemon = configuration["daemonMode"], configuration.get("daemonPath")
        access = likwid_access.MODES.get(mode, f"mode {mode}")
        found = {"access": access, "daemon": daemon}
        by_msr = likwid_access.has_msrs() and access in (likwid_access.DIRECT, likwid_access.DAEMON)
        if by_msr:
            path = Path(daemon or "likwid-accessD") if access == likwid_access.DAEMON else None
            refused = likwid_access.refused(cpu, path)
            if refused is not None:
                return {**found, "refused": refused[0], "remedy": refused[1]}
        module.inittopology()
        info = module.getcpuinfo()
        if by_msr and not (module.hpminit() and module.hpmaddthread(cpu) == 0):
            return {"error": "LIKWID got no access to the processor's counters"}
        return {
            **found,
            "cpu": info.get("name"),
            "short": info.get("short_name"),
            "groups": [group["Name"] for group in module.getgroups()],
        }

    def add(self, group: str) -> Mapping[str, Any]:
        """Add a group by its name, or a list of events."""
        module = self.module
        number = module.addeventset(group)
        if number < 0:
            return {"error": f"LIKWID does not take {group}"}
        return {
            "id": number,
            "events": [
                module.getnameofevent(number, event) for event in range(module.getnumberofevents(number))
            ],
            "metrics": [
                module.getnameofmetric(number, metric) for metric in range(module.getnumberofmetrics(number))
            ],
        }

    def start(self, group: int) -> Mapping[str, Any]:
        """Set a group up and start it."""
        if self.module.setup(group) < 0 or self.module.start() < 0:
            return {"error": f"group {group} could not be started"}
        return {}

    def stop(self, group: int) -> Mapping[str, Any]:
        """Stop a group; give its events and metrics, each for every processor, and its seconds."""
        module = self.module
        if module.stop() < 0:
            return {"error": f"group {group} could not be stopped"}
        before, self.seconds[group] = self.seconds.get(group, 0.0), module.gettimeofgroup(group)
        threads = range(module.getnumberofthreads())
        events, metrics = module.getnumberofevents(group), module.getnumberofmetrics(group)
        return {
            "seconds": self.seconds[group] - before,
            "events": [
                [_finite(module.getlastresult(group, one, thread)) for thread in threads]
                for one in range(events)
            ],
            "metrics": [
                [_finite(module.getlastmetric(group, one, thread)) for thread in threads]
                for one in range(metrics)
            ],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    main()
