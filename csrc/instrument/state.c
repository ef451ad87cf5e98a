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

static __thread struct state *mine;
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

static void find_thread_stack(struct state *s) {
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

static struct state *create(void) {
    struct state *s = reserve(STATE_BYTES);
    uint64_t chunk_bytes = CHUNK_SLOTS * 8 + CHUNK_GUARD;
    uint8_t *chunks = s ? reserve(CHUNKS * chunk_bytes) : NULL;
    struct shadow_frame *shadows = chunks ? reserve(2 * SHADOW_DEPTH * sizeof *shadows) : NULL;
    uint64_t signal_bytes = 65536 + instrument_xsave_bytes * 2;
    void *signal_stack = shadows ? reserve(signal_bytes) : NULL;
    uint8_t *stack = signal_stack ? reserve(STACK_BYTES) : NULL;
    if (!stack) return NULL;
    s->self = s;
    s->dispatch = (uint64_t)instrument_dispatch;
    s->syscall = (uint64_t)instrument_syscall;
    s->stack_bottom = stack;
    s->stack = (uint64_t)stack + STACK_BYTES;
    find_thread_stack(s);
    for (unsigned i = 0; i < CHUNKS; i++) {
        s->chunks[i].start = (uint64_t *)(chunks + i * chunk_bytes);
        s->chunks[i].owner = s;
        mprotect(chunks + i * chunk_bytes + CHUNK_SLOTS * 8, CHUNK_GUARD, PROT_NONE);
    }
    s->buffer = s->chunks[0].start;
    s->native_bottom = s->native_top = shadows;
    s->entry_bottom = s->entry_top = shadows + SHADOW_DEPTH;
    ((uint64_t *)((char *)s + STATE_KEYS))[0] = 1; /* an empty key must not match address 0 */
    s->fs_base = read_base(1);
    s->signal_stack = signal_stack;
    stack_t alternate = {.ss_sp = signal_stack, .ss_size = signal_bytes};
    sigaltstack(&alternate, NULL);
    pthread_mutex_lock(&states_lock);
    s->next = all_states;
    all_states = s;
    pthread_mutex_unlock(&states_lock);
    return s;
}

/* The state of this thread, made on first use, with the GS base pointing at it. */
struct state *instrument_thread_state(void) {
    if (!mine) {
        mine = create();
        if (!mine) return NULL;
        mine->previous_gs = read_base(0);
    }
    if (read_base(0) != (uint64_t)mine) write_gs((uint64_t)mine);
    return mine;
}

/* Hand the current chunk, filled up to `end`, to the consumer and go on with the next one. */
void instrument_submit(struct state *s, uint64_t *end) {
    struct chunk *full = &s->chunks[s->current];
    if (end != full->start) {
        full->end = end;
        __atomic_store_n(&full->full, 1, __ATOMIC_SEQ_CST);
        instrument_enqueue(full);
        s->current = (s->current + 1) % CHUNKS;
        struct chunk *next = &s->chunks[s->current];
        while (__atomic_load_n(&next->full, __ATOMIC_SEQ_CST)) instrument_futex_wait(&next->full, 1);
    }
    s->buffer = s->chunks[s->current].start;
}

void instrument_free_states(void) {
    while (all_states) {
        struct state *s = all_states;
        all_states = s->next;
        munmap(s->chunks[0].start, CHUNKS * (CHUNK_SLOTS * 8 + CHUNK_GUARD));
        munmap(s->native_bottom, 2 * SHADOW_DEPTH * sizeof *s->native_bottom);
        if (s == mine) {
            stack_t off = {.ss_flags = SS_DISABLE};
            sigaltstack(&off, NULL);
            write_gs(s->previous_gs);
            mine = NULL;
        }
        munmap(s->stack_bottom, STACK_BYTES);
        munmap(s->signal_stack, 65536 + instrument_xsave_bytes * 2);
        munmap(s, STATE_BYTES);
    }
}

#endif
