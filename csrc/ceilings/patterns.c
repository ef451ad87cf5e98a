/* Loops that do not go from one line to the next: a chain of pointers, and strides. Plain C, since they wait for memory
   and not for instructions; the empty asm statements keep every load. */
#include "ceilings/loops.h"

enum { LINE = 64, STRIDE_LINES = 4 };

uint64_t ceilings_chase(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    struct ceilings_line *first = (struct ceilings_line *)a, *line = first->reached;
    (void)mask, (void)b, (void)c;
    for (uint64_t i = 0; i < iterations; i++) {
        line = line->next;
        __asm__ volatile("" : "+r"(line));
    }
    first->reached = line;
    return iterations;
}

/* Puts walks as far from each other as they can be, so that none finds what another has just fetched. */
static void spread(struct ceilings_line *first, uint64_t count)
{
    struct ceilings_line *line = first;
    for (uint64_t i = 0, walk = 0; walk < CEILINGS_CHAINS; i++, line = line->next)
        for (; walk < CEILINGS_CHAINS && walk * count / CEILINGS_CHAINS == i; walk++) first[1 + walk].reached = line;
}

uint64_t ceilings_scatter(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    struct ceilings_line *first = (struct ceilings_line *)a, *walk[CEILINGS_CHAINS];
    uint64_t done = 0;
    (void)b, (void)c;
    if (!first[1].reached)
        spread(first, mask / LINE + 1);
    for (int i = 0; i < CEILINGS_CHAINS; i++) walk[i] = first[1 + i].reached;
    for (; done < iterations; done += CEILINGS_CHAINS)
        for (int i = 0; i < CEILINGS_CHAINS; i++) {
            walk[i] = walk[i]->next;
            __asm__ volatile("" : "+r"(walk[i]));
        }
    for (int i = 0; i < CEILINGS_CHAINS; i++) first[1 + i].reached = walk[i];
    return done;
}

static void load(const char *place)
{
    double value = *(const double *)place;
#if defined(__x86_64__)
    __asm__ volatile("" : : "x"(value));
#elif defined(__aarch64__)
    __asm__ volatile("" : : "w"(value));
#else
    __asm__ volatile("" : : "f"(value));
#endif
}

uint64_t ceilings_stride(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    uint64_t bytes = iterations * LINE, turn = mask < bytes ? mask + 1 : bytes, at = 0, first = 0;
    (void)b, (void)c;
    for (uint64_t i = 0; i < iterations; i++) {
        load((char *)a + first + at);
        at += STRIDE_LINES * LINE;
        if (at >= turn) { /* the next of the lines that were passed over */
            at = 0;
            first = (first + LINE) % (STRIDE_LINES * LINE);
        }
    }
    return iterations;
}

static inline uint64_t walk(uint64_t iterations, uint64_t lines, const double *a, uint64_t apart)
{
    uint64_t done = 0;
    while (done < iterations) {
        uint64_t end = iterations - done < lines ? iterations : done + lines;
        for (const char *place = (const char *)a; done < end; done++, place += apart) load(place);
    }
    return iterations;
}

uint64_t ceilings_walk(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    (void)b, (void)c;
    return walk(iterations, mask / LINE + 1, a, CEILINGS_WALK_LINES * LINE);
}

uint64_t ceilings_walk_far(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    (void)b, (void)c;
    return walk(iterations, mask / LINE + 1, a, CEILINGS_FAR_LINES * LINE);
}

uint64_t ceilings_walk_set(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    (void)b, (void)c;
    return walk(iterations, mask / LINE + 1, a, CEILINGS_SET_LINES * LINE);
}

/* Sattolo's shuffle: one cycle through all lines. xorshift64 (Marsaglia 2003) with a fixed seed. */
void ceilings_chain(struct ceilings_line *lines, uint64_t count)
{
    uint64_t random = 88172645463325252u;
    for (uint64_t i = 0; i < count; i++) lines[i].next = &lines[i];
    for (uint64_t i = count; i-- > 1;) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t other = random % i;
        struct ceilings_line *kept = lines[i].next;
        lines[i].next = lines[other].next;
        lines[other].next = kept;
    }
    lines[0].reached = lines;
    for (uint64_t i = 1; i <= CEILINGS_CHAINS && i < count; i++) lines[i].reached = NULL;
}
