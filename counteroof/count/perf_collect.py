"""Raw counts of a kernel through perf_event_open: the sources that open, the passes, the idle sockets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from . import resctrl
from .perf_open import (
    Counted,
    Event,
    Opener,
    Pass,
    count_pass,
    open_event,
    open_pass,
    plan_passes,
    threads,
)
from .perf_plan import PerfPlan, Source

CORE_SECONDS = 0.005
"""Seconds the counted calls of a pass last at least: the few instructions around them then weigh nothing."""
SYSTEM_SECONDS = 0.05
"""The same where sockets are counted, so that what else moves averages out."""
IDLE_SECONDS = (0.02, 0.25)
"""Seconds of the look at the idle socket before and after: as long as the calls, within these limits."""
MAX_CALLS = 1_000_000
LONG_CALL = 0.5
"""Seconds from which on the first call is representative, and a second one costs too much."""


class Caller(Protocol):
    """What is counted: so many calls of a kernel."""

    def seconds(self, calls: int) -> float:
        """Make calls, uncounted, and return their seconds."""

    def counted(self, calls: int, groups: Any, count: int) -> float:
        """Make calls with groups around them, and return their seconds."""


@dataclass(frozen=True)
class Sources:
    """What is going to be counted, and why the rest is not.

    ``dram`` is one of the plan's sources or ``None``; without one, ``monitor`` is resctrl's bandwidth
    monitoring, and ``reads`` a source that sees reads alone. ``tried`` has what was passed over for the
    bytes, in words.
    """

    plan: PerfPlan
    dram: Source | None
    reads: Source | None
    monitor: resctrl.Support | None = None
    refused: Mapping[Event, str] = field(default_factory=dict)
    tried: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything to open, each once."""
        one = self.plan
        terms = [*one.instructions, *one.cycles, *one.flops]
        sources = [source for source in (one.l1_l2, one.l2_l3, self.dram, self.reads) if source is not None]
        terms += [term for source in sources for term in source.terms]
        return tuple(
            event for event in dict.fromkeys(term.event for term in terms) if event not in self.refused
        )


@dataclass(frozen=True)
class Idle:
    """What a socket's event counted with nobody of ours at work, and for how many seconds."""

    value: float
    seconds: float

    @property
    def rate(self) -> float:
        """Counts a second."""
        return self.value / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Collected:
    """The raw counts of a number of calls.

    ``seconds`` are those of the calls in the pass that an event was in, ``idle`` what it counted before and
    after them, if it was on a counter then; ``refused`` has the reason for each event without a count.
    ``monitored`` are the bytes that resctrl saw of all calls, or why it saw none.
    """

    calls: int
    passes: int
    counted: Mapping[Event, Counted]
    seconds: Mapping[Event, float]
    idle: Mapping[Event, tuple[Idle, Idle]] = field(default_factory=dict)
    refused: Mapping[Event, str] = field(default_factory=dict)
    monitored: resctrl.Moved | str | None = None


def choose_sources(
    one: PerfPlan, opener: Opener = open_event, monitor: resctrl.Support | None = None
) -> Sources:
    """Open everything once, and return what can be had: of several sources of bytes the first that opens.

    Parameters
    ----------
    one
        What may be counted.
    opener
        What opens.
    monitor
        Whether resctrl monitors the memory's traffic; asked for if not given.
    """
    tried: list[str] = []
    if "dram" in one.reasons:
        tried.append(one.reasons["dram"])
    dram = _first_that_opens(one.dram, opener, tried)
    if dram is None:
        monitor = resctrl.support() if monitor is None else monitor
        if not monitor.usable:
            tried.append(f"resctrl: {monitor.reason}")
        elif not monitor.complete:
            tried.append(f"resctrl counts a part only: {monitor.reason}")
    usable = monitor if dram is None and monitor is not None and monitor.usable else None
    reads = _first_that_opens(one.fallback, opener, tried) if dram is None and usable is None else None
    chosen = Sources(one, dram, reads, usable, tried=tuple(tried))
    _, refused = plan_passes(chosen.events, opener)
    return replace(chosen, refused={each.event: each.reason for each in refused})


def _first_that_opens(sources: Iterable[Source], opener: Opener, tried: list[str]) -> Source | None:
    for source in sources:
        passes, refused = plan_passes(source.events, opener)
        if passes and not refused:
            return source
        tried += dict.fromkeys(each.reason for each in refused[:1])
    return None


def collect(sources: Sources, caller: Caller, opener: Opener = open_event) -> Collected:
    """Count calls in as many passes as the counters need."""
    system = sources.monitor is not None or any(event.system for event in sources.events)
    once = warm_seconds(caller.seconds)
    target = SYSTEM_SECONDS if system else CORE_SECONDS
    calls = min(max(1, math.ceil(target / once)), MAX_CALLS)
    found = _Collecting(calls, dict(sources.refused))
    passes, refused = plan_passes(sources.events, opener)
    found.refused.update({each.event: each.reason for each in refused})
    for one in passes:
        found.run(one, caller, opener)
    # What never came on a counter in company may do so alone.
    starved = [each.event for each in found.counted.values() if _starved(each, found)]
    if starved:
        again, _ = plan_passes(starved, opener, alone=starved)
        for one in again:
            found.run(one, caller, opener)
    monitored = None if sources.monitor is None else _monitored(caller, calls)
    return Collected(calls, found.passes, found.counted, found.seconds, found.idle, found.refused, monitored)


def warm_seconds(call: Callable[[int], float]) -> float:
    """Return the seconds of a call that finds what the call before left; of the first, if that is long."""
    once = call(1)
    return max(call(1) if once < LONG_CALL else once, 1e-9)


def _monitored(caller: Caller, calls: int) -> resctrl.Moved | str:
    """Return the bytes that resctrl saw of the calls, or why it saw none."""
    try:
        with resctrl.Group(threads()) as group:
            before = group.moved()
            caller.seconds(calls)
            return group.moved().since(before)
    except resctrl.ResctrlFailed as error:
        return str(error)


def _starved(counted: Counted, found: _Collecting) -> bool:
    return bool(counted.enabled) and not counted.running and found.size_of.get(counted.event, 1) > 1


@dataclass
class _Collecting:
    calls: int
    refused: dict[Event, str]
    passes: int = 0
    counted: dict[Event, Counted] = field(default_factory=dict)
    seconds: dict[Event, float] = field(default_factory=dict)
    idle: dict[Event, tuple[Idle, Idle]] = field(default_factory=dict)
    size_of: dict[Event, int] = field(default_factory=dict)

    def run(self, one: Pass, caller: Caller, opener: Opener) -> None:
        """Count one pass, and the idle sockets before and after it."""
        opened, refused = open_pass(one, opener)
        self.refused.update({each.event: each.reason for each in refused})
        try:
            if not opened.groups:
                return
            system = any(group[0].system for group in one.groups)
            length = min(max(self.seconds_before(), IDLE_SECONDS[0]), IDLE_SECONDS[1])
            before = self.sleep(opened, length) if system else {}
            seconds, counted, failed = count_pass(
                opened, lambda groups, count: caller.counted(self.calls, groups, count)
            )
            after = self.sleep(opened, length) if system else {}
        finally:
            opened.close()
        self.passes += 1
        self.refused.update({each.event: each.reason for each in failed})
        for each in counted:
            self.counted[each.event] = each
            self.seconds[each.event] = seconds
            if each.event in before and each.event in after:
                self.idle[each.event] = before[each.event], after[each.event]
        self.size_of |= {event: len(group) for group in one.groups for event in group}

    def seconds_before(self) -> float:
        return max(self.seconds.values(), default=SYSTEM_SECONDS)

    def sleep(self, opened: Any, length: float) -> dict[Event, Idle]:
        from ..native import lib

        seconds, counted, _ = count_pass(
            opened, lambda groups, count: float(lib.perf_count_sleep(length, groups, count))
        )
        looked = (each for each in counted if each.event.system and each.running)
        return {each.event: Idle(each.scaled, seconds) for each in looked}
