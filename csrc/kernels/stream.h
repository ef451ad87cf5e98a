void vector_add(const float *a, const float *b, float *c, size_t n);
void triad(double *a, const double *b, const double *c, double s, size_t n);
void copy(const double *a, double *b, size_t n);
void copy_nontemporal(const double *a, double *b, size_t n);
