/* Reads a profile from JSON, field by field (format/json_fields.h). */
#include "report/profile_json.h"

#include "format/json_fields.h"
#include "report/load_json.h"
#include "report/ops_json.h"
#include "report/profile_parts.h"
#include "report/recorded_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds on what a report has to lay out; a profile of our own stays far below them. */
#define ENTRIES_MAX 100000
#define SWEPT_MAX 256

/* ---- Parts of a profile ---- */

static void read_model(struct prn_fields *r, const struct prn_field *top,
                       struct prn_profile *profile)
{
    struct prn_field p = prn_field_member(top, "model");
    profile->recorded = json_is_null(p.value);
    if (profile->recorded || !prn_field_is_object(r, &p))
        return;
    profile->model_path = prn_field_text(r, &p, "path");
    profile->model_bytes = prn_field_integer_or_null(r, &p, "bytes");
    profile->model_parameters = prn_field_integer_or_null(r, &p, "parameters");
    profile->model_fingerprint = prn_field_text_or_null(r, &p, "fingerprint");
}

static int read_dtype(struct prn_fields *r, const struct prn_field *in)
{
    const char *name = prn_field_text(r, in, "type");
    if (!name)
        return PRN_DTYPE_UNDEFINED;
#define PRN_X(number, symbol, text, bits) \
    if (strcmp(name, text) == 0)          \
        return number;
    PRN_DTYPE_MAP(PRN_X)
#undef PRN_X
    /* A type without a name here: written as "type 99". */
    long number = strncmp(name, "type ", 5) == 0 ? strtol(name + 5, NULL, 10) : -1;
    if (number >= 0 && number <= INT32_MAX && strcmp(prn_dtype_name((int)number), name) == 0)
        return (int)number;
    struct prn_field p = prn_field_member(in, "type");
    prn_field_fault(r, &p, "is not a tensor type");
    return PRN_DTYPE_UNDEFINED;
}

static void read_input(struct prn_fields *r, const struct prn_field *p,
                       struct prn_profile_input *input)
{
    if (!prn_field_is_object(r, p))
        return;
    input->name = prn_field_text(r, p, "name");
    input->dtype = read_dtype(r, p);
    input->source = prn_field_text_or_null(r, p, "source");
    struct prn_field shape = prn_field_member(p, "shape");
    input->rank = prn_field_count(r, &shape, PRN_RANK_MAX);
    int64_t *dims = prn_field_array(r, input->rank, sizeof *dims);
    for (size_t i = 0; i < input->rank && r->code == 0; i++) {
        struct prn_field dim = prn_field_element(&shape, i);
        dims[i] = prn_field_integer_at(r, &dim, 0, INT64_MAX);
    }
    input->dims = dims;
}

static void read_swept(struct prn_fields *r, const struct prn_field *in, struct prn_point *point)
{
    struct prn_field p = prn_field_member(in, "swept");
    if (!p.value)
        return;
    size_t n = prn_field_count(r, &p, SWEPT_MAX);
    point->swept = prn_field_array(r, n, sizeof *point->swept);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        if (!prn_field_is_object(r, &at))
            return;
        point->swept[i].name = prn_field_text(r, &at, "name");
        point->swept[i].size = prn_field_integer_or_null(r, &at, "size");
        point->n_swept = i + 1;
    }
}

static void read_point(struct prn_fields *r, const struct prn_field *p, struct prn_point *point)
{
    if (!prn_field_is_object(r, p))
        return;
    point->label = prn_field_text(r, p, "label");
    read_swept(r, p, point);
    point->batch = prn_field_integer(r, p, "batch", 1, INT64_MAX);
    point->flops = prn_field_number_or_null(r, p, "flops");
    point->flops_complete = prn_field_bool(r, p, "flops_complete");
    struct prn_field inputs = prn_field_member(p, "inputs");
    size_t n = prn_field_count(r, &inputs, ENTRIES_MAX);
    point->inputs = prn_field_array(r, n, sizeof *point->inputs);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field input = prn_field_element(&inputs, i);
        read_input(r, &input, &point->inputs[i]);
        point->n_inputs = i + 1;
    }
}

static void read_points(struct prn_fields *r, const struct prn_field *top,
                        struct prn_profile *profile)
{
    struct prn_field p = prn_field_member(top, "points");
    size_t n = prn_field_count(r, &p, PRN_RESULTS_MAX);
    profile->points = prn_field_array(r, n, sizeof *profile->points);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field point = prn_field_element(&p, i);
        read_point(r, &point, &profile->points[i]);
        if (profile->points[i].n_swept != profile->points[0].n_swept)
            prn_field_fault(r, &point, "has not as many swept sizes as the first");
        profile->n_points = i + 1;
    }
}

static void read_settings(struct prn_fields *r, const struct prn_field *in, struct prn_settings *s)
{
    if (!prn_field_is_object(r, in))
        return;
    s->seed = (uint64_t)prn_field_integer(r, in, "seed", INT64_MIN, INT64_MAX);
    s->precision = prn_field_number_or_null(r, in, "precision");
    s->smallest_difference = prn_field_number_or_null(r, in, "smallest_difference");
    s->launches = prn_field_integer(r, in, "launches", 0, INT64_MAX);
    s->repeats = prn_field_integer(r, in, "repeats", 0, INT64_MAX);
    s->warmups = prn_field_integer(r, in, "warmups", -1, INT64_MAX);
    s->max_time_s = prn_field_number_or_null(r, in, "max_time_s");
    s->tolerance = prn_field_number_or_null(r, in, "tolerance");
    s->reference = prn_field_text_or_null(r, in, "reference");
}

int prn_settings_parse_json(const char *text, size_t len, struct prn_arena *arena,
                            struct prn_settings *ret_settings, struct prony_error *err)
{
    json_t *root;
    int code = prn_json_parse(text, len, "settings", &root, err);
    if (code < 0)
        return code;
    struct prn_fields r = {.name = "settings", .what = "measurement", .arena = arena, .err = err};
    struct prn_settings settings = {0};
    read_settings(&r, &(struct prn_field){.value = root}, &settings);
    json_decref(root);
    if (r.code == 0)
        *ret_settings = settings;
    return r.code;
}

static void read_machine(struct prn_fields *r, const struct prn_field *p, struct prn_environment *e)
{
    if (!prn_field_is_object(r, p))
        return;
    e->cpu = prn_field_text_or_null(r, p, "cpu");
    e->cores = prn_field_integer_or_null(r, p, "cores");
    e->mhz = prn_field_number_or_null(r, p, "mhz");
    e->memory_bytes = prn_field_integer_or_null(r, p, "memory_bytes");
    e->os = prn_field_text_or_null(r, p, "os");
    e->kernel = prn_field_text_or_null(r, p, "kernel");
    e->load_before = prn_field_number_or_null(r, p, "load_before");
    e->load_after = prn_field_number_or_null(r, p, "load_after");
    e->sandbox = prn_field_text_or_null(r, p, "sandbox");
}

static void read_hosts(struct prn_fields *r, const struct prn_field *top,
                       struct prn_profile *profile)
{
    struct prn_field p = prn_field_member(top, "hosts");
    if (!p.value)
        return;
    size_t n = prn_field_count(r, &p, PRN_RESULTS_MAX);
    profile->hosts = prn_field_array(r, n, sizeof *profile->hosts);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        struct prn_profile_host *host = &profile->hosts[i];
        read_machine(r, &at, &host->environment);
        host->hardware = prn_field_text(r, &at, "hardware");
        host->timer_ns = prn_field_number_or_null(r, &at, "timer_ns");
        host->canary_best_ns = prn_field_number_or_null(r, &at, "canary_best_ns");
        profile->n_hosts = i + 1;
    }
}

static void read_notes(struct prn_fields *r, const struct prn_field *top,
                       struct prn_profile *profile)
{
    struct prn_field p = prn_field_member(top, "notes");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    profile->notes = prn_field_array(r, n, sizeof *profile->notes);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field note = prn_field_element(&p, i);
        profile->notes[i] = prn_field_text_at(r, &note);
        profile->n_notes = i + 1;
    }
}

/* ---- Parts of a result ---- */

static void read_backend(struct prn_fields *r, const struct prn_field *in,
                         struct prn_result *result)
{
    struct prn_field p = prn_field_member(in, "backend");
    if (!prn_field_is_object(r, &p))
        return;
    result->name = prn_field_text(r, &p, "name");
    result->hardware = prn_field_text(r, &p, "hardware");
    result->software = prn_field_text(r, &p, "software");
    result->processor = prn_field_text_or_null(r, &p, "processor");
    result->usd_per_hour = prn_field_number_or_null(r, &p, "usd_per_hour");
    result->runtime_version = prn_field_text_or_null(r, &p, "runtime_version");
    result->runtime_library = prn_field_text_or_null(r, &p, "library");
}

static void read_verdict(struct prn_fields *r, const struct prn_field *in,
                         struct prn_result *result)
{
    const char *name = prn_field_text(r, in, "verdict");
    for (int i = 0; name && i < PRN_VERDICT_COUNT; i++)
        if (strcmp(name, prn_verdict_names[i]) == 0) {
            result->verdict = (enum prn_verdict)i;
            return;
        }
    struct prn_field p = prn_field_member(in, "verdict");
    prn_field_fault(r, &p, "is not a verdict");
}

static void read_stats(struct prn_fields *r, const struct prn_field *in, struct prn_sample_stats *s)
{
    struct prn_field p = prn_field_member(in, "stats");
    if (!prn_field_is_object(r, &p))
        return;
    s->median_ns = prn_field_number_or_null(r, &p, "median_ns");
    s->low_ns = prn_field_number_or_null(r, &p, "low_ns");
    s->high_ns = prn_field_number_or_null(r, &p, "high_ns");
    s->mean_ns = prn_field_number_or_null(r, &p, "mean_ns");
    s->sd_ns = prn_field_number_or_null(r, &p, "sd_ns");
    s->min_ns = prn_field_number_or_null(r, &p, "min_ns");
    s->max_ns = prn_field_number_or_null(r, &p, "max_ns");
#define PRN_X(name, fraction) s->name##_ns = prn_field_number_or_null(r, &p, #name "_ns");
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    s->spread = prn_field_number_or_null(r, &p, "spread");
    s->outliers = prn_field_integer(r, &p, "outliers", 0, INT64_MAX);
}

static void read_launches(struct prn_fields *r, const struct prn_field *in,
                          struct prn_result *result)
{
    struct prn_field p = prn_field_member(in, "launches");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    result->launches = prn_field_array(r, n, sizeof *result->launches);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        struct prn_launch *launch = &result->launches[i];
        result->n_launches = i + 1;
        if (!prn_field_is_object(r, &at))
            return;
        launch->load_ns = prn_field_integer_or_null(r, &at, "load_ns");
        launch->first_run_ns = prn_field_integer_or_null(r, &at, "first_run_ns");
        launch->baseline_bytes = prn_field_integer_or_null(r, &at, "baseline_bytes");
        launch->peak_bytes = prn_field_integer_or_null(r, &at, "peak_bytes");
        launch->warmup_runs = (int32_t)prn_field_integer(r, &at, "warmup_runs", 0, INT32_MAX);
        launch->settled = prn_field_bool(r, &at, "settled");
    }
}

static void read_outputs(struct prn_fields *r, const struct prn_field *in,
                         struct prn_result *result)
{
    struct prn_field p = prn_field_member(in, "outputs");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    result->outputs = prn_field_array(r, n, sizeof *result->outputs);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        struct prn_output_check *output = &result->outputs[i];
        result->n_outputs = i + 1;
        if (!prn_field_is_object(r, &at))
            return;
        output->name = prn_field_text(r, &at, "name");
        output->same_shape = prn_field_bool(r, &at, "same_shape");
        output->max_abs = prn_field_number_or_null(r, &at, "max_abs");
        output->max_rel = prn_field_number_or_null(r, &at, "max_rel");
        output->cosine = prn_field_number_at_least(r, &at, "cosine", -2);
    }
}

static void read_samples(struct prn_fields *r, const struct prn_field *in,
                         struct prn_result *result)
{
    struct prn_field times = prn_field_member(in, "samples_ns");
    struct prn_field launches = prn_field_member(in, "launch");
    struct prn_field blocks = prn_field_member(in, "block");
    size_t n = prn_field_count(r, &times, SIZE_MAX);
    if (prn_field_count(r, &launches, SIZE_MAX) != n)
        prn_field_fault(r, &launches, "is not as long as samples_ns");
    if (prn_field_count(r, &blocks, SIZE_MAX) != n)
        prn_field_fault(r, &blocks, "is not as long as samples_ns");
    if (r->code < 0)
        return;
    result->samples = prn_field_array(r, n, sizeof *result->samples);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&times, i);
        result->samples[i].ns = prn_field_integer_at(r, &at, 0, INT64_MAX);
        at = prn_field_element(&launches, i);
        result->samples[i].launch = (int32_t)prn_field_integer_at(r, &at, 0, INT32_MAX);
        at = prn_field_element(&blocks, i);
        result->samples[i].block = (int32_t)prn_field_integer_at(r, &at, 0, INT32_MAX);
        result->n_samples = i + 1;
    }
}

static void read_result(struct prn_fields *r, const struct prn_field *p, size_t n_points,
                        struct prn_result *result)
{
    if (!prn_field_is_object(r, p))
        return;
    read_backend(r, p, result);
    result->point =
        (size_t)prn_field_integer(r, p, "point", 0, n_points > 0 ? (int64_t)n_points - 1 : 0);
    result->error = prn_part_read_error(r, p, &result->error_code);
    result->flags = prn_part_read_flags(r, p);
    read_verdict(r, p, result);
    result->ratio = prn_part_read_interval(r, p, "ratio");
    read_launches(r, p, result);
    result->redone_blocks = prn_field_integer(r, p, "redone_blocks", 0, INT64_MAX);
    read_outputs(r, p, result);
    result->ops = prn_ops_read_json(r, p);
    read_samples(r, p, result);
    result->load = prn_load_read(r, p);
    if (result->n_samples > 0)
        read_stats(r, p, &result->stats);
}

static void read_results(struct prn_fields *r, const struct prn_field *top,
                         struct prn_profile *profile)
{
    struct prn_field p = prn_field_member(top, "results");
    size_t n = prn_field_count(r, &p, PRN_RESULTS_MAX);
    profile->results = prn_field_array(r, n, sizeof *profile->results);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field result = prn_field_element(&p, i);
        read_result(r, &result, profile->n_points, &profile->results[i]);
        profile->n_results = i + 1;
    }
}

/* ---- The whole ---- */

static void check_schema(struct prn_fields *r, const struct prn_field *top)
{
    const char *schema = json_string_value(json_object_get(top->value, "schema"));
    const char *family = "prony.profile/";
    if (schema && strcmp(schema, PRN_PROFILE_SCHEMA) == 0)
        return;
    if (!schema)
        r->code = prn_fail(r->err, PRONY_EFORMAT,
                           "'%s' is not a profile: it is JSON without a \"schema\"", r->name);
    else if (strncmp(schema, family, strlen(family)) == 0)
        r->code = prn_fail(r->err, PRONY_EUNSUPPORTED,
                           "'%s' has schema '%.40s', but prony %s reads '%s': use a newer prony",
                           r->name, schema, prony_version(), PRN_PROFILE_SCHEMA);
    else
        r->code = prn_fail(r->err, PRONY_EFORMAT,
                           "'%s' is not a profile: its schema is '%.40s', not '%s'", r->name,
                           schema, PRN_PROFILE_SCHEMA);
}

static void read_profile(struct prn_fields *r, const json_t *root, struct prn_profile *profile)
{
    struct prn_field top = {.value = root};
    check_schema(r, &top);
    if (r->code < 0)
        return;
    profile->prony_version = prn_field_text_or_null(r, &top, "prony_version");
    profile->created = prn_field_text_or_null(r, &top, "created");
    read_model(r, &top, profile);
    read_points(r, &top, profile);
    struct prn_field settings = prn_field_member(&top, "settings");
    read_settings(r, &settings, &profile->settings);
    struct prn_field environment = prn_field_member(&top, "environment");
    read_machine(r, &environment, &profile->environment);
    read_hosts(r, &top, profile);
    profile->timer_ns = prn_field_number_or_null(r, &top, "timer_ns");
    struct prn_field canary = prn_field_member(&top, "canary");
    if (prn_field_is_object(r, &canary))
        profile->canary_best_ns = prn_field_number_or_null(r, &canary, "best_ns");
    read_notes(r, &top, profile);
    read_results(r, &top, profile);
    if (profile->recorded)
        prn_recorded_read_json(r, &top, profile);
    else
        prn_recorded_refuse_json(r, &top);
}

/* Consumes the tree. */
static int take_tree(json_t *root, const char *name, struct prn_profile **ret_profile,
                     struct prony_error *err)
{
    struct prn_profile *profile = prn_profile_new();
    int code;
    if (profile) {
        struct prn_fields r = {
            .name = name, .what = "profile", .arena = &profile->arena, .err = err};
        read_profile(&r, root, profile);
        code = r.code;
    } else {
        code = prn_fail_memory(err);
    }
    json_decref(root);
    if (code < 0)
        prn_profile_free(profile);
    else
        *ret_profile = profile;
    return code;
}

int prn_profile_parse_json(const char *data, size_t len, const char *name,
                           struct prn_profile **ret_profile, struct prony_error *err)
{
    json_t *root = NULL;
    int code = prn_json_parse(data, len, name, &root, err);
    return code < 0 ? code : take_tree(root, name, ret_profile, err);
}

int prn_profile_read_json(const char *path, struct prn_profile **ret_profile,
                          struct prony_error *err)
{
    json_t *root = NULL;
    int code = prn_json_read(path, PRN_PROFILE_FILE_MAX, &root, err);
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    return code < 0 ? code : take_tree(root, name, ret_profile, err);
}
