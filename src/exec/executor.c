/* prony's side of an executor: starts the process, sends commands, waits with a limit, and turns
 * whatever becomes of the process into an error. */
#include "exec/executor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct prn_executor {
    pid_t pid;     /* 0: gone */
    pid_t starter; /* the thread that started it: the kernel ends the process with it */
    int socket_fd, outputs_fd, stderr_fd;
    union prn_executor_samples *samples;
    double timeout_s;
    int64_t memory_bytes, file_bytes;
    const volatile int *cancelled;
    bool parked;
    char version[128];
    char library[4096];
    char sandbox[256];
    struct prn_message message;
};

/* How long a process may take to end after it closed its socket. */
#define GRACE_NS 1000000000

/* A copy above the numbers that the child's descriptors get, so that moving them can't collide. */
static int lifted(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, PRN_EXECUTOR_FD_END);
    close(fd);
    return copy;
}

static int shared_memory(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* What this process maps must not shrink under it, whatever the other one does. */
    if (fd >= 0 && bytes > 0 &&
        (ftruncate(fd, (off_t)bytes) < 0 ||
         fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd < 0 ? -1 : lifted(fd);
}

static int start(struct prn_executor *x, const char *program,
                 const int child_fds[PRN_EXECUTOR_FD_END])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, x->stderr_fd, STDERR_FILENO);
    for (int i = PRN_EXECUTOR_FD_SOCKET; i < PRN_EXECUTOR_FD_END; i++)
        if (child_fds[i] >= 0)
            posix_spawn_file_actions_adddup2(&actions, child_fds[i], i);
        else
            posix_spawn_file_actions_addclose(&actions, i);
    /* What prony itself was given is none of the runtime's business. */
    posix_spawn_file_actions_addclosefrom_np(&actions, PRN_EXECUTOR_FD_END);
    /* A group of its own: Ctrl-C is for prony, which then ends the executor in its own time. */
    sigset_t none;
    sigset_t defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    char name[] = "prony";
    char command[] = "executor";
    char *argv[] = {name, command, NULL};
    int error = posix_spawn(&x->pid, program, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error)
        x->pid = 0;
    return error;
}

int prn_executor_spawn(const struct prn_executor_config *config, struct prn_executor **ret_executor,
                       struct prony_error *err)
{
    struct prn_executor *x = calloc(1, sizeof *x);
    if (!x)
        return prn_fail_memory(err);
    x->timeout_s = config->timeout_s;
    x->memory_bytes = config->memory_bytes;
    /* Outputs lie in files of shared memory, which no limit on private memory counts. */
    x->file_bytes = config->file_bytes > 0 ? config->file_bytes : config->memory_bytes;
    x->cancelled = config->cancelled;
    x->samples = MAP_FAILED;
    x->starter = gettid();
    const size_t samples_bytes = sizeof *x->samples;
    int sockets[2] = {-1, -1};
    int samples_fd = -1;
    int error = 0;
    x->stderr_fd = shared_memory("prony-stderr", 0);
    x->outputs_fd = shared_memory("prony-outputs", 0);
    samples_fd = shared_memory("prony-samples", samples_bytes);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0)
        sockets[1] = lifted(sockets[1]);
    x->socket_fd = sockets[0];
    if (x->stderr_fd < 0 || x->outputs_fd < 0 || samples_fd < 0 || sockets[0] < 0 || sockets[1] < 0)
        error = errno;
    if (!error) {
        x->samples = mmap(NULL, samples_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, samples_fd, 0);
        error = x->samples == MAP_FAILED ? errno : 0;
    }
    int inputs_fd = -1;
    if (!error && config->inputs_fd >= 0) {
        inputs_fd = fcntl(config->inputs_fd, F_DUPFD_CLOEXEC, PRN_EXECUTOR_FD_END);
        error = inputs_fd < 0 ? errno : 0;
    }
    if (!error) {
        int child_fds[PRN_EXECUTOR_FD_END] = {[PRN_EXECUTOR_FD_SOCKET] = sockets[1],
                                              [PRN_EXECUTOR_FD_INPUTS] = inputs_fd,
                                              [PRN_EXECUTOR_FD_SAMPLES] = samples_fd,
                                              [PRN_EXECUTOR_FD_OUTPUTS] = x->outputs_fd};
        error = start(x, config->program ? config->program : "/proc/self/exe", child_fds);
    }
    const int given_away[] = {samples_fd, sockets[1], inputs_fd};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(given_away); i++)
        if (given_away[i] >= 0)
            close(given_away[i]);
    if (error) {
        prn_executor_free(x);
        return prn_fail(err, PRONY_EIO, "cannot start an executor: %s", strerror(error));
    }
    *ret_executor = x;
    return 0;
}

/* Kills the process, stopped or not, and waits for its end. */
static void end(struct prn_executor *x)
{
    if (x->pid == 0)
        return;
    kill(x->pid, SIGKILL);
    while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    x->pid = 0;
}

/* Reaps a process that closed its socket, which normally means that it has ended. One that goes on
 * without is killed, and -1 returned. */
static int reap_ending(struct prn_executor *x)
{
    const int64_t deadline = prn_clock_ns() + GRACE_NS;
    while (x->pid && prn_clock_ns() < deadline) {
        int status;
        pid_t ended = waitpid(x->pid, &status, WNOHANG);
        if (ended == x->pid) {
            x->pid = 0;
            return status;
        }
        if (ended < 0 && errno != EINTR)
            break;
        poll(NULL, 0, 1);
    }
    end(x);
    return -1;
}

void prn_executor_free(struct prn_executor *x)
{
    if (!x)
        return;
    end(x);
    const int fds[] = {x->socket_fd, x->outputs_fd, x->stderr_fd};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (x->samples != MAP_FAILED)
        munmap(x->samples, sizeof *x->samples);
    free(x);
}

/* The last line that the process wrote to its standard error, "" if none. */
static void last_words(const struct prn_executor *x, char *text, size_t size)
{
    off_t end = lseek(x->stderr_fd, 0, SEEK_END);
    off_t start = end > (off_t)size - 1 ? end - ((off_t)size - 1) : 0;
    ssize_t n = end > 0 ? pread(x->stderr_fd, text, size - 1, start) : 0;
    text[n > 0 ? n : 0] = '\0';
    for (size_t len = strlen(text); len > 0 && text[len - 1] == '\n'; len--)
        text[len - 1] = '\0';
    char *line = strrchr(text, '\n');
    if (line)
        memmove(text, line + 1, strlen(line));
}

static bool starter_ended(const struct prn_executor *x)
{
    return tgkill(getpid(), x->starter, 0) < 0 && errno == ESRCH;
}

static int fail_dead(struct prn_executor *x, const char *doing, struct prony_error *err)
{
    int status = reap_ending(x);
    char words[300];
    last_words(x, words, sizeof words);
    const char *separator = words[0] ? "; it said: " : "";
    if (starter_ended(x))
        return prn_fail(err, PRONY_ECRASH,
                        "the executor ended with the thread that started it; load graphs in a "
                        "thread that goes on");
    if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return prn_fail(err, PRONY_ECRASH,
                        "the runtime was killed while %s, most likely for using too much memory"
                        "%s%s",
                        doing, separator, words);
    if (status >= 0 && WIFSIGNALED(status))
        return prn_fail(err, PRONY_ECRASH, "the runtime crashed while %s (signal %d, %s)%s%s",
                        doing, WTERMSIG(status), strsignal(WTERMSIG(status)), separator, words);
    if (status >= 0)
        return prn_fail(err, PRONY_ECRASH, "the runtime ended the process while %s (status %d)%s%s",
                        doing, WEXITSTATUS(status), separator, words);
    return prn_fail(err, PRONY_ECRASH, "the runtime cut the executor's connection while %s%s%s",
                    doing, separator, words);
}

static bool is_cancelled(const struct prn_executor *x)
{
    return x->cancelled && __atomic_load_n(x->cancelled, __ATOMIC_RELAXED);
}

/* Waits for an answer: 0, or an error with the process killed. */
static int wait_for_reply(struct prn_executor *x, double timeout_s, const char *doing,
                          struct prony_error *err)
{
    int64_t deadline = prn_clock_ns() + (int64_t)(timeout_s * 1e9);
    for (;;) {
        int64_t left_ns = deadline - prn_clock_ns();
        int64_t wait_ms = left_ns > 0 ? left_ns / 1000000 + 1 : 0;
        struct pollfd wait = {.fd = x->socket_fd, .events = POLLIN};
        /* Looked at even when it is late: prony itself may have been stopped meanwhile. A signal
         * that arrives just before poll() must not be slept over. */
        if (!is_cancelled(x) && poll(&wait, 1, wait_ms > 100 ? 100 : (int)wait_ms) > 0)
            return 0;
        if (is_cancelled(x)) {
            end(x);
            return prn_fail(err, PRONY_ECANCELED, "interrupted while %s", doing);
        }
        if (left_ns <= 0) {
            end(x);
            return prn_fail(
                err, PRONY_ETIMEDOUT,
                "%s took longer than %.3g s; --timeout, or timeout_s of a session, allows for more",
                doing, timeout_s);
        }
    }
}

/* Sends x->message and reads the reply into it. */
static int call(struct prn_executor *x, double extra_s, const char *doing, struct prony_error *err)
{
    if (x->pid == 0)
        return prn_fail(err, PRONY_ECRASH, "the executor is gone");
    if (prn_message_send(&x->message, x->socket_fd) < 0) {
        if (errno == EMSGSIZE)
            return prn_fail(err, PRONY_ELIMIT, "too much to say in one command");
        return fail_dead(x, doing, err);
    }
    int code = wait_for_reply(x, x->timeout_s + extra_s, doing, err);
    if (code < 0)
        return code;
    if (prn_message_receive(&x->message, x->socket_fd) < 0)
        return fail_dead(x, doing, err);
    if (x->message.type == PRN_MESSAGE_OK)
        return 0;
    code = (int)prn_message_int(&x->message);
    const char *text = prn_message_text(&x->message);
    return prn_fail(err, code < 0 ? code : PRONY_ERUNTIME, "%s", text ? text : "no reason given");
}

static int malformed_reply(struct prn_executor *x, struct prony_error *err)
{
    end(x);
    return prn_fail(err, PRONY_ECRASH, "the executor answered nonsense");
}

static void keep(char *into, size_t size, const char *text)
{
    snprintf(into, size, "%s", text ? text : "");
}

int prn_executor_open(struct prn_executor *x, const struct prn_runtime_config *config,
                      const char *model_path, const char *model_folder, struct prony_error *err)
{
    struct prn_message *m = &x->message;
    prn_message_begin(m, PRN_MESSAGE_OPEN);
    prn_message_put_text(m, prony_version());
    prn_message_put_text(m, config->software);
    prn_message_put_text(m, config->library);
    prn_message_put_int(m, (int64_t)config->n_options);
    for (size_t i = 0; i < config->n_options; i++) {
        prn_message_put_text(m, config->options[i].key);
        prn_message_put_text(m, config->options[i].value);
    }
    prn_message_put_text(m, config->profile_folder);
    prn_message_put_text(m, model_path);
    prn_message_put_text(m, model_folder);
    prn_message_put_int(m, x->memory_bytes);
    prn_message_put_int(m, x->file_bytes);
    int code = call(x, 0, "starting", err);
    if (code < 0)
        return code;
    keep(x->version, sizeof x->version, prn_message_text(m));
    keep(x->library, sizeof x->library, prn_message_text(m));
    keep(x->sandbox, sizeof x->sandbox, prn_message_text(m));
    return m->failed ? malformed_reply(x, err) : 0;
}

const char *prn_executor_version(const struct prn_executor *x)
{
    return x->version;
}

const char *prn_executor_library(const struct prn_executor *x)
{
    return x->library;
}

const char *prn_executor_sandbox(const struct prn_executor *x)
{
    return x->sandbox;
}

int prn_executor_load(struct prn_executor *x, const char *model_path, int64_t *ret_ns,
                      struct prony_error *err)
{
    prn_message_begin(&x->message, PRN_MESSAGE_LOAD);
    prn_message_put_text(&x->message, model_path);
    int code = call(x, 0, "loading the model", err);
    if (code < 0)
        return code;
    int64_t ns = prn_message_int(&x->message);
    if (x->message.failed)
        return malformed_reply(x, err);
    *ret_ns = ns;
    return 0;
}

int prn_executor_bind(struct prn_executor *x, const struct prn_place *inputs, size_t n_inputs,
                      struct prony_error *err)
{
    struct prn_message *m = &x->message;
    prn_message_begin(m, PRN_MESSAGE_BIND);
    prn_message_put_int(m, (int64_t)n_inputs);
    for (size_t i = 0; i < n_inputs; i++) {
        const struct prn_place *p = &inputs[i];
        prn_message_put_text(m, p->name);
        prn_message_put_int(m, p->dtype);
        prn_message_put_int(m, (int64_t)p->rank);
        for (size_t k = 0; k < p->rank; k++)
            prn_message_put_int(m, p->dims[k]);
        prn_message_put_int(m, (int64_t)p->offset);
        prn_message_put_int(m, (int64_t)p->bytes);
    }
    return call(x, 0, "binding inputs", err);
}

int prn_executor_run(struct prn_executor *x, size_t warmups, size_t repeats, int64_t most_ns,
                     int64_t *samples, size_t *ret_n, struct prony_error *err)
{
    prn_message_begin(&x->message, PRN_MESSAGE_RUN);
    prn_message_put_int(&x->message, (int64_t)warmups);
    prn_message_put_int(&x->message, (int64_t)repeats);
    prn_message_put_int(&x->message, most_ns);
    int code = call(x, (double)most_ns * 1e-9, "running the model", err);
    if (code < 0)
        return code;
    size_t n = prn_message_count(&x->message, repeats);
    if (x->message.failed || (n == 0 && repeats > 0))
        return malformed_reply(x, err);
    memcpy(samples, x->samples->ns, n * sizeof *samples);
    *ret_n = n;
    return 0;
}

/* Times come from a process that nobody trusts: in order, and small enough to be added up. */
static bool plausible(const struct prn_drive_request *r)
{
    return r->due_ns >= 0 && r->ready_ns >= 0 && r->start_ns >= r->due_ns &&
           r->start_ns >= r->ready_ns && r->end_ns >= r->start_ns &&
           r->end_ns <= PRN_DRIVE_TIME_MAX_NS;
}

int prn_executor_drive(struct prn_executor *x, const struct prn_drive_plan *plan,
                       struct prn_drive_request *requests, struct prn_drive_end *ret_end,
                       struct prony_error *err)
{
    struct prn_message *m = &x->message;
    prn_message_begin(m, PRN_MESSAGE_DRIVE);
    prn_message_put_int(m, (int64_t)plan->workers);
    prn_message_put_number(m, plan->rate);
    prn_message_put_int(m, (int64_t)plan->seed);
    prn_message_put_int(m, (int64_t)plan->most_requests);
    prn_message_put_int(m, plan->span_ns);
    prn_message_put_int(m, plan->patience_ns);
    int code = call(x, (double)(plan->span_ns + plan->patience_ns) * 1e-9,
                    "running the model under load", err);
    if (code < 0)
        return code;
    struct prn_drive_end end = {.n = prn_message_count(m, plan->most_requests)};
    end.gave_up = prn_message_int(m) != 0;
    if (m->failed)
        return malformed_reply(x, err);
    /* Copied before they are looked at: the other side could still change them. */
    memcpy(requests, x->samples->requests, end.n * sizeof *requests);
    for (size_t i = 0; i < end.n; i++)
        if (!plausible(&requests[i]))
            return malformed_reply(x, err);
    *ret_end = end;
    return 0;
}

int prn_executor_outputs(struct prn_executor *x, size_t lane, struct prn_arena *arena,
                         struct prn_place **ret_outputs, size_t *ret_n, int *ret_fd,
                         struct prony_error *err)
{
    struct prn_message *m = &x->message;
    prn_message_begin(m, PRN_MESSAGE_OUTPUTS);
    prn_message_put_int(m, (int64_t)lane);
    int code = call(x, 0, "reading outputs", err);
    if (code < 0)
        return code;
    size_t n = prn_message_count(m, PRN_EXECUTOR_TENSORS_MAX);
    struct prn_place *places = PRN_ARENA_ARRAY(arena, n + 1, struct prn_place);
    if (!places)
        return prn_fail_memory(err);
    off_t size = lseek(x->outputs_fd, 0, SEEK_END);
    for (size_t i = 0; i < n && !m->failed; i++) {
        const char *name = prn_message_text(m);
        places[i].name = prn_arena_strdup(arena, name ? name : "");
        places[i].dtype = (int)prn_message_int(m);
        places[i].rank = prn_message_count(m, PRN_RUNTIME_RANK_MAX);
        for (size_t k = 0; k < places[i].rank; k++)
            places[i].dims[k] = prn_message_int(m);
        places[i].offset = prn_message_count(m, (size_t)size);
        places[i].bytes = prn_message_count(m, (size_t)size - places[i].offset);
        if (!places[i].name)
            return prn_fail_memory(err);
    }
    if (m->failed)
        return malformed_reply(x, err);
    int fd = fcntl(x->outputs_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return prn_fail_errno(err, errno, "keep", "outputs");
    *ret_outputs = places;
    *ret_n = n;
    *ret_fd = fd;
    return 0;
}

int prn_executor_begin_profiling(struct prn_executor *x, struct prony_error *err)
{
    prn_message_begin(&x->message, PRN_MESSAGE_BEGIN_PROFILING);
    return call(x, 0, "reading its counters", err);
}

int prn_executor_end_profiling(struct prn_executor *x, struct prony_error *err)
{
    prn_message_begin(&x->message, PRN_MESSAGE_END_PROFILING);
    return call(x, 0, "writing its trace", err);
}

void prn_executor_park(struct prn_executor *x)
{
    if (x->pid && !x->parked)
        kill(x->pid, SIGSTOP);
    x->parked = true;
}

void prn_executor_unpark(struct prn_executor *x)
{
    if (x->pid && x->parked)
        kill(x->pid, SIGCONT);
    x->parked = false;
}

/* A line of /proc/PID/status, in bytes. */
static int64_t status_bytes(const struct prn_executor *x, const char *field)
{
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)x->pid);
    int fd = x->pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, field);
    long long kib = 0;
    return line && sscanf(line + strlen(field), ": %lld", &kib) == 1 ? kib * 1024 : -1;
}

int64_t prn_executor_resident(const struct prn_executor *x)
{
    return status_bytes(x, "VmRSS");
}

int64_t prn_executor_peak(const struct prn_executor *x)
{
    return status_bytes(x, "VmHWM");
}

int64_t prn_executor_waited_ns(const struct prn_executor *x, int64_t *ret_threads)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)x->pid);
    DIR *tasks = x->pid ? opendir(path) : NULL;
    if (!tasks)
        return -1;
    int64_t sum = 0;
    int64_t threads = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[sizeof task->d_name + 16];
        char text[128];
        snprintf(name, sizeof name, "%s/schedstat", task->d_name);
        int fd = task->d_name[0] == '.' ? -1 : openat(dirfd(tasks), name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        text[n > 0 ? n : 0] = '\0';
        long long ran;
        long long waited;
        if (sscanf(text, "%lld %lld", &ran, &waited) == 2) {
            sum += waited;
            threads++;
        }
    }
    closedir(tasks);
    if (threads == 0)
        return -1;
    *ret_threads = threads;
    return sum;
}
