"""Threads that were there before the engine: those of a library's pool are taken over, so that they count.

A library may have made them when it was loaded, or in its first call, and there they wait for work. Threads
of thread runtimes and of Python stay as they are: the functions that a runtime is passed run translated on
them anyway.
"""

from __future__ import annotations

import itertools
import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .native_code import NativeCode

TASKS = Path("/proc/self/task")
TRIES = 200
"""A thread that cannot be taken over where it is, such as in the allocator, is asked again, every
millisecond."""
FRAMES = 128
"""How deep a thread's calls are looked at, to find who waits."""
STACK = 2048
"""Bytes of a thread's stack that are searched for who waits where its calls cannot be followed: above them
may be anybody's data."""
SIGURG_BLOCKED = 1 << 22
SYSCALL = b"\x0f\x05"


class Threads:
    """The threads of this process that are not the engine's."""

    def __init__(self, ffi: Any, lib: Any, native: NativeCode) -> None:
        self._lib, self._native = lib, native
        self._frames, self._stack = ffi.new("uint64_t[]", FRAMES), ffi.new("uint64_t *")
        self._settled: set[int] = set()
        self._left: dict[int, str] = {}

    def take_over(self) -> None:
        """Take over the threads that can be, but for the calling one."""
        found = {int(name) for name in os.listdir(TASKS)}
        self._settled &= found
        self._left = {thread: why for thread, why in self._left.items() if thread in found}
        new = found - self._settled - {threading.get_native_id()}
        if not new:
            return
        new -= {self._lib.instrument_inside(number) for number in range(self._lib.instrument_threads())}
        new -= set(self._consumers())
        for thread in sorted(new):
            reason = self._take_over(thread)
            if reason is not None:
                self._left[thread] = reason
            else:
                self._left.pop(thread, None)

    def _consumers(self) -> Iterator[int]:
        for number in itertools.count():
            thread = self._lib.instrument_consumer_thread(number)
            if not thread:
                return
            yield thread

    @property
    def left(self) -> Mapping[int, str]:
        """The threads that could not be taken over, and why."""
        return dict(self._left)

    def busy(self) -> dict[int, int]:
        """Return the processor time in nanoseconds of each thread that could not be taken over."""
        return {thread: used for thread in self._left if (used := _processor_time(thread)) is not None}

    def worked(self, before: Mapping[int, int]) -> str | None:
        """Return which of these threads has worked since :meth:`busy`, and why it was left alone."""
        for thread, used in self.busy().items():
            spent = used - before.get(thread, 0)
            if spent > NOISE:
                return f"a thread worked {spent / 1e6:.3g} ms beside what was counted: {self._left[thread]}"
        return None

    def _take_over(self, thread: int) -> str | None:
        """Return why a thread cannot be taken over; ``None`` if it is, or is to be left as it is."""
        reason = ""
        # One that was left alone before is asked once more only: it would cost every call the same time.
        for _ in range(1 if thread in self._left else TRIES):
            if reason:
                time.sleep(0.001)
            if _blocks_signal(thread):  # the C library lets a new thread begin so
                reason = "it blocks the signal to take it over with"
                continue
            found = self._lib.instrument_stop_thread(thread, self._frames, FRAMES, self._stack)
            if found < 0:
                return "it did not answer the signal to take it over with"
            frames = list(self._frames[0:found])
            counter = frames[0]
            if self._is_runtime(frames):
                self._lib.instrument_decide(0)
                self._settled.add(thread)
                return None
            take = not self._native.is_system(counter) or _at_system_call(counter)
            done = self._lib.instrument_decide(take) == 0
            if take and done:
                return None
            reason = "the engine has no memory for it" if take else "it never left the C library"
        return reason

    def _is_runtime(self, frames: Sequence[int]) -> bool:
        """Tell whether a stopped thread belongs to a thread runtime or the interpreter."""
        if any(map(self._native.is_runtime, frames)):
            return True
        if 1 < len(frames) < FRAMES and self._native.is_system(frames[-1]):
            return False  # its calls were followed up to where the C library began it
        return any(map(self._native.is_runtime, _words(self._stack[0])))


NOISE = 50_000
"""Nanoseconds of processor time that a thread without work may use."""


def _at_system_call(counter: int) -> bool:
    """Tell whether a thread is in a system call: at the instruction, to make it again, or just behind it."""
    return SYSCALL in (_memory(counter, 2), _memory(counter - 2, 2))


def _memory(address: int, count: int) -> bytes:
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return os.pread(memory, count, address)
    except OSError:
        return b""
    finally:
        os.close(memory)


def _blocks_signal(thread: int) -> bool:
    try:
        lines = (TASKS / str(thread) / "status").read_text().splitlines()
    except OSError:
        return False  # it has ended
    return any(int(line.split()[1], 16) & SIGURG_BLOCKED for line in lines if line.startswith("SigBlk:"))


def _words(stack: int) -> Iterable[int]:
    """Return the words of a thread's stack, from its stack pointer."""
    data = _memory(stack, STACK)
    return struct.unpack_from(f"<{len(data) // 8}Q", data)


def _processor_time(thread: int) -> int | None:
    """Return the nanoseconds a thread has run (Linux makes its clock's number from the thread's)."""
    try:
        return time.clock_gettime_ns(~thread << 3 | 6)
    except OSError:
        return None
