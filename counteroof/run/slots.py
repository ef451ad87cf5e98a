"""Arguments to slots: each checked against the parameter it is for, and put into the bits that travel.

Nothing is passed that C would not pass: a number that its parameter cannot hold, or an array of floats where
doubles are taken, is the author's mistake and not a measurement.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .. import spec
from ..errors import KernelFailed
from .plan import ELEMENT_TYPES, Call, Slot

if TYPE_CHECKING:
    from ..signature import CType, Signature
    from ..spec import Argument, KernelCase, StructArg

PACK = {
    "f16": "e",
    "f32": "f",
    "f64": "d",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
}
"""The letter by which ``struct`` knows each element type."""


def fits(value: int, size: int, signed: bool) -> bool:
    bits = 8 * size
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if signed else 0 <= value < 1 << bits


class CallMaker:
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
            self.slot(arg, param.type)
            for arg, param in zip(self.in_order(args), self.signature.params, strict=True)
        )
        return Call(symbol, slots, self.returns(self.signature.returns))

    def returns(self, ctype: CType) -> str:
        if ctype.kind == "void":
            return "void"
        if ctype.kind == "pointer":
            return "pointer"
        if ctype.kind == "float" and ctype.size in (4, 8):
            return f"f{ctype.size * 8}"
        if ctype.kind in ("int", "bool") and ctype.size in (1, 2, 4, 8):
            return f"{'i' if ctype.signed else 'u'}{ctype.size * 8}"
        raise KernelFailed("input", f"{self.signature.name} returns {ctype}, which counteroof cannot receive")

    def in_order(self, args: Sequence[Argument]) -> list[Argument]:
        """Return the arguments in the parameters' order: by name if all names are the same, else as given."""
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
                    f"argument {name!r} is number {place + 1}, and parameter {name!r} is number "
                    f"{names.index(name) + 1}; give all arguments the names of their parameters, or none"
                )
        return list(args)

    def mismatch(self, what: str) -> KernelFailed:
        return KernelFailed("input", f"the arguments do not go with {self.signature}: {what}")

    def slot(self, arg: Argument, ctype: CType) -> Slot:
        match arg:
            case spec.ScalarArg() if ctype.kind == "pointer":
                return self.boxed(arg.name, arg.value_at(self.case.params), ctype)
            case spec.ScalarArg():
                return self.scalar(arg.name, arg.value_at(self.case.params), ctype)
            case spec.ResultArg():
                return self.result(arg.name, arg.setup, ctype)
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

    def result(self, name: str, setup: str, ctype: CType) -> Slot:
        returned = self.results[setup]
        wanted = f"f{8 * (ctype.size or 0)}" if ctype.kind == "float" else "whole"
        if wanted != (returned if returned[0] == "f" else "whole"):
            raise self.mismatch(f"{name} is {ctype}, and the set-up call returns {returned}")
        return Slot("result", 0, setup)

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
        if not fits(int(value), size, ctype.signed):
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
            return struct.pack(f"<{PACK[dtype]}", value)
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
    _, mine_count, mine_size = ELEMENT_TYPES[dtype]
    _, their_count, their_size = ELEMENT_TYPES[theirs]
    mine_whole, theirs_whole = dtype[0] in "iu", theirs[0] in "iu"
    if not mine_whole and not theirs_whole:  # a complex number may be passed as its two parts
        return mine_size // mine_count == their_size // their_count
    # C before C23 has no 16-bit float, so those travel as integers
    return mine_size == their_size and (mine_whole == theirs_whole or mine_size == 2)
