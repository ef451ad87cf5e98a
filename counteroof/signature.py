"""C types and function signatures: what debug information and prototypes are turned into."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal[
    "void",
    "bool",
    "int",
    "float",
    "complex",
    "pointer",
    "array",
    "struct",
    "union",
    "function",
    "vector",
    "unknown",
]


@dataclass(frozen=True)
class Member:
    """One member of a struct: its name, type and offset in bytes."""

    name: str
    type: CType
    offset: int


@dataclass(frozen=True)
class CType:
    """One C type, with typedefs, enums and references already resolved.

    Attributes
    ----------
    kind
        Enumerations are ``int``, C++ references ``pointer``; ``unknown`` is a type whose size is not known.
    size
        Bytes, or ``None`` where it cannot be known (``void``, functions, opaque structs).
    signed
        For ``int``.
    const
        Whether values of this type are const; for a pointer to const data look at ``pointee.const``.
    pointee
        What a pointer points to, or the element of an array.
    text
        The type as its author wrote it, typedef names kept.
    members
        Of a struct, where the source knows them and the struct is the direct target of a pointer.
    """

    kind: Kind
    size: int | None = None
    signed: bool = False
    const: bool = False
    pointee: CType | None = None
    text: str = ""
    members: tuple[Member, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def dtype(self) -> str | None:
        """The spec's name of a scalar of this type (``f64``, ``i32`` ...), or ``None`` if it has none.

        An array of two floats is a complex number, as FFTW and others write it; other arrays have the dtype
        of their elements.
        """
        if self.kind == "array" and self.pointee is not None:
            element = self.pointee
            if element.kind == "float" and element.size in (4, 8) and self.size == 2 * element.size:
                return f"c{element.size * 16}"
            return element.dtype
        letter = {"float": "f", "complex": "c", "int": "i" if self.signed else "u", "bool": "u"}.get(
            self.kind
        )
        name = f"{letter}{(self.size or 0) * 8}"
        return name if name in DTYPES else None

    def as_const(self) -> CType:
        """Return the const-qualified type; ``const`` is written on the side where C reads it."""
        if self.const:
            return self
        text = f"{self.text}const" if self.text.endswith("*") else f"const {self.text}"
        return replace(self, const=True, text=text)


DTYPES = frozenset((
    "f16", "f32", "f64", "c64", "c128", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
))  # fmt: skip
STACK_WORDS = 32  # of a call, besides the arguments in registers
VOID = CType("void", text="void")


def pointer_to(target: CType) -> CType:
    """Return the type of a pointer to ``target``."""
    text = f"{target.text}{'' if target.text.endswith('*') else ' '}*"
    if target.kind in (
        "function",
        "array",
    ):  # double (*)(double), double (*)[2], unless a typedef names the whole
        text = re.sub(r" (?=[(\[]).*", lambda rest: f" (*){rest[0][1:]}", target.text, count=1)
        text = text if text != target.text else f"{text} *"
    return CType("pointer", 8, pointee=target, text=text)


def array_of(element: CType, count: int | None) -> CType:
    """Return the type of an array; ``count`` is ``None`` where the length is not a constant."""
    size = None if count is None or element.size is None else count * element.size
    length = "" if count is None else str(count)
    base, bracket, inner = element.text.partition(" [")
    return CType(
        "array", size, const=element.const, pointee=element, text=f"{base} [{length}]{bracket[1:]}{inner}"
    )


def decayed(ctype: CType) -> CType:
    """Return the type a parameter declared like this really has: arrays and functions become pointers."""
    if ctype.kind == "array" and ctype.pointee is not None:
        return pointer_to(ctype.pointee)
    return pointer_to(ctype) if ctype.kind == "function" else ctype


def function_type(returns: CType, params: Sequence[CType], variadic: bool = False) -> CType:
    """Return the type of a function."""
    inside = [param.text for param in params] + ["..."] * variadic
    return CType("function", text=f"{returns.text} ({', '.join(inside) or 'void'})")


@dataclass(frozen=True)
class Param:
    """One parameter; the name is empty where the source gives none."""

    name: str
    type: CType


@dataclass(frozen=True)
class Signature:
    """A function's return type and parameters.

    ``source`` says where it is from: ``prototype``, ``header`` or ``debug info``.
    """

    name: str
    returns: CType
    params: tuple[Param, ...]
    variadic: bool = False
    source: str = "prototype"

    def __str__(self) -> str:
        params = [_declare(param.type.text, param.name) for param in self.params]
        if self.variadic:
            params.append("...")
        return f"{_declare(self.returns.text, self.name)}({', '.join(params) or 'void'})"

    @property
    def unsupported(self) -> str | None:
        """Why counteroof cannot call such a function, or ``None`` if it can.

        Arguments travel as whole integer registers, whole floating-point registers and whole stack words. A
        type that the calling convention treats in another way has no place there.
        """
        if self.variadic:
            return "it takes a variable number of arguments (...); wrap it in a C function"
        for number, param in enumerate(self.params, 1):
            reason = _not_passable(param.type)
            if reason:
                name = f"argument {number}" + (f" ({param.name})" if param.name else "")
                return f"{name} is {reason}"
        floats = sum(param.type.kind == "float" for param in self.params)
        on_stack = max(0, len(self.params) - floats - 6) + max(0, floats - 8)
        if on_stack > STACK_WORDS:
            count = len(self.params)
            return f"it takes {count} arguments, {on_stack} on the stack, which has room for {STACK_WORDS}"
        reason = None if self.returns.kind == "void" else _not_passable(self.returns)
        return f"it returns {reason}" if reason else None


def _declare(type_text: str, name: str) -> str:
    if not name:
        return type_text
    if "(*)" in type_text:
        return type_text.replace("(*)", f"(*{name})", 1)
    return f"{type_text}{'' if type_text.endswith('*') else ' '}{name}"


def _not_passable(ctype: CType) -> str | None:
    text = ctype.text
    if ctype.kind in ("struct", "union"):
        name = text.removeprefix("const ").removeprefix(f"{ctype.kind} ")
        return f"the {ctype.kind} {name} by value, whose parts are spread over registers; use a pointer to it"
    if ctype.kind == "complex":
        return f"a complex number by value ({text}), which takes two registers or none; use a pointer to it"
    if ctype.kind == "float" and (ctype.size or 0) > 8:
        return f"a {text} by value, which does not fit a floating-point register; use double or a pointer"
    if ctype.kind == "float" and ctype.size not in (2, 4, 8):
        return f"a floating-point type of unknown size ({text})"
    if ctype.kind == "vector":
        return f"a vector by value ({text}), which takes a whole vector register; use a pointer to it"
    if ctype.kind == "int" and (ctype.size or 0) > 8:
        return f"a {text} by value, which takes two registers; use 64-bit integers"
    if ctype.kind in ("unknown", "function", "array") or (ctype.kind == "int" and ctype.size is None):
        return f"of an unknown type ({text}); write the plain C type, or give the header that defines it"
    return None


def disagreement(claimed: Signature, actual: Signature) -> str | None:
    """Say where two signatures of one function would pass arguments differently, or return ``None``.

    Names, const and the targets of pointers may differ; the number of parameters and their registers may not.
    """
    if len(claimed.params) != len(actual.params):
        return f"{len(claimed.params)} parameters against {len(actual.params)}"
    for number, (mine, theirs) in enumerate(zip(claimed.params, actual.params, strict=True), 1):
        if _register(mine.type) != _register(theirs.type):
            return f"parameter {number} is {mine.type} against {theirs.type}"
    if _register(claimed.returns) != _register(actual.returns) and "void" not in (
        claimed.returns.kind,
        actual.returns.kind,
    ):
        return f"the returned value is {claimed.returns} against {actual.returns}"
    return None


def _register(ctype: CType) -> tuple[str, int]:
    """How a value travels: the register kind, and the width where a wrong one would corrupt it."""
    if ctype.kind in ("float", "complex", "vector", "struct", "union"):
        return ctype.kind, ctype.size or 0
    return "integer", 16 if (ctype.size or 8) > 8 else 8
