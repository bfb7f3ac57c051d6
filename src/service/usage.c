/* What users had of the hosts: charged while they hold them, and kept by month. */
#include "service/host/host.h"

#include "base/array.h"
#include "base/clock.h"
#include "service/pool.h"
#include "service/store/accounts.h"
#include "service/web/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What isn't in the database yet; one for each user and hardware. */
struct prn_unbooked {
    char user[PRN_USER_SIZE];
    char *hardware;
    uint64_t sessions;
    double host_s, usd;
};

/* NULL: out of memory. */
static struct prn_unbooked *find_locked(struct prn_service *s, const char *user,
                                        const char *hardware) PRN_HOLDS(prn_service)
{
    for (size_t i = 0; i < s->n_unbooked; i++)
        if (strcmp(s->unbooked[i].user, user) == 0 &&
            strcmp(s->unbooked[i].hardware, hardware) == 0)
            return &s->unbooked[i];
    struct prn_unbooked *all = prn_array_grow(s->unbooked, s->n_unbooked, sizeof *all);
    if (!all)
        return NULL;
    s->unbooked = all;
    struct prn_unbooked *u = &all[s->n_unbooked];
    *u = (struct prn_unbooked){.hardware = strdup(hardware)};
    if (!u->hardware)
        return NULL;
    snprintf(u->user, sizeof u->user, "%s", user);
    s->n_unbooked++;
    return u;
}

void prn_usage_granted_locked(const struct prn_session *session)
{
    for (size_t i = 0; i < session->n_held; i++) {
        struct prn_unbooked *u =
            find_locked(session->service, session->owner.user, session->held[i].hardware);
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && strcmp(session->held[k].hardware, session->held[i].hardware) != 0;
        if (u && first)
            u->sessions++;
    }
}

static void charge_host_locked(struct prn_session *session, const char *hardware, double held_s)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    const char *user = session->owner.user;
    const struct prn_config_pool *pool = prn_config_pool(&s->config, hardware);
    double usd = pool && !isnan(pool->usd_per_hour) ? held_s / 3600 * pool->usd_per_hour : NAN;
    struct prn_unbooked *u = find_locked(s, user, hardware);
    if (u)
        u->host_s += held_s;
    if (u && !isnan(usd))
        u->usd += usd;
    prn_watch_charged_locked(s, user, hardware, held_s, usd);
}

void prn_usage_charge_locked(struct prn_session *session)
{
    if (session->ready_ns == 0)
        return;
    int64_t now_ns = prn_monotonic_ns();
    int64_t since_ns = session->charged_ns ? session->charged_ns : session->ready_ns;
    session->charged_ns = now_ns;
    for (size_t i = 0; i < session->n_held; i++)
        charge_host_locked(session, session->held[i].hardware, (double)(now_ns - since_ns) * 1e-9);
}

void prn_usage_charge_all_locked(struct prn_service *s)
{
    for (size_t i = 0; i < PRN_SESSION_BUCKETS; i++)
        for (struct prn_session *session = s->buckets[i]; session; session = session->next)
            prn_usage_charge_locked(session);
}

/* What couldn't be written is tried again the next time. */
static void put_back_locked(struct prn_service *s, const struct prn_unbooked *u)
    PRN_HOLDS(prn_service)
{
    struct prn_unbooked *into = find_locked(s, u->user, u->hardware);
    if (!into)
        return;
    into->sessions += u->sessions;
    into->host_s += u->host_s;
    into->usd += u->usd;
}

static int write_all(struct prn_service *s, const struct prn_unbooked *all, size_t n,
                     struct prony_error *err)
{
    char month[PRN_MONTH_SIZE];
    struct prn_use *uses = reallocarray(NULL, n + 1, sizeof *uses);
    if (!uses)
        return prn_fail_memory(err);
    prn_month_of(prn_wall_clock_ms(), month);
    for (size_t i = 0; i < n; i++)
        uses[i] = (struct prn_use){month,           all[i].user,   all[i].hardware,
                                   all[i].sessions, all[i].host_s, all[i].usd};
    int code = prn_accounts_add(s->accounts, uses, n, err);
    free(uses);
    return code;
}

void prn_usage_flush(struct prn_service *s)
{
    struct prony_error err;
    prn_service_lock(s);
    prn_usage_charge_all_locked(s);
    struct prn_unbooked *all = s->unbooked;
    size_t n = s->n_unbooked;
    s->unbooked = NULL;
    s->n_unbooked = 0;
    prn_service_unlock(s);
    int code = n > 0 ? write_all(s, all, n, &err) : 0;
    if (code < 0) {
        PRN_LOG(s->log, PRN_LOG_ERROR, "usage", PRN_LOG_TEXT("error", err.text));
        prn_service_lock(s);
        for (size_t i = 0; i < n; i++)
            put_back_locked(s, &all[i]);
        prn_service_unlock(s);
    }
    for (size_t i = 0; i < n; i++)
        free(all[i].hardware);
    free(all);
}

/* ---- For clients ---- */

/* The database's work, which the network doesn't wait for. */
struct answer {
    struct prn_pool_job job;
    struct prn_job_line line;
    struct prn_rpc_call *call;
    struct prn_identity identity;
    char since[PRN_MONTH_SIZE]; /* "": from the first month on */
    struct prn_arena arena;
    Prony__UsageReply reply;
};

static int add_row(const struct prn_use *use, void *context)
{
    struct answer *a = context;
    Prony__Use *row = PRN_ARENA_ARRAY(&a->arena, 1, Prony__Use);
    Prony__Use **rows = prn_array_grow(a->reply.uses, a->reply.n_uses, sizeof *rows);
    a->reply.uses = rows ? rows : a->reply.uses;
    if (!row || !rows)
        return PRONY_ENOMEM;
    prony__use__init(row);
    row->month = prn_arena_strdup(&a->arena, use->month);
    row->user = prn_arena_strdup(&a->arena, use->user);
    row->hardware = prn_arena_strdup(&a->arena, use->hardware);
    row->sessions = use->sessions;
    row->host_s = use->host_s;
    row->usd = use->usd;
    if (!row->month || !row->user || !row->hardware)
        return PRONY_ENOMEM;
    rows[a->reply.n_uses++] = row;
    return 0;
}

static void run_answer(struct prn_pool_job *job)
{
    struct answer *a = (struct answer *)job;
    struct prn_service *s = prn_rpc_call_service(a->call);
    struct prony_error err;
    bool all = a->identity.role == PRN_ROLE_ADMIN;
    prn_usage_flush(s);
    int code = prn_accounts_visit(s->accounts, all ? NULL : a->identity.user,
                                  a->since[0] ? a->since : NULL, add_row, a, &err);
    if (code == PRONY_ENOMEM)
        prn_refuse(a->call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    else if (code < 0)
        prn_refuse(a->call, prn_status_of(code), "%s", err.text);
    else
        prn_reply(a->call, &a->reply.base);
}

static void answer_over(struct prn_pool_job *job)
{
    struct answer *a = (struct answer *)job;
    prn_rpc_call_unref(a->call);
    free(a->reply.uses);
    prn_arena_release(&a->arena);
    free(a);
}

void prn_usage(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    Prony__UsageRequest *q =
        prn_request(call, message, &prony__usage_request__descriptor, &identity);
    if (!q)
        return;
    struct answer *a = calloc(1, sizeof *a);
    if (q->since && !prn_month_is(q->since)) {
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "'%.20s' is not a month, such as 2026-11",
                   q->since);
        free(a);
    } else if (!a) {
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    } else {
        *a = (struct answer){.job = {.run = run_answer, .over = answer_over},
                             .call = prn_rpc_call_ref(call),
                             .identity = identity,
                             .arena = PRN_ARENA_INIT((size_t)64 << 20),
                             .reply = PRONY__USAGE_REPLY__INIT};
        snprintf(a->since, sizeof a->since, "%s", q->since ? q->since : "");
        prn_pool_add(s->pool, &a->line, &a->job);
    }
    protobuf_c_message_free_unpacked(&q->base, NULL);
}
