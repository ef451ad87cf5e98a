float dot(const float *a, const float *b, size_t n);
float squared_norm(const float *a, size_t n);
