/* Several cores: private levels by core, lines that go from one to another, and false sharing. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_SHARED (1u << 20) /* lines that are told apart; the moves of further ones are not counted */

static size_t line_bytes(const struct cachesim *sim, uint32_t labels)
{
    return cs_chunk(sim, labels, 0) * sizeof(struct cs_line);
}

static void free_core(struct cachesim *sim, struct cs_core *core)
{
    for (uint32_t k = 0; k < sim->private_levels; k++) {
        free(core->tags[k]);
        free(core->state[k]);
    }
    cs_give_back(core->lines, line_bytes(sim, sim->label_room));
}

/* Appends a core with empty caches; 0, or -1 if memory is short. */
static int add_core(struct cachesim *sim)
{
    struct cs_core *cores = realloc(sim->of_core, (sim->cores + 1) * sizeof *cores);
    if (!cores)
        return -1;
    sim->of_core = cores;
    struct cs_core *core = &cores[sim->cores];
    *core = (struct cs_core){0};
    int failed = 0;
    for (uint32_t k = 0; k < sim->private_levels; k++)
        failed |= cs_policy_allocate(&sim->level[k], &core->tags[k], &core->state[k]);
    core->lines = cs_enlarge(NULL, 0, line_bytes(sim, sim->label_room));
    if (failed || !core->lines) {
        free_core(sim, core);
        return -1;
    }
    sim->cores++;
    return 0;
}

static void go_to(struct cachesim *sim, uint32_t core)
{
    for (uint32_t k = 0; k < sim->private_levels; k++) {
        sim->level[k].tags = sim->of_core[core].tags[k];
        sim->level[k].state = sim->of_core[core].state[k];
    }
    sim->lines = sim->of_core[0].lines;
    sim->noted = sim->of_core[core].lines;
    sim->core = core;
    sim->core_bit = 1u << (core < 31 ? core : 31);
}

int cs_cores_init(struct cachesim *sim)
{
    if (add_core(sim))
        return -1;
    go_to(sim, 0);
    return 0;
}

void cs_cores_free(struct cachesim *sim)
{
    for (uint32_t core = 0; core < sim->cores; core++)
        free_core(sim, &sim->of_core[core]);
    free(sim->of_core);
    free(sim->shared);
}

int cs_cores_grow(struct cachesim *sim, uint32_t labels)
{
    for (uint32_t core = 0; core < sim->cores; core++) {
        struct cs_line *lines = cs_enlarge(sim->of_core[core].lines, line_bytes(sim, sim->label_room), line_bytes(sim, labels));
        if (!lines)
            return -1;
        sim->of_core[core].lines = lines;
    }
    if (sim->cores)
        go_to(sim, sim->core);
    return 0;
}

/* As long as there was one core, its pages were not told that it asked. */
static void name_the_first(struct cachesim *sim)
{
    for (uint32_t label = 1; label < sim->labels; label++)
        sim->pages[label].askers |= sim->frames[label].line != 0;
}

int cs_core(struct cachesim *sim, uint32_t core)
{
    if (core && sim->cores == 1)
        name_the_first(sim);
    while (core >= sim->cores)
        if (add_core(sim)) {
            sim->error = 1;
            return -1;
        }
    if (sim->cores > 1) {
        cs_serve(sim);
        sim->watching = 1;
        sim->simple = sim->defers = 0;
        for (uint32_t k = 0; k < sim->levels; k++)
            sim->level[k].apart = 0;
    }
    go_to(sim, core);
    return 0;
}

static uint32_t *find(const struct cachesim *sim, uint32_t core, uint32_t k, uint32_t line)
{
    const struct cs_level *level = &sim->level[k];
    uint32_t *tags = sim->of_core[core].tags[k] + ((size_t)(cs_set(level, cs_physical(sim, line)) >> sim->part_bits) << level->room_bits);
    for (uint32_t way = 0; way < level->ways && (tags[way] || level->policy); way++)
        if ((tags[way] & CS_LINE) == line)
            return &tags[way];
    return NULL;
}

int cs_held_elsewhere(const struct cachesim *sim, uint32_t line)
{
    const struct cs_page *page = cs_page_of(sim, line);
    for (uint32_t core = 0; core < sim->cores; core++)
        if (core != sim->core && cs_asked_by(page, core))
            for (uint32_t k = 0; k < sim->private_levels; k++)
                if (find(sim, core, k, line))
                    return 1;
    return 0;
}

/* Takes a line out of a private level of any core. */
static void take_out(struct cachesim *sim, uint32_t core, uint32_t k, uint32_t *hole)
{
    struct cs_level level = sim->level[k];
    level.tags = sim->of_core[core].tags[k];
    level.state = sim->of_core[core].state[k];
    uint32_t *tags = level.tags + ((size_t)(hole - level.tags) >> level.room_bits << level.room_bits);
    if (level.policy) {
        cs_policy_remove(&level, tags, (uint32_t)(hole - tags));
        return;
    }
    uint32_t *end = tags + ((size_t)1 << level.room_bits);
    memmove(hole, hole + 1, (size_t)(end - hole - 1) * sizeof *hole);
    end[-1] = 0;
}

static struct cs_shared *place_of(const struct cachesim *sim, uint32_t line)
{
    uint32_t at = line * 0x9e3779b1u & (sim->shared_room - 1);
    while (sim->shared[at].line && sim->shared[at].line != line)
        at = (at + 1) & (sim->shared_room - 1);
    return &sim->shared[at];
}

/* A line was taken from a core that held it. */
static void note_move(struct cachesim *sim, uint32_t line)
{
    if (2 * sim->shared_count >= sim->shared_room && sim->shared_count < MAX_SHARED) {
        struct cs_shared *old = sim->shared;
        uint32_t old_room = sim->shared_room, room = old_room ? 2 * old_room : 256;
        struct cs_shared *shared = calloc(room, sizeof *shared);
        if (shared) {
            sim->shared = shared;
            sim->shared_room = room;
            for (uint32_t i = 0; i < old_room; i++)
                if (old[i].line)
                    *place_of(sim, old[i].line) = old[i];
            free(old);
        } else if (!old) {
            sim->error = 1;
            return;
        }
    }
    struct cs_shared *place = place_of(sim, line);
    if (!place->line) {
        if (sim->shared_count >= MAX_SHARED)
            return;
        sim->shared_count++;
        place->line = line;
    }
    place->moves++;
}

/*
 * What the other cores' copies have to become. Modified data, and lines of which the first shared level would get the
 * victims, are handed down to that level, where the core at work then finds them.
 */
void cs_snoop(struct cachesim *sim, uint32_t line, uint32_t store)
{
    const struct cs_page *page = cs_page_of(sim, line);
    uint32_t tag = 0;
    int moved = 0;
    for (uint32_t core = 0; core < sim->cores; core++) {
        if (core == sim->core || !cs_asked_by(page, core))
            continue;
        uint32_t found = 0;
        for (uint32_t k = 0; k < sim->private_levels; k++) {
            uint32_t *at = find(sim, core, k, line);
            if (!at)
                continue;
            found |= *at;
            if (store)
                take_out(sim, core, k, at);
            else
                *at &= CS_LINE;
        }
        moved |= found && (store || found & CS_DIRTY);
        tag |= found;
    }
    if (!moved)
        return;
    note_move(sim, line);
    int victims = sim->private_levels < sim->levels && sim->level[sim->private_levels].fill == CS_VICTIM;
    if (tag & CS_DIRTY || (store && victims)) {
        sim->level[sim->private_levels - 1].down++;
        sim->do_->put(sim, tag);
    }
}

void cs_cores_reset(struct cachesim *sim)
{
    if (sim->shared)
        memset(sim->shared, 0, sim->shared_room * sizeof *sim->shared);
    sim->shared_count = 0;
}

/* Cores that touched a line, and whether no byte of it was touched by two. */
static void look_at(const struct cachesim *sim, uint32_t line, struct cachesim_shared_line *shared)
{
    uint32_t chunks = 1u << (sim->line_bits - 6);
    uint64_t touched[4] = {0};
    shared->apart = 1;
    for (uint32_t core = 0; core < sim->cores; core++) {
        const struct cs_line *of = sim->of_core[core].lines + cs_place(sim, line);
        int any = 0;
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            shared->apart &= !(touched[chunk] & of[chunk].touched);
            touched[chunk] |= of[chunk].touched;
            any |= of[chunk].touched != 0;
        }
        shared->cores += (uint32_t)any;
    }
    shared->apart &= shared->cores > 1;
}

uint32_t cachesim_shared_lines(struct cachesim *sim, struct cachesim_shared_line *lines, uint32_t room)
{
    uint32_t n = 0, all = 0;
    for (; sim; sim = sim->next) {
        all += sim->shared_count;
        for (uint32_t i = 0; i < sim->shared_room && n < room; i++) {
            const struct cs_shared *place = &sim->shared[i];
            if (!place->line)
                continue;
            uint64_t address = cs_address_of(sim, place->line);
            lines[n] = (struct cachesim_shared_line){.address = address,
                                                     .array = cs_array_of(sim, address, address + (UINT64_C(1) << sim->line_bits)),
                                                     .moves = place->moves};
            look_at(sim, place->line, &lines[n++]);
        }
    }
    return all;
}
