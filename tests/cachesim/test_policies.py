"""Replacement policies, drawn by hand: one access a line, the contents of the set in a comment.

Dirty lines in capitals, "-" is an empty way. LRU is drawn in ``test_sets.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.errors import BadInput
from counteroof.machine.model import Policy
from counteroof.machine.replacement import POLICIES

from .simulated import cache, contents, physical_line

LETTERS = "abcdefgh"


class Board:
    """A cache of one set and one level, unless more are given; its lines are called a, b, c ..."""

    def __init__(self, ways: int, policy: Policy, *, fill: str | None = None) -> None:
        levels = [cache("L1", 1, ways, policy=policy)]
        if fill:
            levels = [cache("L1", 1, 1), cache("L2", 1, ways, fill, policy=policy)]  # type: ignore[arg-type]
        self.model = CacheModel(levels)
        self.names = {0: "-"}

    def load(self, letter: str, kind: Kind = Kind.LOAD) -> str:
        """Make an access; return the set's contents."""
        address = 0x10_0000 + 0x1000 * LETTERS.index(letter)
        self.model.access(address, 8, kind)
        self.names[physical_line(self.model, address)] = letter
        lines = contents(self.model, len(self.model.caches) - 1, 0)
        return " ".join(self.names[line].upper() if dirty else self.names[line] for line, dirty in lines)

    def store(self, letter: str) -> str:
        return self.load(letter, Kind.STORE)

    def flush(self, letter: str) -> str:
        return self.load(letter, Kind.FLUSH)


class TestTreePlru:
    def test_the_tree_points_away_from_what_was_used(self) -> None:
        board = Board(4, POLICIES["plru"])
        assert board.load("a") == "a - - -"
        assert board.load("b") == "a b - -"
        assert board.load("c") == "a b c -"
        assert board.load("d") == "a b c d"  # root to the left, left half to a, right half to c
        assert board.load("a") == "a b c d"  # root to the right, left half to b
        assert board.load("e") == "a b e d"  # root to the left, right half to d
        assert board.load("f") == "a f e d"  # b went although c, the oldest but for e, was gone before it
        assert board.load("g") == "a f e g"

    def test_the_line_used_longest_ago_may_stay(self) -> None:
        board = Board(4, POLICIES["plru"])
        for letter in "abcd":
            board.load(letter)
        board.load("a")  # root to the right, left half to b
        board.load("c")  # root to the left, right half to d
        board.load("b")  # root to the right, left half to a; LRU would now give up d, then a
        assert board.load("e") == "a b c e"
        assert board.load("f") == "f b c e"
        assert board.load("g") == "f b g e"  # LRU: b

    def test_an_empty_way_is_filled_first(self) -> None:
        board = Board(4, POLICIES["plru"])
        for letter in "abcd":
            board.load(letter)
        assert board.flush("c") == "a b - d"
        assert board.load("e") == "a b e d"

    def test_ways_have_to_be_a_power_of_two(self) -> None:
        with pytest.raises(BadInput, match="L1: tree PLRU needs a power of two of ways, not 6"):
            Board(6, POLICIES["plru"])


class TestRandom:
    def test_any_way_may_leave_and_all_do_in_time(self) -> None:
        board = Board(4, POLICIES["random"])
        for letter in "abcd":
            board.load(letter)
        ways: Counter[int] = Counter()
        before = "a b c d"
        for turn in range(400):
            after = board.load("efghabcd"[turn % 8])
            changed = [way for way in range(4) if before.split()[way] != after.split()[way]]
            assert len(changed) <= 1
            ways.update(changed)
            before = after
        assert sorted(ways) == [0, 1, 2, 3]
        assert min(ways.values()) > sum(ways.values()) / 8

    def test_a_hit_changes_nothing(self) -> None:
        board = Board(2, POLICIES["random"])
        board.load("a")
        board.load("b")
        assert board.load("a") == "a b"

    def test_runs_are_the_same_every_time(self) -> None:
        first, second = Board(4, POLICIES["random"]), Board(4, POLICIES["random"])
        for letter in "abcdefghbdfhaceg" * 4:
            assert first.load(letter) == second.load(letter)


class TestRrip:
    def test_static_rrip_keeps_what_was_found_again(self) -> None:
        board = Board(3, POLICIES["srrip"])
        board.load("a")  # a2
        board.load("b")  # a2 b2
        board.load("a")  # a0 b2        found
        board.load("c")  # a0 b2 c2
        assert board.load("d") == "a d c"  # a1 b3 c3, the first of age 3 goes: a1 d2 c3
        assert board.load("e") == "a d e"  # a1 d2 e2
        assert board.load("f") == "a f e"  # a2 d3 e3: a2 f2 e3
        assert board.load("g") == "a f g"  # a2 f2 g2
        assert board.load("h") == "h f g"  # a3 f3 g3

    def test_quad_age_lru_ages_at_once(self) -> None:
        """Ages after each access, as QLRU_H11_M1_R0_U0 has them."""
        board = Board(3, POLICIES["qlru"])
        board.load("a")  # a1
        board.load("b")  # a1 b1
        board.load("c")  # a1 b1 c1 is full without an age of 3: a3 b3 c3
        assert board.load("d") == "d b c"  # d1 b3 c3
        board.load("b")  # d1 b1 c3     found at 3
        board.load("b")  # d1 b0 c3     found at 1
        assert board.load("e") == "d b e"  # d1 b0 e1: d3 b2 e3
        assert board.load("f") == "f b e"  # f1 b2 e3
        assert board.load("g") == "f b g"  # f1 b2 g1: f2 b3 g2
        assert board.load("h") == "f h g"

    def test_growing_by_one_may_leave_nobody_old_and_then_the_first_goes(self) -> None:
        """QLRU_H11_M1_R1_U2."""
        board = Board(2, replace(POLICIES["qlru"], aging="by one"))
        board.load("a")
        board.load("b")  # a1 b1: a2 b2
        board.load("b")  # a2 b1: a3 b2
        board.load("a")  # a1 b2: a2 b3
        board.load("b")  # a2 b1: a3 b2
        board.load("a")  # a1 b2: a2 b3
        assert board.load("c") == "a c"  # a2 c1: a3 c2
        board.load("a")  # a1 c2: a2 c3
        board.load("c")  # a2 c1: a3 c2
        board.load("c")  # a3 c1
        board.load("a")  # a1 c1: a2 c2
        assert board.load("d") == "d c"  # nobody has age 3

    def test_growing_of_others_spares_the_line_that_was_used(self) -> None:
        """QLRU_H00_M1_R0_U1."""
        board = Board(2, replace(POLICIES["qlru"], hit_age=0, aging="of others"))
        board.load("a")  # a1
        board.load("b")  # a1 b1: a3 b1, where all would grow to a3 b3
        assert board.load("c") == "c b"  # c1 b1: c1 b3
        assert board.load("d") == "c d"

    def test_an_empty_way_keeps_the_others_young(self) -> None:
        board = Board(2, POLICIES["qlru"])
        board.load("a")
        board.load("b")  # a3 b3
        board.load("a")  # a1 b3
        board.flush("b")  # a1 -
        board.load("a")  # a0 -
        board.load("c")  # a0 c1: a2 c3
        assert board.load("d") == "a d"

    def test_far_lines_leave_first(self) -> None:
        board = Board(3, Policy("rrip", near=0.0, near_age=1, far_age=3))
        for letter in "abc":
            board.load(letter)  # all of age 3
        board.load("b")  # a3 b0 c3
        assert board.load("d") == "d b c"
        assert board.load("e") == "e b c"
        assert board.load("c") == "e b c"  # e3 b0 c0
        assert board.load("f") == "f b c"


class TestAdaptive:
    """Drawn as LRU is: the most recent line first."""

    def test_what_comes_in_far_leaves_first(self) -> None:
        board = Board(3, Policy("adaptive", near=0.0))
        assert board.load("a") == "a"
        assert board.load("b") == "a b"
        assert board.load("c") == "a b c"
        assert board.load("d") == "a b d"
        assert board.load("d") == "d a b"
        assert board.load("e") == "d a e"

    def test_all_near_is_lru(self) -> None:
        adaptive, lru = Board(3, Policy("adaptive")), Board(3, Policy())
        for letter in "abcdabeacdhgfabc" * 2:
            assert adaptive.load(letter) == lru.load(letter)

    def test_about_the_share_comes_in_near(self) -> None:
        board = Board(2, Policy("adaptive", near=0.25))
        near, taken, before = 0, 0, board.load("a")
        for letter in "bcdefgh" * 200:
            after = board.load(letter)
            if letter not in before:
                taken += 1
                near += after.startswith(letter)
            before = after
        assert 0.2 < near / taken < 0.3


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("lru", "adaptive", "drrip")])
class TestAnyPolicy:
    def test_dirty_victims_are_written_back(self, name: str) -> None:
        board = Board(2, POLICIES[name])
        for letter in "abcdefgh" * 4:
            board.store(letter)
        board.model.flush(count_writebacks=True)
        totals = board.model.totals()
        assert totals.dram_write_bytes == totals.dram_read_bytes

    def test_an_inclusive_level_takes_its_victim_from_above(self, name: str) -> None:
        board = Board(2, POLICIES[name], fill="inclusive")
        for letter in "abcdefgh":
            below = board.load(letter)
            (above, _), *_ = contents(board.model, 0, 0)
            assert board.names[above] in below.split()

    def test_a_victim_level_gives_up_what_moves_up(self, name: str) -> None:
        board = Board(2, POLICIES[name], fill="victim")
        board.load("a")
        assert "a" in board.load("b").split()
        assert board.load("a").replace("- ", "").replace(" -", "") == "b"
        assert board.model.totals().dram_read_bytes == 2 * 64


class TestDuel:
    """Cyclic walks through more lines than fit: the side that keeps some of them wins the other sets."""

    SETS, WAYS = 64, 4

    def misses(self, policy: Policy, lines_a_set: int) -> int:
        model = CacheModel([cache("L1", self.SETS, self.WAYS, policy=policy)])
        for _ in range(40):
            model.loop([(0x10_0000, 64, 8, Kind.LOAD)], lines_a_set * self.SETS)
        model.reset()
        for _ in range(10):
            model.loop([(0x10_0000, 64, 8, Kind.LOAD)], lines_a_set * self.SETS)
        return model.totals().levels[0].misses

    @pytest.mark.parametrize("kind", ["rrip", "adaptive"])
    def test_followers_take_the_better_side_whichever_it_is(self, kind: str) -> None:
        all_near, bimodal = Policy(kind), Policy(kind, near=1 / 32)  # type: ignore[arg-type]
        bad, good = self.misses(all_near, 6), self.misses(bimodal, 6)
        assert good < 0.7 * bad
        for first, second in ((1.0, 1 / 32), (1 / 32, 1.0)):
            duel = Policy(kind, near=first, rival=second, leaders=4)  # type: ignore[arg-type]
            assert good <= self.misses(duel, 6) < good + 0.25 * (bad - good)

    def test_more_leaders_than_sets_are_refused(self) -> None:
        with pytest.raises(BadInput, match="L1: 32 leaders a side are more than half of its 1 sets"):
            Board(4, POLICIES["drrip"])
