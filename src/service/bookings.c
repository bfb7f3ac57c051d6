/* Reservations: hosts that are kept for a user for a time. They are in the database; those that
 * aren't over yet are in a list as well, and the timer lets them begin and end. */
#include "service/host/host.h"

#include "base/clock.h"
#include "service/store/accounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BOOKINGS_MAX 1000
#define AHEAD_MAX_MS ((int64_t)366 * 86400 * 1000)
#define HOSTS_MAX 10000

struct prn_reserved {
    struct prn_booking what; /* its texts follow the struct */
    bool active;
    struct prn_reserved *next;
};

static struct prn_reserved *copy_booking(const struct prn_booking *what)
{
    size_t target = strlen(what->target) + 1;
    size_t user = strlen(what->user) + 1;
    struct prn_reserved *r = calloc(1, sizeof *r + target + user);
    if (!r)
        return NULL;
    char *texts = (char *)(r + 1);
    memcpy(texts, what->target, target);
    memcpy(texts + target, what->user, user);
    r->what = *what;
    r->what.target = texts;
    r->what.user = texts + target;
    return r;
}

/* "2026-11-18 15:00" */
static const char *clock_text(int64_t ms, char text[32])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || strftime(text, 32, "%Y-%m-%d %H:%M", &tm) == 0)
        text[0] = 0;
    return text;
}

/* ---- What they come to ---- */

static void keep_pool_locked(struct prn_service *s, const struct prn_booking *what)
    PRN_HOLDS(prn_service)
{
    struct prony_error err;
    size_t hosts = 0;
    for (const struct prn_reserved *r = s->reserved; r; r = r->next)
        if (r->active && !r->what.is_host && strcmp(r->what.target, what->target) == 0 &&
            strcmp(r->what.user, what->user) == 0)
            hosts += r->what.hosts;
    if (prn_queue_keep(s->queue, what->target, what->user, hosts, prn_monotonic_ns(), &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "reservation", PRN_LOG_TEXT("error", err.text));
}

void prn_bookings_host_locked(struct prn_host *host)
{
    struct prn_service *s = host->service;
    const char *user = NULL;
    struct prony_error err;
    for (const struct prn_reserved *r = s->reserved; r && !user; r = r->next)
        if (r->active && r->what.is_host && host->hello->host &&
            strcmp(r->what.target, host->hello->host) == 0)
            user = r->what.user;
    if (prn_queue_keep_host(s->queue, host->place, user, prn_monotonic_ns(), &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "reservation", PRN_LOG_TEXT("error", err.text));
}

static void apply_locked(struct prn_service *s, struct prn_reserved *r, bool active)
    PRN_HOLDS(prn_service)
{
    if (r->active == active)
        return;
    r->active = active;
    PRN_LOG(s->log, PRN_LOG_INFO, active ? "reservation.begin" : "reservation.end",
            PRN_LOG_INTEGER("id", r->what.id), PRN_LOG_TEXT("target", r->what.target),
            PRN_LOG_TEXT("user", r->what.user));
    if (!r->what.is_host)
        keep_pool_locked(s, &r->what);
    for (struct prn_host *host = r->what.is_host ? s->hosts : NULL; host; host = host->next)
        if (host->place)
            prn_bookings_host_locked(host);
}

int64_t prn_bookings_tick_locked(struct prn_service *s, int64_t now_ns)
{
    int64_t now_ms = prn_wall_clock_ms();
    int64_t next_ms = INT64_MAX;
    for (struct prn_reserved **at = &s->reserved; *at;) {
        struct prn_reserved *r = *at;
        bool over = r->what.to_ms <= now_ms;
        apply_locked(s, r, !over && r->what.from_ms <= now_ms);
        int64_t edge_ms = r->active ? r->what.to_ms : r->what.from_ms;
        next_ms = !over && edge_ms < next_ms ? edge_ms : next_ms;
        *at = over ? r->next : r;
        if (over)
            free(r);
        else
            at = &r->next;
    }
    prn_sessions_settle_locked(s);
    return next_ms == INT64_MAX ? INT64_MAX : now_ns + (next_ms - now_ms) * 1000000;
}

static void add_locked(struct prn_service *s, struct prn_reserved *r) PRN_HOLDS(prn_service)
{
    struct prn_reserved **end = &s->reserved;
    while (*end && (*end)->what.from_ms <= r->what.from_ms)
        end = &(*end)->next;
    r->next = *end;
    *end = r;
}

static int load_one(const struct prn_booking *what, void *opaque) PRN_ALONE
{
    struct prn_reserved *r = copy_booking(what);
    if (!r)
        return PRONY_ENOMEM;
    add_locked(opaque, r);
    return 0;
}

int prn_bookings_load_locked(struct prn_service *s, struct prony_error *err)
{
    int code = prn_accounts_bookings(s->accounts, prn_wall_clock_ms(), load_one, s, err);
    return code == PRONY_ENOMEM ? prn_fail_memory(err) : code;
}

void prn_bookings_free(struct prn_service *s) PRN_ALONE
{
    while (s->reserved) {
        struct prn_reserved *r = s->reserved;
        s->reserved = r->next;
        free(r);
    }
}

/* ---- What clients are told ---- */

char *prn_bookings_note_locked(struct prn_service *s, const char *hardware, const char *user,
                               struct prn_arena *arena)
{
    int64_t until_ms = 0;
    size_t n = 0;
    char clock[32];
    char text[120];
    struct prn_queue_host *host = NULL;
    while ((host = prn_queue_next_host(s->queue, hardware, host))) {
        const char *kept_for = prn_queue_host_kept_for(s->queue, host);
        n += kept_for && strcmp(kept_for, user) != 0;
    }
    for (const struct prn_reserved *r = s->reserved; r; r = r->next)
        if (r->active && strcmp(r->what.user, user) != 0 && r->what.to_ms > until_ms)
            until_ms = r->what.to_ms;
    if (n == 0)
        return NULL;
    snprintf(text, sizeof text, "%zu host%s reserved for others, until %s UTC at most", n,
             n == 1 ? " is" : "s are", clock_text(until_ms, clock));
    return prn_arena_strdup(arena, text);
}

int prn_bookings_report_locked(struct prn_service *s, const struct prn_identity *viewer,
                               struct prn_arena *arena, Prony__StatusReply *reply)
{
    size_t n = 0;
    for (const struct prn_reserved *r = s->reserved; r; r = r->next)
        n++;
    Prony__ReservationStatus *rows = PRN_ARENA_ARRAY(arena, n + 1, Prony__ReservationStatus);
    reply->reservations = PRN_ARENA_ARRAY(arena, n + 1, Prony__ReservationStatus *);
    if (!rows || !reply->reservations)
        return PRONY_ENOMEM;
    for (const struct prn_reserved *r = s->reserved; r; r = r->next) {
        Prony__ReservationStatus *row = &rows[reply->n_reservations];
        prony__reservation_status__init(row);
        row->id = (uint64_t)r->what.id;
        row->target = prn_arena_strdup(arena, r->what.target);
        /* Names of users are told to administrators and to themselves. */
        if (viewer->role == PRN_ROLE_ADMIN || strcmp(viewer->user, r->what.user) == 0)
            row->user = prn_arena_strdup(arena, r->what.user);
        row->has_hosts = !r->what.is_host;
        row->hosts = r->what.hosts;
        row->from_ms = r->what.from_ms;
        row->to_ms = r->what.to_ms;
        row->active = r->active;
        if (!row->target)
            return PRONY_ENOMEM;
        reply->reservations[reply->n_reservations++] = row;
    }
    return 0;
}

/* ---- What an administrator orders ---- */

static int check_order(const struct prn_admin_order *what, struct prony_error *err)
{
    int64_t now_ms = prn_wall_clock_ms();
    if (!what->user || !what->user[0])
        return prn_fail(err, PRONY_EUSAGE, "a reservation needs a user");
    if (strlen(what->user) >= PRN_USER_SIZE)
        return prn_fail(err, PRONY_EUSAGE, "'%.80s' is not the name of a user", what->user);
    if (what->to_ms <= what->from_ms)
        return prn_fail(err, PRONY_EUSAGE, "a reservation must end after it begins");
    if (what->to_ms <= now_ms)
        return prn_fail(err, PRONY_EUSAGE, "the reservation would be over already");
    if (what->to_ms - now_ms > AHEAD_MAX_MS)
        return prn_fail(err, PRONY_EUSAGE, "a reservation ends within a year");
    if (what->hosts > HOSTS_MAX)
        return prn_fail(err, PRONY_EUSAGE, "more than %d hosts", HOSTS_MAX);
    return 0;
}

/* A hardware, or the name of a host, or a worker's id if it is the only one there. */
static int resolve_locked(struct prn_service *s, const char *target, struct prn_booking *what,
                          char host_name[256], struct prony_error *err) PRN_HOLDS(prn_service)
{
    struct prn_queue_hardware counts;
    const char *name = NULL;
    char id[PRN_HOST_ID_SIZE];
    bool by_id = false;
    size_t n = 0;
    if (prn_queue_find_hardware(s->queue, target, &counts) || prn_config_pool(&s->config, target)) {
        what->target = target;
        return 0;
    }
    for (const struct prn_host *h = s->hosts; h && !name; h = h->next)
        if (h->place && h->hello->host) {
            by_id = strcmp(prn_host_id(h, id), target) == 0;
            name = by_id || strcmp(h->hello->host, target) == 0 ? h->hello->host : NULL;
        }
    if (!name)
        return prn_fail(err, PRONY_ENOENT, "there is no pool or worker '%.100s'", target);
    for (const struct prn_host *h = s->hosts; h; h = h->next)
        n += h->place && h->hello->host && strcmp(h->hello->host, name) == 0;
    if (by_id && n > 1)
        return prn_fail(err, PRONY_EUSAGE,
                        "host '%.100s' has %zu workers: name the host, or the pool", name, n);
    snprintf(host_name, 256, "%s", name);
    what->target = host_name;
    what->is_host = true;
    return 0;
}

int prn_booking_make(struct prn_service *s, const struct prn_admin_order *order,
                     struct prn_buffer *done, struct prony_error *err)
{
    char host_name[256];
    char from[32];
    char to[32];
    size_t n = 0;
    struct prn_booking what = {.user = order->user,
                               .hosts = order->hosts ? order->hosts : 1,
                               .from_ms = order->from_ms,
                               .to_ms = order->to_ms};
    int code = check_order(order, err);
    if (code < 0)
        return code;
    prn_service_lock(s);
    for (const struct prn_reserved *r = s->reserved; r; r = r->next)
        n++;
    code = n >= BOOKINGS_MAX
               ? prn_fail(err, PRONY_ELIMIT, "there are %zu reservations, the limit", n)
               : resolve_locked(s, order->target, &what, host_name, err);
    prn_service_unlock(s);
    if (code == 0)
        code = prn_accounts_book(s->accounts, &what, &what.id, err);
    struct prn_reserved *r = code == 0 ? copy_booking(&what) : NULL;
    if (!r)
        return code < 0 ? code : prn_fail_memory(err);
    prn_service_lock(s);
    add_locked(s, r);
    prn_service_look_by_locked(s, prn_bookings_tick_locked(s, prn_monotonic_ns()));
    prn_service_unlock(s);
    prn_buffer_printf(done, "reservation %lld: ", (long long)what.id);
    if (what.is_host)
        prn_buffer_printf(done, "host %s", what.target);
    else
        prn_buffer_printf(done, "%llu host%s of %s", (unsigned long long)what.hosts,
                          what.hosts == 1 ? "" : "s", what.target);
    prn_buffer_printf(done, " for %s, %s to %s UTC", what.user, clock_text(what.from_ms, from),
                      clock_text(what.to_ms, to));
    return 0;
}

int prn_booking_cancel(struct prn_service *s, const struct prn_admin_order *order,
                       struct prn_buffer *done, struct prony_error *err)
{
    char *end = NULL;
    long long id = strtoll(order->target, &end, 10);
    bool found = false;
    prn_service_lock(s);
    for (const struct prn_reserved *r = s->reserved; r && *end == 0; r = r->next)
        found = found || r->what.id == id;
    prn_service_unlock(s);
    if (!found)
        return prn_fail(err, PRONY_ENOENT, "there is no reservation '%.40s'", order->target);
    int code = prn_accounts_cancel(s->accounts, id, err);
    if (code < 0)
        return code;
    prn_service_lock(s);
    for (struct prn_reserved *r = s->reserved; r; r = r->next)
        if (r->what.id == id)
            r->what.to_ms = 0;
    prn_bookings_tick_locked(s, prn_monotonic_ns());
    prn_service_unlock(s);
    prn_buffer_printf(done, "cancelled reservation %lld", id);
    return 0;
}
