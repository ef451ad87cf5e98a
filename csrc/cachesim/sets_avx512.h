/*
 * What is done with the tags of one set, 16 ways at a time in AVX-512; sets_plain.h says what each function does. No blocks at
 * all are the 8 ways of half a block: half a vector, which most first and second levels of AMD's processors fit in.
 */
#include <immintrin.h>

static INLINE uint32_t set_match(const uint32_t *tags, uint32_t line)
{
    __m512i differ = _mm512_xor_si512(_mm512_load_si512(tags), _mm512_set1_epi32((int)line));
    return _mm512_testn_epi32_mask(differ, _mm512_set1_epi32((int)CS_LINE));
}

static INLINE uint32_t set_match_8(const uint32_t *tags, uint32_t line)
{
    __m256i differ = _mm256_xor_si256(_mm256_load_si256((const __m256i *)tags), _mm256_set1_epi32((int)line));
    return _mm256_testn_epi32_mask(differ, _mm256_set1_epi32((int)CS_LINE));
}

/* The ways of a mask, the first ones, move on by one, the last of them out, and `tag` comes in front. */
static INLINE void set_turn_8(uint32_t *tags, uint32_t ways, uint32_t tag)
{
    __m256i all = _mm256_load_si256((__m256i *)tags);
    __m256i moved = _mm256_alignr_epi32(all, _mm256_set1_epi32((int)tag), 7);
    _mm256_store_si256((__m256i *)tags, _mm256_mask_mov_epi32(all, (__mmask8)ways, moved));
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
    uint32_t old = tags[way];
    if (!blocks) {
        set_turn_8(tags, (2u << way) - 1, tag);
        return old;
    }
    while (blocks > 1 && way >= CS_BLOCK) { /* a whole block moves on, its last tag to the next block */
        uint32_t last = tags[CS_BLOCK - 1];
        __m512i block = _mm512_load_si512(tags);
        _mm512_store_si512(tags, _mm512_alignr_epi32(block, _mm512_set1_epi32((int)tag), 15));
        tag = last;
        tags += CS_BLOCK;
        way -= CS_BLOCK;
    }
    __m512i block = _mm512_load_si512(tags);
    __m512i moved = _mm512_alignr_epi32(block, _mm512_set1_epi32((int)tag), 15);
    /* blended, not stored under the mask: a masked store does not forward to the next load of the set */
    _mm512_store_si512(tags, _mm512_mask_mov_epi32(block, (__mmask16)((2u << way) - 1), moved));
    return old;
}

static INLINE uint32_t set_insert(uint32_t *tags, uint32_t blocks, const struct cs_level *level, uint32_t tag)
{
    if (blocks > 1)
        return set_front(tags, blocks, level->last, tag);
    uint32_t old = tags[level->last];
    if (!blocks) {
        set_turn_8(tags, level->last_mask, tag);
        return old;
    }
    __m512i block = _mm512_load_si512(tags);
    __m512i moved = _mm512_alignr_epi32(block, _mm512_set1_epi32((int)tag), 15);
    _mm512_store_si512(tags, _mm512_mask_mov_epi32(block, (__mmask16)level->last_mask, moved));
    return old;
}

static INLINE void set_remove(uint32_t *tags, uint32_t blocks, uint32_t way)
{
    if (!blocks) {
        __m256i all = _mm256_load_si256((__m256i *)tags);
        __m256i moved = _mm256_alignr_epi32(_mm256_setzero_si256(), all, 1);
        _mm256_store_si256((__m256i *)tags, _mm256_mask_mov_epi32(all, (__mmask8)(0xffu << way), moved));
        return;
    }
    for (uint32_t first = way / CS_BLOCK * CS_BLOCK; first < blocks * CS_BLOCK; first += CS_BLOCK) {
        uint32_t next = first + CS_BLOCK < blocks * CS_BLOCK ? tags[first + CS_BLOCK] : 0;
        __m512i block = _mm512_load_si512(tags + first);
        __m512i moved = _mm512_alignr_epi32(_mm512_set1_epi32((int)next), block, 1);
        __mmask16 from = (__mmask16)(way > first ? 0xffffu << (way - first) : 0xffffu);
        _mm512_store_si512(tags + first, _mm512_mask_mov_epi32(block, from, moved));
    }
}
