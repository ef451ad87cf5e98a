"""A ledger as the steps of a waterfall: where each bar begins and ends, for pictures and pages alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..reconcile import MODELLED, LedgerLine

NEGLIGIBLE = 0.001
"""Share of the largest total below which causes are put together."""

OTHERS = "other causes"


@dataclass(frozen=True)
class Step:
    """One bar.

    ``bytes`` is the signed size of a step or the value of a total; ``None`` for a total that could not be
    had, which has no bar. ``start`` and ``end`` are the running sums before and after.
    """

    kind: Literal["total", "more", "less", "unknown"]
    cause: str
    array: str | None
    bytes: int | None
    start: int
    end: int

    @property
    def name(self) -> str:
        """The cause, with the array it belongs to."""
        return f"{self.cause}: {self.array}" if self.array is not None else self.cause


def steps(ledger: Sequence[LedgerLine]) -> tuple[Step, ...]:
    """Return the steps of a ledger; of small causes those between two totals become one.

    A modelled total with no step between it and the actual one says nothing, and is left out.
    """
    weight = NEGLIGIBLE * max((abs(line.bytes or 0) for line in ledger if line.total), default=0)
    found: list[Step] = []
    running = 0
    small: list[LedgerLine] = []

    def add(cause: str, array: str | None, size: int) -> None:
        nonlocal running
        found.append(Step("more" if size > 0 else "less", cause, array, size, running, running + size))
        running += size

    for number, line in enumerate(ledger):
        if not line.total:
            size = line.bytes or 0
            if abs(size) >= weight and size:
                add(line.cause, line.array, size)
            elif size:
                small.append(line)
            continue
        if small:
            only = small[0] if len(small) == 1 else LedgerLine(OTHERS, None)
            add(only.cause, only.array, sum(one.bytes or 0 for one in small))
            small = []
        if line.cause == MODELLED and number + 2 == len(ledger):
            continue
        if line.bytes is None:
            found.append(Step("unknown", line.cause, None, None, running, running))
        else:
            found.append(Step("total", line.cause, line.array, line.bytes, 0, line.bytes))
            running = line.bytes
    return tuple(found)
