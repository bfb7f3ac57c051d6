#include "pipeline/layers/measure.h"

#include "pipeline/layers/bench.h"
#include "pipeline/limits.h"
#include "pipeline/torch_dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 30)
#define LABEL_SIZE 64
#define FIXED_LAUNCHES 3

#define ORIGIN_MAX ((size_t)64 << 10)

/* A run of the layers one after the other. */
struct chain {
    struct prn_layer_bench bench;
    struct prn_layer_profile *profile;
    struct prn_whole *whole;  /* NULL: it isn't measured */
    struct prn_inputs first;  /* what the first layer gets, and the whole; fd -1: nothing */
    struct prn_inputs inputs; /* what the present layer gets */
    size_t done;              /* layers that were measured */
    double memory_fixed_mb;   /* what a process grows by for a model of next to nothing */
    struct prony_error *err;
};

/* ---- The head ---- */

/* Adds up the floating-point numbers by type. */
static void count_numbers(const struct prn_cut_tensor *const *tensors, size_t n,
                          double counts[PRN_DTYPE_COUNT])
{
    for (size_t i = 0; i < n; i++)
        if (prn_dtype_is_float(tensors[i]->value.dtype))
            counts[tensors[i]->value.dtype] += fmax(1, tensors[i]->elements);
}

/* The type of most floating-point numbers that go in, pass and come out; of whole numbers only when
 * nothing else does. */
static int number_type(const struct prn_cuts *cuts)
{
    double counts[PRN_DTYPE_COUNT] = {0};
    const struct prn_layer *first = &cuts->layers[0];
    count_numbers(first->in, first->n_in, counts);
    for (size_t i = 0; i < cuts->n_layers; i++) {
        size_t n;
        const struct prn_cut_tensor *const *given = prn_layer_given(&cuts->layers[i], &n);
        count_numbers(given, n, counts);
    }
    int best = PRN_DTYPE_UNDEFINED;
    for (int i = 1; i < PRN_DTYPE_COUNT; i++)
        best = counts[i] > counts[best] ? i : best;
    return best || first->n_in == 0 ? best : first->in[0]->value.dtype;
}

int prn_layer_job_head(const struct prn_layer_job *job, const char *model_name,
                       struct prn_layer_head *ret_head, struct prony_error *err)
{
    int dtype = number_type(job->cuts);
    const char *name = prn_torch_dtype_name(dtype);
    if (job->cuts->n_layers > PRN_PIPELINE_LAYERS_MAX)
        return prn_fail(err, PRONY_ELIMIT,
                        "'%s' has %zu layers, but a file of results holds at most %d; use --cuts N",
                        job->model->path, job->cuts->n_layers, PRN_PIPELINE_LAYERS_MAX);
    if (!name)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "'%s' passes %s between layers, for which PyTorch has no name",
                        job->model->path, prn_dtype_name(dtype));
    *ret_head = (struct prn_layer_head){.model_name = model_name,
                                        .dtype = name,
                                        .batch_size = job->batch,
                                        .layers = (int64_t)job->cuts->n_layers};
    return 0;
}

int prn_layer_job_begin(const struct prn_layer_job *job, const char *backend, const char *version,
                        struct prn_layer_profile *profile, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(ORIGIN_MAX);
    prn_buffer_add(&text, backend);
    if (version && *version)
        prn_buffer_printf(&text, " (%s)", version);
    if (job->options && *job->options)
        prn_buffer_printf(&text, " %s", job->options);
    int code = prn_buffer_error(&text, err);
    if (code == 0)
        code = prn_layer_profile_measure_with(profile, prn_buffer_text(&text), err);
    prn_buffer_release(&text);
    return code;
}

/* ---- Shapes ---- */

/* Without the batch. Of a tensor whose outer dimension isn't that, the shape that one part of the
 * batch has, so that elements times batch are still what passes; where it can't be divided, the
 * whole. */
static int shape_of(struct chain *c, const int64_t *dims, size_t rank, struct prn_layer_shape *ret)
{
    int64_t batch = c->bench.job->batch;
    bool batched = rank > 0 && dims[0] == batch;
    int64_t *copy = PRN_ARENA_ARRAY(&c->bench.arena, rank + 1, int64_t);
    if (!copy)
        return prn_fail_memory(c->err);
    for (size_t i = batched; i < rank; i++)
        copy[i - batched] = dims[i];
    if (!batched && rank > 0 && dims[0] % batch == 0)
        copy[0] = dims[0] / batch;
    *ret = (struct prn_layer_shape){copy, rank - batched};
    return 0;
}

static bool same_shapes(const struct prn_layer_shape *a, size_t n_a,
                        const struct prn_layer_shape *b, size_t n_b)
{
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (a[i].rank != b[i].rank ||
            memcmp(a[i].dims, b[i].dims, a[i].rank * sizeof *a[i].dims) != 0)
            return false;
    return true;
}

static void shape_text(const struct prn_layer_shape *shape, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < shape->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)shape->dims[i]);
}

/* ---- Inputs ---- */

static bool all_known(const struct prn_cut_tensor *t)
{
    for (size_t i = 0; t->dims && i < t->value.rank; i++)
        if (t->dims[i] < 0)
            return false;
    return t->dims;
}

/* A random input of the shape that was given for it. */
static int random_input(struct chain *c, const struct prn_cut_tensor *t,
                        const struct prn_layer_shape *given, struct prn_input *ret)
{
    char wanted[256];
    char got[256];
    struct prn_layer_shape shape = {0};
    *ret =
        (struct prn_input){.name = t->value.name, .dtype = t->value.dtype, .rank = given->rank + 1};
    if (all_known(t)) {
        int code = shape_of(c, t->dims, t->value.rank, &shape);
        if (code < 0)
            return code;
        shape_text(&shape, wanted, sizeof wanted);
        shape_text(given, got, sizeof got);
        if (!same_shapes(&shape, 1, given, 1))
            return prn_fail(c->err, PRONY_EUSAGE,
                            "-s '%s': layer %zu takes '%s' of the shape '%s' (without the batch)",
                            got, c->bench.job->first, t->value.name, wanted);
        ret->rank = t->value.rank;
        for (size_t i = 0; i < ret->rank; i++)
            ret->dims[i] = t->dims[i];
        return 0;
    }
    if (ret->rank > PRN_RANK_MAX)
        return prn_fail(c->err, PRONY_EUSAGE, "-s: more than %d dimensions", PRN_RANK_MAX - 1);
    ret->dims[0] = c->bench.job->batch;
    for (size_t i = 0; i < given->rank; i++)
        ret->dims[i + 1] = given->dims[i];
    return 0;
}

static int make_random_inputs(struct chain *c)
{
    const struct prn_layer_job *job = c->bench.job;
    const struct prn_layer *layer = &job->cuts->layers[job->first - 1];
    if (job->n_shapes != layer->n_in)
        return prn_fail(c->err, PRONY_EUSAGE,
                        "-s is given %zu time%s, but layer %zu takes %zu tensor%s", job->n_shapes,
                        job->n_shapes == 1 ? "" : "s", job->first, layer->n_in,
                        layer->n_in == 1 ? "" : "s");
    struct prn_input *inputs = PRN_ARENA_ARRAY(&c->bench.arena, layer->n_in + 1, struct prn_input);
    int code = inputs ? 0 : prn_fail_memory(c->err);
    for (size_t i = 0; i < layer->n_in && code == 0; i++)
        code = random_input(c, layer->in[i], &job->shapes[i], &inputs[i]);
    return code < 0 ? code
                    : prn_inputs_make(inputs, layer->n_in, NULL, 0, NULL, job->settings.seed,
                                      &c->bench.arena, &c->first, c->err);
}

static int make_inputs(struct chain *c)
{
    const struct prn_layer_job *job = c->bench.job;
    int code = job->n_shapes > 0 ? make_random_inputs(c)
                                 : prn_inputs_make(job->inputs, job->model->n_inputs, job->sources,
                                                   job->n_sources, NULL, job->settings.seed,
                                                   &c->bench.arena, &c->first, c->err);
    c->inputs = c->first;
    return code;
}

/* The next layer gets what this one gave. */
static int hand_on(struct chain *c, const struct prn_layer *layer, const struct prn_bench_run *run)
{
    struct prn_inputs next;
    int code = prn_bench_copy(&c->bench, run, layer->out, layer->n_out, &next, c->err);
    if (code < 0)
        return code;
    if (c->inputs.fd != c->first.fd)
        prn_inputs_release(&c->inputs);
    c->inputs = next;
    return 0;
}

/* ---- One layer ---- */

/* What the file will say of it, without the figures. */
static int describe(struct chain *c, size_t index, const struct prn_bench_run *run,
                    struct prn_layer_entry *entry)
{
    const struct prn_layer *layer = &c->bench.job->cuts->layers[index];
    size_t n_out;
    const struct prn_cut_tensor *const *given = prn_layer_given(layer, &n_out);
    struct prn_layer_shape *in =
        PRN_ARENA_ARRAY(&c->bench.arena, c->inputs.n + 1, struct prn_layer_shape);
    struct prn_layer_shape *out =
        PRN_ARENA_ARRAY(&c->bench.arena, n_out + 1, struct prn_layer_shape);
    int code = in && out ? 0 : prn_fail_memory(c->err);
    for (size_t i = 0; i < c->inputs.n && code == 0; i++)
        code = shape_of(c, c->inputs.places[i].dims, c->inputs.places[i].rank, &in[i]);
    for (size_t i = 0; i < n_out && code == 0; i++) {
        const struct prn_place *place;
        code = prn_bench_find(run, given[i]->value.name, &place, c->err);
        if (code == 0)
            code = shape_of(c, place->dims, place->rank, &out[i]);
    }
    *entry = (struct prn_layer_entry){.layer = (int64_t)index + 1,
                                      .memory_fixed_mb = c->memory_fixed_mb,
                                      .time_ci_s = NAN,
                                      .in = in,
                                      .out = out,
                                      .n_in = c->inputs.n,
                                      .n_out = n_out};
    return code;
}

/* A layer of the file must be the one that is cut here. */
static int check_old(struct chain *c, const struct prn_layer_entry *entry)
{
    const struct prn_layer_entry *old = prn_layer_profile_find(c->profile, entry->layer);
    if (!old || (same_shapes(old->in, old->n_in, entry->in, entry->n_in) &&
                 same_shapes(old->out, old->n_out, entry->out, entry->n_out)))
        return 0;
    return prn_fail(c->err, PRONY_EFORMAT,
                    "it has other shapes in '%s': the model or its cuts have changed",
                    prn_layer_profile_path(c->profile));
}

static int measure_time(struct chain *c, const struct prn_bench_model *model, const char *label,
                        struct prn_layer_entry *entry, struct prn_layer_row *ret_row)
{
    struct prn_profile *profile;
    struct prn_whole_time time = {0};
    int code = prn_bench_profile(&c->bench, &label, 1, model->bytes, &profile, c->err);
    if (code < 0)
        return code;
    code = prn_bench_measure(&c->bench, profile, &model->file, &c->inputs, c->err);
    if (code == 0)
        code = prn_bench_time(&c->bench, &profile->results[0], &time, c->err);
    entry->time_s = time.time_s;
    entry->time_ci_s = time.time_ci_s;
    *ret_row = (struct prn_layer_row){.layer = entry->layer,
                                      .measured = true,
                                      .samples = time.samples,
                                      .launches = time.launches,
                                      .flags = time.flags};
    prn_profile_free(profile);
    return code;
}

static int measure_memory(struct chain *c, const struct prn_bench_model *model,
                          const struct prn_bench_run *own, struct prn_layer_entry *entry)
{
    struct prn_bench_run run = *own;
    int code = 0;
    if (c->bench.memory_backend != c->bench.backend)
        code = prn_bench_run(&c->bench, c->bench.memory_backend, &model->file, NULL, &run, c->err);
    if (code == 0 && run.growth_bytes < 0)
        code =
            prn_fail(c->err, PRONY_EUNSUPPORTED, "the kernel doesn't say how much memory it takes");
    entry->memory_mb = (double)run.growth_bytes / 1e6;
    return code;
}

static int compare_growth(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the runtime takes for itself: the growth of processes that load a model of one node. */
static int measure_fixed(struct chain *c)
{
    double growth[FIXED_LAUNCHES];
    struct prn_bench_model model;
    int code = prn_bench_write_least(&c->bench, &model, c->err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < FIXED_LAUNCHES && code == 0; i++) {
        struct prn_bench_run run;
        code = prn_bench_run(&c->bench, c->bench.memory_backend, &model.file, NULL, &run, c->err);
        growth[i] = code == 0 ? (double)run.growth_bytes : 0;
    }
    prn_bench_remove(&model);
    qsort(growth, FIXED_LAUNCHES, sizeof *growth, compare_growth);
    if (code == 0 && growth[0] >= 0)
        c->memory_fixed_mb = growth[FIXED_LAUNCHES / 2] / 1e6;
    return code;
}

static bool is_asked_for(const struct prn_layer_job *job, int64_t layer)
{
    return layer >= (int64_t)job->first && layer <= (int64_t)job->last;
}

int prn_layer_keep(const struct prn_layer_job *job, const struct prn_layer_entry *entry,
                   const struct prn_layer_row *row, struct prn_layer_profile *profile,
                   struct prn_layer_measurement *measurement, struct prony_error *err)
{
    if (!is_asked_for(job, entry->layer) || row->layer != entry->layer)
        return prn_fail(err, PRONY_EFORMAT, "layer %lld was not requested",
                        (long long)entry->layer);
    int code = prn_layer_profile_add(profile, entry, err);
    if (code < 0)
        return code;
    measurement->rows[(size_t)row->layer - job->first] = *row;
    return job->save(job->context, profile, row, err);
}

static bool to_measure(struct chain *c, size_t index)
{
    int64_t layer = (int64_t)index + 1;
    return is_asked_for(c->bench.job, layer) && !prn_layer_profile_find(c->profile, layer);
}

static int measure_layer(struct chain *c, const struct prn_bench_model *model, const char *label,
                         const struct prn_bench_run *run, struct prn_layer_entry *entry)
{
    struct prn_layer_row row;
    int code = measure_memory(c, model, run, entry);
    if (code == 0)
        code = measure_time(c, model, label, entry, &row);
    if (code == 0)
        code = prn_layer_keep(c->bench.job, entry, &row, c->profile, c->bench.measurement, c->err);
    c->done++;
    return code;
}

static void tell(struct chain *c, const char *label)
{
    const struct prn_layer_job *job = c->bench.job;
    struct prn_progress p = {.backend = c->bench.backend->name,
                             .point = label,
                             .phase = "running once",
                             .row = 1,
                             .rows = 1,
                             .median_ns = NAN,
                             .half_width = NAN};
    if (job->progress)
        job->progress(job->context, &p);
}

static int run_layer(struct chain *c, size_t index, const struct prn_bench_model *model,
                     struct prn_bench_run *run)
{
    const struct prn_layer *layer = &c->bench.job->cuts->layers[index];
    struct prn_layer_entry entry;
    char label[LABEL_SIZE];
    snprintf(label, sizeof label, "layer %zu of %zu", index + 1, c->bench.job->cuts->n_layers);
    tell(c, label);
    int code = prn_bench_run(&c->bench, c->bench.backend, &model->file, &c->inputs, run, c->err);
    if (code == 0)
        code = describe(c, index, run, &entry);
    if (code == 0)
        code = check_old(c, &entry);
    if (code == 0 && c->whole)
        code = prn_whole_compare(c->whole, layer, run, c->err);
    if (code == 0 && to_measure(c, index))
        code = measure_layer(c, model, label, run, &entry);
    if (code == 0 && index + 1 < c->bench.job->last)
        code = hand_on(c, layer, run);
    return code;
}

static int do_layer(struct chain *c, size_t index)
{
    struct prn_bench_model model;
    struct prn_bench_run run = {.fd = -1};
    int code = c->whole && to_measure(c, index) ? prn_whole_measure(c->whole, c->done, c->err) : 0;
    if (code < 0)
        return code;
    code = prn_bench_write(&c->bench, index, &model, c->err);
    if (code < 0)
        return code;
    code = run_layer(c, index, &model, &run);
    prn_bench_run_release(&run);
    prn_bench_remove(&model);
    return code < 0 ? prn_fail_in(c->err, code, "layer %zu", index + 1) : 0;
}

/* ---- All of them ---- */

/* Whether the runtime is there, before gigabytes are written for it. */
static int try_backend(struct chain *c, const struct prn_spec *backend, bool times)
{
    struct prn_executor *executor = NULL;
    struct prn_executor_config process = {.inputs_fd = -1,
                                          .timeout_s = c->bench.job->timeout_s,
                                          .cancelled = c->bench.job->cancelled};
    struct prn_runtime_config runtime = {.software = backend->software,
                                         .options = backend->options,
                                         .n_options = backend->n_options};
    int code = prn_executor_spawn(&process, &executor, c->err);
    if (code == 0)
        code = prn_executor_open(executor, &runtime, NULL, NULL, c->err);
    if (code < 0)
        prn_fail_in(c->err, code, "backend '%s'", backend->name);
    else if (times)
        code = prn_layer_job_begin(c->bench.job, backend->name, prn_executor_version(executor),
                                   c->profile, c->err);
    prn_executor_free(executor);
    return code;
}

/* ONNX Runtime on this machine's CPU. */
static const char *cpu_backend(struct prn_layer_bench *b)
{
    const char *hardware = b->job->hardware ? b->job->hardware : "local";
    size_t size = strlen(hardware) + sizeof "/onnxrt-cpu";
    char *text = prn_arena_alloc(&b->arena, size);
    if (text)
        snprintf(text, size, "%s/onnxrt-cpu", hardware);
    return text;
}

static int resolve_backends(struct chain *c)
{
    struct prn_layer_bench *b = &c->bench;
    const char *cpu = cpu_backend(b);
    struct prn_texts own = {&b->job->backend, 1};
    struct prn_texts of_memory = {&cpu, 1};
    const struct prn_backends_here here = {.hardware = b->job->hardware};
    size_t n;
    int code = cpu ? prn_backends_resolve(&own, &here, &b->arena, &b->backend, &n, c->err)
                   : prn_fail_memory(c->err);
    if (code < 0)
        return code;
    const struct prn_runtime_ops *ops = prn_runtime_find(b->backend->software);
    b->job->cuts->whole_reshapes = ops && ops->keeps_reshapes;
    const char *dash = strrchr(b->backend->software, '-');
    b->memory_backend = b->backend;
    if (dash && strcmp(dash, "-cpu") != 0)
        code = prn_backends_resolve(&of_memory, &here, &b->arena, &b->memory_backend, &n, c->err);
    b->measurement->backend = prn_arena_strdup(&b->measurement->arena, b->backend->name);
    if (code == 0 && !b->measurement->backend)
        code = prn_fail_memory(c->err);
    if (code == 0)
        code = try_backend(c, b->backend, true);
    if (code == 0 && b->memory_backend != b->backend)
        code = try_backend(c, b->memory_backend, false);
    return code;
}

/* A layer that is there already is an error, and better now than after an hour. */
static int check_there(const struct prn_layer_job *job, const struct prn_layer_profile *profile,
                       size_t *ret_left, struct prony_error *err)
{
    *ret_left = 0;
    for (size_t i = job->first; i <= job->last; i++) {
        bool there = prn_layer_profile_find(profile, (int64_t)i);
        if (there && !job->resume)
            return prn_fail(err, PRONY_EFORMAT,
                            "'%s' already has layer %zu; --resume keeps it and measures the others",
                            prn_layer_profile_path(profile), i);
        *ret_left += !there;
    }
    return 0;
}

/* The whole is what all layers together are, if what it gives isn't too much for one process. */
static bool wants_whole(const struct prn_layer_job *job)
{
    const struct prn_layer *whole = &job->cuts->layers[job->cuts->n_layers];
    return job->n_shapes == 0 && job->first == 1 && job->last == job->cuts->n_layers &&
           whole->n_out + whole->n_results <= PRN_EXECUTOR_TENSORS_MAX;
}

static int sum_up(const struct prn_layer_profile *profile, struct prn_layer_measurement *m,
                  struct prony_error *err)
{
    double squares = 0;
    for (size_t i = 0; i < m->n_rows; i++) {
        const struct prn_layer_entry *e = prn_layer_profile_find(profile, m->rows[i].layer);
        if (!e)
            return prn_fail(err, PRONY_EFORMAT, "layer %lld wasn't measured",
                            (long long)m->rows[i].layer);
        m->sum_s += e->time_s;
        squares += e->time_ci_s * e->time_ci_s;
    }
    m->sum_ci_s = sqrt(squares);
    return 0;
}

static int run_chain(struct chain *c, size_t left)
{
    const struct prn_layer_job *job = c->bench.job;
    size_t from = job->n_shapes > 0 ? job->first : 1;
    int code = make_inputs(c);
    if (code == 0 && left > 0)
        code = measure_fixed(c);
    if (code == 0 && wants_whole(job))
        code = prn_whole_new(&c->bench, &c->first, left, &c->whole, c->err);
    for (size_t i = from; i <= job->last && code == 0; i++)
        code = do_layer(c, i - 1);
    if (code == 0 && c->whole)
        code = prn_whole_measure(c->whole, left, c->err);
    if (code == 0 && c->whole)
        code = prn_whole_finish(c->whole, c->err);
    prn_whole_free(c->whole);
    if (c->inputs.fd != c->first.fd)
        prn_inputs_release(&c->inputs);
    prn_inputs_release(&c->first);
    return code;
}

static int new_measurement(const struct prn_layer_job *job, struct prn_layer_measurement **ret,
                           struct prony_error *err)
{
    struct prn_layer_measurement *m = calloc(1, sizeof *m);
    if (!m)
        return prn_fail_memory(err);
    *m = (struct prn_layer_measurement){.arena = PRN_ARENA_INIT(ARENA_BYTES),
                                        .runtime = "",
                                        .cpu = "",
                                        .n_rows = job->last - job->first + 1};
    m->model_path = prn_arena_strdup(&m->arena, job->shown ? job->shown : job->model->path);
    m->rows = PRN_ARENA_ARRAY(&m->arena, m->n_rows, struct prn_layer_row);
    if (!m->model_path || !m->rows) {
        prn_layer_measurement_free(m);
        return prn_fail_memory(err);
    }
    for (size_t i = 0; i < m->n_rows; i++)
        m->rows[i].layer = (int64_t)(job->first + i);
    *ret = m;
    return 0;
}

static int measure_here(const struct prn_layer_job *job, size_t left,
                        struct prn_layer_profile *profile, struct prn_layer_measurement *m,
                        struct prony_error *err)
{
    struct chain c = {.bench = {.job = job,
                                .arena = PRN_ARENA_INIT(ARENA_BYTES),
                                .canary_best_ns = NAN,
                                .measurement = m},
                      .profile = profile,
                      .first = {.fd = -1},
                      .inputs = {.fd = -1},
                      .memory_fixed_mb = NAN,
                      .err = err};
    int code = resolve_backends(&c);
    if (code == 0)
        code = prn_scratch_open(job->folder, &c.bench.scratch, err);
    if (code == 0) {
        code = run_chain(&c, left);
        prn_scratch_close(&c.bench.scratch);
    }
    prn_arena_release(&c.bench.arena);
    return code;
}

int prn_layers_measure(const struct prn_layer_job *job, struct prn_layer_profile *profile,
                       struct prn_layer_measurement **ret_measurement, struct prony_error *err)
{
    struct prn_layer_measurement *m = NULL;
    size_t left;
    int code = check_there(job, profile, &left, err);
    if (code == 0)
        code = new_measurement(job, &m, err);
    if (code < 0)
        return code;
    code = job->place ? job->place->measure(job->place->context, job, profile, m, err)
                      : measure_here(job, left, profile, m, err);
    if (code == 0)
        code = sum_up(profile, m, err);
    if (code < 0)
        prn_layer_measurement_free(m);
    else
        *ret_measurement = m;
    return code;
}

void prn_layer_measurement_free(struct prn_layer_measurement *m)
{
    if (!m)
        return;
    prn_arena_release(&m->arena);
    free(m);
}
