/* Steps a batch of environments of one kernel on the CPU. Compiled once per game and options: see engine.py. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "engine.h"

size_t hotlap_state_size(void) { return sizeof(Episode); }

static int64_t step_range(const Batch *batch, int64_t begin, int64_t end) {
    const Batch to = *batch; /* a local copy, so that writes of bytes cannot be thought to change the pointers */
    int64_t finished = 0;
    for (int64_t i = begin; i < end; i++) finished += step_environment(&to, i);
    return finished;
}

/* -- threads: a pool that sleeps between steps -- */

typedef struct Pool Pool;
typedef struct {
    Pool *pool;
    int index;
    int64_t finished;
} Worker;

struct Pool {
    int threads;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    uint64_t round;
    int pending, stopping;
    const Batch *batch;
    pthread_t *ids;
    Worker *workers;
};

static int64_t run_share(Pool *pool, int index) {
    int64_t count = pool->batch->count;
    return step_range(pool->batch, count * index / pool->threads, count * (index + 1) / pool->threads);
}

static void *work(void *argument) {
    Worker *worker = argument;
    Pool *pool = worker->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->stopping) pthread_cond_wait(&pool->start, &pool->lock);
        if (pool->stopping) break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        worker->finished = run_share(pool, worker->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->pending == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void hotlap_pool_free(Pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->stopping = 1;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->threads; i++) pthread_join(pool->ids[i], NULL);
    free(pool->ids);
    free(pool->workers);
    free(pool);
}

/* The caller is worker 0. Returns NULL if the threads cannot be had. */
Pool *hotlap_pool_new(int threads) {
    Pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->ids = calloc((size_t)threads, sizeof *pool->ids);
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (!pool->ids || !pool->workers) {
        free(pool->ids);
        free(pool->workers);
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = 1;
    for (int i = 1; i < threads; i++) {
        pool->workers[i] = (Worker){pool, i, 0};
        if (pthread_create(&pool->ids[i], NULL, work, &pool->workers[i])) {
            hotlap_pool_free(pool);
            return NULL;
        }
        pool->threads++;
    }
    return pool;
}

/* -- entry points -- */

/* `seeds`: one per row, of which an environment takes its first; NULL: go on with the numbers it has. `starts`: the fixed starts
 * one after another, that of environment i from `bounds[i]` to `bounds[i + 1]`; NULL: random starts. */
void hotlap_reset(const Batch *batch, const uint64_t *seeds, const int32_t *starts, const int64_t *bounds) {
    for (int64_t i = 0; i < batch->count; i++) {
        const int32_t *start = starts ? starts + bounds[i] : NULL;
        reset_environment(batch, i, seeds ? seeds + i * AGENTS : NULL, start, starts ? (int)(bounds[i + 1] - bounds[i]) : 0);
    }
}

/* Returns how many episodes ended, or -1 - row if an action of that row is out of range or illegal (then nothing was stepped). */
int64_t hotlap_step(const Batch *batch, Pool *pool) {
    for (int64_t row = 0; row < batch->count * AGENTS; row++)
        if (!actions_fit(batch, row)) return -1 - row;
    if (!pool) return step_range(batch, 0, batch->count);
    pthread_mutex_lock(&pool->lock);
    pool->batch = batch;
    pool->pending = pool->threads - 1;
    pool->round++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    int64_t finished = run_share(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->pending) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->threads; i++) finished += pool->workers[i].finished;
    return finished;
}
