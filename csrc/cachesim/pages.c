/* Virtual pages to labels and physical frames, and labels back to the arrays they belong to. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

/* Room for a set-up that touches more than this is refused, see cachesim_totals.error. */
#define LABELS (1u << CS_SMALL_BITS)
#define HUGE_FRAMES (1u << CS_HUGE_BITS)

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void scramble_init(struct cs_scramble *s, uint32_t bits, uint64_t *state)
{
    s->mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < 3; i++) {
        s->shift[i] = (bits + 1) / 2 + i % 2;
        s->multiplier[i] = (uint32_t)next_random(state) | 1;
    }
}

void *cs_enlarge(void *old, size_t old_bytes, size_t bytes)
{
    if (old && bytes <= old_bytes)
        return old;
    void *table = old ? mremap(old, old_bytes, bytes, MREMAP_MAYMOVE)
                      : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return NULL;
    madvise(table, bytes, MADV_HUGEPAGE); /* they are looked up at random; without, nothing is lost but time */
    return table;
}

void cs_give_back(void *table, size_t bytes)
{
    if (table)
        munmap(table, bytes);
}

/* Makes room for labels up to `need`; 0, or -1 if memory is short. */
static int room_for(struct cachesim *sim, uint64_t need)
{
    if (need <= sim->label_room)
        return 0;
    uint64_t room = sim->label_room ? sim->label_room : 1 << 14, old = sim->label_room;
    while (room < need)
        room *= 2;
    void *table = cs_enlarge(sim->frames, old * sizeof *sim->frames, room * sizeof *sim->frames);
    if (!table)
        return -1;
    sim->frames = table;
    table = cs_enlarge(sim->pages, old * sizeof *sim->pages, room * sizeof *sim->pages);
    if (!table)
        return -1;
    sim->pages = table;
    table = cs_enlarge(sim->numbers, old * sizeof *sim->numbers, room * sizeof *sim->numbers);
    if (!table)
        return -1;
    sim->numbers = table;
    if (cs_cores_grow(sim, (uint32_t)room) || (sim->origins && cs_origins_grow(sim, (uint32_t)room)) ||
        (sim->prefetch && cs_prefetch_grow(sim, (uint32_t)room)))
        return -1;
    sim->label_room = (uint32_t)room;
    return 0;
}

int32_t cs_array_of(const struct cachesim *sim, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < sim->array_count; i++)
        if (sim->arrays[i].start < end && start < sim->arrays[i].end)
            return (int32_t)i;
    return CS_NO_ARRAY;
}

/* Says whose a page and its lines are. */
static void set_owner(struct cachesim *sim, uint32_t label, uint64_t number)
{
    uint64_t start = number << CS_PAGE_BITS, end = start + (1u << CS_PAGE_BITS), line = UINT64_C(1) << sim->line_bits;
    int32_t array = sim->tlbs && start >> 63 ? CS_TABLES : cs_array_of(sim, start, end);
    int whole = array < 0 || (sim->arrays[array].start <= start && end <= sim->arrays[array].end);
    sim->pages[label].owner = whole ? (uint32_t)(array - CS_TABLES) : CS_SEVERAL;
    for (uint32_t chunk = 0; chunk < CS_CHUNKS; chunk++) {
        if (cs_foreign(sim, chunk))
            continue;
        uint64_t at = (start + chunk * 64) & ~(line - 1);
        uint32_t *state = &sim->lines[cs_chunk(sim, label, chunk)].state;
        int32_t owner = whole ? array : cs_array_of(sim, at, at + line);
        *state = (*state & CS_HAPPENED) | (uint32_t)(owner - CS_TABLES) << CS_OWNER_BITS;
    }
}

/*
 * Label 0 is that of the empty tag: nobody gets it. Label 1 takes what cannot be placed any more. The frame of label 0's
 * number, 0, keeps its place under the permutation.
 */
int cs_pages_init(struct cachesim *sim, uint64_t seed)
{
    scramble_init(&sim->small, CS_SMALL_BITS, &seed);
    scramble_init(&sim->huge, CS_HUGE_BITS, &seed);
    sim->directory = calloc((size_t)1 << CS_DIRECTORY_BITS, sizeof *sim->directory);
    sim->traffic = calloc(CS_FIRST_ARRAY, sizeof *sim->traffic);
    if (!sim->directory || !sim->traffic || room_for(sim, 2) || cs_cores_init(sim))
        return -1;
    sim->frames[1].line = cs_scramble(&sim->small, 1) << sim->page_line_bits;
    set_owner(sim, 1, 0);
    sim->labels = sim->array_frames = 2;
    return 0;
}

void cs_pages_free(struct cachesim *sim)
{
    while (sim->leaves) {
        struct cs_leaf *next = sim->leaves->next;
        free(sim->leaves->label);
        free(sim->leaves);
        sim->leaves = next;
    }
    size_t room = sim->label_room;
    cs_give_back(sim->pages, room * sizeof *sim->pages);
    cs_give_back(sim->frames, room * sizeof *sim->frames);
    cs_give_back(sim->numbers, room * sizeof *sim->numbers);
    while (sim->placed) {
        struct cs_placed *next = sim->placed->next;
        free(sim->placed->frames);
        free(sim->placed);
        sim->placed = next;
    }
    free(sim->directory);
    free(sim->arrays);
    free(sim->traffic);
}

uint32_t cs_far_label(const struct cachesim *sim, uint64_t number)
{
    for (struct cs_leaf *leaf = sim->leaves; leaf; leaf = leaf->next)
        if (leaf->top == number >> CS_LEAF_BITS)
            return leaf->label[number & ((1u << CS_LEAF_BITS) - 1)];
    return 0;
}

/* Where a page's label stands; NULL if memory is short. */
static uint32_t *place_of(struct cachesim *sim, uint64_t number)
{
    uint64_t top = number >> CS_LEAF_BITS, in_leaf = number & ((1u << CS_LEAF_BITS) - 1);
    for (struct cs_leaf *leaf = sim->leaves; leaf; leaf = leaf->next)
        if (leaf->top == top)
            return leaf->label + in_leaf;
    struct cs_leaf *leaf = malloc(sizeof *leaf);
    /* mmap underneath: zero, and resident only where written */
    uint32_t *label = calloc((size_t)1 << CS_LEAF_BITS, sizeof *label);
    if (!leaf || !label) {
        free(leaf);
        free(label);
        return NULL;
    }
    *leaf = (struct cs_leaf){label, top, sim->leaves};
    sim->leaves = leaf;
    if (top >> CS_DIRECTORY_BITS == 0)
        sim->directory[top] = label;
    return label + in_leaf;
}

static const struct cs_array *array_of_page(const struct cachesim *sim, uint64_t page)
{
    for (uint32_t i = 0; i < sim->array_count; i++)
        if (page - sim->arrays[i].first_page < sim->arrays[i].page_count)
            return &sim->arrays[i];
    return NULL;
}

/* The 4 KiB frame of a page in the 2 MiB frames that were given out from `first` on. */
static uint32_t in_huge_frame(const struct cachesim *sim, uint64_t first, uint64_t page)
{
    uint32_t at = (uint32_t)(first + page);
    return CS_FRAME_HUGE | cs_scramble(&sim->huge, at >> 9) << 9 | (at & 511);
}

/* Moves a page to the frame that was said; others stay where they are. */
static void move_to_place(const struct cachesim *sim, uint64_t number, uint32_t *frame)
{
    for (const struct cs_placed *placed = sim->placed; placed; placed = placed->next) {
        uint64_t page = number - placed->first;
        if (page >= placed->end - placed->first)
            continue;
        if (!placed->frames)
            *frame = in_huge_frame(sim, placed->huge_frame, page);
        else if (placed->frames[page])
            *frame = placed->frames[page];
        return;
    }
}

/* The label of a page that is touched for the first time, and its frame; 0 with sim->error set if there is none left. */
static uint32_t assign(struct cachesim *sim, uint64_t number, uint32_t *frame)
{
    const struct cs_array *array = array_of_page(sim, number);
    if (array) {
        if (number - array->huge_start < array->huge_end - array->huge_start) {
            *frame = in_huge_frame(sim, array->huge_frame, number - array->huge_start);
        } else {
            *frame = cs_scramble(&sim->small, array->frame + (uint32_t)(number - array->first_page));
        }
        return array->label + (uint32_t)(number - array->first_page);
    }
    if (sim->labels >= LABELS || (uint64_t)sim->array_frames + sim->other_frames >= LABELS) {
        sim->error = 2;
        return 0;
    }
    if (room_for(sim, sim->labels + UINT64_C(1))) {
        sim->error = 1;
        return 0;
    }
    *frame = cs_scramble(&sim->small, LABELS - 1 - sim->other_frames++);
    return sim->labels++;
}

uint32_t cs_label_slow(struct cachesim *sim, uint64_t number)
{
    uint32_t frame = 0, *place = place_of(sim, number);
    if (!place)
        sim->error = 1;
    uint32_t label = place ? assign(sim, number, &frame) : 0;
    if (!label)
        return 1; /* the counts are void from here on, and totals say so */
    move_to_place(sim, number, &frame);
    *place = label;
    uint32_t line = frame << sim->page_line_bits;
    sim->frames[label] = (struct cs_frame){line, cs_set(&sim->level[sim->levels - 1], line)};
    sim->numbers[label] = number;
    set_owner(sim, label, number);
    sim->pages_touched++;
    return label;
}

static int add_array(struct cachesim *sim, uint64_t start, uint64_t bytes, uint32_t huge_pages)
{
    if (!bytes || start + bytes < start)
        return -1;
    if (sim->array_count == sim->array_room) {
        uint32_t room = sim->array_room ? 2 * sim->array_room : 16;
        struct cs_array *arrays = realloc(sim->arrays, room * sizeof *arrays);
        if (!arrays)
            return -1;
        sim->arrays = arrays;
        struct cachesim_traffic *traffic = realloc(sim->traffic, (CS_FIRST_ARRAY + room) * sizeof *traffic);
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
    /* Small frames for all pages, also those in huge ones: what is before and behind keeps simple numbers. */
    if (array.page_count + sim->labels > LABELS || array.page_count + sim->array_frames + sim->other_frames > LABELS ||
        huge_pages_in_array + sim->huge_frames > (uint64_t)HUGE_FRAMES << 9)
        return -1;
    array.label = sim->labels;
    array.frame = sim->array_frames;
    array.huge_frame = sim->huge_frames;
    if (room_for(sim, sim->labels + array.page_count))
        return -1;
    sim->labels += (uint32_t)array.page_count;
    sim->array_frames += (uint32_t)array.page_count;
    sim->huge_frames += (uint32_t)huge_pages_in_array;
    sim->arrays[sim->array_count] = array;
    sim->traffic[CS_FIRST_ARRAY + sim->array_count] = (struct cachesim_traffic){0};
    sim->array_count++;
    for (uint64_t i = 0; i < array.page_count; i++) { /* pages touched before keep their frame */
        uint32_t label = cs_label_seen(sim, array.first_page + i);
        if (label)
            set_owner(sim, label, array.first_page + i);
    }
    return (int)sim->array_count - 1;
}

int cachesim_add_array(struct cachesim *sim, uint64_t start, uint64_t bytes, uint32_t huge_pages)
{
    int id = -1;
    for (; sim; sim = sim->next) {
        cs_serve(sim); /* lines may change their owner */
        id = add_array(sim, start, bytes, huge_pages);
        if (id < 0) /* parts are alike, but memory may be short */
            return -1;
    }
    return id;
}

uint64_t cs_pages_touched(const struct cachesim *first)
{
    uint64_t touched = first->pages_touched;
    for (const struct cachesim *sim = first->next; sim; sim = sim->next)
        for (uint32_t label = 1; label < sim->labels; label++) {
            if (!sim->frames[label].line || !sim->numbers[label])
                continue;
            const struct cachesim *before = first;
            while (before != sim && !cs_label_seen(before, sim->numbers[label]))
                before = before->next;
            touched += before == sim;
        }
    return touched;
}

/* A frame number as far as lines have room for it: what is above is folded in. Not 0. */
static uint32_t folded(const struct cachesim *sim, uint64_t frame)
{
    uint32_t bits = 31 - sim->page_line_bits;
    while (frame >> bits)
        frame = (frame & ((UINT64_C(1) << bits) - 1)) ^ frame >> bits;
    return frame ? (uint32_t)frame : 1;
}

static int place(struct cachesim *sim, uint64_t start, uint64_t bytes, const uint64_t *frames)
{
    struct cs_placed **last = &sim->placed, placed = {0};
    uint32_t shift = frames ? CS_PAGE_BITS : 21;
    if (start + bytes < start)
        return -1;
    placed.first = (start + (UINT64_C(1) << shift) - 1) >> shift << (shift - CS_PAGE_BITS);
    placed.end = (frames ? start + bytes + (1u << CS_PAGE_BITS) - 1 : start + bytes) >> shift << (shift - CS_PAGE_BITS);
    if (placed.end <= placed.first)
        return 0;
    uint64_t pages = placed.end - placed.first;
    if (pages > LABELS || (!frames && pages + sim->huge_frames > (uint64_t)HUGE_FRAMES << 9))
        return -1;
    while (*last)
        last = &(*last)->next;
    *last = malloc(sizeof **last);
    if (!*last)
        return -1;
    if (frames) {
        placed.frames = malloc(pages * sizeof *placed.frames);
        if (!placed.frames) {
            free(*last);
            *last = NULL;
            return -1;
        }
        for (uint64_t i = 0; i < pages; i++)
            placed.frames[i] = frames[i] ? folded(sim, frames[i]) : 0;
    } else {
        placed.huge_frame = sim->huge_frames;
        sim->huge_frames += (uint32_t)pages;
    }
    **last = placed;
    return 0;
}

int cachesim_place(struct cachesim *sim, uint64_t start, uint64_t bytes, const uint64_t *frames)
{
    int failed = 0;
    for (; sim; sim = sim->next)
        failed |= place(sim, start, bytes, frames);
    return failed;
}

void cs_pages_reset(struct cachesim *sim)
{
    for (uint32_t label = 1; label < sim->labels; label++) {
        struct cs_page *page = &sim->pages[label];
        if (!sim->frames[label].line)
            continue;
        for (size_t i = cs_chunk(sim, label, 0); i < cs_chunk(sim, label + 1, 0); i++) {
            sim->lines[i].touched = 0;
            sim->lines[i].state &= ~CS_HAPPENED;
        }
        for (uint32_t core = 1; core < sim->cores && (page->loaded | page->stored); core++)
            if (cs_asked_by(page, core))
                memset(sim->of_core[core].lines + cs_chunk(sim, label, 0), 0, cs_chunk(sim, 1, 0) * sizeof *sim->lines);
        page->written = page->loaded = page->stored = 0;
    }
    memset(sim->traffic, 0, (CS_FIRST_ARRAY + sim->array_count) * sizeof *sim->traffic);
}

static uint64_t ones(uint64_t bits)
{
    return (uint64_t)__builtin_popcountll(bits);
}

/* Adds the bytes that the cores touched of a line that the program loaded, stored to or both, and the rest of it for each. */
static void add_touched(const struct cachesim *sim, size_t place, uint32_t times, struct cachesim_traffic *traffic)
{
    for (size_t chunk = place; chunk < place + (1u << (sim->line_bits - 6)); chunk++) {
        uint64_t touched = 0;
        for (uint32_t core = 0; core < sim->cores; core++)
            touched |= sim->of_core[core].lines[chunk].touched;
        traffic->touched_bytes += ones(touched);
        traffic->unused_bytes += times * (64 - ones(touched));
    }
}

/* The lines of a page that are an array's (or CS_NO_ARRAY's, CS_TABLES's; CS_ALL: all). */
static uint64_t lines_of(const struct cachesim *sim, uint32_t label, int32_t array)
{
    uint32_t owner = (uint32_t)(array - CS_TABLES);
    if (array == CS_ALL || sim->pages[label].owner == owner)
        return UINT64_MAX;
    uint64_t lines = 0;
    for (uint32_t i = 0; sim->pages[label].owner == CS_SEVERAL && i < 1u << sim->page_line_bits; i++)
        if (!cs_foreign(sim, i))
            lines |= (uint64_t)(cs_line_of(sim, label << sim->page_line_bits | i)->state >> CS_OWNER_BITS == owner) << i;
    return lines;
}

/* Adds a page's distinct lines to the traffic of an array. */
static void add_distinct(const struct cachesim *sim, uint32_t label, int32_t array, struct cachesim_traffic *traffic)
{
    const struct cs_page *page = &sim->pages[label];
    uint64_t lines = lines_of(sim, label, array);
    traffic->unique_write_lines += ones(page->written & lines);
    traffic->loaded_lines += ones(page->loaded & lines);
    traffic->stored_lines += ones(page->stored & lines);
    if (sim->prefetch)
        traffic->prefetched_unused_lines += ones(sim->prefetch->waiting[label] & lines);
    for (uint32_t i = 0; lines && i < 1u << sim->page_line_bits; i++) {
        if (!(lines >> i & 1) || cs_foreign(sim, i))
            continue;
        size_t place = cs_place(sim, label << sim->page_line_bits | i);
        uint32_t state = sim->lines[place].state;
        traffic->unique_read_lines += !!(state & CS_READ);
        traffic->unique_write_allocate_lines += !!(state & CS_READ_FOR_STORE);
        uint32_t times = (page->loaded >> i & 1) + (page->stored >> i & 1);
        if (times)
            add_touched(sim, place, times, traffic);
    }
}

void cs_distinct(const struct cachesim *sim, int32_t array, struct cachesim_traffic *traffic)
{
    for (uint32_t label = 1; label < sim->labels; label++)
        if (sim->frames[label].line)
            add_distinct(sim, label, array, traffic);
}
