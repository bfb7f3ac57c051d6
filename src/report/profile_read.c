/*
 * Reads a profile from JSON. Each value is taken by a function that checks its kind and range; the
 * first fault sticks in the reader and later calls do nothing, so that a struct is read as a list
 * of fields and checked once. The place of a value is a chain of keys and indices on the stack,
 * turned into text only when there is a fault.
 */
#include "report/profile_json.h"

#include "format/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds on what a report has to lay out; a profile of our own stays far below them. */
#define RESULTS_MAX 1000
#define ENTRIES_MAX 100000
#define TEXT_MAX 8192

struct reader {
    const char *name; /* of the file */
    struct prn_arena *arena;
    struct prony_error *err;
    int code; /* the first fault */
};

/* Where a value stands: under a key, or at an index of an array (key NULL). */
struct place {
    const struct place *in;
    const char *key;
    size_t index;
    const json_t *value;
};

static void add_place(struct prn_buffer *out, const struct place *p)
{
    if (!p->in)
        return;
    add_place(out, p->in);
    if (!p->key)
        prn_buffer_printf(out, "[%zu]", p->index);
    else
        prn_buffer_printf(out, "%s%s", p->in->in ? "." : "", p->key);
}

static void fault(struct reader *r, const struct place *p, const char *what)
{
    if (r->code < 0)
        return;
    struct prn_buffer where = PRN_BUFFER_INIT(4096);
    add_place(&where, p);
    r->code = prn_fail(r->err, PRONY_EFORMAT, "'%s' is not a valid profile: %s %s", r->name,
                       prn_buffer_text(&where), what);
    prn_buffer_release(&where);
}

static struct place member(const struct place *in, const char *key)
{
    return (struct place){in, key, 0, json_object_get(in->value, key)};
}

static struct place element(const struct place *in, size_t index)
{
    return (struct place){in, NULL, index, json_array_get(in->value, index)};
}

static void *array_of(struct reader *r, size_t count, size_t size)
{
    void *array = prn_arena_array(r->arena, count, size);
    if (!array && r->code == 0)
        r->code = prn_fail_memory(r->err);
    return array;
}

/* ---- Values ---- */

static bool is_absent(struct reader *r, const struct place *p)
{
    if (!p->value)
        fault(r, p, "is missing");
    return !p->value;
}

static const char *text_at(struct reader *r, const struct place *p)
{
    if (is_absent(r, p))
        return NULL;
    if (!json_is_string(p->value)) {
        fault(r, p, "is not a text");
        return NULL;
    }
    if (json_string_length(p->value) > TEXT_MAX) {
        fault(r, p, "is too long");
        return NULL;
    }
    const char *copy = prn_arena_strdup(r->arena, json_string_value(p->value));
    if (!copy && r->code == 0)
        r->code = prn_fail_memory(r->err);
    return copy;
}

static const char *text(struct reader *r, const struct place *in, const char *key)
{
    struct place p = member(in, key);
    return text_at(r, &p);
}

static const char *text_or_null(struct reader *r, const struct place *in, const char *key)
{
    struct place p = member(in, key);
    return json_is_null(p.value) ? NULL : text_at(r, &p);
}

static double number_at_least(struct reader *r, const struct place *in, const char *key, double min)
{
    struct place p = member(in, key);
    if (is_absent(r, &p) || json_is_null(p.value))
        return NAN;
    if (!json_is_number(p.value)) {
        fault(r, &p, "is not a number");
        return NAN;
    }
    double value = json_number_value(p.value);
    if (!isfinite(value) || value < min) {
        fault(r, &p, "is out of range");
        return NAN;
    }
    return value;
}

/* Almost everything that a profile holds is a size, a time or a ratio: never negative. */
static double number_or_null(struct reader *r, const struct place *in, const char *key)
{
    return number_at_least(r, in, key, 0);
}

static int64_t integer_at(struct reader *r, const struct place *p, int64_t min, int64_t max)
{
    if (is_absent(r, p))
        return 0;
    if (!json_is_integer(p->value)) {
        fault(r, p, "is not an integer");
        return 0;
    }
    int64_t value = json_integer_value(p->value);
    if (value < min || value > max) {
        fault(r, p, "is out of range");
        return 0;
    }
    return value;
}

static int64_t integer(struct reader *r, const struct place *in, const char *key, int64_t min,
                       int64_t max)
{
    struct place p = member(in, key);
    return integer_at(r, &p, min, max);
}

/* -1 for null. */
static int64_t integer_or_null(struct reader *r, const struct place *in, const char *key)
{
    struct place p = member(in, key);
    return json_is_null(p.value) ? -1 : integer_at(r, &p, 0, INT64_MAX);
}

static bool boolean(struct reader *r, const struct place *in, const char *key)
{
    struct place p = member(in, key);
    if (!is_absent(r, &p) && !json_is_boolean(p.value))
        fault(r, &p, "is not true or false");
    return json_is_true(p.value);
}

/* False, with a fault, when the value isn't an object. */
static bool check_object(struct reader *r, const struct place *p)
{
    if (is_absent(r, p))
        return false;
    if (!json_is_object(p->value))
        fault(r, p, "is not an object");
    return json_is_object(p->value);
}

static size_t array_size(struct reader *r, const struct place *p, size_t max)
{
    if (is_absent(r, p))
        return 0;
    if (!json_is_array(p->value)) {
        fault(r, p, "is not an array");
        return 0;
    }
    if (json_array_size(p->value) > max) {
        fault(r, p, "has too many entries");
        return 0;
    }
    return json_array_size(p->value);
}

/* ---- Parts of a profile ---- */

static void read_model(struct reader *r, const struct place *top, struct prn_profile *profile)
{
    struct place p = member(top, "model");
    if (!check_object(r, &p))
        return;
    profile->model_path = text(r, &p, "path");
    profile->model_bytes = integer_or_null(r, &p, "bytes");
    profile->model_parameters = integer_or_null(r, &p, "parameters");
    profile->model_flops = number_or_null(r, &p, "flops");
    profile->flops_complete = boolean(r, &p, "flops_complete");
    profile->batch = integer(r, &p, "batch", 1, INT64_MAX);
}

static int read_dtype(struct reader *r, const struct place *in)
{
    const char *name = text(r, in, "type");
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
    struct place p = member(in, "type");
    fault(r, &p, "is not a tensor type");
    return PRN_DTYPE_UNDEFINED;
}

static void read_input(struct reader *r, const struct place *p, struct prn_profile_input *input)
{
    if (!check_object(r, p))
        return;
    input->name = text(r, p, "name");
    input->dtype = read_dtype(r, p);
    input->source = text_or_null(r, p, "source");
    struct place shape = member(p, "shape");
    input->rank = array_size(r, &shape, PRN_RANK_MAX);
    int64_t *dims = array_of(r, input->rank, sizeof *dims);
    for (size_t i = 0; i < input->rank && r->code == 0; i++) {
        struct place dim = element(&shape, i);
        dims[i] = integer_at(r, &dim, 0, INT64_MAX);
    }
    input->dims = dims;
}

static void read_inputs(struct reader *r, const struct place *top, struct prn_profile *profile)
{
    struct place p = member(top, "inputs");
    size_t n = array_size(r, &p, ENTRIES_MAX);
    profile->inputs = array_of(r, n, sizeof *profile->inputs);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place input = element(&p, i);
        read_input(r, &input, &profile->inputs[i]);
        profile->n_inputs = i + 1;
    }
}

static void read_settings(struct reader *r, const struct place *top, struct prn_settings *s)
{
    struct place p = member(top, "settings");
    if (!check_object(r, &p))
        return;
    s->seed = (uint64_t)integer(r, &p, "seed", INT64_MIN, INT64_MAX);
    s->precision = number_or_null(r, &p, "precision");
    s->smallest_difference = number_or_null(r, &p, "smallest_difference");
    s->launches = integer(r, &p, "launches", 0, INT64_MAX);
    s->repeats = integer(r, &p, "repeats", 0, INT64_MAX);
    s->warmups = integer(r, &p, "warmups", -1, INT64_MAX);
    s->max_time_s = number_or_null(r, &p, "max_time_s");
}

static void read_environment(struct reader *r, const struct place *top, struct prn_environment *e)
{
    struct place p = member(top, "environment");
    if (!check_object(r, &p))
        return;
    e->cpu = text_or_null(r, &p, "cpu");
    e->cores = integer_or_null(r, &p, "cores");
    e->mhz = number_or_null(r, &p, "mhz");
    e->memory_bytes = integer_or_null(r, &p, "memory_bytes");
    e->os = text_or_null(r, &p, "os");
    e->kernel = text_or_null(r, &p, "kernel");
    e->load_before = number_or_null(r, &p, "load_before");
    e->load_after = number_or_null(r, &p, "load_after");
    e->sandbox = text_or_null(r, &p, "sandbox");
}

static void read_notes(struct reader *r, const struct place *top, struct prn_profile *profile)
{
    struct place p = member(top, "notes");
    size_t n = array_size(r, &p, ENTRIES_MAX);
    profile->notes = array_of(r, n, sizeof *profile->notes);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place note = element(&p, i);
        profile->notes[i] = text_at(r, &note);
        profile->n_notes = i + 1;
    }
}

/* ---- Parts of a result ---- */

static void read_backend(struct reader *r, const struct place *in, struct prn_result *result)
{
    struct place p = member(in, "backend");
    if (!check_object(r, &p))
        return;
    result->name = text(r, &p, "name");
    result->hardware = text(r, &p, "hardware");
    result->software = text(r, &p, "software");
    result->processor = text_or_null(r, &p, "processor");
    result->usd_per_hour = number_or_null(r, &p, "usd_per_hour");
    result->runtime_version = text_or_null(r, &p, "runtime_version");
    result->runtime_library = text_or_null(r, &p, "library");
}

static void read_error(struct reader *r, const struct place *in, struct prn_result *result)
{
    struct place p = member(in, "error");
    if (json_is_null(p.value) || !check_object(r, &p))
        return;
    const char *name = text(r, &p, "code");
    result->error = text(r, &p, "message");
#define PRONY_X(symbol, number, message)             \
    if (name && strcmp(name, "PRONY_" #symbol) == 0) \
        result->error_code = number;
    PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
    struct place code = member(&p, "code");
    if (result->error_code == 0)
        fault(r, &code, "is not an error code");
}

static void read_flags(struct reader *r, const struct place *in, struct prn_result *result)
{
    struct place p = member(in, "flags");
    size_t n = array_size(r, &p, ENTRIES_MAX);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place flag = element(&p, i);
        const char *name = text_at(r, &flag);
        unsigned found = 0;
#define PRN_X(symbol, bit, meaning)         \
    if (name && strcmp(name, #symbol) == 0) \
        found = bit;
        PRN_FLAG_MAP(PRN_X)
#undef PRN_X
        if (!found)
            fault(r, &flag, "is not a flag");
        result->flags |= found;
    }
}

static void read_verdict(struct reader *r, const struct place *in, struct prn_result *result)
{
    const char *name = text(r, in, "verdict");
    for (int i = 0; name && i < PRN_VERDICT_COUNT; i++)
        if (strcmp(name, prn_verdict_names[i]) == 0) {
            result->verdict = (enum prn_verdict)i;
            return;
        }
    struct place p = member(in, "verdict");
    fault(r, &p, "is not a verdict");
}

static void read_ratio(struct reader *r, const struct place *in, struct prn_interval *ratio)
{
    struct place p = member(in, "ratio");
    *ratio = (struct prn_interval){NAN, NAN, NAN};
    if (json_is_null(p.value) || !check_object(r, &p))
        return;
    ratio->estimate = number_or_null(r, &p, "estimate");
    ratio->low = number_or_null(r, &p, "low");
    ratio->high = number_or_null(r, &p, "high");
}

static void read_stats(struct reader *r, const struct place *in, struct prn_sample_stats *s)
{
    struct place p = member(in, "stats");
    if (!check_object(r, &p))
        return;
    s->median_ns = number_or_null(r, &p, "median_ns");
    s->low_ns = number_or_null(r, &p, "low_ns");
    s->high_ns = number_or_null(r, &p, "high_ns");
    s->mean_ns = number_or_null(r, &p, "mean_ns");
    s->sd_ns = number_or_null(r, &p, "sd_ns");
    s->min_ns = number_or_null(r, &p, "min_ns");
    s->max_ns = number_or_null(r, &p, "max_ns");
#define PRN_X(name, fraction) s->name##_ns = number_or_null(r, &p, #name "_ns");
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    s->spread = number_or_null(r, &p, "spread");
    s->outliers = integer(r, &p, "outliers", 0, INT64_MAX);
}

static void read_launches(struct reader *r, const struct place *in, struct prn_result *result)
{
    struct place p = member(in, "launches");
    size_t n = array_size(r, &p, ENTRIES_MAX);
    result->launches = array_of(r, n, sizeof *result->launches);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place at = element(&p, i);
        struct prn_launch *launch = &result->launches[i];
        result->n_launches = i + 1;
        if (!check_object(r, &at))
            return;
        launch->load_ns = integer_or_null(r, &at, "load_ns");
        launch->first_run_ns = integer_or_null(r, &at, "first_run_ns");
        launch->baseline_bytes = integer_or_null(r, &at, "baseline_bytes");
        launch->peak_bytes = integer_or_null(r, &at, "peak_bytes");
        launch->warmup_runs = (int32_t)integer(r, &at, "warmup_runs", 0, INT32_MAX);
        launch->settled = boolean(r, &at, "settled");
    }
}

static void read_outputs(struct reader *r, const struct place *in, struct prn_result *result)
{
    struct place p = member(in, "outputs");
    size_t n = array_size(r, &p, ENTRIES_MAX);
    result->outputs = array_of(r, n, sizeof *result->outputs);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place at = element(&p, i);
        struct prn_output_check *output = &result->outputs[i];
        result->n_outputs = i + 1;
        if (!check_object(r, &at))
            return;
        output->name = text(r, &at, "name");
        output->same_shape = boolean(r, &at, "same_shape");
        output->max_abs = number_or_null(r, &at, "max_abs");
        output->max_rel = number_or_null(r, &at, "max_rel");
        output->cosine = number_at_least(r, &at, "cosine", -2);
    }
}

static void read_samples(struct reader *r, const struct place *in, struct prn_result *result)
{
    struct place times = member(in, "samples_ns");
    struct place launches = member(in, "launch");
    struct place blocks = member(in, "block");
    size_t n = array_size(r, &times, SIZE_MAX);
    if (array_size(r, &launches, SIZE_MAX) != n)
        fault(r, &launches, "is not as long as samples_ns");
    if (array_size(r, &blocks, SIZE_MAX) != n)
        fault(r, &blocks, "is not as long as samples_ns");
    if (r->code < 0)
        return;
    result->samples = array_of(r, n, sizeof *result->samples);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place at = element(&times, i);
        result->samples[i].ns = integer_at(r, &at, 0, INT64_MAX);
        at = element(&launches, i);
        result->samples[i].launch = (int32_t)integer_at(r, &at, 0, INT32_MAX);
        at = element(&blocks, i);
        result->samples[i].block = (int32_t)integer_at(r, &at, 0, INT32_MAX);
        result->n_samples = i + 1;
    }
}

static void read_result(struct reader *r, const struct place *p, struct prn_result *result)
{
    if (!check_object(r, p))
        return;
    read_backend(r, p, result);
    read_error(r, p, result);
    read_flags(r, p, result);
    read_verdict(r, p, result);
    read_ratio(r, p, &result->ratio);
    read_launches(r, p, result);
    result->redone_blocks = integer(r, p, "redone_blocks", 0, INT64_MAX);
    read_outputs(r, p, result);
    read_samples(r, p, result);
    if (result->n_samples > 0)
        read_stats(r, p, &result->stats);
}

static void read_results(struct reader *r, const struct place *top, struct prn_profile *profile)
{
    struct place p = member(top, "results");
    size_t n = array_size(r, &p, RESULTS_MAX);
    profile->results = array_of(r, n, sizeof *profile->results);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct place result = element(&p, i);
        read_result(r, &result, &profile->results[i]);
        profile->n_results = i + 1;
    }
}

/* ---- The whole ---- */

static void check_schema(struct reader *r, const struct place *top)
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

static void read_profile(struct reader *r, const json_t *root, struct prn_profile *profile)
{
    struct place top = {.value = root};
    check_schema(r, &top);
    if (r->code < 0)
        return;
    profile->prony_version = text_or_null(r, &top, "prony_version");
    profile->created = text_or_null(r, &top, "created");
    read_model(r, &top, profile);
    read_inputs(r, &top, profile);
    read_settings(r, &top, &profile->settings);
    read_environment(r, &top, &profile->environment);
    profile->timer_ns = number_or_null(r, &top, "timer_ns");
    struct place canary = member(&top, "canary");
    if (check_object(r, &canary))
        profile->canary_best_ns = number_or_null(r, &canary, "best_ns");
    read_notes(r, &top, profile);
    read_results(r, &top, profile);
}

/* Consumes the tree. */
static int take_tree(json_t *root, const char *name, struct prn_profile **ret_profile,
                     struct prony_error *err)
{
    struct prn_profile *profile = prn_profile_new();
    int code;
    if (profile) {
        struct reader r = {.name = name, .arena = &profile->arena, .err = err};
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
