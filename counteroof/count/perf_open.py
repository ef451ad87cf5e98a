"""Events opened through perf_event_open: groups that fit, the passes they need, and every refusal in words.

Events of one PMU that fit on its counters together form a group; what does not fit is counted in a further
pass over the same call, so that nothing is multiplexed. A group that was on the counters for only a part of
its time all the same (somebody else counts too) is scaled, and its counts say so.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..machine.system import paranoid
from .base import Count, unavailable

GROUP_EVENTS = 16
"""Events of a group at most, as ``csrc/perf/perf.h`` has room for them."""
USER, KERNEL, HYPERVISOR = 1, 2, 4
"""Bits of :attr:`Event.exclude`."""
SOFTWARE_PMU = "software"
TASKS = Path("/proc/self/task")

Opener = Callable[["Event", int, int, bool], int]
"""Event, thread, leader or -1, whether it counts at once; returns a file descriptor or -errno."""


@dataclass(frozen=True)
class Event:
    """What one counter counts.

    Attributes
    ----------
    name
        As the vendor or the kernel calls it.
    pmu
        The PMU's name in sysfs; events of one PMU can form a group.
    type, config, config1, config2
        As perf_event_open takes them.
    cpu
        -1: the kernel's threads, wherever they run. Otherwise the processor on which a PMU of a socket, a
        die or a memory controller is read; then it counts for all that run there.
    exclude
        Bits ``USER``, ``KERNEL``, ``HYPERVISOR``; drivers of sockets' PMUs accept none.
    """

    name: str
    pmu: str
    type: int
    config: int
    config1: int = 0
    config2: int = 0
    cpu: int = -1
    exclude: int = KERNEL | HYPERVISOR

    @property
    def system(self) -> bool:
        """Whether it counts a whole processor or socket."""
        return self.cpu >= 0

    @property
    def place(self) -> tuple[str, int]:
        """What events of one group have in common."""
        return self.pmu, self.cpu

    def __str__(self) -> str:
        return f"{self.name} ({self.pmu}{f', CPU {self.cpu}' if self.system else ''})"


SOFTWARE = (Event("task-clock", SOFTWARE_PMU, 1, 1), Event("page-faults", SOFTWARE_PMU, 1, 2))
"""Events that the kernel itself counts, there without a PMU: task-clock is in nanoseconds, page-faults are
those of user mode. Others, such as context switches, happen in the kernel, which users may not count."""


@dataclass(frozen=True)
class Refused:
    """An event that could not be had, and why in words."""

    event: Event
    error: int | None
    reason: str


@dataclass(frozen=True)
class Pass:
    """Groups that are open at the same time, each on another PMU or processor."""

    groups: tuple[tuple[Event, ...], ...]


@dataclass(frozen=True)
class Counted:
    """What one event counted in all passes it was in, over all threads.

    ``enabled`` and ``running`` are nanoseconds; where they differ, the event was not always on a counter.
    ``value`` is what was counted, ``scaled`` that with each thread's part extrapolated to all of its time,
    and ``blind`` the nanoseconds of threads on which the event was never on a counter.
    """

    event: Event
    value: int = 0
    enabled: int = 0
    running: int = 0
    scaled: float = 0.0
    blind: int = 0

    def plus(self, value: int, enabled: int, running: int) -> Counted:
        """Return the sum with what one more group counted."""
        return Counted(
            self.event,
            self.value + value,
            self.enabled + enabled,
            self.running + running,
            self.scaled + (value * enabled / running if running else 0.0),
            self.blind + (0 if running else enabled),
        )

    @property
    def share(self) -> float:
        """Share of the time for which it was on a counter."""
        return self.running / self.enabled if self.enabled else 0.0


@dataclass
class Opened:
    """A pass whose groups are open: one each for events of a processor, and one a thread for the others."""

    groups: list[tuple[tuple[Event, ...], list[int]]] = field(default_factory=list)
    """The events of each group, and their file descriptors."""

    def close(self) -> None:
        """Close all events; the siblings before their leader."""
        from ..native import lib

        for _, descriptors in self.groups:
            for descriptor in reversed(descriptors):
                lib.perf_close(descriptor)
        self.groups = []


def open_event(event: Event, pid: int, leader: int, enabled: bool) -> int:
    """Open an event, for the threads that its thread starts too; the :data:`Opener` of all but tests."""
    return _open(event, pid, leader, inherit=not event.system, enabled=enabled)


def open_own(event: Event, leader: int) -> int:
    """Open an event of the calling thread alone, which may read it without a system call."""
    return _open(event, 0, leader, inherit=False, enabled=False)


def _open(event: Event, pid: int, leader: int, *, inherit: bool, enabled: bool) -> int:
    from ..native import ffi, lib

    attribute = ffi.new(
        "struct perf_event *",
        {
            "type": event.type,
            "exclude": event.exclude,
            "config": event.config,
            "config1": event.config1,
            "config2": event.config2,
        },
    )
    return int(lib.perf_open(attribute, pid, event.cpu, leader, inherit, enabled))


def refusal(event: Event, error: int, *, root: bool | None = None, level: int | None = None) -> str:
    """Return why the kernel refused an event, and what would help, in words.

    Parameters
    ----------
    event
        The event.
    error
        The errno of perf_event_open, of an ioctl or of a read.
    root, level
        Whether this process is root's, and ``kernel.perf_event_paranoid``; found out if not given.
    """
    root = os.geteuid() == 0 if root is None else root
    level = paranoid() if level is None else level
    needed = 0 if event.system else 1 if not event.exclude & KERNEL else 2
    if error in (errno.EACCES, errno.EPERM):
        if level is not None and level > needed and not root:
            return (
                f"{event} was refused: perf_event_paranoid is {level}, this needs {needed} or less, root or "
                f"CAP_PERFMON (sudo sysctl kernel.perf_event_paranoid={needed})"
            )
        return (
            f"{event} was refused though perf_event_paranoid is {level}: probably by a container's seccomp "
            "filter (docker run --cap-add PERFMON --security-opt seccomp=unconfined) or a security module"
        )
    texts = {
        errno.ENOENT: "no PMU of this kernel counts it (virtual machines often have none, or not this event)",
        errno.EOPNOTSUPP: "the PMU does not count it",
        errno.ENODEV: "the PMU is gone, or the processor it is read on was switched off",
        errno.ENXIO: "the PMU is gone, or the processor it is read on was switched off",
        errno.EBUSY: "the PMU is taken: by a tool with exclusive use, or by guests with a mediated vPMU; "
        "stop them",
        errno.EMFILE: "too many files are open in this process; raise the limit (ulimit -n 65536)",
        errno.ENFILE: "too many files are open in the whole system",
        errno.EINVAL: "the kernel does not accept its encoding, or it cannot be counted together with the "
        "others of its group",
        errno.ENOSPC: "no counter of the PMU is free for it",
        errno.ENODATA: "the kernel took it off its counter and gave it up",
        errno.ESRCH: "the thread had ended",
        errno.ENOSYS: "this kernel has no perf_event_open",
    }
    text = texts.get(error) or os.strerror(error)
    return f"{event} could not be counted: {text}"


def never_ran(event: Event) -> str:
    """Return why an event that was open the whole time has no count, in words."""
    return (
        f"{event} could not be counted: it was open, but never on a counter; something else holds the "
        "counters (the NMI watchdog takes one: sudo sysctl kernel.nmi_watchdog=0)"
    )


def plan_passes(
    events: Iterable[Event], opener: Opener = open_event, *, alone: Iterable[Event] = ()
) -> tuple[tuple[Pass, ...], tuple[Refused, ...]]:
    """Return the passes that count all events without multiplexing, and those that cannot be had.

    What fits together is found out by opening: the kernel refuses a group that its PMU cannot hold.

    Parameters
    ----------
    events
        What to count; the same event twice is counted once.
    opener
        What opens.
    alone
        Events that are to be in a group of their own, because in company they never came on a counter.
    """
    by_place: dict[tuple[str, int], list[Event]] = {}
    for event in dict.fromkeys(events):
        by_place.setdefault(event.place, []).append(event)
    apart = set(alone)
    refused: list[Refused] = []
    groups_of: list[list[tuple[Event, ...]]] = []
    for at_place in by_place.values():
        groups: list[tuple[Event, ...]] = []
        left = at_place
        while left:
            group, left = _fill_group(left, opener, apart, refused)
            if group:
                groups.append(group)
        groups_of.append(groups)
    count = max((len(groups) for groups in groups_of), default=0)
    passes = tuple(
        Pass(tuple(groups[number] for groups in groups_of if number < len(groups))) for number in range(count)
    )
    return passes, tuple(refused)


def _fill_group(
    events: Sequence[Event], opener: Opener, apart: set[Event], refused: list[Refused]
) -> tuple[tuple[Event, ...], list[Event]]:
    """Return the events that fit into one group, in order, and those that are left."""
    group: list[Event] = []
    descriptors: list[int] = []
    left: list[Event] = []
    try:
        for event in events:
            if len(group) == GROUP_EVENTS or (group and (event in apart or group[0] in apart)):
                left.append(event)
                continue
            leader = descriptors[0] if descriptors else -1
            got = opener(event, -1 if event.system else 0, leader, True)
            if got >= 0:
                group.append(event)
                descriptors.append(got)
            elif group and -got in (errno.EINVAL, errno.ENOSPC, errno.EBUSY):
                left.append(event)  # does not fit beside the others, or not at all: alone it will turn out
            else:
                refused.append(Refused(event, -got, refusal(event, -got)))
    finally:
        _close(reversed(descriptors))
    return tuple(group), left


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def threads() -> list[int]:
    """Return the threads of this process, the calling one first: it is the one that calls the kernel."""
    import threading

    own = threading.get_native_id()
    others = sorted(int(entry.name) for entry in TASKS.iterdir() if entry.name != str(own))
    return [own, *others]


def open_pass(one: Pass, opener: Opener = open_event) -> tuple[Opened, tuple[Refused, ...]]:
    """Open the groups of a pass, for each thread that exists now and all that these will start.

    A group that cannot be opened for the calling thread is refused; a thread that ended meanwhile is none.
    """
    opened = Opened()
    refused: list[Refused] = []
    tids = threads()
    for group in one.groups:
        for number, pid in enumerate([-1] if group[0].system else tids):
            descriptors: list[int] = []
            for event in group:
                leader = descriptors[0] if descriptors else -1
                got = opener(event, pid, leader, False)
                if got < 0:
                    if not (number and -got == errno.ESRCH):
                        refused.append(Refused(event, -got, refusal(event, -got)))
                    _close(reversed(descriptors))
                    descriptors = []
                    break
                descriptors.append(got)
            if descriptors:
                opened.groups.append((group, descriptors))
    # A group that is missing on one of the threads would count a part of the call.
    bad = {one.event.place for one in refused}
    for group, descriptors in [item for item in opened.groups if item[0][0].place in bad]:
        _close(reversed(descriptors))
        opened.groups.remove((group, descriptors))
    return opened, tuple(refused)


Runner = Callable[[Any, int], float]
"""Does what is counted between ``perf_begin`` and ``perf_end`` of so many groups, and returns its seconds."""


def count_pass(opened: Opened, run: Runner) -> tuple[float, tuple[Counted, ...], tuple[Refused, ...]]:
    """Run something with the groups of a pass around it.

    Returns
    -------
    tuple
        Seconds of the run, the counts of each event summed over threads, and the events whose groups failed.
    """
    from ..native import ffi

    count = len(opened.groups)
    groups = ffi.new("struct perf_group[]", max(count, 1))
    for slot, (events, descriptors) in zip(groups, opened.groups, strict=False):
        slot.leader, slot.events, slot.system = descriptors[0], len(events), events[0].system
    seconds = run(groups, count)
    sums: dict[Event, Counted] = {}
    refused: dict[Event, Refused] = {}
    for slot, (events, _) in zip(groups, opened.groups, strict=False):
        for index, event in enumerate(events):
            if slot.error:
                refused[event] = Refused(event, slot.error, refusal(event, slot.error))
                continue
            one = slot.counted
            sums[event] = sums.get(event, Counted(event)).plus(one.values[index], one.enabled, one.running)
    counted = tuple(one for event, one in sums.items() if event not in refused)
    return seconds, counted, tuple(refused.values())


def as_count(counted: Counted, per: int = 1, hybrid: bool = False) -> Count:
    """Return an event's count of one call, scaled and marked so if it was not always on a counter.

    Parameters
    ----------
    counted
        The event's count of ``per`` calls.
    per
        Calls that were counted.
    hybrid
        The event's PMU is that of one kind of core: then it is off its counter while the thread runs on
        another kind, and nothing must be scaled.
    """
    source = counted.event.name
    if not hybrid and (not counted.running or counted.blind):
        return unavailable(source, never_ran(counted.event))
    if counted.running >= counted.enabled or hybrid:
        return Count(per_call(counted.value, per), "counted", source)
    reason = f"on a counter for {counted.share:.1%} of the time, the rest is extrapolated"
    return Count(counted.scaled / per, "scaled", source, reason)


def per_call(value: int, calls: int) -> int | float:
    """Return a share of a count, whole where it is."""
    return value // calls if value % calls == 0 else value / calls
