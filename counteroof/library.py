"""A user's shared library: what it exports, with which signatures, and its code in this process.

:func:`open_library` reads the file and never runs its code. :func:`load` does (constructors run when a library is
loaded), so only the worker process calls it.
"""

from __future__ import annotations

import bisect
import difflib
import functools
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .dwarf import DebugInfo
from .elf import ElfFile, Export
from .errors import LibraryError
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


class Library:
    """A shared library as its file describes it.

    Attributes
    ----------
    path
        Absolute path of the file.
    exports
        The exported functions, sorted by name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._elf = ElfFile(path)
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
        table = {}
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
            return "it is chosen at load time (IFUNC), and debug information describes only the function that chooses"
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
        # Labels in assembly have no size; they reach to the next symbol.
        return (name, offset - start) if offset < start + size or not size else None

    @cached_property
    def _code_index(self) -> tuple[list[int], list[tuple[int, int, str]]]:
        symbols = set(self._elf.code_symbols)
        if self._debug.file is not self._elf:
            symbols.update(self._debug.file.code_symbols)
        # Of several names for one address the plainest is kept: with a size, few underscores, short.
        best: dict[int, tuple[int, int, str]] = {}
        for symbol in sorted(symbols, key=lambda symbol: (-symbol[1], symbol[2].startswith("_"), len(symbol[2]), symbol[2])):
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
    except (struct.error, IndexError, KeyError, OverflowError) as error:
        raise LibraryError(f"{found}: damaged ELF file ({error}); copy or build it again") from None


def locate(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a library given as a file or as a bare name that the dynamic loader finds."""
    text = os.fspath(path)
    if "/" in text or Path(text).exists():
        return Path(text).absolute()
    known: list[str] = []
    for candidate in _loader_candidates(text, known):
        if candidate.exists() and _is_native(candidate):
            return candidate
    near = nearest(text, sorted(set(known)))
    hint = f"; the nearest names it knows are: {', '.join(near)}" if near else ""
    raise LibraryError(f"{text}: no such file, and the dynamic loader knows no library of that name{hint}")


def _loader_candidates(name: str, known: list[str]) -> Iterable[Path]:
    """Yield where the loader looks: LD_LIBRARY_PATH, its cache (whose names go to ``known``), its default folders."""
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield Path(folder).absolute() / name
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig:
        listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=30, check=False).stdout
        for match in re.finditer(r"^\s*(\S+) \(.*?\) => (\S+)$", listing, re.MULTILINE):
            known.append(match[1])
            if match[1] == name:
                yield Path(match[2])
    for base in ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"):
        yield Path(base) / name
        yield Path(base) / f"{platform.machine()}-linux-gnu" / name


def _is_native(path: Path) -> bool:
    try:
        ElfFile(path)
    except LibraryError:
        return False
    return True


def nearest(name: str, names: Sequence[str], count: int = 5) -> list[str]:
    """Return the names most like ``name``: those that contain it first (``dgemm`` in ``cblas_dgemm``), then look-alikes."""
    wanted = name.lower().strip("_")
    contains = sorted((other for other in names if wanted and wanted in other.lower()), key=lambda other: (len(other), other))
    alike = difflib.get_close_matches(name, names, count, 0.6) if len(contains) < count else []
    return list(dict.fromkeys([*contains[:count], *alike]))[:count]


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Return the readable form of C++ names, where ``c++filt`` or ``llvm-cxxfilt`` is there; others are unchanged."""
    readable = {name: name for name in names}
    mangled = [name for name in readable if name.startswith("_Z")]
    tool = next(filter(None, map(shutil.which, ("c++filt", "llvm-cxxfilt"))), None)
    if mangled and tool:
        done = subprocess.run(
            [tool], input="\n".join(mangled), capture_output=True, text=True, timeout=60, check=False
        )
        lines = done.stdout.splitlines()
        if len(lines) == len(mangled):
            readable |= zip(mangled, lines, strict=True)
    return readable


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
            f"{symbol}: its arguments are not known: {looked}{library.no_signature(symbol)}. Give them in one of three "
            f'ways: signature = "void {symbol}(...)" in the kernel\'s entry, header = "..." in [library], or a library '
            "compiled with -g"
        )
    if signature.unsupported:
        raise LibraryError(f"{symbol} cannot be called: {signature.unsupported}; it is: {signature}")
    return signature


def _check_name(signature: Signature, symbol: str) -> None:
    plain = symbol.partition("@")[0]
    if signature.name != plain and not plain.startswith("_Z"):
        raise LibraryError(f"signature {str(signature)!r} declares {signature.name}, but the kernel's symbol is {symbol}")


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
        ffi, loader = _loader()
        name, _, version = symbol.replace("@@", "@").partition("@")
        loader.dlerror()
        if version:
            found = loader.dlvsym(self.handle, name.encode(), version.encode())
        else:
            found = loader.dlsym(self.handle, name.encode())
        if found == ffi.NULL:
            library = open_library(self.path)
            library.export(symbol)  # names the nearest if it is not there at all
            raise LibraryError(f"{self.path}: the loader does not find {symbol}: {_message(ffi, loader)}")
        return int(ffi.cast("uintptr_t", found))


def load(path: str | os.PathLike[str]) -> LoadedLibrary:
    """Load a shared library and all it needs into this process; its constructors run.

    Raises
    ------
    LibraryError
        If the file is no library for this machine, or a dependency or symbol is missing, with its name.
    """
    library = open_library(path)
    ffi, loader = _loader()
    handle = loader.dlopen(os.fsencode(library.path), _RTLD_NOW)
    if handle == ffi.NULL:
        raise LibraryError(_load_failure(library.path, _message(ffi, loader)))
    # struct link_map begins with l_addr, the difference between addresses and the file's offsets.
    link_map = ffi.new("uintptr_t **")
    if loader.dlinfo(handle, _RTLD_DI_LINKMAP, link_map):
        raise LibraryError(f"{library.path}: {_message(ffi, loader)}")
    return LoadedLibrary(str(library.path), int(link_map[0][0]), handle)


_RTLD_NOW, _RTLD_DI_LINKMAP = 2, 2


@functools.cache
def _loader() -> tuple[Any, Any]:
    """The dynamic loader's own functions: dlsym gives addresses without declaring any function of the user's."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(
        "void *dlopen(const char *, int); void *dlsym(void *, const char *); char *dlerror(void);"
        "void *dlvsym(void *, const char *, const char *); int dlinfo(void *, int, void *);"
    )
    return ffi, ffi.dlopen(None)


def _message(ffi: Any, loader: Any) -> str:
    text = loader.dlerror()
    return "no reason given" if text == ffi.NULL else ffi.string(text).decode("utf-8", "replace")


def _load_failure(path: Path, message: str) -> str:
    """Turn the loader's text (glibc, musl) into what is missing and what to do."""
    missing = re.search(r"^(?:Error loading shared library )?([^\s:]+): (?:cannot open|No such file)", message)
    if missing:
        return (
            f"{path} needs {missing[1]}, which the dynamic loader does not find; install it, or put its folder into "
            "LD_LIBRARY_PATH"
        )
    symbol = re.search(r"undefined symbol: (\S+?)(?:,|\s|$)", message) or re.search(r": (\S+): symbol not found", message)
    if symbol:
        name = demangle([symbol[1]])[symbol[1]]
        return (
            f"{path} uses {name}, which neither it nor a library it is linked to defines; link it to the library that "
            "does (ldflags), or compile the missing source too"
        )
    version = re.search(r"version `(\S+?)' not found", message)
    if version:
        return f"{path} was built for a newer system: {version[1]} is missing here ({message})"
    return f"{path} cannot be loaded: {message}"


def address_to_symbol(path: str | os.PathLike[str], offset: int) -> str | None:
    """Return the name of the function that contains an offset (address minus load base) of a library."""
    found = _library_at(path).symbol_at(offset)
    return found[0] if found else None


def source_line(path: str | os.PathLike[str], offset: int) -> tuple[str, int] | None:
    """Return source file and line of an offset (address minus load base) of a library, or ``None``."""
    return _library_at(path).line_at(offset)


def describe_address(path: str | os.PathLike[str], offset: int) -> str:
    """Return an offset of a library in words: ``daxpy+0x1c (axpy.c:12)``, as far as that is known."""
    library = _library_at(path)
    symbol, line = library.symbol_at(offset), library.line_at(offset)
    name = demangle([symbol[0]])[symbol[0]] if symbol else ""
    text = f"{name}+{symbol[1]:#x}" if symbol else f"{library.path.name}+{offset:#x}"
    return f"{text} ({os.path.basename(line[0])}:{line[1]})" if line else text


def _library_at(path: str | os.PathLike[str]) -> Library:
    status = os.stat(path)
    return _opened(os.fspath(path), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _opened(path: str, modified: int, size: int) -> Library:
    return open_library(path)
