/* A sum tree: draws indices in proportion to their priorities. The specification is priorities.py's SumTree, in torch.

   Level 0 holds the leaves, FAN children under each node; a level's numbers are the sums of the blocks below them. */
#include <math.h>
#include <stdint.h>

#define FAN 32 /* as in priorities.py */

typedef struct {
    int64_t depth;
    double *levels[];
} Tree;

static double sum_of(const double *children) {
    double sum = 0.0;
    for (int64_t i = 0; i < FAN; i++) sum += children[i];
    return sum;
}

static void set_sums(const Tree *tree, int64_t at) {
    for (int64_t level = 1; level < tree->depth; level++) {
        at /= FAN;
        tree->levels[level][at] = sum_of(tree->levels[level - 1] + at * FAN);
    }
}

void hotlap_tree_set(const Tree *tree, const int64_t *index, const double *priority, int64_t count) {
    for (int64_t i = 0; i < count; i++) tree->levels[0][index[i]] = priority[i];
    for (int64_t i = 0; i < count; i++) set_sums(tree, index[i]);
}

void hotlap_tree_set_range(const Tree *tree, int64_t begin, int64_t end, const double *priority) {
    for (int64_t i = begin; i < end; i++) tree->levels[0][i] = *priority;
    for (int64_t level = 1; level < tree->depth; level++) {
        begin /= FAN;
        end = (end + FAN - 1) / FAN;
        for (int64_t i = begin; i < end; i++) tree->levels[level][i] = sum_of(tree->levels[level - 1] + i * FAN);
    }
}

/* Priorities from errors; `top` becomes the highest priority ever. */
void hotlap_tree_set_errors(const Tree *tree, const int64_t *index, const float *error, int64_t count, double alpha, double least,
                            double *top) {
    for (int64_t i = 0; i < count; i++) {
        double priority = pow(fabs((double)error[i]) + least, alpha);
        tree->levels[0][index[i]] = priority;
        if (!(priority <= *top)) *top = priority;
    }
    for (int64_t i = 0; i < count; i++) set_sums(tree, index[i]);
}

static int64_t draw(const Tree *tree, double rest) {
    int64_t node = 0;
    for (int64_t level = tree->depth - 1; level >= 0; level--) {
        const double *children = tree->levels[level] + node * FAN;
        /* Rounding may push a position past the last child: then take the last one that has any priority. */
        double most = sum_of(children) * (1 - 1e-12), before = 0.0;
        int64_t child = 0, last = 0;
        if (rest > most) rest = most;
        for (; child < FAN; child++) {
            if (children[child] > 0.0) last = child;
            if (before + children[child] > rest) break;
            before += children[child];
        }
        if (child == FAN) {
            child = last;
            before = rest;
        }
        rest -= before;
        node = node * FAN + child;
    }
    return node;
}

void hotlap_tree_draw(const Tree *tree, const double *position, int64_t *index, int64_t count) {
    for (int64_t i = 0; i < count; i++) index[i] = draw(tree, position[i]);
}

/* One index from each of `count` equal slices of the total, and its importance weight, the highest being 1. */
void hotlap_tree_sample(const Tree *tree, const double *jitter, double beta, int64_t *index, float *weight, int64_t count) {
    double total = sum_of(tree->levels[tree->depth - 1]), lowest = INFINITY;
    for (int64_t i = 0; i < count; i++) {
        index[i] = draw(tree, ((double)i + jitter[i]) / (double)count * total);
        double priority = tree->levels[0][index[i]];
        if (priority < lowest) lowest = priority;
    }
    /* The number of leaves and the total cancel out of weight / highest weight. */
    for (int64_t i = 0; i < count; i++) weight[i] = (float)pow(tree->levels[0][index[i]] / lowest, -beta);
}
