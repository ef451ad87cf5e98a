"""The dynamic loader: where it finds a library, loading one into this process, and what its refusals mean."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .elf import ElfFile
from .errors import LibraryError
from .names import demangle, nearest


def locate(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a library, given as a file or as a bare name for the dynamic loader."""
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
    """Yield where the loader looks: LD_LIBRARY_PATH, its cache, its default folders.

    The names in its cache are added to ``known``.
    """
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield Path(folder).absolute() / name
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig:
        done = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=30, check=False)
        for match in re.finditer(r"^\s*(\S+) \(.*?\) => (\S+)$", done.stdout, re.MULTILINE):
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


def open_shared(path: Path) -> tuple[Any, int]:
    """Load a library into this process and return its handle and the address of its offset 0.

    Every symbol is resolved at once, so that a missing one is noticed here and not in the middle of a kernel.
    """
    ffi, functions = _functions()
    handle = functions.dlopen(os.fsencode(path), _RTLD_NOW)
    if handle == ffi.NULL:
        raise LibraryError(_refusal(path, _last_error()))
    # struct link_map begins with l_addr, the difference between addresses and the file's offsets.
    link_map = ffi.new("uintptr_t **")
    if functions.dlinfo(handle, _RTLD_DI_LINKMAP, link_map):
        raise LibraryError(f"{path}: its load address is not to be had ({_last_error()})")
    return handle, int(link_map[0][0])


def find_symbol(handle: Any, name: str, version: str = "") -> int | str:
    """Return the address of a symbol, or the loader's reason why there is none."""
    ffi, functions = _functions()
    functions.dlerror()
    if not version:
        found = functions.dlsym(handle, name.encode())
    elif hasattr(functions, "dlvsym"):
        found = functions.dlvsym(handle, name.encode(), version.encode())
    else:
        return "this system's loader knows no symbol versions"
    return int(ffi.cast("uintptr_t", found)) if found != ffi.NULL else _last_error()


_RTLD_NOW, _RTLD_DI_LINKMAP = 2, 2


@functools.cache
def _functions() -> tuple[Any, Any]:
    """The loader's own functions; dlsym gives addresses without a declaration of the user's functions."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(
        "void *dlopen(const char *, int); void *dlsym(void *, const char *); char *dlerror(void);"
        "void *dlvsym(void *, const char *, const char *); int dlinfo(void *, int, void *);"
    )
    functions = ffi.dlopen(None)
    # cffi looks a function up on first use, which would clear the error that dlerror is then asked for.
    for name in ("dlopen", "dlsym", "dlerror", "dlvsym", "dlinfo"):
        hasattr(functions, name)  # musl has no dlvsym
    return ffi, functions


def _last_error() -> str:
    ffi, functions = _functions()
    text = functions.dlerror()
    return "no reason given" if text == ffi.NULL else ffi.string(text).decode("utf-8", "replace")


# What the loader says, in glibc's and in musl's words.
_MISSING_LIBRARY = re.compile(r"^(?:Error loading shared library )?([^\s:]+): (?:cannot open|No such file)")
_MISSING_SYMBOL = re.compile(r"undefined symbol: ([^\s,]+)|: (\S+): symbol not found")
_MISSING_VERSION = re.compile(r"version `(\S+?)' not found")


def _refusal(path: Path, message: str) -> str:
    """Turn the loader's text into what is missing and what to do."""
    if found := _MISSING_LIBRARY.search(message):
        return (
            f"{path} needs {found[1]}, which the dynamic loader does not find; install it, or put its folder "
            "into LD_LIBRARY_PATH"
        )
    if found := _MISSING_SYMBOL.search(message):
        symbol = found[1] or found[2]
        return (
            f"{path} uses {demangle([symbol])[symbol]}, which neither it nor a library it is linked to "
            "defines; link it to the library that does (ldflags), or compile the missing source too"
        )
    if found := _MISSING_VERSION.search(message):
        return f"{path} was built for a newer system: {found[1]} is missing here ({message})"
    return f"{path} cannot be loaded: {message}"
