/*
 * The thread that keeps as many jobs as are needed. Each round, with the lock, it looks at what has
 * become of jobs, workers and the queue, and decides; then, without the lock, it runs Slurm's
 * programs: squeue, scancel, sbatch.
 */
#include "service/slurm/jobs.h"

#include "base/clock.h"
#include "base/array.h"
#include "service/slurm/run.h"
#include "service/web/metrics.h"

#include <openssl/crypto.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define NS_PER_S ((int64_t)1000000000)
#define SUBMIT_MOST 8             /* jobs of a pool in one round */
#define TRIES 3                   /* failures in a row before those who wait are told */
#define RETRY_NS NS_PER_S         /* after the first failure; then twice as long, and so on */
#define BROKEN_NS (30 * NS_PER_S) /* the same from the last of the tries on */
#define RETRY_MAX_NS (600 * NS_PER_S)
#define MISSED_MOST 3
#define CANCEL_AGAIN_NS (10 * NS_PER_S)
#define SOON_NS (NS_PER_S / 5)     /* before squeue shows what was just done */
#define DOUBT_NS (600 * NS_PER_S)  /* in which a job may appear of which sbatch didn't tell */
#define SILENT_NS (600 * NS_PER_S) /* of Slurm, before those who wait are told */

void prn_slurm_wake_locked(struct prn_service *s)
{
    if (!s->slurm)
        return;
    s->slurm->changed = true;
    pthread_cond_signal(&s->slurm->wake);
}

static void sooner(int64_t *at_ns, int64_t ns)
{
    *at_ns = ns < *at_ns ? ns : *at_ns;
}

static void poll_soon(struct prn_slurm *slurm)
{
    sooner(&slurm->poll_ns, prn_monotonic_ns() + SOON_NS);
}

/* ---- Failures ---- */

static int64_t delay_ns(size_t failures)
{
    int64_t ns = failures < TRIES ? RETRY_NS : BROKEN_NS;
    size_t doublings = failures < TRIES ? failures - 1 : failures - TRIES;
    while (doublings-- > 0 && ns < RETRY_MAX_NS)
        ns *= 2;
    return ns < RETRY_MAX_NS ? ns : RETRY_MAX_NS;
}

/* Slurm takes no more jobs than there are: a session that waits gets the host of one of them, or of
 * one that is submitted when one of them has ended. */
static void put_off_locked(struct prn_slurm *slurm, const char *hardware, const char *text)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct prn_slurm_pool *pool = prn_slurm_pool_of_locked(slurm, hardware);
    if (!pool)
        return;
    if (!pool->full)
        PRN_LOG(s->log, PRN_LOG_WARNING, "slurm.full", PRN_LOG_TEXT("hardware", hardware),
                PRN_LOG_TEXT("error", text));
    pool->full = true;
    pool->retry_ns = prn_monotonic_ns() + BROKEN_NS;
    snprintf(pool->trouble, sizeof pool->trouble, "%s", text);
}

/* There is room again, or nobody needs it. */
static void forget_full(struct prn_slurm_pool *pool)
{
    if (!pool->full)
        return;
    pool->full = false;
    pool->retry_ns = 0;
    pool->trouble[0] = '\0';
}

/* A job came to nothing, or couldn't be submitted. */
static void count_failure_locked(struct prn_slurm *slurm, const char *hardware, const char *text)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct prn_slurm_pool *pool = prn_slurm_pool_of_locked(slurm, hardware);
    PRN_LOG(s->log, PRN_LOG_ERROR, "slurm.failed", PRN_LOG_TEXT("hardware", hardware),
            PRN_LOG_TEXT("error", text));
    prn_meter_add(prn_metric_meter(slurm->failed, hardware, NULL), 1);
    if (!pool)
        return;
    pool->failures++;
    pool->retry_ns = prn_monotonic_ns() + delay_ns(pool->failures);
    snprintf(pool->trouble, sizeof pool->trouble, "%s", text);
}

static void silent_locked(struct prn_slurm *slurm, const char *text) PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    if (!slurm->silent_ns) {
        slurm->silent_ns = prn_monotonic_ns();
        PRN_LOG(s->log, PRN_LOG_WARNING, "slurm.silent", PRN_LOG_TEXT("error", text));
    }
    snprintf(slurm->silence, sizeof slurm->silence, "%s", text);
}

static void tell_waiting_locked(struct prn_slurm *slurm, int64_t now_ns) PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    for (struct prn_slurm_pool *pool = slurm->pools; pool; pool = pool->next) {
        bool gone = slurm->silent_ns && now_ns - slurm->silent_ns > SILENT_NS;
        if (gone)
            prn_slurm_fail_waiting_locked(s, pool->hardware, "Slurm doesn't answer");
        else if (pool->failures >= TRIES && now_ns < pool->retry_ns)
            prn_slurm_fail_waiting_locked(s, pool->hardware, pool->trouble);
    }
}

/* ---- Deciding ---- */

/* Nobody comes in with its secrets any more. */
static void cancel(struct prn_slurm_job *job)
{
    job->cancel = true;
    job->has_key = job->has_token = false;
}

/* Its worker takes no further session. */
static void leave_locked(struct prn_slurm_job *job, const char *why) PRN_HOLDS(prn_service)
{
    struct prn_service *s = job->host->service;
    job->leaving = true;
    PRN_LOG(s->log, PRN_LOG_INFO, "slurm.leave", PRN_LOG_INTEGER("job", job->id),
            PRN_LOG_TEXT("why", why));
    if (job->host->place)
        prn_queue_drain_host(s->queue, job->host->place, prn_monotonic_ns());
    prn_sessions_settle_locked(s);
}

/* It goes when it has none: one that was granted a session but hasn't heard of it yet would go. */
static void send_leave_locked(struct prn_slurm_job *job) PRN_HOLDS(prn_service)
{
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__Leave body = PRONY__LEAVE__INIT;
    if (job->told || job->host->held)
        return;
    command.body_case = PRONY__WORKER_COMMAND__BODY_LEAVE;
    command.leave = &body;
    job->told = true;
    if (prn_host_command_locked(job->host, &command, &(struct prn_command_wait){0}) == 0)
        cancel(job);
}

/* A worker that is there: whether it goes on. */
static void tend_worker_locked(struct prn_slurm_job *job, const struct prn_config_pool *pool,
                               size_t waiting, int64_t now_ns, int64_t *next_ns)
    PRN_HOLDS(prn_service)
{
    job->idle_ns = job->host->held ? 0 : job->idle_ns ? job->idle_ns : now_ns;
    if (job->leaving || job->cancel)
        return;
    if (!pool) {
        leave_locked(job, "there is no such pool any more");
        return;
    }
    if (job->row.end_s > 0) {
        int64_t left_ns = (job->row.end_s - (int64_t)time(NULL)) * NS_PER_S -
                          (int64_t)(pool->slurm.session_s * 1e9);
        if (left_ns <= 0) {
            leave_locked(job, "no session would fit into the time that is left");
            return;
        }
        sooner(next_ns, now_ns + left_ns);
    }
    if (!job->idle_ns || waiting > 0)
        return;
    int64_t until_ns = job->idle_ns + (int64_t)(pool->slurm.idle_s * 1e9);
    if (until_ns <= now_ns)
        leave_locked(job, "idle");
    else
        sooner(next_ns, until_ns);
}

/* One that isn't: whether it is late. */
static void tend_absent_locked(struct prn_slurm *slurm, struct prn_slurm_job *job,
                               const struct prn_config_pool *pool, int64_t now_ns, int64_t *next_ns)
    PRN_HOLDS(prn_service)
{
    if (job->cancel || job->id == 0 || !job->row.state[0])
        return;
    /* A job that was queued again has a key that was used; one that squeue saw waiting before its
     * worker used it hasn't been. */
    bool again =
        !job->has_key && job->row.phase == PRN_SLURM_PENDING && job->used_ns < slurm->asked_ns;
    if (!pool || again) {
        cancel(job);
        return;
    }
    if (job->row.phase != PRN_SLURM_RUNNING)
        return;
    if (!job->join_by_ns)
        job->join_by_ns = now_ns + (int64_t)(pool->slurm.join_s * 1e9);
    sooner(next_ns, job->join_by_ns);
    if (now_ns < job->join_by_ns)
        return;
    if (!job->joined) {
        char why[PRN_SLURM_TROUBLE_SIZE];
        snprintf(
            why, sizeof why,
            "the worker of Slurm job %llu on %s didn't join within %g s; can it reach %s%s? What "
            "it said is in the pool's 'output'",
            (unsigned long long)job->id, job->row.node, pool->slurm.join_s,
            pool->slurm.server ? pool->slurm.server : slurm->address,
            slurm->service->tls ? ", and trust its certificate" : "");
        count_failure_locked(slurm, job->hardware, why);
    }
    cancel(job);
}

/* More are coming than are needed: the last first, and those that haven't begun before others. A
 * worker that was there once is waited for. */
static void cancel_surplus_locked(struct prn_slurm *slurm, const char *hardware, size_t surplus)
    PRN_HOLDS(prn_service)
{
    for (int begun = 0; begun < 2; begun++)
        for (; surplus > 0; surplus--) {
            struct prn_slurm_job *last = NULL;
            for (struct prn_slurm_job *job = slurm->jobs; job; job = job->next)
                if (strcmp(job->hardware, hardware) == 0 && prn_slurm_job_is_coming(job) &&
                    !job->joined && (begun || job->row.phase == PRN_SLURM_PENDING))
                    last = job;
            if (!last)
                break;
            cancel(last);
        }
}

/* How many jobs a pool is to get; those that it doesn't need are cancelled. */
static size_t plan_pool_locked(struct prn_slurm *slurm, const struct prn_config_pool *pool,
                               int64_t now_ns, int64_t *next_ns) PRN_HOLDS(prn_service)
{
    struct prn_queue_hardware counts = {0};
    struct prn_slurm_pool *state = prn_slurm_pool_of_locked(slurm, pool->hardware);
    size_t alive = 0;
    size_t coming = 0;
    prn_queue_find_hardware(slurm->service->queue, pool->hardware, &counts);
    for (const struct prn_slurm_job *job = slurm->jobs; job; job = job->next)
        if (strcmp(job->hardware, pool->hardware) == 0) {
            alive++;
            coming += prn_slurm_job_is_coming(job);
        }
    size_t needed =
        !counts.paused && counts.waiting > counts.free ? counts.waiting - counts.free : 0;
    if (coming > needed)
        cancel_surplus_locked(slurm, pool->hardware, coming - needed);
    if (needed == 0 && state)
        forget_full(state);
    if (coming >= needed || alive >= pool->slurm.hosts || !state || slurm->silent_ns)
        return 0;
    if (now_ns < state->retry_ns) {
        sooner(next_ns, state->retry_ns);
        return 0;
    }
    size_t wanted = needed - coming;
    size_t room = pool->slurm.hosts - alive;
    wanted = wanted < room ? wanted : room;
    /* After a failure one job shows whether it is worth while. */
    if (state->failures > 0)
        wanted = coming == 0;
    return wanted < SUBMIT_MOST ? wanted : SUBMIT_MOST;
}

static void tend_jobs_locked(struct prn_slurm *slurm, int64_t now_ns, int64_t *next_ns)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    for (struct prn_slurm_job *job = slurm->jobs; job; job = job->next) {
        const struct prn_config_pool *pool = prn_slurm_config(s, job->hardware);
        struct prn_queue_hardware counts = {0};
        prn_queue_find_hardware(s->queue, job->hardware, &counts);
        if (job->host)
            tend_worker_locked(job, pool, counts.waiting, now_ns, next_ns);
        else
            tend_absent_locked(slurm, job, pool, now_ns, next_ns);
        if (job->host && job->leaving)
            send_leave_locked(job);
    }
}

/* ---- The end of a job ---- */

static void unlink_job(struct prn_slurm *slurm, struct prn_slurm_job *job)
{
    struct prn_slurm_job **at = &slurm->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
}

/* What became of one that never joined. */
static void describe_end(const struct prn_slurm_job *job, const struct prn_slurm_outcome *outcome,
                         char text[PRN_SLURM_TROUBLE_SIZE])
{
    const char *state = outcome->state[0] ? outcome->state : job->row.state;
    int n = snprintf(text, PRN_SLURM_TROUBLE_SIZE,
                     "Slurm job %llu ended before its worker had joined: %s",
                     (unsigned long long)job->id, state[0] ? state : "it is gone");
    size_t left = PRN_SLURM_TROUBLE_SIZE - (size_t)n;
    if (outcome->signal > 0)
        snprintf(text + n, left, ", signal %d", outcome->signal);
    else if (outcome->status == 126 || outcome->status == 127)
        snprintf(text + n, left, ", exit status %d: is prony on %s?", outcome->status,
                 job->row.node);
    else if (outcome->status > 0)
        snprintf(text + n, left, ", exit status %d: what it said is in the pool's 'output'",
                 outcome->status);
}

/* Gives the lock up meanwhile. */
static void end_job_locked(struct prn_slurm *slurm, struct prn_slurm_job *job)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct prn_slurm_outcome outcome = {0};
    struct prony_error err;
    char text[PRN_SLURM_TROUBLE_SIZE];
    bool failed = !job->cancel && !job->joined;
    job->has_key = false;
    prn_service_unlock(s);
    if (failed && prn_slurm_outcome(job->id, &slurm->stopping, &outcome, &err) < 0)
        outcome.state[0] = '\0';
    int code = prn_slurm_store_forget(slurm->store, job->id, &err);
    prn_service_lock(s);
    if (code < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "slurm.store", PRN_LOG_TEXT("error", err.text));
    PRN_LOG(s->log, PRN_LOG_INFO, "slurm.ended", PRN_LOG_INTEGER("job", job->id),
            PRN_LOG_TEXT("hardware", job->hardware),
            PRN_LOG_TEXT("state", job->row.state[0] ? job->row.state : "gone"));
    if (failed) {
        describe_end(job, &outcome, text);
        count_failure_locked(slurm, job->hardware, text);
    }
    /* A worker that outlives its job (its node was given up) has no host to offer. */
    if (job->host) {
        snprintf(job->host->why, sizeof job->host->why, "its Slurm job %llu has ended: %s",
                 (unsigned long long)job->id, job->row.state[0] ? job->row.state : "it is gone");
        prn_rpc_call_fail(job->host->call, PRN_STATUS_PERMISSION_DENIED, job->host->why);
    }
    unlink_job(slurm, job);
    free(job);
    for (struct prn_slurm_pool *pool = slurm->pools; pool; pool = pool->next)
        forget_full(pool);
}

/* ---- Looking ---- */

static void take_row(struct prn_slurm *slurm, struct prn_slurm_job *job,
                     const struct prn_slurm_row *row)
{
    struct prn_service *s = slurm->service;
    if (strcmp(job->row.state, row->state) != 0 || strcmp(job->row.reason, row->reason) != 0 ||
        job->odd)
        PRN_LOG(s->log, PRN_LOG_INFO, "slurm.state", PRN_LOG_INTEGER("job", job->id),
                PRN_LOG_TEXT("state", row->state),
                PRN_LOG_TEXT("reason", row->reason[0] ? row->reason : NULL),
                PRN_LOG_TEXT("node", row->node[0] ? row->node : NULL));
    job->row = *row;
    job->listed = true;
    job->odd = false;
    job->missed = 0;
}

static struct prn_slurm_job *find_job_locked(const struct prn_slurm *slurm, uint64_t id)
    PRN_HOLDS(prn_service)
{
    struct prn_slurm_job *job = slurm->jobs;
    while (job && job->id != id)
        job = job->next;
    return job;
}

/* A job of this service's that it doesn't know was left by one that died. */
static bool is_orphan(const struct prn_slurm *slurm, const struct prn_slurm_row *row)
{
    const char *id = prn_slurm_store_id(slurm->store);
    size_t length = strlen(row->name);
    return row->phase != PRN_SLURM_ENDED && row->phase != PRN_SLURM_ENDING &&
           strncmp(row->name, "prony-", 6) == 0 && length > strlen(id) &&
           strcmp(row->name + length - strlen(id), id) == 0;
}

struct numbers {
    uint64_t *all;
    size_t n;
};

static void add_number(struct numbers *numbers, uint64_t number)
{
    uint64_t *all = prn_array_grow(numbers->all, numbers->n, sizeof *all);
    if (!all)
        return; /* the next look finds it again */
    numbers->all = all;
    all[numbers->n++] = number;
}

/* Gives the lock up meanwhile: A list may lack a job that is there (it was cut
 * short, or squeue says something else altogether), and whoever is served by it must not suffer for
 * that: Slurm is asked about the job itself. If it doesn't know either, some lists without it will
 * do. */
static bool is_gone_locked(struct prn_slurm *slurm, struct prn_slurm_job *job)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct prony_error err;
    bool there = false;
    prn_service_unlock(s);
    int code = prn_slurm_has(job->id, &slurm->stopping, &there, &err);
    prn_service_lock(s);
    bool gone = code == 0 ? !there : ++job->missed >= MISSED_MOST;
    if (gone)
        job->row.state[0] = '\0'; /* it isn't known how */
    else if (!job->odd)
        PRN_LOG(s->log, PRN_LOG_WARNING, "slurm.odd", PRN_LOG_INTEGER("job", job->id),
                PRN_LOG_TEXT("error", code < 0 ? err.text : "squeue doesn't list it"));
    job->odd = true;
    return gone;
}

/* Gives the lock up meanwhile. */
static void take_list_locked(struct prn_slurm *slurm, const char *text, struct numbers *orphans)
    PRN_HOLDS(prn_service)
{
    struct prn_slurm_row row;
    struct prn_slurm_job *next;
    for (struct prn_slurm_job *job = slurm->jobs; job; job = job->next)
        job->listed = false;
    while (prn_slurm_next_row(&text, &row)) {
        struct prn_slurm_job *job = find_job_locked(slurm, row.job);
        if (job) {
            take_row(slurm, job, &row);
        } else if (is_orphan(slurm, &row)) {
            PRN_LOG(slurm->service->log, PRN_LOG_WARNING, "slurm.orphan",
                    PRN_LOG_INTEGER("job", row.job), PRN_LOG_TEXT("name", row.name));
            add_number(orphans, row.job);
        }
    }
    for (struct prn_slurm_job *job = slurm->jobs; job; job = next) {
        next = job->next;
        if (job->listed ? job->row.phase == PRN_SLURM_ENDED : is_gone_locked(slurm, job))
            end_job_locked(slurm, job);
    }
}

/* The names of all jobs that are or could be this service's. */
static void add_names_locked(const struct prn_slurm *slurm, struct prn_buffer *names)
    PRN_HOLDS(prn_service)
{
    const char *id = prn_slurm_store_id(slurm->store);
    for (const struct prn_slurm_pool *pool = slurm->pools; pool; pool = pool->next) {
        char name[PRN_SLURM_NAME_SIZE];
        prn_slurm_job_name(pool->hardware, id, name);
        prn_buffer_printf(names, "%s%s", names->len ? "," : "", name);
    }
}

/* Gives the lock up meanwhile. */
static void look_locked(struct prn_slurm *slurm) PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct prn_buffer names = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_SLURM_OUTPUT_MAX);
    struct numbers orphans = {0};
    struct prony_error err;
    add_names_locked(slurm, &names);
    int64_t now_ns = prn_monotonic_ns();
    prn_service_unlock(s);
    int code = prn_slurm_list(prn_buffer_text(&names), &slurm->stopping, &out, &err);
    prn_service_lock(s);
    if (code < 0) {
        silent_locked(slurm, err.text);
    } else {
        if (slurm->silent_ns)
            PRN_LOG(
                s->log, PRN_LOG_INFO, "slurm.answers",
                PRN_LOG_INTEGER("silent_s", (prn_monotonic_ns() - slurm->silent_ns) / NS_PER_S));
        slurm->silent_ns = 0;
        slurm->asked_ns = now_ns;
        take_list_locked(slurm, prn_buffer_text(&out), &orphans);
    }
    prn_service_unlock(s);
    if (orphans.n > 0 && prn_slurm_cancel(orphans.all, orphans.n, &slurm->stopping, &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "slurm.cancel", PRN_LOG_TEXT("error", err.text));
    prn_service_lock(s);
    free(orphans.all);
    prn_buffer_release(&names);
    prn_buffer_release(&out);
}

/* When to look again: only while there is something to see. */
static int64_t next_look_locked(const struct prn_slurm *slurm, int64_t now_ns)
    PRN_HOLDS(prn_service)
{
    const struct prn_config *config = &slurm->service->config;
    bool any = slurm->jobs || slurm->silent_ns || now_ns < slurm->doubt_ns;
    double least_s = any ? 60 : INFINITY;
    for (size_t i = 0; i < config->n_pools && !isinf(least_s); i++)
        if (config->pools[i].type == PRN_POOL_SLURM)
            least_s = fmin(least_s, config->pools[i].slurm.poll_s);
    return isinf(least_s) ? INT64_MAX : now_ns + (int64_t)(least_s * 1e9);
}

/* ---- Doing ---- */

/* Gives the lock up meanwhile: Slurm is told of jobs that nobody needs. */
static void cancel_jobs_locked(struct prn_slurm *slurm, int64_t now_ns) PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct numbers numbers = {0};
    struct prony_error err;
    for (struct prn_slurm_job *job = slurm->jobs; job; job = job->next)
        if (job->cancel && (!job->cancelled_ns || now_ns - job->cancelled_ns > CANCEL_AGAIN_NS)) {
            job->cancelled_ns = now_ns;
            add_number(&numbers, job->id);
            PRN_LOG(s->log, PRN_LOG_INFO, "slurm.cancel", PRN_LOG_INTEGER("job", job->id),
                    PRN_LOG_TEXT("hardware", job->hardware));
        }
    if (numbers.n == 0)
        return;
    prn_service_unlock(s);
    int code = prn_slurm_cancel(numbers.all, numbers.n, &slurm->stopping, &err);
    prn_service_lock(s);
    if (code < 0)
        PRN_LOG(s->log, PRN_LOG_WARNING, "slurm.cancel", PRN_LOG_TEXT("error", err.text));
    free(numbers.all);
    poll_soon(slurm);
}

static struct prn_slurm_job *add_job(struct prn_slurm *slurm, const char *hardware,
                                     const char *label)
{
    struct prn_slurm_job *job = calloc(1, sizeof *job);
    struct prn_slurm_job **last = &slurm->jobs;
    if (!job)
        return NULL;
    snprintf(job->hardware, sizeof job->hardware, "%s", hardware);
    snprintf(job->label, sizeof job->label, "%s", label);
    while (*last)
        last = &(*last)->next;
    *last = job;
    return job;
}

/* A job with a new key, which isn't Slurm's yet. */
static struct prn_slurm_job *new_job(struct prn_slurm *slurm, const char *hardware,
                                     char key[PRN_TOKEN_SIZE], struct prony_error *err)
{
    uint32_t number;
    char label[PRN_SLURM_LABEL_SIZE];
    if (getrandom(&number, sizeof number, 0) != sizeof number || prn_token_make(key, err) < 0) {
        prn_fail(err, PRONY_EIO, "cannot get random bytes");
        return NULL;
    }
    snprintf(label, sizeof label, "%08x", number);
    struct prn_slurm_job *job = add_job(slurm, hardware, label);
    if (!job || !prn_token_hash(key, job->key)) {
        if (job)
            unlink_job(slurm, job);
        free(job);
        prn_fail_memory(err);
        return NULL;
    }
    job->has_key = true;
    return job;
}

/* Gives the lock up meanwhile: False: it failed. */
static bool submit_locked(struct prn_slurm *slurm, const struct prn_config_pool *pool)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    char key[PRN_TOKEN_SIZE];
    struct prony_error err;
    uint64_t id = 0;
    struct prn_slurm_job *job = new_job(slurm, pool->hardware, key, &err);
    const struct prn_slurm_job_order order = {.pool = pool,
                                              .id = prn_slurm_store_id(slurm->store),
                                              .server = pool->slurm.server ? pool->slurm.server
                                                                           : slurm->address,
                                              .key = key,
                                              .hurry = &slurm->stopping};
    int code = job ? 0 : err.code;
    if (job) {
        prn_service_unlock(s);
        code = prn_slurm_submit(&order, &id, &err);
        OPENSSL_cleanse(key, sizeof key);
        prn_service_lock(s);
    }
    if (code == 0) {
        job->id = id;
        job->dirty = true;
        PRN_LOG(s->log, PRN_LOG_INFO, "slurm.submitted", PRN_LOG_INTEGER("job", id),
                PRN_LOG_TEXT("hardware", pool->hardware));
        poll_soon(slurm);
        return true;
    }
    if (job) {
        unlink_job(slurm, job);
        free(job);
    }
    /* A controller that was too slow may have taken it. */
    if (code == PRONY_ETIMEDOUT)
        slurm->doubt_ns = prn_monotonic_ns() + DOUBT_NS;
    /* A controller that is away isn't the pool's fault, and comes back. */
    look_locked(slurm);
    if (slurm->silent_ns)
        return false;
    if (slurm->jobs && prn_slurm_full(err.text) != PRN_SLURM_NOT_FULL)
        put_off_locked(slurm, pool->hardware, err.text);
    else
        count_failure_locked(slurm, pool->hardware, err.text);
    return false;
}

/* Gives the lock up meanwhile. */
static void save_locked(struct prn_slurm *slurm) PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    struct prony_error err;
    for (struct prn_slurm_job *job = slurm->jobs; job; job = job->next) {
        if (!job->dirty || job->id == 0)
            continue;
        job->dirty = false;
        struct prn_slurm_stored stored = {.job = job->id,
                                          .hardware = job->hardware,
                                          .label = job->label,
                                          .has_key = job->has_key,
                                          .has_token = job->has_token};
        memcpy(stored.key, job->key, sizeof stored.key);
        memcpy(stored.token, job->token, sizeof stored.token);
        prn_service_unlock(s);
        int code = prn_slurm_store_put(slurm->store, &stored, &err);
        prn_service_lock(s);
        if (code < 0)
            PRN_LOG(s->log, PRN_LOG_ERROR, "slurm.store", PRN_LOG_TEXT("error", err.text));
    }
}

/* ---- The thread ---- */

/* Gives the lock up meanwhile: Old configurations are kept, so a pool's may be used
 * without it. */
static void round_of_locked(struct prn_slurm *slurm, int64_t *next_ns) PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    int64_t now_ns = prn_monotonic_ns();
    if (slurm->poll_ns <= now_ns) {
        slurm->poll_ns = INT64_MAX;
        look_locked(slurm);
        now_ns = prn_monotonic_ns();
    }
    tell_waiting_locked(slurm, now_ns);
    tend_jobs_locked(slurm, now_ns, next_ns);
    struct prn_config config = s->config;
    bool works = true;
    for (size_t i = 0; i < config.n_pools; i++) {
        if (config.pools[i].type != PRN_POOL_SLURM)
            continue;
        size_t n = plan_pool_locked(slurm, &config.pools[i], now_ns, next_ns);
        for (works = true; n > 0 && works && !slurm->stopping; n--)
            works = submit_locked(slurm, &config.pools[i]);
        if (!works)
            slurm->changed = true;
    }
    save_locked(slurm);
    cancel_jobs_locked(slurm, now_ns);
    sooner(&slurm->poll_ns, next_look_locked(slurm, prn_monotonic_ns()));
    sooner(next_ns, slurm->poll_ns);
}

static void *keep_jobs(void *opaque)
{
    struct prn_slurm *slurm = opaque;
    struct prn_service *s = slurm->service;
    prn_service_lock(s);
    while (!slurm->stopping) {
        int64_t next_ns = prn_monotonic_ns() + 60 * NS_PER_S;
        slurm->changed = false;
        round_of_locked(slurm, &next_ns);
        while (!slurm->changed && !slurm->stopping && prn_monotonic_ns() < next_ns) {
            sooner(&next_ns, slurm->poll_ns);
            prn_service_wait_locked(s, &slurm->wake, next_ns);
        }
    }
    prn_service_unlock(s);
    return NULL;
}

/* ---- From the beginning to the end ---- */

static int adopt(void *context, const struct prn_slurm_stored *stored,
                 struct prony_error *err) PRN_ALONE
{
    struct prn_slurm *slurm = context;
    struct prn_slurm_job *job = add_job(slurm, stored->hardware, stored->label);
    if (!job || !prn_slurm_pool_of_locked(slurm, stored->hardware))
        return prn_fail_memory(err);
    job->id = stored->job;
    job->has_key = stored->has_key;
    job->has_token = job->joined = stored->has_token;
    memcpy(job->key, stored->key, sizeof job->key);
    memcpy(job->token, stored->token, sizeof job->token);
    PRN_LOG(slurm->service->log, PRN_LOG_INFO, "slurm.adopted", PRN_LOG_INTEGER("job", job->id),
            PRN_LOG_TEXT("hardware", job->hardware));
    return 0;
}

int prn_slurm_open(struct prn_service *s, struct prony_error *err)
{
    struct prn_slurm *slurm = calloc(1, sizeof *slurm);
    if (!slurm)
        return prn_fail_memory(err);
    slurm->service = s;
    slurm->failed =
        prn_metrics_counter(s->metrics, "prony_slurm_failures_total",
                            "Jobs of Slurm that brought no host, by hardware.", "hardware", NULL);
    prn_condition_init(&slurm->wake);
    s->slurm = slurm;
    int code = prn_slurm_store_open(s->state, &slurm->store, err);
    return code < 0 ? code : prn_slurm_store_read(slurm->store, adopt, slurm, err);
}

/* Pools of the configuration; of those that are gone nothing is promised. */
static int take_pools_locked(struct prn_slurm *slurm, size_t *ret_n, struct prony_error *err)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = slurm->service;
    size_t n = 0;
    for (size_t i = 0; i < s->config.n_pools; i++) {
        if (s->config.pools[i].type != PRN_POOL_SLURM)
            continue;
        if (!prn_slurm_pool_of_locked(slurm, s->config.pools[i].hardware))
            return prn_fail_memory(err);
        n++;
    }
    int code = 0;
    for (struct prn_slurm_pool *pool = slurm->pools; pool && code == 0; pool = pool->next)
        if (!prn_config_pool(&s->config, pool->hardware))
            code = prn_queue_promise(s->queue, pool->hardware, 0, prn_monotonic_ns(), err);
    *ret_n = n;
    return code;
}

int prn_slurm_start_locked(struct prn_service *s, const char *address, struct prony_error *err)
{
    struct prn_slurm *slurm = s->slurm;
    size_t n = 0;
    if (address && !(slurm->address = strdup(address)))
        return prn_fail_memory(err);
    int code = take_pools_locked(slurm, &n, err);
    prn_sessions_settle_locked(s);
    prn_slurm_wake_locked(s);
    if (code < 0 || slurm->running || (n == 0 && !slurm->jobs))
        return code;
    if (pthread_create(&slurm->thread, NULL, keep_jobs, slurm) != 0)
        return prn_fail(err, PRONY_ENOMEM, "cannot start a thread");
    slurm->running = true;
    return 0;
}

/* The thread that changes the list has ended. Jobs that Slurm doesn't hear of now are in the
 * database, for the next start. */
static void cancel_all(struct prn_slurm *slurm) PRN_ALONE
{
    struct prn_service *s = slurm->service;
    struct numbers numbers = {0};
    struct prony_error err;
    for (const struct prn_slurm_job *job = slurm->jobs; job; job = job->next)
        if (job->id)
            add_number(&numbers, job->id);
    int code = numbers.n > 0 ? prn_slurm_cancel(numbers.all, numbers.n, NULL, &err) : 0;
    for (size_t i = 0; i < numbers.n && code == 0; i++)
        code = prn_slurm_store_forget(slurm->store, numbers.all[i], &err);
    if (code < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "slurm.cancel", PRN_LOG_TEXT("error", err.text));
    else if (numbers.n > 0)
        PRN_LOG(s->log, PRN_LOG_INFO, "slurm.cancel", PRN_LOG_INTEGER("jobs", numbers.n));
    free(numbers.all);
}

void prn_slurm_stop(struct prn_service *s)
{
    struct prn_slurm *slurm = s->slurm;
    if (!slurm || !slurm->running)
        return;
    prn_service_lock(s);
    __atomic_store_n(&slurm->stopping, 1, __ATOMIC_RELAXED);
    pthread_cond_signal(&slurm->wake);
    prn_service_unlock(s);
    pthread_join(slurm->thread, NULL);
    slurm->running = false;
    cancel_all(slurm);
}

void prn_slurm_free(struct prn_service *s)
{
    struct prn_slurm *slurm = s->slurm;
    if (!slurm)
        return;
    prn_slurm_stop(s);
    while (slurm->jobs) {
        struct prn_slurm_job *job = slurm->jobs;
        slurm->jobs = job->next;
        free(job);
    }
    while (slurm->pools) {
        struct prn_slurm_pool *pool = slurm->pools;
        slurm->pools = pool->next;
        free(pool);
    }
    prn_slurm_store_close(slurm->store);
    pthread_cond_destroy(&slurm->wake);
    free(slurm->address);
    free(slurm);
    s->slurm = NULL;
}
