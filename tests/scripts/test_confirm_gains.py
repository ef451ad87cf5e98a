"""The confirmation of gains: which kernels are pairs, and what counts as come true."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from counteroof import catalog
from counteroof.diagnose.base import Finding
from counteroof.results import Seconds
from tests import factories

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "confirm_gains.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("confirm_gains", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["confirm_gains"] = module
    spec.loader.exec_module(module)
    return module


def test_pairs_are_built_in_kernels_at_sizes_they_have(script: ModuleType) -> None:
    specs = {spec.name: spec for spec in catalog.kernels()}
    found = [one for one in script.pairs() if one.repaired in specs]
    assert len(found) >= 2
    for one in found:
        assert len(specs[one.faulty].cases()) == 1
        assert len(specs[one.repaired].cases()) == 1


def test_medians_are_compared_and_misses_come_first(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    good = script.Pair("slow", "fast", "rule", predicted=[2.0, 9.0, 2.1], measured=[2.0, 2.5, 2.4])
    bad = script.Pair("old", "new", "rule", predicted=[4.0], measured=[2.0])
    assert (good.holds, bad.holds) == (True, False)
    assert script.report([good, bad]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[:4] == ["MISS", "4.00", "2.00", "+100%"]
    assert out[2].split()[:3] == ["2.10", "2.40", "-12%"]
    assert out[-1] == "1 of 2 within 25%"
    assert script.report([good]) == 0


def test_a_turn_takes_the_gain_of_the_rule_and_the_ratio_of_the_medians(script: ModuleType) -> None:
    findings = (Finding("other", "cost", "", "", 9.0), Finding("rule", "cost", "", "", 1.5))
    slow = factories.result(findings=findings)
    fast = replace(factories.result(), seconds=Seconds((0.005), (0.005,)))
    pair = script.Pair("slow", "fast", "rule")
    pair.turn(slow, fast)
    assert (pair.predicted, pair.measured, pair.unnamed) == ([1.5], [2.5], 0)
    pair.turn(fast, fast)
    assert pair.unnamed == 1
    assert not pair.holds, "the rule did not speak in each turn"


def test_nothing_confirmed_is_no_success(script: ModuleType) -> None:
    assert script.report([]) == 1
    assert script.report([script.Pair("slow", "fast", "rule")]) == 1
