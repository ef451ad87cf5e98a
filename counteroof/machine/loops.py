"""The hand-written loops of ``csrc/ceilings`` as data, and the pinned threads that run and time them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import units
from ..errors import MachineError
from . import sysfs
from .boundary import Boundary

_ANY = "*"
_HUGE = 2 << 20
UNDISTURBED = 0.95
"""From this share of its time on, a sample is one of the machine and not of what else ran on it."""


@dataclass(frozen=True)
class Loop:
    """One loop of the table in C; what its fields mean is said in ``csrc/ceilings/ceilings.h``."""

    index: int
    mix: str
    isa: str
    precision: str
    streams: str
    chunk_bytes: int
    flops: int
    fused: int
    order: str = ""

    @property
    def of_lines(self) -> bool:
        """Whether each load is of another line, which moves whole for it."""
        return self.order in ("chain", "chains", "stride", "pages", "far pages", "set")

    @property
    def apart(self) -> int:
        """How many chunks lie between the beginnings of two that follow each other in a stream."""
        from ..native import lib

        apart = {
            "pages": int(lib.CEILINGS_WALK_LINES),
            "far pages": int(lib.CEILINGS_FAR_LINES),
            "set": int(lib.CEILINGS_SET_LINES),
        }
        return apart.get(self.order, 1)

    def moved_bytes(self, boundary: Boundary) -> int:
        """Return the bytes that one iteration moves across a boundary."""
        return self.chunk_bytes * boundary.element_bytes(self.streams) // 8

    def convention(self, boundary: Boundary | None) -> str:
        """Return what the bytes of a bandwidth at this boundary, or the FLOPs of a peak, are."""
        if boundary is None and self.precision == "int8":
            return "operations on integers; a multiplication with an addition is two"
        if boundary is None and self.mix == "DOT":
            return "a multiplication with an addition is two FLOPs"
        if boundary is None:
            return "a fused multiply-add is two FLOPs"
        element = f"{boundary.element_bytes(self.streams)} B an element"
        if self.of_lines:
            element = f"{self.moved_bytes(boundary)} B a load"
        return f"{boundary.convention}: {element}"


@dataclass(frozen=True)
class Samples:
    """Seconds and iterations (of all threads) of each sample, and its clock.

    Of each thread in each sample: the chains of the clock probe after it, and the clock in it as hardware
    counters have it, ``None`` where ``uncounted`` says why they do not.
    """

    seconds: tuple[float, ...]
    iterations: tuple[int, ...]
    add_seconds: tuple[float, ...] = ()
    multiply_seconds: tuple[float, ...] = ()
    busy: tuple[float, ...] = ()
    """Share of each sample in which all threads were running; other processes take the rest."""

    counted_hz: tuple[float | None, ...] = ()
    uncounted: str = "nobody asked for one"

    @property
    def undisturbed(self) -> int:
        """Number of samples that nothing took a processor away from."""
        return sum(share >= UNDISTURBED for share in self.busy)

    def __add__(self, other: Samples) -> Samples:
        return Samples(
            self.seconds + other.seconds,
            self.iterations + other.iterations,
            self.add_seconds + other.add_seconds,
            self.multiply_seconds + other.multiply_seconds,
            self.busy + other.busy,
            self.counted_hz + other.counted_hz,
            other.uncounted or self.uncounted,
        )


NO_SAMPLES = Samples((), (), uncounted="")


def table() -> tuple[Loop, ...]:
    """Return all loops for this architecture, those included that this processor cannot run."""
    from ..native import ffi, lib

    found = []
    for index in range(lib.ceilings_loop_count()):
        entry = lib.ceilings_loop(index)
        mix, isa, precision, streams, order = (
            ffi.string(text).decode()
            for text in (entry.mix, entry.isa, entry.precision, entry.streams, entry.order)
        )
        found.append(
            Loop(index, mix, isa, precision, streams, entry.chunk_bytes, entry.flops, entry.fused, order)
        )
    return tuple(found)


def mixed(loads: int, stores: int) -> tuple[Loop, ...]:
    """Return the loops this processor can run that read so many streams and write so many others."""
    from ..native import lib

    streams = "r" * loads + "w" * stores
    return tuple(
        replace(loop, mix=f"{loads}:{stores}", streams=streams)
        for loop in table()
        if loop.streams == _ANY and lib.ceilings_loop_usable(loop.index)
    )


def loops() -> tuple[Loop, ...]:
    """Return the loops this processor can run, of each kind and order one, in the best encoding.

    Those of :func:`mixed` are not among them.
    """
    from ..native import lib

    found: dict[tuple[str, str, str, str], Loop] = {}
    for loop in table():
        if loop.streams != _ANY and lib.ceilings_loop_usable(loop.index):
            # the table has the better encoding first
            found.setdefault((loop.mix, loop.isa, loop.precision, loop.order), loop)
    if any(loop.isa == "AVX2" for loop in found.values()):
        # the same loops as those of AVX2 without fused multiply-adds
        return tuple(loop for loop in found.values() if loop.isa != "AVX")
    return tuple(found.values())


class Team:
    """Threads pinned to processors while they measure, and their memory.

    Parameters
    ----------
    cpus
        One for each thread.
    bytes_each
        Memory of each thread; written before anything reads it, so that none of it is the kernel's zero page.
    small_bytes
        More memory of each thread, for which no huge pages are asked.
    chain_bytes
        Of each thread's memory become a chain of pointers, for the loops ``random`` and ``scattered`` alone.
    home
        Processors that write the memory, and so choose the node it lies on; by default ``cpus``.
    """

    def __init__(
        self,
        cpus: Sequence[int],
        bytes_each: int = 0,
        *,
        small_bytes: int = 0,
        chain_bytes: int = 0,
        home: Sequence[int] | None = None,
    ) -> None:
        from ..native import ffi, lib

        self.cpus = tuple(cpus)
        self._ffi, self._lib = ffi, lib
        self._cpus = ffi.new("int32_t[]", list(cpus))
        self._memory: Any = ffi.NULL
        self._huge = -(-bytes_each // _HUGE) * _HUGE
        if bytes_each or small_bytes:
            out = ffi.new("struct ceilings_memory **")
            writers = ffi.new("int32_t[]", list(home or cpus))
            status = lib.ceilings_memory_new(len(cpus), writers, bytes_each, small_bytes, chain_bytes, out)
            total = (bytes_each + small_bytes) * len(cpus)
            self._check(status, f"{units.binary_bytes(total)} of memory")
            self._memory = ffi.gc(out[0], lib.ceilings_memory_free)

    def chain(self, bytes_each: int) -> None:
        """Make the chain of each thread another one, of so many bytes."""
        self._check(self._lib.ceilings_memory_chain(self._memory, bytes_each), "a chain of pointers")

    def huge_share(self) -> float | None:
        """Return the share of the memory that lies on huge pages, or ``None`` if the kernel does not tell."""
        size = self._ffi.new("uint64_t *")
        start = int(self._lib.ceilings_memory_place(self._memory, size))
        return sysfs.huge_share(sysfs.Tree(Path("/")), start, int(size[0]))

    def close(self) -> None:
        """Give the memory back."""
        if self._memory != self._ffi.NULL:
            self._ffi.release(self._memory)
            self._memory = self._ffi.NULL

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(
        self,
        loop: Loop,
        iterations: int,
        samples: int,
        *,
        stream_bytes: int = 0,
        place: int = 0,
        small_pages: bool = False,
        wrapped: bool = False,
        warmups: int = 2,
        probe_operations: int = 0,
    ) -> Samples:
        """Return ``samples`` samples of ``iterations`` iterations on each thread.

        Parameters
        ----------
        stream_bytes
            Of each stream of each thread; a power of two if wrapped.
        place
            Where the streams begin in the thread's memory, which with ``small_pages`` is that of such.
        wrapped
            Whether a sample goes round its streams, or goes on where the last one ended.
        warmups
            Samples run first and dropped.
        probe_operations
            Length of the clock chains after each sample; 0 for none.
        """
        threads = len(self.cpus)
        new = self._ffi.new
        seconds, done = new("double[]", samples), new("uint64_t[]", samples)
        add, multiply = new("double[]", samples * threads), new("double[]", samples * threads)
        busy, counted = new("double[]", samples), new("double[]", samples * threads)
        result = new(
            "struct ceilings_result *",
            {
                "seconds": seconds,
                "iterations": done,
                "add_seconds": add,
                "multiply_seconds": multiply,
                "busy": busy,
                "counted_hz": counted,
            },
        )
        request = new(
            "struct ceilings_job *",
            {
                "loop": loop.index,
                "threads": threads,
                "cpus": self._cpus,
                "memory": self._memory if loop.streams else self._ffi.NULL,
                "place": place + (self._huge if small_pages else 0),
                "stream_bytes": stream_bytes,
                "loads": loop.streams.count("r"),
                "stores": loop.streams.count("w"),
                "wrapped": wrapped,
                "samples": samples,
                "warmups": warmups,
                "probe_operations": probe_operations,
                "iterations": iterations,
            },
        )
        self._check(self._lib.ceilings_run(request, result), f"the loop {loop.isa} {loop.mix}")
        probes = (tuple(add), tuple(multiply)) if probe_operations else ((), ())
        return Samples(
            tuple(seconds),
            tuple(done),
            *probes,
            busy=tuple(busy),
            counted_hz=tuple(None if math.isnan(hz) else hz for hz in counted),
            uncounted=os.strerror(result.uncounted) if result.uncounted else "",
        )

    def _check(self, status: int, what: str) -> None:
        if status:
            raise MachineError(
                f"{what} could not be run on processors {sysfs.cpu_list(self.cpus)}: {os.strerror(-status)}"
            )
