/* Who caused the traffic with memory: lines read and written by number of access. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Kept with the number of the store that made a line dirty, once the line has been written to memory. */
#define WRITTEN 0x80000000u
#define LINES_OF_PAGE 64u
#define SLAB_PAGES 1024u

struct slab {
    struct slab *next;
    uint32_t used;
    uint32_t dirtied_by[SLAB_PAGES][LINES_OF_PAGE];
};

struct traffic {
    uint64_t read, written;
};

struct cs_origins {
    struct traffic *of; /* [count] */
    uint32_t count;
    struct slab *slabs;
};

int cachesim_origins_start(struct cachesim *sim)
{
    if (!sim->origins)
        sim->origins = calloc(1, sizeof *sim->origins);
    return sim->origins ? 0 : -1;
}

void cachesim_set_origin(struct cachesim *sim, uint32_t number)
{
    cachesim_fast_origin(sim, number);
}

void cs_origins_free(struct cachesim *sim)
{
    if (!sim->origins)
        return;
    for (struct slab *slab = sim->origins->slabs, *next; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
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

static uint32_t *dirtied_by(struct cachesim *sim, struct cs_page *page)
{
    struct cs_origins *origins = sim->origins;
    if (page->dirtied_by)
        return page->dirtied_by;
    if (!origins->slabs || origins->slabs->used == SLAB_PAGES) {
        struct slab *slab = calloc(1, sizeof *slab); /* mmap underneath: resident only where written */
        if (!slab) {
            sim->error = 1;
            return NULL;
        }
        slab->next = origins->slabs;
        origins->slabs = slab;
    }
    return page->dirtied_by = origins->slabs->dirtied_by[origins->slabs->used++];
}

void cs_origin_read(struct cachesim *sim)
{
    traffic_of(sim, sim->front.origin)->read++;
}

void cs_origin_dirtied(struct cachesim *sim, struct cs_page *page, uint32_t in_page)
{
    uint32_t *by = dirtied_by(sim, page);
    if (by && (!by[in_page] || by[in_page] & WRITTEN))
        by[in_page] = sim->front.origin;
}

void cs_origin_written(struct cachesim *sim, struct cs_page *page, uint32_t in_page)
{
    uint32_t *by = page->dirtied_by;
    traffic_of(sim, by ? by[in_page] & ~WRITTEN : 0)->written++;
    if (by)
        by[in_page] |= WRITTEN;
}

void cs_origins_reset(struct cachesim *sim)
{
    if (sim->origins)
        memset(sim->origins->of, 0, sim->origins->count * sizeof *sim->origins->of);
}

void cs_origins_clean(struct cachesim *sim)
{
    for (struct slab *slab = sim->origins ? sim->origins->slabs : NULL; slab; slab = slab->next)
        for (uint32_t i = 0; i < slab->used * LINES_OF_PAGE; i++)
            slab->dirtied_by[i / LINES_OF_PAGE][i % LINES_OF_PAGE] |= WRITTEN;
}

uint32_t cachesim_origins(struct cachesim *sim, uint32_t first, uint32_t n, uint64_t *read_lines, uint64_t *write_lines)
{
    struct cs_origins *origins = sim->origins;
    if (!origins)
        return 0;
    cs_combine_drain(sim);
    for (uint32_t i = 0; i < n; i++) {
        const struct traffic *of = i < origins->count && first < origins->count - i ? &origins->of[first + i] : NULL;
        read_lines[i] = of ? of->read : 0;
        write_lines[i] = of ? of->written : 0;
    }
    return origins->count;
}
