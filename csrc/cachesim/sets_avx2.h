/*
 * What is done with the tags of one set, 16 ways at a time in AVX2; sets_plain.h says what each function does. No blocks at
 * all are the 8 ways of half a block: one vector, which most first and second levels of such processors fit in.
 */
#include <immintrin.h>

static INLINE uint32_t set_match_8(const uint32_t *tags, uint32_t line)
{
    /* shifted left, a tag has lost its dirty bit */
    __m256i wanted = _mm256_set1_epi32((int)(line << 1));
    __m256i found = _mm256_cmpeq_epi32(_mm256_slli_epi32(_mm256_load_si256((const __m256i *)tags), 1), wanted);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(found));
}

static INLINE uint32_t set_match(const uint32_t *tags, uint32_t line)
{
    return set_match_8(tags, line) | set_match_8(tags + 8, line) << 8;
}

static INLINE int set_find(const uint32_t *tags, uint32_t blocks, uint32_t line)
{
    uint32_t match = blocks ? set_match(tags, line) : set_match_8(tags, line);
    if (match)
        return __builtin_ctz(match);
    for (uint32_t block = 1; block < blocks; block++) {
        match = set_match(tags + block * CS_BLOCK, line);
        if (match)
            return (int)(block * CS_BLOCK) + __builtin_ctz(match);
    }
    return -1;
}

static INLINE uint32_t set_front(uint32_t *tags, uint32_t blocks, uint32_t way, uint32_t tag)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i turn = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    uint32_t old = tags[way];
    if (!blocks) {
        __m256i all = _mm256_load_si256((__m256i *)tags), first = _mm256_castsi128_si256(_mm_cvtsi32_si128((int)tag));
        __m256i moved = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(all, turn), first, 1);
        __m256i stays = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32((int)way));
        _mm256_store_si256((__m256i *)tags, _mm256_blendv_epi8(moved, all, stays));
        return old;
    }
    for (;;) {
        uint32_t last = tags[CS_BLOCK - 1];
        __m256i *block = (__m256i *)tags, low = _mm256_load_si256(block), high = _mm256_load_si256(block + 1);
        __m256i low_turned = _mm256_permutevar8x32_epi32(low, turn);
        __m256i high_turned = _mm256_permutevar8x32_epi32(high, turn);
        __m256i low_moved = _mm256_blend_epi32(low_turned, _mm256_set1_epi32((int)tag), 1);
        __m256i high_moved = _mm256_blend_epi32(high_turned, low_turned, 1);
        __m256i to = _mm256_set1_epi32((int)way);
        __m256i low_stays = _mm256_cmpgt_epi32(lanes, to);
        __m256i high_stays = _mm256_cmpgt_epi32(_mm256_add_epi32(lanes, _mm256_set1_epi32(8)), to);
        _mm256_store_si256(block, _mm256_blendv_epi8(low_moved, low, low_stays));
        _mm256_store_si256(block + 1, _mm256_blendv_epi8(high_moved, high, high_stays));
        if (blocks == 1 || way < CS_BLOCK)
            return old;
        tag = last; /* a whole block has moved on, its last tag to the next block */
        tags += CS_BLOCK;
        way -= CS_BLOCK;
    }
}

static INLINE uint32_t set_insert(uint32_t *tags, uint32_t blocks, const struct cs_level *level, uint32_t tag)
{
    return set_front(tags, blocks, level->last, tag);
}

static INLINE void set_remove(uint32_t *tags, uint32_t blocks, uint32_t way)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i turn = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0);
    uint32_t rows = blocks ? blocks * CS_BLOCK / 8 : 1;
    for (uint32_t row = way / 8; row < rows; row++) {
        uint32_t next = row + 1 < rows ? tags[8 * row + 8] : 0;
        __m256i tag = _mm256_load_si256((const __m256i *)tags + row);
        __m256i moved = _mm256_permutevar8x32_epi32(tag, turn);
        moved = _mm256_blend_epi32(moved, _mm256_set1_epi32((int)next), 0x80);
        __m256i stays = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)way - 8 * (int)row), lanes);
        _mm256_store_si256((__m256i *)tags + row, _mm256_blendv_epi8(moved, tag, stays));
    }
}
