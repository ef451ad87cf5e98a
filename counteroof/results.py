"""The results file, ``counteroof.results/1``: the contract between a run and everything that comes after it.

History of the format:

1. First version.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import flop_ledger, jsonio, reconcile
from .count.base import (
    ArrayTraffic,
    Count,
    InstructionTraffic,
    LineTraffic,
    Measurement,
    ReuseDistances,
    unavailable,
)
from .diagnose.base import Finding
from .errors import Problem, ResultsError
from .flop_ledger import FlopLine
from .machine.model import Machine
from .reconcile import LedgerLine
from .roofline import Placement
from .run.outcome import Failure
from .run.timing import PageFaults

SCHEMA = "counteroof.results/1"


@dataclass(frozen=True)
class Seconds:
    """Seconds of one call: every sample, and their median."""

    median: float
    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples or min(self.samples) <= 0 or self.median <= 0:
            raise ValueError("seconds need at least one sample, and all must be positive")

    @classmethod
    def of(cls, samples: tuple[float, ...]) -> Seconds:
        """Return the samples with their median."""
        return cls(statistics.median(samples), samples)


@dataclass(frozen=True)
class Claim:
    """FLOPs and bytes of one call as declared, and where the claim was made."""

    flops: float | int | None
    bytes: float | int | None
    source: str = ""


@dataclass(frozen=True)
class Chosen:
    """The counters that placed the dot; ``None`` where no counter had the quantity."""

    flops: str | None
    bytes: str | None


@dataclass(frozen=True)
class ArrayResult:
    """What one array moved in one call.

    ``line_utilisation`` is the share that the program loaded or stored of the lines it touched, ``refetches``
    the number of lines fetched again, ``huge_pages`` whether it lies on pages of 2 MiB, ``evaded_bytes``
    what was written whole and not read for it, ``prefetched_bytes`` what hardware prefetchers read, and
    ``prefetched_unused_bytes`` what of that was not used; ``None`` if not known. ``tlb_misses`` and
    ``page_walks`` are translations that the TLB of level 1, or any, did not have; ``None`` if nothing
    translated. ``reuse`` is there if it was asked for.
    """

    name: str
    bytes: int | None
    dram_read_bytes: int
    dram_write_bytes: int
    write_allocate_bytes: int
    line_utilisation: float | None = None
    refetches: int | None = None
    huge_pages: bool | None = None
    evaded_bytes: int | None = None
    tlb_misses: int | None = None
    page_walks: int | None = None
    reuse: ReuseDistances | None = None
    prefetched_bytes: int | None = None
    prefetched_unused_bytes: int | None = None

    @classmethod
    def of(cls, traffic: ArrayTraffic, line_bytes: int | None) -> ArrayResult:
        """Return the traffic of one array as the results file has it."""
        again = traffic.read_again_bytes
        return cls(
            traffic.name,
            traffic.bytes,
            traffic.dram_read_bytes,
            traffic.dram_write_bytes,
            traffic.write_allocate_bytes,
            line_utilisation=_utilisation(traffic),
            refetches=again // line_bytes if line_bytes else None,
            huge_pages=traffic.huge_pages,
            evaded_bytes=traffic.evaded_bytes,
            tlb_misses=traffic.tlb_misses,
            page_walks=traffic.page_walks,
            reuse=traffic.reuse,
            prefetched_bytes=traffic.prefetched_bytes,
            prefetched_unused_bytes=traffic.prefetched_unused_bytes,
        )


def _utilisation(traffic: ArrayTraffic) -> float | None:
    if traffic.unused_bytes is None:
        return None
    lines = (traffic.touched_read_bytes or 0) + (traffic.touched_write_bytes or 0)
    return 1 - traffic.unused_bytes / lines if lines else None


@dataclass(frozen=True)
class SourceLine:
    """What one line of source code did in one call.

    Without debug information ``line`` is ``None`` and ``file`` is the library: then it is all of a function.
    ``symbol`` is the function the code is in, ``None`` if it is in several, or not known.
    """

    file: str
    line: int | None
    instructions: int | None
    flops: int | None
    dram_bytes: int | None
    dram_read_bytes: int | None = None
    dram_write_bytes: int | None = None
    symbol: str | None = None

    @classmethod
    def of(cls, traffic: LineTraffic) -> SourceLine:
        """Return the traffic of one line as the results file has it."""
        return cls(
            traffic.file,
            traffic.line,
            traffic.instructions,
            traffic.flops,
            traffic.dram_bytes,
            traffic.dram_read_bytes,
            traffic.dram_write_bytes,
            traffic.symbol,
        )


@dataclass(frozen=True, kw_only=True)
class KernelResult:
    """Everything known of one kernel at one size; all numbers are those of one call.

    ``label`` tells the sizes of a sweep apart. ``checked`` is whether the result agreed with a reference,
    ``None`` if there was none. ``clock_hz`` is the core clock right after the timed calls,
    ``processor_share`` their seconds on a processor over those of the clock. The traffic of arrays, lines
    and instructions is in ``arrays``, ``lines`` and ``instruction_table``, never in ``counters``; the
    latter two are there with ``--detail lines``.
    """

    name: str
    label: str
    library: str
    symbol: str
    params: Mapping[str, float | int] = field(default_factory=dict)
    threads: int = 1
    precision: str | None = None
    cache: str = "warm"
    checked: bool | None = None
    seconds: Seconds | None = None
    clock_hz: float | None = None
    page_faults: PageFaults | None = None
    processor_share: float | None = None
    declared: Claim | None = None
    counters: Mapping[str, Measurement] = field(default_factory=dict)
    chosen: Chosen = Chosen(None, None)
    placement: Placement | None = None
    ledger: tuple[LedgerLine, ...] = ()
    flop_ledger: tuple[FlopLine, ...] = ()
    arrays: tuple[ArrayResult, ...] = ()
    lines: tuple[SourceLine, ...] = ()
    instruction_table: tuple[InstructionTraffic, ...] = ()
    findings: tuple[Finding, ...] = ()
    error: Failure | None = None

    def __post_init__(self) -> None:
        for name in (self.chosen.flops, self.chosen.bytes):
            if name is not None and name not in self.counters:
                raise ValueError(f"chosen counter {name!r} is not among {sorted(self.counters)}")
        if self.ledger and (fault := reconcile.check(self.ledger)):
            raise ValueError(f"ledger: {fault}")
        if self.flop_ledger and (fault := flop_ledger.check(self.flop_ledger)):
            raise ValueError(f"ledger of FLOPs: {fault}")

    @property
    def flops(self) -> Count:
        """Executed FLOPs by the counter that placed the dot."""
        if self.chosen.flops is None:
            return self._missing("flops")
        return self.counters[self.chosen.flops].flops

    @property
    def dram_bytes(self) -> Count:
        """Bytes read from and written to memory by the counter that placed the dot."""
        if self.chosen.bytes is None:
            return self._missing("dram_read_bytes")
        return reconcile.dram_bytes(self.counters[self.chosen.bytes])

    def _missing(self, quantity: str) -> Count:
        for measurement in self.counters.values():
            count: Count = getattr(measurement, quantity)
            if count.value is None:
                return count
        return unavailable("none", self.error.message if self.error else "no counter was run")


@dataclass(frozen=True)
class RoofSample:
    """A roof that others move, as measured between two kernels: when, after how many kernels, and what."""

    measured: str
    kernels: int
    ceiling: str
    threads: int
    value: float
    median: float | None = None
    """Of its samples, the highest of which is ``value``; ``None`` in files from before it was kept."""


@dataclass(frozen=True)
class Results:
    """What one run found: the machine with its ceilings, and every kernel, failed ones included.

    Of a roof in ``roof_samples`` the machine has the highest, and each kernel was held against the higher of
    the two around it.
    """

    created: str
    counteroof: str
    machine: Machine
    kernels: tuple[KernelResult, ...]
    roof_samples: tuple[RoofSample, ...] = ()

    @property
    def failed(self) -> tuple[KernelResult, ...]:
        """Kernels whose measurement ended early."""
        return tuple(kernel for kernel in self.kernels if kernel.error is not None)


def to_json(results: Results) -> dict[str, Any]:
    """Return the results as they stand in the file.

    Raises
    ------
    ValueError
        If a number is not finite; the text has its path.
    """
    data: dict[str, Any] = {"schema": SCHEMA, **jsonio.to_json(results)}
    for kernel in data["kernels"]:
        for measurement in kernel["counters"].values():
            del measurement["counter"]  # the key says it
            for name in ("arrays", "lines", "instruction_table"):
                del measurement[name]
        for finding in kernel["findings"]:
            finding["try"] = finding.pop("try_")
    return data


def from_json(data: object, where: str = "results") -> Results:
    """Return the results in ``data``.

    Raises
    ------
    ResultsError
        With all mistakes and their paths.
    """
    if not isinstance(data, dict):
        raise ResultsError([Problem(where, jsonio.shown(data), "an object")])
    if data.get("schema") != SCHEMA:
        found = jsonio.shown(data["schema"]) if "schema" in data else "nothing"
        raise ResultsError([Problem(f"{where}: schema", found, f'"{SCHEMA}"')])
    problems: list[Problem] = []
    body = {key: value for key, value in data.items() if key != "schema"}
    body["kernels"] = _restore(body.get("kernels"))
    results = jsonio.from_json(Results, body, "", problems)
    if results is None:
        raise ResultsError([dataclasses.replace(one, where=f"{where}: {one.where}") for one in problems])
    return results


def _restore(kernels: object) -> object:
    """Undo what :func:`to_json` renamed and left out, wherever the shape allows it."""
    if not isinstance(kernels, list):
        return kernels
    restored = []
    for kernel in kernels:
        if isinstance(kernel, dict):
            kernel = dict(kernel)
            if isinstance(counters := kernel.get("counters"), dict):
                kernel["counters"] = {
                    name: {**one, "counter": name} if isinstance(one, dict) else one
                    for name, one in counters.items()
                }
            if isinstance(findings := kernel.get("findings"), list):
                kernel["findings"] = [
                    {("try_" if key == "try" else key): value for key, value in one.items()}
                    if isinstance(one, dict)
                    else one
                    for one in findings
                ]
        restored.append(kernel)
    return restored


def save(results: Results, path: Path) -> None:
    """Write ``results`` to ``path``, which holds either its old content or all of the new."""
    jsonio.write_file(path, to_json(results))


def load(path: Path) -> Results:
    """Return the results in a file.

    Raises
    ------
    BadInput
        If the file cannot be read or is not JSON; as :class:`ResultsError` with all mistakes if it is not
        what the schema asks for.
    """
    return from_json(jsonio.read_file(path, "results file"), str(path))
