"""Which counter a run uses, and what it says of the others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from counteroof.count import select
from counteroof.count.select import QUANTITIES, Availability, Choice, choose, nothing_counted
from counteroof.errors import BadInput


def fixed(
    name: str, task: str | None, reason: str = "because", quantities: Iterable[str] = QUANTITIES
) -> dict[str, object]:
    return {name: lambda events_file: Availability(name, task, reason, quantities=frozenset(quantities))}


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


def test_auto_takes_flops_and_bytes_each_from_the_first_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counters = (
        fixed("likwid", None, "no LIKWID")
        | fixed("perf", "m:perf", "needs paranoid 0 for bytes", ["FLOPs"])
        | fixed("instrument", "m:engine")
    )
    monkeypatch.setattr(select, "COUNTERS", counters)
    choice = choose("auto")
    assert choice.tasks() == ("m:perf", "m:engine")
    assert choice.passed_over == {"likwid": "no LIKWID", "perf for bytes": "needs paranoid 0 for bytes"}


def test_auto_passes_over_a_counter_that_opens_but_has_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = fixed("perf", "m:perf", "instructions only", []) | fixed("instrument", "m:engine")
    monkeypatch.setattr(select, "COUNTERS", counters)
    assert choose("auto").tasks() == ("m:engine",)
    assert choose("auto").passed_over == {"perf": "instructions only"}
    assert choose("perf").tasks() == ("m:perf",)


def test_perf_is_what_opening_its_events_shows() -> None:
    answer = select.perf()
    assert answer.quantities <= QUANTITIES
    assert answer.usable or not answer.quantities
    if not answer.usable:
        assert "no FLOPs: " in answer.reason
        assert "no DRAM bytes: " in answer.reason


def test_an_events_file_with_mistakes_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("family = 1")
    with pytest.raises(BadInput, match=r"own\.toml: family"):
        choose("auto", path)


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
