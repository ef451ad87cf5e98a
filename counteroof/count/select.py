"""Which counters a run uses: what each needs, whether that is here, and why a counter was passed over."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import BadInput
from ..wording import one_of, suggest
from .base import Measurement, unavailable


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


def likwid() -> Availability:
    """Return whether LIKWID can count."""
    found = "likwid-perfctr and " if shutil.which("likwid-perfctr") else "no likwid-perfctr, "
    found += "pylikwid" if importlib.util.find_spec("pylikwid") else "no pylikwid"
    return Availability("likwid", None, f"not supported by counteroof yet; installed here: {found}")


def perf() -> Availability:
    """Return whether perf_event_open can count."""
    from .perf_probe import hardware_counters

    _, found = hardware_counters()
    return Availability("perf", None, f"not supported by counteroof yet; here: {found}")


def instrument() -> Availability:
    """Return whether the instrumentation engine can count."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return Availability("instrument", None, f"the engine runs x86-64 code only, this is {machine}")
    if importlib.util.find_spec("iced_x86") is None:
        reason = "the package iced-x86 is missing; install it: pip install iced-x86"
        return Availability("instrument", None, reason)
    reason = "every instruction executed, every access through a model of the caches; no PMU, no root"
    return Availability("instrument", "counteroof.count.instrument:count", reason)


COUNTERS: Mapping[str, Callable[[], Availability]] = {
    "likwid": likwid,
    "perf": perf,
    "instrument": instrument,
}
"""All counters, in the order that ``auto`` tries them."""


def choose(text: str) -> Choice:
    """Return the counters that ``auto`` or a list such as ``perf,instrument`` stands for.

    ``auto`` takes the first that is usable; if none is, the choice is empty and says why.

    Raises
    ------
    BadInput
        If a name is unknown, or a counter asked for by name cannot be used here.
    """
    if text == "auto":
        passed_over: dict[str, str] = {}
        for name, ask in COUNTERS.items():
            answer = ask()
            if answer.usable:
                return Choice((answer,), passed_over)
            passed_over[name] = answer.reason
        return Choice((), passed_over)
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in COUNTERS:
            hint = suggest(name, COUNTERS)
            raise BadInput(f"unknown counter {name!r}{hint}; expected auto or {one_of(COUNTERS)}")
    answers = [COUNTERS[name]() for name in names]
    for answer in answers:
        if not answer.usable:
            others = ", ".join(name for name, ask in COUNTERS.items() if name not in names and ask().usable)
            hint = f"; usable here: {others}" if others else ""
            raise BadInput(f"counter {answer.name} cannot be used: {answer.reason}{hint}")
    return Choice(tuple(answers), {})


def nothing_counted(counter: str, reason: str) -> Measurement:
    """Return the measurement of a counter that could not count: everything unavailable, with the reason."""
    none = unavailable(counter, reason)
    return Measurement(counter, none, none, none, none, none, none, none, none)
