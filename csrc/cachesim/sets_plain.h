/*
 * What is done with the tags of one set, in plain C. Each of the three files of this kind defines
 *   set_find    way that holds a line, or -1
 *   set_front   moves ways 0..way-1 one place back, puts tag in front and returns what stood in way
 *   set_insert  the same for the last way: what it returns has to leave
 *   set_remove  closes the gap that a line taken out of way leaves; the last way becomes empty
 */
static INLINE int set_find(const uint32_t *tags, uint32_t blocks, uint32_t line)
{
    for (uint32_t way = 0; way < blocks * CS_BLOCK; way++)
        if ((tags[way] & CS_LINE) == line)
            return (int)way;
    return -1;
}

static INLINE uint32_t set_front(uint32_t *tags, uint32_t blocks, uint32_t way, uint32_t tag)
{
    (void)blocks;
    uint32_t old = tags[way];
    for (uint32_t i = way; i > 0; i--)
        tags[i] = tags[i - 1];
    tags[0] = tag;
    return old;
}

static INLINE uint32_t set_insert(uint32_t *tags, uint32_t blocks, const struct cs_level *level, uint32_t tag)
{
    return set_front(tags, blocks, level->last, tag);
}

static INLINE void set_remove(uint32_t *tags, uint32_t blocks, uint32_t way)
{
    uint32_t last = blocks * CS_BLOCK - 1; /* ways beyond the level's are empty, so this may run to the block's end */
    for (uint32_t i = way; i < last; i++)
        tags[i] = tags[i + 1];
    tags[last] = 0;
}
