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
    uint64_t address, stride;
    uint64_t at;              /* the iteration that address is of */
    uint64_t next;            /* iteration in which it comes to other lines */
    uint32_t *set[2];         /* where its lines are looked for in level 1, and what stands in front while nothing changed */
    uint32_t line[2], mask;
    uint32_t bytes, kind, lines, times, number;
    uint32_t odd;             /* neither sleeps nor is noted as a whole */
};

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
        return (size - (first > last ? first : last) + stride - 1) / stride;
    }
    return (first < last ? first : last) / (uint32_t)-stream->stride + 1;
}

static INLINE void ask_again(struct cachesim *sim, const struct stream *stream, uint32_t q)
{
    ask(sim, stream->set[q], stream->line[q] & CS_LINE, stream->kind == CS_STORE);
    if (stream->kind == CS_UPDATE)
        ask(sim, stream->set[q], stream->line[q] & CS_LINE, 1);
}

/* A stream comes to other lines. */
static INLINE void move(struct cachesim *sim, struct stream *stream, uint64_t now)
{
    sim->origin = stream->number;
    if (__builtin_expect(stream->odd, 0)) {
        access_odd(sim, stream->address, stream->bytes, stream->kind);
        stream->address += stream->stride;
        stream->next = now + 1;
        return;
    }
    sim->asked += (now - stream->at) * stream->lines * stream->times;
    uint64_t address = stream->address += (now - stream->at) * stream->stride;
    stream->at = now;
    stream->next = now + steps(stream, address, SIZE);
    uint32_t lines = (address & (SIZE - 1)) + stream->bytes > SIZE ? 2 : 1;
    stream->lines = lines;
    for (uint32_t q = 0; q < lines; q++) {
        uint64_t virtual_line = (address >> LINE_BITS) + q;
        uint32_t label = cs_label(sim, virtual_line >> PAGE_LINE_BITS);
        uint32_t line = label << PAGE_LINE_BITS | IN_PAGE(virtual_line);
        struct cs_page *page = &sim->pages[label];
        note_lines(page, UINT64_C(1) << IN_PAGE(line), stream->kind);
        stream->set[q] = tags_of(sim, 0, page, line);
        stream->line[q] = line | (stream->mask & CS_DIRTY);
        ask_again(sim, stream, q);
    }
}

/* Notes bytes in a row as touched; the pages have been. */
static NOINLINE void note_bytes(struct cachesim *sim, uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;
    while (address < end) {
        uint64_t page_end = (address | ((1u << CS_PAGE_BITS) - 1)) + 1, stop = page_end < end ? page_end : end;
        uint64_t *chunk = sim->touched + (size_t)cs_label(sim, address >> CS_PAGE_BITS) * CS_CHUNKS;
        for (; address < stop; address = (address | 63) + 1) {
            uint64_t piece = (address | 63) + 1 < stop ? (address | 63) + 1 - address : stop - address;
            chunk[address >> 6 & 63] |= bits_of(address, (uint32_t)piece);
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
        sim->touched[(size_t)cs_label(sim, start >> CS_PAGE_BITS) * CS_CHUNKS + (start >> 6 & 63)] |= bits_of(start, bytes);
    }
}

static NOINLINE void walk(struct cachesim *sim, struct stream *stream, uint32_t n, uint64_t count, int apart)
{
    uint32_t ways = sim->level[0].ways;
    for (uint64_t now = 0; now < count;) {
        uint64_t next = UINT64_MAX, misses = sim->level[0].misses, removals = sim->removals;
        uint32_t lines = 0;
        for (struct stream *s = stream; s < stream + n; s++) {
            if (s->next == now) {
                move(sim, s, now);
            } else {
                sim->origin = s->number;
                for (uint32_t q = 0; q < s->lines; q++)
                    if ((*s->set[q] & s->mask) != s->line[q])
                        ask_again(sim, s, q);
            }
            lines += s->lines;
            next = s->next < next ? s->next : next;
        }
        now++;
        if (next > now && ((lines <= ways && sim->removals == removals && apart) || sim->level[0].misses == misses))
            now = next;
    }
}

/* Streams that all come to another line in every iteration: what they will need is fetched ahead. */
static NOINLINE void run(struct cachesim *sim, struct stream *stream, uint32_t n, uint64_t count)
{
    uint64_t ahead = n < AHEAD ? AHEAD / n : 1;
    for (uint64_t now = 0; now < count; now++)
        for (struct stream *s = stream; s < stream + n; s++) {
            if (now + 2 * ahead < count)
                fetch_page(sim, s->address + s->stride + 2 * ahead * s->stride);
            if (now + ahead < count)
                fetch_sets(sim, s->address + s->stride + ahead * s->stride);
            move(sim, s, now);
        }
}

static NOINLINE void loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride,
                          const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    uint32_t origin = sim->origin;
    if (!n || n > MAX_STREAMS || count < 3) {
        for (uint64_t k = 0; k < count; k++)
            for (uint32_t i = 0; i < n; i++) {
                sim->origin = origin + i;
                access_any(sim, start[i] + k * (uint64_t)stride[i], bytes[i], kind[i]);
            }
        sim->origin = origin;
        return;
    }
    struct stream stream[MAX_STREAMS];
    int far = 1, apart = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct stream *s = &stream[i];
        int ordinary = kind[i] == CS_LOAD || kind[i] == CS_STORE || kind[i] == CS_PREFETCH || kind[i] == CS_UPDATE;
        s->address = start[i];
        s->stride = (uint64_t)stride[i];
        s->at = s->next = 0;
        s->bytes = bytes[i];
        s->kind = kind[i];
        s->odd = !ordinary || !bytes[i] || bytes[i] > SIZE;
        s->lines = 0;
        s->times = kind[i] == CS_UPDATE ? 2 : 1;
        s->mask = kind[i] == CS_STORE || kind[i] == CS_UPDATE ? CS_DIRTY | CS_LINE : CS_LINE;
        s->number = origin + i;
        uint64_t step = stride[i] < 0 ? -(uint64_t)stride[i] : (uint64_t)stride[i];
        apart &= !s->odd;
        far &= !s->odd && step >= 1024 && step * count >= 1u << 20;
    }
    if (far)
        run(sim, stream, n, count);
    else
        walk(sim, stream, n, count, apart);
    for (uint32_t i = 0; i < n; i++) {
        struct stream *s = &stream[i];
        if (s->odd)
            continue;
        sim->asked += (count - s->at) * s->lines * s->times;
        if (s->kind != CS_PREFETCH)
            note_stream(sim, start[i], s->stride, s->bytes, count);
    }
    sim->origin = origin;
}
