"""``perf stat``: text, CSV (``-x``) and JSON (``-j``) to one result, that of the whole program.

Forms: Linux tools/perf/util/stat-display.c.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import units
from ..count.base import Count, unavailable
from ..errors import BadInput
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
    result,
    results,
    scaled_note,
    shown,
    total,
)

COUNTER = "perf stat"

_UNCOUNTED = re.compile(r"<not (counted|supported)>")
_MODIFIERS = re.compile(r":[ukhGHpPSDeWIb]+$")
_PMU = re.compile(r"^(?P<pmu>[A-Za-z]\w*)/(?P<inside>[^/]*)/(?P<modifiers>[A-Za-z]*)$")
_UNITS = {"": 1.0, "Bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_TIMES = {"msec": 1e-3, "ns": 1e-9, "sec": 1.0, "usec": 1e-6}
_CORES = ("cpu_core", "cpu_atom")
_HEADER = re.compile(r"Performance counter stats for (?P<what>.*?)(?: \((?P<runs>\d+) runs\))?:$")
_ELAPSED = re.compile(r"^\s*(?P<value>[\d.,']+)\s*(?:\+-\s*[\d.,']+)?\s*seconds time elapsed")
_TEXT_ROW = re.compile(
    r"^\s*(?:(?P<interval>\d+\.\d{9})\s+)?(?:(?P<group>(?:S\d+\S*|D\d+|N\d+|CPU\d+))\s+(?:\d+\s+)?)?"
    r"(?P<value><not counted>|<not supported>|[\d.,']+)\s+"
    r"(?:(?P<unit>msec|ns|Bytes|KiB|MiB|GiB|Joules)\s+)?"
    r"(?P<event>[A-Za-z][^\s#]*(?:/[^/]*/\w*)?)"
    r"(?:\s+#\s*(?P<metric>[\d.,]+|nan)?\s*(?P<metric_unit>[^(]*?))?"
    r"\s*(?:\(\s*\+-[^)]*\))?\s*(?:\((?P<running>[\d.]+)%\))?\s*$"
)
_COMMA_TEXT = re.compile(
    r"^[ \t]*(?:\d+,\d{4,}\s+(?:\+-\s*[\d.,]+\s+)?seconds time elapsed|\d+,\d{9}\s)", re.MULTILINE
)
"""What tells a text of a language with a decimal comma: a time, which has more than three decimals."""
_COMMA_CSV = re.compile(r"^\d+,\d\d$")
_COMMA_JSON = re.compile(r'("[\w-]+"\s*:\s*(?:"-?\d+(?=,\d{6}")|\d+)),(\d+"?\s*[,}])')
"""A number in the user's language; those between quotes have six decimals."""
_NUMBER = re.compile(r"(?<![\w.,=/:'-])\d[\d.,]*(?![\w/])")
_WITH_COMMA = re.compile(r"(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?")
_PREFIX = re.compile(r"[A-Za-z(_].*|\s*\d+\.\d+")


@dataclass(frozen=True)
class Row:
    """One count: its event, value (``None``: not counted), unit, share of time counted, and its metric.

    ``part`` is the processor, core or interval it is of, where there are several.
    """

    event: str
    value: Said | None
    unit: str = ""
    running: float = 1.0
    metric: Said | None = None
    metric_unit: str = ""
    part: str = ""
    why: str = ""


@dataclass(frozen=True)
class Stats:
    """A file as it stands: its rows, and of a text its command and the seconds it took."""

    rows: tuple[Row, ...]
    command: str = ""
    elapsed: Said | None = None
    runs: int = 1
    interval: Said | None = None
    repeated: bool = False
    """Whether the numbers are means of several runs (``-r``)."""


def recognises(text: str) -> bool:
    """Return whether a text looks like the output of ``perf stat``."""
    if _COMMA_TEXT.search(text):
        return True
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if any(_HEADER.search(line) or _in_intervals(line) for line in lines[:50]):
        return True
    if any('"counter-value"' in line and line.lstrip().startswith("{") for line in lines[:50]):
        return True
    return bool(lines) and _separator(lines) is not None


def read(text: str, path: Path, options: Options) -> list[Results]:
    """Return the one run that a file of ``perf stat`` is."""
    text = re.sub(r"(?<=\d)[\u00a0\u202f](?=\d{3})", "", text)  # what separates thousands in some languages
    if _COMMA_TEXT.search(text):
        text = _with_points(text, path)
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any(_HEADER.search(line) or _in_intervals(line) for line in lines):
        stats = _read_text(lines, path)
    elif any(line.lstrip().startswith("{") for line in lines):
        stats = _read_json(lines, path)
    else:
        stats = _read_csv(lines, path)
    if not stats.rows:
        raise BadInput(f"{path} has no counts; expected the output of perf stat")
    kernel = _kernel(stats, path, options)
    described = machine(f"machine of {path.name}", "unknown", notes=("the file does not name the processor",))
    return [results(described, [result(kernel, ())], path)]


def _with_points(text: str, path: Path) -> str:
    """Return a text of a language with a decimal comma, and points between thousands, as C has it."""

    def plain(match: re.Match[str]) -> str:
        if not _WITH_COMMA.fullmatch(match[0]):
            raise BadInput(
                f"{path}: found {match[0]!r} where times have a decimal comma; export it again with LC_ALL=C"
            )
        return match[0].replace(".", "").replace(",", ".")

    return "\n".join(line if _HEADER.search(line) else _NUMBER.sub(plain, line) for line in text.splitlines())


def _read_json(lines: Sequence[str], path: Path) -> Stats:
    rows = []
    interval, repeated = None, False
    for entry in _entries(lines, path):
        event = entry.get("event")
        if event is None:  # a metric without a counter
            continue
        where = str(event)
        part = " ".join(
            str(entry[name])
            for name in (
                "interval",
                "cpu",
                "core",
                "die",
                "cache",
                "cluster",
                "socket",
                "node",
                "thread",
                "cgroup",
            )
            if name in entry
        )
        if "interval" in entry:
            interval = number(str(entry["interval"]), "interval")
        value, why = _value(str(entry.get("counter-value", "")), where, path)
        metric = number(str(entry.get("metric-value", "")), f"{where}'s metric")
        running = _running(entry.get("pcnt-running", 100.0), where, path)
        unit, metric_unit = str(entry.get("unit", "")), str(entry.get("metric-unit", ""))
        rows.append(Row(str(event), value, unit, running, metric, metric_unit, part, why))
        repeated = repeated or "variance" in entry
    return Stats(tuple(rows), interval=interval, repeated=repeated)


def _entries(lines: Sequence[str], path: Path) -> Iterator[dict[str, Any]]:
    """Give the objects of JSON lines; perf has put several on a line."""
    decoder = json.JSONDecoder()
    for number_, line in enumerate(lines, 1):
        rest = _COMMA_JSON.sub(r"\1.\2", line.strip())  # perf writes decimals in the user's language
        while rest:
            try:
                entry, end = decoder.raw_decode(rest)
            except ValueError as error:
                raise BadInput(
                    f"{path}, entry {number_}: not JSON: {error}; expected a line of perf stat -j"
                ) from None
            if not isinstance(entry, dict):
                raise BadInput(
                    f"{path}, entry {number_}: found {rest[:60]!r}; expected an object of perf stat -j"
                )
            yield entry
            rest = rest[end:].strip()


def _value(text: str, where: str, path: Path) -> tuple[Said | None, str]:
    match = _UNCOUNTED.search(text)
    if match:
        return None, match[0].strip("<>")
    said = number(text.replace("'", ""), where)
    if said is None:
        raise BadInput(f"{path}: {where} has the value {text!r}; expected a number")
    if said.value < 0:
        raise BadInput(f"{path}: {where} has the value {text!r}; expected a number that is not negative")
    return said, ""


def _running(text: object, where: str, path: Path) -> float:
    said = number(str(text), where)
    if said is None or not 0 <= said.value <= 101:
        raise BadInput(f"{path}: {where} was counted {text} % of the time; expected 0 to 100")
    return min(said.value / 100, 1.0)


def _separator(lines: Sequence[str]) -> str | None:
    """Return what stands between the fields of CSV lines, or ``None`` if they are none."""
    for separator in (",", ";", "|", "\t", ":"):
        if any(_csv_row(_fields(line, separator)) is not None for line in lines[:200]):
            return separator
    return None


def _fields(line: str, separator: str) -> list[str]:
    """Return the fields of a line; decimals in the user's language get their point back."""
    fields = line.split(separator)
    if separator != "," and any(_COMMA_CSV.match(field) for field in fields):
        return [re.sub(r"^(\s*\d+),(\d+\s*)$", r"\1.\2", field) for field in fields]
    return fields


def _csv_row(fields: Sequence[str]) -> tuple[int, int] | None:
    """Return where the value and the share of time stand among the fields; ``None`` if it is no count."""
    if len(fields) < 5:
        return None
    for at in range(min(5, len(fields) - 4)):
        value, unit, event = (field.strip() for field in fields[at : at + 3])
        is_value = number(value, "") is not None or _UNCOUNTED.fullmatch(value)
        if (
            not is_value
            or not re.match(r"^[A-Za-z]", event)
            or (unit and not re.match(r"^[A-Za-z%/]+$", unit))
        ):
            continue
        if at and not _PREFIX.fullmatch(fields[0]):
            continue  # a number with a decimal comma, whose end looks like the value
        for shift in (3, 4):  # with -r the spread stands between
            if at + shift + 1 < len(fields):
                runtime, share = fields[at + shift].strip(), fields[at + shift + 1].strip()
                if re.fullmatch(r"\d+", runtime) and re.fullmatch(r"\d+\.\d+", share):
                    return at, at + shift + 1
    return None


def _read_csv(lines: Sequence[str], path: Path) -> Stats:
    separator = _separator(lines)
    if separator is None:
        raise BadInput(f"{path} has no line of perf stat -x; expected value, unit, event, time, share")
    rows = []
    interval, repeated = None, False
    for line in lines:
        fields = _fields(line, separator)
        found = _csv_row(fields)
        if found is None:
            continue  # a metric without a counter
        at, share = found
        repeated = repeated or share - at == 5
        event = fields[at + 2].strip()
        value, why = _value(fields[at].strip(), event, path)
        part = " ".join(field.strip() for field in fields[:at])
        if at and (time := number(fields[0], "interval")) is not None:
            interval = time
        metric = number(fields[share + 1], f"{event}'s metric") if share + 1 < len(fields) else None
        metric_unit = fields[share + 2].strip() if share + 2 < len(fields) else ""
        running = _running(fields[share], event, path)
        rows.append(Row(event, value, fields[at + 1].strip(), running, metric, metric_unit, part, why))
    return Stats(tuple(rows), interval=interval, repeated=repeated)


def _in_intervals(line: str) -> bool:
    """Return whether a line is a row of the text that ``-I`` prints."""
    match = _TEXT_ROW.match(line)
    return match is not None and match["interval"] is not None


def _read_text(lines: Sequence[str], path: Path) -> Stats:
    headers = [match for line in lines if (match := _HEADER.search(line))]
    if len(headers) > 1:
        raise BadInput(f"{path} has {len(headers)} outputs of perf stat; import one at a time")
    command = headers[0]["what"].strip("'") if headers else ""
    start = next((i + 1 for i, line in enumerate(lines) if _HEADER.search(line)), 0)
    rows, elapsed, interval = [], [], None
    for line in lines[start:]:
        if match := _ELAPSED.match(line):
            said = number(match["value"].replace("'", ""), "seconds time elapsed")
            if said is None:
                raise BadInput(f"{path}: found {line.strip()!r}; expected seconds with a decimal point")
            elapsed.append(said)
        elif match := _TEXT_ROW.match(line):
            event = match["event"]
            if event in ("seconds", "percent"):
                continue
            value, why = _value(match["value"], event, path)
            metric = number(match["metric"] or "", f"{event}'s metric")
            running = _running(match["running"] or 100, event, path)
            metric_unit = (match["metric_unit"] or "").strip()
            part = " ".join(filter(None, (match["interval"], match["group"])))
            interval = number(match["interval"], "interval") if match["interval"] else interval
            rows.append(Row(event, value, match["unit"] or "", running, metric, metric_unit, part, why))
    runs = int(headers[0]["runs"] or 1) if headers else 1
    took = agreed(f"the time of {command}", elapsed, slack=0)
    return Stats(tuple(rows), command, took, runs, interval, repeated=runs > 1)


def _kernel(stats: Stats, path: Path, options: Options) -> Kernel:
    whose = options.name or stats.command or path.stem
    counts = _whole(_counts(stats.rows, whose), stats.rows)
    found = {name: one.said for name, one in counts.items()}
    flops = events.flops(found, whose)
    reads, writes, both = _dram(stats.rows, counts)
    made = {"dram_read_bytes": reads, "dram_write_bytes": writes}
    if both is not None:
        made["dram_bytes"] = both
    for quantity in ("instructions", "cycles"):
        said = [one for one in counts.values() if events.counted_as(one.name) == quantity]
        if said:
            made[quantity] = count(said[0].said, COUNTER, said[0].remark)
    flop_names = [one.remark for name, one in counts.items() if name in _flop_keys() and one.remark]
    reason = "; ".join(dict.fromkeys([*([flops.reason] if flops.reason else []), *flop_names])) or None
    made["flops"] = count(flops.said, COUNTER, reason)
    seconds = _seconds(stats, whose)
    return Kernel(
        name=whose,
        counter=COUNTER,
        library=stats.command or path.name,
        seconds=(float(seconds.value),) if seconds is not None else (),
        threads=options.threads or 1,
        precision=flops.precision,
        counts=made,
        flops_by=flops.by,
        notes=tuple(_notes(stats, options)),
    )


@dataclass(frozen=True)
class _Sum:
    """One event over all PMUs, processors and intervals."""

    name: str
    said: Said | None
    remark: str | None


def _counts(rows: Sequence[Row], whose: str) -> dict[str, _Sum]:
    """Return the sum of each event by its key."""
    once: dict[tuple[str, str], Row] = {}
    for row in rows:
        before = once.setdefault((row.event, row.part), row)
        if before.value != row.value:
            texts = [one.why if one.value is None else shown(one.value.value) for one in (before, row)]
            raise Contradiction(
                f"{row.event} of {whose} is said in two ways that disagree: {texts[0]} and {texts[1]}; "
                "export it again from one run"
            )
    sums: dict[str, list[Row]] = {}
    for row in once.values():
        sums.setdefault(events.key(_name(row.event)), []).append(row)
    return {name: _sum(found) for name, found in sums.items()}


def _whole(counts: Mapping[str, _Sum], rows: Sequence[Row]) -> dict[str, _Sum]:
    """Return the counts without those that a hybrid processor's file has of one kind of core alone."""
    cores = {pmu for row in rows if (pmu := _pmu(row.event)) in _CORES}
    if len(cores) < 2:
        return dict(counts)
    made = {}
    for name, one in counts.items():
        there = {
            pmu for row in rows if events.key(_name(row.event)) == name and (pmu := _pmu(row.event)) in cores
        }
        if there and there != cores and one.said is not None and events.counted_as(one.name) is not None:
            (alone,) = there
            reason = (
                f"{shown(one.said.value)} on {alone}, but the file has none of {', '.join(cores - there)}"
            )
            one = _Sum(one.name, None, reason)
        made[name] = one
    return made


def _sum(rows: Sequence[Row]) -> _Sum:
    name = _name(rows[0].event)
    lost = [row for row in rows if row.value is None]
    if lost:
        return _Sum(name, None, f"{lost[0].event}: {lost[0].why}")
    pmus = sorted({pmu for row in rows if (pmu := _pmu(row.event))})
    remarks = []
    shares = [row.running for row in rows if row.running < 1]
    if shares:
        hybrid = ", too high where the program ran on the other cores" if set(pmus) & set(_CORES) else ""
        remarks.append(scaled_note(min(shares)) + hybrid)
    if len(pmus) > 1:
        remarks.append(f"sum over {', '.join(pmus) if len(pmus) <= 4 else f'{len(pmus)} PMUs'}")
    if all(_user_only(row.event) for row in rows):
        remarks.append("user mode only")
    parts = [row.value.times(_UNITS.get(row.unit, 1.0)) for row in rows if row.value is not None]
    whole = parts[0] if len(parts) == 1 else total(parts, name)
    return _Sum(name, replace(whole, where=name), "; ".join(remarks) or None)


def _name(event: str) -> str:
    """Return the event's own name, without PMU and modifiers."""
    match = _PMU.match(event)
    if match is None:
        return _MODIFIERS.sub("", event)
    named = re.search(r"(?:^|,)name=([^,]+)", match["inside"])
    return named[1] if named else match["inside"] or match["pmu"]


def _pmu(event: str) -> str:
    match = _PMU.match(event)
    return match["pmu"] if match else ""


def _user_only(event: str) -> bool:
    match = _PMU.match(event)
    modifiers = match["modifiers"] if match else (_MODIFIERS.search(event) or [""])[0]
    return "u" in modifiers and "k" not in modifiers


def _flop_keys() -> set[str]:
    return {events.key(name) for one in events.flop_sets() for event in one.events for name in event.names}


def _dram(rows: Sequence[Row], counts: Mapping[str, _Sum]) -> tuple[Count, Count, Count | None]:
    """Return bytes read and written, and both together where the file does not tell them apart."""
    sized = {events.key(_name(row.event)) for row in rows if row.unit in _UNITS and row.unit}
    found: dict[str, list[_Sum]] = {}
    for name, one in counts.items():
        known = events.bytes_event(one.name)
        if known is None:
            continue
        direction, size = known
        said = one.said if one.said is None or name in sized else one.said.times(size)
        found.setdefault(direction, []).append(_Sum(one.name, said, one.remark))
    remark = "of the whole machine: memory controllers count what all programs move"
    made = {way: _bytes(found.get(way, []), remark) for way in ("read", "write")}
    if "both" in found and "read" not in found and "write" not in found:
        apart = unavailable(COUNTER, "reads and writes are counted together only")
        return apart, apart, _bytes(found["both"], remark)
    return made["read"], made["write"], None


def _bytes(parts: Sequence[_Sum], remark: str) -> Count:
    if not parts:
        return unavailable(COUNTER, "the file has no events of the memory controllers")
    lost = [one.remark for one in parts if one.said is None]
    if lost:
        return unavailable(COUNTER, f"not counted: {'; '.join(filter(None, lost))}")
    said = total([one.said for one in parts if one.said is not None], ", ".join(one.name for one in parts))
    remarks = dict.fromkeys(part for one in parts if one.remark for part in (one.remark,))
    return count(said, COUNTER, "; ".join([remark, *remarks]))


def _seconds(stats: Stats, whose: str) -> Said | None:
    """Return the seconds that passed: as printed, by an event, or from the share of processors used."""
    said = [stats.elapsed, stats.interval]
    derived: list[Said | None] = []
    for row in stats.rows:
        name = _name(row.event)
        if row.value is None or stats.interval is not None:
            continue
        if name == "duration_time":
            said.append(row.value.times(_TIMES.get(row.unit, 1e-9), "duration_time"))
        if row.part:
            continue
        if (
            name in ("task-clock", "cpu-clock")
            and row.metric_unit == "CPUs utilized"
            and row.metric is not None
        ):
            used, clock = row.metric, row.value.times(_TIMES.get(row.unit, 1e-3))
            if used.value > 10 * used.error and clock.value > 0:
                seconds = clock.value / used.value
                error = seconds * (used.error / used.value + clock.error / clock.value)
                derived.append(Said(seconds, error, f"{name} over processors used"))
    if stats.repeated:  # perf's means over runs are not taken alike: the first is the best
        return next((one for one in (*said, *derived) if one is not None), None)
    return agreed(f"the time of {whose}", [*said, *derived], slack=2e-3)


def _notes(stats: Stats, options: Options) -> Iterator[str]:
    yield "one call is the whole run of the program, start and end included"
    yield "FLOP convention: hardware"
    if stats.repeated:
        yield f"means of {stats.runs} runs" if stats.runs > 1 else "means of several runs"
    if options.threads is None:
        used = next((r.metric for r in stats.rows if r.metric_unit == "CPUs utilized" and r.metric), None)
        words = f" ({units.significant(float(used.value))} processors were busy)" if used is not None else ""
        yield f"the file does not say the number of threads{words}: taken as 1"
    names = {_name(row.event) for row in stats.rows}
    unused = sorted(
        name
        for name in names
        if events.key(name) not in _flop_keys()
        and events.bytes_event(name) is None
        and events.counted_as(name) is None
        and name not in ("task-clock", "cpu-clock", "duration_time")
    )
    if unused:
        more = f" and {len(unused) - 8} more" if len(unused) > 8 else ""
        yield f"not imported: {', '.join(unused[:8])}{more}"
