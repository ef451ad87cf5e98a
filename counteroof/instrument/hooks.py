"""Lets C functions behind Python callables run under the engine: extension modules, called as ever.

::

    with Engine("bytes", model) as engine, hooked(engine, numpy.dot, numpy.add):
        numpy.dot(a, b)

The pointers to the callables' C functions are exchanged for entries into translated code, so it does not
matter who calls. The Python interpreter itself runs natively and is not counted.
"""

from __future__ import annotations

import ctypes
import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import KernelFailed

if TYPE_CHECKING:
    from .engine import Engine

HEAD = object.__basicsize__
"""Bytes of PyObject_HEAD."""
WORD = 8
CYTHON = ("cython_function_or_method", "fused_cython_function")


@contextmanager
def hooked(engine: Engine, *callables: Any) -> Iterator[None]:
    """Run the C functions of callables under the engine while the context lasts.

    Parameters
    ----------
    engine
        A running engine.
    callables
        Built-in functions and methods, Cython functions, and NumPy's universal functions (whose inner loops
        run under the engine).

    Raises
    ------
    ValueError
        If one of them is not made of C functions that can be exchanged.
    KernelFailed
        At the end of the context, if a hooked call came to code that the engine cannot run: the rest of the
        call ran natively, uncounted. Also if threads that could not be taken over worked meanwhile.

    Notes
    -----
    Threads that extension modules had before, waiting for work, are taken over as by :meth:`Engine.call`, and
    stay so until the engine is closed: what they do after the context, for native calls, is counted too.

    A call that holds the interpreter's lock while it waits for other threads waits forever, if these come to
    code that has to be translated: the translator needs the lock.
    """
    with Memory() as memory:
        found = (place for item in callables for place in _function_pointers(item, memory))
        places = list(dict.fromkeys(found))
        before = [memory.word(place) for place in places]
    entries = [engine.entry(function) for function in before]
    engine.others.take_over()
    busy = engine.others.busy()
    try:
        for place, entry in zip(places, entries, strict=True):
            ctypes.c_uint64.from_address(place).value = entry
        yield
    finally:
        for place, function in zip(places, before, strict=True):
            ctypes.c_uint64.from_address(place).value = function
    engine.check()
    uncounted = engine.others.worked(busy)
    if uncounted is not None:
        raise KernelFailed("unsupported", uncounted)


def capsule_function(capsule: Any) -> int:
    """Return the address of the C function in a capsule, such as those of a Cython module's
    ``__pyx_capi__``."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = [ctypes.py_object], ctypes.c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    return int(pointer(capsule, name(capsule)))


class Memory:
    """This process's memory, read without faults: an object may not be laid out as expected."""

    def __enter__(self) -> Memory:
        self._file = os.open("/proc/self/mem", os.O_RDONLY)
        with open("/proc/self/maps") as maps:
            fields = [line.split(maxsplit=2) for line in maps]
        self._writable = [
            tuple(int(end, 16) for end in span.split("-")) for span, access, _ in fields if "w" in access
        ]
        return self

    def __exit__(self, *unused: object) -> None:
        os.close(self._file)

    def read(self, address: int, count: int) -> bytes:
        """Return bytes, fewer where memory ends."""
        try:
            return os.pread(self._file, count, address)
        except OSError:
            return b""

    def word(self, address: int) -> int:
        """Return 8 bytes as a number."""
        return int.from_bytes(self.read(address, WORD), "little")

    def text(self, address: int) -> str:
        """Return a C string, or its beginning."""
        return self.read(address, 200).partition(b"\0")[0].decode(errors="replace")

    def writable(self, address: int) -> bool:
        """Tell whether there is memory that can be written."""
        return any(start <= address < end for start, end in self._writable)


def _function_pointers(item: Any, memory: Memory) -> list[int]:
    """Return where the pointers to a callable's C functions are."""
    if type(item).__name__ == "_ArrayFunctionDispatcher":
        item = item._implementation  # behind NumPy's dispatch to other types of array
    kind = type(item).__name__
    if isinstance(item, types.BuiltinFunctionType) or kind in CYTHON:
        places = _method(item, id(item) + HEAD, memory)  # PyCFunctionObject.m_ml
    elif isinstance(item, types.MethodDescriptorType | types.ClassMethodDescriptorType):
        places = _method(item, id(item) + HEAD + 3 * WORD, memory)  # PyMethodDescrObject.d_method
    elif kind == "ufunc":
        places = _loops(item, memory)
    else:
        raise ValueError(
            f"{item!r} cannot be hooked: built-in functions, Cython functions and ufuncs can, not a {kind}"
        )
    if not all(memory.writable(place) for place in places):
        raise ValueError(
            f"{item!r} cannot be hooked: the pointer to its C function is in memory that cannot be written"
        )
    return places


def _method(item: Any, at: int, memory: Memory) -> list[int]:
    """Return the place of ``ml_meth`` in the PyMethodDef that a pointer leads to."""
    definition = memory.word(at)
    name = memory.text(memory.word(definition))
    if name != item.__name__:
        raise ValueError(
            f"{item!r} cannot be hooked: its layout is not known (its definition is called {name!r})"
        )
    return [definition + WORD]


def _loops(ufunc: Any, memory: Memory) -> list[int]:
    """Return the places of the inner loops of a PyUFuncObject (numpy/ufuncobject.h)."""
    arguments, types_count = (
        memory.word(id(ufunc) + HEAD),
        memory.word(id(ufunc) + HEAD + 4 * WORD) & 0xFFFFFFFF,
    )
    if arguments != ufunc.nin | ufunc.nout << 32 or types_count != ufunc.ntypes:
        raise ValueError(f"{ufunc!r} cannot be hooked: its layout is not known")
    first = memory.word(id(ufunc) + HEAD + 2 * WORD)
    return [first + WORD * i for i in range(types_count) if memory.word(first + WORD * i)]
