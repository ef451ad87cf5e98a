"""The physical frames of pages, as ``/proc/self/pagemap`` tells them to those who may know.

The format is that of the kernel's ``Documentation/admin-guide/mm/pagemap.rst``: 64 bits a page of 4 KiB, the
lowest 55 its frame number if bit 63 says that it is in memory. Since Linux 4.2 the number reads as 0 without
``CAP_SYS_ADMIN``. In a virtual machine the frames are the guest's; where the host keeps those is not told.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import numpy as np

PAGEMAP = Path("/proc/self/pagemap")
PAGE = 4096

_PRESENT = np.uint64(1 << 63)
_FRAME = np.uint64((1 << 55) - 1)


class FramesHidden(Exception):
    """The system does not tell frames; the text says why."""


def frames(start: int, nbytes: int, pagemap: Path = PAGEMAP) -> Sequence[int]:
    """Return the frame number of each page of which the range has a byte, 0 where it has none in memory.

    Raises
    ------
    FramesHidden
        If this process may not know.
    """
    if mmap.PAGESIZE != PAGE:
        raise FramesHidden(f"pages are of {mmap.PAGESIZE} bytes here, not of {PAGE}")
    first, count = start // PAGE, -(-(start + nbytes) // PAGE) - start // PAGE
    try:
        with pagemap.open("rb", buffering=0) as file:
            file.seek(8 * first)
            entries = np.frombuffer(_read(file, 8 * count), np.uint64)
    except OSError as error:
        raise FramesHidden(f"{pagemap} cannot be read: {error.strerror or error}") from error
    if len(entries) < count:
        raise FramesHidden(f"{pagemap} ends early: {len(entries)} of {count} pages")
    present = entries & _PRESENT != 0
    numbers = np.where(present, entries & _FRAME, np.uint64(0))
    if present.any() and not numbers.any():
        raise FramesHidden(f"{pagemap} shows frame numbers only to processes with CAP_SYS_ADMIN")
    told: list[int] = numbers.tolist()
    return told


def _read(file: FileIO, size: int) -> bytes:
    """Return up to ``size`` bytes; the kernel gives them in pieces."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
