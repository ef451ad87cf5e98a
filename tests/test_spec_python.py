"""Claims made in Python say the same as those in TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import counteroof
from counteroof.errors import SpecError
from counteroof.formula import Formula
from counteroof.run.check import load_reference

HERE = Path(__file__)


@counteroof.kernel(
    library={"path": "libm.so.6"},
    symbol="sqrt",
    params={"n": (10, 20)},
    args={"x": 2.0, "a": {"dtype": "f64", "shape": "n"}},
    declared={"flops": Formula("2*n")},
)
def root(arrays: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    return {"return": 2.0**0.5}


def test_the_decorator_keeps_the_function_and_adds_the_spec() -> None:
    assert root({}, {})["return"] == 2.0**0.5
    spec = root.kernel_spec  # type: ignore[attr-defined]
    assert (spec.name, spec.symbol, spec.library.path) == ("root", "sqrt", "libm.so.6")
    assert [case.label for case in spec.cases()] == ["root[n=10]", "root[n=20]"]
    assert spec.reference == f"{__name__}:root"
    assert load_reference(spec.reference) is root


def test_the_decorator_reports_all_mistakes_like_the_file_reader() -> None:
    with pytest.raises(SpecError) as error:
        counteroof.kernel(parms={"n": 1}, args={"a": {"dtype": "f65", "shape": "n"}})(root)
    found = "\n".join(map(str, error.value.problems))
    assert f"{HERE}: kernel root: found unknown key 'parms' (did you mean 'params'?)" in found
    assert "kernel root.library: found nothing" in found
    assert "args.a.dtype: found 'f65'" in found
    assert "unknown parameter 'n'" in found


def test_a_function_no_other_process_can_find_is_refused() -> None:
    with pytest.raises(SpecError, match="at the top of a file"):

        @counteroof.kernel(library={"path": "libm.so.6"})
        def inner(arrays: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
            return {}


PYTHON_SPEC = """
import counteroof
from neighbour import LIBRARY

@counteroof.kernel(library=LIBRARY, args={"x": 4.0})
def sqrt(arrays, params):
    return {"return": 2.0}

again = sqrt
"""


def test_a_python_file_is_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "neighbour.py").write_text("LIBRARY = {'path': 'libm.so.6'}\n")
    path = tmp_path / "kernels.py"
    path.write_text(PYTHON_SPEC)
    before = list(sys.path)
    (spec,) = counteroof.load(path)
    assert spec.name == "sqrt"
    assert spec.reference == f"{path}:sqrt"
    assert sys.path == before
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_reference(spec.reference)({}, {}) == {"return": 2.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = 1 / 0\n", r"line 2: found ZeroDivisionError: division by zero"),
        ("x = 1\nif\n", r"line 2: found SyntaxError"),
        ("x = 1\n", r"found no kernel"),
    ],
)
def test_a_python_file_that_makes_no_kernels_is_reported(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(SpecError, match=message):
        counteroof.load(path)


def test_a_missing_python_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        counteroof.load(tmp_path / "missing.py")
