/* Adam on one vector, with the gradient clipped to a norm. The specification is `flat.plain_step`. */
typedef long long int64_t;

/* `log_beta`: logarithms of the decays of the mean and of the squares; `by`: 1 minus each decay. */
extern "C" __global__ void adam(float *flat, const float *gradient, float *mean, float *square, const float *steps,
                                const float *skip, const float *rate, const float *norm, int64_t count, float clip, float eps,
                                float log_beta1, float log_beta2, float by1, float by2) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || *skip > 0) return;
    float now = *steps + 1, g = gradient[i];
    if (clip > 0) g /= fmaxf((*norm + 1e-6f) / clip, 1);
    float m = mean[i] += by1 * (g - mean[i]), v = square[i] += by2 * (g * g - square[i]);
    float deviation = sqrtf(v / -expm1f(now * log_beta2)) + eps;
    flat[i] -= *rate * (m / -expm1f(now * log_beta1)) / deviation;
}

extern "C" __global__ void count_step(float *steps, const float *skip) {
    if (blockIdx.x || threadIdx.x) return;
    *steps += 1 - *skip;
}
