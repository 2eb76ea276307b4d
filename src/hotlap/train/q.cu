/* What a dense Q-network needs on a GPU between its matrix products, as one kernel each: choosing actions, loss and gradient of
 * the heads, the way back through a ReLU. The specifications are `td.TorchActor`, and `td.td_error` with autograd.
 *
 * The heads are the advantages of ACTIONS actions and, if DUELING, a value after them. A warp computes those of a row.
 * Sums over rows are added up in a fixed order, so that the same run gives the same numbers: each block leaves those of its rows
 * in a row of `sums` [blocks, columns], from which `add_up` takes them.
 */
typedef unsigned char uint8_t;
typedef long long int64_t;
#define FN static __device__ __forceinline__
#define HEADS (ACTIONS + DUELING)
#define ROWS 16 /* of a block; as BLOCK (threads) in q_gpu.py */
#define WARP 32
#define KERNEL extern "C" __global__ __launch_bounds__(BLOCK)

typedef struct {
    const float *weight, *bias, *value_weight, *value_bias; /* [ACTIONS, units], [ACTIONS], [units], [1] */
} Layers;

FN float weight_of(const Layers *to, int head, int64_t unit, int64_t units) {
    return head < ACTIONS ? to->weight[head * units + unit] : to->value_weight[unit];
}

/* The heads of a row of features [units]; every lane of the warp has them all. */
FN void heads_of(const float *features, const Layers *layers, int64_t units, float *heads) {
    for (int k = 0; k < HEADS; k++) heads[k] = 0;
    for (int64_t unit = threadIdx.x % WARP; unit < units; unit += WARP)
        for (int k = 0; k < HEADS; k++) heads[k] += features[unit] * weight_of(layers, k, unit, units);
    for (int k = 0; k < HEADS; k++) {
        for (int step = 16; step; step >>= 1) heads[k] += __shfl_xor_sync(0xFFFFFFFFu, heads[k], step);
        heads[k] += k < ACTIONS ? layers->bias[k] : *layers->value_bias;
    }
}

FN float q_value(const float *heads, int action) {
    float sum = 0, advantage = 0;
    for (int k = 0; k < ACTIONS; k++) {
        sum += heads[k];
        if (k == action) advantage = heads[k];
    }
    return DUELING ? heads[HEADS - 1] + advantage - sum / ACTIONS : advantage;
}

/* The best legal action; the first one if none is. */
FN int best(const float *heads, const uint8_t *legal) {
    int chosen = -1;
    float most = 0;
    for (int k = 0; k < ACTIONS; k++)
        if ((!legal || legal[k]) && (chosen < 0 || heads[k] > most)) chosen = k, most = heads[k];
    return chosen < 0 ? 0 : chosen;
}

/* Epsilon-greedy actions. One draw decides both whether to explore and, scaled up, where to. */
KERNEL void choose(const float *features, const float *weight, const float *bias, const float *value_weight,
                                  const float *value_bias, const uint8_t *legal, const float *draw, const double *epsilon,
                                  int64_t *action, int64_t rows, int64_t units) {
    const Layers layers = {weight, bias, value_weight, value_bias};
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= rows) return;
    const uint8_t *mask = legal ? legal + i * ACTIONS : 0;
    float heads[HEADS];
    heads_of(features + i * units, &layers, units, heads);
    if (threadIdx.x % WARP) return;
    int chosen = best(heads, mask);
    if (draw[i] < (float)*epsilon) {
        float scaled = draw[i] * (float)(1 / fmax(*epsilon, 1e-9));
        int count = 0;
        for (int k = 0; k < ACTIONS; k++) count += !mask || mask[k];
        int place = min((int)(scaled * count), count - 1);
        for (int k = 0; k < ACTIONS; k++)
            if ((!mask || mask[k]) && place-- == 0) chosen = k;
    }
    action[i] = chosen;
}

FN int64_t first_row() { return (int64_t)blockIdx.x * ROWS; }
FN int64_t row_limit(int64_t rows) { return first_row() + ROWS < rows ? first_row() + ROWS : rows; }

/* The sums [units] over the block's rows of an array [rows, units]. */
FN void sum_rows(const float *array, int64_t rows, int64_t units, float *sums) {
    for (int64_t unit = threadIdx.x; unit < units; unit += BLOCK) {
        float sum = 0;
        for (int64_t i = first_row(); i < row_limit(rows); i++) sum += array[i * units + unit];
        sums[unit] = sum;
    }
}

/* Of a minibatch: TD errors [rows], the gradients of the mean Huber loss with respect to the heads [rows, HEADS] and to what the
 * last ReLU was given [rows, units]; each row's loss is added to `total`. The last columns of `sums`: for the biases of the last
 * hidden layer, for those of the heads, and for their weights. `features` are those of the observations and, if `doubled`, of
 * the next ones, which then choose the action that the target network values. */
KERNEL void td(const float *features, const float *target_features, const float *weight, const float *bias,
                              const float *value_weight, const float *value_bias, const float *target_weight,
                              const float *target_bias, const float *target_value_weight, const float *target_value_bias,
                              const int64_t *action, const float *reward, const float *discount, const uint8_t *legal,
                              const float *importance, float *error, float *to_heads, float *gradient, float *sums, float *total,
                              float *count, int64_t rows, int64_t units, int64_t columns, int64_t doubled) {
    const Layers layers = {weight, bias, value_weight, value_bias};
    const Layers target = {target_weight, target_bias, target_value_weight, target_value_bias};
    for (int64_t i = first_row() + threadIdx.x / WARP; i < row_limit(rows); i += BLOCK / WARP) {
        const float *seen = features + i * units;
        float now[HEADS], target_heads[HEADS], choosing[HEADS], slopes[HEADS];
        heads_of(seen, &layers, units, now);
        heads_of(target_features + i * units, &target, units, target_heads);
        for (int k = 0; k < HEADS; k++) choosing[k] = target_heads[k];
        if (doubled) heads_of(features + (rows + i) * units, &layers, units, choosing);
        int taken = (int)action[i], next = best(choosing, legal ? legal + i * ACTIONS : 0);
        float td_error = q_value(now, taken) - (reward[i] + discount[i] * q_value(target_heads, next)), size = fabsf(td_error);
        float importance_weight = importance ? importance[i] : 1;
        float slope = (td_error != td_error ? td_error : fminf(fmaxf(td_error, -1), 1)) * importance_weight / rows;
        for (int k = 0; k < ACTIONS; k++) slopes[k] = (k == taken ? slope : 0) - (DUELING ? slope / ACTIONS : 0);
        if (DUELING) slopes[HEADS - 1] = slope;
        for (int64_t unit = threadIdx.x % WARP; unit < units; unit += WARP) {
            float sum = 0;
            for (int k = 0; k < HEADS; k++) sum += slopes[k] * weight_of(&layers, k, unit, units);
            gradient[i * units + unit] = seen[unit] > 0 ? sum : 0;
        }
        if (threadIdx.x % WARP) continue;
        for (int k = 0; k < HEADS; k++) to_heads[i * HEADS + k] = slopes[k];
        error[i] = td_error;
        total[i] += importance_weight * (size <= 1 ? 0.5f * size * size : size - 0.5f);
        if (!i) *count += 1;
    }
    __syncthreads();
    float *weights = sums + (blockIdx.x + 1) * columns - HEADS * units;
    sum_rows(gradient, rows, units, weights - HEADS - units);
    sum_rows(to_heads, rows, HEADS, weights - HEADS);
    for (int64_t at = threadIdx.x; at < HEADS * units; at += BLOCK) {
        float sum = 0;
        int64_t head = at / units, unit = at % units;
        for (int64_t i = first_row(); i < row_limit(rows); i++) sum += to_heads[i * HEADS + head] * features[i * units + unit];
        weights[at] = sum;
    }
}

/* In place: the gradient [rows, units] before a ReLU, from that after it and from what it gave; sums from column `begin` on. */
KERNEL void back(float *gradient, const float *after, float *sums, int64_t rows, int64_t units, int64_t columns,
                                int64_t begin) {
    for (int64_t at = first_row() * units + threadIdx.x; at < row_limit(rows) * units; at += BLOCK)
        if (!(after[at] > 0)) gradient[at] = 0;
    __syncthreads();
    sum_rows(gradient, rows, units, sums + blockIdx.x * columns + begin);
}

/* The sum of each column goes to its place in the flat gradient. A block adds up as many columns as a warp has lanes. */
KERNEL void add_up(const float *sums, const int64_t *places, float *gradient, int64_t blocks, int64_t columns) {
    __shared__ float parts[BLOCK / WARP][WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t column = (int64_t)blockIdx.x * WARP + lane;
    float sum = 0;
    if (column < columns)
        for (int64_t block = warp; block < blocks; block += BLOCK / WARP) sum += sums[block * columns + column];
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp || column >= columns) return;
    for (int other = 1; other < BLOCK / WARP; other++) sum += parts[other][lane];
    gradient[places[column]] = sum;
}
