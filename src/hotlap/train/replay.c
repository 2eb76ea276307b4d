/* The ring of transitions: one vector step written, a minibatch read, in one call each. The specification is replay.py. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int64_t num_envs, rows, n_step, obs_bytes, mask_bytes; /* mask_bytes 0: environments have no illegal actions */
    double gamma;
    uint8_t *obs, *next_obs, *next_mask; /* [rows, num_envs, ...] all */
    int64_t *action;
    float *reward, *discount;
    uint8_t *open; /* the episode goes on after this row's last step */
} Ring;

typedef struct {
    uint8_t *obs, *next_obs, *next_mask;
    int64_t *action;
    float *reward, *discount;
    const uint8_t *terminated, *truncated; /* of a vector step only */
} Step;

/* Store a vector step, and add it to the n - 1 before it, where their episodes still went on. */
void hotlap_replay_add(const Ring *ring, const Step *step, int64_t written) {
    int64_t envs = ring->num_envs, first = written % ring->rows * envs;
    memcpy(ring->obs + first * ring->obs_bytes, step->obs, envs * ring->obs_bytes);
    memcpy(ring->next_obs + first * ring->obs_bytes, step->next_obs, envs * ring->obs_bytes);
    if (ring->mask_bytes) memcpy(ring->next_mask + first * ring->mask_bytes, step->next_mask, envs * ring->mask_bytes);
    memcpy(ring->action + first, step->action, envs * sizeof(int64_t));
    memcpy(ring->reward + first, step->reward, envs * sizeof(float));
    for (int64_t i = 0; i < envs; i++) {
        ring->discount[first + i] = step->terminated[i] ? 0.0f : (float)ring->gamma;
        ring->open[first + i] = !(step->terminated[i] || step->truncated[i]);
    }
    int64_t steps = ring->n_step < written + 1 ? ring->n_step : written + 1;
    for (int64_t back = 1; back < steps; back++) {
        int64_t row = (written - back) % ring->rows * envs;
        float scale = (float)pow(ring->gamma, (double)back);
        for (int64_t i = 0; i < envs; i++) {
            int64_t at = row + i, now = first + i;
            if (!ring->open[at]) continue;
            ring->reward[at] += scale * step->reward[i];
            ring->discount[at] = scale * ring->discount[now];
            memcpy(ring->next_obs + at * ring->obs_bytes, ring->next_obs + now * ring->obs_bytes, ring->obs_bytes);
            if (ring->mask_bytes)
                memcpy(ring->next_mask + at * ring->mask_bytes, ring->next_mask + now * ring->mask_bytes, ring->mask_bytes);
            ring->open[at] = ring->open[now];
        }
    }
}

#define AHEAD 8 /* rows whose memory is asked for before they are read */

void hotlap_replay_gather(const Ring *ring, const int64_t *index, int64_t count, const Step *batch) {
    int64_t obs = ring->obs_bytes, mask = ring->mask_bytes;
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            int64_t later = index[i + AHEAD];
            __builtin_prefetch(ring->obs + later * obs);
            __builtin_prefetch(ring->next_obs + later * obs);
            __builtin_prefetch(ring->action + later);
            __builtin_prefetch(ring->reward + later);
            __builtin_prefetch(ring->discount + later);
        }
        int64_t row = index[i];
        memcpy(batch->obs + i * obs, ring->obs + row * obs, obs);
        memcpy(batch->next_obs + i * obs, ring->next_obs + row * obs, obs);
        if (mask) memcpy(batch->next_mask + i * mask, ring->next_mask + row * mask, mask);
        batch->action[i] = ring->action[row];
        batch->reward[i] = ring->reward[row];
        batch->discount[i] = ring->discount[row];
    }
}
