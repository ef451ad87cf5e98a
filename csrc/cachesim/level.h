/*
 * Level K of the walk; included once a level, the last first, so that each level's code has its place in struct cachesim
 * as a constant. K is 3, 2, 1 or 0; BELOW(name) is the function of that name of level K+1.
 */

#define CS_JOIN_(a, b) a##b
#define CS_JOIN(a, b) CS_JOIN_(a, b)
#define HERE(name) CS_JOIN(name##_, K)
#if K == 3
#define BELOW(name) name##_4
#elif K == 2
#define BELOW(name) name##_3
#elif K == 1
#define BELOW(name) name##_2
#else
#define BELOW(name) name##_1
#endif
#define NEXT (K < CS_MAX_LEVELS - 1 ? K + 1 : K)

/* A line has lost its place in this level. */
static inline TARGET void HERE(evicted)(struct cachesim *sim, uint32_t tag)
{
    struct cs_level *level = &sim->level[K];
    if (K > 0 && level->fill == CS_INCLUSIVE)
        tag |= remove_above(sim, K, tag & CS_LINE);
    uint32_t dirty = tag & CS_DIRTY;
    if (K + 1 == CS_MAX_LEVELS || sim->levels == K + 1) {
        if (dirty) {
            level->down++;
            cs_memory_write(sim, tag & CS_LINE);
        }
    } else if (dirty || sim->level[NEXT].fill == CS_VICTIM) {
        level->down++;
        BELOW(put)(sim, tag);
    }
}

#if K > 0
/* This level takes a line in, as the most recent of its set. */
static inline TARGET void HERE(insert)(struct cachesim *sim, uint32_t *tags, uint32_t tag)
{
    uint32_t victim = set_front(tags, sim->level[K].ways - 1, tag);
    if (victim)
        HERE(evicted)(sim, victim);
}

/* This level gets a line from the level above. */
static TARGET void HERE(put)(struct cachesim *sim, uint32_t tag)
{
    struct cs_level *level = &sim->level[K];
    uint32_t *tags = cs_tags(level, tag & CS_LINE);
    int way = set_find(tags, level->blocks, tag & CS_LINE);
    if (way < 0)
        HERE(insert)(sim, tags, tag);
    else if (level->fill == CS_VICTIM)
        set_front(tags, (uint32_t)way, tag | (tags[way] & CS_DIRTY));
    else
        tags[way] |= tag & CS_DIRTY;
}

/* The level above (or the core) needs a line; returns CS_DIRTY if it comes from a victim cache that held it dirty. */
static inline TARGET uint32_t HERE(fetch)(struct cachesim *sim, uint32_t line, struct cs_page *page, uint32_t store)
{
    struct cs_level *level = &sim->level[K];
    if (sim->levels <= K) {
        cs_memory_read(sim, page, cs_in_page(sim, line), store);
        return 0;
    }
    uint32_t *tags = cs_tags(level, line);
    int way = set_find(tags, level->blocks, line);
    if (way >= 0) {
        level->hits++;
        uint32_t tag = tags[way];
        if (level->fill == CS_VICTIM) {
            set_remove(tags, level->blocks, (uint32_t)way);
            return tag & CS_DIRTY;
        }
        set_front(tags, (uint32_t)way, tag);
        return 0;
    }
    level->misses++;
    uint32_t dirty = BELOW(fetch)(sim, line, page, store);
    if (level->fill == CS_VICTIM)
        return dirty;
    HERE(insert)(sim, tags, line | dirty);
    return 0;
}
#endif

#undef K
#undef HERE
#undef NEXT
#undef BELOW
#undef CS_JOIN
#undef CS_JOIN_
