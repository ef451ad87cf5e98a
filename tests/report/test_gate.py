"""A check as a table and as JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from counteroof import names
from counteroof.check import Report, check
from counteroof.count.base import Count
from counteroof.report import gate

from ..factories import failed, result, results, triad

ODD = "f<&\"'>\x1b\u0007"


def report() -> Report:
    spoiled = replace(triad(), instructions=Count(7, "instrumented", "engine"))
    before = results(result("held"), result(ODD), result("crashed"))
    after = results(result("held"), result(ODD, counted=spoiled), failed("crashed"), result("fresh"))
    return check(after, before)


def test_the_table_has_what_does_not_hold_and_what_is_new() -> None:
    text = gate.text(report())
    rows = [line.split()[:3] for line in text.partition("────\n")[2].splitlines() if line][:-1]
    assert rows == [
        ["f<&\"'>??", "instructions", "moved"],
        ["crashed", "run", "failed"],
        ["fresh", "run", "new"],
    ]
    assert "123_456" in text
    assert text.endswith("2 of 17 numbers of 3 kernels do not hold; 1 kernel without a baseline\n")
    assert "baseline: 2-core Zen 5 VM. counteroof 0.1.0, 2026-01-02T03:04:05+00:00" in text


def test_everything_is_shown_if_asked_for() -> None:
    text = gate.text(report(), everything=True)
    assert text.count("\nheld ") == 8


def test_a_check_that_holds_needs_no_table() -> None:
    text = gate.text(check(results(result()), results(result())))
    assert text.endswith("all of 8 numbers of 1 kernel hold\n")
    assert "quantity" not in text


def test_what_was_allowed_is_printed() -> None:
    found = check(results(result(threads=2)), results(result()), allow=["threads"])
    assert "compared in spite of triad: threads 1 against 2" in gate.text(found)


def test_junit_has_a_case_for_each_quantity_of_each_kernel() -> None:
    found = report()
    root = ElementTree.fromstring(gate.junit(found))
    (suite,) = root
    assert root.tag == "testsuites"
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "18", "failures": "1", "errors": "1", "skipped": "1"}
    cases = suite.findall("testcase")
    assert len(cases) == len(found.items) == 18
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 18
    (failure,) = suite.iter("failure")
    assert failure.get("message") == "123_456 in the baseline, now 7; allowed: exactly"
    (error,) = suite.iter("error")
    assert "crash: SIGSEGV" in str(error.get("message"))
    assert [case.get("name") for case in cases if case.find("skipped") is not None] == ["run"]


def test_junit_is_wellformed_whatever_the_name() -> None:
    root = ElementTree.fromstring(gate.junit(report()))
    assert "counteroof.f<&\"'>??" in {case.get("classname") for case in root.iter("testcase")}


def test_many_names_are_made_readable_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = names.demangle
    monkeypatch.setattr(names, "demangle", lambda all_: calls.append(1) or real(all_))
    run = results(*(result(f"_Z{len(f'k{i}')}k{i}i") for i in range(20)))
    found = check(run, run)
    text = gate.junit(found)
    assert 'classname="counteroof.k7(int)"' in text
    gate.text(found, everything=True)
    assert len(calls) == 2
