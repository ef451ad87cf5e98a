#include <errno.h>
#include <linux/perf_event.h>
#include <linux/version.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "perf/perf.h"
#include "run/run.h"

enum { AGAIN = 10000 };

int perf_open(const struct perf_event *event, int pid, int cpu, int leader, uint32_t inherit, uint32_t enabled)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = event->type;
    attr.config = event->config;
    attr.config1 = event->config1;
    attr.config2 = event->config2;
    attr.exclude_user = event->exclude & 1;
    attr.exclude_kernel = event->exclude >> 1 & 1;
    attr.exclude_hv = event->exclude >> 2 & 1;
    attr.inherit = inherit != 0;
    attr.disabled = leader < 0 && !enabled;
    attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
    attr.inherit_thread = attr.inherit; /* threads, and not the processes that are forked */
#endif
    int descriptor = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, leader, (unsigned long)PERF_FLAG_FD_CLOEXEC);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
    if (descriptor < 0 && errno == EINVAL && attr.inherit_thread) { /* maybe it is older than these headers */
        attr.inherit_thread = 0;
        descriptor = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, leader, (unsigned long)PERF_FLAG_FD_CLOEXEC);
    }
#endif
    return descriptor < 0 ? -errno : descriptor;
}

void perf_close(int descriptor) { close(descriptor); }

int perf_enable(int leader, uint32_t enable)
{
    unsigned long request = enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
    /* The leader alone: its siblings, never disabled themselves, count when it does. With PERF_IOC_FLAG_GROUP page
       faults were lost from the second start on. */
    return ioctl(leader, request, 0) < 0 ? -errno : 0;
}

int perf_read(int leader, uint32_t events, struct perf_reading *reading)
{
    uint64_t raw[3 + sizeof reading->values / sizeof *reading->values];
    ssize_t bytes = (ssize_t)((3 + events) * sizeof *raw);
    if (events > sizeof reading->values / sizeof *reading->values) return -EINVAL;
    ssize_t got = read(leader, raw, (size_t)bytes);
    /* A thread that is just ending has a part of its group left, and a group is read of all threads or not at all
       (__perf_read_group_add in kernel/events/core.c); the next moment it has nothing left. */
    for (int again = 0; got < 0 && errno == ECHILD && again < AGAIN; again++) {
        sched_yield();
        got = read(leader, raw, (size_t)bytes);
    }
    if (got < 0) return -errno;
    if (got != bytes || raw[0] != events) return -ENODATA;
    reading->enabled = raw[1];
    reading->running = raw[2];
    memcpy(reading->values, raw + 3, events * sizeof *raw);
    return 0;
}

static void failed(struct perf_group *group, int status)
{
    if (status < 0 && !group->error) group->error = -status;
}

static void add(struct perf_group *group, const struct perf_reading *end)
{
    group->counted.enabled += end->enabled - group->start.enabled;
    group->counted.running += end->running - group->start.running;
    for (uint32_t i = 0; i < group->events; i++) group->counted.values[i] += end->values[i] - group->start.values[i];
}

static uint32_t failures(const struct perf_group *groups, uint32_t count)
{
    uint32_t number = 0;
    for (uint32_t g = 0; g < count; g++) number += groups[g].error != 0;
    return number;
}

uint32_t perf_begin(struct perf_group *groups, uint32_t count)
{
    for (uint32_t g = 0; g < count; g++) {
        if (groups[g].system) failed(&groups[g], perf_enable(groups[g].leader, 1));
        failed(&groups[g], perf_read(groups[g].leader, groups[g].events, &groups[g].start));
    }
    for (uint32_t g = count; g-- > 0;)
        if (!groups[g].system) failed(&groups[g], perf_enable(groups[g].leader, 1));
    return failures(groups, count);
}

uint32_t perf_end(struct perf_group *groups, uint32_t count)
{
    struct perf_reading end;
    for (uint32_t g = 0; g < count; g++)
        if (!groups[g].system) failed(&groups[g], perf_enable(groups[g].leader, 0));
    for (uint32_t g = 0; g < count; g++) {
        int status = perf_read(groups[g].leader, groups[g].events, &end);
        failed(&groups[g], status);
        if (status == 0) add(&groups[g], &end);
        if (groups[g].system) failed(&groups[g], perf_enable(groups[g].leader, 0));
    }
    return failures(groups, count);
}

double perf_count_calls(uint64_t function, const struct run_frame *frame, uint64_t loops,
                        const struct run_range *ranges, uint32_t range_count, struct perf_group *groups,
                        uint32_t count)
{
    double seconds = 0;
    uint64_t rounds = range_count ? loops : 1;
    for (uint64_t i = 0; i < rounds; i++) {
        if (range_count) run_flush(ranges, range_count);
        perf_begin(groups, count);
        seconds += run_loop_seconds(function, frame, range_count ? 1 : loops);
        perf_end(groups, count);
    }
    return seconds;
}

double perf_count_sleep(double seconds, struct perf_group *groups, uint32_t count)
{
    struct timespec length = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, from, to;
    perf_begin(groups, count);
    clock_gettime(CLOCK_MONOTONIC, &from);
    while (nanosleep(&length, &length) < 0 && errno == EINTR) continue;
    clock_gettime(CLOCK_MONOTONIC, &to);
    perf_end(groups, count);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}
