"""One kernel in full: its sentence, its numbers and where they come from, its ledger, arrays and findings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from .. import names, units
from ..count.base import Count, Measurement
from ..machine.model import Machine
from ..reconcile import MEANINGS
from ..results import KernelResult, Results
from ..roofline import choose_roof
from . import forms, legend, pace
from .columns import BOUNDS, BY_KEY
from .forms import printable

WIDTH = 100

HALF = 0.5
"""Below this share of its roof a kernel is held back by something that roof does not show."""

_COUNTS = (
    ("FLOPs", "flops", units.count),
    ("FLOPs issued", "issued_flops", units.count),
    ("instructions", "instructions", units.count),
    ("bytes core - L1", "core_l1_bytes", units.byte_count),
    ("bytes L1 - L2", "l1_l2_bytes", units.byte_count),
    ("bytes L2 - L3", "l2_l3_bytes", units.byte_count),
    ("DRAM read", "dram_read_bytes", units.byte_count),
    ("DRAM written", "dram_write_bytes", units.byte_count),
    ("of it write-allocate", "write_allocate_bytes", units.byte_count),
)


def sentence(kernel: KernelResult, machine: Machine) -> str:
    """Return where a kernel stands in one sentence: intensity, ridge, roof, what fewer bytes would give."""
    if kernel.error is not None:
        return f"not measured to the end: {kernel.error.kind}: {kernel.error.message}"
    return "; ".join(_clauses(kernel, machine))


def whole_sentence(kernel: KernelResult, machine: Machine) -> str:
    """Return the sentence with a capital and a full stop."""
    text = sentence(kernel, machine)
    return f"{text[:1].upper()}{text[1:]}."


def _clauses(kernel: KernelResult, machine: Machine) -> Iterator[str]:
    placed = kernel.placement
    if placed is None:
        yield "not placed: neither timed nor counted"
        return
    true = "no DRAM traffic" if placed.no_dram_traffic else f"{units.intensity(placed.intensity)} true"
    if placed.intensity is None and not placed.no_dram_traffic:
        true = "the true one unknown" if placed.declared_intensity is not None else "unknown"
    if kernel.flops.value == 0:
        yield "no FLOPs"
    elif placed.declared_intensity is not None:
        yield f"intensity {units.intensity(placed.declared_intensity)} declared, {true}"
    else:
        yield f"intensity {true}, nothing declared"
    roof = choose_roof(machine.ceilings, placed.precision, kernel.threads)
    if placed.intensity and roof.ridge:
        left = placed.intensity < roof.ridge
        times = roof.ridge / placed.intensity if left else placed.intensity / roof.ridge
        yield f"{units.significant(float(times), 2)} times {'left' if left else 'right'} of the ridge"
    if placed.bound is None or placed.ceiling is None:
        yield "held against no roof: " + ("; ".join(placed.notes) or "none is known")
        return
    rate = units.flop_rate if placed.bound == "compute" else units.bandwidth
    value = "" if placed.roof is None else f", {rate(placed.roof)}"
    if placed.fraction is None:
        yield f"under the {BOUNDS[placed.bound]} roof ({placed.ceiling}{value}), but not timed"
        return
    yield f"at {units.percent(placed.fraction)} of the {BOUNDS[placed.bound]} roof ({placed.ceiling}{value})"
    if placed.fraction < HALF:
        yield "something other than this roof holds it back"
    elif placed.bound == "compute":
        yield "fewer bytes would not make it faster"
    elif placed.attainable and roof.compute is not None:
        gain = min(2.0, roof.compute.value / placed.attainable)
        would = "double it at most" if gain > 1.99 else f"allow {units.ratio(gain)} times that at most"
        what = "its bytes" if placed.bound == "dram" else f"what passes {BOUNDS[placed.bound]}"
        yield f"halving {what} would {would}"
    elif placed.bound == "dram":
        yield "halving its bytes would double it at most"


def text(kernel: KernelResult, results: Results) -> str:
    """Return everything known of one kernel, for a terminal."""
    lines = [names.readable(kernel.label), "", *_filled(sentence(kernel, results.machine) + ".")]
    for title, body in _sections(kernel, results):
        if body:
            lines += ["", title, *body]
    return "\n".join(map(printable, lines)) + "\n"


def _sections(kernel: KernelResult, results: Results) -> Iterator[tuple[str, list[str]]]:
    yield "what it is", _list(_identity(kernel, results))
    yield "numbers of one call", _numbers(kernel)
    yield "from declared to actual bytes", _ledger(kernel)
    yield "arrays", _arrays(kernel)
    for one in pace.tables(kernel):
        notes = [line for note in one.notes for line in _filled(note)]
        yield one.title, [*_table(*one.headings, rows=one.rows), *notes]
    yield "findings", _list(map(legend.finding_text, kernel.findings))
    notes = legend.notes(Results(results.created, results.counteroof, results.machine, (kernel,)))
    yield (
        "notes",
        _list(note.removeprefix(f"{kernel.label}: ").removeprefix("all kernels: ") for note in notes),
    )


def _identity(kernel: KernelResult, results: Results) -> Iterator[str]:
    yield f"{names.readable(kernel.symbol)} of {kernel.library}"
    size = BY_KEY["size"].text(kernel)
    threads = f"{kernel.threads} thread{'s' * (kernel.threads > 1)}"
    yield f"{size}; {threads}; {BY_KEY['precision'].text(kernel)}; {kernel.cache} caches"
    yield {
        True: "its result agrees with the reference",
        False: "its result does not agree with the reference",
        None: "its result was not checked: there is no reference",
    }[kernel.checked]
    yield f"on {results.machine.name}, {results.created}"


def _numbers(kernel: KernelResult) -> list[str]:
    rows = []
    if kernel.declared is not None:
        source = f"declared: {kernel.declared.source}" if kernel.declared.source else "declared"
        for name, value, unit in (
            ("FLOPs", kernel.declared.flops, units.count),
            ("bytes", kernel.declared.bytes, units.byte_count),
        ):
            rows.append((f"{name} declared", unit(value), source if value is not None else "not declared"))
    if kernel.seconds is not None:
        spread = BY_KEY["spread"].text(kernel)
        count = len(kernel.seconds.samples)
        rows.append(
            ("time", units.seconds(kernel.seconds.median), f"median of {count} samples, spread {spread}")
        )
    if kernel.clock_hz is not None:
        rows.append(("core clock", units.hertz(kernel.clock_hz), "right after the timed calls"))
    if kernel.processor_share is not None:
        said = "of the timed calls, all threads together"
        rows.append(("time on processors", units.percent(kernel.processor_share), said))
    if kernel.page_faults is not None:
        faults = kernel.page_faults
        said = f"of a timed call, {units.count(faults.major)} of them from files or swap space"
        rows.append(("page faults", units.count(faults.minor + faults.major), said))
    for measurement in kernel.counters.values():
        rows += _beside(measurement)
        for name, quantity, unit in _COUNTS:
            count_: Count = getattr(measurement, quantity)
            how = f"{count_.status}: {count_.source}" if count_.value is not None else ""
            why = count_.reason or ""
            said = f"{measurement.counter}, " + "; ".join(part for part in (how, why) if part)
            rows.append((name, unit(count_.value), said))
    return _table(("what", False), ("number", True), ("how it was got", False), rows=rows)


def _beside(measurement: Measurement) -> Iterator[tuple[str, str, str]]:
    """Yield what a counter saw beside what it counts."""
    if measurement.pages_touched is not None:
        yield "pages touched", units.count(measurement.pages_touched), f"{measurement.counter}, of 4 KiB"
    if measurement.tlb_misses is not None and measurement.page_walks is not None:
        said = f"{measurement.counter}, modelled: not in the TLB of level 1"
        yield "TLB misses", units.count(measurement.tlb_misses), said
        yield "page walks", units.count(measurement.page_walks), f"{measurement.counter}, modelled: in no TLB"
    if (frames := measurement.frames) is not None:
        where = (
            "at random, from a fixed seed"
            if frames.source == "random"
            else f"the real ones of {frames.real} of {frames.pages} pages of arrays, others at random"
        )
        yield "frames", frames.source, f"{measurement.counter}, cache model: {where}"
    mix = measurement.access_mix
    if mix is not None and mix.accesses:
        gathered = mix.gathered + mix.scattered
        said = f"{measurement.counter}, of {units.count(mix.accesses)} elements loaded and stored"
        yield "gathered or scattered", units.percent(gathered / mix.accesses), said
    seen = measurement.denormals
    if seen is not None:
        what = [name for name, is_so in (("operands", seen.operand), ("results", seen.underflow)) if is_so]
        modes = [name for name, on in (("FTZ", seen.results_flushed), ("DAZ", seen.operands_flushed)) if on]
        said = f"{measurement.counter}, flags of the processor; " + (
            f"{' and '.join(modes)} set" if modes else "FTZ and DAZ not set"
        )
        yield "denormals", " and ".join(what) or "none", said


def _ledger(kernel: KernelResult) -> list[str]:
    rows = []
    for line in kernel.ledger:
        shown = units.byte_count(line.bytes) if line.total else units.signed_bytes(line.bytes)
        rows.append((shown, line.cause, line.array or "", MEANINGS.get(line.cause, "")))
    return _table(("bytes", True), ("cause", False), ("array", False), ("meaning", False), rows=rows)


def _arrays(kernel: KernelResult) -> list[str]:
    rows = [
        (
            one.name,
            units.byte_count(one.bytes),
            units.byte_count(one.dram_read_bytes),
            units.byte_count(one.dram_write_bytes),
            units.byte_count(one.write_allocate_bytes),
            units.percent(one.line_utilisation),
            units.count(one.refetches),
        )
        for one in kernel.arrays
    ]
    heads = ("size", "read", "written", "write-allocate", "of lines used", "fetched again")
    return _table(("array", False), *((head, True) for head in heads), rows=rows)


def _table(*headings: tuple[str, bool], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    head, body = forms.aligned(
        [text for text, _ in headings], [numeric for _, numeric in headings], _wrapped(headings, rows), 2
    )
    return [*head, *"\n".join(body).split("\n")]


def _wrapped(headings: Sequence[tuple[str, bool]], rows: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return the rows with the texts of a last column wrapped into what the others leave of the width."""
    made = [[printable(text) for text in row] for row in rows]
    if headings[-1][1]:
        return made
    others = [
        max(len(row[i]) for row in ([text for text, _ in headings], *made)) for i in range(len(headings) - 1)
    ]
    room = max(WIDTH - sum(others) - 2 * len(others), 30)
    return [[*row[:-1], textwrap.fill(row[-1], room)] for row in made]


def _filled(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH)


def _list(lines: Iterable[str]) -> list[str]:
    return [
        part
        for line in lines
        for part in textwrap.wrap(line, WIDTH, initial_indent=" - ", subsequent_indent="   ")
    ]
