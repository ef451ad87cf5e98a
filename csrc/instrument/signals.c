/* Signals. The engine lives on SIGSEGV, so the fault signals are its own, and handlers the program installs for them are
   kept aside. Other signals come to the engine where the program has a handler. Handlers that the program installs run
   translated; those that were there before the engine run natively. Both see the original program's registers.

   A signal may come when the program's state is not one that the original program could be in:
   - between two instructions' translations: the trap flag is set until they are through, and the signal comes again;
   - in the engine's own code: all signals are blocked there but for the first and last instructions, where the signal is
     put off until the engine is done. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SIGNALS 64
#define TRAP_FLAG 0x100
#define SA_RESTORER 0x04000000 /* linux/signal.h clashes with signal.h */

/* struct sigaction as the system call has it. */
struct kernel_action {
    uint64_t handler;
    uint64_t flags;
    uint64_t restorer;
    uint64_t mask;
};

static struct kernel_action actions[SIGNALS + 1];     /* what the program believes to be installed */
static struct kernel_action before[SIGNALS + 1];      /* what was, when the engine started */
static uint64_t entries[SIGNALS + 1];                 /* of handlers the program installed since */
uint32_t instrument_has_handlers;

static int is_fault(uint64_t number) { return FAULT_SIGNAL_MASK >> (number - 1) & 1; }

static void set_mask(uint64_t mask) {
    mask &= ~FAULT_SIGNAL_MASK;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
}

static uint64_t *mask_of(ucontext_t *user) { return (uint64_t *)&user->uc_sigmask; }

/* ---- handlers ---- */

/* Run the program's handler, with the signals blocked that it asked for. */
static void deliver(int number, siginfo_t *info, ucontext_t *user) {
    struct kernel_action action = actions[number];
    uint64_t handler = entries[number] && !instrument_in_child() ? entries[number] : action.handler;
    if (action.flags & SA_RESETHAND) {
        struct kernel_action standard = {0};
        actions[number] = standard;
        entries[number] = 0;
        if (!is_fault((uint64_t)number)) syscall(SYS_rt_sigaction, number, &standard, NULL, 8);
    }
    set_mask(*mask_of(user) | action.mask | (action.flags & SA_NODEFER ? 0 : 1ull << (number - 1)));
    if (action.flags & SA_SIGINFO) ((void (*)(int, siginfo_t *, void *))handler)(number, info, user);
    else ((void (*)(int))handler)(number);
}

/* Go on where the handler wants it, translated. */
static void go_on(struct state *s, greg_t *registers) {
    s->target = (uint64_t)registers[REG_RIP];
    registers[REG_RIP] = (greg_t)instrument_dispatch;
}

/* ---- where a signal met us ---- */

enum where { NATIVE, GATE, CLONE, AT_INSTRUCTION, BETWEEN, DISPATCH, ENGINE, SAFE_POINT, SYSTEM_CALL };

static enum where where_is(const struct state *s, uint64_t host, struct block **block) {
    *block = NULL;
    if (instrument_in_code_cache(host)) {
        *block = instrument_block_of(host);
        int begun;
        if (!*block && instrument_is_clone_stub(host, &begun)) return CLONE;
        if (!*block) return instrument_gate_guest(host) ? GATE : NATIVE; /* or on the way into an entry */
        return instrument_at_place(*block, host) && !s->busy ? AT_INSTRUCTION : BETWEEN;
    }
    if (host >= (uint64_t)instrument_safe && host < (uint64_t)instrument_text_end) return SAFE_POINT;
    if (host >= (uint64_t)instrument_raw_syscall && host < (uint64_t)instrument_syscall_done) return SYSTEM_CALL;
    if (host >= (uint64_t)instrument_dispatch && host <= (uint64_t)instrument_miss) return DISPATCH;
    if (s->busy || (host >= (uint64_t)instrument_text_start && host < (uint64_t)instrument_text_end)) return ENGINE;
    return NATIVE;
}

/* Let the signal come again, when the program's mask allows it. */
static void put_off(int number, siginfo_t *info) { syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, info); }

static void start_stepping(struct state *s, ucontext_t *user) {
    s->stepping = 1;
    s->step_mask = *mask_of(user);
    *mask_of(user) = ~FAULT_SIGNAL_MASK;
    user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void stop_stepping(struct state *s, ucontext_t *user) {
    s->stepping = 0;
    *mask_of(user) = s->step_mask;
    user->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void restore_at_safe_point(const struct state *s, greg_t *registers) {
    static const int saved[] = {REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_R10, REG_R11};
    for (unsigned i = 0; i < sizeof saved / sizeof *saved; i++) registers[saved[i]] = (greg_t)s->saved[i];
}

/* Out of a system call: other threads keep their hands off our records from now on. */
static void come_back(struct state *s, uint64_t host, const greg_t *registers) {
    int locked = host >= (uint64_t)instrument_syscall_locked && !registers[REG_RCX];
    if (!locked) {
        instrument_outside(s, 0);
        return;
    }
    s->outside = 0;
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

int instrument_back_to_original(struct state *s, greg_t *registers) {
    uint64_t host = (uint64_t)registers[REG_RIP];
    struct block *b = instrument_in_code_cache(host) ? instrument_block_of(host) : NULL;
    if (!b || s->busy || !instrument_at_place(b, host)) return 0;
    instrument_interrupt(s, b, registers);
    return 1;
}

/* A signal the program has a handler for. */
void instrument_on_signal(int number, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    greg_t *registers = user->uc_mcontext.gregs;
    struct state *s = instrument_this_thread();
    struct block *b;
    if (actions[number].handler <= 1) return; /* it changed its mind meanwhile, or never had one */
    if (!s) {
        deliver(number, info, user);
        return;
    }
    uint64_t host = (uint64_t)registers[REG_RIP], target = s->target, after = s->after;
    switch (where_is(s, host, &b)) {
    case NATIVE:
        deliver(number, info, user);
        return;
    case BETWEEN:
        put_off(number, info);
        start_stepping(s, user);
        return;
    case ENGINE:
        put_off(number, info);
        *mask_of(user) |= 1ull << (number - 1);
        s->deferred |= 1ull << (number - 1);
        return;
    case AT_INSTRUCTION:
        instrument_interrupt(s, b, registers);
        deliver(number, info, user);
        go_on(s, registers);
        return;
    case GATE:
        registers[REG_RIP] = (greg_t)instrument_gate_guest(host);
        deliver(number, info, user);
        go_on(s, registers);
        return;
    case CLONE: {
        int begun;
        instrument_is_clone_stub(host, &begun);
        if (s->thread != (uint32_t)gettid()) { /* the child, which is not to touch its parent's state */
            deliver(number, info, user);
            return;
        }
        instrument_outside(s, 0);
        registers[REG_RIP] = (greg_t)(begun ? target : target - 2);
        if (begun) registers[REG_RCX] = (greg_t)target;
        deliver(number, info, user);
        go_on(s, registers); /* the system call is translated code again */
        return;
    }
    case DISPATCH:
        if (host >= (uint64_t)instrument_dispatch_saved) {
            registers[REG_RAX] = (greg_t)s->d0;
            registers[REG_RCX] = (greg_t)s->d1;
            registers[REG_RDX] = (greg_t)s->d2;
        }
        registers[REG_RIP] = (greg_t)target;
        deliver(number, info, user);
        go_on(s, registers);
        return;
    case SAFE_POINT: {
        uint64_t guest = s->safe_guest;
        restore_at_safe_point(s, registers);
        registers[REG_RIP] = (greg_t)(guest ? guest : after);
        greg_t shown = registers[REG_RIP];
        deliver(number, info, user);
        if (registers[REG_RIP] == shown) {
            s->target = target;
            registers[REG_RIP] = (greg_t)after;
        } else {
            go_on(s, registers);
        }
        return;
    }
    case SYSTEM_CALL: {
        int again = host < (uint64_t)instrument_after_syscall; /* not made yet, or the kernel wants it again */
        come_back(s, host, registers);
        registers[REG_RIP] = (greg_t)(again ? target - 2 : target);
        if (!again) registers[REG_RCX] = (greg_t)target;
        deliver(number, info, user);
        if (again && (uint64_t)registers[REG_RIP] == target - 2) {
            s->target = target;
            registers[REG_RIP] = (greg_t)instrument_raw_syscall;
        } else {
            go_on(s, registers);
        }
        return;
    }
    }
}

/* ---- faults ---- */

/* Which register addresses the record in a store the translator wrote: mov [r + disp], r or mov [r + disp], imm. */
static int record_register(const uint8_t *code) {
    int rex = code[0], rm = code[2] & 7;
    if ((rex & 0xf8) != 0x48 || (code[1] != 0x89 && code[1] != 0xc7)) return -1;
    if (rm == 4) rm = code[3] & 7;
    return rm | (rex & 1) << 3;
}

/* Whether it was the end of a chunk: then the begun record moves to the next chunk, and all goes on. */
static int chunk_is_full(struct state *s, uint64_t address, greg_t *registers) {
    struct chunk *chunk = &s->chunks[s->current];
    uint64_t guard = (uint64_t)(chunk->start + CHUNK_SLOTS);
    if (address < guard || address >= guard + CHUNK_GUARD) return 0;
    int which = record_register((const uint8_t *)registers[REG_RIP]);
    if (which < 0) return 0;
    uint64_t *record = (uint64_t *)registers[instrument_context_register[which]];
    instrument_submit(s, record);
    memmove(s->buffer, record, guard - (uint64_t)record);
    registers[instrument_context_register[which]] = (greg_t)(uint64_t)s->buffer;
    return 1;
}

#define WRITE_FAULT 2 /* in a page fault's error code (Intel SDM volume 3, section 4.7) */
static uint64_t page_of(uint64_t address) { return address >> 12; }

static void on_fault(int number, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    greg_t *registers = user->uc_mcontext.gregs;
    struct state *s = instrument_this_thread();
    uint64_t address = (uint64_t)info->si_addr, host = (uint64_t)registers[REG_RIP];
    struct block *b = NULL;
    if (s && number == SIGSEGV && chunk_is_full(s, address, registers)) return;
    if (s && instrument_in_code_cache(host)) b = instrument_block_of(host);
    if (number == SIGSEGV && info->si_code == SEGV_ACCERR && (registers[REG_ERR] & WRITE_FAULT) &&
        instrument_code_written(address, b, host)) {
        if (b && b->stale && page_of(address) >= page_of(b->info.guest) &&
            page_of(address) <= page_of(b->info.guest + b->info.guest_bytes - 1)) {
            /* It may have written what it would do next. */
            if (s->stepping) stop_stepping(s, user);
            instrument_interrupt(s, b, registers);
            go_on(s, registers);
        }
        return;
    }
    if (number == SIGILL && b && b->stale && host == b->info.host) { /* there was no room for a gate */
        registers[REG_RIP] = (greg_t)b->info.guest;
        go_on(s, registers);
        return;
    }
    if (s && s->stepping) {
        if (number == SIGTRAP && info->si_code == TRAP_TRACE) {
            if (where_is(s, host, &b) != BETWEEN) stop_stepping(s, user);
            return;
        }
        stop_stepping(s, user);
    }
    int translated = b != NULL;
    if (s && s->wild && host == s->wild) translated = 1;
    if (number == SIGILL && b && b->info.unsupported) {
        instrument_give_up(s, -6, host, b->info.guest);
        registers[REG_RIP] = (greg_t)b->info.guest;
        instrument_restore_gs(s);
        return;
    }
    if (b) {
        instrument_interrupt(s, b, registers);
        /* A fault of the instruction itself, such as SIGILL or SIGTRAP, names the instruction's address. */
        if (address == host) info->si_addr = (void *)registers[REG_RIP];
    }
    if (actions[number].handler <= 1) { /* default, or ignored, which the kernel takes for default in a fault */
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(number, &plain, NULL);
        return; /* the original instruction runs natively and ends the process in its true place */
    }
    deliver(number, info, user);
    if (translated) {
        s->wild = 0;
        go_on(s, registers);
    }
}

/* ---- system calls on signals ---- */

/* A handler of ours runs with everything blocked but faults; `deliver` lets through what the program does. */
static struct kernel_action handled_by(void (*handler)(int, siginfo_t *, void *), uint64_t flags) {
    return (struct kernel_action){(uint64_t)handler, flags | SA_SIGINFO | SA_RESTORER, (uint64_t)instrument_restorer,
                                  ~FAULT_SIGNAL_MASK};
}

static void install(uint64_t number) {
    struct kernel_action ours = actions[number];
    if (ours.handler > 1) {
        ours.flags &= SA_RESTART | SA_NODEFER | SA_NOCLDSTOP | SA_NOCLDWAIT | SA_ONSTACK;
        ours = handled_by(instrument_on_signal, ours.flags);
        instrument_has_handlers = 1;
    }
    if (number == (uint64_t)instrument_takeover_signal()) return; /* that handler asks us */
    syscall(SYS_rt_sigaction, number, &ours, NULL, 8);
}

/* rt_sigaction(number, new, old, set_bytes) */
long instrument_set_action(uint64_t number, const void *new, void *old, uint64_t set_bytes) {
    struct kernel_action wanted, was;
    if (set_bytes != 8 || number < 1 || number > SIGNALS || (new && (number == SIGKILL || number == SIGSTOP))) return -EINVAL;
    if (new && instrument_read((uint64_t)new, (uint8_t *)&wanted, sizeof wanted) != sizeof wanted) return -EFAULT;
    was = actions[number];
    if (new) {
        uint64_t entry = wanted.handler > 1 ? instrument_entry(wanted.handler) : 0;
        if (wanted.handler > 1 && !entry) return -ENOMEM;
        actions[number] = wanted;
        entries[number] = entry;
        if (!is_fault(number)) install(number);
    }
    if (old) memcpy(old, &was, sizeof was);
    return 0;
}

/* rt_sigprocmask(how, new, old, set_bytes): what the program sets is its mask at the safe point, if we block signals now. */
long instrument_set_mask(struct state *s, const struct saved_registers *r) {
    uint64_t set = 0, mask;
    if (r->r10 != sizeof set) return -EINVAL;
    if (r->rsi && instrument_read(r->rsi, (uint8_t *)&set, sizeof set) != sizeof set) return -EFAULT;
    set &= ~FAULT_SIGNAL_MASK;
    if (s->masked) mask = s->mask;
    else syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8);
    uint64_t wanted = r->rdi == SIG_BLOCK ? mask | set : r->rdi == SIG_UNBLOCK ? mask & ~set : set;
    if (r->rsi && r->rdi > 2) return -EINVAL;
    if (r->rsi && s->masked) s->mask = wanted;
    else if (r->rsi) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &wanted, NULL, 8);
    if (r->rdx) memcpy((void *)r->rdx, &mask, sizeof mask);
    return 0;
}

/* sigaltstack(new, old): the engine keeps its own, which serves the program's handlers too. */
long instrument_set_alternate_stack(struct state *s, const struct saved_registers *r) {
    stack_t wanted, was = s->program_stack_of_signals;
    if (r->rdi && instrument_read(r->rdi, (uint8_t *)&wanted, sizeof wanted) != sizeof wanted) return -EFAULT;
    if (r->rdi && !(wanted.ss_flags & SS_DISABLE) && wanted.ss_size < 2048) return -ENOMEM; /* MINSIGSTKSZ */
    if (r->rdi) s->program_stack_of_signals = wanted;
    if (r->rsi) memcpy((void *)r->rsi, &was, sizeof was);
    return 0;
}

/* ---- start and stop ---- */

void instrument_signals_start(void) {
    struct kernel_action ours = handled_by(on_fault, SA_ONSTACK | SA_NODEFER);
    for (int i = 1; i <= SIGNALS; i++) {
        syscall(SYS_rt_sigaction, i, NULL, &before[i], 8);
        actions[i] = before[i];
        entries[i] = 0;
        if (is_fault((uint64_t)i)) syscall(SYS_rt_sigaction, i, &ours, NULL, 8);
    }
    instrument_has_handlers = 0;
}

/* What the program installed meanwhile stays installed, to run natively. */
void instrument_signals_stop(void) {
    for (int i = 1; i <= SIGNALS; i++)
        if (is_fault((uint64_t)i) || memcmp(&actions[i], &before[i], sizeof before[i]))
            syscall(SYS_rt_sigaction, i, &actions[i], NULL, 8);
    instrument_has_handlers = 0;
}

#endif
