/*
 * The service's page, and what it asks for under /api/: how the service is, what it did, signing in
 * and out, closing one's own session, and what administrators order. Metrics and health stand
 * beside them, for everybody.
 *
 * Who asks is known by a cookie, which signing in with a token gave, or because the connection is
 * this user's own (access.c). A cookie is sent by browsers whoever wrote the page that makes them
 * ask, so what changes something must come from our own page: it has JSON, which other pages can't
 * send here without asking first, and its origin is this host.
 */
#include "service/web/dashboard.h"

#include "base/clock.h"
#include "format/json.h"
#include "report/comparison/report.h"
#include "report/page.h"
#include "report/profile/json.h"
#include "report/web.h"
#include "service/audit.h"
#include "service/config/address.h"
#include "service/session/session.h"
#include "service/store/history.h"
#include "service/web/metrics.h"
#include "service/web/signins.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COOKIE "prony_session"
#define JSON "application/json"
#define TEXT "text/plain; charset=utf-8"
#define POLICY "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#define NO_TLS                                                                                   \
    "this address is reached from other machines and has no TLS, so only /metrics and /healthz " \
    "are served here"

/* ---- Answers ---- */

static unsigned fail(struct prn_http_request *request, struct prn_buffer *out, unsigned status,
                     const char *text)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_buffer_clear(out);
    prn_http_set_media(request, JSON);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "error", text);
    prn_json_end(&w);
    return status;
}

/* ---- Who asks ---- */

struct viewer {
    struct prn_identity identity;
    const char *signed_in_by;
};

/* 0, or the status of the answer that says why not. */
static unsigned check_viewer(struct prn_http_request *request, struct prn_service *s,
                             struct prn_buffer *out, struct viewer *ret_viewer)
{
    char peer[PRN_HTTP_PEER_SIZE];
    uint8_t token[PRN_TOKEN_HASH_BYTES];
    struct prony_error err;
    if (prn_signins_find(s->signins, prn_http_cookie(request, COOKIE), prn_monotonic_ns(), token)) {
        int code = prn_tokens_check_hash(s->tokens, token, &ret_viewer->identity, &err);
        ret_viewer->signed_in_by = "token";
        if (code == 0 && ret_viewer->identity.role != PRN_ROLE_WORKER)
            return 0;
        if (code < 0 && code != PRONY_EDENIED)
            return fail(request, out, 503, "cannot check sign-ins at the moment");
    }
    const int port = prn_http_peer(request, peer);
    ret_viewer->signed_in_by = "loopback";
    if (prn_access_own(s, peer, &port, 1, &ret_viewer->identity))
        return 0;
    return fail(request, out, 401, "not signed in");
}

/* ---- Where it comes from ---- */

/* Newer browsers say whether it was this host's page that asked. */
static bool is_from_elsewhere(const struct prn_http_request *request)
{
    const char *site = prn_http_header(request, "Sec-Fetch-Site");
    return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static bool is_of_this_origin(const struct prn_http_request *request)
{
    const char *origin = prn_http_header(request, "Origin");
    const char *host = prn_http_header(request, "Host");
    const char *authority = origin ? strstr(origin, "://") : NULL;
    return !origin || (host && authority && strcasecmp(authority + 3, host) == 0);
}

static bool is_json(const struct prn_http_request *request)
{
    const char *media = prn_http_header(request, "Content-Type");
    size_t length = strlen(JSON);
    return media && strncasecmp(media, JSON, length) == 0 &&
           (media[length] == '\0' || media[length] == ';' || media[length] == ' ');
}

/* 0, or the status of the answer that says why not; likewise below. */
static unsigned check_get(struct prn_http_request *request, struct prn_buffer *out)
{
    if (is_from_elsewhere(request))
        return fail(request, out, 403, "the request comes from another site");
    return 0;
}

static unsigned check_post(struct prn_http_request *request, struct prn_buffer *out)
{
    if (is_from_elsewhere(request) || !is_of_this_origin(request))
        return fail(request, out, 403, "the request comes from another site");
    if (!is_json(request))
        return fail(request, out, 415, "the body must be " JSON);
    return 0;
}

/* The text that the body's object has under `key`; the caller lets go of `ret_body`. */
static unsigned read_body(struct prn_http_request *request, struct prn_buffer *out, const char *key,
                          json_t **ret_body, const char **ret_text)
{
    size_t length;
    const char *text = prn_http_body(request, &length);
    json_t *body = NULL;
    struct prony_error err; /* not told: it may quote the body */
    if (prn_json_parse(text, length, "", &body, &err) < 0)
        return fail(request, out, 400, "the body is not valid JSON");
    const char *value = json_string_value(json_object_get(body, key));
    if (!value) {
        json_decref(body);
        return fail(request, out, 400, "the body lacks a text that it needs");
    }
    *ret_body = body;
    *ret_text = value;
    return 0;
}

/* ---- Signing in and out ---- */

/* A peer without its port. */
static void place_of(const struct prn_http_request *request, char ret_place[PRN_HTTP_PEER_SIZE])
{
    prn_http_peer(request, ret_place);
    char *port = strrchr(ret_place, ':');
    if (port)
        *port = '\0';
}

static void set_cookie(struct prn_http_request *request, const struct prn_service *s,
                       const char *secret, int age_s)
{
    char value[PRN_HTTP_VALUE_SIZE];
    snprintf(value, sizeof value, COOKIE "=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%d%s",
             secret, age_s, s->tls ? "; Secure" : "");
    prn_http_set_header(request, "Set-Cookie", value);
}

static unsigned try_token(struct prn_http_request *request, struct prn_service *s,
                          const char *token, const char *place, struct prn_buffer *out)
{
    struct prn_identity identity;
    struct prony_error err;
    uint8_t hash[PRN_TOKEN_HASH_BYTES];
    char secret[PRN_SIGNIN_SIZE];
    int64_t now_ns = prn_monotonic_ns();
    if (!prn_signins_may_try(s->signins, place, now_ns)) {
        prn_http_set_header(request, "Retry-After", "1");
        return fail(request, out, 429, "too many wrong tokens; wait a moment");
    }
    int code = prn_tokens_check(s->tokens, token, &identity, &err);
    if (code == 0 && identity.role == PRN_ROLE_WORKER)
        return fail(request, out, 401, "the token is a worker's, not a user's");
    if (code == PRONY_EDENIED) {
        prn_signins_was_wrong(s->signins, place, now_ns);
        prn_meter_add(prn_metric_meter(s->counted.refused, "token", NULL), 1);
        PRN_LOG(s->log, PRN_LOG_WARNING, "page.refused", PRN_LOG_TEXT("from", place));
        PRN_AUDIT(s->audit, "refused", PRN_LOG_TEXT("from", place),
                  PRN_LOG_TEXT("method", "/api/sign-in"), PRN_LOG_TEXT("code", "UNAUTHENTICATED"));
        return fail(request, out, 401, "the token isn't valid here");
    }
    if (code < 0)
        return fail(request, out, 503, "cannot check tokens at the moment");
    if (!prn_token_hash(token, hash) || prn_signins_add(s->signins, hash, now_ns, secret, &err) < 0)
        return fail(request, out, 503, "the service is out of memory");
    PRN_LOG(s->log, PRN_LOG_INFO, "page.sign-in", PRN_LOG_TEXT("user", identity.user),
            PRN_LOG_TEXT("from", place));
    PRN_AUDIT(s->audit, "sign-in", PRN_LOG_TEXT("user", identity.user),
              PRN_LOG_TEXT("from", place));
    set_cookie(request, s, secret, PRN_SIGNIN_S);
    explicit_bzero(secret, sizeof secret);
    return 204;
}

static unsigned sign_in(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    struct prn_service *s = context;
    char place[PRN_HTTP_PEER_SIZE];
    json_t *body;
    const char *token;
    unsigned status = check_post(request, out);
    if (status == 0)
        status = read_body(request, out, "token", &body, &token);
    if (status != 0)
        return status;
    place_of(request, place);
    status = try_token(request, s, token, place, out);
    json_decref(body);
    return status;
}

static unsigned sign_out(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    struct prn_service *s = context;
    unsigned status = check_post(request, out);
    if (status != 0)
        return status;
    prn_signins_remove(s->signins, prn_http_cookie(request, COOKIE));
    set_cookie(request, s, "", 0);
    return 204;
}

/* ---- How it is ---- */

static unsigned show_status(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    struct prn_service *s = context;
    struct viewer viewer;
    struct prony_error err;
    unsigned status = check_get(request, out);
    if (status == 0)
        status = check_viewer(request, s, out, &viewer);
    if (status != 0)
        return status;
    if (prn_status_write(s, &viewer.identity, viewer.signed_in_by, out, &err) < 0)
        return fail(request, out, 503, "the service is out of memory");
    return 200;
}

/* ---- What it did ---- */

#define LIST_DEFAULT 50
#define LIST_MAX 200

/* A list of the history, as it is written; one row more than asked for tells that there are more.
 */
struct list {
    struct prn_json_writer w;
    const char *user; /* who looks */
    size_t left;
    bool more;
};

/* A parameter that is a number from 1 on; false: it is something else. */
static bool read_number(const struct prn_http_request *request, const char *name, int64_t most,
                        int64_t *value)
{
    const char *text = prn_http_parameter(request, name);
    if (!text)
        return true;
    size_t length = strlen(text);
    if (length == 0 || length > 18 || strspn(text, "0123456789") != length)
        return false;
    int64_t number = strtoll(text, NULL, 10);
    *value = number < most ? number : most;
    return number > 0;
}

static bool begin_row(struct list *list, int64_t id, const char *user)
{
    list->more = list->left == 0;
    if (list->more)
        return false;
    list->left--;
    prn_json_object(&list->w, NULL);
    prn_json_integer(&list->w, "id", id);
    prn_json_text(&list->w, "user", user);
    prn_json_bool(&list->w, "yours", strcmp(user, list->user) == 0);
    return true;
}

static int write_session(const struct prn_history_session *session, void *context)
{
    struct list *list = context;
    struct prn_json_writer *w = &list->w;
    if (!begin_row(list, session->id, session->user))
        return 0;
    prn_json_text(w, "backends", session->backends);
    prn_json_integer(w, "created_ms", session->created_ms);
    if (session->ready_ms > 0)
        prn_json_integer(w, "ready_ms", session->ready_ms);
    else
        prn_json_null(w, "ready_ms");
    prn_json_integer(w, "ended_ms", session->ended_ms);
    prn_json_integer(w, "models", (int64_t)session->models);
    prn_json_integer(w, "runs", (int64_t)session->runs);
    prn_json_text(w, "outcome", session->outcome);
    prn_json_end(w);
    return 0;
}

static int write_measurement(const struct prn_history_measurement *m, void *context)
{
    struct list *list = context;
    struct prn_json_writer *w = &list->w;
    if (!begin_row(list, m->id, m->user))
        return 0;
    prn_json_text(w, "model", m->model);
    prn_json_text(w, "backends", m->backends);
    prn_json_integer(w, "created_ms", m->created_ms);
    prn_json_integer(w, "duration_ms", m->duration_ms);
    prn_json_integer(w, "report_bytes", (int64_t)m->report_bytes);
    prn_json_raw(w, "summary", m->summary[0] ? m->summary : "null");
    prn_json_end(w);
    return 0;
}

/* Users see what is theirs, administrators everything. */
static const char *whose(const struct viewer *viewer)
{
    return viewer->identity.role == PRN_ROLE_ADMIN ? NULL : viewer->identity.user;
}

static unsigned show_list(struct prn_http_request *request, struct prn_service *s, bool sessions,
                          struct prn_buffer *out)
{
    struct viewer viewer;
    struct prony_error err;
    int64_t before = 0;
    int64_t limit = LIST_DEFAULT;
    unsigned status = check_get(request, out);
    if (status == 0)
        status = check_viewer(request, s, out, &viewer);
    if (status == 0 && (!read_number(request, "before", INT64_MAX, &before) ||
                        !read_number(request, "limit", LIST_MAX, &limit)))
        status = fail(request, out, 400, "before and limit are numbers from 1 on");
    if (status != 0)
        return status;
    const struct prn_history_query query = {
        .user = whose(&viewer), .before_id = before, .limit = (size_t)limit + 1};
    struct list list = {
        .w = prn_json_writer_init(out), .user = viewer.identity.user, .left = (size_t)limit};
    prn_json_object(&list.w, NULL);
    prn_json_array(&list.w, sessions ? "sessions" : "measurements");
    int code = sessions
                   ? prn_history_sessions(s->history, &query, write_session, &list, &err)
                   : prn_history_measurements(s->history, &query, write_measurement, &list, &err);
    prn_json_end(&list.w);
    prn_json_bool(&list.w, "more", list.more);
    prn_json_end(&list.w);
    if (code < 0 || prn_buffer_error(out, &err) < 0)
        return fail(request, out, 503, "cannot read the history at the moment");
    return 200;
}

static unsigned show_sessions(struct prn_http_request *request, void *context,
                              struct prn_buffer *out)
{
    return show_list(request, context, true, out);
}

static unsigned show_measurements(struct prn_http_request *request, void *context,
                                  struct prn_buffer *out)
{
    return show_list(request, context, false, out);
}

/* ---- Reports ---- */

/* `parameter` says which. */
static unsigned read_report(struct prn_http_request *request, struct prn_service *s,
                            const struct viewer *viewer, const char *parameter, int64_t *ret_id,
                            struct prn_buffer *report, struct prn_buffer *out)
{
    struct prony_error err;
    int64_t id = 0;
    if (!read_number(request, parameter, INT64_MAX, &id) || id == 0)
        return fail(request, out, 400, "id is the number of a measurement");
    *ret_id = id;
    int code = prn_history_report(s->history, id, whose(viewer), report, &err);
    if (code == PRONY_ENOENT)
        return fail(request, out, 404, "there is no such measurement");
    return code < 0 ? fail(request, out, 503, "cannot read the history at the moment") : 0;
}

static unsigned show_report(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    struct viewer viewer;
    int64_t id;
    unsigned status = check_get(request, out);
    if (status == 0)
        status = check_viewer(request, context, out, &viewer);
    if (status == 0)
        status = read_report(request, context, &viewer, "id", &id, out, out);
    return status == 0 ? 200 : status;
}

/* It is opened like any page, so what is wrong is for a person to read. */
static unsigned fail_plainly(struct prn_http_request *request, struct prn_buffer *out,
                             unsigned status, const char *text)
{
    prn_buffer_clear(out);
    prn_http_set_media(request, TEXT);
    prn_buffer_printf(out, "%s\n", text);
    return status;
}

static const char *plain_text(unsigned status)
{
    switch (status) {
    case 400:
        return "id is the number of a measurement";
    case 401:
        return "not signed in: open this from the service's own page";
    case 404:
        return "there is no such measurement";
    default:
        return "cannot read the history at the moment";
    }
}

static unsigned make_page(struct prn_http_request *request, const struct prn_buffer *report,
                          struct prn_buffer *out)
{
    struct prn_page page = PRN_PAGE_INIT;
    struct prony_error err;
    int code = prn_page_add_json(&page, "", prn_buffer_text(report), report->len, NULL, &err);
    if (code == 0)
        code = prn_page_write(&page, out, &err);
    prn_page_release(&page);
    malloc_trim(0); /* a large report took hundreds of megabytes, and the next may be tomorrow */
    if (code < 0)
        return fail_plainly(request, out, 500, "this report has no page");
    prn_http_set_policy(request, prn_page_policy());
    return 200;
}

/* The page of one measurement against an earlier one, as 'prony report BEFORE AFTER' makes it. */
static unsigned make_comparison(struct prn_http_request *request, int64_t before_id, int64_t id,
                                const struct prn_buffer *before, const struct prn_buffer *after,
                                struct prn_buffer *out)
{
    const struct prn_compare_options options = {.fail_over = NAN};
    const struct prn_look look = {0};
    const struct prn_buffer *reports[2] = {before, after};
    struct prn_comparison *comparison = NULL;
    struct prn_profile *profiles[2] = {NULL, NULL};
    struct prn_comparison_side sides[2];
    char names[2][64];
    struct prony_error err;
    int code = 0;
    snprintf(names[0], sizeof names[0], "measurement %lld", (long long)before_id);
    snprintf(names[1], sizeof names[1], "measurement %lld", (long long)id);
    for (size_t i = 0; i < 2 && code == 0; i++) {
        code = prn_profile_parse_json(prn_buffer_text(reports[i]), reports[i]->len, names[i],
                                      &profiles[i], &err);
        sides[i] = (struct prn_comparison_side){names[i], profiles[i]};
    }
    if (code == 0)
        code = prn_compare(&sides[0], &sides[1], 1, &options, &comparison, &err);
    if (code == 0)
        code = prn_comparison_report(comparison, PRN_REPORT_FORMAT_HTML, &look, out, &err);
    prn_comparison_free(comparison);
    for (size_t i = 0; i < 2; i++)
        prn_profile_free(profiles[i]);
    malloc_trim(0);
    if (code < 0)
        return fail_plainly(request, out, 422, "these two measurements can't be compared");
    prn_http_set_policy(request, prn_page_policy());
    return 200;
}

static unsigned show_report_page(struct prn_http_request *request, void *context,
                                 struct prn_buffer *out)
{
    struct prn_service *s = context;
    struct prn_buffer report = PRN_BUFFER_INIT(PRN_HTTP_PAGE_MAX);
    struct prn_buffer before = PRN_BUFFER_INIT(PRN_HTTP_PAGE_MAX);
    struct prony_error err;
    struct viewer viewer;
    int64_t id;
    int64_t before_id;
    unsigned status = check_viewer(request, s, out, &viewer);
    if (status == 0 && prn_page_check(&err) < 0)
        return fail_plainly(request, out, 503, err.text);
    if (status == 0)
        status = read_report(request, s, &viewer, "id", &id, &report, out);
    bool two = prn_http_parameter(request, "before") != NULL;
    if (status == 0 && two)
        status = read_report(request, s, &viewer, "before", &before_id, &before, out);
    if (status != 0)
        status = fail_plainly(request, out, status, plain_text(status));
    else if (two)
        status = make_comparison(request, before_id, id, &before, &report, out);
    else
        status = make_page(request, &report, out);
    prn_buffer_release(&before);
    prn_buffer_release(&report);
    return status;
}

/* ---- Closing a session ---- */

static unsigned close_session(struct prn_http_request *request, void *context,
                              struct prn_buffer *out)
{
    struct prn_service *s = context;
    struct viewer viewer;
    json_t *body;
    const char *label;
    unsigned status = check_post(request, out);
    if (status == 0)
        status = check_viewer(request, s, out, &viewer);
    if (status == 0)
        status = read_body(request, out, "session", &body, &label);
    if (status != 0)
        return status;
    int code = prn_session_close_own(s, &viewer.identity, label);
    json_decref(body);
    if (code == PRONY_EDENIED)
        return fail(request, out, 403, "the session belongs to another user");
    return code < 0 ? fail(request, out, 404, "there is no such session") : 204;
}

/* ---- What an administrator orders ---- */

static unsigned administer(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    struct prn_service *s = context;
    struct viewer viewer;
    struct prony_error err;
    struct prn_buffer done = PRN_BUFFER_INIT((size_t)64 << 10);
    json_t *body;
    const char *action;
    unsigned status = check_post(request, out);
    if (status == 0)
        status = check_viewer(request, s, out, &viewer);
    if (status == 0)
        status = read_body(request, out, "action", &body, &action);
    if (status != 0)
        return status;
    const struct prn_admin_order order = {.action = action,
                                          .target =
                                              json_string_value(json_object_get(body, "target")),
                                          .text = json_string_value(json_object_get(body, "text"))};
    char place[PRN_HTTP_PEER_SIZE];
    prn_http_peer(request, place);
    int code = prn_admin_do(s, &viewer.identity, place, &order, &done, &err);
    json_decref(body);
    prn_buffer_release(&done);
    if (code == 0)
        return 204;
    return fail(request, out,
                code == PRONY_EDENIED  ? 403
                : code == PRONY_ENOENT ? 404
                                       : 400,
                err.text);
}

/* ---- The page ---- */

static unsigned show_page(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    (void)context;
    if (!prn_web.dashboard) {
        prn_http_set_media(request, TEXT);
        prn_buffer_printf(out, "there is no page: %s\n",
                          prn_web.missing ? prn_web.missing : "this prony was built without it");
        return 503;
    }
    prn_http_set_policy(request, prn_web.dashboard_policy);
    prn_buffer_append(out, prn_web.dashboard, prn_web.dashboard_bytes);
    return 200;
}

/* ---- For those who watch ---- */

static unsigned show_metrics(struct prn_http_request *request, void *context,
                             struct prn_buffer *out)
{
    (void)request;
    struct prn_service *s = context;
    prn_metrics_write(s->metrics, out);
    return 200;
}

static unsigned show_health(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    (void)request;
    struct prn_service *s = context;
    prn_service_lock(s);
    bool draining = s->draining;
    prn_service_unlock(s);
    prn_buffer_add(out, draining ? "draining\n" : "ok\n");
    return draining ? 503 : 200;
}

/* ---- The server ---- */

static const struct prn_http_route routes[] = {
    {.path = "/metrics",
     .media = "text/plain; version=0.0.4; charset=utf-8",
     .page = show_metrics,
     .open = true},
    {.path = "/healthz", .media = TEXT, .page = show_health, .open = true},
    {.path = "/", .media = "text/html; charset=utf-8", .page = show_page},
    {.path = "/api/status", .media = JSON, .page = show_status},
    {.path = "/api/sessions", .media = JSON, .page = show_sessions, .lane = PRN_HTTP_DISK},
    {.path = "/api/measurements", .media = JSON, .page = show_measurements, .lane = PRN_HTTP_DISK},
    {.path = "/api/report", .media = JSON, .page = show_report, .lane = PRN_HTTP_LONG},
    {.path = "/report",
     .media = "text/html; charset=utf-8",
     .page = show_report_page,
     .lane = PRN_HTTP_LONG},
    {.path = "/api/close", .media = JSON, .page = close_session, .post = true},
    {.path = "/api/admin", .media = JSON, .page = administer, .post = true},
    {.path = "/api/sign-in", .media = JSON, .page = sign_in, .post = true},
    {.path = "/api/sign-out", .media = JSON, .page = sign_out, .post = true},
    {0},
};

/* With the port that it got. */
static void say_where(struct prn_service *s, bool tls, const char *refusal) PRN_ALONE
{
    const char *text = s->config.http;
    char url[sizeof s->page];
    snprintf(url, sizeof url, "http%s://%.*s:%d/", tls ? "s" : "", (int)(strrchr(text, ':') - text),
             text, prn_http_port(s->http));
    PRN_LOG(s->log, refusal ? PRN_LOG_WARNING : PRN_LOG_INFO, "http", PRN_LOG_TEXT("address", url),
            PRN_LOG_TEXT("note", refusal));
    if (!refusal && prn_web.dashboard)
        memcpy(s->page, url, sizeof url);
}

int prn_dashboard_start(struct prn_service *s, const struct prn_http_tls *tls,
                        struct prony_error *err)
{
    struct prn_address address = {0};
    const char *text = s->config.http;
    if (!text)
        return 0;
    (void)prn_address_parse(text, &address); /* the configuration's reader did */
    const char *refusal = address.local || tls ? NULL : NO_TLS;
    const struct prn_http_config config = {.address = text,
                                           .routes = routes,
                                           .context = s,
                                           .policy = POLICY,
                                           .loopback_only = address.local,
                                           .refusal = refusal,
                                           .tls = tls};
    int code = prn_signins_new(&s->signins, err);
    if (code == 0)
        code = prn_http_start(&config, &s->http, err);
    if (code == 0)
        say_where(s, tls, refusal);
    return code;
}

void prn_dashboard_stop(struct prn_service *s)
{
    prn_http_stop(s->http);
    prn_signins_free(s->signins);
    s->http = NULL;
    s->signins = NULL;
}
