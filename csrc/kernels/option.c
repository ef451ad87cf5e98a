/* Options: a partial differential equation solved for many contracts, all in cache. */
#include <math.h>
#include <stddef.h>

#include "option.h"

#define LANES 32

/* Prices of width <= LANES contracts, side by side in the lanes of vectors. */
static inline void block(const float *restrict strike, const float *restrict rate,
                         const float *restrict volatility, const float *restrict maturity,
                         float *restrict value, float *restrict work, size_t contracts, size_t points,
                         size_t steps, float spacing, size_t width)
{
    float (*restrict v)[LANES] = (float (*)[LANES])work;
    float (*restrict w)[LANES] = v + points, (*restrict lower)[LANES] = w + points;
    float (*restrict upper)[LANES] = lower + points, (*restrict plus)[LANES] = upper + points;
    float (*restrict minus)[LANES] = plus + points;
    float diffusion[LANES], drift[LANES], interest[LANES], factor[LANES], discount[LANES];
    size_t last = points - 1;

    for (size_t k = 0; k < width; k++) {
        float dt = maturity[k] / (float)steps;
        float quarter = 0.25f * dt;
        diffusion[k] = quarter * (volatility[k] * volatility[k]);
        drift[k] = quarter * rate[k];
        interest[k] = 0.5f * dt * rate[k];
        factor[k] = 1.0f / (1.0f + rate[k] * dt);
        discount[k] = 1.0f;
        w[0][k] = 0.0f;
    }
    for (size_t j = 0; j < points; j++) {
        float gain = fabsf((float)j * spacing - 1.0f);
        for (size_t k = 0; k < width; k++)
            v[j][k] = gain;
    }
    for (size_t j = 1; j < last; j++)
        for (size_t k = 0; k < width; k++) {
            /* No product is used twice: a compiler that fuses both uses would execute it twice. */
            upper[j][k] = diffusion[k] * (float)(j * j) + drift[k] * (float)j;
            lower[j][k] = upper[j][k] - interest[k] * (float)j;
            float m = (upper[j][k] + lower[j][k]) + interest[k];
            plus[j][k] = 1.0f + m;
            minus[j][k] = 1.0f - m;
        }

    for (size_t step = 0; step < steps; step++) {
        float before[LANES];
        for (size_t k = 0; k < width; k++) {
            before[k] = v[0][k];
            discount[k] *= factor[k];
            v[0][k] = discount[k];
        }
        for (size_t j = 1; j < last; j++)
            for (size_t k = 0; k < width; k++) {
                float rhs = lower[j][k] * before[k] + minus[j][k] * v[j][k] + upper[j][k] * v[j + 1][k];
                float inverse = 1.0f / (plus[j][k] - lower[j][k] * w[j - 1][k]);
                before[k] = v[j][k];
                w[j][k] = upper[j][k] * inverse;
                v[j][k] = (rhs + lower[j][k] * v[j - 1][k]) * inverse;
            }
        for (size_t k = 0; k < width; k++)
            v[last][k] = 4.0f - discount[k];
        for (size_t j = last - 1; j > 0; j--)
            for (size_t k = 0; k < width; k++)
                v[j][k] += w[j][k] * v[j + 1][k];
    }

    for (size_t j = 0; j < points; j++)
        for (size_t k = 0; k < width; k++)
            value[j * contracts + k] = strike[k] * v[j][k];
}

/* crank_nicolson: prices of straddles (a call and a put) by steps steps of the Black-Scholes equation
 *     (1 + m[j]) V'[j] - l[j] V'[j-1] - u[j] V'[j+1] = (1 - m[j]) V[j] + l[j] V[j-1] + u[j] V[j+1],
 *     l, u = dt/4 (s^2 j^2 -+ r j), m = dt/2 (s^2 j^2 + r),
 * on a grid of points prices from 0 to 4 strikes; V is the discounted strike at the one end, 4 strikes less
 * it at the other. (A call alone would be tiny at low prices, and denormal numbers slow.) Each step makes the
 * right-hand side (5 FLOPs) and solves by Thomas' algorithm (9). Point j of contract c is at
 * value[j * contracts + c].
 * Streams: strike, rate, volatility, maturity read; value written once; work (6 points LANES numbers) stays
 * in cache.
 * 14 FLOPs a point and step. Executed exactly, with p = points - 2 inner points:
 * contracts * (steps * (14 p + 2) + 9 p + 10 + points) + 2 points ceil(contracts / 32) + 1.
 * Shows: arithmetic with a division in its chain, and hardly any memory traffic; the claim takes 13 for
 * Thomas' algorithm. */
void crank_nicolson(const float *restrict strike, const float *restrict rate,
                    const float *restrict volatility, const float *restrict maturity, float *restrict value,
                    float *restrict work, size_t contracts, size_t points, size_t steps)
{
    float spacing = 4.0f / (float)(points - 1);
    size_t c = 0;
    for (; c + LANES <= contracts; c += LANES)
        block(strike + c, rate + c, volatility + c, maturity + c, value + c, work, contracts, points, steps,
              spacing, LANES);
    if (c < contracts)
        block(strike + c, rate + c, volatility + c, maturity + c, value + c, work, contracts, points, steps,
              spacing, contracts - c);
}
