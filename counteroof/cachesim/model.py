"""The cache model for the rest of the package: a machine's caches in, traffic per level and array out.

The engine feeds the simulator from C through :attr:`CacheModel.pointer`; Python builds it, names the arrays,
and reads the totals. ``csrc/cachesim/cachesim.h`` says what is modelled.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..count.base import (
    OTHER,
    WALKS,
    ArrayTraffic,
    Count,
    FalseSharing,
    ReuseDistances,
    SharedLine,
    unavailable,
)
from ..errors import BadInput, CounteroofError
from ..machine import tlb
from ..machine.model import CacheLevel, Policy, Prefetch, Stores, Tlb
from ..native import ffi, lib
from .options import check

PAGE = 4096
"""Bytes of the pages that frames are given for."""

SEED = 20_260_000
"""Places the physical pages; any fixed number would do."""

_DISTANCES = 34
"""``CACHESIM_DISTANCES`` of ``cachesim.h``."""

_PAGES = {"4 KiB": 1, "2 MiB": 2}
_FILL = {"non-inclusive": 0, "inclusive": 1, "victim": 2}
_KIND = {"lru": 0, "plru": 1, "random": 2, "rrip": 3, "adaptive": 4}
_AGING = {"at once": 0, "when needed": 1, "by one": 2, "of others": 3}
_ONE = 1 << 16
"""A share of one, as the simulator counts it."""
_SOURCE = "cache model"
_SHARED = {"address": "u8", "array": "i4", "cores": "u4", "moves": "u8", "apart": "u4"}
"""Members of ``struct cachesim_shared_line``."""
_REQUEST = np.dtype([("address", "u8"), ("origin", "u4"), ("bytes", "u2"), ("kind", "u2")])


class Kind(enum.IntEnum):
    """What an access does, as ``cachesim_access`` counts it."""

    LOAD = 0
    STORE = 1
    NON_TEMPORAL = 2
    PREFETCH = 3
    FLUSH = 4
    UPDATE = 5
    FENCE = 6


@dataclass(frozen=True)
class LevelTotals:
    """What one level saw: lookups by line, and the bytes that crossed its lower boundary."""

    name: str
    hits: int
    misses: int
    up_bytes: int
    """From below to this level, or through it where it is a victim cache."""
    down_bytes: int
    """Written back to the next level or memory, or handed to a victim cache."""


@dataclass(frozen=True)
class Totals:
    """What the model counted since the last reset; lines are given in bytes."""

    line_bytes: int
    levels: tuple[LevelTotals, ...]
    dram_read_bytes: int
    dram_write_bytes: int
    write_allocate_bytes: int
    """The part of ``dram_read_bytes`` that stores caused."""
    non_temporal_bytes: int
    """The part of ``dram_write_bytes`` that went around the caches."""
    partial_bytes: int
    """The part of ``non_temporal_bytes`` in lines that were not written whole, so cost a read as well."""
    prefetched_bytes: int
    """The part of ``dram_read_bytes`` that hardware prefetchers caused."""
    prefetched_unused_bytes: int
    """Of these, what the core did not ask for before it was read again, or up to now."""
    evaded_bytes: int
    """Lines that stores wrote whole and that were not read for it."""
    transferred_bytes: int
    """Lines that came from another core's caches instead of memory."""
    pages: int
    """4 KiB pages touched since the model was made."""
    tlb_misses: int | None = None
    """Translations that the TLB of level 1 did not have; ``None`` without TLBs."""
    page_walks: int | None = None
    """Those of them that no TLB had."""

    def between(self, level: int) -> int | None:
        """Return the bytes that crossed the boundary below a level (1: L1), both ways; None past the last."""
        if level >= len(self.levels):
            return None
        return self.levels[level - 1].up_bytes + self.levels[level - 1].down_bytes

    def counts(self) -> dict[str, Count]:
        """Return the traffic fields of a :class:`~counteroof.count.base.Measurement`, by name."""
        counts = {
            name: Count(value, "modelled", _SOURCE)
            for name, value in (
                ("dram_read_bytes", self.dram_read_bytes),
                ("dram_write_bytes", self.dram_write_bytes),
                ("write_allocate_bytes", self.write_allocate_bytes),
            )
        }
        for name, level in (("l1_l2_bytes", 1), ("l2_l3_bytes", 2)):
            value = self.between(level)
            counts[name] = (
                unavailable(_SOURCE, f"this machine's model has {len(self.levels)} cache level(s)")
                if value is None
                else Count(value, "modelled", _SOURCE)
            )
        return counts


class CacheModel:
    """One simulated hierarchy; used by one thread at a time.

    Parameters
    ----------
    caches
        First to last level, as in ``Machine.caches``.
    seed
        Places the physical pages.
    stores
        What stores cost beyond the lines that they write.
    prefetch
        Hardware prefetchers; they need two levels or more, and one part.
    parts
        Lines are dealt out to so many models side by side, which the engine feeds by a thread each; 1, or
        what :func:`parts_of` allows.
    tlbs
        What translates addresses, as in ``Machine.tlbs``; none: nothing does, and there are no page walks.

    Raises
    ------
    BadInput
        The geometry cannot be simulated; the text names the level.
    """

    def __init__(
        self,
        caches: Sequence[CacheLevel],
        *,
        seed: int = SEED,
        parts: int = 1,
        stores: Stores = Stores(),  # noqa: B008 (it is frozen)
        tlbs: Sequence[Tlb] = (),
        prefetch: Prefetch = Prefetch(),  # noqa: B008
    ) -> None:
        check(caches)
        _check_tlbs(tlbs)
        self.caches = tuple(caches)
        self.line_bytes = caches[0].line_bytes
        self._arrays: list[tuple[str, int]] = []
        self._starts: list[int] = []
        private = private_levels(caches)
        levels = ffi.new(
            "struct cachesim_level[]",
            [
                {
                    "bytes": cache.bytes,
                    "ways": cache.ways,
                    "slices": cache.slices,
                    "hashed": cache.hashed,
                    "fill": 0 if number == 0 else _FILL[cache.fill],
                    "shared": number >= private,
                    "policy": _policy(cache.policy),
                }
                for number, cache in enumerate(caches)
            ],
        )
        pointer = lib.cachesim_new(levels, len(caches), self.line_bytes, seed, parts)
        if pointer == ffi.NULL:
            what = f"divided into {parts}" if parts > 1 else "made: out of memory"
            raise CounteroofError(f"the cache model could not be {what}")
        self.pointer: Any = ffi.gc(pointer, lib.cachesim_free)
        """``struct cachesim *`` for C callers; valid as long as this object lives."""
        lib.cachesim_set_evasion(self.pointer, round(stores.evaded * _ONE))
        lib.cachesim_set_masked(self.pointer, stores.partial == "masked")
        if prefetch.on:
            self._prefetch(prefetch, parts)
        self.tlbs = tuple(tlbs)
        if tlbs:
            self._start_tlbs()

    def _prefetch(self, prefetch: Prefetch, parts: int) -> None:
        if len(self.caches) < 2:
            raise BadInput("hardware prefetchers bring lines into level 2, and there is one level alone")
        if parts > 1:
            raise BadInput(f"with hardware prefetchers the cache model cannot be divided into {parts}")
        given = ffi.new("struct cachesim_prefetch *", dataclasses.asdict(prefetch))
        if lib.cachesim_set_prefetch(self.pointer, given):
            raise CounteroofError("the cache model ran out of memory")

    def _start_tlbs(self) -> None:
        tlbs = ffi.new(
            "struct cachesim_tlb[]",
            [
                {
                    "level": one.level,
                    "entries": one.entries,
                    "ways": one.ways,
                    "pages": sum(_PAGES[size] for size in one.pages),
                    "hashed": one.hashed,
                }
                for one in self.tlbs
            ],
        )
        if lib.cachesim_tlb_start(self.pointer, tlbs, len(tlbs)):
            raise CounteroofError("the cache model ran out of memory")

    def add_array(self, name: str, start: int, nbytes: int, *, huge_pages: bool = False) -> int:
        """Register an address range whose traffic is wanted apart; return its id."""
        array = int(lib.cachesim_add_array(self.pointer, start, nbytes, huge_pages))
        if array < 0:
            raise BadInput(
                f"array {name!r} ({nbytes} bytes at {start:#x}) does not fit the cache model's 64 GiB"
            )
        self._arrays.append((name, nbytes))
        self._starts.append(start)
        return array

    def place(self, start: int, nbytes: int, frames: Sequence[int] | None = None) -> None:
        """Say where pages sit that have not been touched yet, whatever arrays lie in them.

        ``frames`` are the numbers of 4 KiB frames, one for each page that begins in the range, 0 if unknown;
        without them, every 2 MiB block that lies wholly in the range sits in one 2 MiB frame.
        """
        numbers = ffi.NULL if frames is None else ffi.new("uint64_t[]", list(frames))
        if frames is not None and len(frames) != -(-(start + nbytes) // PAGE) - -(-start // PAGE):
            raise BadInput(f"{len(frames)} frames were given for {nbytes} bytes at {start:#x}")
        if lib.cachesim_place(self.pointer, start, nbytes, numbers):
            raise BadInput(f"{nbytes} bytes at {start:#x} are more than the cache model can place")

    def core(self, number: int) -> None:
        """Let the accesses that follow come from this core, 0 at first; each has its own private levels."""
        if lib.cachesim_core(self.pointer, number):
            raise CounteroofError("the cache model ran out of memory")

    def access(self, address: int, nbytes: int, kind: Kind = Kind.LOAD) -> None:
        """Make one access."""
        lib.cachesim_access(self.pointer, address, nbytes, kind)

    def accesses(self, addresses: np.ndarray, nbytes: np.ndarray, kinds: np.ndarray) -> None:
        """Make accesses in order; three arrays of the same length."""
        if not len(addresses) == len(nbytes) == len(kinds):
            raise BadInput(
                f"accesses need arrays of one length, not {len(addresses)}, {len(nbytes)}, {len(kinds)}"
            )
        requests = np.zeros(len(addresses), _REQUEST)
        requests["address"], requests["bytes"], requests["kind"] = addresses, nbytes, kinds
        buffer = ffi.from_buffer("struct cachesim_request[]", requests)
        lib.cachesim_requests(self.pointer, buffer, len(requests))

    def loop(self, streams: Sequence[tuple[int, int, int, Kind]], count: int) -> None:
        """Run ``count`` iterations over streams of (start, stride, bytes, kind), in order within each."""
        lib.cachesim_loop(
            self.pointer,
            len(streams),
            ffi.new("uint64_t[]", [start for start, _, _, _ in streams]),
            ffi.new("int64_t[]", [stride for _, stride, _, _ in streams]),
            ffi.new("uint32_t[]", [nbytes for _, _, nbytes, _ in streams]),
            ffi.new("uint32_t[]", [int(kind) for _, _, _, kind in streams]),
            count,
        )

    def start_reuse(self) -> None:
        """From now on count reuse distances, by array."""
        if lib.cachesim_reuse_start(self.pointer):
            raise CounteroofError("the cache model ran out of memory")

    def _reuse(self, number: int) -> ReuseDistances | None:
        raw = ffi.new("uint64_t[]", _DISTANCES)
        if lib.cachesim_reuse(self.pointer, number, raw):
            return None
        cold, *counts = list(raw)
        while counts and not counts[-1]:
            counts.pop()
        return ReuseDistances(cold, tuple(counts))

    def start_origins(self) -> None:
        """From now on count memory's lines by the number of the access that causes them, too."""
        if lib.cachesim_origins_start(self.pointer):
            raise CounteroofError("the cache model ran out of memory")

    def set_origin(self, number: int) -> None:
        """Give the accesses that follow a number from 1 up; stream i of a loop has that number plus i."""
        lib.cachesim_set_origin(self.pointer, number)

    def origins(self) -> tuple[list[int], list[int]]:
        """Return the bytes read from memory, and those written to it, by number of the access.

        A line read counts for the access that missed, a line written for the store that made it dirty. At
        index 0 is what cannot be told, so both sums are those of :meth:`totals`.
        """
        known = lib.cachesim_origins(self.pointer, 0, 0, ffi.NULL, ffi.NULL)
        reads, writes = ffi.new("uint64_t[]", known), ffi.new("uint64_t[]", known)
        lib.cachesim_origins(self.pointer, 0, known, reads, writes)
        line = self.line_bytes
        return [line * count for count in reads], [line * count for count in writes]

    def reset(self) -> None:
        """Zero the counts and keep the contents: what follows is measured in the state the past left."""
        lib.cachesim_reset(self.pointer)

    def flush(self, *, count_writebacks: bool) -> None:
        """Empty all levels; count the dirty lines as written back, or forget them."""
        lib.cachesim_flush(self.pointer, count_writebacks)

    def totals(self) -> Totals:
        """Return what was counted since the last reset; closes the write-combining buffers first."""
        raw = ffi.new("struct cachesim_totals *")
        lib.cachesim_totals(self.pointer, raw)
        if raw.error:
            reason = {1: "memory ran out", 2: "more than 64 GiB of addresses were touched"}[raw.error]
            raise CounteroofError(f"the cache model lost track: {reason}")
        line = self.line_bytes
        return Totals(
            line_bytes=line,
            levels=tuple(
                LevelTotals(
                    cache.name, level.hits, level.misses, level.up_lines * line, level.down_lines * line
                )
                for cache, level in zip(self.caches, raw.level, strict=False)
            ),
            dram_read_bytes=raw.memory.read_lines * line,
            dram_write_bytes=raw.memory.write_lines * line,
            write_allocate_bytes=raw.memory.write_allocate_lines * line,
            non_temporal_bytes=raw.non_temporal_lines * line,
            partial_bytes=raw.partial_lines * line,
            prefetched_bytes=raw.memory.prefetched_lines * line,
            prefetched_unused_bytes=raw.memory.prefetched_unused_lines * line,
            evaded_bytes=raw.memory.evaded_lines * line,
            transferred_bytes=raw.transfers * line,
            pages=raw.pages,
            tlb_misses=raw.memory.tlb_misses if self.tlbs else None,
            page_walks=raw.memory.page_walks if self.tlbs else None,
        )

    def arrays(self) -> tuple[ArrayTraffic, ...]:
        """Return the traffic of each registered array, in order, then that of everything else: data that
        belong to none, and page tables, if there are TLBs."""
        named: list[tuple[int, str, int | None]] = [(n, *array) for n, array in enumerate(self._arrays)]
        named.append((-1, OTHER, None))
        if self.tlbs:
            named.append((-2, WALKS, None))
        return tuple(self._array(number, name, nbytes) for number, name, nbytes in named)

    def shared_lines(self, most: int = 1000) -> tuple[SharedLine, ...]:
        """Return the lines that cores took from each other, those that moved most first, at most so many."""
        found = self._shared()
        found = found[np.lexsort((found["address"], -found["moves"].astype(np.int64)))][:most]
        return tuple(
            SharedLine(
                self._name(array),
                address - (self._starts[array] if array >= 0 else 0),
                cores,
                moves,
                bool(apart),
            )
            for address, array, cores, moves, apart in found.tolist()
        )

    def false_sharing(self) -> tuple[FalseSharing, ...]:
        """Return the sums over all falsely shared lines of each array that has some."""
        found = self._shared()
        found = found[found["apart"] != 0]
        sums = []
        for array in np.unique(found["array"]).tolist():
            lines = found[found["array"] == array]
            moves, cores = int(lines["moves"].sum()), int(lines["cores"].max())
            sums.append(FalseSharing(self._name(array), len(lines), moves, cores))
        return tuple(sorted(sums, key=lambda one: -one.moves))

    def _shared(self) -> Any:
        """Return the lines that cores took from each other as a structured array."""
        count = lib.cachesim_shared_lines(self.pointer, ffi.NULL, 0)
        raw = ffi.new("struct cachesim_shared_line[]", count)
        lib.cachesim_shared_lines(self.pointer, raw, count)
        layout = np.dtype(
            {
                "names": [*_SHARED],
                "formats": [*_SHARED.values()],
                "offsets": [ffi.offsetof("struct cachesim_shared_line", name) for name in _SHARED],
                "itemsize": ffi.sizeof("struct cachesim_shared_line"),
            }
        )
        return np.frombuffer(ffi.buffer(raw), dtype=layout)

    def _name(self, array: int) -> str:
        return self._arrays[array][0] if array >= 0 else OTHER

    def _array(self, number: int, name: str, nbytes: int | None) -> ArrayTraffic:
        raw = ffi.new("struct cachesim_traffic *")
        if lib.cachesim_array(self.pointer, number, raw):
            raise CounteroofError(f"the cache model knows no array {number} ({name})")
        line = self.line_bytes
        return ArrayTraffic(
            name=name,
            bytes=nbytes,
            dram_read_bytes=raw.read_lines * line,
            dram_write_bytes=raw.write_lines * line,
            write_allocate_bytes=raw.write_allocate_lines * line,
            unique_read_bytes=raw.unique_read_lines * line,
            unique_write_bytes=raw.unique_write_lines * line,
            first_write_allocate_bytes=raw.unique_write_allocate_lines * line,
            touched_read_bytes=raw.loaded_lines * line,
            touched_write_bytes=raw.stored_lines * line,
            touched_bytes=raw.touched_bytes,
            unused_bytes=raw.unused_bytes,
            again_capacity_bytes=raw.again_capacity_lines * line,
            again_conflict_bytes=raw.again_conflict_lines * line,
            evaded_bytes=raw.evaded_lines * line,
            tlb_misses=raw.tlb_misses if self.tlbs and number != -2 else None,
            page_walks=raw.page_walks if self.tlbs and number != -2 else None,
            reuse=self._reuse(number),
            prefetched_bytes=raw.prefetched_lines * line,
            prefetched_unused_bytes=raw.prefetched_unused_lines * line,
        )


def parts_of(caches: Sequence[CacheLevel], prefetch: Prefetch = Prefetch()) -> int:  # noqa: B008
    """Return into how many parts a hierarchy can be divided: 1 or 2, whatever the processors.

    Prefetchers need all lines of a page in one. Counts may not depend on the processors that happen to be
    there, and with more parts each has less to do but as much to read.
    """
    apart = all(
        cache.line_bytes == 64
        and (cache.bytes // (cache.ways * cache.line_bytes)) % (2 * cache.slices) == 0
        and not cache.policy.leaders  # the sides of a duel may fall to different parts
        for cache in caches
    )
    return 2 if apart and not prefetch.on else 1


def _policy(policy: Policy) -> dict[str, int]:
    return {
        "kind": _KIND[policy.kind],
        "near": round(policy.near * _ONE),
        "rival": round(policy.rival * _ONE),
        "leaders": policy.leaders,
        "near_age": policy.near_age,
        "far_age": policy.far_age,
        "hit_age": policy.hit_age,
        "aging": _AGING[policy.aging],
    }


def private_levels(caches: Sequence[CacheLevel]) -> int:
    """Return how many levels, from the first, each core has for itself.

    The last of three levels or more is shared, whatever the system says: a virtual machine with one processor
    reports a cache of its own.
    """
    fewest = min(cache.shared_by for cache in caches)
    private = next((n for n, cache in enumerate(caches) if cache.shared_by > fewest), len(caches))
    return min(private, 2) if len(caches) > 2 else private


def _check_tlbs(tlbs: Sequence[Tlb]) -> None:
    """Raise BadInput for TLBs that cannot be simulated."""
    for problem in tlb.problems(tlbs, "tlbs"):
        raise BadInput(problem.found)
