#include "service/pool.h"

#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>

PRN_LOCK(pool);

struct prn_pool {
    pthread_mutex_t lock;
    pthread_cond_t due;
    struct prn_job_line *first PRN_GUARDED(pool),
        *last PRN_GUARDED(pool); /* lines with a job that is due */
    bool ending PRN_GUARDED(pool);
    size_t n_threads;
    pthread_t threads[];
};

PRN_LOCK_FUNCTIONS(pool, struct prn_pool, lock)

static void append_line_locked(struct prn_pool *pool, struct prn_job_line *line) PRN_HOLDS(pool)
{
    line->next = NULL;
    if (pool->last)
        pool->last->next = line;
    else
        pool->first = line;
    pool->last = line;
    pthread_cond_signal(&pool->due);
}

static struct prn_job_line *take_line_locked(struct prn_pool *pool) PRN_HOLDS(pool)
{
    struct prn_job_line *line = pool->first;
    pool->first = line->next;
    if (!pool->first)
        pool->last = NULL;
    return line;
}

static void *pool_work(void *opaque)
{
    struct prn_pool *pool = opaque;
    pool_lock(pool);
    for (;;) {
        while (!pool->first && !pool->ending)
            pthread_cond_wait(&pool->due, &pool->lock);
        if (!pool->first)
            break;
        struct prn_job_line *line = take_line_locked(pool);
        struct prn_pool_job *job = line->first;
        line->first = job->next;
        if (!line->first)
            line->last = NULL;
        pool_unlock(pool);
        job->run(job);
        pool_lock(pool);
        line->busy = line->first != NULL;
        if (line->busy)
            append_line_locked(pool, line);
        pool_unlock(pool);
        job->over(job);
        pool_lock(pool);
    }
    pool_unlock(pool);
    return NULL;
}

int prn_pool_new(size_t threads, struct prn_pool **ret_pool, struct prony_error *err)
{
    struct prn_pool *pool = calloc(1, sizeof *pool + threads * sizeof pool->threads[0]);
    if (!pool)
        return prn_fail_memory(err);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->due, NULL);
    while (pool->n_threads < threads &&
           pthread_create(&pool->threads[pool->n_threads], NULL, pool_work, pool) == 0)
        pool->n_threads++;
    if (pool->n_threads == 0) {
        prn_pool_free(pool);
        return prn_fail(err, PRONY_ENOMEM, "cannot start a thread");
    }
    *ret_pool = pool;
    return 0;
}

void prn_pool_free(struct prn_pool *pool)
{
    if (!pool)
        return;
    pool_lock(pool);
    pool->ending = true;
    pthread_cond_broadcast(&pool->due);
    pool_unlock(pool);
    for (size_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->due);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void prn_pool_add(struct prn_pool *pool, struct prn_job_line *line, struct prn_pool_job *job)
{
    pool_lock(pool);
    job->next = NULL;
    if (line->last)
        line->last->next = job;
    else
        line->first = job;
    line->last = job;
    if (!line->busy) {
        line->busy = true;
        append_line_locked(pool, line);
    }
    pool_unlock(pool);
}
