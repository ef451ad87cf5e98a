/* The cache model with sets compared in AVX-512, for the common shape. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt")))
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_avx512_common
#define WIDTH 2
#define SHAPE 1u

#include "sets_avx512.h"

#include "hierarchy.h"

#endif
