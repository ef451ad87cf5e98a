"""What running one kernel gave, as its entry in the results: counters chosen, dot placed, bytes explained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import reconcile
from .diagnose import findings
from .diagnose.base import Facts, Shape, Size
from .diagnose.doubts import unmeasured
from .flop_ledger import flop_ledger
from .results import ArrayResult, Chosen, Claim, KernelResult, Seconds, SourceLine
from .roofline import Observation, Placement, comparable, place, precision_of
from .spec import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .count.base import Count, Measurement
    from .formula import Formula
    from .machine.model import Machine
    from .run.execute import KernelRun
    from .spec import KernelCase


def assemble(
    run: KernelRun, machine: Machine, others: Iterable[KernelRun] = (), *, own_caches: bool = False
) -> KernelResult:
    """Return the result of one kernel, whatever there is of it.

    The first counter that has a quantity delivers it to the placement. The bytes are explained by the first
    counter that knows them by array. A formula that a finding proposes fits ``others``, too: the same kernel
    at other sizes. With ``own_caches``, those that are modelled are of the machine that ran it, as it states
    them.
    """
    case, spec = run.case, run.case.spec
    by_name = {measurement.counter: measurement for measurement in run.measurements}
    flops = _with_flops(run)
    moved = next((one for one in run.measurements if reconcile.dram_bytes(one).value is not None), None)
    explained = next((one for one in run.measurements if one.arrays), None)
    by_function = next((one for one in run.measurements if one.flops_by_function), None)
    traced = next((one for one in run.measurements if one.lines), None)
    seconds = Seconds.of(tuple(run.timing.samples)) if run.timing is not None else None
    declared = Claim(case.declared_flops, case.declared_bytes, spec.declared.source)
    claimed = declared.flops is not None or declared.bytes is not None
    line_bytes = machine.caches[0].line_bytes if machine.caches else None
    placement = None
    if run.measurements or seconds is not None:
        placement = _place(run, seconds, flops, moved, machine)
    ledger = _ledger(declared.bytes, explained, moved)
    result = KernelResult(
        name=spec.name,
        label=case.label,
        library=run.library or _named_library(run),
        symbol=spec.symbol,
        params=dict(case.params),
        threads=spec.threads,
        # as claimed; what was executed stands in the placement
        precision=spec.precision or (placement.precision if placement is not None else None),
        cache=spec.cache,
        checked=run.checked,
        seconds=seconds,
        clock_hz=run.timing.clock_hz if run.timing is not None else None,
        page_faults=run.timing.page_faults if run.timing is not None else None,
        processor_share=run.timing.processor_share if run.timing is not None else None,
        declared=declared if claimed else None,
        counters={
            name: replace(one, arrays=(), lines=(), instruction_table=()) for name, one in by_name.items()
        },
        chosen=Chosen(flops.counter if flops else None, moved.counter if moved else None),
        placement=placement,
        ledger=ledger,
        flop_ledger=flop_ledger(declared.flops, run.library, by_function),
        arrays=tuple(ArrayResult.of(one, line_bytes) for one in explained.arrays) if explained else (),
        lines=tuple(SourceLine.of(one) for one in traced.lines) if traced else (),
        instruction_table=traced.instruction_table if traced else (),
        error=run.failure,
    )
    if run.failure is not None:
        return result
    facts = Facts(
        machine=replace(
            machine,
            ceilings=comparable(machine.ceilings, machine.caches)[0],
            access=comparable(machine.access, machine.caches)[0],
        ),
        threads=spec.threads,
        cache=spec.cache,
        params=result.params,
        seconds=_telling(seconds, result.processor_share),
        clock_hz=result.clock_hz,
        page_faults=result.page_faults,
        processor_share=result.processor_share,
        declared_flops=declared.flops,
        declared_bytes=declared.bytes,
        flops_formula=_text(spec.declared.flops),
        bytes_formula=_text(spec.declared.bytes),
        shapes=_shapes(case),
        counted=_with_classes(flops, run.measurements),
        traffic=explained,
        placement=placement,
        ledger=ledger,
        other_sizes=tuple(
            Size(one.case.params, counted.flops.value)
            for one in others
            if (counted := _with_flops(one)) is not None and counted.flops.value is not None
        ),
    )
    if own_caches and placement is not None and (said := unmeasured(facts)) is not None:
        result = replace(result, placement=replace(placement, notes=(*placement.notes, said)))
    return replace(result, findings=findings(facts))


def _with_flops(run: KernelRun) -> Measurement | None:
    """Return the first measurement that has FLOPs."""
    return next((one for one in run.measurements if one.flops.value is not None), None)


def _telling(seconds: Seconds | None, processor_share: float | None) -> float | None:
    """Return the seconds that findings are about: of the median call, whose share of a processor is known.

    Else of the best sample, as roofs are: what else runs on the machine only adds to it.
    """
    if seconds is None:
        return None
    return seconds.median if processor_share is not None else min(seconds.samples)


def _text(formula: Formula | None) -> str | None:
    return None if formula is None else formula.text


def _shapes(case: KernelCase) -> tuple[Shape, ...]:
    """Return the kernel's arrays as the rules need them."""
    return tuple(
        Shape(
            one.name,
            one.dtype,
            DTYPES[one.dtype][1],
            one.shape_at(case.params),
            tuple(extent.text for extent in one.shape),
        )
        for one in case.spec.arrays
    )


def _with_classes(flops: Measurement | None, measurements: tuple[Measurement, ...]) -> Measurement | None:
    """Return the measurement that has FLOPs by class; that which placed the dot goes first."""
    return next((one for one in (flops, *measurements) if one is not None and one.flops_by), flops)


def _place(
    run: KernelRun,
    seconds: Seconds | None,
    flops: Measurement | None,
    moved: Measurement | None,
    machine: Machine,
) -> Placement:
    classes = next(
        (one.flops_by for one in (flops, *run.measurements) if one is not None and one.flops_by), ()
    )
    precision, notes = precision_of(classes, run.case.spec.precision)
    ceilings, left_out = comparable(machine.ceilings, machine.caches)
    observation = Observation(
        seconds.median if seconds is not None else None,
        flops.flops.value if flops is not None else None,
        reconcile.dram_bytes(moved).value if moved is not None else None,
        precision,
        run.case.spec.threads,
        run.case.declared_flops,
        run.case.declared_bytes,
        _modelled(run, "l1_l2_bytes"),
        _modelled(run, "l2_l3_bytes"),
        (*notes, *left_out),
    )
    return place(observation, ceilings)


def _modelled(run: KernelRun, quantity: str) -> float | None:
    """Return the bytes across a boundary as the model counts them, which is how the roofs of caches do."""
    counts: list[Count] = [getattr(one, quantity) for one in run.measurements]
    return next((one.value for one in counts if one.status == "modelled"), None)


def _ledger(
    declared: float | None, explained: Measurement | None, moved: Measurement | None
) -> tuple[reconcile.LedgerLine, ...]:
    """Return the ledger; where another counter than the explaining one placed the dot, its bytes are last."""
    if moved is None or moved is explained:
        return reconcile.ledger(declared, explained)
    actual = reconcile.dram_bytes(moved)
    if explained is None and actual.status == "modelled":
        return reconcile.ledger(declared, moved)
    return reconcile.ledger(declared, explained, actual)


def _named_library(run: KernelRun) -> str:
    """Return the library as the spec names it, for a kernel that was never loaded."""
    library = run.case.spec.library
    return library.path or ", ".join(library.sources)
