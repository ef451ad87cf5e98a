/* The cache model with sets compared in AVX2. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define OPERATIONS cs_avx2

#include "sets_avx2.h"

#include "hierarchy.h"

#endif
