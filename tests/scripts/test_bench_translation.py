"""The benchmark of translation: its library is translated whole."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.compiled import needs

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench_translation.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_translation", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs("gcc")
@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_twice_the_functions_have_twice_the_blocks(script: ModuleType, tmp_path: Path, detail: str) -> None:
    blocks = []
    for functions in (10, 20):
        folder = tmp_path / str(functions)
        folder.mkdir()
        seconds, found = script.translated(script.compiled(functions, folder), detail)
        assert seconds > 0
        blocks.append(found)
    # each function has at least an entry, two ways on, a loop and a return, and is called once
    assert blocks[0] >= 10 * 6
    assert blocks[1] == pytest.approx(2 * blocks[0], rel=0.1)
