#include "record/graph.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

/* ---- Loading ---- */

/* What of the model's inputs is needed to check the caller's; the model itself is closed again. */
static int copy_inputs(struct prony_graph *graph, const struct prn_model *model,
                       struct prony_error *err)
{
    struct prn_arena *arena = &graph->arena;
    if (model->n_inputs > PRN_EXECUTOR_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the model has %zu inputs, more than %d",
                        model->n_inputs, PRN_EXECUTOR_TENSORS_MAX);
    graph->inputs = PRN_ARENA_ARRAY(arena, model->n_inputs + 1, struct prn_value);
    graph->ordered = PRN_ARENA_ARRAY(arena, model->n_inputs + 1, struct prony_tensor);
    if (!graph->inputs || !graph->ordered)
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

static int make_room(struct prony_graph *graph, const char *name)
{
    const struct prn_host *host = graph->host;
    struct prn_arena *arena = &graph->arena;
    graph->name = prn_arena_strdup(arena, name);
    graph->on = PRN_ARENA_ARRAY(arena, host->n_backends, struct prn_graph_backend);
    graph->outcomes = PRN_ARENA_ARRAY(arena, host->n_backends, struct prn_graph_outcome);
    if (!graph->name || !graph->on || !graph->outcomes)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < host->n_backends; i++) {
        graph->on[i].samples = PRN_ARENA_ARRAY(arena, host->repeats, int64_t);
        if (!graph->on[i].samples)
            return PRONY_ENOMEM;
    }
    return 0;
}

/* Why a graph that can't be run anywhere will run locally. */
static int note_reason(struct prony_graph *graph, struct prony_error *err)
{
    struct prony_error reason;
    if (prn_graph_failure(graph, true, &reason) == 0)
        return 0;
    graph->local_reason = prn_arena_strdup(&graph->arena, reason.text);
    return graph->local_reason ? 0 : prn_fail_memory(err);
}

static int load(struct prony_graph *graph, const char *path, struct prony_error *err)
{
    struct prn_model *model;
    int code = prn_model_open(path, &model, err);
    if (code < 0)
        return code;
    code = copy_inputs(graph, model, err);
    if (code == 0)
        code = graph->host->ops->load(graph, path, model, err);
    prn_model_free(model);
    return code == 0 ? note_reason(graph, err) : code;
}

int prn_graph_load(struct prn_host *host, const char *path, const char *name,
                   struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prony_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return prn_fail_memory(err);
    *graph = (struct prony_graph){.host = host, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    int code = make_room(graph, name) < 0 ? prn_fail_memory(err) : load(graph, path, err);
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
    graph->host->ops->release(graph);
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

/* ---- Running ---- */

int prn_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                  bool outputs, struct prony_error *err)
{
    const struct prn_host *host = graph->host;
    for (size_t i = 0; i < graph->n_inputs; i++)
        graph->ordered[i] = *find_tensor(inputs, n_inputs, graph->inputs[i].name);
    for (size_t i = 0; i < host->n_backends; i++)
        if (graph->on[i].loaded)
            graph->on[i].failure.code = 0;
    int code = host->ops->run(graph, graph->ordered, graph->n_inputs, outputs, err);
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

int prn_graph_outputs(struct prony_graph *graph, size_t backend, struct prony_outputs **ret_outputs,
                      struct prony_error *err)
{
    const char *name = graph->host->backends[backend].name;
    struct prony_outputs *outputs;
    int code = graph->host->ops->outputs(graph, backend, &outputs, err);
    if (code < 0)
        return prn_fail_in(err, code, "%s", name);
    outputs->backend = prn_arena_strdup(&outputs->arena, name);
    if (!outputs->backend) {
        prony_outputs_free(outputs);
        return prn_fail_memory(err);
    }
    *ret_outputs = outputs;
    return 0;
}
