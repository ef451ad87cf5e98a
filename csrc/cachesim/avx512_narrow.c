/* The cache model with sets compared in AVX-512, for the common shape with at most 8 ways in the first two levels. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt")))
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_avx512_narrow
#define WIDTH 2
#define SHAPE 1u
#define PRIVATE_BLOCKS 0u

#include "sets_avx512.h"

#include "hierarchy.h"

#endif
