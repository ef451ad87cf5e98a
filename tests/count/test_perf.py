"""From counts to quantities: sums, others' traffic, and what is not believed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof.count import perf_collect
from counteroof.count.base import Measurement
from counteroof.count.events import EventFact, Processor
from counteroof.count.perf import evaluate, works
from counteroof.count.perf_collect import Idle, Sources, choose_sources, collect, warm_seconds
from counteroof.count.perf_open import SOFTWARE, Counted, Event
from counteroof.count.perf_plan import PerfPlan, Term
from counteroof.count.resctrl import Moved, Support
from counteroof.native import ffi, lib
from counteroof.reconcile import dram_bytes

from . import pmu_trees
from .perf_counts import SECONDS, collected, sources
from .test_perf_open import touch_pages
from .test_perf_plan import A64FX, ALDERLAKE, GRACE, ZEN2, ZEN4, ZEN5, amd, intel

SKYLAKE = intel(0x55, 4)
LOOP = {"instructions": 1_000_000, "cycles": 500_000}


def measured(
    build: Callable[[Path], Path], cpu: Processor, root: Path, values: Any, **fields: Any
) -> Measurement:
    chosen = sources(build, cpu, root)
    return evaluate(chosen, collected(chosen, values, **fields))


# -- FLOPs


def test_flops_are_the_weighted_sum_of_the_classes_of_one_call(tmp_path: Path) -> None:
    counts = {
        **LOOP,
        "FP_ARITH_INST_RETIRED.SCALAR_DOUBLE": 10,
        "FP_ARITH_INST_RETIRED.512B_PACKED_DOUBLE": 100,
        "FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE": 30,
    }
    found = measured(pmu_trees.skylake_sp, SKYLAKE, tmp_path, counts)
    assert (found.flops.value, found.flops.status) == (1 + 80 + 24, "counted")
    assert found.instructions.value == 100_000
    assert found.cycles is not None
    assert found.cycles.value == 50_000
    assert [(one.precision, one.width, one.flops) for one in found.flops_by] == [
        ("f32", 256, 24),
        ("f64", 0, 1),
        ("f64", 512, 80),
    ]


def test_precision_stays_open_where_the_events_do_not_tell(tmp_path: Path) -> None:
    found = measured(pmu_trees.zen4, ZEN4, tmp_path, {**LOOP, "fp_ret_sse_avx_ops.all minus bf16": 500})
    assert found.flops.value == 50
    assert found.flops_by == ()


def test_a_width_that_the_events_do_not_tell_is_unknown(tmp_path: Path) -> None:
    found = measured(pmu_trees.zen5, ZEN5, tmp_path, {**LOOP, "fp_ret_sse_avx_ops packed double": 500})
    assert [(one.precision, one.width, one.flops) for one in found.flops_by] == [("f64", None, 50)]


def test_speculative_counts_say_so(tmp_path: Path) -> None:
    found = measured(pmu_trees.grace, GRACE, tmp_path, {**LOOP, "FP_FIXED_OPS_SPEC": 40})
    assert found.flops.value == 4
    assert "speculative" in (found.flops.reason or "")


def test_a_copy_has_no_flops_and_that_is_a_count(tmp_path: Path) -> None:
    found = measured(pmu_trees.zen5, ZEN5, tmp_path, LOOP)
    assert (found.flops.value, found.flops.status) == (0, "counted")


def test_one_refused_event_leaves_no_part_of_a_sum(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    bad = chosen.plan.flops[3].event
    found = evaluate(chosen, collected(chosen, LOOP, refused={bad: "no counter for it"}))
    assert found.flops.value is None
    assert found.flops.reason == "no counter for it"
    assert "refused: no counter for it" in found.notes
    assert found.instructions.value == 100_000


def test_scaled_events_make_a_scaled_sum_with_the_share(tmp_path: Path) -> None:
    counts = {**LOOP, "fp_ret_sse_avx_ops packed double": 100}
    found = measured(pmu_trees.zen5, ZEN5, tmp_path, counts, running=0.5)
    assert (found.flops.value, found.flops.status) == (20.0, "scaled")
    assert "50.0% of the time" in (found.flops.reason or "")


def test_instructions_that_stay_at_zero_are_no_counts_and_neither_is_anything_else(tmp_path: Path) -> None:
    found = measured(pmu_trees.zen5, ZEN5, tmp_path, {})
    assert found.instructions.value is None
    assert "the hypervisor passes no counters on" in (found.instructions.reason or "")
    assert found.flops.value is None


def test_fewer_flops_than_a_right_result_needs_are_not_believed(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.zen5, ZEN5, tmp_path)
    found = evaluate(chosen, collected(chosen, LOOP), needed_flops=1e6)
    assert found.flops.value is None
    assert found.flops.reason == (
        "not believed: 0 FLOPs were counted, and the result, which was right, is declared to need 1e+06"
    )
    assert evaluate(chosen, collected(chosen, LOOP), needed_flops=0.0).flops.value == 0


# -- hybrid processors


def hybrid(chosen: Sources, on_core: int, on_atom: int) -> dict[Event, Counted]:
    """Return counts of a run of 1000 ns, parts of it on each kind of core."""
    running = {"cpu_core": on_core, "cpu_atom": on_atom}
    return {
        event: Counted(event).plus(10 * running[event.pmu], 1000, running[event.pmu])
        for event in chosen.events
        if event.pmu in running
    }


def test_both_kinds_of_core_are_added_up_without_scaling(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.alderlake, ALDERLAKE, tmp_path)
    found = evaluate(chosen, collected(chosen, {}, changes=hybrid(chosen, 995, 5)))
    assert (found.instructions.value, found.instructions.status) == (1000, "counted")
    assert found.flops.status == "counted"


def test_flops_of_a_run_partly_on_cores_without_flop_events_are_unknown(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.alderlake, ALDERLAKE, tmp_path)
    found = evaluate(chosen, collected(chosen, {}, changes=hybrid(chosen, 700, 300)))
    assert found.flops.value is None
    assert "30% of the time went by on cpu_atom" in (found.flops.reason or "")
    assert "taskset" in (found.flops.reason or "")
    assert found.instructions.value == 1000


def test_flop_events_that_shared_their_counters_on_a_hybrid_processor_are_not_taken_for_all(
    tmp_path: Path,
) -> None:
    chosen = sources(pmu_trees.alderlake, ALDERLAKE, tmp_path)
    changes = hybrid(chosen, 995, 5)
    changes |= {term.event: Counted(term.event).plus(10, 1000, 600) for term in chosen.plan.flops}
    found = evaluate(chosen, collected(chosen, {}, changes=changes))
    assert found.flops.reason == "on a counter for 60.0% of the time only; something else holds it"


def test_time_on_no_kind_of_core_was_taken_by_somebody_else(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.alderlake, ALDERLAKE, tmp_path)
    found = evaluate(chosen, collected(chosen, {}, changes=hybrid(chosen, 500, 100)))
    assert found.instructions.value is None
    assert "something else holds the counters" in (found.instructions.reason or "")


# -- memory


def test_every_controller_of_every_socket_is_in_the_sum(tmp_path: Path) -> None:
    # 12 channels, each 1000 reads and 100 writes of 64 bytes in 10 calls
    counts = {**LOOP, "cas_count_read": 1000, "cas_count_write": 100}
    found = measured(pmu_trees.skylake_sp, SKYLAKE, tmp_path, counts)
    assert found.dram_read_bytes.value == 12 * 100 * 64
    assert found.dram_write_bytes.value == 12 * 10 * 64
    assert found.dram_read_bytes.status == "counted"
    assert "DRAM bytes by socket: socket 0: 42240, socket 1: 42240" in found.notes


def test_reads_of_grace_are_beats_of_32_bytes_and_writes_bytes(tmp_path: Path) -> None:
    counts = {**LOOP, "cmem_rd_data": 1000, "cmem_wr_total_bytes": 6400}
    found = measured(pmu_trees.grace, GRACE, tmp_path, counts)
    assert (found.dram_read_bytes.value, found.dram_write_bytes.value) == (2 * 3200, 2 * 640)


def test_reads_of_the_a64fx_are_refills_less_what_is_no_refill(tmp_path: Path) -> None:
    counts = {
        **LOOP,
        "L2D_CACHE_REFILL": 1000,
        "L2D_SWAP_DM": 100,
        "L2D_CACHE_MIBMCH_PRF": 50,
        "L2D_CACHE_WB": 30,
    }
    found = measured(pmu_trees.a64fx, A64FX, tmp_path, counts)
    assert (found.dram_read_bytes.value, found.dram_write_bytes.value) == (85 * 256, 3 * 256)


def test_where_reads_and_writes_are_one_count_only_their_sum_is_known(tmp_path: Path) -> None:
    counts = {**LOOP, **{f"dram_channel_data_controller_{number}": 1000 for number in range(8)}}
    found = measured(pmu_trees.zen2, ZEN2, tmp_path, counts)
    assert found.dram_read_bytes.value is None
    assert "counted together only" in (found.dram_read_bytes.reason or "")
    assert dram_bytes(found).value == 2 * 8 * 100 * 64


def test_the_traffic_of_others_is_taken_off_and_shown(tmp_path: Path) -> None:
    counts = {**LOOP, "cas_count_read": 1000, "cas_count_write": 100}
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    idle = {"cas_count_read": 50, "cas_count_write": 0}
    found = evaluate(chosen, collected(chosen, counts, idle=lambda event: idle[event.name]))
    assert found.dram_read_bytes.value == 12 * 95 * 64
    assert any(
        re.search(r"taken off: 3840 of 8.448e\+04 bytes a call \(4.5%\)", note) for note in found.notes
    )
    assert not any("warning" in note for note in found.notes)


def test_a_busy_neighbour_is_a_warning_with_its_size(tmp_path: Path) -> None:
    counts = {**LOOP, "cas_count_read": 1000, "cas_count_write": 0}
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    found = evaluate(
        chosen, collected(chosen, counts, idle=lambda event: 400 if event.name == "cas_count_read" else 0)
    )
    assert any(note.startswith("warning: something else is busy") and "40%" in note for note in found.notes)
    assert found.dram_read_bytes.value == 12 * 60 * 64


def test_traffic_that_drowns_in_that_of_others_is_not_a_negative_number(tmp_path: Path) -> None:
    counts = {**LOOP, "cas_count_read": 100, "cas_count_write": 100}
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    found = evaluate(chosen, collected(chosen, counts, idle=lambda event: 120))
    assert found.dram_read_bytes.value is None
    assert "drowns in that of others" in (found.dram_read_bytes.reason or "")


def test_others_that_changed_between_before_and_after_are_a_warning(tmp_path: Path) -> None:
    counts = {**LOOP, "cas_count_read": 1000, "cas_count_write": 0}
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    found = collected(chosen, counts)
    looks = {event: (Idle(10, SECONDS), Idle(150, SECONDS)) for event in found.idle}
    said = evaluate(chosen, replace(found, idle=looks)).notes
    assert any("warning" in note for note in said)


def test_more_bytes_than_the_channels_carry_are_refused_such_as_a_bogus_first_difference(
    tmp_path: Path,
) -> None:
    counts = {**LOOP, "data_reads": 5_000_000_000, "data_writes": 100}
    found = measured(pmu_trees.haswell, intel(0x3C), tmp_path, counts)
    assert found.dram_read_bytes.value is None
    assert "not believed" in (found.dram_read_bytes.reason or "")
    assert "3.20 TB/s" in (found.dram_read_bytes.reason or "")


@pytest.mark.parametrize(("build", "cpu"), [(pmu_trees.skylake_sp, SKYLAKE), (pmu_trees.zen2, ZEN2)])
def test_memory_that_never_moved_is_not_believed_and_is_no_zero(
    tmp_path: Path, build: Callable[[Path], Path], cpu: Processor
) -> None:
    found = measured(build, cpu, tmp_path, LOOP)
    assert dram_bytes(found).value is None
    assert "nothing at all was counted in 0.1 s" in (found.dram_read_bytes.reason or "")


def test_traffic_of_others_that_could_not_be_measured_is_said_and_not_taken_for_none(tmp_path: Path) -> None:
    counts = {**LOOP, "cas_count_read": 1000, "cas_count_write": 100}
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    found = collected(chosen, counts, idle=lambda event: 50)
    lost = next(iter(found.idle))
    idle = {event: looks for event, looks in found.idle.items() if event != lost}
    told = evaluate(chosen, replace(found, idle=idle))
    assert told.dram_read_bytes.value == 12 * 100 * 64  # of no controller is anything taken off
    (warning,) = [note for note in told.notes if "of others" in note]
    assert warning.startswith("warning: the traffic of others could not be measured, and is in these bytes")
    assert str(lost) in warning


def test_a_look_at_the_idle_memory_without_a_counter_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, starved = (Event(name, "imc", 20, 1, cpu=0) for name in ("ran", "starved"))
    counts = (Counted(ran).plus(30, 1000, 500), Counted(starved).plus(0, 1000, 0))
    monkeypatch.setattr(perf_collect, "count_pass", lambda opened, run: (0.5, counts, ()))
    looked = perf_collect._Collecting(1, {}).sleep(None, 0.5)
    assert looked == {ran: Idle(60, 0.5)}


def test_a_channel_that_is_not_there_is_left_out_by_name(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)

    def value(event: Event) -> int:
        if not event.system:
            return 1_000_000
        return 10**12 if event.pmu == "uncore_imc_5" else 1000

    found = evaluate(chosen, collected(chosen, value))
    assert found.dram_read_bytes.value == 10 * 100 * 64
    assert any("left out" in note and "uncore_imc_5" in note for note in found.notes)


def test_one_controller_that_was_refused_leaves_no_sum_of_the_others(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    assert chosen.dram is not None
    bad = chosen.dram.terms[-1].event
    found = evaluate(
        chosen, collected(chosen, {**LOOP, "cas_count_read": 1000}, refused={bad: "the PMU is gone"})
    )
    assert found.dram_read_bytes.value is None
    assert found.dram_read_bytes.reason == "the PMU is gone"


def test_reads_that_a_core_sees_are_a_lower_bound_and_no_total(tmp_path: Path) -> None:
    chosen = sources(pmu_trees.skylake_sp, SKYLAKE, tmp_path)
    event = chosen.plan.fallback[0].terms[0].event
    without = Sources(chosen.plan, None, chosen.plan.fallback[0], tried=("needs paranoid 0",))
    found = evaluate(without, collected(without, {**LOOP, event.name: 1000}))
    assert found.dram_read_bytes.value == 6400
    assert "reads only, a lower bound" in (found.dram_read_bytes.reason or "")
    assert found.dram_write_bytes.value is None
    assert dram_bytes(found).value is None
    assert "sources of DRAM bytes passed over: needs paranoid 0" in found.notes


# -- real counts of others


def gaussian(n: int) -> int:
    """Return the FLOPs of a Gaussian elimination as a Zen 4 counts them: an FMA is two, at any width."""
    return 2 * sum(j * j for j in range(n)) + (17 * n * n + 3 * n) // 2 + 7


@pytest.mark.parametrize(
    ("n", "counted"),
    [
        (333, 25449643),
        (1111, 923479872),
        (2222, 7350797076),
        (3333, 24767274143),
        (6666, 197804889762),
    ],
)
def test_a_zen_4s_event_is_flops_as_they_are(tmp_path: Path, n: int, counted: int) -> None:
    assert counted == gaussian(n)
    values = {**LOOP, "fp_ret_sse_avx_ops.all minus bf16": counted}
    assert measured(pmu_trees.zen4, ZEN4, tmp_path, values, calls=1).flops.value == gaussian(n)


def test_flops_of_a_saxpy_as_likwid_counted_it_on_cascade_lake(tmp_path: Path) -> None:
    counts = {
        "instructions": 59866700,
        "cycles": 344927500,
        "FP_ARITH_INST_RETIRED.SCALAR_SINGLE": 111,
        "FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE": 25000000,
    }
    found = measured(pmu_trees.skylake_sp, intel(0x55, 7), tmp_path, counts, calls=1)
    assert found.flops.value is not None
    assert found.flops.value / 0.090796 / 1e6 == pytest.approx(2202.7354, rel=1e-4)  # LIKWID's SP [MFLOP/s]


def test_flops_of_a_saxpy_as_likwid_counted_it_on_zen_3(tmp_path: Path) -> None:
    counts = {"instructions": 94703030, "cycles": 67007110, "fp_ret_sse_avx_ops.all": 21158}
    found = measured(pmu_trees.zen2, amd(0x19, 0x01), tmp_path, counts, calls=1)
    assert found.flops.value is not None
    assert found.flops.value / 0.019639 / 1e6 == pytest.approx(1.0774, rel=1e-3)  # LIKWID's DP [MFLOP/s]


# -- resctrl

NO_MONITOR = Support(False, "not here")


def monitored(root: Path, monitor: Support, seen: Moved | str) -> Measurement:
    chosen = replace(sources(pmu_trees.zen4, ZEN4, root), dram=None, monitor=monitor)
    return evaluate(chosen, replace(collected(chosen, LOOP), monitored=seen))


def test_bytes_of_resctrl_are_those_of_one_call(tmp_path: Path) -> None:
    found = monitored(tmp_path, Support(True, "reads and writes", complete=True), Moved(6400, None))
    assert dram_bytes(found).value == 640
    assert found.dram_read_bytes.value is None
    assert not any("mbm_local_bytes" in note for note in found.notes)


def test_bytes_of_resctrl_that_may_lack_write_backs_are_a_lower_bound(tmp_path: Path) -> None:
    found = monitored(tmp_path, Support(True, "misses of the last cache"), Moved(6400, 1600))
    assert found.dram_read_bytes.value == 640
    assert found.dram_read_bytes.reason == "a lower bound: misses of the last cache"
    (note,) = [note for note in found.notes if "mbm_local_bytes" in note]
    assert "160 of 640 bytes a call were of the memory next to the cores" in note
    assert dram_bytes(found).value is None


def test_what_resctrl_could_not_read_is_no_zero(tmp_path: Path) -> None:
    found = monitored(tmp_path, Support(True, "all", complete=True), "mon_L3_00 has no count of bytes")
    assert dram_bytes(found).reason == "mon_L3_00 has no count of bytes"
    backwards = monitored(tmp_path / "back", Support(True, "all", complete=True), Moved(-1, None))
    assert dram_bytes(backwards).reason == "its counter went backwards"


def test_resctrl_is_taken_before_reads_of_the_cores_and_after_memory_controllers(tmp_path: Path) -> None:
    one = sources(pmu_trees.zen4, ZEN4, tmp_path).plan
    here = Support(True, "reads and writes", complete=True)
    assert choose_sources(one, refusing("nothing", 0), here).monitor is None
    chosen = choose_sources(one, refusing("amd_", errno.EACCES), here)
    assert chosen.monitor is here
    assert chosen.reads is None
    assert works(one, refusing("amd_", errno.EACCES), here).quantities == {"FLOPs", "bytes"}


# -- what opens


def refusing(pattern: str, error: int) -> Callable[..., int]:
    def opener(event: Event, pid: int, leader: int, enabled: bool) -> int:
        return -error if re.match(pattern, event.pmu) else os.open(os.devnull, os.O_RDONLY)

    return opener


def test_bytes_come_from_the_first_source_that_opens_and_the_others_reasons_are_kept(tmp_path: Path) -> None:
    one = sources(pmu_trees.zen4, ZEN4, tmp_path).plan
    chosen = choose_sources(one, refusing("amd_umc", errno.ENODEV))
    assert chosen.dram is not None
    assert chosen.dram.name == "dram_amd_df_v2_zen4"
    assert chosen.reads is None
    assert "the PMU is gone" in chosen.tried[0]


def test_without_any_source_of_bytes_the_reads_of_the_cores_are_counted(tmp_path: Path) -> None:
    one = sources(pmu_trees.zen4, ZEN4, tmp_path).plan
    chosen = choose_sources(one, refusing("amd_", errno.EACCES), NO_MONITOR)
    assert chosen.dram is None
    assert chosen.reads is not None
    assert len(chosen.tried) == 3
    assert chosen.tried[2] == "resctrl: not here"


def test_what_works_is_said_with_the_reason_for_the_rest(tmp_path: Path) -> None:
    one = sources(pmu_trees.zen4, ZEN4, tmp_path).plan
    answer = works(one, refusing("nothing", 0))
    assert answer.quantities == {"FLOPs", "bytes"}
    assert answer.reason == "FLOPs by 3 events of AMD Zen 4; DRAM bytes by dram_amd_umc"
    answer = works(one, refusing("cpu", errno.ENOENT))
    assert answer.quantities == {"bytes"}
    assert "no PMU of this kernel counts it" in answer.reason
    answer = works(one, refusing("amd_", errno.EACCES), NO_MONITOR)
    assert answer.quantities == {"FLOPs"}
    assert "perf_event_paranoid" in answer.reason
    assert "(reads alone, a lower bound, by fb_amd_zen3p)" in answer.reason


def test_counters_that_open_and_stay_at_zero_are_not_usable() -> None:
    needs_software_events()
    # a counter that can be opened and never moves: nobody migrates a thread that may use one processor only
    still = Event("cpu-migrations", "software", 1, 4)
    one = PerfPlan("still", True, ("software",), instructions=(Term(still, 1, EventFact(name="still")),))
    with on_one_processor():
        answer = works(one, monitor=NO_MONITOR)
    assert not answer.usable
    assert "stay at 0" in answer.reason


def test_where_nothing_opens_perf_is_not_usable(tmp_path: Path) -> None:
    one = sources(pmu_trees.zen4, ZEN4, tmp_path).plan
    answer = works(one, refusing(".*", errno.EPERM), NO_MONITOR)
    assert not answer.usable
    assert "seccomp" in answer.reason


def test_where_only_instructions_open_perf_can_be_asked_for_by_name(tmp_path: Path) -> None:
    one = sources(pmu_trees.zen4, amd(0x1F, 1), tmp_path).plan
    answer = works(one, refusing("nothing", 0))
    assert answer.usable
    assert answer.quantities == frozenset()


# -- counting for real, with what every kernel counts

FAULTS = Term(SOFTWARE[1], 1, EventFact(name="page-faults"))
CLOCK = Term(SOFTWARE[0], 1, EventFact(name="task-clock"))
SOFT = Sources(PerfPlan("software", True, ("software",), instructions=(FAULTS,), cycles=(CLOCK,)), None, None)


class Pages:
    """A kernel that touches so many fresh pages."""

    def __init__(self, pages: int) -> None:
        self.pages, self.calls = pages, 0

    def seconds(self, calls: int) -> float:
        self.calls += calls
        touch_pages(self.pages * calls)
        return 0.002 * calls

    def counted(self, calls: int, groups: Any, count: int) -> float:
        lib.perf_begin(groups, count)
        seconds = self.seconds(calls)
        lib.perf_end(groups, count)
        return seconds


@contextlib.contextmanager
def on_one_processor() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def needs_software_events() -> None:
    from counteroof.count.perf_open import open_event, refusal

    got = open_event(SOFTWARE[0], 0, -1, False)
    if got < 0:
        pytest.skip(f"software events are refused here: {refusal(SOFTWARE[0], -got)}")
    lib.perf_close(got)


def test_calls_are_repeated_until_they_last_and_counts_are_of_one() -> None:
    needs_software_events()
    found = collect(SOFT, Pages(100))
    assert found.calls == 3  # 5 ms of calls of 2 ms
    assert found.passes == 1
    measurement = evaluate(SOFT, found)
    assert measurement.instructions.value is not None
    assert 100 <= measurement.instructions.value < 150


def test_a_set_too_big_for_the_counters_is_counted_in_passes_over_the_same_calls() -> None:
    needs_software_events()
    from counteroof.count.perf_open import open_event

    def one_a_group(event: Event, pid: int, leader: int, enabled: bool) -> int:
        return -errno.EINVAL if leader >= 0 else open_event(event, pid, leader, enabled)

    kernel = Pages(100)
    found = collect(SOFT, kernel, one_a_group)
    assert found.passes == 2
    assert kernel.calls == 2 + 2 * found.calls
    measurement = evaluate(SOFT, found)
    assert "counted in 2 passes of 3 calls, so that nothing was multiplexed" in measurement.notes
    assert measurement.instructions.status == "counted"


def test_a_call_is_timed_once_more_when_the_first_was_short() -> None:
    short, long = iter([0.2, 0.1]), iter([7.0])
    assert warm_seconds(lambda calls: next(short)) == 0.1
    assert warm_seconds(lambda calls: next(long)) == 7.0


def test_a_kernel_is_called_in_c_with_the_groups_around() -> None:
    needs_software_events()
    from counteroof.count.perf_open import count_pass, open_pass, plan_passes

    library = lib.run_open_library(b"libc.so.6")
    function = lib.run_find_function(library, b"labs", b"")
    frame = ffi.new("struct run_frame *")
    opened, _ = open_pass(plan_passes([SOFTWARE[0]])[0][0])
    seconds, counted, _ = count_pass(
        opened,
        lambda groups, count: lib.perf_count_calls(function, frame, 1_000_000, ffi.NULL, 0, groups, count),
    )
    opened.close()
    assert 0 < seconds < 1
    assert counted[0].value > 0
