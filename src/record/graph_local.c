/* Graphs on this machine: one executor process for each backend, stopped (SIGSTOP) whenever it
 * isn't its turn. */
#include "record/graph.h"

#include "base/io.h"
#include "measure/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define ALIGNMENT 64        /* of inputs, as runtimes like it */
#define SLICE_NS 1000000000 /* after which repeats are continued by another command */

/* One backend's process. */
struct local {
    struct prn_executor *executor; /* NULL: it couldn't be loaded, or died */
    int inputs_fd;                 /* shared memory with the inputs; -1 without executor */
};

/* ---- Loading ---- */

static void drop_executor(struct local *on)
{
    prn_executor_free(on->executor);
    on->executor = NULL;
    if (on->inputs_fd >= 0)
        close(on->inputs_fd);
    on->inputs_fd = -1;
}

static void drop(struct prony_graph *graph, size_t backend)
{
    struct local *all = graph->place;
    drop_executor(&all[backend]);
    graph->on[backend].loaded = false;
}

static int load_on(struct prony_graph *graph, size_t backend, const struct prn_model_place *place,
                   struct prony_error *err)
{
    const struct prn_graph_host *host = graph->host;
    const struct prn_spec *spec = &host->backends[backend];
    struct prn_graph_backend *on = &graph->on[backend];
    struct local *local = &((struct local *)graph->place)[backend];
    local->inputs_fd = memfd_create("prony-inputs", MFD_CLOEXEC);
    if (local->inputs_fd < 0)
        return prn_fail_errno(err, errno, "create", "shared memory");
    struct prn_executor_config process = {
        .program = host->program,
        .inputs_fd = local->inputs_fd,
        .timeout_s = host->timeout_s,
        .memory_bytes = prn_launch_memory(),
        .cancelled = host->cancelled,
    };
    struct prn_runtime_config runtime = {
        .software = spec->software,
        .options = spec->options,
        .n_options = spec->n_options,
        .library = prn_library_chosen_for(&host->library, prn_runtime_find(spec->software)),
    };
    int code = prn_executor_spawn(&process, &local->executor, err);
    if (code == 0)
        code = prn_executor_open(local->executor, &runtime, place->path,
                                 place->folder[0] ? place->folder : NULL, err);
    if (code == 0)
        code = prn_executor_load(local->executor, place->path, &on->launch.load_ns, err);
    if (code < 0)
        return code;
    on->version = prn_arena_strdup(&graph->arena, prn_executor_version(local->executor));
    on->library = prn_arena_strdup(&graph->arena, prn_executor_library(local->executor));
    on->sandbox = prn_arena_strdup(&graph->arena, prn_executor_sandbox(local->executor));
    on->loaded = true;
    return on->version && on->library && on->sandbox ? 0 : prn_fail_memory(err);
}

/* On all backends, in random order: who starts first was seen to stay slower. */
static int graph_local_load(struct prony_graph *graph, const char *path,
                            const struct prn_model *model, struct prony_error *err)
{
    struct prn_graph_host *host = graph->host;
    struct prn_model_place place;
    struct local *all = PRN_ARENA_ARRAY(&graph->arena, host->n_backends, struct local);
    if (!all)
        return prn_fail_memory(err);
    for (size_t i = 0; i < host->n_backends; i++)
        all[i].inputs_fd = -1;
    graph->place = all;
    int code = prn_model_locate(path, model->n_external_files > 0, &place, err);
    if (code < 0)
        return code;
    prn_random_shuffle(&host->random, host->order, host->n_backends);
    for (size_t i = 0; i < host->n_backends; i++) {
        size_t backend = host->order[i];
        struct prony_error *failure = &graph->on[backend].failure;
        if (!graph->on[backend].form)
            continue;
        code = load_on(graph, backend, &place, failure);
        if (code == PRONY_ECANCELED)
            return prn_fail(err, code, "%s", failure->text);
        if (code < 0)
            drop(graph, backend);
        else
            prn_executor_park(all[backend].executor);
    }
    return 0;
}

static void graph_local_release(struct prony_graph *graph)
{
    struct local *all = graph->place;
    for (size_t i = 0; all && i < graph->host->n_backends; i++)
        drop_executor(&all[i]);
}

/* ---- Running ---- */

/* Writes the inputs into an executor's shared memory and has them bound. */
static int bind(const struct local *on, const struct prony_tensor *inputs, size_t n,
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

/* Runs go in slices, so that the limit on one command is a limit on a run, not on how many were
 * asked for. The times of warm-ups are overwritten. */
static int warm_up(const struct prn_graph_host *host, struct prn_executor *executor,
                   int64_t *samples, struct prony_error *err)
{
    size_t n;
    for (size_t left = host->warmups; left > 0; left -= n) {
        size_t now = left < host->repeats ? left : host->repeats;
        int code = prn_executor_run(executor, 0, now, SLICE_NS, samples, &n, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int run_timed(const struct prn_graph_host *host, struct prn_executor *executor,
                     int64_t *samples, struct prony_error *err)
{
    size_t n;
    for (size_t done = 0; done < host->repeats; done += n) {
        int code =
            prn_executor_run(executor, 0, host->repeats - done, SLICE_NS, samples + done, &n, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int run_on(const struct prn_graph_host *host, const struct local *on,
                  const struct prony_tensor *inputs, size_t n_inputs, int64_t *samples,
                  struct prony_error *err)
{
    prn_executor_unpark(on->executor);
    int code = bind(on, inputs, n_inputs, err);
    if (code == 0)
        code = warm_up(host, on->executor, samples, err);
    if (code == 0)
        code = run_timed(host, on->executor, samples, err);
    prn_executor_park(on->executor);
    return code;
}

/* Whether the process is gone after such a failure (exec/executor.h). */
static bool deadly(int code)
{
    return code == PRONY_ECRASH || code == PRONY_ETIMEDOUT || code == PRONY_ECANCELED;
}

static int graph_local_run(struct prony_graph *graph, const struct prony_tensor *inputs,
                           size_t n_inputs, bool outputs, struct prony_error *err)
{
    (void)outputs; /* they stay where they are until somebody asks */
    struct prn_graph_host *host = graph->host;
    const struct local *all = graph->place;
    prn_random_shuffle(&host->random, host->order, host->n_backends);
    for (size_t i = 0; i < host->n_backends; i++) {
        size_t backend = host->order[i];
        struct prn_graph_backend *on = &graph->on[backend];
        if (!on->loaded)
            continue;
        int failed = run_on(host, &all[backend], inputs, n_inputs, on->samples, &on->failure);
        if (deadly(failed))
            drop(graph, backend);
        if (failed == PRONY_ECANCELED)
            return prn_fail(err, failed, "%s", on->failure.text);
    }
    return 0;
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

static int fetch_outputs(struct prn_executor *executor, struct prony_outputs *outputs,
                         struct prony_error *err)
{
    int fd;
    int code =
        prn_executor_outputs(executor, 0, &outputs->arena, &outputs->places, &outputs->n, &fd, err);
    if (code < 0)
        return code;
    code = copy_outputs(outputs, fd, err);
    close(fd);
    return code;
}

static int outputs_of(struct prony_graph *graph, size_t backend, struct prony_outputs **ret_outputs,
                      struct prony_error *err)
{
    struct prn_executor *executor = ((struct local *)graph->place)[backend].executor;
    struct prony_error *failure = &graph->on[backend].failure;
    struct prony_outputs *outputs = calloc(1, sizeof *outputs);
    if (!outputs)
        return prn_fail_memory(err);
    outputs->arena = PRN_ARENA_INIT(ARENA_BYTES);
    prn_executor_unpark(executor);
    int code = fetch_outputs(executor, outputs, failure);
    prn_executor_park(executor);
    if (code < 0) {
        prony_outputs_free(outputs);
        prn_fail(err, code, "%s", failure->text);
        if (deadly(code))
            drop(graph, backend);
        return code;
    }
    *ret_outputs = outputs;
    return 0;
}

const struct prn_host_ops prn_host_local = {
    .load = graph_local_load,
    .release = graph_local_release,
    .run = graph_local_run,
    .outputs = outputs_of,
};
