/* Regions of a program. counteroof.h finds counteroof_region_begin and _end by their names, in Python's process or,
 * where this file is in a library of its own, in any program that is started with it (see program/program.c). */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "perf/perf.h"
#include "regions/regions.h"

enum { GROUPS = 512, REGIONS = 256, DEPTH = 32, NAME = 64 };

struct region {
    char name[NAME];
    uint64_t calls, failures, nanoseconds;
    struct perf_reading *counted; /* one a group */
};

struct frame {
    int region;
    uint64_t nanoseconds;
    struct perf_reading *start; /* one a group */
    uint32_t groups;
    uint32_t failed;
};

static struct perf_self *groups;
static uint32_t group_count, own_only, generation;
static pthread_t owner;
static struct region regions[REGIONS];
static uint32_t region_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct frame frames[DEPTH];
static __thread uint32_t depth, frames_generation;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int regions_setup(const struct perf_self *given, uint32_t count, uint32_t own_thread)
{
    if (count > GROUPS) return -1;
    struct perf_self *copy = calloc(count + 1, sizeof *copy);
    if (!copy) return -1;
    memcpy(copy, given, count * sizeof *copy);
    pthread_mutex_lock(&lock);
    groups = copy; /* the one before may still be read by a region that is open: it is not freed */
    group_count = count;
    own_only = own_thread;
    owner = pthread_self();
    generation++;
    for (uint32_t r = 0; r < region_count; r++) {
        free(regions[r].counted);
        regions[r].counted = calloc(count + 1, sizeof *regions[r].counted);
        regions[r].calls = regions[r].failures = regions[r].nanoseconds = 0;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int regions_find(const char *name)
{
    char kept[NAME];
    int found = -1;
    strncpy(kept, name, NAME - 1);
    kept[NAME - 1] = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t r = 0; r < region_count && found < 0; r++)
        if (strcmp(regions[r].name, kept) == 0) found = (int)r;
    if (found < 0 && region_count < REGIONS) {
        struct perf_reading *counted = calloc(group_count + 1, sizeof *counted);
        if (counted) {
            found = (int)region_count;
            strcpy(regions[found].name, kept);
            regions[found].counted = counted;
            region_count++;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static uint32_t read_all(struct perf_reading *readings)
{
    uint32_t failed = 0, direct;
    for (uint32_t g = 0; g < group_count; g++) failed |= perf_self_read(&groups[g], &readings[g], &direct) < 0;
    return failed;
}

static int refuse(int region)
{
    if (region < 0 || (uint32_t)region >= region_count) return -1;
    pthread_mutex_lock(&lock);
    regions[region].failures++;
    pthread_mutex_unlock(&lock);
    return -1;
}

int regions_begin(int region)
{
    if (frames_generation != generation) {
        frames_generation = generation;
        depth = 0;
    }
    if (region < 0 || (uint32_t)region >= region_count) return -1;
    if (depth == DEPTH || (own_only && !pthread_equal(owner, pthread_self()))) return refuse(region);
    struct frame *frame = &frames[depth];
    if (frame->groups < group_count || !frame->start) {
        free(frame->start);
        frame->start = malloc((group_count + 1) * sizeof *frame->start);
        frame->groups = frame->start ? group_count : 0;
        if (!frame->start) return refuse(region);
    }
    depth++;
    frame->region = region;
    frame->nanoseconds = now();
    frame->failed = read_all(frame->start);
    return 0;
}

int regions_end(int region)
{
    struct perf_reading few[4], *end = few;
    if (group_count > sizeof few / sizeof *few) {
        end = malloc(group_count * sizeof *end);
        if (!end) return refuse(region);
    }
    uint32_t failed = read_all(end);
    uint64_t stopped = now();
    int status = -1;
    if (frames_generation == generation && depth > 0 && frames[depth - 1].region == region) {
        struct frame *frame = &frames[--depth];
        struct region *one = &regions[region];
        pthread_mutex_lock(&lock);
        if (failed || frame->failed) {
            one->failures++;
        } else {
            one->calls++;
            one->nanoseconds += stopped - frame->nanoseconds;
            for (uint32_t g = 0; g < group_count; g++) {
                struct perf_reading *sum = &one->counted[g], *start = &frame->start[g];
                sum->enabled += end[g].enabled - start->enabled;
                sum->running += end[g].running - start->running;
                for (uint32_t i = 0; i < groups[g].events; i++) sum->values[i] += end[g].values[i] - start->values[i];
            }
            status = 0;
        }
        pthread_mutex_unlock(&lock);
    } else {
        refuse(region);
    }
    if (end != few) free(end);
    return status;
}

uint32_t regions_count(void) { return region_count; }
const char *regions_name(uint32_t region) { return regions[region].name; }
uint64_t regions_calls(uint32_t region) { return regions[region].calls; }
uint64_t regions_failures(uint32_t region) { return regions[region].failures; }
double regions_seconds(uint32_t region) { return (double)regions[region].nanoseconds * 1e-9; }
void regions_reading(uint32_t region, uint32_t group, struct perf_reading *reading)
{
    *reading = regions[region].counted[group];
}

static int ascending(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static double median(uint64_t *values, uint32_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return (double)values[count / 2];
}

double regions_cost(uint32_t times, struct regions_cost *cost)
{
    if (!times) return -1;
    uint64_t *taken = calloc(times, 4 * sizeof *taken);
    struct perf_reading *place = malloc((group_count + 1) * sizeof *place);
    double both = -1;
    if (taken && place) {
        uint64_t *begin = taken, *end = begin + times, *region_took = end + times, *readings = region_took + times;
        int region = regions_find("(cost of a region)");
        for (uint32_t i = 0; i < times; i++) {
            uint64_t start = now();
            regions_begin(region);
            uint64_t middle = now();
            regions_end(region);
            uint64_t stop = now();
            begin[i] = middle - start, end[i] = stop - middle, region_took[i] = stop - start;
            start = now();
            read_all(place);
            read_all(place);
            readings[i] = now() - start;
        }
        cost->begin = median(begin, times);
        cost->end = median(end, times);
        cost->readings = median(readings, times);
        both = median(region_took, times);
    }
    free(place);
    free(taken);
    return both;
}

__attribute__((visibility("default"))) void counteroof_region_begin(const char *name)
{
    regions_begin(regions_find(name));
}

__attribute__((visibility("default"))) void counteroof_region_end(const char *name)
{
    regions_end(regions_find(name));
}
