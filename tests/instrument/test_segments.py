"""Programs with a GS base of their own keep it, and what they address by it is what it would be."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from counteroof.instrument.engine import Engine
from counteroof.instrument.translate import Detail
from counteroof.native import ffi, lib
from tests.compiled import needs, shared
from tests.instrument.asm_codes import cpu_flags
from tests.instrument.programs import WORK, Ran, address_of, call_frame, in_process, same

pytestmark = [pytest.mark.x86_64, needs("gcc")]

HEAD = (
    """
    #define _GNU_SOURCE
    #include <asm/prctl.h>
    #include <pthread.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    """
    + WORK
    + """
    static unsigned long data[512], other[512];
    static void set(void *base) { syscall(SYS_arch_prctl, ARCH_SET_GS, base); }
    static unsigned long get(void) {
        unsigned long base = 1;
        syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
        return base;
    }
    static void fill(void) { for (int i = 0; i < 512; i++) { data[i] = i * 3 + 1; other[i] = i * 7 + 5; } }
    """
)
OPERANDS = """
    __attribute__((noipa)) static unsigned long operands(unsigned long i, unsigned *flags) {
        unsigned long a, b = 3, c, d, e;
        double x[4], y;
        __asm__ volatile(
            "mov %%gs:8, %0\\n"                       /* no register */
            "movabs %%gs:16, %%rax\\n add %%rax, %0\\n movabs %%al, %%gs:200\\n"
            "add %%gs:16(,%5,8), %1\\n"               /* an index */
            "mov %%gs:(%5), %2\\n"                    /* a base */
            "lea %%gs:24(%5,%5,4), %3\\n"             /* no access at all */
            "addq $5, %%gs:32(%5,%5,2)\\n"            /* stores */
            "mov %%gs:40(%5), %4\\n"
            "movsd %%gs:48(%5), %%xmm1\\n"
            "movupd %%gs:64(%5), %%xmm2\\n"
            "movsd %%xmm1, %6\\n"
            "movupd %%xmm2, %7\\n"
            : "=&r"(a), "+&r"(b), "=&r"(c), "=&r"(d), "=&r"(e)
            : "r"(i), "m"(y), "m"(x) : "rax", "xmm1", "xmm2", "memory", "cc");
        __asm__ volatile("cmp $-1, %2\\n stc\\n mov %%gs:8, %0\\n pushf\\n pop %1\\n"
                         : "=&r"(c), "=r"(d) : "r"(i) : "cc");
        *flags = d & 0x8d5;
        __asm__ volatile("pushq %%gs:8(%1)\\n popq %%gs:80(%1)\\n call *%%gs:96(%1)\\n"
                         : "+a"(e) : "D"(i) : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
        return a + 3 * b + 5 * c + 7 * d + e + *(unsigned long *)&y + *(unsigned long *)x;
    }
"""


def test_operands_relative_to_gs(tmp_path: Path, detail: Detail) -> None:
    code = (
        OPERANDS
        + """
    __asm__(".text\\nten: mov $10, %eax\\n ret\\n");
    extern char ten[];
    unsigned long run(void) {
        unsigned long sum = 0;
        unsigned flags;
        fill();
        data[15] = data[14] = data[13] = data[12] = other[13] = (unsigned long)ten;
        set(data);
        for (unsigned long i = 0; i < 4; i++) sum = sum * 31 + operands(i * 8, &flags) + flags;
        set(other);
        sum = sum * 31 + operands(8, &flags) + flags + work(1);
        set(NULL);
        for (int i = 0; i < 512; i++) sum = sum * 31 + data[i] + other[i];
        return sum;
    }
    """
    )
    path = shared(tmp_path, HEAD + code, "-O1", "-mno-red-zone")
    library = ctypes.CDLL(str(path))  # in both processes at the same address, which is in the result

    def run(engine: bool) -> Ran:
        if not engine:
            return Ran(lib.run_call(address_of(library, "run"), call_frame([]), ffi.new("double *")))
        with Engine(detail) as running:
            return Ran(running.call(address_of(library, "run"), call_frame([]))[0])

    native = in_process(lambda: run(False))
    assert not native.error
    assert in_process(lambda: run(True)) == native


def test_a_base_is_kept_and_told(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned long sum = get() == 0;
        set(data);
        sum = sum * 31 + (get() == (unsigned long)data);
        work(1);
        sum = sum * 31 + (get() == (unsigned long)data);
        sum = sum * 31 - syscall(SYS_arch_prctl, ARCH_SET_GS, 1ul << 62);
        sum = sum * 31 - syscall(SYS_arch_prctl, ARCH_GET_GS, 8);
        sum = sum * 31 + (get() == (unsigned long)data);
        set(NULL);
        return sum * 31 + get();
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


@pytest.mark.skipif("fsgsbase" not in cpu_flags(), reason="the processor has no wrgsbase")
def test_instructions_that_set_the_base(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned long sum = 0, base, half = 7, value;
        fill();
        for (int i = 0; i < 10; i++) {
            __asm__ volatile("wrgsbase %0" : : "r"(data + i));
            __asm__ volatile("mov %%gs:8, %0\\n rdgsbase %1\\n rdgsbase %k2"
                             : "=&r"(value), "=&r"(base), "+&r"(half));
            sum = sum * 31 + value + (base - (unsigned long)data) + (half == (unsigned)base) + work(i);
            __asm__ volatile("wrgsbase %k0" : : "r"(0x123456789abcdeful));
            sum = sum * 31 + get();
        }
        set(NULL);
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_each_thread_has_its_own_base(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned long load(void) {
        unsigned long value;
        __asm__ volatile("mov %%gs:16, %0" : "=r"(value));
        return value;
    }
    static void *thread(void *unused) {
        unsigned long sum = load();  /* inherited */
        set(other);
        for (int i = 0; i < 100; i++) sum = sum * 31 + load() + work(i);
        return (void *)sum;
    }
    unsigned long run(void) {
        pthread_t made;
        void *result;
        fill();
        set(data);
        pthread_create(&made, NULL, thread, NULL);
        unsigned long sum = 0;
        for (int i = 0; i < 100; i++) sum = sum * 31 + load();
        pthread_join(made, &result);
        sum = sum * 31 + load();
        set(NULL);
        return sum + (unsigned long)result;
    }
    """
    same(tmp_path, HEAD + code, detail=detail, flags=["-lpthread"])


@pytest.mark.skipif("fsgsbase" not in cpu_flags(), reason="between calls the base stays the engine's")
def test_a_base_outlives_the_call(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long begin(void) { fill(); set(data); return work(1); }
    unsigned long load(unsigned long i) {
        unsigned long value;
        __asm__ volatile("mov %%gs:(,%1,8), %0" : "=r"(value) : "r"(i));
        return value;
    }
    unsigned long move(void) { set(other); return 0; }
    """
    path = shared(tmp_path, HEAD + code)

    def run() -> Ran:
        library = ctypes.CDLL(str(path))
        with Engine(detail) as engine:

            def load(i: int) -> int:
                return engine.call(address_of(library, "load"), call_frame([i]))[0]

            engine.call(address_of(library, "begin"), call_frame([]))
            assert [load(4), library.load(5), load(6)] == [13, 16, 19]
            library.move()
            assert [load(4), library.load(5), load(6)] == [33, 40, 47]
        assert library.load(5) == 40
        return Ran(1)

    assert in_process(run) == Ran(1)


def test_addresses_recorded_are_those_of_the_moment(tmp_path: Path) -> None:
    code = """
    unsigned long *the_data(void) { return data; }
    unsigned long *the_other(void) { return other; }
    unsigned long run(void) {
        unsigned long value, sum = 0;
        for (int i = 0; i < 50; i++) {
            set(i % 2 ? other : data);
            __asm__ volatile("mov %%gs:(,%1,8), %0" : "=r"(value) : "r"((unsigned long)i) : "memory");
            sum += value;
        }
        set(NULL);
        return sum;
    }
    """
    path = shared(tmp_path, HEAD + code)

    def run() -> Ran:
        library = ctypes.CDLL(str(path))
        room = ffi.new("struct instrument_touch[]", 100_000)
        library.the_data.restype = library.the_other.restype = ctypes.c_ulong
        data, other = library.the_data(), library.the_other()
        with Engine("bytes") as engine:
            engine.drain()
            lib.instrument_trace(room, len(room))
            engine.call(address_of(library, "run"), call_frame([]))
            engine.drain()
            touched = [item.address for item in room[0 : lib.instrument_traced()]]
            lib.instrument_trace(ffi.NULL, 0)
        spans = range(data, data + 4096), range(other, other + 4096)
        found = [address for address in touched if address in spans[0] or address in spans[1]]
        assert found == [(other if i % 2 else data) + 8 * i for i in range(50)]
        return Ran(1)

    assert in_process(run) == Ran(1)


def test_what_an_ended_thread_recorded_is_relative_to_its_own_base(tmp_path: Path) -> None:
    """The next thread takes its place while the consumer is busy with a string instruction."""
    code = """
    static char stacks[2][1 << 20] __attribute__((aligned(4096)));
    static char bytes[20000000];
    static unsigned long bases[2];
    static __attribute__((noinline)) unsigned long base(void) {
        unsigned long value;
        __asm__ volatile("mov %%fs:0, %0" : "=r"(value));
        return value;
    }
    static void *begin(void *to) {
        void *at = bytes;
        unsigned long count = to == bases ? sizeof bytes : 1;
        __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(0) : "memory");
        for (int i = 0; i < 40000; i++) *(unsigned long *)to = base();
        return NULL;
    }
    unsigned long run(void) {
        for (int i = 0; i < 2; i++) {
            pthread_attr_t own;
            pthread_t thread;
            pthread_attr_init(&own);
            pthread_attr_setstack(&own, stacks[i], sizeof stacks[i]); /* of two bases */
            pthread_create(&thread, &own, begin, &bases[i]);
            pthread_join(thread, NULL);
        }
        return 0;
    }
    unsigned long base_of(unsigned long i) { return bases[i]; }
    """
    path = shared(tmp_path, HEAD + code)

    def run() -> Ran:
        library = ctypes.CDLL(str(path))
        library.base_of.restype = ctypes.c_ulong
        room = ffi.new("struct instrument_touch[]", 21_000_000)
        with Engine("bytes") as engine:
            engine.drain()
            lib.instrument_trace(room, len(room))
            engine.call(address_of(library, "run"), call_frame([]))
            engine.drain()
            used = lib.instrument_traced()
            assert used < len(room)
            addresses = np.frombuffer(ffi.buffer(room), np.dtype("u8,u4,u4"))["f0"][:used]
            lib.instrument_trace(ffi.NULL, 0)
        first, second = library.base_of(0), library.base_of(1)
        assert first != second
        assert [np.count_nonzero(addresses == base) for base in (first, second)] == [40_000, 40_000]
        return Ran(1)

    assert in_process(run) == Ran(1)


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        ("mov %%ax, %%gs", "loads a segment register"),
        ("wrfsbase %%rax", "sets the FS base"),
        ("lodsb %%gs:(%%rsi), %%al", "string instruction relative to GS"),
    ],
)
def test_what_cannot_be_done_is_refused_clearly(tmp_path: Path, instruction: str, says: str) -> None:
    code = f'unsigned long run(void) {{ __asm__ volatile("{instruction}" : : "a"(0), "S"(0)); return 1; }}'
    path = shared(tmp_path, HEAD + code)

    def run() -> Ran:
        library = ctypes.CDLL(str(path))
        with Engine("flops") as engine:
            return Ran(engine.call(address_of(library, "run"), call_frame([]))[0])

    found = in_process(run)
    assert says in found.error
    assert found.error.startswith("KernelFailed")
