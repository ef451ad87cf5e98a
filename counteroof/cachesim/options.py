"""What a run may ask of the cache model beside the caches of the machine."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import BadInput
from ..machine.model import CacheLevel, Machine, Prefetch

FrameSource = Literal["random", "pagemap"]
FRAME_SOURCES: tuple[FrameSource, ...] = typing.get_args(FrameSource)
CapacitySource = Literal["nominal", "measured"]
CAPACITY_SOURCES: tuple[CapacitySource, ...] = typing.get_args(CapacitySource)

_PAGE = 4096


@dataclass(frozen=True)
class ModelOptions:
    """How the cache model of a run differs from the usual one.

    Attributes
    ----------
    frames
        Where the pages of arrays lie in physical memory: at ``random``, from a fixed seed, so that counts are
        the same in every run; or where they really are, by ``/proc/self/pagemap``.
    tlb
        Whether addresses are translated, and page walks go through the caches.
    reuse_distances
        Whether the distances between accesses of the same line are counted, which takes long.
    """

    frames: FrameSource = "random"
    tlb: bool = False
    reuse_distances: bool = False

    def __post_init__(self) -> None:
        if self.frames not in FRAME_SOURCES:
            raise BadInput(f"unknown frames {self.frames!r}; expected one of {', '.join(FRAME_SOURCES)}")


PREFETCHERS = ("adjacent", "stream")
"""Names of the hardware prefetchers that can be switched on."""


def prefetchers(text: str) -> Prefetch:
    """Return the prefetchers named in a text such as ``"adjacent,stream"``, or none for ``"none"``.

    Raises
    ------
    BadInput
        If a name is none of these.
    """
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in PREFETCHERS]
    if unknown and names != ["none"]:
        raise BadInput(f"unknown prefetcher {unknown[0]!r}; expected none, or of {', '.join(PREFETCHERS)}")
    return Prefetch(adjacent="adjacent" in names, stream="stream" in names)


def with_prefetchers(machine: Machine, prefetch: Prefetch) -> Machine:
    """Return a machine with these prefetchers instead of its own.

    Raises
    ------
    BadInput
        If it has no second level of cache for them to fill.
    """
    if prefetch.on and len(machine.caches) < 2:
        raise BadInput("hardware prefetchers bring lines into level 2, and the machine has one level alone")
    return dataclasses.replace(machine, prefetch=prefetch)


def with_capacity(machine: Machine, source: CapacitySource) -> Machine:
    """Return a machine whose shared caches have the capacity of their label, or what a sweep found of it.

    The ways stay and the sets become fewer: neighbours, who take the rest, put their lines into all sets.

    Raises
    ------
    BadInput
        If nothing was measured, or nothing of a shared cache was found.
    """
    if source == "nominal":
        return machine
    if not machine.capacities:
        raise BadInput(
            "what the caches hold has not been measured here; 'counteroof machine' does so (without --quick)"
        )
    unknown = {one.level: one.reason for one in machine.capacities if one.bytes is None}
    for cache in machine.caches:
        if cache.shared_by > 1 and cache.name in unknown:
            raise BadInput(
                f"what {cache.name} holds could not be told when this machine was measured: "
                f"{unknown[cache.name]}; measure again ('counteroof machine'), or give a machine file"
            )
    caches = tuple(
        cache if cache.shared_by == 1 else _shrunk(cache, machine.measured_bytes(cache))
        for cache in machine.caches
    )
    return dataclasses.replace(machine, caches=caches)


def _shrunk(cache: CacheLevel, held: int | None) -> CacheLevel:
    """Return a cache of about so many bytes; each slice has a whole number of pages in each way."""
    if held is None:
        return cache
    unit = cache.ways * cache.slices * _PAGE
    source = f"{cache.source}; capacity measured, {cache.bytes} B by its label"
    return dataclasses.replace(cache, bytes=max(1, held // unit) * unit, source=source)


def check(caches: Sequence[CacheLevel]) -> None:
    """Say what the simulator cannot do, with the level and the number that is wrong.

    Raises
    ------
    BadInput
        If there is anything.
    """
    if not 1 <= len(caches) <= 4:
        raise BadInput(f"the cache model takes 1 to 4 levels, not {len(caches)}")
    lines = {cache.line_bytes for cache in caches}
    if len(lines) > 1 or not lines <= {64, 128, 256}:
        raise BadInput(f"all levels need the same line size, 64, 128 or 256 bytes, not {sorted(lines)}")
    for cache in caches:
        if not 1 <= cache.ways <= 64:
            raise BadInput(f"{cache.name}: 1 to 64 ways can be simulated, not {cache.ways}")
        way = cache.ways * cache.line_bytes
        if cache.bytes <= 0 or cache.bytes % way:
            raise BadInput(
                f"{cache.name}: {cache.bytes} bytes are not a whole number of sets of"
                f" {cache.ways} ways x {cache.line_bytes} bytes"
            )
        if cache.policy.kind == "plru" and cache.ways & (cache.ways - 1):
            raise BadInput(f"{cache.name}: tree PLRU needs a power of two of ways, not {cache.ways}")
        if cache.policy.leaders > cache.bytes // way // 2:
            raise BadInput(
                f"{cache.name}: {cache.policy.leaders} leaders a side are more than half of its"
                f" {cache.bytes // way} sets"
            )
        if cache.slices < 1 or cache.bytes // way % cache.slices:
            raise BadInput(
                f"{cache.name}: {cache.bytes // way} sets cannot be split into {cache.slices} slices"
            )
        if cache.bytes // way > 1 << 26:
            raise BadInput(
                f"{cache.name}: {cache.bytes // way} sets are more than can be simulated ({1 << 26})"
            )
