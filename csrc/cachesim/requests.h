/* Accesses in order. Where most of the last ones missed, what the next ones will need is fetched ahead of them. */

#define AHEAD 24u

/* What is needed first: the page, and where its bytes are noted. A page that was never touched is left alone. */
static INLINE void fetch_page(const struct cachesim *sim, uint64_t address)
{
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    __builtin_prefetch(&sim->pages[label], 1);
    __builtin_prefetch(sim->touched + cs_chunk(sim, label, address >> 6 & 63), 1);
    __builtin_prefetch(sim->last_asked + cs_place(sim, label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS)), 1);
}

/* Then the sets, once the page is there. */
static INLINE void fetch_sets(const struct cachesim *sim, uint64_t address)
{
    if (defers(sim)) /* level 2 is small, and the last level fetches by itself */
        return;
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    if (!label)
        return;
    uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    for (uint32_t k = 1; k < LEVELS; k++)
        for (uint32_t block = 0; block < BLOCKS(k); block++)
            __builtin_prefetch(tags_of(sim, k, &sim->pages[label], line) + block * CS_BLOCK, 1);
}

/* Then what has to make room in level 2, and its place in level 3. */
static INLINE void fetch_victim(const struct cachesim *sim, uint64_t address, int set)
{
    if (defers(sim))
        return;
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    if (!SHAPE || !label)
        return;
    uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    uint32_t victim = tags_of(sim, 1, &sim->pages[label], line)[sim->level[1].last] & CS_LINE;
    const struct cs_page *page = cs_page_of(sim, victim);
    if (!set)
        __builtin_prefetch(page);
    else
        for (uint32_t block = 0; block < BLOCKS(2); block++)
            __builtin_prefetch(tags_of(sim, 2, page, victim) + block * CS_BLOCK, 1);
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
        if (i + AHEAD / 2 < n)
            fetch_victim(sim, request[i + AHEAD / 2].address, 0);
        if (i + AHEAD / 4 < n)
            fetch_victim(sim, request[i + AHEAD / 4].address, 1);
        sim->origin = request[i].origin;
        access_any(sim, request[i].address, request[i].bytes, request[i].kind);
    }
}

/*
 * A load that follows a load or store of the same line finds it in front and changes nothing but what is counted and noted.
 * Loads, stores and prefetches within a line are done here, others are a call.
 */
static NOINLINE void requests_in_turn(struct cachesim *sim, const struct cachesim_request *request, uint64_t n)
{
    uint64_t before = CS_NONE, asked = 0, *chunk = NULL;
    uint32_t most = sim->evades ? CS_LOAD : CS_STORE; /* trackers need the bytes of stores, and loads behind them close some */
    for (const struct cachesim_request *end = request + n; request < end; request++) {
        uint64_t address = request->address, virtual_line = address >> 6;
        uint32_t bytes = request->bytes, kind = request->kind;
        if (LINE_BITS != 6 || (kind > most && kind != CS_PREFETCH) || (address & 63) + bytes > 64 || !bytes) {
            before = CS_NONE;
            sim->origin = request->origin;
            access_any(sim, address, bytes, kind);
            continue;
        }
        asked++;
        uint64_t bits = bits_of(address, bytes);
        if (virtual_line == before && kind == CS_LOAD && IN_ORDER(0) && !sim->prefetch) {
            *chunk |= bits;
            continue;
        }
        uint32_t label = cs_label(sim, address >> CS_PAGE_BITS), in_page = virtual_line & 63;
        uint32_t line = label << 6 | in_page;
        before = CS_NONE;
        if (kind != CS_PREFETCH) {
            before = virtual_line;
            chunk = sim->touched + cs_place(sim, line);
            if (kind || !*chunk)
                note_lines(&sim->pages[label], UINT64_C(1) << in_page, kind);
            *chunk |= bits;
        }
        sim->origin = request->origin;
        ask(sim, tags_of(sim, 0, &sim->pages[label], line), line, kind == CS_STORE);
    }
    sim->asked += asked;
}

/* Those that belong to this part, of at most MAX_REQUESTS: what is within a line is sorted out here, what is odd later. */
#define MAX_REQUESTS 512u
static NOINLINE uint64_t requests_of_part(const struct cachesim *sim, const struct cachesim_request *request, uint64_t n,
                                          struct cachesim_request *own)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = request[i].address >> LINE_BITS, last = (request[i].address + request[i].bytes - 1) >> LINE_BITS;
        own[found] = request[i]; /* written over by the next, unless it counts */
        found += !cs_foreign(sim, first) || first != last || request[i].kind == CS_FENCE;
    }
    return found;
}

static NOINLINE void requests_all(struct cachesim *sim, const struct cachesim_request *request, uint64_t n)
{
    uint64_t missed_before = sim->level[sim->levels - 1].misses, sample = n < 16 ? n : 16;
    requests_in_turn(sim, request, sample);
    if (sim->level[sim->levels - 1].misses - missed_before >= 3)
        requests_ahead(sim, request + sample, n - sample);
    else
        requests_in_turn(sim, request + sample, n - sample);
}

static NOINLINE void requests(struct cachesim *sim, const struct cachesim_request *request, uint64_t n)
{
    if (!sim->part_mask) {
        requests_all(sim, request, n);
        return;
    }
    struct cachesim_request own[MAX_REQUESTS];
    for (uint64_t first = 0; first < n; first += MAX_REQUESTS) {
        uint64_t some = n - first < MAX_REQUESTS ? n - first : MAX_REQUESTS;
        requests_all(sim, own, requests_of_part(sim, request + first, some, own));
    }
}
