void thomas_naive(const float *lower, const float *diagonal, const float *upper, const float *rhs, float *x,
                  float *work, size_t systems, size_t length);
void thomas_interleaved(const float *lower, const float *diagonal, const float *upper, const float *rhs,
                        float *x, float *work, size_t systems, size_t length);
