/* Stands in front of liblikwid's counting functions (LD_PRELOAD), so that the real pylikwid finds a machine that counts:
 * one group FLOPS_DP with one event and one metric. */
#include <stdlib.h>
#include <string.h>

int perfmon_init(int threads, const int *cpus) { return (void)threads, (void)cpus, 0; }
void perfmon_finalize(void) {}
int perfmon_getGroups(char ***names, char ***infos, char ***texts)
{
    char ***lists[3] = {names, infos, texts};
    for (int i = 0; i < 3; i++) {
        *lists[i] = malloc(sizeof(char *));
        **lists[i] = strdup("FLOPS_DP");
    }
    return 1;
}
void perfmon_returnGroups(int count, char **names, char **infos, char **texts)
{
    (void)count, (void)names, (void)infos, (void)texts;
}
int perfmon_addEventSet(const char *name) { return strcmp(name, "FLOPS_DP") == 0 ? 0 : -22; }
int perfmon_setupCounters(int group) { return group; }
int perfmon_startCounters(void) { return 0; }
int perfmon_stopCounters(void) { return 0; }
int perfmon_getNumberOfThreads(void) { return 1; }
int perfmon_getNumberOfEvents(int group) { return (void)group, 1; }
int perfmon_getNumberOfMetrics(int group) { return (void)group, 1; }
char *perfmon_getEventName(int group, int event) { return (void)group, (void)event, "INSTR_RETIRED_ANY"; }
char *perfmon_getMetricName(int group, int metric) { return (void)group, (void)metric, "DP [MFLOP/s]"; }
double perfmon_getTimeOfGroup(int group) { return (void)group, 2.0; }
double perfmon_getLastResult(int group, int event, int thread) { return (void)group, (void)event, (void)thread, 5000.0; }
double perfmon_getLastMetric(int group, int metric, int thread) { return (void)group, (void)metric, (void)thread, 21.0; }
