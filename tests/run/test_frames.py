"""Frames by /proc/self/pagemap: its format, what it hides, and that of this process."""

from __future__ import annotations

import ctypes
import mmap
import struct
from pathlib import Path

import pytest

from counteroof.machine.system import CAP_SYS_ADMIN
from counteroof.run.frames import FramesHidden, frames

PRESENT, SWAPPED, SOFT_DIRTY = 1 << 63, 1 << 62, 1 << 55


def pagemap(tmp_path: Path, *entries: int) -> Path:
    path = tmp_path / "pagemap"
    path.write_bytes(struct.pack(f"<{len(entries)}Q", *entries))
    return path


def test_a_page_in_memory_has_the_frame_of_its_low_55_bits(tmp_path: Path) -> None:
    path = pagemap(tmp_path, 0, PRESENT | SOFT_DIRTY | 0x1A1B32, PRESENT | (1 << 55) - 1, PRESENT | 7)
    assert frames(4096, 8192, path) == [0x1A1B32, (1 << 55) - 1]


def test_every_page_with_a_byte_in_the_range_counts(tmp_path: Path) -> None:
    path = pagemap(tmp_path, *(PRESENT | 10 + page for page in range(4)))
    assert frames(4095, 2, path) == [10, 11]
    assert frames(8192, 1, path) == [12]


def test_pages_that_are_not_in_memory_have_no_frame(tmp_path: Path) -> None:
    path = pagemap(tmp_path, 0, SWAPPED | 99, PRESENT | 5)
    assert frames(0, 3 * 4096, path) == [0, 0, 5]


def test_frames_are_hidden_where_all_pages_in_memory_read_as_0(tmp_path: Path) -> None:
    with pytest.raises(FramesHidden, match="only to processes with CAP_SYS_ADMIN"):
        frames(0, 2 * 4096, pagemap(tmp_path, PRESENT, PRESENT | SOFT_DIRTY))


def test_frames_are_hidden_where_there_is_no_file_or_it_ends_early(tmp_path: Path) -> None:
    with pytest.raises(FramesHidden, match="cannot be read: No such file"):
        frames(0, 4096, tmp_path / "nothing")
    with pytest.raises(FramesHidden, match="ends early: 1 of 2 pages"):
        frames(0, 2 * 4096, pagemap(tmp_path, PRESENT | 1))


def test_this_process_sees_its_frames_exactly_if_it_has_the_right() -> None:
    status = Path("/proc/self/status").read_text()
    held = int(status.partition("CapEff:")[2].split()[0], 16) >> CAP_SYS_ADMIN & 1
    memory = mmap.mmap(-1, 3 * 4096)
    memory[0] = memory[8192] = 1
    buffer = (ctypes.c_char * len(memory)).from_buffer(memory)
    start = ctypes.addressof(buffer)
    found, why = None, ""
    try:
        found = frames(start, 3 * 4096)
    except FramesHidden as hidden:
        why = str(hidden)
    del buffer
    if found is None:  # in a user namespace, those who have the right do not see them either
        assert "CAP_SYS_ADMIN" in why or "cannot be read" in why
    else:
        assert held
        assert found[0] != found[2] != 0
        assert found[0] != 0
        assert found[1] == 0  # never touched
