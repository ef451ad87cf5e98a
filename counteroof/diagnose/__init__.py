"""Why a kernel is where it is and what would move it: one function a rule, one list of rules.

A rule takes the facts of one kernel at one size and gives the findings that their numbers support. It
measures nothing, and where a number is missing it is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from . import arithmetic, claims, doubts, inner, memory, pages, stacked, threads, waiting
from .base import Facts, Finding
from .fine import nothing_found

Rule = Callable[[Facts], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *memory.RULES,
    *inner.RULES,
    *pages.RULES,
    *arithmetic.RULES,
    *waiting.RULES,
    *threads.RULES,
    *doubts.RULES,
    *stacked.RULES,
    *claims.RULES,
)

SEVERITIES = ("cost", "doubt", "note", "claim")
"""In the order of a report."""


def findings(facts: Facts, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """Return what the rules find, what gains most first; claims that are wrong come last.

    A kernel in which nothing costs time is told so, if it was timed; and one in which far more is missing
    than was found.
    """
    found = [finding for rule in rules for finding in rule(facts)]
    if any(one.rule == waiting.RECURRENCE for one in found) and waiting.keep_scalar(facts):
        found = [one for one in found if one.rule != arithmetic.NOT_VECTORISED]
    said = nothing_found(facts, [one for one in found if one.severity == "cost"])
    if said is not None:
        found.append(said)
    return tuple(sorted(found, key=lambda one: (SEVERITIES.index(one.severity), -(one.gain or 0.0))))
