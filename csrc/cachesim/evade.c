/* Write-allocate evasion: lines that a store missed wait here until they are whole, or have to be read after all. */
#include "internal.h"

static struct cs_tracker *tracker_of(const struct cachesim *sim, uint32_t core, uint32_t line)
{
    for (uint32_t i = 0; i < CS_TRACKERS; i++)
        if (sim->of_core[core].tracker[i].line == line)
            return &sim->of_core[core].tracker[i];
    return NULL;
}

/* Closes a tracker of the core at work; the line has been written whole, or what is missing is read. */
static void close_tracker(struct cachesim *sim, struct cs_tracker *tracker, int whole)
{
    uint32_t line = tracker->line, origin = sim->origin;
    struct cs_line *known = cs_line_of(sim, line);
    tracker->line = 0;
    sim->trackers--;
    if (whole && (sim->evades >= 1u << 16 || cs_drawn(&sim->random) >> 16 < sim->evades)) {
        sim->evaded_lines++;
        cs_traffic(sim, known)->evaded_lines++;
    } else {
        sim->origin = tracker->origin;
        cs_memory_read(sim, known, line, 1, tracker->kept);
        sim->origin = origin;
    }
    sim->do_->admit(sim, line);
}

/* The store at work writes to a tracked line. */
static void add_bytes(struct cachesim *sim, struct cs_tracker *tracker)
{
    uint32_t first = sim->offset, end = first + sim->size;
    int whole = 1;
    for (uint32_t word = 0; word < 1u << (sim->line_bits - 6); word++) {
        uint32_t low = word * 64, from = first > low ? first : low, to = end < low + 64 ? end : low + 64;
        if (from < to)
            tracker->mask[word] |= UINT64_MAX >> (64 - (to - from)) << (from - low);
        whole &= tracker->mask[word] == UINT64_MAX;
    }
    tracker->used = ++sim->clock;
    if (whole)
        close_tracker(sim, tracker, 1);
}

static void close_of_core(struct cachesim *sim, uint32_t core, uint32_t line)
{
    struct cs_tracker *tracker = tracker_of(sim, core, line);
    uint32_t at_work = sim->core;
    if (!tracker)
        return;
    if (core != at_work)
        cs_core(sim, core);
    close_tracker(sim, tracker, 0);
    if (core != at_work)
        cs_core(sim, at_work);
}

int cs_evade_meets(struct cachesim *sim, uint32_t line, uint32_t store)
{
    struct cs_tracker *own = tracker_of(sim, sim->core, line);
    if (!own) {
        cs_evade_close_line(sim, line);
        return 0;
    }
    if (store)
        add_bytes(sim, own);
    else
        close_tracker(sim, own, 0);
    return 1;
}

int cs_evade_has(const struct cachesim *sim, uint32_t line)
{
    for (uint32_t core = 0; core < sim->cores; core++)
        if (tracker_of(sim, core, line))
            return 1;
    return 0;
}

void cs_evade_open(struct cachesim *sim, uint32_t line, uint32_t kept)
{
    struct cs_tracker *trackers = sim->of_core[sim->core].tracker, *chosen = trackers;
    for (struct cs_tracker *one = trackers + 1; one < trackers + CS_TRACKERS; one++)
        if (chosen->line && (!one->line || one->used < chosen->used))
            chosen = one;
    if (chosen->line)
        close_tracker(sim, chosen, 0);
    *chosen = (struct cs_tracker){.line = line, .kept = kept, .origin = sim->origin};
    sim->trackers++;
    if (sim->origins)
        cs_origin_dirtied(sim, line);
    add_bytes(sim, chosen);
}

void cs_evade_close_line(struct cachesim *sim, uint32_t line)
{
    for (uint32_t core = 0; core < sim->cores; core++)
        close_of_core(sim, core, line);
}

/* Of a core, the line not stored to for longest; 0 if none is open. */
static uint32_t oldest_of(const struct cs_core *core)
{
    const struct cs_tracker *oldest = NULL;
    for (uint32_t i = 0; i < CS_TRACKERS; i++)
        if (core->tracker[i].line && (!oldest || core->tracker[i].used < oldest->used))
            oldest = &core->tracker[i];
    return oldest ? oldest->line : 0;
}

void cs_evade_drain(struct cachesim *sim)
{
    for (uint32_t core = 0; sim->trackers && core < sim->cores; core++)
        for (uint32_t line; (line = oldest_of(&sim->of_core[core]));)
            close_of_core(sim, core, line);
}
