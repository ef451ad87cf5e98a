"""What a run may ask of the cache model: that it reaches the model, and that results say what was used."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from counteroof import reconcile
from counteroof.cachesim.model import CacheModel
from counteroof.cachesim.options import ModelOptions, prefetchers, with_capacity, with_prefetchers
from counteroof.count import instrument
from counteroof.count.base import OTHER, Frames
from counteroof.errors import BadInput
from counteroof.machine.model import Capacity, Prefetch, Tlb
from counteroof.machine.topology import detect
from counteroof.reconcile import PREFETCHED, LedgerLine, check, ledger
from counteroof.run import frames as run_frames
from counteroof.run.arrays import Span
from tests import factories
from tests.cachesim.simulated import cache, physical_line

from .test_instrument import SMALL, N, counted, named

PAGE = 4096
START = 0x7F00_0000_0000
PREPARED: Any = SimpleNamespace(spans=(Span("a", START + 64, 2 * PAGE), Span("b", START + 16 * PAGE, 8)))


def placed_at(model: CacheModel, address: int) -> int:
    model.access(address, 8)
    return physical_line(model, address) * model.line_bytes // PAGE


def test_frames_of_the_system_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {START: [70, 0, 72], START + 16 * PAGE: [5]}
    monkeypatch.setattr(run_frames, "frames", lambda start, nbytes: told[start][: nbytes // PAGE])
    model = CacheModel([cache("L1", 4, 2)])
    assert instrument._placed(PREPARED, model, "pagemap") == Frames("pagemap", 4, 3)
    assert placed_at(model, START + 64) == 70
    assert placed_at(model, START + PAGE) not in (70, 71, 72)
    assert placed_at(model, START + 2 * PAGE) == 72
    assert placed_at(model, START + 16 * PAGE) == 5


def test_frames_are_random_if_the_system_does_not_tell_and_the_reason_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hidden(start: int, nbytes: int) -> None:
        raise run_frames.FramesHidden("nobody tells")

    monkeypatch.setattr(run_frames, "frames", hidden)
    model, usual = (CacheModel([cache("L1", 4, 2)]) for _ in range(2))
    assert instrument._placed(PREPARED, model, "pagemap") == Frames("random", 4, 0, "nobody tells")
    assert placed_at(model, START + 64) == placed_at(usual, START + 64)


def test_unknown_frames_are_refused() -> None:
    with pytest.raises(BadInput, match="unknown frames 'real'; expected one of random, pagemap"):
        ModelOptions("real")  # type: ignore[arg-type]


def test_a_counted_kernel_says_what_frames_it_was_counted_with() -> None:
    (case,) = named("triad").cases(size="small")
    usual = counted(case)
    assert usual.frames is not None
    assert (usual.frames.source, usual.frames.real, usual.frames.reason) == ("random", 0, None)
    assert usual.frames.pages >= 3
    assert not any("frames" in note for note in usual.notes)
    real = counted(case, model=ModelOptions("pagemap"))
    assert real.frames is not None
    (note,) = (note for note in real.notes if "frames" in note)
    if real.frames.source == "pagemap":
        assert real.frames.real == real.frames.pages == usual.frames.pages
        assert note.startswith(f"frames of the arrays by /proc/self/pagemap, {real.frames.real} of")
    else:
        assert real.frames.reason is not None
        assert real.frames.reason in note
    assert counted(case, detail="flops").frames is None


TLBS = (Tlb(1, 16, 4, ("4 KiB", "2 MiB")), Tlb(2, 64, 4, ("4 KiB", "2 MiB")))


def test_page_walks_of_a_counted_kernel_are_in_its_arrays_notes_and_ledger() -> None:
    (case,) = named("triad").cases(overrides={"n": N})
    machine = replace(detect(), caches=SMALL, tlbs=TLBS)
    seen = counted(case, machine=machine, model=ModelOptions(tlb=True))
    usual = counted(case, machine=machine)
    by_name = {one.name: one for one in seen.arrays}
    pages = N * 8 // PAGE
    for name in "abc":  # each page is come to once, and no TLB remembers it from the call before
        one = by_name[name]
        if one.huge_pages:
            assert (one.page_walks or 0) <= pages
        else:
            assert one.tlb_misses == one.page_walks
            assert one.page_walks == pytest.approx(pages, abs=2)
    assert seen.page_walks == sum(one.page_walks or 0 for one in seen.arrays)
    walked = by_name["(page walks)"]
    assert 0 < walked.dram_read_bytes <= 64 * (seen.page_walks or 0)
    assert "TLBs modelled: L1 16 entries 4-way 4 KiB and 2 MiB, L2 64 entries" in " ".join(seen.notes)
    lines = ledger(24 * N, seen)
    assert reconcile.check(lines) is None
    walks = LedgerLine("stack, tables and other data", walked.dram_read_bytes, "(page walks)")
    assert walks in lines
    assert (usual.page_walks, usual.arrays[0].page_walks) == (None, None)
    assert not any("TLB" in note for note in usual.notes)
    assert "(page walks)" not in [one.name for one in usual.arrays]


def test_a_machine_whose_tlbs_nobody_knows_has_no_page_walks_and_says_so() -> None:
    (case,) = named("triad").cases(size="small")
    seen = counted(case, machine=replace(detect(), tlbs=()), model=ModelOptions(tlb=True))
    assert seen.page_walks is None
    assert "no TLB is modelled" in " ".join(seen.notes)


def test_reuse_distances_of_a_counted_kernel_are_those_of_its_loops() -> None:
    """A triad comes back to a line past those of the two other arrays, and in the next call past all."""
    (case,) = named("triad").cases(overrides={"n": N})
    seen = counted(case, machine=replace(detect(), caches=SMALL), model=ModelOptions(reuse_distances=True))
    for one in (one for one in seen.arrays if one.name in "abc"):
        assert one.reuse is not None
        lines = N * 8 // 64
        assert one.reuse.cold == 0  # the call before had them all
        far = (3 * lines).bit_length()
        assert one.reuse.counts[far] == pytest.approx(lines, rel=0.01)
        assert len(one.reuse.counts) == far + 1
        assert sum(one.reuse.counts[3:far]) <= 0.01 * lines
    assert counted(case).arrays[0].reuse is None


def test_a_shared_cache_has_what_was_measured_of_it_if_that_is_asked_for() -> None:
    """The ways stay; in each of 16 ways there are as many whole pages as fit into what was found."""
    found = (Capacity("L1", 1 << 10, 1e-9), Capacity("L2", 1 << 10, 4e-9), Capacity("L3", 10_500_000, 16e-9))
    machine = replace(factories.machine(), capacities=found)
    l1, l2, l3 = machine.caches
    assert with_capacity(machine, "nominal") == machine
    small = with_capacity(machine, "measured")
    assert small.caches[:2] == (l1, l2)  # nobody else uses them: a sweep finds conflicts of pages there
    assert small.caches[2] == replace(
        l3, bytes=160 * 16 * PAGE, source="sysfs; fill assumed; capacity measured, 33554432 B by its label"
    )
    model = CacheModel(small.caches)
    for address in range(START, START + 12 * 1024 * 1024, 64):
        model.access(address, 8)
    model.reset()
    for address in range(START, START + 12 * 1024 * 1024, 64):
        model.access(address, 8)
    assert model.totals().dram_read_bytes > 6 * 1024 * 1024  # 12 MiB do not stay in 10 and one of L2


def test_a_cache_that_was_found_whole_or_nearly_gone_can_be_modelled() -> None:
    machine = factories.machine()
    whole = replace(machine, capacities=(Capacity("L3", 40 << 20, 16e-9),))
    assert with_capacity(whole, "measured").caches == machine.caches
    gone = replace(machine, capacities=(Capacity("L3", 5000, 16e-9),))
    assert with_capacity(gone, "measured").caches[2].bytes == 16 * PAGE
    with pytest.raises(BadInput, match=r"has not been measured here; 'counteroof machine' does so"):
        with_capacity(machine, "measured")


def test_a_shared_cache_of_which_nothing_was_found_is_not_modelled_whole() -> None:
    """Neighbours may leave so little of it that a load takes as long there as from memory."""
    machine = factories.machine()
    private = (Capacity("L2", None, None, "who knows"), Capacity("L3", 10 << 20, 16e-9))
    assert with_capacity(replace(machine, capacities=private), "measured").caches[2].bytes == 10 << 20
    taken = (Capacity("L3", None, 97e-9, "a load takes 97 ns there and as long in the next level"),)
    with pytest.raises(BadInput, match=r"what L3 holds could not be told .*: a load takes 97 ns there"):
        with_capacity(replace(machine, capacities=taken), "measured")


def test_prefetchers_are_named() -> None:
    assert prefetchers("adjacent") == Prefetch(adjacent=True)
    assert prefetchers("adjacent, stream") == Prefetch(adjacent=True, stream=True)
    assert prefetchers("none") == Prefetch()
    for text in ("stride", "adjacent,none", ""):
        with pytest.raises(BadInput, match=r"unknown prefetcher '.*'; expected none, or of adjacent, stream"):
            prefetchers(text)


def test_prefetchers_need_a_second_level() -> None:
    machine = factories.machine()
    alone = replace(machine, caches=machine.caches[:1])
    assert with_prefetchers(machine, Prefetch(stream=True)).prefetch.stream
    assert not with_prefetchers(alone, Prefetch()).prefetch.on
    with pytest.raises(BadInput, match="the machine has one level alone"):
        with_prefetchers(alone, Prefetch(adjacent=True))


def test_a_kernel_counted_with_prefetchers_says_what_they_brought_for_nobody() -> None:
    """Of a table that is read in random order, the other line of a pair has left when it is asked for."""
    (case,) = named("gather").cases(overrides={"n": N})
    machine = replace(detect(), caches=SMALL)
    off = counted(case, machine=machine)
    on = counted(case, machine=replace(machine, prefetch=Prefetch(adjacent=True)))
    assert not any("prefetch" in note for note in off.notes)
    assert "hardware prefetch into L2 modelled: the other line of each aligned pair" in on.notes
    assert sum(one.prefetched_bytes or 0 for one in off.arrays) == 0
    wasted = {one.name: one.prefetched_unused_bytes or 0 for one in on.arrays}
    assert off.dram_read_bytes.value is not None
    assert on.dram_read_bytes.value is not None
    assert on.dram_read_bytes.value > 1.3 * off.dram_read_bytes.value
    assert wasted["table"] > 0.9 * sum(wasted.values())
    assert wasted["table"] > 0.2 * on.dram_read_bytes.value
    lines = ledger(None, on)
    assert check(lines) is None
    assert {line.array: line.bytes for line in lines if line.cause == PREFETCHED} == {
        name: size for name, size in wasted.items() if size and name != OTHER
    }
