/* From original to translated addresses. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WILD 1 /* what the translator returns for an address without code */
static uint64_t (*translate)(uint64_t);

void instrument_set_translator(uint64_t (*translator)(uint64_t)) { translate = translator; }

/* An entry stays once it is there; its gate is made when a translation becomes stale. */
struct entry { uint64_t guest, host, gate; };
static struct entry *map;
static uint64_t map_size, map_used;

static struct entry *slot_of(struct entry *table, uint64_t size, uint64_t guest) {
    uint64_t i = (guest * 0x9e3779b97f4a7c15ull) >> 20;
    for (;; i++) {
        struct entry *e = &table[i & (size - 1)];
        if (!e->guest || e->guest == guest) return e;
    }
}

static struct entry *find(uint64_t guest) {
    struct entry *e = map ? slot_of(map, map_size, guest) : NULL;
    return e && e->guest ? e : NULL;
}

static uint64_t map_find(uint64_t guest) {
    instrument_lock_code();
    const struct entry *e = find(guest);
    uint64_t host = e ? e->host : 0;
    instrument_unlock_code();
    return host;
}

/* Make the entry for a block that is about to be published. */
int instrument_reserve(const struct block *b) {
    int status = 0;
    instrument_lock_code();
    if (map_used * 2 >= map_size) {
        uint64_t size = map_size ? map_size * 2 : 8192;
        struct entry *more = calloc(size, sizeof *more);
        for (uint64_t i = 0; more && i < map_size; i++)
            if (map[i].guest) *slot_of(more, size, map[i].guest) = map[i];
        if (more) {
            free(map);
            map = more;
            map_size = size;
        } else {
            status = -2;
        }
    }
    if (!status) {
        struct entry *e = slot_of(map, map_size, b->info.guest);
        if (!e->guest) map_used++;
        e->guest = b->info.guest;
    }
    instrument_unlock_code();
    return status;
}

#define REACH 0x7fffff00u /* of a jump */

/* From now on a block is the translation of its address, unless it became stale meanwhile. */
void instrument_publish(uint32_t number) {
    const struct block *b = instrument_block_at(number);
    instrument_lock_code();
    if (!b->stale) {
        struct entry *e = find(b->info.guest);
        e->host = b->info.host;
        if (e->gate && e->host - e->gate + REACH < 2ull * REACH) instrument_store_jump(e->gate, e->host);
    }
    instrument_unlock_code();
}

/* Lead all ways into a block to its gate; under the lock. */
void instrument_detach(const struct block *b) {
    uint64_t guest = b->info.guest, slot = guest & 0xffff;
    struct entry *e = find(guest);
    if (!e->gate) e->gate = instrument_make_gate(guest, b->info.host);
    if (e->host == b->info.host) {
        e->host = 0;
        if (e->gate) instrument_close_gate(e->gate);
    }
    if (e->gate) instrument_store_jump(b->info.host, e->gate);
    else instrument_store_head(b->info.host, (b->head & ~0xffffull) | 0x0b0f); /* ud2: the handler finds the way */
    for (struct state *s = instrument_all_states(); s; s = s->next) {
        uint64_t *key = (uint64_t *)((char *)s + STATE_KEYS) + slot;
        if (*key == 0 - guest) *key = slot ? 0 : 1;
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
    if (instrument_in_child() && !instrument_in_code_cache(target) && target != (uint64_t)instrument_leave) {
        s->jump = target; /* nobody counts there, and threads that held locks are no more */
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
        if (!host) {
            instrument_give_up(s, -7, 0, target);
            return;
        }
        if (host == WILD) {
            resolve_wild(s, registers);
            return;
        }
    }
    /* What became stale meanwhile must not stay in the table: its gate would lead back to it. */
    uint64_t slot = target & 0xffff;
    instrument_lock_code();
    const struct entry *e = find(target);
    if (host == target || (e && e->host == host)) {
        ((uint64_t *)((char *)s + STATE_HOSTS))[slot] = host;
        ((uint64_t *)((char *)s + STATE_KEYS))[slot] = 0 - target;
    }
    instrument_unlock_code();
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

/* A checked block found that its original is another now. */
__attribute__((visibility("hidden"))) void instrument_block_changed(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    struct state *s = instrument_this_thread();
    instrument_begin(s);
    instrument_make_stale(s->source);
    instrument_resolve_target(s, registers);
    instrument_end(s, s->target);
    errno = kept;
}

/* A native function returned that may have loaded or unloaded code, or made this process another. */
__attribute__((visibility("hidden"))) void instrument_native_returned(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    struct state *s = instrument_this_thread();
    instrument_begin(s);
    if (!instrument_in_child()) instrument_look_for_changes(0);
    instrument_resolve_target(s, registers);
    instrument_end(s, s->target);
    errno = kept;
}

/* wrgsbase. */
__attribute__((visibility("hidden"))) void instrument_gs_is_set(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    struct state *s = instrument_this_thread();
    instrument_begin(s);
    instrument_change_gs(s, s->scratch[0]);
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
