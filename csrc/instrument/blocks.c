/* Translated blocks: the memory their code is in, what is known of each, and how often each ran. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct block *instrument_segments[BLOCK_SEGMENTS];
static uint64_t block_total, lane_group_total;

uint64_t instrument_block_total(void) { return block_total; }

/* ---- code regions ---- */

#define REGIONS 64
#define GATE_BYTES 64u
#define GATES 16384u /* of a region for translated blocks, behind them */
static struct { uint64_t start, gates, end; uint32_t gate_count; } regions[REGIONS];
static unsigned region_count;

int instrument_in_code_cache(uint64_t address) {
    for (unsigned i = 0; i < region_count; i++)
        if (address >= regions[i].start && address < regions[i].end) return 1;
    return 0;
}

/* Map executable memory within 2 GiB of `near`, below it if possible; 0 if there is no room. */
uint64_t instrument_map(uint64_t near, uint64_t room) {
    uint64_t bytes = room + (room >> 20 ? GATES * GATE_BYTES : 0);
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
            regions[region_count].gates = wanted + room;
            regions[region_count].gate_count = 0;
            regions[region_count].end = wanted + bytes;
            __atomic_add_fetch(&region_count, 1, __ATOMIC_RELEASE);
            return wanted;
        }
    return 0;
}

void instrument_write(uint64_t address, const uint8_t *code, uint64_t bytes) { memcpy((void *)address, code, bytes); }

/* ---- gates ---- */

/* Change 8 aligned bytes where no instruction begins but at the first; other threads see the old or the new ones. */
void instrument_store_head(uint64_t at, uint64_t code) { __atomic_store_n((uint64_t *)at, code, __ATOMIC_RELEASE); }

/* Let the instruction at an aligned address, of 5 bytes or more, become a jump. */
void instrument_store_jump(uint64_t at, uint64_t to) {
    uint64_t code = *(uint64_t *)at & ~0xffffffffffull;
    instrument_store_head(at, code | 0xe9 | ((to - at - 5) & 0xffffffff) << 8);
}

#define GATE_STUB 16 /* behind the jump that a gate begins with: it jumps here while there is no translation */

/* A jump to the translation of an original address, made in reach of `host`; 0 if there is no room. */
uint64_t instrument_make_gate(uint64_t guest, uint64_t host) {
    unsigned i = 0;
    while (i < region_count && (host < regions[i].start || host >= regions[i].end)) i++;
    if (i == region_count || regions[i].gates + (uint64_t)(regions[i].gate_count + 1) * GATE_BYTES > regions[i].end) return 0;
    uint64_t gate = regions[i].gates + (uint64_t)regions[i].gate_count++ * GATE_BYTES;
    /* mov dword gs:[TARGET], low; mov dword gs:[TARGET + 4], high; jmp gs:[DISPATCH] */
    uint8_t code[] = {0x65, 0xc7, 4, 0x25, STATE_TARGET, 0, 0, 0, 0, 0, 0, 0, 0x65, 0xc7, 4, 0x25, STATE_TARGET + 4,
                      0,    0,    0, 0,    0,            0, 0, 0x65, 0xff, 0x24, 0x25, STATE_DISPATCH, 0, 0, 0};
    memcpy(code + 8, &guest, 4);
    memcpy(code + 20, (char *)&guest + 4, 4);
    memcpy((void *)(gate + GATE_STUB), code, sizeof code);
    instrument_close_gate(gate);
    return gate;
}

void instrument_close_gate(uint64_t gate) { instrument_store_jump(gate, gate + GATE_STUB); }

/* Where a system call is made that returns in a child too, which may share all memory with us: only in registers and code is
   it told apart. The child goes on natively. */
#define CLONE_STUBS 256u
static struct { uint64_t stub, target; } clone_stubs[CLONE_STUBS];
static unsigned clone_stub_count;

/* The stub for a system call before `target`; 0 if there is no room. */
uint64_t instrument_clone_stub(uint64_t target) {
    uint64_t found = 0;
    instrument_lock_code();
    for (unsigned i = 0; i < clone_stub_count && !found; i++)
        if (clone_stubs[i].target == target) found = clone_stubs[i].stub;
    for (unsigned i = 0; i < region_count && !found && clone_stub_count < CLONE_STUBS; i++) {
        uint64_t place = regions[i].gates + (uint64_t)regions[i].gate_count * GATE_BYTES, after = (uint64_t)instrument_after_syscall;
        if (place + GATE_BYTES > regions[i].end) continue;
        regions[i].gate_count++;
        /* syscall; mov rcx, rax; jrcxz 1f; jmp [rip + 24]; 1: mov rcx, target; jmp [rip + 8]; after; target */
        uint8_t code[] = {0x0f, 0x05, 0x48, 0x89, 0xc1, 0xe3, 6, 0xff, 0x25, 24, 0, 0, 0, 0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0,
                          0xff, 0x25, 16, 0, 0, 0};
        _Static_assert(sizeof code == 29, "the distances are wrong");
        memcpy(code + 15, &target, 8);
        memcpy((void *)place, code, sizeof code);
        memcpy((void *)(place + 37), &after, 8);
        memcpy((void *)(place + 45), &target, 8);
        clone_stubs[clone_stub_count].stub = found = place;
        clone_stubs[clone_stub_count++].target = target;
    }
    instrument_unlock_code();
    return found;
}

/* Whether `host` is in such a stub; `begun`: the system call has been made. */
int instrument_is_clone_stub(uint64_t host, int *begun) {
    for (unsigned i = 0; i < clone_stub_count; i++) {
        *begun = host != clone_stubs[i].stub;
        if (host - clone_stubs[i].stub < GATE_BYTES) return 1;
    }
    return 0;
}

/* The original address that a gate is for; 0 if `host` is in none. */
uint64_t instrument_gate_guest(uint64_t host) {
    for (unsigned i = 0; i < region_count; i++) {
        uint64_t offset = host - regions[i].gates;
        if (offset >= (uint64_t)regions[i].gate_count * GATE_BYTES) continue;
        uint64_t stub = host - offset % GATE_BYTES + GATE_STUB, guest;
        memcpy(&guest, (void *)(stub + 8), 4);
        memcpy((char *)&guest + 4, (void *)(stub + 20), 4);
        return guest;
    }
    return 0;
}

/* Set the displacement of a jump. The translator keeps it 4-byte aligned, so other threads see the old or the new one
   (Intel SDM volume 3, section 8.1.1: aligned doublewords are written atomically). */
void instrument_patch(uint64_t site, int32_t relative) {
    __atomic_store_n((int32_t *)site, relative, __ATOMIC_RELEASE);
}

/* ---- blocks ---- */

int64_t instrument_add_block(const struct instrument_block *info, const struct instrument_access *accesses,
                             const struct instrument_lanes *lanes, const uint32_t *places,
                             const struct instrument_borrowed *borrowed, const struct instrument_change *changes,
                             const struct instrument_loop_register *loop_registers, const uint8_t *code) {
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
    b->places = malloc(info->places * sizeof *b->places + 1);
    b->borrowed = malloc(info->borrowed * sizeof *borrowed + 1);
    b->changes = malloc(info->changes * sizeof *changes + 1);
    b->loop_registers = malloc(info->loop_registers * sizeof *loop_registers + 1);
    b->code = malloc(info->guest_bytes + 1);
    if (!b->accesses || !b->lanes || !b->places || !b->borrowed || !b->changes || !b->loop_registers || !b->code) return -2;
    b->number = (uint32_t)id;
    memcpy(b->code, code, info->guest_bytes);
    memcpy(b->changes, changes, info->changes * sizeof *changes);
    memcpy(b->loop_registers, loop_registers, info->loop_registers * sizeof *loop_registers);
    memcpy(b->places, places, info->places * sizeof *b->places);
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
        if (instrument_cuts(b)) return -2;
    }
    __atomic_store_n(&block_total, id + 1, __ATOMIC_RELEASE);
    if (instrument_reserve(b) || instrument_guard(b)) return -2;
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
    instrument_reset_strides();
    instrument_forget_threads();
    instrument_forget_gave_up();
}

struct block *instrument_block_of(uint64_t host) {
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *b = instrument_block_at(i);
        if (host >= b->info.host && host < b->info.host + b->info.host_bytes) return b;
    }
    return NULL;
}

void instrument_free_blocks(void) {
    instrument_free_strides();
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *block = instrument_block_at(i);
        free(block->accesses);
        free(block->lanes);
        free(block->places);
        free(block->plain);
        free(block->octets);
        for (unsigned k = 0; k < INSTRUMENT_CONSUMERS; k++) free(block->merged[k]);
        free(block->borrowed);
        free(block->changes);
        free(block->loop_registers);
        free(block->code);
    }
    for (unsigned i = 0; i < BLOCK_SEGMENTS; i++) {
        free(instrument_segments[i]);
        instrument_segments[i] = NULL;
    }
    block_total = lane_group_total = 0;
    for (unsigned i = 0; i < region_count; i++) munmap((void *)regions[i].start, regions[i].end - regions[i].start);
    region_count = clone_stub_count = 0;
}

#endif
