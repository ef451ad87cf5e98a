"""A kernel that faults under the engine alone: the failure says where, as if it had run natively."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from counteroof.count.base import Measurement
from counteroof.count.instrument import count
from counteroof.formula import Formula
from counteroof.machine.topology import detect
from counteroof.run.execute import execute
from counteroof.run.prepare import PreparedCall
from counteroof.spec import KernelSpec, LibrarySpec, ScalarArg, array
from tests.compiled import needs, shared

pytestmark = [pytest.mark.x86_64, needs("gcc")]

ROOT = Path(__file__).parents[2]
TASK = f"{__name__}:armed"
# Every call is fine but the one after `calls_left` others.
KERNELS = r"""
#include <pthread.h>
#include <stddef.h>
#include <string.h>
long calls_left = -1;
static int now(void) { return calls_left >= 0 && calls_left-- == 0; }
void loop(double *a, size_t n) {
    size_t end = n + (now() ? 1000 : 0);
    for (size_t i = 0; i < end; i++) a[i] = 1.0; /* loop */
}
void store(double *a, size_t n) {
    a[0] = 2.0;
    a[now() ? n + 2 : 1] = 3.0; /* store */
    a[2] = 4.0;
}
void load(double *a, size_t n) {
    double sum = a[0];
    if (now()) sum += *(volatile double *)8; /* load */
    a[1] = sum;
}
void division(int *a, int n) {
    a[1] = a[0] / (now() ? a[0] - a[0] : n); /* division */
}
void trap(double *a, size_t n) {
    a[0] = 1.0;
    if (now()) __asm__ volatile("ud2"); /* trap */
    a[1] = n;
}
void unaligned(double *a, size_t n) {
    __asm__ volatile("movaps (%0), %%xmm0" : : "r"((char *)a + (now() ? 8 : 0)) : "xmm0"); /* unaligned */
}
void wild(double *a, size_t n) {
    void (*function)(double *, size_t) = now() ? (void (*)(double *, size_t))0x123456789000 : store;
    function(a, n); /* wild */
    a[3] = 1.0;
}
void nowhere(double *a, size_t n) {
    void (*function)(double *, size_t) = now() ? (void (*)(double *, size_t))0x1234567890000000 : store;
    function(a, n); /* nowhere */
    a[3] = 1.0;
}
void in_libc(double *a, size_t n) {
    memset(a, 0, n * 8 + (now() ? 100000 : 0)); /* in_libc */
    a[0] = 1.0;
}
static double *array;
static size_t size;
static void *work(void *unused) {
    array[now() ? size + 1 : 0] = 5.0; /* thread */
    return NULL;
}
void thread(double *a, size_t n) {
    pthread_t made;
    array = a; size = n;
    pthread_create(&made, NULL, work, NULL);
    pthread_join(made, NULL);
}
"""


def armed(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Count a kernel whose second call from now on fails: the first one under the engine."""
    library = ctypes.CDLL(prepared.library_path)
    ctypes.c_long.in_dll(library, "calls_left").value = 1 + options["calls"]
    return count(prepared, options)


@pytest.mark.parametrize(("detail", "calls"), [("flops", 0), ("bytes", 1)])
@pytest.mark.parametrize(
    ("symbol", "kind", "told", "function"),
    [
        (
            "loop",
            "out-of-bounds",
            r"SIGSEGV: wrote just past the end of a \(832 bytes of f64\), 0 bytes",
            "loop",
        ),
        (
            "store",
            "out-of-bounds",
            r"SIGSEGV: wrote just past the end of a \(832 bytes of f64\), 16 b",
            "store",
        ),
        ("load", "crash", "SIGSEGV: read address 0x8: a null pointer", "load"),
        ("division", "crash", "SIGFPE: integer division by zero", "division"),
        ("trap", "crash", "SIGILL: an instruction this processor does not have", "trap"),
        ("unaligned", "crash", "SIGSEGV: an address no process can have, or an operand not al", "unaligned"),
        (
            "thread",
            "out-of-bounds",
            r"SIGSEGV: wrote just past the end of a \(832 bytes of f64\), 8 b",
            "work",
        ),
    ],
)
def test_a_fault_under_the_engine_is_told_with_its_original_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    symbol: str,
    kind: str,
    told: str,
    function: str,
    detail: str,
    calls: int,
) -> None:
    message = failure(tmp_path, monkeypatch, symbol, kind, detail, calls)
    assert re.search(f"{told}.*, in {function} of libtest.so at libtest.c:{line_of(symbol)}$", message), (
        message
    )


@pytest.mark.parametrize(
    ("symbol", "kind", "told"),
    [
        (
            "wild",
            "crash",
            "SIGSEGV: executed address 0x123456789000, which is in none of the arrays, called from",
        ),
        ("nowhere", "crash", "SIGSEGV: an address no process can have.*in"),
        (
            "in_libc",
            "out-of-bounds",
            r"wrote just past the end of a .*, in \S*memset\S* of libc\S*( at \S+)?, called from",
        ),
    ],
)
def test_a_fault_outside_of_the_library_is_told_with_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, symbol: str, kind: str, told: str
) -> None:
    message = failure(tmp_path, monkeypatch, symbol, kind, "bytes", 1)
    assert re.search(f"{told} {symbol} of libtest.so at libtest.c:{line_of(symbol)}$", message), message


def failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, symbol: str, kind: str, detail: str, calls: int
) -> str:
    """Return what is told of a kernel that fails in its first or second call under the engine."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = shared(folder, KERNELS, "-g", "-lpthread")
    spec = KernelSpec(
        name=symbol,
        library=LibrarySpec(path=str(path)),
        symbol=symbol,
        params={"n": (104,)},
        args=(
            array("a", "i32" if symbol == "division" else "f64", "n", "random"),
            ScalarArg("n", Formula("n")),
        ),
    )
    options = {"machine": detect(), "detail": detail, "calls": calls}
    run = execute(spec.cases()[0], tasks=[TASK], options=options, time_limit=60, timing=False)
    assert run.failure is not None
    assert run.failure.kind == kind, run.failure.message
    assert f"the counted call ({TASK}; the plain calls were fine) was ended by" in run.failure.message
    return run.failure.message


def line_of(symbol: str) -> int:
    """Return the line of the source with the comment that names it."""
    return next(at for at, line in enumerate(KERNELS.splitlines(), 1) if f"/* {symbol} */" in line)
