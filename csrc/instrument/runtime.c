/* Start, stop, translation look-up, the call of a translated function, and faults. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <cpuid.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "run/run.h"

struct block *instrument_segments[BLOCK_SEGMENTS];
static uint64_t block_total;
static uint64_t (*translate)(uint64_t);
static int started;

void instrument_reset_accesses(void);

/* ---- code regions ---- */

#define REGIONS 64
static struct { uint64_t start, end; } regions[REGIONS];
static unsigned region_count;

static int in_code_cache(uint64_t address) {
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

/* Copy up to `bytes` bytes of this process's memory; returns how many could be read. */
uint64_t instrument_read(uint64_t address, uint8_t *out, uint64_t bytes) {
    uint64_t done = 0;
    while (done < bytes) {
        uint64_t piece = 4096 - (address + done) % 4096;
        if (piece > bytes - done) piece = bytes - done;
        struct iovec to = {out + done, piece}, from = {(void *)(address + done), piece};
        ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (got <= 0) break;
        done += (uint64_t)got;
    }
    return done;
}

void instrument_write(uint64_t address, const uint8_t *code, uint64_t bytes) { memcpy((void *)address, code, bytes); }

/* Set the displacement of a jump. The translator keeps it 4-byte aligned, so other threads see the old or the new one
   (Intel SDM volume 3, section 8.1.1: aligned doublewords are written atomically). */
void instrument_patch(uint64_t site, int32_t relative) {
    __atomic_store_n((int32_t *)site, relative, __ATOMIC_RELEASE);
}

/* ---- blocks ---- */

int64_t instrument_add_block(const struct instrument_block *info, const struct instrument_access *accesses,
                             const struct instrument_lanes *lanes) {
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
    b->lane_counts = calloc(info->lane_groups + 1, sizeof *b->lane_counts);
    if (!b->accesses || !b->lanes || !b->lane_counts) return -2;
    memcpy(b->accesses, accesses, info->accesses * sizeof *accesses);
    memcpy(b->lanes, lanes, info->lane_groups * sizeof *lanes);
    __atomic_store_n(&block_total, id + 1, __ATOMIC_RELEASE);
    return (int64_t)id;
}

int64_t instrument_block_counts(uint64_t *out, uint64_t blocks) {
    if (blocks > block_total) return -5;
    for (uint64_t i = 0; i < blocks; i++) out[i] = instrument_block_at(i)->count;
    for (struct state *s = instrument_all_states(); s; s = s->next) {
        const uint64_t *counters = (const uint64_t *)((char *)s + STATE_COUNTERS);
        for (uint64_t i = 0; i < blocks; i++) out[i] += counters[i];
    }
    return (int64_t)blocks;
}

uint64_t instrument_lane_count(uint32_t block, uint32_t group) { return instrument_block_at(block)->lane_counts[group]; }

/* Zero all counts; call when nothing runs and everything is drained. */
void instrument_reset(void) {
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *b = instrument_block_at(i);
        b->count = 0;
        memset(b->lane_counts, 0, b->info.lane_groups * sizeof *b->lane_counts);
    }
    for (struct state *s = instrument_all_states(); s; s = s->next)
        memset((char *)s + STATE_COUNTERS, 0, block_total * 8);
    instrument_reset_accesses();
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

static void escape(struct state *s, int status) {
    s->escape_status = status;
    if (s->escape) siglongjmp(*s->escape, 1);
    abort(); /* no call of ours is on this thread: nothing to return to */
}

/* Called by dispatch.c with everything saved: find or make the translation of state->target. */
__attribute__((visibility("hidden"))) void instrument_resolve(struct saved_registers *registers) {
    (void)registers;
    struct state *s = instrument_this_thread();
    uint64_t target = s->target, host;
    if (in_code_cache(target) || target == (uint64_t)instrument_leave) {
        host = target; /* a return into ourselves */
    } else {
        host = map_find(target);
        if (!host) host = translate(target);
        if (!host) escape(s, -7);
    }
    uint64_t slot = target & 0xffff;
    ((uint64_t *)((char *)s + STATE_HOSTS))[slot] = host;
    ((uint64_t *)((char *)s + STATE_KEYS))[slot] = 0 - target;
    s->jump = host;
}

/* Native code calls a translated function: put the way back in place of the return address. */
__attribute__((visibility("hidden"))) void instrument_entering(struct saved_registers *registers) {
    struct state *s = instrument_thread_state();
    if (!s) abort();
    /* frames that a longjmp left behind lie below the present stack */
    while (s->entry_top > s->entry_bottom && s->entry_top[-1].stack <= (uint64_t)registers->stack) s->entry_top--;
    if (s->entry_top - s->entry_bottom == SHADOW_DEPTH) escape(s, -5);
    s->entry_top->stack = (uint64_t)registers->stack;
    s->entry_top->address = registers->stack[0];
    s->entry_top++;
    registers->stack[0] = (uint64_t)instrument_leave;
    s->jump = registers->r11;
}

__attribute__((visibility("hidden"))) void instrument_leaving(struct saved_registers *registers) {
    struct state *s = instrument_this_thread();
    uint64_t stack = (uint64_t)registers->stack - 8; /* where the return address stood; a `ret n` pops more */
    while (s->entry_top > s->entry_bottom + 1 && s->entry_top[-1].stack < stack) {
        if (s->entry_top[-2].stack > stack) break;
        s->entry_top--;
    }
    s->entry_top--;
    s->jump = s->entry_top->address;
}

/* ---- faults ---- */

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
#define FAULT_SIGNALS (sizeof fault_signals / sizeof *fault_signals)
static struct sigaction previous[FAULT_SIGNALS];

static const int context_register[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                         REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* Which register addresses the record in a store the translator wrote: mov [r + disp], r or mov [r + disp], imm. */
static int record_register(const uint8_t *code) {
    int rex = code[0], rm = code[2] & 7;
    if ((rex & 0xf8) != 0x48 || (code[1] != 0x89 && code[1] != 0xc7)) return -1;
    if (rm == 4) rm = code[3] & 7;
    return rm | (rex & 1) << 3;
}

static struct block *block_of(uint64_t host, uint32_t *id) {
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *b = instrument_block_at(i);
        if (host >= b->info.host && host < b->info.host + b->info.host_bytes) {
            *id = (uint32_t)i;
            return b;
        }
    }
    return NULL;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct state *s = instrument_this_thread();
    uint64_t address = (uint64_t)info->si_addr, host = (uint64_t)registers[REG_RIP];
    if (s && number == SIGSEGV) {
        struct chunk *chunk = &s->chunks[s->current];
        uint64_t guard = (uint64_t)(chunk->start + CHUNK_SLOTS);
        if (address >= guard && address < guard + CHUNK_GUARD) {
            int which = record_register((const uint8_t *)host);
            if (which >= 0) {
                /* The chunk is full in the middle of a record: move the begun record to the next chunk and go on. */
                uint64_t *record = (uint64_t *)registers[context_register[which]];
                uint64_t begun = guard - (uint64_t)record;
                instrument_submit(s, record);
                memmove(s->buffer, record, begun);
                registers[context_register[which]] = (greg_t)(uint64_t)s->buffer;
                return;
            }
        }
    }
    if (s && s->escape) {
        struct instrument_fault *fault = s->fault;
        fault->signal = number;
        fault->code = info->si_code;
        fault->address = address;
        fault->host = host;
        for (int i = 0; i < 16; i++) fault->registers[i] = (uint64_t)registers[context_register[i]];
        fault->block_guest = 0;
        struct block *b = block_of(host, &fault->block);
        if (b) {
            fault->block_guest = b->info.guest;
            if (b->info.scratch < 16) fault->registers[b->info.scratch] = s->spill[b->info.scratch];
            if (b->info.second < 16) fault->registers[b->info.second] = s->spill[b->info.second];
        }
        escape(s, -6);
    }
    /* not ours: as if we had never been here */
    for (unsigned i = 0; i < FAULT_SIGNALS; i++)
        if (fault_signals[i] == number) {
            sigaction(number, &previous[i], NULL);
            return;
        }
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
}

int instrument_start(uint64_t (*translator)(uint64_t), struct cachesim *model) {
    unsigned a, b, c, d;
    if (started) return -3;
    if (!instrument_supported() || !__get_cpuid_count(13, 0, &a, &b, &c, &d)) return -1;
    instrument_xsave_bytes = (c + 63) & ~63u; /* CPUID leaf 13, ECX: bytes for all states the processor has */
    translate = translator;
    if (instrument_consumer_start(model)) return -2;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (unsigned i = 0; i < FAULT_SIGNALS; i++) sigaction(fault_signals[i], &action, &previous[i]);
    started = 1;
    return 0;
}

int instrument_stop(void) {
    if (!started) return -4;
    instrument_consumer_stop();
    for (unsigned i = 0; i < FAULT_SIGNALS; i++) sigaction(fault_signals[i], &previous[i], NULL);
    instrument_free_states();
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *block = instrument_block_at(i);
        free(block->accesses);
        free(block->lanes);
        free(block->lane_counts);
    }
    for (unsigned i = 0; i < BLOCK_SEGMENTS; i++) {
        free(instrument_segments[i]);
        instrument_segments[i] = NULL;
    }
    block_total = 0;
    free(map);
    map = NULL;
    map_size = map_used = 0;
    for (unsigned i = 0; i < region_count; i++) munmap((void *)regions[i].start, regions[i].end - regions[i].start);
    region_count = 0;
    started = 0;
    return 0;
}

uint64_t instrument_enter_address(void) { return (uint64_t)instrument_enter; }

/* Call a translated function through its entry; status -6 fills `fault`. */
int instrument_call(uint64_t entry, const struct run_frame *frame, uint64_t *result, double *float_result,
                    struct instrument_fault *fault) {
    if (!started) return -4;
    struct state *s = instrument_thread_state();
    if (!s) return -2;
    sigjmp_buf here;
    sigjmp_buf *outer = s->escape;
    s->escape = &here;
    s->fault = fault;
    s->escape_status = 0;
    if (!sigsetjmp(here, 1)) *result = run_call(entry, frame, float_result);
    s->escape = outer;
    return s->escape_status;
}

/* Wait until everything recorded so far has been consumed. */
int instrument_drain(void) {
    if (!started) return -4;
    for (struct state *s = instrument_all_states(); s; s = s->next) instrument_submit(s, s->buffer);
    instrument_wait_idle();
    return 0;
}

#endif
