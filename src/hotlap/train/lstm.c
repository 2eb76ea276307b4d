/* A step of LSTM cells, and its gradient, in one pass over the numbers. Gates of a row: in, forget, new, out, of `units` each;
   the new ones come doubled (see `ready` in lstm.py). Written so that a compiler can work on many units at once. */
#include "fast.h"

static void open_row(float *restrict in, float *restrict keep, float *restrict add, float *restrict give,
                     const float *restrict cells, float *restrict seen, float *restrict out, float *restrict fresh,
                     int64_t units) {
    for (int64_t i = 0; i < units; i++) {
        float enter = logistic(in[i]), forget = logistic(keep[i]);
        float new = 2.0f * logistic(add[i]) - 1.0f, leave = logistic(give[i]);
        float cell = forget * cells[i] + enter * new;
        float view = 2.0f * logistic(2.0f * cell) - 1.0f;
        in[i] = enter;
        keep[i] = forget;
        add[i] = new;
        give[i] = leave;
        fresh[i] = cell;
        seen[i] = view;
        out[i] = leave * view;
    }
}

void hotlap_lstm_step(float *gates, const float *cells, float *seen, float *out, float *fresh, int64_t rows, int64_t units) {
    for (int64_t row = 0; row < rows; row++) {
        float *gate = gates + row * 4 * units;
        int64_t at = row * units;
        open_row(gate, gate + units, gate + 2 * units, gate + 3 * units, cells + at, seen + at, out + at, fresh + at, units);
    }
}

static void back_row(const float *restrict gate, const float *restrict cells, const float *restrict seen,
                     const float *restrict to_out, float *restrict to_cells, float *restrict to_in, float *restrict to_keep,
                     float *restrict to_add, float *restrict to_give, int64_t units) {
    for (int64_t i = 0; i < units; i++) {
        float enter = gate[i], forget = gate[units + i], new = gate[2 * units + i], leave = gate[3 * units + i];
        float to_cell = to_cells[i] + to_out[i] * leave * (1.0f - seen[i] * seen[i]);
        to_in[i] = to_cell * new * enter * (1.0f - enter);
        to_keep[i] = to_cell * cells[i] * forget * (1.0f - forget);
        to_add[i] = to_cell * enter * (1.0f - new * new);
        to_give[i] = to_out[i] * seen[i] * leave * (1.0f - leave);
        to_cells[i] = to_cell * forget;
    }
}

void hotlap_lstm_back(const float *gates, const float *cells, const float *seen, const float *to_out, float *to_cells,
                      float *to_gates, int64_t rows, int64_t units) {
    for (int64_t row = 0; row < rows; row++) {
        float *to_gate = to_gates + row * 4 * units;
        int64_t at = row * units;
        back_row(gates + row * 4 * units, cells + at, seen + at, to_out + at, to_cells + at, to_gate, to_gate + units,
                 to_gate + 2 * units, to_gate + 3 * units, units);
    }
}
