"""Code that is written, moved or unloaded while the engine runs: what runs is what is there now."""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
from pathlib import Path

import pytest

from counteroof.instrument.engine import Engine
from counteroof.instrument.translate import Detail
from tests.compiled import needs, shared
from tests.instrument.programs import WORK, Ran, address_of, call_frame, in_process, same

pytestmark = [pytest.mark.x86_64, needs("gcc")]

HEAD = (
    """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    """
    + WORK
    + """
    typedef unsigned long function(void);
    enum { RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC, RWX = RW | PROT_EXEC };
    static unsigned char *map(int access) {
        return mmap(NULL, 8192, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    /* mov rdi, argument; mov rax, work; jmp rax */
    static unsigned long put(unsigned char *at, unsigned long argument) {
        unsigned char code[] = {0x48, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0,
                                0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
        unsigned long to = (unsigned long)work;
        memcpy(code + 2, &argument, 8);
        memcpy(code + 12, &to, 8);
        memcpy(at, code, sizeof code);
        return sizeof code;
    }
    static unsigned long call(void *code) {
        __asm__ volatile("" : : "r"(code) : "memory");
        return ((function *)code)();
    }
    """
)


def test_code_is_written_anew_at_the_same_address(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned char *code = map(RWX);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 300; i++) {
            put(code, i);
            for (int k = 0; k < 3; k++) sum = sum * 31 + call(code);
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_code_is_written_while_it_cannot_be_executed(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned char *code = map(RW);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 100; i++) {
            mprotect(code, 4096, RW);
            put(code, i);
            mprotect(code, 4096, RX);
            for (int k = 0; k < 3; k++) sum = sum * 31 + call(code);
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_other_code_is_mapped_where_code_was(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned char *code = map(RWX), *other = map(RW), *gap = map(RW);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 100; i++) {
            put(code, i);
            sum = sum * 31 + call(code);
            put(other, i + 1000);
            if (i % 3 == 0) {
                munmap(code, 8192);
                mmap(code, 8192, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                put(code, i + 500);
            } else if (i % 3 == 1) {
                mmap(code, 8192, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                put(code, i + 700);
            } else {
                mremap(other, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, code);
                mprotect(code, 8192, RWX);
                other = map(RW);
            }
            sum = sum * 31 + call(code);
            madvise(code, 8192, MADV_DONTNEED);
            sum = sum * 31 + code[3];
        }
        return sum + (gap == other);
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_the_call_itself_does_not_know_that_code_changes(tmp_path: Path, detail: Detail) -> None:
    """A chain of direct calls and jumps between blocks that change one after the other."""
    code = """
    static unsigned char *jump(unsigned char *at, unsigned char *to) {
        int distance = to - at - 5;
        at[0] = 0xe9;
        memcpy(at + 1, &distance, 4);
        return at;
    }
    unsigned long run(void) {
        unsigned char *code = map(RWX), *more = code + 4096;
        unsigned long sum = 0;
        jump(code, more);
        for (unsigned long i = 0; i < 200; i++) {
            if (i % 7 == 3) jump(code, more + 64 * (i % 5));
            for (int k = 0; k < 5; k++) put(more + 64 * k, i * 8 + k);
            for (int k = 0; k < 3; k++) sum = sum * 31 + call(code);
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_instructions_that_change_the_next_one(tmp_path: Path, detail: Detail) -> None:
    code = """
    extern char changing[], changing_end[];
    __asm__(".text\\n"
            "changing: xor %eax, %eax\\n mov $20, %ecx\\n"
            "1: mov %ecx, 2f+1(%rip)\\n"    /* the operand of the next instruction */
            "2: add $0x7f7f7f7f, %eax\\n"
            "   imul $31, %eax\\n"
            "   add %edi, 2b+1(%rip)\\n   nop\\n"
            "   dec %ecx\\n jnz 1b\\n ret\\n"
            "changing_end:");
    unsigned long run(void) {
        unsigned char *code = map(RWX);
        unsigned long sum = 0;
        memcpy(code, changing, changing_end - changing);
        for (unsigned long i = 0; i < 20; i++)
            sum = sum * 31 + ((unsigned long (*)(unsigned long))code)(i) + work(i);
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_string_instruction_overwrites_what_follows_it(tmp_path: Path, detail: Detail) -> None:
    code = """
    extern char changing[], new[], changing_end[];
    __asm__(".text\\n"
            "changing: lea 1f(%rip), %rdi\\n lea new(%rip), %rsi\\n mov $6, %ecx\\n rep movsb\\n"
            "1: mov $1, %eax\\n ret\\n"
            "new: mov $2, %eax\\n ret\\n"
            "changing_end:");
    unsigned long run(void) {
        unsigned char *code = map(RWX);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 20; i++) {
            memcpy(code, changing, changing_end - changing);
            sum = sum * 31 + call(code) + work(i);
            sum = sum * 31 + call(code + (new - changing));
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_flags_pass_through_code_whose_next_instruction_changed(tmp_path: Path, detail: Detail) -> None:
    """Code that is checked ends at a store, and stays valid when what follows is other code: here first an
    instruction that overwrites the flags, then one that reads them. In between the store itself is away."""
    code = """
    extern char kills[], reads[], other[], end[];
    __asm__(".text\\n"
            "kills: cmp $0, %edi\\n jmp 1f\\n 1: push %rcx\\n sub %eax, %eax\\n pop %rcx\\n ret\\n"
            "reads: cmp $0, %edi\\n jmp 1f\\n 1: push %rcx\\n setne %al\\n pop %rcx\\n ret\\n"
            "other: cmp $0, %edi\\n jmp 1f\\n 1: nop\\n setne %al\\n ret\\n"
            "end:");
    unsigned long run(void) {
        static char *const starts[] = {other, kills, reads}, *const ends[] = {end, reads, other};
        unsigned char *code = map(RWX);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 200; i++) {
            memcpy(code, starts[i % 3], ends[i % 3] - starts[i % 3]);
            sum = sum * 31 + (((unsigned long (*)(unsigned long))code)(i % 2) & 1);
        }
        return sum + work(1);
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_flags_pass_through_code_when_the_next_page_changed(tmp_path: Path, detail: Detail) -> None:
    """Code that needs all registers is cut, and stays valid when only the page after it is written."""
    code = """
    extern char start[], next[], end[];
    __asm__(".text\\n"
            "start: push %rbx\\n push %rbp\\n push %r12\\n push %r13\\n push %r14\\n push %r15\\n"
            "   mov $0, %eax\\n cmp $0, %edi\\n jmp 1f\\n"
            "1: mov %rbx, %rbp\\n mov %r12, %r13\\n mov %r14, %r15\\n mov %rcx, %rdx\\n"
            "   mov %rsi, %r8\\n mov %r9, %r10\\n mov %r11, %rdi\\n"
            "next: setne %al\\n"
            "   pop %r15\\n pop %r14\\n pop %r13\\n pop %r12\\n pop %rbp\\n pop %rbx\\n ret\\n"
            "end:");
    unsigned long run(void) {
        unsigned char *code = map(RWX), *page = code + 4096;
        unsigned long sum = 0;
        memcpy(page - (next - start), start, end - start);
        for (unsigned long i = 0; i < 20; i++) {
            memcpy(page, i % 2 ? next : "\\x29\\xc0\\x90", 3); /* setne al; sub eax, eax and nop */
            sum = sum * 31 + ((unsigned long (*)(unsigned long))(page - (next - start)))(i % 3);
        }
        return sum + work(1);
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_flags_pass_through_code_that_writes_who_reads_them(tmp_path: Path, detail: Detail) -> None:
    """Where the flags were overwritten when the code was translated, they are read when the code has run."""
    code = """
    extern char changing[], changing_end[];
    __asm__(".text\\n"
            "changing: mov $0, %eax\\n cmp $0, %edi\\n jmp 1f\\n"
            "1: movl $0x90c0950f, 2f(%rip)\\n"    /* setne al; nop */
            "2: sub %eax, %eax\\n nop\\n nop\\n ret\\n"
            "changing_end:");
    unsigned long run(void) {
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 20; i++) {
            unsigned char *code = map(RWX);
            memcpy(code, changing, changing_end - changing);
            sum = sum * 31 + ((unsigned long (*)(unsigned long))code)(i % 2);
        }
        return sum + work(1);
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_data_beside_code(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned char *code = map(RWX);
        volatile unsigned long *data = (unsigned long *)(code + 2048);
        put(code, 5);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 2000; i++) {
            *data += call(code);
            sum = sum * 31 + *data;
        }
        return sum;
    }
    """
    path = shared(tmp_path, HEAD + code)
    same(tmp_path, HEAD + code, detail=detail)
    assert instrumented_blocks(path, detail) < 1000


def instrumented_blocks(path: Path, detail: Detail) -> int:
    """Return how many blocks a run translates."""

    def work() -> Ran:
        library = ctypes.CDLL(str(path))
        with Engine(detail) as engine:
            engine.call(address_of(library, "run"), call_frame([]))
            return Ran(len(engine.blocks))

    return in_process(work).value


def test_code_that_comes_back_is_not_translated_again(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(unsigned long how) {
        unsigned char *code = map(RWX);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 1000; i++) {
            if (how) mprotect(code, 4096, RW);
            put(code, i % 3);
            if (how) mprotect(code, 4096, RX);
            sum = sum * 31 + call(code);
        }
        return sum;
    }
    """
    path = shared(tmp_path, HEAD + code)
    for how in range(2):
        found = same(tmp_path, HEAD + code, how, detail=detail)
        assert not found.error
    assert instrumented_blocks(path, detail) < 1000


def test_code_on_the_stack(tmp_path: Path, detail: Detail) -> None:
    code = """
    __attribute__((noinline)) static unsigned long on_stack(unsigned long i, int depth) {
        unsigned char code[64];
        put(code, i);
        unsigned long sum = call(code);
        if (depth) sum = sum * 31 + on_stack(i + 100, depth - 1);
        return sum * 31 + call(code);
    }
    unsigned long run(void) {
        unsigned char here;
        unsigned long page = (unsigned long)&here & ~4095ul;
        if (mprotect((void *)(page - 8 * 4096), 9 * 4096, RWX)) return 0;
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 30; i++) sum = sum * 31 + on_stack(i, i % 4);
        return sum;
    }
    """
    assert same(tmp_path, HEAD + code, detail=detail).value


def test_code_that_is_written_through_another_mapping(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        int file = memfd_create("code", 0);
        if (ftruncate(file, 4096)) return 0;
        unsigned char *write_here = mmap(NULL, 4096, RW, MAP_SHARED, file, 0);
        unsigned char *code = mmap(NULL, 4096, RX, MAP_SHARED, file, 0);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 100; i++) {
            put(write_here, i);
            sum = sum * 31 + call(code);
            sum = sum * 31 + call(code);
        }
        return sum;
    }
    """
    assert same(tmp_path, HEAD + code, detail=detail).value


def test_the_system_writes_code(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <sys/socket.h>
    #include <sys/uio.h>
    unsigned long run(void) {
        int ends[2];
        unsigned char *code = map(RWX), text[64];
        unsigned long sum = 0;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 0;
        for (unsigned long i = 0; i < 60; i++) {
            unsigned long size = put(text, i);
            struct iovec piece = {code, size};
            struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
            if (write(ends[0], text, size) != (long)size) return 0;
            long got = i % 4 == 0 ? read(ends[1], code, size) : i % 4 == 1 ? recv(ends[1], code, size, 0)
                : i % 4 == 2 ? readv(ends[1], &piece, 1) : recvmsg(ends[1], &message, 0);
            if (got != (long)size) return 0;
            sum = sum * 31 + call(code);
        }
        return sum;
    }
    """
    assert same(tmp_path, HEAD + code, detail=detail).value


def test_a_library_is_exchanged_for_another_at_the_same_address(tmp_path: Path, detail: Detail) -> None:
    folders = [tmp_path / name for name in "abc"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        text = f"unsigned long answer(unsigned long (*work)(unsigned long)) {{ return work({number + 7}); }}"
        shared(folder, text)
    names = ", ".join(f'"{next(folder.glob("*.so"))}"' for folder in folders)
    code = (
        """
    unsigned long run(void) {
        static const char *names[] = {"""
        + names
        + """};
        unsigned long sum = 0, before = 0, same = 0;
        for (int i = 0; i < 9; i++) {
            void *library = dlopen(names[i % 3], RTLD_NOW);
            if (!library) return 0;
            unsigned long (*answer)(void *) = dlsym(library, "answer");
            same += (unsigned long)answer == before;
            before = (unsigned long)answer;
            sum = sum * 31 + answer(work);
            dlclose(library);
        }
        return sum * 10 + same;
    }
    """
    )
    found = same(tmp_path, HEAD + code, detail=detail, flags=["-ldl"])
    assert found.value % 10 == 8, "the libraries were not loaded at the same address"


def test_a_library_patches_itself(tmp_path: Path, detail: Detail) -> None:
    code = """
    __attribute__((noipa, aligned(64))) static unsigned long plain(unsigned long x) { return work(x) + 1; }
    __attribute__((noipa, aligned(64))) static unsigned long better(unsigned long x) { return work(x) * 3; }
    unsigned long run(void) {
        unsigned char *start = (unsigned char *)plain, before[5];
        unsigned long page = (unsigned long)start & ~4095ul, sum = 0;
        int distance = (unsigned char *)better - start - 5;
        memcpy(before, start, 5);
        for (unsigned long i = 0; i < 30; i++) {
            sum = sum * 31 + plain(i);
            if (mprotect((void *)page, 8192, i % 2 ? RWX : RW | PROT_EXEC)) return 0;
            start[0] = 0xe9;
            memcpy(start + 1, &distance, 4);
            if (i % 2) mprotect((void *)page, 8192, RX);
            sum = sum * 31 + plain(i);
            mprotect((void *)page, 8192, RWX);
            memcpy(start, before, 5);
        }
        return sum;
    }
    """
    assert same(tmp_path, HEAD + code, detail=detail).value


def test_another_thread_writes_the_code(tmp_path: Path, detail: Detail) -> None:
    code = """
    static sem_t ready, done;
    static unsigned char *code;
    static void *writer(void *unused) {
        for (unsigned long i = 0; i < 50; i++) { put(code, i); sem_post(&ready); sem_wait(&done); }
        return NULL;
    }
    unsigned long run(void) {
        pthread_t thread;
        unsigned long sum = 0;
        code = map(RWX);
        sem_init(&ready, 0, 0);
        sem_init(&done, 0, 0);
        pthread_create(&thread, NULL, writer, NULL);
        for (unsigned long i = 0; i < 50; i++) {
            sem_wait(&ready);
            for (int k = 0; k < 3; k++) sum = sum * 31 + call(code);
            sem_post(&done);
        }
        pthread_join(thread, NULL);
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail, flags=["-lpthread"])


def test_a_write_that_is_not_allowed_is_still_a_fault(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <setjmp.h>
    #include <signal.h>
    static sigjmp_buf back;
    static void *where;
    static void on_fault(int number, siginfo_t *info, void *context) {
        where = info->si_addr;
        siglongjmp(back, 1);
    }
    unsigned long run(void) {
        unsigned char *code = map(RWX);
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
        volatile unsigned long sum = 0;
        for (volatile unsigned long i = 0; i < 5; i++) {
            mprotect(code, 4096, RWX);
            put(code, i);
            sum = sum * 31 + call(code);
            mprotect(code, 4096, RX);
            sum = sum * 31 + call(code);
            if (!sigsetjmp(back, 1)) { code[2] = 1; sum += 1000; }
            sum = sum * 31 + (where == code + 2) + call(code);
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_python_writes_code_between_calls(detail: Detail) -> None:
    def work() -> Ran:
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        with Engine(detail) as engine:
            for number in range(20):
                memory[:6] = b"\xb8" + number.to_bytes(4, "little") + b"\xc3"  # mov eax, number; ret
                for _ in range(3):
                    assert engine.call(address, call_frame([]))[0] == number
                executed = [item for item in engine.executed() if item.instruction.ip == address]
                assert sorted(item.instruction.immediate(1) for item in executed) == [*range(number + 1)]
                assert {item.times for item in executed} == {3}
        memory[:1] = b"\xc3"
        return Ran(memory[0])

    assert in_process(work) == Ran(0xC3)


def test_signals_come_while_code_changes(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <signal.h>
    #include <sys/time.h>
    static volatile unsigned long ticks, wrong;
    static unsigned char *code;
    static void on_tick(int number, siginfo_t *info, void *context) {
        static unsigned char *own;
        if (!own) own = map(RWX);
        put(own, ticks);
        wrong += call(own) == 0;
        ticks++;
    }
    unsigned long run(void) {
        struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_RESTART | SA_SIGINFO}, old;
        struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
        unsigned long sum = 0;
        code = map(RWX);
        sigaction(SIGALRM, &action, &old);
        setitimer(ITIMER_REAL, &often, NULL);
        for (unsigned long i = 0; i < 200 || ticks < 100; i++) {
            put(code + 64 * (i % 5), i % 200);
            if (i % 50 == 20) mprotect(code, 4096, RW), mprotect(code, 4096, RWX);
            unsigned long got = 0;
            for (int k = 0; k < 5; k++) got = got * 31 + call(code + 64 * (i % 5));
            if (i < 200) sum = sum * 31 + got;
        }
        setitimer(ITIMER_REAL, &never, NULL);
        sigaction(SIGALRM, &old, NULL);
        return sum + wrong;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_threads_write_code_into_the_same_page(tmp_path: Path, detail: Detail) -> None:
    code = """
    static unsigned char *code;
    static void *writer(void *number) {
        unsigned char *own = code + 64 * (long)number;
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 100; i++) {
            put(own, i + 1000 * (long)number);
            for (int k = 0; k < 3; k++) sum = sum * 31 + call(own);
        }
        return (void *)sum;
    }
    unsigned long run(void) {
        pthread_t threads[4];
        unsigned long sum = 0;
        code = map(RWX);
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, writer, (void *)i);
        for (long i = 0; i < 4; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum = sum * 31 + (unsigned long)result;
        }
        return sum;
    }
    """
    work = WORK.replace("worked++", "__atomic_add_fetch(&worked, 1, __ATOMIC_RELAXED)")
    same(tmp_path, HEAD.replace(WORK, work) + code, detail=detail, flags=["-lpthread"])


def test_a_child_writes_code(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <sys/wait.h>
    unsigned long run(void) {
        unsigned char *code = map(RWX);
        unsigned long sum = 0;
        for (unsigned long i = 0; i < 10; i++) {
            put(code, i);
            sum = sum * 31 + call(code);
            int status = 0;
            pid_t child = i % 2 ? fork() : vfork();
            if (!child) {
                if (i % 2) put(code, i + 5);
                _exit(call(code) & 0x7f);
            }
            waitpid(child, &status, 0);
            sum = sum * 31 + WEXITSTATUS(status) + call(code);
        }
        return sum;
    }
    """
    found = same(tmp_path, HEAD + code, detail=detail, work=False)
    assert found.value


def test_python_exchanges_a_library_between_calls(tmp_path: Path, detail: Detail) -> None:
    paths = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths.append(shared(folder, f"unsigned long answer(void) {{ return {number + 100}; }}"))

    def work() -> Ran:
        close = ctypes.CDLL(None).dlclose
        close.argtypes = [ctypes.c_void_p]
        addresses = set()
        with Engine(detail) as engine:
            for turn in range(9):
                library = ctypes.CDLL(str(paths[turn % 3]))
                address = address_of(library, "answer")
                addresses.add(address)
                for _ in range(2):
                    assert engine.call(address, call_frame([]))[0] == turn % 3 + 100
                close(library._handle)
        return Ran(len(addresses))

    assert in_process(work) == Ran(1)


@pytest.mark.skipif(ctypes.util.find_library("luajit-5.1") is None, reason="needs libluajit-5.1.so.2")
def test_a_just_in_time_compiler(tmp_path: Path, detail: Detail) -> None:
    """LuaJIT writes machine code while it runs, into pages that it protects in turns, and patches it."""
    code = """
    void *luaL_newstate(void);
    void luaL_openlibs(void *), lua_pushnumber(void *, double), lua_close(void *);
    int luaL_loadstring(void *, const char *), lua_pcall(void *, int, int, int);
    double lua_tonumber(void *, int);
    static const char program[] =
        "local n, sum, list, functions = ..., 0, {}, {}\\n"
        "for k = 1, 20 do functions[k] = load('return function(x) local y = x * ' .. k .. "
        "' for i = 1, 200 do y = y * 0.999 + ' .. k .. ' end return y end')() end\\n"
        "for i = 1, n do list[i] = i * 0.5 end\\n"
        "for round = 1, 20 do\\n"
        "  for i = 1, n do sum = sum + list[i] * round end\\n"
        "  for k = 1, 20 do sum = sum + functions[k](round) end\\n"
        "end\\n"
        "local texts = {} for i = 1, 300 do texts[i] = string.format('%d:%s', i, tostring(i * sum)) end\\n"
        "return sum + #table.concat(texts)\\n";
    unsigned long run(void) {
        double result = 0;
        unsigned long bits;
        for (int i = 0; i < 3; i++) {
            void *lua = luaL_newstate();
            luaL_openlibs(lua);
            if (luaL_loadstring(lua, program)) return 0;
            lua_pushnumber(lua, 1000 + i);
            if (lua_pcall(lua, 1, 1, 0)) return 0;
            result = result * 0.5 + lua_tonumber(lua, -1);
            lua_close(lua);
        }
        memcpy(&bits, &result, 8);
        return bits;
    }
    """
    found = same(tmp_path, HEAD + code, detail=detail, flags=["-l:libluajit-5.1.so.2"], work=False)
    assert found.value
