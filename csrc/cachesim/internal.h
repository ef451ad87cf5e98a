/* Structures shared by the files of the cache model; cachesim.h says what is modelled. */
#ifndef COUNTEROOF_CACHESIM_INTERNAL_H
#define COUNTEROOF_CACHESIM_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cachesim/cachesim.h"
#include "cachesim/piece.h"

/*
 * A page that was touched has a label, a small number; a line is (label << bits of a line in a page) | line in page, 31
 * bits, and bit 31 of a tag is its dirty flag. Label 0 is never given out, so tag 0 is an empty way. What is known of pages
 * and lines lies in tables by label, and only the set is chosen by the physical address. A set's tags stand in order of
 * recency, empty ways last: the victim is always the last tag, no ages are kept, and 16 ways are one 64-byte line.
 */
#define CS_DIRTY 0x80000000u
#define CS_LINE 0x7fffffffu
#define CS_BLOCK 16u /* ways are stored in blocks of this many */
#define CS_MAX_LEVELS 4u
#define CS_MAX_WAYS 64u
#define CS_PAGE_BITS 12u
#define CS_CHUNKS 64u /* of a page: 64 bytes each, however long lines are */
#define CS_NONE UINT64_MAX

enum { CS_NON_INCLUSIVE, CS_INCLUSIVE, CS_VICTIM };
enum { CS_LOAD, CS_STORE, CS_NON_TEMPORAL, CS_PREFETCH, CS_FLUSH, CS_UPDATE, CS_FENCE };
enum { CS_LRU, CS_TREE, CS_RANDOM, CS_RRIP, CS_ADAPTIVE };
enum { CS_INDEX_POWER, CS_INDEX_REMAINDER, CS_INDEX_WRAP, CS_INDEX_SLICES };

struct cs_level;

/*
 * Replacement where ways have fixed places, empty ones anywhere; one file each, policy_*.c. Of LRU and adaptive levels, whose
 * ways stand in order of recency, `policy` is NULL: the walk knows them.
 */
struct cs_policy {
    void (*found)(struct cs_level *, uint32_t *tags, uint32_t way); /* the core or the level above asked for it */
    /* empty: the first way that is, level->ways if none; returns what has to leave, or 0 */
    uint32_t (*insert)(struct cs_level *, uint32_t *tags, uint32_t tag, uint32_t empty);
    void (*removed)(struct cs_level *, uint32_t *tags, uint32_t way);    /* it is empty now; NULL: nothing to do */
    int start; /* what the bytes of an empty set's state are */
};

struct cs_level {
    /* [sets of this part][room], room a multiple of CS_BLOCK, or 8; of the core at work, where each has its own */
    uint32_t *tags;
    uint32_t ways, blocks, room_bits; /* room is 1 << room_bits */
    uint32_t part_bits, part;         /* of a set's number, as of lines': its place leaves them out */
    uint32_t last; /* ways - 1 */
    uint32_t set_mask; /* sets - 1, for index POWER */
    uint32_t last_mask; /* for vectors: the ways of the last block up to the last way, one bit each */
    uint32_t fill;
    uint32_t apart; /* a line that the level above gives up cannot be here: victim of an inclusive level of the only core */
    /*
     * How a set is chosen. Neighbouring lines of a page have neighbouring sets: of the set number the low unit_bits are the
     * line's, and the rest, a unit, is chosen by the line's other bits. If the sets are a power of two, those below low_bits
     * do that directly, and in hashed levels a hash of those above is mixed in. Else see cs_set.
     */
    uint32_t index, sets, unit_bits;
    uint32_t units;            /* of a slice */
    uint32_t low_bits;         /* unit_bits and those of the unit's number */
    uint32_t fold, fold_shift; /* what the bits above are multiplied by, and how far the product moves down */
    uint32_t slices, slice_sets;
    uint64_t misses, down;
    const struct cs_policy *policy;
    uint64_t (*state)[2]; /* [sets of this part] of the policy; of the core at work, where each has its own */
    struct cachesim_policy given;
    uint32_t selects;  /* not every line is taken in near */
    uint32_t duellers; /* every so many sets lead for one side; 0: no duel */
    int32_t duel;      /* above 0: the sets of `near` missed more than those of `rival` */
    uint64_t random, seed;
};

/*
 * What is known of a line, side by side, so that a line that comes at random costs one answer of memory. There is one for each
 * 64 bytes; of a longer line the first has what is known of the whole, and each what was touched.
 */
struct cs_line {
    uint64_t touched; /* bytes, a bit each, in this window */
    uint32_t asked;   /* when the last level was asked for it last, see cs_recency; 0: never */
    uint32_t state;   /* what happened to it in this window; and above CS_OWNER_BITS, whose it is: place in cachesim.traffic */
};
#define CS_READ 1u           /* from memory */
#define CS_READ_FOR_STORE 2u /* the first time because of a store */
#define CS_HAPPENED 3u
#define CS_OWNER_BITS 2u

/* What is known of a 4 KiB page; bits are its lines in this window. */
struct cs_page {
    uint64_t written; /* to memory, long after they were asked for */
    uint64_t loaded;  /* by the program, before any store to it */
    uint64_t stored;  /* by the program */
    uint32_t owner;   /* as of a line; CS_SEVERAL if its lines differ */
    uint32_t askers;  /* cores that asked for a line of it, once there are several: bit c; bit 31 for all from the 32nd on */
};
#define CS_SEVERAL UINT32_MAX

/* Where a page lies: what is needed to find a line's sets, and small, so that it stays in the host's caches. */
struct cs_frame {
    uint32_t line;     /* its first physical line; 0 if the page was never touched */
    uint32_t last_set; /* that line's set in the last level */
};

/* Beside the numbers of arrays: page tables, all else, and all there is. */
#define CS_TABLES (-2)
#define CS_NO_ARRAY (-1)
#define CS_FIRST_ARRAY 2u
#define CS_ALL INT32_MIN

/* Labels by page number, 2^15 neighbours, calloc'ed, so only those in use take memory. */
struct cs_leaf {
    uint32_t *label; /* 0: not touched */
    uint64_t top;
    struct cs_leaf *next;
};

struct cs_array {
    uint64_t start, end; /* bytes */
    uint64_t first_page, page_count;
    uint64_t huge_start, huge_end;      /* virtual page numbers, whole 2 MiB blocks; equal if none */
    uint32_t label, frame, huge_frame;  /* of the first page; frames before they are scrambled */
};

/* Pages that were placed: in 2 MiB frames from huge_frame on, or in the frames given. */
struct cs_placed {
    uint64_t first, end;
    uint32_t huge_frame, *frames;
    struct cs_placed *next;
};

/* Frames by number: numbers are dense, frames are a permutation of them. */
struct cs_scramble {
    uint32_t mask, shift[3], multiplier[3];
};

#define CS_COMBINERS 10u
struct cs_combiner {
    uint32_t line;    /* 0 if free */
    uint32_t whole;   /* the rest of the line is known too: the caches held it dirty */
    uint64_t mask[4]; /* bytes written */
    uint64_t used;    /* time of last use */
    uint32_t origin;  /* number of the store that opened it */
};

/* A line that a store missed and that was not read yet, see cachesim_set_evasion. */
#define CS_TRACKERS 10u
struct cs_tracker {
    uint32_t line;    /* 0 if free */
    uint32_t kept;    /* a fully associative cache would have had it */
    uint32_t origin;  /* number of the store that opened it */
    uint64_t mask[4]; /* bytes written */
    uint64_t used;    /* time of the last store */
};

/*
 * A fully associative cache with true LRU, beside the real ones: would it have kept a line that is read from memory again?
 * Asks are numbered, and cs_line.asked has each line's last one. The cache holds the youngest `room` lines: those whose last ask
 * is not below `tail`. A bit an ask tells which from there on are some line's last.
 */
struct cs_recency {
    uint64_t *last; /* [asks / 64], a bit an ask; none below tail */
    uint32_t asks, head, tail; /* how many can be told apart, the next one, and the oldest in the cache */
    uint32_t lines, room;      /* in the cache, and how many there may be */
};

/*
 * What the last level is asked for and given waits here, in order, until the host has fetched its set from memory, which takes
 * longer than all the rest. That changes nothing above where the last level takes victims alone: all it tells is that a line it
 * had is dirty, and level 2, which keeps what comes up, can be told later. See waiting.h.
 */
#define CS_WAITING 64u
struct cs_waiting {
    /* Place for place: a line that is asked for, with bit 31 by a store, and a tag given after that; 0 for none. */
    uint32_t asked[CS_WAITING], given[CS_WAITING];
    /* Lines that the last level gave up dirty: they were written to memory, and wait for their pages to be counted there. */
    uint32_t written[CS_WAITING];
    uint32_t count, writes;
} __attribute__((aligned(64)));

/* What belongs to one core. */
struct cs_core {
    uint32_t *tags[CS_MAX_LEVELS]; /* of the private levels */
    uint64_t (*state[CS_MAX_LEVELS])[2];
    struct cs_line *lines;         /* [labels][CS_CHUNKS]: what it touched; the rest is known by the first core's alone */
    struct cs_tracker tracker[CS_TRACKERS];
};

/* A line that moved between cores. */
struct cs_shared {
    uint32_t line; /* 0: free */
    uint64_t moves;
};

struct cachesim {
    const struct cs_operations *do_;
    uint32_t levels, line_bits, page_line_bits;
    /*
     * Lines that differ in a low bit never meet in a set, so each value of these bits can have a model of its own, and each
     * of these parts a thread: cachesim_divide. Every part has all tables; those by line leave the bits out.
     */
    uint32_t part_bits, part_mask, part; /* its lines have the number `part` in these bits */
    struct cachesim *next;               /* part */
    uint32_t error;
    uint32_t origin;   /* number of the access that is made */
    uint32_t simple;   /* nobody watches, there is neither evasion nor a prefetcher, and level 2 keeps what it gives */
    uint32_t defers;   /* what level 3 is asked for may wait: it is simple, and level 3 takes victims */
    uint32_t watching; /* somebody wants to know of every line that becomes dirty: origins, or there are several cores */
    uint64_t asked;    /* lines asked of level 1 */
    struct cs_line *lines;   /* [labels][CS_CHUNKS of this part] */
    struct cs_line *noted;   /* the same, of which `touched` alone is used: of the core at work */
    struct cs_frame *frames; /* [labels] */
    struct cs_page *pages;   /* [labels] */
    uint32_t **directory;    /* leaves of addresses below 2^47; others are searched in the list */
    uint64_t removals;       /* lines a lower level took out of level 1 */
    struct cs_level level[CS_MAX_LEVELS];
    struct cs_recency recency;

    uint32_t cores, core, core_bit, private_levels; /* how many there are, which is at work, its bit in cs_page.askers */
    struct cs_core *of_core;
    struct cs_shared *shared; /* hashed by line */
    uint32_t shared_room, shared_count;

    struct cs_leaf *leaves;
    uint64_t *numbers;  /* [labels]: virtual page numbers */
    uint32_t labels, label_room;
    uint32_t array_frames, huge_frames, other_frames; /* given out so far */
    struct cs_scramble small, huge;
    uint64_t pages_touched;

    struct cs_array *arrays;
    uint32_t array_count, array_room;
    struct cs_placed *placed; /* in the order given */
    /* [array_count + CS_FIRST_ARRAY], see cs_traffic_of; distinct lines are not counted here but line by line */
    struct cachesim_traffic *traffic;

    struct cs_waiting waiting;

    struct cs_combiner combiner[CS_COMBINERS];
    uint32_t combiners; /* open ones */
    uint32_t masked;       /* memory takes parts of lines */
    uint32_t evades;       /* not 0: whole lines are tracked, and so many of 65536 spared the read */
    uint32_t trackers;     /* open ones, of all cores */
    uint32_t offset, size; /* if it evades: the bytes of a line that the access at work is to */
    uint64_t random;       /* for which of the whole lines are spared */
    uint64_t evaded_lines;
    struct cs_prefetch *prefetch; /* NULL if there are no prefetchers */
    struct cs_origins *origins; /* NULL if nobody asked */
    struct cs_tlbs *tlbs;       /* the same */
    struct cs_reuse *reuse;     /* the same; of the first part, for all */
    uint64_t clock;
    uint64_t non_temporal_lines, partial_lines, transfers;
};

struct cs_operations {
    uint32_t width; /* as cachesim_use_vectors takes it */
    void (*access)(struct cachesim *, uint64_t address, uint32_t bytes, uint32_t kind);
    void (*pieces)(struct cachesim *, const struct cachesim_piece *, const uint32_t *origins, uint64_t n);
    void (*loop)(struct cachesim *, uint32_t, const uint64_t *, const int64_t *, const uint32_t *, const uint32_t *,
                 uint64_t);
    /* takes a line out of every level; returns 1 if a copy was dirty and write_back was asked: memory has been written */
    uint32_t (*remove)(struct cachesim *, uint32_t line, uint32_t write_back);
    void (*put)(struct cachesim *, uint32_t tag); /* the first shared level, or memory, gets a line from above */
    void (*prefetch)(struct cachesim *, uint32_t line); /* level 2 takes in a line that levels 1 and 2 may have */
    void (*admit)(struct cachesim *, uint32_t line); /* a line that was not fetched is taken in as one that was, dirty */
    void (*serve)(struct cachesim *); /* nothing waits for the last level any more */
};

/*
 * The tables of functions: plain C and vectors, and each of them for any shape, for the common one (see cs_shape) and for
 * the common one with up to 32 ways in the second and last level.
 */
extern const struct cs_operations cs_plain, cs_plain_common, cs_plain_wide;
#if defined(__x86_64__)
extern const struct cs_operations cs_avx2, cs_avx2_common, cs_avx2_narrow, cs_avx2_wide, cs_avx512, cs_avx512_common, cs_avx512_narrow, cs_avx512_wide;
#endif

/*
 * 1: three levels of at most 16 ways, the first two LRU, 64-byte lines, sets of the first chosen by bits within the page, of
 * the second by low address bits, and of the third so that a page's lines have 64 sets in a row: what most machines have. 2:
 * the same with 17 to 32 ways in the second, third or both. The walk is compiled for these with what they share as constants.
 * 0: anything else.
 */
static inline int cs_shape(const struct cachesim *sim)
{
    if (sim->levels != 3 || sim->line_bits != 6 || sim->level[0].sets > 64 || sim->level[2].blocks > 2)
        return 0;
    for (uint32_t k = 0; k < 2; k++)
        if (sim->level[k].blocks > k + 1 || sim->level[k].given.kind != CS_LRU || sim->level[k].index != CS_INDEX_POWER ||
            sim->level[k].fold)
            return 0;
    const struct cs_level *last = &sim->level[2];
    if (last->unit_bits != 6 || (last->index != CS_INDEX_POWER && last->index != CS_INDEX_WRAP))
        return 0;
    return sim->level[1].blocks == 1 && last->blocks == 1 ? 1 : 2;
}

/* pages.c */
#define CS_DIRECTORY_BITS 20u
#define CS_LEAF_BITS 15u
int cs_pages_init(struct cachesim *, uint64_t seed);
void cs_pages_free(struct cachesim *);
uint32_t cs_label_slow(struct cachesim *, uint64_t number); /* first touch */
uint32_t cs_far_label(const struct cachesim *, uint64_t number);
/* The first array that has a byte of those from start to end; CS_NO_ARRAY if none has. */
int32_t cs_array_of(const struct cachesim *, uint64_t start, uint64_t end);
void cs_pages_reset(struct cachesim *);
uint64_t cs_pages_touched(const struct cachesim *first); /* by any part */
/* Adds the distinct lines of one array, of none (-1) or of all (CS_ALL). */
void cs_distinct(const struct cachesim *, int32_t array, struct cachesim_traffic *);
/* Zeroed memory of which only what is written to takes room; enlarged with what it held. NULL if there is none. */
void *cs_enlarge(void *old, size_t old_bytes, size_t bytes);
void cs_give_back(void *table, size_t bytes);

/* policy.c */
int cs_policy_init(struct cs_level *, const struct cachesim_policy *, uint64_t seed); /* -1 if it is impossible */
uint32_t cs_policy_sets(const struct cs_level *); /* of this part */
/* The tags and state of a level, empty; 0, or -1 if memory is short. */
int cs_policy_allocate(const struct cs_level *, uint32_t **tags, uint64_t (**state)[2]);
void cs_policy_empty(struct cs_level *);
void cs_policy_remove(struct cs_level *, uint32_t *tags, uint32_t way);
uint32_t cs_takes_near(struct cs_level *, const uint32_t *tags); /* how the next line is taken in by this set */
void cs_duel_missed(struct cs_level *, const uint32_t *tags);
extern const struct cs_policy cs_tree, cs_random, cs_rrip;

static inline uint32_t cs_drawn(uint64_t *state) /* 32 random bits */
{
    *state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    return (uint32_t)(*state >> 32);
}

static inline uint32_t cs_draw(struct cs_level *level)
{
    return cs_drawn(&level->random);
}

/* recency.c */
int cs_recency_init(struct cachesim *);
void cs_recency_free(struct cachesim *);
void cs_recency_renumber(struct cachesim *);
void cs_recency_empty(struct cachesim *);
void cs_recency_drop(struct cachesim *, uint32_t line);

/* cachesim.c: accesses in order, of which other parts' are left out */
void cs_requests(struct cachesim *, const struct cachesim_request *, uint64_t n);

/* cores.c: levels that are private to a core */
int cs_cores_init(struct cachesim *); /* the first core, and with it the table of lines */
int cs_core(struct cachesim *, uint32_t core); /* the accesses that follow come from it; 0, or -1 if memory is short */
void cs_cores_free(struct cachesim *);
int cs_cores_grow(struct cachesim *, uint32_t labels); /* the tables by label */
/* The core at work wants a line that it does not have, or wants it for itself (store). */
void cs_snoop(struct cachesim *, uint32_t line, uint32_t store);
int cs_held_elsewhere(const struct cachesim *, uint32_t line); /* by another core */
void cs_cores_reset(struct cachesim *);

/* origins.c: who caused the traffic with memory */
void cs_origins_free(struct cachesim *);
void cs_origins_reset(struct cachesim *);
void cs_origins_clean(struct cachesim *); /* nothing is dirty any more */
int cs_origins_grow(struct cachesim *, uint32_t labels);
void cs_origin_read(struct cachesim *);
void cs_origin_written(struct cachesim *, uint32_t line);
void cs_origin_dirtied(struct cachesim *, uint32_t line);

/* tlb.c: address translation, before the caches; instead of the functions of cs_operations, if there are TLBs */
void cs_tlb_access(struct cachesim *, uint64_t address, uint32_t bytes, uint32_t kind);
void cs_tlb_requests(struct cachesim *, const struct cachesim_request *, uint64_t n);
void cs_tlb_loop(struct cachesim *, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                 const uint32_t *kind, uint64_t count);
void cs_tlbs_free(struct cachesim *);

/* reuse.c: distances, beside the caches; told of every access */
void cs_reuse_access(struct cachesim *, uint64_t address, uint64_t bytes, uint32_t kind);
void cs_reuse_requests(struct cachesim *, const struct cachesim_request *, uint64_t n);
void cs_reuse_loop(struct cachesim *, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                   const uint32_t *kind, uint64_t count);
void cs_reuse_free(struct cachesim *);
void cs_reuse_reset(struct cachesim *);
void cs_reuse_forget(struct cachesim *);

/* combine.c: write-combining buffers */
void cs_combine(struct cachesim *, uint64_t address, uint32_t bytes); /* within one line */
void cs_combine_close_line(struct cachesim *, uint32_t line);
void cs_combine_drain(struct cachesim *);
int cs_combine_has(const struct cachesim *, uint32_t line);

/* prefetch.c: hardware prefetchers */
struct cs_prefetch {
    struct cachesim_prefetch given;
    uint64_t *waiting; /* [labels]: lines that were prefetched from memory and not asked for yet, a bit each */
    uint64_t *kept;    /* [labels]: of these, those that a fully associative cache would have had */
    uint32_t at_work;  /* what is read from memory is prefetched */
    uint64_t asked;    /* lines that level 2 was to get, and had to */
    struct cs_page_stream *streams; /* [cores][given.streams] */
    uint32_t cores;
};
void cs_prefetch_free(struct cachesim *);
void cs_prefetch_reset(struct cachesim *);
int cs_prefetch_grow(struct cachesim *, uint32_t labels); /* the tables by label */
/* The core has asked for a line that level 1 lacked; whether level 2 did too. */
void cs_prefetch_ask(struct cachesim *, uint32_t line, uint32_t store, uint32_t missed);
/* A line is read from memory; whether it was prefetched, so that it will turn out later what for. */
int cs_prefetch_read(struct cachesim *, uint32_t line, struct cachesim_traffic *, uint32_t kept);

/* evade.c: lines that may be written whole */
int cs_evade_meets(struct cachesim *, uint32_t line, uint32_t store); /* level 1 lacks it; 1 if the access is done with */
void cs_evade_open(struct cachesim *, uint32_t line, uint32_t kept);
void cs_evade_close_line(struct cachesim *, uint32_t line); /* of any core */
void cs_evade_drain(struct cachesim *);
int cs_evade_has(const struct cachesim *, uint32_t line); /* any core */

/* Before anybody looks at the last level, takes a line out or wants to be told at once: nothing waits for it any more. */
static inline void cs_serve(struct cachesim *sim)
{
    if (sim->waiting.count | sim->waiting.writes)
        sim->do_->serve(sim);
}

/* Somebody wants to know the traffic: what waits for its line to be whole waits no longer, either. */
static inline void cs_settle(struct cachesim *sim)
{
    cs_serve(sim);
    cs_evade_drain(sim);
    cs_combine_drain(sim);
}

static inline uint32_t cs_scramble(const struct cs_scramble *s, uint32_t x)
{
    for (int i = 0; i < 3; i++) {
        x = x * s->multiplier[i] & s->mask;
        x ^= x >> s->shift[i];
    }
    return x;
}

/* Frames: bit 24 tells 2 MiB frames (9 bits of page within) from 4 KiB ones. */
#define CS_SMALL_BITS 24u
#define CS_HUGE_BITS 15u
#define CS_FRAME_HUGE (1u << 24)

/* The label of a page by number, 0 if it was not touched. */
static inline uint32_t cs_label_seen(const struct cachesim *sim, uint64_t number)
{
    if (__builtin_expect(number >> (CS_DIRECTORY_BITS + CS_LEAF_BITS) != 0, 0))
        return cs_far_label(sim, number);
    const uint32_t *leaf = sim->directory[number >> CS_LEAF_BITS];
    return leaf ? leaf[number & ((1u << CS_LEAF_BITS) - 1)] : 0;
}

static inline uint32_t cs_label(struct cachesim *sim, uint64_t number)
{
    uint32_t label = cs_label_seen(sim, number);
    return __builtin_expect(label != 0, 1) ? label : cs_label_slow(sim, number);
}

/* Whether a line, or what has its bits, belongs to another part. */
static inline int cs_foreign(const struct cachesim *sim, uint64_t line)
{
    return (line & sim->part_mask) != sim->part;
}

/* Where a chunk of a page stands in tables by chunk. Lines are one chunk where there are several parts. */
static inline size_t cs_chunk(const struct cachesim *sim, uint32_t label, uint32_t chunk)
{
    return ((size_t)label * CS_CHUNKS + chunk) >> sim->part_bits;
}

/* Where a line's first chunk does. */
static inline size_t cs_place(const struct cachesim *sim, uint32_t line)
{
    return (size_t)line << (sim->line_bits - 6) >> sim->part_bits;
}

static inline uint32_t cs_in_page(const struct cachesim *sim, uint64_t line)
{
    return (uint32_t)line & ((1u << sim->page_line_bits) - 1);
}

static inline struct cs_line *cs_line_of(const struct cachesim *sim, uint32_t line)
{
    return &sim->lines[cs_place(sim, line)];
}

static inline struct cs_page *cs_page_of(const struct cachesim *sim, uint32_t line)
{
    return &sim->pages[(line & CS_LINE) >> sim->page_line_bits];
}

/* Whether a core has asked for a line of a page, or may have. */
static inline uint32_t cs_asked_by(const struct cs_page *page, uint32_t core)
{
    return page->askers >> (core < 31 ? core : 31) & 1;
}

/* The core at work asks for a line; as long as it is the only one, see cs_core, nobody is told. */
static inline void cs_name_core(struct cachesim *sim, uint32_t line)
{
    if (sim->cores > 1)
        cs_page_of(sim, line)->askers |= sim->core_bit;
}

/* Whether another core than the one at work has asked for a line of the same page, or may have. */
static inline int cs_others(const struct cachesim *sim, uint32_t line)
{
    return sim->cores > 1 && (cs_page_of(sim, line)->askers & ~sim->core_bit || sim->core_bit >> 31);
}

/* Address of a line's first byte. */
static inline uint64_t cs_address_of(const struct cachesim *sim, uint32_t line)
{
    return (sim->numbers[line >> sim->page_line_bits] << CS_PAGE_BITS) + ((uint64_t)cs_in_page(sim, line) << sim->line_bits);
}

static inline uint32_t cs_physical(const struct cachesim *sim, uint32_t line)
{
    return sim->frames[line >> sim->page_line_bits].line | cs_in_page(sim, line);
}

static inline uint32_t cs_set(const struct cs_level *level, uint32_t physical)
{
    if (level->index == CS_INDEX_POWER) {
        /* Fibonacci hashing: the top bits of the product are the well mixed ones. Zero if the level is not hashed. */
        uint32_t high = (physical >> level->low_bits) * level->fold;
        return (physical ^ high >> level->fold_shift << level->unit_bits) & level->set_mask;
    }
    if (level->index == CS_INDEX_REMAINDER)
        return physical % level->sets;
    /*
     * Real hashes spread any large frame evenly over slices and sets, and so do the multiples of the golden ratio, modulo one:
     * any pages in a row have units that are spread evenly. A page's lines go round the slices.
     */
    uint32_t page = physical >> level->unit_bits, in_unit = physical & ((1u << level->unit_bits) - 1);
    uint32_t unit = (uint32_t)((uint64_t)(page * 0x9e3779b1u) * (level->units * level->slices) >> 32);
    if (level->index == CS_INDEX_WRAP)
        return unit << level->unit_bits | in_unit;
    uint32_t slice = (unit / level->units + in_unit) % level->slices;
    return slice * level->slice_sets + (unit % level->units << level->unit_bits | in_unit);
}

/* By number of an array, CS_NO_ARRAY or CS_TABLES. */
static inline struct cachesim_traffic *cs_traffic_of(const struct cachesim *sim, int32_t array)
{
    return &sim->traffic[array - CS_TABLES];
}

static inline struct cachesim_traffic *cs_traffic(const struct cachesim *sim, const struct cs_line *known)
{
    return &sim->traffic[known->state >> CS_OWNER_BITS];
}

/* The last level is asked for a line; returns whether a fully associative cache of the same size has it. */
static inline uint32_t cs_recency_ask(struct cachesim *sim, struct cs_line *known)
{
    struct cs_recency *r = &sim->recency;
    if (__builtin_expect(r->head == r->asks, 0))
        cs_recency_renumber(sim);
    uint32_t before = known->asked, kept = before >= r->tail;
    r->last[r->head / 64] |= UINT64_C(1) << r->head % 64;
    known->asked = r->head++;
    if (kept) {
        r->last[before / 64] &= ~(UINT64_C(1) << before % 64);
    } else if (++r->lines > r->room) {
        uint32_t word = r->tail / 64;
        while (!r->last[word])
            word++;
        r->tail = word * 64 + (uint32_t)__builtin_ctzll(r->last[word]) + 1;
        r->last[word] &= r->last[word] - 1;
        r->lines--;
    }
    return kept;
}

/* A line has been read because the core asked for it. */
static inline void cs_read_for(struct cachesim_traffic *traffic, struct cs_line *known, uint32_t store, uint32_t kept)
{
    traffic->write_allocate_lines += store;
    if (known->state & CS_READ) {
        traffic->again_capacity_lines += !kept;
        traffic->again_conflict_lines += kept;
    } else {
        known->state |= CS_READ | (store ? CS_READ_FOR_STORE : 0);
    }
}

static inline void cs_memory_read(struct cachesim *sim, struct cs_line *known, uint32_t line, uint32_t store, uint32_t kept)
{
    struct cachesim_traffic *traffic = cs_traffic(sim, known);
    traffic->read_lines++;
    if (__builtin_expect(sim->origins != NULL, 0))
        cs_origin_read(sim);
    if (__builtin_expect(sim->prefetch != NULL, 0) && cs_prefetch_read(sim, line, traffic, kept))
        return;
    cs_read_for(traffic, known, store, kept);
}

static inline void cs_memory_write(struct cachesim *sim, uint32_t line)
{
    struct cs_page *page = cs_page_of(sim, line);
    uint32_t owner = __builtin_expect(page->owner == CS_SEVERAL, 0) ? cs_line_of(sim, line)->state >> CS_OWNER_BITS : page->owner;
    sim->traffic[owner].write_lines++;
    page->written |= UINT64_C(1) << cs_in_page(sim, line);
    if (__builtin_expect(sim->origins != NULL, 0))
        cs_origin_written(sim, line);
}

#endif
