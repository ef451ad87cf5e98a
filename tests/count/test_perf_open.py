"""Groups, passes and refusals, with software events for real and with a kernel that refuses on purpose."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from counteroof.count import perf_open
from counteroof.count.perf_open import (
    KERNEL,
    SOFTWARE,
    Counted,
    Event,
    Pass,
    as_count,
    count_pass,
    never_ran,
    open_event,
    open_own,
    open_pass,
    plan_passes,
    refusal,
)
from counteroof.native import ffi, lib

CYCLES = Event("cycles", "cpu", 4, 0x3C)
DRAM = Event("cas_count_read", "uncore_imc_0", 14, 0x304, cpu=0, exclude=0)
TASK_CLOCK, PAGE_FAULTS = SOFTWARE
KERNEL_VERSION = tuple(map(int, platform.release().split("-")[0].split(".")[:2]))


def core_event(number: int) -> Event:
    return Event(f"event {number}", "cpu", 4, number)


class Counters:
    """A kernel whose PMUs have so many counters each, and that refuses some events."""

    def __init__(self, counters: int, refuses: dict[str, int] | None = None) -> None:
        self.counters, self.refuses = counters, refuses or {}
        self.sizes: dict[int, int] = {}

    def __call__(self, event: Event, pid: int, leader: int, enabled: bool) -> int:
        if event.name in self.refuses:
            return -self.refuses[event.name]
        if leader >= 0 and self.sizes[leader] == self.counters:
            return -errno.EINVAL
        descriptor = os.open(os.devnull, os.O_RDONLY)
        if leader < 0:
            self.sizes[descriptor] = 1
        else:
            self.sizes[leader] += 1
        return descriptor


@pytest.fixture
def software() -> None:
    got = open_event(TASK_CLOCK, 0, -1, False)
    if got < 0:
        pytest.skip(f"software events are refused here: {refusal(TASK_CLOCK, -got)}")
    lib.perf_close(got)


def names(passes: tuple[Pass, ...]) -> list[list[list[str]]]:
    return [[[event.name for event in group] for group in one.groups] for one in passes]


# -- what fits together


def test_what_fits_on_the_counters_is_one_group_and_the_rest_further_passes() -> None:
    passes, refused = plan_passes([core_event(number) for number in range(5)], Counters(2))
    assert names(passes) == [[["event 0", "event 1"]], [["event 2", "event 3"]], [["event 4"]]]
    assert refused == ()


def test_pmus_are_counted_side_by_side_and_the_fullest_decides_the_number_of_passes() -> None:
    events = [core_event(0), DRAM, core_event(1), replace(DRAM, cpu=8), core_event(2)]
    passes, _ = plan_passes(events, Counters(2))
    assert names(passes) == [
        [["event 0", "event 1"], ["cas_count_read"], ["cas_count_read"]],
        [["event 2"]],
    ]


def test_an_event_asked_for_twice_is_counted_once() -> None:
    assert names(plan_passes([CYCLES, CYCLES], Counters(4))[0]) == [[["cycles"]]]


def test_an_event_that_never_ran_in_company_gets_a_group_of_its_own() -> None:
    events = [core_event(number) for number in range(3)]
    passes, _ = plan_passes(events, Counters(4), alone=[events[1]])
    assert names(passes) == [[["event 0", "event 2"]], [["event 1"]]]


def test_a_refused_event_leaves_the_others_and_its_reason() -> None:
    passes, refused = plan_passes(
        [core_event(0), core_event(1), core_event(2)], Counters(4, {"event 1": errno.ENOENT})
    )
    assert names(passes) == [[["event 0", "event 2"]]]
    assert [(one.event.name, one.error) for one in refused] == [("event 1", errno.ENOENT)]


def test_an_event_that_is_invalid_anywhere_is_refused_once_it_is_alone() -> None:
    kernel = Counters(4, {"event 1": errno.EINVAL})
    passes, refused = plan_passes([core_event(0), core_event(1), core_event(2)], kernel)
    assert names(passes) == [[["event 0", "event 2"]]]
    assert "does not accept its encoding" in refused[0].reason


def test_planning_leaves_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    plan_passes([core_event(number) for number in range(7)], Counters(2, {"event 3": errno.EBUSY}))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_group_missing_on_a_thread_is_refused_rather_than_counted_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(perf_open, "threads", lambda: [10, 11])
    kernel = Counters(4)

    def opener(event: Event, pid: int, leader: int, enabled: bool) -> int:
        return -errno.EACCES if pid == 11 else kernel(event, pid, leader, enabled)

    before = len(os.listdir("/proc/self/fd"))
    opened, refused = open_pass(Pass(((CYCLES,),)), opener)
    assert opened.groups == []
    assert [one.event for one in refused] == [CYCLES]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_thread_that_ended_meanwhile_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_open, "threads", lambda: [10, 11])
    kernel = Counters(4)

    def opener(event: Event, pid: int, leader: int, enabled: bool) -> int:
        return -errno.ESRCH if pid == 11 else kernel(event, pid, leader, enabled)

    opened, refused = open_pass(Pass(((CYCLES,),)), opener)
    assert len(opened.groups) == 1
    assert refused == ()
    for _, descriptors in opened.groups:
        os.close(descriptors[0])


# -- refusals


@pytest.mark.parametrize(
    ("event", "error", "level", "root", "text"),
    [
        (CYCLES, errno.EACCES, 4, False, "perf_event_paranoid is 4, this needs 2 or less"),
        (CYCLES, errno.EACCES, 4, False, "sudo sysctl kernel.perf_event_paranoid=2"),
        (replace(CYCLES, exclude=0), errno.EACCES, 2, False, "this needs 1 or less"),
        (DRAM, errno.EACCES, 2, False, "kernel.perf_event_paranoid=0"),
        (CYCLES, errno.EPERM, 2, False, "docker run --cap-add PERFMON"),
        (CYCLES, errno.EPERM, 4, True, "seccomp"),
        (CYCLES, errno.ENOENT, 2, False, "no PMU of this kernel counts it"),
        (CYCLES, errno.EOPNOTSUPP, 2, False, "the PMU does not count it"),
        (DRAM, errno.ENODEV, 0, True, "the PMU is gone"),
        (CYCLES, errno.EBUSY, 2, False, "guests with a mediated vPMU"),
        (CYCLES, errno.EMFILE, 2, False, "ulimit -n"),
        (CYCLES, errno.ENFILE, 2, False, "in the whole system"),
        (CYCLES, errno.EINVAL, 2, False, "does not accept its encoding"),
        (CYCLES, errno.ENOSPC, 2, False, "no counter of the PMU is free"),
        (CYCLES, errno.ENODATA, 2, False, "gave it up"),
        (CYCLES, errno.ENOSYS, None, False, "this kernel has no perf_event_open"),
        (CYCLES, errno.EIO, 2, False, "Input/output error"),
    ],
)
def test_every_refusal_names_the_event_the_reason_and_what_helps(
    event: Event, error: int, level: int | None, root: bool, text: str
) -> None:
    said = refusal(event, error, root=root, level=level)
    assert text in said
    assert said.startswith(f"{event.name} ({event.pmu}")


def test_where_a_pmu_is_read_is_part_of_its_events_text() -> None:
    assert str(DRAM) == "cas_count_read (uncore_imc_0, CPU 0)"
    assert str(CYCLES) == "cycles (cpu)"


def test_an_event_of_a_pmu_that_is_not_there_is_refused_by_this_kernel() -> None:
    passes, refused = plan_passes([Event("reads", "uncore_imc_9", 0x7FFF, 1, cpu=0, exclude=0)])
    assert passes == ()
    assert refused[0].error in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOSYS)


# -- counts


def test_a_count_is_that_of_one_call() -> None:
    count = as_count(Counted(CYCLES).plus(3000, 10, 10), 3)
    assert (count.value, count.status) == (1000, "counted")
    assert isinstance(count.value, int)


def test_a_group_that_was_not_always_on_the_counters_is_scaled_thread_by_thread_and_says_so() -> None:
    count = as_count(Counted(CYCLES).plus(100, 10, 5).plus(30, 10, 10), 1)
    assert (count.value, count.status) == (230.0, "scaled")
    assert count.reason == "on a counter for 75.0% of the time, the rest is extrapolated"


def test_an_event_that_never_ran_has_no_count_and_no_zero() -> None:
    count = as_count(Counted(CYCLES).plus(0, 1000, 0))
    assert count.value is None
    assert count.reason == never_ran(CYCLES)
    assert "nmi_watchdog" in never_ran(CYCLES)


def test_a_thread_on_which_an_event_never_ran_makes_the_sum_unknown() -> None:
    assert as_count(Counted(CYCLES).plus(100, 10, 10).plus(0, 500, 0)).value is None


def test_a_thread_that_slept_all_the_time_takes_nothing_away() -> None:
    assert as_count(Counted(CYCLES).plus(100, 10, 10).plus(0, 0, 0)).value == 100


def test_time_on_another_kind_of_core_is_not_scaled_away() -> None:
    count = as_count(Counted(CYCLES).plus(100, 1000, 900), hybrid=True)
    assert (count.value, count.status) == (100, "counted")


# -- software events, for real


def counted_by_name(work: Callable[[], object], events: tuple[Event, ...] = SOFTWARE) -> dict[str, Counted]:
    passes, refused = plan_passes(events)
    assert refused == ()
    assert len(passes) == 1
    opened, refused = open_pass(passes[0])
    assert refused == ()

    def run(groups: object, count: int) -> float:
        assert lib.perf_begin(groups, count) == 0
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        assert lib.perf_end(groups, count) == 0
        return seconds

    try:
        _, counted, refused = count_pass(opened, run)
    finally:
        opened.close()
    assert refused == ()
    return {one.event.name: one for one in counted}


def touch_pages(pages: int) -> None:
    memory = lib.run_map(pages * 4096, 4096)
    lib.run_protect(memory, pages * 4096, 2)
    for page in range(pages):
        ffi.memmove(ffi.cast("char *", memory + page * 4096), b"x", 1)
    lib.run_unmap(memory, pages * 4096, 4096)


@pytest.mark.usefixtures("software")
def test_fresh_pages_are_counted_as_page_faults() -> None:
    faults = counted_by_name(lambda: touch_pages(500))["page-faults"]
    assert 500 <= faults.value < 700
    assert as_count(faults).status == "counted"


@pytest.mark.usefixtures("software")
def test_threads_that_exist_and_threads_that_start_while_counting_are_counted() -> None:
    go, done = threading.Event(), threading.Event()

    def wait_then_touch() -> None:
        go.wait()
        touch_pages(300)
        done.set()

    old = threading.Thread(target=wait_then_touch)
    old.start()

    def work() -> None:
        go.set()
        done.wait()
        new = threading.Thread(target=touch_pages, args=(200,))
        new.start()
        new.join()

    faults = counted_by_name(work)["page-faults"]
    old.join()
    assert 500 <= faults.value < 900


@pytest.mark.usefixtures("software")
@pytest.mark.skipif(KERNEL_VERSION < (5, 13), reason="kernels before 5.13 cannot leave out processes")
def test_processes_that_are_started_meanwhile_are_not_counted() -> None:
    code = "import mmap; m = mmap.mmap(-1, 3000 * 4096); [m.__setitem__(p * 4096, 1) for p in range(3000)]"
    faults = counted_by_name(lambda: subprocess.run([sys.executable, "-c", code], check=True))["page-faults"]
    assert faults.value < 3000


@pytest.mark.usefixtures("software")
def test_nothing_is_counted_before_and_after() -> None:
    passes, _ = plan_passes([PAGE_FAULTS])
    opened, _ = open_pass(passes[0])
    touch_pages(500)

    def run(groups: object, count: int) -> float:
        lib.perf_begin(groups, count)
        lib.perf_end(groups, count)
        touch_pages(500)
        return 0.0

    _, counted, _ = count_pass(opened, run)
    opened.close()
    assert counted[0].value < 5


@pytest.mark.usefixtures("software")
@pytest.mark.parametrize("events", [(PAGE_FAULTS,), SOFTWARE])
def test_counted_stretches_add_up_for_every_event_of_a_group(events: tuple[Event, ...]) -> None:
    def run(groups: object, count: int) -> float:
        for _ in range(5):
            lib.perf_begin(groups, count)
            touch_pages(100)
            lib.perf_end(groups, count)
        return 0.0

    passes, _ = plan_passes(events)
    opened, _ = open_pass(passes[0])
    _, counted, _ = count_pass(opened, run)
    opened.close()
    (faults,) = [one for one in counted if one.event == PAGE_FAULTS]
    assert 500 <= faults.value < 600


@pytest.mark.usefixtures("software")
def test_a_group_whose_descriptor_is_gone_fails_with_its_reason() -> None:
    passes, _ = plan_passes([PAGE_FAULTS])
    opened, _ = open_pass(passes[0])
    descriptor = opened.groups[0][1][0]
    lib.perf_close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)  # takes the number
    _, counted, refused = count_pass(opened, lambda groups, count: lib.perf_end(groups, count) * 1.0)
    os.close(nothing)
    assert counted == ()
    assert refused[0].event == PAGE_FAULTS
    assert refused[0].error == errno.ENOTTY


@pytest.mark.usefixtures("software")
def test_a_sleep_is_counted_around() -> None:
    passes, _ = plan_passes([TASK_CLOCK])
    opened, _ = open_pass(passes[0])
    seconds, counted, _ = count_pass(opened, lambda groups, count: lib.perf_count_sleep(0.02, groups, count))
    opened.close()
    assert seconds >= 0.02
    assert counted[0].value < 0.02e9  # asleep, not at work


@pytest.mark.usefixtures("software")
def test_own_events_are_read_without_stopping_them() -> None:
    events = [PAGE_FAULTS, TASK_CLOCK]
    own = ffi.new("struct perf_self *")
    for number, event in enumerate(events):
        own.descriptors[number] = open_own(event, own.descriptors[0] if number else -1)
    own.events = len(events)
    lib.perf_enable(own.descriptors[0], 1)
    assert lib.perf_self_map(own) == 0  # software events are on no counter that could be read directly
    before, after, direct = (
        ffi.new("struct perf_reading *"),
        ffi.new("struct perf_reading *"),
        ffi.new("uint32_t *"),
    )
    assert lib.perf_self_read(own, before, direct) == 0
    touch_pages(50)
    assert lib.perf_self_read(own, after, direct) == 0
    assert direct[0] == 0
    assert 50 <= after.values[0] - before.values[0] < 100
    lib.perf_self_unmap(own)
    for descriptor in own.descriptors[0:2]:
        lib.perf_close(descriptor)


def test_exclusion_of_the_kernel_is_the_default_because_ordinary_users_may_count_no_more() -> None:
    assert Event("x", "cpu", 4, 1).exclude & KERNEL
