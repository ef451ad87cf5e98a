/* Structures shared by the files of the cache model; cachesim.h says what is modelled. */
#ifndef COUNTEROOF_CACHESIM_INTERNAL_H
#define COUNTEROOF_CACHESIM_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "fast.h"

/*
 * A line is 31 bits, (frame << bits of a line in a page) | line in page; bit 31 of a tag is its dirty flag. Frame 0 is never
 * given out, so tag 0 is an empty way. Below level 1 a set's tags stand in order of recency, empty ways last: the victim
 * is always the last tag, no ages are kept, and 16 ways are one 64-byte line. In level 1, where hits are many, a line stays
 * in its slot and its time of last use is noted: a hit then waits for nothing.
 */
#define CS_DIRTY 0x80000000u
#define CS_LINE 0x7fffffffu
#define CS_BLOCK 16u /* ways are stored in blocks of this many */
#define CS_MAX_LEVELS 4u
#define CS_MAX_WAYS 64u
#define CS_PAGE_BITS 12u
#define CS_NONE UINT64_MAX

enum { CS_NON_INCLUSIVE, CS_INCLUSIVE, CS_VICTIM };
enum { CS_LOAD, CS_STORE, CS_NON_TEMPORAL, CS_PREFETCH, CS_FLUSH, CS_UPDATE, CS_FENCE };
enum { CS_INDEX_POWER, CS_INDEX_REMAINDER, CS_INDEX_WRAP, CS_INDEX_SLICES };

struct cs_level {
    uint32_t *tags; /* [sets][room], room a multiple of CS_BLOCK */
    uint32_t ways, blocks, room_bits; /* room is 1 << room_bits */
    uint32_t last; /* ways - 1 */
    uint32_t set_mask; /* sets - 1, for index POWER */
    uint32_t last_mask; /* for vectors: the ways of the last block up to the last way, one bit each */
    uint32_t fill;
    /*
     * How a set is chosen. Neighbouring lines of a page have neighbouring sets: of the set number the low unit_bits are the
     * line's, and the rest, a unit, is chosen by the line's other bits: those below the unit number's own width directly,
     * mixed with a hash of those above.
     */
    uint32_t index, sets, unit_bits;
    uint32_t units, unit_width; /* units of a slice, and the log2 of the power of two not above that */
    uint32_t low_bits;          /* unit_bits + unit_width: the bits used directly */
    uint32_t fold, fold_shift;  /* what the bits above are multiplied by, and how far the product moves down */
    uint32_t slices, slice_sets;
    uint64_t misses, down;
};

/* What is known of a 4 KiB page; bits are its lines in this window. */
struct cs_page {
    uint64_t read, written;  /* from and to memory */
    uint64_t read_for_store; /* of read: the first time because of a store */
    uint64_t loaded;         /* by the program, before any store to it */
    uint64_t stored;         /* by the program */
    uint32_t *dirtied_by;    /* per line, for origins.c; NULL if nothing is known */
    struct cs_traffic *traffic; /* of the array it belongs to; NULL: ask line by line */
    uint32_t line;              /* first physical line; 0 if the page was never touched */
    uint32_t last_set;          /* its set in the last level */
} __attribute__((aligned(64)));

/* The traffic of an array, or of all else (-1); distinct lines are not counted here but in the pages. */
struct cs_traffic {
    struct cachesim_traffic count;
    int32_t array;
};
#define CS_ALL (-2)

/* Pages by label; NULL while not touched. */
struct cs_labels {
    struct cs_page **page;
    uint32_t count, room;
};

/* Pages by address: 2^15 neighbours, calloc'ed, so only those in use take memory. */
struct cs_leaf {
    struct cs_page *page;
    uint64_t top;
    struct cs_leaf *next;
};

struct cs_array {
    uint64_t start, end; /* bytes */
    uint64_t first_page, page_count;
    uint64_t huge_start, huge_end; /* virtual page numbers, whole 2 MiB blocks; equal if none */
    uint32_t label, huge_label;    /* of the first page */
};

/* Frames by label: labels are dense, frames are a permutation of them. */
struct cs_scramble {
    uint32_t bits, mask, shift[3];
    uint32_t multiplier[3], inverse[3];
};

#define CS_COMBINERS 10u
struct cs_combiner {
    uint64_t line;    /* virtual line, CS_NONE if free */
    uint64_t mask[4]; /* bytes written */
    uint64_t used;    /* time of last use */
    uint32_t origin;  /* number of the store that opened it */
    uint32_t whole;   /* the rest of the line is known too: the caches held it dirty */
};

struct cachesim {
    struct cachesim_front front; /* first: fast.h relies on it */
    const struct cs_operations *do_;
    uint32_t levels, line_bits, page_line_bits;
    uint32_t error;
    uint64_t clock_bias; /* the front's clock minus the accesses of this window */
    /* For loops: how many lines left level 1 that were last used at `watch` or later, and who can say more. */
    uint64_t watch, removals;
    struct cs_walk *walk;
    uint64_t *order; /* per level-1 set, for runs: see run.h */
    uint64_t front_off; /* all ones if level 1 has more slots than a guess can tell: then all keys are unknown */
    struct cs_level level[CS_MAX_LEVELS];

    struct cs_page **directory; /* leaves of addresses below 2^47; others are searched in the list */
    struct cs_leaf *leaves;
    struct cs_scramble small, huge;
    struct cs_labels array_pages, huge_pages, other_pages;
    uint64_t pages_touched;

    struct cs_array *arrays;
    uint32_t array_count, array_room;
    struct cs_traffic **traffic; /* [array_count + 1], other first */

    struct cs_combiner combiner[CS_COMBINERS];
    uint32_t combiners; /* open ones */
    struct cs_origins *origins; /* NULL if nobody asked */
    uint64_t clock;
    uint64_t non_temporal_lines, partial_lines;
};

struct cs_operations {
    uint32_t width; /* as cachesim_use_vectors takes it */
    void (*access)(struct cachesim *, uint64_t address, uint32_t bytes, uint32_t kind);
    void (*accesses)(struct cachesim *, const uint64_t *, const uint32_t *, const uint32_t *, uint64_t);
    void (*loop)(struct cachesim *, uint32_t, const uint64_t *, const int64_t *, const uint32_t *, const uint32_t *,
                 uint64_t);
    /* takes a line out of every level; returns 1 if a copy was dirty and write_back was asked: memory has been written */
    uint32_t (*remove)(struct cachesim *, uint32_t line, uint32_t write_back);
};

/*
 * The tables of functions: plain C and vectors, and each of them for the common shape (see cs_is_common) and for any.
 */
extern const struct cs_operations cs_plain, cs_plain_common;
#if defined(__x86_64__)
extern const struct cs_operations cs_avx2, cs_avx2_common, cs_avx512, cs_avx512_common;
#endif

/*
 * Three levels of at most 16 ways, 64-byte lines, sets of the first two chosen by low address bits and of the third so that
 * a page's lines have 64 sets in a row: what most machines have. The walk is compiled for it with these numbers as constants.
 */
static inline int cs_is_common(const struct cachesim *sim)
{
    int common = sim->levels == 3 && sim->line_bits == 6 && !sim->front_off;
    for (uint32_t k = 0; k < sim->levels; k++)
        common &= sim->level[k].blocks == 1 && (k > 1 || (sim->level[k].index == CS_INDEX_POWER && !sim->level[k].fold));
    const struct cs_level *last = &sim->level[sim->levels - 1];
    return common && last->unit_bits == 6 && (last->index == CS_INDEX_POWER || last->index == CS_INDEX_WRAP);
}

/* pages.c */
#define CS_DIRECTORY_BITS 20u
#define CS_LEAF_BITS 15u
int cs_pages_init(struct cachesim *, uint64_t seed);
void cs_pages_free(struct cachesim *);
struct cs_page *cs_page_slow(struct cachesim *, uint64_t number); /* first touch */
struct cs_page *cs_far_page(const struct cachesim *, uint64_t number); /* NULL if there is no leaf */
int32_t cs_line_array(const struct cachesim *, const struct cs_page *, uint32_t line_in_page);
void cs_pages_reset(struct cachesim *);
/* Adds the distinct lines of one array, of none (-1) or of all (CS_ALL). */
void cs_distinct(const struct cachesim *, int32_t array, struct cachesim_traffic *);

/* origins.c: who caused the traffic with memory */
void cs_origins_free(struct cachesim *);
void cs_origins_reset(struct cachesim *);
void cs_origins_clean(struct cachesim *); /* nothing is dirty any more */
void cs_origin_read(struct cachesim *);
void cs_origin_written(struct cachesim *, struct cs_page *, uint32_t in_page);
void cs_origin_dirtied(struct cachesim *, struct cs_page *, uint32_t in_page);

/* combine.c: write-combining buffers */
void cs_combine(struct cachesim *, uint64_t address, uint32_t bytes); /* within one line */
void cs_combine_close_line(struct cachesim *, uint64_t virtual_line);
void cs_combine_drain(struct cachesim *);

static inline uint32_t cs_scramble(const struct cs_scramble *s, uint32_t x)
{
    for (int i = 0; i < 3; i++) {
        x = x * s->multiplier[i] & s->mask;
        x ^= x >> s->shift[i];
    }
    return x;
}

static inline uint32_t cs_unscramble(const struct cs_scramble *s, uint32_t x)
{
    for (int i = 2; i >= 0; i--) {
        x ^= x >> s->shift[i]; /* its own inverse: the shift is at least half the width */
        x = x * s->inverse[i] & s->mask;
    }
    return x;
}

/* Frames: bit 24 tells 2 MiB frames (9 bits of page within) from 4 KiB ones. */
#define CS_SMALL_BITS 24u
#define CS_HUGE_BITS 15u
#define CS_FRAME_HUGE (1u << 24)

/* The page that a physical line lies in. */
static inline struct cs_page *cs_page_of(const struct cachesim *sim, uint32_t line)
{
    uint32_t frame = line >> sim->page_line_bits;
    if (frame & CS_FRAME_HUGE)
        return sim->huge_pages.page[cs_unscramble(&sim->huge, frame >> 9 & 0x7fff) << 9 | (frame & 511)];
    uint32_t label = cs_unscramble(&sim->small, frame);
    return label < sim->array_pages.count ? sim->array_pages.page[label]
                                          : sim->other_pages.page[(1u << CS_SMALL_BITS) - 1 - label];
}

/* A page by number, NULL if no page near it was touched; it may be untouched (line 0) itself. */
static inline struct cs_page *cs_page_seen(const struct cachesim *sim, uint64_t number)
{
    if (__builtin_expect(number >> (CS_DIRECTORY_BITS + CS_LEAF_BITS) != 0, 0))
        return cs_far_page(sim, number);
    struct cs_page *leaf = sim->directory[number >> CS_LEAF_BITS];
    return leaf ? leaf + (number & ((1u << CS_LEAF_BITS) - 1)) : NULL;
}

/* The page of a virtual line, touched. */
static inline struct cs_page *cs_page(struct cachesim *sim, uint64_t virtual_line)
{
    uint64_t number = virtual_line >> sim->page_line_bits;
    struct cs_page *page = cs_page_seen(sim, number);
    if (__builtin_expect(!page || !page->line, 0))
        page = cs_page_slow(sim, number);
    return page;
}

static inline uint32_t cs_in_page(const struct cachesim *sim, uint64_t line)
{
    return (uint32_t)line & ((1u << sim->page_line_bits) - 1);
}

static inline uint32_t cs_set(const struct cs_level *level, uint32_t line)
{
    /* Fibonacci hashing: the top bits of the product are the well mixed ones. Zero if the level is not hashed. */
    uint32_t high = (line >> level->low_bits) * level->fold;
    if (level->index == CS_INDEX_POWER)
        return (line ^ high >> level->fold_shift << level->unit_bits) & level->set_mask;
    if (level->index == CS_INDEX_REMAINDER)
        return line % level->sets;
    uint32_t unit = (line >> level->unit_bits) & ((1u << level->unit_width) - 1);
    unit += (uint32_t)((uint64_t)high * level->units >> 32);
    if (unit >= level->units)
        unit -= level->units;
    uint32_t set = unit << level->unit_bits | (line & ((1u << level->unit_bits) - 1));
    if (level->index != CS_INDEX_SLICES)
        return set;
    uint32_t all = (line ^ line >> 16) * 0x85ebca6bu;
    all = (all ^ all >> 13) * 0xc2b2ae35u;
    return (uint32_t)((uint64_t)(all ^ all >> 16) * level->slices >> 32) * level->slice_sets + set;
}

static inline struct cs_traffic *cs_traffic(struct cachesim *sim, const struct cs_page *page, uint32_t in_page)
{
    return page->traffic ? page->traffic : sim->traffic[cs_line_array(sim, page, in_page) + 1];
}

/* in_page: number of the line within its page */
static inline void cs_memory_read(struct cachesim *sim, struct cs_page *page, uint32_t in_page, uint32_t store)
{
    struct cachesim_traffic *traffic = &cs_traffic(sim, page, in_page)->count;
    uint64_t bit = UINT64_C(1) << in_page;
    traffic->read_lines++;
    if (store) {
        traffic->write_allocate_lines++;
        page->read_for_store |= bit & ~page->read;
    }
    page->read |= bit;
    if (__builtin_expect(sim->origins != NULL, 0))
        cs_origin_read(sim);
}

static inline void cs_memory_write(struct cachesim *sim, uint32_t line)
{
    struct cs_page *page = cs_page_of(sim, line);
    uint32_t in_page = cs_in_page(sim, line);
    cs_traffic(sim, page, in_page)->count.write_lines++;
    page->written |= UINT64_C(1) << in_page;
    if (__builtin_expect(sim->origins != NULL, 0))
        cs_origin_written(sim, page, in_page);
}

#endif
