/* The ring of transitions on a GPU: one vector step written, a minibatch read, in a few kernels. The specification is replay.py.
 *
 * Where the ring stands is a number in the GPU's memory (`written`: rows ever written), so that a CUDA graph can hold it all.
 * Observations are copied as WORDs, one thread each.
 */
typedef unsigned char uint8_t;
typedef long long int64_t;
#define THREAD ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)

/* What an environment saw and sees; also what the n - 1 steps before it led to, where their episodes still went on. Before
 * `store_numbers`, which closes them. */
extern "C" __global__ void store_seen(WORD *obs, WORD *next_obs, uint8_t *next_mask, const uint8_t *open, const WORD *seen,
                                      const WORD *sees, const uint8_t *legal, const int64_t *written, int64_t envs, int64_t rows,
                                      int64_t n_step, int64_t words, int64_t choices) {
    int64_t env = THREAD / words, word = THREAD % words, row = *written % rows;
    if (env >= envs) return;
    obs[(row * envs + env) * words + word] = seen[env * words + word];
    for (int64_t back = 0; back < n_step; back++) {
        int64_t at = (row - back + rows) % rows * envs + env;
        if (back && !open[at]) continue;
        next_obs[at * words + word] = sees[env * words + word];
        for (int64_t k = word; k < choices; k += words) next_mask[at * choices + k] = legal[env * choices + k];
    }
}

/* `scales`: gamma to the power of 0, 1, ... n. */
extern "C" __global__ void store_numbers(int64_t *action, float *reward, float *discount, uint8_t *open, const int64_t *acted,
                                         const float *got, const uint8_t *terminated, const uint8_t *truncated,
                                         const float *scales, const int64_t *written, int64_t envs, int64_t rows,
                                         int64_t n_step) {
    int64_t env = THREAD, row = *written % rows;
    if (env >= envs) return;
    int64_t now = row * envs + env;
    float gamma = terminated[env] ? 0 : scales[1];
    uint8_t goes_on = !(terminated[env] || truncated[env]);
    action[now] = acted[env];
    reward[now] = got[env];
    discount[now] = gamma;
    open[now] = goes_on;
    for (int64_t back = 1; back < n_step; back++) {
        int64_t at = (row - back + rows) % rows * envs + env;
        if (!open[at]) continue;
        reward[at] += scales[back] * got[env];
        discount[at] = scales[back] * gamma;
        open[at] = goes_on;
    }
}

/* The vector step is complete. `filled`: how many transitions there are now. */
extern "C" __global__ void advance(int64_t *written, double *filled, int64_t envs, int64_t rows) {
    if (blockIdx.x || threadIdx.x) return;
    int64_t now = ++*written;
    *filled = (double)((now < rows ? now : rows) * envs);
}

/* The transitions `index`; with draws between 0 and 1, those decide, and `index` says what they were. */
extern "C" __global__ void gather(const WORD *obs, const WORD *next_obs, const uint8_t *next_mask, const int64_t *action,
                                  const float *reward, const float *discount, const double *draw, const double *filled,
                                  int64_t *index, WORD *to_obs, WORD *to_next_obs, uint8_t *to_next_mask, int64_t *to_action,
                                  float *to_reward, float *to_discount, int64_t count, int64_t words, int64_t choices) {
    int64_t i = THREAD / words, word = THREAD % words;
    if (i >= count) return;
    int64_t row = draw ? (int64_t)(draw[i] * *filled) : index[i];
    to_obs[i * words + word] = obs[row * words + word];
    to_next_obs[i * words + word] = next_obs[row * words + word];
    for (int64_t k = word; k < choices; k += words) to_next_mask[i * choices + k] = next_mask[row * choices + k];
    if (word) return;
    index[i] = row;
    to_action[i] = action[row];
    to_reward[i] = reward[row];
    to_discount[i] = discount[row];
}
