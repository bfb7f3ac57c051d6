/* The launch that profiles: a process with the runtime's profiler on, and the file that it leaves.
 */
#include "measure/ops/ops.h"

#include "base/clock.h"
#include "measure/launch.h"
#include "measure/tracing.h"

#include <math.h>
#include <stdlib.h>

#define RUNS 50         /* time permitting */
#define RUNS_SHARE 0.05 /* of --max-time, for the runs of one backend */
#define WARM_UP_RUNS 50 /* at most, or */
#define WARM_UP_NS 50000000

/* ---- One backend ---- */

struct profiling {
    const struct prn_measure_request *request;
    const struct prn_ops_graph *graph;
    struct prn_profile *profile;
    struct prn_executor *executor;
    struct prn_tracing tracing;
    struct prn_placed *placed; /* who runs which nodes, as far as the runtime tells */
    size_t n_placed;
    int64_t start_ns;
};

struct timed_run {
    int64_t ns;
    size_t index; /* in the trace */
};

static int by_time(const void *a, const void *b)
{
    const struct timed_run *x = a;
    const struct timed_run *y = b;
    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns) : (x->index > y->index) ? 1 : -1;
}

/* Lists the faster half of the runs as --gather takes them, "[51,53]", and keeps their median. */
static void choose_runs(const int64_t *ns, size_t n, size_t first, struct prn_ops *ops,
                        struct prn_buffer *ret_runs)
{
    struct timed_run runs[RUNS];
    for (size_t i = 0; i < n; i++)
        runs[i] = (struct timed_run){ns[i], first + i};
    qsort(runs, n, sizeof *runs, by_time);
    ops->profiled_runs = (int64_t)n;
    size_t low = (n - 1) / 2;
    size_t high = n / 2;
    ops->run_ns = ((double)runs[low].ns + (double)runs[high].ns) / 2;
    for (size_t i = 0; i < (n + 1) / 2; i++)
        prn_buffer_printf(ret_runs, "%c%zu", i == 0 ? '[' : ',', runs[i].index);
    prn_buffer_add_char(ret_runs, ']');
}

static void tell(const struct profiling *p, const struct prn_result *result)
{
    const struct prn_measure_request *q = p->request;
    struct prn_progress progress = {.backend = result->name,
                                    .point = prn_result_point(p->profile, result)->label,
                                    .row = (size_t)(result - p->profile->results) + 1,
                                    .rows = p->profile->n_results,
                                    .phase = "profiling",
                                    .launch = 1,
                                    .launches = 1,
                                    .median_ns = NAN,
                                    .half_width = NAN,
                                    .elapsed_s = (double)(prn_clock_ns() - p->start_ns) * 1e-9};
    if (q->progress)
        q->progress(q->context, &progress);
}

static int bring_up(struct profiling *p, const struct prn_launch_config *config,
                    struct prony_error *err)
{
    struct prn_launch launch;
    int code = prn_launch_open(config, &p->executor, err);
    if (code == 0)
        code = prn_launch_load(config, p->executor, &launch, err);
    if (code == 0)
        code = prn_tracing_catch(&p->tracing, err);
    if (code == 0)
        code =
            prn_executor_placement(p->executor, &p->profile->arena, &p->placed, &p->n_placed, err);
    return code;
}

/* One run of the trace stands for all, in a profiler that only knows averages. */
static void choose_mean(const int64_t *ns, size_t n, struct prn_ops *ops,
                        struct prn_buffer *ret_runs)
{
    double sum_ns = 0;
    for (size_t i = 0; i < n; i++)
        sum_ns += (double)ns[i];
    ops->profiled_runs = (int64_t)n;
    ops->run_ns = sum_ns / (double)n;
    prn_buffer_add(ret_runs, "[0]");
}

static int ops_run(struct profiling *p, bool averages, struct prn_ops *ops,
                   struct prn_buffer *ret_runs, struct prony_error *err)
{
    int64_t samples[RUNS];
    size_t warm = 0;
    size_t n = 0;
    double share_ns = p->profile->settings.max_time_s * 1e9 * RUNS_SHARE;
    int code = prn_executor_run(p->executor, 0, WARM_UP_RUNS, WARM_UP_NS, samples, &warm, err);
    if (code == 0 && averages)
        code = prn_executor_begin_profiling(p->executor, err);
    if (code == 0)
        code = prn_executor_run(p->executor, 0, RUNS, (int64_t)share_ns, samples, &n, err);
    if (code == 0)
        code = prn_executor_end_profiling(p->executor, err);
    if (code < 0)
        return code;
    if (averages)
        choose_mean(samples, n, ops, ret_runs);
    else
        choose_runs(samples, n, 1 + warm, ops, ret_runs);
    return prn_buffer_error(ret_runs, err);
}

static int read_trace(struct profiling *p, const char *runs, struct prn_ops *ops,
                      struct prony_error *err)
{
    struct prn_source *source = NULL;
    int code = prn_tracing_open(&p->tracing, &source, err);
    if (code == 0)
        code = prn_ops_from_trace(source, runs, p->graph, &p->profile->arena, ops, err);
    if (code == 0)
        code = prn_ops_place(p->placed, p->n_placed, &p->profile->arena, ops, err);
    prn_source_close(source);
    return code;
}

static int profile_one(struct profiling *p, const struct prn_spec *backend, size_t point,
                       struct prn_ops *ops, struct prony_error *err)
{
    const struct prn_runtime_ops *runtime = prn_runtime_find(backend->software);
    bool averages = runtime && runtime->begin_profiling;
    struct prn_buffer runs = PRN_BUFFER_INIT(RUNS * 32);
    int code = prn_tracing_begin(&p->tracing, err);
    if (code == 0) {
        const struct prn_launch_config config = {.request = p->request,
                                                 .backend = backend,
                                                 .point = point,
                                                 .memory_bytes = prn_launch_memory(),
                                                 .profile_folder = p->tracing.folder,
                                                 .file_bytes = PRN_TRACING_BYTES_MAX};
        code = bring_up(p, &config, err);
    }
    if (code == 0)
        code = ops_run(p, averages, ops, &runs, err);
    prn_executor_free(p->executor);
    if (code == 0)
        code = read_trace(p, prn_buffer_text(&runs), ops, err);
    if (code == 0 && averages)
        ops->runs = ops->profiled_runs;
    prn_buffer_release(&runs);
    prn_tracing_end(&p->tracing);
    return code;
}

/* ---- All of them ---- */

static int keep_failure(struct prn_profile *profile, struct prn_ops *ops, int code,
                        const struct prony_error *reason, struct prony_error *err)
{
    const char *text = code == PRONY_ECANCELED ? "interrupted" : reason->text;
    *ops = (struct prn_ops){.error = prn_arena_strdup(&profile->arena, text),
                            .run_ns = NAN,
                            .resolution_ns = NAN,
                            .parallel = NAN,
                            .nested = NAN,
                            .baseline = -1};
    return ops->error ? 0 : prn_fail_memory(err);
}

int prn_ops_measure(const struct prn_measure_request *request, struct prn_ops_graph *const *graphs,
                    struct prn_profile *profile, struct prony_error *err)
{
    int64_t start_ns = prn_clock_ns();
    for (size_t i = 0; i < profile->n_results; i++) {
        struct prn_result *result = &profile->results[i];
        if (result->error_code != 0 || result->n_samples == 0)
            continue;
        struct prn_ops *ops = PRN_ARENA_NEW(&profile->arena, struct prn_ops);
        if (!ops)
            return prn_fail_memory(err);
        struct profiling p = {.request = request,
                              .graph = graphs[result->point],
                              .profile = profile,
                              .tracing = {.fd = -1},
                              .start_ns = start_ns};
        struct prony_error reason = {0};
        bool cancelled = request->cancelled && *request->cancelled;
        tell(&p, result);
        ops->baseline = -1;
        int code = cancelled ? PRONY_ECANCELED
                             : profile_one(&p, &request->backends[i], result->point, ops, &reason);
        if (code < 0 && (code = keep_failure(profile, ops, code, &reason, err)) < 0)
            return code;
        prn_ops_rates(ops);
        result->ops = ops;
    }
    return 0;
}

bool prn_ops_timed(const struct prn_ops *ops, const struct prn_ops_row *row)
{
    bool resolved = row->flops_nodes > 0 && row->flops_ns / (double)row->flops_nodes >=
                                                PRN_OPS_RESOLVED * ops->resolution_ns;
    /* Averages have no interval; they are good enough when they are of many runs. */
    bool averaged = isnan(row->ns.high) && ops->runs >= PRN_OPS_AVERAGED;
    bool precise =
        averaged || row->ns.high - row->ns.estimate <= PRN_OPS_PRECISE * row->ns.estimate;
    return resolved && precise;
}

double prn_ops_rate(const struct prn_ops *ops, const struct prn_ops_row *row)
{
    return prn_ops_timed(ops, row) && row->flops > 0 ? row->flops * 1e9 / row->flops_ns : NAN;
}

void prn_ops_rates(struct prn_ops *ops)
{
    for (size_t i = 0; i < ops->n_operators; i++)
        ops->operators[i].flop_per_s = prn_ops_rate(ops, &ops->operators[i]);
    for (size_t i = 0; i < ops->n_nodes; i++)
        ops->nodes[i].flop_per_s = prn_ops_rate(ops, &ops->nodes[i]);
}
