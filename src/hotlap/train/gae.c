/* Generalised advantage estimation over [steps, envs] arrays: loops for a CPU, and for a GPU a thread per environment. `value` has
   one row more: the value after the last step. Where `done` is set nothing that follows counts. */
#ifdef __CUDACC_RTC__ /* which has no headers */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef long long int64_t;
#else
#include <stdint.h>
#endif
#ifdef __CUDACC__
#define FN static __device__ __forceinline__
#else
#define FN static inline
#endif

FN float advantage_of(float reward, float value, float next_value, float done, float later, float gamma, float lambda) {
    float alive = 1.0f - done;
    return reward + gamma * next_value * alive - value + gamma * lambda * alive * later;
}

#define MAX_SEATS 16

/* Of one environment, with seats that take turns: row t is a decision of `seat[t]`, and `reward` [steps, envs, seats] what
   everyone got after it. A seat's decision is followed by its own next one; `known` tells whether that one, or the end of the
   game, was seen. Where `done` is 2 the game was cut off: the reward of the seat `last` holds the discounted value of where,
   others are not known. */
FN void seats_of_environment(const float *reward, const float *value, const float *done, const int8_t *seat, const int8_t *last,
                             float *advantage, uint8_t *known, int64_t steps, int64_t envs, int64_t seats, float gamma,
                             float lambda, int64_t i) {
    float next[MAX_SEATS] = {0}, running[MAX_SEATS] = {0}, accumulated[MAX_SEATS] = {0};
    uint8_t seen[MAX_SEATS] = {0};
    next[seat[steps * envs + i]] = value[steps * envs + i];
    seen[seat[steps * envs + i]] = 1;
    for (int64_t t = steps - 1; t >= 0; t--) {
        int64_t at = t * envs + i;
        int8_t who = seat[at];
        for (int64_t s = 0; s < seats; s++) {
            if (done[at] != 0.0f) {
                next[s] = running[s] = accumulated[s] = 0.0f;
                seen[s] = done[at] == 1.0f || s == last[at];
            }
            accumulated[s] += reward[at * seats + s];
        }
        known[at] = seen[who];
        advantage[at] = seen[who] ? accumulated[who] + gamma * next[who] - value[at] + gamma * lambda * running[who] : 0.0f;
        next[who] = value[at];
        running[who] = advantage[at];
        accumulated[who] = 0.0f;
        seen[who] = 1;
    }
}

#ifdef __CUDACC__
extern "C" __global__ void gae(const float *reward, const float *value, const float *done, float *advantage, int64_t steps,
                               int64_t envs, float gamma, float lambda) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= envs) return;
    float later = 0.0f;
    for (int64_t t = steps - 1; t >= 0; t--) {
        int64_t at = t * envs + i;
        later = advantage_of(reward[at], value[at], value[at + envs], done[at], later, gamma, lambda);
        advantage[at] = later;
    }
}

extern "C" __global__ void gae_seats(const float *reward, const float *value, const float *done, const int8_t *seat,
                                     const int8_t *last, float *advantage, uint8_t *known, int64_t steps, int64_t envs,
                                     int64_t seats, float gamma, float lambda) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < envs)
        seats_of_environment(reward, value, done, seat, last, advantage, known, steps, envs, seats, gamma, lambda, i);
}
#else
/* All environments of a step together, so that it vectorises. */
void hotlap_gae(const float *reward, const float *value, const float *done, float *advantage, int64_t steps, int64_t envs,
                float gamma, float lambda) {
    for (int64_t t = steps - 1; t >= 0; t--) {
        const float *r = reward + t * envs, *v = value + t * envs, *next = v + envs, *d = done + t * envs;
        const float *later = advantage + (t + 1) * envs;
        float *a = advantage + t * envs;
        for (int64_t i = 0; i < envs; i++)
            a[i] = advantage_of(r[i], v[i], next[i], d[i], t + 1 < steps ? later[i] : 0.0f, gamma, lambda);
    }
}

void hotlap_gae_seats(const float *reward, const float *value, const float *done, const int8_t *seat, const int8_t *last,
                      float *advantage, uint8_t *known, int64_t steps, int64_t envs, int64_t seats, float gamma,
                      float lambda) {
    for (int64_t i = 0; i < envs; i++)
        seats_of_environment(reward, value, done, seat, last, advantage, known, steps, envs, seats, gamma, lambda, i);
}
#endif
