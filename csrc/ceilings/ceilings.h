/* Loops that reach this machine's ceilings, and the runner that times them on pinned threads.

   Every loop is written by hand so that the compiler cannot change what it does, and its entry in the table says what
   one iteration does. A loop returns the iterations it has done; everything claimed for a ceiling is that number
   times the constants of the table. */

/* From a line to the next, of loops that walk over pages. */
enum { CEILINGS_WALK_LINES = 65, CEILINGS_SET_LINES = 64, CEILINGS_FAR_LINES = 257 };
enum { CEILINGS_LOADS = 65536 };

struct ceilings_loop {
    const char *mix;       /* compute: "FMA+ADD 1:1", "FMA 1 chain", "DIV", "SQRT", "DOT"; memory: "read", "store",
                              "copy", "triad", "update", "store NT"; loads to stores alone: "2:1", "2:1 in place" */
    const char *isa;       /* "scalar", "SSE", "AVX", "AVX2", "AVX-512", "NEON" */
    const char *needs;     /* what the processor must have: "", "avx", "fma" (with AVX2), "avx512f", "avx512bf16",
                              "avx512vnni", "avx512fp16" */
    const char *precision; /* "f16", "f32", "f64"; of what dot products multiply: "bf16", "int8" */
    const char *streams;   /* memory: a letter for each of a, b, c, and one as far from c as c from b: r read,
                              w written, u updated (read, then written), n written with non-temporal stores;
                              "*": as many as the job says, those that are read before those that are written.
                              Compute: "" */
    const char *order;     /* memory: how loads and stores follow each other, "loads first", "in turn", "by fours" or
                              "loads apart" (in turn, no load being part of another instruction); of loops that
                              differ in it alone the best counts. "chain": each load waits for the one before,
                              "chains": the same on many chains side by side, 33 lines or more; "stride": every
                              fourth line, in four turns; "pages": lines a page and a line apart, so that all sets
                              have some; "far pages": four pages and a line apart; "set": lines a page apart, which
                              are in one set where a cache has 64 of them; of these, chunk_bytes are a line of which
                              one element is loaded. Compute: "" */
    uint32_t chunk_bytes;  /* of each stream, in one iteration */
    uint32_t flops;        /* in one iteration; a fused multiply-add is two, and so is one of int8 */
    uint32_t fused;        /* those of them done by fused multiply-adds */
    /* At least one iteration; iteration i touches chunk_bytes of each stream from byte (i * chunk_bytes) & mask on,
       with "stride" in another order, with "pages", "far pages" and "set" (modulo mask + 1) CEILINGS_WALK_LINES,
       CEILINGS_FAR_LINES and CEILINGS_SET_LINES times as far, and with "chain" and "chains" goes on where the last call
       ended; with "chains" there may be a few more than were asked for.

       Where streams are "*", `b` is the second of them, the others are as far from each other, and `c` is no address:
       it is CEILINGS_LOADS times the number of those that are read, plus that of those that are written. */
    uint64_t (*run)(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
};

uint32_t ceilings_loop_count(void);
const struct ceilings_loop *ceilings_loop(uint32_t index);
/* 1 if this processor and operating system can run the loop. */
int ceilings_loop_usable(uint32_t index);

/* A region of memory for each thread, written by that thread on its processor, so that no page is the kernel's
   shared zero page and each lies on the thread's own memory node. */
struct ceilings_memory;
/* 0 or a negative errno. `cpus` write it, and so it lies on their nodes; jobs may run on others. Each thread has
   `bytes_each`, for which huge pages are asked, and from the next 2 MiB on `small_bytes` without any. `chain_bytes` of
   each thread become a chain of pointers for loops of that order, and nothing else can run; 0: none do. */
int ceilings_memory_new(uint32_t threads, const int32_t *cpus, uint64_t bytes_each, uint64_t small_bytes,
                        uint64_t chain_bytes, struct ceilings_memory **out);
/* Makes the chain of another length. */
int ceilings_memory_chain(struct ceilings_memory *, uint64_t chain_bytes);
/* Where it begins, and its bytes, all threads together. */
uint64_t ceilings_memory_place(const struct ceilings_memory *, uint64_t *bytes);
void ceilings_memory_free(struct ceilings_memory *);

struct ceilings_job {
    uint32_t loop;
    uint32_t threads;
    const int32_t *cpus;             /* one for each thread */
    struct ceilings_memory *memory;  /* NULL for compute */
    uint64_t place;                  /* where in each thread's memory the streams begin */
    uint64_t stream_bytes;           /* of each stream of each thread; a power of two if wrapped, but for "pages"
                                        and "set" */
    uint32_t loads, stores;          /* streams that are read, and written, of a loop whose streams are "*" */
    uint32_t wrapped;                /* 1: a sample goes round its streams; 0: it goes on where the last one ended */
    uint32_t samples;
    uint32_t warmups;                /* samples run first and dropped */
    uint32_t probe_operations;       /* length of each clock chain after a sample; 0: none */
    uint64_t iterations;             /* of one sample, on each thread */
};

struct ceilings_result {
    double *seconds;          /* [samples] from the first thread's start to the last one's end */
    uint64_t *iterations;     /* [samples] of all threads */
    double *add_seconds;      /* [samples * threads] the chain of additions right after the sample */
    double *multiply_seconds; /* [samples * threads] */
    double *busy;             /* [samples] share of it that all threads were running together, 0 to 1: less where
                                 other processes took a processor away */
    double *counted_hz;       /* [samples * threads] core cycles in user mode over the time that the thread ran, by
                                 hardware counters; NaN where they could not be had */
    int32_t uncounted;        /* why not, an errno: of opening the counters, ENODATA if they did not count all the
                                 time; else 0 */
};

/* 0 or a negative errno: EINVAL if the memory is too small for the job or a processor cannot be used. */
int ceilings_run(const struct ceilings_job *, struct ceilings_result *);
