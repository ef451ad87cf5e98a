/*
 * Level K of the walk; included once a level, the last first, so that each level's code has its place in struct cachesim
 * as a constant. K is 3, 2, 1 or 0; BELOW(name) is the function of that name of level K+1.
 */

#if K == 3
#define HERE(name) name##_3
#define BELOW(name) name##_4
#define NEXT 3
#elif K == 2
#define HERE(name) name##_2
#define BELOW(name) name##_3
#define NEXT 3
#elif K == 1
#define HERE(name) name##_1
#define BELOW(name) name##_later
#define NEXT 2
#else
#define HERE(name) name##_0
#define BELOW(name) name##_1
#define NEXT 1
#endif

/* A line has lost its place in this level. */
static INLINE void HERE(evicted)(struct cachesim *sim, uint32_t tag)
{
    struct cs_level *level = &sim->level[K];
    if (K > 0 && level->fill == CS_INCLUSIVE)
        tag |= remove_above(sim, K, tag & CS_LINE);
    if (LEVELS == K + 1) {
        if (tag & CS_DIRTY) {
            level->down++;
            write_later(sim, tag & CS_LINE);
        }
    } else if (tag & CS_DIRTY || sim->level[NEXT].fill == CS_VICTIM) {
        level->down++;
        BELOW(put)(sim, tag);
    }
}

#if K > 0
/* This level takes a line in, as the most recent of its set. */
static INLINE void HERE(insert)(struct cachesim *sim, uint32_t *tags, uint32_t tag)
{
    uint32_t victim = set_takes(sim, K, tags, tag);
    if (victim)
        HERE(evicted)(sim, victim);
}

/* The same as a call: for the cases that are not worth their space. */
static NOINLINE void HERE(insert_call)(struct cachesim *sim, uint32_t *tags, uint32_t tag)
{
    HERE(insert)(sim, tags, tag);
}

/* This level gets a line from the level above. */
static INLINE void HERE(put)(struct cachesim *sim, uint32_t tag)
{
    struct cs_level *level = &sim->level[K];
    uint32_t *tags = tags_of(sim, K, tag & CS_LINE);
    int way = level->apart ? -1 : set_find(tags, BLOCKS(K), tag & CS_LINE);
    if (level->fill == CS_VICTIM) {
        if (way < 0)
            HERE(insert)(sim, tags, tag);
        else
            set_used(sim, K, tags, (uint32_t)way, tag | (tags[way] & CS_DIRTY));
    } else if (way >= 0) {
        tags[way] |= tag & CS_DIRTY;
    } else {
        HERE(insert_call)(sim, tags, tag);
    }
}

/* The level above (or the core) needs a line; returns CS_DIRTY if it comes from a victim cache that held it dirty. */
static INLINE uint32_t HERE(fetch)(struct cachesim *sim, uint32_t line, uint32_t store)
{
    struct cs_level *level = &sim->level[K];
    if (LEVELS <= K) { /* one level alone */
        struct cs_line *alone = line_of(sim, line);
        from_memory(sim, alone, line, store, cs_recency_ask(sim, alone));
        return 0;
    }
    uint32_t *tags = tags_of(sim, K, line);
    struct cs_line *known = line_of(sim, line);
    uint32_t kept = LEVELS == K + 1 ? cs_recency_ask(sim, known) : 0;
    int way = set_find(tags, BLOCKS(K), line);
    if (way >= 0) {
        uint32_t tag = tags[way];
        /* what another core has too stays where both can find it */
        if (level->fill == CS_VICTIM && !(__builtin_expect(cs_others(sim, line), 0) && cs_held_elsewhere(sim, line))) {
            set_gives_up(sim, K, tags, (uint32_t)way);
            return tag & CS_DIRTY;
        }
        set_used(sim, K, tags, (uint32_t)way, tag);
        return 0;
    }
    level->misses++;
    if (__builtin_expect(level->duellers, 0))
        cs_duel_missed(level, tags);
    uint32_t dirty = 0;
    if (LEVELS == K + 1)
        from_memory(sim, known, line, store, kept);
    else
        dirty = BELOW(fetch)(sim, line, store);
    if (level->fill == CS_VICTIM)
        return dirty;
    HERE(insert)(sim, tags, line | dirty);
    return 0;
}

#if K == 1
/* A prefetcher wants a line in level 2. */
static NOINLINE void prefetch(struct cachesim *sim, uint32_t line)
{
    uint32_t *tags = tags_of(sim, 1, line);
    if (set_find(tags_of(sim, 0, line), BLOCKS(0), line) >= 0 || set_find(tags, BLOCKS(1), line) >= 0 ||
        (cs_others(sim, line) && cs_held_elsewhere(sim, line)) || (sim->combiners && cs_combine_has(sim, line)) ||
        (sim->trackers && cs_evade_has(sim, line)))
        return;
    sim->prefetch->asked++;
    sim->prefetch->at_work = 1;
    uint32_t dirty = fetch_2(sim, line, 0);
    sim->prefetch->at_work = 0;
    HERE(insert_call)(sim, tags, line | dirty);
}
#endif

/* A line comes up to the core without having been fetched: the levels that misses fill take it in, the last one first. */
static INLINE void HERE(admit)(struct cachesim *sim, uint32_t line)
{
    if (LEVELS <= K)
        return;
    BELOW(admit)(sim, line);
    if (sim->level[K].fill != CS_VICTIM)
        HERE(insert_call)(sim, tags_of(sim, K, line), line);
}
#endif

#undef K
#undef HERE
#undef BELOW
#undef NEXT
