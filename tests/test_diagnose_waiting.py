"""Rules on time in which nothing is computed or moved, on results written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from counteroof.count.base import (
    AccessMix,
    ChainLink,
    Denormals,
    FlopClass,
    LoopChain,
    Measurement,
    StrideShare,
)
from counteroof.diagnose import arithmetic, findings, memory, waiting
from counteroof.run.timing import PageFaults
from tests.factories import N, measurement
from tests.test_diagnose import facts, only, read, rules

CLOCK = 4.18e9
"""Of the roofs that the facts have."""
TIMED = {"seconds": 17.1 * N / CLOCK, "clock_hz": CLOCK}


def chain(cycles: float, **fields: Any) -> LoopChain:
    """Return a loop of N passes, each so many cycles after the one before."""
    values = {
        "library": "/lib/libkernels.so",
        "address": 0x1234,
        "symbol": "solve",
        "file": "/src/tridiagonal.c",
        "line": 27,
        "passes": N,
        "instructions": 11,
        "flops": 2,
        "cycles": cycles,
        "demanded_cycles": cycles * N,
        "links": (ChainLink("vmulsd xmm0, xmm0, xmm1", 3), ChainLink("vdivsd xmm0, xmm1, xmm0", 14)),
        **fields,
    }
    return LoopChain(**values)


def waits(*chains: LoopChain, width: int = 0, size: int = N, **fields: Any) -> Measurement:
    """Return 2 N FLOPs with these chains, on single numbers unless told otherwise; N bytes are read."""
    by = (FlopClass("f64", width, "fma", 2 * N),)
    return measurement(2 * N, (read("a", size),), chains=chains, flops_by=by, **fields)


# Loop-carried dependency


def test_passes_that_wait_for_each_other_set_the_pace() -> None:
    one = only(facts(counted=waits(chain(17))), waiting.RECURRENCE)
    seconds = 17 * N / CLOCK
    # then the N bytes at the roof of reads, which take longer than the FLOPs in wide vectors
    assert one.gain == pytest.approx(seconds / (N / 40e9))
    assert one.evidence["least seconds of the chain"] == pytest.approx(seconds)
    assert one.evidence["cycles of a pass of tridiagonal.c:27"] == 17
    assert "loop at tridiagonal.c:27 waits 17 cycles" in one.message
    assert "vmulsd 3 + vdivsd 14" in one.message
    assert "take divisions out" in one.try_


def test_locked_instructions_are_to_be_fewer_and_not_side_by_side() -> None:
    links = (ChainLink("lock add [rax],rdx", 7),)
    one = only(facts(counted=waits(chain(17, links=links))), waiting.RECURRENCE)
    assert "(lock add 7)" in one.message
    assert one.try_.startswith("locked instructions (atomics) come one after the other")
    both = only(
        facts(counted=waits(chain(17, links=(*links, ChainLink("vmulsd xmm0, xmm0, xmm1", 3))))),
        waiting.RECURRENCE,
    )
    assert "side by side" in both.try_


def test_waiting_comes_before_what_wider_vectors_gain() -> None:
    assert rules(facts(counted=waits(chain(17))))[0] == waiting.RECURRENCE
    timed = findings(facts(counted=waits(chain(17), latencies="Zen 3"), **TIMED))
    assert timed[0].rule == waiting.RECURRENCE


def test_single_numbers_are_said_to_be_so_where_other_loops_have_them() -> None:
    few = chain(17 * 4, passes=N // 4)
    assert arithmetic.NOT_VECTORISED in rules(facts(counted=waits(few)))
    assert arithmetic.NOT_VECTORISED not in rules(facts(counted=waits(chain(17))))


def test_a_loop_that_waits_for_its_own_counter_alone_is_no_chain() -> None:
    counter = chain(1, links=(ChainLink("add rax, 0x8", 1),))
    assert waiting.RECURRENCE not in rules(facts(counted=waits(counter)))
    assert waiting.RECURRENCE in rules(facts(counted=waits(counter, chain(1))))


def test_the_clock_of_the_timed_calls_goes_first() -> None:
    slow = facts(counted=waits(chain(17), latencies="Zen 3"), clock_hz=2e9, seconds=18 * N / 2e9)
    evidence = only(slow, waiting.RECURRENCE).evidence
    assert evidence["least seconds of the chain"] == pytest.approx(17 * N / 2e9)


def test_chains_shorter_than_what_bytes_or_other_flops_need_are_none() -> None:
    # 2 N FLOPs on single numbers take 0.52 cycles a pass, 8 N bytes 0.84
    timed: dict[str, Any] = {"seconds": N / CLOCK, "clock_hz": CLOCK}
    assert waiting.RECURRENCE not in rules(facts(counted=waits(chain(0.5)), **timed))
    assert waiting.RECURRENCE not in rules(facts(counted=waits(chain(0.8), size=8 * N), **timed))
    assert waiting.RECURRENCE in rules(facts(counted=waits(chain(0.8)), **timed))


def test_without_a_time_a_chain_has_to_be_far_beyond_all_else() -> None:
    # N bytes take 0.10 cycles an element
    assert waiting.RECURRENCE not in rules(facts(counted=waits(chain(0.3), width=512)))
    assert waiting.RECURRENCE in rules(facts(counted=waits(chain(0.33), width=512)))


def test_chains_that_explain_little_of_the_time_are_not_blamed() -> None:
    for cycles, blamed in ((20, True), (40, False)):
        timed = facts(counted=waits(chain(17)), seconds=cycles * N / CLOCK, clock_hz=CLOCK)
        assert (waiting.RECURRENCE in rules(timed)) == blamed


def test_time_in_which_others_had_the_processor_is_not_held_against_a_chain() -> None:
    timed: dict[str, Any] = {"seconds": 40 * N / CLOCK, "clock_hz": CLOCK}
    shared = facts(counted=waits(chain(17)), processor_share=0.5, **timed)
    assert "85 % of the call's time on a processor" in only(shared, waiting.RECURRENCE).message
    assert "for 50 % of its time" in only(shared, waiting.BUSY).message
    alone = facts(counted=waits(chain(17)), processor_share=0.99, **timed)
    assert {waiting.RECURRENCE, waiting.BUSY}.isdisjoint(rules(alone))
    assert waiting.BUSY not in rules(facts(counted=waits(), processor_share=0.5, threads=2, **timed))


def test_of_a_timed_kernel_the_clock_of_then_is_needed() -> None:
    assert waiting.RECURRENCE not in rules(facts(counted=waits(chain(17)), seconds=20 * N / CLOCK))


def test_loops_are_added_up_and_those_that_hardly_count_are_not_named() -> None:
    loops = (chain(9), chain(8, line=34, through_memory=True), chain(0.1, line=99))
    one = only(facts(counted=waits(*loops)), waiting.RECURRENCE)
    assert one.evidence["least seconds of the chain"] == pytest.approx(17.1 * N / CLOCK)
    assert "tridiagonal.c:34" in one.message
    assert "through memory" in one.message
    assert ":99" not in one.message


def test_without_debug_information_a_loop_is_named_by_its_address() -> None:
    bare = chain(17, file=None, line=None)
    assert "solve+0x1234" in only(facts(counted=waits(bare)), waiting.RECURRENCE).message


# Denormals


def denormal(seconds: float | None, flushed: float | None, **fields: bool) -> Measurement:
    values = {
        "operand": True,
        "underflow": False,
        "operands_flushed": False,
        "results_flushed": False,
        **fields,
    }
    return waits(denormals=Denormals(**values, seconds=seconds, flushed_seconds=flushed))


def test_denormals_gain_what_flushing_them_gained() -> None:
    one = only(facts(counted=denormal(0.5, 0.1)), waiting.DENORMALS)
    assert one.gain == pytest.approx(5)
    assert one.attainable == pytest.approx(2 * N / 0.1)
    assert "at least one" in one.message
    assert "denormal operands (" in one.message
    both = denormal(0.5, 0.1, underflow=True)
    assert (
        "operands and results that had to be rounded" in only(facts(counted=both), waiting.DENORMALS).message
    )


@pytest.mark.parametrize(("seconds", "flushed"), [(None, None), (0.105, 0.1), (0.1, 0.2)])
def test_denormals_that_cost_nothing_are_none(seconds: float | None, flushed: float | None) -> None:
    assert waiting.DENORMALS not in rules(facts(counted=denormal(seconds, flushed)))


# Page faults


def test_page_faults_cost_what_one_was_measured_to() -> None:
    faults = PageFaults(40_000, 2, 2.5e-7)
    one = only(facts(read("a", 8 * N), seconds=0.03, page_faults=faults), waiting.PAGE_FAULTS)
    spent = 40_002 * 2.5e-7
    assert one.gain == pytest.approx(0.03 / (0.03 - spent))
    assert "2 of them from files" in one.message


def test_a_call_of_nothing_but_page_faults_gains_what_its_roofs_allow() -> None:
    faults = PageFaults(40_000, 0, 1e-6)
    one = only(facts(read("a", 8 * N), seconds=0.03, page_faults=faults), waiting.PAGE_FAULTS)
    assert one.gain == pytest.approx(0.03 / (8 * N / 40e9))
    assert "they take 100 % of it" in one.message


@pytest.mark.parametrize(
    "faults", [None, PageFaults(0, 0, 2.5e-7), PageFaults(100, 0, 2.5e-7), PageFaults(40_000, 0, None)]
)
def test_few_page_faults_are_none(faults: PageFaults | None) -> None:
    assert waiting.PAGE_FAULTS not in rules(facts(read("a", 8 * N), seconds=0.03, page_faults=faults))


# Strides


def strided(stride: int | None, share: float = 0.9, *, unused: int = 0) -> Any:
    array = read("a", 8 * N, unused_bytes=unused)
    counted = measurement(2 * N, (array,), strides=(StrideShare("a", stride, 8, False, share),))
    return facts(counted=counted)


def test_unused_parts_of_lines_come_with_the_stride() -> None:
    one = only(strided(64, unused=7 * N), memory.STRIDED)
    assert one.evidence["stride"] == 64
    assert "most accesses to it are 64 B apart" in one.message
    assert "stride" not in only(strided(None, unused=7 * N), memory.STRIDED).evidence


# Gathers and scatters


def test_gathers_are_told_by_their_share() -> None:
    mix = AccessMix(1000, 16_000, 300, 2400, 100, 800)
    one = only(facts(counted=waits(access_mix=mix)), waiting.GATHERS)
    assert one.severity == "note"
    assert one.message.startswith("40 % of the loads and stores (20 % of their bytes)")
    few = AccessMix(1000, 8000, 90, 720, 0, 0)
    assert waiting.GATHERS not in rules(facts(counted=waits(access_mix=few)))
