/* The tables of recorded programs, and what must hold between their members. */
#include "report/recorded/json.h"

#include "measure/profile.h"
#include "record/record.h"
#include "report/profile/parts.h"

#include <math.h>

static const struct prn_name languages[] = {
#define PRN_X(symbol, name) {PRN_LANGUAGE_##symbol, name},
    PRN_LANGUAGE_MAP(PRN_X)
#undef PRN_X
        {0, NULL},
};

/* One entry for each backend, where there are any. */
static void check_backends(struct prn_fields *r, const struct prn_field *at, const char *key,
                           size_t n)
{
    const struct prn_profile *profile = r->context;
    if (n != profile->n_results)
        prn_part_fault(r, at, key, "does not have one entry per backend");
}

/* ---- Times ---- */

static void check_series(struct prn_fields *r, const struct prn_field *p, void *record)
{
    /* A mean is rounded, and may end up beside equal times. */
    const double slack = 1e-9;
    const struct prn_series *s = record;
    if ((uint64_t)s->count < s->n_samples)
        prn_part_fault(r, p, "count", "is less than there are samples");
    if (isfinite(s->mean_ns) != (s->count > 0))
        prn_part_fault(r, p, "mean_ns", "must be null exactly when count is 0");
    if (isfinite(s->min_ns) != (s->count > 0))
        prn_part_fault(r, p, "min_ns", "must be null exactly when count is 0");
    if (isfinite(s->max_ns) != (s->count > 0))
        prn_part_fault(r, p, "max_ns", "must be null exactly when count is 0");
    if (s->mean_ns < s->min_ns * (1 - slack) || s->mean_ns > s->max_ns * (1 + slack))
        prn_part_fault(r, p, "mean_ns", "is not between min_ns and max_ns");
}

#define PRN_OF struct prn_series
static const struct prn_member series_members[] = {
    PRN_INTEGER(count, "How many times; samples_ns are all of them, or an even selection."),
    PRN_NUMBER(mean_ns, "Of all; null when count is 0, as are the others."),
    PRN_NUMBER(sd_ns, "Standard deviation."),
    PRN_NUMBER(min_ns, "Shortest."),
    PRN_NUMBER(max_ns, "Longest."),
    PRN_ARRAY(samples_ns, n_samples, &prn_integer_schema, "In time order.", .max = PRN_SERIES_MAX,
              .flags = PRN_BULK),
};
static const struct prn_schema series_schema =
    PRN_SCHEMA("Series", series_members, "Times of something that happened many times.",
               .check = check_series);
#undef PRN_OF

/* ---- Segments ---- */

#define PRN_OF struct prn_failure
static const struct prn_member failure_members[] = {
    PRN_TEXT(message, "What the runtime said."),
    PRN_INTEGER(count, "Samples that it cost.", .min = 1),
};
static const struct prn_schema failure_schema =
    PRN_SCHEMA("Reason", failure_members, "Why samples are missing.");
#undef PRN_OF

static void check_failures(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_segment_result *result = record;
    int64_t left = result->failed;
    for (size_t i = 0; i < result->n_failures && left >= 0; i++)
        left = result->failures[i].count <= left ? left - result->failures[i].count : -1;
    if (left != 0)
        prn_part_fault(r, at, "failed", "is not the sum of the counts of failures");
}

#define PRN_OF struct prn_segment_result
static const struct prn_member segment_result_members[] = {
    PRN_OBJECT(times, &series_schema,
               "Timed runs of the graph: repeats times the runs of the function."),
    PRN_INTEGER(failed, "Samples that failures cost: the sum of their counts."),
    PRN_ARRAY(failures, n_failures, &failure_schema, "Distinct messages."),
};
static const struct prn_schema segment_result_schema = PRN_SCHEMA(
    "SegmentResult", segment_result_members, "The graph on one backend.", .check = check_failures);
#undef PRN_OF

static void write_graph(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_segment *segment = record;
    if (segment->graph)
        prn_json_integer(w, key, segment->graph);
    else
        prn_json_null(w, key);
}

/* Local code and graphs take turns. */
static void read_graph(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_segment *segment = record;
    segment->graph = 0;
    if (at->in->index % 2 == 0 && !json_is_null(at->value))
        prn_field_fault(r, at, "is not null: local code and graphs take turns");
    if (at->in->index % 2 == 0)
        return;
    segment->graph = prn_field_integer_at(r, at, 1, INT64_MAX);
    if (r->code == 0 && !prn_profile_graph(r->context, segment->graph))
        prn_field_fault(r, at, "is not one of graphs");
}

static void write_local(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_segment *segment = record;
    if (segment->graph && segment->local.count == 0)
        prn_json_null(w, key);
    else
        prn_schema_write(w, key, &series_schema, &segment->local);
}

static void check_segment(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_segment *segment = record;
    if (segment->graph) {
        check_backends(r, at, "results", segment->n_results);
        return;
    }
    if (json_is_null(prn_field_member(at, "local").value))
        prn_part_fault(r, at, "local", "is not an object");
    if (segment->n_results > 0)
        prn_part_fault(r, at, "results", "must be empty: local code runs on no backend");
}

#define PRN_OF struct prn_segment
static const struct prn_member segment_members[] = {
    {.name = "graph",
     .kind = PRN_KIND_INTEGER,
     PRN_AT(graph),
     .min = 1,
     .flags = PRN_NULL,
     .write = write_graph,
     .read = read_graph,
     .doc = "Id of the graph; null for local code. Segments take turns, and the first and the last "
            "are local code."},
    PRN_OBJECT(local, &series_schema,
               "Local code: one sample per run. Of a graph: its local runs when it ran locally, "
               "otherwise null.",
               .flags = PRN_NULL, .write = write_local),
    PRN_ARRAY(results, n_results, &segment_result_schema,
              "Of a graph, one entry per entry of the top-level results, in their order; empty for "
              "local code."),
};
static const struct prn_schema segment_schema =
    PRN_SCHEMA("Segment", segment_members, "Local code, or a graph.", .check = check_segment);
#undef PRN_OF

/* ---- Profiles ---- */

static void check_total(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_recorded_total *total = record;
    if (!prn_field_member(at, "local_graphs_ns").value)
        total->local_graphs_ns = 0;
    if (!isfinite(total->total_ns) && isfinite(total->usd_per_million))
        prn_part_fault(r, at, "usd_per_million", "is not null, but total_ns is");
}

#define PRN_OF struct prn_recorded_total
static const struct prn_member total_members[] = {PRN_TOTAL_LIST(PRN_DESCRIBE)};
static const struct prn_schema total_schema =
    PRN_SCHEMA("Total", total_members, "What runs come to on one backend.", .check = check_total);
#undef PRN_OF

static void write_footprint(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct prn_recorded *recorded = record;
    prn_json_array_compact(w, key);
    for (size_t i = 0; i < recorded->n_segments; i++)
        if (recorded->segments[i].graph != 0)
            prn_json_integer(w, NULL, recorded->segments[i].graph);
    prn_json_end(w);
}

/* Follows from the segments, which come later. */
static void skip_footprint(struct prn_fields *r, const struct prn_field *at, void *record)
{
    (void)prn_field_count(r, at, INT32_MAX);
    (void)record;
}

static void check_footprint(struct prn_fields *r, const struct prn_field *in,
                            const struct prn_recorded *recorded)
{
    struct prn_field p = prn_field_member(in, "footprint");
    size_t n = prn_field_count(r, &p, INT32_MAX);
    if (n != recorded->n_segments / 2)
        prn_field_fault(r, &p, "does not have one entry per graph in segments");
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        if (prn_field_integer_at(r, &at, 1, INT64_MAX) != recorded->segments[2 * i + 1].graph)
            prn_field_fault(r, &at, "is not the graph of its segment");
    }
}

static void check_recorded(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_recorded *recorded = record;
    if (recorded->n_segments % 2 == 0)
        prn_part_fault(r, at, "segments", "does not begin and end with local code");
    else
        check_footprint(r, at, recorded);
    check_backends(r, at, "totals", recorded->n_totals);
    struct prn_field totals = prn_field_member(at, "totals");
    for (size_t i = 0; i < recorded->n_totals && recorded->compiled; i++) {
        struct prn_field total = prn_field_element(&totals, i);
        if (isfinite(recorded->totals[i].total_ns))
            prn_part_fault(r, &total, "total_ns", "is not null, but every run compiled");
    }
    if (r->code == 0 && prn_recorded_summarise(r->context, recorded) < 0)
        r->code = prn_fail_memory(r->err);
}

static const struct prn_member id_members[] = {{.kind = PRN_KIND_INTEGER, .min = 1}};
#define PRN_OF int64_t
static const struct prn_schema id_schema = PRN_SCHEMA(NULL, id_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_recorded
static const struct prn_member recorded_members[] = {
    PRN_TEXT(function, "Its name."),
    {.name = "footprint",
     .kind = PRN_KIND_ARRAY,
     .schema = &id_schema,
     .write = write_footprint,
     .read = skip_footprint,
     .doc = "Ids of the graphs that a run calls, in order; local code stands before, between and "
            "after them."},
    PRN_INTEGER(runs, "Runs that count."),
    PRN_INTEGER(discarded, "Runs that were left out because compilation happened in them.",
                .key = "discarded_runs"),
    PRN_INTEGER(repeats, "Timed runs of a graph per call."),
    PRN_BOOL(compiled, "Compilation happened in every run: these are such runs, and there are no "
                       "totals."),
    PRN_ARRAY(segments, n_segments, &segment_schema, "The footprint with its times.", .min = 1),
    PRN_NUMBER(local_ns, "Sum of the means of local code."),
    PRN_NUMBER(local_median_ns, "Median over runs of the time of local code.", .flags = PRN_OLD),
    PRN_ARRAY(totals, n_totals, &total_schema,
              "One entry per entry of the top-level results, in their order."),
};
static const struct prn_schema recorded_schema = PRN_SCHEMA(
    "Recorded", recorded_members, "Runs of a function that had the same footprint, together.",
    .check = check_recorded);
#undef PRN_OF

/* ---- Graphs ---- */

#define PRN_OF struct prn_graph_check
static const struct prn_member check_members[] = {
    PRN_BOOL(mismatch, "An output differs by more than rounding."),
    PRN_TEXT(failure, "Why they couldn't be compared; null: they could.", .flags = PRN_NULL),
    PRN_ARRAY(outputs, n_outputs, &prn_output_schema,
              "Outputs compared with those of the reference."),
};
static const struct prn_schema check_schema = PRN_SCHEMA(
    "GraphCheck", check_members, "What a graph gave on one backend.", PRN_PRESENT(compared));
#undef PRN_OF

#define PRN_OF struct prn_graph_launch
static const struct prn_member launch_members[] = {
    PRN_INTEGER(load_ns, "The runtime loaded it.", .flags = PRN_NULL),
    PRN_INTEGER(prepare_ns,
                "Its first run without the timed ones: inputs were bound, compilers compiled, "
                "untimed runs.",
                .flags = PRN_NULL),
};
static const struct prn_schema launch_schema =
    PRN_SCHEMA("GraphLaunch", launch_members, "A graph's first call on one backend.");
#undef PRN_OF

#define PRN_OF struct prn_graph_start
static const struct prn_member start_members[] = {
    PRN_INTEGER(capture_ns, "PyTorch captured it.", .flags = PRN_NULL),
    PRN_INTEGER(lower_ns, "It was lowered to ATen operators.", .flags = PRN_NULL),
    PRN_INTEGER(export_ns, "It was exported to ONNX.", .flags = PRN_NULL),
    PRN_INTEGER(upload_ns, "Its files were hashed, offered and sent.", .flags = PRN_NULL),
    PRN_INTEGER(load_ns, "All backends loaded it, and whatever of their start wasn't over.",
                .flags = PRN_NULL),
    PRN_ARRAY(launches, n_launches, &launch_schema, "In the order of results.", .key = "backends"),
};
static const struct prn_schema start_schema =
    PRN_SCHEMA("GraphStart", start_members,
               "Where the time of a graph's first call went; null where it isn't known.",
               PRN_PRESENT(n_launches));
#undef PRN_OF

static void check_graph(struct prn_fields *r, const struct prn_field *at, void *record)
{
    const struct prn_recorded_graph *graph = record;
    if (graph->checks)
        check_backends(r, at, "checks", graph->n_checks);
    if (graph->start.n_launches > 0)
        check_backends(r, at, "start", graph->start.n_launches);
    if (at->index > 0 && graph->id <= graph[-1].id)
        prn_part_fault(r, at, "id", "is not greater than the id before it");
}

#define PRN_OF struct prn_recorded_graph
static const struct prn_member graph_members[] = {
    PRN_INTEGER(id, "Its number in reports: Graph #1.", .min = 1),
    PRN_TEXT(name, "Where it came from, e.g. a file.", .flags = PRN_NULL),
    PRN_TEXT(local_reason, "Why it ran locally instead of on the backends; null: it didn't.",
             .flags = PRN_NULL),
    PRN_ARRAY(checks, n_checks, &check_schema,
              "The outputs of each backend's first run against those that the program computed "
              "itself, in the order of results, null where they weren't compared. Null: nothing "
              "was compared. Missing in files of earlier versions.",
              .flags = PRN_NULL | PRN_OLD | PRN_NULL_ITEMS),
    PRN_OBJECT(start, &start_schema,
               "Where the time of its first call went; absent when it isn't known.",
               .flags = PRN_NULL | PRN_OMIT),
};
static const struct prn_schema graph_schema =
    PRN_SCHEMA("Graph", graph_members, "One graph.", .check = check_graph);
#undef PRN_OF

/* ---- Their place in a profile ---- */

#define PRN_OF struct prn_profile
static const struct prn_member members[] = {
    PRN_CHOICE(language, languages, "What the recorded program is written in."),
    PRN_ARRAY(graphs, n_graphs, &graph_schema, "Graphs of the recorded program, by ascending id."),
    PRN_ARRAY(profiles, n_profiles, &recorded_schema,
              "Runs of a function that had the same footprint, together."),
};
const struct prn_schema prn_recorded_schema =
    PRN_SCHEMA("RecordedProgram", members, NULL, PRN_PRESENT(recorded));
#undef PRN_OF

void prn_recorded_read(struct prn_fields *r, const struct prn_field *top, void *record)
{
    struct prn_profile *profile = record;
    if (!profile->models) {
        prn_schema_read(r, top, &prn_recorded_schema, profile);
        return;
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(members); i++)
        if (json_object_get(top->value, members[i].name))
            prn_part_fault(r, top, members[i].name,
                           "belongs to a recorded program, whose model is null");
}
