/* The cache model with sets compared in plain C, for any shape. */
#include "internal.h"

#define TARGET
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_plain
#define WIDTH 0
#define SHAPE 0u

#include "sets_plain.h"

#include "hierarchy.h"
