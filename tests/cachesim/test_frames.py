"""Where pages sit: at random, in 2 MiB frames, or where it was said; and what that does to sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.errors import BadInput
from counteroof.native import lib

from .simulated import cache, physical_line

BASE = 0x7F00_0000_0000
HUGE = 1 << 21


def frame(model: CacheModel, address: int) -> int:
    """Frame of a page, which is touched for that."""
    model.access(address, 8)
    return physical_line(model, address) * model.line_bytes >> 12


def test_pages_sit_in_the_frames_that_were_said() -> None:
    model = CacheModel([cache("L1", 4, 2)])
    model.place(BASE, 3 * 4096, [77, 0, 1000])
    assert frame(model, BASE) == 77
    assert frame(model, BASE + 4096) not in (77, 78, 1000)  # unknown: anywhere
    assert frame(model, BASE + 2 * 4096) == 1000


def test_frames_beyond_what_lines_have_room_for_are_folded() -> None:
    model = CacheModel([cache("L1", 4, 2)])
    model.place(BASE, 4096, [(1 << 30) + 5])
    assert 0 < frame(model, BASE) < 1 << 25


def test_the_frames_of_arrays_are_what_was_said_too() -> None:
    model = CacheModel([cache("L1", 4, 2)])
    model.add_array("x", BASE, 4096)
    model.place(BASE, 4096, [77])
    assert frame(model, BASE) == 77
    assert model.arrays()[0].dram_read_bytes == 64


@pytest.mark.parametrize("line_bytes", [64, 128, 256])
def test_a_2_mib_frame_is_in_one_piece_and_may_hold_two_arrays(line_bytes: int) -> None:
    model = CacheModel([cache("L1", 4, 2, line_bytes=line_bytes)])
    model.add_array("x", BASE, HUGE // 2)
    model.add_array("y", BASE + HUGE // 2, HUGE)
    model.place(BASE, HUGE + HUGE // 2)
    frames = [frame(model, BASE + 4096 * page) for page in range(3 * 256)]
    assert frames[:512] == list(range(frames[0], frames[0] + 512))
    assert frames[0] % 512 == 0
    assert sorted(frames[512:]) != list(range(min(frames[512:]), max(frames[512:]) + 1))  # no whole block


def test_the_number_of_frames_has_to_fit() -> None:
    model = CacheModel([cache("L1", 4, 2)])
    with pytest.raises(BadInput, match="2 frames were given for 4096 bytes"):
        model.place(BASE, 4096, [1, 2])
    with pytest.raises(BadInput, match="more than the cache model can place"):
        model.place(BASE, 1 << 40)


@pytest.mark.parametrize(
    ("units", "slices"), [(7, 1), (20, 1), (224, 1), (7 * 32, 7), (20 * 32, 20), (3 * 128, 3)]
)
def test_a_hashed_level_takes_a_2_mib_frame_evenly_whatever_the_number_of_its_sets(
    units: int, slices: int
) -> None:
    """As real last levels do: no set gets much more than its share of the lines."""
    last = replace(cache("L2", 64 * units, 4, hashed=True), slices=slices)
    model = CacheModel([cache("L1", 1, 1), last])
    model.place(BASE, HUGE)
    model.loop([(BASE, 64, 8, Kind.LOAD)], HUGE // 64)
    lines = Counter(
        lib.cachesim_set_of(model.pointer, 1, physical_line(model, BASE + 64 * line))
        for line in range(HUGE // 64)
    )
    share = HUGE // 64 / (64 * units)
    assert max(lines.values()) <= share + 3
    assert len(lines) >= 0.9 * min(64 * units, HUGE // 64)
