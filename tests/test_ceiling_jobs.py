"""What is measured for the ceilings, where the data lie, and which results become roofs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from counteroof.ceiling_jobs import (
    WALK_LINES,
    best_of,
    dram_bytes,
    memory_jobs,
    on_small_pages,
    placed,
    roofs,
    shared_levels,
    stream_bytes,
)
from counteroof.errors import MachineError
from counteroof.machine.loops import Loop, loops
from counteroof.machine.model import CacheLevel, Capacity, Ceiling, Machine
from tests import factories

MIB = 1 << 20


# ---- which peaks are ceilings ----


def peak(isa: str, mix: str, value: float, precision: str = "f64") -> Ceiling:
    fma = "FMA" in mix
    return factories.compute(f"{precision} {isa} {mix}", value, precision, isa, mix=mix, fma=fma)


def names(found: tuple[Ceiling, ...]) -> list[str]:
    return [one.name for one in found]


def test_the_best_mix_is_the_roof_and_fma_alone_stays_a_ceiling() -> None:
    zen5 = [
        peak("AVX-512", "FMA", 135),
        peak("AVX-512", "FMA+ADD 1:1", 203),
        peak("AVX-512", "FMA+ADD 2:1", 169),
        peak("AVX-512", "ADD", 68),
        peak("AVX-512", "MUL", 67),
        peak("AVX-512", "ADD+MUL 1:1", 134),
        peak("AVX2", "FMA", 68),
        peak("AVX2", "FMA+ADD 1:1", 101),
        peak("SSE", "ADD+MUL 1:1", 34),
        peak("SSE", "ADD", 17),
        peak("scalar", "FMA+ADD 1:1", 25),
        peak("scalar", "ADD", 8),
    ]
    assert names(roofs(zen5)) == [
        "f64 AVX-512 FMA+ADD 1:1",
        "f64 AVX-512 FMA",
        "f64 AVX-512 ADD+MUL 1:1",
        "f64 AVX2 FMA+ADD 1:1",
        "f64 SSE ADD+MUL 1:1",
        "f64 scalar FMA+ADD 1:1",
    ]


def test_where_fma_alone_is_best_it_is_one_ceiling() -> None:
    skylake = [peak("AVX2", "FMA", 60), peak("AVX2", "FMA+ADD 1:1", 45), peak("AVX2", "ADD", 30)]
    assert names(roofs(skylake)) == ["f64 AVX2 FMA", "f64 AVX2 ADD"]


def test_few_chains_divisions_and_roots_are_ceilings_of_the_widest_isa_and_of_scalar_code() -> None:
    found = roofs(
        [
            peak("AVX-512", "FMA", 135),
            peak("AVX-512", "ADD", 68),
            peak("AVX-512", "FMA 1 chain", 17),
            replace(peak("AVX-512", "DIV", 12), fma=None),
            peak("AVX2", "FMA", 68),
            peak("AVX2", "FMA 1 chain", 8),
            peak("scalar", "ADD", 8),
            peak("scalar", "ADD 1 chain", 2),
        ]
    )
    assert names(found) == [
        "f64 AVX-512 FMA",
        "f64 AVX-512 ADD",
        "f64 AVX-512 FMA 1 chain",
        "f64 AVX-512 DIV",
        "f64 AVX2 FMA",
        "f64 scalar ADD",
        "f64 scalar ADD 1 chain",
    ]
    assert [one.mix for one in found if one.special] == ["FMA 1 chain", "DIV", "ADD 1 chain"]


def test_of_mixes_that_are_as_high_the_simplest_is_the_roof() -> None:
    ice_lake = [
        peak("AVX-512", "FMA+ADD 1:1", 89.2),
        peak("AVX-512", "FMA", 89),
        peak("AVX-512", "ADD+MUL 1:1", 44.7),
        peak("AVX-512", "MUL", 44.6),
        peak("AVX-512", "ADD", 44.5),
    ]
    assert names(roofs(ice_lake)) == ["f64 AVX-512 FMA", "f64 AVX-512 ADD"]
    higher = [*ice_lake, peak("AVX-512", "FMA+ADD 2:1", 91)]
    assert names(roofs(higher)) == ["f64 AVX-512 FMA+ADD 2:1", "f64 AVX-512 FMA", "f64 AVX-512 ADD"]


def test_precisions_and_thread_counts_have_roofs_of_their_own() -> None:
    both = [
        peak("SSE", "ADD", 10),
        peak("SSE", "ADD", 20, "f32"),
        replace(peak("SSE", "ADD", 19), threads=2),
    ]
    assert [(one.precision, one.threads) for one in roofs(both)] == [("f64", 1), ("f32", 1), ("f64", 2)]


def test_of_several_measurements_the_highest_counts() -> None:
    low, high, other = peak("SSE", "ADD", 10), peak("SSE", "ADD", 20), peak("SSE", "MUL", 15)
    two = replace(low, threads=2)
    assert best_of([low, two], [high, other]) == (high, two, other)
    assert best_of([high, other], [low]) == (high, other)


# ---- where data lie ----


def machine_of(*caches: tuple[int, int], cpus: int = 8) -> Machine:
    levels = tuple(
        CacheLevel(f"L{index + 1}", size, 8, 64, shared, "non-inclusive", False, "test")
        for index, (size, shared) in enumerate(caches)
    )
    return replace(factories.machine(()), caches=levels, logical_cpus=cpus)


@pytest.mark.parametrize(
    ("threads", "streams", "expected"),
    [
        (1, 1, [32 << 10, 512 << 10, 4 * MIB]),
        (1, 2, [16 << 10, 256 << 10, 2 * MIB]),
        (1, 3, [8 << 10, 128 << 10, 2 * MIB]),
        (2, 1, [32 << 10, 512 << 10, 4 * MIB]),
        (8, 1, [32 << 10, 512 << 10, 2 * MIB]),
    ],
)
def test_working_sets_fit_the_cache_and_exceed_the_one_above(
    threads: int, streams: int, expected: list[int]
) -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    assert [stream_bytes(machine, one, threads, streams) for one in machine.caches] == expected


def test_all_streams_together_leave_room_in_the_cache() -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 1))
    for above, cache in zip((None, *machine.caches), machine.caches, strict=False):
        for streams in (1, 2, 3):
            total = streams * (stream_bytes(machine, cache, 1, streams) or 0)
            assert total <= cache.bytes * 3 // 4
            assert above is None or total >= 3 * above.bytes


def test_threads_on_one_core_halve_its_caches() -> None:
    machine = machine_of((32 << 10, 2), (256 << 10, 2), (16 * MIB, 8))
    assert [stream_bytes(machine, c, 4, 1) for c in machine.caches[:2]] == [16 << 10, 128 << 10]
    assert [stream_bytes(machine, c, 8, 1) for c in machine.caches[:2]] == [8 << 10, 64 << 10]


@pytest.mark.parametrize(
    ("held", "threads", "expected"),
    [
        (5 * MIB, 1, 2 * MIB),  # of the label alone it would be 4 MiB
        (24 * MIB, 1, 4 * MIB),  # others may take more of it again
        (2 * MIB, 2, None),
    ],
)
def test_what_was_measured_of_a_shared_cache_makes_working_sets_smaller_only(
    held: int, threads: int, expected: int | None
) -> None:
    machine = machine_of((32 << 10, 1), (512 << 10, 1), (32 * MIB, 8))
    known = replace(machine, capacities=(Capacity("L3", held, 20e-9),))
    assert stream_bytes(known, known.caches[2], threads, 1) == expected


def test_a_cache_hardly_larger_than_the_one_above_has_no_working_set() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (11 * MIB, 8))
    assert stream_bytes(machine, machine.caches[2], 8, 1) is None
    assert stream_bytes(machine, machine.caches[2], 1, 1) == 4 * MIB


def loop(isa: str, order: str = "loads first", mix: str = "copy", streams: str = "wr") -> Loop:
    return Loop(0, mix, isa, "f64", streams, 1024, 0, 0, order)


def test_caches_are_measured_with_each_vector_that_may_be_the_fastest() -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    there = [loop(isa, order) for isa in ("SSE", "AVX2", "AVX-512") for order in ("loads first", "in turn")]
    jobs = [job for job in memory_jobs(machine, 1, 1 << 28, there) if job.loop.mix == "copy"]
    assert [(job.loop.isa, job.loop.order) for job in jobs if job.name == "core-L1 copy"] == [
        ("AVX-512", "loads first"),
        ("AVX-512", "in turn"),
        ("AVX2", "loads first"),
        ("AVX2", "in turn"),
    ]
    # memory knows no order
    assert [(job.loop.isa, job.loop.order) for job in jobs if job.name == "DRAM copy"] == [
        ("AVX-512", "loads first"),
        ("AVX2", "loads first"),
    ]


def test_memory_and_shared_caches_are_measured_on_small_pages_as_well() -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    jobs = memory_jobs(machine, 1, 1 << 28, [loop("AVX2"), *(one for one in loops() if one.mix == "walk")])
    assert any(job.small_pages for job in jobs)  # walks, which are there once
    twins = on_small_pages(machine, jobs)
    assert [job.name.partition(", ")[0] for job in twins] == ["DRAM copy", "L2-L3 copy"]
    assert all(job.small_pages and job.name.endswith(" pages") for job in twins)


def test_walks_are_no_streams_of_other_levels() -> None:
    """Mixes of kept ceilings are asked for again, and that of a walk is among them."""
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    jobs = memory_jobs(machine, 1, 1 << 28, loops(), ("walk", "2:1 in place"))
    assert {job.name for job in jobs if job.loop.of_lines} == {f"L1-L2 walk {lines}" for lines in WALK_LINES}
    assert "DRAM 2:1 in place" in {job.name for job in jobs}


def test_the_order_is_in_the_note_of_loops_that_differ_in_it() -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    there = [loop(isa, mix="read", streams="r") for isa in ("AVX2", "AVX-512")]
    there += [loop("AVX2", order) for order in ("loads first", "in turn")]
    notes = {(job.name, job.note) for job in memory_jobs(machine, 1, None, there)}
    assert ("core-L1 read", "32 KiB a thread") in notes
    assert ("core-L1 copy", "32 KiB a thread, in turn") in notes


def test_what_page_frames_decide_is_measured_at_several_places_and_walks_at_most() -> None:
    machine = machine_of((48 << 10, 1), (2 * MIB, 1), (32 * MIB, 8))
    walk = Loop(0, "walk", "scalar", "f64", "r", 64, 0, 0, "pages")
    jobs = memory_jobs(machine, 1, 1 << 28, [loop("AVX2"), walk])
    places = {job.name: len(placed(job, 1)) for job in jobs}
    assert (places["DRAM copy"], places["L2-L3 copy"], places["core-L1 copy"]) == (1, 1, 1)
    assert places["L1-L2 copy"] == 4
    assert (places["L1-L2 walk 1024"], places["L1-L2 walk 5120"]) == (12, 11)
    # each of many threads has memory of its own
    assert {len(placed(job, 64)) for job in jobs if job.small_pages} == {4}
    for job in jobs:
        each = sorted(one.place for one in placed(job, 1))
        assert all(after - before >= job.memory_bytes for before, after in itertools.pairwise(each))


def test_without_vectors_of_256_bits_the_widest_alone_are_measured() -> None:
    machine = machine_of((48 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    found = memory_jobs(machine, 1, None, [loop("scalar"), loop("SSE")])
    assert {job.loop.isa for job in found} == {"SSE"}


def test_without_memory_for_it_dram_is_left_out() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 1))
    levels = {job.boundary.level for job in memory_jobs(machine, 1, None, loops()) if job.boundary}
    assert levels == {"l1", "l2", "l3"}


def test_memory_and_shared_caches_are_roofs_that_others_move() -> None:
    assert shared_levels(machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))) == {"dram", "l3"}
    assert shared_levels(machine_of((32 << 10, 2), (1 * MIB, 2))) == {"dram", "l1", "l2"}


def test_dram_needs_many_times_the_last_caches_in_use() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 4), cpus=16)
    assert dram_bytes(machine, 1, 16, None) == 512 * MIB
    assert dram_bytes(machine, 8, 16, None) == 1024 * MIB
    assert dram_bytes(machine, 16, 32, None) == 2048 * MIB
    assert dram_bytes(machine, 1, 16, 600 * MIB) == 200 * MIB


def test_a_huge_last_cache_is_exceeded_by_four_times_only() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (1024 * MIB, 8))
    assert dram_bytes(machine, 1, 16, None) == 4096 * MIB


def test_too_little_memory_is_an_error_with_the_sizes() -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 8))
    with pytest.raises(MachineError, match=r"at least 384 MiB of free memory.*32 MiB.*300 MiB are free"):
        dram_bytes(machine, 1, 16, 300 * MIB)


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_samples_of_dram_fit_their_streams_a_whole_number_of_times(threads: int) -> None:
    machine = machine_of((32 << 10, 1), (1 * MIB, 1), (32 * MIB, 64), cpus=64)
    each = dram_bytes(machine, threads, 16, None) // threads
    jobs = [
        job
        for job in memory_jobs(machine, threads, each, loops())
        if job.boundary is not None and job.boundary.level == "dram"
    ]
    assert len(jobs) >= 4
    for job in jobs:
        sample = job.iterations * job.loop.chunk_bytes
        assert job.stream_bytes % sample == 0
        assert job.stream_bytes >= 3 * sample
        assert job.stream_bytes * len(job.loop.streams) <= each
