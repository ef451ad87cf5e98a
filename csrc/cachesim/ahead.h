/*
 * Looking ahead: when the next lines are known, the sets they will need can be fetched from memory meanwhile. Nothing of the
 * simulated state is changed here.
 */

#define MAX_STREAMS 64u
#define BATCH 32u /* lines looked ahead: their sets, three a line, shall fit the processor's first cache */

/* Where a stream will be; remembers its page. */
struct lookout {
    struct cs_page *page;
    uint64_t number; /* of page, CS_NONE if there is none */
};

static INLINE void fetch_set(const struct cachesim *sim, uint32_t k, const uint32_t *tags)
{
    (void)sim, (void)k; /* not needed where the shape is fixed */
    for (uint32_t block = 0; block < BLOCKS(k); block++)
        __builtin_prefetch(tags + block * CS_BLOCK, 1);
}

/* Fetches the sets of a line, and those one level down of the lines that will have to make room for it. */
static INLINE void fetch_sets(const struct cachesim *sim, const struct cs_page *page, uint32_t line)
{
    (void)page;
    for (uint32_t k = 1; k < LEVELS; k++) {
        const uint32_t *tags = sim->level[k].tags + ((size_t)SET_IN_PAGE(k, page, line) << ROOM_BITS(k));
        fetch_set(sim, k, tags);
        if (k + 1 == LEVELS || k > 1)
            continue; /* only of level 2: its sets are few enough to be read now */
        uint32_t victim = tags[sim->level[k].last];
        if (victim & CS_DIRTY || (victim && sim->level[k + 1].fill == CS_VICTIM))
            fetch_set(sim, k + 1, tags_of(sim, k + 1, victim & CS_LINE));
    }
}

/* The page of a line if it has been touched before, else NULL; with it, the line's physical number. */
static INLINE struct cs_page *look_at(const struct cachesim *sim, struct lookout *lookout, uint64_t line,
                                      uint32_t *physical)
{
    uint64_t number = line >> PAGE_LINE_BITS;
    if (__builtin_expect(number != lookout->number, 0)) {
        lookout->page = cs_page_seen(sim, number);
        lookout->number = number;
        if (!lookout->page || !lookout->page->line) {
            lookout->number = CS_NONE;
            return NULL;
        }
    }
    *physical = lookout->page->line | IN_PAGE(line);
    fetch_sets(sim, lookout->page, *physical);
    return lookout->page;
}
