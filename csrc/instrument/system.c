/* System calls of translated code. Nearly all are made with the program's own registers, on its stack, so that they can be
   interrupted like the original; the engine looks at those that concern it first. */
#define _GNU_SOURCE
#if defined(__x86_64__)
#include "instrument/internal.h"

#include <asm/prctl.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* ---- what is mapped ---- */

static uint64_t make_call(const struct saved_registers *r) {
    uint64_t result = r->rax;
    register uint64_t fourth __asm__("r10") = r->r10, fifth __asm__("r8") = r->r8, sixth __asm__("r9") = r->r9;
    __asm__ volatile("syscall" : "+a"(result) : "D"(r->rdi), "S"(r->rsi), "d"(r->rdx), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

static int failed(uint64_t result) { return result > -4096ull; }

/* A system call that changes what is mapped. What was translated from there is forgotten before, so that the call finds
   the pages as the program left them, and again after, since other threads were running. */
static void change_mappings(struct saved_registers *r) {
    uint64_t call = r->rax, old = r->rdi, old_bytes = r->rsi, bytes = r->rsi;
    int gone = call != SYS_mprotect && call != SYS_pkey_mprotect;
    if (call == SYS_mremap) bytes = r->rdx;
    if (call == SYS_mmap && !(r->r10 & MAP_FIXED)) old_bytes = 0;
    if (call == SYS_shmat || call == SYS_shmdt) old_bytes = call == SYS_shmdt || (r->rdx & SHM_REMAP) ? ~0ull >> 17 : 0, old = 0;
    instrument_range_changes(old, old_bytes, gone);
    if (call == SYS_mremap && (r->r10 & MREMAP_FIXED)) instrument_range_changes(r->r8, bytes, 1);
    r->rax = make_call(r);
    instrument_range_changes(old, old_bytes, gone);
    if ((call == SYS_mmap || call == SYS_mremap) && !failed(r->rax)) instrument_range_changes(r->rax, bytes, 1);
    instrument_pages_changed();
}

/* ---- children ---- */

static uint32_t threads_lost;
uint32_t instrument_threads_lost(void) { return threads_lost; }
void instrument_forget_threads(void) { threads_lost = 0; }

/* A system call that returns in a child, or a thread, too. */
static void divide(struct state *s, const struct saved_registers *r) {
    uint64_t flags = r->rax == SYS_clone ? r->rdi : 0, stub = instrument_clone_stub(s->target);
    if (r->rax == SYS_clone3) instrument_read(r->rdi, (uint8_t *)&flags, sizeof flags); /* the first member */
    if (flags & CLONE_THREAD) threads_lost++;
    if (!stub) {
        instrument_give_up(s, -5, 0, s->target - 2);
        return;
    }
    instrument_outside(s, 1);
    s->jump = stub;
}

/* ---- segments ---- */

/* arch_prctl(code, address): GS is the engine's, and the program's is kept aside. 1: the system is to do it, 2: the program
   goes on natively. */
static int set_segment(struct state *s, struct saved_registers *r) {
    uint8_t there[8];
    switch (r->rdi) {
    case ARCH_SET_GS:
        if (r->rsi >= 0x7ffffffff000) {
            r->rax = (uint64_t)-EPERM;
        } else {
            instrument_change_gs(s, r->rsi);
            r->rax = 0;
        }
        return 0;
    case ARCH_GET_GS:
        r->rax = (uint64_t)-EFAULT;
        if (instrument_read(r->rsi, there, sizeof there) != sizeof there) return 0;
        memcpy((void *)r->rsi, &s->previous_gs, sizeof s->previous_gs);
        r->rax = 0;
        return 0;
    case ARCH_SET_FS:
        instrument_give_up(s, -9, 0, s->target - 2);
        return 2;
    }
    return 1;
}

/* ---- what the system writes ---- */

static void expect_writes(uint64_t pieces, uint64_t count) {
    struct iovec piece;
    for (uint64_t i = 0; i < count && i < 1024; i++) { /* 1024: UIO_MAXIOV */
        if (instrument_read(pieces + i * sizeof piece, (uint8_t *)&piece, sizeof piece) != sizeof piece) return;
        instrument_range_changes((uint64_t)piece.iov_base, piece.iov_len, 0);
    }
}

/* The system cannot write a page that is read-only for our sake: it would not fault but fail. */
static void expect_writes_of(const struct saved_registers *r) {
    struct msghdr message;
    switch (r->rax) {
    case SYS_read: case SYS_pread64: case SYS_recvfrom:
        instrument_range_changes(r->rsi, r->rdx, 0);
        break;
    case SYS_getrandom:
        instrument_range_changes(r->rdi, r->rsi, 0);
        break;
    case SYS_readv: case SYS_preadv: case SYS_preadv2: case SYS_process_vm_readv:
        expect_writes(r->rsi, r->rdx);
        break;
    case SYS_process_vm_writev: /* into this very process, perhaps */
        expect_writes(r->r10, r->r8);
        break;
    case SYS_recvmsg:
        if (instrument_read(r->rsi, (uint8_t *)&message, sizeof message) == sizeof message)
            expect_writes((uint64_t)message.msg_iov, message.msg_iovlen);
        break;
    case SYS_madvise: /* some advice empties pages */
        instrument_range_changes(r->rdi, r->rsi, 0);
        break;
    }
}

/* ---- all of them ---- */

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
    case SYS_fork: case SYS_vfork: case SYS_clone: case SYS_clone3:
        divide(s, r);
        goto leave;
    case SYS_mmap: case SYS_munmap: case SYS_mprotect: case SYS_mremap: case SYS_pkey_mprotect: case SYS_shmat:
    case SYS_shmdt: case SYS_remap_file_pages:
        change_mappings(r);
        break;
    case SYS_arch_prctl:
        switch (set_segment(s, r)) {
        case 0:
            goto done;
        case 1:
            goto program;
        }
        goto leave;
    default:
        expect_writes_of(r);
    program:
        s->jump = (uint64_t)instrument_raw_syscall;
    leave:
        instrument_end(s, s->target - 2);
        errno = kept;
        return;
    }
done:
    r->rcx = s->target;
    r->r11 = r->flags;
    instrument_resolve_target(s, r);
    instrument_end(s, s->target);
    errno = kept;
}

#endif
