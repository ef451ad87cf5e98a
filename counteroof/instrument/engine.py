"""Runs functions of this process under instrumentation and says what was executed.

One engine at a time: it owns the fault signals of the process and one consumer thread. Use it in a worker.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CounteroofError, KernelFailed

if TYPE_CHECKING:
    import iced_x86 as ix

    from .flops import FlopRule
    from .translate import Detail, TranslatedBlock

STATUS = {
    -1: "this processor or system cannot run the engine (it needs x86-64 with XSAVE)",
    -2: "out of memory",
    -3: "the engine is already started",
    -4: "the engine is not started",
    -5: "a limit of the engine was reached",
}

ALLOCATOR = (
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
    "malloc_usable_size",
    "malloc_trim",
    "mallopt",
    "cfree",
)
"""Runs natively: the engine itself allocates, and must not find the allocator's locks taken."""
LOADER = ("dlopen", "dlmopen", "dlclose", "dlsym", "dlvsym", "dladdr", "dlerror", "dl_iterate_phdr")
PROCESSES = (
    "fork",
    "vfork",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "pclose",
    "exit",
    "_exit",
    "_Exit",
    "abort",
    "pthread_create",
    "pthread_exit",
)


@dataclass(frozen=True)
class Executed:
    """How often an instruction ran, and how many of its lanes were active if that depends on a mask."""

    instruction: ix.Instruction
    times: int
    active_lanes: int | None


class Engine:
    """The instrumentation engine.

    Parameters
    ----------
    detail
        ``flops`` counts instructions, ``bytes`` feeds every access to ``model`` too.
    model
        A cffi ``struct cachesim *``, or ``None``.

    Raises
    ------
    CounteroofError
        If this machine cannot run it, or another engine is running.
    """

    def __init__(self, detail: Detail = "bytes", model: Any = None) -> None:
        from ..native import ffi, lib

        self._ffi, self._lib = ffi, lib
        if platform.machine() not in ("x86_64", "AMD64"):
            raise CounteroofError(
                f"the instrumentation engine runs on x86-64 only, this is {platform.machine()}"
            )
        from .flops import rule_for
        from .translate import Translator

        self._rule_for = rule_for
        features = _cpu_flags()
        self.native_functions = _native_functions()
        self._translator = Translator(
            ffi,
            lib,
            detail,
            xsave_bytes=_xsave_bytes(),
            wide_masks="avx512bw" in features,
            lanes_of=self._lanes_of,
            native=self.native_functions,
        )
        # cffi's extern "Python" function is one a process; it asks whichever engine runs.
        global _running
        self._check(lib.instrument_start(lib.instrument_translate, model if model is not None else ffi.NULL))
        _running = self
        _define_callback()
        self._entries: dict[int, int] = {}

    def close(self) -> None:
        """Give back signals, memory and the consumer thread."""
        global _running
        self._check(self._lib.instrument_stop())
        _running = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def call(self, function: int, frame: Any) -> tuple[int, float]:
        """Call the function at an address under instrumentation; return its integer and floating-point
        result.

        Raises
        ------
        KernelFailed
            ``unsupported``: the function came to an instruction that cannot be run. A fault goes to the
            handler that was there before the engine, with the original address, as if there were no engine.
        """
        entry = self.entry(function)
        result, float_result = self._ffi.new("uint64_t *"), self._ffi.new("double *")
        fault = self._ffi.new("struct instrument_fault *")
        status = self._lib.instrument_call(entry, frame, result, float_result, fault)
        if status == -7:
            error = self._translator.failure
            raise CounteroofError(f"the translator failed: {error!r}") from error
        if status == -6:
            raise self._unsupported(fault)
        self._check(status)
        return result[0], float_result[0]

    def entry(self, function: int) -> int:
        """Return an address that native code can call instead of ``function``, to have it run under
        instrumentation."""
        entry = self._entries.get(function)
        if entry is None:
            entry = self._entries[function] = self._translator.entry(function)
        return entry

    def forget(self) -> None:
        """Translate everything anew from now on: code has changed. Entries made before must not be used any
        more."""
        self._entries.clear()
        self._translator.forget()

    def drain(self) -> None:
        """Wait until the model has seen everything that was recorded."""
        self._check(self._lib.instrument_drain())

    def reset(self) -> None:
        """Drain and zero all counts; translations are kept."""
        self.drain()
        self._lib.instrument_reset()

    @property
    def blocks(self) -> tuple[TranslatedBlock, ...]:
        """Blocks translated so far."""
        return tuple(self._translator.blocks)

    @property
    def native_called(self) -> tuple[str, ...]:
        """Names of functions that ran natively and so were not counted."""
        return tuple(sorted({self.native_functions[address] for address in self._translator.native_called}))

    def block_counts(self) -> list[int]:
        """Return how often each block ran since the last reset."""
        self.drain()
        n = len(self._translator.blocks)
        counts = self._ffi.new("uint64_t[]", n + 1)
        self._lib.instrument_block_counts(counts, n)
        return list(counts[0:n])

    def executed(self) -> Iterator[Executed]:
        """Yield every instruction of every block that ran since the last reset."""
        for number, (block, times) in enumerate(zip(self.blocks, self.block_counts(), strict=True)):
            if not times:
                continue
            groups = {masked.position: masked.group for masked in block.masked}
            for position, instruction in enumerate(block.instructions):
                group = groups.get(position)
                lanes = None if group is None else int(self._lib.instrument_lane_count(number, group))
                yield Executed(instruction, times, lanes)

    def _lanes_of(self, instruction: ix.Instruction) -> int:
        rule: FlopRule | None = self._rule_for(instruction)
        return rule.mask_lanes if rule is not None and rule.masked else 0

    def _unsupported(self, fault: Any) -> KernelFailed:
        found = self._translator.original(fault.host)
        why = found[0].unsupported if found else f"code at {fault.host:#x}"
        return KernelFailed(
            "unsupported", f"the engine cannot run this: {why}, in {_symbol(fault.block_guest)}"
        )

    def _check(self, status: int) -> None:
        if status:
            raise CounteroofError(STATUS.get(status, f"the engine returned {status}"))


_running: Engine | None = None
_callback_defined = False


def _define_callback() -> None:
    """Give cffi the Python side of ``instrument_translate``."""
    global _callback_defined
    if _callback_defined:
        return
    from ..native import ffi

    @ffi.def_extern(name="instrument_translate", error=0)  # type: ignore[untyped-decorator]
    def translate(guest: int) -> int:
        return _running._translator.translate(guest) if _running is not None else 0

    _callback_defined = True


def _native_functions() -> dict[int, str]:
    """Return address and name of the functions that run natively."""
    process = ctypes.CDLL(None)
    found = {}
    for name in (*ALLOCATOR, *LOADER, *PROCESSES):
        try:
            found[ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0] = name
        except AttributeError:
            continue
    return found


def _cpu_flags() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def _xsave_bytes() -> int:
    """Return what ``xsave`` writes with the features this system has enabled."""
    from ..native import lib

    return int(lib.instrument_xsave_size())


def _symbol(address: int) -> str:
    """Return ``symbol+offset (file)`` for an address of this process, as the loader knows it."""

    class Info(ctypes.Structure):
        _fields_ = (
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("name", ctypes.c_char_p),
            ("start", ctypes.c_void_p),
        )

    info = Info()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info)) or not info.file:
        return f"{address:#x}"
    file = info.file.decode(errors="replace")
    if not info.name:
        return f"{file}+{address - (info.base or 0):#x}"
    return f"{info.name.decode(errors='replace')}+{address - (info.start or 0):#x} ({file})"
