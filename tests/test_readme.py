"""The README's promises that can be checked: its spec loads, its commands exist, its files are there."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from counteroof.commands import cli
from counteroof.spec import load
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
