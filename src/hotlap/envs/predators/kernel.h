/* Predators in C: the rules of reference.py, bit for bit. All constants arrive as macros from there.
 *
 * The grid has a byte for each cell and a margin as wide as an agent sees, which is wall: no move and no view leaves it. Free
 * cells are zero, and the margin is never free, so the k-th free cell in reading order is the k-th zero, eight at a time.
 */
#include "../kernel.h"

#define STRIDE (COLUMNS + 2 * VIEW)
#define WINDOW (2 * VIEW + 1)
#define WORDS (((ROWS + 2 * VIEW) * STRIDE + 8) / 8) /* one byte more than cells, at least: see env_observe */
#define WALL 1
#define PREDATOR 2
#define PREY_HERE 4

typedef struct {
    Rng rng;
    uint64_t words[WORDS]; /* the grid: WALL, PREDATOR, PREY_HERE or 0 */
    int32_t steps;
    int32_t free_cells;
    int32_t caught[AGENTS];
    uint16_t predators[AGENTS]; /* where each is in the grid, or was when it starved */
    uint16_t prey[PREY];
    uint8_t energy[AGENTS]; /* 0: starved */
} Env;

FN uint8_t *grid_of(Env *env) { return (uint8_t *)env->words; }

FN const uint8_t *view_of(const Env *env) { return (const uint8_t *)env->words; }

FN int place_of(int row, int column) { return (row + VIEW) * STRIDE + column + VIEW; }

/* What a move adds to a place: stay, up, right, down, left, and stay for all others; a table packed into one word. */
FN int delta(uint64_t move) {
    const uint64_t table = (uint64_t)(uint8_t)-STRIDE << 8 | 1ULL << 16 | (uint64_t)STRIDE << 24 | 0xFFULL << 32;
    return (int8_t)(table >> move * 8);
}

/* High bits of the bytes that are zero; all bytes are below 128. */
FN uint64_t zero_bytes(uint64_t word) { return ~(word + EACH_BYTE * 127) & EACH_BYTE * 128; }

/* Put something on a random free cell. */
FN uint16_t settle(Env *env, uint8_t what) {
    int k = (int)rng_below(&env->rng, (uint32_t)env->free_cells--);
    for (int i = VIEW * STRIDE / 8; i < WORDS; i++) {
        uint64_t open = zero_bytes(env->words[i]);
        int count = count_bits(open);
        if (k < count) {
            while (k--) open &= open - 1;
            int place = i * 8 + lowest_bit(open) / 8;
            grid_of(env)[place] = what;
            return (uint16_t)place;
        }
        k -= count;
    }
    return 0; /* there is always a free cell: maps are checked for that */
}

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

/* An empty map. */
FN void clear_grid(Env *env, const Tables *tables) {
    for (int i = 0; i < WORDS; i++) env->words[i] = EACH_BYTE * WALL;
    env->free_cells = 0;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            uint8_t wall = tables->walls[row * COLUMNS + column] != 0;
            grid_of(env)[place_of(row, column)] = wall;
            env->free_cells += !wall;
        }
    env->steps = 0;
    for (int agent = 0; agent < AGENTS; agent++) {
        env->energy[agent] = ENERGY_START;
        env->caught[agent] = 0;
    }
}

FN void env_restart(Env *env, const Tables *tables) {
    clear_grid(env, tables);
    for (int agent = 0; agent < AGENTS; agent++) env->predators[agent] = settle(env, PREDATOR);
    for (int i = 0; i < PREY; i++) env->prey[i] = settle(env, PREY_HERE);
}

/* Start on given cells (row * COLUMNS + column), of predators and then prey. */
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    clear_grid(env, tables);
    for (int i = 0; i < count; i++) {
        uint16_t place = (uint16_t)place_of(start[i] / COLUMNS, start[i] % COLUMNS);
        grid_of(env)[place] = i < AGENTS ? PREDATOR : PREY_HERE;
        if (i < AGENTS)
            env->predators[i] = place;
        else
            env->prey[i - AGENTS] = place;
        env->free_cells--;
    }
}

FN int env_active(const Env *env, int agent) { return env->energy[agent] > 0; }

/* A predator has moved onto prey. */
FN void catch_prey(Env *env, int agent) {
    int i = 0;
    while (i < PREY - 1 && env->prey[i] != env->predators[agent]) i++;
    env->caught[agent]++;
    env->energy[agent] = (uint8_t)(env->energy[agent] + ENERGY_CATCH < ENERGY_MAX ? env->energy[agent] + ENERGY_CATCH : ENERGY_MAX);
    env->free_cells++; /* the cell that the predator left */
    env->prey[i] = settle(env, PREY_HERE);
}

FN void act(Env *env, int agent, Action action, Step *step) {
    uint8_t *grid = grid_of(env);
    int from = env->predators[agent], to = from + delta((uint64_t)action);
    uint8_t there = grid[to];
    to = there & PREDATOR ? from : to; /* without a branch: itself, if it stays */
    grid[from] = 0;
    grid[to] = PREDATOR;
    env->predators[agent] = (uint16_t)to;
    env->energy[agent]--;
    if (there & PREY_HERE) {
        step->reward[agent] = (float)REWARD_CATCH;
        catch_prey(env, agent);
    }
    if (!env->energy[agent]) {
        step->reward[agent] = (float)REWARD_STARVE;
        step->terminated[agent] = 1;
        grid[to] = 0;
        env->free_cells++;
    }
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    for (int agent = 0; agent < AGENTS; agent++)
        if (env_active(env, agent)) act(env, agent, actions[agent], step);
    uint8_t *grid = grid_of(env);
    for (int i = 0; i < PREY; i++) {
        int from = env->prey[i], to = from + delta(rng_below(&env->rng, PREY_MOVES));
        to = grid[to] ? from : to;
        grid[from] = 0;
        grid[to] = PREY_HERE;
        env->prey[i] = (uint16_t)to;
    }
    int late = ++env->steps >= MAX_STEPS, alive = 0;
    for (int agent = 0; agent < AGENTS; agent++) {
        step->truncated[agent] = (uint8_t)(late & env_active(env, agent));
        alive |= env_active(env, agent);
    }
    step->over = (uint8_t)(late | !alive);
}

FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    (void)tables;
    const uint8_t *here = view_of(env) + env->predators[agent];
    for (int action = 0; action < CHOICES; action++) mask[action] = !(here[delta((uint64_t)action)] & WALL);
}

/* A row of the window, the four planes of a cell in one number, and one cell more: eight are made at once. `energy` is what is
 * left for the gauge in this row and those below. */
FN void see_row(const uint8_t *cells, int energy, uint32_t *line) {
    for (int i = 0; i < WINDOW + 1; i++) {
        uint32_t cell = cells[i], gauge = i < energy;
        line[i] = (cell & WALL) | (cell & PREDATOR) << 7 | (cell & PREY_HERE) << 14 | gauge << 24;
    }
}

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables;
    const uint8_t *corner = view_of(env) + env->predators[agent] - VIEW * STRIDE - VIEW;
    uint32_t line[WINDOW + 1];
    for (int row = 0; row < WINDOW - 1; row++) {
        see_row(corner + row * STRIDE, env->energy[agent] - row * WINDOW, line);
        memcpy(obs + row * WINDOW * 4, line, (WINDOW + 1) * 4); /* the next row overwrites what is too much */
    }
    see_row(corner + (WINDOW - 1) * STRIDE, env->energy[agent] - (WINDOW - 1) * WINDOW, line);
    memcpy(obs + (WINDOW - 1) * WINDOW * 4, line, WINDOW * 4);
}

FN void env_metrics(const Env *env, int agent, float *metrics) { metrics[0] = (float)env->caught[agent]; }
