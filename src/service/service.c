/* `prony serve`: set-up, the timer, reload and the end. */
#include "service/host/host.h"

#include "base/clock.h"
#include "instance/cache.h"
#include "instance/names.h"
#include "service/audit.h"
#include "service/pool.h"
#include "service/slurm/command.h"
#include "service/slurm/slurm.h"
#include "service/store/accounts.h"
#include "service/store/backup.h"
#include "service/store/history.h"
#include "service/store/lasting.h"
#include "service/store/state.h"
#include "service/tries.h"
#include "service/web/dashboard.h"
#include "service/web/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DISK_THREADS 4
#define TICK_NS ((int64_t)500 * 1000000) /* at most between two looks at everything */
#define LOOK_NS ((int64_t)1000000000)    /* between two looks at tokens */
#define FLUSH_NS ((int64_t)60 * 1000000000)
#define JOIN_NS ((int64_t)20 * 1000000000) /* for its own workers to join before it says ready */
#define DRAIN_NS ((int64_t)60 * 1000000000)
#define STOP_S 2.0
#define RECALL_MAX 10000 /* past sessions, for fair shares */
/* Wrong tokens from one address: at once, and then per second. */
#define TRIES 100
#define TRIES_PER_S 10

#define REMOTE "/octoml_profile.RemoteInference/"
#define PRONY "/prony.Prony/"
#define WORKERS "/prony.Workers/"

/* Begin, message, sent, ended. */
static const struct prn_method methods[] = {
    {REMOTE "Ping", PRN_METHOD_UNARY, prn_ping, NULL, NULL, NULL},
    {REMOTE "ListSupportedBackends", PRN_METHOD_UNARY, prn_list_backends, NULL, NULL, NULL},
    {REMOTE "CreateSession", PRN_METHOD_UNARY, prn_create_session, NULL, NULL, NULL},
    {REMOTE "WaitUntilSessionReady", PRN_METHOD_UNARY, prn_wait_until_ready, NULL, NULL,
     prn_ask_ended},
    {REMOTE "Heartbeat", PRN_METHOD_UNARY, prn_heartbeat, NULL, NULL, NULL},
    {REMOTE "CloseSession", PRN_METHOD_UNARY, prn_close_session, NULL, NULL, prn_ask_ended},
    {REMOTE "LoadModelComponent", PRN_METHOD_CLIENT_STREAM, prn_upload_begin, prn_upload_message,
     NULL, prn_upload_ended},
    {REMOTE "LoadCachedModelComponent", PRN_METHOD_UNARY, prn_load_cached, NULL, NULL, NULL},
    {REMOTE "LoadModel", PRN_METHOD_UNARY, prn_load_model, NULL, NULL, prn_task_ended},
    {REMOTE "Run", PRN_METHOD_UNARY, prn_run, NULL, NULL, prn_task_ended},
    {PRONY "Status", PRN_METHOD_UNARY, prn_status, NULL, NULL, NULL},
    {PRONY "Admin", PRN_METHOD_UNARY, prn_admin, NULL, NULL, NULL},
    {PRONY "Usage", PRN_METHOD_UNARY, prn_usage, NULL, NULL, NULL},
    {PRONY "Runs", PRN_METHOD_BOTH, prn_runs_begin, prn_runs_message, prn_runs_sent,
     prn_task_ended},
    {PRONY "Measure", PRN_METHOD_SERVER_STREAM, prn_measure_model, NULL, prn_task_sent,
     prn_task_ended},
    {WORKERS "Join", PRN_METHOD_UNARY, prn_join, NULL, NULL, NULL},
    {WORKERS "Attach", PRN_METHOD_BOTH, prn_attach_begin, prn_attach_message, prn_attach_sent,
     prn_attach_ended},
    {WORKERS "Fetch", PRN_METHOD_SERVER_STREAM, prn_fetch_begin, NULL, prn_fetch_sent,
     prn_fetch_ended},
    {0},
};

/* ---- The lock ---- */

void prn_service_lock(struct prn_service *s) PRN_ALONE
{
    pthread_mutex_lock(&s->lock);
}

void prn_service_unlock(struct prn_service *s) PRN_ALONE
{
    struct prn_task *done = s->done;
    s->done = NULL;
    s->done_end = &s->done;
    pthread_mutex_unlock(&s->lock);
    prn_tasks_answer(done);
}

bool prn_service_wait_locked(struct prn_service *s, pthread_cond_t *condition, int64_t until_ns)
{
    if (s->done) {
        prn_service_unlock(s);
        prn_service_lock(s);
        return true;
    }
    if (until_ns == INT64_MAX)
        return pthread_cond_wait(condition, &s->lock) == 0;
    const struct timespec until = prn_timespec(until_ns);
    return pthread_cond_timedwait(condition, &s->lock, &until) != ETIMEDOUT;
}

/* ---- Set-up ---- */

/* What sessions of an earlier process left behind goes. */
static int open_sessions_folder(struct prn_service *s, struct prony_error *err)
{
    int code = prn_folder_remove(prn_state_fd(s->state), "sessions", err);
    if (code == 0)
        code = prn_state_subfolder(s->state, "sessions", &s->sessions_fd, err);
    if (code == 0 && (snprintf(s->sessions_folder, sizeof s->sessions_folder, "%s/sessions",
                               prn_state_folder(s->state)) >= (int)sizeof s->sessions_folder ||
                      snprintf(s->worker_address, sizeof s->worker_address, "unix:%s/workers",
                               prn_state_folder(s->state)) >= (int)sizeof s->worker_address))
        code = prn_fail(err, PRONY_ELIMIT, "the state folder's name is too long");
    return code;
}

static int open_state(struct prn_service *s, struct prony_error *err) PRN_ALONE
{
    int code = prn_state_open(s->config.state_folder, true, &s->state, err);
    if (code == 0)
        code = open_sessions_folder(s, err);
    if (code == 0)
        code = prn_audit_open(s->config.audit_file, &s->audit, err);
    if (code == 0)
        code = prn_tokens_new(s->state, &s->tokens, err);
    if (code == 0)
        code = prn_tries_new(TRIES, TRIES_PER_S, &s->tries, err);
    if (code == 0)
        code =
            prn_blobs_open(s->state, s->config.cache_folder, s->config.cache_bytes, &s->blobs, err);
    if (code == 0)
        code = prn_history_new(s->state, NULL, &s->history, err);
    if (code == 0)
        code = prn_accounts_new(s->state, &s->accounts, err);
    /* Who ends with its input has nobody who comes back. */
    if (code == 0 && !s->options->ends_with_input)
        code = prn_lasting_new(s->state, &s->lasting, err);
    if (code == 0)
        code = prn_pool_new(DISK_THREADS, &s->pool, err);
    if (code == 0)
        code = prn_queue_new(&s->queue, err);
    if (code == 0)
        code = prn_known_open(s, err);
    if (code == 0)
        code = prn_slurm_open(s, err);
    return code;
}

static void set_policy_locked(struct prn_service *s) PRN_HOLDS(prn_service)
{
    const struct prn_queue_policy policy = {prn_config_is_fair(&s->config),
                                            s->config.fair.window_s};
    prn_queue_set_policy(s->queue, &policy, prn_monotonic_ns());
}

/* What users had before this process counts, as far as the history goes back. */
static int recall_use(const struct prn_history_session *past, void *opaque) PRN_ALONE
{
    struct prn_service *s = opaque;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prony_error ignored;
    const double ago_s = (double)(prn_wall_clock_ms() - past->ended_ms) * 1e-3;
    const double held_s = (double)(past->ended_ms - past->ready_ms) * 1e-3;
    const char *seen[PRN_SESSION_BACKENDS_MAX];
    size_t n = 0;
    char *rest = prn_arena_strdup(&arena, past->backends);
    char *name;
    while (past->ready_ms > 0 && rest && n < PRN_ARRAY_SIZE(seen) && (name = strsep(&rest, ","))) {
        size_t k = 0;
        name += strspn(name, " ");
        name[strcspn(name, "/")] = 0;
        while (k < n && strcmp(seen[k], name) != 0)
            k++;
        if (k < n || !prn_config_pool(&s->config, name))
            continue;
        seen[n++] = name;
        if (prn_queue_add_past(s->queue, past->user, name, held_s, ago_s > 0 ? ago_s : 0,
                               prn_monotonic_ns(), &ignored) < 0)
            break;
    }
    prn_arena_release(&arena);
    return 0;
}

static int recall_all_use(struct prn_service *s, struct prony_error *err)
{
    return prn_history_sessions(s->history, &(struct prn_history_query){.limit = RECALL_MAX},
                                recall_use, s, err);
}

/* An address as a client must be told: with the port that was chosen. */
static const char *told_address(struct prn_arena *arena, const char *text, int port)
{
    const char *colon = strrchr(text, ':');
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    if (strncmp(text, "unix:", 5) == 0 || !colon)
        prn_buffer_add(&out, text);
    else
        prn_buffer_printf(&out, "%.*s:%d", (int)(colon - text), text, port);
    const char *copy = prn_arena_strdup(arena, prn_buffer_text(&out));
    prn_buffer_release(&out);
    return copy ? copy : text;
}

static int listen_all(struct prn_service *s, const struct prn_server_tls *tls,
                      const char **addresses, struct prony_error *err) PRN_ALONE
{
    const struct prn_config *c = &s->config;
    int port;
    s->ports = PRN_ARENA_ARRAY(&s->config.arena, c->n_listen + 1, int);
    int code = s->ports ? 0 : prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < c->n_listen; i++) {
        code = prn_server_listen(s->server, c->listen[i].text, c->listen[i].tls ? tls : NULL, &port,
                                 err);
        if (code == 0 && port > 0)
            s->ports[s->n_ports++] = port;
        if (code == 0)
            addresses[i] = told_address(&s->config.arena, c->listen[i].text, port);
    }
    /* A socket that an earlier process left would be in the way. */
    if (code == 0) {
        unlink(s->worker_address + strlen("unix:"));
        code = prn_server_listen(s->server, s->worker_address, NULL, &port, err);
    }
    return code;
}

static int start_server(struct prn_service *s, const char **addresses,
                        struct prony_error *err) PRN_ALONE
{
    const struct prn_server_config config = {.methods = methods,
                                             .service = s,
                                             .message_max = s->config.limits.message_bytes,
                                             .finished = prn_watch_call};
    char *certificate = NULL;
    char *key = NULL;
    int code = prn_config_read_tls(&s->config, &certificate, &key, err);
    const struct prn_server_tls tls = {certificate, key};
    const struct prn_http_tls http_tls = {certificate, key};
    if (code == 0)
        prn_watch_certificate(s, certificate);
    if (code == 0)
        code = prn_server_new(&config, &s->server, err);
    if (code == 0)
        code = listen_all(s, &tls, addresses, err);
    if (code == 0)
        code = prn_server_start(s->server, err);
    if (code == 0)
        code = prn_dashboard_start(s, s->tls ? &http_tls : NULL, err);
    free(certificate);
    free(key);
    return code;
}

/* ---- The timer ---- */

void prn_service_look_by_locked(struct prn_service *s, int64_t ns)
{
    if (ns >= s->timer_ns)
        return;
    s->timer_ns = ns;
    pthread_cond_signal(&s->wake);
}

/* Starts workers, too: they end with the thread that started them. */
static void *keep_time(void *opaque)
{
    struct prn_service *s = opaque;
    int64_t flush_ns = prn_monotonic_ns() + FLUSH_NS;
    int64_t look_ns = 0;
    prn_tokens_watch(s->tokens, prn_watch_token, s);
    prn_service_lock(s);
    while (!s->ended) {
        int64_t now_ns = prn_monotonic_ns();
        int64_t next_ns = now_ns + TICK_NS;
        s->timer_ns = INT64_MAX;
        int64_t due[] = {prn_sessions_tick_locked(s, now_ns), prn_hosts_tick_locked(s, now_ns),
                         prn_locals_tick_locked(s, now_ns),   prn_lists_tick_locked(s, now_ns),
                         prn_bookings_tick_locked(s, now_ns), prn_access_tick_locked(s, now_ns)};
        for (size_t i = 0; i < PRN_ARRAY_SIZE(due); i++)
            next_ns = due[i] < next_ns ? due[i] : next_ns;
        if (now_ns >= look_ns) {
            prn_service_unlock(s);
            prn_tokens_look(s->tokens);
            if (now_ns >= flush_ns) {
                prn_blobs_flush(s->blobs);
                prn_usage_flush(s);
            }
            prn_service_lock(s);
            look_ns = now_ns + LOOK_NS;
            flush_ns = now_ns >= flush_ns ? now_ns + FLUSH_NS : flush_ns;
        }
        /* What came while the lock wasn't held. */
        next_ns = s->timer_ns < next_ns ? s->timer_ns : next_ns;
        s->timer_ns = next_ns;
        prn_service_wait_locked(s, &s->wake, next_ns);
    }
    prn_service_unlock(s);
    return NULL;
}

/* Whether all workers of its own are there. */
static bool joined_locked(const struct prn_service *s) PRN_HOLDS(prn_service)
{
    size_t wanted = 0;
    size_t there = 0;
    for (size_t i = 0; i < s->config.n_pools; i++)
        wanted += s->config.pools[i].local.count;
    for (const struct prn_host *host = s->hosts; host; host = host->next)
        there += host->local && host->place;
    return there >= wanted;
}

/* ---- Signals ---- */

static int next_signal(const sigset_t *signals, int64_t wait_ns)
{
    struct timespec t = prn_timespec(wait_ns);
    int signal = wait_ns < 0 ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &t);
    return signal > 0 ? signal : 0;
}

static void say_changes(struct prn_service *s, const struct prn_config *after)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_config_change *changes;
    size_t n;
    struct prony_error err;
    if (prn_config_compare(&s->config, after, &arena, &changes, &n, &err) == 0)
        for (size_t i = 0; i < n; i++)
            PRN_LOG(s->log, PRN_LOG_INFO, "config.change", PRN_LOG_TEXT("what", changes[i].text),
                    PRN_LOG_TEXT("when", changes[i].restart ? "after a restart" : "now"));
    prn_arena_release(&arena);
}

/* The files may be others, or others may be in them. */
static void reload_tls(struct prn_service *s, const struct prn_config *after)
{
    char *certificate = NULL;
    char *key = NULL;
    struct prony_error err;
    if (!s->tls || !after->tls_certificate)
        return;
    int code = prn_config_read_tls(after, &certificate, &key, &err);
    if (code == 0)
        code = prn_server_set_tls(s->server, &(struct prn_server_tls){certificate, key}, &err);
    if (code == 0 && s->http)
        code = prn_http_set_tls(s->http, &(struct prn_http_tls){certificate, key}, &err);
    prn_watch_reloaded(s, certificate, code < 0 ? err.text : NULL);
    free(certificate);
    free(key);
}

/* What can't change while it runs stays as it was. Old texts may be in use, so old configurations
 * are kept: a reload costs a few kilobytes. */
static void reload(struct prn_service *s)
{
    struct prn_config after;
    struct prony_error err;
    int code = prn_config_load(s->options, &after, &err);
    if (code == 0 && (code = prn_slurm_check(&after, s->options->config_file, &err)) < 0)
        prn_config_release(&after);
    if (code < 0) {
        PRN_LOG(s->log, PRN_LOG_ERROR, "config.refused", PRN_LOG_TEXT("error", err.text));
        return;
    }
    say_changes(s, &after);
    reload_tls(s, &after);
    prn_service_lock(s);
    struct prn_old_config *old = calloc(1, sizeof *old);
    if (old) {
        old->config = s->config;
        old->next = s->old_configs;
        s->old_configs = old;
        prn_config_keep(&s->config, &after);
        s->config = after;
        set_policy_locked(s);
        if (prn_locals_start_locked(s, &err) < 0 || prn_slurm_start_locked(s, NULL, &err) < 0)
            PRN_LOG(s->log, PRN_LOG_ERROR, "config.workers", PRN_LOG_TEXT("error", err.text));
        pthread_cond_signal(&s->wake);
    }
    prn_service_unlock(s);
    if (old)
        prn_blobs_set_limit(s->blobs, after.cache_bytes);
    else
        prn_config_release(&after);
}

/* ---- The end of the input ---- */

static atomic_bool input_ended;

/* A signal wakes whoever serves. The thread has nothing of the service's, and ends with the
 * process.
 */
static void *watch_input(void *opaque)
{
    char bytes[64];
    ssize_t n;
    do
        n = read(STDIN_FILENO, bytes, sizeof bytes);
    while (n > 0 || (n < 0 && errno == EINTR));
    atomic_store(&input_ended, true);
    kill(getpid(), SIGTERM);
    return opaque;
}

static int start_watching(struct prony_error *err)
{
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, watch_input, NULL);
    if (failed)
        return prn_fail_errno(err, failed, "start", "a thread");
    pthread_detach(thread);
    return 0;
}

/* ---- The end ---- */

/* No new sessions; those that are there may finish, unless a second signal comes, or who started
 * the service is gone. */
static void service_drain(struct prn_service *s, const sigset_t *signals)
{
    int64_t until_ns = prn_monotonic_ns() + DRAIN_NS;
    prn_server_set_serving(s->server, false);
    prn_service_lock(s);
    PRN_LOG(s->log, PRN_LOG_INFO, "service.drain", PRN_LOG_INTEGER("sessions", s->n_sessions));
    s->draining = true;
    while (s->n_sessions > 0 && prn_monotonic_ns() < until_ns && !atomic_load(&input_ended)) {
        prn_service_unlock(s);
        int signal = next_signal(signals, TICK_NS / 5);
        prn_service_lock(s);
        if (signal == SIGTERM || signal == SIGINT)
            break;
    }
    prn_sessions_close_all_locked(s, "the service ended");
    prn_service_unlock(s);
}

/* The file was renamed, to be kept: what comes goes into a new one. */
static void reopen_audit(struct prn_service *s)
{
    struct prony_error err;
    if (prn_audit_reopen(s->audit, &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "audit", PRN_LOG_TEXT("error", err.text));
    else if (s->audit)
        PRN_LOG(s->log, PRN_LOG_INFO, "audit.reopened",
                PRN_LOG_INTEGER("lost", prn_audit_lost(s->audit)));
}

static void serve_until_signal(struct prn_service *s, const sigset_t *signals)
{
    for (;;) {
        int signal = next_signal(signals, -1);
        if (signal == SIGHUP)
            reload(s);
        if (signal == SIGHUP || signal == SIGUSR1)
            reopen_audit(s);
        if (signal == SIGTERM || signal == SIGINT)
            break;
    }
    service_drain(s, signals);
}

/* ---- From the beginning to the end ---- */

static void wait_for_workers(struct prn_service *s, const sigset_t *signals, bool *ret_ended)
{
    int64_t until_ns = prn_monotonic_ns() + JOIN_NS;
    *ret_ended = false;
    prn_service_lock(s);
    while (!joined_locked(s) && prn_monotonic_ns() < until_ns && !*ret_ended) {
        prn_service_unlock(s);
        int signal = next_signal(signals, 5000000);
        *ret_ended = signal == SIGTERM || signal == SIGINT;
        prn_service_lock(s);
    }
    prn_service_unlock(s);
}

/* Sessions that are closed end when their hosts have let go of them. */
static void wait_for_sessions(struct prn_service *s)
{
    int64_t until_ns = prn_monotonic_ns() + (int64_t)10 * 1000000000;
    prn_service_lock(s);
    while ((!TAILQ_EMPTY(&s->closing) || s->n_threads > 0) && prn_monotonic_ns() < until_ns) {
        prn_service_unlock(s);
        poll(NULL, 0, 5);
        prn_service_lock(s);
    }
    prn_service_unlock(s);
}

static void service_release(struct prn_service *s) PRN_ALONE
{
    prn_slurm_free(s);
    prn_pool_free(s->pool);
    prn_known_close(s);
    prn_queue_free(s->queue);
    prn_leases_release(&s->leases);
    prn_leases_release(&s->times);
    prn_bookings_free(s);
    prn_accounts_free(s->accounts);
    prn_lasting_free(s->lasting);
    prn_history_free(s->history);
    prn_blobs_close(s->blobs);
    prn_tokens_free(s->tokens);
    prn_tries_free(s->tries);
    if (s->sessions_fd >= 0)
        close(s->sessions_fd);
    prn_state_close(s->state);
    prn_metrics_free(s->metrics);
    prn_audit_close(s->audit);
    prn_log_free(s->log);
    prn_config_release(&s->config);
    while (s->old_configs) {
        struct prn_old_config *old = s->old_configs;
        s->old_configs = old->next;
        prn_config_release(&old->config);
        free(old);
    }
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->seen_lock);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Where a machine elsewhere finds the service, as far as it knows itself: an address of its own
 * that isn't a socket in the file system, by the machine's name where it listens everywhere. */
static const char *worker_address(struct prn_service *s, const char *const *addresses) PRN_ALONE
{
    char host[HOST_NAME_MAX + 1] = "localhost";
    const char *found = "";
    for (size_t i = s->config.n_listen; i-- > 0;)
        if (strncmp(addresses[i], "unix:", 5) != 0)
            found = addresses[i];
    if (strncmp(found, "0.0.0.0:", 8) != 0 && strncmp(found, "[::]:", 5) != 0)
        return found;
    gethostname(host, sizeof host - 1);
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    prn_buffer_printf(&out, "%s%s", host, strrchr(found, ':'));
    const char *copy = prn_arena_strdup(&s->config.arena, prn_buffer_text(&out));
    prn_buffer_release(&out);
    return copy ? copy : found;
}

static int service_start(struct prn_service *s, const char **addresses, pthread_t *timer,
                         struct prony_error *err)
{
    int code = prn_slurm_check(&s->config, s->options->config_file, err);
    if (code == 0)
        code = open_state(s, err);
    if (code == 0)
        code = start_server(s, addresses, err);
    if (code < 0)
        return code;
    prn_service_lock(s);
    code = prn_locals_start_locked(s, err);
    if (code == 0)
        code = prn_slurm_start_locked(s, worker_address(s, addresses), err);
    set_policy_locked(s);
    if (code == 0)
        code = recall_all_use(s, err);
    if (code == 0)
        code = prn_bookings_load_locked(s, err);
    if (code == 0)
        code = prn_keep_restore_locked(s, err);
    s->restoring = false;
    prn_service_unlock(s);
    if (code == 0 && pthread_create(timer, NULL, keep_time, s) != 0)
        code = prn_fail(err, PRONY_ENOMEM, "cannot start a thread");
    return code;
}

static void stop(struct prn_service *s, pthread_t timer)
{
    prn_service_lock(s);
    s->draining = true;
    prn_sessions_close_all_locked(s, "the service ended");
    prn_service_unlock(s);
    prn_slurm_stop(s);
    prn_locals_stop(s);
    prn_dashboard_stop(s);
    prn_server_stop(s->server, STOP_S);
    wait_for_sessions(s);
    prn_service_lock(s);
    s->ended = true;
    pthread_cond_signal(&s->wake);
    prn_service_unlock(s);
    pthread_join(timer, NULL);
    prn_usage_flush(s);
    prn_locals_free(s);
    unlink(s->worker_address + strlen("unix:"));
}

static struct prn_service *new_service(const struct prn_serve_options *options) PRN_ALONE
{
    struct prn_service *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->seen_lock, NULL);
    prn_condition_init(&s->wake);
    s->options = options;
    s->sessions_fd = -1;
    s->restoring = true;
    s->start_ns = prn_monotonic_ns();
    s->start_ms = prn_wall_clock_ms();
    TAILQ_INIT(&s->closing);
    s->done_end = &s->done;
    for (size_t i = 0; i < PRN_ASK_KINDS; i++)
        TAILQ_INIT(&s->asks[i]);
    TAILQ_INIT(&s->silent);
    TAILQ_INIT(&s->ending);
    return s;
}

int prn_serve(const struct prn_serve_options *options, struct prony_error *err)
{
    struct prn_service *s = new_service(options);
    pthread_t timer;
    sigset_t signals;
    sigset_t before;
    if (!s)
        return prn_fail_memory(err);
    enum prn_log_format log_format;
    int code = prn_config_load(options, &s->config, err);
    if (code < 0) {
        free(s);
        return code;
    }
    s->tls = s->config.tls_certificate;
    code = prn_log_format_parse(s->config.log_format, &log_format, err);
    if (code < 0) {
        service_release(s);
        return code;
    }
    /* Every thread from here on leaves them to this one. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    signal(SIGPIPE, SIG_IGN);
    s->log = prn_log_new(STDERR_FILENO, log_format);
    if (log_format == PRN_LOG_FORMAT_JSON && options->logs_json)
        options->logs_json();
    prn_watch_start(s);
    const char **addresses =
        PRN_ARENA_ARRAY(&s->config.arena, s->config.n_listen + 1, const char *);
    code = addresses ? 0 : prn_fail_memory(err);
    if (!options->keeps_compiled || !prn_cache_folder(s->cache))
        s->cache[0] = '\0';
    if (code == 0 && options->ends_with_input)
        code = start_watching(err);
    if (code == 0)
        code = service_start(s, addresses, &timer, err);
    if (code == 0) {
        bool ended;
        wait_for_workers(s, &signals, &ended);
        if (!ended) {
            prn_server_set_serving(s->server, true);
            if (options->ready)
                options->ready(addresses, s->config.n_listen, s->page[0] ? s->page : NULL);
            serve_until_signal(s, &signals);
        }
        stop(s, timer);
    }
    prn_dashboard_stop(s);
    prn_server_free(s->server);
    service_release(s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

int prn_backup_command(const struct prn_serve_options *options, const char *file, bool restore,
                       struct prn_buffer *out, struct prony_error *err)
{
    struct prn_config config;
    int code = prn_config_load(options, &config, err);
    if (code < 0)
        return code;
    code = restore ? prn_backup_restore(config.state_folder, file, out, err)
                   : prn_backup_write(config.state_folder, file, out, err);
    prn_config_release(&config);
    return code;
}
