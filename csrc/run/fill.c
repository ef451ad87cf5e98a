/* Fills arrays quickly and the same way every time: each element is a function of the seed and its index. */
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "run/run.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static inline uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Number `index` of the SplitMix64 sequence that starts at `seed`. */
static inline uint64_t random_bits(uint64_t seed, uint64_t index)
{
    return mix(seed + (index + 1) * 0x9e3779b97f4a7c15u);
}

/* `bits` scaled to 0..range-1; the bias is below range / 2^64. */
static inline uint64_t below(uint64_t bits, uint64_t range)
{
    return (uint64_t)((unsigned __int128)bits * range >> 64);
}

static uint16_t half(double value) /* to the nearest f16, ties to even */
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value)) return sign | 0x7e00;
    if (size >= 65520) return sign | 0x7c00;
    int exponent = -14;
    if (size >= 0x1p-14) {
        frexp(size, &exponent);
        exponent -= 1;
    }
    /* With the exponent's unit as 2^10, rounding up into the next exponent carries by itself. */
    double units = nearbyint(ldexp(size, 10 - exponent));
    return sign | (uint16_t)((exponent + 14) * 1024 + (int)units);
}

/* A permutation of 0..2^(2*bits)-1: four rounds of a Feistel network on two halves of `bits` bits. */
static inline uint64_t shuffle(uint64_t value, uint32_t bits, uint64_t seed)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1, left = value >> bits, right = value & mask;
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t next = left ^ (random_bits(seed + round, right) & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

struct part {
    const struct run_fill *how;
    void *data;
    uint64_t begin, end, count;
    int status;
};

/* One loop for each type; `expression` gives element i. */
#define EACH(type, expression) \
    do { \
        type *data = part->data; \
        const uint64_t every = part->how->every; \
        for (uint64_t i = part->begin; i < part->end; i++) data[i * every] = (type)(expression); \
        return 0; \
    } while (0)
#define EACH_INTEGER(expression) \
    switch (how->type) { \
    case RUN_I8: case RUN_U8: EACH(uint8_t, expression); \
    case RUN_I16: case RUN_U16: EACH(uint16_t, expression); \
    case RUN_I32: case RUN_U32: EACH(uint32_t, expression); \
    case RUN_I64: case RUN_U64: EACH(uint64_t, expression); \
    default: return -1; \
    }

static int fill_random(const struct part *part)
{
    const struct run_fill *how = part->how;
    uint64_t seed = how->seed;
    double low = how->first_float, width = how->last_float - how->first_float;
    switch (how->type) {
    case RUN_F64: EACH(double, low + width * ((double)(random_bits(seed, i) >> 11) * 0x1p-53));
    case RUN_F32: {
        float low32 = (float)low, width32 = (float)width;
        EACH(float, low32 + width32 * ((float)(random_bits(seed, i) >> 40) * 0x1p-24f));
    }
    /* 11 bits: what f16 holds exactly below 1 */
    case RUN_F16: EACH(uint16_t, half(low + width * ((double)(random_bits(seed, i) >> 53) * 0x1p-11)));
    }
    uint64_t range = (uint64_t)how->last - (uint64_t)how->first + 1;
    if (range == 0) /* all of 64 bits */
        EACH_INTEGER(random_bits(seed, i))
    EACH_INTEGER((uint64_t)how->first + below(random_bits(seed, i), range))
}

static int fill_permutation(const struct part *part)
{
    const struct run_fill *how = part->how;
    uint32_t bits = 1;
    while (bits < 32 && (uint64_t)1 << 2 * bits < part->count) bits++;
    uint64_t offset = (uint64_t)how->first;
    if (how->type < RUN_I8) return -1;
    for (uint64_t i = part->begin; i < part->end; i++) {
        uint64_t place = i;
        /* Walking the cycle until it comes back below count keeps this a permutation of 0..count-1. */
        do place = shuffle(place, bits, how->seed);
        while (place >= part->count);
        place += offset;
        switch (how->type) {
        case RUN_I8: case RUN_U8: ((uint8_t *)part->data)[i] = (uint8_t)place; break;
        case RUN_I16: case RUN_U16: ((uint16_t *)part->data)[i] = (uint16_t)place; break;
        case RUN_I32: case RUN_U32: ((uint32_t *)part->data)[i] = (uint32_t)place; break;
        default: ((uint64_t *)part->data)[i] = place;
        }
    }
    return 0;
}

static inline uint64_t column(const struct run_fill *how, uint64_t i)
{
    /* The j-th of a row's per_row indices lies in the j-th of per_row equal parts of the columns. */
    uint64_t j = i % how->per_row;
    uint64_t begin = (uint64_t)((unsigned __int128)how->columns * j / how->per_row);
    uint64_t end = (uint64_t)((unsigned __int128)how->columns * (j + 1) / how->per_row);
    return begin + below(random_bits(how->seed, i), end - begin);
}

static int fill_part(const struct part *part)
{
    const struct run_fill *how = part->how;
    switch (how->kind) {
    case RUN_FILL_CONSTANT:
        switch (how->type) {
        case RUN_F64: EACH(double, how->first_float);
        case RUN_F32: EACH(float, how->first_float);
        case RUN_F16: EACH(uint16_t, half(how->first_float));
        }
        EACH_INTEGER(how->first)
    case RUN_FILL_ARANGE:
        switch (how->type) {
        case RUN_F64: EACH(double, how->first_float + (double)i * how->step_float);
        case RUN_F32: EACH(float, how->first_float + (double)i * how->step_float);
        case RUN_F16: EACH(uint16_t, half(how->first_float + (double)i * how->step_float));
        }
        EACH_INTEGER((uint64_t)how->first + i * (uint64_t)how->step)
    case RUN_FILL_RANDOM: return fill_random(part);
    case RUN_FILL_PERMUTATION: return fill_permutation(part);
    case RUN_FILL_INDPTR: EACH_INTEGER((uint64_t)how->first + i * how->per_row)
    case RUN_FILL_INDICES:
        if (how->per_row == 0 || how->columns < how->per_row) return -1;
        EACH_INTEGER((uint64_t)how->first + column(how, i))
    }
    return -1;
}

static void *fill_thread(void *argument)
{
    struct part *part = argument;
    part->status = fill_part(part);
    return NULL;
}

int run_fill(uint64_t start, uint64_t count, const struct run_fill *how)
{
    enum { MOST = 16, WORTH = 1 << 18 };
    struct part parts[MOST];
    pthread_t threads[MOST];
    int started[MOST] = {0}, status = 0;
    uint64_t number = how->threads < MOST ? how->threads : MOST;
    if (number > count / WORTH) number = count / WORTH;
    if (number < 1) number = 1;
    for (uint64_t t = 0; t < number; t++) {
        parts[t] = (struct part){how, (void *)(uintptr_t)start, count / number * t,
                                 t + 1 == number ? count : count / number * (t + 1), count, 0};
        started[t] = t > 0 && !pthread_create(&threads[t], NULL, fill_thread, &parts[t]);
    }
    for (uint64_t t = 0; t < number; t++)
        if (!started[t]) fill_thread(&parts[t]);
    for (uint64_t t = 0; t < number; t++) {
        if (started[t]) pthread_join(threads[t], NULL);
        if (parts[t].status) status = -1;
    }
    return status;
}
