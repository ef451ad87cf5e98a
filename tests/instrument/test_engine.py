"""The engine on functions of the built-in kernels and of the C library: what it counts and what it leaves."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counteroof.cachesim.model import CacheModel
from counteroof.errors import KernelFailed
from counteroof.instrument.engine import Engine
from counteroof.machine.topology import detect
from counteroof.native import ffi, lib
from tests.compiled import needs, shared

pytestmark = pytest.mark.x86_64

Frame = Callable[..., Any]


def frame(*ints: int, floats: tuple[float, ...] = (), returns_float: int = 0) -> Any:
    """Return a call frame of up to six integers and eight floating-point numbers."""
    made = ffi.new("struct run_frame *")
    for slot, value in enumerate(ints):
        made.ints[slot] = value
    for slot, number in enumerate(floats):
        made.floats[slot] = number
    made.returns_float = returns_float
    return made


def function(library: str | None, name: str) -> int:
    address = ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value
    assert address
    return address


def test_returns_what_the_native_function_returns() -> None:
    sine = function("libm.so.6", "sin")
    call = frame(floats=(1.234,), returns_float=1)
    native = ffi.new("double *")
    lib.run_call(sine, call, native)
    with Engine("flops") as engine:
        assert engine.call(sine, call)[1] == native[0]
        assert sum(item.times for item in engine.executed()) > 10


def test_counts_are_those_since_the_last_reset() -> None:
    length = function(None, "strlen")
    text = ffi.new("char[]", b"x" * 1000)
    call = frame(int(ffi.cast("uintptr_t", text)))
    with Engine("flops") as engine:
        # NumPy's threads are taken over in the first call, and counted as they go back to wait.
        engine.call(length, call)
        engine.reset()
        once = [engine.call(length, call)[0], sum(engine.block_counts())]
        engine.reset()
        assert sum(engine.block_counts()) == 0
        assert [engine.call(length, call)[0], sum(engine.block_counts())] == once == [1000, once[1]]


def test_repeated_strings_are_recorded_as_ranges(tmp_path: Any) -> None:
    code = bytes.fromhex("4889f9 4889d1 f3a4 c3".replace(" ", ""))  # mov rcx, rdx; rep movsb; ret
    assert run_code(code, "bytes") == 2 * 100 + 1  # each byte read and written, and the return address


def run_code(code: bytes, detail: str) -> int:
    """Run code as ``f(to, from, 100)`` under the engine and return how many accesses it made."""
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    data = ffi.new("char[]", bytes(range(200)))
    to = int(ffi.cast("uintptr_t", data))
    with Engine(detail) as engine:
        engine.call(start, frame(to, to + 100, 100))
        engine.drain()
        assert bytes(ffi.buffer(data, 100)) == bytes(range(100, 200))
        return int(lib.instrument_accesses_seen())


def test_code_that_cannot_be_decoded_fails_only_when_it_is_reached() -> None:
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("85ff7401c306"))  # test edi, edi; je +1; ret; (06 is invalid)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    with Engine("bytes") as engine:
        engine.call(start, frame(1))
        with pytest.raises(KernelFailed, match=r"unknown instruction 06 .* at 0x") as failure:
            engine.call(start, frame(0))
        assert failure.value.kind == "unsupported"


def test_the_allocator_runs_natively_and_is_named() -> None:
    duplicate = function(None, "strdup")
    text = ffi.new("char[]", b"some text")
    with Engine("bytes") as engine:
        copy = engine.call(duplicate, frame(int(ffi.cast("uintptr_t", text))))[0]
        assert engine.native_called == ("malloc",)
    assert ctypes.string_at(copy) == b"some text"


def test_the_interpreter_runs_natively_when_it_is_called_back() -> None:
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(a: int, b: int) -> int:
        return ctypes.string_at(a, 1)[0] - ctypes.string_at(b, 1)[0]

    data = ffi.new("char[]", b"interpreter")
    start = int(ffi.cast("uintptr_t", data))
    sort = frame(start, 11, 1, ctypes.cast(compare, ctypes.c_void_p).value or 0)
    with Engine("bytes") as engine:
        engine.call(function(None, "qsort"), sort)
        assert "the Python interpreter" in engine.native_called
    assert ffi.string(data) == bytes(sorted(b"interpreter"))


def test_translation_leaves_a_pending_exception_alone() -> None:
    """Translated code sets an exception, then comes to code that is still to be translated."""
    raise_and_go_on = ctypes.pythonapi.PyErr_NoMemory
    address = ctypes.cast(raise_and_go_on, ctypes.c_void_p).value or 0
    code = bytes.fromhex("4883ec08 ffd7 eb00 31c0 eb00 4883c408 c3")  # call rdi; blocks; return 0
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    with Engine("flops") as engine:
        entry = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(engine.entry(start))
        with pytest.raises(MemoryError):
            entry(address)


@needs("gcc")
def test_errno_is_the_programs_also_when_signals_end_the_waiting_for_the_consumer(tmp_path: Path) -> None:
    code = r"""
    #include <errno.h>
    #include <signal.h>
    #include <stddef.h>
    #include <sys/time.h>
    static void nothing(int number) { (void)number; }
    int keeps_errno(double *a, size_t n) {
        struct sigaction action = {.sa_handler = nothing}, before; /* waiting ends with EINTR */
        struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
        sigaction(SIGALRM, &action, &before);
        setitimer(ITIMER_REAL, &often, NULL);
        errno = 77;
        for (size_t k = 0; k < 20; k++)
            for (size_t i = 0; i < n; i += 1 + (i & 1)) a[(i * 7919) % n] += (double)(i ^ k);
        int found = errno;
        setitimer(ITIMER_REAL, &never, NULL);
        sigaction(SIGALRM, &before, NULL);
        return found;
    }"""
    library = str(shared(tmp_path, code))
    data = ffi.new("double[]", 100_000)
    model = CacheModel(detect().caches)
    with Engine("bytes", model.pointer) as engine:
        call = frame(int(ffi.cast("uintptr_t", data)), 100_000)
        assert engine.call(function(library, "keeps_errno"), call)[0] == 77


def test_two_engines_at_once_are_refused() -> None:
    from counteroof.errors import CounteroofError

    with Engine("flops"), pytest.raises(CounteroofError, match="already started"):
        Engine("flops")
