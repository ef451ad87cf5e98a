"""A call with everything worked out: sizes, fills and argument values as plain numbers.

The plan is made once, in the parent; the processes that run the kernel need neither the spec nor the
formulas, nor the signature, and so start quickly. Nothing here calls or loads anything.
"""

from __future__ import annotations

from typing import NamedTuple

STACK_WORDS = 32
FLOAT_REGISTERS = 8

ELEMENT_TYPES = {
    "f16": ("RUN_F16", 1, 2),
    "f32": ("RUN_F32", 1, 4),
    "f64": ("RUN_F64", 1, 8),
    "c64": ("RUN_F32", 2, 8),
    "c128": ("RUN_F64", 2, 16),
    "i8": ("RUN_I8", 1, 1),
    "i16": ("RUN_I16", 1, 2),
    "i32": ("RUN_I32", 1, 4),
    "i64": ("RUN_I64", 1, 8),
    "u8": ("RUN_U8", 1, 1),
    "u16": ("RUN_U16", 1, 2),
    "u32": ("RUN_U32", 1, 4),
    "u64": ("RUN_U64", 1, 8),
}
"""For each element type: that of the numbers in it, how many, and the bytes of an element."""


class Fill(NamedTuple):
    """The contents of an array; ``kind`` names one of ``enum run_fill_kind``, or is ``file``."""

    kind: str
    seed: int = 0
    first: float = 0
    last: float = 0
    step: float = 0
    per_row: int = 0
    columns: int = 0
    real_only: bool = False
    path: str = ""


class ArrayPlan(NamedTuple):
    """One array to be made."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    align: int
    access: str | None
    fill: Fill


class Slot(NamedTuple):
    """One argument: ``kind`` is ``int`` or ``float`` (``bits`` is the value), ``array`` or ``block``
    (``name`` says which; its address is passed), or ``result`` (``name`` is that of an earlier call's
    returned value)."""

    kind: str
    bits: int = 0
    name: str = ""


class Call(NamedTuple):
    """A function to call; ``returns`` is ``void``, ``pointer``, ``f32``, ``f64`` or an integer type."""

    symbol: str
    slots: tuple[Slot, ...]
    returns: str
    result: str | None = None


class Plan(NamedTuple):
    """Everything a process must know to run one case."""

    label: str
    library: str
    arrays: tuple[ArrayPlan, ...]
    blocks: tuple[tuple[str, bytes], ...]
    setup: tuple[Call, ...]
    kernel: Call
    cold: bool
