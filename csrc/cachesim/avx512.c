/* The cache model with sets compared in AVX-512. */
#if defined(__x86_64__)

#include "internal.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt")))
#define OPERATIONS cs_avx512

#include "sets_avx512.h"

#include "hierarchy.h"

#endif
