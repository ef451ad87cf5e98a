"""What is said of a kernel in which no rule found time that is lost."""

from __future__ import annotations

from .. import units
from . import tiles
from .base import Facts, Finding, nearest

FINE = 0.7
"""From this share on of what its roofs allow, a kernel is fine."""

FINE_RULE = "fine"
OPEN = "no cause found"

_NAMES = {
    "dram": "memory needs at least for its mix of loads and stores",
    "l3": "L3 needs at least for its mix of loads and stores",
    "l2": "L2 needs at least for its mix of loads and stores",
    "compute": "its arithmetic needs at least for its mix of operations",
    "chains": "operations need at least that wait for each other",
    "walk": "L2 needs at least for a walk down columns",
}


def nothing_found(facts: Facts) -> Finding | None:
    """Return that a kernel is fine, or that no rule says why it is not; ``None`` if that cannot be told.

    It is held against the roof of its own mix of loads and stores, and of the instructions it has, which is
    lower than the highest roof that the dot stands under.
    """
    parts = facts.parts(facts.demand) | _walk(facts)
    if facts.own_seconds is None or not parts or not facts.arrays:
        return None  # without traffic by array most rules had nothing to look at
    slowest = max(parts, key=lambda name: parts[name])
    share = min(parts[slowest] / facts.own_seconds, 1.0)
    evidence: dict[str, float | int | str] = {f"least seconds of {slowest}": parts[slowest]}
    said = f"{units.percent(share)} of its time is what {_NAMES[slowest]}"
    if share >= FINE:
        return Finding(
            FINE_RULE, "note", f"fine: nothing that costs time was found, and {said}", "", evidence=evidence
        )
    return Finding(
        OPEN,
        "note",
        f"nothing that costs time was found, yet only {said}: no rule says why",
        "look at single lines (--detail lines), and at what else ran on the machine",
        evidence=evidence,
    )


def _walk(facts: Facts) -> dict[str, float]:
    """Return the least seconds of lines that come from L2 down the columns of an array, if any do."""
    measured = tiles.walks(nearest(facts.machine.ceilings, facts.threads))
    columns = [shape for shape in facts.shapes if len(shape.extents) > 1]
    walked = [shape for shape in columns if tiles.by_columns(facts, 0, shape)]
    moved = facts.demand.l1_l2
    if not measured or not walked or moved is None:
        return {}
    return {"walk": moved / tiles.walk(measured, max(map(tiles.column, walked)))}
