/* What the callgrind oracle runs besides the built-in kernels: functions of real libraries, and control flow of its own.
 * Everything is deterministic. Prototypes are written down here so that no development packages are needed. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state;

static uint32_t next_random(void) { return (state = state * 1664525u + 1013904223u) >> 8; }

/* ---- zlib ---- */

#ifdef ZLIB
int compress2(uint8_t *to, unsigned long *size, const uint8_t *from, unsigned long count, int level);
int uncompress(uint8_t *to, unsigned long *size, const uint8_t *from, unsigned long count);
unsigned long crc32(unsigned long crc, const uint8_t *data, unsigned count);
unsigned long adler32(unsigned long adler, const uint8_t *data, unsigned count);

#define TEXT 20011
static uint8_t text[TEXT], packed[2 * TEXT], unpacked[TEXT];
static unsigned long packed_size;

void zlib_setup(void) { /* words of a small language, some of them often */
    state = 7;
    for (unsigned i = 0; i < TEXT;) {
        uint32_t word = next_random() % (next_random() % 300 + 1);
        for (unsigned length = word % 7 + 1; length-- && i < TEXT; word = word * 31 + 7) text[i++] = 'a' + word % 26;
        if (i < TEXT) text[i++] = ' ';
    }
    packed_size = sizeof packed;
    compress2(packed, &packed_size, text, TEXT, 6);
}
static long pack(int level) {
    static uint8_t again[2 * TEXT];
    unsigned long size = sizeof again;
    return compress2(again, &size, text, TEXT, level) ? -1 : (long)size;
}
long zlib_compress_fast(void) { return pack(1); }
long zlib_compress(void) { return pack(6); }
long zlib_compress_best(void) { return pack(9); }
long zlib_store(void) { return pack(0); }
long zlib_uncompress(void) {
    unsigned long size = sizeof unpacked;
    return uncompress(unpacked, &size, packed, packed_size) || memcmp(text, unpacked, TEXT) ? -1 : (long)size;
}
long zlib_crc32(void) { return (long)crc32(0, text + 1, TEXT - 1); }
long zlib_adler32(void) { return (long)adler32(1, text + 1, TEXT - 1); }
#endif

/* ---- FFTW ---- */

#ifdef FFTW
void *fftw_plan_dft_1d(int n, double *in, double *out, int sign, unsigned flags);
void *fftw_plan_dft_r2c_1d(int n, double *in, double *out, unsigned flags);
void *fftw_plan_r2r_1d(int n, double *in, double *out, int kind, unsigned flags);
void *fftw_plan_dft_2d(int rows, int columns, double *in, double *out, int sign, unsigned flags);
void fftw_execute(const void *plan);
void fftw_destroy_plan(void *plan);
void fftw_cleanup(void);
#define ESTIMATE (1u << 6)
#define REDFT10 5

#define POINTS 8192
static double in[2 * POINTS] __attribute__((aligned(64))), out[2 * POINTS] __attribute__((aligned(64)));
static void *plan;

/* Keeps a plan and fills its input. Plans that live share tables, so there is never more than one. */
static void keep(void *made) {
    if (plan) fftw_destroy_plan(plan);
    plan = made;
    state = 11;
    for (unsigned i = 0; i < 2 * POINTS; i++) in[i] = next_random() * 0x1p-24 - 0.5;
}
void fftw_1d_power_setup(void) { keep(fftw_plan_dft_1d(4096, in, out, -1, ESTIMATE)); }
void fftw_1d_odd_setup(void) { keep(fftw_plan_dft_1d(3 * 5 * 7 * 11, in, out, 1, ESTIMATE)); }
void fftw_1d_prime_setup(void) { keep(fftw_plan_dft_1d(1009, in, out, -1, ESTIMATE)); }
void fftw_in_place_setup(void) { keep(fftw_plan_dft_1d(2048, in, in, -1, ESTIMATE)); }
void fftw_real_setup(void) { keep(fftw_plan_dft_r2c_1d(2000, in, out, ESTIMATE)); }
void fftw_cosine_setup(void) { keep(fftw_plan_r2r_1d(1155, in, out, REDFT10, ESTIMATE)); }
void fftw_2d_setup(void) { keep(fftw_plan_dft_2d(61, 64, in, out, -1, ESTIMATE)); }
void fftw_run(void) { fftw_execute(plan); }
/* The planner itself: the largest part of the library's code. It asks for the processor's features once, and remembers
 * what it found before until it is told to forget. */
void fftw_planner(void) {
    fftw_destroy_plan(fftw_plan_dft_1d(2310, in, out, -1, ESTIMATE));
    fftw_destroy_plan(fftw_plan_dft_2d(30, 97, in, out, -1, ESTIMATE));
}
void fftw_planner_setup(void) { fftw_planner(), keep(NULL), fftw_cleanup(); }
#endif

/* ---- the mathematical library ---- */

double maths(void) {
    double sum = 0;
    for (int i = 1; i < 200; i++) {
        double x = i * 0.37;
        sum += sin(x) + cos(x * 1e5) + tan(x) + exp(-x) + log(x) + pow(x, 1.3) + atan2(x, 3) + sinh(x * 0.01) + cbrt(x);
        sum += erf(x * 0.1) + tgamma(x * 0.1) + lgamma(x) + fmod(1e9, x) + remainder(1e9, x) + hypot(x, 2) + j0(x);
        sum += sinf((float)x) + expf((float)-x) + logf((float)x) + powf((float)x, 0.7f) + asin(x * 0.01) + log1p(x);
    }
    return sum;
}

/* x87. Valgrind computes in 64 bits what has 80: no branch here depends on the last digits. */
long double long_maths(void) {
    long double sum = 0;
    for (int i = 1; i < 100; i++) {
        long double x = i * 0.37L;
        sum += sqrtl(x) + fabsl(x) + floorl(x) + rintl(x) + x / 3 + (long double)(int64_t)(x * 7);
        sum += logl(x) + atanl(x);
    }
    return sum;
}

/* ---- control flow ---- */

static uint64_t fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
uint64_t recursion(void) { return fibonacci(15); }

static uint64_t one(uint64_t x) { return x + 1; }
static uint64_t two(uint64_t x) { return x * 3; }
static uint64_t three(uint64_t x) { return x ^ x >> 7; }
uint64_t indirect_calls(void) {
    uint64_t (*volatile table[3])(uint64_t) = {one, two, three};
    uint64_t value = 1;
    state = 3;
    for (int i = 0; i < 1000; i++) value = table[next_random() % 3](value);
    return value;
}

uint64_t jump_table(void) {
    uint64_t value = 1;
    state = 5;
    for (int i = 0; i < 1000; i++) {
        switch (next_random() % 9) {
        case 0: value += 3; break;
        case 1: value *= 5; break;
        case 2: value ^= value >> 3; break;
        case 3: value -= (uint64_t)i; break;
        case 4: value = value << 1 | value >> 63; break;
        case 5: value = ~value; break;
        case 6: value += value >> 9; break;
        case 7: if (value & 1) continue; value++; break;
        default: value = value * 7 + 1;
        }
    }
    return value;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}
uint64_t sort_with_callback(void) {
    static uint32_t numbers[257];
    state = 9;
    for (int i = 0; i < 257; i++) numbers[i] = next_random();
    qsort(numbers, 257, sizeof *numbers, ascending);
    return numbers[100];
}

static jmp_buf back;
static void __attribute__((noinline)) deeper(int depth, int value) {
    volatile char room[32];
    room[depth & 31] = (char)value;
    if (depth) deeper(depth - 1, value);
    else longjmp(back, value);
}
uint64_t long_jumps(void) {
    volatile uint64_t sum = 0;
    for (volatile int i = 1; i < 50; i++) {
        int value = setjmp(back);
        if (!value) deeper(i % 7, i);
        else sum += (uint64_t)value;
    }
    return sum;
}

/* ---- instructions that repeat or count ---- */

uint64_t count_loop(void) { /* loop, loopne, jrcxz */
    uint64_t value = 0, count;
    for (count = 1; count < 20; count++) {
        uint64_t left = count;
        __asm__ volatile("1: add $3, %0\n loop 1b\n" : "+r"(value), "+c"(left) : : "cc");
        left = count;
        __asm__ volatile("1: sub $1, %0\n cmp $5, %%rcx\n loopne 1b\n" : "+r"(value), "+c"(left) : : "cc");
        left = count & 1;
        __asm__ volatile("jrcxz 1f\n add $100, %0\n 1: add $1, %0\n" : "+r"(value), "+c"(left) : : "cc");
    }
    return value;
}

/* The repeated ones are counted differently by the two sides; those around them are not. */
uint64_t repeated_strings(void) {
    static uint8_t from[200], to[200];
    uint64_t sum = 0;
    for (unsigned i = 0; i < 200; i++) from[i] = (uint8_t)(i * 7);
    for (unsigned count = 0; count < 100; count += 9) {
        void *s = from, *d = to;
        uint64_t c = count;
        __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(c) : : "memory");
        d = to, c = count;
        __asm__ volatile("rep stosb" : "+D"(d), "+c"(c) : "a"(count) : "memory");
        d = from, c = count;
        __asm__ volatile("repne scasb" : "+D"(d), "+c"(c) : "a"(7 * 20 & 255) : "memory", "cc");
        sum += c;
        s = from, d = to, c = count;
        __asm__ volatile("repe cmpsb" : "+S"(s), "+D"(d), "+c"(c) : : "memory", "cc");
        sum += c;
        s = from, c = count & 3;
        __asm__ volatile("rep lodsb" : "+S"(s), "+c"(c) : : "memory", "rax");
        s = from, d = to;
        __asm__ volatile("movsb\n stosb\n lodsb" : "+S"(s), "+D"(d) : : "memory", "rax");
    }
    return sum;
}

/* Loops of one block whose counters step in every way a compiler or an assembly programmer writes. */
uint64_t counted_loops(void) {
    uint64_t sum = 0;
    static double data[64];
    for (uint64_t n = 1; n < 24; n += 5) {
        uint64_t i = 0;
        double *p = data;
        __asm__ volatile("1: add $1, %0\n cmp %1, %0\n jb 1b" : "+r"(i) : "r"(n) : "cc");
        sum += i, i = n;
        __asm__ volatile("1: movsd (%1), %%xmm0\n lea 8(%1), %1\n dec %0\n jnz 1b" : "+r"(i), "+r"(p) : : "cc", "xmm0");
        uint32_t k = (uint32_t)n;
        __asm__ volatile("1: subl $1, %0\n jnz 1b" : "+r"(k) : : "cc");
        k = 0xfffffff0u; /* passes zero */
        __asm__ volatile("1: addl $1, %0\n cmpl %1, %0\n jne 1b" : "+r"(k) : "r"((uint32_t)n) : "cc");
        sum += k, i = 3 * n;
        __asm__ volatile("1: sub $3, %0\n jg 1b" : "+r"(i) : : "cc");
        sum += i, i = (uint64_t)-(int64_t)(8 * n), p = data + 24;
        __asm__ volatile("1: movsd (%1,%0), %%xmm0\n add $8, %0\n js 1b" : "+r"(i) : "r"(p) : "cc", "xmm0");
        uint64_t bits = 0x9249249249249249ull >> n; /* the counter is no counter at all */
        __asm__ volatile("1: lea -1(%0), %%rax\n and %%rax, %0\n jnz 1b" : "+r"(bits) : : "cc", "rax");
        uint16_t short_counter = (uint16_t)n; /* 16 bits: leaves the rest of the register alone */
        __asm__ volatile("1: subw $1, %0\n jnz 1b" : "+r"(short_counter) : : "cc");
    }
    return sum;
}
