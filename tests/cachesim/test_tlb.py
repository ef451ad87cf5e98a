"""TLBs and page walks: drawn by hand, and against a slow reference that writes walks into the accesses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.count.base import OTHER, WALKS
from counteroof.errors import BadInput
from counteroof.machine.model import CacheLevel, Tlb
from counteroof.native import ffi, lib

from .simulated import cache

BASE = 0x7F00_0000_0000
PAGE, HUGE = 1 << 12, 1 << 21
SMALL_TABLES, HUGE_TABLES = 1 << 63, 3 << 62
CACHES = [cache("L1", 8, 2), cache("L2", 16, 4)]

L1 = Tlb(1, 4, 2, ("4 KiB",))  # two sets
L1_HUGE = Tlb(1, 2, 2, ("2 MiB",))
L2 = Tlb(2, 8, 4, ("4 KiB", "2 MiB"), hashed=True)  # two sets
SHARED = (Tlb(1, 3, 3, ("4 KiB", "2 MiB")), Tlb(2, 12, 4, ("4 KiB", "2 MiB")))  # three sets in level 2
MANY = (Tlb(1, 17, 17, ("4 KiB", "2 MiB")), Tlb(2, 80, 20, ("4 KiB", "2 MiB"), hashed=True))
"""Entries of sets of more than 16 ways are found by a hash."""
GEOMETRIES: Sequence[tuple[Tlb, ...]] = (
    (L1, L1_HUGE, L2),
    SHARED,
    (L1, Tlb(2, 4, 4, ("4 KiB",))),
    (L1,),
    MANY,
)


def walks(model: CacheModel) -> tuple[int | None, int | None]:
    totals = model.totals()
    return totals.tlb_misses, totals.page_walks


def test_a_page_is_walked_for_once_and_then_known() -> None:
    model = CacheModel(CACHES, tlbs=[L1, L2])
    for address in (BASE, BASE + 8, BASE + 4088):
        model.access(address, 8)
    assert walks(model) == (1, 1)
    model.access(BASE + 4092, 8)  # half of it is on the next page
    assert walks(model) == (2, 2)


def test_the_least_recent_page_leaves_its_set_and_is_found_in_level_2() -> None:
    model = CacheModel(CACHES, tlbs=[L1, L2])
    a, b, c = (BASE + 2 * page * PAGE for page in range(3))  # one set of level 1, two ways
    seen = []
    for address in (a, b, a, c, a, b):
        before = walks(model)
        model.access(address, 8)
        after = walks(model)
        seen.append(tuple(y - x for x, y in zip(before, after, strict=True)))  # type: ignore[operator]
    assert seen == [
        (1, 1),  # a
        (1, 1),  # b a
        (0, 0),  # A b
        (1, 1),  # c A, b had to go
        (0, 0),  # A c
        (1, 0),  # b A: in level 2
    ]


def test_a_huge_page_is_one_translation_and_needs_a_tlb_that_takes_it() -> None:
    for tlbs, expected in (((L1, L1_HUGE, L2), (1, 1)), ((L1, L2), (3, 1)), ((L1,), (3, 3))):
        model = CacheModel(CACHES, tlbs=tlbs)
        model.add_array("x", BASE, HUGE, huge_pages=True)
        for page in (0, 7, 300):
            model.access(BASE + page * PAGE, 8)
        assert walks(model) == expected
    model = CacheModel(CACHES, tlbs=SHARED)
    model.place(BASE, HUGE)  # whatever lies in it
    for page in range(512):
        model.access(BASE + page * PAGE, 8)
    assert walks(model) == (1, 1)


def test_walks_load_entries_of_8_bytes_which_share_lines() -> None:
    """Sixteen pages in a row: two lines of page tables, each read from memory once."""
    model = CacheModel([cache("L1", 64, 8)], tlbs=[L1])
    model.add_array("x", BASE, 16 * PAGE)
    model.loop([(BASE, PAGE, 8, Kind.LOAD)], 16)
    by_name = {one.name: one for one in model.arrays()}
    assert by_name[WALKS].dram_read_bytes == 2 * 64
    assert by_name["x"].dram_read_bytes == 16 * 64
    assert (by_name["x"].tlb_misses, by_name["x"].page_walks) == (16, 16)
    assert (by_name[OTHER].tlb_misses, by_name[OTHER].page_walks) == (0, 0)
    assert (by_name[WALKS].tlb_misses, by_name[WALKS].touched_bytes) == (None, 0)
    assert model.totals().dram_read_bytes == 18 * 64
    assert model.totals().levels[0].hits == 14  # the other entries of the two lines


def test_streams_that_take_each_others_entries_miss_in_every_iteration() -> None:
    """Three pages of one set of two ways, for as long as the streams stay on them."""
    model = CacheModel(CACHES, tlbs=[L1, L2])
    model.loop([(BASE + 2 * page * PAGE, 8, 8, Kind.LOAD) for page in range(3)], 100)
    assert walks(model) == (300, 3)


@pytest.mark.parametrize(("start", "stride"), [(BASE + PAGE + 72, -8), (BASE + PAGE - 80, 8)])
def test_the_last_iteration_of_a_loop_may_be_the_first_on_a_page(start: int, stride: int) -> None:
    for count, expected in ((10, 1), (11, 2)):
        model = CacheModel(CACHES, tlbs=[L1, L2])
        model.loop([(start, stride, 8, Kind.LOAD)], count)
        assert walks(model) == (expected, expected)


def test_the_page_that_the_core_was_on_is_missed_when_a_loop_comes_back_to_it() -> None:
    """Where level 1 has no TLB for its size: the first iteration alone finds the core on it."""
    model = CacheModel(CACHES, tlbs=[L1, L2])
    model.add_array("x", BASE, HUGE, huge_pages=True)
    for address in (BASE + HUGE, BASE):
        model.access(address, 8)
    assert walks(model) == (2, 2)
    model.loop([(BASE, 8, 8, Kind.LOAD), (BASE + HUGE, 8, 8, Kind.LOAD)], 50)
    assert walks(model) == (2 + 49, 2)


def test_pages_of_both_sizes_have_tables_of_their_own() -> None:
    """A small page and a huge one of the same number: two lines of entries."""
    model = CacheModel([cache("L1", 64, 8)], tlbs=[L1, L1_HUGE])
    number = BASE // HUGE
    model.place(BASE, HUGE)
    model.access(BASE, 8)
    model.access(number * PAGE, 8)
    assert walks(model) == (2, 2)
    by_name = {one.name: one for one in model.arrays()}
    assert by_name[WALKS].dram_read_bytes == 2 * 64


def test_without_tlbs_there_are_no_walks_and_nobody_says_0() -> None:
    model = CacheModel(CACHES)
    model.access(BASE, 8)
    assert walks(model) == (None, None)
    assert [one.name for one in model.arrays()] == [OTHER]
    assert model.arrays()[0].tlb_misses is None
    assert lib.cachesim_array(model.pointer, -2, ffi.new("struct cachesim_traffic *")) == -1


def test_each_core_has_tlbs_of_its_own() -> None:
    model = CacheModel(CACHES, tlbs=[L1, L2])
    for core in (0, 1, 0, 1, 5):
        model.core(core)
        model.access(BASE, 8)
    assert walks(model) == (3, 3)


def test_a_reset_keeps_what_is_translated() -> None:
    model = CacheModel(CACHES, tlbs=[L1, L2])
    model.access(BASE, 8)
    model.reset()
    assert walks(model) == (0, 0)
    assert model.arrays()[-1].dram_read_bytes == 0
    model.access(BASE + 2 * PAGE, 8)
    model.access(BASE, 8)
    assert walks(model) == (1, 1)


@pytest.mark.parametrize(
    ("tlb", "message"),
    [
        (Tlb(3, 64, 4, ("4 KiB",)), "of level 1 or 2, not 3"),
        (Tlb(1, 0, 1, ("4 KiB",)), "1 to 1048576 entries, not 0"),
        (Tlb(1, 64, 5, ("4 KiB",)), "64 entries of a TLB are not a whole number of sets of 5 ways"),
        (Tlb(1, 64, 4, ()), "takes pages of some size"),
        (Tlb(1, 96, 8, ("4 KiB",), hashed=True), "a power of two of sets, not 12"),
    ],
)
def test_what_cannot_be_simulated_is_refused(tlb: Tlb, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        CacheModel(CACHES, tlbs=[tlb])


def test_two_tlbs_for_the_same_pages_are_refused() -> None:
    with pytest.raises(BadInput, match="level 1 has more than one TLB for pages of 4 KiB"):
        CacheModel(CACHES, tlbs=[L1, SHARED[0]])


# ---- against the reference


@dataclass
class Reference:
    """Lists of pages by set, the most recent first; every access is translated, page by page.

    The page a core was on last needs no TLB; that tells only where there is none for it.
    """

    tlbs: Sequence[Tlb]
    huge: range
    """Addresses on huge pages."""
    arrays: Sequence[range]
    line_bytes: int
    sets: dict[Any, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    last: dict[int, int] = field(default_factory=dict)
    misses: Counter[int] = field(default_factory=Counter)
    walked: Counter[int] = field(default_factory=Counter)

    def has(self, core: int, level: int, number: int, size: str) -> bool:
        for index, tlb in enumerate(self.tlbs):
            if tlb.level != level or size not in tlb.pages:
                continue
            sets = tlb.entries // tlb.ways
            of = (number ^ number // sets) % sets if tlb.hashed else number % sets
            entries = self.sets[core, index, of]
            found = (number, size) in entries
            if found:
                entries.remove((number, size))
            entries.insert(0, (number, size))
            del entries[tlb.ways :]
            return found
        return False

    def array_of(self, address: int) -> int:
        line = address // self.line_bytes * self.line_bytes
        end = line + self.line_bytes
        owners = (n for n, one in enumerate(self.arrays) if one.start < end and line < one.stop)
        return next(owners, -1)

    def accesses(self, core: int, address: int, nbytes: int, kind: int) -> list[tuple[int, int, int]]:
        """Return the access in pieces of one page, and the loads of walks before them."""
        if kind == Kind.FENCE or not nbytes:
            return [(address, nbytes, kind)]
        made = []
        end = address + nbytes
        while address < end:
            stop = min(end, (address // PAGE + 1) * PAGE)
            size, number, tables = "4 KiB", address // PAGE, SMALL_TABLES
            if address in self.huge:
                size, number, tables = "2 MiB", address // HUGE, HUGE_TABLES
            known = self.last.get(core) == address // PAGE
            self.last[core] = address // PAGE
            if not known and not self.has(core, 1, number, size):
                self.misses[self.array_of(address)] += 1
                if not self.has(core, 2, number, size):
                    self.walked[self.array_of(address)] += 1
                    made.append((tables + 8 * number, 8, int(Kind.PREFETCH)))
            made.append((address, stop - address, kind))
            address = stop
        return made


def pair(
    caches: Sequence[CacheLevel], tlbs: Sequence[Tlb], parts: int = 1
) -> tuple[CacheModel, CacheModel, Reference]:
    """A model with TLBs, one without for what the reference makes of the accesses, and the reference."""
    with_tlbs, without = CacheModel(caches, tlbs=tlbs, parts=parts), CacheModel(caches, parts=parts)
    arrays = (range(BASE + 100, BASE + 100 + 3 * HUGE), range(BASE + 4 * HUGE, BASE + 4 * HUGE + 9 * PAGE))
    for model in (with_tlbs, without):
        for number, array in enumerate(arrays):
            model.add_array(f"array {number}", array.start, len(array), huge_pages=number == 0)
    huge = range(BASE + HUGE, BASE + 3 * HUGE)  # the blocks that lie wholly inside
    return with_tlbs, without, Reference(tlbs, huge, arrays, caches[0].line_bytes)


def check(with_tlbs: CacheModel, without: CacheModel, reference: Reference) -> None:
    totals = with_tlbs.totals()
    assert (totals.tlb_misses, totals.page_walks) == (
        reference.misses.total(),
        reference.walked.total(),
    )
    assert replace(totals, tlb_misses=None, page_walks=None) == without.totals()
    found, expected = with_tlbs.arrays(), without.arrays()
    for number, one in enumerate(found[:2]):
        assert (one.tlb_misses, one.page_walks) == (reference.misses[number], reference.walked[number])
        assert replace(one, tlb_misses=None, page_walks=None) == expected[number]
    other, tables = found[2:]
    assert (other.tlb_misses, other.page_walks) == (reference.misses[-1], reference.walked[-1])
    for name in ("dram_read_bytes", "dram_write_bytes", "unique_read_bytes", "again_capacity_bytes"):
        assert getattr(other, name) + getattr(tables, name) == getattr(expected[2], name)


ADDRESSES = st.one_of(
    st.integers(BASE, BASE + 12 * PAGE),
    st.integers(BASE + HUGE - 2 * PAGE, BASE + HUGE + 3 * PAGE),
    st.integers(BASE + 4 * HUGE, BASE + 4 * HUGE + 12 * PAGE),
    st.integers(0, 40).map(lambda n: BASE + n * HUGE // 4),
)
ACCESS = st.tuples(
    st.just("access"), ADDRESSES, st.one_of(st.just(8), st.integers(0, 5000)), st.sampled_from(list(Kind))
)
STREAM = st.tuples(
    ADDRESSES,
    st.one_of(st.sampled_from([0, 8, 64, -8, PAGE, -2 * PAGE, HUGE]), st.integers(-5000, 5000)),
    st.one_of(st.just(8), st.integers(0, 200)),
    st.sampled_from(list(Kind)),
)
LOOP = st.tuples(st.just("loop"), st.lists(STREAM, min_size=1, max_size=4), st.integers(0, 300), st.none())
LIST = st.tuples(
    st.just("list"),
    st.lists(st.tuples(ADDRESSES, st.integers(0, 300), st.sampled_from(list(Kind))), max_size=60),
    st.none(),
    st.none(),
)
CORE = st.tuples(st.just("core"), st.integers(0, 2), st.none(), st.none())


@pytest.mark.parametrize("parts", [1, 2])
@settings(max_examples=60, deadline=None)
@given(
    tlbs=st.sampled_from(GEOMETRIES),
    steps=st.lists(st.one_of(ACCESS, LOOP, LIST, CORE), min_size=1, max_size=8),
)
def test_tlbs_are_those_of_the_reference_and_walks_are_loads_between_the_accesses(
    parts: int, tlbs: tuple[Tlb, ...], steps: list[Any]
) -> None:
    caches = [cache("L1", 4, 2), cache("L2", 8, 4)]
    with_tlbs, without, reference = pair(caches, tlbs, parts)
    core = 0

    def reference_access(address: int, nbytes: int, kind: int) -> None:
        for made in reference.accesses(core, address, nbytes, kind):
            without.access(*made)

    for what, first, second, third in steps:
        if what == "access":
            with_tlbs.access(first, second, third)
            reference_access(first, second, third)
        elif what == "core":
            core = first
            with_tlbs.core(core)
            without.core(core)
        elif what == "list":
            columns = [np.array([one[n] for one in first], np.uint64) for n in range(3)]
            with_tlbs.accesses(*columns)
            for access in first:
                reference_access(*access)
        else:
            with_tlbs.loop(first, second)
            for k in range(second):
                for start, stride, nbytes, kind in first:
                    reference_access(start + k * stride, nbytes, kind)
    check(with_tlbs, without, reference)


@pytest.mark.parametrize("pages", [16, 17, 18, 30, 100, 500])
def test_sets_of_many_ways_are_as_recent_as_lists_of_pages(pages: int) -> None:
    """Random pages, half of them from the last few, on two cores: from all known to hardly any."""
    random = np.random.default_rng(pages)
    caches = [cache("L1", 4, 2), cache("L2", 8, 4)]
    with_tlbs, without, reference = pair(caches, MANY)
    recent = [0]
    for step in range(4000):
        page = recent[random.integers(len(recent))] if random.random() < 0.5 else int(random.integers(pages))
        recent = [page, *recent[:24]]
        core = step // 50 % 2
        for model in (with_tlbs, without):
            model.core(core)
        address = BASE + 4 * HUGE + page * PAGE + int(random.integers(64)) * 64
        with_tlbs.access(address, 8, Kind.LOAD)
        for made in reference.accesses(core, address, 8, int(Kind.LOAD)):
            without.access(made[0], made[1], Kind(made[2]))
    check(with_tlbs, without, reference)
    assert (reference.misses.total() > 2 * pages) == (pages > 17)
    assert (reference.walked.total() > 2 * pages) == (pages > 80)


def test_walks_count_for_the_access_that_needed_them() -> None:
    model = CacheModel(CACHES, tlbs=[L1])
    model.start_origins()
    model.set_origin(5)
    model.loop([(BASE, PAGE, 8, Kind.LOAD), (BASE + HUGE, 8, 8, Kind.LOAD)], 8)
    reads, _ = model.origins()
    assert reads[5] == (8 + 1) * 64  # its lines, and the one that the page table's entries are in
    assert reads[6] == (1 + 1) * 64
