/* Calls a function through registers and stack words, without knowing its type.
 *
 * Every call fills all argument registers. A callee reads only those its own type names, and finds its stack
 * arguments at the bottom of the argument area, which is the caller's to remove: System V x86-64 ABI 1.0, 3.2.3;
 * AAPCS64, 6.8.2. So one C function type per number of stack words serves every signature of scalars and pointers.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include "run/run.h"

#if defined(__x86_64__)
#define INT_REGISTERS 6
#define INT_TYPES uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t
#define INT_VALUES(f) (f)->ints[0], (f)->ints[1], (f)->ints[2], (f)->ints[3], (f)->ints[4], (f)->ints[5]
#elif defined(__aarch64__)
#define INT_REGISTERS 8
#define INT_TYPES uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t
#define INT_VALUES(f) \
    (f)->ints[0], (f)->ints[1], (f)->ints[2], (f)->ints[3], (f)->ints[4], (f)->ints[5], (f)->ints[6], (f)->ints[7]
#else
#define INT_REGISTERS 0
#endif

uint32_t run_int_registers(void) { return INT_REGISTERS; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#if INT_REGISTERS
#define FLOAT_TYPES double, double, double, double, double, double, double, double
#define FLOAT_VALUES(f) \
    (f)->floats[0], (f)->floats[1], (f)->floats[2], (f)->floats[3], (f)->floats[4], (f)->floats[5], (f)->floats[6], \
    (f)->floats[7]
#define WORDS8 uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t
#define VALUES8(s) (s)[0], (s)[1], (s)[2], (s)[3], (s)[4], (s)[5], (s)[6], (s)[7]

#define DEFINE_TYPES(name, result) \
    typedef result (*name##0)(INT_TYPES, FLOAT_TYPES); \
    typedef result (*name##8)(INT_TYPES, FLOAT_TYPES, WORDS8); \
    typedef result (*name##32)(INT_TYPES, FLOAT_TYPES, WORDS8, WORDS8, WORDS8, WORDS8)
DEFINE_TYPES(int_call, uint64_t);
DEFINE_TYPES(double_call, double);
DEFINE_TYPES(float_call, float);

#define CALL0(name, f) ((name##0)(uintptr_t)function)(INT_VALUES(f), FLOAT_VALUES(f))
#define CALL8(name, f) ((name##8)(uintptr_t)function)(INT_VALUES(f), FLOAT_VALUES(f), VALUES8((f)->stack))
#define CALL32(name, f) \
    ((name##32)(uintptr_t)function)(INT_VALUES(f), FLOAT_VALUES(f), VALUES8((f)->stack), VALUES8((f)->stack + 8), \
                                    VALUES8((f)->stack + 16), VALUES8((f)->stack + 24))
#define CALL(name, f) \
    ((f)->stack_words == 0 ? CALL0(name, f) : (f)->stack_words <= 8 ? CALL8(name, f) : CALL32(name, f))

uint64_t run_call(uint64_t function, const struct run_frame *frame, double *float_result)
{
    if (frame->returns_float == 1)
        *float_result = CALL(double_call, frame);
    else if (frame->returns_float == 2)
        *float_result = (double)CALL(float_call, frame);
    else
        return CALL(int_call, frame);
    return 0;
}

double run_loop_seconds(uint64_t function, const struct run_frame *frame, uint64_t loops)
{
    double start = now();
    /* The result is dropped, so the integer call serves functions that return a floating-point number too. */
    if (frame->stack_words == 0)
        for (uint64_t i = 0; i < loops; i++) CALL0(int_call, frame);
    else if (frame->stack_words <= 8)
        for (uint64_t i = 0; i < loops; i++) CALL8(int_call, frame);
    else
        for (uint64_t i = 0; i < loops; i++) CALL32(int_call, frame);
    return now() - start;
}
#else
uint64_t run_call(uint64_t function, const struct run_frame *frame, double *float_result)
{
    (void)function, (void)frame, (void)float_result;
    return 0;
}

double run_loop_seconds(uint64_t function, const struct run_frame *frame, uint64_t loops)
{
    (void)function, (void)frame, (void)loops, (void)now;
    return 0;
}
#endif

uint64_t run_call_flagged(uint64_t function, const struct run_frame *frame, double *float_result, uint32_t set,
                          uint32_t *mxcsr)
{
#if defined(__x86_64__)
    const uint32_t flags = 0x3f; /* Intel SDM volume 1, 10.2.3 */
    uint32_t before, during;
    __asm__ volatile("stmxcsr %0" : "=m"(before));
    during = (before & ~flags) | set;
    __asm__ volatile("ldmxcsr %0" : : "m"(during) : "memory");
    uint64_t result = run_call(function, frame, float_result);
    __asm__ volatile("stmxcsr %0" : "=m"(*mxcsr) : : "memory");
    during = (*mxcsr & ~(set & ~before)) | (before & flags); /* what the function itself has set stays */
    __asm__ volatile("ldmxcsr %0" : : "m"(during) : "memory");
    return result;
#else
    (void)set;
    *mxcsr = 0;
    return run_call(function, frame, float_result);
#endif
}

uint32_t run_flush(const struct run_range *ranges, uint32_t count)
{
#if defined(__x86_64__)
    const uint64_t line = 64;
#elif defined(__aarch64__)
    uint64_t type;
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(type));
    const uint64_t line = 4u << (type >> 16 & 15); /* CTR_EL0.DminLine: log2 of words */
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    for (uint32_t r = 0; r < count; r++) {
        uint64_t end = ranges[r].start + ranges[r].bytes;
        for (uint64_t a = ranges[r].start & ~(line - 1); a < end; a += line)
#if defined(__x86_64__)
            __asm__ volatile("clflush (%0)" : : "r"(a) : "memory");
#else
            __asm__ volatile("dc civac, %0" : : "r"(a) : "memory");
#endif
    }
#if defined(__x86_64__)
    __asm__ volatile("mfence" : : : "memory"); /* clflush is ordered by mfence: SDM volume 2, CLFLUSH */
#else
    __asm__ volatile("dsb sy" : : : "memory");
#endif
    return 1;
#else
    (void)ranges, (void)count;
    return 0;
#endif
}

double run_cold_seconds(uint64_t function, const struct run_frame *frame, uint64_t loops,
                        const struct run_range *ranges, uint32_t count)
{
    double seconds = 0;
    for (uint64_t i = 0; i < loops; i++) {
        run_flush(ranges, count);
        seconds += run_loop_seconds(function, frame, 1);
    }
    return seconds;
}
