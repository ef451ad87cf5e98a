/* From original to translated addresses. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WILD 1 /* what the translator returns for an address without code */
static uint64_t (*translate)(uint64_t);

void instrument_set_translator(uint64_t (*translator)(uint64_t)) { translate = translator; }

static struct { uint64_t guest, host; } *map;
static uint64_t map_size, map_used;
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t map_slot(uint64_t guest) {
    uint64_t i = (guest * 0x9e3779b97f4a7c15ull) >> 20;
    for (;; i++) {
        i &= map_size - 1;
        if (!map[i].guest || map[i].guest == guest) return i;
    }
}

static uint64_t map_find(uint64_t guest) {
    pthread_mutex_lock(&map_lock);
    uint64_t host = map ? map[map_slot(guest)].host : 0;
    pthread_mutex_unlock(&map_lock);
    return host;
}

int instrument_publish(uint64_t guest, uint64_t host) {
    pthread_mutex_lock(&map_lock);
    if (map_used * 2 >= map_size) {
        uint64_t old_size = map_size;
        __typeof__(map) old = map;
        map_size = map_size ? map_size * 2 : 8192;
        map = calloc(map_size, sizeof *map);
        for (uint64_t i = 0; map && i < old_size; i++)
            if (old[i].guest) map[map_slot(old[i].guest)] = old[i];
        free(old);
    }
    if (map) {
        uint64_t i = map_slot(guest);
        if (!map[i].guest) map_used++;
        map[i].guest = guest;
        map[i].host = host;
    }
    pthread_mutex_unlock(&map_lock);
    return map ? 0 : -2;
}

void instrument_forget(void) {
    pthread_mutex_lock(&map_lock);
    memset(map, 0, map_size * sizeof *map);
    map_used = 0;
    pthread_mutex_unlock(&map_lock);
    for (struct state *s = instrument_all_states(); s; s = s->next) {
        uint64_t *keys = (uint64_t *)((char *)s + STATE_KEYS);
        memset(keys, 0, 65536 * sizeof *keys);
        keys[0] = 1;
    }
}

/* The target is nowhere. Leave the fault to the processor, so that it is reported as it would be without us: jump there.
   An address that is not canonical faults in the jump itself (Intel SDM volume 2, JMP), so that is done again natively. */
static void resolve_wild(struct state *s, struct saved_registers *r) {
    uint64_t target = s->target, top = target >> 47;
    if (top && top != 0x1ffff && s->source < instrument_block_total()) {
        const struct block *b = instrument_block_at(s->source);
        uint64_t start = b->info.guest + b->places[b->info.places - 1].guest;
        uint8_t code[15];
        uint64_t bytes = instrument_read_code(start, code, sizeof code), at = 0;
        while (at < bytes && ((code[at] & 0xf0) == 0x40 || code[at] == 0xf2 || code[at] == 0xf3 || code[at] == 0x3e)) at++;
        if (at + 3 > bytes) return;
        if (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2) r->rsp += 8; /* what call pushed */
        if (code[at] == 0xc3) r->rsp -= 8;
        if (code[at] == 0xc2) r->rsp -= 8 + (code[at + 1] | (uint64_t)code[at + 2] << 8);
        target = start;
    }
    s->wild = s->jump = target;
}

/* Find or make the translation of state->target. dispatch.c calls this with everything saved. */
void instrument_resolve_target(struct state *s, struct saved_registers *registers) {
    uint64_t target = s->target, host;
    /* A thread that was taken over ends natively: the allocator then takes locks that translation needs too. The call of
       the thread's function may stand in the C library twice, for the two kinds of functions. */
    int ends = s->taken && target - instrument_thread_return + 64 < 128;
    if (ends || (s->letting_go && s->taken && !instrument_in_code_cache(target) && target != (uint64_t)instrument_leave)) {
        s->jump = target;
        __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
        return;
    }
    if (!s->thread_stack_high) instrument_find_stack(s);
    if (instrument_in_code_cache(target) || target == (uint64_t)instrument_leave) {
        host = target; /* a return into ourselves */
    } else {
        host = map_find(target);
        if (!host) {
            /* Python watches its stack: give it the thread's own where the program is on it, and there is room. */
            uint64_t below = (s->program_stack - 256) & ~63ull;
            if (below > s->thread_stack_low + (1u << 18) && below < s->thread_stack_high)
                host = instrument_call_on(translate, target, below);
            else
                host = translate(target);
        }
        if (!host) instrument_escape(s, -7);
        if (host == WILD) {
            resolve_wild(s, registers);
            return;
        }
    }
    uint64_t slot = target & 0xffff;
    ((uint64_t *)((char *)s + STATE_HOSTS))[slot] = host;
    ((uint64_t *)((char *)s + STATE_KEYS))[slot] = 0 - target;
    s->jump = host;
}

__attribute__((visibility("hidden"))) void instrument_resolve(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    struct state *s = instrument_this_thread();
    instrument_begin(s);
    instrument_resolve_target(s, registers);
    instrument_end(s, s->target);
    errno = kept;
}

void instrument_free_map(void) {
    free(map);
    map = NULL;
    map_size = map_used = 0;
}

#endif
