/*
 * The walk through the levels, compiled for each way of comparing a set's tags, and for each once for the common shape and
 * once for any (cs_is_common). The including file defines TARGET and INLINE (function attributes), the set_ functions (see
 * sets_plain.h), WIDTH, COMMON (0 or 1) and OPERATIONS (the table to define).
 */

#define NOINLINE TARGET __attribute__((noinline))

#if COMMON
#define LEVELS 3u
#define BLOCKS(k) 1u
#define ROOM_BITS(k) 4u
#define LINE_BITS 6u
#define SET(k, line) ((k) < 2 ? (line) & sim->level[k].set_mask : cs_set(&sim->level[k], line))
#define SET_IN_PAGE(k, page, line) ((k) < 2 ? SET(k, line) : (page)->last_set + IN_PAGE(line))
#define FRONT_OFF UINT64_C(0)
#else
#define LEVELS sim->levels
#define BLOCKS(k) sim->level[k].blocks
#define ROOM_BITS(k) sim->level[k].room_bits
#define LINE_BITS sim->line_bits
#define SET(k, line) cs_set(&sim->level[k], line)
#define SET_IN_PAGE(k, page, line) SET(k, line)
#define FRONT_OFF sim->front_off
#endif
#define SIZE (1u << LINE_BITS)
#define PAGE_LINE_BITS (CS_PAGE_BITS - LINE_BITS)
#define IN_PAGE(line) ((uint32_t)(line) & ((1u << PAGE_LINE_BITS) - 1))

static INLINE uint32_t *tags_of(const struct cachesim *sim, uint32_t k, uint32_t line)
{
    return sim->level[k].tags + ((size_t)SET(k, line) << ROOM_BITS(k));
}

/* Takes a line out of one level; returns CS_DIRTY if that copy was dirty. */
static INLINE uint32_t remove_from(struct cachesim *sim, uint32_t k, uint32_t line)
{
    struct cs_level *level = &sim->level[k];
    uint32_t *tags = tags_of(sim, k, line);
    int way = set_find(tags, BLOCKS(k), line);
    if (way < 0)
        return 0;
    uint32_t dirty = tags[way] & CS_DIRTY;
    if (k) {
        set_remove(tags, BLOCKS(k), (uint32_t)way);
    } else {
        size_t slot = (size_t)(tags - level->tags) + (uint32_t)way;
        sim->removals += sim->front.stamp[slot] >= sim->watch;
        tags[way] = 0;
        sim->front.stamp[slot] = 0;
        sim->front.key[slot] = CS_NONE;
        sim->order[slot >> ROOM_BITS(0)] = CS_NONE; /* an order does not say which way is empty */
    }
    return dirty;
}

/* Takes a line out of level 1 to k-1; returns CS_DIRTY if a copy was dirty, whose data then travelled down to level k. */
static INLINE uint32_t remove_above(struct cachesim *sim, uint32_t k, uint32_t line)
{
    uint32_t dirty = 0;
    for (uint32_t j = 0; j < k; j++) {
        dirty |= remove_from(sim, j, line);
        if (dirty)
            sim->level[j].down++;
    }
    return dirty;
}

/* There is no fifth level. */
static INLINE void put_4(struct cachesim *sim, uint32_t tag)
{
    cs_memory_write(sim, tag & CS_LINE);
}

static INLINE uint32_t fetch_4(struct cachesim *sim, uint32_t line, struct cs_page *page, uint32_t store)
{
    cs_memory_read(sim, page, IN_PAGE(line), store);
    return 0;
}

#define K 3
#include "level.h"
#define K 2
#include "level.h"
#define K 1
#include "level.h"
#define K 0
#include "level.h"

/* What touch does about the lines of level 1 besides making room: */
enum {
    KNOWN,  /* lets the front know the line: it will be used again, one by one */
    QUIET,  /* does not */
    ORDERED /* does not, and chooses the oldest line by the set's order in sim->order */
};

static NOINLINE void note_all(struct cachesim *sim);
static INLINE uint32_t order_next(struct cachesim *sim, uint32_t set);
static INLINE void order_used(struct cachesim *sim, uint32_t set, uint32_t way);

/*
 * One access by load, store or prefetch, of one line, at a time later than any before; returns the line's slot. The front
 * need not be asked before. `line` is the physical one.
 */
static INLINE uint32_t touch(struct cachesim *sim, struct cs_page *page, uint32_t line, uint64_t virtual_line,
                             uint32_t kind, uint64_t time, const int mode)
{
    uint64_t bit = UINT64_C(1) << IN_PAGE(line);
    if (kind == CS_STORE)
        page->stored |= bit;
    else if (kind == CS_LOAD && !(page->stored & bit))
        page->loaded |= bit;

    struct cs_level *level = &sim->level[0];
    uint32_t set = SET(0, line), first = set << ROOM_BITS(0), *tags = level->tags + first;
    uint64_t *stamps = sim->front.stamp + first;
    uint32_t tag = kind == CS_STORE ? line | CS_DIRTY : line, before, victim = 0, way;
    int found = set_find(tags, BLOCKS(0), line);
    if (found >= 0) {
        way = (uint32_t)found;
        stamps[way] = time;
        before = tags[way];
        tag |= before;
        tags[way] = tag;
        if (mode == ORDERED)
            order_used(sim, set, way);
    } else {
        level->misses++;
        if (sim->combiners)
            cs_combine_close_line(sim, virtual_line);
        before = fetch_1(sim, line, page, kind == CS_STORE);
        tag |= before;
        if (mode == ORDERED) {
            way = order_next(sim, set);
            victim = tags[way];
            stamps[way] = time;
            set_tag(tags, way, tag);
        } else {
            if (__builtin_expect(set_oldest(stamps, BLOCKS(0), &way) >= sim->watch, 0)) {
                note_all(sim);
                sim->removals += set_oldest(stamps, BLOCKS(0), &way) >= sim->watch;
            }
            victim = tags[way];
            set_tag(tags, way, tag);
            set_stamp(stamps, way, time);
        }
        if (mode != KNOWN)
            sim->front.key[first + way] = CS_NONE;
    }
    if (__builtin_expect(sim->origins != NULL, 0) && kind == CS_STORE && !(before & CS_DIRTY))
        cs_origin_dirtied(sim, page, IN_PAGE(line));
    if (mode == KNOWN) {
        uint64_t key = virtual_line << 1;
        if (tag & CS_DIRTY)
            key |= (page->stored & bit) != 0;
        if (kind == CS_PREFETCH && !((page->loaded | page->stored) & bit))
            key = CS_NONE; /* the program itself has not touched the line yet */
        sim->front.key[first + way] = key | FRONT_OFF;
        sim->front.guess[cachesim_guess(virtual_line)] = (uint16_t)(first + way);
    }
    if (victim)
        evicted_0(sim, victim);
    return first + way;
}

/* Takes a line out of every level; returns 1 if a copy was dirty: if write_back was asked, memory has been written. */
static NOINLINE uint32_t remove_everywhere(struct cachesim *sim, uint32_t line, uint32_t write_back)
{
    uint32_t dirty = 0;
    for (uint32_t k = 0; k < LEVELS; k++) {
        dirty |= remove_from(sim, k, line);
        sim->level[k].down += dirty && write_back;
    }
    if (dirty && write_back)
        cs_memory_write(sim, line);
    return dirty != 0;
}

static NOINLINE void access_line(struct cachesim *sim, uint64_t virtual_line, uint32_t kind)
{
    struct cs_page *page = cs_page(sim, virtual_line);
    uint32_t line = page->line | IN_PAGE(virtual_line);
    for (uint32_t times = kind == CS_UPDATE ? 2 : 1; times--;)
        touch(sim, page, line, virtual_line, kind != CS_UPDATE ? kind : times ? CS_LOAD : CS_STORE,
              ++sim->front.clock, KNOWN);
}

static NOINLINE void access_any(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    if (kind == CS_FENCE)
        cs_combine_drain(sim);
    if (!bytes || kind >= CS_FENCE)
        return;
    uint64_t line = address >> LINE_BITS, last = (address + bytes - 1) >> LINE_BITS;
    if (kind != CS_NON_TEMPORAL && kind != CS_FLUSH) {
        for (;; line++) {
            access_line(sim, line, kind);
            if (line == last)
                return;
        }
    }
    for (;; line++) {
        if (kind == CS_FLUSH) {
            if (sim->combiners)
                cs_combine_close_line(sim, line);
            remove_everywhere(sim, cs_page(sim, line)->line | IN_PAGE(line), 1);
        } else {
            uint64_t next = (line + 1) << LINE_BITS;
            uint32_t piece = line == last ? bytes : (uint32_t)(next - address);
            cs_combine(sim, address, piece);
            address += piece;
            bytes -= piece;
        }
        if (line == last)
            return;
    }
}

#include "ahead.h"
#include "run.h"
#include "loop.h"

const struct cs_operations OPERATIONS = {WIDTH, access_any, accesses, loop, remove_everywhere};
