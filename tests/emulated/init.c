/* The first program of an emulated Arm machine with a working PMU: it runs csrc/perf there and prints what it saw, one
 * "name = value" a line, for test_perf_on_a_pmu.py to judge. Linked statically with csrc/perf, csrc/ceilings, csrc/machine, csrc/regions and csrc/run/call.c.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ceilings/ceilings.h"
#include "perf/perf.h"
#include "regions/regions.h"
#include "run/run.h"

enum { USER_ONLY = 2 | 4, INST_RETIRED = 0x08, CPU_CYCLES = 0x11 };
static uint32_t pmu_type;

static void say(const char *name, long long value)
{
    printf("%s = %lld\n", name, value);
    fflush(stdout);
}

/* Two instructions a round. */
static void loop(uint64_t rounds) { __asm__ volatile("1: subs %0, %0, #1\n b.ne 1b\n" : "+r"(rounds) : : "cc"); }

static struct perf_event event(uint32_t type, uint64_t config)
{
    struct perf_event one = {type, USER_ONLY, config, 0, 0};
    return one;
}

/* Opens events as one group of this thread and those it starts; the number of them, or -errno. */
static int open_group(struct perf_group *group, const struct perf_event *events, uint32_t count, uint32_t inherit,
                      uint32_t enabled)
{
    memset(group, 0, sizeof *group);
    for (uint32_t i = 0; i < count; i++) {
        int got = perf_open(&events[i], 0, -1, i ? group->leader : -1, inherit, enabled);
        if (got < 0) return i ? (int)i : got;
        if (i == 0) group->leader = got;
        group->events = i + 1;
    }
    return (int)count;
}

/* Closes all descriptors but the standard ones. */
static void close_all(void)
{
    for (int descriptor = 3; descriptor < 64; descriptor++) close(descriptor);
}

static uint64_t count_loop(uint64_t rounds, uint64_t calls, struct perf_group *group)
{
    struct run_frame frame = {.ints = {rounds}};
    memset(&group->counted, 0, sizeof group->counted);
    perf_count_calls((uint64_t)(uintptr_t)loop, &frame, calls, NULL, 0, group, 1);
    return group->counted.values[0];
}

static void exact_counts(void)
{
    struct perf_group group;
    struct perf_event events[2] = {event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS),
                                   event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)};
    say("group of two", open_group(&group, events, 2, 1, 0));
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "instructions of %llu rounds", 1000000ull << i);
        say(name, (long long)count_loop(1000000ull << i, 1, &group));
        say("cycles", (long long)group.counted.values[1]);
        say("enabled less running", (long long)(group.counted.enabled - group.counted.running));
    }
    say("instructions of 10 calls of 1000 rounds", (long long)count_loop(1000, 10, &group));
    say("instructions of 20 calls of 1000 rounds", (long long)count_loop(1000, 20, &group));
    struct run_frame frame = {.ints = {1000}};
    char data[256];
    struct run_range range = {(uint64_t)(uintptr_t)data, sizeof data};
    memset(&group.counted, 0, sizeof group.counted);
    perf_count_calls((uint64_t)(uintptr_t)loop, &frame, 10, &range, 1, &group, 1);
    say("instructions of 10 cold calls of 1000 rounds", (long long)group.counted.values[0]);
    say("errors", group.error);
    close_all();
}

static void more_events_than_counters(void)
{
    struct perf_event events[16];
    struct perf_group first, second;
    for (int i = 0; i < 16; i++) events[i] = event(pmu_type, INST_RETIRED);
    say("events that fit behind a leader that is off", open_group(&first, events, 16, 1, 0));
    count_loop(2000000, 1, &first);
    say("too many of them running", (long long)first.counted.running);
    close_all();
    int fit = open_group(&first, events, 16, 1, 1);
    say("events that fit behind a leader that is on", fit);
    say("errno of one more", -perf_open(&events[0], 0, -1, first.leader, 1, 0));
    close_all();
    open_group(&first, events, (uint32_t)fit, 1, 0);
    /* A pass with what fits is not scaled. */
    count_loop(2000000, 1, &first);
    say("pass one", (long long)first.counted.values[fit - 1]);
    say("pass one not running", (long long)(first.counted.enabled - first.counted.running));
    say("second group", open_group(&second, events, (uint32_t)fit, 1, 0));
    /* Both at once share the counters, and each runs for a part of the time. */
    struct perf_group both[2] = {first, second};
    struct run_frame frame = {.ints = {200000000}};
    memset(&both[0].counted, 0, sizeof both[0].counted);
    memset(&both[1].counted, 0, sizeof both[1].counted);
    perf_count_calls((uint64_t)(uintptr_t)loop, &frame, 1, NULL, 0, both, 2);
    for (int g = 0; g < 2; g++) {
        say("shared enabled", (long long)both[g].counted.enabled);
        say("shared running", (long long)both[g].counted.running);
        say("shared value", (long long)both[g].counted.values[0]);
    }
    close_all();
}

static int open_pinned(uint64_t config)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = pmu_type;
    attr.config = config;
    attr.pinned = 1;
    return (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0ul);
}

static void counters_that_others_hold(void)
{
    struct perf_group group;
    struct perf_event one = event(pmu_type, INST_RETIRED);
    int held = 0;
    while (held < 16 && open_pinned(INST_RETIRED) >= 0) held++;
    say("pinned by another", held);
    say("group beside them", open_group(&group, &one, 1, 1, 0));
    count_loop(1000000, 1, &group);
    say("starved enabled", (long long)(group.counted.enabled > 0));
    say("starved running", (long long)group.counted.running);
    close_all();
}

static void *thread_loop(void *rounds)
{
    loop((uint64_t)(uintptr_t)rounds);
    return NULL;
}

static void start_threads(uint64_t rounds)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread_loop, (void *)(uintptr_t)rounds);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void threads_inherit(void)
{
    struct perf_group group;
    struct perf_event one = event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
    for (uint32_t inherit = 0; inherit < 2; inherit++) {
        open_group(&group, &one, 1, inherit, 0);
        perf_begin(&group, 1);
        start_threads(1000000);
        perf_end(&group, 1);
        say(inherit ? "threads inherited" : "threads not inherited", (long long)group.counted.values[0]);
        close_all();
    }
}

static volatile int go, done;
static int waiting_thread;

static void *wait_then_loop(void *rounds)
{
    waiting_thread = (int)syscall(SYS_gettid);
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&go, __ATOMIC_SEQ_CST)) usleep(1000);
    loop((uint64_t)(uintptr_t)rounds);
    return NULL;
}

static void threads_that_exist(void)
{
    pthread_t thread;
    struct perf_group groups[2];
    struct perf_event one = event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
    pthread_create(&thread, NULL, wait_then_loop, (void *)(uintptr_t)3000000);
    while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) usleep(1000);
    memset(groups, 0, sizeof groups);
    groups[0].leader = perf_open(&one, 0, -1, -1, 1, 0);
    groups[1].leader = perf_open(&one, waiting_thread, -1, -1, 1, 0);
    groups[0].events = groups[1].events = 1;
    perf_begin(groups, 2);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    perf_end(groups, 2);
    say("own thread while another works", (long long)groups[0].counted.values[0]);
    say("thread that existed", (long long)groups[1].counted.values[0]);
    say("errors of threads", groups[0].error + groups[1].error);
    close_all();
}

static void write_setting(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

static void paranoid_levels(void)
{
    for (int level = -1; level <= 3; level++) {
        char text[16];
        snprintf(text, sizeof text, "%d", level);
        write_setting("/proc/sys/kernel/perf_event_paranoid", text);
        for (int user = 0; user < 2; user++) {
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                if (user && (setgid(1000) || setuid(1000))) _exit(1);
                struct perf_event own = event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS), with_kernel = own;
                with_kernel.exclude = 0;
                const char *who = user ? "user" : "root";
                char name[64];
                int results[3] = {perf_open(&own, 0, -1, -1, 1, 0), perf_open(&with_kernel, 0, -1, -1, 1, 0),
                                  perf_open(&with_kernel, -1, 0, -1, 0, 0)};
                const char *what[3] = {"own", "kernel", "system"};
                for (int i = 0; i < 3; i++) {
                    snprintf(name, sizeof name, "paranoid %d %s %s", level, who, what[i]);
                    say(name, results[i] >= 0 ? 0 : -results[i]);
                }
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
    }
    write_setting("/proc/sys/kernel/perf_event_paranoid", "2");
}

static void refusals(void)
{
    struct perf_event none = event(12345, 1), own = event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
    struct perf_event unknown = event(PERF_TYPE_HARDWARE, 12345), system_wide = event(pmu_type, INST_RETIRED);
    say("errno of a PMU that is not there", -perf_open(&none, 0, -1, -1, 1, 0));
    say("errno of an event nobody knows", -perf_open(&unknown, 0, -1, -1, 1, 0));
    say("errno of a processor that is not there", -perf_open(&system_wide, -1, 63, -1, 0, 0));
    write_setting("/sys/devices/system/cpu/cpu1/online", "0");
    say("errno of a processor that is switched off", -perf_open(&system_wide, -1, 1, -1, 0, 0));
    write_setting("/sys/devices/system/cpu/cpu1/online", "1");
    say("errno of a thread that is not there", -perf_open(&own, 1 << 21, -1, -1, 1, 0));
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &few);
    say("errno with too many files", -perf_open(&own, 0, -1, -1, 1, 0));
    setrlimit(RLIMIT_NOFILE, &before);
    struct perf_reading reading;
    say("errno of reading what is closed", -perf_read(63, 1, &reading));
}

static void own_counters_read_directly(void)
{
    struct perf_self self;
    struct perf_reading before, after;
    uint32_t direct, direct_after;
    memset(&self, 0, sizeof self);
    for (int allowed = 0; allowed < 2; allowed++) {
        write_setting("/proc/sys/kernel/perf_user_access", allowed ? "1" : "0");
        struct perf_event one = event(pmu_type, INST_RETIRED);
        one.config1 = 2; /* arm_pmuv3: counters may be read from user space */
        self.descriptors[0] = perf_open(&one, 0, -1, -1, 0, 0);
        self.events = 1;
        say("direct opened", self.descriptors[0] >= 0 ? 0 : -self.descriptors[0]);
        if (self.descriptors[0] < 0) continue;
        perf_enable(self.descriptors[0], 1);
        say("direct mapped", perf_self_map(&self));
        perf_self_read(&self, &before, &direct);
        loop(1000000);
        perf_self_read(&self, &after, &direct_after);
        say("direct", direct && direct_after);
        say("direct instructions", (long long)(after.values[0] - before.values[0]));
        say("direct cost in ns", (long long)perf_self_cost(&self, 1000));
        perf_self_unmap(&self);
        close_all();
    }
}

static void regions_of_a_program(void)
{
    struct perf_self groups[2];
    struct perf_event events[2] = {event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS),
                                   event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)};
    struct perf_reading counted;
    memset(groups, 0, sizeof groups);
    groups[0].events = 2;
    groups[0].descriptors[0] = perf_open(&events[0], 0, -1, -1, 1, 0);
    groups[0].descriptors[1] = perf_open(&events[1], 0, -1, groups[0].descriptors[0], 1, 0);
    perf_enable(groups[0].descriptors[0], 1);
    regions_setup(groups, 1, 0);
    int outer = regions_find("outer"), inner = regions_find("inner");
    regions_begin(outer);
    loop(1000000);
    for (int i = 0; i < 3; i++) {
        regions_begin(inner);
        loop(500000);
        regions_end(inner);
        loop(1000);
    }
    start_threads(250000);
    regions_end(outer);
    regions_reading((uint32_t)inner, 0, &counted);
    say("inner region", (long long)counted.values[0]);
    say("inner region not running", (long long)(counted.enabled - counted.running));
    regions_reading((uint32_t)outer, 0, &counted);
    say("outer region", (long long)counted.values[0]);
    say("calls of inner", (long long)regions_calls((uint32_t)inner));
    close_all();
}

static void clock_of_a_ceiling(void)
{
    enum { SAMPLES = 3, THREADS = 2 };
    int32_t cpus[THREADS] = {0, 1};
    double seconds[SAMPLES], busy[SAMPLES], hertz[SAMPLES * THREADS];
    uint64_t iterations[SAMPLES];
    struct ceilings_result result = {.seconds = seconds, .iterations = iterations, .busy = busy, .counted_hz = hertz};
    struct ceilings_job job = {.threads = THREADS, .cpus = cpus, .samples = SAMPLES, .warmups = 1, .iterations = 20000};
    while (strcmp(ceilings_loop(job.loop)->mix, "ADD")) job.loop++;
    say("status of a ceiling", ceilings_run(&job, &result));
    say("cycles of a ceiling not counted", result.uncounted);
    for (int i = 0; i < SAMPLES * THREADS; i++) say("clock of a ceiling", hertz[i] > 0 ? (long long)hertz[i] : -1);
}

int main(void)
{
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mount("proc", "/proc", "proc", 0, 0);
    mount("sysfs", "/sys", "sysfs", 0, 0);
    FILE *file = fopen("/sys/bus/event_source/devices/armv8_pmuv3/type", "r");
    if (!file) file = fopen("/sys/bus/event_source/devices/armv8_pmuv3_0/type", "r");
    if (file && fscanf(file, "%u", &pmu_type) != 1) pmu_type = 0;
    say("PMU type", pmu_type);
    exact_counts();
    more_events_than_counters();
    counters_that_others_hold();
    threads_inherit();
    threads_that_exist();
    paranoid_levels();
    refusals();
    own_counters_read_directly();
    regions_of_a_program();
    clock_of_a_ceiling();
    say("done", 1);
    sync();
    reboot(RB_POWER_OFF);
}
