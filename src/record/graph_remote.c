/*
 * Graphs on the hosts of a service. A model's file and its external data go up under the names that
 * the model knows them by, and so do the files of forms in memory: one model of the service, loaded
 * once for each form, on the backends that take it. A run is one call for all backends.
 */
#include "record/graph.h"

#include "base/clock.h"
#include "record/files.h"
#include "record/remote.h"

#include <stdlib.h>
#include <string.h>

struct remote {
    struct prn_remote_model model;
    struct prn_remote_map *maps;       /* of the inputs, one per backend */
    struct prn_remote_result *results; /* room for those of a run */
    struct prn_remote_reply *reply;    /* of the last run; NULL: none */
    struct prn_remote_begun *begun;    /* a run that is under way; NULL: none */
    struct prony_error unbegun;        /* why one couldn't be begun; code 0: it could */
};

/* ---- Loading ---- */

static int make_place(struct prony_graph *graph, struct prony_error *err)
{
    size_t n = graph->host->n_backends;
    struct prn_arena *arena = &graph->arena;
    struct remote *own = PRN_ARENA_NEW(arena, struct remote);
    if (!own)
        return prn_fail_memory(err);
    graph->place = own;
    own->maps = PRN_ARENA_ARRAY(arena, n, struct prn_remote_map);
    own->results = PRN_ARENA_ARRAY(arena, n, struct prn_remote_result);
    if (!own->maps || !own->results)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct prn_graph_form *form = graph->on[i].form;
        if (form)
            own->maps[i] = (struct prn_remote_map){form->n_inputs, form->map};
    }
    return 0;
}

/* The backends that a form isn't for, as the service wants to know them; NULL in `*ret_mask` when
 * it is for all. */
static int make_mask(struct prony_graph *graph, const struct prn_graph_form *form,
                     const uint8_t **ret_mask, size_t *ret_bytes, struct prony_error *err)
{
    size_t n = graph->host->n_backends;
    uint8_t *mask = PRN_ARENA_ARRAY(&graph->arena, n / 8 + 1, uint8_t);
    bool any = false;
    if (!mask)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (graph->on[i].form == form)
            continue;
        mask[i / 8] |= (uint8_t)(1U << i % 8);
        any = true;
    }
    *ret_mask = any ? mask : NULL;
    *ret_bytes = any ? (n + 7) / 8 : 0;
    return 0;
}

static int upload(struct prony_graph *graph, const struct prn_graph_form *form,
                  const struct prn_remote_file *files, size_t n_files, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    struct remote *own = graph->place;
    struct prony_error *failures = calloc(host->n_backends, sizeof *failures);
    if (!failures)
        return prn_fail_memory(err);
    const int64_t begin_ns = prn_monotonic_ns();
    int code = host->remote->upload(host->connection, &own->model, files, n_files, failures, err);
    graph->upload_ns += prn_monotonic_ns() - begin_ns;
    for (size_t i = 0; code == 0 && i < host->n_backends; i++)
        if (graph->on[i].form == form)
            graph->on[i].failure = failures[i];
    free(failures);
    return code;
}

static int load_uploaded(struct prony_graph *graph, const struct prn_graph_form *form,
                         const uint8_t *mask, size_t mask_bytes, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    const struct remote *own = graph->place;
    struct prn_remote_loaded *loaded =
        PRN_ARENA_ARRAY(&graph->arena, host->n_backends, struct prn_remote_loaded);
    if (!loaded)
        return prn_fail_memory(err);
    struct prn_remote_load request = {
        .model = own->model.id,
        .format = (enum prn_remote_format)form->format,
        .skip = mask,
        .n_skip = mask_bytes,
        .timeout_s = host->timeout_s,
    };
    /* FXPROTO has its placeholders and outputs in order, and no other names. */
    if (form->format == PRONY_FORMAT_ONNX) {
        request.input_names = form->input_names;
        request.n_input_names = form->n_inputs;
        request.output_names = form->output_names;
        request.n_output_names = form->n_outputs;
    }
    const int64_t begin_ns = prn_monotonic_ns();
    int code = host->remote->load(host->connection, &request, &graph->arena, loaded, err);
    graph->load_ns += prn_monotonic_ns() - begin_ns;
    for (size_t i = 0; code == 0 && i < host->n_backends; i++) {
        struct prn_graph_backend *on = &graph->on[i];
        if (on->form != form)
            continue;
        on->launch.load_ns = loaded[i].load_ns;
        on->version = loaded[i].version;
        on->sandbox = loaded[i].sandbox;
        if (loaded[i].error_code && on->failure.code == 0)
            prn_fail(&on->failure, loaded[i].error_code, "%s", loaded[i].error);
        on->loaded = on->failure.code == 0;
    }
    return code;
}

static int load_form(struct prony_graph *graph, const struct prn_graph_form *form,
                     struct prn_remote_file *files, size_t n_files, struct prony_error *err)
{
    const uint8_t *mask = NULL;
    size_t mask_bytes = 0;
    int code = make_mask(graph, form, &mask, &mask_bytes, err);
    for (size_t i = 0; code == 0 && i < n_files; i++) {
        files[i].skip = mask;
        files[i].n_skip = mask_bytes;
    }
    if (code == 0)
        code = upload(graph, form, files, n_files, err);
    return code == 0 ? load_uploaded(graph, form, mask, mask_bytes, err) : code;
}

/* Whether the form was made, and somebody takes it. */
static bool is_wanted(const struct prony_graph *graph, const struct prn_graph_form *form)
{
    for (size_t i = 0; i < graph->host->n_backends; i++)
        if (graph->on[i].form == form && graph->on[i].failure.code == 0)
            return true;
    return false;
}

static int graph_remote_load(struct prony_graph *graph, const char *path,
                             const struct prn_model *model, struct prony_error *err)
{
    struct prn_files files = PRN_FILES_INIT;
    int code = make_place(graph, err);
    if (code == 0 && is_wanted(graph, graph->forms)) {
        code = prn_files_add_model(&files, "", path, model, err);
        if (code == 0)
            code = load_form(graph, graph->forms, files.items, files.n, err);
    }
    prn_files_release(&files);
    return code;
}

static int load_from_memory(struct prony_graph *graph, const struct prn_graph_form *form,
                            const struct prony_graph_form *from, struct prony_error *err)
{
    struct prn_remote_file *files = calloc(from->n_files + 1, sizeof *files);
    if (!files)
        return prn_fail_memory(err);
    for (size_t i = 0; i < from->n_files; i++)
        files[i] = (struct prn_remote_file){.name = from->files[i].name,
                                            .fd = -1,
                                            .data = from->files[i].data,
                                            .bytes = from->files[i].bytes,
                                            .sha256 = from->files[i].sha256};
    int code = load_form(graph, form, files, from->n_files, err);
    free(files);
    return code;
}

static int load_forms(struct prony_graph *graph, const struct prony_graph_form *forms,
                      struct prony_error *err)
{
    int code = make_place(graph, err);
    for (size_t i = 0; code == 0 && i < graph->n_forms; i++)
        if (is_wanted(graph, &graph->forms[i]))
            code = load_from_memory(graph, &graph->forms[i], &forms[i], err);
    return code;
}

static void abandon(struct prony_graph *graph)
{
    struct remote *own = graph->place;
    if (!own)
        return;
    graph->host->remote->abandon(own->begun);
    own->begun = NULL;
    own->unbegun.code = 0;
}

static void forget_reply(struct prony_graph *graph)
{
    struct remote *own = graph->place;
    if (!own || !own->reply)
        return;
    graph->host->remote->reply_free(own->reply);
    own->reply = NULL;
}

static void graph_remote_release(struct prony_graph *graph)
{
    abandon(graph);
    forget_reply(graph);
}

/* ---- Running ---- */

static void take_result(const struct prn_graph_host *host, const struct prn_remote_result *result,
                        struct prn_graph_backend *on)
{
    if (result->error_code)
        prn_fail(&on->failure, result->error_code, "%s", result->error);
    else if (result->n_samples != host->repeats)
        prn_fail(&on->failure, PRONY_EFORMAT, "the service gave %zu times instead of %zu",
                 result->n_samples, host->repeats);
    else {
        memcpy(on->samples, result->samples_ns, host->repeats * sizeof *on->samples);
        on->launch.prepare_ns += result->prepare_ns;
    }
}

static struct prn_remote_run request_of(const struct prony_graph *graph,
                                        const struct prony_tensor *inputs, size_t n_inputs,
                                        bool outputs)
{
    const struct prn_graph_host *host = graph->host;
    const struct remote *own = graph->place;
    return (struct prn_remote_run){
        .model = own->model.id,
        .inputs = inputs,
        .n_inputs = n_inputs,
        .maps = own->maps,
        .warmups = host->warmups,
        .repeats = host->repeats,
        .outputs = outputs,
        .timeout_s = host->timeout_s,
    };
}

/* A failure is kept for whoever finishes the run; nobody knows how far it came. */
static int graph_remote_begin(struct prony_graph *graph, const struct prony_tensor *inputs,
                              size_t n_inputs, bool outputs, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    struct remote *own = graph->place;
    struct prn_remote_run request = request_of(graph, inputs, n_inputs, outputs);
    abandon(graph);
    int code = host->remote->begin(host->connection, &request, &own->begun, &own->unbegun);
    if (code != PRONY_ECANCELED)
        return 0;
    own->unbegun.code = 0;
    return prn_fail(err, code, "%s", own->unbegun.text);
}

static int call(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                bool outputs, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    struct remote *own = graph->place;
    struct prn_remote_run request = request_of(graph, inputs, n_inputs, outputs);
    struct prn_remote_begun *begun = own->begun;
    int code = own->unbegun.code;
    own->begun = NULL;
    own->unbegun.code = 0;
    if (code < 0)
        return prn_fail(err, code, "%s", own->unbegun.text);
    return begun ? host->remote->finish(host->connection, begun, own->results, &own->reply, err)
                 : host->remote->run(host->connection, &request, own->results, &own->reply, err);
}

static int graph_remote_run(struct prony_graph *graph, const struct prony_tensor *inputs,
                            size_t n_inputs, bool outputs, struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    const struct remote *own = graph->place;
    struct prony_error failure;
    forget_reply(graph);
    int code = call(graph, inputs, n_inputs, outputs, &failure);
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
    const struct prn_graph_form *form = graph->on[backend].form;
    return graph->host->remote->outputs(own->reply, backend, form->output_names, form->n_outputs,
                                        ret_outputs, err);
}

const struct prn_host_ops prn_host_remote = {
    .load = graph_remote_load,
    .load_forms = load_forms,
    .release = graph_remote_release,
    .run = graph_remote_run,
    .begin = graph_remote_begin,
    .abandon = abandon,
    .outputs = outputs_of,
};
