/* Virtual pages to physical frames, and frames back to the arrays they belong to. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Room for a set-up that touches more than this is refused, see cachesim_totals.error. */
#define LABELS (1u << CS_SMALL_BITS)
#define HUGE_LABELS (1u << CS_HUGE_BITS)

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void scramble_init(struct cs_scramble *s, uint32_t bits, uint64_t *state)
{
    s->bits = bits;
    s->mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < 3; i++) {
        s->shift[i] = (bits + 1) / 2 + i % 2;
        uint32_t m = (uint32_t)next_random(state) | 1, inverse = m;
        for (int k = 0; k < 5; k++) /* Newton: each step doubles the correct low bits, of which there are 3 */
            inverse *= 2 - m * inverse;
        s->multiplier[i] = m;
        s->inverse[i] = inverse;
    }
}

int cs_pages_init(struct cachesim *sim, uint64_t seed)
{
    scramble_init(&sim->small, CS_SMALL_BITS, &seed);
    scramble_init(&sim->huge, CS_HUGE_BITS, &seed);
    sim->directory = calloc((size_t)1 << CS_DIRECTORY_BITS, sizeof *sim->directory);
    sim->traffic = calloc(1, sizeof *sim->traffic);
    if (sim->traffic)
        sim->traffic[0] = calloc(1, sizeof **sim->traffic);
    /*
     * Label 0 keeps its place under the permutation, and frame 0 is the empty tag: nobody gets it.
     * Label 1 takes what cannot be placed any more.
     */
    sim->array_pages.page = calloc(2, sizeof *sim->array_pages.page);
    struct cs_page *lost = aligned_alloc(64, sizeof *lost);
    if (!sim->directory || !sim->traffic || !sim->traffic[0] || !sim->array_pages.page || !lost) {
        free(lost);
        return -1;
    }
    *lost = (struct cs_page){.line = cs_scramble(&sim->small, 1) << sim->page_line_bits, .traffic = sim->traffic[0]};
    sim->traffic[0]->array = -1;
    sim->array_pages.page[1] = lost;
    sim->array_pages.count = sim->array_pages.room = 2;
    return 0;
}

void cs_pages_free(struct cachesim *sim)
{
    while (sim->leaves) {
        struct cs_leaf *next = sim->leaves->next;
        free(sim->leaves->page);
        free(sim->leaves);
        sim->leaves = next;
    }
    if (sim->array_pages.page)
        free(sim->array_pages.page[1]);
    free(sim->directory);
    free(sim->array_pages.page);
    free(sim->huge_pages.page);
    free(sim->other_pages.page);
    free(sim->arrays);
    for (uint32_t i = 0; sim->traffic && i <= sim->array_count; i++)
        free(sim->traffic[i]);
    free(sim->traffic);
}

static int grow(struct cs_labels *labels, uint32_t more)
{
    uint64_t need = (uint64_t)labels->count + more;
    if (need > labels->room) {
        uint64_t room = labels->room * UINT64_C(2) > need ? labels->room * UINT64_C(2) : need + 64;
        struct cs_page **page = realloc(labels->page, room * sizeof *page);
        if (!page)
            return -1;
        memset(page + labels->room, 0, (room - labels->room) * sizeof *page);
        labels->page = page;
        labels->room = (uint32_t)room;
    }
    labels->count += more;
    return 0;
}

struct cs_page *cs_far_page(const struct cachesim *sim, uint64_t number)
{
    for (struct cs_leaf *leaf = sim->leaves; leaf; leaf = leaf->next)
        if (leaf->top == number >> CS_LEAF_BITS)
            return leaf->page + (number & ((1u << CS_LEAF_BITS) - 1));
    return NULL;
}

static struct cs_page *make_leaf(struct cachesim *sim, uint64_t number)
{
    size_t bytes = sizeof(struct cs_page) << CS_LEAF_BITS;
    struct cs_leaf *leaf = malloc(sizeof *leaf);
    /* mmap underneath: zero, page-aligned, and resident only where written */
    struct cs_page *page = calloc(1, bytes);
    if (!leaf || !page) {
        free(leaf);
        free(page);
        return NULL;
    }
    *leaf = (struct cs_leaf){page, number >> CS_LEAF_BITS, sim->leaves};
    sim->leaves = leaf;
    if (leaf->top >> CS_DIRECTORY_BITS == 0)
        sim->directory[leaf->top] = page;
    return page + (number & ((1u << CS_LEAF_BITS) - 1));
}

static const struct cs_array *array_of_page(const struct cachesim *sim, uint64_t page)
{
    for (uint32_t i = 0; i < sim->array_count; i++)
        if (page - sim->arrays[i].first_page < sim->arrays[i].page_count)
            return &sim->arrays[i];
    return NULL;
}

/* The array that owns all bytes from start to end, or all else if none has one; NULL if parts differ. */
static struct cs_traffic *owner(const struct cachesim *sim, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < sim->array_count; i++)
        if (sim->arrays[i].start < end && start < sim->arrays[i].end)
            return sim->arrays[i].start <= start && end <= sim->arrays[i].end ? sim->traffic[i + 1] : NULL;
    return sim->traffic[0];
}

/* Virtual address >> 12: where the page stands in its leaf. Only asked for pages that belong to more than one array. */
static uint64_t number_of(const struct cachesim *sim, const struct cs_page *page)
{
    const struct cs_leaf *leaf = sim->leaves;
    while (leaf && (page < leaf->page || page >= leaf->page + ((size_t)1 << CS_LEAF_BITS)))
        leaf = leaf->next;
    return leaf ? leaf->top << CS_LEAF_BITS | (uint64_t)(page - leaf->page) : 0;
}

int32_t cs_line_array(const struct cachesim *sim, const struct cs_page *page, uint32_t line_in_page)
{
    uint64_t start = (number_of(sim, page) << CS_PAGE_BITS) + ((uint64_t)line_in_page << sim->line_bits);
    uint64_t end = start + (UINT64_C(1) << sim->line_bits);
    for (uint32_t i = 0; i < sim->array_count; i++)
        if (sim->arrays[i].start < end && start < sim->arrays[i].end)
            return (int32_t)i;
    return -1;
}

static void set_owner(const struct cachesim *sim, struct cs_page *page, uint64_t number)
{
    uint64_t start = number << CS_PAGE_BITS;
    page->traffic = owner(sim, start, start + (1u << CS_PAGE_BITS));
}

/* The slot for a label's page, and the label's frame; NULL with sim->error set if there is none left. */
static struct cs_page **assign(struct cachesim *sim, uint64_t number, uint32_t *frame)
{
    const struct cs_array *array = array_of_page(sim, number);
    if (array && number - array->huge_start < array->huge_end - array->huge_start) {
        uint32_t at = array->huge_label + (uint32_t)(number - array->huge_start);
        *frame = CS_FRAME_HUGE | cs_scramble(&sim->huge, at >> 9) << 9 | (at & 511);
        return &sim->huge_pages.page[at];
    }
    if (array) {
        uint32_t label = array->label + (uint32_t)(number - array->first_page);
        *frame = cs_scramble(&sim->small, label);
        return &sim->array_pages.page[label];
    }
    if ((uint64_t)sim->array_pages.count + sim->other_pages.count >= LABELS) {
        sim->error = 2;
        return NULL;
    }
    if (grow(&sim->other_pages, 1)) {
        sim->error = 1;
        return NULL;
    }
    uint32_t at = sim->other_pages.count - 1;
    *frame = cs_scramble(&sim->small, LABELS - 1 - at);
    return &sim->other_pages.page[at];
}

struct cs_page *cs_page_slow(struct cachesim *sim, uint64_t number)
{
    struct cs_page *page = cs_page_seen(sim, number);
    if (!page)
        page = make_leaf(sim, number);
    if (!page)
        sim->error = 1;
    uint32_t frame = 0;
    struct cs_page **slot = page ? assign(sim, number, &frame) : NULL;
    if (!slot)
        return sim->array_pages.page[1]; /* the counts are void from here on, and totals say so */
    *slot = page;
    page->line = frame << sim->page_line_bits;
    page->last_set = cs_set(&sim->level[sim->levels - 1], page->line);
    set_owner(sim, page, number);
    sim->pages_touched++;
    return page;
}

int cachesim_add_array(struct cachesim *sim, uint64_t start, uint64_t bytes, uint32_t huge_pages)
{
    if (!bytes || start + bytes < start)
        return -1;
    if (sim->array_count == sim->array_room) {
        uint32_t room = sim->array_room ? 2 * sim->array_room : 16;
        struct cs_array *arrays = realloc(sim->arrays, room * sizeof *arrays);
        if (!arrays)
            return -1;
        sim->arrays = arrays;
        struct cs_traffic **traffic = realloc(sim->traffic, (room + 1) * sizeof *traffic);
        if (!traffic)
            return -1;
        sim->traffic = traffic;
        sim->array_room = room;
    }
    struct cs_array array = {.start = start, .end = start + bytes};
    array.first_page = start >> CS_PAGE_BITS;
    array.page_count = ((array.end - 1) >> CS_PAGE_BITS) + 1 - array.first_page;
    uint64_t huge_pages_in_array = 0;
    if (huge_pages) {
        array.huge_start = (start + (1u << 21) - 1) >> 21 << 9;
        array.huge_end = array.end >> 21 << 9;
        if (array.huge_end > array.huge_start)
            huge_pages_in_array = array.huge_end - array.huge_start;
        else
            array.huge_end = array.huge_start;
    }
    /* Small labels for all pages, also those in huge frames: what is before and behind keeps simple numbers. */
    if (array.page_count + sim->array_pages.count + sim->other_pages.count > LABELS ||
        huge_pages_in_array + sim->huge_pages.count > (uint64_t)HUGE_LABELS << 9)
        return -1;
    array.label = sim->array_pages.count;
    array.huge_label = sim->huge_pages.count;
    struct cs_traffic *traffic = calloc(1, sizeof *traffic);
    if (!traffic || grow(&sim->array_pages, (uint32_t)array.page_count) ||
        grow(&sim->huge_pages, (uint32_t)huge_pages_in_array)) {
        free(traffic);
        return -1;
    }
    sim->arrays[sim->array_count] = array;
    traffic->array = (int32_t)sim->array_count;
    sim->traffic[sim->array_count + 1] = traffic;
    sim->array_count++;
    for (uint64_t i = 0; i < array.page_count; i++) { /* pages touched before keep their frame */
        struct cs_page *page = cs_page_seen(sim, array.first_page + i);
        if (page && page->line)
            set_owner(sim, page, array.first_page + i);
    }
    return (int)sim->array_count - 1;
}

static void clear(struct cs_labels *labels)
{
    for (uint32_t i = 0; i < labels->count; i++)
        if (labels->page[i]) {
            struct cs_page *page = labels->page[i];
            page->read = page->written = page->read_for_store = page->loaded = page->stored = 0;
        }
}

void cs_pages_reset(struct cachesim *sim)
{
    clear(&sim->array_pages);
    clear(&sim->huge_pages);
    clear(&sim->other_pages);
    for (uint32_t i = 0; i <= sim->array_count; i++)
        sim->traffic[i]->count = (struct cachesim_traffic){0};
}

static uint64_t ones(uint64_t bits)
{
    return (uint64_t)__builtin_popcountll(bits);
}

/* Adds a page's distinct lines to the traffic of an array (-1: of no array; CS_ALL: of all). */
static void add_distinct(const struct cachesim *sim, const struct cs_page *page, int32_t array,
                         struct cachesim_traffic *traffic)
{
    uint64_t lines = UINT64_MAX;
    if (array != CS_ALL && !page->traffic) {
        lines = 0;
        for (uint32_t i = 0; i < 1u << sim->page_line_bits; i++)
            lines |= (uint64_t)(cs_line_array(sim, page, i) == array) << i;
    } else if (array != CS_ALL && page->traffic->array != array) {
        return;
    }
    traffic->unique_read_lines += ones(page->read & lines);
    traffic->unique_write_lines += ones(page->written & lines);
    traffic->unique_write_allocate_lines += ones(page->read_for_store & lines);
    traffic->loaded_lines += ones(page->loaded & lines);
    traffic->stored_lines += ones(page->stored & lines);
}

void cs_distinct(const struct cachesim *sim, int32_t array, struct cachesim_traffic *traffic)
{
    const struct cs_labels *all[] = {&sim->array_pages, &sim->huge_pages, &sim->other_pages};
    for (int kind = 0; kind < 3; kind++)
        for (uint32_t i = 0; i < all[kind]->count; i++)
            if (all[kind]->page[i])
                add_distinct(sim, all[kind]->page[i], array, traffic);
}
