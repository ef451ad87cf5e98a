/* Start, stop, translation look-up, the call of a translated function, and faults. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "run/run.h"

struct block *instrument_segments[BLOCK_SEGMENTS];
static uint64_t block_total, lane_group_total;
#define WILD 1 /* what the translator returns for an address without code */
static uint64_t (*translate)(uint64_t);
static int started;

void instrument_reset_accesses(void);

/* ---- code regions ---- */

#define REGIONS 64
static struct { uint64_t start, end; } regions[REGIONS];
static unsigned region_count;

int instrument_in_code_cache(uint64_t address) {
    for (unsigned i = 0; i < region_count; i++)
        if (address >= regions[i].start && address < regions[i].end) return 1;
    return 0;
}

/* Map executable memory within 2 GiB of `near`, below it if possible; 0 if there is no room. */
uint64_t instrument_map(uint64_t near, uint64_t bytes) {
    if (region_count == REGIONS) return 0;
    for (uint64_t distance = 1u << 24; distance < 0x70000000u; distance += 1u << 24)
        for (int above = 0; above < 2; above++) {
            uint64_t wanted = (above ? near + distance : near - distance) & ~0xfffull;
            if (!above && near < distance) continue;
            void *p = mmap((void *)wanted, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
            if (p == MAP_FAILED) continue;
            if ((uint64_t)p != wanted) { /* a kernel before 4.17 takes the flag for a hint */
                munmap(p, bytes);
                continue;
            }
            regions[region_count].start = wanted;
            regions[region_count].end = wanted + bytes;
            __atomic_add_fetch(&region_count, 1, __ATOMIC_RELEASE);
            return wanted;
        }
    return 0;
}

void instrument_write(uint64_t address, const uint8_t *code, uint64_t bytes) { memcpy((void *)address, code, bytes); }

/* Set the displacement of a jump. The translator keeps it 4-byte aligned, so other threads see the old or the new one
   (Intel SDM volume 3, section 8.1.1: aligned doublewords are written atomically). */
void instrument_patch(uint64_t site, int32_t relative) {
    __atomic_store_n((int32_t *)site, relative, __ATOMIC_RELEASE);
}

/* ---- blocks ---- */

int64_t instrument_add_block(const struct instrument_block *info, const struct instrument_access *accesses,
                             const struct instrument_lanes *lanes, const struct instrument_place *places,
                             const struct instrument_borrowed *borrowed, const struct instrument_change *changes,
                             const struct instrument_loop_register *loop_registers) {
    uint64_t id = block_total;
    if (id >= STATE_COUNTER_LIMIT || id >= (uint64_t)BLOCK_SEGMENT * BLOCK_SEGMENTS) return -5;
    if (!instrument_segments[id / BLOCK_SEGMENT]) {
        instrument_segments[id / BLOCK_SEGMENT] = calloc(BLOCK_SEGMENT, sizeof(struct block));
        if (!instrument_segments[id / BLOCK_SEGMENT]) return -2;
    }
    struct block *b = instrument_block_at(id);
    b->info = *info;
    b->accesses = malloc(info->accesses * sizeof *accesses + 1);
    b->lanes = malloc(info->lane_groups * sizeof *lanes + 1);
    b->first_lane_group = (uint32_t)lane_group_total;
    if (lane_group_total + info->lane_groups > LANE_LIMIT) return -5;
    lane_group_total += info->lane_groups;
    b->places = malloc(info->places * sizeof *places + 1);
    b->borrowed = malloc(info->borrowed * sizeof *borrowed + 1);
    b->changes = malloc(info->changes * sizeof *changes + 1);
    b->loop_registers = malloc(info->loop_registers * sizeof *loop_registers + 1);
    if (!b->accesses || !b->lanes || !b->places || !b->borrowed || !b->changes || !b->loop_registers) return -2;
    b->number = (uint32_t)id;
    memcpy(b->changes, changes, info->changes * sizeof *changes);
    memcpy(b->loop_registers, loop_registers, info->loop_registers * sizeof *loop_registers);
    memcpy(b->places, places, info->places * sizeof *places);
    memcpy(b->borrowed, borrowed, info->borrowed * sizeof *borrowed);
    memcpy(b->accesses, accesses, info->accesses * sizeof *accesses);
    memcpy(b->lanes, lanes, info->lane_groups * sizeof *lanes);
    int plain = !info->loop && !info->lane_groups;
    for (uint32_t i = 0; i < info->accesses; i++) plain &= !accesses[i].form && !accesses[i].address32 && !accesses[i].segment;
    if (plain) {
        b->plain = malloc(info->accesses * sizeof *b->plain + 1);
        if (!b->plain) return -2;
        for (uint32_t i = 0; i < info->accesses; i++)
            b->plain[i] = (struct instrument_plain){accesses[i].delta, accesses[i].bytes,
                                                    accesses[i].base,  accesses[i].index,
                                                    accesses[i].scale, accesses[i].kind};
    }
    __atomic_store_n(&block_total, id + 1, __ATOMIC_RELEASE);
    return (int64_t)id;
}

static struct state *state_of(uint32_t thread) {
    struct state *s = instrument_all_states();
    while (s && s->number != thread) s = s->next;
    return s;
}

uint32_t instrument_inside(uint32_t thread) {
    struct state *s = state_of(thread);
    return s && s->in_use && (s->taken || s->entry_top != s->entry_bottom) ? s->thread : 0;
}

uint32_t instrument_threads(void) { return instrument_all_states() ? instrument_all_states()->number + 1 : 0; }

int64_t instrument_block_counts(uint32_t thread, uint64_t *out, uint64_t blocks) {
    struct state *s = state_of(thread);
    if (!s || blocks > block_total) return -5;
    const uint64_t *counters = (const uint64_t *)((char *)s + STATE_COUNTERS);
    for (uint64_t i = 0; i < blocks; i++) out[i] = counters[i] + s->recorded[i];
    return (int64_t)blocks;
}

uint64_t instrument_lane_count(uint32_t thread, uint32_t block, uint32_t group) {
    struct state *s = state_of(thread);
    return s ? s->lanes[instrument_block_at(block)->first_lane_group + group] : 0;
}

/* Zero all counts; call when nothing runs and everything is drained. */
void instrument_reset(void) {
    for (struct state *s = instrument_all_states(); s; s = s->next) {
        memset((char *)s + STATE_COUNTERS, 0, block_total * 8);
        memset(s->recorded, 0, block_total * sizeof *s->recorded);
        memset(s->lanes, 0, lane_group_total * sizeof *s->lanes);
    }
    instrument_reset_accesses();
    instrument_reset_partials();
}

struct block *instrument_block_of(uint64_t host) {
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *b = instrument_block_at(i);
        if (host >= b->info.host && host < b->info.host + b->info.host_bytes) return b;
    }
    return NULL;
}

/* ---- from original to translated address ---- */

static struct { uint64_t guest, host; } *map;
static uint64_t map_size, map_used;
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t map_slot(uint64_t guest) {
    uint64_t i = (guest * 0x9e3779b97f4a7c15ull) >> 20;
    for (;; i++) {
        i &= map_size - 1;
        if (!map[i].guest || map[i].guest == guest) return i;
    }
}

static uint64_t map_find(uint64_t guest) {
    pthread_mutex_lock(&map_lock);
    uint64_t host = map ? map[map_slot(guest)].host : 0;
    pthread_mutex_unlock(&map_lock);
    return host;
}

int instrument_publish(uint64_t guest, uint64_t host) {
    pthread_mutex_lock(&map_lock);
    if (map_used * 2 >= map_size) {
        uint64_t old_size = map_size;
        __typeof__(map) old = map;
        map_size = map_size ? map_size * 2 : 8192;
        map = calloc(map_size, sizeof *map);
        for (uint64_t i = 0; map && i < old_size; i++)
            if (old[i].guest) map[map_slot(old[i].guest)] = old[i];
        free(old);
    }
    if (map) {
        uint64_t i = map_slot(guest);
        if (!map[i].guest) map_used++;
        map[i].guest = guest;
        map[i].host = host;
    }
    pthread_mutex_unlock(&map_lock);
    return map ? 0 : -2;
}

void instrument_forget(void) {
    pthread_mutex_lock(&map_lock);
    memset(map, 0, map_size * sizeof *map);
    map_used = 0;
    pthread_mutex_unlock(&map_lock);
    for (struct state *s = instrument_all_states(); s; s = s->next) {
        uint64_t *keys = (uint64_t *)((char *)s + STATE_KEYS);
        memset(keys, 0, 65536 * sizeof *keys);
        keys[0] = 1;
    }
}

void instrument_escape(struct state *s, int status) {
    s->escape_status = status;
    if (s->escape) siglongjmp(*s->escape, 1);
    static const char text[] = "counteroof: the engine met something it cannot run, on a thread it was not called on\n";
    if (write(2, text, sizeof text - 1) < 0) abort();
    abort(); /* there is nothing to return to */
}

/* The target is nowhere. Leave the fault to the processor, so that it is reported as it would be without us: jump there.
   An address that is not canonical faults in the jump itself (Intel SDM volume 2, JMP), so that is done again natively. */
static void resolve_wild(struct state *s, struct saved_registers *r) {
    uint64_t target = s->target, top = target >> 47;
    if (top && top != 0x1ffff && s->source < block_total) {
        const struct block *b = instrument_block_at(s->source);
        uint64_t start = b->info.guest + b->places[b->info.places - 1].guest;
        uint8_t code[15];
        uint64_t bytes = instrument_read_code(start, code, sizeof code), at = 0;
        while (at < bytes && ((code[at] & 0xf0) == 0x40 || code[at] == 0xf2 || code[at] == 0xf3 || code[at] == 0x3e)) at++;
        if (at + 3 > bytes) return;
        if (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2) r->rsp += 8; /* what call pushed */
        if (code[at] == 0xc3) r->rsp -= 8;
        if (code[at] == 0xc2) r->rsp -= 8 + (code[at + 1] | (uint64_t)code[at + 2] << 8);
        target = start;
    }
    s->wild = s->jump = target;
}

/* Find or make the translation of state->target. dispatch.c calls this with everything saved. */
void instrument_resolve_target(struct state *s, struct saved_registers *registers) {
    uint64_t target = s->target, host;
    /* A thread that was taken over ends natively: the allocator then takes locks that translation needs too. The call of
       the thread's function may stand in the C library twice, for the two kinds of functions. */
    int ends = s->taken && target - instrument_thread_return + 64 < 128;
    if (ends || (s->letting_go && s->taken && !instrument_in_code_cache(target) && target != (uint64_t)instrument_leave)) {
        s->jump = target;
        __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
        return;
    }
    if (!s->thread_stack_high) instrument_find_stack(s);
    if (instrument_in_code_cache(target) || target == (uint64_t)instrument_leave) {
        host = target; /* a return into ourselves */
    } else {
        host = map_find(target);
        if (!host) {
            /* Python watches its stack: give it the thread's own where the program is on it, and there is room. */
            uint64_t below = (s->program_stack - 256) & ~63ull;
            if (below > s->thread_stack_low + (1u << 18) && below < s->thread_stack_high)
                host = instrument_call_on(translate, target, below);
            else
                host = translate(target);
        }
        if (!host) instrument_escape(s, -7);
        if (host == WILD) {
            resolve_wild(s, registers);
            return;
        }
    }
    uint64_t slot = target & 0xffff;
    ((uint64_t *)((char *)s + STATE_HOSTS))[slot] = host;
    ((uint64_t *)((char *)s + STATE_KEYS))[slot] = 0 - target;
    s->jump = host;
}

/* ---- between translated code and C ---- */

static uint64_t block_signals(void) {
    uint64_t all = ~FAULT_SIGNAL_MASK, old = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, 8);
    return old;
}

/* C begins to work for translated code. A handler of the program would run translated too, and must not come in between;
   that costs two system calls, so only where there are any. */
void instrument_begin(struct state *s) {
    if (!instrument_has_handlers) return;
    s->mask = block_signals() & ~s->deferred;
    s->deferred = 0;
    s->masked = 1;
}

/* ... and is done: the next stop is state->jump, which stands for an original address, or (0) for native code. */
void instrument_end(struct state *s, uint64_t safe_guest) {
    if (s->masked) {
        s->after = s->jump;
        s->safe_guest = safe_guest;
        s->jump = (uint64_t)instrument_safe_point;
        s->masked = 0;
    }
}

__attribute__((visibility("hidden"))) void instrument_resolve(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    struct state *s = instrument_this_thread();
    instrument_begin(s);
    instrument_resolve_target(s, registers);
    instrument_end(s, s->target);
    errno = kept;
}

/* Native code calls a translated function: put the way back in place of the return address. */
__attribute__((visibility("hidden"))) void instrument_entering(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    int masked = instrument_has_handlers;
    uint64_t mask = masked ? block_signals() : 0; /* before the state is made, which takes locks */
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
    if (s->entry_top - s->entry_bottom == SHADOW_DEPTH) instrument_escape(s, -5);
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

/* ---- start, call, stop ---- */

int instrument_supported(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) != 0;
}

uint32_t instrument_xsave_size(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(13, 0, &a, &b, &c, &d) ? b : 0;
}

void instrument_offsets(struct instrument_layout *layout) {
    layout->buffer = STATE_BUFFER;
    layout->target = STATE_TARGET;
    layout->dispatch = STATE_DISPATCH;
    layout->spill = STATE_SPILL;
    layout->scratch = STATE_SCRATCH;
    layout->counters = STATE_COUNTERS;
    layout->counter_limit = STATE_COUNTER_LIMIT;
    layout->native_call = STATE_NATIVE;
    layout->system_call = STATE_SYSCALL;
    layout->hook = STATE_HOOK;
    layout->source = STATE_SOURCE;
}

int instrument_start(uint64_t (*translator)(uint64_t), struct cachesim *model) {
    unsigned a, b, c, d;
    if (started) return -3;
    if (!instrument_supported() || !__get_cpuid_count(13, 0, &a, &b, &c, &d)) return -1;
    instrument_xsave_bytes = (c + 63) & ~63u; /* CPUID leaf 13, ECX: bytes for all states the processor has */
    translate = translator;
    if (instrument_consumer_start(model)) return -2;
    instrument_signals_start();
    started = 1;
    return 0;
}

int instrument_stop(void) {
    if (!started) return -4;
    if (instrument_let_go()) return -8;
    instrument_consumer_stop();
    instrument_signals_stop();
    instrument_free_states();
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *block = instrument_block_at(i);
        free(block->accesses);
        free(block->lanes);
        free(block->places);
        free(block->plain);
        free(block->borrowed);
        free(block->changes);
        free(block->loop_registers);
    }
    for (unsigned i = 0; i < BLOCK_SEGMENTS; i++) {
        free(instrument_segments[i]);
        instrument_segments[i] = NULL;
    }
    block_total = lane_group_total = 0;
    free(map);
    map = NULL;
    map_size = map_used = 0;
    for (unsigned i = 0; i < region_count; i++) munmap((void *)regions[i].start, regions[i].end - regions[i].start);
    region_count = 0;
    free(entries);
    entries = NULL;
    entry_count = entry_room = thunks = thunks_end = 0;
    started = 0;
    return 0;
}

/* Call a function translated; status -6 fills `fault`. */
int instrument_call(uint64_t function, const struct run_frame *frame, uint64_t *result, double *float_result,
                    struct instrument_fault *fault) {
    if (!started) return -4;
    struct state *s = instrument_thread_state();
    if (!s) return -2;
    sigjmp_buf here;
    sigjmp_buf *outer = s->escape;
    struct shadow_frame *entries_before = s->entry_top, *natives_before = s->native_top;
    uint64_t stack_before = s->stack;
    s->escape = &here;
    s->fault = fault;
    s->escape_status = 0;
    uint64_t entry = instrument_entry(function);
    if (!entry) s->escape_status = -2;
    else if (!sigsetjmp(here, 1)) *result = run_call(entry, frame, float_result);
    else s->busy = s->masked = 0, s->stack = stack_before;
    s->entry_top = entries_before;
    s->native_top = natives_before;
    s->escape = outer;
    return s->escape_status;
}

/* Wait until everything recorded so far has been consumed. */
int instrument_drain(void) {
    if (!started) return -4;
    for (struct state *s = instrument_all_states(); s; s = s->next) instrument_submit_of(s);
    instrument_wait_idle();
    return 0;
}

#endif
