/* System calls of translated code. Nearly all are made with the program's own registers, on its stack, so that they can be
   interrupted like the original; the engine looks at those that concern it first. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <errno.h>
#include <sys/syscall.h>

/* Called by dispatch.c: state->target is the instruction after the system call. */
__attribute__((visibility("hidden"))) void instrument_system_call(struct saved_registers *r) {
    struct state *s = instrument_this_thread();
    int kept = errno; /* the program's */
    instrument_begin(s);
    if (r->rax == SYS_futex) instrument_submit(s, s->buffer); /* what other threads do next depends on what this one did */
    switch (r->rax) {
    case SYS_rt_sigaction:
        r->rax = (uint64_t)instrument_set_action(r->rdi, (const void *)r->rsi, (void *)r->rdx, r->r10);
        break;
    case SYS_rt_sigprocmask:
        r->rax = (uint64_t)instrument_set_mask(s, r);
        break;
    case SYS_sigaltstack:
        r->rax = (uint64_t)instrument_set_alternate_stack(s, r);
        break;
    case SYS_vfork: /* the child would share the engine's state with us */
        r->rax = SYS_fork;
        goto program;
    case SYS_mmap: case SYS_munmap: case SYS_mprotect: case SYS_mremap: case SYS_pkey_mprotect: case SYS_shmat:
    case SYS_shmdt: case SYS_remap_file_pages:
        instrument_pages_changed();
        goto program;
    default:
    program:
        s->jump = (uint64_t)instrument_raw_syscall;
        instrument_end(s, s->target - 2);
        errno = kept;
        return;
    }
    r->rcx = s->target;
    r->r11 = r->flags;
    instrument_resolve_target(s, r);
    instrument_end(s, s->target);
    errno = kept;
}

#endif
