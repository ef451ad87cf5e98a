/* Hardware prefetchers: which lines they want, and what became of those they brought from memory. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A page and what was last asked for in it. */
struct cs_page_stream {
    uint32_t label; /* 0: free */
    int32_t last, step;
    uint32_t times; /* that the step came in a row */
    uint32_t ahead; /* steps ahead of `last` that were prefetched */
    uint64_t used;
};

static size_t table_bytes(uint32_t labels)
{
    return labels * sizeof(uint64_t);
}

int cachesim_set_prefetch(struct cachesim *sim, const struct cachesim_prefetch *given)
{
    int none = given->stream && (!given->distance || !given->degree || !given->streams);
    if (sim->levels < 2 || sim->next || sim->prefetch || none)
        return -1;
    if (!given->adjacent && !given->stream)
        return 0;
    sim->prefetch = calloc(1, sizeof *sim->prefetch);
    if (!sim->prefetch)
        return -1;
    cs_serve(sim);
    sim->simple = sim->defers = 0;
    sim->prefetch->given = *given;
    sim->prefetch->waiting = cs_enlarge(NULL, 0, table_bytes(sim->label_room));
    sim->prefetch->kept = cs_enlarge(NULL, 0, table_bytes(sim->label_room));
    return sim->prefetch->waiting && sim->prefetch->kept ? 0 : -1;
}

void cs_prefetch_free(struct cachesim *sim)
{
    if (!sim->prefetch)
        return;
    cs_give_back(sim->prefetch->waiting, table_bytes(sim->label_room));
    cs_give_back(sim->prefetch->kept, table_bytes(sim->label_room));
    free(sim->prefetch->streams);
    free(sim->prefetch);
}

int cs_prefetch_grow(struct cachesim *sim, uint32_t labels)
{
    uint64_t **tables[] = {&sim->prefetch->waiting, &sim->prefetch->kept};
    for (int i = 0; i < 2; i++) {
        uint64_t *table = cs_enlarge(*tables[i], table_bytes(sim->label_room), table_bytes(labels));
        if (!table)
            return -1;
        *tables[i] = table;
    }
    return 0;
}

void cs_prefetch_reset(struct cachesim *sim)
{
    if (!sim->prefetch)
        return;
    memset(sim->prefetch->waiting, 0, table_bytes(sim->labels));
    sim->prefetch->asked = 0;
}

int cs_prefetch_read(struct cachesim *sim, uint32_t line, struct cachesim_traffic *traffic, uint32_t kept)
{
    struct cs_prefetch *p = sim->prefetch;
    uint32_t label = line >> sim->page_line_bits;
    uint64_t bit = UINT64_C(1) << cs_in_page(sim, line);
    if (p->waiting[label] & bit) { /* it has left unused */
        traffic->prefetched_unused_lines++;
        p->waiting[label] &= ~bit;
    }
    if (!p->at_work)
        return 0;
    traffic->prefetched_lines++;
    p->waiting[label] |= bit;
    p->kept[label] = kept ? p->kept[label] | bit : p->kept[label] & ~bit;
    return 1;
}

/* If a line was prefetched and waited for somebody to ask for it, it was read for that. */
static void used(struct cachesim *sim, uint32_t line, uint32_t store)
{
    struct cs_prefetch *p = sim->prefetch;
    uint32_t label = line >> sim->page_line_bits;
    uint64_t bit = UINT64_C(1) << cs_in_page(sim, line);
    if (!(p->waiting[label] & bit))
        return;
    p->waiting[label] &= ~bit;
    struct cs_line *known = cs_line_of(sim, line);
    cs_read_for(cs_traffic(sim, known), known, store, (p->kept[label] & bit) != 0);
}

/* What is known of a page to the core at work, or the place to note it; NULL if memory is short. */
static struct cs_page_stream *stream_of(struct cachesim *sim, uint32_t label)
{
    struct cs_prefetch *p = sim->prefetch;
    uint32_t each = p->given.streams;
    if (sim->core >= p->cores) {
        uint32_t cores = sim->core + 1;
        struct cs_page_stream *streams = realloc(p->streams, (size_t)cores * each * sizeof *streams);
        if (!streams) {
            sim->error = 1;
            return NULL;
        }
        memset(streams + (size_t)p->cores * each, 0, (size_t)(cores - p->cores) * each * sizeof *streams);
        p->streams = streams;
        p->cores = cores;
    }
    struct cs_page_stream *first = p->streams + (size_t)sim->core * each, *oldest = first;
    for (struct cs_page_stream *one = first; one < first + each; one++) {
        if (one->label == label)
            return one;
        if (one->used < oldest->used)
            oldest = one;
    }
    *oldest = (struct cs_page_stream){.label = label, .last = -1};
    return oldest;
}

static void follow(struct cachesim *sim, uint32_t line)
{
    struct cs_prefetch *p = sim->prefetch;
    struct cs_page_stream *stream = stream_of(sim, line >> sim->page_line_bits);
    if (!stream)
        return;
    int32_t at = (int32_t)cs_in_page(sim, line), step = at - stream->last, before = stream->last;
    stream->used = ++sim->clock;
    stream->last = at;
    if (before < 0 || !step)
        return;
    if (step != stream->step) {
        stream->step = step;
        stream->times = 1;
        stream->ahead = 0;
        return;
    }
    stream->times++;
    stream->ahead -= stream->ahead > 0;
    for (uint32_t i = 0; i < p->given.degree && stream->ahead < p->given.distance; i++) {
        int64_t next = at + (int64_t)(stream->ahead + 1) * step;
        if (next < 0 || next >= INT64_C(1) << sim->page_line_bits)
            return;
        stream->ahead++;
        sim->do_->prefetch(sim, (line & ~((1u << sim->page_line_bits) - 1)) | (uint32_t)next);
    }
}

void cs_prefetch_ask(struct cachesim *sim, uint32_t line, uint32_t store, uint32_t missed)
{
    used(sim, line, store);
    if (sim->prefetch->given.adjacent && missed)
        sim->do_->prefetch(sim, line ^ 1);
    if (sim->prefetch->given.stream)
        follow(sim, line);
}
