/* One environment's share of a reset and of a step, whatever the kernel: shared by engine.c and CUDA.
 *
 * KERNEL is the path of the game's header; its declaration (declare.py) goes before this one. Environments are independent, so
 * any split over threads gives the same bits.
 */
#ifndef HOTLAP_ENGINE_H
#define HOTLAP_ENGINE_H

#include "kernel.h"
#include KERNEL

/* What a kernel need not provide. */
#if AGENTS == 1
FN int env_active(const Env *env, int agent) { return (void)env, (void)agent, 1; }
#endif
#if SEATS == 1
FN int env_seat(const Env *env) { return (void)env, 0; }
#endif
#if !MASKED
FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) { (void)env, (void)tables, (void)agent, (void)mask; }
#endif
#if NUM_METRICS == 0
FN void env_metrics(const Env *env, int agent, float *metrics) { (void)env, (void)agent, (void)metrics; }
#endif

/* An environment, and the episode it is in so far. */
typedef struct {
    Env env;
    double returns[AGENTS * SEATS];
    int64_t lengths[AGENTS];
} Episode;

/* The environments, what they read, and one set of output arrays (buffers.py), all of which begin with a row per agent; laid
 * out by engine.py, eight bytes a field. Rows of final_* and episode_* are written only where an episode ended. */
typedef struct {
    int64_t count; /* of environments */
    Episode *episodes;
    const Action *actions;
    const uint8_t *legal, *acting; /* the mask and active arrays of the step before */
    Tables tables;
    int64_t strides[NUM_TABLES + 1]; /* from one environment's table to the next one's; 0: all share it */
    Obs *obs;
    float *reward;
    uint8_t *terminated, *truncated;
    Obs *final_obs;
    double *episode_return;
    int64_t *episode_length;
    float *episode_metrics;
    uint8_t *mask;
    int8_t *seat;
    float *rewards;
    uint8_t *active;
    int8_t *final_seat;
    double *episode_returns;
} Batch;

/* Whether a row's actions are in range, and legal if it plays. */
FN int actions_fit(const Batch *in, int64_t row) {
    const uint32_t sizes[ACTIONS] = ACTION_SIZES;
    uint32_t choice = 0; /* of all choices, that of the action which is looked at */
    int fit = 1;
    for (int k = 0; k < ACTIONS; k++) {
        uint64_t action = (uint64_t)in->actions[row * ACTIONS + k];
        if (action >= sizes[k]) return 0;
        if (MASKED) fit &= in->legal[row * CHOICES + choice + action];
        choice += sizes[k];
    }
    return fit || (AGENTS > 1 && !in->acting[row]);
}

/* What a row sees now. Agents that wait for the others see nothing, and may choose anything. */
FN void observe_row(const Batch *to, const Env *env, const Tables *tables, int64_t row, int agent) {
    if (SEATS > 1) to->seat[row] = (int8_t)env_seat(env);
    if (AGENTS > 1 && !(to->active[row] = (uint8_t)env_active(env, agent))) {
        for (int k = 0; k < OBS_LEN; k++) to->obs[row * OBS_LEN + k] = OBS_SIZE && k ? OBS_SIZE : 0;
        for (int k = 0; k < CHOICES; k++) to->mask[row * CHOICES + k] = 1;
        return;
    }
    env_observe(env, tables, agent, to->obs + row * OBS_LEN);
    env_mask(env, tables, agent, to->mask + row * CHOICES);
}

/* Begin an episode from a fixed start, or a random one if `count` is 0. `seed` may be NULL. */
FN void reset_environment(const Batch *to, int64_t i, const uint64_t *seed, const int32_t *start, int count) {
    Episode *episode = to->episodes + i;
    const Tables tables = TABLES_AT(to->tables, to->strides, i);
    if (seed) env_seed(&episode->env, *seed);
    if (count)
        env_load(&episode->env, &tables, start, count);
    else
        env_restart(&episode->env, &tables);
    for (int k = 0; k < AGENTS * SEATS; k++) episode->returns[k] = 0;
    for (int agent = 0; agent < AGENTS; agent++) {
        episode->lengths[agent] = 0;
        observe_row(to, &episode->env, &tables, i * AGENTS + agent, agent);
    }
}

/* The episode of a row is over. */
FN void end_row(const Batch *to, Episode *episode, const Tables *tables, int64_t row, int agent) {
    double *returns = episode->returns + agent * SEATS;
    env_observe(&episode->env, tables, agent, to->final_obs + row * OBS_LEN);
    env_metrics(&episode->env, agent, to->episode_metrics + row * NUM_METRICS);
    to->episode_return[row] = returns[0];
    to->episode_length[row] = episode->lengths[agent];
    if (SEATS > 1) to->final_seat[row] = (int8_t)env_seat(&episode->env);
    for (int seat = 0; seat < SEATS; seat++) {
        if (SEATS > 1) to->episode_returns[row * SEATS + seat] = returns[seat];
        returns[seat] = 0;
    }
    episode->lengths[agent] = 0;
}

/* Step environment i, and begin its next episode if this one is over; what its agents see is left. Returns how many rows ended
 * their episode. */
FN int64_t advance_environment(const Batch *to, int64_t i) {
    Episode *episode = to->episodes + i;
    Env *env = &episode->env;
    const Tables tables = TABLES_AT(to->tables, to->strides, i);
    Step step = {{0}};
    int64_t ended = 0;
    const int mover = env_seat(env);
    uint8_t acts[AGENTS];
    for (int agent = 0; agent < AGENTS; agent++) acts[agent] = (uint8_t)env_active(env, agent);
    env_step(env, &tables, to->actions + i * AGENTS * ACTIONS, &step);
    for (int agent = 0; agent < AGENTS; agent++) {
        const int64_t row = i * AGENTS + agent;
        const float *rewards = step.reward + agent * SEATS;
        const int over = acts[agent] && (step.terminated[agent] | step.truncated[agent]);
        to->reward[row] = acts[agent] ? rewards[mover] : 0;
        to->terminated[row] = acts[agent] && step.terminated[agent];
        to->truncated[row] = acts[agent] && step.truncated[agent];
        if (!acts[agent]) continue;
        episode->lengths[agent]++;
        for (int seat = 0; seat < SEATS; seat++) {
            if (SEATS > 1) to->rewards[row * SEATS + seat] = rewards[seat];
            episode->returns[agent * SEATS + seat] += rewards[seat];
        }
        if (over) {
            ended++;
            end_row(to, episode, &tables, row, agent);
            if (AGENTS == 1) env_restart(env, &tables);
        }
    }
    if (AGENTS > 1 && step.over) env_restart(env, &tables);
    return ended;
}

/* What an agent of environment i sees now. */
FN void observe_agent(const Batch *to, int64_t i, int agent) {
    const Tables tables = TABLES_AT(to->tables, to->strides, i);
    observe_row(to, &to->episodes[i].env, &tables, i * AGENTS + agent, agent);
}

/* Step environment i: all of it. */
FN int64_t step_environment(const Batch *to, int64_t i) {
    const int64_t ended = advance_environment(to, i);
    for (int agent = 0; agent < AGENTS; agent++) observe_agent(to, i, agent);
    return ended;
}

#endif
