void nbody(const float *x, const float *y, const float *z, const float *mass, float *ax, float *ay, float *az,
           float softening, size_t n);
