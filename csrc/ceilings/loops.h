/* The table of one architecture, defined in x86.c or portable.c. */
#ifndef COUNTEROOF_CEILINGS_LOOPS_H
#define COUNTEROOF_CEILINGS_LOOPS_H
#include <stddef.h>
#include <stdint.h>

#include "ceilings/ceilings.h"

extern const struct ceilings_loop ceilings_table[];
extern const uint32_t ceilings_table_length;
int ceilings_isa_usable(const struct ceilings_loop *);

/* A line of a chain that leads through all lines of a thread's memory; `reached` of the first is where the last walk
   ended, so that the next meets other lines, and those of the following ones are where walks side by side did, NULL
   before the first. */
struct ceilings_line {
    struct ceilings_line *next, *reached;
    uint64_t unused[6];
};
void ceilings_chain(struct ceilings_line *lines, uint64_t count);
uint64_t ceilings_chase(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
/* Side by side: more than cores have places for lines on their way into the first cache. */
enum { CEILINGS_CHAINS = 32 };
uint64_t ceilings_scatter(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
static inline int ceilings_follows(const struct ceilings_loop *loop) /* a chain */
{
    return loop->run == ceilings_chase || loop->run == ceilings_scatter;
}
uint64_t ceilings_stride(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
uint64_t ceilings_walk(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
uint64_t ceilings_walk_far(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
uint64_t ceilings_walk_set(uint64_t iterations, uint64_t mask, double *a, double *b, double *c);
/* How many lines lie between the beginnings of two that follow each other; 0: that is for the mask to say. */
static inline uint64_t ceilings_apart(const struct ceilings_loop *loop)
{
    if (loop->run == ceilings_walk) return CEILINGS_WALK_LINES;
    if (loop->run == ceilings_walk_far) return CEILINGS_FAR_LINES;
    return loop->run == ceilings_walk_set ? CEILINGS_SET_LINES : 0;
}
#define PATTERN_ENTRIES                                                                                            \
    {"random", "scalar", "", "f64", "r", "chain", 64, 0, 0, ceilings_chase},                                       \
        {"scattered", "scalar", "", "f64", "r", "chains", 64, 0, 0, ceilings_scatter},                                \
        {"strided", "scalar", "", "f64", "r", "stride", 64, 0, 0, ceilings_stride},                                \
        {"walk", "scalar", "", "f64", "r", "pages", 64, 0, 0, ceilings_walk},                                       \
        {"far walk", "scalar", "", "f64", "r", "far pages", 64, 0, 0, ceilings_walk_far},                              \
        {"same set", "scalar", "", "f64", "r", "set", 64, 0, 0, ceilings_walk_set}
#endif
