/* What an agent sees, as tokens: observe() of reference.py. */
#ifndef METTAGRID_OBSERVE_H
#define METTAGRID_OBSERVE_H

#include "state.h"

#define GLOBAL_TOKEN 0xFE
#define EMPTY_TOKEN 0xFF
#define EACH_BYTE 0x0101010101010101ULL

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

/* High bits of the bytes that are not zero. */
FN uint64_t taken_bytes(uint64_t word) {
    const uint64_t low = EACH_BYTE * 127;
    return (((word & low) + low) | word) & ~low;
}

/* Eight cells in a row, or fewer: those that `taken` has the high bits of. */
FN void add_cells(Tokens *to, const Env *env, uint64_t taken, const uint8_t *cells, int location) {
    while (taken) {
        int i = count_bits((taken & (0 - taken)) - 1) / 8, id = cells[i];
        taken &= taken - 1;
        if (id < FIRST_AGENT)
            add_token(to, location + i, id == WALL ? KIND_WALL : KIND_BLOCK, 1);
        else
            add_actor(to, env, location + i, id);
    }
}

FN void add_row(Tokens *to, const Env *env, const uint8_t *cells, int row) {
    const uint64_t rest = ~0ULL >> (16 - WINDOW) * 8, self = row == VIEW ? 0xFFULL << VIEW * 8 : 0;
    uint64_t first, second;
    memcpy(&first, cells, 8);
    memcpy(&second, cells + 8, 8);
    add_cells(to, env, taken_bytes(first & ~self), cells, row << 4);
    add_cells(to, env, taken_bytes(second & rest), cells + 8, (row << 4) + 8);
}

FN void observe(const Env *env, const Settings *settings, int agent, uint8_t *obs) {
    Tokens to = {obs, obs + TOKENS * 3};
    const uint8_t *corner = view_of(env) + env->place[agent] - VIEW * STRIDE - VIEW;
    add_token(&to, GLOBAL_TOKEN, FEATURE_TIME, (int)((int64_t)255 * env->steps / settings->max_steps));
    if (env->last[agent]) add_token(&to, GLOBAL_TOKEN, FEATURE_LAST_ACTION, env->last[agent]);
    add_actor(&to, env, VIEW << 4 | VIEW, FIRST_AGENT + agent);
    add_row(&to, env, corner + VIEW * STRIDE, VIEW);
    for (int far = 1; far <= VIEW; far++) {
        add_row(&to, env, corner + (VIEW - far) * STRIDE, VIEW - far);
        add_row(&to, env, corner + (VIEW + far) * STRIDE, VIEW + far);
    }
    while (to.next < to.end) *to.next++ = EMPTY_TOKEN;
}

#endif
