/* Kernels that behave, and kernels that do not. */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void triad(double *a, const double *b, const double *c, double s, size_t n)
{
    for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}
double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
float sum32(const float *a, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i];
    return sum;
}
int8_t minus_three(void) { return -3; }
unsigned char lowest_byte(uint64_t x) { return (unsigned char)x; }
void *address_of(double *a) { return a; }
void add_one(double *a, size_t n)
{
    for (size_t i = 0; i < n; i++) a[i] += 1;
}
void fortran_scale(double *a, const int *n, const double *factor)
{
    for (int i = 0; i < *n; i++) a[i] *= *factor;
}

struct shape { int rows; double weight; int8_t flag; int64_t columns; };
double use_struct(const struct shape *s, const double *nothing)
{
    return nothing ? -1 : s->rows * s->weight + s->flag + (double)s->columns;
}

/* A plan, as FFTW has it: made once, scribbling over the arrays it is made for. */
struct plan { double *in, *out, *table; size_t n; };
struct plan *make_plan(double *in, double *out, double *table, size_t n)
{
    struct plan *p = malloc(sizeof *p);
    *p = (struct plan){in, out, table, n};
    for (size_t i = 0; i < n; i++) in[i] = -1, table[i] = 10.0 * (double)i;
    return p;
}
void run_plan(const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++) p->out[i] = p->in[i] + p->table[i];
}
void *no_plan(size_t n) { return n ? NULL : &no_plan; }
float half_of(float x) { return x / 2; }
void store_float(double *a, float x) { a[0] = x; }

/* Misbehaviour; all take (double *a, size_t n). */
void past_end(double *a, size_t n) { for (size_t i = 0; i < n + 5000; i++) a[i] = (double)i; }
void one_past_end(double *a, size_t n) { a[n] = 1; }
void one_before(double *a, size_t n) { (void)n; a[-1] = 1; }
void far_past_end(double *a, size_t n) { a[n + 400000] = 1; }
double read_past_end(double *a, size_t n)
{
    volatile double sum = 0;
    for (size_t i = 0; i < n + 5000; i++) sum += a[i];
    return sum;
}
void null_pointer(double *a, size_t n) { (void)a, (void)n; *(volatile int *)8 = 1; }
void wild_pointer(double *a, size_t n) { (void)a, (void)n; *(volatile int *)0x8000000000000000u = 1; }
int divide(double *a, size_t n) { (void)a; volatile int zero = (int)(n - n); return (int)n / zero; }
void illegal(double *a, size_t n) { (void)a, (void)n; __builtin_trap(); }
void bus(double *a, size_t n)
{
    (void)a, (void)n;
    raise(SIGBUS);
}
void give_up(double *a, size_t n) { (void)a, (void)n; fputs("assertion of the kernel\n", stderr); abort(); }
void bad_free(double *a, size_t n) { (void)n; free(a + 1); }
void deep(double *a, size_t n)
{
    volatile double frame[500];
    frame[0] = a[0];
    deep((double *)frame, n + 1);
    a[0] = frame[1];
}
void in_libc(double *a, size_t n) { (void)n; volatile size_t much = 1 << 24; memset(a, 0, much); }
void spin(double *a, size_t n) { (void)a, (void)n; for (volatile int i = 0;; i = 0); }
void block_and_spin(double *a, size_t n)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    spin(a, n);
}
void stop(double *a, size_t n) { (void)a, (void)n; kill(getpid(), SIGSTOP); }
void quit(double *a, size_t n) { (void)a, (void)n; exit(3); }
void quit_at_once(double *a, size_t n) { (void)a, (void)n; _exit(0); }
void kill_itself(double *a, size_t n) { (void)a, (void)n; kill(getpid(), SIGKILL); }
void end_thread(double *a, size_t n) { (void)a, (void)n; pthread_exit(NULL); }
static void *crash(void *a) { *(volatile double *)((char *)a - 4096) = 1; return NULL; }
void crash_in_thread(double *a, size_t n)
{
    (void)n;
    pthread_t thread;
    pthread_create(&thread, NULL, crash, a);
    pthread_join(thread, NULL);
}
void flood(double *a, size_t n)
{
    char line[4096];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 2000; i++)
        if (write(1 + i % 2, line, sizeof line) < 0) return;
    add_one(a, n);
}
void print_and_crash(double *a, size_t n)
{
    fprintf(stderr, "about to fall over\n");
    null_pointer(a, n);
}
void close_all(double *a, size_t n)
{
    for (int fd = 0; fd < 1024; fd++) close(fd);
    add_one(a, n);
}
void fork_and_return(double *a, size_t n) { if (fork() >= 0) add_one(a, n); }
void leave_child(double *a, size_t n)
{
    if (fork() == 0) { sleep(60); _exit(0); }
    add_one(a, n);
}
void trash_heap(double *a, size_t n)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long low = 0, high = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[heap]")) sscanf(line, "%lx-%lx", &low, &high);
    a[0] = (double)n;
    memset((void *)low, 0x41, high - low);
}
void second_time(double *a, size_t n)
{
    static int calls;
    if (calls++) null_pointer(a, n);
}
void third_time(double *a, size_t n)
{
    static int calls;
    if (calls++ > 1) exit(9);
    a[0] = (double)n;
}
static int caught;
static void on_fault(int number) { (void)number; caught++; signal(SIGUSR1, SIG_IGN); _exit(77); }
void own_handler(double *a, size_t n) { signal(SIGSEGV, on_fault); null_pointer(a, n); }
void write_input(double *a, size_t n) { a[3] = (double)n; }
void fresh_pages(double *a, size_t n)
{
    char *pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, 64 * 4096, MADV_NOHUGEPAGE);
    for (int page = 0; page < 64; page++) pages[page * 4096] = 1;
    munmap(pages, 64 * 4096);
    a[0] = (double)n;
}
