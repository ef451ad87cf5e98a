"""How every number of a kernel was got: each with its value, kind, source, and what a reader must know."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from .. import units
from ..count.base import Count, Measurement
from ..results import KernelResult, Results
from ..roofline import named
from .legend import ceiling_text


@dataclass(frozen=True)
class Origin:
    """One number; ``how`` is declared, counted, scaled, instrumented, modelled, imported, measured or -."""

    what: str
    value: str
    how: str
    source: str
    note: str = ""


_NAMES = {
    "flops": "FLOPs executed",
    "issued_flops": "FLOPs issued, masked lanes included",
    "instructions": "instructions",
    "core_l1_bytes": "bytes loaded and stored",
    "l1_l2_bytes": "bytes between L1 and L2",
    "l2_l3_bytes": "bytes between L2 and L3",
    "dram_read_bytes": "bytes read from DRAM",
    "dram_write_bytes": "bytes written to DRAM",
    "dram_bytes": "bytes of DRAM, both ways",
    "write_allocate_bytes": "write-allocate, part of those read",
    "cycles": "clock cycles",
}


def origins(kernel: KernelResult, results: Results) -> tuple[Origin, ...]:
    """Return every number of a kernel with its source, those of all counters included."""
    found = [*_timing(kernel), *_claims(kernel)]
    for name, measurement in kernel.counters.items():
        found += _counts(kernel, name, measurement)
    found += _roof(kernel, results)
    return tuple(found)


def _timing(kernel: KernelResult) -> Iterator[Origin]:
    if kernel.seconds is None:
        return
    samples = kernel.seconds.samples
    note = ""
    if len(samples) > 1:
        note = f"{units.seconds(min(samples))} to {units.seconds(max(samples))}"
    many = f"{len(samples)} sample{'s' if len(samples) > 1 else ''}"
    yield Origin(
        "time of one call", units.seconds(kernel.seconds.median), "measured", f"median of {many}", note
    )


def _claims(kernel: KernelResult) -> Iterator[Origin]:
    claim = kernel.declared
    if claim is None:
        return
    for what, value, text in (
        ("FLOPs declared", claim.flops, units.count(claim.flops)),
        ("bytes declared", claim.bytes, units.byte_count(claim.bytes)),
    ):
        if value is not None:
            yield Origin(what, text, "declared", claim.source)


def _counts(kernel: KernelResult, counter: str, measurement: Measurement) -> Iterator[Origin]:
    for field in dataclasses.fields(measurement):
        count = getattr(measurement, field.name)
        if not isinstance(count, Count):
            continue
        what = _NAMES.get(field.name, field.name.replace("_", " "))
        text = units.byte_count if field.name.endswith("bytes") else units.count
        notes = [count.reason] if count.reason else []
        if field.name == "flops" and kernel.chosen.flops == counter and len(kernel.counters) > 1:
            notes.append("placed the dot")
        if field.name.startswith("dram") and kernel.chosen.bytes == counter and len(kernel.counters) > 1:
            notes.append("placed the dot")
        how = count.status if count.value is not None else units.MISSING
        yield Origin(what, text(count.value), how, f"{counter}: {count.source}", "; ".join(notes))
    if measurement.slowdown is not None:
        text_ = f"{units.ratio(measurement.slowdown)} times"
        yield Origin("time of the counted call", text_, "measured", counter, "beside a native call")


def _roof(kernel: KernelResult, results: Results) -> Iterator[Origin]:
    placed = kernel.placement
    if placed is None or placed.ceiling is None or placed.bound is None:
        return
    rate = units.flop_rate if placed.bound == "compute" else units.bandwidth
    ceiling = named(results.machine.ceilings, placed.ceiling, kernel.threads)
    source = ceiling_text(ceiling) if ceiling is not None else "not in this file"
    note = ceiling.note if ceiling is not None else ""
    yield Origin("the roof that binds", rate(placed.roof), "measured", source, note)
    yield Origin(
        "attainable there",
        units.flop_rate(placed.attainable),
        "computed",
        "FLOPs over the time this roof asks for",
    )
