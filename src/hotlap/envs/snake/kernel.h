/* Snake in C: the rules of reference.py, bit for bit. All constants arrive as macros from there.
 *
 * The board is a bitboard with a column of padding and a word of padding at both ends: bit = ORIGIN + row * STRIDE + column.
 * Padding is blocked, so one test without a branch answers "wall or body", and a flood fill grows all rows at once.
 * Branches that depend on where the snake is heading are avoided: they are coin tosses, and a wrong guess costs more than
 * the arithmetic.
 */
#include "../kernel.h"

#define STRIDE (SIZE + 1)
#define ORIGIN 64
#define WORDS (1 + (SIZE * STRIDE + 63) / 64 + 1)
#define CELLS (SIZE * SIZE)
#define BASIC 0
#define FLOOD 1
#define GRID 2

#if ORIGIN + SIZE * STRIDE <= 256
typedef uint8_t Cell;
#else
typedef uint16_t Cell;
#endif
#define RING (CELLS <= 16 ? 16 : CELLS <= 64 ? 64 : CELLS <= 128 ? 128 : CELLS <= 256 ? 256 : CELLS <= 512 ? 512 : 1024)

typedef struct {
    uint64_t word[WORDS];
} Bits;

typedef struct {
    Rng rng;
    Bits blocked; /* walls, padding and body */
    int32_t steps, score, length;
    int32_t head, food; /* bit numbers */
    int8_t food_row, food_column, head_row, head_column;
    uint16_t tail;   /* index into the ring; the head is at tail + length - 1 */
    uint8_t heading; /* 0 up, 1 right, 2 down, 3 left */
    Cell ring[RING];
} Env;

/* What one step along a heading adds to a bit number: a table packed into one word. */
FN int delta(unsigned heading) {
    const uint32_t table = (uint32_t)(uint8_t)-STRIDE | 1u << 8 | (uint32_t)STRIDE << 16 | 0xFFu << 24;
    return (int8_t)(table >> (heading % 4 * 8));
}

FN int test_bit(const Bits *bits, int bit) {
    return (int)(bits->word[(unsigned)bit >> 6] >> (bit & 63)) & 1;
}

FN void flip_bit(Bits *bits, int bit) { bits->word[(unsigned)bit >> 6] ^= 1ULL << (bit & 63); }

FN int bit_of(int row, int column) { return ORIGIN + row * STRIDE + column; }

FN int row_of(int bit) { return (bit - ORIGIN) / STRIDE; }

FN int column_of(int bit) { return (bit - ORIGIN) % STRIDE; }

/* The position of the k-th set bit of a word, by halving. */
FN int select_bit(uint64_t word, int k) {
    int at = 0;
    for (int width = 32; width; width >>= 1) {
        int low = count_bits(word & ((1ULL << width) - 1));
        if (k >= low) {
            k -= low;
            at += width;
            word >>= width;
        }
    }
    return at;
}

FN void set_food(Env *env, int bit) {
    env->food = bit;
    env->food_row = (int8_t)row_of(bit);
    env->food_column = (int8_t)column_of(bit);
}

FN void place_food(Env *env) {
    int k = (int)rng_below(&env->rng, (uint32_t)(CELLS - env->length));
    for (int i = 0; i < WORDS; i++) {
        uint64_t open = ~env->blocked.word[i];
        int count = count_bits(open);
        if (k < count) {
            set_food(env, i * 64 + select_bit(open, k));
            return;
        }
        k -= count;
    }
}

FN void clear_board(Env *env) {
    Bits board; /* folds to constants: the rows are opened whole */
    uint64_t row_of_cells = (1ULL << SIZE) - 1;
    for (int i = 0; i < WORDS; i++) board.word[i] = ~0ULL;
    for (int row = 0; row < SIZE; row++) {
        int word = (ORIGIN + row * STRIDE) / 64, shift = row * STRIDE % 64;
        board.word[word] &= ~(row_of_cells << shift);
        if (shift + SIZE > 64) board.word[word + 1] &= ~(row_of_cells >> (64 - shift));
    }
    env->blocked = board;
    env->steps = env->score = env->length = 0;
    env->tail = 0;
}

FN void grow(Env *env, int bit) {
    env->ring[(env->tail + env->length++) & (RING - 1)] = (Cell)bit;
    env->head = bit;
    env->head_row = (int8_t)row_of(bit);
    env->head_column = (int8_t)column_of(bit);
    flip_bit(&env->blocked, bit);
}

FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }

FN void env_restart(Env *env, const Tables *tables) {
    (void)tables;
    clear_board(env);
    env->heading = 1;
    int centre = bit_of(SIZE / 2, SIZE / 2);
    for (int i = START_LENGTH - 1; i >= 0; i--) grow(env, centre - i);
    place_food(env);
}

/* Start from given cells (row * SIZE + column): the food, then the body from its head. */
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)tables;
    clear_board(env);
    int neck = 0;
    for (int i = count - 1; i >= 1; i--) {
        neck = env->head;
        grow(env, bit_of(start[i] / SIZE, start[i] % SIZE));
    }
    set_food(env, bit_of(start[0] / SIZE, start[0] % SIZE));
    for (unsigned heading = 0; heading < 4; heading++)
        if (env->head - neck == delta(heading)) env->heading = (uint8_t)heading;
}

/* Which ways the food lies, as bits: 1 up, 2 right, 4 down, 8 left. */
FN unsigned food_ways(const Env *env) {
    int rows = env->food_row - env->head_row, columns = env->food_column - env->head_column;
    return (unsigned)rows >> 31 | (unsigned)-columns >> 31 << 1 | (unsigned)-rows >> 31 << 2 | (unsigned)columns >> 31 << 3;
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    env->steps++;
    env->heading = (uint8_t)((env->heading + (*actions == 1 ? 3 : *actions == 2)) & 3);
    int next = env->head + delta(env->heading);
    double reward = REWARD_STEP;
    int dead = test_bit(&env->blocked, next), ended = dead;
    if (dead) {
        reward += REWARD_DEATH;
    } else if (next == env->food) {
        grow(env, next);
        reward += REWARD_FOOD;
        env->score++;
        ended = env->length == CELLS;
        if (!ended) place_food(env);
    } else {
        int nearer = food_ways(env) >> env->heading & 1; /* one step changes the distance by one */
        flip_bit(&env->blocked, env->ring[env->tail & (RING - 1)]);
        env->tail = (uint16_t)((env->tail + 1) & (RING - 1));
        env->length--;
        grow(env, next);
        reward += (2 * nearer - 1) * (SHAPING / SIZE);
    }
    int late = !ended && env->steps >= MAX_STEPS;
    if (late) reward += REWARD_TIMEOUT;
    step->reward[0] = (float)reward;
    step->terminated[0] = (uint8_t)ended;
    step->truncated[0] = (uint8_t)late;
}

FN void env_metrics(const Env *env, int agent, float *metrics) {
    (void)agent;
    metrics[0] = (float)env->score;
}

#if FEATURES == GRID
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    for (int i = 0; i < OBS_LEN; i++) obs[i] = 0;
    for (int i = 0; i < env->length - 1; i++) {
        int bit = env->ring[(env->tail + i) & (RING - 1)];
        obs[(row_of(bit) * SIZE + column_of(bit)) * 3 + 1] = 1;
    }
    obs[(env->head_row * SIZE + env->head_column) * 3] = 1;
    if (env->length < CELLS) obs[(env->food_row * SIZE + env->food_column) * 3 + 2] = 1;
}
#else

#if FEATURES == FLOOD
/* Grow `seen` by one cell in each direction, again and again, until nothing is added. */
FN Bits flood(const Bits *blocked, int start) {
    Bits seen = {{0}}, next = {{0}};
    flip_bit(&seen, start);
    for (;;) {
        uint64_t added = 0;
        for (int i = 1; i < WORDS - 1; i++) {
            uint64_t below = seen.word[i - 1], here = seen.word[i], above = seen.word[i + 1];
            uint64_t grown = here | here << 1 | below >> 63 | here >> 1 | above << 63 | here << STRIDE |
                             below >> (64 - STRIDE) | here >> STRIDE | above << (64 - STRIDE);
            next.word[i] = grown & ~blocked->word[i];
            added |= next.word[i] ^ here;
        }
        if (!added) return seen;
        seen = next;
    }
}

/* Shares reachable going straight, right, left. Ways that lie in one region share one fill. */
FN void reachable(const Env *env, float *shares) {
    Bits region = {{0}};
    float share = 0;
    for (int way = 0; way < 3; way++) {
        int cell = env->head + delta(env->heading + (way == 2 ? 3u : (unsigned)way));
        if (test_bit(&env->blocked, cell)) {
            shares[way] = 0;
            continue;
        }
        if (!test_bit(&region, cell)) {
            region = flood(&env->blocked, cell);
            int count = 0;
            for (int i = 1; i < WORDS - 1; i++) count += count_bits(region.word[i]);
            share = (float)((double)count / (double)(CELLS - env->length));
        }
        shares[way] = share;
    }
}
#endif

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    unsigned heading = env->heading, danger = 0;
    for (unsigned way = 0; way < 4; way++) danger |= (unsigned)test_bit(&env->blocked, env->head + delta(way)) << way;
    danger = (danger | danger << 4) >> heading; /* now straight, right, back, left */
    unsigned bits = (danger & 1) | (danger >> 2 & 2) | (danger << 1 & 4) | (danger << 1 & 8) | food_ways(env) << 4 | 256u << heading;
    for (int i = 0; i < 11; i++) obs[i] = (float)(bits >> i & 1);
#if FEATURES == FLOOD
    reachable(env, obs + 11);
#endif
}
#endif
