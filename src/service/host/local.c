/*
 * Hosts of this machine. The service starts `prony worker` for each, like anybody would elsewhere;
 * it only starts executors, and hands them over: a socket that both inherit carries their
 * descriptors. From then on the host's thread here loads and runs models on them directly.
 */
#include "service/host/host.h"

#include "base/clock.h"
#include "base/spawn.h"
#include "base/text.h"
#include "exec/handle.h"

#include <openssl/crypto.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY_BYTES 32
#define KILLED_NS ((int64_t)20 * 1000000) /* until one that was killed has ended */
#define HANDOFF_FD 3
#define SPAWN_S 60.0                             /* for an executor to start */
#define BACK_OFF_MIN_NS ((int64_t)200 * 1000000) /* before a worker that ended is started again */
#define BACK_OFF_MAX_NS ((int64_t)30 * 1000000000)
#define STOP_MS 3000
/* For one whose connection was lost to end, or to come back; then it hangs, and is killed. */
#define HUNG_NS ((int64_t)500 * 1000000)
#define JOIN_NS ((int64_t)60 * 1000000000) /* for one that was started to connect */
/* After so many, hosts of this worker are nothing to wait for; it is tried again all the same. */
#define FAILURES_MAX 3
/* How long an executor that is alone on its host may wait for work before it is stopped: to stop
 * and to resume it takes a tenth of a small run. */
#define PARK_NS ((int64_t)20 * 1000000)
/* How long the network's thread may wait for a run, and other calls for that thread. */
#define QUICK_NS ((int64_t)500 * 1000)

struct prn_local {
    char hardware[256];
    char key[2 * KEY_BYTES + 1];
    pid_t pid; /* 0: not running */
    int handoff_fd;
    bool wanted;
    int64_t start_ns, back_off_ns;
    bool joined;           /* since it was started */
    unsigned failures;     /* how often, in a row, it ended before it had joined */
    struct prn_host *host; /* NULL: not connected */
    int64_t kill_ns;       /* its connection was lost: when it is killed; 0: never */
    struct prn_local *next;
};

/* ---- The thread of a host ---- */

void prn_local_wake(struct prn_host *host)
{
    pthread_cond_signal(&host->work);
}

/* There is something to do. */
static void wake_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    host->parked = false;
    prn_local_wake(host);
}

/* The descriptors of an executor follow a packet with its number; those of one that nobody waited
 * for are passed over. */
static int receive_handle(int fd, uint64_t wanted, struct prn_executor_handle *ret_handle,
                          struct prony_error *err)
{
    for (;;) {
        uint64_t number;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, (int)(SPAWN_S * 1e3)) != 1 ||
            recv(fd, &number, sizeof number, 0) != sizeof number)
            return prn_fail(err, PRONY_EUNAVAILABLE, "the worker handed no executor over");
        int code = prn_executor_handle_receive(fd, ret_handle, err);
        if (code < 0 || number == wanted)
            return code;
        prn_executor_handle_release(ret_handle);
    }
}

/* Takes the executor over that the worker has started. */
static int receive_executor(struct prn_held *held, int handoff_fd, struct prn_instance *instance,
                            uint64_t number, struct prony_error *err)
{
    struct prn_executor_handle handle;
    struct prn_executor *executor;
    int code = receive_handle(handoff_fd, number, &handle, err);
    if (code < 0)
        return code;
    code = prn_executor_adopt(&handle, held->session->limits.run_timeout_s, &held->cancelled,
                              &executor, err);
    if (code == 0)
        code = prn_instance_adopt(instance, executor, err);
    prn_executor_handle_release(&handle);
    return code;
}

static int spawn_executor(struct prn_held *held, size_t k, struct prony_error *err)
{
    struct prn_service *s = held->session->service;
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__Spawn spawn = PRONY__SPAWN__INIT;
    spawn.backend = (uint32_t)k;
    command.body_case = PRONY__WORKER_COMMAND__BODY_SPAWN;
    command.spawn = &spawn;
    prn_service_lock(s);
    int handoff_fd = held->host->local->handoff_fd;
    Prony__WorkerReport *report = prn_host_call_locked(held->host, &command, SPAWN_S, err);
    prn_service_unlock(s);
    if (!report)
        return err->code;
    bool spawned = report->body_case == PRONY__WORKER_REPORT__BODY_SPAWNED;
    uint64_t number = spawned ? report->spawned->handle : 0;
    protobuf_c_message_free_unpacked(&report->base, NULL);
    if (!spawned)
        return prn_fail(err, PRONY_EUNAVAILABLE, "the worker answered something else");
    return receive_executor(held, handoff_fd, held->instances[k], number, err);
}

/* An instance with an executor that is alive. */
static int ready_instance(struct prn_held *held, size_t k, struct prony_error *err)
{
    struct prn_session *session = held->session;
    struct prn_service *s = session->service;
    char folder[PATH_MAX];
    if (!held->instances[k]) {
        snprintf(folder, sizeof folder, "%.3000s/%s", s->sessions_folder, session->name);
        const struct prn_instance_config config = {
            .spec = &session->backends[held->backends[k]],
            .folder = folder,
            .cache_folder = s->cache[0] ? s->cache : NULL,
            .timeout_s = session->limits.run_timeout_s,
            .memory_bytes = (int64_t)session->limits.session_memory_bytes,
            .cancelled = &held->cancelled};
        int code = prn_instance_new(&config, &held->instances[k], err);
        if (code < 0)
            return code;
    }
    return prn_instance_alive(held->instances[k]) ? 0 : spawn_executor(held, k, err);
}

/* No executor of the session runs: something else is to be timed, or nothing was to be done for a
 * while. */
static void park_all(struct prn_held *held)
{
    for (size_t k = 0; k < held->n_backends; k++)
        if (held->instances[k])
            prn_instance_park(held->instances[k]);
}

/* Its threads spin even when it has nothing to do, and the next backend is to have the host for
 * itself. */
static void park_among_others(struct prn_held *held, size_t k)
{
    if (held->n_backends > 1)
        prn_instance_park(held->instances[k]);
}

static int local_load(struct prn_part *part, size_t k, struct prn_task_outcome *o,
                      struct prony_error *err)
{
    struct prn_task *task = part->task;
    struct prn_held *held = part->held;
    size_t backend = held->backends[k];
    char path[PATH_MAX];
    struct prn_instance_loaded loaded;
    int code = prn_model_place(held->session, task->files[backend], task->model_id, backend,
                               (int)task->load->model_format, path, err);
    if (code == 0)
        code = ready_instance(held, k, err);
    if (code < 0)
        return code;
    const struct prn_instance_model model = {
        .id = task->model_id,
        .path = path,
        .n_inputs = task->load->n_input_names,
        .n_outputs = task->load->n_output_names,
        .input_names = (const char *const *)task->load->input_names,
        .output_names = (const char *const *)task->load->output_names};
    code = prn_instance_load(held->instances[k], &model, &loaded, err);
    park_among_others(held, k);
    if (code < 0)
        return code;
    /* The task's other hosts use its arena, too. */
    prn_service_lock(task->service);
    o->load_ns = loaded.load_ns;
    o->version = prn_arena_strdup(&task->arena, loaded.version);
    o->sandbox = prn_arena_strdup(&task->arena, loaded.sandbox);
    prn_service_unlock(task->service);
    return 0;
}

static struct prn_instance_run run_of(const struct prn_part *part, size_t k)
{
    const struct prn_task *task = part->task;
    const struct prn_rpc_run *q = &task->run;
    const struct prn_rpc_map *map = q->n_maps ? &q->maps[part->held->backends[k]] : NULL;
    return (struct prn_instance_run){.model_id = task->model_id,
                                     .bytes = task->bytes,
                                     .inputs = q->inputs,
                                     .map = map ? map->indices : NULL,
                                     .n_map = map ? map->n : q->n_inputs,
                                     .warmups = q->warmups,
                                     .repeats = q->repeats,
                                     .repeat_for_ms = q->repeat_for_ms,
                                     .outputs = q->inference,
                                     .deadline_ns = task->deadline_ns,
                                     .begun = part->begun};
}

static int local_run(struct prn_part *part, size_t k, struct prn_task_outcome *o,
                     struct prony_error *err)
{
    struct prn_held *held = part->held;
    int code = ready_instance(held, k, err);
    if (code < 0)
        return code;
    const struct prn_instance_run run = run_of(part, k);
    code = prn_instance_run(held->instances[k], &run, &o->result, err);
    park_among_others(held, k);
    return code;
}

/* The worker starts all executors of a session at the same time. Before the first model is loaded,
 * all of them are there, so that no load or run has another one beside it. */
static void settle_instances(struct prn_held *held)
{
    struct prony_error ignored; /* the load itself will find it again */
    for (size_t k = 0; k < held->n_backends; k++)
        if (ready_instance(held, k, &ignored) == 0)
            park_among_others(held, k);
    held->settled = true;
}

/* The worker measures, and its events come by themselves. */
static void measure_locked(struct prn_part *part) PRN_HOLDS(prn_service)
{
    struct prn_held *held = part->held;
    struct prn_host *host = held->host;
    struct prony_error err;
    park_all(held);
    part->command_id = prn_host_measure_locked(part);
    while (part->command_id && part->at < held->n_backends && !host->gone)
        prn_service_wait_locked(host->service, &host->answered, INT64_MAX);
    if (part->at < held->n_backends) {
        prn_fail(&err, PRONY_EUNAVAILABLE, "the host was lost while it measured%s%s",
                 host->why[0] ? ": " : "", host->why);
        prn_part_fail_all_locked(part, err.code, err.text);
    }
    part->command_id = 0;
}

/* And wakes the host's thread, if that isn't the caller: to stop the executor again, or to do what
 * has come meanwhile. */
static void end_part_locked(struct prn_part *part) PRN_HOLDS(prn_service)
{
    struct prn_held *held = part->held;
    struct prn_host *host = held->host;
    host->worked_ns = prn_monotonic_ns();
    prn_part_end_locked(part);
    if (host->parked || held->first || held->ending || host->gone)
        wake_locked(host);
}

/* Without the lock: does the host's `now` to its end. */
static void work_part(struct prn_part *part)
{
    struct prn_task *task = part->task;
    struct prn_service *s = task->service;
    struct prn_held *held = part->held;
    struct prony_error err;
    prn_service_lock(s);
    int code = prn_host_begin_locked(held, &err);
    if (code < 0)
        prn_part_fail_all_locked(part, code, err.text);
    else if (task->kind == PRN_TASK_MEASURE)
        measure_locked(part);
    for (; prn_part_next_locked(part); part->at++) {
        size_t k = prn_part_backend(part);
        struct prn_task_outcome *o = &task->outcomes[held->backends[k]];
        prn_service_unlock(s);
        if (task->kind == PRN_TASK_LOAD && !held->settled)
            settle_instances(held);
        code = task->kind == PRN_TASK_LOAD ? local_load(part, k, o, &err)
                                           : local_run(part, k, o, &err);
        prn_service_lock(s);
        if (code < 0 && held->host->gone && held->host->why[0])
            code = prn_fail(&err, PRONY_EUNAVAILABLE, "the host was lost while it ran: %s",
                            held->host->why);
        if (code < 0)
            prn_task_fail(part, held->backends[k], code, err.text);
    }
    end_part_locked(part);
    prn_service_unlock(s);
}

/* The thread of the host has to wake up first, and then the executor: a small run of one that is
 * alone there is started right away, by the network's thread, which also waits for it unless that
 * takes long. While the host's thread is at nothing, and with the lock, it doesn't use the
 * instance. */
bool prn_local_work_locked(struct prn_held *held, struct prn_part *part)
{
    struct prn_host *host = held->host;
    bool idle = held->first == part && !held->now && !held->ending && held->told && !host->gone;
    if (idle && part->task->kind == PRN_TASK_RUN && held->n_backends == 1 && held->instances[0]) {
        const struct prn_instance_run run = run_of(part, 0);
        part->begun = prn_instance_run_begin(held->instances[0], &run);
    }
    if (part->begun && held->session->n_held == 1) {
        prn_part_take_locked(held);
        return true;
    }
    wake_locked(host);
    return false;
}

void prn_local_finish(struct prn_part *part)
{
    struct prn_service *s = part->task->service;
    struct prn_held *held = part->held;
    const struct prn_instance_run run = run_of(part, 0);
    if (prn_instance_run_wait(held->instances[0], &run, QUICK_NS)) {
        work_part(part);
        return;
    }
    prn_service_lock(s);
    prn_part_put_back_locked(part);
    wake_locked(held->host);
    prn_service_unlock(s);
}

/* Without the lock: ends the executors of a session that is closed. */
static void end_instances(struct prn_held *held)
{
    for (size_t k = 0; k < held->n_backends; k++) {
        prn_instance_free(held->instances[k]);
        held->instances[k] = NULL;
    }
}

/* Without the lock: the session is closed, and its reference the caller's to give. */
static void end_session(struct prn_host *host, struct prn_held *held)
{
    struct prn_session *session = held->session;
    struct prn_service *s = host->service;
    end_instances(held);
    prn_service_lock(s);
    prn_held_abandon_locked(held, PRONY_ECANCELED, "the session was closed");
    if (host->held == held && !host->gone)
        prn_host_send_end_locked(held);
    prn_session_unref_locked(session);
    prn_service_unlock(s);
}

/* What the thread of a host is to do next, if anything. */
struct work {
    struct prn_part *part;
    struct prn_held *ending; /* with a reference to its session */
};

static struct work next_work_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    struct prn_held *held = host->held;
    if (!held || held->now)
        return (struct work){0};
    if (!held->ending)
        return (struct work){.part = prn_part_take_locked(held)};
    if (host->due_ns)
        return (struct work){0}; /* the worker is at it */
    prn_session_ref_locked(held->session);
    return (struct work){.ending = held};
}

/* True: nothing came, and the executors are stopped. */
static bool wait_a_while_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    struct prn_service *s = host->service;
    const struct prn_held *held = host->held;
    int64_t until_ns = prn_monotonic_ns() + PARK_NS;
    if (held && prn_service_wait_locked(s, &host->work, until_ns))
        return false;
    if (host->held && (host->held->now || host->worked_ns + PARK_NS > until_ns))
        return false;
    if (host->held && !host->held->first && !host->held->ending)
        park_all(host->held);
    return host->held == held;
}

/* Without the lock: the worker has gone, and the session does without. */
static void lose_session(struct prn_host *host, struct prn_held *held)
{
    struct prn_service *s = host->service;
    struct prn_session *session = held->session;
    end_instances(held);
    prn_service_lock(s);
    prn_host_lose_locked(host);
    prn_sessions_settle_locked(s);
    prn_session_unref_locked(session);
    prn_service_unlock(s);
}

static void *serve_host(void *opaque)
{
    struct prn_host *host = opaque;
    struct prn_service *s = host->service;
    prn_service_lock(s);
    while (!host->gone || (host->held && host->held->now)) {
        const struct work work = next_work_locked(host);
        if (work.part || work.ending) {
            host->parked = false;
            prn_service_unlock(s);
            if (work.part)
                work_part(work.part);
            else
                end_session(host, work.ending);
            prn_service_lock(s);
        } else if (host->parked) {
            prn_service_wait_locked(s, &host->work, INT64_MAX);
        } else {
            host->parked = wait_a_while_locked(host);
        }
    }
    struct prn_held *held = host->held;
    if (held) {
        prn_session_ref_locked(held->session);
        prn_service_unlock(s);
        lose_session(host, held);
        prn_service_lock(s);
    }
    host->local->host = NULL;
    s->n_threads--;
    pthread_cond_signal(&s->wake);
    prn_host_unref_locked(host);
    prn_service_unlock(s);
    return NULL;
}

static void keep_promise_locked(struct prn_service *s, const struct prn_local *changed)
    PRN_HOLDS(prn_service);

int prn_local_attach_locked(struct prn_host *host, struct prony_error *err)
{
    pthread_t thread;
    pthread_attr_t detached;
    if (host->local->host)
        return prn_fail(err, PRONY_EUSAGE, "this worker is connected already");
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    host->references++;
    int error = pthread_create(&thread, &detached, serve_host, host);
    pthread_attr_destroy(&detached);
    if (error) {
        host->references--;
        return prn_fail(err, PRONY_ENOMEM, "cannot start a thread");
    }
    host->service->n_threads++;
    host->local->host = host;
    host->local->back_off_ns = BACK_OFF_MIN_NS;
    host->local->joined = true;
    host->local->kill_ns = 0;
    if (host->local->failures > 0) {
        host->local->failures = 0;
        keep_promise_locked(host->service, host->local);
    }
    return 0;
}

/* ---- Workers as processes ---- */

/* Hosts can be waited for as long as somebody may bring them. */
static void keep_promise_locked(struct prn_service *s, const struct prn_local *changed)
    PRN_HOLDS(prn_service)
{
    const struct prn_config_pool *pool = prn_config_pool(&s->config, changed->hardware);
    size_t hosts = 0;
    for (const struct prn_local *local = s->locals; local; local = local->next)
        hosts += local->wanted && local->failures < FAILURES_MAX &&
                 strcmp(local->hardware, changed->hardware) == 0;
    struct prony_error err;
    if (pool && pool->local.count == 0)
        hosts = prn_config_pool_promises(pool);
    if (pool && pool->type == PRN_POOL_LOCAL &&
        prn_queue_promise(s->queue, pool->hardware, hosts, prn_monotonic_ns(), &err) < 0)
        PRN_LOG(s->log, PRN_LOG_ERROR, "worker.start", PRN_LOG_TEXT("error", err.text));
}

static void count_failure_locked(struct prn_service *s, struct prn_local *local)
    PRN_HOLDS(prn_service)
{
    if (++local->failures != FAILURES_MAX)
        return;
    keep_promise_locked(s, local);
    prn_sessions_settle_locked(s); /* who waited for what nobody will bring */
}

struct prn_local *prn_local_find_locked(struct prn_service *s, const char *key)
{
    struct prn_local *local = s->locals;
    while (local && (strlen(key) != 2 * KEY_BYTES || !local->key[0] ||
                     CRYPTO_memcmp(local->key, key, 2 * KEY_BYTES) != 0))
        local = local->next;
    return local;
}

/* A new key for each process: that of one that ended is worth nothing. */
static int make_key(struct prn_local *local)
{
    unsigned char key[KEY_BYTES];
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return -1;
    prn_text_hex(key, sizeof key, local->key);
    return 0;
}

extern char **environ;

/* What a worker is told beside its arguments: a variable, or NULL. */
enum { WORKER_VARIABLES = 2 };

static bool is_set(const char *entry, char *const variables[WORKER_VARIABLES])
{
    const size_t length = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < WORKER_VARIABLES; i++)
        if (variables[i] && strncmp(entry, variables[i], length) == 0)
            return true;
    return false;
}

/* The environment, with these in place of what it has of them. */
static char **worker_environment(char *const variables[WORKER_VARIABLES])
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **copy = calloc(n + WORKER_VARIABLES + 1, sizeof *copy);
    if (!copy)
        return NULL;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_set(environ[i], variables))
            copy[kept++] = environ[i];
    for (size_t i = 0; i < WORKER_VARIABLES; i++)
        if (variables[i])
            copy[kept++] = variables[i];
    return copy;
}

static int spawn_worker_locked(struct prn_service *s, struct prn_local *local, int child_fd)
    PRN_HOLDS(prn_service)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char handoff[64];
    char python[PATH_MAX + 32];
    snprintf(handoff, sizeof handoff, "PRONY_WORKER_HANDOFF=%d", HANDOFF_FD);
    snprintf(python, sizeof python, "PRONY_PYTHON=%s", s->config.python ? s->config.python : "");
    char *const variables[WORKER_VARIABLES] = {handoff, s->config.python ? python : NULL};
    char **environment = worker_environment(variables);
    if (!environment)
        return ENOMEM;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, child_fd, HANDOFF_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, HANDOFF_FD + 1);
    prn_spawn_apart(&attributes);
    char *argv[] = {(char[]){"prony"},
                    (char[]){"worker"},
                    (char[]){"--server"},
                    s->worker_address,
                    (char[]){"--hardware"},
                    local->hardware,
                    (char[]){"--log-format"},
                    (char *)(uintptr_t)s->config.log_format,
                    NULL};
    int error =
        posix_spawn(&local->pid, "/proc/self/exe", &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    if (error)
        local->pid = 0;
    return error;
}

static void start_worker_locked(struct prn_service *s, struct prn_local *local)
    PRN_HOLDS(prn_service)
{
    int sockets[2];
    int error = 0;
    local->back_off_ns = local->back_off_ns ? local->back_off_ns * 2 : BACK_OFF_MIN_NS;
    if (local->back_off_ns > BACK_OFF_MAX_NS)
        local->back_off_ns = BACK_OFF_MAX_NS;
    /* One that can't be started isn't tried again at every look; when one ends, reap_locked() sets
     * this again. */
    local->start_ns = prn_monotonic_ns() + local->back_off_ns;
    if (make_key(local) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        error = errno;
    } else {
        /* Above the number that it gets in the child. */
        int child_fd = fcntl(sockets[1], F_DUPFD_CLOEXEC, HANDOFF_FD + 1);
        close(sockets[1]);
        error = child_fd < 0 ? errno : spawn_worker_locked(s, local, child_fd);
        if (child_fd >= 0)
            close(child_fd);
        if (!error && send(sockets[0], local->key, 2 * KEY_BYTES, MSG_NOSIGNAL) < 0)
            error = errno;
        local->handoff_fd = sockets[0];
    }
    local->joined = false;
    local->kill_ns = prn_monotonic_ns() + JOIN_NS;
    if (error) {
        PRN_LOG(s->log, PRN_LOG_ERROR, "worker.start", PRN_LOG_TEXT("error", strerror(error)));
        count_failure_locked(s, local);
    }
}

void prn_local_lost_locked(struct prn_host *host)
{
    struct prn_service *s = host->service;
    struct prn_local *local = host->local;
    siginfo_t ended = {0};
    if (local->pid == 0 || local->host != host)
        return;
    local->kill_ns = prn_monotonic_ns() + HUNG_NS;
    prn_service_look_by_locked(s, local->kill_ns);
    bool known = waitid(P_PID, (id_t)local->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
    snprintf(host->why, sizeof host->why, "%s",
             known && ended.si_pid ? "its worker ended" : "its worker stopped answering");
}

/* One that hangs doesn't end by itself. What it started ends with it. */
static void kill_hung_locked(struct prn_service *s, struct prn_local *local, int64_t now_ns)
    PRN_HOLDS(prn_service)
{
    if (local->pid == 0 || local->kill_ns == 0 || local->kill_ns > now_ns || s->stopping)
        return;
    PRN_LOG(s->log, PRN_LOG_WARNING, "worker.hung", PRN_LOG_TEXT("hardware", local->hardware),
            PRN_LOG_INTEGER("pid", local->pid));
    kill(local->pid, SIGKILL);
    local->kill_ns = 0;
    prn_service_look_by_locked(s, now_ns + KILLED_NS);
}

/* Takes note of a process that has ended. */
static void reap_locked(struct prn_service *s, struct prn_local *local, int64_t now_ns)
    PRN_HOLDS(prn_service)
{
    int status;
    if (local->pid == 0 || waitpid(local->pid, &status, WNOHANG) != local->pid)
        return;
    PRN_LOG(s->log, s->stopping ? PRN_LOG_INFO : PRN_LOG_WARNING, "worker.ended",
            PRN_LOG_TEXT("hardware", local->hardware),
            PRN_LOG_INTEGER("status", WIFEXITED(status) ? WEXITSTATUS(status) : -1),
            PRN_LOG_INTEGER("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0));
    local->pid = 0;
    local->kill_ns = 0;
    local->key[0] = '\0';
    local->start_ns = now_ns + local->back_off_ns;
    if (!local->joined && !s->stopping)
        count_failure_locked(s, local);
}

static void close_handoff(struct prn_local *local)
{
    if (local->handoff_fd >= 0)
        close(local->handoff_fd);
    local->handoff_fd = -1;
}

int64_t prn_locals_tick_locked(struct prn_service *s, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;
    for (struct prn_local *local = s->locals; local; local = local->next) {
        kill_hung_locked(s, local, now_ns);
        reap_locked(s, local, now_ns);
        if (local->kill_ns > 0 && local->kill_ns < next_ns)
            next_ns = local->kill_ns;
        /* One that takes no further session leaves when the last one has ended. */
        const struct prn_host *host = local->host;
        if (local->pid && host && host->place && !host->held &&
            prn_queue_host_draining(host->place))
            kill(local->pid, SIGTERM);
        /* The thread of its host still uses the socket of the one before. */
        if (local->pid == 0 && !local->host)
            close_handoff(local);
        if (local->pid == 0 && !local->host && local->wanted && !s->stopping) {
            if (local->start_ns <= now_ns)
                start_worker_locked(s, local);
            else if (local->start_ns < next_ns)
                next_ns = local->start_ns;
        }
    }
    return next_ns;
}

/* Pools that the file has no more: nothing is promised of them, and their workers go. */
static int forget_pools_locked(struct prn_service *s, struct prony_error *err)
    PRN_HOLDS(prn_service)
{
    struct prn_queue_hardware hardware;
    int code = 0;
    for (struct prn_local *local = s->locals; local; local = local->next)
        local->wanted = local->wanted && prn_config_pool(&s->config, local->hardware);
    for (size_t i = 0; code == 0 && prn_queue_hardware(s->queue, i, &hardware); i++)
        if (!prn_config_pool(&s->config, hardware.name))
            code = prn_queue_promise(s->queue, hardware.name, 0, prn_monotonic_ns(), err);
    return code;
}

int prn_locals_start_locked(struct prn_service *s, struct prony_error *err)
{
    int code = forget_pools_locked(s, err);
    if (code < 0)
        return code;
    s->pools_ns = prn_monotonic_ns();
    for (size_t i = 0; i < s->config.n_pools; i++) {
        const struct prn_config_pool *pool = &s->config.pools[i];
        code = prn_queue_promise(s->queue, pool->hardware, prn_config_pool_promises(pool),
                                 prn_monotonic_ns(), err);
        if (code < 0)
            return code;
        size_t n = 0;
        for (struct prn_local *local = s->locals; local; local = local->next)
            if (strcmp(local->hardware, pool->hardware) == 0) {
                local->wanted = n++ < pool->local.count;
                local->failures = 0;
            }
        for (; n < pool->local.count; n++) {
            struct prn_local *local = calloc(1, sizeof *local);
            if (!local)
                return prn_fail_memory(err);
            snprintf(local->hardware, sizeof local->hardware, "%s", pool->hardware);
            local->handoff_fd = -1;
            local->wanted = true;
            local->next = s->locals;
            s->locals = local;
        }
    }
    for (struct prn_local *local = s->locals; local; local = local->next)
        if (!local->wanted && local->host && local->host->place)
            prn_queue_drain_host(s->queue, local->host->place, prn_monotonic_ns());
    prn_sessions_settle_locked(s);
    return 0;
}

/* Without the lock, after the last session: ends the processes, gently for a moment. */
void prn_locals_stop(struct prn_service *s)
{
    prn_service_lock(s);
    s->stopping = true;
    for (struct prn_local *local = s->locals; local; local = local->next)
        if (local->pid)
            kill(local->pid, SIGTERM);
    int64_t patience_ns = prn_monotonic_ns() + (int64_t)STOP_MS * 1000000;
    bool left = true;
    while (left) {
        int64_t now_ns = prn_monotonic_ns();
        left = false;
        for (struct prn_local *local = s->locals; local; local = local->next) {
            reap_locked(s, local, now_ns);
            if (local->pid && now_ns > patience_ns)
                kill(local->pid, SIGKILL);
            left |= local->pid != 0;
        }
        prn_service_unlock(s);
        if (left)
            poll(NULL, 0, 5);
        prn_service_lock(s);
    }
    prn_service_unlock(s);
}

void prn_locals_free(struct prn_service *s)
{
    while (s->locals) {
        struct prn_local *local = s->locals;
        s->locals = local->next;
        close_handoff(local);
        free(local);
    }
}
