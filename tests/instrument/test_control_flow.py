"""Control flow that leaves the ordinary path of call and return: the engine follows it all."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from counteroof.instrument.engine import Engine
from counteroof.instrument.translate import Detail
from tests.compiled import needs, shared
from tests.instrument.programs import WORK, Ran, address_of, call_frame, entered, in_process, same

pytestmark = [pytest.mark.x86_64, needs("gcc")]


def test_longjmp_out_of_nested_frames(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <setjmp.h>
    static jmp_buf back;
    __attribute__((noinline)) static void deeper(int depth, int value) {
        volatile char room[100];
        room[0] = depth;
        work(depth);
        if (depth == 0) longjmp(back, value);
        deeper(depth - 1, value);
        work(room[0]);
    }
    unsigned long run(void) {
        volatile unsigned long sum = 0;
        for (volatile int i = 1; i <= 20; i++) {
            int got = setjmp(back);
            if (!got) deeper(i % 7, i);
            sum = sum * 31 + got;
            work(sum);
        }
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail)


EXCEPTIONS = (
    """
    #include <stdexcept>
    #include <string>
    extern "C" {
    """
    + WORK
    + """
    }
    static unsigned long destroyed;
    struct Counted {
        unsigned long weight;
        ~Counted() { destroyed += work(weight) & 0xff; }
    };
    __attribute__((noinline)) static unsigned long thrower(int depth) {
        Counted here{(unsigned long)depth};
        if (depth == 0) throw std::runtime_error("deep down");
        unsigned long below = thrower(depth - 1);
        return below + work(depth);
    }
    __attribute__((noinline)) static unsigned long middle(int depth) {
        Counted here{7};
        try {
            return thrower(depth);
        } catch (const std::logic_error &) {
            return 0; /* not this one */
        } catch (...) {
            work(1);
            throw; /* again */
        }
    }
    """
)


@needs("g++")
def test_exceptions_are_thrown_caught_and_rethrown(tmp_path: Path, detail: Detail) -> None:
    code = """
    extern "C" unsigned long run() {
        unsigned long sum = 0;
        for (int i = 0; i < 6; i++) {
            try {
                sum += middle(i);
            } catch (const std::exception &error) {
                sum = sum * 31 + std::string(error.what()).size() + destroyed;
            }
            work(sum);
        }
        return sum;
    }
    """
    same(tmp_path, EXCEPTIONS + code, detail=detail, compiler="g++")


@needs("g++")
def test_exceptions_pass_through_functions_of_the_c_library(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <stdlib.h>
    static int compare(const void *a, const void *b) {
        work(1);
        if (*(const int *)a == 3) throw *(const int *)b;
        return *(const int *)a - *(const int *)b;
    }
    extern "C" unsigned long run() {
        int numbers[] = {9, 3, 7, 1, 3, 8};
        try {
            qsort(numbers, 6, sizeof *numbers, compare);
        } catch (int found) {
            return work(found);
        }
        return 0;
    }
    """
    same(tmp_path, EXCEPTIONS + code, detail=detail, compiler="g++")


def test_callbacks_from_the_c_library(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <stdlib.h>
    static int compare(const void *a, const void *b) {
        unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
        work(x);
        return x < y ? -1 : x > y;
    }
    unsigned long run(void) {
        unsigned long numbers[100], sum = 0, x = 5;
        for (int i = 0; i < 100; i++) numbers[i] = x = work(x) >> 3;
        qsort(numbers, 100, sizeof *numbers, compare);
        for (int i = 0; i < 100; i++) {
            unsigned long *found = bsearch(&numbers[i], numbers, 100, sizeof *numbers, compare);
            sum = sum * 31 + (found - numbers) + numbers[i];
        }
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail)


def test_a_function_of_the_interpreter_is_called_back(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(unsigned long (*ask)(unsigned long)) {
        unsigned long sum = 0;
        for (int i = 0; i < 3; i++) sum = sum * 31 + work(ask(i));
        return sum;
    }
    """
    path = shared(tmp_path, WORK + code)

    def work() -> Ran:
        ask = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_ulong)(lambda x: 10 * x + 1)
        library = ctypes.CDLL(str(path))
        expected = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(address_of(library, "run"))(
            ctypes.cast(ask, ctypes.c_void_p)
        )
        with Engine(detail) as engine:
            pointer = ctypes.cast(ask, ctypes.c_void_p).value or 0
            value, _ = engine.call(address_of(library, "run"), call_frame([pointer]))
            assert value == expected
            return Ran(value, entered(engine, library, ["work"]))

    found = in_process(work)
    assert not found.error
    assert found.entered["work"] == 3


def test_native_code_calls_entries_that_call_native_code(tmp_path: Path, detail: Detail) -> None:
    """Two libraries: one runs natively and calls what it is given, five levels deep."""
    outer = shared(
        tmp_path,
        """
        typedef unsigned long (*step)(unsigned long, void *);
        unsigned long bounce(step f, unsigned long x, void *again) { return f(x, again) + 1; }
        """,
        name="libouter.so",
    )
    code = """
    typedef unsigned long (*step)(unsigned long, void *);
    typedef unsigned long (*bouncer)(step, unsigned long, void *);
    static step self;
    void know(step entry) { self = entry; }
    unsigned long run(unsigned long depth, void *bounce) {
        work(depth);
        if (!depth) return 1;
        return 3 * ((bouncer)bounce)(self, depth - 1, bounce) + work(depth) % 7;
    }
    """
    path = shared(tmp_path, WORK + code)

    def work() -> Ran:
        from counteroof.instrument.native_code import NativeFunction

        library = ctypes.CDLL(str(path))
        bounce = address_of(ctypes.CDLL(str(outer)), "bounce")
        run = address_of(library, "run")
        library.know(ctypes.c_void_p(run))
        library.run.restype = ctypes.c_ulong
        expected = library.run(ctypes.c_ulong(5), ctypes.c_void_p(bounce))
        with Engine(detail) as engine:
            engine._translator._native._functions[bounce] = NativeFunction("bounce", False)
            library.know(ctypes.c_void_p(engine.entry(run)))
            value, _ = engine.call(run, call_frame([5, bounce]))
            assert value == expected
            return Ran(value, entered(engine, library, ["work"]), 0, engine.native_called)

    found = in_process(work)
    assert not found.error
    assert found.entered["work"] == 11
    assert found.native == ("bounce",)


def test_computed_gotos_switches_and_tail_calls(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned long tail(unsigned long n, unsigned long sum);
    __attribute__((noinline)) static unsigned long other(unsigned long n, unsigned long sum) {
        return n ? tail(n - 1, work(sum + n)) : sum;
    }
    __attribute__((noinline)) static unsigned long tail(unsigned long n, unsigned long sum) {
        return n ? other(n - 1, sum * 3) : sum;
    }
    __attribute__((noinline)) static unsigned long choose(unsigned x) {
        switch (x % 12) {
        case 0: return work(1); case 1: return 5; case 2: return work(7) >> 1; case 3: return 11;
        case 4: return 2; case 5: return work(3) ^ 9; case 6: return 77; case 7: return x;
        case 8: return x * 3; case 9: return 1; case 10: return work(x); default: return 0;
        }
    }
    unsigned long run(void) {
        static const unsigned char program[] = {0, 1, 2, 1, 0, 2, 1, 1, 0, 3};
        static void *const labels[] = {&&add, &&multiply, &&mix, &&end};
        const unsigned char *at = program;
        unsigned long sum = 1;
        goto *labels[*at++];
    add: sum += 17; goto *labels[*at++];
    multiply: sum *= 33; goto *labels[*at++];
    mix: sum ^= work(sum); goto *labels[*at++];
    end:
        for (unsigned i = 0; i < 40; i++) sum = sum * 31 + choose(i);
        return sum + tail(30, 1);
    }
    """
    same(tmp_path, WORK + code, detail=detail, flags=["-O2"])


def test_alloca_and_the_red_zone(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <alloca.h>
    #include <string.h>
    __attribute__((noinline)) static unsigned long leaf(unsigned long x) {
        volatile unsigned long room[14]; /* below the stack pointer: a leaf has no frame */
        for (int i = 0; i < 14; i++) room[i] = x + i;
        unsigned long sum = 0;
        for (int i = 0; i < 14; i++) sum = sum * 3 + room[i];
        return sum;
    }
    unsigned long run(void) {
        unsigned long sum = 0;
        for (unsigned i = 0; i < 50; i++) {
            unsigned char *room = alloca(i * 37 + 1);
            memset(room, i, i * 37 + 1);
            sum = sum * 31 + room[i * 37] + leaf(work(i));
        }
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail, flags=["-O2", "-mred-zone"])


def test_calls_and_returns_out_of_balance(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long here(void), retpoline(unsigned long (*)(unsigned long), unsigned long), skip(void);
    unsigned long swap_stacks(unsigned long *top, unsigned long (*f)(unsigned long), unsigned long x);
    __asm__(
        ".text\\n.globl here, retpoline, skip, swap_stacks\\n"
        "here: 0: call 1f\\n1: pop %rax\\n lea 0b(%rip), %rcx\\n sub %rcx, %rax\\n ret\\n"
        /* an indirect call as written against speculation: the target replaces the return address */
        "retpoline: mov %rdi, %rax\\n mov %rsi, %rdi\\n sub $8, %rsp\\n call 2f\\n add $8, %rsp\\n ret\\n"
        "2: call 3f\\n4: pause\\n lfence\\n jmp 4b\\n3: mov %rax, (%rsp)\\n ret\\n"
        /* the callee returns past the call's caller */
        "skip: call 5f\\n mov $1, %eax\\n ret\\n5: lea 8(%rsp), %rsp\\n mov $2, %eax\\n ret\\n"
        "swap_stacks: push %rbx\\n mov %rsp, %rbx\\n mov %rdi, %rsp\\n mov %rdx, %rdi\\n call *%rsi\\n"
        " mov %rbx, %rsp\\n pop %rbx\\n ret\\n");
    unsigned long run(void) {
        static unsigned long stack[2000];
        unsigned long sum = here();
        for (int i = 0; i < 20; i++) {
            sum = sum * 31 + retpoline(work, sum) + skip();
            sum += swap_stacks(&stack[2000], work, i);
        }
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail)


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_the_procedure_linkage_table(tmp_path: Path, detail: Detail, binding: str) -> None:
    other = "unsigned long elsewhere(unsigned long x) { return x * 7 + 1; }"
    shared(tmp_path, other, name="libother.so")
    code = """
    unsigned long elsewhere(unsigned long);
    int abs(int);
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 5; i++) sum = elsewhere(work(sum)) + abs(-i);
        return sum;
    }
    """
    flags = [
        "-fno-builtin",
        f"-L{tmp_path}",
        "-lother",
        f"-Wl,-rpath,{tmp_path}",
        f"-Wl,-z,{binding}",
    ]
    same(tmp_path, WORK + code, detail=detail, flags=flags)


def test_indirect_functions(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned long plain(unsigned long x) { return work(x) + 1; }
    static unsigned long wide(unsigned long x) { return work(x) + 1; }
    static void *choose(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2") ? wide : plain; }
    unsigned long chosen(unsigned long) __attribute__((ifunc("choose")));
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 10; i++) sum = chosen(sum);
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail)


def test_x87_and_mmx(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <math.h>
    #include <mmintrin.h>
    #include <string.h>
    unsigned long run(void) {
        long double sum = 0;
        for (int i = 1; i < 50; i++) sum += sinl(i) * sqrtl(i) / (1 + fabsl(cosl(i)) + work(i) % 3);
        unsigned long bits = 0;
        memcpy(&bits, &sum, 8);
        __m64 a = _mm_set1_pi16(3), b = _mm_setzero_si64();
        for (int i = 0; i < 20; i++) b = _mm_add_pi16(_mm_mullo_pi16(a, _mm_set1_pi16(i)), b);
        unsigned long mmx;
        memcpy(&mmx, &b, 8);
        _mm_empty();
        return bits ^ mmx;
    }
    """
    same(tmp_path, WORK + code, detail=detail, flags=["-mmmx", "-lm"])


def test_extended_states_saved_and_restored(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <immintrin.h>
    static unsigned char area[16384] __attribute__((aligned(64)));
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 5; i++) {
            double x[4] = {i, i + 1, i + 2, i + 3};
            __asm__ volatile(
                "vmovupd (%1), %%ymm7\\n mov $-1, %%eax\\n mov $-1, %%edx\\n xsave64 (%2)\\n"
                "vpxor %%ymm7, %%ymm7, %%ymm7\\n xrstor64 (%2)\\n vmovupd %%ymm7, (%1)\\n vmovq %%xmm7, %0\\n"
                : "=r"(sum) : "r"(x), "r"(area) : "rax", "rdx", "xmm7", "memory");
            sum += (unsigned long)(x[0] + 2 * x[1] + 3 * x[2] + 5 * x[3]) + work(sum);
        }
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail, flags=["-mavx2", "-mxsave"])


def test_instructions_that_ask_the_processor(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <cpuid.h>
    #include <time.h>
    #include <unistd.h>
    #include <x86intrin.h>
    unsigned long run(void) {
        unsigned a, b, c, d, cpu;
        unsigned long sum = 0;
        for (unsigned leaf = 0; leaf < 8; leaf++) {
            __cpuid_count(leaf, 0, a, b, c, d);
            sum = sum * 31 + a + (leaf == 1 ? c & 0xfffff : b + c + d);
        }
        unsigned long t = __rdtsc(), u = __rdtscp(&cpu);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now); /* in the vDSO */
        sum += (u >= t) + _xgetbv(0) + (now.tv_nsec < 1000000000) + work(1);
        return sum * 31 + (getpid() == getpid()) + (getppid() > 0);
    }
    """
    same(tmp_path, WORK + code, detail=detail, flags=["-mxsave"])


def test_loops_that_count_in_rcx(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long spin(unsigned long, unsigned long);
    __asm__(
        ".text\\n.globl spin\\n"
        "spin: mov %rdi, %rcx\\n xor %eax, %eax\\n jrcxz 9f\\n"
        "1: add %rcx, %rax\\n loop 1b\\n"
        " mov %rdi, %rcx\\n2: add $3, %rax\\n cmp %rsi, %rcx\\n loopne 2b\\n"
        " mov %rdi, %rcx\\n3: add %rcx, %rax\\n cmp %rcx, %rcx\\n loope 3b\\n"
        " mov %edi, %ecx\\n jecxz 9f\\n inc %rax\\n"
        "9: ret\\n");
    unsigned long run(void) {
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 30; i++) sum = sum * 31 + spin(i, i / 2) + work(i);
        return sum;
    }
    """
    same(tmp_path, WORK + code, detail=detail)


def test_a_library_beyond_2_gib_of_everything_else(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned long table[4] = {3, 5, 7, 11};
    unsigned long run(void) {
        unsigned long sum = 0;
        for (unsigned i = 0; i < 20; i++)
            sum = sum * 31 + work(table[i % 4]) + *(volatile unsigned long *)&table[1];
        return sum;
    }
    """
    path = shared(tmp_path, WORK + code)

    def work() -> Ran:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        # the loader goes down from the last mapping: leave it no room nearby
        far = libc.mmap(None, ctypes.c_size_t(3 << 32), 0, 0x4022, -1, ctypes.c_long(0))
        assert far
        for size in (1 << 22, 1 << 17, 1 << 12):  # fill what is left between the mappings above
            while libc.mmap(None, ctypes.c_size_t(size), 0, 0x4022, -1, ctypes.c_long(0)) > far:
                pass
        library = ctypes.CDLL(str(path))
        run = address_of(library, "run")
        assert abs(run - address_of(libc, "qsort")) > 1 << 31
        library.run.restype = ctypes.c_ulong
        expected = library.run()
        with Engine(detail) as engine:
            value, _ = engine.call(run, call_frame([]))
            assert value == expected
            return Ran(value, entered(engine, library, ["work"]))

    found = in_process(work)
    assert not found.error
    assert found.entered["work"] == 20
