/* The cache model with sets compared in AVX-512, for the common shape with up to 32 ways in the second and last level. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt")))
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_avx512_wide
#define WIDTH 2
#define SHAPE 2u

#include "sets_avx512.h"

#include "hierarchy.h"

#endif
