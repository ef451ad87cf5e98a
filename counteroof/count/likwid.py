"""The counter that asks LIKWID: groups for FLOPs and memory, chosen by what this processor has.

Runs in the worker, with LIKWID in a process of its own (``likwid_process.py``). LIKWID counts processors, not
processes: those that this process may run on, so pinning is left to the user (``taskset``).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CounteroofError
from .base import Count, FlopClass, Measurement, unavailable
from .select import Availability, nothing_counted

if TYPE_CHECKING:
    from ..run.prepare import PreparedCall

NAME = "likwid"
SECONDS = 0.05
"""Seconds the counted calls of a group last at least."""
IDLE_SECONDS = (0.02, 0.25)
"""Seconds of the look at idle memory before and after: as long as the calls, within these limits."""
ANSWER_SECONDS = 20.0
FLOP_GROUPS = {"FLOPS_DP": "f64", "FLOPS_SP": "f32", "FLOPS_HP": "f16"}
PREFIXES = {"f64": "DP", "f32": "SP", "f16": "HP"}
MEMORY_GROUPS = (("MEM",), ("MEM1", "MEM2"))
"""Memory traffic is in the first of these that is there in full; of two each sees a part of the channels."""
DISTRUSTED = {
    "arm8_n1": "LIKWID's group MEM counts loads and stores of the core here, not DRAM traffic",
    "zen2": "LIKWID's group MEM has a wrong factor on this processor (its issues 510, 527, 535)",
}
"""Processors, by LIKWID's short name, whose memory groups are known to be wrong."""
INSTRUCTIONS = ("INSTR_RETIRED_ANY", "RETIRED_INSTRUCTIONS", "INST_RETIRED", "PM_RUN_INST_CMPL")
_VOLUME = re.compile(r"Memory (?:(read|load|write|evict|writeback) )?data volume \[GBytes?\]")
_READS = ("read", "load")


class LikwidFailed(CounteroofError):
    """LIKWID did not do what it was asked; the text is its own."""


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


class Likwid:
    """LIKWID's process, started on some processors.

    Raises
    ------
    LikwidFailed
        If LIKWID cannot be started here, or ends.
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "counteroof.count.likwid_process"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=_environment()
        )
        try:
            opened = self._ask("open", cpus=list(cpus))
        except LikwidFailed:
            self.close()
            raise
        self.cpu: str = opened["cpu"] or "an unknown processor"
        self.short: str = opened["short"] or ""
        self.groups: tuple[str, ...] = tuple(opened["groups"])

    def add(self, name: str) -> Group:
        """Add a group by its name, or a list of events with their counters."""
        added = self._ask("add", group=name)
        return Group(added["id"], name, tuple(added["events"]), tuple(added["metrics"]))

    def run(self, group: Group, work: Callable[[], float]) -> tuple[float, Ran]:
        """Do something with a group around it; return the seconds of that, and what was counted."""
        self._ask("start", group=group.id)
        seconds = work()
        ran = self._ask("stop", group=group.id)
        events, metrics = (tuple(map(tuple, ran[name])) for name in ("events", "metrics"))
        return seconds, Ran(ran["seconds"], events, metrics)

    def _ask(self, order: str, **arguments: Any) -> Mapping[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": order, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        line = _line(self._process.stdout.fileno())
        answer = json.loads(line) if line else {"error": self._end()}
        if "error" in answer:
            raise LikwidFailed(self._with_its_message(answer["error"]))
        found: Mapping[str, Any] = answer
        return found

    def _end(self) -> str:
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return f"LIKWID gave no answer for {ANSWER_SECONDS:g} s"
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

    def __enter__(self) -> Likwid:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """Return the environment of LIKWID's process, in which this package can be found."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": package if not path else f"{package}{os.pathsep}{path}"}


def _line(descriptor: int) -> bytes:
    """Return a line, or what there is of it when the other end is closed or the time is over."""
    import select

    data, end = b"", time.monotonic() + ANSWER_SECONDS
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(end - time.monotonic(), 0))
        piece = os.read(descriptor, 1 << 16) if ready else b""
        if not piece:
            return b""
        data += piece
    return data


def available() -> Availability:
    """Return whether LIKWID can count here, found out by starting it."""
    import importlib.util

    if importlib.util.find_spec("pylikwid") is None:
        return Availability(NAME, None, "pylikwid is not installed (the README has the commands)")
    try:
        with Likwid(sorted(os.sched_getaffinity(0))) as likwid:
            flops, memory = flop_groups(likwid), memory_groups(likwid)
    except LikwidFailed as error:
        return Availability(NAME, None, str(error))
    quantities = frozenset({"FLOPs"} if flops else ()) | frozenset({"bytes"} if memory else ())
    said = f"{likwid.cpu}: groups {', '.join((*flops, *memory)) or 'for neither FLOPs nor memory'}"
    if likwid.short in DISTRUSTED:
        said += f"; {DISTRUSTED[likwid.short]}"
    return Availability(NAME, f"{__name__}:count" if quantities else None, said, quantities=quantities)


def flop_groups(likwid: Likwid) -> tuple[str, ...]:
    """Return the groups whose FLOPs are to be added up."""
    return tuple(name for name in FLOP_GROUPS if name in likwid.groups)


def memory_groups(likwid: Likwid) -> tuple[str, ...]:
    """Return the groups whose bytes are to be added up."""
    if likwid.short in DISTRUSTED:
        return ()
    return next((names for names in MEMORY_GROUPS if set(names) <= set(likwid.groups)), ())


def count(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Count one call of the kernel in the steady state.

    Parameters
    ----------
    prepared
        The kernel, its arrays filled.
    options
        Not used.
    """
    from .pmus import REAL, socket_of

    cpus = sorted(os.sched_getaffinity(0))
    prepared.seconds(1)  # the state that the previous call leaves
    once = max(prepared.seconds(1), 1e-9)
    calls = max(1, math.ceil(SECONDS / once))
    try:
        with Likwid(cpus) as likwid:
            counting = Counting(likwid, [socket_of(REAL, cpu) for cpu in cpus], calls, prepared.seconds)
            return counting.measurement(_vector_bits())
    except LikwidFailed as error:
        return nothing_counted(NAME, str(error))


def _vector_bits() -> int:
    from .events import builtin, this_processor

    found = builtin().find(this_processor())
    return (found[1].vector_bits if found else None) or 128


@dataclass
class Counting:
    """Groups run one after the other over the same calls.

    Parameters
    ----------
    likwid
        LIKWID, started.
    sockets
        The socket of each processor that is counted.
    calls
        Calls to count.
    call
        Makes so many calls and returns their seconds.
    """

    likwid: Likwid
    sockets: Sequence[int]
    calls: int
    call: Callable[[int], float]
    notes: list[str] = field(default_factory=list)

    def measurement(self, vector_bits: int = 128) -> Measurement:
        """Count all groups, and return what they say of one call."""
        number = len(self.sockets)
        self.notes.append(
            f"LIKWID counts processors, not processes: whatever ran on the {number} that this process may "
            "use is in it; fewer are left with taskset"
        )
        flops, classes, instructions = self.flops(vector_bits)
        read, write, total = self.bytes()
        none = unavailable(NAME, "LIKWID is asked for FLOPs and memory only")
        return Measurement(
            counter=NAME,
            flops=flops,
            issued_flops=unavailable(NAME, "the processor's counters do not tell masked lanes from others"),
            instructions=instructions,
            l1_l2_bytes=none,
            l2_l3_bytes=none,
            dram_read_bytes=read,
            dram_write_bytes=write,
            write_allocate_bytes=unavailable(NAME, "no event tells write-allocates from other reads"),
            flops_by=classes,
            notes=tuple(self.notes),
            dram_bytes=total,
        )

    # -- FLOPs

    def flops(self, vector_bits: int) -> tuple[Count, tuple[FlopClass, ...], Count]:
        """Return FLOPs, FLOPs by precision, and instructions."""
        instructions = unavailable(NAME, "no group has instructions")
        sums: dict[str, float] = {}
        seen: dict[tuple[str, ...], str] = {}
        for name in flop_groups(self.likwid):
            group = self.likwid.add(name)
            if group.events in seen:  # on Zen 2 to 4 one event counts all precisions, and is in both groups
                self.notes.append(
                    f"group {name} has the events of {seen[group.events]} and was not added to it"
                )
                sums = {"": sum(sums.values())}
                continue
            seen[group.events] = name
            _, ran = self.likwid.run(group, lambda: self.call(self.calls))
            rate = _rate(group, ran, PREFIXES[FLOP_GROUPS[name]], vector_bits)
            if rate is None:
                return unavailable(NAME, f"group {name} has no metric for its FLOPs"), (), instructions
            sums[FLOP_GROUPS[name]] = rate * 1e6 * ran.seconds
            if instructions.value is None:
                instructions = self.instructions(group, ran)
        if not sums:
            return unavailable(NAME, f"LIKWID has no group for FLOPs on {self.likwid.cpu}"), (), instructions
        flops = Count(
            _rounded(sum(sums.values()) / self.calls), "counted", "LIKWID " + ", ".join(seen.values())
        )
        classes = tuple(
            FlopClass(precision, None, "any", _rounded(value / self.calls))
            for precision, value in sums.items()
            if precision and _rounded(value / self.calls)
        )
        return flops, classes, instructions

    def instructions(self, group: Group, ran: Ran) -> Count:
        """Return the instructions, if the group counted them."""
        for name, values in zip(group.events, ran.events, strict=True):
            if name in INSTRUCTIONS and None not in values:
                total = sum(value or 0 for value in values)
                return Count(_rounded(total / self.calls), "counted", f"LIKWID {name}")
        return unavailable(NAME, f"group {group.name} has no instructions")

    # -- memory

    def bytes(self) -> tuple[Count, Count, Count | None]:
        """Return bytes read, bytes written, and their sum where only that is known."""
        names = memory_groups(self.likwid)
        if not names:
            reason = DISTRUSTED.get(self.likwid.short, f"LIKWID has no group for memory on {self.likwid.cpu}")
            return unavailable(NAME, reason), unavailable(NAME, reason), None
        sums: dict[str, float] = {}
        others = 0.0
        for name in names:
            group = self.likwid.add(name)
            _, before = self.likwid.run(group, lambda: _sleep(IDLE_SECONDS[0]))
            seconds, ran = self.likwid.run(group, lambda: self.call(self.calls))
            length = min(max(seconds, IDLE_SECONDS[0]), IDLE_SECONDS[1])
            _, after = self.likwid.run(group, partial(_sleep, length))
            looks = [_volumes(group, look, self.sockets) for look in (before, after)]
            rates = [
                {way: value / look.seconds for way, value in volumes.items()}
                for look, volumes in zip((before, after), looks, strict=True)
                if look.seconds > 0
            ]
            for way, value in _volumes(group, ran, self.sockets).items():
                idle = seconds * sum(rate.get(way, 0.0) for rate in rates) / max(len(rates), 1)
                sums[way] = sums.get(way, 0.0) + value - idle
                others += idle
        return self._counts(sums, others, names)

    def _counts(
        self, sums: Mapping[str, float], others: float, names: Sequence[str]
    ) -> tuple[Count, Count, Count | None]:
        source = "LIKWID " + ", ".join(names)
        self.notes.append(
            "traffic of others, measured just before and after and taken off: "
            f"{others / self.calls:.4g} bytes a call"
        )
        if not sums:
            none = unavailable(source, "the group has no metric for the memory's data volume")
            return none, none, None
        if min(sums.values()) < 0:
            none = unavailable(source, "the traffic counted drowns in that of others; count a larger case")
            return none, none, None
        counts = {way: Count(_rounded(value / self.calls), "counted", source) for way, value in sums.items()}
        if "read" in counts and "write" in counts:
            return counts["read"], counts["write"], None
        apart = unavailable(source, "the group has reads and writes together only")
        return apart, apart, counts.get("both", apart)


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def _rounded(value: float) -> int:
    return round(value)


def _rate(group: Group, ran: Ran, prefix: str, vector_bits: int) -> float | None:
    """Return MFLOP/s of a precision, summed over processors."""
    wanted = (f"{prefix} [MFLOP/s]", f"{prefix} (FP+SVE{vector_bits}) [MFLOP/s]", f"{prefix} MFLOP/s")
    for name, values in zip(group.metrics, ran.metrics, strict=True):
        if name.strip() in wanted:
            return sum(value or 0.0 for value in values)
    return None


def _volumes(group: Group, ran: Ran, sockets: Sequence[int]) -> dict[str, float]:
    """Return bytes read and written, or both together; the value of each socket once.

    LIKWID reads a socket's counters on one of its processors and has 0 for the others.
    """
    found: dict[str, float] = {}
    for name, values in zip(group.metrics, ran.metrics, strict=True):
        match = _VOLUME.fullmatch(name.strip())
        if match is None:
            continue
        of_socket: dict[int, float] = {}
        for socket, value in zip(sockets, values, strict=True):
            of_socket[socket] = max(of_socket.get(socket, 0.0), value or 0.0)
        way = "both" if match[1] is None else "read" if match[1] in _READS else "write"
        found[way] = found.get(way, 0.0) + sum(of_socket.values()) * 1e9
    if "read" in found and "write" in found:
        found.pop("both", None)
    return found
