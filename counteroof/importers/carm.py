"""The CARM Tool: ``benchmarks.jsonl`` (measured roofs, mixed points) and ``applications.jsonl`` (profiles).

CARM's bytes are those that instructions ask for, at the border of core and L1: they are imported as that, and
never stand for DRAM bytes. Forms: carm-roofline 1.5 (benchmark/output/jsonl.py, profiling/output.py).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..count.base import Count, unavailable
from ..errors import BadInput
from ..machine.model import Ceiling
from ..results import Results
from ..roofline import OTHER_CONVENTION
from .imported import Contradiction, Kernel, Options, Said, agreed, count, machine, result, results

COUNTER = "carm"

_TYPES = ("arithmetic", "memory", "mixed")
_PRECISIONS = {
    "f64": "f64",
    "f32": "f32",
    "bf16": "bf16",
    "dp": "f64",
    "sp": "f32",
    "double": "f64",
    "float": "f32",
}
_ISAS = {"avx512": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse": "SSE", "neon": "NEON", "scalar": "scalar"}
_LEVELS = {"l1": "l1", "l2": "l2", "l3": "l3", "dram": "dram", "mem": "dram", "memory": "dram"}
_ONLY_CORE = "CARM counts the bytes that instructions ask for, not those of memory"
_SLACK = 1e-3


def recognises(text: str) -> bool:
    """Return whether a text looks like one of CARM's JSONL files."""
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            return False
        return isinstance(entry, dict) and (entry.get("type") in _TYPES or "points" in entry)
    return False


def read(text: str, path: Path, options: Options) -> list[Results]:
    """Return what a file says, one run for each machine in it."""
    machines: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise BadInput(
                f"{path}, line {index}: not JSON: {error}; expected a line of CARM's JSONL"
            ) from None
        if not isinstance(entry, dict) or not (entry.get("type") in _TYPES or "points" in entry):
            raise BadInput(
                f"{path}, line {index}: expected an object with a type or points, as CARM writes them"
            )
        name = entry.get("machine") or (options.name if "metadata" in entry else None)
        machines.setdefault(str(name or f"machine of {path.name}"), []).append((index, entry))
    if not machines:
        raise BadInput(f"{path} has no entries; expected CARM's JSONL")
    made = []
    for name, entries in machines.items():
        ceilings = _roofs(entries, path)
        kernels = [
            result(kernel, ceilings)
            for index, entry in entries
            for kernel in _kernels(entry, f"{path}, line {index}")
        ]
        dates = [str(entry["timestamp"]) for _, entry in entries if entry.get("timestamp")]
        described = machine(name, "unknown", ceilings, measured=max(dates, default=None))
        made.append(results(described, kernels, path))
    return made


def _number(entry: Mapping[str, Any], key: str, where: str) -> Said | None:
    """Return a number of an entry; ``None`` if it is not there or null."""
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        raise BadInput(f"{where}: {key} is {value!r}; expected a finite number")
    if value < 0:
        raise BadInput(f"{where}: {key} is {value!r}; expected a number that is not negative")
    return Said(value, 0.0, key)


def _roofs(entries: Sequence[tuple[int, Mapping[str, Any]]], path: Path) -> list[Ceiling]:
    """Return the roofs of a machine; of several measurements of one, the highest with all as samples."""
    found: dict[tuple[str, int], list[Ceiling]] = {}
    for index, entry in entries:
        if entry.get("type") in ("arithmetic", "memory"):
            one = _roof(entry, f"{path}, line {index}")
            if one is not None:
                found.setdefault((one.name, one.threads), []).append(one)
    return [_best(same) for same in found.values()]


def _best(same: Sequence[Ceiling]) -> Ceiling:
    samples = tuple(one.value for one in same)
    best = max(same, key=lambda one: one.value)
    return replace(best, samples=samples, median=statistics.median(samples))


def _roof(entry: Mapping[str, Any], where: str) -> Ceiling | None:
    compute = entry["type"] == "arithmetic"
    value = _number(entry, "performance_gops" if compute else "bandwidth_gbps", where)
    threads = _number(entry, "num_threads", where)
    data_type = str(entry.get("data_type", ""))
    precision = _PRECISIONS.get(data_type.lower())
    if value is None or threads is None or threads.value < 1 or (compute and precision is None):
        return None  # integers, or not measured
    clock = _clock(entry, where)
    isa = _ISAS.get(str(entry.get("isa", "")).lower().replace("-", ""), str(entry.get("isa", "unknown")))
    operation = str(entry.get("operation", ""))
    ratio = _ratio(entry, where)
    level = _LEVELS.get(str(entry.get("memory_level_name", entry.get("cache_level", ""))).lower())
    if not compute and level is None:
        return None
    return Ceiling(
        name=f"{precision} {isa} {operation}" if compute else f"{str(level).upper()} {isa} {ratio}",
        kind="compute" if compute else "bandwidth",
        value=value.value * 1e9,
        median=value.value * 1e9,
        samples=(value.value * 1e9,),
        threads=int(threads.value),
        isa=isa,
        level=None if compute else level,
        precision=precision if compute else None,
        fma=operation == "fma" if compute else None,
        clock_hz=float(clock.value) if clock is not None else None,
        clock_source="carm" if clock is not None else "the file does not say it",
        convention="arith"
        if compute
        else f"loads and stores of instructions; write-allocate {OTHER_CONVENTION}",
        mix=operation if compute else f"loads to stores {ratio}",
        note="imported from CARM",
        measured=str(entry["timestamp"]) if entry.get("timestamp") else None,
    )


def _clock(entry: Mapping[str, Any], where: str) -> Said | None:
    """Return the clock; CARM's cycles are seconds times that clock, so one that differs was edited."""
    clock = _number(entry, "frequency_hz", where)
    seconds, cycles = _number(entry, "time_seconds", where), _number(entry, "cycles", where)
    if None not in (clock, seconds, cycles) and clock and seconds and cycles:
        made = Said(clock.value * seconds.value, 1.0, "frequency_hz times time_seconds")
        agreed(f"{where}: cycles", [cycles, made], slack=_SLACK)
    actual = _number(entry, "actual_frequency_hz", where)
    return actual if actual is not None else clock


def _ratio(entry: Mapping[str, Any], where: str) -> str:
    """Return loads to stores, as said by the ratio and by the two numbers."""
    ratio = entry.get("load_store_ratio")
    pair = (entry.get("num_loads"), entry.get("num_stores"))
    counted = f"{pair[0]}:{pair[1]}" if None not in pair else None
    if ratio is not None and counted is not None and ratio != counted:
        raise Contradiction(
            f"{where}: loads to stores are said in two ways that disagree: {ratio} and {counted}"
        )
    return str(ratio or counted or "loads to stores unknown")


def _kernels(entry: Mapping[str, Any], where: str) -> Iterator[Kernel]:
    if entry.get("type") in ("arithmetic", "memory"):
        return
    points = entry.get("points")
    if not isinstance(points, list):
        raise BadInput(f"{where}: points is {points!r:.60}; expected a list")
    for number, point in enumerate(points):
        if not isinstance(point, dict):
            raise BadInput(f"{where}: point {number} is {point!r:.60}; expected an object")
        at = f"{where}, point {number}"
        yield _mixed(entry, point, at) if entry.get("type") == "mixed" else _profiled(entry, point, at)


def _profiled(entry: Mapping[str, Any], point: Mapping[str, Any], where: str) -> Kernel:
    metadata = entry.get("metadata") or {}
    flops, moved = _number(point, "total_flops", where), _number(point, "total_bytes", where)
    seconds = _number(point, "runtime_s", where)
    for key, upper, lower in (
        ("arithmetic_intensity", flops, moved),
        ("flops_per_second", flops, seconds),
        ("bandwidth", moved, seconds),
    ):
        said = _number(point, key, where)
        if said is not None and upper is not None and lower is not None and lower.value:
            agreed(
                f"{where}: {key}", [said, Said(upper.value / lower.value, 0.0, "its two parts")], slack=_SLACK
            )
    threads = _number(point, "num_threads", where)
    precision = _PRECISIONS.get(str(metadata.get("precision", "")).lower())
    notes = [f"CARM's method: {metadata['method']}"] if metadata.get("method") else []
    if metadata.get("notes"):
        notes.append(f"CARM's notes: {metadata['notes']}")
    name = str(point.get("label") or metadata.get("name") or "unnamed")
    return Kernel(
        name=name,
        counter=COUNTER,
        library=str(metadata.get("command") or metadata.get("name") or "unknown"),
        seconds=(float(seconds.value),) if seconds is not None and seconds.value > 0 else (),
        threads=int(threads.value) if threads is not None and threads.value >= 1 else 1,
        precision=precision,
        counts=_counts(flops, moved, "CARM's count may take a fused multiply-add for one or for two"),
        notes=tuple(notes),
    )


def _mixed(entry: Mapping[str, Any], point: Mapping[str, Any], where: str) -> Kernel:
    rate, seconds = _number(point, "performance_gops", where), _number(point, "time_seconds", where)
    intensity = _number(point, "arithmetic_intensity", where)
    threads = _number(entry, "num_threads", where)
    precision = _PRECISIONS.get(str(entry.get("data_type", "")).lower())
    flops = moved = None
    if precision is not None and rate is not None and seconds is not None:
        flops = Said(rate.value * 1e9 * seconds.value, 0.0, "performance_gops times time_seconds")
        if intensity is not None and intensity.value:
            moved = Said(flops.value / intensity.value, 0.0, "those FLOPs over arithmetic_intensity")
    return Kernel(
        name=str(
            point.get("name") or f"{entry.get('operation', 'mixed')} {point.get('point_index', '')}".strip()
        ),
        counter=COUNTER,
        library="carm benchmark",
        seconds=(float(seconds.value),) if seconds is not None and seconds.value > 0 else (),
        threads=int(threads.value) if threads is not None and threads.value >= 1 else 1,
        precision=precision,
        counts=_counts(flops, moved, "made from a rate and a time"),
    )


def _counts(flops: Said | None, moved: Said | None, remark: str) -> dict[str, Count]:
    apart = unavailable(COUNTER, _ONLY_CORE)
    return {
        "flops": count(flops, COUNTER, remark if flops is not None else "the file does not say it"),
        "core_l1_bytes": count(moved, COUNTER, None if moved is not None else "the file does not say it"),
        "dram_read_bytes": apart,
        "dram_write_bytes": apart,
    }
