/* The launch that tells where the memory goes. */
#include "measure/memory/memory.h"

#include "base/clock.h"
#include "measure/launch.h"
#include "measure/memory/live.h"
#include "measure/tracing.h"
#include "trace/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An option of runtimes whose profiler tells of memory, and which show it at its node when this is
 * off. */
#define PATTERNS "mem_pattern"
#define SYMBOLS_MAX 1000000
#define OPTIONS_MAX 64

/* A node as it ran. */
struct step {
    const char *name;
    struct prn_trace_mem memory;
};

struct weighing {
    const struct prn_measure_request *request;
    const struct prn_ops_graph *graph;
    const struct prn_live *live;
    struct prn_profile *profile;
    struct prn_executor *executor;
    struct prn_tracing tracing;
    int64_t *when; /* of each node of the model: which step it was */
    struct step *steps;
    size_t n_steps, room;
    struct prn_memory *memory;
};

/* ---- What the process has ---- */

static int64_t growth(int64_t before, int64_t after)
{
    return after > before ? after - before : 0;
}

/* Loads, binds and runs once, and reads in between what the process has. */
static int weigh_steps(struct weighing *w, const struct prn_launch_config *config, bool tells,
                       struct prony_error *err)
{
    struct prn_memory *m = w->memory;
    const struct prn_inputs *inputs = &config->request->inputs[config->point];
    int64_t ns;
    size_t n = 0;
    m->runtime_bytes = prn_executor_resident(w->executor);
    int code =
        prn_executor_load(w->executor, config->request->models[config->point].path, &ns, err);
    if (code == 0 && tells)
        code = prn_tracing_catch(&w->tracing, err);
    int64_t loaded = prn_executor_resident(w->executor);
    if (code == 0)
        code = prn_executor_bind(w->executor, inputs->places, inputs->n, err);
    int64_t bound = prn_executor_resident(w->executor);
    if (code == 0)
        code = prn_executor_run(w->executor, 0, 1, 0, &ns, &n, err);
    if (code < 0)
        return code;
    m->total_bytes = prn_executor_resident(w->executor);
    m->peak_bytes = prn_executor_peak(w->executor);
    if (m->runtime_bytes < 0 || m->total_bytes < 0)
        return prn_fail(err, PRONY_EUNSUPPORTED, "the kernel doesn't tell what a process has");
    m->weights_bytes = growth(m->runtime_bytes, loaded);
    m->inputs_bytes = growth(loaded, bound);
    m->run_bytes = m->total_bytes - m->runtime_bytes - m->weights_bytes - m->inputs_bytes;
    return tells ? prn_executor_end_profiling(w->executor, err) : 0;
}

/* What loading took is more than the weights that are in memory: the graph, and copies of weights
 * in another order. */
static void divide_load(struct prn_memory *m, uint64_t parameter_bytes)
{
    int64_t loaded = m->weights_bytes;
    m->weights_bytes = parameter_bytes < (uint64_t)loaded ? (int64_t)parameter_bytes : loaded;
    m->session_bytes = loaded - m->weights_bytes;
}

/* ---- What the runtime tells ---- */

static int take_node(struct weighing *w, const struct prn_trace_event *event)
{
    struct prn_ops_origin origin;
    size_t end = strlen("_" PRN_TRACE_KERNEL_TIME);
    size_t len = event->name->symbol.len;
    if (event->name->role != PRN_TRACE_ROLE_KERNEL_TIME || len <= end)
        return 0;
    if (w->n_steps == w->room) {
        size_t room = w->room ? 2 * w->room : 256;
        struct step *steps = realloc(w->steps, room * sizeof *steps);
        if (!steps)
            return PRONY_ENOMEM;
        w->steps = steps;
        w->room = room;
    }
    struct step *step = &w->steps[w->n_steps++];
    step->memory = event->memory;
    step->name = prn_arena_strndup(&w->profile->arena, event->name->symbol.text, len - end);
    if (!step->name)
        return PRONY_ENOMEM;
    if (w->graph && event->op && prn_ops_graph_find(w->graph, step->name, event->op->text, &origin))
        w->when[origin.node] = (int64_t)w->n_steps - 1;
    return 0;
}

static int read_steps(struct weighing *w, struct prony_error *err)
{
    const struct prn_trace_reader_options options = {.recover = true, .symbols_max = SYMBOLS_MAX};
    struct prn_source *source = NULL;
    struct prn_trace_reader *reader = NULL;
    struct prn_trace_event event;
    int code = prn_tracing_open(&w->tracing, &source, err);
    if (code == 0)
        code = prn_trace_reader_new(source, &options, &reader, err);
    while (code == 0 && (code = prn_trace_reader_next(reader, &event, err)) > 0) {
        code = event.category == PRN_TRACE_NODE ? take_node(w, &event) : 0;
        if (code < 0)
            prn_fail_memory(err);
    }
    prn_trace_reader_free(reader);
    prn_source_close(source);
    return code;
}

/* The step at which the arena's own peak was reached. Where that was before the run, while the
 * model was loaded, it is the one after which most was in use. */
static size_t find_peak(const struct weighing *w, bool *ret_inside)
{
    const struct step *steps = w->steps;
    const int64_t peak = steps[w->n_steps - 1].memory.peak;
    size_t at = 0;
    while (steps[at].memory.peak < peak)
        at++;
    *ret_inside = at > 0 || peak == steps[0].memory.in_use;
    for (size_t i = 0; !*ret_inside && i < w->n_steps; i++)
        if (steps[i].memory.in_use > steps[at].memory.in_use)
            at = i;
    return at;
}

/* What is left of `*left`, at most `most` of it. */
static int64_t take(int64_t *left, int64_t most)
{
    int64_t taken = *left < 0 ? 0 : *left < most ? *left : most;
    *left -= taken;
    return taken;
}

/* Divides what the run took. Memory that the arena holds and nobody touched isn't in the process. A
 * run that takes less than its activations got the rest from what loading had given back. */
static void divide_run(struct weighing *w, size_t at, bool inside)
{
    struct prn_memory *m = w->memory;
    const struct prn_trace_mem *first = &w->steps[0].memory;
    const struct prn_trace_mem *peak = &w->steps[at].memory;
    int64_t held = w->steps[w->n_steps - 1].memory.held;
    int64_t before = first->in_use - first->in_use_delta;
    int64_t rounding = peak->in_use - peak->requested;
    m->peak_node = w->steps[at].name;
    m->activations_bytes = growth(before + rounding, peak->in_use);
    m->workspace_bytes = inside ? peak->peak - peak->in_use : 0;
    int64_t left = m->run_bytes - m->activations_bytes - m->workspace_bytes;
    if (left < 0) {
        int64_t again = m->session_bytes < -left ? m->session_bytes : -left;
        m->session_bytes -= again;
        left += again;
    }
    m->rounding_bytes = take(&left, rounding);
    m->idle_bytes = take(&left, growth(peak->in_use + m->workspace_bytes, held));
    m->unexplained_bytes = left;
}

static int tell_tensors(struct weighing *w, size_t at, struct prony_error *err)
{
    struct prn_memory *m = w->memory;
    int code = prn_live_at(w->live, w->when, (int64_t)at, &w->profile->arena, &m->tensors,
                           &m->n_tensors, err);
    for (size_t i = 0; code == 0 && i < m->n_tensors; i++)
        m->tensors_bytes += m->tensors[i].bytes;
    if (m->n_tensors > PRN_MEMORY_TENSORS_MAX)
        m->n_tensors = PRN_MEMORY_TENSORS_MAX;
    return code;
}

static int tell_run(struct weighing *w, struct prony_error *err)
{
    bool inside;
    size_t n = prn_live_nodes(w->live);
    w->when = malloc((n + 1) * sizeof *w->when);
    if (!w->when)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        w->when[i] = -1;
    int code = read_steps(w, err);
    if (code < 0 || w->n_steps == 0)
        return code;
    /* Older ones have no such fields, and neither has one without an arena. */
    for (size_t i = 0; i < w->n_steps; i++)
        if (!w->steps[i].memory.known)
            return 0;
    size_t at = find_peak(w, &inside);
    divide_run(w, at, inside);
    return tell_tensors(w, at, err);
}

/* ---- One backend ---- */

static int weigh(struct weighing *w, const struct prn_spec *backend, size_t point,
                 struct prony_error *err)
{
    const struct prn_runtime_ops *runtime = prn_runtime_find(backend->software);
    bool tells = runtime && prn_runtime_find_option(runtime, PATTERNS);
    struct prn_spec_option options[OPTIONS_MAX + 1];
    struct prn_spec plain = *backend;
    struct prn_launch_config config = {.request = w->request,
                                       .backend = &plain,
                                       .point = point,
                                       .memory_bytes = prn_launch_memory()};
    int code = 0;
    if (tells && backend->n_options < OPTIONS_MAX) {
        memcpy(options, backend->options, backend->n_options * sizeof *options);
        options[plain.n_options++] = (struct prn_spec_option){PATTERNS, "off"};
        plain.options = options;
        code = prn_tracing_begin(&w->tracing, err);
        config.profile_folder = w->tracing.folder;
        config.file_bytes = PRN_TRACING_BYTES_MAX;
    }
    if (code == 0)
        code = prn_launch_open(&config, &w->executor, err);
    if (code == 0)
        code = weigh_steps(w, &config, tells, err);
    prn_executor_free(w->executor);
    if (code == 0)
        divide_load(w->memory, prn_live_weight_bytes(w->live));
    if (code == 0 && tells)
        code = tell_run(w, err);
    prn_tracing_end(&w->tracing);
    free(w->steps);
    free(w->when);
    return code;
}

static void memory_tell(const struct weighing *w, const struct prn_result *result, int64_t start_ns)
{
    const struct prn_progress progress = {.backend = result->name,
                                          .point = prn_result_point(w->profile, result)->label,
                                          .row = (size_t)(result - w->profile->results) + 1,
                                          .rows = w->profile->n_results,
                                          .phase = "memory",
                                          .launch = 1,
                                          .launches = 1,
                                          .median_ns = NAN,
                                          .half_width = NAN,
                                          .elapsed_s = (double)(prn_clock_ns() - start_ns) * 1e-9};
    if (w->request->progress)
        w->request->progress(w->request->context, &progress);
}

static const struct prn_memory nothing_known = {
    .activations_bytes = -1, .workspace_bytes = -1, .rounding_bytes = -1, .idle_bytes = -1};

static int weigh_result(struct weighing *w, struct prn_result *result,
                        const struct prn_spec *backend, struct prony_error *err)
{
    struct prony_error reason = {0};
    struct prn_memory *m = PRN_ARENA_NEW(&w->profile->arena, struct prn_memory);
    if (!m)
        return prn_fail_memory(err);
    *m = nothing_known;
    w->memory = m;
    bool cancelled = w->request->cancelled && *w->request->cancelled;
    int code = cancelled ? PRONY_ECANCELED : weigh(w, backend, result->point, &reason);
    if (code < 0) {
        const char *text = code == PRONY_ECANCELED ? "interrupted" : reason.text;
        *m = nothing_known;
        m->error = prn_arena_strdup(&w->profile->arena, text);
        if (!m->error)
            return prn_fail_memory(err);
    }
    result->memory = m;
    return 0;
}

int prn_memory_measure(const struct prn_measure_request *request,
                       struct prn_ops_graph *const *graphs, struct prn_live *const *lives,
                       struct prn_profile *profile, struct prony_error *err)
{
    int64_t start_ns = prn_clock_ns();
    int code = 0;
    for (size_t i = 0; code == 0 && i < profile->n_results; i++) {
        struct prn_result *result = &profile->results[i];
        struct weighing w = {.request = request,
                             .graph = graphs[result->point],
                             .live = lives[result->point],
                             .profile = profile,
                             .tracing = {.fd = -1}};
        if (result->error_code != 0 || result->n_samples == 0)
            continue;
        memory_tell(&w, result, start_ns);
        code = weigh_result(&w, result, &request->backends[i], err);
    }
    return code;
}
