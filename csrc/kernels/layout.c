/* Layout: the same data in another order of memory or of access; almost no arithmetic, all of the difference
 * in traffic. */
#include <stddef.h>

#include "layout.h"

/* Keeps a loop nest as written: without it the compiler may run several iterations of an outer loop side by
 * side in the lanes of a vector, and the walk would be another. Generates no instruction. */
#define KEEP_LOOP() __asm__ volatile("")

/* column_sum: sums[j] = sum over i of a[i][j], column by column, of a row-major matrix whose rows start ld
 * numbers apart
 * Streams: a read down each column; sums written. 1 FLOP an element; executed exactly rows * cols.
 * Shows: each access is in another line. If the lines of one column outlive it in cache the next column
 * finds them; if not, every line is fetched once for each of its eight elements. */
void column_sum(const double *restrict a, double *restrict sums, size_t rows, size_t cols, size_t ld)
{
    for (size_t j = 0; j < cols; j++) {
        double sum = 0.0;
        for (size_t i = 0; i < rows; i++)
            sum += a[i * ld + j];
        sums[j] = sum;
        KEEP_LOOP();
    }
}

/* column_walk: the same sums, of which four run side by side, so that additions do not wait for each other
 * Streams: a read down each column; sums written. 1 FLOP an element and 3 a column, to add up the four sums;
 * executed exactly (rows + 3) * cols.
 * Shows: with ld a power of two the lines of a column share few sets, and leave the small caches although
 * they would fit; a little padding cures it. */
void column_walk(const double *restrict a, double *restrict sums, size_t rows, size_t cols, size_t ld)
{
    for (size_t j = 0; j < cols; j++) {
        double sum0 = 0.0, sum1 = 0.0, sum2 = 0.0, sum3 = 0.0;
        size_t i = 0;
        for (; i + 4 <= rows; i += 4) {
            sum0 += a[i * ld + j];
            sum1 += a[(i + 1) * ld + j];
            sum2 += a[(i + 2) * ld + j];
            sum3 += a[(i + 3) * ld + j];
        }
        for (; i < rows; i++)
            sum0 += a[i * ld + j];
        sums[j] = sum0 + sum1 + sum2 + sum3;
        KEEP_LOOP();
    }
}

/* transpose_naive: b[j][i] = a[i][j], row by row of a
 * Streams: a read in order; b written down each column. No FLOPs.
 * Shows: every store is in another line, and page, than the one before; rows of a pass until a line of b is
 * full. */
void transpose_naive(const double *restrict a, double *restrict b, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            b[j * rows + i] = a[i * cols + j];
            KEEP_LOOP();
        }
}

#define BLOCK 32

/* transpose_blocked: b[j][i] = a[i][j], in blocks of BLOCK x BLOCK
 * Streams: a read and b written in pieces of BLOCK numbers. No FLOPs.
 * Shows: the lines of a block of a and b stay in L1 until all of each is used. */
void transpose_blocked(const double *restrict a, double *restrict b, size_t rows, size_t cols)
{
    for (size_t i0 = 0; i0 < rows; i0 += BLOCK)
        for (size_t j0 = 0; j0 < cols; j0 += BLOCK) {
            size_t i1 = rows - i0 < BLOCK ? rows : i0 + BLOCK, j1 = cols - j0 < BLOCK ? cols : j0 + BLOCK;
            for (size_t j = j0; j < j1; j++)
                for (size_t i = i0; i < i1; i++)
                    b[j * rows + i] = a[i * cols + j];
        }
}

/* speed2_aos: speed2[i] = vx^2 + vy^2 + vz^2 of bodies stored as structs (x, y, z, vx, vy, vz, mass, charge)
 * Streams: bodies read, 3 of each 8 numbers; speed2 written. 5 FLOPs a body; executed exactly 5n.
 * Shows: a struct is one line, fetched whole for three numbers. */
void speed2_aos(const double *restrict bodies, double *restrict speed2, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double vx = bodies[8 * i + 3], vy = bodies[8 * i + 4], vz = bodies[8 * i + 5];
        speed2[i] = vx * vx + vy * vy + vz * vz;
    }
}

/* speed2_soa: the same of bodies stored as one array a member
 * Streams: vx, vy, vz read; speed2 written. 5 FLOPs a body; executed exactly 5n.
 * Shows: the same claim, now short of write-allocate only. */
void speed2_soa(const double *restrict vx, const double *restrict vy, const double *restrict vz,
                double *restrict speed2, size_t n)
{
    for (size_t i = 0; i < n; i++)
        speed2[i] = vx[i] * vx[i] + vy[i] * vy[i] + vz[i] * vz[i];
}
