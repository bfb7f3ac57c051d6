/* What an administrator orders: each action is a row of a table. */
#include "service/host/host.h"

#include "base/clock.h"
#include "service/audit.h"

#include <stdio.h>
#include <string.h>

struct order {
    struct prn_service *service;
    const struct prn_admin_order *what;
    struct prn_buffer *done;
};

/* ---- Sessions ---- */

static int close_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    struct prn_session *session = prn_session_find_label_locked(o->service, o->what->target);
    if (!session)
        return prn_fail(err, PRONY_ENOENT, "there is no session '%s'", o->what->target);
    prn_buffer_printf(o->done, "closed session %s of %s", session->label, session->owner.user);
    prn_session_close_locked(session, "closed by an administrator");
    return 0;
}

/* ---- Hosts ---- */

static bool is_meant_locked(const struct prn_host *host, const char *target) PRN_HOLDS(prn_service)
{
    char id[PRN_HOST_ID_SIZE];
    return host->place && (strcmp(prn_host_id(host, id), target) == 0 ||
                           (host->hello->host && strcmp(host->hello->host, target) == 0));
}

/* Called with the lock held, which the compiler can't check through a pointer. */
typedef int host_action(struct prn_host *host, struct prony_error *err);

static int drain_host(struct prn_host *host, struct prony_error *err) PRN_HOLDS(prn_service)
{
    char id[PRN_HOST_ID_SIZE];
    if (host->local)
        return prn_fail(err, PRONY_EUSAGE,
                        "worker %s is the service's own, which would be started again: disable it, "
                        "or lower 'count' of pool '%s'",
                        prn_host_id(host, id), host->hello->hardware);
    prn_host_leave_locked(host);
    return 0;
}

static int disable_host(struct prn_host *host, struct prony_error *err) PRN_HOLDS(prn_service)
{
    (void)err;
    prn_queue_disable_host(host->service->queue, host->place, true, prn_monotonic_ns());
    return 0;
}

static int enable_host(struct prn_host *host, struct prony_error *err) PRN_HOLDS(prn_service)
{
    char id[PRN_HOST_ID_SIZE];
    if (prn_queue_host_draining(host->place))
        return prn_fail(err, PRONY_EUSAGE, "worker %s is leaving; start it again instead",
                        prn_host_id(host, id));
    prn_queue_disable_host(host->service->queue, host->place, false, prn_monotonic_ns());
    return 0;
}

/* Every worker that is meant: a name may be that of several. */
static int each_host_locked(struct order *o, host_action *act, const char *did,
                            struct prony_error *err) PRN_HOLDS(prn_service)
{
    char id[PRN_HOST_ID_SIZE];
    size_t n = 0;
    int code = 0;
    for (struct prn_host *host = o->service->hosts; code == 0 && host; host = host->next) {
        if (!is_meant_locked(host, o->what->target))
            continue;
        code = act(host, err);
        prn_buffer_printf(o->done, "%s%s", n++ == 0 ? did : ", ", prn_host_id(host, id));
    }
    if (code == 0 && n == 0)
        code = prn_fail(err, PRONY_ENOENT, "there is no worker '%s'", o->what->target);
    return code;
}

static int drain_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    return each_host_locked(o, drain_host, "draining ", err);
}

static int disable_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    return each_host_locked(o, disable_host, "disabled ", err);
}

static int enable_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    return each_host_locked(o, enable_host, "enabled ", err);
}

/* ---- Pools ---- */

static int set_paused_locked(struct order *o, bool paused, struct prony_error *err)
    PRN_HOLDS(prn_service)
{
    if (!prn_queue_pause(o->service->queue, o->what->target, paused, prn_monotonic_ns()))
        return prn_fail(err, PRONY_ENOENT, "there is no pool '%s'", o->what->target);
    prn_buffer_printf(o->done, "%s pool %s", paused ? "paused" : "resumed", o->what->target);
    return 0;
}

static int pause_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    return set_paused_locked(o, true, err);
}

static int resume_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    return set_paused_locked(o, false, err);
}

/* ---- The notice ---- */

static int notice_locked(struct order *o, struct prony_error *err) PRN_HOLDS(prn_service)
{
    struct prn_service *s = o->service;
    const char *text = o->what->text ? o->what->text : "";
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            return prn_fail(err, PRONY_EUSAGE, "a notice is one line of text");
    if (strlen(text) >= sizeof s->notice)
        return prn_fail(err, PRONY_EUSAGE, "the notice has %zu bytes, more than %zu", strlen(text),
                        sizeof s->notice - 1);
    snprintf(s->notice, sizeof s->notice, "%s", text);
    prn_buffer_add(o->done, text[0] ? "clients are shown the notice" : "there is no notice");
    return 0;
}

/* ---- All of them ---- */

static int do_locked(struct order *o, int (*act)(struct order *o, struct prony_error *err),
                     struct prony_error *err)
{
    prn_service_lock(o->service);
    int code = act(o, err);
    prn_sessions_settle_locked(o->service);
    prn_service_unlock(o->service);
    return code;
}

static int reserve(struct order *o, struct prony_error *err)
{
    return prn_booking_make(o->service, o->what, o->done, err);
}

static int cancel(struct order *o, struct prony_error *err)
{
    return prn_booking_cancel(o->service, o->what, o->done, err);
}

static const struct {
    const char *name;
    bool target;                                          /* needs one */
    int (*act)(struct order *o, struct prony_error *err); /* with the lock held, unless `alone` */
    bool alone;
} actions[] = {
    {"close", true, close_locked, false},     {"drain", true, drain_locked, false},
    {"disable", true, disable_locked, false}, {"enable", true, enable_locked, false},
    {"pause", true, pause_locked, false},     {"resume", true, resume_locked, false},
    {"notice", false, notice_locked, false},  {"reserve", true, reserve, true},
    {"cancel", true, cancel, true},
};

int prn_admin_do(struct prn_service *s, const struct prn_identity *who, const char *from,
                 const struct prn_admin_order *what, struct prn_buffer *done,
                 struct prony_error *err)
{
    struct order order = {.service = s, .what = what, .done = done};
    size_t i = 0;
    if (who->role != PRN_ROLE_ADMIN)
        return prn_fail(err, PRONY_EDENIED, "this needs an administrator's token");
    while (i < PRN_ARRAY_SIZE(actions) && strcmp(actions[i].name, what->action) != 0)
        i++;
    if (i == PRN_ARRAY_SIZE(actions))
        return prn_fail(err, PRONY_EUSAGE, "'%s' is not an action", what->action);
    if (actions[i].target && (!what->target || !what->target[0]))
        return prn_fail(err, PRONY_EUSAGE, "'%s' needs a target", what->action);
    int code =
        actions[i].alone ? actions[i].act(&order, err) : do_locked(&order, actions[i].act, err);
    const struct prn_log_field fields[] = {PRN_LOG_TEXT("user", who->user),
                                           PRN_LOG_TEXT("from", from),
                                           PRN_LOG_TEXT("action", what->action),
                                           PRN_LOG_TEXT("target", what->target),
                                           PRN_LOG_TEXT("text", what->text),
                                           PRN_LOG_TEXT("for", what->user),
                                           PRN_LOG_TEXT("error", code < 0 ? err->text : NULL)};
    prn_audit_write(s->audit, "admin", fields, PRN_ARRAY_SIZE(fields));
    if (code == 0)
        prn_log_write(s->log, PRN_LOG_INFO, "admin", fields, PRN_ARRAY_SIZE(fields));
    return code;
}

void prn_admin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    struct prony_error err;
    struct prn_buffer done = PRN_BUFFER_INIT((size_t)64 << 10);
    Prony__AdminReply reply = PRONY__ADMIN_REPLY__INIT;
    Prony__AdminRequest *q =
        prn_request(call, message, &prony__admin_request__descriptor, &identity);
    if (!q)
        return;
    const struct prn_admin_order order = {.action = q->action,
                                          .target = q->target,
                                          .text = q->text,
                                          .user = q->user,
                                          .from_ms = q->from_ms,
                                          .to_ms = q->to_ms,
                                          .hosts = q->hosts};
    int code = prn_admin_do(s, &identity, prn_rpc_call_peer(call), &order, &done, &err);
    reply.done = (char *)(uintptr_t)prn_buffer_text(&done);
    if (code < 0)
        prn_refuse(call, prn_status_of(code), "%s", err.text);
    else
        prn_reply(call, &reply.base);
    prn_buffer_release(&done);
    protobuf_c_message_free_unpacked(&q->base, NULL);
}
