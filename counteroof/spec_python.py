"""Claims made in Python: the decorator on a reference function, and files of such functions."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .errors import Problem, SpecError
from .formula import Formula
from .spec import KernelSpec
from .spec_check import duplicate_problems
from .spec_file import read_kernel
from .spec_table import Table
from .wording import show

Function = TypeVar("Function", bound=Callable[..., Any])

_FILE_MODULE = "_counteroof_file_"
"""Modules loaded by path have this before their name: they cannot be imported by it."""


def from_reference(function: Function, table: Mapping[str, Any]) -> Function:
    """Give a reference function its spec; see :func:`counteroof.kernel`."""
    source = inspect.getsourcefile(function)
    problems: list[Problem] = []
    name = table.get("name", function.__name__)
    where = f"{source or function.__module__}: kernel {name if isinstance(name, str) else function.__name__}"
    if "<locals>" in function.__qualname__ or source is None:
        found = f"function {function.__qualname__} inside another or without a file"
        problems.append(
            Problem(where, found, "a function at the top of a file, where a worker process finds it")
        )
    if "reference" in table:
        problems.append(
            Problem(f"{where}.reference", show(table["reference"]), "none: the function is the reference")
        )
    by_path = function.__module__ == "__main__" or function.__module__.startswith(_FILE_MODULE)
    place = str(Path(source).absolute()) if by_path and source else function.__module__
    entry = Table(
        {"name": function.__name__, **_plain(table), "reference": f"{place}:{function.__qualname__}"},
        where,
        problems,
    )
    folder = Path(source).absolute().parent if source else Path.cwd()
    kernel = read_kernel(entry, folder, None, check_memory=False)
    if problems:
        raise SpecError(problems)
    function.kernel_spec = kernel  # type: ignore[attr-defined]
    return function


def load_python(path: Path) -> tuple[KernelSpec, ...]:
    """Run a Python file and return the kernels it made, in its order."""
    module = _load_file(path)
    found = (getattr(value, "kernel_spec", value) for value in vars(module).values())
    kernels = list({id(spec): spec for spec in found if isinstance(spec, KernelSpec)}.values())
    problems = duplicate_problems((kernel.name for kernel in kernels), str(path), "kernel")
    if not kernels:
        problems = [
            Problem(str(path), "no kernel", "functions with @counteroof.kernel(...) or KernelSpec objects")
        ]
    if problems:
        raise SpecError(problems)
    return tuple(kernels)


def _load_file(path: Path) -> ModuleType:
    """Return the module of a Python file, run once a process."""
    path = path.absolute()
    name = _FILE_MODULE + str(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SpecError([Problem(str(path), "no such file", "a Python file")])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # as for a script: the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, SpecError):
            raise
        raise SpecError(
            [Problem(_place(path, error), f"{type(error).__name__}: {error}", "a file that runs")]
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _place(path: Path, error: Exception) -> str:
    """Return the file and the line that raised."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    line = line or (lines[-1] if lines else None)
    return f"{path}, line {line}" if line else str(path)


def _plain(value: Any) -> Any:
    """Return tuples as lists, mappings as dicts and formulas as texts, as TOML would have them."""
    if isinstance(value, Formula):
        return value.text
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
