"""What crosses each boundary: closed forms, and the cache model itself run over the loops' streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from counteroof.cachesim.model import CacheModel, Kind, Totals
from counteroof.ceiling_jobs import CACHE_MIXES, DRAM_MIXES, WALK, Job, memory_jobs
from counteroof.instrument.engine import Engine
from counteroof.machine.boundary import Boundary, boundaries
from counteroof.machine.loops import loops
from counteroof.machine.model import CacheLevel, Fill, Machine
from counteroof.machine.topology import detect
from counteroof.native import ffi, lib
from tests import factories

CORE = Boundary("l1", "core-L1", "core")
COPIES = Boundary("l2", "L1-L2", "copies")
VICTIMS = Boundary("l3", "L2-L3", "victims")
MEMORY = Boundary("dram", "DRAM", "memory")
STREAMS = {"read": "r", "update": "u", "copy": "wr", "triad": "wrr", "copy NT": "nr", "triad NT": "nrr"}


def cache(name: str, kib: float, ways: int, fill: Fill, shared: int = 1) -> CacheLevel:
    return CacheLevel(name, int(kib * 1024), ways, 64, shared, fill, name == "L3", "test")


def machine_of(*caches: CacheLevel) -> Machine:
    return Machine("test", "x86_64", "test", 8, (), caches, None, None)


MACHINES = {
    "here": detect(),
    "zen": machine_of(
        cache("L1", 48, 12, "non-inclusive"),
        cache("L2", 1024, 16, "inclusive"),
        cache("L3", 32 * 1024, 16, "victim", 2),
    ),
    "broadwell": machine_of(
        cache("L1", 32, 8, "non-inclusive"),
        cache("L2", 256, 8, "non-inclusive"),
        cache("L3", 8 * 1024, 16, "inclusive", 2),
    ),
    "skylake server": machine_of(
        cache("L1", 32, 8, "non-inclusive"),
        cache("L2", 1024, 16, "non-inclusive"),
        cache("L3", 27.5 * 1024, 11, "victim"),
    ),
    "exclusive": machine_of(
        cache("L1", 64, 2, "non-inclusive"), cache("L2", 512, 16, "victim"), cache("L3", 6144, 48, "victim")
    ),
    "two levels": machine_of(cache("L1", 64, 4, "non-inclusive"), cache("L2", 1024, 16, "inclusive")),
}


# ---- closed forms ----


@pytest.mark.parametrize(
    ("boundary", "expected"),
    [
        (CORE, {"read": 8, "update": 16, "copy": 16, "triad": 24}),
        (COPIES, {"read": 8, "update": 16, "copy": 24, "triad": 32}),
        (VICTIMS, {"read": 16, "update": 16, "copy": 32, "triad": 48}),
        (MEMORY, {"read": 8, "update": 16, "copy": 24, "triad": 32, "copy NT": 16, "triad NT": 24}),
    ],
)
def test_bytes_an_element_follow_from_the_streams(boundary: Boundary, expected: dict[str, int]) -> None:
    assert {mix: boundary.element_bytes(STREAMS[mix]) for mix in expected} == expected


def test_non_temporal_stores_go_around_the_caches() -> None:
    assert COPIES.crossings("n") == VICTIMS.crossings("n") == 0
    assert MEMORY.crossings("n") == CORE.crossings("n") == 1


def test_boundaries_have_the_fill_of_the_level_below() -> None:
    assert boundaries(factories.machine().caches) == (CORE, COPIES, VICTIMS, MEMORY)


def test_each_convention_says_what_a_byte_is() -> None:
    assert CORE.convention == "loads and stores of instructions"
    assert COPIES.convention == MEMORY.convention == "both ways, write-allocate counted"
    assert VICTIMS.convention == "both ways, one line down for each line up"


# ---- the model ----

KINDS = {"r": Kind.LOAD, "w": Kind.STORE, "u": Kind.UPDATE, "n": Kind.NON_TEMPORAL}
SKEW = 5 * 64  # what the runner puts between streams


def streams_of(job: Job) -> list[tuple[int, int, int, Kind]]:
    """Return the accesses of one iteration: loads come before the store, which is to the first array."""
    chunk = job.loop.chunk_bytes
    first = 0x7F00_0000_0000
    found = [
        (first + number * (job.stream_bytes + SKEW), chunk, chunk, KINDS[stream])
        for number, stream in enumerate(job.loop.streams)
    ]
    return [*found[1:], found[0]]


def steady(caches: Sequence[CacheLevel], job: Job, times: int = 2) -> Totals:
    """Return what the model counts when a job goes round its streams, as it always had."""
    model = CacheModel(caches)
    streams = streams_of(job)
    for start, *_ in streams:
        model.add_array(
            f"{start:x}", start - start % (2 << 20), job.stream_bytes + (4 << 20), huge_pages=True
        )
    rounds = job.stream_bytes // job.loop.chunk_bytes
    for _ in range(times):
        model.loop(streams, rounds)
    model.reset()
    for _ in range(times):
        model.loop(streams, rounds)
    return model.totals()


def cases() -> list[tuple[str, Job]]:
    """Return every loop at the working set it is measured with, on each machine."""
    found = []
    for name, machine in MACHINES.items():
        memory = 4 * machine.caches[-1].bytes
        for job in memory_jobs(machine, 1, memory, loops()):
            # a model of memory takes long, and the ways to it are the same on all
            if job.boundary is not None and (job.boundary.level != "dram" or name == "two levels"):
                found.append((name, job))
    return found


@pytest.mark.parametrize(
    ("name", "job"), [pytest.param(*one, id=f"{one[0]} {one[1].name}") for one in cases()]
)
def test_a_loop_moves_across_its_boundary_what_the_model_counts(name: str, job: Job) -> None:
    caches = MACHINES[name].caches
    totals = steady(caches, job)
    assert job.boundary is not None
    claimed = 2 * job.stream_bytes // job.loop.chunk_bytes * job.loop.moved_bytes(job.boundary)
    level = job.boundary.level
    if level == "l1":
        assert totals.between(1) == 0  # the core's own bytes are counted by instruction, in test_loops
        return
    if level == "dram":
        counted = totals.dram_read_bytes + totals.dram_write_bytes
    else:
        counted = totals.between(int(level[1:]) - 1) or 0
        assert totals.between(int(level[1:])) in (0, None), "it stays in this level"
        assert totals.dram_read_bytes + totals.dram_write_bytes == 0
    assert counted == claimed


def test_every_mix_is_measured_at_every_level_of_a_large_machine() -> None:
    mixes: dict[str, set[str]] = {}
    for job in memory_jobs(MACHINES["zen"], 1, 1 << 28, loops()):
        assert job.boundary is not None
        mixes.setdefault(job.boundary.level, set()).add(job.loop.mix)
    available = {loop.mix for loop in loops() if loop.streams}
    assert mixes["dram"] == set(DRAM_MIXES) & available
    assert mixes["l1"] == mixes["l3"] == set(CACHE_MIXES)
    assert mixes["l2"] == {*CACHE_MIXES, WALK}


@pytest.mark.x86_64
@pytest.mark.parametrize(
    ("level", "mix"), [*((level, mix) for level in ("l2", "l3") for mix in CACHE_MIXES), ("l2", WALK)]
)
def test_the_code_that_is_timed_makes_the_accesses_of_its_streams(level: str, mix: str) -> None:
    pytest.importorskip("iced_x86")
    machine = MACHINES["broadwell"]
    job = next(
        one
        for one in memory_jobs(machine, 1, None, loops())
        if one.boundary is not None and (one.boundary.level, one.loop.mix) == (level, mix)
    )
    memory = np.ones(job.memory_bytes // 8 + 512)
    start = memory.ctypes.data + -memory.ctypes.data % 4096
    model = CacheModel(machine.caches)
    model.add_array("data", start, job.memory_bytes, huge_pages=True)
    frame = ffi.new("struct run_frame *")
    iterations = job.stream_bytes // job.loop.chunk_bytes
    streams = [start + number * (job.stream_bytes + SKEW) for number in range(len(job.loop.streams))]
    for slot, value in enumerate((iterations, job.stream_bytes - 1, *streams)):
        frame.ints[slot] = value
    run = int(ffi.cast("uintptr_t", lib.ceilings_loop(job.loop.index).run))
    with Engine("bytes", model.pointer, own_code=True) as engine:
        engine.call(run, frame)
        engine.call(run, frame)
        engine.drain()
        model.reset()
        assert engine.call(run, frame)[0] == iterations
        engine.drain()
    assert job.boundary is not None
    upper = machine.caches[int(level[1:]) - 2]
    counted = model.totals().between(int(level[1:]) - 1) or 0
    # Lines of the stack and of the constants come and go as well, and each may be one too many for its set:
    # then all lines of the set miss, and go up and down, once a round.
    rest = model.arrays()[-1]
    others = (rest.touched_read_bytes + rest.touched_write_bytes) // upper.line_bytes
    assert 0 < others < 64
    claimed = iterations * job.loop.moved_bytes(job.boundary)
    assert claimed <= counted + others * upper.line_bytes
    assert counted - claimed <= 2 * others * (upper.ways + 1) * upper.line_bytes
