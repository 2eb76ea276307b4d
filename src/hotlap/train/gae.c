/* Generalised advantage estimation over [steps, envs] arrays. `value` has one row more: the value after the last step. Where
   `done` is set nothing that follows counts. */
#include <stdint.h>

/* All environments of a step together, so that it vectorises. */
void hotlap_gae(const float *reward, const float *value, const float *done, float *advantage, int64_t steps, int64_t envs,
                float gamma, float lambda) {
    for (int64_t t = steps - 1; t >= 0; t--) {
        const float *r = reward + t * envs, *v = value + t * envs, *next = v + envs, *d = done + t * envs;
        const float *later = advantage + (t + 1) * envs;
        float *a = advantage + t * envs;
        for (int64_t i = 0; i < envs; i++) {
            float alive = 1.0f - d[i];
            float running = t + 1 < steps ? later[i] : 0.0f;
            a[i] = r[i] + gamma * next[i] * alive - v[i] + gamma * lambda * alive * running;
        }
    }
}

#define MAX_SEATS 16

/* Seats that take turns: row t is a decision of `seat[t]`, and `reward` [steps, envs, seats] what everyone got after it. A
   seat's decision is followed by its own next one; `known` tells whether that one, or the end of the game, was seen. Where
   `done` is 2 the game was cut off: the reward of the seat `last` holds the discounted value of where, others are not known. */
void hotlap_gae_seats(const float *reward, const float *value, const float *done, const int8_t *seat, const int8_t *last,
                      float *advantage, uint8_t *known, int64_t steps, int64_t envs, int64_t seats, float gamma,
                      float lambda) {
    for (int64_t i = 0; i < envs; i++) {
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
}
