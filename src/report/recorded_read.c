/* Reads recorded programs from JSON. Faults in a value are found by format/json_fields.h; here are
 * those between values. */
#include "report/recorded_json.h"

#include <math.h>
#include <string.h>

/* Bound on what a report has to lay out. */
#define ENTRIES_MAX 100000

/* What is being read belongs to this profile. */
struct reading {
    struct prn_fields *r;
    const struct prn_profile *profile;
};

static void fault_in(struct prn_fields *r, const struct prn_field *in, const char *key,
                     const char *what)
{
    struct prn_field p = prn_field_member(in, key);
    prn_field_fault(r, &p, what);
}

/* ---- Times ---- */

static void check_series(struct prn_fields *r, const struct prn_field *p,
                         const struct prn_series *s)
{
    /* A mean is rounded, and may end up beside equal times. */
    const double slack = 1e-9;
    if ((uint64_t)s->count < s->n_samples)
        fault_in(r, p, "count", "is less than there are samples");
    if (isfinite(s->mean_ns) != (s->count > 0))
        fault_in(r, p, "mean_ns", "must be null exactly when count is 0");
    if (isfinite(s->min_ns) != (s->count > 0))
        fault_in(r, p, "min_ns", "must be null exactly when count is 0");
    if (isfinite(s->max_ns) != (s->count > 0))
        fault_in(r, p, "max_ns", "must be null exactly when count is 0");
    if (s->mean_ns < s->min_ns * (1 - slack) || s->mean_ns > s->max_ns * (1 + slack))
        fault_in(r, p, "mean_ns", "is not between min_ns and max_ns");
}

static void read_series(struct prn_fields *r, const struct prn_field *p, struct prn_series *s)
{
    if (!prn_field_is_object(r, p))
        return;
    s->count = prn_field_integer(r, p, "count", 0, INT64_MAX);
    s->mean_ns = prn_field_number_or_null(r, p, "mean_ns");
    s->sd_ns = prn_field_number_or_null(r, p, "sd_ns");
    s->min_ns = prn_field_number_or_null(r, p, "min_ns");
    s->max_ns = prn_field_number_or_null(r, p, "max_ns");
    struct prn_field samples = prn_field_member(p, "samples_ns");
    size_t n = prn_field_count(r, &samples, PRN_SERIES_MAX);
    s->samples_ns = prn_field_array(r, n, sizeof *s->samples_ns);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field sample = prn_field_element(&samples, i);
        s->samples_ns[i] = prn_field_integer_at(r, &sample, 0, INT64_MAX);
        s->n_samples = i + 1;
    }
    check_series(r, p, s);
}

static const struct prn_series no_times = {
    .mean_ns = NAN, .sd_ns = NAN, .min_ns = NAN, .max_ns = NAN};

/* ---- Segments ---- */

static void read_failures(struct prn_fields *r, const struct prn_field *in,
                          struct prn_segment_result *result)
{
    struct prn_field p = prn_field_member(in, "failures");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    result->failures = prn_field_array(r, n, sizeof *result->failures);
    result->failed = prn_field_integer(r, in, "failed", 0, INT64_MAX);
    int64_t left = result->failed;
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        struct prn_failure *failure = &result->failures[i];
        result->n_failures = i + 1;
        if (!prn_field_is_object(r, &at))
            return;
        failure->message = prn_field_text(r, &at, "message");
        failure->count = prn_field_integer(r, &at, "count", 1, INT64_MAX);
        left = failure->count <= left ? left - failure->count : -1;
        if (left < 0)
            break;
    }
    if (left != 0)
        fault_in(r, in, "failed", "is not the sum of the counts of failures");
}

static void read_segment_results(const struct reading *reading, const struct prn_field *in,
                                 struct prn_segment *segment)
{
    struct prn_fields *r = reading->r;
    struct prn_field p = prn_field_member(in, "results");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    size_t expected = segment->graph ? reading->profile->n_results : 0;
    if (n != expected)
        prn_field_fault(r, &p,
                        segment->graph ? "does not have one entry per backend"
                                       : "must be empty: local code runs on no backend");
    if (r->code < 0)
        return;
    segment->results = prn_field_array(r, n, sizeof *segment->results);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        if (!prn_field_is_object(r, &at))
            return;
        struct prn_field times = prn_field_member(&at, "times");
        read_series(r, &times, &segment->results[i].times);
        read_failures(r, &at, &segment->results[i]);
    }
}

/* The id of the segment at `index`: local code and graphs take turns. */
static int64_t read_segment_graph(const struct reading *reading, const struct prn_field *in,
                                  size_t index)
{
    struct prn_fields *r = reading->r;
    struct prn_field p = prn_field_member(in, "graph");
    if (index % 2 == 0) {
        if (!p.value || !json_is_null(p.value))
            prn_field_fault(r, &p, "is not null: local code and graphs take turns");
        return 0;
    }
    int64_t id = prn_field_integer_at(r, &p, 1, INT64_MAX);
    if (r->code == 0 && !prn_profile_graph(reading->profile, id))
        prn_field_fault(r, &p, "is not one of graphs");
    return id;
}

static void read_segment(const struct reading *reading, const struct prn_field *p, size_t index,
                         struct prn_segment *segment)
{
    struct prn_fields *r = reading->r;
    if (!prn_field_is_object(r, p))
        return;
    segment->graph = read_segment_graph(reading, p, index);
    segment->local = no_times;
    struct prn_field local = prn_field_member(p, "local");
    const struct prn_recorded_graph *graph = prn_profile_graph(reading->profile, segment->graph);
    if (!graph || !json_is_null(local.value))
        read_series(r, &local, &segment->local);
    if (graph && !graph->local_reason && segment->local.count > 0)
        prn_field_fault(r, &local, "is not null, but the graph did not run locally");
    read_segment_results(reading, p, segment);
}

static void read_segments(const struct reading *reading, const struct prn_field *in,
                          struct prn_recorded *recorded)
{
    struct prn_fields *r = reading->r;
    struct prn_field p = prn_field_member(in, "segments");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    if (r->code == 0 && n % 2 == 0)
        prn_field_fault(r, &p, "does not begin and end with local code");
    if (r->code < 0)
        return;
    recorded->segments = prn_field_array(r, n, sizeof *recorded->segments);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field segment = prn_field_element(&p, i);
        read_segment(reading, &segment, i, &recorded->segments[i]);
        recorded->n_segments = i + 1;
    }
}

static void check_footprint(struct prn_fields *r, const struct prn_field *in,
                            const struct prn_recorded *recorded)
{
    struct prn_field p = prn_field_member(in, "footprint");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    if (n != recorded->n_segments / 2)
        prn_field_fault(r, &p, "is not as long as there are graphs in segments");
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        if (prn_field_integer_at(r, &at, 1, INT64_MAX) != recorded->segments[2 * i + 1].graph)
            prn_field_fault(r, &at, "is not the graph of its segment");
    }
}

/* ---- Profiles ---- */

static void read_totals(const struct reading *reading, const struct prn_field *in,
                        struct prn_recorded *recorded)
{
    struct prn_fields *r = reading->r;
    struct prn_field p = prn_field_member(in, "totals");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    if (n != reading->profile->n_results)
        prn_field_fault(r, &p, "does not have one entry per backend");
    if (r->code < 0)
        return;
    recorded->totals = prn_field_array(r, n, sizeof *recorded->totals);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        struct prn_recorded_total *total = &recorded->totals[i];
        if (!prn_field_is_object(r, &at))
            return;
        total->backend_ns = prn_field_number_or_null(r, &at, "backend_ns");
        total->total_ns = prn_field_number_or_null(r, &at, "total_ns");
        total->usd_per_million = prn_field_number_or_null(r, &at, "usd_per_million");
        if (recorded->compiled && isfinite(total->total_ns))
            fault_in(r, &at, "total_ns", "is not null, but every run compiled");
        if (!isfinite(total->total_ns) && isfinite(total->usd_per_million))
            fault_in(r, &at, "usd_per_million", "is not null, but total_ns is");
    }
}

static void read_recorded(const struct reading *reading, const struct prn_field *p,
                          struct prn_recorded *recorded)
{
    struct prn_fields *r = reading->r;
    if (!prn_field_is_object(r, p))
        return;
    recorded->function = prn_field_text(r, p, "function");
    recorded->runs = prn_field_integer(r, p, "runs", 0, INT64_MAX);
    recorded->discarded = prn_field_integer(r, p, "discarded_runs", 0, INT64_MAX);
    recorded->repeats = prn_field_integer(r, p, "repeats", 0, INT64_MAX);
    recorded->compiled = prn_field_bool(r, p, "compiled");
    recorded->local_ns = prn_field_number_or_null(r, p, "local_ns");
    read_segments(reading, p, recorded);
    if (r->code == 0)
        check_footprint(r, p, recorded);
    read_totals(reading, p, recorded);
}

static void read_language(struct prn_fields *r, const struct prn_field *top,
                          struct prn_profile *profile)
{
    const char *name = prn_field_text(r, top, "language");
    for (int i = 0; name && prn_language_names[i]; i++)
        if (strcmp(name, prn_language_names[i]) == 0) {
            profile->language = (enum prn_language)i;
            return;
        }
    fault_in(r, top, "language", "is not a language that programs are recorded in");
}

static void read_graphs(struct prn_fields *r, const struct prn_field *top,
                        struct prn_profile *profile)
{
    struct prn_field p = prn_field_member(top, "graphs");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    profile->graphs = prn_field_array(r, n, sizeof *profile->graphs);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        struct prn_recorded_graph *graph = &profile->graphs[i];
        if (!prn_field_is_object(r, &at))
            return;
        graph->id = prn_field_integer(r, &at, "id", 1, INT64_MAX);
        graph->name = prn_field_text_or_null(r, &at, "name");
        graph->local_reason = prn_field_text_or_null(r, &at, "local_reason");
        if (i > 0 && graph->id <= profile->graphs[i - 1].id)
            fault_in(r, &at, "id", "is not above the id before it");
        profile->n_graphs = i + 1;
    }
}

void prn_recorded_read_json(struct prn_fields *r, const struct prn_field *top,
                            struct prn_profile *profile)
{
    read_language(r, top, profile);
    read_graphs(r, top, profile);
    struct prn_field p = prn_field_member(top, "profiles");
    size_t n = prn_field_count(r, &p, ENTRIES_MAX);
    profile->profiles = prn_field_array(r, n, sizeof *profile->profiles);
    struct reading reading = {.r = r, .profile = profile};
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field recorded = prn_field_element(&p, i);
        read_recorded(&reading, &recorded, &profile->profiles[i]);
        profile->n_profiles = i + 1;
    }
}

void prn_recorded_refuse_json(struct prn_fields *r, const struct prn_field *top)
{
    static const char *const keys[] = {"language", "graphs", "profiles"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(keys); i++)
        if (json_object_get(top->value, keys[i]))
            fault_in(r, top, keys[i], "belongs to a recorded program, whose model is null");
}
