"""The facts of an ELF shared library that need no debug information: symbols, versions, dependencies.

Nothing here runs the library's code. The reader is our own because a listing of ten thousand symbols must
take milliseconds; debug information is read with pyelftools in ``dwarf.py``.
"""

from __future__ import annotations

import mmap
import platform
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .errors import LibraryError

# e_machine values of the ELF specification that a user is likely to meet.
MACHINES = {
    2: "SPARC", 3: "i386 (32-bit x86)", 8: "MIPS", 20: "PowerPC", 21: "PowerPC 64", 22: "s390x",
    40: "ARM (32-bit)", 43: "SPARC 64", 62: "x86-64", 183: "AArch64", 190: "CUDA", 224: "AMD GPU",
    243: "RISC-V", 258: "LoongArch",
}  # fmt: skip
HOSTS = {
    "x86_64": 62,
    "amd64": 62,
    "aarch64": 183,
    "arm64": 183,
    "riscv64": 243,
    "ppc64le": 21,
    "loongarch64": 258,
}

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")

_SHT_DYNSYM, _SHT_NOBITS, _SHT_SYMTAB = 11, 8, 2
_SHF_EXECINSTR, _SHF_COMPRESSED = 4, 0x800
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH, _DT_DEBUG, _DT_FLAGS_1 = 1, 14, 15, 29, 21, 0x6FFFFFFB
_DF_1_PIE = 0x08000000
_STT_NOTYPE, _STT_FUNC, _STT_IFUNC = 0, 2, 10
_VERSYM_HIDDEN = 0x8000
_NT_GNU_BUILD_ID = 3


@dataclass(frozen=True)
class Section:
    """One section header: where the bytes are in the file, and where they are loaded."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int

    @property
    def compressed(self) -> bool:
        """Whether the bytes in the file are compressed (SHF_COMPRESSED, or the older ``.zdebug`` name)."""
        return bool(self.flags & _SHF_COMPRESSED) or self.name.startswith(".zdebug")


@dataclass(frozen=True)
class Export:
    """One exported function.

    ``version`` is the symbol version or ``None``; ``default`` says whether a plain name reaches it. ``ifunc``
    marks a function whose address a resolver chooses at load time (``memcpy``): ``offset`` is the resolver's.
    """

    name: str
    offset: int
    size: int
    ifunc: bool = False
    weak: bool = False
    version: str | None = None
    default: bool = True

    @property
    def reference(self) -> str:
        """The text that names exactly this function: ``name``, or ``name@VERSION`` for an older version."""
        return self.name if self.default else f"{self.name}@{self.version}"


class ElfFile:
    """A 64-bit little-endian ELF file for this machine, checked when opened.

    Parameters
    ----------
    path
        The file; every reason why it cannot be used as a shared library raises :class:`LibraryError`.
    shared
        Refuse what is not a shared library. Separate debug files and executables are read without.
    """

    def __init__(self, path: Path, *, shared: bool = True) -> None:
        self.path = path
        self.data = _contents(path)
        self._check_identity()
        header = _HEADER.unpack_from(self.data)
        (
            _,
            self.type,
            machine,
            _,
            _,
            segments,
            sections,
            _,
            _,
            segment_size,
            segment_count,
            size,
            count,
            names,
        ) = header
        host = HOSTS.get(platform.machine().lower())
        if machine != host:
            raise LibraryError(
                f"{path}: built for {MACHINES.get(machine, f'ELF machine {machine}')}, but this machine is "
                f"{platform.machine()}; build the library for {platform.machine()}"
            )
        self.segments = self._table(_SEGMENT, segments, segment_size, segment_count, "program headers")
        self.sections = self._read_sections(sections, size, count, names)
        if shared:
            self._check_shared()

    def _check_identity(self) -> None:
        data, path = self.data, self.path
        if data[:4] != b"\x7fELF":
            raise LibraryError(f"{path}: not an ELF shared library, but {_what_is(data)}")
        if len(data) < 20 or (data[4] == 2 and len(data) < _HEADER.size):
            raise LibraryError(f"{path}: truncated ELF file ({len(data)} bytes, not even a whole header)")
        if data[4] != 2:
            machine = MACHINES.get(
                struct.unpack_from("<H" if data[5] == 1 else ">H", data, 18)[0], "unknown machine"
            )
            raise LibraryError(f"{path}: a 32-bit library ({machine}); counteroof needs 64-bit libraries")
        if data[5] != 1:
            machine = MACHINES.get(struct.unpack_from(">H", data, 18)[0], "unknown machine")
            raise LibraryError(
                f"{path}: a big-endian library ({machine}); this machine is {platform.machine()}"
            )

    def _table(
        self, record: struct.Struct, offset: int, size: int, count: int, what: str
    ) -> list[tuple[int, ...]]:
        if count and size < record.size:
            raise LibraryError(
                f"{self.path}: damaged ELF file: {what} of {size} bytes each, not {record.size}"
            )
        if offset + size * count > len(self.data):
            raise LibraryError(
                f"{self.path}: truncated ELF file: {what} end at byte {offset + size * count} of "
                f"{len(self.data)}; copy or build it again"
            )
        return [record.unpack_from(self.data, offset + size * i) for i in range(count)]

    def _read_sections(self, offset: int, size: int, count: int, names: int) -> dict[str, Section]:
        if offset and not count:  # more than 65 279 sections: the count is in the first header
            count = self._table(_SECTION, offset, size, 1, "section headers")[0][5]
        raw = self._table(_SECTION, offset, size, count, "section headers")
        if names == 0xFFFF and raw:
            names = raw[0][6]
        if names >= len(raw) or (raw and raw[names][4] + raw[names][5] > len(self.data)):
            raw = []
        if not raw:
            raise LibraryError(
                f"{self.path}: ELF file without section headers (stripped by sstrip or packed), so its "
                "symbols cannot be listed; use the library as its linker wrote it"
            )
        base, end = raw[names][4], raw[names][4] + raw[names][5]
        self._by_index = [
            Section(_text(self.data, base + name, end), kind, flags, address, start, length, link)
            for name, kind, flags, address, start, length, link, *_ in raw
        ]
        for section in self._by_index:
            if section.kind not in (0, _SHT_NOBITS) and section.offset + section.size > len(self.data):
                raise LibraryError(
                    f"{self.path}: truncated ELF file: section {section.name} ends at byte "
                    f"{section.offset + section.size} of {len(self.data)}; copy or build it again"
                )
        return {section.name: section for section in self._by_index}

    def _check_shared(self) -> None:
        path = self.path
        if self.type == 1:
            raise LibraryError(
                f"{path}: an object file; link it into a shared library: gcc -shared -o lib.so {path.name}"
            )
        if self.type == 4:
            raise LibraryError(f"{path}: a core dump, not a shared library")
        if self.type == 2:
            raise LibraryError(f"{path}: {_EXECUTABLE}")
        if self.type != 3:
            raise LibraryError(f"{path}: ELF type {self.type}, not a shared library")
        if ".dynsym" not in self.sections:
            raise LibraryError(f"{path}: no dynamic symbols, so no function can be called from outside")
        flags = self.dynamic.get(_DT_FLAGS_1, [0])[0]
        # DT_DEBUG is written into executables alone; older linkers did not set the PIE flag.
        if flags & _DF_1_PIE or (_DT_DEBUG in self.dynamic and self.soname is None and self._has_interpreter):
            raise LibraryError(f"{path}: {_EXECUTABLE}")

    @property
    def _has_interpreter(self) -> bool:
        return any(segment[0] == 3 for segment in self.segments)

    def bytes_of(self, section: Section) -> memoryview:
        """Return the section's bytes as they are in the file (compressed ones stay so)."""
        if section.kind == _SHT_NOBITS:
            return memoryview(b"")
        return memoryview(self.data)[section.offset : section.offset + section.size]

    @cached_property
    def dynamic(self) -> dict[int, list[int]]:
        """Values of the dynamic section by tag."""
        entries: dict[int, list[int]] = {}
        section = self.sections.get(".dynamic")
        if section is not None:
            data = self.bytes_of(section)
            for tag, value in _DYNAMIC.iter_unpack(data[: len(data) // 16 * 16]):
                if tag == 0:
                    break
                entries.setdefault(tag, []).append(value)
        return entries

    def _dynamic_strings(self, tag: int) -> tuple[str, ...]:
        section = self.sections.get(".dynstr")
        if section is None:
            return ()
        end = section.offset + section.size
        return tuple(_text(self.data, section.offset + value, end) for value in self.dynamic.get(tag, []))

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the libraries this one depends on (DT_NEEDED), in order."""
        return self._dynamic_strings(_DT_NEEDED)

    @property
    def soname(self) -> str | None:
        """The name under which programs are linked to this library."""
        return next(iter(self._dynamic_strings(_DT_SONAME)), None)

    @property
    def build_id(self) -> str | None:
        """The build identifier in hexadecimal digits; it names the separate debug file."""
        section = self.sections.get(".note.gnu.build-id")
        data = bytes(self.bytes_of(section)) if section else b""
        if len(data) < 16:
            return None
        name_size, size, kind = struct.unpack_from("<III", data)
        start = 12 + (name_size + 3) // 4 * 4
        return data[start : start + size].hex() if kind == _NT_GNU_BUILD_ID else None

    @cached_property
    def exports(self) -> tuple[Export, ...]:
        """Exported functions, sorted by name; the default version of a name comes first."""
        section = self.sections.get(".dynsym")
        if section is None:
            return ()
        versions = self._symbol_versions(section.size // _SYMBOL.size)
        definitions = self._version_names() if versions else {}
        strings = self._by_index[section.link]
        end = strings.offset + strings.size
        found = []
        for index, (name, info, other, where, value, size) in enumerate(_records(self.bytes_of(section))):
            kind, binding, visibility = info & 15, info >> 4, other & 3
            if (
                where == 0
                or kind not in (_STT_FUNC, _STT_IFUNC)
                or binding not in (1, 2, 10)
                or visibility in (1, 2)
            ):
                continue
            number = versions[index] if versions else 1
            found.append(
                Export(
                    name=_text(self.data, strings.offset + name, end),
                    offset=value,
                    size=size,
                    ifunc=kind == _STT_IFUNC,
                    weak=binding == 2,
                    version=definitions.get(number & ~_VERSYM_HIDDEN),
                    default=not number & _VERSYM_HIDDEN,
                )
            )
        return tuple(
            sorted(found, key=lambda export: (export.name, not export.default, export.version or ""))
        )

    def _symbol_versions(self, count: int) -> tuple[int, ...]:
        section = self.sections.get(".gnu.version")
        if section is None or section.size < 2 * count:
            return ()
        return struct.unpack_from(f"<{count}H", self.data, section.offset)

    def _version_names(self) -> dict[int, str]:
        """Names of the versions this library defines, by index (Elf64_Verdef chains)."""
        section = self.sections.get(".gnu.version_d")
        if section is None:
            return {}
        strings, names, at = self._by_index[section.link], {}, section.offset
        for _ in range(section.size // 20):  # a chain cannot have more links than the section has room for
            _, flags, index, _, _, first, following = struct.unpack_from("<HHHHIII", self.data, at)
            if not flags & 1:  # VER_FLG_BASE: the file's own name
                (name,) = struct.unpack_from("<I", self.data, at + first)
                names[index] = _text(self.data, strings.offset + name, strings.offset + strings.size)
            if not following:
                break
            at += following
        return names

    @cached_property
    def code_symbols(self) -> tuple[tuple[int, int, str], ...]:
        """``(offset, size, name)`` of every code symbol, local ones too where the file has them, sorted."""
        found = set()
        for section in self._by_index:
            if section.kind not in (_SHT_SYMTAB, _SHT_DYNSYM) or section.link >= len(self._by_index):
                continue
            strings = self._by_index[section.link]
            end = strings.offset + strings.size
            for name, info, _, where, value, size in _records(self.bytes_of(section)):
                kind = info & 15
                code = kind in (_STT_FUNC, _STT_IFUNC) or (kind == _STT_NOTYPE and self._is_code(where))
                if where == 0 or not value or not name or not code:
                    continue
                found.add((value, size, _text(self.data, strings.offset + name, end)))
        return tuple(sorted(found))

    def section_end(self, address: int) -> int:
        """Return where the section of some code ends; the address itself if it is in none."""
        for section in self._by_index:
            if section.flags & _SHF_EXECINSTR and section.address <= address < section.address + section.size:
                return section.address + section.size
        return address

    def _is_code(self, index: int) -> bool:
        """Whether a symbol's section holds instructions: assembly labels have no type."""
        return index < len(self._by_index) and bool(self._by_index[index].flags & _SHF_EXECINSTR)


_EXECUTABLE = (
    "an executable, not a shared library; build the kernels with: gcc -shared -fPIC -o libkernels.so ... "
    "(or give the C files themselves)"
)


def _contents(path: Path) -> mmap.mmap | bytes:
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0:
                raise LibraryError(f"{path}: an empty file, not a shared library")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise LibraryError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise LibraryError(f"{path}: a directory, not a shared library; name a .so file inside it") from None
    except (OSError, ValueError) as error:
        raise LibraryError(f"{path}: cannot be read ({error})") from None


def _records(data: memoryview) -> list[tuple[int, int, int, int, int, int]]:
    return list(_SYMBOL.iter_unpack(data[: len(data) // _SYMBOL.size * _SYMBOL.size]))


def _text(data: mmap.mmap | bytes, start: int, end: int) -> str:
    stop = data.find(b"\0", start, end)
    return data[start : stop if stop >= 0 else end].decode("utf-8", "replace")


def _what_is(data: mmap.mmap | bytes) -> str:
    """Say what kind of file this is instead, with what to do about it, from its first bytes."""
    head = bytes(data[:4096])
    if head.startswith((b"!<arch>\n", b"!<thin>\n")):
        return (
            "a static library; link it into a shared one: gcc -shared -o libfoo.so "
            "-Wl,--whole-archive libfoo.a -Wl,--no-whole-archive"
        )
    if b"ld script" in head or head.lstrip().startswith((b"INPUT", b"GROUP", b"OUTPUT_FORMAT")):
        named = [
            word.decode("utf-8", "replace") for word in head.replace(b"(", b" ").split() if b".so" in word
        ]
        return "a linker script" + (f"; the library it names is {named[0]}" if named else "")
    if head.startswith(b"MZ"):
        return "a Windows program or DLL"
    if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"):
        return "a macOS (Mach-O) file"
    if head.startswith(b"PK\3\4"):
        return "a zip archive (a wheel?); unpack it and name the .so inside"
    if head.startswith(b"#!"):
        return "a script"
    if b"\0" not in head:
        return "a text file"
    return f"something else (it starts with {head[:4].hex(' ')})"
