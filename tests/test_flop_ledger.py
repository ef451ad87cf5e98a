"""From declared to executed FLOPs: the lines add up, and say what the counter can tell."""

from __future__ import annotations

import pytest

from counteroof.count.base import FunctionFlops
from counteroof.flop_ledger import (
    BEYOND,
    COMPILED_AWAY,
    DECLARED,
    EXECUTED,
    LIBRARY_CALL,
    OWN,
    REMAINDER,
    UNATTRIBUTED,
    FlopLine,
    check,
    flop_ledger,
)
from tests import factories

LIBRARY = "/lib/libkernels.so"


def lines(declared: float | None, *functions: FunctionFlops, executed: int | None = None) -> list[FlopLine]:
    total = sum(one.flops for one in functions) if executed is None else executed
    found = flop_ledger(declared, LIBRARY, factories.measurement(total, flops_by_function=functions))
    assert check(found) is None
    return list(found)


def test_a_right_claim_has_nothing_between() -> None:
    assert lines(100, FunctionFlops(LIBRARY, "f", 100)) == [FlopLine(DECLARED, 100), FlopLine(EXECUTED, 100)]


def test_what_the_compiler_took_away() -> None:
    found = lines(100, FunctionFlops(LIBRARY, "f", 40), FunctionFlops(LIBRARY, "helper", 20))
    assert found[1:-1] == [FlopLine(COMPILED_AWAY, -40)]


def test_library_calls_are_told_by_function_and_are_not_the_kernels_own_work() -> None:
    libm = "/usr/lib/libm.so.6"
    found = lines(
        100, FunctionFlops(LIBRARY, "f", 110), FunctionFlops(libm, "expf", 900), FunctionFlops(libm, None, 5)
    )
    assert found == [
        FlopLine(DECLARED, 100),
        FlopLine(BEYOND, 10),
        FlopLine(LIBRARY_CALL, 900, "expf of libm.so.6"),
        FlopLine(LIBRARY_CALL, 5, "code of no function of libm.so.6"),
        FlopLine(EXECUTED, 1015),
    ]


def test_without_a_claim_the_own_work_is_a_step() -> None:
    found = lines(None, FunctionFlops(LIBRARY, "f", 30))
    assert found == [FlopLine(DECLARED, None), FlopLine(OWN, 30), FlopLine(EXECUTED, 30)]


def test_remainders_are_a_part_of_what_was_executed() -> None:
    found = lines(100, FunctionFlops(LIBRARY, "f", 100, 7), FunctionFlops(LIBRARY, "g", 0, 0))
    assert found[-1] == FlopLine(REMAINDER, 7, part=True)
    assert lines(100, FunctionFlops(LIBRARY, "f", 100, 0))[-1].cause == EXECUTED


def test_what_belongs_to_no_function_is_said() -> None:
    assert FlopLine(UNATTRIBUTED, 3) in lines(100, FunctionFlops(LIBRARY, "f", 100), executed=103)


def test_counters_that_know_no_functions_have_no_ledger() -> None:
    assert flop_ledger(100, LIBRARY, None) == ()
    assert flop_ledger(100, LIBRARY, factories.measurement(100)) == ()
    assert flop_ledger(100, LIBRARY, factories.measurement(None)) == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([FlopLine(DECLARED, 1)], "begins with"),
        ([FlopLine(DECLARED, 1), FlopLine(BEYOND, 2), FlopLine(EXECUTED, 4)], "add up to 3"),
        ([FlopLine(DECLARED, 1), FlopLine(BEYOND, None), FlopLine(EXECUTED, 1)], "unknown"),
    ],
)
def test_ledgers_that_do_not_add_up_are_refused(wrong: list[FlopLine], said: str) -> None:
    assert said in (check(wrong) or "")
