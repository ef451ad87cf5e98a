/* What is done with the tags of one set, 16 ways at a time in AVX-512; sets_plain.h says what each function does. */
#include <immintrin.h>

static INLINE uint32_t set_match(const uint32_t *tags, uint32_t line)
{
    __m512i differ = _mm512_xor_si512(_mm512_load_si512(tags), _mm512_set1_epi32((int)line));
    return _mm512_testn_epi32_mask(differ, _mm512_set1_epi32((int)CS_LINE));
}

static INLINE int set_find(const uint32_t *tags, uint32_t blocks, uint32_t line)
{
    uint32_t match = set_match(tags, line);
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
    __m512i block = _mm512_load_si512(tags);
    __m512i moved = _mm512_alignr_epi32(block, _mm512_set1_epi32((int)tag), 15);
    _mm512_store_si512(tags, _mm512_mask_mov_epi32(block, (__mmask16)level->last_mask, moved));
    return old;
}

static INLINE void set_remove(uint32_t *tags, uint32_t blocks, uint32_t way)
{
    for (uint32_t first = way / CS_BLOCK * CS_BLOCK; first < blocks * CS_BLOCK; first += CS_BLOCK) {
        uint32_t next = first + CS_BLOCK < blocks * CS_BLOCK ? tags[first + CS_BLOCK] : 0;
        __m512i block = _mm512_load_si512(tags + first);
        __m512i moved = _mm512_alignr_epi32(_mm512_set1_epi32((int)next), block, 1);
        __mmask16 from = (__mmask16)(way > first ? 0xffffu << (way - first) : 0xffffu);
        _mm512_store_si512(tags + first, _mm512_mask_mov_epi32(block, from, moved));
    }
}

static INLINE uint64_t set_oldest(const uint64_t *stamps, uint32_t blocks, uint32_t *way)
{
    __m512i least = _mm512_min_epu64(_mm512_load_si512(stamps), _mm512_load_si512(stamps + 8));
    for (uint32_t row = 2; row < 2 * blocks; row++)
        least = _mm512_min_epu64(least, _mm512_load_si512(stamps + 8 * row));
    __m256i four = _mm256_min_epu64(_mm512_castsi512_si256(least), _mm512_extracti64x4_epi64(least, 1));
    __m128i two = _mm_min_epu64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    __m128i one = _mm_min_epu64(two, _mm_unpackhi_epi64(two, two));
    __m512i wanted = _mm512_broadcastq_epi64(one);
    for (uint32_t row = 0;; row += 2) { /* the least is one of them */
        __mmask16 low = _mm512_cmpeq_epi64_mask(wanted, _mm512_load_si512(stamps + 8 * row));
        __mmask16 high = _mm512_cmpeq_epi64_mask(wanted, _mm512_load_si512(stamps + 8 * row + 8));
        uint32_t match = _mm512_kunpackb(high, low);
        if (blocks == 1 || match) {
            *way = 8 * row + (uint32_t)__builtin_ctz(match);
            return (uint64_t)_mm_cvtsi128_si64(one);
        }
    }
}

static INLINE void set_tag(uint32_t *tags, uint32_t way, uint32_t tag)
{
    uint32_t *block = tags + (way & ~15u);
    __mmask16 here = (__mmask16)(1u << (way & 15));
    _mm512_store_si512(block, _mm512_mask_set1_epi32(_mm512_load_si512(block), here, (int)tag));
}

static INLINE void set_stamp(uint64_t *stamps, uint32_t way, uint64_t time)
{
    uint64_t *row = stamps + (way & ~7u);
    __mmask8 here = (__mmask8)(1u << (way & 7));
    _mm512_store_si512(row, _mm512_mask_set1_epi64(_mm512_load_si512(row), here, (long long)time));
}
