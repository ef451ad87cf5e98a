"""Findings about pages: walks that need more translations of addresses than a core keeps."""

from __future__ import annotations

from collections.abc import Iterator

from .. import units
from ..count.base import ArrayTraffic
from . import tiles
from .base import Facts, Finding, Shape

TRANSLATION = "address translation"


def translation(facts: Facts) -> Iterator[Finding]:
    """Columns whose lines are in more pages than a walk can come to without waiting for their addresses."""
    moved = facts.demand.l1_l2
    if facts.own_seconds is None or moved is None:
        return
    for shape in facts.shapes:
        walks = tiles.walks(facts, tiles.row_bytes(shape) if len(shape.extents) > 1 else 0)
        if len(walks) < 2:
            continue
        fewest = min(walks)
        lines = tiles.column(shape) if len(shape.extents) > 1 else 0
        if lines <= fewest or not _paged(facts, shape) or not tiles.by_columns(facts, 0, shape):
            continue
        line = facts.line_bytes
        each = line / tiles.walk(walks, lines) - line / walks[fewest]
        traffic = next((one for one in facts.arrays if one.name == shape.name), None)
        misses = traffic.tlb_misses if traffic else None
        # what waits is what the TLB of level 1 does not have, if that is known, and else every line
        waiting = moved / line if misses is None else min(misses, moved / line)
        spent = waiting * each
        least = facts.least_seconds(facts.demand) or 0.0
        after = max(facts.own_seconds - spent, least)
        gain = facts.worth(facts.own_seconds / after, after) if after > 0 else None
        if gain is None:
            continue
        yield Finding(
            TRANSLATION,
            "cost",
            f"the {lines} lines of a column of {shape.name} are in as many pages; with so many a line takes "
            f"{units.seconds(each)} more than with {fewest}, to translate its address{_modelled(traffic)}",
            f"walk along the rows of {shape.name}; where they are to be columns, go down parts of at most "
            f"{fewest} rows, or put it on huge pages (2 MiB alignment and madvise(MADV_HUGEPAGE))",
            gain.factor,
            gain.attainable,
            {"lines of a column": lines, "seconds a line more": each, "seconds of all": spent},
        )


def _modelled(traffic: ArrayTraffic | None) -> str:
    """Return what the modelled TLBs say of an array, to be added to a sentence."""
    if traffic is None or traffic.tlb_misses is None or traffic.page_walks is None:
        return ""
    return (
        f"; modelled: {units.count(traffic.tlb_misses)} translations that the first TLB does not have, "
        f"{units.count(traffic.page_walks)} page walks"
    )


def _paged(facts: Facts, shape: Shape) -> bool:
    """Return whether each row of an array begins in a page of its own; huge ones hold many rows."""
    huge = any(one.huge_pages for one in facts.arrays if one.name == shape.name)
    return not huge and shape.extents[-1] * shape.element_bytes >= tiles.PAGE


RULES = (translation,)
