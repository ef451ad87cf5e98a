"""A user's shared library: what it exports, with which signatures, and its code in this process.

:func:`open_library` reads the file and never runs its code. :func:`load` does (constructors run when a
library is loaded), so only the worker process calls it.
"""

from __future__ import annotations

import bisect
import functools
import os
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .dwarf import DebugInfo
from .elf import ElfFile, Export
from .errors import LibraryError
from .loader import find_symbol, locate, open_shared
from .names import demangle, nearest
from .prototype import header_signatures, parse_prototype
from .signature import CType, Param, Signature, disagreement

if TYPE_CHECKING:
    from .spec import KernelSpec, SetupCall

__all__ = [
    "CType",
    "Export",
    "Library",
    "LoadedLibrary",
    "Param",
    "Signature",
    "address_to_symbol",
    "describe_address",
    "header_signatures",
    "load",
    "locate",
    "open_library",
    "parse_prototype",
    "resolve_signature",
    "source_line",
]


_DAMAGE = (struct.error, IndexError, KeyError, OverflowError)  # what reading a spoiled file leads to


class Library:
    """A shared library as its file describes it.

    Attributes
    ----------
    path
        Absolute path of the file.
    exports
        The exported functions, sorted by name.
    """

    def __init__(self, path: Path, *, shared: bool = True) -> None:
        self.path = path
        self._elf = ElfFile(path, shared=shared)
        self.exports: tuple[Export, ...] = self._elf.exports

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the exported functions; older versions of a symbol as ``name@VERSION``."""
        return tuple(export.reference for export in self.exports)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the libraries this one depends on."""
        return self._elf.needed

    @property
    def debug_info(self) -> bool:
        """Whether there is debug information that can be read."""
        return self._debug.reason is None

    @property
    def debug_reason(self) -> str | None:
        """Why there is no debug information, or ``None``."""
        return self._debug.reason

    @cached_property
    def _debug(self) -> DebugInfo:
        return DebugInfo(self._elf)

    @cached_property
    def _by_reference(self) -> dict[str, Export]:
        table: dict[str, Export] = {}
        for export in self.exports:
            table.setdefault(export.reference, export)
            if export.version and export.default:
                table[f"{export.name}@{export.version}"] = export
        return table

    def export(self, symbol: str) -> Export:
        """Return an exported function by ``name``, ``name@VERSION`` or ``name@@VERSION``.

        Raises
        ------
        LibraryError
            If there is none, with the nearest names.
        """
        found = self._by_reference.get(symbol.replace("@@", "@"))
        if found is None:
            raise LibraryError(f"{self.path} exports no function {symbol!r}; {self._suggestion(symbol)}")
        return found

    def _suggestion(self, symbol: str) -> str:
        names = nearest(symbol, self.functions)
        if not self.functions:
            return "it exports no functions at all (are they static, or hidden by -fvisibility=hidden?)"
        if not names:
            return f"none of its {len(self.functions)} functions has a similar name"
        plain = demangle(names)
        shown = [name if plain[name] == name else f"{name} [{plain[name]}]" for name in names]
        return "the nearest names are: " + ", ".join(shown)

    def signature(self, symbol: str) -> Signature | None:
        """Return the signature that debug information gives, or ``None``; :meth:`no_signature` says why."""
        found = self._from_debug(symbol)
        return found if isinstance(found, Signature) else None

    def no_signature(self, symbol: str) -> str:
        """Return why debug information gives no signature (empty if it does)."""
        found = self._from_debug(symbol)
        return found if isinstance(found, str) else ""

    def _from_debug(self, symbol: str) -> Signature | str:
        export = self.export(symbol)
        if export.ifunc:
            return "it is chosen at load time (IFUNC), and debug information describes only what chooses it"
        return self._debug.signature(export.name, export.offset)

    def demangled(self) -> dict[str, str]:
        """Return the readable form of every exported name; names that are not C++ are unchanged."""
        return demangle(export.name for export in self.exports)

    def symbol_at(self, offset: int) -> tuple[str, int] | None:
        """Return the symbol that contains an offset of the file's code, and the distance from its start."""
        starts, symbols = self._code_index
        index = bisect.bisect_right(starts, offset) - 1
        if index < 0:
            return None
        start, size, name = symbols[index]
        # Labels in assembly have no size; they reach to the next symbol, at most to the end of their section.
        end = start + size if size else self._elf.section_end(start)
        return (name, offset - start) if offset < end else None

    @cached_property
    def _code_index(self) -> tuple[list[int], list[tuple[int, int, str]]]:
        symbols = set(self._elf.code_symbols)
        if self._debug.file is not self._elf:
            symbols.update(self._debug.file.code_symbols)
        # Of several names for one address the plainest is kept: with a size, few underscores, short.
        best: dict[int, tuple[int, int, str]] = {}
        for symbol in sorted(
            symbols, key=lambda each: (-each[1], each[2].startswith("_"), len(each[2]), each)
        ):
            best.setdefault(symbol[0], symbol)
        ordered = sorted(best.values())
        return [symbol[0] for symbol in ordered], ordered

    def line_at(self, offset: int) -> tuple[str, int] | None:
        """Return source file and line of an offset of the file's code, or ``None`` if not known."""
        return self._debug.line(offset)


def open_library(path: str | os.PathLike[str]) -> Library:
    """Return what a shared library's file says about it; its code is not run.

    Parameters
    ----------
    path
        A file, or a bare name such as ``libm.so.6``, which is looked for where the dynamic loader looks.

    Raises
    ------
    LibraryError
        If it is not a shared library for this machine, saying what it is instead.
    """
    found = locate(path)
    try:
        return Library(found)
    except _DAMAGE as error:
        raise LibraryError(f"{found}: damaged ELF file ({error}); copy or build it again") from None


def resolve_signature(kernel: KernelSpec, library: Library, setup: SetupCall | None = None) -> Signature:
    """Return the signature of a kernel's function, or of one of its set-up calls.

    It is taken from the spec's ``signature``, else from the library's header, else from debug information. A
    signature that the user wrote is compared with debug information where there is any.

    Raises
    ------
    LibraryError
        If there is none, if two disagree, or if the function cannot be called (a struct by value, ``...``).
    """
    symbol = kernel.symbol if setup is None else setup.symbol
    written = kernel.signature if setup is None else setup.signature
    header = kernel.library.header
    library.export(symbol)
    compiled = library.signature(symbol)
    signature: Signature | None = None
    if written is not None:
        signature = parse_prototype(written)
        _check_name(signature, symbol)
    elif header is not None:
        plain = symbol.partition("@")[0]
        signature = _from_header(header, tuple(kernel.library.cflags), plain)
    if signature is not None and compiled is not None:
        wrong = disagreement(signature, compiled)
        if wrong:
            where = "signature" if written is not None else f"header {header}"
            raise LibraryError(
                f"{symbol}: the {where} does not fit the library's debug information: {wrong}; "
                f"it was compiled as: {compiled}"
            )
    signature = signature or compiled
    if signature is None:
        looked = f"the header {header} does not declare it, and " if header is not None else ""
        raise LibraryError(
            f"{symbol}: its arguments are not known: {looked}{library.no_signature(symbol)}. "
            f'Give them in one of three ways: signature = "void {symbol}(...)" in the kernel\'s entry, '
            'header = "..." in [library], or a library compiled with -g'
        )
    if signature.unsupported:
        raise LibraryError(f"{symbol} cannot be called: {signature.unsupported}; it is: {signature}")
    return signature


def _check_name(signature: Signature, symbol: str) -> None:
    plain = symbol.partition("@")[0]
    if signature.name != plain and not plain.startswith("_Z"):
        raise LibraryError(
            f"signature {str(signature)!r} declares {signature.name}, but the kernel's symbol is {symbol}"
        )


@functools.lru_cache(maxsize=256)
def _from_header(path: str, cflags: tuple[str, ...], symbol: str) -> Signature | None:
    return header_signatures(path, cflags=cflags, only=symbol).get(symbol)


@dataclass(frozen=True)
class LoadedLibrary:
    """A library loaded into this process; ``base`` is the address of its offset 0."""

    path: str
    base: int
    handle: Any

    def address(self, symbol: str) -> int:
        """Return the address of a function (``name`` or ``name@VERSION``); IFUNCs are already chosen."""
        name, _, version = symbol.replace("@@", "@").partition("@")
        found = find_symbol(self.handle, name, version)
        if isinstance(found, int):
            return found
        open_library(self.path).export(symbol)  # if it is not there at all, this names the nearest
        raise LibraryError(f"{self.path}: the loader does not find {symbol}: {found}")


def load(path: str | os.PathLike[str]) -> LoadedLibrary:
    """Load a shared library and all it needs into this process; its constructors run.

    Raises
    ------
    LibraryError
        If the file is no library for this machine, or a dependency or symbol is missing, with its name.
    """
    library = open_library(path)
    handle, base = open_shared(library.path)
    return LoadedLibrary(str(library.path), base, handle)


def address_to_symbol(path: str | os.PathLike[str], offset: int) -> str | None:
    """Return the function at an offset (address minus load base) of a mapped file, or ``None``."""
    library = _mapped(path)
    found = library.symbol_at(offset) if library else None
    return found[0] if found else None


def source_line(path: str | os.PathLike[str], offset: int) -> tuple[str, int] | None:
    """Return source file and line at an offset (address minus load base) of a mapped file, if known."""
    library = _mapped(path)
    return library.line_at(offset) if library else None


def describe_address(path: str | os.PathLike[str], offset: int) -> str:
    """Return an offset of a mapped file in words: ``daxpy+0x1c (axpy.c:12)``, as far as that is known."""
    library = _mapped(path)
    symbol = library.symbol_at(offset) if library else None
    line = library.line_at(offset) if library else None
    name = demangle([symbol[0]])[symbol[0]] if symbol else os.path.basename(path)
    text = f"{name}+{symbol[1] if symbol else offset:#x}"
    return f"{text} ({os.path.basename(line[0])}:{line[1]})" if line else text


def _mapped(path: str | os.PathLike[str]) -> Library | None:
    """Return a file that code was mapped from, executables too; ``None`` for others, such as ``[vdso]``."""
    try:
        status = os.stat(path)
        return _opened(os.fspath(path), status.st_mtime_ns, status.st_size)
    except (OSError, LibraryError, *_DAMAGE):
        return None


@functools.lru_cache(maxsize=16)
def _opened(path: str, modified: int, size: int) -> Library:
    return Library(Path(path).absolute(), shared=False)
