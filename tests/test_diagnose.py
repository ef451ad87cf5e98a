"""Rules on results written by hand: what each must say, and when it must be silent."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from counteroof import jsonio
from counteroof.count.base import Count, FalseSharing, FlopClass, LoopChain, StrideShare
from counteroof.diagnose import (
    Finding,
    arithmetic,
    claims,
    doubts,
    findings,
    fine,
    fits,
    inner,
    pages,
    stacked,
    threads,
    tiles,
)
from counteroof.diagnose.base import Facts, Shape, Size
from counteroof.diagnose.peaks import arithmetic_seconds
from counteroof.formula import Formula
from counteroof.machine.model import Capacity, Policy
from counteroof.reconcile import dram_bytes, ledger
from counteroof.roofline import Observation, place
from tests import factories
from tests.factories import N, bandwidth, compute, measurement, modelled, traffic

CEILINGS = (
    bandwidth("DRAM read", 40, mix="read"),
    bandwidth("DRAM copy", 60, mix="copy"),
    bandwidth("DRAM triad", 56, mix="triad"),
    bandwidth("DRAM copy NT", 50, mix="copy NT"),
    bandwidth("DRAM triad NT", 48, mix="triad NT"),
    bandwidth("L2-L3 copy", 200, level="l3", mix="copy"),
    bandwidth("L1-L2 copy", 400, level="l2", mix="copy"),
    compute("f64 AVX-512 FMA", 128, "f64", mix="FMA"),
    compute("f64 AVX-512 ADD+MUL 1:1", 64, "f64", mix="ADD+MUL 1:1", fma=False),
    compute("f64 AVX-512 DIV", 4, "f64", mix="DIV", fma=None),
    compute("f64 AVX-512 SQRT", 3, "f64", mix="SQRT", fma=None),
    compute("f64 AVX2 FMA", 64, "f64", "AVX2", mix="FMA"),
    compute("f64 scalar FMA", 16, "f64", "scalar", mix="FMA"),
    compute("f64 scalar DIV", 1, "f64", "scalar", mix="DIV", fma=None),
)
MACHINE = factories.machine(CEILINGS)
USUAL = 0.99
"""The median of these ceilings over the best of their samples."""

CACHED = {"first_write_allocate_bytes": 0, "unused_bytes": 0, "touched_write_bytes": 0}


def read(name: str, size: int, **fields: int | None) -> Any:
    """Return an array that is read once, whole."""
    return traffic(name, read=size, size=size, **{**CACHED, "touched_read_bytes": size, **fields})


def written(name: str, size: int, **fields: int | None) -> Any:
    """Return an array that ordinary stores overwrite once, whole."""
    own = {"first_write_allocate_bytes": size, "touched_read_bytes": 0, "touched_write_bytes": size}
    return traffic(name, read=size, write=size, allocate=size, size=size, **{**CACHED, **own, **fields})


def facts(*arrays: Any, shapes: tuple[Shape, ...] = (), **fields: Any) -> Facts:
    """Return the facts of a kernel with these arrays; what it computes is 2 N fused FLOPs in wide vectors."""
    counted = fields.pop("counted", None) or measurement(
        2 * N, arrays, **{name: fields.pop(name) for name in ("l1_l2_bytes", "l2_l3_bytes") if name in fields}
    )
    seconds, declared = fields.get("seconds"), fields.get("declared_bytes")
    moved = dram_bytes(counted).value
    observation = Observation(seconds, counted.flops.value, moved, "f64")
    values: dict[str, Any] = {
        "machine": MACHINE,
        "shapes": shapes,
        "counted": counted,
        "traffic": counted,
        "placement": place(observation, CEILINGS),
        "ledger": ledger(declared, counted),
        **fields,
    }
    return Facts(**values)


def rules(found: Facts) -> list[str]:
    return [one.rule for one in findings(found)]


def only(found: Facts, rule: str) -> Finding:
    (one,) = [one for one in findings(found) if one.rule == rule]
    return one


TRIAD = (written("a", 8 * N), read("b", 8 * N), read("c", 8 * N))


# Write-allocate


def test_lines_that_are_overwritten_whole_need_not_be_read() -> None:
    one = only(facts(*TRIAD), "write-allocate")
    # 32 bytes an element at the copy's and triad's roofs against 24 at that of a triad without
    assert one.gain == pytest.approx((32 / 56) / (24 / 48))
    assert one.attainable == pytest.approx(2 / 24 * 48e9)
    assert one.evidence == {"write-allocate bytes": 8 * N, "DRAM bytes": 32 * N}
    assert "160 MB of 640 MB (25 %)" in one.message
    assert "non-temporal" in one.try_


@pytest.mark.parametrize(
    "array",
    [
        read("a", 8 * N),
        # around the caches already
        traffic("a", write=8 * N, size=8 * N, **{**CACHED, "touched_write_bytes": 8 * N}),
        # half of each line alone is written
        written("a", 8 * N, unused_bytes=4 * N),
        # read again on the way back
        written("a", 8 * N, unique_read_bytes=4 * N, first_write_allocate_bytes=4 * N),
        # loaded before it is stored to
        written("a", 8 * N, touched_read_bytes=8 * N, first_write_allocate_bytes=0),
    ],
)
def test_other_arrays_need_their_reads(array: Any) -> None:
    assert "write-allocate" not in rules(facts(array, read("b", 8 * N)))


def test_a_kernel_that_arithmetic_holds_back_gains_nothing_from_fewer_bytes() -> None:
    busy = measurement(2000 * N, TRIAD)
    assert rules(facts(counted=busy)) == []


def test_far_from_the_roof_only_the_time_of_the_bytes_is_gained() -> None:
    # 32 N bytes take 11.4 ms at the roof, 24 N 10 ms
    one = only(facts(*TRIAD, seconds=0.0228 * 2), "write-allocate")
    assert one.gain == pytest.approx(0.0456 / (0.0456 - (32 * N / 56e9 - 24 * N / 48e9) / USUAL))


def test_time_in_which_others_had_the_processor_does_not_count() -> None:
    alone = only(facts(*TRIAD, seconds=0.0456), "write-allocate")
    shared = only(facts(*TRIAD, seconds=2 * 0.0456, processor_share=0.5), "write-allocate")
    assert shared.gain == pytest.approx(alone.gain)
    # threads that wait for each other have no processor either
    two = facts(*TRIAD, seconds=2 * 0.0456, processor_share=0.5, threads=2)
    assert two.own_seconds == 2 * 0.0456


# Lines used in part


BODIES = Shape("bodies", "f64", 8, (N, 8), ("n", "8"))


def test_an_array_of_structs_is_named_with_its_members() -> None:
    one = only(facts(read("bodies", 64 * N, unused_bytes=40 * N), shapes=(BODIES,)), "array of structs")
    assert "of 8 members (64 B), of which used are 3: 38 % of each line" in one.message
    assert one.gain == pytest.approx(64 / 24)
    assert one.evidence["members used"] == 3


def test_wide_loads_touch_members_that_the_claim_does_not_need() -> None:
    bodies = read("bodies", 64 * N, touched_bytes=64 * N)
    one = only(facts(bodies, shapes=(BODIES,), declared_bytes=24 * N), "array of structs")
    assert "of which the claim needs 3" in one.message
    # nothing declared, nothing known of what was needed
    assert rules(facts(bodies, shapes=(BODIES,))) == []


def test_gaps_between_what_is_used_are_strides() -> None:
    assert rules(facts(read("a", 64 * N, unused_bytes=32 * N))) == ["strided access"]


def test_lines_that_are_used_whole_are_no_finding() -> None:
    assert rules(facts(read("a", 64 * N, unused_bytes=N), shapes=(BODIES,))) == []


# Fetched again


def again(name: str, size: int, times: int, **fields: int | None) -> Any:
    """Return an array each of whose lines is read so many times."""
    more = {"again_capacity_bytes": (times - 1) * size, "again_conflict_bytes": 0}
    values = {"dram_read_bytes": times * size, "unique_read_bytes": size, **more, **fields}
    return replace(read(name, size), **values)


def test_a_walk_down_columns_fetches_each_line_once_an_element() -> None:
    matrix = Shape("a", "f64", 8, (N // 16, 16), ("rows", "cols"))
    one = only(facts(again("a", 8 * N, 8), shapes=(matrix,)), "strided access")
    assert one.gain == pytest.approx(8)
    assert "comes 8.0 times, for 8 of its 64 B" in one.message
    assert "exchange the loops" in one.try_


def on_pages(huge: bool | None, **fields: Any) -> Facts:
    """Return the facts of a triad whose arrays lie on such pages, where small ones make its roof lower."""
    arrays = tuple(replace(one, huge_pages=huge) for one in TRIAD)
    slower = (
        bandwidth("DRAM triad, 4 KiB pages", 28, mix="triad", small_pages=True),
        bandwidth("DRAM triad NT, 4 KiB pages", 42, mix="triad NT", small_pages=True),
        bandwidth("DRAM strided, 4 KiB pages", 9, mix="strided", small_pages=True),
    )
    return facts(*arrays, machine=replace(MACHINE, access=slower), **fields)


def test_gains_are_those_of_the_pages_that_the_arrays_lie_on() -> None:
    huge, small = (only(on_pages(huge), "write-allocate").gain for huge in (True, False))
    assert huge == pytest.approx((32 / 56) / (24 / 48))
    assert small == pytest.approx((32 / 28) / (24 / 42))
    # without a word on the pages it is as it was
    assert only(on_pages(None), "write-allocate").gain == pytest.approx(huge)


def test_mixes_that_were_not_measured_on_small_pages_keep_their_roof() -> None:
    found = on_pages(False)
    assert {one.name for one in found.roofs if one.level == "dram"} == {
        "DRAM read",
        "DRAM copy",
        "DRAM copy NT",
        "DRAM triad, 4 KiB pages",
        "DRAM triad NT, 4 KiB pages",
    }


@pytest.mark.parametrize(
    ("stride", "strided", "gain"),
    [
        # neighbouring lines come as fast as any
        (64, 10, 8.0),
        # 20 of 40 GB/s, and what is left once: both count
        (128, 20, 16.0),
        # no faster than the roof, of which 64 N bytes took a third
        (128, 10, 24.0 * USUAL),
        (128, None, 24.0 * USUAL),
    ],
)
def test_lines_that_are_no_neighbours_come_at_the_pace_of_strided_loads(
    stride: int, strided: float | None, gain: float
) -> None:
    a, b = (Shape(name, "f64", 8, (N // 16, 16), ("rows", "cols")) for name in "ab")
    walk = StrideShare("a", stride, 8, False, 1.0, N)
    counted = measurement(0, (again("a", 8 * N, 8),), strides=(walk,))
    access = () if strided is None else (bandwidth("DRAM strided", strided, mix="strided"),)
    machine = replace(MACHINE, access=access)
    found = facts(counted=counted, shapes=(a, b), machine=machine, seconds=3 * 64 * N / 40e9)
    one = only(found, "strided access")
    assert one.gain == pytest.approx(gain)
    assert "tiles" in one.try_


def test_passes_over_more_than_the_cache_are_capacity() -> None:
    matrix = Shape("a", "f64", 8, (1024, N // 1024), ("rows", "cols"))
    one = only(facts(again("a", 8 * N, 2), shapes=(matrix,)), "fetched again: capacity")
    assert one.gain == pytest.approx(2)
    assert one.evidence["fetches of a line"] == 2


def test_lines_that_are_only_written_again_were_left_by_the_call_before() -> None:
    filled = {"dram_write_bytes": 8 * N, "unique_write_bytes": 5 * N}
    array = again("a", 8 * N, 1, **filled)
    assert array.read_again_bytes == 0
    assert "fetched again: capacity" not in rules(facts(array))
    both = again("a", 8 * N, 2, **filled)
    assert "fetched again: capacity" in rules(facts(both))


def test_layers_that_do_not_fit_are_tiled() -> None:
    cube = Shape("x", "f64", 8, (20, 2000, 2000), ("n", "m", "m"))
    one = only(facts(again("x", cube.bytes, 3), shapes=(cube,)), "fetched again: capacity")
    # half of L3 and L2 together, for four layers
    assert "4 layers of x (30.5 MiB each) would have to stay in L3" in one.try_
    assert "layers of at most 4.12 MiB" in one.try_


def test_an_index_makes_lines_come_for_parts_of_them() -> None:
    shapes = (Shape("table", "f64", 8, (N,), ("n",)), Shape("index", "i32", 4, (N,), ("n",)))
    found = facts(again("table", 8 * N, 5), read("index", 4 * N), shapes=shapes)
    one = only(found, "scattered access")
    assert one.gain == pytest.approx((40 + 4) / (8 + 4))
    assert "sort or bucket the indices" in one.try_


@pytest.mark.parametrize(("share", "rule"), [(0.9, "scattered access"), (0.1, "fetched again: capacity")])
def test_where_distances_are_known_they_tell_what_an_index_leads_to(share: float, rule: str) -> None:
    strides = (StrideShare("table", 8, 8, True, 1 - share), StrideShare("table", None, None, False, share))
    counted = measurement(2 * N, (again("table", 8 * N, 5), read("index", 4 * N)), strides=strides)
    shapes = (Shape("table", "f64", 8, (N,), ("n",)), Shape("index", "i32", 4, (N,), ("n",)))
    assert rules(facts(counted=counted, shapes=shapes)) == [rule]


def overfetched(name: str, size: int, unused: int) -> Any:
    """Return an array that is read once, and of which prefetchers brought so much for nobody besides."""
    more = {"dram_read_bytes": size + unused, "unique_read_bytes": size}
    return read(name, size, prefetched_bytes=size + unused, prefetched_unused_bytes=unused, **more)


def test_lines_that_were_prefetched_for_nobody_need_not_come() -> None:
    one = only(facts(overfetched("a", 8 * N, 2 * N), read("b", 8 * N)), "prefetch overfetch")
    assert one.gain == pytest.approx(18 / 16)
    assert (
        "40.0 MB of 360 MB (11 %) are lines of a that hardware prefetchers brought and nobody used"
        in one.message
    )
    assert "20 % of what they brought" in one.message
    assert "lay rows without a gap" in one.try_
    assert one.evidence == {
        "bytes prefetched, never used": 2 * N,
        "bytes prefetched": 10 * N,
        "DRAM bytes": 18 * N,
    }


def test_lines_prefetched_for_nobody_are_no_refetches() -> None:
    assert rules(facts(overfetched("a", 8 * N, 8 * N))) == ["prefetch overfetch"]


def test_at_random_lines_the_pairs_are_what_can_be_changed() -> None:
    shapes = (Shape("table", "f64", 8, (N,), ("n",)), Shape("index", "i32", 4, (N,), ("n",)))
    found = facts(overfetched("table", 8 * N, 8 * N), read("index", 4 * N), shapes=shapes)
    assert (
        "put elements of table that are used together into aligned pairs"
        in only(found, "prefetch overfetch").try_
    )


@pytest.mark.parametrize("unused", [0, N // 4, None])
def test_few_lines_prefetched_for_nobody_are_no_finding(unused: int | None) -> None:
    size = unused or 0
    array = read("a", 8 * N, dram_read_bytes=8 * N + size, unique_read_bytes=8 * N)
    found = facts(replace(array, prefetched_bytes=size, prefetched_unused_bytes=unused))
    assert "prefetch overfetch" not in rules(found)


def test_rows_a_power_of_two_apart_push_each_other_out() -> None:
    square = Shape("a", "f64", 8, (4096, 4096), ("n", "n"))
    array = again("a", square.bytes, 2, again_capacity_bytes=0, again_conflict_bytes=square.bytes)
    one = only(facts(array, shapes=(square,)), "fetched again: conflict")
    assert "from 4096 to 4104 elements" in one.try_
    odd = Shape("a", "f64", 8, (4096, 4104), ("n", "n"))
    padded = again("a", odd.bytes, 2, again_capacity_bytes=0, again_conflict_bytes=odd.bytes)
    assert rules(facts(padded, shapes=(odd,))) == ["fetched again: capacity"]
    # rows that are spread over the sets are lost to a choice of victims: padding changes nothing
    *others, last = MACHINE.caches
    assert last.hashed
    at_random = replace(MACHINE, caches=(*others, replace(last, policy=Policy("random"))))
    assert rules(facts(array, shapes=(square,), machine=at_random)) == ["fetched again: capacity"]


def test_what_is_read_once_is_not_fetched_again() -> None:
    assert rules(facts(read("a", 8 * N), shapes=(Shape("a", "f64", 8, (N,), ("n",)),))) == []


# Between caches


def walk(row: int, l2_l3: int) -> Facts:
    shape = Shape("a", "f64", 8, (4096, row), ("n", "ld"))
    return facts(
        read("a", shape.bytes),
        shapes=(shape,),
        l1_l2_bytes=modelled(8 * shape.bytes),
        l2_l3_bytes=modelled(l2_l3),
    )


def test_a_column_that_would_fit_but_for_its_sets_is_a_conflict() -> None:
    size = 8 * 4096 * 4096
    one = only(walk(4096, 16 * size), "fetched again: conflict")
    assert "meet in 256 places of L2" in one.message
    assert "from 4096 to 4104" in one.try_
    assert "fetched again: conflict" not in rules(walk(4096, 2 * size))
    assert "fetched again: conflict" not in rules(walk(4104, 16 * size))


WALKS = tuple(
    bandwidth(f"L1-L2 walk {lines}", 64 / nanoseconds, level="l2", mix="walk")
    for lines, nanoseconds in ((1024, 2), (4096, 6))
)


def paged(rows: int, l2_l3: float, seconds: float | None = 0.5, row: int = 4096) -> Facts:
    shape = Shape("a", "f64", 8, (rows, row), ("n", "ld"))
    moved = {"l1_l2_bytes": modelled(8 * shape.bytes), "l2_l3_bytes": modelled(l2_l3 * shape.bytes)}
    machine = factories.machine((*CEILINGS, *WALKS))
    return facts(read("a", shape.bytes), shapes=(shape,), seconds=seconds, machine=machine, **moved)


def test_lines_that_stay_in_l2_cost_what_a_walk_over_as_many_pages_does() -> None:
    # 4 M lines in 50 ms; an eighth of them is fetched first, the others take 2 ns
    lines = 4096 * 4096
    one = only(paged(1024, 16, seconds=0.05), "fetched again: conflict")
    assert one.gain == pytest.approx(0.05 / (0.05 / 8 + 7 / 8 * lines / 4 * 2e-9))
    few = only(paged(4096, 16), "fetched again: conflict")
    assert few.gain == pytest.approx(0.5 / (0.5 / 8 + 7 / 8 * lines * 6e-9))


def test_lines_that_stay_in_l1_cost_their_first_fetch_and_then_the_arithmetic() -> None:
    shape = Shape("a", "f64", 8, (64, 512), ("n", "ld"))
    moved = {"l1_l2_bytes": modelled(8 * shape.bytes), "l2_l3_bytes": modelled(0)}
    one = only(
        facts(read("a", shape.bytes), shapes=(shape,), seconds=1e-3, **moved), "fetched again: conflict"
    )
    # an eighth of the columns fetches all lines first, the others find them and have the arithmetic to do
    assert one.gain == pytest.approx(1e-3 / (1e-3 / 8 + 7 / 8 * 2 * N / 128e9))
    assert "meet in 12 places of L1" in one.message


def test_columns_that_fit_l1_stay_there_once_they_are_spread() -> None:
    # 512 lines meet in 256 places of L2; spread, they fit the 768 of L1
    one = only(paged(512, 16, seconds=0.0625), "fetched again: conflict")
    assert one.gain == pytest.approx(0.0625 / (0.0625 / 8 + 7 / 8 * 2 * N / 128e9))
    assert "meet in 256 places of L2" in one.message


def test_without_measured_walks_lines_of_l2_cost_nothing_beside_the_rest() -> None:
    # those of memory take longest at their roof
    found = replace(paged(4096, 16), machine=MACHINE)
    one = only(found, "fetched again: conflict")
    rest = 8 * 4096 * 4096 / 40e9
    assert one.gain == pytest.approx(0.5 / (0.5 / 8 + 7 / 8 * rest))


def test_walks_without_a_number_of_lines_are_no_measure() -> None:
    unknown = (bandwidth("L1-L2 walk", 32, level="l2", mix="walk"),)
    with_it = replace(paged(4096, 2), machine=factories.machine((*CEILINGS, *unknown)))
    assert pages.TRANSLATION not in rules(with_it)


def test_columns_in_more_pages_than_are_kept_wait_for_their_addresses() -> None:
    one = only(paged(4096, 2), pages.TRANSLATION)
    lines = 4096 * 4096
    assert one.gain == pytest.approx(0.5 / (0.5 - lines * 4e-9))
    assert "the 4096 lines of a column of a are in as many pages" in one.message
    assert "parts of at most 1024" in one.try_


def test_only_what_the_modelled_tlb_does_not_have_waits_for_its_address() -> None:
    found = paged(4096, 2)
    (array,) = found.arrays

    def translated(misses: int, walked: int) -> Facts:
        traffic = replace(found.traffic, arrays=(replace(array, tlb_misses=misses, page_walks=walked),))
        return replace(found, traffic=traffic)

    lines = 4096 * 4096
    one = only(translated(lines // 2, 1234), pages.TRANSLATION)
    assert one.gain == pytest.approx(0.5 / (0.5 - lines / 2 * 4e-9))
    assert "; modelled: 8.39 M translations that the first TLB does not have, 1.23 k page" in one.message
    every = only(translated(2 * lines, lines), pages.TRANSLATION)
    assert every.gain == only(found, pages.TRANSLATION).gain
    assert pages.TRANSLATION not in rules(translated(lines // 1000, 10))


# Walks across lines that memory delivers once


def across(
    *,
    rows: int = 4096,
    row: int = 4104,
    came: float = 8.0,
    stride: int | None = None,
    others: tuple[Shape, ...] = (),
    **fields: Any,
) -> Facts:
    """Return sums of all columns of a matrix, for each element of which a line leaves L2 ``came / 8`` times.

    The lines are read from memory once.
    """
    shape = Shape("a", "f64", 8, (rows, row), ("n", "m"))
    walked = StrideShare("a", 8 * row if stride is None else stride, 8, False, 1.0, rows * row)
    counted = measurement(
        rows * row,
        (read("a", shape.bytes), *(read(one.name, one.bytes) for one in others)),
        strides=(walked,),
        l1_l2_bytes=modelled(came * shape.bytes),
        l2_l3_bytes=modelled(2 * shape.bytes),
        instructions=factories.instrumented(fields.pop("instructions", 6 * rows * row)),
    )
    values = {"seconds": 0.2, "clock_hz": 4e9, "machine": factories.machine((*CEILINGS, *WALKS)), **fields}
    return facts(counted=counted, shapes=(shape, *others), **values)


def test_a_walk_across_lines_costs_time_though_memory_delivers_each_once() -> None:
    one = only(across(), "strided access")
    # along its rows the bytes of the array come at the roof of reads, in 3.4 ms
    assert one.gain == pytest.approx(0.2 / (8 * 4096 * 4104 / 40e9))
    assert one.evidence["stride"] == 8 * 4104
    assert one.evidence["asked for a line"] == 8
    assert "a is walked across its lines, most accesses 32832 B from the one before" in one.message
    assert "exchange the loops" in one.try_
    assert "at most 384 rows at a time, whose lines stay in L1" in one.try_


def test_what_walks_across_lines_gain_is_bounded_by_what_misses_can_have_taken() -> None:
    latencies = tuple(Capacity(level, None, seconds) for level, seconds in (("L2", 4e-9), ("L3", 16e-9)))
    memory = bandwidth("DRAM random", 0.64, level="dram", mix="random")
    known = replace(factories.machine((*CEILINGS, *WALKS)), capacities=latencies, access=(memory,))
    lines = 4096 * 4104 / 8
    misses = 8 * lines * 4e-9 + 2 * lines * 16e-9 + lines * 100e-9
    one = only(across(machine=known, seconds=1.0), "strided access")
    assert one.gain == pytest.approx(1 / (1 - misses))


def test_a_kernel_that_executes_much_besides_gains_the_time_of_the_walk_alone() -> None:
    # 16.8 M lines at 6 ns each are half of 0.2 s, but a fifth of 0.5 s
    one = only(across(seconds=0.5, instructions=3 * 10**9), "strided access")
    walk, order = 4096 * 4104 * 6e-9, 8 * 4096 * 4104 / 40e9
    assert one.gain == pytest.approx(0.5 / (0.5 - (walk - order)))


def test_without_a_time_a_walk_is_held_against_measured_ones() -> None:
    one = only(across(seconds=None, clock_hz=None), "strided access")
    assert one.gain == pytest.approx(4096 * 4104 * 6e-9 / (8 * 4096 * 4104 / 40e9))


def test_where_another_matrix_needs_the_other_order_tiles_keep_the_lines_of_both() -> None:
    other = Shape("b", "f64", 8, (4104, 4096), ("m", "n"))
    one = only(across(others=(other,)), "strided access")
    assert "tiles of 32 x 32 elements, so that the lines of a and of b stay in L1" in one.try_


def test_where_elements_are_used_often_another_loop_can_be_the_innermost() -> None:
    other = Shape("b", "f64", 8, (4104, 4096), ("m", "n"))
    found = across(others=(other,))
    assert found.traffic is not None
    often = tuple(replace(one, accesses=3 * (one.accesses or 0)) for one in found.traffic.strides)
    moved = modelled(3 * 8 * 8 * 4096 * 4104)
    found = replace(found, traffic=replace(found.traffic, strides=often, l1_l2_bytes=moved))
    try_ = only(found, "strided access").try_
    assert try_.startswith("exchange the loops, so that the innermost one runs along the rows of a, as i-k-j")
    assert "; or work in tiles" in try_


@pytest.mark.parametrize(
    "found",
    [
        # the first cache keeps the lines of a column until their next element
        across(came=1.0),
        # along the rows
        across(stride=8),
        # each line once
        across(rows=4096, row=8, stride=64, came=1.0),
    ],
)
def test_walks_whose_lines_do_not_come_again_are_no_finding(found: Facts) -> None:
    assert "strided access" not in rules(found)


def test_rows_a_power_of_two_apart_are_one_finding_that_names_the_better_remedy() -> None:
    crowded = across(row=4096, seconds=1.0)
    (traffic,) = (crowded.traffic,)
    assert traffic is not None
    crowded = replace(
        crowded, traffic=replace(traffic, l2_l3_bytes=modelled(16 * 8 * 4096 * 4096)), counted=traffic
    )
    found = {one.rule: one for one in findings(crowded)}
    assert "strided access" not in found
    assert "from 4096 to 4104" in found["fetched again: conflict"].try_
    assert "or walk along the rows, which gains more (up to" in found["fetched again: conflict"].try_


def test_a_line_that_memory_delivers_again_for_each_element_is_told_of_once() -> None:
    found = across()
    assert found.traffic is not None
    size = 8 * 4096 * 4104
    arrays = (again("a", size, 8),)
    counted = replace(found.traffic, arrays=arrays, dram_read_bytes=modelled(8 * size))
    found = replace(found, counted=counted, traffic=counted)
    assert rules(found).count("strided access") == 1
    assert "move again" in only(found, "strided access").message


def test_of_a_known_walk_a_cache_may_keep_some_lines_until_their_next_element() -> None:
    found = across()
    assert found.traffic is not None
    size = 8 * 4096 * 4104
    counted = replace(found.traffic, arrays=(again("a", size, 3),), dram_read_bytes=modelled(3 * size))
    assert "move again" in only(replace(found, counted=counted, traffic=counted), "strided access").message


@pytest.mark.parametrize(
    "found",
    [
        paged(1024, 2),
        paged(4096, 2, seconds=None),
        # eight rows in a page
        paged(4096, 2, row=64),
        # along the rows
        facts(
            read("a", 8 * 4096 * 4096), shapes=(Shape("a", "f64", 8, (4096, 4096), ("n", "n")),), seconds=0.5
        ),
    ],
)
def test_other_walks_do_not(found: Facts) -> None:
    assert pages.TRANSLATION not in rules(found)


def test_traffic_between_caches_is_a_finding_where_it_sets_the_pace() -> None:
    shape = Shape("b", "f64", 8, (512, 512), ("n", "n"))
    size, shapes = shape.bytes, (shape, replace(shape, name="c"))
    many = {"l1_l2_bytes": modelled(0), "l2_l3_bytes": modelled(2000 * size)}
    one = only(facts(replace(read("b", size), dram_read_bytes=0), shapes=shapes, **many), inner.CACHE_TRAFFIC)
    assert one.gain is not None
    assert "blocks of 128 x 128 of b, c take 256 KiB of its 1 MiB" in one.try_
    few = {"l1_l2_bytes": modelled(0), "l2_l3_bytes": modelled(2 * size)}
    assert rules(facts(read("b", size), shapes=(shape,), **few)) == []


# Arithmetic


def classes(*kinds: tuple[int, str, int]) -> Facts:
    """Return the facts of a kernel that moves nothing and executes these FLOPs: width, operation, number."""
    by = tuple(FlopClass("f64", width, op, number) for width, op, number in kinds)
    total = sum(number for _, _, number in kinds)
    counted = measurement(total, (replace(read("a", 64), dram_read_bytes=0),), flops_by=by)
    return facts(counted=counted)


def test_single_numbers_are_not_vectorised() -> None:
    one = only(classes((0, "fma", 10**9)), arithmetic.NOT_VECTORISED)
    assert one.gain == pytest.approx(128 / 16)
    assert "100 % of the FLOPs" in one.message
    assert "AVX-512 has 8 at a time" in one.message


def test_half_vectors_are_narrow() -> None:
    assert only(classes((256, "fma", 10**9)), arithmetic.NARROW).gain == pytest.approx(2)


def test_products_and_sums_can_be_fused() -> None:
    one = only(classes((512, "mul", 10**9), (512, "add", 10**9)), arithmetic.NO_FMA)
    assert one.gain == pytest.approx(2)
    # sums alone have nothing to be fused with
    assert rules(classes((512, "add", 10**9))) == []


def test_divisions_that_take_the_time_are_named() -> None:
    one = only(classes((512, "fma", 10**9), (512, "div", 10**9), (512, "sqrt", 10**8)), arithmetic.DIVISION)
    assert "divisions and square roots" in one.try_
    assert one.evidence["divisions"] == 10**9
    assert rules(classes((512, "fma", 10**9), (512, "div", 10**6))) == []


def test_wide_fused_arithmetic_is_fine() -> None:
    assert rules(classes((512, "fma", 10**9))) == []


def test_memory_bounds_what_vectors_gain() -> None:
    by = (FlopClass("f64", 0, "fma", 2 * N),)
    counted = measurement(2 * N, (read("a", 8 * N),), flops_by=by)
    assert rules(facts(counted=counted)) == []


def test_lanes_that_a_mask_switches_off_are_told() -> None:
    busy = classes((512, "fma", 10**9)).counted
    assert busy is not None
    half = replace(busy, issued_flops=factories.instrumented(2 * 10**9))
    assert only(facts(counted=half), arithmetic.LANES_OFF).gain == pytest.approx(2)


CHAINS = (
    compute("f64 scalar FMA 1 chain", 2, "f64", "scalar", mix="FMA 1 chain"),
    compute("f64 scalar ADD 1 chain", 1, "f64", "scalar", mix="ADD 1 chain", fma=False),
)


def test_operations_that_wait_for_each_other_can_take_no_longer_than_that() -> None:
    by = (FlopClass("f64", 0, "add", 10**6),)
    counted = measurement(10**6, (replace(read("a", 64), dram_read_bytes=0),), flops_by=by)
    machine = factories.machine((*CEILINGS, *CHAINS))
    # of 1.6 ms a million additions explain 1 ms; wider, those would be the ratio of the roofs faster
    one = only(facts(counted=counted, seconds=1.6e-3, machine=machine), arithmetic.NOT_VECTORISED)
    assert one.gain == pytest.approx(1.6 / (1.6 - 1 * (1 - 16 / 64)))
    # of 20 ms they take so little that they are done while the rest waits
    assert arithmetic.NOT_VECTORISED not in rules(facts(counted=counted, seconds=20e-3, machine=machine))


def loaded(seconds: float, *, random: bool = True) -> Facts:
    """Return the facts of a million additions in so many seconds, with 1 MB from L2, L3 and memory each."""
    latencies = tuple(
        Capacity(level, None, nanoseconds * 1e-9) for level, nanoseconds in (("L1", 1), ("L2", 4), ("L3", 16))
    )
    memory = bandwidth("DRAM random", 0.64, level="dram", mix="random")
    machine = factories.machine((*CEILINGS, *CHAINS))
    machine = replace(machine, capacities=latencies, access=(memory,) if random else ())
    counted = measurement(
        10**6,
        (read("a", 10**6),),
        flops_by=(FlopClass("f64", 0, "add", 10**6),),
        l1_l2_bytes=modelled(10**6),
        l2_l3_bytes=modelled(10**6),
    )
    return facts(counted=counted, seconds=seconds, machine=machine)


def test_what_misses_cannot_take_is_the_time_of_instructions() -> None:
    # lines of 64 B: 4 ns from L2, 16 from L3, 100 from memory
    misses = 10**6 / 64 * (4 + 16 + 100) * 1e-9
    assert loaded(0.02).miss_seconds == pytest.approx(misses)
    assert loaded(0.02, random=False).miss_seconds is None
    one = only(loaded(0.02), arithmetic.NOT_VECTORISED)
    assert one.gain == pytest.approx(0.02 / (0.02 - (0.02 - misses) * (1 - 16 / 64)))
    # misses may have taken all of it but the millisecond of the additions
    assert arithmetic.NOT_VECTORISED not in rules(loaded(misses + 0.2e-3))


def test_lines_that_come_in_order_come_at_the_roof() -> None:
    shapes = (Shape("table", "f64", 8, (N,), ("n",)), Shape("index", "i32", 4, (N,), ("n",)))
    arrays = (again("table", 8 * N, 5), read("index", 4 * N))
    one = only(facts(*arrays, shapes=shapes, seconds=1.0), "scattered access")
    # what memory usually gives, not what it gives at best
    assert one.gain == pytest.approx(USUAL / (12 * N / 40e9))
    assert one.attainable == pytest.approx(2 * N / (12 * N / 40e9))
    # a tile for the sake of another matrix leaves each line where it is
    matrix = Shape("b", "f64", 8, (N // 16, 16), ("rows", "cols"))
    other = Shape("a", "f64", 8, (16, N // 16), ("cols", "rows"))
    alone = only(facts(again("b", 8 * N, 8), shapes=(matrix,), seconds=1.0), "strided access")
    assert alone.gain == pytest.approx(USUAL / (8 * N / 40e9))
    both = facts(again("b", 8 * N, 8), read("a", 8 * N), shapes=(matrix, other), seconds=1.0)
    assert only(both, "strided access").gain == pytest.approx((64 + 8) / (8 + 8))


def test_work_beyond_the_claim_that_no_formula_explains_is_redundant() -> None:
    padded = classes((512, "fma", 1_234_567_891))
    found = replace(padded, declared_flops=10**9, flops_formula="n**3", params={"n": 1000})
    one = only(found, arithmetic.REDUNDANT)
    assert one.gain == pytest.approx(1.234567891)
    plain = replace(
        classes((512, "fma", 2 * 10**9)), declared_flops=10**9, flops_formula="n**3", params={"n": 1000}
    )
    assert arithmetic.REDUNDANT not in rules(plain)


# Claims


@pytest.mark.parametrize(
    ("claim", "executed", "fits_exactly"),
    [
        ("8*channels*samples", "9*channels*samples", "9*channels*samples"),
        ("5*n*log2(n)", "34*(n//4)*(log2(n)//2) + 2*n*(log2(n)%2)", "4.25*n*log2(n)"),
        ("13*systems*length", "systems*(9*length - 6)", "9*systems*length - 6*systems"),
        (
            "18*count*height*width",
            "18*(count - 1)*(height - 2)*(width - 2)",
            "18*(count - 1)*(height - 2)*(width - 2)",
        ),
        ("2*n**3", "2*(n - 2)**3", "2*(n - 2)**3"),
        ("2*n", "4*n + 63", "4*n + 63"),
    ],
)
def test_a_wrong_claim_of_flops_gets_the_formula_that_fits(
    claim: str, executed: str, fits_exactly: str
) -> None:
    names = {"channels": 64, "samples": 262_144, "n": 1 << 20, "systems": 8192, "length": 512}
    names |= {"count": 32, "height": 720, "width": 1280}
    if "**3" in claim:
        names["n"] = 100
    counted = measurement(Formula(executed).evaluate(names))
    params = {name: names[name] for name in Formula(claim).names}
    found = facts(
        counted=counted, params=params, declared_flops=Formula(claim).evaluate(names), flops_formula=claim
    )
    one = only(found, claims.FLOPS)
    assert one.evidence["formula that fits"] == fits_exactly
    assert f"{fits_exactly} fits exactly" in one.message
    assert one.try_ == f'declare flops = "{fits_exactly}"'
    assert one.gain is None


def test_a_formula_has_to_fit_all_sizes() -> None:
    sizes = [Size({"n": n, "m": m}, 9 * n * m - 6 * n) for n, m in ((16, 512), (32, 100))]
    assert fits.flops_fit("13*n*m", sizes) == fits.Fit("9*n*m - 6*n", 0.0, 2)
    alone = fits.flops_fit("13*n*m", [Size({"n": 8, "m": 8}, 9 * 64 - 6 * 8)])
    assert alone is not None
    assert alone.off == 0


def test_what_no_formula_gives_exactly_is_said_to_come_close() -> None:
    found = fits.flops_fit("18*n*m", [Size({"n": 1000, "m": 1000}, 14_003_517)])
    assert found is not None
    assert found.text == "14*n*m"
    assert found.words == "14*n*m fits to less than 0.1 %"
    assert fits.flops_fit("18*n", [Size({"n": 100}, 0)]) is None


def test_right_claims_are_no_finding() -> None:
    right = facts(
        *TRIAD,
        declared_flops=2 * N,
        flops_formula="2*n",
        params={"n": N},
        declared_bytes=32 * N,
        shapes=VECTORS,
    )
    assert rules(right) == ["write-allocate"]
    nothing = facts(*TRIAD, shapes=VECTORS)
    assert rules(nothing) == ["write-allocate"]


VECTORS = tuple(Shape(name, "f64", 8, (N,), ("n",)) for name in "abc")


def test_bytes_that_lack_the_write_allocate_get_the_formula_of_the_arrays() -> None:
    found = facts(
        *TRIAD,
        declared_bytes=24 * N,
        bytes_formula="24*n",
        params={"n": N},
        declared_flops=2 * N,
        shapes=VECTORS,
    )
    assert rules(found) == ["write-allocate", claims.BYTES]
    one = only(found, claims.BYTES)
    assert "480 MB declared (24*n), 640 MB moved, 1.33 times as many" in one.message
    assert "32*n fits exactly (a twice, b once, c once)" in one.message
    assert one.try_ == 'declare bytes = "32*n"'


def test_a_formula_of_bytes_that_depends_on_the_caches_says_so() -> None:
    shapes = (Shape("a", "f64", 8, (N // 16, 16), ("n//16", "16")),)
    array = again("a", 8 * N, 3, dram_read_bytes=20 * N, again_capacity_bytes=12 * N)
    one = only(facts(array, declared_bytes=8 * N, params={"n": N}, shapes=shapes), claims.BYTES)
    assert one.try_.endswith("for this size and these caches")


def test_a_working_set_that_stays_in_cache_is_no_traffic_with_memory() -> None:
    size = 4 * 1024 * 1024
    array = replace(read("a", size, touched_bytes=size), dram_read_bytes=0, unique_read_bytes=0)
    found = facts(array, declared_bytes=size, bytes_formula="8*n")
    one = only(found, claims.RESIDENT)
    assert "stay in L3 from call to call" in one.message
    assert claims.BYTES not in rules(found)
    assert claims.RESIDENT not in rules(facts(read("a", size), declared_bytes=size))


# Threads


def test_falsely_shared_lines_are_named_by_array() -> None:
    sums = (FalseSharing("sums", 3, 5000, 2), FalseSharing("a", 1, 10, 4))
    found = facts(counted=measurement(2 * N, (read("a", 8 * N),), false_sharing=sums), threads=2)
    one = only(found, threads.FALSE_SHARING)
    assert one.evidence == {"lines": 4, "moves": 5010, "cores at most": 4}
    assert "4 lines of sums, a" in one.message
    assert one.gain is None  # no load from the last cache was measured
    few = (FalseSharing("sums", 1, 5, 2),)
    quiet = facts(counted=measurement(2 * N, (read("a", 8 * N),), false_sharing=few), threads=2)
    assert threads.FALSE_SHARING not in rules(quiet)


def test_each_access_to_a_falsely_shared_line_may_wait_for_it() -> None:
    sums = replace(read("sums", 512), touched_read_bytes=64, touched_write_bytes=64, dram_read_bytes=0)
    strides = (
        StrideShare("sums", 0, 8, False, 0.9, 900_000),
        StrideShare("sums", None, None, False, 0.1, 100_000),
    )
    shared = (FalseSharing("sums", 1, 4, 2),)
    counted = measurement(2 * N, (sums,), strides=strides, false_sharing=shared)
    machine = replace(MACHINE, capacities=(Capacity("L2", None, 4e-9), Capacity("L3", None, 16e-9)))
    one = only(facts(counted=counted, threads=2, seconds=0.02, machine=machine), threads.FALSE_SHARING)
    # a million loads from L3, one after the other
    assert one.gain == pytest.approx(0.02 / (0.02 - 1e6 * 16e-9))
    assert one.evidence["accesses"] == 10**6
    assert "at least 4 times, and at most at each of 1.00 M accesses, which then take 16.0 ms" in one.message
    for locked, known in ((9_999, True), (10_000, False)):
        atomic = replace(counted, untimed_locked=locked)
        same = only(facts(counted=atomic, threads=2, seconds=0.02, machine=machine), threads.FALSE_SHARING)
        assert (same.gain == one.gain) == (same.attainable == one.attainable) == known
        assert (same.gain is None) == ("10.0 k locked instructions" in same.message) == (not known)
        assert same.evidence.get("locked instructions of unknown latency") == (None if known else locked)
    # of an array of which one line in a thousand is the seam between threads
    seam = replace(sums, touched_read_bytes=640_000, touched_write_bytes=64_000)
    counted = measurement(
        2 * N, (seam,), strides=(replace(strides[0], accesses=80_000),), false_sharing=shared
    )
    assert threads.FALSE_SHARING not in rules(
        facts(counted=counted, threads=2, seconds=0.02, machine=machine)
    )


@pytest.mark.parametrize(("shares", "factor"), [((300, 100), 1.5), ((400,), 2.0), ((200, 200), None)])
def test_work_of_threads_is_compared_with_the_mean(shares: tuple[int, ...], factor: float | None) -> None:
    few = factories.instrumented(400 * 9)
    counted = measurement(400, (read("a", 8 * N),), flops_by_thread=shares, instructions=few)
    found = [one for one in findings(facts(counted=counted, threads=2)) if one.rule == threads.IMBALANCE]
    assert [one.gain for one in found] == ([] if factor is None else [factor])


def test_threads_whose_flops_are_not_their_work_are_not_compared_by_them() -> None:
    """An encoder computes with integers; the few FLOPs of its rate control are one thread's."""
    many = factories.instrumented(400 * 150)
    counted = measurement(400, (read("a", 8 * N),), flops_by_thread=(400,), instructions=many)
    assert threads.IMBALANCE not in rules(facts(counted=counted, threads=2))


@pytest.mark.parametrize(
    ("called", "told"),
    [
        ("GOMP_parallel", True),
        ("__kmpc_for_static_init_8u", True),
        ("GOMP_parallel_loop_nonmonotonic_dynamic", False),
        ("GOMP_loop_ull_guided_next", False),
        ("__kmpc_dispatch_next_8u", False),
        ("__kmpc_omp_task", False),
        ("GOMP_task", False),
    ],
)
def test_threads_that_take_their_work_by_turns_are_not_compared(called: str, told: bool) -> None:
    """Under the engine another thread may be the first."""
    few = factories.instrumented(400 * 9)
    counted = measurement(
        400, (read("a", 8 * N),), flops_by_thread=(400,), instructions=few, native_calls=((called, 3),)
    )
    assert (threads.IMBALANCE in rules(facts(counted=counted, threads=2))) == told


# The dot


def test_a_dot_above_its_roof_gets_the_likely_reason() -> None:
    small = 40 * 1024 * 1024
    one = only(facts(read("a", small, touched_bytes=small), seconds=1e-4), doubts.ABOVE)
    assert "stays in cache, where the machine keeps more than the model" in one.message
    assert one.severity == "doubt"
    large = read("a", 8 * N, touched_bytes=8 * N)
    assert "measured while" in only(facts(large, seconds=1e-4), doubts.ABOVE).message
    assert doubts.ABOVE not in rules(facts(large, seconds=1))


def test_bytes_kept_in_a_cache_of_which_less_was_found_are_doubted() -> None:
    """The L3 of the machine has 32 MiB, and 10 of them were there."""
    last = MACHINE.caches[-1]
    found = replace(MACHINE, capacities=(Capacity("L3", 10 << 20, 16e-9),))
    kept = read("a", 8 << 20, touched_bytes=24 << 20)  # two thirds of it never leave
    one = only(facts(kept, machine=found), doubts.TAKEN)
    assert one.severity == "doubt"
    assert (
        "L3 is modelled with the 32 MiB of its label, of which loads of random lines found 10 MiB when"
        in one.message
    )
    assert one.evidence == {
        "label bytes": last.bytes,
        "measured bytes": 10 << 20,
        "touched bytes": 24 << 20,
    }
    whole = read("a", 24 << 20, touched_bytes=24 << 20)
    again = replace(whole, dram_read_bytes=48 << 20, again_capacity_bytes=24 << 20, again_conflict_bytes=0)
    assert doubts.TAKEN in rules(facts(again, machine=found))
    gone = replace(MACHINE, capacities=(Capacity("L3", None, 97e-9, "as long in the next level"),))
    assert "random lines found nothing when" in only(facts(kept, machine=gone), doubts.TAKEN).message
    unknown = replace(MACHINE, capacities=(Capacity("L3", None, None, "too small working sets"),))
    for case in (
        facts(kept, machine=unknown),
        facts(read("a", 0, touched_bytes=1 << 20), machine=gone),  # fits L2
        facts(kept),  # nothing was measured
        facts(kept, machine=replace(MACHINE, capacities=(Capacity("L3", last.bytes, 16e-9),))),
        facts(whole, machine=found),  # all of it comes from memory as it is
        facts(read("a", 1 << 20, touched_bytes=9 << 20), machine=found),  # fits what was found
        facts(read("a", 1 << 20, touched_bytes=128 << 20), machine=found),  # far more than the label
    ):
        assert doubts.TAKEN not in rules(case)


def test_bytes_that_depend_on_a_cache_nobody_measured_are_known_on_a_virtual_machine() -> None:
    """Between a tenth of the 32 MiB of L3 and four times as much, where the model kept something."""
    kept = facts(read("a", 1 << 20, touched_bytes=24 << 20))
    said = doubts.unmeasured(kept)
    assert said is not None
    assert said.startswith("L3 is modelled with the 32 MiB of its label; what this virtual machine has of it")
    assert doubts.unmeasured(facts(read("b", 0, touched_bytes=100 << 20))) == said
    measured = replace(MACHINE, capacities=(Capacity("L3", None, None, "too small working sets"),))
    for case in (
        replace(kept, machine=measured),
        replace(kept, machine=replace(MACHINE, hypervisor=None)),
        facts(read("a", 0, touched_bytes=3 << 20)),
        facts(read("a", 0, touched_bytes=128 << 20)),
        facts(read("a", 24 << 20, touched_bytes=24 << 20)),
    ):
        assert doubts.unmeasured(case) is None


def test_an_imported_count_is_doubted() -> None:
    moved = Count(8 * N, "imported", "a file")
    counted = measurement(2 * N, (read("a", 8 * N),), read=0, write=0, dram_bytes=moved)
    assert "imported count" in only(facts(counted=counted, seconds=1e-4), doubts.ABOVE).message


STACK = (
    compute("f64 scalar FMA 1 chain", 4, "f64", "scalar", mix="FMA 1 chain"),
    compute("f64 scalar FMA", 16, "f64", "scalar", mix="FMA"),
    compute("f64 AVX-512 ADD+MUL 1:1", 64, "f64", mix="ADD+MUL 1:1", fma=False),
    compute("f64 AVX-512 FMA", 128, "f64", mix="FMA"),
)


@pytest.mark.parametrize(
    ("gigaflops", "width", "op", "message", "missing"),
    [
        (3, 0, "fma", "it is below f64 scalar FMA 1 chain (4", "do not wait for each other"),
        (20, 0, "fma", "it is above f64 scalar FMA (16", "AVX-512 instructions"),
        (15, 0, "fma", "it is about at f64 scalar FMA (16", "AVX-512 instructions"),
        (20, 512, "add", "below f64 AVX-512 ADD+MUL 1:1 (64", "fewer other instructions"),
        (100, 512, "mul add", "below f64 AVX-512 FMA (128", "fused multiply-adds"),
        (100, 512, "fma", "it is above f64 AVX-512 ADD+MUL 1:1 (64", "fewer other instructions"),
    ],
)
def test_the_ceiling_that_is_not_reached_names_what_is_missing(
    gigaflops: float, width: int, op: str, message: str, missing: str
) -> None:
    ops = op.split()
    by = tuple(FlopClass("f64", width, one, 10**9 // len(ops)) for one in ops)
    counted = measurement(10**9, (replace(read("a", 64), dram_read_bytes=0),), flops_by=by)
    seconds = 1 / gigaflops
    placed = place(Observation(seconds, 10**9, 0, "f64"), STACK)
    found = facts(counted=counted, seconds=seconds, placement=placed, machine=factories.machine(STACK))
    one = only(found, stacked.BETWEEN)
    assert message in one.message
    assert missing in one.try_
    assert one.severity == "note"


def test_a_kernel_that_memory_holds_back_or_at_its_peak_is_between_no_ceilings() -> None:
    assert stacked.BETWEEN not in rules(facts(read("a", 8 * N), seconds=0.01))
    busy = measurement(10**9, (replace(read("a", 64), dram_read_bytes=0),))
    assert stacked.BETWEEN not in rules(facts(counted=busy, seconds=1 / 120))


# All rules


def test_a_kernel_at_its_roof_without_waste_is_told_that_it_is_fine() -> None:
    array = read("a", 8 * N)
    (one,) = findings(facts(array, seconds=8 * N / 40e9 / 0.9))
    assert (one.rule, one.severity, one.gain) == (fine.FINE_RULE, "note", None)
    # 40 GB/s are what reads reach, though the highest roof is 60
    assert "90 % of its time is what memory needs" in one.message
    (other,) = findings(facts(array, seconds=8 * N / 40e9 / 0.3))
    assert other.rule == fine.OPEN
    assert fine.FINE_RULE not in rules(facts(*TRIAD, seconds=0.0115))


def test_what_is_known_of_a_kernel_far_from_its_roofs_is_said_with_what_to_try() -> None:
    array = read("a", 8 * N)
    counted = measurement(2 * N, (array,), instructions=factories.instrumented(12 * N))
    # 8 N bytes take 4 ms
    waits = only(facts(counted=counted, seconds=0.04, clock_hz=4e9), fine.OPEN)
    assert "only 10 % of its time is what memory needs" in waits.message
    assert "memory 10 %, arithmetic 0.8 %; 1.50 instructions a cycle" in waits.message
    assert waits.evidence["instructions a cycle"] == 1.5
    assert "locked" not in waits.message
    atomic = only(facts(counted=replace(counted, untimed_locked=500), seconds=0.04, clock_hz=4e9), fine.OPEN)
    assert "500 locked instructions (atomics), whose latency is not known of this processor" in atomic.message
    for seconds, first in ((0.1, "it waits, likely for lines"), (0.02, "the instructions themselves")):
        assert only(facts(counted=counted, seconds=seconds, clock_hz=4e9), fine.OPEN).try_.startswith(first)


def test_what_misses_cannot_have_taken_is_waiting_for_something_else() -> None:
    latencies = tuple(Capacity(level, None, seconds) for level, seconds in (("L2", 4e-9), ("L3", 16e-9)))
    memory = bandwidth("DRAM random", 0.64, level="dram", mix="random")
    machine = replace(MACHINE, capacities=latencies, access=(memory,))
    size = 8 * N
    moved = {"l1_l2_bytes": modelled(size), "l2_l3_bytes": modelled(size)}
    found = facts(
        counted=measurement(2 * N, (read("a", size),), **moved), machine=machine, seconds=1.0, clock_hz=4e9
    )
    # 2.5 M lines of 120 ns each
    one = only(found, fine.OPEN)
    assert "misses, if each line waited for the one before, at most 30 %" in one.message
    assert one.try_.startswith("it waits, and not for lines")


def test_findings_that_explain_little_are_not_all() -> None:
    # write-allocate gains 1.43 at the roof, and far from it next to nothing
    far = findings(facts(*TRIAD, seconds=0.0456))
    assert [one.rule for one in far] == ["write-allocate", fine.OPEN]
    assert "what was found gains up to 1.03 times, which is not all" in far[-1].message
    near = findings(facts(*TRIAD, seconds=0.0228))
    assert [one.rule for one in near] == ["write-allocate"]


def test_a_walk_down_columns_that_stay_in_l2_is_held_against_walks() -> None:
    # 4 M lines at 2 ns each are 8.4 ms
    (one,) = findings(paged(1024, 2, seconds=0.01, row=4104))
    assert one.rule == fine.FINE_RULE
    assert "84 % of its time is what L2 needs at least for a walk down columns" in one.message


def test_a_kernel_whose_operations_wait_for_each_other_as_long_as_for_bytes_is_fine_at_that_pace() -> None:
    # the bytes take 0.2 ns an element, the chain 0.204
    chain = LoopChain(library="lib.so", address=0, passes=N, cycles=0.816, demanded_cycles=0.816 * N)
    counted = measurement(2 * N, (read("a", 8 * N),), chains=(chain,), latencies="a table")
    (one,) = findings(facts(counted=counted, clock_hz=4e9, seconds=0.255 * N / 1e9))
    assert one.rule == fine.FINE_RULE
    assert "80 % of its time is what operations need at least that wait for each other" in one.message


def test_what_gains_most_comes_first() -> None:
    matrix = Shape("a", "f64", 8, (N // 16, 16), ("rows", "cols"))
    found = findings(facts(again("a", 8 * N, 8), written("b", 24 * N), shapes=(matrix,)))
    assert [one.rule for one in found] == ["strided access", "write-allocate"]
    gains = [one.gain or 0 for one in found]
    assert gains == sorted(gains, reverse=True)


def test_without_numbers_the_rules_are_silent() -> None:
    assert findings(Facts(machine=MACHINE)) == ()
    assert findings(Facts(machine=factories.machine(()), counted=factories.triad())) == ()


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_known_findings_are_whole(seed: int) -> None:
    some = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if some.random() < 0.2 else value

    def array(name: str) -> Any:
        lines = some.choice([0, 1, 1000, 10**6])
        again_ = some.choice([0, 0, lines, 7 * lines])
        fields = {
            "unique_read_bytes": 64 * lines,
            "unique_write_bytes": 64 * some.choice([0, lines]),
            "first_write_allocate_bytes": maybe(64 * some.choice([0, lines])),
            "touched_read_bytes": maybe(64 * some.choice([0, lines])),
            "touched_write_bytes": maybe(64 * some.choice([0, lines])),
            "touched_bytes": maybe(some.choice([0, 24, 64]) * lines),
            "unused_bytes": maybe(some.choice([0, 40]) * lines),
            "again_capacity_bytes": maybe(64 * again_),
            "again_conflict_bytes": maybe(0),
            "prefetched_bytes": maybe(64 * lines),
            "prefetched_unused_bytes": maybe(some.choice([0, 8, 64]) * lines),
        }
        written_ = 64 * some.choice([0, lines, 8 * lines])
        return traffic(
            name, 64 * (lines + again_), written_, some.choice([0, 64 * lines]), maybe(64 * lines), **fields
        )

    names = "abc"[: some.randrange(4)]
    extents = [
        ((1000,), ("n",)),
        ((1000, 8), ("n", "8")),
        ((4096, 4096), ("n", "n")),
        ((9, 99, 999), ("k", "m", "n")),
    ]
    shapes = tuple(
        Shape(name, dtype, size, *some.choice(extents))
        for name in names
        for dtype, size in [some.choice([("f64", 8), ("f32", 4), ("i32", 4), ("c128", 16), ("u8", 1)])]
        if some.random() < 0.8
    )
    by = tuple(
        FlopClass(some.choice(["f64", "f32", "x87", "any"]), some.choice([None, 0, 256]), op, 10**6)
        for op in some.sample(["fma", "add", "mul", "div", "sqrt", "any", "max"], some.randrange(4))
    )
    counted = measurement(
        maybe(some.choice([0, 10**6])),
        tuple(array(name) for name in names),
        flops_by=by,
        l1_l2_bytes=modelled(maybe(some.choice([0, 10**6, 10**10]))),
        l2_l3_bytes=modelled(maybe(some.choice([0, 10**6, 10**10]))),
        flops_by_thread=some.choice([(), (10, 1), (0, 0)]),
    )
    roofs = tuple(one for one in (*CEILINGS, *WALKS) if some.random() < 0.7)
    seconds = maybe(some.choice([1e-9, 1e-3, 10.0]))
    found = findings(
        Facts(
            machine=replace(factories.machine(roofs), caches=MACHINE.caches[: some.randrange(4)]),
            threads=some.choice([1, 2, 64]),
            params={"n": some.choice([1, 100, 1000]), "m": 3},
            seconds=seconds,
            clock_hz=maybe(3e9),
            declared_flops=maybe(some.choice([0, 10**6, 3 * 10**6])),
            declared_bytes=maybe(some.choice([0, 10**6])),
            flops_formula=maybe(some.choice(["n", "2*n*m - 3", "n/m", "17", "n**2", "log2(n) + m"])),
            bytes_formula=maybe("8*n"),
            shapes=shapes,
            counted=maybe(counted),
            traffic=maybe(counted),
            placement=maybe(place(Observation(seconds, 10**6, 10**6, "f64"), roofs)),
            ledger=ledger(None, counted),
        )
    )
    for one in found:
        assert one.rule
        assert one.message
        assert one.severity in ("cost", "doubt", "note", "claim")
        assert one.gain is None or one.gain >= 1.03
    jsonio.to_json(found)


# Units of their own for additions

BESIDE = (
    compute("f64 AVX-512 FMA+ADD 1:1", 90, "f64", mix="FMA+ADD 1:1"),
    compute("f64 AVX-512 FMA", 60, "f64", mix="FMA"),
    compute("f64 AVX-512 ADD+MUL 1:1", 60, "f64", mix="ADD+MUL 1:1", fma=False),
    compute("f64 AVX2 FMA+ADD 1:1", 80, "f64", "AVX2", mix="FMA+ADD 1:1"),
    compute("f64 scalar FMA+ADD 1:1", 24, "f64", "scalar", mix="FMA+ADD 1:1"),
)


@pytest.mark.parametrize(
    ("classes", "rate"),
    [
        # nothing runs beside fused multiply-adds
        ({"fma": 1.0}, 60),
        ({"fma": 2 / 3, "add": 1 / 3}, 90),
        # a multiplication takes the place of a fused multiply-add
        ({"mul": 1.0}, 30),
        ({"mul": 0.5, "add": 0.5}, 60),
        ({"add": 1.0}, 60),
    ],
)
def test_additions_run_beside_fused_multiply_adds_where_they_have_units_of_their_own(
    classes: dict[str, float], rate: float
) -> None:
    by = [FlopClass("f64", 512, op, round(9e9 * share)) for op, share in classes.items()]
    assert arithmetic_seconds(by, BESIDE, 1) == pytest.approx(9e9 / (rate * 1e9))


def test_narrower_fused_multiply_adds_are_the_same_part_of_their_roof() -> None:
    assert arithmetic_seconds([FlopClass("f64", 256, "fma", 10**9)], BESIDE, 1) == pytest.approx(
        1e9 / (80e9 * 60 / 90)
    )
    # without units of their own each operation has its roof, and they take turns
    both = [FlopClass("f64", 512, "fma", 10**9), FlopClass("f64", 512, "add", 10**9)]
    assert arithmetic_seconds(both, CEILINGS, 1) == pytest.approx(1e9 / 128e9 + 1e9 / 64e9)


def in_cache(by: tuple[FlopClass, ...], seconds: float, ceilings: Any = BESIDE) -> Facts:
    """Return the facts of a kernel of so much arithmetic and hardly any bytes."""
    total = sum(one.flops for one in by)
    counted = measurement(total, (replace(read("a", 64), dram_read_bytes=0),), flops_by=by)
    placed = place(Observation(seconds, total, 0, "f64"), ceilings)
    machine = factories.machine(ceilings)
    return facts(counted=counted, seconds=seconds, placement=placed, machine=machine)


def test_a_kernel_at_the_roof_of_fused_multiply_adds_is_fine_and_misses_nothing() -> None:
    found = in_cache((FlopClass("f64", 512, "fma", 6 * 10**9),), 0.102)
    assert rules(found) == [fine.FINE_RULE]
    # as far from it as arithmetic on single numbers is, it is no wonder
    scalar = in_cache((FlopClass("f64", 0, "fma", 16 * 10**8),), 0.12)
    assert only(scalar, "not vectorised").gain == pytest.approx(60 / 16, rel=0.2)


def test_operations_that_could_be_fused_are_half_as_many_where_the_roof_is_as_high() -> None:
    by = (FlopClass("f64", 512, "mul", 3 * 10**9), FlopClass("f64", 512, "add", 3 * 10**9))
    one = only(in_cache(by, 0.17), "no fused multiply-add")
    assert one.gain == pytest.approx(0.17 / 0.1)
    assert only(in_cache(by, 0.2), "no fused multiply-add").gain == pytest.approx(2)


def test_multiplications_alone_are_not_told_to_be_fused() -> None:
    found = in_cache((FlopClass("f64", 512, "mul", 10**9),), 0.06)
    (one,) = [one for one in findings(found) if one.rule == stacked.BETWEEN]
    assert "fused" not in one.try_


# Passes and indices


def test_passes_over_an_array_in_order_are_no_walk_across_its_lines() -> None:
    strides = (StrideShare("a", 64, 64, True, 1.0, N),)
    counted = measurement(2 * N, (again("a", 8 * N, 5),), strides=strides)
    found = facts(counted=counted, shapes=(Shape("a", "f64", 8, (N,), ("n",)),))
    assert [one.rule for one in findings(found) if one.severity == "cost"] == ["fetched again: capacity"]


def test_lines_that_an_index_asks_for_in_parts_are_told_of_once() -> None:
    shapes = (Shape("table", "f64", 8, (N,), ("n",)), Shape("index", "i32", 4, (N,), ("n",)))
    table = replace(again("table", 8 * N, 5), unused_bytes=3 * N)
    assert rules(facts(table, read("index", 4 * N), shapes=shapes)) == ["scattered access"]


def test_a_kernel_at_what_its_roof_usually_gives_is_fine() -> None:
    moved = bandwidth("DRAM read", 40, mix="read")
    machine = factories.machine((replace(moved, median=0.8 * moved.value), *CEILINGS[1:]))
    found = facts(read("a", 32 * N), machine=machine, seconds=32 * N / 40e9 / 0.65)
    assert rules(found) == [fine.FINE_RULE]
    assert "and 65 % of its time" in only(found, fine.FINE_RULE).message


def test_a_formula_that_fits_one_size_by_chance_does_not_hide_redundant_work() -> None:
    # 64 rows of 33, each computed as 48: 40 for each of them are 60 for each of 32 as well
    by = (FlopClass("f64", 512, "fma", 40 * 64 * 48),)
    params = {"rows": 64, "cols": 33}
    claim = {"declared_flops": 40 * 64 * 33, "flops_formula": "40*rows*cols", "params": params}
    found = replace(in_cache(by, 2.1e-6), **claim)
    one = only(found, arithmetic.REDUNDANT)
    assert one.gain == pytest.approx(48 / 33, rel=0.05)
    # a second size tells
    other = Size({"rows": 64, "cols": 65}, 60 * 64 * 64)
    assert arithmetic.REDUNDANT not in rules(replace(found, other_sizes=(other,)))


def test_divisions_by_the_same_number_can_be_multiplications() -> None:
    ceilings = (*BESIDE, compute("f64 AVX-512 DIV", 3, "f64", mix="DIV", fma=None))
    by = (FlopClass("f64", 512, "div", 10**9), FlopClass("f64", 512, "add", 10**9))
    one = only(in_cache(by, 0.35, ceilings), arithmetic.DIVISION)
    assert "(where divisors are the same again; up to 10.0 times as fast)" in one.try_
    assert one.gain is not None
    assert one.gain < 2


def test_nothing_missed_leaves_all_of_the_time_to_the_arithmetic() -> None:
    counted = measurement(2 * N, (read("a", 8 * N),), l1_l2_bytes=modelled(0), l2_l3_bytes=modelled(0))
    none = replace(counted, dram_read_bytes=modelled(0), dram_write_bytes=modelled(0))
    assert facts(counted=none, seconds=1.0).miss_seconds == 0
    assert facts(counted=counted, seconds=1.0).miss_seconds is None


def test_what_about_fills_the_last_cache_may_come_from_memory_after_all() -> None:
    # 134 MB, of which the model has hardly any come from memory
    def walked(cache: int) -> str:
        found = across()
        last = replace(found.machine.caches[-1], bytes=cache)
        machine = replace(found.machine, caches=(*found.machine.caches[:-1], last))
        assert found.traffic is not None
        kept = replace(found.traffic, dram_read_bytes=modelled(64))
        return only(replace(found, machine=machine, traffic=kept), "strided access").message

    assert "about fill L3: if it keeps none of them, walking along the lines gains 58.9 times" in walked(
        160 << 20
    )
    assert "keeps none" not in walked(1 << 30)


@pytest.mark.parametrize(
    ("row", "far"),
    [
        (2048, True),  # 16 KiB
        (2056, True),  # and a line
        (4096, True),
        (2000, False),
        (1024, False),
    ],
)
def test_rows_of_several_pages_are_walked_as_far_walks_are(row: int, far: bool) -> None:
    measured = tuple(
        bandwidth(f"L1-L2 far walk {lines}", 64 / nanoseconds, level="l2", mix="far walk", small_pages=True)
        for lines, nanoseconds in ((1024, 3), (4096, 12))
    )
    shape = Shape("a", "f64", 8, (4096, row), ("n", "m"))
    found = across(row=row)
    found = replace(found, machine=replace(found.machine, access=measured))
    walks = tiles.walks(found, tiles.row_bytes(shape))
    assert 64 / tiles.walk(walks, 4096) == pytest.approx(12e-9 if far else 6e-9)
    # without them those over neighbouring pages count
    without = replace(found, machine=replace(found.machine, access=()))
    assert 64 / tiles.walk(tiles.walks(without, tiles.row_bytes(shape)), 4096) == pytest.approx(6e-9)


@pytest.mark.parametrize(
    ("stride", "huge", "said"), [(4160, None, True), (4160, True, False), (128, None, False)]
)
def test_accesses_of_a_page_each_are_pointed_at_where_no_cause_is_found(
    stride: int, huge: bool | None, said: bool
) -> None:
    walked = StrideShare("a", stride, 8, False, 1.0, N)
    array = replace(read("a", 8 * N), huge_pages=huge)
    counted = measurement(2 * N, (array,), strides=(walked,), l1_l2_bytes=modelled(8 * N))
    one = only(facts(counted=counted, seconds=0.1), fine.OPEN)
    assert ("most accesses to a are in another page" in one.try_) == said


def test_sums_that_become_an_array_make_the_gain_of_exchanged_loops_a_bound() -> None:
    one = only(across(), "strided access")
    assert "the gain is a bound" not in one.try_
    found = across()
    assert found.counted is not None
    chain = LoopChain(library="lib.so", address=0, passes=N, cycles=0.1, demanded_cycles=0.1 * N)
    summed = replace(found, counted=replace(found.counted, chains=(chain,), latencies="a table"))
    assert "becomes an array then" in only(summed, "strided access").try_
