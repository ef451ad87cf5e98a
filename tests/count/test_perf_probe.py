"""Zeros are counts only of events that can count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.count.base import Count, Measurement
from counteroof.count.events import EventFact
from counteroof.count.perf_collect import Sources
from counteroof.count.perf_open import SOFTWARE, Event
from counteroof.count.perf_plan import PerfPlan, Source, Term
from counteroof.count.perf_probe import confirmed
from counteroof.count.select import nothing_counted

from .test_perf import needs_software_events, on_one_processor

# moves with the work: it takes fresh pages; and never moves: nobody migrates a thread of one processor
FAULTS = Term(SOFTWARE[1], 1, EventFact(name="page-faults", precision="f64"))
STILL = Term(Event("cpu-migrations", "software", 1, 4), 1, EventFact(name="still", precision="f64"))


@pytest.fixture(autouse=True)
def software() -> None:
    needs_software_events()


def zeros() -> Measurement:
    count = Count(0, "counted", "an event")
    return replace(nothing_counted("perf", "not asked"), flops=count, l1_l2_bytes=count, l2_l3_bytes=count)


def sources(flops: Term, l1_l2: Term, l2_l3: Term) -> Sources:
    caches = {name: Source(name, (term,)) for name, term in (("l1_l2", l1_l2), ("l2_l3", l2_l3))}
    return Sources(PerfPlan("software", True, ("software",), flops=(flops,), **caches), None, None)


def test_events_that_never_move_have_no_zeros_and_the_others_keep_theirs() -> None:
    with on_one_processor():
        found = confirmed(sources(STILL, FAULTS, STILL), zeros())
    assert found.flops.value is None
    assert found.flops.reason == "an event can be opened but stays at 0, also for work that moves it"
    assert (found.l1_l2_bytes.value, found.l1_l2_bytes.status) == (0, "counted")
    assert found.l2_l3_bytes.value is None


def test_flops_that_are_none_of_the_works_keep_their_zero() -> None:
    alone = replace(STILL, fact=replace(STILL.fact, precision="f32"))
    with on_one_processor():
        assert confirmed(sources(alone, FAULTS, FAULTS), zeros()).flops.value == 0


def test_where_nothing_is_zero_nothing_is_tried() -> None:
    def never(event: Event, pid: int, leader: int, enabled: bool) -> int:
        raise AssertionError("opened")

    seven = Count(7, "counted", "an event")
    some = replace(zeros(), flops=seven, l1_l2_bytes=seven, l2_l3_bytes=seven)
    assert confirmed(sources(STILL, STILL, STILL), some, never) is some


def test_an_event_that_cannot_be_tried_again_says_why() -> None:
    found = confirmed(sources(STILL, FAULTS, FAULTS), zeros(), lambda *which: -16)
    assert found.flops.value is None
    assert "the PMU is taken" in (found.flops.reason or "")
