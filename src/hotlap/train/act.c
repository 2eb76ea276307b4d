/* A small network chooses actions for a few rows: layers, softmax and the draw in one call. */
#include "fast.h"

#define WIDEST 1024 /* as in dense.py */

typedef struct {
    int64_t outputs;
    const float *weight, *bias; /* [outputs, inputs], [outputs] */
} Layer;

static void linear(const Layer *layer, int64_t inputs, const float *restrict x, float *restrict y) {
    for (int64_t o = 0; o < layer->outputs; o++) {
        const float *restrict w = layer->weight + o * inputs;
        float sum = 0.0f;
        for (int64_t i = 0; i < inputs; i++) sum += w[i] * x[i];
        y[o] = sum + layer->bias[o];
    }
}

static void activate(float *restrict x, int64_t count, int64_t tanh) {
    if (tanh) {
        for (int64_t i = 0; i < count; i++) x[i] = 2.0f * logistic(2.0f * x[i]) - 1.0f;
    } else {
        for (int64_t i = 0; i < count; i++) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}

/* The first action up to which the probabilities sum to more than the draw (0 to below 1). Never one where `mask` is 0. */
static int64_t choose(const float *logits, const uint8_t *mask, int64_t count, float draw) {
    float highest = -INFINITY, total = 0.0f, probability[WIDEST]; /* not divided by their total */
    for (int64_t i = 0; i < count; i++) {
        if ((!mask || mask[i]) && logits[i] > highest) highest = logits[i];
    }
    for (int64_t i = 0; i < count; i++) {
        probability[i] = !mask || mask[i] ? exponential(logits[i] - highest) : 0.0f;
        total += probability[i];
    }
    float left = draw * total;
    int64_t chosen = 0;
    for (int64_t i = 0; i < count; i++) {
        if (probability[i] == 0.0f) continue;
        chosen = i; /* rounding may leave a little at the end: then the last possible one */
        left -= probability[i];
        if (left < 0.0f) break;
    }
    return chosen;
}

void hotlap_act(const Layer *layers, int64_t count, int64_t tanh, const float *obs, int64_t inputs, const uint8_t *mask,
                const float *draw, int64_t *action, int64_t rows) {
    float buffers[2][WIDEST];
    for (int64_t row = 0; row < rows; row++) {
        const float *x = obs + row * inputs;
        int64_t width = inputs;
        for (int64_t k = 0; k < count; k++) {
            float *y = buffers[k % 2];
            linear(layers + k, width, x, y);
            width = layers[k].outputs;
            if (k + 1 < count) activate(y, width, tanh);
            x = y;
        }
        action[row] = choose(x, mask ? mask + row * width : 0, width, draw[row]);
    }
}
