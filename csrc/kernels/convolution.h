void depthwise3x3(const float *x, const float *weight, const float *bias, float *y, size_t channels,
                  size_t height, size_t width);
