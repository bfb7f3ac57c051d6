/* Writes a profile as JSON. */
#include "report/profile_json.h"

#include "format/json.h"
#include "report/load_json.h"
#include "report/ops_json.h"
#include "report/profile_parts.h"
#include "report/recorded_json.h"

const char *const prn_verdict_names[PRN_VERDICT_COUNT] = {
    [PRN_VERDICT_NONE] = "none",     [PRN_VERDICT_SAME] = "same",
    [PRN_VERDICT_FASTER] = "faster", [PRN_VERDICT_SLOWER] = "slower",
    [PRN_VERDICT_UNSURE] = "unsure",
};

/* An integer that is negative when it isn't known. */
static void known(struct prn_json_writer *w, const char *key, int64_t value)
{
    if (value < 0)
        prn_json_null(w, key);
    else
        prn_json_integer(w, key, value);
}

static void write_model(struct prn_json_writer *w, const struct prn_profile *p)
{
    if (p->recorded) {
        prn_json_null(w, "model");
        return;
    }
    prn_json_object(w, "model");
    prn_json_text(w, "path", p->model_path);
    known(w, "bytes", p->model_bytes);
    known(w, "parameters", p->model_parameters);
    prn_json_text(w, "fingerprint", p->model_fingerprint);
    prn_json_end(w);
}

static void write_inputs(struct prn_json_writer *w, const struct prn_point *p)
{
    prn_json_array(w, "inputs");
    for (size_t i = 0; i < p->n_inputs; i++) {
        const struct prn_profile_input *input = &p->inputs[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "name", input->name);
        prn_json_text(w, "type", prn_dtype_name(input->dtype));
        prn_json_array_compact(w, "shape");
        for (size_t k = 0; k < input->rank; k++)
            prn_json_integer(w, NULL, input->dims[k]);
        prn_json_end(w);
        prn_json_text(w, "source", input->source);
        prn_json_end(w);
    }
    prn_json_end(w);
}

/* Only where there is something: without a sweep, profiles are as they always were. */
static void write_swept(struct prn_json_writer *w, const struct prn_point *p)
{
    if (p->n_swept == 0)
        return;
    prn_json_array(w, "swept");
    for (size_t i = 0; i < p->n_swept; i++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "name", p->swept[i].name);
        known(w, "size", p->swept[i].size);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_points(struct prn_json_writer *w, const struct prn_profile *p)
{
    prn_json_array(w, "points");
    for (size_t i = 0; i < p->n_points; i++) {
        const struct prn_point *point = &p->points[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "label", point->label);
        write_swept(w, point);
        prn_json_integer(w, "batch", point->batch);
        prn_json_number(w, "flops", point->flops);
        prn_json_bool(w, "flops_complete", point->flops_complete);
        write_inputs(w, point);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_settings(struct prn_json_writer *w, const char *key, const struct prn_settings *s)
{
    prn_json_object(w, key);
    /* JSON readers know signed 64 bits; the bits are what counts. */
    prn_json_integer(w, "seed", (int64_t)s->seed);
    prn_json_number(w, "precision", s->precision);
    prn_json_number(w, "smallest_difference", s->smallest_difference);
    prn_json_integer(w, "launches", s->launches);
    prn_json_integer(w, "repeats", s->repeats);
    prn_json_integer(w, "warmups", s->warmups);
    prn_json_number(w, "max_time_s", s->max_time_s);
    prn_json_number(w, "tolerance", s->tolerance);
    prn_json_text(w, "reference", s->reference);
    prn_json_end(w);
}

int prn_settings_write_json(const struct prn_settings *settings, struct prn_buffer *out,
                            struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    write_settings(&w, NULL, settings);
    return prn_buffer_error(out, err);
}

static void write_machine(struct prn_json_writer *w, const struct prn_environment *e)
{
    prn_json_text(w, "cpu", e->cpu);
    known(w, "cores", e->cores);
    prn_json_number(w, "mhz", e->mhz);
    known(w, "memory_bytes", e->memory_bytes);
    prn_json_text(w, "os", e->os);
    prn_json_text(w, "kernel", e->kernel);
    prn_json_number(w, "load_before", e->load_before);
    prn_json_number(w, "load_after", e->load_after);
    prn_json_text(w, "sandbox", e->sandbox);
}

static void write_environment(struct prn_json_writer *w, const struct prn_environment *e)
{
    prn_json_object(w, "environment");
    write_machine(w, e);
    prn_json_end(w);
}

/* Only of what a service measured. */
static void write_hosts(struct prn_json_writer *w, const struct prn_profile *p)
{
    if (p->n_hosts == 0)
        return;
    prn_json_array(w, "hosts");
    for (size_t i = 0; i < p->n_hosts; i++) {
        const struct prn_profile_host *host = &p->hosts[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "hardware", host->hardware);
        write_machine(w, &host->environment);
        prn_json_number(w, "timer_ns", host->timer_ns);
        prn_json_number(w, "canary_best_ns", host->canary_best_ns);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_backend(struct prn_json_writer *w, const struct prn_result *r)
{
    prn_json_object(w, "backend");
    prn_json_text(w, "name", r->name);
    prn_json_text(w, "hardware", r->hardware);
    prn_json_text(w, "software", r->software);
    prn_json_text(w, "processor", r->processor);
    prn_json_number(w, "usd_per_hour", r->usd_per_hour);
    prn_json_text(w, "runtime_version", r->runtime_version);
    prn_json_text(w, "library", r->runtime_library);
    prn_json_end(w);
}

void prn_profile_write_flags(struct prn_json_writer *w, unsigned flags)
{
    prn_json_array_compact(w, "flags");
#define PRN_X(name, bit, text) \
    if (flags & (bit))         \
        prn_json_text(w, NULL, #name);
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
    prn_json_end(w);
}

static void write_stats(struct prn_json_writer *w, const struct prn_result *r)
{
    const struct prn_sample_stats *s = &r->stats;
    if (r->n_samples == 0) {
        prn_json_null(w, "stats");
        return;
    }
    prn_json_object(w, "stats");
    prn_json_number(w, "median_ns", s->median_ns);
    prn_json_number(w, "low_ns", s->low_ns);
    prn_json_number(w, "high_ns", s->high_ns);
    prn_json_number(w, "mean_ns", s->mean_ns);
    prn_json_number(w, "sd_ns", s->sd_ns);
    prn_json_number(w, "min_ns", s->min_ns);
    prn_json_number(w, "max_ns", s->max_ns);
#define PRN_X(name, p) prn_json_number(w, #name "_ns", s->name##_ns);
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    prn_json_number(w, "spread", s->spread);
    prn_json_integer(w, "outliers", s->outliers);
    prn_json_end(w);
}

static void write_launches(struct prn_json_writer *w, const struct prn_result *r)
{
    prn_json_array(w, "launches");
    for (size_t i = 0; i < r->n_launches; i++) {
        const struct prn_launch *launch = &r->launches[i];
        prn_json_object(w, NULL);
        known(w, "load_ns", launch->load_ns);
        known(w, "first_run_ns", launch->first_run_ns);
        known(w, "baseline_bytes", launch->baseline_bytes);
        known(w, "peak_bytes", launch->peak_bytes);
        prn_json_integer(w, "warmup_runs", launch->warmup_runs);
        prn_json_bool(w, "settled", launch->settled);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_outputs(struct prn_json_writer *w, const struct prn_result *r)
{
    prn_json_array(w, "outputs");
    for (size_t i = 0; i < r->n_outputs; i++) {
        const struct prn_output_check *output = &r->outputs[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "name", output->name);
        prn_json_bool(w, "same_shape", output->same_shape);
        prn_json_number(w, "max_abs", output->max_abs);
        prn_json_number(w, "max_rel", output->max_rel);
        prn_json_number(w, "cosine", output->cosine);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_samples(struct prn_json_writer *w, const struct prn_result *r)
{
    prn_json_array_compact(w, "samples_ns");
    for (size_t i = 0; i < r->n_samples; i++)
        prn_json_integer(w, NULL, r->samples[i].ns);
    prn_json_end(w);
    prn_json_array_compact(w, "launch");
    for (size_t i = 0; i < r->n_samples; i++)
        prn_json_integer(w, NULL, r->samples[i].launch);
    prn_json_end(w);
    prn_json_array_compact(w, "block");
    for (size_t i = 0; i < r->n_samples; i++)
        prn_json_integer(w, NULL, r->samples[i].block);
    prn_json_end(w);
}

static void write_result(struct prn_json_writer *w, const struct prn_result *r, bool samples)
{
    prn_json_object(w, NULL);
    write_backend(w, r);
    prn_json_integer(w, "point", (int64_t)r->point);
    prn_part_write_error(w, r->error_code, r->error);
    prn_profile_write_flags(w, r->flags);
    prn_json_text(w, "verdict", prn_verdict_names[r->verdict]);
    prn_part_write_interval(w, "ratio", r->ratio);
    write_stats(w, r);
    write_launches(w, r);
    prn_json_integer(w, "redone_blocks", r->redone_blocks);
    write_outputs(w, r);
    prn_ops_write_json(w, r->ops);
    if (samples)
        write_samples(w, r);
    if (r->load)
        prn_load_write(w, r->load);
    prn_json_end(w);
}

static int write_profile(const struct prn_profile *profile, bool samples, struct prn_buffer *out,
                         struct prony_error *err)
{
    struct prn_json_writer writer = prn_json_writer_init(out);
    struct prn_json_writer *w = &writer;
    prn_json_object(w, NULL);
    prn_json_text(w, "schema", PRN_PROFILE_SCHEMA);
    prn_json_text(w, "prony_version", profile->prony_version);
    prn_json_text(w, "created", profile->created);
    write_model(w, profile);
    write_points(w, profile);
    write_settings(w, "settings", &profile->settings);
    write_environment(w, &profile->environment);
    write_hosts(w, profile);
    prn_json_number(w, "timer_ns", profile->timer_ns);
    prn_json_object(w, "canary");
    prn_json_number(w, "best_ns", profile->canary_best_ns);
    prn_json_end(w);
    prn_json_array(w, "notes");
    for (size_t i = 0; i < profile->n_notes; i++)
        prn_json_text(w, NULL, profile->notes[i]);
    prn_json_end(w);
    prn_json_array(w, "results");
    for (size_t i = 0; i < profile->n_results; i++)
        write_result(w, &profile->results[i], samples);
    prn_json_end(w);
    if (profile->recorded)
        prn_recorded_write_json(w, profile, samples);
    prn_json_end(w);
    return prn_buffer_error(out, err);
}

int prn_profile_write_json(const struct prn_profile *profile, struct prn_buffer *out,
                           struct prony_error *err)
{
    return write_profile(profile, true, out, err);
}

int prn_profile_write_figures(const struct prn_profile *profile, struct prn_buffer *out,
                              struct prony_error *err)
{
    return write_profile(profile, false, out, err);
}
