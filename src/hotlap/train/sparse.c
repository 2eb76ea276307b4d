/* A linear layer of sparse zeros and ones: sums of rows of its weights, and their gradient. Index is given by the compiler's flags.
 *
 * A row of indices is how many there are, then where the ones are, in ascending order. Index i adds row i % period of the weights
 * at position i / period; what lies beyond `positions` is left out.
 */
#include <stdint.h>

#define BLOCK 64 /* columns whose sums stay in registers */

static void sum_block(const Index *ones, int64_t count, const float *weight, int64_t outputs, float *restrict out) {
    float sum[BLOCK] = {0};
    for (int64_t k = 0; k < count; k++) {
        const float *row = weight + ones[k] * outputs;
        for (int c = 0; c < BLOCK; c++) sum[c] += row[c];
    }
    for (int c = 0; c < BLOCK; c++) out[c] += sum[c];
}

/* out [rows, positions, outputs] += sums of rows of weight [period, outputs] */
void hotlap_sum_rows(const Index *indices, int64_t rows, int64_t width, int64_t period, int64_t positions, const float *weight,
                     int64_t outputs, float *out) {
    for (int64_t r = 0; r < rows; r++) {
        const Index *ones = indices + r * width + 1, *end = ones + ones[-1];
        for (int64_t p = 0; p < positions; p++, out += outputs) {
            const float *begin = weight - p * period * outputs;
            const Index *next = ones;
            while (next < end && *next < (p + 1) * period) next++;
            int64_t c = 0;
            for (; c + BLOCK <= outputs; c += BLOCK) sum_block(ones, next - ones, begin + c, outputs, out + c);
            for (; c < outputs; c++)
                for (int64_t k = 0; k < next - ones; k++) out[c] += begin[ones[k] * outputs + c];
            ones = next;
        }
    }
}

/* gradient [period, outputs] += what `to_out` [rows, positions, outputs] asks of the weights */
void hotlap_add_rows(const Index *indices, int64_t rows, int64_t width, int64_t period, int64_t positions, const float *to_out,
                     int64_t outputs, float *gradient) {
    for (int64_t r = 0; r < rows; r++, to_out += positions * outputs) {
        const Index *ones = indices + r * width + 1, *end = ones + ones[-1];
        for (; ones < end && *ones < positions * period; ones++) {
            const int64_t p = *ones / period;
            const float *restrict from = to_out + p * outputs;
            float *restrict into = gradient + (*ones - p * period) * outputs;
            for (int64_t c = 0; c < outputs; c++) into[c] += from[c];
        }
    }
}
