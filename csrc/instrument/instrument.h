/* Runtime of the binary translator: per-thread state, dispatch, record buffers and their consumer.
   Declarations alone. Functions that can fail return 0 or one of the codes below, negative. */

/* -1 this processor or system cannot run the engine, -2 out of memory, -3 already started, -4 not started,
   -5 a limit of the engine was reached, -6 the call met code that cannot be translated (see the fault), -7 the translator failed,
   -8 a thread that was taken over cannot be let go, -9 the program sets its thread pointer, -10 code cannot be read,
   -11 memory cannot be both written and executed, -12 no thread for a consumer. */

struct cachesim;
struct run_frame;
struct run_range;

/* One memory access of a block: address = value(base) + (value(index) << scale) + delta; slot 0 means "none". */
struct instrument_access {
    int64_t delta;
    uint32_t bytes;       /* size of the access; for vectors of elements the size of one element */
    uint8_t kind;         /* a cachesim kind */
    uint8_t form;         /* 0 plain, 1 masked, 2 compress or expand, 3 gather or scatter, 4 repeated string,
                             5 bit string: the bit that slot `vector` tells, in units of `index_bytes`,
                             6 the whole line of `bytes` bytes, 7 table: only the index's lowest byte counts */
    uint8_t base, index;  /* slots of the record */
    uint8_t scale;        /* log2; string: number of the pointer's register */
    uint8_t lanes;        /* masked, gather: number of elements; string: number of streams side by side */
    uint8_t mask;         /* slot of the opmask, or of the vector mask's first word; 0: all lanes */
    uint8_t vector;       /* gather: slot of the index vector's first word; string: slot of the pointer afterwards */
    uint8_t index_bytes;  /* gather: 4 or 8; bit string: 2, 4 or 8 */
    uint8_t mask_bytes;   /* 0: mask is an opmask; else the element size of a vector mask */
    uint8_t address32;    /* the sum is cut to 32 bits */
    uint8_t broadcast;    /* masked: number of elements in memory, if the lanes repeat them; each is read for any lane */
    uint8_t segment;      /* the sum is relative to 1 FS, 2 GS */
    uint16_t position;    /* of its instruction in the block */
};

/* Lanes that count only where an opmask is set. */
struct instrument_lanes {
    uint8_t mask;         /* slot */
    uint8_t lanes;
    uint16_t position;
};

struct instrument_block {
    uint64_t guest;       /* address of the original code */
    uint64_t host;        /* address of the translated code */
    uint32_t host_bytes;
    uint32_t slots;       /* words of one record, block number included; 0: counted by a counter */
    uint32_t accesses;
    uint32_t lane_groups;
    uint32_t loop;        /* 1: one record stands for all iterations of a loop */
    uint32_t counter_bits;   /* loop: width of the counting register */
    int64_t counter_step;    /* loop: what one iteration adds to it */
    uint32_t counter_start, counter_end;   /* loop: slots */
    uint32_t instructions;
    uint32_t closed;         /* 1: the last instruction leaves the block; its record is complete before that */
    uint32_t places, borrowed, changes, loop_registers;
    uint32_t first_access; /* number of its first access among all blocks', from 1 */
    uint32_t unsupported; /* 1: a trap in the place of code that cannot be translated */
    uint32_t guest_bytes; /* of the original code */
    uint32_t checked;     /* 1: it begins with a comparison of that with what it was translated from */
};

/* Where the translation of an instruction begins: offsets from `host` and `guest` of its block. In host order; one more
   than there are instructions if the last one traps behind itself. */
struct instrument_place { uint32_t host, guest; };

/* Between two offsets from `host` (the second is outside) a register holds something of the engine's, and the program's
   value waits at an offset from the GS base. */
struct instrument_borrowed { uint32_t start, end, reg, offset; };

/* Loop: a register with a start slot, and the end slot behind it; and what the instruction at a place adds to one:
   constant + coefficient[0] * register term[0] + ..., where those do not change in the loop. */
struct instrument_loop_register { uint8_t reg, slot; };
struct instrument_change {
    int64_t constant;
    int32_t coefficient[2];
    uint8_t term[2];
    uint8_t reg;
    uint8_t narrow;       /* the sum is cut to 32 bits */
    uint32_t place;
};

/* How often a thread left a block before the instruction at a place, so that only those before it ran. */
struct instrument_partial { uint32_t thread, block, place, unused; uint64_t times; };

/* Where the engine met something it cannot do. */
struct instrument_fault {
    uint64_t host;        /* the trap, if it was code that cannot be translated */
    uint64_t guest;       /* the original address */
    int32_t status;
};

/* Offsets from the GS base that translated code uses. */
struct instrument_layout {
    uint32_t buffer, target, dispatch, spill, scratch, counters, counter_limit, native_call, system_call, hook, source, changed, after_native,
        program_gs, set_gs;
};

int instrument_supported(void);
uint32_t instrument_xsave_size(void);   /* bytes of the states that the system has enabled */
void instrument_offsets(struct instrument_layout *layout);
int instrument_start(uint64_t (*translate)(uint64_t), struct cachesim *model);
int instrument_stop(void);
uint64_t instrument_map(uint64_t near, uint64_t bytes);
/* Copies up to `bytes` bytes of this process's executable memory; returns how many there were. */
uint64_t instrument_read_code(uint64_t address, uint8_t *out, uint64_t bytes);
void instrument_write(uint64_t address, const uint8_t *code, uint64_t bytes);
void instrument_patch(uint64_t site, int32_t relative);
/* `places` are pairs, as in `struct instrument_place`. */
int64_t instrument_add_block(const struct instrument_block *block, const struct instrument_access *accesses,
                             const struct instrument_lanes *lanes, const uint32_t *places,
                             const struct instrument_borrowed *borrowed, const struct instrument_change *changes,
                             const struct instrument_loop_register *loop_registers, const uint8_t *code);
void instrument_publish(uint32_t block);
/* Code that changes; see changes.c. */
int instrument_watch(uint64_t guest, uint64_t bytes);
int instrument_revive(uint32_t block);
uint64_t instrument_take_stale(uint32_t *out, uint64_t room);
uint64_t instrument_unloads(void);
void instrument_forget(void);
uint64_t instrument_entry(uint64_t function);
int instrument_call(uint64_t function, const struct run_frame *frame, uint64_t *result, double *float_result,
                    struct instrument_fault *fault);
/* The status with which a thread was left to go on natively since the last reset, 0 if none was: one whose caller cannot be
   told. Fills `fault`. */
int instrument_gave_up(struct instrument_fault *fault);
uint32_t instrument_consumer_thread(uint32_t number); /* 0: there are not so many */
int instrument_stop_thread(uint32_t thread, uint64_t *frames, uint32_t room, uint64_t *stack);
int instrument_decide(uint32_t take);
int instrument_drain(void);
void instrument_reset(void);
/* Threads are numbered in order of appearance. */
uint32_t instrument_threads(void);
uint32_t instrument_threads_lost(void); /* made by system calls of their own, since the last reset: they run natively */
uint32_t instrument_inside(uint32_t thread);   /* its number to the kernel, if it is in translated code; else 0 */
int64_t instrument_block_counts(uint32_t thread, uint64_t *out, uint64_t blocks);
uint64_t instrument_lane_count(uint32_t thread, uint32_t block, uint32_t group);
/* Copies the partial runs of blocks; returns how many there are, -5 if there were more than can be kept. */
int64_t instrument_partials(struct instrument_partial *out, uint64_t room);
uint64_t instrument_accesses_seen(void);
void instrument_attribute(uint32_t on);   /* tell the model the number of each access; off when the engine starts */

/* How far from each other the successive addresses of an access are, since the last reset. */
struct instrument_stride {
    int64_t stride;
    uint64_t weight;      /* how often it was seen; what is not sampled is not in it */
    int32_t array;        /* number of the range the addresses are in; -1 for none */
    uint32_t unused;
};
struct instrument_strides {
    uint64_t last;        /* the last address looked at, with those of the same block's other accesses */
    uint64_t other;       /* weight of strides that did not come again */
    int32_t array;        /* of the last address */
    uint32_t bytes, kind, form, lanes, position;   /* as in struct instrument_access */
    struct instrument_stride stride[6];
};
/* From now on strides are looked at, in these arrays; until the engine stops. -5 if there are too many. */
int instrument_watch_strides(const struct run_range *arrays, uint32_t count);
/* Copies those of a block's accesses; returns how many it has, 0 if none was looked at. */
uint32_t instrument_block_strides(uint32_t block, struct instrument_strides *out, uint32_t room);

/* For tests: without a model, write every access to `out`, in the order a model would see. To be called when everything is
   drained; NULL ends it. */
struct instrument_touch { uint64_t address; uint32_t bytes, kind; };
void instrument_trace(struct instrument_touch *out, uint64_t room);
uint64_t instrument_traced(void);   /* accesses since then; beyond `room` they are counted only */
/* For tests: how many accesses, or parts of them, the model was told of together with others since the engine began. */
uint64_t instrument_accesses_merged(void);
/* For tests: accesses of blocks that are added from now on are cut at lines without vectors. */
void instrument_cut_plainly(uint32_t on);
