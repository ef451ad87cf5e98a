/* Ensembles of tridiagonal systems, solved by Thomas' algorithm, in two layouts.
 *
 * Both: inverse = 1 / (diagonal[i] - lower[i] w[i-1]), w[i] = upper[i] inverse, x[i] = (rhs[i] - lower[i]
 * x[i-1]) inverse downwards (7 FLOPs), then x[i] -= w[i] x[i+1] upwards (2). 9 FLOPs an unknown; executed
 * exactly systems * (9 length - 6), as the first row has nothing above it (4 fewer) and the last nothing
 * below (2 fewer). The inputs are kept, so a call may be repeated. */
#include <stddef.h>

#include "tridiagonal.h"

/* thomas_naive: element i of system s at [s * length + i]
 * Streams: lower, diagonal, upper, rhs read; x written, read and written again; work (length numbers) stays
 * in cache.
 * Shows: one long chain of divisions; every line is used whole, yet neither memory nor arithmetic is the
 * limit but latency. */
void thomas_naive(const float *restrict lower, const float *restrict diagonal, const float *restrict upper,
                  const float *restrict rhs, float *restrict x, float *restrict work, size_t systems,
                  size_t length)
{
    for (size_t s = 0; s < systems; s++) {
        size_t row = s * length;
        float inverse = 1.0f / diagonal[row];
        float w = upper[row] * inverse, d = rhs[row] * inverse;
        work[0] = w;
        x[row] = d;
        for (size_t i = 1; i < length; i++) {
            inverse = 1.0f / (diagonal[row + i] - lower[row + i] * w);
            w = upper[row + i] * inverse;
            d = (rhs[row + i] - lower[row + i] * d) * inverse;
            work[i] = w;
            x[row + i] = d;
        }
        for (size_t i = length - 1; i-- > 0;) {
            d = x[row + i] - work[i] * d;
            x[row + i] = d;
        }
    }
}

/* thomas_interleaved: element i of system s at [i * systems + s]
 * Streams: lower, diagonal, upper, rhs read; x and work (as long as x) written downwards, read upwards, x
 * written again.
 * Shows: systems side by side in the lanes of a vector. The chains are hidden, but all systems advance
 * together: w and x of the way down have left the cache on the way up, and the traffic is well above the
 * claim. */
void thomas_interleaved(const float *restrict lower, const float *restrict diagonal,
                        const float *restrict upper, const float *restrict rhs, float *restrict x,
                        float *restrict work, size_t systems, size_t length)
{
    for (size_t s = 0; s < systems; s++) {
        float inverse = 1.0f / diagonal[s];
        work[s] = upper[s] * inverse;
        x[s] = rhs[s] * inverse;
    }
    for (size_t i = 1; i < length; i++) {
        size_t row = i * systems, above = row - systems;
        for (size_t s = 0; s < systems; s++) {
            float inverse = 1.0f / (diagonal[row + s] - lower[row + s] * work[above + s]);
            work[row + s] = upper[row + s] * inverse;
            x[row + s] = (rhs[row + s] - lower[row + s] * x[above + s]) * inverse;
        }
    }
    for (size_t i = length - 1; i-- > 0;) {
        size_t row = i * systems, below = row + systems;
        for (size_t s = 0; s < systems; s++)
            x[row + s] = x[row + s] - work[row + s] * x[below + s];
    }
}
