void column_sum(const double *a, double *sums, size_t rows, size_t cols, size_t ld);
void column_walk(const double *a, double *sums, size_t rows, size_t cols, size_t ld);
void transpose_naive(const double *a, double *b, size_t rows, size_t cols);
void transpose_blocked(const double *a, double *b, size_t rows, size_t cols);
void speed2_aos(const double *bodies, double *speed2, size_t n);
void speed2_soa(const double *vx, const double *vy, const double *vz, double *speed2, size_t n);
