"""Signatures and source lines from DWARF (versions 2 to 5), reading only the compile units that are asked for.

Debug information may be in the library, in a separate debug file found by build identifier or debug link, and
partly in a file shared by several (dwz). What cannot be read is answered with the reason.
"""

from __future__ import annotations

import bisect
import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .elf import ElfFile
from .errors import LibraryError
from .signature import VOID, CType, Member, Param, Signature, array_of, decayed, function_type, pointer_to

DEBUG_FOLDERS = (Path("/usr/lib/debug"),)

# DW_ATE codes, DWARF 5 section 5.1.1.
_ENCODINGS: dict[int, tuple[Any, bool]] = {
    0x02: ("bool", False), 0x03: ("complex", True), 0x04: ("float", True), 0x05: ("int", True), 0x06: ("int", True),
    0x07: ("int", False), 0x08: ("int", False), 0x10: ("int", False), 0x12: ("int", False),
}  # fmt: skip
# DW_LANG codes whose calling conventions debug information does not describe.
_FOREIGN = {0x07: "Fortran", 0x08: "Fortran", 0x0E: "Fortran", 0x22: "Fortran", 0x23: "Fortran", 0x2D: "Fortran",
            0x2E: "Fortran", 0x03: "Ada", 0x0D: "Ada", 0x2F: "Ada", 0x09: "Pascal", 0x16: "Go",
            0x8001: "assembly"}  # fmt: skip
_C_LANGUAGES = (0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E)
# Qualifiers that change nothing about how a value is passed.
_TRANSPARENT = frozenset(
    f"DW_TAG_{name}_type" for name in ("volatile", "restrict", "atomic", "packed", "immutable", "shared")
)
_CONSTANT_FORMS = ("DW_FORM_implicit_const", "DW_FORM_sdata", "DW_FORM_udata")
_UNPACK = "counteroof reads zlib only, so unpack it with: objcopy --decompress-debug-sections"
_DEPTH = 40  # of nested types; real ones have fewer than ten


class DebugInfo:
    """The debug information of one library.

    Parameters
    ----------
    elf
        The library.

    Attributes
    ----------
    reason
        Why there is none, or ``None`` if there is.
    """

    def __init__(self, elf: ElfFile) -> None:
        self.elf = elf
        self.file = elf
        self._seen: list[tuple[int, int, Any]] = []
        self._function_index: dict[int, dict[int, Any]] = {}
        self._line_index: dict[int, tuple[list[int], list[tuple[str, int] | None]]] = {}
        self.reason: str | None = None
        if not _has_info(elf):
            separate = _separate_file(elf)
            if separate is None:
                self.reason = "it has no debug information (built without -g, or stripped)"
            else:
                self.file = separate
        if self.reason is None and ".zdebug_info" in self.file.sections:
            self.reason = f"its debug information is compressed in the old .zdebug format; {_UNPACK} {self.file.path.name}"
        section = self.file.sections.get(".debug_info") if self.reason is None else None
        if section is not None and section.compressed:
            # Elf64_Chdr: the algorithm is the first word; 1 is zlib, 2 is zstd.
            algorithm = int.from_bytes(self.file.bytes_of(section)[:4], "little")
            if algorithm != 1:
                name = {2: "zstd"}.get(algorithm, f"algorithm {algorithm}")
                self.reason = f"its debug information is compressed with {name}; {_UNPACK} {self.file.path.name}"

    @cached_property
    def _dwarf(self) -> Any:
        dwarf = _read(self.file.path)
        shared = _shared_file(self.file)
        if shared is not None:
            dwarf.supplementary_dwarfinfo = _read(shared)
        return dwarf

    def signature(self, name: str, offset: int) -> Signature | str:
        """Return the signature of the function that starts at ``offset``, or the reason why there is none."""
        if self.reason is not None:
            return self.reason
        try:
            unit = self._unit_at(offset)
            if unit is None:
                return "the source file that defines it was compiled without debug information (-g)"
            top = unit.get_top_DIE()
            split = _text(top, "DW_AT_dwo_name") or _text(top, "DW_AT_GNU_dwo_name")
            if split:
                return f"its debug information is apart in {split}, which is not read; compile without -gsplit-dwarf"
            language = _FOREIGN.get(_value(top, "DW_AT_language", 0))
            if language:
                return f"it is written in {language}, whose debug information does not say how arguments are passed"
            die = self._functions(unit).get(offset)
            if die is None:
                return "debug information does not describe it (assembly, or made by the compiler)"
            return _signature(name, die)
        except Exception as error:  # pyelftools raises errors of many kinds on damaged input
            return f"its debug information cannot be read ({type(error).__name__}: {error})"

    def line(self, offset: int) -> tuple[str, int] | None:
        """Return source file and line of the instruction at ``offset``, or ``None`` if not known."""
        if self.reason is not None:
            return None
        try:
            unit = self._unit_at(offset)
            starts, places = ([], []) if unit is None else self._lines(unit)
        except Exception:  # a damaged line table is as good as none: it would only have named a place in a message
            return None
        index = bisect.bisect_right(starts, offset) - 1
        return places[index] if index >= 0 else None

    def _unit_at(self, offset: int) -> Any:
        """Return the compile unit whose code contains ``offset``.

        The index that GCC writes (.debug_aranges) answers without reading any unit. Units that are not in it
        (Clang writes none) are asked for their ranges one after the other, and remembered.
        """
        starts, ends, units = self._index
        at = bisect.bisect_right(starts, offset) - 1
        if at >= 0 and offset < ends[at]:
            return self._dwarf.get_CU_at(units[at])
        for first, last, unit in self._seen:
            if first <= offset < last:
                return unit
        for unit in self._unseen:
            ranges = list(_ranges(unit.get_top_DIE()))
            self._seen += [(first, last, unit) for first, last in ranges]
            if any(first <= offset < last for first, last in ranges):
                return unit
        return None

    @cached_property
    def _index(self) -> tuple[list[int], list[int], list[int]]:
        try:
            aranges = self._dwarf.get_aranges()
        except Exception:  # 64-bit DWARF, damage: without the index every unit is asked, which is only slower
            aranges = None
        entries = sorted(
            (entry.begin_addr, entry.begin_addr + entry.length, entry.info_offset)
            for entry in (aranges.entries if aranges else ())
        )
        return [entry[0] for entry in entries], [entry[1] for entry in entries], [entry[2] for entry in entries]

    @cached_property
    def _unseen(self) -> Iterator[Any]:
        indexed = set(self._index[2])
        return (unit for unit in self._dwarf.iter_CUs() if unit.cu_offset not in indexed)

    def _functions(self, unit: Any) -> dict[int, Any]:
        """Return the functions a unit defines, by the offset of their first instruction."""
        functions = self._function_index.get(unit.cu_offset)
        if functions is None:
            functions = {start: die for die in _subprograms(unit.get_top_DIE(), 0) for start in _starts(die)}
            self._function_index[unit.cu_offset] = functions
        return functions

    def _lines(self, unit: Any) -> tuple[list[int], list[tuple[str, int] | None]]:
        lines = self._line_index.get(unit.cu_offset)
        if lines is None:
            lines = self._line_index[unit.cu_offset] = _line_table(self._dwarf, unit)
        return lines


def _read(path: Path) -> Any:
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        return ELFFile(file).get_dwarf_info(follow_links=False)


def _has_info(elf: ElfFile) -> bool:
    sections = (elf.sections.get(".debug_info"), elf.sections.get(".zdebug_info"))
    return any(section is not None and section.size and section.kind != 8 for section in sections)


def _separate_file(elf: ElfFile) -> ElfFile | None:
    """Find the separate debug file: by build identifier, then by debug link, as debuggers do."""
    folder = elf.path.resolve().parent
    candidates = []
    if elf.build_id:
        candidates += [base / ".build-id" / elf.build_id[:2] / f"{elf.build_id[2:]}.debug" for base in DEBUG_FOLDERS]
    link = elf.sections.get(".gnu_debuglink")
    checksum = None
    if link is not None and link.size > 4:
        data = bytes(elf.bytes_of(link))
        name, checksum = os.fsdecode(data.partition(b"\0")[0]), int.from_bytes(data[-4:], "little")
        candidates += [folder / name, folder / ".debug" / name]
        candidates += [base / str(folder).lstrip("/") / name for base in DEBUG_FOLDERS]
    for path in candidates:
        if not path.is_file() or path.samefile(elf.path):
            continue
        try:
            found = ElfFile(path, debug_only=True)
        except LibraryError:
            continue
        same = found.build_id == elf.build_id if elf.build_id else zlib.crc32(found.data) == checksum
        if same and _has_info(found):
            return found
    return None


def _shared_file(elf: ElfFile) -> Path | None:
    """Find the file that dwz moved common debug information to (.gnu_debugaltlink: name, build identifier)."""
    section = elf.sections.get(".gnu_debugaltlink")
    if section is None:
        return None
    name, _, build_id = bytes(elf.bytes_of(section)).partition(b"\0")
    digits = build_id.hex()
    candidates = [elf.path.resolve().parent / os.fsdecode(name)]
    candidates += [base / ".build-id" / digits[:2] / f"{digits[2:]}.debug" for base in DEBUG_FOLDERS]
    return next((path for path in candidates if path.is_file()), None)


def _value(die: Any, name: str, default: Any = None) -> Any:
    attribute = die.attributes.get(name)
    return default if attribute is None else attribute.value


def _text(die: Any, name: str) -> str | None:
    value = _value(die, name)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _ranges(die: Any) -> Iterator[tuple[int, int]]:
    """Yield the address ranges of a unit or function, ends excluded."""
    low = _value(die, "DW_AT_low_pc", 0)
    high = die.attributes.get("DW_AT_high_pc")
    if high is not None:
        # Since DWARF 4 the end is usually a length, told by its form.
        yield low, high.value if high.form in ("DW_FORM_addr", "DW_FORM_addrx") else low + high.value
    elif "DW_AT_ranges" in die.attributes:
        base = _value(die.cu.get_top_DIE(), "DW_AT_low_pc", 0)
        lists = die.dwarfinfo.range_lists()
        for entry in lists.get_range_list_at_offset(_value(die, "DW_AT_ranges"), die.cu):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            else:
                start = 0 if entry.is_absolute else base
                yield start + entry.begin_offset, start + entry.end_offset


def _starts(die: Any) -> set[int]:
    """Return where a function may start: a split one (hot and cold part) has several ranges."""
    if "DW_AT_ranges" in die.attributes:
        return {first for first, _ in _ranges(die)} - {0}
    return {_value(die, "DW_AT_low_pc", 0)} - {0}


def _subprograms(die: Any, depth: int) -> Iterator[Any]:
    """Yield functions with code; they stand at the top of a unit or in namespaces (and modules)."""
    for child in die.iter_children():
        if child.tag == "DW_TAG_subprogram":
            if "DW_AT_low_pc" in child.attributes or "DW_AT_ranges" in child.attributes:
                yield child
        elif child.tag in ("DW_TAG_namespace", "DW_TAG_module") and depth < _DEPTH:
            yield from _subprograms(child, depth + 1)


def _line_table(dwarf: Any, unit: Any) -> tuple[list[int], list[tuple[str, int] | None]]:
    """Return the first offsets of a unit's lines, sorted, and their places; ``None`` marks the end of code."""
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return [], []
    rows: dict[int, tuple[int, int] | None] = {}
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            rows.setdefault(state.address, None)
        else:
            rows[state.address] = (state.file, state.line)
    version, header = program.header["version"], program.header
    files, folders = header["file_entry"], list(header["include_directory"])
    first = 0 if version >= 5 else 1
    home = _text(unit.get_top_DIE(), "DW_AT_comp_dir") or ""
    names = {}
    for number, file in enumerate(files, first):
        folder = os.fsdecode(folders[file.dir_index - first]) if 0 <= file.dir_index - first < len(folders) else ""
        names[number] = os.path.normpath(os.path.join(home, folder, os.fsdecode(file.name)))
    starts = sorted(rows)
    places = [None if rows[start] is None else (names.get(rows[start][0], "?"), rows[start][1]) for start in starts]
    return starts, places


def _origin(die: Any, name: str) -> Any:
    """Return the DIE that has the attribute: this one, or what it is an instance or a definition of."""
    for _ in range(_DEPTH):
        if name in die.attributes:
            return die
        link = next((key for key in ("DW_AT_abstract_origin", "DW_AT_specification") if key in die.attributes), None)
        if link is None:
            return None
        die = die.get_DIE_from_attribute(link)
    return None


def _signature(name: str, die: Any) -> Signature:
    # The abstract instance has all parameters; an out-of-line copy may have lost unused ones.
    while "DW_AT_abstract_origin" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_abstract_origin")
    language = _value(die.cu.get_top_DIE(), "DW_AT_language", 0)
    old_style = language in _C_LANGUAGES and "DW_AT_prototyped" not in die.attributes
    params, variadic = [], False
    for child in die.iter_children():
        if child.tag == "DW_TAG_formal_parameter":
            typed, named = _origin(child, "DW_AT_type"), _origin(child, "DW_AT_name")
            ctype = decayed(_type_of(typed))
            if old_style and (ctype.kind, ctype.size) == ("float", 4):
                ctype = CType("float", 8, True, text="double")  # a K&R definition receives float as double
            params.append(Param(_text(named, "DW_AT_name") or "" if named else "", ctype))
        elif child.tag == "DW_TAG_unspecified_parameters":
            variadic = True
    return Signature(name, _type_of(_origin(die, "DW_AT_type")), tuple(params), variadic, "debug info")


def _type_of(die: Any, depth: int = 0, members: bool = False) -> CType:
    """Return the type a DIE's ``DW_AT_type`` names; no attribute means void."""
    if die is None or "DW_AT_type" not in die.attributes:
        return VOID
    return _type(die.get_DIE_from_attribute("DW_AT_type"), depth + 1, members)


def _type(die: Any, depth: int, members: bool = False) -> CType:
    tag, name = die.tag, _text(die, "DW_AT_name")
    if depth > _DEPTH:
        return CType("unknown", text=name or "?")
    if tag == "DW_TAG_const_type":
        return _type_of(die, depth, members).as_const()
    if tag == "DW_TAG_typedef":
        named = _type_of(die, depth, members)
        return replace(named, text=name) if name else named
    if tag in _TRANSPARENT:
        return _type_of(die, depth, members)
    size = _value(die, "DW_AT_byte_size")
    if tag == "DW_TAG_base_type":
        kind, signed = _ENCODINGS.get(_value(die, "DW_AT_encoding"), ("unknown", False))
        if kind == "complex":  # GCC writes "complex double", Clang "complex" alone
            name = {8: "float _Complex", 16: "double _Complex", 32: "long double _Complex"}.get(size, name)
        return CType(kind, size, signed, text=name or "?")
    if tag in ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"):
        return pointer_to(_type_of(die, depth, members=depth <= 2))
    if tag == "DW_TAG_enumeration_type":
        under = _type_of(die, depth)
        return CType("int", size or under.size, under.signed, text=f"enum {name}" if name else "enum")
    if tag in ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"):
        kind = "union" if tag == "DW_TAG_union_type" else "struct"
        inside = tuple(_members(die, depth)) if members and kind == "struct" else ()
        return CType(kind, size, text=f"{kind} {name}" if name else kind, members=inside)
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
    attribute = die.attributes.get(name)
    constant = attribute is not None and ("data" in attribute.form or attribute.form in _CONSTANT_FORMS)
    return int(attribute.value) + plus if attribute is not None and constant else None


def _members(die: Any, depth: int) -> Iterator[Member]:
    for child in die.iter_children():
        if child.tag == "DW_TAG_member" and "DW_AT_bit_size" not in child.attributes:
            offset = _value(child, "DW_AT_data_member_location", 0)
            yield Member(_text(child, "DW_AT_name") or "", _type_of(child, depth), offset if isinstance(offset, int) else -1)
