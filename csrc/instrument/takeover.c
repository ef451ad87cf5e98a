/* Threads that were there before the engine, such as a library's pool: taken over, they run translated from wherever they
   are, until they are let go. A signal makes a thread do this to itself. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#if defined(__GLIBC__)
#include <execinfo.h>
#endif
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Go's runtime takes this signal too, for the same reason: ignored by default, and hardly ever used. */
#define SIGNAL SIGURG

static volatile uint32_t wanted;   /* the thread that is to stop */
static volatile uint32_t decision; /* 0 none yet, 1 take it over, 2 leave it alone, 3 it has done so, 4 it could not */
static volatile int stopped;
static uint64_t stack_pointer;
#define FRAMES 128
static uint64_t frames[FRAMES];    /* its program counter, and where its callers go on */
static int frame_count;
static int installed;
static struct sigaction before;

static void pause_briefly(void) {
    struct timespec moment = {0, 200000};
    nanosleep(&moment, NULL);
}

/* Only the unwinder tells return addresses from what earlier calls left on the stack. */
static void find_frames(uint64_t counter) {
    frames[0] = counter;
    frame_count = 1;
#if defined(__GLIBC__)
    void *found[FRAMES + 8];
    int count = backtrace(found, FRAMES + 8), at = 0;
    while (at < count && (uint64_t)found[at] != counter) at++; /* the handler's own frames */
    for (at++; at < count && frame_count < FRAMES; at++) frames[frame_count++] = (uint64_t)found[at];
#endif
}

/* Wait for what is decided about this thread, and do it. */
static void stop_here(ucontext_t *user) {
    greg_t *registers = user->uc_mcontext.gregs;
    wanted = 0;
    stack_pointer = (uint64_t)registers[REG_RSP];
    find_frames((uint64_t)registers[REG_RIP]);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    /* It may hold a lock that whoever decides needs: after half a second it goes on. */
    for (int i = 0; i < 2500 && !__atomic_load_n(&decision, __ATOMIC_ACQUIRE); i++) pause_briefly();
    uint32_t none = 0;
    __atomic_compare_exchange_n(&decision, &none, 2, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    struct state *s = decision == 1 ? instrument_take_thread() : NULL;
    if (s) {
        s->taken = 1;
        s->letting_go = s->leave = 0;
        s->outside = 0;
        s->program_stack = 0;
        s->source = ~0u;
        s->target = frames[0];
        registers[REG_RIP] = (greg_t)(uint64_t)instrument_dispatch;
        /* the kernel sets the alternate stack from here when the handler returns */
        user->uc_stack = (stack_t){.ss_sp = s->signal_stack, .ss_size = instrument_signal_stack_bytes()};
    }
    __atomic_store_n(&decision, s || decision == 2 ? 3 : 4, __ATOMIC_RELEASE);
}

static void let_go(struct state *s, ucontext_t *user) {
    greg_t *registers = user->uc_mcontext.gregs;
    uint64_t *keys = (uint64_t *)((char *)s + STATE_KEYS);
    memset(keys, 0, 65536 * sizeof *keys); /* every look-up asks C, which lets the thread go */
    keys[0] = 1;
    s->letting_go = 1;
    if (instrument_back_to_original(s, registers)) {
        __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
        return;
    }
    if ((uint64_t)registers[REG_RIP] != (uint64_t)instrument_syscall_instruction) return;
    /* It waits in a system call, which the kernel is about to make once more, with the program's own registers. */
    registers[REG_RIP] = (greg_t)(s->target - 2);
    instrument_outside(s, 0);
    __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    int kept = errno;
    struct state *s = instrument_this_thread();
    if (s && s->taken && s->leave) {
        let_go(s, context);
    } else if (wanted == (uint32_t)syscall(SYS_gettid)) {
        stop_here(context);
    } else {
        instrument_on_signal(number, info, context); /* perhaps the program has a handler */
    }
    errno = kept;
}

int instrument_takeover_signal(void) { return installed ? SIGNAL : 0; }

static void install(void) {
    if (installed) return;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    for (int i = 1; i <= 32; i++)
        if (FAULT_SIGNAL_MASK >> (i - 1) & 1) sigdelset(&action.sa_mask, i);
    sigaction(SIGNAL, &action, &before);
    installed = 1;
}

/* Stop a thread and say where it is; the number of its frames, or -1 if it does not answer. instrument_decide() must
   follow. */
int instrument_stop_thread(uint32_t thread, uint64_t *to, uint32_t room, uint64_t *stack) {
    install();
#if defined(__GLIBC__)
    backtrace((void *[1]){0}, 1); /* it loads the unwinder when it is first called, and that is not for handlers */
#endif
    stopped = 0;
    decision = 0;
    wanted = thread;
    if (syscall(SYS_tgkill, getpid(), thread, SIGNAL)) return -1;
    for (int i = 0; i < 2500 && !stopped; i++) pause_briefly();
    if (!stopped && __atomic_exchange_n(&wanted, 0, __ATOMIC_ACQ_REL)) return -1;
    while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE)) pause_briefly();
    int count = (uint32_t)frame_count < room ? frame_count : (int)room;
    memcpy(to, frames, (size_t)count * sizeof *to);
    *stack = stack_pointer;
    return count;
}

/* Have the thread that was stopped taken over, or leave it alone. */
int instrument_decide(uint32_t take) {
    uint32_t none = 0;
    if (!__atomic_compare_exchange_n(&decision, &none, take ? 1 : 2, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return -1;
    while (__atomic_load_n(&decision, __ATOMIC_ACQUIRE) < 3) pause_briefly();
    return decision == 3 ? 0 : -1;
}

/* Ask a thread that was taken over to go on natively; whether it still has to. */
static int ask_to_leave(struct state *s) {
    if (!__atomic_load_n(&s->taken, __ATOMIC_ACQUIRE)) return 0;
    s->leave = 1;
    if (syscall(SYS_tgkill, getpid(), s->thread, SIGNAL)) { /* it has ended */
        s->taken = 0;
        s->in_use = 0;
        return 0;
    }
    return 1;
}

/* Let all threads that were taken over go on natively; -1 if one of them is not to be had. */
int instrument_let_go(void) {
    int left = 0;
    if (!installed) return 0;
    for (int i = 0; i < 10000; i++) {
        left = 0;
        for (struct state *s = instrument_all_states(); s; s = s->next) left += ask_to_leave(s);
        if (!left) break;
        pause_briefly();
    }
    if (left) return -1;
    sigaction(SIGNAL, &before, NULL);
    installed = 0;
    return 0;
}

/* ---- handing over the records of threads that may be running ---- */

static void acquire(struct state *s) {
    while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

static void release(struct state *s) { __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE); }

/* While `outside`, others may hand over what was recorded. */
void instrument_outside(struct state *s, int outside) {
    acquire(s);
    s->outside = (uint32_t)outside;
    release(s);
}

/* Hand over another thread's records, at a moment when it is not in translated code. One that never leaves it, because it
   waits actively, is let go. */
void instrument_submit_of(struct state *s) {
    for (int i = 0; i < 10000; i++) {
        acquire(s);
        int still = s->outside || !(s->taken || s->entry_top != s->entry_bottom) || s == instrument_this_thread();
        if (still) instrument_submit(s, s->buffer);
        release(s);
        if (still) return;
        if (i >= 100) ask_to_leave(s);
        pause_briefly();
    }
}

#endif
