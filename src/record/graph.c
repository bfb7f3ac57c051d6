#include "record/graph.h"

#include "base/io.h"
#include "measure/backends.h"
#include "measure/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define ALIGNMENT 64        /* of inputs, as runtimes like it */
#define SLICE_NS 1000000000 /* after which repeats are continued by another command */

/* ---- Loading ---- */

static void drop_executor(struct prn_graph_backend *on)
{
    prn_executor_free(on->executor);
    on->executor = NULL;
    if (on->inputs_fd >= 0)
        close(on->inputs_fd);
    on->inputs_fd = -1;
}

static int load_on(const struct prony_graph *graph, size_t backend,
                   const struct prn_model_place *place, struct prony_error *err)
{
    const struct prn_host *host = graph->host;
    const struct prn_spec *spec = &host->backends[backend];
    struct prn_graph_backend *on = &graph->on[backend];
    on->inputs_fd = memfd_create("prony-inputs", MFD_CLOEXEC);
    if (on->inputs_fd < 0)
        return prn_fail_errno(err, errno, "create", "shared memory");
    struct prn_executor_config process = {
        .program = host->program,
        .inputs_fd = on->inputs_fd,
        .timeout_s = host->timeout_s,
        .memory_bytes = prn_launch_memory(),
        .cancelled = host->cancelled,
    };
    struct prn_runtime_config runtime = {
        .software = spec->software,
        .options = spec->options,
        .n_options = spec->n_options,
        .library = host->ort_library,
    };
    int64_t load_ns;
    int code = prn_executor_spawn(&process, &on->executor, err);
    if (code == 0)
        code = prn_executor_open(on->executor, &runtime, place->path,
                                 place->folder[0] ? place->folder : NULL, err);
    if (code == 0)
        code = prn_executor_load(on->executor, place->path, &load_ns, err);
    return code;
}

/* On all backends, in random order: who starts first was seen to stay slower. */
static int load_on_all(struct prony_graph *graph, const struct prn_model_place *place,
                       struct prony_error *err)
{
    struct prn_host *host = graph->host;
    prn_random_shuffle(&host->random, host->order, host->n_backends);
    for (size_t i = 0; i < host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[host->order[i]];
        int code = load_on(graph, host->order[i], place, &on->failure);
        if (code == PRONY_ECANCELED)
            return prn_fail(err, code, "%s", on->failure.text);
        if (code < 0)
            drop_executor(on);
        else
            prn_executor_park(on->executor);
    }
    struct prony_error reason;
    if (prn_graph_failure(graph, true, &reason) < 0) {
        graph->local_reason = prn_arena_strdup(&graph->arena, reason.text);
        if (!graph->local_reason)
            return prn_fail_memory(err);
    }
    return 0;
}

/* What of the model's inputs is needed to check the caller's; the model itself is closed again. */
static int copy_inputs(struct prony_graph *graph, const struct prn_model *model,
                       struct prony_error *err)
{
    struct prn_arena *arena = &graph->arena;
    if (model->n_inputs > PRN_EXECUTOR_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the model has %zu inputs, more than %d",
                        model->n_inputs, PRN_EXECUTOR_TENSORS_MAX);
    graph->inputs = PRN_ARENA_ARRAY(arena, model->n_inputs + 1, struct prn_value);
    if (!graph->inputs)
        return prn_fail_memory(err);
    for (; graph->n_inputs < model->n_inputs; graph->n_inputs++) {
        const struct prn_value *from = model->inputs[graph->n_inputs];
        struct prn_value *to = &graph->inputs[graph->n_inputs];
        if (from->kind != PRN_VALUE_TENSOR)
            return prn_fail(err, PRONY_EUNSUPPORTED, "input '%s' is a %s; only tensors can be fed",
                            from->name, prn_value_kind_name(from->kind));
        struct prn_dim *dims = PRN_ARENA_ARRAY(arena, from->rank + 1, struct prn_dim);
        *to = *from;
        to->name = prn_arena_strdup(arena, from->name);
        to->dims = dims;
        if (!dims || !to->name)
            return prn_fail_memory(err);
        for (size_t k = 0; k < from->rank; k++)
            dims[k] = (struct prn_dim){.value = from->dims[k].value};
    }
    return 0;
}

static int read_model(struct prony_graph *graph, const char *path,
                      struct prn_model_place *ret_place, struct prony_error *err)
{
    struct prn_model *model;
    int code = prn_model_open(path, &model, err);
    if (code < 0)
        return code;
    code = copy_inputs(graph, model, err);
    if (code == 0)
        code = prn_model_locate(path, model->n_external_files > 0, ret_place, err);
    prn_model_free(model);
    return code;
}

static int make_room(struct prony_graph *graph, const char *name)
{
    const struct prn_host *host = graph->host;
    struct prn_arena *arena = &graph->arena;
    graph->name = prn_arena_strdup(arena, name);
    graph->on = PRN_ARENA_ARRAY(arena, host->n_backends, struct prn_graph_backend);
    graph->outcomes = PRN_ARENA_ARRAY(arena, host->n_backends, struct prn_graph_outcome);
    if (!graph->name || !graph->on || !graph->outcomes)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < host->n_backends; i++)
        graph->on[i].inputs_fd = -1;
    for (size_t i = 0; i < host->n_backends; i++) {
        graph->on[i].samples = PRN_ARENA_ARRAY(arena, host->repeats, int64_t);
        if (!graph->on[i].samples)
            return PRONY_ENOMEM;
    }
    return 0;
}

int prn_graph_load(struct prn_host *host, const char *path, const char *name,
                   struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prn_model_place *place = calloc(1, sizeof *place);
    struct prony_graph *graph = calloc(1, sizeof *graph);
    int code = place && graph ? 0 : prn_fail_memory(err);
    if (code == 0) {
        *graph = (struct prony_graph){.host = host, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
        if (make_room(graph, name) < 0)
            code = prn_fail_memory(err);
    }
    if (code == 0)
        code = read_model(graph, path, place, err);
    if (code == 0)
        code = load_on_all(graph, place, err);
    free(place);
    if (code < 0)
        prn_graph_free(graph);
    else
        *ret_graph = graph;
    return code;
}

void prn_graph_free(struct prony_graph *graph)
{
    if (!graph)
        return;
    for (size_t i = 0; graph->on && i < graph->host->n_backends; i++)
        drop_executor(&graph->on[i]);
    prn_arena_release(&graph->arena);
    free(graph);
}

int prn_graph_failure(const struct prony_graph *graph, bool all, struct prony_error *err)
{
    const struct prn_host *host = graph->host;
    size_t first = host->n_backends;
    for (size_t i = host->n_backends; i-- > 0;) {
        if (graph->on[i].failure.code < 0)
            first = i;
        else if (all)
            return 0;
    }
    if (first == host->n_backends)
        return 0;
    const struct prony_error *failure = &graph->on[first].failure;
    return prn_fail(err, failure->code, "%s: %s", host->backends[first].name, failure->text);
}

/* ---- Inputs ---- */

static const struct prony_tensor *find_tensor(const struct prony_tensor *tensors, size_t n,
                                              const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return &tensors[i];
    return NULL;
}

static bool fits(const struct prn_value *input, const struct prony_tensor *t)
{
    if (!input->has_shape)
        return true;
    if (input->rank != t->rank)
        return false;
    for (size_t k = 0; k < t->rank; k++)
        if (input->dims[k].value >= 0 && input->dims[k].value != t->dims[k])
            return false;
    return true;
}

static int check_tensor(const struct prony_tensor *t, struct prony_error *err)
{
    char shape[256];
    size_t bytes;
    if (t->rank > PRN_RUNTIME_RANK_MAX || (t->rank > 0 && !t->dims) || (t->bytes > 0 && !t->data))
        return prn_fail(err, PRONY_EUSAGE, "input '%s' has too many dimensions, or no dims or data",
                        t->name);
    int code = prn_dtype_bytes(t->dtype, t->dims, t->rank, &bytes);
    /* Strings have no fixed size; whoever makes them the runtime's checks them. */
    if (code < 0 && t->dtype != PRONY_DTYPE_STRING)
        return prn_fail(err, PRONY_EUSAGE, "input '%s' has a type or shape that can't be", t->name);
    if (code == 0 && bytes != t->bytes)
        return prn_fail(err, PRONY_EUSAGE, "input '%s': %s %s takes %zu bytes, not %zu", t->name,
                        prn_dtype_name(t->dtype),
                        prn_dims_text(t->dims, t->rank, shape, sizeof shape), bytes, t->bytes);
    return 0;
}

static int check_against(const struct prn_value *input, const struct prony_tensor *t,
                         struct prony_error *err)
{
    char shape[256];
    if (!t)
        return prn_fail(err, PRONY_EUSAGE, "input '%s' is missing", input->name);
    if (t->dtype != input->dtype)
        return prn_fail(err, PRONY_EUSAGE, "input '%s' is of type %s, not %s", input->name,
                        prn_dtype_name(input->dtype), prn_dtype_name(t->dtype));
    if (!fits(input, t))
        return prn_fail(err, PRONY_EUSAGE, "input '%s' can't have the shape %s", input->name,
                        prn_dims_text(t->dims, t->rank, shape, sizeof shape));
    return 0;
}

static int check_inputs(const struct prony_graph *graph, const struct prony_tensor *inputs,
                        size_t n_inputs, struct prony_error *err)
{
    for (size_t i = 0; i < n_inputs; i++) {
        if (!inputs[i].name)
            return prn_fail(err, PRONY_EUSAGE, "input number %zu has no name", i);
        if (find_tensor(inputs, i, inputs[i].name))
            return prn_fail(err, PRONY_EUSAGE, "input '%s' is given twice", inputs[i].name);
        int code = check_tensor(&inputs[i], err);
        if (code < 0)
            return code;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const struct prn_value *input = &graph->inputs[i];
        int code = check_against(input, find_tensor(inputs, n_inputs, input->name), err);
        if (code < 0)
            return code;
    }
    for (size_t i = 0; i < n_inputs && n_inputs > graph->n_inputs; i++) {
        bool known = false;
        for (size_t k = 0; k < graph->n_inputs && !known; k++)
            known = strcmp(graph->inputs[k].name, inputs[i].name) == 0;
        if (!known)
            return prn_fail(err, PRONY_EUSAGE, "there is no input '%s'", inputs[i].name);
    }
    return 0;
}

int prn_graph_check_inputs(const struct prony_graph *graph, const struct prony_tensor *inputs,
                           size_t n_inputs, struct prony_error *err)
{
    int code = check_inputs(graph, inputs, n_inputs, err);
    return code < 0 ? prn_fail_in(err, code, "graph '%s'", graph->name) : 0;
}

/* Writes the inputs into an executor's shared memory and has them bound. */
static int bind(struct prn_graph_backend *on, const struct prony_tensor *inputs, size_t n,
                struct prony_error *err)
{
    struct prn_place *places = calloc(n + 1, sizeof *places);
    int code = places ? 0 : prn_fail_memory(err);
    size_t offset = 0;
    for (size_t i = 0; code == 0 && i < n; i++) {
        const struct prony_tensor *t = &inputs[i];
        places[i] = (struct prn_place){.name = t->name,
                                       .dtype = t->dtype,
                                       .rank = t->rank,
                                       .offset = offset,
                                       .bytes = t->bytes};
        if (t->rank > 0)
            memcpy(places[i].dims, t->dims, t->rank * sizeof *t->dims);
        if (prn_pwrite_all(on->inputs_fd, t->data, t->bytes, offset) < 0)
            code = prn_fail_errno(err, errno, "write input", t->name);
        offset = (offset + t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    /* Padding lies inside the file, and what larger inputs left behind doesn't. */
    if (code == 0 && ftruncate(on->inputs_fd, (off_t)offset) < 0)
        code = prn_fail_errno(err, errno, "size", "shared memory");
    if (code == 0)
        code = prn_executor_bind(on->executor, places, n, err);
    free(places);
    return code;
}

/* ---- Running ---- */

/* Runs go in slices, so that the limit on one command is a limit on a run, not on how many were
 * asked for. The times of warm-ups are overwritten. */
static int warm_up(const struct prn_host *host, struct prn_graph_backend *on,
                   struct prony_error *err)
{
    size_t n;
    for (size_t left = host->warmups; left > 0; left -= n) {
        size_t now = left < host->repeats ? left : host->repeats;
        int code = prn_executor_run(on->executor, 0, now, SLICE_NS, on->samples, &n, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int run_timed(const struct prn_host *host, struct prn_graph_backend *on,
                     struct prony_error *err)
{
    size_t n;
    for (size_t done = 0; done < host->repeats; done += n) {
        int code = prn_executor_run(on->executor, 0, host->repeats - done, SLICE_NS,
                                    on->samples + done, &n, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int run_on(const struct prn_host *host, struct prn_graph_backend *on,
                  const struct prony_tensor *inputs, size_t n_inputs, struct prony_error *err)
{
    prn_executor_unpark(on->executor);
    int code = bind(on, inputs, n_inputs, err);
    if (code == 0)
        code = warm_up(host, on, err);
    if (code == 0)
        code = run_timed(host, on, err);
    prn_executor_park(on->executor);
    return code;
}

/* Whether the process is gone after such a failure (exec/executor.h). */
static bool deadly(int code)
{
    return code == PRONY_ECRASH || code == PRONY_ETIMEDOUT || code == PRONY_ECANCELED;
}

int prn_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                  struct prony_error *err)
{
    struct prn_host *host = graph->host;
    prn_random_shuffle(&host->random, host->order, host->n_backends);
    int code = 0;
    for (size_t i = 0; code == 0 && i < host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[host->order[i]];
        if (!on->executor)
            continue;
        on->failure.code = 0;
        int failed = run_on(host, on, inputs, n_inputs, &on->failure);
        if (deadly(failed))
            drop_executor(on);
        if (failed == PRONY_ECANCELED)
            code = prn_fail(err, failed, "%s", on->failure.text);
    }
    for (size_t i = 0; i < host->n_backends; i++) {
        const struct prn_graph_backend *on = &graph->on[i];
        bool failed = on->failure.code < 0;
        graph->outcomes[i] =
            (struct prn_graph_outcome){.samples_ns = on->samples,
                                       .n_samples = failed ? 0 : host->repeats,
                                       .failure = failed ? on->failure.text : NULL};
    }
    return code;
}

/* ---- Outputs ---- */

/* Copies what lies in the executor's shared memory, which the next run writes over. Read, not
 * mapped: the executor might make the file shorter meanwhile. */
static int copy_outputs(struct prony_outputs *outputs, int fd, struct prony_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < outputs->n; i++) {
        size_t end = outputs->places[i].offset + outputs->places[i].bytes;
        bytes = end > bytes ? end : bytes;
    }
    outputs->data = malloc(bytes + 1);
    if (!outputs->data)
        return prn_fail_memory(err);
    if (prn_pread_all(fd, outputs->data, bytes, 0) < 0)
        return prn_fail_errno(err, errno, "read", "outputs");
    return 0;
}

static int fetch_outputs(struct prn_executor *executor, const char *backend,
                         struct prony_outputs *outputs, struct prony_error *err)
{
    int fd;
    outputs->arena = PRN_ARENA_INIT(ARENA_BYTES);
    outputs->backend = prn_arena_strdup(&outputs->arena, backend);
    if (!outputs->backend)
        return prn_fail_memory(err);
    int code =
        prn_executor_outputs(executor, 0, &outputs->arena, &outputs->places, &outputs->n, &fd, err);
    if (code < 0)
        return code;
    code = copy_outputs(outputs, fd, err);
    close(fd);
    return code;
}

int prn_graph_outputs(struct prony_graph *graph, size_t backend, struct prony_outputs **ret_outputs,
                      struct prony_error *err)
{
    struct prn_graph_backend *on = &graph->on[backend];
    struct prony_outputs *outputs = calloc(1, sizeof *outputs);
    if (!outputs)
        return prn_fail_memory(err);
    prn_executor_unpark(on->executor);
    int code =
        fetch_outputs(on->executor, graph->host->backends[backend].name, outputs, &on->failure);
    prn_executor_park(on->executor);
    if (code < 0) {
        prony_outputs_free(outputs);
        prn_fail(err, code, "%s", on->failure.text);
        if (deadly(code))
            drop_executor(on);
        return prn_fail_in(err, code, "%s", graph->host->backends[backend].name);
    }
    *ret_outputs = outputs;
    return 0;
}
