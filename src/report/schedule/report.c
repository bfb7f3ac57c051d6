/* A schedule as YAML and CSV; text.c has the text, json.c the JSON. */
#include "report/schedule/report.h"

#include "format/yaml_write.h"
#include "report/page.h"
#include "report/schedule/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define YAML_MAX ((size_t)256 << 20)

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

/* ---- CSV ---- */

/* A row of a stage or, with only `type` in it, of a type that has none: what one more of it would
 * change is told all the same. */
static void row_csv(const struct prn_schedule_view *view, const struct prn_stage_view *v,
                    size_t stage, size_t type, struct prn_table *t)
{
    bool used = stage < view->report->schedule->n;
    bool slowest = used && view->bottleneck == stage;
    const double link[] = {v->link_bytes, v->link_mbps, v->link_s};
    if (used)
        prn_table_cell(t, "%zu", stage + 1);
    else
        prn_table_cell(t, "%s", "");
    prn_schema_cells(t, &prn_stage_schema, v);
    for (size_t k = 0; k < PRN_ARRAY_SIZE(link); k++)
        prn_table_cell_exact(t, link[k]);
    prn_table_cell(t, "%s", !slowest ? "" : view->bottleneck_is_link ? "link" : "stage");
    prn_schema_cells(t, &prn_totals_schema, view);
    prn_table_cell_exact(t, view->report->one_more[type]);
    if (view->report->simulation)
        prn_simulation_view_csv(view, stage, t);
}

static int write_csv(const struct prn_schedule_view *view, struct prn_buffer *out,
                     struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "stage");
    prn_schema_columns(t, &prn_stage_schema);
    prn_table_columns(t, "link_bytes|link_mbps|link_s|bottleneck");
    prn_schema_columns(t, &prn_totals_schema);
    char more[64];
    snprintf(more, sizeof more, "one_more_%s", prn_schedule_view_figure(view));
    prn_table_column(t, more, PRN_TABLE_ALIGN_LEFT);
    if (view->report->simulation)
        prn_simulation_view_csv_titles(t);
    for (size_t i = 0; i < view->report->schedule->n; i++)
        row_csv(view, &view->stages[i], i, view->report->schedule->stages[i].type, t);
    for (size_t i = 0; i < view->report->pipeline->n_types; i++) {
        struct prn_stage_view none = {.link_bytes = NAN, .link_mbps = NAN, .link_s = NAN};
        prn_schema_clear(&prn_stage_schema, &none);
        none.type = view->report->pipeline->types[i].name;
        none.first = none.last = SIZE_MAX; /* unknown */
        if (prn_schedule_view_used(view, i) == 0)
            row_csv(view, &none, SIZE_MAX, i, t);
    }
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    return (json ? prn_schedule_view_json : prn_schedule_view_text)(report, out, err);
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
        code = prn_schedule_view_json(&view, out, err);
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
