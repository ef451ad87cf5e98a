/* Which lines were asked of the last level last: a fully associative cache beside the real one. */
#include <stdlib.h>

#include "internal.h"

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
    uint32_t places = 64;
    while (places < 2 * room)
        places *= 2;
    sim->recency = (struct cs_recency){.mask = places - 1, .head = 1, .tail = 1, .room = (uint32_t)room};
    sim->recency.ring = cs_enlarge(NULL, 0, places * sizeof *sim->recency.ring);
    return sim->recency.ring ? 0 : -1;
}

void cs_recency_free(struct cachesim *sim)
{
    cs_give_back(sim->recency.ring, (sim->recency.mask + (size_t)1) * sizeof *sim->recency.ring);
}

/* The ring is full of places that lines have left behind: moves what counts together, towards the head. */
void cs_recency_tidy(struct cachesim *sim)
{
    struct cs_recency *r = &sim->recency;
    uint32_t to = r->head;
    for (uint32_t from = r->head; from-- != r->tail;) {
        uint32_t line = r->ring[from & r->mask];
        if (sim->last_asked[cs_place(sim, line)] != from)
            continue;
        r->ring[--to & r->mask] = line;
        sim->last_asked[cs_place(sim, line)] = to;
    }
    r->tail = to;
}

void cs_recency_drop(struct cachesim *sim, uint32_t line)
{
    struct cs_recency *r = &sim->recency;
    uint32_t place = sim->last_asked[cs_place(sim, line)];
    if (place - r->tail >= r->head - r->tail || r->ring[place & r->mask] != line)
        return;
    r->ring[place & r->mask] = 0; /* the lost line of label 0, whose place is never that */
    r->lines--;
}
