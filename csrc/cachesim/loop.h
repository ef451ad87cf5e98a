/*
 * Loops over streams: the one-by-one order, without doing one by one what changes nothing.
 *
 * A stream that stays on its line asks for it once more in every iteration. If the line is still the most recent of its set,
 * that changes nothing, and one comparison tells. And once an iteration has left all lines in level 1, in the order of the
 * streams, a further one in which no stream moves on leaves them just so: all of these are skipped. Lines are left in level
 * 1 if an iteration asked for no more of them than a set has ways (what it asked for is younger than all else), or had no miss;
 * unless a lower level took one out.
 */

#define MAX_STREAMS 256u

struct stream {
    uint64_t next;            /* iteration in which it comes to other lines */
    uint64_t address;         /* of a steady stream: then; of another: in iteration `at` */
    uint64_t stride, at;
    /* It is steady if it is on one line at a time, for the same number of iterations each. */
    uint64_t period, jump;    /* that number, and the distance to the next line; period 0 if it is not */
    uint64_t page;            /* the last it was on, and its label */
    uint32_t label;
    uint32_t lines, own;      /* that it covers, and those of this part */
    uint32_t *set[2];         /* where its lines are looked for in level 1, and what stands in front while nothing changed */
    uint32_t line[2], mask;
    /*
     * Streams that follow a steady one and are always on its line change nothing but what is counted and noted: they are
     * merged into it; `bits` is what is touched of each line. `times` is how often an access asks for a line.
     */
    uint32_t times, shift;    /* shift: the log2 of a stride that is a power of two below the line size, else 0 */
    uint64_t bits;            /* 0: noted afterwards, as a whole */
    uint32_t gapless;         /* iterations after which it has touched all bytes of a line that it came to: noted as it comes; or 0 */
    uint32_t bytes, kind, number;
    uint32_t odd;             /* neither sleeps nor is noted as a whole */
    uint32_t split;           /* FIRST_BYTE or LAST_BYTE: see below */
    /*
     * An earlier stream that is always on the same line, with others in between, and notes for this one too: if the line is
     * still in front of its set, nothing changes.
     */
    struct stream *leader;
};

/*
 * Accesses that cross into another line now and then, at a stride that is a power of two below the line size, are two steady
 * streams of one byte each, the first and the last. Where both are on one line, the second ask changes nothing.
 */
enum { WHOLE, FIRST_BYTE, LAST_BYTE };

/* Iterations after which a stream that is at this address has other lines than now. */
static INLINE uint64_t steps(const struct stream *stream, uint64_t address, uint32_t size)
{
    uint32_t first = (uint32_t)address & (size - 1), last = (uint32_t)(address + stream->bytes - 1) & (size - 1);
    if (stream->stride + size - 1 >= 2 * size - 1) /* |stride| >= size */
        return 1;
    if (!stream->stride)
        return UINT64_MAX / 2;
    if (stream->stride < size) {
        uint32_t stride = (uint32_t)stream->stride;
        if (stream->shift)
            return (size - (first > last ? first : last) + stride - 1) >> stream->shift;
        return (size - (first > last ? first : last) + stride - 1) / stride;
    }
    return (first < last ? first : last) / (uint32_t)-stream->stride + 1;
}

static NOINLINE void ask_again(struct cachesim *sim, const struct stream *stream, uint32_t q)
{
    ask(sim, stream->set[q], stream->line[q] & CS_LINE, stream->kind == CS_STORE);
    if (stream->kind == CS_UPDATE)
        ask(sim, stream->set[q], stream->line[q] & CS_LINE, 1);
}

/* Where a stream stands while its line is another part's: no tag, which never changes. */
static uint32_t elsewhere[1];

static INLINE void come_to(struct cachesim *sim, struct stream *stream, uint64_t address, uint32_t q)
{
    if (cs_foreign(sim, address >> LINE_BITS)) {
        stream->set[q] = elsewhere;
        stream->line[q] = 0;
        return;
    }
    if (address >> CS_PAGE_BITS != stream->page) {
        stream->page = address >> CS_PAGE_BITS;
        stream->label = cs_label(sim, stream->page);
    }
    uint32_t line = stream->label << PAGE_LINE_BITS | IN_PAGE(address >> LINE_BITS);
    if (LINE_BITS == 6 && stream->bits)
        note_piece(sim, line, stream->bits, stream->kind);
    else
        note_line(sim, line, stream->kind);
    stream->set[q] = tags_of(sim, 0, line);
    stream->line[q] = line | (stream->mask & CS_DIRTY);
    ask(sim, stream->set[q], line, stream->kind == CS_STORE);
    if (stream->kind == CS_UPDATE)
        ask(sim, stream->set[q], line, 1);
}

/* An unsteady stream comes to other lines. */
static NOINLINE void move(struct cachesim *sim, struct stream *stream, uint64_t now)
{
    if (stream->odd) {
        access_odd(sim, stream->address, stream->bytes, stream->kind);
        stream->address += stream->stride;
        stream->next = now + 1;
        return;
    }
    if (!sim->part)
        sim->asked += (now - stream->at) * stream->lines * stream->times;
    uint64_t address = stream->address += (now - stream->at) * stream->stride;
    stream->at = now;
    stream->next = now + steps(stream, address, SIZE);
    stream->lines = (address & (SIZE - 1)) + stream->bytes > SIZE ? 2 : 1;
    stream->own = !cs_foreign(sim, address >> LINE_BITS);
    come_to(sim, stream, address, 0);
    if (stream->lines == 2) {
        stream->own += !cs_foreign(sim, (address >> LINE_BITS) + 1);
        come_to(sim, stream, (address | (SIZE - 1)) + 1, 1);
    }
}

/* Fills in whether a stream is steady, and what it notes as it goes. */
static INLINE void see_whether_steady(const struct cachesim *sim, struct stream *s)
{
    uint64_t step = (int64_t)s->stride < 0 ? -s->stride : s->stride, offset = s->address & (SIZE - 1);
    (void)sim; /* not needed where the shape is fixed */
    s->period = s->bits = s->shift = s->gapless = 0;
    if (s->odd)
        return;
    int power = !(step & (step - 1));
    if (power && step && step < SIZE)
        s->shift = (uint32_t)__builtin_ctzll(step);
    if (!(step & (SIZE - 1)) && offset + s->bytes <= SIZE) { /* 0 too */
        s->period = step ? 1 : UINT64_MAX / 4;
        s->jump = s->stride;
        if (LINE_BITS == 6 && s->kind != CS_PREFETCH && (step != SIZE || s->bytes < SIZE))
            s->bits = bits_of(s->address, s->bytes);
    } else if (step < SIZE && power && (offset & (step - 1)) + s->bytes <= step) {
        s->period = SIZE / step;
        s->jump = (int64_t)s->stride < 0 ? -(uint64_t)SIZE : SIZE;
        s->gapless = LINE_BITS == 6 && s->bytes == step && s->kind != CS_PREFETCH ? (uint32_t)s->period : 0;
    }
}

/* Turns a stream into that of its accesses' first or last bytes. */
static INLINE void become_byte(const struct cachesim *sim, struct stream *s, uint32_t split)
{
    (void)sim;
    s->address += split == LAST_BYTE ? s->bytes - 1 : 0;
    int gapless = LINE_BITS == 6 && split == LAST_BYTE && s->stride <= s->bytes && s->kind != CS_PREFETCH; /* nor backwards */
    s->bytes = 1;
    s->period = SIZE >> s->shift;
    s->gapless = gapless ? (uint32_t)s->period + 1 : 0;
    s->jump = (int64_t)s->stride < 0 ? -(uint64_t)SIZE : SIZE;
    s->split = split;
}

/* How many of the accesses cover two lines. */
static INLINE uint64_t crossings(const struct cachesim *sim, uint64_t start, uint64_t stride, uint32_t bytes, uint32_t shift,
                                 uint64_t count)
{
    (void)sim;
    uint64_t period = SIZE >> shift, in_period = 0, in_rest = 0;
    for (uint64_t k = 0; k < period; k++) {
        uint64_t crosses = ((start + k * stride) & (SIZE - 1)) + bytes > SIZE;
        in_period += crosses;
        in_rest += k < count % period ? crosses : 0;
    }
    return count / period * in_period + in_rest;
}

/* Merges a stream into the one before it if it may be; returns whether it did. */
static INLINE int merge(const struct cachesim *sim, struct stream *before, const struct stream *s)
{
    (void)sim;
    if (!s->bits || !before->bits || s->stride != before->stride || (s->address ^ before->address) >> LINE_BITS ||
        (s->kind != before->kind && s->kind != CS_LOAD))
        return 0;
    before->bits |= s->bits;
    if (before->leader)
        before->leader->bits |= s->bits;
    return 1;
}

#define LOOK_BACK 32

/* Finds who comes to the lines of a stream before it, if it comes to another in every iteration. */
static INLINE void find_leader(const struct cachesim *sim, const struct stream *first, struct stream *s)
{
    (void)sim;
    s->leader = NULL;
    if (s->period != 1 || !s->bits || s->kind > CS_STORE)
        return;
    for (struct stream *other = s; other-- > first && s - other < LOOK_BACK;) {
        int same = !((other->address ^ s->address) >> LINE_BITS) && other->stride == s->stride;
        if (!same || !other->bits || other->leader || (s->kind == CS_STORE && other->kind != CS_STORE))
            continue;
        s->leader = other;
        other->bits |= s->bits;
        return;
    }
}

/* Counts what a steady stream asks for; returns whether it takes part: it need not if all its lines are another part's, or another
   stream stands for it. */
static INLINE int takes_part(struct cachesim *sim, struct stream *first, struct stream *s, uint64_t count)
{
    if (s->period && !sim->part)
        sim->asked += count * s->times;
    uint64_t between_parts = (uint64_t)sim->part_mask << LINE_BITS;
    if (s->period && !(s->jump & between_parts) && cs_foreign(sim, s->address >> LINE_BITS))
        return 0;
    /* what a prefetcher brings for a line may take that out of level 1 at once */
    if (s > first && !sim->prefetch && merge(sim, s - 1, s))
        return 0;
    find_leader(sim, first, s);
    return 1;
}

/* Notes bytes in a row as touched; the pages have been. */
static NOINLINE void note_bytes(struct cachesim *sim, uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;
    while (address < end) {
        uint64_t page_end = (address | ((1u << CS_PAGE_BITS) - 1)) + 1, stop = page_end < end ? page_end : end;
        uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
        uint32_t first = address >> 6 & 63, last = (uint32_t)((stop - 1) >> 6 & 63);
        uint64_t from = UINT64_MAX << (address & 63), to = UINT64_MAX >> (63 - ((stop - 1) & 63));
        for (uint32_t i = first; label && i <= last; i++) {
            if (cs_foreign(sim, i))
                continue;
            sim->noted[cs_chunk(sim, label, i)].touched |= (i == first ? from : UINT64_MAX) & (i == last ? to : UINT64_MAX);
        }
        address = stop;
    }
}

/* Notes all bytes of a stream's accesses, of which there are `count`. */
static NOINLINE void note_stream(struct cachesim *sim, uint64_t start, uint64_t stride, uint32_t bytes, uint64_t count)
{
    if ((int64_t)stride < 0) {
        start += (count - 1) * stride;
        stride = -stride;
    }
    if (!stride)
        count = 1;
    if (stride <= bytes) {
        note_bytes(sim, start, (count - 1) * stride + bytes);
        return;
    }
    for (; count; count--, start += stride) {
        if ((start & 63) + bytes > 64) {
            note_bytes(sim, start, bytes);
            continue;
        }
        if (!cs_foreign(sim, start >> 6))
            sim->noted[cs_chunk(sim, cs_label(sim, start >> CS_PAGE_BITS), start >> 6 & 63)].touched |= bits_of(start, bytes);
    }
}

/* Notes the bytes in the first two lines of a gapless stream and in the last. */
static INLINE void note_ends(struct cachesim *sim, uint64_t start, uint64_t stride, uint32_t bytes, uint64_t count)
{
    uint64_t other = start + (count - 1) * stride, low = start < other ? start : other, end = (low ^ start ^ other) + bytes;
    uint64_t next = (low | (SIZE - 1)) + 1 + SIZE, last = (end - 1) & ~(uint64_t)(SIZE - 1);
    note_bytes(sim, low, (next < end ? next : end) - low);
    if (last >= next)
        note_bytes(sim, last, end - last);
}

/* A steady stream comes to its next line, of which more follow; `left` iterations are to come with this one. */
static INLINE void advance(struct cachesim *sim, struct stream *s, uint64_t left)
{
    if (s->split == FIRST_BYTE && !(((s[1].address - s[1].jump) ^ s->address) >> LINE_BITS)) {
        /* the access's last byte is there already */
        s->set[0] = s[1].set[0];
        s->line[0] = s[1].line[0];
        s->own = s[1].own;
        s->address += s->jump;
        s->next += s->period;
        if ((*s->set[0] & s->mask) != s->line[0])
            ask_again(sim, s, 0);
        return;
    }
    if (s->gapless)
        s->bits = left >= s->gapless ? UINT64_MAX : 0;
    s->own = !cs_foreign(sim, s->address >> LINE_BITS);
    come_to(sim, s, s->address, 0);
    s->address += s->jump;
    s->next += s->period;
}

/* Its first line is the only one that it may come to in the middle. */
static INLINE void begin(struct cachesim *sim, struct stream *s)
{
    uint64_t first = steps(s, s->address, SIZE);
    s->own = !cs_foreign(sim, s->address >> LINE_BITS);
    come_to(sim, s, s->address, 0);
    s->address += first * s->stride;
    s->next = first;
    s->lines = 1;
}

static NOINLINE void walk(struct cachesim *sim, struct stream *stream, uint32_t n, uint64_t count, int ordinary)
{
    uint32_t ways = sim->level[0].ways, numbered = sim->origins != NULL;
    struct stream *end = stream + n;
    for (uint64_t now = 0; now < count;) {
        uint64_t next = UINT64_MAX, misses = sim->level[0].misses, removals = sim->removals;
        uint32_t lines = 0;
        for (struct stream *s = stream; s < end; s++) {
            if (numbered)
                sim->origin = s->number;
            if (s->next == now) {
                if (__builtin_expect(!s->period, 0))
                    move(sim, s, now);
                else if (now)
                    advance(sim, s, count - now);
                else
                    begin(sim, s);
            } else {
                if ((*s->set[0] & s->mask) != s->line[0])
                    ask_again(sim, s, 0);
                if (__builtin_expect(s->lines > 1, 0) && (*s->set[1] & s->mask) != s->line[1])
                    ask_again(sim, s, 1);
            }
            lines += s->own;
            next = s->next < next ? s->next : next;
        }
        now++;
        if (next > now && sim->removals == removals && ((lines <= ways && ordinary) || sim->level[0].misses == misses))
            now = next;
    }
}

/*
 * Steady streams that all come to another line in every iteration. While many of these lines are in no cache, what the next
 * ones will need is fetched ahead.
 */
static NOINLINE void run(struct cachesim *sim, struct stream *stream, uint32_t n, uint64_t count)
{
    uint64_t ahead = n < AHEAD / 4 ? AHEAD / n : 4, misses = far_misses(sim);
    uint32_t numbered = sim->origins != NULL, fetch = 0;
    if (sim->part_mask)
        ahead = (ahead + 7) & ~UINT64_C(7); /* of this part's lines, too, with any stride */
    for (uint64_t now = 0; now < count; now++) {
        if (now % 16 == 0) {
            fetch = far_misses(sim) - misses >= 4 * n;
            misses = far_misses(sim);
        }
        for (struct stream *s = stream; s < stream + n; s++) {
            if (numbered)
                sim->origin = s->number;
            struct stream *leader = s->leader;
            if (leader) {
                if ((*leader->set[0] ^ leader->line[0]) & s->mask)
                    ask(sim, leader->set[0], leader->line[0] & CS_LINE, s->kind == CS_STORE);
                continue;
            }
            if (cs_foreign(sim, s->address >> LINE_BITS)) {
                s->set[0] = elsewhere;
                s->line[0] = 0;
                s->address += s->stride;
                continue;
            }
            if (fetch && s->jump + 512 > 1024 && now + 2 * ahead < count) { /* of neighbours the processor thinks itself */
                fetch_page(sim, s->address + 2 * ahead * s->stride);
                fetch_sets(sim, s->address + ahead * s->stride);
                fetch_victim(sim, s->address + ahead / 2 * s->stride, 0);
                fetch_victim(sim, s->address + ahead / 4 * s->stride, 1);
            }
            come_to(sim, s, s->address, 0);
            s->address += s->stride;
        }
    }
}

static NOINLINE void loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride,
                          const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    uint32_t origin = sim->origin, stores = 0;
    for (uint32_t i = 0; sim->evades && i < n; i++)
        stores |= kind[i] == CS_STORE || kind[i] == CS_UPDATE;
    if (!n || n > MAX_STREAMS || count < 3 || !IN_ORDER(0) || stores) {
        for (uint64_t k = 0; k < count; k++)
            for (uint32_t i = 0; i < n; i++) {
                sim->origin = origin + i;
                access_any(sim, start[i] + k * (uint64_t)stride[i], bytes[i], kind[i]);
            }
        sim->origin = origin;
        return;
    }
    struct stream stream[2 * MAX_STREAMS], *s = stream;
    int all_ordinary = 1, running = 1;
    for (uint32_t i = 0; i < n; i++) {
        int ordinary = kind[i] == CS_LOAD || kind[i] == CS_STORE || kind[i] == CS_PREFETCH || kind[i] == CS_UPDATE;
        s->address = start[i];
        s->stride = (uint64_t)stride[i];
        s->at = s->next = 0;
        s->page = CS_NONE;
        s->bytes = bytes[i];
        s->kind = kind[i];
        s->odd = !ordinary || !bytes[i] || bytes[i] > SIZE;
        s->lines = s->own = 0;
        s->times = kind[i] == CS_UPDATE ? 2 : 1;
        s->mask = kind[i] == CS_STORE || kind[i] == CS_UPDATE ? CS_DIRTY | CS_LINE : CS_LINE;
        s->number = origin + i;
        s->split = WHOLE;
        s->leader = NULL;
        see_whether_steady(sim, s);
        all_ordinary &= !s->odd;
        uint32_t in_line = SIZE - ((uint32_t)s->address & (SIZE - 1));
        if (!s->odd && s->bytes > in_line && !(s->stride & (SIZE - 1))) { /* the same bytes of two lines in every iteration */
            s[1] = s[0];
            s->bytes = in_line;
            s[1].address += in_line;
            s[1].bytes -= in_line;
            see_whether_steady(sim, s);
            see_whether_steady(sim, s + 1);
            struct stream second = s[1];
            s += takes_part(sim, stream, s, count);
            *s = second;
        } else if (!s->period && s->shift && !sim->prefetch) {
            if (!sim->part)
                sim->asked += crossings(sim, start[i], s->stride, bytes[i], s->shift, count) * s->times;
            s[1] = s[0];
            become_byte(sim, s, FIRST_BYTE);
            become_byte(sim, s + 1, LAST_BYTE);
            running = 0;
            if (!sim->part)
                sim->asked += count * s->times;
            s += 2;
            continue;
        }
        running &= s->period == 1;
        s += takes_part(sim, stream, s, count);
    }
    if (s > stream && running)
        run(sim, stream, (uint32_t)(s - stream), count);
    else
        walk(sim, stream, (uint32_t)(s - stream), count, all_ordinary);
    while (s-- > stream) {
        uint32_t i = s->number - origin;
        if (s->odd || s->split == LAST_BYTE)
            continue;
        if (!s->period && !sim->part)
            sim->asked += (count - s->at) * s->lines * s->times;
        if (s->gapless || (s->split == FIRST_BYTE && s[1].gapless))
            note_ends(sim, start[i], s->stride, bytes[i], count);
        else if (s->kind != CS_PREFETCH && !s->bits)
            note_stream(sim, start[i], s->stride, bytes[i], count);
    }
    sim->origin = origin;
}
