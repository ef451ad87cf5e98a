"""Other ways to memory: which are measured, and what a short measurement of each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from counteroof import ceiling_access
from counteroof.ceiling_access import node_pairs, pattern_jobs, saturation, thread_counts
from counteroof.ceiling_jobs import ISA_ORDER, Job
from counteroof.ceilings import Effort
from counteroof.machine import store, sysfs, topology
from counteroof.machine.loops import Team
from counteroof.machine.model import Capacity, Ceiling, Machine, SweepPoint
from counteroof.machine.sysfs import Tree
from tests import factories
from tests.machine import trees

MIB = 1 << 20


def small_machine() -> Machine:
    """Return this machine as if its last cache were small, so that little memory gets out of it."""
    here = topology.detect()
    *above, last = here.caches
    return replace(here, caches=(*above, replace(last, bytes=max(4 * MIB, 2 * above[-1].bytes), ways=16)))


# ---- what is measured ----


def test_random_and_strided_loads_are_measured_wherever_whole_lines_come_from() -> None:
    machine = factories.machine()
    jobs = pattern_jobs(machine, 1, 80 * MIB)
    assert [job.name for job in jobs] == [
        "DRAM random",
        "L2-L3 random",
        "L1-L2 random",
        "DRAM scattered",
        "L2-L3 scattered",
        "L1-L2 scattered",
        "DRAM strided",
        "L2-L3 strided",
        "L1-L2 strided",
    ]
    for job in jobs:
        assert job.boundary is not None
        assert job.iterations * job.loop.chunk_bytes >= job.stream_bytes, (
            "less would be a smaller working set"
        )
        assert job.loop.moved_bytes(job.boundary) == (128 if job.boundary.kind == "victims" else 64)
    assert jobs[0].loop.convention(jobs[0].boundary) == "both ways, write-allocate counted: 64 B a load"


def test_chains_are_measured_in_what_is_left_of_a_cache_that_has_room_for_no_power_of_two() -> None:
    """Of 5 MiB at most three quarters are used, and twice the 1.25 MiB of L2 at least."""
    machine = factories.machine()
    l1, l2, l3 = machine.caches
    machine = replace(
        machine,
        caches=(l1, replace(l2, bytes=5 * MIB // 4), l3),
        capacities=(Capacity("L3", 5 * MIB, 20e-9),),
    )
    jobs = {job.name: job for job in pattern_jobs(machine, 1, 80 * MIB)}
    assert "L2-L3 strided" not in jobs
    assert jobs["L2-L3 random"].stream_bytes == jobs["L2-L3 scattered"].stream_bytes == 15 * MIB // 4


@pytest.mark.x86_64
def test_narrower_instructions_are_measured_in_the_cores_own_caches() -> None:
    jobs = ceiling_access.narrow_jobs(factories.machine(), 1)
    names = list(dict.fromkeys(job.name for job in jobs))
    narrow = {job.loop.isa for job in jobs}
    assert {"scalar"} <= narrow
    assert ISA_ORDER[-1] not in narrow
    assert [name for name in names if name.endswith(", scalar")] == [
        "L1-L2 read, scalar",
        "L1-L2 2:1 in place, scalar",
        "core-L1 read, scalar",
        "core-L1 2:1 in place, scalar",
    ]
    assert all(job.name.endswith(f", {job.loop.isa}") for job in jobs)


@pytest.mark.parametrize(
    ("most", "counts"),
    [(1, (1,)), (2, (1, 2)), (6, (1, 2, 3, 4, 6)), (40, (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40))],
)
def test_numbers_of_threads_go_up_to_all(most: int, counts: tuple[int, ...]) -> None:
    assert thread_counts(most) == counts


def test_memory_is_saturated_from_where_more_threads_bring_less_than_a_twentieth() -> None:
    roofs = [
        replace(factories.bandwidth("DRAM read", rate), threads=threads)
        for threads, rate in ((1, 20), (2, 38), (4, 49), (8, 50))
    ]
    machine = replace(factories.machine(), ceilings=tuple(roofs[:1]), access=tuple(roofs[1:]))
    assert saturation(machine, "DRAM read") == (4, 8)
    assert saturation(replace(machine, access=()), "DRAM read") is None
    assert saturation(machine, "DRAM triad") is None


# ---- memory nodes ----


def tree_of(root: Path, *lists: str) -> Tree:
    for number, cpus in enumerate(lists):
        trees.write(root, f"sys/devices/system/node/node{number}/cpulist", cpus)
    return Tree(root)


def test_nodes_are_those_with_processors(tmp_path: Path) -> None:
    assert sysfs.nodes(tree_of(tmp_path, "0-3", "4-7", "")) == {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}
    assert sysfs.nodes(Tree(tmp_path / "nothing")) == {}


def test_of_few_nodes_all_pairs_are_measured_of_many_the_own_and_one_other() -> None:
    assert node_pairs({0: (0,)}) == ()
    assert node_pairs({0: (0,), 1: (1,)}) == ((0, 0), (0, 1), (1, 0), (1, 1))
    pairs = node_pairs({number: (number,) for number in range(8)})
    assert len(pairs) == 16
    assert {one for one, _ in pairs} == {other for _, other in pairs} == set(range(8))


def test_a_node_without_processors_that_may_be_used_is_left_out() -> None:
    assert ceiling_access.node_bandwidths(small_machine(), {0: (0,), 1: (900,)}, {0}) == []


def test_each_pair_of_nodes_has_a_bandwidth() -> None:
    try:
        one, other = topology.placement(2)
    except ValueError:
        pytest.skip("one processor")
    found = ceiling_access.node_bandwidths(small_machine(), {0: (one,), 1: (other,)}, {one, other})
    assert [roof.name for roof in found] == [
        "DRAM read, node 0 from its own memory",
        "DRAM read, node 0 from memory of node 1",
        "DRAM read, node 1 from memory of node 0",
        "DRAM read, node 1 from its own memory",
    ]
    assert {roof.threads for roof in found} == {1}


@pytest.mark.parametrize(
    ("lists", "note"),
    [
        (("0-1",), "one memory node: no memory is remote"),
        ((), "memory nodes are unknown (/sys does not show them): remote memory was not measured"),
    ],
)
def test_where_there_is_no_remote_memory_it_is_said(
    lists: tuple[str, ...], note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = sysfs.nodes(tree_of(tmp_path, *lists))
    monkeypatch.setattr(sysfs, "nodes", lambda tree: nodes)
    for name in ("patterns", "small_pages", "narrow", "scaling"):
        monkeypatch.setattr(ceiling_access, name, lambda *arguments: [])
    assert ceiling_access.measured(small_machine(), (1,)) == ((), (note,))


# ---- real measurements, as short as they can be ----


def test_a_sweep_has_every_size_and_says_what_each_cache_holds(tmp_path: Path) -> None:
    seen: list[int] = []
    machine = ceiling_access.swept(small_machine(), lambda done, total, what: seen.append(total - done))
    assert seen == list(reversed(range(len(machine.sweep))))
    assert machine.sweep[-1].bytes == 2 * machine.caches[-1].bytes
    assert all(point.seconds > 0 for point in machine.sweep)
    assert any(point.bytes_per_second is not None for point in machine.sweep)
    assert [one.level for one in machine.capacities] == [cache.name for cache in machine.caches]
    assert all(one.bytes is not None or one.reason for one in machine.capacities)
    store.save(machine, tmp_path / "machine.json")
    assert store.load(tmp_path / "machine.json") == machine


def test_a_sweep_reads_each_working_set_all_the_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Job] = []

    def measure(team: Team, jobs: Sequence[Job], effort: Effort) -> list[Ceiling]:
        measured.extend(jobs)
        return [factories.bandwidth("read", 10.0)]

    monkeypatch.setattr(ceiling_access, "measure_jobs", measure)
    machine = ceiling_access.swept(small_machine())
    assert len(measured) == sum(point.bytes_per_second is not None for point in machine.sweep) > 5
    for job in measured:
        assert job.iterations * job.loop.chunk_bytes >= job.stream_bytes


def test_random_loads_say_how_long_one_takes_and_small_pages_are_named() -> None:
    machine = small_machine()
    found = {one.name: one for one in ceiling_access.patterns(machine, 1)}
    assert "s a load" in found["DRAM random"].note
    assert "s a load" in found["DRAM scattered"].note
    assert found["DRAM scattered"].convention == found["DRAM random"].convention
    names = [one.name for one in ceiling_access.small_pages(machine, 1)]
    whole = ["DRAM scattered", "DRAM strided"]
    assert [name.partition(",")[0] for name in names if name.endswith(" KiB pages")] == whole
    first = machine.caches[0]
    sets = first.bytes // first.ways // first.line_bytes
    assert names[len(whole) :] == ["L1-L2 same set"] * (sets == 64)


def test_lines_of_one_set_are_measured_where_a_page_is_as_long_as_the_sets_of_l1() -> None:
    machine = factories.machine()
    (job,) = ceiling_access._same_set(machine)
    assert machine.caches[0].bytes == 64 * 64 * machine.caches[0].ways
    assert (job.name, job.note, job.small_pages) == ("L1-L2 same set", "128 lines in one set of L1", True)
    assert job.stream_bytes == 128 * 64
    l1, *others = machine.caches
    twice = replace(machine, caches=(replace(l1, bytes=2 * l1.bytes), *others))
    assert ceiling_access._same_set(twice) == []


def test_random_lines_of_memory_are_of_so_many_that_the_last_cache_has_few_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those it has would count as if memory had sent them: of twice its size a third and more."""
    monkeypatch.setattr(sysfs, "available_memory", lambda tree: 64 << 30)
    machine = factories.machine()
    machine = replace(machine, caches=(*machine.caches[:-1], replace(machine.caches[-1], bytes=36 * MIB)))
    for threads in (1, 2):
        jobs = {job.name: job for job in ceiling_access._all_patterns(machine, threads)}
        for name in ("DRAM random", "DRAM scattered"):
            assert jobs[name].stream_bytes * threads == 8 * 36 * MIB
        assert jobs["DRAM strided"].stream_bytes * threads == 256 * MIB  # which needs a power of two


# ---- what follows ----


def test_working_sets_are_chosen_from_what_a_cache_holds() -> None:
    from counteroof.ceiling_jobs import stream_bytes

    machine = factories.machine()
    last = machine.caches[-1]
    nominal = stream_bytes(machine, last, 1, 1)
    held = replace(machine, capacities=(Capacity("L3", 3 * MIB, 20e-9),))
    assert held.measured_bytes(last) == 3 * MIB
    assert stream_bytes(held, last, 1, 1) == 2 * MIB != nominal
    more = replace(machine, capacities=(Capacity("L3", 2 * last.bytes, 20e-9),))
    assert more.measured_bytes(last) is None
    unknown = replace(machine, capacities=(Capacity("L3", None, None, "why"),))
    assert stream_bytes(unknown, last, 1, 1) == nominal


def test_a_point_of_a_sweep_that_cannot_be_is_refused_by_the_machine_file() -> None:
    wrong = replace(factories.machine(), sweep=(SweepPoint(4096, 0.0),))
    (problem,) = store.machine_problems(wrong, "machine")
    assert (problem.where, problem.expected) == ("machine.sweep[0]", "more than 0")
