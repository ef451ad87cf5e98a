"""Runs functions of this process under instrumentation and says what was executed.

One engine at a time: it owns the fault signals of the process and one consumer thread. Use it in a worker.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CounteroofError, KernelFailed
from .native_code import describe

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
    -8: "a thread of a library did not let go of translated code",
    -9: "the program sets its thread pointer (the FS base), which the engine needs to find itself",
    -10: "the engine cannot read this process's code: process_vm_readv, /proc/self/maps or /proc/self/mem is"
    " refused; mount /proc, or run it without that seccomp filter",
    -11: "the engine may not have memory that is both written and executed (a seccomp filter,"
    " MemoryDenyWriteExecute, SELinux's execmem); allow that, or run it elsewhere",
    -12: "the engine's threads could not be made; raise the limit of processes (ulimit -u, a container's"
    " pids)",
}


@dataclass(frozen=True)
class Executed:
    """How often an instruction ran, and how many of its lanes were active if that depends on a mask."""

    instruction: ix.Instruction
    times: int
    active_lanes: int | None
    accesses: tuple[int, ...] = ()
    """Numbers by which a model that keeps origins knows its accesses."""


class Engine:
    """The instrumentation engine.

    Parameters
    ----------
    detail
        ``flops`` counts instructions, ``bytes`` feeds every access to ``model`` too, ``lines`` with a number.
    model
        A cffi ``struct cachesim *``, or ``None``. For ``lines`` it must keep origins.

    Raises
    ------
    CounteroofError
        If this machine cannot run it, or another engine is running.
    """

    def __init__(
        self,
        detail: Detail = "bytes",
        model: Any = None,
        *,
        native: Iterable[str] = (),
        library: str | None = None,
        own_code: bool = False,
    ) -> None:
        from ..native import ffi, lib

        self._ffi, self._lib = ffi, lib
        if platform.machine() not in ("x86_64", "AMD64"):
            raise CounteroofError(
                f"the instrumentation engine runs on x86-64 only, this is {platform.machine()}"
            )
        if not Path("/proc/self/maps").exists():
            raise CounteroofError("the instrumentation engine needs /proc: it is not mounted here")
        from .flops import rule_for
        from .native_code import NativeCode
        from .threads import Threads
        from .translate import Translator

        self._rule_for = rule_for
        features = _cpu_flags()
        native_code = NativeCode(native, library, own_code=own_code)
        self._translator = Translator(
            ffi,
            lib,
            detail,
            xsave_bytes=xsave_bytes(),
            wide_masks="avx512bw" in features,
            lanes_of=self._lanes_of,
            native=native_code,
        )
        self.others = Threads(ffi, lib, native_code)
        # cffi's extern "Python" function is one a process; it asks whichever engine runs.
        global _running
        translate = ffi.addressof(lib, "instrument_translate_apart")
        self._check(lib.instrument_start(translate, model if model is not None else ffi.NULL))
        lib.instrument_attribute(detail == "lines")
        _running = self
        _define_callback()

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

        Notes
        -----
        A library's own threads that were there before are taken over, so that what they do is counted too.
        """
        result, float_result = self._ffi.new("uint64_t *"), self._ffi.new("double *")
        fault = self._ffi.new("struct instrument_fault *")
        self.others.take_over()
        status = self._lib.instrument_call(function, frame, result, float_result, fault)
        if status:
            raise self._failure(status, fault)
        self.check()
        return result[0], float_result[0]

    def check(self) -> None:
        """Raise if code that nobody could be told of came to something the engine cannot do, since the last
        reset: it went on natively, uncounted.

        That is code of other threads than the one :meth:`call` was called on, and what native code calls by
        an :meth:`entry`.

        Raises
        ------
        KernelFailed, CounteroofError
            As :meth:`call` does.
        """
        fault = self._ffi.new("struct instrument_fault *")
        status = self._lib.instrument_gave_up(fault)
        if status:
            raise self._failure(status, fault)

    def runs_natively(self, function: int) -> bool:
        """Tell whether the function at an address is one that is never translated."""
        return self._translator.runs_natively(function)

    def entry(self, function: int) -> int:
        """Return an address that native code can call in place of ``function``, to have it run instrumented.

        Any thread may call it. It stays valid until the engine is closed.
        """
        entry = self._lib.instrument_entry(function)
        if not entry:
            raise MemoryError("no memory for an entry into translated code")
        return int(entry)

    def forget(self) -> None:
        """Translate everything anew from now on: code has changed. Counts so far are kept."""
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
    def native_calls(self) -> dict[str, int]:
        """How often translated code called functions that run natively, uncounted, since the last reset."""
        calls: Counter[str] = Counter()
        for block, times in zip(self.blocks, self.block_counts(), strict=True):
            if block.native is not None and times:
                calls[block.native] += times
        return dict(sorted(calls.items()))

    @property
    def native_called(self) -> tuple[str, ...]:
        """Names of the functions that ran natively, and so were not counted, since the last reset."""
        return tuple(self.native_calls)

    @property
    def threads_lost(self) -> int:
        """Threads that code made by system calls of its own since the last reset: they run natively,
        uncounted."""
        return int(self._lib.instrument_threads_lost())

    @property
    def threads(self) -> int:
        """Threads that have run translated code so far; slots of ended threads are used again."""
        return int(self._lib.instrument_threads())

    def block_counts(self, thread: int | None = None) -> list[int]:
        """Return how often each block ran since the last reset, on one thread or on all."""
        self.drain()
        n = len(self._translator.blocks)
        total = [0] * n
        counts = self._ffi.new("uint64_t[]", n + 1)
        for number in range(self.threads) if thread is None else (thread,):
            if self._lib.instrument_block_counts(number, counts, n) != n:
                raise ValueError(f"there is no thread {number}: {self.threads} have run translated code")
            total = [a + b for a, b in zip(total, counts[0:n], strict=True)]
        return total

    def executed(self, thread: int | None = None, *, idle: bool = False) -> Iterator[Executed]:
        """Yield every instruction of every block that ran since the last reset, on one thread or on all.

        With ``idle`` also those of blocks that did not: lines they made dirty before may be written since.
        """
        numbers = range(self.threads) if thread is None else (thread,)
        counts = self.block_counts(thread)
        blocks = self.blocks[: len(counts)]  # threads of a pool may still be translating
        partial = self._partial_runs(numbers)
        for number, (block, times) in enumerate(zip(blocks, counts, strict=True)):
            left = partial.get(number, ())
            if not times and not left and not idle:
                continue
            accesses: dict[int, list[int]] = {}
            for access, position in enumerate(block.accesses, block.first_access):
                accesses.setdefault(position, []).append(access)
            groups = {masked.position: masked.group for masked in block.masked}
            for position, instruction in enumerate(block.instructions):
                group = groups.get(position)
                lanes = None
                if group is not None:
                    lanes = sum(int(self._lib.instrument_lane_count(at, number, group)) for at in numbers)
                more = sum(often for place, often in left if position < place)
                yield Executed(instruction, times + more, lanes, tuple(accesses.get(position, ())))

    def watch_strides(self, arrays: Iterable[tuple[int, int]]) -> None:
        """From now on look at how far apart successive addresses are, in arrays given as (start, bytes)."""
        ranges = self._ffi.new("struct run_range[]", list(arrays))
        self._check(self._lib.instrument_watch_strides(ranges, len(ranges)))

    def strides(self) -> Iterator[tuple[TranslatedBlock, int, Sequence[Any]]]:
        """Yield the blocks of which accesses were looked at since the last reset.

        With each how often it ran, and a ``struct instrument_strides`` for each of its accesses.
        """
        room = self._ffi.new("struct instrument_strides[]", 1024)
        for number, times in enumerate(self.block_counts()):
            count = self._lib.instrument_block_strides(number, room, 1024) if times else 0
            if count:
                yield self.blocks[number], times, room[0:count]

    def _partial_runs(self, threads: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
        """Return, by block, before which place a fault or signal made it end, and how often."""
        room = self._ffi.new("struct instrument_partial[]", 8192)
        count = self._lib.instrument_partials(room, 8192)
        if count < 0:
            raise CounteroofError("code was interrupted at more places than the engine can keep apart")
        found: dict[int, list[tuple[int, int]]] = {}
        for item in room[0:count]:
            if item.thread in threads:
                found.setdefault(item.block, []).append((item.place, item.times))
        return found

    def _lanes_of(self, instruction: ix.Instruction) -> int:
        rule: FlopRule | None = self._rule_for(instruction)
        return rule.mask_lanes if rule is not None and rule.masked else 0

    def _failure(self, status: int, fault: Any) -> CounteroofError:
        if status == -7:
            error = self._translator.failure
            made = CounteroofError(f"the translator failed: {error!r}")
            made.__cause__ = error
            return made
        if status != -6:
            return CounteroofError(STATUS.get(status, f"the engine returned {status}"))
        found = self._translator.original(fault.host)
        why = found[0].unsupported if found else f"code at {fault.host:#x}"
        return KernelFailed("unsupported", f"the engine cannot run this: {why}, in {describe(fault.guest)}")

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


def _cpu_flags() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def xsave_bytes() -> int:
    """Return what ``xsave`` writes with the features this system has enabled."""
    from ..native import lib

    return int(lib.instrument_xsave_size())
