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

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
#define FAULT_SIGNALS (sizeof fault_signals / sizeof *fault_signals)

/* struct sigaction as the system call has it. */
struct kernel_action {
    void *handler;
    uint64_t flags;
    void *restorer;
    uint64_t mask;
};
static struct kernel_action previous[FAULT_SIGNALS]; /* what the program believes to be installed */

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

void instrument_write(uint64_t address, const uint8_t *code, uint64_t bytes) { memcpy((void *)address, code, bytes); }

/* Set the displacement of a jump. The translator keeps it 4-byte aligned, so other threads see the old or the new one
   (Intel SDM volume 3, section 8.1.1: aligned doublewords are written atomically). */
void instrument_patch(uint64_t site, int32_t relative) {
    __atomic_store_n((int32_t *)site, relative, __ATOMIC_RELEASE);
}

/* ---- blocks ---- */

int64_t instrument_add_block(const struct instrument_block *info, const struct instrument_access *accesses,
                             const struct instrument_lanes *lanes, const struct instrument_place *places,
                             const struct instrument_borrowed *borrowed) {
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
    if (!b->accesses || !b->lanes || !b->places || !b->borrowed) return -2;
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

static void escape(struct state *s, int status) {
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
static void resolve(struct state *s, struct saved_registers *registers) {
    uint64_t target = s->target, host;
    /* A thread that was taken over ends natively: the allocator then takes locks that translation needs too. The call of
       the thread's function may stand in the C library twice, for the two kinds of functions. */
    int ends = s->taken && target - instrument_thread_return + 64 < 128;
    if (ends || (s->letting_go && s->taken && !in_code_cache(target) && target != (uint64_t)instrument_leave)) {
        s->jump = target;
        __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
        return;
    }
    if (!s->thread_stack_high) instrument_find_stack(s);
    if (in_code_cache(target) || target == (uint64_t)instrument_leave) {
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
        if (!host) escape(s, -7);
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

__attribute__((visibility("hidden"))) void instrument_resolve(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    resolve(instrument_this_thread(), registers);
    errno = kept;
}

/* Native code calls a translated function: put the way back in place of the return address. */
__attribute__((visibility("hidden"))) void instrument_entering(struct saved_registers *registers) {
    int kept = errno; /* the program's */
    struct state *s = instrument_thread_state();
    if (!s) abort();
    uint64_t *return_address = (uint64_t *)(registers + 1) + 16; /* above the red zone */
    /* frames that a longjmp left behind lie below the present stack */
    while (s->entry_top > s->entry_bottom && s->entry_top[-1].stack <= (uint64_t)return_address) s->entry_top--;
    if (s->entry_top - s->entry_bottom == SHADOW_DEPTH) escape(s, -5);
    s->entry_top->stack = (uint64_t)return_address;
    s->entry_top->address = *return_address;
    s->entry_top++;
    *return_address = (uint64_t)instrument_leave;
    s->program_stack = 0; /* we are on it */
    s->source = ~0u;
    s->target = registers->r11;
    resolve(s, registers);
    errno = kept;
}

__attribute__((visibility("hidden"))) void instrument_leaving(struct saved_registers *registers) {
    struct state *s = instrument_this_thread();
    uint64_t stack = registers->rsp - 8; /* where the return address stood, or above it after `ret n` */
    while (s->entry_top > s->entry_bottom + 1 && s->entry_top[-2].stack <= stack) s->entry_top--;
    s->entry_top--;
    s->jump = s->entry_top->address;
    /* What other threads do next may depend on what this one did: let the consumer see it in that order. */
    instrument_submit(s, s->buffer);
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
    instrument_submit(s, s->buffer); /* other threads see what this one did so far */
    for (unsigned i = 0; i < 6; i++) {
        if (!executable(*arguments[i]) || in_code_cache(*arguments[i])) continue;
        uint64_t entry = instrument_entry(*arguments[i]);
        if (entry) *arguments[i] = entry;
    }
    errno = kept;
}

/* ---- system calls ---- */

static int is_fault_signal(uint64_t number);
static long set_action(int number, const struct kernel_action *new, struct kernel_action *old, uint64_t set_bytes);

/* Alone in its function, so that a signal handler knows when a thread waits in it. */
__attribute__((noinline, noclone)) static long do_syscall(const struct saved_registers *r, uint64_t a1) {
    register uint64_t r10 __asm__("r10") = r->r10;
    register uint64_t r8 __asm__("r8") = r->r8;
    register uint64_t r9 __asm__("r9") = r->r9;
    long result;
    __asm__ volatile(".globl instrument_syscall_instruction\n.hidden instrument_syscall_instruction\n"
                     "instrument_syscall_instruction: syscall"
                     : "=a"(result)
                     : "a"(r->rax), "D"(r->rdi), "S"(a1), "d"(r->rdx), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* The engine lives on SIGSEGV, so handlers for the fault signals are kept aside and the signals are never blocked. */
static void make_syscall(struct saved_registers *r) {
    switch (r->rax) {
    case SYS_rt_sigaction:
        if (is_fault_signal(r->rdi)) {
            r->rax = (uint64_t)set_action((int)r->rdi, (const struct kernel_action *)r->rsi,
                                          (struct kernel_action *)r->rdx, r->r10);
            break;
        }
        r->rax = (uint64_t)do_syscall(r, r->rsi);
        break;
    case SYS_rt_sigprocmask: {
        uint64_t set;
        if (r->rsi && r->r10 == sizeof set && instrument_read(r->rsi, (uint8_t *)&set, sizeof set) == sizeof set &&
            r->rdi != SIG_UNBLOCK) {
            for (unsigned i = 0; i < FAULT_SIGNALS; i++) set &= ~(1ull << (fault_signals[i] - 1));
            r->rax = (uint64_t)do_syscall(r, (uint64_t)&set);
        } else {
            r->rax = (uint64_t)do_syscall(r, r->rsi);
        }
        break;
    }
    case SYS_mmap: case SYS_munmap: case SYS_mprotect: case SYS_mremap: case SYS_pkey_mprotect: case SYS_shmat:
    case SYS_shmdt: case SYS_remap_file_pages:
        r->rax = (uint64_t)do_syscall(r, r->rsi);
        instrument_pages_changed();
        break;
    default:
        r->rax = (uint64_t)do_syscall(r, r->rsi);
    }
}

/* Called by dispatch.c: state->target is the instruction after the system call. */
__attribute__((visibility("hidden"))) void instrument_system_call(struct saved_registers *r) {
    struct state *s = instrument_this_thread();
    switch (r->rax) {
    case SYS_clone: case SYS_clone3: case SYS_fork: case SYS_vfork: case SYS_rt_sigreturn: case SYS_execve:
    case SYS_exit: case SYS_exit_group:
        s->jump = (uint64_t)instrument_raw_syscall;
        return;
    case SYS_futex: /* what other threads do next depends on what this one did */
        instrument_submit(s, s->buffer);
    }
    s->saved = r;
    instrument_outside(s, 1);
    make_syscall(r);
    instrument_outside(s, 0);
    r->rcx = s->target;
    r->r11 = r->flags;
    resolve(s, r);
}

/* ---- faults ---- */

static const int context_register[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                         REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

static int is_fault_signal(uint64_t number) {
    for (unsigned i = 0; i < FAULT_SIGNALS; i++)
        if ((uint64_t)fault_signals[i] == number) return 1;
    return 0;
}

static struct kernel_action *action_of(int number) {
    for (unsigned i = 0; i < FAULT_SIGNALS; i++)
        if (fault_signals[i] == number) return &previous[i];
    return NULL;
}

/* rt_sigaction for a signal whose handler must stay ours: remember the program's. */
static long set_action(int number, const struct kernel_action *new, struct kernel_action *old, uint64_t set_bytes) {
    struct kernel_action *kept = action_of(number), was = *kept, wanted;
    if (set_bytes != 8) return -EINVAL;
    if (new && instrument_read((uint64_t)new, (uint8_t *)&wanted, sizeof wanted) != sizeof wanted) return -EFAULT;
    if (new) *kept = wanted;
    if (old) *old = was;
    return 0;
}

/* Which register addresses the record in a store the translator wrote: mov [r + disp], r or mov [r + disp], imm. */
static int record_register(const uint8_t *code) {
    int rex = code[0], rm = code[2] & 7;
    if ((rex & 0xf8) != 0x48 || (code[1] != 0x89 && code[1] != 0xc7)) return -1;
    if (rm == 4) rm = code[3] & 7;
    return rm | (rex & 1) << 3;
}

static struct block *block_of(uint64_t host) {
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *b = instrument_block_at(i);
        if (host >= b->info.host && host < b->info.host + b->info.host_bytes) return b;
    }
    return NULL;
}

/* Make the context that of the original program, as if it had stopped at the original instruction. */
static void to_original(struct state *s, const struct block *b, greg_t *registers) {
    uint64_t offset = (uint64_t)registers[REG_RIP] - b->info.host;
    uint32_t place = 0;
    while (place + 1 < b->info.places && b->places[place + 1].host <= offset) place++;
    for (uint32_t i = 0; i < b->info.borrowed; i++) {
        const struct instrument_borrowed *borrowed = &b->borrowed[i];
        if (offset >= borrowed->start && offset < borrowed->end)
            registers[context_register[borrowed->reg]] = *(greg_t *)((char *)s + borrowed->offset);
    }
    registers[REG_RIP] = (greg_t)(b->info.guest + (b->info.places ? b->places[place].guest : 0));
}

int instrument_back_to_original(struct state *s, greg_t *registers) {
    uint64_t host = (uint64_t)registers[REG_RIP];
    if (!in_code_cache(host)) return 0;
    const struct block *b = block_of(host);
    if (!b) return 0;
    for (uint32_t i = 0; i < b->info.places; i++)
        if (b->places[i].host == host - b->info.host) {
            to_original(s, b, registers);
            return 1;
        }
    return 0;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    greg_t *registers = user->uc_mcontext.gregs;
    struct state *s = instrument_this_thread();
    uint64_t address = (uint64_t)info->si_addr, host = (uint64_t)registers[REG_RIP];
    struct block *b = NULL;
    if (s && number == SIGSEGV) {
        struct chunk *chunk = &s->chunks[s->current];
        uint64_t guard = (uint64_t)(chunk->start + CHUNK_SLOTS);
        if (address >= guard && address < guard + CHUNK_GUARD) {
            int which = record_register((const uint8_t *)host);
            if (which >= 0) {
                /* The chunk is full in the middle of a record: move the begun record to the next chunk and go on. */
                uint64_t *record = (uint64_t *)registers[context_register[which]];
                instrument_submit(s, record);
                memmove(s->buffer, record, guard - (uint64_t)record);
                registers[context_register[which]] = (greg_t)(uint64_t)s->buffer;
                return;
            }
        }
    }
    if (s && in_code_cache(host)) b = block_of(host);
    int translated = b != NULL;
    if (s && s->wild && host == s->wild) translated = 1;
    if (b && b->info.unsupported && s->escape) {
        s->fault->block_guest = b->info.guest;
        s->fault->host = host;
        escape(s, -6);
    }
    if (b) {
        to_original(s, b, registers);
        /* A fault of the instruction itself, such as SIGILL or SIGTRAP, names the instruction's address. */
        if (address == host) info->si_addr = (void *)registers[REG_RIP];
    }
    const struct kernel_action *before = action_of(number);
    if ((uint64_t)before->handler <= 1) { /* default, or ignored, which the kernel takes for default in a fault */
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(number, &plain, NULL);
        return; /* the original instruction runs natively and ends the process in its true place */
    }
    if (before->flags & SA_SIGINFO)
        ((void (*)(int, siginfo_t *, void *))before->handler)(number, info, context);
    else
        ((void (*)(int))before->handler)(number);
    if (translated) { /* go on where the handler wants it, translated */
        s->wild = 0;
        s->target = (uint64_t)registers[REG_RIP];
        registers[REG_RIP] = (greg_t)instrument_dispatch;
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
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (unsigned i = 0; i < FAULT_SIGNALS; i++) {
        syscall(SYS_rt_sigaction, fault_signals[i], NULL, &previous[i], 8);
        sigaction(fault_signals[i], &action, NULL);
    }
    started = 1;
    return 0;
}

int instrument_stop(void) {
    if (!started) return -4;
    if (instrument_let_go()) return -8;
    instrument_consumer_stop();
    for (unsigned i = 0; i < FAULT_SIGNALS; i++) syscall(SYS_rt_sigaction, fault_signals[i], &previous[i], NULL, 8);
    instrument_free_states();
    for (uint64_t i = 0; i < block_total; i++) {
        struct block *block = instrument_block_at(i);
        free(block->accesses);
        free(block->lanes);
        free(block->places);
        free(block->plain);
        free(block->borrowed);
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
    s->escape = &here;
    s->fault = fault;
    s->escape_status = 0;
    uint64_t entry = instrument_entry(function);
    if (!entry) s->escape_status = -2;
    else if (!sigsetjmp(here, 1)) *result = run_call(entry, frame, float_result);
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
