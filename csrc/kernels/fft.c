/* Fourier transform: log4(n) passes over arrays that together exceed most caches. */
#include <math.h>
#include <stddef.h>

#include "fft.h"

/* fft_twiddles: twiddle[k] = e^(-2 pi i k / n) for k < 3n/4, first all real parts, then all imaginary ones.
 * Called once, before fft. */
void fft_twiddles(double *restrict twiddle, size_t n)
{
    const double turn = 6.283185307179586476925;
    size_t count = 3 * n / 4;
    for (size_t k = 0; k < count; k++) {
        double angle = turn * (double)k / (double)n;
        twiddle[k] = cos(angle);
        twiddle[count + k] = -sin(angle);
    }
}

/* One butterfly of four points in 34 FLOPs: 8 complex additions (16), 3 complex multiplications (18).
 * in, out: distances between its points; n: from a real part to the imaginary one; w: the three factors. */
static inline void butterfly(const double *x, size_t in, double *y, size_t out, size_t n, const double *w_re,
                             const double *w_im)
{
    const double *xi = x + n;
    double *yi = y + n;
    double a_re = x[0] + x[2 * in], a_im = xi[0] + xi[2 * in];
    double b_re = x[0] - x[2 * in], b_im = xi[0] - xi[2 * in];
    double c_re = x[in] + x[3 * in], c_im = xi[in] + xi[3 * in];
    double d_re = x[in] - x[3 * in], d_im = xi[in] - xi[3 * in];
    double p_re = b_re + d_im, p_im = b_im - d_re;
    double q_re = a_re - c_re, q_im = a_im - c_im;
    double r_re = b_re - d_im, r_im = b_im + d_re;
    y[0] = a_re + c_re;
    yi[0] = a_im + c_im;
    y[out] = w_re[0] * p_re - w_im[0] * p_im;
    yi[out] = w_re[0] * p_im + w_im[0] * p_re;
    y[2 * out] = w_re[1] * q_re - w_im[1] * q_im;
    yi[2 * out] = w_re[1] * q_im + w_im[1] * q_re;
    y[3 * out] = w_re[2] * r_re - w_im[2] * r_im;
    yi[3 * out] = w_re[2] * r_im + w_im[2] * r_re;
}

/* The first pass of radix 4: one transform of length n is split in four. */
static void first_pass(const double *restrict x, double *restrict y, const double *restrict twiddle, size_t n)
{
    const double *re = twiddle, *im = twiddle + 3 * n / 4;
#pragma GCC ivdep
    for (size_t p = 0; p < n / 4; p++) {
        double w_re[3] = {re[p], re[2 * p], re[3 * p]}, w_im[3] = {im[p], im[2 * p], im[3 * p]};
        butterfly(x + p, n / 4, y + 4 * p, 1, n, w_re, w_im);
    }
}

/* A later pass: s transforms side by side, each of length n / s, are split in four. */
static void pass(const double *restrict x, double *restrict y, const double *restrict twiddle, size_t n,
                 size_t s)
{
    const double *re = twiddle, *im = twiddle + 3 * n / 4;
    for (size_t k = 0; k < n / 4; k += s) {
        double w_re[3] = {re[k], re[2 * k], re[3 * k]}, w_im[3] = {im[k], im[2 * k], im[3 * k]};
#pragma GCC ivdep
        for (size_t q = 0; q < s; q++)
            butterfly(x + k + q, n / 4, y + 4 * k + q, s, n, w_re, w_im);
    }
}

/* The last pass when log2(n) is odd: pairs half the array apart; no factors. */
static void last_pass(const double *restrict x, double *restrict y, size_t n)
{
    for (size_t part = 0; part < 2; part++, x += n, y += n)
#pragma GCC ivdep
        for (size_t q = 0; q < n / 2; q++) {
            y[q] = x[q] + x[q + n / 2];
            y[q + n / 2] = x[q] - x[q + n / 2];
        }
}

/* fft: y[k] = sum over j of x[j] e^(-2 pi i j k / n), n a power of two, at least 4 (Stockham, radix 4)
 * Streams: x read; y and work written and read in turns, once a pass; twiddle (3n/4 factors) read. An array
 * of complex numbers is that of the real parts and after it that of the imaginary ones.
 * Executed exactly 34 (n/4) log4(n) FLOPs, for odd log2(n) 34 (n/4) (log2(n) - 1)/2 + 2n: 4.25 n log2(n)
 * where the customary claim is 5 n log2(n).
 * Shows: that claim counts an algorithm nobody runs, and 48n bytes hold only if all passes meet in cache. */
void fft(const double *restrict x, double *restrict y, double *restrict work, const double *restrict twiddle,
         size_t n)
{
    size_t passes = 0;
    for (size_t length = n; length > 1; length = length > 2 ? length / 4 : 1)
        passes++;
    /* The target alternates such that the last pass writes y. */
    const double *from = x;
    size_t s = 1;
    for (; passes > 0; passes--, s *= 4) {
        double *to = passes % 2 ? y : work;
        if (n / s == 2)
            last_pass(from, to, n);
        else if (s == 1)
            first_pass(from, to, twiddle, n);
        else
            pass(from, to, twiddle, n, s);
        from = to;
    }
}
