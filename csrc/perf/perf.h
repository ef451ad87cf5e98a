/* Events of perf_event_open: opened one by one, read as groups, and calls counted with them. */
struct run_frame;
struct run_range;

/* What to count. `exclude` has bit 0 for user mode, bit 1 for the kernel, bit 2 for the hypervisor. */
struct perf_event {
    uint32_t type;
    uint32_t exclude;
    uint64_t config, config1, config2;
};

/* Counts of one group, with the nanoseconds it was enabled and those it was on the counters. */
struct perf_reading {
    uint64_t enabled, running;
    uint64_t values[16]; /* as many as a group may have events */
};

/* A group that is open. `counted` adds up what perf_begin and perf_end enclosed. */
struct perf_group {
    int32_t leader;  /* its file descriptor */
    uint32_t events;
    uint32_t system; /* 1: counts a whole processor or socket, whoever runs on it; 0: threads */
    int32_t error;   /* errno of the first failure, 0 if there was none */
    struct perf_reading start, counted;
};

/* Opens an event; `leader` is -1 for one that leads a group. `inherit`: threads that its thread starts later are
   counted too (before Linux 5.13 also processes). `enabled`: the leader counts from now on, and so is in the kernel's
   check of what fits into the group (arm_pmu.c leaves out a leader that is off). Returns a file descriptor, or
   -errno. */
int perf_open(const struct perf_event *event, int pid, int cpu, int leader, uint32_t inherit, uint32_t enabled);
void perf_close(int descriptor);
/* Starts (1) or stops (0) a group; 0 or -errno. */
int perf_enable(int leader, uint32_t enable);
/* Reads a group; 0, or -errno, which is -ENODATA for a group that the kernel gave up. */
int perf_read(int leader, uint32_t events, struct perf_reading *reading);

/* Groups of threads are started in the order from last to first and stopped from first to last, so that the calling
   thread's own, the first, encloses least. Groups of whole processors are started first, and what they count from
   one reading to the other is taken: the first value of some counters is garbage. Both return the number of groups
   that failed, now or before. */
uint32_t perf_begin(struct perf_group *groups, uint32_t count);
uint32_t perf_end(struct perf_group *groups, uint32_t count);
/* Seconds of `loops` calls with the groups around all of them, or if there are ranges, which are evicted from the
   caches before each call, around each. */
double perf_count_calls(uint64_t function, const struct run_frame *frame, uint64_t loops,
                        const struct run_range *ranges, uint32_t range_count, struct perf_group *groups,
                        uint32_t count);
/* Seconds slept with the groups around it, for what moves without us. */
double perf_count_sleep(double seconds, struct perf_group *groups, uint32_t count);

/* One group of the calling thread, read without a system call where processor and kernel allow it. */
struct perf_self {
    int32_t descriptors[16]; /* the leader is first */
    void *pages[16];         /* NULL: read with a system call */
    uint32_t events;
};
/* Maps the pages of the events; returns for how many of them it went. */
uint32_t perf_self_map(struct perf_self *self);
void perf_self_unmap(struct perf_self *self);
/* Reads the group; 0 or -errno. `*direct` becomes 1 if no system call was needed, else 0. Read directly, `enabled`
   and `running` are of the last time the kernel updated them; their difference is always right. */
int perf_self_read(const struct perf_self *self, struct perf_reading *reading, uint32_t *direct);
/* Nanoseconds that one pair of readings of the group takes, the least of `times`; -errno if it cannot be read. */
double perf_self_cost(const struct perf_self *self, uint32_t times);
