/* The table of one architecture, defined in x86.c or portable.c. */
#ifndef COUNTEROOF_CEILINGS_LOOPS_H
#define COUNTEROOF_CEILINGS_LOOPS_H
#include <stddef.h>
#include <stdint.h>

#include "ceilings/ceilings.h"

extern const struct ceilings_loop ceilings_table[];
extern const uint32_t ceilings_table_length;
int ceilings_isa_usable(const struct ceilings_loop *);
#endif
