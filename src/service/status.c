/* How the service is: hardware, sessions, workers, the cache. */
#include "service/host/host.h"

#include "base/clock.h"
#include "report/status_json.h"
#include "rpc/remote.h"
#include "service/slurm/slurm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARENA_BYTES ((size_t)16 << 20)
#define MS(ns) ((uint64_t)((ns) / 1000000))
/* What the page gets of each, however many there are. */
#define PAGE_SESSIONS_MAX 200
#define PAGE_WORKERS_MAX 500

struct report {
    struct prn_service *service;
    struct prn_arena arena;
    const struct prn_identity *identity;
    int64_t now_ns;
    size_t sessions_max, workers_max;
    size_t sessions_left_out, workers_left_out;
    Prony__CacheStatus cache;
    Prony__StatusReply reply;
};

char *prn_hardware_note_locked(const struct prn_service *s, const struct prn_queue_hardware *counts,
                               struct prn_arena *arena)
{
    const struct prn_config_pool *pool = prn_config_pool(&s->config, counts->name);
    if (counts->paused)
        return prn_arena_strdup(arena, "paused by an administrator");
    if (counts->hosts == 0 && pool && pool->type == PRN_POOL_LOCAL)
        return prn_arena_strdup(arena, "no worker is connected");
    return NULL;
}

static int report_hardware_locked(struct report *r) PRN_HOLDS(prn_service)
{
    struct prn_queue_hardware counts;
    size_t n = 0;
    while (prn_queue_hardware(r->service->queue, n, &counts))
        n++;
    Prony__HardwareStatus *rows = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__HardwareStatus);
    r->reply.hardware = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__HardwareStatus *);
    if (!rows || !r->reply.hardware)
        return PRONY_ENOMEM;
    for (size_t i = 0; prn_queue_hardware(r->service->queue, i, &counts); i++) {
        const struct prn_config_pool *pool = prn_config_pool(&r->service->config, counts.name);
        Prony__HardwareStatus *row = r->reply.hardware[i] = &rows[i];
        prony__hardware_status__init(row);
        row->name = prn_arena_strdup(&r->arena, counts.name);
        row->processor = pool ? (char *)(uintptr_t)pool->processor : NULL;
        row->has_usd_per_hour = pool && !isnan(pool->usd_per_hour);
        row->usd_per_hour = row->has_usd_per_hour ? pool->usd_per_hour : 0;
        row->has_hosts = row->has_free = row->has_waiting = true;
        row->hosts = counts.hosts;
        row->free = counts.free;
        row->waiting = counts.waiting;
        row->has_paused = true;
        row->paused = counts.paused;
        row->note = prn_hardware_note_locked(r->service, &counts, &r->arena);
        if (!row->note)
            row->note = prn_slurm_note_locked(r->service, counts.name, &r->arena);
        r->reply.n_hardware++;
    }
    return 0;
}

static int report_session_locked(struct report *r, const struct prn_session *session,
                                 Prony__SessionStatus *row) PRN_HOLDS(prn_service)
{
    prony__session_status__init(row);
    row->id = (char *)(uintptr_t)session->label;
    row->user = (char *)(uintptr_t)session->owner.user;
    row->state = session->state == PRN_SESSION_READY ? (char[]){"ready"} : (char[]){"waiting"};
    row->state = prn_arena_strdup(&r->arena, row->state);
    row->backends = PRN_ARENA_ARRAY(&r->arena, session->n_backends, char *);
    if (!row->state || !row->backends)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < session->n_backends; i++)
        row->backends[row->n_backends++] = (char *)(uintptr_t)session->backends[i].name;
    row->has_age_ms = row->has_waited_ms = row->has_models = row->has_runs = row->has_idle_ms =
        true;
    row->age_ms = MS(r->now_ns - session->created_ns);
    row->waited_ms = MS(prn_queue_session_waited_ns(session->place, r->now_ns));
    row->has_place = session->state == PRN_SESSION_WAITING;
    row->place = row->has_place ? prn_queue_session_worst_place(session->place) : 0;
    const char *hardware = NULL;
    for (size_t i = 0;
         row->has_place && !row->note && (hardware = prn_queue_session_hardware(session->place, i));
         i++)
        row->note = prn_slurm_place_note_locked(
            r->service, hardware, prn_queue_session_place(session->place, hardware), &r->arena);
    if (!row->note)
        row->note = prn_session_limit_note_locked(session, &r->arena);
    row->models = session->n_models;
    row->runs = session->runs;
    row->idle_ms = session->open_calls ? 0 : MS(r->now_ns - session->life_ns);
    return 0;
}

/* Own ones first, then those that have hosts, then who came first: that is
 * the place in a queue.
 */
static bool comes_before_locked(const struct report *r, const struct prn_session *a,
                                const struct prn_session *b) PRN_HOLDS(prn_service)
{
    bool own = strcmp(a->owner.user, r->identity->user) == 0;
    bool other_own = strcmp(b->owner.user, r->identity->user) == 0;
    if (own != other_own)
        return own;
    if (a->state != b->state)
        return a->state == PRN_SESSION_READY;
    return prn_queue_session_before(a->place, b->place);
}

/* Keeps the first ones, sorted, of more than there is room for. */
static void keep_first_locked(struct report *r, const struct prn_session **kept, size_t *n,
                              const struct prn_session *session) PRN_HOLDS(prn_service)
{
    if (*n == r->sessions_max) {
        r->sessions_left_out++;
        if (!comes_before_locked(r, session, kept[*n - 1]))
            return;
        --*n;
    }
    size_t low = 0;
    size_t high = *n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (comes_before_locked(r, session, kept[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    memmove(kept + low + 1, kept + low, (*n - low) * sizeof(const struct prn_session *));
    kept[low] = session;
    ++*n;
}

static const struct prn_session **choose_sessions(struct report *r, size_t *ret_n)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = r->service;
    bool all = r->sessions_max >= s->n_sessions;
    const struct prn_session **kept = PRN_ARENA_ARRAY(
        &r->arena, (all ? s->n_sessions : r->sessions_max) + 1, const struct prn_session *);
    size_t n = 0;
    for (size_t i = 0; kept && i < PRN_SESSION_BUCKETS; i++)
        for (const struct prn_session *session = s->buckets[i]; session; session = session->next) {
            if (r->identity->role == PRN_ROLE_ADMIN ||
                strcmp(session->owner.user, r->identity->user) == 0) {
                if (r->sessions_max == SIZE_MAX)
                    kept[n++] = session;
                else
                    keep_first_locked(r, kept, &n, session);
            } else {
                r->reply.has_sessions_others = true;
                r->reply.sessions_others++;
            }
        }
    *ret_n = n;
    return kept;
}

static int report_sessions_locked(struct report *r) PRN_HOLDS(prn_service)
{
    size_t n = 0;
    const struct prn_session **chosen = choose_sessions(r, &n);
    Prony__SessionStatus *rows = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__SessionStatus);
    r->reply.sessions = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__SessionStatus *);
    if (!chosen || !rows || !r->reply.sessions)
        return PRONY_ENOMEM;
    for (; r->reply.n_sessions < n; r->reply.n_sessions++) {
        size_t i = r->reply.n_sessions;
        if (report_session_locked(r, chosen[i], &rows[i]) < 0)
            return PRONY_ENOMEM;
        r->reply.sessions[i] = &rows[i];
    }
    return 0;
}

/* Why no further session gets it; NULL: one would. */
static const char *bars_locked(const struct prn_host *host) PRN_HOLDS(prn_service)
{
    if (!host->place)
        return NULL;
    if (prn_queue_host_draining(host->place))
        return "draining";
    return prn_queue_host_disabled(host->place) ? "disabled" : NULL;
}

static const char *worker_state_locked(const struct prn_host *host) PRN_HOLDS(prn_service)
{
    const char *bars = bars_locked(host);
    return host->held ? "held" : bars ? bars : "free";
}

/* Names of users are told to administrators and to themselves. */
static void report_holder_locked(const struct report *r, const struct prn_session *session,
                                 Prony__WorkerStatus *row) PRN_HOLDS(prn_service)
{
    row->session = (char *)(uintptr_t)session->label;
    if (r->identity->role != PRN_ROLE_ADMIN && strcmp(session->owner.user, r->identity->user) != 0)
        return;
    row->user = (char *)(uintptr_t)session->owner.user;
    row->has_held_ms = true;
    row->held_ms = MS(r->now_ns - session->ready_ns);
}

static int report_worker_locked(struct report *r, const struct prn_host *host,
                                Prony__WorkerStatus *row) PRN_HOLDS(prn_service)
{
    const Prony__Hello *hello = host->hello;
    char id[PRN_HOST_ID_SIZE];
    const char *bars;
    prony__worker_status__init(row);
    row->id = prn_arena_strdup(&r->arena, prn_host_id(host, id));
    row->name = hello->host;
    row->hardware = hello->hardware;
    row->state = prn_arena_strdup(&r->arena, worker_state_locked(host));
    row->sandbox = hello->sandbox;
    row->note = prn_slurm_worker_note_locked(host, &r->arena);
    if (!row->note && strcmp(hello->version, prony_version()) != 0) {
        char text[80];
        snprintf(text, sizeof text, "prony %.60s", hello->version);
        row->note = prn_arena_strdup(&r->arena, text);
    }
    if (host->held && (bars = bars_locked(host)))
        row->note = prn_arena_strdup(&r->arena, bars);
    row->has_connected_ms = true;
    row->connected_ms = MS(r->now_ns - host->connected_ns);
    if (host->held)
        report_holder_locked(r, host->held->session, row);
    row->software = PRN_ARENA_ARRAY(&r->arena, hello->n_software + 1, char *);
    if (!row->id || !row->state || !row->software)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < hello->n_software; i++) {
        struct prn_buffer text = PRN_BUFFER_INIT(4096);
        const Prony__Software *have = hello->software[i];
        prn_buffer_printf(&text, "%s %s", have->name, have->version ? have->version : "");
        row->software[i] = prn_arena_strdup(&r->arena, prn_buffer_text(&text));
        prn_buffer_release(&text);
        if (!row->software[i])
            return PRONY_ENOMEM;
        row->n_software++;
    }
    return 0;
}

static int report_workers_locked(struct report *r) PRN_HOLDS(prn_service)
{
    size_t n = 0;
    for (const struct prn_host *host = r->service->hosts; host && n < r->workers_max;
         host = host->next)
        n++;
    Prony__WorkerStatus *rows = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__WorkerStatus);
    r->reply.workers = PRN_ARENA_ARRAY(&r->arena, n + 1, Prony__WorkerStatus *);
    if (!rows || !r->reply.workers)
        return PRONY_ENOMEM;
    for (const struct prn_host *host = r->service->hosts; host; host = host->next) {
        size_t i = r->reply.n_workers;
        if (!host->hello)
            continue;
        if (i == r->workers_max) {
            r->workers_left_out++;
            continue;
        }
        if (report_worker_locked(r, host, &rows[i]) < 0)
            return PRONY_ENOMEM;
        r->reply.workers[i] = &rows[i];
        r->reply.n_workers++;
    }
    return 0;
}

static void report_cache(struct report *r)
{
    struct prn_blobs_stats stats;
    Prony__CacheStatus *cache = &r->cache;
    prony__cache_status__init(cache);
    prn_blobs_stats(r->service->blobs, &stats);
    cache->has_blobs = cache->has_bytes = cache->has_limit_bytes = cache->has_hits =
        cache->has_misses = true;
    cache->blobs = stats.blobs;
    cache->bytes = stats.bytes;
    cache->limit_bytes = stats.limit_bytes;
    cache->hits = stats.hits;
    cache->misses = stats.misses;
    r->reply.cache = cache;
}

/* Everything but the message's frame; what it says is borrowed until the lock is given up. */
static int report_all_locked(struct report *r) PRN_HOLDS(prn_service)
{
    struct prn_service *s = r->service;
    r->reply.version = (char *)(uintptr_t)prony_version();
    r->reply.has_uptime_ms = r->reply.has_draining = true;
    r->reply.uptime_ms = MS(r->now_ns - s->start_ns);
    r->reply.draining = s->draining;
    r->reply.notice = s->notice[0] ? s->notice : NULL;
    r->reply.has_session_memory_bytes = s->config.limits.session_memory_bytes > 0;
    r->reply.session_memory_bytes = s->config.limits.session_memory_bytes;
    r->reply.has_run_timeout_s = true;
    r->reply.run_timeout_s = s->config.limits.run_timeout_s;
    int code = report_hardware_locked(r);
    if (code == 0)
        code = report_sessions_locked(r);
    if (code == 0)
        code = report_workers_locked(r);
    if (code == 0)
        code = prn_bookings_report_locked(s, r->identity, &r->arena, &r->reply);
    return code;
}

void prn_status(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    prn_bytes_free(message);
    if (!prn_access(call, &identity))
        return;
    struct report r = {.service = s,
                       .arena = PRN_ARENA_INIT(ARENA_BYTES),
                       .identity = &identity,
                       .now_ns = prn_monotonic_ns(),
                       .sessions_max = SIZE_MAX,
                       .workers_max = SIZE_MAX,
                       .reply = PRONY__STATUS_REPLY__INIT};
    report_cache(&r);
    prn_service_lock(s);
    if (report_all_locked(&r) == 0)
        prn_reply(call, &r.reply.base);
    else
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    prn_service_unlock(s);
    prn_arena_release(&r.arena);
}

int prn_status_write(struct prn_service *s, const struct prn_identity *identity,
                     const char *signed_in_by, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_arena copies = PRN_ARENA_INIT(ARENA_BYTES);
    struct prn_remote_status status;
    struct report r = {.service = s,
                       .arena = PRN_ARENA_INIT(ARENA_BYTES),
                       .identity = identity,
                       .now_ns = prn_monotonic_ns(),
                       .sessions_max = PAGE_SESSIONS_MAX,
                       .workers_max = PAGE_WORKERS_MAX,
                       .reply = PRONY__STATUS_REPLY__INIT};
    report_cache(&r);
    prn_service_lock(s);
    int code = report_all_locked(&r) < 0 ? prn_fail_memory(err) : 0;
    if (code == 0)
        code = prn_remote_read_status(&r.reply, &copies, &status, err);
    prn_service_unlock(s);
    prn_arena_release(&r.arena);
    if (code == 0) {
        status.has_viewer = true;
        status.you = identity->user;
        status.you_are_admin = identity->role == PRN_ROLE_ADMIN;
        status.signed_in_by = signed_in_by;
        status.time_ms = prn_wall_clock_ms();
        status.sessions_left_out = (int64_t)r.sessions_left_out;
        status.workers_left_out = (int64_t)r.workers_left_out;
        for (size_t i = 0; i < status.n_sessions; i++) {
            const char *owner = status.sessions[i].user;
            status.sessions[i].yours = owner && strcmp(owner, identity->user) == 0;
        }
        code = prn_status_write_json(&status, out, err);
    }
    prn_arena_release(&copies);
    return code;
}
