"""Whether events that counted nothing can count at all: tried on work that is sure to move them.

Some hypervisors pass on a few events and let the others be opened and stay at 0.
"""

from __future__ import annotations

import mmap
import time
from dataclasses import replace
from typing import Any

from .base import Count, Measurement, unavailable
from .perf_collect import Sources, collect
from .perf_open import Opener, open_event
from .perf_plan import PerfPlan, Term
from .perf_sums import summed

BYTES = 1 << 24
"""Bytes that the work goes through: more than any core's own caches hold."""
ADDITIONS = 20_000


class _Work:
    """Additions of f64, one after the other, and memory that is written, read and written elsewhere."""

    def seconds(self, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            sum([1.5] * ADDITIONS, 0.0)
            with mmap.mmap(-1, BYTES) as fresh:  # the allocator might hand out memory that was touched before
                fresh.write(b"\1" * BYTES)
                bytes(fresh)
        return time.perf_counter() - start

    def counted(self, calls: int, groups: Any, count: int) -> float:
        from ..native import lib

        lib.perf_begin(groups, count)
        seconds = self.seconds(calls)
        lib.perf_end(groups, count)
        return seconds


def confirmed(sources: Sources, found: Measurement, opener: Opener = open_event) -> Measurement:
    """Return a measurement whose zeros are counts: events that never move have none.

    Parameters
    ----------
    sources
        What was counted.
    found
        What came of it.
    opener
        What opens.
    """
    one = sources.plan
    told: dict[str, Count] = {}
    # what counts f32 alone has nothing to count in the work
    if found.flops.value == 0 and any(term.fact.precision != "f32" for term in one.flops):
        told["flops"] = _confirmed(found.flops, one.flops, sources, opener)
    for name, source in (("l1_l2_bytes", one.l1_l2), ("l2_l3_bytes", one.l2_l3)):
        count: Count = getattr(found, name)
        if count.value == 0 and source is not None:
            told[name] = _confirmed(count, source.terms, sources, opener)
    return replace(found, **told) if told else found  # type: ignore[arg-type]


def _confirmed(count: Count, terms: tuple[Term, ...], sources: Sources, opener: Opener) -> Count:
    alone = Sources(PerfPlan(sources.plan.title, True, sources.plan.cores, flops=terms), None, None)
    tried = summed("", terms, collect(alone, _Work(), opener))
    if tried.value:
        return count
    reason = f"{count.source} can be opened but stays at 0, also for work that moves it"
    return unavailable(count.source, tried.reason if tried.value is None and tried.reason else reason)
