#include "service/slurm/run.h"

#include "base/clock.h"
#include "base/spawn.h"
#include "service/slurm/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HURRY_S 3.0
#define LOOK_MS 100 /* between looks at whether there is a hurry */
#define COMPLAINT_MAX ((size_t)64 << 10)

struct running {
    const struct prn_slurm_call *call;
    pid_t pid;
    int input, output, complaint; /* -1: closed */
    size_t written;
    struct prn_buffer *out;
    struct prn_buffer said;
    double end_s;
};

static double now_s(void)
{
    return (double)prn_monotonic_ns() * 1e-9;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* What Slurm's programs need of the service's environment, which may hold secrets and settings
 * (SBATCH_*, SLURM_JOB_ID) that aren't for them. A job inherits it. */
static char **make_environment(const struct prn_slurm_call *call)
{
    static const char *const names[] = {"PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF"};
    static const char *const fixed[] = {"LC_ALL=C", "SLURM_TIME_FORMAT=%s"};
    size_t most = PRN_ARRAY_SIZE(names) + PRN_ARRAY_SIZE(fixed) + call->n_environment + 1;
    char **list = calloc(most, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; list && i < PRN_ARRAY_SIZE(names); i++) {
        const char *value = secure_getenv(names[i]);
        if (value && asprintf(&list[n], "%s=%s", names[i], value) < 0)
            list[n] = NULL;
        n += list[n] != NULL;
    }
    for (size_t i = 0; list && i < PRN_ARRAY_SIZE(fixed); i++)
        n += (list[n] = strdup(fixed[i])) != NULL;
    for (size_t i = 0; list && i < call->n_environment; i++)
        n += (list[n] = strdup(call->environment[i])) != NULL;
    return list;
}

static void free_environment(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static int spawn(struct running *r, const int child[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment = make_environment(r->call);
    if (!environment)
        return ENOMEM;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, child[i], i);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    prn_spawn_apart(&attributes);
    int error = posix_spawnp(&r->pid, r->call->argv[0], &actions, &attributes,
                             (char *const *)(uintptr_t)r->call->argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free_environment(environment);
    return error;
}

/* A pipe whose ends are above the numbers that the child's get. */
static int make_pipe(int ends[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 3);
        close(low[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return 0;
    close_end(&ends[0]);
    close_end(&ends[1]);
    return -1;
}

static int slurm_run_start(struct running *r, struct prony_error *err)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int error = 0;
    for (int i = 0; i < 3 && !error; i++)
        error = make_pipe(pipes[i]) < 0 ? errno : 0;
    if (!error) {
        const int child[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
        error = spawn(r, child);
    }
    close_end(&pipes[0][0]);
    close_end(&pipes[1][1]);
    close_end(&pipes[2][1]);
    r->input = pipes[0][1];
    r->output = pipes[1][0];
    r->complaint = pipes[2][0];
    if (!error) {
        fcntl(r->input, F_SETFL, O_NONBLOCK);
        return 0;
    }
    close_end(&r->input);
    close_end(&r->output);
    close_end(&r->complaint);
    if (error == ENOENT)
        return prn_fail(err, PRONY_ENOENT, "there is no program '%s': is Slurm installed here?",
                        r->call->argv[0]);
    return prn_fail_errno(err, error, "run", r->call->argv[0]);
}

static void feed(struct running *r)
{
    const char *input = r->call->input ? r->call->input : "";
    size_t left = strlen(input) - r->written;
    ssize_t n = left > 0 ? write(r->input, input + r->written, left) : 0;
    if (n > 0)
        r->written += (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || r->written == strlen(input))
        close_end(&r->input);
}

/* What is beyond the limit is read all the same, so that the program can end. */
static void slurm_run_drain(int *fd, struct prn_buffer *into)
{
    char piece[16384];
    ssize_t n = read(*fd, piece, sizeof piece);
    if (n > 0)
        prn_buffer_append(into, piece, (size_t)n);
    else if (n == 0 || errno != EINTR)
        close_end(fd);
}

/* Until it has closed its outputs; false: the time is over. */
static bool listen_to(struct running *r)
{
    while (r->output >= 0 || r->complaint >= 0) {
        if (r->call->hurry && __atomic_load_n(r->call->hurry, __ATOMIC_RELAXED) &&
            r->end_s > now_s() + HURRY_S)
            r->end_s = now_s() + HURRY_S;
        struct pollfd waits[] = {{.fd = r->output, .events = POLLIN},
                                 {.fd = r->complaint, .events = POLLIN},
                                 {.fd = r->input, .events = POLLOUT}};
        if (now_s() >= r->end_s)
            return false;
        if (poll(waits, PRN_ARRAY_SIZE(waits), LOOK_MS) <= 0)
            continue;
        if (waits[0].revents)
            slurm_run_drain(&r->output, r->out);
        if (waits[1].revents)
            slurm_run_drain(&r->complaint, &r->said);
        if (waits[2].revents)
            feed(r);
    }
    return true;
}

static int slurm_run_finish(struct running *r, bool in_time, struct prony_error *err)
{
    const char *name = r->call->argv[0];
    int status = 0;
    /* One that has closed its outputs is about to end; one that hasn't is ended, with its own. */
    if (!in_time)
        kill(-r->pid, SIGKILL);
    for (int tries = 0; in_time && waitpid(r->pid, &status, WNOHANG) == 0; tries++) {
        if (now_s() >= r->end_s) {
            kill(-r->pid, SIGKILL);
            in_time = false;
        } else {
            poll(NULL, 0, tries < 10 ? 1 : 10);
        }
    }
    if (!in_time) {
        waitpid(r->pid, &status, 0);
        return prn_fail(err, PRONY_ETIMEDOUT, "'%s' took longer than %g s", name,
                        r->call->timeout_s);
    }
    if (r->out->error == PRONY_ENOMEM)
        return prn_fail_memory(err);
    if (r->out->error < 0)
        return prn_fail(err, PRONY_ELIMIT, "'%s' printed more than %zu bytes", name, r->out->limit);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    struct prn_buffer text = PRN_BUFFER_INIT(4096);
    prn_slurm_complaint(&text, prn_buffer_text(&r->said));
    int code = prn_fail(err, PRONY_ERUNTIME, "'%s' failed: %s", name, prn_buffer_text(&text));
    prn_buffer_release(&text);
    return code;
}

int prn_slurm_run(const struct prn_slurm_call *call, struct prn_buffer *out,
                  struct prony_error *err)
{
    struct running r = {.call = call,
                        .out = out,
                        .said = PRN_BUFFER_INIT(COMPLAINT_MAX),
                        .end_s = now_s() + call->timeout_s};
    int code = slurm_run_start(&r, err);
    if (code == 0) {
        bool in_time = listen_to(&r);
        close_end(&r.input);
        close_end(&r.output);
        close_end(&r.complaint);
        code = slurm_run_finish(&r, in_time, err);
    }
    prn_buffer_release(&r.said);
    return code;
}
