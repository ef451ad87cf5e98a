/* What this process has mapped, as far as the engine has to know: where code is. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct range { uint64_t start, end; uint32_t access; };

static struct range *ranges; /* executable, in order */
static uint64_t range_count, range_room;
static int stale = 1;
static uint32_t generation, snapshot;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Mappings have come, gone or changed. */
void instrument_pages_changed(void) {
    __atomic_store_n(&stale, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
}

uint32_t instrument_pages_generation(void) { return __atomic_load_n(&generation, __ATOMIC_ACQUIRE); }

static int add_range(uint64_t start, uint64_t end, uint32_t access) {
    if (range_count && ranges[range_count - 1].end == start && ranges[range_count - 1].access == access) {
        ranges[range_count - 1].end = end;
        return 0;
    }
    if (range_count == range_room) {
        uint64_t room = range_room ? 2 * range_room : 256;
        struct range *more = realloc(ranges, room * sizeof *ranges);
        if (!more) return -1;
        ranges = more;
        range_room = room;
    }
    ranges[range_count++] = (struct range){start, end, access};
    return 0;
}

static void parse_line(const char *line) {
    char *end;
    uint64_t start = strtoull(line, &end, 16), stop = strtoull(end + 1, &end, 16);
    if (end[3] != 'x') return; /* " rwxp": end points at the space */
    uint32_t access = PROT_EXEC | (end[1] == 'r' ? PROT_READ : 0) | (end[2] == 'w' ? PROT_WRITE : 0);
    if (end[4] == 's') access |= ACCESS_SHARED;
    unsigned long inode = 1;
    if (sscanf(end, " %*s %*s %*s %lu", &inode) == 1 && !inode) access |= ACCESS_ANONYMOUS;
    add_range(start, stop, access);
}

/* Read /proc/self/maps. Lines come in the order of their addresses. */
static void refresh(void) {
    char text[4096 + 1];
    size_t kept = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    __atomic_store_n(&stale, 0, __ATOMIC_RELEASE);
    __atomic_add_fetch(&snapshot, 1, __ATOMIC_RELEASE);
    range_count = 0;
    if (maps < 0) return;
    for (;;) {
        ssize_t got = read(maps, text + kept, sizeof text - 1 - kept);
        if (got <= 0) break;
        size_t have = kept + (size_t)got;
        text[have] = 0;
        char *line = text, *next;
        while ((next = memchr(line, '\n', (size_t)(text + have - line)))) {
            parse_line(line);
            line = next + 1;
        }
        kept = (size_t)(text + have - line);
        if (kept == sizeof text - 1) kept = 0; /* no line is so long */
        memmove(text, line, kept);
    }
    close(maps);
}

static const struct range *find(uint64_t address) {
    uint64_t low = 0, high = range_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (ranges[middle].end <= address) low = middle + 1;
        else high = middle;
    }
    return low < range_count && ranges[low].start <= address ? &ranges[low] : NULL;
}

/* As a system call reads memory, without a fault. Containers may refuse process_vm_readv; /proc/self/mem is as good. */
static ssize_t read_own(uint64_t address, uint8_t *out, uint64_t bytes) {
    struct iovec to = {out, bytes}, from = {(void *)address, bytes};
    ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got >= 0 || errno == EFAULT) return got;
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0) return -1;
    got = pread(memory, out, bytes, (off_t)address);
    close(memory);
    return got;
}

/* Copy up to `bytes` bytes of this process's memory; returns how many could be read. */
uint64_t instrument_read(uint64_t address, uint8_t *out, uint64_t bytes) {
    uint64_t done = 0;
    while (done < bytes) {
        uint64_t piece = 4096 - (address + done) % 4096;
        if (piece > bytes - done) piece = bytes - done;
        ssize_t got = read_own(address + done, out + done, piece);
        if (got <= 0) break;
        done += (uint64_t)got;
    }
    return done;
}

uint64_t instrument_read_code(uint64_t address, uint8_t *out, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    if (__atomic_load_n(&stale, __ATOMIC_ACQUIRE)) refresh();
    const struct range *range = find(address);
    if (!range) { /* perhaps native code mapped it, which nobody told us */
        refresh();
        range = find(address);
    }
    uint64_t room = range ? range->end - address : 0;
    for (; range && range + 1 < ranges + range_count && range[1].start == range->end; range++)
        room += range[1].end - range[1].start;
    pthread_mutex_unlock(&lock);
    return instrument_read(address, out, bytes < room ? bytes : room);
}

/* How often the mappings have been read. */
uint32_t instrument_pages_snapshot(void) { return __atomic_load_n(&snapshot, __ATOMIC_ACQUIRE); }

uint32_t instrument_access_of(uint64_t address) {
    pthread_mutex_lock(&lock);
    if (__atomic_load_n(&stale, __ATOMIC_ACQUIRE)) refresh();
    const struct range *range = find(address);
    uint32_t access = range ? range->access : 0;
    pthread_mutex_unlock(&lock);
    return access;
}

#endif
