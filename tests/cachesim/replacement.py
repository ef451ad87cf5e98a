"""Replacement policies that are easy to believe, of one level each: the yardstick for those in C.

A set is a list of entries. LRU and adaptive keep it in order, the most recent first, and no longer than
needed; with the others a line keeps its way, and ``None`` is an empty one. A policy is told of every line
that is found, taken in or removed, and of every miss; ``begin`` goes with emptying all sets.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from counteroof.machine.model import Policy

AGE_OF_EMPTY = 3
ONE = 1 << 16


class Generator:
    """The generator of ``cs_draw``."""

    def __init__(self, seed: int) -> None:
        self.seed = self.state = seed

    def draw(self) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 32


class Duel:
    """How a line is taken in: near by a share, or by that of two shares whose sets missed less."""

    def __init__(self, policy: Policy, sets: int, generator: Generator) -> None:
        self.policy, self.generator = policy, generator
        self.every = sets // policy.leaders if policy.leaders else 0
        self.ahead = 0

    def begin(self) -> None:
        self.ahead = 0
        self.generator.state = self.generator.seed

    def missed(self, number: int) -> None:
        if self.every and number % self.every == 0:
            self.ahead = min(self.ahead + 1, 1024)
        if self.every and number % self.every == self.every // 2:
            self.ahead = max(self.ahead - 1, -1024)

    def near(self, number: int) -> bool:
        share = self.policy.near
        if self.every:
            place = number % self.every
            if place == self.every // 2 or (place and self.ahead > 0):
                share = self.policy.rival
        return share == 1 or self.generator.draw() >> 16 < round(share * ONE)


class InOrder:
    """LRU and adaptive."""

    def __init__(self, policy: Policy, ways: int, sets: int, generator: Generator) -> None:
        self.ways, self.duel = ways, Duel(policy, sets, generator)
        self.missed = self.duel.missed

    def begin(self) -> None:
        self.duel.begin()

    def used(self, number: int, of_set: list[Any], entry: Any) -> None:
        of_set.remove(entry)
        of_set.insert(0, entry)

    def take_in(self, number: int, of_set: list[Any], entry: Any) -> Any:
        victim = of_set.pop() if len(of_set) == self.ways else None
        of_set.insert(0 if self.duel.near(number) else len(of_set), entry)
        return victim

    def remove(self, number: int, of_set: list[Any], entry: Any) -> None:
        of_set.remove(entry)


class InPlace:
    """What those have in common whose lines keep their way; an empty way is taken first."""

    def __init__(self, policy: Policy, ways: int, sets: int, generator: Generator) -> None:
        self.policy, self.ways, self.generator = policy, ways, generator

    def begin(self) -> None:
        self.generator.state = self.generator.seed

    def missed(self, number: int) -> None: ...

    def used(self, number: int, of_set: list[Any], entry: Any) -> None:
        self.use(number, of_set.index(entry))

    def take_in(self, number: int, of_set: list[Any], entry: Any) -> Any:
        if not of_set:
            of_set += [None] * self.ways
        way = of_set.index(None) if None in of_set else self.choose(number)
        victim, of_set[way] = of_set[way], entry
        self.fill(number, way)
        return victim

    def remove(self, number: int, of_set: list[Any], entry: Any) -> None:
        way = of_set.index(entry)
        of_set[way] = None
        self.emptied(number, way)

    def use(self, number: int, way: int) -> None: ...

    def choose(self, number: int) -> int:
        raise NotImplementedError

    def fill(self, number: int, way: int) -> None:
        self.use(number, way)

    def emptied(self, number: int, way: int) -> None: ...


class AtRandom(InPlace):
    def choose(self, number: int) -> int:
        return self.generator.draw() * self.ways >> 32


class Tree(InPlace):
    """A bit for each pair of halves, by the range of ways they make up: whether the upper half is older."""

    def __init__(self, policy: Policy, ways: int, sets: int, generator: Generator) -> None:
        super().__init__(policy, ways, sets, generator)
        self.upper: dict[tuple[int, int, int], bool] = defaultdict(bool)

    def begin(self) -> None:
        self.upper.clear()

    def use(self, number: int, way: int) -> None:
        first, end = 0, self.ways
        while end - first > 1:
            middle = (first + end) // 2
            self.upper[number, first, end] = way < middle
            first, end = (first, middle) if way < middle else (middle, end)

    def choose(self, number: int) -> int:
        first, end = 0, self.ways
        while end - first > 1:
            middle = (first + end) // 2
            first, end = (middle, end) if self.upper[number, first, end] else (first, middle)
        return first


class Ages(InPlace):
    """RRIP."""

    def __init__(self, policy: Policy, ways: int, sets: int, generator: Generator) -> None:
        super().__init__(policy, ways, sets, generator)
        self.duel = Duel(policy, sets, generator)
        self.ages: dict[int, list[int]] = defaultdict(lambda: [AGE_OF_EMPTY] * ways)

    def begin(self) -> None:
        self.duel.begin()
        self.ages.clear()

    def missed(self, number: int) -> None:
        self.duel.missed(number)

    def use(self, number: int, way: int) -> None:
        ages = self.ages[number]
        ages[way] = self.policy.hit_age if ages[way] >= 2 else 0
        self.grow(ages, way)

    def choose(self, number: int) -> int:
        ages = self.ages[number]
        if self.policy.aging == "when needed":
            self.add(ages, range(self.ways), 3 - max(ages))
        return ages.index(3) if 3 in ages else 0

    def fill(self, number: int, way: int) -> None:
        near = self.duel.near(number)
        self.ages[number][way] = self.policy.near_age if near else self.policy.far_age
        self.grow(self.ages[number], way)

    def emptied(self, number: int, way: int) -> None:
        self.ages[number][way] = AGE_OF_EMPTY

    def grow(self, ages: list[int], used: int) -> None:
        others = [way for way in range(self.ways) if way != used]
        if self.policy.aging == "at once":
            self.add(ages, range(self.ways), 3 - max(ages))
        elif self.policy.aging == "of others" and others:
            self.add(ages, others, 3 - max(ages[way] for way in others))
        elif self.policy.aging == "by one" and 3 not in ages:
            self.add(ages, range(self.ways), 1)

    @staticmethod
    def add(ages: list[int], ways: Any, years: int) -> None:
        for way in ways:
            ages[way] += years


KINDS = {"lru": InOrder, "adaptive": InOrder, "random": AtRandom, "plru": Tree, "rrip": Ages}


def made(policy: Policy, ways: int, sets: int, seed: int) -> Any:
    """Return the reference of a policy for one level."""
    return KINDS[policy.kind](policy, ways, sets, Generator(seed))
