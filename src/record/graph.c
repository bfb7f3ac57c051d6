#include "record/graph.h"

#include "exec/scratch.h"
#include "record/temporary.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

/* ---- Loading ---- */

static bool takes(const struct prn_spec *backend, int format)
{
    return prn_runtime_takes_onnx(backend->software) == (format == PRONY_FORMAT_ONNX);
}

static const char *format_name(int format)
{
    return format == PRONY_FORMAT_FXPROTO ? "FXPROTO" : "ONNX";
}

/* Gives each backend its form; those without one fail. */
static void choose_forms(struct prony_graph *graph)
{
    for (size_t i = 0; i < graph->host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[i];
        const struct prn_spec *backend = &graph->host->backends[i];
        if (graph->refusals && graph->refusals[i]) {
            prn_fail(&on->failure, PRONY_EUNSUPPORTED, "%s", graph->refusals[i]);
            continue;
        }
        for (size_t k = 0; k < graph->n_forms && !on->form; k++)
            on->form = takes(backend, graph->forms[k].format) ? &graph->forms[k] : NULL;
        if (!on->form)
            prn_fail(&on->failure, PRONY_EUNSUPPORTED,
                     "it takes graphs as %s, but this graph has no such form",
                     format_name(takes(backend, PRONY_FORMAT_ONNX) ? PRONY_FORMAT_ONNX
                                                                   : PRONY_FORMAT_FXPROTO));
    }
}

static int copy_names(struct prn_arena *arena, const char *const *names, size_t n,
                      const char ***ret_names, struct prony_error *err)
{
    const char **copies = PRN_ARENA_ARRAY(arena, n + 1, const char *);
    bool complete = copies != NULL;
    for (size_t i = 0; complete && i < n; i++) {
        copies[i] = prn_arena_strdup(arena, names[i]);
        complete = copies[i] != NULL;
    }
    if (!complete)
        return prn_fail_memory(err);
    *ret_names = copies;
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

/* A file is the only form of its graph, and has all of its inputs. */
static int make_form(struct prony_graph *graph, const struct prn_model *model,
                     struct prony_error *err)
{
    struct prn_arena *arena = &graph->arena;
    struct prn_graph_form *form = PRN_ARENA_NEW(arena, struct prn_graph_form);
    size_t n_outputs = model->graph.n_outputs;
    if (!form)
        return prn_fail_memory(err);
    *form = (struct prn_graph_form){
        .format = PRONY_FORMAT_ONNX,
        .n_inputs = graph->n_inputs,
        .n_outputs = n_outputs,
        .input_names = PRN_ARENA_ARRAY(arena, graph->n_inputs + 1, const char *),
        .output_names = PRN_ARENA_ARRAY(arena, n_outputs + 1, const char *),
        .map = PRN_ARENA_ARRAY(arena, graph->n_inputs + 1, int32_t),
    };
    if (!form->input_names || !form->output_names || !form->map)
        return prn_fail_memory(err);
    for (size_t i = 0; i < graph->n_inputs; i++) {
        form->input_names[i] = graph->inputs[i].name;
        form->map[i] = (int32_t)i;
    }
    for (size_t i = 0; i < n_outputs; i++) {
        form->output_names[i] = prn_arena_strdup(arena, model->graph.outputs[i].name);
        if (!form->output_names[i])
            return prn_fail_memory(err);
    }
    graph->forms = form;
    graph->n_forms = 1;
    choose_forms(graph);
    return 0;
}

/* ---- Forms ---- */

/* The input of that name among the graph's, added if it is new. */
static int32_t index_of_input(struct prony_graph *graph, const char *name)
{
    size_t i = 0;
    while (i < graph->n_inputs && strcmp(graph->inputs[i].name, name) != 0)
        i++;
    if (i == graph->n_inputs)
        graph->inputs[graph->n_inputs++] = (struct prn_value){.name = name};
    return (int32_t)i;
}

static int copy_form(struct prony_graph *graph, const struct prony_graph_form *from,
                     struct prn_graph_form *to, struct prony_error *err)
{
    struct prn_arena *arena = &graph->arena;
    *to = (struct prn_graph_form){.format = from->format,
                                  .n_inputs = from->n_inputs,
                                  .n_outputs = from->n_outputs,
                                  .map = PRN_ARENA_ARRAY(arena, from->n_inputs + 1, int32_t)};
    int code = to->map ? 0 : prn_fail_memory(err);
    if (code == 0)
        code = copy_names(arena, from->input_names, from->n_inputs, &to->input_names, err);
    if (code == 0)
        code = copy_names(arena, from->output_names, from->n_outputs, &to->output_names, err);
    for (size_t i = 0; code == 0 && i < to->n_inputs; i++)
        to->map[i] = index_of_input(graph, to->input_names[i]);
    return code;
}

/* Inputs of a form that failed, or that nobody takes, don't matter. */
static bool is_needed(const struct prony_graph *graph, const struct prony_graph_form *form)
{
    bool taken = false;
    for (size_t i = 0; i < graph->host->n_backends && !taken; i++)
        taken = takes(&graph->host->backends[i], form->format);
    return taken && !form->failure;
}

static int copy_forms(struct prony_graph *graph, const struct prony_graph_form *forms,
                      struct prony_error *err)
{
    struct prn_arena *arena = &graph->arena;
    size_t n_inputs = 0;
    int code = 0;
    for (size_t i = 0; i < graph->n_forms; i++)
        n_inputs += forms[i].n_inputs;
    graph->forms = PRN_ARENA_ARRAY(arena, graph->n_forms + 1, struct prn_graph_form);
    graph->inputs = PRN_ARENA_ARRAY(arena, n_inputs + 1, struct prn_value);
    graph->ordered = PRN_ARENA_ARRAY(arena, n_inputs + 1, struct prony_tensor);
    if (!graph->forms || !graph->inputs || !graph->ordered)
        return prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < graph->n_forms; i++) {
        graph->forms[i].format = forms[i].format;
        if (is_needed(graph, &forms[i]))
            code = copy_form(graph, &forms[i], &graph->forms[i], err);
    }
    if (code == 0 && graph->n_inputs > PRN_EXECUTOR_TENSORS_MAX)
        code = prn_fail(err, PRONY_ELIMIT, "the graph has %zu inputs, more than %d",
                        graph->n_inputs, PRN_EXECUTOR_TENSORS_MAX);
    return code;
}

/* Why a form couldn't be made is why its backends can't run the graph. */
static void spread_failures(struct prony_graph *graph, const struct prony_graph_form *forms)
{
    for (size_t i = 0; i < graph->host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[i];
        const char *failure = on->form ? forms[on->form - graph->forms].failure : NULL;
        if (failure)
            prn_fail(&on->failure, PRONY_EUNSUPPORTED, "%s", failure);
    }
}

int prn_graph_reserve(struct prony_graph *graph, size_t repeats)
{
    if (repeats <= graph->room)
        return 0;
    for (size_t i = 0; i < graph->host->n_backends; i++) {
        int64_t *samples = PRN_ARENA_ARRAY(&graph->arena, repeats, int64_t);
        if (!samples)
            return PRONY_ENOMEM;
        graph->on[i].samples = samples;
    }
    graph->room = repeats;
    return 0;
}

static int make_room(struct prony_graph *graph, const char *name)
{
    const struct prn_graph_host *host = graph->host;
    struct prn_arena *arena = &graph->arena;
    graph->name = prn_arena_strdup(arena, name);
    graph->on = PRN_ARENA_ARRAY(arena, host->n_backends, struct prn_graph_backend);
    graph->outcomes = PRN_ARENA_ARRAY(arena, host->n_backends, struct prn_graph_outcome);
    if (!graph->name || !graph->on || !graph->outcomes)
        return PRONY_ENOMEM;
    return prn_graph_reserve(graph, host->repeats);
}

/* Why backends can't run the graph, and, when none can, why it will run locally. */
static int note_reason(struct prony_graph *graph, struct prony_error *err)
{
    struct prony_error reason;
    for (size_t i = 0; i < graph->host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[i];
        if (on->loaded)
            continue;
        on->load_failure = prn_arena_strdup(&graph->arena, on->failure.text);
        if (!on->load_failure)
            return prn_fail_memory(err);
    }
    if (prn_graph_failure(graph, true, &reason) == 0)
        return 0;
    graph->local_reason = prn_arena_strdup(&graph->arena, reason.text);
    return graph->local_reason ? 0 : prn_fail_memory(err);
}

static int graph_load(struct prony_graph *graph, const char *path, struct prony_error *err)
{
    struct prn_model *model;
    int code = prn_model_open(path, &model, err);
    if (code < 0)
        return code;
    code = copy_inputs(graph, model, err);
    if (code == 0)
        code = make_form(graph, model, err);
    if (code == 0)
        code = graph->host->ops->load(graph, path, model, err);
    prn_model_free(model);
    return code == 0 ? note_reason(graph, err) : code;
}

static int new_graph(struct prn_graph_host *host, const char *name, struct prony_graph **ret_graph,
                     struct prony_error *err)
{
    struct prony_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return prn_fail_memory(err);
    *graph = (struct prony_graph){.host = host, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    if (make_room(graph, name) < 0) {
        prn_graph_free(graph);
        return prn_fail_memory(err);
    }
    *ret_graph = graph;
    return 0;
}

static int keep_or_free(int code, struct prony_graph *graph, struct prony_graph **ret_graph)
{
    if (code < 0)
        prn_graph_free(graph);
    else
        *ret_graph = graph;
    return code;
}

int prn_graph_load(struct prn_graph_host *host, const char *path, const char *name,
                   struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prony_graph *graph;
    int code = new_graph(host, name, &graph, err);
    return code < 0 ? code : keep_or_free(graph_load(graph, path, err), graph, ret_graph);
}

/* Where a runtime reads files, only ONNX does: the form is written to a folder of its own. */
static int load_written(struct prony_graph *graph, const struct prony_graph_form *forms,
                        struct prony_error *err)
{
    struct prn_temporary folder;
    size_t i = 0;
    while (i < graph->n_forms && (forms[i].format != PRONY_FORMAT_ONNX || forms[i].failure))
        i++;
    int code = i < graph->n_forms ? 0 : copy_forms(graph, forms, err);
    if (code == 0 && i == graph->n_forms) {
        choose_forms(graph);
        spread_failures(graph, forms);
        for (size_t k = 0; k < graph->host->n_backends; k++)
            if (graph->on[k].failure.code == 0)
                prn_fail(&graph->on[k].failure, PRONY_EUNSUPPORTED, "only a service runs FXPROTO");
        return note_reason(graph, err);
    }
    if (code == 0)
        code = prn_temporary_write_all(&folder, forms[i].files, forms[i].n_files, err);
    if (code < 0)
        return code;
    code = graph_load(graph, folder.path, err);
    prn_scratch_remove(folder.folder);
    return code;
}

static int load_forms(struct prony_graph *graph, const struct prony_graph_form *forms,
                      struct prony_error *err)
{
    if (!graph->host->ops->load_forms)
        return load_written(graph, forms, err);
    int code = copy_forms(graph, forms, err);
    if (code < 0)
        return code;
    choose_forms(graph);
    spread_failures(graph, forms);
    code = graph->host->ops->load_forms(graph, forms, err);
    return code == 0 ? note_reason(graph, err) : code;
}

int prn_graph_load_forms(struct prn_graph_host *host, const char *name,
                         const struct prony_graph_form *forms, size_t n_forms,
                         const char *const *refusals, struct prony_graph **ret_graph,
                         struct prony_error *err)
{
    struct prony_graph *graph;
    int code = new_graph(host, name, &graph, err);
    if (code < 0)
        return code;
    graph->from_forms = true;
    graph->n_forms = n_forms;
    graph->refusals = refusals;
    code = load_forms(graph, forms, err);
    graph->refusals = NULL;
    return keep_or_free(code, graph, ret_graph);
}

int prn_graph_new_local(struct prn_graph_host *host, const char *name, const char *reason,
                        struct prony_graph **ret_graph, struct prony_error *err)
{
    struct prony_graph *graph;
    int code = new_graph(host, name, &graph, err);
    if (code < 0)
        return code;
    graph->from_forms = true;
    graph->local_reason = prn_arena_strdup(&graph->arena, reason);
    for (size_t i = 0; i < host->n_backends; i++) {
        prn_fail(&graph->on[i].failure, PRONY_EUNSUPPORTED, "%s", reason);
        graph->on[i].load_failure = graph->local_reason;
    }
    code = graph->local_reason ? 0 : prn_fail_memory(err);
    return keep_or_free(code, graph, ret_graph);
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
    const struct prn_graph_host *host = graph->host;
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
    if (input->dtype != PRONY_DTYPE_UNDEFINED && t->dtype != input->dtype)
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
    if (graph->local_reason)
        return 0; /* nobody will look at them */
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
    for (size_t i = 0; !graph->from_forms && i < n_inputs && n_inputs > graph->n_inputs; i++) {
        bool known = false;
        for (size_t k = 0; k < graph->n_inputs && !known; k++)
            known = strcmp(graph->inputs[k].name, inputs[i].name) == 0;
        if (!known)
            return prn_fail(err, PRONY_EUSAGE, "the graph has no input '%s'", inputs[i].name);
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

/* Puts the inputs into the graph's order and forgets the last run's failures. False when no backend
 * can run it. */
static bool order(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs)
{
    bool any = false;
    if (graph->local_reason)
        return false;
    for (size_t i = 0; i < graph->n_inputs; i++)
        graph->ordered[i] = *find_tensor(inputs, n_inputs, graph->inputs[i].name);
    for (size_t i = 0; i < graph->host->n_backends; i++) {
        if (!graph->on[i].loaded)
            continue;
        graph->on[i].failure.code = 0;
        any = true;
    }
    return any;
}

int prn_graph_begin(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                    bool outputs, bool *ret_begun, struct prony_error *err)
{
    const struct prn_host_ops *ops = graph->host->ops;
    *ret_begun = false;
    if (!ops->begin || !order(graph, inputs, n_inputs))
        return 0;
    int code = ops->begin(graph, graph->ordered, graph->n_inputs, outputs, err);
    *ret_begun = code == 0;
    return code;
}

void prn_graph_abandon(struct prony_graph *graph)
{
    if (graph->host->ops->abandon)
        graph->host->ops->abandon(graph);
}

int prn_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                  bool outputs, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    int code = 0;
    if (order(graph, inputs, n_inputs))
        code = host->ops->run(graph, graph->ordered, graph->n_inputs, outputs, err);
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
