/* How far from each other the successive addresses of an access are: a histogram for each, and whose array they are in.
   Loops tell their steps themselves; of other blocks the consumer looks at a sample of records. */
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <stdlib.h>
#include <string.h>

#include "run/run.h"

#define BUCKETS 6 /* as in struct instrument_strides */

struct strides {
    uint64_t last;
    uint32_t window; /* in which `last` was noted; before that another thread may have been at it */
    int32_t array;   /* of the last address */
    uint64_t other;
    struct instrument_stride bucket[BUCKETS];
};

static struct run_range arrays[INSTRUMENT_ARRAYS];
static uint32_t array_count;
uint32_t instrument_looks_at_strides;

int instrument_watch_strides(const struct run_range *ranges, uint32_t count) {
    if (count > INSTRUMENT_ARRAYS) return -5;
    memcpy(arrays, ranges, count * sizeof *ranges);
    array_count = count;
    instrument_looks_at_strides = 1;
    return 0;
}

static int inside(int32_t array, uint64_t address) {
    return array >= 0 && address - arrays[array].start < arrays[array].bytes;
}

static int32_t array_at(uint64_t address) {
    for (int32_t i = 0; i < (int32_t)array_count; i++)
        if (inside(i, address)) return i;
    return -1;
}

/* The histograms of a block, made when it is first looked at; NULL without memory. */
struct strides *instrument_strides_of(struct block *block) {
    if (!block->strides) block->strides = calloc(block->info.accesses + 1, sizeof(struct strides));
    return block->strides;
}

/* A stride that is in no bucket takes that of one seen but once: so those that come again stay. */
static void add(struct strides *s, int64_t stride, uint64_t weight) {
    struct instrument_stride *least = s->bucket;
    for (struct instrument_stride *b = s->bucket; b < s->bucket + BUCKETS; b++) {
        if (b->weight && b->stride == stride && b->array == s->array) {
            b->weight += weight;
            return;
        }
        if (b->weight < least->weight) least = b;
    }
    if (least->weight > 1) {
        s->other += weight;
        return;
    }
    s->other += least->weight;
    *least = (struct instrument_stride){stride, weight, s->array, 0};
}

/* `count` accesses from `address` on, a stride from each to the next. */
void instrument_step(struct strides *of, uint32_t access, uint64_t address, int64_t stride, uint64_t count) {
    struct strides *s = of + access;
    if (!inside(s->array, address)) s->array = array_at(address);
    s->last = address;
    s->window = 0;
    add(s, stride, count);
}

/* One access; its stride is from the one before in the same window. Windows are numbered from 1. */
void instrument_stride_to(struct strides *of, uint32_t access, uint64_t address, uint32_t window) {
    struct strides *s = of + access;
    if (!inside(s->array, address)) s->array = array_at(address);
    if (s->window == window) add(s, (int64_t)(address - s->last), 1);
    s->last = address;
    s->window = window;
}

uint32_t instrument_block_strides(uint32_t block, struct instrument_strides *out, uint32_t room) {
    const struct block *b = instrument_block_at(block);
    if (!b->strides) return 0;
    for (uint32_t i = 0; i < b->info.accesses && i < room; i++) {
        const struct strides *s = b->strides + i;
        const struct instrument_access *a = b->accesses + i;
        out[i] = (struct instrument_strides){s->last, s->other, s->array, a->bytes, a->kind, a->form, a->lanes, a->position, {{0}}};
        memcpy(out[i].stride, s->bucket, sizeof s->bucket);
    }
    return b->info.accesses;
}

void instrument_reset_strides(void) {
    for (uint64_t i = 0; i < instrument_block_total(); i++) {
        struct block *b = instrument_block_at(i);
        b->loop_runs = 0;
        if (b->strides) memset(b->strides, 0, b->info.accesses * sizeof *b->strides);
    }
}

void instrument_free_strides(void) {
    for (uint64_t i = 0; i < instrument_block_total(); i++) free(instrument_block_at(i)->strides);
    instrument_looks_at_strides = array_count = 0;
}

#endif
