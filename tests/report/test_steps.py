"""A ledger as steps: running sums, totals from nothing, small causes together."""

from __future__ import annotations

from counteroof.reconcile import LedgerLine
from counteroof.report.steps import OTHERS, Step, steps


def lines(*pairs: tuple[str, int | None]) -> tuple[LedgerLine, ...]:
    return tuple(LedgerLine(cause, size) for cause, size in pairs)


def test_steps_run_from_total_to_total() -> None:
    found = steps(lines(("declared", 100), ("write-allocate", 50), ("stayed in cache", -30), ("actual", 120)))
    assert found == (
        Step("total", "declared", None, 100, 0, 100),
        Step("more", "write-allocate", None, 50, 100, 150),
        Step("less", "stayed in cache", None, -30, 150, 120),
        Step("total", "actual", None, 120, 0, 120),
    )


def test_small_causes_become_one_step_and_the_sum_stays() -> None:
    found = steps(
        lines(("declared", 10**6), ("write-allocate", 3), ("stayed in cache", -1), ("actual", 10**6 + 2))
    )
    assert [(one.cause, one.bytes) for one in found] == [
        ("declared", 10**6),
        (OTHERS, 2),
        ("actual", 10**6 + 2),
    ]


def test_a_single_small_cause_keeps_its_name() -> None:
    found = steps(
        (LedgerLine("declared", 10**6), LedgerLine("write-allocate", 3, "a"), LedgerLine("actual", 10**6 + 3))
    )
    assert found[1].name == "write-allocate: a"


def test_the_modelled_total_stands_only_where_hardware_says_something_else() -> None:
    same = lines(("declared", 100), ("modelled", 100), ("actual", 100))
    assert [one.cause for one in steps(same)] == ["declared", "actual"]
    other = lines(("declared", 100), ("modelled", 100), ("unexplained", 7), ("actual", 107))
    assert [(one.cause, one.start, one.end) for one in steps(other)] == [
        ("declared", 0, 100),
        ("modelled", 0, 100),
        ("unexplained", 100, 107),
        ("actual", 0, 107),
    ]


def test_what_is_not_known_is_no_step_of_nothing() -> None:
    found = steps(lines(("declared", None), ("actual", None)))
    assert [(one.kind, one.bytes) for one in found] == [("unknown", None), ("unknown", None)]
    assert steps(()) == ()
