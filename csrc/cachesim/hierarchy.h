/*
 * The walk through the levels, compiled for each way of comparing a set's tags, and for each once for any shape and once
 * for each common one (cs_shape). The including file defines TARGET and INLINE (function attributes), the set_ functions
 * (see sets_plain.h), WIDTH, SHAPE and OPERATIONS (the table to define); and PRIVATE_BLOCKS, if the first two levels are not
 * to be taken as having up to 16 ways.
 */
#ifndef PRIVATE_BLOCKS
#define PRIVATE_BLOCKS 1u
#endif

#define NOINLINE TARGET __attribute__((noinline))

#if SHAPE
#define LEVELS 3u
#if SHAPE == 1
#define BLOCKS(k) ((k) < 2 ? PRIVATE_BLOCKS : 1u)
#define ROOM_BITS(k) ((k) < 2 ? 3u + PRIVATE_BLOCKS : 4u)
#else
#define BLOCKS(k) ((k) < 1 ? 1u : sim->level[k].blocks)
#define ROOM_BITS(k) ((k) < 1 ? 4u : sim->level[k].room_bits)
#endif
#define LINE_BITS 6u
#define POLICY(k) ((k) < 2 ? NULL : sim->level[k].policy)
#else
#define LEVELS sim->levels
#define BLOCKS(k) sim->level[k].blocks
#define ROOM_BITS(k) sim->level[k].room_bits
#define LINE_BITS sim->line_bits
#define POLICY(k) sim->level[k].policy
#endif
/* True LRU: what was asked for last is in front, and asking for it again changes nothing. */
#define IN_ORDER(k) (SHAPE && (k) < 2 ? 1 : !sim->level[k].policy && !sim->level[k].selects)
#define SIZE (1u << LINE_BITS)
#define PAGE_LINE_BITS (CS_PAGE_BITS - LINE_BITS)
#define IN_PAGE(line) ((uint32_t)(line) & ((1u << PAGE_LINE_BITS) - 1))

/* As cs_place and cs_line_of, with what the shape fixes as a constant. */
static INLINE size_t place_of(const struct cachesim *sim, uint32_t line)
{
    return (size_t)line << (LINE_BITS - 6) >> sim->part_bits;
}

static INLINE struct cs_line *line_of(const struct cachesim *sim, uint32_t line)
{
    return &sim->lines[place_of(sim, line)];
}

/* The set of a line in a level. */
static INLINE uint32_t *tags_of(const struct cachesim *sim, uint32_t k, uint32_t line)
{
    const struct cs_level *level = &sim->level[k];
    const struct cs_frame *frame = &sim->frames[line >> PAGE_LINE_BITS];
    uint32_t set;
    if (SHAPE && k == 0)
        set = line & level->set_mask; /* bits within the page */
    else if (SHAPE && k == 1)
        set = (frame->line | IN_PAGE(line)) & level->set_mask;
    else if (SHAPE)
        set = frame->last_set + IN_PAGE(line);
    else
        set = cs_set(level, frame->line | IN_PAGE(line));
    return level->tags + ((size_t)(set >> sim->part_bits) << ROOM_BITS(k));
}

/* A line that was found in a set has been used; tag is what stands for it from now on. */
static INLINE void set_used(struct cachesim *sim, uint32_t k, uint32_t *tags, uint32_t way, uint32_t tag)
{
    if (__builtin_expect(POLICY(k) != NULL, 0)) {
        tags[way] = tag;
        POLICY(k)->found(&sim->level[k], tags, way);
    } else {
        set_front(tags, BLOCKS(k), way, tag);
    }
}

/* A line that does not become the most recent one, in the last way or the first empty one. */
static NOINLINE uint32_t set_append(uint32_t *tags, uint32_t last, uint32_t tag)
{
    uint32_t old = tags[last];
    while (last && !tags[last - 1])
        last--;
    tags[last] = tag;
    return old;
}

/* A set takes a line in; returns what has to leave, or 0. */
static INLINE uint32_t set_takes(struct cachesim *sim, uint32_t k, uint32_t *tags, uint32_t tag)
{
    struct cs_level *level = &sim->level[k];
    if (__builtin_expect(POLICY(k) != NULL, 0)) {
        uint32_t empty = (uint32_t)set_find(tags, BLOCKS(k), 0); /* may be beyond the ways, and -1 is */
        return POLICY(k)->insert(level, tags, tag, empty < level->ways ? empty : level->ways);
    }
    if ((!SHAPE || k > 1) && __builtin_expect(level->selects, 0) && !cs_takes_near(level, tags))
        return set_append(tags, level->last, tag);
    return set_insert(tags, BLOCKS(k), level, tag);
}

static INLINE void set_gives_up(struct cachesim *sim, uint32_t k, uint32_t *tags, uint32_t way)
{
    (void)sim; /* not needed where the shape is fixed */
    if (__builtin_expect(POLICY(k) != NULL, 0))
        cs_policy_remove(&sim->level[k], tags, way);
    else
        set_remove(tags, BLOCKS(k), way);
}

/* Takes a line out of one level; returns CS_DIRTY if that copy was dirty. */
static INLINE uint32_t remove_from(struct cachesim *sim, uint32_t k, uint32_t line)
{
    uint32_t *tags = tags_of(sim, k, line);
    int way = set_find(tags, BLOCKS(k), line);
    if (way < 0)
        return 0;
    uint32_t dirty = tags[way] & CS_DIRTY;
    set_gives_up(sim, k, tags, (uint32_t)way);
    sim->removals += k == 0;
    return dirty;
}

/* Takes a line out of level 1 to k-1 of the core at work; returns CS_DIRTY if a copy was dirty. */
static INLINE uint32_t remove_above_here(struct cachesim *sim, uint32_t k, uint32_t line)
{
    uint32_t dirty = 0;
    for (uint32_t j = 0; j < k; j++) {
        dirty |= remove_from(sim, j, line);
        if (dirty)
            sim->level[j].down++;
    }
    return dirty;
}

/* The same of all cores that may have it: level k is shared, the private ones lie above. */
static NOINLINE uint32_t remove_above_everywhere(struct cachesim *sim, uint32_t k, uint32_t line)
{
    const struct cs_page *page = cs_page_of(sim, line);
    uint32_t dirty = 0, at_work = sim->core;
    for (uint32_t core = 0; core < sim->cores; core++)
        if (cs_asked_by(page, core)) {
            cs_core(sim, core);
            dirty |= remove_above_here(sim, k, line);
        }
    cs_core(sim, at_work);
    return dirty;
}

/* Takes a line out of every level above k; returns CS_DIRTY if a copy was dirty, whose data then travelled down to k. */
static INLINE uint32_t remove_above(struct cachesim *sim, uint32_t k, uint32_t line)
{
    if (__builtin_expect(cs_others(sim, line), 0) && k >= sim->private_levels)
        return remove_above_everywhere(sim, k, line);
    return remove_above_here(sim, k, line);
}

/* The last level does not have a line. */
static INLINE void from_memory(struct cachesim *sim, struct cs_line *known, uint32_t line, uint32_t store, uint32_t kept)
{
    if (__builtin_expect(cs_others(sim, line), 0) && cs_held_elsewhere(sim, line))
        sim->transfers++; /* a core that has it gives it */
    else
        cs_memory_read(sim, known, line, store, kept);
}

/* There is no fifth level. */
static INLINE void put_4(struct cachesim *sim, uint32_t tag)
{
    cs_memory_write(sim, tag & CS_LINE);
}

static INLINE uint32_t fetch_4(struct cachesim *sim, uint32_t line, uint32_t store)
{
    cs_memory_read(sim, line_of(sim, line), line, store, 0);
    return 0;
}

static INLINE void admit_4(struct cachesim *sim, uint32_t line)
{
    (void)sim, (void)line;
}

static INLINE int defers(const struct cachesim *sim)
{
    return SHAPE && sim->defers;
}

static NOINLINE void count_writes(struct cachesim *sim, uint32_t count)
{
    struct cs_waiting *w = &sim->waiting;
    for (uint32_t i = 0; i < count; i++)
        cs_memory_write(sim, w->written[i]);
    w->writes -= count;
    memmove(w->written, w->written + count, w->writes * sizeof *w->written);
}

/* The last level gives up a dirty line, see struct cs_waiting. */
static INLINE void write_later(struct cachesim *sim, uint32_t line)
{
    if (!defers(sim)) {
        cs_memory_write(sim, line);
        return;
    }
    if (sim->waiting.writes == CS_WAITING)
        count_writes(sim, CS_WAITING / 2);
    sim->waiting.written[sim->waiting.writes++] = line;
    __builtin_prefetch(cs_page_of(sim, line), 1);
}

#define K 3
#include "level.h"
#define K 2
#include "level.h"
#include "waiting.h"
#define K 1
#include "level.h"
#define K 0
#include "level.h"

/* A line in level 1 becomes dirty. */
static NOINLINE void becomes_dirty(struct cachesim *sim, uint32_t line)
{
    if (cs_others(sim, line))
        cs_snoop(sim, line, 1);
    if (sim->origins)
        cs_origin_dirtied(sim, line);
}

/* Level 1 takes a line in, and perhaps another has to leave. */
static INLINE void takes_in(struct cachesim *sim, uint32_t *tags, uint32_t tag)
{
    uint32_t victim = set_takes(sim, 0, tags, tag);
    if (victim)
        evicted_0(sim, victim);
}

/* The levels take in a line that a store missed, see cachesim_set_evasion. */
static NOINLINE void admit(struct cachesim *sim, uint32_t line)
{
    admit_1(sim, line);
    takes_in(sim, tags_of(sim, 0, line), line | CS_DIRTY);
    sim->removals++; /* level 1 changes and no miss is counted */
}

/* A store that misses level 1 opens a tracker, unless a cache has the line; returns whether it did. */
static NOINLINE int tracks(struct cachesim *sim, uint32_t line)
{
    for (uint32_t k = 1; k < LEVELS; k++)
        if (set_find(tags_of(sim, k, line), BLOCKS(k), line) >= 0)
            return 0;
    for (uint32_t k = 1; k < LEVELS; k++) {
        sim->level[k].misses++;
        if (sim->level[k].duellers)
            cs_duel_missed(&sim->level[k], tags_of(sim, k, line));
    }
    cs_evade_open(sim, line, cs_recency_ask(sim, line_of(sim, line)));
    return 1;
}

/* A line that level 1 lacks, where somebody may have to be told. */
static NOINLINE void missed_watched(struct cachesim *sim, uint32_t *tags, uint32_t line, uint32_t store)
{
    if (__builtin_expect(sim->trackers, 0) && cs_evade_meets(sim, line, store))
        return;
    sim->level[0].misses++;
    if (!SHAPE && __builtin_expect(sim->level[0].duellers, 0))
        cs_duel_missed(&sim->level[0], tags);
    cs_name_core(sim, line);
    if (__builtin_expect(sim->combiners, 0))
        cs_combine_close_line(sim, line);
    if (__builtin_expect(cs_others(sim, line), 0))
        cs_snoop(sim, line, store);
    if (__builtin_expect(sim->evades, 0) && store && tracks(sim, line))
        return;
    uint64_t missed_before = sim->level[1].misses;
    uint32_t dirty = fetch_1(sim, line, store);
    if (__builtin_expect(sim->origins != NULL, 0) && store && !dirty)
        cs_origin_dirtied(sim, line);
    takes_in(sim, tags, line | dirty | (store ? CS_DIRTY : 0));
    if (__builtin_expect(sim->prefetch != NULL, 0))
        cs_prefetch_ask(sim, line, store, sim->level[1].misses != missed_before);
}

static NOINLINE void evicted_call(struct cachesim *sim, uint32_t tag)
{
    evicted_0(sim, tag);
}

/* Level 2 lacks a line, too. */
static NOINLINE void fetch_further(struct cachesim *sim, uint32_t *below, uint32_t line, uint32_t store)
{
    sim->level[1].misses++;
    uint32_t dirty = fetch_later(sim, line, store);
    insert_1(sim, below, line | dirty);
}

/* A call, as it is asked for in many places. What level 2 has is the common case, and does without the rest. */
static NOINLINE void missed(struct cachesim *sim, uint32_t *tags, uint32_t line, uint32_t store)
{
    if (!SHAPE || !sim->simple || sim->combiners) {
        missed_watched(sim, tags, line, store);
        return;
    }
    uint32_t *below = tags_of(sim, 1, line);
    int way = set_find(below, BLOCKS(1), line);
    sim->level[0].misses++;
    if (way < 0)
        fetch_further(sim, below, line, store);
    else
        set_front(below, BLOCKS(1), (uint32_t)way, below[way]);
    uint32_t victim = set_insert(tags, BLOCKS(0), &sim->level[0], line | (store ? CS_DIRTY : 0));
    if (victim & CS_DIRTY)
        evicted_call(sim, victim);
}

static NOINLINE void put_down(struct cachesim *sim, uint32_t tag)
{
    switch (sim->private_levels < LEVELS ? sim->private_levels : CS_MAX_LEVELS) {
    case 1: put_1(sim, tag); break;
    case 2: put_2(sim, tag); break;
    case 3: put_3(sim, tag); break;
    default: put_4(sim, tag);
    }
}

/* The core asks for a line, to load, to store or to prefetch it. Level 1 keeps its lines in order of recency, so what is
   asked for again at once is found in front. */
static INLINE void ask(struct cachesim *sim, uint32_t *tags, uint32_t line, uint32_t store)
{
    uint32_t dirty = store ? CS_DIRTY : 0, tag = tags[0];
    if ((tag & CS_LINE) == line && !POLICY(0)) {
        if (dirty & ~tag) {
            if (__builtin_expect(sim->watching, 0))
                becomes_dirty(sim, line);
            tags[0] = tag | CS_DIRTY;
        }
        return;
    }
    int way = set_find(tags, BLOCKS(0), line);
    if (way < 0) {
        missed(sim, tags, line, store);
        return;
    }
    tag = tags[way];
    if (__builtin_expect(sim->watching, 0) && dirty & ~tag)
        becomes_dirty(sim, line);
    set_used(sim, 0, tags, (uint32_t)way, tag | dirty);
}

/* What the program touched: lines loaded before they were stored to, and lines stored to. */
static INLINE void note_line(struct cachesim *sim, uint32_t line, uint32_t kind)
{
    struct cs_page *page = &sim->pages[line >> PAGE_LINE_BITS];
    uint64_t bit = UINT64_C(1) << IN_PAGE(line);
    if (kind == CS_LOAD || kind == CS_UPDATE)
        page->loaded |= bit & ~page->stored;
    if (kind == CS_STORE || kind == CS_UPDATE)
        page->stored |= bit;
}

/*
 * Notes bytes of a line of 64; returns all that were touched of it. A load of a line that was touched before says nothing new
 * of the line.
 */
static INLINE uint64_t note_piece(struct cachesim *sim, uint32_t line, uint64_t bits, uint32_t kind)
{
    uint64_t *noted = &sim->noted[place_of(sim, line)].touched, touched = *noted;
    if (kind != CS_LOAD || !touched)
        note_line(sim, line, kind);
    if (bits & ~touched)
        *noted = touched |= bits;
    return touched;
}

static INLINE uint64_t bits_of(uint64_t address, uint32_t bytes) /* within a chunk */
{
    return UINT64_MAX >> (64 - bytes) << (address & 63);
}

/* An access by load, store, update or prefetch that stays within a line, and in chunks of 64 bytes. */
static INLINE void access_line(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    uint32_t label = cs_label(sim, address >> CS_PAGE_BITS);
    uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    if (__builtin_expect(sim->evades, 0)) {
        sim->offset = address & (SIZE - 1);
        sim->size = bytes;
    }
    if (kind != CS_PREFETCH) {
        if (LINE_BITS == 6) {
            note_piece(sim, line, bits_of(address, bytes), kind);
        } else {
            note_line(sim, line, kind);
            struct cs_line *noted = sim->noted + cs_chunk(sim, label, address >> 6 & 63);
            uint64_t at = address, end = address + bytes;
            for (; at < end; noted++) {
                uint64_t next = (at | 63) + 1, stop = next < end ? next : end;
                noted->touched |= bits_of(at, (uint32_t)(stop - at));
                at = stop;
            }
        }
    }
    uint32_t *tags = tags_of(sim, 0, line);
    sim->asked++;
    ask(sim, tags, line, kind == CS_STORE);
    if (kind == CS_UPDATE) {
        sim->asked++;
        ask(sim, tags, line, 1);
    }
}

/* Takes a line out of every level; returns 1 if a copy was dirty: if write_back was asked, memory has been written. */
static NOINLINE uint32_t remove_everywhere(struct cachesim *sim, uint32_t line, uint32_t write_back)
{
    uint32_t dirty = 0, at_work = sim->core;
    serve_all(sim);
    for (uint32_t core = 0; core < sim->cores; core++) {
        if (sim->cores > 1)
            cs_core(sim, core);
        for (uint32_t k = 0; k < sim->private_levels; k++) {
            dirty |= remove_from(sim, k, line);
            sim->level[k].down += dirty && write_back;
        }
    }
    if (sim->cores > 1)
        cs_core(sim, at_work);
    for (uint32_t k = sim->private_levels; k < LEVELS; k++) {
        dirty |= remove_from(sim, k, line);
        sim->level[k].down += dirty && write_back;
    }
    cs_recency_drop(sim, line);
    if (dirty && write_back)
        cs_memory_write(sim, line);
    return dirty != 0;
}

static NOINLINE void access_odd(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    if (kind == CS_FENCE)
        cs_combine_drain(sim);
    if (!bytes || kind >= CS_FENCE)
        return;
    uint64_t end = address + bytes;
    while (address < end) {
        uint64_t next = (address | (SIZE - 1)) + 1;
        uint32_t piece = (uint32_t)((next < end ? next : end) - address);
        if (cs_foreign(sim, address >> LINE_BITS)) {
            address = next;
            continue;
        }
        if (kind == CS_FLUSH) {
            uint32_t line = cs_label(sim, address >> CS_PAGE_BITS) << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
            if (sim->trackers)
                cs_evade_close_line(sim, line);
            if (sim->combiners)
                cs_combine_close_line(sim, line);
            remove_everywhere(sim, line, 1);
        } else if (kind == CS_NON_TEMPORAL) {
            cs_combine(sim, address, piece);
        } else {
            access_line(sim, address, piece, kind);
        }
        address = next;
    }
}

static NOINLINE void access_any(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    int ordinary = kind < CS_NON_TEMPORAL || kind == CS_PREFETCH || kind == CS_UPDATE;
    if (ordinary && bytes && (address & (SIZE - 1)) + bytes <= SIZE) {
        if (!cs_foreign(sim, address >> LINE_BITS))
            access_line(sim, address, bytes, kind);
    } else {
        access_odd(sim, address, bytes, kind);
    }
}

#include "pieces.h"
#include "loop.h"

const struct cs_operations OPERATIONS = {
    WIDTH, access_any, pieces, loop, remove_everywhere, put_down, prefetch, admit, serve_all};
