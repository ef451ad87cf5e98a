"""The report as one page: rooflines, a table to sort, and every number of every kernel with its source.

The page needs nothing from elsewhere and is allowed nothing: its policy forbids all but its own script and
style. Names come from users; the template engine escapes them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__, files, names, units
from ..diagnose.base import Finding
from ..machine.model import Ceiling
from ..plot import chart, panels, style
from ..reconcile import MEANINGS
from ..results import ArrayResult, KernelResult, Results
from . import legend, pace
from . import lines as lines_table
from .columns import BY_KEY, COLUMNS
from .explain import whole_sentence
from .provenance import origins
from .steps import Step, steps

if TYPE_CHECKING:
    from jinja2 import Template

MOST_AT_ONCE = 100
"""Of more kernels the details, and the rows after the first so many, are kept as text until they are looked
at, so that the page opens quickly."""

_ARRAY_HEADINGS = (
    *(
        "size",
        "DRAM read",
        "DRAM written",
        "of it write-allocate",
        "of fetched lines used",
        "lines fetched again",
    ),
)

_LEFT_OUT = ("error",)


def save(results: Results, path: Path) -> Path:
    """Write the page to ``path``, which holds either its old content or all of the new."""
    files.write_text(path, page(results))
    return path


def page(results: Results) -> str:
    """Return the page."""
    from markupsafe import Markup

    shown = panels.picture(results)
    style_text, script = _asset("style.css"), _asset("script.js")
    columns = [column for column in COLUMNS if column.key not in _LEFT_OUT]
    readable = names.all_readable(kernel.label for kernel in results.kernels)
    bounds = {dot.bound for panel in shown.panels for dot in panel.dots}
    looks = {chart.SHAPES[bound]: (bound or "none", style.BOUNDS[bound].words) for bound in bounds}
    return _template().render(
        title=shown.title,
        subtitle=f"counteroof {results.counteroof}, {results.created}; {shown.subtitle}",
        style=Markup(style_text),
        style_hash=_hash(style_text),
        script=Markup(script),
        script_hash=_hash(script),
        charts=chart.charts(shown),
        legend=sorted((bound, shape, words) for shape, (bound, words) in looks.items()),
        spread=units.percent(panels.SPREAD),
        remarks=shown.remarks,
        lazy=len(results.kernels) > MOST_AT_ONCE,
        at_once=MOST_AT_ONCE,
        columns=columns,
        kernels=[_kernel(kernel, key, results, readable) for key, kernel in enumerate(results.kernels)],
        array_headings=_ARRAY_HEADINGS,
        line_headings=lines_table.HEADINGS,
        line_numeric=lines_table.NUMERIC,
        roofs=[_roof(ceiling) for ceiling in results.machine.ceilings],
        sources=[*legend.sources(results), f"page written by counteroof {__version__}"],
    )


def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_printable)
    environment.filters["place"] = lambda value: f"{value:.1f}".removesuffix(".0")
    return environment.from_string(_asset("page.html"))


def _printable(value: Any) -> Any:
    """Return a text without the control characters that HTML forbids."""
    if type(value) is str and not value.isprintable():
        return names.printable(value)
    return value


def _asset(name: str) -> str:
    return (resources.files("counteroof") / "data" / "report" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return what a content policy names an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _kernel(kernel: KernelResult, key: int, results: Results, readable: dict[str, str]) -> dict[str, Any]:
    """Return what the page has of one kernel."""
    cells = []
    for column in COLUMNS:
        if column.key not in _LEFT_OUT:
            text = column.text(kernel)
            if column.key == "kernel":
                text = readable.get(text, text)
            cells.append({"text": text, "value": column.value(kernel), "numeric": column.numeric})
    found = steps(kernel.ledger)
    low = min((min(step.start, step.end) for step in found), default=0)
    high = max((max(step.start, step.end) for step in found), default=1) or 1
    return {
        "key": key,
        "label": readable.get(kernel.label, kernel.label),
        "cells": cells,
        "sentence": whole_sentence(kernel, results.machine),
        "error": BY_KEY["error"].text(kernel),
        "findings": [_finding(one) for one in kernel.findings],
        "steps": [_step(step, min(low, 0), high) for step in found],
        "arrays": [_array(array) for array in kernel.arrays],
        "pace": pace.tables(kernel),
        "lines": lines_table.rows(kernel),
        "origins": origins(kernel, results),
        "classes": ", ".join(_classes(kernel)),
        "notes": tuple(dict.fromkeys(_notes(kernel))),
        "origin": _origin(kernel),
    }


def _finding(one: Finding) -> dict[str, Any]:
    gain = f"{units.ratio(one.gain)} times" if one.gain is not None else None
    return {
        "rule": one.rule,
        "severity": one.severity,
        "message": one.message,
        "try_": one.try_,
        "gain": gain,
    }


def _step(step: Step, low: int, high: int) -> dict[str, Any]:
    text = units.byte_count(step.bytes) if step.kind == "total" else units.signed_bytes(step.bytes)
    left, right = sorted((step.start, step.end))
    scale = 100 / (high - low)
    known = step.kind != "unknown"
    return {
        "kind": step.kind,
        "name": step.name,
        "text": text,
        "meaning": MEANINGS.get(step.cause, ""),
        "x": (left - low) * scale if known else None,
        "width": max((right - left) * scale, 0.2) if known else None,
    }


def _array(array: ArrayResult) -> tuple[str, ...]:
    again = units.MISSING if array.refetches is None else units.count(array.refetches)
    return (
        array.name,
        units.byte_count(array.bytes),
        units.byte_count(array.dram_read_bytes),
        units.byte_count(array.dram_write_bytes),
        units.byte_count(array.write_allocate_bytes),
        units.percent(array.line_utilisation),
        again,
    )


def _classes(kernel: KernelResult) -> Iterator[str]:
    """Return the FLOPs by kind, those outside the total said to be so."""
    measurement = kernel.counters.get(kernel.chosen.flops or "")
    for one in measurement.flops_by if measurement is not None else ():
        width = f"{one.width} bit" if one.width else "scalar"
        outside = "" if one.counted else " (not in the total)"
        yield f"{one.precision} {width} {one.op} {units.count(one.flops)}{outside}"


def _notes(kernel: KernelResult) -> Iterator[str]:
    if kernel.placement is not None:
        yield from kernel.placement.notes
    for measurement in kernel.counters.values():
        yield from measurement.notes


def _origin(kernel: KernelResult) -> str:
    sizes = ", ".join(f"{name} = {value}" for name, value in kernel.params.items())
    checked = {
        True: "the result agrees with the reference",
        False: "the result does NOT agree with the reference",
        None: "no reference to check the result with",
    }[kernel.checked]
    parts = [
        f"{kernel.symbol} of {kernel.library}",
        sizes,
        f"{kernel.threads} thread{'s' if kernel.threads != 1 else ''}",
        f"caches {kernel.cache} before the call",
        checked,
    ]
    return "; ".join(part for part in parts if part)


def _roof(one: Ceiling) -> tuple[str, ...]:
    rate = legend.rate_of(one)
    clock = units.hertz(one.clock_hz) if one.clock_hz else units.MISSING
    return (
        one.name,
        rate(one.value),
        rate(one.median),
        str(len(one.samples)),
        str(one.threads),
        one.isa,
        one.precision or units.MISSING,
        clock,
        one.convention,
        one.measured or units.MISSING,
        one.note,
    )
