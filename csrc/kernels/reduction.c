/* Reductions: arrays read once, one number returned.
 *
 * A plain loop must add in order and cannot be vectorised without changing its result, so LANES sums run side
 * by side, the same number at every vector width: element i goes to sum i % LANES. The order of the
 * additions, and so the result and the FLOP count, is the same in every build. */
#include <stddef.h>

#include "reduction.h"

#define LANES 64

/* Sum of LANES numbers, one after the other: LANES - 1 additions. */
static float total(const float *sums)
{
    float all = sums[0];
    for (size_t k = 1; k < LANES; k++)
        all += sums[k];
    return all;
}

/* dot: sum of a[i] * b[i]
 * Streams: a, b read. 2 FLOPs an element; executed exactly 2n + 63, the 63 to add up the 64 sums.
 * Shows: no store, so no write-allocate; declared and actual bytes agree. */
float dot(const float *restrict a, const float *restrict b, size_t n)
{
    float sums[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += a[i + k] * b[i + k];
    for (size_t k = 0; i < n; i++, k++)
        sums[k] += a[i] * b[i];
    return total(sums);
}

/* squared_norm: sum of a[i]^2
 * Streams: a read. 2 FLOPs an element; executed exactly 2n + 63.
 * Shows: twice the intensity of dot from the same arithmetic. */
float squared_norm(const float *restrict a, size_t n)
{
    float sums[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += a[i + k] * a[i + k];
    for (size_t k = 0; i < n; i++, k++)
        sums[k] += a[i] * a[i];
    return total(sums);
}
