/* The state of one MettaGrid: world.py's, laid out for speed.
 *
 * The grid has a byte for each cell and a margin as wide as an agent sees, so that no view and no attack leaves it. A byte is
 * the id of what is there: 0 nothing (the margin, too), WALL, BLOCK, FIRST_AGENT + number, FIRST_CONVERTER + number.
 */
#ifndef METTAGRID_STATE_H
#define METTAGRID_STATE_H

#include "../kernel.h"

#define STRIDE (COLUMNS + 2 * VIEW)
#define WINDOW (2 * VIEW + 1)
#define CELLS ((ROWS + 2 * VIEW) * STRIDE)
#define WORDS ((CELLS + 16) / 8) /* a row of a window is read as two words of eight cells */
#define INNER ((ROWS - 2) * (COLUMNS - 2))
#define WALL 1
#define BLOCK 2
#define FIRST_AGENT 3
#define FIRST_CONVERTER (FIRST_AGENT + AGENTS)

typedef struct {
    Rng rng;
    uint64_t words[WORDS]; /* the grid */
    int32_t steps, converters;
    int32_t hearts, left; /* navigation: that there were at the start, and are still in altars */
    int32_t taken[AGENTS], hits[AGENTS];
    uint16_t place[AGENTS];
    uint8_t facing[AGENTS], colour[AGENTS], frozen[AGENTS];
    uint8_t last[AGENTS]; /* action + 1 */
    uint8_t items[AGENTS][RESOURCES];
    uint8_t kind[CONVERTERS], working[CONVERTERS];
    uint8_t idle[CONVERTERS]; /* whether it cannot begin before something is put or taken */
    uint8_t stock[CONVERTERS][RESOURCES];
} Env;

/* Rows of tables: see tables.py. */
typedef struct {
    int32_t max_steps, navigation, room_rows, room_columns, maze;
    int32_t counts[KINDS - 1]; /* of all but agents */
} Settings;

typedef struct {
    uint8_t takes[RESOURCES], makes[RESOURCES], steps;
} Recipe;

FN const Settings *settings_of(const Tables *tables) { return (const Settings *)tables->settings; }

FN const Recipe *recipe_of(const Tables *tables, int kind) { return (const Recipe *)tables->recipes + (kind - KIND_MINE); }

FN uint8_t *grid_of(Env *env) { return (uint8_t *)env->words; }

FN const uint8_t *view_of(const Env *env) { return (const uint8_t *)env->words; }

FN int place_of(int row, int column) { return (row + VIEW) * STRIDE + column + VIEW; }

/* The k-th cell within the border, in reading order. */
FN int inner_place(int k) { return place_of(1 + k / (COLUMNS - 2), 1 + k % (COLUMNS - 2)); }

/* What a step up, right, down or left adds to a place. */
FN int delta(int direction) {
    int along = direction & 1 ? 1 : STRIDE;
    return (direction + 1) & 2 ? along : -along;
}

FN int least(int a, int b) { return a < b ? a : b; }

FN int is_agent(int id) { return id >= FIRST_AGENT && id < FIRST_CONVERTER; }

/* Put a new object on a free cell. */
FN void add_object(Env *env, int place, int kind) {
    if (kind == KIND_WALL || kind == KIND_BLOCK) {
        grid_of(env)[place] = kind == KIND_WALL ? WALL : BLOCK;
        return;
    }
    int number = env->converters++;
    grid_of(env)[place] = (uint8_t)(FIRST_CONVERTER + number);
    env->kind[number] = (uint8_t)kind;
    env->working[number] = env->idle[number] = 0;
    for (int item = 0; item < RESOURCES; item++) env->stock[number][item] = 0;
}

#endif
