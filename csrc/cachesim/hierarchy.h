/*
 * The walk through the levels, compiled once for each way of comparing a set's tags. The including file defines TARGET (a
 * function attribute), OPERATIONS (the name of its table) and the set_ functions, see sets_plain.h.
 */

/* Takes a line out of one level; returns CS_DIRTY if that copy was dirty. */
static inline TARGET uint32_t remove_from(struct cachesim *sim, uint32_t k, uint32_t line)
{
    struct cs_level *level = &sim->level[k];
    uint32_t *tags = cs_tags(level, line);
    int way = set_find(tags, level->blocks, line);
    if (way < 0)
        return 0;
    uint32_t dirty = tags[way] & CS_DIRTY;
    if (k) {
        set_remove(tags, level->blocks, (uint32_t)way);
    } else {
        size_t slot = (size_t)(tags - level->tags) + (uint32_t)way;
        sim->removals += sim->front.stamp[slot] >= sim->watch;
        tags[way] = 0;
        sim->front.stamp[slot] = 0;
        sim->front.key[slot] = CS_NONE;
    }
    return dirty;
}

/* Takes a line out of level 1 to k-1; returns CS_DIRTY if a copy was dirty, whose data then travelled down to level k. */
static inline TARGET uint32_t remove_above(struct cachesim *sim, uint32_t k, uint32_t line)
{
    uint32_t dirty = 0;
    for (uint32_t j = 0; j < k; j++) {
        dirty |= remove_from(sim, j, line);
        sim->level[j].down += dirty != 0;
    }
    return dirty;
}

static inline TARGET void put_4(struct cachesim *sim, uint32_t tag)
{
    cs_memory_write(sim, tag & CS_LINE); /* there is no fifth level: never called */
}

static inline TARGET uint32_t fetch_4(struct cachesim *sim, uint32_t line, struct cs_page *page, uint32_t store)
{
    cs_memory_read(sim, page, cs_in_page(sim, line), store);
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

/*
 * One access by load, store or prefetch, of one line, at a time later than any before; returns the line's slot. The front
 * need not be asked before.
 */
static inline TARGET uint32_t touch(struct cachesim *sim, struct cs_page *page, uint64_t virtual_line, uint32_t kind,
                                    uint64_t time)
{
    uint32_t in_page = cs_in_page(sim, virtual_line), line = page->line | in_page;
    uint32_t store = kind == CS_STORE, tag = line | (store ? CS_DIRTY : 0);
    page->stored |= (uint64_t)store << in_page;
    page->loaded |= (uint64_t)(kind == CS_LOAD) << in_page & ~page->stored;

    struct cs_level *level = &sim->level[0];
    uint32_t *tags = cs_tags(level, line), victim = 0, before;
    int way = set_find(tags, level->blocks, line);
    if (way >= 0) {
        before = tags[way];
    } else {
        level->misses++;
        sim->not_hits++;
        if (sim->combiners)
            cs_combine_close_line(sim, virtual_line);
        before = fetch_1(sim, line, page, store);
        way = (int)set_oldest(sim->front.stamp + (tags - level->tags), level->blocks);
        victim = tags[way];
    }
    if (sim->origins && store && !(before & CS_DIRTY))
        cs_origin_dirtied(sim, page, in_page);
    tag |= before;
    uint32_t slot = (uint32_t)(tags - level->tags) + (uint32_t)way;
    sim->removals += victim && sim->front.stamp[slot] >= sim->watch;
    set_tag(tags, (uint32_t)way, tag);
    set_stamp(sim->front.stamp + (tags - level->tags), (uint32_t)way, time);
    uint64_t known = (page->loaded | page->stored) >> in_page & 1; /* a prefetch alone does not make a line known */
    sim->front.key[slot] = (virtual_line << 1 | (page->stored >> in_page & tag >> 31)) | (known - 1) | sim->front_off;
    sim->front.guess[cachesim_guess(virtual_line)] = (uint16_t)slot;
    if (victim)
        evicted_0(sim, victim);
    return slot;
}

/* Takes a line out of every level; returns 1 if a copy was dirty: if write_back was asked, memory has been written. */
static TARGET uint32_t remove_everywhere(struct cachesim *sim, uint32_t line, uint32_t write_back)
{
    uint32_t dirty = 0;
    for (uint32_t k = 0; k < sim->levels; k++) {
        dirty |= remove_from(sim, k, line);
        sim->level[k].down += dirty && write_back;
    }
    if (dirty && write_back)
        cs_memory_write(sim, line);
    return dirty != 0;
}

static TARGET void access_line(struct cachesim *sim, uint64_t virtual_line, uint32_t kind)
{
    struct cs_page *page = cs_page(sim, virtual_line);
    touch(sim, page, virtual_line, kind == CS_UPDATE ? CS_LOAD : kind, ++sim->front.clock);
    if (kind == CS_UPDATE)
        touch(sim, page, virtual_line, CS_STORE, ++sim->front.clock);
}

static TARGET void access_any(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    if (kind == CS_FENCE)
        cs_combine_drain(sim);
    if (!bytes || kind >= CS_FENCE)
        return;
    uint64_t line = address >> sim->line_bits, last = (address + bytes - 1) >> sim->line_bits;
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
            remove_everywhere(sim, cs_page(sim, line)->line | cs_in_page(sim, line), 1);
        } else {
            uint64_t next = (line + 1) << sim->line_bits;
            uint32_t piece = line == last ? bytes : (uint32_t)(next - address);
            cs_combine(sim, address, piece);
            address += piece;
            bytes -= piece;
        }
        if (line == last)
            return;
    }
}

static TARGET void accesses(struct cachesim *sim, const uint64_t *addresses, const uint32_t *bytes,
                            const uint32_t *kinds, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] || kinds[i] == CS_FENCE)
            cachesim_fast(sim, addresses[i], bytes[i] ? bytes[i] : 1, kinds[i]);
}

#include "loop.h"

const struct cs_operations OPERATIONS = {access_any, accesses, loop, remove_everywhere};
