/*
 * Graphs on the hosts of a service. The model's file and its external data go up under the names
 * that the model knows them by; a run is one call for all backends.
 */
#include "record/graph.h"

#include "record/files.h"
#include "record/remote.h"

#include <stdlib.h>
#include <string.h>

struct remote {
    struct prn_remote_model model;
    struct prn_remote_result *results; /* room for those of a run */
    struct prn_remote_reply *reply;    /* of the last run; NULL: none */
    size_t n_outputs;
    const char **input_names, **output_names;
};

/* ---- Loading ---- */

static int copy_names(struct prony_graph *graph, const struct prn_model *model, struct remote *own,
                      struct prony_error *err)
{
    struct prn_arena *arena = &graph->arena;
    size_t n = model->graph.n_outputs;
    own->input_names = PRN_ARENA_ARRAY(arena, graph->n_inputs + 1, const char *);
    own->output_names = PRN_ARENA_ARRAY(arena, n + 1, const char *);
    own->results = PRN_ARENA_ARRAY(arena, graph->host->n_backends, struct prn_remote_result);
    if (!own->input_names || !own->output_names || !own->results)
        return prn_fail_memory(err);
    for (size_t i = 0; i < graph->n_inputs; i++)
        own->input_names[i] = graph->inputs[i].name;
    for (; own->n_outputs < n; own->n_outputs++) {
        const char *copy = prn_arena_strdup(arena, model->graph.outputs[own->n_outputs].name);
        if (!copy)
            return prn_fail_memory(err);
        own->output_names[own->n_outputs] = copy;
    }
    return 0;
}

static int upload(struct prony_graph *graph, const char *path, const struct prn_model *model,
                  struct remote *own, struct prony_error *failures, struct prony_error *err)
{
    struct prn_files files = PRN_FILES_INIT;
    int code = prn_files_add_model(&files, path, model, err);
    if (code == 0)
        code = graph->host->remote->upload(graph->host->connection, &own->model, files.items,
                                           files.n, failures, err);
    prn_files_release(&files);
    return code;
}

static int load_uploaded(struct prony_graph *graph, struct remote *own, struct prony_error *err)
{
    const struct prn_host *host = graph->host;
    struct prn_remote_loaded *loaded =
        PRN_ARENA_ARRAY(&graph->arena, host->n_backends, struct prn_remote_loaded);
    if (!loaded)
        return prn_fail_memory(err);
    struct prn_remote_load request = {
        .model = own->model.id,
        .format = PRN_REMOTE_FORMAT_ONNX,
        .input_names = own->input_names,
        .n_input_names = graph->n_inputs,
        .output_names = own->output_names,
        .n_output_names = own->n_outputs,
        .timeout_s = host->timeout_s,
    };
    int code = host->remote->load(host->connection, &request, &graph->arena, loaded, err);
    for (size_t i = 0; code == 0 && i < host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[i];
        on->version = loaded[i].version;
        on->sandbox = loaded[i].sandbox;
        if (loaded[i].error_code && on->failure.code == 0)
            prn_fail(&on->failure, loaded[i].error_code, "%s", loaded[i].error);
        on->loaded = on->failure.code == 0;
    }
    return code;
}

static int load(struct prony_graph *graph, const char *path, const struct prn_model *model,
                struct prony_error *err)
{
    size_t n = graph->host->n_backends;
    struct remote *own = PRN_ARENA_NEW(&graph->arena, struct remote);
    struct prony_error *failures = calloc(n, sizeof *failures);
    graph->place = own;
    int code = own && failures ? copy_names(graph, model, own, err) : prn_fail_memory(err);
    if (code == 0)
        code = upload(graph, path, model, own, failures, err);
    for (size_t i = 0; code == 0 && i < n; i++)
        graph->on[i].failure = failures[i];
    free(failures);
    return code == 0 ? load_uploaded(graph, own, err) : code;
}

static void forget_reply(struct prony_graph *graph)
{
    struct remote *own = graph->place;
    if (!own || !own->reply)
        return;
    graph->host->remote->reply_free(own->reply);
    own->reply = NULL;
}

/* ---- Running ---- */

static void take_result(const struct prn_host *host, const struct prn_remote_result *result,
                        struct prn_graph_backend *on)
{
    if (result->error_code)
        prn_fail(&on->failure, result->error_code, "%s", result->error);
    else if (result->n_samples != host->repeats)
        prn_fail(&on->failure, PRONY_EFORMAT, "the service gave %zu times instead of %zu",
                 result->n_samples, host->repeats);
    else
        memcpy(on->samples, result->samples_ns, host->repeats * sizeof *on->samples);
}

static int run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
               bool outputs, struct prony_error *err)
{
    const struct prn_host *host = graph->host;
    struct remote *own = graph->place;
    struct prony_error failure;
    struct prn_remote_run request = {
        .model = own->model.id,
        .inputs = inputs,
        .n_inputs = n_inputs,
        .warmups = host->warmups,
        .repeats = host->repeats,
        .outputs = outputs,
        .timeout_s = host->timeout_s,
    };
    forget_reply(graph);
    int code = host->remote->run(host->connection, &request, own->results, &own->reply, &failure);
    if (code == PRONY_ECANCELED)
        return prn_fail(err, code, "%s", failure.text);
    /* What the call failed with, it failed with on every backend. */
    for (size_t i = 0; i < host->n_backends; i++) {
        if (!graph->on[i].loaded)
            continue;
        if (code < 0)
            graph->on[i].failure = failure;
        else
            take_result(host, &own->results[i], &graph->on[i]);
    }
    return 0;
}

static int outputs_of(struct prony_graph *graph, size_t backend, struct prony_outputs **ret_outputs,
                      struct prony_error *err)
{
    const struct remote *own = graph->place;
    return graph->host->remote->outputs(own->reply, backend, own->output_names, own->n_outputs,
                                        ret_outputs, err);
}

const struct prn_host_ops prn_host_remote = {
    .load = load,
    .release = forget_reply,
    .run = run,
    .outputs = outputs_of,
};
