/* Threads that run translated code: their state behind the GS base, and the chunks their records go to. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <asm/prctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread struct state *mine __attribute__((tls_model("initial-exec"))); /* a handler may ask first */
static struct state *all_states;
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;

struct state *instrument_this_thread(void) { return mine; }
struct state *instrument_all_states(void) { return all_states; }

/* The kernel sets bit 1 of AT_HWCAP2 when user space may use rdgsbase and wrgsbase
   (Linux, Documentation/arch/x86/x86_64/fsgs.rst). */
static int have_fsgsbase(void) { return (getauxval(AT_HWCAP2) & 2) != 0; }

static uint64_t read_base(int fs) {
    uint64_t base = 0;
    if (have_fsgsbase()) {
        if (fs) __asm__ volatile("rdfsbase %0" : "=r"(base));
        else __asm__ volatile("rdgsbase %0" : "=r"(base));
    } else {
        syscall(SYS_arch_prctl, fs ? ARCH_GET_FS : ARCH_GET_GS, &base);
    }
    return base;
}

static void write_gs(uint64_t base) {
    if (have_fsgsbase()) __asm__ volatile("wrgsbase %0" ::"r"(base));
    else syscall(SYS_arch_prctl, ARCH_SET_GS, base);
}

static void *reserve(uint64_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void instrument_find_stack(struct state *s) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes)) return;
    if (!pthread_attr_getstack(&attributes, &low, &size)) {
        s->thread_stack_low = (uint64_t)low;
        s->thread_stack_high = (uint64_t)low + size;
    }
    pthread_attr_destroy(&attributes);
}

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pid_t owner;   /* the process that has the consumer; a fork's child has none */

int instrument_in_child(void) { return owner && getpid() != owner; }

/* A thread ended: what it recorded goes to the consumer, its slot to the next thread. */
static void thread_ended(void *of) {
    struct state *s = of;
    instrument_submit(s, s->buffer);
    s->taken = 0;
    write_gs(s->previous_gs);
    mine = NULL;
    __atomic_store_n(&s->in_use, 0, __ATOMIC_RELEASE);
}

static void make_key(void) { pthread_key_create(&key, thread_ended); }

uint64_t instrument_signal_stack_bytes(void) { return 262144 + instrument_xsave_bytes * 2; }
#define CHUNK_BYTES (CHUNK_SLOTS * 8 + CHUNK_GUARD)

static struct state *create(void) {
    struct state *s = reserve(STATE_BYTES);
    if (!s) return NULL;
    uint8_t *chunks = reserve(CHUNKS * CHUNK_BYTES), *stack = reserve(STACK_BYTES);
    struct shadow_frame *shadows = reserve(2 * SHADOW_DEPTH * sizeof *shadows);
    s->signal_stack = reserve(instrument_signal_stack_bytes());
    s->recorded = reserve(STATE_COUNTER_LIMIT * sizeof *s->recorded);
    s->lanes = reserve(LANE_LIMIT * sizeof *s->lanes);
    if (!chunks || !stack || !shadows || !s->signal_stack || !s->recorded || !s->lanes) return NULL;
    s->self = s;
    s->dispatch = (uint64_t)instrument_dispatch;
    s->syscall = (uint64_t)instrument_syscall;
    s->hook = (uint64_t)instrument_before_native;
    s->changed = (uint64_t)instrument_changed;
    s->after_native = (uint64_t)instrument_after_native;
    s->set_gs = (uint64_t)instrument_set_gs;
    s->stack_bottom = stack;
    for (unsigned i = 0; i < CHUNKS; i++) {
        s->chunks[i].start = (uint64_t *)(chunks + i * CHUNK_BYTES);
        s->chunks[i].owner = s;
        mprotect(chunks + i * CHUNK_BYTES + CHUNK_SLOTS * 8, CHUNK_GUARD, PROT_NONE);
    }
    s->buffer = s->chunks[0].start;
    s->native_bottom = shadows;
    s->entry_bottom = shadows + SHADOW_DEPTH;
    ((uint64_t *)((char *)s + STATE_KEYS))[0] = 1; /* an empty key must not match address 0 */
    return s;
}

/* The program's GS base, where it is not ours: a new thread inherits that of the thread that made it. */
static uint64_t program_gs(uint64_t base) {
    for (struct state *s = all_states; s; s = s->next)
        if ((uint64_t)s == base) return s->previous_gs;
    return base;
}

/* The program sets its GS base. What was recorded before is relative to the one before. */
void instrument_change_gs(struct state *s, uint64_t base) {
    s->own_gs = have_fsgsbase();
    if (base == s->previous_gs) return;
    instrument_submit(s, s->buffer);
    instrument_wait_idle();
    s->previous_gs = base;
}

/* For code that goes on natively from a signal's handler. */
void instrument_restore_gs(const struct state *s) { write_gs(s->previous_gs); }

/* Take a slot that an ended thread left, or make one. */
static struct state *take_slot(void) {
    struct state *s;
    pthread_mutex_lock(&states_lock);
    for (s = all_states; s; s = s->next)
        if (!__atomic_load_n(&s->in_use, __ATOMIC_ACQUIRE)) break;
    if (!s && (s = create())) {
        s->number = all_states ? all_states->number + 1 : 0;
        s->next = all_states;
        __atomic_store_n(&all_states, s, __ATOMIC_RELEASE);
    }
    if (s) s->in_use = 1;
    pthread_mutex_unlock(&states_lock);
    return s;
}

/* What a slot's last thread recorded is relative to that one's bases: the consumers are to have had it. */
static void wait_for_chunks(struct state *s) {
    for (unsigned i = 0; i < CHUNKS && !instrument_in_child(); i++)
        while (__atomic_load_n(&s->chunks[i].full, __ATOMIC_SEQ_CST)) instrument_futex_wait(&s->chunks[i].full, 1);
}

/* The state of this thread, made on first use, with the GS base pointing at it. */
struct state *instrument_take_thread(void) {
    if (!owner) owner = getpid();
    if (!mine) {
        struct state *s = take_slot();
        if (!s) return NULL;
        wait_for_chunks(s);
        s->stack = (uint64_t)s->stack_bottom + STACK_BYTES;
        s->native_top = s->native_bottom;
        s->entry_top = s->entry_bottom;
        s->fs_base = read_base(1);
        s->previous_gs = program_gs(read_base(0));
        s->own_gs = 0;
        s->thread = (uint32_t)syscall(SYS_gettid);
        s->thread_stack_low = s->thread_stack_high = 0;
        stack_t alternate = {.ss_sp = s->signal_stack, .ss_size = instrument_signal_stack_bytes()};
        sigaltstack(&alternate, &s->previous_stack_of_signals);
        s->program_stack_of_signals = s->previous_stack_of_signals;
        s->busy = s->masked = s->stepping = 0;
        pthread_once(&key_once, make_key);
        mine = s;
        pthread_setspecific(key, s);
    }
    uint64_t base = read_base(0);
    if (base != (uint64_t)mine) { /* the program's, from native code */
        if (base != mine->previous_gs && program_gs(base) == base) instrument_change_gs(mine, base);
        write_gs((uint64_t)mine);
    }
    return mine;
}

struct state *instrument_thread_state(void) {
    struct state *s = instrument_take_thread();
    if (s && !s->thread_stack_high) instrument_find_stack(s);
    return s;
}

/* Hand the current chunk, filled up to `end`, to the consumer and go on with the next one. */
void instrument_submit(struct state *s, uint64_t *end) {
    struct chunk *full = &s->chunks[s->current];
    if (end != full->start && getpid() == owner) {
        full->end = end;
        __atomic_store_n(&full->full, 1, __ATOMIC_SEQ_CST);
        instrument_enqueue(full);
        s->current = (s->current + 1) % CHUNKS;
        struct chunk *next = &s->chunks[s->current];
        if (__atomic_load_n(&next->full, __ATOMIC_SEQ_CST)) {
            /* Waking up takes long, so it is better done once for several: until half of them are free, as they are
               consumed in order. */
            struct chunk *half = &s->chunks[(s->current + CHUNKS / 2 - 1) % CHUNKS];
            while (__atomic_load_n(&half->full, __ATOMIC_SEQ_CST)) instrument_futex_wait(&half->full, 1);
        }
    }
    s->buffer = s->chunks[s->current].start;
}

static void free_state(struct state *s) {
    munmap(s->chunks[0].start, CHUNKS * CHUNK_BYTES);
    munmap(s->native_bottom, 2 * SHADOW_DEPTH * sizeof *s->native_bottom);
    munmap(s->stack_bottom, STACK_BYTES);
    munmap(s->signal_stack, instrument_signal_stack_bytes());
    munmap(s->recorded, STATE_COUNTER_LIMIT * sizeof *s->recorded);
    munmap(s->lanes, LANE_LIMIT * sizeof *s->lanes);
    munmap(s, STATE_BYTES);
}

/* The engine stops. Threads of a pool outlive it, with their GS base: what they hold is kept, made new for the next. */
void instrument_free_states(void) {
    struct state *kept = NULL, *next;
    uint32_t number = 0;
    if (mine) {
        sigaltstack(&mine->previous_stack_of_signals, NULL);
        write_gs(mine->previous_gs);
        pthread_setspecific(key, NULL);
        mine->in_use = 0;
        mine = NULL;
    }
    for (struct state *s = all_states; s; s = next) {
        next = s->next;
        if (!s->in_use) {
            free_state(s);
            continue;
        }
        /* fresh zero pages, where they are not unmapped */
        madvise((char *)s + STATE_KEYS, STATE_BYTES - STATE_KEYS, MADV_DONTNEED);
        madvise(s->recorded, STATE_COUNTER_LIMIT * sizeof *s->recorded, MADV_DONTNEED);
        madvise(s->lanes, LANE_LIMIT * sizeof *s->lanes, MADV_DONTNEED);
        ((uint64_t *)((char *)s + STATE_KEYS))[0] = 1;
        s->buffer = s->chunks[s->current].start;
        s->next = kept;
        kept = s;
    }
    for (struct state *s = kept; s; s = s->next) number++;
    for (struct state *s = kept; s; s = s->next) s->number = --number;
    all_states = kept;
    owner = 0;
}

#endif
