/* Construction, totals and the public entry points of the cache model; the walk itself is in hierarchy.h. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static uint32_t is_power(uint32_t x)
{
    return x && !(x & (x - 1));
}

static int level_init(struct cs_level *level, const struct cachesim_level *given, uint32_t line_bits, uint64_t seed)
{
    uint64_t way_bytes = (uint64_t)given->ways << line_bits;
    if (!given->ways || given->ways > CS_MAX_WAYS || given->fill > CS_VICTIM || !given->bytes ||
        given->bytes % way_bytes || given->bytes / way_bytes > UINT32_MAX / 2)
        return -1;
    level->ways = given->ways;
    level->blocks = (given->ways + CS_BLOCK - 1) / CS_BLOCK;
    level->room_bits = level->blocks == 1 ? 4 : level->blocks == 2 ? 5 : 6;
    level->fill = given->fill;
    level->sets = (uint32_t)(given->bytes / way_bytes);
    level->set_mask = level->sets - 1;
    level->last = level->ways - 1;
    level->slices = given->slices ? given->slices : 1;
    if (level->sets % level->slices)
        return -1;
    if (!given->hashed || is_power(level->sets))
        level->slices = 1; /* the hash of a power of two spreads over slices and sets alike */
    level->slice_sets = level->sets / level->slices;
    uint32_t page_bits = CS_PAGE_BITS - line_bits, even = (uint32_t)__builtin_ctz(level->slice_sets);
    level->unit_bits = even < page_bits ? even : page_bits;
    level->units = level->slice_sets >> level->unit_bits;
    uint32_t unit_width = 31 - (uint32_t)__builtin_clz(level->units);
    level->low_bits = level->unit_bits + unit_width;
    level->last_mask = (2u << (level->last & (CS_BLOCK - 1))) - 1;
    level->fold = given->hashed ? 0x9e3779b1u : 0;
    level->fold_shift = unit_width ? 32 - unit_width : 31;
    if (level->units == 1)
        level->fold = 0;
    if (is_power(level->sets))
        level->index = CS_INDEX_POWER;
    else if (!given->hashed)
        level->index = CS_INDEX_REMAINDER;
    else
        level->index = level->slices > 1 ? CS_INDEX_SLICES : CS_INDEX_WRAP;
    return cs_policy_init(level, &given->policy, seed);
}

static void free_part(struct cachesim *sim)
{
    for (uint32_t k = sim->private_levels; k < sim->levels; k++) {
        free(sim->level[k].tags);
        free(sim->level[k].state);
    }
    cs_cores_free(sim);
    cs_recency_free(sim);
    cs_origins_free(sim);
    cs_tlbs_free(sim);
    cs_reuse_free(sim);
    cs_prefetch_free(sim);
    cs_pages_free(sim);
    free(sim);
}

/* One part of so many as part_bits tell, a power of two; NULL if they would not be apart. */
static struct cachesim *new_part(const struct cachesim_level *levels, uint32_t count, uint32_t line_bytes, uint64_t seed,
                                 uint32_t part_bits, uint32_t part)
{
    if (!count || count > CS_MAX_LEVELS || (line_bytes != 64 && line_bytes != 128 && line_bytes != 256) ||
        levels[0].fill != CS_NON_INCLUSIVE)
        return NULL;
    struct cachesim *sim = aligned_alloc(64, sizeof *sim);
    if (!sim)
        return NULL;
    memset(sim, 0, sizeof *sim);
    sim->levels = count;
    sim->line_bits = (uint32_t)__builtin_ctz(line_bytes);
    sim->page_line_bits = CS_PAGE_BITS - sim->line_bits;
    sim->part_bits = part_bits;
    sim->part_mask = (1u << part_bits) - 1;
    sim->part = part;
    sim->random = seed + CS_MAX_LEVELS * (UINT64_C(64) + part); /* the levels have the numbers before */
    int failed = part_bits && line_bytes != 64;
    for (uint32_t k = 0; k < count; k++) {
        sim->level[k].part_bits = part_bits;
        sim->level[k].part = part;
        failed |= level_init(&sim->level[k], &levels[k], sim->line_bits, seed + k + CS_MAX_LEVELS * part) ||
                  sim->level[k].unit_bits < part_bits;
        sim->level[k].apart = k && levels[k].fill == CS_VICTIM && (k == 1 || levels[k - 1].fill == CS_INCLUSIVE);
        if (!levels[k].shared && sim->private_levels == k)
            sim->private_levels++;
    }
    sim->simple = count > 1 && levels[1].fill != CS_VICTIM;
    sim->defers = sim->simple && count == 3 && levels[2].fill == CS_VICTIM;
    failed = failed || cs_pages_init(sim, seed) || cs_recency_init(sim);
    for (uint32_t k = sim->private_levels; k < count && !failed; k++)
        failed = cs_policy_allocate(&sim->level[k], &sim->level[k].tags, &sim->level[k].state);
    if (failed) {
        free_part(sim);
        return NULL;
    }
    for (uint32_t width = 3; width--;)
        if (!cachesim_use_vectors(sim, width))
            break;
    return sim;
}

struct cachesim *cachesim_new(const struct cachesim_level *levels, uint32_t count, uint32_t line_bytes, uint64_t seed,
                              uint32_t parts)
{
    if (!is_power(parts) || parts > 64)
        return NULL;
    uint32_t part_bits = (uint32_t)__builtin_ctz(parts);
    struct cachesim *first = NULL, **next = &first;
    for (uint32_t part = 0; part < parts; part++, next = &(*next)->next) {
        *next = new_part(levels, count, line_bytes, seed, part_bits, part);
        if (!*next) {
            cachesim_free(first);
            return NULL;
        }
    }
    return first;
}

int cachesim_set_evasion(struct cachesim *sim, uint32_t share)
{
    if (share > 1u << 16)
        return -1;
    for (; sim; sim = sim->next) {
        sim->evades = share;
        sim->simple &= !share;
        sim->defers &= !share;
    }
    return 0;
}

void cachesim_set_masked(struct cachesim *sim, uint32_t masked)
{
    for (; sim; sim = sim->next)
        sim->masked = masked;
}

void cachesim_free(struct cachesim *sim)
{
    while (sim) {
        struct cachesim *next = sim->next;
        free_part(sim);
        sim = next;
    }
}

/* Gives sets of up to 8 ways room for 8 tags or for 16, in place: memory is there for 16. */
static void move_sets(uint32_t *tags, size_t sets, uint32_t from_bits, uint32_t to_bits)
{
    for (size_t i = 0; i < sets; i++) {
        size_t set = to_bits < from_bits ? i : sets - 1 - i;
        uint32_t kept[8];
        memcpy(kept, tags + (set << from_bits), sizeof kept);
        memset(tags + (set << to_bits), 0, sizeof *tags << to_bits);
        memcpy(tags + (set << to_bits), kept, sizeof kept);
    }
}

static void lay_out(struct cachesim *sim, uint32_t room_bits)
{
    for (uint32_t k = 0; k < 2 && k < sim->levels; k++) {
        struct cs_level *level = &sim->level[k];
        if (level->ways > 8 || level->room_bits == room_bits)
            continue;
        for (uint32_t core = 0; core < sim->cores && k < sim->private_levels; core++)
            move_sets(sim->of_core[core].tags[k], cs_policy_sets(level), level->room_bits, room_bits);
        if (k >= sim->private_levels)
            move_sets(level->tags, cs_policy_sets(level), level->room_bits, room_bits);
        level->room_bits = room_bits;
    }
}

static void use_vectors(struct cachesim *sim, uint32_t width)
{
#if defined(__x86_64__)
    static const struct cs_operations *const table[3][3] = {{&cs_plain, &cs_plain_common, &cs_plain_wide},
                                                            {&cs_avx2, &cs_avx2_common, &cs_avx2_wide},
                                                            {&cs_avx512, &cs_avx512_common, &cs_avx512_wide}};
    int narrow = width >= 1 && cs_shape(sim) == 1 && sim->level[0].ways <= 8 && sim->level[1].ways <= 8;
    lay_out(sim, narrow ? 3 : 4);
    sim->do_ = !narrow ? table[width][cs_shape(sim)] : width == 1 ? &cs_avx2_narrow : &cs_avx512_narrow;
#else
    (void)width;
    lay_out(sim, 4);
    static const struct cs_operations *const table[3] = {&cs_plain, &cs_plain_common, &cs_plain_wide};
    sim->do_ = table[cs_shape(sim)];
#endif
}

int cachesim_use_vectors(struct cachesim *sim, uint32_t width)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (width > (avx512 ? 2u : avx2 ? 1u : 0u))
        return -1;
#else
    if (width)
        return -1;
#endif
    for (; sim; sim = sim->next) {
        cs_serve(sim);
        use_vectors(sim, width);
    }
    return 0;
}

uint32_t cachesim_vectors(const struct cachesim *sim)
{
    return sim->do_->width;
}

/* ---- accesses, of all parts or of one ---- */

struct cachesim_part *cachesim_part(struct cachesim *sim, uint32_t number)
{
    while (sim && sim->part != number)
        sim = sim->next;
    return (struct cachesim_part *)sim;
}

static struct cachesim *of(struct cachesim_part *part)
{
    return (struct cachesim *)part;
}

static void access_one(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    if (sim->reuse)
        cs_reuse_access(sim, address, bytes, kind);
    (sim->tlbs ? cs_tlb_access : sim->do_->access)(sim, address, bytes, kind);
}

#define SOME 512u

/* What has no line or several is made by itself. */
void cs_requests(struct cachesim *sim, const struct cachesim_request *request, uint64_t n)
{
    struct cachesim_piece pieces[SOME];
    uint32_t origins[SOME], some = 0;
    for (const struct cachesim_request *end = request + n; request < end; request++) {
        uint64_t address = request->address, last = address + request->bytes - 1;
        int odd = sim->line_bits != 6 || !request->bytes || request->kind >= CS_FENCE || (address ^ last) >> 6;
        if (some && (odd || some == SOME)) {
            sim->do_->pieces(sim, pieces, origins, some);
            some = 0;
        }
        if (odd) {
            sim->origin = request->origin;
            sim->do_->access(sim, address, request->bytes, request->kind);
            continue;
        }
        pieces[some] = cachesim_piece(address, request->bytes, request->kind);
        origins[some] = request->origin;
        some += !cs_foreign(sim, address >> 6); /* else the next is written over it */
    }
    if (some)
        sim->do_->pieces(sim, pieces, origins, some);
}

static void access_all(struct cachesim *sim, const struct cachesim_request *requests, uint64_t n)
{
    if (sim->reuse)
        cs_reuse_requests(sim, requests, n);
    (sim->tlbs ? cs_tlb_requests : cs_requests)(sim, requests, n);
}

static void access_loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride,
                        const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    if (sim->reuse)
        cs_reuse_loop(sim, n, start, stride, bytes, kind, count);
    (sim->tlbs ? cs_tlb_loop : sim->do_->loop)(sim, n, start, stride, bytes, kind, count);
}

int cachesim_part_core(struct cachesim_part *part, uint32_t core)
{
    return cs_core(of(part), core);
}

/* Whether a part has to be told of what is others', too. */
static int sees_all(const struct cachesim *sim)
{
    return sim->tlbs || sim->reuse;
}

struct cachesim_dealt cachesim_part_dealt(const struct cachesim_part *part)
{
    const struct cachesim *sim = (const struct cachesim *)part;
    if (sees_all(sim))
        return (struct cachesim_dealt){sim->line_bits, 0, 0, 0};
    /* A prefetcher may take away again what level 1 was just given, and evasion wants bytes side by side. */
    uint32_t repeats = sim->level[0].given.kind == CS_LRU && !sim->evades && !sim->prefetch;
    return (struct cachesim_dealt){sim->line_bits, sim->part_mask, sim->part, repeats};
}

void cachesim_part_pieces(struct cachesim_part *part, const struct cachesim_piece *pieces, const uint32_t *origins, uint64_t n)
{
    struct cachesim *sim = of(part);
    if (!sees_all(sim)) {
        sim->do_->pieces(sim, pieces, origins, n);
        return;
    }
    struct cachesim_request request[SOME];
    for (uint64_t i = 0; i < n;) {
        uint32_t some = 0;
        for (; i < n && some < SOME; i++)
            request[some++] = (struct cachesim_request){cachesim_piece_address(pieces[i]), origins ? origins[i] : 0,
                                                        (uint16_t)cachesim_piece_bytes(pieces[i]),
                                                        (uint16_t)(pieces[i].key & CACHESIM_KIND_MASK)};
        access_all(sim, request, some);
    }
}

void cachesim_part_again(struct cachesim_part *part, uint64_t n)
{
    of(part)->asked += n;
}

void cachesim_part_access(struct cachesim_part *part, uint32_t origin, uint64_t address, uint32_t bytes, uint32_t kind)
{
    of(part)->origin = origin;
    access_one(of(part), address, bytes, kind);
}

void cachesim_part_loop(struct cachesim_part *part, uint32_t origin, uint32_t n, const uint64_t *start,
                        const int64_t *stride, const uint32_t *bytes, const uint32_t *kind, uint64_t count)
{
    of(part)->origin = origin;
    access_loop(of(part), n, start, stride, bytes, kind, count);
}

int cachesim_core(struct cachesim *sim, uint32_t core)
{
    int failed = 0;
    for (; sim; sim = sim->next)
        failed |= cs_core(sim, core);
    return failed;
}

void cachesim_access(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    for (; sim; sim = sim->next)
        access_one(sim, address, bytes, kind);
}

void cachesim_requests(struct cachesim *sim, const struct cachesim_request *requests, uint64_t n)
{
    for (; sim; sim = sim->next)
        access_all(sim, requests, n);
}

void cachesim_stride(struct cachesim *sim, uint64_t address, int64_t stride, uint64_t count, uint32_t bytes, uint32_t kind)
{
    cachesim_loop(sim, 1, &address, &stride, &bytes, &kind, count);
}

void cachesim_loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                   const uint32_t *kind, uint64_t count)
{
    for (; sim; sim = sim->next)
        access_loop(sim, n, start, stride, bytes, kind, count);
}

/* ---- what all parts tell together ---- */

static void reset_part(struct cachesim *sim)
{
    cs_settle(sim);
    for (uint32_t k = 0; k < sim->levels; k++)
        sim->level[k].misses = sim->level[k].down = 0;
    sim->asked = sim->transfers = 0;
    sim->non_temporal_lines = sim->partial_lines = sim->evaded_lines = 0;
    cs_pages_reset(sim);
    cs_origins_reset(sim);
    cs_reuse_reset(sim);
    cs_prefetch_reset(sim);
    cs_cores_reset(sim);
}

void cachesim_reset(struct cachesim *sim)
{
    for (; sim; sim = sim->next)
        reset_part(sim);
}

static void empty(struct cachesim *sim, struct cs_level *level, uint32_t count_writebacks)
{
    size_t tags = (size_t)cs_policy_sets(level) << level->room_bits;
    for (size_t i = 0; count_writebacks && i < tags; i++)
        while (level->tags[i] & CS_DIRTY) /* the ways behind move up */
            sim->do_->remove(sim, level->tags[i] & CS_LINE, 1);
    cs_policy_empty(level);
}

static void flush_part(struct cachesim *sim, uint32_t count_writebacks)
{
    cs_settle(sim);
    uint32_t at_work = sim->core;
    for (uint32_t core = 0; core < sim->cores; core++) {
        cs_core(sim, core);
        for (uint32_t k = 0; k < sim->private_levels; k++)
            empty(sim, &sim->level[k], count_writebacks);
    }
    cs_core(sim, at_work);
    for (uint32_t k = sim->private_levels; k < sim->levels; k++)
        empty(sim, &sim->level[k], count_writebacks);
    cs_recency_empty(sim);
    cs_origins_clean(sim);
    cs_reuse_forget(sim);
}

void cachesim_flush(struct cachesim *sim, uint32_t count_writebacks)
{
    for (; sim; sim = sim->next)
        flush_part(sim, count_writebacks);
}

/* Distinct lines are not counted there: cs_distinct. */
static void add_traffic(struct cachesim_traffic *to, const struct cachesim_traffic *of)
{
    to->read_lines += of->read_lines;
    to->write_lines += of->write_lines;
    to->write_allocate_lines += of->write_allocate_lines;
    to->again_capacity_lines += of->again_capacity_lines;
    to->again_conflict_lines += of->again_conflict_lines;
    to->evaded_lines += of->evaded_lines;
    to->tlb_misses += of->tlb_misses;
    to->page_walks += of->page_walks;
    to->prefetched_lines += of->prefetched_lines;
    to->prefetched_unused_lines += of->prefetched_unused_lines;
}

static void add_totals(struct cachesim *sim, struct cachesim_totals *totals)
{
    cs_settle(sim);
    uint64_t prefetched = sim->prefetch ? sim->prefetch->asked : 0;
    for (uint32_t k = 0; k < sim->levels; k++) {
        const struct cs_level *level = &sim->level[k];
        /* a level is asked for what the one above misses, level 3 also for what level 2 is to get beforehand */
        uint64_t asked = (k ? sim->level[k - 1].misses : sim->asked) + (k == 2 ? prefetched : 0);
        totals->level[k].hits += asked - level->misses;
        totals->level[k].misses += level->misses;
        totals->level[k].up_lines += level->misses - sim->evaded_lines + (k == 1 ? prefetched : 0);
        totals->level[k].down_lines += level->down;
    }
    for (int32_t array = CS_TABLES; array < (int32_t)sim->array_count; array++)
        add_traffic(&totals->memory, cs_traffic_of(sim, array));
    cs_distinct(sim, CS_ALL, &totals->memory);
    totals->non_temporal_lines += sim->non_temporal_lines;
    totals->partial_lines += sim->partial_lines;
    totals->transfers += sim->transfers;
    if (!totals->error)
        totals->error = sim->error;
}

void cachesim_totals(struct cachesim *sim, struct cachesim_totals *totals)
{
    memset(totals, 0, sizeof *totals);
    totals->levels = sim->levels;
    totals->line_bytes = 1u << sim->line_bits;
    totals->pages = cs_pages_touched(sim);
    for (; sim; sim = sim->next)
        add_totals(sim, totals);
}

int cachesim_array(struct cachesim *sim, int id, struct cachesim_traffic *traffic)
{
    if (id < CS_TABLES || id >= (int)sim->array_count || (id == CS_TABLES && !sim->tlbs))
        return -1;
    memset(traffic, 0, sizeof *traffic);
    for (; sim; sim = sim->next) {
        cs_settle(sim);
        add_traffic(traffic, cs_traffic_of(sim, id));
        cs_distinct(sim, id, traffic);
    }
    return 0;
}

uint32_t cachesim_physical_line(const struct cachesim *sim, uint64_t address)
{
    while (cs_foreign(sim, address >> sim->line_bits))
        sim = sim->next;
    uint32_t label = cs_label_seen(sim, address >> CS_PAGE_BITS);
    return label ? sim->frames[label].line | cs_in_page(sim, address >> sim->line_bits) : 0;
}

uint32_t cachesim_set_of(const struct cachesim *sim, uint32_t level, uint32_t physical)
{
    return cs_set(&sim->level[level], physical);
}

uint32_t cachesim_sets(const struct cachesim *sim, uint32_t level)
{
    return sim->level[level].sets;
}

uint32_t cachesim_contents(struct cachesim *sim, uint32_t level, uint32_t set, uint32_t lines[64])
{
    while (cs_foreign(sim, set)) /* as with lines */
        sim = sim->next;
    cs_serve(sim);
    const uint32_t *tags = sim->level[level].tags + ((size_t)(set >> sim->part_bits) << sim->level[level].room_bits);
    uint32_t n = 0;
    for (; n < sim->level[level].ways && (tags[n] || sim->level[level].policy); n++)
        lines[n] = tags[n] ? cs_physical(sim, tags[n] & CS_LINE) | (tags[n] & CS_DIRTY) : 0;
    return n;
}
