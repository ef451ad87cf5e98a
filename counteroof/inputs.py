"""What a user named on the command line, as kernel cases: specs, libraries, C files, patterns and sizes."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .errors import BadInput, Problem, SpecError
from .formula import Number
from .spec import KernelCase, KernelSpec, Size, load
from .spec_check import duplicate_problems
from .wording import suggest

SPEC_SUFFIXES = (".toml", ".py")
SHOWN = 5
"""More functions than this are not named one by one."""

_ELF_MAGIC = b"\x7fELF"


@dataclass(frozen=True)
class Skipped:
    """A function of a library that cannot be run without a spec, and why."""

    library: str
    symbol: str
    reason: str


@dataclass(frozen=True)
class Found:
    """The kernels of all inputs, the functions passed over, what was guessed about kernels (by name)."""

    kernels: tuple[KernelSpec, ...]
    skipped: tuple[Skipped, ...] = ()
    guesses: Mapping[str, str] = field(default_factory=dict)


def located(text: str) -> Path:
    """Return the path of a file as it was named; a bare name of a library that is no file here is the dynamic
    loader's to find.

    Raises
    ------
    LibraryError
        If the loader knows no such library.
    """
    from .loader import locate

    if "/" in text or ".so" not in text or Path(text).exists():
        return Path(text)
    return locate(text)


def kernels_from(paths: Sequence[Path], *, header: Path | None = None) -> Found:
    """Return the kernels of specs, shared libraries and C files.

    ``header`` declares the functions of libraries that have no debug information.

    Raises
    ------
    BadInput
        If a file is none of these or has mistakes; as SpecError with the mistakes of all specs together.
    """
    kernels: list[KernelSpec] = []
    skipped: list[Skipped] = []
    guesses: dict[str, str] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            if _is_spec(path):
                kernels += load(path, check_memory=False)
            else:
                found = _from_code(path, header)
                kernels += found.kernels
                skipped += found.skipped
                guesses |= found.guesses
        except SpecError as error:
            problems += error.problems
    names = ", ".join(map(str, paths))
    problems += duplicate_problems((kernel.name for kernel in kernels), names, "kernel")
    if problems:
        raise SpecError(problems)
    return Found(tuple(kernels), tuple(skipped), guesses)


def skipped_in_words(skipped: Sequence[Skipped]) -> list[str]:
    """Return one line for each library and reason, naming the first few functions."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in skipped:
        groups.setdefault((one.library, one.reason), []).append(one.symbol)
    lines = []
    for (library, reason), symbols in groups.items():
        more = f" and {len(symbols) - SHOWN} others" if len(symbols) > SHOWN else ""
        lines.append(f"skipped {', '.join(symbols[:SHOWN])}{more} of {library}: {reason}")
    return lines


def select(kernels: Sequence[KernelSpec], patterns: Sequence[str]) -> tuple[KernelSpec, ...]:
    """Return the kernels whose names match one of the patterns (all of them if there is no pattern).

    Raises
    ------
    BadInput
        If a pattern matches no kernel.
    """
    names = [kernel.name for kernel in kernels]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            known = ", ".join(names[:40]) + (", ..." if len(names) > 40 else "")
            raise BadInput(
                f"no kernel matches {pattern!r}{suggest(pattern, names)}; the kernels are: {known}"
            )
    return tuple(
        kernel
        for kernel in kernels
        if not patterns or any(fnmatch.fnmatchcase(kernel.name, pattern) for pattern in patterns)
    )


def cases_of(
    kernels: Sequence[KernelSpec],
    size: Size = "default",
    overrides: Mapping[str, Sequence[Number]] | None = None,
    threads: int | None = None,
) -> tuple[KernelCase, ...]:
    """Return the cases of all kernels.

    Parameters
    ----------
    kernels
        The kernels to run.
    size
        ``default`` or ``small``.
    overrides
        Values of parameters; each goes to the kernels that have the parameter, and one at least must.
    threads
        Replaces the number of threads of every kernel.

    Raises
    ------
    BadInput
        If a parameter is unknown to all kernels; as SpecError with all sizes that are impossible.
    """
    overrides = overrides or {}
    known = sorted({name for kernel in kernels for name in kernel.params})
    for name in overrides:
        if name not in known:
            parameters = ", ".join(known) or "none"
            raise BadInput(
                f"no kernel has a parameter {name!r}{suggest(name, known)}; there are: {parameters}"
            )
    cases: list[KernelCase] = []
    problems: list[Problem] = []
    for kernel in kernels:
        if threads is not None:
            kernel = replace(kernel, threads=threads)
        own = {name: values for name, values in overrides.items() if name in kernel.params}
        try:
            cases += kernel.cases(size, own)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)
    return tuple(cases)


def parse_setting(text: str) -> tuple[str, tuple[Number, ...]]:
    """Return name and values of a setting such as ``n=1000`` or, for a sweep, ``n=1000,2000``.

    Raises
    ------
    BadInput
        If it has another form.
    """
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        raise BadInput(f"found {text!r}; expected a parameter and its value, such as n=1000 or n=1000,2000")
    return name.strip(), tuple(_number(value, text) for value in values.split(","))


def _number(text: str, setting: str) -> Number:
    for kind in (int, float):
        try:
            value = kind(text.strip())
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    raise BadInput(f"found {text!r} in {setting!r}; expected a number such as 1000, 1_000 or 2.5")


def _is_spec(path: Path) -> bool:
    """Return whether a file is a spec; if not it is a library or a C file, or BadInput is raised."""
    from .build import C_SUFFIXES, CXX_SUFFIXES

    if not path.exists():
        raise BadInput(
            f"{path}: there is no such file; expected a spec (.toml), a shared library or a C file"
        )
    if path.is_dir():
        raise BadInput(f"{path} is a folder; expected a spec (.toml), a shared library or a C file")
    if path.suffix in SPEC_SUFFIXES:
        return True
    if path.suffix in C_SUFFIXES + CXX_SUFFIXES or ".so" in path.name:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if start != _ELF_MAGIC:
        raise BadInput(
            f"{path} is neither a spec (.toml, .py), nor a shared library (ELF), nor a C file (.c)"
        )
    return False


def _from_code(path: Path, header: Path | None) -> Found:
    """Return the kernels that can be guessed from a library's or C file's signatures."""
    from .assume import assumptions
    from .init_spec import specs_from_library

    kernels, skipped = specs_from_library(path, header=header)
    passed_over = tuple(Skipped(str(path), symbol, reason) for symbol, reason in skipped)
    if not kernels:
        reasons = (
            "; ".join(f"{one.symbol}: {one.reason}" for one in passed_over[:SHOWN])
            or "it exports no function"
        )
        more = f" and {len(passed_over) - SHOWN} others" if len(passed_over) > SHOWN else ""
        raise BadInput(
            f"{path}: no function can be run without a spec ({reasons}{more}); give --header FILE with its "
            f"declarations, or write a spec: counteroof init {path}"
        )
    words = {kernel.name: "guessed: " + ", ".join(assumptions(kernel)) for kernel in kernels}
    return Found(kernels, passed_over, words)
