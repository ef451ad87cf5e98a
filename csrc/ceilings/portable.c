/* The loops for processors other than x86-64: C, with vectors where the processor always has them (NEON).

   An empty asm statement after each operation makes its result opaque in a register: the compiler can neither merge
   chains that look alike, nor fuse, reorder or vectorise. Fused operations are asked for by name. */
#if !defined(__x86_64__)
#include "ceilings/loops.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define KEEP(v) __asm__ volatile("" : "+w"(v))
#else
#define KEEP(v) __asm__ volatile("" : "+f"(v))
#endif

#define CHAINS_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAINS_24(X) CHAINS_12(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)

#define DECLARE(i) T x##i = start;
#define FINISH(i) KEEP(x##i);
#define ADD(i) x##i = x##i + addend; KEEP(x##i);
#define MUL(i) x##i = x##i * factor; KEEP(x##i);
#define FMA(i) x##i = FUSE(addend, x##i, factor); KEEP(x##i);
#define MIX_FMA FMA(0) FMA(1) FMA(2) FMA(3) FMA(4) FMA(5) FMA(6) FMA(7) FMA(8) FMA(9) FMA(10) FMA(11) \
    FMA(12) FMA(13) FMA(14) FMA(15) FMA(16) FMA(17) FMA(18) FMA(19) FMA(20) FMA(21) FMA(22) FMA(23)
#define MIX_ADD ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(8) ADD(9) ADD(10) ADD(11) \
    ADD(12) ADD(13) ADD(14) ADD(15) ADD(16) ADD(17) ADD(18) ADD(19) ADD(20) ADD(21) ADD(22) ADD(23)
#define MIX_ADD_MUL ADD(0) MUL(1) ADD(2) MUL(3) ADD(4) MUL(5) ADD(6) MUL(7) ADD(8) MUL(9) ADD(10) MUL(11) \
    ADD(12) MUL(13) ADD(14) MUL(15) ADD(16) MUL(17) ADD(18) MUL(19) ADD(20) MUL(21) ADD(22) MUL(23)
#define MIX_FMA_ADD FMA(0) ADD(1) FMA(2) ADD(3) FMA(4) ADD(5) FMA(6) ADD(7) FMA(8) ADD(9) FMA(10) ADD(11) \
    FMA(12) ADD(13) FMA(14) ADD(15) FMA(16) ADD(17) FMA(18) ADD(19) FMA(20) ADD(21) FMA(22) ADD(23)
#define FMA_0(i) FMA(0)
#define FMA_4(i) FMA(0) FMA(1) FMA(2) FMA(3)
#define ADD_0(i) ADD(0)
#define DIV(i) { T quotient = x##i / factor; KEEP(quotient); }
#define MIX_FMA_1 CHAINS_24(FMA_0)
#define MIX_FMA_4 FMA_4(0) FMA_4(1) FMA_4(2) FMA_4(3) FMA_4(4) FMA_4(5)
#define MIX_ADD_1 CHAINS_24(ADD_0)
#define MIX_DIV CHAINS_24(DIV)
enum { CHAINS = 24 };

#define COMPUTE_LOOP(name, type, epsilon, mix)                                                                     \
    static uint64_t name(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)                      \
    {                                                                                                              \
        typedef type T;                                                                                            \
        T start = (T){0} + 1, factor = start + epsilon, addend = factor - start;                                \
        uint64_t done = 0;                                                                                         \
        (void)mask, (void)a, (void)b, (void)c;                                                                     \
        KEEP(start);                                                                                               \
        KEEP(factor);                                                                                              \
        KEEP(addend);                                                                                              \
        CHAINS_24(DECLARE)                                                                                         \
        for (; done < iterations; done++) {                                                                        \
            mix                                                                                                    \
        }                                                                                                          \
        CHAINS_24(FINISH)                                                                                          \
        return done;                                                                                               \
    }

#define EPSILON_f64 0x1p-30
#define EPSILON_f32 0x1p-20f
#define PLAIN_LOOPS(name, type, epsilon)                                                                           \
    COMPUTE_LOOP(name##_add, type, epsilon, MIX_ADD)                                                               \
    COMPUTE_LOOP(name##_add_mul, type, epsilon, MIX_ADD_MUL)                                                       \
    COMPUTE_LOOP(name##_add_1, type, epsilon, MIX_ADD_1)                                                           \
    COMPUTE_LOOP(name##_div, type, epsilon, MIX_DIV)
#define FUSED_LOOPS(name, type, epsilon)                                                                           \
    COMPUTE_LOOP(name##_fma, type, epsilon, MIX_FMA)                                                               \
    COMPUTE_LOOP(name##_fma_add, type, epsilon, MIX_FMA_ADD)                                                       \
    COMPUTE_LOOP(name##_fma_1, type, epsilon, MIX_FMA_1)                                                           \
    COMPUTE_LOOP(name##_fma_4, type, epsilon, MIX_FMA_4)

PLAIN_LOOPS(scalar_f64, double, EPSILON_f64)
PLAIN_LOOPS(scalar_f32, float, EPSILON_f32)
#if defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)
#define FUSE(addend, x, factor) __builtin_fma(x, factor, addend)
FUSED_LOOPS(scalar_f64, double, EPSILON_f64)
#undef FUSE
#define FUSE(addend, x, factor) __builtin_fmaf(x, factor, addend)
FUSED_LOOPS(scalar_f32, float, EPSILON_f32)
#undef FUSE
#endif
#if defined(__aarch64__)
PLAIN_LOOPS(vector_f64, float64x2_t, EPSILON_f64)
PLAIN_LOOPS(vector_f32, float32x4_t, EPSILON_f32)
#define FUSE(addend, x, factor) vfmaq_f64(addend, x, factor)
FUSED_LOOPS(vector_f64, float64x2_t, EPSILON_f64)
#undef FUSE
#define FUSE(addend, x, factor) vfmaq_f32(addend, x, factor)
FUSED_LOOPS(vector_f32, float32x4_t, EPSILON_f32)
#undef FUSE
#endif

/* ---- memory: 128 bytes of each stream an iteration ---- */
#if defined(__aarch64__)
#define MEMORY_ISA "NEON"
typedef float64x2_t element;
#else
#define MEMORY_ISA "scalar"
typedef double element;
#endif
enum { CHUNK = 128, ELEMENTS = CHUNK / sizeof(element) };

#define MEMORY_LOOP(name, body)                                                                                    \
    static uint64_t name(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)                      \
    {                                                                                                              \
        uint64_t done = 0;                                                                                         \
        element factor = (element){0} + 1;                                                                         \
        (void)b, (void)c;                                                                                          \
        KEEP(factor);                                                                                              \
        for (; done < iterations; done++) {                                                                        \
            uint64_t at = (done * CHUNK & mask) / sizeof(element);                                                 \
            _Pragma("GCC unroll 16") for (uint64_t i = at; i < at + ELEMENTS; i++)                                 \
            {                                                                                                      \
                element v;                                                                                         \
                body                                                                                               \
            }                                                                                                      \
        }                                                                                                          \
        return done;                                                                                               \
    }
#define A ((element *)a)[i]
#define B ((element *)b)[i]
#define C ((element *)c)[i]
#define D ((element *)(c + (c - b)))[i]
MEMORY_LOOP(memory_read, v = A; KEEP(v);)
MEMORY_LOOP(memory_copy, v = B; KEEP(v); A = v;)
MEMORY_LOOP(memory_update, v = A * factor; KEEP(v); A = v;)
MEMORY_LOOP(memory_triad, v = C * factor; KEEP(v); v = v + B; KEEP(v); A = v;)
MEMORY_LOOP(memory_store, v = factor; KEEP(v); A = v;)
MEMORY_LOOP(memory_place, v = B; KEEP(v); v = A; KEEP(v); A = v;)
MEMORY_LOOP(memory_2_1, v = C; KEEP(v); v = B; KEEP(v); A = v;)
MEMORY_LOOP(memory_3_1, v = D; KEEP(v); v = C; KEEP(v); v = B; KEEP(v); A = v;)
MEMORY_LOOP(memory_1_2, v = C; KEEP(v); A = v; B = v;)

/* Any number of streams: a part of each that is read, then one of each that is written. */
static uint64_t memory_any(uint64_t iterations, uint64_t mask, double *a, double *b, double *c)
{
    uint64_t loads = (uint64_t)(uintptr_t)c / CEILINGS_LOADS, stores = (uint64_t)(uintptr_t)c % CEILINGS_LOADS;
    uint64_t done = 0, apart = (uint64_t)((char *)b - (char *)a);
    element v = (element){0} + 1;
    for (; done < iterations; done++) {
        char *place = (char *)a + (done * CHUNK & mask);
        for (uint64_t stream = 0; stream < loads; stream++, place += apart)
            for (uint64_t i = 0; i < ELEMENTS; i++) {
                v = ((element *)place)[i];
                KEEP(v);
            }
        for (uint64_t stream = 0; stream < stores; stream++, place += apart)
            for (uint64_t i = 0; i < ELEMENTS; i++) ((element *)place)[i] = v;
    }
    return done;
}

/* ---- the table ---- */

/* pair: the FLOPs of two neighbouring chains, fused_pair: those of them that are fused. */
#define COMPUTE(name, isa, precision, lanes, mix, pair, fused_pair)                                  \
    {mix, isa, "", precision, "", "", 0, CHAINS / 2 * (pair) * (lanes), CHAINS / 2 * (fused_pair) * (lanes), \
     name}
#define PLAIN_ENTRIES(name, isa, precision, lanes)                                                               \
    COMPUTE(name##_add, isa, precision, lanes, "ADD", 2, 0),                                                       \
        COMPUTE(name##_add_mul, isa, precision, lanes, "ADD+MUL 1:1", 2, 0),                                       \
        COMPUTE(name##_add_1, isa, precision, lanes, "ADD 1 chain", 2, 0),                                         \
        COMPUTE(name##_div, isa, precision, lanes, "DIV", 2, 0)
#define FUSED_ENTRIES(name, isa, precision, lanes)                                                                   \
    COMPUTE(name##_fma, isa, precision, lanes, "FMA", 4, 4),                                                       \
        COMPUTE(name##_fma_add, isa, precision, lanes, "FMA+ADD 1:1", 3, 2),                                       \
        COMPUTE(name##_fma_1, isa, precision, lanes, "FMA 1 chain", 4, 4),                                         \
        COMPUTE(name##_fma_4, isa, precision, lanes, "FMA 4 chains", 4, 4)

const struct ceilings_loop ceilings_table[] = {
#if defined(__aarch64__)
    FUSED_ENTRIES(vector_f64, "NEON", "f64", 2),
    FUSED_ENTRIES(vector_f32, "NEON", "f32", 4),
    PLAIN_ENTRIES(vector_f64, "NEON", "f64", 2),
    PLAIN_ENTRIES(vector_f32, "NEON", "f32", 4),
#endif
#if defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF)
    FUSED_ENTRIES(scalar_f64, "scalar", "f64", 1),
    FUSED_ENTRIES(scalar_f32, "scalar", "f32", 1),
#endif
    PLAIN_ENTRIES(scalar_f64, "scalar", "f64", 1),
    PLAIN_ENTRIES(scalar_f32, "scalar", "f32", 1),
    {"read", MEMORY_ISA, "", "f64", "r", "in turn", CHUNK, 0, 0, memory_read},
    {"copy", MEMORY_ISA, "", "f64", "wr", "in turn", CHUNK, 0, 0, memory_copy},
    {"triad", MEMORY_ISA, "", "f64", "wrr", "in turn", CHUNK, CHUNK / 8 * 2, 0, memory_triad},
    {"update", MEMORY_ISA, "", "f64", "u", "in turn", CHUNK, CHUNK / 8, 0, memory_update},
    {"store", MEMORY_ISA, "", "f64", "w", "in turn", CHUNK, 0, 0, memory_store},
    {"2:1 in place", MEMORY_ISA, "", "f64", "ur", "in turn", CHUNK, 0, 0, memory_place},
    {"2:1", MEMORY_ISA, "", "f64", "wrr", "in turn", CHUNK, 0, 0, memory_2_1},
    {"3:1", MEMORY_ISA, "", "f64", "wrrr", "in turn", CHUNK, 0, 0, memory_3_1},
    {"1:2", MEMORY_ISA, "", "f64", "wwr", "in turn", CHUNK, 0, 0, memory_1_2},
    {"any", MEMORY_ISA, "", "f64", "*", "loads first", CHUNK, 0, 0, memory_any},
    PATTERN_ENTRIES,
};
const uint32_t ceilings_table_length = sizeof ceilings_table / sizeof ceilings_table[0];

int ceilings_isa_usable(const struct ceilings_loop *loop)
{
    (void)loop;
    return 1;
}
#endif
