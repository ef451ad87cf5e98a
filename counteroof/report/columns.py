"""The columns of a table: what each takes from a kernel's result, as a value and as a text.

A column is written once and used by every form of the table, so that the terminal, Markdown and the data
frame cannot disagree.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from .. import units
from ..results import KernelResult
from .grid import Value

SOURCE_LETTERS = {
    "counted": "c",
    "scaled": "s",
    "instrumented": "i",
    "modelled": "m",
    "imported": "x",
    "unavailable": units.MISSING,
}
"""How a number was got, in one letter."""

BOUNDS = {"dram": "DRAM", "l3": "L3", "l2": "L2", "l1": "L1", "compute": "compute"}

NO_TRAFFIC = "no DRAM traffic"


@dataclass(frozen=True)
class Column:
    """One column: its name in data, its heading for people, its value in base units and its text."""

    key: str
    heading: str
    value: Callable[[KernelResult], Value]
    text: Callable[[KernelResult], str]
    numeric: bool = True


def _declared_bytes(kernel: KernelResult) -> float | int | None:
    return None if kernel.declared is None else kernel.declared.bytes


def _declared_flops(kernel: KernelResult) -> float | int | None:
    return None if kernel.declared is None else kernel.declared.flops


def _ratio(kernel: KernelResult) -> float | None:
    declared, actual = _declared_bytes(kernel), kernel.dram_bytes.value
    return actual / declared if declared and actual is not None else None


def _intensity(kernel: KernelResult) -> float | None:
    return None if kernel.placement is None else kernel.placement.intensity


def _intensity_text(kernel: KernelResult) -> str:
    if kernel.placement is not None and kernel.placement.no_dram_traffic:
        return NO_TRAFFIC
    return units.intensity(_intensity(kernel))


def _declared_intensity(kernel: KernelResult) -> float | None:
    return None if kernel.placement is None else kernel.placement.declared_intensity


def _flops_per_second(kernel: KernelResult) -> float | None:
    return None if kernel.placement is None else kernel.placement.flops_per_second


def _fraction(kernel: KernelResult) -> float | None:
    return None if kernel.placement is None else kernel.placement.fraction


def _bound(kernel: KernelResult) -> str | None:
    return None if kernel.placement is None else kernel.placement.bound


def _bound_text(kernel: KernelResult) -> str:
    bound = _bound(kernel)
    return units.MISSING if bound is None else BOUNDS[bound]


def _ceiling(kernel: KernelResult) -> str | None:
    return None if kernel.placement is None else kernel.placement.ceiling


def _precision(kernel: KernelResult) -> str | None:
    placed = None if kernel.placement is None else kernel.placement.precision
    return placed or kernel.precision


def _seconds(kernel: KernelResult) -> float | None:
    return None if kernel.seconds is None else kernel.seconds.median


def _error(kernel: KernelResult) -> str | None:
    return None if kernel.error is None else f"{kernel.error.kind}: {kernel.error.message}"


def source_letters(kernel: KernelResult) -> str:
    """Return how FLOPs and bytes were got, as in ``i/m``."""
    return "/".join(SOURCE_LETTERS[count.status] for count in (kernel.flops, kernel.dram_bytes))


def _sources(kernel: KernelResult) -> str:
    return f"{kernel.flops.status} / {kernel.dram_bytes.status}"


def _dash(text: str | None) -> str:
    return text or units.MISSING


COLUMNS = (
    Column("kernel", "kernel", lambda k: k.label, lambda k: k.label, numeric=False),
    Column("precision", "prec.", _precision, lambda k: _dash(_precision(k)), numeric=False),
    Column("threads", "threads", lambda k: k.threads, lambda k: str(k.threads)),
    Column("seconds", "time", _seconds, lambda k: units.seconds(_seconds(k))),
    Column(
        "declared_bytes", "bytes declared", _declared_bytes, lambda k: units.byte_count(_declared_bytes(k))
    ),
    Column(
        "actual_bytes",
        "bytes actual",
        lambda k: k.dram_bytes.value,
        lambda k: units.byte_count(k.dram_bytes.value),
    ),
    Column("bytes_ratio", "ratio", _ratio, lambda k: units.ratio(_ratio(k))),
    Column("declared_flops", "FLOPs declared", _declared_flops, lambda k: units.count(_declared_flops(k))),
    Column("executed_flops", "FLOPs executed", lambda k: k.flops.value, lambda k: units.count(k.flops.value)),
    Column(
        "declared_intensity",
        "FLOP/B declared",
        _declared_intensity,
        lambda k: units.intensity(_declared_intensity(k)),
    ),
    Column("intensity", "FLOP/B true", _intensity, _intensity_text),
    Column(
        "flops_per_second",
        "GFLOP/s",
        _flops_per_second,
        lambda k: units.in_giga(_flops_per_second(k)),
    ),
    Column("fraction", "of roof", _fraction, lambda k: units.percent(_fraction(k))),
    Column("bound", "bound", _bound, _bound_text, numeric=False),
    Column("ceiling", "ceiling", _ceiling, lambda k: _dash(_ceiling(k)), numeric=False),
    Column("sources", "source of FLOPs / bytes", _sources, _sources, numeric=False),
    Column("error", "error", _error, lambda k: _error(k) or "", numeric=False),
)


def _count(quantity: str) -> Callable[[KernelResult], Value]:
    """Return what takes a quantity of the counter that placed the dot in bytes, else of the first with it."""

    def value(kernel: KernelResult) -> Value:
        chosen = kernel.counters.get(kernel.chosen.bytes or "")
        ordered = ([chosen] if chosen is not None else []) + list(kernel.counters.values())
        counts = (getattr(one, quantity).value for one in ordered)
        return next((one for one in counts if one is not None), None)

    return value


def _number(
    key: str, heading: str, value: Callable[[KernelResult], Value], text: Callable[[float | None], str]
) -> Column:
    return Column(key, heading, value, lambda kernel: text(_as_number(value(kernel))))


def _words(key: str, heading: str, value: Callable[[KernelResult], str | None]) -> Column:
    return Column(key, heading, value, lambda kernel: _dash(value(kernel)), numeric=False)


def _as_number(value: Value) -> float | None:
    return value if isinstance(value, int | float) else None


def _parts(flops: float | None, moved: float | None, intensity: str) -> str:
    return f"{intensity} ({units.count(flops)} / {units.byte_count(moved)})"


def _declared_parts(kernel: KernelResult) -> str:
    if kernel.declared is None:
        return units.MISSING
    flops, moved = _declared_flops(kernel), _declared_bytes(kernel)
    return _parts(flops, moved, units.intensity(_declared_intensity(kernel)))


def _regime(kernel: KernelResult) -> str | None:
    """Return what limits the kernel as a reader of a report says it."""
    bound = _bound(kernel)
    if bound is None:
        return None
    return (
        f"{_precision(kernel) or 'unknown'} compute" if bound == "compute" else f"{BOUNDS[bound]} bandwidth"
    )


def _performance(kernel: KernelResult) -> str:
    """Return FLOP/s, or the bytes per second of a kernel that executes none."""
    rate, moved, seconds = _flops_per_second(kernel), kernel.dram_bytes.value, _seconds(kernel)
    if rate == 0 and moved and seconds:
        return units.bandwidth(moved / seconds)
    return units.flop_rate(rate)


def _size(kernel: KernelResult) -> str | None:
    return ", ".join(f"{name}={value}" for name, value in kernel.params.items()) or None


def _sample_spread(kernel: KernelResult) -> float | None:
    """Return the samples' interquartile range over their median; ``None`` for fewer than 4."""
    samples = () if kernel.seconds is None else kernel.seconds.samples
    if len(samples) < 4:
        return None
    low, _, high = statistics.quantiles(samples, n=4)
    return (high - low) / statistics.median(samples)


def _source_text(kernel: KernelResult, quantity: str) -> str:
    count = kernel.flops if quantity == "flops" else kernel.dram_bytes
    if count.value is None:
        return f"unavailable: {count.reason}"
    return f"{count.status}: {count.source}"


def _no_dram_traffic(kernel: KernelResult) -> bool | None:
    return kernel.placement.no_dram_traffic if kernel.placement is not None else None


def _notes(kernel: KernelResult) -> str:
    return "; ".join(kernel.placement.notes) if kernel.placement is not None else ""


def _gain(kernel: KernelResult) -> float | None:
    return kernel.findings[0].gain if kernel.findings else None


MORE = (
    Column(
        "declared_parts",
        "intensity declared (FLOPs / bytes)",
        _declared_intensity,
        _declared_parts,
    ),
    Column(
        "intensity_parts",
        "intensity actual (FLOPs / bytes)",
        _intensity,
        lambda k: _parts(k.flops.value, k.dram_bytes.value, _intensity_text(k)),
    ),
    _words("regime", "limiting regime", _regime),
    Column("performance", "performance", _flops_per_second, _performance),
    _words("size", "size", _size),
    _words("name", "name", lambda k: k.name),
    _words("symbol", "symbol", lambda k: k.symbol),
    _words("library", "library", lambda k: k.library),
    _words("cache", "caches", lambda k: k.cache),
    _number("spread", "spread of time", _sample_spread, units.percent),
    _number("instructions", "instructions", _count("instructions"), units.count),
    _number("dram_read_bytes", "DRAM read", _count("dram_read_bytes"), units.byte_count),
    _number("dram_write_bytes", "DRAM written", _count("dram_write_bytes"), units.byte_count),
    _number("write_allocate_bytes", "write-allocate", _count("write_allocate_bytes"), units.byte_count),
    _number("core_l1_bytes", "core-L1 bytes", _count("core_l1_bytes"), units.byte_count),
    _number("l1_l2_bytes", "L1-L2 bytes", _count("l1_l2_bytes"), units.byte_count),
    _number("l2_l3_bytes", "L2-L3 bytes", _count("l2_l3_bytes"), units.byte_count),
    _number(
        "attainable",
        "attainable",
        lambda k: None if k.placement is None else k.placement.attainable,
        units.flop_rate,
    ),
    _words("flops_source", "source of FLOPs", lambda k: _source_text(k, "flops")),
    _words("bytes_source", "source of bytes", lambda k: _source_text(k, "dram_bytes")),
    _words("declared_source", "source of the claim", lambda k: k.declared.source if k.declared else None),
    Column(
        "no_dram_traffic",
        NO_TRAFFIC,
        _no_dram_traffic,
        lambda k: {True: "yes", False: "no", None: units.MISSING}[_no_dram_traffic(k)],
        numeric=False,
    ),
    _words("notes", "notes", _notes),
    _words("findings", "findings", lambda k: ", ".join(one.rule for one in k.findings) or None),
    _words("finding", "first finding", lambda k: k.findings[0].message if k.findings else None),
    _words("try", "what to try", lambda k: k.findings[0].try_ if k.findings else None),
    _number("gain", "gain", _gain, lambda value: units.MISSING if value is None else f"{value:.2f}"),
)
"""Columns beyond the usual ones, to be asked for by name."""

BY_KEY = {column.key: column for column in (*COLUMNS, *MORE)}
