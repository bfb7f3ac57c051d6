/*
 * `prony model`: what is in an ONNX file, and what work one run of it is.
 *
 * A model whose inputs prony can't feed (sequences, inputs without a shape) is still shown; only
 * its work can't be counted then, and the report says why.
 */
#include "cli/command.h"

#include "cli/output.h"
#include "base/format.h"
#include "base/map.h"
#include "base/table.h"
#include "base/text.h"
#include "format/json.h"
#include "model/bindings.h"
#include "model/model.h"
#include "report/prose.h"
#include "report/saved.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct model_options {
    struct prn_strings dims, shapes;
    int format;
    const char *output;
    bool nodes;
};

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_MD };

static const char *const formats[] = {"text", "json", "csv", "md", NULL};

/* Everything that is shown. */
struct view {
    const struct prn_model *model;
    const struct prn_input *inputs; /* NULL when they couldn't be bound */
    const struct prn_work *work;    /* NULL: likewise */
    const char *why_not_counted;    /* then, the reason */
    struct prn_op_work *ops;        /* from `work`, or nodes only */
    size_t n_ops;
    bool show_nodes;
    struct prn_look look; /* of text and Markdown */
};

/* ---- Operators of a model that couldn't be analysed ---- */

struct tally {
    struct prn_map by_name; /* "domain op_type" → index */
    struct prn_arena arena; /* of the keys */
    struct prn_op_work *ops;
    size_t n;
};

static int tally_node(struct tally *t, const struct prn_node *node)
{
    size_t size = strlen(node->domain) + strlen(node->op_type) + 2;
    char *key = prn_arena_alloc(&t->arena, size);
    if (!key)
        return PRONY_ENOMEM;
    snprintf(key, size, "%s %s", node->domain, node->op_type);
    size_t at = prn_map_get(&t->by_name, key);
    if (at == PRN_MAP_NONE) {
        struct prn_op_work *ops = reallocarray(t->ops, t->n + 1, sizeof *ops);
        if (!ops)
            return PRONY_ENOMEM;
        t->ops = ops;
        at = t->n++;
        ops[at] = (struct prn_op_work){.op_type = node->op_type, .domain = node->domain};
        if (prn_map_set(&t->by_name, key, at) < 0)
            return PRONY_ENOMEM;
    }
    t->ops[at].nodes++;
    return 0;
}

static int tally_graph(struct tally *t, const struct prn_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct prn_node *node = &graph->nodes[i];
        if (tally_node(t, node) < 0)
            return PRONY_ENOMEM;
        for (size_t a = 0; a < node->n_attributes; a++)
            for (size_t g = 0; node->attributes[a].graphs && g < node->attributes[a].n; g++)
                if (tally_graph(t, node->attributes[a].graphs[g]) < 0)
                    return PRONY_ENOMEM;
    }
    return 0;
}

static int by_nodes(const void *a, const void *b)
{
    const struct prn_op_work *x = a;
    const struct prn_op_work *y = b;
    if (x->nodes != y->nodes)
        return x->nodes < y->nodes ? 1 : -1;
    return strcmp(x->op_type, y->op_type);
}

/* ---- Values ---- */

/* "batch x 3 x ?", as declared. */
static void write_declared(const struct prn_value *value, struct prn_buffer *out)
{
    if (!value->has_shape) {
        prn_buffer_add(out, "unknown");
        return;
    }
    if (value->rank == 0)
        prn_buffer_add(out, "scalar");
    for (size_t d = 0; d < value->rank; d++) {
        const struct prn_dim *dim = &value->dims[d];
        prn_buffer_add(out, d ? " x " : "");
        if (dim->value >= 0)
            prn_buffer_printf(out, "%" PRId64, dim->value);
        else
            prn_buffer_add(out, dim->param ? dim->param : "?");
    }
}

static void value_row(struct prn_table *t, const char *what, const struct prn_value *value,
                      const char *computed)
{
    struct prn_buffer declared = PRN_BUFFER_INIT((size_t)1 << 16);
    write_declared(value, &declared);
    bool typed = value->kind == PRN_VALUE_TENSOR || value->kind == PRN_VALUE_SPARSE;
    prn_table_cell(t, "%s", what);
    prn_table_cell(t, "%s", value->name);
    prn_table_cell(t, "%s",
                   typed ? prn_dtype_name(value->dtype) : prn_value_kind_name(value->kind));
    prn_table_cell(t, "%s", typed ? prn_buffer_text(&declared) : "-");
    prn_table_cell(t, "%s", computed);
    prn_buffer_release(&declared);
}

static const char *output_dims(const struct view *v, size_t index, struct prn_buffer *out)
{
    prn_buffer_clear(out);
    if (v->work && index < v->work->n_outputs)
        write_declared(&v->work->outputs[index], out);
    else
        prn_buffer_add(out, "-");
    return prn_buffer_text(out);
}

static struct prn_table *new_table(const struct view *v, const char *what_shows)
{
    struct prn_table *t = prn_table_new();
    prn_table_width(t, v->look.width);
    prn_table_rest(t, what_shows, 1);
    return t;
}

static int write_values(const struct view *v, enum prn_table_style style, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_table *t = new_table(v, "a wider terminal");
    prn_table_columns(t, "|~Name|Type|~Declared");
    prn_table_omit(t);
    prn_table_columns(t, "~Here");
    struct prn_buffer dims = PRN_BUFFER_INIT((size_t)1 << 16);
    for (size_t i = 0; i < v->model->n_inputs; i++) {
        prn_buffer_clear(&dims);
        for (size_t d = 0; v->inputs && d < v->inputs[i].rank; d++)
            prn_buffer_printf(&dims, "%s%" PRId64, d ? " x " : "", v->inputs[i].dims[d]);
        if (dims.len == 0)
            prn_buffer_add(&dims, v->inputs ? "scalar" : "-");
        value_row(t, "input", v->model->inputs[i], prn_buffer_text(&dims));
    }
    for (size_t i = 0; i < v->model->graph.n_outputs; i++)
        value_row(t, "output", &v->model->graph.outputs[i], output_dims(v, i, &dims));
    int code = prn_table_write(t, style, out, err);
    prn_buffer_release(&dims);
    prn_table_free(t);
    return code;
}

/* ---- Work ---- */

/* The columns that operators and nodes share. Figures in text are rounded, in CSV exact. */
static void work_columns(struct prn_table *t, bool exact)
{
    static const char *const titles[][2] = {{"FLOPs", "flops"},
                                            {"Share", "share"},
                                            {"Bytes moved", "bytes"},
                                            {"FLOP/byte", "flop_per_byte"}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(titles); i++) {
        prn_table_column(t, titles[i][exact], PRN_TABLE_ALIGN_RIGHT);
        if (i > 0)
            prn_table_omit(t);
    }
}

/* How much of a row's work is known. */
enum known { KNOWN_NOTHING, KNOWN_PART, KNOWN_ALL };

static void work_cells(struct prn_table *t, bool exact, enum known known, double flops,
                       double bytes, double all_flops)
{
    bool counted = known != KNOWN_NOTHING;
    const char *more = known == KNOWN_PART ? "+" : "";
    double share = all_flops > 0 ? flops / all_flops : NAN;
    double intensity = bytes > 0 && known == KNOWN_ALL ? flops / bytes : NAN;
    char text[PRN_FORMAT_SIZE];
    if (exact) {
        prn_table_cell_exact(t, counted ? flops : NAN);
        prn_table_cell_exact(t, counted ? share : NAN);
        prn_table_cell_exact(t, counted ? bytes : NAN);
        prn_table_cell_exact(t, counted ? intensity : NAN);
        return;
    }
    prn_table_cell(t, "%s%s", counted ? prn_format_count(text, flops) : "-", more);
    if (counted && isfinite(share))
        prn_table_cell(t, "%.1f %%", 100 * share);
    else
        prn_table_cell(t, "-");
    prn_table_cell(t, "%s%s", counted ? prn_format_bytes(text, bytes) : "-", more);
    prn_table_cell(
        t, "%s", counted && isfinite(intensity) ? prn_format_significant(text, intensity, 3) : "-");
}

/* Nothing counted is not the same as no work. */
static enum known known_of(uint64_t counted, uint64_t nodes)
{
    return counted == nodes ? KNOWN_ALL : counted > 0 ? KNOWN_PART : KNOWN_NOTHING;
}

/* "Conv", or "com.microsoft.Attention" for what isn't ONNX's own. */
static void op_cell(struct prn_table *t, const char *domain, const char *op_type)
{
    prn_table_cell(t, "%s%s%s", domain, *domain ? "." : "", op_type);
}

static int write_ops(const struct view *v, enum prn_table_style style, struct prn_buffer *out,
                     struct prony_error *err)
{
    bool exact = style == PRN_TABLE_STYLE_CSV;
    double flops = v->work ? v->work->flops : 0;
    struct prn_table *t = new_table(v, "--format csv or a wider terminal");
    prn_table_column(t, exact ? "operator" : "Operator", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    prn_table_column(t, exact ? "nodes" : "Nodes", PRN_TABLE_ALIGN_RIGHT);
    work_columns(t, exact);
    uint64_t nodes = 0;
    uint64_t counted = 0;
    for (size_t i = 0; i < v->n_ops; i++) {
        const struct prn_op_work *op = &v->ops[i];
        op_cell(t, op->domain, op->op_type);
        prn_table_cell(t, "%" PRIu64, op->nodes);
        work_cells(t, exact, known_of(op->counted, op->nodes), op->flops, op->bytes, flops);
        nodes += op->nodes;
        counted += op->counted;
    }
    if (!exact) {
        prn_table_cell(t, "Total");
        prn_table_cell(t, "%" PRIu64, nodes);
        enum known known = v->work ? known_of(counted, nodes) : KNOWN_NOTHING;
        /* A sum that isn't the whole is 100 % of nothing. */
        work_cells(t, false, known, flops, v->work ? v->work->bytes : 0,
                   known == KNOWN_ALL ? flops : 0);
    }
    return prn_table_end(t, style, out, err);
}

static int write_nodes(const struct view *v, enum prn_table_style style, struct prn_buffer *out,
                       struct prony_error *err)
{
    bool exact = style == PRN_TABLE_STYLE_CSV;
    const struct prn_graph *graph = &v->model->graph;
    struct prn_table *t = new_table(v, "--format csv or a wider terminal");
    prn_table_column(t, exact ? "node" : "Node", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    prn_table_column(t, exact ? "operator" : "Operator", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
    work_columns(t, exact);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct prn_node *node = &graph->nodes[i];
        const struct prn_node_work *work =
            v->work && i < v->work->n_nodes ? &v->work->nodes[i] : NULL;
        if (*node->name)
            prn_table_cell(t, "%s", node->name);
        else
            prn_table_cell(t, "#%zu", i);
        op_cell(t, node->domain, node->op_type);
        work_cells(t, exact, work && work->counted ? KNOWN_ALL : KNOWN_NOTHING,
                   work ? work->flops : 0, work ? work->bytes : 0, v->work ? v->work->flops : 0);
    }
    return prn_table_end(t, style, out, err);
}

/* ---- Text and Markdown ---- */

static void add_opsets(const struct prn_model *model, struct prn_buffer *line)
{
    for (size_t i = 0; i < model->n_opsets; i++)
        prn_buffer_printf(line, ", %s %" PRId64,
                          *model->opsets[i].domain ? model->opsets[i].domain : "opset",
                          model->opsets[i].version);
}

static void write_head(const struct prn_model *m, struct prn_prose *p)
{
    char text[PRN_FORMAT_SIZE];
    prn_prose_paragraph(p, "File: %s, %s", m->path, prn_format_bytes(text, (double)m->file_bytes));
    prn_buffer_printf(&p->line, "Format: ONNX, IR version %" PRId64, m->ir_version);
    add_opsets(m, &p->line);
    prn_prose_paragraph(p, "%s%s", *m->producer ? ", by " : "", m->producer);
    prn_buffer_printf(&p->line, "Parameters: %s, ",
                      prn_format_count(text, (double)m->n_parameters));
    prn_buffer_add(&p->line, prn_format_bytes(text, (double)m->parameter_bytes));
    if (m->external_bytes > 0) {
        prn_format_bytes(text, (double)m->external_bytes);
        prn_buffer_printf(&p->line, ", %s of it in %zu other file%s", text, m->n_external_files,
                          m->n_external_files == 1 ? "" : "s");
    }
    prn_prose_flush(p, 0);
    if (m->n_functions > 0)
        prn_prose_paragraph(p, "Functions: %zu", m->n_functions);
    prn_buffer_add_char(p->out, '\n');
}

/* A paragraph after an empty line. */
static void PRN_PRINTF(2, 3) write_note(struct prn_prose *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&p->line, format, args);
    va_end(args);
    prn_buffer_add_char(p->out, '\n');
    prn_prose_flush(p, 0);
}

/* Which dimensions were left open, so that nobody takes batch 1 for more than an assumption. */
static void write_assumed(const struct view *v, struct prn_prose *p)
{
    struct prn_buffer options = PRN_BUFFER_INIT((size_t)1 << 20);
    if (v->inputs)
        prn_open_dims(v->model, v->inputs, &options);
    if (options.len > 0)
        write_note(p, "Dimensions left open count as 1. To set them: %s",
                   prn_buffer_text(&options));
    prn_prose_pass_error(p, &options);
    prn_buffer_release(&options);
    if (v->model->misplaced)
        write_note(p, "Note: " PRN_MISPLACED_NOTE ".", v->model->misplaced);
}

/* Sums that leave something out must not look complete. */
static void write_bounds(const struct view *v, uint64_t nodes, struct prn_prose *p)
{
    if (v->work->n_unknown == nodes && nodes > 0)
        write_note(p, "No node's work is known.");
    else if (v->work->n_unknown > 0)
        write_note(p,
                   "Totals are lower bounds (+): the work of %" PRIu64 " of %" PRIu64
                   " nodes is unknown. Shares are of the known work.",
                   v->work->n_unknown, nodes);
}

static void write_uncounted(const struct view *v, struct prn_prose *p)
{
    if (v->why_not_counted) {
        write_note(p, "Work isn't counted: %s", v->why_not_counted);
        return;
    }
    uint64_t nodes = 0;
    for (size_t i = 0; i < v->n_ops; i++)
        nodes += v->ops[i].nodes;
    write_bounds(v, nodes, p);
    if (v->work->n_uncounted > 0)
        prn_buffer_printf(p->out, "\nNot counted:\n%s", p->markdown ? "\n" : "");
    for (size_t i = 0; i < v->work->n_uncounted; i++) {
        const struct prn_uncounted *u = &v->work->uncounted[i];
        prn_buffer_printf(&p->line, "%" PRIu64 " %s%s%s: %s", u->nodes, u->domain,
                          *u->domain ? "." : "", u->op_type, u->reason);
        prn_prose_flush(p, 2);
    }
}

static int write_tables(const struct view *v, enum prn_table_style style, struct prn_buffer *out,
                        struct prony_error *err)
{
    int code = write_values(v, style, out, err);
    prn_buffer_add(out, "\n");
    if (code == 0)
        code = write_ops(v, style, out, err);
    if (code == 0 && v->show_nodes) {
        prn_buffer_add(out, "\n");
        code = write_nodes(v, style, out, err);
    }
    return code;
}

static int write_report(const struct view *v, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_prose p = prn_prose_init(&v->look, out);
    write_head(v->model, &p);
    int code =
        write_tables(v, p.markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, out, err);
    if (code == 0) {
        write_assumed(v, &p);
        write_uncounted(v, &p);
    }
    prn_prose_release(&p);
    return code;
}

/* ---- JSON ---- */

/* Declared dimensions: numbers, names, or null where open without a name. */
static void json_shape(struct prn_json_writer *w, const char *key, const struct prn_value *value)
{
    if (!value->has_shape) {
        prn_json_null(w, key);
        return;
    }
    prn_json_array_compact(w, key);
    for (size_t d = 0; d < value->rank; d++)
        if (value->dims[d].value >= 0)
            prn_json_integer(w, NULL, value->dims[d].value);
        else
            prn_json_text(w, NULL, value->dims[d].param);
    prn_json_end(w);
}

static void json_value_begin(struct prn_json_writer *w, const struct prn_value *value)
{
    bool typed = value->kind == PRN_VALUE_TENSOR || value->kind == PRN_VALUE_SPARSE;
    prn_json_object(w, NULL);
    prn_json_text(w, "name", value->name);
    prn_json_text(w, "kind", prn_value_kind_name(value->kind));
    prn_json_text(w, "type", typed ? prn_dtype_name(value->dtype) : NULL);
    json_shape(w, "declared", value);
}

static void json_values(struct prn_json_writer *w, const struct view *v)
{
    static const char *const roles[] = {[PRN_INPUT_ROLE_PLAIN] = "plain",
                                        [PRN_INPUT_ROLE_INDEX] = "index",
                                        [PRN_INPUT_ROLE_MASK] = "mask",
                                        [PRN_INPUT_ROLE_LENGTH] = "length"};
    prn_json_array(w, "inputs");
    for (size_t i = 0; i < v->model->n_inputs; i++) {
        json_value_begin(w, v->model->inputs[i]);
        if (v->inputs) {
            const struct prn_input *input = &v->inputs[i];
            prn_json_array_compact(w, "dims");
            for (size_t d = 0; d < input->rank; d++)
                prn_json_integer(w, NULL, input->dims[d]);
            prn_json_end(w);
            prn_json_text(w, "role", roles[input->role]);
            if (input->role == PRN_INPUT_ROLE_INDEX || input->role == PRN_INPUT_ROLE_LENGTH)
                prn_json_integer(w, "bound", input->bound);
        }
        prn_json_end(w);
    }
    prn_json_end(w);
    prn_json_array(w, "outputs");
    for (size_t i = 0; i < v->model->graph.n_outputs; i++) {
        json_value_begin(w, &v->model->graph.outputs[i]);
        if (v->work && i < v->work->n_outputs)
            json_shape(w, "dims", &v->work->outputs[i]);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void json_work(struct prn_json_writer *w, bool counted, double flops, double bytes)
{
    prn_json_number(w, "flops", counted ? flops : NAN);
    prn_json_number(w, "bytes", counted ? bytes : NAN);
}

static void json_ops(struct prn_json_writer *w, const struct view *v)
{
    uint64_t counted = 0;
    prn_json_array(w, "operators");
    for (size_t i = 0; i < v->n_ops; i++) {
        const struct prn_op_work *op = &v->ops[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "op_type", op->op_type);
        prn_json_text(w, "domain", op->domain);
        prn_json_integer(w, "nodes", (int64_t)op->nodes);
        prn_json_integer(w, "counted", (int64_t)op->counted);
        json_work(w, op->counted > 0, op->flops, op->bytes);
        prn_json_end(w);
        counted += op->counted;
    }
    prn_json_end(w);
    prn_json_object(w, "total");
    json_work(w, v->work && (counted > 0 || v->n_ops == 0), v->work ? v->work->flops : 0,
              v->work ? v->work->bytes : 0);
    prn_json_bool(w, "complete", v->work && v->work->n_unknown == 0);
    prn_json_end(w);
    prn_json_array(w, "not_counted");
    for (size_t i = 0; v->work && i < v->work->n_uncounted; i++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "op_type", v->work->uncounted[i].op_type);
        prn_json_text(w, "domain", v->work->uncounted[i].domain);
        prn_json_integer(w, "nodes", (int64_t)v->work->uncounted[i].nodes);
        prn_json_text(w, "reason", v->work->uncounted[i].reason);
        prn_json_end(w);
    }
    prn_json_end(w);
    prn_json_text(w, "why_not_counted", v->why_not_counted);
}

static void json_nodes(struct prn_json_writer *w, const struct view *v)
{
    prn_json_array(w, "nodes");
    for (size_t i = 0; i < v->model->graph.n_nodes; i++) {
        const struct prn_node *node = &v->model->graph.nodes[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "name", node->name);
        prn_json_text(w, "op_type", node->op_type);
        prn_json_text(w, "domain", node->domain);
        bool known = v->work && i < v->work->n_nodes;
        json_work(w, known && v->work->nodes[i].counted, known ? v->work->nodes[i].flops : 0,
                  known ? v->work->nodes[i].bytes : 0);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_json(const struct view *v, struct prn_buffer *out)
{
    const struct prn_model *m = v->model;
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.model/1");
    prn_json_text(&w, "file", m->path);
    prn_json_integer(&w, "file_bytes", (int64_t)m->file_bytes);
    prn_json_integer(&w, "ir_version", m->ir_version);
    prn_json_text(&w, "producer", m->producer);
    prn_json_array(&w, "opsets");
    for (size_t i = 0; i < m->n_opsets; i++) {
        prn_json_object(&w, NULL);
        prn_json_text(&w, "domain", m->opsets[i].domain);
        prn_json_integer(&w, "version", m->opsets[i].version);
        prn_json_end(&w);
    }
    prn_json_end(&w);
    prn_json_integer(&w, "functions", (int64_t)m->n_functions);
    prn_json_integer(&w, "parameters", (int64_t)m->n_parameters);
    prn_json_integer(&w, "parameter_bytes", (int64_t)m->parameter_bytes);
    prn_json_integer(&w, "external_bytes", (int64_t)m->external_bytes);
    prn_json_integer(&w, "external_files", (int64_t)m->n_external_files);
    prn_json_text(&w, "misplaced", m->misplaced);
    json_values(&w, v);
    json_ops(&w, v);
    if (v->show_nodes)
        json_nodes(&w, v);
    prn_json_end(&w);
}

/* ---- The command ---- */

static int write_view(const struct view *v, const struct model_options *o, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 30);
    int code = 0;
    if (o->format == FORMAT_JSON)
        write_json(v, &out);
    else if (o->format == FORMAT_CSV)
        code = (v->show_nodes ? write_nodes : write_ops)(v, PRN_TABLE_STYLE_CSV, &out, err);
    else
        code = write_report(v, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    return code;
}

/* Shows the model without its work, for the reason that `err` has. */
static int show_uncounted(struct view v, const struct model_options *o, struct prony_error *err)
{
    struct prony_error reason = *err;
    struct tally t = {.arena = PRN_ARENA_INIT((size_t)1 << 30)};
    int code = tally_graph(&t, &v.model->graph);
    if (code == 0) {
        if (t.n > 0)
            qsort(t.ops, t.n, sizeof *t.ops, by_nodes);
        v.why_not_counted = reason.text;
        v.ops = t.ops;
        v.n_ops = t.n;
        code = write_view(&v, o, err);
    } else {
        code = prn_fail_memory(err);
    }
    free(t.ops);
    prn_map_release(&t.by_name);
    prn_arena_release(&t.arena);
    return code;
}

static int show(const struct prn_model *model, const struct prn_bindings *bindings,
                struct prn_arena *arena, const struct model_options *o, struct prony_error *err)
{
    struct view v = {.model = model,
                     .show_nodes = o->nodes,
                     .look = prn_output_look(o->output, false, PRN_COLOUR_NEVER)};
    v.look.markdown = o->format == FORMAT_MD;
    struct prn_input *inputs;
    int code = prn_model_bind(model, bindings, arena, &inputs, err);
    /* Misuse without options is an input that needs one. */
    if (code == PRONY_EUNSUPPORTED ||
        (code == PRONY_EUSAGE && bindings->n_dims + bindings->n_shapes == 0))
        return show_uncounted(v, o, err);
    if (code < 0)
        return code;
    struct prn_work *work;
    code = prn_model_analyse(model, inputs, &work, err);
    if (code < 0)
        return code;
    v.inputs = inputs;
    v.work = work;
    v.ops = work->ops;
    v.n_ops = work->n_ops;
    code = write_view(&v, o, err);
    prn_work_free(work);
    return code;
}

static int model_run(const void *opaque, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const struct model_options *o = opaque;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    struct prn_model *model = NULL;
    struct prn_bindings bindings;
    int code = prn_output_spares(o->output, arguments->items[0], err);
    if (code == 0)
        code = prn_bindings_parse(o->dims.items, o->dims.n, o->shapes.items, o->shapes.n, &arena,
                                  &bindings, err);
    if (code == 0)
        code = prn_model_open(arguments->items[0], &model, err);
    if (code == 0)
        code = show(model, &bindings, &arena, o, err);
    prn_model_free(model);
    prn_arena_release(&arena);
    return code;
}

#define FIELD(name) offsetof(struct model_options, name)

static const struct prn_option options[] = {
    PRN_OPTION(LIST, 0, "dim", "NAME=SIZE", FIELD(dims),
               "size of an open dimension, repeatable (default 1)"),
    PRN_OPTION(LIST, 0, "shape", "INPUT=SIZES", FIELD(shapes),
               "shape of an input, repeatable, e.g. x=1x3x224x224"),
    PRN_OPTION(FLAG, 0, "nodes", NULL, FIELD(nodes), "show every node, not only operator types"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format), "text, json, csv or md (default text)",
               .choices = formats),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    {0},
};

const struct prn_command prn_command_model = {
    .name = "model",
    .arguments = "MODEL.onnx",
    .summary = "show a model's contents, and the work of one run",
    .description =
        "Shows a model's inputs, outputs, parameters and operators, and counts the "
        "floating-point operations of one run (a multiply-add is two) and the bytes it moves: "
        "inputs, weights and outputs of every node. What can't be counted is listed.\n"
        "No weight is read and nothing is run. External data must be in the model's folder or "
        "below it; that is checked.",
    .examples = "# the work of a batch of eight\n"
                "prony model resnet50.onnx --dim batch=8\n"
                "# every node, for a spreadsheet\n"
                "prony model resnet50.onnx --nodes --format csv -o nodes.csv",
    .options = options,
    .options_size = sizeof(struct model_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes = PRN_SAVED_BIT(MODEL),
    .run = model_run,
};
