"""Signals: handlers of the program run translated, at any moment, and see the original code."""

from __future__ import annotations

import ctypes
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from counteroof.instrument.engine import Engine
from counteroof.instrument.translate import Detail
from counteroof.native import ffi, lib
from tests.compiled import needs, shared
from tests.instrument.programs import WORK, Ran, address_of, call_frame, in_process, same

pytestmark = [pytest.mark.x86_64, needs("gcc")]

HEAD = (
    """
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <setjmp.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/time.h>
    #include <ucontext.h>
    #include <unistd.h>
    """
    + WORK
)


def test_a_timer_interrupts_the_kernel(tmp_path: Path, detail: Detail) -> None:
    code = """
    static volatile unsigned long ticks;
    static void on_tick(int number) { work(number); ticks++; }
    unsigned long run(void) {
        static double a[1000];
        struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, old;
        struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
        sigaction(SIGALRM, &action, &old);
        setitimer(ITIMER_REAL, &often, NULL);
        unsigned long sum = 0;
        for (unsigned long i = 0; ticks < 100; i++) {
            for (int k = 0; k < 1000; k++) a[k] = a[k] * 0.5 + k;   /* a counted loop */
            sum = 0;
            for (int k = 0; k < 1000; k++) sum = sum * 31 + (unsigned long)a[k];
            work(i);
            if (i < 60) sum = ticks; else if (i > 3000) ticks = 100;
        }
        setitimer(ITIMER_REAL, &never, NULL);
        sigaction(SIGALRM, &old, NULL);
        double check = 0;
        for (int k = 0; k < 1000; k++) check += a[k];
        return a[3] > 5.9 && check > 900000 ? 1 : sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_signals_the_program_sends_itself(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned long seen;
    static void on_signal(int number, siginfo_t *info, void *context) {
        ucontext_t *user = context;
        (void)user;
        seen = seen * 31 + work(number) + (info->si_pid == getpid()) + info->si_signo;
    }
    unsigned long run(void) {
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, old;
        sigset_t set, before, pending;
        unsigned long sum = 0;
        sigaction(SIGUSR1, &action, NULL);
        for (int i = 0; i < 10; i++) { raise(SIGUSR1); sum = sum * 31 + seen; }
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, &before);
        raise(SIGUSR1);
        sigpending(&pending);
        sum = sum * 31 + seen + sigismember(&pending, SIGUSR1);
        sigprocmask(SIG_SETMASK, &before, NULL); /* it comes now */
        sum = sum * 31 + seen;
        sigaction(SIGUSR1, NULL, &old);
        sum = sum * 31 + (old.sa_sigaction == on_signal);
        signal(SIGUSR1, SIG_IGN);
        raise(SIGUSR1);
        return sum + seen;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_handler_jumps_out(tmp_path: Path, detail: Detail) -> None:
    code = """
    static sigjmp_buf back;
    static void on_tick(int number) { work(number); siglongjmp(back, 1); }
    unsigned long run(void) {
        static volatile double a[1000];
        struct sigaction action = {.sa_handler = on_tick};
        struct itimerval soon = {{0, 0}, {0, 700}};
        sigaction(SIGALRM, &action, NULL);
        volatile unsigned long sum = 0;
        for (volatile int i = 0; i < 50; i++) {
            if (sigsetjmp(back, 1)) { sum = sum * 31 + work(i); continue; }
            setitimer(ITIMER_REAL, &soon, NULL);
            for (;;) for (int k = 0; k < 1000; k++) a[k] = a[k] * 0.5 + k;
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_fault_is_repaired_and_tried_again(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned char *area;
    static unsigned long size = 64 * 4096;
    static void on_fault(int number, siginfo_t *info, void *context) {
        unsigned long page = (unsigned long)info->si_addr & ~4095ul;
        work(number);
        if (page < (unsigned long)area || page >= (unsigned long)area + size) abort();
        mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
    }
    unsigned long run(void) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
        area = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sigaction(SIGSEGV, &action, &old);
        double *numbers = (double *)area;
        for (unsigned long i = 0; i < size / 8; i++) numbers[i] = i * 0.5;
        unsigned long sum = 0;
        for (unsigned long i = 0; i < size; i++) sum = sum * 31 + area[i];
        mprotect(area, size, PROT_NONE);
        memset(area, 7, size / 2);
        for (unsigned long i = 0; i < size; i += 100) sum = sum * 31 + area[i];
        sigaction(SIGSEGV, &old, NULL);
        munmap(area, size);
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail, flags=["-O2"])


def test_alternate_stacks(tmp_path: Path, detail: Detail) -> None:
    code = """
    static sigjmp_buf back;
    static unsigned long depth;
    __attribute__((noinline)) static unsigned long deeper(unsigned long n) {
        volatile char room[4096];
        room[0] = n;
        return deeper(n + 1) + room[0];
    }
    static void on_overflow(int number, siginfo_t *info, void *context) {
        work(number);
        siglongjmp(back, 1);
    }
    static void *thread(void *argument) {
        static unsigned char room[65536];
        stack_t stack = {.ss_sp = room, .ss_size = sizeof room}, old;
        struct sigaction action = {.sa_sigaction = on_overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaltstack(&stack, NULL);
        sigaction(SIGSEGV, &action, NULL);
        volatile unsigned long caught = 0;
        for (volatile int i = 0; i < 5; i++) {
            if (sigsetjmp(back, 1)) { caught++; continue; }
            deeper(0);
        }
        sigaltstack(NULL, &old);
        return (void *)(caught + 10 * (old.ss_sp == room && old.ss_size == sizeof room));
    }
    unsigned long run(void) {
        pthread_t one;
        pthread_attr_t attributes;
        void *result;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 512 * 1024);
        pthread_create(&one, &attributes, thread, NULL);
        pthread_join(one, &result);
        signal(SIGSEGV, SIG_DFL);
        return (unsigned long)result;
    }
    """
    assert same(tmp_path, HEAD + code, detail=detail, flags=["-lpthread"]).value == 15


def test_blocking_system_calls_are_interrupted(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <errno.h>
    static int pipes[2], empty[2];
    static volatile unsigned long ticks;
    static void on_tick(int number) { char x = work(number); ticks++; write(pipes[1], &x, 1); }
    unsigned long run(void) {
        struct sigaction again = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
        struct sigaction once = {.sa_handler = on_tick};
        struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
        unsigned long sum = 0;
        char got;
        if (pipe(pipes) || pipe(empty)) return 0;
        sigaction(SIGALRM, &again, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
        for (int i = 0; i < 3; i++) sum = sum * 31 + read(pipes[0], &got, 1) + got;
        sigaction(SIGALRM, &once, NULL);
        sum = sum * 31 + (pause() == -1 && errno == EINTR);
        sum = sum * 31 + (read(empty[0], &got, 1) == -1 && errno == EINTR);
        setitimer(ITIMER_REAL, &never, NULL);
        return sum * 31 + (ticks >= 5);
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_handler_sees_and_changes_the_original_registers(tmp_path: Path, detail: Detail) -> None:
    code = """
    extern char first[], last[], after[];
    __asm__(".text\\n.globl probe\\nprobe: xor %eax, %eax\\nfirst: mov (%rdi), %rcx\\nlast: add $100, %rax\\n"
            "after: add %rcx, %rax\\n ret\\n");
    unsigned long probe(void *);
    static unsigned long seen;
    static void on_fault(int number, siginfo_t *info, void *context) {
        greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
        seen = seen * 31 + work(number) + (registers[REG_RIP] == (greg_t)first) + registers[REG_RAX];
        registers[REG_RIP] = (greg_t)after;
        registers[REG_RCX] = 5;
    }
    static void on_division(int number, siginfo_t *info, void *context) {
        greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
        registers[REG_RCX] = 3;   /* the divisor */
        work(number);
    }
    unsigned long run(void) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old, old_fpe;
        struct sigaction divide = {.sa_sigaction = on_division, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, &old);
        sigaction(SIGFPE, &divide, &old_fpe);
        unsigned long sum = probe((void *)64) * 31 + seen, quotient = 100, rest = 0;
        __asm__ volatile("div %2" : "+a"(quotient), "+d"(rest) : "c"(0ul));
        sigaction(SIGSEGV, &old, NULL);
        sigaction(SIGFPE, &old_fpe, NULL);
        return sum * 31 + quotient * 7 + rest;
    }
    """
    same(tmp_path, HEAD + code, detail=detail, flags=["-Wl,-Bsymbolic"])


AREA = 0x7A0000000
INTERRUPTED = (
    HEAD
    + f"#define AREA {AREA:#x}\n"
    + """
    #define PAGES 40
    static unsigned char *area;
    static volatile unsigned long ticks;
    static void on_tick(int number) { work(number); ticks++; }
    static void on_fault(int number, siginfo_t *info, void *context) {
        work(number);
        ticks++;
        mprotect((void *)((unsigned long)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
    }
    unsigned long the_ticks(void) { return ticks; }
    __attribute__((noipa)) static void fill(double *a, unsigned long n) {
        for (unsigned long i = 0; i < n; i++) a[i] = i * 0.5;
    }
    __attribute__((noipa)) static void update(double *a, const double *b, unsigned long n, double s) {
        for (unsigned long i = 0; i < n; i++) a[i] = b[i] * s + a[i];
    }
    __attribute__((noipa)) static unsigned long chase(const unsigned *next, unsigned n) {
        unsigned long sum = 0, at = 0;
        for (unsigned i = 0; i < n; i++) { at = next[at]; sum = sum * 31 + at; }
        return sum;
    }
    __attribute__((noipa)) static void copy(void *to, const void *from, unsigned long n) {
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    }
    __attribute__((noipa)) static void gather(double *to, const double *from, const unsigned *at, int n) {
        for (int i = 0; i < n; i++) to[i] += from[at[i]];
    }
    __attribute__((noipa)) static void hide(unsigned long how) {
        if (how == 2) mprotect(area, PAGES * 4096, PROT_NONE);
    }
    unsigned long run(unsigned long how) {
        struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
        struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
        struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
        unsigned long n = PAGES * 512 / 4, sum = 0;
        area = mmap((void *)AREA, PAGES * 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        double *a = (double *)area, *b = a + n, *c = b + n;
        unsigned *index = (unsigned *)(c + n);
        for (unsigned i = 0; i < n; i++) index[i] = (i * 2654435761u >> 7) % n;
        sigaction(SIGALRM, &tick, NULL);
        sigaction(SIGSEGV, &fault, &old);
        if (how == 1) setitimer(ITIMER_REAL, &often, NULL);
        for (int round = 0; round < 4; round++) {
            hide(how); fill(a, n);
            hide(how); fill(b, n);
            hide(how); update(a, b, n, 0.25);
            hide(how); copy(c, a, n * 8);
            hide(how); gather(c, b, index, n);
            hide(how); sum = sum * 31 + chase(index, n);
        }
        setitimer(ITIMER_REAL, &never, NULL);
        sigaction(SIGSEGV, &old, NULL);
        mprotect(area, PAGES * 4096, PROT_READ);
        for (unsigned long i = 0; i < PAGES * 512; i++) sum = sum * 31 + ((unsigned long *)area)[i];
        return sum;
    }
    """
)


@pytest.mark.parametrize("flags", [["-O1"], ["-O3", "-march=native"]], ids=" ".join)
def test_interruptions_change_neither_counts_nor_addresses(
    tmp_path: Path, detail: Detail, flags: list[str]
) -> None:
    path = shared(tmp_path, INTERRUPTED, *flags)
    calm, ticking, faulting = (
        in_process(lambda how=how: interrupted_run(path, how, detail)) for how in range(3)
    )
    assert not calm.error + ticking.error + faulting.error
    assert sum(calm.counts.values()) > 20000
    assert len(calm.accesses) > (20000 if detail == "bytes" else -1)
    assert calm.value == ticking.value == faulting.value
    assert ticking.entered["ticks"] > 5
    assert faulting.entered["ticks"] > 4 * (10 + 10 + 20 + 20 + 20)
    for run in (ticking, faulting):
        assert run.counts == calm.counts
        assert run.accesses == calm.accesses


def interrupted_run(path: Path, how: int, detail: Detail) -> Ran:
    """Return the counts of instructions of the functions that are interrupted, and what they access."""
    room = ffi.new("struct instrument_touch[]", 2_000_000)
    library = ctypes.CDLL(str(path))
    with Engine(detail) as engine:
        engine.drain()
        lib.instrument_trace(room, len(room))
        value, _ = engine.call(address_of(library, "run"), call_frame([how]))
        engine.drain()
        count = lib.instrument_traced()
        assert count <= len(room)
        touched = [
            (t.address, t.bytes, t.kind) for t in room[0:count] if t.address - AREA in range(40 * 4096)
        ]
        counts: Counter[int] = Counter()
        base = address_of(library, "run")
        inner = symbols(path, "fill", "update", "chase", "copy", "gather", "run")
        for item in engine.executed():
            offset = item.instruction.ip - base + inner["run"][0]
            if any(at <= offset < at + size for name, (at, size) in inner.items() if name != "run"):
                counts[offset] += item.times
        ticks = {"ticks": library.the_ticks()}
        lib.instrument_trace(ffi.NULL, 0)
        return Ran(value, ticks, counts=dict(counts), accesses=tuple(touched))


def symbols(path: Path, *names: str) -> dict[str, tuple[int, int]]:
    """Return offset and size of functions, local ones too."""
    found = {}
    table = subprocess.run(["nm", "-S", str(path)], capture_output=True, text=True, check=True).stdout
    for line in table.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3] in names:
            found[fields[3]] = (int(fields[0], 16), int(fields[1], 16))
    return found
