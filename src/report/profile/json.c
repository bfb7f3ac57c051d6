/* The tables of a profile, and what must hold between its members. */
#include "report/profile/json.h"

#include "report/load/json.h"
#include "report/machine/report.h"
#include "report/memory/json.h"
#include "report/ops/json.h"
#include "report/profile/parts.h"
#include "report/recorded/json.h"
#include "report/verdict.h"

#include <stdlib.h>
#include <string.h>

#define SWEPT_MAX 256

/* ---- What results were fed ---- */

static void write_dtype(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_profile_input *input = record;
    prn_json_text(w, key, prn_dtype_name(input->dtype));
}

static void read_dtype(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_profile_input *input = record;
    const char *name = prn_field_text_at(r, at);
    if (!name)
        return;
#define PRN_X(number, symbol, text, bits) \
    if (strcmp(name, text) == 0) {        \
        input->dtype = number;            \
        return;                           \
    }
    PRN_DTYPE_MAP(PRN_X)
#undef PRN_X
    /* A type without a name here: written as "type 99". */
    long number = strncmp(name, "type ", 5) == 0 ? strtol(name + 5, NULL, 10) : -1;
    if (number >= 0 && number <= INT32_MAX && strcmp(prn_dtype_name((int)number), name) == 0)
        input->dtype = (int)number;
    else
        prn_field_fault(r, at, "is not a tensor type");
}

#define PRN_OF struct prn_profile_input
static const struct prn_member input_members[] = {
    PRN_TEXT(name, "Its name in the model."),
    PRN_ROW(TEXT, dtype, "Element type, as ONNX names it.", .key = "type", .write = write_dtype,
            .read = read_dtype),
    PRN_ARRAY(dims, rank, &prn_integer_schema, "Its dimensions; empty for a scalar.",
              .key = "shape", .max = PRN_RANK_MAX),
    PRN_TEXT(source, "Where its values came from.", .flags = PRN_NULL),
};
static const struct prn_schema input_schema = PRN_SCHEMA("Input", input_members, "One input.");
#undef PRN_OF

#define PRN_OF struct prn_swept
static const struct prn_member swept_members[] = {
    PRN_TEXT(name, "Of the dimension or of the input."),
    PRN_INTEGER(size, "Size of the dimension; null: the shape of the input of that name.",
                .flags = PRN_NULL),
};
static const struct prn_schema swept_schema =
    PRN_SCHEMA("Swept", swept_members, "One size or shape.");
#undef PRN_OF

static void check_point(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_profile *profile = r->context;
    const struct prn_point *point = record;
    if (point->n_swept != profile->points[0].n_swept)
        prn_field_fault(r, at, "has a different number of swept sizes than the first");
}

#define PRN_OF struct prn_point
static const struct prn_member point_members[] = {
    PRN_TEXT(label, "What a sweep set, e.g. \"batch=4, seq=128\"; empty without one."),
    PRN_ARRAY(swept, n_swept, &swept_schema,
              "What the sweep set, in parts; absent without one. Every point has as many.",
              .max = SWEPT_MAX, .flags = PRN_OMIT),
    PRN_INTEGER(batch, "Items in one run: the first dimension, where all inputs and outputs share "
                       "it and its name doesn't say that it is something else; otherwise 1. With "
                       "0 there are no figures per item."),
    PRN_NUMBER(flops, "Floating-point operations of one run; a multiply-add counts as two."),
    PRN_BOOL(flops_complete, "All operators could be counted; otherwise flops is a lower bound."),
    PRN_ARRAY(inputs, n_inputs, &input_schema, "What was fed."),
    PRN_ARRAY(outputs, n_outputs, &prn_output_schema,
              "What this model gives, compared with what the first one gives.", .flags = PRN_OMIT),
    PRN_INTEGER(outputs_differing, "How many of them differ by more than rounding.",
                .flags = PRN_OMIT),
};
static const struct prn_schema point_schema =
    PRN_SCHEMA("Point", point_members, "What results were fed.", .check = check_point);
#undef PRN_OF

/* ---- How and where ---- */

#define PRN_OF struct prn_settings
static const struct prn_member settings_members[] = {PRN_SETTINGS_LIST(PRN_DESCRIBE)};
static const struct prn_schema settings_schema =
    PRN_SCHEMA("Settings", settings_members, "How it was measured.");
#undef PRN_OF

#define PRN_OF struct prn_environment
static const struct prn_member environment_members[] = {PRN_ENVIRONMENT_LIST(PRN_DESCRIBE)};
static const struct prn_schema environment_schema =
    PRN_SCHEMA("Environment", environment_members, "A machine.");
#undef PRN_OF

#define TIMER "Cost of reading the clock, which is part of every sample."
#define CANARY "Shortest time of a fixed piece of work that shows disturbance."

#define PRN_OF struct prn_profile_host
static const struct prn_member host_members[] = {
    PRN_TEXT(hardware, "Its name at the service; results with this hardware are its own."),
    PRN_INLINE(environment, &environment_schema),
    PRN_NUMBER(timer_ns, TIMER),
    PRN_NUMBER(canary_best_ns, CANARY),
};
static const struct prn_schema host_schema =
    PRN_SCHEMA("Host", host_members, "A host, and the machine that it is.");
#undef PRN_OF

/* ---- Results ---- */

#define PRN_OF struct prn_launch
static const struct prn_member launch_members[] = {PRN_LAUNCH_LIST(PRN_DESCRIBE)};
static const struct prn_schema launch_schema = PRN_SCHEMA("Launch", launch_members, "One process.");
#undef PRN_OF

/* Samples are columns in JSON. */
#define PRN_OF struct prn_sample
static const struct prn_member time_members[] = {{.kind = PRN_KIND_INTEGER, PRN_AT(ns)}};
static const struct prn_schema time_schema = PRN_SCHEMA(NULL, time_members, NULL);
#define COLUMN(member)                                             \
    {                                                              \
        .kind = PRN_KIND_INTEGER, PRN_AT(member), .max = INT32_MAX \
    }
static const struct prn_member in_launch_members[] = {COLUMN(launch)};
static const struct prn_schema in_launch_schema = PRN_SCHEMA(NULL, in_launch_members, NULL);
static const struct prn_member block_members[] = {COLUMN(block)};
static const struct prn_schema block_schema = PRN_SCHEMA(NULL, block_members, NULL);
#undef PRN_OF

static void check_result(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_profile *profile = r->context;
    const struct prn_result *result = record;
    if (result->point >= profile->n_points && result->point > 0)
        prn_part_fault(r, at, "point", "is out of range");
    if (result->n_samples > 0 && json_is_null(prn_field_member(at, "stats").value))
        prn_part_fault(r, at, "stats", "is not an object");
}

/* Only where there is something: profiles of one model are as they always were. */
static void write_model_ratio(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_result *result = record;
    if (result->model_ratio.estimate > 0)
        prn_schema_write(w, key, &prn_interval_schema, &result->model_ratio);
}

#define PRN_OF struct prn_result
static const struct prn_member backend_members[] = {
    PRN_TEXT(name, "What it is called: the name that was given, or its spec, "
                   "hardware/software[option,key=value]."),
    PRN_TEXT(spec, "Its spec where a name was given; absent otherwise.", .flags = PRN_OMIT),
    PRN_TEXT(hardware, "Before the slash; 'local' is the machine that measured."),
    PRN_TEXT(software, "After it, without options."),
    PRN_TEXT(processor, "Null when not known.", .flags = PRN_NULL),
    PRN_NUMBER(usd_per_hour, "Price of the hardware; null when not known."),
    PRN_TEXT(runtime_version, "Null when the runtime never started.", .flags = PRN_NULL),
    PRN_TEXT(runtime_library, "File of the runtime that was loaded.", .key = "library",
             .flags = PRN_NULL),
};
static const struct prn_schema backend_schema = PRN_SCHEMA("Backend", backend_members, "What ran.");

static const struct prn_member error_members[] = {PRN_ERROR_MEMBERS};
static const struct prn_schema error_schema =
    PRN_SCHEMA("Failure", error_members, "Why something failed.");

static const struct prn_member result_stats_members[] = {PRN_INLINE(stats, &prn_stats_schema)};
static const struct prn_schema result_stats_schema =
    PRN_SCHEMA("Stats", result_stats_members, "Statistics of samples.", PRN_PRESENT(n_samples));

static const struct prn_member result_members[] = {
    PRN_PART("backend", &backend_schema, "What ran."),
    PRN_INTEGER(point, "Index of the point that it was fed."),
    PRN_PART("error", &error_schema, "Why it failed; null when it didn't.", .flags = PRN_NULL),
    PRN_FLAGS(flags, prn_flag_names, "Reasons for caution."),
    PRN_CHOICE(verdict, prn_verdict_names,
               "What ratio says with the smallest difference that counts."),
    PRN_OBJECT(ratio, &prn_interval_schema,
               "95 % interval of this time over the best backend's, paired by block; null when "
               "there is nothing to compare.",
               .flags = PRN_NULL),
    PRN_CHOICE(model_verdict, prn_verdict_names + 1, "What model_ratio says, likewise.",
               .flags = PRN_OMIT),
    PRN_OBJECT(model_ratio, &prn_interval_schema,
               "The same of this time over the first model's on the same backend; null when there "
               "is one model.",
               .flags = PRN_NULL | PRN_OMIT, .write = write_model_ratio),
    PRN_PART("stats", &result_stats_schema, "Statistics of samples_ns; null without samples.",
             .flags = PRN_NULL),
    PRN_ARRAY(launches, n_launches, &launch_schema, "The processes that ran this backend."),
    PRN_INTEGER(redone_blocks, "Blocks that were repeated because the canary was slow."),
    PRN_ARRAY(outputs, n_outputs, &prn_output_schema,
              "Outputs compared with those of the reference."),
    PRN_OBJECT(ops, &prn_ops_schema,
               "Where the time goes, from a launch with the runtime's profiler on; null without "
               "--ops.",
               .flags = PRN_POINTER | PRN_NULL | PRN_OLD),
    PRN_ARRAY(samples, n_samples, &time_schema, "Every timed run, in time order.",
              .key = "samples_ns", .max = INT64_MAX, .flags = PRN_BULK),
    PRN_ARRAY(samples, n_samples, &in_launch_schema,
              "For each sample, the index of its process in launches.", .key = "launch",
              .max = INT64_MAX, .flags = PRN_BULK | PRN_ALONGSIDE),
    PRN_ARRAY(samples, n_samples, &block_schema,
              "For each sample, its block; blocks are numbered over all backends, and equal "
              "numbers are paired.",
              .key = "block", .max = INT64_MAX, .flags = PRN_BULK | PRN_ALONGSIDE),
    PRN_OBJECT(memory, &prn_memory_schema,
               "Where the memory goes, from a launch of its own; absent without --memory.",
               .flags = PRN_POINTER | PRN_OMIT),
    PRN_OBJECT(load, &prn_load_schema,
               "How the backend behaves under load; absent when that wasn't asked for.",
               .flags = PRN_POINTER | PRN_OMIT),
};
static const struct prn_schema result_schema =
    PRN_SCHEMA("Result", result_members, "One backend.", .check = check_result);
#undef PRN_OF

/* ---- The whole ---- */

static void write_verdict(struct prn_json_writer *w, const char *key, const void *record)
{
    struct prn_buffer verdict = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prony_error ignored;
    int code = prn_profile_verdict(record, &verdict, &ignored);
    if (code < 0 && !w->out->error)
        w->out->error = code;
    prn_part_take_text(w, key, &verdict);
}

/* It is made again when it is shown, however long it is. */
static void skip_verdict(struct prn_fields *r, const struct prn_field *at, void *record)
{
    (void)record;
    if (!json_is_string(at->value))
        prn_field_fault(r, at, "is not a text");
}

/* ---- Models ---- */

#define PRN_OF struct prn_profile_node
static const struct prn_member graph_node_members[] = {
    PRN_TEXT(name, "Its name, which may be empty."),
    PRN_TEXT(op, "Its operator."),
    PRN_ARRAY(inputs, n_inputs, &prn_integer_schema,
              "The nodes that give its inputs, by their position, each once.",
              .max = PRN_GRAPH_NODES_MAX),
    PRN_INTEGER(value_bytes, "Size of what it gives, at the first point; null when not known.",
                .flags = PRN_NULL),
    PRN_INTEGER(weight_bytes, "Size of the initialisers that it takes."),
};
static const struct prn_schema graph_node_schema =
    PRN_SCHEMA("ModelNode", graph_node_members, "A node of a model's graph.");
#undef PRN_OF

#define PRN_OF struct prn_profile_model
static const struct prn_member model_members[] = {
    PRN_TEXT(path, "As it was given."),
    PRN_INTEGER(bytes, "Size of the file.", .flags = PRN_NULL),
    PRN_INTEGER(parameters, "Elements of all initialisers.", .flags = PRN_NULL),
    PRN_TEXT(fingerprint, "Tells models apart that look alike; null: not known.",
             .flags = PRN_NULL),
    PRN_TEXT(name, "What it is called, where there are several.", .flags = PRN_OMIT),
    PRN_ARRAY(graph, n_graph, &graph_node_schema,
              "Its graph, in the model's order; absent without --ops.", .max = PRN_GRAPH_NODES_MAX,
              .flags = PRN_OMIT),
};
static const struct prn_schema model_schema =
    PRN_SCHEMA("Model", model_members, "A model that was measured.");
#undef PRN_OF

static void write_model(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_profile *profile = record;
    struct prn_profile_model model = *profile->models;
    model.name = profile->n_models > 1 ? model.name : NULL;
    model.n_graph = profile->n_models > 1 ? 0 : model.n_graph; /* "models" has it */
    if (model.path)
        prn_schema_write(w, key, &model_schema, &model);
    else
        prn_json_null(w, key);
}

static void read_model(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_profile *profile = record;
    if (json_is_null(at->value))
        return;
    profile->models = prn_field_array(r, 1, sizeof *profile->models);
    if (profile->models)
        prn_schema_read(r, at, &model_schema, profile->models);
}

/* One model is told by "model" alone, as it always was. */
static void write_models(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_profile *profile = record;
    if (profile->n_models < 2)
        return;
    prn_json_array(w, key);
    for (size_t i = 0; i < profile->n_models; i++)
        prn_schema_write(w, NULL, &model_schema, &profile->models[i]);
    prn_json_end(w);
}

/* A profile has at least one model, be it none, and a point for each in every cohort. */
static void check_profile(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_profile *profile = record;
    if (profile->n_models == 0)
        profile->n_models = 1;
    else if (profile->recorded || profile->n_points == 0 ||
             profile->n_points % profile->n_models != 0)
        prn_part_fault(r, at, "models", "do not match the points");
    if (!profile->models) {
        profile->models = prn_field_array(r, 1, sizeof *profile->models);
        if (profile->models)
            prn_schema_clear(&model_schema, profile->models);
    }
    for (size_t i = 0; profile->n_models > 1 && i < profile->n_models; i++)
        if (!profile->models[i].name)
            prn_part_fault(r, at, "models", "have no names");
}

#define PRN_OF struct prn_profile
static const struct prn_member canary_members[] = {
    PRN_NUMBER(canary_best_ns, "Its shortest time.", .key = "best_ns")};
static const struct prn_schema canary_schema = PRN_SCHEMA(NULL, canary_members, NULL);

static const struct prn_member profile_members[] = {
    PRN_CONSTANT("schema", PRN_PROFILE_SCHEMA),
    PRN_COMPUTED(TEXT, "verdict", write_verdict, PRN_VERDICT_DOC " Made from what follows.",
                 .flags = PRN_OLD, .read = skip_verdict),
    PRN_TEXT(prony_version, "Version that measured.", .flags = PRN_NULL),
    PRN_TEXT(created, "When, as ISO 8601 in UTC.", .flags = PRN_NULL),
    PRN_OBJECT(models, &model_schema,
               "What was measured, the first of several; null when a program was recorded.",
               .key = "model", .flags = PRN_NULL | PRN_POINTER, .write = write_model,
               .read = read_model),
    PRN_ARRAY(models, n_models, &model_schema, "All models, where there are several.", .min = 2,
              .max = PRN_MODELS_MAX, .flags = PRN_OMIT, .write = write_models),
    PRN_ARRAY(points, n_points, &point_schema,
              "What results were fed: one point, or several in a sweep; with several models, one "
              "for each of them at each combination of sizes.",
              .max = PRN_RESULTS_MAX),
    PRN_OBJECT(settings, &settings_schema, "How it was measured."),
    PRN_OBJECT(environment, &environment_schema,
               "The machine that measured; the first host, where there are hosts."),
    PRN_ARRAY(hosts, n_hosts, &host_schema,
              "Machines of a service on which it was measured, in the order of the backends; "
              "absent when it was measured where it was asked for. Ratios of results with "
              "different hardware aren't paired.",
              .max = PRN_RESULTS_MAX, .flags = PRN_OMIT),
    PRN_OBJECT(machine, &prn_machine_part_schema,
               "What the machine that measured can do, which roofs are of; absent when that isn't "
               "known.",
               .flags = PRN_OMIT | PRN_NULL | PRN_POINTER),
    PRN_NUMBER(timer_ns, TIMER),
    PRN_PART("canary", &canary_schema, "A fixed piece of work that shows disturbance."),
    PRN_ARRAY(notes, n_notes, &prn_text_schema, "Sentences for the reader."),
    PRN_ARRAY(results, n_results, &result_schema, "One entry per backend, in the order asked for.",
              .max = PRN_RESULTS_MAX),
    {.name = "recorded",
     .kind = PRN_KIND_INLINE,
     .schema = &prn_recorded_schema,
     .read = prn_recorded_read,
     .flags = PRN_OMIT},
};
const struct prn_schema prn_profile_schema =
    PRN_SCHEMA("Profile", profile_members,
               "What one measurement by prony found out. Null stands for what isn't known. Readers "
               "ignore keys that they don't know.",
               .check = check_profile);
#undef PRN_OF

/* Consumes the tree. */
static int take_tree(json_t *root, const char *name, struct prn_profile **ret_profile,
                     struct prony_error *err)
{
    struct prn_profile *profile = prn_profile_new();
    int code;
    if (profile) {
        struct prn_fields r = {.name = name,
                               .what = "profile",
                               .arena = &profile->arena,
                               .err = err,
                               .context = profile};
        struct prn_field top = {.value = root};
        prn_part_check_schema(&r, &top, PRN_PROFILE_SCHEMA);
        if (r.code == 0)
            prn_schema_read(&r, &top, &prn_profile_schema, profile);
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

int prn_profile_write_json(const struct prn_profile *profile, struct prn_buffer *out,
                           struct prony_error *err)
{
    return prn_schema_write_json(&prn_profile_schema, profile, out, err);
}

int prn_profile_write_figures(const struct prn_profile *profile, struct prn_buffer *out,
                              struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    w.without = PRN_BULK;
    prn_schema_write(&w, NULL, &prn_profile_schema, profile);
    return prn_buffer_error(out, err);
}

int prn_settings_write_json(const struct prn_settings *settings, struct prn_buffer *out,
                            struct prony_error *err)
{
    return prn_schema_write_json(&settings_schema, settings, out, err);
}

int prn_settings_parse_json(const char *text, size_t len, struct prn_arena *arena,
                            struct prn_settings *ret_settings, struct prony_error *err)
{
    struct prn_fields r = {.name = "settings", .what = "measurement", .arena = arena, .err = err};
    return prn_schema_parse_json(&r, text, len, &settings_schema, ret_settings);
}
