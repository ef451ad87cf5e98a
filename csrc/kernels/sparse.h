void csr_spmv(const int32_t *start, const int32_t *column, const float *value, const float *x, float *y,
              size_t rows);
void gather(const double *table, const int32_t *index, double *out, size_t n);
