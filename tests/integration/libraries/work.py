"""A work: a few calls of a library's functions that end in bytes which must not depend on who runs them."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

MODULES = (
    "openblas",
    "fftw",
    "gsl",
    "zlib",
    "pictures",
    "sqlite",
    "libc",
    "crypto",
    "numpy_module",
    "scipy_module",
)
"""Modules of this package with works."""

ADDRESS, INT, LONG, DOUBLE = ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_double


class Missing(Exception):
    """A library that is not installed; the message says how to get it."""


class Hook:
    """Natively: functions as they are."""

    def address(self, function: int) -> int:
        """Return the address to call instead of a function's."""
        return function

    def __call__(self, library: ctypes.CDLL, name: str, returns: Any, *takes: Any) -> Callable[..., Any]:
        """Return a function of a library, to be called with these C types."""
        address = ctypes.cast(getattr(library, name), ADDRESS).value
        assert address
        return ctypes.CFUNCTYPE(returns, *takes)(self.address(address))

    def python(self, *callables: Any) -> AbstractContextManager[None]:
        """Return a context in which the C functions behind Python callables are called."""
        return nullcontext()


@dataclass(frozen=True)
class Work:
    """What to do, and what a table calls it; ``do`` returns the bytes of all its results."""

    library: str
    functions: str
    do: Callable[[Hook], bytes]

    @property
    def name(self) -> str:
        return f"{self.do.__module__.rpartition('.')[2]}:{self.do.__name__}"


WORKS: dict[str, Work] = {}


def work(library: str, functions: str) -> Callable[[Callable[[Hook], bytes]], Callable[[Hook], bytes]]:
    """Enter a function in the list of works."""

    def enter(do: Callable[[Hook], bytes]) -> Callable[[Hook], bytes]:
        made = Work(library, functions, do)
        WORKS[made.name] = made
        return do

    return enter


def works() -> dict[str, Work]:
    """Return all works by name."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return WORKS


def load(package: str, *names: str) -> ctypes.CDLL:
    """Load a library that a Debian package brings; its name may differ between releases."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Missing(f"{' or '.join(names)} (Debian: {package})")
