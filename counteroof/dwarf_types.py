"""Types and signatures from debugging information entries (DIEs), as pyelftools reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .signature import (
    VOID,
    CType,
    Kind,
    Member,
    Param,
    Signature,
    array_of,
    decayed,
    function_type,
    pointer_to,
)

# DW_ATE codes, DWARF 5 section 5.1.1.
_ENCODINGS: dict[int, tuple[Any, bool]] = {
    0x02: ("bool", False), 0x03: ("complex", True), 0x04: ("float", True), 0x05: ("int", True),
    0x06: ("int", True), 0x07: ("int", False), 0x08: ("int", False), 0x10: ("int", False),
}  # fmt: skip
_C_LANGUAGES = (0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E)
# Qualifiers that change nothing about how a value is passed.
_TRANSPARENT = frozenset(
    f"DW_TAG_{name}_type" for name in ("volatile", "restrict", "atomic", "packed", "immutable", "shared")
)
_CONSTANT_FORMS = ("DW_FORM_implicit_const", "DW_FORM_sdata", "DW_FORM_udata")
_DEPTH = 40  # of nested types; real ones have fewer than ten


def attribute(die: Any, name: str, default: Any = None) -> Any:
    """Return the value of a DIE's attribute."""
    found = die.attributes.get(name)
    return default if found is None else found.value


def text(die: Any, name: str) -> str | None:
    """Return a DIE's attribute that is a text, or ``None``."""
    value = attribute(die, name)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _origin(die: Any, name: str) -> Any:
    """Return the DIE that has the attribute: this one, or what it is an instance or a definition of."""
    for _ in range(_DEPTH):
        if name in die.attributes:
            return die
        link = next(
            (key for key in ("DW_AT_abstract_origin", "DW_AT_specification") if key in die.attributes), None
        )
        if link is None:
            return None
        die = die.get_DIE_from_attribute(link)
    return None


def signature_of(name: str, die: Any) -> Signature:
    """Return the signature of the function a DIE describes."""
    # The abstract instance has all parameters; an out-of-line copy may have lost unused ones.
    while "DW_AT_abstract_origin" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_abstract_origin")
    language = attribute(die.cu.get_top_DIE(), "DW_AT_language", 0)
    old_style = language in _C_LANGUAGES and "DW_AT_prototyped" not in die.attributes
    params, variadic = [], False
    for child in die.iter_children():
        if child.tag == "DW_TAG_formal_parameter":
            typed, named = _origin(child, "DW_AT_type"), _origin(child, "DW_AT_name")
            ctype = decayed(_type_of(typed))
            if old_style and (ctype.kind, ctype.size) == ("float", 4):
                ctype = CType("float", 8, True, text="double")  # a K&R definition receives float as double
            params.append(Param(text(named, "DW_AT_name") or "" if named else "", ctype))
        elif child.tag == "DW_TAG_unspecified_parameters":
            variadic = True
    return Signature(name, _type_of(_origin(die, "DW_AT_type")), tuple(params), variadic, "debug info")


def _type_of(die: Any, depth: int = 0, members: bool = False) -> CType:
    """Return the type a DIE's ``DW_AT_type`` names; no attribute means void."""
    if die is None or "DW_AT_type" not in die.attributes:
        return VOID
    return _type(die.get_DIE_from_attribute("DW_AT_type"), depth + 1, members)


def _type(die: Any, depth: int, members: bool = False) -> CType:
    tag, name = die.tag, text(die, "DW_AT_name")
    if depth > _DEPTH:
        return CType("unknown", text=name or "?")
    if tag == "DW_TAG_const_type":
        return _type_of(die, depth, members).as_const()
    if tag == "DW_TAG_typedef":
        named = _type_of(die, depth, members)
        return replace(named, text=name) if name else named
    if tag in _TRANSPARENT:
        return _type_of(die, depth, members)
    size = attribute(die, "DW_AT_byte_size")
    if tag == "DW_TAG_base_type":
        kind, signed = _ENCODINGS.get(attribute(die, "DW_AT_encoding"), ("unknown", False))
        if kind == "complex":  # GCC writes "complex double", Clang "complex" alone
            name = {8: "float _Complex", 16: "double _Complex", 32: "long double _Complex"}.get(size, name)
        return CType(kind, size, signed, text=name or "?")
    if tag in ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"):
        return pointer_to(_type_of(die, depth, members=depth <= 2))
    if tag == "DW_TAG_enumeration_type":
        under = _type_of(die, depth)
        return CType("int", size or under.size, under.signed, text=f"enum {name}" if name else "enum")
    if tag in ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"):
        shape: Kind = "union" if tag == "DW_TAG_union_type" else "struct"
        inside = tuple(_members(die, depth)) if members and shape == "struct" else ()
        return CType(shape, size, text=f"{shape} {name}" if name else shape, members=inside)
    if tag == "DW_TAG_array_type":
        if "DW_AT_GNU_vector" in die.attributes:
            return CType("vector", size, text=f"{_type_of(die, depth)} vector")
        return _array(die, depth)
    if tag == "DW_TAG_subroutine_type":
        children = [child for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter"]
        return function_type(_type_of(die, depth), [_type_of(child, depth) for child in children])
    return CType("unknown", size, text=name or str(tag).removeprefix("DW_TAG_").replace("_", " "))


def _array(die: Any, depth: int) -> CType:
    counts: list[int | None] = []
    for child in die.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            counts.append(_number(child, "DW_AT_count", 0) or _number(child, "DW_AT_upper_bound", 1))
    ctype = _type_of(die, depth)
    for count in reversed(counts or [None]):
        ctype = array_of(ctype, count)
    return ctype


def _number(die: Any, name: str, plus: int) -> int | None:
    """Return a constant bound; one that varies is an expression or a reference to a variable."""
    found = die.attributes.get(name)
    if found is None or not ("data" in found.form or found.form in _CONSTANT_FORMS):
        return None
    return int(found.value) + plus


def _members(die: Any, depth: int) -> Iterator[Member]:
    for child in die.iter_children():
        if child.tag == "DW_TAG_member" and "DW_AT_bit_size" not in child.attributes:
            offset = attribute(child, "DW_AT_data_member_location", 0)
            yield Member(
                text(child, "DW_AT_name") or "",
                _type_of(child, depth),
                offset if isinstance(offset, int) else -1,
            )
