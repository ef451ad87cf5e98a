/* What the files of the runtime share. */
#ifndef COUNTEROOF_INSTRUMENT_INTERNAL_H
#define COUNTEROOF_INSTRUMENT_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "cachesim/cachesim.h"
#include "cachesim/piece.h"
#include "instrument/instrument.h"
#include "instrument/state.h"

#define INSTRUMENT_CONSUMERS 4u

/* The order in which dispatch.c pushes. */
struct saved_registers {
    uint64_t rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, flags;
};

/* A plain access, packed for the consumer. */
struct instrument_plain {
    int64_t delta;
    uint32_t bytes;
    uint8_t base, index, scale, kind;
};

/*
 * Eight plain accesses, as vectors take them: their addresses are delta + record[base] + (record[index] << scale). The masks
 * have a bit for each that there is, that has a base, and an index.
 */
struct instrument_sums {
    int64_t delta[8];
    uint8_t base[8], index[8], scale[8], kind[8];
    uint8_t there, has_base, has_index;
};

struct instrument_octet {
    struct instrument_sums of;
    uint8_t less[8]; /* bytes - 1 */
};

/* Eight pieces, each of an access or of several, see merge.c. */
struct instrument_merged_octet {
    struct instrument_sums of;
    uint64_t bytes[8];         /* from the first one on, which is bit 0 */
    uint8_t least[8], room[8]; /* they hold while that is byte `least` of its line, or one of the next `room` */
    uint8_t more[8];           /* accesses that are merged with the first */
} __attribute__((aligned(64)));

struct block {
    struct instrument_block info;
    struct instrument_access *accesses;
    struct instrument_plain *plain; /* the same, if all are plain and nothing depends on a mask; else NULL */
    uint32_t cuts;                   /* plain, and each has 1 to 64 bytes and is no fence */
    struct instrument_octet *octets; /* the same again, if it cuts and vectors can take them; else NULL */
    struct instrument_merged *merged[INSTRUMENT_CONSUMERS]; /* each consumer's own; NULL until it looks */
    uint32_t may_merge; /* it has octets, and neighbours that may be on one line */
    struct instrument_lanes *lanes;
    uint32_t first_lane_group; /* its number among all blocks' */
    struct instrument_place *places;
    struct instrument_borrowed *borrowed;
    struct instrument_change *changes;
    struct instrument_loop_register *loop_registers;
    uint32_t number;
    uint8_t *code;           /* what it was translated from */
    uint32_t stale, listed;  /* the original is another now; the translator is still to be told */
    uint64_t head;           /* the first bytes of a stale block */
    struct block *next_stale;
    struct strides *strides; /* the consumer's; NULL until it looks */
    uint32_t loop_runs;
};

#define INSTRUMENT_MERGED 256u /* accesses; a block with more is not merged */

#define BLOCK_SEGMENT 4096u
#define BLOCK_SEGMENTS 1024u

extern struct block *instrument_segments[BLOCK_SEGMENTS];
static inline struct block *instrument_block_at(uint64_t id) {
    return &instrument_segments[id / BLOCK_SEGMENT][id % BLOCK_SEGMENT];
}

#define FENCE 6u /* a cachesim kind, that has no address */

/* cut.c: blocks that cut */
int instrument_cuts(struct block *); /* fills in what is needed; -1 if memory is short */
/*
 * What a part has of a block's accesses, if lines have 64 bytes; returns how many pieces, at most two an access. Up to 8 behind
 * them are written to.
 */
uint32_t instrument_cut(const struct block *, const uint64_t *record, const struct cachesim_dealt *, struct cachesim_piece *out);

/* merge.c: of blocks that may merge */
int instrument_may_merge(const struct block *);
void instrument_place(struct instrument_sums *, uint32_t place, const struct instrument_plain *, int64_t delta);
/*
 * The same as instrument_cut, with loads, and stores, of the line that the one before was of merged into that, and their number
 * added to `again`; -1 if that cannot be.
 */
int instrument_cut_merged(struct block *, uint32_t consumer, const uint64_t *record, const struct cachesim_dealt *,
                          struct cachesim_piece *out, uint64_t *again);

/* What a part has of one access; returns the place behind it. There has to be room for two. */
static inline struct cachesim_piece *instrument_cut_one(struct cachesim_piece *out, const struct cachesim_dealt *dealt,
                                                        uint64_t address, uint32_t bytes, uint32_t kind) {
    uint32_t first = 64 - (address & 63);
    if (__builtin_expect(first < bytes, 0)) {
        *out = cachesim_piece(address, first, kind);
        out += (address >> 6 & dealt->mask) == dealt->part;
        address += first;
        bytes -= first;
    }
    *out = cachesim_piece(address, bytes, kind);
    /* without a jump, as that cannot be foreseen; else the next is written over it */
    return out + ((address >> 6 & dealt->mask) == dealt->part);
}

/* dispatch.c */
extern uint64_t instrument_xsave_bytes;
void instrument_dispatch(void);
void instrument_dispatch_saved(void); /* in it, from here on rax, rcx and rdx are in D0 to D2 */
void instrument_enter(void);
void instrument_leave(void);
void instrument_syscall(void);
void instrument_raw_syscall(void);
void instrument_syscall_instruction(void);
void instrument_after_syscall(void);
void instrument_syscall_locked(void);
void instrument_syscall_done(void);
void instrument_before_native(void);
void instrument_changed(void);
void instrument_after_native(void);
void instrument_set_gs(void);
void instrument_leave_with_gs(void);
void instrument_safe_point(void);
void instrument_safe(void);        /* in it, from here on signals come */
void instrument_text_start(void);
void instrument_miss(void);
void instrument_text_end(void);
void instrument_restorer(void);
uint64_t instrument_call_on(uint64_t (*function)(uint64_t), uint64_t argument, uint64_t stack);

/* blocks.c */
int instrument_in_code_cache(uint64_t address);
struct block *instrument_block_of(uint64_t host);
uint64_t instrument_block_total(void);
void instrument_free_blocks(void);

void instrument_store_head(uint64_t at, uint64_t code);
void instrument_store_jump(uint64_t at, uint64_t to);
uint64_t instrument_make_gate(uint64_t guest, uint64_t host);
void instrument_close_gate(uint64_t gate);
uint64_t instrument_gate_guest(uint64_t host);
uint64_t instrument_clone_stub(uint64_t target);
int instrument_is_clone_stub(uint64_t host, int *begun);

/* changes.c */
void instrument_lock_code(void);
void instrument_unlock_code(void);
int instrument_guard(struct block *block);
void instrument_make_stale(uint32_t number);
int instrument_code_written(uint64_t address, const struct block *by, uint64_t host);
void instrument_range_changes(uint64_t start, uint64_t bytes, int gone);
void instrument_look_for_changes(int all);
void instrument_changes_start(void);
void instrument_free_pages(void);

/* lookup.c */
int instrument_reserve(const struct block *block);
void instrument_detach(const struct block *block);
void instrument_set_translator(uint64_t (*translate)(uint64_t));
void instrument_resolve_target(struct state *state, struct saved_registers *registers);
void instrument_free_map(void);

/* entries.c */
void instrument_free_entries(void);

/* runtime.c */
uint64_t instrument_block_signals(void);
void instrument_give_up(struct state *state, int status, uint64_t host, uint64_t guest);
void instrument_forget_gave_up(void);
void instrument_begin(struct state *state);
void instrument_end(struct state *state, uint64_t safe_guest);

/* interrupt.c: blocks left in the middle */
void instrument_interrupt(struct state *state, const struct block *block, long long *registers);
int instrument_at_place(const struct block *block, uint64_t host);
void instrument_reset_partials(void);
extern const int instrument_context_register[16]; /* from a register's number to its place in a signal's context */

/* signals.c */
void instrument_signals_start(void);
void instrument_signals_stop(void);
long instrument_set_action(uint64_t number, const void *new, void *old, uint64_t set_bytes);
long instrument_set_mask(struct state *state, const struct saved_registers *registers);
long instrument_set_alternate_stack(struct state *state, const struct saved_registers *registers);
extern uint32_t instrument_has_handlers; /* the program has handlers that may run at any moment */
#define FAULT_SIGNAL_MASK (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGILL - 1) | \
                           1ull << (SIGTRAP - 1))

/* pages.c: what this process has mapped */
void instrument_pages_changed(void);
uint32_t instrument_pages_generation(void);
uint32_t instrument_pages_snapshot(void);
uint32_t instrument_access_of(uint64_t address); /* PROT_ bits and these; 0 where nothing can be executed */
#define ACCESS_SHARED 0x100u
#define ACCESS_ANONYMOUS 0x200u
uint64_t instrument_read(uint64_t address, uint8_t *out, uint64_t bytes);

/* state.c: threads and their buffers */
struct state *instrument_this_thread(void);
struct state *instrument_thread_state(void);
void instrument_submit(struct state *state, uint64_t *end);
struct state *instrument_all_states(void);
void instrument_free_states(void);
void instrument_change_gs(struct state *state, uint64_t base);
void instrument_restore_gs(const struct state *state);
int instrument_in_child(void); /* whether this process is not the one that counts */
struct state *instrument_take_thread(void); /* the same in a signal handler, for a thread that waits */
uint64_t instrument_signal_stack_bytes(void);
void instrument_find_stack(struct state *state);

/* system.c */
void instrument_forget_threads(void);

/* signals.c: if translated code is just about to do an original instruction, go back to that; 0 if it is not */
int instrument_back_to_original(struct state *state, long long *registers);

/* takeover.c */
int instrument_let_go(void);
int instrument_takeover_signal(void); /* the signal it uses at present, 0 for none */
void instrument_on_signal(int number, siginfo_t *info, void *context); /* signals.c */
void instrument_outside(struct state *state, int outside);
void instrument_submit_of(struct state *state);

/* strides.c */
#define INSTRUMENT_ARRAYS 1024
struct strides;
extern uint32_t instrument_looks_at_strides;
struct strides *instrument_strides_of(struct block *block);
void instrument_step(struct strides *of, uint32_t access, uint64_t address, int64_t stride, uint64_t count);
void instrument_stride_to(struct strides *of, uint32_t access, uint64_t address, uint32_t window);
void instrument_reset_strides(void);
void instrument_free_strides(void);

/* consume.c */
int instrument_consumer_start(struct cachesim *model);
void instrument_consumer_stop(void);
void instrument_reset_accesses(void);
void instrument_enqueue(struct chunk *chunk);
void instrument_wait_idle(void);
extern uint64_t instrument_thread_return; /* where the C library goes on when a thread's function has returned */

/* Futex helpers; all are safe in a signal handler. */
void instrument_futex_wait(volatile uint32_t *word, uint32_t value);
void instrument_futex_wake(volatile uint32_t *word);

#endif
