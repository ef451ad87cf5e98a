/*
 * The walk through the levels, compiled once for each way of comparing a set's tags. The including file defines TARGET (a
 * function attribute), OPERATIONS (the name of its table) and the set_ functions, see sets_plain.h.
 */

static TARGET void put(struct cachesim *sim, uint32_t k, uint32_t tag);

/* Takes a line out of level 1 to k-1; returns CS_DIRTY if a copy was dirty, whose data then travelled down to level k. */
static TARGET uint32_t remove_above(struct cachesim *sim, uint32_t k, uint32_t line)
{
    uint32_t dirty = 0;
    for (uint32_t j = 0; j < k; j++) {
        struct cs_level *level = &sim->level[j];
        uint32_t *tags = cs_tags(level, line);
        int way = set_find(tags, level->blocks, line);
        if (way >= 0) {
            dirty |= tags[way] & CS_DIRTY;
            set_remove(tags, level->blocks, (uint32_t)way);
            if (j == 0) {
                sim->front.recent[line & sim->front.mask] = CS_NONE;
                sim->removals++;
            }
        }
        level->down += dirty != 0;
    }
    return dirty;
}

/* A line has lost its place in level k. */
static TARGET void evicted(struct cachesim *sim, uint32_t k, uint32_t tag)
{
    struct cs_level *level = &sim->level[k];
    if (level->fill == CS_INCLUSIVE)
        tag |= remove_above(sim, k, tag & CS_LINE);
    uint32_t dirty = tag & CS_DIRTY;
    if (k + 1 == sim->levels) {
        if (dirty) {
            level->down++;
            cs_memory_write(sim, tag & CS_LINE);
        }
    } else if (dirty || sim->level[k + 1].fill == CS_VICTIM) {
        level->down++;
        put(sim, k + 1, tag);
    }
}

/* Level k takes a line in as its most recent. */
static TARGET void insert(struct cachesim *sim, uint32_t k, uint32_t tag)
{
    struct cs_level *level = &sim->level[k];
    uint32_t victim = set_front(cs_tags(level, tag & CS_LINE), level->ways - 1, tag);
    if (victim)
        evicted(sim, k, victim);
}

/* Level k gets a line from the level above. */
static TARGET void put(struct cachesim *sim, uint32_t k, uint32_t tag)
{
    struct cs_level *level = &sim->level[k];
    uint32_t *tags = cs_tags(level, tag & CS_LINE);
    int way = set_find(tags, level->blocks, tag & CS_LINE);
    if (way < 0)
        insert(sim, k, tag);
    else if (level->fill == CS_VICTIM)
        set_front(tags, (uint32_t)way, tag | (tags[way] & CS_DIRTY));
    else
        tags[way] |= tag & CS_DIRTY;
}

/* Level k-1 (or the core) needs a line; returns CS_DIRTY if it comes from a victim cache that held it dirty. */
static TARGET uint32_t fetch(struct cachesim *sim, uint32_t k, uint32_t line, struct cs_page *page, uint32_t store)
{
    if (k == sim->levels) {
        cs_memory_read(sim, page, cs_in_page(sim, line), store);
        return 0;
    }
    struct cs_level *level = &sim->level[k];
    uint32_t *tags = cs_tags(level, line);
    int way = set_find(tags, level->blocks, line);
    if (way >= 0) {
        level->hits++;
        if (level->fill == CS_VICTIM) {
            uint32_t dirty = tags[way] & CS_DIRTY;
            set_remove(tags, level->blocks, (uint32_t)way);
            return dirty;
        }
        set_front(tags, (uint32_t)way, tags[way]);
        return 0;
    }
    level->misses++;
    uint32_t dirty = fetch(sim, k + 1, line, page, store);
    if (level->fill == CS_VICTIM)
        return dirty;
    insert(sim, k, line | dirty);
    return 0;
}

/* One access by load, store or prefetch, of one line. */
static TARGET void touch(struct cachesim *sim, uint64_t virtual_line, uint32_t kind)
{
    struct cs_page *page = cs_page(sim, virtual_line);
    uint32_t in_page = cs_in_page(sim, virtual_line), line = page->line | in_page;
    uint32_t store = kind == CS_STORE, tag = line | (store ? CS_DIRTY : 0);
    page->stored |= (uint64_t)store << in_page;
    page->loaded |= (uint64_t)(kind == CS_LOAD) << in_page & ~page->stored;

    struct cs_level *level = &sim->level[0];
    uint32_t *tags = cs_tags(level, line), victim = 0;
    int way = set_find(tags, level->blocks, line);
    if (way >= 0) {
        sim->front.hits++;
        tag |= tags[way];
        set_front(tags, (uint32_t)way, tag);
    } else {
        level->misses++;
        if (sim->combiners)
            cs_combine_close_line(sim, virtual_line);
        tag |= fetch(sim, 1, line, page, store);
        victim = set_front(tags, level->ways - 1, tag);
    }
    if (sim->virtual_front) /* not after a prefetch: the program itself has not touched the line yet */
        sim->front.recent[virtual_line & sim->front.mask] =
            kind == CS_PREFETCH ? CS_NONE : virtual_line << 1 | (page->stored >> in_page & tag >> 31);
    if (victim)
        evicted(sim, 0, victim);
}

static TARGET uint32_t remove_everywhere(struct cachesim *sim, uint32_t line, uint32_t write_back)
{
    uint32_t dirty = 0;
    for (uint32_t k = 0; k < sim->levels; k++) {
        struct cs_level *level = &sim->level[k];
        uint32_t *tags = cs_tags(level, line);
        int way = set_find(tags, level->blocks, line);
        if (way >= 0) {
            dirty |= tags[way] & CS_DIRTY;
            set_remove(tags, level->blocks, (uint32_t)way);
            if (k == 0) {
                sim->front.recent[line & sim->front.mask] = CS_NONE;
                sim->removals++;
            }
        }
        level->down += dirty && write_back;
    }
    if (dirty && write_back)
        cs_memory_write(sim, line);
    return dirty != 0;
}

static TARGET void access_line(struct cachesim *sim, uint64_t virtual_line, uint32_t kind)
{
    if (cachesim_is_recent(&sim->front, virtual_line, kind == CS_LOAD || kind == CS_PREFETCH)) {
        sim->front.hits += kind == CS_UPDATE ? 2 : 1;
        return;
    }
    if (kind != CS_UPDATE) {
        touch(sim, virtual_line, kind);
        return;
    }
    touch(sim, virtual_line, CS_LOAD);
    touch(sim, virtual_line, CS_STORE);
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
        access_any(sim, addresses[i], bytes[i], kinds[i]);
}

static TARGET void loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride,
                        const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < n; i++)
            access_any(sim, start[i] + k * (uint64_t)stride[i], bytes[i], kind[i]);
}

const struct cs_operations OPERATIONS = {access_any, accesses, loop, remove_everywhere};
