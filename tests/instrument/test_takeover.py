"""Threads that were there before the engine: a pool made when its library is loaded, waiting for work."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.cachesim.model import CacheModel
from counteroof.instrument.engine import Engine
from counteroof.instrument.flops import rule_for
from counteroof.machine.topology import detect
from counteroof.native import ffi
from tests.compiled import needs, shared

pytestmark = [pytest.mark.x86_64, needs("gcc")]

POOL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
enum { THREADS = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go = PTHREAD_COND_INITIALIZER;
static sem_t done;
static volatile unsigned round_;
static double *a;
static size_t n;
static volatile int quit;
static pthread_t pool[THREADS];

static void wait_for_work(unsigned seen) {
#ifdef SPIN
    while (round_ == seen && !quit) SPIN;
#else
    pthread_mutex_lock(&lock);
    while (round_ == seen && !quit) pthread_cond_wait(&go, &lock);
    pthread_mutex_unlock(&lock);
#endif
}

static void *worker(void *number) {
    size_t me = (size_t)number;
#ifdef LEFT_ON_STACK
    void *volatile left[16];
    for (int i = 0; i < 16; i++) left[i] = (char *)dlsym(RTLD_DEFAULT, "PyLong_FromLong") + 5;
#endif
#ifdef BLOCK_SIGNALS
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
#endif
    for (unsigned seen = 0; wait_for_work(seen), !quit; seen++) {
        for (size_t i = n * me / THREADS; i < n * (me + 1) / THREADS; i++) a[i] = a[i] * 0.5 + 1.0;
        sem_post(&done);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    sem_init(&done, 0, 0);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&pool[i], NULL, worker, (void *)i);
}

static void tell(void) {
    pthread_mutex_lock(&lock);
    round_++;
    pthread_cond_broadcast(&go);
    pthread_mutex_unlock(&lock);
}

void smooth(double *array, size_t count) {
    a = array;
    n = count;
    tell();
    for (int i = 0; i < THREADS; i++) sem_wait(&done);
}

void stop(void) {
    quit = 1;
    tell();
    for (int i = 0; i < THREADS; i++) pthread_join(pool[i], NULL);
}
"""
N = 30_000


class Pool:
    """The library, its array, and what the array should hold."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.library = ctypes.CDLL(str(shared(folder, POOL, "-pthread", *flags)))
        self.array = np.zeros(N)
        self.expected = 0.0
        self.frame = ffi.new("struct run_frame *")
        self.frame.ints[0], self.frame.ints[1] = self.array.ctypes.data, N

    def smooth(self, engine: Engine | None = None) -> None:
        if engine is None:
            self.library.smooth(ctypes.c_void_p(self.array.ctypes.data), ctypes.c_size_t(N))
        else:
            engine.call(ctypes.cast(self.library.smooth, ctypes.c_void_p).value or 0, self.frame)
        self.expected = self.expected * 0.5 + 1.0
        assert (self.array == self.expected).all()


def flops(engine: Engine) -> list[int]:
    """Return the FLOPs of each thread that had any."""
    totals = []
    for thread in range(engine.threads):
        rules = ((item, rule_for(item.instruction)) for item in engine.executed(thread))
        totals.append(sum(item.times * rule.issued_flops for item, rule in rules if rule and rule.in_total))
    return [total for total in totals if total]


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_a_pool_that_sleeps_is_counted_and_goes_on_natively_afterwards(tmp_path: Path, detail: Any) -> None:
    pool = Pool(tmp_path)
    pool.smooth()
    for _ in range(3):
        model = CacheModel(detect().caches)
        with Engine(detail, model.pointer) as engine:
            for _ in range(5):
                pool.smooth(engine)
                assert flops(engine) == [2 * N // 3] * 3
                engine.reset()
        pool.smooth()
    pool.library.stop()


def test_what_the_interpreter_left_on_a_stack_makes_no_thread_its_own(tmp_path: Path) -> None:
    pool = Pool(tmp_path, "-DLEFT_ON_STACK")
    with Engine("flops") as engine:
        pool.smooth(engine)
        assert flops(engine) == [2 * N // 3] * 3
    pool.library.stop()


@pytest.mark.parametrize("wait", ["sched_yield()", "__builtin_ia32_pause()"])
def test_a_pool_that_waits_actively_is_counted(tmp_path: Path, wait: str) -> None:
    pool = Pool(tmp_path, f"-DSPIN={wait}")
    for _ in range(2):
        with Engine("bytes") as engine:
            for _ in range(3):
                pool.smooth(engine)
                assert flops(engine) == [2 * N // 3] * 3
                engine.reset()
        pool.smooth()
    pool.library.stop()


def test_threads_that_were_taken_over_may_end(tmp_path: Path) -> None:
    pool = Pool(tmp_path)
    with Engine("bytes") as engine:
        pool.smooth(engine)
        pool.library.stop()
    with Engine("bytes") as engine:
        engine.drain()


def test_a_pool_that_blocks_signals_is_left_alone_and_told(tmp_path: Path) -> None:
    pool = Pool(tmp_path, "-DBLOCK_SIGNALS")
    with Engine("flops") as engine:
        pool.smooth(engine)
        before = engine.others.busy()
        assert len(before) == 3
        assert engine.others.worked(before) is None
        for _ in range(10):
            pool.smooth(engine)
        assert flops(engine) == []
        message = engine.others.worked(before) or ""
        assert "ms beside what was counted: it blocks the signal to take it over with" in message
    pool.library.stop()
