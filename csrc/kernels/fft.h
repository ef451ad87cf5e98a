void fft_twiddles(double *twiddle, size_t n);
void fft(const double *x, double *y, double *work, const double *twiddle, size_t n);
