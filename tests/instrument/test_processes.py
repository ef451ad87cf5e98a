"""Programs that start processes: the child does what it would, uncounted; the parent is counted exactly."""

from __future__ import annotations

import ctypes
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
    #include <errno.h>
    #include <sched.h>
    #include <signal.h>
    #include <spawn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    """
    + WORK
    + """
    extern char **environ;
    static unsigned long ended(pid_t child) {
        int status = 0;
        if (waitpid(child, &status, 0) != child) return 1000;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 500 + WTERMSIG(status);
    }
    /* What a child does, without a trace in this process's memory. */
    static int childs_work(int x) {
        volatile double a[1000];
        double sum = 0;
        for (int k = 0; k < 1000; k++) a[k] = k * x;
        for (int k = 0; k < 1000; k++) sum += a[k];
        return (long)sum % 100;
    }
    """
)


@pytest.mark.parametrize("function", ["fork", "_Fork", "vfork"])
def test_a_child_that_ends(tmp_path: Path, detail: Detail, function: str) -> None:
    code = """
    #pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 20; i++) {
            work(i);
            pid_t child = FORK();
            if (!child) _exit(childs_work(i) + 1);
            sum = sum * 31 + work(i) + ended(child);
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail, flags=[f"-DFORK={function}"])


def test_a_child_of_vfork_writes_its_parents_memory(tmp_path: Path, detail: Detail) -> None:
    code = """
    __attribute__((noipa)) static void deeper(int n, unsigned long *to) {
        volatile char room[256];
        room[n] = n;
        if (n) deeper(n - 1, to);
        *to += room[n];
    }
    unsigned long run(void) {
        volatile unsigned long written = 0;
        unsigned long sum = 0;
        for (volatile int i = 0; i < 20; i++) {
            work(i);
            pid_t child = vfork();
            if (!child) {
                deeper(20, (unsigned long *)&written);
                execl("/nonexistent", "x", NULL);
                written += errno;
                _exit(7);
            }
            sum = sum * 31 + work(i) + ended(child) + written;
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_child_of_vfork_becomes_another_program(tmp_path: Path, detail: Detail) -> None:
    code = """
    static int spawn(const char *text) {
        int ends[2], value = -1;
        char got[16] = "";
        if (pipe(ends)) return -1;
        pid_t child = vfork();
        if (!child) {
            dup2(ends[1], 1);
            execl("/bin/sh", "sh", "-c", text, NULL);
            _exit(127);
        }
        close(ends[1]);
        if (read(ends[0], got, sizeof got - 1) > 0) value = atoi(got);
        close(ends[0]);
        return value * 10 + ended(child);
    }
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 5; i++) { sum = sum * 31 + spawn("echo 42; exit 3"); work(i); }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_the_c_librarys_ways_to_run_programs(tmp_path: Path, detail: Detail) -> None:
    code = """
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 3; i++) {
            char text[] = "exit 7", *arguments[] = {"sh", "-c", text, NULL}, line[32] = "";
            pid_t child;
            work(i);
            if (posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ)) return 0;
            sum = sum * 31 + ended(child);
            if (posix_spawnp(&child, "sh", NULL, NULL, arguments, environ)) return 0;
            sum = sum * 31 + ended(child);
            sum = sum * 31 + WEXITSTATUS(system("exit 5"));
            FILE *output = popen("echo 17", "r");
            if (!output || !fgets(line, sizeof line, output)) return 0;
            sum = sum * 31 + atoi(line) + WEXITSTATUS(pclose(output));
            work(sum);
        }
        return sum;
    }
    """
    assert same(tmp_path, HEAD + code, detail=detail).value


def test_raw_system_calls_that_make_processes(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <linux/sched.h>
    unsigned long run(void) {
        unsigned long sum = 0;
        for (int i = 0; i < 20; i++) {
            struct clone_args how = {.exit_signal = SIGCHLD};
            work(i);
            pid_t child = i % 3 == 0 ? syscall(SYS_fork)
                : i % 3 == 1 ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
                : syscall(SYS_clone3, &how, sizeof how);
            if (!child) _exit(childs_work(i) + 1);
            sum = sum * 31 + work(i) + ended(child);
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_clone_with_a_stack_of_its_own(tmp_path: Path, detail: Detail) -> None:
    code = """
    static volatile unsigned long written;
    static int begin(void *argument) {
        written += childs_work((long)argument);
        return 9;
    }
    unsigned long run(void) {
        static char stack[65536] __attribute__((aligned(64)));
        unsigned long sum = 0;
        for (long i = 0; i < 20; i++) {
            work(i);
            int how = CLONE_VM | (i % 2 ? CLONE_VFORK : 0) | SIGCHLD;
            pid_t child = clone(begin, stack + sizeof stack, how, (void *)i);
            if (i % 2) sum += work(written);
            sum = sum * 31 + work(i) + ended(child) + written;
        }
        return sum;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_child_has_the_programs_handlers(tmp_path: Path, detail: Detail) -> None:
    code = """
    static volatile unsigned long seen;
    static void on_signal(int number) { seen += number; }
    static void on_fault(int number) { _exit(seen + 40); }
    unsigned long run(void) {
        unsigned long sum = 0;
        struct sigaction action = {.sa_handler = on_signal}, fault = {.sa_handler = on_fault};
        sigaction(SIGUSR1, &action, NULL);
        sigaction(SIGSEGV, &fault, NULL);
        for (int i = 0; i < 10; i++) {
            work(i);
            pid_t child = fork();
            if (!child) {
                raise(SIGUSR1);
                kill(getpid(), SIGUSR1);
                *(volatile int *)8 = 1;
                _exit(1);
            }
            sum = sum * 31 + ended(child);
        }
        return sum + seen;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_a_child_goes_on_with_the_kernel(tmp_path: Path, detail: Detail) -> None:
    """Both processes return from the same frames; the child's results come through a pipe."""
    code = """
    static int ends[2];
    static pid_t child;
    static __attribute__((noinline)) unsigned long both(int depth) {
        if (!depth) { child = fork(); return child ? 1 : 1000; }
        return both(depth - 1) * 3 + depth;
    }
    static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    unsigned long run(void) {
        unsigned long got = 0, sum = 0;
        work(1);
        if (pipe(ends)) return 0;
        unsigned long result = both(30);
        int numbers[100];
        for (int i = 0; i < 100; i++) numbers[i] = (i * 37) % 101;
        qsort(numbers, 100, sizeof *numbers, compare);
        for (int i = 0; i < 100; i++) result = result * 3 + numbers[i];
        if (!child) { if (write(ends[1], &result, sizeof result) < 0) _exit(1); _exit(0); }
        if (read(ends[0], &got, sizeof got) != sizeof got) return 0;
        sum = ended(child);
        return sum * 31 + result * 7 + got;
    }
    """
    same(tmp_path, HEAD + code, detail=detail)


def test_threads_and_fork(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <pthread.h>
    static void *forker(void *unused) {
        unsigned long sum = 0;
        for (int i = 0; i < 20; i++) {
            pid_t child = i % 2 ? fork() : vfork();
            if (!child) _exit(childs_work(i));
            sum = sum * 31 + ended(child);
        }
        return (void *)sum;
    }
    static void *worker(void *unused) {
        unsigned long sum = 0;
        for (int i = 0; i < 200000; i++) sum = sum * 31 + i;
        for (int i = 0; i < 20; i++) sum = sum * 31 + childs_work(i);
        return (void *)(sum + work(3));
    }
    unsigned long run(void) {
        pthread_t threads[2];
        void *results[2];
        pthread_create(&threads[0], NULL, forker, NULL);
        pthread_create(&threads[1], NULL, worker, NULL);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], &results[i]);
        return (unsigned long)results[0] * 31 + (unsigned long)results[1];
    }
    """
    same(tmp_path, HEAD + code, detail=detail, flags=["-lpthread"])


def test_a_thread_made_by_a_system_call_runs_natively_and_is_told(tmp_path: Path, detail: Detail) -> None:
    code = """
    static volatile unsigned long written;
    static int begin(void *argument) {
        written = childs_work((long)argument) + 1;
        for (;;) __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0) : "rcx", "r11");
    }
    unsigned long run(void) {
        static char stack[65536] __attribute__((aligned(64)));
        int how = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        if (clone(begin, stack + sizeof stack, how, (void *)3) < 0) return 0;
        while (!written) work(1);
        return written;
    }
    """
    path = shared(tmp_path, HEAD + code)

    def run() -> Ran:
        library = ctypes.CDLL(str(path))
        with Engine(detail) as engine:
            assert engine.threads_lost == 0
            value, _ = engine.call(address_of(library, "run"), call_frame([]))
            assert engine.threads_lost == 1
            engine.reset()
            assert engine.threads_lost == 0
            return Ran(value)

    assert in_process(run) == Ran(sum(range(1000)) * 3 % 100 + 1)


def test_signals_come_while_processes_are_made(tmp_path: Path, detail: Detail) -> None:
    code = """
    #include <sys/time.h>
    static volatile unsigned long ticks;
    static void on_tick(int number) { ticks++; }
    unsigned long run(void) {
        struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, old;
        struct itimerval often = {{0, 400}, {0, 400}}, never = {{0, 0}, {0, 0}};
        unsigned long sum = 0;
        sigaction(SIGALRM, &action, &old);
        setitimer(ITIMER_REAL, &often, NULL);
        for (int i = 0; i < 60; i++) {
            work(i);
            pid_t child = i % 3 ? i % 3 == 1 ? fork() : syscall(SYS_fork) : vfork();
            if (!child) _exit(childs_work(i) + 1);
            sum = sum * 31 + work(i) + ended(child);
        }
        setitimer(ITIMER_REAL, &never, NULL);
        sigaction(SIGALRM, &old, NULL);
        return sum + (ticks > 3);
    }
    """
    same(tmp_path, HEAD + code, detail=detail)
