"""What a run may ask of the cache model beside the caches of the machine."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Literal

from ..errors import BadInput

FrameSource = Literal["random", "pagemap"]
FRAME_SOURCES: tuple[FrameSource, ...] = typing.get_args(FrameSource)


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
