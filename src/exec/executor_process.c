/* The process of an executor, seen from prony: started, stopped, ended, measured. */
#include "exec/executor_parts.h"

#include "base/clock.h"
#include "base/spawn.h"

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
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* How long a process may take to end after it closed its socket. */
#define GRACE_NS 1000000000
#define STEP_NS 100000 /* between looks */

/* A copy above the numbers that the child's descriptors get, so that moving them can't collide. */
static int lifted(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, PRN_EXECUTOR_FD_END);
    close(fd);
    return copy;
}

/* With a size, it keeps that. In no case does it shrink, since somebody may have mapped it, and
 * nobody opens it a second time, through /proc, for more than the descriptor allows. */
static int shared_memory(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    const int seals = F_SEAL_SHRINK | F_SEAL_SEAL | (bytes > 0 ? F_SEAL_GROW : 0);
    if (ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0 || fchmod(fd, 0) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return lifted(fd);
}

/* The inputs for the executor, which only reads them: others may share the file. */
static int inputs_for_reading(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    /* Shared memory only: other files have owners who chose their mode. */
    if (fcntl(fd, F_GET_SEALS) >= 0 && fchmod(fd, S_IRUSR) == 0) {
        int reading = open(path, O_RDONLY | O_CLOEXEC);
        if (reading >= 0)
            return lifted(reading);
    }
    return fcntl(fd, F_DUPFD_CLOEXEC, PRN_EXECUTOR_FD_END);
}

static int executor_process_start(struct prn_executor *x, const char *program,
                                  const int child_fds[PRN_EXECUTOR_FD_END])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, x->handle.fds[PRN_EXECUTOR_HANDLE_STDERR],
                                     STDERR_FILENO);
    for (int i = PRN_EXECUTOR_FD_SOCKET; i < PRN_EXECUTOR_FD_END; i++)
        if (child_fds[i] >= 0)
            posix_spawn_file_actions_adddup2(&actions, child_fds[i], i);
        else
            posix_spawn_file_actions_addclose(&actions, i);
    /* What prony itself was given is none of the runtime's business. */
    posix_spawn_file_actions_addclosefrom_np(&actions, PRN_EXECUTOR_FD_END);
    prn_spawn_apart(&attributes);
    char name[] = "prony";
    char command[] = "executor";
    char *argv[] = {name, command, NULL};
    int error = posix_spawn(&x->guard, program, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error)
        x->guard = 0;
    x->alive = !error;
    return error;
}

struct prn_executor *prn_executor_new(double timeout_s, const volatile int *cancelled)
{
    struct prn_executor *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    for (size_t i = 0; i < PRN_EXECUTOR_HANDLE_FDS; i++)
        x->handle.fds[i] = -1;
    x->samples = MAP_FAILED;
    x->status = MAP_FAILED;
    x->timeout_s = timeout_s;
    x->cancelled = cancelled;
    x->last_ns = INT64_MAX;
    x->made_fd = -1;
    return x;
}

int prn_executor_map(struct prn_executor *x)
{
    x->samples = mmap(NULL, sizeof *x->samples, PROT_READ | PROT_WRITE, MAP_SHARED,
                      x->handle.fds[PRN_EXECUTOR_HANDLE_SAMPLES], 0);
    x->status = mmap(NULL, sizeof *x->status, PROT_READ, MAP_SHARED,
                     x->handle.fds[PRN_EXECUTOR_HANDLE_STATUS], 0);
    return x->samples == MAP_FAILED || x->status == MAP_FAILED ? -1 : 0;
}

/* All descriptors of prony's side, and the executor's end of the socket. 0, or an error. */
static int make_descriptors(struct prn_executor *x, int inputs_fd, int *ret_socket_fd)
{
    int *fds = x->handle.fds;
    int sockets[2];
    fds[PRN_EXECUTOR_HANDLE_STDERR] = shared_memory("prony-stderr", 0);
    fds[PRN_EXECUTOR_HANDLE_OUTPUTS] = shared_memory("prony-outputs", 0);
    fds[PRN_EXECUTOR_HANDLE_SAMPLES] = shared_memory("prony-samples", sizeof *x->samples);
    fds[PRN_EXECUTOR_HANDLE_STATUS] = shared_memory("prony-status", sizeof *x->status);
    if (inputs_fd >= 0)
        fds[PRN_EXECUTOR_HANDLE_INPUTS] = fcntl(inputs_fd, F_DUPFD_CLOEXEC, PRN_EXECUTOR_FD_END);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return errno;
    fds[PRN_EXECUTOR_HANDLE_SOCKET] = sockets[0];
    *ret_socket_fd = lifted(sockets[1]);
    for (size_t i = 0; i < PRN_EXECUTOR_HANDLE_FDS; i++)
        if (fds[i] < 0 && i != PRN_EXECUTOR_HANDLE_PIDFD &&
            (i != PRN_EXECUTOR_HANDLE_INPUTS || inputs_fd >= 0))
            return errno;
    return *ret_socket_fd < 0 ? errno : 0;
}

/* A sanitizer's memory is more than an executor may have, so tests with one name a plain program.
 */
static const char *own_program(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    const char *plain = secure_getenv("PRONY_PROGRAM");
    if (plain)
        return plain;
#endif
    return "/proc/self/exe";
}

int prn_executor_spawn(const struct prn_executor_config *config, struct prn_executor **ret_executor,
                       struct prony_error *err)
{
    struct prn_executor *x = prn_executor_new(config->timeout_s, config->cancelled);
    if (!x)
        return prn_fail_memory(err);
    x->handle.memory_bytes = config->memory_bytes;
    /* Outputs lie in files of shared memory, which no limit on private memory counts. */
    x->handle.file_bytes = config->file_bytes > 0 ? config->file_bytes : config->memory_bytes;
    x->handle.cpu_s = config->cpu_s;
    x->starter = gettid();
    int socket_fd = -1;
    int inputs_fd = -1;
    int error = make_descriptors(x, config->inputs_fd, &socket_fd);
    if (!error && prn_executor_map(x) < 0)
        error = errno;
    if (!error && config->inputs_fd >= 0) {
        inputs_fd = inputs_for_reading(config->inputs_fd);
        error = inputs_fd < 0 ? errno : 0;
    }
    if (!error) {
        const int *fds = x->handle.fds;
        int child_fds[PRN_EXECUTOR_FD_END] = {
            [PRN_EXECUTOR_FD_SOCKET] = socket_fd,
            [PRN_EXECUTOR_FD_INPUTS] = inputs_fd,
            [PRN_EXECUTOR_FD_SAMPLES] = fds[PRN_EXECUTOR_HANDLE_SAMPLES],
            [PRN_EXECUTOR_FD_OUTPUTS] = fds[PRN_EXECUTOR_HANDLE_OUTPUTS],
            [PRN_EXECUTOR_FD_STATUS] = fds[PRN_EXECUTOR_HANDLE_STATUS]};
        error =
            executor_process_start(x, config->program ? config->program : own_program(), child_fds);
    }
    const int given_away[] = {socket_fd, inputs_fd};
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

/* To the executor itself, if it has said which process that is. */
static void send_signal(const struct prn_executor *x, int number)
{
    const int pidfd = x->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD];
    if (pidfd >= 0)
        pidfd_send_signal(pidfd, number, NULL, 0);
    else if (x->guard)
        kill(x->guard, number);
}

/* Waits for the executor's end; it is of no use for what is above it. */
static bool wait_for_end(const struct prn_executor *x, int64_t ns)
{
    struct pollfd wait = {.fd = x->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD], .events = POLLIN};
    return wait.fd >= 0 && poll(&wait, 1, (int)(ns / 1000000)) > 0;
}

/* Whether there is nothing left to wait for: who started it waits for its guard, others for what
 * the init records. */
static bool try_reap(struct prn_executor *x, int *status)
{
    if (!x->guard)
        return atomic_load(&x->status->ended);
    pid_t ended = waitpid(x->guard, status, WNOHANG);
    if (ended == x->guard || (ended < 0 && errno != EINTR))
        x->guard = 0;
    return !x->guard;
}

static bool reap_within(struct prn_executor *x, int64_t ns, int *status)
{
    const int64_t deadline = prn_clock_ns() + ns;
    while (!try_reap(x, status)) {
        if (prn_clock_ns() >= deadline)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    return true;
}

void prn_executor_end(struct prn_executor *x)
{
    if (!x->alive)
        return;
    x->alive = false;
    send_signal(x, SIGKILL);
    wait_for_end(x, GRACE_NS);
    /* The init and the guard follow the executor. If they don't, killing them takes it along. */
    int status;
    if (!x->guard || reap_within(x, GRACE_NS, &status))
        return;
    kill(x->guard, SIGKILL);
    while (waitpid(x->guard, &status, 0) < 0 && errno == EINTR)
        ;
    x->guard = 0;
}

static bool starter_ended(const struct prn_executor *x)
{
    return x->starter && tgkill(getpid(), x->starter, 0) < 0 && errno == ESRCH;
}

enum prn_executor_ending prn_executor_reap(struct prn_executor *x, int *ret_status)
{
    const bool reaped = reap_within(x, GRACE_NS, ret_status);
    const bool ended = reaped || wait_for_end(x, 0);
    prn_executor_end(x);
    if (starter_ended(x))
        return PRN_EXECUTOR_ENDING_WITH_THREAD;
    if (!ended)
        return PRN_EXECUTOR_ENDING_DEAF;
    /* An owner that dies takes the init along, which then records nothing. */
    if (!reaped)
        return PRN_EXECUTOR_ENDING_WITH_OWNER;
    if (atomic_load(&x->status->ended))
        *ret_status = x->status->wait_status;
    return PRN_EXECUTOR_ENDING_BY_ITSELF;
}

void prn_executor_free(struct prn_executor *x)
{
    if (!x)
        return;
    prn_executor_end(x);
    if (x->made_fd >= 0)
        close(x->made_fd);
    prn_executor_handle_release(&x->handle);
    if (x->samples != MAP_FAILED)
        munmap(x->samples, sizeof *x->samples);
    if (x->status != MAP_FAILED)
        munmap((void *)(uintptr_t)x->status, sizeof *x->status);
    free(x);
}

void prn_executor_park(struct prn_executor *x)
{
    if (x->alive && !x->handle.parked)
        send_signal(x, SIGSTOP);
    x->handle.parked = true;
}

void prn_executor_unpark(struct prn_executor *x)
{
    if (x->alive && x->handle.parked)
        send_signal(x, SIGCONT);
    x->handle.parked = false;
}

/* A small file of /proc as a text. 0, or -1. */
static int read_text(int folder_fd, const char *path, char *text, size_t size)
{
    int fd = openat(folder_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? 0 : -1;
}

pid_t prn_pidfd_process(int pidfd)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (read_text(AT_FDCWD, path, text, sizeof text) < 0)
        return -1;
    const char *line = strstr(text, "\nPid:");
    long process = -1;
    return line && sscanf(line + 5, "%ld", &process) == 1 && process > 0 ? (pid_t)process : -1;
}

/* -1, of which nothing can be read, when it is gone. */
static pid_t process_of(const struct prn_executor *x)
{
    const int pidfd = x->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD];
    if (!x->alive)
        return -1;
    return pidfd >= 0 ? prn_pidfd_process(pidfd) : x->guard;
}

/* A line of /proc/PID/status, in bytes. */
static int64_t status_bytes(const struct prn_executor *x, const char *field)
{
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process_of(x));
    if (read_text(AT_FDCWD, path, text, sizeof text) < 0)
        return -1;
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

int64_t prn_executor_data(const struct prn_executor *x)
{
    return status_bytes(x, "VmData");
}

int64_t prn_executor_waited_ns(const struct prn_executor *x, int64_t *ret_threads)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)process_of(x));
    DIR *tasks = opendir(path);
    if (!tasks)
        return -1;
    int64_t sum = 0;
    int64_t threads = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[sizeof task->d_name + 16];
        char text[128];
        snprintf(name, sizeof name, "%s/schedstat", task->d_name);
        if (task->d_name[0] == '.' || read_text(dirfd(tasks), name, text, sizeof text) < 0)
            continue;
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
