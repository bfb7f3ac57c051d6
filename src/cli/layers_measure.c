/* `prony layers` without --list and --extract: measures each layer into a file of results. */
#include "cli/layers_measure.h"

#include "cli/output.h"
#include "cli/progress.h"
#include "measure/resume.h"
#include "pipeline/layers/remote.h"
#include "report/layers/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESULTS_DEFAULT "profiler_results.yml"
#define MAX_TIME_DEFAULT_S 10
#define TIMEOUT_DEFAULT_S 120
#define DIMS_MAX (PRN_RANK_MAX - 1)

static const char *results_path(const struct prn_layers_options *o)
{
    return o->results ? o->results : RESULTS_DEFAULT;
}

int prn_layers_check_server(const struct prn_layers_options *o, struct prony_error *err)
{
    int code = prn_server_check(&o->server, err);
    return code < 0 ? code : prn_libraries_use(&o->libraries, o->server.address, err);
}

int prn_layers_check_idle(const struct prn_layers_options *o, struct prony_error *err)
{
    const char *library = prn_libraries_option(&o->libraries);
    char library_option[64];
    snprintf(library_option, sizeof library_option, "--%s", library ? library : "");
    const struct {
        const char *name;
        bool given;
    } options[] = {
        {"-o", o->results},
        {"-d", o->device},
        {"--backend", o->backend},
        {"-m", o->model_name && !prn_layers_network(o)},
        {"-l", o->layer_start > 0},
        {"-L", o->layer_end > 0},
        {"-s", o->shapes_in.n > 0},
        {"--input", o->inputs.n > 0},
        {"-w", o->warmup},
        {"--no-warmup", o->no_warmup},
        {"-i", o->iterations > 0},
        {"--launches", o->launches > 0},
        {"--precision", !isnan(o->precision)},
        {"--max-time", !isnan(o->max_time_s)},
        {"--timeout", !isnan(o->timeout_s)},
        {"--seed", o->seed >= 0},
        {library_option, library},
        {"--resume", o->resume},
        {"--server", o->server.address},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(options); i++)
        if (options[i].given)
            return prn_fail(err, PRONY_EUSAGE,
                            "%s cannot be combined with %s, which measures nothing",
                            options[i].name, o->list ? "--list" : "--extract");
    return 0;
}

/* ---- Options ---- */

/* "3,224,224"; "scalar" has no dimension but the batch. */
static int parse_shape(const char *text, struct prn_arena *arena, struct prn_layer_shape *ret,
                       struct prony_error *err)
{
    int64_t *dims = PRN_ARENA_ARRAY(arena, DIMS_MAX, int64_t);
    if (!dims)
        return prn_fail_memory(err);
    size_t n = 0;
    const char *at = text;
    bool fine = true;
    while (fine && strcmp(text, "scalar") != 0) {
        char *end;
        errno = 0;
        long long size = strtoll(at, &end, 10);
        fine = n < DIMS_MAX && *at >= '0' && *at <= '9' && errno == 0 && size > 0 &&
               (*end == ',' || *end == '\0');
        if (fine)
            dims[n++] = size;
        if (!fine || *end == '\0')
            break;
        at = end + 1;
    }
    if (!fine)
        return prn_fail(err, PRONY_EUSAGE,
                        "-s '%s' is not a shape without the batch, such as 3,224,224", text);
    *ret = (struct prn_layer_shape){dims, n};
    return 0;
}

static int parse_shapes(const struct prn_layers_options *o, struct prn_arena *arena,
                        struct prn_layer_shape **ret_shapes, struct prony_error *err)
{
    struct prn_layer_shape *shapes =
        PRN_ARENA_ARRAY(arena, o->shapes_in.n + 1, struct prn_layer_shape);
    int code = shapes ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < o->shapes_in.n && code == 0; i++)
        code = parse_shape(o->shapes_in.items[i], arena, &shapes[i], err);
    if (code == 0)
        *ret_shapes = shapes;
    return code;
}

/* "x=8x3x224x224", with the batch that the model wants. */
static int shape_text(const struct prn_layers_options *o, const struct prn_value *input,
                      const struct prn_layer_shape *shape, struct prn_arena *arena,
                      const char **ret_text, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 16);
    int64_t batch = o->batch ? o->batch : PRN_CUT_BATCH_DEFAULT;
    if (!o->batch && input->has_shape && input->rank > 0 && input->dims[0].value >= 0)
        batch = input->dims[0].value;
    prn_buffer_printf(&text, "%s=%lld", input->name, (long long)batch);
    for (size_t i = 0; i < shape->rank; i++)
        prn_buffer_printf(&text, "x%lld", (long long)shape->dims[i]);
    int code = prn_buffer_error(&text, err);
    *ret_text = code == 0 ? prn_arena_strdup(arena, prn_buffer_text(&text)) : NULL;
    prn_buffer_release(&text);
    return code == 0 && !*ret_text ? prn_fail_memory(err) : code;
}

int prn_layers_input_shapes(const struct prn_layers_options *o, const struct prn_model *model,
                            struct prn_arena *arena, struct prn_texts *ret_texts,
                            struct prony_error *err)
{
    struct prn_layer_shape *shapes;
    const char **texts = PRN_ARENA_ARRAY(arena, o->shapes_in.n + 1, const char *);
    if (!texts)
        return prn_fail_memory(err);
    if (o->shapes_in.n != model->n_inputs)
        return prn_fail(err, PRONY_EUSAGE, "-s is given %zu time%s, but '%s' has %zu input%s",
                        o->shapes_in.n, o->shapes_in.n == 1 ? "" : "s", model->path,
                        model->n_inputs, model->n_inputs == 1 ? "" : "s");
    int code = parse_shapes(o, arena, &shapes, err);
    for (size_t i = 0; i < o->shapes_in.n && code == 0; i++)
        code = shape_text(o, model->inputs[i], &shapes[i], arena, &texts[i], err);
    if (code == 0)
        *ret_texts = (struct prn_texts){texts, o->shapes_in.n};
    return code;
}

/* "cpu", "cuda", "cuda:1", as PyTorch calls devices; or a backend of its own. */
static int backend_of(const struct prn_layers_options *o, struct prn_arena *arena,
                      const char **ret_backend, struct prony_error *err)
{
    static const char cuda[] = "cuda:";
    if (o->device && o->backend)
        return prn_fail(err, PRONY_EUSAGE, "-d '%s' cannot be combined with --backend '%s'",
                        o->device, o->backend);
    *ret_backend = o->backend;
    if (o->backend)
        return 0;
    *ret_backend = "onnxrt-cpu";
    if (!o->device || strcmp(o->device, "cpu") == 0)
        return 0;
    *ret_backend = "onnxrt-cuda";
    if (strcmp(o->device, "cuda") == 0)
        return 0;
    const char *number =
        strncmp(o->device, cuda, strlen(cuda)) == 0 ? o->device + strlen(cuda) : "";
    size_t len = strspn(number, "0123456789");
    if (len == 0 || len > 4 || number[len])
        return prn_fail(err, PRONY_EUSAGE,
                        "-d '%s' is not cpu, cuda or cuda:N; --backend takes other backends",
                        o->device);
    struct prn_buffer text = PRN_BUFFER_INIT(64);
    prn_buffer_printf(&text, "onnxrt-cuda[device=%s]", number);
    *ret_backend = prn_arena_strdup(arena, prn_buffer_text(&text));
    prn_buffer_release(&text);
    return *ret_backend ? 0 : prn_fail_memory(err);
}

static int range_of(const struct prn_layers_options *o, struct prn_layer_job *job,
                    struct prony_error *err)
{
    int64_t n = (int64_t)job->cuts->n_layers;
    int64_t first = o->layer_start > 0 ? o->layer_start : 1;
    int64_t last = o->layer_end > 0 ? o->layer_end : n;
    if (first > n || last > n)
        return prn_fail(err, PRONY_EUSAGE, "%s %lld: '%s' has %lld layer%s",
                        first > n ? "-l" : "-L", (long long)(first > n ? first : last),
                        job->model->path, (long long)n, n == 1 ? "" : "s");
    if (first > last)
        return prn_fail(err, PRONY_EUSAGE, "-l %lld is greater than -L %lld", (long long)first,
                        (long long)last);
    job->first = (size_t)first;
    job->last = (size_t)last;
    return 0;
}

/* "vit" of "models/vit.onnx". */
static const char *name_of(const char *path, struct prn_arena *arena)
{
    static const char ending[] = ".onnx";
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = strlen(name);
    if (len > strlen(ending) && strcmp(name + len - strlen(ending), ending) == 0)
        len -= strlen(ending);
    return prn_arena_strndup(arena, name, len);
}

static int settings_of(const struct prn_layers_options *o, struct prn_settings *ret,
                       struct prony_error *err)
{
    if (o->warmup && o->no_warmup)
        return prn_fail(err, PRONY_EUSAGE, "--warmup cannot be combined with --no-warmup");
    *ret = (struct prn_settings){.seed = o->seed < 0 ? PRN_SEED_UNSET : (uint64_t)o->seed,
                                 .precision = o->precision,
                                 .smallest_difference = NAN,
                                 .tolerance = NAN,
                                 .launches = o->launches,
                                 .repeats = o->iterations,
                                 .warmups = o->no_warmup ? 0 : -1,
                                 .max_time_s =
                                     isnan(o->max_time_s) ? MAX_TIME_DEFAULT_S : o->max_time_s};
    return prn_resume_settings(NULL, ret, err);
}

/* What makes a difference to the figures beside the backend, as one would type it. */
static int options_of(const struct prn_layers_options *o, struct prn_arena *arena,
                      const char **ret_text, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)64 << 10);
    if (o->iterations > 0)
        prn_buffer_printf(&text, " -i %lld", (long long)o->iterations);
    if (o->no_warmup)
        prn_buffer_add(&text, " --no-warmup");
    for (size_t i = 0; i < o->inputs.n; i++)
        prn_buffer_printf(&text, " --input %s", o->inputs.items[i]);
    if (o->seed >= 0)
        prn_buffer_printf(&text, " --seed %lld", (long long)o->seed);
    int code = prn_buffer_error(&text, err);
    if (code == 0) {
        *ret_text = prn_arena_strdup(arena, text.len > 0 ? prn_buffer_text(&text) + 1 : "");
        code = *ret_text ? 0 : prn_fail_memory(err);
    }
    prn_buffer_release(&text);
    return code;
}

/* ---- Measuring ---- */

struct session {
    const char *path;
};

/* After each layer, so that whatever happens later costs one layer at most. */
static int save(void *context, const struct prn_layer_profile *profile,
                const struct prn_layer_row *row, struct prony_error *err)
{
    (void)row;
    const struct session *session = context;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_LAYER_PROFILE_TEXT_MAX);
    int code = prn_layer_profile_write(profile, &out, err);
    if (code == 0) {
        sigset_t former = prn_signals_hold();
        code = prn_output(session->path, &out, err);
        prn_signals_release(&former);
    }
    prn_buffer_release(&out);
    return code;
}

/* What a failure leaves: whoever reads it must know that nothing has to be measured twice. */
static int fail_partway(const struct prn_layer_profile *profile, int code, struct prony_error *err)
{
    char reason[sizeof err->text];
    size_t n = prn_layer_profile_count(profile);
    snprintf(reason, sizeof reason, "%s", code == PRONY_ECANCELED ? "interrupted" : err->text);
    if (n > 0)
        return prn_fail(
            err, code,
            "%s; '%s' has %zu of %lld layers; run the same command with --resume to continue",
            reason, prn_layer_profile_path(profile), n,
            (long long)prn_layer_profile_head(profile)->layers);
    if (code == PRONY_ECANCELED)
        return prn_fail(err, code, "interrupted before a layer was measured; nothing is written");
    return code;
}

static int report(const struct prn_layers_options *o,
                  const struct prn_layer_measurement *measurement,
                  const struct prn_layer_profile *profile, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_look look = prn_output_look(o->output, false, PRN_COLOUR_AUTO);
    int code = prn_layers_report(measurement, profile, (enum prn_report_format)o->format, &look,
                                 &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int layers_measure(const struct prn_layers_options *o, const struct prn_layer_job *job,
                          struct prn_layer_profile *profile, struct prony_error *err)
{
    struct prn_layer_measurement *measurement = NULL;
    size_t before = prn_layer_profile_count(profile);
    prn_signals_catch();
    int code = prn_layers_measure(job, profile, &measurement, err);
    code = prn_open_dims_fail(job->model, job->inputs, code, err);
    prn_progress_end();
    if (code == 0)
        code = report(o, measurement, profile, err);
    else if (code == PRONY_ECANCELED || prn_layer_profile_count(profile) > before)
        code = fail_partway(profile, code, err);
    prn_layer_measurement_free(measurement);
    return code;
}

static int check_files(const struct prn_layers_options *o, const struct prn_model *model,
                       struct prony_error *err)
{
    const char *results = results_path(o);
    if (!prn_output_is_file(results))
        return prn_fail(err, PRONY_EUSAGE,
                        "-o '%s' is not a regular file, so results cannot be added to it", results);
    int code = prn_output_spares(results, model->path, err);
    if (code == 0)
        code = prn_output_check(results, err);
    if (code == 0 && o->output && strcmp(o->output, results) == 0)
        code = prn_fail(err, PRONY_EUSAGE, "--output '%s' is the file of results", o->output);
    if (code == 0)
        code = prn_output_spares(o->output, results, err);
    return code == 0 ? prn_output_check(o->output, err) : code;
}

/* On this machine, or on a host of a service. */
static int measure_where(const struct prn_layers_options *o, const struct prn_layer_texts *texts,
                         const struct prn_layer_job *job, struct prn_layer_profile *profile,
                         struct prony_error *err)
{
    struct prn_layer_remote remote = {.texts = *texts, .inputs = {o->inputs.items, o->inputs.n}};
    struct prn_layer_place place = {prn_layer_remote_measure, &remote};
    struct prn_server_shown shown = {0};
    if (!o->server.address)
        return layers_measure(o, job, profile, err);
    struct prn_token *token = prn_token_new();
    if (!token)
        return prn_fail_memory(err);
    int code = prn_server_config(&o->server, token, &remote.config, err);
    if (code == 0) {
        prn_server_show(&remote.config, &shown);
        struct prn_layer_job there = *job;
        there.place = &place;
        code = layers_measure(o, &there, profile, err);
    }
    prn_token_free(token);
    return code;
}

int prn_layers_run(const struct prn_layers_options *o, const struct prn_layer_texts *texts,
                   const struct prn_layer_plan *plan, const char *shown, struct prn_arena *arena,
                   struct prony_error *err)
{
    struct session session = {results_path(o)};
    const struct prn_texts inputs = {o->inputs.items, o->inputs.n};
    struct prn_layer_shape *shapes = NULL;
    struct prn_layer_profile *profile = NULL;
    struct prn_layer_head head;
    struct prn_layer_job job = {.resume = o->resume,
                                .timeout_s = isnan(o->timeout_s) ? TIMEOUT_DEFAULT_S : o->timeout_s,
                                .cancelled = &prn_cancelled,
                                .progress = prn_progress_shown(),
                                .save = save,
                                .context = &session};
    const char *name = o->model_name ? o->model_name : name_of(plan->model->path, arena);
    int code = name ? check_files(o, plan->model, err) : prn_fail_memory(err);
    if (code == 0)
        code = backend_of(o, arena, &job.backend, err);
    if (code == 0)
        code = prn_layer_plan_job(plan, &inputs, arena, &job, err);
    job.shown = shown;
    if (code == 0)
        code = range_of(o, &job, err);
    if (code == 0)
        code = settings_of(o, &job.settings, err);
    if (code == 0)
        code = options_of(o, arena, &job.options, err);
    /* Of the first layer, they are shapes of the model's inputs. */
    if (code == 0 && job.first > 1)
        code = parse_shapes(o, arena, &shapes, err);
    job.shapes = shapes;
    job.n_shapes = job.first > 1 ? o->shapes_in.n : 0;
    if (code == 0)
        code = prn_layer_job_head(&job, name, &head, err);
    if (code == 0)
        code = prn_layer_profile_open(session.path, &head, &profile, err);
    if (code == 0)
        code = measure_where(o, texts, &job, profile, err);
    prn_layer_profile_free(profile);
    return code;
}
