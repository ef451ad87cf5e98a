/* What the last level is asked for and given, deferred: see struct cs_waiting. Only for the common shape. */

#define HALF (CS_WAITING / 2)

/* The last level had a line dirty, which has gone up: if it has been given back since, that tells, else it is in level 2. */
static INLINE void tell_dirty(struct cachesim *sim, uint32_t line)
{
    uint32_t *tags = sim->waiting.given;
    int at = set_find(tags, CS_WAITING / CS_BLOCK, line);
    if (at < 0) {
        tags = tags_of(sim, 1, line);
        at = set_find(tags, BLOCKS(1), line);
    }
    tags[at] |= CS_DIRTY;
}

static INLINE void serve(struct cachesim *sim, uint32_t count)
{
    struct cs_waiting *w = &sim->waiting;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t line = w->asked[i] & CS_LINE;
        if (line && fetch_2(sim, line, w->asked[i] >> 31))
            tell_dirty(sim, line);
        uint32_t tag = w->given[i];
        w->given[i] = 0;
        if (tag)
            put_2(sim, tag);
    }
}

static NOINLINE void serve_all(struct cachesim *sim)
{
    serve(sim, sim->waiting.count);
    sim->waiting.count = 0;
    count_writes(sim, sim->waiting.writes);
}

static INLINE void fetch_last_set(const struct cachesim *sim, uint32_t tag)
{
    const uint32_t *tags = tags_of(sim, 2, tag & CS_LINE);
    for (uint32_t block = 0; tag && block < BLOCKS(2); block++)
        __builtin_prefetch(tags + block * CS_BLOCK, 1);
}

/* The elder half is served, the younger one becomes the elder: its pages are there, its sets are fetched. */
static NOINLINE void serve_half(struct cachesim *sim)
{
    struct cs_waiting *w = &sim->waiting;
    serve(sim, HALF);
    for (uint32_t i = 0; i < HALF; i++) {
        w->asked[i] = w->asked[HALF + i];
        w->given[i] = w->given[HALF + i];
        w->given[HALF + i] = 0;
        fetch_last_set(sim, w->asked[i]);
        fetch_last_set(sim, w->given[i]);
    }
    w->count = HALF;
}

/* After one more: there is always a place left, so that a line that is given is never on its way while others are served. */
static INLINE void make_room(struct cachesim *sim)
{
    if (++sim->waiting.count == CS_WAITING)
        serve_half(sim);
}

static INLINE uint32_t fetch_later(struct cachesim *sim, uint32_t line, uint32_t store)
{
    if (!defers(sim))
        return fetch_2(sim, line, store);
    struct cs_waiting *w = &sim->waiting;
    w->asked[w->count] = line | store << 31;
    __builtin_prefetch(line_of(sim, line), 1);
    make_room(sim);
    return 0;
}

static INLINE void put_later(struct cachesim *sim, uint32_t tag)
{
    if (!defers(sim)) {
        put_2(sim, tag);
        return;
    }
    struct cs_waiting *w = &sim->waiting;
    __builtin_prefetch(&sim->frames[(tag & CS_LINE) >> PAGE_LINE_BITS]);
    if (w->count && !w->given[w->count - 1]) {
        w->given[w->count - 1] = tag;
        return;
    }
    w->asked[w->count] = 0;
    w->given[w->count] = tag;
    make_room(sim);
}

#define admit_later admit_2 /* only where nothing waits */

#undef HALF
