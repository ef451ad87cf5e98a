"""Single sets, drawn by hand: one access a line, the contents in a comment.

Most recent line first, dirty lines in capitals.
"""

from __future__ import annotations

import pytest

from counteroof.cachesim.model import CacheModel, Kind

from .simulated import cache, contents, physical_line

A, B, C, D, E = (0x10_0000 + 0x1000 * page for page in range(5))  # all in one set of any cache


class Board:
    """One-set caches whose lines are called a, b, c ..."""

    def __init__(self, *levels: tuple[int, str]) -> None:
        self.model = CacheModel([cache(f"L{n + 1}", 1, ways, fill) for n, (ways, fill) in enumerate(levels)])  # type: ignore[arg-type]
        self.names: dict[int, str] = {}

    def do(self, address: int, kind: Kind = Kind.LOAD, nbytes: int = 8) -> None:
        self.model.access(address, nbytes, kind)
        self.names[physical_line(self.model, address)] = "abcde"[(address - A) // 0x1000]

    def load(self, address: int) -> None:
        self.do(address)

    def store(self, address: int) -> None:
        self.do(address, Kind.STORE)

    def level(self, number: int) -> str:
        lines = contents(self.model, number - 1, 0)
        return " ".join(self.names[line].upper() if dirty else self.names[line] for line, dirty in lines)

    @property
    def memory(self) -> tuple[int, int]:
        """Lines read and written."""
        totals = self.model.totals()
        return totals.dram_read_bytes // 64, totals.dram_write_bytes // 64


def test_least_recently_used_line_goes() -> None:
    board = Board((3, "non-inclusive"))
    board.load(A)  # a
    board.load(B)  # b a
    board.load(C)  # c b a
    assert board.level(1) == "c b a"
    board.load(A)  # a c b
    board.load(D)  # d a c    b went
    assert board.level(1) == "d a c"
    board.load(B)  # b d a    c went
    assert board.level(1) == "b d a"
    assert board.memory == (5, 0)


def test_dirty_victim_is_written_back_and_a_clean_one_is_not() -> None:
    board = Board((2, "non-inclusive"))
    board.store(A)  # A
    board.load(B)  # b A
    board.load(C)  # c b      A went, written
    assert board.level(1) == "c b"
    assert board.memory == (3, 1)
    board.load(D)  # d c      b went, clean
    assert board.memory == (4, 1)


def test_store_hit_makes_dirty_and_load_keeps_it() -> None:
    board = Board((2, "non-inclusive"))
    board.load(A)
    board.store(A)
    board.load(A)
    assert board.level(1) == "A"


def test_write_back_marks_the_copy_below_without_moving_it() -> None:
    board = Board((1, "non-inclusive"), (3, "non-inclusive"))
    board.store(A)  # L1 A   L2 a
    board.load(B)  # L1 b   L2 b A
    assert (board.level(1), board.level(2)) == ("b", "b A")
    board.load(C)  # L1 c   L2 c b A
    board.load(D)  # L1 d   L2 d c b   A went, written
    assert (board.level(1), board.level(2)) == ("d", "d c b")
    assert board.memory == (4, 1)


def test_write_back_to_a_level_that_lost_the_line_takes_it_in() -> None:
    board = Board((2, "non-inclusive"), (1, "non-inclusive"))
    board.store(A)  # L1 A     L2 a
    board.load(B)  # L1 b A   L2 b
    board.load(C)  # L1 c b   L2 A, which pushed c out
    assert (board.level(1), board.level(2)) == ("c b", "A")


def test_inclusive_level_takes_its_victim_from_the_levels_above() -> None:
    board = Board((2, "non-inclusive"), (2, "inclusive"))
    board.load(A)  # L1 a     L2 a
    board.load(B)  # L1 b a   L2 b a
    board.load(A)  # L1 a b   L2 b a    a hit in L1 is not seen below
    board.load(C)  # L1 c b   L2 c b    a went from both
    assert (board.level(1), board.level(2)) == ("c b", "c b")


def test_inclusive_level_writes_the_dirty_copy_of_the_level_above() -> None:
    board = Board((2, "non-inclusive"), (1, "inclusive"))
    board.store(A)  # L1 A     L2 a
    board.load(B)  # L1 b     L2 b     a went, A from above was written
    assert (board.level(1), board.level(2)) == ("b", "b")
    assert board.memory == (2, 1)
    assert board.model.totals().levels[0].down_bytes == 64


def test_victim_level_is_filled_by_evictions_and_gives_its_line_up() -> None:
    board = Board((1, "non-inclusive"), (1, "non-inclusive"), (2, "victim"))
    board.load(A)  # L2 a   L3
    assert board.level(3) == ""
    board.load(B)  # L2 b   L3 a
    board.load(C)  # L2 c   L3 b a
    assert (board.level(2), board.level(3)) == ("c", "b a")
    board.load(A)  # L2 a   L3 c b
    assert (board.level(2), board.level(3)) == ("a", "c b")
    assert board.memory == (3, 0)


def test_dirty_line_stays_dirty_through_a_victim_level_and_back() -> None:
    board = Board((1, "non-inclusive"), (1, "inclusive"), (2, "victim"))
    board.store(A)  # L1 A   L2 a
    board.load(B)  # L1 b   L2 b   L3 A
    assert board.level(3) == "A"
    board.load(A)  # L1 a   L2 A   L3 b
    assert (board.level(1), board.level(2), board.level(3)) == ("a", "A", "b")
    assert board.memory == (2, 0)
    board.load(C)  # L3 A b
    board.load(D)  # L3 c A
    board.load(E)  # L3 d c    A went, written
    assert board.level(3) == "d c"
    assert board.memory == (5, 1)


def test_clflush_writes_a_dirty_line_once_and_empties_every_level() -> None:
    board = Board((2, "non-inclusive"), (2, "inclusive"), (2, "inclusive"))
    board.store(A)
    board.load(B)
    board.do(A, Kind.FLUSH)
    assert [board.level(number) for number in (1, 2, 3)] == ["b", "b", "b"]
    assert board.memory == (2, 1)
    board.do(B, Kind.FLUSH)
    assert board.memory == (2, 1)


def test_prefetch_fills_like_a_load_and_is_no_write_allocate() -> None:
    board = Board((2, "non-inclusive"))
    board.do(A, Kind.PREFETCH)
    board.store(A)
    assert board.level(1) == "A"
    totals = board.model.totals()
    assert (totals.dram_read_bytes, totals.write_allocate_bytes) == (64, 0)


def test_update_is_a_load_and_a_store() -> None:
    board = Board((2, "non-inclusive"))
    board.do(A, Kind.UPDATE)
    totals = board.model.totals()
    assert board.level(1) == "A"
    assert (totals.levels[0].hits, totals.levels[0].misses, totals.write_allocate_bytes) == (1, 1, 0)


def test_access_across_a_line_end_touches_both_lines() -> None:
    model = CacheModel([cache("L1", 2, 2)])
    model.access(A + 60, 8)
    assert model.totals().levels[0].misses == 2


class TestNonTemporalStores:
    def test_whole_line_goes_to_memory_unread(self) -> None:
        board = Board((2, "non-inclusive"))
        for piece in range(4):
            board.do(A + 16 * piece, Kind.NON_TEMPORAL, 16)
        assert board.memory == (0, 1)
        assert board.level(1) == ""

    def test_part_of_a_line_costs_a_read_as_well(self) -> None:
        board = Board((2, "non-inclusive"))
        board.do(A, Kind.NON_TEMPORAL, 16)
        assert board.memory == (1, 1)
        assert board.model.totals().partial_bytes == 64

    def test_the_cached_copy_is_dropped(self) -> None:
        board = Board((2, "non-inclusive"))
        board.load(A)
        board.do(A, Kind.NON_TEMPORAL, 64)
        assert board.level(1) == ""
        assert board.memory == (1, 1)

    def test_part_of_a_line_that_was_dirty_in_a_cache_is_one_write(self) -> None:
        board = Board((2, "non-inclusive"))
        board.store(A)
        board.do(A, Kind.NON_TEMPORAL, 16)
        assert board.memory == (1, 1)

    def test_ordinary_access_closes_the_buffer_first(self) -> None:
        board = Board((2, "non-inclusive"))
        board.do(A, Kind.NON_TEMPORAL, 16)
        board.load(A)
        assert board.memory == (2, 1)

    @pytest.mark.parametrize("levels", [1, 3])
    def test_after_an_ordinary_access_another_buffer_is_opened(self, levels: int) -> None:
        caches = [cache("L1", 2, 2), cache("L2", 2, 8, "inclusive"), cache("L3", 64, 4, "victim")]
        model = CacheModel(caches[:levels])
        model.access(A, 16, Kind.NON_TEMPORAL)
        model.access(A, 8, Kind.LOAD)
        model.access(A + 16, 16, Kind.NON_TEMPORAL)
        totals = model.totals()
        assert (totals.dram_read_bytes, totals.dram_write_bytes) == (3 * 64, 2 * 64)

    @pytest.mark.parametrize(("streams", "partial"), [(10, 0), (11, 11 * 4)])
    def test_ten_lines_gather_at_a_time(self, streams: int, partial: int) -> None:
        model = CacheModel([cache("L1", 2, 2)])
        for piece in range(4):
            for stream in range(streams):
                model.access(A + 0x1000 * stream + 16 * piece, 16, Kind.NON_TEMPORAL)
        assert model.totals().partial_bytes == 64 * partial
