/* Who caused the traffic with memory: lines read and written by number of access. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Kept with the number of the store that made a line dirty, once the line has been written to memory. */
#define WRITTEN 0x80000000u

struct traffic {
    uint64_t read, written;
};

struct cs_origins {
    struct traffic *of; /* [count] */
    uint32_t count;
    uint32_t *dirtied_by; /* [labels][CS_CHUNKS] */
    uint32_t labels;
};

static size_t table_bytes(const struct cachesim *sim, uint32_t labels)
{
    return cs_chunk(sim, labels, 0) * sizeof(uint32_t);
}

int cs_origins_grow(struct cachesim *sim, uint32_t labels)
{
    struct cs_origins *origins = sim->origins;
    uint32_t *by = cs_enlarge(origins->dirtied_by, table_bytes(sim, origins->labels), table_bytes(sim, labels));
    if (!by)
        return -1;
    origins->dirtied_by = by;
    origins->labels = labels;
    return 0;
}

int cachesim_origins_start(struct cachesim *sim)
{
    for (; sim; sim = sim->next) {
        if (!sim->origins)
            sim->origins = calloc(1, sizeof *sim->origins);
        if (!sim->origins || cs_origins_grow(sim, sim->label_room))
            return -1;
        cs_serve(sim);
        sim->watching = 1;
        sim->simple = sim->defers = 0;
    }
    return 0;
}

void cachesim_set_origin(struct cachesim *sim, uint32_t number)
{
    for (; sim; sim = sim->next)
        sim->origin = number;
}

void cs_origins_free(struct cachesim *sim)
{
    if (!sim->origins)
        return;
    cs_give_back(sim->origins->dirtied_by, table_bytes(sim, sim->origins->labels));
    free(sim->origins->of);
    free(sim->origins);
}

static struct traffic *traffic_of(struct cachesim *sim, uint32_t number)
{
    static struct traffic nowhere;
    struct cs_origins *origins = sim->origins;
    if (number >= origins->count) {
        uint32_t count = number < 512 ? 1024 : number * 2;
        struct traffic *of = realloc(origins->of, count * sizeof *of);
        if (!of) {
            sim->error = 1;
            return &nowhere;
        }
        memset(of + origins->count, 0, (count - origins->count) * sizeof *of);
        origins->of = of;
        origins->count = count;
    }
    return &origins->of[number];
}

void cs_origin_read(struct cachesim *sim)
{
    traffic_of(sim, sim->origin)->read++;
}

void cs_origin_dirtied(struct cachesim *sim, uint32_t line)
{
    uint32_t *by = &sim->origins->dirtied_by[cs_place(sim, line)];
    if (!*by || *by & WRITTEN)
        *by = sim->origin;
}

void cs_origin_written(struct cachesim *sim, uint32_t line)
{
    uint32_t *by = &sim->origins->dirtied_by[cs_place(sim, line)];
    traffic_of(sim, *by & ~WRITTEN)->written++;
    *by |= WRITTEN;
}

void cs_origins_reset(struct cachesim *sim)
{
    if (sim->origins && sim->origins->of)
        memset(sim->origins->of, 0, sim->origins->count * sizeof *sim->origins->of);
}

void cs_origins_clean(struct cachesim *sim)
{
    if (!sim->origins)
        return;
    for (size_t place = 0; place < cs_chunk(sim, sim->labels, 0); place++)
        if (sim->origins->dirtied_by[place])
            sim->origins->dirtied_by[place] |= WRITTEN;
}

uint32_t cachesim_origins(struct cachesim *sim, uint32_t first, uint32_t n, uint64_t *read_lines, uint64_t *write_lines)
{
    uint32_t count = 0;
    memset(read_lines, 0, n * sizeof *read_lines);
    memset(write_lines, 0, n * sizeof *write_lines);
    for (; sim && sim->origins; sim = sim->next) {
        const struct cs_origins *origins = sim->origins;
        cs_settle(sim);
        for (uint32_t i = 0; i < n && i < origins->count && first < origins->count - i; i++) {
            read_lines[i] += origins->of[first + i].read;
            write_lines[i] += origins->of[first + i].written;
        }
        count = origins->count > count ? origins->count : count;
    }
    return count;
}
