/*
 * TLBs stand before the caches: they see every access, and put the loads of page walks between those that go on. What they
 * hold does not depend on the caches, so where there are parts, each has TLBs of its own, all alike; the first one counts.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MOST_TLBS 8u
#define SMALL 1u
#define HUGE 2u
#define HUGE_BITS 21u
#define PAGE_SIZE (UINT64_C(1) << CS_PAGE_BITS)
#define ROOM 256u /* requests that are held back */
#define MOST_SEARCHED 16u /* ways of a set that are looked through one by one */

/* Tables lie where no program's address does; entries for pages of 4 KiB and of 2 MiB apart, by number of page. */
#define SMALL_TABLES (UINT64_C(1) << 63)
#define HUGE_TABLES (UINT64_C(3) << 62)
#define ENTRY_BYTES 8u

struct tlb {
    uint32_t level, pages, ways, sets, hash_bits;
    uint32_t bucket_bits; /* 0: sets are looked through */
    size_t first;         /* of its tags, or entries, among those of a core */
    size_t first_bucket;
};

/*
 * Of TLBs with many ways, an entry is found by its bucket, and the entries of a set are a ring in order of recency: the entry
 * before the set's first one, and so last of all, is the one to go. Numbers count from the TLB's first entry.
 */
struct entry {
    uint64_t tag;                /* 0 is empty */
    uint32_t before, after;      /* in the ring */
    uint32_t next;               /* in the bucket, plus 1; 0: none */
};

struct of_core {
    uint64_t *tags; /* of TLBs that are looked through; in each set the most recent first, 0 is empty */
    struct entry *entries;
    uint32_t *buckets; /* the first entry plus 1, 0: none */
    uint32_t *newest;  /* [entries] of a set, at the place of its first entry */
    uint64_t last;     /* the page of 4 KiB that was translated last */
};

struct cs_tlbs {
    uint32_t count, cores;
    size_t tags, entries, buckets; /* of a core */
    struct tlb tlb[MOST_TLBS];
    struct of_core *core;
    uint64_t missed; /* in level 1, ever */
    uint32_t held;
    struct cachesim_request request[ROOM];
};

static int tlb_init(struct tlb *tlb, const struct cachesim_tlb *given)
{
    uint32_t ways = given->ways ? given->ways : given->entries;
    if (given->level < 1 || given->level > 2 || !given->entries || given->entries > 1u << 20 || given->entries % ways ||
        !given->pages || given->pages > (SMALL | HUGE))
        return -1;
    *tlb = (struct tlb){.level = given->level, .pages = given->pages, .ways = ways, .sets = given->entries / ways};
    if (given->hashed) {
        if (tlb->sets & (tlb->sets - 1))
            return -1;
        tlb->hash_bits = (uint32_t)__builtin_ctz(tlb->sets);
    }
    if (ways > MOST_SEARCHED)
        tlb->bucket_bits = 34 - (uint32_t)__builtin_clz(given->entries); /* two to four buckets an entry */
    return 0;
}

static int start(struct cachesim *sim, const struct cachesim_tlb *tlbs, uint32_t count)
{
    if (sim->tlbs || !count || count > MOST_TLBS)
        return -1;
    struct cs_tlbs *made = calloc(1, sizeof *made);
    int failed = !made;
    for (uint32_t i = 0; i < count && !failed; i++) {
        failed = tlb_init(&made->tlb[i], &tlbs[i]);
        struct tlb *tlb = &made->tlb[i];
        size_t entries = (size_t)tlb->sets * tlb->ways, *room = tlb->bucket_bits ? &made->entries : &made->tags;
        tlb->first = *room;
        *room += entries;
        tlb->first_bucket = made->buckets;
        made->buckets += tlb->bucket_bits ? (size_t)1 << tlb->bucket_bits : 0;
    }
    if (failed) {
        free(made);
        return -1;
    }
    made->count = count;
    sim->tlbs = made;
    return 0;
}

int cachesim_tlb_start(struct cachesim *sim, const struct cachesim_tlb *tlbs, uint32_t count)
{
    for (; sim; sim = sim->next)
        if (start(sim, tlbs, count))
            return -1;
    return 0;
}

static void core_free(struct of_core *core)
{
    free(core->tags);
    free(core->entries);
    free(core->buckets);
    free(core->newest);
}

void cs_tlbs_free(struct cachesim *sim)
{
    for (uint32_t i = 0; sim->tlbs && i < sim->tlbs->cores; i++)
        core_free(&sim->tlbs->core[i]);
    if (sim->tlbs)
        free(sim->tlbs->core);
    free(sim->tlbs);
}

/* The TLBs of a core, empty; -1 if memory is short. */
static int core_init(const struct cs_tlbs *tlbs, struct of_core *core)
{
    *core = (struct of_core){
        calloc(tlbs->tags + 1, sizeof *core->tags),       calloc(tlbs->entries + 1, sizeof *core->entries),
        calloc(tlbs->buckets + 1, sizeof *core->buckets), calloc(tlbs->entries + 1, sizeof *core->newest),
        CS_NONE,
    };
    if (!core->tags || !core->entries || !core->buckets || !core->newest) {
        core_free(core);
        return -1;
    }
    for (uint32_t i = 0; i < tlbs->count; i++) {
        const struct tlb *tlb = &tlbs->tlb[i];
        for (uint32_t n = 0; tlb->bucket_bits && n < tlb->sets * tlb->ways; n++) {
            uint32_t first = n / tlb->ways * tlb->ways, way = n - first;
            core->entries[tlb->first + n].before = first + (way ? way : tlb->ways) - 1;
            core->entries[tlb->first + n].after = first + (way + 1 < tlb->ways ? way + 1 : 0);
            core->newest[tlb->first + n] = first;
        }
    }
    return 0;
}

/* The TLBs of the core at work; NULL if memory is short. */
static struct of_core *at_work(struct cachesim *sim)
{
    struct cs_tlbs *tlbs = sim->tlbs;
    while (sim->core >= tlbs->cores) {
        struct of_core *core = realloc(tlbs->core, (tlbs->cores + 1) * sizeof *core);
        if (core)
            tlbs->core = core;
        if (!core || core_init(tlbs, &core[tlbs->cores])) {
            sim->error = 1;
            return NULL;
        }
        tlbs->cores++;
    }
    return &tlbs->core[sim->core];
}

/* Looks through a set of few ways. */
static int search(const struct tlb *tlb, struct of_core *core, uint64_t set, uint64_t tag)
{
    uint64_t *entry = core->tags + tlb->first + set * tlb->ways;
    uint32_t way = 0;
    while (way < tlb->ways && entry[way] != tag)
        way++;
    int found = way < tlb->ways;
    memmove(entry + 1, entry, (found ? way : tlb->ways - 1) * sizeof *entry);
    entry[0] = tag;
    return found;
}

static uint32_t *bucket_of(const struct tlb *tlb, const struct of_core *core, uint64_t tag)
{
    return core->buckets + tlb->first_bucket + (tag * UINT64_C(0x9e3779b97f4a7c15) >> (64 - tlb->bucket_bits));
}

/* The entry that has to go, the set's last, is taken for another page. */
static uint32_t replace(const struct tlb *tlb, struct of_core *core, uint32_t newest, uint64_t tag)
{
    struct entry *entry = core->entries + tlb->first;
    uint32_t last = entry[newest].before;
    if (entry[last].tag) {
        uint32_t *link = bucket_of(tlb, core, entry[last].tag);
        while (*link != last + 1)
            link = &entry[*link - 1].next;
        *link = entry[last].next;
    }
    uint32_t *bucket = bucket_of(tlb, core, tag);
    entry[last].tag = tag;
    entry[last].next = *bucket;
    *bucket = last + 1;
    return last;
}

/* Looks a page up in a set of many ways. */
static int look_up(const struct tlb *tlb, struct of_core *core, uint64_t set, uint64_t tag)
{
    struct entry *entry = core->entries + tlb->first;
    uint32_t *newest = &core->newest[tlb->first + set * tlb->ways], found = *bucket_of(tlb, core, tag), one;
    while (found && entry[found - 1].tag != tag)
        found = entry[found - 1].next;
    one = found ? found - 1 : replace(tlb, core, *newest, tag);
    if (one == *newest)
        return found != 0;
    if (one != entry[*newest].before) { /* the last becomes the first by turning the ring */
        entry[entry[one].before].after = entry[one].after;
        entry[entry[one].after].before = entry[one].before;
        entry[one].before = entry[*newest].before;
        entry[one].after = *newest;
        entry[entry[one].before].after = one;
        entry[*newest].before = one;
    }
    *newest = one;
    return found != 0;
}

/* Asks one TLB for a page, which is the most recent of its set from then on; returns whether it had it. */
static int ask(const struct tlb *tlb, struct of_core *core, uint64_t number, uint32_t huge)
{
    uint64_t set = tlb->hash_bits ? (number ^ number >> tlb->hash_bits) & (tlb->sets - 1)
                   : tlb->sets > 1 ? number % tlb->sets
                                   : 0;
    uint64_t tag = (number << 1 | huge) + 1;
    return tlb->bucket_bits ? look_up(tlb, core, set, tag) : search(tlb, core, set, tag);
}

/* Asks those of a level, of which at most one holds pages of this size. */
static int level_has(const struct cs_tlbs *tlbs, struct of_core *core, uint32_t level, uint64_t number, uint32_t huge)
{
    for (uint32_t i = 0; i < tlbs->count; i++)
        if (tlbs->tlb[i].level == level && tlbs->tlb[i].pages & (huge ? HUGE : SMALL))
            return ask(&tlbs->tlb[i], core, number, huge);
    return 0;
}

static uint32_t is_huge(const struct cachesim *sim, uint64_t page)
{
    for (const struct cs_placed *placed = sim->placed; placed; placed = placed->next)
        if (page - placed->first < placed->end - placed->first) {
            if (!placed->frames)
                return 1;
            break;
        }
    for (uint32_t i = 0; i < sim->array_count; i++)
        if (page - sim->arrays[i].huge_start < sim->arrays[i].huge_end - sim->arrays[i].huge_start)
            return 1;
    return 0;
}

/* Of the array that a line belongs to. */
static struct cachesim_traffic *traffic_at(const struct cachesim *sim, uint64_t address)
{
    uint64_t line = UINT64_C(1) << sim->line_bits, first = address & ~(line - 1);
    return cs_traffic_of(sim, cs_array_of(sim, first, first + line));
}

static void pass_on(struct cachesim *sim)
{
    struct cs_tlbs *tlbs = sim->tlbs;
    if (tlbs->held)
        cs_requests(sim, tlbs->request, tlbs->held);
    tlbs->held = 0;
}

static inline void hold(struct cachesim *sim, struct cachesim_request request)
{
    if (sim->tlbs->held == ROOM)
        pass_on(sim);
    sim->tlbs->request[sim->tlbs->held++] = request;
}

/* Translates an address; a walk holds its load back. */
static void translate(struct cachesim *sim, uint64_t address, uint32_t origin)
{
    struct cs_tlbs *tlbs = sim->tlbs;
    struct of_core *core = at_work(sim);
    uint64_t page = address >> CS_PAGE_BITS;
    if (!core || page == core->last)
        return;
    core->last = page;
    uint32_t huge = is_huge(sim, page);
    uint64_t number = huge ? address >> HUGE_BITS : page;
    if (level_has(tlbs, core, 1, number, huge))
        return;
    tlbs->missed++;
    int walk = !level_has(tlbs, core, 2, number, huge);
    if (!sim->part) {
        struct cachesim_traffic *traffic = traffic_at(sim, address);
        traffic->tlb_misses++;
        traffic->page_walks += (uint32_t)walk;
    }
    if (walk)
        hold(sim, (struct cachesim_request){(huge ? HUGE_TABLES : SMALL_TABLES) + number * ENTRY_BYTES, origin, ENTRY_BYTES,
                                            CS_PREFETCH}); /* a load that the program did not make */
}

/* One access, page by page: lines of a page are asked for once its address is known. */
static void one(struct cachesim *sim, uint64_t address, uint64_t bytes, uint32_t kind, uint32_t origin)
{
    if (kind >= CS_FENCE || !bytes) {
        hold(sim, (struct cachesim_request){address, origin, (uint16_t)bytes, (uint16_t)kind});
        return;
    }
    for (uint64_t end = address + bytes; address < end;) {
        uint64_t next = (address | (PAGE_SIZE - 1)) + 1, stop = next < end ? next : end;
        translate(sim, address, origin);
        hold(sim, (struct cachesim_request){address, origin, (uint16_t)(stop - address), (uint16_t)kind});
        address = stop;
    }
}

void cs_tlb_access(struct cachesim *sim, uint64_t address, uint32_t bytes, uint32_t kind)
{
    one(sim, address, bytes, kind, sim->origin);
    pass_on(sim);
}

void cs_tlb_requests(struct cachesim *sim, const struct cachesim_request *requests, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        one(sim, requests[i].address, requests[i].bytes, requests[i].kind, requests[i].origin);
    pass_on(sim);
}

/* Further iterations for which a stream that is at this address stays on its page. */
static uint64_t stays(uint64_t address, int64_t stride, uint32_t bytes, uint32_t kind)
{
    if (kind >= CS_FENCE || !bytes || (!stride && (address & (PAGE_SIZE - 1)) + bytes <= PAGE_SIZE))
        return UINT64_MAX;
    uint64_t first = address & (PAGE_SIZE - 1), last = first + bytes - 1;
    if (last >= PAGE_SIZE)
        return 0;
    return stride > 0 ? (PAGE_SIZE - 1 - last) / (uint64_t)stride : first / -(uint64_t)stride;
}

#define MOST_STREAMS 256u
#define WORTH 4u /* iterations that are worth a loop of their own */

static uint64_t last_page(struct cachesim *sim)
{
    const struct of_core *core = at_work(sim);
    return core ? core->last : CS_NONE;
}

/*
 * An iteration without a miss in level 1 leaves there what it asked for, in its order; so further ones on the same pages
 * change nothing in the TLBs, and go to the caches as a loop. But the page that the core was on before is not asked for, so
 * they have to begin on the same one as that did.
 */
void cs_tlb_loop(struct cachesim *sim, uint32_t n, const uint64_t *start, const int64_t *stride, const uint32_t *bytes,
                 const uint32_t *kind, uint64_t count)
{
    uint32_t origin = sim->origin;
    uint64_t address[MOST_STREAMS];
    for (uint64_t now = 0; now < count; now++) {
        uint64_t missed = sim->tlbs->missed, before = last_page(sim), stay = count - now - 1;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t at = start[i] + now * (uint64_t)stride[i];
            one(sim, at, bytes[i], kind[i], origin + i);
            uint64_t longest = stays(at, stride[i], bytes[i], kind[i]);
            stay = longest < stay ? longest : stay;
        }
        if (sim->tlbs->missed != missed || last_page(sim) != before || stay < WORTH || n > MOST_STREAMS)
            continue;
        for (uint32_t i = 0; i < n; i++)
            address[i] = start[i] + (now + 1) * (uint64_t)stride[i];
        pass_on(sim);
        sim->origin = origin;
        sim->do_->loop(sim, n, address, stride, bytes, kind, stay);
        now += stay;
    }
    pass_on(sim);
    sim->origin = origin;
}
