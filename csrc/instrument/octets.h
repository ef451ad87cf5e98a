/* Eight accesses of a block in vectors of AVX-512. */
#ifndef COUNTEROOF_INSTRUMENT_OCTETS_H
#define COUNTEROOF_INSTRUMENT_OCTETS_H

#include <immintrin.h>

#include "instrument/internal.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2,popcnt")))
#define REGISTERS 16u /* of a record, that two vectors hold */

struct registers { __m512i low, high; };

static inline TARGET struct registers registers_of(const uint64_t *record, uint32_t slots) {
    return (struct registers){_mm512_maskz_loadu_epi64((__mmask8)_bzhi_u32(255, slots), record),
                              _mm512_maskz_loadu_epi64((__mmask8)_bzhi_u32(255, slots < 8 ? 0 : slots - 8), record + 8)};
}

static inline TARGET __m512i bytes_at(const uint8_t *eight) {
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)eight));
}

static inline TARGET __m512i addresses(const struct instrument_sums *of, struct registers in) {
    __m512i index = _mm512_maskz_permutex2var_epi64(of->has_index, in.low, bytes_at(of->index), in.high);
    __m512i address = _mm512_maskz_permutex2var_epi64(of->has_base, in.low, bytes_at(of->base), in.high);
    address = _mm512_add_epi64(address, _mm512_sllv_epi64(index, bytes_at(of->scale)));
    return _mm512_add_epi64(address, _mm512_loadu_si512(of->delta));
}

static inline TARGET __m512i keys(const struct instrument_sums *of, __m512i line) {
    return _mm512_or_si512(_mm512_slli_epi64(line, CACHESIM_KIND_BITS), bytes_at(of->kind));
}

/* Writes those of eight pieces that a mask names side by side; returns how many. */
static inline TARGET uint32_t write(struct cachesim_piece *out, uint32_t mask, __m512i key, __m512i bits) {
    key = _mm512_maskz_compress_epi64((__mmask8)mask, key);
    bits = _mm512_maskz_compress_epi64((__mmask8)mask, bits);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(key, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), bits));
    _mm512_storeu_si512(out + 4, _mm512_permutex2var_epi64(key, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), bits));
    return (uint32_t)__builtin_popcount(mask);
}

#endif
