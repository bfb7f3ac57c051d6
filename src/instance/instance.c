#include "instance/instance.h"

#include "base/clock.h"
#include "instance/shelf.h"
#include "instance/cache.h"
#include "model/fx/fx.h"
#include "model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ALIGNMENT ((size_t)64)               /* of inputs, as runtimes like it */
#define GROWTH_BYTES ((size_t)64 << 10)      /* of the inputs' memory, at least */
#define SLICE_NS 1000000000                  /* after which runs are continued by another command */
#define MODEL_ARENA_BYTES ((size_t)16 << 20) /* for names */
#define BEGIN_BYTES_MAX ((size_t)64 << 10)   /* of inputs that are quickly copied */
/* Outputs up to this are copied rather than lent. */
#define LEND_BYTES_MIN ((size_t)64 << 10)

/* A model that was loaded, whether or not the process that is there now has it. */
struct model {
    uint64_t id;
    struct prn_arena arena;
    const char *path;
    char *cached; /* where what is compiled of it is kept; NULL: nowhere */
    size_t n_inputs, n_outputs;
    const char **input_names;
    const char **output_names;
    bool by_place; /* outputs are known by their places, not by their names */
    bool loaded;   /* in the executor that is there now */
    /* What is bound there: when the same comes again, only the data is new. */
    bool bound;
    struct prn_place *places;
    int64_t run_ns; /* of the last timed run; 0: not known */
};

struct prn_instance {
    struct prn_arena arena;
    const char *program, *folder;
    struct prn_runtime_config runtime;
    bool fxproto; /* is what it takes; else ONNX */
    double timeout_s;
    int64_t memory_bytes;
    const volatile int *cancelled;
    struct prn_executor *executor;
    bool adopted;
    int inputs_fd;
    unsigned char *inputs;
    size_t inputs_bytes;
    struct model *models[PRN_EXECUTOR_SLOTS_MAX]; /* by slot; NULL: free */
    size_t n_models;                              /* slots that were ever used */
    struct prn_shelf *shelf;
};

/* When a call must be over. */
struct limit {
    int64_t deadline_ns; /* on CLOCK_MONOTONIC */
    double timeout_s;    /* of one command */
};

static bool is_cancelled(const struct prn_instance *i)
{
    return i->cancelled && __atomic_load_n(i->cancelled, __ATOMIC_RELAXED);
}

/* Waits until nobody sends what lies in the map any more. */
static int shelf_wait(struct prn_instance *i, const struct limit *limit, struct prony_error *err)
{
    struct prn_shelf *s = i->shelf;
    int code = 0;
    prn_shelf_lock(s);
    while (s->held && code == 0) {
        int64_t until_ns = prn_monotonic_ns() + 100000000;
        if (is_cancelled(i))
            code = prn_fail(err, PRONY_ECANCELED, "interrupted while reading outputs");
        else if (until_ns - 100000000 >= limit->deadline_ns)
            code = prn_fail(err, PRONY_ETIMEDOUT,
                            "the outputs of an earlier run are still being sent");
        struct timespec t = prn_timespec(until_ns);
        if (code == 0)
            pthread_cond_timedwait(&s->released, &s->lock, &t);
    }
    prn_shelf_unlock(s);
    return code;
}

static bool shelf_is_held(struct prn_instance *i)
{
    prn_shelf_lock(i->shelf);
    bool held = i->shelf->held;
    prn_shelf_unlock(i->shelf);
    return held;
}

/* ---- The process ---- */

static int check_options(const struct prn_spec *spec, const struct prn_runtime_ops *ops,
                         struct prony_error *err)
{
    for (size_t i = 0; i < spec->n_options; i++) {
        const struct prn_runtime_option *o = prn_runtime_find_option(ops, spec->options[i].key);
        if (o && o->local_only)
            return prn_fail(err, PRONY_EDENIED,
                            "backend '%s': the option '%s' names a file; that is allowed only on "
                            "the machine itself",
                            spec->name, o->key);
    }
    return prn_runtime_check_options(ops, spec->options, spec->n_options, err);
}

static const char *keep(struct prn_arena *arena, const char *text, bool *failed)
{
    const char *copy = text ? prn_arena_strdup(arena, text) : NULL;
    *failed |= text && !copy;
    return copy;
}

static int keep_config(struct prn_instance *i, const struct prn_instance_config *config,
                       struct prony_error *err)
{
    const struct prn_spec *spec = config->spec;
    struct prn_spec_option *options =
        PRN_ARENA_ARRAY(&i->arena, spec->n_options + 1, struct prn_spec_option);
    bool failed = !options;
    for (size_t k = 0; options && k < spec->n_options; k++) {
        options[k].key = keep(&i->arena, spec->options[k].key, &failed);
        options[k].value = keep(&i->arena, spec->options[k].value, &failed);
    }
    i->program = keep(&i->arena, config->program, &failed);
    i->folder = keep(&i->arena, config->folder, &failed);
    i->runtime =
        (struct prn_runtime_config){.software = keep(&i->arena, spec->software, &failed),
                                    .options = options,
                                    .n_options = spec->n_options,
                                    .cache_folder = keep(&i->arena, config->cache_folder, &failed)};
    i->timeout_s = config->timeout_s;
    i->memory_bytes = config->memory_bytes;
    i->cancelled = config->cancelled;
    return failed ? prn_fail_memory(err) : 0;
}

int prn_instance_new(const struct prn_instance_config *config, struct prn_instance **ret_instance,
                     struct prony_error *err)
{
    const struct prn_runtime_ops *ops = prn_runtime_find(config->spec->software);
    if (!ops)
        return prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': no software '%s' here",
                        config->spec->name, config->spec->software);
    int code = check_options(config->spec, ops, err);
    if (code < 0)
        return code;
    struct prn_instance *i = calloc(1, sizeof *i);
    if (!i)
        return prn_fail_memory(err);
    i->arena = PRN_ARENA_INIT(MODEL_ARENA_BYTES);
    i->inputs_fd = -1;
    i->fxproto = ops->takes_fxproto;
    code = keep_config(i, config, err);
    if (!ops->compiles)
        i->runtime.cache_folder = NULL;
    if (code < 0)
        prn_instance_free(i);
    else
        *ret_instance = i;
    return code;
}

static void model_free(struct model *m)
{
    if (m) {
        prn_arena_release(&m->arena);
        free(m->cached);
    }
    free(m);
}

/* The process is gone, and what it knew. */
static void drop_executor(struct prn_instance *i)
{
    prn_executor_free(i->executor);
    i->executor = NULL;
    for (size_t k = 0; k < i->n_models; k++)
        if (i->models[k])
            i->models[k]->loaded = i->models[k]->bound = false;
    /* The next one's outputs lie elsewhere; somebody may still send the last ones. */
    prn_shelf_leave(i->shelf);
    i->shelf = NULL;
}

static void drop_inputs(struct prn_instance *i)
{
    if (i->inputs)
        munmap(i->inputs, i->inputs_bytes);
    if (i->inputs_fd >= 0)
        close(i->inputs_fd);
    i->inputs = NULL;
    i->inputs_bytes = 0;
    i->inputs_fd = -1;
}

void prn_instance_free(struct prn_instance *i)
{
    if (!i)
        return;
    drop_executor(i);
    drop_inputs(i);
    for (size_t k = 0; k < i->n_models; k++)
        model_free(i->models[k]);
    prn_arena_release(&i->arena);
    free(i);
}

/* Whether the process is gone after such a failure (exec/executor.h). */
static bool deadly(int code)
{
    return code == PRONY_ECRASH || code == PRONY_ETIMEDOUT || code == PRONY_ECANCELED;
}

/* Messages go to other machines, where the folders of this one are nobody's business. */
static void hide_folder(const struct prn_instance *i, struct prony_error *err)
{
    if (!err || !i->folder)
        return;
    size_t len = strlen(i->folder);
    for (char *at = err->text; (at = strstr(at, i->folder));) {
        size_t cut = len + (at[len] == '/');
        memmove(at, at + cut, strlen(at + cut) + 1);
    }
}

/* What became of a command. */
static int ended(struct prn_instance *i, int code, const char *doing, double timeout_s,
                 struct prony_error *err)
{
    if (code == 0)
        return 0;
    if (code == PRONY_ETIMEDOUT)
        prn_fail(err, code, "%s took longer than %.3g s", doing, timeout_s);
    if (deadly(code))
        drop_executor(i);
    hide_folder(i, err);
    return code;
}

/* How long the next command may take, beside the time that it is given to run in. 0: none is left,
 * which is an error. */
static double time_left(const struct limit *limit, int64_t run_ns)
{
    if (limit->deadline_ns == INT64_MAX)
        return limit->timeout_s;
    double left_s = (double)(limit->deadline_ns - prn_monotonic_ns() - run_ns) * 1e-9;
    return left_s <= 0 ? 0 : left_s < limit->timeout_s ? left_s : limit->timeout_s;
}

static int begin_command(struct prn_instance *i, const struct limit *limit, int64_t run_ns,
                         double *ret_timeout_s, struct prony_error *err)
{
    double timeout_s = time_left(limit, run_ns);
    if (timeout_s <= 0)
        return prn_fail(err, PRONY_ETIMEDOUT, "the deadline has passed");
    prn_executor_set_timeout(i->executor, timeout_s);
    *ret_timeout_s = timeout_s;
    return 0;
}

/* The seal keeps the other side from taking mapped memory away. */
static int make_inputs(struct prn_instance *i, struct prony_error *err)
{
    if (i->inputs_fd >= 0)
        return 0;
    int fd = memfd_create("prony-inputs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return prn_fail_errno(err, errno, "create", "shared memory");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        int code = prn_fail_errno(err, errno, "seal", "shared memory");
        close(fd);
        return code;
    }
    i->inputs_fd = fd;
    return 0;
}

static int not_started(struct prn_instance *i, int code, struct prony_error *err)
{
    ended(i, code, "starting", i->timeout_s, err);
    drop_executor(i);
    return code;
}

int prn_instance_launch(struct prn_instance *i, struct prony_error *err)
{
    if (i->executor)
        return 0;
    if (i->adopted)
        return prn_fail(err, PRONY_ECRASH, "the executor is gone");
    int code = make_inputs(i, err);
    if (code < 0)
        return code;
    struct prn_executor_config config = {
        .program = i->program,
        .inputs_fd = i->inputs_fd,
        .timeout_s = i->timeout_s,
        .memory_bytes = i->memory_bytes,
        .cancelled = i->cancelled,
    };
    code = prn_executor_spawn(&config, &i->executor, err);
    if (code == 0)
        code = prn_executor_open_begin(i->executor, &i->runtime, NULL, i->folder, err);
    return code < 0 ? not_started(i, code, err) : 0;
}

int prn_instance_start(struct prn_instance *i, struct prony_error *err)
{
    int code = prn_instance_launch(i, err);
    if (code < 0)
        return code;
    code = prn_executor_open_end(i->executor, err);
    return code < 0 ? not_started(i, code, err) : 0;
}

int prn_instance_adopt(struct prn_instance *i, struct prn_executor *executor,
                       struct prony_error *err)
{
    drop_executor(i);
    drop_inputs(i);
    i->executor = executor;
    i->adopted = true;
    prn_executor_set_cancelled(executor, i->cancelled);
    i->inputs_fd = fcntl(prn_executor_inputs_fd(executor), F_DUPFD_CLOEXEC, 0);
    if (i->inputs_fd >= 0)
        return 0;
    int code = prn_fail_errno(err, errno, "keep", "the memory of the inputs");
    drop_executor(i);
    return code;
}

struct prn_executor *prn_instance_executor(const struct prn_instance *i)
{
    return i->executor;
}

bool prn_instance_alive(const struct prn_instance *i)
{
    return i->executor;
}

void prn_instance_park(struct prn_instance *i)
{
    if (i->executor)
        prn_executor_park(i->executor);
}

/* ---- Loading ---- */

size_t prn_instance_model_file(const char *const *names, size_t n, bool fxproto)
{
    const char *wanted = fxproto ? PRN_FX_MODEL_NAME : "model.onnx";
    const char *ending = strchr(wanted, '.');
    size_t chosen = n;
    for (size_t k = 0; k < n; k++) {
        size_t length = strlen(names[k]);
        if (strcmp(names[k], wanted) == 0)
            return k;
        if (chosen == n && length > strlen(ending) &&
            strcmp(names[k] + length - strlen(ending), ending) == 0)
            chosen = k;
    }
    return chosen < n ? chosen : 0;
}

static size_t find_slot(const struct prn_instance *i, uint64_t id)
{
    size_t k = 0;
    while (k < i->n_models && !(i->models[k] && i->models[k]->id == id))
        k++;
    return k;
}

static int free_slot(struct prn_instance *i, size_t *ret_slot, struct prony_error *err)
{
    size_t k = 0;
    while (k < i->n_models && i->models[k])
        k++;
    if (k == PRN_EXECUTOR_SLOTS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "a backend of a session holds at most %d models",
                        PRN_EXECUTOR_SLOTS_MAX);
    i->n_models = k == i->n_models ? k + 1 : i->n_models;
    *ret_slot = k;
    return 0;
}

/* Names that the model has, or those that were asked for, which must be among them. */
static int keep_names(struct model *m, const char *what, const char *const *wanted, size_t n_wanted,
                      const char *const *known, size_t n_known, const char ***ret_names,
                      size_t *ret_n, struct prony_error *err)
{
    size_t n = n_wanted > 0 ? n_wanted : n_known;
    const char **names = PRN_ARENA_ARRAY(&m->arena, n + 1, const char *);
    if (!names)
        return prn_fail_memory(err);
    for (size_t k = 0; k < n; k++) {
        const char *name = n_wanted > 0 ? wanted[k] : known[k];
        size_t at = 0;
        while (at < n_known && strcmp(known[at], name) != 0)
            at++;
        if (at == n_known)
            return prn_fail(err, PRONY_EUSAGE, "the model has no %s '%s'", what, name);
        names[k] = prn_arena_strdup(&m->arena, name);
        if (!names[k])
            return prn_fail_memory(err);
    }
    *ret_names = names;
    *ret_n = n;
    return 0;
}

/* Inputs with a default among the initialisers may be fed too, so all that the graph declares are
 * known; without names, those are left out. */
static int keep_inputs(struct model *m, const struct prn_model *file,
                       const struct prn_instance_model *asked, struct prony_error *err)
{
    bool all = asked->n_inputs > 0;
    size_t n = all ? file->graph.n_inputs : file->n_inputs;
    const char **known = calloc(n + 1, sizeof *known);
    if (!known)
        return prn_fail_memory(err);
    for (size_t k = 0; k < n; k++)
        known[k] = all ? file->graph.inputs[k].name : file->inputs[k]->name;
    int code = keep_names(m, "input", asked->input_names, asked->n_inputs, known, n,
                          &m->input_names, &m->n_inputs, err);
    free(known);
    return code;
}

static int keep_outputs(struct model *m, const struct prn_model *file,
                        const struct prn_instance_model *asked, struct prony_error *err)
{
    size_t n = file->graph.n_outputs;
    const char **known = calloc(n + 1, sizeof *known);
    if (!known)
        return prn_fail_memory(err);
    for (size_t k = 0; k < n; k++)
        known[k] = file->graph.outputs[k].name;
    int code = keep_names(m, "output", asked->output_names, asked->n_outputs, known, n,
                          &m->output_names, &m->n_outputs, err);
    free(known);
    return code;
}

static int read_onnx(struct model *m, const struct prn_instance_model *asked,
                     struct prony_error *err)
{
    struct prn_model *file;
    int code = prn_model_open(asked->path, &file, err);
    if (code < 0)
        return code;
    code = keep_inputs(m, file, asked, err);
    if (code == 0)
        code = keep_outputs(m, file, asked, err);
    prn_model_free(file);
    return code;
}

/* The runtime's names of outputs are their places; what the client calls them is its own. */
static int name_outputs(struct model *m, size_t n, const struct prn_instance_model *asked,
                        struct prony_error *err)
{
    if (asked->n_outputs > 0 && asked->n_outputs != n)
        return prn_fail(err, PRONY_EUSAGE, "the graph has %zu outputs, %zu are named", n,
                        asked->n_outputs);
    m->n_outputs = n;
    m->output_names = PRN_ARENA_ARRAY(&m->arena, n + 1, const char *);
    for (size_t k = 0; m->output_names && k < n; k++) {
        char place[64];
        snprintf(place, sizeof place, PRN_FX_OUTPUT_NAME, k);
        m->output_names[k] =
            prn_arena_strdup(&m->arena, asked->n_outputs > 0 ? asked->output_names[k] : place);
        if (!m->output_names[k])
            return prn_fail_memory(err);
    }
    return m->output_names ? 0 : prn_fail_memory(err);
}

static int read_fx(struct model *m, const struct prn_instance_model *asked, struct prony_error *err)
{
    struct prn_fx *fx;
    int code = prn_fx_open(asked->path, &fx, err);
    if (code < 0)
        return code;
    m->by_place = true;
    code = keep_names(m, "input", asked->input_names, asked->n_inputs, fx->inputs, fx->n_inputs,
                      &m->input_names, &m->n_inputs, err);
    if (code == 0 && m->n_inputs != fx->n_inputs)
        code = prn_fail(err, PRONY_EUSAGE, "the graph has %zu inputs, %zu are named", fx->n_inputs,
                        m->n_inputs);
    if (code == 0)
        code = name_outputs(m, fx->n_outputs, asked, err);
    prn_fx_free(fx);
    return code;
}

/* Checks the file before a runtime sees it. */
static int read_model(struct model *m, bool fxproto, const struct prn_instance_model *asked,
                      struct prony_error *err)
{
    int code = fxproto ? read_fx(m, asked, err) : read_onnx(m, asked, err);
    if (code < 0)
        return code;
    if (m->n_inputs > PRN_EXECUTOR_TENSORS_MAX || m->n_outputs > PRN_EXECUTOR_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the model has more than %d inputs or outputs",
                        PRN_EXECUTOR_TENSORS_MAX);
    m->places = PRN_ARENA_ARRAY(&m->arena, m->n_inputs + 1, struct prn_place);
    m->path = prn_arena_strdup(&m->arena, asked->path);
    return m->places && m->path ? 0 : prn_fail_memory(err);
}

static int model_new(bool fxproto, const struct prn_instance_model *asked, struct model **ret_model,
                     struct prony_error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return prn_fail_memory(err);
    m->id = asked->id;
    m->arena = PRN_ARENA_INIT(MODEL_ARENA_BYTES);
    int code = read_model(m, fxproto, asked, err);
    if (code < 0)
        model_free(m);
    else
        *ret_model = m;
    return code;
}

/* Says where what was compiled of the model before is, if it is. */
static void find_cached(struct prn_instance *i, struct model *m)
{
    char path[PATH_MAX];
    if (!i->runtime.cache_folder)
        return;
    if (!m->cached && prn_cache_path(i->runtime.cache_folder, &i->runtime,
                                     prn_executor_version(i->executor), m->path, path))
        m->cached = strdup(path);
    if (m->cached && access(m->cached, R_OK) == 0) {
        prn_cache_touch(m->cached);
        prn_executor_set_reuse(i->executor, m->cached);
    }
}

/* Keeps what was compiled when inputs were bound. */
static void keep_made(struct prn_instance *i, const struct model *m)
{
    int fd = i->executor ? prn_executor_take_made(i->executor) : -1;
    if (fd < 0)
        return;
    if (m->cached)
        prn_cache_keep(m->cached, fd, PRN_CACHE_BYTES_MAX);
    close(fd);
}

/* Has the process ready, and the model of the slot in it. */
static int make_ready(struct prn_instance *i, size_t slot, const struct limit *limit,
                      int64_t *ret_load_ns, struct prony_error *err)
{
    struct model *m = i->models[slot];
    double timeout_s;
    int code = prn_instance_start(i, err);
    if (code == 0 && !i->shelf && !(i->shelf = prn_shelf_new()))
        code = prn_fail_memory(err);
    if (code < 0)
        return code;
    prn_executor_unpark(i->executor);
    code = prn_executor_select(i->executor, slot, err);
    if (code < 0 || m->loaded)
        return code;
    code = begin_command(i, limit, 0, &timeout_s, err);
    if (code < 0)
        return code;
    find_cached(i, m);
    code = prn_executor_load(i->executor, m->path, ret_load_ns, err);
    m->loaded = code == 0;
    m->bound = false;
    return ended(i, code, "loading the model", timeout_s, err);
}

int prn_instance_load(struct prn_instance *i, const struct prn_instance_model *asked,
                      struct prn_instance_loaded *ret_loaded, struct prony_error *err)
{
    struct model *m = NULL;
    int64_t load_ns = 0;
    struct limit limit = {.deadline_ns = INT64_MAX, .timeout_s = i->timeout_s};
    int code = model_new(i->fxproto, asked, &m, err);
    if (code < 0) {
        hide_folder(i, err);
        return code;
    }
    prn_instance_unload(i, asked->id);
    size_t slot = 0;
    code = free_slot(i, &slot, err);
    if (code < 0) {
        model_free(m);
        return code;
    }
    i->models[slot] = m;
    code = make_ready(i, slot, &limit, &load_ns, err);
    if (code < 0) {
        i->models[slot] = NULL;
        model_free(m);
        return code;
    }
    *ret_loaded = (struct prn_instance_loaded){.load_ns = load_ns,
                                               .version = prn_executor_version(i->executor),
                                               .sandbox = prn_executor_sandbox(i->executor)};
    return 0;
}

void prn_instance_unload(struct prn_instance *i, uint64_t model_id)
{
    size_t slot = find_slot(i, model_id);
    if (slot == i->n_models)
        return;
    if (i->executor && i->models[slot]->loaded) {
        prn_executor_unpark(i->executor);
        prn_executor_set_timeout(i->executor, i->timeout_s);
        int code = prn_executor_select(i->executor, slot, NULL);
        if (code == 0)
            code = prn_executor_unload(i->executor, NULL);
        if (deadly(code))
            drop_executor(i);
    }
    model_free(i->models[slot]);
    i->models[slot] = NULL;
}

/* ---- Inputs ---- */

static int check_input(const char *name, const struct prn_rpc_tensor *t, struct prony_error *err)
{
    size_t bytes;
    if (t->rank > PRN_RUNTIME_RANK_MAX)
        return prn_fail(err, PRONY_ELIMIT, "input '%s' has more than %d dimensions", name,
                        PRN_RUNTIME_RANK_MAX);
    int code = prn_dtype_bytes(t->dtype, t->dims, t->rank, &bytes);
    if (code < 0)
        return prn_fail(err, code, "input '%s': tensors of %s can't be sent", name,
                        prn_dtype_name(t->dtype));
    if (bytes != t->bytes)
        return prn_fail(err, PRONY_EUSAGE, "input '%s' has %zu bytes, its shape takes %zu", name,
                        t->bytes, bytes);
    return 0;
}

static const struct prn_rpc_tensor *input_of(const struct prn_instance_run *run, size_t k)
{
    return &run->inputs[run->map ? (size_t)run->map[k] : k];
}

static bool same_place(const struct prn_place *place, const struct prn_rpc_tensor *t, size_t offset)
{
    return place->dtype == t->dtype && place->rank == t->rank && place->offset == offset &&
           place->bytes == t->bytes &&
           (t->rank == 0 || memcmp(place->dims, t->dims, t->rank * sizeof *t->dims) == 0);
}

/* Says where inputs will lie; what is bound stays bound if that is where they lay the last time. */
static int place_inputs(struct model *m, const struct prn_instance_run *run, size_t *ret_bytes,
                        struct prony_error *err)
{
    size_t offset = 0;
    for (size_t k = 0; k < m->n_inputs; k++) {
        const struct prn_rpc_tensor *t = input_of(run, k);
        struct prn_place *place = &m->places[k];
        int code = check_input(m->input_names[k], t, err);
        if (code == 0 && t->bytes > SIZE_MAX / 4 - offset)
            code = prn_fail(err, PRONY_ELIMIT, "the inputs are too large");
        if (code < 0)
            return code;
        if (!same_place(place, t, offset)) {
            *place = (struct prn_place){.name = m->input_names[k],
                                        .dtype = t->dtype,
                                        .rank = t->rank,
                                        .offset = offset,
                                        .bytes = t->bytes};
            if (t->rank > 0)
                memcpy(place->dims, t->dims, t->rank * sizeof *t->dims);
            m->bound = false;
        }
        place->name = m->input_names[k];
        offset += (t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    *ret_bytes = offset;
    return 0;
}

/* The memory only ever grows: fresh pages cost more than anything else that is done with them. */
static int grow_inputs(struct prn_instance *i, size_t bytes, struct prony_error *err)
{
    if (bytes <= i->inputs_bytes)
        return 0;
    size_t wanted = (bytes + GROWTH_BYTES - 1) / GROWTH_BYTES * GROWTH_BYTES;
    int seals = fcntl(i->inputs_fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return prn_fail(err, PRONY_ECRASH, "the memory of the inputs can be taken away");
    struct stat status;
    if (fstat(i->inputs_fd, &status) < 0 ||
        ((size_t)status.st_size < wanted && ftruncate(i->inputs_fd, (off_t)wanted) < 0))
        return prn_fail_errno(err, errno, "size", "shared memory");
    void *map = i->inputs ? mremap(i->inputs, i->inputs_bytes, wanted, MREMAP_MAYMOVE)
                          : mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, i->inputs_fd, 0);
    if (map == MAP_FAILED)
        return prn_fail_errno(err, errno, "map", "shared memory");
    i->inputs = map;
    i->inputs_bytes = wanted;
    return 0;
}

static void copy_inputs(struct prn_instance *i, const struct model *m,
                        const struct prn_instance_run *run)
{
    for (size_t k = 0; k < m->n_inputs; k++) {
        const struct prn_rpc_tensor *t = input_of(run, k);
        unsigned char *to = i->inputs + m->places[k].offset;
        if (run->bytes)
            prn_bytes_copy(run->bytes, t->range, to);
        else if (t->bytes > 0)
            memcpy(to, t->data, t->bytes);
    }
}

static int feed(struct prn_instance *i, struct model *m, const struct prn_instance_run *run,
                const struct limit *limit, struct prony_error *err)
{
    size_t bytes;
    int code = place_inputs(m, run, &bytes, err);
    if (code == 0)
        code = grow_inputs(i, bytes, err);
    if (code < 0)
        return code;
    copy_inputs(i, m, run);
    if (m->bound)
        return 0;
    double timeout_s;
    code = begin_command(i, limit, 0, &timeout_s, err);
    if (code == 0)
        code = prn_executor_bind(i->executor, m->places, m->n_inputs, err);
    m->bound = code == 0;
    keep_made(i, m);
    return ended(i, code, "binding inputs", timeout_s, err);
}

/* ---- Running ---- */

static int reserve_times(struct prn_shelf_result *r, size_t n, struct prony_error *err)
{
    if (n <= r->times_capacity)
        return 0;
    uint64_t *times = reallocarray(r->public.times_ns, n, sizeof *times);
    if (!times)
        return prn_fail_memory(err);
    r->public.times_ns = times;
    r->times_capacity = n;
    return 0;
}

static int check_times(const uint64_t *times, size_t n, struct prony_error *err)
{
    for (size_t k = 0; k < n; k++)
        if (times[k] > INT64_MAX)
            return prn_fail(err, PRONY_ECRASH, "the executor sent a malformed reply");
    return 0;
}

/* One command: runs for up to a slice of time, so that the limit on a command is one on a run and
 * not on how many were asked for. */
static int run_slice(struct prn_instance *i, const struct limit *limit, size_t warmups,
                     size_t repeats, int64_t most_ns, bool outputs, uint64_t *times, size_t *ret_n,
                     struct prony_error *err)
{
    int64_t left_ns =
        limit->deadline_ns == INT64_MAX ? INT64_MAX : limit->deadline_ns - prn_monotonic_ns();
    if (most_ns > left_ns / 2)
        most_ns = left_ns / 2 > 0 ? left_ns / 2 : 1;
    if (repeats == 1)
        most_ns = 0;
    double timeout_s;
    int code = begin_command(i, limit, most_ns, &timeout_s, err);
    if (code < 0)
        return code;
    prn_executor_want_outputs(i->executor, outputs);
    code = prn_executor_run(i->executor, warmups, repeats, most_ns, (int64_t *)times, ret_n, err);
    if (code == 0)
        code = check_times(times, *ret_n, err);
    return ended(i, code, "running the model", timeout_s, err);
}

/* Their times are written over. */
static int warm_up(struct prn_instance *i, const struct limit *limit, uint64_t warmups,
                   struct prn_shelf_result *r, struct prony_error *err)
{
    size_t n;
    int code = 0;
    for (uint64_t left = warmups; code == 0 && left > 0; left -= code == 0 ? n : 0) {
        size_t now = left < PRN_EXECUTOR_SAMPLES_MAX ? (size_t)left : PRN_EXECUTOR_SAMPLES_MAX;
        code = reserve_times(r, now, err);
        if (code == 0)
            code = run_slice(i, limit, 0, now, SLICE_NS, false, r->public.times_ns, &n, err);
    }
    return code;
}

static int run_timed(struct prn_instance *i, struct model *m, const struct prn_instance_run *run,
                     const struct limit *limit, size_t warmups, struct prn_shelf_result *r,
                     struct prony_error *err)
{
    const bool by_time = run->repeats == 0 && run->repeat_for_ms > 0;
    const uint64_t wanted = run->repeats > 0 ? run->repeats
                            : by_time        ? PRN_INSTANCE_REPEATS_MAX
                                             : 1;
    const int64_t span_ns = by_time ? (int64_t)run->repeat_for_ms * 1000000 : INT64_MAX;
    const int64_t begin_ns = by_time ? prn_monotonic_ns() : 0;
    int64_t left_ns = span_ns;
    size_t done = 0;
    while (done < wanted && left_ns > 0) {
        size_t now = wanted - done < PRN_EXECUTOR_SAMPLES_MAX ? (size_t)(wanted - done)
                                                              : PRN_EXECUTOR_SAMPLES_MAX;
        size_t n;
        bool outputs = run->outputs && done + now == wanted;
        int code = reserve_times(r, done + now, err);
        if (code == 0)
            code = run_slice(i, limit, warmups, now, left_ns < SLICE_NS ? left_ns : SLICE_NS,
                             outputs, r->public.times_ns + done, &n, err);
        if (code < 0)
            return code;
        warmups = 0;
        done += n;
        if (by_time)
            left_ns = span_ns - (prn_monotonic_ns() - begin_ns);
    }
    r->public.n_times = done;
    m->run_ns = (int64_t)r->public.times_ns[done - 1];
    return 0;
}

/* A few warm-ups of a model that is known to be quick go with the command that is timed. */
static bool is_quick(const struct model *m, const struct prn_instance_run *run)
{
    return m->run_ns > 0 && run->warmups < (uint64_t)(SLICE_NS / m->run_ns);
}

static int run_all(struct prn_instance *i, struct model *m, const struct prn_instance_run *run,
                   const struct limit *limit, struct prn_shelf_result *r, struct prony_error *err)
{
    bool quick = is_quick(m, run);
    int code = quick ? 0 : warm_up(i, limit, run->warmups, r, err);
    return code < 0 ? code : run_timed(i, m, run, limit, quick ? (size_t)run->warmups : 0, r, err);
}

/* The one run that prn_instance_run_begin() started. */
static int take_begun(struct prn_instance *i, struct model *m, const struct limit *limit,
                      struct prn_shelf_result *r, struct prony_error *err)
{
    double timeout_s;
    int code = reserve_times(r, 1, err);
    if (code == 0)
        code = begin_command(i, limit, 0, &timeout_s, err);
    if (code < 0)
        return code;
    code = prn_executor_run_end(i->executor, 1, (int64_t *)r->public.times_ns, &r->public.n_times,
                                err);
    if (code == 0)
        code = check_times(r->public.times_ns, r->public.n_times, err);
    if (code == 0)
        m->run_ns = (int64_t)r->public.times_ns[0];
    return ended(i, code, "running the model", timeout_s, err);
}

/* ---- Outputs ---- */

static int nonsense(struct prn_instance *i, struct prony_error *err)
{
    drop_executor(i);
    return prn_fail(err, PRONY_ECRASH, "the executor sent a malformed reply");
}

/* Maps the file up to `end`. Sealed, it can't become shorter; that it could before is why its size
 * is looked at again. */
static int map_outputs(struct prn_instance *i, size_t end, struct prony_error *err)
{
    struct prn_shelf *s = i->shelf;
    const int fd = prn_executor_outputs_fd(i->executor);
    if (end <= s->map_bytes)
        return 0;
    struct stat status;
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) < 0 ||
        (size_t)status.st_size < end)
        return nonsense(i, err);
    prn_shelf_unmap(s);
    void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return prn_fail_errno(err, errno, "map", "outputs");
    s->map = map;
    s->map_bytes = (size_t)status.st_size;
    return 0;
}

static int check_output(struct prn_instance *i, const struct prn_place *place,
                        struct prony_error *err)
{
    size_t bytes;
    if (place->dtype == 0 || prn_dtype_bits(place->dtype) == 0)
        return prn_fail(err, PRONY_EUNSUPPORTED, "output '%s' isn't a tensor of numbers",
                        place->name);
    if (prn_dtype_bytes(place->dtype, place->dims, place->rank, &bytes) < 0 ||
        bytes != place->bytes)
        return nonsense(i, err);
    return 0;
}

/* Most models' outputs come in the order in which they are wanted. */
static const struct prn_place *find_output(const struct prn_place *places, size_t n, size_t first,
                                           const char *name)
{
    for (size_t k = 0; k < n; k++) {
        const struct prn_place *place = &places[(first + k) % n];
        if (strcmp(place->name, name) == 0)
            return place;
    }
    return NULL;
}

/* Whoever sends them keeps the next run from writing there. What is small is copied instead. */
static int lend_outputs(struct prn_instance *i, struct prn_shelf_result *r, struct prony_error *err)
{
    struct prn_rpc_tensor *outputs = r->public.outputs;
    size_t bytes = 0;
    for (size_t k = 0; k < r->public.n_outputs; k++) {
        outputs[k].data = outputs[k].bytes ? i->shelf->map + outputs[k].range.offset : NULL;
        bytes = bytes > LEND_BYTES_MIN ? bytes : bytes + outputs[k].bytes;
    }
    if (bytes > LEND_BYTES_MIN) {
        r->holds_outputs = true;
        prn_shelf_lock(i->shelf);
        i->shelf->held = true;
        prn_shelf_unlock(i->shelf);
        return 0;
    }
    for (size_t k = 0; k < r->public.n_outputs; k++) {
        void *copy = outputs[k].bytes ? prn_arena_alloc(&r->arena, outputs[k].bytes) : NULL;
        if (copy)
            outputs[k].data = memcpy(copy, outputs[k].data, outputs[k].bytes);
        else if (outputs[k].bytes)
            return prn_fail_memory(err);
    }
    return 0;
}

static int take_outputs(struct prn_instance *i, const struct model *m,
                        const struct prn_place *places, size_t n, struct prn_shelf_result *r,
                        struct prony_error *err)
{
    struct prn_rpc_tensor *outputs =
        PRN_ARENA_ARRAY(&r->arena, m->n_outputs + 1, struct prn_rpc_tensor);
    const char **names = PRN_ARENA_ARRAY(&r->arena, m->n_outputs + 1, const char *);
    if (!outputs || !names)
        return prn_fail_memory(err);
    for (size_t k = 0; k < m->n_outputs; k++) {
        names[k] = prn_arena_strdup(&r->arena, m->output_names[k]);
        if (!names[k])
            return prn_fail_memory(err);
        const struct prn_place *place = !m->by_place ? find_output(places, n, k, m->output_names[k])
                                        : k < n      ? &places[k]
                                                     : NULL;
        if (!place)
            return nonsense(i, err);
        int code = check_output(i, place, err);
        if (code == 0)
            code = map_outputs(i, place->offset + place->bytes, err);
        if (code < 0)
            return code;
        outputs[k] = (struct prn_rpc_tensor){
            .dtype = place->dtype, .rank = place->rank, .dims = place->dims, .bytes = place->bytes};
        outputs[k].range.offset = place->offset;
    }
    r->public.outputs = outputs;
    r->public.n_outputs = m->n_outputs;
    r->public.names = names;
    return lend_outputs(i, r, err);
}

static int read_outputs(struct prn_instance *i, const struct model *m, const struct limit *limit,
                        struct prn_shelf_result *r, struct prony_error *err)
{
    struct prn_place *places;
    size_t n;
    double timeout_s;
    int code = begin_command(i, limit, 0, &timeout_s, err);
    if (code < 0)
        return code;
    code = prn_executor_outputs(i->executor, 0, &r->arena, &places, &n, NULL, err);
    if (code < 0)
        return ended(i, code, "reading outputs", timeout_s, err);
    return take_outputs(i, m, places, n, r, err);
}

static int check_run(const struct model *m, const struct prn_instance_run *run,
                     struct prony_error *err)
{
    if (run->n_map != m->n_inputs)
        return prn_fail(err, PRONY_EUSAGE, "the model takes %zu inputs, %zu were given",
                        m->n_inputs, run->n_map);
    if (run->repeats > PRN_INSTANCE_REPEATS_MAX || run->warmups > PRN_INSTANCE_REPEATS_MAX ||
        run->repeat_for_ms > (uint64_t)(INT64_MAX / 1000000))
        return prn_fail(err, PRONY_ELIMIT, "more than %llu repeats or warm-ups",
                        (unsigned long long)PRN_INSTANCE_REPEATS_MAX);
    return 0;
}

bool prn_instance_run_begin(struct prn_instance *i, const struct prn_instance_run *run)
{
    size_t slot = find_slot(i, run->model_id);
    struct prony_error ignored; /* the run itself will find it again */
    size_t bytes;
    if (slot == i->n_models || !i->executor || !i->shelf)
        return false;
    struct model *m = i->models[slot];
    bool once = run->repeats == 1 || (run->repeats == 0 && run->repeat_for_ms == 0);
    if (!once || !m->loaded || !m->bound || !is_quick(m, run) || check_run(m, run, &ignored) < 0 ||
        place_inputs(m, run, &bytes, &ignored) < 0 || !m->bound || bytes > BEGIN_BYTES_MAX ||
        prn_executor_select(i->executor, slot, &ignored) < 0)
        return false;
    if (run->outputs && shelf_is_held(i))
        return false;
    copy_inputs(i, m, run);
    prn_executor_unpark(i->executor);
    prn_executor_want_outputs(i->executor, run->outputs);
    return prn_executor_run_begin(i->executor, (size_t)run->warmups, 1);
}

bool prn_instance_run_wait(struct prn_instance *i, const struct prn_instance_run *run,
                           int64_t most_ns)
{
    const struct model *m = i->models[find_slot(i, run->model_id)];
    return run->warmups < (uint64_t)(most_ns / 2 / m->run_ns) &&
           prn_executor_run_wait(i->executor, most_ns);
}

/* What a first run took beyond its samples: inputs are bound, which is when compilers compile, and
 * the model is run untimed. */
static uint64_t beyond_samples(int64_t begin_ns, const struct prn_instance_result *result)
{
    uint64_t rest = (uint64_t)(prn_monotonic_ns() - begin_ns);
    for (size_t k = 0; k < result->n_times; k++)
        rest -= result->times_ns[k] < rest ? result->times_ns[k] : rest;
    return rest > 0 ? rest : 1;
}

int prn_instance_run(struct prn_instance *i, const struct prn_instance_run *run,
                     struct prn_instance_result **ret_result, struct prony_error *err)
{
    const bool begun = run->begun;
    size_t slot = find_slot(i, run->model_id);
    if (slot == i->n_models)
        return prn_fail(err, PRONY_ENOENT, "there is no model %llu",
                        (unsigned long long)run->model_id);
    struct model *m = i->models[slot];
    struct limit limit = {.deadline_ns = run->deadline_ns ? run->deadline_ns : INT64_MAX,
                          .timeout_s = i->timeout_s};
    int64_t load_ns;
    int code = check_run(m, run, err);
    if (code == 0 && !begun)
        code = make_ready(i, slot, &limit, &load_ns, err);
    if (code < 0)
        return code;
    struct prn_shelf_result *r = prn_shelf_take(i->shelf);
    if (!r)
        return prn_fail_memory(err);
    const bool is_first = m->run_ns == 0;
    const int64_t begin_ns = is_first ? prn_monotonic_ns() : 0;
    if (!begun)
        code = feed(i, m, run, &limit, err);
    if (code == 0 && run->outputs && !begun)
        code = shelf_wait(i, &limit, err);
    if (code == 0)
        code = begun ? take_begun(i, m, &limit, r, err) : run_all(i, m, run, &limit, r, err);
    if (code == 0 && is_first)
        r->public.prepare_ns = beyond_samples(begin_ns, &r->public);
    if (code == 0 && run->outputs)
        code = read_outputs(i, m, &limit, r, err);
    if (code < 0)
        prn_instance_result_release(r);
    else
        *ret_result = &r->public;
    return code;
}
