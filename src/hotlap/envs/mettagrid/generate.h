/* The start of an episode: generated maps (generate.py), maps from tables, and agents on them. */
#ifndef METTAGRID_GENERATE_H
#define METTAGRID_GENERATE_H

#include "state.h"

FN int line_of(int i, int lines, int size) { return i * (size - 1) / lines; }

/* Make `count` cells from a place floor, in steps of `by`. */
FN void clear_cells(Env *env, int place, int by, int count) {
    for (int i = 0; i < count; i++) grid_of(env)[place + i * by] = 0;
}

/* The ways from room (i, j) to the one above it and to the one on its left. */
FN void open_room(Env *env, const Settings *settings, int i, int j) {
    int top = line_of(i, settings->room_rows, ROWS), bottom = line_of(i + 1, settings->room_rows, ROWS);
    int left = line_of(j, settings->room_columns, COLUMNS), right = line_of(j + 1, settings->room_columns, COLUMNS);
    int height = bottom - top - 1, width = right - left - 1;
    if (settings->maze) {
        int go_left = j > 0 && (i == 0 || rng_below(&env->rng, 2));
        if (go_left)
            clear_cells(env, place_of(top + 1, left), STRIDE, height);
        else if (i)
            clear_cells(env, place_of(top, left + 1), 1, width);
    } else {
        if (i) clear_cells(env, place_of(top, left + 1 + (int)rng_below(&env->rng, (uint32_t)width)), 1, 1);
        if (j) clear_cells(env, place_of(top + 1 + (int)rng_below(&env->rng, (uint32_t)height), left), 1, 1);
    }
}

/* Whether a cell is free, and its eight neighbours, too, if it must stand `apart`. */
FN int has_room(const uint8_t *cell, int apart) {
    int taken = *cell;
    if (apart)
        for (int row = -1; row <= 1; row++) taken |= cell[row * STRIDE - 1] | cell[row * STRIDE] | cell[row * STRIDE + 1];
    return !taken;
}

/* A random cell that has room: draw_cell() of generate.py. There is one: options are checked for that. */
FN int draw_place(Env *env, int apart) {
    int k = 0;
    for (int i = 0; i < TRIES; i++) {
        k = (int)rng_below(&env->rng, INNER);
        if (has_room(view_of(env) + inner_place(k), apart)) return inner_place(k);
    }
    for (int i = 1; i < INNER; i++) {
        k = k + 1 < INNER ? k + 1 : 0;
        if (has_room(view_of(env) + inner_place(k), apart)) break;
    }
    return inner_place(k);
}

FN void generate_map(Env *env, const Settings *settings) {
    for (int i = 0; i <= settings->room_rows; i++)
        for (int column = 0; column < COLUMNS; column++)
            grid_of(env)[place_of(line_of(i, settings->room_rows, ROWS), column)] = WALL;
    for (int j = 0; j <= settings->room_columns; j++)
        for (int row = 0; row < ROWS; row++)
            grid_of(env)[place_of(row, line_of(j, settings->room_columns, COLUMNS))] = WALL;
    for (int i = 0; i < settings->room_rows; i++)
        for (int j = 0; j < settings->room_columns; j++) open_room(env, settings, i, j);
    for (int n = 0; n < KINDS - 1; n++) {
        int kind = n < KIND_AGENT ? n : n + 1;
        for (int i = 0; i < settings->counts[n]; i++) add_object(env, draw_place(env, 1), kind);
    }
}

FN void load_map(Env *env, const uint8_t *map) {
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int cell = map[row * COLUMNS + column];
            if (cell) add_object(env, place_of(row, column), cell - 1);
        }
}

FN void place_agents(Env *env, const int32_t *starts) {
    for (int agent = 0; agent < AGENTS; agent++) { /* those that have a place, which is then no longer free */
        int cell = starts[agent * 2];
        env->place[agent] = (uint16_t)(cell < 0 ? 0 : place_of(cell / COLUMNS, cell % COLUMNS));
        if (cell >= 0) grid_of(env)[env->place[agent]] = (uint8_t)(FIRST_AGENT + agent);
    }
    for (int agent = 0; agent < AGENTS; agent++) {
        int facing = starts[agent * 2 + 1];
        if (!env->place[agent]) {
            env->place[agent] = (uint16_t)draw_place(env, 0);
            grid_of(env)[env->place[agent]] = (uint8_t)(FIRST_AGENT + agent);
        }
        env->facing[agent] = (uint8_t)(facing < 0 ? (int)rng_below(&env->rng, 4) : facing);
        env->colour[agent] = (uint8_t)(agent % COLOURS);
        env->frozen[agent] = env->last[agent] = 0;
        env->taken[agent] = env->hits[agent] = 0;
        for (int item = 0; item < RESOURCES; item++) env->items[agent][item] = 0;
    }
}

FN void begin_episode(Env *env, const Tables *tables) {
    const Settings *settings = settings_of(tables);
    for (int i = 0; i < WORDS; i++) env->words[i] = 0;
    env->steps = env->converters = env->hearts = 0;
    if (tables->map[0] == GENERATED)
        generate_map(env, settings);
    else
        load_map(env, tables->map);
    if (settings->navigation)
        for (int i = 0; i < env->converters; i++)
            if (env->kind[i] == KIND_ALTAR) {
                env->stock[i][ITEM_HEART] = 1;
                env->hearts++;
            }
    env->left = env->hearts;
    place_agents(env, tables->starts);
}

#endif
