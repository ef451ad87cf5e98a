/* Regions of a C or C++ program, counted by counteroof:
 *
 *     counteroof_begin("solve");
 *     ...
 *     counteroof_end("solve");
 *
 * They count where the program runs in a Python process that uses counteroof.region, or under
 * "python -m counteroof.marking PROGRAM"; anywhere else they do nothing. Nothing has to be linked but, before glibc 2.34,
 * -ldl. Regions nest; names of up to 63 characters count. */
#ifndef COUNTEROOF_H
#define COUNTEROOF_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*counteroof_call)(const char *);

static inline counteroof_call counteroof_look(const char *name)
{
    counteroof_call found = NULL;
    void *address = dlsym(NULL, name); /* RTLD_DEFAULT: the program and all it has loaded for everybody */
    memcpy(&found, &address, sizeof found);
    return found;
}

static inline void counteroof_begin(const char *name)
{
    static counteroof_call call;
    if (!call) call = counteroof_look("counteroof_region_begin");
    if (call) call(name);
}

static inline void counteroof_end(const char *name)
{
    static counteroof_call call;
    if (!call) call = counteroof_look("counteroof_region_end");
    if (call) call(name);
}

#ifdef __cplusplus
}
#endif

#endif
