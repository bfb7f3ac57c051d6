#include "worker/worker.h"

#include "base/clock.h"
#include "base/lock.h"
#include "record/remote.h"

#include "base/random.h"
#include "rpc/client.h"
#include "rpc/messages.h"
#include "rpc/relay.h"
#include "service/log.h"
#include "worker/hello.h"
#include "worker/host.h"
#include "worker/job.h"
#include "worker/join.h"
#include "worker/link.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ATTACH_METHOD "/prony.Workers/Attach"
#define ARENA_BYTES ((size_t)16 << 20)
#define QUEUE_MAX 64      /* commands that wait; a service sends a few */
#define SEND_S 60         /* for a report to get under way */
#define KEY_WAIT_MS 10000 /* for the service that started this worker to say the key */
/* For a session to end by itself once the worker is to leave: Slurm kills half a minute after it
 * has said so (KillWait), and a worker that is killed leaves its files. */
#define GRACE_S 25
#define FAREWELL_S 0.5 /* for the service to hear that it leaves */
#define BACKOFF_FIRST_S 0.5
#define BACKOFF_MOST_S 30.0
#define STEADY_S 10 /* a connection that lasted so long was a good one */
#define SECRET_MAX 4096

struct command {
    struct command *next;
    struct prn_bytes *message;
    uint64_t id;
    unsigned body; /* the field's number in WorkerCommand */
    bool cancelled;
};

PRN_LOCK(worker);

struct worker {
    const struct prn_worker_options *options;
    struct prn_log *log;
    char *token, *ca;
    bool is_key;    /* the token is a key, which has yet to become one */
    int handoff_fd; /* -1: nobody's worker */
    int link_fd;    /* where other stages of a pipeline connect to; -1: nowhere */
    char peer[PRN_LINK_PEER_MAX];
    struct prn_arena arena;
    Prony__Hello hello;
    struct prn_random random;
    /* the connection */
    struct prn_channel *channel;
    struct prn_stream *stream;
    bool said_leaving;
    bool answered; /* the service has sent something */
    /* the session */
    struct prn_worker_host *host;
    double idle_since_s;
    /* between the threads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct command *first PRN_GUARDED(worker), **last PRN_GUARDED(worker);
    size_t n_queued PRN_GUARDED(worker);
    uint64_t running PRN_GUARDED(worker); /* the command's id */
    bool is_running PRN_GUARDED(worker);
    volatile int cancelled;        /* what runs is to end */
    bool lost PRN_GUARDED(worker); /* the stream has ended, and why: */
    int lost_code PRN_GUARDED(worker);
    struct prony_error lost_error;
    bool leaving PRN_GUARDED(worker); /* takes no further session */
    volatile int hurry;               /* doesn't wait for the end of this one either */
    int signal_fd, stop_fd;
};

PRN_LOCK_FUNCTIONS(worker, struct worker, lock)

static double now_s(void)
{
    return (double)prn_monotonic_ns() * 1e-9;
}

/* Waits for a change until `until_s`; INFINITY: for ever. */
static void wait_for_change_locked(struct worker *w, double until_s) PRN_HOLDS(worker)
{
    if (isinf(until_s)) {
        pthread_cond_wait(&w->changed, &w->lock);
        return;
    }
    struct timespec t = {.tv_sec = (time_t)until_s};
    t.tv_nsec = (long)((until_s - (double)t.tv_sec) * 1e9);
    pthread_cond_timedwait(&w->changed, &w->lock, &t);
}

/* ---- The watcher ---- */

static void leave_soon(struct worker *w, bool hurry)
{
    worker_lock(w);
    w->leaving = true;
    if (hurry) {
        __atomic_store_n(&w->hurry, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&w->cancelled, 1, __ATOMIC_RELAXED);
    }
    pthread_cond_broadcast(&w->changed);
    worker_unlock(w);
}

static bool is_leaving(struct worker *w)
{
    worker_lock(w);
    bool leaving = w->leaving;
    worker_unlock(w);
    return leaving;
}

/* The first signal lets a session come to its end, the second doesn't, nor does the end of whoever
 * started this. */
static void *watch(void *opaque)
{
    struct worker *w = opaque;
    double hurry_s = INFINITY;
    for (;;) {
        struct pollfd waits[] = {{.fd = w->stop_fd, .events = POLLIN},
                                 {.fd = w->signal_fd, .events = POLLIN},
                                 {.fd = w->handoff_fd, .events = POLLRDHUP}};
        double left_s = hurry_s - now_s();
        int wait_ms = isinf(left_s) ? -1 : left_s > 0 ? (int)(left_s * 1000) + 1 : 0;
        if (poll(waits, PRN_ARRAY_SIZE(waits), wait_ms) < 0 && errno != EINTR)
            return NULL;
        struct signalfd_siginfo info;
        if (waits[0].revents)
            return NULL;
        if (waits[2].revents) {
            leave_soon(w, true);
            return NULL;
        }
        if (waits[1].revents && read(w->signal_fd, &info, sizeof info) == sizeof info) {
            leave_soon(w, !isinf(hurry_s));
            hurry_s = now_s() + GRACE_S;
        } else if (now_s() >= hurry_s) {
            leave_soon(w, true);
            hurry_s = INFINITY;
        }
    }
}

/* ---- The reader ---- */

static void command_free(struct command *c)
{
    if (c)
        prn_bytes_free(c->message);
    free(c);
}

static void cancel_command_locked(struct worker *w, uint64_t id) PRN_HOLDS(worker)
{
    if (w->is_running && w->running == id)
        __atomic_store_n(&w->cancelled, 1, __ATOMIC_RELAXED);
    for (struct command *c = w->first; c; c = c->next)
        c->cancelled |= c->id == id;
}

static int take_cancel(struct worker *w, const struct command *c, struct prony_error *err)
{
    ProtobufCMessage *message;
    int code = prn_rpc_unpack(c->message, &prony__worker_command__descriptor, &message, err);
    if (code < 0)
        return code;
    const Prony__WorkerCommand *command = (const Prony__WorkerCommand *)message;
    worker_lock(w);
    cancel_command_locked(w, command->cancel->id);
    worker_unlock(w);
    protobuf_c_message_free_unpacked(message, NULL);
    return 0;
}

static int enqueue(struct worker *w, struct command *c, struct prony_error *err)
{
    worker_lock(w);
    int code = w->n_queued < QUEUE_MAX
                   ? 0
                   : prn_fail(err, PRONY_ELIMIT, "the service sent too many commands at once");
    if (code == 0) {
        *w->last = c;
        w->last = &c->next;
        w->n_queued++;
        w->answered = true;
        pthread_cond_broadcast(&w->changed);
    }
    worker_unlock(w);
    return code;
}

/* The message is taken over. */
static int take_message(struct worker *w, struct prn_bytes *message, struct prony_error *err)
{
    struct command *c = calloc(1, sizeof *c);
    if (!c) {
        prn_bytes_free(message);
        return prn_fail_memory(err);
    }
    c->message = message;
    int code = prn_relay_peek(message, &c->id, &c->body, err);
    bool cancels = c->body == PRONY__WORKER_COMMAND__BODY_CANCEL;
    if (code == 0)
        code = cancels ? take_cancel(w, c, err) : enqueue(w, c, err);
    if (code < 0 || cancels)
        command_free(c);
    return code;
}

static void *read_commands(void *opaque)
{
    struct worker *w = opaque;
    struct prony_error err = {0};
    int code = 0;
    while (code == 0) {
        struct prn_bytes *message = NULL;
        code = prn_stream_receive(w->stream, 0, &message, &err);
        if (code == 0 && !message)
            break;
        if (code == 0)
            code = take_message(w, message, &err);
    }
    worker_lock(w);
    w->lost = true;
    w->lost_code = code;
    w->lost_error = err;
    __atomic_store_n(&w->cancelled, 1, __ATOMIC_RELAXED); /* nobody waits for the answer */
    pthread_cond_broadcast(&w->changed);
    worker_unlock(w);
    return NULL;
}

/* ---- Reports ---- */

static int send_out(struct worker *w, struct prn_out *out, struct prony_error *err)
{
    return prn_stream_send(w->stream, out, SEND_S, err);
}

static Prony__WorkerReport report_of(uint64_t id, Prony__WorkerReport__BodyCase body)
{
    Prony__WorkerReport report = PRONY__WORKER_REPORT__INIT;
    report.has_id = 1;
    report.id = id;
    report.body_case = body;
    return report;
}

static int send_report(struct worker *w, const Prony__WorkerReport *report, struct prony_error *err)
{
    return send_out(w, prn_rpc_pack(&report->base), err);
}

static int send_done(struct worker *w, uint64_t id, struct prony_error *err)
{
    Prony__WorkerReport report = report_of(id, PRONY__WORKER_REPORT__BODY_DONE);
    report.done = 1;
    return send_report(w, &report, err);
}

static int send_error(struct worker *w, uint64_t id, OctomlProfile__ErrorCode code,
                      const struct prony_error *why, struct prony_error *err)
{
    OctomlProfile__ErrorValue error = OCTOML_PROFILE__ERROR_VALUE__INIT;
    char text[sizeof why->text];
    memcpy(text, why->text, sizeof text);
    error.message = text;
    error.code = code;
    error.has_prony_code = true;
    error.prony_code = why->code;
    Prony__WorkerReport report = report_of(id, PRONY__WORKER_REPORT__BODY_ERROR);
    report.error = &error;
    return send_report(w, &report, err);
}

static int say_leaving(struct worker *w, struct prony_error *err)
{
    Prony__WorkerReport report = PRONY__WORKER_REPORT__INIT;
    report.body_case = PRONY__WORKER_REPORT__BODY_LEAVING;
    report.leaving = 1;
    w->said_leaving = true;
    return send_report(w, &report, err);
}

/* ---- Commands ---- */

/* Each does what it says, and reports; `why` is for a failure that is to be reported instead. Only
 * a report that can't be sent is an error of the connection. */

static int need_host(const struct worker *w, struct prony_error *why)
{
    return w->host ? 0 : prn_fail(why, PRONY_EUSAGE, "no session has begun");
}

static int worker_begin(struct worker *w, const Prony__Begin *begin, struct prony_error *why)
{
    if (w->host)
        return prn_fail(why, PRONY_EUSAGE, "another session has this host");
    if (is_leaving(w))
        return prn_fail(why, PRONY_EUNAVAILABLE, "the worker is leaving");
    const struct prn_worker_host_config config = {
        .hardware = w->options->hardware,
        .channel = w->channel,
        .handoff_fd = w->handoff_fd,
        .link_fd = w->link_fd,
        .cancelled = &w->cancelled,
    };
    return prn_worker_host_begin(&config, begin, &w->host, why);
}

static void end_session(struct worker *w)
{
    prn_worker_host_end(w->host);
    w->host = NULL;
    w->idle_since_s = now_s();
}

static int end(struct worker *w, const Prony__End *end, struct prony_error *why)
{
    if (w->host && !prn_worker_host_is(w->host, &end->session))
        return prn_fail(why, PRONY_EUSAGE, "another session has this host");
    end_session(w);
    return 0;
}

static int worker_load(struct worker *w, uint64_t id, const Prony__Load *load,
                       struct prony_error *why, struct prony_error *err)
{
    struct prn_instance_loaded loaded;
    int code = need_host(w, why);
    if (code == 0)
        code = prn_worker_host_load(w->host, load, &loaded, why);
    if (code < 0)
        return send_error(w, id, OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_LOAD, why, err);
    Prony__Loaded answer = PRONY__LOADED__INIT;
    answer.has_load_ns = 1;
    answer.load_ns = (uint64_t)(loaded.load_ns > 0 ? loaded.load_ns : 0);
    answer.version = (char *)(uintptr_t)loaded.version;
    answer.sandbox = (char *)(uintptr_t)loaded.sandbox;
    Prony__WorkerReport report = report_of(id, PRONY__WORKER_REPORT__BODY_LOADED);
    report.loaded = &answer;
    return send_report(w, &report, err);
}

static int spawn(struct worker *w, uint64_t id, const Prony__Spawn *spawn, struct prony_error *why,
                 struct prony_error *err)
{
    Prony__Spawned answer = PRONY__SPAWNED__INIT;
    int code = need_host(w, why);
    if (code == 0)
        code = prn_worker_host_spawn(w->host, spawn->backend, &answer.handle, why);
    if (code < 0)
        return send_error(w, id, OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_LOAD, why, err);
    Prony__WorkerReport report = report_of(id, PRONY__WORKER_REPORT__BODY_SPAWNED);
    report.spawned = &answer;
    return send_report(w, &report, err);
}

static int64_t deadline_ns(double timeout_s)
{
    double end_s = now_s() + timeout_s;
    return timeout_s > 0 && end_s < (double)(INT64_MAX / 1000000000) ? (int64_t)(end_s * 1e9)
                                                                     : INT64_MAX;
}

static int run_in(struct worker *w, const struct prn_bytes *message, struct prn_arena *arena,
                  struct prn_instance_result **ret_result, struct prony_error *why)
{
    struct prn_relay_run asked;
    int code = need_host(w, why);
    if (code == 0)
        code = prn_relay_read_run(message, arena, &asked, why);
    if (code < 0)
        return code;
    const struct prn_instance_run run = {
        .model_id = asked.model_id,
        .bytes = message,
        .inputs = asked.inputs,
        .n_map = asked.n_inputs,
        .warmups = asked.warmups,
        .repeats = asked.repeats,
        .repeat_for_ms = asked.repeat_for_ms,
        .outputs = asked.outputs,
        .deadline_ns = deadline_ns(asked.timeout_s),
    };
    return prn_worker_host_run(w->host, asked.backend, &run, ret_result, why);
}

static int worker_run(struct worker *w, const struct command *c, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_BYTES);
    struct prn_instance_result *result = NULL;
    struct prony_error why = {0};
    int code = run_in(w, c->message, &arena, &result, &why);
    prn_arena_release(&arena);
    if (code < 0)
        return send_error(w, c->id, OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_INFERENCE, &why, err);
    const struct prn_rpc_result ran = {.n_times = result->n_times,
                                       .times_ns = result->times_ns,
                                       .prepare_ns = result->prepare_ns,
                                       .n_outputs = result->n_outputs,
                                       .outputs = result->outputs,
                                       .names = result->names};
    return send_out(w, prn_relay_write_ran(c->id, &ran, prn_instance_result_release, result), err);
}

struct telling {
    struct worker *worker;
    uint64_t id;
    int sent; /* 0, or why the connection is of no more use */
};

static int tell_event(void *context, Prony__MeasureEvent *event, struct prony_error *err)
{
    struct telling *telling = context;
    Prony__WorkerReport report = report_of(telling->id, PRONY__WORKER_REPORT__BODY_EVENT);
    Prony__MeasureEvent named = *event;
    named.hardware = (char *)(uintptr_t)telling->worker->options->hardware;
    report.event = &named;
    telling->sent = send_report(telling->worker, &report, err);
    return telling->sent;
}

static int worker_measure(struct worker *w, uint64_t id, const Prony__MeasureModel *measure,
                          struct prony_error *why, struct prony_error *err)
{
    struct telling telling = {.worker = w, .id = id};
    int code = need_host(w, why);
    if (code == 0)
        code = prn_worker_host_measure(w->host, measure, tell_event, &telling, why);
    if (telling.sent < 0)
        return prn_fail(err, telling.sent, "%s", why->text);
    return code == 0
               ? send_done(w, id, err)
               : send_error(w, id, OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_INFERENCE, why, err);
}

static int carry_out_other(struct worker *w, const struct command *c, struct prony_error *err)
{
    ProtobufCMessage *message;
    struct prony_error why = {0};
    int code = prn_rpc_unpack(c->message, &prony__worker_command__descriptor, &message, err);
    if (code < 0)
        return code;
    const Prony__WorkerCommand *command = (const Prony__WorkerCommand *)message;
    switch (command->body_case) {
    case PRONY__WORKER_COMMAND__BODY_BEGIN:
    case PRONY__WORKER_COMMAND__BODY_END:
        code = command->body_case == PRONY__WORKER_COMMAND__BODY_BEGIN
                   ? worker_begin(w, command->begin, &why)
                   : end(w, command->end, &why);
        code = code == 0
                   ? send_done(w, c->id, err)
                   : send_error(w, c->id, OCTOML_PROFILE__ERROR_CODE__ERROR_INTERNAL, &why, err);
        break;
    case PRONY__WORKER_COMMAND__BODY_LOAD:
        code = worker_load(w, c->id, command->load, &why, err);
        break;
    case PRONY__WORKER_COMMAND__BODY_SPAWN:
        code = spawn(w, c->id, command->spawn, &why, err);
        break;
    case PRONY__WORKER_COMMAND__BODY_MEASURE:
        code = worker_measure(w, c->id, command->measure, &why, err);
        break;
    case PRONY__WORKER_COMMAND__BODY_LEAVE:
        leave_soon(w, false);
        break;
    default:
        prn_fail(&why, PRONY_EUNSUPPORTED, "unknown command");
        code = send_error(w, c->id, OCTOML_PROFILE__ERROR_CODE__ERROR_INTERNAL, &why, err);
        break;
    }
    protobuf_c_message_free_unpacked(message, NULL);
    return code;
}

static int carry_out(struct worker *w, const struct command *c, struct prony_error *err)
{
    struct prony_error why = {0};
    if (c->cancelled) {
        prn_fail(&why, PRONY_ECANCELED, "cancelled before it began");
        return send_error(w, c->id, OCTOML_PROFILE__ERROR_CODE__ERROR_INTERNAL, &why, err);
    }
    return c->body == PRN_RELAY_COMMAND_RUN ? worker_run(w, c, err) : carry_out_other(w, c, err);
}

/* ---- A connection ---- */

/* When an idle worker leaves. */
static double idle_until_s(const struct worker *w)
{
    bool counts = w->options->idle_s > 0 && !w->host;
    return counts ? w->idle_since_s + w->options->idle_s : INFINITY;
}

/* The next command; NULL when there is something else to see to. */
static struct command *next_command(struct worker *w)
{
    worker_lock(w);
    double until_s = idle_until_s(w);
    while (!w->first && !w->lost && !w->hurry && !(w->leaving && (!w->said_leaving || !w->host)) &&
           now_s() < until_s)
        wait_for_change_locked(w, until_s);
    struct command *c = w->lost || w->hurry ? NULL : w->first;
    if (c) {
        w->first = c->next;
        w->last = w->first ? w->last : &w->first;
        w->n_queued--;
        w->running = c->id;
        w->is_running = true;
        __atomic_store_n(&w->cancelled, c->cancelled, __ATOMIC_RELAXED);
    } else if (now_s() >= until_s) {
        w->leaving = true;
    }
    worker_unlock(w);
    return c;
}

static void finished(struct worker *w)
{
    worker_lock(w);
    w->is_running = false;
    worker_unlock(w);
}

static bool is_over(struct worker *w)
{
    worker_lock(w);
    bool over = w->lost || w->hurry || (w->leaving && w->said_leaving && !w->host && !w->first);
    worker_unlock(w);
    return over;
}

/* Until the connection is lost or the worker leaves. */
static int serve(struct worker *w, struct prony_error *err)
{
    int code = 0;
    while (code == 0 && !is_over(w)) {
        struct command *c = next_command(w);
        if (c) {
            code = carry_out(w, c, err);
            finished(w);
            command_free(c);
        }
        worker_lock(w);
        bool say = w->leaving && !w->said_leaving && !w->lost;
        worker_unlock(w);
        if (code == 0 && say)
            code = say_leaving(w, err);
    }
    return code;
}

/* Gives the service a moment to hear that the worker leaves, and to end the call. */
static void say_farewell(struct worker *w)
{
    struct prony_error err;
    if (!w->said_leaving && say_leaving(w, &err) < 0)
        return;
    if (prn_stream_end(w->stream, &err) < 0)
        return;
    double until_s = now_s() + FAREWELL_S;
    worker_lock(w);
    while (!w->lost && now_s() < until_s)
        wait_for_change_locked(w, until_s);
    worker_unlock(w);
}

/* Without a reader. */
static void forget_connection(struct worker *w) PRN_ALONE
{
    while (w->first) {
        struct command *c = w->first;
        w->first = c->next;
        command_free(c);
    }
    w->last = &w->first;
    w->n_queued = 0;
    w->lost = false;
    __atomic_store_n(&w->cancelled, 0, __ATOMIC_RELAXED);
    w->said_leaving = false;
}

/* With the reader running. Returns why the connection is over: 0 when the worker leaves. */
static int serve_stream(struct worker *w, struct prony_error *err)
{
    pthread_t reader;
    int error = pthread_create(&reader, NULL, read_commands, w);
    if (error)
        return prn_fail_errno(err, error, "start", "a thread");
    int code = serve(w, err);
    /* Whatever the service still wants, the session is over. */
    end_session(w);
    worker_lock(w);
    bool lost = w->lost;
    int lost_code = w->lost_code;
    bool leaving = w->leaving;
    worker_unlock(w);
    if (!lost && code == 0)
        say_farewell(w);
    prn_stream_cancel(w->stream);
    pthread_join(reader, NULL);
    if (lost && lost_code < 0)
        return prn_fail(err, lost_code, "%s", w->lost_error.text);
    if (lost || code < 0)
        return leaving ? 0 : prn_fail(err, PRONY_EUNAVAILABLE, "the service ended the connection");
    return 0;
}

static int attach(struct worker *w, struct prony_error *err)
{
    Prony__WorkerReport report = PRONY__WORKER_REPORT__INIT;
    report.body_case = PRONY__WORKER_REPORT__BODY_HELLO;
    report.hello = &w->hello;
    int code = prn_stream_open(w->channel, ATTACH_METHOD, 0, &w->stream, err);
    if (code < 0)
        return code;
    code = send_report(w, &report, err);
    if (code == 0) {
        PRN_LOG(w->log, PRN_LOG_INFO, "worker.attached", PRN_LOG_TEXT("server", w->options->server),
                PRN_LOG_TEXT("hardware", w->options->hardware));
        code = serve_stream(w, err);
    }
    prn_stream_free(w->stream);
    w->stream = NULL;
    forget_connection(w);
    return code;
}

static int connect_once(struct worker *w, struct prony_error *err)
{
    struct prn_channel_config config = {
        .address = w->options->server,
        .tls = prn_remote_is_secure(w->options->server, w->options->insecure, w->options->ca_file),
        .ca = w->ca,
        .token = w->token,
        .cancelled = &w->hurry,
    };
    char *token = NULL;
    int code = w->is_key ? prn_worker_join(&config, &token, err) : 0;
    if (token) {
        free(w->token);
        config.token = w->token = token;
        w->is_key = false;
    }
    if (code == 0)
        code = prn_channel_open(&config, &w->channel, err);
    if (code < 0)
        return code;
    code = attach(w, err);
    prn_channel_close(w->channel);
    w->channel = NULL;
    return code;
}

/* Refusals that another try wouldn't change. */
static bool is_final(int code)
{
    return code == PRONY_EDENIED || code == PRONY_EUSAGE || code == PRONY_EUNSUPPORTED;
}

/* Longer and longer, and never at the same time as others that lost the same service. */
static void back_off(struct worker *w, double *delay_s, const struct prony_error *why)
{
    double wait_s = *delay_s * (0.5 + prn_random_double(&w->random));
    PRN_LOG(w->log, PRN_LOG_WARNING, "worker.disconnected", PRN_LOG_TEXT("reason", why->text),
            PRN_LOG_NUMBER("again_in_s", wait_s));
    double idle_s = idle_until_s(w);
    double until_s = fmin(now_s() + wait_s, idle_s);
    worker_lock(w);
    while (!w->leaving && now_s() < until_s)
        wait_for_change_locked(w, until_s);
    w->leaving = w->leaving || now_s() >= idle_s; /* as if it were connected */
    worker_unlock(w);
    *delay_s = *delay_s * 2 < BACKOFF_MOST_S ? *delay_s * 2 : BACKOFF_MOST_S;
}

static int keep_connected(struct worker *w, struct prony_error *err)
{
    double delay_s = BACKOFF_FIRST_S;
    w->idle_since_s = now_s();
    while (!is_leaving(w)) {
        struct prony_error why = {0};
        double began_s = now_s();
        w->answered = false;
        int code = connect_once(w, &why);
        if (code == 0 || is_leaving(w))
            break;
        if (is_final(code))
            return prn_fail(err, code, "'%s' refuses this worker: %s", w->options->server,
                            why.text);
        if (w->handoff_fd >= 0)
            return prn_fail(err, code, "%s", why.text); /* the service starts another one */
        if (w->answered || now_s() - began_s > STEADY_S)
            delay_s = BACKOFF_FIRST_S;
        back_off(w, &delay_s, &why);
    }
    PRN_LOG(w->log, PRN_LOG_INFO, "worker.left", PRN_LOG_TEXT("server", w->options->server));
    return 0;
}

/* ---- Start and end ---- */

static int read_text(const char *path, size_t limit, char **ret_text, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(limit);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "read", path);
    int code = prn_buffer_read_fd(&text, fd, path, err);
    close(fd);
    *ret_text = code == 0 ? prn_buffer_detach(&text) : NULL;
    prn_buffer_release(&text);
    return code == 0 && !*ret_text ? prn_fail_memory(err) : code;
}

static int read_token(struct worker *w, struct prony_error *err)
{
    const struct prn_worker_options *o = w->options;
    if (!o->token_file && !o->join_file)
        return 0;
    if (o->token_file && o->join_file)
        return prn_fail(err, PRONY_EUSAGE, "--token-file and --join-file can't be used together");
    if (o->insecure && prn_remote_is_secure(o->server, false, NULL))
        return prn_fail(err, PRONY_EUSAGE,
                        "a token isn't sent to '%s' without TLS: leave --insecure or %s out",
                        o->server, o->token_file ? "--token-file" : "--join-file");
    w->is_key = o->join_file != NULL;
    if (w->is_key)
        return prn_worker_read_key(o->join_file, &w->token, err);
    int code = read_text(o->token_file, SECRET_MAX, &w->token, err);
    if (code < 0)
        return code;
    w->token[strcspn(w->token, " \t\r\n")] = '\0';
    return w->token[0] ? 0 : prn_fail(err, PRONY_EFORMAT, "'%s' has no token", o->token_file);
}

/* A worker that a service started is told a key, which proves that it is that one. */
static int read_handoff(struct worker *w, char key[PRN_WORKER_KEY_MAX + 1], struct prony_error *err)
{
    const char *number = secure_getenv(PRN_WORKER_HANDOFF_VARIABLE);
    char *end = NULL;
    key[0] = '\0';
    if (!number)
        return 0;
    long fd = strtol(number, &end, 10);
    if (end == number || *end || fd < 0 || fd > INT_MAX || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return prn_fail(err, PRONY_EUSAGE, PRN_WORKER_HANDOFF_VARIABLE " is for prony's own use");
    unsetenv(PRN_WORKER_HANDOFF_VARIABLE);
    w->handoff_fd = (int)fd;
    struct pollfd wait = {.fd = w->handoff_fd, .events = POLLIN};
    ssize_t n =
        poll(&wait, 1, KEY_WAIT_MS) > 0 ? recv(w->handoff_fd, key, PRN_WORKER_KEY_MAX, 0) : -1;
    if (n <= 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "the service that started this worker is gone");
    key[n] = '\0';
    return 0;
}

/* Without being told, only where nobody from outside comes by: on this machine, and in a job of a
 * scheduler. */
static int listen_for_stages(struct worker *w, struct prony_error *err)
{
    const struct prn_worker_options *o = w->options;
    char address[PRN_LINK_PEER_MAX];
    int link_fd;
    bool told = o->peers && strcmp(o->peers, "auto") != 0;
    if (o->peers ? strcmp(o->peers, "none") == 0
                 : prn_remote_is_secure(o->server, false, NULL) && !w->hello.job)
        return 0;
    int code = told ? 0 : prn_link_address_towards(o->server, address, err);
    if (code == 0)
        code = prn_link_listen(told ? o->peers : address, &link_fd, w->peer, err);
    if (code < 0)
        return o->peers ? prn_fail_in(err, code, "--peers") : 0;
    /* Not one of those that a job gets it under. */
    w->link_fd = fcntl(link_fd, F_DUPFD_CLOEXEC, PRN_JOB_LINK_FD + 1);
    close(link_fd);
    if (w->link_fd < 0)
        return prn_fail_errno(err, errno, "keep", "a socket");
    w->hello.peer = w->peer;
    return 0;
}

static int worker_prepare(struct worker *w, struct prony_error *err)
{
    char key[PRN_WORKER_KEY_MAX + 1];
    const char *ca = prn_remote_ca(w->options->server, w->options->insecure, w->options->ca_file);
    int code = read_handoff(w, key, err);
    if (code == 0)
        code = read_token(w, err);
    if (code == 0 && ca)
        code = read_text(ca, (size_t)1 << 20, &w->ca, err);
    if (code == 0)
        code = prn_worker_hello(w->options, key[0] ? key : NULL, &w->arena, &w->hello, err);
    if (code == 0)
        code = listen_for_stages(w, err);
    return code;
}

static int run_watched(struct worker *w, struct prony_error *err)
{
    pthread_t watcher;
    int error = pthread_create(&watcher, NULL, watch, w);
    if (error)
        return prn_fail_errno(err, error, "start", "a thread");
    int code = keep_connected(w, err);
    eventfd_write(w->stop_fd, 1);
    pthread_join(watcher, NULL);
    return code;
}

static void init(struct worker *w, const struct prn_worker_options *options) PRN_ALONE
{
    *w = (struct worker){.options = options,
                         .handoff_fd = -1,
                         .link_fd = -1,
                         .signal_fd = -1,
                         .stop_fd = -1,
                         .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    prn_condition_init(&w->changed);
    prn_random_seed(&w->random, (uint64_t)getpid() * 1000003 + (uint64_t)time(NULL));
}

static void worker_release(struct worker *w)
{
    const int fds[] = {w->signal_fd, w->stop_fd, w->handoff_fd, w->link_fd};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(w->token);
    free(w->ca);
    prn_log_free(w->log);
    prn_arena_release(&w->arena);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

int prn_work(const struct prn_worker_options *options, struct prony_error *err)
{
    static struct worker w;
    sigset_t signals;
    sigset_t former;
    init(&w, options);
    if ((options->python && setenv("PRONY_PYTHON", options->python, 1) < 0) ||
        (options->log_format && setenv("PRONY_LOG_FORMAT", options->log_format, 1) < 0))
        return prn_fail_memory(err);
    /* Blocked before there is any other thread, so that only the watcher gets them. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, &former);
    w.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    w.stop_fd = eventfd(0, EFD_CLOEXEC);
    enum prn_log_format format = PRN_LOG_FORMAT_TEXT;
    int code = options->log_format ? prn_log_format_parse(options->log_format, &format, err) : 0;
    w.log = prn_log_new(STDERR_FILENO, format);
    if (code == 0 && (w.signal_fd < 0 || w.stop_fd < 0))
        code = prn_fail_errno(err, errno, "watch", "signals");
    if (code == 0 && !w.log)
        code = prn_fail_memory(err);
    if (code == 0)
        code = worker_prepare(&w, err);
    if (code == 0)
        code = run_watched(&w, err);
    worker_release(&w);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return code;
}
