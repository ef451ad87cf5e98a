/* The crossings between translated code and C. Everything here keeps all registers, flags and vector state of the
   program, and leaves its 128-byte red zone alone. */
#if defined(__x86_64__)
#include "instrument/internal.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define GS(offset) "%gs:" TEXT(offset)

uint64_t instrument_xsave_bytes;

/* Push flags and the sixteen registers below the red zone, save the vector state, and leave rbp at the saved
   registers (struct saved_registers) and rdi, rsi as the arguments of a C function. The XSAVE header must be zero. */
#define SAVE_ALL \
    "  lea -128(%rsp), %rsp\n" \
    "  pushfq\n" \
    "  push %r15\n push %r14\n push %r13\n push %r12\n push %r11\n push %r10\n push %r9\n push %r8\n" \
    "  push %rdi\n push %rsi\n push %rbp\n push %rsp\n push %rbx\n push %rdx\n push %rcx\n push %rax\n" \
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

#define RESTORE_ALL \
    "  mov $-1, %eax\n mov $-1, %edx\n" \
    "  xrstor64 (%rsp)\n" \
    "  mov %rbp, %rsp\n" \
    "  pop %rax\n pop %rcx\n pop %rdx\n pop %rbx\n lea 8(%rsp), %rsp\n pop %rbp\n pop %rsi\n pop %rdi\n" \
    "  pop %r8\n pop %r9\n pop %r10\n pop %r11\n pop %r12\n pop %r13\n pop %r14\n pop %r15\n" \
    "  popfq\n" \
    "  lea 128(%rsp), %rsp\n"

__asm__(
    "  .text\n"
    /* Jump to the translation of the original address in TARGET. The table holds negated addresses, so a match is a
       zero sum, which jrcxz tests without touching the flags. */
    "  .globl instrument_dispatch\n  .hidden instrument_dispatch\n  .type instrument_dispatch, @function\n"
    "instrument_dispatch:\n"
    "  mov %rax, " GS(STATE_D0) "\n"
    "  mov %rcx, " GS(STATE_D1) "\n"
    "  mov %rdx, " GS(STATE_D2) "\n"
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

    "  .type instrument_miss, @function\n"
    "instrument_miss:\n"
    SAVE_ALL
    "  call instrument_resolve\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_miss, .-instrument_miss\n"

    /* Native code calls a translated function: r11 holds the translation, the stack its real return address. */
    "  .globl instrument_enter\n  .hidden instrument_enter\n  .type instrument_enter, @function\n"
    "instrument_enter:\n"
    SAVE_ALL
    "  call instrument_entering\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_enter, .-instrument_enter\n"

    /* The translated function returned: go back to the native caller. */
    "  .globl instrument_leave\n  .hidden instrument_leave\n  .type instrument_leave, @function\n"
    "instrument_leave:\n"
    SAVE_ALL
    "  call instrument_leaving\n"
    RESTORE_ALL
    "  jmp *" GS(STATE_JUMP) "\n"
    "  .size instrument_leave, .-instrument_leave\n");

#endif
