/* The cache model with sets compared in AVX2, for the common shape with at most 8 ways in the first two levels. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_avx2_narrow
#define WIDTH 1
#define SHAPE 1u
#define PRIVATE_BLOCKS 0u

#include "sets_avx2.h"

#include "hierarchy.h"

#endif
