/* Softmax: each row is read three times and written twice, but only its first read reaches memory. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "softmax.h"

#define LANES 64

/* e^x for x <= 0, in 18 FLOPs: x = k ln 2 + r with whole k (1 + 4), the Taylor polynomial of degree 6 in r
 * (12), times 2^k made in the exponent field (1). Rounding, the lower bound (below it e^x leaves the normal
 * numbers) and the conversion to an integer are not FLOPs. Relative error below 2e-7. */
static inline float exponential(float x)
{
    x = x < -87.0f ? -87.0f : x;
    float k = rintf(x * 1.44269504f);
    float r = x - k * 0.693359375f;
    r = r + k * 2.12194440e-4f;
    float p = 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    union {
        int32_t bits;
        float value;
    } power = {((int32_t)k + 127) << 23};
    return p * power.value;
}

/* softmax: y[i][j] = e^(x[i][j] - top[i]) / sum over j of the same, top[i] the largest of row i
 * Streams: x read; y written. 21 FLOPs an element: subtraction 1, exponential 18, sum 1, scaling 1; executed
 * exactly rows * (21 cols + 64), the 64 to add up the 64 sums of a row (63) and to invert the total (1).
 * Of an element 87 below the top the compiler may mask off some.
 * Shows: an exponential is not one FLOP, and passes over a row that stays in cache cost no memory traffic. */
void softmax(const float *restrict x, float *restrict y, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++, x += cols, y += cols) {
        float tops[LANES], sums[LANES] = {0};
        size_t whole = cols - cols % LANES;

        for (size_t k = 0; k < LANES; k++)
            tops[k] = x[0];
        for (size_t j = 0; j < whole; j += LANES)
            for (size_t k = 0; k < LANES; k++)
                tops[k] = x[j + k] > tops[k] ? x[j + k] : tops[k];
        for (size_t j = whole; j < cols; j++)
            tops[j - whole] = x[j] > tops[j - whole] ? x[j] : tops[j - whole];
        float top = tops[0];
        for (size_t k = 1; k < LANES; k++)
            top = tops[k] > top ? tops[k] : top;

        for (size_t j = 0; j < whole; j += LANES)
            for (size_t k = 0; k < LANES; k++) {
                float e = exponential(x[j + k] - top);
                y[j + k] = e;
                sums[k] += e;
            }
        for (size_t j = whole; j < cols; j++) {
            float e = exponential(x[j] - top);
            y[j] = e;
            sums[j - whole] += e;
        }
        float sum = sums[0];
        for (size_t k = 1; k < LANES; k++)
            sum += sums[k];
        float scale = 1.0f / sum;

        for (size_t j = 0; j < cols; j++)
            y[j] *= scale;
    }
}
