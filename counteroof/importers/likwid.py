"""``likwid-perfctr``: its tables, as text or with ``-O`` as CSV, to one result a region and device.

Forms: LIKWID src/applications/likwid.lua (printOutput, printMarkerOutput). Events, not metrics, are what
LIKWID counted; metrics are derived and printed with fewer digits, so they serve where there is no event, and
to be held against the events.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from ..count.base import Count, unavailable
from ..errors import BadInput
from ..machine.model import Machine
from ..results import Results
from . import events
from .imported import (
    Contradiction,
    Kernel,
    Options,
    Said,
    agreed,
    count,
    machine,
    number,
    product,
    result,
    results,
    total,
)

COUNTER = "likwid-perfctr"

_TEXT_TITLE = re.compile(r"^(?:Region (?P<region>.+), )?Group (?P<number>\d+): (?P<group>\S+)\s*$")
_CSV_TITLE = re.compile(
    r"^TABLE,(?:Region (?P<region>.+),)?Group (?P<number>\d+) (?P<kind>Raw|Metric)(?P<stat> STAT| Stat)?,"
    r"(?P<group>[^,]+)"
)
_COLUMN = re.compile(r"^(HWThread|Core|CPU|GPU)\s*(\d+)$")
_OWN_COUNTERS = ("PMC", "FIXC")
"""How the names of counters begin that each thread has its own of."""

_NOTHING = ("", "-", "nan", "inf", "-nan", "-inf")
_CALLS, _RUNTIME = "call count", "RDTSC Runtime [s]"
_METRIC_RUNTIME = "Runtime (RDTSC) [s]"
_RATES = (("DP", "f64"), ("SP", "f32"), ("HP", "f16"))
_VOLUMES = (
    ("dram_read_bytes", "Memory read data volume", "Memory read bandwidth"),
    ("dram_write_bytes", "Memory write data volume", "Memory write bandwidth"),
    ("dram_bytes", "Memory data volume", "Memory bandwidth"),
    ("l1_l2_bytes", "L2 data volume", "L2 bandwidth"),
    ("l2_l3_bytes", "L3 data volume", "L3 bandwidth"),
)
K = TypeVar("K", str, tuple[str, str])
_GBYTES = 1e9
_SLACK = 2e-3


@dataclass
class Block:
    """What is printed of one region, group and kind of device: columns, and rows by name of each table."""

    region: str | None
    number: int
    group: str
    columns: tuple[str, ...]
    info: dict[str, tuple[str, ...]] = field(default_factory=dict)
    events: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    metrics: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def whose(self) -> str:
        """The region and the group, for messages."""
        return f"{self.region or 'the program'}, group {self.group}"


@dataclass
class Output:
    """A whole file: the processor it names, its blocks, and the sums it prints over threads."""

    path: Path
    cpu_name: str = ""
    cpu_type: str = ""
    blocks: list[Block] = field(default_factory=list)
    sums: dict[tuple[str | None, int, str, str], str] = field(default_factory=dict)


def recognises(text: str) -> bool:
    """Return whether a text looks like the output of ``likwid-perfctr``."""
    lines = text.splitlines()
    csv_form = any(_CSV_TITLE.match(line) for line in lines)
    return csv_form or any(_TEXT_TITLE.match(line.strip()) for line in lines)


def read(text: str, path: Path, options: Options) -> list[Results]:
    """Return the regions of a file, those of a GPU as a run of their own."""
    lines = text.splitlines()
    is_csv = any(_CSV_TITLE.match(line) for line in lines)
    output = _read_csv(lines, path) if is_csv else _read_text(lines, path)
    if not output.blocks:
        raise BadInput(f"{path} has no table with values; expected the output of likwid-perfctr")
    made = []
    _check_sums(output)
    devices = {
        "CPU": [block for block in output.blocks if not _on_gpu(block)],
        "GPU": [block for block in output.blocks if _on_gpu(block)],
    }
    for device, blocks in devices.items():
        kernels = [result(kernel, ()) for kernel in _kernels(blocks, path, options)]
        if kernels:
            made.append(results(_machine(output, device, blocks, path), kernels, path))
    return made


def _on_gpu(block: Block) -> bool:
    return block.columns[0].startswith("GPU")


def _machine(output: Output, device: str, blocks: Sequence[Block], path: Path) -> Machine:
    host = output.cpu_name.strip() or "unnamed processor"
    if device == "GPU":
        columns = sorted({column for block in blocks for column in block.columns})
        note = f"the file does not name the GPU; the host is {host}"
        return machine(f"{', '.join(columns)} beside {host}", "unknown", notes=(note,))
    return machine(host, output.cpu_type.strip() or "unknown")


def _read_text(lines: Sequence[str], path: Path) -> Output:
    output = Output(path)
    title: tuple[str | None, int, str] | None = None
    header: list[str] = []
    rules = 0  # of the table at hand: the header stands below the first, the rows below the second
    for line in lines:
        stripped = line.strip()
        if match := re.match(r"CPU (name|type):\s*(.+)", stripped):
            _name_cpu(output, match[1], match[2])
        elif match := _TEXT_TITLE.match(stripped):
            title, rules = (match["region"], int(match["number"]), match["group"]), 0
        elif re.fullmatch(r"[+-]{4,}", stripped) and stripped.startswith("+"):
            rules = (rules + 1) % 3
        elif stripped.startswith("|") and title is not None:
            cells = [cell.strip() for cell in stripped.strip("|").split("|")]
            if rules == 1:
                header = cells
            elif rules == 2:
                extra = max(
                    len(cells) - len(header), 0
                )  # of a name with a bar, such as "L3|MEM evict bandwidth"
                _fill(output, title, header, ["|".join(cells[: extra + 1]), *cells[extra + 1 :]])
    return output


def _read_csv(lines: Sequence[str], path: Path) -> Output:
    output = Output(path)
    title: tuple[str | None, int, str] | None = None
    header: list[str] = []
    for cells in csv.reader(lines):
        line = ",".join(cells)
        while cells and not cells[-1]:
            cells.pop()
        if match := re.match(r"CPU (name|type):,(.*?),*$", line):
            _name_cpu(output, match[1], match[2])
        elif match := _CSV_TITLE.match(line):
            title, header = (match["region"], int(match["number"]), match["group"]), []
        elif line.startswith("STRUCT,"):
            title = None
        elif title is not None and cells:
            if cells[0] in ("Region Info", "Event", "Metric"):
                header = cells
            elif header:
                cells += [""] * (len(header) - len(cells))
                _fill(output, title, header, cells)
    return output


def _name_cpu(output: Output, what: str, value: str) -> None:
    attribute = f"cpu_{what}"
    before = getattr(output, attribute)
    if before and before != value.strip():
        raise Contradiction(
            f"the CPU {what} of {output.path} is said in two ways that disagree: {before} and "
            f"{value.strip()}; import the output of one machine at a time"
        )
    setattr(output, attribute, value.strip())


def _fill(
    output: Output, title: tuple[str | None, int, str], header: Sequence[str], cells: Sequence[str]
) -> None:
    """Put a row of a table into its block."""
    if len(cells) != len(header):
        raise BadInput(
            f"{output.path}: the row {cells[0]!r} has {len(cells)} cells under {len(header)} headings; "
            "expected as many"
        )
    first = 2 if header[0] == "Event" else 1
    columns = tuple(header[first:])
    if "Sum" in columns:
        if header[0] == "Event":
            key = (*title, f"{cells[0].removesuffix(' STAT')}:{cells[1]}")
            output.sums[key] = cells[first + columns.index("Sum")]
        return
    if not columns:
        raise BadInput(f"{output.path}: the table of {cells[0]!r} has no column with values")
    for column in columns:
        if not _COLUMN.match(column):
            raise BadInput(
                f"{output.path}: found the column {column!r}; expected HWThread 0, GPU 0 and so on"
            )
    block = next(
        (
            one
            for one in output.blocks
            if (one.region, one.number, one.group, one.columns) == (*title, columns)
        ),
        None,
    )
    if block is None:
        block = Block(*title, columns)
        output.blocks.append(block)
    values = tuple(cells[first:])
    if header[0] == "Event":
        _put(block.events, (cells[0], cells[1]), values, block)
    elif header[0] == "Metric":
        _put(block.metrics, cells[0], values, block)
    else:
        _put(block.info, cells[0], values, block)


def _put(rows: dict[K, tuple[str, ...]], key: K, values: tuple[str, ...], block: Block) -> None:
    before = rows.setdefault(key, values)
    if before != values:
        name = key if isinstance(key, str) else ":".join(map(str, key if isinstance(key, tuple) else (key,)))
        raise Contradiction(
            f"{name} of {block.whose} is said in two ways that disagree: {', '.join(before)} and "
            f"{', '.join(values)}; import one run at a time"
        )


def _said(text: str, where: str) -> Said | None:
    """Return a cell's number; ``None`` if it says that there is none."""
    if text.strip().lower() in _NOTHING:
        return None
    found = number(text, where)
    if found is None or found.value < 0:
        raise BadInput(f"found {text!r} for {where}; expected a number that is not negative")
    return found


def _check_sums(output: Output) -> None:
    """Refuse a file whose sums over threads are not those of its threads."""
    for block in output.blocks:
        for (event, counter), cells in block.events.items():
            printed = output.sums.get((block.region, block.number, block.group, f"{event}:{counter}"))
            where = f"{event} of {block.whose}"
            parts = [said for cell in cells if (said := _said(cell, where)) is not None]
            if printed is not None and parts:
                whole = total(parts, "the threads")
                agreed(f"{event} of {block.whose}", [whole, _said(printed, "the sum over threads")])


def _kernels(blocks: Sequence[Block], path: Path, options: Options) -> Iterator[Kernel]:
    regions = dict.fromkeys(block.region for block in blocks)
    for region in regions:
        own = [_facts(block) for block in blocks if block.region == region]
        counting = _counting(own)
        first = counting[0] if counting else own[0]
        counts: dict[str, Count] = {"flops": _summed(counting) if counting else first.flops}
        for one in own:
            for quantity, found in one.counts.items():
                if quantity not in counts or (counts[quantity].value is None and found.value is not None):
                    counts[quantity] = found
        names = [one.block.group for one in own]
        notes = [f"groups: {', '.join(names)}", "FLOP convention: hardware", *first.notes]
        if len(own) > 1:
            whose = " and ".join(one.block.group for one in counting) or "none"
            notes.append(
                f"the groups were measured one after the other; FLOPs are of {whose}, time of "
                f"{first.block.group}"
            )
        timed = first if first.seconds is not None else next((one for one in own if one.seconds), first)
        seconds = timed.seconds
        yield Kernel(
            name=region or options.name or path.stem,
            counter=COUNTER,
            library=path.name,
            seconds=(float(seconds.value),) if seconds is not None and seconds.value > 0 else (),
            threads=1 if _on_gpu(first.block) else first.threads,
            precision=first.found.precision if len(counting) < 2 else None,
            counts=counts,
            flops_by=tuple(
                replace(kind, flops=round(kind.flops / one.calls))
                for one in counting
                for kind in one.found.by
            ),
            notes=tuple(dict.fromkeys(notes)),
        )


def _counting(own: Sequence[_Facts]) -> list[_Facts]:
    """Return the groups whose FLOPs together are those of the region: each precision once."""
    chosen: list[_Facts] = []
    for one in own:
        before = {precision for other in chosen for precision in other.found.precisions}
        known = set(one.found.precisions)
        everything = "any" in before or (chosen and ("any" in known or not known or not before))
        if one.flops.value is not None and not everything and not known & before:
            chosen.append(one)
    return chosen


def _summed(groups: Sequence[_Facts]) -> Count:
    """Return the FLOPs of groups that count different precisions."""
    if len(groups) == 1:
        return groups[0].flops
    precisions = [precision for one in groups for precision in one.found.precisions]
    value = sum(one.flops.value for one in groups if one.flops.value is not None)
    source = " + ".join(one.flops.source for one in groups)
    return Count(
        value,
        "imported",
        source,
        f"{' and '.join(precisions)} only; the file has no events of other precisions",
    )


@dataclass(frozen=True)
class _Facts:
    """What one block says of one call."""

    block: Block
    found: events.Flops
    flops: Count
    counts: Mapping[str, Count]
    seconds: Said | None
    threads: int
    calls: int
    notes: tuple[str, ...]


def _facts(block: Block) -> _Facts:
    number_of = len(block.columns)
    calls, notes = _calls(block)
    times = [_runtime(block, column) for column in range(number_of)]
    known = [one for one in times if one is not None]
    seconds = max(known, key=lambda one: one.value, default=None)
    columns = [_column(block, column) for column in range(number_of)]
    own = {events.key(event) for event, counter in block.events if counter.startswith(_OWN_COUNTERS)}
    entered = [calls is None or calls.value > 0 for calls in _info(block, _CALLS)]
    whole: dict[str, Said | None] = {}
    for name in columns[0]:
        parts = [one.get(name) for one in columns]
        lost = any(part is None and there for part, there in zip(parts, entered, strict=True))
        # of a socket's counters one thread has the number and the others may have none
        whole[name] = None if lost and name in own else _total(name, parts)
    found = events.flops(whole, block.whose)
    said = agreed(f"FLOPs of {block.whose}", [found.said, *_rated(block, columns, times)], slack=_SLACK)
    reason = found.reason
    if found.said is None and said is not None:
        reason = f"of a rate as printed; {found.reason}"
    per = 1 / calls
    flops = count(said.times(per) if said is not None else None, COUNTER, reason)
    counts = {}
    for name, one in whole.items():
        quantity = events.counted_as(name)
        if quantity is not None and quantity not in counts:
            counts[quantity] = count(one.times(per) if one is not None else None, COUNTER, "not counted")
    counts = {name: _plain(one) for name, one in counts.items()}
    for quantity, one in _volumes(block, whole, times):
        counts[quantity] = count(one.times(per), COUNTER, None)
    if "dram_bytes" in counts and {"dram_read_bytes", "dram_write_bytes"} <= set(counts):
        del counts["dram_bytes"]
    elif "dram_bytes" in counts:
        for quantity in ("dram_read_bytes", "dram_write_bytes"):
            counts.setdefault(quantity, unavailable(COUNTER, "reads and writes are counted together only"))
    active = sum(1 for one in _info(block, _CALLS) if one is None or one.value > 0) or number_of
    return _Facts(
        block, found, flops, counts, seconds.times(per) if seconds else None, active, calls, tuple(notes)
    )


def _plain(one: Count) -> Count:
    """Return a count without the reason that is for a missing one."""
    return one if one.value is None else Count(one.value, one.status, one.source)


def _info(block: Block, name: str) -> list[Said | None]:
    cells = block.info.get(name, ("",) * len(block.columns))
    return [_said(cell, f"{name} of {block.whose}") for cell in cells]


def _calls(block: Block) -> tuple[int, list[str]]:
    """Return by how many calls to divide, and what must be known of it."""
    found = {int(one.value) for one in _info(block, _CALLS) if one is not None and one.value > 0}
    if not found:
        return 1, ["one call is the whole measurement"]
    if len(found) > 1:
        listed = ", ".join(map(str, sorted(found)))
        return 1, [f"the threads called the region {listed} times: one call is all of them together"]
    (calls,) = found
    return calls, [f"mean of {calls} calls"] if calls > 1 else []


def _runtime(block: Block, column: int) -> Said | None:
    info = _info(block, _RUNTIME)[column]
    metric = block.metrics.get(_METRIC_RUNTIME)
    printed = _said(metric[column], f"{_METRIC_RUNTIME}") if metric else None
    whose = f"the time of {block.whose} on {block.columns[column]}"
    return agreed(whose, [info, printed], slack=_SLACK)


def _column(block: Block, column: int) -> dict[str, Said | None]:
    """Return the events of one thread by their keys, each summed over the counters that counted it."""
    found: dict[str, Said | None] = {}
    for (event, _), cells in block.events.items():
        said = _said(cells[column], f"{event} of {block.whose}")
        name = events.key(event)
        before = found.get(name)
        if name in found and before is not None and said is not None:
            said = total([before, said], event)
        found[name] = said if said is not None else before
    return found


def _total(name: str, parts: Sequence[Said | None]) -> Said | None:
    known = [one for one in parts if one is not None]
    return total(known, known[0].where.partition(" of ")[0]) if known else None


def _rated(
    block: Block, columns: Sequence[Mapping[str, Said | None]], times: Sequence[Said | None]
) -> list[Said]:
    """Return the FLOPs that the printed rates make, if all precisions of the events have one.

    Rates of two precisions are not added up where the events tell none apart: both are then the same events.
    """
    found = []
    for tag, precision in _RATES:
        cells = next(
            (v for k, v in block.metrics.items() if re.fullmatch(rf"{tag} \[?MFLOP/s\]?( \(.*\))?", k)), None
        )
        if cells is None:
            continue
        parts = []
        for cell, seconds in zip(cells, times, strict=True):
            rate = _said(cell, f"{tag} MFLOP/s times runtime")
            if rate is None or seconds is None:
                break
            parts.append(product(rate.times(1e6), seconds, rate.where))
        else:
            found.append((precision, total(parts, f"{tag} MFLOP/s times runtime")))
    if len(found) != 1:
        return []
    precision, said = found[0]
    of_events = [events.flops(one, block.whose).precision for one in columns]
    return [said] if all(one in (None, precision) for one in of_events) else []


def _volumes(
    block: Block, whole: Mapping[str, Said | None], times: Sequence[Said | None]
) -> Iterator[tuple[str, Said]]:
    """Give the bytes that events, volumes and bandwidths say, each quantity once."""
    ways: dict[str, list[Said]] = {}
    for name, said in whole.items():
        known = events.bytes_event(name)
        if known is not None and said is not None:
            quantity = {"read": "dram_read_bytes", "write": "dram_write_bytes", "both": "dram_bytes"}[
                known[0]
            ]
            ways.setdefault(quantity, []).append(said.times(known[1]))
    for quantity, volume, bandwidth in _VOLUMES:
        found: list[Said] = []
        if quantity in ways:
            found.append(total(ways[quantity], "events of the memory controllers"))
        if (cells := block.metrics.get(f"{volume} [GBytes]")) is not None:
            parts = [one for cell in cells if (one := _said(cell, volume)) is not None]
            found += [total(parts, volume).times(_GBYTES)] if parts else []
        cells = block.metrics.get(f"{bandwidth} [MBytes/s]")
        if not found and cells is not None and None not in times:
            rates = [_said(cell, bandwidth) for cell in cells]
            parts = [
                product(rate.times(1e6), seconds, f"{bandwidth} times runtime")
                for rate, seconds in zip(rates, times, strict=True)
                if rate is not None and seconds is not None
            ]
            found += [total(parts, f"{bandwidth} times runtime")] if parts else []
        one = agreed(f"{volume} of {block.whose}", found, slack=_SLACK)
        if one is not None:
            yield quantity, one
