/* The per-thread state that translated code reaches through the GS base. Offsets are fixed: the assembly of
   dispatch.c and the translator use them as numbers. */
#ifndef COUNTEROOF_INSTRUMENT_STATE_H
#define COUNTEROOF_INSTRUMENT_STATE_H

#include <setjmp.h>
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
    /* below here only C looks */
    struct chunk chunks[CHUNKS];
    uint32_t current;
    uint64_t fs_base, previous_gs;
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
    uint32_t lock, outside;  /* `outside`: in a system call, with nothing half recorded */
    struct saved_registers *saved;   /* during a system call: the program's registers */
    uint64_t thread_stack_low, thread_stack_high;
};
_Static_assert(sizeof(struct state) <= STATE_KEYS, "the state outgrew its page");
_Static_assert(offsetof(struct state, source) == STATE_SOURCE, "the offsets are wrong");

#endif
