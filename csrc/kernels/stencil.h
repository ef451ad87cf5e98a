void stencil7(const double *x, double *y, double centre, double side, size_t n);
