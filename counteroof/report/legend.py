"""What stands under a table: where the numbers come from, and what a reader must know of single kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from .. import units
from ..diagnose.base import Finding
from ..machine.model import Ceiling
from ..reconcile import LedgerLine
from ..results import KernelResult, Results
from ..roofline import named
from .columns import BOUNDS, NO_TRAFFIC, SOURCE_LETTERS

_HOW = {
    "counted": "counted by hardware",
    "scaled": "counted by hardware, scaled for the share of time the counter ran",
    "instrumented": "instrumented: every instruction executed, exact",
    "modelled": "modelled: every access through a model of the caches",
    "imported": "imported from another tool's file",
}


_NEGLIGIBLE = 0.001
"""Share of declared or actual bytes below which a cause is not named."""

_MANY = 8
"""More names than this are not listed in full."""


def sources(results: Results) -> list[str]:
    """Return one line for each kind of source that occurs, and one for time, claims and roofs."""
    lines = []
    texts: dict[str, dict[str, None]] = {}
    for kernel in results.kernels:
        for count in (kernel.flops, kernel.dram_bytes):
            if count.value is not None:
                texts.setdefault(count.status, {})[count.source] = None
    for status, letter in SOURCE_LETTERS.items():
        if status in texts:
            lines.append(f"{letter} = {_HOW[status]} ({'; '.join(texts[status])})")
    if any(kernel.declared is not None for kernel in results.kernels):
        lines.append("declared = the formulas of the spec, by their author")
    if any(kernel.seconds is not None for kernel in results.kernels):
        sizes = [len(kernel.seconds.samples) for kernel in results.kernels if kernel.seconds is not None]
        many = str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        words = "one sample" if many == "1" else f"median of {many} samples"
        lines.append(f"time = of one call, {words}; GFLOP/s = FLOPs executed over time")
    lines += roofs(results)
    if results.machine.measured and results.machine.ceilings:
        lines.append(f"roofs were measured {results.machine.measured}, the highest sample of each counts")
    lines += _beside(results)
    if any(kernel.placement is not None and kernel.placement.no_dram_traffic for kernel in results.kernels):
        lines.append("nothing is held against the roof of L1; the hierarchical picture shows it")
    return [*lines, *results.machine.notes]


def roofs(results: Results) -> list[str]:
    """Return one line for each ceiling that binds a kernel of the table."""
    used: dict[str, None] = {}
    for kernel in results.kernels:
        placed = kernel.placement
        if placed is None or placed.ceiling is None or placed.bound is None:
            continue
        ceiling = named(results.machine.ceilings, placed.ceiling, kernel.threads)
        if ceiling is None:
            words = f"{placed.ceiling}, not in this file"
        else:
            samples = (
                one.value
                for one in results.roof_samples
                if (one.ceiling, one.threads) == (ceiling.name, ceiling.threads)
            )
            words = ceiling_text(ceiling, *samples)
        used[f"bound {BOUNDS[placed.bound]} = {words}"] = None
    return list(used)


def _beside(results: Results) -> list[str]:
    """Return when roofs that others move were measured, and what that means for the kernels."""
    samples = results.roof_samples
    if not samples:
        return []
    times = list(dict.fromkeys(one.measured for one in samples))
    looks = len({one.kernels for one in samples})
    levels = {one.level for one in results.machine.ceilings if one.name in {s.ceiling for s in samples}}
    names = " and ".join(text for level, text in BOUNDS.items() if level in levels)
    names = names or ", ".join(dict.fromkeys(one.ceiling for one in samples))
    when = f"{times[0]} to {times[-1]}" if len(times) > 1 else times[0]
    return [
        f"roofs of {names} were measured {looks} time{'s' if looks > 1 else ''} between kernels, {when}: "
        "each kernel is held against the higher of the two around it"
    ]


def rate_of(ceiling: Ceiling) -> Callable[[float | None], str]:
    """Return what writes the value of a ceiling with its unit."""
    if ceiling.kind == "bandwidth":
        return units.bandwidth
    return units.operation_rate if ceiling.precision == "int8" else units.flop_rate


def ceiling_text(ceiling: Ceiling, *samples: float) -> str:
    """Return a ceiling in words: name, value, convention, what is not in the name yet, threads, clock.

    With ``samples``, the values it had during a run, the lowest and the highest of them stand for its own.
    """
    rate = rate_of(ceiling)
    value = rate(ceiling.value)
    if samples and rate(min(samples)) != rate(max(samples)):
        value = f"{rate(min(samples))} to {rate(max(samples))}"
    convention = f"{ceiling.convention}, " if ceiling.kind == "bandwidth" else ""
    return f"{ceiling.name}: {value} ({convention}{conditions(ceiling)})"


def conditions(*ceilings: Ceiling) -> str:
    """Return what ceilings were measured with, as far as it is not in their names.

    That is precision, ISA, FMA or not, threads, and the clock or its range.
    """
    names = " ".join(one.name for one in ceilings).casefold()
    parts = []
    for values in ([one.precision for one in ceilings], [one.isa for one in ceilings]):
        unsaid = [text for text in dict.fromkeys(values) if text and text.casefold() not in names]
        parts.append(" or ".join(unsaid))
    scalar = all(one.isa == "scalar" for one in ceilings)
    if all(one.fma is False for one in ceilings) and "fma" not in names and not scalar:
        parts.append("without FMA")
    for count in sorted({one.threads for one in ceilings}):
        parts.append("1 thread" if count == 1 else f"{count} threads")
    parts.append(_clocks([one.clock_hz for one in ceilings]))
    return ", ".join(part for part in parts if part)


def _clocks(clocks: Sequence[float | None]) -> str:
    known = [clock for clock in clocks if clock]
    if not known:
        return "clock unknown"
    low, high = min(known), max(known)
    # of several the third digit is noise
    texts = dict.fromkeys(units.hertz(clock, 3 if low == high else 2) for clock in (low, high))
    text = " to ".join(texts)
    return text if len(known) == len(clocks) else f"{text} or unknown"


def ledgers(results: Results) -> list[str]:
    """Return one line for each kernel with a cause of weight between its declared and its actual bytes."""
    lines = []
    for kernel in results.kernels:
        weight = _weight(kernel.ledger)
        if any(abs(line.bytes or 0) >= weight for line in kernel.ledger if not line.total):
            lines.append(f"{kernel.label}: {ledger_text(kernel.ledger)}")
    return lines


def _weight(ledger: Sequence[LedgerLine]) -> float:
    """Return the bytes from which a cause is named."""
    return max(1.0, _NEGLIGIBLE * max((line.bytes or 0 for line in ledger if line.total), default=0))


def ledger_text(ledger: Sequence[LedgerLine]) -> str:
    """Return a ledger in one line; a cause's arrays stand together, and causes of no weight are added up."""
    first, last = ledger[0], ledger[-1]
    causes: dict[str, list[LedgerLine]] = {}
    for line in ledger:
        if not line.total and line.bytes is not None:
            causes.setdefault(line.cause, []).append(line)
    weight = _weight(ledger)
    parts = ["nothing declared" if first.bytes is None else f"{units.byte_count(first.bytes)} declared"]
    rest = 0
    for cause, lines in causes.items():
        total = sum(line.bytes or 0 for line in lines)
        if abs(total) < weight:
            rest += total
            continue
        arrays = [line.array for line in lines if line.array is not None]
        whose = f" ({', '.join(arrays)})" if arrays else ""
        parts.append(f"{units.signed_bytes(total)} {cause}{whose}")
    if rest:
        parts.append(f"{units.signed_bytes(rest)} other causes")
    return f"{', '.join(parts)} = {units.byte_count(last.bytes)}"


def notes(results: Results) -> list[str]:
    """Return what must be known about kernels; kernels of which the same is true share a line."""
    kernels: dict[str, dict[str, None]] = {}
    for kernel in results.kernels:
        for text in _notes_of(kernel):
            kernels.setdefault(text, {})[kernel.label] = None
    counted = {kernel.label for kernel in results.kernels if kernel.counters}
    return [f"{_names(tuple(labels), counted)}: {text}" for text, labels in kernels.items()]


def _names(labels: tuple[str, ...], everyone: set[str]) -> str:
    if len(labels) > 1 and set(labels) == everyone:
        return "all kernels"
    if len(labels) > _MANY:
        return f"{', '.join(labels[: _MANY - 1])} and {len(labels) - _MANY + 1} others"
    return ", ".join(labels)


def _notes_of(kernel: KernelResult) -> Iterator[str]:
    if kernel.placement is not None:
        yield from (note for note in kernel.placement.notes if note != NO_TRAFFIC)
    if kernel.counters:
        for what, count in (("FLOPs", kernel.flops), ("DRAM bytes", kernel.dram_bytes)):
            if count.reason:
                yield f"{what}{' not available' if count.value is None else ''}: {count.reason}"
    for measurement in kernel.counters.values():
        yield from measurement.notes
        said = "\n".join(measurement.notes)
        if any(name not in said for name, _ in measurement.unruled):
            names = ", ".join(f"{name} ({times} times)" for name, times in measurement.unruled)
            yield f"floating-point instructions without a rule, not in the FLOPs: {names}"
        if any(name not in said for name in measurement.excluded):
            yield f"ran natively and so not counted: {', '.join(measurement.excluded)}"
    if kernel.checked is False:
        yield "the result does not agree with the reference"


def failures(kernels: Iterable[KernelResult]) -> list[str]:
    """Return why kernels failed; those that failed alike, as all of a source, share a line."""
    labels: dict[str, dict[str, None]] = {}
    for kernel in kernels:
        if kernel.error is not None:
            labels.setdefault(f"{kernel.error.kind}: {kernel.error.message}", {})[kernel.label] = None
    return [f"{_names(tuple(alike), set())}: {text}" for text, alike in labels.items()]


def findings(kernels: Iterable[KernelResult]) -> list[str]:
    """Return one line for each finding: the kernel, what holds it back, what to try and what that gains."""
    return [f"{kernel.label}: {finding_text(one)}" for kernel in kernels for one in kernel.findings]


def finding_text(finding: Finding) -> str:
    """Return a finding in one line."""
    gain = "" if finding.gain is None else f" (up to {finding.gain:.2f} times as fast)"
    advice = f"; try: {finding.try_}" if finding.try_ else ""
    return f"{finding.message}{advice}{gain}"
