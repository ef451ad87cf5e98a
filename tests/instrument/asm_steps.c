/* Runs a block one instruction at a time, by the trap flag, and writes down the registers before each. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define TRAP_FLAG 0x100

struct step {
    uint64_t rip, flags, gpr[16], masks[8];
    uint8_t vectors[32][64];
    uint8_t mmx[8][16];
};

static struct {
    uint64_t resume; /* the recording code: there stepping ends */
    struct step *out;
    uint64_t room, count, last;
    int fault;
} stepping;

static const int signals[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { SIGNALS = sizeof signals / sizeof signals[0] };
static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* Copy `each` bytes per register out of a component of the XSAVE area; a component in its initial state is zero. */
static void component(const uint8_t *area, unsigned number, void *to, unsigned registers, unsigned each, unsigned stride)
{
    unsigned size, offset, c, d;
    uint64_t present;
    if (!__get_cpuid_count(13, number, &size, &offset, &c, &d))
        return;
    memcpy(&present, area + 512, 8);
    for (unsigned i = 0; i < registers && (present >> number & 1); i++)
        memcpy((uint8_t *)to + (size_t)i * stride, area + offset + (size_t)i * each, each);
}

static void write_down(const ucontext_t *user)
{
    const greg_t *registers = user->uc_mcontext.gregs;
    const uint8_t *area = (const uint8_t *)user->uc_mcontext.fpregs;
    uint32_t magic;
    struct step *s = &stepping.out[stepping.count];
    memset(s, 0, sizeof *s);
    s->rip = (uint64_t)registers[REG_RIP];
    s->flags = (uint64_t)registers[REG_EFL] & ~(uint64_t)TRAP_FLAG;
    for (int i = 0; i < 16; i++)
        s->gpr[i] = (uint64_t)registers[order[i]];
    for (int i = 0; i < 8; i++) /* the area has them from the top of the x87 stack on */
        memcpy(s->mmx[i], area + 32 + 16 * ((i - (area[3] >> 3)) & 7), 16);
    for (int i = 0; i < 16; i++)
        memcpy(s->vectors[i], area + 160 + 16 * i, 16);
    memcpy(&magic, area + 464, 4);
    if (magic != 0x46505853) /* FP_XSTATE_MAGIC1: more than FXSAVE has */
        return;
    component(area, 2, s->vectors[0] + 16, 16, 16, 64);
    component(area, 5, s->masks, 8, 8, 8);
    component(area, 6, s->vectors[0] + 32, 16, 32, 64);
    component(area, 7, s->vectors[16], 16, 64, 64);
}

/* The trap flag must not be seen by the program: take it out of what pushf has just saved. */
static void hide(greg_t *registers)
{
    const uint8_t *code = (const uint8_t *)stepping.last;
    while (*code == 0x66 || (*code & 0xf0) == 0x40)
        code++;
    if (*code == 0x9c)
        ((uint8_t *)registers[REG_RSP])[1] &= (uint8_t)~(TRAP_FLAG >> 8);
}

/* A system call swallows the trap after it, so it is made from here. */
static int system_call(greg_t *registers)
{
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0x05)
        return 0;
    registers[REG_RAX] = syscall(registers[REG_RAX], registers[REG_RDI], registers[REG_RSI], registers[REG_RDX]);
    registers[REG_RCX] = registers[REG_RIP] += 2;
    registers[REG_R11] = registers[REG_EFL] & ~TRAP_FLAG;
    return 1;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    ucontext_t *user = context;
    greg_t *registers = user->uc_mcontext.gregs;
    if (stepping.last)
        hide(registers);
    if (number != SIGTRAP || info->si_code != TRAP_TRACE || stepping.count == stepping.room) {
        stepping.fault = number;
        registers[REG_RIP] = (greg_t)stepping.resume;
    }
    if ((uint64_t)registers[REG_RIP] == stepping.resume) {
        registers[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    do {
        write_down(user);
        stepping.count++;
    } while (system_call(registers) && stepping.count < stepping.room);
    stepping.last = (uint64_t)registers[REG_RIP];
    registers[REG_EFL] |= TRAP_FLAG;
}

/* Call `entry(argument)`, whose flags have the trap flag set early on. Returns the number of steps; `fault` is the signal
 * that ended it, SIGTRAP too if there were more steps than `room`. */
uint64_t asm_steps(uint64_t entry, uint64_t argument, uint64_t resume, struct step *out, uint64_t room, int *fault)
{
    static unsigned char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old_stack;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old[SIGNALS];
    int i;

    sigaltstack(&stack, &old_stack);
    for (i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, &old[i]);
    memset(&stepping, 0, sizeof stepping);
    stepping.resume = resume;
    stepping.out = out;
    stepping.room = room;
    ((void (*)(uint64_t))entry)(argument);
    for (i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &old[i], NULL);
    sigaltstack(&old_stack, NULL);
    *fault = stepping.fault;
    return stepping.count;
}
