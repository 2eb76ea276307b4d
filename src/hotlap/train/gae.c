/* Generalised advantage estimation over [steps, envs] arrays, all environments of a step together so that it vectorises.
   `value` has one row more: the value after the last step. Where `done` is set nothing that follows counts. */
#include <stdint.h>

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
