/*
 * Loops over streams: the one-by-one order, without doing one by one what changes nothing.
 *
 * An access to a line that its stream has already touched in the iteration before is a plain hit as long as that line stays
 * in level 1: all it does is to make the line the most recent once more. So between two iterations in which it moves to
 * another line (an event) a stream sleeps; its hits are counted when it wakes, and the time of its last access is noted
 * when somebody is about to look: before the next line has to leave level 1. Time is a formula, iteration * accesses per
 * iteration + place, so it can be noted late.
 *
 * That holds while no sleeper's line is taken out of level 1. A line that goes and is younger than the iteration before
 * (sim->watch) may be one: then the rest of the iteration and the next ones are done one by one, until all sleepers'
 * lines are in level 1 again.
 *
 * Events are made in batches ahead of their time, so that the sets they will need can be fetched meanwhile.
 */

#define MAX_STREAMS 64u
#define BATCH 32u

struct stream {
    uint64_t start, stride;
    uint32_t bytes, kind;
    uint32_t lazy;  /* may sleep: an ordinary access of at most two lines */
    uint32_t times; /* accesses of a line in an iteration */
    uint64_t place; /* of its first access within an iteration's time */
    uint64_t next;  /* iteration of the next event to be made */
    /* as far as events have been carried out */
    uint64_t last;  /* iteration whose accesses have been counted */
    uint32_t lines, slot[2];
};

struct event {
    uint64_t iteration, line;
    struct cs_page *page; /* NULL if not known yet */
    uint32_t stream, lines;
};

struct batch {
    uint32_t count;
    struct event event[BATCH + MAX_STREAMS];
};

struct walk {
    struct cachesim *sim;
    struct stream *stream;
    uint32_t n, sleepers; /* sleepers: streams that stay on a line for more than an iteration, at times */
    uint64_t count, period, next, accesses;
    uint32_t origin;       /* number of the first stream's accesses */
    uint64_t base;         /* time of iteration 0, if it were part of this stretch */
    uint64_t first, start; /* first iteration of this stretch; time at which the iteration before it began */
};

static inline TARGET uint64_t time_of(const struct walk *walk, uint64_t iteration, const struct stream *stream)
{
    return walk->base + iteration * walk->period + stream->place;
}

/* Iterations after which a stream that is at this address has other lines than now. */
static inline TARGET uint64_t steps(const struct cachesim *sim, const struct stream *stream, uint64_t address)
{
    uint32_t size = 1u << sim->line_bits;
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
static TARGET void make_events(struct walk *walk, struct batch *batch)
{
    struct cachesim *sim = walk->sim;
    uint32_t made = 0;
    while (made < BATCH && walk->next < walk->count) {
        uint64_t now = walk->next, next = UINT64_MAX;
        for (uint32_t i = 0; i < walk->n; i++) {
            struct stream *stream = &walk->stream[i];
            if (stream->next == now) {
                uint64_t address = stream->start + now * stream->stride;
                uint64_t line = address >> sim->line_bits;
                uint32_t lines = (uint32_t)(((address + stream->bytes - 1) >> sim->line_bits) - line) + 1;
                batch->event[made++] = (struct event){now, line, NULL, i, lines};
                stream->next += steps(sim, stream, address);
            }
            next = stream->next < next ? stream->next : next;
        }
        walk->next = next;
    }
    batch->count = made;
}

/* Fetches what the lookup of a line in the lower levels will read. */
static inline TARGET void hint_line(const struct cachesim *sim, uint32_t line)
{
    for (uint32_t k = 1; k < sim->levels; k++) {
        const uint32_t *tags = cs_tags(&sim->level[k], line);
        for (uint32_t block = 0; block < sim->level[k].blocks; block++)
            __builtin_prefetch(tags + block * CS_BLOCK, 1);
    }
}

/* Fetches what the victims of that lookup will need, one level further down. */
static inline TARGET void hint_victims(const struct cachesim *sim, uint32_t line)
{
    for (uint32_t k = 1; k + 1 < sim->levels; k++) {
        const struct cs_level *below = &sim->level[k + 1];
        uint32_t victim = cs_tags(&sim->level[k], line)[sim->level[k].ways - 1];
        if (!victim || (below->fill != CS_VICTIM && !(victim & CS_DIRTY)))
            continue;
        const uint32_t *tags = cs_tags(below, victim & CS_LINE);
        for (uint32_t block = 0; block < below->blocks; block++)
            __builtin_prefetch(tags + block * CS_BLOCK, 1);
    }
}

/* The line of an event that its stream was not on before. */
static inline TARGET uint64_t new_line(const struct walk *walk, const struct event *event)
{
    return event->line + ((int64_t)walk->stream[event->stream].stride > 0 ? event->lines - 1 : 0);
}

static TARGET void hint_events(const struct walk *walk, struct batch *batch)
{
    const struct cachesim *sim = walk->sim;
    for (uint32_t e = 0; e < batch->count; e++) {
        uint64_t line = new_line(walk, &batch->event[e]);
        struct cs_page *page = cs_page_seen(sim, line >> sim->page_line_bits);
        if (!page || !page->line)
            continue;
        batch->event[e].page = page;
        hint_line(sim, page->line | cs_in_page(sim, line));
    }
}

static TARGET void hint_event_victims(const struct walk *walk, const struct batch *batch)
{
    const struct cachesim *sim = walk->sim;
    for (uint32_t e = 0; e < batch->count; e++)
        if (batch->event[e].page)
            hint_victims(sim, batch->event[e].page->line | cs_in_page(sim, new_line(walk, &batch->event[e])));
}

/* Notes the times of the sleepers' last accesses before a point: this iteration for streams before `place`, else the last. */
static inline TARGET void note_times(const struct walk *walk, uint64_t iteration, uint32_t place)
{
    uint64_t *stamps = walk->sim->front.stamp;
    for (uint32_t i = 0; i < walk->n; i++) {
        const struct stream *stream = &walk->stream[i];
        if (iteration - (i >= place) < walk->first)
            continue; /* done one by one: the times are there, and another scale */
        uint64_t time = time_of(walk, iteration - (i >= place), stream);
        for (uint32_t line = 0; line < stream->lines; line++) {
            uint64_t *stamp = &stamps[stream->slot[line]];
            *stamp = *stamp > time + line ? *stamp : time + line; /* another stream may have been there since */
        }
    }
}

/* Counts the hits of a sleeper up to and including an iteration. */
static inline TARGET void count_hits(struct walk *walk, struct stream *stream, uint64_t iteration)
{
    walk->accesses += (iteration - stream->last) * stream->lines * stream->times;
    stream->last = iteration;
}

/* One stream's access of one iteration, carried out as if it came alone. */
static TARGET void access_stream(struct walk *walk, const struct stream *stream, uint64_t iteration)
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
static TARGET int fall_asleep(struct walk *walk, uint64_t iteration)
{
    struct cachesim *sim = walk->sim;
    const struct cs_level *level = &sim->level[0];
    for (uint32_t i = 0; i < walk->n; i++) {
        struct stream *stream = &walk->stream[i];
        uint64_t address = stream->start + iteration * stream->stride;
        uint64_t first = address >> sim->line_bits;
        stream->next = iteration + steps(sim, stream, address);
        stream->last = iteration;
        stream->lines = 0;
        if (!stream->lazy)
            continue;
        uint32_t lines = (uint32_t)(((address + stream->bytes - 1) >> sim->line_bits) - first) + 1;
        for (uint32_t q = 0; q < lines; q++) {
            uint32_t line = cs_page(sim, first + q)->line | cs_in_page(sim, first + q);
            uint32_t *tags = cs_tags(level, line);
            int way = set_find(tags, level->blocks, line);
            if (way < 0 || ((stream->kind == CS_STORE || stream->kind == CS_UPDATE) && !(tags[way] & CS_DIRTY)))
                return 0;
            stream->slot[q] = (uint32_t)(tags - level->tags) + (uint32_t)way;
        }
        stream->lines = lines;
    }
    walk->first = iteration + 1;
    walk->base = sim->front.clock - walk->first * walk->period;
    walk->next = UINT64_MAX;
    for (uint32_t i = 0; i < walk->n; i++)
        walk->next = walk->stream[i].next < walk->next ? walk->stream[i].next : walk->next;
    return 1;
}

/* Carries out a batch; returns 1 if a sleeper may have lost its line, with the iteration then done to its end. */
static TARGET int carry_out(struct walk *walk, const struct batch *batch, uint64_t *iteration)
{
    struct cachesim *sim = walk->sim;
    for (uint32_t e = 0; e < batch->count; e++) {
        const struct event *event = &batch->event[e];
        struct stream *stream = &walk->stream[event->stream];
        uint64_t now = event->iteration, removals = sim->removals;
        if (walk->sleepers) {
            note_times(walk, now, event->stream);
            sim->watch = now == walk->first ? walk->start : walk->base + (now - 1) * walk->period;
        }
        sim->front.clock = time_of(walk, now, stream) - 1;
        sim->front.origin = walk->origin + event->stream;
        if (stream->lazy) {
            count_hits(walk, stream, now - 1);
            stream->lines = event->lines;
            count_hits(walk, stream, now);
            for (uint32_t q = 0; q < event->lines; q++) {
                uint64_t line = event->line + q, time = ++sim->front.clock;
                struct cs_page *page = event->page && event->lines == 1 ? event->page : cs_page(sim, line);
                uint32_t kind = stream->kind == CS_UPDATE ? CS_LOAD : stream->kind;
                stream->slot[q] = touch(sim, page, line, kind, time);
                if (stream->kind == CS_UPDATE)
                    stream->slot[q] = touch(sim, page, line, CS_STORE, time);
            }
        } else {
            access_stream(walk, stream, now);
        }
        if (walk->sleepers && sim->removals != removals) {
            for (uint32_t i = 0; i < walk->n; i++)
                if (walk->stream[i].lazy)
                    count_hits(walk, &walk->stream[i], now - (i > event->stream));
            sim->front.clock = walk->base + now * walk->period + walk->period;
            for (uint32_t i = event->stream + 1; i < walk->n; i++)
                access_stream(walk, &walk->stream[i], now);
            *iteration = now + 1;
            return 1;
        }
    }
    return 0;
}

/* Iterations from the first given on, with sleeping; returns the first iteration that is not done. */
static TARGET uint64_t walk_events(struct walk *walk)
{
    struct batch batches[2], *now = &batches[0], *then = &batches[1];
    uint64_t iteration = walk->count;
    make_events(walk, now);
    hint_events(walk, now);
    int lost = 0;
    while (now->count && !lost) {
        hint_event_victims(walk, now);
        make_events(walk, then);
        hint_events(walk, then);
        lost = carry_out(walk, now, &iteration);
        struct batch *done = now;
        now = then;
        then = done;
    }
    walk->sim->watch = CS_NONE;
    if (lost)
        return iteration;
    note_times(walk, walk->count, 0);
    for (uint32_t i = 0; i < walk->n; i++)
        if (walk->stream[i].lazy)
            count_hits(walk, &walk->stream[i], walk->count - 1);
    walk->sim->front.clock = walk->base + walk->count * walk->period;
    return walk->count;
}

static TARGET void loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride,
                        const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    struct stream stream[MAX_STREAMS];
    uint32_t origin = sim->front.origin;
    if (n > MAX_STREAMS || count < 3) {
        for (uint64_t k = 0; k < count; k++)
            for (uint32_t i = 0; i < n; i++) {
                sim->front.origin = origin + i;
                access_any(sim, start[i] + k * (uint64_t)stride[i], bytes[i], kind[i]);
            }
        sim->front.origin = origin;
        return;
    }
    struct walk walk = {.sim = sim, .stream = stream, .n = n, .count = count, .origin = origin};
    uint64_t size = UINT64_C(1) << sim->line_bits;
    for (uint32_t i = 0; i < n; i++) {
        int ordinary = kind[i] == CS_LOAD || kind[i] == CS_STORE || kind[i] == CS_PREFETCH || kind[i] == CS_UPDATE;
        stream[i] = (struct stream){.start = start[i], .stride = (uint64_t)stride[i], .bytes = bytes[i], .kind = kind[i]};
        stream[i].lazy = ordinary && bytes[i] && bytes[i] <= size;
        stream[i].times = kind[i] == CS_UPDATE ? 2 : 1;
        stream[i].place = walk.period + 1;
        walk.period += 2 * ((bytes[i] + size - 1) / size + 1);
        walk.sleepers += stream[i].lazy && stream[i].stride + size - 1 < 2 * size - 1;
    }
    uint64_t hits = sim->front.clock - sim->not_hits, misses = sim->not_hits;
    uint64_t iteration = 0, patience = 1;
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
    sim->front.origin = origin;
    hits += walk.accesses - (sim->not_hits - misses);
    sim->not_hits = sim->front.clock - hits;
}
