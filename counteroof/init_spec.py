"""Specs from a library alone: kernels to run at once, and a draft for its author to complete."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .assume import NotGuessable, guess_kernel
from .build import C_SUFFIXES, CXX_SUFFIXES, compile_sources
from .errors import LibraryError
from .formula import Formula
from .library import Library, open_library
from .names import printable
from .prototype import header_signatures
from .signature import Signature
from .spec import Argument, ArrayArg, KernelSpec, LibrarySpec, ScalarArg

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,99}")
LISTED = 100
"""Functions named in a draft although no arguments could be made for them."""

Skipped = tuple[tuple[str, str], ...]
"""Functions left out, each with the reason."""


@dataclass(frozen=True)
class _Guessed:
    """A library, the claim that names it, what was guessed, and what was not with the reason."""

    library: Library
    claim: LibrarySpec
    signatures: dict[str, Signature]
    kernels: tuple[KernelSpec, ...]
    skipped: Skipped
    unknown: str | None
    """Why no function's arguments are known at all, or ``None``."""


def specs_from_library(
    path: str | os.PathLike[str], *, header: str | os.PathLike[str] | None = None
) -> tuple[tuple[KernelSpec, ...], Skipped]:
    """Return a kernel for each exported function whose arguments can be guessed, and the functions left out.

    :func:`counteroof.assume.assumptions` says in words what was guessed about each.

    Parameters
    ----------
    path
        A shared library, or a C or C++ file, which is compiled with the default flags.
    header
        Where signatures come from, if not from debug information.

    Raises
    ------
    LibraryError
        If the library cannot be read, or nothing says what its functions take.
    """
    guessed = _guess(path, header)
    if guessed.unknown:
        raise LibraryError(
            f"{guessed.library.path}: the arguments of its functions are not known: {guessed.unknown}; "
            f"compile it with -g, or write a spec, which this begins: counteroof init {os.fspath(path)}"
        )
    return guessed.kernels, guessed.skipped


def _guess(path: str | os.PathLike[str], header: str | os.PathLike[str] | None) -> _Guessed:
    library, claim = _opened(path, header)
    signatures, skipped = _signatures(library, header)
    kernels: list[KernelSpec] = []
    readable = library.demangled()
    taken: set[str] = set()
    for symbol, signature in signatures.items():
        try:
            kernel = guess_kernel(signature, symbol, claim, _kernel_name(readable[symbol], symbol, taken))
        except NotGuessable as reason:
            skipped.append((readable[symbol], str(reason)))
        else:
            kernels.append(kernel)
            taken.add(kernel.name)
    unknown = None
    if not signatures:
        unknown = library.debug_reason or "debug information describes none of them"
        unknown = f"the header {header} declares none of them, and {unknown}" if header else unknown
        unknown = unknown if library.functions else "it exports no functions"
    return _Guessed(library, claim, signatures, tuple(kernels), tuple(sorted(skipped)), unknown)


def _kernel_name(readable: str, symbol: str, taken: set[str]) -> str:
    """Return a name that a spec allows and no other kernel has, readable for a C++ function."""
    plain = readable.partition("(")[0].rpartition(" ")[2]
    for name in (plain, plain.partition("<")[0], symbol):
        if _NAME.fullmatch(name) and name not in taken:
            return name
    return f"{symbol[:90]}.{len(taken)}"


def _opened(
    path: str | os.PathLike[str], header: str | os.PathLike[str] | None
) -> tuple[Library, LibrarySpec]:
    head = None if header is None else str(Path(header).absolute())
    if Path(path).suffix in C_SUFFIXES + CXX_SUFFIXES:
        claim = LibrarySpec(sources=(str(Path(path).absolute()),), header=head)
        return open_library(compile_sources(claim).path), claim
    library = open_library(path)
    return library, LibrarySpec(path=str(library.path), header=head)


def _signatures(
    library: Library, header: str | os.PathLike[str] | None
) -> tuple[dict[str, Signature], list[tuple[str, str]]]:
    """Return the signatures of the exported functions, and those that have none with the reason."""
    declared = {} if header is None else header_signatures(header)
    found, skipped = {}, []
    for export in library.exports:
        if not export.default:
            skipped.append((export.reference, "is an older version"))
        elif signature := declared.get(export.name) or library.signature(export.name):
            found[export.name] = signature
        else:
            skipped.append((export.name, f"is not described: {library.no_signature(export.name)}"))
    return found, skipped


def draft_spec(
    library: Library | str | os.PathLike[str], *, header: str | os.PathLike[str] | None = None
) -> str:
    """Return a commented TOML spec of a library (or C file) for its author to complete.

    Functions whose arguments can be guessed have an entry that can be run as it is; the others are named in
    comments with the reason, and with the form of an entry.
    """
    guessed = _guess(library.path if isinstance(library, Library) else library, header)
    lines = [*_head(guessed)]
    for kernel in guessed.kernels:
        lines += ["", *_entry(kernel, guessed.signatures[kernel.symbol])]
    lines += ["", *_left_out(guessed)]
    return "\n".join(lines).rstrip() + "\n"


def _head(guessed: _Guessed) -> Iterator[str]:
    claim = guessed.claim
    name = Path(claim.path or claim.sources[0]).name
    yield f"# Kernels of {printable(name)}, drafted by: counteroof init"
    yield "# What the functions take was read; how large it is and what it holds was guessed. Correct it, add"
    yield "# what each kernel claims to do (declared), and run it: counteroof run THIS_FILE"
    if guessed.unknown:
        yield f"# What they take is not known: {printable(guessed.unknown)}."
    yield ""
    yield "[library]"
    if claim.path:
        yield f"path = {_text(claim.path)}"
    else:
        yield f"sources = [{', '.join(_text(source) for source in claim.sources)}]"
        yield '# cflags = ["-O3", "-march=native", "-g"]   # the default'
    if claim.header:
        yield f"header = {_text(claim.header)}"
    elif guessed.unknown:
        yield '# header = "foo.h"   # or give each kernel its signature, or compile the library with -g'


def _entry(kernel: KernelSpec, signature: Signature) -> Iterator[str]:
    yield f"# {printable(str(signature))}"
    yield "[[kernel]]"
    yield f"name = {_text(kernel.name)}"
    if kernel.symbol != kernel.name:
        yield f"symbol = {_text(kernel.symbol)}"
    for key, values in (("params", {k: v[0] for k, v in kernel.params.items()}), ("small", kernel.small)):
        yield f"{key} = {{ {', '.join(f'{name} = {value:_}' for name, value in values.items())} }}"
    for arg in kernel.args:
        guess = isinstance(arg, ScalarArg) and not isinstance(arg.value, Formula)
        yield f"args.{arg.name} = {_argument(arg)}" + ("   # a guess" if guess else "")
    if kernel.precision:
        yield f"precision = {_text(kernel.precision)}"
    size = next(iter(kernel.params))
    yield f'# declared = {{ flops = "2*{size}", bytes = "24*{size}", source = "who says so" }}'


def _argument(arg: Argument) -> str:
    match arg:
        case ArrayArg():
            extents = [
                _text(extent.text) if not extent.text.isdigit() else extent.text for extent in arg.shape
            ]
            shape = extents[0] if len(extents) == 1 else f"[{', '.join(extents)}]"
            seed = arg.init.options.get("seed", 0)
            init = f'{{ kind = "{arg.init.kind}", seed = {seed} }}' if seed else _text(arg.init.kind)
            access = f", access = {_text(arg.access)}" if arg.access else ""
            return f"{{ dtype = {_text(arg.dtype)}, shape = {shape}, init = {init}{access} }}"
        case ScalarArg(value=Formula() as value):
            return _text(value.text)
        case ScalarArg(value=value):
            return str(value)
        case _:
            raise TypeError(f"not a guessed argument: {arg}")


def _left_out(guessed: _Guessed) -> Iterator[str]:
    skipped = guessed.skipped
    if not skipped:
        return
    yield f"# {'Its functions' if guessed.unknown else 'Left out'} ({len(skipped)}):"
    for name, reason in skipped[:LISTED]:
        yield f"#   {printable(name)}" + ("" if guessed.unknown else f" {printable(reason)}")
    if len(skipped) > LISTED:
        yield f"#   ... and {len(skipped) - LISTED} more"
    yield "# An entry looks like this:"
    yield "#"
    yield "# [[kernel]]"
    yield '# name = "axpy"'
    yield '# signature = "void axpy(size_t n, double a, const double *x, double *y)"'
    yield "# params = { n = 4_000_000 }"
    yield '# args.n = "n"'
    yield "# args.a = 1.0"
    yield '# args.x = { dtype = "f64", shape = "n", init = "random", access = "read" }'
    yield '# args.y = { dtype = "f64", shape = "n", init = { kind = "random", seed = 1 } }'
    yield '# declared = { flops = "2*n", bytes = "24*n", source = "who says so" }'


def _text(value: str) -> str:
    """Return a TOML basic string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
