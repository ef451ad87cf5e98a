"""Signatures and source lines from DWARF (versions 2 to 5); only the compile units asked for are read.

Debug information may be in the library, in a separate debug file found by build identifier or debug link, and
partly in a file shared by several (dwz). What cannot be read is answered with the reason.
"""

from __future__ import annotations

import bisect
import os
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from .dwarf_types import attribute, signature_of, text
from .elf import ElfFile
from .errors import LibraryError
from .signature import Signature

DEBUG_FOLDERS = (Path("/usr/lib/debug"),)

# DW_LANG codes whose calling conventions debug information does not describe.
_FOREIGN = {
    0x07: "Fortran", 0x08: "Fortran", 0x0E: "Fortran", 0x22: "Fortran", 0x23: "Fortran", 0x2D: "Fortran",
    0x03: "Ada", 0x0D: "Ada", 0x2E: "Ada", 0x2F: "Ada", 0x09: "Pascal", 0x16: "Go", 0x8001: "assembly",
}  # fmt: skip
_UNPACK = "counteroof reads zlib only, so unpack it with: objcopy --decompress-debug-sections"
_DEPTH = 40  # of nested namespaces; real ones have fewer than ten


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
            self.reason = (
                f"its debug information is in the old .zdebug format; {_UNPACK} {self.file.path.name}"
            )
        section = self.file.sections.get(".debug_info") if self.reason is None else None
        if section is not None and section.compressed:
            # Elf64_Chdr: the algorithm is the first word; 1 is zlib, 2 is zstd.
            algorithm = int.from_bytes(self.file.bytes_of(section)[:4], "little")
            if algorithm != 1:
                name = {2: "zstd"}.get(algorithm, f"algorithm {algorithm}")
                self.reason = (
                    f"its debug information is compressed with {name}; {_UNPACK} {self.file.path.name}"
                )

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
            split = text(top, "DW_AT_dwo_name") or text(top, "DW_AT_GNU_dwo_name")
            if split:
                return (
                    f"its debug information is in {split}, which is not read; compile without -gsplit-dwarf"
                )
            language = _FOREIGN.get(attribute(top, "DW_AT_language", 0))
            if language:
                return (
                    f"it is written in {language}, whose debug information leaves open how values are passed"
                )
            die = self._functions(unit).get(offset)
            if die is None:
                return "debug information does not describe it (assembly, or made by the compiler)"
            return signature_of(name, die)
        except Exception as error:  # pyelftools raises errors of many kinds on damaged input
            return f"its debug information cannot be read ({type(error).__name__}: {error})"

    def line(self, offset: int) -> tuple[str, int] | None:
        """Return source file and line of the instruction at ``offset``, or ``None`` if not known."""
        if self.reason is not None:
            return None
        try:
            unit = self._unit_at(offset)
            starts, places = ([], []) if unit is None else self._lines(unit)
        except (
            Exception
        ):  # a damaged line table is as good as none: it would only have named a place in a message
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
        return (
            [entry[0] for entry in entries],
            [entry[1] for entry in entries],
            [entry[2] for entry in entries],
        )

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
        candidates += [
            base / ".build-id" / elf.build_id[:2] / f"{elf.build_id[2:]}.debug" for base in DEBUG_FOLDERS
        ]
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
            found = ElfFile(path, shared=False)
        except LibraryError:
            continue
        same = found.build_id == elf.build_id if elf.build_id else zlib.crc32(found.data) == checksum
        if same and _has_info(found):
            return found
    return None


def _shared_file(elf: ElfFile) -> Path | None:
    """Find the file that dwz moved common debug information to (.gnu_debugaltlink: name, identifier)."""
    section = elf.sections.get(".gnu_debugaltlink")
    if section is None:
        return None
    name, _, build_id = bytes(elf.bytes_of(section)).partition(b"\0")
    digits = build_id.hex()
    candidates = [elf.path.resolve().parent / os.fsdecode(name)]
    candidates += [base / ".build-id" / digits[:2] / f"{digits[2:]}.debug" for base in DEBUG_FOLDERS]
    return next((path for path in candidates if path.is_file()), None)


def _ranges(die: Any) -> Iterator[tuple[int, int]]:
    """Yield the address ranges of a unit or function, ends excluded."""
    low = attribute(die, "DW_AT_low_pc", 0)
    high = die.attributes.get("DW_AT_high_pc")
    if high is not None:
        # Since DWARF 4 the end is usually a length, told by its form.
        yield low, high.value if high.form in ("DW_FORM_addr", "DW_FORM_addrx") else low + high.value
    elif "DW_AT_ranges" in die.attributes:
        base = attribute(die.cu.get_top_DIE(), "DW_AT_low_pc", 0)
        lists = die.dwarfinfo.range_lists()
        for entry in lists.get_range_list_at_offset(attribute(die, "DW_AT_ranges"), die.cu):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            else:
                start = 0 if entry.is_absolute else base
                yield start + entry.begin_offset, start + entry.end_offset


def _starts(die: Any) -> set[int]:
    """Return where a function may start: a split one (hot and cold part) has several ranges."""
    if "DW_AT_ranges" in die.attributes:
        return {first for first, _ in _ranges(die)} - {0}
    return {attribute(die, "DW_AT_low_pc", 0)} - {0}


def _subprograms(die: Any, depth: int) -> Iterator[Any]:
    """Yield functions with code; they stand at the top of a unit or in namespaces (and modules)."""
    for child in die.iter_children():
        if child.tag == "DW_TAG_subprogram":
            if "DW_AT_low_pc" in child.attributes or "DW_AT_ranges" in child.attributes:
                yield child
        elif child.tag in ("DW_TAG_namespace", "DW_TAG_module") and depth < _DEPTH:
            yield from _subprograms(child, depth + 1)


def _line_table(dwarf: Any, unit: Any) -> tuple[list[int], list[tuple[str, int] | None]]:
    """Return the first offsets of a unit's lines, sorted, and their places; ``None`` marks an end of code."""
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
    home = text(unit.get_top_DIE(), "DW_AT_comp_dir") or ""
    names: dict[int, str] = {}
    for number, file in enumerate(files, first):
        folder = (
            os.fsdecode(folders[file.dir_index - first]) if 0 <= file.dir_index - first < len(folders) else ""
        )
        names[number] = os.path.normpath(os.path.join(home, folder, os.fsdecode(file.name)))
    starts = sorted(rows)
    found = (rows[start] for start in starts)
    places = [None if row is None else (names.get(row[0], "?"), row[1]) for row in found]
    return starts, places
