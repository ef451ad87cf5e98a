"""The C model and the reference side by side, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counteroof.cachesim.model import SEED, CacheModel
from counteroof.machine.model import CacheLevel, Fill, Policy, Prefetch, Stores
from counteroof.machine.replacement import POLICIES
from counteroof.native import ffi, lib

from . import replacement
from .reference import Hierarchy, Level

DIRTY = 1 << 31


def cache(
    name: str,
    sets: int,
    ways: int,
    fill: Fill = "non-inclusive",
    *,
    line_bytes: int = 64,
    hashed: bool = False,
    policy: Policy | str = "lru",
) -> CacheLevel:
    if isinstance(policy, str):
        policy = POLICIES[policy]
    return CacheLevel(name, sets * ways * line_bytes, ways, line_bytes, 1, fill, hashed, "test", policy)


def use_vectors(model: CacheModel, width: int) -> bool:
    """Choose how sets are compared (0 plain C, 1 AVX2, 2 AVX-512); False if this processor cannot."""
    return bool(lib.cachesim_use_vectors(model.pointer, width) == 0)


def contents(model: CacheModel, level: int, set_number: int) -> list[tuple[int, bool]]:
    """Physical lines of one set, with their dirty flags; line 0 is an empty way of a policy that has such."""
    lines = ffi.new("uint32_t[64]")
    count = lib.cachesim_contents(model.pointer, level, set_number, lines)
    return [(line & ~DIRTY, bool(line & DIRTY)) for line in lines[0:count]]


def all_contents(model: CacheModel) -> list[list[list[tuple[int, bool]]]]:
    return [
        [contents(model, level, number) for number in range(lib.cachesim_sets(model.pointer, level))]
        for level in range(len(model.caches))
    ]


def physical_line(model: CacheModel, address: int) -> int:
    return int(lib.cachesim_physical_line(model.pointer, address))


def reference_for(
    model: CacheModel,
    stores: Stores = Stores(),  # noqa: B008
    prefetch: Prefetch = Prefetch(),  # noqa: B008
) -> Hierarchy:
    """A reference hierarchy of the same geometry that asks ``model`` where lines go; run the model first."""

    def level(number: int) -> Level:
        cache_level = model.caches[number]
        fill = cache_level.fill if number else "non-inclusive"
        sets = lib.cachesim_sets(model.pointer, number)
        policy = replacement.made(cache_level.policy, cache_level.ways, sets, SEED + number)
        return Level(policy, fill, lambda line: int(lib.cachesim_set_of(model.pointer, number, line)))

    def line_of(virtual: int) -> int:
        line = physical_line(model, virtual * model.line_bytes)
        assert line, "the model was not run on this access"
        return line

    return Hierarchy(
        [level(number) for number in range(len(model.caches))],
        model.line_bytes,
        line_of,
        evaded=round(stores.evaded * 65536),
        masked=stores.partial == "masked",
        draw=replacement.Generator(SEED + 256).draw,
        prefetch=prefetch,
    )


@dataclass(frozen=True)
class Snapshot:
    """Everything two runs must agree on."""

    levels: tuple[tuple[int, int, int, int], ...]  # hits, misses, lines up, lines down
    reads: int
    writes: int
    write_allocates: int
    distinct: tuple[int, int, int, int, int]
    non_temporal: int
    partial: int
    evaded: int
    prefetched: int
    unused: int
    contents: list[list[list[tuple[int, bool]]]]


def snapshot(model: CacheModel) -> Snapshot:
    totals = ffi.new("struct cachesim_totals *")
    lib.cachesim_totals(model.pointer, totals)
    memory = totals.memory
    return Snapshot(
        tuple(
            (level.hits, level.misses, level.up_lines, level.down_lines)
            for level in totals.level[0 : totals.levels]
        ),
        memory.read_lines,
        memory.write_lines,
        memory.write_allocate_lines,
        (
            memory.unique_read_lines,
            memory.unique_write_lines,
            memory.unique_write_allocate_lines,
            memory.loaded_lines,
            memory.stored_lines,
        ),
        totals.non_temporal_lines,
        totals.partial_lines,
        memory.evaded_lines,
        memory.prefetched_lines,
        memory.prefetched_unused_lines,
        all_contents(model),
    )


def _drawn(level: Level, number: int) -> list[tuple[int, bool]]:
    of_set = level.sets[number]
    if not of_set and isinstance(level.policy, replacement.InPlace):
        of_set = [None] * level.policy.ways
    return [(entry.line, entry.dirty) if entry else (0, False) for entry in of_set]


def reference_snapshot(reference: Hierarchy, sets: Sequence[int]) -> Snapshot:
    reference.drain()
    return Snapshot(
        tuple(
            (
                level.hits,
                level.misses,
                level.misses - reference.evaded_lines.total() + (reference.prefetches if number == 1 else 0),
                level.down,
            )
            for number, level in enumerate(reference.levels)
        ),
        reference.reads.total(),
        reference.writes.total(),
        reference.write_allocates.total(),
        (
            len(reference.useful),
            len(reference.writes),
            len(reference.read_for_store),
            len(reference.loaded),
            len(reference.stored),
        ),
        reference.non_temporal,
        reference.partial,
        reference.evaded_lines.total(),
        reference.prefetched.total(),
        reference.unused.total() + len(reference.waiting),
        [
            [_drawn(level, number) for number in range(count)]
            for level, count in zip(reference.levels, sets, strict=True)
        ],
    )
