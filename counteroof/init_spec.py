"""Specs from a library alone: kernels to run at once, and a draft for its author to complete."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .assume import NotGuessable, guess_kernel
from .build import C_SUFFIXES, CXX_SUFFIXES, compile_sources
from .errors import LibraryError
from .formula import Formula
from .library import Library, open_library
from .names import cxx_parts, printable
from .prototype import header_signatures
from .signature import Signature
from .spec import Argument, ArrayArg, KernelSpec, LibrarySpec, ScalarArg

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,99}")
_NO_NAME = re.compile(r"[^A-Za-z0-9_+:-]+")
LONGEST = 60
"""Characters of a kernel's name that is made of a symbol."""
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
    names = _kernel_names({symbol: readable[symbol] for symbol in signatures})
    for symbol, signature in signatures.items():
        try:
            kernel = guess_kernel(signature, symbol, claim, names[symbol])
        except NotGuessable as reason:
            skipped.append((readable[symbol], str(reason)))
        else:
            kernels.append(kernel)
    unknown = None
    if not signatures:
        unknown = library.debug_reason or "debug information describes none of them"
        unknown = f"the header {header} declares none of them, and {unknown}" if header else unknown
        unknown = unknown if library.functions else "it exports no functions"
    return _Guessed(library, claim, signatures, tuple(kernels), tuple(sorted(skipped)), unknown)


def _kernel_names(readable: Mapping[str, str]) -> dict[str, str]:
    """Return for each symbol a name that a spec allows and no other has, as short as tells them apart.

    Of a C++ function that is its name; if others have the same, with the arguments of its template; else
    with the types of its parameters. Very long ones are cut in the middle.
    """
    parts = {symbol: cxx_parts(text) for symbol, text in readable.items()}
    found: dict[str, str] = {}
    for depth in (1, 2, 3):
        left = {
            symbol: _spelled(" ".join(part[:depth])) for symbol, part in parts.items() if symbol not in found
        }
        times = Counter((*left.values(), *found.values()))
        found |= {symbol: name for symbol, name in left.items() if times[name] == 1 and _NAME.fullmatch(name)}
    for symbol in parts:
        if symbol not in found:
            found[symbol] = f"{_spelled(symbol)[:LONGEST]}.{len(found)}"
    return found


def _spelled(text: str) -> str:
    """Return a text with dots for what a name cannot have, cut if it is long."""
    name = _NO_NAME.sub(".", text).strip(".")
    tail = LONGEST // 3
    return name if len(name) <= LONGEST else f"{name[: LONGEST - tail]}..{name[-tail:]}"


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
    lines, readable = [*_head(guessed)], guessed.library.demangled()
    for kernel in guessed.kernels:
        signature = guessed.signatures[kernel.symbol]
        name, arguments, _ = cxx_parts(readable[kernel.symbol])
        lines += ["", *_entry(kernel, replace(signature, name=f"{name}{arguments}"))]
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
        yield f"args.{arg.name} = {_argument(arg)}{_guess_of(arg)}"
    if kernel.precision:
        yield f"precision = {_text(kernel.precision)}"
    size = next(iter(kernel.params))
    yield f'# declared = {{ flops = "2*{size}", bytes = "24*{size}", source = "who says so" }}'


def _guess_of(arg: Argument) -> str:
    """Return a comment on what was guessed beyond what the head of the draft says."""
    if isinstance(arg, ScalarArg) and not isinstance(arg.value, Formula):
        return "   # a guess"
    if isinstance(arg, ArrayArg) and "**" in arg.shape[0].text:
        return "   # a guess: room for all sizes together; write what the function reaches"
    return ""


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
