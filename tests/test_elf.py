"""What a file must be to count as a shared library, and what is read from it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from counteroof.elf import ElfFile
from counteroof.errors import LibraryError
from counteroof.library import open_library

from .compiled import link, needs, shared

pytestmark = needs("gcc")

CODE = """
int data = 1;
static int local(int x) { return x + data; }
__attribute__((visibility("hidden"))) int hidden(int x) { return local(x); }
int add(int x) { return hidden(x); }
__attribute__((weak)) int weak(int x) { return x; }
extern int alias(int x) __attribute__((alias("add")));
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(
        tmp_path_factory.mktemp("elf"), CODE, "-g", "-Wl,-soname,libtest.so.1,--no-as-needed", "-lm"
    )


def refusal(path: Path) -> str:
    with pytest.raises(LibraryError) as caught:
        open_library(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def patched(library: Path, tmp_path: Path, offset: int, value: bytes) -> Path:
    data = bytearray(library.read_bytes())
    data[offset : offset + len(value)] = value
    (tmp_path / "patched.so").write_bytes(data)
    return tmp_path / "patched.so"


def test_exported_functions_are_listed_without_data_static_and_hidden_ones(library: Path) -> None:
    assert open_library(library).functions == ("add", "alias", "weak")


def test_weak_functions_and_aliases_are_told_apart(library: Path) -> None:
    opened = open_library(library)
    assert [export.weak for export in opened.exports] == [False, False, True]
    assert opened.export("alias").offset == opened.export("add").offset


def test_soname_and_dependencies_are_read(library: Path) -> None:
    elf = ElfFile(library)
    assert elf.soname == "libtest.so.1"
    assert elf.needed[0] in ("libm.so.6", "libc.so")  # musl has one library for all


def test_symbol_versions_name_the_default_plainly_and_older_ones_with_their_version(tmp_path: Path) -> None:
    (tmp_path / "versions").write_text("V1 { global: work; local: *; }; V2 { global: work; } V1;")
    code = """
    int old_work(void) { return 1; }
    int new_work(void) { return 2; }
    __asm__(".symver old_work, work@V1");
    __asm__(".symver new_work, work@@V2");
    """
    opened = open_library(shared(tmp_path, code, "-Wl,--version-script=versions", "-fno-lto"))
    assert opened.functions == ("work", "work@V1")
    assert opened.export("work") == opened.export("work@V2") == opened.export("work@@V2")
    assert opened.export("work").offset != opened.export("work@V1").offset


def test_functions_chosen_at_load_time_are_marked(tmp_path: Path) -> None:
    code = """
    static int one(void) { return 1; }
    static int (*choose(void))(void) { return one; }
    int chosen(void) __attribute__((ifunc("choose")));
    int plain(void) { return 2; }
    """
    opened = open_library(shared(tmp_path, code, "-g"))
    assert [(export.name, export.ifunc) for export in opened.exports] == [("chosen", True), ("plain", False)]
    assert opened.signature("chosen") is None
    assert "chosen at load time (IFUNC)" in opened.no_signature("chosen")


def test_file_that_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "libnone.so")


def test_folder_instead_of_a_file(tmp_path: Path) -> None:
    assert "a directory, not a shared library" in refusal(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.so").touch()
    assert "an empty file" in refusal(tmp_path / "empty.so")


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (b"int main(void);\n", "a text file"),
        (
            b"/* GNU ld script */ GROUP ( /lib/libc.so.6 AS_NEEDED ( x ) )",
            "a linker script; the library it names is /lib/libc.so.6",
        ),
        (b"!<arch>\nfoo.o/", "a static library; link it into a shared one: gcc -shared"),
        (b"MZ\x90\x00", "a Windows program or DLL"),
        (b"\xcf\xfa\xed\xfe\0\0", "a macOS (Mach-O) file"),
        (b"PK\3\4\0\0", "a zip archive"),
        (b"\0\1\2\3", "something else (it starts with 00 01 02 03)"),
        (b"\x7fEL", "a text file"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path: Path, contents: bytes, said: str) -> None:
    (tmp_path / "other.so").write_bytes(contents)
    message = refusal(tmp_path / "other.so")
    assert "not an ELF shared library" in message
    assert said in message


@pytest.mark.parametrize("part", [0.001, 0.01, 0.5, 0.999])
def test_truncated_library(library: Path, tmp_path: Path, part: float) -> None:
    data = library.read_bytes()
    (tmp_path / "cut.so").write_bytes(data[: max(5, int(len(data) * part))])
    assert "truncated ELF file" in refusal(tmp_path / "cut.so")


def test_library_without_section_headers(library: Path, tmp_path: Path) -> None:
    path = patched(library, tmp_path, 40, bytes(8))  # e_shoff
    path = patched(path, tmp_path, 60, bytes(4))  # e_shnum, e_shstrndx
    assert "without section headers" in refusal(path)


def test_32_bit_library(library: Path, tmp_path: Path) -> None:
    path = patched(patched(library, tmp_path, 4, b"\1"), tmp_path, 18, struct.pack("<H", 3))
    assert "a 32-bit library (i386 (32-bit x86)); counteroof needs 64-bit libraries" in refusal(path)


def test_big_endian_library(library: Path, tmp_path: Path) -> None:
    path = patched(patched(library, tmp_path, 5, b"\2"), tmp_path, 18, struct.pack(">H", 22))
    assert "a big-endian library (s390x)" in refusal(path)


def test_library_of_another_architecture(library: Path, tmp_path: Path) -> None:
    path = patched(library, tmp_path, 18, struct.pack("<H", 243))
    assert "built for RISC-V, but this machine is" in refusal(path)


@pytest.mark.parametrize("flag", ["-pie", "-no-pie"])
def test_executable(tmp_path: Path, flag: str) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    path = link(tmp_path, ["gcc", "-fPIC", flag, "main.c"], "program")
    assert "an executable, not a shared library; build the kernels with: gcc -shared" in refusal(path)


def test_object_file(tmp_path: Path) -> None:
    (tmp_path / "part.c").write_text("int f(void) { return 0; }")
    path = link(tmp_path, ["gcc", "-c", "part.c"], "part.o")
    assert "an object file; link it into a shared library" in refusal(path)


def test_damaged_libraries_are_refused_or_read_but_never_crash_the_reader(
    library: Path, tmp_path: Path
) -> None:
    data, chance = library.read_bytes(), random.Random(7)
    sections = struct.unpack_from("<Q", data, 40)[0]
    refused = 0
    for number in range(150):
        spoiled = bytearray(data)
        for _ in range(4):
            # The headers are where one wrong byte has consequences.
            region = (
                (4, 64) if number % 3 == 0 else (sections, len(data)) if number % 3 == 1 else (64, len(data))
            )
            spoiled[chance.randrange(*region)] = chance.randrange(256)
        path = tmp_path / f"{number}.so"
        path.write_bytes(spoiled)
        try:
            opened = open_library(path)
            for name in opened.functions:
                opened.signature(name)
                opened.symbol_at(opened.export(name).offset)
                opened.line_at(opened.export(name).offset)
        except LibraryError:
            refused += 1
    assert refused > 20
