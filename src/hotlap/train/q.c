/* Q-learning with a small dense network on one core: acting, the loss of a minibatch, its gradient, and Adam.

   The specification is td.py, in torch. A network is a vector of parameters (see flat.py) and a table of where its layers lie in
   it; the target network and the gradient are vectors of the same layout. Nothing is kept between calls except the activations
   that `hotlap_q_loss` leaves in the workspace for `hotlap_q_backward`. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 8
#elif defined(__AVX__)
#define LANES 8
#define ROWS 4
#else
#define LANES 4
#define ROWS 4
#endif
#define MOST_LAYERS 16 /* as in q_kernel.py */

typedef float Vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Mask __attribute__((vector_size(4 * LANES)));

typedef struct {
    int64_t inputs, outputs, weight, bias; /* the last two: where [outputs, inputs] and [outputs] begin in the vector */
} Layer;

enum { FLOATS, BYTES, SPARSE_16, SPARSE_32 };

typedef struct {
    int64_t obs_kind, obs_width; /* numbers of one observation as it comes */
    int64_t actions, dueling;
    int64_t count; /* layers; the last one gives the actions' advantages. Dueling: after it comes the one of the value */
    Layer layers[];
} Net;

/* Where everything lies in the workspace. Rows are padded to whole vectors with zeros. */
typedef struct {
    int64_t rows, width[MOST_LAYERS + 1];                    /* padded: rows, numbers per row of each `x` */
    float *x[MOST_LAYERS + 1];                               /* [rows, width]: the input, and what each layer gives */
    float *transposed[MOST_LAYERS], *bias[MOST_LAYERS];      /* [inputs, width], [width] */
    float *slope[2], *weight, *weight_slope;                 /* gradients of two neighbouring `x`; of one layer */
    float *value;                                            /* [rows] of the next observations */
    int64_t size;
} Plan;

static int64_t padded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static float *take(Plan *plan, float *work, int64_t count) {
    float *begin = work + plan->size;
    plan->size += padded(count, 16);
    return begin;
}

static int64_t outputs_of(const Net *net, int64_t k) {
    return net->layers[k].outputs + (net->dueling && k + 1 == net->count);
}

static Plan make_plan(const Net *net, int64_t rows, float *work) {
    Plan plan = {.rows = padded(rows, ROWS)};
    int64_t widest = 0, largest = 0;
    for (int64_t k = 0; k <= net->count; k++) {
        plan.width[k] = padded(k ? outputs_of(net, k - 1) : net->layers[0].inputs, LANES);
        plan.x[k] = take(&plan, work, plan.rows * plan.width[k]);
        if (plan.width[k] > widest) widest = plan.width[k];
    }
    for (int64_t k = 0; k < net->count; k++) {
        plan.transposed[k] = take(&plan, work, net->layers[k].inputs * plan.width[k + 1]);
        plan.bias[k] = take(&plan, work, plan.width[k + 1]);
        int64_t size = plan.width[k + 1] * plan.width[k];
        if (size > largest) largest = size;
    }
    for (int64_t i = 0; i < 2; i++) plan.slope[i] = take(&plan, work, plan.rows * widest);
    plan.weight = take(&plan, work, largest);
    plan.weight_slope = take(&plan, work, largest);
    plan.value = take(&plan, work, plan.rows);
    return plan;
}

int64_t hotlap_q_workspace(const Net *net, int64_t rows) { return make_plan(net, rows, 0).size; }

/* -- products of matrices -- */

/* ROWS rows and `vectors` vectors of c = start + a b, where element (r, k) of a is a[r * a_row + k * a_column]. */
static inline __attribute__((always_inline)) void tile(const float *a, int64_t a_row, int64_t a_column, const float *b,
                                                       int64_t b_row, float *c, int64_t c_row, int64_t depth,
                                                       const float *start, int relu, const int vectors) {
    Vec sum[ROWS][2], zero = {0};
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[r][v] = start ? *(const Vec *)(start + v * LANES) : zero;
    }
    for (int64_t k = 0; k < depth; k++) {
        const float *left = a + k * a_column;
        Vec right[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) right[v] = *(const Vec *)(b + k * b_row + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] += left[r * a_row] * right[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            Vec y = sum[r][v];
            if (relu) y = (Vec)((Mask)y & ~(y < zero)); /* what is not a number stays so */
            *(Vec *)(c + r * c_row + v * LANES) = y;
        }
    }
}

/* c [rows, columns] = start + a b; rows and columns are multiples of ROWS and LANES. */
static void multiply(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row, float *c, int64_t c_row,
                     int64_t rows, int64_t columns, int64_t depth, const float *start, int relu) {
    int64_t j = 0;
    for (; j + 2 * LANES <= columns; j += 2 * LANES) {
        for (int64_t i = 0; i < rows; i += ROWS)
            tile(a + i * a_row, a_row, a_column, b + j, b_row, c + i * c_row + j, c_row, depth, start ? start + j : 0, relu, 2);
    }
    for (; j < columns; j += LANES) {
        for (int64_t i = 0; i < rows; i += ROWS)
            tile(a + i * a_row, a_row, a_column, b + j, b_row, c + i * c_row + j, c_row, depth, start ? start + j : 0, relu, 1);
    }
}

/* -- the network -- */

static void transpose(const Layer *layer, const float *flat, float *restrict transposed, float *restrict bias, int64_t width) {
    const float *restrict weight = flat + layer->weight;
    for (int64_t first = 0; first < layer->outputs; first += LANES) { /* a cache line is written at once */
        int64_t end = first + LANES < layer->outputs ? first + LANES : layer->outputs;
        for (int64_t i = 0; i < layer->inputs; i++) {
            for (int64_t o = first; o < end; o++) transposed[i * width + o] = weight[o * layer->inputs + i];
        }
    }
    memcpy(bias, flat + layer->bias, layer->outputs * sizeof(float));
}

/* The layers of a vector of parameters as `forward` wants them. */
static void set_network(const Net *net, const Plan *plan, const float *flat) {
    for (int64_t k = 0; k < net->count; k++) {
        const Layer *layer = net->layers + k;
        int64_t width = plan->width[k + 1];
        if (width != layer->outputs) {
            memset(plan->transposed[k], 0, layer->inputs * width * sizeof(float));
            memset(plan->bias[k], 0, width * sizeof(float));
        }
        transpose(layer, flat, plan->transposed[k], plan->bias[k], width);
    }
    int64_t last = net->count - 1;
    if (net->dueling) {
        transpose(net->layers + net->count, flat, plan->transposed[last] + net->actions, plan->bias[last] + net->actions,
                  plan->width[net->count]);
    }
}

/* Observations as rows of numbers. */
static void set_input(const Net *net, const Plan *plan, const void *obs, int64_t rows) {
    int64_t inputs = net->layers[0].inputs, width = plan->width[0], n = net->obs_width;
    float *x = plan->x[0];
    if (net->obs_kind >= SPARSE_16 || width != inputs) memset(x, 0, rows * width * sizeof(float));
    memset(x + rows * width, 0, (plan->rows - rows) * width * sizeof(float));
    for (int64_t row = 0; row < rows; row++, x += width) {
        switch (net->obs_kind) {
        case FLOATS: memcpy(x, (const float *)obs + row * n, n * sizeof(float)); break;
        case BYTES:
            for (int64_t i = 0; i < n; i++) x[i] = ((const uint8_t *)obs)[row * n + i];
            break;
        case SPARSE_16: {
            const int16_t *ones = (const int16_t *)obs + row * n;
            for (int64_t i = 1; i <= ones[0]; i++) x[ones[i]] = 1.0f;
            break;
        }
        default: {
            const int32_t *ones = (const int32_t *)obs + row * n;
            for (int64_t i = 1; i <= ones[0]; i++) x[ones[i]] = 1.0f;
        }
        }
    }
}

/* Values of all actions of each row, in the first columns of what is returned. */
static float *forward(const Net *net, const Plan *plan, const void *obs, int64_t rows) {
    set_input(net, plan, obs, rows);
    for (int64_t k = 0; k < net->count; k++) {
        multiply(plan->x[k], plan->width[k], 1, plan->transposed[k], plan->width[k + 1], plan->x[k + 1], plan->width[k + 1],
                 plan->rows, plan->width[k + 1], net->layers[k].inputs, plan->bias[k], k + 1 < net->count);
    }
    float *q = plan->x[net->count];
    if (net->dueling) {
        for (int64_t row = 0; row < rows; row++) {
            float *a = q + row * plan->width[net->count], mean = 0.0f;
            for (int64_t i = 0; i < net->actions; i++) mean += a[i];
            float shift = a[net->actions] - mean / (float)net->actions;
            for (int64_t i = 0; i < net->actions; i++) a[i] += shift;
        }
    }
    return q;
}

/* The first legal action of the highest value. */
static int64_t best(const float *q, const uint8_t *mask, int64_t actions) {
    int64_t found = -1;
    for (int64_t i = 0; i < actions; i++) {
        if ((!mask || mask[i]) && (found < 0 || q[i] > q[found])) found = i;
    }
    return found < 0 ? 0 : found;
}

/* -- acting -- */

/* Epsilon-greedy. One draw from 0 to below 1 decides both whether to explore and, scaled up, where to. */
void hotlap_q_act(const Net *net, const float *flat, const void *obs, const uint8_t *mask, const float *draw, float epsilon,
                  float scale, int64_t *action, int64_t rows, float *work) {
    Plan plan = make_plan(net, rows, work);
    set_network(net, &plan, flat);
    const float *q = forward(net, &plan, obs, rows);
    for (int64_t row = 0; row < rows; row++, q += plan.width[net->count]) {
        const uint8_t *legal = mask ? mask + row * net->actions : 0;
        if (draw[row] >= epsilon) {
            action[row] = best(q, legal, net->actions);
            continue;
        }
        int64_t count = mask ? 0 : net->actions;
        for (int64_t i = 0; mask && i < net->actions; i++) count += legal[i] != 0;
        int64_t chosen = (int64_t)(draw[row] * scale * (float)count);
        if (chosen > count - 1) chosen = count - 1;
        for (int64_t i = 0; mask && i <= chosen && i < net->actions; i++) chosen += !legal[i];
        action[row] = chosen < 0 ? 0 : chosen;
    }
}

/* -- learning -- */

typedef struct {
    const void *obs, *next_obs;
    const int64_t *action;
    const float *reward, *discount;
    const uint8_t *next_mask; /* or null: all actions are legal */
    const float *weight;      /* or null: all weigh the same */
} Batch;

/* The mean Huber loss of a minibatch; fills in `error`, value of the action taken minus its target. */
float hotlap_q_loss(const Net *net, const float *flat, const float *target, const Batch *batch, int64_t is_double, float *error,
                    int64_t rows, float *work) {
    Plan plan = make_plan(net, rows, work);
    int64_t width = plan.width[net->count], actions = net->actions;
    float *all = plan.slope[0]; /* free until the end */
    set_network(net, &plan, target);
    const float *q = forward(net, &plan, batch->next_obs, rows);
    if (is_double) memcpy(all, q, rows * width * sizeof(float));
    else {
        for (int64_t row = 0; row < rows; row++) {
            const uint8_t *mask = batch->next_mask ? batch->next_mask + row * actions : 0;
            plan.value[row] = q[row * width + best(q + row * width, mask, actions)];
        }
    }
    set_network(net, &plan, flat);
    if (is_double) {
        q = forward(net, &plan, batch->next_obs, rows);
        for (int64_t row = 0; row < rows; row++) {
            const uint8_t *mask = batch->next_mask ? batch->next_mask + row * actions : 0;
            plan.value[row] = all[row * width + best(q + row * width, mask, actions)];
        }
    }
    q = forward(net, &plan, batch->obs, rows);
    float *slope = plan.slope[0], total = 0.0f;
    memset(slope, 0, plan.rows * width * sizeof(float));
    for (int64_t row = 0; row < rows; row++, slope += width) {
        float e = q[row * width + batch->action[row]] - (batch->reward[row] + batch->discount[row] * plan.value[row]);
        float size = fabsf(e), weight = batch->weight ? batch->weight[row] : 1.0f;
        total += weight * (size <= 1.0f ? 0.5f * e * e : size - 0.5f);
        float to_q = weight * (e > 1.0f ? 1.0f : e < -1.0f ? -1.0f : e) / (float)rows;
        error[row] = e;
        if (net->dueling) {
            for (int64_t i = 0; i < actions; i++) slope[i] = -to_q / (float)actions;
            slope[actions] = to_q;
        }
        slope[batch->action[row]] += to_q;
    }
    return total / (float)rows;
}

/* Gradients of one layer's weight and bias from those of its outputs [rows, width]; `first`: the column of its first output. */
static void layer_slope(const Layer *layer, const float *of_weight, int64_t in_width, const float *slope, int64_t width,
                        int64_t first, int64_t rows, float *gradient) {
    for (int64_t o = 0; o < layer->outputs; o++) {
        memcpy(gradient + layer->weight + o * layer->inputs, of_weight + (first + o) * in_width, layer->inputs * sizeof(float));
    }
    float *restrict bias = gradient + layer->bias;
    memset(bias, 0, layer->outputs * sizeof(float));
    for (int64_t row = 0; row < rows; row++) {
        const float *restrict s = slope + row * width + first;
        for (int64_t o = 0; o < layer->outputs; o++) bias[o] += s[o];
    }
}

/* The gradient of the loss that `hotlap_q_loss` just computed with the same workspace. */
void hotlap_q_backward(const Net *net, const float *flat, float *gradient, int64_t rows, float *work) {
    Plan plan = make_plan(net, rows, work);
    for (int64_t k = net->count - 1, side = 0; k >= 0; k--, side = 1 - side) {
        const Layer *layer = net->layers + k, *value = net->dueling && k + 1 == net->count ? layer + 1 : 0;
        const float *slope = plan.slope[side], *x = plan.x[k];
        int64_t width = plan.width[k + 1], in_width = plan.width[k], outputs = outputs_of(net, k);
        multiply(slope, 1, width, x, in_width, plan.weight_slope, in_width, padded(outputs, ROWS), in_width, rows, 0, 0);
        layer_slope(layer, plan.weight_slope, in_width, slope, width, 0, rows, gradient);
        if (value) layer_slope(value, plan.weight_slope, in_width, slope, width, net->actions, rows, gradient);
        if (!k) break;
        if (in_width != layer->inputs) memset(plan.weight, 0, outputs * in_width * sizeof(float));
        for (int64_t o = 0; o < outputs; o++) {
            int64_t from = o < layer->outputs ? layer->weight + o * layer->inputs : value->weight;
            memcpy(plan.weight + o * in_width, flat + from, layer->inputs * sizeof(float));
        }
        float *restrict below = plan.slope[1 - side];
        multiply(slope, width, 1, plan.weight, in_width, below, in_width, plan.rows, in_width, outputs, 0, 0);
        for (int64_t i = 0; i < plan.rows * in_width; i++) below[i] = x[i] <= 0.0f ? 0.0f : below[i];
    }
}

/* Adam on one vector, with the gradient clipped to a norm (0: not); flat.py's in one call. */
void hotlap_adam(float *restrict flat, const float *restrict gradient, float *restrict mean, float *restrict square, int64_t count,
                 float *steps, const float *rate, float eps, float clip, float *norm) {
    float sum = 0.0f, scale = 1.0f;
    for (int64_t i = 0; i < count; i++) sum += gradient[i] * gradient[i];
    *norm = sqrtf(sum); /* before clipping */
    if (clip > 0.0f && *norm + 1e-6f > clip) scale = clip / (*norm + 1e-6f);
    if (sum != sum) scale = sum; /* not a number stays one */
    *steps += 1.0f;
    double corrected = 1.0 - pow(0.9, *steps), root = sqrt(1.0 - pow(0.999, *steps));
    float size = (float)(*rate / corrected), inverse = (float)(1.0 / root);
    for (int64_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        mean[i] += 0.1f * (g - mean[i]);
        square[i] = 0.999f * square[i] + 0.001f * (g * g);
        flat[i] -= size * mean[i] / (sqrtf(square[i]) * inverse + eps);
    }
}
