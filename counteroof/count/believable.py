"""Counts that cannot be true, whichever counter delivered them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import units
from .base import Count, unavailable

if TYPE_CHECKING:
    from ..run.prepare import PreparedCall

DECLARED_SHARE = 1 / 64
"""A count below this share of the FLOPs that a result, found right, was declared to need is not believed."""
SOCKET_BYTES_PER_SECOND = 1e12
"""More than the memory of any socket delivers whose controllers are counted together (Grace: 0.5e12)."""


def needed_flops(prepared: PreparedCall) -> float | None:
    """Return the FLOPs that a kernel was declared to need for a result that is right; ``None`` if unknown.

    A wrong result would have ended the worker before anything was counted.
    """
    declared = prepared.case.declared_flops if prepared.case.spec.reference is not None else None
    return None if declared is None else float(declared)


def flops(count: Count, needed: float | None) -> Count:
    """Return the FLOPs unless they are too few for the result.

    Parameters
    ----------
    count
        FLOPs of a call.
    needed
        FLOPs that the kernel was declared to need for a result that was found right; ``None`` if there is
        no such claim.
    """
    if count.value is None or not needed or count.value >= needed * DECLARED_SHARE:
        return count
    return unavailable(
        count.source,
        f"not believed: {count.value:g} FLOPs were counted, and the result, which was right, is declared "
        f"to need {needed:g}",
    )


def traffic(total: float, seconds: float, limit: float | None) -> str | None:
    """Return why bytes of whole sockets cannot be true, or ``None``.

    Parameters
    ----------
    total
        Bytes, those of others included.
    seconds
        In which they were counted.
    limit
        Bytes a second that cannot be exceeded; ``None`` if nothing is known.
    """
    if not total:
        return (
            f"not believed: nothing at all was counted in {seconds:.3g} s, and no socket's memory is that "
            "quiet; the counters of the memory can be opened, but stay at 0"
        )
    if limit is not None and total > limit * max(seconds, 1e-9):
        rate = units.bandwidth(total / max(seconds, 1e-9))
        return (
            f"not believed: {total:g} bytes in {seconds:g} s are {rate}, more than the memory channels carry "
            f"({units.bandwidth(limit)})"
        )
    return None
