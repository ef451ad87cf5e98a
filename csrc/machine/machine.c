#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "machine/machine.h"

int machine_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *r)
{
#if defined(__x86_64__)
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    return 0;
#else
    (void)leaf, (void)subleaf, (void)r;
    return -1;
#endif
}

/* Not the time-stamp counter: it ticks at a fixed rate of its own, and the core does not. */
double machine_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define TIMES_8(text) text text text text text text text text
#define TIMES_64(text) TIMES_8(TIMES_8(text))

#if defined(__x86_64__)
/* Register operands: recent cores fold an addition of a small constant away while renaming. */
#define ADD "add %[one], %[x]\n\t"
#define MULTIPLY "imul %[one], %[x]\n\t"
#elif defined(__aarch64__)
#define ADD "add %[x], %[x], %[one]\n\t"
#define MULTIPLY "mul %[x], %[x], %[one]\n\t"
#endif

#if defined(ADD)
#define CHAIN(text) __asm__ volatile(TIMES_64(text) : [x] "+r"(x) : [one] "r"(one) : "cc")
#define ADD_64 CHAIN(ADD)
#define MULTIPLY_64 CHAIN(MULTIPLY)
#else
/* The empty asm makes every step's result opaque, so the compiler keeps each operation. */
#define STEP(op) x = x op one; __asm__ volatile("" : "+r"(x), "+r"(one));
#define ADD_64 TIMES_64(STEP(+))
#define MULTIPLY_64 TIMES_64(STEP(*))
#endif

double machine_add_chain(uint64_t operations)
{
    uint64_t x = 1, one = 1;
    double start = machine_seconds();
    for (uint64_t done = 0; done < operations; done += 64) {
        ADD_64;
    }
    return machine_seconds() - start;
}

double machine_multiply_chain(uint64_t operations)
{
    uint64_t x = 3, one = 5;
    double start = machine_seconds();
    for (uint64_t done = 0; done < operations; done += 64) {
        MULTIPLY_64;
    }
    return machine_seconds() - start;
}
