"""Nsight Compute: ``ncu --csv``, a row a metric, and ``--page raw``, a row a launch, to one result a launch.

FLOPs are those of the roofline sections that come with it (SpeedOfLight_RooflineChart.section): thread
instructions executed with their predicates on, a fused multiply-add twice. Peaks are what the unit can
sustain a cycle times the cycles a second of that launch; they are not measured roofs.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..count.base import Count, unavailable
from ..errors import BadInput
from ..machine.model import NOT_MEASURED, Ceiling
from ..results import KernelResult, Results
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
)

COUNTER = "ncu"

_LONG = ("Metric Name", "Metric Unit", "Metric Value")
_FIXED = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
    *(
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Section Name",
        "Rule Name",
        "Rule Type",
        "Rule Description",
    ),
    *("Estimated Speedup Type", "Estimated Speedup", *_LONG),
)
_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BASES = {
    **dict.fromkeys(("byte", "B"), 1.0),
    **dict.fromkeys(("second", "s"), 1.0),
    **dict.fromkeys(("hz", "Hz"), 1.0),
    **dict.fromkeys(("cycle", "inst", "sector", "warp", "thread", "request", "block", "register"), 1.0),
    "%": 1.0,
}
_NOTHING = ("", "n/a", "nan", "inf", "-nan", "-inf", "no data")
_TIME = "gpu__time_duration.sum"
_NAME = "device__attribute_display_name"
_LANES = {"f": "f32", "d": "f64", "h": "f16"}
_SLACK = 5e-3
"""Counters of one launch are collected in several passes, which differ a little."""


@dataclass
class Launch:
    """One launch of a kernel: its names, and its metrics in base units."""

    ident: str
    kernel: str
    block: str = ""
    grid: str = ""
    device: str = ""
    capability: str = ""
    process: str = ""
    metrics: dict[str, Said] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def recognises(text: str) -> bool:
    """Return whether a text looks like a CSV of Nsight Compute."""
    return _header(text.splitlines()) is not None


def read(text: str, path: Path, options: Options) -> list[Results]:
    """Return the launches in a file, one run for each device."""
    launches = list(_launches(text.splitlines(), path))
    if not launches:
        raise BadInput(f"{path} has no launch of a kernel; expected a CSV of Nsight Compute")
    made = []
    for device in dict.fromkeys(launch.device for launch in launches):
        own = [launch for launch in launches if launch.device == device]
        roofs: dict[str, Ceiling] = {}
        kernels: list[KernelResult] = []
        for launch in own:
            ceilings = list(_ceilings(launch))
            kernels.append(result(_kernel(launch, path), ceilings))
            for one in ceilings:
                roofs[one.name] = max(one, roofs.get(one.name, one), key=lambda roof: roof.value)
        notes = ["peaks are those of the highest clock; each kernel is held against its own"] if roofs else []
        described = machine(_device(own[0]), _device(own[0]), list(roofs.values()), notes)
        made.append(results(described, kernels, path))
    return made


def _device(launch: Launch) -> str:
    capability = f", compute capability {launch.capability}" if launch.capability else ""
    return f"{launch.texts.get(_NAME) or f'GPU {launch.device or 0}'}{capability}"


def _header(lines: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return where the header stands, and its fields: tools and programs write before it."""
    for index, line in enumerate(lines):
        if "Kernel Name" in line:
            fields = next(csv.reader([line.lstrip("\ufeff")]), [])
            if "ID" in fields and "Kernel Name" in fields:
                return index, fields
    return None


def _launches(lines: Sequence[str], path: Path) -> Iterator[Launch]:
    found = _header(lines)
    if found is None:
        raise BadInput(f"{path} has no line of headings with 'Kernel Name'; expected a CSV of Nsight Compute")
    start, header = found
    rows = []
    for row in csv.reader(lines[start + 1 :]):
        if len(row) == len(header):
            rows.append(row)
        elif len(row) > 1 and row[0].strip().isdigit():
            raise BadInput(
                f"{path}: found {len(row)} fields in {','.join(row)[:60]!r}; expected {len(header)}, as the "
                "headings; is the file whole?"
            )
    if _header(lines[start + 1 :]) is not None:
        raise BadInput(f"{path} holds several tables; import one output of Nsight Compute at a time")
    absent = [name for name in _LONG if name not in header]
    if 0 < len(absent) < len(_LONG):
        raise BadInput(f"{path} has no column {absent[0]!r}; expected all of {', '.join(_LONG)}")
    entries = [dict(zip(header, row, strict=True)) for row in rows]
    yield from _long(entries, path) if _LONG[0] in header else _raw(header, entries, path)


def _long(entries: Sequence[Mapping[str, str]], path: Path) -> Iterator[Launch]:
    launches: dict[tuple[str, str], Launch] = {}
    for entry in entries:
        if not entry["ID"].strip().isdigit():
            continue
        key = (entry.get("Process ID", ""), entry["ID"])
        launch = launches.setdefault(key, _named(entry))
        if launch.kernel != entry["Kernel Name"]:
            raise Contradiction(
                f"launch {launch.ident} of {path} is said in two ways that disagree: {launch.kernel} and "
                f"{entry['Kernel Name']}; export one session at a time"
            )
        name = entry[_LONG[0]].strip()
        if "__" not in name:  # a label of the details page, where sections have different numbers of one name
            name = _label(name, entry[_LONG[1]])
        if name:
            _put(launch, name, entry[_LONG[1]], entry[_LONG[2]], path)
    yield from launches.values()


def _label(name: str, unit: str) -> str:
    """Return the metric that a label of the details page stands for, of those that are used; else nothing.

    Labels: SpeedOfLight.section and MemoryWorkloadAnalysis.section, which come with Nsight Compute.
    """
    if name == "Duration":
        return _TIME
    if name == "Memory Throughput" and "byte/s" in unit.lower():
        return "dram__bytes.sum.per_second"
    return ""


def _raw(header: Sequence[str], entries: Sequence[Mapping[str, str]], path: Path) -> Iterator[Launch]:
    names = [name for name in header if name not in _FIXED]
    units = dict.fromkeys(names, "")
    for entry in entries:
        if not entry["ID"].strip():  # the row of units
            units = {name: entry[name] for name in names}
            continue
        if not entry["ID"].strip().isdigit():
            continue
        launch = _named(entry)
        for name in names:
            _put(launch, name, units[name], entry[name], path)
        yield launch


def _named(entry: Mapping[str, str]) -> Launch:
    return Launch(
        entry["ID"].strip(),
        entry["Kernel Name"],
        entry.get("Block Size", ""),
        entry.get("Grid Size", ""),
        entry.get("Device", ""),
        entry.get("CC", ""),
        entry.get("Process Name", ""),
    )


def _put(launch: Launch, name: str, unit: str, text: str, path: Path) -> None:
    """Keep a metric in base units; one that is no number as a text."""
    if text.strip().lower() in _NOTHING:
        return
    said = number(text, name)
    factor = _factor(unit) if unit.strip() or not _has_unit(name) else None
    if said is None or factor is None:
        if _wanted(name):
            raise BadInput(
                f"{path}: {name} of {launch.kernel} is {text!r} {unit!r}; expected a number such as 1,234.5 "
                "in a unit such as byte or nsecond"
            )
        launch.texts.setdefault(name, text)
        return
    said = said.times(factor) if factor != 1 else said
    before = launch.metrics.get(name)
    whose = f"{name} of {launch.kernel} (launch {launch.ident})"
    launch.metrics[name] = agreed(whose, [before, said], slack=1e-9) or said


def _wanted(name: str) -> bool:
    return name == _TIME or name.startswith("dram__bytes") or "_inst_executed_op_" in name


def _has_unit(name: str) -> bool:
    return name == _TIME or name.startswith("dram__bytes")


def _factor(unit: str) -> float | None:
    """Return what a unit stands for in base units: ``Mbyte/second`` is 1e6; ``None`` if it is unknown."""
    factors = []
    for part in unit.strip().split("/") if unit.strip() else []:
        base = next((b for b in sorted(_BASES, key=len, reverse=True) if part.endswith(b)), None)
        prefix = part.removesuffix(base) if base is not None else ""
        if base is None or prefix not in _PREFIXES:
            return None
        factors.append(_PREFIXES[prefix])
    return factors[0] / math.prod(factors[1:]) if factors else 1.0


def _kernel(launch: Launch, path: Path) -> Kernel:
    seconds = _seconds(launch)
    whole: dict[str, Said | None] = {}
    for one in events.flop_sets():
        for event in one.events:
            for name in event.names:
                if "__" in name and (said := _sum(launch, name, seconds)) is not None:
                    whole[events.key(name)] = said
    whose = f"{launch.kernel} (launch {launch.ident})"
    found = events.flops(whole, whose)
    reason = found.reason
    if found.said is None and not whole:
        reason = (
            "the file has no smsp__sass_thread_inst_executed_op_*_pred_on.sum; collect them with --metrics "
            "or --section SpeedOfLight_RooflineChart"
        )
    tensor = [
        name
        for name, said in launch.metrics.items()
        if "pipe_tensor" in name and "inst_executed" in name and said.value
    ]
    notes = ["FLOP convention: arith", f"launch {launch.ident} of {launch.process or 'the program'}"]
    if tensor:
        notes.append(f"tensor cores were used ({tensor[0]}); their FLOPs are not counted")
    counts = {"flops": count(found.said, COUNTER, reason), **_bytes(launch, seconds)}
    for quantity, metric in (("l1_l2_bytes", "lts__t_bytes.sum"), ("core_l1_bytes", "l1tex__t_bytes.sum")):
        if (moved := _sum(launch, metric, seconds)) is not None:
            counts[quantity] = count(moved, COUNTER, "all requests to that cache")
    if (said := launch.metrics.get("smsp__inst_executed.sum")) is not None:
        counts["instructions"] = count(said, COUNTER, "of warps")
    params = {name: size for name, size in _sizes(launch) if size is not None}
    return Kernel(
        name=launch.kernel,
        counter=COUNTER,
        library=launch.process or path.name,
        seconds=(float(seconds.value),) if seconds is not None else (),
        params=params,
        precision=found.precision,
        counts=counts,
        flops_by=found.by,
        notes=tuple(notes),
    )


def _seconds(launch: Launch) -> Said | None:
    """Return the duration; without it cycles over cycles a second, which are of other passes."""
    said = launch.metrics.get(_TIME)
    if said is not None:
        return said if said.value > 0 else None
    for unit in ("sm", "smsp", "gpc"):
        cycles = launch.metrics.get(f"{unit}__cycles_elapsed.avg") or launch.metrics.get(
            f"{unit}__cycles_elapsed.max"
        )
        clock = launch.metrics.get(f"{unit}__cycles_elapsed.avg.per_second")
        if cycles is not None and clock is not None and cycles.value > 0 and clock.value > 0:
            seconds = cycles.value / clock.value
            error = seconds * (cycles.error / cycles.value + clock.error / clock.value)
            return Said(seconds, error, f"{unit}__cycles_elapsed over its rate")
    return None


def _sizes(launch: Launch) -> Iterator[tuple[str, int | None]]:
    for name, text in (("blocks", launch.grid), ("threads_per_block", launch.block)):
        numbers = re.findall(r"\d+", text)
        yield name, math.prod(map(int, numbers)) if numbers else None


def _sum(launch: Launch, name: str, seconds: Said | None) -> Said | None:
    """Return a metric's sum, as it is or from its rate a cycle or a second."""
    said = [launch.metrics.get(name)]
    rate = launch.metrics.get(f"{name}.per_second")
    if rate is not None and seconds is not None:
        said.append(product(rate, seconds, f"{name}.per_second times the duration"))
    each = launch.metrics.get(f"{name}.per_cycle_elapsed")
    # in the roofline sections this is the rate of smsp__ metrics, but the peak of those of sm__
    twice = (
        launch.metrics.get(f"derived__{name.removesuffix('.sum')}_x2") if name.startswith("smsp__") else None
    )
    if each is None and twice is not None:
        each = twice.times(0.5, f"derived__{name.removesuffix('.sum')}_x2")
    clock = launch.metrics.get(f"{name.partition('__')[0]}__cycles_elapsed.avg.per_second")
    if each is not None and clock is not None and seconds is not None:
        cycles = product(clock, seconds, "cycles")
        said.append(product(each, cycles, f"{name}.per_cycle_elapsed times clock and duration"))
    return agreed(f"{name} of {launch.kernel} (launch {launch.ident})", said, slack=2e-2)


def _bytes(launch: Launch, seconds: Said | None) -> dict[str, Count]:
    """Return the DRAM bytes, by way where the file tells."""
    made: dict[str, Count] = {}
    ways: dict[str, Said | None] = {}
    whose = f"{launch.kernel} (launch {launch.ident})"
    for way in ("read", "write"):
        said = [_sum(launch, f"dram__bytes_{infix}{way}.sum", seconds) for infix in ("", "op_")]
        sectors = _sum(launch, f"dram__sectors_{way}.sum", seconds)
        said.append(sectors.times(32, f"dram__sectors_{way}.sum") if sectors is not None else None)
        ways[way] = agreed(f"DRAM {way} of {whose}", said, slack=_SLACK)
        reason = f"the file has no dram__bytes_{way}.sum"
        remark = "lines still dirty in L2 when the launch ended are not in it" if way == "write" else None
        made[f"dram_{way}_bytes"] = count(ways[way], COUNTER, reason if ways[way] is None else remark)
    both = _sum(launch, "dram__bytes.sum", seconds)
    read, write = ways["read"], ways["write"]
    if both is not None and read is not None and write is not None:
        parts = Said(read.value + write.value, read.error + write.error, "read and written")
        agreed(f"DRAM bytes of {whose}", [both, parts], slack=_SLACK)
    elif both is not None:
        apart = unavailable(COUNTER, "the file has reads and writes together only")
        for way in ("read", "write"):
            if ways[way] is None:
                made[f"dram_{way}_bytes"] = apart
        made["dram_bytes"] = count(both, COUNTER, None)
    return made


def _ceilings(launch: Launch) -> Iterator[Ceiling]:
    """Give the peaks of the roofline sections, as far as the file has them."""
    core = next(
        (
            float(said.value)
            for unit in ("sm", "smsp")
            if (said := launch.metrics.get(f"{unit}__cycles_elapsed.avg.per_second")) is not None
        ),
        None,
    )
    memory = launch.metrics.get("dram__bytes.sum.peak_sustained")
    clock = launch.metrics.get("dram__cycles_elapsed.avg.per_second")
    if memory is not None and clock is not None:
        yield _ceiling("DRAM peak", memory.value * clock.value, core, level="dram")
    for letter, precision in _LANES.items():
        for unit in ("sm", "smsp"):
            name = f"{unit}__sass_thread_inst_executed_op_{letter}fma_pred_on"
            each = launch.metrics.get(f"{name}.sum.peak_sustained")
            twice = launch.metrics.get(f"derived__{name}_x2") if unit == "sm" else None
            clock = launch.metrics.get(f"{unit}__cycles_elapsed.avg.per_second")
            whose = f"the {precision} peak of {launch.kernel}"
            said = agreed(whose, [each.times(2) if each else None, twice], slack=_SLACK)
            if said is not None and clock is not None:
                yield _ceiling(f"{precision} FMA peak", said.value * clock.value, core, precision=precision)
                break


def _ceiling(
    name: str, value: float, clock_hz: float | None, *, level: str | None = None, precision: str | None = None
) -> Ceiling:
    return Ceiling(
        name=name,
        kind="compute" if level is None else "bandwidth",
        value=value,
        median=value,
        samples=(value,),
        threads=1,
        isa="GPU",
        level=level,
        precision=precision,
        fma=True if level is None else None,
        clock_hz=clock_hz,
        clock_source="of the launch, as the profiler saw it",
        convention="arith" if level is None else "bytes at DRAM",
        note=f"a peak by the profiler, {NOT_MEASURED}",
    )
