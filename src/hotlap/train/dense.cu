/* What a policy of dense layers needs on a GPU between its matrix products: choosing actions, PPO's gradient with respect to the
 * heads, and the way back through an activation, each as one kernel. Their specifications are `actions.Discrete.sample`,
 * `by_hand.loss_gradient` and autograd.
 *
 * A row of `heads` is the logits of its actions and then its value. BFLOAT16 says which numbers the layers are of.
 * Sums are added up in a fixed order, so that the same run gives the same numbers.
 */
typedef unsigned char uint8_t;
typedef long long int64_t;
#define FN static __device__ __forceinline__
#define ROW ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define NEGATIVE_INFINITY __int_as_float(0xFF800000)

#if BFLOAT16
typedef unsigned short Number;
FN float widen(Number x) { return __uint_as_float((unsigned)x << 16); }
FN Number narrow(float x) {
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7FC0 : (Number)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
#else
typedef float Number;
FN float widen(Number x) { return x; }
FN Number narrow(float x) { return x; }
#endif

/* The largest legal logit, and the sum of what softmax divides by. */
FN float largest(const float *logits, const uint8_t *legal, int actions) {
    float most = NEGATIVE_INFINITY;
    for (int a = 0; a < actions; a++)
        if (!legal || legal[a]) most = fmaxf(most, logits[a]);
    return most;
}

FN float total(const float *logits, const uint8_t *legal, int actions, float most) {
    float sum = 0;
    for (int a = 0; a < actions; a++)
        if (!legal || legal[a]) sum += expf(logits[a] - most);
    return sum;
}

/* Actions, log-probabilities and values [rows] from heads [rows, actions + 1] and uniform draws [rows] below 1. */
extern "C" __global__ void choose(const float *heads, const uint8_t *legal, const float *draw, int64_t *action, float *log_prob,
                                  float *value, int64_t rows, int64_t actions) {
    int64_t i = ROW;
    if (i >= rows) return;
    const float *logits = heads + i * (actions + 1);
    const uint8_t *mask = legal ? legal + i * actions : 0;
    float most = largest(logits, mask, (int)actions), sum = total(logits, mask, (int)actions, most);
    float point = draw[i] * sum, edge = 0;
    int chosen = 0;
    for (int a = 0; a < actions; a++) {
        if (mask && !mask[a]) continue;
        chosen = a;
        edge += expf(logits[a] - most);
        if (edge > point) break;
    }
    action[i] = chosen;
    log_prob[i] = logits[chosen] - most - logf(sum);
    value[i] = logits[actions];
}

#define PARTS 5 /* of the loss: policy, value, entropy, KL divergence, clipped share */

/* The gradient of PPO's loss with respect to the heads [rows, actions + 1], and sums over blocks [blocks, PARTS] of its parts,
 * if asked for (`parts` is not NULL). `value_clip`: 0: none. */
extern "C" __global__ void ppo_loss(const float *heads, const int64_t *action, const float *old_log_prob, const float *advantage,
                                    const float *return_, const float *old_value, const uint8_t *legal,
                                    const float *entropy_weight, Number *to_heads, float *parts, int64_t rows, int64_t actions,
                                    float clip, float value_weight, float value_clip) {
    int64_t i = ROW;
    float part[PARTS] = {0};
    if (i < rows) {
        const float *logits = heads + i * (actions + 1);
        const uint8_t *mask = legal ? legal + i * actions : 0;
        Number *out = to_heads + i * (actions + 1);
        float size = (float)rows, most = largest(logits, mask, (int)actions);
        float log_sum = most + logf(total(logits, mask, (int)actions, most));
        int taken = (int)action[i];
        float log_ratio = logits[taken] - log_sum - old_log_prob[i], ratio = expf(log_ratio), scaled = advantage[i] / size;
        float bound = scaled >= 0 ? 1 + clip : 1 - clip;
        float slope = (ratio - bound) * scaled <= 0 ? ratio * scaled : 0; /* none where the ratio has moved too far */
        float entropy = 0, weight = *entropy_weight / size;
        for (int a = 0; a < actions; a++)
            if (!mask || mask[a]) entropy -= expf(logits[a] - log_sum) * (logits[a] - log_sum);
        for (int a = 0; a < actions; a++) {
            float gradient = 0;
            if (!mask || mask[a]) {
                float log_p = logits[a] - log_sum, p = expf(log_p);
                gradient = (p - (a == taken)) * slope + p * (log_p + entropy) * weight;
            }
            out[a] = narrow(gradient);
        }
        float error = logits[actions] - return_[i], to_value = error * (value_weight / size);
        if (value_clip > 0) {
            float moved = logits[actions] - old_value[i];
            float near = old_value[i] + fminf(fmaxf(moved, -value_clip), value_clip) - return_[i];
            if (error * error < near * near) {
                to_value = fabsf(moved) <= value_clip ? near * (value_weight / size) : 0;
                error = near;
            }
        }
        out[actions] = narrow(to_value);
        float clipped = fminf(fmaxf(ratio, 1 - clip), 1 + clip);
        part[0] = -fminf(scaled * ratio, scaled * clipped);
        part[1] = 0.5f * error * error / size;
        part[2] = entropy / size;
        part[3] = (ratio - 1 - log_ratio) / size;
        part[4] = (fabsf(ratio - 1) > clip ? 1 : 0) / size;
    }
    if (!parts) return;
    __shared__ float shared[PARTS][32];
    for (int k = 0; k < PARTS; k++) {
        float sum = part[k];
        for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
        if (threadIdx.x % 32 == 0) shared[k][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < PARTS) {
        float sum = 0;
        for (int warp = 0; warp < (int)blockDim.x / 32; warp++) sum += shared[threadIdx.x][warp];
        parts[blockIdx.x * PARTS + threadIdx.x] = sum;
    }
}

/* In place: the gradient [rows, units] before an activation, from that after it and from what it gave. Its sums over rows, the
 * gradient of the biases, come in pieces [blocks * lanes, units]: a block takes `each` rows, and its threads one unit of some of
 * them each. */
extern "C" __global__ void through(Number *gradient, const Number *out, float *sums, int64_t rows, int64_t units, int64_t each,
                                   int64_t tanh_after) {
    int lanes = units < blockDim.x ? (int)(blockDim.x / units) : 1, lane = lanes > 1 ? (int)(threadIdx.x / units) : 0;
    if (lane >= lanes) return;
    int64_t begin = blockIdx.x * each, end = begin + each < rows ? begin + each : rows;
    for (int64_t unit = lanes > 1 ? threadIdx.x % units : threadIdx.x; unit < units; unit += blockDim.x) {
        float sum = 0;
#pragma unroll 8
        for (int64_t row = begin + lane; row < end; row += lanes) {
            int64_t at = row * units + unit;
            float y = widen(out[at]), before = widen(gradient[at]);
            before = tanh_after ? before * (1 - y * y) : y > 0 ? before : 0;
            gradient[at] = narrow(before);
            sum += before;
        }
        sums[((int64_t)blockIdx.x * lanes + lane) * units + unit] = sum;
    }
}
