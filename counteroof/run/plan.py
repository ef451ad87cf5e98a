"""A call with everything worked out: sizes, fills and argument values as plain numbers.

The plan is made once, in the parent; the processes that run the kernel need neither the spec nor the formulas, nor
the signature, and so start quickly. Nothing here calls or loads anything.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import KernelFailed

if TYPE_CHECKING:
    from ..signature import CType, Signature
    from ..spec import Argument, ArrayArg, KernelCase, StructArg

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

_PACK = {"f16": "e", "f32": "f", "f64": "d", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}
_PACK |= {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}


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
    """One argument: ``kind`` is ``int`` or ``float`` (``bits`` is the value), ``array`` or ``block`` (``name`` says
    which; its address is passed), or ``result`` (``name`` is that of an earlier call's returned value)."""

    kind: str
    bits: int = 0
    name: str = ""


class Call(NamedTuple):
    """A function to call. ``returns`` is ``none``, ``pointer``, ``f32``, ``f64`` or an integer type such as ``i32``."""

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


def make_plan(case: KernelCase, library: str, signatures: Sequence[Signature]) -> Plan:
    """Work out one case.

    Parameters
    ----------
    case
        The kernel and its parameters.
    library
        Path of the shared library.
    signatures
        Those of the set-up calls, in order, then the kernel's.

    Raises
    ------
    KernelFailed
        With kind ``input`` if the arguments do not go with the signature.
    """
    spec = case.spec
    blocks: list[tuple[str, bytes]] = []
    dtypes = {array.name: array.dtype for array in spec.arrays}
    results: dict[str, str] = {}
    setup = []
    for call, signature in zip(spec.setup, signatures[:-1], strict=True):
        maker = _CallMaker(case, signature, dtypes, results, blocks)
        made = maker.call(call.symbol, call.args)._replace(result=call.result)
        setup.append(made)
        if call.result is not None:
            if made.returns == "none":
                raise KernelFailed("input", f"set-up call {call.symbol} returns nothing, but is to give {call.result!r}")
            results[call.result] = made.returns
    kernel = _CallMaker(case, signatures[-1], dtypes, results, blocks).call(spec.symbol, spec.args)
    return Plan(
        case.label,
        library,
        tuple(_array_plan(array, case) for array in spec.arrays),
        tuple(blocks),
        tuple(setup),
        kernel,
        spec.cache == "cold",
    )


def _array_plan(array: ArrayArg, case: KernelCase) -> ArrayPlan:
    fill = _fill(array, array.init.kind, array.init.values(case.params))
    shape = array.shape_at(case.params)
    return ArrayPlan(array.name, array.dtype, shape, array.bytes_at(case.params), array.align, array.access, fill)


def _fill(array: ArrayArg, kind: str, options: Mapping[str, object]) -> Fill:
    def number(key: str, default: float) -> float:
        value = options[key]
        return value if isinstance(value, int | float) else default

    # The name is part of the seed, so that two arrays of one kernel differ without a word in the spec.
    seed = (zlib.crc32(array.name.encode()) << 32) + int(number("seed", 0)) if "seed" in options else 0
    seed %= 1 << 64
    whole = array.dtype[0] in "iu"
    if kind == "zeros":
        return Fill("RUN_FILL_CONSTANT")
    if kind == "constant":
        return Fill("RUN_FILL_CONSTANT", first=_whole(array, number("value", 0)), real_only=array.dtype[0] == "c")
    if kind == "arange":
        first, step = _whole(array, number("start", 0)), _whole(array, number("step", 1))
        return Fill("RUN_FILL_ARANGE", first=first, step=step, real_only=array.dtype[0] == "c")
    if kind == "random" and whole:
        bits = int(array.dtype[1:])
        low, high = number("low", 0), number("high", min(1 << (bits - 2), 1 << 30))
        return Fill("RUN_FILL_RANDOM", seed, first=_whole(array, low), last=_whole(array, high - 1))
    if kind == "random":
        return Fill("RUN_FILL_RANDOM", seed, first=number("low", 0), last=number("high", 1))
    if kind == "permutation":
        return Fill("RUN_FILL_PERMUTATION", seed)
    per_row = int(number("nnz_per_row", 0))
    if kind == "csr_indptr":
        return Fill("RUN_FILL_INDPTR", per_row=per_row)
    if kind == "csr_indices":
        return Fill("RUN_FILL_INDICES", seed, per_row=per_row, columns=int(number("cols", 0)))
    if kind == "file":
        return Fill("file", path=str(options["path"]))
    raise KernelFailed("input", f"array {array.name}: {kind!r} is no known way to fill an array")


def _whole(array: ArrayArg, value: float) -> float:
    """Check that a value fits the array's type: an integer array holds whole numbers of its range."""
    if array.dtype[0] not in "iu":
        return value
    if value != int(value) or not _fits(int(value), int(array.dtype[1:]) // 8, array.dtype[0] == "i"):
        raise KernelFailed("input", f"array {array.name}: {value} is not a number that {array.dtype} can hold")
    return int(value)


def _fits(value: int, size: int, signed: bool) -> bool:
    bits = 8 * size
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if signed else 0 <= value < 1 << bits


class _CallMaker:
    """Turns the arguments of one call into slots, checking each against its parameter."""

    def __init__(
        self,
        case: KernelCase,
        signature: Signature,
        dtypes: Mapping[str, str],
        results: Mapping[str, str],
        blocks: list[tuple[str, bytes]],
    ) -> None:
        self.case, self.signature = case, signature
        self.dtypes, self.results, self.blocks = dtypes, results, blocks

    def call(self, symbol: str, args: Sequence[Argument]) -> Call:
        if self.signature.unsupported:
            raise KernelFailed("input", f"{symbol} cannot be called: {self.signature.unsupported}")
        slots = tuple(
            self.slot(arg, param.type) for arg, param in zip(self.in_order(args), self.signature.params, strict=True)
        )
        return Call(symbol, slots, self.returns(self.signature.returns))

    def returns(self, ctype: CType) -> str:
        if ctype.kind == "void":
            return "none"
        if ctype.kind == "pointer":
            return "pointer"
        if ctype.kind == "float" and ctype.size in (4, 8):
            return f"f{ctype.size * 8}"
        if ctype.kind in ("int", "bool") and ctype.size in (1, 2, 4, 8):
            return f"{'i' if ctype.signed else 'u'}{ctype.size * 8}"
        raise KernelFailed("input", f"{self.signature.name} returns {ctype}, which counteroof cannot receive")

    def in_order(self, args: Sequence[Argument]) -> list[Argument]:
        """Return the arguments in the order of the parameters: by name if all names are the same, else as given."""
        names = [param.name for param in self.signature.params]
        given = [arg.name for arg in args]
        if len(names) != len(given):
            raise self.mismatch(f"{len(given)} arguments are given and {len(names)} parameters taken")
        if sorted(names) == sorted(given):
            by_name = {arg.name: arg for arg in args}
            return [by_name[name] for name in names]
        for place, name in enumerate(given):
            if name in names and names.index(name) != place:
                raise self.mismatch(
                    f"argument {name!r} is number {place + 1}, but parameter {name!r} is number {names.index(name) + 1}"
                    "; give the arguments the names of the parameters, or other names"
                )
        return list(args)

    def mismatch(self, what: str) -> KernelFailed:
        return KernelFailed("input", f"the arguments do not go with {self.signature}: {what}")

    def slot(self, arg: Argument, ctype: CType) -> Slot:
        from .. import spec

        match arg:
            case spec.ScalarArg() if ctype.kind == "pointer":
                return self.boxed(arg.name, arg.value_at(self.case.params), ctype)
            case spec.ScalarArg():
                return self.scalar(arg.name, arg.value_at(self.case.params), ctype)
            case spec.ResultArg():
                returned, wanted = self.results[arg.setup], "float" if ctype.kind == "float" else "int"
                if (returned[0] == "f") != (wanted == "float") or (wanted == "float" and returned != f"f{8 * (ctype.size or 0)}"):
                    raise self.mismatch(f"{arg.name} is {ctype}, and the set-up call gives {returned}")
                return Slot("result", 0, arg.setup)
        if ctype.kind != "pointer":
            raise self.mismatch(f"{arg.name} is {ctype}, not a pointer")
        match arg:
            case spec.NullArg():
                return Slot("int", 0)
            case spec.StructArg():
                return self.block(arg.name, self.struct(arg, ctype.pointee))
            case spec.ArrayArg():
                return self.array(arg.name, arg.name, ctype)
            case spec.ArrayRef():
                return self.array(arg.name, arg.array, ctype)
        raise self.mismatch(f"{arg.name} is a {type(arg).__name__}")

    def array(self, name: str, array: str, ctype: CType) -> Slot:
        dtype, target = self.dtypes[array], ctype.pointee
        if target is not None and not _same_elements(dtype, target):
            raise self.mismatch(f"array {array} holds {dtype}, and parameter {name} is {ctype}")
        return Slot("array", 0, array)

    def scalar(self, name: str, value: float, ctype: CType) -> Slot:
        size = ctype.size or 8
        if ctype.kind == "float":
            if size not in (2, 4, 8):
                raise self.mismatch(f"{name} is {ctype}")
            return Slot("float", int.from_bytes(self.packed(name, value, f"f{8 * size}"), "little"))
        if ctype.kind not in ("int", "bool"):
            raise self.mismatch(f"{name} is {ctype}, and a number is given")
        whole = self.whole(name, value, ctype, size)
        return Slot("int", whole % (1 << 64))

    def whole(self, name: str, value: float, ctype: CType, size: int) -> int:
        if not math.isfinite(value) or value != int(value):
            raise self.mismatch(f"{name} is {ctype}, and {value} is not a whole number")
        if not _fits(int(value), size, ctype.signed):
            raise self.mismatch(f"{name} is {ctype}, which cannot hold {int(value)}")
        return int(value)

    def packed(self, name: str, value: float, dtype: str) -> bytes:
        try:
            if dtype in ("c64", "c128"):
                return struct.pack("<2f" if dtype == "c64" else "<2d", value, 0)
            if dtype[0] in "iu":
                if value != int(value):
                    raise ValueError
                value = int(value)
            return struct.pack(f"<{_PACK[dtype]}", value)
        except (struct.error, OverflowError, ValueError):
            raise self.mismatch(f"{name} is {dtype}, which cannot hold {value}") from None

    def boxed(self, name: str, value: float, ctype: CType) -> Slot:
        """Pass a number where a pointer to one is wanted, as Fortran does."""
        dtype = ctype.pointee.dtype if ctype.pointee is not None else None
        if dtype is None:
            raise self.mismatch(f"{name} is {ctype}, and the number {value} is given")
        return self.block(name, self.packed(name, value, dtype))

    def block(self, name: str, content: bytes) -> Slot:
        self.blocks.append((f"{self.signature.name}.{name}", content))
        return Slot("block", len(self.blocks) - 1, self.blocks[-1][0])

    def struct(self, arg: StructArg, target: CType | None) -> bytes:
        """Lay out a struct as C does; where the real one is known, it must come out the same."""
        content = b""
        places = []
        widest = 1
        for field in arg.fields:
            size = ELEMENT_TYPES[field.dtype][2]
            align = size // ELEMENT_TYPES[field.dtype][1]
            widest = max(widest, align)
            content += bytes(-len(content) % align)
            places.append((len(content), size))
            content += self.packed(f"{arg.name}.{field.name}", field.value_at(self.case.params), field.dtype)
        content += bytes(-len(content) % widest)
        members = target.members if target is not None and target.kind == "struct" else ()
        real = [(member.offset, member.type.size) for member in members]
        if members and (real != places or target is None or target.size != len(content)):
            told = ", ".join(f"{member.type} {member.name}" for member in members)
            raise self.mismatch(f"the fields of {arg.name} are not those of the struct ({told})")
        return content


def _same_elements(dtype: str, target: CType) -> bool:
    """Whether an array of this type may be passed as a pointer to that C type."""
    theirs = target.dtype
    if target.kind == "pointer" or target.kind == "function":
        return False
    if theirs is None or theirs in ("i8", "u8"):  # void, structs, and bytes stand for anything
        return True
    mine_type, mine_count, mine_size = ELEMENT_TYPES[dtype]
    their_type, their_count, their_size = ELEMENT_TYPES[theirs]
    if dtype[0] in "fc" and theirs[0] in "fc":
        return mine_size // mine_count == their_size // their_count
    return mine_size == their_size and (dtype[0] in "iu") == (theirs[0] in "iu") or {dtype, theirs} in (
        {"f16", "u16"},
        {"f16", "i16"},
    )


if sys.byteorder != "little":  # the frame's slots, and every supported architecture, are little-endian
    raise ImportError("counteroof runs kernels on little-endian processors only")
