void softmax(const float *x, float *y, size_t rows, size_t cols);
