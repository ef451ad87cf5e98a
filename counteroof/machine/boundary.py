"""What crosses between two neighbours in the memory hierarchy: one rule for each kind, the cache model's own.

Bytes of a kernel and bytes of a roof meet only if they are counted alike. The model counts lines both ways;
from the same streams, this module says how often an element crosses, so that a loop's speed becomes a roof
in those bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .model import CacheLevel


@dataclass(frozen=True)
class Boundary:
    """The way between two neighbours.

    Attributes
    ----------
    level
        The lower one, as ceilings name it: ``l1``, ``l2``, ``l3``, ``dram``.
    name
        Of the boundary: ``core-L1``, ``L1-L2``, ``L2-L3``, ``DRAM``.
    kind
        ``core``: what instructions load and store. ``copies``: a line comes up and stays below; it goes down
        again if it was written to. ``victims``: a line comes up and leaves the level below, which takes one
        in return, dirty or clean. ``memory``: as ``copies``, and non-temporal stores go down.
    """

    level: str
    name: str
    kind: Literal["core", "copies", "victims", "memory"]

    def crossings(self, stream: str) -> int:
        """Return how often an element of a stream (r read, w written, u updated, n non-temporal) crosses."""
        if self.kind == "core":
            return (stream in "ru") + (stream in "wun")
        if stream == "n":
            return int(self.kind == "memory")  # past the caches
        up = 1  # of a stored line too: write-allocate
        down = stream in "wu" or self.kind == "victims"
        return up + down

    def element_bytes(self, streams: str) -> int:
        """Return the bytes that cross for one element of 8 bytes in each stream."""
        return 8 * sum(self.crossings(stream) for stream in streams)

    @property
    def convention(self) -> str:
        """What a byte at this boundary is; the same for every loop."""
        if self.kind == "core":
            return "loads and stores of instructions"
        if self.kind == "victims":
            return "both ways, one line down for each line up"
        return "both ways, write-allocate counted"


def boundaries(caches: Sequence[CacheLevel]) -> tuple[Boundary, ...]:
    """Return the boundaries from the core to memory: above each cache, and below the last."""
    found = []
    above = "core"
    for index, cache in enumerate(caches):
        kind: Literal["core", "copies", "victims"] = "victims" if cache.fill == "victim" else "copies"
        found.append(Boundary(cache.name.lower(), f"{above}-{cache.name}", kind if index else "core"))
        above = cache.name
    return (*found, Boundary("dram", "DRAM", "memory"))
