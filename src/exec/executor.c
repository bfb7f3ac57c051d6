/* prony's side of an executor: sends commands, waits with a limit, and turns whatever becomes of
 * the process into an error. */
#include "exec/executor_parts.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A run that takes less than this is done by one core alone. */
#define CLOSE_NS 50000

static const char *timeout_advice = "--timeout, or timeout_s of a session, allows for more";

void prn_executor_advise(const char *advice)
{
    timeout_advice = advice;
}

/* Whether a runtime's words say that it got no memory; 12 is ENOMEM. */
static bool says_out_of_memory(const char *words)
{
    static const char *const signs[] = {"allocate",       "bad_alloc",     "bad allocation",
                                        "error code: 12", "out of memory", "DefaultCPUAllocator"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(signs); i++)
        if (strcasestr(words, signs[i]))
            return true;
    return false;
}

/* A runtime that gets no memory doesn't know that there is a limit. */
static int explain_memory(const struct prn_executor *x, int code, struct prony_error *err)
{
    if (!err || x->handle.memory_bytes <= 0 || !says_out_of_memory(err->text))
        return code;
    const long long limit = x->handle.memory_bytes >> 20;
    const long long used = prn_executor_data(x) >> 20;
    const struct prony_error why = *err;
    if (used > 0)
        return prn_fail(err, code, "the memory limit is %lld MiB, of which %lld were in use: %s",
                        limit, used, why.text);
    return prn_fail(err, code, "the memory limit is %lld MiB: %s", limit, why.text);
}

/* The last line that the process wrote to its standard error, "" if none. */
static void last_words(const struct prn_executor *x, char *text, size_t size)
{
    off_t end = lseek(x->handle.fds[PRN_EXECUTOR_HANDLE_STDERR], 0, SEEK_END);
    off_t start = end > (off_t)size - 1 ? end - ((off_t)size - 1) : 0;
    ssize_t n =
        end > 0 ? pread(x->handle.fds[PRN_EXECUTOR_HANDLE_STDERR], text, size - 1, start) : 0;
    text[n > 0 ? n : 0] = '\0';
    for (size_t len = strlen(text); len > 0 && text[len - 1] == '\n'; len--)
        text[len - 1] = '\0';
    char *line = strrchr(text, '\n');
    if (line)
        memmove(text, line + 1, strlen(line));
}

static int tell_death(struct prn_executor *x, const char *doing, struct prony_error *err)
{
    int status;
    const enum prn_executor_ending ending = prn_executor_reap(x, &status);
    char words[300];
    last_words(x, words, sizeof words);
    const char *separator = words[0] ? "; it said: " : "";
    if (ending == PRN_EXECUTOR_ENDING_WITH_THREAD)
        return prn_fail(err, PRONY_ECRASH,
                        "the executor ended with the thread that started it; load graphs in a "
                        "thread that keeps running");
    if (ending == PRN_EXECUTOR_ENDING_WITH_OWNER)
        return prn_fail(err, PRONY_ECRASH,
                        "the executor ended with the process that started it while %s", doing);
    if (ending == PRN_EXECUTOR_ENDING_DEAF)
        return prn_fail(err, PRONY_ECRASH, "the runtime cut the executor's connection while %s%s%s",
                        doing, separator, words);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return prn_fail(err, PRONY_ECRASH,
                        "the runtime was killed while %s, most likely for using too much memory"
                        "%s%s",
                        doing, separator, words);
    if (WIFSIGNALED(status))
        return prn_fail(err, PRONY_ECRASH, "the runtime crashed while %s (signal %d, %s)%s%s",
                        doing, WTERMSIG(status), strsignal(WTERMSIG(status)), separator, words);
    return prn_fail(err, PRONY_ECRASH, "the runtime ended the process while %s (status %d)%s%s",
                    doing, WEXITSTATUS(status), separator, words);
}

static int fail_dead(struct prn_executor *x, const char *doing, struct prony_error *err)
{
    return explain_memory(x, tell_death(x, doing, err), err);
}

static bool is_cancelled(const struct prn_executor *x)
{
    return x->cancelled && __atomic_load_n(x->cancelled, __ATOMIC_RELAXED);
}

/* Waits for an answer: 0, or an error with the process killed. */
static int wait_for_reply(struct prn_executor *x, double timeout_s, const char *doing,
                          struct prony_error *err)
{
    if (x->answered) {
        x->answered = false;
        return 0;
    }
    int64_t deadline = prn_clock_ns() + (int64_t)(timeout_s * 1e9);
    for (;;) {
        int64_t left_ns = deadline - prn_clock_ns();
        int64_t wait_ms = left_ns > 0 ? left_ns / 1000000 + 1 : 0;
        struct pollfd wait = {.fd = x->handle.fds[PRN_EXECUTOR_HANDLE_SOCKET], .events = POLLIN};
        /* Looked at even when it is late: prony itself may have been stopped meanwhile. A signal
         * that arrives just before poll() must not be slept over. */
        if (!is_cancelled(x) && poll(&wait, 1, wait_ms > 100 ? 100 : (int)wait_ms) > 0)
            return 0;
        if (is_cancelled(x)) {
            prn_executor_end(x);
            return prn_fail(err, PRONY_ECANCELED, "interrupted while %s", doing);
        }
        if (left_ns <= 0) {
            prn_executor_end(x);
            return prn_fail(err, PRONY_ETIMEDOUT, "%s took longer than %.3g s; %s", doing,
                            timeout_s, timeout_advice);
        }
    }
}

/* Waits for the next message and reads it into x->message. */
static int receive(struct prn_executor *x, double timeout_s, const char *doing,
                   struct prony_error *err)
{
    int code = wait_for_reply(x, timeout_s, doing, err);
    if (code < 0)
        return code;
    /* Before anybody's code runs in it, the executor hands over what to signal it with; and, with
     * inputs bound, what it has compiled. */
    int fd = -1;
    size_t n = 0;
    if (prn_message_receive_fds(&x->message, x->handle.fds[PRN_EXECUTOR_HANDLE_SOCKET], &fd,
                                !x->opened || x->binding ? 1 : 0, &n) < 0)
        return fail_dead(x, doing, err);
    int *kept = x->opened ? &x->made_fd : &x->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD];
    if (n > 0 && *kept < 0 && (x->opened || x->message.type == PRN_MESSAGE_STARTED))
        *kept = fd;
    else if (n > 0)
        close(fd);
    return 0;
}

/* Reads the reply into x->message. */
static int read_reply(struct prn_executor *x, double extra_s, const char *doing,
                      struct prony_error *err)
{
    int code = receive(x, x->timeout_s + extra_s, doing, err);
    if (code == 0 && x->message.type == PRN_MESSAGE_STARTED)
        code = receive(x, x->timeout_s + extra_s, doing, err);
    if (code < 0 || x->message.type == PRN_MESSAGE_OK)
        return code;
    code = (int)prn_message_int(&x->message);
    const char *text = prn_message_text(&x->message);
    code = prn_fail(err, code < 0 ? code : PRONY_ERUNTIME, "%s", text ? text : "no reason given");
    return explain_memory(x, code, err);
}

/* Nobody wants the answer to the run that was begun any more. x->message stays as it is. */
static int drop_unread(struct prn_executor *x, struct prony_error *err)
{
    char byte;
    int code = x->unread ? wait_for_reply(x, x->timeout_s, "running the model", err) : 0;
    if (code == 0 && x->unread &&
        recv(x->handle.fds[PRN_EXECUTOR_HANDLE_SOCKET], &byte, sizeof byte, 0) <= 0)
        code = fail_dead(x, "running the model", err);
    x->unread = false;
    return code;
}

/* Sends x->message. */
static int command(struct prn_executor *x, const char *doing, struct prony_error *err)
{
    if (!x->alive)
        return prn_fail(err, PRONY_ECRASH, "the executor is gone");
    if (x->exported)
        return prn_fail(err, PRONY_EUSAGE, "the executor was handed over");
    int code = drop_unread(x, err);
    if (code < 0)
        return code;
    if (prn_message_send(&x->message, x->handle.fds[PRN_EXECUTOR_HANDLE_SOCKET]) < 0) {
        if (errno == EMSGSIZE)
            return prn_fail(err, PRONY_ELIMIT, "too much to say in one command");
        return fail_dead(x, doing, err);
    }
    return 0;
}

/* Sends x->message and reads the reply into it. */
static int call(struct prn_executor *x, double extra_s, const char *doing, struct prony_error *err)
{
    int code = command(x, doing, err);
    return code < 0 ? code : read_reply(x, extra_s, doing, err);
}

static int malformed_reply(struct prn_executor *x, struct prony_error *err)
{
    prn_executor_end(x);
    return prn_fail(err, PRONY_ECRASH, "the executor sent a malformed reply");
}

static void keep(char *into, size_t size, const char *text)
{
    snprintf(into, size, "%s", text ? text : "");
}

int prn_executor_open_begin(struct prn_executor *x, const struct prn_runtime_config *config,
                            const char *model_path, const char *model_folder,
                            struct prony_error *err)
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
    prn_message_put_text(m, config->cache_folder);
    prn_message_put_text(m, model_path);
    prn_message_put_text(m, model_folder);
    prn_message_put_int(m, x->handle.memory_bytes);
    prn_message_put_int(m, x->handle.file_bytes);
    prn_message_put_int(m, x->handle.cpu_s);
    int code = command(x, "starting", err);
    x->opening = code == 0;
    return code;
}

int prn_executor_open_end(struct prn_executor *x, struct prony_error *err)
{
    struct prn_message *m = &x->message;
    if (!x->opening)
        return 0;
    x->opening = false;
    int code = read_reply(x, 0, "starting", err);
    if (code < 0)
        return code;
    x->opened = true;
    keep(x->handle.version, sizeof x->handle.version, prn_message_text(m));
    keep(x->handle.library, sizeof x->handle.library, prn_message_text(m));
    keep(x->handle.sandbox, sizeof x->handle.sandbox, prn_message_text(m));
    keep(x->origin, sizeof x->origin, prn_message_text(m));
    keep(x->offers, sizeof x->offers, prn_message_text(m));
    return m->failed ? malformed_reply(x, err) : 0;
}

int prn_executor_open(struct prn_executor *x, const struct prn_runtime_config *config,
                      const char *model_path, const char *model_folder, struct prony_error *err)
{
    int code = prn_executor_open_begin(x, config, model_path, model_folder, err);
    return code < 0 ? code : prn_executor_open_end(x, err);
}

const char *prn_executor_version(const struct prn_executor *x)
{
    return x->handle.version;
}

const char *prn_executor_library(const struct prn_executor *x)
{
    return x->handle.library;
}

const char *prn_executor_origin(const struct prn_executor *x)
{
    return x->origin;
}

const char *prn_executor_offers(const struct prn_executor *x)
{
    return x->offers;
}

const char *prn_executor_sandbox(const struct prn_executor *x)
{
    return x->handle.sandbox;
}

int prn_executor_inputs_fd(const struct prn_executor *x)
{
    return x->handle.fds[PRN_EXECUTOR_HANDLE_INPUTS];
}

void prn_executor_set_timeout(struct prn_executor *x, double timeout_s)
{
    x->timeout_s = timeout_s;
}

void prn_executor_set_cancelled(struct prn_executor *x, const volatile int *cancelled)
{
    x->cancelled = cancelled;
}

int prn_executor_select(struct prn_executor *x, size_t slot, struct prony_error *err)
{
    if (slot >= PRN_EXECUTOR_SLOTS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "an executor holds at most %d models",
                        PRN_EXECUTOR_SLOTS_MAX);
    x->slot = slot;
    return 0;
}

/* A command about the model of the selected slot. */
static void executor_begin(struct prn_executor *x, enum prn_message_type type)
{
    x->has_outputs = false;
    prn_message_begin(&x->message, type);
    prn_message_put_int(&x->message, (int64_t)x->slot);
}

int prn_executor_load(struct prn_executor *x, const char *model_path, int64_t *ret_ns,
                      struct prony_error *err)
{
    executor_begin(x, PRN_MESSAGE_LOAD);
    prn_message_put_text(&x->message, model_path);
    prn_message_put_text(&x->message, x->reuse);
    x->reuse = NULL;
    int code = call(x, 0, "loading the model", err);
    if (code < 0)
        return code;
    int64_t ns = prn_message_int(&x->message);
    if (x->message.failed)
        return malformed_reply(x, err);
    *ret_ns = ns;
    return 0;
}

int prn_executor_unload(struct prn_executor *x, struct prony_error *err)
{
    executor_begin(x, PRN_MESSAGE_UNLOAD);
    return call(x, 0, "unloading the model", err);
}

void prn_place_put(const struct prn_place *p, struct prn_message *m)
{
    prn_message_put_text(m, p->name);
    prn_message_put_int(m, p->dtype);
    prn_message_put_int(m, (int64_t)p->rank);
    for (size_t k = 0; k < p->rank; k++)
        prn_message_put_int(m, p->dims[k]);
    prn_message_put_int(m, (int64_t)p->offset);
    prn_message_put_int(m, (int64_t)p->bytes);
}

bool prn_place_get(struct prn_place *p, struct prn_message *m, struct prn_arena *arena)
{
    const char *name = prn_message_text(m);
    p->name = prn_arena_strdup(arena, name ? name : "");
    p->dtype = (int)prn_message_int(m);
    p->rank = prn_message_count(m, PRN_RUNTIME_RANK_MAX);
    for (size_t k = 0; k < p->rank; k++)
        p->dims[k] = prn_message_int(m);
    p->offset = prn_message_count(m, SIZE_MAX / 2);
    p->bytes = prn_message_count(m, SIZE_MAX / 2);
    return p->name;
}

int prn_executor_bind(struct prn_executor *x, const struct prn_place *inputs, size_t n_inputs,
                      struct prony_error *err)
{
    struct prn_message *m = &x->message;
    executor_begin(x, PRN_MESSAGE_BIND);
    prn_message_put_int(m, (int64_t)n_inputs);
    for (size_t i = 0; i < n_inputs; i++)
        prn_place_put(&inputs[i], m);
    x->binding = true;
    int code = call(x, 0, "binding inputs", err);
    x->binding = false;
    return code;
}

void prn_executor_set_reuse(struct prn_executor *x, const char *path)
{
    x->reuse = path;
}

int prn_executor_take_made(struct prn_executor *x)
{
    int fd = x->made_fd;
    x->made_fd = -1;
    return fd;
}

/* `cpu`: the core on which it is to run, -1: any. */
static void put_run(struct prn_executor *x, size_t warmups, size_t repeats, int64_t most_ns,
                    int cpu)
{
    executor_begin(x, PRN_MESSAGE_RUN);
    prn_message_put_int(&x->message, (int64_t)warmups);
    prn_message_put_int(&x->message, (int64_t)repeats);
    prn_message_put_int(&x->message, most_ns);
    prn_message_put_int(&x->message, x->wants_outputs);
    prn_message_put_int(&x->message, cpu);
}

void prn_executor_want_outputs(struct prn_executor *x, bool wanted)
{
    x->wants_outputs = wanted;
}

bool prn_executor_run_begin(struct prn_executor *x, size_t warmups, size_t repeats)
{
    if (!x->alive || x->exported || x->unread)
        return false;
    /* Whoever gives this command waits for the end of it. To wake another core and to be woken by
     * it takes many times as long as a run of a few µs, which one core does alone anyway. */
    put_run(x, warmups, repeats, 0, x->last_ns < CLOSE_NS ? sched_getcpu() : -1);
    x->unread = prn_message_try_send(&x->message, x->handle.fds[PRN_EXECUTOR_HANDLE_SOCKET]) == 0;
    return x->unread;
}

bool prn_executor_run_wait(struct prn_executor *x, int64_t most_ns)
{
    struct pollfd wait = {.fd = x->handle.fds[PRN_EXECUTOR_HANDLE_SOCKET], .events = POLLIN};
    const struct timespec most = prn_timespec(most_ns);
    /* One that hung up is no answer: to find out what became of it takes its time. */
    if (x->unread && !x->answered)
        x->answered = ppoll(&wait, 1, &most, NULL) > 0 && wait.revents == POLLIN;
    return x->answered;
}

/* What the reply to such a command says. */
static int read_samples(struct prn_executor *x, size_t repeats, int64_t *samples, size_t *ret_n,
                        struct prony_error *err)
{
    size_t n = prn_message_count(&x->message, repeats);
    if (x->message.failed || (n == 0 && repeats > 0))
        return malformed_reply(x, err);
    memcpy(samples, x->samples->ns, n * sizeof *samples);
    *ret_n = n;
    x->last_ns = n > 0 ? samples[n - 1] : INT64_MAX;
    x->has_outputs = x->wants_outputs;
    return 0;
}

int prn_executor_run(struct prn_executor *x, size_t warmups, size_t repeats, int64_t most_ns,
                     int64_t *samples, size_t *ret_n, struct prony_error *err)
{
    put_run(x, warmups, repeats, most_ns, -1);
    int code = call(x, (double)most_ns * 1e-9, "running the model", err);
    return code < 0 ? code : read_samples(x, repeats, samples, ret_n, err);
}

int prn_executor_run_end(struct prn_executor *x, size_t repeats, int64_t *samples, size_t *ret_n,
                         struct prony_error *err)
{
    if (!x->unread)
        return prn_fail(err, PRONY_EUSAGE, "no run was begun");
    x->unread = false;
    int code = read_reply(x, 0, "running the model", err);
    return code < 0 ? code : read_samples(x, repeats, samples, ret_n, err);
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
    executor_begin(x, PRN_MESSAGE_DRIVE);
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

int prn_executor_outputs_fd(const struct prn_executor *x)
{
    return x->handle.fds[PRN_EXECUTOR_HANDLE_OUTPUTS];
}

/* The file grows, so it is asked for its size only when more is said to lie there than ever. */
static bool lie_in_file(struct prn_executor *x, const struct prn_place *place)
{
    size_t end = place->offset + place->bytes;
    if (end > x->outputs_bytes) {
        off_t size = lseek(prn_executor_outputs_fd(x), 0, SEEK_END);
        x->outputs_bytes = size > 0 ? (size_t)size : 0;
    }
    return end <= x->outputs_bytes;
}

int prn_executor_outputs(struct prn_executor *x, size_t lane, struct prn_arena *arena,
                         struct prn_place **ret_outputs, size_t *ret_n, int *ret_fd,
                         struct prony_error *err)
{
    struct prn_message *m = &x->message;
    if (!x->has_outputs || lane > 0) {
        executor_begin(x, PRN_MESSAGE_OUTPUTS);
        prn_message_put_int(m, (int64_t)lane);
        int code = call(x, 0, "reading outputs", err);
        if (code < 0)
            return code;
    }
    x->has_outputs = false;
    size_t n = prn_message_count(m, PRN_EXECUTOR_TENSORS_MAX);
    struct prn_place *places = PRN_ARENA_ARRAY(arena, n + 1, struct prn_place);
    if (!places)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n && !m->failed; i++) {
        if (!prn_place_get(&places[i], m, arena))
            return prn_fail_memory(err);
        if (!lie_in_file(x, &places[i]))
            return malformed_reply(x, err);
    }
    if (m->failed)
        return malformed_reply(x, err);
    if (ret_fd) {
        int fd = fcntl(prn_executor_outputs_fd(x), F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return prn_fail_errno(err, errno, "keep", "outputs");
        *ret_fd = fd;
    }
    *ret_outputs = places;
    *ret_n = n;
    return 0;
}

int prn_executor_placement(struct prn_executor *x, struct prn_arena *arena,
                           struct prn_placed **ret_rows, size_t *ret_n, struct prony_error *err)
{
    struct prn_message *m = &x->message;
    executor_begin(x, PRN_MESSAGE_PLACEMENT);
    int code = call(x, 0, "listing the nodes", err);
    if (code < 0)
        return code;
    size_t n = prn_message_count(m, PRN_MESSAGE_MAX / 8);
    struct prn_placed *rows = PRN_ARENA_ARRAY(arena, n + 1, struct prn_placed);
    bool kept = rows != NULL;
    for (size_t i = 0; kept && i < n; i++) {
        const char *provider = prn_message_text(m);
        const char *op = prn_message_text(m);
        rows[i].provider = prn_arena_strdup(arena, provider ? provider : "");
        rows[i].op = prn_arena_strdup(arena, op ? op : "");
        rows[i].nodes = (int64_t)prn_message_count(m, INT32_MAX);
        kept = rows[i].provider && rows[i].op;
    }
    if (!kept)
        return prn_fail_memory(err);
    if (m->failed)
        return malformed_reply(x, err);
    *ret_rows = rows;
    *ret_n = n;
    return 0;
}

int prn_executor_begin_profiling(struct prn_executor *x, struct prony_error *err)
{
    executor_begin(x, PRN_MESSAGE_BEGIN_PROFILING);
    return call(x, 0, "reading its counters", err);
}

int prn_executor_end_profiling(struct prn_executor *x, struct prony_error *err)
{
    executor_begin(x, PRN_MESSAGE_END_PROFILING);
    return call(x, 0, "writing its trace", err);
}
