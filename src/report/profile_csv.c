/*
 * Profiles as CSV. The header and the rows come from the same list of fields: each call names a
 * column and gives its value, and the mode decides which of the two is written.
 */
#include "report/profile_view.h"

#include "base/format.h"
#include "base/text.h"
#include "report/profile_json.h"

#include <math.h>
#include <stdio.h>

struct row {
    struct prn_buffer *out;
    bool header;
    bool begun;
};

static void field(struct row *row, const char *name, const char *value)
{
    if (row->begun)
        prn_buffer_add_char(row->out, ',');
    row->begun = true;
    struct prn_buffer clean = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_text_clean(&clean, row->header ? name : value ? value : "");
    prn_csv_field(row->out, prn_buffer_text(&clean));
    if (clean.error)
        row->out->error = clean.error;
    prn_buffer_release(&clean);
}

static void number(struct row *row, const char *name, double value)
{
    char text[PRN_FORMAT_SIZE];
    field(row, name, isfinite(value) ? prn_format_shortest(text, value) : "");
}

static void integer(struct row *row, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    field(row, name, value < 0 ? "" : text);
}

static void write_flags(struct row *row, unsigned flags)
{
    struct prn_buffer text = PRN_BUFFER_INIT(256);
    prn_flags_text(&text, flags);
    field(row, "flags", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

static void write_stats(struct row *row, const struct prn_sample_stats *s)
{
    number(row, "median_ns", s->median_ns);
    number(row, "low_ns", s->low_ns);
    number(row, "high_ns", s->high_ns);
    number(row, "mean_ns", s->mean_ns);
    number(row, "sd_ns", s->sd_ns);
    number(row, "min_ns", s->min_ns);
    number(row, "max_ns", s->max_ns);
#define PRN_X(name, p) number(row, #name "_ns", s->name##_ns);
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    number(row, "spread", s->spread);
    integer(row, "outliers", s->outliers);
}

/* Only a sweep has these. */
static void write_sweep(struct row *row, const struct prn_view *view, const struct prn_result *r,
                        size_t index)
{
    const struct prn_sweep_view *sweep = &view->sweep;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 16);
    field(row, "point", prn_result_point(view->profile, r)->label);
    number(row, "per_item_ns", prn_result_measured(r) ? prn_result_item_ns(view->profile, r) : NAN);
    for (size_t i = 0; i < sweep->n_axes; i++) {
        const struct prn_sweep_axis *axis = &sweep->axes[i];
        prn_buffer_clear(&text);
        if (axis->option)
            prn_buffer_printf(&text, "scaling_%s", axis->option);
        number(row, axis->option ? prn_buffer_text(&text) : "batch_gain", axis->scaling[index]);
    }
    prn_buffer_clear(&text);
    if (!row->header)
        prn_sweep_marks(sweep, index, " ", &text);
    field(row, "best", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

static void write_row(struct row *row, const struct prn_view *view, const struct prn_result *r,
                      const struct prn_launch_figures *launches, size_t index)
{
    const struct prn_profile *p = view->profile;
    static const struct prn_sample_stats unknown = {.median_ns = NAN,
                                                    .low_ns = NAN,
                                                    .high_ns = NAN,
                                                    .mean_ns = NAN,
                                                    .sd_ns = NAN,
                                                    .min_ns = NAN,
                                                    .max_ns = NAN,
                                                    .p90_ns = NAN,
                                                    .p95_ns = NAN,
                                                    .p99_ns = NAN,
                                                    .p999_ns = NAN,
                                                    .spread = NAN,
                                                    .outliers = -1};
    bool measured = r->n_samples > 0;
    field(row, "model", p->model_path);
    integer(row, "batch", prn_result_point(p, r)->batch);
    field(row, "backend", r->name);
    field(row, "hardware", r->hardware);
    field(row, "software", r->software);
    field(row, "processor", r->processor);
    field(row, "runtime_version", r->runtime_version);
    integer(row, "samples", (int64_t)r->n_samples);
    integer(row, "launches", (int64_t)r->n_launches);
    write_stats(row, measured ? &r->stats : &unknown);
    number(row, "inferences_per_s", measured ? prn_result_rate(p, r) : NAN);
    number(row, "gflop_per_s", measured ? prn_result_gflops(p, r) : NAN);
    integer(row, "load_ns", launches->load_ns);
    integer(row, "first_run_ns", launches->first_run_ns);
    integer(row, "baseline_bytes", launches->baseline_bytes);
    integer(row, "peak_bytes", launches->peak_bytes);
    number(row, "ratio", r->ratio.estimate);
    number(row, "ratio_low", r->ratio.low);
    number(row, "ratio_high", r->ratio.high);
    field(row, "verdict", prn_verdict_names[r->verdict]);
    number(row, "usd_per_hour", r->usd_per_hour);
    number(row, "usd_per_million", measured ? prn_result_cost(p, r) : NAN);
    integer(row, "redone_blocks", r->redone_blocks);
    write_flags(row, r->flags);
    field(row, "error_code", r->error_code ? prony_error_name(r->error_code) : "");
    field(row, "error", r->error_code ? r->error : "");
    if (view->sweep.active)
        write_sweep(row, view, r, index);
    prn_buffer_add_char(row->out, '\n');
}

int prn_view_csv(const struct prn_view *view, struct prn_buffer *out, struct prony_error *err)
{
    static const struct prn_result no_result;
    static const struct prn_launch_figures no_launches;
    struct row header = {.out = out, .header = true};
    write_row(&header, view, &no_result, &no_launches, 0);
    for (size_t i = 0; i < view->profile->n_results; i++) {
        struct row row = {.out = out};
        write_row(&row, view, &view->profile->results[i], &view->launches[i], i);
    }
    return prn_buffer_error(out, err);
}
