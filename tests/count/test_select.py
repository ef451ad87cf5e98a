"""Which counter a run uses, and what it says of the others."""

from __future__ import annotations

import pytest

from counteroof.count import select
from counteroof.count.select import Availability, Choice, choose, nothing_counted
from counteroof.errors import BadInput


def fixed(name: str, task: str | None, reason: str = "because") -> dict[str, object]:
    return {name: lambda: Availability(name, task, reason)}


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = fixed("likwid", None, "no LIKWID") | fixed("perf", "m:perf") | fixed("instrument", "m:engine")
    monkeypatch.setattr(select, "COUNTERS", counters)


@pytest.mark.usefixtures("three")
def test_auto_takes_the_first_usable_counter_and_says_what_it_passed_over() -> None:
    choice = choose("auto")
    assert choice.tasks() == ("m:perf",)
    assert choice.notes == ("counters passed over: likwid (no LIKWID)",)


@pytest.mark.usefixtures("three")
def test_several_counters_run_in_the_order_asked_for_once_each() -> None:
    assert choose("instrument, perf,perf").tasks() == ("m:engine", "m:perf")
    assert choose("instrument,perf").notes == ()


@pytest.mark.usefixtures("three")
def test_a_counter_that_cannot_be_used_is_refused_with_its_reason_and_the_usable_ones() -> None:
    with pytest.raises(
        BadInput, match="counter likwid cannot be used: no LIKWID; usable here: perf, instrument"
    ):
        choose("likwid")


@pytest.mark.parametrize("text", ["perv", "", "perf,,instrument", "auto,perf"])
def test_an_unknown_counter_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(BadInput, match="expected auto or one of likwid, perf, instrument"):
        choose(text)


def test_where_no_counter_is_usable_auto_says_why_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = fixed("perf", None, "no PMU") | fixed("instrument", None, "not x86-64")
    monkeypatch.setattr(select, "COUNTERS", counters)
    choice = choose("auto")
    assert choice.counters == ()
    assert choice.passed_over == {"perf": "no PMU", "instrument": "not x86-64"}


def test_the_engine_is_for_x86_64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    answer = select.instrument()
    assert not answer.usable
    assert answer.reason == "the engine runs x86-64 code only, this is aarch64"


def test_hardware_counters_are_refused_with_what_was_found_here() -> None:
    assert select.perf().reason.startswith("not supported by counteroof yet; here: ")
    assert select.likwid().reason.startswith("not supported by counteroof yet; installed here: ")


def test_a_counter_of_one_thread_refuses_a_kernel_of_two_instead_of_counting_half() -> None:
    choice = Choice((Availability("instrument", "m:engine", "here", max_threads=1),), {})
    assert choice.tasks(1) == ("m:engine",)
    assert choice.refused(1) == ()
    assert choice.tasks(2) == ()
    (refused,) = choice.refused(2)
    assert refused.flops.value is None
    assert refused.flops.reason == (
        "instrument counts kernels of 1 thread only so far, this one has 2; count it with --threads 1"
    )


def test_a_counter_that_could_not_count_leaves_no_zeros() -> None:
    measurement = nothing_counted("perf", "no PMU")
    assert measurement.flops.value is None
    assert measurement.dram_read_bytes.reason == "no PMU"
