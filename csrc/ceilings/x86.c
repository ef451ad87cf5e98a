/* The loops for x86-64: one asm statement each, from the first instruction to the backward jump.

   The FLOPs of the table are counted by the preprocessor from the very list of instructions that makes the loop. */
#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>

#include "ceilings/loops.h"

#define UNUSED(x) (void)(x)

/* ---- compute ----
   Registers: 0-11 hold chains (each operation needs the chain's previous one), 14 and 15 constants, 12 and 13 take
   results that nothing waits for. Twelve chains are enough for two units of four cycles; what is issued beside them
   reads a chain and starts none, so sixteen registers suffice for mixes that keep four units busy.
   F: fused multiply-add of a chain, A: addition to one, M: multiplication of one; a, m: the same into 12 and 13. */
#define MIX_FMA(F, A, M, a, m) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define MIX_ADD(F, A, M, a, m) A(0) A(1) A(2) A(3) A(4) A(5) A(6) A(7) A(8) A(9) A(10) A(11)
#define MIX_MUL(F, A, M, a, m) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define MIX_FMA_ADD_1_1(F, A, M, a, m)                                                                             \
    F(0) a(0) F(1) a(1) F(2) a(2) F(3) a(3) F(4) a(4) F(5) a(5)                                                    \
    F(6) a(6) F(7) a(7) F(8) a(8) F(9) a(9) F(10) a(10) F(11) a(11)
#define MIX_FMA_ADD_2_1(F, A, M, a, m)                                                                             \
    F(0) F(1) a(0) F(2) F(3) a(2) F(4) F(5) a(4) F(6) F(7) a(6) F(8) F(9) a(8) F(10) F(11) a(10)
#define MIX_ADD_MUL(F, A, M, a, m)                                                                                 \
    A(0) m(0) A(1) m(1) A(2) m(2) A(3) m(3) A(4) m(4) A(5) m(5)                                                    \
    A(6) m(6) A(7) m(7) A(8) m(8) A(9) m(9) A(10) m(10) A(11) m(11)
/* Few chains: what code reaches whose operations wait for each other, as a sum in one variable does. */
#define MIX_FMA_1(F, A, M, a, m) F(0) F(0) F(0) F(0) F(0) F(0) F(0) F(0) F(0) F(0) F(0) F(0)
#define MIX_FMA_4(F, A, M, a, m) F(0) F(1) F(2) F(3) F(0) F(1) F(2) F(3) F(0) F(1) F(2) F(3)
#define MIX_ADD_1(F, A, M, a, m) A(0) A(0) A(0) A(0) A(0) A(0) A(0) A(0) A(0) A(0) A(0) A(0)
/* Nothing waits for anything; of m, divisions and square roots. */
#define MIX_FREE(F, A, M, a, m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11)
/* Three-operand encoding (VEX, EVEX) of one register name and one suffix. */
#define VEX_F(reg, suffix, i) "vfmadd213" suffix " %%" reg "15, %%" reg "14, %%" reg #i "\n\t"
#define VEX_A(reg, suffix, i) "vadd" suffix " %%" reg "15, %%" reg #i ", %%" reg #i "\n\t"
#define VEX_M(reg, suffix, i) "vmul" suffix " %%" reg "14, %%" reg #i ", %%" reg #i "\n\t"
#define VEX_a(reg, suffix, i) "vadd" suffix " %%" reg "15, %%" reg #i ", %%" reg "12\n\t"
#define VEX_m(reg, suffix, i) "vmul" suffix " %%" reg "14, %%" reg #i ", %%" reg "13\n\t"
/* The results have all bits of the mantissa: some dividers are done sooner with few. */
#define VEX_D(reg, suffix, i) "vdiv" suffix " %%" reg "14, %%" reg #i ", %%" reg "13\n\t"
#define VEX_R(reg, suffix, i) "vsqrt" suffix " %%" reg "14, %%" reg "13\n\t"
#define VEX_R_SCALAR(suffix, i) "vsqrt" suffix " %%xmm14, %%xmm14, %%xmm13\n\t"
#define LEGACY_D(suffix, i) "movapd %%xmm" #i ", %%xmm13\n\tdiv" suffix " %%xmm14, %%xmm13\n\t"
/* The copy frees a scalar root from the rest of the register that it keeps. */
#define LEGACY_R(suffix, i) "movapd %%xmm" #i ", %%xmm13\n\tsqrt" suffix " %%xmm14, %%xmm13\n\t"
#define DOT_BF16(i) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" #i "\n\t"
#define DOT_INT8(i) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #i "\n\t"
#define LEGACY_A(suffix, i) "add" suffix " %%xmm15, %%xmm" #i "\n\t"
#define LEGACY_M(suffix, i) "mul" suffix " %%xmm14, %%xmm" #i "\n\t"
/* A two-operand instruction overwrites what it reads, so it works on a copy; renaming makes that, no execution unit.
   movapd for f32 too: with the shorter movaps, Zen 5 issues an eighth less. */
#define LEGACY_m(suffix, i) "movapd %%xmm" #i ", %%xmm13\n\tmul" suffix " %%xmm14, %%xmm13\n\t"

#define ZMM_PD_D(i) VEX_D("zmm", "pd", i)
#define ZMM_PD_R(i) VEX_R("zmm", "pd", i)
#define ZMM_PD_F(i) VEX_F("zmm", "pd", i)
#define ZMM_PD_A(i) VEX_A("zmm", "pd", i)
#define ZMM_PD_M(i) VEX_M("zmm", "pd", i)
#define ZMM_PD_a(i) VEX_a("zmm", "pd", i)
#define ZMM_PD_m(i) VEX_m("zmm", "pd", i)
#define ZMM_PS_D(i) VEX_D("zmm", "ps", i)
#define ZMM_PS_R(i) VEX_R("zmm", "ps", i)
#define ZMM_PS_F(i) VEX_F("zmm", "ps", i)
#define ZMM_PS_A(i) VEX_A("zmm", "ps", i)
#define ZMM_PS_M(i) VEX_M("zmm", "ps", i)
#define ZMM_PS_a(i) VEX_a("zmm", "ps", i)
#define ZMM_PS_m(i) VEX_m("zmm", "ps", i)
#define YMM_PD_D(i) VEX_D("ymm", "pd", i)
#define YMM_PD_R(i) VEX_R("ymm", "pd", i)
#define YMM_PD_F(i) VEX_F("ymm", "pd", i)
#define YMM_PD_A(i) VEX_A("ymm", "pd", i)
#define YMM_PD_M(i) VEX_M("ymm", "pd", i)
#define YMM_PD_a(i) VEX_a("ymm", "pd", i)
#define YMM_PD_m(i) VEX_m("ymm", "pd", i)
#define YMM_PS_D(i) VEX_D("ymm", "ps", i)
#define YMM_PS_R(i) VEX_R("ymm", "ps", i)
#define YMM_PS_F(i) VEX_F("ymm", "ps", i)
#define YMM_PS_A(i) VEX_A("ymm", "ps", i)
#define YMM_PS_M(i) VEX_M("ymm", "ps", i)
#define YMM_PS_a(i) VEX_a("ymm", "ps", i)
#define YMM_PS_m(i) VEX_m("ymm", "ps", i)
#define XMM_SD_D(i) VEX_D("xmm", "sd", i)
#define XMM_SD_R(i) VEX_R_SCALAR("sd", i)
#define XMM_SD_F(i) VEX_F("xmm", "sd", i)
#define XMM_SD_A(i) VEX_A("xmm", "sd", i)
#define XMM_SD_M(i) VEX_M("xmm", "sd", i)
#define XMM_SD_a(i) VEX_a("xmm", "sd", i)
#define XMM_SD_m(i) VEX_m("xmm", "sd", i)
#define XMM_SS_D(i) VEX_D("xmm", "ss", i)
#define XMM_SS_R(i) VEX_R_SCALAR("ss", i)
#define XMM_SS_F(i) VEX_F("xmm", "ss", i)
#define XMM_SS_A(i) VEX_A("xmm", "ss", i)
#define XMM_SS_M(i) VEX_M("xmm", "ss", i)
#define XMM_SS_a(i) VEX_a("xmm", "ss", i)
#define XMM_SS_m(i) VEX_m("xmm", "ss", i)
#define OLD_PD_D(i) LEGACY_D("pd", i)
#define OLD_PD_R(i) LEGACY_R("pd", i)
#define OLD_PD_A(i) LEGACY_A("pd", i)
#define OLD_PD_M(i) LEGACY_M("pd", i)
#define OLD_PD_m(i) LEGACY_m("pd", i)
#define OLD_PS_D(i) LEGACY_D("ps", i)
#define OLD_PS_R(i) LEGACY_R("ps", i)
#define OLD_PS_A(i) LEGACY_A("ps", i)
#define OLD_PS_M(i) LEGACY_M("ps", i)
#define OLD_PS_m(i) LEGACY_m("ps", i)
#define OLD_SD_D(i) LEGACY_D("sd", i)
#define OLD_SD_R(i) LEGACY_R("sd", i)
#define OLD_SD_A(i) LEGACY_A("sd", i)
#define OLD_SD_M(i) LEGACY_M("sd", i)
#define OLD_SD_m(i) LEGACY_m("sd", i)
#define OLD_SS_D(i) LEGACY_D("ss", i)
#define OLD_SS_R(i) LEGACY_R("ss", i)
#define OLD_SS_A(i) LEGACY_A("ss", i)
#define OLD_SS_M(i) LEGACY_M("ss", i)
#define OLD_SS_m(i) LEGACY_m("ss", i)
#if defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 12
#define HALF_PRECISION /* compilers and assemblers that know AVX512-FP16 */
#define ZMM_PH_F(i) VEX_F("zmm", "ph", i)
#define ZMM_PH_A(i) VEX_A("zmm", "ph", i)
#define ZMM_PH_M(i) VEX_M("zmm", "ph", i)
#define ZMM_PH_a(i) VEX_a("zmm", "ph", i)
#define ZMM_PH_m(i) VEX_m("zmm", "ph", i)
#define ZMM_PH_D(i) VEX_D("zmm", "ph", i)
#define ZMM_PH_R(i) VEX_R("zmm", "ph", i)
#endif
#define NONE(i)

#define ONE(i) +1
#define TWO(i) +2
#define OPERATIONS(MIX) (0 MIX(TWO, ONE, ONE, ONE, ONE))
#define FUSED(MIX) (0 MIX(TWO, NONE, NONE, NONE, NONE))

/* Chains start at 1 and grow by less than a factor e^100 in 10^8 iterations: no denormals, which slow some cores. */
static const double factor_f64[8] __attribute__((aligned(64))) = {[0 ... 7] = 1 + 0x1p-30};
static const double addend_f64[8] __attribute__((aligned(64))) = {[0 ... 7] = 0x1p-30};
static const double ones_f64[8] __attribute__((aligned(64))) = {[0 ... 7] = 1};
static const float factor_f32[16] __attribute__((aligned(64))) = {[0 ... 15] = 1 + 0x1p-20f};
static const float addend_f32[16] __attribute__((aligned(64))) = {[0 ... 15] = 0x1p-20f};
static const float ones_f32[16] __attribute__((aligned(64))) = {[0 ... 15] = 1};
#ifdef HALF_PRECISION
static const uint16_t factor_f16[32] __attribute__((aligned(64))) = {[0 ... 31] = 0x3c01}; /* 1 + 2^-10 */
static const uint16_t addend_f16[32] __attribute__((aligned(64))) = {[0 ... 31] = 0x1400}; /* 2^-10 */
static const uint16_t ones_f16[32] __attribute__((aligned(64))) = {[0 ... 31] = 0x3c00};
#endif
/* Dot products: products of these are added to sums in f32, and in 32-bit integers, which wrap. */
static const uint16_t factor_bf16[32] __attribute__((aligned(64))) = {[0 ... 31] = 0x3f80}; /* 1 */
static const uint16_t addend_bf16[32] __attribute__((aligned(64))) = {[0 ... 31] = 0x3580}; /* 2^-20 */
#define ones_bf16 ones_f32
static const int8_t factor_int8[64] __attribute__((aligned(64))) = {[0 ... 63] = 3};
static const int8_t addend_int8[64] __attribute__((aligned(64))) = {[0 ... 63] = 5};
#define ones_int8 ones_f32

#define XMM_0_TO_13(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define VECTORS_CLOBBERED                                                                                          \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",     \
        "xmm13", "xmm14", "xmm15", "cc", "memory"

#define LOAD_ZMM(i) "vmovupd (%[ones]), %%zmm" #i "\n\t"
#define LOAD_YMM(i) "vmovupd (%[ones]), %%ymm" #i "\n\t"
#define LOAD_XMM(i) "vmovupd (%[ones]), %%xmm" #i "\n\t"
#define LOAD_OLD(i) "movupd (%[ones]), %%xmm" #i "\n\t"

#define COMPUTE_LOOP(name, feature, load, reg, LOAD, type, body, finish)                                           \
    __attribute__((target(feature), noinline)) static uint64_t name(uint64_t iterations, uint64_t mask, double *a, \
                                                                    double *b, double *c)                          \
    {                                                                                                              \
        uint64_t done = 0;                                                                                         \
        UNUSED(mask), UNUSED(a), UNUSED(b), UNUSED(c);                                                             \
        __asm__ volatile(load " (%[factor]), %%" reg "14\n\t" load " (%[addend]), %%" reg "15\n\t"                 \
                         XMM_0_TO_13(LOAD)                                                                         \
                         ".p2align 6\n"                                                                            \
                         "1:\n\t" body                                                                             \
                         "inc %[done]\n\t"                                                                         \
                         "cmp %[iterations], %[done]\n\t"                                                          \
                         "jb 1b\n\t" finish                                                                        \
                         : [done] "+r"(done)                                                                       \
                         : [iterations] "r"(iterations), [factor] "r"(factor_##type), [addend] "r"(addend_##type), \
                           [ones] "r"(ones_##type)                                                                 \
                         : VECTORS_CLOBBERED);                                                                     \
        return done;                                                                                               \
    }

#define CLEAN "vzeroupper\n\t"
/* Without fused multiply-adds, 256-bit and scalar loops need no more than AVX. */
#define VEX_LOOPS(name, feature, fused_feature, load, reg, LOAD, type, E)                                             \
    COMPUTE_LOOP(name##_fma, fused_feature, load, reg, LOAD, type, MIX_FMA(E##_F, E##_A, E##_M, E##_a, E##_m), CLEAN) \
    COMPUTE_LOOP(name##_add, feature, load, reg, LOAD, type, MIX_ADD(E##_F, E##_A, E##_M, E##_a, E##_m), CLEAN)       \
    COMPUTE_LOOP(name##_mul, feature, load, reg, LOAD, type, MIX_MUL(E##_F, E##_A, E##_M, E##_a, E##_m), CLEAN)       \
    COMPUTE_LOOP(name##_fma_add_1_1, fused_feature, load, reg, LOAD, type,                                            \
                 MIX_FMA_ADD_1_1(E##_F, E##_A, E##_M, E##_a, E##_m), CLEAN)                                           \
    COMPUTE_LOOP(name##_fma_add_2_1, fused_feature, load, reg, LOAD, type,                                            \
                 MIX_FMA_ADD_2_1(E##_F, E##_A, E##_M, E##_a, E##_m), CLEAN)                                           \
    COMPUTE_LOOP(name##_add_mul, feature, load, reg, LOAD, type, MIX_ADD_MUL(E##_F, E##_A, E##_M, E##_a, E##_m),      \
                 CLEAN)                                                                                               \
    COMPUTE_LOOP(name##_fma_1, fused_feature, load, reg, LOAD, type, MIX_FMA_1(E##_F, , , , ), CLEAN)                 \
    COMPUTE_LOOP(name##_fma_4, fused_feature, load, reg, LOAD, type, MIX_FMA_4(E##_F, , , , ), CLEAN)                 \
    COMPUTE_LOOP(name##_add_1, feature, load, reg, LOAD, type, MIX_ADD_1(, E##_A, , , ), CLEAN)                       \
    COMPUTE_LOOP(name##_div, feature, load, reg, LOAD, type, MIX_FREE(, , , , E##_D), CLEAN)                          \
    COMPUTE_LOOP(name##_sqrt, feature, load, reg, LOAD, type, MIX_FREE(, , , , E##_R), CLEAN)
#define LEGACY_LOOPS(name, type, E)                                                                                \
    COMPUTE_LOOP(name##_add, "sse2", "movupd", "xmm", LOAD_OLD, type, MIX_ADD(NONE, E##_A, E##_M, NONE, NONE), "") \
    COMPUTE_LOOP(name##_mul, "sse2", "movupd", "xmm", LOAD_OLD, type, MIX_MUL(NONE, E##_A, E##_M, NONE, NONE), "") \
    COMPUTE_LOOP(name##_add_mul, "sse2", "movupd", "xmm", LOAD_OLD, type,                                          \
                 MIX_ADD_MUL(NONE, E##_A, E##_M, NONE, E##_m), "")                                                 \
    COMPUTE_LOOP(name##_add_1, "sse2", "movupd", "xmm", LOAD_OLD, type, MIX_ADD_1(, E##_A, , , ), "")              \
    COMPUTE_LOOP(name##_div, "sse2", "movupd", "xmm", LOAD_OLD, type, MIX_FREE(, , , , E##_D), "")                 \
    COMPUTE_LOOP(name##_sqrt, "sse2", "movupd", "xmm", LOAD_OLD, type, MIX_FREE(, , , , E##_R), "")

VEX_LOOPS(avx512_f64, "avx512f", "avx512f", "vmovupd", "zmm", LOAD_ZMM, f64, ZMM_PD)
VEX_LOOPS(avx512_f32, "avx512f", "avx512f", "vmovupd", "zmm", LOAD_ZMM, f32, ZMM_PS)
VEX_LOOPS(ymm_f64, "avx", "avx2,fma", "vmovupd", "ymm", LOAD_YMM, f64, YMM_PD)
VEX_LOOPS(ymm_f32, "avx", "avx2,fma", "vmovupd", "ymm", LOAD_YMM, f32, YMM_PS)
VEX_LOOPS(scalar_vex_f64, "avx", "avx2,fma", "vmovupd", "xmm", LOAD_XMM, f64, XMM_SD)
VEX_LOOPS(scalar_vex_f32, "avx", "avx2,fma", "vmovupd", "xmm", LOAD_XMM, f32, XMM_SS)
LEGACY_LOOPS(sse_f64, f64, OLD_PD)
LEGACY_LOOPS(sse_f32, f32, OLD_PS)
LEGACY_LOOPS(scalar_f64, f64, OLD_SD)
LEGACY_LOOPS(scalar_f32, f32, OLD_SS)
#ifdef HALF_PRECISION
VEX_LOOPS(avx512_f16, "avx512f", "avx512f", "vmovupd", "zmm", LOAD_ZMM, f16, ZMM_PH)
#endif
COMPUTE_LOOP(avx512_bf16_dot, "avx512f", "vmovupd", "zmm", LOAD_ZMM, bf16, MIX_FMA(DOT_BF16, , , , ), CLEAN)
COMPUTE_LOOP(avx512_int8_dot, "avx512f", "vmovupd", "zmm", LOAD_ZMM, int8, MIX_FMA(DOT_INT8, , , , ), CLEAN)

/* ---- memory ----
   rax, rdx and r8 point at this iteration's chunk of a, b and c, r9 at that of a fourth stream, as far from c as c is
   from b. */
#define TIMES_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PARTS 4 /* of an iteration: one is so few instructions that those of the loop itself would count */
#define PART(number, part, body) ".set .Loff, " #number "*" #part "\n\t" body
#define LONG_LOOP(name, feature, part, load, reg, start, body, finish)                                             \
    __attribute__((target(feature), noinline)) static uint64_t name(uint64_t iterations, uint64_t mask, double *a, \
                                                                    double *b, double *c)                          \
    {                                                                                                              \
        uint64_t at = 0;                                                                                           \
        __asm__ volatile(load " (%[factor]), %%" reg "15\n\t"                                                      \
                         ".p2align 6\n"                                                                            \
                         "1:\n\t"                                                                                  \
                         "mov %[at], %%rcx\n\t"                                                                    \
                         "and %[mask], %%rcx\n\t"                                                                  \
                         "lea (%[a], %%rcx), %%rax\n\t" start                                                      \
                         PART(0, part, body) PART(1, part, body) PART(2, part, body) PART(3, part, body)           \
                         "add $4*" #part ", %[at]\n\t"                                                             \
                         "cmp %[end], %[at]\n\t"                                                                   \
                         "jb 1b\n\t" finish                                                                        \
                         : [at] "+r"(at)                                                                           \
                         : [end] "r"(iterations * (PARTS * (part))), [mask] "r"(mask), [a] "r"(a), [b] "r"(b),     \
                           [c] "r"(c), [factor] "r"(ones_f64)                                                      \
                         : "rax", "rcx", "rdx", "r8", "r9", VECTORS_CLOBBERED);                                    \
        return at / (PARTS * (part));                                                                              \
    }
#define SECOND_AND_THIRD "lea (%[b], %%rcx), %%rdx\n\tlea (%[c], %%rcx), %%r8\n\t"
#define MEMORY_LOOP(name, feature, part, load, reg, body, finish) \
    LONG_LOOP(name, feature, part, load, reg, SECOND_AND_THIRD, body, finish)
/* Of one stream: addresses that nobody needs cost a cycle in 17 on Zen 3. */
#define SHORT_LOOP(name, feature, part, load, reg, body, finish) \
    LONG_LOOP(name, feature, part, load, reg, "", body, finish)

#define AT(i, width) ".Loff+" #i "*" width
#define READ(width, move, reg, i) move " " AT(i, width) "(%%rax), %%" reg #i "\n\t"
#define COPY_LOAD(width, move, reg, i) move " " AT(i, width) "(%%rdx), %%" reg #i "\n\t"
#define TRIAD_LOAD(width, move, reg, i) move " " AT(i, width) "(%%r8), %%" reg #i "\n\t"
#define STORE(width, move, reg, i) move " %%" reg #i ", " AT(i, width) "(%%rax)\n\t"
#define LOAD_C(width, move, reg, i) move " " AT(i, width) "(%%r8), %%" reg #i "\n\t"
#define LOAD_D(width, move, reg, i) move " " AT(i, width) "(%%r9), %%" reg #i "\n\t"
#define STORE_B(width, move, reg, i) move " %%" reg #i ", " AT(i, width) "(%%rdx)\n\t"
#define FILL(width, move, reg, i) move " %%" reg "15, " AT(i, width) "(%%rax)\n\t"
#define FOURTH SECOND_AND_THIRD "lea (%%r8, %%r8), %%r9\n\tsub %%rdx, %%r9\n\t"
#define VEX_TRIAD(width, reg, i) "vfmadd213pd " AT(i, width) "(%%rdx), %%" reg "15, %%" reg #i "\n\t"
/* With a load of its own for each operand, which on Zen 3 keeps more of them going. */
#define VEX_TRIAD_APART(width, reg, i)                                \
    "vmovapd " AT(i, width) "(%%rdx), %%" reg "8\n\t"                 \
    "vfmadd213pd %%" reg "8, %%" reg "15, %%" reg #i "\n\t"
#define VEX_UPDATE(width, reg, i) "vmulpd " AT(i, width) "(%%rax), %%" reg "15, %%" reg #i "\n\t"
#define OLD_ADD_B(i) "mulpd %%xmm15, %%xmm" #i "\n\taddpd " AT(i, "16") "(%%rdx), %%xmm" #i "\n\t"
#define OLD_SCALE(i) "mulpd %%xmm15, %%xmm" #i "\n\t"

#define ZMM_LOAD_C(i) LOAD_C("64", "vmovapd", "zmm", i)
#define ZMM_LOAD_D(i) LOAD_D("64", "vmovapd", "zmm", i)
#define ZMM_STORE_B(i) STORE_B("64", "vmovapd", "zmm", i)
#define ZMM_FILL(i) FILL("64", "vmovapd", "zmm", i)
#define ZMM_FILL_STREAM(i) FILL("64", "vmovntpd", "zmm", i)
#define ZMM_READ(i) READ("64", "vmovapd", "zmm", i)
#define ZMM_COPY_LOAD(i) COPY_LOAD("64", "vmovapd", "zmm", i)
#define ZMM_TRIAD(i) TRIAD_LOAD("64", "vmovapd", "zmm", i) VEX_TRIAD("64", "zmm", i)
#define ZMM_TRIAD_APART(i) TRIAD_LOAD("64", "vmovapd", "zmm", i) VEX_TRIAD_APART("64", "zmm", i)
#define ZMM_UPDATE(i) VEX_UPDATE("64", "zmm", i)
#define ZMM_STORE(i) STORE("64", "vmovapd", "zmm", i)
#define ZMM_STREAM(i) STORE("64", "vmovntpd", "zmm", i)
#define YMM_LOAD_C(i) LOAD_C("32", "vmovapd", "ymm", i)
#define YMM_LOAD_D(i) LOAD_D("32", "vmovapd", "ymm", i)
#define YMM_STORE_B(i) STORE_B("32", "vmovapd", "ymm", i)
#define YMM_FILL(i) FILL("32", "vmovapd", "ymm", i)
#define YMM_FILL_STREAM(i) FILL("32", "vmovntpd", "ymm", i)
#define YMM_READ(i) READ("32", "vmovapd", "ymm", i)
#define YMM_COPY_LOAD(i) COPY_LOAD("32", "vmovapd", "ymm", i)
#define YMM_TRIAD(i) TRIAD_LOAD("32", "vmovapd", "ymm", i) VEX_TRIAD("32", "ymm", i)
#define YMM_TRIAD_APART(i) TRIAD_LOAD("32", "vmovapd", "ymm", i) VEX_TRIAD_APART("32", "ymm", i)
#define YMM_UPDATE(i) VEX_UPDATE("32", "ymm", i)
#define YMM_STORE(i) STORE("32", "vmovapd", "ymm", i)
#define YMM_STREAM(i) STORE("32", "vmovntpd", "ymm", i)
#define OLD_LOAD_C(i) LOAD_C("16", "movapd", "xmm", i)
#define OLD_LOAD_D(i) LOAD_D("16", "movapd", "xmm", i)
#define OLD_STORE_B(i) STORE_B("16", "movapd", "xmm", i)
#define OLD_FILL(i) FILL("16", "movapd", "xmm", i)
#define OLD_FILL_STREAM(i) FILL("16", "movntpd", "xmm", i)
#define OLD_READ(i) READ("16", "movapd", "xmm", i)
#define OLD_COPY_LOAD(i) COPY_LOAD("16", "movapd", "xmm", i)
#define OLD_TRIAD(i) TRIAD_LOAD("16", "movapd", "xmm", i) OLD_ADD_B(i)
#define OLD_UPDATE(i) READ("16", "movapd", "xmm", i) OLD_SCALE(i)
#define OLD_STORE(i) STORE("16", "movapd", "xmm", i)
#define OLD_STREAM(i) STORE("16", "movntpd", "xmm", i)

/* The order of loads and stores matters where they come from L1 or L2, and which is best differs: on Zen 3, two loads
   and a store in turn reach 96 bytes a cycle in L1, and all loads first 75; there is a loop for each order. */
#define IN_TURN_COPY(E, i) E##_COPY_LOAD(i) E##_STORE(i)
#define IN_TURN_UPDATE(E, i) E##_READ(i) E##_STORE(i)
#define IN_TURN_TRIAD(E, i) E##_TRIAD(i) E##_STORE(i)
#define IN_TURN_TRIAD_APART(E, i) E##_TRIAD_APART(i) E##_STORE(i)
#define IN_TURN_2_1(E, i) E##_LOAD_C(i) E##_COPY_LOAD(i) E##_STORE(i)
#define IN_TURN_3_1(E, i) E##_LOAD_D(i) E##_LOAD_C(i) E##_COPY_LOAD(i) E##_STORE(i)
#define IN_TURN_1_2(E, i) E##_LOAD_C(i) E##_STORE(i) E##_STORE_B(i)
#define IN_TURN_PLACE(E, i) E##_COPY_LOAD(i) E##_READ(i) E##_STORE(i)
#define IN_TURN(E, STEP) STEP(E, 0) STEP(E, 1) STEP(E, 2) STEP(E, 3) STEP(E, 4) STEP(E, 5) STEP(E, 6) STEP(E, 7)
#define FOURS(FIRST, THEN) FIRST(0) FIRST(1) FIRST(2) FIRST(3) THEN(0) THEN(1) THEN(2) THEN(3) \
    FIRST(4) FIRST(5) FIRST(6) FIRST(7) THEN(4) THEN(5) THEN(6) THEN(7)

/* Non-temporal stores are complete once fenced; without it the last ones would be left out of the time. */
#define FENCE "sfence\n\t"
#define MEMORY_LOOPS(name, feature, part, load, reg, E, clean)                                                     \
    SHORT_LOOP(name##_read, feature, part, load, reg, TIMES_8(E##_READ), clean)                                    \
    MEMORY_LOOP(name##_copy, feature, part, load, reg, TIMES_8(E##_COPY_LOAD) TIMES_8(E##_STORE), clean)           \
    MEMORY_LOOP(name##_copy_turn, feature, part, load, reg, IN_TURN(E, IN_TURN_COPY), clean)                       \
    MEMORY_LOOP(name##_copy_fours, feature, part, load, reg, FOURS(E##_COPY_LOAD, E##_STORE), clean)               \
    MEMORY_LOOP(name##_triad, feature, part, load, reg, TIMES_8(E##_TRIAD) TIMES_8(E##_STORE), clean)              \
    MEMORY_LOOP(name##_triad_turn, feature, part, load, reg, IN_TURN(E, IN_TURN_TRIAD), clean)                     \
    SHORT_LOOP(name##_update, feature, part, load, reg, TIMES_8(E##_UPDATE) TIMES_8(E##_STORE), clean)             \
    SHORT_LOOP(name##_update_turn, feature, part, load, reg, IN_TURN(E, IN_TURN_UPDATE), clean)                    \
    SHORT_LOOP(name##_update_fours, feature, part, load, reg, FOURS(E##_READ, E##_STORE), clean)                   \
    MEMORY_LOOP(name##_copy_nt, feature, part, load, reg, TIMES_8(E##_COPY_LOAD) TIMES_8(E##_STREAM), FENCE clean) \
    MEMORY_LOOP(name##_triad_nt, feature, part, load, reg, TIMES_8(E##_TRIAD) TIMES_8(E##_STREAM), FENCE clean)    \
    SHORT_LOOP(name##_store, feature, part, load, reg, TIMES_8(E##_FILL), clean)                                   \
    SHORT_LOOP(name##_store_nt, feature, part, load, reg, TIMES_8(E##_FILL_STREAM), FENCE clean)                   \
    MEMORY_LOOP(name##_place, feature, part, load, reg,                                                            \
                TIMES_8(E##_COPY_LOAD) TIMES_8(E##_READ) TIMES_8(E##_STORE), clean)                                \
    MEMORY_LOOP(name##_place_turn, feature, part, load, reg, IN_TURN(E, IN_TURN_PLACE), clean)                     \
    MEMORY_LOOP(name##_2_1, feature, part, load, reg,                                                              \
                TIMES_8(E##_LOAD_C) TIMES_8(E##_COPY_LOAD) TIMES_8(E##_STORE), clean)                              \
    MEMORY_LOOP(name##_2_1_turn, feature, part, load, reg, IN_TURN(E, IN_TURN_2_1), clean)                         \
    LONG_LOOP(name##_3_1, feature, part, load, reg, FOURTH,                                                        \
                TIMES_8(E##_LOAD_D) TIMES_8(E##_LOAD_C) TIMES_8(E##_COPY_LOAD) TIMES_8(E##_STORE), clean)          \
    LONG_LOOP(name##_3_1_turn, feature, part, load, reg, FOURTH, IN_TURN(E, IN_TURN_3_1), clean)                   \
    MEMORY_LOOP(name##_1_2, feature, part, load, reg,                                                              \
                TIMES_8(E##_LOAD_C) TIMES_8(E##_STORE) TIMES_8(E##_STORE_B), clean)                                \
    MEMORY_LOOP(name##_1_2_turn, feature, part, load, reg, IN_TURN(E, IN_TURN_1_2), clean)

MEMORY_LOOPS(avx512, "avx512f", 512, "vmovupd", "zmm", ZMM, CLEAN)
MEMORY_LOOPS(avx2, "avx2,fma", 256, "vmovupd", "ymm", YMM, CLEAN)
MEMORY_LOOP(avx512_triad_apart, "avx512f", 512, "vmovupd", "zmm", IN_TURN(ZMM, IN_TURN_TRIAD_APART), CLEAN)
MEMORY_LOOP(avx2_triad_apart, "avx2,fma", 256, "vmovupd", "ymm", IN_TURN(YMM, IN_TURN_TRIAD_APART), CLEAN)
MEMORY_LOOPS(sse, "sse2", 128, "movupd", "xmm", OLD, "")

/* Any number of streams: a part of each that is read, then one of each that is written. */
#define ANY_LOOP(name, feature, part, load, reg, E, clean)                                                         \
    __attribute__((target(feature), noinline)) static uint64_t name(uint64_t iterations, uint64_t mask, double *a, \
                                                                    double *b, double *c)                          \
    {                                                                                                              \
        uint64_t at = 0, numbers = (uint64_t)(uintptr_t)c;                                                         \
        __asm__ volatile(TIMES_8(E##_ONE)                                                                          \
                         ".set .Loff, 0\n\t"                                                                       \
                         ".p2align 6\n"                                                                            \
                         "1:\n\t"                                                                                  \
                         "mov %[at], %%rax\n\t"                                                                    \
                         "and %[mask], %%rax\n\t"                                                                  \
                         "add %[a], %%rax\n\t"                                                                     \
                         "mov %[loads], %%rcx\n\t"                                                                 \
                         "test %%rcx, %%rcx\n\t"                                                                   \
                         "jz 3f\n"                                                                                 \
                         "2:\n\t" TIMES_8(E##_READ)                                                                \
                         "add %[apart], %%rax\n\t"                                                                 \
                         "dec %%rcx\n\t"                                                                           \
                         "jnz 2b\n"                                                                                \
                         "3:\n\t"                                                                                  \
                         "mov %[stores], %%rcx\n\t"                                                                \
                         "test %%rcx, %%rcx\n\t"                                                                   \
                         "jz 5f\n"                                                                                 \
                         "4:\n\t" TIMES_8(E##_STORE)                                                               \
                         "add %[apart], %%rax\n\t"                                                                 \
                         "dec %%rcx\n\t"                                                                           \
                         "jnz 4b\n"                                                                                \
                         "5:\n\t"                                                                                  \
                         "add $" #part ", %[at]\n\t"                                                               \
                         "cmp %[end], %[at]\n\t"                                                                   \
                         "jb 1b\n\t" clean                                                                         \
                         : [at] "+r"(at)                                                                           \
                         : [end] "r"(iterations * (part)), [mask] "r"(mask), [a] "r"(a),                           \
                           [apart] "r"((uint64_t)((char *)b - (char *)a)), [loads] "r"(numbers / CEILINGS_LOADS),  \
                           [stores] "r"(numbers % CEILINGS_LOADS), [ones] "r"(ones_f64)                            \
                         : "rax", "rcx", VECTORS_CLOBBERED);                                                       \
        return at / (part);                                                                                        \
    }
#define ZMM_ONE(i) LOAD_ZMM(i)
#define YMM_ONE(i) LOAD_YMM(i)
#define OLD_ONE(i) LOAD_OLD(i)
ANY_LOOP(avx512_any, "avx512f", 512, "vmovupd", "zmm", ZMM, CLEAN)
ANY_LOOP(avx2_any, "avx2,fma", 256, "vmovupd", "ymm", YMM, CLEAN)
ANY_LOOP(sse_any, "sse2", 128, "movupd", "xmm", OLD, "")

/* Scalar: a part has twice as many instructions. */
#define SCALAR(move, from, to) "mov" move " " from ", " to "\n\t"
#define SD_LOAD(i, base, more) SCALAR("sd", more "+" AT(i, "8") "(%%" base ")", "%%xmm" #i)
#define SD_STORE(i, from, base, more) SCALAR("sd", "%%xmm" from, more "+" AT(i, "8") "(%%" base ")")
#define SD_READ(i) SD_LOAD(i, "rax", "0")
#define SD_READ_2(i) SD_LOAD(i, "rax", "64")
#define SD_B(i) SD_LOAD(i, "rdx", "0")
#define SD_B_2(i) SD_LOAD(i, "rdx", "64")
#define SD_C(i) SD_LOAD(i, "r8", "0")
#define SD_C_2(i) SD_LOAD(i, "r8", "64")
#define SD_D(i) SD_LOAD(i, "r9", "0")
#define SD_D_2(i) SD_LOAD(i, "r9", "64")
#define SD_S(i) SD_STORE(i, #i, "rax", "0")
#define SD_S_2(i) SD_STORE(i, #i, "rax", "64")
#define SD_SB(i) SD_STORE(i, #i, "rdx", "0")
#define SD_SB_2(i) SD_STORE(i, #i, "rdx", "64")
#define SD_FILL(i) SD_STORE(i, "15", "rax", "0")
#define SD_FILL_2(i) SD_STORE(i, "15", "rax", "64")
#define SD_UPDATE(i) "mulsd %%xmm15, %%xmm" #i "\n\t"
#define SD_TRIAD(i) "mulsd %%xmm15, %%xmm" #i "\n\taddsd 0+" AT(i, "8") "(%%rdx), %%xmm" #i "\n\t"
#define SD_TRIAD_2(i) "mulsd %%xmm15, %%xmm" #i "\n\taddsd 64+" AT(i, "8") "(%%rdx), %%xmm" #i "\n\t"
#define SD_IN_TURN_COPY(E, i) SD_B##E(i) SD_S##E(i)
#define SD_IN_TURN_UPDATE(E, i) SD_READ##E(i) SD_S##E(i)
#define SD_IN_TURN_TRIAD(E, i) SD_C##E(i) SD_TRIAD##E(i) SD_S##E(i)
#define SD_IN_TURN_2_1(E, i) SD_C##E(i) SD_B##E(i) SD_S##E(i)
#define SD_IN_TURN_3_1(E, i) SD_D##E(i) SD_C##E(i) SD_B##E(i) SD_S##E(i)
#define SD_IN_TURN_1_2(E, i) SD_C##E(i) SD_S##E(i) SD_SB##E(i)
#define SD_IN_TURN_PLACE(E, i) SD_B##E(i) SD_READ##E(i) SD_S##E(i)
#define SD_IN_TURN(STEP) IN_TURN(, STEP) IN_TURN(_2, STEP)
#define SCALAR_LOOP(name, body) MEMORY_LOOP(scalar_##name, "sse2", 128, "movupd", "xmm", body, "")
#define SCALAR_SHORT_LOOP(name, body) SHORT_LOOP(scalar_##name, "sse2", 128, "movupd", "xmm", body, "")
#define SCALAR_LONG_LOOP(name, start, body) LONG_LOOP(scalar_##name, "sse2", 128, "movupd", "xmm", start, body, "")
SCALAR_SHORT_LOOP(read, TIMES_8(SD_READ) TIMES_8(SD_READ_2))
SCALAR_LOOP(copy, TIMES_8(SD_B) TIMES_8(SD_S) TIMES_8(SD_B_2) TIMES_8(SD_S_2))
SCALAR_LOOP(copy_turn, SD_IN_TURN(SD_IN_TURN_COPY))
SCALAR_LOOP(copy_fours, FOURS(SD_B, SD_S) FOURS(SD_B_2, SD_S_2))
SCALAR_LOOP(triad, TIMES_8(SD_C) TIMES_8(SD_TRIAD) TIMES_8(SD_S) TIMES_8(SD_C_2) TIMES_8(SD_TRIAD_2) TIMES_8(SD_S_2))
SCALAR_LOOP(triad_turn, SD_IN_TURN(SD_IN_TURN_TRIAD))
SCALAR_SHORT_LOOP(update, TIMES_8(SD_READ) TIMES_8(SD_UPDATE) TIMES_8(SD_S) TIMES_8(SD_READ_2) TIMES_8(SD_UPDATE)
                        TIMES_8(SD_S_2))
SCALAR_SHORT_LOOP(update_turn, SD_IN_TURN(SD_IN_TURN_UPDATE))
SCALAR_SHORT_LOOP(update_fours, FOURS(SD_READ, SD_S) FOURS(SD_READ_2, SD_S_2))
SCALAR_SHORT_LOOP(store, TIMES_8(SD_FILL) TIMES_8(SD_FILL_2))
SCALAR_LOOP(place, TIMES_8(SD_B) TIMES_8(SD_READ) TIMES_8(SD_S) TIMES_8(SD_B_2) TIMES_8(SD_READ_2) TIMES_8(SD_S_2))
SCALAR_LOOP(place_turn, SD_IN_TURN(SD_IN_TURN_PLACE))
SCALAR_LOOP(2_1, TIMES_8(SD_C) TIMES_8(SD_B) TIMES_8(SD_S) TIMES_8(SD_C_2) TIMES_8(SD_B_2) TIMES_8(SD_S_2))
SCALAR_LOOP(2_1_turn, SD_IN_TURN(SD_IN_TURN_2_1))
SCALAR_LONG_LOOP(3_1, FOURTH, TIMES_8(SD_D) TIMES_8(SD_C) TIMES_8(SD_B) TIMES_8(SD_S) TIMES_8(SD_D_2) TIMES_8(SD_C_2)
                     TIMES_8(SD_B_2) TIMES_8(SD_S_2))
SCALAR_LONG_LOOP(3_1_turn, FOURTH, SD_IN_TURN(SD_IN_TURN_3_1))
SCALAR_LOOP(1_2, TIMES_8(SD_C) TIMES_8(SD_S) TIMES_8(SD_SB) TIMES_8(SD_C_2) TIMES_8(SD_S_2) TIMES_8(SD_SB_2))
SCALAR_LOOP(1_2_turn, SD_IN_TURN(SD_IN_TURN_1_2))

/* ---- the table ---- */

#define COMPUTE(name, isa, needs, precision, lanes, mix, MIX) \
    {mix, isa, needs, #precision, "", "", 0, OPERATIONS(MIX) * (lanes), FUSED(MIX) * (lanes), name}
#define VEX_ENTRIES(name, isa, needs, precision, lanes)                                                           \
    COMPUTE(name##_fma, isa, needs, precision, lanes, "FMA", MIX_FMA),                                            \
        COMPUTE(name##_fma_add_1_1, isa, needs, precision, lanes, "FMA+ADD 1:1", MIX_FMA_ADD_1_1),                \
        COMPUTE(name##_fma_add_2_1, isa, needs, precision, lanes, "FMA+ADD 2:1", MIX_FMA_ADD_2_1),                \
        COMPUTE(name##_add, isa, needs, precision, lanes, "ADD", MIX_ADD),                                        \
        COMPUTE(name##_mul, isa, needs, precision, lanes, "MUL", MIX_MUL),                                        \
        COMPUTE(name##_add_mul, isa, needs, precision, lanes, "ADD+MUL 1:1", MIX_ADD_MUL),                        \
        COMPUTE(name##_fma_1, isa, needs, precision, lanes, "FMA 1 chain", MIX_FMA_1),                            \
        COMPUTE(name##_fma_4, isa, needs, precision, lanes, "FMA 4 chains", MIX_FMA_4),                           \
        COMPUTE(name##_add_1, isa, needs, precision, lanes, "ADD 1 chain", MIX_ADD_1),                            \
        COMPUTE(name##_div, isa, needs, precision, lanes, "DIV", MIX_FREE),                                       \
        COMPUTE(name##_sqrt, isa, needs, precision, lanes, "SQRT", MIX_FREE)
#define AVX_ENTRIES(name, precision, lanes)                                                                        \
    COMPUTE(name##_add, "AVX", "avx", precision, lanes, "ADD", MIX_ADD),                                           \
        COMPUTE(name##_mul, "AVX", "avx", precision, lanes, "MUL", MIX_MUL),                                       \
        COMPUTE(name##_add_mul, "AVX", "avx", precision, lanes, "ADD+MUL 1:1", MIX_ADD_MUL),                       \
        COMPUTE(name##_add_1, "AVX", "avx", precision, lanes, "ADD 1 chain", MIX_ADD_1),                           \
        COMPUTE(name##_div, "AVX", "avx", precision, lanes, "DIV", MIX_FREE),                                      \
        COMPUTE(name##_sqrt, "AVX", "avx", precision, lanes, "SQRT", MIX_FREE)
#define LEGACY_ENTRIES(name, isa, precision, lanes)                                                                \
    COMPUTE(name##_add, isa, "", precision, lanes, "ADD", MIX_ADD),                                                \
        COMPUTE(name##_mul, isa, "", precision, lanes, "MUL", MIX_MUL),                                            \
        COMPUTE(name##_add_mul, isa, "", precision, lanes, "ADD+MUL 1:1", MIX_ADD_MUL),                            \
        COMPUTE(name##_add_1, isa, "", precision, lanes, "ADD 1 chain", MIX_ADD_1),                                \
        COMPUTE(name##_div, isa, "", precision, lanes, "DIV", MIX_FREE),                                           \
        COMPUTE(name##_sqrt, isa, "", precision, lanes, "SQRT", MIX_FREE)
/* Each of 16 sums takes so many products. */
#define DOT_ENTRY(name, needs, precision, products) \
    {"DOT", "AVX-512", needs, #precision, "", "", 0, OPERATIONS(MIX_FMA) * 16 * (products), 0, name}
#define FIRST "loads first"
#define TURN "in turn"
/* A triad fuses where it can: two FLOPs an element either way. */
#define CHUNK(part) (PARTS * (part))
#define MEMORY_ENTRIES(name, isa, needs, part, fuses)                                                               \
    {"read", isa, needs, "f64", "r", FIRST, CHUNK(part), 0, 0, name##_read},                                        \
        {"copy", isa, needs, "f64", "wr", FIRST, CHUNK(part), 0, 0, name##_copy},                                   \
        {"copy", isa, needs, "f64", "wr", TURN, CHUNK(part), 0, 0, name##_copy_turn},                               \
        {"copy", isa, needs, "f64", "wr", "by fours", CHUNK(part), 0, 0, name##_copy_fours},                        \
        {"triad", isa, needs, "f64", "wrr", FIRST, CHUNK(part), CHUNK(part) / 8 * 2, CHUNK(part) / 8 * 2 * (fuses), \
         name##_triad},                                                                                             \
        {"triad", isa, needs, "f64", "wrr", TURN, CHUNK(part), CHUNK(part) / 8 * 2, CHUNK(part) / 8 * 2 * (fuses),  \
         name##_triad_turn},                                                                                        \
        {"update", isa, needs, "f64", "u", FIRST, CHUNK(part), CHUNK(part) / 8, 0, name##_update},                  \
        {"update", isa, needs, "f64", "u", TURN, CHUNK(part), 0, 0, name##_update_turn},                            \
        {"update", isa, needs, "f64", "u", "by fours", CHUNK(part), 0, 0, name##_update_fours},                     \
        {"store", isa, needs, "f64", "w", FIRST, CHUNK(part), 0, 0, name##_store},                                  \
        {"2:1 in place", isa, needs, "f64", "ur", FIRST, CHUNK(part), 0, 0, name##_place},                          \
        {"2:1 in place", isa, needs, "f64", "ur", TURN, CHUNK(part), 0, 0, name##_place_turn},                      \
        {"2:1", isa, needs, "f64", "wrr", FIRST, CHUNK(part), 0, 0, name##_2_1},                                    \
        {"2:1", isa, needs, "f64", "wrr", TURN, CHUNK(part), 0, 0, name##_2_1_turn},                                \
        {"3:1", isa, needs, "f64", "wrrr", FIRST, CHUNK(part), 0, 0, name##_3_1},                                   \
        {"3:1", isa, needs, "f64", "wrrr", TURN, CHUNK(part), 0, 0, name##_3_1_turn},                               \
        {"1:2", isa, needs, "f64", "wwr", FIRST, CHUNK(part), 0, 0, name##_1_2},                                    \
        {"1:2", isa, needs, "f64", "wwr", TURN, CHUNK(part), 0, 0, name##_1_2_turn}
#define APART_ENTRY(name, isa, needs, part) \
    {"triad", isa, needs, "f64", "wrr", "loads apart", CHUNK(part), CHUNK(part) / 8 * 2, CHUNK(part) / 8 * 2, \
     name##_triad_apart}
#define NT_ENTRIES(name, isa, needs, part, fuses)                                                                      \
    {"store NT", isa, needs, "f64", "n", FIRST, CHUNK(part), 0, 0, name##_store_nt},                                   \
        {"copy NT", isa, needs, "f64", "nr", FIRST, CHUNK(part), 0, 0, name##_copy_nt},                                \
        {"triad NT", isa, needs, "f64", "nrr", FIRST, CHUNK(part), CHUNK(part) / 8 * 2, CHUNK(part) / 8 * 2 * (fuses), \
         name##_triad_nt}

const struct ceilings_loop ceilings_table[] = {
    VEX_ENTRIES(avx512_f64, "AVX-512", "avx512f", f64, 8),
    VEX_ENTRIES(avx512_f32, "AVX-512", "avx512f", f32, 16),
    VEX_ENTRIES(ymm_f64, "AVX2", "fma", f64, 4),
    VEX_ENTRIES(ymm_f32, "AVX2", "fma", f32, 8),
    AVX_ENTRIES(ymm_f64, f64, 4),
    AVX_ENTRIES(ymm_f32, f32, 8),
    LEGACY_ENTRIES(sse_f64, "SSE", f64, 2),
    LEGACY_ENTRIES(sse_f32, "SSE", f32, 4),
    VEX_ENTRIES(scalar_vex_f64, "scalar", "fma", f64, 1),
    VEX_ENTRIES(scalar_vex_f32, "scalar", "fma", f32, 1),
    LEGACY_ENTRIES(scalar_f64, "scalar", f64, 1),
    LEGACY_ENTRIES(scalar_f32, "scalar", f32, 1),
#ifdef HALF_PRECISION
    VEX_ENTRIES(avx512_f16, "AVX-512", "avx512fp16", f16, 32),
#endif
    DOT_ENTRY(avx512_bf16_dot, "avx512bf16", bf16, 2),
    DOT_ENTRY(avx512_int8_dot, "avx512vnni", int8, 4),
    MEMORY_ENTRIES(avx512, "AVX-512", "avx512f", 512, 1),
    NT_ENTRIES(avx512, "AVX-512", "avx512f", 512, 1),
    APART_ENTRY(avx512, "AVX-512", "avx512f", 512),
    MEMORY_ENTRIES(avx2, "AVX2", "fma", 256, 1),
    NT_ENTRIES(avx2, "AVX2", "fma", 256, 1),
    APART_ENTRY(avx2, "AVX2", "fma", 256),
    MEMORY_ENTRIES(sse, "SSE", "", 128, 0),
    NT_ENTRIES(sse, "SSE", "", 128, 0),
    MEMORY_ENTRIES(scalar, "scalar", "", 128, 0),
    {"any", "AVX-512", "avx512f", "f64", "*", FIRST, 512, 0, 0, avx512_any},
    {"any", "AVX2", "fma", "f64", "*", FIRST, 256, 0, 0, avx2_any},
    {"any", "SSE", "", "f64", "*", FIRST, 128, 0, 0, sse_any},
    PATTERN_ENTRIES,
};
const uint32_t ceilings_table_length = sizeof ceilings_table / sizeof ceilings_table[0];

#ifdef HALF_PRECISION
/* Leaf 7, EDX bit 23 (Intel SDM, CPUID); not every compiler that has the instructions has a builtin that asks for
   them. */
static int half_precision(void)
{
    uint32_t a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
}
#endif

int ceilings_isa_usable(const struct ceilings_loop *loop)
{
    /* These also ask whether the operating system saves the registers. */
    __builtin_cpu_init();
    if (strcmp(loop->needs, "avx512f") == 0)
        return __builtin_cpu_supports("avx512f") != 0;
    if (strcmp(loop->needs, "avx512bf16") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
    if (strcmp(loop->needs, "avx512vnni") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
#ifdef HALF_PRECISION
    if (strcmp(loop->needs, "avx512fp16") == 0)
        return __builtin_cpu_supports("avx512f") && half_precision();
#endif
    if (strcmp(loop->needs, "fma") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(loop->needs, "avx") == 0)
        return __builtin_cpu_supports("avx") != 0;
    return 1;
}
#endif
