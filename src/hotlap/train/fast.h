/* Functions that a compiler can apply to many numbers at once. */
#include <math.h>
#include <stdint.h>

static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    float n = rintf(x * 1.44269504088896341f);
    float r = x - n * 0.693359375f + n * 2.12194440054690583e-4f; /* what is left of the power of two, in two parts */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union {
        int32_t bits;
        float number;
    } power = {((int32_t)n + 127) << 23};
    return p * power.number;
}

static inline float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }
