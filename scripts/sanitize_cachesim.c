/*
 * Random hierarchies, cores and accesses for the cache model, to be built with sanitizers: sanitize_cachesim.sh does. Every
 * model is made twice. One is told of accesses by all ways there are, in vectors of all widths, the other one by one, in
 * plain C, and asked for its contents after each, so that nothing waits in it. Ends with status 1 where the two differ, the
 * traffic of all arrays is not the total, lines read again have no cause, or some code for a shape of caches was not run.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cachesim/internal.h"

#define MOST_ACCESSES 1200
#define MOST_STREAMS 40
#define MOST_CORES 4
#define MANY_CORES 36 /* more than have a bit of their own */
#define MOST_ORIGINS 5000

static uint64_t state = 88172645463325252u;

/* A random number below n. */
static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

struct access {
    uint64_t address;
    uint32_t bytes, kind, origin;
};

struct pair {
    struct cachesim *together, *apart;
    uint64_t base, span; /* where accesses go */
    uint32_t parts, levels, arrays, cores, origins, all_kinds, slow;
};

/* ---- what is made ---- */

/* LRU half of the time. */
static struct cachesim_policy policy(uint32_t ways, uint32_t sets)
{
    uint32_t kind = below(2) ? 0 : 1 + (uint32_t)below(4), leaders = (uint32_t)below(sets / 2 + 1);
    return (struct cachesim_policy){.kind = kind == 1 && ways & (ways - 1) ? 0 : kind,
                                    .near = (uint32_t)below(65537),
                                    .rival = (uint32_t)below(65537),
                                    .leaders = below(2) ? 0 : leaders,
                                    .near_age = (uint32_t)below(4),
                                    .far_age = (uint32_t)below(4),
                                    .hit_age = (uint32_t)below(4),
                                    .aging = (uint32_t)below(4)};
}

static struct cachesim_level level_of(uint32_t sets, uint32_t ways, uint32_t line)
{
    return (struct cachesim_level){.bytes = (uint64_t)sets * ways * line, .ways = ways, .slices = 1};
}

/* Anything. */
static uint32_t any_levels(struct cachesim_level level[4], uint32_t line)
{
    uint32_t levels = 1 + (uint32_t)below(4);
    for (uint32_t k = 0; k < levels; k++) {
        uint32_t ways = 1 + (uint32_t)below(k == 2 ? 20 : 8), sets = k ? 1 + (uint32_t)below(12) : 1u << below(4);
        if (!below(20))
            ways = 64;
        level[k] = level_of(sets, ways, line);
        level[k].hashed = (uint32_t)below(2);
        level[k].slices = below(2) ? 1 : 1 + (uint32_t)below(4);
        level[k].slices = sets % level[k].slices ? 1 : level[k].slices;
        level[k].fill = k ? (uint32_t)below(3) : 0;
        level[k].policy = policy(ways, sets);
    }
    return levels;
}

/* What cs_shape knows, mostly: with at most 8 ways, at most 16, or some more. */
static uint32_t common_levels(struct cachesim_level level[4])
{
    uint32_t most = 8u << below(3), near = most == 32 ? 16 : most, last = 64 * (1 + (uint32_t)below(3));
    level[0] = level_of(1u << below(below(4) ? 4 : 7), 1 + (uint32_t)below(near), 64);
    level[1] = level_of(1u << below(below(4) ? 4 : 7), 1 + (uint32_t)below(most), 64);
    level[2] = level_of(last, 1 + (uint32_t)below(most), 64);
    level[1].fill = !below(6) ? 2 : (uint32_t)below(2);
    level[2].fill = below(4) ? 2 : (uint32_t)below(2);
    level[2].hashed = last == 192 || below(2);
    if (below(3))
        return 3;
    level[2].policy = policy(level[2].ways, last);
    return 3;
}

/*
 * Those of which the last one is told later, and the first two hold about as many lines as may wait for it, so that lines
 * often leave level 2 just when it is told of them. Few lines are asked for: they come again.
 */
static uint32_t waiting_levels(struct cachesim_level level[4], struct pair *pair)
{
    uint32_t most = 8u << below(3), near = most == 32 ? 16 : most;
    level[0] = level_of(CS_WAITING / near, 1 + (uint32_t)below(near), 64);
    level[1] = level_of(CS_WAITING / most << below(2), 1 + (uint32_t)below(most), 64);
    level[2] = level_of(64u << below(2), 1 + (uint32_t)below(most), 64);
    level[1].fill = !below(4);
    level[2].fill = CS_VICTIM;
    pair->span = (100 + below(400)) * 64;
    return 3;
}

/* TLBs that the calls that follow then go through; some are impossible, and refused. */
static void some_tlbs(struct pair *pair)
{
    struct cachesim_tlb tlbs[4];
    uint32_t n = 1 + (uint32_t)below(4);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ways = (uint32_t)below(6);
        tlbs[i] = (struct cachesim_tlb){1 + (uint32_t)below(2), (ways ? ways : 1) << below(4), ways,
                                        below(50) ? 1 + (uint32_t)below(3) : 0, (uint32_t)below(2)};
    }
    cachesim_tlb_start(pair->together, tlbs, n);
    cachesim_tlb_start(pair->apart, tlbs, n);
}

static struct cachesim *made(const struct cachesim_level *level, uint32_t line, uint64_t seed, struct pair *pair)
{
    for (; pair->parts; pair->parts /= 2) { /* fewer if so many cannot be */
        struct cachesim *sim = cachesim_new(level, pair->levels, line, seed, pair->parts);
        if (sim)
            return sim;
    }
    return NULL;
}

/* Arrays; in the first of some lies a whole block of 2 MiB. */
static void some_arrays(struct pair *pair)
{
    uint64_t start[2] = {pair->base, pair->base + below(70000)};
    uint64_t bytes[2] = {below(3) ? 1 + below(60000) : UINT64_C(3) << 20, 1 + below(60000)};
    uint32_t huge = (uint32_t)below(2);
    uint64_t frames[8];
    for (uint32_t i = 0; i < 8; i++)
        frames[i] = below(3) ? 1 + below(1u << 20) : 0;
    int placed = !below(4), known = below(2) != 0;
    struct cachesim *both[2] = {pair->together, pair->apart};
    for (int i = 0; i < 2; i++) {
        if (placed)
            cachesim_place(both[i], pair->base & ~UINT64_C(4095), known ? 8 * 4096 : UINT64_C(3) << 20,
                           known ? frames : NULL);
        cachesim_add_array(both[i], start[0], bytes[0], huge);
        cachesim_add_array(both[i], start[1], bytes[1], 0);
    }
    pair->arrays = 2;
}

static int make(struct pair *pair, uint64_t seed)
{
    struct cachesim_level level[4];
    uint32_t common = (uint32_t)below(4), line = common || below(2) ? 64 : 64u << below(3);
    uint32_t shared = 1 + (uint32_t)below(3);
    *pair = (struct pair){.base = UINT64_C(0x7f0000000000) - below(8192), .span = UINT64_C(256) << below(below(4) ? 8 : 12)};
    pair->levels = common == 1 ? waiting_levels(level, pair) : common ? common_levels(level) : any_levels(level, line);
    for (uint32_t k = 0; k < pair->levels; k++)
        level[k].shared = k >= shared;
    pair->parts = below(2) ? 1 : 2u << below(2);
    pair->together = made(level, line, seed, pair);
    pair->apart = pair->together ? made(level, line, seed, pair) : NULL;
    if (!pair->apart)
        return -1;
    struct cachesim_prefetch prefetch = {(uint32_t)below(2), (uint32_t)below(2), 1 + (uint32_t)below(20),
                                         1 + (uint32_t)below(4), 1 + (uint32_t)below(8)};
    uint32_t evasion = common == 1 || below(5) ? 0 : below(2) ? 65536 : (uint32_t)below(65536);
    uint32_t prefetches = common != 1 && !below(5);
    uint32_t masked = (uint32_t)below(2);
    struct cachesim *both[2] = {pair->together, pair->apart};
    for (int i = 0; i < 2; i++) {
        cachesim_set_evasion(both[i], evasion);
        if (prefetches) /* refused if there is one level alone, or several parts */
            cachesim_set_prefetch(both[i], &prefetch);
        cachesim_set_masked(both[i], masked);
    }
    some_arrays(pair);
    pair->origins = !below(3);
    if (pair->origins && (cachesim_origins_start(pair->together) || cachesim_origins_start(pair->apart)))
        return -1;
    if (!below(4))
        some_tlbs(pair);
    pair->slow = !below(8);
    if (pair->slow && (cachesim_reuse_start(pair->together) || cachesim_reuse_start(pair->apart)))
        return -1;
    pair->cores = common == 1 || below(3) ? 1 : below(16) ? MOST_CORES : MANY_CORES;
    pair->all_kinds = !below(3);
    cachesim_use_vectors(pair->apart, 0);
    return 0;
}

/* ---- what it is told ---- */

static uint32_t some_kind(const struct pair *pair)
{
    static const uint32_t all[] = {CS_LOAD, CS_STORE, CS_NON_TEMPORAL, CS_PREFETCH, CS_FLUSH, CS_UPDATE, CS_FENCE};
    return pair->all_kinds ? all[below(7)] : below(20) ? (uint32_t)below(2) : all[below(7)];
}

static void one(struct pair *pair, const struct access *access)
{
    uint32_t lines[CS_MAX_WAYS];
    cachesim_set_origin(pair->apart, access->origin);
    cachesim_access(pair->apart, access->address, access->bytes, access->kind);
    for (uint32_t part = 0; part < pair->parts; part++)
        cachesim_contents(pair->apart, pair->levels - 1, part, lines);
}

/* By numbers: many requests, or as a part of the model is told by its consumer. */
static void as_requests(struct pair *pair, const struct access *access, uint32_t n)
{
    static struct cachesim_request request[MOST_ACCESSES];
    for (uint32_t i = 0; i < n; i++)
        request[i] = (struct cachesim_request){access[i].address, access[i].origin, (uint16_t)access[i].bytes,
                                               (uint16_t)access[i].kind};
    cachesim_requests(pair->together, request, n);
}

static void as_pieces(struct pair *pair, struct cachesim_part *part, const struct access *access, uint32_t n)
{
    static struct cachesim_piece piece[2 * MOST_ACCESSES];
    static uint32_t origin[2 * MOST_ACCESSES];
    struct cachesim_dealt dealt = cachesim_part_dealt(part);
    uint32_t used = 0, merges = (uint32_t)below(2);
    uint64_t again = 0;
    for (uint32_t i = 0; i <= n; i++) {
        int odd = i == n || dealt.line_bits != 6 || access[i].bytes - 1 >= 64 || access[i].kind >= CS_FENCE;
        if (odd) {
            cachesim_part_pieces(part, piece, pair->origins ? origin : NULL, used);
            cachesim_part_again(part, again);
            used = 0;
            again = 0;
            if (i < n)
                cachesim_part_access(part, access[i].origin, access[i].address, access[i].bytes, access[i].kind);
            continue;
        }
        uint64_t end = access[i].address + access[i].bytes;
        for (uint64_t at = access[i].address; at < end; at = (at | 63) + 1) {
            uint64_t stop = (at | 63) + 1 < end ? (at | 63) + 1 : end;
            if ((at >> 6 & dealt.mask) != dealt.part)
                continue;
            struct cachesim_piece next = cachesim_piece(at, (uint32_t)(stop - at), access[i].kind);
            if (dealt.repeats && merges && used && access[i].kind <= CS_STORE && piece[used - 1].key == next.key) {
                piece[used - 1].bits |= next.bits;
                again++;
            } else {
                origin[used] = access[i].origin;
                piece[used++] = next;
            }
        }
    }
}

static void some_accesses(struct pair *pair)
{
    static struct access access[MOST_ACCESSES];
    uint32_t n = 1 + (uint32_t)below(below(2) ? 100 : MOST_ACCESSES), aligned = (uint32_t)below(2);
    uint32_t longest = below(4) ? 16 : below(4) ? 64 : 9000, again = !below(3);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t address = pair->base + below(pair->span) + (below(500) ? 0 : below(UINT64_C(1) << 40));
        if (again && i && below(3)) /* near the last one */
            address = access[i - 1].address + below(32);
        access[i] = (struct access){aligned ? address & ~UINT64_C(7) : address, aligned ? 8 : (uint32_t)below(longest + 1),
                                    some_kind(pair), 1 + (uint32_t)below(MOST_ORIGINS - MOST_STREAMS)};
        one(pair, &access[i]);
    }
    if (below(2)) {
        as_requests(pair, access, n);
        return;
    }
    for (uint32_t part = 0; part < pair->parts; part++)
        as_pieces(pair, cachesim_part(pair->together, part), access, n);
}

static void some_loop(struct pair *pair)
{
    uint64_t start[MOST_STREAMS];
    int64_t stride[MOST_STREAMS];
    uint32_t bytes[MOST_STREAMS], kind[MOST_STREAMS], n = 1 + (uint32_t)below(below(10) ? 8 : MOST_STREAMS);
    uint32_t origin = 1 + (uint32_t)below(MOST_ORIGINS - MOST_STREAMS), alike = (uint32_t)below(2);
    uint64_t count = below(30) ? below(64) : 2000, far = below(2) ? 300000 : 0;
    for (uint32_t i = 0; i < n; i++) {
        start[i] = pair->base + far + below(20000);
        stride[i] = below(4) ? (int64_t)(1u << below(8)) * (below(2) ? 1 : -1) : (int64_t)below(9000) - 4500;
        if (!below(6))
            stride[i] = 0;
        bytes[i] = below(3) ? 8 : (uint32_t)below(200);
        kind[i] = below(4) ? (uint32_t)below(2) : some_kind(pair);
        if (i && alike && below(2)) {
            start[i] = start[i - 1] + below(64);
            stride[i] = stride[i - 1];
        }
    }
    for (uint64_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < n; i++) {
            struct access access = {start[i] + k * (uint64_t)stride[i], bytes[i], kind[i], origin + i};
            one(pair, &access);
        }
    cachesim_set_origin(pair->together, origin);
    if (n == 1 && below(2))
        cachesim_stride(pair->together, start[0], stride[0], count, bytes[0], kind[0]);
    else if (below(2))
        cachesim_loop(pair->together, n, start, stride, bytes, kind, count);
    else
        for (uint32_t part = 0; part < pair->parts; part++)
            cachesim_part_loop(cachesim_part(pair->together, part), origin, n, start, stride, bytes, kind, count);
}

static void some_step(struct pair *pair)
{
    uint64_t what = below(40);
    uint32_t number = (uint32_t)below(pair->cores), with_writes = (uint32_t)below(2);
    if (pair->cores > 1 && !below(3)) {
        cachesim_core(pair->together, number);
        cachesim_core(pair->apart, number);
    }
    if (!below(8))
        cachesim_use_vectors(pair->together, (uint32_t)below(3)); /* those the processor does not have are refused */
    if (what < 22) {
        some_accesses(pair);
    } else if (what < 38) {
        some_loop(pair);
    } else if (what == 38) {
        cachesim_reset(pair->together);
        cachesim_reset(pair->apart);
    } else {
        cachesim_flush(pair->together, with_writes);
        cachesim_flush(pair->apart, with_writes);
    }
}

/* ---- what is looked at ---- */

static int same_contents(struct pair *pair)
{
    for (uint32_t k = 0; k < pair->levels; k++)
        for (uint32_t set = 0; set < cachesim_sets(pair->together, k); set++) {
            uint32_t together[CS_MAX_WAYS] = {0}, apart[CS_MAX_WAYS] = {0};
            if (cachesim_contents(pair->together, k, set, together) != cachesim_contents(pair->apart, k, set, apart) ||
                memcmp(together, apart, sizeof apart))
                return 0;
        }
    return 1;
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = ((const struct cachesim_shared_line *)a)->address, y = ((const struct cachesim_shared_line *)b)->address;
    return x < y ? -1 : x > y;
}

#define MOST_SHARED 20000

static int same_shared_lines(struct pair *pair)
{
    static struct cachesim_shared_line together[MOST_SHARED], apart[MOST_SHARED];
    memset(together, 0, sizeof together);
    memset(apart, 0, sizeof apart);
    uint32_t n = cachesim_shared_lines(pair->together, together, MOST_SHARED);
    if (n != cachesim_shared_lines(pair->apart, apart, MOST_SHARED))
        return 0;
    if (n > MOST_SHARED)
        return 1;
    qsort(together, n, sizeof *together, by_address);
    qsort(apart, n, sizeof *apart, by_address);
    for (uint32_t i = 0; i < n; i++)
        if (together[i].address != apart[i].address || together[i].array != apart[i].array ||
            together[i].cores != apart[i].cores || together[i].moves != apart[i].moves || together[i].apart != apart[i].apart)
            return 0;
    return 1;
}

static int same_origins(struct pair *pair)
{
    static uint64_t together[2][MOST_ORIGINS], apart[2][MOST_ORIGINS];
    uint32_t n = cachesim_origins(pair->together, 0, MOST_ORIGINS, together[0], together[1]);
    if (n != cachesim_origins(pair->apart, 0, MOST_ORIGINS, apart[0], apart[1]))
        return 0;
    n = n < MOST_ORIGINS ? n : MOST_ORIGINS;
    return !memcmp(together[0], apart[0], n * sizeof **apart) && !memcmp(together[1], apart[1], n * sizeof **apart);
}

/* Whether the distances are those of the other, if they were asked for, and as many as lines were asked of level 1. */
static int same_distances(struct pair *pair)
{
    struct cachesim_totals totals;
    uint64_t together[CACHESIM_DISTANCES], apart[CACHESIM_DISTANCES], sum = 0;
    cachesim_totals(pair->together, &totals);
    for (int array = -1; array < (int)pair->arrays; array++) {
        if (cachesim_reuse(pair->together, array, together) || cachesim_reuse(pair->apart, array, apart) ||
            memcmp(together, apart, sizeof apart))
            return 0;
        for (uint32_t k = 0; k < CACHESIM_DISTANCES; k++)
            sum += together[k];
    }
    return sum + totals.memory.page_walks == totals.level[0].hits + totals.level[0].misses;
}

static int same_traffic(struct pair *pair)
{
    struct cachesim_totals together, apart;
    cachesim_totals(pair->together, &together);
    cachesim_totals(pair->apart, &apart);
    if (memcmp(&together, &apart, sizeof apart) || together.error)
        return 0;
    for (int array = -2; array < (int)pair->arrays; array++) {
        struct cachesim_traffic of, other;
        int is = cachesim_array(pair->together, array, &of);
        if (is != cachesim_array(pair->apart, array, &other) || (!is && memcmp(&of, &other, sizeof other)))
            return 0;
    }
    return 1;
}

static int adds_up(struct cachesim *sim)
{
    struct cachesim_totals totals;
    struct cachesim_traffic of, sum = {0};
    cachesim_totals(sim, &totals);
    for (int array = cachesim_array(sim, -2, &of) ? -1 : -2; cachesim_array(sim, array, &of) == 0; array++) {
        sum.read_lines += of.read_lines;
        sum.write_lines += of.write_lines;
        sum.unique_read_lines += of.unique_read_lines;
        sum.again_capacity_lines += of.again_capacity_lines;
        sum.again_conflict_lines += of.again_conflict_lines;
        sum.touched_bytes += of.touched_bytes;
        sum.evaded_lines += of.evaded_lines;
        sum.tlb_misses += of.tlb_misses;
        sum.page_walks += of.page_walks;
        sum.prefetched_lines += of.prefetched_lines;
        sum.prefetched_unused_lines += of.prefetched_unused_lines;
    }
    return sum.read_lines == totals.memory.read_lines && sum.write_lines == totals.memory.write_lines &&
           sum.touched_bytes == totals.memory.touched_bytes && sum.evaded_lines == totals.memory.evaded_lines &&
           sum.tlb_misses == totals.memory.tlb_misses &&
           sum.page_walks == totals.memory.page_walks && sum.page_walks <= sum.tlb_misses &&
           sum.prefetched_unused_lines == totals.memory.prefetched_unused_lines &&
           sum.prefetched_unused_lines <= sum.prefetched_lines && sum.prefetched_lines <= sum.read_lines &&
           sum.read_lines - sum.prefetched_unused_lines - sum.unique_read_lines ==
               sum.again_capacity_lines + sum.again_conflict_lines;
}

/* What differs or does not add up; NULL if nothing. */
static const char *complaint(struct pair *pair)
{
    if (!same_contents(pair))
        return "the contents differ"; /* before anybody is told the traffic, which closes trackers */
    if (!same_traffic(pair))
        return "the traffic differs";
    if (!same_contents(pair))
        return "the contents differ when all is settled";
    if (pair->origins && !same_origins(pair))
        return "the origins differ";
    if (!same_shared_lines(pair))
        return "the shared lines differ";
    if (pair->slow && !same_distances(pair))
        return "the distances differ";
    return adds_up(pair->together) ? NULL : "the parts are not the total";
}

/* ---- what was run ---- */

#if defined(__x86_64__)
static const struct cs_operations *const tables[] = {&cs_plain, &cs_plain_common, &cs_plain_wide, &cs_avx2,
                                                     &cs_avx2_common, &cs_avx2_narrow, &cs_avx2_wide, &cs_avx512,
                                                     &cs_avx512_common, &cs_avx512_narrow, &cs_avx512_wide};
static const char *const names[] = {"plain", "plain, common", "plain, wide", "AVX2", "AVX2, common", "AVX2, narrow",
                                    "AVX2, wide", "AVX-512", "AVX-512, common", "AVX-512, narrow", "AVX-512, wide"};
#else
static const struct cs_operations *const tables[] = {&cs_plain, &cs_plain_common, &cs_plain_wide};
static const char *const names[] = {"plain", "plain, common", "plain, wide"};
#endif
#define TABLES (sizeof tables / sizeof *tables)

static uint64_t steps[TABLES][2]; /* all, and those in which the last level was told later */

static void note_step(const struct cachesim *sim)
{
    for (uint32_t i = 0; i < TABLES; i++)
        if (sim->do_ == tables[i])
            steps[i][sim->defers]++;
}

static int all_ran(uint32_t widest)
{
    int all = 1;
    for (uint32_t i = 0; i < TABLES; i++) {
        int any_shape = tables[i] == &cs_plain;
#if defined(__x86_64__)
        any_shape |= tables[i] == &cs_avx2 || tables[i] == &cs_avx512;
#endif
        if (tables[i]->width > widest)
            continue;
        printf("%-16s %7lu steps, and %lu in which the last level was told later\n", names[i], (unsigned long)steps[i][0],
               (unsigned long)steps[i][1]);
        all &= steps[i][0] && (any_shape || steps[i][1]);
    }
    return all;
}

static int fails(uint64_t round, const char *why)
{
    fprintf(stderr, "round %lu: %s\n", (unsigned long)round, why);
    return 1;
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    uint64_t rounds = count > 1 ? strtoull(arguments[1], NULL, 10) : 400;
    uint32_t widest = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        struct pair pair;
        if (make(&pair, round))
            return fails(round, "the hierarchy could not be made");
        if (!round)
            widest = cachesim_vectors(pair.together); /* which is the default */
        cachesim_use_vectors(pair.together, (uint32_t)below(3));
        for (int step = 0; step < 24; step++) {
            some_step(&pair);
            note_step(pair.together);
            const char *why = below(4) ? NULL : complaint(&pair);
            if (why)
                return fails(round, why);
        }
        const char *why = complaint(&pair);
        if (why)
            return fails(round, why);
        cachesim_free(pair.together);
        cachesim_free(pair.apart);
    }
    if (!all_ran(widest) && rounds >= 200)
        return fails(rounds, "some code was never run");
    printf("%lu rounds: no complaint, and both ways are the same\n", (unsigned long)rounds);
    return 0;
}
