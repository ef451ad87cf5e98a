/* The cache model with sets compared in plain C, for the common shape with up to 32 ways in the second and last level. */
#include "internal.h"

#define TARGET
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_plain_wide
#define WIDTH 0
#define SHAPE 2u

#include "sets_plain.h"

#include "hierarchy.h"
