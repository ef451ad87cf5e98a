"""Small programs in C, C++ and assembly, run natively and under the engine, each in a process of its own."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counteroof.instrument.engine import Engine
from counteroof.instrument.translate import Detail
from counteroof.native import ffi, lib
from tests.compiled import shared

SECONDS = 20


@dataclass(frozen=True)
class Ran:
    """What a run returned, and under the engine how often some functions were entered."""

    value: int = 0
    entered: dict[str, int] = field(default_factory=dict)
    worked: int = 0
    """What the program itself counted."""
    native: tuple[str, ...] = ()
    """Functions that ran natively."""
    error: str = ""
    """The exception that ended it, or the signal."""
    counts: dict[int, int] = field(default_factory=dict)
    """Executions of instructions, by offset in the library."""
    accesses: tuple[tuple[int, int, int], ...] = ()


def in_process(work: Callable[[], Ran]) -> Ran:
    """Return what ``work`` returns in a forked process; that process may die or hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            result = work()
        except BaseException as error:
            result = Ran(error=f"{type(error).__name__}: {error}")
        os.write(writing, pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    watchdog = threading.Timer(SECONDS, os.kill, (child, signal.SIGKILL))
    watchdog.start()
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    watchdog.cancel()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return Ran(error=signal.Signals(os.WTERMSIG(status)).name)
    return pickle.loads(data) if data else Ran(error=f"ended with {status}")


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a function."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def call_frame(arguments: Sequence[int]) -> Any:
    """Return the frame of a call with integer arguments."""
    frame = ffi.new("struct run_frame *")
    for slot, value in enumerate(arguments):
        frame.ints[slot] = value & 2**64 - 1
    return frame


def natively(path: Path, function: str, *arguments: int) -> Ran:
    """Call a function of a library natively; it returns a 64-bit integer."""

    def work() -> Ran:
        address = address_of(ctypes.CDLL(str(path)), function)
        return Ran(lib.run_call(address, call_frame(arguments), ffi.new("double *")))

    return in_process(work)


def instrumented(
    path: Path, function: str, *arguments: int, detail: Detail = "bytes", count: Sequence[str] = ()
) -> Ran:
    """Call it under the engine; ``count`` are functions whose entries are counted."""

    def work() -> Ran:
        library = ctypes.CDLL(str(path))
        with Engine(detail) as engine:
            value, _ = engine.call(address_of(library, function), call_frame(arguments))
            counts = entered(engine, library, count)
            worked = ctypes.c_ulong.in_dll(library, "worked").value if "work" in count else 0
            return Ran(value, counts, worked, engine.native_called)

    return in_process(work)


def entered(engine: Engine, library: ctypes.CDLL, names: Sequence[str]) -> dict[str, int]:
    """Return how often the first instruction of each function ran."""
    starts = {address_of(library, name): name for name in names}
    counts = dict.fromkeys(names, 0)
    for item in engine.executed():
        if item.instruction.ip in starts:
            counts[starts[item.instruction.ip]] += item.times
    return counts


def same(
    folder: Path,
    code: str,
    *arguments: int,
    detail: Detail,
    flags: Sequence[str] = (),
    compiler: str = "gcc",
    function: str = "run",
    work: bool = True,
) -> Ran:
    """Compile a program and demand that ``run`` returns the same natively and under the engine.

    With ``work`` the program calls ``work()`` and counts in ``worked`` how often it did: the engine must have
    seen every call, wherever it came from.
    """
    path = shared(folder, code, *flags, compiler=compiler)
    native = natively(path, function, *arguments)
    assert not native.error
    names = ("work",) if work else ()
    found = instrumented(path, function, *arguments, detail=detail, count=names)
    assert not found.error
    assert found.value == native.value
    if work:
        assert found.entered["work"] == found.worked > 0
    return found


WORK = """
unsigned long worked;
__attribute__((noinline, visibility("default"))) unsigned long work(unsigned long x) {
    worked++;
    return x * 6364136223846793005ul + 1442695040888963407ul;
}
"""
"""To be put in front of a program: the function whose calls are counted."""
