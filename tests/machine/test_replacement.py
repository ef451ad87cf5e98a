"""Replacement policies by name."""

from __future__ import annotations

import pytest

from counteroof.errors import Problem
from counteroof.machine import replacement
from counteroof.machine.model import Policy
from counteroof.machine.replacement import POLICIES


def read(data: object) -> Policy | None:
    problems: list[Problem] = []
    found = replacement.read(data, "here", problems)
    assert not problems
    return found


def mistake(data: object) -> str:
    problems: list[Problem] = []
    assert replacement.read(data, "here", problems) is None
    (problem,) = problems
    return f"{problem.where}: {problem.found}; {problem.expected}"


@pytest.mark.parametrize("name", POLICIES)
def test_a_name_is_a_policy_and_its_text(name: str) -> None:
    assert read(name) == read({"name": name}) == POLICIES[name]
    assert replacement.text(POLICIES[name]) == name


def test_a_table_changes_what_it_names() -> None:
    policy = read({"name": "qlru", "near": 0.35, "aging": "by one"})
    assert policy == Policy("rrip", near=0.35, near_age=1, hit_age=1, aging="by one")
    assert policy is not None
    assert replacement.text(policy) == "qlru near=0.35 aging=by one"


def test_what_nobody_knows_is_named() -> None:
    assert mistake("fifo").startswith("here: 'fifo'; one of lru, plru, random, ")
    assert mistake(3).startswith("here: 3; a name such as")
    assert mistake({"near": 0.5}).startswith("here: an object; a name such as")
    assert mistake({"name": "qlru", "far": 1}).startswith("here.far: a key nobody knows")
    assert "near 2 and rival 1 are shares of 0 to 1" in mistake({"name": "qlru", "near": 2})
    assert "hit_age 4; ages are 0 to 3" in mistake({"name": "qlru", "hit_age": 4})
    assert "-1 leaders" in mistake({"name": "drrip", "leaders": -1})
    assert mistake({"name": "qlru", "aging": "never"}).startswith("here.aging: ")
