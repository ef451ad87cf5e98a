/* Accesses in order. Where most of the last ones missed, what the next ones will need is fetched ahead of them. */

#define AHEAD 24u

/* What is needed first: the page, and where its bytes are noted. A page that was never touched is left alone. */
static INLINE void fetch_page(const struct cachesim *sim, uint64_t address)
{
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    __builtin_prefetch(&sim->pages[label], 1);
    __builtin_prefetch(sim->touched + (size_t)label * CS_CHUNKS + (address >> 6 & 63), 1);
    __builtin_prefetch(sim->last_asked + (label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS)), 1);
}

/* Then the sets, once the page is there. */
static INLINE void fetch_sets(const struct cachesim *sim, uint64_t address)
{
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    if (!label)
        return;
    uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    for (uint32_t k = 1; k < LEVELS; k++)
        for (uint32_t block = 0; block < BLOCKS(k); block++)
            __builtin_prefetch(tags_of(sim, k, &sim->pages[label], line) + block * CS_BLOCK, 1);
}

static NOINLINE void requests_ahead(struct cachesim *sim, const struct cachesim_request *request, uint64_t n)
{
    uint64_t first = n < 2 * AHEAD ? n : 2 * AHEAD;
    for (uint64_t i = 0; i < first; i++)
        fetch_page(sim, request[i].address);
    for (uint64_t i = 0; i < first / 2; i++)
        fetch_sets(sim, request[i].address);
    for (uint64_t i = 0; i < n; i++) {
        if (i + 2 * AHEAD < n)
            fetch_page(sim, request[i + 2 * AHEAD].address);
        if (i + AHEAD < n)
            fetch_sets(sim, request[i + AHEAD].address);
        sim->origin = request[i].origin;
        access_any(sim, request[i].address, request[i].bytes, request[i].kind);
    }
}

static NOINLINE void requests(struct cachesim *sim, const struct cachesim_request *request, uint64_t n)
{
    uint64_t missed_before = sim->level[sim->levels - 1].misses, sample = n < 16 ? n : 16;
    for (uint64_t i = 0; i < sample; i++) {
        sim->origin = request[i].origin;
        access_any(sim, request[i].address, request[i].bytes, request[i].kind);
    }
    if (sim->level[sim->levels - 1].misses - missed_before >= 3) {
        requests_ahead(sim, request + sample, n - sample);
        return;
    }
    for (uint64_t i = sample; i < n; i++) {
        sim->origin = request[i].origin;
        access_any(sim, request[i].address, request[i].bytes, request[i].kind);
    }
}
