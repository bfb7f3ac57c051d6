/* The executor's own side: one loop over commands, around a runtime that has one instance for each
 * model. */
#include "base/io.h"
#include "base/clock.h"
#include "exec/executor.h"
#include "exec/guard.h"
#include "exec/python.h"
#include "exec/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The inputs' shared memory, mapped as it was when they were bound. */
struct inputs {
    void *map; /* NULL: there is nothing to map */
    size_t bytes;
};

/* A model, with an instance of the runtime for itself. */
struct slot {
    struct prn_runtime *runtime;
    bool loaded;
    struct inputs inputs;
    struct prn_runtime *lanes[PRN_DRIVE_WORKERS_MAX]; /* the first one is `runtime` */
    size_t n_lanes;
    bool profiling;
};

#define OPTIONS_MAX 64

/* How the runtime was opened, to open more of it: texts point into a message that is kept. */
struct opening {
    struct prn_message message;
    struct prn_runtime_config config;
    struct prn_spec_option options[OPTIONS_MAX];
    char library[4096];
    char library_folder[4096];
};

struct server {
    union prn_executor_samples *samples;  /* shared with the parent */
    const struct prn_runtime_ops *python; /* functions of a runtime that is Python's, or NULL */
    const struct prn_runtime_ops *row;    /* what the registry says of the runtime */
    const struct prn_runtime_ops *ops;    /* its functions; NULL: not opened yet */
    struct opening opening;
    struct prn_sandbox sandbox;
    char namespaces[160];
    char scratch[PATH_MAX]; /* the folder of a runtime that compiles; "": none */
    struct slot *slots[PRN_EXECUTOR_SLOTS_MAX]; /* NULL: never used */
    struct slot *slot;                          /* the one that the command speaks of */
    cpu_set_t cores;                            /* that this process may use */
    int64_t core;                               /* the only one that it uses now; -1: all */
    int made_fd;                                /* goes with the answer; -1: none */
    struct prn_message in, out;
};

static int bad_message(struct prony_error *err)
{
    return prn_fail(err, PRONY_EFORMAT, "malformed command");
}

/* Populated, so that the first run doesn't pay for finding the pages. */
static int map_inputs(struct inputs *ret_inputs, struct prony_error *err)
{
    struct stat status;
    if (fstat(PRN_EXECUTOR_FD_INPUTS, &status) < 0)
        return prn_fail_errno(err, errno, "read", "inputs");
    struct inputs inputs = {.bytes = (size_t)status.st_size};
    if (inputs.bytes > 0) {
        inputs.map = mmap(NULL, inputs.bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE,
                          PRN_EXECUTOR_FD_INPUTS, 0);
        if (inputs.map == MAP_FAILED)
            return prn_fail_errno(err, errno, "map", "inputs");
    }
    *ret_inputs = inputs;
    return 0;
}

static void unmap_inputs(struct inputs *inputs)
{
    if (inputs->map)
        munmap(inputs->map, inputs->bytes);
    *inputs = (struct inputs){0};
}

/* Another instance of the runtime, as the first one was opened; the library is there already. */
static int open_slot(struct server *s, size_t number, struct prony_error *err)
{
    struct slot *slot = s->slots[number];
    if (!slot) {
        slot = calloc(1, sizeof *slot);
        if (!slot)
            return prn_fail_memory(err);
        s->slots[number] = slot;
    }
    int code = slot->runtime ? 0 : s->ops->open(&s->opening.config, &slot->runtime, err);
    slot->profiling = code == 0 && s->opening.config.profile_folder;
    return code;
}

/* Lanes borrow the inputs, so they end with them. */
static void close_lanes(struct server *s)
{
    while (s->slot->n_lanes > 1)
        s->ops->close(s->slot->lanes[--s->slot->n_lanes]);
    s->slot->n_lanes = 0;
}

static void close_slot(struct server *s)
{
    close_lanes(s);
    s->ops->close(s->slot->runtime);
    unmap_inputs(&s->slot->inputs);
    *s->slot = (struct slot){0};
}

static int read_opening(struct server *s, struct prony_error *err)
{
    struct opening *o = &s->opening;
    struct prn_sandbox *sandbox = &s->sandbox;
    o->message = s->in;
    struct prn_message *m = &o->message;
    const char *version = prn_message_text(m);
    if (!version || strcmp(version, prony_version()) != 0)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "the program for executors is prony %s, the library is prony %s",
                        prony_version(), version ? version : "of another time");
    o->config.software = prn_message_text(m);
    o->config.library = prn_message_text(m);
    o->config.n_options = prn_message_count(m, OPTIONS_MAX);
    o->config.options = o->options;
    for (size_t i = 0; i < o->config.n_options; i++) {
        o->options[i].key = prn_message_text(m);
        o->options[i].value = prn_message_text(m);
        if (!o->options[i].key || !o->options[i].value)
            return bad_message(err);
    }
    o->config.profile_folder = prn_message_text(m);
    sandbox->writable_folder = o->config.profile_folder;
    sandbox->cache_folder = o->config.cache_folder = prn_message_text(m);
    sandbox->model_path = prn_message_text(m);
    sandbox->model_folder = prn_message_text(m);
    sandbox->memory_bytes = prn_message_int(m);
    sandbox->file_bytes = prn_message_int(m);
    sandbox->cpu_s = prn_message_int(m);
    o->config.probe = !sandbox->model_path && !sandbox->model_folder;
    return m->failed || !o->config.software ? bad_message(err) : 0;
}

/* Keeps the path of the library that was found: later instances must not search for another. */
static void keep_library(struct server *s)
{
    struct opening *o = &s->opening;
    snprintf(o->library, sizeof o->library, "%s", s->ops->library(s->slots[0]->runtime));
    o->config.loaded = o->library;
    memcpy(o->library_folder, o->library, sizeof o->library);
    char *slash = strrchr(o->library_folder, '/');
    if (slash)
        *slash = '\0';
    s->sandbox.library_folder = slash ? o->library_folder : NULL;
}

static int serve_open(struct server *s, struct prony_error *err)
{
    if (s->ops)
        return bad_message(err);
    int code = read_opening(s, err);
    if (code < 0)
        return code;
    struct prn_runtime_config *config = &s->opening.config;
    const struct prn_runtime_ops *row = prn_runtime_find(config->software);
    if (!row)
        return prn_fail(err, PRONY_EUSAGE, "no runtime is called '%s'", config->software);
    if (config->profile_folder && !row->end_profiling)
        return prn_fail(err, PRONY_EUNSUPPORTED, "%s has no profiler", row->title);
    code = prn_runtime_check_options(row, config->options, config->n_options, err);
    if (code < 0)
        return code;
    config->scratch_folder = s->scratch[0] ? s->scratch : NULL;
    s->row = row;
    s->ops = row->python && s->python ? s->python : row;
    code = open_slot(s, 0, err);
    if (code < 0) {
        s->ops = NULL;
        return code;
    }
    keep_library(s);
    s->sandbox.gpu = prn_runtime_needs_devices(row, config);
    s->sandbox.namespaces = s->namespaces;
    s->sandbox.scratch_folder = config->scratch_folder;
    s->sandbox.readable = s->ops->readable ? s->ops->readable(s->slots[0]->runtime) : NULL;
    char confined[PRN_EXECUTOR_SANDBOX_SIZE];
    code = prn_sandbox_enter(&s->sandbox, confined, sizeof confined, err);
    if (code < 0)
        return code;
    prn_message_put_text(&s->out, s->ops->version(s->slots[0]->runtime));
    prn_message_put_text(&s->out, s->opening.library);
    prn_message_put_text(&s->out, confined);
    prn_message_put_text(&s->out, s->ops->origin ? s->ops->origin(s->slots[0]->runtime) : NULL);
    prn_message_put_text(&s->out, s->ops->offers ? s->ops->offers(s->slots[0]->runtime) : NULL);
    return 0;
}

static int serve_load(struct server *s, struct prony_error *err)
{
    const char *path = prn_message_text(&s->in);
    const char *reuse = prn_message_text(&s->in);
    if (!path || s->in.failed)
        return bad_message(err);
    if (s->ops->reuse)
        s->ops->reuse(s->slot->runtime, reuse);
    int64_t start = prn_clock_ns();
    int code = s->ops->load(s->slot->runtime, path, err);
    prn_message_put_int(&s->out, prn_clock_ns() - start);
    if (code == 0)
        s->slot->loaded = true;
    else
        close_slot(s);
    return code;
}

static int serve_unload(struct server *s, struct prony_error *err)
{
    (void)err;
    close_slot(s);
    return 0;
}

/* Reads the next input of a command: what it is, and its data in the mapped memory. */
static int read_input(struct server *s, const struct inputs *inputs, struct prn_place *place,
                      struct prn_runtime_tensor *tensor, struct prony_error *err)
{
    place->name = prn_message_text(&s->in);
    place->dtype = (int)prn_message_int(&s->in);
    place->rank = prn_message_count(&s->in, PRN_RUNTIME_RANK_MAX);
    for (size_t k = 0; k < place->rank; k++)
        place->dims[k] = prn_message_int(&s->in);
    place->offset = prn_message_count(&s->in, inputs->bytes);
    place->bytes = prn_message_count(&s->in, inputs->bytes - place->offset);
    if (s->in.failed || !place->name)
        return bad_message(err);
    *tensor = (struct prn_runtime_tensor){
        .name = place->name,
        .dtype = place->dtype,
        .rank = place->rank,
        .dims = place->dims,
        .data = place->bytes ? (const unsigned char *)inputs->map + place->offset : NULL,
        .bytes = place->bytes,
    };
    return 0;
}

/* Inputs may be bound again, other ones in a file of another size: the old map goes once the
 * runtime has let go of what lies in it. */
static int serve_bind(struct server *s, struct prony_error *err)
{
    struct inputs inputs = {0};
    int code = map_inputs(&inputs, err);
    size_t n = prn_message_count(&s->in, PRN_EXECUTOR_TENSORS_MAX);
    struct prn_place *places = calloc(n + 1, sizeof *places);
    struct prn_runtime_tensor *tensors = calloc(n + 1, sizeof *tensors);
    if (code == 0 && (!places || !tensors))
        code = prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++)
        code = read_input(s, &inputs, &places[i], &tensors[i], err);
    if (code == 0) {
        close_lanes(s);
        code = s->ops->bind(s->slot->runtime, tensors, n, err);
        unmap_inputs(&s->slot->inputs);
        s->slot->inputs = inputs;
        if (code == 0 && s->ops->made && (!s->row->compiles || s->opening.config.cache_folder))
            s->made_fd = s->ops->made(s->slot->runtime);
    } else {
        unmap_inputs(&inputs);
    }
    free(places);
    free(tensors);
    return code;
}

/* Copies the outputs of the last run to shared memory and lists them. */
static int put_outputs(struct server *s, struct prn_runtime *runtime, struct prony_error *err)
{
    size_t n = s->ops->output_count(runtime);
    size_t offset = 0;
    if (n > PRN_EXECUTOR_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the model has %zu outputs, more than %d to compare", n,
                        PRN_EXECUTOR_TENSORS_MAX);
    prn_message_put_int(&s->out, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        struct prn_runtime_tensor t;
        int code = s->ops->output(runtime, i, &t, err);
        if (code < 0)
            return code;
        if (prn_pwrite_all(PRN_EXECUTOR_FD_OUTPUTS, t.data, t.bytes, offset) < 0)
            return prn_fail_errno(err, errno, "write", t.name);
        prn_message_put_text(&s->out, t.name);
        prn_message_put_int(&s->out, t.dtype);
        prn_message_put_int(&s->out, (int64_t)t.rank);
        for (size_t k = 0; k < t.rank; k++)
            prn_message_put_int(&s->out, t.dims[k]);
        prn_message_put_int(&s->out, (int64_t)offset);
        prn_message_put_int(&s->out, (int64_t)t.bytes);
        offset += t.bytes;
    }
    return s->out.failed ? prn_fail(err, PRONY_ELIMIT, "too many outputs to list") : 0;
}

/* Keeps this thread on one core; -1: lets it go anywhere again. Threads that it starts later would
 * stay there too, so only runs are served that way. */
static void stay_on(struct server *s, int64_t core)
{
    if (core == s->core || core >= CPU_SETSIZE || CPU_COUNT(&s->cores) == 0)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (core >= 0)
        CPU_SET((size_t)core, &one);
    if (sched_setaffinity(0, sizeof one, core >= 0 ? &one : &s->cores) == 0)
        s->core = core;
}

static int serve_run(struct server *s, struct prony_error *err)
{
    int64_t warmups = prn_message_int(&s->in);
    size_t repeats = prn_message_count(&s->in, PRN_EXECUTOR_SAMPLES_MAX);
    int64_t most_ns = prn_message_int(&s->in);
    bool outputs = prn_message_int(&s->in) != 0;
    int64_t core = prn_message_int(&s->in);
    if (s->in.failed)
        return bad_message(err);
    stay_on(s, core < 0 ? -1 : core);
    struct prn_runtime *runtime = s->slot->runtime;
    int (*const prepare)(struct prn_runtime *, struct prony_error *) = s->ops->prepare;
    int (*const run)(struct prn_runtime *, struct prony_error *) = s->ops->run;
    for (int64_t i = 0; i < warmups; i++) {
        int code = prepare ? prepare(runtime, err) : 0;
        if (code == 0)
            code = run(runtime, err);
        if (code < 0)
            return code;
    }
    size_t n = 0;
    int64_t start = prn_clock_ns();
    while (n < repeats) {
        int code = prepare ? prepare(runtime, err) : 0;
        if (code < 0)
            return code;
        int64_t before = prn_clock_ns();
        code = run(runtime, err);
        int64_t after = prn_clock_ns();
        if (code < 0)
            return code;
        s->samples->ns[n++] = after - before;
        if (most_ns > 0 && after - start >= most_ns)
            break;
    }
    prn_message_put_int(&s->out, (int64_t)n);
    return outputs ? put_outputs(s, runtime, err) : 0;
}

/* One lane for each worker. They stay: a server doesn't make new ones for each request either. */
static int make_lanes(struct server *s, size_t workers, struct prony_error *err)
{
    if (workers > 1 && !s->ops->lane)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "'%s' runs one request at a time: only --concurrency 1 is possible",
                        s->row->software);
    struct slot *slot = s->slot;
    if (slot->n_lanes == 0)
        slot->lanes[slot->n_lanes++] = slot->runtime;
    int code = 0;
    while (code == 0 && slot->n_lanes < workers) {
        code = s->ops->lane(slot->runtime, &slot->lanes[slot->n_lanes], err);
        slot->n_lanes += code == 0;
    }
    return code;
}

static int serve_drive(struct server *s, struct prony_error *err)
{
    struct prn_drive_plan plan = {0};
    plan.workers = prn_message_count(&s->in, PRN_DRIVE_WORKERS_MAX);
    plan.rate = prn_message_number(&s->in);
    plan.seed = (uint64_t)prn_message_int(&s->in);
    plan.most_requests = prn_message_count(&s->in, PRN_EXECUTOR_REQUESTS_MAX);
    plan.span_ns = prn_message_int(&s->in);
    plan.patience_ns = prn_message_int(&s->in);
    if (s->in.failed || plan.workers == 0 || plan.most_requests == 0)
        return bad_message(err);
    int code = make_lanes(s, plan.workers, err);
    if (code < 0)
        return code;
    struct prn_drive_end end;
    code = prn_drive(&plan, s->ops, s->slot->lanes, s->samples->requests, &end, err);
    if (code < 0)
        return code;
    prn_message_put_int(&s->out, (int64_t)end.n);
    prn_message_put_int(&s->out, end.gave_up);
    return 0;
}

static int serve_outputs(struct server *s, struct prony_error *err)
{
    size_t lane = prn_message_count(&s->in, PRN_DRIVE_WORKERS_MAX - 1);
    if (s->in.failed || (lane > 0 && lane >= s->slot->n_lanes))
        return bad_message(err);
    return put_outputs(s, lane > 0 ? s->slot->lanes[lane] : s->slot->runtime, err);
}

static int serve_begin_profiling(struct server *s, struct prony_error *err)
{
    if (!s->slot->profiling || !s->ops->begin_profiling)
        return bad_message(err);
    return s->ops->begin_profiling(s->slot->runtime, err);
}

static int serve_end_profiling(struct server *s, struct prony_error *err)
{
    if (!s->slot->profiling)
        return bad_message(err);
    s->slot->profiling = false;
    return s->ops->end_profiling(s->slot->runtime, err);
}

static int serve_placement(struct server *s, struct prony_error *err)
{
    struct prn_placed *rows = NULL;
    size_t n = 0;
    int code = s->ops->placement ? s->ops->placement(s->slot->runtime, &rows, &n, err) : 0;
    prn_message_put_int(&s->out, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        prn_message_put_text(&s->out, rows[i].provider);
        prn_message_put_text(&s->out, rows[i].op);
        prn_message_put_int(&s->out, rows[i].nodes);
    }
    free(rows);
    if (code == 0 && s->out.failed)
        code = prn_fail(err, PRONY_ELIMIT, "the model has too many kinds of operators to list");
    return code;
}

/* Finds the slot that a command begins with. Loading puts a new model into it, the others need one
 * that is loaded. */
static int choose_slot(struct server *s, struct prony_error *err)
{
    size_t number = prn_message_count(&s->in, PRN_EXECUTOR_SLOTS_MAX - 1);
    if (s->in.failed || !s->ops)
        return bad_message(err);
    s->slot = s->slots[number];
    if (s->in.type != PRN_MESSAGE_LOAD)
        return s->slot && s->slot->loaded ? 0
                                          : prn_fail(err, PRONY_EUSAGE, "no model is loaded there");
    if (s->slot && s->slot->loaded)
        close_slot(s);
    int code = open_slot(s, number, err);
    s->slot = s->slots[number];
    return code;
}

static int serve_one(struct server *s)
{
    static int (*const handlers[])(struct server *, struct prony_error *) = {
        [PRN_MESSAGE_OPEN] = serve_open,
        [PRN_MESSAGE_LOAD] = serve_load,
        [PRN_MESSAGE_UNLOAD] = serve_unload,
        [PRN_MESSAGE_BIND] = serve_bind,
        [PRN_MESSAGE_RUN] = serve_run,
        [PRN_MESSAGE_DRIVE] = serve_drive,
        [PRN_MESSAGE_OUTPUTS] = serve_outputs,
        [PRN_MESSAGE_PLACEMENT] = serve_placement,
        [PRN_MESSAGE_BEGIN_PROFILING] = serve_begin_profiling,
        [PRN_MESSAGE_END_PROFILING] = serve_end_profiling,
    };
    struct prony_error err = {0};
    int code = 0;
    prn_message_begin(&s->out, PRN_MESSAGE_OK);
    if (s->in.type != PRN_MESSAGE_RUN)
        stay_on(s, -1);
    if (s->in.type >= PRN_ARRAY_SIZE(handlers))
        code = bad_message(&err);
    else if (s->in.type != PRN_MESSAGE_OPEN)
        code = choose_slot(s, &err);
    if (code == 0)
        code = handlers[s->in.type](s, &err);
    if (code < 0) {
        prn_message_begin(&s->out, PRN_MESSAGE_ERROR);
        prn_message_put_int(&s->out, code);
        prn_message_put_text(&s->out, err.text);
    }
    if (s->made_fd < 0)
        return prn_message_send(&s->out, PRN_EXECUTOR_FD_SOCKET);
    code = prn_message_send_fds(&s->out, PRN_EXECUTOR_FD_SOCKET, &s->made_fd, 1);
    close(s->made_fd);
    s->made_fd = -1;
    return code;
}

/* The kernel's out-of-memory killer is to take the executor, not what measures it. */
static void volunteer_for_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, "1000", 4);
        (void)ignored;
        close(fd);
    }
}

/* The page in which the init says how the executor ended. */
static struct prn_guard_status *map_status(void)
{
    void *page = mmap(NULL, sizeof(struct prn_guard_status), PROT_READ | PROT_WRITE, MAP_SHARED,
                      PRN_EXECUTOR_FD_STATUS, 0);
    close(PRN_EXECUTOR_FD_STATUS);
    return page == MAP_FAILED ? NULL : page;
}

/* Returns in the process that is to serve: a new one in namespaces, or, where there is no way to
 * tell prony which one that is, this one. The command that opens the runtime says what it needs. */
static void enter_guard(struct server *s, struct prn_guard_status *status)
{
    int self = pidfd_open(getpid(), 0);
    struct prony_error ignored; /* whoever serves will find it again */
    if (self < 0 || s->in.type != PRN_MESSAGE_OPEN || read_opening(s, &ignored) < 0) {
        snprintf(s->namespaces, sizeof s->namespaces, "no namespaces");
        close(self);
        return;
    }
    close(self);
    const struct prn_runtime_ops *ops = prn_runtime_find(s->opening.config.software);
    const char *const needed[] = {s->sandbox.model_path, s->sandbox.model_folder,
                                  s->sandbox.cache_folder};
    struct prn_guard guard = {
        .namespaces = !ops || !prn_runtime_needs_devices(ops, &s->opening.config),
        .writable_folder = s->opening.config.profile_folder,
        .scratch = ops && ops->compiles && !s->opening.config.probe ? s->scratch : NULL,
        .needed = needed,
        .n_needed = PRN_ARRAY_SIZE(needed),
        .status = status};
    prn_guard_enter(&guard, s->namespaces, sizeof s->namespaces);
    self = pidfd_open(getpid(), 0);
    prn_message_begin(&s->out, PRN_MESSAGE_STARTED);
    prn_message_send_fds(&s->out, PRN_EXECUTOR_FD_SOCKET, &self, self >= 0);
    close(self);
}

/* The first command says which runtime it will be; Python finds it where it is. */
static void become_python(struct server *s)
{
    struct prony_error ignored; /* whoever serves will find it again */
    if (prn_message_peek(&s->in, PRN_EXECUTOR_FD_SOCKET) < 0 || s->in.type != PRN_MESSAGE_OPEN ||
        read_opening(s, &ignored) < 0)
        return;
    const struct prn_runtime_ops *row = prn_runtime_find(s->opening.config.software);
    if (row && row->python)
        prn_python_become();
}

int prn_executor_main(const struct prn_runtime_ops *python)
{
    static struct server s;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Who ends a job of Slurm's or a unit of systemd's tells all of its processes at once. That is
     * for whoever started this one, who may let it finish, and ends it otherwise. The kernel hangs
     * up on a stopped process whose owner has died, which must not look like a crash. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    s.python = python;
    if (!python)
        become_python(&s);
    s.core = s.made_fd = -1;
    /* Who doesn't know where it may run couldn't go back, so it never stays on one. */
    if (sched_getaffinity(0, sizeof s.cores, &s.cores) < 0)
        CPU_ZERO(&s.cores);
    /* A file that grows too large is an error of whoever writes it, not the end. */
    signal(SIGXFSZ, SIG_IGN);
    volunteer_for_oom();
    void *samples = mmap(NULL, sizeof *s.samples, PROT_READ | PROT_WRITE, MAP_SHARED,
                         PRN_EXECUTOR_FD_SAMPLES, 0);
    if (samples == MAP_FAILED)
        return 1;
    s.samples = samples;
    close(PRN_EXECUTOR_FD_SAMPLES);
    struct prn_guard_status *status = map_status();
    if (prn_message_receive(&s.in, PRN_EXECUTOR_FD_SOCKET) < 0)
        _exit(0);
    if (status) {
        enter_guard(&s, status);
        munmap(status, sizeof *status);
    }
    while (serve_one(&s) == 0 && prn_message_receive(&s.in, PRN_EXECUTOR_FD_SOCKET) == 0)
        ;
    /* The process ends here, and the kernel frees better than any destructor. */
    _exit(0);
}
