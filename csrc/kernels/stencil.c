/* Stencils: each point from its neighbours on a regular grid. */
#include <stddef.h>

#include "stencil.h"

/* stencil7: y[i][j][k] = centre * x[i][j][k] + side * (sum of the six neighbours), inner points of an n^3
 * grid
 * Streams: x read; y written. 8 FLOPs a point: 5 additions, 1 multiplication, 1 fused multiply-add; executed
 * exactly 8 (n - 2)^3. The outer points of y are not touched.
 * Shows: reuse in three planes. While they fit in cache x is read once, and only write-allocate adds to the
 * claim. */
void stencil7(const double *restrict x, double *restrict y, double centre, double side, size_t n)
{
    size_t plane = n * n;
    for (size_t i = 1; i + 1 < n; i++)
        for (size_t j = 1; j + 1 < n; j++) {
            const double *at = x + i * plane + j * n;
            double *to = y + i * plane + j * n;
            for (size_t k = 1; k + 1 < n; k++) {
                double around = at[k - 1] + at[k + 1] + at[k - n] + at[k + n] + at[k - plane] + at[k + plane];
                to[k] = centre * at[k] + side * around;
            }
        }
}
