/*
 * Re-reference interval prediction: ages of two bits, as two words with a bit a way. SRRIP and DRRIP (Jaleel et al., ISCA
 * 2010) and the quad-age LRU of Intel's last-level caches (Abel and Reineke, ISPASS 2020) differ in their parameters alone.
 * An empty way counts as one of age 3, so nothing grows older while there is room.
 */
#include "internal.h"

enum { AT_ONCE, WHEN_NEEDED, BY_ONE, OF_OTHERS };

static uint64_t *state_of(const struct cs_level *level, const uint32_t *tags)
{
    return level->state[(size_t)(tags - level->tags) >> level->room_bits];
}

static void set_age(uint64_t *state, uint32_t way, uint32_t age)
{
    uint64_t bit = UINT64_C(1) << way;
    state[0] = age & 1 ? state[0] | bit : state[0] & ~bit;
    state[1] = age & 2 ? state[1] | bit : state[1] & ~bit;
}

static uint64_t all(const struct cs_level *level)
{
    return UINT64_MAX >> (64 - level->ways);
}

/* Those among the ways of a mask that have age 3. */
static uint64_t oldest(const uint64_t *state, uint64_t mask)
{
    return state[0] & state[1] & mask;
}

static void grow_by_one(uint64_t *state, uint64_t mask)
{
    uint64_t carry = state[0] & mask;
    state[0] ^= mask;
    state[1] ^= carry;
}

static void grow(uint64_t *state, uint64_t mask)
{
    while (mask && !oldest(state, mask))
        grow_by_one(state, mask);
}

/* The line in way has been used. */
static void grow_at_once(const struct cs_level *level, uint64_t *state, uint32_t way)
{
    if (level->given.aging == AT_ONCE)
        grow(state, all(level));
    else if (level->given.aging == OF_OTHERS)
        grow(state, all(level) & ~(UINT64_C(1) << way));
    else if (level->given.aging == BY_ONE && !oldest(state, all(level)))
        grow_by_one(state, all(level));
}

static void found(struct cs_level *level, uint32_t *tags, uint32_t way)
{
    uint64_t *state = state_of(level, tags);
    set_age(state, way, state[1] >> way & 1 ? level->given.hit_age : 0);
    grow_at_once(level, state, way);
}

static uint32_t insert(struct cs_level *level, uint32_t *tags, uint32_t tag, uint32_t way)
{
    uint64_t *state = state_of(level, tags);
    if (way == level->ways) {
        if (level->given.aging == WHEN_NEEDED)
            grow(state, all(level));
        uint64_t old = oldest(state, all(level));
        way = old ? (uint32_t)__builtin_ctzll(old) : 0;
    }
    uint32_t left = tags[way];
    tags[way] = tag;
    set_age(state, way, !level->selects || cs_takes_near(level, tags) ? level->given.near_age : level->given.far_age);
    grow_at_once(level, state, way);
    return left;
}

static void removed(struct cs_level *level, uint32_t *tags, uint32_t way)
{
    set_age(state_of(level, tags), way, 3);
}

const struct cs_policy cs_rrip = {found, insert, removed, 0xff};
