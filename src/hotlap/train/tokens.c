/* A convolution of the box that tokens stand for, from the tokens alone: each adds a few rows of the weights. And its gradient.
 *
 * A token is three bytes: location (row << 4 | column), feature, value. 0xFE as location: the cell in the middle. 0xFF: no more
 * tokens in this row. `plane` and `amount` [features, 256] say which plane of the box a feature of this value is in (negative:
 * none), and the number that stands there. Weights are [kernel * kernel, planes, outputs], results [rows, places * places, outputs].
 */
#include <stdint.h>

#define OUTPUTS 64 /* computed at once, in registers */
#define MIDDLE 0xFE
#define END 0xFF

typedef struct {
    int64_t most, features, planes, side, kernel, stride, places, outputs;
    const int16_t *plane;
    const float *amount;
} Shape;

/* The first and the last window, along one side, that covers a cell. */
static inline int64_t first_place(const Shape *s, int64_t at) { return at < s->kernel ? 0 : (at - s->kernel) / s->stride + 1; }
static inline int64_t last_place(const Shape *s, int64_t at) {
    int64_t last = at / s->stride;
    return last < s->places ? last : s->places - 1;
}

static inline void add(float *restrict into, const float *restrict from, float amount, int64_t outputs) {
    for (int64_t block = 0; block < outputs; block += OUTPUTS)
        for (int64_t c = 0; c < OUTPUTS; c++) into[block + c] += amount * from[block + c];
}

/* For each token and each window that covers it: where the weights are, where the result is. `backward`: into the weights. */
static inline void each_token(const Shape *s, const uint8_t *token, float *weight, float *out, int backward) {
    for (const uint8_t *end = token + 3 * s->most; token < end && token[0] != END; token += 3) {
        int64_t row = token[0] >> 4, column = token[0] & 15, key = token[1] * 256 + token[2];
        if (token[0] == MIDDLE) row = column = s->side / 2;
        if (token[1] >= s->features || row >= s->side || column >= s->side || s->plane[key] < 0) continue;
        const int64_t plane = s->plane[key];
        const float amount = s->amount[key];
        for (int64_t i = first_place(s, row); i <= last_place(s, row); i++)
            for (int64_t j = first_place(s, column); j <= last_place(s, column); j++) {
                int64_t within = (row - i * s->stride) * s->kernel + column - j * s->stride;
                float *used = weight + (within * s->planes + plane) * s->outputs, *place = out + (i * s->places + j) * s->outputs;
                if (backward)
                    add(used, place, amount, s->outputs);
                else
                    add(place, used, amount, s->outputs);
            }
    }
}

/* `outputs` must be a multiple of OUTPUTS. `out` holds the bias. */
void hotlap_convolve_tokens(const Shape *s, const uint8_t *tokens, int64_t rows, float *weight, float *out) {
    for (int64_t r = 0; r < rows; r++, tokens += 3 * s->most, out += s->places * s->places * s->outputs)
        each_token(s, tokens, weight, out, 0);
}

void hotlap_token_gradient(const Shape *s, const uint8_t *tokens, int64_t rows, float *gradient, float *to_out) {
    for (int64_t r = 0; r < rows; r++, tokens += 3 * s->most, to_out += s->places * s->places * s->outputs)
        each_token(s, tokens, gradient, to_out, 1);
}
