/* Original code that changes: what was translated from it must not run any more.

   - Pages that code was translated from and that the program may write are made read-only. The first write faults: the page
     becomes writable again, and its translations are stale. So are those of ranges that a system call maps, unmaps or
     protects otherwise.
   - Where that is no way - shared pages, which may be written elsewhere; stacks; pages that their own code writes, or that
     are written again and again - blocks are checked: they compare their original with what they were made from, first thing.

   The first bytes of a stale block become a jump to its gate, which leads to whatever is the translation of the same
   original address now. So nobody has to be told. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define MAX_CODE (400u * 15u) /* of a block */
#define PATIENCE 32           /* as often a page is made read-only again after a write */

struct page {
    uint64_t number;
    uint32_t first;    /* link to a block, from 1 */
    uint16_t faults;
    uint8_t watched;   /* it is read-only for our sake */
    uint8_t checked;   /* it is not, and its blocks are checked */
    uint8_t access;    /* as the program has it, as far as we know */
    uint8_t anonymous; /* not of a file */
    uint32_t snapshot; /* of the mappings, when it ceased to be watched: that one may show it as read-only */
};

static struct page *pages; /* a hash table; access 0 is a free entry */
static uint64_t page_room, page_count;
static struct { uint32_t block, next; } *links;
static uint32_t link_count, link_room;
static struct block *stale_blocks; /* those the translator has not been told of */
static volatile uint32_t code_lock;

/* Held for short moments only, and never where this thread can fault on the program's memory. Faults are handled under it. */
void instrument_lock_code(void) {
    for (uint32_t tries = 1; __atomic_exchange_n(&code_lock, 1, __ATOMIC_ACQUIRE); tries++) {
        if (tries % 1024 == 0 && instrument_in_child()) return; /* whoever held it did not come along */
        sched_yield();
    }
}

void instrument_unlock_code(void) { __atomic_store_n(&code_lock, 0, __ATOMIC_RELEASE); }

/* ---- pages and their blocks ---- */

static struct page *slot_of(struct page *table, uint64_t room, uint64_t number) {
    uint64_t i = number * 0x9e3779b97f4a7c15ull >> 32;
    for (;; i++) {
        struct page *p = &table[i & (room - 1)];
        if (!p->access || p->number == number) return p;
    }
}

static struct page *find_page(uint64_t number) {
    struct page *p = page_room ? slot_of(pages, page_room, number) : NULL;
    return p && p->access ? p : NULL;
}

static struct page *make_page(uint64_t number) {
    if (page_count * 2 >= page_room) {
        uint64_t room = page_room ? page_room * 2 : 1024;
        struct page *more = calloc(room, sizeof *more);
        if (!more) return NULL;
        for (uint64_t i = 0; i < page_room; i++)
            if (pages[i].access) *slot_of(more, room, pages[i].number) = pages[i];
        free(pages);
        pages = more;
        page_room = room;
    }
    struct page *p = slot_of(pages, page_room, number);
    if (!p->access) {
        *p = (struct page){.number = number};
        page_count++;
    }
    return p;
}

static uint64_t first_page(const struct block *b) { return b->info.guest / PAGE; }
static uint64_t last_page(const struct block *b) { return (b->info.guest + b->info.guest_bytes - 1) / PAGE; }

static int add_link(struct page *p, uint32_t block) {
    if (link_count == link_room) {
        uint32_t room = link_room ? 2 * link_room : 4096;
        void *more = realloc(links, room * sizeof *links);
        if (!more) return -1;
        links = more;
        link_room = room;
    }
    links[link_count].block = block;
    links[link_count].next = p->first;
    p->first = ++link_count;
    return 0;
}

/* Whether nothing can have changed unseen since the block's code was read. */
static int is_guarded(const struct block *b) {
    for (uint64_t number = first_page(b); number <= last_page(b); number++) {
        const struct page *p = find_page(number);
        if (!p) return 0;
        if (p->checked ? !b->info.checked : !p->watched && (p->access & PROT_WRITE)) return 0;
    }
    return 1;
}

static void make_stale(struct block *b) {
    if (b->stale) return;
    b->stale = 1;
    b->head = *(uint64_t *)b->info.host;
    instrument_detach(b);
    if (b->listed) return;
    b->listed = 1;
    b->next_stale = stale_blocks;
    stale_blocks = b;
}

void instrument_make_stale(uint32_t number) {
    instrument_lock_code();
    make_stale(instrument_block_at(number));
    instrument_unlock_code();
}

static void make_page_stale(const struct page *p) {
    for (uint32_t i = p->first; i; i = links[i - 1].next) make_stale(instrument_block_at(links[i - 1].block));
}

/* Let the program write a page again. */
static void unwatch(struct page *p) {
    if (!p->watched) return;
    mprotect((void *)(p->number * PAGE), PAGE, p->access);
    p->watched = 0;
    p->snapshot = instrument_pages_snapshot();
}

/* A new block, its code in place. Its page may have been written since it was read. */
int instrument_guard(struct block *b) {
    int status = 0;
    instrument_lock_code();
    if (b->info.guest_bytes) {
        for (uint64_t number = first_page(b); number <= last_page(b) && !status; number++) {
            struct page *p = find_page(number);
            status = p ? add_link(p, b->number) : -1;
        }
        if (!status && !is_guarded(b)) make_stale(b);
    }
    instrument_unlock_code();
    return status;
}

/* ---- what the translator asks ---- */

static int on_a_stack(uint64_t address) {
    for (struct state *s = instrument_all_states(); s; s = s->next)
        if (address >= s->thread_stack_low && address < s->thread_stack_high) return 1;
    return 0;
}

/* Code at an address is about to be translated: bit 0 of the result says that its block is to be checked, bit 1 that the code
   may have changed until now, so that it has to be read again, bit 2 that the program may write it. -2: no memory. */
int instrument_watch(uint64_t guest, uint64_t bytes) {
    int result = 0;
    for (uint64_t number = guest / PAGE; number <= (guest + bytes - 1) / PAGE && result >= 0; number++) {
        uint32_t access = instrument_access_of(number * PAGE);
        instrument_lock_code();
        struct page *p = access || find_page(number) ? make_page(number) : NULL;
        if (p && !p->watched && access) {
            if (p->access && p->snapshot == instrument_pages_snapshot()) access |= p->access;
            p->access = access & (PROT_READ | PROT_WRITE | PROT_EXEC);
            p->anonymous = (access & ACCESS_ANONYMOUS) != 0;
            if (access & ACCESS_SHARED) p->checked = 1;
            if ((p->access & PROT_WRITE) && !p->checked) {
                if (on_a_stack(number * PAGE) || mprotect((void *)(number * PAGE), PAGE, p->access & ~PROT_WRITE)) {
                    p->checked = 1;
                } else {
                    p->watched = 1;
                    result |= 2;
                }
            }
        }
        if (p && p->checked) result |= 1;
        if (p && (p->access & PROT_WRITE)) result |= 4;
        if (access && !p) result = -2;
        instrument_unlock_code();
    }
    return result;
}

static int is_unchanged(const struct block *b) {
    uint8_t now[MAX_CODE];
    return b->info.guest_bytes <= MAX_CODE && instrument_read(b->info.guest, now, b->info.guest_bytes) == b->info.guest_bytes &&
           !memcmp(now, b->code, b->info.guest_bytes);
}

/* If what a stale block was made from is there again, have it run again; whether it does. */
int instrument_revive(uint32_t number) {
    struct block *b = instrument_block_at(number);
    int unchanged = is_unchanged(b); /* and whoever writes from now on is noticed */
    instrument_lock_code();
    if (b->stale && unchanged && is_guarded(b)) {
        instrument_store_head(b->info.host, b->head);
        b->stale = 0;
    }
    int alive = !b->stale;
    instrument_unlock_code();
    return alive;
}

/* Take the numbers of blocks that became stale. */
uint64_t instrument_take_stale(uint32_t *out, uint64_t room) {
    uint64_t count = 0;
    instrument_lock_code();
    for (; stale_blocks && count < room; stale_blocks = stale_blocks->next_stale) {
        stale_blocks->listed = 0;
        out[count++] = stale_blocks->number;
    }
    instrument_unlock_code();
    return count;
}

/* ---- how changes are noticed ---- */

/* A write faulted: whether it was for our sake, and may be tried again. `by` is the block that wrote. */
int instrument_code_written(uint64_t address, const struct block *by, uint64_t host) {
    static __thread struct { uint64_t address, host; } retried __attribute__((tls_model("initial-exec")));
    int again = 0;
    instrument_lock_code();
    struct page *p = find_page(address / PAGE);
    if (p && p->watched) {
        unwatch(p);
        int own = by && first_page(by) <= p->number && p->number <= last_page(by);
        if (own || ++p->faults >= PATIENCE) p->checked = 1;
        make_page_stale(p);
        again = 1;
        retried.address = 0;
    } else if (p && (p->access & PROT_WRITE) && (retried.address != address || retried.host != host)) {
        again = 1; /* another thread was quicker */
        retried.address = address;
        retried.host = host;
    }
    instrument_unlock_code();
    return again;
}

/* A range is about to be written or mapped otherwise, or just was. `gone`: it will hold something else altogether. */
void instrument_range_changes(uint64_t start, uint64_t bytes, int gone) {
    uint64_t first = start / PAGE, last = (start + bytes - 1) / PAGE;
    if (!bytes || start + bytes < start) return;
    instrument_lock_code();
    int few = last - first < page_room;
    for (uint64_t i = few ? first : 0; few ? i <= last : i < page_room; i++) {
        struct page *p = few ? find_page(i) : &pages[i];
        if (!p || !p->access || p->number < first || p->number > last) continue;
        unwatch(p);
        make_page_stale(p);
        if (gone) p->checked = p->faults = 0;
    }
    instrument_unlock_code();
}

/* Native code may have changed something. Compare the pages of some kind with what was translated from them. */
static void compare_pages(int anonymous_only) {
    uint8_t now[PAGE];
    uint64_t count = 0, *numbers;
    instrument_lock_code();
    numbers = malloc(page_count * sizeof *numbers + 1);
    for (uint64_t i = 0; numbers && i < page_room; i++)
        if (pages[i].access && (!anonymous_only || pages[i].anonymous)) numbers[count++] = pages[i].number;
    instrument_unlock_code();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t start = numbers[i] * PAGE, have = instrument_read(start, now, PAGE);
        uint32_t access = instrument_access_of(start);
        instrument_lock_code();
        struct page *p = find_page(numbers[i]);
        if (p->watched && (access & PROT_WRITE)) { /* it is another page now */
            p->watched = 0;
            make_page_stale(p);
        }
        for (uint32_t at = p->first; at; at = links[at - 1].next) {
            struct block *b = instrument_block_at(links[at - 1].block);
            uint64_t from = b->info.guest > start ? b->info.guest : start, to = b->info.guest + b->info.guest_bytes;
            if (to > start + PAGE) to = start + PAGE;
            if (!b->stale && (!(access & PROT_EXEC) || to - start > have ||
                              memcmp(now + (from - start), b->code + (from - b->info.guest), to - from)))
                make_stale(b);
        }
        instrument_unlock_code();
    }
    free(numbers);
}

static uint64_t unloads;

static int count_unloads(struct dl_phdr_info *info, size_t size, void *to) {
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) *(uint64_t *)to = info->dlpi_subs;
    return 1;
}

uint64_t instrument_unloads(void) { return unloads; }

/* Look for what native code changed: always whether libraries were unloaded, and, if `all`, at code of no file too. */
void instrument_look_for_changes(int all) {
    uint64_t now = unloads;
    dl_iterate_phdr(count_unloads, &now);
    int unloaded = now != unloads;
    unloads = now;
    if (unloaded || all) instrument_pages_changed();
    if (unloaded) compare_pages(0);
    else if (all) compare_pages(1);
}

/* All look-ups, and what pages were like; what was translated is no longer reached. */
void instrument_forget(void) {
    instrument_lock_code();
    for (uint64_t i = 0; i < page_room; i++) pages[i].checked = pages[i].faults = 0;
    for (uint64_t i = instrument_block_total(); i-- > 0;) {
        struct block *b = instrument_block_at(i);
        if (b->info.guest_bytes) make_stale(b);
    }
    instrument_unlock_code();
}

void instrument_changes_start(void) {
    instrument_pages_changed(); /* what was read when an engine watched them */
    dl_iterate_phdr(count_unloads, &unloads);
}

void instrument_free_pages(void) {
    for (uint64_t i = 0; i < page_room; i++)
        if (pages[i].access) unwatch(&pages[i]);
    free(pages);
    free(links);
    pages = NULL;
    links = NULL;
    page_room = page_count = link_count = link_room = 0;
    stale_blocks = NULL;
}

#endif
