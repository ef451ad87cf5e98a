/* Convolution as in neural networks, one filter a channel. */
#include <stddef.h>

#include "convolution.h"

/* depthwise3x3: y[c][i][j] = bias[c] + sum over p, q < 3 of weight[c][p][q] * x[c][i + p][j + q]
 * Streams: x read, (height + 2) x (width + 2) a channel, that is with its border; y written, height x width a
 * channel. 18 FLOPs an output, nine fused multiply-adds; executed exactly 18 channels height width.
 * Shows: three rows of reuse that fit in L1, so the claim lacks only write-allocate. */
void depthwise3x3(const float *restrict x, const float *restrict weight, const float *restrict bias,
                  float *restrict y, size_t channels, size_t height, size_t width)
{
    size_t row = width + 2;
    for (size_t c = 0; c < channels; c++, x += (height + 2) * row, weight += 9)
        for (size_t i = 0; i < height; i++, y += width) {
            const float *r0 = x + i * row, *r1 = r0 + row, *r2 = r1 + row;
            for (size_t j = 0; j < width; j++) {
                float sum = bias[c];
                sum += weight[0] * r0[j];
                sum += weight[1] * r0[j + 1];
                sum += weight[2] * r0[j + 2];
                sum += weight[3] * r1[j];
                sum += weight[4] * r1[j + 1];
                sum += weight[5] * r1[j + 2];
                sum += weight[6] * r2[j];
                sum += weight[7] * r2[j + 1];
                sum += weight[8] * r2[j + 2];
                y[j] = sum;
            }
        }
}
