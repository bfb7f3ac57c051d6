#include "service/pool.h"

#include <pthread.h>
#include <stdlib.h>

struct prn_pool {
    pthread_mutex_t lock;
    pthread_cond_t due;
    struct prn_job_line *first, *last; /* lines with a job that is due */
    bool ending;
    size_t n_threads;
    pthread_t threads[];
};

static void append_line(struct prn_pool *pool, struct prn_job_line *line)
{
    line->next = NULL;
    if (pool->last)
        pool->last->next = line;
    else
        pool->first = line;
    pool->last = line;
    pthread_cond_signal(&pool->due);
}

static struct prn_job_line *take_line(struct prn_pool *pool)
{
    struct prn_job_line *line = pool->first;
    pool->first = line->next;
    if (!pool->first)
        pool->last = NULL;
    return line;
}

static void *work(void *opaque)
{
    struct prn_pool *pool = opaque;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->first && !pool->ending)
            pthread_cond_wait(&pool->due, &pool->lock);
        if (!pool->first)
            break;
        struct prn_job_line *line = take_line(pool);
        struct prn_pool_job *job = line->first;
        line->first = job->next;
        if (!line->first)
            line->last = NULL;
        pthread_mutex_unlock(&pool->lock);
        job->run(job);
        pthread_mutex_lock(&pool->lock);
        line->busy = line->first != NULL;
        if (line->busy)
            append_line(pool, line);
        pthread_mutex_unlock(&pool->lock);
        job->over(job);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
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
           pthread_create(&pool->threads[pool->n_threads], NULL, work, pool) == 0)
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
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->due);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->due);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void prn_pool_add(struct prn_pool *pool, struct prn_job_line *line, struct prn_pool_job *job)
{
    pthread_mutex_lock(&pool->lock);
    job->next = NULL;
    if (line->last)
        line->last->next = job;
    else
        line->first = job;
    line->last = job;
    if (!line->busy) {
        line->busy = true;
        append_line(pool, line);
    }
    pthread_mutex_unlock(&pool->lock);
}
