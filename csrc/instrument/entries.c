/* Native code calls translated functions, and is called by them. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Native code calls a translated function: put the way back in place of the return address. */
__attribute__((visibility("hidden"))) void instrument_entering(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    int masked = instrument_has_handlers;
    uint64_t mask = masked ? instrument_block_signals() : 0; /* before the state is made, which takes locks */
    struct state *s = instrument_thread_state();
    if (!s) abort();
    s->busy = 1;
    if (masked) {
        s->mask = mask & ~s->deferred;
        s->deferred = 0;
        s->masked = 1;
    }
    uint64_t *return_address = (uint64_t *)(registers + 1) + 16; /* above the red zone */
    if (s->entry_top - s->entry_bottom == SHADOW_DEPTH) /* frames that a longjmp left behind lie below the present stack */
        while (s->entry_top > s->entry_bottom && s->entry_top[-1].stack <= (uint64_t)return_address) s->entry_top--;
    if (s->entry_top - s->entry_bottom == SHADOW_DEPTH) {
        instrument_give_up(s, -5, 0, registers->r11);
        instrument_end(s, 0);
        s->busy = 0;
        errno = kept;
        return;
    }
    s->entry_top->stack = (uint64_t)return_address;
    s->entry_top->address = *return_address;
    s->entry_top++;
    *return_address = (uint64_t)instrument_leave;
    s->program_stack = 0; /* we are on it */
    s->source = ~0u;
    s->target = registers->r11;
    instrument_resolve_target(s, registers);
    instrument_end(s, s->target);
    s->busy = 0;
    errno = kept;
}

__attribute__((visibility("hidden"))) void instrument_leaving(struct saved_registers *registers) {
    struct state *s = instrument_this_thread();
    int kept = errno; /* the program's */
    instrument_begin(s);
    /* Frames that a longjmp left behind lie above ours. A signal's handler may have a stack of its own, so only the very
       address tells ours; after `ret n` it is the first one below. */
    uint64_t stack = registers->rsp - 8;
    struct shadow_frame *frame = s->entry_top;
    while (frame > s->entry_bottom && frame[-1].stack != stack) frame--;
    if (frame == s->entry_bottom) {
        frame = s->entry_top;
        while (frame > s->entry_bottom + 1 && frame[-2].stack <= stack) frame--;
    }
    s->entry_top = frame - 1;
    s->jump = s->entry_top->address;
    if (s->own_gs && s->entry_top == s->entry_bottom) {
        s->native_return = s->jump;
        s->jump = (uint64_t)instrument_leave_with_gs;
    }
    /* What other threads do next may depend on what this one did: let the consumer see it in that order. */
    instrument_submit(s, s->buffer);
    instrument_end(s, 0);
    errno = kept;
}

/* ---- calls of native functions that call back ---- */

static uint64_t thunks, thunks_end;
static struct { uint64_t guest, thunk; } *entries;
static uint64_t entry_count, entry_room;
static pthread_mutex_t entry_lock = PTHREAD_MUTEX_INITIALIZER;

/* An address that native code can call in place of an original function, to have it run translated; 0 if there is no
   memory for it. */
uint64_t instrument_entry(uint64_t guest) {
    uint64_t found = 0;
    pthread_mutex_lock(&entry_lock);
    for (uint64_t i = 0; i < entry_count && !found; i++)
        if (entries[i].guest == guest) found = entries[i].thunk;
    if (!found) {
        if (entry_count == entry_room) {
            uint64_t room = entry_room ? 2 * entry_room : 256;
            void *more = realloc(entries, room * sizeof *entries);
            if (more) {
                entries = more;
                entry_room = room;
            }
        }
        if (thunks + 32 > thunks_end) {
            thunks = instrument_map((uint64_t)instrument_enter, 1u << 16);
            thunks_end = thunks ? thunks + (1u << 16) : 0;
        }
        if (thunks && entry_count < entry_room) {
            /* mov r11, guest; jmp [rip + 0]; address. A function's entry leaves r11 free (psABI, section 3.2.1). */
            uint8_t code[24] = {0x49, 0xbb, [10] = 0xff, 0x25};
            uint64_t to = (uint64_t)instrument_enter;
            memcpy(code + 2, &guest, 8);
            memcpy(code + 16, &to, 8);
            memcpy((void *)thunks, code, sizeof code);
            found = thunks;
            thunks += 32;
            entries[entry_count].guest = guest;
            entries[entry_count++].thunk = found;
        }
    }
    pthread_mutex_unlock(&entry_lock);
    return found;
}

/* Whether code lies at an address, by /proc/self/maps; remembered by page, since arguments repeat. */
static int executable(uint64_t address) {
    static struct { uint64_t page; int yes; } known[1024];
    static uint32_t seen;
    uint32_t generation = instrument_pages_generation();
    if (seen != generation) memset(known, 0, sizeof known);
    seen = generation;
    uint64_t page = address >> 12;
    if (!page || address >> 47) return 0;
    __typeof__(*known) *k = &known[page % 1024];
    if (k->page == page) return k->yes;
    int yes = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && address >= start && address < end) {
            yes = mode[2] == 'x';
            break;
        }
    }
    fclose(maps);
    k->yes = yes;
    k->page = page;
    return yes;
}

/* Called by dispatch.c at the entry of a function of a thread runtime. Arguments that point to code are functions that it
   will call: they become entries, so that they run translated, on whatever thread. */
__attribute__((visibility("hidden"))) void instrument_hooked(struct saved_registers *r) {
    uint64_t *arguments[] = {&r->rdi, &r->rsi, &r->rdx, &r->rcx, &r->r8, &r->r9};
    struct state *s = instrument_this_thread();
    int kept = errno; /* the program's */
    instrument_begin(s);
    /* frames of native functions that an exception or longjmp left lie below the present stack */
    while (s->native_top > s->native_bottom && s->native_top[-1].stack <= r->rsp + 8) s->native_top--;
    s->jump = *(uint64_t *)r->rsp;
    r->rsp += 8;
    instrument_submit(s, s->buffer); /* other threads see what this one did so far */
    for (unsigned i = 0; i < 6; i++) {
        if (!executable(*arguments[i]) || instrument_in_code_cache(*arguments[i])) continue;
        uint64_t entry = instrument_entry(*arguments[i]);
        if (entry) *arguments[i] = entry;
    }
    instrument_end(s, 0);
    errno = kept;
}

void instrument_free_entries(void) {
    free(entries);
    entries = NULL;
    entry_count = entry_room = thunks = thunks_end = 0;
}

#endif
