/* The per-thread state that translated code reaches through the GS base. Offsets are fixed: the assembly of
   dispatch.c and the translator use them as numbers. */
#ifndef COUNTEROOF_INSTRUMENT_STATE_H
#define COUNTEROOF_INSTRUMENT_STATE_H

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_SELF 0
#define STATE_BUFFER 8
#define STATE_TARGET 16
#define STATE_JUMP 24
#define STATE_DISPATCH 32
#define STATE_D0 40
#define STATE_D1 48
#define STATE_D2 56
#define STATE_SPILL 64      /* 16 words, one a register */
#define STATE_SCRATCH 192   /* 8 words */
#define STATE_NATIVE 256    /* top of the stack of return addresses taken away for native calls */
#define STATE_STACK 264     /* where C that is called from translated code has its stack */
#define STATE_PROGRAM_STACK 272
#define STATE_SYSCALL 280   /* address of the system call routine */
#define STATE_HOOK 288      /* address of the routine before a native call that may call back */
#define STATE_SOURCE 296    /* number of the block that last jumped to TARGET; 4 bytes */
#define STATE_AFTER 304     /* where the safe point goes on */
#define STATE_MASK 312      /* the program's signal mask, while signals are blocked for the engine's sake */
#define STATE_SAVED 320     /* 7 words: registers at the safe point */
#define STATE_BUSY 376      /* 4 bytes: C works for translated code, the engine's stack and locks are in use */
#define STATE_LOCK 380      /* 4 bytes: held while another thread hands over our records */
#define STATE_OUTSIDE 384   /* 4 bytes: in a system call, with nothing half recorded: others may do so */
#define STATE_CHANGED 392   /* address of the routine for a block whose original is another now */
#define STATE_AFTER_NATIVE 400 /* address of the routine after a native function that may have changed the process */
#define STATE_PROGRAM_GS 408 /* the program's own GS base */
#define STATE_SET_GS 416    /* address of the routine that sets it */
#define STATE_NATIVE_RETURN 424
#define STATE_KEYS 0x2000
#define STATE_HOSTS (STATE_KEYS + 65536 * 8)
#define STATE_COUNTERS (STATE_HOSTS + 65536 * 8)
#define STATE_COUNTER_LIMIT (1u << 20)
#define LANE_LIMIT (1u << 18)
#define STATE_BYTES (STATE_COUNTERS + (uint64_t)STATE_COUNTER_LIMIT * 8)

#define CHUNK_SLOTS 32768u  /* 256 KiB: half of a small L2, so that the record is still near when it is consumed */
#define CHUNK_GUARD 65536u
#define CHUNKS 8
#define SHADOW_DEPTH 4096
#define STACK_BYTES (1u << 20)

struct shadow_frame { uint64_t stack, address; };

struct chunk {
    uint64_t *start, *end;
    struct state *owner;
    volatile uint32_t full;
    uint32_t partial;        /* 0: whole records; else one record of a block that was left before its place partial - 1 */
};

struct state {
    struct state *self;
    uint64_t *buffer;
    uint64_t target, jump, dispatch, d0, d1, d2;
    uint64_t spill[16];
    uint64_t scratch[8];
    struct shadow_frame *native_top;
    uint64_t stack, program_stack, syscall, hook;
    uint32_t source, unused;
    uint64_t after, mask, saved[7];
    uint32_t busy, lock, outside, unused_too;
    uint64_t changed, after_native, previous_gs, set_gs, native_return;
    /* below here only C looks */
    uint32_t masked;         /* all signals are blocked while C works */
    uint32_t stepping;       /* the trap flag is set until the program's state is one it could have by itself */
    uint64_t deferred;       /* signals that were blocked to come again later, as a mask */
    uint64_t step_mask;      /* the program's signal mask, while stepping */
    uint64_t safe_guest;     /* the original address that the safe point stands for; 0: it returns to native code */
    stack_t program_stack_of_signals, previous_stack_of_signals;
    struct chunk chunks[CHUNKS];
    uint32_t current;
    uint64_t fs_base;
    uint32_t own_gs;         /* the program has set its GS base: it expects it in native code too */
    struct shadow_frame *native_bottom;
    struct shadow_frame *entry_top, *entry_bottom;
    sigjmp_buf *escape;
    struct instrument_fault *fault;
    uint64_t wild; /* an original address that was jumped to natively, for the fault that comes of it */
    int escape_status;
    struct state *next;
    uint32_t number;         /* of the thread, in order of appearance; a slot is used again when its thread has ended */
    uint32_t in_use;
    uint64_t *recorded;      /* per block: executions that records told of; the consumer's */
    uint64_t *lanes;         /* per group of masked lanes: active lanes; the consumer's */
    void *signal_stack, *stack_bottom;
    uint32_t thread;         /* its number to the kernel */
    volatile uint32_t taken; /* it was there before the engine, and taken over */
    volatile uint32_t leave, letting_go; /* it is asked to go on natively; it does at the next occasion */
    uint64_t thread_stack_low, thread_stack_high;
};
_Static_assert(sizeof(struct state) <= STATE_KEYS, "the state outgrew its page");
_Static_assert(offsetof(struct state, source) == STATE_SOURCE, "the offsets are wrong");
_Static_assert(offsetof(struct state, outside) == STATE_OUTSIDE, "the offsets are wrong");
_Static_assert(offsetof(struct state, native_return) == STATE_NATIVE_RETURN, "the offsets are wrong");

#endif
