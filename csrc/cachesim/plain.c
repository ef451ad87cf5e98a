/* The cache model with sets compared in plain C, any shape. */
#include "internal.h"

#define TARGET
#define INLINE inline __attribute__((always_inline)) TARGET
#define OPERATIONS cs_plain
#define WIDTH 0
#define COMMON 0

#include "sets_plain.h"

#include "hierarchy.h"
