/* What the replacement policies share: their parameters, and which of two ways a line is taken in. */
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include "internal.h"

#define DUEL_MOST 1024 /* so far one side gets ahead, as with a counter of 11 bits */

int cs_policy_init(struct cs_level *level, const struct cachesim_policy *given, uint64_t seed)
{
    static const struct cs_policy *const table[] = {
        [CS_TREE] = &cs_tree, [CS_RANDOM] = &cs_random, [CS_RRIP] = &cs_rrip, [CS_ADAPTIVE] = NULL};
    if (given->kind > CS_ADAPTIVE || (given->kind == CS_TREE && level->ways & (level->ways - 1)))
        return -1;
    level->given = *given;
    level->policy = table[given->kind];
    level->random = level->seed = seed;
    if (given->kind != CS_RRIP && given->kind != CS_ADAPTIVE)
        return 0;
    if (given->near_age > 3 || given->far_age > 3 || given->hit_age > 3 || given->aging > 3 || given->near > 1u << 16 ||
        given->rival > 1u << 16 || given->leaders > level->sets / 2)
        return -1;
    level->duellers = given->leaders ? level->sets / given->leaders : 0;
    level->selects = given->near < 1u << 16 || level->duellers;
    return 0;
}

uint32_t cs_policy_sets(const struct cs_level *level)
{
    return level->sets >> level->part_bits;
}

int cs_policy_allocate(const struct cs_level *level, uint32_t **tags, uint64_t (**state)[2])
{
    uint32_t room_bits = level->room_bits < 4 ? 4 : level->room_bits; /* it may become wider later */
    size_t sets = cs_policy_sets(level), bytes = (sets << room_bits) * sizeof **tags;
    /* the last level's are looked up at random: huge pages spare page walks */
    size_t huge = (size_t)2 << 20, unit = bytes < huge ? 64 : huge;
    *tags = aligned_alloc(unit, (bytes + unit - 1) & ~(unit - 1));
    if (!*tags)
        return -1;
    if (unit == huge)
        madvise(*tags, bytes, MADV_HUGEPAGE);
    memset(*tags, 0, bytes);
    if (!level->policy)
        return 0;
    *state = malloc(sets * sizeof **state);
    if (!*state)
        return -1;
    memset(*state, level->policy->start, sets * sizeof **state);
    return 0;
}

void cs_policy_empty(struct cs_level *level)
{
    size_t sets = cs_policy_sets(level);
    memset(level->tags, 0, (sets << level->room_bits) * sizeof *level->tags);
    if (level->policy)
        memset(level->state, level->policy->start, sets * sizeof *level->state);
    level->random = level->seed;
    level->duel = 0;
}

void cs_policy_remove(struct cs_level *level, uint32_t *tags, uint32_t way)
{
    tags[way] = 0;
    if (level->policy->removed)
        level->policy->removed(level, tags, way);
}

static uint32_t set_of(const struct cs_level *level, const uint32_t *tags)
{
    return (uint32_t)((size_t)(tags - level->tags) >> level->room_bits) << level->part_bits | level->part;
}

uint32_t cs_takes_near(struct cs_level *level, const uint32_t *tags)
{
    uint32_t share = level->given.near;
    if (level->duellers) {
        uint32_t place = set_of(level, tags) % level->duellers;
        if (place == level->duellers / 2 || (place && level->duel > 0))
            share = level->given.rival;
    }
    return share >= 1u << 16 || cs_draw(level) >> 16 < share;
}

void cs_duel_missed(struct cs_level *level, const uint32_t *tags)
{
    uint32_t place = set_of(level, tags) % level->duellers;
    if (place == 0 && level->duel < DUEL_MOST)
        level->duel++;
    if (place == level->duellers / 2 && level->duel > -DUEL_MOST)
        level->duel--;
}
