/* Connect Four in C: the rules of reference.py, bit for bit.
 *
 * The stones of a seat are a bitboard: bit = row * 8 + column, the top row first. Bits 7, 15, ... are never set, so a row of
 * four cannot wrap around the edge.
 */
#include "../kernel.h"

#define STRIDE 8
#define COLUMN 0x0101010101010101ULL /* the cells of column 0 */

typedef struct {
    uint64_t stones[2]; /* by seat */
    int64_t plies;
} Env;

FN int env_seat(const Env *env) { return (int)(env->plies & 1); }

FN void env_seed(Env *env, uint64_t seed) { (void)env, (void)seed; } /* nothing is left to chance */

FN void env_restart(Env *env, const Tables *tables) {
    (void)tables;
    env->stones[0] = env->stones[1] = 0;
    env->plies = 0;
}

/* The seat to move drops a stone; its stones then. */
FN uint64_t drop(Env *env, int column) {
    uint64_t filled = (env->stones[0] | env->stones[1]) & COLUMN << column;
    int row = ROWS - 1 - count_bits(filled);
    return env->stones[env->plies++ & 1] |= 1ULL << (row * STRIDE + column);
}

/* Start from columns that are played from the empty board. */
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    env_restart(env, tables);
    for (int i = 0; i < count; i++) drop(env, start[i]);
}

FN int four_in_a_row(uint64_t stones) {
    uint64_t across = stones & stones >> 1, up = stones & stones >> STRIDE;
    uint64_t rising = stones & stones >> (STRIDE - 1), falling = stones & stones >> (STRIDE + 1);
    return ((across & across >> 2) | (up & up >> 2 * STRIDE) | (rising & rising >> 2 * (STRIDE - 1)) |
            (falling & falling >> 2 * (STRIDE + 1))) != 0;
}

FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    int mover = env_seat(env), won = four_in_a_row(drop(env, (int)actions[0]));
    step->reward[mover] = (float)won;
    step->reward[!mover] = (float)-won;
    step->terminated[0] = (uint8_t)(won | (env->plies == ROWS * COLUMNS));
}

FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    (void)tables, (void)agent;
    uint64_t filled = env->stones[0] | env->stones[1];
    for (int column = 0; column < COLUMNS; column++) mask[column] = !(filled >> column & 1);
}

/* Bits 0 to 3 of both, spread over eight bytes of zeros and ones in turn. */
FN uint64_t interleave(uint64_t own, uint64_t other) {
    const uint64_t spread = 1ULL | 1ULL << 15 | 1ULL << 30 | 1ULL << 45, lanes = 0x0001000100010001ULL;
    return ((own & 15) * spread & lanes) | ((other & 15) * spread & lanes) << 8;
}

FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    uint64_t own = env->stones[env->plies & 1], other = env->stones[~env->plies & 1];
    for (int row = 0; row < ROWS; row++) {
        uint64_t left = interleave(own >> row * STRIDE, other >> row * STRIDE);
        uint64_t right = interleave(own >> (row * STRIDE + 4), other >> (row * STRIDE + 4));
        memcpy(obs + row * COLUMNS * 2, &left, 8);
        memcpy(obs + row * COLUMNS * 2 + 8, &right, COLUMNS * 2 - 8);
    }
}

FN void env_metrics(const Env *env, int agent, float *metrics) {
    (void)agent;
    metrics[0] = (float)(env->plies == ROWS * COLUMNS && !four_in_a_row(env->stones[~env->plies & 1]));
}
