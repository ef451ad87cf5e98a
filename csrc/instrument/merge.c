/*
 * Neighbours on one line, merged beforehand. Which accesses of a block are on one line, and which lie across two, follows
 * from where in their lines its addresses are, and that is mostly the same whenever the block runs. So its accesses are cut
 * and merged as one record has them, and the pieces hold for every record that has them there, too. Without vectors nothing
 * was gained by it.
 */
#if defined(__x86_64__)
#include "instrument/octets.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_REST 256u

/* A consumer's own. It has room for two pieces an access. */
struct instrument_merged {
    uint32_t octets; /* 0: there was nothing to merge */
    uint32_t rest;   /* so many records are not looked at before it is made anew */
    uint32_t longer; /* the last rest */
    struct instrument_merged_octet octet[];
};

/* A piece while it is made. */
struct made {
    const struct instrument_plain *of;
    uint64_t line, bits;
    uint32_t more, ends; /* ends: an access has been cut where the line ends */
};

static int alike(const struct instrument_plain *a, const struct instrument_plain *b) {
    return a->kind == b->kind && a->kind <= 1 && a->base == b->base && a->index == b->index && a->scale == b->scale;
}

/* Whether there are neighbours that may have bytes on one line. */
int instrument_may_merge(const struct block *b) {
    for (uint32_t i = 1; i < b->info.accesses; i++) {
        const struct instrument_plain *one = &b->plain[i - 1], *next = &b->plain[i];
        int64_t above = (int64_t)((uint64_t)next->delta - (uint64_t)one->delta);
        if (alike(one, next) && above < (int64_t)one->bytes + 63 && -above < (int64_t)next->bytes + 63) return 1;
    }
    return 0;
}

static uint64_t address_of(const struct instrument_plain *a, const uint64_t *record) {
    return (uint64_t)a->delta + (a->base ? record[a->base] : 0) + (a->index ? record[a->index] << a->scale : 0);
}

/* Cuts and merges the accesses of a record; returns how many pieces, and how many accesses have been merged with others. */
static uint32_t cut(struct made *pieces, uint32_t *merged, const struct block *b, const uint64_t *record) {
    struct made *last = NULL;
    *merged = 0;
    for (const struct instrument_plain *a = b->plain, *end = a + b->info.accesses; a < end; a++) {
        uint64_t address = address_of(a, record), bytes = UINT64_MAX >> (64 - a->bytes);
        uint32_t offset = address & 63, crosses = offset + a->bytes > 64;
        for (uint32_t second = 0; second <= crosses; second++) {
            uint64_t line = (address >> 6) + second, bits = second ? bytes >> (64 - offset) : bytes << offset;
            if (last && line == last->line && alike(a, last->of)) {
                last->bits |= bits;
                last->more++;
                ++*merged;
            } else {
                last = last ? last + 1 : pieces;
                *last = (struct made){a, line, bits, 0, 0};
            }
            last->ends |= crosses && !second;
        }
    }
    return last ? (uint32_t)(last - pieces) + 1 : 0;
}

void instrument_place(struct instrument_sums *of, uint32_t place, const struct instrument_plain *a, int64_t delta) {
    of->delta[place] = delta;
    of->base[place] = a->base;
    of->index[place] = a->index;
    of->scale[place] = a->scale;
    of->kind[place] = a->kind;
    of->there |= (uint8_t)(1u << place);
    of->has_base |= (uint8_t)(!!a->base << place);
    of->has_index |= (uint8_t)(!!a->index << place);
}

static void add(struct instrument_merged_octet *octet, uint32_t place, const struct made *piece, const uint64_t *record) {
    uint32_t first = (uint32_t)__builtin_ctzll(piece->bits), last = 63 - (uint32_t)__builtin_clzll(piece->bits);
    uint64_t from_access = (piece->line << 6) + first - address_of(piece->of, record);
    instrument_place(&octet->of, place, piece->of, piece->of->delta + (int64_t)from_access);
    octet->bytes[place] = piece->bits >> first;
    octet->more[place] = (uint8_t)piece->more;
    /* What was cut has to be cut there again, which its first piece tells; all else may lie anywhere in its line. */
    octet->least[place] = (uint8_t)(piece->ends ? first : 0);
    octet->room[place] = (uint8_t)(piece->ends ? 0 : 63 - (last - first));
}

static void make(struct instrument_merged *m, const struct block *b, const uint64_t *record) {
    struct made pieces[2 * INSTRUMENT_MERGED];
    uint32_t merged, count = cut(pieces, &merged, b, record);
    m->octets = merged ? (count + 7) / 8 : 0;
    memset(m->octet, 0, m->octets * sizeof *m->octet);
    for (uint32_t i = 0; merged && i < count; i++) add(&m->octet[i / 8], i % 8, &pieces[i], record);
}

/* It does not hold: a block whose addresses move about is soon hardly looked at. */
static void rest(struct instrument_merged *m) {
    m->rest = m->longer = m->longer < LONGEST_REST / 2 ? 2 * m->longer + 1 : LONGEST_REST;
}

/* What a consumer has of a block, made of this record if need be; NULL if there is nothing. */
static __attribute__((noinline)) struct instrument_merged *look(struct block *b, uint32_t consumer, const uint64_t *record) {
    struct instrument_merged *m = b->merged[consumer];
    if (m && --m->rest) return NULL;
    if (!m) {
        uint64_t bytes = sizeof *m + (2 * (uint64_t)b->info.accesses + 7) / 8 * sizeof *m->octet;
        m = b->merged[consumer] = aligned_alloc(64, bytes);
        if (!m) return NULL;
        m->longer = 0;
    }
    m->rest = 0;
    make(m, b, record);
    if (m->octets) return m;
    rest(m);
    return NULL;
}

static TARGET int pieces_of(const struct instrument_merged *m, const uint64_t *record, uint32_t slots,
                            const struct cachesim_dealt *dealt, struct cachesim_piece *out, uint64_t *again) {
    const struct cachesim_piece *start = out;
    const struct registers registers = registers_of(record, slots);
    const __m512i low_bits = _mm512_set1_epi64(63);
    const __m512i mask = _mm512_set1_epi64(dealt->mask), part = _mm512_set1_epi64(dealt->part);
    __m128i sum = _mm_setzero_si128();
    for (const struct instrument_merged_octet *octet = m->octet, *end = octet + m->octets; octet < end; octet++) {
        __m512i address = addresses(&octet->of, registers);
        __m512i line = _mm512_srli_epi64(address, 6), offset = _mm512_and_si512(address, low_bits);
        __m512i above = _mm512_sub_epi64(offset, bytes_at(octet->least));
        if (octet->of.there & _mm512_cmpgt_epu64_mask(above, bytes_at(octet->room))) return -1;
        uint32_t own = octet->of.there & _mm512_testn_epi64_mask(_mm512_xor_si512(line, part), mask);
        __m128i more = _mm_maskz_mov_epi8((__mmask16)own, _mm_loadl_epi64((const __m128i *)octet->more));
        sum = _mm_add_epi64(sum, _mm_sad_epu8(more, _mm_setzero_si128()));
        out += write(out, own, keys(&octet->of, line), _mm512_sllv_epi64(_mm512_loadu_si512(octet->bytes), offset));
    }
    *again += (uint64_t)_mm_cvtsi128_si64(sum);
    return (int)(out - start);
}

int instrument_cut_merged(struct block *b, uint32_t consumer, const uint64_t *record, const struct cachesim_dealt *dealt,
                          struct cachesim_piece *out, uint64_t *again) {
    struct instrument_merged *m = b->merged[consumer];
    if (__builtin_expect(!m || m->rest, 0)) {
        m = look(b, consumer, record);
        if (!m) return -1;
    }
    int count = pieces_of(m, record, b->info.slots, dealt, out, again);
    if (__builtin_expect(count < 0, 0)) rest(m);
    return count;
}

#endif
