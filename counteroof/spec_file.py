"""TOML into claims: reads a spec's structure, goes on after every mistake, and reports them together."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import tomli

from .errors import Problem, SpecError
from .formula import Formula, Number
from .spec import (
    Access,
    Argument,
    ArrayArg,
    ArrayRef,
    Cache,
    Declared,
    Init,
    KernelSpec,
    LibrarySpec,
    NullArg,
    ResultArg,
    ScalarArg,
    SetupCall,
    StructArg,
    StructField,
)
from .spec_check import all_problems, duplicate_problems
from .spec_table import Table
from .wording import show

MAX_FILE_BYTES = 10_000_000

LIBRARY_KEYS = ("path", "sources", "cflags", "header", "ldflags")
KERNEL_KEYS = (
    *("name", "symbol", "signature", "params", "small", "args", "buffers", "setup", "declared", "precision"),
    *("threads", "cache", "time_limit", "env", "native", "reference", "rtol", "family", "title", "library"),
)
ARRAY_KEYS = ("dtype", "shape", "init", "access", "align")
_ARGUMENT = (
    "a number, a formula, { dtype, shape, init }, { array = name }, { null = true }, { result = name } "
    "or { struct = { field = { dtype, value } } }"
)


def load_file(path: Path, check_memory: bool) -> tuple[KernelSpec, ...]:
    """Return the kernels of a TOML file; see :func:`counteroof.load`."""
    problems: list[Problem] = []
    top = Table(read_toml(path), str(path), problems)
    top.refuse_unknown(("library", "kernel"))
    library = None
    if (table := top.table("library")) is not None:
        library = read_library(table, path.parent)
    kernels = []
    for number, entry in enumerate(top.tables("kernel", "[[kernel]] tables"), start=1):
        name = entry.data.get("name", entry.data.get("symbol"))
        entry.where = f"{path}: kernel {name if isinstance(name, str) and name.isprintable() else number}"
        kernels.append(read_kernel(entry, path.parent, library, check_memory))
    if not kernels and not problems:
        problems.append(Problem(str(path), "no [[kernel]] table", "at least one"))
    problems += duplicate_problems((kernel.name for kernel in kernels), str(path), "kernel")
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return tuple(kernels)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file, or raise SpecError saying why there are none."""

    def refuse(found: str, expected: str = "a TOML spec") -> SpecError:
        return SpecError([Problem(str(path), found, expected)])

    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise refuse(error.strerror or str(error), "a readable file") from None
    if len(data) > MAX_FILE_BYTES:
        raise refuse(f"more than {MAX_FILE_BYTES} bytes")
    try:
        return tomli.loads(data.decode())
    except UnicodeDecodeError as error:
        raise refuse(f"a byte that is not UTF-8 at offset {error.start}") from None
    except ValueError as error:  # TOMLDecodeError, or a number too long to convert
        raise refuse(f"a mistake in the TOML syntax: {error}") from None
    except RecursionError:
        raise refuse("tables nested too deeply") from None


def read_kernel(table: Table, folder: Path, library: LibrarySpec | None, check_memory: bool) -> KernelSpec:
    """Return the kernel of a ``[[kernel]]`` table; a harmless value stands for whatever was a mistake."""
    table.refuse_unknown(KERNEL_KEYS)
    before = len(table.problems)
    params = read_params(table)
    small = {name: values[0] for name, values in read_params(table, "small").items()}
    params_read = len(table.problems) == before

    name, symbol = table.text("name"), table.text("symbol")
    if "name" not in table.data:
        name = symbol
    if "name" not in table.data and "symbol" not in table.data:
        table.problem("name", "nothing", "the kernel's name, or the symbol of its function")
    name = "unnamed" if name is None else name
    own = table.table("library")
    if own is not None:
        library = read_library(own, folder)
    elif library is None and "library" not in table.data:
        table.problem("library", "nothing", "a [library] table with path or sources")
    arrays = _array_names(table)
    reference = table.text("reference")
    if reference is not None and ".py:" in reference:
        file, _, function = reference.rpartition(":")
        reference = f"{_existing(table, 'reference', file, folder)}:{function}"
    kernel = KernelSpec(
        name=name,
        library=library or LibrarySpec(path="unknown"),
        symbol=symbol or name,
        signature=table.text("signature"),
        params=params,
        small=small,
        args=_arguments(table, arrays, folder),
        buffers=tuple(arg for arg in _arguments(table, (), folder, "buffers") if isinstance(arg, ArrayArg)),
        setup=tuple(
            _setup(call, arrays, folder) for call in table.tables("setup", "[[kernel.setup]] tables")
        ),
        declared=_declared(table),
        precision=table.text("precision"),
        threads=table.whole("threads", 1),
        cache=cast(Cache, table.text("cache") or "warm"),
        time_limit=table.number("time_limit"),
        env=_env(table),
        native=table.texts("native"),
        reference=reference,
        rtol=table.number("rtol"),
        family=table.text("family"),
        title=table.text("title"),
    )
    table.problems += all_problems(kernel, table.where, values=params_read, check_memory=check_memory)
    return kernel


def read_library(table: Table, folder: Path) -> LibrarySpec:
    """Return the library of a ``[library]`` table, its files as absolute paths."""
    table.refuse_unknown(LIBRARY_KEYS)
    path, header = table.text("path"), table.text("header")
    sources = tuple(_existing(table, "sources", source, folder) for source in table.texts("sources"))
    if table.data.get("sources") == []:
        table.problem("sources", "an empty list", "at least one C file")
    return LibrarySpec(
        path=None if path is None else _library_path(table, path, folder),
        # A mistake in path or sources is noted; what stands for it must not look like a second one.
        sources=sources or (("unknown.c",) if "sources" in table.data else ()),
        cflags=table.texts("cflags"),
        header=None if header is None else _existing(table, "header", header, folder),
        ldflags=table.texts("ldflags"),
    )


def read_params(table: Table, key: str = "params") -> dict[str, tuple[Number, ...]]:
    """Return the values of each parameter."""
    params: dict[str, tuple[Number, ...]] = {}
    inner = table.table(key)
    expected = "a number" if key == "small" else "a number or a list of numbers"
    for name, value in (inner.data if inner else {}).items():
        values = value if isinstance(value, list) and key != "small" else [value]
        if inner and not all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
            inner.problem(name, show(value), expected)
            values = [1]
        params[name] = tuple(values)
    return params


def _existing(table: Table, key: str, text: str, folder: Path) -> str:
    """Return an absolute path, and note a problem if there is no such file."""
    path = _absolute(text, folder)
    if not path.is_file():
        table.problem(key, f"{show(text)}, but there is no file {path}", "an existing file")
    return str(path)


def _absolute(text: str, folder: Path) -> Path:
    return (folder / Path(text).expanduser()).absolute()


def _library_path(table: Table, text: str, folder: Path) -> str:
    """Return a library's path: beside the spec, in an installed Python package, or a name for the loader."""
    if text.startswith("python:"):
        package, _, rest = text.removeprefix("python:").partition("/")
        found = importlib.util.find_spec(package) if package.isidentifier() else None
        folders = list(found.submodule_search_locations or ()) if found else []
        if not folders:
            table.problem(
                "path", f"{show(text)}, but no Python package {show(package)}", "an installed package"
            )
            return text
        return _existing(table, "path", rest, Path(folders[0]))
    if "/" not in text and not (folder / text).exists() and ".so" in text:
        return text
    return _existing(table, "path", text, folder)


def _array_names(table: Table) -> tuple[str, ...]:
    """Return the names of the kernel's arrays, so that set-up calls and later arguments can refer to them."""
    names: list[str] = []
    for key in ("args", "buffers"):
        group = table.data.get(key)
        if isinstance(group, dict):
            names += [name for name, value in group.items() if isinstance(value, dict) and "dtype" in value]
    return tuple(names)


def _arguments(table: Table, arrays: Sequence[str], folder: Path, key: str = "args") -> tuple[Argument, ...]:
    inner = table.table(key)
    if inner is None:
        return ()
    return tuple(_argument(inner, name, arrays, folder, only_arrays=key == "buffers") for name in inner.data)


def _argument(
    table: Table, name: str, arrays: Sequence[str], folder: Path, *, only_arrays: bool = False
) -> Argument:
    value = table.data[name]
    if only_arrays and not isinstance(value, dict):
        table.problem(name, show(value), "{ dtype, shape, init }")
        return NullArg(name)
    match value:
        case bool():
            table.problem(name, show(value), _ARGUMENT)
        case int() | float():
            if isinstance(value, int) or math.isfinite(value):
                return ScalarArg(name, value)
            table.problem(name, show(value), "a finite number")
        case str() if value in arrays:
            return ArrayRef(name, value)
        case str():
            return ScalarArg(name, table.parse(name, value) or 0)
        case dict():
            inner = Table(value, f"{table.where}.{name}", table.problems)
            if only_arrays or "dtype" in value or "shape" in value:
                return _array(inner, name, folder)
            return _special(inner, name)
        case _:
            table.problem(name, show(value), _ARGUMENT)
    return NullArg(name)


def _special(table: Table, name: str) -> Argument:
    match dict(table.data):
        case {"null": True, **rest} if not rest:
            return NullArg(name)
        case {"array": str(array), **rest} if not rest:
            return ArrayRef(name, array)
        case {"result": str(result), **rest} if not rest:
            return ResultArg(name, result)
        case {"struct": dict(), **rest} if not rest:
            inner = table.table("struct")
            fields = inner.data if inner else {}
            return StructArg(name, tuple(_field(inner, field) for field in fields if inner))
        case other:
            table.problem("", show(other), _ARGUMENT)
    return NullArg(name)


def _field(table: Table, name: str) -> StructField:
    inner = table.table(name)
    if inner is None:
        return StructField(name, "i32", 0)
    inner.refuse_unknown(("dtype", "value"))
    for key in ("dtype", "value"):
        if key not in inner.data:
            inner.problem("", f"no {key}", "{ dtype, value }")
    return StructField(name, inner.text("dtype") or "i32", _constant(inner, "value") or 0)


def _constant(table: Table, key: str) -> Formula | Number | None:
    """Return a number as it is, and a text as a formula."""
    value: Any = table.take(key, (str, int, float), "a formula or a number")
    if isinstance(value, str):
        return table.parse(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        table.problem(key, show(value), "a finite number")
        return None
    number: Number | None = value
    return number


def _array(table: Table, name: str, folder: Path) -> ArrayArg:
    table.refuse_unknown(ARRAY_KEYS)
    for key in ("dtype", "shape"):
        if key not in table.data:
            table.problem("", f"no {key}", "{ dtype, shape, init }")
    expected = "a formula, a number or a list of them"
    extents = table.data.get("shape", 1)
    shape = []
    for extent in extents if isinstance(extents, list) else [extents]:
        if isinstance(extent, str | int) and not isinstance(extent, bool):
            shape.append(table.parse("shape", extent) or Formula("1"))
        else:
            table.problem("shape", show(extents), expected)
            shape.append(Formula("1"))
    return ArrayArg(
        name,
        table.text("dtype") or "u8",
        tuple(shape),
        _init(table, folder),
        cast(Access | None, table.text("access")),
        table.whole("align", 64),
    )


def _init(table: Table, folder: Path) -> Init:
    value = table.data.get("init", "zeros")
    if isinstance(value, str):
        return Init(value)
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        table.problem("init", show(value), "a kind such as 'random', or { kind = 'random', seed = 1 }")
        return Init("zeros")
    inner = Table(value, f"{table.where}.init", table.problems)
    options: dict[str, Formula | Number | str] = {}
    for key in value:
        if key == "path":
            path = inner.text(key)
            options[key] = "unknown" if path is None else _existing(inner, key, path, folder)
        elif key != "kind":
            constant = _constant(inner, key)
            options[key] = 1 if constant is None else constant
    return Init(value["kind"], options)


def _setup(table: Table, arrays: Sequence[str], folder: Path) -> SetupCall:
    table.refuse_unknown(("symbol", "signature", "args", "result"))
    symbol = table.text("symbol")
    if "symbol" not in table.data:
        table.problem("symbol", "nothing", "the name of an exported function")
    return SetupCall(
        symbol or "unnamed",
        _arguments(table, arrays, folder),
        table.text("signature"),
        table.text("result"),
    )


def _declared(table: Table) -> Declared:
    inner = table.table("declared")
    if inner is None:
        return Declared()
    inner.refuse_unknown(("flops", "bytes", "source"))
    return Declared(inner.formula("flops"), inner.formula("bytes"), inner.text("source") or "")


def _env(table: Table) -> dict[str, str]:
    inner = table.table("env")
    return {} if inner is None else {name: inner.text(name) or "" for name in inner.data}
