"""Which counters a run uses: what each needs, whether that is here, and why a counter was passed over."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput, CounteroofError
from ..wording import one_of, suggest
from .base import Measurement, unavailable

QUANTITIES = frozenset({"FLOPs", "bytes"})
"""What places the dot."""


@dataclass(frozen=True)
class Availability:
    """Whether a counter can be used here.

    ``reason`` says why not, or what it rests on; ``task`` is the function that counts (``module:function``).
    """

    name: str
    task: str | None
    reason: str
    max_threads: int | None = None
    """Threads of a kernel that it can count; ``None`` is any number."""
    quantities: frozenset[str] = QUANTITIES
    """Which of FLOPs and bytes it would deliver, as far as that is known before a kernel ran."""

    @property
    def usable(self) -> bool:
        """Whether a run may use it."""
        return self.task is not None


@dataclass(frozen=True)
class Choice:
    """The counters of a run, and those that ``auto`` passed over, with the reason for each."""

    counters: tuple[Availability, ...]
    passed_over: Mapping[str, str]

    def tasks(self, threads: int = 1) -> tuple[str, ...]:
        """Return the functions that count a kernel of so many threads."""
        return tuple(
            counter.task
            for counter in self.counters
            if counter.task is not None and not _too_many(counter, threads)
        )

    def refused(self, threads: int) -> tuple[Measurement, ...]:
        """Return, for each counter that cannot count so many threads, a measurement that says so."""
        return tuple(
            nothing_counted(
                counter.name,
                f"{counter.name} counts kernels of {counter.max_threads} thread only so far, this one has "
                f"{threads}; count it with --threads 1",
            )
            for counter in self.counters
            if _too_many(counter, threads)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What ``auto`` passed over, in words; nothing if it passed over nothing."""
        if not self.passed_over:
            return ()
        reasons = "; ".join(f"{name} ({reason})" for name, reason in self.passed_over.items())
        return (f"counters passed over: {reasons}",)


def _too_many(counter: Availability, threads: int) -> bool:
    return counter.max_threads is not None and threads > counter.max_threads


def likwid(events_file: Path | None = None) -> Availability:
    """Return whether LIKWID can count, found out by starting it in a process of its own."""
    from .likwid import available

    return available()


def perf(events_file: Path | None = None) -> Availability:
    """Return whether perf_event_open can count, found out by opening what it would count."""
    try:
        from .perf import this_machine, works

        return works(this_machine(events_file))
    except BadInput:
        raise
    except CounteroofError as error:
        return Availability("perf", None, str(error))


def instrument(events_file: Path | None = None) -> Availability:
    """Return whether the instrumentation engine can count."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return Availability("instrument", None, f"the engine runs x86-64 code only, this is {machine}")
    if importlib.util.find_spec("iced_x86") is None:
        reason = "the package iced-x86 is missing; install it: pip install iced-x86"
        return Availability("instrument", None, reason)
    reason = "every instruction executed, every access through a model of the caches; no PMU, no root"
    return Availability("instrument", "counteroof.count.instrument:count", reason)


COUNTERS: Mapping[str, Callable[[Path | None], Availability]] = {
    "likwid": likwid,
    "perf": perf,
    "instrument": instrument,
}
"""All counters, in the order that ``auto`` tries them."""


def choose(text: str, events_file: Path | None = None) -> Choice:
    """Return the counters that ``auto`` or a list such as ``perf,instrument`` stands for.

    ``auto`` takes, for FLOPs and for bytes, the first that delivers them; where none does, the choice is
    empty and says why. What it passed over, or took for a part only, is kept with the reason.

    Parameters
    ----------
    text
        ``auto`` or names.
    events_file
        A file of the user's own events.

    Raises
    ------
    BadInput
        If a name is unknown, a counter asked for by name cannot be used here, or the file has mistakes.
    """
    if text == "auto":
        return _automatic(events_file)
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in COUNTERS:
            hint = suggest(name, COUNTERS)
            raise BadInput(f"unknown counter {name!r}{hint}; expected auto or {one_of(COUNTERS)}")
    answers = [COUNTERS[name](events_file) for name in names]
    for answer in answers:
        if not answer.usable:
            usable = (name for name, ask in COUNTERS.items() if name not in names and ask(events_file).usable)
            others = ", ".join(usable)
            hint = f"; usable here: {others}" if others else ""
            raise BadInput(f"counter {answer.name} cannot be used: {answer.reason}{hint}")
    return Choice(tuple(answers), {})


def _automatic(events_file: Path | None) -> Choice:
    passed_over: dict[str, str] = {}
    taken: list[Availability] = []
    wanted = set(QUANTITIES)
    for name, ask in COUNTERS.items():
        if not wanted:
            break
        answer = ask(events_file)
        if not answer.usable or not answer.quantities & wanted:
            passed_over[name] = answer.reason
            continue
        if wanted - answer.quantities:
            missing = ", ".join(sorted(wanted - answer.quantities))
            passed_over[f"{name} for {missing}"] = answer.reason
        taken.append(answer)
        wanted -= answer.quantities
    return Choice(tuple(taken), passed_over)


def nothing_counted(counter: str, reason: str) -> Measurement:
    """Return the measurement of a counter that could not count: everything unavailable, with the reason."""
    none = unavailable(counter, reason)
    return Measurement(counter, none, none, none, none, none, none, none, none)
