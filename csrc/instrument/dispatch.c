/* The crossings between translated code and C. Everything here keeps all registers, flags and vector state of the
   program, and leaves its 128-byte red zone alone. */
#if defined(__x86_64__)
#include "instrument/internal.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define GS(offset) "%gs:" TEXT(offset)

uint64_t instrument_xsave_bytes;

/* Save flags, registers and vector state, and call C with a pointer to them (struct saved_registers). The XSAVE header
   must be zero. From translated code this happens on a stack of the engine's own: the program's may be small, and what
   lies below its stack pointer is the program's. */
#define PUSH_REGISTERS(stack_pointer) \
    "  pushfq\n" \
    "  push %r15\n push %r14\n push %r13\n push %r12\n push %r11\n push %r10\n push %r9\n push %r8\n" \
    "  push %rdi\n push %rsi\n push %rbp\n push " stack_pointer "\n push %rbx\n push %rdx\n push %rcx\n push %rax\n" \
    "  cld\n" \
    "  mov %rsp, %rbp\n" \
    "  sub instrument_xsave_bytes(%rip), %rsp\n" \
    "  and $-64, %rsp\n" \
    "  xor %eax, %eax\n" \
    "  mov %rax, 512(%rsp)\n mov %rax, 520(%rsp)\n mov %rax, 528(%rsp)\n mov %rax, 536(%rsp)\n" \
    "  mov %rax, 544(%rsp)\n mov %rax, 552(%rsp)\n mov %rax, 560(%rsp)\n mov %rax, 568(%rsp)\n" \
    "  mov $-1, %eax\n mov $-1, %edx\n" \
    "  xsave64 (%rsp)\n" \
    "  fninit\n" \
    "  movl $0x1f80, -8(%rsp)\n ldmxcsr -8(%rsp)\n" \
    "  mov %rbp, %rdi\n"

#define POP_REGISTERS \
    "  mov $-1, %eax\n mov $-1, %edx\n" \
    "  xrstor64 (%rsp)\n" \
    "  mov %rbp, %rsp\n" \
    "  pop %rax\n pop %rcx\n pop %rdx\n pop %rbx\n lea 8(%rsp), %rsp\n pop %rbp\n pop %rsi\n pop %rdi\n" \
    "  pop %r8\n pop %r9\n pop %r10\n pop %r11\n pop %r12\n pop %r13\n pop %r14\n pop %r15\n" \
    "  popfq\n"

/* Native code that runs in between, the translator say, may come back to translated code: the engine then starts below what
   is in use here. Handlers of signals wait until it is not busy. */
#define SAVE_ALL \
    "  movl $1, " GS(STATE_BUSY) "\n" \
    "  mov %rsp, " GS(STATE_PROGRAM_STACK) "\n" \
    "  mov " GS(STATE_STACK) ", %rsp\n" \
    PUSH_REGISTERS(GS(STATE_PROGRAM_STACK)) \
    "  mov %rsp, " GS(STATE_STACK) "\n"

#define RESTORE_ALL \
    "  lea 136(%rbp), %rcx\n" \
    "  mov %rcx, " GS(STATE_STACK) "\n" \
    "  mov 32(%rbp), %rcx\n" \
    "  mov %rcx, " GS(STATE_PROGRAM_STACK) "\n" \
    POP_REGISTERS \
    "  mov " GS(STATE_PROGRAM_STACK) ", %rsp\n" \
    "  movl $0, " GS(STATE_BUSY) "\n"

__asm__(
    "  .text\n"
    "  .globl instrument_text_start\n  .hidden instrument_text_start\n"
    "instrument_text_start:\n"
    /* Jump to the translation of the original address in TARGET. The table holds negated addresses, so a match is a
       zero sum, which jrcxz tests without touching the flags. */
    "  .globl instrument_dispatch\n  .hidden instrument_dispatch\n  .type instrument_dispatch, @function\n"
    "instrument_dispatch:\n"
    "  mov %rax, " GS(STATE_D0) "\n"
    "  mov %rcx, " GS(STATE_D1) "\n"
    "  mov %rdx, " GS(STATE_D2) "\n"
    "  .globl instrument_dispatch_saved\n  .hidden instrument_dispatch_saved\n"
    "instrument_dispatch_saved:\n"
    "  mov " GS(STATE_TARGET) ", %rcx\n"
    "  movzwl %cx, %eax\n"
    "  mov %gs:" TEXT(STATE_KEYS) "(,%rax,8), %rdx\n"
    "  lea (%rcx,%rdx), %rcx\n"
    "  jrcxz 1f\n"
    "  mov " GS(STATE_D0) ", %rax\n"
    "  mov " GS(STATE_D1) ", %rcx\n"
    "  mov " GS(STATE_D2) ", %rdx\n"
    "  jmp instrument_miss\n"
    "1: mov %gs:" TEXT(STATE_HOSTS) "(,%rax,8), %rax\n"
    "  mov %rax, " GS(STATE_JUMP) "\n"
    "  mov " GS(STATE_D0) ", %rax\n"
    "  mov " GS(STATE_D1) ", %rcx\n"
    "  mov " GS(STATE_D2) ", %rdx\n"
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_dispatch, .-instrument_dispatch\n"

    "  .globl instrument_miss\n  .hidden instrument_miss\n  .type instrument_miss, @function\n"
    "instrument_miss:\n"
    SAVE_ALL
    "  call instrument_resolve\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_miss, .-instrument_miss\n"

    /* A system call: C decides what becomes of it. */
    "  .globl instrument_syscall\n  .hidden instrument_syscall\n  .type instrument_syscall, @function\n"
    "instrument_syscall:\n"
    SAVE_ALL
    "  call instrument_system_call\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_syscall, .-instrument_syscall\n"

    /* It is made with the program's own registers, on its own stack. While it lasts, other threads may hand over what was
       recorded; taking that back waits for the lock, in rcx, which the system call has overwritten anyway. No flag
       changes. */
    "  .globl instrument_raw_syscall\n  .hidden instrument_raw_syscall\n  .type instrument_raw_syscall, @function\n"
    "  .globl instrument_after_syscall\n  .hidden instrument_after_syscall\n"
    "  .globl instrument_syscall_instruction\n  .hidden instrument_syscall_instruction\n"
    "  .globl instrument_syscall_locked\n  .hidden instrument_syscall_locked\n"
    "  .globl instrument_syscall_done\n  .hidden instrument_syscall_done\n"
    "instrument_raw_syscall:\n"
    "  movl $1, " GS(STATE_OUTSIDE) "\n"
    "instrument_syscall_instruction:\n"
    "  syscall\n"
    "instrument_after_syscall:\n"
    "  mov $1, %ecx\n"
    "  xchg %ecx, " GS(STATE_LOCK) "\n"
    "instrument_syscall_locked:\n" /* or not, if rcx is not zero */
    "  jrcxz 1f\n"
    "  pause\n"
    "  jmp instrument_after_syscall\n"
    "1: movl $0, " GS(STATE_OUTSIDE) "\n"
    "  movl $0, " GS(STATE_LOCK) "\n"
    "instrument_syscall_done:\n"
    "  mov " GS(STATE_TARGET) ", %rcx\n"
    "  jmp instrument_dispatch\n"
    "  .size instrument_raw_syscall, .-instrument_raw_syscall\n"

    /* Called at the entry of a function that runs natively and may call back: C looks at its arguments, and pops the
       return address. */
    "  .globl instrument_before_native\n  .hidden instrument_before_native\n"
    "  .type instrument_before_native, @function\n"
    "instrument_before_native:\n"
    SAVE_ALL
    "  call instrument_hooked\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_before_native, .-instrument_before_native\n"

    /* A checked block found other code than it was translated from: TARGET is its address, SOURCE its number. */
    "  .globl instrument_changed\n  .hidden instrument_changed\n  .type instrument_changed, @function\n"
    "instrument_changed:\n"
    SAVE_ALL
    "  call instrument_block_changed\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_changed, .-instrument_changed\n"

    /* A native function that may have changed the process returns to TARGET. */
    "  .globl instrument_after_native\n  .hidden instrument_after_native\n  .type instrument_after_native, @function\n"
    "instrument_after_native:\n"
    SAVE_ALL
    "  call instrument_native_returned\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_after_native, .-instrument_after_native\n"

    /* wrgsbase: the value is in SCRATCH, TARGET is the next instruction. */
    "  .globl instrument_set_gs\n  .hidden instrument_set_gs\n  .type instrument_set_gs, @function\n"
    "instrument_set_gs:\n"
    SAVE_ALL
    "  call instrument_gs_is_set\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_set_gs, .-instrument_set_gs\n"

    /* The last way back to native code, where the program has a GS base of its own. A function that returns leaves rcx and
       r11 to us (psABI, section 3.2.1). */
    "  .globl instrument_leave_with_gs\n  .hidden instrument_leave_with_gs\n"
    "  .type instrument_leave_with_gs, @function\n"
    "instrument_leave_with_gs:\n"
    "  mov " GS(STATE_NATIVE_RETURN) ", %rcx\n"
    "  mov " GS(STATE_PROGRAM_GS) ", %r11\n"
    "  wrgsbase %r11\n"
    "  jmp *%rcx\n"
    "  .size instrument_leave_with_gs, .-instrument_leave_with_gs\n"

    /* Native code calls a translated function: r11 holds its original address, the stack the real return address. The
       thread may be new and have no state yet, so this is done on its own stack. */
    "  .globl instrument_enter\n  .hidden instrument_enter\n  .type instrument_enter, @function\n"
    "instrument_enter:\n"
    "  lea -128(%rsp), %rsp\n"
    PUSH_REGISTERS("%rsp")
    "  call instrument_entering\n"
    POP_REGISTERS
    "  lea 128(%rsp), %rsp\n"
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_enter, .-instrument_enter\n"

    /* The translated function returned: go back to the native caller. */
    "  .globl instrument_leave\n  .hidden instrument_leave\n  .type instrument_leave, @function\n"
    "instrument_leave:\n"
    SAVE_ALL
    "  call instrument_leaving\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_leave, .-instrument_leave\n"

    /* While signals are blocked, every way back leads through here: all registers are the program's, the next stop is at
       AFTER. rt_sigprocmask (14) sets its mask again, and what waits comes then. */
    "  .globl instrument_safe_point\n  .hidden instrument_safe_point\n  .type instrument_safe_point, @function\n"
    "  .globl instrument_safe\n  .hidden instrument_safe\n"
    "instrument_safe_point:\n"
    "  mov %rax, " GS(STATE_SAVED) "\n"
    "  mov %rcx, " GS(STATE_SAVED + 8) "\n"
    "  mov %rdx, " GS(STATE_SAVED + 16) "\n"
    "  mov %rsi, " GS(STATE_SAVED + 24) "\n"
    "  mov %rdi, " GS(STATE_SAVED + 32) "\n"
    "  mov %r10, " GS(STATE_SAVED + 40) "\n"
    "  mov %r11, " GS(STATE_SAVED + 48) "\n"
    "  mov " GS(STATE_SELF) ", %rsi\n"
    "  lea " TEXT(STATE_MASK) "(%rsi), %rsi\n"
    "  mov $14, %eax\n"
    "  mov $2, %edi\n"
    "  mov $0, %edx\n"
    "  mov $8, %r10d\n"
    "  syscall\n"
    "instrument_safe:\n"
    "  mov " GS(STATE_SAVED) ", %rax\n"
    "  mov " GS(STATE_SAVED + 8) ", %rcx\n"
    "  mov " GS(STATE_SAVED + 16) ", %rdx\n"
    "  mov " GS(STATE_SAVED + 24) ", %rsi\n"
    "  mov " GS(STATE_SAVED + 32) ", %rdi\n"
    "  mov " GS(STATE_SAVED + 40) ", %r10\n"
    "  mov " GS(STATE_SAVED + 48) ", %r11\n"
    "  jmp *" GS(STATE_AFTER) "\n"
    "  .size instrument_safe_point, .-instrument_safe_point\n"

    "  .globl instrument_text_end\n  .hidden instrument_text_end\n"
    "instrument_text_end:\n"

    /* Where handlers of signals return to: rt_sigreturn (15). */
    "  .globl instrument_restorer\n  .hidden instrument_restorer\n  .type instrument_restorer, @function\n"
    "instrument_restorer:\n"
    "  mov $15, %eax\n"
    "  syscall\n"
    "  .size instrument_restorer, .-instrument_restorer\n"

    /* uint64_t instrument_call_on(function, argument, stack) */
    "  .globl instrument_call_on\n  .hidden instrument_call_on\n  .type instrument_call_on, @function\n"
    "instrument_call_on:\n"
    "  push %rbp\n"
    "  mov %rsp, %rbp\n"
    "  mov %rdx, %rsp\n"
    "  mov %rdi, %rax\n"
    "  mov %rsi, %rdi\n"
    "  call *%rax\n"
    "  mov %rbp, %rsp\n"
    "  pop %rbp\n"
    "  ret\n"
    "  .size instrument_call_on, .-instrument_call_on\n");

#endif
