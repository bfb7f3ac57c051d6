#include "report/schedule/view.h"

#include <math.h>
#include <stdlib.h>

static void view_stage(struct prn_schedule_view *view, size_t i)
{
    const struct prn_pipeline *p = view->report->pipeline;
    const struct prn_schedule *s = view->report->schedule;
    const struct prn_stage *stage = &s->stages[i];
    const struct prn_pipeline_type *type = &p->types[stage->type];
    struct prn_stage_view *v = &view->stages[i];
    *v = (struct prn_stage_view){
        .host = type->hosts[stage->host],
        .type = type->name,
        .first = stage->first,
        .last = stage->last,
        .time = {prn_pipeline_stage_time(p, stage->type, stage->first, stage->last),
                 prn_pipeline_stage_ci(p, stage->type, stage->first, stage->last)},
        .memory_bytes = prn_pipeline_stage_memory(p, stage->first, stage->last),
        .available_bytes = prn_pipeline_type_memory(p, stage->type),
        .link_bytes = NAN,
        .link_mbps = NAN,
        .link_s = NAN,
        .link_idle = NAN};
    v->idle = view->period.s > 0 ? 1 - v->time.s / view->period.s : 0;
    if (i + 1 == s->n)
        return;
    size_t next = stage[1].type;
    v->link_bytes = prn_pipeline_link_bytes(p, stage->last);
    v->link_mbps = prn_pipeline_link_mbps(p, stage->type, next);
    v->link_s = prn_pipeline_link_time(p, stage->last, stage->type, next);
    v->link_idle = view->period.s > 0 ? 1 - v->link_s / view->period.s : 0;
}

/* The first stage or link that takes as long as the period. A link's time is computed, not
 * measured, and has no error. */
static void find_bottleneck(struct prn_schedule_view *view)
{
    for (size_t i = view->report->schedule->n; i-- > 0;) {
        const struct prn_stage_view *v = &view->stages[i];
        if (v->link_s == view->period.s) {
            view->bottleneck = i;
            view->bottleneck_is_link = true;
            view->period.ci_s = 0;
        }
        if (v->time.s == view->period.s) {
            view->bottleneck = i;
            view->bottleneck_is_link = false;
            view->period.ci_s = v->time.ci_s;
        }
    }
}

int prn_schedule_view_init(struct prn_schedule_view *view, const struct prn_schedule_report *report,
                           struct prony_error *err)
{
    const struct prn_pipeline *p = report->pipeline;
    const struct prn_schedule *s = report->schedule;
    *view = (struct prn_schedule_view){.report = report,
                                       .period = {NAN, NAN},
                                       .latency = {NAN, NAN},
                                       .throughput = NAN,
                                       .throughput_ci = NAN,
                                       .usd_per_hour = NAN};
    view->stages = calloc(s->n + 1, sizeof *view->stages);
    if (!view->stages)
        return prn_fail_memory(err);
    if (s->n == 0)
        return 0;
    view->period.s = prn_schedule_period(p, s);
    view->latency.s = prn_schedule_latency(p, s);
    view->usd_per_hour = prn_schedule_cost(p, s);
    double squares = 0;
    for (size_t i = 0; i < s->n; i++) {
        view_stage(view, i);
        squares += view->stages[i].time.ci_s * view->stages[i].time.ci_s;
    }
    view->latency.ci_s = sqrt(squares);
    find_bottleneck(view);
    if (view->period.s > 0) {
        view->throughput = (double)p->batch_size / view->period.s;
        view->throughput_ci = view->throughput * view->period.ci_s / view->period.s;
    }
    return 0;
}

void prn_schedule_view_release(struct prn_schedule_view *view)
{
    free(view->stages);
    view->stages = NULL;
}

size_t prn_schedule_view_used(const struct prn_schedule_view *view, size_t type)
{
    size_t used = 0;
    for (size_t i = 0; i < view->report->schedule->n; i++)
        used += view->report->schedule->stages[i].type == type;
    return used;
}

const char *prn_schedule_view_figure(const struct prn_schedule_view *view)
{
    static const char *const figures[] = {"period_s", "latency_s", "usd_per_hour"};
    return figures[view->report->goal->objective];
}

void prn_schedule_view_place(const struct prn_schedule_view *view, size_t stage, bool is_link,
                             struct prn_buffer *out)
{
    prn_buffer_printf(out, "%sstage %zu (%s)", is_link ? "the link from " : "", stage + 1,
                      view->stages[stage].host);
    if (is_link)
        prn_buffer_printf(out, " to stage %zu", stage + 2);
}

struct prn_table *prn_schedule_view_table(const struct prn_schedule_view *view)
{
    struct prn_table *t = prn_table_new();
    prn_table_width(t, view->report->look.width ? view->report->look.width : PRN_LOOK_WIDTH);
    return t;
}
