"""Kernels on several threads: everything they execute is counted, whoever executes it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.errors import KernelFailed
from counteroof.instrument.engine import Engine
from counteroof.instrument.flops import rule_for
from counteroof.native import ffi
from tests.compiled import needs, shared

pytestmark = [pytest.mark.x86_64, needs("gcc")]

N = 30_000

SOURCE = r"""
#include <pthread.h>
#include <stddef.h>

void triad(double *a, const double *b, const double *c, size_t n) {
#pragma omp parallel for num_threads(3)
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}

double sum(const double *a, size_t n) {
    double total = 0;
#pragma omp parallel for num_threads(3) schedule(dynamic, 100) reduction(+ : total)
    for (size_t i = 0; i < n; i++) total += a[i];
    return total;
}

void tasks(double *a, size_t n) {
#pragma omp parallel num_threads(3)
#pragma omp single
    for (size_t i = 0; i < n; i += 1000)
#pragma omp task firstprivate(i)
        for (size_t j = i; j < i + 1000 && j < n; j++) a[j] *= 1.5;
}

struct part { double *a; size_t n; };
static void *add_one(void *argument) {
    struct part *part = argument;
    for (size_t i = 0; i < part->n; i++) part->a[i] += 1.0;
    return NULL;
}
void threads(double *a, size_t n) {
    pthread_t thread[4];
    struct part part[4];
    for (int i = 0; i < 4; i++) {
        part[i] = (struct part){a + i * (n / 4), n / 4};
        pthread_create(&thread[i], NULL, add_one, &part[i]);
    }
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return ctypes.CDLL(str(shared(tmp_path_factory.mktemp("threads"), SOURCE, "-fopenmp", "-pthread")))


def run(function: Any, detail: str, *arguments: int) -> tuple[list[int], tuple[str, ...]]:
    """Return the FLOPs of each thread that took part in the second of two calls, and what ran natively."""
    frame = ffi.new("struct run_frame *")
    for slot, value in enumerate(arguments):
        frame.ints[slot] = value
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    with Engine(detail) as engine:  # type: ignore[arg-type]
        engine.call(address, frame)
        engine.reset()
        engine.call(address, frame)
        flops = []
        for thread in range(engine.threads):
            executed = list(engine.executed(thread))
            rules = ((item, rule_for(item.instruction)) for item in executed)
            total = sum(item.times * rule.issued_flops for item, rule in rules if rule and rule.in_total)
            if executed:  # a thread of another library, such as NumPy's, executes nothing
                flops.append(total)
        return flops, engine.native_called


@pytest.mark.parametrize("detail", ["flops", "bytes"])
class TestOpenMP:
    def test_a_parallel_loop_is_counted_on_all_threads(self, library: ctypes.CDLL, detail: str) -> None:
        a, b, c = (np.full(N, value) for value in (0.0, 1.0, 2.0))
        flops, native = run(library.triad, detail, a.ctypes.data, b.ctypes.data, c.ctypes.data, N)
        assert flops == [2 * N // 3] * 3
        assert np.all(a == 7.0)
        assert "GOMP_parallel" in native

    def test_dynamic_chunks_add_up_whoever_took_them(self, library: ctypes.CDLL, detail: str) -> None:
        a = np.ones(N)
        flops, _ = run(library.sum, detail, a.ctypes.data, N)
        assert N <= sum(flops) <= N + 50  # each thread adds its part once, again if another was quicker

    def test_tasks_are_counted_where_they_run(self, library: ctypes.CDLL, detail: str) -> None:
        a = np.ones(N)
        flops, _ = run(library.tasks, detail, a.ctypes.data, N)
        assert sum(flops) == N
        assert np.all(a == 2.25)


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_threads_the_kernel_starts_are_counted(library: ctypes.CDLL, detail: str) -> None:
    a = np.zeros(N)
    flops, native = run(library.threads, detail, a.ctypes.data, N)
    assert sum(flops) == N
    assert np.all(a == 2.0)
    assert "pthread_create" in native


def test_a_pool_of_threads_outlives_the_engine(library: ctypes.CDLL) -> None:
    a = np.ones(N)
    for _ in range(3):
        flops, _ = run(library.tasks, "bytes", a.ctypes.data, N)
        assert sum(flops) == N


def test_a_library_that_is_only_called_like_a_thread_runtime_is_counted(tmp_path: Path) -> None:
    double = "void twice(double *a, long n) { for (long i = 0; i < n; i++) a[i] *= 2; }"
    named = ctypes.CDLL(str(shared(tmp_path, double, name="libomp.so")))
    a = np.ones(N)
    flops, native = run(named.twice, "flops", a.ctypes.data, N)
    assert sum(flops) == N
    assert np.all(a == 4.0)
    assert native == ()


def test_code_that_cannot_be_run_on_another_thread_is_an_error_of_the_call(tmp_path: Path) -> None:
    code = """
    #include <pthread.h>
    static void *thread(void *argument) {
        __asm__ volatile("mov %%ax, %%gs" : : "a"(0));
        return (char *)argument + 1;
    }
    unsigned long run(void) {
        pthread_t made;
        void *result;
        pthread_create(&made, NULL, thread, (void *)41);
        pthread_join(made, &result);
        return (unsigned long)result;
    }
    """
    library = ctypes.CDLL(str(shared(tmp_path, code, "-lpthread")))
    frame = ffi.new("struct run_frame *")
    with Engine("flops") as engine:
        for _ in range(2):
            with pytest.raises(KernelFailed, match=r"loads a segment register.*libtest\.so"):
                engine.call(ctypes.cast(library.run, ctypes.c_void_p).value or 0, frame)
            engine.reset()
        engine.check()
