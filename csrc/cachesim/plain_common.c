/* The cache model with sets compared in plain C, for the common shape. */
#include "internal.h"

#define TARGET
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_plain_common
#define WIDTH 0
#define SHAPE 1u

#include "sets_plain.h"

#include "hierarchy.h"
