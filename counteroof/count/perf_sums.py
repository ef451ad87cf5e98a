"""Sums of what events counted, each count weighted with what it stands for; all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Count, unavailable
from .perf_collect import Collected
from .perf_open import Counted, Event, as_count, never_ran
from .perf_plan import Term

NAME = "perf"


def summed(what: str, terms: Sequence[Term], found: Collected, reason: str | None = None) -> Count:
    """Return the sum of terms of the calling process's own events; unavailable if one of them is missing."""
    if not terms:
        return unavailable(NAME, reason or f"no PMU here counts {what}")
    for term in terms:
        if term.event in found.refused:
            return unavailable(term.event.name, found.refused[term.event])
        if term.event not in found.counted:
            return unavailable(term.event.name, f"{term.event} was not counted")
    cores = {term.event.pmu for term in terms}
    hybrid = len(cores) > 1 or any(term.event.pmu in ("cpu_core", "cpu_atom") for term in terms)
    counts = [(term, as_count(found.counted[term.event], found.calls, hybrid)) for term in terms]
    missing = next((count for _, count in counts if count.value is None), None)
    if missing is not None:
        return missing
    if len(cores) > 1 and (starved := _not_on_any_core(terms, found)) is not None:
        return unavailable(NAME, never_ran(starved))
    total = sum((count.value or 0) * term.factor for term, count in counts)
    names = dict.fromkeys(term.event.name for term in terms)
    source = ", ".join(names) if len(names) <= 2 else f"{next(iter(names))} and {len(names) - 1} more events"
    scaled = [count for _, count in counts if count.status == "scaled"]
    return Count(
        whole(total), "scaled" if scaled else "counted", source, scaled[0].reason if scaled else None
    )


def whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def _not_on_any_core(terms: Sequence[Term], found: Collected) -> Event | None:
    """Return an event that was on the counters of no kind of core for a part of its time.

    On a hybrid processor each kind of core counts while the thread is on one; together that is always.
    """
    by_name: dict[str, list[Counted]] = {}
    for term in terms:
        by_name.setdefault(term.event.name, []).append(found.counted[term.event])
    for counts in by_name.values():
        if len(counts) > 1 and sum(one.running for one in counts) < 0.98 * max(one.enabled for one in counts):
            return counts[0].event
    return None
