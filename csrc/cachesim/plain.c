/* The cache model with sets compared in plain C, for any processor. */
#include "internal.h"

#define TARGET
#define OPERATIONS cs_plain

#include "sets_plain.h"

#include "hierarchy.h"
