"""The page on counters has the tables that the event data give."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from counteroof.count.events import builtin

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "counter_tables.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("counter_tables", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_as_the_script_writes_it(script: ModuleType) -> None:
    text = script.PAGE.read_text()
    assert script.page(text) == text, "python scripts/counter_tables.py writes it anew"


def test_every_processor_has_a_row(script: ModuleType) -> None:
    rows = [
        line for line in script.tables().splitlines() if line.startswith("| ") and "| processor" not in line
    ]
    titles = {line.split("|")[1].strip() for line in rows}
    assert titles == {one.title for one in builtin().processors.values()}
    assert all(line.count("|") == 6 for line in rows)


def test_what_cannot_be_counted_is_said(script: ModuleType) -> None:
    tables = script.tables()
    assert "| Intel Haswell | no: no FP arithmetic event at all |" in tables
    assert "| AMD Zen 3 | together | both ways in one, by `amd_df` |" in tables
