/* A schedule as YAML, JSON and CSV; text.c has the text. */
#include "report/schedule/report.h"

#include "format/yaml_write.h"
#include "report/page.h"
#include "report/schedule/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define YAML_MAX ((size_t)256 << 20)
#define VERDICT_MAX ((size_t)64 << 10)

const char *const prn_schedule_formats[] = {"yaml", "text", "json", "csv", "html", NULL};
const char *const prn_objectives[] = {"throughput", "latency", "cost", NULL};

/* ---- YAML ---- */

static const struct prn_yaml_node *stage_node(struct prn_arena *a, const struct prn_pipeline *p,
                                              const struct prn_stage *stage)
{
    const struct prn_yaml_node *layers[] = {prn_yaml_new_integer(a, (int64_t)stage->first),
                                            prn_yaml_new_integer(a, (int64_t)stage->last)};
    return prn_yaml_with(a, prn_yaml_new_map(a), p->types[stage->type].hosts[stage->host],
                         prn_yaml_new_list(a, layers, PRN_ARRAY_SIZE(layers)));
}

static int write_yaml(const struct prn_schedule_report *r, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(YAML_MAX);
    size_t n = r->schedule->n;
    const struct prn_yaml_node **stages = PRN_ARENA_ARRAY(&arena, n, const struct prn_yaml_node *);
    for (size_t i = 0; stages && i < n; i++)
        stages[i] = stage_node(&arena, r->pipeline, &r->schedule->stages[i]);
    const struct prn_yaml_node *root = stages ? prn_yaml_new_list(&arena, stages, n) : NULL;
    int code = root ? prn_yaml_write(root, out, err) : prn_fail_memory(err);
    prn_arena_release(&arena);
    return code;
}

/* ---- The plan of stages that were exported ---- */

static const struct prn_yaml_node *names_node(struct prn_arena *a,
                                              const struct prn_cut_tensor *const *tensors, size_t n)
{
    const struct prn_yaml_node *list = prn_yaml_new_list(a, NULL, 0);
    for (size_t i = 0; i < n; i++)
        list = prn_yaml_with_item(a, list, i, prn_yaml_new_text(a, tensors[i]->value.name));
    return list;
}

static const struct prn_yaml_node *plan_node(struct prn_arena *a, const struct prn_pipeline *p,
                                             const struct prn_stage *stage, bool last,
                                             const struct prn_stage_model *model)
{
    const struct prn_yaml_node *layers[] = {prn_yaml_new_integer(a, (int64_t)stage->first),
                                            prn_yaml_new_integer(a, (int64_t)stage->last)};
    const struct prn_layer *layer = model->layer;
    const struct prn_yaml_node *node = prn_yaml_new_map(a);
    node = prn_yaml_with(a, node, "host",
                         prn_yaml_new_text(a, p->types[stage->type].hosts[stage->host]));
    node = prn_yaml_with(a, node, "type", prn_yaml_new_text(a, p->types[stage->type].name));
    node = prn_yaml_with(a, node, "layers", prn_yaml_new_list(a, layers, PRN_ARRAY_SIZE(layers)));
    node = prn_yaml_with(a, node, "model", prn_yaml_new_text(a, strrchr(model->path, '/') + 1));
    node = prn_yaml_with(a, node, "takes", names_node(a, layer->in, layer->n_in));
    node = prn_yaml_with(a, node, "hands_on", names_node(a, layer->out, layer->n_out));
    node = prn_yaml_with(a, node, "results", names_node(a, layer->results, layer->n_results));
    const char *next = last ? NULL : p->types[stage[1].type].hosts[stage[1].host];
    return prn_yaml_with(a, node, "to", next ? prn_yaml_new_text(a, next) : prn_yaml_new_null(a));
}

int prn_schedule_plan(const struct prn_pipeline *p, const struct prn_schedule *s,
                      const struct prn_stage_models *models, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(YAML_MAX);
    const struct prn_yaml_node *root = prn_yaml_new_list(&arena, NULL, 0);
    for (size_t i = 0; i < s->n; i++)
        root = prn_yaml_with_item(
            &arena, root, i,
            plan_node(&arena, p, &s->stages[i], i + 1 == s->n, &models->stages[i]));
    int code = root ? prn_yaml_write(root, out, err) : prn_fail_memory(err);
    prn_arena_release(&arena);
    return code;
}

/* ---- JSON ---- */

static void stage_json(struct prn_json_writer *w, const struct prn_stage *stage,
                       const struct prn_stage_view *v)
{
    prn_json_object(w, NULL);
    prn_json_text(w, "host", v->host);
    prn_json_text(w, "type", v->type);
    prn_json_integer(w, "first_layer", (int64_t)stage->first);
    prn_json_integer(w, "last_layer", (int64_t)stage->last);
    prn_json_number(w, "time_s", v->time.s);
    prn_json_number(w, "time_ci_s", v->time.ci_s);
    prn_json_number(w, "idle", v->idle);
    prn_json_number(w, "memory_bytes", v->memory_bytes);
    prn_json_number(w, "available_bytes", v->available_bytes);
    if (isnan(v->link_s)) {
        prn_json_null(w, "link");
    } else {
        prn_json_object(w, "link");
        prn_json_number(w, "bytes", v->link_bytes);
        prn_json_number(w, "mbps", v->link_mbps);
        prn_json_number(w, "time_s", v->link_s);
        prn_json_number(w, "idle", v->link_idle);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void totals_json(struct prn_json_writer *w, const struct prn_schedule_view *view)
{
    if (view->report->schedule->n == 0) {
        prn_json_null(w, "bottleneck");
    } else {
        prn_json_object(w, "bottleneck");
        prn_json_text(w, "kind", view->bottleneck_is_link ? "link" : "stage");
        prn_json_integer(w, "stage", (int64_t)view->bottleneck + 1);
        prn_json_end(w);
    }
    prn_json_number(w, "period_s", view->period.s);
    prn_json_number(w, "period_ci_s", view->period.ci_s);
    prn_json_number(w, "throughput_per_s", view->throughput);
    prn_json_number(w, "throughput_ci_per_s", view->throughput_ci);
    prn_json_number(w, "latency_s", view->latency.s);
    prn_json_number(w, "latency_ci_s", view->latency.ci_s);
    prn_json_number(w, "usd_per_hour", view->usd_per_hour);
    prn_json_number(w, "bound", view->report->bound);
}

static void more_json(struct prn_json_writer *w, const struct prn_schedule_view *view)
{
    const struct prn_pipeline *p = view->report->pipeline;
    prn_json_array(w, "one_more");
    for (size_t t = 0; t < p->n_types; t++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "type", p->types[t].name);
        prn_json_integer(w, "hosts", (int64_t)p->types[t].n_hosts);
        prn_json_integer(w, "used", (int64_t)prn_schedule_view_used(view, t));
        prn_json_number(w, prn_schedule_view_figure(view), view->report->one_more[t]);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_json(const struct prn_schedule_view *view, struct prn_buffer *out)
{
    const struct prn_pipeline *p = view->report->pipeline;
    const struct prn_schedule *s = view->report->schedule;
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.schedule/1");
    prn_json_text(&w, "model_name", p->model_name);
    prn_json_text(&w, "dtype", p->dtype);
    prn_json_integer(&w, "batch_size", p->batch_size);
    prn_json_integer(&w, "layers", (int64_t)p->n_layers);
    prn_json_text(&w, "objective", prn_objectives[view->report->goal->objective]);
    struct prn_buffer verdict = PRN_BUFFER_INIT(VERDICT_MAX);
    prn_schedule_view_verdict(view, &verdict);
    prn_json_text(&w, "verdict", prn_buffer_text(&verdict));
    prn_json_text(&w, "answer", prn_buffer_text(&verdict)); /* its former name */
    if (verdict.error)
        out->error = verdict.error;
    prn_buffer_release(&verdict);
    prn_json_bool(&w, "feasible", s->n > 0);
    prn_json_text(&w, "shortage", view->report->shortage);
    prn_json_array(&w, "stages");
    for (size_t i = 0; i < s->n; i++)
        stage_json(&w, &s->stages[i], &view->stages[i]);
    prn_json_end(&w);
    totals_json(&w, view);
    more_json(&w, view);
    if (view->report->simulation)
        prn_simulation_view_json(view, &w);
    else
        prn_json_null(&w, "simulation");
    prn_json_end(&w);
}

/* ---- CSV ---- */

static void totals_csv(const struct prn_schedule_view *view, struct prn_table *t)
{
    prn_table_cell_exact(t, view->period.s);
    prn_table_cell_exact(t, view->period.ci_s);
    prn_table_cell_exact(t, view->throughput);
    prn_table_cell_exact(t, view->throughput_ci);
    prn_table_cell_exact(t, view->latency.s);
    prn_table_cell_exact(t, view->latency.ci_s);
    prn_table_cell_exact(t, view->usd_per_hour);
}

static void stage_csv(const struct prn_schedule_view *view, size_t i, struct prn_table *t)
{
    const struct prn_stage *stage = &view->report->schedule->stages[i];
    const struct prn_stage_view *v = &view->stages[i];
    bool slowest = view->bottleneck == i;
    prn_table_cell(t, "%zu", i + 1);
    prn_table_cell(t, "%s", v->host);
    prn_table_cell(t, "%s", v->type);
    prn_table_cell(t, "%zu", stage->first);
    prn_table_cell(t, "%zu", stage->last);
    const double figures[] = {v->time.s,          v->time.ci_s,  v->idle,      v->memory_bytes,
                              v->available_bytes, v->link_bytes, v->link_mbps, v->link_s};
    for (size_t k = 0; k < PRN_ARRAY_SIZE(figures); k++)
        prn_table_cell_exact(t, figures[k]);
    prn_table_cell(t, "%s", !slowest ? "" : view->bottleneck_is_link ? "link" : "stage");
    totals_csv(view, t);
    prn_table_cell_exact(t, view->report->one_more[stage->type]);
    if (view->report->simulation)
        prn_simulation_view_csv(view, i, t);
}

/* A type that has no stage; what one more of it would change is told all the same. */
static void unused_csv(const struct prn_schedule_view *view, size_t type, struct prn_table *t)
{
    prn_table_cell(t, "%s", "");
    prn_table_cell(t, "%s", "");
    prn_table_cell(t, "%s", view->report->pipeline->types[type].name);
    for (size_t k = 0; k < 11; k++)
        prn_table_cell(t, "%s", "");
    totals_csv(view, t);
    prn_table_cell_exact(t, view->report->one_more[type]);
    if (view->report->simulation)
        prn_simulation_view_csv(view, SIZE_MAX, t);
}

static int write_csv(const struct prn_schedule_view *view, struct prn_buffer *out,
                     struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "stage|host|type|first_layer|last_layer|time_s|time_ci_s|idle|"
                         "memory_bytes|available_bytes|link_bytes|link_mbps|link_s|bottleneck|"
                         "period_s|period_ci_s|throughput_per_s|throughput_ci_per_s|latency_s|"
                         "latency_ci_s|usd_per_hour");
    char more[64];
    snprintf(more, sizeof more, "one_more_%s", prn_schedule_view_figure(view));
    prn_table_column(t, more, PRN_TABLE_ALIGN_LEFT);
    if (view->report->simulation)
        prn_simulation_view_csv_titles(t);
    for (size_t i = 0; i < view->report->schedule->n; i++)
        stage_csv(view, i, t);
    for (size_t i = 0; i < view->report->pipeline->n_types; i++)
        if (prn_schedule_view_used(view, i) == 0)
            unused_csv(view, i, t);
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    if (!json)
        return prn_schedule_view_text(report, out, err);
    write_json(report, out);
    return 0;
}

int prn_schedule_report(const struct prn_schedule_report *report, enum prn_schedule_format format,
                        struct prn_buffer *out, struct prony_error *err)
{
    if (format == PRN_SCHEDULE_FORMAT_YAML)
        return write_yaml(report, out, err);
    struct prn_schedule_view view;
    int code = prn_schedule_view_init(&view, report, err);
    if (code < 0)
        return code;
    if (format == PRN_SCHEDULE_FORMAT_JSON)
        write_json(&view, out);
    else if (format == PRN_SCHEDULE_FORMAT_CSV)
        code = write_csv(&view, out, err);
    else if (format == PRN_SCHEDULE_FORMAT_HTML)
        code = prn_page_of_report(write_part, &view, out, err);
    else
        code = prn_schedule_view_text(&view, out, err);
    if (code == 0)
        code = prn_buffer_error(out, err);
    prn_schedule_view_release(&view);
    return code;
}
