/* The consumers take full chunks of records in the order in which they were handed over, count how often each block ran,
   and feed the addresses to the cache model: a thread for each part of the model, which all read every record. The first
   does what is done once. Nothing is kept of a record. */
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUEUE 1024u
#define MAX_STREAMS 256

#define PENDING 512u
#define RECORDS_AHEAD 128u /* words: a record comes from another core */
#define LONG 6u /* iterations from which on a loop is told as one */
#define SLACK 8u /* may be written to and does not count */

/* Chunk number n stands in place n % QUEUE until all consumers have had it; `ticket` is n + 1 then. */
static struct place {
    struct chunk *chunk;
    uint64_t ticket;
    uint32_t users; /* consumers that have not had it */
} queue[QUEUE];
static volatile uint64_t tail;
static volatile uint32_t work, sleeping, idle;
static volatile int stopping;
static uint64_t accesses_seen;
static uint32_t attributing; /* the model is told the number of each access */

struct consumer {
    uint64_t head; /* the number of its next chunk */
    struct cachesim_part *part; /* NULL if there is no model */
    struct cachesim_dealt dealt;
    int first;
    /* accesses for the model, gathered so that it can look ahead */
    uint32_t held, origin; /* origin: number of the access at hand, if attributing */
    struct cachesim_piece pending[PENDING + SLACK];
    uint32_t origins[PENDING]; /* of each, if attributing */
    uint64_t again, merged; /* accesses merged with others: those the model is still to be told of, and all before */
    pthread_t thread;
    uint32_t id;
} __attribute__((aligned(64)));
static struct consumer consumers[INSTRUMENT_CONSUMERS];
static uint32_t running;

/* The program's errno is not ours to change. */
void instrument_futex_wait(volatile uint32_t *word, uint32_t value) {
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    errno = kept;
}

void instrument_futex_wake(volatile uint32_t *word) {
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
    errno = kept;
}

/* Bases of the segments, as `segment` of an access numbers them. */
struct bases { uint64_t of[3]; };

static inline uint64_t address_of(const struct instrument_access *a, const uint64_t *record, const struct bases *bases) {
    uint64_t address = (uint64_t)a->delta;
    if (a->base) address += record[a->base];
    if (a->index) address += (a->form == 7 ? record[a->index] & 0xff : record[a->index]) << a->scale;
    if (a->address32) address &= 0xffffffffu;
    return address + bases->of[a->segment];
}

/* In the place of a model, for tests: every access is written down. */
static struct instrument_touch *trace;
static uint64_t trace_room, trace_used;

static void trace_access(uint64_t address, uint32_t bytes, uint32_t kind) {
    if (trace_used < trace_room) trace[trace_used] = (struct instrument_touch){address, bytes, kind};
    trace_used++;
}

static void settle(struct consumer *c) {
    if (c->held) cachesim_part_pieces(c->part, c->pending, attributing ? c->origins : NULL, c->held);
    c->held = 0;
    if (c->again) cachesim_part_again(c->part, c->again);
    c->merged += c->again;
    c->again = 0;
}

static inline void feed(struct consumer *c, uint64_t address, uint32_t bytes, uint32_t kind) {
    if (c->part) {
        if (__builtin_expect(bytes - 1 >= 64 || kind >= FENCE || c->dealt.line_bits != 6, 0)) {
            settle(c); /* what came before goes first */
            cachesim_part_access(c->part, c->origin, address, bytes, kind);
            return;
        }
        if (c->held + 2 > PENDING) settle(c);
        c->origins[c->held] = c->origins[c->held + 1] = c->origin;
        c->held = (uint32_t)(instrument_cut_one(c->pending + c->held, &c->dealt, address, bytes, kind) - c->pending);
    } else if (trace) trace_access(address, bytes, kind);
}

static void feed_loop(struct consumer *c, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                      const uint32_t *kind, uint64_t count) {
    if (c->part && count >= LONG) {
        settle(c);
        cachesim_part_loop(c->part, c->origin, n, start, stride, bytes, kind, count);
        return;
    }
    /* As in the model's own loop, stream i has the number given plus i. */
    uint32_t first = c->origin;
    for (uint64_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < n; i++) {
            c->origin = first + i;
            feed(c, start[i] + (uint64_t)stride[i] * k, bytes[i], kind[i]);
        }
    c->origin = first;
}

static inline void see(const struct consumer *c, uint64_t accesses) {
    if (c->first) accesses_seen += accesses;
}

static inline void touch(struct consumer *c, uint64_t address, uint32_t bytes, uint32_t kind) {
    see(c, 1);
    feed(c, address, bytes, kind);
}

/* Bit i is set where lane i is active. */
static uint64_t active_lanes(const struct instrument_access *a, const uint64_t *record) {
    uint64_t all = a->lanes >= 64 ? ~0ull : (1ull << a->lanes) - 1;
    if (!a->mask) return all;
    if (!a->mask_bytes) return record[a->mask] & all;
    const uint8_t *vector = (const uint8_t *)&record[a->mask];
    uint64_t lanes = 0;
    for (unsigned i = 0; i < a->lanes; i++)
        lanes |= (uint64_t)(vector[(i + 1) * a->mask_bytes - 1] >> 7) << i;
    return lanes;
}

static inline uint64_t active_count(const struct instrument_lanes *group, const uint64_t *record) {
    uint64_t all = group->lanes >= 64 ? ~0ull : (1ull << group->lanes) - 1;
    return (uint64_t)__builtin_popcountll(record[group->mask] & all);
}

/* Where a lane of a gather or scatter is. */
static inline uint64_t lane_address(const struct instrument_access *a, const uint64_t *record, uint64_t start, unsigned lane) {
    int64_t index = a->index_bytes == 4 ? ((const int32_t *)&record[a->vector])[lane]
                                        : ((const int64_t *)&record[a->vector])[lane];
    return start + ((uint64_t)index << a->scale);
}

/* Touch what an access touches that is not simply one range; returns how many accesses it was described by. */
static unsigned special_access(struct consumer *c, const struct instrument_access *a, const uint64_t *record, const struct bases *bases) {
    uint64_t start = address_of(a, record, bases);
    if (a->form == 1) { /* masked: runs of active elements */
        uint64_t lanes = active_lanes(a, record);
        if (a->broadcast) { /* an element is read if any of its lanes is active */
            for (unsigned n = a->lanes; n > a->broadcast; n /= 2) lanes |= lanes >> n / 2;
            lanes &= (1ull << a->broadcast) - 1;
        }
        while (lanes) {
            unsigned first = (unsigned)__builtin_ctzll(lanes);
            uint64_t shifted = lanes >> first;
            unsigned length = ~shifted ? (unsigned)__builtin_ctzll(~shifted) : 64;
            touch(c, start + (uint64_t)first * a->bytes, length * a->bytes, a->kind);
            lanes = first + length >= 64 ? 0 : lanes & ~(((1ull << length) - 1) << first);
        }
    } else if (a->form == 2) { /* compressed in memory: the active elements side by side */
        unsigned length = (unsigned)__builtin_popcountll(active_lanes(a, record));
        if (length) touch(c, start, length * a->bytes, a->kind);
    } else if (a->form == 3) {
        uint64_t lanes = active_lanes(a, record);
        for (unsigned i = 0; i < a->lanes; i++) {
            if (!(lanes >> i & 1)) continue;
            touch(c, lane_address(a, record, start, i), a->bytes, a->kind);
        }
    } else if (a->form == 4) { /* repeated string: a->lanes streams side by side, sharing count and direction */
        int64_t moved = (int64_t)(record[a->vector] - record[a->base]);
        uint64_t count = (uint64_t)(moved < 0 ? -moved : moved) / a->bytes;
        uint64_t starts[2];
        int64_t strides[2];
        uint32_t bytes[2], kinds[2];
        for (unsigned s = 0; s < a->lanes; s++) {
            starts[s] = address_of(a + s, record, bases);
            strides[s] = moved < 0 ? -(int64_t)a->bytes : (int64_t)a->bytes;
            bytes[s] = a->bytes;
            kinds[s] = a[s].kind;
        }
        see(c, count * a->lanes);
        if (count) feed_loop(c, a->lanes, starts, strides, bytes, kinds, count);
        return a->lanes;
    } else if (a->form == 5) {
        unsigned unused = 64 - 8 * a->index_bytes;
        int64_t bit = (int64_t)(record[a->vector] << unused) >> unused;
        touch(c, start + (uint64_t)((bit >> (2 + __builtin_ctz(a->index_bytes) + 1)) * a->index_bytes), a->bytes, a->kind);
    } else if (a->form == 6) {
        touch(c, start & ~(uint64_t)(a->bytes - 1), a->bytes, a->kind);
    } else {
        touch(c, start, a->bytes, a->kind);
    }
    return 1;
}

/* Of loops that run often, and of the chunks of a long run, some are enough to know the strides. */
#define ALL_OF_THE_FIRST 64u
#define LOOPS_SKIPPED 16u
#define CHUNKS_SKIPPED 8u
#define SAMPLE 192u /* records from the start of a chunk */

static void step_loop(struct block *b, uint32_t n, const uint64_t *start, const int64_t *stride, uint64_t count) {
    struct strides *strides = instrument_strides_of(b);
    if (!strides) return;
    for (uint32_t i = 0; i < n; i++) instrument_step(strides, i, start[i], stride[i], count);
}

static void sample(const struct chunk *chunk, uint32_t window) {
    const struct state *owner = chunk->owner;
    const struct bases bases = {{0, owner->fs_base, owner->previous_gs}};
    const uint64_t *record = chunk->start;
    for (uint32_t n = 0; n < SAMPLE && record < chunk->end; n++) {
        struct block *b = instrument_block_at(record[0]);
        struct strides *strides = b->info.loop ? NULL : instrument_strides_of(b);
        for (uint32_t i = 0; strides && i < b->info.accesses; i++) {
            const struct instrument_access *a = &b->accesses[i];
            uint64_t address = address_of(a, record, &bases);
            if (a->form == 3) {
                uint64_t lanes = active_lanes(a, record);
                for (unsigned lane = 0; lane < a->lanes; lane++)
                    if (lanes >> lane & 1) instrument_stride_to(strides, i, lane_address(a, record, address, lane), window);
            } else if (a->form == 4) {
                int64_t moved = (int64_t)(record[a->vector] - record[a->base]);
                uint64_t count = (uint64_t)(moved < 0 ? -moved : moved) / a->bytes;
                if (count) instrument_step(strides, i, address, moved < 0 ? -(int64_t)a->bytes : (int64_t)a->bytes, count);
            } else {
                instrument_stride_to(strides, i, address, window);
            }
        }
        record += b->info.slots;
    }
}

static void consume_loop(struct consumer *c, struct block *b, const uint64_t *record, struct state *owner) {
    const struct bases bases = {{0, owner->fs_base, owner->previous_gs}};
    uint64_t difference = record[b->info.counter_end] - record[b->info.counter_start];
    if (b->info.counter_bits == 32) {
        /* a 32-bit counter wraps; both its values are zero-extended */
        if (b->info.counter_step < 0) difference = 0 - difference;
        difference &= 0xffffffffu;
    } else if (b->info.counter_step < 0) {
        difference = 0 - difference;
    }
    uint64_t step = (uint64_t)(b->info.counter_step < 0 ? -b->info.counter_step : b->info.counter_step);
    uint64_t count = difference / step;
    if (!count) count = (b->info.counter_bits == 32 ? 0x100000000ull : 0) / step; /* came back to where it started */
    if (c->first) {
        owner->recorded[record[0]] += count;
        for (uint32_t i = 0; i < b->info.lane_groups; i++)
            owner->lanes[b->first_lane_group + i] += count * active_count(&b->lanes[i], record);
    }
    uint32_t n = b->info.accesses;
    if (!n || !count) return;
    /* A loop's register slots come in pairs: slot s at the first iteration, slot s + 1 after the last. */
    uint64_t start[MAX_STREAMS];
    int64_t stride[MAX_STREAMS];
    uint32_t bytes[MAX_STREAMS], kind[MAX_STREAMS];
    int plain = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct instrument_access *a = &b->accesses[i];
        uint64_t first = address_of(a, record, &bases), last = (uint64_t)a->delta + bases.of[a->segment];
        if (a->base) last += record[a->base + 1];
        if (a->index) last += record[a->index + 1] << a->scale;
        start[i] = first;
        stride[i] = (int64_t)(last - first) / (int64_t)count;
        bytes[i] = a->bytes;
        kind[i] = a->kind;
        if (a->form == 1) plain = 0;
    }
    if (c->first && instrument_looks_at_strides &&
        (b->loop_runs++ < ALL_OF_THE_FIRST || b->loop_runs % LOOPS_SKIPPED == 0))
        step_loop(b, n, start, stride, count);
    if (attributing) c->origin = b->info.first_access;
    if (plain) {
        see(c, n * count);
        feed_loop(c, n, start, stride, bytes, kind, count);
        return;
    }
    for (uint64_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < n; i++) {
            struct instrument_access moved = b->accesses[i];
            moved.delta += stride[i] * (int64_t)k;
            if (attributing) c->origin = b->info.first_access + i;
            if (moved.form == 1) special_access(c, &moved, record, &bases);
            else touch(c, start[i] + (uint64_t)stride[i] * k, bytes[i], kind[i]);
        }
}

/* A block whose accesses are all plain: the common case, and the one that has to be fast. */
static inline void consume_plain(struct consumer *c, struct block *b, const uint64_t *record) {
    const struct instrument_plain *a = b->plain, *stop = a + b->info.accesses;
    if (b->cuts && c->part && c->dealt.line_bits == 6 && 2 * b->info.accesses <= PENDING) {
        if (c->held + 2 * b->info.accesses > PENDING) settle(c);
        struct cachesim_piece *out = c->pending + c->held;
        int merged = b->may_merge && c->dealt.repeats
                         ? instrument_cut_merged(b, (uint32_t)(c - consumers), record, &c->dealt, out, &c->again)
                         : -1;
        c->held += merged >= 0 ? (uint32_t)merged : instrument_cut(b, record, &c->dealt, out);
        return;
    }
    for (; a < stop; a++)
        feed(c, (uint64_t)a->delta + (a->base ? record[a->base] : 0) + (a->index ? record[a->index] << a->scale : 0),
             a->bytes, a->kind);
}

/* A block that was left before the instruction at a place. A repeated string instruction has run in part. */
static void consume_partial(struct consumer *c, const struct chunk *chunk, uint32_t place) {
    const uint64_t *record = chunk->start;
    const struct block *b = instrument_block_at(record[0]);
    struct state *owner = chunk->owner;
    const struct bases bases = {{0, owner->fs_base, owner->previous_gs}};
    if (c->part) cachesim_part_core(c->part, owner->number);
    for (uint32_t i = 0; c->first && i < b->info.lane_groups; i++)
        if (b->lanes[i].position < place)
            owner->lanes[b->first_lane_group + i] += active_count(&b->lanes[i], record);
    for (const struct instrument_access *a = b->accesses, *stop = a + b->info.accesses; a < stop;) {
        if (a->position > place || (a->position == place && a->form != 4)) break;
        if (attributing) c->origin = b->info.first_access + (uint32_t)(a - b->accesses);
        a += special_access(c, a, record, &bases);
    }
    settle(c);
}

static void consume(struct consumer *c, const struct chunk *chunk) {
    const uint64_t *record = chunk->start, *end = chunk->end;
    struct state *owner = chunk->owner;
    const struct bases bases = {{0, owner->fs_base, owner->previous_gs}};
    uint64_t *recorded = owner->recorded, seen = 0;
    if (c->part) cachesim_part_core(c->part, owner->number);
    static uint32_t chunks, windows;
    if (c->first && instrument_looks_at_strides && (chunks++ < ALL_OF_THE_FIRST || chunks % CHUNKS_SKIPPED == 0)) {
        if (!++windows) windows = 1;
        sample(chunk, windows);
    }
    for (uint32_t slots; record < end; record += slots) {
        __builtin_prefetch(record + RECORDS_AHEAD);
        struct block *b = instrument_block_at(record[0]);
        slots = b->info.slots;
        if (b->info.loop) {
            consume_loop(c, b, record, owner);
            continue;
        }
        if (c->first) recorded[record[0]]++;
        if (b->plain && !attributing) {
            seen += b->info.accesses;
            consume_plain(c, b, record);
            continue;
        }
        for (uint32_t i = 0; c->first && i < b->info.lane_groups; i++)
            owner->lanes[b->first_lane_group + i] += active_count(&b->lanes[i], record);
        const struct instrument_access *a = b->accesses, *stop = a + b->info.accesses;
        while (a < stop) {
            if (attributing) c->origin = b->info.first_access + (uint32_t)(a - b->accesses);
            if (a->form == 0) {
                touch(c, address_of(a, record, &bases), a->bytes, a->kind);
                a++;
            } else {
                a += special_access(c, a, record, &bases);
            }
        }
    }
    see(c, seen);
    settle(c);
}

void instrument_enqueue(struct chunk *chunk) {
    uint64_t ticket = __atomic_fetch_add(&tail, 1, __ATOMIC_ACQ_REL);
    struct place *place = &queue[ticket % QUEUE];
    /* The ticket first: before it is there the place has no users either. */
    while ((ticket >= QUEUE && __atomic_load_n(&place->ticket, __ATOMIC_ACQUIRE) != ticket - QUEUE + 1) ||
           __atomic_load_n(&place->users, __ATOMIC_ACQUIRE))
        sched_yield(); /* the one before it is not done, or not even there */
    place->chunk = chunk;
    place->users = running;
    __atomic_store_n(&place->ticket, ticket + 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&work, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&sleeping, __ATOMIC_SEQ_CST)) instrument_futex_wake(&work);
}

uint64_t instrument_thread_return;
uint32_t instrument_consumer_thread(uint32_t number) { return number < running ? consumers[number].id : 0; }

static void *run(void *of) {
    struct consumer *c = of;
    if (c->first) instrument_thread_return = (uint64_t)__builtin_return_address(0);
    __atomic_store_n(&c->id, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    for (;;) {
        uint32_t seen = __atomic_load_n(&work, __ATOMIC_SEQ_CST);
        struct place *place = &queue[c->head % QUEUE];
        if (__atomic_load_n(&place->ticket, __ATOMIC_ACQUIRE) != c->head + 1) {
            if (__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) return NULL;
            __atomic_add_fetch(&sleeping, 1, __ATOMIC_SEQ_CST);
            instrument_futex_wait(&work, seen);
            __atomic_sub_fetch(&sleeping, 1, __ATOMIC_SEQ_CST);
            continue;
        }
        struct chunk *chunk = place->chunk;
        if (chunk->partial) consume_partial(c, chunk, chunk->partial - 1);
        else consume(c, chunk);
        int last = __atomic_load_n(&place->users, __ATOMIC_ACQUIRE) == 1 ||
                   __atomic_sub_fetch(&place->users, 1, __ATOMIC_ACQ_REL) == 0;
        if (last) { /* nobody else looks at the place until its users are none */
            chunk->partial = 0;
            __atomic_store_n(&place->users, 0, __ATOMIC_RELEASE);
            __atomic_store_n(&chunk->full, 0, __ATOMIC_SEQ_CST);
            instrument_futex_wake(&chunk->full);
        }
        __atomic_add_fetch(&c->head, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&idle, 1, __ATOMIC_SEQ_CST);
        instrument_futex_wake(&idle);
    }
}

int instrument_consumer_start(struct cachesim *model) {
    stopping = 0;
    accesses_seen = 0;
    attributing = 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the kernel's signals are not the consumers' */
    int failed = 0;
    for (running = 0; running < INSTRUMENT_CONSUMERS && !failed; running++) {
        struct consumer *c = &consumers[running];
        struct cachesim_part *part = model ? cachesim_part(model, running) : NULL;
        if (running && !part) break;
        c->first = running == 0;
        c->head = tail;
        c->part = part;
        if (part) c->dealt = cachesim_part_dealt(part);
        c->held = c->origin = c->id = 0;
        c->again = c->merged = 0;
        failed = pthread_create(&c->thread, NULL, run, c);
        if (failed) break;
        while (!__atomic_load_n(&c->id, __ATOMIC_ACQUIRE)) sched_yield();
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (model && !failed && cachesim_part(model, running)) failed = 1; /* a part that nobody feeds */
    if (failed) instrument_consumer_stop();
    return failed ? -2 : 0;
}

void instrument_consumer_stop(void) {
    __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&work, 1, __ATOMIC_SEQ_CST);
    instrument_futex_wake(&work);
    while (running) {
        struct consumer *c = &consumers[--running];
        pthread_join(c->thread, NULL);
        c->part = NULL;
    }
    trace = NULL;
}

void instrument_wait_idle(void) {
    for (uint32_t number = 0; number < running;) {
        uint32_t seen = __atomic_load_n(&idle, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&consumers[number].head, __ATOMIC_SEQ_CST) == __atomic_load_n(&tail, __ATOMIC_SEQ_CST)) number++;
        else instrument_futex_wait(&idle, seen);
    }
}

uint64_t instrument_accesses_seen(void) { return accesses_seen; }

uint64_t instrument_accesses_merged(void) {
    uint64_t merged = 0;
    for (uint32_t number = 0; number < running; number++) merged += consumers[number].merged;
    return merged;
}

void instrument_attribute(uint32_t on) { attributing = on; }

void instrument_trace(struct instrument_touch *out, uint64_t room) {
    trace = out;
    trace_room = room;
    trace_used = 0;
}

uint64_t instrument_traced(void) { return trace_used; }
void instrument_reset_accesses(void) { accesses_seen = 0; }

#endif
