"""The counter that asks LIKWID: groups for FLOPs and memory, chosen by what this processor has.

Runs in the worker, with LIKWID in a process of its own (``likwid_process.py``). LIKWID counts processors, not
processes: those that this process may run on, so pinning is left to the user (``taskset``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .base import Measurement
from .believable import needed_flops
from .likwid_client import Likwid, LikwidFailed
from .likwid_groups import NAME, SECONDS, Counting
from .likwid_look import NOT_INSTALLED, installed, offered
from .perf_collect import warm_seconds
from .select import Availability, nothing_counted

if TYPE_CHECKING:
    from ..run.prepare import PreparedCall
    from .events import EventFact


def available() -> Availability:
    """Return whether LIKWID can count here, found out by starting it."""
    if not installed():
        return Availability(NAME, None, NOT_INSTALLED)
    try:
        with Likwid(sorted(os.sched_getaffinity(0))) as likwid:
            return offered(likwid.known)
    except LikwidFailed as error:
        return Availability(NAME, None, str(error))


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
    calls = max(1, math.ceil(SECONDS / warm_seconds(prepared.seconds)))
    try:
        with Likwid(cpus) as likwid:
            sockets = [socket_of(REAL, cpu) for cpu in cpus]
            counting = Counting(likwid, sockets, calls, prepared.seconds, needed_flops(prepared))
            return counting.measurement(*_known_events())
    except LikwidFailed as error:
        return nothing_counted(NAME, str(error))


def _known_events() -> tuple[int, tuple[EventFact, ...]]:
    """Return the length of a scalable vector, and the FLOP events of this processor."""
    from .events import builtin, this_processor

    data = builtin()
    found = data.find(this_processor())
    if found is None:
        return 128, ()
    name, entry = found
    bits = entry.vector_bits or 128
    facts = [fact for one in entry.flops for fact in data.events(one, name)]
    weights = [(fact.weight or 0) * (bits / 128 if fact.per_128_bits else 1) for fact in facts]
    return bits, tuple(replace(fact, weight=weight) for fact, weight in zip(facts, weights, strict=True))
