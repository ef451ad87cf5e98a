/*
 * Inline front of the cache model, for C callers that issue accesses one by one: an access to the line that is the most
 * recent of its level-1 set changes nothing but a counter, and is settled here in about a nanosecond.
 */
#ifndef COUNTEROOF_CACHESIM_FAST_H
#define COUNTEROOF_CACHESIM_FAST_H

#include <stdint.h>

#include "cachesim.h"

/* First member of struct cachesim. */
struct cachesim_front {
    /*
     * Per level-1 set: its most recent line as (virtual line << 1 | dirty and stored to in this window), or all ones if
     * that is unknown or the program has not yet touched the line in this window.
     */
    uint64_t *recent;
    uint64_t mask;
    uint64_t hits; /* level 1 */
    uint32_t line_bits;
};

/* True if an access of one line by a load (clean_ok 1) or a store (clean_ok 0) changes nothing but the hit count. */
static inline int cachesim_is_recent(const struct cachesim_front *front, uint64_t line, uint32_t clean_ok)
{
    return (front->recent[line & front->mask] | clean_ok) == (line << 1 | 1);
}

/* As cachesim_access, for bytes >= 1. Best with a constant kind. */
static inline void cachesim_fast(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    struct cachesim_front *front = (struct cachesim_front *)sim;
    uint64_t line = address >> front->line_bits;
    if ((kind == 0 || kind == 1 || kind == 3 || kind == 5) && (address + bytes - 1) >> front->line_bits == line &&
        cachesim_is_recent(front, line, kind == 0 || kind == 3))
        front->hits += kind == 5 ? 2 : 1;
    else
        cachesim_access(sim, address, bytes, kind);
}

#endif
