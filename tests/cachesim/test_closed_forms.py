"""Streaming kernels move what their closed forms say, in steady state and per array."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from counteroof.cachesim.model import CacheModel, Kind, Totals
from counteroof.machine.model import CacheLevel

from .simulated import cache

N = 160_000  # 1.28 MB an array, against 128 KiB of last level
LINE_SLACK = 128 * 1024  # what stays in the caches from one call to the next


def zen(line_bytes: int = 64) -> list[CacheLevel]:
    return [
        cache("L1", 8, 8, line_bytes=line_bytes),
        cache("L2", 64, 8, "inclusive", line_bytes=line_bytes),
        cache("L3", 128, 16, "victim", line_bytes=line_bytes, hashed=True),
    ]


def intel(line_bytes: int = 64) -> list[CacheLevel]:
    return [
        cache("L1", 8, 8, line_bytes=line_bytes),
        cache("L2", 64, 8, line_bytes=line_bytes),
        cache("L3", 96, 16, "inclusive", line_bytes=line_bytes, hashed=True),
    ]


def steady(
    caches: Sequence[CacheLevel], streams: Sequence[tuple[str, Kind]], width: int = 8
) -> tuple[CacheModel, Totals]:
    """Run the second of two calls over N doubles; streams over the same array are given by the same name."""
    model = CacheModel(caches)
    starts: dict[str, int] = {}
    for name, _ in streams:
        if name not in starts:
            starts[name] = 0x7F00_0000_0000 + len(starts) * (8 * N + 3 * 4096)
            model.add_array(name, starts[name], 8 * N)
    for _ in range(2):
        model.reset()
        model.loop([(starts[name], width, width, kind) for name, kind in streams], 8 * N // width)
    return model, model.totals()


@pytest.mark.parametrize(
    "caches", [zen(), intel(), zen(128), intel(256)], ids=["zen", "intel", "zen128", "intel256"]
)
@pytest.mark.parametrize("width", [8, 64])
class TestSteadyState:
    def test_triad_moves_32_bytes_an_element(self, caches: list[CacheLevel], width: int) -> None:
        streams = [("b", Kind.LOAD), ("c", Kind.LOAD), ("a", Kind.STORE)]
        model, totals = steady(caches, streams, width)
        assert totals.dram_read_bytes == 24 * N
        assert totals.dram_write_bytes == pytest.approx(8 * N, abs=LINE_SLACK)
        assert totals.write_allocate_bytes == 8 * N
        a = next(array for array in model.arrays() if array.name == "a")
        assert (a.dram_read_bytes, a.write_allocate_bytes, a.first_write_allocate_bytes) == (8 * N,) * 3
        assert (a.touched_read_bytes, a.touched_write_bytes) == (0, 8 * N)

    def test_copy_moves_24(self, caches: list[CacheLevel], width: int) -> None:
        _, totals = steady(caches, [("b", Kind.LOAD), ("a", Kind.STORE)], width)
        assert totals.dram_read_bytes == 16 * N
        assert totals.dram_write_bytes == pytest.approx(8 * N, abs=LINE_SLACK)

    def test_copy_with_non_temporal_stores_moves_16(self, caches: list[CacheLevel], width: int) -> None:
        _, totals = steady(caches, [("b", Kind.LOAD), ("a", Kind.NON_TEMPORAL)], width)
        assert (totals.dram_read_bytes, totals.dram_write_bytes) == (8 * N, 8 * N)
        assert (totals.non_temporal_bytes, totals.partial_bytes) == (8 * N, 0)

    def test_dot_moves_16_and_writes_nothing(self, caches: list[CacheLevel], width: int) -> None:
        model, totals = steady(caches, [("a", Kind.LOAD), ("b", Kind.LOAD)], width)
        assert (totals.dram_read_bytes, totals.dram_write_bytes) == (16 * N, 0)
        for array in model.arrays()[:2]:
            assert array.dram_read_bytes == array.unique_read_bytes == array.touched_read_bytes == 8 * N

    def test_update_in_place_moves_16_and_allocates_nothing(
        self, caches: list[CacheLevel], width: int
    ) -> None:
        model, totals = steady(caches, [("a", Kind.LOAD), ("a", Kind.STORE)], width)
        assert (totals.dram_read_bytes, totals.write_allocate_bytes) == (8 * N, 0)
        assert totals.dram_write_bytes == pytest.approx(8 * N, abs=LINE_SLACK)
        assert model.arrays()[0].touched_read_bytes == model.arrays()[0].touched_write_bytes == 8 * N


@pytest.mark.parametrize("caches", [zen(), intel()], ids=["zen", "intel"])
def test_data_that_fit_move_nothing_in_steady_state(caches: list[CacheLevel]) -> None:
    model = CacheModel(caches)
    model.add_array("a", 0x10000, 16384)
    for _ in range(2):
        model.reset()
        model.loop([(0x10000, 8, 8, Kind.UPDATE)], 2048)
    totals = model.totals()
    assert (totals.dram_read_bytes, totals.dram_write_bytes) == (0, 0)
    array = model.arrays()[0]
    assert (array.touched_read_bytes, array.touched_write_bytes) == (16384, 16384)


def test_dirty_lines_left_at_the_end_are_written_by_a_counted_flush() -> None:
    model = CacheModel(zen())
    model.loop([(0x10000, 8, 8, Kind.STORE)], 1000)
    assert model.totals().dram_write_bytes == 0
    model.flush(count_writebacks=True)
    assert model.totals().dram_write_bytes == 8000
    model.reset()
    model.flush(count_writebacks=True)
    assert model.totals().dram_write_bytes == 0


def test_column_walk_of_a_matrix_too_tall_fetches_every_line_for_every_column() -> None:
    rows, columns = 4096, 16
    model = CacheModel(zen())
    model.add_array("m", 0x1000_0000, rows * 8 * 512)
    for column in range(columns):
        model.loop([(0x1000_0000 + 8 * column, 8 * 512, 8, Kind.LOAD)], rows)
    assert model.totals().dram_read_bytes == rows * columns * 64  # 4096 lines against 2048 + 512 of room
    array = model.arrays()[0]
    assert array.unique_read_bytes == rows * columns // 8 * 64


def test_column_walk_of_a_matrix_short_enough_fetches_every_line_once() -> None:
    rows, columns = 32, 64
    model = CacheModel(zen())
    for column in range(columns):
        model.loop([(0x1000_0000 + 8 * column, 8 * 512, 8, Kind.LOAD)], rows)
    assert model.totals().dram_read_bytes == rows * columns // 8 * 64
