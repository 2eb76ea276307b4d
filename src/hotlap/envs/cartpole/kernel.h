/* CartPole in C: the rules of reference.py, bit for bit. All constants arrive as macros from there. */
#include "../kernel.h"

#ifndef __CUDACC__
#include <math.h>
#include <string.h>
#endif

typedef float Obs;
#define OBS_LEN 4
typedef int64_t Action;
#define NUM_ACTIONS 2
#define NUM_METRICS 0

typedef struct {
    Rng rng;
    double state[4]; /* position, velocity, angle, angular velocity */
    double episode_return;
    int32_t steps;
} Env;

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

FN void env_restart(Env *env) {
    for (int i = 0; i < 4; i++) env->state[i] = (2.0 * ((double)rng_below(&env->rng, DRAWS) / DRAWS) - 1.0) * START;
    env->steps = 0;
    env->episode_return = 0;
}

/* Start from four given numbers, as bits. */
FN void env_load(Env *env, const int32_t *start, int count) {
    (void)count;
    memcpy(env->state, start, sizeof env->state);
    env->steps = 0;
    env->episode_return = 0;
}

FN Step env_step(Env *env, Action action) {
    double x = env->state[0], v = env->state[1], angle = env->state[2], w = env->state[3];
    double force = action == 1 ? FORCE : -FORCE;
    double c = cos(angle), s = sin(angle);
    double pull = (force + POLE_MASS_LENGTH * (w * w) * s) / TOTAL_MASS;
    double turn = (GRAVITY * s - c * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (c * c) / TOTAL_MASS));
    double push = pull - POLE_MASS_LENGTH * turn * c / TOTAL_MASS;
    env->state[0] = x + TIME_STEP * v;
    env->state[1] = v + TIME_STEP * push;
    env->state[2] = angle + TIME_STEP * w;
    env->state[3] = w + TIME_STEP * turn;
    env->steps++;
    x = env->state[0], angle = env->state[2];
    int ended = x < -POSITION_LIMIT || x > POSITION_LIMIT || angle < -ANGLE_LIMIT || angle > ANGLE_LIMIT;
    int late = !ended && env->steps >= MAX_STEPS;
    Step step = {1.0f, (uint8_t)ended, (uint8_t)late};
    env->episode_return += step.reward;
    return step;
}

FN void env_metrics(const Env *env, float *metrics) {
    (void)env;
    (void)metrics;
}

FN void env_observe(const Env *env, Obs *obs) {
    for (int i = 0; i < 4; i++) obs[i] = (float)env->state[i];
}
