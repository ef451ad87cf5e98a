/* The dynamic loader, for processes that must start quickly and know already that the library can be loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include "run/run.h"

uint64_t run_open_library(const char *path) { return (uint64_t)(uintptr_t)dlopen(path, RTLD_NOW | RTLD_LOCAL); }

uint64_t run_find_function(uint64_t library, const char *name, const char *version)
{
    void *handle = (void *)(uintptr_t)library;
    return (uint64_t)(uintptr_t)(*version ? dlvsym(handle, name, version) : dlsym(handle, name));
}
