/* A block is left in the middle, by a fault or a signal. The registers become what they would be in the original program,
   and what the block did so far is counted: complete iterations of a loop by a record of its own, the instructions of the
   last, incomplete run one by one. All signals are blocked meanwhile. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <string.h>
#include <ucontext.h>

#define MAX_SLOTS 512

const int instrument_context_register[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* ---- how often blocks were left where ---- */

#define PARTIALS (1u << 14)
static struct instrument_partial partials[PARTIALS]; /* a hash table; an entry with no times is free */
static uint32_t partial_count, partials_lost;
static volatile uint32_t partials_lock;

static void count_partial(const struct state *s, uint32_t block, uint32_t place) {
    while (__atomic_exchange_n(&partials_lock, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
    uint32_t i = (block * 0x9e3779b1u ^ place * 0x85ebca6bu ^ s->number) % PARTIALS;
    while (partials[i].times && (partials[i].block != block || partials[i].place != place || partials[i].thread != s->number))
        i = (i + 1) % PARTIALS;
    if (partials[i].times) {
        partials[i].times++;
    } else if (partial_count < PARTIALS / 2) {
        partials[i] = (struct instrument_partial){s->number, block, place, 0, 1};
        partial_count++;
    } else {
        partials_lost = 1;
    }
    __atomic_store_n(&partials_lock, 0, __ATOMIC_RELEASE);
}

int64_t instrument_partials(struct instrument_partial *out, uint64_t room) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < PARTIALS; i++) {
        if (!partials[i].times) continue;
        if (found < room) out[found] = partials[i];
        found++;
    }
    return partials_lost ? -5 : (int64_t)found;
}

void instrument_reset_partials(void) {
    memset(partials, 0, sizeof partials);
    partial_count = partials_lost = 0;
}

/* ---- blocks ---- */

/* Whether a translated address is where an original instruction begins: nothing between is half done. */
int instrument_at_place(const struct block *b, uint64_t host) {
    uint64_t offset = host - b->info.host;
    if (!offset) return 1;
    for (uint32_t i = 0; i < b->info.places; i++)
        if (b->places[i].host == offset) return 1;
    return 0;
}

/* The value a recorded register had when the present iteration of the loop began. */
static uint64_t at_head(const struct block *b, uint8_t reg, uint32_t place, const greg_t *registers) {
    uint64_t value = (uint64_t)registers[instrument_context_register[reg]];
    for (uint32_t i = 0; i < b->info.changes; i++) {
        const struct instrument_change *c = &b->changes[i];
        if (c->reg != reg || c->place >= place) continue;
        value -= (uint64_t)c->constant;
        for (unsigned t = 0; t < 2; t++)
            if (c->coefficient[t])
                value -= (uint64_t)(int64_t)c->coefficient[t] * (uint64_t)registers[instrument_context_register[c->term[t]]];
        if (c->narrow) value &= 0xffffffffu;
    }
    return value;
}

/* Hand the complete iterations to the consumer, and make the record that of the iteration begun. */
static void finish_loop(struct state *s, const struct block *b, uint64_t *record, uint32_t place, const greg_t *registers) {
    for (uint32_t i = 0; i < b->info.loop_registers; i++) {
        const struct instrument_loop_register *r = &b->loop_registers[i];
        record[r->slot + 1] = at_head(b, r->reg, place, registers);
    }
    if (record[b->info.counter_start] != record[b->info.counter_end]) {
        memcpy(s->buffer, record, b->info.slots * sizeof *record);
        instrument_submit(s, s->buffer + b->info.slots);
    }
    for (uint32_t i = 0; i < b->info.loop_registers; i++) {
        const struct instrument_loop_register *r = &b->loop_registers[i];
        record[r->slot] = record[r->slot + 1];
    }
}

static void count_record(struct state *s, const struct block *b, uint32_t place, const greg_t *registers) {
    uint64_t record[MAX_SLOTS], *begin = s->buffer;
    uint32_t slots = b->info.slots;
    if (b->info.closed && place + 1 == b->info.instructions) begin -= slots; /* it was complete already: take it back */
    uint64_t room = (uint64_t)(s->chunks[s->current].start + CHUNK_SLOTS - begin);
    if (slots > MAX_SLOTS) return;
    memcpy(record, begin, (slots < room ? slots : room) * sizeof *record);
    instrument_submit(s, begin);
    if (b->info.loop) finish_loop(s, b, record, place, registers);
    int strings = 0; /* one that was interrupted has gone as far as its pointers say */
    for (uint32_t i = 0; i < b->info.accesses; i++) {
        const struct instrument_access *a = &b->accesses[i];
        if (a->form != 4 || a->position != place) continue;
        record[a->vector] = (uint64_t)registers[instrument_context_register[a->scale]];
        strings = 1;
    }
    if (!place && !strings) return;
    s->chunks[s->current].partial = place + 1;
    memcpy(s->buffer, record, slots * sizeof *record);
    instrument_submit(s, s->buffer + slots);
}

void instrument_interrupt(struct state *s, const struct block *b, greg_t *registers) {
    uint64_t offset = (uint64_t)registers[REG_RIP] - b->info.host;
    uint32_t place = 0;
    while (place + 1 < b->info.places && b->places[place + 1].host <= offset) place++;
    for (uint32_t i = 0; i < b->info.borrowed; i++) {
        const struct instrument_borrowed *borrowed = &b->borrowed[i];
        if (offset >= borrowed->start && offset < borrowed->end)
            registers[instrument_context_register[borrowed->reg]] = *(greg_t *)((char *)s + borrowed->offset);
    }
    registers[REG_RIP] = (greg_t)(b->info.guest + (b->info.places ? b->places[place].guest : 0));
    if (!b->info.places || offset < b->places[0].host || place >= b->info.instructions) return; /* not begun, or done */
    if (b->info.slots) count_record(s, b, place, registers);
    else ((uint64_t *)((char *)s + STATE_COUNTERS))[b->number]--; /* it was counted when it began */
    if (place) count_partial(s, b->number, place);
}

#endif
