/* Writes recorded programs as JSON. */
#include "report/recorded_json.h"

const char *const prn_language_names[] = {
#define PRN_X(symbol, name) name,
    PRN_LANGUAGE_MAP(PRN_X)
#undef PRN_X
        NULL,
};

static void write_series(struct prn_json_writer *w, const char *key, const struct prn_series *s,
                         bool samples)
{
    prn_json_object(w, key);
    prn_json_integer(w, "count", s->count);
    if (s->count > 0) {
        prn_json_number(w, "mean_ns", s->mean_ns);
        prn_json_number(w, "sd_ns", s->sd_ns);
        prn_json_number(w, "min_ns", s->min_ns);
        prn_json_number(w, "max_ns", s->max_ns);
    } else {
        prn_json_null(w, "mean_ns");
        prn_json_null(w, "sd_ns");
        prn_json_null(w, "min_ns");
        prn_json_null(w, "max_ns");
    }
    if (samples) {
        prn_json_array_compact(w, "samples_ns");
        for (size_t i = 0; i < s->n_samples; i++)
            prn_json_integer(w, NULL, s->samples_ns[i]);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_segment_result(struct prn_json_writer *w, const struct prn_segment_result *result,
                                 bool samples)
{
    prn_json_object(w, NULL);
    write_series(w, "times", &result->times, samples);
    prn_json_integer(w, "failed", result->failed);
    prn_json_array(w, "failures");
    for (size_t i = 0; i < result->n_failures; i++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "message", result->failures[i].message);
        prn_json_integer(w, "count", result->failures[i].count);
        prn_json_end(w);
    }
    prn_json_end(w);
    prn_json_end(w);
}

static void write_segment(struct prn_json_writer *w, const struct prn_segment *segment,
                          size_t n_backends, bool samples)
{
    bool local = segment->graph == 0;
    prn_json_object(w, NULL);
    if (local)
        prn_json_null(w, "graph");
    else
        prn_json_integer(w, "graph", segment->graph);
    if (local || segment->local.count > 0)
        write_series(w, "local", &segment->local, samples);
    else
        prn_json_null(w, "local");
    prn_json_array(w, "results");
    for (size_t i = 0; !local && i < n_backends; i++)
        write_segment_result(w, &segment->results[i], samples);
    prn_json_end(w);
    prn_json_end(w);
}

static void write_totals(struct prn_json_writer *w, const struct prn_recorded *recorded,
                         size_t n_backends)
{
    prn_json_array(w, "totals");
    for (size_t i = 0; i < n_backends; i++) {
        const struct prn_recorded_total *total = &recorded->totals[i];
        prn_json_object(w, NULL);
        prn_json_number(w, "backend_ns", total->backend_ns);
        prn_json_number(w, "total_ns", total->total_ns);
        prn_json_number(w, "usd_per_million", total->usd_per_million);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_profile(struct prn_json_writer *w, const struct prn_recorded *recorded,
                          size_t n_backends, bool samples)
{
    prn_json_object(w, NULL);
    prn_json_text(w, "function", recorded->function);
    prn_json_array_compact(w, "footprint");
    for (size_t i = 0; i < recorded->n_segments; i++)
        if (recorded->segments[i].graph != 0)
            prn_json_integer(w, NULL, recorded->segments[i].graph);
    prn_json_end(w);
    prn_json_integer(w, "runs", recorded->runs);
    prn_json_integer(w, "discarded_runs", recorded->discarded);
    prn_json_integer(w, "repeats", recorded->repeats);
    prn_json_bool(w, "compiled", recorded->compiled);
    prn_json_array(w, "segments");
    for (size_t i = 0; i < recorded->n_segments; i++)
        write_segment(w, &recorded->segments[i], n_backends, samples);
    prn_json_end(w);
    prn_json_number(w, "local_ns", recorded->local_ns);
    write_totals(w, recorded, n_backends);
    prn_json_end(w);
}

void prn_recorded_write_json(struct prn_json_writer *w, const struct prn_profile *profile,
                             bool samples)
{
    prn_json_text(w, "language", prn_language_names[profile->language]);
    prn_json_array(w, "graphs");
    for (size_t i = 0; i < profile->n_graphs; i++) {
        const struct prn_recorded_graph *graph = &profile->graphs[i];
        prn_json_object(w, NULL);
        prn_json_integer(w, "id", graph->id);
        prn_json_text(w, "name", graph->name);
        prn_json_text(w, "local_reason", graph->local_reason);
        prn_json_end(w);
    }
    prn_json_end(w);
    prn_json_array(w, "profiles");
    for (size_t i = 0; i < profile->n_profiles; i++)
        write_profile(w, &profile->profiles[i], profile->n_results, samples);
    prn_json_end(w);
}
