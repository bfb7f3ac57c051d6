/* Jobs towards workers and clients: who joins with which secret, and what Slurm says of them. */
#include "service/slurm/jobs.h"

#include "base/clock.h"
#include "service/web/metrics.h"

#include <openssl/crypto.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define USER_PREFIX "slurm:" /* no user's name has a colon */
#define NOTE_JOBS 3
#define NOTE_BYTES 1024

bool prn_slurm_job_is_coming(const struct prn_slurm_job *job)
{
    return !job->host && !job->cancel && !job->leaving && job->row.phase != PRN_SLURM_ENDING &&
           job->row.phase != PRN_SLURM_ENDED;
}

struct prn_slurm_pool *prn_slurm_pool_of_locked(struct prn_slurm *slurm, const char *hardware)
{
    struct prn_slurm_pool *pool = slurm->pools;
    while (pool && strcmp(pool->hardware, hardware) != 0)
        pool = pool->next;
    if (pool || !(pool = calloc(1, sizeof *pool)))
        return pool;
    snprintf(pool->hardware, sizeof pool->hardware, "%s", hardware);
    pool->next = slurm->pools;
    slurm->pools = pool;
    return pool;
}

const struct prn_config_pool *prn_slurm_config(const struct prn_service *s, const char *hardware)
{
    const struct prn_config_pool *pool = prn_config_pool(&s->config, hardware);
    return pool && pool->type == PRN_POOL_SLURM ? pool : NULL;
}

/* ---- Joining ---- */

static bool same_hash(bool there, const uint8_t *a, const uint8_t *b)
{
    return there && CRYPTO_memcmp(a, b, PRN_TOKEN_HASH_BYTES) == 0;
}

static struct prn_slurm_job *find_by_token_locked(const struct prn_slurm *slurm,
                                                  const uint8_t *hash) PRN_HOLDS(prn_service)
{
    struct prn_slurm_job *job = slurm->jobs;
    while (job && !same_hash(job->has_token, job->token, hash))
        job = job->next;
    return job;
}

static struct prn_slurm_job *find_by_host_locked(const struct prn_host *host) PRN_HOLDS(prn_service)
{
    const struct prn_slurm *slurm = host->service->slurm;
    struct prn_slurm_job *job = slurm ? slurm->jobs : NULL;
    while (job && job->host != host)
        job = job->next;
    return job;
}

bool prn_slurm_identify(struct prn_service *s, const char *token, struct prn_identity *ret_identity)
{
    uint8_t hash[PRN_TOKEN_HASH_BYTES];
    if (strnlen(token, PRN_TOKEN_SIZE) != PRN_TOKEN_SIZE - 1 || !prn_token_hash(token, hash))
        return false;
    prn_service_lock(s);
    const struct prn_slurm_job *job = s->slurm ? find_by_token_locked(s->slurm, hash) : NULL;
    if (job) {
        *ret_identity = (struct prn_identity){.role = PRN_ROLE_WORKER};
        snprintf(ret_identity->user, sizeof ret_identity->user, USER_PREFIX "%s", job->label);
    }
    prn_service_unlock(s);
    return job != NULL;
}

/* The key becomes a token; it is worth nothing from then on. */
static int exchange_locked(struct prn_service *s, const char *key, char ret_token[PRN_TOKEN_SIZE],
                           struct prony_error *err) PRN_HOLDS(prn_service)
{
    uint8_t hash[PRN_TOKEN_HASH_BYTES];
    struct prn_slurm_job *job = s->slurm ? s->slurm->jobs : NULL;
    if (!key || strnlen(key, PRN_TOKEN_SIZE) != PRN_TOKEN_SIZE - 1 || !prn_token_hash(key, hash))
        return prn_fail(err, PRONY_EDENIED, "the key isn't valid here");
    while (job && !same_hash(job->has_key, job->key, hash))
        job = job->next;
    if (!job)
        return prn_fail(err, PRONY_EDENIED,
                        "the key isn't valid here: it was used before, or its job isn't needed");
    int code = prn_token_make(ret_token, err);
    if (code == 0 && !prn_token_hash(ret_token, job->token))
        code = prn_fail_memory(err);
    if (code < 0)
        return code;
    job->has_key = false;
    job->has_token = true;
    job->used_ns = prn_monotonic_ns();
    job->dirty = true;
    prn_slurm_wake_locked(s);
    return 0;
}

void prn_join(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    Prony__JoinReply reply = PRONY__JOIN_REPLY__INIT;
    struct prony_error err;
    char token[PRN_TOKEN_SIZE];
    const char *header = prn_rpc_call_metadata(call, "authorization");
    Prony__JoinRequest *q = prn_unpack(call, message, &prony__join_request__descriptor);
    if (!q)
        return;
    protobuf_c_message_free_unpacked(&q->base, NULL);
    prn_service_lock(s);
    int code = exchange_locked(s, header ? prn_token_of_header(header) : NULL, token, &err);
    if (code < 0)
        PRN_LOG(s->log, PRN_LOG_WARNING, "slurm.refused", PRN_LOG_TEXT("error", err.text));
    prn_service_unlock(s);
    if (code < 0) {
        prn_refuse(call, prn_status_of(code), "%s", err.text);
        return;
    }
    reply.token = token;
    prn_reply(call, &reply.base);
    OPENSSL_cleanse(token, sizeof token);
}

int prn_slurm_attach_locked(struct prn_host *host, const Prony__Hello *hello,
                            struct prony_error *err)
{
    struct prn_service *s = host->service;
    if (strncmp(host->owner.user, USER_PREFIX, strlen(USER_PREFIX)) != 0)
        return 0;
    struct prn_slurm_job *job = s->slurm ? s->slurm->jobs : NULL;
    while (job && strcmp(job->label, host->owner.user + strlen(USER_PREFIX)) != 0)
        job = job->next;
    if (!job || job->cancel || job->leaving)
        return prn_fail(err, PRONY_EDENIED, "its job isn't needed any more");
    if (job->host)
        return prn_fail(err, PRONY_EUSAGE, "its job has a worker already");
    if (strcmp(job->hardware, hello->hardware) != 0)
        return prn_fail(err, PRONY_EDENIED, "its job isn't of hardware '%s'", hello->hardware);
    job->host = host;
    job->joined = true;
    job->join_by_ns = 0;
    job->idle_ns = 0;
    struct prn_slurm_pool *pool = prn_slurm_pool_of_locked(s->slurm, job->hardware);
    if (pool) {
        pool->failures = 0;
        pool->retry_ns = 0;
        pool->trouble[0] = '\0';
    }
    PRN_LOG(s->log, PRN_LOG_INFO, "slurm.joined", PRN_LOG_INTEGER("job", job->id),
            PRN_LOG_TEXT("hardware", job->hardware), PRN_LOG_TEXT("host", hello->host));
    s->slurm->poll_ns = 0; /* to know where it runs, and until when */
    prn_slurm_wake_locked(s);
    return 0;
}

void prn_slurm_detach_locked(struct prn_host *host)
{
    struct prn_slurm_job *job = find_by_host_locked(host);
    if (!job)
        return;
    job->host = NULL;
    snprintf(host->why, sizeof host->why, "the worker of Slurm job %llu on %.64s went away",
             (unsigned long long)job->id, job->row.node[0] ? job->row.node : "its node");
    host->service->slurm->poll_ns = 0; /* its job may be what has ended */
    prn_slurm_wake_locked(host->service);
}

/* ---- Those who wait ---- */

void prn_slurm_fail_waiting_locked(struct prn_service *s, const char *hardware, const char *why)
{
    struct prn_queue_session *at = NULL;
    while ((at = prn_queue_next_waiting(s->queue, hardware, at))) {
        struct prn_session *session = prn_queue_session_data(at);
        /* One that doesn't ask at the moment couldn't be told. */
        const char *outcome =
            session->ask[PRN_ASK_READY].call ? prn_arena_strdup(&session->arena, why) : NULL;
        if (!outcome)
            continue;
        prn_session_close_locked(session, outcome);
        at = NULL;
    }
}

/* ---- What people are told ---- */

static void add_time(struct prn_buffer *out, int64_t time_s)
{
    time_t time = (time_t)time_s;
    struct tm utc;
    char text[32];
    if (gmtime_r(&time, &utc) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
        prn_buffer_add(out, text);
}

static void describe(struct prn_buffer *out, const struct prn_slurm_job *job)
{
    const struct prn_slurm_row *row = &job->row;
    if (job->id == 0 || !row->state[0]) {
        prn_buffer_add(out, job->id ? "job submitted" : "a job is being submitted");
        return;
    }
    prn_buffer_printf(out, "job %llu %s", (unsigned long long)job->id, row->state);
    if (row->reason[0])
        prn_buffer_printf(out, " (%s)", row->reason);
    if (row->node[0])
        prn_buffer_printf(out, " on %s", row->node);
    if (row->phase == PRN_SLURM_PENDING && row->start_s > 0) {
        prn_buffer_add(out, ", expected to start ");
        add_time(out, row->start_s);
    }
    if (row->phase == PRN_SLURM_RUNNING && job->host && row->end_s > 0) {
        prn_buffer_add(out, " until ");
        add_time(out, row->end_s);
    }
    if (row->phase == PRN_SLURM_RUNNING && !job->host)
        prn_buffer_add(out, job->joined ? ", its worker is away" : ", its worker is starting");
}

static void add_trouble_locked(struct prn_buffer *out, const struct prn_slurm *slurm,
                               const char *hardware) PRN_HOLDS(prn_service)
{
    const struct prn_slurm_pool *pool = slurm->pools;
    while (pool && strcmp(pool->hardware, hardware) != 0)
        pool = pool->next;
    if (slurm->silent_ns)
        prn_buffer_printf(out, "%sSlurm doesn't answer: %s", out->len ? "; " : "", slurm->silence);
    else if (pool && pool->trouble[0])
        prn_buffer_printf(out, "%s%s", out->len ? "; " : "", pool->trouble);
}

static char *take_note(struct prn_buffer *text, struct prn_arena *arena)
{
    char *note = text->len ? prn_arena_strdup(arena, prn_buffer_text(text)) : NULL;
    prn_buffer_release(text);
    return note;
}

char *prn_slurm_note_locked(struct prn_service *s, const char *hardware, struct prn_arena *arena)
{
    struct prn_buffer text = PRN_BUFFER_INIT(NOTE_BYTES);
    size_t n = 0;
    if (!s->slurm || !prn_slurm_config(s, hardware))
        return NULL;
    for (const struct prn_slurm_job *job = s->slurm->jobs; job; job = job->next) {
        if (strcmp(job->hardware, hardware) != 0 || n++ >= NOTE_JOBS)
            continue;
        prn_buffer_add(&text, text.len ? "; " : "Slurm: ");
        describe(&text, job);
    }
    if (n > NOTE_JOBS)
        prn_buffer_printf(&text, "; %zu more", n - NOTE_JOBS);
    add_trouble_locked(&text, s->slurm, hardware);
    return take_note(&text, arena);
}

/* The first of those who wait gets the first job that comes, and so on. */
char *prn_slurm_place_note_locked(struct prn_service *s, const char *hardware, size_t place,
                                  struct prn_arena *arena)
{
    struct prn_buffer text = PRN_BUFFER_INIT(NOTE_BYTES);
    struct prn_queue_hardware counts = {0};
    if (!s->slurm || !prn_slurm_config(s, hardware))
        return NULL;
    prn_queue_find_hardware(s->queue, hardware, &counts);
    const struct prn_slurm_job *job = s->slurm->jobs;
    size_t left = place > counts.free ? place - counts.free : 0;
    for (; job; job = job->next)
        if (strcmp(job->hardware, hardware) == 0 && prn_slurm_job_is_coming(job) && left-- <= 1)
            break;
    if (job) {
        prn_buffer_add(&text, "Slurm: ");
        describe(&text, job);
    }
    add_trouble_locked(&text, s->slurm, hardware);
    return take_note(&text, arena);
}

char *prn_slurm_worker_note_locked(const struct prn_host *host, struct prn_arena *arena)
{
    struct prn_buffer text = PRN_BUFFER_INIT(NOTE_BYTES);
    const struct prn_slurm_job *job = find_by_host_locked(host);
    if (!job)
        return NULL;
    prn_buffer_add(&text, "Slurm ");
    describe(&text, job);
    return take_note(&text, arena);
}

void prn_slurm_collect_locked(struct prn_service *s)
{
    static const char *const states[] = {"pending", "starting", "joined", "ending"};
    struct prn_metric *jobs =
        prn_metrics_gauge(s->metrics, "prony_slurm_jobs", "Jobs of Slurm, by hardware and state.",
                          "hardware", "state");
    for (size_t i = 0; s->slurm && i < s->config.n_pools; i++) {
        const char *hardware = s->config.pools[i].hardware;
        size_t counts[PRN_ARRAY_SIZE(states)] = {0};
        if (s->config.pools[i].type != PRN_POOL_SLURM)
            continue;
        for (const struct prn_slurm_job *job = s->slurm->jobs; job; job = job->next)
            if (strcmp(job->hardware, hardware) == 0)
                counts[job->cancel || job->leaving                                ? 3
                       : job->host                                                ? 2
                       : job->row.state[0] && job->row.phase != PRN_SLURM_PENDING ? 1
                                                                                  : 0]++;
        for (size_t k = 0; k < PRN_ARRAY_SIZE(states); k++)
            prn_meter_set(prn_metric_meter(jobs, hardware, states[k]), (double)counts[k]);
    }
}
