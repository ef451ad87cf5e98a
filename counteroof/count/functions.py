"""FLOPs by function, and those of remainder loops: where the executed FLOPs were executed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..library import address_to_symbol
from .base import FunctionFlops
from .flop_count import Convention
from .lines import Places, line_of

if TYPE_CHECKING:
    from ..instrument.engine import Executed


def flops_by_function(
    executed: Iterable[Executed], convention: Convention, places: Places | None = None
) -> tuple[FunctionFlops, ...]:
    """Return the FLOPs of every function that executed some, most first; they add up to the total.

    The remainder of a vectorised loop is what was executed in narrower instructions of the same source line,
    which only debug information tells.
    """
    places = places or Places()
    total: Counter[tuple[str, str | None]] = Counter()
    by_line: dict[tuple[str, str | None], dict[tuple[str, int], Counter[int]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for item in executed:
        counted = convention.of(item)
        if not counted.flops or counted.rule is None:
            continue
        library, address = places.find(item.instruction.ip)
        key = library, address_to_symbol(library, address)
        total[key] += counted.flops
        line = line_of(library, address)
        if line is not None:
            by_line[key][line][counted.rule.width] += counted.flops
    return tuple(
        FunctionFlops(
            library,
            symbol,
            flops,
            sum(map(_narrower, by_line[library, symbol].values())) if by_line[library, symbol] else None,
        )
        for (library, symbol), flops in sorted(
            total.items(), key=lambda one: (-one[1], one[0][0], one[0][1] or "")
        )
    )


def _narrower(widths: Counter[int]) -> int:
    """Return the FLOPs of one source line in instructions that are not its widest."""
    return sum(flops for width, flops in widths.items() if width != max(widths))
