/*
 * Tree pseudo-LRU: the ways are the leaves of a binary tree, node 1 its root, nodes 2 i and 2 i + 1 below node i. A bit a
 * node says which half was used less recently, 1 the upper one. Using a way turns the bits on its path away from it; a line
 * that needs room follows them. Empty ways are taken first.
 */
#include "internal.h"

static void found(struct cs_level *level, uint32_t *tags, uint32_t way)
{
    uint64_t *bits = &level->state[(size_t)(tags - level->tags) >> level->room_bits][0];
    for (uint32_t node = level->ways + way; node > 1; node /= 2) {
        uint64_t bit = UINT64_C(1) << (node / 2);
        *bits = node & 1 ? *bits & ~bit : *bits | bit;
    }
}

static uint32_t insert(struct cs_level *level, uint32_t *tags, uint32_t tag, uint32_t way)
{
    uint64_t bits = level->state[(size_t)(tags - level->tags) >> level->room_bits][0];
    if (way == level->ways) {
        uint32_t node = 1;
        while (node < level->ways)
            node = 2 * node + (bits >> node & 1);
        way = node - level->ways;
    }
    uint32_t old = tags[way];
    tags[way] = tag;
    found(level, tags, way);
    return old;
}

const struct cs_policy cs_tree = {found, insert, NULL, 0};
