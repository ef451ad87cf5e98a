"""Counts per source line and instruction: closed forms, and sums that are the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from counteroof.count.base import LineTraffic, Measurement
from counteroof.count.instrument import count
from counteroof.count.lines import NO_FILE, UNATTRIBUTED, Places, instructions, lines
from counteroof.formula import Formula
from counteroof.machine.model import CacheLevel
from counteroof.machine.topology import detect
from counteroof.run.execute import execute
from counteroof.run.prepare import PreparedCall
from counteroof.spec import Argument, KernelSpec, LibrarySpec, ScalarArg, array
from tests.compiled import needs, shared

pytestmark = pytest.mark.x86_64

N = 40_000
"""Elements of 8 bytes; an array is larger than the caches."""
CACHES = tuple(
    CacheLevel(name, size, 8, 64, 1, "inclusive", False, "a small machine: small arrays leave its caches")
    for name, size in (("L1", 8 << 10), ("L2", 16 << 10), ("L3", 64 << 10))
)

SOURCE = r"""#include <stddef.h>
#include <string.h>
void triad(double *a, const double *b, const double *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + 3.0 * c[i]; /* triad */
}
void two_loops(double *a, const double *b, const double *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] * 2.0; /* first */
    for (size_t i = 0; i < n; i++)
        a[i] += b[i] * c[i]; /* second */
}
void column_sum(double *a, const double *b, const double *c, size_t n) {
    size_t rows = n / 20;
    for (size_t j = 0; j < 20; j++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++)
            sum += b[20 * i + j]; /* sum */
        a[j] = sum; /* result */
    }
}
static inline double square(double x) {
    return x * x; /* inlined */
}
void norms(double *a, const double *b, const double *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i] = square(b[i]) + square(c[i]); /* outer */
}
void shares(double *a, const double *b, const double *c, size_t n) {
#pragma omp parallel for num_threads(2) schedule(static, 1)
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < n; i += t ? 1 : 3)
            a[i * 2 % n + t] += 1.0;
}
"""

TEMPLATES = r"""#include <cstddef>
template <typename T> static void scale(T *a, const T *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] * T(2); /* scale */
}
template <typename T> __attribute__((noinline)) static T total(const T *b, size_t n) {
    T sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += b[i]; /* total */
    return sum;
}
extern "C" void templates(double *a, const double *b, const double *c, size_t n) {
    scale(a, b, n);
    scale((float *)a, (const float *)c, 2 * n);
    a[0] = total(b, n);
    a[1] = total((const float *)c, 2 * n);
}
"""


@dataclass(frozen=True)
class Compiled:
    library: Path
    source: Path
    text: str

    def line(self, mark: str) -> int:
        """Number of the line with a comment."""
        return 1 + next(i for i, line in enumerate(self.text.splitlines()) if f"/* {mark} */" in line)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("lines")
    flags = ("-O2", "-g", "-fopenmp", "-ftree-vectorize", "-march=x86-64-v3")
    return Compiled(shared(folder, SOURCE, *flags), folder / "libtest.c", SOURCE)


def bytes_too(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Count with detail ``bytes``, whatever the options say."""
    return count(prepared, {**options, "detail": "bytes"})


def measured(library: Path, symbol: str, **fields: Any) -> tuple[Measurement, Measurement]:
    """Return the measurements of detail ``lines`` and ``bytes``, by one worker."""
    access = {"a": "update", "b": "read", "c": "read"}
    arguments: list[Argument] = [
        array(name, "f64", "n", "random", access=how)  # type: ignore[arg-type]
        for name, how in access.items()
    ]
    spec = KernelSpec(
        name=symbol,
        library=LibrarySpec(path=str(library)),
        symbol=symbol,
        signature=f"void {symbol}(double *a, const double *b, const double *c, size_t n)",
        params={"n": (N,)},
        args=(*arguments, ScalarArg("n", Formula("n"))),
        **fields,
    )
    run = execute(
        spec.cases()[0],
        tasks=["counteroof.count.instrument:count", "tests.count.test_lines:bytes_too"],
        options={"machine": replace(detect(), caches=CACHES), "detail": "lines"},
        time_limit=60,
        timing=False,
    )
    assert run.failure is None, run.failure
    by_line, plain = run.measurements
    assert plain.lines == plain.instruction_table == ()
    if spec.threads == 1:  # with more, bytes are not known
        check_sums(by_line)
        assert totals(by_line) == totals(plain)
    return by_line, plain


def totals(measurement: Measurement) -> tuple[float | None, ...]:
    return (
        measurement.instructions.value,
        measurement.flops.value,
        measurement.dram_read_bytes.value,
        measurement.dram_write_bytes.value,
    )


def check_sums(measurement: Measurement) -> None:
    table = measurement.instruction_table
    assert totals(measurement) == (
        sum(one.times for one in table),
        sum(one.flops for one in table),
        sum(one.dram_read_bytes for one in table),
        sum(one.dram_write_bytes for one in table),
    )
    assert totals(measurement) == (
        sum(one.instructions for one in measurement.lines),
        sum(one.flops for one in measurement.lines),
        sum(one.dram_read_bytes for one in measurement.lines),
        sum(one.dram_write_bytes for one in measurement.lines),
    )
    assert all(one.library != UNATTRIBUTED for one in table)


def of_line(measurement: Measurement, compiled: Compiled, mark: str) -> LineTraffic:
    (found,) = (
        one
        for one in measurement.lines
        if (one.file, one.line) == (str(compiled.source), compiled.line(mark))
    )
    return found


@needs("gcc")
class TestClosedForms:
    def test_all_of_a_triad_is_on_its_one_line(self, compiled: Compiled) -> None:
        measurement, _ = measured(compiled.library, "triad")
        line = of_line(measurement, compiled, "triad")
        assert line is measurement.lines[0]  # those with most bytes come first
        assert line.symbol == "triad"
        assert line.flops == measurement.flops.value == 2 * N
        assert line.dram_read_bytes == pytest.approx(24 * N, rel=1e-3)
        assert line.dram_write_bytes == pytest.approx(8 * N, rel=0.02)
        assert measurement.dram_write_bytes.value == line.dram_write_bytes

    def test_instructions_have_what_their_operands_moved(self, compiled: Compiled) -> None:
        measurement, _ = measured(compiled.library, "triad")
        loop = [one for one in measurement.instruction_table if one.times == N // 4]
        readers = [one for one in loop if one.dram_read_bytes > N]
        assert [round(one.dram_read_bytes / N) for one in readers] == [8, 8, 8]
        (store,) = (one for one in loop if one.dram_write_bytes > N)
        assert "ymm" in store.text
        assert store.text.split()[1].startswith("[")
        (fma,) = (one for one in loop if one.flops)
        assert (fma.lanes, fma.active_lanes, fma.flops) == (4, N, 2 * N)
        assert {(one.library, one.symbol) for one in loop} == {(str(compiled.library), "triad")}

    def test_two_loops_are_told_apart(self, compiled: Compiled) -> None:
        measurement, _ = measured(compiled.library, "two_loops")
        first, second = (of_line(measurement, compiled, mark) for mark in ("first", "second"))
        assert (first.flops, second.flops) == (N, 2 * N)
        assert first.dram_read_bytes == pytest.approx(16 * N, rel=0.02)
        assert second.dram_read_bytes == pytest.approx(24 * N, rel=0.02)
        assert first.dram_write_bytes == pytest.approx(8 * N, rel=0.02)
        assert second.dram_write_bytes == pytest.approx(8 * N, rel=0.02)

    def test_a_column_sum_fetches_a_line_for_every_element(self, compiled: Compiled) -> None:
        measurement, _ = measured(compiled.library, "column_sum")
        line = of_line(measurement, compiled, "sum")
        assert line.flops == N
        assert line.dram_read_bytes == pytest.approx(64 * N, rel=0.02)  # a column's 2000 lines fill 125 KiB
        assert line.dram_write_bytes == 0
        result = of_line(measurement, compiled, "result")
        assert (result.flops, result.instructions) == (0, 20)

    def test_inlined_code_is_on_the_line_where_it_was_written(self, compiled: Compiled) -> None:
        measurement, _ = measured(compiled.library, "norms")
        inlined, outer = (of_line(measurement, compiled, mark) for mark in ("inlined", "outer"))
        assert inlined.flops + outer.flops == 3 * N
        assert inlined.flops >= N  # the other product may be one instruction with the sum
        assert inlined.symbol == "norms"

    def test_a_cold_call_reads_and_writes_everything_once(self, compiled: Compiled) -> None:
        measurement, _ = measured(compiled.library, "triad", cache="cold")
        line = of_line(measurement, compiled, "triad")
        assert (line.dram_read_bytes, line.dram_write_bytes) == (24 * N, 8 * N)


@needs("gcc")
def test_without_debug_information_functions_take_the_place_of_lines(
    tmp_path: Path,
) -> None:
    library = shared(tmp_path, SOURCE, "-g0", "-O2", "-fopenmp")
    measurement, _ = measured(library, "triad")
    assert measurement.lines[0].dram_read_bytes == pytest.approx(24 * N, rel=1e-3)
    (function,) = (one for one in measurement.lines if one.file == str(library))
    assert (function.line, function.symbol, function.flops) == (None, "triad", 2 * N)


@needs("g++")
def test_a_template_is_one_line_in_all_functions_made_of_it(tmp_path: Path) -> None:
    library = shared(tmp_path, TEMPLATES, "-g", "-O2", compiler="g++")
    compiled = Compiled(library, tmp_path / "libtest.cpp", TEMPLATES)
    measurement, _ = measured(library, "templates")
    inlined, called = (of_line(measurement, compiled, mark) for mark in ("scale", "total"))
    assert (inlined.flops, called.flops) == (3 * N, 3 * N)
    assert inlined.symbol == "templates"
    assert called.symbol is None  # total<double> and total<float>
    symbols = {one.symbol for one in measurement.instruction_table if one.line == called.line}
    assert len(symbols) == 2


@needs("gcc")
def test_flops_of_threads_show_imbalance(compiled: Compiled) -> None:
    measurement, plain = measured(compiled.library, "shares", threads=2)
    assert sorted(plain.flops_by_thread) == sorted(measurement.flops_by_thread)
    assert sorted(measurement.flops_by_thread) == [-(-N // 3), N]
    assert sum(measurement.flops_by_thread) == measurement.flops.value
    assert any("1.50 times an even share" in note for note in measurement.notes)
    assert dict(measurement.native_calls)["GOMP_parallel"] == 1
    assert any("GOMP_parallel (1 call)" in note for note in measurement.notes)


MAPS = """\
10000-11000 r--p 00000000 08:01 7   /lib/libfoo.so
20000-21000 r--p 00000000 08:01 7   /lib/libfoo.so
21000-23000 r-xp 00001000 08:01 7   /lib/libfoo.so
23000-24000 rw-p 00002000 08:01 7   /lib/libfoo.so
40000-41000 r-xp 00000000 00:00 0
50000-51000 r-xp 00000000 00:00 0   [vdso]
"""


class TestPlaces:
    def test_addresses_are_from_where_the_library_was_loaded(self) -> None:
        assert Places(MAPS).find(0x22010) == ("/lib/libfoo.so", 0x2010)  # not from the copy that was read

    def test_code_in_no_file_keeps_its_address(self) -> None:
        assert Places(MAPS).find(0x40010) == (NO_FILE, 0x40010)
        assert Places(MAPS).find(0x23010) == (NO_FILE, 0x23010)  # not executable
        assert Places(MAPS).find(0x50010) == ("[vdso]", 0x10)


@pytest.mark.x86_64
def test_what_cannot_be_attributed_is_an_entry_of_its_own() -> None:
    from iced_x86 import Code, Instruction, Register

    from counteroof.count.flop_count import Convention
    from counteroof.instrument.engine import Executed

    move = Instruction.create_reg_reg(Code.MOV_R64_RM64, Register.RAX, Register.RCX)
    move.ip = 0x22010
    reads, writes = [64, 0, 640, 0], [128, 0, 0, 192]
    executed = [Executed(move, 5, None, (2,)), Executed(move, 2, None, (3, 99))]
    table = instructions(executed, (reads, writes), Convention("arith", ""), Places(MAPS))
    assert [(one.library, one.address, one.times, one.dram_read_bytes) for one in table] == [
        ("/lib/libfoo.so", 0x2010, 7, 640),
        (UNATTRIBUTED, None, 0, 64),
    ]
    assert [one.dram_write_bytes for one in table] == [192, 128]
    by_library = Counter({one.file: one.dram_bytes for one in lines(table)})
    assert by_library == {"/lib/libfoo.so": 832, UNATTRIBUTED: 192}
