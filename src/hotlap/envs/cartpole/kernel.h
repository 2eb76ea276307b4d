/* CartPole in C: the rules of reference.py, bit for bit. All constants arrive as macros from there. */
#include "../kernel.h"

typedef struct {
    Rng rng;
    double state[4]; /* position, velocity, angle, angular velocity */
    int32_t steps;
} Env;

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

FN void env_restart(Env *env, const Tables *tables) {
    (void)tables;
    for (int i = 0; i < 4; i++) env->state[i] = (2.0 * ((double)rng_below(&env->rng, DRAWS) / DRAWS) - 1.0) * START;
    env->steps = 0;
}

/* Start from four given numbers, as bits. */
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)tables, (void)count;
    for (int i = 0; i < 4; i++) env->state[i] = double_at(start + 2 * i);
    env->steps = 0;
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    double x = env->state[0], v = env->state[1], angle = env->state[2], w = env->state[3];
    double force = *actions == 1 ? FORCE : -FORCE;
    double s, c;
    sin_cos(angle, &s, &c);
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
    step->reward[0] = 1.0f;
    step->terminated[0] = (uint8_t)ended;
    step->truncated[0] = (uint8_t)(!ended && env->steps >= MAX_STEPS);
}

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    for (int i = 0; i < 4; i++) obs[i] = (float)env->state[i];
}
