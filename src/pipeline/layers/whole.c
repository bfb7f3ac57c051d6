/* The whole model beside its layers: what it computes, and what it takes with and without fusing
 * across the cuts. */
#include "pipeline/layers/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Threads may add up in another order; nothing else may differ, as long as numbers have more
 * digits than that. */
#define TOLERANCE 1e-5
#define TOLERANCE_HALF 1e-2

/* What a launch takes, in runs: the first, two of warm-up, and two that count. */
#define LAUNCH_RUNS 5

/* All samples are kept, and gone on with at each launch: many launches are for runs that don't have
 * them by the thousand. */
#define LAUNCHES_MAX 32
#define BRIEF_RUN_NS 1000000

struct prn_whole {
    struct prn_layer_bench *b;
    struct prn_bench_model model; /* nothing fused across the cuts */
    struct prn_model_place place; /* as it is */
    struct prn_bench_run reference;
    struct prn_profile *profile;
    struct prn_model_file models[PRN_WHOLE_KINDS];
    struct prn_inputs inputs[PRN_WHOLE_KINDS]; /* twice the same; borrowed */
    size_t n_layers;                           /* to measure */
    int64_t load_ns, run_ns;                   /* what one process took */
    int64_t launches, done;
};

/* ---- What it computes ---- */

static double tolerance_of(int dtype)
{
    return prn_dtype_bits(dtype) >= 32 ? TOLERANCE : TOLERANCE_HALF;
}

/* Compares one output; `*error` grows to its relative error. Whole numbers and other shapes differ
 * or don't. */
static int compare(struct prn_whole *w, const struct prn_bench_run *run, const char *name,
                   double *error, bool *differs, struct prony_error *err)
{
    const struct prn_place *here = NULL;
    const struct prn_place *there = NULL;
    struct prn_output_check *check;
    int code = prn_bench_find(run, name, &here, err);
    if (code == 0)
        code = prn_bench_find(&w->reference, name, &there, err);
    if (code < 0)
        return code;
    if (here->dtype == PRN_DTYPE_UNDEFINED && there->dtype == PRN_DTYPE_UNDEFINED)
        return 0; /* no tensor */
    code = prn_outputs_compare(w->reference.fd, there, run->fd, here, 1, &w->b->arena, &check, err);
    if (code < 0)
        return code;
    double tolerance = fmax(tolerance_of(here->dtype), w->b->measurement->repeatability);
    *differs = *differs || prn_output_differs(check, tolerance);
    *error = fmax(*error, check->same_shape ? check->max_rel : INFINITY);
    return 0;
}

int prn_whole_compare(struct prn_whole *w, const struct prn_layer *layer,
                      const struct prn_bench_run *run, struct prony_error *err)
{
    struct prn_layer_measurement *m = w->b->measurement;
    int code = 0;
    for (size_t i = 0; i < layer->n_results && code == 0; i++)
        code = compare(w, run, layer->results[i]->value.name, &m->difference, &m->mismatch, err);
    return code;
}

/* Keeps the model's outputs; what passes the cuts may be hundreds of megabytes. */
static int find_reference(struct prn_whole *w, struct prony_error *err)
{
    const struct prn_cuts *cuts = w->b->job->cuts;
    const struct prn_layer *whole = &cuts->layers[cuts->n_layers];
    struct prn_bench_run run;
    struct prn_inputs kept;
    int code = prn_bench_run(w->b, w->b->backend, &w->model.file, &w->inputs[0], &run, err);
    if (code < 0)
        return code;
    code = prn_bench_copy(w->b, &run, whole->results, whole->n_results, &kept, err);
    prn_bench_run_release(&run);
    if (code == 0)
        w->reference =
            (struct prn_bench_run){.outputs = kept.places, .n_outputs = kept.n, .fd = kept.fd};
    w->load_ns = run.load_ns;
    w->run_ns = run.run_ns;
    return code;
}

/* The whole against itself, in another process. */
static int find_repeatability(struct prn_whole *w, struct prony_error *err)
{
    const struct prn_cuts *cuts = w->b->job->cuts;
    const struct prn_layer *whole = &cuts->layers[cuts->n_layers];
    struct prn_bench_run again;
    bool differs = false;
    double error = 0;
    int code = prn_bench_run(w->b, w->b->backend, &w->model.file, &w->inputs[0], &again, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < whole->n_results && code == 0; i++)
        code = compare(w, &again, whole->results[i]->value.name, &error, &differs, err);
    w->b->measurement->repeatability = error;
    prn_bench_run_release(&again);
    return code;
}

static double layers_of(const struct prn_whole *w)
{
    return w->n_layers > 1 ? (double)w->n_layers : 1;
}

/* One for each layer or two, as far as all together take no longer than all layers, which have the
 * same work to do: a machine whose speed comes and goes is then met alike by both. */
static int64_t plan_launches(const struct prn_whole *w)
{
    const struct prn_settings *s = &w->b->job->settings;
    int64_t least = s->launches > 0 ? s->launches : PRN_LAUNCHES_DEFAULT;
    if (s->repeats > 0 || s->launches > 0)
        return s->repeats > 0 && s->repeats < least ? s->repeats : least;
    if (w->run_ns < BRIEF_RUN_NS)
        return least;
    double one_s = 1e-9 * PRN_WHOLE_KINDS * (double)(w->load_ns + LAUNCH_RUNS * w->run_ns);
    double affordable = floor(s->max_time_s * layers_of(w) / one_s);
    double wanted = fmin((double)w->n_layers, LAUNCHES_MAX);
    return (int64_t)fmax((double)least, fmin(affordable, wanted));
}

static int whole_begin(struct prn_whole *w, struct prony_error *err)
{
    static const char *const labels[PRN_WHOLE_KINDS] = {"whole, nothing fused across cuts",
                                                        "whole"};
    const struct prn_layer_job *job = w->b->job;
    bool external = job->model->n_external_files > 0;
    int code = prn_bench_write(w->b, job->cuts->n_layers, &w->model, err);
    if (code == 0)
        code = prn_model_locate(job->model->path, external, &w->place, err);
    w->models[PRN_WHOLE_CUT] = w->model.file;
    w->models[PRN_WHOLE_FUSED] =
        (struct prn_model_file){w->place.path, external ? w->place.folder : NULL};
    if (code == 0)
        code = find_reference(w, err);
    if (code == 0)
        code = find_repeatability(w, err);
    if (code == 0)
        code = prn_bench_profile(w->b, labels, PRN_WHOLE_KINDS, w->model.bytes, &w->profile, err);
    w->launches = plan_launches(w);
    return code;
}

int prn_whole_new(struct prn_layer_bench *b, const struct prn_inputs *inputs, size_t n_layers,
                  struct prn_whole **ret_whole, struct prony_error *err)
{
    struct prn_whole *w = calloc(1, sizeof *w);
    if (!w)
        return prn_fail_memory(err);
    *w = (struct prn_whole){
        .b = b, .inputs = {*inputs, *inputs}, .reference = {.fd = -1}, .n_layers = n_layers};
    int code = whole_begin(w, err);
    if (code < 0) {
        prn_whole_free(w);
        return prn_fail_in(err, code, "the whole model");
    }
    *ret_whole = w;
    return 0;
}

void prn_whole_free(struct prn_whole *w)
{
    if (!w)
        return;
    prn_bench_run_release(&w->reference);
    prn_bench_remove(&w->model);
    prn_profile_free(w->profile);
    free(w);
}

/* ---- What it takes ---- */

/* One more launch of both. */
static int launch(struct prn_whole *w, struct prony_error *err)
{
    const struct prn_settings *asked = &w->b->job->settings;
    struct prn_settings *s = &w->profile->settings;
    w->done++;
    s->launches = w->done;
    s->repeats = (asked->repeats * w->done + w->launches - 1) / w->launches;
    s->max_time_s = asked->max_time_s * layers_of(w) / (double)w->launches / PRN_WHOLE_KINDS;
    for (size_t i = 0; i < w->profile->n_results; i++)
        w->profile->results[i].flags &= ~(unsigned)PRN_FLAG_IMPRECISE;
    int code = prn_bench_measure(w->b, w->profile, w->models, w->inputs, err);
    for (size_t i = 0; i < w->profile->n_results && code == 0; i++) {
        struct prn_whole_time time;
        code = prn_bench_time(w->b, &w->profile->results[i], &time, err);
    }
    return code < 0 ? prn_fail_in(err, code, "the whole model") : 0;
}

int prn_whole_measure(struct prn_whole *w, size_t done, struct prony_error *err)
{
    int64_t due = w->launches;
    if (done < w->n_layers)
        due = 1 + (w->launches - 1) * (int64_t)done / (int64_t)w->n_layers;
    int code = 0;
    while (w->done < due && code == 0)
        code = launch(w, err);
    return code;
}

int prn_whole_finish(struct prn_whole *w, struct prony_error *err)
{
    struct prn_layer_measurement *m = w->b->measurement;
    const struct prn_result *cut = &w->profile->results[PRN_WHOLE_CUT];
    const struct prn_result *fused = &w->profile->results[PRN_WHOLE_FUSED];
    int code = prn_bench_time(w->b, cut, &m->whole[PRN_WHOLE_CUT], err);
    if (code == 0)
        code = prn_bench_time(w->b, fused, &m->whole[PRN_WHOLE_FUSED], err);
    if (code == 0)
        m->fused =
            prn_ratio_interval(fused->samples, fused->n_samples, cut->samples, cut->n_samples);
    m->has_whole = code == 0;
    return code;
}
