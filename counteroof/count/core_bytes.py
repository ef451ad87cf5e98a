"""From executed instructions to the bytes they load and store: what crosses between the core and L1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import units
from .base import AccessMix, Count, unavailable

if TYPE_CHECKING:
    from ..instrument.engine import Executed

SOURCE = "loads and stores of instrumented instructions"


def core_bytes(executed: Iterable[Executed], xsave_bytes: int = 0) -> Count:
    """Return the bytes that executed instructions load and store, stack included; prefetches move none.

    An update counts twice. Of masked and gathered accesses only the active lanes move anything; where it is
    not known how many were active the number is an upper bound, and its reason says by how much at most.

    Parameters
    ----------
    executed
        From :meth:`Engine.executed`.
    xsave_bytes
        What ``xsave`` writes here.
    """
    from ..instrument.decode import FLUSH, PREFETCH, STRING, UPDATE, Reader

    reader = Reader(None, xsave_bytes)
    strings: Counter[str] = Counter()
    total = unsure = 0
    for item in executed:
        for access in reader.accesses(item.instruction):
            if not item.times or access.kind in (PREFETCH, FLUSH):
                continue
            if access.form == STRING:
                strings[f"{item.instruction}"] += item.times
                break
            ways = 2 if access.kind == UPDATE else 1
            if not access.lanes:
                total += ways * item.times * access.bytes
            elif access.broadcast:
                total += ways * item.times * access.broadcast * access.bytes
            elif item.active_lanes is not None:
                total += ways * item.active_lanes * access.bytes
            else:
                bound = ways * item.times * access.lanes * access.bytes
                total, unsure = total + bound, unsure + bound
    if strings:
        names = ", ".join(f"{text} ({times})" for text, times in sorted(strings.items()))
        return unavailable(SOURCE, f"the length of repeated string instructions is not recorded: {names}")
    reason = None
    if unsure:
        share = units.percent(unsure / total)
        reason = f"upper bound: {share} are of masked or gathered accesses, taken with all lanes active"
    return Count(total, "instrumented", SOURCE, reason)


def access_mix(executed: Iterable[Executed], xsave_bytes: int = 0) -> AccessMix:
    """Return how many elements were loaded and stored, and how many of them by gathers and scatters.

    Of repeated string instructions each counts as one access; an update counts as one.
    """
    from ..instrument.decode import FLUSH, GATHERED, LOAD, PREFETCH, Reader

    reader = Reader(None, xsave_bytes)
    sums: Counter[str] = Counter()
    for item in executed:
        for access in reader.accesses(item.instruction):
            if not item.times or access.kind in (PREFETCH, FLUSH):
                continue
            times = item.times
            if access.form == GATHERED:
                times *= access.lanes
                kind = "gathered" if access.kind == LOAD else "scattered"
                sums[kind] += times
                sums[f"{kind}_bytes"] += times * access.bytes
            sums["accesses"] += times
            sums["bytes"] += times * access.bytes * (1 if access.form == GATHERED else max(access.lanes, 1))
    names = ("accesses", "bytes", "gathered", "gathered_bytes", "scattered", "scattered_bytes")
    return AccessMix(**{name: sums[name] for name in names})
