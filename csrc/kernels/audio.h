void biquad_naive(const float *x, float *y, float b0, float b1, float b2, float a1, float a2, size_t channels,
                  size_t samples);
void biquad_interleaved(const float *x, float *y, float b0, float b1, float b2, float a1, float a2,
                        size_t channels, size_t samples);
