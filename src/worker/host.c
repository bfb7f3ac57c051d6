#include "worker/host.h"

#include "base/spawn.h"
#include "exec/handle.h"
#include "measure/launch.h"
#include "worker/files.h"
#include "worker/job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ARENA_BYTES ((size_t)4 << 20)
#define BACKENDS_MAX 256
#define SESSION_BYTES 16
#define TIMEOUT_DEFAULT_S 120
#define TIMEOUT_MOST_S 1e6
#define EVENT_WAIT_MS 100 /* between looks at whether it was cancelled */

struct prn_worker_host {
    struct prn_worker_host_config config;
    struct prn_arena arena;
    uint8_t session[SESSION_BYTES];
    struct prn_worker_files *files;
    const char *folder; /* that executors may read */
    const char *cache;  /* the same, of what was compiled; NULL: none */
    double timeout_s;
    int64_t memory_bytes;
    size_t n_backends;
    struct prn_spec *specs;
    struct prn_instance **instances; /* NULL: not needed yet */
    bool *launched;                  /* those that started while another was waited for */
    bool all_launched;
};

static uint64_t last_handle; /* numbers are never used twice */

/* ---- The session ---- */

/* A spec as text, which the parser checks as it checks those of users. */
static int read_spec(struct prn_worker_host *h, const OctomlProfile__BackendSpec *given,
                     struct prn_spec *ret_spec, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)64 << 10);
    prn_buffer_printf(&text, "%s/%s", given->hardware_platform, given->software_backend);
    for (size_t i = 0; i < given->n_backend_options; i++) {
        const OctomlProfile__BackendOption *o = given->backend_options[i];
        prn_buffer_printf(&text, "%s%s%s%s", i ? "," : "[", o->key, o->value[0] ? "=" : "",
                          o->value);
    }
    prn_buffer_add(&text, given->n_backend_options ? "]" : "");
    int code = prn_buffer_error(&text, err);
    if (code == 0)
        code = prn_spec_parse(prn_buffer_text(&text), false, &h->arena, ret_spec, err);
    prn_buffer_release(&text);
    /* What the parser made of it must be what was sent. */
    if (code == 0 && (strcmp(ret_spec->hardware, h->config.hardware) != 0 ||
                      strcmp(ret_spec->software, given->software_backend) != 0 ||
                      ret_spec->n_options != given->n_backend_options))
        code = prn_fail(err, PRONY_EUNAVAILABLE, "there is no '%s' on '%s'", ret_spec->name,
                        h->config.hardware);
    return code;
}

static int make_instance(struct prn_worker_host *h, size_t i, struct prony_error *err)
{
    const struct prn_instance_config config = {
        .spec = &h->specs[i],
        .folder = h->folder,
        .cache_folder = h->cache,
        .timeout_s = h->timeout_s,
        .memory_bytes = h->memory_bytes,
        .cancelled = h->config.cancelled,
    };
    return prn_instance_new(&config, &h->instances[i], err);
}

static int read_backends(struct prn_worker_host *h, const Prony__Begin *begin,
                         struct prony_error *err)
{
    size_t n = begin->n_backends;
    if (n == 0 || n > BACKENDS_MAX)
        return prn_fail(err, PRONY_EUSAGE, "a session has between 1 and %d backends, not %zu",
                        BACKENDS_MAX, n);
    h->specs = PRN_ARENA_ARRAY(&h->arena, n, struct prn_spec);
    h->instances = PRN_ARENA_ARRAY(&h->arena, n, struct prn_instance *);
    h->launched = PRN_ARENA_ARRAY(&h->arena, n, bool);
    if (!h->specs || !h->instances || !h->launched)
        return prn_fail_memory(err);
    h->n_backends = n;
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++) {
        code = read_spec(h, begin->backends[i], &h->specs[i], err);
        if (code == 0)
            code = make_instance(h, i, err);
    }
    return code;
}

static int read_limits(struct prn_worker_host *h, const Prony__Begin *begin,
                       struct prony_error *err)
{
    h->timeout_s = begin->has_timeout_s ? begin->timeout_s : TIMEOUT_DEFAULT_S;
    if (!(h->timeout_s > 0 && h->timeout_s <= TIMEOUT_MOST_S))
        return prn_fail(err, PRONY_EUSAGE, "the time limit is out of range");
    h->memory_bytes = prn_launch_memory();
    if (begin->has_memory_bytes && begin->memory_bytes > 0 &&
        (h->memory_bytes <= 0 || begin->memory_bytes < (uint64_t)h->memory_bytes))
        h->memory_bytes =
            begin->memory_bytes > INT64_MAX ? INT64_MAX : (int64_t)begin->memory_bytes;
    return 0;
}

/* Only the service that started this worker may say where files lie. */
static int read_folder(struct prn_worker_host *h, const Prony__Begin *begin,
                       struct prony_error *err)
{
    if ((begin->folder || begin->cache) &&
        (h->config.handoff_fd < 0 || !begin->folder || begin->folder[0] != '/'))
        return prn_fail(err, PRONY_EDENIED, "a folder of this machine was named from outside");
    int code = prn_worker_files_new(h->config.channel, h->config.cancelled, &h->files, err);
    if (code < 0)
        return code;
    h->folder = begin->folder ? prn_arena_strdup(&h->arena, begin->folder)
                              : prn_worker_files_folder(h->files);
    h->cache = begin->cache ? prn_arena_strdup(&h->arena, begin->cache) : NULL;
    return h->folder && !begin->cache == !h->cache ? 0 : prn_fail_memory(err);
}

/* All of them at the same time, once: some take seconds, and nothing is timed before all are there.
 */
static void launch_all(struct prn_worker_host *h)
{
    struct prony_error ignored; /* whoever needs it will find it again */
    for (size_t i = 0; i < h->n_backends && !h->all_launched; i++)
        h->launched[i] = prn_instance_launch(h->instances[i], &ignored) == 0;
    h->all_launched = true;
}

/* Waits for those that nobody has waited for. */
static void settle_all(struct prn_worker_host *h)
{
    struct prony_error ignored;
    for (size_t i = 0; i < h->n_backends; i++)
        if (h->launched[i]) {
            h->launched[i] = false;
            if (prn_instance_start(h->instances[i], &ignored) == 0)
                prn_instance_park(h->instances[i]);
        }
}

int prn_worker_host_begin(const struct prn_worker_host_config *config, const Prony__Begin *begin,
                          struct prn_worker_host **ret_host, struct prony_error *err)
{
    if (begin->session.len != SESSION_BYTES)
        return prn_fail(err, PRONY_EFORMAT, "a session's id has %zu bytes instead of %d",
                        begin->session.len, SESSION_BYTES);
    struct prn_worker_host *h = calloc(1, sizeof *h);
    if (!h)
        return prn_fail_memory(err);
    h->config = *config;
    h->arena = PRN_ARENA_INIT(ARENA_BYTES);
    memcpy(h->session, begin->session.data, SESSION_BYTES);
    int code = read_limits(h, begin, err);
    if (code == 0)
        code = read_folder(h, begin, err);
    if (code == 0)
        code = read_backends(h, begin, err);
    if (code < 0) {
        prn_worker_host_end(h);
        return code;
    }
    if (begin->launch)
        launch_all(h);
    *ret_host = h;
    return 0;
}

void prn_worker_host_end(struct prn_worker_host *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n_backends; i++)
        prn_instance_free(h->instances[i]);
    prn_worker_files_free(h->files);
    prn_arena_release(&h->arena);
    free(h);
}

bool prn_worker_host_is(const struct prn_worker_host *h, const ProtobufCBinaryData *session)
{
    return session->len == SESSION_BYTES && memcmp(session->data, h->session, SESSION_BYTES) == 0;
}

static int find_backend(const struct prn_worker_host *h, size_t backend, struct prony_error *err)
{
    return backend < h->n_backends
               ? 0
               : prn_fail(err, PRONY_EUSAGE, "the session has no backend %zu", backend);
}

/* Those that don't run would spin beside the one that does. */
static void park_others(const struct prn_worker_host *h, size_t backend)
{
    for (size_t i = 0; i < h->n_backends; i++)
        if (i != backend)
            prn_instance_park(h->instances[i]);
}

/* ---- Handing over ---- */

int prn_worker_host_spawn(struct prn_worker_host *h, size_t backend, uint64_t *ret_handle,
                          struct prony_error *err)
{
    int code = find_backend(h, backend, err);
    if (code < 0)
        return code;
    if (h->config.handoff_fd < 0)
        return prn_fail(err, PRONY_EUNSUPPORTED, "this worker can't hand executors over");
    launch_all(h);
    /* What was handed over before belongs to the service, and has died or is of no more use. */
    if (!h->launched[backend]) {
        prn_instance_free(h->instances[backend]);
        h->instances[backend] = NULL;
        code = make_instance(h, backend, err);
    }
    h->launched[backend] = false;
    if (code == 0)
        code = prn_instance_start(h->instances[backend], err);
    if (code < 0)
        return code;
    uint64_t handle = ++last_handle;
    struct prn_executor_handle exported;
    code = prn_executor_export(prn_instance_executor(h->instances[backend]), &exported, err);
    if (code < 0)
        return code;
    ssize_t sent;
    do
        sent = send(h->config.handoff_fd, &handle, sizeof handle, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    code = sent == sizeof handle ? prn_executor_handle_send(&exported, h->config.handoff_fd, err)
                                 : prn_fail_errno(err, errno, "hand over", "an executor");
    prn_executor_handle_release(&exported);
    if (code == 0)
        *ret_handle = handle;
    return code;
}

/* ---- Models ---- */

static int choose_file(const Prony__Load *load, const char *folder, bool fxproto,
                       char path[PATH_MAX], struct prony_error *err)
{
    const char **names = calloc(load->n_files, sizeof *names);
    if (!names)
        return prn_fail_memory(err);
    for (size_t i = 0; i < load->n_files; i++)
        names[i] = load->files[i]->name;
    const char *name = names[prn_instance_model_file(names, load->n_files, fxproto)];
    free(names);
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX
               ? 0
               : prn_fail_errno(err, ENAMETOOLONG, "open", name);
}

int prn_worker_host_load(struct prn_worker_host *h, const Prony__Load *load,
                         struct prn_instance_loaded *ret_loaded, struct prony_error *err)
{
    char name[64];
    char folder[PATH_MAX];
    char path[PATH_MAX];
    int code = find_backend(h, load->backend, err);
    if (code < 0)
        return code;
    const struct prn_spec *spec = &h->specs[load->backend];
    const bool fxproto = load->format == OCTOML_PROFILE__MODEL_FORMAT__MODEL_FORMAT_FXPROTO;
    /* It was found when the session began. */
    if (fxproto != prn_runtime_find(spec->software)->takes_fxproto)
        return prn_fail(err, PRONY_EUNSUPPORTED, "'%s' takes %s", spec->name,
                        fxproto ? "ONNX" : "FXPROTO");
    struct prn_instance *instance = h->instances[load->backend];
    /* The files of a model that is loaded again are gone in a moment. */
    prn_instance_unload(instance, load->model_id);
    snprintf(name, sizeof name, "model-%" PRIu64 "-%" PRIu32, load->model_id, load->backend);
    code = prn_worker_files_place(h->files, name, load->files, load->n_files, false, folder, err);
    if (code < 0)
        return code;
    code = choose_file(load, folder, fxproto, path, err);
    if (code < 0)
        return code;
    launch_all(h);
    settle_all(h);
    park_others(h, load->backend);
    const struct prn_instance_model model = {
        .id = load->model_id,
        .path = path,
        .n_inputs = load->n_input_names,
        .n_outputs = load->n_output_names,
        .input_names = (const char *const *)load->input_names,
        .output_names = (const char *const *)load->output_names,
    };
    code = prn_instance_load(instance, &model, ret_loaded, err);
    prn_instance_park(instance);
    return code;
}

int prn_worker_host_run(struct prn_worker_host *h, size_t backend,
                        const struct prn_instance_run *run, struct prn_instance_result **ret_result,
                        struct prony_error *err)
{
    int code = find_backend(h, backend, err);
    if (code < 0)
        return code;
    park_others(h, backend);
    code = prn_instance_run(h->instances[backend], run, ret_result, err);
    prn_instance_park(h->instances[backend]);
    return code;
}

/* ---- Measuring ---- */

static int start_job(const char *folder, int socket_fd, int link_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, socket_fd, PRN_JOB_FD);
    if (link_fd >= 0)
        posix_spawn_file_actions_adddup2(&actions, link_fd, PRN_JOB_LINK_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions,
                                             link_fd >= 0 ? PRN_JOB_LINK_FD + 1 : PRN_JOB_FD + 1);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    prn_spawn_apart(&attributes);
    char name[] = "prony";
    char command[] = "job";
    char *argv[] = {name, command, NULL};
    int error = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static int send_order(const struct prn_worker_host *h, int fd, const Prony__MeasureModel *measure,
                      struct prony_error *err)
{
    char *names[BACKENDS_MAX];
    Prony__Job job = PRONY__JOB__INIT;
    for (size_t i = 0; i < h->n_backends; i++)
        names[i] = (char *)(uintptr_t)h->specs[i].name;
    job.request = measure->request;
    job.n_backends = h->n_backends;
    job.backends = names;
    job.hardware = (char *)(uintptr_t)h->config.hardware;
    job.processor = measure->processor;
    job.has_usd_per_hour = measure->has_usd_per_hour;
    job.usd_per_hour = measure->usd_per_hour;
    job.link = measure->link;
    job.has_memory_bytes = h->memory_bytes > 0;
    job.memory_bytes = (uint64_t)(h->memory_bytes > 0 ? h->memory_bytes : 0);
    job.has_timeout_s = true;
    job.timeout_s = h->timeout_s;
    return prn_job_send(fd, &job.base, err);
}

/* Until the last event. */
static int forward_events(const struct prn_worker_host *h, int fd, prn_worker_tell *tell,
                          void *context, struct prony_error *err)
{
    for (bool last = false; !last;) {
        ProtobufCMessage *message;
        if (__atomic_load_n(h->config.cancelled, __ATOMIC_RELAXED))
            return prn_fail(err, PRONY_ECANCELED, "interrupted while measuring");
        int code =
            prn_job_receive(fd, EVENT_WAIT_MS, &prony__measure_event__descriptor, &message, err);
        if (code == PRONY_ETIMEDOUT)
            continue;
        if (code < 0)
            return prn_fail(err, PRONY_ECRASH, "the process that measures has died");
        Prony__MeasureEvent *event = (Prony__MeasureEvent *)message;
        last = event->has_result || event->error;
        code = tell(context, event, err);
        protobuf_c_message_free_unpacked(message, NULL);
        if (code < 0)
            return code;
    }
    return 0;
}

static int run_job(const struct prn_worker_host *h, const char *folder,
                   const Prony__MeasureModel *measure, prn_worker_tell *tell, void *context,
                   struct prony_error *err)
{
    int sockets[2];
    pid_t pid = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return prn_fail_errno(err, errno, "make", "a socket");
    /* Above the numbers that they get in the child, where a copy onto itself would be closed. */
    int theirs = fcntl(sockets[1], F_DUPFD_CLOEXEC, PRN_JOB_LINK_FD + 1);
    close(sockets[1]);
    int error = theirs < 0
                    ? errno
                    : start_job(folder, theirs, measure->link ? h->config.link_fd : -1, &pid);
    if (theirs >= 0)
        close(theirs);
    int code = error ? prn_fail_errno(err, error, "start", "a measurement")
                     : send_order(h, sockets[0], measure, err);
    if (code == 0)
        code = forward_events(h, sockets[0], tell, context, err);
    close(sockets[0]);
    if (error)
        return code;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return code;
}

int prn_worker_host_measure(struct prn_worker_host *h, const Prony__MeasureModel *measure,
                            prn_worker_tell *tell, void *context, struct prony_error *err)
{
    char folder[PATH_MAX];
    int code = prn_worker_files_place(h->files, "measure", measure->files, measure->n_files,
                                      h->config.handoff_fd >= 0, folder, err);
    if (code < 0)
        return code;
    park_others(h, SIZE_MAX);
    return run_job(h, folder, measure, tell, context, err);
}
