/* Records how a worker dies, in a page that outlives it.
 *
 * The handler only copies: the parent, which is in one piece, works out what the addresses mean. It runs on a stack
 * of its own (the fault may be a stack overflow) and calls nothing but system calls. Afterwards the handler that was
 * installed before has its turn, so a library that catches its own signals goes on working.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include "run/run.h"

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXCPU};
enum { COUNT = sizeof SIGNALS / sizeof SIGNALS[0], STACK = 1 << 16 };

static struct run_record *record_page;
static struct sigaction first[COUNT]; /* what was there before the recorder */
static struct sigaction above[COUNT]; /* what a library put in its place, if it did */
static int replaced[COUNT], installed;
/* Set while a library's handler runs: if that one goes on to us, we go on to the first. */
static _Thread_local int passing __attribute__((tls_model("initial-exec")));

static void record_fault(int number, const siginfo_t *info, const ucontext_t *context)
{
    struct run_record *record = record_page;
    record->code = info->si_code;
    record->address = number == SIGSEGV || number == SIGBUS ? (uint64_t)(uintptr_t)info->si_addr : 0;
    record->access = 0;
#if defined(__x86_64__)
    record->instruction = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    record->stack_pointer = (uint64_t)context->uc_mcontext.gregs[REG_RSP];
    if (number == SIGSEGV && context->uc_mcontext.gregs[REG_TRAPNO] == 14) {
        uint64_t error = (uint64_t)context->uc_mcontext.gregs[REG_ERR];
        record->access = error & 16 ? 3 : error & 2 ? 2 : 1; /* page-fault error code: SDM volume 3, 4.7 */
    }
#elif defined(__aarch64__)
    record->instruction = context->uc_mcontext.pc;
    record->stack_pointer = context->uc_mcontext.sp;
#else
    (void)context;
    record->instruction = record->stack_pointer = 0;
#endif
    /* Read through the kernel: what lies above the stack pointer may not be there. */
    struct iovec here = {record->stack, sizeof record->stack};
    struct iovec there = {(void *)(uintptr_t)record->stack_pointer, sizeof record->stack};
    ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    record->stack_words = got > 0 ? (uint32_t)(got / 8) : 0;
    record->maps_bytes = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (maps >= 0 && record->maps_bytes < sizeof record->maps) {
        ssize_t more = read(maps, record->maps + record->maps_bytes, sizeof record->maps - record->maps_bytes);
        if (more <= 0) break;
        record->maps_bytes += (uint32_t)more;
    }
    if (maps >= 0) close(maps);
    record->faults++;
    atomic_thread_fence(memory_order_release);
    record->signal = (uint32_t)number;
}

static void hand_over(const struct sigaction *next, int number, siginfo_t *info, void *context)
{
    if (next->sa_flags & SA_SIGINFO) {
        next->sa_sigaction(number, info, context);
    } else if (next->sa_handler == SIG_IGN) {
        return;
    } else if (next->sa_handler != SIG_DFL) {
        next->sa_handler(number);
    } else if (number != SIGXCPU) { /* the parent's question where a call is; it kills us next */
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(number, &standard, NULL);
        /* A fault happens again on return; a trap and a signal that was sent do not. */
        if (info->si_code <= 0 || number == SIGTRAP || number == SIGSYS)
            syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
    }
}

static void handler(int number, siginfo_t *info, void *context)
{
    int i = 0;
    while (i < COUNT - 1 && SIGNALS[i] != number) i++;
    if (!passing) record_fault(number, info, context);
    if (replaced[i] && !passing) {
        passing = 1;
        hand_over(&above[i], number, info, context);
        passing = 0;
    } else {
        hand_over(&first[i], number, info, context);
    }
}

int run_faults_install(struct run_record *record)
{
    record_page = record;
    static char *memory;
    if (!memory) {
        memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return -1;
    }
    stack_t stack = {.ss_sp = memory, .ss_size = STACK};
    if (sigaltstack(&stack, NULL)) return -1;
    struct sigaction ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < COUNT; i++) {
        struct sigaction there;
        if (sigaction(SIGNALS[i], NULL, &there)) return -1;
        if (there.sa_flags & SA_SIGINFO && there.sa_sigaction == handler) continue;
        if (installed) {
            above[i] = there;
            replaced[i] = 1;
        } else {
            first[i] = there;
        }
        if (sigaction(SIGNALS[i], &ours, NULL)) return -1;
    }
    installed = 1;
    return 0;
}

void run_worker_limits(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        if (write(file, "1000", 4) < 0) { /* refused: the kernel chooses by size alone */
        }
        close(file);
    }
}

void run_flush_stdio(void) { fflush(NULL); }
