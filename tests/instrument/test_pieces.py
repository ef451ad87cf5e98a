"""What the cache model is told of a kernel is what its instructions did, cut at lines and dealt to parts."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.instrument.engine import Engine
from counteroof.native import ffi, lib
from tests.cachesim.simulated import cache
from tests.compiled import needs, shared

pytestmark = [pytest.mark.x86_64, needs("gcc")]

N = 5_000
ROOM = 200_000
CACHES = [cache("L1", 16, 4), cache("L2", 32, 8, "inclusive"), cache("L3", 64, 16, "victim")]

SOURCE = r"""
#include <stddef.h>
typedef double pair __attribute__((vector_size(16), aligned(1)));

/* No loop that is recorded at its ends: where it goes depends on data. Vectors lie across lines and pages. */
void scattered(char *to, const char *from, const unsigned *at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *here = from + 13 * (size_t)at[i];
        if (at[i] & 1) {
            *(pair *)(to + 11 * (size_t)at[i]) = *(const pair *)here + *(const pair *)(here + 56);
        } else {
            to[at[i]] += 1;
            __builtin_prefetch(here + 60);
            *(pair *)(to + 8 * (size_t)at[i] + 3) = *(const pair *)(to + 64 + 8 * (size_t)at[i]);
            __asm__ volatile("clflush %0" : : "m"(to[8 * (size_t)at[i] + 50]) : "memory");
        }
    }
}
/* Many accesses by one register, as in unrolled kernels: more than eight, the last one alone. */
void unrolled(char *to, const char *from, const unsigned *at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *here = from + 8 * (size_t)at[i] + (at[i] & 31);
        pair sum = {0, 0};
#define ADD(k) sum += *(const pair *)(here + 15 * k);
        ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(8) ADD(9) ADD(10) ADD(11) ADD(12)
        if (at[i] % 3) *(pair *)(to + 9 * (size_t)at[i]) = sum;
    }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(tmp_path_factory.mktemp("pieces"), SOURCE, "-O2")


def traced(function: int, frame: Any) -> list[tuple[int, int, int]]:
    """Return (address, bytes, kind) of every access."""
    room = ffi.new("struct instrument_touch[]", ROOM)
    with Engine("bytes") as engine:
        lib.instrument_trace(room, ROOM)
        engine.call(function, frame)
        engine.drain()
        count = lib.instrument_traced()
        lib.instrument_trace(ffi.NULL, 0)
    assert count <= ROOM
    return [(touch.address, touch.bytes, touch.kind) for touch in room[0:count]]


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("name", ["scattered", "unrolled"])
def test_model_sees_every_access_once_and_in_order(
    library: Path, name: str, parts: int, vectors: bool
) -> None:
    random = np.random.default_rng(1)
    at = random.permutation(N).astype(np.uint32)
    to, source = np.zeros(14 * N, np.uint8), np.zeros(14 * N, np.uint8)
    function = ctypes.cast(getattr(ctypes.CDLL(str(library)), name), ctypes.c_void_p).value or 0
    frame = ffi.new("struct run_frame *")
    for slot, value in enumerate((to.ctypes.data, source.ctypes.data, at.ctypes.data, N)):
        frame.ints[slot] = value
    told, made = (CacheModel(CACHES, parts=parts) for _ in range(2))
    for model in (told, made):
        for array_name, array in (("to", to), ("from", source), ("at", at)):
            model.add_array(array_name, array.ctypes.data, array.nbytes)
    lib.instrument_cut_plainly(not vectors)
    try:
        with Engine("bytes", told.pointer) as engine:
            engine.call(function, frame)
            engine.drain()
    finally:
        lib.instrument_cut_plainly(False)
    accesses = traced(function, frame)
    crossing = sum(address // 64 != (address + nbytes - 1) // 64 for address, nbytes, _ in accesses)
    assert crossing > N / 4
    for address, nbytes, kind in accesses:
        made.access(address, nbytes, Kind(kind))
    assert len(accesses) > 3 * N
    assert told.totals().levels == made.totals().levels
    *arrays, _other = told.arrays()
    assert tuple(arrays) == made.arrays()[: len(arrays)]
