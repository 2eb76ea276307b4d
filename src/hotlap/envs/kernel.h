/* What every kernel shares: the function qualifier, the result of a step, and the random numbers of rng.py. */
#ifndef HOTLAP_KERNEL_H
#define HOTLAP_KERNEL_H
#include <stdint.h>

#ifdef __CUDACC__
#define FN static __device__ __forceinline__
#else
#define FN static inline
#endif

typedef struct {
    float reward;
    uint8_t terminated, truncated;
} Step;

#define RNG_GOLDEN 0x9E3779B97F4A7C15ULL

typedef struct {
    uint64_t key;
    uint64_t counter;
} Rng;

FN uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

FN void rng_seed(Rng *rng, uint64_t seed) {
    rng->key = mix64(seed + RNG_GOLDEN);
    rng->counter = 0;
}

/* A uniform integer in [0, n). */
FN uint32_t rng_below(Rng *rng, uint32_t n) {
    uint64_t word = mix64(rng->key + ++rng->counter * RNG_GOLDEN) >> 32;
    return (uint32_t)((word * n) >> 32);
}

#endif
