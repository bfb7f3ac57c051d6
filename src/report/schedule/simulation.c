/* What a schedule took when it was tried out, beside what was predicted: as text and CSV. */
#include "base/format.h"
#include "report/prose.h"
#include "report/schedule/view.h"

#include <math.h>

/* Inferences per second, with half of the interval. */
static struct prn_timed rate(const struct prn_schedule_view *view, double s, double ci_s)
{
    double rate = s > 0 ? (double)view->report->pipeline->batch_size / s : NAN;
    return (struct prn_timed){rate, rate * ci_s / s};
}

struct prn_timed prn_simulation_view_rate(const struct prn_schedule_view *view)
{
    struct prn_timed period = prn_timed(view->report->simulation->period_s);
    return rate(view, period.s, period.ci_s);
}

/* The largest difference of an output from the whole model's, as a part of its largest value. */
static const struct prn_output_check *worst_output(const struct prn_simulation *s)
{
    const struct prn_output_check *worst = NULL;
    for (size_t i = 0; i < s->n_outputs; i++)
        if (!worst || !s->outputs[i].same_shape || s->outputs[i].max_rel > worst->max_rel)
            worst = &s->outputs[i];
    return worst;
}

void prn_simulation_view_verdict(const struct prn_schedule_view *view, struct prn_buffer *out)
{
    const struct prn_simulation *s = view->report->simulation;
    struct prn_timed measured = prn_simulation_view_rate(view);
    char number[PRN_FORMAT_SIZE];
    prn_buffer_printf(out, "Measured on %s%s: %s", s->server ? "hosts of " : "this machine",
                      s->server ? s->server : "", prn_format_significant(number, measured.s, 4));
    prn_schedule_add_half(measured.s, measured.ci_s, out);
    prn_buffer_add(out, " inferences per second");
    if (view->throughput > 0) {
        prn_buffer_printf(out, ", %s× ", prn_format_ratio(number, measured.s / view->throughput));
        prn_buffer_printf(out, "the predicted %s",
                          prn_format_significant(number, view->throughput, 4));
    }
    prn_buffer_printf(out, "%s; the bottleneck is ", s->disturbed > 0 ? " (NOISY)" : "");
    prn_schedule_view_place(view, s->bottleneck, s->bottleneck_is_link, out);
    prn_buffer_add_char(out, '.');
}

double prn_simulation_view_mbps(const struct prn_simulation *s, size_t i)
{
    const struct prn_simulated_stage *stage = &s->stages[i];
    return s->server && stage->link_bytes > 0
               ? stage->link_bytes * 8 / (1 << 20) / stage->link_s.estimate
               : NAN;
}

/* ---- Text ---- */

static void cell_duration(struct prn_table *t, double s)
{
    char number[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%s", isfinite(s) ? prn_format_duration(number, 1e9 * s) : "");
}

static void stage_row(const struct prn_schedule_view *view, size_t i, struct prn_table *t)
{
    const struct prn_stage_view *predicted = &view->stages[i];
    const struct prn_simulated_stage *stage = &view->report->simulation->stages[i];
    char number[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%zu", i + 1);
    prn_table_cell(t, "%s", predicted->host);
    cell_duration(t, predicted->time.s);
    cell_duration(t, stage->alone_s.estimate);
    prn_schedule_cell_half(t, prn_timed(stage->alone_s));
    prn_table_cell(t, "%s", prn_format_ratio(number, stage->alone_s.estimate / predicted->time.s));
    cell_duration(t, stage->together_s.estimate);
    prn_schedule_cell_half(t, prn_timed(stage->together_s));
    cell_duration(t, stage->handling_s.estimate);
}

static void use_row(const struct prn_schedule_view *view, size_t i, struct prn_table *t)
{
    const struct prn_stage_view *predicted = &view->stages[i];
    const struct prn_simulated_stage *stage = &view->report->simulation->stages[i];
    char number[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%zu", i + 1);
    prn_table_cell(t, "%s", predicted->host);
    prn_table_cell(t, "%.1f %%", 100 * stage->busy);
    cell_duration(t, stage->link_s.estimate);
    prn_table_cell(t, "%s", prn_format_bytes(number, predicted->memory_bytes));
    prn_table_cell(t, "%s",
                   isnan(stage->memory_bytes) ? "n/a"
                                              : prn_format_bytes(number, stage->memory_bytes));
}

/* A table with a row for each stage. */
static int stage_table(const struct prn_schedule_view *view, const char *columns,
                       void (*row)(const struct prn_schedule_view *, size_t, struct prn_table *),
                       struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *t = prn_schedule_view_table(view);
    prn_table_columns(t, columns);
    for (size_t i = 0; i < view->report->simulation->n_stages; i++)
        row(view, i, t);
    return prn_table_end(t, PRN_TABLE_STYLE_TEXT, out, err);
}

/* Two, so that what stages take isn't what a narrow page leaves out. */
static int stage_tables(const struct prn_schedule_view *view, struct prn_buffer *out,
                        struct prony_error *err)
{
    static const char times[] = ">Stage|Host|>Predicted|>Alone|>±|>Ratio|>Together|>±|>Passing";
    int code = stage_table(view, times, stage_row, out, err);
    prn_buffer_add_char(out, '\n');
    return code < 0
               ? code
               : stage_table(view, ">Stage|Host|>Busy|>Link|>Memory|>Taken", use_row, out, err);
}

/* Over a network links have times of their own. */
static int link_table(const struct prn_schedule_view *view, struct prn_buffer *out,
                      struct prony_error *err)
{
    const struct prn_simulation *s = view->report->simulation;
    char number[PRN_FORMAT_SIZE];
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "Link|>Sends|>Predicted|>Measured|>±|>Ratio|>Mbps|>Measured");
    for (size_t i = 0; i + 1 < s->n_stages; i++) {
        const struct prn_stage_view *predicted = &view->stages[i];
        const struct prn_simulated_stage *stage = &s->stages[i];
        double mbps = prn_simulation_view_mbps(s, i);
        prn_table_cell(t, "%s to %s", predicted->host, predicted[1].host);
        prn_table_cell(t, "%s", prn_format_bytes(number, stage->link_bytes));
        cell_duration(t, predicted->link_s);
        cell_duration(t, stage->link_s.estimate);
        prn_schedule_cell_half(t, prn_timed(stage->link_s));
        prn_table_cell(t, "%s",
                       prn_format_ratio(number, stage->link_s.estimate / predicted->link_s));
        prn_table_cell(t, "%s", prn_format_significant(number, predicted->link_mbps, 3));
        prn_table_cell(t, "%s", isnan(mbps) ? "" : prn_format_significant(number, mbps, 3));
    }
    return prn_table_end(t, PRN_TABLE_STYLE_TEXT, out, err);
}

/* A figure with half of its interval, which what is expected doesn't have. */
static void total_row(struct prn_table *t, const char *title, struct prn_timed throughput,
                      struct prn_timed latency)
{
    char number[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%s", title);
    prn_table_cell(t, "%s/s", prn_format_significant(number, throughput.s, 4));
    if (isnan(throughput.ci_s))
        prn_table_cell(t, "%s", "");
    else if (throughput.ci_s > throughput.s)
        prn_table_cell(t, "%s", "unknown");
    else
        prn_table_cell(t, "%s/s", prn_format_significant(number, throughput.ci_s, 2));
    cell_duration(t, latency.s);
    if (isnan(latency.ci_s))
        prn_table_cell(t, "%s", "");
    else
        prn_schedule_cell_half(t, latency);
}

static int total_table(const struct prn_schedule_view *view, struct prn_buffer *out,
                       struct prony_error *err)
{
    const struct prn_simulation *s = view->report->simulation;
    struct prn_table *t = prn_schedule_view_table(view);
    prn_table_columns(t, "Pipeline|>Throughput|>±|>Latency|>±");
    total_row(t, "predicted", (struct prn_timed){view->throughput, view->throughput_ci},
              view->latency);
    total_row(t, s->server ? "expected" : "expected here", rate(view, s->expected_period_s, NAN),
              (struct prn_timed){s->expected_latency_s, NAN});
    total_row(t, "measured", prn_simulation_view_rate(view), prn_timed(s->latency_s));
    return prn_table_end(t, PRN_TABLE_STYLE_TEXT, out, err);
}

/* Which hosts the service gave; on one machine they have one name. */
static void tell_hosts(const struct prn_simulation *s, struct prn_prose *prose)
{
    prn_buffer_printf(&prose->line, "Run by %s on", s->version);
    for (size_t i = 0; i < s->n_stages; i++)
        prn_buffer_printf(&prose->line, "%s %s", i > 0 ? "," : "", s->stages[i].host);
}

static void tell_cores(const struct prn_simulation *s, struct prn_prose *prose)
{
    size_t each = s->stages[0].cores;
    prn_buffer_printf(&prose->line, "Run here by %s (%s), a process per stage, ", s->version,
                      s->backend);
    if (s->pinned)
        prn_buffer_printf(&prose->line, "each on %s of its own", each == 1 ? "a core" : "cores");
    else
        prn_buffer_printf(&prose->line,
                          "which share %zu core%s: too few to give each its own, so stages slow "
                          "each other down",
                          s->n_cores, s->n_cores == 1 ? "" : "s");
    if (s->pinned && each > 1)
        prn_buffer_printf(&prose->line, " (%zu)", each);
}

static void tell_place(const struct prn_simulation *s, struct prn_prose *prose)
{
    if (s->server)
        tell_hosts(s, prose);
    else
        tell_cores(s, prose);
    prn_prose_paragraph(prose, ". %zu batch%s in the full pipeline and %zu alone, in %zu launch%s.",
                        s->batches, s->batches == 1 ? "" : "es", s->lone_batches, s->launches,
                        s->launches == 1 ? "" : "es");
}

/* Predictions are of other machines, as a rule: what can be compared are their proportions. */
static void tell_ratios(const struct prn_schedule_view *view, struct prn_prose *prose)
{
    const struct prn_simulation *s = view->report->simulation;
    double low = INFINITY;
    double high = 0;
    char numbers[2][PRN_FORMAT_SIZE];
    for (size_t i = 0; i < s->n_stages; i++) {
        double ratio = s->stages[i].alone_s.estimate / view->stages[i].time.s;
        low = fmin(low, ratio);
        high = fmax(high, ratio);
    }
    prn_buffer_printf(&prose->line,
                      "Measured stage times are %s; predicted ones are those of the device types. "
                      "Alone, a stage takes ",
                      s->server ? "the hosts'" : "this machine's");
    if (s->n_stages > 1)
        prn_buffer_printf(&prose->line, "%s to ", prn_format_ratio(numbers[0], low));
    prn_prose_paragraph(
        prose, "%s times as long%s as predicted; \"expected%s\" follows from that%s.",
        prn_format_ratio(numbers[1], high), s->server ? "" : " here", s->server ? "" : " here",
        s->links && s->n_stages > 1 ? " and from the links" : "");
}

static void tell_bottlenecks(const struct prn_schedule_view *view, struct prn_prose *prose)
{
    const struct prn_simulation *s = view->report->simulation;
    prn_buffer_printf(&prose->line, "The bottleneck%s is ", s->server ? "" : " here");
    prn_schedule_view_place(view, s->bottleneck, s->bottleneck_is_link, &prose->line);
    if (s->bottleneck == view->bottleneck && s->bottleneck_is_link == view->bottleneck_is_link) {
        prn_prose_paragraph(prose, ", as predicted.");
        return;
    }
    prn_buffer_add(&prose->line, "; predicted was ");
    prn_schedule_view_place(view, view->bottleneck, view->bottleneck_is_link, &prose->line);
    prn_prose_paragraph(prose, ".");
}

static void tell_launches(const struct prn_simulation *s, struct prn_prose *prose)
{
    if (s->launches < PRN_UNITS_MIN)
        prn_prose_paragraph(prose,
                            "No ±: %zu launch%s can't tell how the next one would differ. Use "
                            "--launches 5.",
                            s->launches, s->launches == 1 ? "" : "es");
}

static void tell_noise(const struct prn_simulation *s, struct prn_prose *prose)
{
    if (s->disturbed > 0)
        prn_prose_paragraph(prose,
                            "NOISY: something else ran on this machine during %zu of %zu "
                            "launch%s. Try again when it is quiet, or with more --launches.",
                            s->disturbed, s->launches, s->launches == 1 ? "" : "es");
}

static void tell_rest(const struct prn_schedule_view *view, struct prn_prose *prose)
{
    const struct prn_simulation *s = view->report->simulation;
    const struct prn_output_check *worst = worst_output(s);
    char number[PRN_FORMAT_SIZE];
    if (s->n_stages > 1)
        prn_prose_paragraph(prose, "%s",
                            s->server ? "A link takes from the first byte that is sent, over "
                                        "TLS, to the receipt that comes back."
                            : s->links
                                ? "Links are not a network: tensors passed on wait as long as "
                                  "was predicted."
                                : "Links take no time here (--no-links).");
    prn_prose_paragraph(prose,
                        "In the full pipeline a batch takes %s from the first layer to the "
                        "last, with its waiting.",
                        prn_format_duration(number, 1e9 * s->full_latency_s.estimate));
    if (!worst)
        return;
    if (worst->same_shape && worst->max_abs == 0)
        prn_prose_paragraph(prose, "Outputs are equal to the whole model's.");
    else if (worst->same_shape)
        prn_prose_paragraph(
            prose,
            "Outputs differ from the whole model's by at most %.2g of their largest "
            "value%s.",
            worst->max_rel,
            prn_output_differs(worst, PRN_TOLERANCE_DEFAULT) ? ", which is more than rounding"
                                                             : "");
    else
        prn_prose_paragraph(prose, "Outputs have other shapes than the whole model's.");
}

int prn_simulation_view_text(const struct prn_schedule_view *view, struct prn_buffer *out,
                             struct prony_error *err)
{
    struct prn_prose prose = prn_prose_init(&view->report->look, out);
    prn_heading(out, false, "Predicted against measured");
    int code = stage_tables(view, out, err);
    if (code == 0) {
        tell_place(view->report->simulation, &prose);
        prn_buffer_add_char(out, '\n');
        if (view->report->simulation->server && view->report->simulation->n_stages > 1) {
            code = link_table(view, out, err);
            prn_buffer_add_char(out, '\n');
        }
    }
    if (code == 0)
        code = total_table(view, out, err);
    if (code == 0) {
        tell_ratios(view, &prose);
        tell_bottlenecks(view, &prose);
        tell_launches(view->report->simulation, &prose);
        tell_noise(view->report->simulation, &prose);
        tell_rest(view, &prose);
    }
    prn_prose_release(&prose);
    return code;
}

/* ---- CSV ---- */

void prn_simulation_view_csv_titles(struct prn_table *t)
{
    prn_table_columns(t, "cores|alone_s|alone_ci_s|together_s|together_ci_s|handling_s|busy|"
                         "measured_link_s|measured_memory_bytes|measured_period_s|"
                         "measured_period_ci_s|measured_throughput_per_s|"
                         "measured_throughput_ci_per_s|measured_latency_s|"
                         "measured_latency_ci_s|expected_period_s|expected_latency_s|"
                         "output_max_rel|measured_link_mbps|ran_on");
}

void prn_simulation_view_csv(const struct prn_schedule_view *view, size_t stage,
                             struct prn_table *t)
{
    const struct prn_simulation *s = view->report->simulation;
    const struct prn_output_check *worst = worst_output(s);
    struct prn_timed throughput = prn_simulation_view_rate(view);
    double own[] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (stage < s->n_stages) {
        const struct prn_simulated_stage *v = &s->stages[stage];
        const double figures[] = {(double)v->cores,
                                  v->alone_s.estimate,
                                  prn_timed(v->alone_s).ci_s,
                                  v->together_s.estimate,
                                  prn_timed(v->together_s).ci_s,
                                  v->handling_s.estimate,
                                  v->busy,
                                  v->link_s.estimate,
                                  v->memory_bytes};
        for (size_t i = 0; i < PRN_ARRAY_SIZE(own); i++)
            own[i] = figures[i];
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(own); i++)
        prn_table_cell_exact(t, own[i]);
    const double all[] = {
        s->period_s.estimate, prn_timed(s->period_s).ci_s, throughput.s,
        throughput.ci_s,      s->latency_s.estimate,       prn_timed(s->latency_s).ci_s,
        s->expected_period_s, s->expected_latency_s,       worst ? worst->max_rel : NAN};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(all); i++)
        prn_table_cell_exact(t, all[i]);
    bool known = stage < s->n_stages;
    prn_table_cell_exact(t, known ? prn_simulation_view_mbps(s, stage) : NAN);
    prn_table_cell(t, "%s", known && s->stages[stage].host ? s->stages[stage].host : "");
}
