/*
 * The workers share one counter: whoever is free takes the number of the next request, waits until
 * it is due, and runs it. Numbers are taken in the order of arrival by whoever is free first, which
 * is what one queue in front of all workers does, without a queue.
 */
#include "exec/drive.h"

#include "base/clock.h"
#include "base/random.h"
#include "exec/executor.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A sleep ends late by up to the kernel's slack of 50 µs and what waking up takes: the last bit is
 * waited for with the eyes open. */
#define SPIN_NS 200000
#define HEAD_START_NS 1000000 /* for the workers to be there when the first request comes */
#define STACK_BYTES ((size_t)4 << 20)

struct drive {
    const struct prn_drive_plan *plan;
    const struct prn_runtime_ops *ops;
    struct prn_drive_request *requests;
    size_t n; /* requests that arrive; of a closed loop, room for them */
    int64_t begin_ns;
    atomic_size_t next;
    atomic_bool gave_up, stopped;
};

struct worker {
    struct drive *drive;
    struct prn_runtime *lane;
    pthread_t thread;
    int code;
    struct prony_error err;
};

size_t prn_drive_schedule(const struct prn_drive_plan *plan, struct prn_drive_request *requests)
{
    struct prn_random random;
    prn_random_seed(&random, plan->seed);
    const double mean_gap_ns = 1e9 / plan->rate;
    double due_ns = 0;
    size_t n = 0;
    while (n < plan->most_requests) {
        due_ns -= log1p(-prn_random_double(&random)) * mean_gap_ns;
        if (!(due_ns < (double)plan->span_ns))
            break;
        requests[n++].due_ns = (int64_t)due_ns;
    }
    return n;
}

static int64_t now_ns(const struct drive *d)
{
    return prn_clock_ns() - d->begin_ns;
}

/* Returns the time at which it is over, at or just after `due_ns`. */
static int64_t wait_until(const struct drive *d, int64_t due_ns)
{
    for (;;) {
        int64_t now = now_ns(d);
        if (now >= due_ns)
            return now;
        int64_t sleep_ns = due_ns - now - SPIN_NS;
        if (sleep_ns <= 0)
            continue;
        struct timespec t = prn_timespec(sleep_ns);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
}

static int run_one(struct worker *w, struct prn_drive_request *request)
{
    const struct drive *d = w->drive;
    /* The last answer is out; what the runtime has to tidy up keeps its worker busy all the same.
     */
    int code = d->ops->prepare ? d->ops->prepare(w->lane, &w->err) : 0;
    if (code < 0)
        return code;
    request->ready_ns = now_ns(d);
    if (d->plan->rate <= 0)
        request->due_ns = request->ready_ns;
    request->start_ns = wait_until(d, request->due_ns);
    code = d->ops->run(w->lane, &w->err);
    request->end_ns = now_ns(d);
    return code;
}

static bool goes_on(struct drive *d)
{
    if (atomic_load_explicit(&d->stopped, memory_order_relaxed))
        return false;
    return d->plan->rate > 0 || now_ns(d) < d->plan->span_ns;
}

static void *drive_work(void *opaque)
{
    struct worker *w = opaque;
    struct drive *d = w->drive;
    wait_until(d, 0);
    /* A number that was taken is run, so that those that were are the first ones. */
    while (w->code == 0 && goes_on(d)) {
        size_t i = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed);
        if (i >= d->n)
            break;
        struct prn_drive_request *request = &d->requests[i];
        w->code = run_one(w, request);
        if (request->start_ns - request->due_ns > d->plan->patience_ns) {
            atomic_store(&d->gave_up, true);
            atomic_store(&d->stopped, true);
        }
    }
    if (w->code < 0)
        atomic_store(&d->stopped, true);
    return NULL;
}

/* Starts all workers but the first; returns how many there are with it. */
static size_t start_workers(struct worker *workers, size_t n, int *ret_error)
{
    pthread_attr_t attributes;
    size_t started = 1;
    pthread_attr_init(&attributes);
    /* Stacks count against the limit on memory, touched or not. */
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    *ret_error = 0;
    while (started < n && *ret_error == 0) {
        struct worker *w = &workers[started];
        *ret_error = pthread_create(&w->thread, &attributes, drive_work, w);
        started += *ret_error == 0;
    }
    pthread_attr_destroy(&attributes);
    return started;
}

static int run_workers(struct drive *d, struct worker *workers, struct prony_error *err)
{
    int error;
    size_t started = start_workers(workers, d->plan->workers, &error);
    if (error)
        atomic_store(&d->stopped, true);
    else
        drive_work(&workers[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    if (error)
        return prn_fail(err, PRONY_EIO, "cannot start %zu workers: %s", d->plan->workers,
                        strerror(error));
    for (size_t i = 0; i < started; i++)
        if (workers[i].code < 0)
            return prn_fail(err, workers[i].code, "%s", workers[i].err.text);
    return 0;
}

int prn_drive(const struct prn_drive_plan *plan, const struct prn_runtime_ops *ops,
              struct prn_runtime *const *lanes, struct prn_drive_request *requests,
              struct prn_drive_end *ret_end, struct prony_error *err)
{
    struct worker *workers = calloc(plan->workers, sizeof *workers);
    if (!workers)
        return prn_fail_memory(err);
    /* Fresh pages are made now, not while requests run. */
    memset(requests, 0, plan->most_requests * sizeof *requests);
    struct drive d = {
        .plan = plan,
        .ops = ops,
        .requests = requests,
        .n = plan->rate > 0 ? prn_drive_schedule(plan, requests) : plan->most_requests,
        .begin_ns = prn_clock_ns() + HEAD_START_NS * (int64_t)(1 + plan->workers / 16),
    };
    for (size_t i = 0; i < plan->workers; i++)
        workers[i] = (struct worker){.drive = &d, .lane = lanes[i]};
    int code = run_workers(&d, workers, err);
    free(workers);
    if (code < 0)
        return code;
    size_t taken = atomic_load(&d.next);
    ret_end->n = taken < d.n ? taken : d.n;
    ret_end->gave_up = atomic_load(&d.gave_up);
    return 0;
}
