/* Which lines were asked of the last level last: a fully associative cache beside the real one. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static size_t table_bytes(uint32_t asks)
{
    return asks / 8;
}

/* Asks between two renumberings: several times what the cache holds, and no fewer than there are numbers to go through then. */
static uint32_t asks_for(const struct cachesim *sim)
{
    uint64_t lines = (uint64_t)sim->labels << (sim->page_line_bits - sim->part_bits), asks = 256;
    while (asks < 4 * (uint64_t)sim->recency.room || asks < lines)
        asks *= 2;
    return (uint32_t)(asks < 1u << 31 ? asks : 1u << 31);
}

int cs_recency_init(struct cachesim *sim)
{
    /* What the last level can hold, and with it the level whose victims it takes. */
    const struct cs_level *last = &sim->level[sim->levels - 1];
    uint64_t room = (uint64_t)last->sets * last->ways;
    if (sim->levels > 1 && last->fill == CS_VICTIM)
        room += (uint64_t)last[-1].sets * last[-1].ways;
    room >>= sim->part_bits;
    if (room > UINT32_MAX / 8)
        return -1;
    sim->recency = (struct cs_recency){.head = 1, .tail = 1, .room = (uint32_t)room};
    sim->recency.asks = asks_for(sim);
    sim->recency.last = cs_enlarge(NULL, 0, table_bytes(sim->recency.asks));
    return sim->recency.last ? 0 : -1;
}

void cs_recency_free(struct cachesim *sim)
{
    cs_give_back(sim->recency.last, table_bytes(sim->recency.asks));
}

/* All numbers have been given: the lines in the cache get the lowest, in their order, the others none. */
void cs_recency_renumber(struct cachesim *sim)
{
    struct cs_recency *r = &sim->recency;
    uint32_t words = r->asks / 64, *below = malloc(words * sizeof *below), sum = 0;
    if (!below) {
        sim->error = 1; /* counts are void, and totals say so */
        cs_recency_empty(sim);
        return;
    }
    for (uint32_t word = 0; word < words; word++) {
        below[word] = sum;
        sum += (uint32_t)__builtin_popcountll(r->last[word]);
    }
    for (uint32_t label = 1; label < sim->labels; label++) {
        if (!sim->frames[label].line)
            continue;
        struct cs_line *end = sim->lines + cs_chunk(sim, label + 1, 0);
        for (struct cs_line *known = sim->lines + cs_chunk(sim, label, 0); known < end; known++) {
            uint32_t asked = known->asked, word = asked / 64;
            uint64_t older = (UINT64_C(1) << asked % 64) - 1;
            known->asked = asked < r->tail ? 0 : 1 + below[word] + (uint32_t)__builtin_popcountll(r->last[word] & older);
        }
    }
    free(below);
    uint32_t asks = asks_for(sim);
    uint64_t *table = asks > r->asks ? cs_enlarge(r->last, table_bytes(r->asks), table_bytes(asks)) : NULL;
    if (table) {
        r->last = table;
        r->asks = asks;
    }
    memset(r->last, 0, table_bytes(r->asks));
    r->tail = 1;
    for (r->head = 1; r->head <= r->lines; r->head++)
        r->last[r->head / 64] |= UINT64_C(1) << r->head % 64;
}

void cs_recency_drop(struct cachesim *sim, uint32_t line)
{
    struct cs_recency *r = &sim->recency;
    struct cs_line *known = cs_line_of(sim, line);
    if (known->asked >= r->tail) {
        r->last[known->asked / 64] &= ~(UINT64_C(1) << known->asked % 64);
        r->lines--;
    }
    known->asked = 0;
}

void cs_recency_empty(struct cachesim *sim)
{
    struct cs_recency *r = &sim->recency;
    memset(r->last, 0, table_bytes(r->asks));
    for (uint32_t label = 1; label < sim->labels; label++)
        for (size_t i = cs_chunk(sim, label, 0); sim->frames[label].line && i < cs_chunk(sim, label + 1, 0); i++)
            sim->lines[i].asked = 0;
    r->head = r->tail = 1;
    r->lines = 0;
}
