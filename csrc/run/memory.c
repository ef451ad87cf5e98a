/* Memory between unreadable guards. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "run/run.h"

uint64_t run_map(uint64_t bytes, uint64_t guard)
{
    if (bytes > UINT64_MAX - 2 * guard) return 0;
    /* What cannot be accessed is not accounted for, so wide guards cost nothing but addresses. */
    char *all = mmap(NULL, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return 0;
    if (mprotect(all + guard, bytes, PROT_READ | PROT_WRITE)) {
        munmap(all, bytes + 2 * guard);
        return 0;
    }
    return (uint64_t)(uintptr_t)(all + guard);
}

void run_unmap(uint64_t start, uint64_t bytes, uint64_t guard)
{
    munmap((void *)(uintptr_t)(start - guard), bytes + 2 * guard);
}

int run_protect(uint64_t start, uint64_t bytes, uint32_t access)
{
    static const int modes[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    return mprotect((void *)(uintptr_t)start, bytes, modes[access < 3 ? access : 0]) ? errno : 0;
}

uint64_t run_find_other(uint64_t start, uint64_t bytes, uint8_t value)
{
    const uint8_t *p = (const uint8_t *)(uintptr_t)start;
    /* Equal to itself moved by one byte: all bytes are the same. */
    if (bytes == 0 || (p[0] == value && !memcmp(p, p + 1, bytes - 1))) return bytes;
    for (uint64_t i = 0; i < bytes; i++)
        if (p[i] != value) return i;
    return bytes;
}
