/* The accesses of blocks that have plain ones alone, cut at lines; eight at a time in AVX-512. */
#if defined(__x86_64__)
#include "instrument/octets.h"

#include <stdlib.h>

static uint32_t plainly; /* without vectors */

void instrument_cut_plainly(uint32_t on) { plainly = on; }

static int supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
}

int instrument_cuts(struct block *b) {
    uint32_t n = b->info.accesses, octets = !plainly && supported();
    for (uint32_t i = 0; i < n; i++) {
        if (b->plain[i].bytes - 1 >= 64 || b->plain[i].kind >= FENCE) return 0;
        octets &= b->plain[i].base < REGISTERS && b->plain[i].index < REGISTERS;
    }
    b->cuts = 1;
    if (!octets || !n) return 0;
    b->may_merge = n <= INSTRUMENT_MERGED && instrument_may_merge(b);
    b->octets = calloc((n + 7) / 8, sizeof *b->octets);
    if (!b->octets) return -1;
    for (uint32_t i = 0; i < n; i++) {
        instrument_place(&b->octets[i / 8].of, i % 8, &b->plain[i], b->plain[i].delta);
        b->octets[i / 8].less[i % 8] = (uint8_t)(b->plain[i].bytes - 1);
    }
    return 0;
}

static uint32_t cut_plain(const struct block *b, const uint64_t *record, const struct cachesim_dealt *dealt,
                          struct cachesim_piece *out) {
    struct cachesim_piece *start = out;
    const struct cachesim_dealt own = *dealt; /* what is written cannot be it */
    for (const struct instrument_plain *a = b->plain, *end = a + b->info.accesses; a < end; a++) {
        uint64_t address = (uint64_t)a->delta;
        if (a->base) address += record[a->base];
        if (a->index) address += record[a->index] << a->scale;
        out = instrument_cut_one(out, &own, address, a->bytes, a->kind);
    }
    return (uint32_t)(out - start);
}

static TARGET uint32_t cut_octets(const struct block *b, const uint64_t *record, const struct cachesim_dealt *dealt,
                                  struct cachesim_piece *out) {
    struct cachesim_piece *start = out;
    const struct registers registers = registers_of(record, b->info.slots);
    const __m512i low_bits = _mm512_set1_epi64(63), all = _mm512_set1_epi64(-1), one = _mm512_set1_epi64(1);
    const __m512i mask = _mm512_set1_epi64(dealt->mask), part = _mm512_set1_epi64(dealt->part);
    const __m512i up = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), down = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    const struct instrument_octet *octet = b->octets, *end = octet + (b->info.accesses + 7) / 8;
    for (; octet < end; octet++) {
        __m512i address = addresses(&octet->of, registers);
        __m512i line = _mm512_srli_epi64(address, 6), offset = _mm512_and_si512(address, low_bits);
        __m512i less = bytes_at(octet->less), last = _mm512_add_epi64(offset, less);
        __m512i key = keys(&octet->of, line);
        __m512i bits = _mm512_sllv_epi64(_mm512_srlv_epi64(all, _mm512_sub_epi64(low_bits, less)), offset);
        uint32_t own = octet->of.there & _mm512_testn_epi64_mask(_mm512_xor_si512(line, part), mask);
        uint32_t crosses = octet->of.there & _mm512_cmpgt_epi64_mask(last, low_bits);
        if (!crosses) {
            out += write(out, own, key, bits);
            continue;
        }
        /* the second piece of each behind the first */
        __m512i next = _mm512_add_epi64(line, one);
        uint32_t own_next = crosses & _mm512_testn_epi64_mask(_mm512_xor_si512(next, part), mask);
        __m512i next_key = keys(&octet->of, next);
        __m512i next_bits = _mm512_srlv_epi64(all, _mm512_sub_epi64(_mm512_set1_epi64(127), last));
        if (dealt->mask) { /* neighbouring lines are of different parts, so at most one of the two is this part's */
            out += write(out, own | own_next, _mm512_mask_mov_epi64(key, (__mmask8)own_next, next_key),
                         _mm512_mask_mov_epi64(bits, (__mmask8)own_next, next_bits));
            continue;
        }
        uint32_t both = _pdep_u32(own, 0x5555) | _pdep_u32(own_next, 0xaaaa);
        out += write(out, both & 255, _mm512_permutex2var_epi64(key, up, next_key),
                     _mm512_permutex2var_epi64(bits, up, next_bits));
        out += write(out, both >> 8, _mm512_permutex2var_epi64(key, down, next_key),
                     _mm512_permutex2var_epi64(bits, down, next_bits));
    }
    return (uint32_t)(out - start);
}

uint32_t instrument_cut(const struct block *b, const uint64_t *record, const struct cachesim_dealt *dealt,
                        struct cachesim_piece *out) {
    return (b->octets ? cut_octets : cut_plain)(b, record, dealt, out);
}

#endif
