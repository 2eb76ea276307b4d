/* What an agent sees, as tokens: observe() of reference.py. */
#ifndef METTAGRID_OBSERVE_H
#define METTAGRID_OBSERVE_H

#include "state.h"

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <emmintrin.h>
#endif

#define GLOBAL_TOKEN 0xFE
#define EMPTY_TOKEN 0xFF

/* Where the next token goes, and where there is no more room. */
typedef struct {
    uint8_t *next, *end;
} Tokens;

FN void add_token(Tokens *to, int location, int feature, int value) {
    if (to->next == to->end) return;
    to->next[0] = (uint8_t)location;
    to->next[1] = (uint8_t)feature;
    to->next[2] = (uint8_t)value;
    to->next += 3;
}

FN void add_items(Tokens *to, int location, const uint8_t *items) {
    for (int item = 0; item < RESOURCES; item++)
        if (items[item]) add_token(to, location, FEATURE_ITEMS + item, items[item]);
}

/* The tokens of an agent or a converter. */
FN void add_actor(Tokens *to, const Env *env, int location, int id) {
    if (id < FIRST_CONVERTER) {
        int agent = id - FIRST_AGENT;
        add_token(to, location, KIND_AGENT, 1);
        add_token(to, location, FEATURE_FACING, env->facing[agent] + 1);
        add_token(to, location, FEATURE_COLOUR, env->colour[agent] + 1);
        if (env->frozen[agent]) add_token(to, location, FEATURE_FROZEN, env->frozen[agent]);
        add_items(to, location, env->items[agent]);
    } else {
        int number = id - FIRST_CONVERTER;
        add_token(to, location, env->kind[number], 1);
        if (env->working[number]) add_token(to, location, FEATURE_WORKING, env->working[number]);
        add_items(to, location, env->stock[number]);
    }
}

/* Which cells of a row of the window are taken: a bit for each, the leftmost in the lowest. */
FN uint64_t taken_of_row(const uint8_t *cells) {
#if defined(__SSE2__) && !defined(__CUDACC__)
    __m128i row = _mm_loadu_si128((const __m128i *)cells);
    uint64_t taken = ~(uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(row, _mm_setzero_si128()));
#else
    const uint64_t low = EACH_BYTE * 127;
    uint64_t word[2], taken = 0;
    memcpy(word, cells, 16);
    for (int i = 0; i < 2; i++) {
        uint64_t high_bits = (((word[i] & low) + low) | word[i]) & ~low;
        taken |= (((high_bits >> 7) * 0x0102040810204080ULL) >> 56) << i * 8; /* each product of two bits has its own place */
    }
#endif
    return taken & ((1 << WINDOW) - 1);
}

/* The n-th row of the window, the nearest first, the upper one of two. */
FN int nearest_row(int n) { return n & 1 ? VIEW - (n + 1) / 2 : VIEW + n / 2; }

/* Tokens of four rows, from the n-th on. They make one word of 16 bits each, so that one loop takes all that is there. */
FN void add_rows(Tokens *to, const Env *env, const uint8_t *corner, int n) {
    uint64_t taken = 0, rows = 0;
    for (int i = 0; i < 4 && n + i < WINDOW; i++) {
        taken |= taken_of_row(corner + nearest_row(n + i) * STRIDE) << i * 16;
        rows |= (uint64_t)nearest_row(n + i) << i * 16;
    }
    if (n == 0) taken &= ~(1ULL << VIEW); /* its own cell comes before all others */
    for (; taken; taken &= taken - 1) {
        int bit = lowest_bit(taken), row = (int)(rows >> (bit & 48) & 15), column = bit & 15;
        int id = corner[row * STRIDE + column];
        if (id < FIRST_AGENT)
            add_token(to, row << 4 | column, id == WALL ? KIND_WALL : KIND_BLOCK, 1);
        else
            add_actor(to, env, row << 4 | column, id);
    }
}

FN void observe(const Env *env, const Settings *settings, int agent, uint8_t *obs) {
    Tokens to = {obs, obs + TOKENS * 3};
    const uint8_t *corner = view_of(env) + env->place[agent] - VIEW * STRIDE - VIEW;
    add_token(&to, GLOBAL_TOKEN, FEATURE_TIME, (int)((int64_t)255 * env->steps / settings->max_steps));
    if (env->last[agent]) add_token(&to, GLOBAL_TOKEN, FEATURE_LAST_ACTION, env->last[agent]);
    add_actor(&to, env, VIEW << 4 | VIEW, FIRST_AGENT + agent);
    for (int n = 0; n < WINDOW; n += 4) add_rows(&to, env, corner, n);
    while (to.next < to.end) *to.next++ = EMPTY_TOKEN;
}

#endif
