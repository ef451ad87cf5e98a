/* Random replacement: any way, but empty ones first. */
#include "internal.h"

static void found(struct cs_level *level, uint32_t *tags, uint32_t way)
{
    (void)level, (void)tags, (void)way;
}

static uint32_t insert(struct cs_level *level, uint32_t *tags, uint32_t tag, uint32_t way)
{
    if (way == level->ways)
        way = (uint32_t)((uint64_t)cs_draw(level) * level->ways >> 32);
    uint32_t old = tags[way];
    tags[way] = tag;
    return old;
}

const struct cs_policy cs_random = {found, insert, NULL, 0};
