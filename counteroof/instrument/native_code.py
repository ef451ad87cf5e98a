"""What runs natively, outside the counts: allocator, loader, thread runtimes, and what ends a process."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import BadInput

ALLOCATOR = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "malloc_usable_size",
    "malloc_trim",
    "mallopt",
]
"""The engine itself allocates, and must not find the locks taken by the code it serves."""
LOADER = [
    "dlopen",
    "dlmopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dladdr1",
    "dlinfo",
    "dlerror",
    "dl_iterate_phdr",
]
FORKS = ["fork", "_Fork"]
PROCESSES = [
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "pclose",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
]
THREADS = ["pthread_create", "pthread_exit", "pthread_once", "pthread_atfork", "thrd_create", "call_once"]
"""These call back, on this thread or a new one; what they call is counted."""
THREAD_RUNTIMES = re.compile(r"/lib(gomp|omp|iomp5)[.-][^/]*$")
"""Libraries that run natively as a whole; the functions they are passed are counted."""
RUNTIME_ENTRIES = ("GOMP_parallel", "__kmpc_fork_call")
"""What tells a thread runtime from a library that happens to be called like one."""
CALLS_BACK = re.compile(r"parallel|task|teams|fork|barrier|sections|invoke")
"""Of their functions, those that are passed functions, or let other threads see what this one did."""

SYSTEM = re.compile(r"(libc|libpthread|ld)[-.]")


@dataclass(frozen=True)
class NativeFunction:
    """A function that runs natively; ``calls_back``: functions among its arguments are to be counted;
    ``changes_process``: it may load and unload code, or return in another process."""

    name: str
    calls_back: bool
    changes_process: bool = False


_PYTHON = NativeFunction("the Python interpreter", False)
"""The translator is Python too, and must not interrupt the interpreter in its work."""
_ENGINE = NativeFunction("the engine", False)


class NativeCode:
    """Tells native functions by address.

    Parameters
    ----------
    names, library
        Further functions that are to run natively, and the library they are looked up in.
    own_code
        Translate counteroof's own C too, such as the loops that ceilings are measured with.

    Raises
    ------
    BadInput
        If the library has no function of such a name.
    """

    def __init__(
        self, names: Iterable[str] = (), library: str | None = None, *, own_code: bool = False
    ) -> None:
        process = ctypes.CDLL(None)
        self._own_code = own_code
        self._functions: dict[int, NativeFunction] = {}
        for group, calls_back, changes in (
            (ALLOCATOR, False, False),
            (LOADER, False, True),
            (FORKS, False, True),
            (PROCESSES, False, False),
            (THREADS, True, False),
        ):
            for name in group:
                address = _address(process, name)
                if address:
                    self._functions[address] = NativeFunction(name, calls_back, changes)
        for name in names:
            address = _address(ctypes.CDLL(library), name)
            if not address:
                where = library or "this process"
                raise BadInput(f"{name!r} is to run natively, but {where} has no function of that name")
            self._functions[address] = NativeFunction(name, True)
        self._runtimes: dict[str, bool] = {}
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, str]] = []
        self._read_maps()
        python = _address(process, "PyGILState_Ensure")
        self._python = self._path(python) if python else None
        allocator = _address(process, "malloc")
        self._allocator = self._path(allocator) if allocator else None
        module = importlib.import_module("counteroof._native")
        self._engine = os.path.realpath(module.__file__ or "")

    def of(self, address: int) -> NativeFunction | None:
        """Return the native function at an address, ``None`` if the address is to be translated."""
        found = self._functions.get(address)
        if found is not None:
            return found
        path = self._path(address)
        if path is None:
            self._read_maps()  # something was loaded since
            path = self._path(address)
        if path is None:
            return None
        if path == self._python:
            return _PYTHON
        if path == self._engine and not self._own_code:
            return _ENGINE
        if not self._is_thread_runtime(path):
            return None
        name = symbol_name(address)
        made = NativeFunction(
            name or path.rsplit("/", 1)[-1], name is None or CALLS_BACK.search(name) is not None
        )
        self._functions[address] = made
        return made

    def look_again(self) -> None:
        """Forget where libraries were: some were unloaded."""
        self._read_maps()

    def is_runtime(self, address: int) -> bool:
        """Tell whether an address is in code that runs natively as a whole: thread runtimes, the
        interpreter."""
        path = self._path(address)
        return path is not None and (path in (self._python, self._engine) or self._is_thread_runtime(path))

    def is_system(self, address: int) -> bool:
        """Tell whether an address is where locks may be held: in the C library, allocator or loader."""
        path = self._path(address)
        return path is not None and (path == self._allocator or bool(SYSTEM.match(os.path.basename(path))))

    def _is_thread_runtime(self, path: str) -> bool:
        known = self._runtimes.get(path)
        if known is None:
            known = False
            if THREAD_RUNTIMES.search(path):
                library = ctypes.CDLL(path)  # it is loaded already
                entries = (_address(library, name) for name in RUNTIME_ENTRIES)
                known = any(entry is not None and self._path(entry) == path for entry in entries)
            self._runtimes[path] = known
        return known

    def _path(self, address: int) -> str | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        _, end, path = self._ranges[at]
        return path if address < end else None

    def _read_maps(self) -> None:
        self._ranges = []
        with open("/proc/self/maps") as maps:
            for line in maps:
                fields = line.split(maxsplit=5)
                if "x" in fields[1]:
                    start, end = (int(part, 16) for part in fields[0].split("-"))
                    self._ranges.append((start, end, fields[5].strip() if len(fields) == 6 else ""))
        self._starts = [start for start, _, _ in self._ranges]


def _address(library: ctypes.CDLL, name: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return None


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_void_p),
    )


def _dladdr(address: int) -> _DlInfo | None:
    info = _DlInfo()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return info if found and info.file else None


def symbol_name(address: int) -> str | None:
    """Return the name of the function that starts at an address, as the loader knows it."""
    info = _dladdr(address)
    return info.name.decode(errors="replace") if info and info.name and info.start == address else None


def describe(address: int) -> str:
    """Return ``symbol+offset (file)`` for an address of this process, as far as the loader knows it."""
    info = _dladdr(address)
    if info is None:
        return f"{address:#x}"
    file = info.file.decode(errors="replace")
    if not info.name:
        return f"{file}+{address - (info.base or 0):#x}"
    return f"{info.name.decode(errors='replace')}+{address - (info.start or 0):#x} ({file})"
