"""What all importers share: a number with its precision, agreement of two, and the way into results."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import __version__, units
from ..count.base import Count, FlopClass, Measurement, unavailable
from ..diagnose import findings
from ..diagnose.base import Facts
from ..errors import BadInput
from ..machine.model import Ceiling, Machine
from ..reconcile import dram_bytes
from ..results import Chosen, KernelResult, Results, Seconds
from ..roofline import Observation, place, precision_of

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?", re.ASCII)

COUNTED_BYTES = (
    *("core_l1_bytes", "l1_l2_bytes", "l2_l3_bytes", "dram_read_bytes", "dram_write_bytes"),
    "write_allocate_bytes",
)


class Contradiction(BadInput):
    """A file says something in two ways that disagree."""


@dataclass(frozen=True)
class Options:
    """What the user knows of a file beside it.

    Attributes
    ----------
    name
        Of the kernel, where the file has none.
    threads
        Of the program, where the file does not say.
    events
        Names of the counters of a LIKWID marker file, in order.
    machine
        Whose ceilings to hold the kernels against.
    """

    name: str | None = None
    threads: int | None = None
    events: tuple[str, ...] = ()
    machine: Machine | None = None


@dataclass(frozen=True)
class Said:
    """A number in a file: its value in base units, by how much printing may have rounded it, and where."""

    value: float | int
    error: float
    where: str

    def times(self, factor: float, where: str | None = None) -> Said:
        """Return it in another unit."""
        return Said(self.value * factor, self.error * abs(factor), where or self.where)


def number(text: str, where: str) -> Said | None:
    """Return the number in a text with its rounding error, or ``None`` if it is no finite number.

    Commas between groups of three digits are separators of thousands.
    """
    plain = text.strip()
    if "," in plain:
        if not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", plain, re.ASCII):
            return None
        plain = plain.replace(",", "")
    match = _NUMBER.fullmatch(plain)
    if match is None:
        return None
    decimals = len(match[1] or match[2] or "")
    exponent = int(match[3] or 0)
    if abs(exponent) > 300 or len(plain) > 300:  # beyond a double, or close to it
        return None
    whole = match[3] is None and "." not in plain
    if whole:
        return Said(int(plain), 0.0, where)
    value = float(plain)
    exact = int(value) if value == int(value) and abs(value) < 2**53 else value
    return Said(exact, 0.5 * 10.0 ** (exponent - decimals), where)


def total(parts: Sequence[Said], where: str) -> Said:
    """Return the sum of some numbers."""
    return Said(sum(one.value for one in parts), sum(one.error for one in parts), where)


def product(one: Said, other: Said, where: str) -> Said:
    """Return the product of two numbers with the error it has from theirs."""
    error = abs(one.value) * other.error + abs(other.value) * one.error + one.error * other.error
    return Said(one.value * other.value, error, where)


def agreed(what: str, said: Iterable[Said | None], *, slack: float = 1e-3) -> Said | None:
    """Return the most precise of several statements of one quantity; ``None`` if there is none.

    Parameters
    ----------
    what
        The quantity and whose it is, for the message.
    said
        The statements; ``None`` is one that is not there.
    slack
        Share by which statements may differ beyond their rounding, for tools round on the way, too.

    Raises
    ------
    Contradiction
        If two differ by more.
    """
    found = [one for one in said if one is not None]
    for index, one in enumerate(found):
        for other in found[index + 1 :]:
            allowed = one.error + other.error + slack * max(abs(one.value), abs(other.value))
            if abs(one.value - other.value) > allowed:
                raise Contradiction(
                    f"{what} is said in two ways that disagree: {shown(one.value)} ({one.where}) and "
                    f"{shown(other.value)} ({other.where}); export it again from one run"
                )
    return min(found, key=lambda one: one.error / max(abs(one.value), 1e-300), default=None)


def shown(value: float) -> str:
    """Return a number as a message quotes it."""
    return f"{int(value):_}" if value == int(value) and abs(value) < 2**53 else f"{value:.6g}"


def count(said: Said | None, source: str, reason: str | None) -> Count:
    """Return a number as a Count with a remark, or why there is none."""
    if said is None:
        return unavailable(source, reason or "the file does not say it")
    value = said.value
    whole = int(value) if isinstance(value, float) and value == int(value) else value
    return Count(whole, "imported", f"{source}: {said.where}", reason)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """What a file says of one kernel; a quantity that is not in ``counts`` is not said."""

    name: str
    counter: str
    library: str
    label: str = ""
    seconds: tuple[float, ...] = ()
    threads: int = 1
    params: Mapping[str, float | int] = field(default_factory=dict)
    precision: str | None = None
    counts: Mapping[str, Count] = field(default_factory=dict)
    flops_by: tuple[FlopClass, ...] = ()
    notes: tuple[str, ...] = ()


def result(kernel: Kernel, ceilings: Sequence[Ceiling]) -> KernelResult:
    """Return the kernel as results have it, under these ceilings."""
    quantities = ("flops", "issued_flops", "instructions", *COUNTED_BYTES)
    missing = unavailable(kernel.counter, "the file does not say it")
    counts: dict[str, Any] = {name: kernel.counts.get(name, missing) for name in quantities}
    measurement = Measurement(
        counter=kernel.counter,
        flops_by=kernel.flops_by,
        notes=kernel.notes,
        cycles=kernel.counts.get("cycles"),
        dram_bytes=kernel.counts.get("dram_bytes"),
        **counts,
    )
    moved = dram_bytes(measurement)
    seconds = Seconds.of(kernel.seconds) if kernel.seconds else None
    made = KernelResult(
        name=kernel.name,
        label=kernel.label or kernel.name,
        library=kernel.library,
        symbol=kernel.name,
        params=kernel.params,
        threads=kernel.threads,
        precision=kernel.precision,
        cache="unknown",
        seconds=seconds,
        counters={kernel.counter: measurement},
        chosen=Chosen(
            kernel.counter if measurement.flops.value is not None else None,
            kernel.counter if moved.value is not None else None,
        ),
    )
    return placed(made, ceilings)


def placed(kernel: KernelResult, ceilings: Sequence[Ceiling]) -> KernelResult:
    """Return the kernel placed under ceilings; its precision is that of most FLOPs, if the file tells."""
    (measurement,) = kernel.counters.values()
    precision, notes = precision_of(measurement.flops_by, kernel.precision)
    precision = None if precision == "any" else precision
    observation = Observation(
        kernel.seconds.median if kernel.seconds is not None else None,
        kernel.flops.value,
        kernel.dram_bytes.value,
        precision,
        kernel.threads,
        l1_l2_bytes=measurement.l1_l2_bytes.value,
        l2_l3_bytes=measurement.l2_l3_bytes.value,
        notes=notes,
    )
    placement = place(observation, ceilings)
    facts = Facts(
        machine=machine("", "", ceilings),
        threads=kernel.threads,
        seconds=observation.seconds,
        counted=measurement,
        traffic=measurement,
        placement=placement,
    )
    return replace(kernel, precision=precision, placement=placement, findings=findings(facts))


def machine(
    name: str,
    cpu: str,
    ceilings: Sequence[Ceiling] = (),
    notes: Sequence[str] = (),
    measured: str | None = None,
) -> Machine:
    """Return a machine of which a file says no more than this."""
    return Machine(
        name=name,
        architecture="unknown",
        cpu=cpu,
        logical_cpus=None,
        isa=(),
        caches=(),
        memory_bytes=None,
        hypervisor=None,
        ceilings=tuple(ceilings),
        measured=measured,
        notes=tuple(notes),
    )


def results(described: Machine, kernels: Iterable[KernelResult], path: Path) -> Results:
    """Return the kernels of one machine as a run; ``created`` is the time of the import."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    note = f"imported from {path.name}"
    noted = replace(described, notes=(note, *described.notes))
    return Results(now, __version__, noted, _told_apart(tuple(kernels)))


def _told_apart(kernels: tuple[KernelResult, ...]) -> tuple[KernelResult, ...]:
    """Return the kernels with labels that differ: those of the same label get a number."""
    labels = [kernel.label for kernel in kernels]
    seen: dict[str, int] = {}
    found = []
    for kernel in kernels:
        if labels.count(kernel.label) > 1:
            seen[kernel.label] = seen.get(kernel.label, 0) + 1
            kernel = replace(kernel, label=f"{kernel.label}[{seen[kernel.label]}]")
        found.append(kernel)
    return tuple(found)


def scaled_note(share: float) -> str:
    """Return what must be known of a count that was scaled for the time its counter ran."""
    return f"scaled: counted {units.percent(share)} of the time"
