"""Executed count of every instruction under the engine, against valgrind's callgrind."""

from __future__ import annotations

import ctypes.util
import shutil
from pathlib import Path

import pytest

from counteroof.catalog import kernels
from counteroof.catalog.variant import available_levels
from tests.compiled import needs, shared
from tests.instrument.callgrind import (
    CODE,
    FFTW,
    ZLIB,
    Counts,
    Job,
    MappedFiles,
    Oracle,
    code_jobs,
    differences,
    instructions,
    kernel_job,
    parse,
)
from tests.kernels.test_every_kernel import REMAINDERS

VALGRIND = [
    pytest.mark.x86_64,
    pytest.mark.valgrind,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind"),
]
NAMES = [kernel.name for kernel in kernels()]

Pairs = dict[str, list[tuple[Job, Counts]]]
"""By name, what callgrind counted in each job."""


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("callgrind"))


# ---- the built-in kernels ----


@pytest.fixture(scope="module")
def kernel_counts(oracle: Oracle) -> Pairs:
    """The kernels at their small sizes and at sizes that leave a remainder."""
    jobs = {
        spec.name: [kernel_job(spec.cases("small", sizes)[0]) for sizes in ({}, *REMAINDERS[spec.name])]
        for spec in kernels("v3")
    }
    counts = iter(oracle.callgrind([job for several in jobs.values() for job in several]))
    return {name: [(job, next(counts)) for job in several] for name, several in jobs.items()}


def check(oracle: Oracle, job: Job, expected: Counts, detail: str) -> None:
    """Compare the counts of a first and of a second call."""
    assert instructions(expected) > 0
    for counts in oracle.engine(job, detail):
        assert [str(difference) for difference in differences(expected, counts)] == [], job.label


@pytest.mark.parametrize("detail", ["flops", "bytes"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.skipif("v3" not in available_levels(), reason="needs x86-64-v3")
class TestKernels:
    pytestmark = VALGRIND

    def test_every_instruction_is_executed_as_often(
        self, oracle: Oracle, kernel_counts: Pairs, name: str, detail: str
    ) -> None:
        for job, expected in kernel_counts[name]:
            check(oracle, job, expected, detail)


# ---- real libraries, and control flow of all kinds ----


def counted(oracle: Oracle, names: tuple[str, ...], *flags: str) -> dict[str, tuple[Job, Counts]]:
    jobs = code_jobs(oracle.folder, names, *flags)
    return dict(zip(names, zip(jobs, oracle.callgrind(jobs), strict=True), strict=True))


@pytest.fixture(scope="module")
def code_counts(oracle: Oracle) -> dict[str, tuple[Job, Counts]]:
    return counted(oracle, CODE)


@pytest.fixture(scope="module")
def zlib_counts(oracle: Oracle) -> dict[str, tuple[Job, Counts]]:
    return counted(oracle, ZLIB, "-DZLIB", "-l:libz.so.1")


@pytest.fixture(scope="module")
def fftw_counts(oracle: Oracle) -> dict[str, tuple[Job, Counts]]:
    return counted(oracle, FFTW, "-DFFTW", "-l:libfftw3.so.3")


@pytest.mark.parametrize("detail", ["flops", "bytes"])
class TestCode:
    pytestmark = VALGRIND

    @pytest.mark.parametrize("name", CODE)
    def test_control_flow_and_mathematical_functions(
        self, oracle: Oracle, code_counts: dict[str, tuple[Job, Counts]], name: str, detail: str
    ) -> None:
        check(oracle, *code_counts[name], detail)

    @pytest.mark.parametrize("name", ZLIB)
    @pytest.mark.skipif(ctypes.util.find_library("z") is None, reason="needs libz.so.1")
    def test_zlib(
        self, oracle: Oracle, zlib_counts: dict[str, tuple[Job, Counts]], name: str, detail: str
    ) -> None:
        check(oracle, *zlib_counts[name], detail)

    @pytest.mark.parametrize("name", FFTW)
    @pytest.mark.fftw
    @pytest.mark.skipif(ctypes.util.find_library("fftw3") is None, reason="needs libfftw3.so.3")
    def test_fftw(
        self, oracle: Oracle, fftw_counts: dict[str, tuple[Job, Counts]], name: str, detail: str
    ) -> None:
        check(oracle, *fftw_counts[name], detail)


# ---- the comparison itself ----

DUMP = """\
# callgrind format
version: 1
positions: instr line
events: Ir Dr

ob=(1) /lib/libone.so
fl=(1) one.c
fn=(1) one
0x1000 10 3 1
+4 +1 3
cob=(2) /lib/libtwo.so
cfi=(2) two.c
cfn=(2) two
calls=3 0x2000 -5
* * 900 7
-4 * 5
+8 12

ob=(2)
fl=(2)
fn=(2)
0x2000 6 3
+16 * 2

ob=(1)
fl=(1)
fn=(1)
0x1000 10 1
totals: 917 8
"""


def test_counts_of_called_functions_are_not_added_to_the_call() -> None:
    assert parse(DUMP) == {"/lib/libone.so": {0x1000: 9, 0x1004: 3}, "/lib/libtwo.so": {0x2000: 3, 0x2010: 2}}


@pytest.mark.parametrize(
    ("header", "message"),
    [("positions: line", "no instruction addresses"), ("positions: instr\nevents: Dr Ir", "must be Ir")],
)
def test_dumps_without_addresses_or_instruction_counts_are_refused(header: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(header)


def test_addresses_in_memory_become_those_of_the_file() -> None:
    files = MappedFiles(
        "7f10000-7f12000 r--p 00000000 08:01 11 /lib/libone.so\n"
        "7f12000-7f14000 r-xp 00002000 08:01 11 /lib/libone.so\n"
        "7f20000-7f21000 r-xp 00000000 00:00 0 \n"
    )
    assert files.sort({0x7F12010: 3, 0x7F20001: 4}) == {"/lib/libone.so": {0x2010: 3}, "": {1: 4}}
    with pytest.raises(ValueError, match="belongs to no file"):
        files.at(0x1000)


@needs("gcc")
def test_one_execution_too_many_or_too_few_is_found(tmp_path: Path) -> None:
    library = shared(tmp_path, 'asm(".globl f\\nf: rep movsb\\n nop\\n ret");', "-Wl,--build-id=none")
    file, start = str(library), symbol_address(library)
    counts = {file: {start: 105, start + 2: 5, start + 3: 5}, "/lib/libc.so.6": {0x10: 1}}

    def found(repeated: int, nop: int, ret: int, more: int = 0) -> list[str]:
        ours = {file: {start: repeated, start + 2: nop, start + 3: ret, start + 4: more}}
        return [str(difference) for difference in differences(counts, ours)]

    assert found(105, 5, 5) == []
    assert found(5, 5, 5) == []  # callgrind counts the iterations of a repeated string instruction
    assert found(0, 5, 5) == [f"libtest.so+{start:#x}: callgrind 105, engine 0"]
    assert found(106, 5, 5) == [f"libtest.so+{start:#x}: callgrind 105, engine 106"]
    assert found(5, 4, 5) == [f"libtest.so+{start + 2:#x}: callgrind 5, engine 4"]
    assert found(5, 5, 6, 1) == [
        f"libtest.so+{start + 3:#x}: callgrind 5, engine 6",
        f"libtest.so+{start + 4:#x}: callgrind 0, engine 1",
    ]


def symbol_address(library: Path) -> int:
    """Return the address of ``f`` in the file."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as stream:
        (symbol,) = ELFFile(stream).get_section_by_name(".dynsym").get_symbol_by_name("f")
        return int(symbol["st_value"])
