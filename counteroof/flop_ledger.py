"""Declared against executed FLOPs: the ledger that leads from one to the other.

Like that of bytes (``reconcile.py``), but shorter: a counter of instructions knows which function executed
what, and nothing of why the author's formula says something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .count.base import Measurement

DECLARED = "declared"
COMPILED_AWAY = "compiled away, or in the formula only"
BEYOND = "executed beyond the formula"
LIBRARY_CALL = "library call"
OWN = "executed by the kernel's own code"
UNATTRIBUTED = "not attributed to any function"
EXECUTED = "executed"
REMAINDER = "in remainders of vectorised loops"

MEANINGS = {
    DECLARED: "what the author's formula says",
    COMPILED_AWAY: "the formula counts more than the kernel's own code executed",
    BEYOND: "redundant work, or operations the formula leaves out",
    LIBRARY_CALL: "executed by a function of another library",
    OWN: "executed by the library of the kernel; nothing was declared",
    UNATTRIBUTED: "total minus the sum of the functions",
    EXECUTED: "what was executed",
    REMAINDER: "part of what was executed: in narrower instructions than others of the same source line",
}
"""What each cause means, for legends."""


@dataclass(frozen=True)
class FlopLine:
    """One step from declared to executed FLOPs.

    ``flops`` is signed; ``None`` for an unknown claim. ``where`` is the function of a library call. A
    ``part`` is no step: it is how many of the executed FLOPs were of that kind.
    """

    cause: str
    flops: int | None
    where: str | None = None
    part: bool = False


def flop_ledger(
    declared_flops: float | None, library: str | None, counted: Measurement | None
) -> tuple[FlopLine, ...]:
    """Return the lines from declared to executed FLOPs; none if the functions are not known.

    Parameters
    ----------
    declared_flops
        The claim, or ``None``.
    library
        Path of the kernel's own library.
    counted
        The measurement that has FLOPs by function.
    """
    if (
        counted is None
        or counted.flops.value is None
        or not (counted.flops_by_function or not counted.flops.value)
    ):
        return ()
    executed = round(counted.flops.value)
    calls: Counter[str] = Counter()
    own = 0
    for one in counted.flops_by_function:
        if library is not None and _same(one.library, library):
            own += one.flops
        else:
            calls[f"{one.symbol or 'code of no function'} of {Path(one.library).name}"] += one.flops
    lines = [FlopLine(DECLARED, None if declared_flops is None else round(declared_flops))]
    if declared_flops is None:
        lines.append(FlopLine(OWN, own))
    else:
        difference = own - round(declared_flops)
        lines.append(FlopLine(BEYOND if difference > 0 else COMPILED_AWAY, difference))
    lines += [FlopLine(LIBRARY_CALL, flops, name) for name, flops in calls.most_common()]
    lines.append(FlopLine(UNATTRIBUTED, executed - own - sum(calls.values())))
    narrower = [one.narrower_flops for one in counted.flops_by_function if one.narrower_flops is not None]
    steps = [line for line in lines if line.flops or line.cause == DECLARED]
    return (
        *steps,
        FlopLine(EXECUTED, executed),
        *([FlopLine(REMAINDER, sum(narrower), part=True)] if any(narrower) else []),
    )


def check(lines: Iterable[FlopLine]) -> str | None:
    """Return what is wrong with a ledger of FLOPs, or ``None`` if it begins, ends and adds up as it must."""
    steps = [line for line in lines if not line.part]
    if len(steps) < 2 or steps[0].cause != DECLARED or steps[-1].cause != EXECUTED:
        return f"a ledger begins with {DECLARED!r} and ends with {EXECUTED!r}"
    if any(line.flops is None for line in steps[1:]):
        return "only what is declared may be unknown"
    total = sum(line.flops or 0 for line in steps[:-1])
    if total != steps[-1].flops:
        return f"the lines add up to {total}, but executed says {steps[-1].flops}"
    return None


def _same(one: str, other: str) -> bool:
    try:
        return one == other or Path(one).resolve() == Path(other).resolve()
    except OSError:
        return False
