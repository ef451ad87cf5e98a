void matmul(const float *a, const float *b, float *c, size_t n);
void gemm_naive(const double *a, const double *b, double *c, size_t n);
void gemm_tuned(const double *a, const double *b, double *c, double *work, size_t n);
