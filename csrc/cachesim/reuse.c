/*
 * Reuse distances: how many other lines were asked for since a line was asked for last. Time goes on by one with every line
 * asked for; a line's last time has a bit, so the distance is the number of bits behind it (Bennett and Kruskal, IBM J. Res.
 * Dev. 1975). Bits are counted by a tree of sums over blocks of them (Fenwick, Softw. Pract. Exp. 1994), and times are
 * made dense again when they run out, so memory grows with the lines, not with the run.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define BLOCK_BITS 9u /* times of a block: what one line of our own memory has bits for */
#define FIRST_ROOM (1u << 16)
#define NOWHERE UINT32_MAX
#define RECENT 16u

struct known_page {
    uint64_t number; /* CS_NONE: free */
    uint32_t times;  /* where those of its lines begin */
};

struct recent {
    uint64_t line;
    uint32_t at; /* its place among the times */
};

struct counts {
    uint64_t of[CACHESIM_DISTANCES];
};

struct cs_reuse {
    struct known_page *page; /* hashed by number, at most half full */
    uint32_t page_bits, pages;
    uint32_t *time; /* of each line of these pages: the last, 0 if it has none */
    uint32_t time_room;
    uint64_t *bit;  /* of each time, whether it is a line's last */
    uint32_t *tree; /* [blocks + 1] */
    uint32_t room, now, lines; /* lines that have a time */
    /* The last lines, the latest first, have no times: what is asked for again soon is found here, and quickly. */
    struct recent recent[RECENT];
    uint32_t recents;
    uint64_t last_page;
    uint32_t last_times;
    struct counts *counts; /* [arrays + 1], other data first */
    uint32_t arrays;
};

static uint32_t slot_of(const struct cs_reuse *r, uint64_t number)
{
    uint32_t at = (uint32_t)(number * 0x9e3779b97f4a7c15u >> (64 - r->page_bits));
    while (r->page[at].number != number && r->page[at].number != CS_NONE)
        at = (at + 1) & ((1u << r->page_bits) - 1);
    return at;
}

/* Makes room for twice as many pages; -1 if memory is short. */
static int more_pages(struct cs_reuse *r)
{
    uint32_t old_bits = r->page_bits, bits = r->page ? old_bits + 1 : 10;
    struct known_page *old = r->page, *page = malloc(sizeof *page << bits);
    if (!page)
        return -1;
    for (size_t i = 0; i < (size_t)1 << bits; i++)
        page[i].number = CS_NONE;
    r->page = page;
    r->page_bits = bits;
    for (size_t i = 0; old && i < (size_t)1 << old_bits; i++)
        if (old[i].number != CS_NONE)
            page[slot_of(r, old[i].number)] = old[i];
    free(old);
    return 0;
}

/* Where the times of a page's lines begin; NOWHERE if memory is short. */
static uint32_t times_of(struct cachesim *sim, uint64_t number)
{
    struct cs_reuse *r = sim->reuse;
    uint32_t at = slot_of(r, number);
    if (r->page[at].number == number)
        return r->page[at].times;
    uint32_t each = 1u << sim->page_line_bits, begin = r->pages * each;
    if (r->pages >= UINT32_MAX / each - 1)
        return NOWHERE;
    if (begin + each > r->time_room) {
        uint32_t room = r->time_room > UINT32_MAX / 2 ? UINT32_MAX : 2 * r->time_room + 64 * each;
        uint32_t *time = realloc(r->time, room * sizeof *time);
        if (!time)
            return NOWHERE;
        r->time = time;
        r->time_room = room;
    }
    if (2 * (r->pages + 1) > 1u << r->page_bits) {
        if (more_pages(r))
            return NOWHERE;
        at = slot_of(r, number);
    }
    memset(r->time + begin, 0, each * sizeof *r->time);
    r->page[at] = (struct known_page){number, begin};
    r->pages++;
    return begin;
}

static void add(struct cs_reuse *r, uint32_t time, uint32_t change)
{
    uint32_t blocks = r->room >> BLOCK_BITS;
    for (uint32_t i = (time >> BLOCK_BITS) + 1; i <= blocks; i += i & -i)
        r->tree[i] += change;
}

/* Lines whose last time is not after this one. */
static uint32_t not_after(const struct cs_reuse *r, uint32_t time)
{
    uint32_t sum = 0, words = 1u << (BLOCK_BITS - 6), word = time >> 6;
    for (uint32_t i = time >> BLOCK_BITS; i; i -= i & -i)
        sum += r->tree[i];
    for (uint32_t w = word & ~(words - 1); w < word; w++)
        sum += (uint32_t)__builtin_popcountll(r->bit[w]);
    return sum + (uint32_t)__builtin_popcountll(r->bit[word] & UINT64_MAX >> (63 - (time & 63)));
}

/* Numbers the times anew from 1, in their order, with room for as many as there are; -1 if memory is short. */
static int renumber(struct cs_reuse *r, uint32_t line_count)
{
    uint32_t room = r->room ? r->room : FIRST_ROOM;
    while (room < UINT32_MAX / 2 && room / 2 <= r->lines + 1)
        room *= 2;
    if (room <= r->lines + 1)
        return -1;
    uint64_t *bit = calloc(room / 64, sizeof *bit);
    uint32_t *tree = calloc((room >> BLOCK_BITS) + 1, sizeof *tree);
    if (!bit || !tree) {
        free(bit);
        free(tree);
        return -1;
    }
    for (uint32_t i = 0; i < line_count; i++)
        if (r->time[i])
            r->time[i] = not_after(r, r->time[i]);
    free(r->bit);
    free(r->tree);
    r->bit = bit;
    r->tree = tree;
    r->room = room;
    for (uint32_t time = 1; time <= r->lines; time++)
        bit[time >> 6] |= UINT64_C(1) << (time & 63);
    for (uint32_t i = 1; i <= room >> BLOCK_BITS; i++) { /* a node's own block, and what its children have */
        uint32_t first = (i - 1) << BLOCK_BITS, parent = i + (i & -i);
        for (uint32_t word = first >> 6; word < (first >> 6) + (1u << (BLOCK_BITS - 6)); word++)
            tree[i] += (uint32_t)__builtin_popcountll(bit[word]);
        if (parent <= room >> BLOCK_BITS)
            tree[parent] += tree[i];
    }
    r->now = r->lines + 1;
    return 0;
}

static void forget(struct cs_reuse *r, uint32_t line_count)
{
    if (r->time) /* tables come with the first line */
        memset(r->time, 0, line_count * sizeof *r->time);
    if (r->room) {
        memset(r->bit, 0, r->room / 64 * sizeof *r->bit);
        memset(r->tree, 0, ((r->room >> BLOCK_BITS) + 1) * sizeof *r->tree);
    }
    r->now = 1;
    r->lines = r->recents = 0;
}

static void free_reuse(struct cs_reuse *r)
{
    free(r->page);
    free(r->time);
    free(r->bit);
    free(r->tree);
    free(r->counts);
    free(r);
}

int cachesim_reuse_start(struct cachesim *sim)
{
    if (sim->reuse)
        return 0;
    struct cs_reuse *r = calloc(1, sizeof *r);
    if (!r)
        return -1;
    r->last_page = CS_NONE;
    if (more_pages(r) || renumber(r, 0)) {
        free_reuse(r);
        return -1;
    }
    sim->reuse = r;
    return 0;
}

void cs_reuse_free(struct cachesim *sim)
{
    if (sim->reuse)
        free_reuse(sim->reuse);
}

void cs_reuse_reset(struct cachesim *sim)
{
    if (sim->reuse && sim->reuse->counts)
        memset(sim->reuse->counts, 0, sim->reuse->arrays * sizeof *sim->reuse->counts);
}

void cs_reuse_forget(struct cachesim *sim)
{
    if (sim->reuse)
        forget(sim->reuse, sim->reuse->pages << sim->page_line_bits);
}

/* The counts of the array that a line belongs to; NULL if memory is short. */
static struct counts *counts_of(struct cachesim *sim, uint64_t line)
{
    struct cs_reuse *r = sim->reuse;
    uint32_t array = 0;
    uint64_t first = line << sim->line_bits, end = first + (UINT64_C(1) << sim->line_bits);
    for (uint32_t i = 0; i < sim->array_count && !array; i++)
        if (sim->arrays[i].start < end && first < sim->arrays[i].end)
            array = i + 1;
    if (array >= r->arrays) {
        struct counts *counts = realloc(r->counts, (sim->array_count + 1) * sizeof *counts);
        if (!counts)
            return NULL;
        memset(counts + r->arrays, 0, (sim->array_count + 1 - r->arrays) * sizeof *counts);
        r->counts = counts;
        r->arrays = sim->array_count + 1;
    }
    return &r->counts[array];
}

static uint32_t bucket_of(uint32_t distance)
{
    return distance ? 33 - (uint32_t)__builtin_clz(distance) : 1;
}

/* A line that is not among the most recent ones takes its place in front of them; returns its bucket. */
static uint32_t becomes_recent(struct cachesim *sim, uint64_t line)
{
    struct cs_reuse *r = sim->reuse;
    uint64_t number = line >> sim->page_line_bits;
    if (number != r->last_page) {
        r->last_times = times_of(sim, number);
        r->last_page = number;
    }
    if (r->last_times == NOWHERE || (r->now == r->room && renumber(r, r->pages << sim->page_line_bits))) {
        r->last_page = CS_NONE;
        sim->error = 1;
        return 0;
    }
    uint32_t at = r->last_times + cs_in_page(sim, line), time = r->time[at], bucket = 0;
    if (time) {
        bucket = bucket_of(r->recents + r->lines - not_after(r, time));
        r->bit[time >> 6] &= ~(UINT64_C(1) << (time & 63));
        add(r, time, UINT32_MAX); /* one less */
        r->time[at] = 0;
        r->lines--;
    }
    if (r->recents == RECENT) {
        time = r->now++;
        r->time[r->recent[RECENT - 1].at] = time;
        r->bit[time >> 6] |= UINT64_C(1) << (time & 63);
        add(r, time, 1);
        r->lines++;
        r->recents--;
    }
    memmove(r->recent + 1, r->recent, r->recents * sizeof *r->recent);
    r->recent[0] = (struct recent){line, at};
    r->recents++;
    return bucket;
}

/* A line is asked for. */
static void ask(struct cachesim *sim, uint64_t line)
{
    struct cs_reuse *r = sim->reuse;
    uint32_t place = 0, bucket;
    while (place < r->recents && r->recent[place].line != line)
        place++;
    if (place < r->recents) {
        struct recent found = r->recent[place];
        memmove(r->recent + 1, r->recent, place * sizeof *r->recent);
        r->recent[0] = found;
        bucket = bucket_of(place);
    } else {
        bucket = becomes_recent(sim, line);
    }
    struct counts *counts = counts_of(sim, line);
    if (counts)
        counts->of[bucket]++;
    else
        sim->error = 1;
}

void cs_reuse_access(struct cachesim *sim, uint64_t address, uint64_t bytes, uint32_t kind)
{
    if (!bytes || (kind != CS_LOAD && kind != CS_STORE && kind != CS_PREFETCH && kind != CS_UPDATE))
        return;
    uint64_t last = (address + bytes - 1) >> sim->line_bits;
    for (uint64_t line = address >> sim->line_bits; line <= last; line++)
        for (uint32_t times = kind == CS_UPDATE ? 2 : 1; times--;)
            ask(sim, line);
}

void cs_reuse_requests(struct cachesim *sim, const struct cachesim_request *requests, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        cs_reuse_access(sim, requests[i].address, requests[i].bytes, requests[i].kind);
}

void cs_reuse_loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                   const uint32_t *kind, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < n; i++)
            cs_reuse_access(sim, start[i] + k * (uint64_t)stride[i], bytes[i], kind[i]);
}

int cachesim_reuse(const struct cachesim *sim, int id, uint64_t counts[CACHESIM_DISTANCES])
{
    if (!sim->reuse || id < -1 || id >= (int)sim->array_count)
        return -1;
    memset(counts, 0, CACHESIM_DISTANCES * sizeof *counts);
    if ((uint32_t)(id + 1) < sim->reuse->arrays)
        memcpy(counts, sim->reuse->counts[id + 1].of, CACHESIM_DISTANCES * sizeof *counts);
    return 0;
}
