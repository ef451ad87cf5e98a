/* Stretches of a program that have a name, and what the processor counted in them. */
struct perf_self;
struct perf_reading;

/* Takes groups that are open and enabled, to be read at the ends of regions; the structs are copied. `own_thread`:
   they count the calling thread alone, so that regions of others are refused. Regions known so far begin again at
   nothing. */
int regions_setup(const struct perf_self *groups, uint32_t count, uint32_t own_thread);
/* The number of a region of this name, a new one if there is none; -1 if there are too many. */
int regions_find(const char *name);
/* Begins and ends a region; they nest, on each thread by itself. 0, or -1 for one that is not open, that is nested too
   deep or on a thread that is not counted; such ends are in the region's failures. */
int regions_begin(int region);
int regions_end(int region);

uint32_t regions_count(void);
const char *regions_name(uint32_t region);
/* What was added up: times it was ended, how often that failed, seconds, and the counts of a group. */
uint64_t regions_calls(uint32_t region);
uint64_t regions_failures(uint32_t region);
double regions_seconds(uint32_t region);
void regions_reading(uint32_t region, uint32_t group, struct perf_reading *reading);
/* Nanoseconds, medians: of beginning a region, of ending one, and of reading the groups twice, which is what a region
   cannot do without. */
struct regions_cost {
    double begin, end, readings;
};
/* Begins and ends a region so many times; nanoseconds of both together, the median. -1 without memory, or for no
   times. */
double regions_cost(uint32_t times, struct regions_cost *cost);
