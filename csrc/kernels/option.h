void crank_nicolson(const float *strike, const float *rate, const float *volatility, const float *maturity,
                    float *value, float *work, size_t contracts, size_t points, size_t steps);
