/*
 * The cache model: virtual addresses in, traffic per level and per array out. Nothing is stored per access, so memory
 * grows with the pages touched (about 850 bytes a page, a fifth of it) and not with the length of the run.
 *
 * What is modelled
 * - Levels 1 to 4, set-associative, write-back, write-allocate; which line leaves a set, see cachesim_policy. A line written
 *   back to a level that holds it marks it dirty and does not count as its use; a level that does not hold it takes it in.
 * - How a level is filled (level 1 always by the core's misses):
 *     0 non-inclusive  a miss fills it on the way up; what it evicts stays above
 *     1 inclusive      the same, and what it evicts leaves every level above it (their dirty data go along)
 *     2 victim         filled by what the level above evicts, clean and dirty; a line found in it moves up and leaves it
 * - Physical pages: 4 KiB pages sit in frames spread at random by `seed`, numbered inside each registered array and
 *   otherwise in order of first touch, so counts do not depend on where the loader put things. Of an array registered with
 *   `huge_pages`, every aligned 2 MiB block that lies wholly inside it sits in one 2 MiB frame.
 * - The set is chosen by physical address: low bits, remainder, or, with `hashed`, low bits mixed with a hash of the high
 *   ones; when the number of sets is no power of two, a hash that spreads any pages in a row evenly over the sets, and over
 *   the slices.
 * - Non-temporal stores gather in 10 write-combining buffers of one line. A line written whole goes to memory without
 *   being read; copies of it in the caches are dropped. A buffer that has to close while partly filled costs one line
 *   read and one line written (the controller's "underfill read"), unless the caches held the line dirty. A buffer closes
 *   when it is full, when an eleventh line needs one, when an ordinary access touches its line, on kind 6, and whenever
 *   totals are read or reset. With cachesim_set_masked the rest is not read: memory takes the part that was written.
 * - Write-allocate evasion, if cachesim_set_evasion asks for it: see there.
 * - Hardware prefetchers, if cachesim_set_prefetch asks for them: see there.
 * - A prefetch (kind 3) brings a line in like a load. A flush (kind 4) writes a line back and removes it everywhere.
 *
 * - Several cores: levels not marked as shared exist once a core. A core that stores to a line takes it away from the others;
 *   one that loads a line which another holds modified has that written back to the first shared level, and both keep it.
 *   A line that no shared level has but another core does comes from there and not from memory (`transfers`).
 * - A line read from memory again is a conflict if a fully associative LRU cache of the same size, asked for the same lines
 *   as the last level, would have kept it, and else of capacity. The size is that of the last level, with that of the level
 *   above if its victims fill it.
 *
 * Every line an access covers counts one hit or miss in level 1, an update (kind 5) two; lines are taken in ascending order.
 *
 * One simulator is used by one thread at a time.
 */

struct cachesim;

/*
 * Which line of a set has to leave. Fields that a kind does not name are ignored; all zero is LRU.
 *   0 LRU
 *   1 tree PLRU   a bit a node points to the half that was used less recently; ways are a power of two
 *   2 random
 *   3 RRIP        a line has an age of 0 to 3 and leaves at 3, the first way first. Found, it gets age 0, or `hit_age` if its
 *                 age was 2 or 3. A line is taken in with `near_age`, or `far_age`, see below. When no line has age 3, all
 *                 grow older by the same: until one has (`aging` 0: as soon as that is so; 1: when a line has to leave), or by
 *                 one (2: as soon as that is so; if then a line has to leave and none has age 3, the first goes). Or all but
 *                 the line just used (3), until one of them has age 3, as soon as none has; that line keeps its age
 *   4 adaptive    order of recency as LRU, but a line is taken in as the most recent, near, or the least recent, far
 * RRIP and adaptive: of 65536 lines about `near` are taken in near, at random from the seed. With `leaders`, two shares
 * compete: so many sets always take in by `near`, as many others by `rival`, and the rest by the one whose sets missed less.
 */
struct cachesim_policy {
    uint32_t kind, near, rival, leaders;
    uint32_t near_age, far_age, hit_age, aging;
};

struct cachesim_level {
    uint64_t bytes;
    uint32_t ways;   /* 1 to 64 */
    uint32_t slices; /* of a hashed level; 0 and 1 are the same; more must divide the number of sets */
    uint32_t hashed;
    uint32_t fill;   /* 0 non-inclusive, 1 inclusive, 2 victim */
    uint32_t shared; /* by all cores; else each has its own. All levels below a shared one are shared */
    struct cachesim_policy policy;
};

struct cachesim_level_totals {
    uint64_t hits, misses; /* of what the level above missed; in level 3 of lines to be prefetched, too */
    uint64_t up_lines;   /* lines that came up to this level from below, or through it on the way up; evaded ones did not */
    uint64_t down_lines; /* lines written back, or handed to a victim cache, from this level to the next or to memory */
};

/*
 * Of one array, or of all, since the last cachesim_reset. Memory is what lies below the last cache. Of lines that a hardware
 * prefetcher read, those that the core asked for later count as if it had caused the read then; the others are unused.
 */
struct cachesim_traffic {
    uint64_t read_lines, write_lines; /* from and to memory */
    uint64_t write_allocate_lines;    /* the part of read_lines that a store caused */
    /* the parts of read_lines that had been read before in this window: the cache is too small, or the set was */
    uint64_t again_capacity_lines, again_conflict_lines;
    uint64_t prefetched_lines;        /* the part of read_lines that a hardware prefetcher caused */
    uint64_t prefetched_unused_lines; /* of these, those the core had not asked for when they were read again, or up to now */
    /* distinct lines among those read, but for unused ones, and among those written */
    uint64_t unique_read_lines, unique_write_lines;
    uint64_t unique_write_allocate_lines; /* of unique_read_lines: the first of their reads was caused by a store */
    /* distinct lines the program touched, wherever they were */
    uint64_t loaded_lines; /* a load came first */
    uint64_t stored_lines;
    uint64_t evaded_lines;  /* lines stored to in whole that were not read for it, see cachesim_set_evasion */
    uint64_t touched_bytes; /* distinct bytes loaded or stored */
    /* of loaded_lines and of stored_lines: bytes that the program did not touch; of a line in both, twice */
    uint64_t unused_bytes;
    uint64_t tlb_misses; /* translations that the TLB of level 1 did not have, see cachesim_tlb_start */
    uint64_t page_walks; /* those of them that none had */
};

struct cachesim_totals {
    uint32_t levels, line_bytes;
    struct cachesim_level_totals level[4];
    struct cachesim_traffic memory;
    uint64_t non_temporal_lines; /* lines written to memory around the caches, of memory.write_lines */
    uint64_t partial_lines;      /* the part of non_temporal_lines that was not filled */
    uint64_t transfers;          /* lines that came from another core's caches instead of memory */
    uint64_t pages;              /* 4 KiB pages touched so far */
    uint32_t error;              /* 0; 1 out of memory, 2 more than 64 GiB touched: the counts are not valid */
};

/*
 * NULL if the geometry is impossible or memory is short. line_bytes is 64, 128 or 256.
 *
 * parts, a power of two: lines are dealt out to so many models by the lowest bits of their number, and each can be fed by a
 * thread of its own. Where sets are chosen by these bits too, as in caches they are, lines of different parts have never
 * anything to do with each other, and counts are those of one model, but for these: the fully associative cache beside the
 * levels, the write-combining buffers and the trackers of whole lines exist once a part, the former divided by their number, a page outside of all
 * arrays has a frame for each part, and random numbers are drawn and duels fought in each part for itself. NULL if a level has fewer sets in a row than there are parts, or lines are not of 64 bytes.
 */
struct cachesim *cachesim_new(const struct cachesim_level *levels, uint32_t count, uint32_t line_bytes, uint64_t seed,
                              uint32_t parts);
void cachesim_free(struct cachesim *);

/*
 * Registers an address range; returns its id (0, 1, ...), or -1. A line belongs to the first registered array that has a
 * byte in it, a line of none to id -1.
 */
int cachesim_add_array(struct cachesim *, uint64_t start, uint64_t bytes, uint32_t huge_pages);

/*
 * Says where the pages of an address range sit, whatever arrays lie in it; before they are touched, and what was said first
 * holds. `frames` are 4 KiB frame numbers, one for each page that begins in the range, 0 if unknown; NULL: every aligned 2 MiB
 * block that lies wholly inside sits in one 2 MiB frame. 0, or -1 if there are too many or memory is short.
 */
int cachesim_place(struct cachesim *, uint64_t start, uint64_t bytes, const uint64_t *frames);

/*
 * Write-allocate evasion; to be set before the first access. `share`: so many of 65536 lines that are written whole are not
 * read from memory, at random from the seed; 0, as without this call, to 65536, else -1 is returned.
 *
 * When a store misses and no cache has its line, nothing is read yet: the store opens one of 10 trackers of its core, which
 * keeps the bytes written. As long as it is open the line is in no cache, has counted one miss in each level, and further
 * stores of that core to it count as hits of level 1. The line is whole when all its bytes have been written; then the
 * tracker closes, and the read is spared or, by the share, not. Before that it closes with a read when the core loads or
 * prefetches anything of the line, when another core accesses it, at a non-temporal store to it or a flush, when an eleventh
 * line needs a tracker (the one not stored to for longest closes), and whenever totals are read or reset. On closing, the
 * line is taken in by level 1, dirty, and by the levels that a miss fills. A read counts for the store that opened it.
 */
int cachesim_set_evasion(struct cachesim *, uint32_t share);

/* Whether memory takes part of a line (a masked write), so that a write-combining buffer closes without a read; 0 at first. */
void cachesim_set_masked(struct cachesim *, uint32_t masked);

/*
 * Hardware prefetchers; to be set before the first access. They hear of every line that level 1 of a core misses and level 2
 * is asked for (not of stores that open a tracker), once that is done with, and bring lines into level 2 of that core that
 * neither its level 1 nor 2 has, from where level 2 would get them. What another core, a tracker or a write-combining buffer
 * holds is left alone. Lines are of one page of 4 KiB.
 *   adjacent  a line that level 2 missed brings along the other one of its aligned pair
 *   stream    of the last `streams` pages asked for, each core notes the last line and the step to it from the one before. When
 *             the same step, not 0, comes twice in a row or more, the lines that follow by that step are brought in: at most
 *             `degree` at a time, and no further than `distance` steps ahead. A page that is new takes the place of the one
 *             not asked for for longest
 * 0, or -1 if there are less than two levels, more than one part, a number is 0 where there are streams, or memory is short.
 */
struct cachesim_prefetch {
    uint32_t adjacent, stream;
    uint32_t distance, degree, streams;
};
int cachesim_set_prefetch(struct cachesim *, const struct cachesim_prefetch *);

/* kind: 0 load, 1 store, 2 non-temporal store, 3 prefetch, 4 flush, 5 update (load then store), 6 fence (address ignored) */
void cachesim_access(struct cachesim *, uint64_t address, uint32_t bytes, uint32_t kind);

/* An access with its number, see cachesim_origins_start. */
struct cachesim_request {
    uint64_t address;
    uint32_t origin;
    uint16_t bytes, kind;
};

/* n accesses in order; faster than one by one, because the next addresses are known. */
void cachesim_requests(struct cachesim *, const struct cachesim_request *requests, uint64_t n);

/*
 * The same for one part, by one thread at a time; the rest of what is here needs all of them at rest. Every part has to be
 * told of every access and core, in one order; it knows its own. origin is the number of the access, or of the first stream.
 */
struct cachesim_part;
struct cachesim_part *cachesim_part(struct cachesim *, uint32_t number); /* NULL if there are not so many */
int cachesim_part_core(struct cachesim_part *, uint32_t core);
void cachesim_part_access(struct cachesim_part *, uint32_t origin, uint64_t address, uint32_t bytes, uint32_t kind);
struct cachesim_dealt {
    uint32_t line_bits, mask, part; /* lines whose number has the value `part` in these bits */
    /* A load after a load of the same line, or a store after a store, changes nothing but what is noted and counted. */
    uint32_t repeats;
};
struct cachesim_dealt cachesim_part_dealt(const struct cachesim_part *);
/* If lines have 64 bytes. What is not the part's has been left out; origins may be NULL. See piece.h. */
struct cachesim_piece;
void cachesim_part_pieces(struct cachesim_part *, const struct cachesim_piece *pieces, const uint32_t *origins, uint64_t n);
/* Where accesses repeat, their bytes may be added to those of the piece before; they are counted by this. */
void cachesim_part_again(struct cachesim_part *, uint64_t n);
void cachesim_part_loop(struct cachesim_part *, uint32_t origin, uint32_t n, const uint64_t *start, const int64_t *stride,
                        const uint32_t *bytes, const uint32_t *kind, uint64_t count);

/* The accesses that follow come from this core, 0 at first. 0, or -1 if memory is short. */
int cachesim_core(struct cachesim *, uint32_t core);

/* count accesses at address + k * stride */
void cachesim_stride(struct cachesim *, uint64_t address, int64_t stride, uint64_t count, uint32_t bytes, uint32_t kind);

/*
 * count iterations; in each, the n streams are accessed in order, stream i at start[i] + k * stride[i]. State and counts
 * are exactly those of the one-by-one order.
 */
void cachesim_loop(struct cachesim *, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                   const uint32_t *kind, uint64_t count);

/* Zeroes the counts and keeps the contents. */
void cachesim_reset(struct cachesim *);

/* Empties all levels, whose policies begin anew; dirty lines count as written back if count_writebacks, else are forgotten. */
void cachesim_flush(struct cachesim *, uint32_t count_writebacks);

void cachesim_totals(struct cachesim *, struct cachesim_totals *);

/* Traffic of one array, id -1 for all other data, -2 for page tables; 0, or -1 if there is no such array, or no TLB. */
int cachesim_array(struct cachesim *, int id, struct cachesim_traffic *);

/* A line that went from core to core since the last reset. */
struct cachesim_shared_line {
    uint64_t address; /* of its first byte */
    int32_t array;    /* -1: of none */
    uint32_t cores;   /* that touched it */
    uint64_t moves;   /* times it was taken from a core that held it, so that another could store to it or load what it stored */
    uint32_t apart;   /* no byte of it was touched by two cores: false sharing */
};
/* Fills in at most `room` of them; returns how many there are. */
uint32_t cachesim_shared_lines(struct cachesim *, struct cachesim_shared_line *lines, uint32_t room);

/*
 * Who causes the traffic with memory. From cachesim_origins_start on (0, or -1 if memory is short) lines are counted by the
 * number of the access too, which the caller tells beforehand; in a loop, stream i has that number plus i. A line read counts for the access that missed, a line written for the store that made it dirty: the first
 * to do so in level 1 since the line was last written to memory. A write-combining buffer counts for the store that opened
 * it; if that found the line dirty, the write stays with whoever made it so. Number 0 has what was made dirty before the
 * start; the sums over all numbers are the totals.
 */
int cachesim_origins_start(struct cachesim *);
/* The number of the accesses that follow, from 1 up to 2^31 - 1. */
void cachesim_set_origin(struct cachesim *, uint32_t number);
/* Lines of n numbers since the last cachesim_reset; returns how many numbers there are. */
uint32_t cachesim_origins(struct cachesim *, uint32_t first, uint32_t n, uint64_t *read_lines, uint64_t *write_lines);

/*
 * TLBs of level 1 and 2 for 4 KiB pages (pages 1), 2 MiB pages (2) or both (3), of each core; they are LRU. Every access but
 * a fence is translated, page by page, before its lines of that page are asked for. Level 2 is asked for what level 1 does
 * not have, and takes part in no more. Where level 1 has none for pages of some size, all are missed in it, but for that which
 * the core was on last. What none has is walked for:
 * a load of 8 bytes, the page's entry in the last table of the tree, goes through the caches like one of the core; tables
 * above it are taken to be in the walker's own cache. Page tables are data of their own, at addresses from 2^63 on, in 4 KiB
 * frames. A page is one of 2 MiB if it lies in a 2 MiB frame that the model chose itself, or in a block of an array that was
 * registered with huge_pages. cachesim_flush does not empty TLBs.
 */
struct cachesim_tlb {
    uint32_t level; /* 1 or 2 */
    uint32_t entries, ways; /* ways 0: fully associative */
    uint32_t pages;
    uint32_t hashed; /* the set is the low bits of the page's number, mixed with as many above them; else its remainder */
};
/* From now on; once. 0, or -1 if that is impossible or memory is short. */
int cachesim_tlb_start(struct cachesim *, const struct cachesim_tlb *tlbs, uint32_t count);

/*
 * Reuse distances: for each line that is asked of level 1 by loads, stores, updates (twice) and prefetches of the program, how
 * many other lines were asked for since it was last. A fully associative LRU cache of C lines has it if there are less than
 * C. All cores together, lines by their addresses. cachesim_reset keeps what was asked for, cachesim_flush forgets it.
 * It makes every access slow, and needs some 5 bytes for each line of a touched page.
 */
#define CACHESIM_DISTANCES 34
/* From now on; 0, or -1 if memory is short. */
int cachesim_reuse_start(struct cachesim *);
/* Of one array, id -1 for all other data: [0] never before, [1] 0 lines, [k + 1] 2^(k-1) to 2^k - 1 lines. 0, or -1 if there is no
   such array or nobody started. */
int cachesim_reuse(const struct cachesim *, int id, uint64_t counts[CACHESIM_DISTANCES]);

/* For tests and curiosity. */

/* Physical line number of an address; 0 if its page was never touched. */
uint32_t cachesim_physical_line(const struct cachesim *, uint64_t address);
/* Set of a physical line in a level (0 is level 1). */
uint32_t cachesim_set_of(const struct cachesim *, uint32_t level, uint32_t line);
uint32_t cachesim_sets(const struct cachesim *, uint32_t level);
/* A set's lines: physical line number, with bit 31 for dirty. Most recent first and no more than there are, or, unless it is
   LRU or adaptive, by way, 0 for empty ones. Returns how many. */
uint32_t cachesim_contents(struct cachesim *, uint32_t level, uint32_t set, uint32_t lines[64]);
/* Chooses how sets are compared: 0 plain C, 1 AVX2, 2 AVX-512. The widest possible is the default; -1 if not possible. */
int cachesim_use_vectors(struct cachesim *, uint32_t width);
uint32_t cachesim_vectors(const struct cachesim *);
