/* The cache model with sets compared in AVX2, for the common shape with up to 32 ways in the second and last level. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_avx2_wide
#define WIDTH 1
#define SHAPE 2u

#include "sets_avx2.h"

#include "hierarchy.h"

#endif
