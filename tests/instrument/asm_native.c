/* Runs one block of machine code on a given machine state and records the state it leaves, faults included.
 *
 * The block saves all registers itself (see asm_native.py); this file maps the memory, resets it, catches
 * signals, and copies. A fault is recorded and the thread resumes at the block's own recording code, which so
 * stores the registers as they were when the fault came. Code that does not end is treated so too, after a
 * second of processor time. */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

struct fault {
    uint64_t signal; /* 0: none */
    uint64_t code;
    uint64_t address;
    uint64_t rip;
};

static struct {
    uint64_t resume; /* 0: no block is running */
    struct fault *fault;
} running;

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGVTALRM};
enum { SIGNALS = sizeof signals / sizeof signals[0], LIMIT_SECONDS = 1 };

static void record(int number, siginfo_t *info, void *context)
{
    ucontext_t *user = context;
    if (!running.resume) { /* not ours: let it happen again without us */
        signal(number, SIG_DFL);
        return;
    }
    running.fault->signal = (uint64_t)number;
    running.fault->code = (uint64_t)(int64_t)info->si_code;
    running.fault->address = (uint64_t)info->si_addr;
    running.fault->rip = (uint64_t)user->uc_mcontext.gregs[REG_RIP];
    user->uc_mcontext.gregs[REG_RIP] = (greg_t)running.resume;
    running.resume = 0; /* a fault of the recording code itself must not loop */
}

/* Map `bytes` at exactly `address`; 0, or -1 if something is there already. */
int asm_map(uint64_t address, uint64_t bytes, int executable)
{
    int protection = PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0);
    void *got = mmap((void *)address, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
        return -1;
    if (got != (void *)address) { /* a kernel without MAP_FIXED_NOREPLACE takes it as a hint */
        munmap(got, bytes);
        return -1;
    }
    return 0;
}

int asm_unmap(uint64_t address, uint64_t bytes)
{
    return munmap((void *)address, bytes);
}

static struct before {
    stack_t stack;
    struct sigaction actions[SIGNALS];
} before[2];
static int depth;

/* Record signals from now on (`on`), or give them back to whom they went before. May be nested once: an engine that is
 * started in between finds the recorder as the program's own handler. */
void asm_catch(int on)
{
    static unsigned char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_sigaction = record, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    struct before *b = &before[on ? depth++ : --depth];
    int i;

    sigaltstack(on ? &stack : &b->stack, on ? &b->stack : NULL);
    for (i = 0; i < SIGNALS; i++)
        sigaction(signals[i], on ? &action : &b->actions[i], on ? &b->actions[i] : NULL);
}

/* Copy the image in, call `entry(first span)`, copy the image out. An image is the bytes of all spans in turn.
 * `resume` is the recording code; signals are caught if `catch`. */
void asm_run(uint64_t entry, uint64_t resume, int catch, const uint64_t *starts, const uint64_t *sizes,
             uint64_t spans, const unsigned char *in, unsigned char *out, struct fault *fault)
{
    const struct itimerval limit = {.it_value = {.tv_sec = LIMIT_SECONDS}}, none = {{0, 0}, {0, 0}};
    uint64_t i;

    memset(fault, 0, sizeof *fault);
    for (i = 0; i < spans; in += sizes[i], i++)
        memcpy((void *)starts[i], in, sizes[i]);
    if (catch) {
        setitimer(ITIMER_VIRTUAL, &limit, NULL);
        asm_catch(1);
    }
    running.fault = fault;
    running.resume = resume;
    ((void (*)(uint64_t))entry)(starts[0]);
    running.resume = 0;
    if (catch) {
        setitimer(ITIMER_VIRTUAL, &none, NULL);
        asm_catch(0);
    }
    for (i = 0; i < spans; out += sizes[i], i++)
        memcpy(out, (void *)starts[i], sizes[i]);
}
