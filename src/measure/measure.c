/* The measuring engine: launches, warm-up, interleaved blocks, and when to stop. */
#include "measure/measure.h"

#include "base/clock.h"
#include "base/random.h"
#include "measure/groups.h"
#include "measure/launch.h"
#include "measure/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS_PER_LAUNCH 8
#define BLOCK_RUNS 10       /* at least, time permitting */
#define BLOCK_RUNS_MAX 2048 /* at most, so that a fast model doesn't fill the report */
#define BLOCK_NS 20e6       /* at least */
#define BLOCK_REDOS 3
#define REDO_SHARE 0.25     /* of the time allowed, at most, goes to blocks that are redone */
#define SLICE_NS 1000000000 /* after which a block is continued by another command */
#define WINDOW_NS 5000000   /* of warm-up */
#define WINDOWS_MAX 10
#define WINDOWS_AGREE 3
#define WARM_UP_SHARE 0.2 /* of the time that a row is allowed, at most, in one launch */
#define WINDOW_TOLERANCE 1.10
#define REWARM_NS 3e6       /* after a stop: caches and threads come back */
#define REWARM_RUN_NS 1e9   /* a run this long hardly notices */
#define MEASURING_SHARE 0.7 /* of the time allowed; the rest goes to loading and warm-up */
#define SAMPLES_SHARE 1.34  /* of what bringing a launch up took is spent on samples, at least */
#define REWARM_SHARE 0.25   /* of the time of the samples, at most */
#define RUNTIME_BYTES 1e8   /* that a runtime takes beside the model, before one has run */

/* One result while it is measured: a backend at a point. */
struct runner {
    const struct prn_spec *spec;
    struct prn_result *result;
    struct prn_executor *executor; /* of the present launch; NULL between launches */
    struct prn_sample *samples;
    size_t n_samples, capacity;
    struct prn_launch *launches;
    size_t n_launches;
    double run_ns;     /* expected time of one run */
    size_t block_runs; /* timed runs in a block */
    size_t rewarm_runs;
    struct prn_watch watch;
    int64_t repeats_left; /* with a fixed number of repeats; -1 otherwise */
    size_t launch_repeats_left;
    bool resumed; /* has samples of an earlier run */
    bool failed;
    bool checked; /* its outputs were compared, in this process */
};

/* A model at the sizes of a sweep. */
struct point {
    /* outputs that those of other backends are compared with */
    struct prn_place *reference;
    size_t n_reference;
    int reference_fd;
    double scale; /* of its inputs; 0: not known yet */
};

struct engine {
    const struct prn_measure_request *request;
    struct prn_profile *profile;
    const struct prn_settings *settings;
    struct runner *runners;
    size_t n_runners;
    struct point *points;
    size_t n_points;
    bool *done; /* cohorts that are known well enough, or as well as was asked for */
    size_t n_cohorts;
    /* those that are measured in this round, in the order of the results */
    struct prn_group_row *rows;
    struct runner **row_runners;
    size_t n_rows;
    /* those of them that are alive at present */
    struct runner **members;
    size_t n_members;
    size_t *order; /* of the members */
    struct prn_random random;
    struct prn_canary canary;
    int64_t start_ns;
    int64_t tell_ns;   /* no progress before */
    int64_t redo_ns;   /* spent on blocks that were redone */
    double bring_up_s; /* what the last launch took until it measured, */
    double group_up_s; /* and its last group */
    int64_t launches_min, launches_max;
    int64_t launches_left; /* of the least number, after those that are there already */
    double max_time_s;     /* for all points together */
    int64_t memory_bytes;
    int32_t block; /* next number */
    bool interrupted;
    int refused; /* 0, or why measuring can't go on, with its text in `fault` */
    struct prony_error fault;
    int64_t *scratch; /* samples of one command */
};

static double elapsed_s(const struct engine *e)
{
    return (double)(prn_clock_ns() - e->start_ns) * 1e-9;
}

static bool time_is_up(const struct engine *e)
{
    return elapsed_s(e) >= e->max_time_s;
}

static bool cancelled(struct engine *e)
{
    e->interrupted |= e->request->cancelled && *e->request->cancelled;
    return e->interrupted || e->refused;
}

/* Launches that gave samples. */
static int64_t useful_launches(const struct runner *r)
{
    int64_t n = 0;
    for (size_t i = 0; i < r->n_samples; i++)
        n += i == 0 || r->samples[i].launch != r->samples[i - 1].launch;
    return n;
}

static void tell(struct engine *e, const struct runner *r, const char *phase)
{
    int64_t now_ns = prn_clock_ns();
    if (!e->request->progress || now_ns < e->tell_ns)
        return;
    struct prn_interval i = prn_median_interval(r->samples, r->n_samples);
    struct prn_progress p = {
        .backend = r->result->name,
        .point = prn_result_point(e->profile, r->result)->label,
        .phase = phase,
        .row = (size_t)(r - e->runners) + 1,
        .rows = e->n_runners,
        .launch = (int64_t)r->n_launches,
        .launches = e->launches_min,
        .samples = (int64_t)r->n_samples,
        .median_ns = i.estimate,
        .half_width = useful_launches(r) < PRN_UNITS_MIN ? NAN : (i.high - i.low) / 2 / i.estimate,
        .elapsed_s = elapsed_s(e),
        .allowed_s = e->max_time_s,
    };
    e->request->progress(e->request->context, &p);
    /* With many samples the interval takes its time; measuring comes first. */
    e->tell_ns = now_ns + 10 * (prn_clock_ns() - now_ns);
}

/* A failed backend keeps what it has measured and takes no further part. */
static void fail(struct engine *e, struct runner *r, int code, const struct prony_error *err)
{
    if (code == PRONY_ECANCELED) {
        e->interrupted = true;
    } else {
        r->failed = true;
        r->result->error_code = code;
        r->result->error = prn_arena_strdup(&e->profile->arena, err->text);
        if (!r->result->error)
            r->result->error = prony_error_text(code);
    }
    prn_executor_free(r->executor);
    r->executor = NULL;
}

static int keep_samples(struct runner *r, const int64_t *ns, size_t n, int32_t block,
                        struct prony_error *err)
{
    if (r->n_samples + n > r->capacity) {
        size_t capacity = (r->n_samples + n) * 3 / 2;
        struct prn_sample *samples = realloc(r->samples, capacity * sizeof *samples);
        if (!samples)
            return prn_fail_memory(err);
        r->samples = samples;
        r->capacity = capacity;
    }
    for (size_t i = 0; i < n; i++)
        r->samples[r->n_samples++] = (struct prn_sample){ns[i], (int32_t)r->n_launches - 1, block};
    return 0;
}

static double median_of(const int64_t *ns, size_t n)
{
    double *values = calloc(n, sizeof *values);
    if (!values)
        return NAN;
    for (size_t i = 0; i < n; i++)
        values[i] = (double)ns[i];
    prn_stats_sort(values, n);
    double median = prn_stats_median(values, n);
    free(values);
    return median;
}

static size_t runs_within(double ns, double run_ns, size_t least, size_t most)
{
    double runs = ceil(ns / fmax(run_ns, 1));
    return runs < (double)least ? least : runs > (double)most ? most : (size_t)runs;
}

/* Rows that share the time: all of this round, in whichever group, but those that failed. */
static size_t live_rows(const struct engine *e)
{
    size_t live = 0;
    for (size_t i = 0; i < e->n_rows; i++)
        live += !e->row_runners[i]->failed;
    return live > 0 ? live : 1;
}

static bool agree(const double *times_ns, int n)
{
    double low = times_ns[0];
    double high = times_ns[0];
    for (int i = 1; i < n; i++) {
        low = fmin(low, times_ns[i]);
        high = fmax(high, times_ns[i]);
    }
    return high <= low * WINDOW_TOLERANCE;
}

/* Runs until three windows in a row agree, or a share of the time is used up: a model so slow that
 * windows eat the time has settled when two agree, of which the first run may be one. */
static int warm_up(struct engine *e, struct runner *r, struct prn_launch *launch,
                   struct prony_error *err)
{
    double windows[1 + WINDOWS_MAX] = {(double)launch->first_run_ns};
    const int64_t start_ns = prn_clock_ns();
    const double most_ns = WARM_UP_SHARE * e->max_time_s * 1e9 / (double)live_rows(e);
    for (int i = 1; i <= WINDOWS_MAX && !launch->settled; i++) {
        size_t n = 0;
        int code = prn_executor_run(r->executor, 0, BLOCK_RUNS_MAX, WINDOW_NS, e->scratch, &n, err);
        if (code < 0)
            return code;
        launch->warmup_runs += (int32_t)n;
        windows[i] = r->run_ns = median_of(e->scratch, n);
        bool last = (double)(prn_clock_ns() - start_ns) + r->run_ns > most_ns;
        launch->settled =
            (i >= WINDOWS_AGREE && agree(&windows[i + 1 - WINDOWS_AGREE], WINDOWS_AGREE)) ||
            (last && agree(&windows[i - 1], 2));
        if (last)
            break;
    }
    return 0;
}

/* A fixed number of warm-ups was asked for: no detection. */
static int warm_up_fixed(struct engine *e, struct runner *r, struct prn_launch *launch,
                         struct prony_error *err)
{
    int64_t left = e->settings->warmups;
    launch->settled = true;
    while (left > 0) {
        size_t n = 0;
        size_t now = left < BLOCK_RUNS_MAX ? (size_t)left : BLOCK_RUNS_MAX;
        int code = prn_executor_run(r->executor, 0, now, SLICE_NS, e->scratch, &n, err);
        if (code < 0)
            return code;
        r->run_ns = median_of(e->scratch, n);
        launch->warmup_runs += (int32_t)n;
        left -= (int64_t)n;
    }
    return 0;
}

/* How large the inputs of a point are. */
static double scale_of(struct engine *e, size_t index)
{
    struct point *point = &e->points[index];
    const struct prn_inputs *inputs = &e->request->inputs[index];
    if (point->scale == 0)
        point->scale = prn_inputs_scale(inputs->fd, inputs->places, inputs->n);
    return point->scale;
}

/* Compares outputs of a point with others; `ret_differing` is how many differ by more than
 * rounding. */
static int hold_against(struct engine *e, size_t point, const struct prn_outputs *reference,
                        const struct prn_outputs *outputs, struct prn_output_check **ret_checks,
                        int64_t *ret_differing, struct prony_error *err)
{
    const size_t n = outputs->n;
    int code = prn_outputs_compare(reference->fd, reference->places, outputs->fd, outputs->places,
                                   n, &e->profile->arena, ret_checks, err);
    if (code < 0)
        return code;
    prn_outputs_allow(*ret_checks, outputs->places, n, scale_of(e, point),
                      e->profile->models[point % e->profile->n_models].quantised);
    *ret_differing = 0;
    for (size_t i = 0; i < n; i++)
        *ret_differing += prn_output_differs(&(*ret_checks)[i], e->settings->tolerance);
    return 0;
}

/* Compares what a model gives with what the first one gives at the same sizes. */
static int check_model(struct engine *e, size_t index, struct prony_error *err)
{
    const size_t n_models = e->profile->n_models;
    const struct point *own = &e->points[index];
    const struct point *first = &e->points[index - index % n_models];
    struct prn_point *point = &e->profile->points[index];
    if (index % n_models == 0 || !own->reference || !first->reference || point->outputs)
        return 0;
    struct prn_outputs a = {first->reference_fd, first->reference, first->n_reference};
    struct prn_outputs b = {own->reference_fd, own->reference, own->n_reference};
    int code = prn_outputs_match(&a, &b, &e->profile->arena, err);
    if (code == 0)
        code = hold_against(e, index, &a, &b, &point->outputs, &point->outputs_differing, err);
    point->n_outputs = code == 0 ? b.n : 0;
    return code;
}

static int check_outputs(struct engine *e, struct runner *r, struct prony_error *err)
{
    struct point *point = &e->points[r->result->point];
    struct prn_place *outputs;
    size_t n;
    int fd;
    int code = prn_executor_outputs(r->executor, 0, &e->profile->arena, &outputs, &n, &fd, err);
    if (code < 0)
        return code;
    r->checked = true;
    if (!point->reference) {
        point->reference = outputs;
        point->n_reference = n;
        point->reference_fd = fd;
        return 0;
    }
    if (n != point->n_reference)
        code = prn_fail(err, PRONY_ERUNTIME, "it gives %zu outputs, the reference %zu", n,
                        point->n_reference);
    int64_t differing = 0;
    const struct prn_outputs first = {point->reference_fd, point->reference, n};
    const struct prn_outputs own = {fd, outputs, n};
    if (code == 0)
        code =
            hold_against(e, r->result->point, &first, &own, &r->result->outputs, &differing, err);
    close(fd);
    r->result->n_outputs = code == 0 ? n : 0;
    r->result->flags &= ~(unsigned)PRN_FLAG_MISMATCH;
    r->result->flags |= differing > 0 ? PRN_FLAG_MISMATCH : 0;
    return code;
}

static const char *kept(struct prn_profile *profile, const char *text)
{
    const char *copy = prn_arena_strdup(&profile->arena, text);
    return copy ? copy : "";
}

/* Samples of two versions of a runtime don't belong into one result. */
static int note_runtime(struct engine *e, struct runner *r, struct prony_error *err)
{
    struct prn_result *result = r->result;
    const char *version = prn_executor_version(r->executor);
    if (result->runtime_version && strcmp(result->runtime_version, version) != 0) {
        int code = prn_fail(err, PRONY_EUNSUPPORTED,
                            "backend '%s' was measured with %s, but now runs %s; start over",
                            result->name, result->runtime_version, version);
        if (r->resumed) {
            e->refused = code;
            e->fault = *err;
        }
        return code;
    }
    if (!result->runtime_version) {
        result->runtime_version = kept(e->profile, version);
        result->runtime_library = kept(e->profile, prn_executor_library(r->executor));
    }
    if (!e->profile->environment.sandbox[0])
        e->profile->environment.sandbox = kept(e->profile, prn_executor_sandbox(r->executor));
    return 0;
}

/* Starts a process, loads the model, runs it for the first time. */
static int bring_up(struct engine *e, struct runner *r, struct prn_launch *launch,
                    struct prony_error *err)
{
    const struct prn_launch_config config = {.request = e->request,
                                             .backend = r->spec,
                                             .point = r->result->point,
                                             .memory_bytes = e->memory_bytes};
    tell(e, r, "loading");
    int code = prn_launch_open(&config, &r->executor, err);
    if (code == 0)
        code = note_runtime(e, r, err);
    return code < 0 ? code : prn_launch_load(&config, r->executor, launch, err);
}

static void launch_one(struct engine *e, struct runner *r)
{
    struct prony_error err = {0};
    struct prn_launch *launches = realloc(r->launches, (r->n_launches + 1) * sizeof *launches);
    if (!launches) {
        fail(e, r, prn_fail_memory(&err), &err);
        return;
    }
    r->launches = launches;
    struct prn_launch *launch = &launches[r->n_launches++];
    *launch = (struct prn_launch){-1, -1, -1, -1, 0, false};
    int code = bring_up(e, r, launch, &err);
    if (code == 0) {
        r->run_ns = (double)launch->first_run_ns;
        tell(e, r, "warming up");
        code = e->settings->warmups >= 0 ? warm_up_fixed(e, r, launch, &err)
                                         : warm_up(e, r, launch, &err);
    }
    if (code < 0) {
        fail(e, r, code, &err);
        return;
    }
    if (!launch->settled)
        r->result->flags |= PRN_FLAG_UNSTABLE;
    prn_executor_park(r->executor);
}

static size_t divided_up(size_t n, size_t by)
{
    return n / by + (n % by != 0);
}

/* This launch's share of a fixed number of repeats. */
static size_t launch_repeats(const struct engine *e, const struct runner *r)
{
    /* A result that is gone on with may have had launches that gave it little. */
    int64_t launches_left = e->launches_max - (int64_t)r->n_launches + 1;
    return divided_up((size_t)r->repeats_left, launches_left > 1 ? (size_t)launches_left : 1);
}

/* Time for the samples of one row in this launch: what is left of the least number of launches fits
 * into the time, but a launch that took long to bring up measures for longer than that, or more
 * than half of the time would go to loading and warming up. */
static double sample_share_ns(const struct engine *e)
{
    double planned = e->max_time_s * MEASURING_SHARE / (double)live_rows(e);
    double least = SAMPLES_SHARE * e->group_up_s / (double)e->n_members;
    return fmax(planned / (double)e->launches_left, least) * 1e9;
}

/* Blocks that a row can afford: each has a run at least, and waking up takes but a part of it. */
static size_t blocks_of(const struct runner *r, double share_ns)
{
    double runs = floor(share_ns / fmax(r->run_ns, 1));
    double blocks = r->rewarm_runs > 0 ? floor(runs * REWARM_SHARE / (double)r->rewarm_runs) : runs;
    return blocks >= BLOCKS_PER_LAUNCH ? BLOCKS_PER_LAUNCH : blocks < 1 ? 1 : (size_t)blocks;
}

/* How many blocks there are, and how many runs make one. */
static size_t plan_blocks(struct engine *e)
{
    size_t blocks = BLOCKS_PER_LAUNCH;
    const double share_ns = sample_share_ns(e);
    for (size_t i = 0; i < e->n_members; i++) {
        struct runner *r = e->members[i];
        r->rewarm_runs =
            r->run_ns < REWARM_RUN_NS ? runs_within(REWARM_NS, r->run_ns, 1, BLOCK_RUNS_MAX) : 0;
        size_t own = r->executor ? blocks_of(r, share_ns) : blocks;
        blocks = own < blocks ? own : blocks;
    }
    for (size_t i = 0; i < e->n_members; i++) {
        struct runner *r = e->members[i];
        r->block_runs = runs_within(BLOCK_NS, r->run_ns, BLOCK_RUNS, BLOCK_RUNS_MAX);
        double affordable = floor(share_ns / (double)blocks / fmax(r->run_ns, 1));
        if (affordable < (double)r->block_runs)
            r->block_runs = affordable < 1 ? 1 : (size_t)affordable;
        /* A fixed number of repeats may need more blocks than usual. */
        r->launch_repeats_left = r->executor && r->repeats_left > 0 ? launch_repeats(e, r) : 0;
        size_t needed = divided_up(r->launch_repeats_left, BLOCK_RUNS_MAX);
        blocks = needed > blocks ? needed : blocks;
    }
    return blocks;
}

/* With a fixed number of repeats, each launch gets its share, spread over the blocks. */
static size_t runs_now(const struct runner *r, size_t blocks_left)
{
    if (r->repeats_left < 0)
        return r->block_runs;
    return divided_up(r->launch_repeats_left, blocks_left);
}

/* Runs a block. A long one is cut into slices, so that the limit on one command is a limit on a
 * run, not on how many were asked for, and so that it ends when time is up. */
static int run_sliced(struct engine *e, struct runner *r, size_t runs, size_t *ret_n,
                      struct prony_error *err)
{
    size_t n = 0;
    while (n < runs && (n == 0 || !time_is_up(e))) {
        size_t now;
        int code = prn_executor_run(r->executor, n == 0 ? r->rewarm_runs : 0, runs - n, SLICE_NS,
                                    e->scratch + n, &now, err);
        if (code < 0)
            return code;
        n += now;
    }
    *ret_n = n;
    return 0;
}

/* One block between two canaries; says whether something else ran meanwhile. */
static int try_block(struct engine *e, struct runner *r, size_t runs, size_t *ret_n,
                     bool *ret_disturbed, struct prony_error *err)
{
    prn_watch_begin(&r->watch, &e->canary, r->executor);
    int code = run_sliced(e, r, runs, ret_n, err);
    *ret_disturbed = prn_watch_end(&r->watch, &e->canary, r->executor);
    return code;
}

static void run_block(struct engine *e, struct runner *r, size_t runs)
{
    struct prony_error err = {0};
    int code = 0;
    size_t n = 0;
    for (int attempt = 0; runs > 0; attempt++) {
        bool disturbed = false;
        int64_t start_ns = prn_clock_ns();
        code = try_block(e, r, runs, &n, &disturbed, &err);
        if (code < 0 || !disturbed)
            break;
        bool spent = (double)e->redo_ns * 1e-9 >= REDO_SHARE * e->max_time_s;
        if (attempt == BLOCK_REDOS || spent || time_is_up(e) || cancelled(e)) {
            r->result->flags |= PRN_FLAG_NOISY;
            break;
        }
        r->result->redone_blocks++;
        e->redo_ns += prn_clock_ns() - start_ns;
    }
    if (code == 0)
        code = keep_samples(r, e->scratch, n, e->block, &err);
    if (r->repeats_left >= 0) {
        r->repeats_left -= (int64_t)n;
        r->launch_repeats_left -= n;
    }
    if (code < 0)
        fail(e, r, code, &err);
    else
        tell(e, r, "measuring");
}

static void run_blocks(struct engine *e)
{
    size_t blocks = plan_blocks(e);
    for (size_t b = 0; b < blocks; b++) {
        prn_random_shuffle(&e->random, e->order, e->n_members);
        for (size_t i = 0; i < e->n_members && !cancelled(e); i++) {
            struct runner *r = e->members[e->order[i]];
            if (r->executor)
                run_block(e, r, runs_now(r, blocks - b));
        }
        e->block++;
        if (cancelled(e) || time_is_up(e))
            break;
    }
}

static size_t cohort_of(const struct engine *e, const struct runner *r)
{
    return prn_result_cohort(e->profile, r->result);
}

static bool has_company(const struct engine *e, const struct runner *r)
{
    for (size_t i = 0; i < e->n_runners; i++)
        if (&e->runners[i] != r && cohort_of(e, &e->runners[i]) == cohort_of(e, r))
            return true;
    return false;
}

/* The reference is the first of a point that gives outputs, or the one that was asked for. */
static bool may_be_reference(const struct engine *e, const struct runner *r)
{
    const char *wanted = e->settings->reference;
    return !wanted || strcmp(r->result->name, wanted) == 0;
}

static void check_outputs_once(struct engine *e, struct runner *r)
{
    struct prony_error err = {0};
    if (!r->executor || r->checked || !has_company(e, r))
        return;
    prn_executor_unpark(r->executor);
    int code = check_outputs(e, r, &err);
    if (code < 0)
        fail(e, r, code, &err);
    else
        prn_executor_park(r->executor);
}

/* References first, then the others in the order in which they were asked for. Without the
 * reference that was asked for there is nothing to compare with. */
static void check_all_outputs(struct engine *e)
{
    for (size_t i = 0; i < e->n_members && !cancelled(e); i++)
        if (may_be_reference(e, e->members[i]))
            check_outputs_once(e, e->members[i]);
    for (size_t i = 0; i < e->n_members && !cancelled(e); i++)
        if (e->points[e->members[i]->result->point].reference)
            check_outputs_once(e, e->members[i]);
    for (size_t i = 0; i < e->n_points && !cancelled(e); i++) {
        struct prony_error err = {0};
        if (check_model(e, i, &err) < 0) {
            e->refused = err.code;
            e->fault = err;
        }
    }
}

/* One launch of all members of the group. */
static void launch_group(struct engine *e)
{
    double start_s = elapsed_s(e);
    /* In random order: who starts first was seen to stay slower by half a percent. */
    prn_random_shuffle(&e->random, e->order, e->n_members);
    for (size_t i = 0; i < e->n_members && !cancelled(e); i++)
        launch_one(e, e->members[e->order[i]]);
    check_all_outputs(e);
    e->group_up_s = elapsed_s(e) - start_s;
    e->bring_up_s += e->group_up_s;
    if (!cancelled(e))
        run_blocks(e);
    for (size_t i = 0; i < e->n_members; i++) {
        struct runner *r = e->members[i];
        if (r->executor)
            r->launches[r->n_launches - 1].peak_bytes = prn_executor_peak(r->executor);
        prn_executor_free(r->executor);
        r->executor = NULL;
    }
}

/* What an executor of this row will take: what one took, or a guess from the model's size. */
static int64_t expected_bytes(const struct engine *e, const struct runner *r)
{
    int64_t most = -1;
    for (size_t i = 0; i < r->n_launches; i++)
        most = r->launches[i].peak_bytes > most ? r->launches[i].peak_bytes : most;
    const struct prn_inputs *inputs = &e->request->inputs[r->result->point];
    double guess = RUNTIME_BYTES + fmax(0, (double)prn_result_model(e->profile, r->result)->bytes);
    for (size_t i = 0; i < inputs->n; i++)
        guess += (double)inputs->places[i].bytes;
    return most >= 0 ? most : (int64_t)guess;
}

/* Who is measured in this round, and in how many groups. */
static size_t plan_round(struct engine *e)
{
    e->n_rows = 0;
    for (size_t i = 0; i < e->n_runners; i++) {
        struct runner *r = &e->runners[i];
        if (r->failed || r->repeats_left == 0 || e->done[cohort_of(e, r)])
            continue;
        e->rows[e->n_rows] =
            (struct prn_group_row){.point = cohort_of(e, r), .bytes = expected_bytes(e, r)};
        e->row_runners[e->n_rows++] = r;
    }
    int64_t memory_bytes = prn_launch_memory();
    return prn_groups_plan(e->rows, e->n_rows, memory_bytes > 0 ? memory_bytes : -1);
}

/* One launch of every row. */
static int launch_all(struct engine *e, size_t n_groups, struct prony_error *err)
{
    size_t end = 0;
    e->bring_up_s = 0;
    for (size_t group = 0; group < n_groups && !cancelled(e); group++) {
        size_t first = end;
        while (end < e->n_rows && e->rows[end].group == group)
            end++;
        e->members = e->row_runners + first;
        e->n_members = end - first;
        launch_group(e);
    }
    if (n_groups < 2)
        return 0;
    return prn_profile_note(e->profile,
                            "not all rows could be loaded at the same time, so they were measured "
                            "in groups; only rows of one group took turns block by block",
                            err);
}

static bool narrow(struct prn_interval i, double precision)
{
    return (i.high - i.low) / 2 <= precision * i.estimate;
}

/* A comparison is known when it is narrow and has a verdict, or so narrow that it never will. Rows
 * that had no block in common can't be compared, and more launches won't change that. */
static bool decided(const struct engine *e, const struct runner *r, const struct runner *best)
{
    const struct prn_settings *s = e->settings;
    struct prn_interval ratio =
        prn_ratio_interval(r->samples, r->n_samples, best->samples, best->n_samples);
    if (isnan(ratio.estimate))
        return true;
    bool verdict = prn_verdict_of(ratio, s->smallest_difference) != PRN_VERDICT_UNSURE;
    return narrow(ratio, s->precision) && (verdict || narrow(ratio, s->smallest_difference));
}

/* The same backend with the first model; NULL: it is the first model, or that failed. */
static const struct runner *first_runner(const struct engine *e, const struct runner *r)
{
    const struct prn_result *first = prn_result_first_model(e->profile, r->result);
    const struct runner *runner = first ? &e->runners[first - e->profile->results] : NULL;
    return runner && !runner->failed ? runner : NULL;
}

/* Whether every row of a cohort is known well enough, and every comparison with the best of them
 * and with the first model. */
static bool precise(const struct engine *e, size_t cohort)
{
    const struct runner *best = NULL;
    double best_ns = INFINITY;
    for (size_t i = 0; i < e->n_runners; i++) {
        const struct runner *r = &e->runners[i];
        if (r->failed || cohort_of(e, r) != cohort)
            continue;
        struct prn_interval time = prn_median_interval(r->samples, r->n_samples);
        if (r->n_samples < PRN_SAMPLES_MIN || !narrow(time, e->settings->precision))
            return false;
        if (time.estimate < best_ns) {
            best = r;
            best_ns = time.estimate;
        }
    }
    for (size_t i = 0; i < e->n_runners; i++) {
        const struct runner *r = &e->runners[i];
        if (r->failed || cohort_of(e, r) != cohort)
            continue;
        const struct runner *first = first_runner(e, r);
        if ((r != best && !decided(e, r, best)) || (first && !decided(e, r, first)))
            return false;
    }
    return true;
}

/* Whether nothing is left to measure of a cohort. */
static bool finished(const struct engine *e, size_t cohort)
{
    int64_t launches = INT64_MAX;
    bool repeated = true;
    for (size_t i = 0; i < e->n_runners; i++) {
        const struct runner *r = &e->runners[i];
        if (r->failed || cohort_of(e, r) != cohort)
            continue;
        int64_t own = useful_launches(r);
        launches = own < launches ? own : launches;
        repeated = repeated && r->repeats_left == 0;
    }
    if (launches == INT64_MAX) /* nobody is left */
        return true;
    if (e->settings->repeats > 0)
        return repeated;
    return launches >= e->launches_max || (launches >= e->launches_min && precise(e, cohort));
}

/* Says which cohorts are done; false when all are. */
static bool more_to_do(struct engine *e)
{
    bool more = false;
    for (size_t i = 0; i < e->n_cohorts; i++) {
        e->done[i] = e->done[i] || finished(e, i);
        more = more || !e->done[i];
    }
    return more;
}

/* Flags what falls short. */
static void judge(const struct engine *e, const struct runner *r, bool interrupted)
{
    struct prn_result *result = r->result;
    struct prn_interval interval = prn_median_interval(r->samples, r->n_samples);
    if (r->failed)
        return;
    bool known = useful_launches(r) >= PRN_UNITS_MIN && narrow(interval, e->settings->precision);
    if (e->settings->repeats == 0 && !known)
        result->flags |= PRN_FLAG_IMPRECISE;
    if (interrupted && !e->done[cohort_of(e, r)]) {
        result->flags |= PRN_FLAG_INTERRUPTED;
        if (r->n_samples == 0) {
            result->error_code = PRONY_ECANCELED;
            result->error = "interrupted before anything was measured";
        }
    }
}

/* Shows what there is so far to whoever keeps it, as if measuring ended here. */
static int save_progress(struct engine *e, struct prony_error *err)
{
    if (!e->request->checkpoint)
        return 0;
    for (size_t i = 0; i < e->n_runners; i++) {
        struct runner *r = &e->runners[i];
        r->result->samples = r->samples;
        r->result->n_samples = r->n_samples;
        r->result->launches = r->launches;
        r->result->n_launches = r->n_launches;
        judge(e, r, true);
    }
    e->profile->canary_best_ns = e->canary.best_ns;
    int code = prn_summarise(e->profile, err);
    if (code == 0)
        e->request->checkpoint(e->request->context, e->profile);
    for (size_t i = 0; i < e->n_runners; i++) {
        struct prn_result *result = e->runners[i].result;
        if (e->runners[i].failed)
            continue;
        result->flags &= ~(unsigned)(PRN_FLAG_IMPRECISE | PRN_FLAG_INTERRUPTED);
        result->error_code = 0;
        result->error = NULL;
    }
    return code;
}

static int measure_all(struct engine *e, struct prony_error *err)
{
    bool more = more_to_do(e);
    /* A launch that would have little time to measure isn't begun, unless its runs were counted. */
    const double least = e->settings->repeats > 0 ? 1 : 1 + SAMPLES_SHARE;
    while (more && !cancelled(e) && elapsed_s(e) + least * e->bring_up_s < e->max_time_s) {
        int code = launch_all(e, plan_round(e), err);
        if (e->refused)
            return prn_fail(err, e->refused, "%s", e->fault.text);
        more = more_to_do(e);
        if (code == 0 && more && !cancelled(e))
            code = save_progress(e, err);
        if (code < 0)
            return code;
    }
    return 0;
}

/* Moves what was measured into the profile. */
static int hand_over(struct engine *e, struct runner *r, struct prony_error *err)
{
    struct prn_arena *arena = &e->profile->arena;
    struct prn_result *result = r->result;
    result->samples = PRN_ARENA_ARRAY(arena, r->n_samples + 1, struct prn_sample);
    result->launches = PRN_ARENA_ARRAY(arena, r->n_launches + 1, struct prn_launch);
    if (!result->samples || !result->launches)
        return prn_fail_memory(err);
    if (r->n_samples)
        memcpy(result->samples, r->samples, r->n_samples * sizeof *r->samples);
    if (r->n_launches)
        memcpy(result->launches, r->launches, r->n_launches * sizeof *r->launches);
    result->n_samples = r->n_samples;
    result->n_launches = r->n_launches;
    judge(e, r, e->interrupted);
    return 0;
}

/* A runner takes copies of what its result holds from an earlier run, and goes on from there. */
static int begin_runner(struct engine *e, struct runner *r, struct prony_error *err)
{
    const struct prn_result *result = r->result;
    const struct prn_settings *s = e->settings;
    r->watch = prn_watch_init(e->profile->environment.cores);
    r->resumed = result->n_launches > 0;
    r->failed = result->error_code != 0;
    r->repeats_left = s->repeats > 0 ? s->repeats - (int64_t)result->n_samples : -1;
    r->repeats_left = s->repeats > 0 && r->repeats_left < 0 ? 0 : r->repeats_left;
    if (result->n_samples > 0) {
        r->samples = calloc(result->n_samples, sizeof *r->samples);
        if (!r->samples)
            return prn_fail_memory(err);
        memcpy(r->samples, result->samples, result->n_samples * sizeof *r->samples);
        r->n_samples = r->capacity = result->n_samples;
        int32_t next = r->samples[r->n_samples - 1].block + 1;
        e->block = next > e->block ? next : e->block;
    }
    if (result->n_launches > 0) {
        r->launches = calloc(result->n_launches, sizeof *r->launches);
        if (!r->launches)
            return prn_fail_memory(err);
        memcpy(r->launches, result->launches, result->n_launches * sizeof *r->launches);
        r->n_launches = result->n_launches;
    }
    return 0;
}

static int measuring_begin(struct engine *e, struct prony_error *err)
{
    const struct prn_settings *s = e->settings;
    e->launches_min = s->launches > 0 ? s->launches : PRN_LAUNCHES_DEFAULT;
    if (s->repeats > 0 && s->repeats < e->launches_min)
        e->launches_min = s->repeats;
    e->launches_max =
        s->launches > 0 || s->repeats > 0 ? e->launches_min : e->launches_min * PRN_LAUNCHES_FACTOR;
    prn_random_seed(&e->random, s->seed);
    e->runners = calloc(e->n_runners + 1, sizeof *e->runners);
    e->points = calloc(e->n_points + 1, sizeof *e->points);
    e->done = calloc(e->n_cohorts + 1, sizeof *e->done);
    e->rows = calloc(e->n_runners + 1, sizeof *e->rows);
    e->row_runners = calloc(e->n_runners + 1, sizeof *e->row_runners);
    e->order = calloc(e->n_runners + 1, sizeof *e->order);
    e->scratch = calloc(PRN_EXECUTOR_SAMPLES_MAX, sizeof *e->scratch);
    if (!e->runners || !e->points || !e->done || !e->rows || !e->row_runners || !e->order ||
        !e->scratch)
        return prn_fail_memory(err);
    for (size_t i = 0; i < e->n_points; i++)
        e->points[i].reference_fd = -1;
    e->launches_left = 1;
    for (size_t i = 0; i < e->n_runners; i++) {
        e->runners[i].spec = &e->request->backends[i];
        e->runners[i].result = &e->profile->results[i];
        int code = begin_runner(e, &e->runners[i], err);
        if (code < 0)
            return code;
        int64_t left = e->launches_min - (int64_t)e->runners[i].n_launches;
        e->launches_left = left > e->launches_left ? left : e->launches_left;
    }
    return 0;
}

static void measuring_release(struct engine *e)
{
    for (size_t i = 0; e->points && i < e->n_points; i++)
        if (e->points[i].reference_fd >= 0)
            close(e->points[i].reference_fd);
    for (size_t i = 0; e->runners && i < e->n_runners; i++) {
        free(e->runners[i].samples);
        free(e->runners[i].launches);
    }
    free(e->runners);
    free(e->points);
    free(e->done);
    free(e->rows);
    free(e->row_runners);
    free(e->order);
    free(e->scratch);
}

int prn_measure(const struct prn_measure_request *request, struct prn_profile *profile,
                struct prony_error *err)
{
    struct engine e = {
        .request = request,
        .profile = profile,
        .settings = &profile->settings,
        .n_runners = profile->n_results,
        .n_points = profile->n_points,
        .n_cohorts = profile->n_points / profile->n_models,
        .max_time_s = profile->settings.max_time_s * (double)profile->n_points,
        .start_ns = prn_clock_ns(),
        .memory_bytes = prn_launch_memory(),
        .canary = {.best_ns = isfinite(profile->canary_best_ns) ? profile->canary_best_ns : 0},
    };
    int code = measuring_begin(&e, err);
    if (code == 0) {
        profile->timer_ns = prn_clock_cost_ns();
        for (int i = 0; i < 10; i++)
            prn_canary_run(&e.canary);
        code = measure_all(&e, err);
    }
    for (size_t i = 0; code == 0 && i < e.n_runners; i++)
        code = hand_over(&e, &e.runners[i], err);
    profile->canary_best_ns = e.canary.best_ns;
    if (getloadavg(&profile->environment.load_after, 1) != 1)
        profile->environment.load_after = NAN;
    measuring_release(&e);
    return code;
}
