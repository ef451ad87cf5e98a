"""Compiles small C and C++ libraries for the tests, outside the package's own build code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"needs {name}"))
    for name in ("gcc", "clang")
]
"""Parameters for tests that must hold with every compiler that is there."""


def needs(*tools: str) -> pytest.MarkDecorator:
    """Skip a test where one of these programs is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def shared(folder: Path, code: str, *flags: str, name: str = "libtest.so", compiler: str = "gcc") -> Path:
    """Compile C (or C++, with g++) code into a shared library and return its path."""
    source = folder / (Path(name).stem + (".cpp" if "++" in compiler else ".c"))
    source.write_text(code)
    return link(folder, [compiler, "-shared", "-fPIC", "-O1", "-w", str(source), *flags], name)


def link(folder: Path, command: list[str], name: str) -> Path:
    """Run a compiler or linker command that writes ``name`` in a folder, and return its path."""
    subprocess.run([*command, "-o", name], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / name
