/* Start, stop, and the call of a translated function. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run/run.h"

static int started;

/* ---- between translated code and C ---- */

uint64_t instrument_block_signals(void) {
    uint64_t all = ~FAULT_SIGNAL_MASK, old = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, 8);
    return old;
}

/* C begins to work for translated code. A handler of the program would run translated too, and must not come in between;
   that costs two system calls, so only where there are any. */
void instrument_begin(struct state *s) {
    if (!instrument_has_handlers) return;
    s->mask = instrument_block_signals() & ~s->deferred;
    s->deferred = 0;
    s->masked = 1;
}

/* ... and is done: the next stop is state->jump, which stands for an original address, or (0) for native code. */
void instrument_end(struct state *s, uint64_t safe_guest) {
    if (s->masked) {
        s->after = s->jump;
        s->safe_guest = safe_guest;
        s->jump = (uint64_t)instrument_safe_point;
        s->masked = 0;
    }
}

static struct instrument_fault gave_up; /* the first time a thread had to be left alone; status 0: none was */

int instrument_gave_up(struct instrument_fault *fault) {
    *fault = gave_up;
    return gave_up.status;
}

void instrument_forget_gave_up(void) { gave_up.status = 0; }

/* Give native code its return addresses back, wherever they were exchanged for ways back to us and still are. */
static void unhook(struct state *s) {
    for (const struct shadow_frame *f = s->entry_top; f-- > s->entry_bottom;) {
        uint64_t *place = (uint64_t *)f->stack;
        if (*place == (uint64_t)instrument_leave) *place = f->address;
    }
    for (const struct shadow_frame *f = s->native_top; f-- > s->native_bottom;) {
        uint64_t *place = (uint64_t *)f->stack - 1; /* where the native function's own return address is */
        if (instrument_in_code_cache(*place)) *place = f->address;
    }
    s->entry_top = s->entry_bottom;
    s->native_top = s->native_bottom;
}

/* This thread came to something that the engine cannot do. In a call by instrument_call, that ends with the status. Else
   there is nobody to tell: the thread goes on natively, uncounted, with what is to be done next at s->jump, and it is told
   later. */
void instrument_give_up(struct state *s, int status, uint64_t host, uint64_t guest) {
    struct instrument_fault fault = {host, guest, status};
    if (s->escape) {
        *s->fault = fault;
        s->escape_status = status;
        siglongjmp(*s->escape, 1);
    }
    int none = 0;
    static int taken;
    if (__atomic_compare_exchange_n(&taken, &none, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (!gave_up.status) gave_up = fault;
        __atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
    }
    instrument_submit(s, s->buffer);
    unhook(s);
    s->jump = guest;
    __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
}

/* ---- start, call, stop ---- */

int instrument_supported(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) != 0;
}

uint32_t instrument_xsave_size(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(13, 0, &a, &b, &c, &d) ? b : 0;
}

void instrument_offsets(struct instrument_layout *layout) {
    layout->buffer = STATE_BUFFER;
    layout->target = STATE_TARGET;
    layout->dispatch = STATE_DISPATCH;
    layout->spill = STATE_SPILL;
    layout->scratch = STATE_SCRATCH;
    layout->counters = STATE_COUNTERS;
    layout->counter_limit = STATE_COUNTER_LIMIT;
    layout->native_call = STATE_NATIVE;
    layout->system_call = STATE_SYSCALL;
    layout->hook = STATE_HOOK;
    layout->source = STATE_SOURCE;
    layout->changed = STATE_CHANGED;
    layout->program_gs = STATE_PROGRAM_GS;
    layout->set_gs = STATE_SET_GS;
    layout->after_native = STATE_AFTER_NATIVE;
}

/* What the engine cannot do without, and a system may refuse: 0, or the status to say so. */
static int refused(void) {
    uint8_t code;
    if (instrument_read_code((uint64_t)(void *)instrument_start, &code, 1) != 1) return -10;
    void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return errno == EPERM || errno == EACCES ? -11 : -2;
    munmap(page, 1);
    return 0;
}

int instrument_start(uint64_t (*translator)(uint64_t), struct cachesim *model) {
    unsigned a, b, c, d;
    if (started) return -3;
    if (!instrument_supported() || !__get_cpuid_count(13, 0, &a, &b, &c, &d)) return -1;
    instrument_xsave_bytes = (c + 63) & ~63u; /* CPUID leaf 13, ECX: bytes for all states the processor has */
    int status = refused();
    if (status) return status;
    instrument_set_translator(translator);
    if (instrument_consumer_start(model)) return -12;
    instrument_signals_start();
    instrument_changes_start();
    started = 1;
    return 0;
}

int instrument_stop(void) {
    if (!started) return -4;
    if (instrument_let_go()) return -8;
    instrument_consumer_stop();
    instrument_free_pages();
    instrument_signals_stop();
    instrument_free_states();
    instrument_free_blocks();
    instrument_free_map();
    instrument_free_entries();
    started = 0;
    return 0;
}

/* Call a function translated; status -6 fills `fault`. */
int instrument_call(uint64_t function, const struct run_frame *frame, uint64_t *result, double *float_result,
                    struct instrument_fault *fault) {
    if (!started) return -4;
    struct state *s = instrument_thread_state();
    if (!s) return -2;
    sigjmp_buf here;
    uint32_t unused;
    sigjmp_buf *outer = s->escape;
    struct shadow_frame *entries_before = s->entry_top, *natives_before = s->native_top;
    uint64_t stack_before = s->stack;
    s->escape = &here;
    s->fault = fault;
    s->escape_status = 0;
    instrument_look_for_changes(1);
    uint64_t entry = instrument_entry(function);
    if (!entry) s->escape_status = -2;
    else if (!sigsetjmp(here, 1)) *result = run_call_flagged(entry, frame, float_result, 0, &unused); /* as natively */
    else s->busy = s->masked = 0, s->stack = stack_before;
    s->entry_top = entries_before;
    s->native_top = natives_before;
    s->escape = outer;
    return s->escape_status;
}

/* Wait until everything recorded so far has been consumed. */
int instrument_drain(void) {
    if (!started) return -4;
    for (struct state *s = instrument_all_states(); s; s = s->next) instrument_submit_of(s);
    instrument_wait_idle();
    return 0;
}

#endif

