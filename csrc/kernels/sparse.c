/* Accesses through an index: what is read depends on data. */
#include <stddef.h>
#include <stdint.h>

#include "sparse.h"

/* csr_spmv: y[i] = sum over k in start[i]..start[i + 1] - 1 of value[k] * x[column[k]]
 * Streams: start, column, value read in order; x read through column; y written. 2 FLOPs a stored entry;
 * executed exactly 2 nnz.
 * Shows: the claim charges each element of x once, which holds only while x stays in cache. */
void csr_spmv(const int32_t *restrict start, const int32_t *restrict column, const float *restrict value,
              const float *restrict x, float *restrict y, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        float sum = 0.0f;
        for (int32_t k = start[i]; k < start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

/* gather: out[i] = table[index[i]]
 * Streams: index read in order; table read through index; out written. No FLOPs.
 * Shows: 8 bytes used of each line fetched, so up to 64 bytes move for each element of table. */
void gather(const double *restrict table, const int32_t *restrict index, double *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = table[index[i]];
}
