"""The columns of a table: what each takes from a kernel's result, as a value and as a text.

A column is written once and used by every form of the table, so that the terminal, Markdown and the data
frame cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import units
from ..results import KernelResult

Value = str | int | float | None

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

BY_KEY = {column.key: column for column in COLUMNS}
