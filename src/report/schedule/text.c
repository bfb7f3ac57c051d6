/* A schedule as text: its stages, what they add up to, what another host would change, and a
 * drawing of the pipeline. */
#include "report/schedule/view.h"

#include "base/format.h"
#include "base/table.h"
#include "base/text.h"
#include "report/prose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BAR_WIDTH 40
#define GAP_TOLD 1e-4 /* what is less than this from the best is not told in figures */

static const char *duration(char buffer[PRN_FORMAT_SIZE], double s)
{
    return prn_format_duration(buffer, 1e9 * s);
}

/* " ± 1.2 ms", or nothing when nothing is known of it. */
static const char *plus_minus(char buffer[PRN_FORMAT_SIZE], struct prn_timed time)
{
    char number[PRN_FORMAT_SIZE];
    if (time.ci_s > time.s)
        snprintf(buffer, PRN_FORMAT_SIZE, " (± unknown)");
    else
        snprintf(buffer, PRN_FORMAT_SIZE, "%s%s", time.ci_s > 0 ? " ± " : "",
                 time.ci_s > 0 ? duration(number, time.ci_s) : "");
    return buffer;
}

static void layers_text(char *buffer, size_t size, const struct prn_stage *stage)
{
    if (stage->first == stage->last)
        snprintf(buffer, size, "%zu", stage->first);
    else
        snprintf(buffer, size, "%zu-%zu", stage->first, stage->last);
}

const char *prn_schedule_gap(char buffer[PRN_FORMAT_SIZE], double ratio)
{
    char number[PRN_FORMAT_SIZE];
    if (ratio - 1 < GAP_TOLD)
        snprintf(buffer, PRN_FORMAT_SIZE, "less than %g %%", 100 * GAP_TOLD);
    else
        snprintf(buffer, PRN_FORMAT_SIZE, "at most %s %%",
                 prn_format_significant(number, 100 * (ratio - 1), 2));
    return buffer;
}

/* ---- Tables ---- */

static bool has_errors(const struct prn_schedule_view *view)
{
    for (size_t i = 0; i < view->report->schedule->n; i++)
        if (!isnan(view->stages[i].time.ci_s))
            return true;
    return false;
}

static void stage_row(const struct prn_schedule_view *view, size_t i, bool errors,
                      struct prn_table *t)
{
    const struct prn_stage_view *v = &view->stages[i];
    char layers[64], number[PRN_FORMAT_SIZE];
    layers_text(layers, sizeof layers, &view->report->schedule->stages[i]);
    prn_table_cell(t, "%zu", i + 1);
    prn_table_cell(t, "%s", v->host);
    prn_table_cell(t, "%s", v->type);
    prn_table_cell(t, "%s", layers);
    prn_table_cell(t, "%s", duration(number, v->time.s));
    if (errors)
        prn_schedule_cell_half(t, v->time);
    prn_table_cell(t, "%.1f %%", 100 * v->idle);
    prn_table_cell(t, "%s", prn_format_bytes(number, v->memory_bytes));
    prn_table_cell(t, "%s", prn_format_bytes(number, v->available_bytes));
    prn_table_cell(t, "%s", isnan(v->link_s) ? "" : prn_format_bytes(number, v->link_bytes));
    prn_table_cell(t, "%s", isnan(v->link_s) ? "" : duration(number, v->link_s));
}

static int stage_table(const struct prn_schedule_view *view, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct prn_table *t = prn_schedule_view_table(view);
    bool errors = has_errors(view);
    prn_table_columns(t, ">Stage|Host|Type|>Layers|>Time");
    if (errors)
        prn_table_column(t, "±", PRN_TABLE_ALIGN_RIGHT);
    prn_table_columns(t, ">Idle|>Memory|>of|>Sends|>in");
    for (size_t i = 0; i < view->report->schedule->n; i++)
        stage_row(view, i, errors, t);
    return prn_table_end(t, PRN_TABLE_STYLE_TEXT, out, err);
}

/* The objective as people read it. */
static void figure_text(const struct prn_schedule_view *view, double value,
                        char buffer[PRN_FORMAT_SIZE])
{
    const struct prn_pipeline *p = view->report->pipeline;
    char number[PRN_FORMAT_SIZE];
    if (isinf(value))
        snprintf(buffer, PRN_FORMAT_SIZE, "none");
    else if (view->report->goal->objective == PRN_OBJECTIVE_COST)
        prn_format_dollars(buffer, value);
    else if (view->report->goal->objective == PRN_OBJECTIVE_LATENCY)
        duration(buffer, value);
    else if (value > 0)
        snprintf(buffer, PRN_FORMAT_SIZE, "%s/s",
                 prn_format_significant(number, (double)p->batch_size / value, 4));
    else
        snprintf(buffer, PRN_FORMAT_SIZE, "n/a");
}

static void change_text(double now, double then, char buffer[PRN_FORMAT_SIZE])
{
    if (isnan(then))
        snprintf(buffer, PRN_FORMAT_SIZE, "too much to search");
    else if (isinf(now))
        snprintf(buffer, PRN_FORMAT_SIZE, "%s", isinf(then) ? "none either" : "makes it feasible");
    else if (!prn_pipeline_less(then, now))
        snprintf(buffer, PRN_FORMAT_SIZE, "no better");
    else if (then > 0)
        snprintf(buffer, PRN_FORMAT_SIZE, "%.3g× as good", now / then);
    else
        snprintf(buffer, PRN_FORMAT_SIZE, "better");
}

static int more_table(const struct prn_schedule_view *view, struct prn_buffer *out,
                      struct prony_error *err)
{
    static const char *const titles[] = {"Throughput", "Latency", "Price per hour"};
    const struct prn_schedule_report *r = view->report;
    const struct prn_pipeline *p = r->pipeline;
    double now = prn_schedule_value(p, r->goal, r->schedule);
    struct prn_table *t = prn_schedule_view_table(view);
    prn_table_columns(t, "One more of|>Hosts|>Used");
    prn_table_column(t, titles[r->goal->objective], PRN_TABLE_ALIGN_RIGHT);
    prn_table_column(t, "Change", PRN_TABLE_ALIGN_LEFT);
    for (size_t i = 0; i < p->n_types; i++) {
        char figure[PRN_FORMAT_SIZE], change[PRN_FORMAT_SIZE];
        figure_text(view, r->one_more[i], figure);
        change_text(now, r->one_more[i], change);
        prn_table_cell(t, "%s", p->types[i].name);
        prn_table_cell(t, "%zu", p->types[i].n_hosts);
        prn_table_cell(t, "%zu", prn_schedule_view_used(view, i));
        prn_table_cell(t, "%s", isnan(r->one_more[i]) ? "" : figure);
        prn_table_cell(t, "%s", change);
    }
    return prn_table_end(t, PRN_TABLE_STYLE_TEXT, out, err);
}

/* ---- Sentences ---- */

void prn_schedule_add_half(double figure, double half, struct prn_buffer *out)
{
    char number[PRN_FORMAT_SIZE];
    if (half > figure)
        prn_buffer_add(out, " (± unknown)");
    else if (half > 0)
        prn_buffer_printf(out, " ± %s", prn_format_significant(number, half, 2));
}

void prn_schedule_cell_half(struct prn_table *t, struct prn_timed time)
{
    char number[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%s",
                   isnan(time.ci_s)     ? "?"
                   : time.ci_s > time.s ? "unknown"
                                        : duration(number, time.ci_s));
}

static void add_throughput(const struct prn_schedule_view *view, struct prn_buffer *out)
{
    char number[PRN_FORMAT_SIZE];
    prn_buffer_add(out, prn_format_significant(number, view->throughput, 4));
    prn_schedule_add_half(view->throughput, view->throughput_ci, out);
    prn_buffer_add(out, " inferences per second");
}

static void add_prediction(const struct prn_schedule_view *view, struct prn_buffer *out)
{
    size_t n = view->report->schedule->n;
    char number[PRN_FORMAT_SIZE];
    prn_buffer_printf(out, "%zu host%s ", n, n == 1 ? "" : "s");
    switch (view->report->goal->objective) {
    case PRN_OBJECTIVE_LATENCY:
        prn_buffer_printf(out, "%s a batch of %lld in %s", n == 1 ? "computes" : "compute",
                          (long long)view->report->pipeline->batch_size,
                          duration(number, view->latency.s));
        break;
    case PRN_OBJECTIVE_COST:
        prn_buffer_printf(out, "at %s per hour %s the limits",
                          prn_format_dollars(number, view->usd_per_hour),
                          n == 1 ? "keeps" : "keep");
        break;
    default:
        prn_buffer_add(out, n == 1 ? "gives " : "give ");
        if (isnan(view->throughput))
            prn_buffer_add(out, "results in no time");
        else
            add_throughput(view, out);
    }
}

void prn_schedule_view_verdict(const struct prn_schedule_view *view, struct prn_buffer *out)
{
    const struct prn_schedule_report *r = view->report;
    if (r->schedule->n == 0) {
        prn_buffer_printf(out, "No schedule is feasible%s%s.", r->shortage ? ": " : "",
                          r->shortage ? r->shortage : "");
        return;
    }
    if (r->simulation) {
        prn_simulation_view_verdict(view, out);
        return;
    }
    add_prediction(view, out);
    prn_buffer_add(out, "; the bottleneck is ");
    prn_schedule_view_place(view, view->bottleneck, view->bottleneck_is_link, out);
    prn_buffer_add_char(out, '.');
}

static void summary(const struct prn_schedule_view *view, struct prn_prose *prose)
{
    char number[PRN_FORMAT_SIZE], error[PRN_FORMAT_SIZE];
    if (!isnan(view->throughput)) {
        prn_buffer_add(&prose->line,
                       view->report->simulation ? "Predicted throughput " : "Throughput ");
        add_throughput(view, &prose->line);
        prn_prose_paragraph(prose, ": a batch of %lld every %s%s.",
                            (long long)view->report->pipeline->batch_size,
                            duration(number, view->period.s), plus_minus(error, view->period));
    }
    prn_prose_paragraph(prose, "A batch takes %s%s from the first layer to the last.",
                        duration(number, view->latency.s), plus_minus(error, view->latency));
    double value =
        prn_schedule_value(view->report->pipeline, view->report->goal, view->report->schedule);
    if (!isnan(view->report->bound))
        prn_prose_paragraph(prose,
                            "There was too much to search: this schedule is not proved to be the "
                            "best, but is %s from it.",
                            prn_schedule_gap(number, value / view->report->bound));
    if (!isnan(view->usd_per_hour))
        prn_prose_paragraph(prose, "The hosts cost %s per hour.",
                            prn_format_dollars(number, view->usd_per_hour));
}

static void title(const struct prn_schedule_view *view, struct prn_prose *prose)
{
    const struct prn_pipeline *p = view->report->pipeline;
    prn_prose_paragraph(prose, "%s: %zu layers, %s, batches of %lld; best for %s", p->model_name,
                        p->n_layers, p->dtype, (long long)p->batch_size,
                        prn_objectives[view->report->goal->objective]);
    prn_buffer_add_char(prose->out, '\n');
    prn_schedule_view_verdict(view, &prose->line);
    prn_prose_verdict(prose);
}

/* ---- Drawing ---- */

static void bar(const struct prn_prose *p, double idle)
{
    const size_t around = sizeof "  |  [] idle 100.0 %" - 1;
    const size_t room = p->look.width - around;
    const size_t width = room < BAR_WIDTH ? room : BAR_WIDTH;
    size_t busy = (size_t)lround((1 - idle) * (double)width);
    prn_buffer_add(p->out, "  |  [");
    for (size_t i = 0; i < width; i++)
        prn_buffer_add_char(p->out, i < busy ? '#' : '.');
    prn_buffer_printf(p->out, "] idle %.1f %%\n", 100 * idle);
}

/* Ends `line` as a line of the drawing, which begins as `begin` says. */
static void draw_line(struct prn_prose *p, const char *begin)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(p->out->limit);
    prn_text_clean(&clean, prn_buffer_text(&p->line));
    prn_buffer_add(p->out, begin);
    prn_text_wrap(p->out, prn_buffer_text(&clean), strlen(begin), 7, p->look.width);
    prn_prose_pass_error(p, &p->line);
    prn_prose_pass_error(p, &clean);
    prn_buffer_release(&clean);
    prn_buffer_clear(&p->line);
}

static void draw_stage(const struct prn_schedule_view *view, size_t i, struct prn_prose *p)
{
    const struct prn_stage_view *v = &view->stages[i];
    const struct prn_stage *stage = &view->report->schedule->stages[i];
    char number[PRN_FORMAT_SIZE], layers[64];
    layers_text(layers, sizeof layers, stage);
    prn_buffer_printf(&p->line, "stage %zu: %s (%s), layer%s %s, %s", i + 1, v->host, v->type,
                      stage->first == stage->last ? "" : "s", layers, duration(number, v->time.s));
    draw_line(p, "  v  ");
    bar(p, v->idle);
}

static void draw_link(const struct prn_stage_view *v, struct prn_prose *p)
{
    char number[PRN_FORMAT_SIZE];
    prn_buffer_printf(&p->line, "link: %s", prn_format_bytes(number, v->link_bytes));
    prn_buffer_printf(&p->line, " in %s", duration(number, v->link_s));
    prn_buffer_printf(&p->line, " at %.6g Mbps", v->link_mbps);
    draw_line(p, "  |  ");
    bar(p, v->link_idle);
}

static void draw(const struct prn_schedule_view *view, struct prn_prose *p)
{
    const struct prn_pipeline *pipeline = view->report->pipeline;
    const size_t n = view->report->schedule->n;
    char number[PRN_FORMAT_SIZE];
    prn_buffer_printf(p->out, "  in: %s\n  |\n", prn_format_bytes(number, pipeline->bytes_in));
    for (size_t i = 0; i < n; i++) {
        draw_stage(view, i, p);
        if (i + 1 < n)
            draw_link(&view->stages[i], p);
    }
    prn_buffer_printf(p->out, "  v\n  out: %s\n\n",
                      prn_format_bytes(number, pipeline->bytes_out[pipeline->n_layers - 1]));
}

int prn_schedule_view_text(const struct prn_schedule_view *view, struct prn_buffer *out,
                           struct prony_error *err)
{
    struct prn_prose prose = prn_prose_init(&view->report->look, out);
    int code = 0;
    title(view, &prose);
    prn_buffer_add_char(out, '\n');
    if (view->report->schedule->n > 0) {
        if (view->report->drawing)
            draw(view, &prose);
        code = stage_table(view, out, err);
        if (code == 0)
            summary(view, &prose);
        prn_buffer_add_char(out, '\n');
    }
    if (code == 0 && !view->report->pipeline->pair_mbps)
        code = more_table(view, out, err);
    if (code == 0 && view->report->simulation)
        code = prn_simulation_view_text(view, out, err);
    prn_prose_release(&prose);
    return code;
}
