/* Gravitation of all pairs: arithmetic on data that stay in cache. */
#include <math.h>
#include <stddef.h>

#include "nbody.h"

#define LANES 32

/* Acceleration of width <= LANES bodies by all n. */
static inline void block(const float *restrict x, const float *restrict y, const float *restrict z,
                         const float *restrict mass, float *restrict ax, float *restrict ay,
                         float *restrict az, float softening, size_t n, size_t first, size_t width)
{
    float sx[LANES] = {0}, sy[LANES] = {0}, sz[LANES] = {0};
    for (size_t j = 0; j < n; j++)
        for (size_t k = 0; k < width; k++) {
            float dx = x[j] - x[first + k];
            float dy = y[j] - y[first + k];
            float dz = z[j] - z[first + k];
            float squared = dx * dx + dy * dy + dz * dz + softening;
            float inverse = 1.0f / sqrtf(squared);
            float weight = mass[j] * (inverse * inverse * inverse);
            sx[k] += dx * weight;
            sy[k] += dy * weight;
            sz[k] += dz * weight;
        }
    for (size_t k = 0; k < width; k++) {
        ax[first + k] = sx[k];
        ay[first + k] = sy[k];
        az[first + k] = sz[k];
    }
}

/* nbody: a[i] = sum over j of mass[j] d / (|d|^2 + softening)^(3/2), d = position[j] - position[i]
 * Streams: x, y, z, mass read; ax, ay, az written. 20 FLOPs a pair: 3 subtractions, 6 for the squared
 * distance, square root and division, 3 for the weight, 6 for the sums; executed exactly 20 n^2, the pair of
 * a body with itself included.
 * Shows: bound by arithmetic, and by its square root and division, far below the roof of multiply-adds. */
void nbody(const float *restrict x, const float *restrict y, const float *restrict z,
           const float *restrict mass, float *restrict ax, float *restrict ay, float *restrict az,
           float softening, size_t n)
{
    size_t first = 0;
    for (; first + LANES <= n; first += LANES)
        block(x, y, z, mass, ax, ay, az, softening, n, first, LANES);
    if (first < n)
        block(x, y, z, mass, ax, ay, az, softening, n, first, n - first);
}
