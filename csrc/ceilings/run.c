/* Runs one loop on pinned threads of its own, many short samples, the core clock probed after each. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "ceilings/loops.h"
#include "machine/machine.h"
#include "perf/perf.h"

enum { ALIGN = 2 << 20, SKEW = 5 * 64, SPINS_BEFORE_YIELD = 2000 };

struct ceilings_memory {
    uint32_t threads;
    uint64_t bytes_each; /* whole huge pages */
    uint64_t chain_bytes; /* of each thread, 0: there is no chain */
    char *base;
};

uint32_t ceilings_loop_count(void) { return ceilings_table_length; }

const struct ceilings_loop *ceilings_loop(uint32_t index)
{
    return index < ceilings_table_length ? &ceilings_table[index] : NULL;
}

int ceilings_loop_usable(uint32_t index)
{
    return index < ceilings_table_length && ceilings_isa_usable(&ceilings_table[index]);
}

/* ---- threads that start together ---- */

struct team {
    uint32_t threads;
    void (*work)(struct team *, uint32_t thread, void *arg);
    void *arg;
    atomic_int abandoned;
    atomic_uint arrived, round;
};

static void relax(uint32_t spins)
{
    if (spins > SPINS_BEFORE_YIELD)
        sched_yield(); /* a thread that is not running yet may need this very processor */
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#endif
}

static void meet(struct team *team)
{
    uint32_t round = atomic_load(&team->round);
    if (atomic_fetch_add(&team->arrived, 1) + 1 == team->threads) {
        atomic_store(&team->arrived, 0);
        atomic_fetch_add(&team->round, 1);
        return;
    }
    for (uint32_t spins = 0; atomic_load(&team->round) == round; spins++) {
        if (atomic_load(&team->abandoned))
            return;
        relax(spins);
    }
}

struct member {
    struct team *team;
    uint32_t thread;
};

static void *member_main(void *arg)
{
    struct member *member = arg;
    meet(member->team);
    if (!atomic_load(&member->team->abandoned))
        member->team->work(member->team, member->thread, member->team->arg);
    return NULL;
}

/* Run work on new threads, one on each given processor; the caller's own affinity is left alone. */
static int run_team(uint32_t threads, const int32_t *cpus, void (*work)(struct team *, uint32_t, void *), void *arg)
{
    struct team team = {.threads = threads, .work = work, .arg = arg};
    pthread_t *ids = calloc(threads, sizeof *ids);
    struct member *members = calloc(threads, sizeof *members);
    uint32_t started = 0;
    int status = ids && members ? 0 : ENOMEM;
    for (; !status && started < threads; started++) {
        members[started] = (struct member){&team, started};
        pthread_attr_t attributes;
        int cpu = cpus[started];
        size_t set_bytes = CPU_ALLOC_SIZE(cpu + 1);
        cpu_set_t *set = cpu >= 0 ? CPU_ALLOC(cpu + 1) : NULL;
        if (!set) {
            status = cpu >= 0 ? ENOMEM : EINVAL;
            break;
        }
        CPU_ZERO_S(set_bytes, set);
        CPU_SET_S(cpu, set_bytes, set);
        pthread_attr_init(&attributes);
        status = pthread_attr_setaffinity_np(&attributes, set_bytes, set);
        if (!status)
            status = pthread_create(&ids[started], &attributes, member_main, &members[started]);
        pthread_attr_destroy(&attributes);
        CPU_FREE(set);
        if (status)
            break;
    }
    if (status)
        atomic_store(&team.abandoned, 1);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    free(members);
    free(ids);
    return -status;
}

/* ---- memory ---- */

static void fill(struct team *team, uint32_t thread, void *arg)
{
    struct ceilings_memory *memory = arg;
    double *part = (double *)(memory->base + thread * memory->bytes_each);
    (void)team;
    /* 1.0: a triad with it stays normal for ever, and no store is a store of zero. */
    for (uint64_t i = 0; i < memory->bytes_each / sizeof(double); i++)
        part[i] = 1.0;
}

int ceilings_memory_chain(struct ceilings_memory *memory, uint64_t chain_bytes)
{
    uint64_t count = chain_bytes / sizeof(struct ceilings_line);
    if (count < 2 || chain_bytes > memory->bytes_each) return -EINVAL;
    for (uint32_t thread = 0; thread < memory->threads; thread++)
        ceilings_chain((struct ceilings_line *)(memory->base + thread * memory->bytes_each), count);
    memory->chain_bytes = chain_bytes;
    return 0;
}

uint64_t ceilings_memory_place(const struct ceilings_memory *memory, uint64_t *bytes)
{
    *bytes = memory->bytes_each * memory->threads;
    return (uint64_t)(uintptr_t)memory->base;
}

int ceilings_memory_new(uint32_t threads, const int32_t *cpus, uint64_t bytes_each, uint64_t small_bytes,
                        uint64_t chain_bytes, struct ceilings_memory **out)
{
    struct ceilings_memory *memory = calloc(1, sizeof *memory);
    *out = NULL;
    if (!memory)
        return -ENOMEM;
    memory->threads = threads;
    uint64_t huge_bytes = (bytes_each + ALIGN - 1) / ALIGN * ALIGN;
    memory->bytes_each = huge_bytes + (small_bytes + ALIGN - 1) / ALIGN * ALIGN;
    uint64_t bytes = memory->bytes_each * threads;
    char *map = mmap(NULL, bytes + ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        int status = -errno;
        free(memory);
        return status;
    }
    /* Keep only the aligned part, so that freeing needs no second address. */
    memory->base = (char *)(((uintptr_t)map + ALIGN - 1) / ALIGN * ALIGN);
    if (memory->base > map)
        munmap(map, (size_t)(memory->base - map));
    if (memory->base < map + ALIGN)
        munmap(memory->base + bytes, (size_t)(map + ALIGN - memory->base));
    /* Without huge pages to be had, the wish for them is not granted; ceilings_memory_place lets one look. */
    for (uint32_t thread = 0; thread < threads; thread++) {
        char *part = memory->base + thread * memory->bytes_each;
        if (huge_bytes)
            madvise(part, huge_bytes, MADV_HUGEPAGE);
        if (small_bytes)
            madvise(part + huge_bytes, memory->bytes_each - huge_bytes, MADV_NOHUGEPAGE);
    }
    int status = run_team(threads, cpus, fill, memory);
    if (!status && chain_bytes)
        status = ceilings_memory_chain(memory, chain_bytes);
    if (status) {
        ceilings_memory_free(memory);
        return status;
    }
    *out = memory;
    return 0;
}

void ceilings_memory_free(struct ceilings_memory *memory)
{
    if (memory)
        munmap(memory->base, memory->bytes_each * memory->threads);
    free(memory);
}

/* ---- one job ---- */

struct job_run {
    const struct ceilings_job *job;
    const struct ceilings_loop *loop;
    uint64_t stream_stride;
    struct ceilings_result *result;
    /* [samples * threads] */
    double *starts, *ends, *running;
    uint64_t *iterations;
    atomic_int uncounted; /* errno, 0: all cycles were counted */
};

/* ---- the clock by counters ---- */

enum { NOT_THE_KERNEL = 6 }; /* which everybody may count */

/* Opens core cycles and task-clock of this thread as a group that counts from now on; its leader, or -errno. */
static int counters_open(int *second)
{
    struct perf_event cycles = {PERF_TYPE_HARDWARE, NOT_THE_KERNEL, PERF_COUNT_HW_CPU_CYCLES, 0, 0};
    struct perf_event ran = {PERF_TYPE_SOFTWARE, NOT_THE_KERNEL, PERF_COUNT_SW_TASK_CLOCK, 0, 0};
    int leader = perf_open(&cycles, 0, -1, -1, 0, 1);
    if (leader < 0)
        return leader;
    *second = perf_open(&ran, 0, -1, leader, 0, 1);
    if (*second >= 0)
        return leader;
    perf_close(leader);
    return *second;
}

/* Hertz from one reading to the next, NaN if the cycles were not counted all the time. */
static double counted_hz(const struct perf_reading *start, const struct perf_reading *end)
{
    uint64_t cycles = end->values[0] - start->values[0], nanoseconds = end->values[1] - start->values[1];
    int always = end->enabled - start->enabled == end->running - start->running;
    return always && cycles && nanoseconds ? 1e9 * (double)cycles / (double)nanoseconds : NAN;
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int any_streams(const struct ceilings_loop *loop) { return strcmp(loop->streams, "*") == 0; }

static void measure(struct team *team, uint32_t thread, void *arg)
{
    struct job_run *run = arg;
    const struct ceilings_job *job = run->job;
    const struct ceilings_loop *loop = run->loop;
    uint64_t sample_bytes = job->iterations * loop->chunk_bytes, position = 0;
    uint64_t mask = job->wrapped ? job->stream_bytes - 1 : UINT64_MAX;
    char *base = job->memory ? job->memory->base + thread * job->memory->bytes_each + job->place : NULL;
    struct perf_reading before, after;
    int second = -1, counters = counters_open(&second);
    if (counters < 0)
        atomic_store(&run->uncounted, -counters);

    for (uint32_t round = 0; round < job->warmups + job->samples; round++) {
        double *stream[3] = {NULL, NULL, NULL};
        for (int i = 0; base && i < 3; i++)
            stream[i] = (double *)(base + (uint64_t)i * run->stream_stride + position);
        if (base && any_streams(loop))
            stream[2] = (double *)(uintptr_t)(job->loads * (uint64_t)CEILINGS_LOADS + job->stores);
        meet(team);
        double running = thread_seconds();
        /* as close to the loop as can be: the time of the system calls between is in that of the thread */
        int counted = counters >= 0 && perf_read(counters, 2, &before) == 0;
        double start = machine_seconds();
        uint64_t done = loop->run(job->iterations, mask, stream[0], stream[1], stream[2]);
        double end = machine_seconds();
        counted = counted && perf_read(counters, 2, &after) == 0;
        running = thread_seconds() - running;
        if (!job->wrapped) {
            position += sample_bytes;
            if (position + sample_bytes > job->stream_bytes)
                position = 0;
        }
        if (round < job->warmups)
            continue;
        uint32_t at = (round - job->warmups) * job->threads + thread;
        run->starts[at] = start;
        run->ends[at] = end;
        run->running[at] = running;
        run->iterations[at] = done;
        run->result->counted_hz[at] = counted ? counted_hz(&before, &after) : NAN;
        if (counters >= 0 && isnan(run->result->counted_hz[at]))
            atomic_store(&run->uncounted, ENODATA);
        if (job->probe_operations) {
            run->result->add_seconds[at] = machine_add_chain(job->probe_operations);
            run->result->multiply_seconds[at] = machine_multiply_chain(job->probe_operations);
        }
    }
    if (counters >= 0) {
        perf_close(second);
        perf_close(counters);
    }
}

/* Put the threads' parts of one sample together. */
static void combine(const struct job_run *run, uint32_t sample)
{
    uint32_t threads = run->job->threads;
    uint64_t first = (uint64_t)sample * threads, iterations = 0;
    double start = run->starts[first], last_start = start, end = run->ends[first], share = 1;
    for (uint64_t at = first; at < first + threads; at++) {
        double seconds = run->ends[at] - run->starts[at];
        start = run->starts[at] < start ? run->starts[at] : start;
        last_start = run->starts[at] > last_start ? run->starts[at] : last_start;
        end = run->ends[at] > end ? run->ends[at] : end;
        share = seconds > 0 && run->running[at] / seconds < share ? run->running[at] / seconds : share;
        iterations += run->iterations[at];
    }
    run->result->seconds[sample] = end - start;
    run->result->iterations[sample] = iterations;
    run->result->busy[sample] = end > start ? share * (1 - (last_start - start) / (end - start)) : share;
}

static int fits(const struct ceilings_job *job, const struct ceilings_loop *loop, uint64_t stream_stride)
{
    uint64_t streams = any_streams(loop) ? (uint64_t)job->loads + job->stores : strlen(loop->streams);
    uint64_t sample_bytes = job->iterations * loop->chunk_bytes;
    int masked = !ceilings_apart(loop); /* others wrap where they should, and not by a mask */
    if (!*loop->streams)
        return 1;
    if (!streams || job->loads >= CEILINGS_LOADS || job->stores >= CEILINGS_LOADS)
        return 0;
    if (!job->memory || ceilings_follows(loop) != (job->memory->chain_bytes != 0))
        return 0; /* pointers are no numbers to compute with */
    if (loop->run == ceilings_scatter &&
        (job->stream_bytes != job->memory->chain_bytes || job->stream_bytes <= CEILINGS_CHAINS * loop->chunk_bytes))
        return 0; /* it finds its places by the length of the chain, and keeps them in its lines */
    if (ceilings_follows(loop))
        return job->threads <= job->memory->threads && job->wrapped;
    if (!job->memory || job->threads > job->memory->threads || job->stream_bytes % loop->chunk_bytes)
        return 0;
    if (job->wrapped ? masked && (job->stream_bytes & (job->stream_bytes - 1)) != 0 : sample_bytes > job->stream_bytes)
        return 0;
    uint64_t used = (streams - 1) * stream_stride + job->stream_bytes * (masked ? 1 : ceilings_apart(loop));
    uint64_t there = job->memory->bytes_each;
    return job->place % 64 == 0 && job->place <= there && used <= there - job->place;
}

int ceilings_run(const struct ceilings_job *job, struct ceilings_result *result)
{
    const struct ceilings_loop *loop = ceilings_loop(job->loop);
    if (!loop || !job->threads || !job->samples || !job->iterations || !ceilings_isa_usable(loop))
        return -EINVAL;
    /* Streams that start at the same offset of a page would hold each other up in the first-level cache; and loads wait
       for older stores to the same offset, so all that is loaded lies less than half a page ahead of what is stored. */
    struct job_run run = {.job = job, .loop = loop, .result = result, .stream_stride = job->stream_bytes + SKEW};
    if (!fits(job, loop, run.stream_stride))
        return -EINVAL;
    uint64_t cells = (uint64_t)job->samples * job->threads;
    run.starts = calloc(cells, sizeof *run.starts);
    run.ends = calloc(cells, sizeof *run.ends);
    run.iterations = calloc(cells, sizeof *run.iterations);
    run.running = calloc(cells, sizeof *run.running);
    int status = run.starts && run.ends && run.iterations && run.running ? 0 : -ENOMEM;
    if (!status)
        status = run_team(job->threads, job->cpus, measure, &run);
    for (uint32_t sample = 0; !status && sample < job->samples; sample++)
        combine(&run, sample);
    result->uncounted = atomic_load(&run.uncounted);
    free(run.running);
    free(run.iterations);
    free(run.ends);
    free(run.starts);
    return status;
}
