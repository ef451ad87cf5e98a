/*
 * Inline front of the cache model, for C callers that issue accesses one by one: a hit in level 1 needs no more than its
 * time noted, and is settled here in about a nanosecond.
 */
#ifndef COUNTEROOF_CACHESIM_FAST_H
#define COUNTEROOF_CACHESIM_FAST_H

#include <stdint.h>

#include "cachesim.h"

#define CACHESIM_GUESS_BITS 12

/*
 * First member of struct cachesim. Level 1 orders the lines of a set by time of last use, one slot a line; the levels
 * below keep a set's lines in order instead.
 */
struct cachesim_front {
    uint64_t clock;  /* accesses to level 1 so far, by line */
    uint64_t *stamp; /* per slot: clock of its last use */
    /*
     * Per slot: its line as (virtual line << 1 | dirty and stored to in this window), or all ones if the program has not
     * touched the line in this window: such an access has to be noted elsewhere too.
     */
    uint64_t *key;
    uint16_t *guess; /* per hash of a virtual line: the slot it was last seen in */
    uint32_t line_bits;
    uint32_t origin; /* number of the access that is made, see cachesim_origins_start */
};

/* As cachesim_set_origin. */
static inline void cachesim_fast_origin(struct cachesim *sim, uint32_t number)
{
    ((struct cachesim_front *)sim)->origin = number;
}

static inline uint32_t cachesim_guess(uint64_t line)
{
    return (uint32_t)(line * 0x9e3779b97f4a7c15u >> (64 - CACHESIM_GUESS_BITS));
}

static inline uint32_t cachesim_fast_get_origin(const struct cachesim *sim)
{
    return ((const struct cachesim_front *)sim)->origin;
}

/* If an access of one line by a load (clean_ok 1) or a store (clean_ok 0) is a plain hit: counts it and returns 1. */
static inline int cachesim_hit(struct cachesim_front *front, uint64_t line, uint32_t clean_ok)
{
    uint32_t slot = front->guess[cachesim_guess(line)];
    if ((front->key[slot] | clean_ok) != (line << 1 | 1))
        return 0;
    front->stamp[slot] = ++front->clock;
    return 1;
}

/* As cachesim_access, for bytes >= 1. Best with a constant kind. */
static inline void cachesim_fast(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    struct cachesim_front *front = (struct cachesim_front *)sim;
    uint64_t line = address >> front->line_bits;
    if ((kind != 0 && kind != 1 && kind != 3 && kind != 5) || (address + bytes - 1) >> front->line_bits != line ||
        !cachesim_hit(front, line, kind == 0 || kind == 3))
        cachesim_access(sim, address, bytes, kind);
    else if (kind == 5)
        front->clock++; /* two accesses; which of the two times is noted makes no difference */
}

#endif
