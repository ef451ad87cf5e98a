/* Calling a function found at run time, the arrays it works on, and the record of how it died. */

/* The arguments of one call, sorted into registers and stack words. Unused slots are ignored by the callee. */
struct run_frame {
    uint64_t ints[8];       /* the first run_int_registers() are used */
    double floats[8];       /* an f32 argument sits in the low half of its slot */
    uint64_t stack[32];     /* arguments beyond the registers, in order, 8 bytes each */
    uint32_t stack_words;
    uint32_t returns_float; /* 0: an integer, a pointer or nothing; 1: f64; 2: f32 */
};

struct run_range { uint64_t start; uint64_t bytes; };

/* Integer argument registers of this architecture; 0 where calls cannot be made. */
uint32_t run_int_registers(void);
/* Calls once. A floating-point result goes to *float_result, and 0 is returned. */
uint64_t run_call(uint64_t function, const struct run_frame *frame, double *float_result);
/* The same with the exception flags of MXCSR cleared before, and more of its bits set for the call. Returns MXCSR as it
   was right after the call through `mxcsr`; 0 where there is none. */
uint64_t run_call_flagged(uint64_t function, const struct run_frame *frame, double *float_result, uint32_t set,
                          uint32_t *mxcsr);
/* Seconds of `loops` calls, one after the other, the loop being the only thing between the two clock readings. */
double run_loop_seconds(uint64_t function, const struct run_frame *frame, uint64_t loops);
/* Seconds of `loops` calls; the ranges are written back and evicted from all caches before each, untimed. */
double run_cold_seconds(uint64_t function, const struct run_frame *frame, uint64_t loops,
                        const struct run_range *ranges, uint32_t count);
/* Evicts the ranges from all caches; 0 if this architecture has no instruction for it. */
uint32_t run_flush(const struct run_range *ranges, uint32_t count);

/* A handle of the loaded library, and the address of one of its functions (`version` may be empty); 0 on failure. */
uint64_t run_open_library(const char *path);
uint64_t run_find_function(uint64_t library, const char *name, const char *version);

/* `bytes` of memory between two unreadable guards of `guard` bytes (all multiples of the page); 0 if there is none. */
uint64_t run_map(uint64_t bytes, uint64_t guard);
void run_unmap(uint64_t start, uint64_t bytes, uint64_t guard);
/* Makes whole pages unreadable (0), read-only (1) or writable (2); returns 0 or errno. */
int run_protect(uint64_t start, uint64_t bytes, uint32_t access);
/* Offset of the first byte that is not `value`, or `bytes`. */
uint64_t run_find_other(uint64_t start, uint64_t bytes, uint8_t value);

/* How an array is filled. Element i depends on the seed and i alone, whatever the number of threads. */
enum run_fill_kind {
    RUN_FILL_CONSTANT,    /* first */
    RUN_FILL_ARANGE,      /* first + i * step */
    RUN_FILL_RANDOM,      /* floats: uniform in [first, last); integers: uniform in first..last, both included */
    RUN_FILL_PERMUTATION, /* first + every number of 0 .. count-1 once, in random order */
    RUN_FILL_INDPTR,      /* i * per_row */
    RUN_FILL_INDICES      /* per_row column numbers of 0..columns-1 for each row: ascending, all different */
};
enum run_type {
    RUN_F16, RUN_F32, RUN_F64, RUN_I8, RUN_I16, RUN_I32, RUN_I64, RUN_U8, RUN_U16, RUN_U32, RUN_U64
};
struct run_fill {
    uint32_t kind;
    uint32_t type;
    uint64_t seed;
    double first_float, last_float, step_float;
    int64_t first, last, step; /* for u64 the same bits */
    uint64_t per_row, columns;
    uint32_t every; /* only each `every`-th number of the array is written: 2 for the real parts of complex numbers */
    uint32_t threads;
};
/* Fills and so touches every page; returns 0, or -1 for a kind that does not go with the type. */
int run_fill(uint64_t start, uint64_t count, const struct run_fill *how);

/* What a worker leaves behind when it dies; the page is shared with the parent through a file. */
struct run_record {
    char phase[64];         /* what the worker was doing */
    char detail[448];
    uint32_t signal;        /* the last signal seen, 0 for none */
    int32_t code;           /* si_code */
    uint64_t address;       /* the address that could not be accessed (SIGSEGV, SIGBUS) */
    uint64_t instruction;
    uint64_t stack_pointer;
    uint32_t access;        /* 0 unknown, 1 read, 2 write, 3 execute */
    uint32_t stack_words;
    uint32_t maps_bytes;
    uint32_t faults;        /* signals seen so far */
    uint64_t stack[1024];   /* what the stack pointer pointed at */
    char maps[262144];      /* /proc/self/maps */
};
/* Records SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS and SIGXCPU in `record`, then goes on to the
   handler that was there before. A further call puts the recorder in front again where a library replaced it, and
   gives this thread its signal stack again. */
int run_faults_install(struct run_record *record);
/* Asks for SIGKILL when the parent dies, and for no core file; marks this process as the first to go if memory runs
   out. */
void run_worker_limits(void);
/* Writes out what C code left in its stdio buffers. */
void run_flush_stdio(void);
