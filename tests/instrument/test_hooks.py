"""Python callables whose C functions run under the engine while they are hooked."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.count.instrument import count_flops
from counteroof.errors import KernelFailed
from counteroof.instrument.engine import Engine
from counteroof.instrument.hooks import hooked
from tests.compiled import needs, shared

pytestmark = pytest.mark.x86_64


def flops(engine: Engine) -> int:
    total = count_flops(engine.executed(), "arith", "").flops
    engine.reset()
    return total


def test_inner_loops_of_ufuncs_are_counted_whoever_calls_them() -> None:
    x = np.arange(1000.0)
    with Engine("flops") as engine, hooked(engine, np.add, np.multiply):
        y = x + x
        assert flops(engine) == 1000
        np.multiply(x, 2.0, out=y)
        assert flops(engine) == 1000
        np.subtract(y, x, out=x)  # not hooked
        assert flops(engine) == 0
    assert (y == 2.0 * x).all()


def test_built_in_functions_and_methods_are_counted() -> None:
    a = np.ones((30, 30))
    with Engine("flops") as engine, hooked(engine, np.dot, np.bincount, np.ndarray.sort):
        np.dot(a, a)
        assert flops(engine) >= 2 * 30**3
        np.bincount(np.zeros(100, int), np.ones(100))
        assert flops(engine) == 100
        a.sort()
        assert sum(engine.block_counts()) > 100
        assert "the Python interpreter" in engine.native_called


def test_nothing_is_counted_after_the_context_also_if_it_ends_with_an_exception() -> None:
    with Engine("flops") as engine:
        with pytest.raises(TypeError), hooked(engine, math.sqrt):
            math.sqrt("text")
        assert sum(engine.block_counts()) > 0
        engine.reset()
        assert math.sqrt(4) == 2
        assert sum(engine.block_counts()) == 0
    assert math.sqrt(4) == 2


def test_what_is_no_c_function_is_refused_and_nothing_is_hooked() -> None:
    with Engine("flops") as engine:
        for wrong in (lambda: 0, 3, np.linalg.solve, int):
            with pytest.raises(ValueError, match="cannot be hooked"), hooked(engine, math.sqrt, wrong):
                pass
        math.sqrt(4)
        assert sum(engine.block_counts()) == 0


HARD = """
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
extern void *PyLong_FromLong(long);
extern long PyLong_AsLong(void *);
static char text[] = "text";
static int compare(const void *a, const void *b) {
    unsigned long got = 0;
    if (*(const int *)a == 3) __asm__ volatile(HARD : "+a"(got) : "S"(0) : "memory");
    return *(const int *)a - *(const int *)b + 0 * got;
}
void *function(void *self, void *argument) {
    int numbers[] = {5, 3, 9, 1};
    unsigned long got = 0;
    syscall(SYS_arch_prctl, ARCH_SET_GS, text);
    qsort(numbers, 4, sizeof *numbers, compare);
    long sum = PyLong_AsLong(argument) * 3;
    for (int i = 0; i < 4; i++) sum = sum * 10 + numbers[i];
    __asm__ volatile(HARD : "+a"(got) : "S"(0) : "memory");
    syscall(SYS_arch_prctl, ARCH_SET_GS, 0);
    return PyLong_FromLong(sum * 1000 + got);
}
"""


class Method(ctypes.Structure):
    """A PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def built_in(library: ctypes.CDLL) -> Any:
    """Return a built-in function made of ``function``, which takes one argument."""
    address = ctypes.cast(library.function, ctypes.c_void_p).value
    method = Method(b"function", address, 8, None)  # METH_O
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    library.method = method  # it has to live as long
    return make(ctypes.addressof(method), None, None)


@needs("gcc")
@pytest.mark.parametrize(
    ("instruction", "says", "got"),
    [
        ("lodsb %%gs:(%%rsi), %%al", "string instruction relative to GS", ord("t")),
        ("mov %%ax, %%gs", "loads a segment register", 0),
    ],
)
def test_code_that_cannot_be_run_is_an_error_at_the_end(
    tmp_path: Path, instruction: str, says: str, got: int
) -> None:
    """The call itself goes on natively, through frames of translated and of native functions."""
    library = ctypes.CDLL(str(shared(tmp_path, HARD, f'-DHARD="{instruction}"')))
    function = built_in(library)
    expected = 7 * 3 * 10_000_000 + 1_359_000 + got
    assert function(7) == expected
    for _ in range(2):
        results = []
        with Engine("flops") as engine:
            with pytest.raises(KernelFailed, match=says) as failure, hooked(engine, function):
                results += [function(7), function(7)]
            assert "compare" in str(failure.value) or "libtest.so" in str(failure.value)
            engine.reset()
            engine.check()
        assert results == [expected] * 2
        assert function(7) == expected


POOL = """
#include <pthread.h>
#include <semaphore.h>
extern void *PyLong_FromLong(long);
extern long PyLong_AsLong(void *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
static sem_t go, done;
static double value;
static long count;
static pthread_t thread;
static void *worker(void *unused) {
#ifdef BLOCK_SIGNALS
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
#endif
    for (;;) {
        sem_wait(&go);
        if (!count) return NULL;
        for (long i = 0; i < count; i++) value = value * 0.5 + 1.0;
        sem_post(&done);
    }
    return NULL;
}
__attribute__((constructor)) static void start(void) {
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&thread, NULL, worker, NULL);
}
void *function(void *self, void *argument) {
    count = PyLong_AsLong(argument);
    void *state = PyEval_SaveThread();
    sem_post(&go);
    if (count) sem_wait(&done);
    else pthread_join(thread, NULL);
    PyEval_RestoreThread(state);
    return PyLong_FromLong(count);
}
"""


@needs("gcc")
def test_threads_that_a_module_had_before_are_counted(tmp_path: Path) -> None:
    library = ctypes.CDLL(str(shared(tmp_path, POOL, "-pthread")))
    function = built_in(library)
    function(10)
    with Engine("flops") as engine, hooked(engine, function):
        assert function(1000) == 1000
        assert flops(engine) == 2 * 1000
    assert function(10) == 10
    function(0)


@needs("gcc")
def test_threads_that_cannot_be_counted_and_work_are_an_error_at_the_end(tmp_path: Path) -> None:
    code = "#include <signal.h>\n" + POOL
    library = ctypes.CDLL(str(shared(tmp_path, code, "-pthread", "-DBLOCK_SIGNALS")))
    function = built_in(library)
    with Engine("flops") as engine:
        with (
            pytest.raises(KernelFailed, match="blocks the signal"),
            hooked(engine, function),
        ):
            function(3_000_000)
        with hooked(engine, math.sqrt):
            math.sqrt(4)
    assert function(10) == 10
    function(0)
