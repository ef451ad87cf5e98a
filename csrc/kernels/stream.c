/* Streams: arrays walked once from end to end, so memory bandwidth alone decides. */
#include <stddef.h>

#include "stream.h"

/* vector_add: c[i] = a[i] + b[i]
 * Streams: a, b read; c written. 1 FLOP an element; executed exactly n.
 * Shows: the line of c is read before it is written (write-allocate), so 16 bytes move where 12 are asked
 * for. */
void vector_add(const float *restrict a, const float *restrict b, float *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

/* triad: a[i] = b[i] + s * c[i]
 * Streams: b, c read; a written. 2 FLOPs an element (one fused multiply-add); executed exactly 2n.
 * Shows: the best known under-count, 24 bytes declared and 32 moved. */
void triad(double *restrict a, const double *restrict b, const double *restrict c, double s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

/* copy: b[i] = a[i]
 * Streams: a read; b written with ordinary stores. No FLOPs.
 * Shows: write-allocate with nothing else in the way. The compiler must not turn the loop into a call of
 * memcpy, which would choose its own kind of store (-fno-tree-loop-distribute-patterns). */
void copy(const double *restrict a, double *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = a[i];
}

#ifdef __SSE2__
#include <immintrin.h>

#if defined(__AVX512F__)
#define LANES 8
#define STREAM(to, from) _mm512_stream_pd(to, _mm512_loadu_pd(from))
#elif defined(__AVX__)
#define LANES 4
#define STREAM(to, from) _mm256_stream_pd(to, _mm256_loadu_pd(from))
#else
#define LANES 2
#define STREAM(to, from) _mm_stream_pd(to, _mm_loadu_pd(from))
#endif

/* copy_nontemporal: b[i] = a[i]
 * Streams: a read; b written with non-temporal stores, but for the elements before the first and after the
 * last whole vector. No FLOPs.
 * Shows: what non-temporal stores save, 16 bytes an element against the 24 of copy. There is no portable way
 * to ask for such a store, so the kernel exists on x86 only. */
void copy_nontemporal(const double *restrict a, double *restrict b, size_t n)
{
    size_t i = 0;
    for (; i < n && (size_t)(b + i) % (LANES * sizeof *b) != 0; i++)
        b[i] = a[i];
    for (; i + LANES <= n; i += LANES)
        STREAM(b + i, a + i);
    for (; i < n; i++)
        b[i] = a[i];
    /* Non-temporal stores are weakly ordered; the fence makes them visible to whoever reads b next. */
    _mm_sfence();
}
#endif
