"""The raw file of LIKWID's marker API: regions, threads and counters without names.

Form: LIKWID src/perfmon.c (perfmon_readMarkerFile): ``threads regions groups``; for each region its number,
its name and its group; then, for each region and thread, ``region group thread calls seconds counters``
and the counters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput
from ..results import Results
from . import events
from .imported import Contradiction, Kernel, Options, Said, count, machine, number, result, results, total

COUNTER = "LIKWID marker file"

_HEAD = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s*$", re.ASCII)
_REGION = re.compile(r"^\s*(\d+):(.+)-(\d+)\s*$", re.ASCII)


@dataclass(frozen=True)
class Entry:
    """One region on one thread."""

    region: int
    group: int
    thread: int
    calls: int
    seconds: float
    values: tuple[Said, ...]


def recognises(text: str) -> bool:
    """Return whether a text looks like a marker file."""
    lines = text.splitlines()[:2]
    return len(lines) == 2 and bool(_HEAD.match(lines[0])) and bool(_REGION.match(lines[1]))


def read(text: str, path: Path, options: Options) -> list[Results]:
    """Return the regions of a marker file; without names for its counters, only their time is known."""
    lines = [line for line in text.splitlines() if line.strip()]
    head = _HEAD.match(lines[0]) if lines else None
    if head is None:
        raise BadInput(f"{path}: expected 'threads regions groups' in the first line of a marker file")
    threads, number_of, groups = map(int, head.groups())
    names: dict[int, str] = {}
    for line in lines[1 : 1 + number_of]:
        region = _REGION.match(line)
        if region is None:
            raise BadInput(
                f"{path}: found {line.strip()!r}; expected one of {number_of} regions, such as 0:name-0"
            )
        names[int(region[1])] = region[2]
    entries = [_entry(line, path) for line in lines[1 + number_of :]]
    expected = threads * number_of
    if len(entries) != expected:
        raise Contradiction(
            f"{path} is said in two ways that disagree: {threads} threads and {number_of} regions make "
            f"{expected} lines, but there are {len(entries)}"
        )
    for entry in entries:
        if entry.region not in names or entry.group >= groups:
            raise BadInput(
                f"{path}: found region {entry.region}, group {entry.group}; expected those of its head"
            )
    if options.events and any(len(options.events) != len(entry.values) for entry in entries):
        counters = sorted({len(entry.values) for entry in entries})
        raise BadInput(f"{len(options.events)} events are named, but {path} has {counters[0]} counters")
    kernels = [
        result(_kernel(name, [one for one in entries if one.region == index], path, options), ())
        for index, name in names.items()
    ]
    note = "a marker file does not name the processor"
    return [results(machine(f"machine of {path.name}", "unknown", notes=(note,)), kernels, path)]


def _entry(line: str, path: Path) -> Entry:
    fields = line.split()
    said = [number(field, "marker file") for field in fields]
    if len(fields) < 6 or None in said:
        raise BadInput(
            f"{path}: found {line.strip()[:80]!r}; expected region, group, thread, calls, seconds, counters"
        )
    numbers = [one for one in said if one is not None]
    values = tuple(numbers[6:])
    if len(values) != numbers[5].value:
        raise Contradiction(
            f"{path} is said in two ways that disagree: {numbers[5].value} counters are announced and "
            f"{len(values)} follow in {line.strip()[:60]!r}"
        )
    if any(one.value < 0 for one in numbers):
        raise BadInput(f"{path}: found {line.strip()[:80]!r}; expected numbers that are not negative")
    region, group, thread, calls = (int(one.value) for one in numbers[:4])
    return Entry(region, group, thread, calls, float(numbers[4].value), values)


def _kernel(name: str, entries: Sequence[Entry], path: Path, options: Options) -> Kernel:
    entered = [entry for entry in entries if entry.calls > 0]
    calls = {entry.calls for entry in entered}
    per = 1 / calls.pop() if len(calls) == 1 else 1.0
    seconds = max((entry.seconds for entry in entered), default=0.0) * per
    reason = "a marker file does not name its counters; name them with --events, in the order of the group"
    counts = {"flops": count(None, COUNTER, reason), "dram_read_bytes": count(None, COUNTER, reason)}
    counts["dram_write_bytes"] = counts["instructions"] = counts["dram_read_bytes"]
    precision = None
    if options.events:
        whole: dict[str, Said | None] = {}
        for index, event in enumerate(options.events):
            parts = [entry.values[index] for entry in entered]
            key = events.key(event)
            before = [whole[key]] if key in whole else []
            whole[key] = total([*parts, *(one for one in before if one is not None)], event)
        found = events.flops(whole, name)
        precision = found.precision
        counts = {"flops": count(found.said.times(per) if found.said else None, COUNTER, found.reason)}
        for key, one in whole.items():
            quantity = events.counted_as(key)
            if quantity is not None and one is not None:
                counts.setdefault(quantity, count(one.times(per), COUNTER, None))
            known = events.bytes_event(key)
            if known is not None and one is not None and known[0] != "both":
                counts[f"dram_{known[0]}_bytes"] = count(one.times(per * known[1]), COUNTER, None)
    notes = ["counters are printed with seven digits", "FLOP convention: hardware"]
    if len({entry.calls for entry in entered}) > 1:
        notes.append(
            "the threads called the region different numbers of times: one call is all of them together"
        )
    return Kernel(
        name=name,
        counter=COUNTER,
        library=path.name,
        seconds=(seconds,) if seconds > 0 else (),
        threads=max(len(entered), 1),
        precision=precision,
        counts=counts,
        notes=tuple(notes),
    )
