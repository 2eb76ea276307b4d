/* The contract of a kernel: one game in one C header, for the C compiler and for CUDA alike.
 *
 * Given, before this header, made from the game's EnvSpec and its `defines` (see declare.py):
 *   Obs, OBS_LEN          type and count of the numbers of one observation
 *   OBS_SIZE              sparse: the length of the dense vector of zeros and ones; else 0
 *   Action, ACTIONS       int64_t; how many discrete actions a row takes at once
 *   CHOICES               the choices of all of them together: the width of a mask
 *   MASKED                1 if some actions are illegal at times
 *   SEATS                 players who take turns in one environment (then AGENTS is 1)
 *   AGENTS                players who act at the same time, a row each (then SEATS is 1)
 *   NUM_METRICS           game-specific numbers per episode
 *   Tables                a struct with a typed pointer for each table: read-only arrays that belong to this environment
 *   and the game's own constants, as macros
 *
 * A kernel provides these, all FN (there are no globals, no allocation, no libc besides what is here):
 *   typedef struct {...} Env;       plain data without pointers: random numbers and state. Memory begins as zeros; write
 *                                   fields one by one, so that what lies between them stays zero and states compare by bytes
 *   void env_seed(Env *env, uint64_t seed);
 *   void env_restart(Env *env, const Tables *tables);                           a random start
 *   void env_load(Env *env, const Tables *tables, const int32_t *start, int count);    the start that encode_start made
 *   void env_step(Env *env, const Tables *tables, const Action *actions, Step *step);  actions[AGENTS * ACTIONS]
 *   void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs);  of that agent, or of the seat to move
 *   void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask);    if MASKED: 1 where legal, CHOICES bytes
 *   int env_seat(const Env *env);                                              if SEATS > 1: whose turn it is
 *   int env_active(const Env *env, int agent);     if AGENTS > 1: 0 once its episode ended, until the others' is over too
 *   void env_metrics(const Env *env, int agent, float *metrics);               if NUM_METRICS; asked when an episode ends
 *
 * The engine starts the next episode, and keeps returns and lengths. Actions are in range, and legal where MASKED, except
 * those of agents that are not active: they are in range, and to be ignored.
 */
#ifndef HOTLAP_KERNEL_H
#define HOTLAP_KERNEL_H

#ifdef __CUDACC__
#define FN static __device__ __forceinline__
#else
#define FN static inline
#endif

/* What a step did. All zeros when env_step is called. */
typedef struct {
    float reward[AGENTS * SEATS]; /* of each agent, or of every seat after this move */
    uint8_t terminated[AGENTS], truncated[AGENTS];
    uint8_t over; /* if AGENTS > 1: the episode is over for all, each of whom has been terminated or truncated by now */
} Step;

/* -- random numbers: rng.py has the same -- */

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

/* -- bits -- */

#define EACH_BYTE 0x0101010101010101ULL /* times a byte: that byte eight times */

FN int count_bits(uint64_t word) {
#ifdef __CUDACC__
    return __popcll(word);
#else
    return __builtin_popcountll(word);
#endif
}

/* The number of the lowest bit that is set, from 0. One must be. */
FN int lowest_bit(uint64_t word) {
#ifdef __CUDACC__
    return __ffsll((long long)word) - 1;
#else
    return __builtin_ctzll(word);
#endif
}

/* Eight bits become eight bytes, the lowest first: each byte is given its bit alone, and then made 0 or 1. */
FN uint64_t spread_bits(uint64_t bits) {
    return (((bits * EACH_BYTE & 0x8040201008040201ULL) + EACH_BYTE * 0x7F) >> 7) & EACH_BYTE;
}

/* A double that encode_start passed as two numbers, its bits. */
FN double double_at(const int32_t *numbers) {
    double value;
    memcpy(&value, numbers, sizeof value);
    return value;
}

/* -- sparse observations -- */

#if OBS_SIZE
FN void sparse_begin(Obs *obs) { obs[0] = 0; }

FN void sparse_one(Obs *obs, int index) {
    obs[0]++;
    obs[obs[0]] = (Obs)index;
}

FN void sparse_end(Obs *obs) {
    for (int i = obs[0] + 1; i < OBS_LEN; i++) obs[i] = OBS_SIZE;
}
#endif

/* -- sine and cosine: numeric.py has the same. libm's and CUDA's differ in the last bit -- */

/* Sine and cosine of r + rest, where |r| < pi / 4 and |rest| is below r's last place: the Taylor series. */
FN void sin_cos_near(double r, double rest, double *sine, double *cosine) {
    double rr = r * r;
    double s = -1.0 / 1307674368000.0 + rr * (1.0 / 355687428096000.0);
    s = 1.0 / 6227020800.0 + rr * s;
    s = -1.0 / 39916800.0 + rr * s;
    s = 1.0 / 362880.0 + rr * s;
    s = -1.0 / 5040.0 + rr * s;
    s = 1.0 / 120.0 + rr * s;
    s = -1.0 / 6.0 + rr * s;
    *sine = r + (rr * r * s + rest);
    double c = -1.0 / 87178291200.0 + rr * (1.0 / 20922789888000.0);
    c = 1.0 / 479001600.0 + rr * c;
    c = -1.0 / 3628800.0 + rr * c;
    c = 1.0 / 40320.0 + rr * c;
    c = -1.0 / 720.0 + rr * c;
    c = 1.0 / 24.0 + rr * c;
    double half = 0.5 * rr, top = 1.0 - half;
    *cosine = top + (((1.0 - top) - half) + (rr * rr * c - r * rest));
}

/* Sine and cosine of |x| < 1e6, else not a number; within one unit in the last place. x is brought to within pi / 4 of 0 by
 * taking multiples of pi / 2, in three parts whose products with a multiple are exact. */
FN void sin_cos(double x, double *sine, double *cosine) {
    if (x > -0.78 && x < 0.78) {
        sin_cos_near(x, 0.0, sine, cosine);
        return;
    }
    if (!(x > -1e6 && x < 1e6)) {
        *sine = *cosine = (x - x) / (x - x);
        return;
    }
    double quarters = x * 0x1.45f306dc9c883p-1, s, c;
    int64_t n = (int64_t)(quarters + (quarters < 0 ? -0.5 : 0.5));
    double near = x - (double)n * 0x1.921fb544p+0, middle = (double)n * 0x1.0b4611a6p-34;
    double high = near - middle, low = ((near - high) - middle) - (double)n * 0x1.3198a2e037073p-69;
    double r = high + low;
    sin_cos_near(r, (high - r) + low, &s, &c);
    *sine = n & 1 ? c : s;
    *cosine = n & 1 ? s : c;
    if (n & 2) *sine = -*sine;
    if ((n + 1) & 2) *cosine = -*cosine;
}

#endif
