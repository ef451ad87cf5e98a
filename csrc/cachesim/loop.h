/*
 * Loops over streams: the one-by-one order, without doing one by one what changes nothing.
 *
 * An access to a line that its stream has already touched in the iteration before is a plain hit as long as that line stays
 * in level 1: all it does is to make the line the most recent once more. So between two iterations in which it moves to
 * another line (an event) a stream sleeps, and its hits are counted in one sum. Time is a formula, iteration * accesses per
 * iteration + place, so the time of its last access can be noted when it wakes: till then its line has a time that is too
 * old, but not older than `watch`, and nobody looks at times but who has to find the oldest line of a set. If that one is
 * older than `watch`, it is the right one. If not, the sleepers' times are noted, `watch` moves up, and the choice is made
 * again; if it then still falls on a line younger than `watch`, a sleeper may have lost its line (so it may if a lower
 * level took such a line out of level 1). Then the rest of the iteration and the next ones are done one by one, until
 * all sleepers' lines are in level 1 again.
 *
 * Events are made in batches ahead of their time, so that the sets they will need can be fetched meanwhile.
 */

struct stream {
    uint64_t start, stride;
    uint32_t bytes, kind;
    uint32_t lazy;    /* may sleep: an ordinary access of at most two lines */
    uint32_t times;   /* accesses of a line in an iteration */
    uint64_t place;   /* of its first access within an iteration's time */
    /* of the next event to be made */
    uint64_t next, address; /* iteration and address */
    struct lookout lookout;
    /* as far as events have been carried out */
    uint32_t lines, slot[2]; /* lines it sleeps on */
    uint64_t since;          /* the iteration from which on it does */
};

struct event {
    uint64_t iteration, line; /* line: the first, virtual */
    struct cs_page *page;     /* of the line that is new to the stream; NULL if not known */
    uint32_t physical;        /* that line; only with page */
    uint16_t stream, lines;
};

struct batch {
    uint32_t count;
    struct event event[BATCH + MAX_STREAMS];
};

struct cs_walk {
    struct cachesim *sim;
    struct stream *stream;
    uint32_t n;
    uint64_t count, period, next;
    uint32_t origin;           /* number of the first stream's accesses */
    uint64_t accesses;         /* so far, those of sleepers up to where they began to sleep */
    uint64_t base;             /* time of iteration 0, if it were part of this stretch */
    uint64_t first, start;     /* first iteration of this stretch; time at which the iteration before it began */
    const struct event *event; /* being carried out */
};

static INLINE uint64_t time_of(const struct cs_walk *walk, uint64_t iteration, const struct stream *stream)
{
    return walk->base + iteration * walk->period + stream->place;
}

/* Iterations after which a stream that is at this address has other lines than now. */
static INLINE uint64_t steps(const struct stream *stream, uint64_t address, uint32_t size)
{
    uint32_t first = (uint32_t)address & (size - 1), last = (uint32_t)(address + stream->bytes - 1) & (size - 1);
    if (!stream->lazy || stream->stride + size - 1 >= 2 * size - 1) /* |stride| >= size */
        return 1;
    if (!stream->stride)
        return UINT64_MAX / 2;
    if (stream->stride < size) {
        uint32_t stride = (uint32_t)stream->stride;
        return (size - (first > last ? first : last) + stride - 1) / stride;
    }
    return (first < last ? first : last) / (uint32_t)-stream->stride + 1;
}

/* The next batch of events, in order; empty at the end of the loop. */
static NOINLINE void make_events(struct cs_walk *walk, struct batch *batch)
{
    const struct cachesim *sim = walk->sim;
    struct event *event = batch->event;
    while (event < batch->event + BATCH && walk->next < walk->count) {
        uint64_t now = walk->next, next = UINT64_MAX;
        for (uint32_t i = 0; i < walk->n; i++) {
            struct stream *stream = &walk->stream[i];
            if (stream->next == now) {
                uint64_t address = stream->address, line = address >> LINE_BITS;
                uint64_t last = (address + stream->bytes - 1) >> LINE_BITS;
                uint64_t sleep = steps(stream, address, SIZE);
                stream->next = now + sleep;
                stream->address = address + sleep * stream->stride;
                event->iteration = now;
                event->line = line;
                event->stream = (uint16_t)i;
                event->lines = (uint16_t)(last - line + 1);
                if ((int64_t)stream->stride > 0)
                    line = last; /* the one it was not on before */
                event->page = look_at(sim, &stream->lookout, line, &event->physical);
                event++;
            }
            next = stream->next < next ? stream->next : next;
        }
        walk->next = next;
    }
    batch->count = (uint32_t)(event - batch->event);
}

/* Notes when a sleeper last used its lines: in this iteration. */
static INLINE void note_time(const struct cs_walk *walk, const struct stream *stream, uint64_t iteration)
{
    if (iteration < walk->first)
        return; /* done one by one: the times are there, and of another scale */
    uint64_t time = time_of(walk, iteration, stream);
    for (uint32_t q = 0; q < stream->lines; q++) {
        uint64_t *stamp = &walk->sim->front.stamp[stream->slot[q]];
        if (*stamp && *stamp < time + q) /* 0: taken out; later: another stream has been there since */
            *stamp = time + q;
    }
}

/* The same for all: before the access of the stream at `place` in iteration `now`. */
static NOINLINE void note_times(const struct cs_walk *walk, uint64_t now, uint32_t place)
{
    for (uint32_t i = 0; i < walk->n; i++)
        note_time(walk, &walk->stream[i], now - (i >= place));
}

/* The oldest line of a set seems not older than `watch`: brings times and `watch` up to date. */
static NOINLINE void note_all(struct cachesim *sim)
{
    struct cs_walk *walk = sim->walk;
    uint64_t now = walk->event->iteration;
    note_times(walk, now, walk->event->stream);
    if (now > walk->first)
        sim->watch = walk->base + (now - 1) * walk->period;
}

/* Counts a sleeper's accesses up to and including an iteration. */
static INLINE void count_sleep(struct cs_walk *walk, struct stream *stream, uint64_t iteration)
{
    walk->accesses += (iteration + 1 - stream->since) * stream->lines * stream->times;
    stream->since = iteration + 1;
}

/* One stream's access of one iteration, carried out as if it came alone. */
static INLINE void access_stream(struct cs_walk *walk, const struct stream *stream, uint64_t iteration)
{
    struct cachesim *sim = walk->sim;
    uint64_t clock = sim->front.clock;
    sim->front.origin = walk->origin + (uint32_t)(stream - walk->stream);
    access_any(sim, stream->start + iteration * stream->stride, stream->bytes, stream->kind);
    walk->accesses += sim->front.clock - clock;
}

/*
 * After an iteration done one by one: finds the lines of all streams in level 1, from where they may sleep. Returns 0 if
 * one is missing.
 */
static NOINLINE int fall_asleep(struct cs_walk *walk, uint64_t iteration)
{
    struct cachesim *sim = walk->sim;
    walk->next = UINT64_MAX;
    for (uint32_t i = 0; i < walk->n; i++) {
        struct stream *stream = &walk->stream[i];
        uint64_t address = stream->start + iteration * stream->stride, sleep = steps(stream, address, SIZE);
        uint64_t first = address >> LINE_BITS, last = (address + stream->bytes - 1) >> LINE_BITS;
        stream->next = iteration + sleep;
        stream->address = address + sleep * stream->stride;
        stream->since = iteration + 1;
        stream->lines = 0;
        walk->next = stream->next < walk->next ? stream->next : walk->next;
        if (!stream->lazy)
            continue;
        for (uint64_t virtual_line = first; virtual_line <= last; virtual_line++) {
            uint32_t line = cs_page(sim, virtual_line)->line | IN_PAGE(virtual_line);
            uint32_t at = SET(0, line) << ROOM_BITS(0);
            int way = set_find(sim->level[0].tags + at, BLOCKS(0), line);
            if (way < 0 || ((stream->kind == CS_STORE || stream->kind == CS_UPDATE) &&
                            !(sim->level[0].tags[at + (uint32_t)way] & CS_DIRTY)))
                return 0;
            stream->slot[stream->lines++] = at + (uint32_t)way;
        }
    }
    walk->first = iteration + 1;
    walk->base = sim->front.clock - walk->first * walk->period;
    sim->watch = walk->start;
    return 1;
}

/* A sleeper may have lost its line: does the iteration to its end, one by one; returns the next. */
static NOINLINE uint64_t wake_up(struct cs_walk *walk)
{
    struct cachesim *sim = walk->sim;
    uint64_t now = walk->event->iteration;
    uint32_t place = walk->event->stream;
    note_times(walk, now, place);
    for (uint32_t i = 0; i < walk->n; i++)
        if (walk->stream[i].lazy)
            count_sleep(walk, &walk->stream[i], now - (i > place));
    sim->front.clock = walk->base + (now + 1) * walk->period;
    sim->watch = CS_NONE;
    for (uint32_t i = place + 1; i < walk->n; i++)
        access_stream(walk, &walk->stream[i], now);
    return now + 1;
}

/* An event that is not one line given up for another by a load, a store or a prefetch. */
static NOINLINE void carry_out_odd(struct cs_walk *walk, const struct event *event, struct stream *stream)
{
    struct cachesim *sim = walk->sim;
    uint64_t time = time_of(walk, event->iteration, stream);
    if (!stream->lazy) {
        sim->front.clock = time - 1;
        access_stream(walk, stream, event->iteration);
        return;
    }
    note_time(walk, stream, event->iteration - 1);
    count_sleep(walk, stream, event->iteration - 1);
    uint32_t slot[2] = {0, 0};
    for (uint32_t q = 0; q < event->lines; q++) {
        uint64_t line = event->line + q;
        struct cs_page *page = cs_page(sim, line);
        uint32_t physical = page->line | IN_PAGE(line);
        slot[q] = touch(sim, page, physical, line, stream->kind == CS_UPDATE ? CS_LOAD : stream->kind, time + q, QUIET);
        if (stream->kind == CS_UPDATE)
            slot[q] = touch(sim, page, physical, line, CS_STORE, time + q, QUIET);
    }
    /* only now: whoever notes times meanwhile still has to find the lines it slept on */
    stream->lines = event->lines;
    stream->slot[0] = slot[0];
    stream->slot[1] = slot[1];
}

/* Carries out a batch; returns 1 if it was left because of a sleeper. */
static NOINLINE int carry_out(struct cs_walk *walk, const struct batch *batch)
{
    struct cachesim *sim = walk->sim;
    uint64_t removals = sim->removals, *stamps = sim->front.stamp;
    const struct event *end = batch->event + batch->count;
    for (const struct event *event = batch->event; event < end; event++) {
        struct stream *stream = &walk->stream[event->stream];
        walk->event = event;
        sim->front.origin = walk->origin + event->stream;
        if (stream->lazy && event->lines == 1 && stream->lines == 1 && stream->kind != CS_UPDATE && event->page) {
            uint64_t time = time_of(walk, event->iteration, stream);
            uint64_t *stamp = &stamps[stream->slot[0]];
            /* note_time: the line may never be looked at again */
            if (*stamp < time - walk->period && *stamp && event->iteration > walk->first)
                *stamp = time - walk->period;
            stream->slot[0] = touch(sim, event->page, event->physical, event->line, stream->kind, time, QUIET);
        } else {
            carry_out_odd(walk, event, stream);
        }
        if (__builtin_expect(sim->removals != removals, 0))
            return 1;
    }
    return 0;
}

/* Iterations from walk->first on, with sleeping; returns the first iteration that is not done. */
static NOINLINE uint64_t walk_events(struct cs_walk *walk)
{
    struct batch batches[2], *now = &batches[0], *then = &batches[1];
    make_events(walk, now);
    while (now->count) {
        make_events(walk, then);
        if (carry_out(walk, now))
            return wake_up(walk);
        struct batch *done = now;
        now = then;
        then = done;
    }
    note_times(walk, walk->count, 0);
    for (uint32_t i = 0; i < walk->n; i++)
        if (walk->stream[i].lazy)
            count_sleep(walk, &walk->stream[i], walk->count - 1);
    walk->sim->front.clock = walk->base + walk->count * walk->period;
    walk->sim->watch = CS_NONE;
    return walk->count;
}

static NOINLINE void loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride,
                          const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    uint32_t origin = sim->front.origin;
    if (!n || n > MAX_STREAMS || count < 3) {
        for (uint64_t k = 0; k < count; k++)
            for (uint32_t i = 0; i < n; i++) {
                sim->front.origin = origin + i;
                access_any(sim, start[i] + k * (uint64_t)stride[i], bytes[i], kind[i]);
            }
        sim->front.origin = origin;
        return;
    }
    struct stream stream[MAX_STREAMS];
    struct runner runner[MAX_STREAMS];
    struct cs_walk walk = {.sim = sim, .stream = stream, .n = n, .count = count, .origin = origin};
    int running = 1;
    for (uint32_t i = 0; i < n; i++) {
        int ordinary = kind[i] == CS_LOAD || kind[i] == CS_STORE || kind[i] == CS_PREFETCH || kind[i] == CS_UPDATE;
        stream[i] = (struct stream){.start = start[i], .stride = (uint64_t)stride[i], .bytes = bytes[i], .kind = kind[i]};
        stream[i].lazy = ordinary && bytes[i] && bytes[i] <= SIZE;
        stream[i].times = kind[i] == CS_UPDATE ? 2 : 1;
        stream[i].place = walk.period + 1;
        stream[i].lookout.number = CS_NONE;
        walk.period += 2 * (((uint64_t)bytes[i] + SIZE - 1) / SIZE + 1);
        runner[i] = (struct runner){start[i], (uint64_t)stride[i], bytes[i] - 1, (uint16_t)kind[i], (uint16_t)i, {NULL, CS_NONE}};
        uint64_t magnitude = stride[i] < 0 ? -(uint64_t)stride[i] : (uint64_t)stride[i];
        running &= stream[i].lazy && kind[i] != CS_UPDATE && magnitude >= SIZE;
    }
    if (running) {
        run(sim, runner, n, count);
        return;
    }
    uint64_t accesses = sim->front.clock - sim->clock_bias, iteration = 0, patience = 1;
    sim->walk = &walk;
    while (iteration < count) {
        for (uint64_t i = 0; i < patience && iteration < count; i++, iteration++) {
            walk.start = sim->front.clock;
            for (uint32_t s = 0; s < n; s++)
                access_stream(&walk, &stream[s], iteration);
        }
        if (iteration == count)
            break;
        if (fall_asleep(&walk, iteration - 1)) {
            iteration = walk_events(&walk);
            patience = 1;
        } else {
            patience = patience < 64 ? 2 * patience : 64;
        }
    }
    sim->walk = NULL;
    sim->front.origin = origin;
    sim->clock_bias = sim->front.clock - accesses - walk.accesses;
}

static NOINLINE void accesses(struct cachesim *sim, const uint64_t *addresses, const uint32_t *bytes,
                              const uint32_t *kinds, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] || kinds[i] == CS_FENCE)
            cachesim_fast(sim, addresses[i], bytes[i] ? bytes[i] : 1, kinds[i]);
}
