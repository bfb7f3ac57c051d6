/*
 * The client of a service: its connection, its session and the heartbeat that keeps it.
 *
 * There are two channels. Whoever waits in a call of the first stops when the caller's `cancelled`
 * is set; the second is for what must get through then too.
 */
#include "rpc/remote.h"

#include "base/text.h"
#include "base/clock.h"
#include "base/buffer.h"
#include "exec/executor.h"
#include "rpc/remote_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define CLOSE_S 1.0
#define BEAT_EVERY_S 10.0 /* or three times in a lease */
#define BEAT_LEAST_S 0.02
#define BEAT_S 10.0
#define POLL_S 90.0        /* of one WaitUntilSessionReady */
#define TELL_NS 1000000000 /* between two times that the place in the queue is told */
#define POLL_LEAST_S 0.25  /* a service that answers at once isn't asked more often */
#define CA_BYTES_MAX ((size_t)4 << 20)
#define NS_PER_S 1000000000

/* ---- Errors ---- */

int prn_remote_denied(const struct prn_remote *r, enum prn_status status, int code,
                      struct prony_error *err)
{
    if (status != PRN_STATUS_UNAUTHENTICATED)
        return code;
    const char *source = r->config.token_source;
    if (!r->config.token)
        return prn_fail(err, PRONY_EDENIED, "'%s' requires a token; set PRONY_TOKEN",
                        r->config.address);
    return prn_fail(err, PRONY_EDENIED, "'%s' refuses the token%s%s", r->config.address,
                    source ? " of " : "", source ? source : "");
}

int prn_remote_odd(const struct prn_remote *r, const char *what, struct prony_error *err)
{
    return prn_fail(err, PRONY_EFORMAT, "'%s' answered %s; is it a prony service?",
                    r->config.address, what);
}

int prn_remote_error_code(int code)
{
    switch (code) {
    case OCTOML_PROFILE__ERROR_CODE__ERROR_BACKEND_NONEXISTENT:
        return PRONY_EUNAVAILABLE;
    case OCTOML_PROFILE__ERROR_CODE__ERROR_INSUFFICIENT_QUOTA:
        return PRONY_ELIMIT;
    default:
        return PRONY_ERUNTIME;
    }
}

/* ---- Loans ---- */

void prn_loan_take(struct prn_loan *loan)
{
    pthread_mutex_lock(&loan->lock);
    loan->n++;
    pthread_mutex_unlock(&loan->lock);
}

void prn_loan_return(void *opaque)
{
    struct prn_loan *loan = opaque;
    pthread_mutex_lock(&loan->lock);
    loan->n--;
    pthread_cond_signal(&loan->returned);
    pthread_mutex_unlock(&loan->lock);
}

void prn_loan_settle(struct prn_loan *loan)
{
    pthread_mutex_lock(&loan->lock);
    while (loan->n > 0)
        pthread_cond_wait(&loan->returned, &loan->lock);
    pthread_mutex_unlock(&loan->lock);
    pthread_mutex_destroy(&loan->lock);
    pthread_cond_destroy(&loan->returned);
}

/* ---- Calls ---- */

static bool cancelled(const struct prn_remote *r)
{
    return (r->config.cancelled && __atomic_load_n(r->config.cancelled, __ATOMIC_RELAXED)) ||
           (r->config.interrupted && r->config.interrupted(r->config.context));
}

static void pause_s(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * NS_PER_S)};
    /* A signal ends it early, and that is right: it may be the one that cancels. */
    nanosleep(&time, NULL);
}

bool prn_remote_again(struct prn_remote *r, int code, int64_t *since_ns)
{
    int64_t now = prn_clock_ns();
    if (code != PRONY_EUNAVAILABLE || !r->open || cancelled(r))
        return false;
    if (*since_ns == 0)
        *since_ns = now;
    if (now - *since_ns > (int64_t)PRN_REMOTE_LEASE_S * NS_PER_S)
        return false;
    pause_s(now == *since_ns ? 0.1 : 1.0);
    return !cancelled(r);
}

static int unpack(const struct prn_remote *r, const struct prn_bytes *bytes,
                  const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret_reply,
                  struct prony_error *err)
{
    struct prony_error fault;
    int code = prn_rpc_unpack(bytes, type, ret_reply, &fault);
    if (code == PRONY_EFORMAT)
        return prn_remote_odd(r, "a malformed message", err);
    return code < 0 ? prn_fail(err, code, "%s", fault.text) : 0;
}

int prn_remote_call(struct prn_remote *r, const char *method, const ProtobufCMessage *request,
                    const ProtobufCMessageDescriptor *type, double timeout_s,
                    ProtobufCMessage **ret_reply, struct prn_answer *answer,
                    struct prony_error *err)
{
    struct prn_answer ignored;
    struct prn_answer *got = answer ? answer : &ignored;
    struct prn_bytes *bytes = NULL;
    int64_t since_ns = 0;
    int code;
    do {
        *got = (struct prn_answer){.status = PRN_STATUS_OK};
        code =
            prn_channel_call(r->calls, method, prn_rpc_pack(request), timeout_s, &bytes, got, err);
    } while (code < 0 && prn_remote_again(r, code, &since_ns));
    if (code < 0)
        return prn_remote_denied(r, got->status, code, err);
    code = unpack(r, bytes, type, ret_reply, err);
    prn_bytes_free(bytes);
    return code;
}

/* A call whose answer says nothing. */
static int call_empty(struct prn_remote *r, const char *method, const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *type, struct prony_error *err)
{
    ProtobufCMessage *reply = NULL;
    int code = prn_remote_call(r, method, request, type, PRN_REMOTE_CALL_S, &reply, NULL, err);
    if (reply)
        protobuf_c_message_free_unpacked(reply, NULL);
    return code;
}

/* ---- Connection ---- */

static void free_texts(struct prn_remote_config *config)
{
    free((void *)(uintptr_t)config->address);
    free((void *)(uintptr_t)config->token);
    free((void *)(uintptr_t)config->token_source);
}

static int copy_config(const struct prn_remote_config *from, struct prn_remote_config *to,
                       struct prony_error *err)
{
    *to = *from;
    to->ca_file = NULL;
    to->address = strdup(from->address);
    to->token = from->token ? strdup(from->token) : NULL;
    to->token_source = from->token_source ? strdup(from->token_source) : NULL;
    if (to->address && !to->token == !from->token && !to->token_source == !from->token_source)
        return 0;
    return prn_fail_memory(err);
}

static int read_ca(const char *path, struct prn_buffer *ca, struct prony_error *err)
{
    if (!path)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    int code = prn_buffer_read_fd(ca, fd, path, err);
    close(fd);
    return code;
}

static void tell_place(struct prn_remote *r)
{
    const OctomlProfile__QueuePlace *place = r->place;
    if (!place)
        return;
    r->told_ns = prn_clock_ns();
    struct prn_remote_place told = {
        .hardware = place->hardware,
        .place = place->place,
        .waited_s = (double)place->waited_ms / 1000 + (double)(r->told_ns - r->place_ns) / NS_PER_S,
        .n_holders = place->n_holders,
        .holders = place->holders,
        .note = place->note,
    };
    r->config.queued(r->config.context, &told);
}

static void forget_place(struct prn_remote *r)
{
    if (r->place)
        octoml_profile__queue_place__free_unpacked(r->place, NULL);
    r->place = NULL;
}

/* Called now and then by whoever waits for an answer. */
static int look_around(void *context)
{
    struct prn_remote *r = context;
    if (r->place && prn_clock_ns() - r->told_ns >= TELL_NS)
        tell_place(r);
    return r->config.interrupted && r->config.interrupted(r->config.context);
}

static int open_channels(struct prn_remote *r, const char *given_ca, struct prony_error *err)
{
    const char *ca_file = prn_remote_ca(r->config.address, r->config.insecure, given_ca);
    struct prn_buffer ca = PRN_BUFFER_INIT(CA_BYTES_MAX);
    int code = read_ca(ca_file, &ca, err);
    if (code == 0) {
        bool tls = prn_remote_is_secure(r->config.address, r->config.insecure, ca_file);
        struct prn_channel_config config = {
            .address = r->config.address,
            .tls = tls,
            .ca = ca_file ? prn_buffer_text(&ca) : NULL,
            .token = tls ? r->config.token : NULL,
        };
        code = prn_channel_open(&config, &r->control, err);
        if (code < 0 && ca_file)
            code = prn_fail_in(err, code, "'%s'", ca_file);
        config.cancelled = r->config.cancelled;
        if (r->config.interrupted || r->config.queued) {
            config.interrupted = look_around;
            config.context = r;
        }
        if (code == 0)
            code = prn_channel_open(&config, &r->calls, err);
    }
    prn_buffer_release(&ca);
    return code;
}

static void close_session(struct prn_remote *r);

static void free_remote(struct prn_remote *r)
{
    if (!r)
        return;
    close_session(r);
    prn_remote_end_runs(r);
    forget_place(r);
    prn_channel_close(r->calls);
    prn_channel_close(r->control);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free_texts(&r->config);
    free(r->hashes);
    free(r);
}

static int connect_remote(const struct prn_remote_config *config, struct prn_remote **ret_remote,
                          struct prony_error *err)
{
    if (strstr(config->address, "://"))
        return prn_fail(err, PRONY_EUSAGE, "invalid address '%s': write HOST:PORT, not a URL",
                        config->address);
    struct prn_remote *r = calloc(1, sizeof *r);
    if (!r)
        return prn_fail_memory(err);
    prn_condition_init(&r->wake);
    pthread_mutex_init(&r->lock, NULL);
    int code = copy_config(config, &r->config, err);
    if (code == 0)
        code = open_channels(r, config->ca_file, err);
    if (code < 0)
        free_remote(r);
    else
        *ret_remote = r;
    return code;
}

static int ping(struct prn_remote *r, struct prony_error *err)
{
    OctomlProfile__PingRequest request = OCTOML_PROFILE__PING_REQUEST__INIT;
    return call_empty(r, PRN_REMOTE_METHOD("Ping"), &request.base,
                      &octoml_profile__ping_reply__descriptor, err);
}

/* ---- Heartbeat ---- */

bool prn_remote_is_alive(struct prn_remote *r)
{
    pthread_mutex_lock(&r->lock);
    int64_t alive_ns = r->alive_ns;
    pthread_mutex_unlock(&r->lock);
    return prn_clock_ns() - alive_ns <= (int64_t)PRN_REMOTE_LEASE_S * NS_PER_S;
}

static void mark_alive(struct prn_remote *r)
{
    pthread_mutex_lock(&r->lock);
    r->alive_ns = prn_clock_ns();
    pthread_mutex_unlock(&r->lock);
}

/* Lets closing end the call; false when closing has begun. */
static bool announce_beat(struct prn_remote *r, struct prn_stream *stream)
{
    pthread_mutex_lock(&r->lock);
    bool go_on = !r->stop;
    r->beat = go_on ? stream : NULL;
    pthread_mutex_unlock(&r->lock);
    return go_on;
}

/* Told once, until it is another one. */
static void take_notice(struct prn_remote *r, const char *text)
{
    uint32_t hash = text && text[0] ? 2166136261u : 0;
    for (const char *c = hash ? text : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    pthread_mutex_lock(&r->lock);
    bool fresh = hash != r->notice;
    r->notice = hash;
    pthread_mutex_unlock(&r->lock);
    if (!fresh || !hash || !r->config.noticed)
        return;
    struct prn_buffer clean = PRN_BUFFER_INIT((size_t)16 << 10);
    prn_text_clean(&clean, text);
    r->config.noticed(r->config.context, prn_buffer_text(&clean));
    prn_buffer_release(&clean);
}

static void take_beat(struct prn_remote *r, const struct prn_bytes *bytes)
{
    ProtobufCMessage *reply = NULL;
    if (prn_rpc_unpack(bytes, &octoml_profile__heartbeat_reply__descriptor, &reply, NULL) < 0)
        return;
    take_notice(r, ((OctomlProfile__HeartbeatReply *)reply)->notice);
    protobuf_c_message_free_unpacked(reply, NULL);
}

static void beat(struct prn_remote *r)
{
    OctomlProfile__HeartbeatRequest request = OCTOML_PROFILE__HEARTBEAT_REQUEST__INIT;
    request.session_uuid = (ProtobufCBinaryData){sizeof r->session, r->session};
    struct prn_stream *stream;
    struct prn_bytes *reply = NULL;
    if (prn_stream_open(r->control, PRN_REMOTE_METHOD("Heartbeat"), BEAT_S, &stream, NULL) < 0)
        return;
    int code = PRONY_ECANCELED;
    if (announce_beat(r, stream))
        code = prn_stream_send(stream, prn_rpc_pack(&request.base), 0, NULL);
    if (code == 0)
        code = prn_stream_end(stream, NULL);
    if (code == 0)
        code = prn_stream_receive(stream, 0, &reply, NULL);
    announce_beat(r, NULL);
    prn_stream_free(stream);
    if (code == 0 && reply) {
        mark_alive(r);
        take_beat(r, reply);
    }
    prn_bytes_free(reply);
}

/* Waits for the next beat; false when there will be none. */
static bool wait_for_beat(struct prn_remote *r)
{
    struct timespec when = prn_timespec(prn_monotonic_ns() + (int64_t)(r->beat_every_s * 1e9));
    pthread_mutex_lock(&r->lock);
    while (!r->stop && pthread_cond_timedwait(&r->wake, &r->lock, &when) != ETIMEDOUT)
        ;
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return !stop;
}

static void *beat_on(void *opaque)
{
    struct prn_remote *r = opaque;
    while (wait_for_beat(r))
        beat(r);
    return NULL;
}

static int start_beating(struct prn_remote *r, struct prony_error *err)
{
    sigset_t all;
    sigset_t former;
    mark_alive(r);
    r->stop = false;
    /* Signals are the caller's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int failed = pthread_create(&r->beats, NULL, beat_on, r);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (failed)
        return prn_fail_errno(err, failed, "start", "the heartbeat's thread");
    r->beating = true;
    return 0;
}

static void stop_beating(struct prn_remote *r)
{
    if (!r->beating)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    if (r->beat)
        prn_stream_cancel(r->beat);
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->beats, NULL);
    r->beating = false;
}

/* ---- Session ---- */

static void close_session(struct prn_remote *r)
{
    OctomlProfile__CloseSessionRequest request = OCTOML_PROFILE__CLOSE_SESSION_REQUEST__INIT;
    struct prn_bytes *reply = NULL;
    stop_beating(r);
    if (!r->open)
        return;
    r->open = false;
    request.session_uuid = (ProtobufCBinaryData){sizeof r->session, r->session};
    if (prn_channel_call(r->control, PRN_REMOTE_METHOD("CloseSession"), prn_rpc_pack(&request.base),
                         CLOSE_S, &reply, NULL, NULL) == 0)
        prn_bytes_free(reply);
}

/* Only the cookie itself goes back, not what is said about it. */
static int keep_cookie(struct prn_remote *r, char *cookie, struct prony_error *err)
{
    cookie[strcspn(cookie, ";")] = '\0';
    if (!cookie[0])
        return 0;
    int code = prn_channel_set_metadata(r->calls, "cookie", cookie, err);
    return code < 0 ? code : prn_channel_set_metadata(r->control, "cookie", cookie, err);
}

/* What the service says of the queue is kept, so that the caller can be told while it says nothing:
 * it may take seconds to answer. */
static void take_place(struct prn_remote *r, const OctomlProfile__QueuePlace *place)
{
    forget_place(r);
    if (!place || !r->config.queued)
        return;
    size_t bytes = octoml_profile__queue_place__get_packed_size(place);
    uint8_t *packed = malloc(bytes + 1);
    if (packed) {
        octoml_profile__queue_place__pack(place, packed);
        r->place = octoml_profile__queue_place__unpack(NULL, bytes, packed);
        r->place_ns = prn_clock_ns();
        free(packed);
    }
    tell_place(r);
}

static int take_created(struct prn_remote *r, const OctomlProfile__CreateSessionReply *reply,
                        bool *ret_ready, struct prony_error *err)
{
    if (reply->result_case == OCTOML_PROFILE__CREATE_SESSION_REPLY__RESULT_ERROR_VALUE) {
        r->open = false;
        return prn_fail(err, prn_remote_error_code((int)reply->error_value->code), "'%s': %s",
                        r->config.address, reply->error_value->message);
    }
    if (reply->result_case != OCTOML_PROFILE__CREATE_SESSION_REPLY__RESULT_RESULT_VALUE ||
        reply->result_value->session_uuid.len != sizeof r->session)
        return prn_remote_odd(r, "without a session", err);
    memcpy(r->session, reply->result_value->session_uuid.data, sizeof r->session);
    *ret_ready = reply->result_value->ready;
    const double third_s = reply->result_value->lease_s / 3;
    r->beat_every_s = BEAT_EVERY_S;
    if (reply->result_value->has_lease_s && third_s < BEAT_EVERY_S)
        r->beat_every_s = third_s > BEAT_LEAST_S ? third_s : BEAT_LEAST_S;
    r->has_runs = reply->result_value->has_runs && reply->result_value->runs;
    take_notice(r, reply->result_value->notice);
    take_place(r, reply->result_value->queue);
    return 0;
}

/* The backends as the wire has them, in the arena. */
static OctomlProfile__BackendSpec **wire_backends(const struct prn_spec *backends, size_t n,
                                                  struct prn_arena *arena)
{
    OctomlProfile__BackendSpec **list = PRN_ARENA_ARRAY(arena, n, OctomlProfile__BackendSpec *);
    for (size_t i = 0; list && i < n; i++) {
        const struct prn_spec *spec = &backends[i];
        OctomlProfile__BackendSpec *wire = PRN_ARENA_NEW(arena, OctomlProfile__BackendSpec);
        OctomlProfile__BackendOption *items =
            PRN_ARENA_ARRAY(arena, spec->n_options, OctomlProfile__BackendOption);
        OctomlProfile__BackendOption **options =
            PRN_ARENA_ARRAY(arena, spec->n_options, OctomlProfile__BackendOption *);
        if (!wire || !items || !options)
            return NULL;
        *wire = (OctomlProfile__BackendSpec)OCTOML_PROFILE__BACKEND_SPEC__INIT;
        wire->hardware_platform = prn_arena_strdup(arena, spec->hardware);
        wire->software_backend = prn_arena_strdup(arena, spec->software);
        wire->n_backend_options = spec->n_options;
        wire->backend_options = options;
        for (size_t k = 0; k < spec->n_options; k++) {
            items[k] = (OctomlProfile__BackendOption)OCTOML_PROFILE__BACKEND_OPTION__INIT;
            items[k].key = prn_arena_strdup(arena, spec->options[k].key);
            items[k].value = prn_arena_strdup(arena, spec->options[k].value);
            options[k] = &items[k];
            if (!items[k].key || !items[k].value)
                return NULL;
        }
        if (!wire->hardware_platform || !wire->software_backend)
            return NULL;
        list[i] = wire;
    }
    return list;
}

/* The session's id is ours, so that it can be closed whatever becomes of the answer. */
static int create_session(struct prn_remote *r, const struct prn_spec *backends, size_t n,
                          bool *ret_ready, struct prony_error *err)
{
    OctomlProfile__CreateSessionRequest request = OCTOML_PROFILE__CREATE_SESSION_REQUEST__INIT;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)4 << 20);
    struct prn_answer answer = {0};
    struct prn_bytes *bytes = NULL;
    ProtobufCMessage *reply = NULL;
    request.backends = wire_backends(backends, n, &arena);
    request.n_backends = n;
    request.has_own_hosts = request.own_hosts = r->config.own_hosts;
    request.has_beats = request.beats = true;
    request.has_session_uuid = 1;
    request.session_uuid = (ProtobufCBinaryData){sizeof r->session, r->session};
    int code = request.backends ? 0 : prn_fail_memory(err);
    if (code == 0 && getrandom(r->session, sizeof r->session, 0) != sizeof r->session)
        code = prn_fail_errno(err, errno, "read", "random numbers");
    if (code == 0) {
        r->open = true;
        code =
            prn_channel_call(r->calls, PRN_REMOTE_METHOD("CreateSession"),
                             prn_rpc_pack(&request.base), PRN_REMOTE_CALL_S, &bytes, &answer, err);
        if (code < 0)
            code = prn_remote_denied(r, answer.status, code, err);
    }
    if (code == 0)
        code = unpack(r, bytes, &octoml_profile__create_session_reply__descriptor, &reply, err);
    if (code == 0)
        code = take_created(r, (OctomlProfile__CreateSessionReply *)reply, ret_ready, err);
    if (code == 0)
        code = keep_cookie(r, answer.cookie, err);
    if (reply)
        protobuf_c_message_free_unpacked(reply, NULL);
    prn_bytes_free(bytes);
    prn_arena_release(&arena);
    return code;
}

static int wait_until_ready(struct prn_remote *r, struct prony_error *err)
{
    OctomlProfile__WaitUntilSessionReadyRequest request =
        OCTOML_PROFILE__WAIT_UNTIL_SESSION_READY_REQUEST__INIT;
    request.session_uuid = (ProtobufCBinaryData){sizeof r->session, r->session};
    for (;;) {
        ProtobufCMessage *message = NULL;
        int64_t begun = prn_clock_ns();
        int code = prn_remote_call(r, PRN_REMOTE_METHOD("WaitUntilSessionReady"), &request.base,
                                   &octoml_profile__wait_until_session_ready_reply__descriptor,
                                   POLL_S, &message, NULL, err);
        if (code < 0 && code != PRONY_ETIMEDOUT)
            return code;
        if (message) {
            const OctomlProfile__WaitUntilSessionReadyReply *reply =
                (const OctomlProfile__WaitUntilSessionReadyReply *)message;
            bool ready = reply->ready;
            if (!ready)
                take_place(r, reply->queue);
            protobuf_c_message_free_unpacked(message, NULL);
            if (ready)
                return 0;
        }
        if ((double)(prn_clock_ns() - begun) < POLL_LEAST_S * NS_PER_S)
            pause_s(POLL_LEAST_S);
    }
}

static size_t count_hosts(const struct prn_spec *backends, size_t n)
{
    size_t hosts = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (strcmp(backends[k].hardware, backends[i].hardware) != 0)
            k++;
        hosts += k == i;
    }
    return hosts;
}

static int open_session(struct prn_remote *r, const struct prn_spec *backends, size_t n,
                        struct prony_error *err)
{
    bool ready = false;
    close_session(r);
    if (n == 0 || n > PRN_REMOTE_BACKENDS_MAX)
        return prn_fail(err, PRONY_EUSAGE, "a session has from 1 to %d backends, not %zu",
                        PRN_REMOTE_BACKENDS_MAX, n);
    int code = create_session(r, backends, n, &ready, err);
    if (code == 0 && !ready)
        code = wait_until_ready(r, err);
    forget_place(r);
    if (code == 0)
        code = start_beating(r, err);
    if (code < 0) {
        close_session(r);
        return code;
    }
    r->n_backends = n;
    r->n_hosts = r->config.own_hosts ? n : count_hosts(backends, n);
    return 0;
}

const struct prn_remote_ops prn_remote_operations = {
    .connect = connect_remote,
    .free = free_remote,
    .ping = ping,
    .list = prn_remote_list,
    .status = prn_remote_status,
    .usage = prn_remote_usage,
    .admin = prn_remote_admin,
    .open = open_session,
    .close = close_session,
    .upload = prn_remote_upload,
    .load = prn_remote_load,
    .run = prn_remote_run,
    .begin = prn_remote_begin,
    .finish = prn_remote_finish,
    .abandon = prn_remote_abandon,
    .outputs = prn_remote_outputs,
    .reply_free = prn_remote_reply_free,
    .measure = prn_remote_measure,
};
