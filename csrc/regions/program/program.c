/* Regions of a program that is not Python's: what to count is in COUNTEROOF_REGION_EVENTS, the counts go to the file
 * that COUNTEROOF_REGION_FILE names when the program ends. Without these variables nothing happens. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "perf/perf.h"
#include "regions/regions.h"

static uint32_t counted_groups;
static struct perf_self opened[512];

/* Groups are separated by ';', events by ' ': "type,exclude,cpu,config,config1,config2". */
static int open_groups(char *text)
{
    char *next_group, *next_event;
    for (char *group = strtok_r(text, ";", &next_group); group && counted_groups < 512;
         group = strtok_r(NULL, ";", &next_group)) {
        struct perf_self *one = &opened[counted_groups];
        for (char *part = strtok_r(group, " ", &next_event); part; part = strtok_r(NULL, " ", &next_event)) {
            unsigned type, exclude;
            int cpu;
            unsigned long long config[3];
            if (sscanf(part, "%u,%u,%d,%llu,%llu,%llu", &type, &exclude, &cpu, &config[0], &config[1], &config[2]) != 6)
                return -1;
            struct perf_event event = {type, exclude, config[0], config[1], config[2]};
            int leader = one->events ? one->descriptors[0] : -1;
            int got = perf_open(&event, cpu < 0 ? 0 : -1, cpu, leader, cpu < 0, 0);
            if (got < 0) return got;
            one->descriptors[one->events++] = got;
        }
        if (one->events && perf_enable(one->descriptors[0], 1) == 0) counted_groups++;
    }
    return 0;
}

__attribute__((constructor)) static void begin_program(void)
{
    const char *events = getenv("COUNTEROOF_REGION_EVENTS");
    if (!events) return;
    char *text = strdup(events);
    int status = text ? open_groups(text) : -1;
    free(text);
    if (status < 0) fprintf(stderr, "counteroof: the events of the regions could not be opened (%d)\n", status);
    regions_setup(opened, status < 0 ? 0 : counted_groups, 0);
}

__attribute__((destructor)) static void end_program(void)
{
    const char *path = getenv("COUNTEROOF_REGION_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (uint32_t r = 0; r < regions_count(); r++) {
        fprintf(file, "%llu\t%llu\t%.9f\t%u", (unsigned long long)regions_calls(r),
                (unsigned long long)regions_failures(r), regions_seconds(r), counted_groups);
        for (uint32_t g = 0; g < counted_groups; g++) {
            struct perf_reading reading;
            regions_reading(r, g, &reading);
            fprintf(file, "\t%llu\t%llu", (unsigned long long)reading.enabled, (unsigned long long)reading.running);
            for (uint32_t i = 0; i < opened[g].events; i++)
                fprintf(file, "\t%llu", (unsigned long long)reading.values[i]);
        }
        fprintf(file, "\t%s\n", regions_name(r));
    }
    fclose(file);
}
