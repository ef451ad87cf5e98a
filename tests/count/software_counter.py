"""A counter for the worker that goes the way of ``perf`` with what every kernel counts: page faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counteroof.count.base import Measurement
from counteroof.count.events import EventFact
from counteroof.count.perf import KernelCalls, evaluate
from counteroof.count.perf_collect import Sources, collect
from counteroof.count.perf_open import SOFTWARE
from counteroof.count.perf_plan import PerfPlan, Term

CLOCK, FAULTS = (Term(event, 1, EventFact(name=event.name)) for event in SOFTWARE)
SOURCES = Sources(PerfPlan("software", True, ("software",), (CLOCK,), (CLOCK,), (FAULTS,)), None, None)


def count(prepared: Any, options: Mapping[str, Any]) -> Measurement:
    """Count the page faults of one call."""
    found = collect(SOURCES, KernelCalls(prepared))
    return evaluate(SOURCES, found, options.get("needed"))
