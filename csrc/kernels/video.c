/* Video: a small stencil in space and a difference in time. */
#include <math.h>
#include <stddef.h>

#include "video.h"

/* sobel_motion: edges = sqrt(gx^2 + gy^2) + |frame - frame before|, gx and gy the 3x3 Sobel gradients
 * Streams: frames read, the frame before from cache where that holds two frames; edges written. 18 FLOPs a
 * pixel: 6 for each gradient, 4 for their length, 2 for the difference and its addition; executed exactly 18
 * (count - 1) (height - 2) (width - 2). The first frame and the border pixels of edges are not touched.
 * Shows: the right number for the wrong reason. The claim charges two reads and a write of 4 bytes; the frame
 * before comes from cache, but the write costs a read of its own. */
void sobel_motion(const float *restrict frames, float *restrict edges, size_t count, size_t height,
                  size_t width)
{
    for (size_t t = 1; t < count; t++)
        for (size_t i = 1; i + 1 < height; i++) {
            const float *now = frames + (t * height + i) * width, *before = now - height * width;
            const float *up = now - width, *down = now + width;
            float *to = edges + (t * height + i) * width;
            for (size_t j = 1; j + 1 < width; j++) {
                float gx =
                    (up[j + 1] - up[j - 1]) + 2.0f * (now[j + 1] - now[j - 1]) + (down[j + 1] - down[j - 1]);
                float gy = (down[j - 1] + down[j + 1]) - (up[j - 1] + up[j + 1]) + 2.0f * (down[j] - up[j]);
                to[j] = sqrtf(gx * gx + gy * gy) + fabsf(now[j] - before[j]);
            }
        }
}
