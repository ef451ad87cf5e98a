/* Dense matrix products C = A B of square row-major matrices, from the textbook loop to a tuned one. */
#include <stddef.h>
#include <string.h>

#include "dense.h"

/* Keeps a loop nest as written: without it the compiler may run several iterations of a loop side by side in
 * the lanes of a vector, and the naive version would be naive no more. Generates no instruction. */
#define KEEP_LOOP() __asm__ volatile("")

/* matmul: c[i][j] = sum over k of a[i][k] * b[k][j], loops in the order i, k, j
 * Streams: a, b read; c written. 2 FLOPs in the innermost loop; executed exactly 2n^3.
 * Shows: vectors along j, but all of b passes through the core once for each row of c: not memory, the cache
 * that holds b decides. */
void matmul(const float *restrict a, const float *restrict b, float *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 0.0f;
        for (size_t k = 0; k < n; k++) {
            float factor = a[i * n + k];
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += factor * b[k * n + j];
        }
    }
}

/* gemm_naive: c[i][j] = sum over k of a[i][k] * b[k][j], loops in the order i, j, k
 * Streams: a, b read; c written. 2 FLOPs in the innermost loop; executed exactly 2n^3.
 * Shows: a chain of dependent scalar additions that walks down a column of b; one element of each line
 * fetched is used before the next line. */
void gemm_naive(const double *restrict a, const double *restrict b, double *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (size_t k = 0; k < n; k++) {
                sum += a[i * n + k] * b[k * n + j];
                KEEP_LOOP();
            }
            c[i * n + j] = sum;
        }
}

/* The tile of C that stays in registers: MR rows of NV vectors of VL elements. 24 accumulators of the 32
 * registers of AVX-512, 12 of the 16 of AVX2 (with its three-operand fused multiply-add), 8 of the 16 of
 * SSE2. */
#if defined(__AVX512F__)
#define VL 8
#define NV 3
#define MR 8
#elif defined(__AVX2__)
#define VL 4
#define NV 3
#define MR 4
#else
#define VL 2
#define NV 2
#define MR 4
#endif
#define NR (NV * VL)

/* A panel of KC x NR of B stays in L1, a block of MC x KC of A in L2, KC rows of B in L3. */
#define KC 192
#define MC 96

typedef double vector __attribute__((vector_size(VL * sizeof(double))));

static inline vector load(const double *from)
{
    vector value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* c[0..MR][0..NR] += a b, or = a b if first, for packed a (depth x MR) and b (depth x NR). */
static inline void tile(const double *restrict a, const double *restrict b, double *restrict c, size_t ld,
                        size_t depth, int first)
{
    vector sums[MR][NV];
    for (int i = 0; i < MR; i++)
        for (int v = 0; v < NV; v++)
            sums[i][v] = first ? (vector){0} : load(c + i * ld + v * VL);
    for (size_t k = 0; k < depth; k++, a += MR, b += NR) {
        vector row[NV];
        for (int v = 0; v < NV; v++)
            row[v] = load(b + v * VL);
        for (int i = 0; i < MR; i++)
            for (int v = 0; v < NV; v++)
                sums[i][v] += a[i] * row[v];
    }
    for (int i = 0; i < MR; i++)
        for (int v = 0; v < NV; v++)
            memcpy(c + i * ld + v * VL, &sums[i][v], sizeof(vector));
}

/* The same for a tile that sticks out of C: computed whole in a copy, of which rows x cols go back. */
static void edge_tile(const double *a, const double *b, double *c, size_t ld, size_t depth, int first,
                      size_t rows, size_t cols)
{
    double copy[MR * NR] = {0};
    if (!first)
        for (size_t i = 0; i < rows; i++)
            memcpy(copy + i * NR, c + i * ld, cols * sizeof *c);
    tile(a, b, copy, NR, depth, first);
    for (size_t i = 0; i < rows; i++)
        memcpy(c + i * ld, copy + i * NR, cols * sizeof *c);
}

/* rows x depth of a, as panels of MR rows, each stored column by column; missing rows are zero. */
static void pack_a(const double *restrict a, size_t ld, size_t rows, size_t depth, double *restrict to)
{
    for (size_t i0 = 0; i0 < rows; i0 += MR)
        for (size_t k = 0; k < depth; k++)
            for (size_t i = i0; i < i0 + MR; i++)
                *to++ = i < rows ? a[i * ld + k] : 0.0;
}

/* depth x cols of b, as panels of NR columns, each stored row by row; missing columns are zero. */
static void pack_b(const double *restrict b, size_t ld, size_t depth, size_t cols, double *restrict to)
{
    for (size_t j0 = 0; j0 < cols; j0 += NR)
        for (size_t k = 0; k < depth; k++)
            for (size_t j = j0; j < j0 + NR; j++)
                *to++ = j < cols ? b[k * ld + j] : 0.0;
}

/* gemm_tuned: c[i][j] = sum over k of a[i][k] * b[k][j], blocked for registers and three levels of cache
 * Streams: a, b read; c written; work (KC (n + 24) + MC KC numbers) holds the packed blocks. Each number
 * loaded into a register serves MR or NR multiply-adds. Executed: exactly 2n^3 if n is a multiple of 24; else
 * tiles that stick out of C are computed whole and count as such.
 * Shows: what gemm_naive could be; bound by arithmetic, with actual bytes near the ideal ones. */
void gemm_tuned(const double *restrict a, const double *restrict b, double *restrict c, double *restrict work,
                size_t n)
{
    double *packed_a = work, *packed_b = work + MC * KC;
    for (size_t k0 = 0; k0 < n; k0 += KC) {
        size_t depth = n - k0 < KC ? n - k0 : KC;
        pack_b(b + k0 * n, n, depth, n, packed_b);
        for (size_t i0 = 0; i0 < n; i0 += MC) {
            size_t block = n - i0 < MC ? n - i0 : MC;
            pack_a(a + i0 * n + k0, n, block, depth, packed_a);
            for (size_t j = 0; j < n; j += NR)
                for (size_t i = 0; i < block; i += MR) {
                    const double *pa = packed_a + i * depth, *pb = packed_b + j * depth;
                    double *to = c + (i0 + i) * n + j;
                    if (i + MR <= block && j + NR <= n)
                        tile(pa, pb, to, n, depth, k0 == 0);
                    else
                        edge_tile(pa, pb, to, n, depth, k0 == 0, block - i < MR ? block - i : MR,
                                  n - j < NR ? n - j : NR);
                }
        }
    }
}
