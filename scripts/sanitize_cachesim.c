/*
 * Random hierarchies, cores and accesses for the cache model, to be built with sanitizers: sanitize_cachesim.sh does. Ends
 * with status 1 if the traffic of all arrays is not the total, or lines read again have no cause.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cachesim/cachesim.h"

#define MOST_REQUESTS 600
#define MOST_STREAMS 8

static uint64_t state = 88172645463325252u;

/* A random number below n. */
static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

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

static struct cachesim *hierarchy(uint64_t seed)
{
    uint32_t line = below(2) ? 64 : 64u << below(3), levels = 1 + (uint32_t)below(4), shared = 1 + (uint32_t)below(3);
    struct cachesim_level level[4];
    for (uint32_t k = 0; k < levels; k++) {
        int common = levels == 3 && line == 64; /* the shape that most machines have */
        uint32_t ways = 1 + (uint32_t)below(k == 2 ? 20 : 8);
        uint32_t sets = k == 0 || (common && k == 1) ? 1u << below(4) : 1 + (uint32_t)below(12);
        if (common && k == 2)
            sets = 64 * (1 + (uint32_t)below(3));
        level[k] = (struct cachesim_level){.bytes = (uint64_t)ways * sets * line,
                                           .ways = ways,
                                           .slices = 1,
                                           .hashed = (uint32_t)below(2),
                                           .fill = k ? (uint32_t)below(3) : 0,
                                           .shared = k >= shared,
                                           .policy = policy(ways, sets)};
    }
    struct cachesim *divided = below(2) ? cachesim_new(level, levels, line, seed, 2) : NULL; /* NULL too if it cannot be */
    struct cachesim *sim = divided ? divided : cachesim_new(level, levels, line, seed, 1);
    if (sim && below(2))
        cachesim_set_evasion(sim, below(2) ? 65536 : (uint32_t)below(65536));
    if (sim && below(2)) { /* refused if there is one level alone, or two parts */
        struct cachesim_prefetch prefetch = {(uint32_t)below(2), (uint32_t)below(2), 1 + (uint32_t)below(20),
                                             1 + (uint32_t)below(4), 1 + (uint32_t)below(8)};
        cachesim_set_prefetch(sim, &prefetch);
    }
    if (sim)
        cachesim_set_masked(sim, (uint32_t)below(2));
    return sim;
}

static void some_requests(struct cachesim *sim, uint64_t base)
{
    struct cachesim_request request[MOST_REQUESTS];
    uint32_t n = (uint32_t)below(MOST_REQUESTS);
    for (uint32_t i = 0; i < n; i++)
        request[i] = (struct cachesim_request){base + below(80000) + (below(50) ? 0 : below(UINT64_C(1) << 40)),
                                               1 + (uint32_t)below(9000), (uint16_t)below(300), (uint16_t)below(7)};
    cachesim_requests(sim, request, n);
}

static void some_loop(struct cachesim *sim, uint64_t base)
{
    uint64_t start[MOST_STREAMS];
    int64_t stride[MOST_STREAMS];
    uint32_t bytes[MOST_STREAMS], kind[MOST_STREAMS], n = 1 + (uint32_t)below(MOST_STREAMS);
    for (uint32_t i = 0; i < n; i++) {
        start[i] = base + 300000 + below(20000);
        stride[i] = below(4) ? (int64_t)(1u << below(8)) * (below(2) ? 1 : -1) : (int64_t)below(9000) - 4500;
        if (!below(6))
            stride[i] = 0;
        bytes[i] = below(3) ? 8 : (uint32_t)below(200);
        kind[i] = (uint32_t)below(below(4) ? 2 : 7);
    }
    cachesim_loop(sim, n, start, stride, bytes, kind, below(30) ? below(64) : 3000);
}

/* TLBs that the other calls then go through; some are impossible, and refused. */
static int some_tlbs(struct cachesim *sim)
{
    struct cachesim_tlb tlbs[4];
    uint32_t n = 1 + (uint32_t)below(4);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ways = (uint32_t)below(6);
        tlbs[i] = (struct cachesim_tlb){1 + (uint32_t)below(2), (ways ? ways : 1) << below(4), ways,
                                        below(50) ? 1 + (uint32_t)below(3) : 0, (uint32_t)below(2)};
    }
    return cachesim_tlb_start(sim, tlbs, n) == 0;
}

/* Whether the distances are there, if they were asked for, as many as lines were asked of level 1. */
static int distances_add_up(struct cachesim *sim)
{
    struct cachesim_totals totals;
    struct cachesim_traffic walks = {0};
    uint64_t counts[CACHESIM_DISTANCES], sum = 0;
    if (cachesim_reuse(sim, -1, counts))
        return 1;
    for (int array = -1; cachesim_reuse(sim, array, counts) == 0; array++)
        for (uint32_t k = 0; k < CACHESIM_DISTANCES; k++)
            sum += counts[k];
    cachesim_totals(sim, &totals);
    return sum + totals.memory.page_walks == totals.level[0].hits + totals.level[0].misses;
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

int main(int count, char **arguments)
{
    uint64_t rounds = count > 1 ? strtoull(arguments[1], NULL, 10) : 400;
    uint64_t translated = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        struct cachesim *sim = hierarchy(round);
        if (!sim) {
            fprintf(stderr, "round %lu: the hierarchy could not be made\n", (unsigned long)round);
            return 1;
        }
        cachesim_use_vectors(sim, (uint32_t)below(3)); /* those the processor does not have are refused */
        uint64_t base = 0x7f0000000000 + below(4096);
        cachesim_add_array(sim, base, 1 + below(60000), (uint32_t)below(2));
        cachesim_add_array(sim, base + below(70000), 1 + below(60000), 0);
        if (below(2))
            cachesim_origins_start(sim);
        if (below(2))
            translated += (uint64_t)some_tlbs(sim);
        if (!below(4))
            cachesim_reuse_start(sim);
        for (int step = 0; step < 60; step++) {
            if (!below(3))
                cachesim_core(sim, (uint32_t)below(4));
            cachesim_set_origin(sim, 1 + (uint32_t)below(5000));
            uint64_t what = below(24);
            if (what < 10)
                some_requests(sim, base);
            else if (what < 20)
                some_loop(sim, base);
            else if (what == 20)
                cachesim_reset(sim);
            else if (what == 21)
                cachesim_flush(sim, (uint32_t)below(2));
        }
        if (!adds_up(sim) || !distances_add_up(sim)) {
            fprintf(stderr, "round %lu: the parts are not the total\n", (unsigned long)round);
            return 1;
        }
        struct cachesim_shared_line lines[100];
        cachesim_shared_lines(sim, lines, 100);
        cachesim_free(sim);
    }
    if (rounds > 20 && !translated) {
        fprintf(stderr, "no round had TLBs\n");
        return 1;
    }
    printf("%lu rounds: no complaint, and everything adds up\n", (unsigned long)rounds);
    return 0;
}
