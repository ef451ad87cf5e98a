"""Events in other tools' files to FLOPs, bytes and counts, by the table ``data/imported_events.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import tomli

from ..count.base import FlopClass
from .imported import Said, agreed, total


@dataclass(frozen=True)
class FlopEvent:
    """An event that counts FLOPs: how many each time, in vectors of what width, by what operation."""

    names: tuple[str, ...]
    flops: int
    width: int
    op: str
    optional: bool


@dataclass(frozen=True)
class FlopSet:
    """Events that together count the FLOPs of one precision."""

    name: str
    precision: str
    events: tuple[FlopEvent, ...]
    group: str
    note: str

    @property
    def kinds(self) -> bool:
        """Whether the events tell widths or operations apart, rather than count all together."""
        return any(event.width or event.op != "any" for event in self.events)


@dataclass(frozen=True)
class Flops:
    """FLOPs that a file says; ``said`` is ``None`` if it does not, and ``reason`` is why, or a remark."""

    said: Said | None
    reason: str | None
    by: tuple[FlopClass, ...] = ()
    precisions: tuple[str, ...] = ()
    """What was counted; ``any`` is all together."""

    @property
    def precision(self) -> str | None:
        """The precision, if it is one that is known."""
        return self.precisions[0] if len(self.precisions) == 1 and self.precisions[0] != "any" else None


def key(name: str) -> str:
    """Return a name as names are compared."""
    return re.sub(r"[._:\s-]", "", name).casefold()


@cache
def _table() -> dict[str, Any]:
    file = resources.files("counteroof").joinpath("data/imported_events.toml")
    return tomli.loads(file.read_text(encoding="utf-8"))


@cache
def flop_sets() -> tuple[FlopSet, ...]:
    """Return the sets of events that count FLOPs."""
    return tuple(
        FlopSet(
            one["set"],
            one["precision"],
            tuple(
                FlopEvent(
                    (event["name"], *event.get("also", ())),
                    event["flops"],
                    event.get("width", 0),
                    event.get("op", "any"),
                    event.get("optional", False),
                )
                for event in one["events"]
            ),
            one.get("group", one["set"]),
            one.get("note", ""),
        )
        for one in _table()["flops"]
    )


def flops(counts: Mapping[str, Said | None], whose: str) -> Flops:
    """Return the FLOPs that events count.

    Parameters
    ----------
    counts
        Counts by :func:`key` of their events' names; ``None`` is an event that was asked for and not counted.
    whose
        The kernel, for messages.

    Raises
    ------
    Contradiction
        If two sets of the same group disagree.
    """
    totals: dict[str, list[tuple[FlopSet, Said]]] = {}
    classes: list[FlopClass] = []
    missing, notes = [], []
    for one in flop_sets():
        found = {event.names[0]: _find(event, counts, whose) for event in one.events}
        if all(not there for there, _ in found.values()):
            continue
        lost = []
        for event in one.events:
            there, said = found[event.names[0]]
            if said is None and (there or not event.optional):
                lost.append(event.names[0])
        if lost:
            missing.append(f"{', '.join(lost)} ({one.name})")
            continue
        parts = []
        for event in one.events:
            _, said = found[event.names[0]]
            if said is None:
                notes.append(f"{event.names[0]} is not in the file and taken as 0")
                continue
            parts.append(said.times(event.flops))
            if one.kinds:
                value = round(said.value * event.flops)
                classes.append(FlopClass(one.precision, event.width, event.op, value))
        totals.setdefault(one.group, []).append((one, total(parts, f"events of {one.name}")))
        notes += [one.note] if one.note else []
    if missing:
        return Flops(None, f"events are missing: {'; '.join(missing)}")
    if not totals:
        return Flops(None, "the file has no events that count FLOPs")
    sums = []
    for group in totals.values():
        said = agreed(f"FLOPs of {whose}", (said for _, said in group), slack=1e-6)
        assert said is not None
        sums.append(said)
    precisions = tuple(dict.fromkeys(group[0][0].precision for group in totals.values()))
    if precisions != ("any",):
        notes.insert(0, f"{' and '.join(precisions)} only; the file has no events of other precisions")
    else:
        notes.insert(0, "all precisions together: the event does not tell them apart")
    return Flops(total(sums, " + ".join(s.where for s in sums)), "; ".join(notes), tuple(classes), precisions)


def _find(event: FlopEvent, counts: Mapping[str, Said | None], whose: str) -> tuple[bool, Said | None]:
    """Return whether an event is in the file under one of its names, and its count."""
    names = [key(name) for name in event.names if key(name) in counts]
    return bool(names), agreed(f"{event.names[0]} of {whose}", (counts[name] for name in names))


@cache
def _bytes_table() -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    return tuple((one["direction"], one["bytes"], tuple(map(key, one["names"]))) for one in _table()["bytes"])


def bytes_event(name: str) -> tuple[str, int] | None:
    """Return direction (read, write, both) and bytes of a count, or ``None`` if an event counts no bytes."""
    wanted = key(name)
    for direction, size, names in _bytes_table():
        for one in names:
            if wanted == one or (one.endswith("*") and wanted.startswith(one[:-1])):
                return direction, size
    return None


def counted_as(name: str) -> str | None:
    """Return which plain quantity an event counts: ``instructions``, ``cycles``, or none of them."""
    wanted = key(name)
    for one in _table()["count"]:
        if wanted in map(key, one["names"]):
            return str(one["quantity"])
    return None
