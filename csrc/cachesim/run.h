/*
 * Runs: loops in which every stream moves on to another line in every iteration. Line by line, looking ahead.
 *
 * Most lines are new to level 1, so its oldest line is asked for all the time. Instead of comparing times, a run keeps the
 * order of each set it comes by: ways as nibbles of a word, the oldest lowest. Times are noted all the same.
 */

struct visit {
    uint64_t line;        /* virtual */
    struct cs_page *page; /* NULL if not known */
    uint32_t physical;
    uint16_t kind, stream;
};

struct runner {
    uint64_t address, stride;
    uint32_t reach; /* bytes - 1 */
    uint16_t kind, stream;
    struct lookout lookout;
};

static NOINLINE uint64_t order_make(const struct cachesim *sim, uint32_t set)
{
    const uint64_t *stamps = sim->front.stamp + ((size_t)set << ROOM_BITS(0));
    uint64_t order = 0;
    for (uint32_t way = 0; way < sim->level[0].ways; way++) { /* placed before the first that is younger */
        uint32_t at = 0;
        while (at < way && stamps[order >> 4 * at & 15] < stamps[way])
            at++;
        uint64_t below = order & ((UINT64_C(1) << 4 * at) - 1);
        order = below | (uint64_t)way << 4 * at | (at < 15 ? (order ^ below) << 4 : 0);
    }
    return order;
}

/* The oldest way of a set, which becomes the youngest. */
static INLINE uint32_t order_next(struct cachesim *sim, uint32_t set)
{
    uint64_t order = sim->order[set];
    if (__builtin_expect(order == CS_NONE, 0))
        order = order_make(sim, set);
    sim->order[set] = order >> 4 | (order & 15) << 4 * sim->level[0].last;
    return order & 15;
}

/* A way of a set has become the youngest. */
static INLINE void order_used(struct cachesim *sim, uint32_t set, uint32_t way)
{
    const uint64_t ones = 0x1111111111111111u;
    uint64_t order = sim->order[set];
    uint32_t last = 4 * sim->level[0].last;
    if (order == CS_NONE || order >> last == way)
        return;
    uint64_t zero_where = order ^ way * ones; /* the lowest zero nibble is found exactly */
    uint32_t at = (uint32_t)__builtin_ctzll((zero_where - ones) & ~zero_where & 8 * ones) & ~3u;
    uint64_t below = order & ((UINT64_C(1) << at) - 1);
    sim->order[set] = below | (order >> at >> 4) << at | (uint64_t)way << last;
}

static INLINE struct visit *visit_line(const struct cachesim *sim, struct runner *runner, uint64_t line,
                                       struct visit *visit)
{
    visit->line = line;
    visit->kind = runner->kind;
    visit->stream = runner->stream;
    visit->page = look_at(sim, &runner->lookout, line, &visit->physical);
    return visit + 1;
}

static INLINE uint32_t visits(const struct cachesim *sim, struct runner *runner, uint32_t n, uint64_t iterations,
                              struct visit *visit)
{
    struct visit *made = visit;
    for (; iterations; iterations--)
        for (uint32_t i = 0; i < n; i++) {
            struct runner *r = &runner[i];
            uint64_t line = r->address >> LINE_BITS, last = (r->address + r->reach) >> LINE_BITS;
            r->address += r->stride;
            made = visit_line(sim, r, line, made);
            if (line != last)
                made = visit_line(sim, r, last, made);
        }
    return (uint32_t)(made - visit);
}

static INLINE void visit_all(struct cachesim *sim, const struct visit *visit, uint32_t count, uint32_t origin,
                             const int mode)
{
    for (uint32_t i = 0; i < count; i++) {
        struct cs_page *page = visit[i].page;
        uint32_t line = visit[i].physical;
        if (__builtin_expect(!page, 0)) {
            page = cs_page(sim, visit[i].line);
            line = page->line | IN_PAGE(visit[i].line);
        }
        sim->front.origin = origin + visit[i].stream;
        touch(sim, page, line, visit[i].line, visit[i].kind, ++sim->front.clock, mode);
    }
}

/* Accesses of at most a line each, with strides of at least a line. */
static NOINLINE void run(struct cachesim *sim, struct runner *runner, uint32_t n, uint64_t count)
{
    struct visit both[2][2 * (BATCH + MAX_STREAMS)], *now = both[0], *then = both[1];
    uint64_t batch = n < BATCH ? BATCH / n : 1, ahead = count < batch ? count : batch;
    int ordered = COMMON && count * n >= 16 * (uint64_t)sim->level[0].sets;
    for (uint32_t set = 0; ordered && set < sim->level[0].sets; set++)
        sim->order[set] = CS_NONE;
    uint32_t made = visits(sim, runner, n, ahead, now), origin = sim->front.origin;
    while (made) {
        count -= ahead;
        ahead = count < batch ? count : batch;
        uint32_t next = visits(sim, runner, n, ahead, then);
        if (ordered)
            visit_all(sim, now, made, origin, ORDERED);
        else
            visit_all(sim, now, made, origin, QUIET);
        struct visit *done = now;
        now = then;
        then = done;
        made = next;
    }
    sim->front.origin = origin;
}
