"""A plan come alive in this process: memory made and filled, the library loaded, set-up calls made.

This runs in the worker and timing processes only: from here on the user's code is executed.
"""

from __future__ import annotations

import functools
import os
import struct
from typing import Any

from ..errors import KernelFailed
from ..native import ffi, lib
from .arrays import GuardedArray, GuardedMemory, Span
from .memory import available_memory, huge_page_bytes
from .plan import ELEMENT_TYPES, FLOAT_REGISTERS, STACK_WORDS, Call, Plan
from .record import Recorder

Value = int | float | None


class LiveCall:
    """The kernel of a plan, ready to be called.

    Parameters
    ----------
    plan
        What to call with what.
    recorder
        Told what comes next, before anything that may end the process.

    Attributes
    ----------
    function
        Address of the kernel.
    frame
        Its arguments, a ``struct run_frame *``.

    Raises
    ------
    KernelFailed
        With kind ``setup`` if there is not enough memory or a set-up call fails.
    """

    def __init__(self, plan: Plan, recorder: Recorder | None = None) -> None:
        self.plan = plan
        self._recorder = recorder
        self._process = os.getpid()
        if not lib.run_int_registers():
            raise KernelFailed(
                "setup", f"kernels cannot be called on this architecture ({os.uname().machine})"
            )
        self._memory: dict[str, GuardedArray] = {}
        self._blocks: list[GuardedMemory] = []
        self._made_by_setup: dict[str, bytes] = {}
        # Before the arrays: the loader then puts the library near the others, as in a program of its own,
        # and code that is made for it can reach both.
        library = self._load()
        self.note("making the arrays")
        self._check_memory()
        self._blocks = [GuardedMemory(name, len(content)) for name, content in plan.blocks]
        for block, (_, content) in zip(self._blocks, plan.blocks, strict=True):
            ffi.memmove(block.pointer(block.start), content, len(content))
        for array in plan.arrays:
            self._memory[array.name] = GuardedArray(array)
        self.refill()
        if recorder is not None:
            recorder.layout(plan.library, self._layout())
        self._results: dict[str, int] = {}
        for call in plan.setup:
            self._set_up(call, _find(library, plan.library, call.symbol))
        if plan.setup:
            self._after_setup()
        self.function = _find(library, plan.library, plan.kernel.symbol)
        self.frame = self._frame(plan.kernel)
        self._float = ffi.new("double *")
        if plan.cold:
            self.flush()  # fails here if it cannot be done, and not unnoticed in a timing

    def note(self, phase: str, detail: str = "") -> None:
        """Have it written down that this comes next."""
        if self._recorder is not None:
            self._recorder.note(phase, detail)

    def _load(self) -> int:
        if self._recorder is not None:
            self._recorder.layout(self.plan.library, [])
        self.note("loading the library", self.plan.library)
        library = _open(self.plan.library)
        if self._recorder is not None:
            self._recorder.install()  # once more: the library may have put its own handlers in front
        return library

    def _check_memory(self) -> None:
        wanted = sum(array.bytes for array in self.plan.arrays)
        available = available_memory()
        if available is not None and wanted > available:
            raise KernelFailed(
                "setup",
                f"the arrays need {wanted} bytes and {available} are available; "
                "make the kernel's parameters smaller",
            )

    # -- calling

    def call(self) -> Value:
        """Call the kernel once and return its value (``None`` for a ``void`` function)."""
        bits = lib.run_call(self.function, self.frame, self._float)
        self._end_copy()
        return self._value(self.plan.kernel.returns, bits)

    def seconds(self, loops: int) -> float:
        """Return the seconds of ``loops`` calls, the arrays flushed before each if ``cache = "cold"``."""
        if self.plan.cold:
            ranges = self._ranges
            seconds = lib.run_cold_seconds(self.function, self.frame, loops, ranges, len(ranges))
        else:
            seconds = lib.run_loop_seconds(self.function, self.frame, loops)
        self._end_copy()
        return float(seconds)

    def counted_seconds(self, loops: int, groups: Any, count: int) -> float:
        """Return the seconds of ``loops`` calls with ``count`` groups of perf_event around them."""
        ranges = self._ranges if self.plan.cold else ffi.NULL
        number = len(self._ranges) if self.plan.cold else 0
        seconds = lib.perf_count_calls(self.function, self.frame, loops, ranges, number, groups, count)
        self._end_copy()
        return float(seconds)

    def _end_copy(self) -> None:
        """End this process if it is a copy of ours that the kernel made by fork(), and then returned."""
        if os.getpid() != self._process:
            os._exit(0)

    def flush(self) -> None:
        """Evict all arrays from all caches."""
        if not lib.run_flush(self._ranges, len(self._ranges)):
            raise KernelFailed(
                "setup", f"caches cannot be flushed on this architecture ({os.uname().machine})"
            )

    @functools.cached_property
    def _ranges(self) -> Any:
        return ffi.new(
            "struct run_range[]", [(memory.start, memory.bytes) for memory in self._memory.values()]
        )

    # -- memory

    @functools.cached_property
    def spans(self) -> tuple[Span, ...]:
        """Where each array lies, and whether the better part of it is on huge pages."""
        places = {name: (memory.start, memory.bytes) for name, memory in self._memory.items()}
        huge = huge_page_bytes(places)
        return tuple(Span(name, start, size, 2 * huge[name] > size) for name, (start, size) in places.items())

    def refill(self) -> None:
        """Give every array the contents it had before the kernel's first call."""
        for name, memory in self._memory.items():
            if name in self._made_by_setup:
                content = self._made_by_setup[name]
                ffi.memmove(memory.pointer(memory.start), content, len(content))
            else:
                memory.fill()

    def check_guards(self) -> None:
        """Raise KernelFailed with kind ``out-of-bounds`` if a canary next to an array has changed."""
        damages = [damage for memory in self._regions() if (damage := memory.damage())]
        if damages:
            raise KernelFailed("out-of-bounds", "; ".join(damages))

    def protect_inputs(self, read_only: bool) -> None:
        """Make the arrays declared ``access = "read"`` read-only, or writable again."""
        for memory in self._memory.values():
            if memory.plan.access == "read":
                memory.protect(read_only)

    def buffer(self, name: str) -> Any:
        """Return an array's memory as a writable buffer."""
        return self._memory[name].view()

    def _layout(self) -> list[dict[str, Any]]:
        return [
            {
                "name": memory.name,
                "start": memory.start,
                "bytes": memory.bytes,
                "first_page": memory.first_page,
                "page_bytes": memory.page_bytes,
                "dtype": memory.plan.dtype if isinstance(memory, GuardedArray) else None,
                "access": memory.plan.access if isinstance(memory, GuardedArray) else None,
            }
            for memory in self._regions()
        ]

    def free(self) -> None:
        """Give the memory back; nothing of this object may be used afterwards."""
        for memory in self._regions():
            memory.free()

    def _regions(self) -> list[GuardedMemory]:
        return [*self._memory.values(), *self._blocks]

    # -- the frame

    def _frame(self, call: Call) -> Any:
        """Deal the arguments out to registers and stack words: those of each kind in order."""
        frame = ffi.new("struct run_frame *")
        integers = floats = words = 0
        for slot in call.slots:
            bits = self._bits(slot.kind, slot.bits, slot.name)
            as_float = slot.kind == "float" or (slot.kind == "result" and self._returned(slot.name)[0] == "f")
            if as_float and floats < FLOAT_REGISTERS:
                ffi.cast("uint64_t *", frame.floats)[floats] = bits
                floats += 1
            elif not as_float and integers < lib.run_int_registers():
                frame.ints[integers] = bits
                integers += 1
            elif words < STACK_WORDS:
                frame.stack[words] = bits
                words += 1
            else:
                raise KernelFailed(
                    "input", f"{call.symbol} takes more than {STACK_WORDS} arguments on the stack"
                )
        frame.stack_words = words
        frame.returns_float = {"f64": 1, "f32": 2}.get(call.returns, 0)
        return frame

    def _bits(self, kind: str, bits: int, name: str) -> int:
        if kind == "array":
            bits = self._memory[name].start
        elif kind == "block":
            bits = self._blocks[bits].start
        elif kind == "result":
            bits = self._results[name]
        return bits

    def _returned(self, result: str) -> str:
        return next(call.returns for call in self.plan.setup if call.result == result)

    def _value(self, returns: str, bits: int) -> Value:
        if returns == "void":
            return None
        if returns in ("f32", "f64"):
            return float(self._float[0])
        if returns == "pointer":
            return bits
        size = ELEMENT_TYPES[returns][2]
        return int.from_bytes(bits.to_bytes(8, "little")[:size], "little", signed=returns[0] == "i")

    # -- set-up calls

    def _set_up(self, call: Call, function: int) -> None:
        self.note("set-up call", call.symbol)
        result = ffi.new("double *")
        bits = lib.run_call(function, self._frame(call), result)
        if call.returns == "pointer" and call.result is not None and not bits:
            raise KernelFailed("setup", f"set-up call {call.symbol} returned NULL")
        if call.result is not None:
            if call.returns == "f64":
                bits = int.from_bytes(struct.pack("<d", result[0]), "little")
            elif call.returns == "f32":
                bits = int.from_bytes(struct.pack("<f", result[0]), "little")
            elif call.returns != "pointer":  # the register's upper part is not the callee's to define
                bits = _extended(bits, call.returns)
            self._results[call.result] = bits

    def _after_setup(self) -> None:
        """Settle what the arrays hold before the first call.

        A planner scribbles over its arguments to try things out, so arrays with contents of their own get
        those again. What a set-up call put into an array of zeros (a packed copy, a table) it put there on
        purpose.
        """
        self.check_guards()
        for name, memory in self._memory.items():
            fill = memory.plan.fill
            if fill.kind == "RUN_FILL_CONSTANT" and fill.first == 0:
                if lib.run_find_other(memory.start, memory.bytes, 0) < memory.bytes:
                    self._made_by_setup[name] = bytes(memory.view())
            else:
                memory.fill()


def _open(path: str) -> int:
    handle: int = lib.run_open_library(os.fsencode(path))
    if not handle:
        from ..library import load

        load(path)  # raises, and says what is missing
        raise KernelFailed("input", f"{path} could not be loaded at first, and then it could")
    return handle


def _find(library: int, path: str, symbol: str) -> int:
    name, _, version = symbol.replace("@@", "@").partition("@")
    address: int = lib.run_find_function(library, name.encode(), version.encode())
    if not address:
        from ..library import load

        address = load(path).address(symbol)  # raises, and names the nearest
    return address


def _extended(bits: int, dtype: str) -> int:
    size = ELEMENT_TYPES[dtype][2]
    value = int.from_bytes(bits.to_bytes(8, "little")[:size], "little", signed=dtype[0] == "i")
    return value % (1 << 64)
