/* Sessions: from CreateSession, through the queue, to the end. */
#include "service/host/host.h"

#include "base/clock.h"
#include "base/text.h"
#include "instance/names.h"
#include "service/audit.h"
#include "service/pool.h"
#include "service/slurm/slurm.h"
#include "service/store/history.h"
#include "service/web/metrics.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)16 << 20)
#define LEASE_MIN_S 1.0
/* After how long a call is answered at most; the client of CloseSession allows 1 s. */
static const int64_t patience_ns[PRN_ASK_KINDS] = {
    [PRN_ASK_READY] = (int64_t)5 * 1000000000,
    [PRN_ASK_CLOSE] = (int64_t)300 * 1000000,
};
#define HOLDERS_MAX 8

/* ---- The table ---- */

static struct prn_session **bucket_of(struct prn_service *s, const uint8_t *id)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < PRN_SESSION_ID_BYTES; i++)
        hash = (hash ^ id[i]) * 16777619u;
    return &s->buckets[hash % PRN_SESSION_BUCKETS];
}

static struct prn_session *lookup_locked(struct prn_service *s, const uint8_t *id)
    PRN_HOLDS(prn_service)
{
    struct prn_session *session = *bucket_of(s, id);
    while (session && memcmp(session->id, id, PRN_SESSION_ID_BYTES) != 0)
        session = session->next;
    return session;
}

static void forget_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    struct prn_session **at = bucket_of(session->service, session->id);
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    session->service->n_sessions--;
}

struct prn_session *prn_session_ref_locked(struct prn_session *session)
{
    session->references++;
    return session;
}

static void free_session(struct prn_session *session) PRN_ALONE
{
    prn_models_free(session);
    while (session->reloads) {
        struct prn_reload *reload = session->reloads;
        session->reloads = reload->next;
        octoml_profile__load_model_request__free_unpacked(reload->request, NULL);
        free(reload);
    }
    for (size_t i = 0; i < session->n_held; i++)
        free(session->held[i].instances);
    if (session->folder_fd >= 0)
        close(session->folder_fd);
    prn_arena_release(&session->arena);
    free(session);
}

/* The end of a session takes the disk's time: its row in the history, and its folder. */
struct farewell {
    struct prn_pool_job job;
    struct prn_job_line line;
    struct prn_service *service;
    struct prn_identity owner;
    struct prn_buffer backends;
    struct prn_history_session ended;
    bool has_folder, kept;
    char name[2 * PRN_SESSION_ID_BYTES + 1];
    char outcome[PRONY_ERROR_TEXT_SIZE];
};

static void run_farewell(struct prn_pool_job *job)
{
    struct farewell *f = (struct farewell *)job;
    struct prn_service *s = f->service;
    struct prony_error err;
    if (!f->kept && prn_history_add_session(s->history, &f->ended, &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "history", PRN_LOG_TEXT("error", err.text));
    if (f->has_folder && prn_folder_remove(s->sessions_fd, f->name, &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "session.folder", PRN_LOG_TEXT("error", err.text));
}

static void farewell_over(struct prn_pool_job *job)
{
    struct farewell *f = (struct farewell *)job;
    prn_buffer_release(&f->backends);
    free(f);
}

static void say_farewell_locked(const struct prn_session *session) PRN_HOLDS(prn_service)
{
    struct farewell *f = calloc(1, sizeof *f);
    if (!f)
        return; /* the next start of the service removes the folder */
    *f = (struct farewell){.job = {.run = run_farewell, .over = farewell_over},
                           .service = session->service,
                           .owner = session->owner,
                           .backends = PRN_BUFFER_INIT((size_t)64 << 10),
                           .has_folder = session->folder_fd >= 0,
                           .kept = session->kept};
    memcpy(f->name, session->name, sizeof f->name);
    snprintf(f->outcome, sizeof f->outcome, "%s", session->outcome);
    for (size_t i = 0; i < session->n_backends; i++)
        prn_buffer_printf(&f->backends, "%s%s", i ? ", " : "", session->backends[i].name);
    f->ended = (struct prn_history_session){.user = f->owner.user,
                                            .backends = prn_buffer_text(&f->backends),
                                            .created_ms = session->created_ms,
                                            .ready_ms = session->ready_ms,
                                            .ended_ms = session->ended_ms,
                                            .models = session->n_models,
                                            .runs = session->runs,
                                            .outcome = f->outcome};
    prn_pool_add(session->service->pool, &f->line, &f->job);
}

void prn_session_unref_locked(struct prn_session *session)
{
    if (--session->references > 0)
        return;
    TAILQ_REMOVE(&session->service->closing, session, in_closing);
    say_farewell_locked(session);
    free_session(session);
}

/* ---- Life ---- */

/* The client was seen then. What the service does by itself (granting, answering) says nothing
 * about the client. */
static void seen_locked(struct prn_session *session, int64_t seen_ns) PRN_HOLDS(prn_service)
{
    if (seen_ns > session->life_ns)
        session->life_ns = seen_ns;
    bool held = session->open_calls > 0 && !session->beats;
    prn_leases_move(&session->service->leases, &session->lease,
                    held ? INT64_MAX : session->life_ns + session->lease_ns);
}

void prn_session_live_locked(struct prn_session *session)
{
    seen_locked(session, prn_monotonic_ns());
}

/* ---- Limits of time ---- */

#define NO_LIMIT_NS INT64_MAX
#define LEAD_S 300.0 /* that a limit is announced before, or half of it */

/* When it will have been idle for too long; one that works isn't. */
static int64_t idle_end_locked(const struct prn_session *session) PRN_HOLDS(prn_service)
{
    if (session->open_calls > 0 || session->times.idle_s <= 0)
        return NO_LIMIT_NS;
    return session->worked_ns + (int64_t)(session->times.idle_s * 1e9);
}

static int64_t time_end_locked(const struct prn_session *session) PRN_HOLDS(prn_service)
{
    return session->times.session_s > 0
               ? session->ready_ns + (int64_t)(session->times.session_s * 1e9)
               : NO_LIMIT_NS;
}

/* It works, has worked, or has got its hosts. */
static void worked_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    if (session->state != PRN_SESSION_READY)
        return;
    session->worked_ns = prn_monotonic_ns();
    session->worked_ms = prn_wall_clock_ms();
    int64_t idle_ns = idle_end_locked(session);
    int64_t time_ns = time_end_locked(session);
    int64_t end_ns = idle_ns < time_ns ? idle_ns : time_ns;
    prn_leases_move(&s->times, &session->limit, end_ns);
    prn_service_look_by_locked(s, end_ns);
}

char *prn_session_limit_note_locked(const struct prn_session *session, struct prn_arena *arena)
{
    int64_t idle_ns = idle_end_locked(session);
    bool idle = idle_ns < time_end_locked(session);
    double limit_s = idle ? session->times.idle_s : session->times.session_s;
    const char *unit = limit_s >= 3600 ? "h" : limit_s >= 60 ? "min" : "s";
    double in_unit = limit_s / (limit_s >= 3600 ? 3600 : limit_s >= 60 ? 60 : 1);
    char clock[16] = "";
    char text[200];
    struct tm tm;
    if (session->state != PRN_SESSION_READY || limit_s <= 0 ||
        (!idle && time_end_locked(session) == NO_LIMIT_NS))
        return NULL;
    time_t end_s = (idle ? session->worked_ms : session->ready_ms) / 1000 + (time_t)limit_s;
    if (gmtime_r(&end_s, &tm))
        strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    snprintf(text, sizeof text, "this session ends at %s UTC%s %.3g %s", clock,
             idle ? " unless it is used: one may be idle for" : ": one may last", in_unit, unit);
    return prn_arena_strdup(arena, text);
}

/* What a client is told with a heartbeat: the administrator's notice, and a limit that is near. */
static char *notice_locked(const struct prn_session *session, struct prn_arena *arena)
    PRN_HOLDS(prn_service)
{
    const struct prn_service *s = session->service;
    int64_t idle_ns = idle_end_locked(session);
    int64_t time_ns = time_end_locked(session);
    double limit_s = idle_ns < time_ns ? session->times.idle_s : session->times.session_s;
    int64_t end_ns = idle_ns < time_ns ? idle_ns : time_ns;
    double lead_s = limit_s / 2 < LEAD_S ? limit_s / 2 : LEAD_S;
    char *limit = NULL;
    if (session->state == PRN_SESSION_READY && end_ns != NO_LIMIT_NS &&
        (double)(end_ns - prn_monotonic_ns()) * 1e-9 <= lead_s)
        limit = prn_session_limit_note_locked(session, arena);
    if (!limit || !s->notice[0])
        return limit ? limit : s->notice[0] ? prn_arena_strdup(arena, s->notice) : NULL;
    char both[PRN_NOTICE_SIZE + 256];
    snprintf(both, sizeof both, "%s; %s", limit, s->notice);
    return prn_arena_strdup(arena, both);
}

static void end_by_time_locked(struct prn_session *session, int64_t now_ns) PRN_HOLDS(prn_service)
{
    prn_session_close_locked(session, now_ns >= time_end_locked(session)
                                          ? "it reached the time limit of sessions"
                                          : "it was idle for longer than sessions may be");
}

void prn_session_enter_locked(struct prn_session *session)
{
    session->open_calls++;
    worked_locked(session);
    prn_session_live_locked(session);
}

void prn_session_exit_locked(struct prn_session *session, bool gone)
{
    /* A dead connection is found after so long. A client may also have cancelled its call only, and
     * it needs time to make another. */
    const int64_t silence_ns = (int64_t)PRN_SERVER_SILENCE_MS * 1000000;
    int64_t silent_ns = session->lease_ns / 2 < silence_ns ? session->lease_ns / 2 : silence_ns;
    session->open_calls--;
    worked_locked(session);
    seen_locked(session, session->beats ? 0 : prn_monotonic_ns() - (gone ? silent_ns : 0));
}

static void beat_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    int64_t now_ns = prn_monotonic_ns();
    session->beats = session->beats ||
                     (session->beat_ns > 0 && now_ns - session->beat_ns <= session->lease_ns / 2);
    session->beat_ns = now_ns;
    seen_locked(session, now_ns);
}

/* Who holds an id of 16 random bytes is its client: it may be told. NULL: too long ago, or never.
 */
static const char *why_ended_locked(const struct prn_service *s, const uint8_t *id)
    PRN_HOLDS(prn_service)
{
    for (size_t i = 0; i < PRN_ENDED_KEPT && i < s->n_ended; i++)
        if (memcmp(s->ended_last[i].id, id, PRN_SESSION_ID_BYTES) == 0)
            return s->ended_last[i].why;
    return NULL;
}

/* The caller's session, with a sign of life; NULL: the call was refused, and is finished. */
static struct prn_session *find_session_locked(struct prn_service *s, struct prn_rpc_call *call,
                                               const struct prn_identity *identity,
                                               const uint8_t *id, size_t id_length)
    PRN_HOLDS(prn_service)
{
    struct prn_session *session = NULL;
    if (id_length != PRN_SESSION_ID_BYTES) {
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "session_uuid has %zu bytes instead of %d",
                   id_length, PRN_SESSION_ID_BYTES);
        return NULL;
    }
    session = lookup_locked(s, id);
    if (!session && s->restoring) {
        prn_refuse(call, PRN_STATUS_UNAVAILABLE, "the service is starting; try again");
        return NULL;
    }
    if (!session) {
        const char *why = why_ended_locked(s, id);
        prn_refuse(call, PRN_STATUS_FAILED_PRECONDITION, "there is no such session: %s%s",
                   why ? "it ended, " : "it was closed, or it expired (no heartbeat)",
                   why ? why : "");
        return NULL;
    }
    if (strcmp(session->owner.user, identity->user) != 0) {
        prn_refuse(call, PRN_STATUS_PERMISSION_DENIED, "the session belongs to another user");
        return NULL;
    }
    prn_session_live_locked(session);
    return session;
}

struct prn_session *prn_session_find_ready_locked(struct prn_service *s, struct prn_rpc_call *call,
                                                  const struct prn_identity *identity,
                                                  const uint8_t *id, size_t id_length)
{
    struct prn_session *session = find_session_locked(s, call, identity, id, id_length);
    if (!session || session->state == PRN_SESSION_READY)
        return session;
    if (session->restored) {
        prn_refuse(
            call, PRN_STATUS_UNAVAILABLE,
            "the service was restarted, and the session's hosts are not back yet; try again");
        return NULL;
    }
    prn_refuse(call, PRN_STATUS_FAILED_PRECONDITION,
               "the session isn't ready: it waits for its hardware");
    return NULL;
}

/* ---- What a client is told while it waits ---- */

struct place {
    OctomlProfile__QueuePlace message;
    char *holders[HOLDERS_MAX];
    char labels[HOLDERS_MAX][16];
    struct prn_arena arena; /* for the note */
};

/* Names of users are nobody else's business; the same one is the same text to everybody. */
static void label_of(const void *data, size_t length, char label[13])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (!EVP_Digest(data, length, digest, NULL, EVP_sha256(), NULL))
        memset(digest, 0, sizeof digest);
    prn_text_hex(digest, 6, label);
}

static void fill_place_locked(struct prn_session *session, struct place *p) PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    const char *worst = NULL;
    size_t place = 0;
    const char *hardware;
    for (size_t i = 0; (hardware = prn_queue_session_hardware(session->place, i)); i++) {
        size_t here = prn_queue_session_place(session->place, hardware);
        if (!worst || here > place) {
            worst = hardware;
            place = here;
        }
    }
    p->arena = PRN_ARENA_INIT((size_t)64 << 10);
    octoml_profile__queue_place__init(&p->message);
    p->message.hardware = (char *)(uintptr_t)worst;
    p->message.place = place;
    p->message.waited_ms =
        (uint64_t)(prn_queue_session_waited_ns(session->place, prn_monotonic_ns()) / 1000000);
    p->message.holders = p->holders;
    struct prn_queue_hardware counts = {0};
    if (prn_queue_find_hardware(s->queue, worst, &counts))
        p->message.note = prn_hardware_note_locked(s, &counts, &p->arena);
    if (!p->message.note)
        p->message.note = prn_bookings_note_locked(s, worst, session->owner.user, &p->arena);
    if (!p->message.note)
        p->message.note = prn_slurm_place_note_locked(s, worst, place, &p->arena);
    struct prn_queue_host *host = NULL;
    while (p->message.n_holders < HOLDERS_MAX &&
           (host = prn_queue_next_host(s->queue, worst, host))) {
        const struct prn_queue_session *holder = prn_queue_host_holder(host);
        if (!holder)
            continue;
        const char *user = prn_queue_session_user(holder);
        char *label = p->labels[p->message.n_holders];
        label_of(user, strlen(user), label);
        p->holders[p->message.n_holders++] = label;
    }
}

/* ---- Waiting ---- */

/* For a client that waits, an answer must come before its lease ends. */
static int64_t patience_of(const struct prn_session *session, enum prn_ask_kind kind)
{
    int64_t half_ns = session->lease_ns / 2;
    return kind == PRN_ASK_READY && half_ns < patience_ns[kind] ? half_ns : patience_ns[kind];
}

/* The call is answered later. It is no life beyond its own arrival: its client asks again. */
static void set_ask_locked(struct prn_session *session, enum prn_ask_kind kind,
                           struct prn_rpc_call *call) PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    session->ask[kind].call = prn_rpc_call_ref(call);
    session->ask[kind].due_ns = prn_monotonic_ns() + patience_of(session, kind);
    struct prn_session *before = TAILQ_LAST(&s->asks[kind], prn_session_list);
    while (before && before->ask[kind].due_ns > session->ask[kind].due_ns)
        before = TAILQ_PREV(before, prn_session_list, ask[kind].in);
    if (before)
        TAILQ_INSERT_AFTER(&s->asks[kind], before, session, ask[kind].in);
    else
        TAILQ_INSERT_HEAD(&s->asks[kind], session, ask[kind].in);
    prn_service_look_by_locked(s, session->ask[kind].due_ns);
    prn_rpc_call_set_data(call, prn_session_ref_locked(session));
}

/* The call, if there is one, is the caller's to let go of. */
static struct prn_rpc_call *take_ask_locked(struct prn_session *session, enum prn_ask_kind kind)
    PRN_HOLDS(prn_service)
{
    struct prn_rpc_call *call = session->ask[kind].call;
    if (!call)
        return NULL;
    TAILQ_REMOVE(&session->service->asks[kind], session, ask[kind].in);
    session->ask[kind].call = NULL;
    return call;
}

/* A client that is gone doesn't wait; its lease runs. */
void prn_ask_ended(struct prn_rpc_call *call, bool cancelled)
{
    (void)cancelled;
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_session *session = prn_rpc_call_data(call);
    if (!session)
        return;
    prn_service_lock(s);
    for (int kind = 0; kind < PRN_ASK_KINDS; kind++)
        if (session->ask[kind].call == call)
            prn_rpc_call_unref(take_ask_locked(session, (enum prn_ask_kind)kind));
    prn_session_unref_locked(session);
    prn_service_unlock(s);
}

static void answer_waiter_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    OctomlProfile__WaitUntilSessionReadyReply reply =
        OCTOML_PROFILE__WAIT_UNTIL_SESSION_READY_REPLY__INIT;
    struct place place = {0};
    struct prn_rpc_call *call = take_ask_locked(session, PRN_ASK_READY);
    if (!call)
        return;
    reply.ready = session->state == PRN_SESSION_READY;
    if (session->state == PRN_SESSION_WAITING) {
        fill_place_locked(session, &place);
        reply.queue = &place.message;
    }
    if (session->state == PRN_SESSION_CLOSED && session->kept)
        prn_refuse(call, PRN_STATUS_UNAVAILABLE,
                   "the service ended; the session goes on when it "
                   "is started again");
    else if (session->state == PRN_SESSION_CLOSED)
        prn_refuse(call, PRN_STATUS_FAILED_PRECONDITION, "the session is closed: %s",
                   session->outcome);
    else
        prn_reply(call, &reply.base);
    prn_arena_release(&place.arena);
    prn_rpc_call_unref(call);
}

void prn_wait_until_ready(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    OctomlProfile__WaitUntilSessionReadyRequest *q = prn_request(
        call, message, &octoml_profile__wait_until_session_ready_request__descriptor, &identity);
    if (!q)
        return;
    prn_service_lock(s);
    struct prn_session *session =
        find_session_locked(s, call, &identity, q->session_uuid.data, q->session_uuid.len);
    if (session) {
        /* One waits at a time; who asked before is told to ask again. */
        answer_waiter_locked(session);
        set_ask_locked(session, PRN_ASK_READY, call);
        if (session->state != PRN_SESSION_WAITING)
            answer_waiter_locked(session);
        prn_slurm_wake_locked(s);
    }
    prn_service_unlock(s);
    protobuf_c_message_free_unpacked(&q->base, NULL);
}

void prn_heartbeat(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    OctomlProfile__HeartbeatReply reply = OCTOML_PROFILE__HEARTBEAT_REPLY__INIT;
    struct prn_identity identity;
    OctomlProfile__HeartbeatRequest *q =
        prn_request(call, message, &octoml_profile__heartbeat_request__descriptor, &identity);
    if (!q)
        return;
    prn_service_lock(s);
    struct prn_session *session =
        find_session_locked(s, call, &identity, q->session_uuid.data, q->session_uuid.len);
    if (session) {
        struct prn_arena arena = PRN_ARENA_INIT((size_t)16 << 10);
        reply.notice = notice_locked(session, &arena);
        beat_locked(session);
        prn_reply(call, &reply.base);
        prn_arena_release(&arena);
    }
    prn_service_unlock(s);
    protobuf_c_message_free_unpacked(&q->base, NULL);
}

/* ---- Creating ---- */

static void reply_error(struct prn_rpc_call *call, OctomlProfile__ErrorCode code, const char *text)
{
    OctomlProfile__CreateSessionReply reply = OCTOML_PROFILE__CREATE_SESSION_REPLY__INIT;
    OctomlProfile__ErrorValue error = OCTOML_PROFILE__ERROR_VALUE__INIT;
    error.message = (char *)(uintptr_t)text;
    error.code = code;
    reply.result_case = OCTOML_PROFILE__CREATE_SESSION_REPLY__RESULT_ERROR_VALUE;
    reply.error_value = &error;
    prn_reply(call, &reply.base);
}

/* "hardware/software[key=value,…]", parsed like one that a user wrote, so that the same rules hold;
 * what has the signs of that notation inside isn't a part of it. */
static int copy_backend(const OctomlProfile__BackendSpec *from, struct prn_arena *arena,
                        struct prn_spec *to, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)64 << 10);
    prn_buffer_printf(&text, "%s/%s", from->hardware_platform, from->software_backend);
    for (size_t i = 0; i < from->n_backend_options; i++) {
        const OctomlProfile__BackendOption *o = from->backend_options[i];
        if (strpbrk(o->key, "=,[]") || strpbrk(o->value, "=,[]")) {
            prn_buffer_release(&text);
            return prn_fail(err, PRONY_EUSAGE,
                            "option '%s=%s' can't be written in a backend's name", o->key,
                            o->value);
        }
        prn_buffer_printf(&text, "%c%s%s%s", i == 0 ? '[' : ',', o->key, o->value[0] ? "=" : "",
                          o->value);
    }
    if (from->n_backend_options > 0)
        prn_buffer_add_char(&text, ']');
    int code = prn_buffer_error(&text, err);
    if (code == 0)
        code = prn_spec_parse(prn_buffer_text(&text), false, arena, to, err);
    if (code == 0 && strcmp(to->software, from->software_backend) != 0)
        code = prn_fail(err, PRONY_EUSAGE, "'%s' isn't the name of a software",
                        from->software_backend);
    prn_buffer_release(&text);
    return code;
}

/* Backends with the same hardware share a host, unless each has its own. */
static int plan_hosts(struct prn_session *session, struct prony_error *err)
{
    struct prn_arena *arena = &session->arena;
    size_t n = session->n_backends;
    session->held_of = PRN_ARENA_ARRAY(arena, n, size_t);
    session->held = PRN_ARENA_ARRAY(arena, n, struct prn_held);
    if (!session->held_of || !session->held)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        size_t k = session->own_hosts ? i : 0;
        while (k < session->n_held &&
               strcmp(session->held[k].hardware, session->backends[i].hardware) != 0)
            k++;
        struct prn_held *held = &session->held[k];
        if (k == session->n_held) {
            *held = (struct prn_held){.session = session,
                                      .hardware = session->backends[i].hardware,
                                      .backends = PRN_ARENA_ARRAY(arena, n, size_t),
                                      .instances = calloc(n, sizeof(struct prn_instance *)),
                                      .ended = true};
            session->n_held++;
            if (!held->backends || !held->instances)
                return prn_fail_memory(err);
        }
        held->backends[held->n_backends++] = i;
        session->held_of[i] = k;
    }
    return 0;
}

/* What of the configuration holds for a session. */
struct terms {
    struct prn_config_limits limits;
    double lease_s;
};

static struct terms terms_locked(const struct prn_service *s) PRN_HOLDS(prn_service)
{
    return (struct terms){s->config.limits, s->config.lease_s};
}

static int make_session(struct prn_service *s, const OctomlProfile__CreateSessionRequest *q,
                        const struct prn_identity *identity, const struct terms *terms,
                        struct prn_session **ret_session, struct prony_error *err) PRN_ALONE
{
    struct prn_session *session = calloc(1, sizeof *session);
    if (!session)
        return prn_fail_memory(err);
    *session = (struct prn_session){.service = s,
                                    .owner = *identity,
                                    .arena = PRN_ARENA_INIT(ARENA_BYTES),
                                    .references = 1,
                                    .n_backends = q->n_backends,
                                    .own_hosts = q->own_hosts,
                                    .beats = q->beats,
                                    .folder_fd = -1,
                                    .outcome = "",
                                    .created_ms = prn_wall_clock_ms(),
                                    .created_ns = prn_monotonic_ns()};
    session->lease.data = session;
    session->limit.data = session;
    double lease_s = terms->lease_s;
    session->limits = terms->limits;
    if (q->has_lease_s && q->lease_s >= LEASE_MIN_S && q->lease_s < lease_s)
        lease_s = q->lease_s;
    session->lease_ns = (int64_t)(lease_s * 1e9);
    if (q->has_session_uuid)
        memcpy(session->id, q->session_uuid.data, PRN_SESSION_ID_BYTES);
    else if (getrandom(session->id, sizeof session->id, 0) != sizeof session->id)
        memcpy(session->id, &session->created_ns, sizeof session->created_ns);
    prn_text_hex(session->id, PRN_SESSION_ID_BYTES, session->name);
    label_of(session->id, sizeof session->id, session->label);
    session->backends = PRN_ARENA_ARRAY(&session->arena, q->n_backends, struct prn_spec);
    int code = session->backends ? 0 : prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < q->n_backends; i++)
        code = copy_backend(q->backends[i], &session->arena, &session->backends[i], err);
    if (code == 0)
        code = plan_hosts(session, err);
    if (code < 0)
        free_session(session);
    else
        *ret_session = session;
    return code;
}

/* Takes a place in the queue and in the table. */
static int enter_queue_locked(struct prn_session *session, struct prony_error *err)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    const char *hardware[PRN_SESSION_BACKENDS_MAX];
    int64_t now_ns = prn_monotonic_ns();
    /* By one clock for all, or they would change places. */
    int64_t asked_ns = s->start_ns + (session->created_ms - s->start_ms) * 1000000;
    int64_t waited_ns = session->from_before ? now_ns - asked_ns : 0;
    for (size_t i = 0; i < session->n_backends; i++)
        hardware[i] = session->backends[i].hardware;
    struct prn_queue_request request = {
        .user = session->owner.user,
        .quota = session->from_before ? PRN_QUEUE_NO_LIMIT
                                      : prn_config_quota(&s->config, session->owner.user),
        .waiting = session->from_before ? PRN_QUEUE_NO_LIMIT : s->config.quota_waiting,
        .first = session->restored,
        .waited_ns = waited_ns > 0 ? waited_ns : 0,
        .hardware = hardware,
        .n = session->n_backends,
        .own_hosts = session->own_hosts,
        .share = prn_config_share(&s->config, session->owner.user),
        .priority = prn_config_priority(&s->config, session->owner.user),
        .data = session};
    int code = prn_leases_add(&s->leases, &session->lease, now_ns + session->lease_ns);
    if (code == 0)
        code = prn_leases_add(&s->times, &session->limit, NO_LIMIT_NS);
    if (code < 0) {
        prn_leases_remove(&s->leases, &session->lease);
        return prn_fail_memory(err);
    }
    session->times =
        prn_config_times(&s->config, session->owner.user, hardware, session->n_backends);
    code = prn_queue_ask(s->queue, &request, now_ns, &session->place, err);
    if (code < 0) {
        prn_leases_remove(&s->leases, &session->lease);
        prn_leases_remove(&s->times, &session->limit);
        return code;
    }
    session->life_ns = now_ns;
    struct prn_session **bucket = bucket_of(s, session->id);
    session->next = *bucket;
    *bucket = session;
    s->n_sessions++;
    prn_service_look_by_locked(s, now_ns + session->lease_ns);
    return 0;
}

static void reply_created_locked(struct prn_rpc_call *call, struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    OctomlProfile__CreateSessionReply reply = OCTOML_PROFILE__CREATE_SESSION_REPLY__INIT;
    OctomlProfile__CreateSessionResultValue value =
        OCTOML_PROFILE__CREATE_SESSION_RESULT_VALUE__INIT;
    struct place place = {0};
    char cookie[80];
    value.session_uuid = (ProtobufCBinaryData){PRN_SESSION_ID_BYTES, session->id};
    value.ready = session->state == PRN_SESSION_READY;
    if (session->service->notice[0])
        value.notice = session->service->notice;
    value.has_lease_s = true;
    value.lease_s = (double)session->lease_ns * 1e-9;
    value.has_runs = true;
    value.runs = true;
    if (!value.ready) {
        fill_place_locked(session, &place);
        value.queue = &place.message;
    }
    reply.result_case = OCTOML_PROFILE__CREATE_SESSION_REPLY__RESULT_RESULT_VALUE;
    reply.result_value = &value;
    /* For a proxy in front of several services: this session is this one's. */
    snprintf(cookie, sizeof cookie, "prony=%s", session->label);
    prn_rpc_call_add_metadata(call, "set-cookie", cookie);
    prn_reply(call, &reply.base);
    prn_arena_release(&place.arena);
}

static bool check_request(struct prn_rpc_call *call, const OctomlProfile__CreateSessionRequest *q)
{
    if (q->has_session_uuid && q->session_uuid.len != PRN_SESSION_ID_BYTES)
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "session_uuid has %zu bytes instead of %d",
                   q->session_uuid.len, PRN_SESSION_ID_BYTES);
    else if (q->n_backends == 0)
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "a session needs at least one backend");
    else if (q->n_backends > PRN_SESSION_BACKENDS_MAX)
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "%zu backends are more than %d",
                   q->n_backends, PRN_SESSION_BACKENDS_MAX);
    else
        return true;
    return false;
}

/* One that was created, or why not. */
static void audit_open(const struct prn_service *s, const struct prn_rpc_call *call,
                       const struct prn_session *session, const char *error)
{
    struct prn_buffer backends = PRN_BUFFER_INIT((size_t)64 << 10);
    for (size_t i = 0; s->audit && i < session->n_backends; i++)
        prn_buffer_printf(&backends, "%s%s", i ? ", " : "", session->backends[i].name);
    PRN_AUDIT(s->audit, error ? "refused" : "session.open",
              PRN_LOG_TEXT("user", session->owner.user),
              PRN_LOG_TEXT("from", prn_rpc_call_peer(call)),
              PRN_LOG_TEXT("method", error ? prn_rpc_call_method(call)->name : NULL),
              PRN_LOG_TEXT("session", error ? NULL : session->label),
              PRN_LOG_TEXT("backends", prn_buffer_text(&backends)), PRN_LOG_TEXT("error", error));
    prn_buffer_release(&backends);
}

static void create_locked(struct prn_service *s, struct prn_rpc_call *call,
                          const OctomlProfile__CreateSessionRequest *q, struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    struct prony_error err;
    int code = 0;
    if (s->draining) {
        prn_refuse(call, PRN_STATUS_UNAVAILABLE, "the service is ending and takes no new sessions");
        free_session(session);
        return;
    }
    if (lookup_locked(s, session->id)) {
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "this session_uuid is already in use");
        free_session(session);
        return;
    }
    if (s->n_sessions >= s->config.limits.sessions) {
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service has %zu sessions, its limit",
                   s->n_sessions);
        free_session(session);
        return;
    }
    for (size_t i = 0; code == 0 && i < session->n_backends; i++)
        code = prn_backend_check_locked(s, &session->backends[i], &err);
    if (code == 0)
        code = enter_queue_locked(session, &err);
    if (code == PRONY_ELIMIT)
        reply_error(call, OCTOML_PROFILE__ERROR_CODE__ERROR_INSUFFICIENT_QUOTA, err.text);
    else if (code == PRONY_ENOMEM)
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
    else if (code < 0)
        reply_error(call, OCTOML_PROFILE__ERROR_CODE__ERROR_BACKEND_NONEXISTENT, err.text);
    if (code < 0) {
        PRN_LOG(s->log, PRN_LOG_WARNING, "session.refused",
                PRN_LOG_TEXT("user", session->owner.user),
                PRN_LOG_TEXT("from", prn_rpc_call_peer(call)), PRN_LOG_TEXT("error", err.text));
        audit_open(s, call, session, err.text);
        prn_meter_add(
            prn_metric_meter(s->counted.refused, code == PRONY_ELIMIT ? "quota" : "backend", NULL),
            1);
        free_session(session);
        return;
    }
    prn_meter_add(s->counted.created, 1);
    audit_open(s, call, session, NULL);
    prn_keep_open_locked(session, q);
    prn_sessions_settle_locked(s);
    reply_created_locked(call, session);
}

void prn_create_session(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_session *session = NULL;
    struct prn_identity identity;
    struct prony_error err;
    OctomlProfile__CreateSessionRequest *q =
        prn_request(call, message, &octoml_profile__create_session_request__descriptor, &identity);
    if (!q)
        return;
    if (check_request(call, q)) {
        prn_service_lock(s);
        const struct terms terms = terms_locked(s);
        prn_service_unlock(s);
        int code = make_session(s, q, &identity, &terms, &session, &err);
        if (code < 0) {
            prn_refuse(call, prn_status_of(code), "%s", err.text);
        } else {
            prn_service_lock(s);
            create_locked(s, call, q, session);
            prn_service_unlock(s);
        }
    }
    protobuf_c_message_free_unpacked(&q->base, NULL);
}

int prn_session_restore_locked(struct prn_service *s,
                               const OctomlProfile__CreateSessionRequest *request,
                               const struct prn_identity *owner, int64_t created_ms,
                               int64_t ready_ms, struct prn_session **ret_session,
                               struct prony_error *err)
{
    const struct terms terms = terms_locked(s);
    struct prn_session *session = NULL;
    if (request->n_backends == 0 || request->n_backends > PRN_SESSION_BACKENDS_MAX ||
        request->session_uuid.len != PRN_SESSION_ID_BYTES)
        return prn_fail(err, PRONY_EFORMAT, "what is kept of it is damaged");
    int code = make_session(s, request, owner, &terms, &session, err);
    if (code < 0)
        return code;
    session->from_before = true;
    session->restored = ready_ms > 0;
    session->created_ms = created_ms;
    session->ready_ms = ready_ms;
    code = enter_queue_locked(session, err);
    if (code < 0)
        free_session(session);
    else
        *ret_session = session;
    return code;
}

/* ---- Granted, failed ---- */

/* The one program that has this service loads graphs once it has captured them, and executors start
 * meanwhile. */
static void launch_locked(struct prn_held *held) PRN_HOLDS(prn_service)
{
    struct prony_error ignored; /* its first task will find it again */
    held->ended = false;
    if (prn_host_begin_locked(held, &ignored) < 0)
        held->told = false;
}

static void grant_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    session->state = PRN_SESSION_READY;
    int64_t before_ms = session->restored ? prn_wall_clock_ms() - session->ready_ms : 0;
    session->ready_ms = session->restored ? session->ready_ms : prn_wall_clock_ms();
    session->ready_ns = prn_monotonic_ns() - (before_ms > 0 ? before_ms : 0) * 1000000;
    session->charged_ns = prn_monotonic_ns();
    worked_locked(session);
    for (size_t i = 0; i < session->n_held; i++) {
        struct prn_held *held = &session->held[i];
        size_t same = 0;
        for (size_t k = 0; k < i; k++)
            same += strcmp(session->held[k].hardware, held->hardware) == 0;
        held->host = prn_queue_session_host(session->place, held->hardware, same);
        if (held->host)
            held->host->held = held;
        if (held->host && held->host->local && s->options->ends_with_input)
            launch_locked(held);
    }
    PRN_LOG(
        s->log, PRN_LOG_INFO, "session.ready", PRN_LOG_TEXT("session", session->label),
        PRN_LOG_TEXT("user", session->owner.user),
        PRN_LOG_INTEGER("waited_ms",
                        prn_queue_session_waited_ns(session->place, prn_monotonic_ns()) / 1000000));
    prn_watch_granted_locked(session);
    if (!session->restored) {
        prn_usage_granted_locked(session);
        prn_keep_ready_locked(session);
    }
    prn_tasks_reload_locked(session);
    answer_waiter_locked(session);
}

void prn_sessions_settle_locked(struct prn_service *s)
{
    struct prn_queue_session *place;
    bool again = true;
    /* Closing one that failed may let others in. */
    while (again) {
        again = false;
        while ((place = prn_queue_next_granted(s->queue)))
            grant_locked(prn_queue_session_data(place));
        if ((place = prn_queue_next_failed(s->queue))) {
            prn_session_close_locked(prn_queue_session_data(place), "its hardware is gone");
            again = true;
        }
    }
    prn_slurm_wake_locked(s);
}

/* ---- Closing ---- */

static void answer_closer_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    OctomlProfile__CloseSessionReply reply = OCTOML_PROFILE__CLOSE_SESSION_REPLY__INIT;
    struct prn_rpc_call *call = take_ask_locked(session, PRN_ASK_CLOSE);
    if (!call)
        return;
    prn_reply(call, &reply.base);
    prn_rpc_call_unref(call);
}

/* Its hosts are back: others may have them. The queue's reference is the caller's to give. */
static void leave_queue_locked(struct prn_session *session) PRN_HOLDS(prn_service)
{
    prn_usage_charge_locked(session);
    prn_queue_leave(session->service->queue, session->place, prn_monotonic_ns());
    session->place = NULL;
    answer_closer_locked(session);
    prn_sessions_settle_locked(session->service);
}

static bool all_ended_locked(const struct prn_session *session) PRN_HOLDS(prn_service)
{
    for (size_t i = 0; i < session->n_held; i++)
        if (!session->held[i].ended)
            return false;
    return true;
}

void prn_session_host_back_locked(struct prn_held *held)
{
    struct prn_session *session = held->session;
    if (held->host)
        prn_host_freed_locked(held->host);
    held->host = NULL;
    held->ended = true;
    if (session->state == PRN_SESSION_CLOSED && session->place && all_ended_locked(session)) {
        leave_queue_locked(session);
        prn_session_unref_locked(session);
    }
}

void prn_session_close_locked(struct prn_session *session, const char *outcome)
{
    struct prn_service *s = session->service;
    if (session->state == PRN_SESSION_CLOSED)
        return;
    session->state = PRN_SESSION_CLOSED;
    session->outcome = outcome;
    forget_locked(session);
    if (!session->kept)
        prn_keep_end_locked(session);
    struct prn_ended *ended = &s->ended_last[s->n_ended++ % PRN_ENDED_KEPT];
    memcpy(ended->id, session->id, sizeof ended->id);
    snprintf(ended->why, sizeof ended->why, "%s", outcome);
    TAILQ_INSERT_TAIL(&s->closing, session, in_closing);
    prn_leases_remove(&s->leases, &session->lease);
    prn_leases_remove(&s->times, &session->limit);
    answer_waiter_locked(session);
    session->ended_ms = prn_wall_clock_ms();
    prn_meter_add(prn_metric_meter(s->counted.ended, outcome, NULL), 1);
    PRN_LOG(s->log, PRN_LOG_INFO, "session.end", PRN_LOG_TEXT("session", session->label),
            PRN_LOG_TEXT("user", session->owner.user), PRN_LOG_TEXT("outcome", outcome),
            PRN_LOG_INTEGER("runs", session->runs));
    if (!session->kept)
        PRN_AUDIT(s->audit, "session.end", PRN_LOG_TEXT("user", session->owner.user),
                  PRN_LOG_TEXT("session", session->label), PRN_LOG_TEXT("outcome", outcome),
                  PRN_LOG_INTEGER("runs", session->runs));
    prn_session_ref_locked(session);
    for (size_t i = 0; i < session->n_held; i++) {
        struct prn_held *held = &session->held[i];
        if (held->host && !held->ended) {
            prn_host_end_locked(held);
            continue;
        }
        prn_held_abandon_locked(held, PRONY_ECANCELED, "the session was closed");
        if (held->host)
            prn_host_freed_locked(held->host);
        held->host = NULL;
    }
    if (session->place && all_ended_locked(session)) {
        leave_queue_locked(session);
        session->references--; /* the queue's; this function's is left */
    }
    prn_session_unref_locked(session);
}

void prn_close_session(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    OctomlProfile__CloseSessionReply reply = OCTOML_PROFILE__CLOSE_SESSION_REPLY__INIT;
    struct prn_identity identity;
    OctomlProfile__CloseSessionRequest *q =
        prn_request(call, message, &octoml_profile__close_session_request__descriptor, &identity);
    if (!q)
        return;
    prn_service_lock(s);
    struct prn_session *session = NULL;
    /* Closing twice is closing: one that isn't there is closed. */
    if (q->session_uuid.len != PRN_SESSION_ID_BYTES || lookup_locked(s, q->session_uuid.data))
        session =
            find_session_locked(s, call, &identity, q->session_uuid.data, q->session_uuid.len);
    else
        prn_reply(call, &reply.base);
    if (session) {
        prn_session_ref_locked(session);
        prn_session_close_locked(session, session->state == PRN_SESSION_WAITING ? "left the queue"
                                                                                : "closed");
        if (session->place) {
            set_ask_locked(session, PRN_ASK_CLOSE, call);
        } else {
            prn_reply(call, &reply.base);
        }
        prn_session_unref_locked(session);
    }
    prn_service_unlock(s);
    protobuf_c_message_free_unpacked(&q->base, NULL);
}

struct prn_session *prn_session_find_label_locked(struct prn_service *s, const char *label)
{
    for (size_t i = 0; i < PRN_SESSION_BUCKETS; i++)
        for (struct prn_session *session = s->buckets[i]; session; session = session->next)
            if (strcmp(session->label, label) == 0)
                return session;
    return NULL;
}

int prn_session_close_own(struct prn_service *s, const struct prn_identity *identity,
                          const char *label)
{
    int code = PRONY_ENOENT;
    prn_service_lock(s);
    struct prn_session *session = prn_session_find_label_locked(s, label);
    if (session)
        code = strcmp(session->owner.user, identity->user) == 0 ? 0 : PRONY_EDENIED;
    if (code == 0)
        prn_session_close_locked(session, "closed on the service's page");
    prn_service_unlock(s);
    return code;
}

static struct prn_session *first_in_bucket_locked(const struct prn_service *s, size_t bucket,
                                                  enum prn_session_state state)
    PRN_HOLDS(prn_service)
{
    struct prn_session *session = s->buckets[bucket];
    while (session && session->state != state)
        session = session->next;
    return session;
}

void prn_sessions_close_all_locked(struct prn_service *s, const char *outcome)
{
    /* Those who wait come first: nobody shall get a host that another gives back now. */
    static const enum prn_session_state order[] = {PRN_SESSION_WAITING, PRN_SESSION_READY};
    struct prn_session *session;
    for (size_t k = 0; k < PRN_ARRAY_SIZE(order); k++)
        for (size_t i = 0; i < PRN_SESSION_BUCKETS; i++)
            while ((session = first_in_bucket_locked(s, i, order[k]))) {
                session->kept = s->lasting != NULL;
                prn_session_close_locked(session, outcome);
            }
}

/* ---- Time ---- */

int64_t prn_sessions_tick_locked(struct prn_service *s, int64_t now_ns)
{
    struct prn_lease *lease;
    while ((lease = prn_leases_take_expired(&s->leases, now_ns)))
        prn_session_close_locked(lease->data, "expired: no heartbeat");
    while ((lease = prn_leases_take_expired(&s->times, now_ns)))
        end_by_time_locked(lease->data, now_ns);
    int64_t next_ns = prn_leases_next_ns(&s->leases);
    int64_t limit_ns = prn_leases_next_ns(&s->times);
    next_ns = limit_ns < next_ns ? limit_ns : next_ns;
    for (int kind = 0; kind < PRN_ASK_KINDS; kind++) {
        struct prn_session *session;
        while ((session = TAILQ_FIRST(&s->asks[kind])) && session->ask[kind].due_ns <= now_ns)
            if (kind == PRN_ASK_READY)
                answer_waiter_locked(session);
            else
                answer_closer_locked(session);
        if (session && session->ask[kind].due_ns < next_ns)
            next_ns = session->ask[kind].due_ns;
    }
    return next_ns;
}
