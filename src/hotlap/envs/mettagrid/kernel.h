/* MettaGrid in C: the rules of reference.py and world.py, bit for bit. All constants arrive as macros from there.
 *
 * state.h has the layout, generate.h the start of an episode, observe.h the tokens.
 */
#include "../kernel.h"

#include "generate.h"
#include "observe.h"
#include "state.h"

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

FN void env_restart(Env *env, const Tables *tables) { begin_episode(env, tables); }

FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) { /* a start is a map, which is in the tables */
    (void)start;
    (void)count;
    begin_episode(env, tables);
}

#if AGENTS > 1
FN int env_active(const Env *env, int agent) { return (void)env, (void)agent, 1; }
#endif

/* -- what an agent can do -- */

/* The cell before an agent. */
FN int ahead_of(const Env *env, int agent) { return env->place[agent] + delta(env->facing[agent]); }

/* How much of a resource the converter ahead would accept. */
FN int put_amount(const Env *env, const Recipe *recipe, int agent, int number, int item) {
    return recipe->takes[item] ? least(env->items[agent][item], STOCK - env->stock[number][item]) : 0;
}

/* How much of a resource the agent would get from the converter ahead. */
FN int get_amount(const Env *env, const Recipe *recipe, int agent, int number, int item) {
    return recipe->makes[item] ? least(env->stock[number][item], LIMIT - env->items[agent][item]) : 0;
}

/* Whether put (`giving`) or get would move anything. `id` is what is ahead. */
FN int can_exchange(const Env *env, const Tables *tables, int agent, int id, int giving) {
    int amount = 0, number = id - FIRST_CONVERTER;
    if (number < 0) return 0;
    const Recipe *recipe = recipe_of(tables, env->kind[number]);
    for (int item = 0; item < RESOURCES; item++)
        amount |= giving ? put_amount(env, recipe, agent, number, item) : get_amount(env, recipe, agent, number, item);
    return amount != 0;
}

/* Whom an attack would meet; -1: nobody. */
FN int victim_of(const Env *env, int agent) {
    int forward = delta(env->facing[agent]), left = delta((env->facing[agent] + 3) & 3), middle = env->place[agent];
    for (int distance = 0; distance < REACH; distance++) {
        middle += forward;
        for (int side = 0; side < 3; side++) {
            int id = view_of(env)[middle + (side == 0 ? 0 : side == 1 ? left : -left)];
            if (is_agent(id) && !env->frozen[id - FIRST_AGENT]) return id - FIRST_AGENT;
        }
    }
    return -1;
}

FN int can_attack(const Env *env, int agent) { return env->items[agent][ITEM_LASER] && victim_of(env, agent) >= 0; }

FN int can_swap(const Env *env, int id) { return id == BLOCK || (is_agent(id) && env->frozen[id - FIRST_AGENT]); }

FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    mask[ACT_NOOP] = 1;
    if (env->frozen[agent]) {
        for (int action = 1; action < CHOICES; action++) mask[action] = 0;
        return;
    }
    int facing = env->facing[agent], step = delta(facing);
    const uint8_t *here = view_of(env) + env->place[agent];
    int id = here[step];
    mask[ACT_FORWARD] = !id;
    mask[ACT_BACKWARD] = !here[-step];
    for (int direction = 0; direction < 4; direction++) mask[ACT_FACE + direction] = direction != facing;
    mask[ACT_PUT] = (uint8_t)can_exchange(env, tables, agent, id, 1);
    mask[ACT_GET] = (uint8_t)can_exchange(env, tables, agent, id, 0);
    mask[ACT_ATTACK] = (uint8_t)can_attack(env, agent);
    mask[ACT_SWAP] = (uint8_t)can_swap(env, id);
    for (int colour = 0; colour < COLOURS; colour++) mask[ACT_COLOUR + colour] = colour != env->colour[agent];
}

/* -- a step -- */

/* What each agent got in this step. */
typedef struct {
    int32_t of[AGENTS][RESOURCES];
} Gains;

FN void move_agent(Env *env, int agent, int to) {
    uint8_t *grid = grid_of(env);
    if (grid[to]) return;
    grid[env->place[agent]] = 0;
    grid[to] = (uint8_t)(FIRST_AGENT + agent);
    env->place[agent] = (uint16_t)to;
}

FN void put(Env *env, const Tables *tables, int agent) {
    int number = view_of(env)[ahead_of(env, agent)] - FIRST_CONVERTER;
    if (number < 0) return;
    const Recipe *recipe = recipe_of(tables, env->kind[number]);
    env->idle[number] = 0;
    for (int item = 0; item < RESOURCES; item++) {
        int amount = put_amount(env, recipe, agent, number, item);
        env->items[agent][item] = (uint8_t)(env->items[agent][item] - amount);
        env->stock[number][item] = (uint8_t)(env->stock[number][item] + amount);
    }
}

FN void get(Env *env, const Tables *tables, int agent, Gains *gains) {
    int number = view_of(env)[ahead_of(env, agent)] - FIRST_CONVERTER;
    if (number < 0) return;
    const Recipe *recipe = recipe_of(tables, env->kind[number]);
    env->idle[number] = 0;
    for (int item = 0; item < RESOURCES; item++) {
        int amount = get_amount(env, recipe, agent, number, item);
        env->stock[number][item] = (uint8_t)(env->stock[number][item] - amount);
        env->items[agent][item] = (uint8_t)(env->items[agent][item] + amount);
        gains->of[agent][item] += amount;
        if (item == ITEM_HEART) {
            env->taken[agent] += amount;
            env->left -= amount; /* counts in navigation only */
        }
    }
}

FN void attack(Env *env, int agent, Gains *gains) {
    int victim = env->items[agent][ITEM_LASER] ? victim_of(env, agent) : -1;
    if (victim < 0) return;
    env->items[agent][ITEM_LASER]--;
    if (env->items[victim][ITEM_ARMOR]) {
        env->items[victim][ITEM_ARMOR]--;
        return;
    }
    env->frozen[victim] = FREEZE;
    env->hits[agent]++;
    for (int item = 0; item < RESOURCES; item++) {
        int amount = least(env->items[victim][item], LIMIT - env->items[agent][item]);
        env->items[victim][item] = (uint8_t)(env->items[victim][item] - amount);
        env->items[agent][item] = (uint8_t)(env->items[agent][item] + amount);
        gains->of[victim][item] -= amount;
        gains->of[agent][item] += amount;
    }
}

FN void swap(Env *env, int agent) {
    uint8_t *grid = grid_of(env);
    int here = env->place[agent], there = ahead_of(env, agent), id = grid[there];
    if (!can_swap(env, id)) return;
    grid[here] = (uint8_t)id;
    grid[there] = (uint8_t)(FIRST_AGENT + agent);
    env->place[agent] = (uint16_t)there;
    if (is_agent(id)) env->place[id - FIRST_AGENT] = (uint16_t)here;
}

FN void act(Env *env, const Tables *tables, int agent, int action, Gains *gains) {
    env->last[agent] = (uint8_t)(action + 1);
    if (env->frozen[agent]) return;
    if (action == ACT_FORWARD || action == ACT_BACKWARD) {
        int step = delta(env->facing[agent]);
        move_agent(env, agent, env->place[agent] + (action == ACT_FORWARD ? step : -step));
    } else if (action >= ACT_FACE && action < ACT_FACE + 4) {
        env->facing[agent] = (uint8_t)(action - ACT_FACE);
    } else if (action >= ACT_COLOUR) {
        env->colour[agent] = (uint8_t)(action - ACT_COLOUR);
    } else if (action == ACT_PUT) {
        put(env, tables, agent);
    } else if (action == ACT_GET) {
        get(env, tables, agent, gains);
    } else if (action == ACT_ATTACK) {
        attack(env, agent, gains);
    } else if (action == ACT_SWAP) {
        swap(env, agent);
    }
}

/* One step of time for a converter. */
FN void run_converter(Env *env, const Tables *tables, int number) {
    if (env->idle[number]) return;
    const Recipe *recipe = recipe_of(tables, env->kind[number]);
    uint8_t *stock = env->stock[number];
    if (env->working[number]) {
        if (--env->working[number]) return;
        for (int item = 0; item < RESOURCES; item++) stock[item] = (uint8_t)(stock[item] + recipe->makes[item]);
    }
    int ready = 1;
    for (int item = 0; item < RESOURCES; item++)
        ready &= (stock[item] >= recipe->takes[item]) & (!recipe->makes[item] | (stock[item] + recipe->makes[item] <= STOCK));
    env->idle[number] = (uint8_t)!ready;
    if (!ready) return;
    for (int item = 0; item < RESOURCES; item++) stock[item] = (uint8_t)(stock[item] - recipe->takes[item]);
    env->working[number] = recipe->steps;
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    const Settings *settings = settings_of(tables);
    const double *rates = tables->rates;
    Gains gains;
    for (int agent = 0; agent < AGENTS; agent++) {
        env->frozen[agent] = (uint8_t)(env->frozen[agent] - (env->frozen[agent] > 0));
        for (int item = 0; item < RESOURCES; item++) gains.of[agent][item] = 0;
    }
    int first = env->steps % AGENTS;
    for (int agent = first; agent < AGENTS; agent++) act(env, tables, agent, (int)actions[agent], &gains);
    for (int agent = 0; agent < first; agent++) act(env, tables, agent, (int)actions[agent], &gains);
    if (!settings->navigation)
        for (int number = 0; number < env->converters; number++) run_converter(env, tables, number);
    env->steps++;
    int terminated = settings->navigation && env->left <= 0, truncated = !terminated && env->steps >= settings->max_steps;
    for (int agent = 0; agent < AGENTS; agent++) {
        double reward = 0.0;
        for (int item = 0; item < RESOURCES; item++) reward += rates[item] * gains.of[agent][item];
        step->reward[agent] = (float)reward;
        step->terminated[agent] = (uint8_t)terminated;
        step->truncated[agent] = (uint8_t)truncated;
    }
    step->over = (uint8_t)(terminated | truncated);
}

/* -- what is seen -- */

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    observe(env, settings_of(tables), agent, obs);
}

FN void env_metrics(const Env *env, int agent, float *metrics) {
    metrics[0] = (float)env->taken[agent];
    metrics[1] = (float)env->hits[agent];
    metrics[2] = env->hearts ? (float)((double)(env->hearts - env->left) / env->hearts) : 0.0f;
}
