"""Detail ``lines``: every line of memory is some instruction's, and nothing else differs from ``bytes``."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.cachesim.model import CacheModel, Totals
from counteroof.instrument.engine import Engine
from counteroof.machine.model import CacheLevel
from counteroof.native import ffi
from tests.cachesim.simulated import cache
from tests.compiled import needs, shared

from .asm_codes import cpu_flags

pytestmark = [pytest.mark.x86_64, needs("gcc")]

N = 30_000
"""Elements of 8 bytes; an array is larger than all caches of the model together."""

CACHES = [cache("L1", 16, 4), cache("L2", 32, 8, "inclusive"), cache("L3", 64, 16, "victim")]

SOURCE = r"""
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void triad(double *a, const double *b, const double *c, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}
void positive(double *a, const double *b, size_t n) {
    for (size_t i = 0; i < n; i++) if (b[i] > 0.5) a[i] = b[i];
}
void gather(double *a, const double *b, const unsigned *at, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] += b[at[i]];
}
void strings(char *a, const char *b, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(a), "+S"(b), "+c"(bytes) :: "memory");
}
void columns(double *sums, const double *a, size_t rows) {
    for (size_t j = 0; j < 100; j++)
        for (size_t i = 0; i < rows; i++) sums[j] += a[100 * i + j];
}
void recursive(int *a, size_t n) { if (n > 1) { recursive(a, n / 2); recursive(a + n / 2, n - n / 2); }
                                   else if (n) a[0] += (int)n; }
double first_time(double *a, const double *b, size_t n) {
    static size_t started;
    double sum = 0;
    if (!started) for (; started < n; started++) a[started] = 1.0;
    else for (size_t i = 0; i < n; i++) sum += b[i];
    return sum;
}
size_t allocates(size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) { char *p = malloc(100); sum += p != NULL; free(p); }
    return sum;
}
"""

MASKED = r"""
#include <immintrin.h>
#include <stddef.h>

void every_other(double *a, const double *b, size_t n) {
    __mmask8 lanes = 0x55;
    __asm__ volatile("" : "+k"(lanes)); /* one mask for all iterations, not known to the compiler */
    for (size_t i = 0; i < n; i += 8)
        _mm512_mask_storeu_pd(a + i, lanes, _mm512_maskz_loadu_pd(lanes, b + i));
}
"""


@pytest.fixture(scope="module", params=["-O1", "-O3 -march=native"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("lines")
    return ctypes.CDLL(str(shared(folder, SOURCE, *request.param.split())))


@dataclass
class Counted:
    """The second of two calls."""

    totals: Totals
    executed: Counter[int]
    """By address."""
    reads: Counter[int]
    writes: Counter[int]
    unattributed: tuple[int, int]


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def call(function: Any, detail: str, *arguments: int, caches: list[CacheLevel] = CACHES) -> Counted:
    frame = ffi.new("struct run_frame *")
    for slot, value in enumerate(arguments):
        frame.ints[slot] = value
    model = CacheModel(caches)
    if detail == "lines":
        model.start_origins()
    with Engine(detail, model.pointer) as engine:  # type: ignore[arg-type]
        engine.call(address_of(function), frame)
        engine.reset()
        model.reset()
        engine.call(address_of(function), frame)
        engine.drain()
        executed = list(engine.executed(idle=True))
    counted = Counted(model.totals(), Counter(), Counter(), Counter(), (0, 0))
    reads, writes = model.origins() if detail == "lines" else ([], [])
    for item in executed:
        counted.executed[item.instruction.ip] += item.times
        if reads:
            counted.reads[item.instruction.ip] += sum(reads[i] for i in item.accesses if i < len(reads))
            counted.writes[item.instruction.ip] += sum(writes[i] for i in item.accesses if i < len(reads))
    counted.unattributed = (reads[0], writes[0]) if reads else (0, 0)
    return counted


@pytest.mark.parametrize("name", ["triad", "positive", "gather", "strings", "columns", "recursive"])
def test_instructions_add_up_to_what_detail_bytes_counts(library: ctypes.CDLL, name: str) -> None:
    random = np.random.default_rng(1)
    a, b, c = (random.random(N) for _ in range(3))
    at = random.permutation(N).astype(np.uint32)
    arguments = {
        "triad": (a.ctypes.data, b.ctypes.data, c.ctypes.data, N),
        "positive": (a.ctypes.data, b.ctypes.data, N),
        "gather": (a.ctypes.data, b.ctypes.data, at.ctypes.data, N),
        "strings": (a.ctypes.data, b.ctypes.data, 8 * N),
        "columns": (a.ctypes.data, b.ctypes.data, N // 100),
        "recursive": (at.ctypes.data, N),
    }[name]
    function = getattr(library, name)
    plain = call(function, "bytes", *arguments)
    counted = call(function, "lines", *arguments)
    assert counted.totals == plain.totals
    assert counted.executed == plain.executed
    assert counted.totals.dram_read_bytes > 0
    assert counted.unattributed == (0, 0)
    assert sum(counted.reads.values()) == counted.totals.dram_read_bytes
    assert sum(counted.writes.values()) == counted.totals.dram_write_bytes


def test_reads_are_of_the_instructions_that_load_and_writes_of_the_one_that_stores(
    library: ctypes.CDLL,
) -> None:
    a, b, c = (np.ones(N) for _ in range(3))
    counted = call(library.triad, "lines", a.ctypes.data, b.ctypes.data, c.ctypes.data, N)
    readers = sorted(bytes_read for bytes_read in counted.reads.values() if bytes_read > N)
    (written,) = (bytes_written for bytes_written in counted.writes.values() if bytes_written > N)
    assert readers == pytest.approx([8 * N] * 3, rel=0.01)  # two loads, and the store's write-allocate
    assert written == pytest.approx(8 * N, rel=0.01)


@pytest.mark.avx512
@pytest.mark.skipif("avx512bw" not in cpu_flags(), reason="needs AVX-512")
def test_accesses_of_a_masked_loop_are_told_apart(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(shared(tmp_path, MASKED, "-mavx512f")))
    a, b = np.ones(N), np.ones(N)
    counted = call(library.every_other, "lines", a.ctypes.data, b.ctypes.data, N)
    assert sorted(read for read in counted.reads.values() if read > N) == pytest.approx(
        [8 * N, 8 * N], rel=0.01
    )
    (written,) = (bytes_written for bytes_written in counted.writes.values() if bytes_written > N)
    assert written == pytest.approx(8 * N, rel=0.01)
    assert sum(counted.reads.values()) == counted.totals.dram_read_bytes


def test_lines_that_the_call_before_left_dirty_are_of_what_made_them_so(library: ctypes.CDLL) -> None:
    a, b = np.zeros(N), np.ones(N)
    counted = call(library.first_time, "lines", a.ctypes.data, b.ctypes.data, N)
    (address, written) = counted.writes.most_common(1)[0]
    assert counted.executed[address] == 0
    assert written > N
    assert sum(counted.writes.values()) == counted.totals.dram_write_bytes


def test_each_operand_of_a_gather_has_its_own(library: ctypes.CDLL) -> None:
    a, b = np.ones(N), np.ones(N)
    at = np.random.default_rng(2).permutation(N).astype(np.uint32)
    counted = call(library.gather, "lines", a.ctypes.data, b.ctypes.data, at.ctypes.data, N)
    indices, sums, elements = sorted(read for read in counted.reads.values() if read > N)
    assert indices == pytest.approx(4 * N, rel=0.01)
    assert sums == pytest.approx(8 * N, rel=0.01)
    assert 8 * N < elements <= 64 * N
    (written,) = (bytes_written for bytes_written in counted.writes.values() if bytes_written > N)
    assert written == pytest.approx(8 * N, rel=0.01)


def test_calls_of_native_functions_are_counted_by_name(library: ctypes.CDLL) -> None:
    frame = ffi.new("struct run_frame *")
    frame.ints[0] = 17
    for detail in ("flops", "bytes", "lines"):
        with Engine(detail) as engine:  # type: ignore[arg-type]
            engine.call(address_of(library.allocates), frame)
            engine.reset()
            assert engine.native_calls == {}
            assert engine.call(address_of(library.allocates), frame)[0] == 17
            assert engine.native_calls == {"free": 17, "malloc": 17}
