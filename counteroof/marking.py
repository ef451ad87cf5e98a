"""Stretches of a program with a name, and what the processor counted in them.

    with counteroof.region("solve"):
        x = np.linalg.solve(a, b)
    print(counteroof.regions())

All threads are counted, those that exist at the first region and those started later, by the events of the
core that this processor has for FLOPs, instructions and cycles; where it has none, by what the kernel itself
counts. ``python -m counteroof.marking PROGRAM`` counts the regions that a C program marks with
``counteroof.h``.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _mark, units
from .count.base import Count, unavailable

if TYPE_CHECKING:
    from .count.perf_open import Counted, Event
    from .count.perf_plan import Source, Term

Threads = Literal["all", "own"]
INCLUDE = Path(__file__).resolve().parent / "include"
"""The folder of counteroof.h."""


@dataclass(frozen=True)
class RegionCounts:
    """What a region was, all its passes together.

    Attributes
    ----------
    calls
        Times it was passed.
    seconds
        Between beginning and end.
    cpu_seconds, page_faults
        Of all threads, as the kernel counts them; only where the processor counts nothing.
    instructions, cycles, flops, dram_bytes
        Of all threads; bytes are those of the whole socket.
    failures
        Passes that could not be counted.
    """

    name: str
    calls: int
    seconds: float
    instructions: Count
    cycles: Count
    flops: Count
    dram_bytes: Count
    cpu_seconds: Count
    page_faults: Count
    failures: int = 0

    @property
    def flops_per_second(self) -> float | None:
        """FLOPs over seconds, or ``None`` if they were not counted."""
        value = self.flops.value
        return None if value is None or not self.seconds else value / self.seconds

    @property
    def intensity(self) -> float | None:
        """FLOPs a byte of memory traffic, or ``None`` if either was not counted."""
        flops, moved = self.flops.value, self.dram_bytes.value
        return None if flops is None or not moved else flops / moved


class Regions(Mapping[str, RegionCounts]):
    """The regions by name, in the order of their first pass; printed as a table."""

    def __init__(self, regions: Sequence[RegionCounts], notes: Sequence[str] = ()) -> None:
        self._regions = {one.name: one for one in regions}
        self.notes = tuple(notes)

    def __getitem__(self, name: str) -> RegionCounts:
        return self._regions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._regions)

    def __len__(self) -> int:
        return len(self._regions)

    def __str__(self) -> str:
        head = ("region", "calls", "seconds", "instructions", "cycles", "FLOPs", "DRAM bytes", "FLOP/s")
        rows: list[tuple[str, ...]] = [head]
        for one in self.values():
            counts = (one.instructions, one.cycles, one.flops)
            rows.append(
                (
                    one.name,
                    str(one.calls),
                    units.seconds(one.seconds),
                    *(units.count(count.value) for count in counts),
                    units.byte_count(one.dram_bytes.value),
                    units.flop_rate(one.flops_per_second),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [
            "  ".join(
                text.ljust(width) if column == 0 else text.rjust(width)
                for column, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self._reasons(), *self.notes])

    def _reasons(self) -> list[str]:
        """Return why there are no counts, each reason once."""
        named = {"FLOPs": "flops", "DRAM bytes": "dram_bytes", "instructions": "instructions"}
        reasons: dict[str, None] = {}
        for one in self.values():
            for what, name in named.items():
                count: Count = getattr(one, name)
                if count.reason and count.status in ("unavailable", "scaled"):
                    reasons[f"{what}: {count.reason}"] = None
            if one.failures:
                reasons[f"{one.name}: {one.failures} passes could not be counted"] = None
        return list(reasons)


@dataclass
class _Counting:
    """The groups that are open, and what their counts mean."""

    instructions: tuple[Term, ...] = ()
    cycles: tuple[Term, ...] = ()
    flops: tuple[Term, ...] = ()
    dram: Source | None = None
    software: tuple[Event, ...] = ()
    refused: dict[Event, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    groups: list[tuple[tuple[Event, ...], list[int]]] = field(default_factory=list)
    mapped: Any = None

    def close(self) -> None:
        from .native import lib

        if self.mapped is not None:
            for number in range(len(self.groups)):
                lib.perf_self_unmap(self.mapped + number)
            self.mapped = None
        for _, descriptors in self.groups:
            for descriptor in reversed(descriptors):
                lib.perf_close(descriptor)
        self.groups = []


def choose(threads: Threads = "all", memory: bool = True) -> _Counting:
    """Find out what can be counted here, and open it nowhere yet."""
    from .count.perf import this_machine
    from .count.perf_collect import choose_sources
    from .count.perf_open import SOFTWARE

    plan = this_machine()
    sources = choose_sources(plan)
    found = _Counting(plan.instructions, plan.cycles, plan.flops, reasons=dict(plan.reasons))
    found.refused = dict(sources.refused)
    if memory:
        found.dram = sources.dram
        found.reasons["dram"] = "; ".join(dict.fromkeys(sources.tried)) or "no PMU counts memory traffic here"
    else:
        found.reasons["dram"] = "not asked for (memory=False)"
    if threads == "own":
        if found.dram is not None:
            found.dram = None
            found.reasons["dram"] = "not counted with threads='own'"
        for name in ("instructions", "cycles", "flops"):
            setattr(found, name, _readable(getattr(found, name)))
    hardware = [term.event for term in plan.instructions if term.event not in found.refused]
    if not hardware:
        found.software = SOFTWARE
    return found


def _readable(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the terms with events that may be read from user space: Arm's PMUs have to be asked for that."""
    from .count.pmus import discover

    asked = {pmu.name: pmu.words({"rdpmc": 1})[1] for pmu in discover() if "rdpmc" in pmu.format}
    return tuple(
        replace(
            term,
            event=replace(term.event, config1=term.event.config1 | asked.get(term.event.pmu, 0)),
        )
        for term in terms
    )


def events_of(found: _Counting) -> list[Event]:
    """Return everything that is to be open at once."""
    events = [*found.software]
    if not found.software:
        terms = (*found.instructions, *found.cycles, *found.flops)
        events = [term.event for term in terms if term.event not in found.refused]
    if found.dram is not None:
        events += found.dram.events
    return list(dict.fromkeys(events))


class _State:
    """The one set of groups of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counting: _Counting | None = None

    def ready(self, threads: Threads = "all", memory: bool = True) -> None:
        """Open the groups if that has not been done yet."""
        with self.lock:
            if self.counting is None:
                self.counting = _open(choose(threads, memory), threads)

    def leave(self) -> None:
        """Let go of the groups in a process that was forked: they count the one it comes from."""
        self.lock = threading.Lock()  # a thread that is not here any more may have held the other
        if self.counting is not None:
            _let_go(self.counting)
            self.counting = None
            _mark.forget()


def _let_go(counting: _Counting) -> None:
    """Take the groups from the regions and close them."""
    from .native import ffi, lib

    lib.regions_setup(ffi.new("struct perf_self[1]"), 0, 0)
    counting.close()


_STATE = _State()
os.register_at_fork(after_in_child=_STATE.leave)


def _open(found: _Counting, threads: Threads) -> _Counting:
    from .count.perf_open import open_own, open_pass, plan_passes
    from .native import ffi, lib

    passes, refused = plan_passes(events_of(found))
    found.refused.update({one.event: one.reason for one in refused})
    for one in passes:
        if threads == "own":
            for group in one.groups:
                descriptors: list[int] = []
                for event in group:
                    descriptors.append(open_own(event, descriptors[0] if descriptors else -1))
                found.groups.append((group, descriptors))
            continue
        opened, refused = open_pass(one)
        found.refused.update({each.event: each.reason for each in refused})
        found.groups += opened.groups
    selves = ffi.new("struct perf_self[]", max(len(found.groups), 1))
    for slot, (events, descriptors) in zip(selves, found.groups, strict=False):
        slot.events = len(events)
        slot.descriptors[0 : len(events)] = descriptors
        if threads == "own":
            lib.perf_self_map(ffi.addressof(slot))
            found.mapped = selves
    for _, descriptors in found.groups:
        lib.perf_enable(descriptors[0], 1)
    if lib.regions_setup(selves, len(found.groups), threads == "own") != 0:
        raise ValueError(f"{len(found.groups)} groups of events are more than regions can read")
    _share_with_c()
    return found


def _share_with_c() -> None:
    """Let counteroof.h of libraries in this process find the regions: they are looked up by name."""
    import ctypes

    from . import native

    path = getattr(native._native, "__file__", None)
    if path is not None:
        with contextlib.suppress(OSError):
            ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_GLOBAL | os.RTLD_NOW)


class region(_mark.Mark, contextlib.ContextDecorator):
    """A stretch of code that is counted: ``with counteroof.region("name"):``, or as a decorator.

    Regions nest; what is counted in an inner one is in the outer one too. The same name may be passed as
    often as needed, and from several threads at once, where each then also counts what the others do. There
    is one object of each name.

    Parameters
    ----------
    name
        Up to 63 characters.
    """

    __slots__ = ()

    def _open(self) -> int:
        """Return the number of the region; the counters are opened by the first."""
        from .native import ffi, lib

        _STATE.ready()
        number = int(lib.regions_find(self.name.encode()))
        if number < 0:
            raise ValueError(f"too many regions; {self.name!r} would be one more than there may be")
        calls = (ffi.addressof(lib, name) for name in ("regions_begin", "regions_end"))
        _mark.connect(*(int(ffi.cast("uintptr_t", call)) for call in calls))
        return number


def setup(threads: Threads = "all", memory: bool = True) -> None:
    """Say before the first region how regions count; calling it later forgets what was counted.

    Parameters
    ----------
    threads
        ``all`` threads of the process; or ``own``, this one alone, which is read without a system call where
        processor and kernel allow it.
    memory
        Whether the memory controllers are read too, which takes a system call for each.
    """
    with _STATE.lock:
        if _STATE.counting is not None:
            _let_go(_STATE.counting)
            _STATE.counting = None
        _STATE.counting = _open(choose(threads, memory), threads)


def regions() -> Regions:
    """Return what the regions passed so far counted."""
    from .count.perf_open import Counted
    from .native import ffi, lib

    found = _STATE.counting
    if found is None:
        return Regions(())
    reading = ffi.new("struct perf_reading *")
    told = []
    for number in range(lib.regions_count()):
        name = ffi.string(lib.regions_name(number)).decode(errors="replace")
        if not lib.regions_calls(number) and not lib.regions_failures(number):
            continue
        counted: dict[Event, Counted] = {}
        for place, (events, _) in enumerate(found.groups):
            lib.regions_reading(number, place, reading)
            for index, event in enumerate(events):
                before = counted.get(event, Counted(event))
                counted[event] = before.plus(reading.values[index], reading.enabled, reading.running)
        calls, failures = int(lib.regions_calls(number)), int(lib.regions_failures(number))
        told.append(_counts(found, name, calls, failures, float(lib.regions_seconds(number)), counted))
    return Regions(told)


def _counts(
    found: _Counting, name: str, calls: int, failures: int, seconds: float, counted: Mapping[Event, Counted]
) -> RegionCounts:
    """Return a region's quantities of the counts of its events."""
    from .count.perf_collect import Collected
    from .count.perf_sums import summed
    from .count.pmus import NO_CORE

    if not calls:
        none = unavailable("perf", "none of its passes could be counted")
        return RegionCounts(name, 0, seconds, none, none, none, none, none, none, failures)
    got = Collected(1, 1, counted, dict.fromkeys(counted, seconds), refused=found.refused)
    why = found.reasons
    flops = summed("FLOPs", found.flops, got, why.get("flops", NO_CORE))
    instructions = summed("instructions", found.instructions, got, why.get("instructions", NO_CORE))
    cycles = summed("cycles", found.cycles, got, why.get("cycles", NO_CORE))
    if found.dram is not None:
        dram = summed("DRAM bytes", found.dram.terms, got)
        if dram.value is not None:
            dram = replace(dram, reason="of whole sockets: what others move is in it")
    else:
        dram = unavailable("perf", found.reasons["dram"])
    kernel = {event.name: counted[event] for event in found.software if event in counted}
    told = "the processor's own events are counted instead"
    cpu = faults = unavailable("software", told)
    if "task-clock" in kernel:
        cpu = Count(kernel["task-clock"].value / 1e9, "counted", "task-clock")
    if "page-faults" in kernel:
        faults = Count(kernel["page-faults"].value, "counted", "page-faults")
    return RegionCounts(name, calls, seconds, instructions, cycles, flops, dram, cpu, faults, failures)


# -- programs in C


def run(command: Sequence[str]) -> tuple[int, Regions]:
    """Run a program whose regions are marked with counteroof.h; return its exit status and its regions.

    Its threads are counted from its start on. What its own child processes do is not.
    """
    from .count.perf_open import Counted, plan_passes

    found = choose()
    passes, refused = plan_passes(events_of(found))
    found.refused.update({one.event: one.reason for one in refused})
    groups = [group for one in passes for group in one.groups]
    with tempfile.TemporaryDirectory(prefix="counteroof-") as folder:
        path = Path(folder) / "regions"
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join(filter(None, (str(_library()), os.environ.get("LD_PRELOAD")))),
            "COUNTEROOF_REGION_EVENTS": ";".join(" ".join(map(_written, group)) for group in groups),
            "COUNTEROOF_REGION_FILE": str(path),
        }
        status = subprocess.run(list(command), env=environment, check=False).returncode
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    told = []
    for line in lines:
        calls, failures, seconds, count, *rest = line.split("\t")
        counted: dict[Event, Counted] = {}
        numbers = iter(rest)
        for group in groups[: int(count)]:
            enabled, running = int(next(numbers)), int(next(numbers))
            for event in group:
                counted[event] = counted.get(event, Counted(event)).plus(int(next(numbers)), enabled, running)
        told.append(_counts(found, next(numbers), int(calls), int(failures), float(seconds), counted))
    notes = () if lines else (f"{shlex.join(command)} passed no region marked with counteroof.h",)
    return status, Regions(told, notes)


def _written(event: Event) -> str:
    fields = (event.type, event.exclude, event.cpu, event.config, event.config1, event.config2)
    return ",".join(map(str, fields))


def _library() -> Path:
    """Return the library that counts the regions of a program."""
    folder = Path(__file__).resolve().parent
    found = sorted(folder.glob("_regions.*so"))
    if not found:
        from .errors import CounteroofError

        missing = "counteroof's compiled part is missing; install the package first: pip install ."
        raise CounteroofError(missing)
    return found[0]


def main() -> int:
    """Run the program named on the command line, and print its regions to standard error."""
    if len(sys.argv) < 2:
        usage = f"usage: python -m counteroof.marking PROGRAM [ARGUMENT]...  (counteroof.h: {INCLUDE})"
        print(usage, file=sys.stderr)
        return 2
    status, found = run(sys.argv[1:])
    print(found, file=sys.stderr)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
