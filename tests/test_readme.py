"""The README's promises that can be checked: its spec loads, its commands exist, its files are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import counteroof
from counteroof.api import Run
from counteroof.commands import cli
from counteroof.pytest_plugin import Gate
from counteroof.spec import load
from tests import factories
from tests.compiled import needs, shared

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@needs("gcc")
def test_the_spec_loads_as_it_stands(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    shared(tmp_path, "void triad(void) {}", name="libfoo.so")
    (tmp_path / "spec.toml").write_text(text)
    (kernel,) = load(tmp_path / "spec.toml")
    (case,) = kernel.cases()
    assert (case.declared_flops, case.declared_bytes) == (40_000_000, 480_000_000)


def test_every_command_it_names_exists() -> None:
    named = set(re.findall(r"^    counteroof ([a-z]+)", README, re.MULTILINE))
    assert {"run", "init", "doctor"} <= named
    for name in named:
        assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0, name


def test_the_first_two_lines_are_the_two_commands() -> None:
    scripts = [line.split()[0] for line in README.splitlines()[:2]]
    assert scripts == ["scripts/demo.sh", "scripts/test.sh"]
    for path in (*scripts, *re.findall(r"\]\((docs/[^)]+)\)", README)):
        assert (ROOT / path).is_file(), path


def test_its_python_runs_on_results_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session, suite = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    by_hand = Run(factories.results(factories.result()))
    asked = []
    monkeypatch.setattr(counteroof, "run", lambda path: asked.append(path) or by_hand, raising=False)
    monkeypatch.chdir(tmp_path)
    by_hand.save(tmp_path / "after" / "results.json")
    exec(session, {})
    assert asked == ["kernels.toml"]
    assert (tmp_path / "roofline.pdf").stat().st_size > 0
    (name,) = re.findall(r"def (test_\w+)\(counteroof\)", suite)
    gate = Gate(tmp_path, update=False, written=[])
    monkeypatch.setattr(Gate, "run", lambda self, *inputs, **options: by_hand)
    by_hand.save(tmp_path / "baseline.json")
    made: dict[str, Any] = {}
    exec(suite, made)
    made[name](gate)
