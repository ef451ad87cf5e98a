/* Audio: one biquad section in direct form II over many channels, in two layouts.
 *
 * Both: w = x - a1 w1 - a2 w2, y = b0 w + b1 w1 + b2 w2, where w1 and w2 are the last two w of the channel,
 * zero at the start. 9 FLOPs a sample (4 + 5); executed exactly 9 * channels * samples. The customary claim
 * of 8 forgets b0. */
#include <stddef.h>

#include "audio.h"

#define LANES 64

/* biquad_naive: sample t of channel c at [c * samples + t]
 * Streams: x read; y written.
 * Shows: each sample waits for the one before; neither memory nor arithmetic is the limit but latency. */
void biquad_naive(const float *restrict x, float *restrict y, float b0, float b1, float b2, float a1,
                  float a2, size_t channels, size_t samples)
{
    for (size_t c = 0; c < channels; c++, x += samples, y += samples) {
        float w1 = 0.0f, w2 = 0.0f;
        for (size_t t = 0; t < samples; t++) {
            float w = (x[t] - a2 * w2) - a1 * w1;
            y[t] = b0 * w + b1 * w1 + b2 * w2;
            w2 = w1;
            w1 = w;
        }
    }
}

/* width <= LANES channels, side by side in the lanes of vectors. */
static inline void block(const float *restrict x, float *restrict y, float b0, float b1, float b2, float a1,
                         float a2, size_t channels, size_t samples, size_t width)
{
    float w1[LANES] = {0}, w2[LANES] = {0};
    for (size_t t = 0; t < samples; t++, x += channels, y += channels)
        for (size_t c = 0; c < width; c++) {
            float w = (x[c] - a2 * w2[c]) - a1 * w1[c];
            y[c] = b0 * w + b1 * w1[c] + b2 * w2[c];
            w2[c] = w1[c];
            w1[c] = w;
        }
}

/* biquad_interleaved: sample t of channel c at [t * channels + c]
 * Streams: x read; y written; the state stays in registers or L1.
 * Shows: the same arithmetic on the same bytes, now at the memory roof. */
void biquad_interleaved(const float *restrict x, float *restrict y, float b0, float b1, float b2, float a1,
                        float a2, size_t channels, size_t samples)
{
    size_t c = 0;
    for (; c + LANES <= channels; c += LANES)
        block(x + c, y + c, b0, b1, b2, a1, a2, channels, samples, LANES);
    if (c < channels)
        block(x + c, y + c, b0, b1, b2, a1, a2, channels, samples, channels - c);
}
