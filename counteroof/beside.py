"""Roofs that others move, measured between the kernels; a kernel is held against what was found next to it.

Memory and shared caches of a shared host give twice as much in one minute as in the next. They are measured
before the first kernel, after the last one, and in between whenever some time has passed; never while a
kernel runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from . import ceilings, units
from .ceiling_jobs import best_of, shared_levels, small_twins
from .errors import MachineError
from .machine.model import Ceiling, Machine
from .results import KernelResult, RoofSample
from .roofline import comparable

INTERVAL = 30.0
"""Seconds between two looks."""

SECONDS = 0.4
"""What measuring takes in one look for each number of threads, beside filling the memory for it."""

MOVED = 0.1
"""From this difference between the looks around a kernel on, its result says so."""


@dataclass(frozen=True)
class Look:
    """One measurement of the shared roofs, after so many kernels."""

    kernels: int
    measured: str
    ceilings: tuple[Ceiling, ...]


class Beside:
    """The shared roofs of a run whose kernels have these numbers of threads.

    Parameters
    ----------
    machine
        What kernels are held against, with the ceilings kept for it.
    here
        The machine that this is, if those ceilings are its own; its caches may be others than the ones that
        are modelled. Without it nothing is measured; and never what ``machine`` does not have: roofs of
        caches that it lacks or fills in another way.
    threads
        Numbers of threads of the kernels.
    interval
        Seconds between looks.
    clock
        Tells seconds; tests have their own.
    """

    def __init__(
        self,
        machine: Machine,
        here: Machine | None,
        threads: Collection[int],
        *,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._machine, self._interval, self._clock = machine, interval, clock
        self._here = here if here is not None else replace(machine, ceilings=())
        levels = shared_levels(self._here)
        of_kernels = {(one.name, one.threads) for one in _held_against(machine)}
        self._shared = tuple(
            one
            for one in _held_against(replace(self._here, caches=machine.caches))
            if one.level in levels and one.threads in threads and (one.name, one.threads) in of_kernels
        )
        self._next = 0.0
        self._failure = ""
        self.looks: list[Look] = []

    def look(self, kernels: int) -> None:
        """Measure after so many kernels.

        Where memory is refused, the kept roofs are used from then on, and the machine's notes say so.
        """
        if not self.measures:
            return
        names, threads = {one.name for one in self._shared}, {one.threads for one in self._shared}
        seconds = SECONDS * len(threads)
        try:
            fresh = ceilings.remeasure(self._here, names=names, level=None, threads=threads, seconds=seconds)
        except MachineError as error:
            self._failure = str(error)
            return
        keys = {(one.name, one.threads) for one in self._shared}
        every = (*fresh.ceilings, *fresh.access)
        found = tuple(one for one in every if (one.name, one.threads) in keys)
        self.looks.append(Look(kernels, datetime.now(UTC).isoformat(timespec="seconds"), found))
        self._next = self._clock() + self._interval

    @property
    def measures(self) -> bool:
        """Whether there is anything that looking could find."""
        return bool(self._shared) and not self._failure

    @property
    def due(self) -> bool:
        """Whether it is time to look again."""
        return self.measures and self._clock() >= self._next

    def settled(self, kernel: int) -> bool:
        """Return whether no later look can change what a kernel is held against."""
        return not self.measures or any(look.kernels > kernel for look in self.looks)

    def near(self, kernel: int) -> Machine:
        """Return the machine as it was around a kernel, the first of which is 0.

        Of each shared roof the higher of the last look before the kernel and the first one after it, with the
        median of the samples of both.
        """
        return self._with(self._around(kernel))

    def noted(self, kernel: int, result: KernelResult) -> KernelResult:
        """Return the result of a kernel, with a note if its roof moved while it ran."""
        placed = result.placement
        if placed is None:
            return result
        values = [
            one.value
            for look in self._around(kernel)
            for one in look.ceilings
            if (one.name, one.threads) == (placed.ceiling, result.threads)
        ]
        if not values or max(values) <= (1 + MOVED) * min(values):
            return result
        low, high = units.bandwidth(min(values)), units.bandwidth(max(values))
        note = f"its roof ({placed.ceiling}) moved between {low} and {high} around it, the higher counts"
        return replace(result, placement=replace(placed, notes=(*placed.notes, note)))

    def _around(self, kernel: int) -> list[Look]:
        before = [look for look in self.looks if look.kernels <= kernel][-1:]
        after = [look for look in self.looks if look.kernels > kernel][:1]
        return [*before, *after]

    def whole(self) -> Machine:
        """Return the machine with the highest of each shared roof of all looks."""
        return self._with(self.looks)

    def samples(self) -> tuple[RoofSample, ...]:
        """Return what each look found."""
        return tuple(
            RoofSample(look.measured, look.kernels, one.name, one.threads, one.value, one.median)
            for look in self.looks
            for one in look.ceilings
        )

    def _with(self, looks: list[Look]) -> Machine:
        samples: dict[tuple[str, int], list[float]] = {}
        for one in (one for look in looks for one in look.ceilings):
            samples.setdefault((one.name, one.threads), []).extend(one.samples)
        best = {
            (one.name, one.threads): replace(one, median=statistics.median(samples[one.name, one.threads]))
            for one in best_of(*(look.ceilings for look in looks))
        }
        ceilings, access = (
            tuple(best.get((one.name, one.threads), one) for one in kept)
            for kept in (self._machine.ceilings, self._machine.access)
        )
        notes = self._machine.notes
        if self._failure:
            notes = (*notes, f"ceilings: not measured beside the kernels: {self._failure}")
        return replace(self._machine, ceilings=ceilings, access=access, notes=notes)


def _held_against(machine: Machine) -> tuple[Ceiling, ...]:
    """Return the ceilings that kernels are held against: whose bytes are those of the modelled caches."""
    return comparable((*machine.ceilings, *small_twins(machine.access)), machine.caches)[0]
