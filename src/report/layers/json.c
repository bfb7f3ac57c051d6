#include "report/layers/json.h"

#include "base/text.h"
#include "pipeline/limits.h"
#include "report/layers/report.h"
#include "report/profile/parts.h"

#include <math.h>
#include <string.h>

#define VERDICT_MAX ((size_t)64 << 10)
#define MEAN "Mean time of a batch."
#define HALF "Half of the 95 % interval; null: not known."

/* ---- Shapes ---- */

#define PRN_OF int64_t
static const struct prn_member dim_members[] = {
    {.kind = PRN_KIND_INTEGER, .bytes = sizeof(int64_t), .max = (int64_t)1 << 53}};
static const struct prn_schema dim_schema = PRN_SCHEMA(NULL, dim_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_layer_shape
static const struct prn_member shape_members[] = {{.kind = PRN_KIND_ARRAY,
                                                   PRN_AT(dims),
                                                   .count = offsetof(PRN_OF, rank),
                                                   .schema = &dim_schema,
                                                   .max = PRN_LAYER_RANK_MAX}};
static const struct prn_schema shape_schema = PRN_SCHEMA(NULL, shape_members, NULL);
#undef PRN_OF

static void check_shapes(struct prn_fields *r, const struct prn_field *at, const char *key,
                         const struct prn_layer_shape *shapes, size_t n)
{
    double elements;
    if (prn_layer_shapes_count(shapes, n, &elements) < 0)
        prn_part_fault(r, at, key, "has more than 2^53 elements");
}

/* ---- Layers ---- */

static void check_entry(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_layer_entry *e = record;
    check_shapes(r, at, "shape_in", e->in, e->n_in);
    check_shapes(r, at, "shape_out", e->out, e->n_out);
}

#define PRN_OF struct prn_layer_entry
static const struct prn_member entry_members[] = {
    PRN_INTEGER(layer, "Its number, from 1.", .min = 1, .max = PRN_PIPELINE_LAYERS_MAX),
    PRN_NUMBER(time_s, MEAN, .flags = PRN_FINITE),
    PRN_NUMBER(time_ci_s, HALF),
    PRN_NUMBER(memory_mb, "10^6 bytes that a process grows by when it loads the layer.",
               .flags = PRN_FINITE),
    PRN_NUMBER(memory_fixed_mb,
               "Of these, what the runtime takes whatever it loads; null when not known."),
    PRN_ARRAY(in, n_in, &shape_schema, "One for each tensor, without the batch.", .key = "shape_in",
              .max = PRN_LAYER_TENSORS_MAX),
    PRN_ARRAY(out, n_out, &shape_schema, "One for each tensor, without the batch.",
              .key = "shape_out", .max = PRN_LAYER_TENSORS_MAX),
};
static const struct prn_schema entry_schema =
    PRN_SCHEMA(NULL, entry_members, NULL, .check = check_entry);
#undef PRN_OF

#define COUNTS                                                                                  \
    PRN_INTEGER(samples, "Timed runs."), PRN_INTEGER(launches, "Processes that they were in."), \
        PRN_FLAGS(flags, prn_flag_names, "Reasons for caution.")

#define PRN_OF struct prn_layer_row
static const struct prn_member row_members[] = {
    PRN_BOOL(measured, "False: in an earlier run, and the next three say nothing."),
    COUNTS,
};
static const struct prn_schema row_schema = PRN_SCHEMA(NULL, row_members, NULL);
#undef PRN_OF

struct layer {
    struct prn_layer_entry entry;
    struct prn_layer_row row;
};

#define PRN_OF struct layer
static const struct prn_member layer_members[] = {
    PRN_INLINE(entry, &entry_schema),
    PRN_INLINE(row, &row_schema),
};
static const struct prn_schema layer_schema = PRN_SCHEMA("Layer", layer_members, "One layer.");
#undef PRN_OF

int prn_layer_write_json(const struct prn_layer_entry *entry, const struct prn_layer_row *row,
                         struct prn_buffer *out, struct prony_error *err)
{
    return prn_schema_write_json(&layer_schema, &(struct layer){*entry, *row}, out, err);
}

int prn_layer_parse_json(const char *text, size_t len, struct prn_arena *arena,
                         struct prn_layer_entry *ret_entry, struct prn_layer_row *ret_row,
                         struct prony_error *err)
{
    struct prn_fields r = {.name = "layer", .what = "layer", .arena = arena, .err = err};
    struct layer layer = {0};
    int code = prn_schema_parse_json(&r, text, len, &layer_schema, &layer);
    if (code < 0)
        return code;
    *ret_entry = layer.entry;
    *ret_row = layer.row;
    ret_row->layer = layer.entry.layer;
    ret_row->measured = true;
    return 0;
}

/* ---- The whole model ---- */

#define PRN_OF struct prn_whole_time
static const struct prn_member whole_time_members[] = {
    PRN_NUMBER(time_s, MEAN, .flags = PRN_FINITE),
    PRN_NUMBER(time_ci_s, HALF),
    COUNTS,
};
static const struct prn_schema whole_time_schema =
    PRN_SCHEMA("WholeTime", whole_time_members, "The whole model, in one of two ways.");
#undef PRN_OF

static void write_sum_ratio(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_layer_measurement *m = record;
    prn_json_number(w, key, m->sum_s / m->whole[PRN_WHOLE_CUT].time_s);
}

static void write_saved(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_layer_measurement *m = record;
    prn_json_number(w, key, 1 - m->whole[PRN_WHOLE_FUSED].time_s / m->sum_s);
}

#define PRN_OF struct prn_layer_measurement
static const struct prn_member outputs_members[] = {
    PRN_BOOL(mismatch, "They differ by more than rounding."),
    PRN_NUMBER(difference, "Largest error, relative to the largest value; null: it can't be "
                           "subtracted."),
    PRN_NUMBER(repeatability, "The same of the whole in two processes."),
};
static const struct prn_schema outputs_schema = PRN_SCHEMA(NULL, outputs_members, NULL);

static const struct prn_member whole_members[] = {
    PRN_OBJECT(whole[PRN_WHOLE_CUT], &whole_time_schema, "With nothing fused across the cuts.",
               .key = "not_fused"),
    PRN_OBJECT(whole[PRN_WHOLE_FUSED], &whole_time_schema, "As it is.", .key = "as_it_is"),
    PRN_OBJECT(fused, &prn_interval_schema,
               "Time as it is over time with nothing fused across the cuts, paired, 95 %.",
               .key = "fused_ratio", .flags = PRN_NULL),
    PRN_COMPUTED(NUMBER, "sum_ratio", write_sum_ratio, "Sum over not_fused."),
    PRN_COMPUTED(NUMBER, "saved_by_fusing", write_saved, "1 - as_it_is over sum.",
                 .min = INT64_MIN),
    PRN_PART("outputs", &outputs_schema,
             "Outputs of the layers one after the other against the whole's."),
};
static const struct prn_schema whole_schema = PRN_SCHEMA(
    "Whole", whole_members, "The whole model beside its layers.", PRN_PRESENT(has_whole));

/* Names that people will see; "" for null. */
static void check_found(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_layer_measurement *m = record;
    if (m->runtime && !prn_text_is_name(m->runtime))
        prn_part_fault(r, at, "runtime", "is not a name");
    if (m->cpu && !prn_text_is_name(m->cpu))
        prn_part_fault(r, at, "cpu", "is not a name");
    m->runtime = m->runtime ? m->runtime : "";
    m->cpu = m->cpu ? m->cpu : "";
}

#define WHOLE                                                                              \
    PRN_PART("whole", &whole_schema,                                                       \
             "The whole model beside its layers; null unless all of them were asked for.", \
             .flags = PRN_NULL)
#define RUNTIME PRN_TEXT(runtime, "Null: nothing was measured.", .flags = PRN_NULL)
#define CPU PRN_TEXT(cpu, "Its processor; null: not known.", .flags = PRN_NULL)

/* What a client reads of the report. */
static const struct prn_member found_members[] = {RUNTIME, CPU, WHOLE};
static const struct prn_schema found_schema =
    PRN_SCHEMA(NULL, found_members, NULL, .check = check_found);
static const struct prn_member whole_part_members[] = {WHOLE};
static const struct prn_schema whole_part_schema = PRN_SCHEMA(NULL, whole_part_members, NULL);

static const struct prn_member sum_members[] = {
    PRN_NUMBER(sum_s, MEAN, .key = "time_s", .flags = PRN_FINITE),
    PRN_NUMBER(sum_ci_s, HALF, .key = "time_ci_s"),
};
static const struct prn_schema sum_schema = PRN_SCHEMA("Time", sum_members, "A time.");
#undef PRN_OF

int prn_layers_parse_json(const char *text, size_t len, struct prn_arena *arena,
                          struct prn_layer_measurement *measurement, struct prony_error *err)
{
    struct prn_fields r = {.name = "layers", .what = "layer profile", .arena = arena, .err = err};
    return prn_schema_parse_json(&r, text, len, &found_schema, measurement);
}

/* ---- The report ---- */

struct report {
    const struct prn_layer_measurement *m;
    const struct prn_layer_profile *profile;
    const struct prn_layer_head *head;
    const char *file, *results, *verdict, *backend, *runtime, *cpu;
};

static void write_rows(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct report *report = record;
    prn_json_array(w, key);
    for (size_t i = 0; i < report->m->n_rows; i++) {
        const struct prn_layer_row *row = &report->m->rows[i];
        struct layer layer = {*prn_layer_profile_find(report->profile, row->layer), *row};
        prn_schema_write(w, NULL, &layer_schema, &layer);
    }
    prn_json_end(w);
}

#define PRN_OF struct prn_layer_head
static const struct prn_member head_members[] = {
    PRN_TEXT(model_name, "What the results call the model."),
    PRN_TEXT(dtype, "PyTorch's name of the data type."),
    PRN_INTEGER(batch_size, "Items in a batch.", .min = 1),
    PRN_INTEGER(layers, "Of the model.", .min = 1),
};
static const struct prn_schema head_schema = PRN_SCHEMA(NULL, head_members, NULL);
#undef PRN_OF

#define PRN_OF struct report
static const struct prn_member report_members[] = {
    PRN_CONSTANT("schema", PRN_LAYERS_SCHEMA),
    PRN_TEXT(file, "The model."),
    PRN_TEXT(results, "The file that was extended."),
    PRN_INLINE_POINTER(head, &head_schema),
    PRN_TEXT(verdict, "What the layers and the whole take, in a sentence or two."),
    PRN_TEXT(verdict, "The former name of verdict.", .key = "answer"),
    PRN_TEXT(backend, "What they were measured on."),
    RUNTIME,
    CPU,
    PRN_COMPUTED(ARRAY, "profile_data", write_rows,
                 "The layers that were asked for, in their order.", .schema = &layer_schema,
                 .min = 1),
    PRN_OBJECT(m, &sum_schema, "Of the layers' times.", .key = "sum", .flags = PRN_POINTER),
    PRN_INLINE_POINTER(m, &whole_part_schema),
};
const struct prn_schema prn_layers_schema = PRN_SCHEMA(
    "LayerProfile", report_members, "What prony layers --format json writes when it measures.");
#undef PRN_OF

int prn_layers_write_json(const struct prn_layer_measurement *m,
                          const struct prn_layer_profile *profile, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct prn_buffer verdict = PRN_BUFFER_INIT(VERDICT_MAX);
    prn_layers_verdict(m, profile, &verdict);
    struct report report = {.m = m,
                            .profile = profile,
                            .head = prn_layer_profile_head(profile),
                            .file = m->model_path,
                            .results = prn_layer_profile_path(profile),
                            .verdict = prn_buffer_text(&verdict),
                            .backend = m->backend,
                            .runtime = m->runtime[0] ? m->runtime : NULL,
                            .cpu = m->cpu[0] ? m->cpu : NULL};
    if (verdict.error)
        out->error = verdict.error;
    int code = prn_schema_write_json(&prn_layers_schema, &report, out, err);
    prn_buffer_release(&verdict);
    return code;
}

/* ---- What is asked for ---- */

static void check_order(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_layer_order *o = record;
    if (o->first > o->layers)
        prn_part_fault(r, at, "layer_start", "is out of range");
    if (o->last < o->first || o->last > o->layers)
        prn_part_fault(r, at, "layer_end", "is out of range");
    if (o->results && !prn_text_is_name(o->results))
        prn_part_fault(r, at, "results", "is not a name");
    o->results = o->results ? o->results : "";
    check_shapes(r, at, "shape_input", o->shapes, o->n_shapes);
}

#define PRN_OF struct prn_layer_order
static const struct prn_member order_members[] = {
    PRN_TEXT(cuts, NULL, .flags = PRN_NULL),
    PRN_INTEGER(max_tensors, NULL, .key = "max_cut_tensors", .max = PRN_LAYER_CUT_TENSORS_MAX),
    PRN_INTEGER(batch, NULL, .key = "batch_size", .max = PRN_PIPELINE_BATCH_MAX),
    PRN_INTEGER(layers, NULL, .min = 1, .max = PRN_PIPELINE_LAYERS_MAX),
    PRN_INTEGER(first, NULL, .key = "layer_start", .min = 1),
    PRN_INTEGER(last, NULL, .key = "layer_end", .min = 1),
    PRN_TEXT(results, NULL, .flags = PRN_NULL),
    PRN_ARRAY(shapes, n_shapes, &shape_schema, NULL, .key = "shape_input",
              .max = PRN_LAYER_TENSORS_MAX),
    PRN_ARRAY(entries, n_entries, &entry_schema, NULL, .key = "profile_data",
              .max = PRN_PIPELINE_LAYERS_MAX),
};
static const struct prn_schema order_schema =
    PRN_SCHEMA("LayerOrder", order_members, NULL, .check = check_order);
#undef PRN_OF

int prn_layer_order_write_json(const struct prn_layer_order *order, struct prn_buffer *out,
                               struct prony_error *err)
{
    return prn_schema_write_json(&order_schema, order, out, err);
}

int prn_layer_order_parse_json(const char *text, struct prn_arena *arena,
                               struct prn_layer_order *ret_order, struct prony_error *err)
{
    struct prn_fields r = {.name = "layers", .what = "order", .arena = arena, .err = err};
    return prn_schema_parse_json(&r, text, strlen(text), &order_schema, ret_order);
}
