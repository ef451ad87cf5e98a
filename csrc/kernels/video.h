void sobel_motion(const float *frames, float *edges, size_t count, size_t height, size_t width);
