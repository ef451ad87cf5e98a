/* Calls functions of shared libraries as job files say. With -DCALLGRIND a program for valgrind: it collects during the
 * calls alone, dumps the counts after each job, and copies the process's map of memory at the end. With -DCALLS=n it
 * calls n times and prints the seconds of each call, by the clock -DCLOCK. Otherwise a library that makes the same preparations in the
 * process of the engine.
 *
 * A job file: the header below, the frame of the call, then for each array its former address and size (two u64), and
 * after all of these the contents. Arrays come to lie at the same distance from a 2 MiB boundary as before, so code
 * that looks at alignments does the same; words of the frame that hold their former addresses get the new ones.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "run/run.h"

#define BOUNDARY (2ull << 20)
#define MAX_ARRAYS 32

struct header {
    char library[1024];
    char setup[128];  /* a function without arguments that is called before; may be empty */
    char symbol[128];
    uint64_t arrays;
};

struct job {
    uint64_t function;
    struct run_frame frame;
};

static int failed(const char *path, const char *what) {
    fprintf(stderr, "%s: %s\n", path, what);
    return -1;
}

static void move_words(uint64_t *words, unsigned count, const uint64_t *old, const uint64_t *new, uint64_t arrays) {
    for (unsigned w = 0; w < count; w++)
        for (uint64_t i = 0; i < arrays; i++)
            if (words[w] == old[2 * i]) {
                words[w] = new[i];
                break;
            }
}

int load_job(const char *path, struct job *job) {
    struct header header;
    uint64_t old[2 * MAX_ARRAYS], new[MAX_ARRAYS];
    FILE *file = fopen(path, "rb");
    if (!file) return failed(path, "cannot be opened");
    if (fread(&header, sizeof header, 1, file) != 1 || fread(&job->frame, sizeof job->frame, 1, file) != 1 ||
        header.arrays > MAX_ARRAYS || fread(old, 16, header.arrays, file) != header.arrays)
        return failed(path, "is too short");
    for (uint64_t i = 0; i < header.arrays; i++) {
        uint64_t start = old[2 * i], bytes = old[2 * i + 1];
        char *space = mmap(NULL, bytes + 2 * BOUNDARY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (space == MAP_FAILED) return failed(path, "no memory");
        new[i] = ((uint64_t)space + BOUNDARY - 1) / BOUNDARY * BOUNDARY + start % BOUNDARY;
        if (bytes && fread((void *)new[i], bytes, 1, file) != 1) return failed(path, "is too short");
    }
    fclose(file);
    move_words(job->frame.ints, 8, old, new, header.arrays);
    move_words(job->frame.stack, job->frame.stack_words, old, new, header.arrays);
    void *library = dlopen(header.library, RTLD_NOW);
    if (!library) return failed(path, dlerror());
    void (*setup)(void) = NULL;
    if (header.setup[0] && !(*(void **)&setup = dlsym(library, header.setup))) return failed(path, dlerror());
    if (!(job->function = (uint64_t)dlsym(library, header.symbol))) return failed(path, dlerror());
    if (setup) setup();
    return 0;
}

#ifdef CALLGRIND
#include <time.h>
#include <valgrind/callgrind.h>

#ifndef CLOCK
#define CLOCK CLOCK_MONOTONIC
#endif
#ifdef CALLS
#define PRINT_SECONDS 1
#else
#define PRINT_SECONDS 0
#define CALLS 1
#endif

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int copy_maps(const char *path) {
    char line[4096];
    FILE *from = fopen("/proc/self/maps", "r"), *to = fopen(path, "w");
    if (!from || !to) return failed(path, "cannot be written");
    while (fgets(line, sizeof line, from)) fputs(line, to);
    fclose(from);
    return fclose(to);
}

/* driver MAPS JOB... */
int main(int count, char **arguments) {
    if (!RUNNING_ON_VALGRIND) return failed(arguments[0], "must run under valgrind") != 0;
    for (int i = 2; i < count; i++) {
        struct job job;
        double result;
        if (load_job(arguments[i], &job)) return 1;
        for (int call = 0; call < CALLS; call++) {
            double start = now();
            CALLGRIND_TOGGLE_COLLECT;
            run_call(job.function, &job.frame, &result);
            CALLGRIND_TOGGLE_COLLECT;
            if (PRINT_SECONDS) printf("%.9f\n", now() - start);
        }
        CALLGRIND_DUMP_STATS;
    }
    return count > 1 && copy_maps(arguments[1]);
}
#endif
