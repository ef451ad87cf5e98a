/* Reading one's own counters without a system call, as the comments at struct perf_event_mmap_page in
 * linux/perf_event.h lay down: a sequence lock, the kernel's offset, and the counter itself. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "perf/perf.h"

#if defined(__x86_64__)
#define DIRECT 1
static uint64_t counter(uint32_t index)
{
    uint32_t low, high;
    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
    return (uint64_t)high << 32 | low;
}
#elif defined(__aarch64__)
#define DIRECT 1
/* PMEVCNTR<n>_EL0 is register S3_3_C14_C(8 + n / 8)_(n % 8), PMCCNTR_EL0 (index 31) S3_3_C9_C13_0: Arm ARM D19.5. */
#define CASE(n, group, number) \
    case n: __asm__ volatile("mrs %0, s3_3_c14_c" #group "_" #number : "=r"(value)); break;
static uint64_t counter(uint32_t index)
{
    uint64_t value = 0;
    switch (index) {
        CASE(0, 8, 0) CASE(1, 8, 1) CASE(2, 8, 2) CASE(3, 8, 3) CASE(4, 8, 4) CASE(5, 8, 5) CASE(6, 8, 6) CASE(7, 8, 7)
        CASE(8, 9, 0) CASE(9, 9, 1) CASE(10, 9, 2) CASE(11, 9, 3) CASE(12, 9, 4) CASE(13, 9, 5) CASE(14, 9, 6)
        CASE(15, 9, 7) CASE(16, 10, 0) CASE(17, 10, 1) CASE(18, 10, 2) CASE(19, 10, 3) CASE(20, 10, 4) CASE(21, 10, 5)
        CASE(22, 10, 6) CASE(23, 10, 7) CASE(24, 11, 0) CASE(25, 11, 1) CASE(26, 11, 2) CASE(27, 11, 3) CASE(28, 11, 4)
        CASE(29, 11, 5) CASE(30, 11, 6)
    default: __asm__ volatile("mrs %0, s3_3_c9_c13_0" : "=r"(value));
    }
    return value;
}
#else
#define DIRECT 0
static uint64_t counter(uint32_t index)
{
    (void)index;
    return 0;
}
#endif

#define BARRIER() __asm__ volatile("" : : : "memory")

uint32_t perf_self_map(struct perf_self *self)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t mapped = 0;
    for (uint32_t i = 0; i < self->events; i++) {
        void *address = mmap(NULL, page, PROT_READ, MAP_SHARED, self->descriptors[i], 0);
        self->pages[i] = address == MAP_FAILED ? NULL : address;
        if (self->pages[i] && !((struct perf_event_mmap_page *)address)->cap_user_rdpmc) {
            munmap(address, page);
            self->pages[i] = NULL;
        }
        mapped += self->pages[i] != NULL;
    }
    return mapped;
}

void perf_self_unmap(struct perf_self *self)
{
    for (uint32_t i = 0; i < self->events; i++)
        if (self->pages[i]) munmap(self->pages[i], (size_t)sysconf(_SC_PAGESIZE));
}

/* 1 if the event is on a counter now, and so could be read. */
static int read_direct(const volatile struct perf_event_mmap_page *page, uint64_t *value, uint64_t *enabled,
                       uint64_t *running)
{
    uint32_t lock, index;
    do {
        lock = page->lock;
        BARRIER();
        *enabled = page->time_enabled;
        *running = page->time_running;
        index = page->index;
        *value = (uint64_t)page->offset;
        if (!page->cap_user_rdpmc || !index) return 0;
        uint32_t unused = 64u - page->pmc_width;
        *value += (uint64_t)((int64_t)(counter(index - 1) << unused) >> unused);
        BARRIER();
    } while (page->lock != lock);
    return 1;
}

int perf_self_read(const struct perf_self *self, struct perf_reading *reading, uint32_t *direct)
{
    *direct = 0;
    if (DIRECT && self->events && self->pages[0]) {
        uint64_t enabled, running;
        uint32_t i;
        for (i = 0; i < self->events; i++) {
            if (!self->pages[i] || !read_direct(self->pages[i], &reading->values[i], &enabled, &running)) break;
            if (i == 0) reading->enabled = enabled, reading->running = running;
        }
        if (i == self->events) {
            *direct = 1;
            return 0;
        }
    }
    return perf_read(self->descriptors[0], self->events, reading);
}

double perf_self_cost(const struct perf_self *self, uint32_t times)
{
    double least = 1e18;
    for (uint32_t i = 0; i < times; i++) {
        struct timespec from, to;
        struct perf_reading reading;
        uint32_t direct;
        clock_gettime(CLOCK_MONOTONIC, &from);
        int status = perf_self_read(self, &reading, &direct);
        if (status == 0) status = perf_self_read(self, &reading, &direct);
        clock_gettime(CLOCK_MONOTONIC, &to);
        if (status < 0) return status;
        double nanoseconds = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
        if (nanoseconds < least) least = nanoseconds;
    }
    return least;
}
